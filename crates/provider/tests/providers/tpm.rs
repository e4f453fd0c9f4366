//! Keys in a TPM: swtpm, by the provider `tpm2` (tpm2-openssl).
//!
//! The provider finds its TPM by an environment variable (what its manual says of a configuration
//! file does not work in version 1.1.1 with OpenSSL 3.0). So each test starts itself once more, as
//! another process with that variable.

use super::*;
use std::process::Child;

/// A TPM without hardware.
struct Tpm {
    directory: PathBuf,
    process: Child,
}

/// Where OpenSSL has its modules.
fn modules() -> PathBuf {
    let text = openssl(&["version", "-m"], b"");
    let path = text.split('"').nth(1).expect("MODULESDIR: \"...\"");
    PathBuf::from(path)
}

/// What is missing for these tests.
fn missing() -> Option<String> {
    if let Some(other) = card::library() {
        return Some(format!(
            "tpm2-openssl belongs to the system's OpenSSL, not to {other:?}"
        ));
    }
    for (program, package) in [("swtpm", "swtpm"), ("tpm2_create", "tpm2-tools")] {
        if Command::new(program).arg("--version").output().is_err() {
            return Some(format!("there is no {program} (Debian: package {package})"));
        }
    }
    let module = modules().join("tpm2.so");
    let why = format!(
        "there is no {} (Debian: package tpm2-openssl)",
        module.display()
    );
    (!module.exists()).then_some(why)
}

impl Tpm {
    /// Starts one. `None`: the test is left out.
    fn start(name: &str) -> Option<Self> {
        if let Some(why) = missing() {
            sealane_needs::leave_out(why);
            return None;
        }
        let directory = std::env::temp_dir();
        let directory = directory.join(format!("sealane-tpm-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("room");
        let at = |file: &str| format!("type=unixio,path={}", directory.join(file).display());
        let process = Command::new("swtpm")
            .args(["socket", "--tpm2", "--flags", "not-need-init,startup-clear"])
            .args(["--tpmstate", &format!("dir={}", directory.display())])
            .args(["--server", &at("tpm"), "--ctrl", &at("tpm.ctrl")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("swtpm starts");
        let tpm = Self { directory, process };
        until("it listens", || {
            let connected =
                |file| std::os::unix::net::UnixStream::connect(tpm.directory.join(file));
            connected("tpm.ctrl").is_ok()
        });
        Some(tpm)
    }

    /// How programs reach it (tpm2-tss).
    fn tcti(&self) -> String {
        format!("swtpm:path={}", self.directory.join("tpm").display())
    }

    /// Runs a program that uses it. It takes one at a time.
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&self.directory)
            .env("TPM2TOOLS_TCTI", self.tcti())
            .env("TPM2OPENSSL_TCTI", self.tcti())
            .output()
            .expect("it is installed");
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {output:?}"
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Makes a key in it, which only it can read.
    fn key(&self, arguments: &[&str]) -> String {
        let common = [
            "-provider",
            "tpm2",
            "-provider",
            "default",
            "-propquery",
            "?provider=tpm2",
        ];
        let all: Vec<&str> = ["genpkey"]
            .iter()
            .chain(&common)
            .chain(arguments)
            .copied()
            .collect();
        self.run("openssl", &all)
    }

    /// Runs a test of this file once more, as a process that uses this TPM.
    fn run_test(&self, name: &str) {
        let output = Command::new(std::env::current_exe().expect("it runs"))
            .args(["--exact", name, "--nocapture"])
            .env("TPM2OPENSSL_TCTI", self.tcti())
            .env(DIRECTORY, &self.directory)
            .output()
            .expect("it can be run");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        assert!(text.contains("1 passed"), "{text}{errors}");
    }
}

/// Tells a test that it is the process that uses the TPM, and where its files are.
const DIRECTORY: &str = "SEALANE_TEST_TPM";

fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

fn provider() -> Provider {
    let provider = Provider::load(&ProviderOptions {
        name: "tpm2".into(),
        ..ProviderOptions::default()
    });
    provider.unwrap_or_else(|error| panic!("{error}"))
}

impl Drop for Tpm {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Signs with a key of the TPM; whoever has the public half accepts the signature.
fn assert_signs(provider: &Provider, key: sealane_provider::ProviderKey, schemes: &[u16]) {
    assert_eq!(key.computing_provider(), "tpm2");
    let public = PublicKey::from_spki_der(key.public_der()).expect("its public half");
    let lines = Lines::default();
    let engine = Engine::start(provider, patient(), lines.report()).expect("threads");
    let accelerator = engine.accelerator(key);
    for scheme in schemes {
        let operation = sign(*scheme, "message");
        let (job, pending) = job(operation.clone());
        accelerator.submit(job);
        let result = wait(pending);
        let result = result.unwrap_or_else(|| panic!("{scheme:#x}: {:?}", lines.all()));
        assert!(
            public.verify_result(&operation, result.expose()).is_ok(),
            "{scheme:#x}"
        );
    }
}

#[test]
fn keys_in_pem_that_only_the_tpm_can_read() {
    if let Some(directory) = directory() {
        let provider = provider();
        for (name, schemes) in [
            ("rsa.pem", &[0x0401, 0x0501, 0x0804, 0x0805][..]),
            ("elliptic.pem", &[0x0403]),
        ] {
            let pem = std::fs::read(directory.join(name)).expect("it was made");
            let key = provider.key_from_pem(&pem, None);
            let key = key.unwrap_or_else(|error| panic!("{error}"));
            assert_signs(&provider, key, schemes);
        }
        return;
    }
    let Some(tpm) = Tpm::start("pem") else {
        return;
    };
    let rsa = tpm.key(&["-algorithm", "RSA", "-pkeyopt", "bits:2048"]);
    let elliptic = tpm.key(&["-algorithm", "EC", "-pkeyopt", "group:P-256"]);
    assert!(rsa.starts_with("-----BEGIN TSS2 PRIVATE KEY-----"), "{rsa}");
    for (name, pem) in [("rsa.pem", rsa), ("elliptic.pem", elliptic)] {
        std::fs::write(tpm.directory.join(name), pem).expect("room");
    }
    tpm.run_test("tpm::keys_in_pem_that_only_the_tpm_can_read");
}

#[test]
fn a_key_that_stays_in_the_tpm_and_has_a_passphrase() {
    if directory().is_some() {
        return sign_with_handle();
    }
    let Some(tpm) = Tpm::start("handle") else {
        return;
    };
    let steps: [&[&str]; 4] = [
        &["tpm2_createprimary", "-Q", "-C", "o", "-c", "primary"],
        &[
            "tpm2_create",
            "-Q",
            "-C",
            "primary",
            "-G",
            "ecc",
            "-p",
            "sesame",
            "-u",
            "public",
            "-r",
            "private",
        ],
        &[
            "tpm2_load",
            "-Q",
            "-C",
            "primary",
            "-u",
            "public",
            "-r",
            "private",
            "-c",
            "key",
        ],
        &[
            "tpm2_evictcontrol",
            "-Q",
            "-C",
            "o",
            "-c",
            "key",
            "0x81000001",
        ],
    ];
    for step in steps {
        tpm.run(step[0], &step[1..]);
        tpm.run("tpm2_flushcontext", &["-t"]);
    }
    tpm.run_test("tpm::a_key_that_stays_in_the_tpm_and_has_a_passphrase");
}

fn sign_with_handle() {
    let provider = provider();
    let passphrase = Secret::new(b"sesame".to_vec());
    let key = provider.key_from_uri("handle:0x81000001?pass", Some(&passphrase));
    let key = key.unwrap_or_else(|error| panic!("{error}"));
    assert_signs(&provider, key, &[0x0403]);
    let other = provider.key_from_uri("handle:0x81000002", None);
    let text = other.expect_err("there is no such key").to_string();
    assert!(
        text.contains("\"tpm2\" has no private key for this"),
        "{text}"
    );
}
