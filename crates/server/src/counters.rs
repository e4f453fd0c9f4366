//! Counters of one worker thread.
//!
//! Only the owning thread writes them, with a plain load and store instead of a locked
//! instruction. A scrape sums over the threads.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only its owner changes and others may read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the count. Only the owning thread may call this.
    pub fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A level that only its owner changes and others may read.
#[derive(Debug, Default)]
pub struct Level(AtomicI64);

impl Level {
    /// Raises or lowers the level. Only the owning thread may call this.
    pub fn add(&self, n: i64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// The level.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one worker thread, as `stub_status` names them.
#[derive(Debug, Default)]
#[repr(align(128))] // its own cache lines: threads must not share one
pub struct Counters {
    /// Connections accepted.
    pub accepted: Count,
    /// Connections handled (not dropped for lack of a slot).
    pub handled: Count,
    /// Requests.
    pub requests: Count,
    /// Open connections.
    pub active: Level,
    /// Connections whose request head is being read.
    pub reading: Level,
    /// Connections whose response is being prepared or sent.
    pub writing: Level,
    /// Idle keep-alive connections.
    pub waiting: Level,
    /// TLS handshakes completed.
    pub handshakes: Count,
    /// Of those, resumed.
    pub handshakes_resumed: Count,
    /// TLS handshakes failed.
    pub handshakes_failed: Count,
    /// Closed TLS connections whose records the kernel sealed at the end.
    pub ktls_on: Count,
    /// Closed TLS connections without kernel TLS.
    pub ktls_off: Count,
    /// HTTP/2: streams, and what went wrong with them.
    pub http2: Http2Counters,
    /// Panics caught.
    pub panics: Count,
}

macro_rules! http2_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What HTTP/2 connections counted, by the names of
        /// [`sealane_http::h2::Counters`].
        #[derive(Debug, Default)]
        pub struct Http2Counters {
            $($(#[$doc])* pub $name: Count,)*
        }

        impl Http2Counters {
            /// Adds what one connection counted.
            pub(crate) fn add(&self, counted: &sealane_http::h2::Counters) {
                $(self.$name.add(counted.$name);)*
            }

            /// All of them, with their names.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.get())),*].into_iter()
            }
        }
    };
}

http2_counters! {
    /// Streams opened by clients.
    streams_opened,
    /// Streams refused because too many were open or the connection was ending.
    streams_refused,
    /// Streams that clients reset before they had ended.
    resets_received,
    /// Streams reset because of what clients sent on them.
    stream_faults,
    /// Requests with malformed heads or trailers, a part of `stream_faults`.
    malformed_heads,
    /// Requests refused for the size or number of their header fields.
    heads_too_large,
    /// Connections ended for a violation of the protocol other than a flood.
    connection_faults,
    /// Connections ended for rapid resets.
    rapid_reset_floods,
    /// Connections ended for header blocks in too many pieces.
    continuation_floods,
    /// Connections ended for header blocks that expand too far.
    header_bombs,
    /// Connections ended for SETTINGS.
    settings_floods,
    /// Connections ended for PING.
    ping_floods,
    /// Connections ended for frames without effect.
    empty_frame_floods,
    /// Connections ended for PRIORITY and PRIORITY_UPDATE.
    priority_floods,
    /// Connections ended for WINDOW_UPDATE.
    window_update_floods,
    /// Connections ended because the client did not read its responses.
    unread_reply_floods,
}
