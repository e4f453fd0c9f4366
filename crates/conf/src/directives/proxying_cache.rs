//! Caching responses of other servers: `*_cache` and its relatives. Their directories are in
//! `cache_paths.rs`.

pub(super) mod purge;

use super::cache_paths::refer;
use super::proxying::{causes, family, upstream};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::{CacheDraft, CacheZoneDraft, StoreDraft};
use crate::model::{CacheRules, CacheValid, List, NextUpstream, Template};
use crate::template;
use crate::values;

/// The rows of a family: where responses are kept, and which.
macro_rules! cache_rows {
    ($family:literal, $key:literal, $stale:literal) => {
        &[
            Row::new(
                concat!($family, "_cache"),
                HSL,
                ONE,
                "off",
                concat!(
                    "Zone of `",
                    $family,
                    "_cache_path` that keeps responses; `off` ends what an outer level has set. \
                     With variables, each request chooses one of the zones of `",
                    $family,
                    "_cache_path`; an empty value or `off` is none. `$upstream_cache_status` says \
                     what became of a request. Not beside `",
                    $family,
                    "_store`."
                ),
                $crate::directives::proxying_cache::cache,
            ),
            Row::new(
                concat!($family, "_cache_path"),
                HTTP,
                Arity::AtLeast(2),
                "",
                concat!(
                    "Directory of a cache and, with `keys_zone=NAME:SIZE`, its name and the memory \
                     for its keys, which all threads share. The directory is made if its parent is \
                     there, belongs to the worker's user, and is for this cache alone. \
                     `levels=1:2` divides it into subdirectories named by the last digits of a \
                     file's name, up to three levels of one or two digits. Responses are written \
                     in `",
                    $family,
                    "_temp_path` and moved, or with `use_temp_path=off` written where they will \
                     stay. Those that nobody asks for during `inactive` (10m) are removed, and \
                     those asked for longest ago if the cache has more than `max_size` or the \
                     file system less than `min_free` bytes. `manager_files` (100), \
                     `manager_threshold` (200ms) and `manager_sleep` (50ms) limit how many are \
                     removed at a time, for how long, and how long the pause is; `loader_files`, \
                     `loader_threshold` and `loader_sleep` likewise limit how the files are read \
                     that are there at the start. Responses that are asked for often and have at \
                     most `memory_max_object` (128k) bytes are also kept in memory, up to `memory` \
                     (32m) bytes of the zone; 0 is none. Their files are looked at once in a \
                     second. With `purger=on` the files are read after a purge of \
                     keys with a wildcard or of tags, and those that it concerns are removed, at \
                     the pace of `purger_files` (10), `purger_threshold` (50ms) and `purger_sleep` \
                     (50ms); without it they go once they are asked for or inactive. Up to \
                     `purger_rules` (10000) such purges are remembered until then, in the file \
                     `temp/purges`; if half of them are, the files are read in any case."
                ),
                $crate::directives::cache_paths::cache_path,
            ),
            Row::new(
                concat!($family, "_cache_key"),
                HSL,
                ONE,
                $key,
                concat!(
                    "What tells cached responses apart, usually with variables. Requests with the \
                     same key get the same response.",
                    $crate::directives::proxying_cache::key_note!($family)
                ),
                $crate::directives::proxying_cache::key,
            ),
            Row::new(
                concat!($family, "_cache_valid"),
                HSL,
                Arity::AtLeast(1),
                "",
                "How long responses with these statuses are fresh: statuses, or `any`, and a time. \
                 `any` leaves out what is about the request (400, 401, 407, 408, 411, 412, 413, \
                 415, 416, 417, 421, 422, 425, 426, 428, 429, 431), which has to be named. \
                 A time alone is for 200, 301 and 302. The first line that names the status \
                 counts; 0 keeps such responses out of the cache. X-Accel-Expires, Expires and \
                 Cache-Control of a response take precedence.",
                $crate::directives::proxying_cache::valid,
            ),
            Row::new(
                concat!($family, "_cache_bypass"),
                HSL,
                Arity::AtLeast(1),
                "",
                "Values, usually with variables. If one of them is neither empty nor `0`, the \
                 request is not answered from the cache; the response is still cached.",
                |b, c| predicates(b, c, |cache| &mut cache.bypass),
            ),
            Row::new(
                concat!($family, "_no_cache"),
                HSL,
                Arity::AtLeast(1),
                "",
                "Values, usually with variables. If one of them is neither empty nor `0` once \
                 the response is there, it is not cached.",
                |b, c| predicates(b, c, |cache| &mut cache.no_cache),
            ),
            Row::new(
                concat!($family, "_cache_purge"),
                HSL,
                Arity::AtLeast(1),
                "",
                concat!(
                    "Which requests remove what is cached. The first argument decides which of \
                     three forms it is. **With a variable** (or `0`, `1`): values as in nginx's \
                     commercial edition, such as `$purge` of `map $request_method $purge { PURGE \
                     1; }`. If one of them is neither empty nor `0`, the request is not passed on \
                     but purges its key with all variants: 204, or 404 if there is none. The other \
                     forms are those of ngx_cache_purge. **`on`, `off` or a method**, \
                     `METHOD [[purge_all] from all | ADDRESS ...]` (`on` is `PURGE`): requests \
                     with this method purge their key, with `purge_all` the whole zone, if they \
                     come from one of these addresses or networks, otherwise 403; in a location \
                     without `",
                    $family,
                    "_cache` they get 404. **A zone and a key**, `ZONE KEY`, in a location of its \
                     own: its requests purge this key. Both answer with 200 and what \
                     `cache_purge_response_type` says, or with 404 (see \
                     `cache_purge_legacy_status`) if there is no response of the key. In all forms \
                     a key that ends with `*` stands for all keys that begin with what is before \
                     it, and is purged whether or not there are any. Where no `from` says who \
                     may, those may who are let in by `allow`, `auth_basic`, `auth_request` or \
                     `ssl_verify_client on`: without any of them nobody, 403. Subrequests purge \
                     nothing."
                ),
                $crate::directives::proxying_cache::purge::purge,
            )
            .own(),
            Row::new(
                concat!($family, "_cache_purge_tags"),
                HSL,
                Arity::AtLeast(1),
                "",
                concat!(
                    "Values with variables, such as `$http_surrogate_key`. If they name tags, \
                     separated by spaces or commas, a request that `",
                    $family,
                    "_cache_purge` selects purges all responses with one of these tags in the \
                     place of its key: 204. The tags of a response are those in its fields \
                     `Surrogate-Key` and `Cache-Tag`, which clients do not get then, unless `",
                    $family,
                    "_pass_header` says so."
                ),
                |b, c| predicates(b, c, |cache| &mut cache.purge_tags),
            )
            .own(),
            Row::new(
                concat!($family, "_cache_methods"),
                HSL,
                Arity::AtLeast(1),
                "GET HEAD",
                "Request methods whose responses are cached: `GET`, `HEAD`, `POST`. The first two \
                 always are.",
                $crate::directives::proxying_cache::methods,
            ),
            Row::new(
                concat!($family, "_cache_min_uses"),
                HSL,
                ONE,
                "1",
                "How many requests for a key there must be until its response is cached.",
                |b, c| c.number(&mut upstream(b, c).cache.min_uses),
            ),
            Row::new(
                concat!($family, "_cache_lock"),
                HSL,
                ONE,
                "off",
                concat!(
                    "Whether of several requests for a key that is not cached only one is passed \
                     to a server, while the others wait for its response, at most `",
                    $family,
                    "_cache_lock_timeout`."
                ),
                |b, c| c.flag(&mut upstream(b, c).cache.lock),
            ),
            Row::new(
                concat!($family, "_cache_lock_timeout"),
                HSL,
                ONE,
                "5s",
                concat!(
                    "How long a request waits for `",
                    $family,
                    "_cache_lock`. Then it is passed to a server, and its response is not cached."
                ),
                |b, c| c.time(&mut upstream(b, c).cache.lock_timeout),
            ),
            Row::new(
                concat!($family, "_cache_lock_age"),
                HSL,
                ONE,
                "5s",
                concat!(
                    "After how long without a complete response one more request is passed to a \
                     server in spite of `",
                    $family,
                    "_cache_lock`."
                ),
                |b, c| c.time(&mut upstream(b, c).cache.lock_age),
            ),
            Row::new(
                concat!($family, "_cache_use_stale"),
                HSL,
                Arity::AtLeast(1),
                "off",
                concat!(
                    "When a cached response is served although it is no longer fresh: if a server \
                     fails in one of these ways (",
                    $stale,
                    "), or with `updating` while another request refreshes it. `error` includes \
                     that no server can be chosen. `off` cancels the rest."
                ),
                $crate::directives::proxying_cache::use_stale,
            ),
            Row::new(
                concat!($family, "_cache_background_update"),
                HSL,
                ONE,
                "off",
                concat!(
                    "Whether a response that is no longer fresh is refreshed by a subrequest while \
                     the client gets the old one. Needs `",
                    $family,
                    "_cache_use_stale updating`, or a Cache-Control field with \
                     `stale-while-revalidate`."
                ),
                |b, c| c.flag(&mut upstream(b, c).cache.background_update),
            ),
            Row::new(
                concat!($family, "_cache_revalidate"),
                HSL,
                ONE,
                "off",
                "Whether a response that is no longer fresh is refreshed with If-Modified-Since \
                 and If-None-Match, so that a server need not send it again.",
                |b, c| c.flag(&mut upstream(b, c).cache.revalidate),
            ),
            Row::new(
                concat!($family, "_cache_rules"),
                HSL,
                ONE,
                "nginx",
                concat!(
                    "By which rules responses are kept and served again: `nginx`, or `rfc9111` for a \
                     shared cache by RFC 9111, with `Cache-Status` (RFC 9211), `CDN-Cache-Control` \
                     (RFC 9213), `stale-while-revalidate` and `stale-if-error` (RFC 5861). With the \
                     latter `Age` is counted and sent, `Date` is the origin's, a 304 updates the \
                     fields that are kept, methods such as POST remove what their URI has in the \
                     cache, `Cache-Control` of requests counts, and `",
                    $family,
                    "_cache_revalidate` is on unless it is configured. X-Accel-Expires goes before \
                     what the standards say, `",
                    $family,
                    "_cache_valid` is for responses that do not say it themselves, and `",
                    $family,
                    "_cache_use_stale` does not serve what `must-revalidate` and the like forbid. \
                     What else differs is in `docs/differences.md`."
                ),
                $crate::directives::proxying_cache::rules,
            )
            .own(),
            Row::new(
                concat!($family, "_cache_max_range_offset"),
                HSL,
                ONE,
                "",
                "First byte of a range from which on a range request is passed to a server as it \
                 is, and its response not cached. By default there is no such byte.",
                |b, c| c.offset(&mut upstream(b, c).cache.max_range_offset),
            ),
        ]
    };
}
pub(super) use cache_rows;

/// What a family does without a key.
macro_rules! key_note {
    ("proxy") => {
        ""
    };
    ($family:literal) => {
        " Always set it with a cache: without it, all keys are empty, and there is a warning."
    };
}
pub(super) use key_note;

/// `*_cache`: a zone, or variables that make one.
pub(super) fn cache(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let family = family(c);
    let draft = upstream(b, c);
    c.once(&draft.cache.zone)?;
    if c.arg(1) == b"off" {
        draft.cache.zone = Some(CacheZoneDraft::Off);
        return Ok(());
    }
    if matches!(draft.store, Some(StoreDraft::ByUri | StoreDraft::At(_))) {
        return Err(c.refuse(&format!("is incompatible with \"{family}_store\"")));
    }
    let zone = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    let zone = if zone.as_literal().is_some() {
        let name = c.text(1)?;
        refer(b, name, family).map_err(|fault| fault.at_word(1))?;
        CacheZoneDraft::Named(name.into())
    } else {
        CacheZoneDraft::Evaluated(zone)
    };
    upstream(b, c).cache.zone = Some(zone);
    Ok(())
}

/// `*_cache_rules`.
pub(super) fn rules(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let choices = [
        ("nginx", CacheRules::Nginx),
        ("rfc9111", CacheRules::Rfc9111),
    ];
    c.choice(&mut upstream(b, c).cache.rules, &choices)
}

/// `*_cache_key`.
pub(super) fn key(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&upstream(b, c).cache.key)?;
    let key = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    upstream(b, c).cache.key = Some(key);
    Ok(())
}

/// `*_cache_bypass`, `*_no_cache` and `*_cache_purge_tags`; lines of a level add up.
pub(super) fn predicates(
    b: &mut Build<'_>,
    c: &Call<'_>,
    slot: fn(&mut CacheDraft) -> &mut Option<List<Template>>,
) -> Result<(), Fault> {
    let found = compiled(b, c)?;
    let values = slot(&mut upstream(b, c).cache).get_or_insert_default();
    found.into_iter().for_each(|value| values.push(value));
    Ok(())
}

/// The arguments as values.
fn compiled(b: &mut Build<'_>, c: &Call<'_>) -> Result<Vec<Template>, Fault> {
    let mut values = Vec::new();
    for (index, word) in c.args() {
        values.push(template::compile(&mut b.names, word, index, &c.origin)?);
    }
    Ok(values)
}

/// `*_cache_methods`.
pub(super) fn methods(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mut methods = upstream(b, c).cache.methods.unwrap_or_default();
    for (index, word) in c.args() {
        let method = match word.to_ascii_uppercase().as_slice() {
            b"GET" => &mut methods.get,
            b"HEAD" => &mut methods.head,
            b"POST" => &mut methods.post,
            _ => return Err(c.invalid(index)),
        };
        if std::mem::replace(method, true) {
            b.warn(format!("duplicate value \"{}\"", c.shown(index)));
        }
    }
    upstream(b, c).cache.methods = Some(methods);
    Ok(())
}

/// `*_cache_use_stale`.
pub(super) fn use_stale(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let set = upstream(b, c).cache.use_stale;
    let set = causes(b, c, set.unwrap_or(NextUpstream::NEVER))?;
    upstream(b, c).cache.use_stale = Some(set);
    Ok(())
}

/// `*_cache_valid`: statuses and a time.
pub(super) fn valid(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    const STATUSES: [u16; 3] = [200, 301, 302];
    let last = c.count();
    let time = values::seconds(c.arg(last)).ok_or_else(|| {
        let message = format!("invalid time value \"{}\"", c.shown(last));
        Fault::at(last, message)
    })?;
    let mut statuses = Vec::new();
    for (index, word) in c.args().take(last - 1) {
        let status = values::number(word).and_then(|status| u16::try_from(status).ok());
        statuses.push(match status {
            _ if word == b"any" => None,
            Some(100..=599) => status,
            _ => {
                let message = format!("invalid status \"{}\"", shown(word));
                return Err(Fault::at(index, message));
            }
        });
    }
    if statuses.is_empty() {
        statuses.extend(STATUSES.map(Some));
    }
    let valid = upstream(b, c).cache.valid.get_or_insert_default();
    for status in statuses {
        valid.push(CacheValid { status, time });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
