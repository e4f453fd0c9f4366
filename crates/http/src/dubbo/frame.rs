//! Frames: a header of 16 bytes, and a payload whose length is in it.
//!
//! ```text
//!  0      2       3        4          12       16
//!  da bb  flags   status   number     length   payload
//! ```

use super::{HEADER_BYTES, MAX_PAYLOAD_BYTES};
use std::fmt;
use std::ops::Range;

const MAGIC: [u8; 2] = [0xda, 0xbb];
const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
const EVENT: u8 = 0x20;
const SERIALIZATION: u8 = 0x1f;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The call of a method.
    Request {
        /// The caller waits for a response.
        two_way: bool,
    },
    /// The response to one.
    Response,
    /// An event, such as a heartbeat.
    Event {
        /// The sender waits for a response.
        two_way: bool,
    },
    /// The response to an event.
    EventResponse,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// How the payload is serialised, from 0 to 31.
    pub serialization: u8,
    /// The status of a response; 0 in requests.
    pub status: u8,
    /// The number that a response has in common with its request.
    pub number: u64,
    /// Bytes of the payload, at most [`MAX_PAYLOAD_BYTES`].
    pub payload_bytes: u32,
}

/// Invalid framing. Nothing that follows can be understood, so the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame does not begin with the two bytes that all frames begin with. Most likely the peer
    /// does not speak Dubbo.
    Magic([u8; 2]),
    /// The length is negative.
    Length(u32),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Magic([first, second]) => write!(
                f,
                "upstream sent invalid dubbo magic number: {first:02x}{second:02x}"
            ),
            FrameError::Length(bytes) => {
                write!(f, "upstream sent invalid dubbo payload length: {bytes:#x}")
            }
        }
    }
}

impl Header {
    /// The header in bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let flags = match self.kind {
            Kind::Request { two_way: false } => REQUEST,
            Kind::Request { two_way: true } => REQUEST | TWO_WAY,
            Kind::Response => 0,
            Kind::Event { two_way: false } => REQUEST | EVENT,
            Kind::Event { two_way: true } => REQUEST | EVENT | TWO_WAY,
            Kind::EventResponse => EVENT,
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = flags | self.serialization & SERIALIZATION;
        bytes[3] = self.status;
        bytes[4..12].copy_from_slice(&self.number.to_be_bytes());
        bytes[12..].copy_from_slice(&self.payload_bytes.to_be_bytes());
        bytes
    }

    /// The header that these bytes are.
    ///
    /// # Errors
    /// When the magic number or the length is wrong.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let [first, second, flags, status, rest @ ..] = *bytes;
        if [first, second] != MAGIC {
            return Err(FrameError::Magic([first, second]));
        }
        let two_way = flags & TWO_WAY != 0;
        let [n0, n1, n2, n3, n4, n5, n6, n7, l0, l1, l2, l3] = rest;
        let payload_bytes = u32::from_be_bytes([l0, l1, l2, l3]);
        if u64::from(payload_bytes) > MAX_PAYLOAD_BYTES {
            return Err(FrameError::Length(payload_bytes));
        }
        Ok(Header {
            kind: match (flags & REQUEST != 0, flags & EVENT != 0) {
                (true, false) => Kind::Request { two_way },
                (true, true) => Kind::Event { two_way },
                (false, false) => Kind::Response,
                (false, true) => Kind::EventResponse,
            },
            serialization: flags & SERIALIZATION,
            status,
            number: u64::from_be_bytes([n0, n1, n2, n3, n4, n5, n6, n7]),
            payload_bytes,
        })
    }
}

/// The result of a call of [`FrameDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// No further event in this input.
    NeedMore,
    /// A frame begins.
    Begin(Header),
    /// Part of its payload, at this position of the input.
    Payload(Range<usize>),
    /// Its payload is complete.
    End,
}

/// An event, and how much of the input it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that have been processed; the next call starts after them.
    pub consumed: usize,
    /// The event they led to.
    pub event: Event,
}

/// Finds the frames in what arrives.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    /// The part of a header that has arrived.
    header: [u8; HEADER_BYTES],
    state: Awaited,
}

#[derive(Debug)]
enum Awaited {
    /// So many bytes of a header have arrived.
    Header(usize),
    /// So many bytes of a payload are still to come.
    Payload(u32),
    Failed(FrameError),
}

impl Default for Awaited {
    fn default() -> Awaited {
        Awaited::Header(0)
    }
}

impl FrameDecoder {
    /// Whether the bytes so far end with a complete frame.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, Awaited::Header(0))
    }

    /// Takes the next event from the input.
    ///
    /// # Errors
    /// See [`FrameError`]; every later call returns the same error.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, FrameError> {
        let (consumed, event) = match self.state {
            Awaited::Failed(error) => return Err(error),
            Awaited::Header(have) => {
                let taken = input.len().min(HEADER_BYTES - have);
                self.header[have..have + taken].copy_from_slice(&input[..taken]);
                let have = have + taken;
                self.check_magic(have)?;
                self.state = Awaited::Header(have);
                if have < HEADER_BYTES {
                    (taken, Event::NeedMore)
                } else {
                    let header = Header::decode(&self.header).map_err(|error| self.fail(error))?;
                    self.state = Awaited::Payload(header.payload_bytes);
                    (taken, Event::Begin(header))
                }
            }
            Awaited::Payload(0) => {
                self.state = Awaited::Header(0);
                (0, Event::End)
            }
            Awaited::Payload(_) if input.is_empty() => (0, Event::NeedMore),
            Awaited::Payload(left) => {
                let taken = input.len().min(left as usize);
                // At most `left`.
                self.state = Awaited::Payload(left - taken as u32);
                (taken, Event::Payload(0..taken))
            }
        };
        Ok(Decoded { consumed, event })
    }

    /// Whoever does not speak Dubbo is recognised at once, not after 16 bytes that may never come.
    fn check_magic(&mut self, have: usize) -> Result<(), FrameError> {
        let compared = have.min(MAGIC.len());
        if self.header[..compared] == MAGIC[..compared] {
            return Ok(());
        }
        let mut found = [0; 2];
        found[..compared].copy_from_slice(&self.header[..compared]);
        Err(self.fail(FrameError::Magic(found)))
    }

    fn fail(&mut self, error: FrameError) -> FrameError {
        self.state = Awaited::Failed(error);
        error
    }
}
