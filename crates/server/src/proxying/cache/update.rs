//! `cache_background_update`: a stale response is served, and updated meanwhile.

use super::fill::Fill;
use super::stored::StoredResponse;
use super::{CacheState, CacheStatus};
use crate::exchange::Exchange;
use crate::subrequest;
use sealane_cache::Visit;

/// What a background update begins with.
#[derive(Default)]
pub(crate) struct UpdateState(Option<Box<CacheState>>);

/// The state of the request if it is a background update.
pub(super) fn take_state(exchange: &mut Exchange) -> Option<Box<CacheState>> {
    exchange.features.cache_update.0.take()
}

/// Begins to update a response; the visit is the right to do it.
pub(super) fn begin(exchange: &mut Exchange, visit: Visit<Fill>, stale: Box<StoredResponse>) {
    let Some(state) = super::state(exchange) else {
        return;
    };
    let state = CacheState {
        status: CacheStatus::Expired,
        zone: state.zone.clone(),
        path: state.path.clone(),
        key: state.key.clone(),
        hash: state.hash,
        generation: visit.generation(),
        is_cacheable: true,
        visit: Some(visit),
        stale: Some(stale),
        allows_stale: state.allows_stale,
        date_s: None,
        lookup: state.lookup.of_update(),
    };
    let Some(mut asked) = subrequest::copy_in_background(exchange) else {
        return;
    };
    asked.features.cache_update = UpdateState(Some(Box::new(state)));
    subrequest::run_in_background(exchange, asked);
}
