//! Collectors that are away, slow, silent or say no: requests are served as before, spans are kept
//! as far as there is room, and the log says what happens.

use super::collector::{Collector, spans_of};
use super::is_left_out;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::{Server, Site, command, wait_for, wire};
use serde_json::Value;
use std::collections::BTreeSet;

/// Requests `/0` to `/COUNT`, each of which must be answered.
fn request(server: &Server<'_>, count: usize) {
    for number in 0..count {
        assert_eq!(
            wire::get(server.port("plain"), &format!("/{number}")).status,
            204
        );
    }
}

fn configuration(exporter: &str) -> String {
    format!(
        "otel_exporter {{ endpoint 127.0.0.1:%collector%; {exporter} }}
         server {{ listen 127.0.0.1:%plain%; location / {{ otel_trace on; return 204; }}
             location = /metrics {{ metrics; }} }}"
    )
}

/// The metrics of a server, each name as the tests write it.
fn metrics(server: &Server<'_>) -> String {
    let text = wire::get(server.port("plain"), "/metrics").text();
    text.replace("{} ", " ")
}

/// Waits until the metrics have this line.
fn wait_for_metric(server: &Server<'_>, line: &str) {
    let line = format!("sealane_trace_{line}");
    wait_for(&line, || {
        let has = |text: String| text.lines().any(|found| found == line);
        has(metrics(server)).then_some(())
    });
}

fn ids(spans: &[Value]) -> BTreeSet<String> {
    spans.iter().map(|span| span["id"].to_string()).collect()
}

#[test]
fn while_a_collector_is_away_spans_are_kept_and_then_dropped() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let server = site.serve(&configuration(
        "interval 20ms; batch_size 4; batch_count 2;",
    ));
    request(&server, 1);
    let log =
        server.wait_for_log("OTel export failure: connect() failed (111: Connection refused)");
    for part in [
        "up to 8 spans are kept",
        "correct \"endpoint\"",
        "exporting is retried",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    request(&server, 29);
    server.wait_for_log("OTel dropped records: 22");
    let log = server.error_log();
    assert_eq!(log.matches("OTel export failure").count(), 1, "{log}");
    let collector = Collector::start(&site, "collector");
    // The oldest were kept.
    let spans = collector.wait_for_spans(8);
    assert_eq!(ids(&spans).len(), 8);
    server.wait_for_log("22 spans were dropped");
    // And it goes on.
    request(&server, 2);
    collector.wait_for_spans(10);
    wait_for_metric(&server, "spans_exported_total 10");
    wait_for_metric(&server, "spans_dropped_total{reason=\"queue_full\"} 22");
    wait_for_metric(&server, "spans_waiting 0");
    let metrics = metrics(&server);
    let failed = metrics
        .lines()
        .find_map(|line| line.strip_prefix("sealane_trace_exports_failed_total "));
    assert!(failed.is_some_and(|count| count != "0"), "{metrics}");
}

#[test]
fn a_collector_that_comes_back_has_what_was_sent_meanwhile() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let server = site.serve(&configuration("interval 20ms;"));
    let first = Collector::start(&site, "collector");
    request(&server, 3);
    first.wait_for_spans(3);
    drop(first);
    request(&server, 3);
    server.wait_for_log("OTel export failure");
    let second = Collector::start(&site, "collector");
    request(&server, 3);
    second.wait_for_spans(6);
    server.wait_for_log("works again");
}

#[test]
fn an_error_that_passes_is_tried_again_and_another_is_not() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let mut collector = Collector::start(&site, "collector");
    let server = site.serve(&configuration("interval 20ms;"));
    collector.answers("UNAVAILABLE");
    request(&server, 1);
    let refused = collector.wait_for_exports(1);
    server.wait_for_log("OTel export failure: Unavailable: as the test says while exporting");
    collector.answers("ok");
    let spans = collector.wait_for_spans(1);
    assert_eq!(ids(&spans), ids(&spans_of(&refused[0])));
    server.wait_for_log("works again after");
    collector.answers("INVALID_ARGUMENT");
    let before = collector.exports().len();
    request(&server, 1);
    let refused = collector
        .wait_for_exports(before + 1)
        .pop()
        .expect("it is there");
    server.wait_for_log("OTel export failure: InvalidArgument");
    collector.answers("ok");
    request(&server, 1);
    let spans = collector.wait_for_spans(2);
    assert!(ids(&spans).is_disjoint(&ids(&spans_of(&refused))));
    server.wait_for_log("1 spans were dropped");
    collector.answers("reject");
    request(&server, 1);
    server.wait_for_log("has rejected 1 spans (one is enough)");
    wait_for_metric(&server, "spans_dropped_total{reason=\"rejected\"} 1");
    wait_for_metric(&server, "spans_dropped_total{reason=\"export_failed\"} 1");
    wait_for_metric(&server, "spans_exported_total 2");
}

#[test]
fn answers_that_are_too_long_are_not_read_and_not_logged() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let mut collector = Collector::start(&site, "collector");
    let server = site.serve(&configuration("interval 20ms;"));
    for (behaviour, said) in [
        ("long_answer", "the limit is: 65536 bytes"),
        // The collector knows from SETTINGS how much is read, and ends the stream.
        ("long_header", "http2 error: stream error received"),
        ("long_message", "Unavailable: long long"),
    ] {
        collector.answers(behaviour);
        request(&server, 1);
        let line = server.wait_for_log(said);
        assert!(line.contains("OTel export failure"), "{line}");
        assert!(line.matches("long ").count() <= 60, "{line}");
        // What it had to say is no reason to ask it nothing more.
        collector.answers("ok");
        let taken = collector.spans().len();
        request(&server, 1);
        collector.wait_for_spans(taken + 1);
    }
}

#[test]
fn spans_that_a_process_takes_along_are_counted() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let mut collector = Collector::start(&site, "collector");
    collector.answers("hang");
    let server = site.serve(&configuration("interval 20ms;"));
    request(&server, 3);
    collector.wait_for_exports(1);
    wait_for_metric(&server, "spans_waiting 3");
    let text = std::fs::read_to_string(site.path("sealane.conf")).expect("the configuration");
    // More threads need another process.
    let text = text.replace("worker_processes 1;", "worker_processes 2;");
    assert_eq!(reload(&site, &server, &text), Reload::Applied);
    wait_for_metric(&server, "spans_dropped_total{reason=\"process_ended\"} 3");
    wait_for_metric(&server, "spans_waiting 0");
}

#[test]
fn spans_that_nobody_takes_are_given_up_after_five_attempts() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let mut collector = Collector::start(&site, "collector");
    collector.answers("UNAVAILABLE");
    let server = site.serve(&configuration("interval 20ms;"));
    request(&server, 1);
    let exports = collector.wait_for_exports(5);
    let tried = ids(&spans_of(&exports[0]));
    assert!(exports.iter().all(|export| ids(&spans_of(export)) == tried));
    collector.answers("ok");
    request(&server, 1);
    assert!(ids(&collector.wait_for_spans(1)).is_disjoint(&tried));
    server.wait_for_log("1 spans were dropped");
    assert_eq!(collector.exports().len(), 6);
}

#[test]
fn a_slow_collector_has_several_exports_at_a_time_but_not_more() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let mut collector = Collector::start(&site, "collector");
    collector.answers("slow");
    let server = site.serve(&configuration("interval 1h; batch_size 2; batch_count 3;"));
    request(&server, 6);
    let exports = collector.wait_for_exports(3);
    let under_way = exports
        .iter()
        .filter_map(|export| export["under_way"].as_u64());
    assert_eq!(under_way.max(), Some(3));
    // There is room again once they are answered.
    wait_for("the end of the process", || {
        request(&server, 2);
        (collector.exports().len() > 3).then_some(())
    });
    let exports = collector.exports();
    assert!(
        exports
            .iter()
            .all(|export| export["under_way"].as_u64() <= Some(3))
    );
}

#[test]
fn a_silent_collector_delays_neither_requests_nor_for_long_the_end() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let mut collector = Collector::start(&site, "collector");
    collector.answers("hang");
    let server = site.serve(&configuration(
        "interval 20ms; batch_size 2; batch_count 2;",
    ));
    request(&server, 2);
    collector.wait_for_exports(1);
    request(&server, 50);
    server.wait_for_log("OTel dropped records");
    let path = site.path("logs/error.log");
    // The harness waits for the end, not for ever.
    assert!(server.stop("QUIT").success());
    let log = std::fs::read_to_string(path).expect("the log");
    assert!(
        log.contains("spans were not exported to \"127.0.0.1:"),
        "{log}"
    );
}

#[test]
fn a_reload_leads_spans_that_wait_to_the_new_collector() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let server = site.serve(&configuration("interval 20ms;"));
    request(&server, 5);
    server.wait_for_log("OTel export failure");
    let other = Collector::start(&site, "other");
    let text = std::fs::read_to_string(site.path("sealane.conf")).expect("the configuration");
    let text = text.replace(
        &format!(":{};", site.port("collector")),
        &format!(":{}; header x-new yes;", site.port("other")),
    );
    assert_eq!(reload(&site, &server, &text), Reload::Applied);
    other.wait_for_spans(5);
    request(&server, 2);
    let spans = other.wait_for_spans(7);
    assert_eq!(ids(&spans).len(), 7);
    let exports = other.exports();
    assert!(
        exports
            .iter()
            .all(|export| export["metadata"]["x-new"][0] == "yes")
    );
}

#[test]
fn a_worker_that_dies_takes_only_its_queue_along() {
    if is_left_out() {
        return;
    }
    let site = Site::new();
    let collector = Collector::start(&site, "collector");
    let server = site.serve(&configuration("interval 1h; batch_size 3;"));
    request(&server, 4);
    collector.wait_for_spans(3);
    server.expect_alert("exited on signal 9");
    server.kill_worker();
    wait_for("another worker", || {
        let answer = wire::Connection::open(server.port("plain"));
        let mut answer = answer;
        answer.send("GET /again HTTP/1.0\r\n\r\n");
        answer.try_response(false)
    });
    request(&server, 2);
    let spans = collector.wait_for_spans(6);
    assert_eq!(ids(&spans).len(), 6);
    // Numbers are the server's.
    wait_for_metric(&server, "spans_exported_total 6");
}

#[test]
fn what_would_only_show_later_is_refused_at_the_start() {
    let site = Site::new();
    site.write("empty.pem", "no certificate");
    let test = |lines: &str| {
        let text = format!(
            "events {{}} http {{ otel_exporter {{ endpoint https://localhost:4317; {lines} }} }}"
        );
        let path = site
            .write("test.conf", site.fill_in(&text))
            .display()
            .to_string();
        let binary = sealane_tests::sealane_binary().display().to_string();
        let prefix = site.path("").display().to_string();
        command(&binary, &["-t", "-c", &path, "-p", &prefix], b"")
    };
    let missing = test("trusted_certificate missing.pem;").stderr;
    assert!(missing.contains("cannot load certificate"), "{missing}");
    let empty = test("trusted_certificate empty.pem;").stderr;
    assert!(
        empty.contains("\"trusted_certificate\" has no certificate in PEM in \"otel_exporter\" of"),
        "{empty}"
    );
    test("").success();
}
