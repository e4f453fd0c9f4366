//! The codec of a connection, and the output of the codec and of the streams' bodies.
//!
//! All output passes through here, so that frames are sent in the order in which the codec has
//! made them. A payload that is a range of a file is in the body of the message, together with
//! everything that was made before it; what was made later is in the buffer.

use super::unread::UnreadBodies;
use crate::exchange::Exchange;
use crate::multiplexed::{MultiplexedWire, ResetReason, TurnTime, Unsendable, WireName};
use crate::response_head;
use sealane_http::StatusCode;
use sealane_http::h1::ConnectionHeader;
use sealane_http::h2::{self, ErrorCode, Fault, Received, SendError, StreamRef};
use sealane_http::headers::HeaderList;
use sealane_io::OutboundMessage;
use sealane_io::buffers;
use sealane_io::chain::{FileRange, OutputChain, Segment};
use std::time::Duration;

/// The window of a stream whose body is read, where `http2_body_preread_size` is less: twice its
/// default, so that a client with a long round trip does not stand still after the first 64 KiB.
const READ_WINDOW_BYTES: u32 = 128 << 10;

impl WireName for StreamRef {
    fn slot(self) -> usize {
        StreamRef::slot(self)
    }
}

/// Codec and output of one connection.
pub(super) struct Framer {
    /// The protocol. Calls that write frames are methods of [`Framer`].
    pub(super) codec: h2::Connection,
    /// Sent first.
    message: OutboundMessage,
    /// Frames behind it.
    out: Vec<u8>,
    /// When the client stopped taking bytes.
    stalled_ms: Option<u64>,
    pub(super) unread: UnreadBodies,
}

impl Framer {
    /// A codec whose first frames are in `out`.
    pub(super) fn new(codec: h2::Connection, out: Vec<u8>) -> Framer {
        Framer {
            codec,
            message: OutboundMessage {
                // Frames are too small for a call each: files are read in batches.
                sendfile: false,
                ..OutboundMessage::default()
            },
            out,
            stalled_ms: None,
            unread: UnreadBodies::default(),
        }
    }

    /// The next frame of `input`; `age` is that of the connection.
    ///
    /// # Errors
    /// The connection has to end: GOAWAY is queued.
    pub(super) fn receive<'i>(
        &mut self,
        input: &'i [u8],
        age: Duration,
    ) -> Result<Received<'i>, Fault> {
        self.codec.receive(input, age, &mut self.out)
    }

    /// Announces the end of the connection; streams that arrive meanwhile are served.
    pub(super) fn shut_down(&mut self) {
        self.codec.shut_down(&mut self.out);
    }

    /// Takes no further streams.
    pub(super) fn shut_down_now(&mut self) {
        self.codec.shut_down_now(&mut self.out);
    }

    /// Ends the connection with an error.
    pub(super) fn close(&mut self, code: ErrorCode) {
        self.codec.close(code, &mut self.out);
    }

    /// Refuses a stream whose request has not been processed.
    ///
    /// # Errors
    /// The connection has to end: GOAWAY is queued.
    pub(super) fn refuse(&mut self, stream: StreamRef) -> Result<(), Fault> {
        self.codec.refuse(stream, &mut self.out)
    }

    /// Resets streams whose bodies nobody reads and whose clients go on to send them. Returns the
    /// time until the next one is due, in milliseconds.
    pub(super) fn reset_unread(&mut self, time: TurnTime) -> u64 {
        let (codec, out) = (&mut self.codec, &mut self.out);
        self.unread
            .reset_late(time, |stream| codec.reset(stream, ErrorCode::NO_ERROR, out))
    }

    /// Sends a frame with the first `count` bytes of a body, which are all in memory or all of
    /// one file.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written or taken.
    pub(super) fn send_data(
        &mut self,
        stream: StreamRef,
        body: &mut OutputChain,
        count: u32,
        end: bool,
    ) -> Result<(), SendError> {
        self.codec.data(stream, count, end, &mut self.out)?;
        if let Some(Segment::File(range)) = body.front() {
            let part = Segment::File(FileRange {
                len: u64::from(count),
                ..range.clone()
            });
            self.message.body.push_bytes(std::mem::take(&mut self.out));
            self.message.body.push(part);
        } else {
            copy(body, count as usize, &mut self.out);
        }
        body.advance(u64::from(count));
        Ok(())
    }

    /// Whether something waits for the socket: here, or in the transport, which has to be
    /// called again until it reports that everything has left.
    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty() || !self.message.is_empty() || self.stalled_ms.is_some()
    }

    /// Bytes that wait for the socket.
    pub(super) fn queued_bytes(&self) -> u64 {
        (self.out.len() + self.message.head.len()) as u64 + self.message.body.len()
    }

    /// All that is to be sent.
    pub(super) fn unsent(&mut self) -> &mut OutboundMessage {
        let (message, out) = (&mut self.message, &mut self.out);
        if !message.body.is_empty() {
            message.body.push_bytes(std::mem::take(out));
        } else if message.head.is_empty() {
            std::mem::swap(&mut message.head, out);
        } else {
            message.head.append(out);
        }
        message
    }

    /// The client has taken some bytes.
    pub(super) fn note_sent(&mut self) {
        self.stalled_ms = None;
    }

    /// The client has taken everything.
    pub(super) fn note_flushed(&mut self) {
        self.stalled_ms = None;
        self.codec.flushed();
    }

    /// The client takes nothing now.
    pub(super) fn note_stalled(&mut self, time: TurnTime) {
        self.stalled_ms.get_or_insert(time.now_ms);
    }

    /// Since when the client has taken nothing of what waits for it.
    pub(super) fn stalled_ms(&self) -> Option<u64> {
        self.stalled_ms
    }

    /// Gives the buffers back while there is nothing to send.
    pub(super) fn release_buffers(&mut self) {
        buffers::release(&mut self.out);
        buffers::release(&mut self.message.head);
    }
}

impl MultiplexedWire for Framer {
    type Name = StreamRef;

    fn send_interim(&mut self, stream: StreamRef, status: StatusCode, headers: &HeaderList) {
        let fields = headers.fields();
        // Nothing is sent once the head of the final response has been.
        let _ = self
            .codec
            .send_interim(stream, status, fields, &mut self.out);
    }

    fn send_head(
        &mut self,
        stream: StreamRef,
        exchange: &mut Exchange,
        end: bool,
    ) -> Result<(), Unsendable> {
        let before = self.out.len();
        let (codec, out) = (&mut self.codec, &mut self.out);
        let sent = response_head::with_head(exchange, ConnectionHeader::Close, false, |head| {
            codec.send_response(stream, head, end, out)
        });
        exchange.transfer.head_bytes = (self.out.len() - before) as u64;
        sent.map_err(|_| Unsendable)
    }

    fn send_trailers(&mut self, stream: StreamRef, trailers: &HeaderList) {
        let fields = trailers.fields();
        let _ = self.codec.send_trailers(stream, fields, &mut self.out);
    }

    fn end_body(&mut self, stream: StreamRef) {
        let _ = self.codec.data(stream, 0, true, &mut self.out);
    }

    fn reset(&mut self, stream: StreamRef, reason: ResetReason) {
        let code = match reason {
            ResetReason::Cancelled => ErrorCode::CANCEL,
            ResetReason::Failed => ErrorCode::INTERNAL_ERROR,
            ResetReason::TunnelFailed => ErrorCode::CONNECT_ERROR,
            ResetReason::Malformed => ErrorCode::PROTOCOL_ERROR,
        };
        self.codec.reset(stream, code, &mut self.out);
    }

    fn offer(&mut self, stream: StreamRef) {
        self.codec.offer(stream);
    }

    fn widen(&mut self, stream: StreamRef) {
        self.codec.widen(stream, READ_WINDOW_BYTES, &mut self.out);
    }

    fn release(&mut self, stream: StreamRef, bytes: usize) {
        self.codec.release(stream, bytes, &mut self.out);
    }

    fn blocked_since_ms(&self, stream: StreamRef, moved_ms: u64) -> Option<u64> {
        self.codec.is_blocked(stream).then_some(moved_ms)
    }

    fn answered(&mut self, stream: StreamRef, time: TurnTime) -> bool {
        let still_sends = !self.codec.has_received_end(stream);
        if still_sends {
            self.unread.add(stream, time);
        }
        still_sends
    }
}

/// Appends the first `count` bytes of a chain that begins with as much memory.
fn copy(body: &OutputChain, count: usize, out: &mut Vec<u8>) {
    let mut left = count;
    for segment in body.segments() {
        let Segment::Memory(piece) = segment else {
            return;
        };
        let take = left.min(piece.len());
        out.extend_from_slice(&piece[..take]);
        left -= take;
        if left == 0 {
            return;
        }
    }
}
