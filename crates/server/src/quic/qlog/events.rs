//! From what a connection tells to records of draft-ietf-quic-qlog-quic-events-13.
//!
//! qvis knows the names of earlier drafts. What it looks for is there as well: a field `category`
//! of each event, `owner` of parameters, `length` of frames with data, and a second record of
//! metrics under their former name.

use super::frames;
use super::json::{Object, array, hex, object};
use sealane_quic::trace::{
    DropReason, KeyTrigger, Metrics, MigrationState, PacketType, RttMetrics, TraceEvent,
    TracedKeys, TracedPacket, TracedParameters,
};
use sealane_quic::{Addresses, CloseReason, Code, ConnectionId, Error, Space};
use std::net::SocketAddr;
use std::time::Duration;

/// Begins a record (RFC 7464).
const RECORD: u8 = 0x1e;

/// What events that are about recovery are, for qvis.
const RECOVERY: &str = "recovery";
const TRANSPORT: &str = "transport";
const CONNECTIVITY: &str = "connectivity";
const SECURITY: &str = "security";

/// Appends a record with one object.
pub(super) fn record(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
    out.push(RECORD);
    object(out, fill);
    out.push(b'\n');
}

/// Appends a record of something that is not of QUIC.
pub(super) fn note(out: &mut Vec<u8>, time: Duration, level: &str, message: &str) {
    record(out, |o| {
        o.milliseconds("time", time);
        o.text("name", &format!("loglevel:{level}"));
        o.object("data", |data| data.text("message", message));
    });
}

/// Turns events into records.
#[derive(Default)]
pub(super) struct Events {
    /// What was written last: records have only what is new.
    metrics: Option<Metrics>,
}

impl Events {
    /// Appends the records of an event, `time` after the connection began.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, time: Duration, event: &TraceEvent) {
        if let TraceEvent::Metrics(metrics) = event {
            let before = self.metrics.replace(*metrics);
            for name in ["quic:recovery_metrics_updated", "recovery:metrics_updated"] {
                put_event(out, time, name, RECOVERY, |data| {
                    put_metrics(data, metrics, before.as_ref());
                });
            }
            return;
        }
        if let TraceEvent::Migration { addresses, .. } = event {
            put_event(out, time, "quic:tuple_assigned", CONNECTIVITY, |data| {
                data.text("tuple_id", "");
                put_tuple(data, addresses);
            });
        }
        let (name, category) = name(event);
        put_event(out, time, name, category, |data| put_data(data, event));
    }
}

fn put_event(
    out: &mut Vec<u8>,
    time: Duration,
    name: &str,
    category: &str,
    fill: impl FnOnce(&mut Object<'_>),
) {
    record(out, |o| {
        o.milliseconds("time", time);
        o.text("name", name);
        o.text("category", category);
        o.object("data", fill);
    });
}

/// The name of an event, and what it is called a part of in qvis.
fn name(event: &TraceEvent) -> (&'static str, &'static str) {
    match event {
        TraceEvent::Began { .. } => ("quic:connection_started", CONNECTIVITY),
        TraceEvent::Versions { .. } => ("quic:version_information", TRANSPORT),
        TraceEvent::Parameters { .. } => ("quic:parameters_set", TRANSPORT),
        TraceEvent::Sent(_) => ("quic:packet_sent", TRANSPORT),
        TraceEvent::Received(_) | TraceEvent::Reset => ("quic:packet_received", TRANSPORT),
        TraceEvent::Dropped { .. } => ("quic:packet_dropped", TRANSPORT),
        TraceEvent::Buffered { .. } => ("quic:packet_buffered", TRANSPORT),
        TraceEvent::Lost { .. } => ("quic:packet_lost", RECOVERY),
        TraceEvent::Metrics(_) => ("quic:recovery_metrics_updated", RECOVERY),
        TraceEvent::CongestionState { .. } => ("quic:congestion_state_updated", RECOVERY),
        TraceEvent::DatagramSize { .. } => ("quic:mtu_updated", CONNECTIVITY),
        TraceEvent::KeysMade { .. } => ("quic:key_updated", SECURITY),
        TraceEvent::KeysDiscarded(_) => ("quic:key_discarded", SECURITY),
        TraceEvent::IdChanged { .. } => ("quic:connection_id_updated", CONNECTIVITY),
        TraceEvent::Migration { .. } => ("quic:migration_state_updated", CONNECTIVITY),
        TraceEvent::Established => ("quic:connection_state_updated", CONNECTIVITY),
        TraceEvent::Closed(_) => ("quic:connection_closed", CONNECTIVITY),
    }
}

fn put_data(o: &mut Object<'_>, event: &TraceEvent) {
    match event {
        TraceEvent::Began {
            addresses,
            own_id,
            peer_id,
        } => {
            o.object("local", |o| put_end(o, addresses.local, Some(own_id)));
            o.object("remote", |o| put_end(o, addresses.remote, Some(peer_id)));
        }
        TraceEvent::Versions { spoken, chosen } => {
            let number = |version: &sealane_quic::Version| version.to_wire().to_be_bytes();
            array(o.field("server_versions"), spoken, |out, version| {
                hex(out, &number(version));
            });
            o.hex("chosen_version", &number(chosen));
        }
        TraceEvent::Parameters {
            is_local,
            parameters,
        } => put_parameters(o, *is_local, parameters),
        TraceEvent::Sent(packet) | TraceEvent::Received(packet) => put_packet(o, packet),
        TraceEvent::Reset => o.object("header", |o| o.text("packet_type", "stateless_reset")),
        TraceEvent::Dropped {
            packet_type,
            bytes,
            why,
        } => {
            put_unread(o, *packet_type, *bytes);
            o.text("trigger", drop_trigger(*why));
        }
        TraceEvent::Buffered { packet_type, bytes } => {
            put_unread(o, Some(*packet_type), *bytes);
            o.text("trigger", "keys_unavailable");
        }
        TraceEvent::Lost { space, loss } => {
            o.object("header", |o| {
                o.text("packet_type", type_of_space(*space));
                o.number("packet_number", loss.number);
            });
            if loss.is_mtu_probe {
                o.flag("is_mtu_probe_packet", true);
            }
            let trigger = match loss.by_time {
                true => "time_threshold",
                false => "reordering_threshold",
            };
            o.text("trigger", trigger);
        }
        TraceEvent::Metrics(metrics) => put_metrics(o, metrics, None),
        TraceEvent::CongestionState { old, new } => {
            if let Some(old) = old {
                o.text("old", old);
            }
            o.text("new", new);
        }
        TraceEvent::DatagramSize { old, new } => {
            o.number("old", *old);
            o.number("new", *new);
        }
        TraceEvent::KeysMade { keys, by } => put_keys(o, keys, Some(*by)),
        TraceEvent::KeysDiscarded(keys) => put_keys(o, keys, None),
        TraceEvent::IdChanged { is_local, old, new } => {
            o.text("initiator", initiator(*is_local));
            o.hex("old", old);
            o.hex("new", new);
        }
        TraceEvent::Migration { state, addresses } => {
            let state = match state {
                MigrationState::Probing => "probing_started",
                MigrationState::Started => "migration_started",
                MigrationState::Complete => "migration_complete",
                MigrationState::Abandoned => "migration_abandoned",
            };
            o.text("new", state);
            put_tuple(o, addresses);
        }
        TraceEvent::Established => o.text("new", "handshake_confirmed"),
        TraceEvent::Closed(reason) => put_close(o, reason),
    }
}

fn initiator(is_local: bool) -> &'static str {
    match is_local {
        true => "local",
        false => "remote",
    }
}

fn put_end(o: &mut Object<'_>, address: SocketAddr, id: Option<&ConnectionId>) {
    match address {
        SocketAddr::V4(address) => {
            o.text("ip_v4", &address.ip().to_string());
            o.number("port_v4", address.port());
        }
        SocketAddr::V6(address) => {
            o.text("ip_v6", &address.ip().to_string());
            o.number("port_v6", address.port());
        }
    }
    if let Some(id) = id {
        array(o.field("connection_ids"), [id], |out, id| hex(out, id));
    }
}

fn put_tuple(o: &mut Object<'_>, addresses: &Addresses) {
    o.object("tuple_remote", |o| put_end(o, addresses.remote, None));
    o.object("tuple_local", |o| put_end(o, addresses.local, None));
}

fn put_parameters(o: &mut Object<'_>, is_local: bool, parameters: &TracedParameters) {
    o.text("initiator", initiator(is_local));
    o.text("owner", initiator(is_local));
    let ids = [
        (
            "original_destination_connection_id",
            &parameters.original_destination,
        ),
        ("initial_source_connection_id", &parameters.initial_source),
        ("retry_source_connection_id", &parameters.retry_source),
    ];
    for (name, id) in ids {
        if let Some(id) = id {
            o.hex(name, id);
        }
    }
    o.flag(
        "disable_active_migration",
        parameters.disable_active_migration,
    );
    let p = parameters;
    for (name, value) in [
        ("max_idle_timeout", p.max_idle_timeout_ms),
        ("max_udp_payload_size", p.max_udp_payload_size),
        ("ack_delay_exponent", p.ack_delay_exponent.into()),
        ("max_ack_delay", p.max_ack_delay_ms.into()),
        ("active_connection_id_limit", p.active_connection_id_limit),
        ("initial_max_data", p.initial_max_data),
        (
            "initial_max_stream_data_bidi_local",
            p.initial_max_stream_data_bidi_local,
        ),
        (
            "initial_max_stream_data_bidi_remote",
            p.initial_max_stream_data_bidi_remote,
        ),
        ("initial_max_stream_data_uni", p.initial_max_stream_data_uni),
        ("initial_max_streams_bidi", p.initial_max_streams_bidi),
        ("initial_max_streams_uni", p.initial_max_streams_uni),
    ] {
        o.number(name, value);
    }
    // Without the fields that the draft asks for it would be none: the reset token is not told.
    for (name, address) in [
        ("preferred_address_v4", p.preferred_v4.map(SocketAddr::from)),
        ("preferred_address_v6", p.preferred_v6.map(SocketAddr::from)),
    ] {
        if let Some(address) = address {
            o.text(name, &address.to_string());
        }
    }
    o.flag("grease_quic_bit", p.grease_quic_bit);
}

fn packet_type(packet_type: PacketType) -> &'static str {
    match packet_type {
        PacketType::Initial => "initial",
        PacketType::ZeroRtt => "0RTT",
        PacketType::Handshake => "handshake",
        PacketType::OneRtt => "1RTT",
    }
}

fn type_of_space(space: Space) -> &'static str {
    packet_type(match space {
        Space::Initial => PacketType::Initial,
        Space::Handshake => PacketType::Handshake,
        Space::Data => PacketType::OneRtt,
    })
}

fn put_packet(o: &mut Object<'_>, packet: &TracedPacket) {
    o.object("header", |o| {
        o.text("packet_type", packet_type(packet.packet_type));
        o.number("packet_number", packet.number);
        if let Some(long) = &packet.long {
            o.hex("version", &long.version.to_be_bytes());
            o.bytes("scil", long.source.len());
            o.bytes("dcil", packet.destination.len());
            o.hex("scid", &long.source);
            o.hex("dcid", &packet.destination);
            if long.token_bytes > 0 {
                o.object("token", |o| put_length(o, long.token_bytes));
            }
        } else {
            o.flag("key_phase_bit", packet.key_phase);
        }
    });
    o.object("raw", |o| {
        o.bytes("length", packet.bytes);
        o.bytes("payload_length", packet.payload_bytes);
    });
    array(o.field("frames"), &packet.frames, |out, frame| {
        object(out, |o| frames::put(o, frame));
    });
    if packet.is_mtu_probe {
        o.flag("is_mtu_probe_packet", true);
    }
}

/// `raw` with a length.
pub(super) fn put_length(o: &mut Object<'_>, bytes: usize) {
    o.object("raw", |o| o.bytes("length", bytes));
}

fn put_unread(o: &mut Object<'_>, of_type: Option<PacketType>, bytes: usize) {
    o.object("header", |o| {
        o.text("packet_type", of_type.map_or("unknown", packet_type));
    });
    put_length(o, bytes);
}

fn drop_trigger(why: DropReason) -> &'static str {
    match why {
        DropReason::Address => "rejected",
        DropReason::Unknown => "connection_unknown",
        DropReason::Version => "unsupported",
        DropReason::Invalid => "invalid",
        DropReason::NoKeys => "key_unavailable",
        DropReason::NotAuthentic => "decryption_failure",
        DropReason::Duplicate => "duplicate",
    }
}

/// A field, and what it says of a `T`.
type Field<T, V> = (&'static str, fn(&T) -> V);

fn put_metrics(o: &mut Object<'_>, now: &Metrics, before: Option<&Metrics>) {
    let rtt_before = before.and_then(|before| before.rtt);
    if let Some(rtt) = &now.rtt {
        let fields: [Field<RttMetrics, Duration>; 4] = [
            ("min_rtt", |rtt| rtt.min),
            ("smoothed_rtt", |rtt| rtt.smoothed),
            ("latest_rtt", |rtt| rtt.latest),
            ("rtt_variance", |rtt| rtt.variance),
        ];
        for (name, of) in fields {
            if rtt_before.as_ref().map(of) != Some(of(rtt)) {
                o.milliseconds(name, of(rtt));
            }
        }
    }
    let fields: [Field<Metrics, Option<u64>>; 5] = [
        ("pto_count", |m| Some(m.pto_count.into())),
        ("congestion_window", |m| Some(m.window)),
        ("bytes_in_flight", |m| Some(m.in_flight)),
        ("ssthresh", |m| m.threshold),
        ("pacing_rate", |m| m.pacing_rate.map(|bytes| 8 * bytes)),
    ];
    for (name, of) in fields {
        if let Some(value) = of(now).filter(|_| before.map(of) != Some(of(now))) {
            o.number(name, value);
        }
    }
}

fn put_keys(o: &mut Object<'_>, keys: &TracedKeys, by: Option<KeyTrigger>) {
    let end = if keys.of_server { "server" } else { "client" };
    let what = match keys.packet_type {
        PacketType::Initial => "initial",
        PacketType::ZeroRtt => "0rtt",
        PacketType::Handshake => "handshake",
        PacketType::OneRtt => "1rtt",
    };
    o.text("key_type", &format!("{end}_{what}_secret"));
    if let Some(phase) = keys.phase {
        o.number("key_phase", phase);
    }
    match by {
        Some(KeyTrigger::Handshake) => o.text("trigger", "tls"),
        Some(KeyTrigger::Local) => o.text("trigger", "local_update"),
        Some(KeyTrigger::Remote) => o.text("trigger", "remote_update"),
        None => {}
    }
}

fn put_close(o: &mut Object<'_>, reason: &CloseReason) {
    let error = |o: &mut Object<'_>, is_local, error: &Error| {
        o.text("initiator", initiator(is_local));
        put_transport_error(o, "connection_error", error.code.to_wire());
        o.text("reason", &error.reason);
        let is_none = error.code == Code::NO_ERROR;
        o.text("trigger", if is_none { "unspecified" } else { "error" });
    };
    let application = |o: &mut Object<'_>, is_local, code| {
        o.text("initiator", initiator(is_local));
        o.text("application_error", "unknown");
        o.number("error_code", code);
    };
    match reason {
        CloseReason::Error(ours) => error(o, true, ours),
        CloseReason::PeerError(theirs) => error(o, false, theirs),
        CloseReason::Application { code } => {
            application(o, true, *code);
            o.text("trigger", "application");
        }
        CloseReason::PeerApplication { code, reason } => {
            application(o, false, *code);
            o.text("reason", reason);
            o.text("trigger", "application");
        }
        CloseReason::TimedOut => {
            o.text("initiator", "local");
            o.text("trigger", "idle_timeout");
        }
        CloseReason::Reset => {
            o.text("initiator", "remote");
            o.text("trigger", "stateless_reset");
        }
        CloseReason::NoVersion => {
            o.text("initiator", "local");
            o.text("trigger", "version_mismatch");
        }
        CloseReason::NoPath => {
            o.text("initiator", "local");
            o.text("reason", &reason.to_string());
            o.text("trigger", "aborted");
        }
    }
}

/// A transport error, by its name if it has one there.
pub(super) fn put_transport_error(o: &mut Object<'_>, field: &str, code: u64) {
    match code {
        0..=0x10 => {
            let name = Code::from_wire(code).to_string().to_ascii_lowercase();
            o.text(field, &name);
        }
        0x100..=0x1ff => o.text(field, &format!("crypto_error_{code:#x}")),
        _ => {
            o.text(field, "unknown");
            o.number("error_code", code);
        }
    }
}

/// Appends a record of the protocol that was agreed on.
pub(super) fn put_protocol(out: &mut Vec<u8>, time: Duration, protocol: &[u8]) {
    put_event(out, time, "quic:alpn_information", TRANSPORT, |data| {
        data.object("chosen_alpn", |alpn| {
            alpn.hex("byte_value", protocol);
            if let Ok(text) = std::str::from_utf8(protocol) {
                alpn.text("string_value", text);
            }
        });
    });
}
