//! What one worker thread counts.
//!
//! A scrape sums over the threads. The counters of a thread are on cache lines of its own. They
//! belong to its number, not to its process: a thread of the next process goes on with them, and
//! two processes may add to them at the same time.

use sealane_counters::{Counter, Placed};
use sealane_tls::KTLS_REFUSALS;
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, Ordering};
use zerocopy::{FromBytes, IntoBytes};

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

/// What one worker thread counts, and what it has at the moment, as `stub_status` names it.
#[derive(Default)]
#[repr(align(128))] // its own cache lines: threads must not share one
pub struct Counters {
    counts: Placed<Counts>,
    /// Open connections.
    pub active: Level,
    /// Connections whose request head is being read.
    pub reading: Level,
    /// Connections whose response is being prepared or sent.
    pub writing: Level,
    /// Idle keep-alive connections.
    pub waiting: Level,
}

/// What one worker thread counts.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct Counts {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections handled (not dropped for lack of a slot).
    pub handled: Counter,
    /// Requests.
    pub requests: Counter,
    /// TLS handshakes completed.
    pub handshakes: Counter,
    /// Of those, resumed.
    pub handshakes_resumed: Counter,
    /// TLS handshakes failed.
    pub handshakes_failed: Counter,
    /// Closed TLS connections whose records the kernel sealed at the end.
    pub ktls_on: Counter,
    /// Closed TLS connections without kernel TLS, by reason: in the order of
    /// [`KTLS_REFUSALS`], those whose responses were too small for it at the end.
    pub ktls_off: [Counter; KTLS_REFUSALS.len() + 1],
    /// HTTP/2: streams, and what went wrong with them.
    pub http2: Http2Counters,
    /// HTTP/3: the same.
    pub http3: Http2Counters,
    /// Panics caught.
    pub panics: Counter,
    /// Datagrams of clients that were dropped because a limit was reached (`listen ... udp`).
    pub datagrams_dropped: Counter,
    /// Connections to other servers whose records the kernel has begun to seal (`proxy_ssl_ktls`).
    pub upstream_ktls: Counter,
}

impl Counts {
    /// Counts a connection at its end by `$ssl_ktls` and `$ssl_ktls_reason`; one without TLS is
    /// none.
    pub(crate) fn count_ktls(&self, ktls: &str, reason: &str) {
        match ktls {
            "" => {}
            "on" => self.ktls_on.add(1),
            _ => {
                let known = KTLS_REFUSALS.iter().position(|known| *known == reason);
                self.ktls_off[known.unwrap_or(KTLS_REFUSALS.len())].add(1);
            }
        }
    }
}

impl Counters {
    /// Those of the worker thread with this number.
    pub fn of_thread(index: usize) -> Counters {
        Counters {
            counts: counts_of_thread(index),
            ..Counters::default()
        }
    }
}

/// What the worker threads with this number have counted, in whichever process.
pub(crate) fn counts_of_thread(index: usize) -> Placed<Counts> {
    Placed::named(&format!("thread {index}"))
}

/// Notes that there are this many worker threads, and returns how many there have ever been: the
/// counters of those that are gone still count.
pub(crate) fn thread_columns(threads: usize) -> usize {
    let known = Placed::<Counter>::named("threads");
    let columns = usize::try_from(known.get()).unwrap_or(threads).max(threads);
    known.set(columns as u64);
    columns
}

impl Deref for Counters {
    type Target = Counts;

    #[inline]
    fn deref(&self) -> &Counts {
        &self.counts
    }
}

macro_rules! http2_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What HTTP/2 connections counted, by the names of
        /// [`sealane_http::h2::Counters`].
        #[derive(Debug, Default, FromBytes, IntoBytes)]
        #[repr(C)]
        pub struct Http2Counters {
            $($(#[$doc])* pub $name: Counter,)*
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
