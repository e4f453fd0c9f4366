//! The streams of one connection, RFC 9000 sections 2 to 4: their states, their limits, what has
//! arrived and what is to be sent.
//!
//! Bytes that are sent belong to the owner, which says how far they are available
//! ([`Streams::write_up_to`]) and copies a range of them when a packet is built
//! ([`Streams::next_frame`]). It keeps them until they are acknowledged ([`Event::Acknowledged`]).
//!
//! Bytes that arrive in order are handed to the owner as they lie in the packet; others are kept.
//! Windows open when the owner says that it has consumed what it was given
//! ([`Streams::consumed`]).

mod event;
mod id;
mod outgoing;
mod settings;

pub use event::Event;
pub use id::{Direction, StreamId};
pub(crate) use outgoing::{Outgoing, Sent};
pub use settings::{PeerLimits, Settings};

use std::time::Duration;

use crate::{Error, Side, Time};

/// Takes bytes of a stream in order, and whether the stream ends behind them. Returns how many it
/// took; if these are not all, the rest is offered by the next [`Streams::read`].
pub(crate) type Sink<'a> = dyn FnMut(StreamId, &[u8], bool) -> usize + 'a;

/// The streams of one connection.
pub(crate) struct Streams {}

/// Limits.
impl Streams {
    /// No streams, and a peer that allows none until its limits are known.
    pub(crate) fn new(_side: Side, _settings: &Settings) -> Self {
        unimplemented!()
    }

    /// The limits that were remembered with a session, for 0-RTT.
    pub(crate) fn remember_peer_limits(&mut self, _limits: &PeerLimits) {
        unimplemented!()
    }

    /// The limits in the peer's transport parameters. If 0-RTT was rejected,
    /// [`Streams::restart_sending`] comes first.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION if one is lower than what was remembered, RFC 9000 section 7.4.1.
    pub(crate) fn set_peer_limits(&mut self, _limits: &PeerLimits) -> Result<(), Error> {
        unimplemented!()
    }

    /// 0-RTT was rejected: all that was sent is sent again, within the limits that
    /// [`Streams::set_peer_limits`] tells next. What was in the packets of 0-RTT is neither lost nor
    /// acknowledged any more.
    pub(crate) fn restart_sending(&mut self) {
        unimplemented!()
    }

    /// How many streams of this direction the peer may have open at a time from now on. What has been
    /// announced stays valid.
    pub(crate) fn set_max_streams(&mut self, _direction: Direction, _streams: u64) {
        unimplemented!()
    }
}

/// What the owner does with streams.
impl Streams {
    /// Opens a stream, or `None` if the peer does not allow more of them ([`Event::Available`] tells
    /// when it does).
    pub(crate) fn open(&mut self, _direction: Direction) -> Option<StreamId> {
        unimplemented!()
    }

    /// The bytes before `up_to` are available, and if `fin`, the stream ends there. It may be called
    /// again with more. Returns whether anything is sent on the stream any more: not after
    /// a reset or the end.
    pub(crate) fn write_up_to(&mut self, _id: StreamId, _up_to: u64, _fin: bool) -> bool {
        unimplemented!()
    }

    /// RFC 9218: streams of a lower `urgency` (0 to 7, 3 at first) are sent first; of those that are
    /// not `incremental` (as all are at first) the one with the lowest id; the others take turns.
    pub(crate) fn set_priority(&mut self, _id: StreamId, _urgency: u8, _incremental: bool) {
        unimplemented!()
    }

    /// Sends no more of the stream (RESET_STREAM). Nothing that was written is asked for any more.
    pub(crate) fn reset(&mut self, _id: StreamId, _code: u64) {
        unimplemented!()
    }

    /// Reads no more of the stream (STOP_SENDING). What has arrived is dropped.
    pub(crate) fn stop_sending(&mut self, _id: StreamId, _code: u64) {
        unimplemented!()
    }

    /// Offers `sink` what has arrived in order and was not taken yet, piece by piece, until it takes
    /// less than a piece.
    pub(crate) fn read(&mut self, _id: StreamId, _sink: &mut Sink<'_>) {
        unimplemented!()
    }

    /// So many bytes that the owner had taken are consumed: as many more may be sent to us. Also of
    /// streams that are over. `rtt` is the smoothed round-trip time.
    pub(crate) fn consumed(&mut self, _id: StreamId, _bytes: u64, _now: Time, _rtt: Duration) {
        unimplemented!()
    }

    /// What happened. The owner takes all events after it has handed in a datagram: streams are not
    /// forgotten before.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        unimplemented!()
    }

    /// Whether there is no stream of this direction that the peer opened.
    pub(crate) fn is_idle(&self) -> bool {
        unimplemented!()
    }
}

/// Frames that arrive.
impl Streams {
    /// STREAM. Bytes that are in order while none are kept are offered to `sink` at once. A call for
    /// a stream of the peer that the owner does not know stands for its [`Event::Opened`]. What `sink`
    /// does not take is kept, and the owner has to ask for it: no [`Event::Readable`] tells of it.
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR, STREAM_LIMIT_ERROR, FINAL_SIZE_ERROR and FLOW_CONTROL_ERROR.
    pub(crate) fn on_stream(
        &mut self,
        _id: StreamId,
        _offset: u64,
        _data: &[u8],
        _fin: bool,
        _sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        unimplemented!()
    }

    /// RESET_STREAM.
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR, STREAM_LIMIT_ERROR, FINAL_SIZE_ERROR and FLOW_CONTROL_ERROR.
    pub(crate) fn on_reset_stream(
        &mut self,
        _id: StreamId,
        _code: u64,
        _final_size: u64,
    ) -> Result<(), Error> {
        unimplemented!()
    }

    /// STOP_SENDING.
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR and STREAM_LIMIT_ERROR.
    pub(crate) fn on_stop_sending(&mut self, _id: StreamId, _code: u64) -> Result<(), Error> {
        unimplemented!()
    }

    /// MAX_DATA.
    pub(crate) fn on_max_data(&mut self, _value: u64) {
        unimplemented!()
    }

    /// MAX_STREAM_DATA.
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR and STREAM_LIMIT_ERROR.
    pub(crate) fn on_max_stream_data(&mut self, _id: StreamId, _value: u64) -> Result<(), Error> {
        unimplemented!()
    }

    /// MAX_STREAMS.
    ///
    /// # Errors
    ///
    /// FRAME_ENCODING_ERROR if there cannot be as many streams.
    pub(crate) fn on_max_streams(
        &mut self,
        _direction: Direction,
        _value: u64,
    ) -> Result<(), Error> {
        unimplemented!()
    }

    /// STREAM_DATA_BLOCKED. (DATA_BLOCKED needs nothing done.)
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR and STREAM_LIMIT_ERROR.
    pub(crate) fn on_stream_data_blocked(&mut self, _id: StreamId) -> Result<(), Error> {
        unimplemented!()
    }

    /// STREAMS_BLOCKED.
    ///
    /// # Errors
    ///
    /// FRAME_ENCODING_ERROR if there cannot be as many streams.
    pub(crate) fn on_streams_blocked(
        &mut self,
        _direction: Direction,
        _value: u64,
    ) -> Result<(), Error> {
        unimplemented!()
    }
}

/// Frames that are sent.
impl Streams {
    /// Whether [`Streams::next_frame`] has something, given enough room. Costs next to nothing.
    pub(crate) fn has_pending(&self) -> bool {
        unimplemented!()
    }

    /// The next frame, of at most `room` bytes with its type and all its fields, which the caller puts
    /// into a packet. `None` if there is nothing or if it does not fit.
    pub(crate) fn next_frame(&mut self, _room: usize) -> Option<Outgoing> {
        unimplemented!()
    }

    /// The peer has got a packet with this frame. Frames of which a copy was reported before may be
    /// reported again, in any order.
    pub(crate) fn on_acked(&mut self, _sent: Sent) {
        unimplemented!()
    }

    /// A packet with this frame is lost, or its contents are wanted for a probe: what is still needed
    /// of it is sent again, before anything new. May be told of the same frame more than once.
    pub(crate) fn on_lost(&mut self, _sent: Sent) {
        unimplemented!()
    }
}
