//! Names and formats.

use super::show;
use crate::counters::QuicDrop;
use crate::testing::Site;
use crate::worker::{Process, Worker};
use sealane_tls::{AcceleratorKind, EarlyVerdict, KeyType};
use std::sync::Arc;
use std::time::Duration;

fn process_of(workers: Vec<Arc<Worker>>) -> Arc<Process> {
    let process = Arc::new(Process::default());
    process.set_workers(workers);
    process
}

fn assert_lines(text: &str, expected: &[&str]) {
    for line in expected {
        assert!(text.lines().any(|known| known == *line), "{line}\n{text}");
    }
}

#[test]
fn sums_over_threads_under_stable_names() {
    let site = Site::new("");
    let workers = vec![site.another_worker(|_| {}), site.another_worker(|_| {})];
    workers[0].counters.requests.add(40);
    workers[1].counters.requests.add(2);
    workers[1].counters.active.add(3);
    workers[1].counters.ktls_on.add(1);
    workers[0].counters.ktls_off[0].add(5);
    for worker in &workers {
        worker.counters.http2.streams_opened.add(3);
        worker.counters.http2.ping_floods.add(1);
    }
    let snapshot = workers[0].current.snapshot();
    snapshot
        .session_stats()
        .count_early_data(EarlyVerdict::MethodRefused);
    let process = process_of(workers);
    let text = show(&process, |families| families.text());
    let classic = show(&process, |families| families.classic_text());
    assert_lines(
        &text,
        &[
            "# TYPE sealane_requests counter",
            "sealane_requests_total 42",
            "# TYPE sealane_connections_active gauge",
            "sealane_connections_active 3",
            "sealane_kernel_tls_connections_total 1",
            "sealane_kernel_tls_refused_connections_total{reason=\"disabled\"} 5",
            "sealane_http2_streams_opened_total 6",
            "sealane_http2_floods_total{kind=\"ping\"} 2",
            "sealane_http2_floods_total{kind=\"rapid_reset\"} 0",
            "sealane_tls_handshakes_failed_total 0",
            "sealane_tls_sessions_resumed_total{by=\"store\"} 0",
            "sealane_tls_early_data_total{verdict=\"method_refused\"} 1",
        ],
    );
    assert!(text.ends_with("# EOF\n"));
    assert_lines(
        &classic,
        &[
            "# TYPE sealane_requests_total counter",
            "sealane_requests_total 42",
            "# TYPE sealane_connections_active gauge",
            "# TYPE sealane_tls_handshake_seconds histogram",
        ],
    );
    assert!(
        !classic.contains("# EOF") && !classic.contains("# UNIT"),
        "{classic}"
    );
}

/// What hardly any machine can bring about, by the names that connections and the codec have for
/// it.
#[test]
fn each_reason_and_each_kind_has_a_number_of_its_own() {
    let site = Site::new("");
    let worker = site.another_worker(|_| {});
    let counters = &worker.counters;
    counters.count_ktls("", "");
    counters.count_ktls("on", "");
    let reasons = sealane_tls::KTLS_REFUSALS.into_iter();
    let mut expected = vec!["sealane_kernel_tls_connections_total 1".to_owned()];
    for (reason, times) in reasons.chain([""]).zip(1..) {
        for _ in 0..times {
            counters.count_ktls("off", reason);
        }
        let label = if reason.is_empty() {
            "small_response"
        } else {
            reason
        };
        expected.push(format!(
            "sealane_kernel_tls_refused_connections_total{{reason=\"{label}\"}} {times}"
        ));
    }
    counters.http2.add(&sealane_http::h2::Counters {
        rapid_reset_floods: 1,
        continuation_floods: 2,
        header_bombs: 3,
        settings_floods: 4,
        ping_floods: 5,
        empty_frame_floods: 6,
        priority_floods: 7,
        window_update_floods: 8,
        unread_reply_floods: 9,
        ..sealane_http::h2::Counters::default()
    });
    let kinds = [
        "rapid_reset",
        "continuation",
        "header_bomb",
        "settings",
        "ping",
        "empty_frame",
        "priority",
        "window_update",
        "unread_reply",
    ];
    for (kind, times) in kinds.iter().zip(1..) {
        expected.push(format!(
            "sealane_http2_floods_total{{kind=\"{kind}\"}} {times}"
        ));
    }
    let text = show(&process_of(vec![worker]), |families| families.text());
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_lines(&text, &expected);
}

/// What clients of QUIC bring about one by one in other tests, by the names that connections, the
/// transport and the codec have for it.
#[test]
fn what_http3_and_quic_count_has_numbers_of_its_own() {
    let site = Site::new("");
    let worker = site.another_worker(|_| {});
    let counters = &worker.counters;
    counters.http3.add(&sealane_http::h2::Counters {
        streams_refused: 1,
        resets_received: 2,
        stream_faults: 3,
        malformed_heads: 4,
        connection_faults: 5,
        rapid_reset_floods: 6,
        header_bombs: 7,
        settings_floods: 8,
        empty_frame_floods: 9,
        priority_floods: 10,
        unread_reply_floods: 11,
        ..sealane_http::h2::Counters::default()
    });
    counters.quic.add(&sealane_quic::Counters {
        datagrams_received: 21,
        datagrams_sent: 22,
        bytes_sent: 23,
        bytes_received: 24,
        packets_dropped: 25,
        frames_lost: 26,
        migrations: 27,
        key_updates: 28,
    });
    let drops = [
        QuicDrop::InboxFull,
        QuicDrop::ThreadFull,
        QuicDrop::Unknown,
        QuicDrop::NotAuthentic,
    ];
    for (drop, times) in drops.into_iter().zip(1..) {
        (0..times).for_each(|_| counters.quic.count_dropped(drop));
    }
    let text = show(&process_of(vec![worker]), |families| families.text());
    assert_lines(
        &text,
        &[
            "sealane_http3_streams_refused_total 1",
            "sealane_http3_resets_received_total 2",
            "sealane_http3_stream_faults_total 3",
            "sealane_http3_malformed_heads_total 4",
            "sealane_http3_connection_faults_total 5",
            "sealane_http3_floods_total{kind=\"rapid_reset\"} 6",
            "sealane_http3_floods_total{kind=\"header_bomb\"} 7",
            "sealane_http3_floods_total{kind=\"settings\"} 8",
            "sealane_http3_floods_total{kind=\"empty_frame\"} 9",
            "sealane_http3_floods_total{kind=\"priority\"} 10",
            "sealane_http3_floods_total{kind=\"unread_reply\"} 11",
            "sealane_http2_floods_total{kind=\"priority\"} 0",
            "sealane_quic_datagrams_received_total 21",
            "sealane_quic_datagrams_sent_total 22",
            "sealane_quic_sent_bytes_total 23",
            "sealane_quic_received_bytes_total 24",
            "sealane_quic_packets_dropped_total 25",
            "sealane_quic_frames_lost_total 26",
            "sealane_quic_migrations_total 27",
            "sealane_quic_key_updates_total 28",
            "sealane_quic_datagrams_dropped_total{reason=\"inbox_full\"} 1",
            "sealane_quic_datagrams_dropped_total{reason=\"thread_full\"} 2",
            "sealane_quic_datagrams_dropped_total{reason=\"unknown\"} 3",
            "sealane_quic_datagrams_dropped_total{reason=\"not_authentic\"} 4",
        ],
    );
}

#[test]
fn names_are_shown_whatever_they_contain() {
    let site = Site::new("status_zone 'a \\\\ \"b\"';");
    let worker = site.another_worker(|_| {});
    let text = show(&process_of(vec![worker]), |families| families.text());
    assert_lines(
        &text,
        &["sealane_server_requests_total{server=\"a \\\\ \\\"b\\\"\"} 0"],
    );
}

#[test]
fn handshakes_are_told_by_key_and_accelerator() {
    let site = Site::new("");
    let worker = site.another_worker(|_| {});
    let mut slot = worker.turns.place();
    slot.set_in_flight(true);
    let handshakes = worker.current.snapshot().handshakes.clone();
    let stats = handshakes.stats();
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
    let process = process_of(vec![worker]);
    let json = show(&process, |families| families.json(7.5));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let text = show(&process, |families| families.text());
    assert_lines(
        &text,
        &[
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
        ],
    );
    assert!(
        !text.contains("key=\"p256\""),
        "nothing was computed with one"
    );
    assert_eq!(json["time"], 7.5);
    let operations = &json["families"]["sealane_tls_key_operation_seconds"];
    assert_eq!(
        operations["labels"],
        serde_json::json!(["key", "accelerator"])
    );
    assert_eq!(operations["samples"][0][0], "rsa2048");
    assert_eq!(operations["samples"][0][2][0], 3);
    assert_eq!(
        json["families"]["sealane_tls_handshakes_refused"]["samples"][0][0],
        7
    );
    drop(slot);
}
