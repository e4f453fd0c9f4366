//! Debian's Chromium without a window.

use crate::{Outcome, Site, command, repository};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Its clock runs as fast as the scripts allow.
const FAST_CLOCK: &str = "--virtual-time-budget=120000";

/// Opens `url` in a fresh profile and returns the document after its scripts
/// ran, as HTML. Certificate errors are ignored: the authority of a test is in
/// no browser's store.
#[track_caller]
pub fn browse(site: &Site, url: &str) -> String {
    chromium(site, url, &[FAST_CLOCK, "--disable-quic"])
}

/// The same over HTTP/3: the browser asks for `https://localhost:PORT/...` by QUIC and by nothing
/// else. `certificate` is that of the server, as PEM.
#[track_caller]
pub fn browse_by_quic(site: &Site, certificate: &Path, port: u16, path: &str) -> String {
    let force = format!("--origin-to-force-quic-on=localhost:{port}");
    // QUIC does not follow --ignore-certificate-errors.
    let trust = format!(
        "--ignore-certificate-errors-spki-list={}",
        key_digest(certificate)
    );
    // Not to ::1, from where nobody would answer.
    let resolver = "--host-resolver-rules=MAP localhost 127.0.0.1";
    let url = format!("https://localhost:{port}{path}");
    chromium(site, &url, &[FAST_CLOCK, &force, &trust, resolver])
}

/// The SHA-256 of a certificate's public key, in base64.
#[track_caller]
fn key_digest(certificate: &Path) -> String {
    let openssl = |words: &[&str], input: &[u8]| command("openssl", words, input).success().stdout;
    let certificate = certificate.display().to_string();
    let key = openssl(&["x509", "-in", &certificate, "-pubkey", "-noout"], b"");
    let key = openssl(&["pkey", "-pubin", "-outform", "der"], &key);
    let digest = openssl(&["dgst", "-sha256", "-binary"], &key);
    let text = openssl(&["base64", "-A"], &digest);
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// The same in real time, as the document is once everything that it names is loaded. For pages
/// whose scripts wait for what stands still with the clock: WebSockets.
#[track_caller]
pub fn browse_until_loaded(site: &Site, url: &str) -> String {
    chromium(site, url, &["--timeout=60000", "--disable-quic"])
}

#[track_caller]
fn chromium(site: &Site, url: &str, options: &[&str]) -> String {
    let profile = format!("--user-data-dir={}", site.path("browser").display());
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--ignore-certificate-errors",
        "--dump-dom",
        &profile,
        url,
    ];
    command("/usr/bin/chromium", &[&arguments, options].concat(), b"")
        .success()
        .text()
}

/// Runs the client of `tests/clients/pages`, which looks at the page of `console` and at reports.
/// Its modules are installed at its first use; their checksums are in the repository.
#[track_caller]
pub fn page_client(arguments: &[&str]) -> Outcome {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let script = DIRECTORY.get_or_init(install).join("client.mjs");
    let script = script.display().to_string();
    command("node", &[&[&*script], arguments].concat(), b"")
}

fn install() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("a test lies in TARGET/PROFILE/deps");
    let source = repository().join("tests/clients/pages");
    let directory = profile.join("page-client");
    let read = |path: &Path| std::fs::read(path).ok();
    let lock = "package-lock.json";
    if read(&directory.join(lock)) != read(&source.join(lock)) {
        // Renamed when it is complete.
        let new = profile.join(format!("page-client.{}", std::process::id()));
        std::fs::create_dir_all(&new).expect("the target directory is writable");
        for name in ["package.json", lock] {
            std::fs::copy(source.join(name), new.join(name)).expect("copying a file");
        }
        let prefix = new.display().to_string();
        let words = ["ci", "--no-audit", "--no-fund", "--prefix", &prefix];
        command("npm", &words, b"").success();
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::rename(&new, &directory).expect("the target directory is writable");
    }
    // Beside its modules, where Node looks for them.
    std::fs::copy(source.join("client.mjs"), directory.join("client.mjs")).expect("copying a file");
    directory
}
