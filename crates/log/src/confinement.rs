//! Which of its rights to files this process has given up (`worker_landlock`,
//! `worker_landlock_read`), for messages about operations that fail because of it.

use std::sync::OnceLock;

/// The process is confined, permanently; whether reading is as well.
static CONFINED: OnceLock<bool> = OnceLock::new();

/// From now on this process is confined in changing files, and in reading them if `reads`.
pub fn begin(reads: bool) {
    let _ = CONFINED.set(reads);
}

/// The text to add to the message about a denied change of a file.
pub fn reason(errno: Option<i32>) -> &'static str {
    match CONFINED.get() {
        Some(_) if errno == Some(libc::EACCES) => {
            "; besides its user's rights, \"worker_landlock\" confines the worker process to \
             directories that existed when it started: reload if one has been replaced since"
        }
        _ => "",
    }
}

/// The text to add to the message about a file or directory that may not be read.
pub fn read_reason(errno: Option<i32>) -> &'static str {
    match CONFINED.get() {
        Some(true) if errno == Some(libc::EACCES) => {
            "; besides its user's rights, \"worker_landlock_read\" confines the worker process to \
             what its configuration served when it started: reload if a directory has been created \
             or replaced since, and add the place to the directive if a symbolic link leads there"
        }
        _ => "",
    }
}
