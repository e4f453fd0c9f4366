//! The view of TLS: what its numbers are made of.

use super::table::Tone;
use crate::running::answer::{Answer, Value};
use crate::running::figures::{brief, percent, rate, seconds};
use crate::running::gains::Gains;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph};

/// Columns of one part, at least.
const PART_COLUMNS: u16 = 40;
/// Characters of a name, and of the numbers behind it: together what fits into a part.
const NAME: usize = 20;
const NUMBER: usize = 9;

/// Draws the view; `skip` lines of each part are above it.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, gains: &Gains, skip: usize) {
    let parts = parts(gains);
    let columns = (area.width / PART_COLUMNS).clamp(1, 3);
    let places = Layout::horizontal(vec![Constraint::Fill(1); columns.into()]).split(area);
    let skip = u16::try_from(skip).unwrap_or(u16::MAX);
    for (index, place) in places.iter().enumerate() {
        let mine = parts.iter().skip(index).step_by(columns.into());
        let lines: Vec<Line<'_>> = mine.flatten().cloned().collect();
        let block = Block::bordered();
        frame.render_widget(Paragraph::new(lines).scroll((skip, 0)).block(block), *place);
    }
}

fn parts(gains: &Gains) -> Vec<Vec<Line<'static>>> {
    let mut parts = vec![
        times(gains),
        counters(
            gains,
            "sessions",
            &["tls_sessions_full", "tls_sessions_resumed"],
        ),
        counters(
            gains,
            "kernel TLS, at the end",
            &["kernel_tls_connections", "kernel_tls_refused_connections"],
        ),
        counters(gains, "sessions not resumed", &["tls_sessions_missed"]),
        counters(gains, "early data (0-RTT)", &["tls_early_data"]),
        counters(
            gains,
            "handshakes",
            &[
                "tls_handshakes",
                "tls_handshakes_resumed",
                "tls_handshakes_failed",
                "tls_handshakes_refused",
                "tls_flights_handed_over",
                "tls_key_operations_failed",
                "tls_key_operations_cancelled",
                "tls_key_operations_wrong",
            ],
        ),
        keys(gains),
        counters(
            gains,
            "HTTP/2",
            &[
                "http2_streams_opened",
                "http2_streams_refused",
                "http2_resets_received",
                "http2_stream_faults",
                "http2_malformed_heads",
                "http2_heads_too_large",
                "http2_connection_faults",
                "http2_floods",
            ],
        ),
        counters(
            gains,
            "HTTP/3",
            &[
                "http3_streams_opened",
                "http3_streams_refused",
                "http3_resets_received",
                "http3_stream_faults",
                "http3_malformed_heads",
                "http3_heads_too_large",
                "http3_connection_faults",
                "http3_floods",
            ],
        ),
        counters(
            gains,
            "QUIC",
            &[
                "quic_connections",
                "quic_connections_refused",
                "quic_handshakes_failed",
                "quic_retries_sent",
                "quic_tokens_refused",
                "quic_resets_sent",
                "quic_answers_withheld",
                "quic_datagrams_received",
                "quic_datagrams_sent",
                "quic_datagrams_dropped",
                "quic_packets_dropped",
                "quic_frames_lost",
                "quic_migrations",
                "quic_key_updates",
            ],
        ),
    ];
    for part in &mut parts {
        part.push(Line::default());
    }
    parts
}

fn heading(title: &str, columns: [&str; 2]) -> Line<'static> {
    let style = Style::new().add_modifier(Modifier::BOLD);
    line(title, columns.map(str::to_owned)).style(style)
}

/// A name and two numbers.
fn line(name: &str, [first, second]: [String; 2]) -> Line<'static> {
    Line::raw(format!(
        "{name:NAME$.NAME$}{first:>NUMBER$}{second:>NUMBER$}"
    ))
}

/// A longer name and one number.
fn long_line(name: &str, number: &str) -> Line<'static> {
    Line::raw(format!("{name:0$.0$}{number:>NUMBER$}", NAME + NUMBER))
}

/// Counters that have counted something: how fast they grow, and what they have come to.
fn counters(gains: &Gains, title: &str, metrics: &[&str]) -> Vec<Line<'static>> {
    let mut lines = vec![heading(title, ["/s", "total"])];
    let Some(now) = gains.now() else { return lines };
    for metric in metrics {
        for sample in now.samples(metric) {
            let Some(number) = sample.number().filter(|number| *number > 0.0) else {
                continue;
            };
            let labels = sample.label_values();
            let name = match &*labels {
                [] => metric
                    .trim_start_matches("tls_")
                    .trim_start_matches("http2_")
                    .trim_start_matches("http3_")
                    .trim_start_matches("quic_")
                    .to_owned(),
                labels => labels.join(" "),
            };
            let speed = rate(gains.speed(metric, &labels));
            lines.push(line(&name, [speed, brief(number)]));
        }
    }
    if lines.len() == 1 {
        lines.push(Line::styled("none", Tone::Quiet.style()));
    }
    lines
}

fn times(gains: &Gains) -> Vec<Line<'static>> {
    let mut lines = vec![heading("recent times", ["p50", "p99"])];
    for (name, metric) in [
        ("handshake", "tls_handshake_seconds"),
        ("waiting for its turn", "tls_handshake_queue_seconds"),
        ("waiting for a thread", "tls_flight_queue_seconds"),
        ("away from the worker", "tls_flight_seconds"),
        ("accelerator's queue", "tls_key_operation_queue_seconds"),
    ] {
        let at = |share| seconds(gains.recent(share, metric, &[]));
        lines.push(line(name, [at(0.5), at(0.99)]));
    }
    for (name, metric) in [
        ("wait for their turn", "tls_handshakes_waiting"),
        ("are away", "tls_handshakes_away"),
        ("flights queued", "tls_flights_queued"),
        ("key operations queued", "tls_key_operations_queued"),
    ] {
        let number = gains.now().and_then(|now| now.number(metric, &[]));
        lines.push(long_line(name, &brief(number)));
    }
    let resumed = gains.now().and_then(|now| {
        let done = now.number("tls_handshakes", &[])?;
        Some(now.number("tls_handshakes_resumed", &[])? / done)
    });
    lines.push(long_line("resumed, of all", &percent(resumed)));
    lines
}

fn keys(gains: &Gains) -> Vec<Line<'static>> {
    let mut lines = vec![heading("private keys", ["p50", "p99"])];
    let Some(now) = gains.now() else { return lines };
    for sample in now.samples("tls_key_operation_seconds") {
        let labels = [sample.label(0), sample.label(1)];
        let at = |share| seconds(gains.recent(share, "tls_key_operation_seconds", &labels));
        let name = labels.join(", ");
        lines.push(line(&name, [at(0.5), at(0.99)]));
    }
    if lines.len() == 1 {
        lines.push(Line::styled("no operation yet", Tone::Quiet.style()));
    }
    lines.extend(batches(now));
    lines
}

/// How many operations were computed together, of all batches so far.
fn batches(now: &Answer) -> Vec<Line<'static>> {
    let sample = now.samples("tls_batch_operations").first();
    let Some(Value::Sizes(sizes)) = sample.map(|sample| &sample.value) else {
        return Vec::new();
    };
    let all: f64 = sizes.iter().map(|(_, count)| count).sum();
    let sizes = sizes.iter().filter(|(_, count)| *count > 0.0);
    let lines = sizes.map(|(bound, count)| {
        let name = format!("batches of up to {}", brief(*bound));
        long_line(&name, &percent(count / all))
    });
    lines.collect()
}
