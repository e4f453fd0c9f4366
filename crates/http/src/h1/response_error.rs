//! Why a response from an origin is refused.

use std::fmt;

use super::body::BodyError;
use crate::Span;

/// A response head that cannot be accepted. The origin is at fault: the connection must be closed,
/// and `proxy_next_upstream invalid_header` decides whether another peer is tried before the client
/// gets 502.
///
/// [`Display`](fmt::Display) yields nginx's message, [`excerpt`](ResponseError::excerpt) the bytes
/// to quote after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseError {
    /// The first line is not an HTTP/1 status line. nginx treats the data as an HTTP/0.9 response
    /// and sends it to the client without a head; see [the module](super).
    NoStatusLine {
        /// The line so far.
        line: Span,
    },
    /// The head does not fit into `proxy_buffer_size`.
    HeadTooLarge,
    /// More interim responses than [`max_interim`](super::ResponseLimits::max_interim).
    TooManyInterim,
    /// A control character or white space in a name, folding, NUL, or CR without LF.
    InvalidHeader {
        /// The line.
        line: Span,
    },
    /// `Content-Length` or `Transfer-Encoding` twice.
    DuplicateHeader {
        /// The second line.
        line: Span,
        /// The first value.
        previous: Span,
    },
    /// `Content-Length` is not a number.
    InvalidContentLength {
        /// The line.
        line: Span,
    },
    /// `Content-Length` and `Transfer-Encoding` together.
    LengthWithTransferEncoding,
    /// A transfer coding other than `chunked`, or a list.
    UnknownTransferEncoding {
        /// The value.
        value: Span,
    },
    /// The `Status` header of a gateway does not begin with three digits, at least 100.
    InvalidStatus {
        /// The value.
        value: Span,
    },
}

impl ResponseError {
    /// The offending bytes in the buffer, for the log; to be escaped and truncated there.
    pub fn excerpt(&self) -> Option<Span> {
        match *self {
            ResponseError::NoStatusLine { line }
            | ResponseError::InvalidHeader { line }
            | ResponseError::DuplicateHeader { line, .. }
            | ResponseError::InvalidContentLength { line } => Some(line),
            ResponseError::UnknownTransferEncoding { value }
            | ResponseError::InvalidStatus { value } => Some(value),
            ResponseError::HeadTooLarge
            | ResponseError::TooManyInterim
            | ResponseError::LengthWithTransferEncoding => None,
        }
    }
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseError::NoStatusLine { .. } => "upstream sent no valid HTTP/1.0 header",
            ResponseError::HeadTooLarge => "upstream sent too big header",
            ResponseError::TooManyInterim => "upstream sent too many interim responses",
            ResponseError::InvalidHeader { .. } => "upstream sent invalid header",
            ResponseError::DuplicateHeader { .. } => "upstream sent duplicate header line",
            ResponseError::InvalidContentLength { .. } => {
                "upstream sent invalid \"Content-Length\" header"
            }
            ResponseError::LengthWithTransferEncoding => {
                "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"
            }
            ResponseError::UnknownTransferEncoding { .. } => {
                "upstream sent unknown \"Transfer-Encoding\""
            }
            ResponseError::InvalidStatus { .. } => "upstream sent invalid status",
        })
    }
}

impl std::error::Error for ResponseError {}

/// A response body that broke off or cannot be understood. The connection must be closed, and so
/// must the client's, or the client would take the body for complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBodyError {
    /// Malformed chunks or trailers.
    Chunked(BodyError),
    /// A trailer line that is not a header line.
    InvalidTrailer,
    /// The connection ended before the body did.
    ClosedEarly,
}

impl fmt::Display for ResponseBodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseBodyError::Chunked(BodyError::TrailersTooLong) => {
                f.write_str("upstream sent too big trailers")
            }
            ResponseBodyError::Chunked(error) => {
                let detail = error.detail();
                write!(f, "upstream sent invalid chunked response ({detail})")
            }
            ResponseBodyError::InvalidTrailer => f.write_str("upstream sent invalid trailer"),
            ResponseBodyError::ClosedEarly => f.write_str("upstream prematurely closed connection"),
        }
    }
}

impl std::error::Error for ResponseBodyError {}

impl From<BodyError> for ResponseBodyError {
    fn from(error: BodyError) -> ResponseBodyError {
        ResponseBodyError::Chunked(error)
    }
}
