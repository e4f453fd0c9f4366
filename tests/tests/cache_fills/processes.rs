//! Processes that end and follow one another.

use super::{counting, http, pass, verdict, wait_for_hit};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{Daemon, signal};
use sealane_tests::{Program, Site, scale, wire};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn a_reload_keeps_what_is_known() {
    let site = Site::new();
    let (origin, count) = counting();
    let whole = |zone: &str| {
        let http = http(zone, &pass(origin.port(), "proxy_cache_min_uses 2;"));
        format!("error_log logs/error.log notice; events {{}} http {{ access_log off; {http} }}")
    };
    let server = site.serve_whole(&whole(""));
    let port = server.port("plain");
    // Requests are counted over the reload: the second one is cached.
    assert_eq!(verdict(&wire::get(port, "/a")), "MISS");
    assert!(matches!(
        reload(&site, &server, &whole("max_size=1g")),
        Reload::Applied
    ));
    assert_eq!(verdict(&wire::get(port, "/a")), "MISS");
    assert_eq!(wait_for_hit(&server, "/a").text(), "answer 2");
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[test]
fn the_next_process_finds_the_files() {
    let site = Site::new();
    let (origin, count) = counting();
    let http = http("levels=2", &pass(origin.port(), ""));
    let whole = format!(
        "pid logs/pid; error_log logs/error.log notice; events {{}} http {{ access_log off; {http} }}"
    );
    let daemon = Daemon::start(&site, Program::Sealane, &whole);
    let port = site.port("plain");
    for number in 0..10 {
        wire::get(port, &format!("/{number}"));
    }
    daemon.upgrade();
    for number in 0..10 {
        let response = wire::get(port, &format!("/{number}"));
        assert_eq!(verdict(&response), "HIT");
    }
    assert_eq!(count.load(Ordering::Relaxed), 10);
}

/// The body of a target: its own name, over and over, so that no part of another can be in it.
fn body_of(target: &str) -> Vec<u8> {
    let bytes = 1000 + target.bytes().map(usize::from).sum::<usize>() * 97 % 90_000;
    target.bytes().cycle().take(bytes).collect()
}

#[test]
fn workers_that_are_killed_leave_no_wrong_body() {
    let kills = scale(12, 500);
    let site = Site::new();
    let origin = Origin::answering(|asked: &Asked| {
        let target = asked.target();
        let name = target.split('?').next().unwrap_or_default();
        let body = body_of(name);
        let head = match body.len() % 2 {
            0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()),
            // Nothing but the end of the connection says that it is complete.
            _ => "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_owned(),
        };
        Answer::SendAndClose([head.as_bytes(), &body].concat())
    });
    let more = "proxy_cache_purge $arg_purge; allow all; proxy_cache_lock on;";
    let text = http(
        "levels=1 max_size=2m manager_sleep=5ms",
        &pass(origin.port(), more),
    );
    let port = site.port("plain");
    let (is_over, hits, answers) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    thread::scope(|scope| {
        for client in 0..4usize {
            let (is_over, hits, answers) = (&is_over, &hits, &answers);
            scope.spawn(move || {
                let mut number = client;
                while !is_over.load(Ordering::Relaxed) {
                    number = number.wrapping_mul(31).wrapping_add(7);
                    let target = format!("/{}", number % 50);
                    let purges = number.is_multiple_of(23);
                    let more = if purges { "?purge=1" } else { "" };
                    let Some(response) = try_get(port, &format!("{target}{more}")) else {
                        continue;
                    };
                    if purges {
                        continue;
                    }
                    answers.fetch_add(1, Ordering::Relaxed);
                    hits.fetch_add(usize::from(verdict(&response) == "HIT"), Ordering::Relaxed);
                    assert!(
                        response.body == body_of(&target),
                        "{target}: {} bytes, {}",
                        response.body.len(),
                        response.head
                    );
                }
            });
        }
        let over = Over(&is_over);
        for round in 0..kills / 2 {
            // The worker alone, and then all of the server.
            let server = site.serve_with("worker_processes 2;", "", &text);
            server.expect_alert("exited on signal 9");
            server.expect_alert("is gone; this worker finishes");
            thread::sleep(Duration::from_millis(80));
            server.kill_worker();
            thread::sleep(Duration::from_millis(20 + round as u64 % 7 * 20));
            let processes = [vec![server.pid()], server.worker_pids()].concat();
            for pid in processes {
                signal(pid, "KILL");
            }
            server.wait_for_exit();
        }
        drop(over);
    });
    let (hits, answers) = (hits.into_inner(), answers.into_inner());
    assert!(hits > 0 && answers > hits, "{hits} of {answers} were hits");
}

/// Ends the clients, even if this test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A complete response with status 200, if the server lives long enough.
pub(super) fn try_get(port: u16, target: &str) -> Option<wire::Response> {
    let mut response = try_ask(port, target).filter(|response| response.status == 200)?;
    match response.header("Content-Length") {
        Some(bytes) => {
            let bytes: usize = bytes.parse().expect("a number");
            if response.body.len() < bytes {
                return None;
            }
        }
        None => {
            let (body, end) = wire::without_chunks(&response.body);
            end?;
            response.body = body;
        }
    }
    Some(response)
}

/// What the server responds with, to its end or not.
pub(super) fn try_ask(port: u16, target: &str) -> Option<wire::Response> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).ok()?;
    let mut all = Vec::new();
    socket.read_to_end(&mut all).ok()?;
    wire::whole(&all)
}
