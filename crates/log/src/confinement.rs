//! Whether this process is confined to changing files in certain directories, for messages about
//! operations that fail because of it.

use std::sync::OnceLock;

/// The process is confined, permanently.
static CONFINED: OnceLock<()> = OnceLock::new();

/// From now on this process is confined (`worker_landlock`).
pub fn begin() {
    let _ = CONFINED.set(());
}

/// The text to add to the message about a denied change of a file.
pub fn reason(errno: Option<i32>) -> &'static str {
    if errno == Some(libc::EACCES) && CONFINED.get().is_some() {
        "; besides its user's rights, \"worker_landlock\" confines the worker process to \
         directories that existed when it started: reload if one has been replaced since"
    } else {
        ""
    }
}
