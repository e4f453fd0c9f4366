//! `req_status`: requests are counted by a value of theirs, and shown as Tengine shows them.
//!
//! Which zones a request is counted in is decided where it comes to its first location, and it is
//! counted once, at its end. A zone is bounded like those of `limit_req`: clients can fill it with
//! new values, but not displace those that are met often.

mod show;
mod zone;

pub(crate) use show::answer;
pub(crate) use zone::ReqStatusZoneRuntime;

use crate::exchange::Exchange;
use crate::request_log::log_request;
use crate::template;
use sealane_conf::model::ReqStatus;
use sealane_sys::time::monotonic_coarse_ms;
use smallvec::SmallVec;
use std::sync::Arc;
use zone::Counted;

/// What a request keeps for its end.
#[derive(Default)]
pub(crate) struct ReqStatusState {
    begun: Option<Box<Begun>>,
}

struct Begun {
    /// `None` if it is not counted.
    conf: Option<Arc<ReqStatus>>,
    /// The value for each zone, unless they are evaluated later.
    keys: SmallVec<[Vec<u8>; 1]>,
}

/// The request has come to a location, the first one or another.
pub(crate) fn begin(exchange: &mut Exchange) {
    if exchange.features.req_status.begun.is_none() && !exchange.request.is_subrequest {
        exchange.features.req_status.begun = Some(Box::new(begun(exchange)));
    }
}

fn begun(exchange: &Exchange) -> Begun {
    let conf = exchange.conf().req_status.clone();
    let is_bypassed = |conf: &Arc<ReqStatus>| {
        let mut values = conf.bypass.iter();
        values.any(|value| template::is_true(value, exchange))
    };
    let conf = conf.filter(|conf| !is_bypassed(conf));
    let zones = conf.iter().filter(|conf| !conf.lazy);
    let zones = zones.flat_map(|conf| conf.zones.iter());
    let keys = zones.map(|zone| key(exchange, *zone)).collect();
    Begun { conf, keys }
}

/// The value of a zone, at its length.
fn key(exchange: &Exchange, zone: usize) -> Vec<u8> {
    let conf = &exchange.snapshot.req_status_zones[zone].conf;
    let mut key = template::evaluate(&conf.key, exchange).into_owned();
    key.truncate(conf.key_length);
    key
}

/// Counts a request, which has ended.
pub(crate) fn count(exchange: &Exchange) {
    if exchange.snapshot.req_status_zones.is_empty() {
        return;
    }
    // One that ended before it came to a location is counted where it is now.
    let late;
    let begun = match &exchange.features.req_status.begun {
        Some(begun) => begun,
        None => {
            late = begun(exchange);
            &late
        }
    };
    let Some(conf) = &begun.conf else { return };
    let tally = Counted::of(exchange);
    for (at, zone) in conf.zones.iter().enumerate() {
        let late;
        let key = match begun.keys.get(at) {
            Some(key) => key,
            None => {
                late = key(exchange, *zone);
                &late
            }
        };
        let zone = &exchange.snapshot.req_status_zones[*zone];
        let extra = zone.indications(exchange);
        if !zone.count(key, &tally, &extra, monotonic_coarse_ms()) {
            let name = &zone.conf.name;
            log_request!(
                exchange,
                Warn,
                "failed to alloc node in zone \"{name}\", enlarge it please"
            );
        }
    }
}

#[cfg(test)]
mod tests;
