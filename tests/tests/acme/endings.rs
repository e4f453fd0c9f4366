//! Certificates that cannot be renewed: what the log and `sealane doctor` say as their end comes
//! nearer, while the clock of the server is moved.

use super::{certificate, issuer, serial, servers, settings, wait_for_certificate};
use sealane_tests::{
    PATIENCE, Pebble, Program, Redis, Server, Site, faketime_library, has_go, sealane_binary,
    wait_for, wait_within,
};
use std::process::Command;
use std::time::Duration;

/// How often a node with a store looks while nothing is due; every second otherwise. Whether it has
/// begun to wait for that long when the clock is moved first is a matter of chance.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// How far the clock is moved, the level of the line that comes, and what it and `sealane doctor`
/// say about the end of a certificate of ninety days.
const STAGES: [(&str, &str, &str, &str); 4] = [
    ("+80d", "[warn]", "ends in 9 days; ", "ends in 9 days"),
    ("+86d", "[error]", "ends in 3 days; ", "ends in 3 days"),
    ("+88d", "[crit]", "ends in 47 hours; ", "ends in 1 day, "),
    ("+91d", "[alert]", "has ended; ", "has ended"),
];

/// The environment of a program whose clock is what the file says, from one second to the next.
fn environment(site: &Site) -> [String; 4] {
    [
        format!("LD_PRELOAD={}", faketime_library()),
        format!("FAKETIME_TIMESTAMP_FILE={}", site.path("clock").display()),
        "FAKETIME_CACHE_DURATION=1".to_owned(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
    ]
}

/// What `sealane doctor` says about the configuration of the running server, in one line.
fn doctor(site: &Site) -> String {
    let output = Command::new("env")
        .args(environment(site))
        .arg(sealane_binary())
        .args(["doctor", "-p", &site.path("").display().to_string()])
        .args(["-c", &site.path("sealane.conf").display().to_string()])
        .output()
        .expect("it runs");
    // Its lines are as long as fits into a terminal.
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn warnings_grow_louder_and_the_doctor_tells_while_the_old_certificate_serves() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let mut pebble = Pebble::start(&site, settings(&site));
    let redis = Redis::start(&site, "redis", &[]);
    site.write("seal.key", "0123456789abcdef0123456789abcdef");
    site.write("clock", "+0");
    // Nodes with a store look often, so that the test need not wait for the next attempt.
    let text = format!(
        "worker_processes 1; pid logs/pid; error_log logs/error.log info;
         env LD_PRELOAD; env FAKETIME_TIMESTAMP_FILE; env FAKETIME_CACHE_DURATION;
         env FAKETIME_DONT_FAKE_MONOTONIC;
         events {{ }}
         http {{ access_log off; {}
             ssl_session_store redis://127.0.0.1:{} key=seal.key timeout=1s; {} }}",
        // Pebble chooses among its profiles if none is asked for.
        issuer("profile default require;"),
        redis.port(),
        servers("ends.test")
    );
    let environment = environment(&site);
    let mut wrapper = vec!["env"];
    wrapper.extend(environment.iter().map(String::as_str));
    let server = Server::start_under(&site, Program::Sealane, &text, &wrapper);
    server.expect_alert("the certificate for \"ends.test\"");
    let port = server.port("tls");
    let first = wait_for_certificate(port, "ends.test");
    let of_doctor = "certificate ecdsa:256 \"ends.test\" of acme issuer \"pebble\": ";
    let report = doctor(&site);
    let expected = "ends in 89 days, the last attempt to get one succeeded, the next is in";
    assert!(
        report.contains(&format!("{of_doctor}{expected}")),
        "{report}"
    );
    // The ACME server fails from now on.
    pebble.kill();
    for (time, level, end, told) in STAGES {
        site.write("clock", time);
        let log = wait_within(
            LOOK_INTERVAL + PATIENCE,
            &format!("{level} at {time}\n{}", server.error_log()),
            || {
                let log = server.error_log();
                let is_it =
                    |line: &str| line.contains(level) && line.contains("the certificate for");
                log.lines().find(|line| is_it(line)).map(str::to_owned)
            },
        );
        let expected = format!("acme issuer \"pebble\": the certificate for \"ends.test\" {end}");
        assert!(log.contains(&expected), "{time}: {log}");
        // The line comes before the attempt that fails.
        let report = wait_for("the failed attempt in the report", || {
            let report = doctor(&site);
            let failed = "the last attempt to get one failed";
            report.contains(failed).then_some(report)
        });
        let failed = "(connect() failed (111: Connection refused)), the next is in";
        assert!(report.contains(&format!("{of_doctor}{told}")), "{report}");
        assert!(
            report.contains("it renews itself; the last attempt failed"),
            "{report}"
        );
        assert_eq!(report.matches(failed).count(), 2, "{report}");
        assert_eq!(
            serial(&certificate(port, "ends.test")),
            serial(&first),
            "the old one serves"
        );
    }
    // Each was said once, and why the last attempt failed.
    let log = server.error_log();
    for (_, level, end, _) in STAGES {
        let is_it = |line: &&str| line.contains(level) && line.contains(end);
        assert_eq!(log.lines().filter(is_it).count(), 1, "{level}\n{log}");
    }
    let last = log.lines().find(|line| line.contains("has ended; "));
    let last = last.expect("it was counted");
    assert!(last.contains("the last attempt failed: "), "{last}");
}
