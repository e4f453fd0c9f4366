//! Origins that record which requests they understood. One parses strictly; the others are as
//! lenient as some server somewhere is, each in its own way.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How an origin reads requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// By RFC 9112: what is malformed, or contradictory, is refused.
    Strict,
    /// Any line end, blanks anywhere, `chunked` anywhere in `Transfer-Encoding`, which comes
    /// before `Content-Length`.
    Lax,
    /// The same, but `Content-Length` comes first, and the last one counts.
    LaxByLength,
}

/// An origin on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct Understanding {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    understood: Mutex<Vec<Understood>>,
}

/// A request as it was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Understood {
    /// Method, target, `+smuggled` if there was a header `X-Smuggled`, and the body; or
    /// `REFUSED` and why.
    pub text: String,
    /// The values of `X-Id`, with commas between.
    pub id: String,
}

struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Understanding {
    /// Starts it.
    pub fn start(manner: Manner) -> Understanding {
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
                thread::spawn(move || serve(socket, manner, &shared));
            }
        });
        Understanding { port, shared }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What was understood since this was last asked.
    pub fn take(&self) -> Vec<Understood> {
        std::mem::take(&mut *self.shared.lock())
    }
}

impl Drop for Understanding {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Understood>> {
        self.understood
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    fn understood(&self) -> Understood {
        let ids = self.headers.iter().filter(|(name, _)| name == "x-id");
        let ids: Vec<&str> = ids.map(|(_, id)| id.as_str()).collect();
        Understood {
            text: self.text(),
            id: ids.join(","),
        }
    }

    fn text(&self) -> String {
        let is_smuggled = |name: &str| name.eq_ignore_ascii_case("x-smuggled");
        let mark = match self.headers.iter().any(|(name, _)| is_smuggled(name)) {
            true => " +smuggled",
            false => "",
        };
        let body = self.body.escape_ascii();
        format!("{} {}{mark} {body}", self.method, self.target)
            .trim_end_matches(' ')
            .to_owned()
    }
}

fn serve(mut socket: TcpStream, manner: Manner, shared: &Shared) {
    let _ = socket.set_nodelay(true);
    let _ = socket.set_read_timeout(Some(crate::PATIENCE));
    let Ok(reading) = socket.try_clone() else {
        return;
    };
    let mut input = Input {
        socket: reading,
        bytes: Vec::new(),
        manner,
    };
    loop {
        match input.request() {
            Ok(Some(request)) => {
                let understood = request.understood();
                let (text, id) = (understood.text.clone(), understood.id.clone());
                shared.lock().push(understood);
                let length = text.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nX-Seen: {id}\r\n\r\n");
                let body = if request.method == "HEAD" { "" } else { &text };
                if socket
                    .write_all(format!("{head}{body}").as_bytes())
                    .is_err()
                {
                    return;
                }
            }
            Ok(None) => return,
            Err(why) => {
                shared.lock().push(Understood {
                    text: format!("REFUSED {why}"),
                    id: String::new(),
                });
                let _ = socket.write_all(
                    b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                );
                return;
            }
        }
    }
}

struct Input {
    socket: TcpStream,
    bytes: Vec<u8>,
    manner: Manner,
}

/// The connection has ended within a request.
const CUT: &str = "cut";

impl Input {
    fn fill(&mut self) -> bool {
        let mut piece = [0; 16_384];
        match self.socket.read(&mut piece) {
            Ok(count @ 1..) => {
                self.bytes.extend_from_slice(&piece[..count]);
                true
            }
            _ => false,
        }
    }

    fn is_strict(&self) -> bool {
        self.manner == Manner::Strict
    }

    /// The next line without its end; `None` at the end of the connection.
    fn line(&mut self) -> Result<Option<String>, &'static str> {
        loop {
            let end = self.bytes.iter().position(|byte| match self.manner {
                Manner::Strict => *byte == b'\n',
                _ => matches!(byte, b'\n' | b'\r'),
            });
            let Some(end) = end else {
                if !self.fill() {
                    return match self.bytes.is_empty() {
                        true => Ok(None),
                        false => Err(CUT),
                    };
                }
                continue;
            };
            // A CR at the end of what is there may belong to a CR LF.
            if self.bytes[end] == b'\r' && self.bytes.len() == end + 1 && self.fill() {
                continue;
            }
            let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
            let last = line.pop();
            if last == Some(b'\r') && self.bytes.first() == Some(&b'\n') {
                self.bytes.remove(0);
            }
            if self.is_strict() {
                if line.pop() != Some(b'\r') {
                    return Err("a line that ends with LF");
                }
                if line.iter().any(|byte| matches!(byte, b'\r' | 0)) {
                    return Err("CR or NUL in a line");
                }
            }
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }

    fn must_line(&mut self) -> Result<String, &'static str> {
        self.line()?.ok_or(CUT)
    }

    fn request(&mut self) -> Result<Option<Request>, &'static str> {
        let first = loop {
            match self.line()? {
                None => return Ok(None),
                Some(line) if line.trim().is_empty() && !self.is_strict() => {}
                Some(line) => break line,
            }
        };
        let (method, target) = match self.is_strict() {
            true => strict_request_line(&first)?,
            false => {
                let mut words = first.split_ascii_whitespace();
                let mut word = || words.next().unwrap_or_default().to_owned();
                (word(), word())
            }
        };
        let headers = self.headers()?;
        let body = self.body(&headers)?;
        Ok(Some(Request {
            method,
            target,
            headers,
            body,
        }))
    }

    fn headers(&mut self) -> Result<Vec<(String, String)>, &'static str> {
        let mut headers: Vec<(String, String)> = Vec::new();
        loop {
            let line = self.must_line()?;
            if line.is_empty() {
                break;
            }
            if line.starts_with([' ', '\t']) {
                if self.is_strict() {
                    return Err("folding");
                }
                if let Some((_, value)) = headers.last_mut() {
                    value.push_str(&line);
                }
                continue;
            }
            let (name, value) = match line.split_once(':') {
                Some(parts) => parts,
                None if self.is_strict() => return Err("a header without a colon"),
                None => (line.as_str(), ""),
            };
            if self.is_strict() && (name.is_empty() || !name.bytes().all(is_token)) {
                return Err("a header name that is no token");
            }
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        if self.is_strict() {
            let hosts = headers.iter().filter(|(name, _)| name == "host").count();
            if hosts != 1 {
                return Err("not one Host");
            }
        }
        Ok(headers)
    }

    fn body(&mut self, headers: &[(String, String)]) -> Result<Vec<u8>, &'static str> {
        let all = |wanted: &str| -> Vec<&str> {
            let found = headers.iter().filter(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str()).collect()
        };
        let (lengths, codings) = (all("content-length"), all("transfer-encoding"));
        let chunked = codings
            .iter()
            .any(|coding| coding.to_ascii_lowercase().contains("chunked"));
        match self.manner {
            Manner::Strict => {
                if !lengths.is_empty() && !codings.is_empty() {
                    return Err("Content-Length and Transfer-Encoding");
                }
                if lengths.len() > 1 || codings.len() > 1 {
                    return Err("framing twice");
                }
                if let Some(coding) = codings.first() {
                    if !coding.eq_ignore_ascii_case("chunked") {
                        return Err("an unknown coding");
                    }
                    return self.chunks();
                }
                match lengths.first() {
                    Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                        self.take(length.parse().map_err(|_| "a length that is too large")?)
                    }
                    Some(_) => Err("a length that is none"),
                    None => Ok(Vec::new()),
                }
            }
            Manner::Lax if chunked => self.chunks(),
            Manner::LaxByLength if chunked && lengths.is_empty() => self.chunks(),
            Manner::Lax => self.take(lax_number(lengths.first().copied(), 10)),
            Manner::LaxByLength => self.take(lax_number(lengths.last().copied(), 10)),
        }
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, &'static str> {
        while self.bytes.len() < count {
            if !self.fill() {
                return Err(CUT);
            }
        }
        Ok(self.bytes.drain(..count).collect())
    }

    fn chunks(&mut self) -> Result<Vec<u8>, &'static str> {
        let mut body = Vec::new();
        loop {
            let line = self.must_line()?;
            let size = match self.is_strict() {
                true => {
                    let digits = line.split(';').next().unwrap_or_default();
                    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        return Err("a chunk size that is none");
                    }
                    usize::from_str_radix(digits, 16).map_err(|_| "a chunk that is too large")?
                }
                false => lax_number(Some(&line), 16),
            };
            if size == 0 {
                while !self.must_line()?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.take(size)?);
            let end = self.must_line()?;
            if self.is_strict() && !end.is_empty() {
                return Err("no line end behind a chunk");
            }
        }
    }
}

/// What begins like a number is one.
fn lax_number(text: Option<&str>, radix: u32) -> usize {
    let text = text.unwrap_or_default().trim();
    let text = text
        .strip_prefix("0x")
        .unwrap_or(text)
        .trim_start_matches('+');
    let digits: String = text.chars().take_while(|c| c.is_digit(radix)).collect();
    usize::from_str_radix(&digits, radix).unwrap_or(0)
}

fn strict_request_line(line: &str) -> Result<(String, String), &'static str> {
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else {
        return Err("a request line that is none");
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err("a method that is no token");
    }
    if target.is_empty() || target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err("a target that is none");
    }
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err("a version that is none");
    }
    Ok((method.to_owned(), target.to_owned()))
}

/// A character of a token (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
