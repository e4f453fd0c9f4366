//! Response bodies of origins: where the data is, where the message ends, and what must not follow.

use smallvec::SmallVec;

use super::body::{BodyDecoder, Decoded};
use super::header_line::{self, HeaderLine};
use super::request::{Framing, RawHeader};
use super::response_error::ResponseBodyError;
use super::response_head::ResponseFraming;
use crate::Span;
use crate::headers::KnownHeader;

/// Finds the body's data in the bytes after a response head, copying nothing.
///
/// An error is final, including that of a connection that ended too early.
#[derive(Clone, Debug)]
pub struct ResponseBodyDecoder {
    framing: ResponseFraming,
    body: BodyDecoder,
    /// The connection has closed, which ends a body without length.
    is_closed: bool,
    /// It ended before the body did.
    is_cut: bool,
}

impl ResponseBodyDecoder {
    /// A decoder for the body that follows a head with this framing.
    pub fn new(framing: ResponseFraming) -> ResponseBodyDecoder {
        let body = BodyDecoder::new(match framing {
            ResponseFraming::None | ResponseFraming::UntilClose => Framing::None,
            ResponseFraming::Length(length) => Framing::Length(length),
            ResponseFraming::Chunked => Framing::Chunked,
        });
        ResponseBodyDecoder {
            framing,
            body,
            is_closed: false,
            is_cut: false,
        }
    }

    /// Keeps the trailers of a chunked body (`proxy_pass_trailers`).
    pub fn keep_trailers(mut self) -> ResponseBodyDecoder {
        self.body = self.body.keep_trailers();
        self
    }

    /// Parses framing up to the next run of data, and that run as far as it has arrived. Call it
    /// again with what follows `consumed` until `done`, or until the input is used up.
    ///
    /// Input left after `done` belongs to no response: see [`surplus`](Self::surplus).
    ///
    /// # Errors
    /// [`ResponseBodyError`]; data returned before it stands. Every later call returns it again.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, ResponseBodyError> {
        if self.is_cut {
            return Err(ResponseBodyError::ClosedEarly);
        }
        if self.framing == ResponseFraming::UntilClose && !self.is_closed {
            return Ok(Decoded {
                consumed: input.len(),
                data: 0..input.len(),
                done: false,
            });
        }
        Ok(self.body.decode(input)?)
    }

    /// Whether the body has ended.
    pub fn is_done(&self) -> bool {
        match self.framing {
            ResponseFraming::UntilClose => self.is_closed,
            _ => self.body.is_done(),
        }
    }

    /// A lower bound on the bytes still to come, for sizing the next read; 1 if nothing is known.
    pub fn known_left(&self) -> u64 {
        match self.framing {
            ResponseFraming::UntilClose => u64::from(!self.is_closed),
            _ => self.body.known_left(),
        }
    }

    /// To be called when the origin has closed the connection properly (end of file, or
    /// close_notify).
    ///
    /// # Errors
    /// [`ResponseBodyError::ClosedEarly`] when bytes were still to come; what was wrong before
    /// that, if anything was.
    pub fn close(&mut self) -> Result<(), ResponseBodyError> {
        self.is_closed = true;
        if self.is_done() {
            return Ok(());
        }
        if let Some(error) = self.body.error() {
            return Err(error.into());
        }
        self.is_cut = true;
        Err(ResponseBodyError::ClosedEarly)
    }

    /// The message to log, at level `warn`, when bytes follow the end of the body. They must not be
    /// sent anywhere, and the connection must not be reused.
    pub fn surplus(&self) -> &'static str {
        match self.framing {
            ResponseFraming::Chunked => "upstream sent data after final chunk",
            _ => "upstream sent more data than specified in \"Content-Length\" header",
        }
    }

    /// The kept trailer section: lines with CR LF, to be passed to [`parse_trailers`].
    pub fn take_trailers(&mut self) -> Vec<u8> {
        self.body.take_trailers()
    }
}

/// Parses a trailer section. Fields that frame, route or authenticate a message are left out (RFC
/// 9110 section 6.5.1): a trailer comes too late for them.
///
/// # Errors
/// [`ResponseBodyError::InvalidTrailer`] for a line that is no header line.
pub fn parse_trailers(lines: &[u8]) -> Result<SmallVec<[RawHeader; 4]>, ResponseBodyError> {
    let mut trailers = SmallVec::new();
    let mut start = 0;
    while let Some(length) = memchr::memmem::find(&lines[start..], b"\r\n") {
        let line = Span::new(start, start + length);
        start += length + 2;
        let parsed = header_line::parse_lenient(lines, line);
        let HeaderLine {
            name, value, known, ..
        } = parsed.ok_or(ResponseBodyError::InvalidTrailer)?;
        if !known.is_some_and(is_no_trailer) {
            trailers.push(RawHeader { name, value, known });
        }
    }
    Ok(trailers)
}

fn is_no_trailer(known: KnownHeader) -> bool {
    matches!(
        known,
        KnownHeader::ContentLength
            | KnownHeader::TransferEncoding
            | KnownHeader::Connection
            | KnownHeader::KeepAlive
            | KnownHeader::ProxyConnection
            | KnownHeader::Te
            | KnownHeader::Trailer
            | KnownHeader::Upgrade
            | KnownHeader::Host
            | KnownHeader::ContentEncoding
            | KnownHeader::ContentType
            | KnownHeader::ContentRange
            | KnownHeader::SetCookie
            | KnownHeader::Location
            | KnownHeader::WwwAuthenticate
            | KnownHeader::ProxyAuthenticate
    )
}
