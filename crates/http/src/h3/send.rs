//! Sends heads, bodies and trailers. Everything is appended to the caller's buffer, which is that
//! of the stream; the payload of DATA is moved by the caller.

use super::connection::{Connection, Role};
use super::error::SendError;
use super::frame::{self, kind};
use super::qpack::SectionEncoder;
use super::streams::{Half, Stream};
use super::varint;
use crate::StatusCode;
use crate::h1::ResponseHead;
use crate::headers::Field;
use crate::message::{Priority, RequestTarget, push_fields, push_request, push_response_fields};

/// Bytes of the header of most HEADERS frames: the type, and a length of two bytes.
const HEADER_BYTES: usize = 3;

/// The largest length that takes two bytes.
const MAX_TWO_BYTES: usize = 0x3fff;

impl Connection {
    /// Sends a response head; with `end` there is no body, and the stream ends behind it.
    ///
    /// `Connection`, `Transfer-Encoding` and similar headers, which HTTP/3 does not have, are left
    /// out, whether they are fields of `head` or among its headers.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn send_response(
        &mut self,
        id: u64,
        head: &ResponseHead<'_>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.push_head(id, out, head.status.on_wire(), |section| {
            push_response_fields(section, head);
            push_fields(section, head.headers.fields());
        })?;
        self.end_head(id, end);
        Ok(())
    }

    /// Sends a head made of a status and fields, with names in any case. Otherwise like
    /// [`send_response`](Self::send_response).
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn send_head<'f>(
        &mut self,
        id: u64,
        status: StatusCode,
        fields: impl IntoIterator<Item = Field<'f>>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.push_head(id, out, status.on_wire(), |section| {
            push_fields(section, fields);
        })?;
        self.end_head(id, end);
        Ok(())
    }

    /// Sends an interim response (1xx, but not 101); the head is still to come.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn send_interim<'f>(
        &mut self,
        id: u64,
        status: StatusCode,
        fields: impl IntoIterator<Item = Field<'f>>,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.push_head(id, out, status, |section| push_fields(section, fields))
    }

    /// Writes the header of a DATA frame; the caller must append its `bytes` next. With `end` the
    /// stream ends behind them. Writes nothing without bytes.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn data(
        &mut self,
        id: u64,
        bytes: u64,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.check_body(id)?;
        if bytes > 0 && !self.is_hq {
            frame::push_header(out, kind::DATA, bytes.min(varint::MAX));
        }
        if end {
            self.end_sending(id);
        }
        Ok(())
    }

    /// Sends trailers, behind which the stream ends. A body, or at least a head, must have been
    /// sent. Without fields nothing is written.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn send_trailers<'f>(
        &mut self,
        id: u64,
        fields: impl IntoIterator<Item = Field<'f>>,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.check_body(id)?;
        let mut fields = fields.into_iter().peekable();
        if fields.peek().is_some() {
            self.push_section(id, out, |section| push_fields(section, fields));
        }
        self.end_sending(id);
        Ok(())
    }

    /// Client: whether [`send_request`](Self::send_request) would be accepted on this stream.
    pub(crate) fn can_request(&self, id: u64) -> bool {
        self.role == Role::Client && self.goaway_received.is_none_or(|first| id < first)
    }

    /// Client: sends a request on a bidirectional stream that this side has opened; with `end` it
    /// has no body.
    ///
    /// Connection-specific fields are left out, and so is `host` if there is an authority. `te` is
    /// sent as `trailers` or not at all (RFC 9114 section 4.2).
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn send_request<'f>(
        &mut self,
        id: u64,
        target: &RequestTarget<'_>,
        fields: impl IntoIterator<Item = Field<'f>>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        if !self.can_request(id) {
            return Err(SendError::Closing);
        }
        let mut stream = Stream::new(id, self.now);
        stream.is_head_request = target.method.as_bytes() == b"HEAD";
        if !self.streams.insert(stream) {
            return Err(SendError::Order);
        }
        self.meters.empty_frames.credit(2);
        self.meters
            .table_bytes
            .credit(super::connection::TABLE_BYTES_OF_REQUEST);
        self.push_section(id, out, |section| push_request(section, target, fields));
        self.end_head(id, end);
        Ok(())
    }

    /// Client: tells the server how urgent a response is (RFC 9218 section 7.2), on
    /// [`Channel::Control`](super::Channel::Control).
    pub fn send_priority_update(&mut self, id: u64, priority: Priority) {
        if self.role == Role::Client {
            let value = priority.value();
            let bytes = varint::len(id) + value.len();
            let out = &mut self.control_out;
            frame::push_header(out, kind::PRIORITY_UPDATE_OF_REQUEST, bytes as u64);
            varint::put(out, id);
            out.extend_from_slice(value);
        }
    }

    fn check_body(&self, id: u64) -> Result<(), SendError> {
        match self.streams.get(id).ok_or(SendError::Gone)?.send {
            Half::Body => Ok(()),
            Half::Head | Half::Ended => Err(SendError::Order),
        }
    }

    /// Encodes a head of a response, with what `push` adds to the status.
    fn push_head(
        &mut self,
        id: u64,
        out: &mut Vec<u8>,
        status: StatusCode,
        push: impl FnOnce(&mut SectionEncoder<'_>),
    ) -> Result<(), SendError> {
        let stream = self.streams.get(id).ok_or(SendError::Gone)?;
        if stream.send != Half::Head || self.role != Role::Server {
            return Err(SendError::Order);
        }
        self.push_section(id, out, |section| {
            section.status(status.0);
            push(section);
        });
        Ok(())
    }

    /// Appends a HEADERS frame.
    fn push_section(
        &mut self,
        id: u64,
        out: &mut Vec<u8>,
        push: impl FnOnce(&mut SectionEncoder<'_>),
    ) {
        if self.is_hq {
            return;
        }
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let mut section = self.encoder.section(id, out);
        push(&mut section);
        section.finish();
        let first = start + HEADER_BYTES;
        let length = out.len() - first;
        if length <= MAX_TWO_BYTES {
            let [high, low] = (length as u16 | 0x4000).to_be_bytes();
            out[start..first].copy_from_slice(&[kind::HEADERS as u8, high, low]);
        } else {
            let mut header = Vec::with_capacity(9);
            frame::push_header(&mut header, kind::HEADERS, length as u64);
            out.splice(start..first, header);
        }
    }

    fn end_head(&mut self, id: u64, end: bool) {
        if end {
            self.end_sending(id);
        } else if let Some(stream) = self.streams.get_mut(id) {
            stream.send = Half::Body;
        }
    }
}
