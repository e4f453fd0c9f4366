//! An origin that sends a part of its response and waits.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// An origin whose responses stop after a part until it is opened.
pub(crate) struct GatedOrigin {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    body: Vec<u8>,
    part_bytes: usize,
    requests: AtomicUsize,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl GatedOrigin {
    /// It responds to everything with this body, of which it sends a part at first.
    pub(crate) fn new(body: Vec<u8>, part_bytes: usize) -> GatedOrigin {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            body,
            part_bytes,
            requests: AtomicUsize::new(0),
            is_open: Mutex::new(false),
            opened: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let shared = Arc::clone(&theirs);
                thread::spawn(move || serve(socket, &shared));
            }
        });
        GatedOrigin { port, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// All responses go on.
    pub(crate) fn open(&self) {
        *self.shared.is_open.lock().expect("no panic") = true;
        self.shared.opened.notify_all();
    }
}

impl Drop for GatedOrigin {
    fn drop(&mut self) {
        self.open();
    }
}

fn serve(mut socket: TcpStream, shared: &Shared) {
    let mut lines = BufReader::new(socket.try_clone().expect("descriptors"));
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
        }
        shared.requests.fetch_add(1, Ordering::Relaxed);
        let (part, rest) = shared.body.split_at(shared.part_bytes);
        let bytes = shared.body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        if socket.write_all(&[head.as_bytes(), part].concat()).is_err() {
            return;
        }
        let open = shared.is_open.lock().expect("no panic");
        drop(
            shared
                .opened
                .wait_while(open, |open| !*open)
                .expect("no panic"),
        );
        if socket.write_all(rest).is_err() {
            return;
        }
    }
}
