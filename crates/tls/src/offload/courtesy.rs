//! Where workers and handshake threads share a processor, requests come first.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a handshake thread computes before it lets others run. A request that comes meanwhile
/// waits for this long at most, or for one operation that cannot be interrupted. Every
/// time costs a system call and, where somebody waits, two switches: some microseconds.
///
/// Between flights it is less than one of them takes: with P-256, nginx makes a request wait for
/// 0.3 ms in a storm, and Sealane for a fifth of that.
const FLIGHT_INTERVAL: Duration = Duration::from_micros(50);
/// Within a batch, against which nginx makes it wait for 2 ms and more.
const BATCH_INTERVAL: Duration = Duration::from_micros(150);

thread_local! {
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lets others run between two flights, if it is time.
pub(crate) fn between_flights() {
    let_others_run(FLIGHT_INTERVAL);
}

/// Lets others run within a batch, if it is time.
pub(crate) fn within_batch() {
    let_others_run(BATCH_INTERVAL);
}

/// Lets threads run that wait for this processor (sched_yield(2)), if this one has not done so for
/// `interval`. The kernel by itself would take the processor away at its next tick, 1 to 10 ms later.
fn let_others_run(interval: Duration) {
    let now = Instant::now();
    let is_due = |last: Instant| now.saturating_duration_since(last) >= interval;
    if LAST.get().is_none_or(is_due) {
        std::thread::yield_now();
        LAST.set(Some(Instant::now()));
    }
}
