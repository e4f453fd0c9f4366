//! HTTP/2 connections, both sides.

use std::sync::Arc;
use std::time::Duration;

use crate::StatusCode;
use crate::h1;
use crate::h2::{
    Allowance, Connection, Event, Fault, HEADER_BYTES, Limits, PREFACE, Priority, RequestTarget,
    Role, Scheme, Settings, StreamRef,
};
use crate::headers::{Field, KnownHeader};

/// The server side. The first byte chooses settings and what the application does; the rest is what
/// the client sends after its preface (or, depending on a bit of the choice, including it).
///
/// However the bytes are split, the events, the end and all output are the same. Output consists of
/// whole frames. Memory and output stay within what limits and input allow, and requests that are
/// passed on have a consistent head.
pub fn fuzz_h2_server(data: &[u8]) {
    run(Role::Server, data);
}

/// The client side with three requests in progress, like [`fuzz_h2_server`].
pub fn fuzz_h2_client(data: &[u8]) {
    run(Role::Client, data);
}

fn run(role: Role, data: &[u8]) {
    let Some((&choice, input)) = data.split_first() else {
        return;
    };
    let at_once = Run::new(role, choice).feed(input, input.len().max(1));
    let bytes = Run::new(role, choice).feed(input, 1);
    assert_eq!(at_once, bytes, "byte by byte");
    let piece = usize::from(choice) % 13 + 2;
    let pieces = Run::new(role, choice).feed(input, piece);
    assert_eq!(at_once, pieces, "in pieces");
}

/// Large enough that honest windows do not matter, small enough to be exhausted by a fuzzer.
const BODY_BYTES: u32 = 3000;

pub(super) fn settings_from(choice: u8) -> Settings {
    let tight = Allowance {
        burst: 4,
        per_second: 0,
    };
    let mut settings = Settings::default();
    if choice & 1 != 0 {
        settings.max_concurrent_streams = 3;
        settings.stream_window_bytes = 100;
        settings.data_frame_bytes = 500;
        settings.head = h1::Limits {
            large_buffer_bytes: 100,
            large_buffer_count: 2,
            max_headers: 6,
            ..h1::Limits::default()
        };
    }
    if choice & 2 != 0 {
        settings.limits = Limits {
            resets: tight,
            settings: tight,
            pings: tight,
            empty_frames: tight,
            priority_frames: tight,
            window_updates: tight,
            oversized_heads: tight,
            header_block_bytes: 300,
            continuation_frames: 2,
            unread_replies: 10,
        };
    }
    settings.head.ignore_invalid_headers = choice & 4 == 0;
    settings
}

/// The part that can be compared between runs.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Events in words, parts of a body joined.
    events: Vec<String>,
    body: Vec<u8>,
    fault: Option<Fault>,
    written: Vec<u8>,
}

struct Run {
    connection: Connection,
    settings: Settings,
    choice: u8,
    written: Vec<u8>,
    events: Vec<String>,
    body: Vec<u8>,
    open: Vec<StreamRef>,
}

impl Run {
    fn new(role: Role, choice: u8) -> Run {
        let settings = settings_from(choice);
        let shared = Arc::new(settings.clone());
        let mut written = Vec::new();
        let connection = match role {
            Role::Server => Connection::server(shared, Duration::ZERO, &mut written),
            Role::Client => Connection::client(shared, Duration::ZERO, &mut written),
        };
        let mut run = Run {
            connection,
            settings,
            choice,
            written,
            events: Vec::new(),
            body: Vec::new(),
            open: Vec::new(),
        };
        if role == Role::Client {
            run.ask();
        }
        run
    }

    fn ask(&mut self) {
        for method in [&b"GET"[..], b"HEAD", b"POST"] {
            let target = RequestTarget::new(method, Scheme::Https, b"a", b"/").expect("valid");
            let end = method != b"POST";
            let opened = self
                .connection
                .open(&target, [], end, &mut self.written)
                .expect("three streams are few");
            if !end {
                self.connection.offer(opened);
            }
            self.open.push(opened);
        }
    }

    fn feed(mut self, input: &[u8], piece: usize) -> Outcome {
        let mut bytes = Vec::new();
        if self.choice & 8 == 0 {
            if self.connection.role() == Role::Server {
                bytes.extend_from_slice(PREFACE);
            }
            // SETTINGS and the acknowledgement of ours.
            bytes.extend_from_slice(b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0");
        }
        bytes.extend_from_slice(input);
        let (mut at, mut end) = (0, 0);
        let mut fault = None;
        while end < bytes.len() && fault.is_none() {
            end = (end + piece).min(bytes.len());
            fault = self.take(&bytes[..end], &mut at).err();
            if fault.is_some() {
                super::refused::connection(&mut self.connection, &bytes[at..]);
            }
            assert!(fault.is_some() || end - at < self.connection.max_unconsumed_bytes());
        }
        self.check(bytes.len(), fault);
        Outcome {
            events: self.events,
            body: self.body,
            fault,
            written: self.written,
        }
    }

    fn take(&mut self, input: &[u8], at: &mut usize) -> Result<(), Fault> {
        loop {
            let now = Duration::from_secs(1);
            let received = self
                .connection
                .receive(&input[*at..], now, &mut self.written)?;
            *at += received.consumed;
            let Some(event) = received.event else {
                return Ok(());
            };
            self.act(event);
            let most = self.settings.max_concurrent_streams as usize;
            assert!(self.connection.open_streams() <= most.max(3));
        }
    }

    /// The application: responds at once, sends a little, and reads all of a body or none of it.
    fn act(&mut self, event: Event<'_>) {
        let word = match event {
            Event::Request {
                stream,
                request,
                end,
            } => {
                check_request(&request, self.settings.head.max_headers);
                self.answer(stream);
                format!("{stream:?} {:?} {end}", request.head)
            }
            Event::Refused {
                stream,
                request,
                error,
                end,
            } => {
                assert!((400..=505).contains(&error.status().0));
                if let Some(excerpt) = error.excerpt() {
                    assert!(excerpt.end as usize <= request.text.len());
                }
                self.answer(stream);
                format!("{stream:?} {error} {end}")
            }
            Event::Interim { stream, response }
            | Event::Response {
                stream, response, ..
            } => {
                for header in &response.head.headers {
                    assert!(header.value.end as usize <= response.text.len());
                }
                format!("{stream:?} {:?}", response.head)
            }
            Event::Data { stream, bytes, end } => {
                self.body.extend_from_slice(bytes);
                if end {
                    let held = self.connection.unreleased(stream) as usize;
                    self.connection.release(stream, held, &mut self.written);
                }
                let word = format!("{stream:?} data");
                if self.events.last() == Some(&word) {
                    self.events.pop();
                }
                if end { format!("{word} end") } else { word }
            }
            Event::Trailers { stream, trailers } => {
                let fields: Vec<_> = trailers.iter().collect();
                format!("{stream:?} {fields:?}")
            }
            other => format!("{other:?}"),
        };
        let is_data = word.ends_with("data");
        self.events.push(word);
        if !is_data {
            self.send();
        }
    }

    fn answer(&mut self, stream: StreamRef) {
        let fields = [Field::from_static("server", "fuzz")];
        let end = self.choice & 16 != 0;
        self.connection
            .send_head(stream, StatusCode::OK, fields, end, &mut self.written)
            .expect("a new stream");
        if !end {
            self.connection.offer(stream);
        }
    }

    /// Sends one frame for the stream whose turn it is. Streams end after a few frames.
    fn send(&mut self) {
        if let Some(grant) = self.connection.next_data() {
            assert!(grant.max_bytes > 0);
            let bytes = grant.max_bytes.min(BODY_BYTES);
            let end = bytes % 3 == 0;
            self.connection
                .data(grant.stream, bytes, end, &mut self.written)
                .expect("within the grant");
            self.written
                .resize(self.written.len() + bytes as usize, b'x');
            if self.choice & 32 != 0 {
                let priority = Priority {
                    urgency: bytes as u8,
                    incremental: end,
                };
                self.connection.set_priority(grant.stream, priority);
            }
        }
    }

    fn check(&mut self, input_bytes: usize, fault: Option<Fault>) {
        if let Some(fault) = fault {
            assert!(self.connection.is_finished() && !fault.to_string().is_empty());
        }
        // The application responds with a frame or two per event.
        let most = 300 + 4 * input_bytes + self.events.len() * (BODY_BYTES as usize + 200);
        assert!(
            self.written.len() <= most,
            "{} of {most}",
            self.written.len()
        );
        let mut rest = &self.written[..];
        if self.connection.role() == Role::Client {
            rest = rest.strip_prefix(PREFACE).expect("the preface");
        }
        while !rest.is_empty() {
            let length =
                usize::from(rest[0]) << 16 | usize::from(rest[1]) << 8 | usize::from(rest[2]);
            rest = rest.get(HEADER_BYTES + length..).expect("whole frames");
        }
        if self.connection.open_streams() == 0 {
            self.connection.trim();
        }
    }
}

/// What holds for every request that is passed on, of HTTP/2 or HTTP/3.
pub(super) fn check_request(request: &crate::h2::Request, max_headers: usize) {
    let (head, text) = (&request.head, &request.text);
    assert!(head.head_bytes > 0);
    let line = head.request_line.of(text);
    assert!(line.ends_with(head.version.name().as_bytes()));
    assert!(line.starts_with(head.method_name.of(text)));
    assert!(text[head.request_line.end as usize..].starts_with(b"\r\n"));
    assert!(text.ends_with(b"\r\n\r\n"));
    assert!(head.headers.len() <= max_headers);
    let is_clean = |bytes: &[u8]| !bytes.iter().any(|byte| b"\r\n\0".contains(byte));
    assert!(is_clean(line) && !head.target.is_empty());
    for header in &head.headers {
        let (name, value) = (header.name.of(text), header.value.of(text));
        assert!(!name.is_empty() && header.value.end as usize <= text.len());
        assert!(name.iter().all(|byte| byte.is_ascii_graphic()));
        assert!(!name.iter().any(u8::is_ascii_uppercase) && !name.contains(&b':'));
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        assert!(is_clean(value) && !is_blank(value.first()));
        // Crumbs of cookies are joined, an empty one last leaves the separator.
        assert!(!is_blank(value.last()) || header.known == Some(KnownHeader::Cookie));
        assert_eq!(header.known, KnownHeader::from_name(name));
    }
    let is_wanted = |_: &KnownHeader| !head.extended_connect;
    for about_connection in [
        KnownHeader::Connection,
        KnownHeader::TransferEncoding,
        KnownHeader::Upgrade,
        KnownHeader::KeepAlive,
    ]
    .into_iter()
    .filter(is_wanted)
    {
        assert!(!head.has(about_connection));
    }
    let hosts = head.get_all(KnownHeader::Host).count();
    assert_eq!(hosts, 1, "one host, whatever was sent");
    let host = head.host.expect("a host").of(text);
    assert!(
        head.get(KnownHeader::Host)
            .expect("a host")
            .of(text)
            .starts_with(host)
    );
    // It may be refused, but it must not panic.
    let _ = crate::uri::normalise(head.path.of(text), true);
}
