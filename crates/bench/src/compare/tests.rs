use super::*;
use crate::{
    Summary,
    load::{ConnectionUse, Negotiated},
    testbed::{Kind, Listener, Ports, ServerLabel},
};

fn measurement(value: f64) -> Measurement {
    Measurement {
        busy: Some(0.9),
        rate_per_s: Some(1000.0),
        system_share: Some(0.5),
        memory_kib: Some(8192.0),
        operations: 1,
        ..Measurement::of(value)
    }
}

fn result(ours: &[f64], theirs: &[f64]) -> CaseResult {
    let mut result = CaseResult::new(&cases::ALL[0], &[3], vec![None; 2]);
    for &value in ours {
        result.add(0, measurement(value));
    }
    for &value in theirs {
        result.add(1, measurement(value));
    }
    result
}

fn label(name: &str, version: &str, directives: &str) -> ServerLabel {
    ServerLabel {
        name: name.into(),
        version: version.into(),
        kind: Kind::Nginx,
        directives: directives.into(),
        rsa_directives: String::new(),
        upstream_directives: String::new(),
        events: String::new(),
        main: String::new(),
    }
}

fn ratio(result: &CaseResult, directives: &str, peer: &str) -> report::Ratio {
    let ours = label("sealane", "sealane 0.1.0", directives);
    let theirs = label(peer, "nginx 1.30.0", "");
    result.ratio((0, &ours), (1, &theirs)).expect("a round")
}

#[test]
fn a_ratio_is_taken_within_its_round() {
    // The machine halves its speed in the second round; the ratio does not move.
    let result = result(&[8.0, 16.0, 8.0], &[10.0, 20.0, 10.0]);
    assert_eq!(
        ratio(&result, "", "reference").summary,
        Summary::of(&[0.8, 0.8, 0.8]).expect("numbers")
    );
}

#[test]
fn user_and_system_time_are_compared_apart() {
    let mut result = CaseResult::new(&cases::ALL[0], &[3], vec![None; 2]);
    for (server, value, system_share) in [(0, 10.0, 0.2), (1, 20.0, 0.5)] {
        let system_share = Some(system_share);
        result.add(
            server,
            Measurement {
                system_share,
                ..measurement(value)
            },
        );
    }
    assert_eq!(result.ratio_of((0, 1), Measurement::user), Some(0.8));
    assert_eq!(result.ratio_of((0, 1), Measurement::system), Some(0.2));
}

#[test]
fn targets_judge_the_reference_only() {
    let near = result(&[6.9], &[10.0]);
    let verdict = |result: &CaseResult, peer: &str| ratio(result, "", peer).verdict;
    assert_eq!(verdict(&near, "reference"), Some((0.70, true)));
    assert_eq!(verdict(&near, "reference-multi"), Some((0.70, true)));
    assert_eq!(verdict(&near, "debian"), None);
    assert_eq!(verdict(&near, "references"), None);
    let far = result(&[7.1], &[10.0]);
    assert_eq!(verdict(&far, "reference"), Some((0.70, false)));
}

#[test]
fn a_target_for_batches_judges_servers_that_batch() {
    let mut result = CaseResult::new(case("s2-rsa"), &[3], vec![None; 2]);
    result.add(0, measurement(4.0));
    result.add(1, measurement(10.0));
    assert_eq!(ratio(&result, "ssl_async on;", "reference").verdict, None);
    assert_eq!(
        ratio(&result, "ssl_async on; ssl_accelerator batch;", "reference").verdict,
        Some((0.45, true))
    );
}

#[test]
fn cases_are_found_by_name_and_named_once() {
    assert_eq!(
        groups::select(&[]).expect("all").len()
            + groups::S2.len()
            + groups::SCALE.len()
            + groups::NAMES.len()
            + groups::STREAM.len()
            + groups::HTTP3_ONLY.len()
            + 1,
        cases::ALL.len()
    );
    let offload = groups::select(&["s2".into()]).expect("a known group");
    assert_eq!(offload.len(), groups::S2.len());
    let two = groups::select(&["plain-1k".into(), "tls13-1k".into()]).expect("known names");
    assert_eq!(
        two.iter().map(|case| case.name).collect::<Vec<_>>(),
        ["tls13-1k", "plain-1k"]
    );
    let group = groups::select(&["s3".into(), "tls12-ticket".into()]).expect("a known group");
    assert_eq!(group.len(), groups::S3.len(), "each once");
    assert!(groups::select(&["tls14".into()]).is_err());
    for case in cases::ALL {
        assert_eq!(
            cases::ALL
                .iter()
                .filter(|other| other.name == case.name)
                .count(),
            1,
            "{}",
            case.name
        );
    }
}

fn case(name: &str) -> &'static Case {
    let mut named = cases::ALL.iter().filter(|case| case.name == name);
    named.next().expect("a case of the table")
}

#[test]
fn cases_of_http3_go_where_it_is_served() {
    let ports = Ports::free().expect("loopback has free ports");
    for name in groups::HTTP3 {
        let case = case(name);
        let plan = case.plan(&ports, Duration::from_secs(1), false, 1);
        let is_http3 = name.starts_with("http3-");
        assert_eq!(plan.http3.is_some(), is_http3, "{name}");
        assert_eq!(case.additions().http3, is_http3, "{name}");
        let is_there = plan.address.port() == ports.of(Listener::Http3);
        assert_eq!(is_there, is_http3, "{name}");
        let delay = name.ends_with("1ms").then_some(Duration::from_millis(1));
        assert_eq!(case.delay(), delay, "{name}");
    }
    let plan_of = |name| case(name).plan(&ports, Duration::from_secs(1), false, 1);
    let requests = ["h2-1k", "http3-1k"].map(|name| plan_of(name).requests_per_operation());
    assert_eq!(requests, [10, 10]);
    assert_eq!(
        plan_of("http3-handshakes").connection_use,
        ConnectionUse::EndedByClient
    );
}

fn left_out(kind: Kind) -> Vec<&'static str> {
    let cases = cases::ALL.iter();
    let left_out = cases.filter(|case| case.obstacle(kind).is_some());
    left_out.map(|case| case.name).collect()
}

#[test]
fn peers_are_left_out_of_what_they_cannot_do() {
    assert_eq!(left_out(Kind::Nginx), [""; 0]);
    assert_eq!(
        left_out(Kind::H2o),
        [
            "cache-hit-1k",
            "cache-hit-100k",
            "cache-hit-1g",
            "browser-full-p256",
            "browser-ticket",
            "tls13-full-stapled",
            "tls12-full-stapled",
            "tls12-ticket-stapled",
            "tls13-early-data",
            "tls12-1k-stapled",
            "cache-h2-1k",
            "cache-miss-1k",
            "zipf",
            "stream-plain-1k",
            "stream-plain-1g",
            "stream-plain-connection",
            "stream-plain-idle",
            "stream-tls13-1k",
            "stream-tls13-1g",
            "stream-tls13-connection",
            "stream-tls13-idle",
            "stream-tls13-both-1k",
            "stream-tls13-both-1g",
            "stream-tls13-both-connection",
            "names-1",
            "names-100",
            "names-1000",
        ]
    );
    assert_eq!(
        left_out(Kind::Haproxy),
        [
            "tls13-1k-uncached",
            "cache-hit-1k",
            "tls13-100k",
            "cache-hit-100k",
            "tls13-1g",
            "tls13-1g-sparse",
            "cache-hit-1g",
            "tls13-full-stapled",
            "tls12-full-stapled",
            "tls12-ticket-stapled",
            "tls12-1k-stapled",
            "cache-h2-1k",
            "h2-1m",
            "h2-100m",
            "http3-1k",
            "http3-100m",
            "http3-100m-1ms",
            "http3-handshakes",
            "http3-idle",
            "cache-miss-1k",
            "zipf",
            "stream-plain-1k",
            "stream-plain-1g",
            "stream-plain-connection",
            "stream-plain-idle",
            "stream-tls13-1k",
            "stream-tls13-1g",
            "stream-tls13-connection",
            "stream-tls13-idle",
            "stream-tls13-both-1k",
            "stream-tls13-both-1g",
            "stream-tls13-both-connection",
            "names-1",
            "names-100",
            "names-1000",
        ]
    );
}

#[test]
fn pairs_are_measured_by_turns() {
    for pair in groups::PAIRS {
        let position = |name: &str| {
            let position = cases::ALL.iter().position(|case| case.name == name);
            position.unwrap_or_else(|| panic!("{name} is no case"))
        };
        assert!(position(pair.base) < position(pair.name), "{pair:?}");
        assert!(groups::pair_of(pair.base).is_none(), "{pair:?} in a chain");
    }
    let names = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let groups = groups::by_turns(&groups::select(&names).expect("known names"));
        let of_group = |group: &Vec<&Case>| group.iter().map(|case| case.name).collect();
        groups.iter().map(of_group).collect::<Vec<Vec<_>>>()
    };
    assert_eq!(
        names(&["cache-hit-1k", "tls13-1k", "tls13-100k"]),
        [vec!["tls13-1k", "cache-hit-1k"], vec!["tls13-100k"]]
    );
    assert_eq!(names(&["cache-hit-1k"]), [["cache-hit-1k"]], "alone");
}

#[test]
fn a_pair_is_judged_for_sealane() {
    let mut report = Report::new(&[], 2, false).expect("no server to ask for its version");
    report.servers = vec![
        label("sealane", "sealane 0.1.0", ""),
        label("reference", "nginx 1.30.0", ""),
    ];
    for (name, ours, theirs) in [
        ("tls13-full-p256", [10.0, 20.0], [20.0, 40.0]),
        ("tls13-full-stapled", [10.4, 20.8], [24.0, 48.0]),
    ] {
        let mut result = CaseResult::new(case(name), &[3], vec![None; 2]);
        for (index, values) in [ours, theirs].into_iter().enumerate() {
            for value in values {
                result.add(index, measurement(value));
            }
        }
        result.set_instructions(0, Some(ours[0]));
        report.cases.push(result);
    }
    let (table, markdown) = (report.table(), report.markdown());
    let case_name = "tls13-full-stapled / tls13-full-p256";
    for (text, expected) in [
        (
            &table,
            format!(
                "  sealane: {case_name}: 1.04 (1.04..1.04), target 1.05: met, instructions 1.04\n"
            ),
        ),
        (
            &table,
            format!("  reference: {case_name}: 1.20 (1.20..1.20)\n"),
        ),
        (
            &markdown,
            "| 1 | sealane 0.1.0 | 1.04 (1.04..1.04) | 1.05: met |\n".into(),
        ),
        (
            &markdown,
            "| 1 | nginx 1.30.0 | 1.20 (1.20..1.20) |  |\n".into(),
        ),
    ] {
        assert_eq!(text.matches(&expected).count(), 1, "{expected}\nin\n{text}");
    }
}

#[test]
fn hits_and_misses_must_be_what_the_case_is_about() {
    let origin = Origin::start(&[]).expect("loopback has a free port");
    let mut asked = origin.meter();
    let mut rate = |cache_use, during| {
        asked.during = during;
        hit_rate(cache_use, 10, &asked).ok()
    };
    assert_eq!(rate(CacheUse::Hits, 0), Some(1.0));
    assert_eq!(rate(CacheUse::Hits, 1), None);
    assert_eq!(rate(CacheUse::Misses, 10), Some(0.0));
    assert_eq!(rate(CacheUse::Misses, 9), None);
    assert_eq!(rate(CacheUse::Zipf, 3), Some(0.7));
}

fn negotiated(group: &'static str) -> Negotiated {
    Negotiated {
        protocol: "TLSv1.3".into(),
        suite: "TLS_AES_256_GCM_SHA384".into(),
        group: Some(group.into()),
        key_type: Some("P-256".into()),
        resumed: false,
        stapled: false,
    }
}

/// A report of one case and three servers: figures of the first and the last, which negotiated
/// different groups, and none of the second.
fn report_with_a_gap() -> Report {
    let mut report = Report::new(&[], 1, false).expect("no server to ask for its version");
    report.servers = vec![
        label("sealane", "sealane 0.1.0", ""),
        label("haproxy", "HAProxy 2.6.12", ""),
        label("h2o", "H2O 2.2.5", ""),
    ];
    let obstacles = vec![None, Some("it has no files".into()), None];
    let mut result = CaseResult::new(case("tls13-100k"), &[3], obstacles);
    for (index, value, group) in [(0, 10.0, "X25519MLKEM768"), (2, 20.0, "X25519")] {
        let negotiated = Some(negotiated(group));
        result.add(
            index,
            Measurement {
                negotiated,
                ..measurement(value)
            },
        );
    }
    report.cases.push(result);
    report
}

#[test]
fn a_table_says_why_a_figure_is_missing() {
    let table = report_with_a_gap().table();
    let lines: Vec<_> = table.lines().map(str::trim).collect();
    let at = |start: &str| {
        let position = lines.iter().position(|line| line.starts_with(start));
        position.unwrap_or_else(|| panic!("{start} is missing in {table}"))
    };
    let words: Vec<_> = lines[at("haproxy  ")].split_ascii_whitespace().collect();
    assert_eq!(words, ["haproxy", "-"]);
    assert!(at("haproxy is left out: it has no files") > at("h2o  "));
    // The others are compared all the same, and what they negotiated is shown where it differs.
    assert!(lines[at("tls13-100k: ")].contains("X25519MLKEM768"));
    let h2o = lines[at("h2o  ")];
    assert!(
        h2o.contains("sealane / H2O 2.2.5: 0.50") && h2o.contains(" X25519 "),
        "{h2o}"
    );
}

#[test]
fn markdown_says_why_a_figure_is_missing() {
    let markdown = report_with_a_gap().markdown();
    let title = case("tls13-100k").title;
    for expected in [
        format!("| {title} | 1 | us | 10.0 | 10.0..10.0 | - | - | - |  |  |  |"),
        format!("- {title}: haproxy is left out: it has no files"),
        format!("| {title} | 1 | us | 10.0 | 10.0..10.0 | 20.0 | 20.0..20.0 | 0.50 (0.50..0.50) |"),
        format!(
            "- {title}: sealane negotiated {}, h2o {}",
            negotiated("X25519MLKEM768"),
            negotiated("X25519")
        ),
    ] {
        assert_eq!(
            markdown.matches(&expected).count(),
            1,
            "{expected}\nin\n{markdown}"
        );
    }
}
