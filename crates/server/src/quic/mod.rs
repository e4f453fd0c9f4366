//! QUIC: `listen ... quic`.
//!
//! ```text
//!              socket of a thread
//!                     │ datagrams
//!                     v
//!  listening ──> routes ──> inbox of a connection ──> its task (`h3`)
//!      │           │
//!      │           ├──> another thread, if the id names it
//!      │           └──> another process (`lines`)
//!      └──> new connections, Retry, other versions, stateless resets
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `listening` | a listening socket of one thread: packets find their connections, new ones begin |
//! | `routes` | which connection of a thread a packet belongs to |
//! | `ids` | connection ids |
//! | `lines` | packets for other processes, before and after an upgrade |
//! | `qlog` | files with what connections do |
//! | `settings` | what the configuration means to connections |
//! | `shared` | what all threads of a process share |
//! | `tokens` | tokens by which clients show where they are |

mod ids;
mod lines;
mod listening;
mod qlog;
mod routes;
mod settings;
mod shared;
mod tokens;

pub(crate) use ids::ConnectionIds;
pub(crate) use lines::{LineReading, ProcessLine, receive as receive_from_line};
pub(crate) use listening::{
    Handshake, OpenConnection, QuicAcceptor, QuicControl, QuicSocket, thread_number,
};
pub(crate) use qlog::Recorder;
pub(crate) use routes::Routes;
pub(crate) use settings::{HQ_PROTOCOL, HostSecret, QuicRuntime, host_secret, tls_protocols};
pub(crate) use shared::QuicShared;
pub use shared::{MAX_TOKEN_SECRETS, QuicPlace, random_quic_secret, thread_of_quic_ids};

use sealane_quic::{Codepoint, Time};
use sealane_sys::socket::Ecn;
use std::time::Instant;

/// The clock of all connections of a process: it begins with the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuicClock(Instant);

impl QuicClock {
    pub(crate) fn new() -> QuicClock {
        QuicClock(Instant::now())
    }

    /// A moment as transports see it.
    pub(crate) fn time(self, at: Instant) -> Time {
        let since = at.saturating_duration_since(self.0);
        // Not 0: that stands for long ago.
        Time::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
            + std::time::Duration::from_secs(1)
    }

    /// The other way round.
    pub(crate) fn instant(self, time: Time) -> Instant {
        self.0 + time.since(Time::from_micros(1_000_000))
    }
}

/// The mark of a datagram, as the transport calls it.
pub(crate) fn mark(ecn: Ecn) -> Codepoint {
    match ecn {
        Ecn::NotEct => Codepoint::NotEct,
        Ecn::Ect0 => Codepoint::Ect0,
        Ecn::Ect1 => Codepoint::Ect1,
        Ecn::Ce => Codepoint::Ce,
    }
}

/// The same, as the socket calls it.
pub(crate) fn ecn(mark: Codepoint) -> Ecn {
    match mark {
        Codepoint::NotEct => Ecn::NotEct,
        Codepoint::Ect0 => Ecn::Ect0,
        Codepoint::Ect1 => Ecn::Ect1,
        Codepoint::Ce => Ecn::Ce,
    }
}
