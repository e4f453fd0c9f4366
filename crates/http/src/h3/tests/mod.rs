//! Tests of the connection, by section of RFC 9114 and the RFCs beside it.

mod hq;
mod pair;
mod pieces;
mod random_input;
mod rfc9204_blocked;
mod rfc9218_priorities;
mod rfc9220_websockets;
mod section_10_5_floods;
mod section_4_1_messages;
mod section_4_2_fields;
mod section_4_responses;
mod section_5_shutdown;
mod section_6_2_streams;
mod section_7_2_frames;

use std::sync::Arc;
use std::time::Duration;

use super::qpack::{Encoder, SectionEncoder};
use super::{Channel, Code, Connection, ConnectionError, Event, Role, Settings, frame, varint};
use crate::message::FieldWriter;

const NOW: Duration = Duration::from_secs(1);

/// The control stream of a client, and that of a server.
const CLIENT_CONTROL: u64 = 2;
const SERVER_CONTROL: u64 = 3;

/// A control stream with SETTINGS that say nothing.
const EMPTY_SETTINGS: &[u8] = b"\x00\x04\x00";

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "example.com"),
    (":path", "/"),
];

const POST: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "example.com"),
    (":path", "/"),
];

/// A server that has the client's SETTINGS.
fn server_with(settings: Settings) -> Connection {
    let mut server = Connection::new(Role::Server, Arc::new(settings), NOW);
    assert_eq!(opened(&mut server, CLIENT_CONTROL), Ok(None));
    let events = receive(&mut server, CLIENT_CONTROL, EMPTY_SETTINGS, false);
    assert_eq!(events, Ok(vec!["settings".to_owned()]));
    server
}

fn server() -> Connection {
    server_with(Settings::default())
}

/// A client that has the server's SETTINGS, with requests on these streams.
fn client(requests: &[(u64, &str)]) -> Connection {
    let settings = Arc::new(Settings::default());
    let mut client = Connection::new(Role::Client, settings, NOW);
    assert_eq!(opened(&mut client, SERVER_CONTROL), Ok(None));
    let events = receive(&mut client, SERVER_CONTROL, EMPTY_SETTINGS, false);
    assert_eq!(events, Ok(vec!["settings".to_owned()]));
    for (id, method) in requests {
        let target = super::RequestTarget::new(method.as_bytes(), super::Scheme::Https, b"a", b"/");
        let mut out = Vec::new();
        client
            .send_request(*id, &target.expect("valid"), [], true, &mut out)
            .expect("a new stream");
    }
    client
}

/// The code of the error on a stream that could not be opened.
fn opened(connection: &mut Connection, id: u64) -> Result<Option<Code>, Code> {
    let error = connection.opened(id, NOW).map_err(|error| error.code)?;
    Ok(error.map(|error| error.code))
}

/// All events of some bytes, in words.
fn receive(
    connection: &mut Connection,
    id: u64,
    bytes: &[u8],
    fin: bool,
) -> Result<Vec<String>, Code> {
    let mut rest = bytes;
    let mut events = Vec::new();
    loop {
        let received = connection.receive(id, rest, fin, NOW).map_err(|error| {
            let again = connection.receive(id, b"", false, NOW);
            assert_eq!(again.err(), Some(error), "the error stays");
            error.code
        })?;
        rest = &rest[received.consumed..];
        match received.event {
            Some(event) => events.push(words(event)),
            None => break,
        }
    }
    if !rest.is_empty() {
        events.push(format!("{} bytes left", rest.len()));
    }
    Ok(events)
}

fn words(event: Event<'_>) -> String {
    let end_word = |end: bool| if end { " end" } else { "" };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        Event::Settings => "settings".into(),
        Event::Request { id, request, end } => {
            let line = lossy(request.head.request_line.of(&request.text));
            format!("{id} {line}{}", end_word(end))
        }
        Event::Refused { id, error, end, .. } => {
            format!("{id} refused {}{}", error.status().0, end_word(end))
        }
        Event::Interim { id, response } => format!("{id} interim {}", response.head.status.0),
        Event::Response { id, response, end } => {
            format!("{id} response {}{}", response.head.status.0, end_word(end))
        }
        Event::Data { id, bytes, end } => format!("{id} {}{}", lossy(bytes), end_word(end)),
        Event::Trailers { id, trailers } => {
            let fields: Vec<String> = trailers
                .iter()
                .map(|(name, value)| format!("{}: {}", lossy(name), lossy(value)))
                .collect();
            format!("{id} trailers {}", fields.join(", "))
        }
        Event::Error { id, error } => format!("{id} {}", error.code),
        Event::Malformed { id, error } => format!("{id} malformed {}", error.code),
        Event::UnknownStream { id } => format!("{id} unknown"),
        Event::Priority { id, priority } => format!("{id} {}", lossy(priority.value())),
        Event::GoAway { id } => format!("goaway {id}"),
    }
}

/// Opens a stream and receives all of it.
fn request(connection: &mut Connection, id: u64, bytes: &[u8]) -> Result<Vec<String>, Code> {
    assert_eq!(opened(connection, id), Ok(None));
    receive(connection, id, bytes, true)
}

/// What a new server says to a request.
fn requested(frames: &[Vec<u8>]) -> Result<Vec<String>, Code> {
    request(&mut server(), 0, &frames.concat())
}

fn raw_frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push_header(&mut out, kind, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

/// A HEADERS frame without references to a dynamic table.
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::new(0), Vec::new());
    let mut section: SectionEncoder<'_> = encoder.section(0, &mut out);
    for (name, value) in fields {
        section.field(name.as_bytes(), value.as_bytes());
    }
    section.finish();
    raw_frame(1, &out)
}

/// Like [`headers`], with names as they are.
fn headers_as_written(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = vec![0, 0];
    for (name, value) in fields {
        assert!(value.len() < 127, "the prefix holds it");
        match name.len() {
            short @ 0..7 => out.push(0x20 | short as u8),
            long => out.extend([0x27, (long - 7) as u8]),
        }
        out.extend_from_slice(name.as_bytes());
        out.push(value.len() as u8);
        out.extend_from_slice(value.as_bytes());
    }
    raw_frame(1, &out)
}

fn data(bytes: &str) -> Vec<u8> {
    raw_frame(0, bytes.as_bytes())
}

/// A frame with numbers.
fn numbers(kind: u64, numbers: &[u64]) -> Vec<u8> {
    let mut payload = Vec::new();
    for number in numbers {
        varint::put(&mut payload, *number);
    }
    raw_frame(kind, &payload)
}

fn control(connection: &mut Connection, bytes: &[u8]) -> Result<Vec<String>, Code> {
    let id = match connection.role() {
        Role::Server => CLIENT_CONTROL,
        Role::Client => SERVER_CONTROL,
    };
    receive(connection, id, bytes, false)
}

#[test]
fn names_of_codes() {
    let error = ConnectionError::new(Code::H3_ID_ERROR, "a wrong number");
    assert_eq!(error.to_string(), "a wrong number (H3_ID_ERROR)");
    assert_eq!(Code(0x110).to_string(), "H3_VERSION_FALLBACK");
    assert_eq!(Code(0x111).to_string(), "0x111");
    assert_eq!(Code(0x202).to_string(), "QPACK_DECODER_STREAM_ERROR");
    assert_eq!(Code(0x203).to_string(), "0x203");
    assert_eq!(Code(7).to_string(), "0x7");
}

#[test]
fn idle_connections_are_small() {
    let mut server = server();
    let control_bytes = server.outgoing(Channel::Control).len();
    server.sent(Channel::Control, control_bytes);
    assert!(request(&mut server, 0, &headers(&GET)).is_ok());
    let fields = [crate::headers::Field::from_static("server", "x")];
    let mut out = Vec::new();
    server
        .send_head(0, crate::StatusCode::OK, fields, true, &mut out)
        .expect("the first head");
    assert_eq!(server.open_streams(), 0);
    let heap_bytes = server.heap_bytes();
    assert!(heap_bytes < 256, "{heap_bytes}");
    assert!(
        size_of::<Connection>() < 1024,
        "{}",
        size_of::<Connection>()
    );
}
