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
    /// QUIC, below HTTP/3.
    pub quic: QuicCounters,
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

/// What congestion control connections of QUIC have, as a label.
pub(crate) const CONGESTION_CONTROLS: [&str; 3] = ["cubic", "bbr", "newreno"];

/// Why a datagram of QUIC was dropped before it reached a connection, as a label.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QuicDrop {
    /// Its connection does not keep up.
    InboxFull,
    /// The thread of its connection does not.
    ThreadFull,
    /// It belongs to no connection and begins none.
    Unknown,
    /// It would begin one, but its first packet cannot be opened.
    NotAuthentic,
}

impl QuicDrop {
    /// The labels, in the order of the variants.
    pub(crate) const NAMES: [&str; 4] = ["inbox_full", "thread_full", "unknown", "not_authentic"];
}

/// What QUIC has done below HTTP/3.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct QuicCounters {
    /// Connections begun, in the order of [`CONGESTION_CONTROLS`].
    pub(crate) connections: [Counter; CONGESTION_CONTROLS.len()],
    /// Handshakes completed.
    pub(crate) handshakes: Counter,
    /// Connections that ended before their handshake was complete.
    pub(crate) handshakes_failed: Counter,
    /// Connections refused: too many, or the server shuts down.
    pub(crate) connections_refused: Counter,
    /// Retry packets sent.
    pub(crate) retries_sent: Counter,
    /// Clients refused because the token of a Retry packet was not right.
    pub(crate) tokens_refused: Counter,
    /// Version Negotiation packets sent.
    pub(crate) version_negotiations_sent: Counter,
    /// Stateless resets sent.
    pub(crate) resets_sent: Counter,
    /// Answers of these kinds that were not sent: there were too many in a second.
    pub(crate) answers_withheld: Counter,
    /// Datagrams dropped, by [`QuicDrop`].
    pub(crate) datagrams_dropped: [Counter; QuicDrop::NAMES.len()],
    /// Datagrams that connections have received.
    pub(crate) datagrams_received: Counter,
    /// Datagrams that connections have sent.
    pub(crate) datagrams_sent: Counter,
    /// Bytes in those received.
    pub(crate) bytes_received: Counter,
    /// Bytes in those sent.
    pub(crate) bytes_sent: Counter,
    /// Packets that could not be opened.
    pub(crate) packets_dropped: Counter,
    /// Frames sent again because their packets were lost.
    pub(crate) frames_lost: Counter,
    /// Times at which clients had moved to another address.
    pub(crate) migrations: Counter,
    /// Key updates of either end.
    pub(crate) key_updates: Counter,
}

impl QuicCounters {
    /// Adds what one connection counted.
    pub(crate) fn add(&self, counted: &sealane_quic::Counters) {
        self.datagrams_received.add(counted.datagrams_received);
        self.datagrams_sent.add(counted.datagrams_sent);
        self.bytes_received.add(counted.bytes_received);
        self.bytes_sent.add(counted.bytes_sent);
        self.packets_dropped.add(counted.packets_dropped);
        self.frames_lost.add(counted.frames_lost);
        self.migrations.add(counted.migrations);
        self.key_updates.add(counted.key_updates);
    }

    /// Counts a datagram that reached no connection.
    pub(crate) fn count_dropped(&self, why: QuicDrop) {
        self.datagrams_dropped[why as usize].add(1);
    }

    /// Counts a connection that begins.
    pub(crate) fn count_connection(&self, algorithm: sealane_quic::Algorithm) {
        let name = match algorithm {
            sealane_quic::Algorithm::Cubic => 0,
            sealane_quic::Algorithm::Bbr => 1,
            sealane_quic::Algorithm::NewReno => 2,
        };
        self.connections[name].add(1);
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
