//! The connection: what both roles share, and how it begins and ends.

use std::sync::Arc;
use std::time::Duration;

use super::error::{ErrorCode, Fault};
use super::flow::{DEFAULT_WINDOW, ReceiveWindow, RoundTrip, SendWindow};
use super::frame::{self, HEADER_BYTES, MAX_STREAM_ID, PREFACE};
use super::hpack;
use super::limits::{Counters, Meters};
use super::receive::{HeaderBlock, IncomingData};
use super::schedule::Schedule;
use super::settings::{PeerSettings, Settings};
use super::streams::{Half, Stream, StreamRef, Streams};
use crate::message::Priority;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers requests.
    Server,
    /// Sends requests.
    Client,
}

/// The progress of the connection towards its end.
///
/// ```text
///   Open ──shut_down──> Announced ──PING answered, or shut_down_now──> Draining ──> no streams
///     └──────────────────── a fault, or close ───────────────────────> Closed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Streams come and go.
    Open,
    /// GOAWAY with 2^31-1 has been sent: new streams are still accepted, as the peer may not know
    /// yet.
    Announced,
    /// GOAWAY with the last stream has been sent: no new streams.
    Draining,
    /// GOAWAY with an error has been sent: nothing more is read.
    Closed,
}

/// The payload of the PING whose answer shows that the peer has seen the first GOAWAY.
pub(super) const SHUT_DOWN_PING: [u8; 8] = *b"shutdown";
/// The payload of PINGs that measure the round-trip time.
pub(super) const MEASURE_PING: [u8; 8] = *b"roundtrp";
/// The payload of the owner's PINGs.
pub(super) const OWNER_PING: [u8; 8] = *b"sealane?";

/// One HTTP/2 connection; see the [module](super) for how it is driven.
pub struct Connection {
    pub(super) role: Role,
    pub(super) settings: Arc<Settings>,
    pub(super) phase: Phase,
    /// What the peer did wrong, if that ended the connection.
    pub(super) fault: Option<Fault>,
    /// Bytes of the client preface that are still to come.
    pub(super) preface_left: u8,
    /// The peer's first SETTINGS have arrived.
    pub(super) peer_is_known: bool,
    pub(super) peer: PeerSettings,
    /// The peer has not acknowledged our SETTINGS yet.
    pub(super) settings_pending: bool,
    /// The initial receive window of streams, as the peer sees it.
    pub(super) stream_window_bytes: u32,
    pub(super) decoder: hpack::Decoder,
    pub(super) encoder: hpack::Encoder,
    pub(super) streams: Streams,
    pub(super) schedule: Schedule,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    pub(super) round_trip: RoundTrip,
    pub(super) meters: Meters,
    pub(super) counters: Counters,
    /// The time last handed in.
    pub(super) now: Duration,
    /// Server: the highest stream opened by the peer. Client: the last one opened here.
    pub(super) last_stream: u32,
    /// Server: the highest stream that came too late and is ignored.
    pub(super) last_ignored: u32,
    /// The peer skipped identifiers, so not every lower one was a stream.
    pub(super) has_skipped: bool,
    /// Frames for streams up to this one may be in flight although the stream is gone.
    pub(super) newest_reset: u32,
    /// Client: the last stream the peer will process.
    pub(super) peer_last_stream: u32,
    /// Streams above `peer_last_stream` are still to be reported.
    pub(super) has_orphans: bool,
    /// An unfinished header block.
    pub(super) block: Option<Box<HeaderBlock>>,
    /// An unfinished DATA frame.
    pub(super) incoming: Option<IncomingData>,
    /// Bytes of a frame that are still to be ignored.
    pub(super) skip_bytes: u32,
    /// Priorities of streams that are not open yet (RFC 9218 section 7.1).
    pub(super) early_priorities: Vec<(u32, Priority)>,
    /// Size of the last head.
    pub(super) head_bytes: usize,
}

/// What a HEADERS frame holds besides its fragment: the length of the padding, the priority, the
/// padding.
pub(super) const MAX_HEADERS_EXTRA_BYTES: usize = 1 + 5 + 255;

/// Priorities kept for streams that are not open yet; the oldest goes first.
pub(super) const MAX_EARLY_PRIORITIES: usize = 16;

impl Connection {
    /// The server side of a new connection; appends its SETTINGS to `out`.
    pub fn server(settings: Arc<Settings>, now: Duration, out: &mut Vec<u8>) -> Connection {
        Connection::new(Role::Server, settings, now, out)
    }

    /// The client side of a new connection; appends preface and SETTINGS to `out`.
    pub fn client(settings: Arc<Settings>, now: Duration, out: &mut Vec<u8>) -> Connection {
        out.extend_from_slice(PREFACE);
        Connection::new(Role::Client, settings, now, out)
    }

    fn new(role: Role, settings: Arc<Settings>, now: Duration, out: &mut Vec<u8>) -> Connection {
        let is_server = role == Role::Server;
        settings.push_frame(out, is_server);
        let mut round_trip = RoundTrip::default();
        round_trip.start(now);
        let window_bytes = settings.connection_window_bytes.max(DEFAULT_WINDOW);
        let mut receive_window = ReceiveWindow::new(DEFAULT_WINDOW, window_bytes, now);
        if let Some(increment) = receive_window.open_fully() {
            frame::push_window_update(out, 0, increment);
        }
        Connection {
            role,
            phase: Phase::Open,
            fault: None,
            preface_left: u8::from(is_server) * PREFACE.len() as u8,
            peer_is_known: false,
            peer: PeerSettings::default(),
            settings_pending: true,
            stream_window_bytes: DEFAULT_WINDOW,
            decoder: hpack::Decoder::new(),
            encoder: hpack::Encoder::default(),
            streams: Streams::default(),
            schedule: Schedule::default(),
            send_window: SendWindow::new(DEFAULT_WINDOW),
            receive_window,
            round_trip,
            meters: Meters::new(now),
            counters: Counters::default(),
            now,
            last_stream: 0,
            last_ignored: 0,
            has_skipped: false,
            newest_reset: 0,
            peer_last_stream: MAX_STREAM_ID,
            has_orphans: false,
            block: None,
            incoming: None,
            skip_bytes: 0,
            early_priorities: Vec::new(),
            head_bytes: 0,
            settings,
        }
    }

    /// The most bytes that [`receive`](Self::receive) leaves unconsumed, and so the minimum size
    /// of a receive buffer. All frames except DATA are read as a whole.
    pub fn max_unconsumed_bytes(&self) -> usize {
        let head_frame_bytes = self.max_block_bytes() + MAX_HEADERS_EXTRA_BYTES;
        let announced = self.settings.max_frame_bytes as usize;
        let largest = head_frame_bytes.min(announced);
        HEADER_BYTES + largest.max(frame::DEFAULT_MAX_FRAME_BYTES as usize)
    }

    /// The most bytes of an encoded header block.
    pub(super) fn max_block_bytes(&self) -> usize {
        let limits = &self.settings.limits;
        limits
            .header_block_bytes
            .max(self.settings.head.max_head_bytes())
    }

    /// Which side this is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Streams that are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether the stream is open in either direction.
    pub fn contains(&self, stream: StreamRef) -> bool {
        self.streams.get(stream).is_some()
    }

    /// Whether the peer has ended its direction of the stream (or the stream is gone).
    pub fn has_received_end(&self, stream: StreamRef) -> bool {
        self.streams
            .get(stream)
            .is_none_or(|stream| stream.receive == Half::Ended)
    }

    /// Whether the connection is over: its end was announced and no stream is open, or a fault
    /// ended it. Send the pending output and close.
    pub fn is_finished(&self) -> bool {
        match self.phase {
            Phase::Open | Phase::Announced => false,
            Phase::Draining => self.streams.len() == 0,
            Phase::Closed => true,
        }
    }

    /// Whether its end was announced by [`shut_down`](Self::shut_down) or later.
    pub fn is_shutting_down(&self) -> bool {
        self.phase != Phase::Open
    }

    /// The smoothed round-trip time; `None` before the first measurement.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.value()
    }

    /// The counters since they were last taken.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    /// All output so far has been written to the peer's socket. Call it whenever that is the case:
    /// the connection counts its replies from here (`unread_replies`).
    pub fn flushed(&mut self) {
        self.meters.unread_replies = 0;
    }

    /// Heap memory that the connection holds in addition to itself, in bytes: header tables,
    /// streams and the received part of a header block.
    pub fn heap_bytes(&self) -> usize {
        let block = |block: &HeaderBlock| size_of::<HeaderBlock>() + block.bytes.capacity();
        self.streams.heap_bytes()
            + self.decoder.heap_bytes()
            + self.encoder.heap_bytes()
            + self.early_priorities.capacity() * size_of::<(u32, Priority)>()
            + self.block.as_deref().map_or(0, block)
    }

    /// Frees memory. Call it when no stream is open and none is expected soon. Only the connection
    /// itself and the header tables remain.
    pub fn trim(&mut self) {
        self.streams.trim();
        self.early_priorities = Vec::new();
    }

    /// Begins to end the connection without losing a request: announces the end and, once the peer
    /// must have heard of it (a PING was answered), says which stream was the last (RFC 9113
    /// section 6.8). Call [`shut_down_now`](Self::shut_down_now) if that takes too long. A client
    /// simply opens no more streams and is finished when the last one ends.
    pub fn shut_down(&mut self, out: &mut Vec<u8>) {
        if self.phase != Phase::Open {
            return;
        }
        if self.role == Role::Client {
            return self.shut_down_now(out);
        }
        self.phase = Phase::Announced;
        frame::push_go_away(out, MAX_STREAM_ID, ErrorCode::NO_ERROR);
        frame::push_ping(out, false, SHUT_DOWN_PING);
    }

    /// Accepts no more streams from here on; open streams continue.
    pub fn shut_down_now(&mut self, out: &mut Vec<u8>) {
        if matches!(self.phase, Phase::Draining | Phase::Closed) {
            return;
        }
        self.phase = Phase::Draining;
        frame::push_go_away(out, self.last_peer_stream(), ErrorCode::NO_ERROR);
    }

    /// Ends the connection at once, including open streams.
    pub fn close(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        frame::push_go_away(out, self.last_peer_stream(), code);
    }

    /// Sends a PING, whose answer is [`Event::Pong`](super::Event::Pong).
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        frame::push_ping(out, false, OWNER_PING);
    }

    /// Ends the connection because of an error of the peer.
    pub(super) fn fail(&mut self, fault: Fault, out: &mut Vec<u8>) {
        match fault {
            Fault::Flood(flood) => *self.counters.of(flood) += 1,
            _ => self.counters.connection_faults += 1,
        }
        self.close(fault.code(), out);
        self.fault = Some(fault);
    }

    /// The highest stream that the peer has opened, which GOAWAY names.
    fn last_peer_stream(&self) -> u32 {
        match self.role {
            Role::Server => self.last_stream,
            // Servers open none: push is forbidden.
            Role::Client => 0,
        }
    }

    /// Adds a stream with the windows of both sides.
    pub(super) fn insert_stream(&mut self, id: u32) -> StreamRef {
        let target = self.settings.stream_window_bytes;
        let send_window = SendWindow::new(self.peer.initial_window_bytes);
        let receive_window = ReceiveWindow::new(self.stream_window_bytes, target, self.now);
        self.streams
            .insert(Stream::new(id, send_window, receive_window))
    }

    /// Forgets a stream. Whatever the application has not released goes back to the connection's
    /// window, at once if that is worth a frame: a peer whose window is closed sends nothing that
    /// could carry the update.
    pub(super) fn remove_stream(&mut self, stream: StreamRef, out: &mut Vec<u8>) {
        let Some(found) = self.streams.get(stream) else {
            return;
        };
        self.receive_window.release(found.unreleased);
        self.schedule
            .remove(&mut self.streams, stream.slot() as u32);
        self.streams.remove(stream);
        self.update_connection_window(out);
    }

    /// Forgets a stream if both directions have ended.
    pub(super) fn remove_if_ended(&mut self, stream: StreamRef, out: &mut Vec<u8>) {
        let has_ended = |found: &Stream| found.send == Half::Ended && found.receive == Half::Ended;
        if self.streams.get(stream).is_some_and(has_ended) {
            self.meters.resets.credit(1);
            self.remove_stream(stream, out);
        }
    }

    /// Adds a stream to the schedule or removes it, depending on its state.
    pub(super) fn reschedule(&mut self, stream: StreamRef) {
        let slot = stream.slot() as u32;
        self.schedule.remove(&mut self.streams, slot);
        let may_send = |found: &Stream| {
            found.offers && found.send == Half::Body && found.send_window.available() > 0
        };
        if self.streams.get(stream).is_some_and(may_send) {
            self.schedule.add(&mut self.streams, slot);
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("role", &self.role)
            .field("phase", &self.phase)
            .field("streams", &self.streams.len())
            .field("last_stream", &self.last_stream)
            .finish_non_exhaustive()
    }
}
