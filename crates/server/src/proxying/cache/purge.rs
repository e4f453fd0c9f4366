//! `cache_purge`: removes responses, by key, prefix or tag; and what look-ups do about those that
//! were purged.

use super::fill::Fill;
use super::look::any;
use super::stored::{StoredResponse, Unusable};
use super::tags;
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::request_log::{Text, log_request};
use crate::template;
use sealane_cache::{CacheKey, Purge, PurgeFailure, Purged, Subject, Visit, Zone};
use sealane_conf::model::{CacheSettings, VerifyClient};
use sealane_http::StatusCode;
use sealane_io::disk;
use sealane_log::OsError;
use sealane_sys::time::unix_coarse_s;
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The longest tag, as much as other caches allow; longer ones are no tags of any response.
const MAX_TAG_BYTES: usize = 1024;

/// Purges of this process that are under way. They wait for the disk and for each other, on threads
/// that other requests need as well.
const MAX_PURGES_AT_A_TIME: usize = 4;
static TURNS: Semaphore = Semaphore::const_new(MAX_PURGES_AT_A_TIME);

/// Whether the request is one to purge. Subrequests are not: access directives do not check them,
/// and one of `auth_request` would be answered as if the client had access.
pub(super) fn is_wanted(exchange: &Exchange, settings: &CacheSettings) -> bool {
    !settings.purge.is_empty() && !exchange.request.is_subrequest && any(exchange, &settings.purge)
}

/// Whether somebody has said that this client may: an access directive has let it in, or its
/// certificate was required and is valid.
fn is_allowed(exchange: &Exchange) -> bool {
    let is_verified = exchange.is_tls() && exchange.server().conf.verify_client == VerifyClient::On;
    exchange.features.access.is_granted() || is_verified
}

/// Purges: 204 if it is done, 404 if there is no response of the key. As anybody could empty the
/// cache, clients that no access directive has let in are refused.
pub(super) async fn purge(
    exchange: &mut Exchange,
    settings: &CacheSettings,
    zone: &Arc<Zone<Fill>>,
    key: &CacheKey,
) -> Outcome {
    if !is_allowed(exchange) {
        log_request!(
            exchange,
            Error,
            "nothing is purged: anybody could do it; say who may with \"allow\", \"auth_basic\" \
             or \"auth_request\" in this location, or with \"ssl_verify_client on\""
        );
        return Outcome::Status(StatusCode::FORBIDDEN);
    }
    let purge = wanted(exchange, settings, key);
    let (zone, theirs) = (Arc::clone(zone), purge.clone());
    let turn = TURNS.acquire().await.expect("it is never closed");
    let done = disk::run(move || zone.purge(&theirs, unix_coarse_s())).await;
    drop(turn);
    match done {
        Ok(Purged::Gone) => {
            log_done(exchange, &purge);
            let response = &mut exchange.response;
            response.status = StatusCode::NO_CONTENT;
            response.body.clear();
            Outcome::Answered
        }
        Ok(Purged::Unknown) => Outcome::Status(StatusCode::NOT_FOUND),
        Err(failure) => Outcome::Status(refuse(exchange, &failure)),
    }
}

/// What the request names: tags, if there are any, otherwise its key, which stands for all that
/// begin so if it ends with an asterisk.
fn wanted(exchange: &Exchange, settings: &CacheSettings, key: &CacheKey) -> Purge {
    let mut named: Vec<Box<[u8]>> = Vec::new();
    let mut names_tags = false;
    for value in &settings.purge_tags {
        let value = template::evaluate(value, exchange);
        for tag in tags::listed(&value) {
            names_tags = true;
            if tag.len() <= MAX_TAG_BYTES {
                named.push(tag.into());
            }
        }
    }
    if names_tags {
        named.sort_unstable();
        named.dedup();
        return Purge::Tags(named);
    }
    match key.text().strip_suffix(b"*") {
        Some(prefix) => Purge::Prefix(prefix.into()),
        None => Purge::Key(key.clone()),
    }
}

fn log_done(exchange: &Exchange, purge: &Purge) {
    match purge {
        Purge::Key(key) => {
            log_request!(exchange, Notice, "purged \"{}\"", Text(key.text()));
        }
        Purge::Prefix(prefix) => {
            log_request!(exchange, Notice, "purged \"{}*\"", Text(prefix));
        }
        Purge::Tags(tags) => {
            let tags = tags.join(&b' ');
            log_request!(exchange, Notice, "purged tags \"{}\"", Text(&tags));
        }
    }
}

/// Says why nothing is purged, and returns the status for the client.
fn refuse(exchange: &Exchange, failure: &PurgeFailure) -> StatusCode {
    match failure {
        PurgeFailure::Full { limit } => {
            log_request!(
                exchange,
                Error,
                "nothing is purged: {limit} purges of keys with a wildcard, of tags or of keys with \
                 variants are remembered already; the purger forgets them once it has read the \
                 files, raise \"purger_rules\" or let it read faster (\"purger_files\")"
            );
            StatusCode::SERVICE_UNAVAILABLE
        }
        PurgeFailure::Retired => {
            log_request!(
                exchange,
                Warn,
                "nothing is purged: this process ends, and another one has the cache; ask again"
            );
            StatusCode::SERVICE_UNAVAILABLE
        }
        PurgeFailure::File(failure) => {
            log_request!(
                exchange,
                Crit,
                "{} \"{}\" failed ({}): what was to be purged may come back with a restart",
                failure.call,
                failure.path.display(),
                OsError(&failure.error)
            );
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// What was read, unless it was purged since it was stored: then its file goes.
pub(super) async fn unless_purged(
    exchange: &Exchange,
    visit: &Visit<Fill>,
    key: &CacheKey,
    read: Result<StoredResponse, Unusable>,
) -> Result<StoredResponse, Unusable> {
    let stored = match read {
        Ok(stored) if visit.must_judge() => stored,
        other => return other,
    };
    let subject = Subject {
        key: key.clone(),
        tags: tags::of_head(&stored.head),
    };
    let (is_purged, is_ours) = visit.judge(&subject, stored.header.date_s);
    if !is_purged {
        return Ok(stored);
    }
    if is_ours {
        remove(exchange, visit, stored).await;
    }
    Err(Unusable::Purged)
}

/// Removes a file that was opened.
async fn remove(exchange: &Exchange, visit: &Visit<Fill>, stored: StoredResponse) {
    let (zone, hash) = (Arc::clone(visit.zone()), *visit.hash());
    let removed = disk::run(move || {
        let facts = sealane_sys::file::stat_fd(stored.file.as_fd())?;
        zone.remove_purged(&hash, facts.inode)
    });
    if let Err(error) = removed.await {
        let path = visit.zone().file_path(visit.hash());
        log_request!(
            exchange,
            Crit,
            "unlink() \"{}\" failed ({})",
            path.display(),
            OsError(&error)
        );
    }
}
