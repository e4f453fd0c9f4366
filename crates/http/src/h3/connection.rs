//! The connection: its streams, its beginning and its end.

use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use super::error::{Code, ConnectionError, StreamError};
use super::qpack;
use super::settings::Settings;
use super::streams::{Half, Purpose, Stream, Streams, Unidirectional};
use super::varint::{self, Partial};
use crate::h2::Counters;
use crate::message::Priority;
use crate::meter::Meter;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers requests.
    Server,
    /// Sends requests.
    Client,
}

/// A unidirectional stream that this side opens (RFC 9114 section 6.2, RFC 9204 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// SETTINGS, GOAWAY and PRIORITY_UPDATE.
    Control,
    /// Instructions for the peer's decoder.
    Encoder,
    /// Acknowledgements for the peer's encoder.
    Decoder,
}

impl Channel {
    /// All of them, the most important first.
    pub const ALL: [Channel; 3] = [Channel::Control, Channel::Encoder, Channel::Decoder];
}

/// Ids of streams have two bits that say who opened it, and for which directions (RFC 9000 section
/// 2.1).
const SERVER_INITIATED: u64 = 1;
pub(super) const UNIDIRECTIONAL: u64 = 2;

/// The first id that no request can have: GOAWAY with it promises nothing yet (RFC 9114 section
/// 5.2).
const BEYOND_ALL_REQUESTS: u64 = varint::MAX - 3;

/// Unidirectional streams that are open at a time, most of them ignored.
const MAX_UNIDIRECTIONAL_STREAMS: usize = 64;

/// Priorities that are remembered for requests which have not arrived.
pub(super) const MAX_EARLY_PRIORITIES: usize = 16;

/// What every request gives back to the meter of bytes that are written into the table.
pub(super) const TABLE_BYTES_OF_REQUEST: u32 = 4096;

/// The meters of a connection.
#[derive(Debug)]
pub(super) struct Meters {
    pub(super) resets: Meter,
    pub(super) empty_frames: Meter,
    pub(super) priority_frames: Meter,
    pub(super) unidirectional_streams: Meter,
    pub(super) table_bytes: Meter,
    pub(super) oversized_heads: Meter,
}

/// One HTTP/3 connection; see the [module](super) for how it is driven.
pub struct Connection {
    pub(super) role: Role,
    pub(super) settings: Arc<Settings>,
    /// What ended the connection.
    pub(super) error: Option<ConnectionError>,
    pub(super) streams: Streams,
    pub(super) unidirectional: Vec<Unidirectional>,
    pub(super) control: Control,
    pub(super) decoder: qpack::Decoder,
    pub(super) encoder: qpack::Encoder,
    /// Bytes for the control stream.
    pub(super) control_out: Vec<u8>,
    /// Encoded field sections that are held, in bytes.
    pub(super) held_bytes: usize,
    /// Size of the last head, for the room of the next one.
    pub(super) head_bytes: usize,
    pub(super) meters: Meters,
    pub(super) counters: Counters,
    /// The time last handed in.
    pub(super) now: Duration,
    /// Server: above the highest request stream that was opened.
    pub(super) next_request: u64,
    /// The id in the GOAWAY that this side has sent.
    pub(super) goaway_sent: Option<u64>,
    /// The id in the GOAWAY that the peer has sent.
    pub(super) goaway_received: Option<u64>,
    /// Server: ids from here on are beyond the limits of streams.
    pub(super) request_limit: u64,
    pub(super) early_priorities: Vec<(u64, Priority)>,
    /// Server: HTTP/0.9 was agreed on (`hq-interop`).
    pub(super) is_hq: bool,
}

impl Connection {
    /// A new connection. SETTINGS are the first bytes of [`Channel::Control`].
    pub fn new(role: Role, settings: Arc<Settings>, now: Duration) -> Connection {
        let meter = Meter::new(now);
        let mut control_out = Vec::new();
        super::control::push_settings(&settings, role, &mut control_out);
        Connection {
            role,
            error: None,
            streams: Streams::default(),
            unidirectional: Vec::new(),
            control: Control::default(),
            decoder: qpack::Decoder::new(settings.decoder_table_bytes, settings.blocked_streams),
            encoder: qpack::Encoder::new(settings.encoder_table_bytes),
            control_out,
            held_bytes: 0,
            head_bytes: 0,
            meters: Meters {
                resets: meter,
                empty_frames: meter,
                priority_frames: meter,
                unidirectional_streams: meter,
                table_bytes: meter,
                oversized_heads: meter,
            },
            counters: Counters::default(),
            now,
            next_request: 0,
            goaway_sent: None,
            goaway_received: None,
            request_limit: varint::MAX,
            early_priorities: Vec::new(),
            is_hq: false,
            settings,
        }
    }

    /// Which side this is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// What has been counted since it was taken last; the caller adds it up.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    /// Requests that are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Heap memory in bytes, without what is shared with other connections.
    pub fn heap_bytes(&self) -> usize {
        self.streams.heap_bytes()
            + self.unidirectional.capacity() * size_of::<Unidirectional>()
            + self.control_out.capacity()
            + self.control.heap_bytes()
            + self.decoder.heap_bytes()
            + self.encoder.heap_bytes()
            + self.early_priorities.capacity() * size_of::<(u64, Priority)>()
    }

    /// The peer has opened a stream. Call it once for every such stream, in any order, before
    /// anything else about it.
    ///
    /// A request that comes too late or is one too many yields an error: reset its stream, and stop
    /// the peer from sending, with its code. Nothing else needs to be called about it.
    ///
    /// # Errors
    /// [`ConnectionError`]: close the connection. Every later call returns it again.
    pub fn opened(
        &mut self,
        id: u64,
        now: Duration,
    ) -> Result<Option<StreamError>, ConnectionError> {
        self.guarded(now, |connection| match id & UNIDIRECTIONAL {
            0 => connection.request_opened(id),
            _ => connection.unidirectional_opened(id).map(|()| None),
        })
    }

    /// Server: whether there are streams on which no request has come, or only a part of one.
    #[must_use]
    pub fn awaits_requests(&self) -> bool {
        self.streams.without_head().next().is_some()
    }

    /// Server: such a stream that was opened at least so long ago. Its owner gives it up.
    #[must_use]
    pub fn late_request(&self, now: Duration, timeout: Duration) -> Option<u64> {
        let is_late = |stream: &&Stream| {
            let opened = Duration::from_millis(stream.opened_ms.into());
            now.saturating_sub(opened) >= timeout
        };
        let late = self.streams.without_head().find(is_late);
        late.map(|stream| stream.id)
    }

    fn request_opened(&mut self, id: u64) -> Result<Option<StreamError>, ConnectionError> {
        if self.role == Role::Client || id & SERVER_INITIATED != 0 {
            return Err(ConnectionError::new(
                Code::H3_STREAM_CREATION_ERROR,
                "bidirectional stream opened by the server",
            ));
        }
        self.counters.streams_opened += 1;
        let is_late = self.goaway_sent.is_some_and(|first| id >= first);
        if is_late || self.streams.len() >= self.settings.max_concurrent_streams {
            self.counters.streams_refused += 1;
            self.charge_wasted()?;
            let reason = match is_late {
                true => "request after GOAWAY",
                false => "too many requests at a time",
            };
            return Ok(Some(StreamError::new(Code::H3_REQUEST_REJECTED, reason)));
        }
        self.next_request = self.next_request.max(id + 4);
        self.meters.empty_frames.credit(1);
        self.meters.priority_frames.credit(2);
        self.meters.table_bytes.credit(TABLE_BYTES_OF_REQUEST);
        let mut stream = Stream::new(id, self.now);
        if let Some(at) = self.early_priorities.iter().position(|early| early.0 == id) {
            stream.priority = self.early_priorities.remove(at).1;
            stream.has_priority = true;
        }
        self.streams.insert(stream);
        Ok(None)
    }

    fn unidirectional_opened(&mut self, id: u64) -> Result<(), ConnectionError> {
        if self.is_hq {
            return Err(ConnectionError::new(
                Code::H3_STREAM_CREATION_ERROR,
                "unidirectional stream opened by a client of HTTP/0.9",
            ));
        }
        let allowance = self.settings.limits.unidirectional_streams;
        let meter = &mut self.meters.unidirectional_streams;
        let is_full = self.unidirectional.len() >= MAX_UNIDIRECTIONAL_STREAMS;
        if is_full || !meter.charge(1, allowance, self.now) {
            self.counters.empty_frame_floods += 1;
            return Err(ConnectionError::new(
                Code::H3_EXCESSIVE_LOAD,
                "too many unidirectional streams",
            ));
        }
        self.unidirectional.push(Unidirectional {
            id,
            purpose: Purpose::NotYetKnown,
            partial: Partial::default(),
        });
        Ok(())
    }

    /// The peer has reset a stream (RESET_STREAM): nothing more comes on it. What a server wants to
    /// send on it may still be sent; who gives it up calls [`reset`](Self::reset).
    ///
    /// # Errors
    /// [`ConnectionError`]: the stream must not end, or too many streams were reset.
    pub fn stream_reset(&mut self, id: u64, now: Duration) -> Result<(), ConnectionError> {
        self.guarded(now, |connection| {
            if id & UNIDIRECTIONAL != 0 {
                return connection.unidirectional_ended(id);
            }
            if connection.streams.get(id).is_none() {
                return Ok(());
            }
            connection.counters.resets_received += 1;
            connection.wasted(id)?;
            connection.stop_receiving(id);
            Ok(())
        })
    }

    /// The peer does not want what this side sends on a stream (STOP_SENDING). The owner resets it.
    ///
    /// # Errors
    /// [`ConnectionError`]: the stream must not end, or too many streams were reset.
    pub fn sending_stopped(&mut self, id: u64, now: Duration) -> Result<(), ConnectionError> {
        self.guarded(now, |connection| {
            if id & UNIDIRECTIONAL != 0 {
                // Every one that this side opens is critical.
                return Err(closed_critical_stream());
            }
            connection.wasted(id)?;
            connection.end_sending(id);
            Ok(())
        })
    }

    /// This side gives a stream up in both directions; the owner resets it.
    pub fn reset(&mut self, id: u64) {
        self.stop_receiving(id);
        self.streams.remove(id);
    }

    /// Whether more may come on a stream, and is wanted.
    pub fn is_receiving(&self, id: u64) -> bool {
        let stream = self.streams.get(id);
        stream.is_some_and(|stream| stream.receive != Half::Ended)
    }

    /// The rest of what comes on a stream is not wanted; the owner stops the peer from sending,
    /// with H3_NO_ERROR after a complete response (RFC 9114 section 4.1).
    pub fn stop_receiving(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.receive != Half::Ended {
            stream.receive = Half::Ended;
            let section = std::mem::take(&mut stream.section);
            self.held_bytes -= section.len();
            // Section 2.2.2.2 of RFC 9204: the encoder must not wait for an acknowledgement.
            if !self.is_hq {
                self.decoder.cancel(id);
            }
        }
        self.remove_if_ended(id);
    }

    /// Server: begins to end the connection. Requests are accepted until [`drain`](Self::drain), as
    /// the client may not know yet (RFC 9114 section 5.2).
    pub fn shut_down(&mut self) {
        self.send_goaway(BEYOND_ALL_REQUESTS);
    }

    /// Server: accepts no more requests. The connection can be closed with H3_NO_ERROR when
    /// [no stream is open](Self::open_streams).
    pub fn drain(&mut self) {
        self.send_goaway(self.next_request);
    }

    fn send_goaway(&mut self, id: u64) {
        if self.role == Role::Server && self.goaway_sent.is_none_or(|sent| id < sent) {
            self.goaway_sent = Some(id);
            if !self.is_hq {
                super::control::push_goaway(id, &mut self.control_out);
            }
        }
    }

    /// Server: how many requests the transport has allowed the client to open until now. Priorities
    /// of later ones are an error (RFC 9218 section 7.2). Without it, there is no such check.
    pub fn set_request_limit(&mut self, requests: u64) {
        self.request_limit = requests.saturating_mul(4);
    }

    /// The priority of a response: what a PRIORITY_UPDATE said, otherwise the request (RFC 9218).
    pub fn priority(&self, id: u64) -> Option<Priority> {
        self.streams.get(id).map(|stream| stream.priority)
    }

    /// Whether a stream waits for the peer's encoder, and is not read until then.
    pub fn is_blocked(&self, id: u64) -> bool {
        self.streams.get(id).is_some_and(|stream| stream.is_blocked)
    }

    /// What is to be sent on a unidirectional stream of this side. The owner opens it when this is
    /// not empty for the first time, never ends it, and reports what is [`sent`](Self::sent).
    pub fn outgoing(&mut self, channel: Channel) -> &[u8] {
        match channel {
            Channel::Control => &self.control_out,
            Channel::Encoder => self.encoder.outgoing(),
            Channel::Decoder => self.decoder.outgoing(),
        }
    }

    /// The first bytes of what is to be sent have been taken.
    pub fn sent(&mut self, channel: Channel, bytes: usize) {
        match channel {
            Channel::Control => qpack::drop_front(&mut self.control_out, bytes),
            Channel::Encoder => self.encoder.sent(bytes),
            Channel::Decoder => self.decoder.sent(bytes),
        }
    }

    /// Runs `step` unless the connection is over, and remembers its error.
    pub(super) fn guarded<T>(
        &mut self,
        now: Duration,
        step: impl FnOnce(&mut Connection) -> Result<T, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.now = now;
        let outcome = step(self);
        if let Err(error) = &outcome {
            self.error = Some(*error);
            match error.code {
                Code::H3_EXCESSIVE_LOAD => {}
                _ => self.counters.connection_faults += 1,
            }
        }
        outcome
    }

    /// A unidirectional stream has ended or was reset (RFC 9114 section 6.2.1, RFC 9204 section
    /// 4.2).
    pub(super) fn unidirectional_ended(&mut self, id: u64) -> Result<(), ConnectionError> {
        let Some(at) = self.unidirectional.iter().position(|found| found.id == id) else {
            return Ok(());
        };
        match self.unidirectional[at].purpose {
            Purpose::NotYetKnown | Purpose::Ignored => {
                self.unidirectional.swap_remove(at);
                Ok(())
            }
            _ => Err(closed_critical_stream()),
        }
    }

    /// The response on a stream has been given up.
    pub(super) fn wasted(&mut self, id: u64) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(());
        };
        if self.role == Role::Client || stream.send == Half::Ended || stream.is_wasted {
            return Ok(());
        }
        stream.is_wasted = true;
        self.charge_wasted()
    }

    pub(super) fn charge_wasted(&mut self) -> Result<(), ConnectionError> {
        let allowance = self.settings.limits.resets;
        if self.meters.resets.charge(1, allowance, self.now) {
            return Ok(());
        }
        self.counters.rapid_reset_floods += 1;
        Err(ConnectionError::new(
            Code::H3_EXCESSIVE_LOAD,
            "http3 flood detected: streams opened and reset",
        ))
    }

    pub(super) fn charge_empty(&mut self) -> Result<(), ConnectionError> {
        let allowance = self.settings.limits.empty_frames;
        if self.meters.empty_frames.charge(1, allowance, self.now) {
            return Ok(());
        }
        self.counters.empty_frame_floods += 1;
        Err(ConnectionError::new(
            Code::H3_EXCESSIVE_LOAD,
            "http3 flood detected: frames without content",
        ))
    }

    /// The sending direction of a stream has ended.
    pub(super) fn end_sending(&mut self, id: u64) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.send = Half::Ended;
            self.remove_if_ended(id);
        }
    }

    pub(super) fn remove_if_ended(&mut self, id: u64) {
        let is_over = |stream: &Stream| stream.receive == Half::Ended && stream.send == Half::Ended;
        if self.streams.get(id).is_some_and(is_over) {
            let removed = self.streams.remove(id);
            if removed.is_some_and(|stream| !stream.is_wasted) {
                self.meters.resets.credit(1);
            }
        }
    }
}

fn closed_critical_stream() -> ConnectionError {
    ConnectionError::new(
        Code::H3_CLOSED_CRITICAL_STREAM,
        "control stream or QPACK stream closed",
    )
}
