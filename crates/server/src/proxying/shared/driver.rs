//! The task of a shared connection.

use super::super::failure::Doing;
use super::super::pause::Pause;
use super::super::peer_connection::{Dial, DialError, PeerConnection, PeerError};
use super::connection::{SharedConnection, SharedEnd, Taker};
use sealane_http::dubbo::{self, Event, FrameDecoder, HESSIAN2, Header, Kind, OK};
use sealane_io::chain::OutputChain;
use sealane_io::runtime::{Sleep, sleep_until, timeout_at};
use sealane_io::{OutboundMessage, Received};
use sealane_upstream::PeerRef;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Bytes that one read asks for.
const READ_BYTES: usize = 64 << 10;
/// Frames are put together up to so many bytes, to be sent with one call.
const BATCH_BYTES: u64 = 64 << 10;
/// Heartbeats without an answer, and without anything else from the provider, until it is taken for
/// dead.
const MISSED_HEARTBEATS: u32 = 3;
/// Answers to a provider's heartbeats that wait to be sent: one that sends more than it reads must
/// not fill memory.
const MAX_REPLIES: usize = 64;
/// The longest payload of an event that means something to us.
const EVENT_BYTES: usize = 16;

/// What a connection is to be like: the settings of the location that opens it.
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    /// Between two writes.
    pub(super) send_timeout: Duration,
    /// Between two reads of a frame.
    pub(super) read_timeout: Duration,
    /// Zero for no heartbeats.
    pub(super) heartbeat_interval: Duration,
    /// Without requests.
    pub(super) idle_timeout: Duration,
}

/// Drives a connection. However it is dropped, the requests learn that the connection has ended.
pub(super) struct Driver {
    shared: Arc<SharedConnection>,
    peer: PeerRef,
    settings: Settings,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.end(SharedEnd::Closed);
    }
}

impl Driver {
    pub(super) fn new(shared: Arc<SharedConnection>, peer: PeerRef, settings: Settings) -> Driver {
        Driver {
            shared,
            peer,
            settings,
        }
    }

    /// From connecting to the end. `prologue` precedes the frames.
    pub(super) async fn run(self, dial: Dial, prologue: Option<Vec<u8>>) {
        let deadline = Instant::now() + self.settings.connect_timeout;
        let connection = match timeout_at(deadline, dial.connect()).await {
            Ok(Ok(socket)) => PeerConnection::over(socket),
            Ok(Err(error)) => {
                return self.shared.end(match error {
                    DialError::Socket(call, error) => SharedEnd::Socket(call, error.into()),
                    DialError::Connect(error) => {
                        SharedEnd::Connect(error.into(), dial.socket_name())
                    }
                });
            }
            Err(_) => return self.shared.end(SharedEnd::ConnectTimedOut),
        };
        self.shared.open();
        let mut link = Link::new(&self, connection, prologue.unwrap_or_default());
        let ending = poll_fn(|cx| link.poll(cx)).await;
        self.shared.end(ending);
    }
}

/// A frame that is being sent: the call, and between which of all bytes of the connection it lies.
struct Sending {
    number: u64,
    start: u64,
    end: u64,
}

/// The frame that is being received.
enum Receiving {
    /// None, or one whose payload nobody wants.
    Nothing,
    Response(u64),
    /// An event of the provider.
    Event(Header, Vec<u8>),
}

/// An open connection.
struct Link<'d> {
    driver: &'d Driver,
    connection: PeerConnection,
    decoder: FrameDecoder,
    receiving: Receiving,
    input: Vec<u8>,
    /// What is being sent: frames of calls, heartbeats and answers to them.
    message: OutboundMessage,
    /// All bytes that were ever put into the message.
    framed_bytes: u64,
    sending: VecDeque<Sending>,
    /// Answers to events, not yet in the message.
    replies: Vec<Header>,
    /// Sending failed; the provider may still have answered before it closed.
    send_error: Option<SharedEnd>,
    send_pause: Pause,
    last_sent: Instant,
    last_received: Instant,
    last_heartbeat: Instant,
    unanswered_heartbeats: u32,
    idle_since: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl<'d> Link<'d> {
    fn new(driver: &'d Driver, connection: PeerConnection, prologue: Vec<u8>) -> Link<'d> {
        let now = Instant::now();
        Link {
            driver,
            connection,
            decoder: FrameDecoder::default(),
            receiving: Receiving::Nothing,
            input: Vec::new(),
            framed_bytes: prologue.len() as u64,
            message: OutboundMessage::new(prologue, OutputChain::new()),
            sending: VecDeque::new(),
            replies: Vec::new(),
            send_error: None,
            send_pause: Pause::default(),
            last_sent: now,
            last_received: now,
            last_heartbeat: now,
            unanswered_heartbeats: 0,
            idle_since: None,
            timer: Box::pin(sleep_until(now)),
        }
    }

    /// Sends and receives. Ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<SharedEnd> {
        loop {
            self.driver.shared.set_driver(cx);
            let now = Instant::now();
            if let Err(ending) = self.send(cx, now) {
                return Poll::Ready(ending);
            }
            match self
                .connection
                .poll_receive(cx, &mut self.input, READ_BYTES)
            {
                Poll::Ready(Ok(Received::Bytes(_))) => {
                    self.last_received = now;
                    self.unanswered_heartbeats = 0;
                    if let Err(ending) = self.take_input() {
                        return Poll::Ready(ending);
                    }
                    continue;
                }
                Poll::Ready(Ok(Received::End)) => {
                    return Poll::Ready(self.send_error.take().unwrap_or(SharedEnd::Closed));
                }
                Poll::Ready(Err(error)) => {
                    let broken = || broken(error, Doing::ReadingHead);
                    return Poll::Ready(self.send_error.take().unwrap_or_else(broken));
                }
                Poll::Pending => {}
            }
            // An idle connection has no buffer.
            self.input = Vec::new();
            if self.is_over(now) {
                return Poll::Ready(SharedEnd::Closed);
            }
            match self.beat(now) {
                Ok(true) => {} // there is a heartbeat to send
                Ok(false) => return self.wait(cx, now),
                Err(ending) => return Poll::Ready(ending),
            }
        }
    }

    /// Sends what there is, as far as the socket takes it.
    fn send(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<(), SharedEnd> {
        loop {
            self.frame();
            if self.message.is_empty() && !self.connection.has_unsent() {
                self.send_pause.end();
                return Ok(());
            }
            let before = self.message.sent;
            let sent = self.connection.poll_send(cx, &mut self.message);
            if self.message.sent > before {
                self.last_sent = now;
                self.send_pause.end();
                self.note_sent();
            }
            match sent {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error @ PeerError::File(_))) => {
                    return Err(broken(error, Doing::Sending));
                }
                Poll::Ready(Err(error)) => {
                    self.driver.shared.close_to_calls();
                    self.message.clear();
                    self.replies.clear();
                    self.send_error = Some(broken(error, Doing::Sending));
                    return Ok(());
                }
                Poll::Pending => {
                    let limit = self.driver.settings.send_timeout;
                    return match self.send_pause.poll_expired(cx, limit) {
                        Poll::Ready(()) => Err(SharedEnd::TimedOut(Doing::Sending)),
                        Poll::Pending => Ok(()),
                    };
                }
            }
        }
    }

    /// Puts frames into the message.
    fn frame(&mut self) {
        if self.send_error.is_some() {
            return;
        }
        let mut small = Vec::new();
        for header in self.replies.drain(..) {
            small.extend_from_slice(&header.encode());
            small.extend_from_slice(dubbo::HEARTBEAT);
        }
        self.put(small);
        while self.message.body.len() < BATCH_BYTES
            && let Some((number, header, payload)) = self.driver.shared.next_frame()
        {
            let start = self.framed_bytes;
            self.put(header.to_vec());
            self.framed_bytes += payload.len();
            self.message.body.append(payload);
            self.sending.push_back(Sending {
                number,
                start,
                end: self.framed_bytes,
            });
        }
    }

    fn put(&mut self, bytes: Vec<u8>) {
        self.framed_bytes += bytes.len() as u64;
        self.message.body.push_bytes(bytes);
    }

    /// Tells the calls how much of their frames has left.
    fn note_sent(&mut self) {
        let sent = self.message.sent;
        while let Some(frame) = self.sending.front()
            && sent > frame.start
        {
            let bytes = sent.min(frame.end) - frame.start;
            self.driver.shared.note_sent(frame.number, bytes);
            if sent < frame.end {
                return;
            }
            self.sending.pop_front();
        }
    }

    /// Gives each call what has come for it.
    fn take_input(&mut self) -> Result<(), SharedEnd> {
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let decoded = self.decoder.decode(rest);
            let decoded = decoded.map_err(|error| SharedEnd::Invalid(error.to_string()))?;
            match decoded.event {
                Event::NeedMore => break,
                Event::Begin(header) => self.begin(&header)?,
                Event::Payload(at) => match &mut self.receiving {
                    Receiving::Nothing => {}
                    Receiving::Response(number) => {
                        self.driver.shared.add_response(*number, &rest[at]);
                    }
                    Receiving::Event(_, payload) => {
                        let room = EVENT_BYTES.saturating_sub(payload.len());
                        payload.extend(rest[at].iter().take(room));
                    }
                },
                Event::End => self.end(),
            }
            at += decoded.consumed;
        }
        self.input = input;
        self.input.clear();
        Ok(())
    }

    fn begin(&mut self, header: &Header) -> Result<(), SharedEnd> {
        self.receiving = match header.kind {
            Kind::Response => {
                let taker = self.driver.shared.begin_response(header);
                match taker.map_err(SharedEnd::Invalid)? {
                    Taker::Call(number) => Receiving::Response(number),
                    Taker::Nobody => Receiving::Nothing,
                }
            }
            Kind::EventResponse => Receiving::Nothing,
            Kind::Event { .. } => Receiving::Event(*header, Vec::new()),
            Kind::Request { .. } => {
                let text = "upstream sent a dubbo request instead of a response";
                return Err(SharedEnd::Invalid(text.to_owned()));
            }
        };
        if self.replies.len() >= MAX_REPLIES {
            let text = "upstream sent too many dubbo events, and reads no answers";
            return Err(SharedEnd::Invalid(text.to_owned()));
        }
        Ok(())
    }

    fn end(&mut self) {
        match std::mem::replace(&mut self.receiving, Receiving::Nothing) {
            Receiving::Nothing => {}
            Receiving::Response(number) => self.driver.shared.end_response(number),
            Receiving::Event(header, payload) => {
                if payload == dubbo::READ_ONLY {
                    self.driver.shared.close_to_calls();
                }
                if header.kind == (Kind::Event { two_way: true }) {
                    self.replies.push(Header {
                        kind: Kind::EventResponse,
                        serialization: HESSIAN2,
                        status: OK,
                        number: header.number,
                        payload_bytes: dubbo::HEARTBEAT.len() as u32,
                    });
                }
            }
        }
    }

    /// Whether nobody needs the connection any more.
    fn is_over(&mut self, now: Instant) -> bool {
        let shared = &self.driver.shared;
        if shared.calls() > 0 {
            self.idle_since = None;
            return false;
        }
        let since = *self.idle_since.get_or_insert(now);
        shared.may_end()
            || self.driver.peer.is_gone()
            || now.saturating_duration_since(since) >= self.driver.settings.idle_timeout
    }

    /// When the next heartbeat is due: either side has been silent for so long.
    fn heartbeat_due(&self) -> Option<Instant> {
        let interval = self.driver.settings.heartbeat_interval;
        let silent_since = self.last_sent.min(self.last_received);
        let since = silent_since.max(self.last_heartbeat);
        (!interval.is_zero()).then(|| since.checked_add(interval))?
    }

    /// Until when more of a frame has to come. One that stops in between holds up all others.
    fn frame_due(&self) -> Option<Instant> {
        match self.decoder.is_between_frames() {
            true => None,
            false => self
                .last_received
                .checked_add(self.driver.settings.read_timeout),
        }
    }

    /// Prepares a heartbeat if one is due.
    fn beat(&mut self, now: Instant) -> Result<bool, SharedEnd> {
        if self.frame_due().is_some_and(|due| now >= due) {
            return Err(SharedEnd::TimedOut(Doing::ReadingHead));
        }
        if self.heartbeat_due().is_none_or(|due| now < due) || self.send_error.is_some() {
            return Ok(false);
        }
        if self.unanswered_heartbeats >= MISSED_HEARTBEATS {
            return Err(SharedEnd::TimedOut(Doing::ReadingHead));
        }
        self.unanswered_heartbeats += 1;
        self.last_heartbeat = now;
        let header = Header {
            kind: Kind::Event { two_way: true },
            serialization: HESSIAN2,
            status: 0,
            number: self.driver.shared.next_number(),
            payload_bytes: dubbo::HEARTBEAT.len() as u32,
        };
        self.put([&header.encode(), dubbo::HEARTBEAT].concat());
        Ok(true)
    }

    /// Waits for the next heartbeat, the rest of a frame, or the end of an idle connection.
    fn wait(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<SharedEnd> {
        let idle_timeout = self.driver.settings.idle_timeout;
        let idle_until = self
            .idle_since
            .and_then(|since| since.checked_add(idle_timeout));
        let heartbeat = match self.send_error {
            Some(_) => None,
            None => self.heartbeat_due(),
        };
        let moments = [idle_until, heartbeat, self.frame_due()];
        let Some(until) = moments.into_iter().flatten().min() else {
            return Poll::Pending;
        };
        // A moment that has passed since is looked at in the next turn.
        self.timer.as_mut().reset(until.max(now));
        if self.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

fn broken(error: PeerError, doing: Doing) -> SharedEnd {
    match error {
        PeerError::Socket(error) => SharedEnd::Broken(error.into(), doing),
        PeerError::File(error) => SharedEnd::File(error.to_string()),
        // There is no TLS on it.
        PeerError::Tls(_) | PeerError::ClosedInHandshake => SharedEnd::Closed,
    }
}
