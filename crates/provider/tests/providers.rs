//! Operations by providers: one that pauses and misbehaves, OpenSSL's own, and a TPM.

#[path = "providers/card.rs"]
mod card;
#[path = "providers/faults.rs"]
mod faults;
#[path = "providers/flight.rs"]
mod flight;
#[path = "providers/keys.rs"]
mod keys;
#[path = "providers/refusals.rs"]
mod refusals;
#[path = "providers/schemes.rs"]
mod schemes;
#[path = "providers/tpm.rs"]
mod tpm;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rcgen::PublicKeyData as _;
use sealane_awslc::{KeyOperation, PrivateKey, PublicKey, Secret};
use sealane_provider::{Engine, EngineOptions, Provider, ProviderOptions, ProviderStats};
use sealane_tls::accelerator::{Accelerator, PendingJob, Report, job};

/// For what must happen: a test that waits longer has failed.
const LONG: Duration = Duration::from_secs(120);

/// A key made here, and its public half as AWS-LC has it.
struct Made {
    pem: String,
    private: PrivateKey,
    public: PublicKey,
}

fn made(algorithm: &'static rcgen::SignatureAlgorithm) -> Made {
    let pair = rcgen::KeyPair::generate_for(algorithm).expect("supported");
    let mut pem = pair.serialize_pem();
    if algorithm == &rcgen::PKCS_ED25519 {
        // What rcgen writes includes the public key (RFC 5958), which OpenSSL does not read.
        let private = PrivateKey::from_pem(pem.as_bytes(), &[]).expect("just made");
        let der = private.to_der().expect("memory");
        pem = openssl(&["pkey", "-inform", "DER"], der.expose());
    }
    Made {
        private: PrivateKey::from_pem(pem.as_bytes(), &[]).expect("just made"),
        public: PublicKey::from_spki_der(&pair.subject_public_key_info()).expect("just made"),
        pem,
    }
}

/// Runs the program `openssl` with something at its standard input.
fn openssl(arguments: &[&str], input: &[u8]) -> String {
    let mut child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    let mut stdin = child.stdin.take().expect("piped");
    // It may end before it has read everything.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("PEM")
}

/// Lines that the operator would see.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn report(&self) -> Report {
        let lines = self.0.clone();
        Arc::new(move |text: &str| lines.lock().expect("no panic").push(text.to_owned()))
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

/// An engine with one key.
struct Running {
    engine: Engine,
    accelerator: Arc<dyn Accelerator>,
    key: Made,
    lines: Lines,
}

impl Running {
    fn new(
        provider: &Provider,
        options: EngineOptions,
        algorithm: &'static rcgen::SignatureAlgorithm,
    ) -> Self {
        let lines = Lines::default();
        let engine = Engine::start(provider, options, lines.report()).expect("threads");
        let made = made(algorithm);
        let key = provider.key_from_pem(made.pem.as_bytes(), None);
        let key = key.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            (key.kind(), key.bits()),
            (made.public.kind(), made.public.bits())
        );
        assert!(PublicKey::from_spki_der(key.public_der()).is_ok());
        Self {
            accelerator: engine.accelerator(key),
            engine,
            key: made,
            lines,
        }
    }

    fn submit(&self, operation: KeyOperation) -> PendingJob {
        let (job, pending) = job(operation);
        self.accelerator.submit(job);
        pending
    }

    /// The result of an operation, if it succeeds.
    fn run(&self, operation: KeyOperation) -> Option<Secret> {
        wait(self.submit(operation))
    }

    /// Runs an operation that must succeed.
    fn run_well(&self, operation: KeyOperation) -> Secret {
        let result = self.run(operation.clone());
        let result = result.unwrap_or_else(|| panic!("{operation:?}: {:?}", self.lines.all()));
        let verified = self.key.public.verify_result(&operation, result.expose());
        verified.unwrap_or_else(|error| panic!("{operation:?}: {error}"));
        result
    }

    fn stats(&self) -> &ProviderStats {
        self.engine.stats()
    }
}

fn sign(scheme: u16, message: &str) -> KeyOperation {
    KeyOperation::Sign {
        scheme,
        input: message.as_bytes().to_vec(),
    }
}

/// A number below any modulus of this length.
fn decrypt(bytes: usize) -> KeyOperation {
    let mut input = vec![0x5a; bytes];
    input[0] = 0;
    KeyOperation::Decrypt { input }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a result.
fn wait(pending: PendingJob) -> Option<Secret> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut pending = pending;
    let deadline = Instant::now() + LONG;
    loop {
        if let Poll::Ready(result) = pending.poll(&mut cx) {
            return result;
        }
        assert!(Instant::now() < deadline, "no result");
        std::thread::park_timeout(LONG);
    }
}

/// Waits until something is so that another thread brings about and tells nobody.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn patient() -> EngineOptions {
    EngineOptions {
        timeout: LONG,
        ..EngineOptions::default()
    }
}

/// The compiled provider. `None`: the test is left out.
fn module() -> Option<&'static Path> {
    static MODULE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    match MODULE.get_or_init(|| card::compile(directory)) {
        Ok(module) => Some(module),
        Err(why) => {
            sealane_needs::leave_out(why);
            None
        }
    }
}

/// The provider of these tests with parameters. `None`: the test is left out.
fn card_with(parameters: &[(&str, &str)]) -> Option<Provider> {
    let provider = card::load(module()?, parameters);
    Some(provider.unwrap_or_else(|error| panic!("{error}")))
}

/// OpenSSL's own provider.
fn default_provider() -> Provider {
    let loaded = Provider::load(&ProviderOptions {
        name: "default".into(),
        conf: None,
        library: card::library(),
    });
    loaded.unwrap_or_else(|error| panic!("{error}"))
}
