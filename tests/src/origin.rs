//! An HTTP/1 server behind the one under test. It records every byte and answers as a test
//! specifies.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A request as the origin received it.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// A PROXY protocol header before it, if it is the first on its connection.
    pub proxy_header: Vec<u8>,
    /// The head with its empty line.
    pub head: Vec<u8>,
    /// The body as framed: `Content-Length` bytes, or chunks with all that is around them.
    pub body: Vec<u8>,
    /// Which connection it came on, counted from 0.
    pub connection: usize,
    /// Which request of that connection it is, counted from 0.
    pub number: usize,
}

/// What the origin does about a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Sends these bytes and waits for the next request.
    Send(Vec<u8>),
    /// Sends these bytes and closes.
    SendAndClose(Vec<u8>),
    /// Says nothing until the other side closes.
    Silence,
}

/// An origin on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    connections: AtomicUsize,
    asked: Mutex<Vec<Asked>>,
}

impl Asked {
    /// The head as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }

    /// The request target.
    pub fn target(&self) -> String {
        self.text().split(' ').nth(1).unwrap_or_default().to_owned()
    }

    /// The values of every header with this name, in order.
    pub fn headers(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let lines = text
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .collect()
    }
}

impl Origin {
    /// An origin that answers every request with its own bytes, head and body.
    pub fn echo() -> Origin {
        Origin::answering(|asked| {
            let mut body = asked.proxy_header.clone();
            body.extend_from_slice(&asked.head);
            body.extend_from_slice(&asked.body);
            let length = body.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nX-Echo: yes\r\nContent-Length: {length}\r\n\r\n");
            let mut answer = head.into_bytes();
            if !asked.head.starts_with(b"HEAD ") {
                answer.extend_from_slice(&body);
            }
            Answer::Send(answer)
        })
    }

    /// An origin that does as it is told.
    pub fn answering(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Origin {
        Origin::at((Ipv4Addr::LOCALHOST, 0), answer)
    }

    /// The same at an address of the caller's choice, such as one more of the loopback.
    pub fn at(
        address: impl Into<SocketAddr>,
        answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Origin {
        let listener = TcpListener::bind(address.into()).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for socket in listener.incoming() {
                if theirs.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let (shared, answer) = (theirs.clone(), answer.clone());
                // It ends when the server under test closes its side.
                thread::spawn(move || serve(socket, &shared, &*answer));
            }
        });
        Origin { address, shared }
    }

    /// Its port, on 127.0.0.1 unless it was started elsewhere.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Connections that were opened to it.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// What was asked so far, since it was last taken.
    pub fn asked(&self) -> Vec<Asked> {
        let asked = self.shared.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes what was asked since it was last taken.
    pub fn take_asked(&self) -> Vec<Asked> {
        let mut asked = self
            .shared
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *asked)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    mut socket: TcpStream,
    shared: &Shared,
    answer: &(dyn Fn(&Asked) -> Answer + Send + Sync),
) {
    let connection = shared.connections.fetch_add(1, Ordering::Relaxed);
    let _ = socket.set_nodelay(true);
    let mut input = Input {
        socket: match socket.try_clone() {
            Ok(socket) => socket,
            Err(_) => return,
        },
        bytes: Vec::new(),
    };
    for number in 0.. {
        let Some(asked) = input.request(connection, number) else {
            return;
        };
        let mut all = shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(asked.clone());
        drop(all);
        match answer(&asked) {
            Answer::Send(bytes) => {
                if socket.write_all(&bytes).is_err() {
                    return;
                }
            }
            Answer::SendAndClose(bytes) => {
                let _ = socket.write_all(&bytes);
                return;
            }
            Answer::Silence => while input.fill() {},
        }
    }
}

/// What a connection brings.
struct Input {
    socket: TcpStream,
    bytes: Vec<u8>,
}

impl Input {
    /// The next request; `None` when the connection ends.
    fn request(&mut self, connection: usize, number: usize) -> Option<Asked> {
        let proxy_header = match number {
            0 => self.proxy_header()?,
            _ => Vec::new(),
        };
        let end = self.wait_for(0, b"\r\n\r\n")?;
        let head: Vec<u8> = self.bytes.drain(..end).collect();
        let mut asked = Asked {
            proxy_header,
            head,
            body: Vec::new(),
            connection,
            number,
        };
        let chunked = !asked.headers("Transfer-Encoding").is_empty();
        let length = asked.headers("Content-Length");
        let body_bytes = match length.first().and_then(|length| length.parse().ok()) {
            _ if chunked => self.wait_for(0, b"0\r\n\r\n")?,
            Some(length) => {
                while self.bytes.len() < length {
                    if !self.fill() {
                        return None;
                    }
                }
                length
            }
            None => 0,
        };
        asked.body = self.bytes.drain(..body_bytes).collect();
        Some(asked)
    }

    fn proxy_header(&mut self) -> Option<Vec<u8>> {
        const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
        while self.bytes.len() < 16 {
            if !self.fill() {
                return None;
            }
        }
        let bytes = if self.bytes.starts_with(SIGNATURE) {
            let bytes = 16 + usize::from(u16::from_be_bytes([self.bytes[14], self.bytes[15]]));
            while self.bytes.len() < bytes {
                if !self.fill() {
                    return None;
                }
            }
            bytes
        } else if self.bytes.starts_with(b"PROXY ") {
            self.wait_for(0, b"\r\n")?
        } else {
            0
        };
        Some(self.bytes.drain(..bytes).collect())
    }

    /// The position behind the first `wanted` from `from` on.
    fn wait_for(&mut self, from: usize, wanted: &[u8]) -> Option<usize> {
        loop {
            let at = self.bytes[from..]
                .windows(wanted.len())
                .position(|window| window == wanted);
            if let Some(at) = at {
                return Some(from + at + wanted.len());
            }
            if !self.fill() {
                return None;
            }
        }
    }

    fn fill(&mut self) -> bool {
        let mut piece = [0; 65536];
        loop {
            match self.socket.read(&mut piece) {
                Ok(0) => return false,
                Ok(count) => {
                    self.bytes.extend_from_slice(&piece[..count]);
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}
