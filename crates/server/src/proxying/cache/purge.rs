//! `cache_purge`: removes a response.

use super::fill::Fill;
use super::look::any;
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::request_log::{Text, log_request};
use sealane_cache::{CacheKey, Purged, Zone};
use sealane_conf::model::CacheSettings;
use sealane_http::StatusCode;
use sealane_io::disk;
use std::sync::Arc;

/// Whether the request is one to purge.
pub(super) fn is_wanted(exchange: &Exchange, settings: &CacheSettings) -> bool {
    !settings.purge.is_empty() && any(exchange, &settings.purge)
}

/// Purges a key: 204 if there was a response, otherwise 404. As anybody could empty the cache,
/// locations without a rule about access refuse it.
pub(super) async fn purge(
    exchange: &mut Exchange,
    zone: &Arc<Zone<Fill>>,
    key: &CacheKey,
) -> Outcome {
    let conf = exchange.conf();
    if conf.access.is_none() && conf.auth_request.is_none() {
        log_request!(
            exchange,
            Error,
            "nothing is purged: anybody could do it; say who may with \"allow\", \"auth_basic\" \
             or \"auth_request\" in this location"
        );
        return Outcome::Status(StatusCode::FORBIDDEN);
    }
    if key.text().ends_with(b"*") {
        log_request!(
            exchange,
            Error,
            "\"{}\" is not purged: keys with a wildcard are not supported yet",
            Text(key.text())
        );
        return Outcome::Status(StatusCode::NOT_IMPLEMENTED);
    }
    let (zone, hash) = (Arc::clone(zone), key.hash());
    match disk::run(move || zone.purge(&hash)).await {
        Ok(Purged::Gone) => {
            log_request!(exchange, Notice, "purged \"{}\"", Text(key.text()));
            let response = &mut exchange.response;
            response.status = StatusCode::NO_CONTENT;
            response.body.clear();
            Outcome::Answered
        }
        Ok(Purged::Unknown) => Outcome::Status(StatusCode::NOT_FOUND),
        Err((path, error)) => {
            log_request!(
                exchange,
                Crit,
                "unlink() \"{}\" failed ({})",
                path.display(),
                sealane_log::OsError(&error)
            );
            Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}
