//! `limit_req` and `limit_conn`: NGX_HTTP_PREACCESS_PHASE.
//!
//! A request is limited once, whatever redirects and subrequests it goes through.

mod connections;
mod requests;
mod zone;

pub(crate) use connections::ConnectionZone;
pub(crate) use requests::RequestZone;

use crate::access;
use crate::exchange::Exchange;
use crate::handlers::Step;
use crate::snapshot::Snapshot;
use connections::Held;
use requests::Verdict;
use sealane_conf::model::{LimitKind, LimitZone, Limits};
use sealane_http::StatusCode;
use smallvec::SmallVec;
use std::sync::Arc;

/// A zone at run time.
pub(crate) struct LimitZoneRuntime {
    /// What the configuration says about it.
    pub(crate) conf: LimitZone,
    /// What it remembers.
    pub(crate) state: ZoneState,
}

/// What a zone remembers; snapshots with the same zone share it.
#[derive(Clone)]
pub(crate) enum ZoneState {
    Requests(Arc<RequestZone>),
    Connections(Arc<ConnectionZone>),
}

impl LimitZoneRuntime {
    /// A zone of the configuration, with what the zone of the snapshot before remembers if
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
        let state = match (known, conf.kind) {
            (Some(known), _) => known.state.clone(),
            (None, LimitKind::Requests { .. }) => {
                ZoneState::Requests(Arc::new(RequestZone::new(conf.bytes)))
            }
            (None, LimitKind::Connections) => {
                ZoneState::Connections(Arc::new(ConnectionZone::new(conf.bytes)))
            }
        };
        LimitZoneRuntime {
            conf: conf.clone(),
            state,
        }
    }
}

/// What limits have come to for a request.
#[derive(Debug, Default)]
pub struct Limited {
    /// Of `limit_req`.
    pub(crate) requests: Option<LimitStatus>,
    /// Of `limit_conn`.
    pub(crate) connections: Option<LimitStatus>,
    /// Places that it takes among the requests under way.
    held: SmallVec<[Held; 2]>,
}

impl Limited {
    /// The same for a request that goes its own way and takes no places.
    pub(crate) fn without_places(&self) -> Limited {
        Limited {
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

/// Whether the request may go on, maybe after a while: [`Step::Declined`] if so.
pub(crate) async fn check(exchange: &mut Exchange, limits: Arc<Limits>) -> Step {
    if let Some(requests) = &limits.requests {
        match requests::check(exchange, requests) {
            Verdict::Passed => {}
            Verdict::Delayed(delay) => {
                if !access::wait(exchange, delay).await {
                    return Step::Status(StatusCode::CLIENT_CLOSED_REQUEST);
                }
            }
            Verdict::Refused(status) => return Step::Status(status),
        }
    }
    if let Some(connections) = &limits.connections
        && let Some(status) = connections::check(exchange, connections)
    {
        return Step::Status(status);
    }
    Step::Declined
}

#[cfg(test)]
mod tests;
