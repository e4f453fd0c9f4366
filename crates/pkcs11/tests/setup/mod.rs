//! Tokens of SoftHSM for tests. Modules are one for each process, and SoftHSM reads its
//! environment when it is loaded, so each test runs in a process of its own.

#![allow(dead_code)] // Each test file takes what it needs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use base64::Engine;
use sealane_awslc::{KeyKind, KeyOperation, PrivateKey, Secret};
use sealane_pkcs11::{OpenError, Options, TokenKey, Uri, wait_for_threads};
use sealane_tls::accelerator::{Accelerator, PendingJob, job};

const DIRECTORY: &str = "SEALANE_PKCS11_TEST_DIRECTORY";
pub(crate) const PIN: &str = "1234";
/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The directory of a test.
pub(crate) struct Setup {
    pub(crate) directory: PathBuf,
    reports: Arc<Mutex<Vec<String>>>,
}

/// Runs a test in a process of its own, with a directory for tokens. A test may end its process.
pub(crate) fn in_own_process(test: impl FnOnce(&Setup)) {
    run(test, true);
}

/// The same for a test whose process must not end well.
pub(crate) fn in_own_process_that_dies(test: impl FnOnce(&Setup)) {
    run(test, false);
}

fn run(test: impl FnOnce(&Setup), ends_well: bool) {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let setup = Setup {
            directory: directory.into(),
            reports: Arc::default(),
        };
        test(&setup);
        assert!(wait_for_threads(PATIENCE), "all keys are dropped");
        return;
    }
    if sealane_needs::softhsm().is_none() {
        sealane_needs::leave_out("SoftHSM is not installed (scripts/install-test-deps.sh)");
        return;
    }
    let thread = std::thread::current();
    let name = thread.name().expect("the harness names its threads");
    let directory = std::env::temp_dir().join(format!("sealane-{}-{name}", std::process::id()));
    std::fs::create_dir_all(directory.join("tokens")).expect("a directory");
    let configuration = format!(
        "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
        directory.join("tokens").display()
    );
    std::fs::write(directory.join("softhsm2.conf"), configuration).expect("a file");
    let output = Command::new(std::env::current_exe().expect("this file"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, &directory)
        .env("SOFTHSM2_CONF", directory.join("softhsm2.conf"))
        .env("SOFTHSM2_MODULE", module())
        .env("FAULTS", &directory)
        .output()
        .expect("the test itself");
    let _ = std::fs::remove_dir_all(&directory);
    let text = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.success(), ends_well, "{text}");
    assert_eq!(text.contains("1 passed"), ends_well, "{text}");
}

pub(crate) fn module() -> &'static Path {
    sealane_needs::softhsm().expect("tests begin only if it is installed")
}

impl Setup {
    /// Makes a token, and returns what SoftHSM says about it.
    pub(crate) fn token(&self, label: &str) {
        let arguments = [
            "--init-token",
            "--free",
            "--label",
            label,
            "--so-pin",
            "5678",
        ];
        softhsm2_util(&[&arguments[..], &["--pin", PIN]].concat());
    }

    /// Makes a key and puts it into a token. Returns the key and its certificate.
    pub(crate) fn key(
        &self,
        token: &str,
        label: &str,
        id: &str,
        algorithm: &'static rcgen::SignatureAlgorithm,
    ) -> Made {
        let pair = rcgen::KeyPair::generate_for(algorithm).expect("supported");
        let file = self.directory.join("key.pem");
        std::fs::write(&file, pkcs8_pem(&pair)).expect("a file");
        let file = file.to_str().expect("UTF-8");
        let arguments = ["--import", file, "--token", token, "--label", label];
        softhsm2_util(&[&arguments[..], &["--id", id, "--pin", PIN]].concat());
        let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        let certificate = params.self_signed(&pair).expect("the key signs");
        Made {
            certificate_pem: certificate.pem(),
            certificate_der: certificate.der().to_vec(),
        }
    }

    pub(crate) fn options(&self) -> Options {
        let reports = self.reports.clone();
        Options::new(Arc::new(move |text: &str| {
            reports.lock().expect("no panic").push(text.to_owned());
        }))
    }

    /// What the operator was told. Waits until it is so much.
    #[track_caller]
    pub(crate) fn reports<const N: usize>(&self) -> [String; N] {
        let told = || self.reports.lock().expect("no panic").clone();
        eventually("reports come after jobs", || told().len() >= N);
        told().try_into().expect("and no more")
    }

    pub(crate) fn try_open(&self, uri: &str) -> Result<TokenKey, OpenError> {
        let pin = Secret::new(format!("{PIN}\n").into_bytes());
        let uri = Uri::parse(uri).expect("a URI");
        TokenKey::open(&uri, module(), Some(&pin), &self.options())
    }

    #[track_caller]
    pub(crate) fn open(&self, uri: &str) -> TokenKey {
        self.try_open(uri).unwrap_or_else(|error| panic!("{error}"))
    }
}

pub(crate) struct Made {
    pub(crate) certificate_pem: String,
    pub(crate) certificate_der: Vec<u8>,
}

/// Of PKCS #8 in its first version, which is what SoftHSM reads: rcgen adds the public key to those
/// of Ed25519.
fn pkcs8_pem(pair: &rcgen::KeyPair) -> String {
    let pem = pair.serialize_pem();
    let key = PrivateKey::from_pem(pem.as_bytes(), &[]).expect("a key");
    if key.kind() != KeyKind::Ed25519 {
        return pem;
    }
    let der = key.to_der().expect("memory");
    let text = base64::engine::general_purpose::STANDARD.encode(der.expose());
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

fn softhsm2_util(arguments: &[&str]) {
    let output = Command::new("softhsm2-util").args(arguments).output();
    let output = output.expect("softhsm2-util is installed with the module");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
}

pub(crate) fn sign(scheme: u16, message: &[u8]) -> KeyOperation {
    KeyOperation::Sign {
        scheme,
        input: message.to_vec(),
    }
}

pub(crate) fn submit(key: &TokenKey, operation: KeyOperation) -> PendingJob {
    let (job, pending) = job(operation);
    key.submit(job);
    pending
}

/// Has the key compute, and waits for it.
pub(crate) fn perform(key: &TokenKey, operation: KeyOperation) -> Option<Secret> {
    wait(submit(key, operation))
}

/// Waits for the end of an operation.
#[track_caller]
pub(crate) fn wait(mut pending: PendingJob) -> Option<Secret> {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let start = Instant::now();
    loop {
        if let Poll::Ready(result) = pending.poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        std::thread::park_timeout(PATIENCE);
        assert!(start.elapsed() < PATIENCE, "every job ends");
    }
}

/// Waits for what must be true at some time.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
