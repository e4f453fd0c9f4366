//! Early data over everything that replaces processes: what one of them has accepted no
//! other accepts again, also while two of them serve, and what is new is accepted by
//! whoever comes next.

use crate::client::{Client, Flight, connect, get};
use crate::replays::send;
use crate::{LOG, logged, server_block, site};
use sealane_tests::reload::{Reload, reload, reload_as_it_is};
use sealane_tests::upgrade::{Daemon, runs, signal};
use sealane_tests::{Program, Server, Site, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn configuration(main: &str) -> String {
    format!(
        "{main} pid logs/pid; error_log logs/error.log info;
         events {{ }}
         http {{ {LOG} ssl_session_ticket_state logs/tickets; {} }}",
        server_block("tls", "")
    )
}

/// What can happen to the process that has accepted early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    InPlace,
    OtherProcess,
    Crash,
}

fn happens(event: Event, site: &Site, server: &Server<'_>, round: usize) {
    match event {
        Event::InPlace => {
            assert_eq!(reload_as_it_is(server), Reload::Applied);
        }
        Event::OtherProcess => {
            let text = configuration(&format!("worker_rlimit_nofile {};", 2000 + round));
            assert_eq!(reload(site, server, &text), Reload::Applied);
        }
        Event::Crash => server.kill_worker(),
    }
}

/// How often each of these was answered in early data.
fn accepted(site: &Site, uri: &str) -> usize {
    let log = std::fs::read_to_string(site.path("logs/access.log")).expect("a log");
    let end = format!("|{uri}]");
    let lines = log.lines().filter(|line| line.ends_with(&end));
    lines
        .filter(|line| line.starts_with("[1|accepted|"))
        .count()
}

/// A connection whose server has begun to read a flight.
fn begun(port: u16, flight: &Flight) -> (TcpStream, Vec<u8>) {
    let mut bytes = flight.bytes();
    let rest = bytes.split_off(20);
    let mut socket = connect(port);
    socket.write_all(&bytes).expect("the server reads");
    (socket, rest)
}

/// Sends the rest, and reads what the server has to say.
fn finish((mut socket, rest): (TcpStream, Vec<u8>)) {
    let _ = socket.write_all(&rest);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let _ = socket.read_to_end(&mut Vec::new());
}

#[test]
fn no_process_accepts_what_another_has_accepted() {
    let site = site();
    let server = site.serve_whole(&configuration(""));
    server.expect_alert("exited on signal 9");
    std::thread::sleep(Duration::from_millis(1100)); // the register's first second
    let port = server.port("tls");
    let client = Client::new();
    let events = [Event::InPlace, Event::OtherProcess, Event::Crash];
    let mut uris = Vec::new();
    for round in 0..2 * events.len() {
        let event = events[round % events.len()];
        let uri = format!("/replayed?{round}");
        let flight = client.flight(&client.session(port), &get(&uri));
        let fresh = client.session(port);
        send(port, &flight.bytes(), 1);
        assert!(logged(&site, &uri).starts_with("1|accepted"), "{event:?}");
        happens(event, &site, &server, round);
        send(port, &flight.bytes(), 1);
        // Nobody loses anything by it, either.
        let early = client.converse(port, Some(&fresh), &get("/fresh"));
        assert!(early.offered && early.accepted, "{event:?}: {early:?}");
        send(port, &flight.bytes(), 1);
        uris.push(uri);
    }

    // Two processes serve at the same time: one side is first, then the other.
    let uris_of_both = ["/before", "/after"].map(str::to_owned);
    let flights = uris_of_both
        .clone()
        .map(|uri| client.flight(&client.session(port), &get(&uri)));
    let [first, second] = &flights;
    let draining = [first, second].map(|flight| begun(port, flight));
    let before = server.worker_pid();
    happens(Event::OtherProcess, &site, &server, 99);
    assert!(server.worker_pids().len() == 2, "{before} has ended");
    let [first_begun, second_begun] = draining;
    finish(first_begun);
    assert!(logged(&site, "/before").starts_with("1|accepted"));
    send(port, &first.bytes(), 1);
    send(port, &second.bytes(), 1);
    assert!(logged(&site, "/after").starts_with("1|accepted"));
    finish(second_begun);
    uris.extend(uris_of_both);

    // The next run has the keys, and cannot know.
    let uri = "/replayed?restart";
    let flight = client.flight(&client.session(port), &get(uri));
    let fresh = client.session(port);
    send(port, &flight.bytes(), 1);
    assert!(logged(&site, uri).starts_with("1|accepted"));
    uris.push(uri.to_owned());
    assert!(server.stop("QUIT").success());
    let server = site.serve_whole(&configuration(""));
    server.expect_alert("exited on signal 9"); // in the log of before
    send(port, &flight.bytes(), 1);
    let full = client.converse(port, Some(&fresh), &get("/after-restart"));
    assert!(full.offered && full.resumed && !full.accepted, "{full:?}");
    assert!(logged(&site, "/after-restart").starts_with("-|before_register|r|200"));
    assert!(server.stop("QUIT").success());

    for uri in uris {
        assert_eq!(accepted(&site, &uri), 1, "{uri}");
    }
}

#[test]
fn two_binaries_accept_a_flight_once() {
    let site = site();
    let text = configuration("daemon on;");
    let daemon = Daemon::start(&site, Program::Sealane, &text);
    std::thread::sleep(Duration::from_millis(1100));
    let port = site.port("tls");
    let client = Client::new();
    let uris = ["/old", "/both", "/begun"];
    let [old, both, half] = uris.map(|uri| client.flight(&client.session(port), &get(uri)));
    let fresh = client.session(port);
    send(port, &old.bytes(), 1);
    assert!(logged(&site, "/old").starts_with("1|accepted"));
    let half_sent = begun(port, &half);

    let before = daemon.pid();
    daemon.begin_upgrade();
    for _ in 0..20 {
        // Either of them answers.
        send(port, &old.bytes(), 1);
        send(port, &both.bytes(), 1);
    }
    signal(before, "QUIT");
    wait_for("connections to go to the new binary alone", || {
        daemon
            .log()
            .contains("gracefully shutting down")
            .then_some(())
    });
    for flight in [&old, &both, &half] {
        send(port, &flight.bytes(), 1);
    }
    assert!(logged(&site, "/begun").starts_with("1|accepted"));
    assert!(runs(before), "it waits for its last connection");
    finish(half_sent);
    daemon.wait_for_end(before);
    send(port, &half.bytes(), 1);
    let early = client.converse(port, Some(&fresh), &get("/fresh"));
    assert!(early.offered && early.accepted, "{early:?}");
    assert!(logged(&site, "/fresh").starts_with("1|accepted"));
    for uri in uris {
        assert_eq!(accepted(&site, uri), 1, "{uri}");
    }
}

#[test]
fn a_server_that_is_told_to_stop_takes_no_more_early_data() {
    let site = site();
    let server = site.serve_whole(&configuration(""));
    std::thread::sleep(Duration::from_millis(1100));
    let port = server.port("tls");
    let client = Client::new();
    let flight = client.flight(&client.session(port), &get("/late"));
    let begun = begun(port, &flight);
    server.signal("QUIT");
    server.wait_for_log("gracefully shutting down");
    finish(begun);
    assert!(server.stop("QUIT").success());
    assert_eq!(accepted(&site, "/late"), 0);
}
