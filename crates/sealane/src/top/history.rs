//! What graphs show: a value for each answer.

use crate::running::gains::Gains;
use std::collections::VecDeque;

/// Answers that are kept: more than a terminal has columns.
const POINTS: usize = 600;

/// What there is a graph of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Series {
    /// Open connections.
    Connections,
    /// Requests a second.
    Requests,
    /// Server errors a second.
    Errors,
    /// Bytes sent a second.
    Sent,
    /// TLS handshakes a second.
    Handshakes,
    /// Their 99th percentile, in seconds.
    HandshakeTime,
    /// Connections a second that end after the kernel has sealed their records.
    KernelTls,
    /// Bytes of memory.
    Memory,
}

impl Series {
    pub(super) const ALL: [Series; 8] = [
        Series::Connections,
        Series::Requests,
        Series::Errors,
        Series::Sent,
        Series::Handshakes,
        Series::HandshakeTime,
        Series::KernelTls,
        Series::Memory,
    ];

    fn value(self, gains: &Gains) -> Option<f64> {
        let number = |name| gains.now()?.number(name, &[]);
        match self {
            Series::Connections => number("connections_active"),
            Series::Requests => gains.speed("requests", &[]),
            Series::Errors => responses(gains).map(|classes| classes[5]),
            Series::Sent => gains.sum_of_speeds("server_sent_bytes", &[]),
            Series::Handshakes => gains.speed("tls_handshakes", &[]),
            Series::HandshakeTime => gains.recent(0.99, "tls_handshake_seconds", &[]),
            Series::KernelTls => gains.speed("kernel_tls_connections", &[]),
            Series::Memory => number("process_resident_memory_bytes"),
        }
    }
}

/// Responses a second by the first digit of their status.
pub(super) fn responses(gains: &Gains) -> Option<[f64; 6]> {
    let mut classes = [0.0; 6];
    for sample in gains.now()?.samples("server_responses") {
        let labels = sample.label_values();
        let digit = sample.label(1).bytes().next().unwrap_or(b'0');
        let class = classes.get_mut(usize::from(digit.saturating_sub(b'0')));
        if let Some(class) = class {
            *class += gains.speed("server_responses", &labels).unwrap_or(0.0);
        }
    }
    // One answer alone has no rates.
    gains.speed("requests", &[]).map(|_| classes)
}

/// The last values of all series, the newest at the end.
#[derive(Default)]
pub(super) struct History {
    points: VecDeque<[Option<f64>; Series::ALL.len()]>,
}

impl History {
    pub(super) fn add(&mut self, gains: &Gains) {
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points
            .push_back(Series::ALL.map(|series| series.value(gains)));
    }

    /// The last values, at most so many.
    pub(super) fn last(&self, series: Series, most: usize) -> Vec<Option<f64>> {
        let column = Series::ALL.iter().position(|it| *it == series);
        let column = column.unwrap_or_default();
        let skipped = self.points.len().saturating_sub(most);
        let points = self.points.iter().skip(skipped);
        points.map(|point| point[column]).collect()
    }
}
