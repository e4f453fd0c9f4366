//! `proxy_cache_purge`: by key, prefix and tag; who may; what is being received, stale, a variant
//! or of an earlier process. Nothing that was purged is ever served.

#[path = "cache_purge/access.rs"]
mod access;
#[path = "cache_purge/concurrent.rs"]
mod concurrent;
#[path = "cache_fills/gate.rs"]
mod gate;
#[path = "cache_purge/module.rs"]
mod module;
#[path = "cache_purge/remembered.rs"]
mod remembered;

use gate::GatedOrigin;
use sealane_tests::caching::{verdict, wait_for_hit};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::upgrade::signal;
use sealane_tests::{Server, Site, scale, wait_for, wire};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Makes PURGE a method that purges.
const MAP: &str = "map $request_method $purge { PURGE 1; default 0; }";

/// `http` with a zone `one`, and a server that passes everything on to an origin. Who asks for
/// `/x?...` gets what belongs to `/x`.
fn http(zone: &str, origin: u16, more: &str) -> String {
    format!(
        "proxy_temp_path temp; {MAP}
         proxy_cache_path cache keys_zone=one:8m inactive=1h {zone};
         server {{ listen 127.0.0.1:%plain%; proxy_cache one; proxy_cache_valid 200 1h;
             proxy_cache_key $uri; proxy_cache_purge $purge; allow 127.0.0.1;
             add_header X-Cache $upstream_cache_status always;
             location / {{ proxy_pass http://127.0.0.1:{origin}; {more} }} }}"
    )
}

/// Purges, and returns the status.
fn purge(port: u16, target: &str) -> u16 {
    purge_with(port, target, "")
}

fn purge_with(port: u16, target: &str, headers: &str) -> u16 {
    let head = format!("PURGE {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{headers}\r\n");
    wire::request(port, &head).status
}

/// An origin whose answers are counted and say what they are the answer to. The argument `fields`
/// is what they have besides, with `;` between lines.
fn counting() -> (Origin, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::answering(move |asked: &Asked| {
        let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
        let target = asked.target();
        let (path, fields) = target.split_once("?fields=").unwrap_or((&target, ""));
        let fields: String = fields
            .split(';')
            .filter(|field| !field.is_empty())
            .map(|field| format!("{}\r\n", field.replace('+', " ")))
            .collect();
        let language = asked.headers("Accept-Language").concat();
        let body = format!("{path} {language} {number}");
        let bytes = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n{fields}\r\n{body}");
        Answer::Send(head.into_bytes())
    });
    (origin, count)
}

/// Kills all processes of a server at once.
fn kill(server: Server<'_>) {
    let port = server.port("plain");
    for pid in [vec![server.pid()], server.worker_pids()].concat() {
        signal(pid, "KILL");
    }
    server.wait_for_exit();
    // A process is gone once the disk has done what its threads have asked for.
    wait_for("the port to be free", || {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .ok()
            .map(drop)
    });
}

/// Waits until there are so many files of responses: a response has its file a moment after it can
/// be read.
#[track_caller]
fn wait_for_files(site: &Site, expected: usize) {
    wait_for("files", || (files(site).len() == expected).then_some(()));
}

/// The files of responses in the cache's directory.
fn files(site: &Site) -> Vec<PathBuf> {
    fn below(directory: PathBuf, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => below(entry.path(), found),
                _ => found.push(entry.path()),
            }
        }
    }
    let mut found = Vec::new();
    below(site.path("cache"), &mut found);
    found.retain(|path| path.file_name().is_some_and(|name| name.len() == 32));
    found.sort();
    found
}

#[test]
fn a_key_is_purged_with_204_and_404_otherwise() {
    let site = Site::new();
    let (origin, count) = counting();
    let server = site.serve(&http("", origin.port(), ""));
    let port = server.port("plain");
    assert_eq!(purge(port, "/a"), 404);
    for target in ["/a", "/ab"] {
        wire::get(port, target);
        wait_for_hit(&server, target);
    }
    wait_for_files(&site, 2);
    assert_eq!(purge(port, "/a"), 204);
    assert_eq!(files(&site).len(), 1);
    server.wait_for_log("purged \"/a\"");
    assert_eq!(purge(port, "/a"), 404);
    // Conditions of a request that purges are of no importance.
    assert_eq!(purge_with(port, "/a", "If-Match: \"x\"\r\n"), 404);
    assert_eq!(verdict(&wire::get(port, "/ab")), "HIT");
    let head = "HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let mut connection = wire::Connection::open(port);
    connection.send(head);
    assert_eq!(verdict(&connection.response(true)), "MISS");
    // As in nginx, the response to HEAD is asked for and kept with its body.
    assert_eq!(wait_for_hit(&server, "/a").text(), "/a  3");
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[test]
fn an_asterisk_at_the_end_stands_for_everything_that_begins_so() {
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve(&http("levels=1:2", origin.port(), ""));
    let port = server.port("plain");
    let all = [
        "/a",
        "/a/1",
        "/a/2",
        "/b/%C3%A9",
        "/b/%c3%b6",
        "/b/x",
        "/*/y",
    ];
    for (pattern, gone) in [
        ("/a/*", vec!["/a/1", "/a/2"]),
        ("/a*", vec!["/a", "/a/1", "/a/2"]),
        // What is compared is the key, which has no escapes here.
        ("/b/%C3%A9*", vec!["/b/%C3%A9"]),
        ("/b/\u{e9}*", vec!["/b/%C3%A9"]),
        ("/b/%C3*", vec!["/b/%C3%A9", "/b/%c3%b6"]),
        ("/b/%2A", vec!["/b/%C3%A9", "/b/%c3%b6", "/b/x"]),
        // An asterisk elsewhere is one like others.
        ("/*/*", vec!["/*/y"]),
        ("/z*", vec![]),
        ("/*", all.to_vec()),
    ] {
        for target in all {
            wire::get(port, target);
            wait_for_hit(&server, target);
        }
        assert_eq!(purge(port, pattern), 204);
        for target in all {
            let response = wire::get(port, target);
            let expected = if gone.contains(&target) {
                "MISS"
            } else {
                "HIT"
            };
            assert_eq!(verdict(&response), expected, "{pattern}: {target}");
        }
    }
    server.wait_for_log("purged \"/b/\u{e9}*\"");
}

#[test]
fn everything_is_purged_by_an_asterisk_alone() {
    let site = Site::new();
    let (origin, count) = counting();
    let more = "proxy_cache_key $arg_key;";
    let server = site.serve(&http("", origin.port(), more));
    let port = server.port("plain");
    let asks = ["/?key=a", "/?key=b", "/"];
    for target in asks {
        wire::get(port, target);
        wait_for_hit(&server, target);
    }
    assert_eq!(purge(port, "/?key=*"), 204);
    for target in asks {
        assert_eq!(verdict(&wire::get(port, target)), "MISS");
    }
    assert_eq!(count.load(Ordering::Relaxed), 6);
}

#[test]
fn tags_purge_the_responses_that_have_them() {
    let site = Site::new();
    let (origin, _) = counting();
    let tags = "proxy_cache_purge_tags $http_surrogate_key $http_cache_tag $arg_tag;
        location /shown/ { proxy_pass http://127.0.0.1:%origin%;
            proxy_pass_header Surrogate-Key; }";
    let tags = tags.replace("%origin%", &origin.port().to_string());
    let text = http("", origin.port(), "");
    let text = text.replace("location / {", &format!("{tags} location / {{"));
    let server = site.serve(&text);
    let port = server.port("plain");
    let all = [
        ("/1", "Surrogate-Key:news+front"),
        ("/2", "surrogate-key:front;Surrogate-Key:++sport+"),
        ("/3", "Cache-Tag:news,+sport;X-Cache-Tag:other"),
        ("/4", "X-Surrogate-Key:news"),
    ];
    let long = "x".repeat(2000);
    for (headers, query, gone) in [
        ("Surrogate-Key: news", "", vec!["/1", "/3"]),
        ("Cache-Tag: front,none", "", vec!["/1", "/2"]),
        ("Surrogate-Key: sport", "?tag=front", vec!["/1", "/2", "/3"]),
        ("X: y", "?tag=sport", vec!["/2", "/3"]),
        ("Surrogate-Key: New", "", vec![]),
        ("Cache-Tag: new,NEWS", "", vec![]),
        (&*format!("Cache-Tag: {long}"), "", vec![]),
        // Without a tag it is about the key.
        ("Surrogate-Key:  , ", "", vec!["/4"]),
    ] {
        for (target, fields) in all {
            let response = wire::get(port, &format!("{target}?fields={fields}"));
            for hidden in ["Surrogate-Key", "Cache-Tag"] {
                assert_eq!(response.header(hidden), None, "{target}");
            }
            wait_for_hit(&server, &format!("{target}?fields={fields}"));
        }
        let purged = purge_with(port, &format!("/4{query}"), &format!("{headers}\r\n"));
        assert_eq!(purged, 204, "{headers}");
        for (target, fields) in all {
            let response = wire::get(port, &format!("{target}?fields={fields}"));
            let expected = if gone.contains(&target) {
                "MISS"
            } else {
                "HIT"
            };
            assert_eq!(verdict(&response), expected, "{headers}: {target}");
            assert_eq!(response.header("Cache-Tag"), None, "{target}");
        }
    }
    server.wait_for_log("purged tags \"front none\"");
    let shown = wire::get(port, "/shown/?fields=Surrogate-Key:a;Cache-Tag:b");
    assert_eq!(shown.header("Surrogate-Key"), Some("a"));
    assert_eq!(shown.header("Cache-Tag"), None);
}

#[test]
fn what_is_in_memory_is_purged_as_well() {
    let site = Site::new();
    let (origin, _) = counting();
    let more = "proxy_cache_purge_tags $http_cache_tag;";
    let server = site.serve(&http("", origin.port(), more));
    let port = server.port("plain");
    let (purged, kept) = ("/a?fields=Cache-Tag:t", "/b?fields=Cache-Tag:u");
    for (target, tag) in [("/a*", ""), ("/", "Cache-Tag: t\r\n"), ("/a", "")] {
        for target in [purged, kept] {
            wire::get(port, target);
            wait_for_hit(&server, target);
        }
        // A file that was written a moment ago is not taken into memory.
        thread::sleep(Duration::from_millis(100));
        for target in [purged, kept].repeat(5) {
            assert_eq!(verdict(&wire::get(port, target)), "HIT", "{target}");
        }
        assert_eq!(purge_with(port, target, tag), 204);
        assert_eq!(verdict(&wire::get(port, purged)), "MISS", "{target} {tag}");
        for _ in 0..3 {
            assert_eq!(verdict(&wire::get(port, kept)), "HIT", "{target} {tag}");
        }
    }
}

#[test]
fn without_the_directive_fields_of_clients_name_no_tags() {
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve(&http("", origin.port(), ""));
    let port = server.port("plain");
    for target in ["/1?fields=Surrogate-Key:a", "/2"] {
        let response = wire::get(port, target);
        assert_eq!(response.header("Surrogate-Key").is_some(), target.len() > 2);
        wait_for_hit(&server, target);
    }
    assert_eq!(
        purge_with(port, "/2", "Surrogate-Key: a\r\nCache-Tag: a\r\n"),
        204
    );
    assert_eq!(verdict(&wire::get(port, "/1")), "HIT");
    assert_eq!(verdict(&wire::get(port, "/2")), "MISS");
}

#[test]
fn what_is_being_received_is_purged_for_whoever_asks_later() {
    for pattern in ["/a", "/*", "tag"] {
        let site = Site::new();
        let origin = GatedOrigin::new(vec![b'x'; 100_000], 50_000);
        let more = "proxy_cache_lock on; proxy_cache_lock_timeout 1m; proxy_cache_lock_age 1m;
            proxy_cache_purge_tags $arg_tag;";
        let server = site.serve(&http("", origin.port(), more));
        let port = server.port("plain");
        let ask = |part: usize| {
            let mut connection = wire::Connection::open(port);
            connection.send("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            wait_for("the origin to be asked", || {
                (origin.requests() == part).then_some(())
            });
            // It has the beginning, so the response is being received.
            connection
                .socket()
                .peek(&mut [0; 1])
                .expect("the first byte");
            connection
        };
        let mut before = ask(1);
        // Whoever comes before the purge reads along.
        let mut along = ask(1);
        let purged = match pattern {
            // The origin gives no tags, so this purges nothing that is received here.
            "tag" => purge(port, "/?tag=t"),
            _ => purge(port, pattern),
        };
        assert_eq!(purged, 204, "{pattern}");
        let mut after = ask(if pattern == "tag" { 1 } else { 2 });
        origin.open();
        for connection in [&mut before, &mut along, &mut after] {
            let response = connection.response(false);
            assert!(response.body.iter().all(|byte| *byte == b'x'));
            assert_eq!(response.body.len(), 100_000, "{pattern}");
        }
        assert_eq!(wait_for_hit(&server, "/a").body.len(), 100_000);
    }
}

#[test]
fn a_request_that_bypasses_the_cache_brings_nothing_back() {
    for pattern in ["/a", "/*"] {
        let site = Site::new();
        let origin = GatedOrigin::new(vec![b'x'; 1000], 10);
        let more = "proxy_cache_bypass $arg_bypass;";
        let server = site.serve(&http("", origin.port(), more));
        let port = server.port("plain");
        let mut before = wire::Connection::open(port);
        before.send("GET /a?bypass=1 HTTP/1.1\r\nHost: h\r\n\r\n");
        wait_for("the origin to be asked", || {
            (origin.requests() == 1).then_some(())
        });
        purge(port, pattern);
        origin.open();
        assert_eq!(before.response(false).body.len(), 1000);
        assert_eq!(verdict(&wire::get(port, "/a")), "MISS", "{pattern}");
        assert_eq!(origin.requests(), 2);
    }
}

#[test]
fn what_is_stale_is_not_served_after_a_purge() {
    let site = Site::new();
    let is_down = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&is_down);
    let origin = Origin::answering(move |_: &Asked| match theirs.load(Ordering::Relaxed) {
        true => Answer::SendAndClose(Vec::new()),
        false => Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()),
    });
    // What is stored is stale from the next second on.
    let more = "proxy_cache_valid 200 1s; proxy_cache_use_stale error updating invalid_header;
        proxy_cache_background_update on;";
    let server = site.serve(&http("", origin.port(), more));
    let port = server.port("plain");
    for (pattern, target) in [("/a", "/a"), ("/b*", "/b/1")] {
        is_down.store(false, Ordering::Relaxed);
        wire::get(port, target);
        wait_for_hit(&server, target);
        is_down.store(true, Ordering::Relaxed);
        wait_for("a stale response", || {
            let response = wire::get(port, target);
            assert_eq!(response.text(), "ok");
            (verdict(&response) == "STALE").then_some(())
        });
        assert_eq!(purge(port, pattern), 204);
        assert_eq!(wire::get(port, target).status, 502, "{pattern}");
    }
}

#[test]
fn variants_go_with_their_key() {
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve(&http("", origin.port(), ""));
    let port = server.port("plain");
    let ask = |language: &str| {
        let fields = format!("Accept-Language: {language}\r\n");
        wire::get_with(port, "/a?fields=Vary:Accept-Language", &fields)
    };
    let languages = ["de", "en", "fr"];
    for pattern in ["/a", "/a*", "/*"] {
        for language in languages {
            wait_for("a hit", || {
                let response = ask(language);
                assert!(response.text().contains(language), "{}", response.text());
                (verdict(&response) == "HIT").then_some(())
            });
        }
        assert_eq!(purge(port, pattern), 204);
        for language in languages {
            let response = ask(language);
            assert_eq!(verdict(&response), "MISS", "{pattern}: {language}");
        }
    }
}

#[test]
fn a_purge_touches_no_file() {
    let keys = scale(2000, 20_000);
    let site = Site::new();
    let (origin, count) = counting();
    let text = http("", origin.port(), "keepalive_requests 100000;");
    let server = site.serve(&text);
    let mut connection = wire::Connection::open(server.port("plain"));
    for number in 0..keys {
        connection.send(format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(connection.response(false).status, 200);
    }
    wait_for_files(&site, keys);
    // The next process has nothing in memory.
    drop(connection);
    server.stop("QUIT");
    let server = site.serve(&text);
    server.wait_for_log(&format!(" {keys} keys"));
    let mut connection = wire::Connection::open(server.port("plain"));
    let facts = || {
        let facts = files(&site).into_iter().map(|path| {
            let facts = fs::metadata(&path).expect("it is there");
            (
                path,
                facts.modified().expect("known"),
                facts.accessed().expect("known"),
            )
        });
        facts.collect::<Vec<_>>()
    };
    let before = facts();
    assert_eq!(purge(server.port("plain"), "/*"), 204);
    assert!(facts() == before);
    // All of them are gone for clients.
    for number in (0..keys).step_by(97) {
        connection.send(format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let response = connection.response(false);
        assert_eq!(verdict(&response), "MISS", "{number}");
    }
    assert_eq!(count.load(Ordering::Relaxed), keys + keys.div_ceil(97));
}
