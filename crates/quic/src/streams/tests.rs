//! Streams between two ends, and rules by section.

mod hostile;
mod limits;
mod network;
mod receiving;
mod sending;

use std::time::Duration;

use super::*;
use crate::Time;

const BIDI: Direction = Direction::Bidirectional;
const UNI: Direction = Direction::Unidirectional;

fn settings() -> Settings {
    Settings {
        max_data: 10_000,
        max_stream_data_bidi_local: 3_000,
        max_stream_data_bidi_remote: 2_000,
        max_stream_data_uni: 1_000,
        max_streams_bidi: 10,
        max_streams_uni: 4,
        max_window: 10_000,
        max_stream_window: 3_000,
    }
}

/// What an end with these settings allows its peer.
fn limits_of(settings: &Settings) -> PeerLimits {
    PeerLimits {
        max_data: settings.max_data,
        max_stream_data_bidi_local: settings.max_stream_data_bidi_local,
        max_stream_data_bidi_remote: settings.max_stream_data_bidi_remote,
        max_stream_data_uni: settings.max_stream_data_uni,
        max_streams_bidi: settings.max_streams(BIDI),
        max_streams_uni: settings.max_streams(UNI),
    }
}

fn end(side: Side) -> Streams {
    let mut streams = Streams::new(side, &settings());
    streams.set_peer_limits(&limits_of(&settings())).unwrap();
    streams.pending.take(Pending::AVAILABLE[0]);
    streams.pending.take(Pending::AVAILABLE[1]);
    streams
}

fn server() -> Streams {
    end(Side::Server)
}

fn client() -> Streams {
    end(Side::Client)
}

/// The client's stream of this index.
fn request(index: u64) -> StreamId {
    StreamId::new(Side::Client, BIDI, index)
}

/// The byte of every stream at this offset.
fn byte(offset: u64) -> u8 {
    (offset * 13 + offset / 255) as u8
}

fn bytes(range: std::ops::Range<u64>) -> Vec<u8> {
    range.map(byte).collect()
}

/// Hands in a frame to an owner that takes nothing at once.
fn arrives(
    streams: &mut Streams,
    id: StreamId,
    range: std::ops::Range<u64>,
    fin: bool,
) -> Result<(), Error> {
    let start = range.start;
    streams.on_stream(id, start, &bytes(range), fin, &mut |_, _, _| 0)
}

fn code_of(result: Result<(), Error>) -> Option<Code> {
    result.err().map(|error| error.code)
}

/// All that can be read at once, and whether that is the end.
fn read(streams: &mut Streams, id: StreamId) -> (Vec<u8>, bool) {
    let mut got = Vec::new();
    let mut end = false;
    streams.read(id, &mut |_, bytes, fin| {
        got.extend_from_slice(bytes);
        end = fin;
        bytes.len()
    });
    (got, end)
}

fn events(streams: &mut Streams) -> Vec<Event> {
    std::iter::from_fn(|| streams.next_event()).collect()
}

fn frames(streams: &mut Streams, room: usize) -> Vec<Outgoing> {
    std::iter::from_fn(|| streams.next_frame(room)).collect()
}

fn consume(streams: &mut Streams, id: StreamId, bytes: u64) {
    // So much later that windows do not grow.
    streams.consumed(id, bytes, Time::from_micros(1), Duration::ZERO);
}

#[test]
fn what_a_connection_and_a_request_take_in_memory() {
    let mut streams = server();
    assert_eq!(streams.heap_bytes(), 0);
    arrives(&mut streams, request(0), 0..0, true).unwrap();
    assert!(streams.heap_bytes() <= 300, "{}", streams.heap_bytes());
    println!(
        "connection {}, entry {}, sending {}, receiving {}",
        size_of::<Streams>(),
        size_of::<Entry>(),
        size_of::<SendPart>(),
        size_of::<RecvPart>()
    );
}
