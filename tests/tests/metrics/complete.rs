//! The guard: whatever is counted is moved by a test.

use super::*;
use sealane_tests::metrics::parts;
use std::collections::BTreeSet;

/// What the tests of this file's neighbours move.
const HERE: &[&[Move]] = &[
    caches::MOVES,
    caches::COLD,
    certificates::MOVES,
    handshakes::AWAY,
    handshakes::REFUSED,
    handshakes::BATCHES,
    http2::STREAMS,
    http2::FLOODS,
    http3::CONNECTIONS,
    http3::ALGORITHMS,
    http3::ANSWERS,
    http3::REFUSED,
    kernel::REFUSED,
    limits::MOVES,
    limits::EXHAUSTED,
    processes::MOVES,
    processes::OPEN,
    processes::LOST,
    requests::MOVES,
    requests::LEVELS,
    resolvers::MOVES,
    sessions::MOVES,
    upstreams::CHECKED,
    upstreams::MOVES,
    upstreams::STATES,
];

/// The same, where the test says how far in its own words.
const BY_NAME: &[&[&str]] = &[
    &handshakes::WAITING,
    &handshakes::QUEUED,
    processes::MORE,
    resolvers::SERVICES,
    resolvers::ADDRESSES,
];

/// What moves elsewhere: in which file, by which test. Those of this workspace's other end-to-end
/// tests name the sample; what no client can bring about on every machine is left to unit tests.
const ELSEWHERE: &[(&str, &str, &[&str])] = &[
    (
        "tests/tests/queue.rs",
        "a_full_queue_and_its_length_are_counted",
        &[
            "sealane_upstream_queue_waiting{upstream=\"app\"}",
            "sealane_upstream_queue_overflows_total{upstream=\"app\"}",
        ],
    ),
    (
        "tests/vm/src/bin/guest/cases/upstreams.rs",
        "towards_servers",
        &["sealane_upstream_kernel_tls_connections_total"],
    ),
    (
        "tests/tests/early_data.rs",
        "what_is_not_idempotent_waits_for_the_handshake",
        &[
            "sealane_tls_early_data_total{verdict=\"accepted\"}",
            "sealane_tls_early_data_total{verdict=\"method_refused\"}",
        ],
    ),
    (
        "tests/tests/early_data.rs",
        "sessions_of_another_server_bring_no_early_data",
        &[
            "sealane_tls_early_data_total{verdict=\"no_session\"}",
            "sealane_tls_sessions_missed_total{reason=\"other_context\"}",
        ],
    ),
    (
        "tests/tests/early_data.rs",
        "an_expired_session_brings_no_early_data",
        &["sealane_tls_sessions_missed_total{reason=\"expired\"}"],
    ),
    (
        "tests/tests/early_data.rs",
        "early_data_of_the_wrong_age_is_refused",
        &["sealane_tls_early_data_total{verdict=\"age_skew\"}"],
    ),
    (
        "tests/tests/early_data.rs",
        "tickets_from_before_the_register_bring_no_early_data",
        &["sealane_tls_early_data_total{verdict=\"before_register\"}"],
    ),
    (
        "tests/tests/early_data.rs",
        "tickets_that_are_cut_altered_or_oversized_cost_a_full_handshake",
        &["sealane_tls_sessions_missed_total{reason=\"damaged\"}"],
    ),
    (
        "tests/tests/early_data/verdicts.rs",
        "replays_and_forgeries_are_counted_one_by_one",
        &[
            "sealane_tls_early_data_total{verdict=\"replayed\"}",
            "sealane_tls_early_data_total{verdict=\"bad_binder\"}",
            "sealane_tls_early_data_total{verdict=\"ticket_exhausted\"}",
        ],
    ),
    (
        "tests/tests/early_data/verdicts.rs",
        "early_data_that_does_not_fit_the_handshake_is_counted",
        &[
            "sealane_tls_early_data_total{verdict=\"other_protocol\"}",
            "sealane_tls_early_data_total{verdict=\"unsuitable\"}",
        ],
    ),
    (
        "tests/tests/early_data/replays.rs",
        "without_the_store_early_data_is_refused_and_nothing_else",
        &["sealane_tls_early_data_total{verdict=\"store_error\"}"],
    ),
    (
        "crates/tls/src/tests/early_data.rs",
        "nodes_that_share_a_store_accept_a_flight_once",
        &["sealane_tls_early_data_total{verdict=\"store_timeout\"}"],
    ),
    (
        "crates/tls/src/tests/early_data.rs",
        "what_cannot_be_judged_is_refused",
        &["sealane_tls_early_data_total{verdict=\"register_full\"}"],
    ),
    (
        "tests/tests/session_store.rs",
        "a_store_that_is_paused_killed_or_full_fails_no_handshake",
        &[
            "sealane_session_store_up",
            "sealane_session_store_requests_total{result=\"success\"}",
            "sealane_session_store_requests_total{result=\"timed_out\"}",
            "sealane_session_store_requests_total{result=\"error\"}",
            "sealane_tls_sessions_resumed_total{by=\"store\"}",
            "sealane_tls_sessions_missed_total{reason=\"store_timeout\"}",
            "sealane_tls_sessions_missed_total{reason=\"store_error\"}",
        ],
    ),
    (
        "tests/tests/stapling.rs",
        "the_last_staple_serves_until_it_ends_whatever_the_responder_says",
        &["sealane_staple_next_update_timestamp_seconds"],
    ),
    (
        "tests/tests/otel/faults.rs",
        "while_a_collector_is_away_spans_are_kept_and_then_dropped",
        &[
            "sealane_trace_spans_exported_total",
            "sealane_trace_exports_failed_total",
            "sealane_trace_spans_dropped_total{reason=\"queue_full\"}",
        ],
    ),
    (
        "tests/tests/otel/faults.rs",
        "an_error_that_passes_is_tried_again_and_another_is_not",
        &[
            "sealane_trace_spans_dropped_total{reason=\"rejected\"}",
            "sealane_trace_spans_dropped_total{reason=\"export_failed\"}",
        ],
    ),
    (
        "tests/tests/otel/faults.rs",
        "spans_that_a_process_takes_along_are_counted",
        &[
            "sealane_trace_spans_dropped_total{reason=\"process_ended\"}",
            "sealane_trace_spans_waiting",
        ],
    ),
    (
        "crates/server/src/metrics/tests.rs",
        "each_reason_and_each_kind_has_a_number_of_its_own",
        &[
            "sealane_kernel_tls_refused_connections_total{reason=\"call_failed\"}",
            "sealane_kernel_tls_refused_connections_total{reason=\"no_module\"}",
            "sealane_kernel_tls_refused_connections_total{reason=\"attach_refused\"}",
            "sealane_kernel_tls_refused_connections_total{reason=\"suite_unsupported\"}",
            "sealane_kernel_tls_refused_connections_total{reason=\"corrupts\"}",
            "sealane_kernel_tls_refused_connections_total{reason=\"no_rekey\"}",
            "sealane_kernel_tls_refused_connections_total{reason=\"no_loopback\"}",
            "sealane_kernel_tls_refused_connections_total{reason=\"self_test_failed\"}",
            "sealane_kernel_tls_refused_connections_total{reason=\"not_probed\"}",
            "sealane_kernel_tls_refused_connections_total{reason=\"small_response\"}",
            "sealane_kernel_tls_connections_total",
        ],
    ),
    (
        "crates/http/src/h2/tests/section_10_security.rs",
        "a_peer_that_does_not_read_its_answers",
        &["sealane_http2_floods_total{kind=\"unread_reply\"}"],
    ),
    (
        "crates/server/src/metrics/tests.rs",
        "what_http3_and_quic_count_has_numbers_of_its_own",
        &[
            "sealane_http3_streams_refused_total",
            "sealane_http3_resets_received_total",
            "sealane_http3_stream_faults_total",
            "sealane_http3_malformed_heads_total",
            "sealane_http3_connection_faults_total",
            "sealane_http3_floods_total{kind=\"rapid_reset\"}",
            "sealane_http3_floods_total{kind=\"header_bomb\"}",
            "sealane_http3_floods_total{kind=\"settings\"}",
            "sealane_http3_floods_total{kind=\"empty_frame\"}",
            "sealane_http3_floods_total{kind=\"priority\"}",
            "sealane_http3_floods_total{kind=\"unread_reply\"}",
            "sealane_quic_frames_lost_total",
            "sealane_quic_datagrams_dropped_total{reason=\"inbox_full\"}",
            "sealane_quic_datagrams_dropped_total{reason=\"thread_full\"}",
        ],
    ),
    (
        "crates/server/src/quic/listening.rs",
        "answers_to_packets_of_anybody_are_limited",
        &["sealane_quic_answers_withheld_total"],
    ),
    (
        "crates/server/src/connection/tests.rs",
        "a_panic_closes_its_connection_alone",
        &["sealane_panics_total"],
    ),
    (
        "tests/tests/stream_udp/life.rs",
        "floods_stay_within_limits",
        &["sealane_datagrams_dropped_total"],
    ),
    (
        "crates/tls/src/accelerator/tests/batch.rs",
        "wrong_results_are_computed_again_counted_and_told",
        &["sealane_tls_key_operations_wrong_total"],
    ),
    (
        "crates/tls/src/accelerator/tests/batch.rs",
        "cancelled_jobs_are_dropped_uncomputed",
        &["sealane_tls_key_operations_cancelled_total"],
    ),
    (
        "crates/tls/src/accelerator/tests/batch.rs",
        "few_are_computed_alone_and_many_together",
        &["sealane_tls_key_operations_queued"],
    ),
    (
        "crates/tls/src/accelerator/tests/stats.rs",
        "operations_are_counted_by_key_and_accelerator",
        &["sealane_tls_key_operations_failed_total"],
    ),
    (
        "tests/tests/token_keys.rs",
        "a_module_that_crashes_or_hangs_leaves_others_alone",
        &[
            "sealane_key_device_up",
            "sealane_key_device_operations_failed_total",
        ],
    ),
    (
        "tests/tests/token_keys.rs",
        "all_clients_shake_hands_with_keys_in_a_token",
        &["sealane_key_device_operation_seconds"],
    ),
    (
        "tests/tests/token_keys.rs",
        "handshakes_do_not_pile_up_at_a_slow_device",
        &[
            "sealane_key_device_operations_queued",
            "sealane_key_device_operations_refused_total",
        ],
    ),
    (
        "tests/tests/token_keys.rs",
        "the_processor_computes_for_a_device_that_fails",
        &["sealane_key_device_fallbacks_total"],
    ),
];

/// Labels whose values come from a list in the code. Others come from the configuration.
const LISTED: [&str; 9] = [
    "kind",
    "reason",
    "by",
    "verdict",
    "result",
    "status",
    "state",
    "type",
    "congestion_control",
];

/// A sample without what is configured, and without the parts of histograms.
fn normal(sample: &str) -> String {
    let (name, labels) = parts(sample);
    let endings = ["_bucket", "_count", "_sum"];
    let family = endings
        .into_iter()
        .find_map(|ending| name.strip_suffix(ending));
    let is_listed = |label: &&&str| {
        let name = label.split('=').next();
        name.is_some_and(|name| LISTED.contains(&name))
    };
    let labels: Vec<&str> = labels.iter().filter(is_listed).copied().collect();
    let family = family.unwrap_or(name);
    match labels.is_empty() {
        true => family.to_owned(),
        false => format!("{family}{{{}}}", labels.join(",")),
    }
}

/// The names in the table of the manual.
fn documented() -> Vec<String> {
    let manual = sealane_tests::repository().join("docs/monitoring.md");
    let manual = fs::read_to_string(manual).expect("the manual");
    let rows = manual
        .lines()
        .filter_map(|line| line.strip_prefix("| `sealane_"));
    let names = rows.filter_map(|row| Some(format!("sealane_{}", row.split_once('`')?.0)));
    names.collect()
}

/// Whether this step is a movement: numbers that must stay are listed beside those that move.
fn moves(step: &sealane_tests::metrics::Step) -> bool {
    !matches!(step, By(0)) && *step != To(0.0)
}

#[test]
fn every_metric_is_moved_by_a_test() {
    let here = HERE.iter().copied().flatten();
    let here = here.filter(|(_, step)| moves(step)).map(|(name, _)| *name);
    let by_name = BY_NAME.iter().copied().flatten().copied();
    let elsewhere = ELSEWHERE.iter().flat_map(|(.., names)| *names).copied();
    let moved: BTreeSet<String> = here.chain(by_name).chain(elsewhere).map(normal).collect();
    let families: BTreeSet<&str> = moved.iter().map(|name| parts(name).0).collect();
    let documented = documented();
    assert!(documented.len() > 80, "{documented:?}");
    let still: Vec<_> = documented
        .iter()
        .filter(|name| !families.contains(name.as_str()))
        .collect();
    assert!(still.is_empty(), "no test moves {still:#?}");
    let unknown: Vec<_> = families
        .iter()
        .filter(|name| !documented.iter().any(|known| known == *name))
        .collect();
    assert!(
        unknown.is_empty(),
        "docs/monitoring.md does not name {unknown:#?}"
    );

    // Each value of the labels that a server shows from the start.
    let shown = names::shown_by_a_server_with_everything();
    let shown: BTreeSet<String> = shown.keys().map(|name| normal(name)).collect();
    let still: Vec<_> = shown.difference(&moved).collect();
    assert!(still.is_empty(), "no test moves {still:#?}");
}

#[test]
fn what_moves_elsewhere_is_there() {
    for (file, test, samples) in ELSEWHERE {
        let text = fs::read_to_string(sealane_tests::repository().join(file));
        let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
        let (_, rest) = text
            .split_once(&format!("fn {test}("))
            .unwrap_or_else(|| panic!("{file} has no test {test}"));
        let (body, _) = rest.split_once("\n}\n").expect("it ends");
        // Those of the exporter are asked for without what all of them begin with.
        let name = |sample: &str| {
            let name = sample.trim_start_matches("sealane_trace_");
            name.replace('"', "\\\"")
        };
        for sample in *samples {
            assert!(
                file.starts_with("crates/") || body.contains(&name(sample)),
                "{test} in {file} does not look at {sample}"
            );
        }
    }
}

/// Whatever the manual tells operators to watch, the page watches.
#[test]
fn the_page_knows_what_is_to_be_watched() {
    let read = |file: &str| {
        let text = fs::read_to_string(sealane_tests::repository().join(file));
        text.unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    let manual = read("docs/monitoring.md");
    let (_, table) = manual.split_once("## What to watch\n").expect("the table");
    let (table, _) = table.split_once("\n## ").expect("what follows it");
    let watched = names::names_in(table);
    assert!(watched.len() > 12, "{watched:?}");
    let page = read("crates/server/src/handlers/status/console.html");
    for name in watched {
        let name = name
            .trim_start_matches("sealane_")
            .trim_end_matches("_total");
        assert!(page.contains(name), "the page does not look at {name}");
    }
}
