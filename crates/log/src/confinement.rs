//! Whether this process may change files in some directories only, for the messages of what
//! fails because of it.

use std::sync::OnceLock;

/// The process is confined, for good.
static CONFINED: OnceLock<()> = OnceLock::new();

/// From now on this process is confined (`worker_landlock`).
pub fn begin() {
    let _ = CONFINED.set(());
}

/// What to add to the message of a change to a file that was denied.
pub fn reason(errno: Option<i32>) -> &'static str {
    if errno == Some(libc::EACCES) && CONFINED.get().is_some() {
        "; besides its user's rights, \"worker_landlock\" confines the worker process to \
         directories that were there when it started: reload if one was replaced since"
    } else {
        ""
    }
}
