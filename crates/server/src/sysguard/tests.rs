use crate::snapshot::LocationId;
use crate::testing::Site;
use std::time::Duration;

/// A site with figures.
fn site(server: &str) -> Site {
    let site = Site::new(server);
    site.file("a.txt", "served");
    let snapshot = site.worker().current.snapshot();
    let system = snapshot.load_watch().system();
    system.set_load_thousandths(Some(2500));
    system.set_cpus(Some(4));
    system.set_swap_used(Some(2500));
    system.set_free_bytes(Some(100 << 20));
    for meter in snapshot.load_watch().meters() {
        meter.set_usage(Some(5000));
    }
    site
}

/// The answer to a request with these directives.
fn answer(directives: &str) -> (u16, String) {
    let site = site(&format!(
        "sysguard on; {directives} location /busy {{ return 200 \"busy $args\"; }}
         location @busy {{ return 200 \"named $uri\"; }} location / {{ }}"
    ));
    let reply = site.get("/a.txt?x=1");
    (reply.status(), reply.text().to_owned())
}

#[test]
fn limits_are_compared_as_in_tengine() {
    for (directives, is_busy) in [
        ("", false),
        ("sysguard_load load=2.499;", true),
        ("sysguard_load load=2.5;", false),
        ("sysguard_load load=ncpu*0.6;", true),
        ("sysguard_load load=ncpu*0.7;", false),
        ("sysguard_cpu usage=49.99;", true),
        ("sysguard_cpu usage=50 period=10s;", false),
        ("sysguard_mem swapratio=24%;", true),
        ("sysguard_mem swapratio=25%;", false),
        ("sysguard_mem free=101M;", true),
        ("sysguard_mem free=100M;", false),
        ("sysguard_mem free=1k swapratio=24%;", true),
        ("sysguard_mem swapratio=90%; sysguard_mem free=1g;", true),
        ("sysguard_load load=1; sysguard off;", false),
    ] {
        let directives = match directives.strip_suffix(" sysguard off;") {
            Some(others) => format!("{others} location /a.txt {{ sysguard off; }}"),
            None => directives.to_owned(),
        };
        let expected = if is_busy { 503 } else { 200 };
        assert_eq!(answer(&directives).0, expected, "{directives}");
    }
}

#[test]
fn actions_lead_elsewhere_and_are_not_judged_again() {
    for (directives, expected) in [
        ("sysguard_load load=1 action=/busy;", "busy x=1"),
        ("sysguard_load load=1 action=@busy;", "named /a.txt"),
        // With "or" the first one acts, with "and" the last one of all.
        (
            "sysguard_load load=1 action=/busy; sysguard_mem free=1g action=@busy;",
            "busy x=1",
        ),
        (
            "sysguard_mode and; sysguard_load load=1 action=/busy;
             sysguard_mem free=1g action=@busy;",
            "named /a.txt",
        ),
        (
            "sysguard_mode and; sysguard_load load=1 action=/busy; sysguard_mem free=1k;",
            "served",
        ),
    ] {
        assert_eq!(
            answer(directives),
            (200, expected.to_owned()),
            "{directives}"
        );
    }
}

#[test]
fn what_is_unknown_limits_nothing() {
    let site = Site::new(
        "sysguard on; sysguard_load load=0; sysguard_cpu usage=0; sysguard_mem free=9g swapratio=0%;",
    );
    site.file("a.txt", "served");
    assert_eq!(site.get("/a.txt").status(), 200);
}

#[test]
fn the_log_says_what_was_exceeded() {
    let site = site(
        "sysguard on; sysguard_mode and; sysguard_load load=2; sysguard_mem free=1g;
         sysguard_cpu usage=1; sysguard_log_level warn;",
    );
    assert_eq!(site.get("/a.txt").status(), 503);
    let log = site.error_log();
    for expected in [
        "[warn]",
        "sysguard load limited, current:2.500 conf:2.000, client: ",
        "sysguard cpu limited, current:50.00 conf:1.00, client: ",
        "sysguard free limited, current:100M conf:1024M, client: ",
    ] {
        assert!(log.contains(expected), "{expected} in {log}");
    }
}

#[test]
fn slow_requests_keep_others_out_for_the_period() {
    let site = site("sysguard on; location /a.txt { sysguard_rt rt=0.2 period=600s; }");
    let slow = |site: &Site| {
        let mut exchange = site.exchange("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        exchange.transfer.started -= Duration::from_millis(500);
        site.handle(&mut exchange);
        super::conclude(&exchange);
        exchange.response.status.0
    };
    assert_eq!(slow(&site), 200);
    assert_eq!(slow(&site), 503);
    let snapshot = site.worker().current.snapshot();
    let guards = (0..snapshot.locations.len() as u32)
        .filter_map(|id| snapshot.location(LocationId(id)).guard.as_ref());
    let times: Vec<_> = guards.filter_map(|guard| guard.times.as_ref()).collect();
    let now_ms = sealane_sys::time::monotonic_coarse_ms();
    // Only the request that was let in counts.
    assert_eq!(times.len(), 1);
    assert!(times[0].average_ms(now_ms) >= Some(500));
    assert_eq!(times[0].average_ms(now_ms + 600_000), None);
}
