//! HTTP/2 connections whose peer mostly speaks HTTP/2: the input is a program that builds frames
//! and says what the application does between them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::h2::settings_from;
use crate::StatusCode;
use crate::h2::hpack::{Encoder, Indexing};
use crate::h2::{
    Connection, ErrorCode, Event, Fault, HEADER_BYTES, PREFACE, Priority, RequestTarget, Role,
    Scheme, Settings, StreamRef,
};
use crate::headers::Field;

/// The initial window of every connection (RFC 9113 section 6.9.2).
const FIRST_WINDOW: i64 = 65_535;
/// Upper bound on the heap of a connection that keeps everything its limits allow.
const MAX_HEAP_BYTES: usize = 512 << 10;
/// The most DATA in one response.
const MAX_DATA_BYTES: u32 = 300;

/// Fields of heads that a peer sends, valid and invalid.
const FIELDS: [(&[u8], &[u8]); 28] = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":authority", b"a"),
    (b":path", b"/"),
    (b":status", b"200"),
    (b":method", b"HEAD"),
    (b":method", b"POST"),
    (b":method", b"CONNECT"),
    (b":path", b""),
    (b":path", b"/a b"),
    (b":path", b"*"),
    (b":status", b"103"),
    (b":status", b"204"),
    (b":status", b"2x0"),
    (b":odd", b"1"),
    (b"host", b"a"),
    (b"host", b"b"),
    (b"content-length", b"5"),
    (b"content-length", b"0"),
    (b"content-length", b"+5"),
    (b"cookie", b"a=b"),
    (b"te", b"trailers"),
    (b"connection", b"close"),
    (b"transfer-encoding", b"chunked"),
    (b"x-a", b"line\r\nbreak"),
    (b"x a", b"space"),
    (b"priority", b"u=1, i"),
    (b"x-long", &[b'v'; 400]),
];

/// Increments and settings at boundaries.
const NUMBERS: [u32; 12] = [
    0,
    1,
    5,
    100,
    16_384,
    16_385,
    65_535,
    65_536,
    0x00ff_ffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
];

/// A program for the peer and the application: one byte for each decision. The first chooses
/// role and limits.
///
/// Invariants: after a connection error nothing more is read or opened. Outgoing frames are whole,
/// in order, within the peer's windows and frame size, and on streams that are open in that
/// direction. DATA beyond the announced windows is an error. Streams and memory stay within their
/// limits.
pub fn fuzz_h2_frames(data: &[u8]) {
    let mut program = Program { rest: data };
    let choice = program.byte();
    let role = match choice & 64 {
        0 => Role::Server,
        _ => Role::Client,
    };
    let mut run = Run::new(role, choice);
    while !program.rest.is_empty() {
        run.step(&mut program);
        if let Some(fault) = run.fault {
            return run.end_with(fault);
        }
    }
    run.hear(1 << 20);
}

struct Program<'p> {
    rest: &'p [u8],
}

impl Program<'_> {
    /// The next decision; 0 at the end.
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        byte
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    fn of<T: Copy>(&mut self, table: &[T]) -> T {
        table[usize::from(self.byte()) % table.len()]
    }
}

struct Run {
    connection: Connection,
    settings: Settings,
    /// The peer's header tables.
    encoder: Encoder,
    /// What the peer sends and the connection has not consumed.
    unread: Vec<u8>,
    out: Vec<u8>,
    fault: Option<Fault>,
    known: Vec<StreamRef>,
    next_id: u32,
    heard: Heard,
    sent: Sent,
}

/// What the connection has consumed, according to an independent parser.
struct Heard {
    /// The beginning of a frame.
    partial: Vec<u8>,
    preface_bytes: usize,
    initial_window: i64,
    frame_bytes: usize,
    connection_credit: i64,
    stream_credit: HashMap<u32, i64>,
    data_bytes: i64,
    /// Frames that the connection may treat as an error of their own.
    data_of: HashMap<u32, i64>,
    /// Streams opened by their first HEADERS, with a number larger than all before.
    opened: HashSet<u32>,
    newest: u32,
    goes_away: bool,
}

/// What the connection has written, according to an independent parser.
struct Sent {
    at: usize,
    connection_window: i64,
    stream_windows: HashMap<u32, i64>,
    data_bytes: i64,
    data_of: HashMap<u32, i64>,
    ended: HashSet<u32>,
    reset: HashSet<u32>,
    goes_away: bool,
    block_of: Option<u32>,
    /// The type of the last frame.
    last: Option<u8>,
}

impl Run {
    fn new(role: Role, choice: u8) -> Run {
        let settings = settings_from(choice);
        let shared = Arc::new(settings.clone());
        let mut out = Vec::new();
        let connection = match role {
            Role::Server => Connection::server(shared, Duration::ZERO, &mut out),
            Role::Client => Connection::client(shared, Duration::ZERO, &mut out),
        };
        let is_server = role == Role::Server;
        let mut run = Run {
            connection,
            settings,
            encoder: Encoder::default(),
            unread: if is_server {
                PREFACE.to_vec()
            } else {
                Vec::new()
            },
            out,
            fault: None,
            known: Vec::new(),
            next_id: 1,
            heard: Heard {
                partial: Vec::new(),
                preface_bytes: if is_server { PREFACE.len() } else { 0 },
                initial_window: FIRST_WINDOW,
                frame_bytes: 16_384,
                connection_credit: FIRST_WINDOW,
                stream_credit: HashMap::new(),
                data_bytes: 0,
                data_of: HashMap::new(),
                opened: HashSet::new(),
                newest: 0,
                goes_away: false,
            },
            sent: Sent {
                at: if is_server { 0 } else { PREFACE.len() },
                connection_window: FIRST_WINDOW,
                stream_windows: HashMap::new(),
                data_bytes: 0,
                data_of: HashMap::new(),
                ended: HashSet::new(),
                reset: HashSet::new(),
                goes_away: false,
                block_of: None,
                last: None,
            },
        };
        // SETTINGS and the acknowledgement of ours, unless the program sends them.
        if choice & 8 == 0 {
            run.frame(4, 0, 0, &[]);
            run.frame(4, 1, 0, &[]);
        }
        run
    }

    fn step(&mut self, program: &mut Program<'_>) {
        match program.byte() % 20 {
            0 | 1 => self.headers(program),
            2 | 3 => self.data(program),
            4 => {
                let mut payload = Vec::new();
                for _ in 0..program.byte() % 4 {
                    payload.extend_from_slice(&[0, program.byte() % 10]);
                    payload.extend_from_slice(&program.of(&NUMBERS).to_be_bytes());
                }
                payload.truncate(
                    payload
                        .len()
                        .saturating_sub(usize::from(program.byte() / 250)),
                );
                self.frame(4, 0, 0, &payload);
            }
            5 => self.frame(4, 1, 0, &[]),
            6 => {
                let id = self.id(program);
                let increment = program.of(&NUMBERS).to_be_bytes();
                self.frame(8, 0, id, &increment);
            }
            7 => {
                let id = self.id(program);
                self.frame(3, 0, id, &u32::from(program.byte() % 16).to_be_bytes());
            }
            8 => self.frame(6, program.byte() & 1, 0, &[7; 8]),
            9 => {
                let (id, parent) = (self.id(program), self.id(program));
                let payload = [&parent.to_be_bytes()[..], &[program.byte()]].concat();
                self.frame(2, 0, id, &payload);
            }
            10 => {
                let id = self.id(program);
                let payload = [&id.to_be_bytes()[..], b"u=2, i"].concat();
                self.frame(16, 0, 0, &payload);
            }
            11 => {
                let last = self.id(program);
                let code = u32::from(program.byte() % 16);
                let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
                self.frame(7, 0, 0, &payload);
            }
            12 => {
                // Any frame at all.
                let (kind, flags, id) = (program.byte(), program.byte(), self.id(program));
                let count = usize::from(program.byte() % 40);
                let payload = program.bytes(count);
                self.frame(kind, flags, id, &payload);
            }
            13 => {
                let count = usize::from(program.byte() % 30);
                let bytes = program.bytes(count);
                self.unread.extend_from_slice(&bytes);
            }
            14..=16 => self.hear(usize::from(program.byte()) * 7 + 1),
            _ => self.application(program),
        }
        self.read_out();
        assert!(self.connection.heap_bytes() < MAX_HEAP_BYTES);
        let most = self.settings.max_concurrent_streams as usize;
        assert!(self.connection.open_streams() <= most);
    }

    fn frame(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        let [_, high, middle, low] = (payload.len() as u32).to_be_bytes();
        self.unread
            .extend_from_slice(&[high, middle, low, kind, flags]);
        self.unread.extend_from_slice(&id.to_be_bytes());
        self.unread.extend_from_slice(payload);
    }

    /// A stream: a new one, one of the last, one of the other side, or none.
    fn id(&mut self, program: &mut Program<'_>) -> u32 {
        let choice = program.byte();
        match choice % 8 {
            0..=2 => {
                self.next_id += 2;
                self.next_id - 2
            }
            3..=5 => self.next_id.saturating_sub(2 * u32::from(choice / 8 % 8)),
            6 => u32::from(choice / 8) * 2,
            _ => 0,
        }
    }

    fn headers(&mut self, program: &mut Program<'_>) {
        let shape = program.byte();
        let id = self.id(program);
        let mut block = Vec::new();
        let mut encoder = self.encoder.block(&mut block);
        if shape & 1 == 0 {
            let whole = match self.connection.role() {
                Role::Server => &FIELDS[..4],
                Role::Client => &FIELDS[4..5],
            };
            for (name, value) in whole {
                encoder.field(name, value, Indexing::Auto);
            }
        }
        for _ in 0..program.byte() % 8 {
            let (name, value) = program.of(&FIELDS);
            let indexing = program.of(&[Indexing::Auto, Indexing::AtOnce, Indexing::Never]);
            encoder.field(name, value, indexing);
        }
        if shape & 2 != 0 {
            let count = usize::from(program.byte() % 8);
            block.extend(program.bytes(count));
        }
        let mut payload = Vec::new();
        let mut flags = (shape >> 2) & 1;
        let padding = program.byte();
        if shape & 8 != 0 {
            flags |= 8;
            payload.push(padding);
        }
        if shape & 16 != 0 {
            flags |= 0x20;
            payload.extend_from_slice(&self.id(program).to_be_bytes());
            payload.push(program.byte());
        }
        let first = match shape & 32 {
            0 => block.len(),
            _ => usize::from(program.byte()) % (block.len() + 1),
        };
        payload.extend_from_slice(&block[..first]);
        if shape & 8 != 0 {
            payload.resize(payload.len() + usize::from(padding), 0);
        }
        let is_whole = shape & 32 == 0;
        self.frame(1, flags | u8::from(is_whole) << 2, id, &payload);
        if is_whole {
            return;
        }
        let mut rest = &block[first..];
        loop {
            let count = (usize::from(program.byte()) % 20).min(rest.len());
            let (part, behind) = rest.split_at(count);
            rest = behind;
            // An incomplete list leaves the block unfinished.
            let is_last = rest.is_empty() || program.rest.is_empty();
            self.frame(9, u8::from(is_last) << 2, id, part);
            if is_last {
                return;
            }
        }
    }

    fn data(&mut self, program: &mut Program<'_>) {
        let (shape, id) = (program.byte(), self.id(program));
        let count = match shape & 2 {
            0 => usize::from(program.byte()),
            _ => usize::from(program.byte()) * 80,
        };
        let mut payload = vec![b'x'; count];
        if shape & 8 != 0 {
            let padding = program.byte();
            payload.insert(0, padding);
            payload.resize(payload.len() + usize::from(padding), 0);
        }
        self.frame(0, shape & 9, id, &payload);
    }

    /// The connection reads what has come, in pieces.
    fn hear(&mut self, piece: usize) {
        let mut end = 0;
        while self.fault.is_none() && end < self.unread.len() {
            end = (end + piece).min(self.unread.len());
            loop {
                let unread = std::mem::take(&mut self.unread);
                let now = Duration::from_secs(1);
                let received = self.connection.receive(&unread[..end], now, &mut self.out);
                let (consumed, has_event) = match received {
                    Ok(received) => {
                        let has_event = received.event.is_some();
                        if let Some(event) = received.event {
                            note(&mut self.known, &event);
                        }
                        (received.consumed, has_event)
                    }
                    Err(fault) => {
                        self.fault = Some(fault);
                        return;
                    }
                };
                assert!(consumed <= end);
                self.heard.take(&unread[..consumed]);
                self.unread = unread;
                self.unread.drain(..consumed);
                end -= consumed;
                self.check_received();
                self.read_out();
                if !has_event {
                    break;
                }
            }
        }
    }

    /// DATA beyond what was announced must have been an error. It is ignored on a stream that was
    /// reset, and on those before it that are not open: the connection remembers only the newest.
    fn check_received(&self) {
        assert!(self.heard.data_bytes <= self.announced(None));
        let newest_reset = self.sent.reset.iter().max();
        for (&id, &bytes) in &self.heard.data_of {
            let is_open = self.heard.opened.contains(&id)
                && !self.sent.ended.contains(&id)
                && !self.sent.reset.contains(&id);
            let is_late = newest_reset.is_some_and(|&newest| id <= newest);
            if is_open || !(is_late || self.sent.goes_away || self.heard.goes_away) {
                assert!(bytes <= self.announced(Some(id)), "stream {id}");
            }
        }
    }

    fn announced(&self, stream: Option<u32>) -> i64 {
        // Updates written by the same call count.
        let mut updates = [0; 2];
        let mut rest = &self.out[self.sent.at..];
        while let Some((_, kind, id, payload, behind)) = split_frame(rest) {
            if kind == 8 && id == stream.unwrap_or(0) {
                updates[0] += i64::from(number(payload));
            }
            rest = behind;
        }
        let first = FIRST_WINDOW.max(i64::from(self.settings.stream_window_bytes));
        match stream {
            None => self.sent.connection_window + updates[0],
            Some(id) => self.sent.stream_windows.get(&id).unwrap_or(&0) + first + updates[0],
        }
    }

    fn application(&mut self, program: &mut Program<'_>) {
        let action = program.byte();
        let (connection, out) = (&mut self.connection, &mut self.out);
        if action.is_multiple_of(4)
            && let Some(grant) = connection.next_data()
        {
            let bytes = grant.max_bytes.min(MAX_DATA_BYTES);
            let end = action & 64 != 0;
            connection
                .data(grant.stream, bytes, end, out)
                .expect("within the grant");
            out.resize(out.len() + bytes as usize, b'y');
            return;
        }
        if connection.role() == Role::Client && action % 8 == 1 {
            let target = RequestTarget::new(b"POST", Scheme::Http, b"a", b"/").expect("valid");
            let fields = [Field::from_static("te", "trailers")];
            self.known
                .extend(connection.open(&target, fields, action & 64 != 0, out).ok());
            return;
        }
        let Some(&stream) = self
            .known
            .get(usize::from(program.byte()) % self.known.len().max(1))
        else {
            return;
        };
        let fields = [Field::from_static("x-a", " b ")];
        let is_open = connection.contains(stream);
        // Anything too late or out of order is refused, and nothing of it is written.
        let before = out.len();
        let done = match action % 16 {
            1 | 2 => connection.send_head(stream, StatusCode::OK, fields, action & 64 != 0, out),
            3 => connection.send_interim(stream, StatusCode(103), fields, out),
            5 => connection.send_trailers(stream, fields, out),
            6 => connection.data(stream, 0, true, out),
            _ => Ok(()),
        };
        assert!(done.is_ok() || out.len() == before);
        match action % 16 {
            7 => connection.offer(stream),
            9 => connection.pause(stream),
            10 => connection.release(stream, usize::from(action) * 100, out),
            11 => connection.widen(stream, u32::from(action) * 1000, out),
            13 => connection.reset(stream, ErrorCode::CANCEL, out),
            14 => connection.set_priority(
                stream,
                Priority {
                    urgency: action >> 4,
                    incremental: action & 64 != 0,
                },
            ),
            15 if action == 255 => connection.shut_down(out),
            15 => connection.flushed(),
            _ => {}
        }
        assert!(is_open || out.len() == before || matches!(action % 16, 15));
    }

    /// Parses the output as the peer would.
    fn read_out(&mut self) {
        while let Some((flags, kind, id, payload, behind)) = split_frame(&self.out[self.sent.at..])
        {
            assert!(payload.len() <= self.heard.frame_bytes, "a frame too large");
            let (sent, heard) = (&mut self.sent, &self.heard);
            assert!(sent.block_of.is_none_or(|open| kind == 9 && id == open));
            let is_closed = sent.ended.contains(&id) || sent.reset.contains(&id);
            match kind {
                0 | 1 | 9 => assert!(!is_closed || kind == 9, "{kind} on closed stream {id}"),
                3 => assert!(sent.reset.insert(id), "a second reset of stream {id}"),
                7 => sent.goes_away = true,
                8 if id == 0 => sent.connection_window += i64::from(number(payload)),
                8 => *sent.stream_windows.entry(id).or_default() += i64::from(number(payload)),
                _ => {}
            }
            if kind == 0 && !payload.is_empty() {
                let bytes = payload.len() as i64;
                sent.data_bytes += bytes;
                let of = sent.data_of.entry(id).or_default();
                *of += bytes;
                assert!(sent.data_bytes <= heard.connection_credit);
                let credit = heard.stream_credit.get(&id).unwrap_or(&0);
                assert!(*of <= heard.initial_window + credit, "stream {id}");
            }
            if matches!(kind, 0 | 1) && flags & 1 != 0 {
                sent.ended.insert(id);
            }
            if matches!(kind, 1 | 9) {
                sent.block_of = (flags & 4 == 0).then_some(id);
            }
            sent.last = Some(kind);
            self.sent.at = self.out.len() - behind.len();
        }
        assert_eq!(self.sent.at, self.out.len(), "whole frames");
        assert_eq!(self.sent.block_of, None, "whole blocks");
    }

    /// Nothing follows a connection error.
    fn end_with(mut self, fault: Fault) {
        assert!(self.connection.is_finished() && !fault.to_string().is_empty());
        // GOAWAY has been written, and nothing after it.
        assert_eq!(self.sent.last, Some(7), "GOAWAY is the last frame");
        let before = self.out.len();
        let input = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[1; 8]].concat();
        let now = Duration::from_secs(1);
        let again = self.connection.receive(&input, now, &mut self.out);
        assert_eq!(again.err(), Some(fault), "an error is final");
        let target = RequestTarget::new(b"GET", Scheme::Http, b"a", b"/").expect("valid");
        let opened = self.connection.open(&target, [], true, &mut self.out);
        assert!(opened.is_err());
        self.connection.close(ErrorCode::NO_ERROR, &mut self.out);
        self.connection.shut_down(&mut self.out);
        assert_eq!(self.out.len(), before, "nothing after GOAWAY");
    }
}

fn note(known: &mut Vec<StreamRef>, event: &Event<'_>) {
    if let Event::Request { stream, .. } | Event::Refused { stream, .. } = event {
        known.push(*stream);
    }
}

impl Heard {
    fn take(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let skipped = self.preface_bytes.min(self.partial.len());
        self.partial.drain(..skipped);
        self.preface_bytes -= skipped;
        let partial = std::mem::take(&mut self.partial);
        let mut rest = &partial[..];
        while let Some((flags, kind, id, payload, behind)) = split_frame(rest) {
            self.frame(flags, kind, id, payload);
            rest = behind;
        }
        self.partial = rest.to_vec();
    }

    fn frame(&mut self, flags: u8, kind: u8, id: u32, payload: &[u8]) {
        match kind {
            0 => {
                self.data_bytes += payload.len() as i64;
                *self.data_of.entry(id).or_default() += payload.len() as i64;
            }
            1 if id > self.newest => {
                self.newest = id;
                self.opened.insert(id);
            }
            3 => {
                self.opened.remove(&id);
            }
            7 => self.goes_away = true,
            4 if flags & 1 == 0 => {
                for entry in payload.chunks_exact(6) {
                    let value = number(&entry[2..]);
                    match entry[1] {
                        4 => self.initial_window = i64::from(value),
                        5 => self.frame_bytes = value as usize,
                        _ => {}
                    }
                }
            }
            8 if id == 0 => self.connection_credit += i64::from(number(payload)),
            8 => *self.stream_credit.entry(id).or_default() += i64::from(number(payload)),
            _ => {}
        }
    }
}

/// Flags, type, stream and payload of a frame, and what follows it.
type SplitFrame<'b> = (u8, u8, u32, &'b [u8], &'b [u8]);

/// The first frame, if all of it is there.
fn split_frame(bytes: &[u8]) -> Option<SplitFrame<'_>> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
    let (payload, behind) = rest.split_at_checked(length)?;
    let id = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) & 0x7fff_ffff;
    Some((header[4], header[3], id, payload, behind))
}

/// Four bytes without the reserved bit; 0 for another number of them.
fn number(payload: &[u8]) -> u32 {
    match *payload {
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff,
        _ => 0,
    }
}
