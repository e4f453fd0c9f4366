//! Sends a request to a peer and receives the response at the same time: peers may answer
//! before they have read everything.

use super::failure::{Doing, Failure};
use super::peer_connection::{PeerConnection, PeerError};
use super::wire::{Http2, Wire, WireError, WireEvent};
use crate::client_link::ClientLink;
use sealane_http::Method;
use sealane_http::h1::{ResponseFraming, ResponseKind};
use sealane_io::buffers;
use sealane_io::chain::{OutputChain, Segment};
use sealane_io::{OutboundMessage, Received};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

/// Bytes that one read of a head asks for, or of a body of unknown length.
const HEAD_READ_BYTES: usize = buffers::SMALL_BYTES;
/// The most that one read of a body asks for.
const BODY_READ_BYTES: usize = 64 << 10;

/// A request on one connection, and its response.
pub(crate) struct Conversation {
    pub(crate) connection: PeerConnection,
    wire: Wire,
    /// The response is malformed: whatever follows is not interpreted.
    wire_error: Option<WireError>,
    /// The output: the head, and as much of the body as is there. Both are in its body, in the
    /// order of the protocol.
    out: OutboundMessage,
    /// Where the rest of the request body comes from.
    upload: Upload,
    /// Received and not parsed yet.
    input: Vec<u8>,
    closed: bool,
    has_head: bool,
    /// Bytes that the last read asked for.
    read_bytes: usize,
    /// The last read got everything that it asked for: the next one asks for more.
    is_bulk: bool,
    /// The most that a read may ask for; set by the buffer for the response.
    max_read_bytes: usize,
    /// The response ends when the connection does.
    until_close: bool,
    /// Sending failed; the peer may still have answered before it closed.
    send_error: Option<PeerError>,
    /// The rest of the request will not be sent.
    gave_up_sending: bool,
    timeouts: Timeouts,
    /// The directions of a tunnel end one by one.
    has_halves: bool,
    /// This side has ended its direction.
    has_ended: bool,
    /// Bytes received from it.
    pub(crate) bytes_received: u64,
}

/// Where the rest of a request body comes from.
pub(crate) enum Upload {
    /// All of it has been framed.
    Done,
    /// The client, as it arrives (`proxy_request_buffering off`, tunnels).
    Streamed(ClientLink),
}

/// `proxy_send_timeout` and `proxy_read_timeout`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// Between two writes.
    pub(crate) send: Duration,
    /// Between two reads.
    pub(crate) read: Duration,
}

impl Conversation {
    /// A request whose head, and as much of the body as is there, are in `out`.
    pub(crate) fn new(
        mut connection: PeerConnection,
        mut wire: Wire,
        out: OutputChain,
        upload: Upload,
        timeouts: Timeouts,
    ) -> Conversation {
        if let Some(stream) = wire.stream_mut() {
            stream.begin(connection.http2.take());
        }
        Conversation {
            connection,
            wire,
            wire_error: None,
            out: OutboundMessage::new(Vec::new(), out),
            upload,
            input: Vec::new(),
            closed: false,
            has_head: false,
            read_bytes: 0,
            is_bulk: false,
            max_read_bytes: HEAD_READ_BYTES,
            until_close: false,
            send_error: None,
            gave_up_sending: false,
            timeouts,
            has_halves: false,
            has_ended: false,
            bytes_received: 0,
        }
    }

    /// Bytes sent to the peer.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.out.sent.max(self.connection.shared_bytes_sent())
    }

    /// Whether something of what there is has not left yet.
    fn has_unsent(&self) -> bool {
        !self.out.is_empty() || self.connection.has_unsent()
    }

    /// Whether all of the request has left.
    pub(crate) fn is_sent(&self) -> bool {
        let all = !self.has_unsent() && matches!(self.upload, Upload::Done);
        let is_sent = match self.wire.stream() {
            Some(stream) => all && !stream.holds_body() || stream.has_let_go(),
            None => all,
        };
        is_sent && !self.gave_up_sending
    }

    /// Reads ask for no more than this from now on.
    pub(crate) fn limit_reads(&mut self, max_bytes: u64) {
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        self.max_read_bytes = max_bytes.clamp(1, BODY_READ_BYTES);
    }

    /// Bytes that the last read asked for, which is the memory that a piece of the body may occupy.
    pub(crate) fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    /// The method that was sent.
    pub(crate) fn method(&self) -> Method {
        self.wire.method()
    }

    /// The peer's messages to the operator.
    pub(crate) fn take_remarks(&mut self) -> Vec<String> {
        self.wire.take_remarks()
    }

    /// Whether the protocol knows 101, after which the connection is a tunnel.
    pub(crate) fn can_upgrade(&self) -> bool {
        matches!(self.wire, Wire::Http1(_))
    }

    /// Makes the connection a tunnel (101); the client's bytes come from `client`.
    /// With `has_halves` its two directions end one by one.
    pub(crate) fn become_tunnel(&mut self, client: ClientLink, has_halves: bool) {
        self.has_halves = has_halves;
        self.wire.upgrade();
        // A tunnel has an end of its own, or none.
        self.until_close = false;
        self.upload = Upload::Streamed(client);
    }

    /// The client will send no more through the tunnel, and all that it has sent has left. Returns
    /// whether the other direction goes on.
    pub(crate) fn end_sending(&mut self) -> bool {
        if !self.has_halves || self.gave_up_sending {
            return false;
        }
        if !self.has_ended {
            self.has_ended = true;
            return self.connection.end_sending();
        }
        true
    }

    /// Sends what is there of the request. Ready when everything has been sent, or nothing more
    /// will be.
    ///
    /// # Errors
    /// When the client's part of the body fails, or nothing can be sent in time. That
    /// the peer does not take more is an error only if it does not answer; and once it
    /// has answered, the response can do without the rest of the request.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.gave_up_sending {
            return Poll::Ready(Ok(()));
        }
        match ready!(self.poll_send_on(cx)) {
            Err(_) if self.has_head && self.answers_once() => self.give_up_sending(),
            other => return Poll::Ready(other),
        }
        Poll::Ready(Ok(()))
    }

    /// Whether the exchange is over with the response. Streams of HTTP/2 and tunnels are
    /// bidirectional to their end.
    fn answers_once(&self) -> bool {
        !matches!(self.wire, Wire::Http2(_) | Wire::Raw)
    }

    fn give_up_sending(&mut self) {
        self.gave_up_sending = true;
        self.out.clear();
        self.upload = Upload::Done;
    }

    fn poll_send_on(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            self.take_stream_output();
            if !self.has_unsent() {
                if self.wire.stream().is_some_and(Http2::holds_body) {
                    // `poll_event` reads what makes room.
                    return self.poll_send_expired(cx);
                }
                let Upload::Streamed(client) = &self.upload else {
                    return Poll::Ready(Ok(()));
                };
                match ready!(client.poll_body(cx)).map_err(Failure::Client)? {
                    Some(piece) => {
                        // An end that is known goes with the last piece.
                        let is_last = client.has_no_more();
                        let out = &mut self.out.body;
                        self.wire.frame_body(Segment::Memory(piece), out);
                        if is_last {
                            self.wire.end_body(out);
                            self.upload = Upload::Done;
                        }
                    }
                    None => {
                        self.wire.end_body(&mut self.out.body);
                        self.upload = Upload::Done;
                    }
                }
                continue;
            }
            let before = self.out.sent;
            let sending = self.connection.poll_send(cx, &mut self.out);
            if self.out.sent > before {
                self.connection.timers.sending.end();
                // A tunnel is alive while either side sends. Otherwise, as in nginx, only the
                // peer counts.
                if matches!(self.wire, Wire::Raw) {
                    self.connection.timers.reading.end();
                }
            }
            match sending {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error @ PeerError::File(_))) => {
                    return Poll::Ready(Err(Failure::broken(error, Doing::Sending)));
                }
                Poll::Ready(Err(error)) => {
                    self.send_error = Some(error);
                    self.give_up_sending();
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => return self.poll_send_expired(cx),
            }
        }
    }

    /// The peer takes no more now; `proxy_send_timeout` limits for how long.
    fn poll_send_expired(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.connection
            .timers
            .sending
            .poll_expired(cx, self.timeouts.send)
            .map(|()| Err(Failure::TimedOut(Doing::Sending)))
    }

    /// The next event from the peer.
    ///
    /// # Errors
    /// See [`Failure`]; the connection must be closed.
    pub(crate) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<WireEvent, Failure>> {
        loop {
            match self.next_event() {
                Ok(Some(event)) => return Poll::Ready(self.checked(event)),
                Ok(None) => {}
                Err(WireError::Invalid(text)) => {
                    return Poll::Ready(Err(Failure::Invalid(text, self.doing())));
                }
                Err(WireError::Unprocessed(text)) => {
                    return Poll::Ready(Err(Failure::Unprocessed(text, self.doing())));
                }
                Err(WireError::ClosedEarly) => {
                    let failure = match self.send_error.take() {
                        Some(error) => Failure::broken(error, Doing::Sending),
                        None => Failure::ClosedEarly(self.doing()),
                    };
                    return Poll::Ready(Err(failure));
                }
            }
            if let Some(failure) = self.connection.failure(self.doing()) {
                return Poll::Ready(Err(failure));
            }
            // What was read may require a reply, or make room.
            if self.wire_has_output()
                && let Poll::Ready(Err(failure)) = self.poll_send(cx)
            {
                return Poll::Ready(Err(failure));
            }
            ready!(self.poll_read(cx))?;
        }
    }

    /// The next event in the input. An error is final.
    fn next_event(&mut self) -> Result<Option<WireEvent>, WireError> {
        if let Some(error) = &self.wire_error {
            return Err(error.clone());
        }
        let event = self.wire.next_event(&mut self.input, self.closed);
        self.wire_error = event.as_ref().err().cloned();
        event
    }

    /// Checks an event. An end that is only the end of the connection must be intended by the peer:
    /// nginx accepts any end, we do not.
    fn checked(&mut self, event: WireEvent) -> Result<WireEvent, Failure> {
        match &event {
            WireEvent::Head(head) => {
                self.has_head |= head.parsed.kind() != ResponseKind::Interim;
                let framing = head.parsed.framing(self.wire.method());
                self.until_close =
                    framing == ResponseFraming::UntilClose && self.wire.may_end_with_connection();
            }
            WireEvent::End(_) if self.until_close && self.connection.is_cut() => {
                return Err(Failure::Cut);
            }
            WireEvent::Data(_) | WireEvent::End(_) => {}
        }
        Ok(event)
    }

    /// Whether the protocol wants to send something.
    fn wire_has_output(&mut self) -> bool {
        if self.gave_up_sending {
            return false;
        }
        self.take_stream_output();
        !self.out.is_empty()
    }

    /// Moves the output of a stream to ours: its own frames, and as much of the body as the peer
    /// has room for.
    fn take_stream_output(&mut self) {
        if let Some(stream) = self.wire.stream_mut() {
            stream.take_output(&mut self.out.body);
        }
    }

    /// How much the next read asks for: what is known to come, otherwise more each time that a read
    /// was filled.
    fn next_read_bytes(&self) -> usize {
        if !self.has_head {
            return HEAD_READ_BYTES;
        }
        let known = usize::try_from(self.wire.known_left()).unwrap_or(usize::MAX);
        let guess = match self.is_bulk {
            true => self.read_bytes.saturating_mul(2),
            false => HEAD_READ_BYTES,
        };
        known.max(guess).min(self.max_read_bytes)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let max = self.next_read_bytes();
        if self.input.capacity() == 0 {
            self.input = match max <= buffers::SMALL_BYTES {
                true => buffers::small(),
                // It is given away with the body.
                false => Vec::with_capacity(max),
            };
        }
        match self.connection.poll_receive(cx, &mut self.input, max) {
            Poll::Ready(Ok(Received::End)) => self.closed = true,
            Poll::Ready(Ok(Received::Bytes(count))) => {
                self.bytes_received += count as u64;
                self.read_bytes = max;
                self.is_bulk = count == max;
                self.connection.timers.reading.end();
                if !self.answers_once() {
                    // It may have made room, or a tunnel is alive.
                    self.connection.timers.sending.end();
                }
            }
            // After a failed write a reset says nothing new; an alert of TLS does.
            Poll::Ready(Err(PeerError::Socket(_))) if self.send_error.is_some() => {
                self.closed = true;
            }
            Poll::Ready(Err(error)) => {
                return Poll::Ready(Err(Failure::broken(error, self.doing())));
            }
            Poll::Pending => {
                if self.input.is_empty() {
                    buffers::release(&mut self.input);
                }
                // As in nginx, the read time-out starts when the request has been sent.
                if self.is_sent() || self.gave_up_sending || self.has_head {
                    ready!(
                        self.connection
                            .timers
                            .reading
                            .poll_expired(cx, self.timeouts.read)
                    );
                    if !self.wire.has_all_output() {
                        return Poll::Ready(Err(Failure::TimedOut(self.doing())));
                    }
                    // The program will not end its request.
                    self.closed = true;
                    return Poll::Ready(Ok(()));
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn doing(&self) -> Doing {
        match (&self.wire, self.has_head) {
            (Wire::Raw, _) => Doing::Tunnelling,
            (_, true) => Doing::ReadingBody,
            (_, false) => Doing::ReadingHead,
        }
    }

    /// The part of a streamed body that was taken, if a peer that did not process the request
    /// leaves all of it to be sent again.
    pub(crate) fn take_kept_body(&mut self) -> Option<OutputChain> {
        self.wire.stream_mut()?.take_kept_body()
    }

    /// Gives up the request, as its response is no longer needed. Returns the connection if the
    /// protocol leaves it usable.
    pub(crate) fn abandon(mut self) -> Option<PeerConnection> {
        let stream = self.wire.stream_mut()?;
        let reusable = stream.cancel(&self.input) && !self.closed && self.send_error.is_none();
        match reusable {
            true => self.into_connection(),
            false => None,
        }
    }

    /// The connection, after the response, for another request; `None` if its remaining output
    /// cannot be sent at once.
    pub(crate) fn into_connection(mut self) -> Option<PeerConnection> {
        let mut cx = Context::from_waker(Waker::noop());
        self.take_stream_output();
        let Poll::Ready(Ok(())) = self.connection.poll_send(&mut cx, &mut self.out) else {
            return None;
        };
        self.connection.http2 = self.wire.stream_mut().and_then(Http2::take_session);
        self.connection.rest();
        Some(self.connection)
    }
}
