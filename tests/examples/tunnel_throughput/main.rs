//! Prints how fast tunnels are, Sealane's and nginx's by turns: bytes from the far end to the
//! client, and small messages there and back. Everything is on this
//! machine; nothing takes longer than the bytes that are sent.

use sealane_tests::{Program, Server, Site};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

const ROUNDS: usize = 5;
const BYTES: usize = 1 << 30;
const MESSAGES: usize = 30_000;
const PIECE_BYTES: usize = 128 << 10;

/// What the far end does, by the first byte that it gets.
fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut piece = vec![0; PIECE_BYTES];
    socket.read_exact(&mut piece[..1])?;
    match piece[0] {
        b'd' => {
            for _ in 0..BYTES / PIECE_BYTES {
                socket.write_all(&piece)?;
            }
            Ok(())
        }
        _ => loop {
            let count = socket.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            socket.write_all(&piece[..count])?;
        },
    }
}

fn far_end() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(|| serve(socket));
        }
    });
    port
}

fn tunnel(proxy: u16, far: u16, what: u8) -> TcpStream {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy)).expect("it listens");
    socket.set_nodelay(true).expect("it is connected");
    let head = format!("CONNECT 127.0.0.1:{far} HTTP/1.1\r\nHost: 127.0.0.1:{far}\r\n\r\n");
    socket.write_all(head.as_bytes()).expect("it is taken");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "));
    socket.write_all(&[what]).expect("the tunnel is open");
    socket
}

/// MiB per second from the far end.
fn download(proxy: u16, far: u16) -> f64 {
    let mut socket = tunnel(proxy, far, b'd');
    let mut piece = vec![0; PIECE_BYTES];
    let (begun, mut left) = (Instant::now(), BYTES);
    while left > 0 {
        left -= socket.read(&mut piece).expect("it goes on").min(left);
    }
    BYTES as f64 / f64::from(1 << 20) / begun.elapsed().as_secs_f64()
}

/// Messages there and back per second.
fn messages(proxy: u16, far: u16) -> f64 {
    let mut socket = tunnel(proxy, far, b'e');
    let mut piece = [0; 100];
    let begun = Instant::now();
    for _ in 0..MESSAGES {
        socket.write_all(&piece).expect("the tunnel is open");
        socket.read_exact(&mut piece).expect("it comes back");
    }
    MESSAGES as f64 / begun.elapsed().as_secs_f64()
}

fn main() {
    let far = far_end();
    let (ours, theirs) = (Site::new(), Site::new());
    let size = std::env::args().nth(1).unwrap_or_else(|| "4k".to_owned());
    let configuration = |more: &str| {
        format!(
            "error_log logs/error.log; pid logs/pid; worker_processes 1; events {{ }}
             http {{ access_log off; tunnel_buffer_size {size}; {more}
               server {{ listen 127.0.0.1:%proxy%; tunnel_pass; }} }}"
        )
    };
    let allow = "tunnel_allow_ports all; tunnel_allow_addresses 127.0.0.1;";
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path temporary/{name};"))
        .join(" ");
    let sealane = Server::start(&ours, Program::Sealane, &configuration(allow));
    let nginx = Server::start(&theirs, Program::Nginx, &configuration(&temporary));
    println!("tunnel_buffer_size {size}");
    for (what, measure) in [
        ("MiB/s to the client", download as fn(u16, u16) -> f64),
        ("messages/s there and back", messages),
    ] {
        for round in 1..=ROUNDS {
            let here = measure(sealane.port("proxy"), far);
            let there = measure(nginx.port("proxy"), far);
            println!("{what}, round {round}: Sealane {here:.0}, nginx {there:.0}");
        }
    }
}
