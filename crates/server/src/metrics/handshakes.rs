//! Where the time of handshakes is spent: private-key operations, the pool, queues.

use super::Families;
use super::families::{Label, Unit};
use crate::worker::Process;
use sealane_counters::HistogramValues;
use sealane_tls::{AcceleratorKind, HandshakeState, HandshakeStats, KeyType};

/// A counter: name, help, field.
type CountRow = (&'static str, &'static str, fn(&HandshakeStats) -> u64);
/// Durations.
type TimeRow = (
    &'static str,
    &'static str,
    fn(&HandshakeStats) -> HistogramValues,
);

const COUNTS: &[CountRow] = &[
    (
        "tls_handshakes_refused",
        "TLS handshakes refused because too many were waiting or they waited too long",
        |stats| stats.shed_handshakes.get(),
    ),
    (
        "tls_flights_handed_over",
        "Handshake flights handed to the handshake threads",
        |stats| stats.flights_handed_over.get(),
    ),
    (
        "tls_key_operations_failed",
        "Private-key operations that failed",
        |stats| stats.failed_jobs.get(),
    ),
    (
        "tls_key_operations_cancelled",
        "Private-key operations skipped because their connections were gone",
        |stats| stats.cancelled_jobs.get(),
    ),
    (
        "tls_key_operations_wrong",
        "Wrong results of vector code that were detected and computed again",
        |stats| stats.wrong_results.get(),
    ),
];

const TIMES: &[TimeRow] = &[
    (
        "tls_handshake",
        "How long TLS handshakes took, from the client's first byte to the end",
        |stats| stats.handshake_time.values(),
    ),
    (
        "tls_handshake_queue",
        "How long TLS handshakes waited for their turn, for threads and for accelerators",
        |stats| stats.handshake_queue_time.values(),
    ),
    (
        "tls_key_operation_queue",
        "How long private-key operations waited in an accelerator",
        |stats| stats.job_queue_time.values(),
    ),
    (
        "tls_flight_queue",
        "How long flights of handshakes waited for a handshake thread",
        |stats| stats.flight_queue_time.values(),
    ),
    (
        "tls_flight",
        "How long flights of handshakes were away from their worker",
        |stats| stats.flight_time.values(),
    ),
];

pub(super) fn collect(families: &mut Families<'_>, process: &Process, state: &HandshakeState) {
    let stats = state.stats();
    for (name, help, read) in COUNTS {
        families.counter(name, help).is(read(stats));
    }
    levels(families, process, stats);
    operations(families, stats);
    for (name, help, read) in TIMES {
        families.times(name, help).is_times(read(stats));
    }
    batches(families, stats);
}

/// How many handshakes wait for what.
fn levels(families: &mut Families<'_>, process: &Process, stats: &HandshakeStats) {
    let workers = process.workers();
    let waiting: usize = workers.iter().map(|worker| worker.turns.waiting()).sum();
    let away: usize = workers.iter().map(|worker| worker.turns.in_flight()).sum();
    for (name, help, value) in [
        (
            "tls_handshakes_waiting",
            "TLS handshakes that wait for their turn on a worker",
            waiting as u64,
        ),
        (
            "tls_handshakes_away",
            "TLS handshakes that wait for a handshake thread or an accelerator",
            away as u64,
        ),
        (
            "tls_flights_queued",
            "Flights of handshakes that wait for a handshake thread",
            stats.queued_flights.get(),
        ),
        (
            "tls_key_operations_queued",
            "Private-key operations that wait in accelerators or are with the key process",
            stats.queued_jobs.get() + process.keys.get().map_or(0, |keys| keys.pending() as u64),
        ),
    ] {
        families.gauge(name, help).is(value);
    }
}

/// Private-key operations by kind of key and accelerator, if there were any.
fn operations(families: &mut Families<'_>, stats: &HandshakeStats) {
    let family = families
        .times(
            "tls_key_operation",
            "How long private-key operations took, those of one batch together",
        )
        .by(&["key", "accelerator"]);
    for key in KeyType::ALL {
        for accelerator in AcceleratorKind::ALL {
            let times = stats.operation_time(key, accelerator);
            if times.count() > 0 {
                let labels = [key.name(), accelerator.name()].map(Label::Text);
                family.times(labels, times);
            }
        }
    }
    let family = families
        .counter(
            "tls_accelerator_busy",
            "Time that threads have spent computing with private keys",
        )
        .in_unit(Unit::Seconds)
        .by(&["accelerator"]);
    for accelerator in AcceleratorKind::ALL {
        let busy = stats.busy_time(accelerator).as_secs_f64();
        family.number([Label::Text(accelerator.name())], busy);
    }
}

/// Operations in one batch.
fn batches(families: &mut Families<'_>, stats: &HandshakeStats) {
    let sized = (1u32..).zip(stats.batches());
    let counts: Vec<(f64, u64)> = sized
        .map(|(operations, count)| (f64::from(operations), count))
        .collect();
    let sum = counts
        .iter()
        .map(|(size, count)| size * *count as f64)
        .sum();
    families
        .sizes(
            "tls_batch_operations",
            "Private-key operations computed in one batch",
        )
        .is_sizes(counts, sum);
}
