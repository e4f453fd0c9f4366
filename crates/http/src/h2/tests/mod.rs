//! The codec alone, section by section of RFC 9113, both sides, with fake time.
//!
//! Every test runs its script against a connection that gets its input whole, byte by byte, and
//! split at random; the results must be the same.

mod frame_programs;
mod pair;
mod random_frames;
mod rfc8441;
mod rfc9218;
mod section_10_security;
mod section_3_starting;
mod section_4_frames;
mod section_5_1_stream_states;
mod section_5_2_flow_control;
mod section_6_frame_definitions;
mod section_8_requests;
mod section_8_responses;

use std::sync::Arc;
use std::time::Duration;

use super::frame::{FrameHeader, FrameType, flag, push_header};
use super::hpack::{Decoder, Encoder, Field, FieldLimits, FieldSink, Indexing, Note};
use super::*;
use crate::tests::Random;

/// How input is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Whole,
    Bytes,
    Random(u64),
}

const CUTS: [Cut; 5] = [
    Cut::Whole,
    Cut::Bytes,
    Cut::Random(1),
    Cut::Random(2),
    Cut::Random(3),
];

/// A frame as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    kind: FrameType,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// One end under test, and what is needed to play the other one.
struct End {
    connection: Connection,
    cut: Cut,
    random: Random,
    now: Duration,
    out: Vec<u8>,
    /// Input that was not consumed.
    input: Vec<u8>,
    /// What happened, in words, parts of a body joined.
    events: Vec<String>,
    /// Bodies by stream.
    bodies: std::collections::BTreeMap<u32, Vec<u8>>,
    requests: Vec<(StreamRef, Request)>,
    responses: Vec<(StreamRef, Response)>,
    fault: Option<Fault>,
    encoder: Encoder,
    decoder: Decoder,
}

/// Runs a script against a server whose client has said hello.
fn server(script: impl Fn(&mut End)) {
    server_with(Settings::default(), script);
}

fn server_with(settings: Settings, script: impl Fn(&mut End)) {
    let settings = Arc::new(settings);
    for cut in CUTS {
        let mut end = End::new(Role::Server, settings.clone(), cut);
        end.feed(PREFACE);
        end.feed(&settings_frame(&[]));
        end.greet();
        script(&mut end);
    }
}

/// Runs a script against a client whose server has said hello.
fn client(script: impl Fn(&mut End)) {
    client_with(Settings::default(), script);
}

fn client_with(settings: Settings, script: impl Fn(&mut End)) {
    let settings = Arc::new(settings);
    for cut in CUTS {
        let mut end = End::new(Role::Client, settings.clone(), cut);
        assert_eq!(end.out.drain(..PREFACE.len()).as_slice(), PREFACE);
        end.feed(&settings_frame(&[]));
        end.greet();
        script(&mut end);
    }
}

impl End {
    fn new(role: Role, settings: Arc<Settings>, cut: Cut) -> End {
        let mut out = Vec::new();
        let now = Duration::from_secs(1000);
        let connection = match role {
            Role::Server => Connection::server(settings, now, &mut out),
            Role::Client => Connection::client(settings, now, &mut out),
        };
        End {
            connection,
            cut,
            random: Random(match cut {
                Cut::Random(seed) => seed,
                _ => 0,
            }),
            now,
            out,
            input: Vec::new(),
            events: Vec::new(),
            bodies: Default::default(),
            requests: Vec::new(),
            responses: Vec::new(),
            fault: None,
            encoder: Encoder::default(),
            decoder: Decoder::new(),
        }
    }

    /// Acknowledges settings; what a greeting sends is not of interest to most tests.
    fn greet(&mut self) {
        self.feed(&frame(FrameType::Settings, flag::ACK, 0, b""));
        assert_eq!(self.fault, None);
        assert_eq!(self.take_events(), ["settings"]);
        self.sent();
        self.connection.flushed();
    }

    /// Hands bytes in, cut as the run asks.
    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.fault.is_none() {
            let most = match self.cut {
                Cut::Whole => rest.len(),
                Cut::Bytes => 1,
                Cut::Random(_) if self.random.below(3) == 0 => 1 + self.random.below(5),
                Cut::Random(_) => 1 + self.random.below(2 * rest.len()),
            };
            let (part, after) = rest.split_at(most.min(rest.len()));
            rest = after;
            self.input.extend_from_slice(part);
            self.receive();
        }
    }

    /// Takes all events that the input holds.
    fn receive(&mut self) {
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        loop {
            let received = self
                .connection
                .receive(&input[at..], self.now, &mut self.out);
            match received {
                Ok(Received { consumed, event }) => {
                    at += consumed;
                    let Some(event) = event else { break };
                    self.note(event);
                }
                Err(fault) => {
                    self.fault = Some(fault);
                    return;
                }
            }
        }
        let rest = &input[at..];
        assert!(rest.len() < self.connection.max_unconsumed_bytes());
        self.input = rest.to_vec();
    }

    fn note(&mut self, event: Event<'_>) {
        let ends = |end: bool| if end { " end" } else { "" };
        let text = match event {
            Event::Settings => "settings".into(),
            Event::Pong => "pong".into(),
            Event::Request {
                stream,
                request,
                end,
            } => {
                let line = show(request.head.request_line.of(&request.text));
                self.requests.push((stream, request));
                format!("request {} {line}{}", stream.id(), ends(end))
            }
            Event::Refused {
                stream,
                request,
                error,
                end,
            } => {
                if let Some(excerpt) = error.excerpt() {
                    assert!(excerpt.end as usize <= request.text.len());
                }
                self.requests.push((stream, request));
                let status = error.status().0;
                format!("refused {} {status} {error}{}", stream.id(), ends(end))
            }
            Event::Interim { stream, response } => {
                let status = response.head.status.0;
                self.responses.push((stream, response));
                format!("interim {} {status}", stream.id())
            }
            Event::Response {
                stream,
                response,
                end,
            } => {
                let status = response.head.status.0;
                self.responses.push((stream, response));
                format!("response {} {status}{}", stream.id(), ends(end))
            }
            Event::Data { stream, bytes, end } => {
                assert!(end || !bytes.is_empty());
                let id = stream.id();
                let body = self.bodies.entry(id).or_default();
                body.extend_from_slice(bytes);
                let before = format!("data {id} {}", body.len() - bytes.len());
                if self.events.last() == Some(&before) {
                    self.events.pop();
                }
                format!("data {id} {}{}", body.len(), ends(end))
            }
            Event::Trailers { stream, trailers } => {
                let fields: Vec<String> = trailers
                    .iter()
                    .map(|(name, value)| format!(" {}={}", show(name), show(value)))
                    .collect();
                format!("trailers {}{}", stream.id(), fields.concat())
            }
            Event::Reset {
                stream,
                code,
                unprocessed,
            } => {
                assert!(!self.connection.contains(stream));
                let unprocessed = if unprocessed { " unprocessed" } else { "" };
                format!("reset {} {code}{unprocessed}", stream.id())
            }
            Event::Fault { id, stream, fault } => {
                assert!(stream.is_none_or(|stream| stream.id() == id));
                assert!(stream.is_none_or(|stream| !self.connection.contains(stream)));
                format!("fault {id} {} {fault}", fault.code())
            }
            Event::Malformed { stream, fault } => {
                assert!(self.connection.contains(stream));
                format!("malformed {} {} {fault}", stream.id(), fault.code())
            }
            Event::GoAway {
                last_stream, code, ..
            } => format!("goaway {last_stream} {code}"),
        };
        self.events.push(text);
    }

    fn take_events(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    /// The frames written since the last call, without window updates that the test did not ask
    /// about if `updates` is not set.
    fn sent(&mut self) -> Vec<Frame> {
        let mut rest = &self.out[..];
        let mut frames = Vec::new();
        while let Some(header) = FrameHeader::parse(rest) {
            let (payload, after) = rest[9..].split_at(header.length as usize);
            frames.push(Frame {
                kind: header.kind,
                flags: header.flags,
                stream: header.stream,
                payload: payload.to_vec(),
            });
            rest = after;
        }
        assert_eq!(rest, b"", "whole frames");
        self.out.clear();
        frames
    }

    /// What was written, in words.
    fn sent_words(&mut self) -> Vec<String> {
        let frames = self.sent();
        frames.iter().map(|frame| self.words(frame)).collect()
    }

    fn words(&mut self, frame: &Frame) -> String {
        let number = |at: usize| {
            let bytes = frame.payload[at..at + 4].try_into().expect("four bytes");
            u32::from_be_bytes(bytes)
        };
        let id = frame.stream;
        let end = if frame.flags & flag::END_STREAM != 0 {
            " end"
        } else {
            ""
        };
        match frame.kind {
            FrameType::Data => format!("DATA {id} {}{end}", frame.payload.len()),
            FrameType::Headers => {
                assert_ne!(frame.flags & flag::END_HEADERS, 0);
                format!("HEADERS {id}{}{end}", self.fields(&frame.payload))
            }
            FrameType::RstStream => format!("RST_STREAM {id} {}", ErrorCode(number(0))),
            FrameType::GoAway => format!("GOAWAY {} {}", number(0), ErrorCode(number(4))),
            FrameType::WindowUpdate => format!("WINDOW_UPDATE {id} {}", number(0)),
            FrameType::Settings if frame.flags & flag::ACK != 0 => "SETTINGS ack".into(),
            FrameType::Ping if frame.flags & flag::ACK != 0 => "PING ack".into(),
            kind => format!("{kind:?}"),
        }
    }

    fn fields(&mut self, block: &[u8]) -> String {
        let mut text = Vec::new();
        let mut sink = Keep;
        self.decoder
            .decode(block, &FieldLimits::default(), &mut text, &mut sink)
            .expect("our own block");
        let text = show(&text).replace("\r\n", "; ");
        format!(" {}", text.trim_end_matches("; "))
    }

    /// A header block as the other side would send it.
    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut block = self.encoder.block(&mut out);
        for (name, value) in fields {
            block.field(name.as_bytes(), value.as_bytes(), Indexing::Auto);
        }
        out
    }

    /// Sends HEADERS.
    fn headers(&mut self, stream: u32, end: bool, fields: &[(&str, &str)]) {
        let block = self.block(fields);
        let flags = flag::END_HEADERS | u8::from(end);
        self.feed(&frame(FrameType::Headers, flags, stream, &block));
    }

    /// Sends a request for `/`.
    fn get(&mut self, stream: u32) -> StreamRef {
        self.headers(stream, true, GET);
        self.last_request()
    }

    /// Sends the head of a request with a body.
    fn post(&mut self, stream: u32) -> StreamRef {
        self.headers(stream, false, POST);
        self.last_request()
    }

    fn last_request(&self) -> StreamRef {
        self.requests.last().expect("a request came").0
    }

    /// Client: sends a request.
    fn open(&mut self, end: bool) -> StreamRef {
        let target = RequestTarget::new(b"GET", Scheme::Https, b"example.com", b"/");
        let target = target.expect("valid");
        self.connection
            .open(&target, [], end, &mut self.out)
            .expect("a stream may be opened")
    }

    fn respond(&mut self, stream: StreamRef, end: bool) {
        self.connection
            .send_head(stream, crate::StatusCode::OK, [], end, &mut self.out)
            .expect("the stream waits for its head");
    }

    /// Sends everything that streams have, `bytes` in all; returns the order of streams.
    fn send_granted(&mut self, mut bytes: u32) -> Vec<(u32, u32)> {
        let mut order = Vec::new();
        while bytes > 0
            && let Some(grant) = self.connection.next_data()
        {
            let count = grant.max_bytes.min(bytes);
            bytes -= count;
            self.connection
                .data(grant.stream, count, false, &mut self.out)
                .expect("within the grant");
            self.out.extend(std::iter::repeat_n(b'x', count as usize));
            order.push((grant.stream.id(), count));
        }
        order
    }

    #[track_caller]
    fn expect_fault(&mut self, fault: Fault) {
        assert_eq!(self.fault, Some(fault), "{:?}", self.events);
        let last = self.sent_words().pop();
        let last_stream = match self.connection.role() {
            Role::Server => self.connection.last_stream,
            Role::Client => 0,
        };
        let expected = format!("GOAWAY {last_stream} {}", fault.code());
        assert_eq!(last, Some(expected));
        assert!(self.connection.is_finished());
    }
}

const GET: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "example.com"),
    (":path", "/"),
];

const POST: &[(&str, &str)] = &[
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "example.com"),
    (":path", "/"),
];

struct Keep;

impl FieldSink for Keep {
    fn field(&mut self, _: &mut Vec<u8>, _: &Field) -> Note {
        0
    }
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn frame(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_header(&mut out, kind, flags, stream, payload.len() as u32);
    out.extend_from_slice(payload);
    out
}

fn settings_frame(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (identifier, value) in entries {
        payload.extend_from_slice(&identifier.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(FrameType::Settings, 0, 0, &payload)
}

fn data_frame(stream: u32, bytes: &[u8], end: bool) -> Vec<u8> {
    frame(FrameType::Data, u8::from(end), stream, bytes)
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(FrameType::WindowUpdate, 0, stream, &increment.to_be_bytes())
}

fn rst_stream(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(FrameType::RstStream, 0, stream, &code.0.to_be_bytes())
}

fn go_away(last_stream: u32, code: ErrorCode) -> Vec<u8> {
    let mut payload = last_stream.to_be_bytes().to_vec();
    payload.extend_from_slice(&code.0.to_be_bytes());
    frame(FrameType::GoAway, 0, 0, &payload)
}
