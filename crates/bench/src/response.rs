//! HTTP/1 responses, sans-IO: checks received bytes against what is expected.
//!
//! The generator counts bodies but does not keep them. Framing follows RFC 9112, section 6.3.

use std::fmt;

/// Larger heads are refused; no server under test sends one.
const HEAD_LIMIT_BYTES: usize = 16 * 1024;
const HEADER_LIMIT: usize = 64;
/// A chunk's size line, with extensions.
const CHUNK_LINE_LIMIT_BYTES: usize = 256;

/// The required properties of every response of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The status code.
    pub status: u16,
    /// Length of the body in bytes; `None` accepts any.
    pub body_bytes: Option<u64>,
}

/// A malformed or unexpected response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseError {
    /// Not HTTP/1, with the parser's reason.
    Malformed(String),
    /// Another status than expected.
    Status {
        /// The expected status.
        wanted: u16,
        /// The actual status.
        got: u16,
    },
    /// Another body length than expected.
    Length {
        /// The expected length, in bytes.
        wanted: u64,
        /// The actual length.
        got: u64,
    },
    /// The connection ended inside a response.
    Truncated,
    /// Unrequested bytes after the end of the response.
    Surplus(usize),
}

/// A completed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Bytes of the body, without framing.
    pub body_bytes: u64,
    /// Whether the server keeps the connection open for another request.
    pub keep_alive: bool,
}

/// Reads consecutive responses from a connection.
#[derive(Debug)]
pub struct ResponseReader {
    expected: Expected,
    /// Bytes of a head or a chunk line that came in pieces; empty otherwise.
    partial: Vec<u8>,
    state: ResponseState,
    body_bytes: u64,
    keep_alive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseState {
    Head,
    Length { remaining: u64 },
    ChunkSize,
    ChunkData { remaining: u64 },
    Trailer,
    UntilClose,
}

impl ResponseReader {
    /// A reader that accepts only `expected`.
    pub fn new(expected: Expected) -> Self {
        Self {
            expected,
            partial: Vec::new(),
            state: ResponseState::Head,
            body_bytes: 0,
            keep_alive: true,
        }
    }

    /// Processes the next bytes; returns `Some` when they complete a response.
    ///
    /// # Errors
    ///
    /// See [`ResponseError`]. The reader must not be used afterwards.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<Completed>, ResponseError> {
        match self.take(&mut bytes)? {
            Some(_) if !bytes.is_empty() => Err(ResponseError::Surplus(bytes.len())),
            completed => Ok(completed),
        }
    }

    /// Processes the bytes up to the end of a response and leaves those of the next one, which may
    /// already be there when requests were pipelined. Returns `Some` at that end.
    ///
    /// # Errors
    ///
    /// See [`ResponseError`]. The reader must not be used afterwards.
    pub fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Completed>, ResponseError> {
        while !bytes.is_empty() {
            let completed = match self.state {
                ResponseState::Head => self.head(bytes)?,
                ResponseState::Length { remaining } => {
                    let left = remaining - self.body(bytes, remaining);
                    self.state = ResponseState::Length { remaining: left };
                    left == 0
                }
                ResponseState::UntilClose => {
                    self.body(bytes, u64::MAX);
                    false
                }
                ResponseState::ChunkSize => self.chunk_size(bytes)?,
                ResponseState::ChunkData { remaining } => {
                    self.chunk_data(bytes, remaining)?;
                    false
                }
                ResponseState::Trailer => self.line(bytes)?.is_some_and(|line| line == b"\r\n"),
            };
            if completed {
                return self.complete().map(Some);
            }
        }
        Ok(None)
    }

    /// The connection ended; `Some` if that completes a response without a length.
    ///
    /// # Errors
    ///
    /// [`ResponseError::Truncated`] inside a response, and a length that is not the expected one.
    pub fn end_of_stream(&mut self) -> Result<Option<Completed>, ResponseError> {
        match self.state {
            ResponseState::UntilClose => self.complete().map(Some),
            ResponseState::Head if self.partial.is_empty() => Ok(None),
            _ => Err(ResponseError::Truncated),
        }
    }

    fn complete(&mut self) -> Result<Completed, ResponseError> {
        let completed = Completed {
            body_bytes: self.body_bytes,
            keep_alive: self.keep_alive,
        };
        *self = Self {
            partial: std::mem::take(&mut self.partial),
            ..Self::new(self.expected)
        };
        self.partial.clear();
        self.check_length(completed.body_bytes)?;
        Ok(completed)
    }

    fn check_length(&self, got: u64) -> Result<(), ResponseError> {
        match self.expected.body_bytes {
            Some(wanted) if wanted != got => Err(ResponseError::Length { wanted, got }),
            _ => Ok(()),
        }
    }

    /// Parses the head; true if the response ends with it.
    fn head(&mut self, bytes: &mut &[u8]) -> Result<bool, ResponseError> {
        // The usual case, a head in one piece, is parsed in place.
        let before = self.partial.len();
        let joined;
        let input = if before == 0 {
            *bytes
        } else {
            self.partial.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.partial);
            &joined
        };
        let Some(head) = parse_head(input)? else {
            if input.len() > HEAD_LIMIT_BYTES {
                return Err(ResponseError::Malformed(format!(
                    "no end of the head within {HEAD_LIMIT_BYTES} bytes"
                )));
            }
            self.partial = input.to_vec();
            *bytes = &[];
            return Ok(false);
        };
        *bytes = &bytes[head.length - before..];
        if head.status != self.expected.status {
            return Err(ResponseError::Status {
                wanted: self.expected.status,
                got: head.status,
            });
        }
        self.keep_alive = head.keep_alive;
        self.state = head.body;
        match head.body {
            ResponseState::Length { remaining } => {
                // Reported at once rather than after a gigabyte.
                self.check_length(remaining)?;
                Ok(remaining == 0)
            }
            ResponseState::UntilClose => {
                self.keep_alive = false;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// Counts at most `limit` bytes of body and returns how many there were.
    fn body(&mut self, bytes: &mut &[u8], limit: u64) -> u64 {
        let count = limit.min(bytes.len() as u64);
        *bytes = &bytes[count as usize..];
        self.body_bytes += count;
        count
    }

    fn chunk_size(&mut self, bytes: &mut &[u8]) -> Result<bool, ResponseError> {
        let Some(line) = self.line(bytes)? else {
            return Ok(false);
        };
        match httparse::parse_chunk_size(&line) {
            Ok(httparse::Status::Complete((_, 0))) => self.state = ResponseState::Trailer,
            // The line break after a chunk is read as part of its data.
            Ok(httparse::Status::Complete((_, size))) => {
                let remaining = size.checked_add(2).ok_or_else(|| malformed("chunk size"))?;
                self.state = ResponseState::ChunkData { remaining };
            }
            _ => return Err(malformed("chunk size")),
        }
        Ok(false)
    }

    fn chunk_data(&mut self, bytes: &mut &[u8], remaining: u64) -> Result<(), ResponseError> {
        if remaining > 2 {
            let left = remaining - self.body(bytes, remaining - 2);
            self.state = ResponseState::ChunkData { remaining: left };
            return Ok(());
        }
        let expected = if remaining == 2 { b'\r' } else { b'\n' };
        if bytes[0] != expected {
            return Err(malformed("chunk"));
        }
        *bytes = &bytes[1..];
        self.state = if remaining == 1 {
            ResponseState::ChunkSize
        } else {
            ResponseState::ChunkData { remaining: 1 }
        };
        Ok(())
    }

    /// A line with its end, once it is complete.
    fn line(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, ResponseError> {
        let end = bytes
            .iter()
            .position(|&byte| byte == b'\n')
            .map(|at| at + 1);
        let taken = end.unwrap_or(bytes.len());
        self.partial.extend_from_slice(&bytes[..taken]);
        *bytes = &bytes[taken..];
        if self.partial.len() > CHUNK_LINE_LIMIT_BYTES {
            return Err(malformed("chunk line"));
        }
        Ok(end.map(|_| std::mem::take(&mut self.partial)))
    }
}

fn malformed(what: &str) -> ResponseError {
    ResponseError::Malformed(format!("malformed {what}"))
}

struct Head {
    length: usize,
    status: u16,
    keep_alive: bool,
    body: ResponseState,
}

fn parse_head(input: &[u8]) -> Result<Option<Head>, ResponseError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADER_LIMIT];
    let mut response = httparse::Response::new(&mut headers);
    let length = match response.parse(input) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(ResponseError::Malformed(error.to_string())),
    };
    let status = response.code.ok_or_else(|| malformed("status line"))?;
    let mut body = ResponseState::UntilClose;
    let mut keep_alive = response.version == Some(1);
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") && body != ResponseState::ChunkSize {
            let remaining = std::str::from_utf8(header.value)
                .ok()
                .and_then(|value| value.trim().parse().ok())
                .ok_or_else(|| malformed("Content-Length"))?;
            body = ResponseState::Length { remaining };
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            body = ResponseState::ChunkSize;
        } else if header.name.eq_ignore_ascii_case("connection") {
            keep_alive = header.value.eq_ignore_ascii_case(b"keep-alive")
                || (keep_alive && !header.value.eq_ignore_ascii_case(b"close"));
        }
    }
    // RFC 9110, section 6.4.1: these have no body whatever their fields say.
    if matches!(status, 100..=199 | 204 | 304) {
        body = ResponseState::Length { remaining: 0 };
    }
    Ok(Some(Head {
        length,
        status,
        keep_alive,
        body,
    }))
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(reason) => write!(f, "not an HTTP/1 response: {reason}"),
            Self::Status { wanted, got } => write!(f, "status {got} instead of {wanted}"),
            Self::Length { wanted, got } => write!(f, "body of {got} bytes instead of {wanted}"),
            Self::Truncated => f.write_str("the connection ended inside a response"),
            Self::Surplus(count) => write!(f, "{count} bytes after the end of the response"),
        }
    }
}

impl std::error::Error for ResponseError {}

#[cfg(test)]
mod tests;
