//! Encodes request heads for origins.

use super::request::Version;
use crate::headers::Field;
use crate::outgoing::{MethodName, Target};

/// Writes one request head at the end of a buffer.
///
/// Every part was checked when it was created: whatever variables expand to, the origin sees
/// exactly the intended lines. A head that is dropped unfinished leaves no trace in the buffer.
#[derive(Debug)]
pub struct RequestEncoder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    is_finished: bool,
}

impl<'a> RequestEncoder<'a> {
    /// Begins a head with its request line. `version` is HTTP/1.0 or HTTP/1.1
    /// (`proxy_http_version`); everything but [`Version::Http10`] is written as the latter.
    pub fn new(
        out: &'a mut Vec<u8>,
        method: MethodName<'_>,
        target: Target<'_>,
        version: Version,
    ) -> RequestEncoder<'a> {
        let start = out.len();
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(target.as_bytes());
        out.extend_from_slice(match version {
            Version::Http10 => b" HTTP/1.0\r\n",
            _ => b" HTTP/1.1\r\n",
        });
        RequestEncoder {
            out,
            start,
            is_finished: false,
        }
    }

    /// Writes a header line. The value may be empty; the caller decides that a `proxy_set_header`
    /// with an empty value sends nothing.
    pub fn header(&mut self, field: Field<'_>) {
        self.out.extend_from_slice(field.name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(field.value.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Ends the head with its empty line and returns its size in bytes.
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
