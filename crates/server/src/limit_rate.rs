//! `limit_rate` of one request: `$limit_rate`, which a configuration or another server may set.

use crate::exchange::Exchange;
use crate::template;
use sealane_conf::values;

/// What a request keeps for `limit_rate`.
#[derive(Default)]
pub(crate) struct LimitRateState {
    /// `X-Accel-Limit-Rate` or `set $limit_rate`: replaces the directive. Bytes per second.
    pub(crate) of_request: Option<u64>,
}

/// `$limit_rate` in bytes: what was set for this request, otherwise the location's value.
pub(crate) fn value(exchange: &Exchange) -> u64 {
    let of_location = || {
        let rate = exchange.conf().limit_rate.as_ref()?;
        values::size(&template::evaluate(rate, exchange))
    };
    let of_request = exchange.features.limit_rate.of_request;
    of_request.or_else(of_location).unwrap_or(0)
}
