//! One connection by HTTP/2: the frames of a case, then a request that is beyond reproach.
//!
//! The frames of a case are separated by ` ; `:
//!
//! ```text
//! HEADERS+EH@1 get x=y ; DATA+E@1 'hello' ; 0xfe+0x10@0 0x0001 len:7 ; raw 'text'
//! ```
//!
//! A type by its name or number; flags as letters (E: END_STREAM or ACK, H: END_HEADERS,
//! P: PADDED, Y: PRIORITY) or a number; the stream; then the payload: `get` and `post` are
//! heads of decent requests, `name=value` is a literal field, `0x..` and `'...'` are bytes.
//! `len:N` lies about the length and `times:N` sends the frame N times. `bare` as the first
//! item leaves out the preface and SETTINGS, and `raw` is not a frame.

use super::reading::{self, Case};
use super::servers::{Handler, SECRET};
use super::{Outcome, SILENCE};
use sealane_http::h2::PREFACE;
use sealane_tests::http2::{Client, flag, frame, head, kind, push_field};
use std::collections::{BTreeMap, BTreeSet};

/// Greater than what cases use, and not the greatest.
const FOLLOWER: u32 = 0x7fff_fffd;

/// What is sent for a case.
struct Stream {
    has_preface: bool,
    bytes: Vec<u8>,
    /// Streams that the client has ended, which have an outcome unless the connection ends.
    ended: BTreeSet<u32>,
}

fn kind_of(word: &str) -> u8 {
    match word {
        "DATA" => kind::DATA,
        "HEADERS" => kind::HEADERS,
        "PRIORITY" => kind::PRIORITY,
        "RST_STREAM" => kind::RST_STREAM,
        "SETTINGS" => kind::SETTINGS,
        "PUSH_PROMISE" => 5,
        "PING" => kind::PING,
        "GOAWAY" => kind::GOAWAY,
        "WINDOW_UPDATE" => kind::WINDOW_UPDATE,
        "CONTINUATION" => kind::CONTINUATION,
        "PRIORITY_UPDATE" => kind::PRIORITY_UPDATE,
        other => number(other) as u8,
    }
}

fn flags_of(word: &str) -> u8 {
    if word.starts_with("0x") {
        return number(word) as u8;
    }
    let letter = |letter| match letter {
        'E' => flag::END_STREAM,
        'H' => flag::END_HEADERS,
        'P' => 0x8,
        'Y' => 0x20,
        other => panic!("an unknown flag {other}"),
    };
    word.chars().map(letter).sum()
}

fn number(word: &str) -> u32 {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{word:?} is no number"))
}

fn hexadecimal(digits: &str) -> Vec<u8> {
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    let bytes = digits.as_bytes().chunks(2).map(pair);
    bytes
        .collect::<Option<Vec<u8>>>()
        .unwrap_or_else(|| panic!("{digits:?} are no bytes"))
}

fn payload(word: &str, method: &str, out: &mut Vec<u8>) {
    if let Some(digits) = word.strip_prefix("0x") {
        out.extend(hexadecimal(digits));
    } else if let Some(text) = word.strip_prefix('\'') {
        out.extend(reading::bytes(text.strip_suffix('\'').expect("two quotes")));
    } else if word == "get" {
        out.extend(head("GET", "/t", &[]));
    } else if word == "post" {
        out.extend(head(method, "/t", &[]));
    } else {
        let end = word[1..].find('=').expect("a name and a value") + 1;
        let [name, value] = [&word[..end], &word[end + 1..]].map(reading::bytes);
        let value = match (word.starts_with(":method"), value.as_slice()) {
            (true, b"POST") => method.as_bytes().to_vec(),
            _ => value,
        };
        // An empty name is written as `-`.
        let name = if name == b"-" { Vec::new() } else { name };
        push_bytes(out, &name, &value);
    }
}

/// A literal field; what is not UTF-8 stands for bytes of its own.
fn push_bytes(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let lossless = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
    match (lossless(name), lossless(value)) {
        (Ok(name), Ok(value)) => push_field(out, &name, &value),
        _ => {
            let short = |bytes: &[u8]| u8::try_from(bytes.len()).expect("less than 127 bytes");
            out.push(0);
            for text in [name, value] {
                out.push(short(text));
                out.extend_from_slice(text);
            }
        }
    }
}

fn stream(case: &Case, method: &str) -> Stream {
    let mut stream = Stream {
        has_preface: true,
        bytes: Vec::new(),
        ended: BTreeSet::new(),
    };
    for item in case.text.split(" ; ").filter(|item| !item.is_empty()) {
        let mut words = item.split(' ');
        let first = words.next().expect("splitting gives one part");
        match first {
            "bare" => {
                stream.has_preface = false;
                continue;
            }
            "raw" => {
                words.for_each(|word| payload(word, method, &mut stream.bytes));
                continue;
            }
            _ => {}
        }
        let (what, id) = first.split_once('@').expect("a stream");
        let (type_, flags) = what.split_once('+').unwrap_or((what, ""));
        let (type_, flags, id) = (kind_of(type_), flags_of(flags), number(id));
        let (mut content, mut length, mut times) = (Vec::new(), None, 1);
        for word in words {
            if let Some(text) = word.strip_prefix("len:") {
                length = Some(number(text));
            } else if let Some(text) = word.strip_prefix("times:") {
                times = number(text);
            } else {
                payload(word, method, &mut content);
            }
        }
        let mut bytes = frame(type_, flags, id, &content);
        if let Some(length) = length {
            bytes[..3].copy_from_slice(&length.to_be_bytes()[1..]);
        }
        (0..times).for_each(|_| stream.bytes.extend_from_slice(&bytes));
        let ends = matches!(type_, kind::DATA | kind::HEADERS) && flags & flag::END_STREAM != 0;
        if ends && id & 1 == 1 {
            stream.ended.insert(id & 0x7fff_ffff);
        } else if type_ == kind::RST_STREAM {
            stream.ended.remove(&id);
        }
    }
    stream
}

/// What has come back so far.
#[derive(Default)]
struct Come {
    statuses: BTreeMap<u32, String>,
    over: BTreeSet<u32>,
    leaks: bool,
}

impl Come {
    /// Reads until these streams are over; false when the connection is.
    fn read(&mut self, client: &mut Client, wanted: &BTreeSet<u32>) -> bool {
        while !wanted.is_subset(&self.over) {
            let Some(frame) = client.next_frame() else {
                return false;
            };
            match frame.kind {
                kind::HEADERS => {
                    let fields = client.decode(&frame.payload);
                    let status = fields.iter().find(|(name, _)| name == ":status");
                    if let Some((_, status)) = status.filter(|(_, code)| !code.starts_with('1')) {
                        self.statuses.insert(frame.stream, status.clone());
                    }
                }
                kind::RST_STREAM => {
                    self.statuses
                        .entry(frame.stream)
                        .or_insert_with(|| "refused".to_owned());
                }
                kind::DATA => {
                    let wanted = SECRET.as_bytes();
                    let mut parts = frame.payload.windows(wanted.len());
                    self.leaks |= parts.any(|part| part == wanted);
                }
                kind::GOAWAY if frame.number(4) != 0 => return false,
                _ => {}
            }
            if frame.ends_stream() {
                self.over.insert(frame.stream);
            }
        }
        true
    }
}

pub(crate) fn run(port: u16, case: &Case, handler: &Handler) -> Outcome {
    let stream = stream(case, handler.method);
    let mut client = Client::on(super::connect(port));
    if stream.has_preface {
        client.send(PREFACE);
        client.settings(&[]);
    }
    let own = client.socket().local_addr().expect("it is connected");
    for set in [
        std::net::TcpStream::set_read_timeout,
        std::net::TcpStream::set_write_timeout,
    ] {
        set(client.socket(), Some(SILENCE)).expect("it is not zero");
    }
    let begun = std::time::Instant::now();
    client.send(&stream.bytes);
    let mut come = Come::default();
    if come.read(&mut client, &stream.ended) {
        let flags = flag::END_STREAM | flag::END_HEADERS;
        let follower = head("GET", "/follower", &[]);
        client.frame(kind::HEADERS, flags, FOLLOWER, &follower);
        come.read(&mut client, &BTreeSet::from([FOLLOWER]));
    }
    // A stream that the client has not ended may have an outcome by now or later.
    come.statuses
        .retain(|id, _| stream.ended.contains(id) || *id == FOLLOWER);
    let shown = come
        .statuses
        .into_values()
        .map(|status| match status.as_str() {
            // Malformed requests are refused either way (RFC 9113 section 8.1.1).
            "400" => "refused".to_owned(),
            _ => status,
        });
    Outcome {
        id: format!("{}-{port}", own.port()),
        statuses: shown.collect(),
        leaks: come.leaks,
        hangs: begun.elapsed() >= SILENCE,
        reset: false,
    }
}
