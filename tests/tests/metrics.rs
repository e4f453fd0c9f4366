//! `metrics`, `api` and `status_zone`: numbers that are right, that outlive what counts them, and
//! that others can read.

use sealane_tests::http2::Client;
use sealane_tests::metrics::Step::{By, To, Up};
use sealane_tests::metrics::{Move, Samples, Watch, samples, value};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::wire::{self, Connection};
use sealane_tests::{Certificate, CertificateKey, Server, Site, command, scale, wait_for};
use std::fs;

#[path = "metrics/caches.rs"]
mod caches;
#[path = "metrics/certificates.rs"]
mod certificates;
#[path = "metrics/complete.rs"]
mod complete;
#[path = "metrics/handshakes.rs"]
mod handshakes;
#[path = "metrics/http2.rs"]
mod http2;
#[path = "metrics/http3.rs"]
mod http3;
#[path = "metrics/kernel.rs"]
mod kernel;
#[path = "metrics/limits.rs"]
mod limits;
#[path = "metrics/names.rs"]
mod names;
#[path = "metrics/processes.rs"]
mod processes;
#[path = "metrics/requests.rs"]
mod requests;
#[path = "metrics/resolvers.rs"]
mod resolvers;
#[path = "metrics/sessions.rs"]
mod sessions;
#[path = "metrics/upstreams.rs"]
mod upstreams;

/// What `sealane doctor` says of this machine.
fn doctor() -> serde_json::Value {
    let binary = sealane_tests::sealane_binary().display().to_string();
    let outcome = command(&binary, &["doctor", "--json"], b"");
    serde_json::from_slice(&outcome.stdout).expect("JSON")
}

const MIXED: &str = "
    pid logs/pid; worker_processes 2; error_log logs/error.log notice;
    events { worker_connections 512; }
    http {
        log_format counted '$server_name $status $bytes_sent $request_length $upstream_cache_status';
        log_format peer '$uri $upstream_status $upstream_bytes_received $upstream_bytes_sent';
        access_log logs/counted.log counted;
        keepalive_requests 1000000;
        proxy_cache_path cache keys_zone=kept:1m;
        upstream back { server 127.0.0.1:%origin%; }
        ssl_certificate certificates/localhost.pem; ssl_certificate_key certificates/localhost.key;
        server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; http2 on;
            server_name a.test; root html;
            location /kept/ { status_zone kept; proxy_pass http://back/;
                access_log logs/counted.log counted; access_log logs/peer.log peer;
                proxy_cache kept; proxy_cache_valid 200 1h; proxy_cache_valid 404 1h; }
            location /passed/ { status_zone passed; proxy_pass http://back/;
                access_log logs/counted.log counted; access_log logs/peer.log peer; }
            location /gone { return 444; }
            location /teapot { return 418 short; } }
        server { listen 127.0.0.1:%origin%; server_name o.test; root html; }
        server { listen 127.0.0.1:%metrics%; server_name m.test; access_log off;
            location = /metrics { metrics; }
            location /status/ { api /status/; } }
        EXTRA
    }";

fn mixed_site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    for (name, bytes) in [("a.txt", 10), ("b.txt", 20_000), ("c.bin", 300_000)] {
        site.write(format!("html/{name}"), vec![b'x'; bytes]);
    }
    site
}

/// Requests of all kinds: HTTP/1 with keep-alive, HTTP/2 over TLS, handshakes, errors.
fn ask_everything(server: &Server<'_>, rounds: usize) -> usize {
    let paths = [
        "/a.txt",
        "/missing",
        "/kept/b.txt",
        "/kept/none",
        "/passed/a.txt",
        "/teapot",
    ];
    let plain = server.port("plain");
    let mut asked = 0;
    for _ in 0..rounds {
        let mut connection = Connection::open(plain);
        for path in paths {
            connection.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
            assert_ne!(connection.response(false).status, 0);
        }
        connection.send("HEAD /c.bin HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(connection.response(true).status, 200);
        connection.send("GET /gone HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert!(connection.is_closed());
        let mut client = Client::open(plain, &[]);
        for path in paths {
            client.fetch(path);
        }
        asked += 2 * paths.len() + 2;
    }
    let tls = format!("https://localhost:{}", server.port("tls"));
    let count = (50 * rounds).to_string();
    let urls = [
        format!("{tls}/a.txt"),
        format!("{tls}/kept/b.txt"),
        format!("{tls}/passed/c.bin"),
    ];
    for options in [&["-c4", "-m8"][..], &["--h1", "-c4"]] {
        let mut arguments: Vec<&str> = options.to_vec();
        arguments.extend(["-n", &count]);
        arguments.extend(urls.iter().map(String::as_str));
        let outcome = command("h2load", &arguments, b"").success();
        let done = format!("{count} succeeded");
        assert!(outcome.text().contains(&done), "{}", outcome.text());
        asked += 50 * rounds;
    }
    asked
}

/// What the access log says, under the names of metrics.
fn of_access_log(site: &Site) -> (usize, Samples) {
    let mut sums = Samples::new();
    let mut add = |name: String, n: f64| *sums.entry(name).or_default() += n;
    let log = fs::read_to_string(site.path("logs/counted.log")).unwrap_or_default();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [server, status, sent, received, cache] = words[..] else {
            panic!("{line}");
        };
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let of = |name: &str| format!("sealane_server_{name}{{server=\"{server}\"}}");
        add(of("requests_total"), 1.0);
        add(of("sent_bytes_total"), number(sent));
        add(of("received_bytes_total"), number(received));
        match status {
            "444" => add(of("requests_discarded_total"), 1.0),
            status => {
                let code = if status == "418" { "4xx" } else { status };
                let labels = format!("{{server=\"{server}\",code=\"{code}\"}}");
                add(format!("sealane_server_responses_total{labels}"), 1.0);
            }
        }
        if cache != "-" {
            let status = cache.to_lowercase();
            let labels = format!("{{cache=\"kept\",status=\"{status}\"}}");
            add(format!("sealane_cache_responses_total{labels}"), 1.0);
            add(
                "sealane_location_requests_total{location=\"kept\"}".to_owned(),
                1.0,
            );
        }
    }
    let peers = fs::read_to_string(site.path("logs/peer.log")).unwrap_or_default();
    for line in peers.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [uri, status, received, sent] = words[..] else {
            panic!("{line}");
        };
        if uri.starts_with("/passed/") {
            let name = "sealane_location_requests_total{location=\"passed\"}";
            add(name.to_owned(), 1.0);
        }
        // What comes from the cache asks nobody.
        if status == "-" {
            continue;
        }
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let of = |name: &str| format!("sealane_upstream_{name}{{upstream=\"back\"}}");
        add(of("requests_total"), 1.0);
        add(of("received_bytes_total"), number(received));
        add(of("sent_bytes_total"), number(sent));
        let labels = format!("{{upstream=\"back\",code=\"{status}\"}}");
        add(format!("sealane_upstream_responses_total{labels}"), 1.0);
    }
    (log.lines().count(), sums)
}

/// Waits until everything that was asked is in the log, and compares it with the metrics.
#[track_caller]
fn assert_agree(site: &Site, server: &Server<'_>, asked: usize) {
    wait_for("the log to have all requests of clients", || {
        let log = fs::read_to_string(site.path("logs/counted.log")).unwrap_or_default();
        let own = log
            .lines()
            .filter(|line| line.starts_with("a.test "))
            .count();
        assert!(own <= asked, "{own} of {asked}");
        (own == asked).then_some(())
    });
    let difference = || {
        let (_, logged) = of_access_log(site);
        let counted = samples(server.port("metrics"));
        let differs = |(name, n): (&String, &f64)| {
            let is = value(&counted, name);
            (is != *n).then(|| format!("{name}: {is}, log: {n}"))
        };
        logged.iter().filter_map(differs).collect::<Vec<_>>()
    };
    // Lines of the origin's own server may come a moment later than those of its client.
    let mut last = Vec::new();
    let begun = std::time::Instant::now();
    while begun.elapsed() < sealane_tests::PATIENCE {
        last = difference();
        if last.is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("metrics and log differ: {last:#?}");
}

#[test]
fn counts_are_those_of_the_access_log_over_a_reload_and_a_workers_death() {
    let site = mixed_site();
    let server = site.serve_whole(&MIXED.replace("EXTRA", ""));
    let rounds = scale(8, 330);
    let mut asked = ask_everything(&server, rounds);
    assert_agree(&site, &server, asked);
    let changed = MIXED.replace(
        "EXTRA",
        "server { listen 127.0.0.1:%plain%; server_name n.test; }",
    );
    assert_eq!(reload(&site, &server, &changed), Reload::Applied);
    asked += ask_everything(&server, rounds);
    assert_agree(&site, &server, asked);
    server.expect_alert("exited on signal 9");
    server.kill_worker();
    asked += ask_everything(&server, rounds);
    assert_agree(&site, &server, asked);
    // Another process takes its place: more threads need one.
    let more = changed.replace("worker_processes 2", "worker_processes 3");
    assert_eq!(reload(&site, &server, &more), Reload::Applied);
    // Until then it may close a connection that it has just accepted.
    wait_for("the end of the process before it", || {
        (server.worker_pids().len() == 1).then_some(())
    });
    asked += ask_everything(&server, rounds);
    assert_agree(&site, &server, asked);
    println!("{asked} requests of clients");
    let counted = samples(server.port("metrics"));
    assert_eq!(
        value(&counted, "sealane_reloads_total{result=\"success\"}"),
        2.0
    );
    assert_eq!(value(&counted, "sealane_worker_deaths_total"), 1.0);
    assert_eq!(value(&counted, "sealane_worker_starts_total"), 3.0);
    let handshakes = value(
        &counted,
        "sealane_server_tls_handshakes_total{server=\"a.test\",result=\"full\"}",
    );
    let all = value(&counted, "sealane_tls_handshakes_total");
    assert!(all >= 32.0 && handshakes == all, "{handshakes} of {all}");
}

#[test]
fn parsers_of_others_read_both_formats() {
    let site = mixed_site();
    let server = site.serve_whole(&MIXED.replace("EXTRA", ""));
    ask_everything(&server, 1);
    let port = server.port("metrics");
    let script = "
import sys, urllib.request
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
request = urllib.request.Request(sys.argv[1], headers={'Accept': 'application/openmetrics-text; version=1.0.0'})
answer = urllib.request.urlopen(request)
assert answer.headers['Content-Type'].startswith('application/openmetrics-text; version=1.0.0'), answer.headers
families = {family.name: family for family in parse(answer.read().decode())}
print(sum(sample.value for sample in families['sealane_server_requests'].samples))
print(families['sealane_server_received_bytes'].unit, families['sealane_server_request_seconds'].type)
";
    let url = format!("http://127.0.0.1:{port}/metrics");
    let outcome = command("/usr/bin/python3", &["-c", script, &url], b"").success();
    let text = outcome.text();
    let (requests, rest) = text.split_once('\n').expect("two lines");
    assert!(requests.parse::<f64>().expect("a number") > 100.0, "{text}");
    assert_eq!(rest.trim(), "bytes histogram");
    let classic = wire::get(port, "/metrics");
    assert_eq!(
        classic.header("Content-Type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let outcome = command("promtool", &["check", "metrics"], &classic.body);
    assert!(outcome.status == 0, "{}", outcome.text());
}

#[test]
fn the_tree_of_the_api_is_walked_by_path() {
    let site = mixed_site();
    let server = site.serve_whole(&MIXED.replace("EXTRA", ""));
    ask_everything(&server, 1);
    let port = server.port("metrics");
    let tree = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&wire::get(port, path).body).expect("JSON")
    };
    let whole = tree("/status/");
    let zone = tree("/status/http/server_zones/a.test");
    assert_eq!(whole["http"]["server_zones"]["a.test"]["ssl"], zone["ssl"]);
    assert!(zone["responses"]["404"].as_u64() > Some(1), "{zone}");
    assert_eq!(
        tree("/status/http/caches/kept/hit/responses/"),
        whole["http"]["caches"]["kept"]["hit"]["responses"]
    );
    for path in [
        "/status/nothing",
        "/status/http/server_zones/a.test/ssl/handshaked/more",
    ] {
        let missing = wire::get(port, path);
        assert_eq!(missing.status, 404, "{path}");
        assert!(
            missing.text().contains("\"PathNotFound\""),
            "{}",
            missing.text()
        );
    }
    let refused = wire::request(
        port,
        "DELETE /status/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(refused.status, 405);
}

#[test]
fn prometheus_scrapes_the_example_and_takes_its_rules() {
    let repository = sealane_tests::repository();
    let rules = repository.join("examples/monitoring/alerts.yml");
    let rules = rules.to_str().expect("a path");
    let outcome = command("promtool", &["check", "rules", rules], b"");
    assert!(outcome.status == 0, "{}", outcome.text());
    let site = mixed_site();
    let server = site.serve_whole(&MIXED.replace("EXTRA", ""));
    ask_everything(&server, 1);
    let port = site.port("prometheus");
    let text = format!(
        "global: {{ scrape_interval: 200ms }}\nrule_files: [{rules}]\nscrape_configs:\n\
         - job_name: sealane\n  metrics_path: /metrics\n  static_configs: [{{ targets: [\"127.0.0.1:{}\"] }}]\n",
        server.port("metrics")
    );
    let file = site.write("prometheus.yml", text);
    let mut child = std::process::Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            site.path("tsdb").display()
        ))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(std::process::Stdio::null())
        .stderr(fs::File::create(site.path("logs/prometheus.log")).expect("the site is writable"))
        .spawn()
        .expect("prometheus is installed (scripts/install-test-deps.sh)");
    let found = wait_for("Prometheus to have scraped", || {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            return None;
        }
        let answer = wire::get(port, "/api/v1/query?query=sealane_server_requests_total");
        let answer: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
        let results = answer["data"]["result"].as_array()?.clone();
        results
            .into_iter()
            .find(|result| result["metric"]["server"] == "a.test")
    });
    child.kill().expect("it runs");
    child.wait().expect("it was started here");
    let requests: f64 = found["value"][1]
        .as_str()
        .expect("a value")
        .parse()
        .expect("a number");
    assert!(requests > 100.0, "{found}");
}
