//! Connections, requests, HTTP/2, HTTP/3 and QUIC, over all worker threads.

use super::Families;
use super::families::Unit;
use crate::counters::{CONGESTION_CONTROLS, Counters, Counts, Http2Counters, QuicDrop};
use crate::worker::Process;
use sealane_tls::KTLS_REFUSALS;

/// A counter: name, help, field.
type CountRow = (&'static str, &'static str, fn(&Counts) -> u64);
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
    "panics" "Connections ended by a panic" panics;
    "datagrams_dropped" "Datagrams of clients dropped because a limit of \"listen ... udp\" was reached" datagrams_dropped;
    "upstream_kernel_tls_connections" "Connections to other servers whose records the kernel began to seal" upstream_ktls;
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
    "http3_streams_opened" "HTTP/3 streams opened"
        http3.streams_opened;
    "http3_streams_refused" "HTTP/3 streams refused because too many were open or the connection was ending"
        http3.streams_refused;
    "http3_resets_received" "HTTP/3 streams that clients reset before they had ended"
        http3.resets_received;
    "http3_stream_faults" "HTTP/3 streams reset because of what clients sent on them"
        http3.stream_faults;
    "http3_malformed_heads" "HTTP/3 requests with malformed heads or trailers"
        http3.malformed_heads;
    "http3_heads_too_large" "HTTP/3 requests refused for the size or number of their header fields"
        http3.heads_too_large;
    "http3_connection_faults" "HTTP/3 connections ended for protocol errors other than floods"
        http3.connection_faults;
    "quic_handshakes" "Handshakes of QUIC completed" quic.handshakes;
    "quic_handshakes_failed" "Connections of QUIC that ended before their handshake was complete" quic.handshakes_failed;
    "quic_connections_refused" "Connections of QUIC refused: too many, or the server shuts down" quic.connections_refused;
    "quic_retries_sent" "Retry packets sent" quic.retries_sent;
    "quic_tokens_refused" "Clients refused because the token of a Retry packet was not right" quic.tokens_refused;
    "quic_version_negotiations_sent" "Version Negotiation packets sent" quic.version_negotiations_sent;
    "quic_resets_sent" "Stateless resets sent" quic.resets_sent;
    "quic_answers_withheld" "Retry, Version Negotiation, refusals and stateless resets not sent because there were too many in a second" quic.answers_withheld;
    "quic_datagrams_received" "Datagrams that connections of QUIC received" quic.datagrams_received;
    "quic_datagrams_sent" "Datagrams that connections of QUIC sent" quic.datagrams_sent;
    "quic_packets_dropped" "Packets of QUIC that could not be opened" quic.packets_dropped;
    "quic_frames_lost" "Frames sent again because their packets were lost" quic.frames_lost;
    "quic_migrations" "Times at which clients of QUIC had moved to another address" quic.migrations;
    "quic_key_updates" "Key updates of QUIC, of either end" quic.key_updates;
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

/// The same for HTTP/3.
const HTTP3_FLOODS: &[Http2Count] = &[
    ("rapid_reset", |c| c.rapid_reset_floods.get()),
    ("header_bomb", |c| c.header_bombs.get()),
    ("settings", |c| c.settings_floods.get()),
    ("empty_frame", |c| c.empty_frame_floods.get()),
    ("priority", |c| c.priority_floods.get()),
    ("unread_reply", |c| c.unread_reply_floods.get()),
];

const LEVELS: &[LevelRow] = rows! {
    "connections_active" "Open connections" active;
    "connections_reading" "Connections whose request head is being read" reading;
    "connections_writing" "Connections whose response is being prepared or sent" writing;
    "connections_waiting" "Idle keep-alive connections" waiting;
};

pub(super) fn collect(families: &mut Families<'_>, process: &Process) {
    for (name, help, read) in COUNTS {
        families.counter(name, help).is(process.total(read));
    }
    for (name, help, read) in LEVELS {
        families.gauge(name, help).is(process.level(read));
    }
    families
        .counter("http2_floods", "HTTP/2 connections ended for a flood")
        .by(&["kind"])
        .each(HTTP2_FLOODS.iter().map(|(kind, read)| {
            let sum = process.total(|counts| read(&counts.http2));
            (*kind, sum)
        }));
    collect_quic(families, process);
    let reasons = KTLS_REFUSALS.into_iter().chain(["small_response"]);
    families
        .counter(
            "kernel_tls_refused_connections",
            "Closed TLS connections without kernel TLS, by reason",
        )
        .by(&["reason"])
        .each(reasons.enumerate().map(|(at, reason)| {
            let sum = process.total(|counts| counts.ktls_off[at].get());
            (reason, sum)
        }));
}

fn collect_quic(families: &mut Families<'_>, process: &Process) {
    families
        .counter("http3_floods", "HTTP/3 connections ended for a flood")
        .by(&["kind"])
        .each(HTTP3_FLOODS.iter().map(|(kind, read)| {
            let sum = process.total(|counts| read(&counts.http3));
            (*kind, sum)
        }));
    families
        .counter("quic_connections", "Connections of QUIC begun")
        .by(&["congestion_control"])
        .each(
            CONGESTION_CONTROLS
                .into_iter()
                .enumerate()
                .map(|(at, name)| {
                    let sum = process.total(|counts| counts.quic.connections[at].get());
                    (name, sum)
                }),
        );
    families
        .counter(
            "quic_datagrams_dropped",
            "Datagrams of QUIC dropped before they reached a connection, by reason",
        )
        .by(&["reason"])
        .each(QuicDrop::NAMES.into_iter().enumerate().map(|(at, name)| {
            let sum = process.total(|counts| counts.quic.datagrams_dropped[at].get());
            (name, sum)
        }));
    families
        .counter(
            "quic_received",
            "Bytes in datagrams that connections of QUIC received",
        )
        .in_unit(Unit::Bytes)
        .is(process.total(|counts| counts.quic.bytes_received.get()));
    families
        .counter(
            "quic_sent",
            "Bytes in datagrams that connections of QUIC sent",
        )
        .in_unit(Unit::Bytes)
        .is(process.total(|counts| counts.quic.bytes_sent.get()));
}
