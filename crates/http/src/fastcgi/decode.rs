//! Decodes the records of a response as they arrive.

use std::fmt;
use std::ops::Range;

use super::{
    END_REQUEST, MAX_STDERR_BYTES, RECORD_HEADER_BYTES, REQUEST_ID, STDERR, STDOUT, VERSION,
};

/// How the application ended the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// It was completed.
    RequestComplete,
    /// The application does not take several requests on one connection.
    CannotMultiplex,
    /// The application is out of a resource.
    Overloaded,
    /// The application does not know the role of a responder.
    UnknownRole,
    /// A number the specification does not define.
    Other(u8),
}

/// The result of a call of [`RecordDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// No further event in this input.
    NeedMore,
    /// Response bytes, at this position of the input.
    Stdout(Range<usize>),
    /// The response has ended; [`Event::End`] follows.
    StdoutEnd,
    /// A piece of error text, at this position of the input. One text may come in several pieces.
    Stderr(Range<usize>),
    /// The application has ended the request. Nothing may follow on this connection except, with
    /// `fastcgi_keep_conn`, the response to another request.
    End {
        /// The exit status of the application.
        app_status: u32,
        /// How it ended.
        protocol_status: ProtocolStatus,
    },
}

/// An event, and how much of the input it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that have been processed; the next call starts after them.
    pub consumed: usize,
    /// The event they led to.
    pub event: Event,
}

/// Invalid FastCGI. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastCgiError {
    /// The first byte of a record is not 1. Most likely the peer does not speak FastCGI.
    Version(u8),
    /// A record that is neither output, error text, nor the end of the request.
    RecordType(u8),
    /// A record of a request that was never made.
    RequestId(u16),
}

impl fmt::Display for FastCgiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FastCgiError::Version(version) => write!(
                f,
                "upstream sent unsupported FastCGI protocol version: {version}"
            ),
            FastCgiError::RecordType(kind) => {
                write!(f, "upstream sent invalid FastCGI record type: {kind}")
            }
            FastCgiError::RequestId(id) => {
                write!(f, "upstream sent unexpected FastCGI request id: {id}")
            }
        }
    }
}

impl std::error::Error for FastCgiError {}

/// Decodes the records of one response, copying nothing.
///
/// ```text
/// Header -> Content -> Padding -+-> Header
///      \                        +-> Done (after the end of the request)
///       +-> Failed, for good
/// ```
#[derive(Clone, Debug)]
pub struct RecordDecoder {
    state: DecoderState,
    /// The header of the current record, or the content of the one that ends the request.
    bytes: [u8; RECORD_HEADER_BYTES],
    filled: usize,
    kind: u8,
    content_left: usize,
    padding_left: usize,
    stdout_ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    Header,
    Content,
    Padding,
    Done,
    Failed(FastCgiError),
}

impl Default for RecordDecoder {
    fn default() -> RecordDecoder {
        RecordDecoder::new()
    }
}

impl RecordDecoder {
    /// A decoder at the start of a response.
    pub fn new() -> RecordDecoder {
        RecordDecoder {
            state: DecoderState::Header,
            bytes: [0; RECORD_HEADER_BYTES],
            filled: 0,
            kind: 0,
            content_left: 0,
            padding_left: 0,
            stdout_ended: false,
        }
    }

    /// Whether the request has ended, including the last padding. Any further input does not belong
    /// to it, and the connection must then not be reused.
    pub fn is_done(&self) -> bool {
        self.state == DecoderState::Done
    }

    /// Whether more content of the current record is to come. After [`Event::Stderr`] this says
    /// whether the text continues.
    pub fn is_within_record(&self) -> bool {
        self.state == DecoderState::Content
    }

    /// Whether the response has ended: there is no more output, though the end of the request may
    /// still come. If the connection closes before this is true, the response is incomplete (nginx:
    /// `upstream prematurely closed FastCGI stdout`), unless its own length says otherwise.
    pub fn stdout_ended(&self) -> bool {
        self.stdout_ended
    }

    /// Decodes up to the next event. Call it again with what follows `consumed` until
    /// [`Event::NeedMore`]; after [`Event::End`] too, for the padding.
    ///
    /// # Errors
    /// [`FastCgiError`]; events before it stand. Every later call returns it again.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, FastCgiError> {
        let mut at = 0;
        loop {
            match self.state {
                DecoderState::Header => {
                    at += self.fill(&input[at..], RECORD_HEADER_BYTES);
                    if let Err(error) = self.check_header() {
                        self.state = DecoderState::Failed(error);
                        continue;
                    }
                    if self.filled < RECORD_HEADER_BYTES {
                        return Ok(need_more(at));
                    }
                    if let Some(event) = self.begin_content() {
                        return Ok(Decoded {
                            consumed: at,
                            event,
                        });
                    }
                }
                DecoderState::Content => {
                    let here = self.content_left.min(input.len() - at);
                    let content = at..at + here;
                    if here == 0 && self.content_left > 0 {
                        return Ok(need_more(at));
                    }
                    at = content.end;
                    if let Some(event) = self.take_content(input, content) {
                        return Ok(Decoded {
                            consumed: at,
                            event,
                        });
                    }
                }
                DecoderState::Padding => {
                    let here = self.padding_left.min(input.len() - at);
                    self.padding_left -= here;
                    at += here;
                    if self.padding_left > 0 {
                        return Ok(need_more(at));
                    }
                    self.end_record();
                }
                DecoderState::Done => return Ok(need_more(at)),
                DecoderState::Failed(error) => return Err(error),
            }
        }
    }

    /// Collects up to `wanted` bytes and returns how many were taken.
    fn fill(&mut self, input: &[u8], wanted: usize) -> usize {
        let taken = input.len().min(wanted - self.filled);
        self.bytes[self.filled..self.filled + taken].copy_from_slice(&input[..taken]);
        self.filled += taken;
        taken
    }

    /// Checks the header as far as it has arrived, so that a peer with another protocol is detected
    /// by its first byte.
    fn check_header(&self) -> Result<(), FastCgiError> {
        let [version, kind, id_high, id_low, ..] = self.bytes;
        if self.filled >= 1 && version != VERSION {
            return Err(FastCgiError::Version(version));
        }
        if self.filled >= 2 && !matches!(kind, STDOUT | STDERR | END_REQUEST) {
            return Err(FastCgiError::RecordType(kind));
        }
        let id = u16::from_be_bytes([id_high, id_low]);
        if self.filled >= 4 && id != REQUEST_ID {
            return Err(FastCgiError::RequestId(id));
        }
        Ok(())
    }

    fn begin_content(&mut self) -> Option<Event> {
        let [_, kind, _, _, high, low, padding, _] = self.bytes;
        self.kind = kind;
        self.content_left = usize::from(u16::from_be_bytes([high, low]));
        self.padding_left = usize::from(padding);
        self.filled = 0;
        if kind == END_REQUEST {
            // Fields missing from a short record are zero.
            self.bytes = [0; RECORD_HEADER_BYTES];
            self.state = DecoderState::Content;
            return None;
        }
        if self.content_left > 0 {
            self.state = DecoderState::Content;
            return None;
        }
        self.state = DecoderState::Padding;
        if kind == STDOUT && !self.stdout_ended {
            self.stdout_ended = true;
            return Some(Event::StdoutEnd);
        }
        None
    }

    fn take_content(&mut self, input: &[u8], content: Range<usize>) -> Option<Event> {
        self.content_left -= content.len();
        if self.kind == END_REQUEST {
            self.fill(&input[content], RECORD_HEADER_BYTES);
            if self.content_left > 0 {
                return None;
            }
            self.state = DecoderState::Padding;
            return Some(self.end_event());
        }
        if self.content_left == 0 {
            self.state = DecoderState::Padding;
        }
        // Output after its end is dropped, as it belongs to no response.
        match self.kind {
            STDERR => Some(Event::Stderr(content)),
            _ if self.stdout_ended => None,
            _ => Some(Event::Stdout(content)),
        }
    }

    fn end_event(&self) -> Event {
        let [app @ .., protocol_status, _, _, _] = self.bytes;
        Event::End {
            app_status: u32::from_be_bytes(app),
            protocol_status: match protocol_status {
                0 => ProtocolStatus::RequestComplete,
                1 => ProtocolStatus::CannotMultiplex,
                2 => ProtocolStatus::Overloaded,
                3 => ProtocolStatus::UnknownRole,
                other => ProtocolStatus::Other(other),
            },
        }
    }

    fn end_record(&mut self) {
        self.filled = 0;
        self.state = if self.kind == END_REQUEST {
            self.stdout_ended = true;
            DecoderState::Done
        } else {
            DecoderState::Header
        };
    }
}

fn need_more(consumed: usize) -> Decoded {
    Decoded {
        consumed,
        event: Event::NeedMore,
    }
}

/// Error text of an application, joined from its pieces and bounded to [`MAX_STDERR_BYTES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StderrText {
    text: Vec<u8>,
    dropped_bytes: u64,
}

impl StderrText {
    /// Adds a piece.
    pub fn push(&mut self, piece: &[u8]) {
        let kept = piece.len().min(MAX_STDERR_BYTES - self.text.len());
        self.text.extend_from_slice(&piece[..kept]);
        self.dropped_bytes += (piece.len() - kept) as u64;
    }

    /// The text to log after `FastCGI sent in stderr: `, to be escaped there. Like nginx, it drops
    /// line ends, dots and spaces at the end.
    pub fn text(&self) -> &[u8] {
        let is_kept = |byte: &u8| !matches!(byte, b'\n' | b'\r' | b'.' | b' ');
        let end = self.text.iter().rposition(is_kept);
        &self.text[..end.map_or(0, |last| last + 1)]
    }

    /// Bytes that were discarded.
    #[cfg(test)]
    pub(crate) fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// Whether there was no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Clears it for the next text.
    pub fn clear(&mut self) {
        self.text.clear();
        self.dropped_bytes = 0;
    }
}
