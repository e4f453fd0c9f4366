//! The threads of this crate, which are in modules, or may be at any time.
//!
//! A process that ends by `exit` runs what modules have left to be done at its end. If a thread is
//! in a module at that time, the process may crash instead of ending.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::module::lock;

static COUNT: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// A thread that counts.
struct Counted;

impl Counted {
    fn new() -> Self {
        *lock(&COUNT) += 1;
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *lock(&COUNT) -= 1;
        ENDED.notify_all();
    }
}

/// Starts a thread.
pub(crate) fn start(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let counted = Counted::new();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let _counted = counted;
        run();
    });
    thread.map(drop)
}

/// Waits until no thread of this crate is left, but no longer than `patience`: for a process that
/// has dropped its keys and is about to end. `false`: there are some, in modules that hang, or of
/// keys that have not been dropped; the process had better end by `_exit`.
pub fn wait_for_threads(patience: Duration) -> bool {
    let count = lock(&COUNT);
    let waited = ENDED.wait_timeout_while(count, patience, |count| *count > 0);
    let (count, _) = waited.unwrap_or_else(PoisonError::into_inner);
    *count == 0
}
