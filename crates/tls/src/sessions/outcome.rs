//! The outcome of a client's session and of its early data, on one connection.

use sealane_awslc as awslc;
use sealane_awslc::{EarlyDataOutcome, Miss, Offered};

use super::early_data::verdict_of;
use super::lookup::{Prepared, Resumption};
use super::stats::{EarlyVerdict, Missed, Resumed};

/// The outcome so far; final once the handshake is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionOutcome {
    from_store: bool,
    store_failure: Option<Missed>,
    /// libssl has decided about early data, and our tickets may allow it again.
    early_decided: bool,
    /// Early data was offered and allowed.
    early_allowed: bool,
    /// The handshake's end was counted.
    counted: bool,
    resumed: Option<Resumed>,
    missed: Option<Missed>,
    verdict: Option<EarlyVerdict>,
}

impl SessionOutcome {
    /// How the session was resumed.
    pub(crate) fn resumed(&self) -> Option<Resumed> {
        self.resumed
    }

    /// Why the session that the client offered was not resumed.
    pub(crate) fn missed(&self) -> Option<Missed> {
        self.missed
    }

    /// The outcome of early data, if it was offered.
    pub(crate) fn early_verdict(&self) -> Option<EarlyVerdict> {
        self.verdict
    }

    /// The outcome of a handshake that another process has finished and counted.
    pub(crate) fn finished(
        resumed: Option<Resumed>,
        missed: Option<Missed>,
        verdict: Option<EarlyVerdict>,
    ) -> Self {
        Self {
            early_decided: true,
            counted: true,
            resumed,
            missed,
            verdict,
            ..Self::default()
        }
    }

    /// Starts a connection with what was prepared for it.
    pub(crate) fn begin(
        tls: &mut awslc::Connection,
        resumption: &Resumption,
        prepared: Prepared,
    ) -> Self {
        let mut outcome = Self {
            from_store: prepared.from_store,
            store_failure: prepared.store_failure,
            early_allowed: prepared.early_data,
            ..Self::default()
        };
        if let Some(prefetched) = prepared.prefetched {
            tls.set_prefetched(prefetched);
        }
        if prepared.without_tickets {
            tls.disable_tickets();
        }
        if let Some(verdict) = prepared.refused {
            outcome.verdict = Some(verdict);
            resumption.stats.count_early_data(verdict);
        }
        if prepared.early_data {
            tls.set_early_data_enabled(true);
        }
        outcome
    }

    /// Records the progress after a call of the handshake.
    pub(crate) fn follow(
        &mut self,
        tls: &mut awslc::Connection,
        resumption: &Resumption,
        is_done: bool,
    ) {
        if resumption.early.is_some() && !self.early_decided {
            self.follow_early_data(tls, resumption);
        }
        if is_done && !self.counted {
            self.counted = true;
            self.count(tls, resumption);
        }
    }

    /// Once libssl has read the hello, tickets that it writes may allow early
    /// data, whether this connection's was taken or not.
    fn follow_early_data(&mut self, tls: &mut awslc::Connection, resumption: &Resumption) {
        let decided = tls.early_data_outcome();
        if decided == EarlyDataOutcome::Undecided {
            return;
        }
        self.early_decided = true;
        if !tls.is_quic() {
            // Over QUIC it was enabled from the start, or these tickets must not allow it.
            tls.set_early_data_enabled(true);
        }
        // What was refused earlier already has its verdict.
        if self.early_allowed {
            self.verdict = verdict_of(decided);
            if let Some(verdict) = self.verdict {
                resumption.stats.count_early_data(verdict);
            }
        }
    }

    fn count(&mut self, tls: &awslc::Connection, resumption: &Resumption) {
        let stats = &resumption.stats;
        let offered = tls.offered_session();
        if tls.is_session_reused() {
            let kind = match offered {
                _ if self.from_store => Resumed::Store,
                Offered::SessionId => Resumed::SessionId,
                _ if resumption.is_opaque() => Resumed::OpaqueTicket,
                _ => Resumed::Ticket,
            };
            self.resumed = Some(kind);
            stats.count_resumed(kind);
            return;
        }
        stats.count_full();
        self.missed = match offered {
            Offered::Nothing => None,
            Offered::Ticket | Offered::SessionId => Some(Missed::OtherParameters),
            Offered::Missed(Miss::NotFound) => Some(self.store_failure.unwrap_or(Missed::Evicted)),
            Offered::Missed(Miss::UnknownKey) => Some(Missed::UnknownKey),
            Offered::Missed(Miss::Damaged) => Some(Missed::Damaged),
            Offered::Missed(Miss::Expired) => Some(Missed::Expired),
            Offered::Missed(Miss::OtherContext) => Some(Missed::OtherContext),
        };
        if let Some(reason) = self.missed {
            stats.count_missed(reason);
        }
    }
}
