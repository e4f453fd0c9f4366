use super::events::{Events, note};
use super::*;
use sealane_quic::trace::{
    DropReason, KeyTrigger, Metrics, MigrationState, PacketType, RttMetrics, TraceEvent,
    TracedFrame, TracedKeys, TracedLongHeader, TracedLoss, TracedPacket,
};
use sealane_quic::{Addresses, CloseReason, Code, Error, Space};
use serde_json::{Value, json};

/// The records in these bytes.
fn records(bytes: &[u8]) -> Vec<Value> {
    let mut parts = bytes.split(|byte| *byte == 0x1e);
    assert_eq!(parts.next(), Some(&b""[..]), "each record begins with RS");
    let parts = parts.map(|part| {
        assert_eq!(part.last(), Some(&b'\n'));
        serde_json::from_slice(part).expect("a record is JSON")
    });
    parts.collect()
}

fn written(event: TraceEvent) -> Vec<Value> {
    let mut out = Vec::new();
    Events::default().put(&mut out, Duration::from_micros(1_500), &event);
    records(&out)
}

fn data(event: TraceEvent, name: &str) -> Value {
    let mut all = written(event);
    let mut last = all.pop().expect("a record");
    assert_eq!(last["name"], name);
    assert_eq!(last["time"], 1.5);
    last["data"].take()
}

fn id(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).expect("short")
}

fn addresses() -> Addresses {
    Addresses {
        local: "192.0.2.1:443".parse().expect("an address"),
        remote: "[2001:db8::1]:999".parse().expect("an address"),
    }
}

#[test]
fn the_header_names_the_schema_and_the_connection() {
    let mut out = Vec::new();
    put_header(&mut out, &id(&[0xab, 1]));
    let header = records(&out).remove(0);
    assert_eq!(
        header["file_schema"],
        "urn:ietf:params:qlog:file:sequential"
    );
    assert_eq!(header["serialization_format"], "application/qlog+json-seq");
    let trace = &header["trace"];
    assert_eq!(trace["common_fields"]["ODCID"], "ab01");
    assert_eq!(trace["vantage_point"]["type"], "server");
    assert_eq!(trace["event_schemas"][0], SCHEMAS[0]);
    // For qvis.
    assert_eq!(header["qlog_version"], "0.3");
    assert_eq!(header["qlog_format"], "JSON-SEQ");
}

#[test]
fn packets_have_their_headers_and_frames() {
    let packet = TracedPacket {
        packet_type: PacketType::Initial,
        number: 7,
        long: Some(TracedLongHeader {
            version: 1,
            source: id(&[1]),
            token_bytes: 32,
        }),
        destination: id(&[2, 3]),
        key_phase: false,
        bytes: 1200,
        payload_bytes: 1150,
        frames: vec![
            TracedFrame::Ack {
                delay: Duration::from_micros(250),
                ranges: vec![(5, 9), (2, 2)],
                ecn: Some([1, 2, 3]),
            },
            TracedFrame::Crypto {
                offset: 4,
                bytes: 100,
            },
            TracedFrame::ConnectionClose {
                code: 0x128,
                frame_type: 6,
                reason: "\"no\"".into(),
            },
            TracedFrame::Padding { bytes: 9 },
        ],
        is_mtu_probe: false,
    };
    let data = data(TraceEvent::Sent(Box::new(packet)), "quic:packet_sent");
    let expected = json!({
        "header": {
            "packet_type": "initial", "packet_number": 7, "version": "00000001",
            "scil": 1, "dcil": 2, "scid": "01", "dcid": "0203", "token": {"raw": {"length": 32}},
        },
        "raw": {"length": 1200, "payload_length": 1150},
        "frames": [
            {"frame_type": "ack", "ack_delay": 0.25, "acked_ranges": [[5, 9], [2]],
             "ect0": 1, "ect1": 2, "ce": 3},
            {"frame_type": "crypto", "offset": 4, "length": 100, "raw": {"length": 100}},
            {"frame_type": "connection_close", "error_space": "transport",
             "error": "crypto_error_0x128", "reason": "\"no\"", "trigger_frame_type": 6},
            {"frame_type": "padding", "raw": {"length": 9, "payload_length": 9}},
        ],
    });
    assert_eq!(data, expected);
}

#[test]
fn metrics_have_what_is_new_under_both_names() {
    let rtt = RttMetrics {
        min: Duration::from_millis(1),
        latest: Duration::from_millis(2),
        smoothed: Duration::from_millis(3),
        variance: Duration::from_millis(4),
    };
    let first = Metrics {
        rtt: Some(rtt),
        window: 12_000,
        in_flight: 0,
        threshold: None,
        pacing_rate: None,
        pto_count: 0,
    };
    let second = Metrics {
        in_flight: 99,
        threshold: Some(5),
        ..first
    };
    let mut events = Events::default();
    let mut out = Vec::new();
    for metrics in [first, second] {
        events.put(&mut out, Duration::ZERO, &TraceEvent::Metrics(metrics));
    }
    let all = records(&out);
    let names: Vec<_> = all.iter().map(|one| one["name"].as_str()).collect();
    let both = [
        Some("quic:recovery_metrics_updated"),
        Some("recovery:metrics_updated"),
    ];
    assert_eq!(names, [both, both].concat());
    assert_eq!(
        all[0]["data"],
        json!({"min_rtt": 1, "latest_rtt": 2, "smoothed_rtt": 3, "rtt_variance": 4,
               "pto_count": 0, "congestion_window": 12_000, "bytes_in_flight": 0})
    );
    assert_eq!(
        all[2]["data"],
        json!({"bytes_in_flight": 99, "ssthresh": 5})
    );
}

#[test]
fn other_events_are_those_of_the_draft() {
    let lost = TraceEvent::Lost {
        space: Space::Data,
        loss: TracedLoss {
            number: 3,
            by_time: true,
            is_mtu_probe: false,
        },
    };
    assert_eq!(
        data(lost, "quic:packet_lost"),
        json!({"header": {"packet_type": "1RTT", "packet_number": 3}, "trigger": "time_threshold"})
    );
    let dropped = TraceEvent::Dropped {
        packet_type: None,
        bytes: 50,
        why: DropReason::Address,
    };
    assert_eq!(
        data(dropped, "quic:packet_dropped"),
        json!({"header": {"packet_type": "unknown"}, "raw": {"length": 50}, "trigger": "rejected"})
    );
    let keys = TraceEvent::KeysMade {
        keys: TracedKeys {
            packet_type: PacketType::OneRtt,
            of_server: true,
            phase: Some(1),
        },
        by: KeyTrigger::Remote,
    };
    assert_eq!(
        data(keys, "quic:key_updated"),
        json!({"key_type": "server_1rtt_secret", "key_phase": 1, "trigger": "remote_update"})
    );
    let migration = TraceEvent::Migration {
        state: MigrationState::Started,
        addresses: addresses(),
    };
    assert_eq!(written(migration.clone())[0]["name"], "quic:tuple_assigned");
    assert_eq!(
        data(migration, "quic:migration_state_updated"),
        json!({"new": "migration_started", "tuple_remote": {"ip_v6": "2001:db8::1", "port_v6": 999},
               "tuple_local": {"ip_v4": "192.0.2.1", "port_v4": 443}})
    );
    let closed = TraceEvent::Closed(CloseReason::PeerError(Error::new(
        Code::FLOW_CONTROL_ERROR,
        "too much",
    )));
    assert_eq!(
        data(closed, "quic:connection_closed"),
        json!({"initiator": "remote", "connection_error": "flow_control_error",
               "reason": "too much", "trigger": "error"})
    );
}

#[test]
fn notes_are_records_too() {
    let mut out = Vec::new();
    note(&mut out, Duration::from_secs(1), "info", "the end");
    let expected = json!({"time": 1000, "name": "loglevel:info", "data": {"message": "the end"}});
    assert_eq!(records(&out), [expected]);
    assert!(out.len() < NOTE_BYTES as usize);
}
