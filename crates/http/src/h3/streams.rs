//! What is kept of streams.

use super::frame::FrameState;
use crate::h1;
use crate::message::Priority;
use std::time::Duration;

/// The progress of one direction of a request stream (RFC 9114 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// A head is due.
    Head,
    /// DATA may follow, then trailers.
    Body,
    /// Nothing more comes, or nothing that comes is wanted.
    Ended,
}

/// A request stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u64,
    /// The age of the connection when the stream was opened.
    pub(super) opened_ms: u32,
    pub(super) receive: Half,
    pub(super) send: Half,
    pub(super) priority: Priority,
    /// A PRIORITY_UPDATE has set it, which counts more than the header.
    pub(super) has_priority: bool,
    /// The frame that is arriving.
    pub(super) frame: FrameState,
    /// What has arrived of a HEADERS frame, or all of it while it waits for the peer's encoder.
    pub(super) section: Vec<u8>,
    /// HTTP/0.9: how far the line in `section` was read.
    pub(super) line: Option<Box<h1::ParseState>>,
    /// The section waits for the peer's encoder.
    pub(super) is_blocked: bool,
    /// The stream has ended behind the section that waits.
    pub(super) is_finished: bool,
    /// Trailers have come: DATA and HEADERS must not follow.
    pub(super) has_trailers: bool,
    /// A tunnel: only DATA may follow (RFC 9114 section 4.4).
    pub(super) is_tunnel: bool,
    pub(super) is_head_request: bool,
    /// It counts as wasted already.
    pub(super) is_wasted: bool,
    /// `content-length`.
    pub(super) declared_bytes: Option<u64>,
    pub(super) received_bytes: u64,
}

impl Stream {
    pub(super) fn new(id: u64, opened: Duration) -> Stream {
        Stream {
            id,
            opened_ms: u32::try_from(opened.as_millis()).unwrap_or(u32::MAX),
            receive: Half::Head,
            send: Half::Head,
            priority: Priority::default(),
            has_priority: false,
            frame: FrameState::default(),
            section: Vec::new(),
            line: None,
            is_blocked: false,
            is_finished: false,
            has_trailers: false,
            is_tunnel: false,
            is_head_request: false,
            is_wasted: false,
            declared_bytes: None,
            received_bytes: 0,
        }
    }
}

/// The open request streams, by ascending id: new ones are nearly always the last.
#[derive(Debug, Default)]
pub(super) struct Streams(Vec<Stream>);

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn position(&self, id: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |stream| stream.id)
    }

    pub(super) fn get(&self, id: u64) -> Option<&Stream> {
        self.position(id).ok().map(|at| &self.0[at])
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Stream> {
        self.position(id).ok().map(|at| &mut self.0[at])
    }

    /// The streams on which no head has come.
    pub(super) fn without_head(&self) -> impl Iterator<Item = &Stream> {
        self.0.iter().filter(|stream| stream.receive == Half::Head)
    }

    /// Adds a stream; `false` if it is there already.
    pub(super) fn insert(&mut self, stream: Stream) -> bool {
        match self.position(stream.id) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, stream);
                true
            }
        }
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Stream> {
        let at = self.position(id).ok()?;
        let stream = self.0.remove(at);
        if self.0.is_empty() {
            // A connection that idles keeps no memory for streams.
            self.0 = Vec::new();
        }
        Some(stream)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let sections: usize = self.0.iter().map(|stream| stream.section.capacity()).sum();
        self.0.capacity() * size_of::<Stream>() + sections
    }
}

/// What a peer's unidirectional stream is for (RFC 9114 section 6.2, RFC 9204 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its type has not arrived.
    NotYetKnown,
    Control,
    Encoder,
    Decoder,
    /// Of an unknown type: what comes is ignored.
    Ignored,
}

/// A unidirectional stream of the peer.
#[derive(Debug)]
pub(super) struct Unidirectional {
    pub(super) id: u64,
    pub(super) purpose: Purpose,
    /// The part of the type that has arrived.
    pub(super) partial: super::varint::Partial,
}
