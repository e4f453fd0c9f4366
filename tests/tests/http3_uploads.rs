//! Clients of HTTP/3 that stop in the middle of an upload: its request at the origin ends, nothing
//! is left of it, and others are served.

use sealane_tests::quic::{QuicClient, QuicRequest, QuicScript, quic_configuration, quic_site};
use sealane_tests::{Server, Site, scale, sha256, wait_for, wire};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What uploads announce, and what clients send of it: more than fits into memory buffers.
const DECLARED_BYTES: u64 = 1_000_000;
const SENT_BYTES: u64 = 300_000;
/// What many of them may add to the memory of the worker.
const MOST_MEMORY_KIB: u64 = 24 << 10;

/// How a client stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// RESET_STREAM; it then asks for something else on the same connection.
    Resets,
    /// CONNECTION_CLOSE.
    Closes,
    /// Nothing comes from it any more.
    Vanishes,
}

/// An origin that reads, and never answers.
struct Reader {
    port: u16,
    open: Arc<AtomicUsize>,
    /// How many bytes came on each connection that has ended.
    ended: Arc<Mutex<Vec<usize>>>,
    received: Arc<AtomicUsize>,
}

impl Reader {
    fn start() -> Reader {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let reader = Reader {
            port: listener.local_addr().expect("it is bound").port(),
            open: Arc::default(),
            ended: Arc::default(),
            received: Arc::default(),
        };
        let (open, ended) = (reader.open.clone(), reader.ended.clone());
        let received = reader.received.clone();
        // The threads end when the server closes its connections, at the latest with the process.
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                open.fetch_add(1, Ordering::SeqCst);
                let (open, ended) = (open.clone(), ended.clone());
                let received = received.clone();
                std::thread::spawn(move || {
                    let bytes = read_all(socket, &received);
                    ended.lock().expect("no thread panics").push(bytes);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        reader
    }

    fn ended(&self) -> Vec<usize> {
        self.ended.lock().expect("no thread panics").clone()
    }
}

fn read_all(mut socket: TcpStream, received: &AtomicUsize) -> usize {
    let mut buffer = [0; 16 << 10];
    let mut bytes = 0;
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return bytes,
            Ok(count) => {
                bytes += count;
                received.fetch_add(count, Ordering::SeqCst);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return bytes,
        }
    }
}

fn serve<'a>(site: &'a Site, reader: &Reader) -> Server<'a> {
    site.serve(&quic_configuration(&format!(
        "client_max_body_size 0; client_body_buffer_size 16k; keepalive_timeout 2s; client_body_timeout 2s;
         location /stored {{ proxy_pass http://127.0.0.1:{0}; }}
         location /streamed {{ proxy_request_buffering off; proxy_pass http://127.0.0.1:{0}; }}
         location /answered {{ proxy_read_timeout 2s; proxy_pass http://127.0.0.1:{0}; }}
         location = /status {{ stub_status; access_log off; }}",
        reader.port
    )))
}

/// Descriptors of the worker: connections to origins, temporary files.
fn descriptors(server: &Server<'_>) -> usize {
    let all = std::fs::read_dir(format!("/proc/{}/fd", server.worker_pid()));
    all.expect("the worker runs").count()
}

/// Waits until there are no connections but the one that asks, and no descriptors but those of
/// before.
#[track_caller]
fn wait_until_nothing_is_left(server: &Server<'_>, reader: &Reader, before: usize, what: &str) {
    wait_for(&format!("everything of {what} to end"), || {
        let status = wire::get(server.port("plain"), "/status").text();
        let is_alone = status.starts_with("Active connections: 1 ");
        let is_left = reader.open.load(Ordering::SeqCst) > 0 || descriptors(server) > before;
        (is_alone && !is_left).then_some(())
    });
}

#[track_caller]
fn is_served(site: &Site, server: &Server<'_>) {
    let run = QuicClient::Aioquic.run_one(&QuicScript::to(site, server).get("/a.txt"));
    assert_eq!(run.responses[0].sha256, sha256(b"alpha"), "{run:?}");
}

/// A client that sends a part of some uploads and ends so.
fn client(site: &Site, server: &Server<'_>, path: &str, ending: Ending) -> QuicScript {
    let upload = || {
        QuicRequest::new("POST", path)
            .body(DECLARED_BYTES)
            .sends_only(SENT_BYTES)
    };
    let begun = QuicScript::to(site, server).begin([upload(), upload()]);
    match ending {
        Ending::Resets => begun.reset(0).reset(1).get("/a.txt"),
        Ending::Closes => begun,
        Ending::Vanishes => begun.vanish(),
    }
}

#[test]
fn uploads_that_stop_leave_nothing() {
    let site = quic_site();
    let reader = Reader::start();
    let server = serve(&site, &reader);
    is_served(&site, &server);
    wait_until_nothing_is_left(&server, &reader, usize::MAX, "the first client");
    let before = descriptors(&server);
    let before_kib = server.resident_kib();
    for path in ["/streamed", "/stored"] {
        for ending in [Ending::Resets, Ending::Closes, Ending::Vanishes] {
            for _ in 0..scale(1, 20) {
                let what = format!("{path} {ending:?}");
                let seen = reader.ended().len();
                let run = QuicClient::Aioquic.run_one(&client(&site, &server, path, ending));
                if ending == Ending::Resets {
                    let last = run.responses.last().expect("three of them");
                    assert_eq!(last.sha256, sha256(b"alpha"), "{what}: {run:?}");
                }
                is_served(&site, &server);
                wait_until_nothing_is_left(&server, &reader, before, &what);
                let ended = reader.ended().split_off(seen);
                // What is stored first never gets to the origin. Of the others it may have got
                // nothing yet, unless the server has waited for the rest.
                match (path, ending) {
                    ("/stored", _) => assert_eq!(ended, [0; 0], "{what}"),
                    (_, Ending::Vanishes) => assert_eq!(ended.len(), 2, "{what}"),
                    _ => assert!(ended.len() <= 2, "{what}"),
                }
                let is_part = |bytes: &usize| (*bytes as u64) < DECLARED_BYTES;
                assert!(ended.iter().all(is_part), "{what}: {ended:?}");
            }
        }
    }
    let after_kib = server.resident_kib();
    assert!(
        after_kib < before_kib + MOST_MEMORY_KIB,
        "{before_kib} KiB became {after_kib} KiB"
    );
    wait_for("a line about each upload", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        let uploads = log.lines().filter(|line| line.contains("\"POST "));
        (uploads.count() == 12 * scale(1, 20)).then_some(())
    });
}

/// What the origin has in full, and is thinking about, ends as well.
#[test]
fn clients_that_go_while_the_origin_is_busy_end_its_request() {
    let site = quic_site();
    let reader = Reader::start();
    let server = serve(&site, &reader);
    is_served(&site, &server);
    wait_until_nothing_is_left(&server, &reader, usize::MAX, "the first client");
    let before = descriptors(&server);
    for ending in [Ending::Closes, Ending::Vanishes] {
        let received = reader.received.load(Ordering::SeqCst);
        let upload = QuicRequest::new("POST", "/answered").body(SENT_BYTES);
        let begun = QuicScript::to(&site, &server).begin([upload]);
        let script = match ending {
            Ending::Vanishes => begun.wait(500).vanish(),
            _ => begun.wait(500),
        };
        QuicClient::Aioquic.run_one(&script);
        is_served(&site, &server);
        wait_until_nothing_is_left(&server, &reader, before, &format!("{ending:?}"));
        let received = reader.received.load(Ordering::SeqCst) - received;
        assert!(received as u64 >= SENT_BYTES, "{ending:?}: {received}");
    }
}

/// What a request is answered without, or is reset with, does not narrow the connection's window:
/// more of it than fits into that window is followed by requests that are served.
#[test]
fn bodies_that_nobody_reads_leave_room_for_others() {
    let site = quic_site();
    let server = site.serve(&quic_configuration(
        "location /answered { return 200 'done'; }
         location /refused { return 403; }
         location /too-large { client_max_body_size 1k; proxy_pass http://127.0.0.1:1; }
         location /slow { echo_sleep 30; echo late; }",
    ));
    let upload = |path: &str| QuicRequest::new("POST", path).body(16_000);
    // 2.4 MB on one connection.
    for (path, status) in [("/answered", 200), ("/refused", 403), ("/too-large", 413)] {
        let begun = QuicScript::to(&site, &server);
        let script = (0..150).fold(begun, |script, _| script.requests([upload(path)]));
        let run = QuicClient::Aioquic.run_one(&script);
        let answered = run.responses.iter().filter(|one| one.status == status);
        assert_eq!(answered.count(), 150, "{path}: {:?}", run.close);
    }
    let begun = QuicScript::to(&site, &server);
    let script = (0..60).fold(begun, |script, number| {
        let upload = QuicRequest::new("POST", "/slow").body(DECLARED_BYTES);
        script.begin([upload.sends_only(40_000)]).reset(number)
    });
    let run = QuicClient::Aioquic.run_one(&script.get("/a.txt"));
    let last = run.responses.last().expect("61 of them");
    assert_eq!(last.sha256, sha256(b"alpha"), "{last:?}, {:?}", run.close);
}
