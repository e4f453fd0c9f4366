//! When certificates end.

use super::*;
use std::time::{SystemTime, UNIX_EPOCH};

/// A pair that ends in five days gives way to one that ends in thirty.
pub(super) const MOVES: &[Move] = &[(
    "sealane_certificate_not_after_timestamp_seconds{server=\"localhost\"}",
    Up,
)];

const NOT_AFTER: &str = "sealane_certificate_not_after_timestamp_seconds{server=\"localhost\"}";

fn now_s() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs_f64()
}

/// A pair `certificates/NAME.pem` and `.key` for so many days.
fn make(site: &Site, name: &str, days: u32) {
    let path = |kind: &str| {
        site.path(format!("certificates/{name}.{kind}"))
            .display()
            .to_string()
    };
    let line = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days {days} \
         -subj /CN=localhost -keyout {} -out {}",
        path("key"),
        path("pem")
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    command("openssl", &words, b"").success();
}

#[test]
fn a_certificate_that_ends_soon_is_told_until_another_takes_its_place() {
    let site = mixed_site();
    make(&site, "live", 5);
    let server = site.serve(
        "ssl_certificate_reload 100ms;
         server { listen 127.0.0.1:%tls% ssl; server_name localhost;
             ssl_certificate certificates/live.pem; ssl_certificate_key certificates/live.key; }
         server { listen 127.0.0.1:%metrics%; location = /metrics { metrics; } }",
    );
    let watch = Watch::start(&server);
    let days = |ends_s: f64| ((ends_s - now_s()) / 86_400.0).ceil();
    assert_eq!(
        days(value(&samples(server.port("metrics")), NOT_AFTER)),
        5.0
    );
    let line = server.wait_for_log("live.pem\" of server \"localhost\" ends in ");
    assert!(line.contains("[warn]"), "{line}");
    make(&site, "next", 30);
    for kind in ["key", "pem"] {
        let path = |name: &str| site.path(format!("certificates/{name}.{kind}"));
        fs::rename(path("next"), path("live")).expect("the site is writable");
    }
    watch.saw(MOVES);
    assert_eq!(
        days(value(&samples(server.port("metrics")), NOT_AFTER)),
        30.0
    );
    let log = server.error_log();
    assert_eq!(
        log.matches("of server \"localhost\" ends in").count(),
        1,
        "{log}"
    );
}

#[test]
fn a_certificate_that_has_ended_is_told_by_the_running_server() {
    let site = mixed_site();
    make(&site, "live", 1);
    // A day less five seconds later: it ends while the server starts, or soon after.
    let preload = format!("LD_PRELOAD={}", sealane_tests::faketime_library());
    let wrapper = [
        "env",
        &preload,
        "FAKETIME=+86395s",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
    ];
    let text = "pid logs/pid; error_log logs/error.log notice; events { }
        env FAKETIME; env LD_PRELOAD; env FAKETIME_DONT_FAKE_MONOTONIC;
        http { access_log off;
            server { listen 127.0.0.1:%tls% ssl; server_name localhost;
                ssl_certificate certificates/live.pem; ssl_certificate_key certificates/live.key; }
            server { listen 127.0.0.1:%metrics%; location = /metrics { metrics; } } }";
    let server = Server::start_under(&site, sealane_tests::Program::Sealane, text, &wrapper);
    let line = server.wait_for_log("live.pem\" of server \"localhost\" has ended");
    assert!(line.contains("[error]"), "{line}");
    let ends_s = value(&samples(server.port("metrics")), NOT_AFTER);
    assert!(ends_s <= now_s() + 86_400.0, "{ends_s}");
}
