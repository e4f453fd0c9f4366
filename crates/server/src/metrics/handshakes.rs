//! Where the time of handshakes is spent: private-key operations, the pool, queues.

use crate::worker::Process;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use sealane_tls::accelerator::{BUCKET_BOUNDS, HistogramValues};
use sealane_tls::{AcceleratorKind, HandshakeState, HandshakeStats, KeyType};
use std::fmt;
use std::sync::Arc;

/// The counters of `HandshakeStats`, and the handshakes that wait on worker threads.
pub(super) struct Handshakes {
    pub(super) state: Arc<HandshakeState>,
    pub(super) process: Arc<Process>,
}

/// A counter: name, help, field.
type HandshakeCountRow = (&'static str, &'static str, fn(&HandshakeStats) -> u64);
/// Durations.
type TimeRow = (
    &'static str,
    &'static str,
    fn(&HandshakeStats) -> HistogramValues,
);

const COUNTS: &[HandshakeCountRow] = &[
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

impl Collector for Handshakes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.state.stats();
        for (name, help, read) in COUNTS {
            let metric = ConstCounter::<u64>::new(read(stats));
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        self.levels(&mut encoder)?;
        operations(&mut encoder, stats)?;
        for (name, help, read) in TIMES {
            let mut metric = encoder.encode_descriptor(
                name,
                help,
                Some(&Unit::Seconds),
                MetricType::Histogram,
            )?;
            let (sum, count, buckets) = times(&read(stats));
            metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        batches(&mut encoder, stats)
    }
}

impl Handshakes {
    /// How many handshakes wait for what.
    fn levels(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.state.stats();
        let workers = self.process.workers();
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
                "Private-key operations that wait in accelerators",
                stats.queued_jobs.get(),
            ),
        ] {
            let metric = ConstGauge::<u64>::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

/// Private-key operations by kind of key and accelerator, if there were any.
fn operations(
    encoder: &mut DescriptorEncoder<'_>,
    stats: &HandshakeStats,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(
        "tls_key_operation",
        "How long private-key operations took, those of one batch together",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for key in KeyType::ALL {
        for accelerator in AcceleratorKind::ALL {
            let (sum, count, buckets) = times(&stats.operation_time(key, accelerator));
            if count > 0 {
                let labels = [("key", key.name()), ("accelerator", accelerator.name())];
                let mut metric = family.encode_family(&labels)?;
                metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            }
        }
    }
    let mut family = encoder.encode_descriptor(
        "tls_accelerator_busy",
        "Time that threads have spent computing with private keys",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    for accelerator in AcceleratorKind::ALL {
        let labels = [("accelerator", accelerator.name())];
        let metric = ConstCounter::<f64>::new(stats.busy_time(accelerator).as_secs_f64());
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Operations in one batch.
fn batches(encoder: &mut DescriptorEncoder<'_>, stats: &HandshakeStats) -> Result<(), fmt::Error> {
    let calls = stats.batches();
    let sized = || (1u32..).zip(calls);
    let buckets: Vec<(f64, u64)> = sized()
        .map(|(operations, count)| (f64::from(operations), count))
        .chain([(f64::INFINITY, 0)])
        .collect();
    let sum = sized().map(|(operations, count)| f64::from(operations) * count as f64);
    let mut metric = encoder.encode_descriptor(
        "tls_batch_operations",
        "Private-key operations computed in one batch",
        None,
        MetricType::Histogram,
    )?;
    metric.encode_histogram::<NoLabelSet>(sum.sum(), calls.iter().sum(), &buckets, None)
}

/// Sum in seconds, count, and buckets by their upper bounds.
fn times(values: &HistogramValues) -> (f64, u64, Vec<(f64, u64)>) {
    let bounds = BUCKET_BOUNDS.iter().map(|bound| bound.as_secs_f64());
    let buckets = bounds.chain([f64::INFINITY]).zip(values.buckets).collect();
    (values.sum.as_secs_f64(), values.count(), buckets)
}

impl fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::{registry, text};
    use crate::testing::Site;
    use crate::worker::Process;
    use sealane_tls::{AcceleratorKind, HandshakeState, KeyType, SessionState};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn handshakes_are_told_by_key_and_accelerator() {
        let site = Site::new("");
        let worker = site.another_worker(|_| {});
        let mut slot = worker.turns.place();
        slot.set_in_flight(true);
        let process = Arc::new(Process::default());
        process.set_workers(vec![worker]);
        let state = HandshakeState::new();
        let stats = state.stats();
        stats.shed_handshakes.add(7);
        stats.queued_jobs.raise(5);
        stats.record_batch(8);
        stats.record_batch(3);
        for (time_us, is_ok) in [(150, true), (400, true), (400, false)] {
            let time = Duration::from_micros(time_us);
            stats.record_operation(KeyType::Rsa2048, AcceleratorKind::Batch, time, is_ok);
        }
        stats.record_busy(AcceleratorKind::Batch, Duration::from_millis(2500));
        stats.flight_time.record(Duration::from_secs(20));
        let text = text(&registry(
            process,
            SessionState::new(),
            state,
            sealane_log::LogSet::stderr().lost_lines(),
        ));
        for line in [
            "sealane_tls_handshakes_refused_total 7",
            "sealane_tls_key_operations_failed_total 1",
            "sealane_tls_key_operations_queued 5",
            "sealane_tls_handshakes_away 1",
            "sealane_tls_handshakes_waiting 0",
            "# TYPE sealane_tls_key_operation_seconds histogram",
            "sealane_tls_key_operation_seconds_count{key=\"rsa2048\",accelerator=\"batch\"} 3",
            "sealane_tls_key_operation_seconds_bucket{le=\"0.0002\",key=\"rsa2048\",accelerator=\"batch\"} 1",
            "sealane_tls_key_operation_seconds_bucket{le=\"0.0005\",key=\"rsa2048\",accelerator=\"batch\"} 3",
            "sealane_tls_key_operation_seconds_bucket{le=\"+Inf\",key=\"rsa2048\",accelerator=\"batch\"} 3",
            "sealane_tls_accelerator_busy_seconds_total{accelerator=\"batch\"} 2.5",
            "sealane_tls_flight_seconds_bucket{le=\"10.0\"} 0",
            "sealane_tls_flight_seconds_bucket{le=\"+Inf\"} 1",
            "sealane_tls_flight_seconds_sum 20.0",
            "sealane_tls_batch_operations_bucket{le=\"3.0\"} 1",
            "sealane_tls_batch_operations_bucket{le=\"8.0\"} 2",
            "sealane_tls_batch_operations_sum 11.0",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(
            !text.contains("key=\"p256\""),
            "nothing was computed with one"
        );
        drop(slot);
    }
}
