//! `multipart/byteranges` (RFC 9110 section 14.6): the text between the parts.

use super::{ByteRange, push_positions};
use crate::decimal;

/// Number of digits in a boundary, as in nginx.
pub const BOUNDARY_BYTES: usize = 20;

/// The framing of one multipart response. For every range the body has [`push_part_head`] and the
/// range's bytes; then comes [`push_end`].
///
/// [`push_part_head`]: Multipart::push_part_head
/// [`push_end`]: Multipart::push_end
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    boundary: [u8; BOUNDARY_BYTES],
    content_type: Option<&'a [u8]>,
    total_bytes: u64,
}

impl<'a> Multipart<'a> {
    /// Framing with a boundary made from `number`, which should differ from response to response.
    /// `content_type` is that of the parts, with its charset.
    pub fn new(number: u64, content_type: Option<&'a [u8]>, total_bytes: u64) -> Multipart<'a> {
        let mut digits = Vec::with_capacity(BOUNDARY_BYTES);
        decimal::push(&mut digits, number);
        let mut boundary = [b'0'; BOUNDARY_BYTES];
        boundary[BOUNDARY_BYTES - digits.len()..].copy_from_slice(&digits);
        Multipart {
            boundary,
            content_type,
            total_bytes,
        }
    }

    /// Appends the value of the response's `Content-Type`.
    pub fn push_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(&self.boundary);
    }

    /// Appends what precedes the bytes of a range.
    pub fn push_part_head(&self, out: &mut Vec<u8>, range: ByteRange) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        if let Some(content_type) = self.content_type {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(content_type);
        }
        out.extend_from_slice(b"\r\nContent-Range: bytes ");
        push_positions(out, range, self.total_bytes);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends what follows the last range.
    pub fn push_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"--\r\n");
    }

    /// `Content-Length` of the whole body.
    pub fn body_bytes(&self, ranges: &[ByteRange]) -> u64 {
        let mut framing = Vec::with_capacity(256);
        self.push_end(&mut framing);
        let mut body_bytes = framing.len() as u64;
        for &range in ranges {
            framing.clear();
            self.push_part_head(&mut framing, range);
            body_bytes += framing.len() as u64 + range.bytes();
        }
        body_bytes
    }
}
