//! Lets requests go first where workers and handshake threads share a processor.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a handshake thread computes before it yields. A request that arrives in the meantime
/// waits for at most this long, or for one operation that cannot be interrupted; nginx makes it
/// wait for 2 ms and more. Each yield costs a system call and, if another thread is waiting, two
/// context switches: some microseconds.
const INTERVAL: Duration = Duration::from_micros(200);

thread_local! {
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Yields to threads waiting for this processor (sched_yield(2)), if this thread has not done so
/// for [`INTERVAL`]. The kernel by itself would preempt this thread only at its next tick, 1 to
/// 10 ms later.
pub(crate) fn let_others_run() {
    let now = Instant::now();
    let is_due = |last: Instant| now.saturating_duration_since(last) >= INTERVAL;
    if LAST.get().is_none_or(is_due) {
        std::thread::yield_now();
        LAST.set(Some(Instant::now()));
    }
}
