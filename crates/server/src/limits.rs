//! `limit_req` and `limit_conn`: NGX_HTTP_PREACCESS_PHASE.
//!
//! A request is limited once, whatever redirects and subrequests follow.

mod connections;
mod requests;
pub(crate) mod zone;

pub(crate) use connections::ConnectionZone;
pub(crate) use requests::RequestZone;

use crate::access;
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::snapshot::Snapshot;
use connections::ConnectionPermit;
use requests::LimitVerdict;
use sealane_conf::model::{LimitKind, LimitZone, Limits};
use sealane_counters::{Counter, Placed};
use sealane_http::StatusCode;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::{FromBytes, IntoBytes};

/// A zone at run time.
pub(crate) struct LimitZoneRuntime {
    /// Its configuration.
    pub(crate) conf: LimitZone,
    /// Its state.
    pub(crate) state: ZoneState,
    /// What became of requests.
    pub(crate) counts: Arc<Placed<LimitCounts>>,
}

/// What becomes of a request in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneVerdict {
    Passed,
    /// It has no key.
    Skipped,
    Delayed,
    Rejected,
    /// It is rejected because the zone has no room for its key.
    Exhausted,
    DelayedDryRun,
    RejectedDryRun,
}

impl ZoneVerdict {
    /// All of them.
    pub(crate) const ALL: [ZoneVerdict; 7] = [
        ZoneVerdict::Passed,
        ZoneVerdict::Skipped,
        ZoneVerdict::Delayed,
        ZoneVerdict::Rejected,
        ZoneVerdict::Exhausted,
        ZoneVerdict::DelayedDryRun,
        ZoneVerdict::RejectedDryRun,
    ];

    /// A word for labels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ZoneVerdict::Passed => "passed",
            ZoneVerdict::Skipped => "skipped",
            ZoneVerdict::Delayed => "delayed",
            ZoneVerdict::Rejected => "rejected",
            ZoneVerdict::Exhausted => "exhausted",
            ZoneVerdict::DelayedDryRun => "delayed_dry_run",
            ZoneVerdict::RejectedDryRun => "rejected_dry_run",
        }
    }
}

/// How often there was each [`ZoneVerdict`].
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(transparent)]
pub(crate) struct LimitCounts([Counter; ZoneVerdict::ALL.len()]);

impl LimitCounts {
    pub(crate) fn add(&self, verdict: ZoneVerdict) {
        self.0[verdict as usize].add(1);
    }

    pub(crate) fn get(&self, verdict: ZoneVerdict) -> u64 {
        self.0[verdict as usize].get()
    }
}

/// The state of a zone; snapshots with the same zone share it.
#[derive(Clone)]
pub(crate) enum ZoneState {
    Requests(Arc<RequestZone>),
    Connections(Arc<ConnectionZone>),
}

impl LimitZoneRuntime {
    /// A zone of the configuration. It takes over the state of the previous snapshot's zone if
    /// name, size, key and purpose are the same.
    pub(crate) fn build(conf: &LimitZone, before: Option<&Snapshot>) -> LimitZoneRuntime {
        let is_same = |known: &&LimitZoneRuntime| {
            let (known, new) = (&known.conf, conf);
            known.name == new.name
                && known.bytes == new.bytes
                && known.key_text == new.key_text
                && std::mem::discriminant(&known.kind) == std::mem::discriminant(&new.kind)
        };
        let known = before.and_then(|before| before.limit_zones.iter().find(is_same));
        let state = match (known, &conf.kind) {
            (Some(known), _) => known.state.clone(),
            (None, LimitKind::Requests { .. }) => {
                ZoneState::Requests(Arc::new(RequestZone::new(conf.bytes)))
            }
            (None, LimitKind::Connections) => {
                ZoneState::Connections(Arc::new(ConnectionZone::new(conf.bytes)))
            }
        };
        let kind = match conf.kind {
            LimitKind::Requests { .. } => "requests",
            LimitKind::Connections => "connections",
        };
        let counts = known.map(|known| Arc::clone(&known.counts));
        LimitZoneRuntime {
            conf: conf.clone(),
            state,
            counts: counts
                .unwrap_or_else(|| Arc::new(Placed::named(&format!("limit {kind} {}", conf.name)))),
        }
    }
}

/// What a request keeps for `limit_req` and `limit_conn`.
#[derive(Default)]
pub(crate) struct LimitsState {
    /// The outcomes; `None` before the first. A request shares them with the subrequests whose
    /// responses become part of its own.
    limited: Option<Arc<Mutex<LimitOutcomes>>>,
}

impl LimitsState {
    /// For a subrequest that counts as one request with this one.
    pub(crate) fn shared(&self) -> LimitsState {
        LimitsState {
            limited: self.limited.clone(),
        }
    }

    /// For an independent subrequest.
    pub(crate) fn without_permits(&self) -> LimitsState {
        let limited = self.lock().map(|limited| limited.without_permits());
        LimitsState {
            limited: limited.map(|limited| Arc::new(Mutex::new(limited))),
        }
    }

    /// Creates the state that later subrequests share.
    pub(crate) fn begin_to_share(&mut self) {
        self.limited.get_or_insert_default();
    }

    /// The permits, for what outlives the request.
    pub(crate) fn take_permits(&mut self) -> Option<Permits> {
        let held = std::mem::take(&mut self.lock()?.held);
        (!held.is_empty()).then_some(Permits(held))
    }

    /// The outcomes so far.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, LimitOutcomes>> {
        let limited = self.limited.as_ref()?;
        Some(limited.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, to be changed.
    fn lock_or_begin(&mut self) -> MutexGuard<'_, LimitOutcomes> {
        let limited = self.limited.get_or_insert_default();
        limited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permits of `limit_conn`, which count until they are dropped.
#[derive(Default)]
pub(crate) struct Permits(SmallVec<[ConnectionPermit; 2]>);

impl Permits {
    /// Takes others over.
    pub(crate) fn extend(&mut self, others: Permits) {
        self.0.extend(others.0);
    }
}

/// The outcomes of the limits for a request.
#[derive(Debug, Default)]
pub(crate) struct LimitOutcomes {
    /// Of `limit_req`.
    pub(crate) requests: Option<LimitStatus>,
    /// Of `limit_conn`.
    pub(crate) connections: Option<LimitStatus>,
    /// Permits of `limit_conn`; the request is counted until they are dropped.
    held: SmallVec<[ConnectionPermit; 2]>,
}

impl LimitOutcomes {
    /// The same for an independent request, without the permits.
    pub(crate) fn without_permits(&self) -> LimitOutcomes {
        LimitOutcomes {
            requests: self.requests,
            connections: self.connections,
            held: SmallVec::new(),
        }
    }
}

/// `$limit_req_status` and `$limit_conn_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitStatus {
    Passed,
    Delayed,
    Rejected,
    DelayedDryRun,
    RejectedDryRun,
}

impl LimitStatus {
    /// As the variable has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LimitStatus::Passed => "PASSED",
            LimitStatus::Delayed => "DELAYED",
            LimitStatus::Rejected => "REJECTED",
            LimitStatus::DelayedDryRun => "DELAYED_DRY_RUN",
            LimitStatus::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

/// Whether the request may go on, perhaps after a delay: [`Outcome::Declined`] if so.
pub(crate) async fn check(exchange: &mut Exchange, limits: Arc<Limits>) -> Outcome {
    if let Some(requests) = &limits.requests {
        match requests::check(exchange, requests) {
            LimitVerdict::Passed => {}
            LimitVerdict::Delayed(delay) => {
                if !access::wait(exchange, delay).await {
                    return Outcome::Status(StatusCode::CLIENT_CLOSED_REQUEST);
                }
            }
            LimitVerdict::Refused(status) => return Outcome::Status(status),
            LimitVerdict::Elsewhere(outcome) => return outcome,
        }
    }
    if let Some(connections) = &limits.connections
        && let Some(status) = connections::check(exchange, connections)
    {
        return Outcome::Status(status);
    }
    Outcome::Declined
}

#[cfg(test)]
mod tests;
