//! Clients of `stream` and `mail` that keep to TLS and send records of no use without end: a byte
//! in each, nothing in each, or new keys. What they cost, and that everybody else is served.

use sealane_tests::layer4::{Origin, connect, connect_from, echo};
use sealane_tests::upgrade::KeptTls;
use sealane_tests::{Certificate, CertificateKey, Server, Site, scale, wait_for};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[path = "hostile_sessions/record_client.rs"]
mod record_client;
#[path = "hostile_sessions/vanished.rs"]
mod vanished;

use record_client::RecordClient;

/// What the session of a client that is flooding may cost.
const FLOOD_KIB: u64 = 2048;

/// Servers of both kinds: `%deaf%` passes on to somebody who does not read, `%sink%` to somebody
/// who reads everything and says nothing.
fn serve<'s>(site: &'s Site, behind: &Behind) -> Server<'s> {
    site.certificate(&Certificate::localhost("a", CertificateKey::P256));
    site.serve_whole(&format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid; events {{ }}
         stream {{
             ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
             server {{ listen 127.0.0.1:%deaf% ssl; proxy_pass 127.0.0.1:{deaf}; }}
             server {{ listen 127.0.0.1:%sink% ssl; proxy_pass 127.0.0.1:{sink}; }}
             server {{ listen 127.0.0.1:%well% ssl; return \"well\\n\"; }}
         }}
         mail {{
             ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
             server_name mail.example; auth_http 127.0.0.1:{auth};
             server {{ listen 127.0.0.1:%imaps% ssl; protocol imap; }}
             server {{ listen 127.0.0.1:%imap%; protocol imap; starttls only; }}
         }}",
        deaf = behind.deaf.port,
        sink = behind.sink.port,
        auth = behind.auth.port,
    ))
}

/// What is behind the servers; the threads end with the test's process.
struct Behind {
    deaf: Origin,
    sink: Origin,
    /// Lets everybody in, at a mail server that is a sink.
    auth: Origin,
    /// Bytes in the sinks.
    got: Arc<AtomicUsize>,
}

impl Behind {
    fn start() -> Behind {
        let got: Arc<AtomicUsize> = Arc::default();
        let all = got.clone();
        let sink = Origin::doing(move |socket| swallow(socket, &all));
        let all = got.clone();
        let mailbox = Origin::doing(move |mut socket| {
            let mut byte = [0];
            for response in ["* OK ready\r\n", "+ OK\r\n", "+ OK\r\n", "a1 OK in\r\n"] {
                let _ = socket.write_all(response.as_bytes());
                while response.starts_with('+') || response.starts_with('*') {
                    if !matches!(socket.read(&mut byte), Ok(1)) || byte == *b"\n" {
                        break;
                    }
                }
            }
            swallow(socket, &all);
        });
        let auth = Origin::doing(move |mut socket| {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && matches!(socket.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            let _ = write!(
                socket,
                "HTTP/1.0 200 OK\r\nAuth-Status: OK\r\nAuth-Server: 127.0.0.1\r\n\
                 Auth-Port: {}\r\n\r\n",
                mailbox.port
            );
        });
        Behind {
            deaf: Origin::deaf(),
            sink,
            auth,
            got,
        }
    }

    fn got(&self) -> usize {
        self.got.load(Ordering::SeqCst)
    }

    #[track_caller]
    fn wait_until_got(&self, count: usize) {
        wait_for(&format!("{count} bytes"), || {
            (self.got() == count).then_some(())
        });
    }
}

fn swallow(mut socket: TcpStream, all: &AtomicUsize) {
    let mut piece = [0; 65_536];
    while let Ok(count @ 1..) = socket.read(&mut piece) {
        all.fetch_add(count, Ordering::SeqCst);
    }
}

/// Everybody else is served, and nobody costs more than they may.
#[track_caller]
fn others_are_well(server: &Server<'_>, before_kib: u64) {
    assert_eq!(KeptTls::open(server.port("well"), "").line(), "well\n");
    let mut mail = KeptTls::open(server.port("imaps"), "");
    assert!(mail.line().starts_with("* OK"));
    assert_eq!(mail.says_back("a NOOP\r\n"), "a OK completed\r\n");
    let grown = server.resident_kib().saturating_sub(before_kib);
    assert!(grown < FLOOD_KIB, "{grown} KiB");
}

/// Memory once everything has been used.
#[track_caller]
fn before_kib(server: &Server<'_>) -> u64 {
    others_are_well(server, u64::MAX);
    server.resident_kib()
}

/// A client of IMAP that has said what it has to, to the beginning of TLS.
fn starttls(server: &Server<'_>) -> RecordClient {
    let mut socket = connect(server.port("imap"));
    socket.write_all(b"s STARTTLS\r\n").expect("it is taken");
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"s OK completed\r\n") {
        socket.read_exact(&mut byte).expect("a response");
        said.push(byte[0]);
    }
    RecordClient::on(socket)
}

/// Sends what is made, as long as the connection takes it, while others are well. Returns how many
/// bytes were taken.
#[track_caller]
fn flood(
    server: &Server<'_>,
    client: &mut RecordClient,
    make: impl Fn(&mut RecordClient) -> Vec<u8> + Sync,
) -> usize {
    let before = before_kib(server);
    let stop = AtomicBool::new(false);
    let pause = Some(Duration::from_millis(100));
    client.socket.set_write_timeout(pause).expect("not zero");
    thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            let mut taken = 0;
            while !stop.load(Ordering::Relaxed) {
                let records = make(client);
                let mut rest = &records[..];
                while !rest.is_empty() && !stop.load(Ordering::Relaxed) {
                    match client.socket.write(rest) {
                        Ok(count) => {
                            rest = &rest[count..];
                            taken += count;
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(_) => return taken,
                    }
                }
            }
            taken
        });
        for _ in 0..scale(3, 100) {
            others_are_well(server, before);
        }
        stop.store(true, Ordering::Relaxed);
        flooding.join().expect("no panic")
    })
}

/// Sends these records, most of which are too many, at both kinds of servers: to `stream` after as
/// many as there may be, with something said between them. All connections end, and the log says
/// why.
fn too_many(reason: &str, make: fn(&mut RecordClient, usize) -> Vec<u8>) {
    let (site, behind) = (Site::new(), Behind::start());
    let server = serve(&site, &behind);
    let mut client = RecordClient::connect(server.port("sink"));
    for round in 0..20 {
        let records = [make(&mut client, 30), client.data(b"something")];
        assert!(client.send(&records.concat()), "round {round}");
    }
    let clients = [
        ("stream", client),
        ("mail", RecordClient::connect(server.port("imaps"))),
        ("STARTTLS", starttls(&server)),
    ];
    for (what, mut client) in clients {
        let records = make(&mut client, 1000);
        let _ = client.send(&records);
        client.wait_for_end();
        println!("{what} has ended");
    }
    behind.wait_until_got(20 * b"something".len());
    wait_for("a line about each", || {
        (server.error_log().matches(reason).count() == 3).then_some(())
    });
    others_are_well(&server, u64::MAX);
}

#[test]
fn key_updates_alone_are_too_many() {
    too_many("TOO_MANY_KEY_UPDATES", |client, count| {
        let updates = (0..count).map(|at| client.key_update(at % 2 == 0));
        updates.flatten().collect()
    });
}

#[test]
fn records_of_nothing_are_too_many() {
    too_many("TOO_MANY_EMPTY_FRAGMENTS", |client, count| {
        (0..count).flat_map(|_| client.data(b"")).collect()
    });
}

/// Records of one byte each, with a header, a type and a tag.
const RECORD_BYTES: usize = 5 + 1 + 1 + 16;

fn single_bytes(client: &mut RecordClient) -> Vec<u8> {
    let records: Vec<Vec<u8>> = (0..500).map(|_| client.data(b"x")).collect();
    records.concat()
}

#[test]
fn a_flood_of_single_bytes_arrives_and_others_are_served() {
    let (site, behind) = (Site::new(), Behind::start());
    let server = serve(&site, &behind);
    let mut client = RecordClient::connect(server.port("sink"));
    let mut sent = flood(&server, &mut client, single_bytes) / RECORD_BYTES;
    behind.wait_until_got(sent);
    drop(client);
    // After a login in records of one byte.
    let mut client = starttls(&server);
    for byte in b"a1 LOGIN jo pw\r\n" {
        let record = client.data(&[*byte]);
        assert!(client.send(&record));
    }
    sent += flood(&server, &mut client, single_bytes) / RECORD_BYTES;
    behind.wait_until_got(sent);
    println!("{sent} bytes");
    drop(client);
    // Nobody reads them, so they wait with the client.
    let mut client = RecordClient::connect(server.port("deaf"));
    flood(&server, &mut client, single_bytes);
}

/// Each byte under a key of its own, and the server has to change its key as well: nobody reads
/// that it has.
fn new_keys(client: &mut RecordClient) -> Vec<u8> {
    let mut records = Vec::new();
    for _ in 0..100 {
        records.extend(client.key_update(true));
        records.extend(client.data(b""));
        records.extend(client.data(b"x"));
    }
    records
}

#[test]
fn others_are_served_while_one_has_new_keys_for_each_byte() {
    let (site, behind) = (Site::new(), Behind::start());
    let server = serve(&site, &behind);
    let mut client = RecordClient::connect(server.port("sink"));
    flood(&server, &mut client, new_keys);
    assert!(behind.got() > 0);
    // A command without end is too long, in whatever records it comes.
    let mut client = RecordClient::connect(server.port("imaps"));
    flood(&server, &mut client, new_keys);
    client.wait_for_end();
    server.wait_for_log("client sent too long command");
}

#[test]
fn an_end_in_one_piece_with_data_ends_a_session_whose_client_waits() {
    let (site, behind) = (Site::new(), Behind::start());
    let server = serve(&site, &behind);
    for mut client in [
        RecordClient::connect(server.port("sink")),
        RecordClient::connect(server.port("imaps")),
    ] {
        let records = [client.data(b"n NOOP\r\n"), client.close_notify()];
        assert!(client.send(&records.concat()));
        // Its own end of the connection stays open.
        client.wait_for_end();
    }
    behind.wait_until_got(8);
}
