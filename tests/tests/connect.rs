//! Tunnels for clients that ask for them with CONNECT: `tunnel_pass` as nginx 1.31 has it,
//! `proxy_connect` as its module has it, and WebSockets on streams of HTTP/2.

use sealane_tests::comparison::nginx_version;
use sealane_tests::wire::read_to_close;
use sealane_tests::{PATIENCE, Server, Site};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[path = "connect/addresses.rs"]
mod addresses;
#[path = "connect/as_nginx.rs"]
mod as_nginx;
#[path = "connect/clients.rs"]
mod clients;
#[path = "connect/http2.rs"]
mod http2;
#[path = "connect/idle.rs"]
mod idle;
#[path = "connect/proxy_connect.rs"]
mod proxy_connect;
#[path = "connect/slow.rs"]
mod slow;
#[path = "connect/smuggling.rs"]
mod smuggling;
#[path = "connect/websocket.rs"]
mod websocket;

/// What a proxy for tests allows: everything is on this host.
const ALLOW: &str = "tunnel_allow_ports all; tunnel_allow_addresses 127.0.0.0/8;";

/// The other end of tunnels.
struct Far {
    port: u16,
    accepted: Arc<AtomicUsize>,
}

impl Far {
    /// Does with each connection what the closure does.
    fn at(address: Ipv4Addr, then: impl Fn(TcpStream) + Send + Sync + 'static) -> Far {
        let listener = TcpListener::bind((address, 0)).expect("a free port");
        Far::on(listener, then)
    }

    fn on(listener: TcpListener, then: impl Fn(TcpStream) + Send + Sync + 'static) -> Far {
        let port = listener.local_addr().expect("it is bound").port();
        let (accepted, then) = (Arc::new(AtomicUsize::new(0)), Arc::new(then));
        let count = accepted.clone();
        // The threads end with the test's process.
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let _ = socket.set_nodelay(true);
                let then = then.clone();
                thread::spawn(move || then(socket));
            }
        });
        Far { port, accepted }
    }

    /// Sends back what it gets, until that ends.
    fn echo() -> Far {
        Far::at(Ipv4Addr::LOCALHOST, echo)
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

fn echo(mut socket: TcpStream) {
    let mut piece = [0; 65_536];
    while let Ok(count @ 1..) = socket.read(&mut piece) {
        if socket.write_all(&piece[..count]).is_err() {
            return;
        }
    }
}

/// A connection to a proxy, with the request for a tunnel sent.
fn ask(proxy: u16, target: &str, more: &str) -> TcpStream {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy)).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    socket.set_nodelay(true).expect("it is connected");
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{more}\r\n");
    socket.write_all(head.as_bytes()).expect("it is taken");
    socket
}

/// An open tunnel to a port of this host.
#[track_caller]
fn tunnel(proxy: u16, port: u16) -> TcpStream {
    let mut socket = ask(proxy, &format!("127.0.0.1:{port}"), "");
    let head = read_head(&mut socket);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    socket
}

/// Reads a response head, and nothing behind it.
fn read_head(socket: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// The status with which a proxy answers CONNECT.
#[track_caller]
fn status(proxy: u16, target: &str) -> u16 {
    let head = read_head(&mut ask(proxy, target, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.unwrap_or_else(|| panic!("{target}: {head:?}"))
}

#[track_caller]
fn says(socket: &mut TcpStream, text: &str) {
    let mut got = vec![0; text.len()];
    socket.read_exact(&mut got).expect("it arrives");
    assert_eq!(String::from_utf8_lossy(&got), text);
}

fn proxy<'s>(site: &'s Site, settings: &str) -> Server<'s> {
    site.serve(&format!(
        "{ALLOW} server {{ listen 127.0.0.1:%proxy%; {settings} tunnel_pass; }}"
    ))
}

#[test]
fn what_both_sides_say_goes_through_as_it_is() {
    let (site, far) = (Site::new(), Far::echo());
    // Filters for responses do not touch it.
    let server = proxy(
        &site,
        "gzip on; gzip_types *; sub_filter a b; sub_filter_types *; charset utf-8; expires 1h;",
    );
    let mut socket = tunnel(server.port("proxy"), far.port);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 7 / 3) as u8).collect();
    let mut writing = socket.try_clone().expect("a descriptor");
    let mut got = vec![0; sent.len()];
    thread::scope(|scope| {
        scope.spawn(|| writing.write_all(&sent).expect("the tunnel takes it"));
        socket.read_exact(&mut got).expect("the tunnel brings it");
    });
    assert!(got == sent, "unchanged and in order");
}

#[test]
fn a_tunnel_ends_with_either_side_and_what_was_sent_before_arrives() {
    let site = Site::new();
    let server = proxy(&site, "");
    let port = server.port("proxy");
    // The other end closes its side behind its last words.
    let far = Far::at(Ipv4Addr::LOCALHOST, |mut socket| {
        let _ = socket.write_all(&vec![b'x'; 500_000]);
        let _ = socket.shutdown(Shutdown::Write);
        let _ = socket.read(&mut [0]);
    });
    let socket = tunnel(port, far.port);
    assert_eq!(read_to_close(&socket).len(), 500_000);
    // So does the client.
    let (heard, hears) = std::sync::mpsc::channel();
    let heard = std::sync::Mutex::new(heard);
    let far = Far::at(Ipv4Addr::LOCALHOST, move |socket| {
        let bytes = read_to_close(&socket);
        let _ = heard.lock().expect("not poisoned").send(bytes.len());
    });
    let mut socket = tunnel(port, far.port);
    socket.write_all(&vec![b'y'; 500_000]).expect("it is taken");
    socket.shutdown(Shutdown::Write).expect("it is connected");
    assert_eq!(hears.recv_timeout(PATIENCE), Ok(500_000));
    assert!(read_to_close(&socket).is_empty());
}

#[test]
fn a_tunnel_lasts_as_long_as_either_side_speaks() {
    let site = Site::new();
    let server = proxy(&site, "tunnel_read_timeout 1s;");
    let port = server.port("proxy");
    let silent = Far::at(Ipv4Addr::LOCALHOST, |mut socket| {
        let _ = socket.read_to_end(&mut Vec::new());
    });
    // Nobody speaks.
    assert!(read_to_close(&tunnel(port, silent.port)).is_empty());
    server.wait_for_log("upstream timed out (110: Connection timed out) while proxying upgraded");
    // The client does.
    let mut socket = tunnel(port, silent.port);
    for _ in 0..15 {
        socket.write_all(b".").expect("the tunnel is open");
        thread::sleep(Duration::from_millis(200));
    }
    assert!(read_to_close(&socket).is_empty(), "now it is silent, too");
    // The other end does.
    let speaking = Far::at(Ipv4Addr::LOCALHOST, |mut socket| {
        for _ in 0..15 {
            thread::sleep(Duration::from_millis(200));
            let _ = socket.write_all(b".");
        }
    });
    assert_eq!(read_to_close(&tunnel(port, speaking.port)).len(), 15);
}

#[test]
fn what_the_log_says_of_a_tunnel() {
    let (site, far) = (Site::new(), Far::echo());
    let server = site.serve(&format!(
        "{ALLOW} log_format x '$request|$status|$upstream_addr|$upstream_bytes_sent|\
         $upstream_bytes_received|$connect_host|$connect_port|$connect_addr';
         access_log logs/access.log x;
         server {{ listen 127.0.0.1:%proxy%; tunnel_pass; }}"
    ));
    let mut socket = tunnel(server.port("proxy"), far.port);
    socket.write_all(b"twelve bytes").expect("it is taken");
    says(&mut socket, "twelve bytes");
    drop(socket);
    let line = sealane_tests::wait_for("the line", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        log.lines().next().map(str::to_owned)
    });
    let far = format!("127.0.0.1:{}", far.port);
    let port = far.rsplit(':').next().expect("a port");
    assert_eq!(
        line,
        format!("CONNECT {far} HTTP/1.1|200|{far}|12|12|127.0.0.1|{port}|{far}")
    );
}

/// Whether the nginx to compare with has `tunnel_pass`.
fn nginx_has_tunnels() -> bool {
    nginx_version() >= (1, 31, 0)
}
