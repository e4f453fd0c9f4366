//! Responses that are asked for often, and are served from memory.

use super::files::{files_below, wait_for_miss};
use super::{counting, http, pass, verdict, wait_for_hit};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Site, wait_for, wire};
use std::fs;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// So often that it is in memory, if it may be.
#[track_caller]
fn warm(port: u16, target: &str) {
    // A file that was written a moment ago is not taken.
    thread::sleep(Duration::from_millis(100));
    for _ in 0..4 {
        assert_eq!(verdict(&wire::get(port, target)), "HIT", "{target}");
    }
}

#[test]
fn hits_need_no_file_and_whoever_removes_it_is_obeyed() {
    for (memory, is_in_memory) in [
        ("", true),
        ("memory=0", false),
        ("memory_max_object=5", false),
    ] {
        let site = Site::new();
        let (origin, _) = counting();
        let server = site.serve(&http(memory, &pass(origin.port(), "")));
        let port = server.port("plain");
        let mut hits = 0;
        // Once in a second the file is looked at, which may be right after it was removed.
        for number in 0..5 {
            let target = format!("/{number}");
            wire::get(port, &target);
            let before = wait_for_hit(&server, &target).text();
            warm(port, &target);
            for file in files_below(site.path("cache")) {
                fs::remove_file(file).expect("it is ours");
            }
            let response = wire::get(port, &target);
            if verdict(&response) == "HIT" {
                assert_eq!(response.text(), before);
                hits += 1;
                wait_for_miss(port, &target, &before);
            }
        }
        assert_eq!(hits > 0, is_in_memory, "{memory}: {hits}");
    }
}

#[test]
fn what_is_in_memory_follows_every_change() {
    let site = Site::new();
    let (origin, count) = counting();
    let more = "proxy_cache_bypass $arg_bypass; proxy_cache_purge $arg_purge; allow all;";
    let server = site.serve(&http("", &pass(origin.port(), more)));
    let port = server.port("plain");
    wire::get(port, "/a");
    for _ in 0..10 {
        wait_for_hit(&server, "/a");
        warm(port, "/a");
        // Replaced: the new response is the answer from then on.
        let replaced = wire::get(port, "/a?bypass=1");
        assert_eq!(verdict(&replaced), "BYPASS");
        for _ in 0..3 {
            assert_eq!(wire::get(port, "/a").text(), replaced.text());
        }
        warm(port, "/a");
        // Purged: there is none.
        assert_eq!(wire::get(port, "/a?purge=1").status, 204);
        let fresh = wire::get(port, "/a");
        assert_eq!(verdict(&fresh), "MISS");
        assert_eq!(
            fresh.text(),
            format!("answer {}", count.load(Ordering::Relaxed))
        );
    }
}

#[test]
fn what_is_in_memory_gets_old() {
    let site = Site::new();
    let (origin, _) = counting();
    let location = format!(
        "location / {{ proxy_pass http://127.0.0.1:{}; proxy_cache_valid 200 1s; }}",
        origin.port()
    );
    let server = site.serve(&http("", &location));
    let port = server.port("plain");
    let first = wire::get(port, "/a").text();
    let expired = wait_for("the end of its time", || {
        let response = wire::get(port, "/a");
        match verdict(&response) {
            "HIT" => {
                assert_eq!(response.text(), first);
                None
            }
            _ => Some(response),
        }
    });
    assert_eq!(verdict(&expired), "EXPIRED");
    assert_eq!(expired.text(), "answer 2");
}

#[test]
fn memory_has_an_end() {
    let site = Site::new();
    let origin = Origin::answering(|_: &Asked| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n";
        Answer::Send([head.as_bytes(), &[b'x'; 10_000]].concat())
    });
    let zone = "memory=64k memory_max_object=16k";
    let server = site.serve(&http(zone, &pass(origin.port(), "")));
    let port = server.port("plain");
    let targets: Vec<String> = (0..20).map(|number| format!("/{number}")).collect();
    for target in &targets {
        wire::get(port, target);
        wait_for_hit(&server, target);
    }
    for target in &targets {
        warm(port, target);
    }
    for file in files_below(site.path("cache")) {
        fs::remove_file(file).expect("it is ours");
    }
    let hits = targets
        .iter()
        .filter(|target| verdict(&wire::get(port, target)) == "HIT")
        .count();
    assert!(hits <= 6, "{hits}");
}

/// The same response from memory and from its file.
#[test]
fn clients_cannot_tell_memory_from_files() {
    let site = Site::new();
    let origin = Origin::answering(|asked: &Asked| {
        let kind = asked.headers("X-Kind").concat();
        let body = format!("{kind} {}", "0123456789".repeat(300));
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nETag: \"{kind}\"\r\n\
             Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: text/plain\r\n\
             Vary: X-Kind\r\nAccept-Ranges: bytes\r\nX-Own: a\r\nX-Own: b\r\n\r\n",
            body.len()
        );
        Answer::Send([head.as_bytes(), body.as_bytes()].concat())
    });
    let location = pass(
        origin.port(),
        "gzip on; gzip_types text/plain; gzip_vary on;",
    );
    let text = format!(
        "proxy_cache_path files keys_zone=two:1m memory=0;
         {} server {{ listen 127.0.0.1:%files%; proxy_cache two; proxy_cache_valid 200 1h;
             proxy_cache_key $uri;
             add_header X-Cache $upstream_cache_status always; {location} }}",
        http("", &location)
    );
    let server = site.serve(&text);
    let ports = [server.port("plain"), server.port("files")];
    for port in ports {
        for kind in ["a", "b", "c"] {
            let kind = format!("X-Kind: {kind}\r\n");
            let mut hits = 0;
            wait_for("hits", || {
                let response = wire::get_with(port, "/x", &kind);
                hits += usize::from(verdict(&response) == "HIT");
                (hits > 2).then_some(())
            });
        }
    }
    thread::sleep(Duration::from_millis(100));
    for kind in ["a", "b", "c"] {
        for method in ["GET", "HEAD"] {
            for more in [
                "",
                "Range: bytes=2-5\r\n",
                "Range: bytes=-7\r\n",
                "Range: bytes=1-2,4-9\r\n",
                "Range: bytes=90000-\r\n",
                "Range: bytes=0-1\r\nIf-Range: \"a\"\r\n",
                "If-None-Match: \"a\"\r\n",
                "If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n",
                "If-Match: \"b\"\r\n",
                "Accept-Encoding: gzip\r\n",
            ] {
                let ask = |port| {
                    let head = format!(
                        "{method} /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
                         X-Kind: {kind}\r\n{more}\r\n"
                    );
                    let mut response = wire::request(port, &head);
                    assert_eq!(verdict(&response), "HIT");
                    let boundary = response.header("Content-Type").and_then(|value| {
                        let (_, boundary) = value.split_once("boundary=")?;
                        Some(boundary.to_owned())
                    });
                    let lines = response.head.split("\r\n");
                    let lines = lines.filter(|line| !line.starts_with("Date: "));
                    let mut head: String = lines.collect::<Vec<_>>().join("\n");
                    if let Some(boundary) = boundary {
                        head = head.replace(&boundary, "BOUNDARY");
                        let body = response.text().replace(&boundary, "BOUNDARY");
                        response.body = body.into_bytes();
                    }
                    (head, response.body)
                };
                // Twice, as of some requests within a second one looks at the file.
                for _ in 0..2 {
                    assert_eq!(ask(ports[0]), ask(ports[1]), "{kind} {method} {more}");
                }
            }
        }
    }
    assert_eq!(origin.take_asked().len(), 6);
}
