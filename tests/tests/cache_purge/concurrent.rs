//! Purges while responses are asked for, received and stored, and while processes are killed: what
//! was purged before a request is never the answer to it.

use super::{http, kill};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Site, scale, wire};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Versions of everything that the origin has.
struct Versions {
    /// What it responds with.
    now: AtomicUsize,
    /// Everything older was purged.
    purged: AtomicUsize,
}

/// A body that says what it is, over and over, so that no part of another one can be in it.
fn body(target: &str, version: usize) -> Vec<u8> {
    let line = format!("{target} {version}\n");
    let bytes = 500 + target.len() * 7919 % 60_000;
    line.bytes().cycle().take(bytes).collect()
}

/// The version of a body, all of which is looked at.
fn version_of(target: &str, found: &[u8]) -> usize {
    let text = found
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let (name, version) = text.rsplit_once(' ').expect("two words");
    assert_eq!(name, target);
    let version = version.parse().expect("a number");
    assert!(found == body(target, version), "a mixed body for {target}");
    version
}

fn origin(versions: &Arc<Versions>) -> Origin {
    let versions = Arc::clone(versions);
    Origin::answering(move |asked: &Asked| {
        let target = asked.target();
        let name = target.split('?').next().unwrap_or_default();
        let body = body(name, versions.now.load(Ordering::SeqCst));
        let bytes = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nCache-Tag: all, {name}\r\n\r\n");
        Answer::SendAndClose([head.as_bytes(), &body].concat())
    })
}

/// Asks, if the server lives. `None` if it gives no complete response.
fn ask(port: u16, method: &str, target: &str, fields: &str) -> Option<wire::Response> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    socket.write_all(request.as_bytes()).ok()?;
    let mut all = Vec::new();
    socket.read_to_end(&mut all).ok()?;
    let response = wire::whole(&all)?;
    let announced = response.header("Content-Length");
    let is_whole = announced.is_none_or(|bytes| bytes.parse() == Ok(response.body.len()));
    is_whole.then_some(response)
}

/// Has clients ask until it is dropped.
struct Clients {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<(usize, usize)>>,
}

impl Clients {
    fn start(port: u16, versions: &Arc<Versions>) -> Clients {
        let is_over = Arc::new(AtomicBool::new(false));
        let threads = (0..4).map(|client: usize| {
            let (is_over, versions) = (Arc::clone(&is_over), Arc::clone(versions));
            thread::spawn(move || {
                let (mut number, mut answers, mut hits) = (client, 0, 0);
                while !is_over.load(Ordering::Relaxed) {
                    number = number.wrapping_mul(31).wrapping_add(7);
                    let target = format!("/{}/{}", number % 3, number % 7);
                    let least = versions.purged.load(Ordering::SeqCst);
                    // Now and then past the cache, which stores as well.
                    let more = ["", "?bypass=1"][usize::from(number.is_multiple_of(11))];
                    let Some(response) = ask(port, "GET", &format!("{target}{more}"), "") else {
                        continue;
                    };
                    if response.status != 200 {
                        continue;
                    }
                    let version = version_of(&target, &response.body);
                    assert!(
                        version >= least,
                        "{target}: {version}, purged up to {least}"
                    );
                    answers += 1;
                    hits += usize::from(response.header("X-Cache") == Some("HIT"));
                }
                (answers, hits)
            })
        });
        let threads = threads.collect();
        Clients { is_over, threads }
    }

    /// Ends them. Returns how many answers there were, and hits among them.
    fn end(mut self) -> (usize, usize) {
        self.is_over.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads).into_iter();
        let counts = threads.map(|thread| thread.join().expect("no wrong answer"));
        counts.fold((0, 0), |(all, hits), (more, hit)| (all + more, hits + hit))
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The next version: the origin has it before everything older is purged.
fn purge_all(port: u16, versions: &Versions, round: usize) -> bool {
    let version = versions.now.fetch_add(1, Ordering::SeqCst) + 1;
    let by_tag = |tag: &str| ask(port, "PURGE", "/", &format!("Cache-Tag: {tag}\r\n"));
    let responses = match round % 4 {
        0 => vec![ask(port, "PURGE", "/*", "")],
        1 => vec![by_tag("all")],
        2 => (0..3)
            .map(|number| ask(port, "PURGE", &format!("/{number}/*"), ""))
            .collect(),
        _ => (0..21)
            .map(|number| {
                ask(
                    port,
                    "PURGE",
                    &format!("/{}/{}", number % 3, number % 7),
                    "",
                )
            })
            .collect(),
    };
    let is_done = responses.iter().all(|response| {
        let status = response.as_ref().map(|response| response.status);
        assert!(matches!(status, None | Some(204 | 404)), "{status:?}");
        status.is_some()
    });
    if is_done {
        versions.purged.fetch_max(version, Ordering::SeqCst);
    }
    is_done
}

const MORE: &str = "proxy_cache_purge_tags $http_cache_tag; proxy_cache_bypass $arg_bypass;
    proxy_cache_lock on;";

#[test]
fn what_was_purged_is_never_served() {
    let versions = Arc::new(Versions {
        now: AtomicUsize::new(1),
        purged: AtomicUsize::new(1),
    });
    let origin = origin(&versions);
    for zone in ["", "purger=on purger_sleep=1ms"] {
        let site = Site::new();
        let text = http(zone, origin.port(), MORE);
        let server = site.serve_with("worker_processes 2;", "", &text);
        let port = server.port("plain");
        let clients = Clients::start(port, &versions);
        for round in 0..scale(60, 2000) {
            assert!(purge_all(port, &versions, round));
            thread::sleep(Duration::from_millis(10));
        }
        let (answers, hits) = clients.end();
        assert!(hits > 0 && answers > hits, "{hits} of {answers} were hits");
    }
}

#[test]
fn kills_bring_nothing_back() {
    let versions = Arc::new(Versions {
        now: AtomicUsize::new(1),
        purged: AtomicUsize::new(1),
    });
    let origin = origin(&versions);
    let site = Site::new();
    let zone = "levels=1 purger=on purger_sleep=5ms max_size=2m manager_sleep=5ms";
    let text = http(zone, origin.port(), MORE);
    let port = site.port("plain");
    let clients = Clients::start(port, &versions);
    let mut purges = 0;
    for round in 0..scale(8, 250) {
        // The worker alone, and then all of the server.
        let server = site.serve_with("worker_processes 2;", "", &text);
        server.expect_alert("exited on signal 9");
        server.expect_alert("is gone; this worker finishes");
        for step in 0..10 {
            purges += usize::from(purge_all(port, &versions, round + step));
            thread::sleep(Duration::from_millis(10));
            if step == 5 {
                server.kill_worker();
            }
        }
        kill(server);
    }
    let (answers, hits) = clients.end();
    assert!(
        purges > 0 && hits > 0 && answers > hits,
        "{purges} {hits} {answers}"
    );
}
