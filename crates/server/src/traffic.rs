//! `vhost_traffic_status`: requests are counted and shown as nginx-module-vts does it.
//!
//! What is counted at the end of a request is kept by name: of its server, or of the host that the
//! client has named, and of each filter. Upstream servers and caches are shown from what is counted
//! of them in any case.
//!
//! | file | what it holds |
//! |---|---|
//! | `zone.rs` | the memory for names, and what is counted of each |
//! | `figures.rs` | all that is shown, read at one time |
//! | `json.rs`, `prometheus.rs` | its formats |
//! | `show.rs` | which of them a request gets |

mod figures;
mod json;
mod prometheus;
mod show;
mod zone;

pub(crate) use show::{TrafficAnswer, answer};
pub(crate) use zone::TrafficZoneRuntime;

use crate::exchange::Exchange;
use crate::request_log::log_request;
use crate::template;
use sealane_conf::model::Traffic;
use std::sync::Arc;
use zone::{Name, RequestFigures};

/// The name of a server that has none, as in the module.
const NAMELESS: &[u8] = b"_";

/// Counts a request, which has ended.
pub(crate) fn count(exchange: &Exchange) {
    let Some(zone) = &exchange.snapshot.traffic else {
        return;
    };
    let Some(conf) = exchange.conf().traffic.clone() else {
        return;
    };
    let figures = figures_of(exchange);
    if conf.ignored_classes[usize::from(figures.class())] {
        return;
    }
    let bounds = &conf.bucket_bounds_ms;
    let mut is_full = false;
    let mut add = |name: Name| is_full |= !zone.count(&name, &figures, bounds);
    let (name, is_static) = server(exchange, &conf);
    add(Name::server(name, is_static));
    for filter in &conf.filters {
        let key = template::evaluate(&filter.key, exchange);
        if key.is_empty() {
            continue;
        }
        let group = template::evaluate(&filter.group, exchange);
        add(match group.is_empty() {
            true => Name::server(&key, false),
            false => Name::filter(&group, &key),
        });
    }
    if is_full && zone.may_complain() {
        log_request!(
            exchange,
            Warn,
            "requests are not counted in zone \"{}\": it has no room for another name; enlarge it \
             with \"vhost_traffic_status_zone\", or limit the names with \
             \"vhost_traffic_status_filter_max_node\"",
            zone.conf.name
        );
    }
}

/// The name for the server of a request, and whether it is from the configuration.
fn server<'e>(exchange: &'e Exchange, conf: &Arc<Traffic>) -> (&'e [u8], bool) {
    let host: &[u8] = &exchange.request.host;
    if conf.by_host && !host.is_empty() {
        return (host, false);
    }
    match exchange.server().conf.primary_name.as_bytes() {
        b"" => (NAMELESS, true),
        name => (name, true),
    }
}

fn figures_of(exchange: &Exchange) -> RequestFigures {
    let transfer = &exchange.transfer;
    let cache = exchange.upstream.as_deref();
    let cache = cache.and_then(|states| states.cache.as_deref());
    RequestFigures {
        received: transfer.request_bytes,
        sent: transfer.sent_bytes,
        status: exchange.response.status.0,
        cache: cache.map(|cache| cache.status as usize),
        took_ms: u32::try_from(transfer.started.elapsed().as_millis()).unwrap_or(u32::MAX),
    }
}
