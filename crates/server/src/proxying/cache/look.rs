//! What the cache has for a request.

use super::super::{PassRuntime, Target};
use super::fill::Fill;
use super::hot::Candidate;
use super::rfc9111::{self, CacheLookup, Forward};
use super::stored::{StoredResponse, Unusable};
use super::{CacheState, CacheStatus, CacheZone, form, purge, settings, update};
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::request_log::{Text, log_request};
use crate::template;
use sealane_cache::{CacheHeader, CacheKey, Found, Hash, Mismatch, StoredFile, Visit, variant};
use sealane_conf::model::{CacheLock, CachePath, CacheRules, CacheSettings, NextUpstreamCause};
use sealane_conf::model::{CacheZone as ZoneOf, Pass, Template};
use sealane_http::h1::Framing;
use sealane_http::headers::KnownHeader;
use sealane_http::{Method, StatusCode};
use sealane_io::runtime::sleep;
use sealane_sys::time::unix_coarse_s;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

/// The size that nginx's message about a buffer suggests is a multiple of this.
const BUFFER_STEP_BYTES: usize = 1024;
/// The least that a head may need behind the key.
const MIN_HEAD_BYTES: usize = 256;

/// What there is for a request.
pub(in crate::proxying) enum Looked {
    /// Nothing: the origin is asked.
    Nothing,
    /// It is answered.
    Answered(Outcome),
    /// What is in memory does not tell: [`look_further`] does.
    Further(Further),
}

/// What takes longer than a look into memory.
pub(in crate::proxying) enum Further {
    /// Files, and other requests for the same key.
    Search,
    /// Removing a response.
    Purge(Arc<CacheZone>, CacheKey),
}

/// Looks for a response, and answers with it if it is in memory.
///
/// # Errors
/// The status to answer with.
pub(in crate::proxying) fn look(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    target: &Target,
) -> Result<Looked, StatusCode> {
    let Some(settings) = settings(pass) else {
        return Ok(Looked::Nothing);
    };
    if let Some(state) = update::take_state(exchange) {
        exchange.upstream.get_or_insert_default().cache = Some(state);
        return Ok(Looked::Nothing);
    }
    let method = exchange.request.head.method;
    let is_purge = purge::is_wanted(exchange, pass, settings);
    let is_cached_method = matches!(method, Method::Get | Method::Head)
        || method == Method::Post && settings.caches_post;
    if !is_cached_method && !is_purge {
        return Ok(Looked::Nothing);
    }
    let Some((path, zone)) = zone_of(exchange, settings)? else {
        return Ok(Looked::Nothing);
    };
    let key = CacheKey::new(key(exchange, pass, settings, target));
    if is_purge {
        return Ok(Looked::Further(Further::Purge(zone, key)));
    }
    let start = CacheHeader::start_for(&key);
    let buffer_bytes = usize::try_from(pass.settings().buffer_bytes).unwrap_or(usize::MAX);
    if start + MIN_HEAD_BYTES > buffer_bytes.min(usize::from(u16::MAX)) {
        let family = pass.settings().family.name();
        let needed = (start + MIN_HEAD_BYTES).next_multiple_of(BUFFER_STEP_BYTES);
        log_request!(
            exchange,
            Error,
            "{family}_buffer_size {buffer_bytes} is not enough for cache key, it should be \
             increased to at least {needed}"
        );
        return Ok(Looked::Nothing);
    }
    // As far as others can tell, a body of GET or HEAD means nothing (RFC 9110 section 9.3.1); an
    // origin may see that differently.
    let has_unkeyed_body = method != Method::Post
        && !settings.key_has_body
        && !matches!(
            exchange.request.head.framing,
            Framing::None | Framing::Length(0)
        );
    let is_bypassed = has_unkeyed_body || any(exchange, &settings.bypass);
    let state = CacheState {
        status: match is_bypassed {
            true => CacheStatus::Bypass,
            false => CacheStatus::Miss,
        },
        generation: zone.index.purge_generation(),
        zone,
        path,
        hash: key.hash(),
        key,
        is_cacheable: !has_unkeyed_body,
        visit: None,
        stale: None,
        allows_stale: false,
        date_s: None,
        lookup: CacheLookup::of(exchange, settings),
    };
    exchange.upstream.get_or_insert_default().cache = Some(Box::new(state));
    if !is_bypassed {
        return Ok(match from_memory(exchange, pass) {
            Some(outcome) => Looked::Answered(outcome),
            None => Looked::Further(Further::Search),
        });
    }
    if let Some(state) = super::state_mut(exchange) {
        state.lookup.nothing(Forward::Bypass)?;
    }
    if begins_late(exchange, settings) {
        forbid(exchange);
    }
    Ok(Looked::Nothing)
}

/// Looks on, where that takes longer. May wait for another request that asks the origin. `None` if
/// there is nothing, and the origin is asked.
///
/// # Errors
/// The status to answer with.
pub(in crate::proxying) async fn look_further(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    further: Further,
) -> Result<Option<Outcome>, StatusCode> {
    let Some(settings) = settings(pass) else {
        return Ok(None);
    };
    if let Further::Purge(zone, key) = further {
        let outcome = purge::purge(exchange, pass, settings, &zone.index, &key).await;
        return Ok(Some(outcome));
    }
    let outcome = search(exchange, pass, settings).await?;
    if outcome.is_none()
        && let Some(state) = super::state_mut(exchange)
    {
        let is_variant = state.hash != state.key.hash();
        state.lookup.nothing(match is_variant {
            true => Forward::VaryMiss,
            false => Forward::UriMiss,
        })?;
    }
    if outcome.is_none() && begins_late(exchange, settings) {
        forbid(exchange);
    }
    Ok(outcome)
}

/// Whether a value of the list is neither empty nor `0`.
pub(super) fn any(exchange: &Exchange, list: &[Template]) -> bool {
    list.iter().any(|value| template::is_true(value, exchange))
}

/// Where responses are kept: the configuration, and the zone itself.
type ZoneInUse = (Arc<CachePath>, Arc<CacheZone>);

pub(super) fn zone_of(
    exchange: &Exchange,
    settings: &CacheSettings,
) -> Result<Option<ZoneInUse>, StatusCode> {
    let path = match &settings.zone {
        ZoneOf::Named(path) => path,
        ZoneOf::Evaluated(name, paths) => {
            let name = template::evaluate(name, exchange);
            if matches!(&*name, b"" | b"off") {
                return Ok(None);
            }
            let mut paths = paths.iter();
            let Some(path) = paths.find(|path| path.zone.as_bytes() == &*name) else {
                log_request!(exchange, Error, "cache \"{}\" not found", Text(&name));
                return Err(StatusCode::INTERNAL_SERVER_ERROR);
            };
            path
        }
    };
    let zone = exchange.snapshot.cache_zone(path);
    Ok(zone.map(|zone| (Arc::clone(path), Arc::clone(zone))))
}

/// The text of the key.
pub(super) fn key(
    exchange: &Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    target: &Target,
) -> Vec<u8> {
    match (&settings.key, &pass.pass) {
        (Some(key), _) => template::evaluate(key, exchange).into_owned(),
        (None, Pass::Proxy(_)) => {
            let scheme = target.scheme(pass).as_bytes();
            [scheme, target.host.as_bytes(), &target.uri].concat()
        }
        // As in nginx, these have none unless it is configured.
        (None, _) => Vec::new(),
    }
}

/// `cache_max_range_offset`: the client wants something far behind, and must not wait for all that
/// comes before.
fn begins_late(exchange: &Exchange, settings: &CacheSettings) -> bool {
    let Some(limit) = settings.max_range_offset else {
        return false;
    };
    let request = &exchange.request;
    let Some(range) = request.head.get(KnownHeader::Range) else {
        return false;
    };
    if limit == 0 {
        return true;
    }
    let range = range.of(&request.buffer);
    let Some((unit, range)) = range.split_at_checked(6) else {
        return false;
    };
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return false;
    }
    let range = range.trim_ascii_start();
    if range.starts_with(b"-") {
        return true;
    }
    let digits = range.iter().take_while(|byte| byte.is_ascii_digit());
    let offset = digits.fold(0u64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    offset >= limit
}

/// The response of the origin is not kept.
fn forbid(exchange: &mut Exchange) {
    if let Some(state) = super::state_mut(exchange) {
        state.is_cacheable = false;
    }
}

/// Answers from memory, if the response is there and fresh.
fn from_memory(exchange: &mut Exchange, pass: &PassRuntime) -> Option<Outcome> {
    let state = super::state(exchange)?;
    let now_s = unix_coarse_s();
    let mut hash = state.hash;
    let mut response = state.zone.hot.get(&hash, &state.key)?;
    match fits(exchange, state, false, &response.header) {
        Fit::Fits => {}
        Fit::Other(variant) => {
            // Variants go with the response in the key's place.
            let number = state.zone.index.hit(&hash, now_s)?;
            if !response.is_of(number) {
                return None;
            }
            hash = variant;
            response = state.zone.hot.get(&hash, &state.key)?;
            if !matches!(fits(exchange, state, true, &response.header), Fit::Fits) {
                return None;
            }
        }
        Fit::Never => return None,
    }
    let is_fresh = rfc9111::serves(state, pass, &response.header, &response.head);
    if response.header.valid_s < now_s || !is_fresh || !response.is_checked(now_s) {
        return None;
    }
    let number = state.zone.index.hit(&hash, now_s)?;
    if !response.is_of(number) {
        return None;
    }
    set_status(exchange, CacheStatus::Hit);
    Some(super::answer::from_memory(exchange, pass, &response))
}

/// What one look at a key has found.
enum Sight {
    /// A file, with the request's part in its key, and the requests for it so far.
    File(Visit<Fill>, Box<StoredResponse>, u16),
    /// A response that is being received.
    Filling(Arc<Fill>),
    /// A response that is stale already, and about to be stored.
    Settling(Visit<Fill>),
    /// This status stands for one.
    Failure(StatusCode),
    /// Nothing; the response of the origin may be kept.
    Nothing(Visit<Fill>),
    /// Nothing, and it is not kept.
    Scarce,
    /// The variant has another key; with the `Vary` that says so.
    Variant(Hash, Box<[u8]>),
}

/// Looks until there is something to answer with, or the origin has to be asked: `None`.
async fn search(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
) -> Result<Option<Outcome>, StatusCode> {
    let mut lock = settings.lock;
    let mut deadline = None;
    let mut is_variant = false;
    loop {
        match see(exchange, pass, settings, is_variant).await {
            Sight::Variant(hash, vary) => {
                is_variant = true;
                if let Some(state) = super::state_mut(exchange) {
                    state.hash = hash;
                    state.lookup.note_variant(&vary);
                }
            }
            Sight::Settling(visit) => poll_fn(|cx| visit.poll_settled(cx)).await,
            Sight::Failure(status) => {
                set_status(exchange, CacheStatus::Hit);
                return Err(status);
            }
            Sight::Filling(fill) => {
                set_status(exchange, CacheStatus::Hit);
                return Ok(Some(super::answer::from_fill(exchange, pass, fill)));
            }
            Sight::File(visit, stored, uses) => {
                return found(exchange, pass, settings, visit, stored, uses).await;
            }
            Sight::Scarce => {
                forbid(exchange);
                return Ok(None);
            }
            Sight::Nothing(mut visit) => {
                let Some(times) = lock else {
                    set_visit(exchange, visit);
                    return Ok(None);
                };
                if visit.lock(Instant::now(), times.age) {
                    set_visit(exchange, visit);
                    return Ok(None);
                }
                if times.timeout.is_zero() {
                    forbid(exchange);
                    return Ok(None);
                }
                let end = *deadline.get_or_insert_with(|| Instant::now() + times.timeout);
                let refusals = visit.refusals();
                match wait(exchange, &visit, end).await {
                    // As likely as not the next one is not kept either: nobody waits for it.
                    Waited::Changed if visit.refusals() != refusals => {
                        forbid(exchange);
                        return Ok(None);
                    }
                    Waited::Changed => {}
                    Waited::TooLong => {
                        log_request!(exchange, Info, "cache lock timeout");
                        lock = Some(CacheLock {
                            timeout: std::time::Duration::ZERO,
                            ..times
                        });
                    }
                    Waited::ClientGone => return Err(StatusCode::CLIENT_CLOSED_REQUEST),
                }
            }
        }
    }
}

fn set_status(exchange: &mut Exchange, status: CacheStatus) {
    if let Some(state) = super::state_mut(exchange) {
        state.status = status;
    }
}

fn set_visit(exchange: &mut Exchange, visit: Visit<Fill>) {
    if let Some(state) = super::state_mut(exchange) {
        state.visit = Some(visit);
    }
}

/// How waiting for another request ended.
enum Waited {
    Changed,
    TooLong,
    ClientGone,
}

/// Waits for the request that asks the origin.
async fn wait(exchange: &Exchange, visit: &Visit<Fill>, end: Instant) -> Waited {
    let now = Instant::now();
    let until = visit.locked_until().map_or(end, |until| until.min(end));
    let mut pause = pin!(sleep(until.saturating_duration_since(now)));
    poll_fn(|cx| {
        if visit.poll_change(cx, Instant::now()).is_ready() {
            return Poll::Ready(Waited::Changed);
        }
        if exchange.client.poll_gone(cx).is_ready() {
            return Poll::Ready(Waited::ClientGone);
        }
        if pause.as_mut().poll(cx).is_ready() {
            return Poll::Ready(match Instant::now() < end {
                true => Waited::Changed,
                false => Waited::TooLong,
            });
        }
        Poll::Pending
    })
    .await
}

/// One look at the key.
async fn see(
    exchange: &Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    is_variant: bool,
) -> Sight {
    let Some(state) = super::state(exchange) else {
        return Sight::Scarce;
    };
    let now_s = unix_coarse_s();
    // Before the key is looked for: the loader may be done right after that.
    let was_cold = state.zone.index.is_cold();
    let begun = Visit::begin(&state.zone.index, state.hash, settings.min_uses, now_s);
    let Ok((visit, found)) = begun else {
        let zone = state.zone.name();
        log_request!(
            exchange,
            Alert,
            "could not allocate node in cache keys zone \"{zone}\": every key of it is in use; \
             make \"keys_zone\" larger"
        );
        return Sight::Scarce;
    };
    let index = &state.zone.index;
    let found = match found {
        Found::Failure(_) if visit.forgets_failure(&state.key) => Found::Nothing { is_new: true },
        found => found,
    };
    let (first_bytes, uses, is_proven, is_there) = match found {
        Found::Failure(status) => return Sight::Failure(StatusCode(status)),
        Found::File {
            body_start,
            uses,
            is_proven,
        } => (usize::from(body_start), uses, is_proven, true),
        Found::Nothing { is_new } | Found::Scarce { is_new } => (0, 0, false, is_new && was_cold),
    };
    let method = exchange.request.head.method;
    if let Some(fill) = visit
        .others_fill()
        .filter(|fill| fill.answers(&state.key, method))
    {
        // One that has all of its body is as good as stored; others are for those who would have
        // to wait for it.
        let is_shared = rfc9111::serves(state, pass, &fill.header, &fill.head);
        if fill.is_complete() && (fill.header.valid_s < now_s || !is_shared) {
            return Sight::Settling(visit);
        }
        let is_for_us = fill.is_complete()
            || !is_there && settings.lock.is_some_and(|lock| fill.goes_on(lock.age));
        if is_for_us {
            match fits(exchange, state, is_variant, &fill.header) {
                Fit::Fits if !is_shared => return Sight::Scarce,
                Fit::Fits => return Sight::Filling(fill),
                Fit::Other(hash) => return Sight::Variant(hash, fill.header.vary.clone()),
                Fit::Never => {}
            }
        }
    }
    if is_there {
        let path = index.file_path(&state.hash);
        let read = StoredResponse::read(&path, &state.key, first_bytes, is_proven).await;
        match purge::unless_purged(exchange, &visit, &state.key, read).await {
            Ok(stored) => match fits(exchange, state, is_variant, &stored.header) {
                Fit::Fits => return Sight::File(visit, Box::new(stored), uses),
                Fit::Other(hash) => {
                    note_found(&visit, &stored);
                    return Sight::Variant(hash, stored.header.vary.clone());
                }
                Fit::Never => {
                    let path = path.display();
                    log_request!(
                        exchange,
                        Crit,
                        "cache file \"{path}\" has incorrect vary hash"
                    );
                }
            },
            Err(Unusable::Purged) => {}
            Err(error) => {
                // What cannot be opened is there all the same, and goes when it is old.
                let is_gone = !matches!(error, Unusable::Failed(..));
                if is_gone && matches!(found, Found::File { .. }) {
                    visit.note_no_file();
                }
                log_unusable(exchange, &path, &error);
            }
        }
    }
    match found {
        Found::Scarce { .. } => Sight::Scarce,
        _ => Sight::Nothing(visit),
    }
}

/// While the zone is cold, files are met that the index does not know.
fn note_found(visit: &Visit<Fill>, stored: &StoredResponse) {
    if visit.zone().is_cold() {
        let (bytes, body_start) = (stored.file.size(), stored.header.body_start);
        visit.note_file(StoredFile::of_bytes(bytes, body_start));
    }
}

fn log_unusable(exchange: &Exchange, path: &std::path::Path, error: &Unusable) {
    let path = path.display();
    match error {
        Unusable::Missing | Unusable::Purged => {}
        Unusable::Mismatch(Mismatch::Version) => {
            log_request!(exchange, Info, "cache file \"{path}\" version mismatch");
        }
        Unusable::Mismatch(mismatch) => {
            log_request!(exchange, Crit, "cache file \"{path}\" {mismatch}");
        }
        Unusable::Length => {
            log_request!(
                exchange,
                Crit,
                "cache file \"{path}\" has another length than when it was written, and is not \
                 used: the file system has lost a part of it, or somebody has changed it"
            );
        }
        Unusable::Checksum => {
            log_request!(
                exchange,
                Crit,
                "cache file \"{path}\" has another body than was written, and is not used: a \
                 part of it was not yet on the disk when the power failed, the disk is damaged, or \
                 somebody has changed it"
            );
        }
        Unusable::Failed(call, errno) => {
            log_request!(exchange, Crit, "{call} \"{path}\" failed ({errno})");
        }
    }
}

/// Whether a response is the variant that the request is about.
enum Fit {
    Fits,
    /// It has this hash.
    Other(Hash),
    /// A variant that is not where it should be.
    Never,
}

fn fits(exchange: &Exchange, state: &CacheState, is_variant: bool, header: &CacheHeader) -> Fit {
    if header.vary.is_empty() {
        return Fit::Fits;
    }
    let hash = variant_of(exchange, &state.key, &header.vary);
    match hash == header.variant {
        true => Fit::Fits,
        false if is_variant => Fit::Never,
        false => Fit::Other(hash),
    }
}

/// The hash of the request's variant.
pub(super) fn variant_of(exchange: &Exchange, key: &CacheKey, vary: &[u8]) -> Hash {
    let request = &exchange.request;
    let lines = |name: &[u8]| {
        let headers = request.head.headers.iter();
        let name = name.to_vec();
        headers
            .filter(move |header| header.name.of(&request.buffer).eq_ignore_ascii_case(&name))
            .map(|header| header.value.of(&request.buffer))
    };
    match super::state(exchange).is_some_and(|state| state.lookup.is_on) {
        true => rfc9111::variant_of(&key.hash(), vary, lines),
        false => variant(&key.hash(), vary, lines),
    }
}

/// There is a file: answers with it, unless it is too old.
///
/// # Errors
/// The status to answer with.
async fn found(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    mut visit: Visit<Fill>,
    stored: Box<StoredResponse>,
    uses: u16,
) -> Result<Option<Outcome>, StatusCode> {
    let Some(head) = form::decode(&pass.pass, &stored.head) else {
        let path = visit.zone().file_path(visit.hash());
        let path = path.display();
        log_request!(
            exchange,
            Crit,
            "cache file \"{path}\" contains invalid header"
        );
        visit.note_no_file();
        set_visit(exchange, visit);
        return Ok(None);
    };
    if !super::answer::is_whole(exchange, &head, &stored) {
        // Without any body it may be the response to a HEAD (`cache_convert_head off`).
        if stored.body_bytes() > 0 {
            let path = visit.zone().file_path(visit.hash());
            log_unusable(exchange, &path, &Unusable::Length);
        }
        visit.note_no_file();
        set_visit(exchange, visit);
        return Ok(None);
    }
    note_found(&visit, &stored);
    visit.note_proven();
    let header = &stored.header;
    let now_s = unix_coarse_s();
    let is_fresh = match super::state(exchange) {
        Some(state) => rfc9111::serves(state, pass, header, &head),
        None => true,
    };
    if header.valid_s >= now_s && is_fresh {
        set_status(exchange, CacheStatus::Hit);
        // What is kept for a HEAD may be its head alone.
        if exchange.request.head.method == Method::Get
            && let Some(number) = visit.file_number()
            && let Some(state) = super::state(exchange)
        {
            let candidate = Candidate {
                hash: visit.hash(),
                key: &state.key,
                file_number: number,
                uses,
                stored: &stored,
                head: &head,
            };
            let admitted = state.zone.hot.admit(candidate, now_s);
            if let Some(response) = admitted.await {
                let outcome = super::answer::from_memory(exchange, pass, &response);
                return Ok(Some(outcome));
            }
        }
        let outcome = super::answer::from_file(exchange, pass, head, *stored);
        return Ok(Some(outcome));
    }
    if settings.rules == CacheRules::Rfc9111 {
        return rfc9111::not_fresh(exchange, pass, settings, visit, stored, head);
    }
    let lasts = |seconds: i64| header.valid_s.saturating_add(seconds) >= now_s;
    let allows_updating =
        settings.use_stale.contains(NextUpstreamCause::Updating) || lasts(header.updating_s);
    let allows_stale = lasts(header.error_s);
    let is_ours = visit.lock_stale(Instant::now());
    let served = match is_ours {
        true if allows_updating && settings.background_update => Some(CacheStatus::Stale),
        true => None,
        false if allows_updating => Some(CacheStatus::Updating),
        false => None,
    };
    if let Some(state) = super::state_mut(exchange) {
        state.allows_stale = allows_stale;
    }
    match served {
        Some(status) => {
            set_status(exchange, status);
            if is_ours {
                update::begin(exchange, visit, stored.clone());
            }
            Ok(Some(super::answer::from_file(
                exchange, pass, head, *stored,
            )))
        }
        None => {
            if let Some(state) = super::state_mut(exchange) {
                state.status = CacheStatus::Expired;
                state.stale = Some(stored);
                state.visit = Some(visit);
            }
            Ok(None)
        }
    }
}
