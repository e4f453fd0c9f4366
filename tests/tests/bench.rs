//! `sealane bench storm` and the comparison of handshakes, with this Sealane as
//! the only server: that they run and say what they measured, not how fast it was.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sealane_tests::{Site, command, nginx_binary, page_client, repository, sealane_binary};
use serde_json::Value;

/// Runs `sealane bench` briefly and returns what it writes as JSON.
fn bench(site: &Site, sub_command: &str, arguments: &[&str]) -> Value {
    let certificates = site.path("certificates").display().to_string();
    let script = repository().join("bench/make-certificates.sh");
    command(&script.display().to_string(), &[&certificates], b"").success();

    let binary = sealane_binary().display().to_string();
    let server = format!("sealane={binary}");
    let work = site.path("work").display().to_string();
    let mut all = vec!["bench", sub_command, "--quick", "--rounds", "1"];
    all.extend(["--seconds", "0.2", "--json", "-"]);
    all.extend(["--server", &server, "--server-cores", "1"]);
    all.extend(["--certificates", &certificates, "--work", &work]);
    all.extend(arguments);
    let output = command(&binary, all.as_slice(), b"").success().text();
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error} in {output}"))
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_storm_of_every_kind_of_key() {
    let site = Site::new();
    let report = bench(&site, "storm", &["--clients", "4"]);
    let storms = report["storms"].as_array().expect("a list of storms");
    let keys: Vec<_> = storms.iter().map(|storm| &storm["key"]).collect();
    assert_eq!(keys, ["rsa2048", "rsa4096", "p256"]);
    for storm in storms {
        let measurement = &storm["measurements"][0][0];
        assert!(number(&measurement["connections"]) >= 4.0, "{storm}");
        for probe in ["alone", "probe"] {
            assert!(number(&measurement[probe]["count"]) > 0.0, "{storm}");
            let [p50, p99, max] =
                ["p50_ms", "p99_ms", "max_ms"].map(|name| number(&measurement[probe][name]));
            assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{storm}");
        }
        assert_eq!(measurement["negotiated"]["resumed"], false);
    }
}

#[test]
fn full_handshakes_by_suite() {
    let site = Site::new();
    let report = bench(&site, "compare", &["--case", "s2"]);
    let cases = report["cases"].as_array().expect("a list of cases");
    let suites: Vec<_> = cases
        .iter()
        .map(|case| &case["measurements"][0][0]["negotiated"])
        .map(|negotiated| (&negotiated["suite"], &negotiated["group"]))
        .map(|(suite, group)| format!("{suite} {group}").replace('"', ""))
        .collect();
    assert_eq!(
        suites,
        [
            "AES128-GCM-SHA256 null",
            "ECDHE-RSA-AES128-GCM-SHA256 X25519",
            "ECDHE-ECDSA-AES128-GCM-SHA256 P-384",
            "ECDHE-ECDSA-AES128-GCM-SHA256 P-256",
            "TLS_AES_256_GCM_SHA384 X25519",
        ]
    );
}

#[test]
fn responses_from_a_cache() {
    let site = Site::new();
    let cases = ["cache-hit-1k", "cache-h2-1k", "cache-miss-1k", "zipf"];
    let mut arguments = vec!["--keys", "500"];
    arguments.extend(cases.iter().flat_map(|case| ["--case", case]));
    let report = bench(&site, "compare", &arguments);
    let results = report["cases"].as_array().expect("a list of cases");
    assert_eq!(results.len(), cases.len());
    for result in results {
        let name = result["name"].as_str().expect("a name");
        let measurement = &result["measurements"][0][0];
        let hits = number(&measurement["hits"]);
        assert!(number(&measurement["operations"]) > 0.0, "{result}");
        match name {
            "cache-miss-1k" => assert_eq!(hits, 0.0, "{result}"),
            // Each number of 500 at most once from the origin in 500 requests, and some again.
            "zipf" => assert!(hits > 0.0 && hits < 1.0, "{result}"),
            _ => assert_eq!(hits, 1.0, "{result}"),
        }
    }
    assert_eq!(results[3]["name"], "zipf");
    assert_eq!(results[3]["measurements"][0][0]["operations"], 500);
}

#[test]
fn datagrams_that_are_passed_on() {
    let site = Site::new();
    let binary = sealane_binary().display().to_string();
    let (server, work) = (
        format!("sealane={binary}"),
        site.path("work").display().to_string(),
    );
    let mut all = vec!["bench", "datagrams", "--server", &server, "--work", &work];
    all.extend(["--rounds", "1", "--seconds", "0.2"]);
    let output = command(&binary, &all, b"").success().text();
    let mut lines = output.lines().skip(1);
    for case in ["sessions that last:", "a session for each question:"] {
        assert_eq!(lines.next(), Some(case), "{output}");
        let figures = lines.next().and_then(|line| line.split("; ").nth(1));
        let answers = figures.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        assert!(answers.is_some_and(|answers| answers > 0), "{output}");
    }
}

#[test]
fn handshakes_with_an_ocsp_response() {
    let site = Site::new();
    let cases = [
        "tls13-full-stapled",
        "tls12-full-stapled",
        "tls12-ticket-stapled",
    ];
    let arguments: Vec<_> = cases.iter().flat_map(|case| ["--case", case]).collect();
    let report = bench(&site, "compare", &arguments);
    for (result, name) in report["cases"].as_array().expect("cases").iter().zip(cases) {
        let negotiated = &result["measurements"][0][0]["negotiated"];
        assert_eq!(result["name"], name);
        // It belongs to the certificate, which only full handshakes send.
        assert_eq!(negotiated["stapled"], negotiated["resumed"] == false);
    }
}

#[test]
fn a_server_that_does_not_know_its_directives_fails_the_run() {
    let site = Site::new();
    let certificates = site.path("certificates").display().to_string();
    let script = repository().join("bench/make-certificates.sh");
    command(&script.display().to_string(), &[&certificates], b"").success();
    let binary = sealane_binary().display().to_string();
    let (server, work) = (
        format!("a={binary}"),
        site.path("work").display().to_string(),
    );
    let mut arguments = vec!["bench", "storm", "--quick", "--server", &server];
    arguments.extend(["--directives", "a=no_such_directive on;"]);
    arguments.extend(["--certificates", &certificates, "--work", &work]);
    let outcome = command(&binary, &arguments, b"");
    assert_ne!(outcome.status, 0, "{outcome:?}");
    assert!(outcome.stderr.contains("no_such_directive"), "{outcome:?}");
}

#[test]
fn without_the_load_generator_it_says_what_to_do() {
    let site = Site::new();
    let alone = site.path("sealane");
    std::fs::copy(sealane_binary(), &alone).expect("the site is writable");
    let output = std::process::Command::new(&alone)
        .args(["bench", "load", "http://127.0.0.1/"])
        .env("PATH", site.path("bin"))
        .output()
        .expect("it is a program");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).expect("text");
    let start = "sealane bench: the load generator, sealane-bench, is not installed: it is neither next to ";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains(&alone.display().to_string()), "{text}");
    assert!(
        text.contains("cargo build --release --locked -p sealane-bench"),
        "{text}"
    );
}

/// The arguments of a report whose files stay below `site`.
fn report_arguments(site: &Site, chapter: &str) -> Vec<String> {
    let path = |name: &str| site.path(name).display().to_string();
    let sealane = sealane_binary().display().to_string();
    let mut all = ["bench", "report", chapter, "--quick", "--rounds", "1"]
        .map(str::to_owned)
        .to_vec();
    all.extend(["--seconds".into(), "0.1".into()]);
    all.extend(["--sealane".into(), sealane]);
    all.extend([
        "--work".into(),
        path("work"),
        "--output".into(),
        path("page.html"),
    ]);
    fs::create_dir(site.path("work")).expect("the site is writable");
    all
}

fn json_of(site: &Site) -> Value {
    let text = fs::read_to_string(site.path("page.json")).expect("it is saved beside the page");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// The page, after a strict parser has read it.
fn page_of(site: &Site) -> String {
    let path = site.path("page.html");
    let parse = "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])";
    command("python3", &["-c", parse, &path.display().to_string()], b"").success();
    fs::read_to_string(path).expect("a page")
}

#[test]
fn a_report_shows_servers_and_what_has_failed() {
    let site = Site::new();
    // It has a version, and does not start.
    let broken = site.path("broken");
    let script = "#!/bin/sh\n[ \"$1\" = -V ] && { echo 'nginx version: nginx/0.1 <broken>' >&2; exit 0; }\n\
                  echo 'no such <thing>' >&2; exit 3\n";
    fs::write(&broken, script).expect("the site is writable");
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let mut arguments = report_arguments(&site, "memory");
    for (name, path) in [("nginx", nginx_binary()), ("broken", broken)] {
        arguments.extend(["--peer".into(), format!("{name}={}", path.display())]);
    }
    let outcome = command(&sealane_binary().display().to_string(), &arguments, b"");
    assert_eq!(outcome.status, 1, "{outcome:?}");
    // 2 cases of 3 servers in one round.
    assert!(
        outcome.stderr.contains("6 of 6  round 1  h2-idle"),
        "{outcome:?}"
    );

    let json = json_of(&site);
    let page = page_of(&site);
    assert_eq!(
        (&json["schema"], &json["is_interrupted"]),
        (&1.into(), &false.into())
    );
    let comparison = &json["chapters"][0]["outcome"]["comparison"];
    for case in comparison["cases"].as_array().expect("a list of cases") {
        for server in [0, 1] {
            let kib = number(&case["measurements"][server][0]["value"]);
            let bytes = (kib * 1024.0).round() as u64;
            let shown = match (bytes / 1000, bytes % 1000) {
                (0, _) => bytes.to_string(),
                (thousands, rest) => format!("{thousands},{rest:03}"),
            };
            assert!(page.contains(&format!(">{shown} <")), "{shown} in {page}");
        }
        assert_eq!(case["measurements"][2], Value::Array(Vec::new()), "{case}");
        let reason = case["failures"][2].as_str().expect("a reason");
        assert!(reason.contains("no such <thing>"), "{reason}");
    }
    assert!(
        page.contains("no such &lt;thing&gt;") && !page.contains("<thing>"),
        "{page}"
    );
    let machine = &json["machine"];
    let cpu = machine["cpu"]
        .as_str()
        .expect("a processor")
        .replace('&', "&amp;");
    assert!(page.contains(&cpu), "{cpu} in {page}");
    assert!(page.contains("A quick run"), "{page}");

    let saved = site.path("page.json").display().to_string();
    let again = site.path("again.html").display().to_string();
    let chart = site.path("chart.svg").display().to_string();
    let mut arguments = vec!["bench", "report", "--from", &saved];
    arguments.extend(["--output", &again, "--chart", &chart]);
    command(&sealane_binary().display().to_string(), &arguments, b"").success();
    assert_eq!(fs::read_to_string(&again).expect("a page"), page);

    let urls = [again, chart].map(|path| format!("file://{path}"));
    page_client(&["report", &urls[0], &urls[1]]).success();
}

#[test]
fn a_report_that_is_interrupted_keeps_what_was_measured() {
    let site = Site::new();
    let log = fs::File::create(site.path("log")).expect("the site is writable");
    let mut report = Command::new(sealane_binary())
        .args(report_arguments(&site, "s3"))
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("it is a program");
    let read = |name: &str| fs::read_to_string(site.path(name)).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(120);
    // One measurement is finished when the second begins.
    while !read("log").contains("2 of ") {
        assert!(Instant::now() < deadline, "{}", read("log"));
        assert!(
            report.try_wait().expect("a child").is_none(),
            "{}",
            read("log")
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    command("kill", &["-INT", &report.id().to_string()], b"").success();
    let status = report.wait().expect("a child");
    assert_eq!(status.code(), Some(130), "{}", read("log"));

    let json = json_of(&site);
    assert_eq!(json["is_interrupted"], true);
    let cases = json["chapters"][0]["outcome"]["comparison"]["cases"]
        .as_array()
        .expect("cases");
    let measured = |case: &&Value| case["measurements"][0] != Value::Array(Vec::new());
    let count = cases.iter().filter(measured).count();
    assert!(
        count >= 1 && count < cases.len(),
        "{count} of {} cases",
        cases.len()
    );
    assert!(page_of(&site).contains("The run was ended before everything was measured"));
    // No server is left: each has its configuration below the site on its command line.
    let work = site.path("work").display().to_string();
    let processes = command("ps", &["-ww", "-eo", "args="], b"")
        .success()
        .text();
    assert!(!processes.contains(&work), "{processes}");
}
