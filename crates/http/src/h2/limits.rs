//! Limits against floods: frames that a peer may send without any use.
//!
//! Frames that are rare in honest traffic are metered: a burst, a rate at which the burst is
//! refilled, and credit for useful frames, so that a busy connection may send more of them than an
//! idle one. Exceeding a meter ends the connection with ENHANCE_YOUR_CALM. Every limit has a name
//! here, a counter in [`Counters`] and a [`Flood`] for the log.

use std::time::Duration;

use super::error::Flood;
use crate::meter::{Allowance, Meter};

/// The limits, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wasted streams: reset by the peer before they were answered, refused, or reset by us because
    /// of what the peer sent. Every stream answered in full gives one back. A browser that leaves a
    /// page cancels what it was loading, at most a few hundred.
    pub resets: Allowance,
    /// SETTINGS frames; a client sends one or two.
    pub settings: Allowance,
    /// PING frames. Streams and DATA give back: gRPC measures its bandwidth by one PING per round
    /// trip while data flows.
    pub pings: Allowance,
    /// Frames without effect: DATA without bytes or end, frames for closed streams, frames of
    /// unknown types. DATA with bytes and new streams give back.
    pub empty_frames: Allowance,
    /// PRIORITY and PRIORITY_UPDATE. New streams give two back.
    pub priority_frames: Allowance,
    /// WINDOW_UPDATE. A DATA frame sent gives four back, so that only a peer which grants its
    /// window in tiny increments reaches the limit.
    pub window_updates: Allowance,
    /// Bytes of an encoded header block, unless heads are allowed more anyway.
    pub header_block_bytes: usize,
    /// CONTINUATION frames of one header block.
    pub continuation_frames: u32,
    /// Heads that exceed their limits. Each is answered with 431 or 414 and costs no memory beyond
    /// the limits, but a few KiB that refer to the header table again and again cost work.
    pub oversized_heads: Allowance,
    /// Replies (acknowledgements, resets, window updates) since the caller last reported that all
    /// output was sent.
    pub unread_replies: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        let allow = |burst, per_second| Allowance { burst, per_second };
        Limits {
            resets: allow(400, 33),
            settings: allow(100, 5),
            pings: allow(500, 50),
            empty_frames: allow(200, 20),
            priority_frames: allow(1000, 50),
            window_updates: allow(2000, 200),
            header_block_bytes: 64 * 1024,
            continuation_frames: 32,
            oversized_heads: allow(20, 1),
            unread_replies: 1000,
        }
    }
}

/// The meters of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meters {
    pub(super) resets: Meter,
    pub(super) settings: Meter,
    pub(super) pings: Meter,
    pub(super) empty_frames: Meter,
    pub(super) priority_frames: Meter,
    pub(super) window_updates: Meter,
    pub(super) oversized_heads: Meter,
    /// Replies written since the last flush.
    pub(super) unread_replies: u32,
}

impl Meters {
    pub(super) fn new(now: Duration) -> Meters {
        let meter = Meter::new(now);
        Meters {
            resets: meter,
            settings: meter,
            pings: meter,
            empty_frames: meter,
            priority_frames: meter,
            window_updates: meter,
            oversized_heads: meter,
            unread_replies: 0,
        }
    }
}

/// What a connection has counted, to be added up by its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Streams opened by the peer.
    pub streams_opened: u64,
    /// Streams refused because too many were open or the connection was ending.
    pub streams_refused: u64,
    /// Streams the peer reset before they had ended.
    pub resets_received: u64,
    /// Streams reset because of what the peer sent on them.
    pub stream_faults: u64,
    /// Requests with malformed heads or trailers, a part of `stream_faults`.
    pub malformed_heads: u64,
    /// Requests refused for the size or number of their header fields.
    pub heads_too_large: u64,
    /// Connections ended for a protocol violation other than a flood.
    pub connection_faults: u64,
    /// Connections ended for [`Flood::RapidReset`].
    pub rapid_reset_floods: u64,
    /// Connections ended for [`Flood::Continuation`].
    pub continuation_floods: u64,
    /// Connections ended for [`Flood::HeaderBomb`].
    pub header_bombs: u64,
    /// Connections ended for [`Flood::Settings`].
    pub settings_floods: u64,
    /// Connections ended for [`Flood::Ping`].
    pub ping_floods: u64,
    /// Connections ended for [`Flood::Empty`].
    pub empty_frame_floods: u64,
    /// Connections ended for [`Flood::Priority`].
    pub priority_floods: u64,
    /// Connections ended for [`Flood::WindowUpdate`].
    pub window_update_floods: u64,
    /// Connections ended for [`Flood::Unread`].
    pub unread_reply_floods: u64,
}

impl Counters {
    /// The counter of a flood.
    pub(super) fn of(&mut self, flood: Flood) -> &mut u64 {
        match flood {
            Flood::RapidReset => &mut self.rapid_reset_floods,
            Flood::Continuation => &mut self.continuation_floods,
            Flood::HeaderBomb => &mut self.header_bombs,
            Flood::Settings => &mut self.settings_floods,
            Flood::Ping => &mut self.ping_floods,
            Flood::Empty => &mut self.empty_frame_floods,
            Flood::Priority => &mut self.priority_floods,
            Flood::WindowUpdate => &mut self.window_update_floods,
            Flood::Unread => &mut self.unread_reply_floods,
        }
    }
}
