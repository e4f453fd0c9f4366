//! A server whose behaviour changes while it runs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What it does with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It answers every request with 200 and the body `up`.
    Works,
    /// It answers with this status.
    Status(u16),
    /// It reads, and never answers.
    Hangs,
    /// It closes without an answer.
    Closes,
    /// It answers with a byte every now and then, and never ends its head.
    Drips,
    /// It greets as MySQL does.
    Greets,
    /// It greets with an error of MySQL.
    GreetsWithError,
    /// It answers a CPing of AJP.
    Pongs,
    /// It answers with a body that never ends.
    Endless,
    /// It speaks a protocol that nobody knows.
    Babbles,
}

/// The server, on a port of its own, until it is dropped.
pub(crate) struct Changing {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    mode: Mutex<Mode>,
    stopped: AtomicBool,
    connections: AtomicUsize,
    heads: Mutex<Vec<String>>,
}

impl Changing {
    pub(crate) fn new(mode: Mode) -> Changing {
        Changing::on(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), mode)
    }

    pub(crate) fn on(address: SocketAddr, mode: Mode) -> Changing {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            mode: Mutex::new(mode),
            stopped: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            heads: Mutex::default(),
        });
        let theirs = shared.clone();
        thread::spawn(move || {
            for socket in listener.incoming() {
                if theirs.stopped.load(Ordering::Relaxed) {
                    return; // from now on connections are refused
                }
                let Ok(socket) = socket else { continue };
                theirs.connections.fetch_add(1, Ordering::Relaxed);
                let shared = theirs.clone();
                thread::spawn(move || shared.serve(socket));
            }
        });
        Changing { address, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// From the next request on.
    pub(crate) fn becomes(&self, mode: Mode) {
        *self.shared.mode.lock().expect("nobody panics") = mode;
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The heads of requests since they were last taken.
    pub(crate) fn take_heads(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.heads.lock().expect("nobody panics"))
    }

    /// It is gone: connections to its address are refused.
    pub(crate) fn dies(self) -> SocketAddr {
        self.address
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address); // wakes the thread that accepts
    }
}

impl Shared {
    fn serve(&self, mut socket: TcpStream) {
        let mut waiting = Vec::new();
        loop {
            let mode = *self.mode.lock().expect("nobody panics");
            match mode {
                Mode::Greets => {
                    let _ = socket.write_all(b"\x2e\0\0\0\x0a8.0.36\0rest of the greeting");
                }
                Mode::GreetsWithError => {
                    let _ = socket.write_all(b"\x17\0\0\0\xff\x10\x04Too many connections");
                }
                Mode::Babbles => {
                    let _ = socket.write_all(b"\x80\x81\x82 220 mail.example ESMTP\r\n\r\n");
                }
                _ => {}
            }
            let Some(head) = next_head(&mut socket, &mut waiting, mode) else {
                return;
            };
            let is_ping = head.starts_with("\u{12}\u{34}");
            self.heads.lock().expect("nobody panics").push(head);
            // As it is by now.
            match *self.mode.lock().expect("nobody panics") {
                Mode::Pongs if is_ping => {
                    if socket.write_all(b"AB\0\x01\x09").is_err() {
                        return;
                    }
                }
                Mode::Works => answer(&mut socket, 200, "up"),
                Mode::Status(status) => answer(&mut socket, status, "trouble"),
                Mode::Drips => {
                    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nX-Version: ");
                    while socket.write_all(b"7").is_ok() && !self.stopped.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(20));
                    }
                    return;
                }
                Mode::Endless => {
                    let head = b"HTTP/1.1 200 OK\r\nX-Version: 7\r\n\r\n";
                    let mut sent = socket.write_all(head);
                    while sent.is_ok() && !self.stopped.load(Ordering::Relaxed) {
                        sent = socket.write_all(&b"up and up and ".repeat(1000));
                    }
                    return;
                }
                Mode::Hangs | Mode::Babbles | Mode::Pongs => {
                    let _ = socket.read(&mut [0; 1]);
                    return;
                }
                Mode::Closes | Mode::Greets | Mode::GreetsWithError => return,
            }
        }
    }
}

fn answer(socket: &mut TcpStream, status: u16, body: &str) {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} Status\r\nX-Version: 7\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let _ = socket.write_all(text.as_bytes());
}

/// The head of the next request, or a CPing; `None` at the end.
fn next_head(socket: &mut TcpStream, waiting: &mut Vec<u8>, mode: Mode) -> Option<String> {
    loop {
        if mode == Mode::Closes {
            return None;
        }
        let end = waiting.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.map(|at| at + 4).or_else(|| {
            let is_ping = waiting.starts_with(&[0x12, 0x34]) && waiting.len() >= 5;
            is_ping.then_some(5)
        });
        if let Some(end) = end {
            let head: Vec<u8> = waiting.drain(..end).collect();
            return Some(head.iter().map(|byte| char::from(*byte)).collect());
        }
        let mut piece = [0; 4096];
        match socket.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => waiting.extend_from_slice(&piece[..count]),
        }
    }
}
