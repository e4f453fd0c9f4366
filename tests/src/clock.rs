//! Programs whose clocks differ.

use std::path::Path;

/// The library of Debian's package `faketime` that works with threads, for `LD_PRELOAD`.
///
/// # Panics
///
/// When the package is not installed.
pub fn faketime_library() -> String {
    let found = ["x86_64", "aarch64"]
        .map(|machine| format!("/usr/lib/{machine}-linux-gnu/faketime/libfaketimeMT.so.1"))
        .into_iter()
        .find(|path| Path::new(path).exists());
    found.expect("faketime is installed (scripts/install-test-deps.sh)")
}
