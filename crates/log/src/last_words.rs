//! Writes pending lines when the process crashes.

use super::queue::Queue;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The queue of the process, which has only one.
static QUEUE: Mutex<Weak<Queue>> = Mutex::new(Weak::new());

/// From now on, the handler of a fault writes the lines pending in this queue.
pub(super) fn are_in(queue: &Arc<Queue>) {
    *QUEUE.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(queue);
    sealane_sys::crash::say_last(say);
}

/// Runs in the handler of a fault.
fn say() {
    let Ok(queue) = QUEUE.try_lock() else { return };
    if let Some(queue) = queue.upgrade() {
        queue.write_last_lines();
        std::mem::forget(queue); // freeing it is not for a handler
    }
}
