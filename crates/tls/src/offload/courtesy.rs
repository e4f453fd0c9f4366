//! Lets requests go first where workers and handshake threads share a processor.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a handshake thread computes before it yields. A request that arrives in the meantime
/// waits for at most this long, or for one operation that cannot be interrupted. Each yield costs a
/// system call and, if another thread is waiting, two context switches: some microseconds.
///
/// Between flights, the interval is shorter than one of them: with P-256, nginx makes a request
/// wait for 0.3 ms in a storm, and Sealane for a fifth of that.
const FLIGHT_INTERVAL: Duration = Duration::from_micros(50);
/// Within a batch; nginx makes a request wait for 2 ms and more.
const BATCH_INTERVAL: Duration = Duration::from_micros(150);

thread_local! {
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Yields between two flights, if it is time.
pub(crate) fn between_flights() {
    let_others_run(FLIGHT_INTERVAL);
}

/// Yields within a batch, if it is time.
pub(crate) fn within_batch() {
    let_others_run(BATCH_INTERVAL);
}

/// Yields to threads waiting for this processor (sched_yield(2)), if this thread has not done so
/// for `interval`. The kernel by itself would preempt this thread only at its next tick, 1 to 10 ms
/// later.
fn let_others_run(interval: Duration) {
    let now = Instant::now();
    let is_due = |last: Instant| now.saturating_duration_since(last) >= interval;
    if LAST.get().is_none_or(is_due) {
        std::thread::yield_now();
        LAST.set(Some(Instant::now()));
    }
}
