//! What is counted of requests, by server, location, upstream server and cache.
//!
//! Everything about a request is counted once, at its end, from what its access log shows: so both
//! agree. Zones and their names come from the configuration.
//!
//! | file | what it holds |
//! |---|---|
//! | `zones.rs` | zones of servers and locations (`status_zone`) |

mod zones;

pub(crate) use self::zones::{ActiveRequest, StatusZone, ZoneSums, Zones};

use crate::exchange::Exchange;
use crate::proxying;

/// What a request keeps for its zone.
#[derive(Default)]
pub(crate) struct StatusState {
    /// The zone of its server, in which it is active.
    pub(crate) active: Option<ActiveRequest>,
}

/// The server of a request is known: it is active there.
pub(crate) fn begin(exchange: &mut Exchange) {
    let Some(zone) = &exchange.server().zone else {
        exchange.features.status.active = None;
        return;
    };
    let active = zone.begin(exchange.worker.index);
    if exchange.connection.requests() == 1 {
        active.counts().connections.add(1);
    }
    exchange.features.status.active = Some(active);
}

/// Counts a request, which has ended.
pub(crate) fn count(exchange: &Exchange) {
    let thread = exchange.worker.index;
    if let Some(zone) = &exchange.server().zone {
        zone.count(thread, exchange);
    }
    if let Some(zone) = &exchange.snapshot.location(exchange.location).zone {
        zone.count(thread, exchange);
    }
    count_upstream(exchange);
}

/// Counts what peers and caches have done for a request or subrequest, which has ended.
pub(crate) fn count_upstream(exchange: &Exchange) {
    if let Some(states) = exchange.upstream.as_deref() {
        proxying::count(exchange, states);
    }
}
