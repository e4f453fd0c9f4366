//! Peers of sessions that mean no good, or are broken: what they cost, and that everybody else is
//! served meanwhile.

use sealane_tests::layer4::{Origin, connect};
use sealane_tests::upgrade::KeptTls;
use sealane_tests::{Certificate, CertificateKey, Server, Site, client_hello, scale, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("a", CertificateKey::P256));
    site
}

/// Servers of `stream`, with one at `%well%` for those who behave.
fn serve<'s>(site: &'s Site, main: &str, stream: &str) -> Server<'s> {
    site.serve_whole(&format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid; {main}
         events {{ worker_connections 12000; }}
         stream {{
             ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
             log_format s $status;
             server {{ listen 127.0.0.1:%well%; return well; }}
             server {{ listen 127.0.0.1:%well_tls% ssl; return \"well\\n\"; }}
             {stream}
         }}"
    ))
}

/// Everybody else is served.
#[track_caller]
fn others_are_well(server: &Server<'_>) {
    let mut got = String::new();
    let mut socket = connect(server.port("well"));
    socket.read_to_string(&mut got).expect("it ends");
    assert_eq!(got, "well");
    assert_eq!(KeptTls::open(server.port("well_tls"), "").line(), "well\n");
}

/// Waits until the memory of the workers has stopped growing, and returns it.
fn settled_kib(server: &Server<'_>) -> u64 {
    let mut last = 0;
    wait_for("memory that stays the same", || {
        let now = server.resident_kib();
        thread::sleep(std::time::Duration::from_millis(200));
        let is_settled = now == last;
        last = now;
        is_settled.then_some(now)
    })
}

/// `openssl s_client` that sends without end, or is sent without end and does not read.
struct Flooding(Child);

impl Flooding {
    fn start(port: u16, input: Stdio) -> Flooding {
        let child = Command::new("openssl")
            .args([
                "s_client",
                "-quiet",
                "-connect",
                &format!("127.0.0.1:{port}"),
            ])
            .stdin(input)
            // Nobody reads the pipe, so it is soon full.
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Flooding(child.expect("openssl is installed"))
    }
}

impl Drop for Flooding {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Peers of each kind.
const FLOODS: usize = 12;

/// What each of them may cost: a batch of records, twice, and the parts of a connection.
const FLOOD_KIB: u64 = 700;

#[test]
fn who_does_not_read_what_the_other_sends_without_end() {
    let site = site();
    let (flood, deaf) = (Origin::flood().port, Origin::deaf().port);
    let server = serve(
        &site,
        "",
        &format!(
            "server {{ listen 127.0.0.1:%flood%; proxy_pass 127.0.0.1:{flood}; }}
             server {{ listen 127.0.0.1:%flood_tls% ssl; proxy_pass 127.0.0.1:{flood}; }}
             server {{ listen 127.0.0.1:%deaf%; proxy_pass 127.0.0.1:{deaf}; }}
             server {{ listen 127.0.0.1:%deaf_tls% ssl; proxy_pass 127.0.0.1:{deaf}; }}"
        ),
    );
    others_are_well(&server);
    let before = settled_kib(&server);
    let plain: Vec<TcpStream> = (0..FLOODS).map(|_| connect(server.port("flood"))).collect();
    let mut sending: Vec<TcpStream> = (0..FLOODS).map(|_| connect(server.port("deaf"))).collect();
    for socket in &mut sending {
        socket.set_nonblocking(true).expect("it is connected");
        while socket.write(&[b'x'; 65_536]).is_ok() {}
    }
    let held = Stdio::piped;
    let over_tls: Vec<Flooding> = (0..FLOODS)
        .map(|_| Flooding::start(server.port("flood_tls"), held()))
        .collect();
    let zeros = || Stdio::from(std::fs::File::open("/dev/zero").expect("there is one"));
    let sending_tls: Vec<Flooding> = (0..FLOODS)
        .map(|_| Flooding::start(server.port("deaf_tls"), zeros()))
        .collect();
    for _ in 0..5 {
        others_are_well(&server);
    }
    let grown = settled_kib(&server).saturating_sub(before);
    println!("{} floods take {grown} KiB", 4 * FLOODS);
    assert!(grown < 4 * FLOODS as u64 * FLOOD_KIB, "{grown} KiB");
    drop((plain, sending, over_tls, sending_tls));
    others_are_well(&server);
}

#[test]
fn many_who_say_nothing() {
    let site = site();
    let echo = Origin::echo().port;
    let server = serve(
        &site,
        "worker_rlimit_nofile 13000;",
        &format!(
            "access_log logs/stream.log s;
             server {{ listen 127.0.0.1:%tls% ssl; ssl_handshake_timeout 5s; proxy_pass 127.0.0.1:{echo}; }}
             server {{ listen 127.0.0.1:%preread%; ssl_preread on; preread_timeout 5s; return no; }}
             server {{ listen 127.0.0.1:%header% proxy_protocol; proxy_protocol_timeout 5s; return no; }}"
        ),
    );
    let before = settled_kib(&server);
    let hello = client_hello("a.example", "-quiet");
    let count = scale(200, 3000);
    let mut silent = Vec::new();
    for number in 0..count {
        for port in ["tls", "preread", "header"] {
            let mut socket = connect(server.port(port));
            // Some say a little: a byte, or half of what is waited for.
            let part: &[u8] = match (number % 3, port) {
                (0, _) => b"",
                (1, "header") => b"P",
                (1, _) => &hello[..1],
                (_, "header") => b"PROXY TCP4 192.0.2.7 ",
                (_, _) => &hello[..hello.len() / 2],
            };
            socket.write_all(part).expect("it is taken");
            silent.push((port, socket));
        }
    }
    others_are_well(&server);
    let grown = server.resident_kib().saturating_sub(before);
    println!("{} silent clients take {grown} KiB", silent.len());
    assert!(grown < 20 * silent.len() as u64 + 2048, "{grown} KiB");
    for (port, mut socket) in silent {
        let mut got = Vec::new();
        let _ = socket.read_to_end(&mut got);
        assert!(!got.windows(2).any(|two| two == b"no"), "{port}");
    }
    others_are_well(&server);
}

#[test]
fn servers_that_break_off_or_never_speak() {
    let site = site();
    let resetting = Origin::doing(|mut socket| {
        let _ = socket.read(&mut [0; 100]);
        let _ = socket.write_all(b"the beginning");
        let socket = socket2::Socket::from(socket);
        let _ = socket.set_linger(Some(std::time::Duration::ZERO));
    });
    let silent = Origin::doing(|mut socket| {
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let server = serve(
        &site,
        "",
        &format!(
            "access_log logs/stream.log s; proxy_timeout 1s;
             server {{ listen 127.0.0.1:%reset%; proxy_pass 127.0.0.1:{0}; }}
             server {{ listen 127.0.0.1:%silent%; proxy_pass 127.0.0.1:{1}; }}
             server {{ listen 127.0.0.1:%no_tls%; proxy_ssl on; proxy_connect_timeout 1s;
                       proxy_pass 127.0.0.1:{1}; }}",
            resetting.port, silent.port
        ),
    );
    for _ in 0..scale(50, 2000) {
        let mut socket = connect(server.port("reset"));
        socket.write_all(b"hello").expect("it is taken");
        let mut got = String::new();
        let _ = socket.read_to_string(&mut got);
        assert!("the beginning".starts_with(&got), "{got}");
    }
    for port in ["silent", "no_tls"] {
        let mut sockets: Vec<TcpStream> = (0..50).map(|_| connect(server.port(port))).collect();
        others_are_well(&server);
        for socket in &mut sockets {
            assert_eq!(socket.read(&mut [0; 1]).ok(), Some(0), "{port}");
        }
    }
    server.wait_for_log("(110: Connection timed out) while proxying connection");
}

#[test]
fn without_descriptors_new_clients_wait_and_nobody_loses_a_session() {
    let site = site();
    let echo = Origin::echo().port;
    let server = serve(
        &site,
        "worker_rlimit_nofile 120;",
        &format!("server {{ listen 127.0.0.1:%a%; proxy_pass 127.0.0.1:{echo}; }}"),
    );
    server.expect_alert("Too many open files");
    let says_back = |socket: &mut TcpStream| {
        let mut got = [0; 5];
        let result = socket
            .write_all(b"hello")
            .and_then(|()| socket.read_exact(&mut got));
        result.is_ok() && &got == b"hello"
    };
    let mut kept = connect(server.port("a"));
    assert!(says_back(&mut kept));
    // More than there are descriptors for, two for each.
    let crowd: Vec<TcpStream> = (0..200).map(|_| connect(server.port("a"))).collect();
    server.wait_for_log("Too many open files");
    for _ in 0..20 {
        assert!(says_back(&mut kept), "a session that stands is not touched");
    }
    drop(crowd);
    wait_for("a new session", || {
        says_back(&mut connect(server.port("a"))).then_some(())
    });
    others_are_well(&server);
}
