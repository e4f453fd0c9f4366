//! Purges that are remembered: over reloads, kills and upgrades, until the files are gone.

use super::{
    counting, files, http, kill, purge, purge_with, verdict, wait_for_files, wait_for_hit,
};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::Daemon;
use sealane_tests::{Program, Site, wait_for, wire};
use std::fs;

const TAGS: &str = "proxy_cache_purge_tags $http_cache_tag;";

/// The size of the file of purges when it has none.
const NO_PURGES: u64 = 16;

fn whole(text: &str) -> String {
    format!(
        "pid logs/pid; error_log logs/error.log notice; events {{}} http {{ access_log off; {text} }}"
    )
}

fn purges_bytes(site: &Site) -> u64 {
    fs::metadata(site.path("cache/temp/purges")).map_or(0, |facts| facts.len())
}

#[test]
fn a_purge_survives_reloads_and_kills() {
    let site = Site::new();
    let (origin, _) = counting();
    let text = http("", origin.port(), TAGS);
    let mut server = site.serve_whole(&whole(&text));
    let port = server.port("plain");
    let tagged = "/tagged?fields=Cache-Tag:t";
    for target in ["/a/1", "/b", tagged, "/kept"] {
        wire::get(port, target);
        wait_for_hit(&server, target);
    }
    wait_for_files(&site, 4);
    for pattern in ["/a/*", "/a/*", "/b*"] {
        assert_eq!(purge(port, pattern), 204);
    }
    assert_eq!(purge_with(port, "/", "Cache-Tag: t\r\n"), 204);
    server.expect_alert("is gone; this worker finishes");
    // Everything ends at once, without a chance to write anything.
    kill(server);
    server = site.serve_whole(&whole(&text));
    server.expect_alert("is gone; this worker finishes");
    assert_eq!(verdict(&wire::get(port, "/kept")), "HIT");
    assert_eq!(verdict(&wire::get(port, "/a/1")), "MISS");
    let again = whole(&http("max_size=1g", origin.port(), TAGS));
    assert!(matches!(reload(&site, &server, &again), Reload::Applied));
    assert_eq!(verdict(&wire::get(port, "/b")), "MISS");
    // A worker that is killed alone.
    server.expect_alert("exited on signal 9");
    server.kill_worker();
    let response = wait_for("the next worker", || {
        let mut connection = wire::Connection::open(port);
        connection.send(format!("GET {tagged} HTTP/1.1\r\nHost: h\r\n\r\n"));
        connection.try_response(false)
    });
    assert_eq!(verdict(&response), "MISS");
    for target in ["/a/1", "/b", tagged, "/kept"] {
        wait_for_hit(&server, target);
    }
}

#[test]
fn the_next_process_knows_what_was_purged() {
    let site = Site::new();
    let (origin, _) = counting();
    let daemon = Daemon::start(
        &site,
        Program::Sealane,
        &whole(&http("", origin.port(), "")),
    );
    let port = site.port("plain");
    for target in ["/a/1", "/a/2", "/b"] {
        wait_for("a hit", || {
            (verdict(&wire::get(port, target)) == "HIT").then_some(())
        });
    }
    wait_for_files(&site, 3);
    assert_eq!(purge(port, "/a/*"), 204);
    daemon.upgrade();
    assert_eq!(verdict(&wire::get(port, "/b")), "HIT");
    for target in ["/a/1", "/a/2"] {
        assert_eq!(verdict(&wire::get(port, target)), "MISS");
    }
    assert_eq!(purge(port, "/b*"), 204);
    assert_eq!(verdict(&wire::get(port, "/b")), "MISS");
}

#[test]
fn the_purger_removes_what_nobody_asks_for_and_then_forgets_it() {
    let site = Site::new();
    let (origin, count) = counting();
    let zone = "levels=1:2 purger=on purger_files=3 purger_sleep=5ms";
    let server = site.serve_whole(&whole(&http(zone, origin.port(), TAGS)));
    let port = server.port("plain");
    let targets = |range: std::ops::Range<usize>| {
        range.map(|number| {
            let tag = ["even", "odd"][number % 2];
            format!(
                "/{}/{number}?fields=Cache-Tag:{tag}",
                ["a", "b"][number % 3 / 2]
            )
        })
    };
    for target in targets(0..30) {
        wire::get(port, &target);
        wait_for_hit(&server, &target);
    }
    wait_for_files(&site, 30);
    // A third of them, and then half of what is left.
    for (pattern, fields, left) in [("/b/*", "", 20), ("/", "Cache-Tag: odd\r\n", 10)] {
        assert_eq!(purge_with(port, pattern, fields), 204);
        wait_for_files(&site, left);
        wait_for("the purge to be forgotten", || {
            (purges_bytes(&site) == NO_PURGES).then_some(())
        });
        assert_eq!(files(&site).len(), left);
    }
    let before = count.load(std::sync::atomic::Ordering::Relaxed);
    for target in targets(0..30) {
        let is_left = target.starts_with("/a") && target.ends_with("even");
        let expected = if is_left { "HIT" } else { "MISS" };
        assert_eq!(verdict(&wire::get(port, &target)), expected, "{target}");
    }
    assert_eq!(
        count.load(std::sync::atomic::Ordering::Relaxed),
        before + 20
    );
}

#[test]
fn the_purger_can_be_switched_on_later() {
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve_whole(&whole(&http("", origin.port(), "")));
    let port = server.port("plain");
    for target in ["/a/1", "/a/2", "/b"] {
        wire::get(port, target);
        wait_for_hit(&server, target);
    }
    wait_for_files(&site, 3);
    assert_eq!(purge(port, "/a/*"), 204);
    assert!(purges_bytes(&site) > NO_PURGES);
    let on = whole(&http("purger=on", origin.port(), ""));
    assert!(matches!(reload(&site, &server, &on), Reload::Applied));
    wait_for_files(&site, 1);
    assert_eq!(verdict(&wire::get(port, "/b")), "HIT");
}

#[test]
fn without_the_purger_a_purge_is_forgotten_when_nothing_older_is_left() {
    let site = Site::new();
    let (origin, _) = counting();
    let text = http("", origin.port(), "").replace("inactive=1h", "inactive=1s");
    let server = site.serve_whole(&whole(&text));
    let port = server.port("plain");
    wire::get(port, "/a");
    wait_for_files(&site, 1);
    assert_eq!(purge(port, "/*"), 204);
    assert!(purges_bytes(&site) > NO_PURGES);
    wait_for("the file to go, and the purge with it", || {
        let is_over = files(&site).is_empty() && purges_bytes(&site) == NO_PURGES;
        is_over.then_some(())
    });
}

#[test]
fn too_many_purges_are_refused_until_the_files_have_been_read() {
    let site = Site::new();
    let (origin, _) = counting();
    let text = http("purger_rules=4", origin.port(), TAGS);
    let server = site.serve_whole(&whole(&text));
    let port = server.port("plain");
    let tagged = "/a?fields=Cache-Tag:t1";
    for target in [tagged, "/kept"] {
        wire::get(port, target);
        wait_for_hit(&server, target);
    }
    wait_for_files(&site, 2);
    let tags = |count: usize| {
        let tags: Vec<String> = (0..count).map(|number| format!("t{number}")).collect();
        format!("Cache-Tag: {}\r\n", tags.join(","))
    };
    assert_eq!(purge_with(port, "/", &tags(5)), 503);
    server.wait_for_log("nothing is purged: 4 purges");
    // Nothing of it was done.
    assert_eq!(verdict(&wire::get(port, tagged)), "HIT");
    assert_eq!(purge_with(port, "/", &tags(4)), 204);
    // They are more than half, so the files are read though the purger is off.
    wait_for("room", || {
        (purge_with(port, "/", &tags(3)) == 204).then_some(())
    });
    wait_for_files(&site, 1);
    assert_eq!(verdict(&wire::get(port, "/kept")), "HIT");
    assert_eq!(verdict(&wire::get(port, tagged)), "MISS");
}

#[test]
fn a_purge_that_cannot_be_written_is_an_error_and_holds_all_the_same() {
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve_whole(&whole(&http("", origin.port(), "")));
    server.expect_alert("what was to be purged may come back with a restart");
    let port = server.port("plain");
    wire::get(port, "/a/1");
    wait_for_hit(&server, "/a/1");
    wait_for_files(&site, 1);
    // Until the directory has been read, what does not belong there is removed.
    server.wait_for_log("http file cache: ");
    site.write("cache/temp", "a file where a directory should be");
    assert_eq!(purge(port, "/a/*"), 500);
    server.wait_for_log("cache/temp/purges\" failed");
    assert_eq!(verdict(&wire::get(port, "/a/1")), "MISS");
}
