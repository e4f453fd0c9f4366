//! The programs of `tests/clients/quic`, built or installed at their first use.

use super::{QuicClient, QuicRun, QuicScript};
use crate::go::build_program;
use crate::{Outcome, command, repository};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Debian's, for which the checksums of packages are.
const PYTHON: &str = "/usr/bin/python3";

impl QuicClient {
    /// Builds or installs it now, which may take minutes: for a test that waits for what it does.
    #[must_use]
    pub fn built(self) -> QuicClient {
        match self {
            QuicClient::QuicGo | QuicClient::Quinn => drop(quic_client_path(self)),
            QuicClient::Aioquic | QuicClient::Curl => drop(packages()),
        }
        self
    }

    /// Runs a script.
    ///
    /// # Panics
    ///
    /// If the program cannot do what a step asks for. What a server does is no reason.
    #[track_caller]
    pub fn run(self, script: &QuicScript) -> QuicRun {
        let input = script.to_json().to_string();
        let outcome = self.start(input.as_bytes()).success();
        let value = serde_json::from_slice(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{self:?}: {error}: {}", outcome.text()));
        QuicRun::from_json(&value)
    }

    #[track_caller]
    fn start(self, input: &[u8]) -> Outcome {
        match self {
            QuicClient::Aioquic => python("client.py", &[], input),
            QuicClient::Curl => python("curl.py", &[], input),
            QuicClient::QuicGo | QuicClient::Quinn => {
                command::<&str>(&quic_client_path(self).display().to_string(), &[], input)
            }
        }
    }
}

/// Where a client program is that reads a script from its standard input, for a test that measures
/// it.
///
/// # Panics
///
/// For a client that Python runs.
#[track_caller]
pub fn quic_client_path(client: QuicClient) -> PathBuf {
    static GO: OnceLock<PathBuf> = OnceLock::new();
    static QUINN: OnceLock<PathBuf> = OnceLock::new();
    match client {
        QuicClient::QuicGo => GO.get_or_init(build_go).clone(),
        QuicClient::Quinn => QUINN.get_or_init(build_quinn).clone(),
        QuicClient::Aioquic | QuicClient::Curl => panic!("{client:?} is a program in Python"),
    }
}

pub(super) fn run_faults(address: SocketAddr, authority: &Path, text: &str) -> String {
    let address = address.to_string();
    let authority = authority.display().to_string();
    let arguments = [&*address, &*authority, text];
    python("faults.py", &arguments, b"").success().text()
}

pub(super) fn run_flood(address: SocketAddr, authority: &Path, name: &str) -> String {
    let address = address.to_string();
    let authority = authority.display().to_string();
    let arguments = [&*address, &*authority, name];
    python("floods.py", &arguments, b"").success().text()
}

/// The directory of this profile, where programs are kept between runs.
fn profile() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.ancestors().nth(2);
    profile
        .expect("a test lies in TARGET/PROFILE/deps")
        .to_owned()
}

fn build_go() -> PathBuf {
    build_program(
        "tests/clients/quic/go",
        ".",
        "quic-go-client",
        &[("GOTOOLCHAIN", "local")],
    )
}

fn build_quinn() -> PathBuf {
    let target = profile().join("quinn-client");
    let manifest = repository().join("tests/clients/quic/quinn/Cargo.toml");
    let words: [OsString; 6] = [
        "build".into(),
        "--release".into(),
        "--locked".into(),
        "--quiet".into(),
        "--manifest-path".into(),
        manifest.into(),
    ];
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    // A workspace of its own, which is not built anew for each instrumentation of the tests.
    let output = Command::new(cargo)
        .args(words)
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs this test");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo build: {stderr}");
    target.join("release/quinn-client")
}

/// Runs a program of `tests/clients/quic/python`.
#[track_caller]
fn python(script: &str, arguments: &[&str], input: &[u8]) -> Outcome {
    let packages = packages().display();
    let script = repository()
        .join("tests/clients/quic/python")
        .join(script)
        .display()
        .to_string();
    let path = format!("PYTHONPATH={packages}");
    let words = [&*path, PYTHON, "-B", &script];
    command("env", &[&words, arguments].concat(), input)
}

/// Where what the programs import is installed.
fn packages() -> &'static Path {
    static PACKAGES: OnceLock<PathBuf> = OnceLock::new();
    PACKAGES.get_or_init(install)
}

/// Installs what the programs import, into a directory that only they look at. The checksums are
/// in the repository.
fn install() -> PathBuf {
    let source = repository().join("tests/clients/quic/python/requirements.txt");
    let directory = profile().join("quic-python");
    let read = |path: &Path| std::fs::read(path).ok();
    let copy = "requirements.txt";
    if read(&directory.join(copy)) != read(&source) {
        // Renamed when it is complete.
        let new = profile().join(format!("quic-python.{}", std::process::id()));
        std::fs::create_dir_all(&new).expect("the target directory is writable");
        let words = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
            "--target",
            &new.display().to_string(),
            "-r",
            &source.display().to_string(),
        ];
        command(PYTHON, &words, b"").success();
        std::fs::copy(&source, new.join(copy)).expect("copying a file");
        let _ = std::fs::remove_dir_all(&directory);
        if std::fs::rename(&new, &directory).is_err() {
            // Another test was faster; what it has installed is the same.
            assert!(directory.join(copy).exists(), "cannot rename {new:?}");
            let _ = std::fs::remove_dir_all(&new);
        }
    }
    directory
}
