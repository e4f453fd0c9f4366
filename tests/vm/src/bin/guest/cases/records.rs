//! What is on the wire: every record opened with the client's key log, each
//! number used once, nothing between.

use crate::client::{SClient, get};
use crate::kernel::TlsCounters;
use crate::lab::{AUTO, BOTH, Lab, SUITES, Suite, assert_same};
use crate::program::wait_for;
use crate::relay::Relay;
use crate::sniffer::{Seen, Sniffer};
use sealane_vm::wire::{ALERT, APPLICATION_DATA, HANDSHAKE};
use std::time::Duration;

/// Levels of alerts.
const WARNING: u8 = 1;
const FATAL: u8 = 2;
/// Their descriptions, RFC 8446 section 6.
const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;
const RECORD_OVERFLOW: u8 = 22;
const DECODE_ERROR: u8 = 50;
const NO_RENEGOTIATION: u8 = 100;

/// What every connection that ended well looks like: application data, tickets before the kernel
/// took over, at the end one alert at most, and not a byte after it.
#[track_caller]
fn check(seen: &Seen) {
    let records = &seen.server.records;
    assert_eq!(
        seen.server.incomplete_bytes, 0,
        "bytes of a record that is not whole"
    );
    let end = records
        .iter()
        .position(|record| record.kind == ALERT && record.plaintext != [WARNING, NO_RENEGOTIATION]);
    assert!(
        end.is_none_or(|at| at + 1 == records.len()),
        "records behind the alert that ends the connection"
    );
    let known = [ALERT, APPLICATION_DATA, HANDSHAKE];
    assert!(records.iter().all(|record| known.contains(&record.kind)));
}

/// Three requests on one connection with s_client, captured and opened.
#[track_caller]
fn watch(lab: &Lab, port: u16, suite: Suite, files: &[&str]) -> Seen {
    lab.server();
    lab.settle_counters();
    let sniffer = Sniffer::start(port);
    let mut client = SClient::connect(port, &suite.s_client());
    let mut at = 0;
    for file in files {
        client.send(&get(&format!("/{file}")));
        let response = client.response(at);
        assert_same(
            &response.body,
            &std::fs::read(format!("/data/{file}")).expect("the site has the file"),
        );
        at += response.bytes;
    }
    let (received, _) = client.finish();
    assert_eq!(lab.sealed_connections(), 1, "{}: TlsTxSw", suite.name);
    let seen = sniffer.finish_one();
    assert_eq!(
        (seen.server.suite, seen.server.is_tls13),
        (suite.name, suite.is_tls13)
    );
    check(&seen);
    // What was opened is what the client got, nothing more.
    assert_same(&seen.server.application_data(), &received);
    seen
}

#[track_caller]
fn watch_suite(lab: &Lab, suite: Suite) {
    let seen = watch(lab, BOTH, suite, &["small", "4m", "empty", "one"]);
    // The kernel fills records: far fewer than with small ones.
    let data = seen
        .server
        .records
        .iter()
        .filter(|record| record.kind == APPLICATION_DATA);
    let full = data
        .filter(|record| record.plaintext.len() == 16384)
        .count();
    assert!(full >= 250, "{}: {full} full records in 4 MiB", suite.name);
    assert_eq!(seen.server.key_updates(), 0);
}

pub(crate) fn wire_tls13(lab: &Lab) {
    watch_suite(lab, SUITES[6]);
}

pub(crate) fn wire_tls12(lab: &Lab) {
    watch_suite(lab, SUITES[2]);
}

pub(crate) fn wire_every_suite(lab: &Lab) {
    for suite in SUITES {
        watch_suite(lab, suite);
    }
}

/// The sequence numbers go on where the library stopped, whatever it had sent.
pub(crate) fn wire_auto_mid_connection(lab: &Lab) {
    for suite in [SUITES[3], SUITES[5], SUITES[7]] {
        watch(
            lab,
            AUTO,
            suite,
            &["small", "one", "small", "4m", "small", "4m"],
        );
    }
}

/// Lets a client download something, has the relay send `forged` behind its back, and
/// returns what the server answered.
#[track_caller]
fn forge(lab: &Lab, suite: Suite, forged: &[u8]) -> Seen {
    lab.server();
    lab.settle_counters();
    let sniffer = Sniffer::start(BOTH);
    let relay = Relay::start(BOTH, 65536, Duration::ZERO);
    let mut client = SClient::connect(relay.port, &suite.s_client());
    client.send(&get("/4m"));
    client.response(0);
    relay.inject(forged);
    let (_, said) = client.ended_by_server();
    wait_for("TlsCurrTxSw to fall to 0", || {
        (TlsCounters::read().open == 0).then_some(())
    });
    assert_eq!(lab.sealed_connections(), 1, "TlsTxSw");
    let seen = sniffer.finish_one();
    check(&seen);
    assert!(said.contains("alert"), "s_client saw the alert: {said}");
    seen
}

fn record(kind: u8, length: u16, content: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3], &length.to_be_bytes()[..], content].concat()
}

pub(crate) fn forged_record_tls13(lab: &Lab) {
    let seen = forge(lab, SUITES[6], &record(APPLICATION_DATA, 64, &[0x5a; 64]));
    assert_eq!(seen.server.alerts(), [(FATAL, BAD_RECORD_MAC)]);
}

pub(crate) fn forged_record_tls12(lab: &Lab) {
    let seen = forge(lab, SUITES[2], &record(APPLICATION_DATA, 64, &[0x5a; 64]));
    assert_eq!(seen.server.alerts(), [(FATAL, BAD_RECORD_MAC)]);
}

pub(crate) fn oversized_record(lab: &Lab) {
    let seen = forge(
        lab,
        SUITES[5],
        &record(APPLICATION_DATA, 0x7fff, &[0x5a; 64]),
    );
    assert_eq!(seen.server.alerts(), [(FATAL, RECORD_OVERFLOW)]);
}

pub(crate) fn unknown_record_type(lab: &Lab) {
    let seen = forge(lab, SUITES[5], &record(99, 64, &[0x5a; 64]));
    let alerts = seen.server.alerts();
    let fitting = [UNEXPECTED_MESSAGE, BAD_RECORD_MAC, DECODE_ERROR];
    assert!(
        matches!(alerts[..], [(FATAL, what)] if fitting.contains(&what)),
        "{alerts:?}"
    );
}

pub(crate) fn renegotiation_is_refused(lab: &Lab) {
    let server = lab.server();
    lab.settle_counters();
    let sniffer = Sniffer::start(BOTH);
    let mut client = SClient::connect(BOTH, &SUITES[2].s_client());
    client.send(&get("/4m"));
    client.response(0);
    client.command('R');
    let (_, said) = client.ended_by_server();
    let seen = sniffer.finish_one();
    check(&seen);
    let alerts = seen.server.alerts();
    assert!(
        alerts.iter().any(|(_, what)| *what == NO_RENEGOTIATION),
        "{alerts:?}; s_client: {said}"
    );
    assert_eq!(lab.sealed_connections(), 1);
    assert!(server.is_running());
    lab.download(BOTH, "4m", &["--tls-max", "1.2"]);
}

/// With `Connection: close` the server ends the connection: close_notify as the last record,
/// then FIN, and no reset that could take bytes away from the client.
pub(crate) fn close_notify_at_the_end(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    for (number, suite) in (1..).zip([SUITES[2], SUITES[5]]) {
        let sniffer = Sniffer::start(BOTH);
        // s_client leaves the closing to the server, unlike curl.
        let mut client = SClient::connect(BOTH, &suite.s_client());
        client.send(b"GET /4m HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let (_, said) = client.ended_by_server();
        assert!(
            !said.contains(":error:") && !said.contains("unexpected eof"),
            "{said}"
        );
        let seen = sniffer.finish_one();
        check(&seen);
        assert_eq!(
            seen.server.alerts(),
            [(WARNING, CLOSE_NOTIFY)],
            "{}",
            suite.name
        );
        // s_client answers with a close_notify of its own, for which a server that has
        // closed has only a reset; by then the client has everything.
        assert!(seen.raw.server_finished, "{}: no FIN", suite.name);
        assert_eq!(lab.sealed_connections(), number);
    }
}
