//! `cache_purge`: removes responses, by key, prefix or tag; and what look-ups do about those that
//! were purged.

mod answers;

use super::super::PassRuntime;
use super::fill::Fill;
use super::look::any;
use super::stored::{StoredResponse, Unusable};
use super::tags;
use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use crate::handlers::Outcome;
use crate::request_log::{Text, log_request};
use crate::template;
use sealane_cache::{CacheKey, Purge, PurgeFailure, Purged, Subject, Visit, Zone};
use sealane_conf::model::{AddressRules, CacheSettings, PurgeMethod, VerifyClient};
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

/// The method that purges in this location, if it is the request's. Subrequests purge nothing:
/// access directives do not check them, and one of `auth_request` would be answered as if the
/// client had access.
pub(in crate::proxying) fn by_method<'p>(
    exchange: &Exchange,
    pass: &'p PassRuntime,
) -> Option<&'p PurgeMethod> {
    let purge = pass.settings().purge_method.as_deref()?;
    let request = &exchange.request;
    let method = match request.head.method.name() {
        Some(name) => name.as_bytes(),
        None => request.head.method_name.of(&request.buffer),
    };
    (purge.name.as_bytes() == method && !request.is_subrequest).then_some(purge)
}

/// Whether the request is one to purge.
pub(super) fn is_wanted(exchange: &Exchange, pass: &PassRuntime, settings: &CacheSettings) -> bool {
    let by_value = || {
        !settings.purge.is_empty()
            && !exchange.request.is_subrequest
            && any(exchange, &settings.purge)
    };
    by_method(exchange, pass).is_some() || by_value()
}

/// What a method that purges is answered with in a location without a cache.
pub(in crate::proxying) fn without_cache(exchange: &Exchange, method: &PurgeMethod) -> StatusCode {
    match may(exchange, method.from.as_ref()) {
        Ok(()) => StatusCode::NOT_FOUND,
        Err(status) => status,
    }
}

/// Whether the client may purge: `from` says so, or, without one, an access directive has let it
/// in, or its certificate was required and is valid.
///
/// # Errors
/// The status of a refusal. As anybody could empty the cache, clients that nobody has let in are
/// refused.
fn may(exchange: &Exchange, from: Option<&AddressRules>) -> Result<(), StatusCode> {
    if let Some(from) = from {
        let address = match exchange.client_address() {
            PeerAddress::Inet(address) => Some(address.ip()),
            PeerAddress::Unix => None,
        };
        if from.verdict(address) == Some(true) {
            return Ok(());
        }
        log_request!(
            exchange,
            Error,
            "nothing is purged: the client is not among those after \"from\" of \
             \"..._cache_purge\""
        );
        return Err(StatusCode::FORBIDDEN);
    }
    let is_verified = exchange.is_tls() && exchange.server().conf.verify_client == VerifyClient::On;
    if exchange.features.access.is_granted() || is_verified {
        return Ok(());
    }
    log_request!(
        exchange,
        Error,
        "nothing is purged: anybody could do it; say who may with \"allow\", \"auth_basic\" \
         or \"auth_request\" in this location, or with \"ssl_verify_client on\""
    );
    Err(StatusCode::FORBIDDEN)
}

/// Purges what the request is about: 204 if it is done, 404 if there is no response of the key; or
/// as ngx_cache_purge answers, if its method purges.
pub(super) async fn purge(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    zone: &Arc<Zone<Fill>>,
    key: &CacheKey,
) -> Outcome {
    let method = by_method(exchange, pass);
    if let Err(status) = may(exchange, method.and_then(|method| method.from.as_ref())) {
        return Outcome::Status(status);
    }
    let purge = match method {
        Some(method) if method.everything => Purge::Prefix(Box::default()),
        _ => wanted(exchange, settings, key),
    };
    match (carry_out(exchange, zone, &purge).await, method) {
        (Err(status), _) => Outcome::Status(status),
        (Ok(purged), Some(_)) => answers::answer(exchange, key.text(), purged),
        (Ok(Purged::Unknown), None) => Outcome::Status(StatusCode::NOT_FOUND),
        (Ok(Purged::Gone), None) => {
            let response = &mut exchange.response;
            response.status = StatusCode::NO_CONTENT;
            response.body.clear();
            Outcome::Answered
        }
    }
}

/// `*_cache_purge ZONE KEY`: purges the key.
pub(crate) async fn at_location(exchange: &mut Exchange) -> Outcome {
    let Some(conf) = exchange.conf().purge.clone() else {
        return Outcome::Declined; // the handler and this are set together
    };
    if exchange.request.is_subrequest {
        log_request!(
            exchange,
            Error,
            "nothing is purged: a subrequest asks for it"
        );
        return Outcome::Status(StatusCode::FORBIDDEN);
    }
    if let Err(status) = may(exchange, None) {
        return Outcome::Status(status);
    }
    let Some(zone) = exchange.snapshot.cache_zone(&conf.zone) else {
        return Outcome::Status(StatusCode::NOT_FOUND);
    };
    let zone = Arc::clone(&zone.index);
    let key = CacheKey::new(template::evaluate(&conf.key, exchange).into_owned());
    match carry_out(exchange, &zone, &of_key(&key)).await {
        Err(status) => Outcome::Status(status),
        Ok(purged) => answers::answer(exchange, key.text(), purged),
    }
}

/// Purges.
///
/// # Errors
/// The status for the client.
async fn carry_out(
    exchange: &Exchange,
    zone: &Arc<Zone<Fill>>,
    purge: &Purge,
) -> Result<Purged, StatusCode> {
    let (zone, theirs) = (Arc::clone(zone), purge.clone());
    let turn = TURNS.acquire().await.expect("it is never closed");
    let done = disk::run(move || zone.purge(&theirs, unix_coarse_s())).await;
    drop(turn);
    if let Ok(Purged::Gone) = done {
        log_done(exchange, purge);
    }
    done.map_err(|failure| refuse(exchange, &failure))
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
    of_key(key)
}

fn of_key(key: &CacheKey) -> Purge {
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
