//! Request heads for origins.

use std::fmt;

use memchr::memchr3;

use super::request::Version;
use crate::headers::is_token;

/// A request head that must not be sent: something in it, most likely a variable of the
/// configuration, would end a line early and let a client write the rest of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestEncodeError {
    /// The method is no token (`proxy_method`).
    Method,
    /// The request target is empty or holds white space or a control character (`proxy_pass`
    /// with variables that are not escaped).
    Target,
    /// A header's name is no token (`proxy_set_header`).
    Name,
    /// A header's value holds CR, LF or NUL.
    Value {
        /// The header.
        name: Vec<u8>,
    },
}

impl fmt::Display for RequestEncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestEncodeError::Method => {
                f.write_str("invalid character in the method of the request to the upstream")
            }
            RequestEncodeError::Target => f.write_str(
                "white space or control character in the URI of the request to the upstream",
            ),
            RequestEncodeError::Name => {
                f.write_str("invalid character in a header name of the request to the upstream")
            }
            RequestEncodeError::Value { name } => write!(
                f,
                "line break or NUL in header \"{}\" of the request to the upstream",
                name.escape_ascii()
            ),
        }
    }
}

impl std::error::Error for RequestEncodeError {}

/// Writes one request head at the end of a buffer.
///
/// Every part is checked: whatever variables expand to, the origin sees exactly the lines that
/// were meant. A head that is dropped unfinished, or that met an error, leaves no trace in the
/// buffer.
#[derive(Debug)]
pub struct RequestEncoder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    is_finished: bool,
}

impl<'a> RequestEncoder<'a> {
    /// Begins a head with its request line. `version` is HTTP/1.0 or HTTP/1.1
    /// (`proxy_http_version`); everything but [`Version::Http10`] is written as the latter.
    ///
    /// # Errors
    /// [`RequestEncodeError::Method`] and [`RequestEncodeError::Target`].
    pub fn new(
        out: &'a mut Vec<u8>,
        method: &[u8],
        target: &[u8],
        version: Version,
    ) -> Result<RequestEncoder<'a>, RequestEncodeError> {
        if !is_token(method) {
            return Err(RequestEncodeError::Method);
        }
        let is_clean = |&byte: &u8| byte > b' ' && byte != 0x7f;
        if target.is_empty() || !target.iter().all(is_clean) {
            return Err(RequestEncodeError::Target);
        }
        let start = out.len();
        out.extend_from_slice(method);
        out.push(b' ');
        out.extend_from_slice(target);
        out.extend_from_slice(match version {
            Version::Http10 => b" HTTP/1.0\r\n",
            _ => b" HTTP/1.1\r\n",
        });
        Ok(RequestEncoder {
            out,
            start,
            is_finished: false,
        })
    }

    /// Writes a header line. The value may be empty; that a `proxy_set_header` with an empty
    /// value sends nothing is decided by the caller.
    ///
    /// # Errors
    /// [`RequestEncodeError::Name`] and [`RequestEncodeError::Value`]; the line is not written.
    pub fn header(&mut self, name: &[u8], value: &[u8]) -> Result<(), RequestEncodeError> {
        self.header_from(name, [value])
    }

    /// Writes a header line whose value comes in pieces.
    ///
    /// # Errors
    /// As for [`header`](Self::header).
    pub fn header_from<'v>(
        &mut self,
        name: &[u8],
        pieces: impl IntoIterator<Item = &'v [u8]>,
    ) -> Result<(), RequestEncodeError> {
        if !is_token(name) {
            return Err(RequestEncodeError::Name);
        }
        let line_start = self.out.len();
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
        let value_start = self.out.len();
        for piece in pieces {
            self.out.extend_from_slice(piece);
        }
        if memchr3(b'\r', b'\n', 0, &self.out[value_start..]).is_some() {
            self.out.truncate(line_start);
            let name = name.to_vec();
            return Err(RequestEncodeError::Value { name });
        }
        self.out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Ends the head with its empty line and returns how many bytes it takes.
    pub fn finish(mut self) -> usize {
        self.out.extend_from_slice(b"\r\n");
        self.is_finished = true;
        self.out.len() - self.start
    }
}

impl Drop for RequestEncoder<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.out.truncate(self.start);
        }
    }
}
