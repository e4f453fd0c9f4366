//! Clients that end a connection at a step of the handshake where none should: the worker
//! stays, nothing of them stays, and the log has one line for each at most.
//!
//! `handshake_cuts.rs` cuts connections anywhere, at random and many at a time; here each step
//! is met for certain, and what is counted and logged is looked at.

use sealane_awslc::{ClientConnection, ClientContext, HandshakeStatus, ProtocolVersion};
use sealane_tests::wire::get;
use sealane_tests::{Certificate, CertificateKey, PATIENCE, Server, Site, handshake, wait_for};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

/// Connections for each step, end and version.
const CONNECTIONS: usize = 200;

/// What the worker may grow by. If 3,600 handshakes left their 5 KB behind, it would
/// be 18 MB; the heap comes and goes by one or two.
const MAX_GROWTH_KIB: u64 = 6 << 10;

/// An alert that is not encrypted (RFC 8446 section 6): warning, close_notify.
const CLOSE_NOTIFY: [u8; 7] = [21, 3, 3, 0, 2, 1, 0];

const RECORD_HEADER_BYTES: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Step {
    HalfHello,
    AfterServerHello,
    HalfFinished,
}

#[derive(Clone, Copy, Debug)]
enum End {
    /// The client sends no more, and waits for the server to close.
    Fin,
    Reset,
    /// It says goodbye in plain, whatever the keys.
    CloseNotify,
}

const STEPS: [Step; 3] = [Step::HalfHello, Step::AfterServerHello, Step::HalfFinished];
const ENDS: [End; 3] = [End::Fin, End::Reset, End::CloseNotify];

fn context(version: ProtocolVersion) -> ClientContext {
    let mut builder = ClientContext::builder().expect("a context");
    builder.set_protocol_range(version, version).expect("known");
    builder.build().expect("a context")
}

fn connect(server: &Server<'_>) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port("tls"))).expect("listens");
    socket.set_nodelay(true).expect("TCP has it");
    let timeout = Some(PATIENCE);
    socket.set_read_timeout(timeout).expect("it is not zero");
    socket
}

/// What a client sends up to `step`, and behind that where there is more to say.
struct Cut {
    sent: Vec<u8>,
    /// The same up to a place where another record may follow.
    whole: Vec<u8>,
}

impl Cut {
    /// Half of a hello: of its bytes, or of the message in a record of its own.
    fn of_hello(hello: &[u8]) -> Cut {
        let fragment = &hello[RECORD_HEADER_BYTES..hello.len() / 2];
        let [high, low] = u16::try_from(fragment.len()).expect("short").to_be_bytes();
        Cut {
            sent: hello[..hello.len() / 2].to_vec(),
            whole: [&[22, 3, 1, high, low], fragment].concat(),
        }
    }

    /// A flight without the end of its last record, which is the Finished, or without all of it.
    fn of_last_flight(flight: &[u8]) -> Cut {
        let mut last = 0;
        let mut next = 0;
        while next < flight.len() {
            last = next;
            let length = [flight[next + 3], flight[next + 4]];
            next += RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes(length));
        }
        Cut {
            sent: flight[..(last + flight.len()) / 2].to_vec(),
            whole: flight[..last].to_vec(),
        }
    }
}

/// Goes as far as `step` on a connection of its own, and ends it.
fn abort(server: &Server<'_>, context: &ClientContext, step: Step, end: End) {
    let mut client = ClientConnection::unnamed(context).expect("a client");
    let mut socket = connect(server);
    let mut output = Vec::new();
    client
        .handshake(&mut &[][..], &mut output)
        .expect("the hello");
    let cut = match step {
        Step::HalfHello => Cut::of_hello(&output),
        Step::AfterServerHello | Step::HalfFinished => {
            socket.write_all(&output).expect("the server reads");
            let flight = last_flight(&mut client, &mut socket);
            match step {
                Step::HalfFinished => Cut::of_last_flight(&flight),
                _ => Cut {
                    sent: Vec::new(),
                    whole: Vec::new(),
                },
            }
        }
    };
    match end {
        End::Fin => socket.write_all(&cut.sent).expect("the server reads"),
        End::Reset => {
            socket.write_all(&cut.sent).expect("the server reads");
            let linger = sealane_sys::socket::set_linger(socket.as_fd(), Some(Duration::ZERO));
            return linger.expect("any TCP socket has it");
        }
        End::CloseNotify => {
            let wire = [&cut.whole[..], &CLOSE_NOTIFY].concat();
            socket.write_all(&wire).expect("the server reads");
        }
    }
    if !matches!(end, End::CloseNotify) {
        socket.shutdown(Shutdown::Write).expect("it is connected");
    }
    let mut rest = Vec::new();
    let ended = socket.read_to_end(&mut rest);
    ended.unwrap_or_else(|error| panic!("{step:?}, {end:?}: not closed: {error}"));
}

/// The second flight of `client`, which has sent its first.
fn last_flight(client: &mut ClientConnection, socket: &mut TcpStream) -> Vec<u8> {
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut chunk = [0; 4096];
    loop {
        let bytes = socket.read(&mut chunk).expect("the server answers");
        assert!(bytes > 0, "closed");
        input.extend_from_slice(&chunk[..bytes]);
        let mut rest = &input[..];
        let status = client.handshake(&mut rest, &mut output).expect("valid");
        let left = rest.len();
        input.drain(..input.len() - left);
        if status == HandshakeStatus::Done || !output.is_empty() {
            return output;
        }
    }
}

/// `Active connections`, accepts, handled, requests, `Reading`, `Writing`, `Waiting`.
fn status(server: &Server<'_>) -> Vec<u64> {
    let text = get(server.port("plain"), "/status").text();
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(numbers.len(), 7, "{text}");
    numbers
}

/// The lines of the error log about each connection.
fn lines_by_connection(log: &str) -> BTreeMap<u64, Vec<&str>> {
    let mut lines: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for line in log.lines() {
        let number = line.split_once(" *").map(|(_, rest)| rest);
        let number = number.and_then(|rest| rest.split_once(' ')?.0.parse().ok());
        if let Some(number) = number {
            lines.entry(number).or_default().push(line);
        }
    }
    lines
}

#[test]
fn handshakes_that_are_ended_at_any_step_leave_nothing_behind() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let server = site.serve(
        "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
         server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl;
            location / { return 200 ok; } location /status { stub_status; } }",
    );
    let worker = server.worker_pid();
    let contexts = [ProtocolVersion::Tls12, ProtocolVersion::Tls13].map(context);
    let all = |count: usize| {
        for context in &contexts {
            for step in STEPS {
                for end in ENDS {
                    (0..count).for_each(|_| abort(&server, context, step, end));
                }
            }
        }
        // None but the one that asks.
        wait_for("all connections to be over", || {
            let numbers = status(&server);
            let [active, accepts, handled, _, reading, _, waiting] = numbers[..] else {
                return None;
            };
            assert_eq!(accepts, handled, "all were taken");
            ([active, reading, waiting] == [1, 0, 0]).then_some(())
        });
    };
    all(CONNECTIONS / 4);
    let before_kib = server.resident_kib();
    all(CONNECTIONS);
    let after_kib = server.resident_kib();
    assert!(
        after_kib < before_kib + MAX_GROWTH_KIB,
        "{before_kib} KiB before, {after_kib} KiB after"
    );
    assert!(handshake(&server, "").succeeded(), "others are served");
    assert_eq!(server.worker_pid(), worker, "by the same worker");
    let log = server.error_log();
    for lines in lines_by_connection(&log).into_values() {
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(lines[0].contains("[info]"), "{lines:#?}");
    }
}
