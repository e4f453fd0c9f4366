//! What some tests need of the machine that runs them, and what happens where it is missing.
//!
//! No test passes unseen without having tried anything. What everybody can have (root, a package)
//! is asked for: the test fails and says what to do. What a processor, a kernel or a container does
//! not have leaves a test out, and that is said beside its result and counted by
//! `scripts/run-tests.sh`. Better than both is to test what must hold without it.

use std::fmt::Display;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether the tests run as root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Fails the test unless it runs as root.
///
/// # Panics
///
/// Without root.
#[track_caller]
pub fn root() {
    assert!(
        is_root(),
        "this test acts as root and as \"nobody\", like the master: run the tests as root"
    );
}

/// Says that the rest of this test is left out, and why: the caller returns.
pub fn leave_out(why: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not by a macro, whose output the harness keeps from who runs the tests. In one piece.
    let line = format!("left out: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Where distributions put SoftHSM's PKCS #11 module.
const SOFTHSM: [&str; 4] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
];

/// SoftHSM's PKCS #11 module, if it is installed (`scripts/install-test-deps.sh`).
pub fn softhsm() -> Option<&'static Path> {
    SOFTHSM.iter().map(Path::new).find(|module| module.exists())
}
