//! HTTP/1 on a plain socket, byte by byte: for what real clients will not send.

use crate::PATIENCE;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};

/// A response as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code; 0 for bytes before the end that are no response.
    pub status: u16,
    /// The status line and header lines, without the empty line.
    pub head: String,
    /// The body, with chunked coding removed.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of the first header with this name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).into_iter().next()
    }

    /// The values of every header with this name, in order.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let lines = self
            .head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection that requests can be written to in pieces.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to a port on 127.0.0.1.
    #[track_caller]
    pub fn open(port: u16) -> Connection {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("the time-out is not zero");
        socket
            .set_write_timeout(Some(PATIENCE))
            .expect("the time-out is not zero");
        socket.set_nodelay(true).expect("the socket is connected");
        Connection {
            socket,
            buffer: Vec::new(),
        }
    }

    /// Writes bytes; the server may have closed, which reading will show.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends nothing more, and still reads.
    pub fn shut_down_sending(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// The socket itself.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads one response. `head_only` says that it answers a HEAD request.
    ///
    /// # Panics
    ///
    /// When the connection ends or stays silent before the response is complete.
    #[track_caller]
    pub fn response(&mut self, head_only: bool) -> Response {
        self.try_response(head_only)
            .expect("a response before the connection ends")
    }

    /// Reads one response, or `None` when the server closed without one.
    #[track_caller]
    pub fn try_response(&mut self, head_only: bool) -> Option<Response> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            if !self.fill() {
                let body = std::mem::take(&mut self.buffer);
                return (!body.is_empty()).then(|| Response {
                    status: 0,
                    head: String::new(),
                    body,
                });
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 4);
        let mut words = head.split_ascii_whitespace();
        let status = words.nth(1).and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {head:?}"));
        let mut response = Response {
            status,
            head,
            body: Vec::new(),
        };
        if !(head_only || status == 204 || status == 304 || (100..200).contains(&status)) {
            response.body = self.body(&response);
        }
        Some(response)
    }

    #[track_caller]
    fn body(&mut self, response: &Response) -> Vec<u8> {
        if response.header("transfer-encoding").is_some() {
            return self.chunked();
        }
        match response.header("content-length") {
            Some(length) => {
                let length = length
                    .parse()
                    .unwrap_or_else(|_| panic!("Content-Length: {length:?}"));
                self.take(length)
            }
            None => {
                while self.fill() {}
                std::mem::take(&mut self.buffer)
            }
        }
    }

    #[track_caller]
    fn chunked(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let size = usize::from_str_radix(line.trim(), 16)
                .unwrap_or_else(|_| panic!("chunk size {line:?}"));
            let chunk = self.take(size + 2);
            assert!(chunk.ends_with(b"\r\n"), "a chunk ends with CRLF");
            if size == 0 {
                return body;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return line;
            }
            assert!(self.fill(), "the connection ended inside a chunk size");
        }
    }

    #[track_caller]
    fn take(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert!(
                self.fill(),
                "the connection ended {} bytes before the end of the body",
                count - self.buffer.len()
            );
        }
        let rest = self.buffer.split_off(count);
        std::mem::replace(&mut self.buffer, rest)
    }

    /// Everything until the server closes; a reset counts as closing.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.buffer)
    }

    /// Whether the server closes without sending anything more.
    #[track_caller]
    pub fn is_closed(&mut self) -> bool {
        self.rest().is_empty()
    }

    #[track_caller]
    fn fill(&mut self) -> bool {
        let mut piece = [0; 65536];
        match self.socket.read(&mut piece) {
            Ok(0) => false,
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                true
            }
            Err(error)
                if error.kind() == ErrorKind::ConnectionReset
                    || error.kind() == ErrorKind::BrokenPipe =>
            {
                false
            }
            // A read with a time-out ends so when the whole machine is paused.
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) => panic!("nothing came for {} s: {error}", PATIENCE.as_secs()),
        }
    }
}

/// What comes until the peer closes the connection or resets it.
///
/// # Panics
/// When it does neither within the time-out of the socket.
#[track_caller]
pub fn read_to_close(mut socket: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("not closed after {} bytes: {error}", bytes.len()),
    }
}

/// The response that all of these bytes are; the body is as it came, chunks included. `None` if
/// the head has no end.
pub fn whole(bytes: &[u8]) -> Option<Response> {
    let end = find(bytes, b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok())?;
    let body = bytes[end + 4..].to_vec();
    Some(Response { status, head, body })
}

/// A body without its chunks, and the lines of trailers behind them; `None` if not all of it is
/// there.
pub fn without_chunks(mut rest: &[u8]) -> (Vec<u8>, Option<&[u8]>) {
    let mut body = Vec::new();
    while let Some(end) = find(rest, b"\r\n") {
        let size = String::from_utf8_lossy(&rest[..end]).into_owned();
        let size = usize::from_str_radix(&size, 16).expect("a size");
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, rest.strip_suffix(b"\r\n"));
        }
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        rest = rest.get(size + 2..).unwrap_or_default();
    }
    (body, None)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// Sends one request and reads its response on a connection of its own.
#[track_caller]
pub fn request(port: u16, head: &str) -> Response {
    let mut connection = Connection::open(port);
    connection.send(head);
    connection.response(head.starts_with("HEAD "))
}

/// A GET for `target` with `Host: localhost` and `Connection: close`.
#[track_caller]
pub fn get(port: u16, target: &str) -> Response {
    get_with(port, target, "")
}

/// The same with further header lines, each ended by CRLF.
#[track_caller]
pub fn get_with(port: u16, target: &str, headers: &str) -> Response {
    request(
        port,
        &format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"),
    )
}
