//! HTTP/3 connections of servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::StatusCode;
use crate::h1;
use crate::h3::{Channel, Connection, ConnectionError, Event, Limits, Role, Settings};
use crate::headers::Field;
use crate::meter::Allowance;

/// What a client sends to a server. The first byte chooses settings and what the application does.
/// Then come pieces of streams, each preceded by a byte that chooses the stream, whether it ends
/// behind the piece or is reset, and a byte with the length.
///
/// However the bytes of a stream are split, its events are the same. Memory stays within what
/// limits and input allow, and requests that are passed on have a consistent head. After an error,
/// nothing but the error comes.
pub fn fuzz_h3_server(data: &[u8]) {
    let Some((&choice, input)) = data.split_first() else {
        return;
    };
    let whole = Run::new(choice).feed(input, usize::MAX);
    let split = Run::new(choice).feed(input, 1);
    // Streams that wait are read in another order if what they wait for comes in pieces.
    if !whole.was_blocked && !split.was_blocked {
        // A string may be refused before it is there, and then for another reason.
        let code = |run: &Run| run.error.map(|error| error.code);
        assert_eq!(code(&whole), code(&split), "byte by byte");
        if whole.error.is_none() {
            assert_eq!(whole.streams, split.streams, "byte by byte");
        }
    }
}

fn settings_from(choice: u8) -> Settings {
    let mut settings = Settings {
        extended_connect: choice & 1 != 0,
        ..Settings::default()
    };
    if choice & 2 != 0 {
        settings.max_concurrent_streams = 3;
        settings.blocked_streams = 1;
        settings.decoder_table_bytes = 100;
        settings.held_bytes = 200;
        settings.head = h1::Limits {
            large_buffer_bytes: 100,
            large_buffer_count: 2,
            max_headers: 6,
            ..h1::Limits::default()
        };
    }
    if choice & 4 != 0 {
        let tight = Allowance {
            burst: 4,
            per_second: 0,
        };
        settings.limits = Limits {
            resets: tight,
            empty_frames: tight,
            priority_frames: tight,
            unidirectional_streams: tight,
            oversized_heads: tight,
            table_bytes: Allowance {
                burst: 300,
                per_second: 0,
            },
            section_bytes: 300,
            unread_bytes: 20,
        };
    }
    settings
}

/// What is known of a stream, outside of the connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stream {
    is_open: bool,
    /// Nothing more is passed in.
    is_over: bool,
    ends: bool,
    unread: Vec<u8>,
    /// Events in words, with the bytes of bodies.
    events: Vec<u8>,
}

struct Run {
    connection: Connection,
    settings: Settings,
    choice: u8,
    streams: BTreeMap<u64, Stream>,
    error: Option<ConnectionError>,
    was_blocked: bool,
    events: usize,
}

const NOW: Duration = Duration::from_secs(1);

impl Run {
    fn new(choice: u8) -> Run {
        let settings = settings_from(choice);
        let shared = Arc::new(settings.clone());
        let mut connection = Connection::new(Role::Server, shared, Duration::ZERO);
        if choice & 16 != 0 {
            connection.speak_hq();
        }
        Run {
            connection,
            settings,
            choice,
            streams: BTreeMap::new(),
            error: None,
            was_blocked: false,
            events: 0,
        }
    }

    fn feed(mut self, input: &[u8], piece: usize) -> Run {
        let mut rest = input;
        while let [selector, length, after @ ..] = rest {
            let (part, after) = after.split_at(after.len().min(usize::from(*length)));
            rest = after;
            if let Err(error) = self.record(*selector, part, piece) {
                self.error = Some(error);
                for id in [0, 2, 400] {
                    let again = self.connection.receive(id, b"\x01\x02\0\0", false, NOW);
                    assert_eq!(again.err(), Some(error));
                    assert_eq!(self.connection.opened(id, NOW).err(), Some(error));
                    assert_eq!(self.connection.stream_reset(id, NOW).err(), Some(error));
                }
                assert!(!error.to_string().is_empty());
                return self;
            }
            self.check(input.len());
        }
        self
    }

    /// A piece of a stream: the lowest bits choose one of both kinds, the highest what else
    /// happens.
    fn record(&mut self, selector: u8, part: &[u8], piece: usize) -> Result<(), ConnectionError> {
        let number = u64::from(selector & 7);
        let id = match selector & 8 {
            0 => number * 4,
            _ => number * 4 + 2,
        };
        let stream = self.streams.entry(id).or_default();
        if !stream.is_open {
            stream.is_open = true;
            if self.connection.opened(id, NOW)?.is_some() {
                stream.is_over = true;
            }
        }
        match selector >> 4 {
            1 => {
                stream.is_over = true;
                return self.connection.stream_reset(id, NOW);
            }
            2 => return self.connection.sending_stopped(id, NOW),
            3 => self.connection.stop_receiving(id),
            4 => self.connection.reset(id),
            5 => self.connection.shut_down(),
            6 => self.connection.drain(),
            7 => {
                for channel in Channel::ALL {
                    let bytes = self.connection.outgoing(channel).len();
                    self.connection.sent(channel, bytes);
                }
            }
            _ => {}
        }
        let ends = selector >> 7 != 0;
        let mut pieces = part.chunks(piece.min(part.len().max(1))).peekable();
        if pieces.peek().is_none() {
            return self.pump(id, &[], ends);
        }
        while let Some(piece) = pieces.next() {
            self.pump(id, piece, ends && pieces.peek().is_none())?;
        }
        Ok(())
    }

    /// Reads what there is of a stream, and then of those that it has freed.
    fn pump(&mut self, id: u64, bytes: &[u8], ends: bool) -> Result<(), ConnectionError> {
        let stream = self.streams.entry(id).or_default();
        if stream.is_over || stream.ends {
            return Ok(());
        }
        stream.unread.extend_from_slice(bytes);
        stream.ends |= ends;
        let mut due = vec![id];
        while let Some(id) = due.pop() {
            let stream = self.streams.entry(id).or_default();
            let (unread, ends) = (std::mem::take(&mut stream.unread), stream.ends);
            let mut at = 0;
            loop {
                let received = self.connection.receive(id, &unread[at..], ends, NOW)?;
                at += received.consumed;
                assert!(at <= unread.len());
                let Some(event) = received.event else {
                    break;
                };
                self.events += 1;
                let other = act(
                    &mut self.connection,
                    event,
                    &self.settings,
                    self.choice,
                    &mut self.streams,
                );
                due.extend(other.filter(|&other| other != id));
            }
            self.was_blocked |= self.connection.is_blocked(id);
            self.streams.entry(id).or_default().unread = unread[at..].to_vec();
        }
        Ok(())
    }

    fn check(&self, input_bytes: usize) {
        let most = self.settings.max_concurrent_streams;
        assert!(self.connection.open_streams() <= most);
        let most = 64 * 1024 + 40 * input_bytes + 500 * self.events;
        assert!(self.connection.heap_bytes() <= most);
    }
}

/// The application: responds at once. Returns the stream that the event is about.
fn act(
    connection: &mut Connection,
    event: Event<'_>,
    settings: &Settings,
    choice: u8,
    streams: &mut BTreeMap<u64, Stream>,
) -> Option<u64> {
    let mut answer = |id| {
        let fields = [Field::from_static("server", "fuzz")];
        let mut out = Vec::new();
        let sent = connection.send_head(id, StatusCode::OK, fields, choice & 8 != 0, &mut out);
        // The client may have stopped it already. HTTP/0.9 has no heads.
        assert_eq!(sent.is_ok() && !connection.is_hq(), !out.is_empty());
    };
    let (id, word) = match event {
        Event::Settings => return None,
        Event::GoAway { .. } => return None,
        Event::Request { id, request, end } => {
            match request.head.version {
                h1::Version::Http09 => assert!(end && request.head.headers.is_empty()),
                _ => super::h2::check_request(&request, settings.head.max_headers),
            }
            answer(id);
            (id, format!("{:?} {end}", request.head).into_bytes())
        }
        Event::Refused {
            id,
            error,
            end,
            request,
        } => {
            assert!((400..=505).contains(&error.status().0));
            if let Some(excerpt) = error.excerpt() {
                assert!(excerpt.end as usize <= request.text.len());
            }
            answer(id);
            (id, format!("{error} {end}").into_bytes())
        }
        Event::Data { id, bytes, end } => {
            assert!(end || !bytes.is_empty());
            let end = if end { &b" end"[..] } else { b"" };
            (id, [bytes, end].concat())
        }
        Event::Trailers { id, trailers } => {
            let fields: Vec<_> = trailers.iter().collect();
            (id, format!("{fields:?}").into_bytes())
        }
        Event::Error { id, error } | Event::Malformed { id, error } => {
            // How much of the body came before it depends on the pieces.
            let events = &mut streams.entry(id).or_default().events;
            events.clear();
            (id, format!("{error}").into_bytes())
        }
        Event::UnknownStream { id } => (id, b"unknown".to_vec()),
        Event::Priority { id, priority } => (id, format!("{priority:?}").into_bytes()),
        Event::Interim { .. } | Event::Response { .. } => panic!("a server gets no responses"),
    };
    let stream = streams.entry(id).or_default();
    stream.events.extend_from_slice(&word);
    Some(id)
}
