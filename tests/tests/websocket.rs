//! Connections that are upgraded (101): whatever comes goes through, both ways, until one
//! side closes or nothing comes for `proxy_read_timeout`.

use sealane_tests::random::Random;
use sealane_tests::reload::{Reload, reload_as_it_is};
use sealane_tests::wire::{self, Connection};
use sealane_tests::{
    Application, Certificate, CertificateKey, PATIENCE, Server, Site, command, repository, scale,
    wait_for,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const UPGRADE: &str =
    "GET /tunnel HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
const SWITCHED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";

/// An origin that switches to what the closure does with the connection.
struct Switching {
    port: u16,
    open: Arc<AtomicUsize>,
}

impl Switching {
    fn start(then: impl Fn(TcpStream) + Send + Sync + 'static) -> Switching {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let open = Arc::new(AtomicUsize::new(0));
        let (count, then) = (open.clone(), Arc::new(then));
        // Both threads end with the test's process; what they hold, the server closes.
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (count, then) = (count.clone(), then.clone());
                thread::spawn(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                    let mut socket = socket;
                    let _ = socket.set_nodelay(true);
                    if read_head(&mut socket) {
                        then(socket);
                    }
                    count.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Switching { port, open }
    }

    fn echo() -> Switching {
        Switching::start(|mut socket| {
            let _ = socket.write_all(SWITCHED);
            echo(&mut socket);
        })
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// Reads a request head, and nothing behind it.
fn read_head(socket: &mut TcpStream) -> bool {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    assert!(
        head.contains("\r\nupgrade: echo\r\n") && head.contains("\r\nconnection: upgrade\r\n"),
        "{head}"
    );
    true
}

fn echo(socket: &mut TcpStream) {
    let mut piece = [0; 65_536];
    while let Ok(count @ 1..) = socket.read(&mut piece) {
        if socket.write_all(&piece[..count]).is_err() {
            return;
        }
    }
}

fn serve<'s>(site: &'s Site, origin: &Switching, settings: &str) -> Server<'s> {
    site.serve_with(
        "",
        "worker_connections 4000;",
        &format!(
            "server {{ listen 127.0.0.1:%plain%; {settings}
             location / {{ proxy_pass http://127.0.0.1:{}; proxy_http_version 1.1;
                           proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}",
            origin.port
        ),
    )
}

#[test]
fn a_tunnel_of_an_old_configuration_ends_after_worker_shutdown_timeout() {
    let (site, origin) = (Site::new(), Switching::echo());
    let http = format!(
        "server {{ listen 127.0.0.1:%plain%;
         location / {{ proxy_pass http://127.0.0.1:{}; proxy_http_version 1.1;
                       proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}",
        origin.port
    );
    let server = site.serve_with("worker_shutdown_timeout 100ms;", "", &http);
    let mut tunnel = open(server.port("plain"));
    tunnel.write_all(b"hello").expect("it is taken");
    let mut back = [0; 5];
    tunnel.read_exact(&mut back).expect("the origin echoes");
    assert_eq!(&back, b"hello");
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(tunnel.read(&mut back).unwrap_or(0), 0, "it ends");
    wait_for("the origin's end to close", || {
        (origin.open() == 0).then_some(())
    });
}

/// A connection that has been upgraded.
fn open(port: u16) -> TcpStream {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        set(&socket, Some(PATIENCE)).expect("it is not zero");
    }
    socket.write_all(UPGRADE.as_bytes()).expect("it is taken");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    assert!(
        head.starts_with("http/1.1 101 switching protocols\r\n"),
        "{head}"
    );
    assert!(
        head.contains("\r\nconnection: upgrade\r\n") && head.contains("\r\nupgrade: echo\r\n"),
        "{head}"
    );
    assert!(
        !head.contains("transfer-encoding") && !head.contains("content-length"),
        "{head}"
    );
    socket
}

fn roundtrip(socket: &mut TcpStream, bytes: &[u8]) {
    socket.write_all(bytes).expect("the tunnel takes it");
    let mut back = vec![0; bytes.len()];
    socket.read_exact(&mut back).expect("it comes back");
    assert!(back == bytes);
}

#[test]
fn both_directions_go_through() {
    let origin = Switching::echo();
    let site = Site::new();
    let server = serve(&site, &origin, "");
    let mut socket = open(server.port("plain"));
    for size in [1, 100, 4096, 5000, 100_000] {
        roundtrip(&mut socket, &Random::new(size as u64).bytes(size));
    }
    // The client closes its side: the origin hears of it, and the tunnel ends.
    socket.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(socket.read(&mut [0]).expect("the end"), 0);
    wait_for("the origin to hear of it", || {
        (origin.open() == 0).then_some(())
    });
}

#[test]
fn megabytes_at_the_same_time_both_ways() {
    let bytes = scale(20 << 20, 200 << 20);
    let origin = Switching::echo();
    let site = Site::new();
    let server = serve(&site, &origin, "");
    let socket = open(server.port("plain"));
    let sent = Random::new(3).bytes(bytes);
    let mut reading = socket.try_clone().expect("a descriptor is left");
    let mut writing = socket;
    let back = thread::scope(|scope| {
        scope.spawn(|| writing.write_all(&sent).expect("the tunnel takes it"));
        let mut back = vec![0; bytes];
        reading.read_exact(&mut back).expect("all comes back");
        back
    });
    assert!(back == sent);
}

#[test]
fn bytes_beside_the_heads_belong_to_the_tunnel() {
    // The origin speaks in the same packet as its head, the client behind its request.
    let origin = Switching::start(|mut socket| {
        let _ = socket.write_all(&[SWITCHED, b"first words"].concat());
        echo(&mut socket);
    });
    let site = Site::new();
    let server = serve(&site, &origin, "");
    let mut socket =
        TcpStream::connect((Ipv4Addr::LOCALHOST, server.port("plain"))).expect("listens");
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("it is not zero");
    socket
        .write_all(format!("{UPGRADE}early").as_bytes())
        .expect("it is taken");
    let mut received = Vec::new();
    while !received.ends_with(b"first wordsearly") {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).expect("more");
        assert!(count > 0, "{}", received.escape_ascii());
        received.extend_from_slice(&piece[..count]);
    }
}

#[test]
fn what_the_origin_said_last_arrives() {
    const LAST: usize = 3 << 20;
    let origin = Switching::start(|mut socket| {
        let _ = socket.write_all(SWITCHED);
        let _ = socket.write_all(&vec![b'z'; LAST]);
    });
    let site = Site::new();
    let server = serve(&site, &origin, "");
    let mut socket = open(server.port("plain"));
    // The origin has closed long since.
    wait_for("the origin to close", || (origin.open() <= 1).then_some(()));
    thread::sleep(Duration::from_millis(200));
    let mut rest = Vec::new();
    socket
        .read_to_end(&mut rest)
        .expect("the end comes in order");
    assert_eq!(rest.len(), LAST);
}

#[test]
fn a_tunnel_ends_when_neither_side_speaks() {
    let origin = Switching::echo();
    let site = Site::new();
    let server = serve(&site, &origin, "proxy_read_timeout 1s;");
    let mut quiet = open(server.port("plain"));
    let begun = Instant::now();
    assert_eq!(quiet.read(&mut [0]).expect("the end"), 0);
    assert!(begun.elapsed() >= Duration::from_millis(900));
    server.wait_for_log(
        "upstream timed out (110: Connection timed out) while proxying upgraded connection",
    );
}

#[test]
fn either_side_keeps_a_tunnel_alive() {
    // It only listens.
    let origin = Switching::start(|mut socket| {
        let _ = socket.write_all(SWITCHED);
        let mut sink = [0; 64];
        while let Ok(1..) = socket.read(&mut sink) {}
    });
    let site = Site::new();
    let server = serve(&site, &origin, "proxy_read_timeout 4s;");
    let mut socket = open(server.port("plain"));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        socket.write_all(b".").expect("the tunnel is open");
        thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(origin.open(), 1);
}

#[test]
fn many_tunnels_and_nothing_is_left_of_them() {
    let origin = Switching::echo();
    let site = Site::new();
    let server = serve(&site, &origin, "");
    let port = server.port("plain");
    let pid = server.worker_pid();
    let descriptors = || {
        std::fs::read_dir(format!("/proc/{pid}/fd"))
            .expect("it runs")
            .count()
    };
    drop(open(port));
    wait_for("the first to end", || (origin.open() == 0).then_some(()));
    let before = descriptors();
    let mut tunnels: Vec<TcpStream> = (0..scale(300, 1500)).map(|_| open(port)).collect();
    for round in 0..3_u64 {
        for (number, tunnel) in tunnels.iter_mut().enumerate() {
            roundtrip(tunnel, &Random::new(round << 32 | number as u64).bytes(700));
        }
    }
    drop(tunnels);
    wait_for("all descriptors to be closed", || {
        (descriptors() <= before).then_some(())
    });
    wait_for("the origin to hear of it", || {
        (origin.open() == 0).then_some(())
    });
}

#[test]
fn a_refused_upgrade_is_an_answer_like_any_other() {
    let origin = Switching::start(|mut socket| {
        let _ = socket.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    });
    let site = Site::new();
    let server = serve(&site, &origin, "location = /own { return 200 own; }");
    let mut client = Connection::open(server.port("plain"));
    client.send(UPGRADE);
    let response = client.response(false);
    assert_eq!((response.status, response.text().as_str()), (403, "no"));
    client.send("GET /own HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(
        client.response(false).text(),
        "own",
        "the connection goes on"
    );
}

/// HTTP/1.0 has no such responses (RFC 9110 section 7.8); nginx passes this one on.
#[test]
fn a_client_of_http10_is_not_switched() {
    let origin = Switching::echo();
    let site = Site::new();
    let server = serve(&site, &origin, "");
    let request = UPGRADE.replace("HTTP/1.1", "HTTP/1.0");
    let response = wire::request(server.port("plain"), &request);
    assert_eq!(response.status, 502);
    server.wait_for_log("upstream sent 101 to a request without an upgrade");
}

#[test]
fn a_real_web_socket_server_and_its_clients() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let _application = Application::web_socket(&site, "127.0.0.1:%websocket%");
    let server = site.serve(
        "server {
             listen 127.0.0.1:%plain%;
             listen 127.0.0.1:%tls% ssl;
             http2 on;
             ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
             location / {
                 proxy_pass http://127.0.0.1:%websocket%;
                 proxy_http_version 1.1;
                 proxy_set_header Upgrade $http_upgrade;
                 proxy_set_header Connection upgrade;
             }
         }",
    );
    let script = repository()
        .join("tests/applications/websocket.py")
        .display()
        .to_string();
    for url in [
        format!("ws://127.0.0.1:{}/", server.port("plain")),
        format!("wss://127.0.0.1:{}/", server.port("tls")),
    ] {
        let outcome = command(
            "/usr/bin/python3",
            &["-B", &script, "check", &url, "20"],
            b"",
        );
        assert_eq!(outcome.success().text().trim(), "good 20", "{url}");
    }
}
