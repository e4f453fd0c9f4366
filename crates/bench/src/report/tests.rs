use serde_json::{Value, json};

use super::*;

/// What is saved about servers and machine, with `chapters`.
fn saved(chapters: &Value) -> Saved {
    let server = |name: &str, version: &str| {
        json!({
            "name": name, "version": version, "kind": "nginx",
            "directives": "", "rsa_directives": "", "events": "", "main": "",
        })
    };
    let value = json!({
        "schema": saved::SCHEMA,
        "program": "sealane-bench 0.1.0",
        "started": "2026-11-26 02:06 UTC",
        "machine": {
            "cpu": "A <fast> CPU & more", "cores": 2, "kernel": "6.18", "features": ["aes", "avx2"],
            "is_virtual": true, "memory_mib": 2048, "has_kernel_tls": false,
        },
        "servers": [server("sealane", "sealane 0.1.0"), server("nginx", "nginx 1.31.5, OpenSSL 4.0.3")],
        "rounds": 2, "seconds": 0.5, "quick": true, "is_interrupted": false,
        "command": "sealane-bench report all --peer 'nginx=/a b<c>'",
        "chapters": chapters,
    });
    serde_json::from_value(value).expect("the format of this version")
}

/// The rounds of a server: figures in the case's unit.
fn rounds(values: &[f64]) -> Value {
    let round = |value: &f64| {
        json!({
            "value": value, "busy": 0.9, "system_share": 0.25, "memory_kib": 8192.0,
            "rate_per_s": 1e6 / value, "instructions": null, "hits": null, "operations": 100,
            "negotiated": null,
        })
    };
    values.iter().map(round).collect()
}

/// A case with the rounds of each server.
fn case(name: &str, servers: &[Value]) -> Value {
    let none = vec![Value::Null; servers.len()];
    json!({
        "name": name, "title": format!("case {name}"), "unit": "us", "target": null,
        "server_cpus": [1], "measurements": servers, "obstacles": none, "failures": none,
        "instructions": none,
    })
}

fn comparison(chapter: &str, names: &[&str], cases: &[Value]) -> Value {
    let servers = names.iter().map(|name| {
        json!({
            "name": name, "version": "1", "kind": "nginx",
            "directives": "", "rsa_directives": "", "events": "", "main": "",
        })
    });
    let whole = saved(&json!([]));
    json!({
        "chapter": chapter, "command": "sealane-bench report", "outcome": { "comparison": {
            "machine": whole.machine, "servers": servers.collect::<Vec<_>>(), "rounds": 2,
            "quick": true, "cases": cases,
        }},
    })
}

/// The page of one chapter.
fn page(chapter: Value) -> String {
    let page = Pages::of(&saved(&json!([chapter]))).page;
    assert_well_formed(&page);
    page
}

#[track_caller]
fn assert_once(page: &str, expected: &str) {
    assert_eq!(page.matches(expected).count(), 1, "{expected}\nin\n{page}");
}

/// Strictly, as XML: every element that is opened is closed in order, every attribute is quoted,
/// and nothing else looks like markup.
fn assert_well_formed(page: &str) {
    let rest = page
        .strip_prefix("<!DOCTYPE html>\n")
        .expect("a document type");
    let mut open: Vec<&str> = Vec::new();
    let mut pieces = rest.split('<');
    assert_eq!(pieces.next(), Some(""));
    for piece in pieces {
        let (tag, text) = piece
            .split_once('>')
            .unwrap_or_else(|| panic!("no end: <{piece}"));
        assert!(!text.contains('>'), "an unescaped > in {text:?}");
        // A style sheet has no references.
        for (at, _) in text.match_indices('&') {
            let end = text[at..]
                .find(';')
                .unwrap_or_else(|| panic!("a bare & in {text:?}"));
            assert!(["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].contains(&&text[at..=at + end]));
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
            continue;
        }
        let (tag, is_empty) = tag
            .strip_suffix('/')
            .map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let quotes = attributes.matches('"').count();
        assert_eq!(quotes, attributes.matches("=\"").count() * 2, "<{tag}>");
        if !is_empty {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
}

#[test]
fn figures_stand_beside_published_ones() {
    let page = page(comparison(
        "s3",
        &["sealane", "nginx"],
        &[
            case(
                "tls12-full-untuned",
                &[rounds(&[200.0, 210.0]), rounds(&[500.0, 480.0])],
            ),
            case(
                "tls12-ticket-static-rsa",
                &[rounds(&[50.0, 50.0]), rounds(&[60.0, 60.0])],
            ),
            case(
                "tls12-ticket",
                &[rounds(&[50.0, 52.0]), rounds(&[62.0, 62.0])],
            ),
            case(
                "tls12-ticket-stapled",
                &[rounds(&[70.0, 80.0]), rounds(&[62.0, 62.0])],
            ),
        ],
    ));
    for expected in [
        // Published, and the rates of the rounds.
        "<td class=\"figure\">8,574</td>",
        "<td class=\"figure\">20,000 <span class=\"range\">(20,000–20,000)</span></td>",
        // 8574.25 / 1240.95, and 200/50 to 210/50.
        "<b>6.91 ×</b> by the tuning study",
        "sealane: 4.10 (4.00–4.20) × measured",
        "nginx: 8.17 (8.00–8.33) × measured",
        "<p class=\"finding smaller\">",
        // Stapling made it slower.
        "sealane: 0.68 (0.65–0.71) × measured",
        "<p class=\"finding refuted\">",
        // Text from outside is text.
        "A &lt;fast&gt; CPU &amp; more",
        "--peer &#39;nginx=/a b&lt;c&gt;&#39;",
        "A quick run",
    ] {
        assert!(page.contains(expected), "{expected}\nin\n{page}");
    }
    assert_once(&page, "class=\"finding refuted\"");
    assert!(!page.contains("NaN") && !page.contains("inf "), "{page}");
}

#[test]
fn what_is_missing_has_its_reason_and_no_figure() {
    let mut failed = case("tls13-idle", &[rounds(&[4.5, 4.6]), rounds(&[21.9])]);
    failed["failures"][1] = json!("server nginx: case tls13-idle: unexpected <status> 502");
    let mut left_out = case("h2-idle", &[rounds(&[7.7, 7.8]), json!([])]);
    left_out["obstacles"][1] = json!("it has no HTTP/2");
    let page = page(comparison(
        "memory",
        &["sealane", "nginx"],
        &[failed, left_out],
    ));
    assert!(page.contains("failed: server nginx: case tls13-idle: unexpected &lt;status&gt; 502"));
    assert!(page.contains("left out: it has no HTTP/2"));
    // The round before the failure does not count.
    assert!(!page.contains("21.9") && !page.contains("22,426"), "{page}");
    assert_eq!(
        page.matches("class=\"finding unmeasured\"").count(),
        2,
        "{page}"
    );
    assert_once(
        &page,
        "<td class=\"figure\">4,659 <span class=\"range\">(4,608–4,710)</span></td>",
    );
}

#[test]
fn kernel_tls_that_is_not_there_is_not_claimed() {
    let mut download = case(
        "tls13-1g",
        &[
            rounds(&[1000.0, 2000.0]),
            json!([]),
            rounds(&[1500.0, 1600.0]),
            json!([]),
        ],
    );
    for server in [1, 3] {
        download["obstacles"][server] = json!("this kernel has no kernel TLS");
    }
    let names = ["sealane", "sealane-ktls", "nginx", "nginx-ktls"];
    let page = page(comparison("s1", &names, &[download]));
    assert!(page.contains("741,848"), "the article's mean");
    assert!(
        page.contains("sealane: left out: this kernel has no kernel TLS"),
        "{page}"
    );
    assert!(!page.contains("Reproduced</b>"), "{page}");
    // Two rounds of 1e6/1000 and 1e6/2000 downloads of 1 GiB: the mean in kB/s, and its deviation.
    assert_once(
        &page,
        "<td class=\"figure\">805,306,368</td>\n<td class=\"figure\">379,625,062</td>",
    );
}

#[test]
fn an_accelerator_is_judged_by_cpu_within_rounds() {
    let rsa = case(
        "s2-rsa",
        &[
            rounds(&[100.0, 110.0]),
            rounds(&[400.0, 440.0]),
            rounds(&[330.0, 330.0]),
        ],
    );
    let page = page(comparison(
        "s2",
        &["sealane", "sealane-off", "nginx"],
        &[rsa],
    ));
    assert!(
        page.contains("sealane: 4.00 (4.00–4.00) × measured"),
        "{page}"
    );
    assert_once(&page, "class=\"finding reproduced\"");
    assert!(page.contains("17.6 k on 8 cores") && page.contains("class=\"server-0 variant\""));
    // The other suites were not reached.
    assert!(
        page.contains("not measured: the run was ended before"),
        "{page}"
    );
}

#[test]
fn more_workers_are_compared_with_one() {
    let mut two = case("scale-100", &[rounds(&[5.0, 5.0]), rounds(&[9.0, 9.0])]);
    two["server_cpus"] = json!([2, 3]);
    let one = case("scale-100", &[rounds(&[10.0, 10.0]), rounds(&[10.0, 10.0])]);
    let page = page(comparison("scale", &["sealane", "nginx"], &[one, two]));
    assert!(
        page.contains("2 workers do 2 times the work of one: requests of 1 KiB, 100 connections")
    );
    assert!(
        page.contains("sealane: 2.00 (2.00–2.00) × measured"),
        "{page}"
    );
    assert!(
        page.contains("nginx: 1.11 (1.11–1.11) × measured"),
        "{page}"
    );
}

/// A storm with RSA-2048 in which the established connection fares four times as well with Sealane.
fn storm() -> Value {
    let latency =
        |p99: f64| json!({ "p50_ms": p99 / 2.0, "p99_ms": p99, "max_ms": p99, "count": 9 });
    let measured = |p99: f64, rate: f64| {
        json!({
            "alone": latency(0.1), "probe": latency(p99), "probe_delay": latency(0.0),
            "is_real_time": false, "connections": 100, "connections_per_s": rate,
            "new_connection": latency(20.0), "server_us_per_connection": 300.0,
            "server_busy_cores": 1.0, "neighbours_share": 0.02, "client_busy_share": 0.5,
            "negotiated": null,
        })
    };
    let whole = saved(&json!([]));
    json!({
        "chapter": "storm", "command": "sealane-bench report storm", "outcome": { "storm": {
            "machine": whole.machine, "servers": whole.servers, "clients": 64, "interval_ms": 2.0,
            "seconds": 1.0, "rounds": 1, "quick": false,
            "storms": [{
                "key": "rsa2048",
                "targets": {
                    "p99_ms": 1.0, "max_ms": null, "p99_ratio": 0.33, "max_ratio": null,
                    "new_connection_p99_ratio": 1.3, "rate_ratio": 1.0,
                },
                "server_cpus": [1], "generator_cpus": [0],
                "measurements": [[measured(0.25, 5000.0)], [measured(1.0, 2500.0)]],
                "failures": [null, null],
            }],
        }},
    })
}

#[test]
fn a_storm_shows_the_bystander() {
    let page = page(storm());
    assert!(
        page.contains("against nginx: 4.00 (4.00–4.00) × measured"),
        "{page}"
    );
    assert!(
        page.contains("against nginx: 2.00 (2.00–2.00) × measured"),
        "{page}"
    );
    assert!(
        page.contains("2 %; the probe had no real-time priority"),
        "{page}"
    );
}

#[test]
fn the_overview_has_a_line_for_what_was_measured() {
    let names = ["sealane", "nginx"];
    let sessions = [case(
        "tls13-1k",
        &[rounds(&[7.0, 8.0]), rounds(&[10.0, 10.0])],
    )];
    let mut failed = case("tls13-idle", &[rounds(&[4.0]), rounds(&[20.0])]);
    failed["failures"][1] = json!("it did not start");
    let whole = saved(&json!([
        comparison("s3", &names, &sessions),
        storm(),
        comparison("memory", &names, &[failed]),
    ]));
    let Pages { page, chart } = Pages::of(&whole);
    assert_well_formed(&page);
    for expected in [
        "<a href=\"#overview\">At a glance</a>",
        ">Of nginx 1.31.5, OpenSSL 4.0.3</text>",
        // 0.7 and 0.8 of nginx, of a width of 1; and a quarter, once.
        "TLS 1.3, keep-alive</tspan> <tspan class=\"value\">75 %</tspan><tspan class=\"range\"> (70 %–80 %)</tspan>",
        "width=\"75.00%\"",
        "RSA-2048</tspan> <tspan class=\"value\">25 %</tspan><tspan class=\"range\"></tspan>",
        "idle connection, TLS 1.3</tspan> <tspan class=\"missing\">failed: it did not start</tspan>",
    ] {
        assert_once(&page, expected);
    }
    let chart = chart.expect("a chart");
    assert_well_formed(&format!("<!DOCTYPE html>\n{chart}"));
    assert_once(&chart, "viewBox=\"0 0 800 ");
    // What was not to be measured has no line: kernel TLS, suites, workers, storms with P-256.
    assert_eq!(
        chart.matches("<tspan class=\"value\">").count(),
        2,
        "{chart}"
    );
    assert_eq!(
        chart.matches("<tspan class=\"missing\">").count(),
        4,
        "{chart}"
    );
}

#[test]
fn without_others_there_is_no_overview() {
    let mut whole = saved(&json!([comparison("memory", &["sealane"], &[])]));
    whole.servers.truncate(1);
    let pages = Pages::of(&whole);
    assert!(pages.chart.is_none());
    assert!(!pages.page.contains("At a glance"), "{}", pages.page);
}

#[test]
fn an_ended_run_says_so() {
    let mut whole = saved(&json!([{
        "chapter": "s2", "command": "c", "outcome": { "nothing": "the run was ended before" },
    }]));
    whole.is_interrupted = true;
    whole.quick = false;
    let page = Pages::of(&whole).page;
    assert_well_formed(&page);
    assert!(
        page.contains("Nothing was measured: the run was ended before"),
        "{page}"
    );
    assert!(
        page.contains("The run was ended before everything was measured"),
        "{page}"
    );
    assert!(!page.contains("A quick run"), "{page}");
}

#[test]
fn a_page_asks_for_nothing_else() {
    let page = page(comparison("memory", &["sealane"], &[]));
    for outside in ["src=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside} in {page}");
    }
    // The names of XML's vocabularies are no addresses.
    let addresses = page.replace("http://www.w3.org/", "");
    assert!(
        !addresses.contains("http://") && !addresses.contains("https://"),
        "{page}"
    );
    assert!(page.contains("there is no server to compare with"));
}
