//! Why a request head is refused: the response status and the log message.

use std::fmt;

use crate::{Span, StatusCode, headers::KnownHeader, uri::UriError};

/// A request head that cannot be accepted. The connection must be closed after the response, since
/// the start of the next request is unknown.
///
/// The client is always at fault, so nginx logs these at level `info`. [`Display`] yields nginx's
/// message; [`excerpt`](RequestError::excerpt) the bytes to quote after it.
///
/// [`Display`]: fmt::Display
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The first word is not a method, which consists of upper-case letters, `_` and `-`. A TLS
    /// handshake on a plain port also ends up here.
    InvalidMethod {
        /// The line so far.
        line: Span,
    },
    /// The rest of the request line is malformed.
    InvalidRequestLine {
        /// The line.
        line: Span,
    },
    /// The request target is malformed.
    InvalidTarget {
        /// The target.
        target: Span,
        /// What is wrong with it.
        error: UriError,
    },
    /// HTTP/2 or later in a request line.
    VersionNotSupported {
        /// The line.
        line: Span,
    },
    /// HTTP/0.9 with a method other than GET.
    MethodInHttp09 {
        /// The line.
        line: Span,
    },
    /// More empty lines before the request than `client_header_buffer_size` bytes.
    TooManyEmptyLines,
    /// The request line exceeds one large buffer, or no buffer is left for it.
    UriTooLong,
    /// A header line exceeds one large buffer, or the last buffer ends within it.
    HeaderLineTooLong {
        /// The part of it that the buffer holds.
        line: Span,
    },
    /// The last buffer is full before a header line begins. (After the first such line nginx blames
    /// the previous line, which did fit.)
    HeadTooLarge,
    /// More header lines than `max_headers`.
    TooManyHeaders,
    /// A header line with a control character, a space before the colon, folding, or no colon.
    InvalidHeaderLine {
        /// The line.
        line: Span,
    },
    /// A header that may be sent only once was sent again.
    DuplicateHeader {
        /// Which one.
        name: KnownHeader,
        /// The second line.
        line: Span,
    },
    /// The value of `Host` is not a valid host.
    InvalidHost {
        /// The value.
        value: Span,
    },
    /// HTTP/2 without a mandatory pseudo-header (RFC 9113 section 8.3.1).
    MissingPseudoHeader {
        /// Its name.
        name: &'static str,
    },
    /// HTTP/2: the stream ends with the head although it declares a body.
    PrematureEnd,
    /// HTTP/2: a head that RFC 9113 section 8.1.1 calls malformed in any other way.
    Malformed {
        /// What is wrong, in nginx's words.
        why: &'static str,
    },
    /// HTTP/1.1 without `Host`, or HTTP/2 without `:authority` and `host`.
    MissingHost,
    /// `Content-Length` is not a number.
    InvalidContentLength {
        /// The value.
        value: Span,
    },
    /// `Content-Length` and `Transfer-Encoding` together.
    LengthWithTransferEncoding,
    /// `Transfer-Encoding` in HTTP/1.0.
    TransferEncodingInHttp10,
    /// A transfer coding other than `chunked`.
    UnknownTransferEncoding {
        /// The value.
        value: Span,
    },
}

impl RequestError {
    /// The response status, possibly one of nginx's own ([`StatusCode::on_wire`]).
    pub fn status(&self) -> StatusCode {
        match self {
            RequestError::UriTooLong => StatusCode::URI_TOO_LONG,
            RequestError::HeaderLineTooLong { .. }
            | RequestError::HeadTooLarge
            | RequestError::TooManyHeaders => StatusCode::HEADER_TOO_LARGE,
            RequestError::VersionNotSupported { .. } => StatusCode::VERSION_NOT_SUPPORTED,
            RequestError::UnknownTransferEncoding { .. } => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The log message in nginx's words, without the quoted bytes.
    pub fn reason(&self) -> &'static str {
        match self {
            RequestError::InvalidMethod { .. } => "client sent invalid method",
            RequestError::InvalidRequestLine { .. } | RequestError::InvalidTarget { .. } => {
                "client sent invalid request"
            }
            RequestError::VersionNotSupported { .. } => "client sent invalid version",
            RequestError::MethodInHttp09 { .. } => "client sent invalid method in HTTP/0.9 request",
            RequestError::TooManyEmptyLines => "client sent too many empty lines before a request",
            RequestError::UriTooLong => "client sent too long URI",
            RequestError::HeaderLineTooLong { .. } => "client sent too long header line",
            RequestError::HeadTooLarge => "client sent too large request",
            RequestError::TooManyHeaders => "client sent too many header lines",
            RequestError::InvalidHeaderLine { .. } => "client sent invalid header line",
            RequestError::DuplicateHeader { name, .. } => match name {
                KnownHeader::Host => "client sent duplicate host header",
                _ => "client sent duplicate header line",
            },
            RequestError::InvalidHost { .. } => "client sent invalid host header",
            RequestError::MissingPseudoHeader { name } => match *name {
                ":method" => "client sent no :method header",
                ":scheme" => "client sent no :schema header",
                _ => "client sent no :path header",
            },
            RequestError::PrematureEnd => "client prematurely closed stream",
            RequestError::Malformed { why } => why,
            RequestError::MissingHost => "client sent HTTP/1.1 request without \"Host\" header",
            RequestError::InvalidContentLength { .. } => {
                "client sent invalid \"Content-Length\" header"
            }
            RequestError::LengthWithTransferEncoding => {
                "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"
            }
            RequestError::TransferEncodingInHttp10 => {
                "client sent HTTP/1.0 request with \"Transfer-Encoding\" header"
            }
            RequestError::UnknownTransferEncoding { .. } => {
                "client sent unknown \"Transfer-Encoding\""
            }
        }
    }

    /// HTTP/2: whether the response to this request is followed by a reset of its stream, as the
    /// request is malformed (RFC 9113 section 8.1.1).
    pub fn is_malformed(&self) -> bool {
        matches!(
            self,
            RequestError::Malformed { .. } | RequestError::MissingPseudoHeader { .. }
        )
    }

    /// Like [`excerpt`](RequestError::excerpt), but mutable, so that it can be moved with its
    /// buffer.
    pub(crate) fn excerpt_mut(&mut self) -> Option<&mut Span> {
        match self {
            RequestError::InvalidMethod { line }
            | RequestError::InvalidRequestLine { line }
            | RequestError::VersionNotSupported { line }
            | RequestError::MethodInHttp09 { line }
            | RequestError::HeaderLineTooLong { line }
            | RequestError::InvalidHeaderLine { line }
            | RequestError::DuplicateHeader { line, .. } => Some(line),
            RequestError::InvalidTarget { target, .. } => Some(target),
            RequestError::InvalidHost { value }
            | RequestError::InvalidContentLength { value }
            | RequestError::UnknownTransferEncoding { value } => Some(value),
            _ => None,
        }
    }

    /// The offending bytes in the buffer, for the log; to be escaped there. They may be as long as
    /// a large buffer: quote a prefix.
    pub fn excerpt(&self) -> Option<Span> {
        let mut copy = *self;
        copy.excerpt_mut().copied()
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())?;
        match self {
            RequestError::InvalidTarget { error, .. } => write!(f, " ({error})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for RequestError {}
