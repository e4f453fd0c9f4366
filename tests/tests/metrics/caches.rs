//! Caches of responses.

use super::*;
use sealane_tests::origin::{Answer, Origin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One response of each status.
pub(super) const MOVES: &[Move] = &[
    ("sealane_cache_responses_total{status=\"miss\"}", By(5)),
    ("sealane_cache_responses_total{status=\"hit\"}", By(4)),
    ("sealane_cache_responses_total{status=\"bypass\"}", By(1)),
    ("sealane_cache_responses_total{status=\"expired\"}", By(2)),
    ("sealane_cache_responses_total{status=\"stale\"}", By(1)),
    ("sealane_cache_responses_total{status=\"updating\"}", By(1)),
    (
        "sealane_cache_responses_total{status=\"revalidated\"}",
        By(1),
    ),
    (
        "sealane_cache_sent_bytes_total{status=\"miss\"}",
        By(5 * BODY),
    ),
    (
        "sealane_cache_sent_bytes_total{status=\"hit\"}",
        By(4 * BODY),
    ),
    (
        "sealane_cache_sent_bytes_total{status=\"bypass\"}",
        By(BODY),
    ),
    (
        "sealane_cache_sent_bytes_total{status=\"expired\"}",
        By(2 * BODY),
    ),
    ("sealane_cache_sent_bytes_total{status=\"stale\"}", By(BODY)),
    (
        "sealane_cache_sent_bytes_total{status=\"updating\"}",
        By(BODY),
    ),
    (
        "sealane_cache_sent_bytes_total{status=\"revalidated\"}",
        By(BODY),
    ),
    // Five misses, a bypass, and two that had expired; what was revalidated stays.
    ("sealane_cache_responses_written_total", By(8)),
    ("sealane_cache_written_bytes_total", Up),
    ("sealane_cache_keys", To(5.0)),
    ("sealane_cache_size_bytes", Up),
    // What is asked for again and again.
    ("sealane_cache_memory_bytes", Up),
    ("sealane_cache_size_limit_bytes", To((10 << 20) as f64)),
    ("sealane_cache_memory_limit_bytes", To((1 << 20) as f64)),
    ("sealane_cache_cold", To(0.0)),
];

/// A start with files of before, which are read one by one; then they are known.
pub(super) const COLD: &[Move] = &[("sealane_cache_cold", To(1.0))];

const BODY: u64 = 1000;

fn serve<'a>(site: &'a Site, origin: &Origin, more: &str) -> Server<'a> {
    site.serve(&format!(
        "proxy_cache_path cache keys_zone=kept:1m max_size=10m memory=1m {more};
         server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass http://127.0.0.1:{};
             proxy_cache kept; proxy_cache_key $uri; proxy_cache_bypass $arg_bypass;
             proxy_cache_revalidate on; proxy_cache_use_stale error updating; }} }}
         server {{ listen 127.0.0.1:%metrics%; location = /metrics {{ metrics; }} }}",
        origin.port()
    ))
}

#[test]
fn responses_are_counted_by_their_status_in_the_cache() {
    let (breaks, waits) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let origin = {
        let (breaks, waits) = (breaks.clone(), waits.clone());
        Origin::answering(move |asked| {
            if asked.target() == "/stale" && breaks.load(Ordering::Relaxed) {
                return Answer::SendAndClose(Vec::new());
            }
            while asked.target() == "/updating" && waits.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let valid_s = if asked.target().starts_with("/lasts") {
                100
            } else {
                1
            };
            let head = match asked.headers("If-None-Match").is_empty() {
                false => format!("304 Not Modified\r\nX-Accel-Expires: {valid_s}\r\n\r\n"),
                true => {
                    let tag = if asked.target() == "/same" {
                        "ETag: \"1\"\r\n"
                    } else {
                        ""
                    };
                    let body = "b".repeat(BODY as usize);
                    format!(
                        "200 OK\r\nX-Accel-Expires: {valid_s}\r\n{tag}Content-Length: {BODY}\r\n\r\n{body}"
                    )
                }
            };
            Answer::Send(format!("HTTP/1.1 {head}").into_bytes())
        })
    };
    let site = Site::new();
    let server = serve(&site, &origin, "");
    let port = server.port("plain");
    let watch = Watch::start(&server);
    let ask = |path: &str| assert_eq!(wire::get(port, path).status, 200, "{path}");
    ["/lasts", "/expires", "/stale", "/same", "/updating"]
        .into_iter()
        .for_each(ask);
    ask("/lasts?bypass=1");
    // They are good for a second, and their ages are counted in whole ones.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    (0..4).for_each(|_| ask("/lasts"));
    breaks.store(true, Ordering::Relaxed);
    waits.store(true, Ordering::Relaxed);
    ["/expires", "/stale", "/same"].into_iter().for_each(ask);
    std::thread::scope(|scope| {
        origin.take_asked();
        let first = scope.spawn(|| wire::get(port, "/updating").status);
        wait_for("the origin to be asked", || {
            (!origin.take_asked().is_empty()).then_some(())
        });
        ask("/updating");
        waits.store(false, Ordering::Relaxed);
        assert_eq!(first.join().expect("it is answered"), 200);
    });
    watch.saw(MOVES);
}

#[test]
fn a_cache_is_cold_while_its_directory_is_read() {
    let answer = "HTTP/1.1 200 OK\r\nX-Accel-Expires: 100\r\nContent-Length: 1\r\n\r\n1";
    let origin = Origin::answering(move |_| Answer::Send(answer.into()));
    let site = Site::new();
    let server = serve(&site, &origin, "");
    for number in 0..4 {
        wire::get(server.port("plain"), &format!("/{number}"));
    }
    Watch::start(&server).saw(&[("sealane_cache_keys", To(4.0))]);
    drop(server);
    // One file, and then nothing for longer than any test runs.
    let server = serve(&site, &origin, "loader_files=1 loader_sleep=1h");
    let watch = Watch::start(&server);
    watch.saw(COLD);
    drop(server);
    let server = serve(&site, &origin, "");
    Watch::start(&server).saw(&[
        ("sealane_cache_cold", To(0.0)),
        ("sealane_cache_keys", To(4.0)),
    ]);
}
