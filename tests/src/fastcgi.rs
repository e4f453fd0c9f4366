//! A FastCGI application of our own, for behaviour that no well-behaved application shows.

use crate::PATIENCE;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A request as it came.
#[derive(Debug, Default, Clone)]
pub struct FastCgiRequest {
    /// The parameters; one that is sent twice is there once, with the last value.
    pub parameters: BTreeMap<String, String>,
    /// The names of the parameters in the order sent.
    pub names: Vec<String>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the connection is to stay.
    pub keep: bool,
    /// The number of the connection, from 1.
    pub connection: usize,
}

impl FastCgiRequest {
    /// The value of a parameter; empty without it.
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }
}

/// The application, on a port of 127.0.0.1. Its threads end with it.
#[derive(Debug)]
pub struct FastCgiOrigin {
    port: u16,
    ended: Arc<AtomicBool>,
}

impl FastCgiOrigin {
    /// Calls `answer` for each request, on a thread for each connection. It writes what it
    /// likes and says whether the connection stays open.
    pub fn start(
        answer: impl Fn(&FastCgiRequest, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> FastCgiOrigin {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let ended = Arc::new(AtomicBool::new(false));
        let stop = ended.clone();
        let answer = Arc::new(answer);
        let connections = AtomicUsize::new(0);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let answer = answer.clone();
                let number = connections.fetch_add(1, Ordering::Relaxed) + 1;
                std::thread::spawn(move || serve(socket, number, &*answer));
            }
        });
        FastCgiOrigin { port, ended }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for FastCgiOrigin {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(
    mut socket: TcpStream,
    connection: usize,
    answer: &dyn Fn(&FastCgiRequest, &mut TcpStream) -> bool,
) {
    let _ = socket.set_read_timeout(Some(PATIENCE));
    let _ = socket.set_write_timeout(Some(PATIENCE));
    while let Some(mut request) = read_request(&mut socket) {
        request.connection = connection;
        if !answer(&request, &mut socket) {
            // In order: what was sent must arrive although some input may be unread.
            let _ = socket.shutdown(Shutdown::Write);
            return;
        }
    }
}

fn read_request(socket: &mut TcpStream) -> Option<FastCgiRequest> {
    let mut request = FastCgiRequest::default();
    let mut parameters = Vec::new();
    loop {
        let mut header = [0; 8];
        socket.read_exact(&mut header).ok()?;
        let [1, kind, 0, 1, high, low, padding, _] = header else {
            panic!("a record of another request or version: {header:?}");
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut content = vec![0; length + usize::from(padding)];
        socket.read_exact(&mut content).ok()?;
        content.truncate(length);
        match kind {
            1 => {
                assert_eq!(content[..2], [0, 1], "a responder");
                request.keep = content[2] & 1 == 1;
            }
            4 if length == 0 => take_parameters(&parameters, &mut request),
            4 => parameters.extend_from_slice(&content),
            5 if length == 0 => return Some(request),
            5 => request.body.extend_from_slice(&content),
            other => panic!("a record of kind {other}"),
        }
    }
}

fn take_parameters(mut rest: &[u8], request: &mut FastCgiRequest) {
    while !rest.is_empty() {
        let name_bytes = take_length(&mut rest);
        let value_bytes = take_length(&mut rest);
        let (name, behind) = rest.split_at(name_bytes);
        let (value, behind) = behind.split_at(value_bytes);
        rest = behind;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        request.names.push(text(name));
        request.parameters.insert(text(name), text(value));
    }
}

fn take_length(rest: &mut &[u8]) -> usize {
    match **rest {
        [byte @ 0..=127, ref behind @ ..] => {
            *rest = behind;
            usize::from(byte)
        }
        [a, b, c, d, ref behind @ ..] => {
            *rest = behind;
            u32::from_be_bytes([a & 127, b, c, d]) as usize
        }
        _ => panic!("a length that is cut"),
    }
}

/// A record of output; an empty one ends the output.
pub fn stdout(content: &[u8]) -> Vec<u8> {
    record(6, content)
}

/// A record of error text.
pub fn stderr(content: &[u8]) -> Vec<u8> {
    record(7, content)
}

/// The end of a request.
pub fn end() -> Vec<u8> {
    record(3, &[0; 8])
}

/// A record of any kind, padded to eight bytes.
pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len())
        .expect("a record has 65535 bytes at most")
        .to_be_bytes();
    let padding = content.len().next_multiple_of(8) - content.len();
    let mut record = vec![1, kind, 0, 1, high, low, padding as u8, 0];
    record.extend_from_slice(content);
    record.resize(record.len() + padding, 0);
    record
}

/// A whole response: records of output and the end.
pub fn answer(socket: &mut TcpStream, output: &[u8]) -> bool {
    let mut bytes = Vec::new();
    for piece in output.chunks(65528) {
        bytes.extend(stdout(piece));
    }
    bytes.extend(stdout(b""));
    bytes.extend(end());
    socket.write_all(&bytes).is_ok()
}
