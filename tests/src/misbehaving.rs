//! An origin that misbehaves on command; the path of a request says how.
//!
//! ```text
//! /length/1000?mark   a body of 1000 bytes made of "mark", with Content-Length
//! /cut/chunk?mark     the connection is closed within a chunk
//! ```
//!
//! Bodies consist of the text after the question mark, so that a byte of one response inside
//! another is noticed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The length of bodies of which no length is asked for.
pub const BODY_BYTES: usize = 200;

/// An origin on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct Misbehaving {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    open: AtomicUsize,
    opened: AtomicUsize,
}

/// The body that a mark and a length stand for.
pub fn body(mark: &str, bytes: usize) -> Vec<u8> {
    let text = format!("{mark};");
    text.bytes().cycle().take(bytes).collect()
}

impl Misbehaving {
    /// Starts it.
    pub fn start() -> Misbehaving {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        thread::spawn(move || {
            for socket in listener.incoming() {
                if theirs.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let shared = theirs.clone();
                thread::spawn(move || {
                    shared.opened.fetch_add(1, Ordering::Relaxed);
                    shared.open.fetch_add(1, Ordering::Relaxed);
                    visit(socket);
                    shared.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Misbehaving { port, shared }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Connections that were opened to it.
    pub fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::Relaxed)
    }
}

impl Drop for Misbehaving {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// What becomes of the connection after an answer.
enum After {
    /// It waits for another request.
    Next,
    /// It is closed in order.
    Close,
    /// It is reset.
    Reset,
}

/// A request, as far as this origin cares.
struct Asked {
    method: String,
    /// The parts of the path.
    what: String,
    how: String,
    mark: String,
    content_length: Option<usize>,
    chunked: bool,
}

impl Asked {
    fn of(head: &str) -> Asked {
        let mut words = head.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let (path, mark) = target.split_once('?').unwrap_or((target, ""));
        let mut parts = path.trim_start_matches('/').split('/');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let lower = head.to_ascii_lowercase();
        let length = lower
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        Asked {
            method,
            what: part(),
            how: part(),
            mark: mark.to_owned(),
            content_length: length.and_then(|length| length.trim().parse().ok()),
            chunked: lower.contains("\r\ntransfer-encoding: chunked\r\n"),
        }
    }

    fn size(&self) -> usize {
        self.how.parse().unwrap_or(BODY_BYTES)
    }

    fn body(&self) -> Vec<u8> {
        body(&self.mark, BODY_BYTES)
    }
}

fn visit(mut socket: TcpStream) {
    let _ = socket.set_nodelay(true);
    // A test that fails leaves no thread behind for long.
    let _ = socket.set_read_timeout(Some(crate::PATIENCE));
    while let Ok(Some(head)) = read_head(&mut socket) {
        let asked = Asked::of(&head);
        match answer(&mut socket, &asked) {
            Ok(After::Next) => {
                if finish_request(&mut socket, &asked).is_err() {
                    return;
                }
            }
            Ok(After::Close) => {
                let _ = read_last_byte(&mut socket);
                return;
            }
            // One byte of the request is unread: closing resets the connection.
            Ok(After::Reset) | Err(_) => return,
        }
    }
}

/// Reads a request head but for its last byte.
fn read_head(socket: &mut TcpStream) -> io::Result<Option<String>> {
    let mut seen = [0; 32 << 10];
    loop {
        let count = socket.peek(&mut seen)?;
        let end = seen[..count]
            .windows(4)
            .position(|part| part == b"\r\n\r\n");
        if let Some(end) = end {
            let mut head = vec![0; end + 3];
            socket.read_exact(&mut head)?;
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
        if count == 0 || count == seen.len() {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn read_last_byte(socket: &mut TcpStream) -> io::Result<()> {
    socket.read_exact(&mut [0])
}

/// Reads what is left of a request.
fn finish_request(socket: &mut TcpStream, asked: &Asked) -> io::Result<()> {
    // What reads a body has read the byte before it.
    if asked.what == "digest" {
        return Ok(());
    }
    read_last_byte(socket)?;
    read_body(socket, asked, &mut io::sink())
}

fn read_body(socket: &mut TcpStream, asked: &Asked, out: &mut dyn Write) -> io::Result<()> {
    if !asked.chunked {
        let length = asked.content_length.unwrap_or(0) as u64;
        if io::copy(&mut socket.take(length), out)? < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        return Ok(());
    }
    loop {
        let line = read_line(socket)?;
        let size = u64::from_str_radix(line.trim(), 16).map_err(|_| ErrorKind::InvalidData)?;
        io::copy(&mut socket.take(size), out)?;
        read_line(socket)?;
        if size == 0 {
            return Ok(());
        }
    }
}

fn read_line(socket: &mut TcpStream) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        socket.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn answer(socket: &mut TcpStream, asked: &Asked) -> io::Result<After> {
    let body = asked.body();
    match asked.what.as_str() {
        "length" => {
            write!(
                socket,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                asked.size()
            )?;
            send_body(socket, asked)?;
        }
        "chunked" => send_chunks(socket, asked)?,
        "until-close" => {
            socket.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            send_body(socket, asked)?;
            return Ok(After::Close);
        }
        "trickle" => trickle(socket, &asked.how, &body)?,
        "cut" | "reset" => {
            socket.write_all(&part_of_response(&asked.how, &body))?;
            if asked.what == "reset" {
                // What was sent should arrive first.
                thread::sleep(Duration::from_millis(20));
                return Ok(After::Reset);
            }
            return Ok(After::Close);
        }
        "surplus" => return surplus(socket, &asked.how, &body),
        "head" => {
            socket.write_all(&odd_head(&asked.how, &body))?;
            return Ok(After::Close);
        }
        "huge" => {
            let line = format!("X-Huge: {}\r\n", "h".repeat(100 - 10));
            let count = asked.size();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n{}\r\n",
                line.repeat(count)
            );
            socket.write_all(head.as_bytes())?;
            socket.write_all(&body)?;
        }
        "interim" => {
            for _ in 0..asked.size() {
                socket.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")?;
            }
            send_whole(socket, &body)?;
        }
        "early" => return early(socket, asked),
        "never" => {
            if asked.how == "body" {
                socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n")?;
                socket.write_all(&body[..100])?;
            }
            wait_for_end(socket);
            return Ok(After::Close);
        }
        "bad-chunk" => {
            // Whoever takes it for a whole body is not to send another request.
            socket.write_all(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            // The head arrives by itself.
            thread::sleep(Duration::from_millis(20));
            socket.write_all(bad_chunk(&asked.how))?;
            wait_for_end(socket);
            return Ok(After::Close);
        }
        "bodiless" => {
            let head = format!("HTTP/1.1 {} X\r\nContent-Length: 200\r\n\r\n", asked.how);
            // At once, so that nobody can take the connection in between.
            socket.write_all(&[head.as_bytes(), &body].concat())?;
        }
        "digest" => digest(socket, asked)?,
        _ => send_whole(socket, &body)?,
    }
    Ok(After::Next)
}

/// Waits until the other side has closed.
fn wait_for_end(socket: &mut TcpStream) {
    let mut sink = [0; 4096];
    while matches!(socket.read(&mut sink), Ok(1..)) {}
}

fn send_whole(socket: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all(&[head.as_bytes(), body].concat())
}

/// A body of any length, piece by piece.
fn send_body(socket: &mut TcpStream, asked: &Asked) -> io::Result<()> {
    if asked.method == "HEAD" {
        return Ok(());
    }
    let piece = period(&asked.mark);
    let mut left = asked.size();
    while left > 0 {
        let count = left.min(piece.len());
        socket.write_all(&piece[..count])?;
        left -= count;
    }
    Ok(())
}

/// A whole number of repetitions, so that pieces can be put together.
fn period(mark: &str) -> Vec<u8> {
    let unit = mark.len() + 1;
    body(mark, 65_536 / unit * unit)
}

fn send_chunks(socket: &mut TcpStream, asked: &Asked) -> io::Result<()> {
    socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let piece = period(&asked.mark);
    let (mut left, mut at) = (asked.size(), 0);
    while left > 0 {
        // Sizes of every kind, from one byte on.
        let count = left.min(piece.len() - at).min(1 + left % 9973);
        write!(socket, "{count:x};x=y\r\n")?;
        socket.write_all(&piece[at..at + count])?;
        socket.write_all(b"\r\n")?;
        at = (at + count) % piece.len();
        left -= count;
    }
    socket.write_all(b"0\r\nX-Trailer: end\r\n\r\n")
}

/// A response that comes byte by byte.
fn trickle(socket: &mut TcpStream, how: &str, body: &[u8]) -> io::Result<()> {
    let response = match how {
        "chunked" => part_of_response("", body),
        _ => [b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n", body].concat(),
    };
    for (at, byte) in response.iter().enumerate() {
        socket.write_all(&[*byte])?;
        if at % 8 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// A chunked response with trailers, up to a stage.
fn part_of_response(stage: &str, body: &[u8]) -> Vec<u8> {
    if stage == "length" {
        return [
            b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n",
            &body[..100],
        ]
        .concat();
    }
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n";
    let all = [
        head.as_bytes(),
        b"c8\r\n",
        body,
        b"\r\n0\r\nX-End: 1\r\n\r\n",
    ]
    .concat();
    let end = match stage {
        "nothing" => 0,
        "status" => 7,
        "headers" => 40,
        "head" => head.len(),
        "chunk-size" => head.len() + 1,
        "chunk" => head.len() + 100,
        "last-chunk" => head.len() + 4 + body.len() + 2,
        "trailers" => all.len() - 5,
        _ => all.len(),
    };
    all[..end].to_vec()
}

/// Bytes behind the end of a response.
fn surplus(socket: &mut TcpStream, how: &str, body: &[u8]) -> io::Result<After> {
    const SECOND: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsmuggled!";
    let length = [b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n", body].concat();
    match how {
        "chunked" => {
            let all = [part_of_response("", body).as_slice(), b"more"].concat();
            socket.write_all(&all)?;
        }
        "response" => socket.write_all(&[&length, SECOND].concat())?,
        "later" => {
            socket.write_all(&length)?;
            thread::sleep(Duration::from_millis(50));
            socket.write_all(SECOND)?;
        }
        _ => socket.write_all(&[length.as_slice(), b"more"].concat())?,
    }
    Ok(After::Next)
}

/// Heads that are contradictory, malformed, or old.
fn odd_head(how: &str, body: &[u8]) -> Vec<u8> {
    let ok = |lines: &str| [b"HTTP/1.1 200 OK\r\n", lines.as_bytes(), b"\r\n", body].concat();
    let first_line = |line: &str| {
        let rest = "\r\nContent-Length: 200\r\n\r\n";
        [line.as_bytes(), rest.as_bytes(), body].concat()
    };
    match how {
        "length-twice" => ok("Content-Length: 200\r\nContent-Length: 200\r\n"),
        "lengths" => ok("Content-Length: 200\r\nContent-Length: 100\r\n"),
        "length-and-chunked" => ok("Content-Length: 200\r\nTransfer-Encoding: chunked\r\n"),
        "chunked-and-length" => ok("Transfer-Encoding: chunked\r\nContent-Length: 200\r\n"),
        "length-list" => ok("Content-Length: 200, 200\r\n"),
        "length-negative" => ok("Content-Length: -1\r\n"),
        "length-plus" => ok("Content-Length: +200\r\n"),
        "length-hex" => ok("Content-Length: 0xc8\r\n"),
        "length-words" => ok("Content-Length: many\r\n"),
        "length-empty" => ok("Content-Length:\r\n"),
        "length-overflow" => ok("Content-Length: 18446744073709551816\r\n"),
        "coding-unknown" => ok("Transfer-Encoding: gzip\r\n"),
        "coding-list" => ok("Transfer-Encoding: gzip, chunked\r\n"),
        "coding-twice" => ok("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        "folded" => ok("X-A: b\r\n c\r\nContent-Length: 200\r\n"),
        "space-before-colon" => ok("X-A : b\r\nContent-Length: 200\r\n"),
        "nul" => ok("X-A: b\0c\r\nContent-Length: 200\r\n"),
        "bare-cr" => ok("X-A: b\rc\r\nContent-Length: 200\r\n"),
        "no-colon" => ok("X-A\r\nContent-Length: 200\r\n"),
        "empty-name" => ok(": x\r\nContent-Length: 200\r\n"),
        "line-feeds" => [b"HTTP/1.1 200 OK\nContent-Length: 200\n\n", body].concat(),
        "status-0" => first_line("HTTP/1.1 000 X"),
        "status-99" => first_line("HTTP/1.1 99 X"),
        "status-1000" => first_line("HTTP/1.1 1000 X"),
        "status-words" => first_line("HTTP/1.1 OK"),
        "status-999" => first_line("HTTP/1.1 999 Nine"),
        "http-2" => first_line("HTTP/2 200"),
        "http-09" => body.to_vec(),
        "icy" => first_line("ICY 200 OK"),
        "empty-line-first" => first_line("\r\nHTTP/1.1 200 OK"),
        "garbage" => (0..=255_u8).cycle().take(2000).collect(),
        "http-10-length" => first_line("HTTP/1.0 200 OK"),
        "http-10-close" => [b"HTTP/1.0 200 OK\r\n\r\n", body].concat(),
        "http-10-keep-alive" => first_line("HTTP/1.0 200 OK\r\nConnection: keep-alive"),
        "switching" => [
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
            body,
        ]
        .concat(),
        "interim-only" => b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
        _ => ok("Content-Length: 200\r\n"),
    }
}

fn bad_chunk(how: &str) -> &'static [u8] {
    match how {
        "size" => b"zz\r\nabc\r\n0\r\n\r\n",
        "negative" => b"-3\r\nabc\r\n0\r\n\r\n",
        "hexadecimal" => b"0x3\r\nabc\r\n0\r\n\r\n",
        "overflow" => b"10000000000000003\r\nabc\r\n0\r\n\r\n",
        "no-line-end" => b"3\r\nabcdef\r\n0\r\n\r\n",
        "line-feeds" => b"3\nabc\n0\n\n",
        "empty-size" => b"\r\nabc\r\n0\r\n\r\n",
        "endless-extension" => &ENDLESS,
        _ => b"3\r\nabc\r\n0\r\nbad trailer\0\r\n\r\n",
    }
}

/// A chunk size whose extension does not end.
static ENDLESS: [u8; 100_000] = {
    let mut bytes = [b'x'; 100_000];
    bytes[0] = b'3';
    bytes[1] = b';';
    bytes
};

/// Answers before the request body has been read.
fn early(socket: &mut TcpStream, asked: &Asked) -> io::Result<After> {
    const TOO_LARGE: &[u8] =
        b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlong";
    match asked.how.as_str() {
        // What was not read makes the kernel reset the connection.
        "close" => {
            read_last_byte(socket)?;
            socket.write_all(TOO_LARGE)?;
            thread::sleep(Duration::from_millis(50));
            Ok(After::Reset)
        }
        "keep" => {
            socket.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nlong")?;
            Ok(After::Next)
        }
        // Reads nothing more, and says so late.
        "stall" => {
            socket.write_all(TOO_LARGE)?;
            thread::sleep(Duration::from_secs(3));
            Ok(After::Reset)
        }
        _ => {
            read_last_byte(socket)?;
            let mut half = vec![0; asked.content_length.unwrap_or(0) / 2];
            socket.read_exact(&mut half)?;
            socket.write_all(TOO_LARGE)?;
            wait_for_end(socket);
            Ok(After::Close)
        }
    }
}

/// Answers with the SHA-256 of the request body.
fn digest(socket: &mut TcpStream, asked: &Asked) -> io::Result<()> {
    read_last_byte(socket)?;
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or(ErrorKind::BrokenPipe)?;
    let read = read_body(socket, asked, &mut stdin);
    drop(stdin);
    let output = child.wait_with_output()?;
    read?;
    send_whole(socket, output.stdout.get(..64).unwrap_or_default())
}
