//! Streams of a real server and a real client, opened; and the same streams
//! with something wrong, refused.

use super::*;
use sealane_tests::{Certificate, CertificateKey, Site};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

struct Recorded {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    key_log: String,
}

/// A request to openssl's server, recorded by a relay.
fn record(options: &[&str]) -> Recorded {
    let site = Site::new();
    let certificate = site.certificate(&Certificate::localhost("rsa", CertificateKey::Rsa));
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    // The server accepts on a port of its own choice and prints it.
    let mut server = Command::new("openssl")
        .args([
            "s_server",
            "-accept",
            "127.0.0.1:0",
            "-www",
            "-naccept",
            "1",
            "-cert",
        ])
        .arg(&certificate)
        .arg("-key")
        .arg(certificate.with_extension("key"))
        .args(["-num_tickets", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let mut output = server.stdout.take().expect("standard output is a pipe");
    let mut said = String::new();
    let server_port: u16 = loop {
        let mut buffer = [0; 256];
        let count = output
            .read(&mut buffer)
            .expect("the server prints where it listens");
        assert_ne!(count, 0, "s_server ended: {said}");
        said.push_str(&String::from_utf8_lossy(&buffer[..count]));
        let line = said
            .lines()
            .find(|line| line.starts_with("ACCEPT") && said.ends_with('\n'));
        if let Some(line) = line {
            let port = line
                .rsplit(':')
                .next()
                .expect("an address ends with a port");
            break port.trim().parse().expect("a port is a number");
        }
    };
    let relay = std::thread::spawn(move || relay(&listener, server_port));
    let key_log = site.path("keys.log");
    let client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-connect",
            &format!("127.0.0.1:{port}"),
            "-keylogfile",
        ])
        .arg(&key_log)
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let mut input = client.stdin.as_ref().expect("standard input is a pipe");
    input
        .write_all(b"GET / HTTP/1.0\r\n\r\n")
        .expect("the client runs");
    let answer = client.wait_with_output().expect("the client was started");
    assert!(
        answer.stdout.starts_with(b"HTTP/1.0 200"),
        "{:?}",
        String::from_utf8_lossy(&answer.stdout)
    );
    let (to_server, to_client) = relay.join().expect("the relay does not panic");
    server.kill().expect("the server is ours");
    server.wait().expect("the server is ours");
    let key_log = std::fs::read_to_string(key_log).expect("the client wrote its key log");
    Recorded {
        to_server,
        to_client,
        key_log,
    }
}

fn relay(listener: &TcpListener, port: u16) -> (Vec<u8>, Vec<u8>) {
    let (client, _) = listener.accept().expect("the client connects");
    let server = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    let copy = |mut from: TcpStream, mut to: TcpStream| {
        let (mut seen, mut buffer) = (Vec::new(), [0; 65536]);
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
        seen
    };
    let again = |stream: &TcpStream| stream.try_clone().expect("a descriptor is free");
    let (a, b) = (again(&client), again(&server));
    let up = std::thread::spawn(move || copy(a, b));
    let down = copy(server, client);
    (up.join().expect("copying does not panic"), down)
}

fn open(recorded: &Recorded, to_client: &[u8]) -> Result<ServerStream, String> {
    ServerStream::open(&recorded.to_server, to_client, KeyLog(&recorded.key_log))
}

fn tls13() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| record(&["-tls1_3"]))
}

fn tls12() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| record(&["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"]))
}

/// Where the records of a stream begin.
fn boundaries(stream: &[u8]) -> Vec<usize> {
    let mut at = 0;
    let mut found = vec![];
    while at + 5 <= stream.len() {
        found.push(at);
        at += 5 + usize::from(u16::from_be_bytes([stream[at + 3], stream[at + 4]]));
    }
    found
}

#[test]
fn every_suite_opens() {
    let suites = [
        ("-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"),
        ("-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"),
        ("-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"),
        ("-tls1_2", "-cipher", "AES128-GCM-SHA256"),
        ("-tls1_2", "-cipher", "AES256-GCM-SHA384"),
        ("-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("-tls1_2", "-cipher", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("-tls1_2", "-cipher", "ECDHE-RSA-CHACHA20-POLY1305"),
    ];
    for (version, option, suite) in suites {
        let recorded = record(&[version, option, suite]);
        let stream =
            open(&recorded, &recorded.to_client).unwrap_or_else(|error| panic!("{suite}: {error}"));
        assert_eq!(
            (stream.suite, stream.is_tls13),
            (suite, version == "-tls1_3")
        );
        assert!(
            stream.application_data().starts_with(b"HTTP/1.0 200"),
            "{suite}"
        );
        assert_eq!(stream.alerts(), [(1, 0)], "{suite}: close_notify");
        assert_eq!(stream.incomplete_bytes, 0);
        assert!(
            stream
                .records
                .iter()
                .zip(0..)
                .all(|(record, number)| record.sequence == number)
        );
    }
}

#[test]
fn a_record_that_comes_twice_does_not_open() {
    for recorded in [tls13(), tls12()] {
        let stream = &recorded.to_client;
        let last = *boundaries(stream).last().expect("the server sent records");
        let twice = [stream, &stream[last..]].concat();
        let error =
            open(recorded, &twice).expect_err("the number of the last record was used twice");
        assert!(error.contains("does not open as number"), "{error}");
    }
}

#[test]
fn a_record_that_is_missing_or_changed_is_noticed() {
    for recorded in [tls13(), tls12()] {
        let stream = &recorded.to_client;
        let at = boundaries(stream);
        let (previous, last) = (at[at.len() - 2], at[at.len() - 1]);
        let without = [&stream[..previous], &stream[last..]].concat();
        assert!(open(recorded, &without).is_err());
        let mut changed = stream.clone();
        *changed.last_mut().expect("the stream is not empty") ^= 1;
        assert!(open(recorded, &changed).is_err());
    }
}

#[test]
fn what_is_no_record_is_noticed_and_what_is_cut_is_counted() {
    for recorded in [tls13(), tls12()] {
        let stream = &recorded.to_client;
        let strange = [stream.as_slice(), b"HTTP/1.1 200 OK"].concat();
        let error = open(recorded, &strange).expect_err("text is no record");
        assert!(error.contains("no record at byte"), "{error}");
        let opened = open(recorded, &stream[..stream.len() - 1]).expect("the others open");
        assert!(opened.incomplete_bytes > 0 && opened.alerts().is_empty());
    }
}

#[test]
fn a_stream_without_its_keys_does_not_open() {
    let error = open(
        &Recorded {
            key_log: tls12().key_log.clone(),
            ..copy_of(tls13())
        },
        &tls13().to_client,
    );
    let error = error.expect_err("the keys are another connection's");
    assert!(error.contains("the key log has no"), "{error}");
}

fn copy_of(recorded: &Recorded) -> Recorded {
    Recorded {
        to_server: recorded.to_server.clone(),
        to_client: recorded.to_client.clone(),
        key_log: recorded.key_log.clone(),
    }
}

/// A capture with these segments: from, to, sequence number, flags, payload.
fn capture(segments: &[(u16, u16, u32, u8, &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    for number in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(number.to_ne_bytes());
    }
    for (from, to, sequence, flags, payload) in segments {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0]);
        let total = u16::try_from(40 + payload.len()).expect("payloads are short");
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 0, 0x50, *flags, 0, 0, 0, 0, 0, 0]);
        frame.extend(*payload);
        let length = u32::try_from(frame.len())
            .expect("frames are short")
            .to_ne_bytes();
        file.extend([0; 8].iter().chain(&length).chain(&length));
        file.extend(frame);
    }
    file
}

#[test]
fn streams_are_put_together_across_reordering_and_repetition() {
    let first = u32::MAX - 2;
    let captured = capture(&[
        (5000, 443, 9, 2, b""),
        (443, 5000, first, 18, b""),
        (5000, 443, 10, 16, b"GET"),
        // Numbers wrap, segments overtake each other and come twice.
        (443, 5000, first.wrapping_add(5), 16, b"EFG"),
        (443, 5000, first.wrapping_add(1), 16, b"ABCD"),
        (443, 5000, first.wrapping_add(3), 17, b"CDEFGH"),
        (5001, 443, 1, 2, b""),
        (443, 9999, 1, 4, b"x"),
    ]);
    let found = conversations(&captured, 443).expect("the capture is whole");
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].to_server, b"GET");
    assert_eq!(found[0].to_client, b"ABCDEFGH");
    assert!(found[0].server_finished && !found[0].server_reset);
    assert!(found[2].server_reset);
    let gap = capture(&[(443, 5000, 0, 2, b""), (443, 5000, 5, 16, b"x")]);
    assert!(
        conversations(&gap, 443)
            .expect_err("bytes 0 to 4 are missing")
            .contains("lacks")
    );
    assert!(conversations(b"", 443).is_err());
}
