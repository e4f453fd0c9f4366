//! The secrets of connections as lines of NSS's key log, by which Wireshark and others decrypt what
//! they have recorded. Debug builds have this, and others do not.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

use zeroize::Zeroizing;

static FILE: OnceLock<File> = OnceLock::new();

/// Has the secrets of all connections appended to a file that was opened for that
/// (`O_APPEND`): those of contexts that are built from now on. Another file takes no effect once
/// there is one.
pub fn start_key_log(file: File) {
    let _ = FILE.set(file);
}

/// Whether there is a file.
pub(crate) fn is_started() -> bool {
    FILE.get().is_some()
}

/// Appends a line. What cannot be written is lost.
pub(crate) fn append(line: &[u8]) {
    if let Some(mut file) = FILE.get() {
        let text = Zeroizing::new([line, b"\n"].concat());
        // In one call: all threads and processes append to this file.
        let _ = file.write_all(&text);
    }
}
