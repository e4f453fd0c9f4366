//! Debian's Chromium without a window.

use crate::{Site, command};

/// Opens `url` in a fresh profile and returns the document after its scripts
/// ran, as HTML. Certificate errors are ignored: the authority of a test is in
/// no browser's store.
#[track_caller]
pub fn browse(site: &Site, url: &str) -> String {
    let profile = format!("--user-data-dir={}", site.path("browser").display());
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--ignore-certificate-errors",
        "--virtual-time-budget=120000",
        "--dump-dom",
        &profile,
        url,
    ];
    command("/usr/bin/chromium", &arguments, b"")
        .success()
        .text()
}
