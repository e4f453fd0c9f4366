//! What stands behind the proxying handlers: origins for each protocol that write down
//! every request that they understood, by the connection it came from.

use sealane_http::h2::PREFACE;
use sealane_http::h2::hpack::{Decoder, FieldLimits};
use sealane_tests::PATIENCE;
use sealane_tests::fastcgi::{self, FastCgiOrigin};
use sealane_tests::http2::Fields;
use sealane_tests::http2::{flag, frame, kind};
use sealane_tests::understanding::{Manner, Understanding};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What was understood: where, and what.
type Seen = (&'static str, String);

/// By the id that the server under test adds to every request it sends; without one, the
/// request is none of those.
#[derive(Debug, Default)]
struct Records(Mutex<HashMap<String, Vec<Seen>>>);

impl Records {
    fn add(&self, origin: &'static str, id: &str, text: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(id.to_owned()).or_default().push((origin, text));
    }

    fn take(&self, id: &str) -> Vec<Seen> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(id).unwrap_or_default()
    }
}

/// All origins of one server.
pub(crate) struct Origins {
    by_http1: [(&'static str, Understanding); 4],
    fastcgi: FastCgiOrigin,
    others: [Listening; 3],
    records: Arc<Records>,
}

impl Origins {
    pub(crate) fn start() -> Origins {
        let records = Arc::new(Records::default());
        let by_fastcgi = records.clone();
        let fastcgi = FastCgiOrigin::start(move |request, socket| {
            let text = format!(
                "{} {}",
                request.parameter("REQUEST_METHOD"),
                request.parameter("REQUEST_URI")
            );
            by_fastcgi.add("fastcgi", request.parameter("X_ID"), text);
            fastcgi::answer(socket, b"Status: 200 OK\r\n\r\nfastcgi") && request.keep
        });
        Origins {
            by_http1: [
                ("strict", Understanding::start(Manner::Strict)),
                ("lax", Understanding::start(Manner::Lax)),
                ("length", Understanding::start(Manner::LaxByLength)),
                ("asked", Understanding::start(Manner::Strict)),
            ],
            fastcgi,
            others: [
                Listening::start("uwsgi", &records, serve_uwsgi),
                Listening::start("scgi", &records, serve_scgi),
                Listening::start("http2", &records, serve_http2),
            ],
            records,
        }
    }

    /// Name and port of each.
    pub(crate) fn ports(&self) -> Vec<(&'static str, u16)> {
        let http1 = self.by_http1.iter();
        let mut all: Vec<_> = http1.map(|(name, one)| (*name, one.port())).collect();
        all.push(("fastcgi", self.fastcgi.port()));
        all.extend(self.others.iter().map(|one| (one.name, one.port)));
        all
    }

    /// Takes what came for a connection: the origin, and method, target and body.
    pub(crate) fn take(&self, id: &str) -> Vec<Seen> {
        self.collect();
        self.records.take(id)
    }

    /// Takes what is no request of the server's at all.
    pub(crate) fn strays(&self) -> Vec<Seen> {
        self.take("")
    }

    fn collect(&self) {
        for (name, origin) in &self.by_http1 {
            for one in origin.take() {
                // The server closed within a request that turned out to be malformed.
                if one.text != "REFUSED cut" {
                    self.records.add(name, &one.id, one.text);
                }
            }
        }
    }
}

/// A thread that accepts, until this is dropped.
struct Listening {
    name: &'static str,
    port: u16,
    stopped: Arc<AtomicBool>,
}

type Serve = fn(&mut TcpStream, &mut dyn FnMut(&str, String)) -> Option<()>;

impl Listening {
    fn start(name: &'static str, records: &Arc<Records>, serve: Serve) -> Listening {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let stopped = Arc::new(AtomicBool::new(false));
        let (is_stopped, records) = (stopped.clone(), records.clone());
        std::thread::spawn(move || {
            for mut socket in listener.incoming().map_while(Result::ok) {
                if is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                let records = records.clone();
                std::thread::spawn(move || {
                    let _ = socket.set_nodelay(true);
                    let _ = socket.set_read_timeout(Some(PATIENCE));
                    let mut record = |id: &str, text: String| records.add(name, id, text);
                    let _ = serve(&mut socket, &mut record);
                    let _ = socket.shutdown(Shutdown::Write);
                });
            }
        });
        Listening {
            name,
            port,
            stopped,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// The value of a variable; empty without it.
fn value<'v>(variables: &'v [(String, String)], wanted: &str) -> &'v str {
    let found = variables.iter().find(|(name, _)| name == wanted);
    found.map_or("", |(_, value)| value)
}

/// Reads the body of a request by CGI, notes it and answers.
fn finish_cgi(
    socket: &mut TcpStream,
    variables: &[(String, String)],
    status: &str,
    record: &mut dyn FnMut(&str, String),
) -> Option<()> {
    let length = value(variables, "CONTENT_LENGTH").parse().unwrap_or(0);
    let mut body = vec![0; length];
    socket.read_exact(&mut body).ok()?;
    let [method, target] =
        ["REQUEST_METHOD", "REQUEST_URI"].map(|name| value(variables, name).to_owned());
    record(value(variables, "X_ID"), format!("{method} {target}"));
    let answer = format!("{status}\r\nContent-Length: 3\r\n\r\ncgi");
    socket.write_all(answer.as_bytes()).ok()
}

/// One request by uwsgi: a header of four bytes, then names and values with lengths.
fn serve_uwsgi(socket: &mut TcpStream, record: &mut dyn FnMut(&str, String)) -> Option<()> {
    let mut header = [0; 4];
    socket.read_exact(&mut header).ok()?;
    let mut packet = vec![0; usize::from(u16::from_le_bytes([header[1], header[2]]))];
    socket.read_exact(&mut packet).ok()?;
    let mut rest = packet.as_slice();
    let mut text = || -> Option<String> {
        let (length, behind) = rest.split_first_chunk()?;
        let (text, behind) = behind.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        rest = behind;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let mut variables = Vec::new();
    while let Some(name) = text() {
        variables.push((name, text()?));
    }
    finish_cgi(socket, &variables, "HTTP/1.1 200 OK", record)
}

/// One request by SCGI: a netstring of names and values that end with NUL.
fn serve_scgi(socket: &mut TcpStream, record: &mut dyn FnMut(&str, String)) -> Option<()> {
    let mut length = String::new();
    let mut byte = [0];
    while !length.ends_with(':') {
        socket.read_exact(&mut byte).ok()?;
        length.push(char::from(byte[0]));
    }
    let length: usize = length.trim_end_matches(':').parse().ok()?;
    let mut block = vec![0; length + 1];
    socket.read_exact(&mut block).ok()?;
    let text = String::from_utf8_lossy(&block[..length]).into_owned();
    let mut words = text.split('\0').map(str::to_owned);
    let mut variables = Vec::new();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        variables.push((name, value));
    }
    finish_cgi(socket, &variables, "Status: 200 OK", record)
}

/// A request of which the body may still be coming.
struct Coming {
    fields: Vec<(String, String)>,
    body_bytes: usize,
}

/// Requests by HTTP/2, as RFC 9113 section 8 wants them.
fn serve_http2(socket: &mut TcpStream, record: &mut dyn FnMut(&str, String)) -> Option<()> {
    let mut preface = [0; PREFACE.len()];
    socket.read_exact(&mut preface).ok()?;
    socket.write_all(&frame(kind::SETTINGS, 0, 0, &[])).ok()?;
    let mut decoder = Decoder::new();
    let mut streams: HashMap<u32, Coming> = HashMap::new();
    let mut block = Vec::new();
    let mut ends = false;
    loop {
        let (type_, flags, stream, payload) = next_frame(socket)?;
        match type_ {
            kind::SETTINGS if flags & flag::ACK == 0 => {
                socket
                    .write_all(&frame(kind::SETTINGS, flag::ACK, 0, &[]))
                    .ok()?;
            }
            kind::PING if flags & flag::ACK == 0 => {
                socket
                    .write_all(&frame(kind::PING, flag::ACK, 0, &payload))
                    .ok()?;
            }
            kind::HEADERS | kind::CONTINUATION => {
                if type_ == kind::HEADERS {
                    ends = flags & flag::END_STREAM != 0;
                }
                // Of these two neither pads nor says priorities.
                block.extend_from_slice(&payload);
                if flags & flag::END_HEADERS == 0 {
                    continue;
                }
                let fields = decode(&mut decoder, &std::mem::take(&mut block));
                streams.entry(stream).or_insert(Coming {
                    fields,
                    body_bytes: 0,
                });
            }
            kind::DATA => {
                ends = flags & flag::END_STREAM != 0;
                if let Some(coming) = streams.get_mut(&stream) {
                    coming.body_bytes += payload.len();
                }
                let increment = (payload.len() as u32).to_be_bytes();
                if !payload.is_empty() {
                    socket
                        .write_all(&frame(kind::WINDOW_UPDATE, 0, 0, &increment))
                        .ok()?;
                }
            }
            kind::RST_STREAM => {
                streams.remove(&stream);
                continue;
            }
            _ => continue,
        }
        if !ends || !matches!(type_, kind::HEADERS | kind::CONTINUATION | kind::DATA) {
            continue;
        }
        let Some(coming) = streams.remove(&stream) else {
            continue;
        };
        let text = match refusal(&coming) {
            None => format!(
                "{} {}",
                value(&coming.fields, ":method"),
                value(&coming.fields, ":path")
            ),
            Some(why) => format!("REFUSED {why}: {:?}", coming.fields),
        };
        record(value(&coming.fields, "x-id"), text);
        // `:status: 200`.
        let flags = flag::END_HEADERS | flag::END_STREAM;
        socket
            .write_all(&frame(kind::HEADERS, flags, stream, &[0x88]))
            .ok()?;
    }
}

fn next_frame(socket: &mut TcpStream) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut header = [0; 9];
    socket.read_exact(&mut header).ok()?;
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
    let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
    let mut payload = vec![0; length as usize];
    socket.read_exact(&mut payload).ok()?;
    Some((header[3], header[4], stream, payload))
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, String)> {
    let limits = FieldLimits {
        max_field_bytes: 1 << 20,
        max_block_bytes: 1 << 20,
        max_fields: 10_000,
    };
    let mut fields = Fields::default();
    match decoder.decode(block, &limits, &mut Vec::new(), &mut fields) {
        Ok(_) => fields.0,
        Err(error) => vec![(format!("{error:?}"), String::new())],
    }
}

/// Why a request is malformed (RFC 9113 sections 8.1 to 8.3).
fn refusal(coming: &Coming) -> Option<&'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let mut regular = false;
    for (name, value) in &coming.fields {
        match name.strip_prefix(':') {
            Some(_) if regular => return Some("a pseudo-header behind a header"),
            Some("method" | "scheme" | "path" | "authority") => {}
            Some(_) => return Some("an unknown pseudo-header"),
            None => regular = true,
        }
        let bare = name.trim_start_matches(':');
        if bare.is_empty() || !bare.bytes().all(|b| is_token(b) && !b.is_ascii_uppercase()) {
            return Some("a name that is none");
        }
        if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Some("a line end in a value");
        }
        if matches!(
            name.as_str(),
            "connection" | "transfer-encoding" | "upgrade" | "keep-alive" | "proxy-connection"
        ) || (name == "te" && value != "trailers")
        {
            return Some("a field of the connection");
        }
        if name == "content-length" && value.parse() != Ok(coming.body_bytes) {
            return Some("another length");
        }
        let twice = coming.fields.iter().filter(|(other, _)| other == name);
        if name.starts_with(':') && twice.count() > 1 {
            return Some("a pseudo-header twice");
        }
    }
    let (method, path) = (
        value(&coming.fields, ":method"),
        value(&coming.fields, ":path"),
    );
    if method.is_empty() || !method.bytes().all(is_token) {
        return Some("a method that is no token");
    }
    let starts = path.starts_with('/') || path == "*";
    if !starts || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Some("a path that is none");
    }
    None
}
