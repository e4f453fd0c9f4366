//! `sealane bench storm` and the comparison of handshakes, with this Sealane as
//! the only server: that they run and say what they measured, not how fast it was.

use sealane_tests::{Site, command, repository, sealane_binary};
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
