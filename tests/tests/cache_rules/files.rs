//! What is kept by RFC 9111 is in nginx's files, for nginx too; and variants go at once, wherever
//! they are kept.

use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::wire::{self, Connection, Response};
use sealane_tests::{Server, Site, wait_for};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longer than it takes until what is fresh for one second is stale.
const EXPIRY: Duration = Duration::from_millis(2300);

/// An origin whose bodies count the requests.
fn origin() -> (Origin, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::answering(move |asked: &Asked| {
        let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
        let target = asked.target();
        let is_known = !asked.headers("If-None-Match").is_empty();
        let fields = match target.split('/').nth(1).unwrap_or_default() {
            "private" => "Cache-Control: max-age=3600, private=\"X-Own\"\r\nX-Own: secret\r\n",
            "vary" => "Cache-Control: max-age=3600\r\nVary: X-A\r\n",
            "updated" if is_known => "Cache-Control: max-age=3600\r\nX-Field: newer and longer\r\n",
            "updated" => "Cache-Control: max-age=1\r\nETag: \"a\"\r\nX-Field: old\r\n",
            _ => "Cache-Control: max-age=3600\r\nAge: 100\r\n",
        };
        let answer = match is_known {
            true => format!("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n{fields}\r\n"),
            false => {
                let body = format!("answer {number}");
                let bytes = body.len();
                format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {bytes}\r\n\r\n{body}")
            }
        };
        Answer::Send(answer.into_bytes())
    });
    (origin, count)
}

/// The same for both servers, but for the rules.
fn configuration(origin: &Origin, rules: &str) -> String {
    format!(
        "proxy_cache_path cache keys_zone=z:1m levels=1:2;
         server {{ listen 127.0.0.1:%plain%;
             location / {{ proxy_pass http://127.0.0.1:{}; proxy_cache z; {rules}
                 add_header X-Cache $upstream_cache_status; }} }}",
        origin.port()
    )
}

fn ask(server: &Server<'_>, method: &str, target: &str, fields: &str) -> (String, Response) {
    let mut connection = Connection::open(server.port("plain"));
    connection.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n"
    ));
    let response = wire::whole(&connection.rest()).expect("a response");
    let cache = response.header("X-Cache").unwrap_or_default().to_owned();
    (cache, response)
}

/// Asks until the response comes from the cache.
#[track_caller]
fn hit(server: &Server<'_>, target: &str, fields: &str) -> Response {
    wait_for("a hit", || {
        let (cache, response) = ask(server, "GET", target, fields);
        (cache == "HIT").then_some(response)
    })
}

#[test]
fn nginx_serves_what_is_kept_by_these_rules_and_the_reverse() {
    let site = Site::new();
    let (origin, count) = origin();
    let rules = "proxy_cache_rules rfc9111;";
    let kept = [
        ("/plain/a", ""),
        ("/private/a", ""),
        ("/vary/a", "X-A: 1\r\n"),
        ("/vary/a", "X-A: 2\r\n"),
        ("/updated/a", ""),
    ];

    let ours = site.serve(&configuration(&origin, rules));
    for (target, fields) in kept {
        assert_eq!(ask(&ours, "GET", target, fields).0, "MISS", "{target}");
    }
    std::thread::sleep(EXPIRY);
    assert_eq!(ask(&ours, "GET", "/updated/a", "").0, "REVALIDATED");
    let bodies = kept.map(|(target, fields)| hit(&ours, target, fields).text());
    let asked = count.load(Ordering::Relaxed);
    assert!(ours.stop("QUIT").success());

    let nginx = site.serve_by_nginx(&configuration(&origin, ""));
    for ((target, fields), body) in kept.into_iter().zip(&bodies) {
        let (cache, response) = ask(&nginx, "GET", target, fields);
        assert_eq!(cache, "HIT", "{target} {fields:?}");
        assert_eq!(response.text(), *body, "{target} {fields:?}");
        assert_eq!(response.header("X-Own"), None);
        if target.starts_with("/updated") {
            assert_eq!(response.header("X-Field"), Some("newer and longer"));
        }
    }
    assert_eq!(count.load(Ordering::Relaxed), asked);
    let theirs = ask(&nginx, "GET", "/plain/b", "").1.text();
    assert_eq!(ask(&nginx, "GET", "/plain/b", "").0, "HIT");
    assert!(nginx.stop("QUIT").success());

    let ours = site.serve(&configuration(&origin, rules));
    let (cache, response) = ask(&ours, "GET", "/plain/b", "");
    assert_eq!((&*cache, response.text()), ("HIT", theirs));
    let age = response
        .header("Age")
        .and_then(|age| age.parse::<u32>().ok());
    assert!(age.is_some_and(|age| age >= 100), "{}", response.head);
    for ((target, fields), body) in kept.into_iter().zip(&bodies) {
        let (cache, response) = ask(&ours, "GET", target, fields);
        assert_eq!((&*cache, &response.text()), ("HIT", body), "{target}");
    }
}

#[test]
fn variants_go_at_once_from_memory_and_across_a_restart() {
    let site = Site::new();
    let (origin, _) = origin();
    let configuration = configuration(&origin, "proxy_cache_rules rfc9111;");
    let variants = ["X-A: 1\r\n", "X-A: 2\r\n", ""];
    let mut server = site.serve(&configuration);
    for restarts in [false, true] {
        let target = format!("/vary/{restarts}");
        let before = variants.map(|fields| {
            ask(&server, "GET", &target, fields);
            hit(&server, &target, fields).text()
        });
        // A file that was written a moment ago is not taken into memory.
        std::thread::sleep(Duration::from_millis(100));
        for (fields, body) in variants.iter().zip(&before) {
            for _ in 0..5 {
                let (cache, response) = ask(&server, "GET", &target, fields);
                assert_eq!((&*cache, &response.text()), ("HIT", body));
            }
        }
        assert_eq!(ask(&server, "DELETE", &target, "").1.status, 200);
        if restarts {
            assert!(server.stop("QUIT").success());
            server = site.serve(&configuration);
        }
        for (fields, body) in variants.iter().zip(&before) {
            let (cache, response) = ask(&server, "GET", &target, fields);
            assert_eq!(cache, "MISS", "{fields:?}");
            assert_ne!(response.text(), *body);
        }
    }
}
