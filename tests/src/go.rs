//! The Go client of `tests/clients/go`.

use crate::{Outcome, Server, Site, command, repository};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Runs the Go client, which is built at its first use.
#[track_caller]
pub fn go_client(arguments: &[&str], input: &[u8]) -> Outcome {
    command(&go_client_path().display().to_string(), arguments, input)
}

/// What the client says of GETs to the port `%tls%`, a line each: status, bytes, digest, path.
/// `options` come before the paths, or before `-` for those in `input`.
#[track_caller]
pub fn go_get(site: &Site, server: &Server<'_>, options: &[&str], input: &[u8]) -> String {
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let authority = site.authority().display().to_string();
    let common = ["get", "-address", &address, "-ca", &authority];
    go_client(&[&common, options].concat(), input)
        .success()
        .text()
}

/// The path of the client, for a test that talks to it while it runs.
pub fn go_client_path() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(build).clone()
}

/// The path of the collector of `tests/clients/otlp`, which is built at its first use.
pub fn collector_path() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    // The checksums of what is fetched are in the repository.
    let build = || {
        build_program(
            "tests/clients/otlp",
            ".",
            "otlp-collector",
            &[("GOTOOLCHAIN", "local")],
        )
    };
    BINARY.get_or_init(build).clone()
}

/// The path of the mail client of `tests/clients/mail`, which is built at its first use.
pub fn mail_client_path() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        build_program(
            "tests/clients/mail",
            ".",
            "mail-client",
            &[("GOTOOLCHAIN", "local")],
        )
    };
    BINARY.get_or_init(build).clone()
}

/// Whether Go is at least version 1.`minor`. If not, says that the test is left out: the caller
/// returns.
pub fn has_go(minor: u32) -> bool {
    let output = command("go", &["env", "GOVERSION"], b"").success().text();
    let version = output.trim().strip_prefix("go1.").unwrap_or_default();
    let digits = version.split(|c: char| !c.is_ascii_digit()).next();
    let installed: u32 = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    if installed < minor {
        sealane_needs::leave_out(format!("Go is older than 1.{minor}"));
    }
    installed >= minor
}

fn build() -> PathBuf {
    build_program(
        "tests/clients/go",
        ".",
        "go-client",
        &[
            // Standard library only: nothing to fetch, no other toolchain either.
            ("GOPROXY", "off"),
            ("GOTOOLCHAIN", "local"),
        ],
    )
}

/// Builds a package of the module in a directory of the repository.
#[track_caller]
pub(crate) fn build_program(
    module: &str,
    package: &str,
    name: &str,
    environment: &[(&str, &str)],
) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("a test lies in TARGET/PROFILE/deps");
    // Renamed into place: another test may be running the one that is there.
    let new = profile.join(format!("{name}.{}", std::process::id()));
    let output = Command::new("go")
        .args(["build", "-o"])
        .arg(&new)
        .arg(package)
        .current_dir(repository().join(module))
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod")
        .envs(environment.iter().copied())
        .output()
        .expect("Go is installed (scripts/install-test-deps.sh)");
    assert!(
        output.status.success(),
        "go build: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let binary = profile.join(name);
    std::fs::rename(&new, &binary).expect("the target directory is writable");
    binary
}
