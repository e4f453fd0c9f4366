//! A received response head, and what is derived from its header lines.

use smallvec::SmallVec;

use super::connection;
use super::header_line::{self, HeaderLine};
use super::request::{self, RawHeader, Version};
use super::response_error::ResponseError;
use crate::headers::{KnownHeader, KnownSet};
use crate::{Method, Span, StatusCode, decimal};

/// Headers stored in the head itself; more move to the heap.
const INLINE_HEADERS: usize = 12;

/// How the end of a response body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseFraming {
    /// There is no body, whatever the headers say.
    #[default]
    None,
    /// `Content-Length` bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Everything until the connection closes.
    UntilClose,
}

/// What a status means for the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// 100, 103 and every other 1xx but 101: another head follows on the same connection.
    Interim,
    /// 101: another protocol follows the head. A peer that was not asked to upgrade must not send
    /// it.
    SwitchingProtocols,
    /// The final response.
    Final,
}

/// Where a head comes from, which decides what its framing headers mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wire {
    #[default]
    Http,
    /// FastCGI, SCGI, uwsgi: the gateway protocol ends the body, and chunked coding has no meaning.
    Gateway,
}

/// A response head from an origin: positions in the buffer it was parsed from, and what was derived
/// from them. All positions count from the start of that buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedResponse {
    /// The version. Everything above 1.1 is treated as HTTP/1.1, as in nginx.
    pub version: Version,
    /// The status, 100 to 999.
    pub status: StatusCode,
    /// Status and reason phrase as sent (`404 Not Found`), which nginx passes on unchanged; empty
    /// if a gateway sent no status, or only a code in its `Status` header.
    pub status_line: Span,
    /// Header lines in the order sent, names as written, without [`repeated`](Self::repeated).
    pub headers: SmallVec<[RawHeader; INLINE_HEADERS]>,
    /// Further lines of headers of which only the first counts (`Date`, `Location`, ...). nginx
    /// drops them and warns: `upstream sent duplicate header line: "...", ignored`.
    pub repeated: Vec<Span>,
    /// Bytes of the buffer that the head takes; the body, or the next head, starts there.
    pub head_bytes: usize,
    /// Whether the peer keeps the connection open after the body.
    pub keep_alive: bool,
    /// `Connection` lists `upgrade`.
    pub connection_upgrade: bool,
    /// `Content-Length`.
    pub content_length: Option<u64>,
    /// `Transfer-Encoding: chunked`.
    pub chunked: bool,
    connection_close: bool,
    pub(crate) wire: Wire,
    known: KnownSet,
}

impl Default for ReceivedResponse {
    fn default() -> ReceivedResponse {
        ReceivedResponse {
            version: Version::Http11,
            status: StatusCode::OK,
            status_line: Span::default(),
            headers: SmallVec::new(),
            repeated: Vec::new(),
            head_bytes: 0,
            keep_alive: false,
            connection_upgrade: false,
            content_length: None,
            chunked: false,
            connection_close: false,
            wire: Wire::Http,
            known: KnownSet::default(),
        }
    }
}

impl ReceivedResponse {
    /// What the status means for the exchange.
    pub fn kind(&self) -> ResponseKind {
        match self.status.0 {
            101 => ResponseKind::SwitchingProtocols,
            100..=199 => ResponseKind::Interim,
            _ => ResponseKind::Final,
        }
    }

    /// How the body is framed, given the method of the request it answers.
    ///
    /// From a gateway (FastCGI, SCGI, uwsgi) a body has its `Content-Length` or ends with the
    /// stream. As in nginx, `Transfer-Encoding` has no meaning there. Such programs often send a
    /// body in response to HEAD anyway; it is not read.
    pub fn framing(&self, request: Method) -> ResponseFraming {
        let is_gateway = self.wire == Wire::Gateway;
        let bodiless = matches!(self.status.0, 100..=199 | 204 | 304);
        if bodiless || request == Method::Head {
            return ResponseFraming::None;
        }
        let is_tunnel = request == Method::Connect && matches!(self.status.0, 200..=299);
        match self.content_length {
            _ if is_tunnel => ResponseFraming::UntilClose,
            _ if self.chunked && !is_gateway => ResponseFraming::Chunked,
            Some(length) => ResponseFraming::Length(length),
            None => ResponseFraming::UntilClose,
        }
    }

    /// Whether a well-known header was sent.
    pub fn has(&self, name: KnownHeader) -> bool {
        self.known.contains(name)
    }

    /// The first value of a well-known header; a single bit test if it was not sent.
    pub fn get(&self, name: KnownHeader) -> Option<Span> {
        self.get_all(name).next()
    }

    /// All values of a well-known header.
    pub fn get_all(&self, name: KnownHeader) -> impl Iterator<Item = Span> {
        request::all_known(&self.headers, self.known, name)
    }

    /// The first value of any header, by name in any case. `buf` is the parsed buffer.
    pub fn get_by_name(&self, buf: &[u8], name: &[u8]) -> Option<Span> {
        request::find_by_name(&self.headers, buf, name)
    }

    /// Processes one header line.
    pub(crate) fn add_line(&mut self, buf: &[u8], line: Span) -> Result<(), ResponseError> {
        // Some servers send their status line twice; nginx skips the second one.
        if line.of(buf).starts_with(b"HTTP/") {
            return Ok(());
        }
        let parsed = header_line::parse_lenient(buf, line);
        let HeaderLine {
            name, value, known, ..
        } = parsed.ok_or(ResponseError::InvalidHeader { line })?;
        if let Some(known) = known {
            if self.has(known) && counts_once(known) {
                return self.repeat(known, line);
            }
            self.known.insert(known);
            self.note(buf, known, line, value)?;
        }
        self.headers.push(RawHeader { name, value, known });
        Ok(())
    }

    /// Another line of a header of which only the first counts.
    fn repeat(&mut self, name: KnownHeader, line: Span) -> Result<(), ResponseError> {
        if matches!(
            name,
            KnownHeader::ContentLength | KnownHeader::TransferEncoding
        ) {
            let previous = self.get(name).unwrap_or_default();
            return Err(ResponseError::DuplicateHeader { line, previous });
        }
        self.repeated.push(line);
        Ok(())
    }

    /// Records what the connection needs to know about a header.
    fn note(
        &mut self,
        buf: &[u8],
        known: KnownHeader,
        line: Span,
        value: Span,
    ) -> Result<(), ResponseError> {
        match known {
            KnownHeader::ContentLength => {
                if self.has(KnownHeader::TransferEncoding) {
                    return Err(ResponseError::LengthWithTransferEncoding);
                }
                let length = decimal::parse_offset(value.of(buf));
                let length = length.ok_or(ResponseError::InvalidContentLength { line })?;
                self.content_length = Some(length);
            }
            KnownHeader::TransferEncoding => {
                if self.has(KnownHeader::ContentLength) {
                    return Err(ResponseError::LengthWithTransferEncoding);
                }
                if !value.of(buf).eq_ignore_ascii_case(b"chunked") {
                    return Err(ResponseError::UnknownTransferEncoding { value });
                }
                self.chunked = true;
            }
            KnownHeader::Connection => {
                let value = value.of(buf);
                self.connection_upgrade |= connection::options(value).upgrade;
                // Like nginx, match the word anywhere. Closing once too often is safe.
                self.connection_close |= value
                    .windows(b"close".len())
                    .any(|word| word.eq_ignore_ascii_case(b"close"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Settles what only the whole head can show.
    pub(super) fn finish(&mut self, buf: &[u8]) -> Result<(), ResponseError> {
        if self.wire == Wire::Gateway && self.status_line.is_empty() {
            self.take_gateway_status(buf)?;
        }
        self.keep_alive = self.wire == Wire::Http
            && self.version >= Version::Http11
            && !self.connection_close
            && self.kind() != ResponseKind::SwitchingProtocols;
        Ok(())
    }

    /// A gateway's status (RFC 3875 section 6.3.3): the `Status` header, a redirect if there is
    /// only a `Location`, otherwise success.
    fn take_gateway_status(&mut self, buf: &[u8]) -> Result<(), ResponseError> {
        let Some(value) = self.get(KnownHeader::Status) else {
            let is_redirect = self.has(KnownHeader::Location);
            self.status = if is_redirect {
                StatusCode::FOUND
            } else {
                StatusCode::OK
            };
            return Ok(());
        };
        let status = status_code(value.of(buf)).ok_or(ResponseError::InvalidStatus { value })?;
        self.status = status;
        if value.len() > 3 {
            self.status_line = value;
        }
        Ok(())
    }
}

/// The status given by three leading digits; RFC 9110 defines none below 100.
pub(super) fn status_code(text: &[u8]) -> Option<StatusCode> {
    let digits = text.get(..3)?;
    let code = decimal::parse_offset(digits)? as u16;
    (code >= 100).then_some(StatusCode(code))
}

/// Headers whose first line nginx uses, dropping the others (or, for framing, refusing them).
fn counts_once(known: KnownHeader) -> bool {
    matches!(
        known,
        KnownHeader::ContentLength
            | KnownHeader::TransferEncoding
            | KnownHeader::Status
            | KnownHeader::ContentType
            | KnownHeader::Date
            | KnownHeader::LastModified
            | KnownHeader::Etag
            | KnownHeader::Server
            | KnownHeader::Location
            | KnownHeader::Refresh
            | KnownHeader::Expires
            | KnownHeader::XAccelExpires
            | KnownHeader::XAccelRedirect
            | KnownHeader::XAccelLimitRate
    )
}
