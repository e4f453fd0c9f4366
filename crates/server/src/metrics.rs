//! The metrics registry: everything that is counted, under the names that a scraper sees.
//!
//! A counter belongs to the part that counts (a worker thread, the TLS sessions), and counting
//! costs one addition; the sums are made here when the metrics are read. Names follow
//! Prometheus' conventions and do not change once released.

mod handshakes;

use self::handshakes::Handshakes;
use crate::counters::{Counters, Http2Counters};
use crate::worker::Process;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use sealane_log::LostLines;
use sealane_tls::{EarlyVerdict, HandshakeState, Missed, Resumed, SessionState};
use std::fmt;
use std::sync::Arc;

/// Prefix of every name.
const PREFIX: &str = "sealane";

/// All metrics of a worker process; `sessions` and `handshakes` count for all of its
/// servers, `lost_lines` for all of its logs.
pub fn registry(
    process: Arc<Process>,
    sessions: Arc<SessionState>,
    handshakes: Arc<HandshakeState>,
    lost_lines: LostLines,
) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Workers(process.clone())));
    registry.register_collector(Box::new(Sessions(sessions)));
    registry.register_collector(Box::new(Handshakes {
        state: handshakes,
        process,
    }));
    registry.register_collector(Box::new(Logs(lost_lines)));
    registry
}

/// The metrics in OpenMetrics' text format.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)
        .expect("writing to a string does not fail");
    text
}

/// The counters of the worker threads, summed.
struct Workers(Arc<Process>);

/// A counter: name, help, field.
type CountRow = (&'static str, &'static str, fn(&Counters) -> u64);
/// A level.
type LevelRow = (&'static str, &'static str, fn(&Counters) -> i64);

/// Rows of a table: `"name" "help" field;`.
macro_rules! rows {
    ($($name:literal $help:literal $($field:ident).+;)*) => {
        &[$(($name, $help, |counters| counters.$($field).+.get())),*]
    };
}

const COUNTS: &[CountRow] = rows! {
    "connections_accepted" "Connections accepted" accepted;
    "connections_handled" "Connections handled, not dropped for lack of a slot" handled;
    "requests" "Requests" requests;
    "tls_handshakes" "TLS handshakes completed" handshakes;
    "tls_handshakes_resumed" "TLS handshakes that resumed a session" handshakes_resumed;
    "tls_handshakes_failed" "TLS handshakes that failed" handshakes_failed;
    "kernel_tls_connections" "Closed connections whose records the kernel sealed" ktls_on;
    "kernel_tls_refused_connections"
        "Closed TLS connections without kernel TLS" ktls_off;
    "panics" "Connections ended by a panic" panics;
    "http2_streams_opened" "HTTP/2 streams opened" http2.streams_opened;
    "http2_streams_refused"
        "HTTP/2 streams refused because too many were open or the connection was ending"
        http2.streams_refused;
    "http2_resets_received" "HTTP/2 streams that clients reset before they had ended"
        http2.resets_received;
    "http2_stream_faults" "HTTP/2 streams reset because of what clients sent on them"
        http2.stream_faults;
    "http2_malformed_heads" "HTTP/2 requests with malformed heads or trailers"
        http2.malformed_heads;
    "http2_heads_too_large"
        "HTTP/2 requests refused for the size or number of their header fields"
        http2.heads_too_large;
    "http2_connection_faults"
        "HTTP/2 connections ended for protocol errors other than floods"
        http2.connection_faults;
};

/// A value of a label, and its counter.
type Http2Count = (&'static str, fn(&Http2Counters) -> u64);

/// Reasons for which HTTP/2 connections were ended, by the value of the label `kind`.
const HTTP2_FLOODS: &[Http2Count] = &[
    ("rapid_reset", |c| c.rapid_reset_floods.get()),
    ("continuation", |c| c.continuation_floods.get()),
    ("header_bomb", |c| c.header_bombs.get()),
    ("settings", |c| c.settings_floods.get()),
    ("ping", |c| c.ping_floods.get()),
    ("empty_frame", |c| c.empty_frame_floods.get()),
    ("priority", |c| c.priority_floods.get()),
    ("window_update", |c| c.window_update_floods.get()),
    ("unread_reply", |c| c.unread_reply_floods.get()),
];

const LEVELS: &[LevelRow] = rows! {
    "connections_active" "Open connections" active;
    "connections_reading" "Connections whose request head is being read" reading;
    "connections_writing" "Connections whose response is being prepared or sent" writing;
    "connections_waiting" "Idle keep-alive connections" waiting;
};

impl Collector for Workers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let workers = self.0.workers();
        for (name, help, read) in COUNTS {
            let sum = workers.iter().map(|worker| read(&worker.counters)).sum();
            let metric = ConstCounter::<u64>::new(sum);
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        for (name, help, read) in LEVELS {
            let sum = workers.iter().map(|worker| read(&worker.counters)).sum();
            let metric = ConstGauge::<i64>::new(sum);
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let floods = HTTP2_FLOODS.iter().map(|(kind, read)| {
            let sum = workers.iter().map(|worker| read(&worker.counters.http2));
            (*kind, sum.sum())
        });
        labelled(
            &mut encoder,
            (
                "http2_floods",
                "HTTP/2 connections ended for a flood",
                "kind",
            ),
            floods,
        )
    }
}

/// TLS sessions: how they were resumed, why not, and the fate of early data.
#[derive(Debug)]
struct Sessions(Arc<SessionState>);

impl Collector for Sessions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.0.stats();
        let full = ConstCounter::<u64>::new(stats.full());
        full.encode(encoder.encode_descriptor(
            "tls_sessions_full",
            "TLS handshakes that made a new session",
            None,
            MetricType::Counter,
        )?)?;
        labelled(
            &mut encoder,
            ("tls_sessions_resumed", "TLS sessions resumed", "by"),
            Resumed::ALL.map(|kind| (kind.name(), stats.resumed(kind))),
        )?;
        labelled(
            &mut encoder,
            (
                "tls_sessions_missed",
                "TLS sessions that were offered and not resumed",
                "reason",
            ),
            Missed::ALL.map(|reason| (reason.name(), stats.missed(reason))),
        )?;
        labelled(
            &mut encoder,
            (
                "tls_early_data",
                "Early data offered to servers that accept it",
                "verdict",
            ),
            EarlyVerdict::ALL.map(|verdict| (verdict.name(), stats.early_data(verdict))),
        )
    }
}

/// Log lines that were lost.
#[derive(Debug)]
struct Logs(LostLines);

impl Collector for Logs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let lost = ConstCounter::<u64>::new(self.0.count());
        lost.encode(encoder.encode_descriptor(
            "log_lines_lost",
            "Log lines lost because a log was full, slow or could not be written",
            None,
            MetricType::Counter,
        )?)
    }
}

/// One counter for each value of a label: (name, help, label).
fn labelled(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, label): (&str, &str, &str),
    values: impl IntoIterator<Item = (&'static str, u64)>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in values {
        let labels = [(label, value)];
        let metric = ConstCounter::<u64>::new(count);
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workers({})", self.0.workers().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use sealane_log::LogSet;

    #[test]
    fn sums_over_threads_under_stable_names() {
        let site = Site::new("");
        let workers = vec![site.another_worker(|_| {}), site.another_worker(|_| {})];
        workers[0].counters.requests.add(40);
        workers[1].counters.requests.add(2);
        workers[1].counters.active.add(3);
        workers[1].counters.ktls_on.add(1);
        for worker in &workers {
            worker.counters.http2.streams_opened.add(3);
            worker.counters.http2.ping_floods.add(1);
        }
        let process = Arc::new(Process::default());
        process.set_workers(workers);
        let sessions = SessionState::new();
        sessions
            .stats()
            .count_early_data(EarlyVerdict::MethodRefused);
        let text = text(&registry(
            process,
            sessions,
            HandshakeState::new(),
            LogSet::stderr().lost_lines(),
        ));
        for line in [
            "# TYPE sealane_requests counter",
            "sealane_requests_total 42",
            "# TYPE sealane_connections_active gauge",
            "sealane_connections_active 3",
            "sealane_kernel_tls_connections_total 1",
            "sealane_http2_streams_opened_total 6",
            "sealane_http2_floods_total{kind=\"ping\"} 2",
            "sealane_http2_floods_total{kind=\"rapid_reset\"} 0",
            "sealane_tls_handshakes_failed_total 0",
            "sealane_tls_sessions_resumed_total{by=\"store\"} 0",
            "sealane_log_lines_lost_total 0",
            "sealane_tls_early_data_total{verdict=\"method_refused\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
