//! `limit_conn`: limits the number of requests with the same key that are in progress.

use super::zone::{KeyPosition, NodeId, Zone};
use super::{LimitStatus, ZoneState, ZoneVerdict};
use crate::exchange::Exchange;
use crate::metrics::ZoneFill;
use crate::request_log::{Text, log, log_request};
use crate::template;
use sealane_conf::model::LimitConnections;
use sealane_http::StatusCode;
use std::fmt;
use std::sync::Arc;

/// Memory of a node in nginx besides its key: tree and number.
const NODE_BYTES: usize = 36;
/// nginx's limit.
const MAX_KEY_BYTES: usize = 255;

/// The state of a zone: how many requests are in progress for each key. A key is removed when there
/// are none.
pub(crate) struct ConnectionZone(Zone<u32>);

/// Counts a request as in progress until it is dropped.
pub(super) struct ConnectionPermit {
    zone: Arc<ConnectionZone>,
    position: KeyPosition,
    id: NodeId,
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPermit {
    /// The limit has been reached.
    Busy,
    /// The zone is full.
    NoNode,
}

impl ConnectionZone {
    /// An empty zone.
    pub(crate) fn new(bytes: u64) -> ConnectionZone {
        ConnectionZone(Zone::new(bytes, NODE_BYTES))
    }

    /// What it holds.
    pub(crate) fn fill(&self) -> ZoneFill {
        self.0.fill()
    }

    /// Takes a permit if fewer than `limit` are taken.
    ///
    /// # Errors
    /// See [`NoPermit`].
    pub(super) fn enter(
        self: &Arc<Self>,
        key: &[u8],
        limit: u32,
    ) -> Result<ConnectionPermit, NoPermit> {
        let position = self.0.position_of(key);
        let mut shard = self.0.lock(position);
        let id = match shard.find(key) {
            Some(id) => {
                let count = shard.state(id);
                if *count >= limit {
                    return Err(NoPermit::Busy);
                }
                *count += 1;
                id
            }
            None if !shard.has_room(key) => return Err(NoPermit::NoNode),
            None => shard.insert(key, 1),
        };
        drop(shard);
        Ok(ConnectionPermit {
            zone: Arc::clone(self),
            position,
            id,
        })
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.0.fill().keys as usize
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut shard = self.zone.0.lock(self.position);
        let count = shard.state(self.id);
        *count -= 1;
        if *count == 0 {
            shard.remove(self.id);
        }
    }
}

impl fmt::Debug for ConnectionPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held(..)")
    }
}

/// Takes a permit in all zones of a location; a status if one has none.
pub(super) fn check(exchange: &mut Exchange, limits: &LimitConnections) -> Option<StatusCode> {
    if exchange
        .features
        .limits
        .lock()
        .is_some_and(|limited| limited.connections.is_some())
    {
        return None;
    }
    let snapshot = exchange.snapshot.clone();
    for limit in &limits.limits {
        let runtime = &snapshot.limit_zones[limit.zone];
        let ZoneState::Connections(zone) = &runtime.state else {
            unreachable!("limit_conn uses zones of limit_conn_zone only");
        };
        let key = template::evaluate(&runtime.conf.key, exchange);
        if key.is_empty() {
            runtime.counts.add(ZoneVerdict::Skipped);
            continue;
        }
        if key.len() > MAX_KEY_BYTES {
            let (written, value) = (Text(&runtime.conf.key_text), Text(&key));
            log_request!(
                exchange,
                Error,
                "the value of the \"{written}\" key is more than 255 bytes: \"{value}\""
            );
            runtime.counts.add(ZoneVerdict::Skipped);
            continue;
        }
        let entered = zone.enter(&key, limit.connections);
        let mut limited = exchange.features.limits.lock_or_begin();
        limited.connections = Some(LimitStatus::Passed);
        let reason = match entered {
            Ok(held) => {
                limited.held.push(held);
                runtime.counts.add(ZoneVerdict::Passed);
                continue;
            }
            Err(reason) => reason,
        };
        limited.held.clear();
        limited.connections = Some(match limits.dry_run {
            true => LimitStatus::RejectedDryRun,
            false => LimitStatus::Rejected,
        });
        drop(limited);
        runtime.counts.add(match (reason, limits.dry_run) {
            (NoPermit::NoNode, _) => ZoneVerdict::Exhausted,
            (NoPermit::Busy, true) => ZoneVerdict::RejectedDryRun,
            (NoPermit::Busy, false) => ZoneVerdict::Rejected,
        });
        let name = &runtime.conf.name;
        let dry_run = if limits.dry_run { ", dry run," } else { "" };
        match reason {
            NoPermit::Busy => log(
                exchange,
                limits.log_level,
                format_args!("limiting connections{dry_run} by zone \"{name}\""),
            ),
            NoPermit::NoNode => log_request!(
                exchange,
                Crit,
                "could not allocate node in limit_conn_zone \"{name}\"; make the zone larger"
            ),
        }
        return (!limits.dry_run).then_some(StatusCode(limits.status));
    }
    None
}
