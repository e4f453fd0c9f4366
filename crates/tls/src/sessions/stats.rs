//! Counts the outcomes of sessions and of early data.
//!
//! One [`SessionStats`] serves all servers and workers. It costs a few atomic additions per
//! handshake, which are negligible.

use sealane_counters::{Counter, Placed};
use std::fmt;
use zerocopy::{FromBytes, IntoBytes};

/// How a session was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resumed {
    /// By a ticket that contains it.
    Ticket,
    /// By session id (TLS 1.2 and below), from this process's cache.
    SessionId,
    /// By an opaque ticket (TLS 1.3), from this process's cache.
    OpaqueTicket,
    /// By either, from the store of all nodes.
    Store,
}

impl Resumed {
    /// Every kind.
    pub const ALL: [Self; 4] = [
        Self::Ticket,
        Self::SessionId,
        Self::OpaqueTicket,
        Self::Store,
    ];

    /// A word for logs and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ticket => "ticket",
            Self::SessionId => "id",
            Self::OpaqueTicket => "opaque",
            Self::Store => "store",
        }
    }
}

/// Why a session that was offered was not resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missed {
    /// It had expired.
    Expired,
    /// A foreign ticket, or one whose key is gone.
    UnknownKey,
    /// A ticket or a value in the store that was altered.
    Damaged,
    /// Nothing was kept under the id: it was evicted, or never existed.
    Evicted,
    /// It belongs to another server, or to other rules for client certificates.
    OtherContext,
    /// It is of another protocol or suite than this handshake.
    OtherParameters,
    /// The store did not answer in time.
    StoreTimeout,
    /// The store is down or overloaded.
    StoreError,
}

impl Missed {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::Expired,
        Self::UnknownKey,
        Self::Damaged,
        Self::Evicted,
        Self::OtherContext,
        Self::OtherParameters,
        Self::StoreTimeout,
        Self::StoreError,
    ];

    /// A word for logs and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::UnknownKey => "unknown_key",
            Self::Damaged => "damaged",
            Self::Evicted => "evicted",
            Self::OtherContext => "other_context",
            Self::OtherParameters => "other_parameters",
            Self::StoreTimeout => "store_timeout",
            Self::StoreError => "store_error",
        }
    }
}

/// The outcome of early data offered to a server that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EarlyVerdict {
    /// It was read.
    Accepted,
    /// The same flight was seen before.
    Replayed,
    /// The register has no room.
    RegisterFull,
    /// The ticket is older than the register.
    BeforeRegister,
    /// Too many flights with one ticket.
    TicketExhausted,
    /// The session was not found, had expired, or was another server's.
    NoSession,
    /// The hello does not come from the session's holder.
    BadBinder,
    /// The ticket's age does not fit.
    AgeSkew,
    /// Another application protocol than before.
    OtherProtocol,
    /// libssl refused for another reason (HelloRetryRequest, a ticket without early data).
    Unsuitable,
    /// The store did not answer in time.
    StoreTimeout,
    /// The store is down or overloaded.
    StoreError,
    /// The request was refused with 425: its method is not idempotent.
    MethodRefused,
}

impl EarlyVerdict {
    /// Every verdict.
    pub const ALL: [Self; 13] = [
        Self::Accepted,
        Self::Replayed,
        Self::RegisterFull,
        Self::BeforeRegister,
        Self::TicketExhausted,
        Self::NoSession,
        Self::BadBinder,
        Self::AgeSkew,
        Self::OtherProtocol,
        Self::Unsuitable,
        Self::StoreTimeout,
        Self::StoreError,
        Self::MethodRefused,
    ];

    /// A word for logs and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Replayed => "replayed",
            Self::RegisterFull => "register_full",
            Self::BeforeRegister => "before_register",
            Self::TicketExhausted => "ticket_exhausted",
            Self::NoSession => "no_session",
            Self::BadBinder => "bad_binder",
            Self::AgeSkew => "age_skew",
            Self::OtherProtocol => "other_protocol",
            Self::Unsuitable => "unsuitable",
            Self::StoreTimeout => "store_timeout",
            Self::StoreError => "store_error",
            Self::MethodRefused => "method_refused",
        }
    }
}

/// The counters. They only grow.
pub struct SessionStats(Placed<Counts>);

impl Default for SessionStats {
    /// The counters of the server.
    fn default() -> SessionStats {
        SessionStats(Placed::named("tls sessions"))
    }
}

#[derive(Default, FromBytes, IntoBytes)]
#[repr(C)]
struct Counts {
    full: Counter,
    resumed: [Counter; Resumed::ALL.len()],
    missed: [Counter; Missed::ALL.len()],
    early: [Counter; EarlyVerdict::ALL.len()],
}

impl SessionStats {
    /// Completed full handshakes.
    pub fn full(&self) -> u64 {
        self.0.full.get()
    }

    /// Handshakes completed by resuming in this way.
    pub fn resumed(&self, kind: Resumed) -> u64 {
        self.0.resumed[kind as usize].get()
    }

    /// Full handshakes of clients that offered a session, by the reason it was not resumed. Clients
    /// that offered none are in [`full`](Self::full) only.
    pub fn missed(&self, reason: Missed) -> u64 {
        self.0.missed[reason as usize].get()
    }

    /// Handshakes that offered early data to a server that takes it, by verdict
    /// (and, under `MethodRefused`, requests in early data answered with 425).
    pub fn early_data(&self, verdict: EarlyVerdict) -> u64 {
        self.0.early[verdict as usize].get()
    }

    pub(crate) fn count_full(&self) {
        self.0.full.add(1);
    }

    pub(crate) fn count_resumed(&self, kind: Resumed) {
        self.0.resumed[kind as usize].add(1);
    }

    pub(crate) fn count_missed(&self, reason: Missed) {
        self.0.missed[reason as usize].add(1);
    }

    /// Counts a verdict reached outside: a request in early data that was refused for its method.
    pub fn count_early_data(&self, verdict: EarlyVerdict) {
        self.0.early[verdict as usize].add(1);
    }
}

impl fmt::Debug for SessionStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SessionStats");
        shown.field("full", &self.full());
        for kind in Resumed::ALL {
            shown.field(kind.name(), &self.resumed(kind));
        }
        for reason in Missed::ALL {
            shown.field(reason.name(), &self.missed(reason));
        }
        for verdict in EarlyVerdict::ALL {
            shown.field(verdict.name(), &self.early_data(verdict));
        }
        shown.finish()
    }
}
