//! `If-Modified-Since` and its relatives (RFC 9110 section 13).

use crate::exchange::Exchange;
use crate::proxying::cache_settings;
use sealane_conf::model::{CacheRules, IfModifiedSince as Configured};
use sealane_http::StatusCode;
use sealane_http::conditional::{IfModifiedSince, Preconditions, Validators, Verdict, evaluate};
use sealane_http::date;
use sealane_http::headers::KnownHeader;

/// Turns a 200 into 304 if the client has the current version.
///
/// # Errors
/// 412 when the client wants something else.
pub(super) fn apply(exchange: &mut Exchange) -> Result<(), StatusCode> {
    let head = &exchange.request.head;
    let asked = [
        KnownHeader::IfMatch,
        KnownHeader::IfUnmodifiedSince,
        KnownHeader::IfNoneMatch,
        KnownHeader::IfModifiedSince,
    ];
    if exchange.response.status != StatusCode::OK || !asked.iter().any(|name| head.has(*name)) {
        return Ok(());
    }
    let value = |name| head.get(name).map(|span| span.of(&exchange.request.buffer));
    let conditions = Preconditions {
        if_match: value(KnownHeader::IfMatch),
        if_unmodified_since: value(KnownHeader::IfUnmodifiedSince),
        if_none_match: value(KnownHeader::IfNoneMatch),
        if_modified_since: value(KnownHeader::IfModifiedSince),
    };
    let response = &exchange.response;
    let own_tag = response.etag.as_ref().map(|etag| etag.as_bytes());
    let validators = Validators {
        // That of a cached response is among its headers.
        etag: own_tag.or_else(|| response.headers.get_known(KnownHeader::Etag)),
        last_modified: response.last_modified_s,
    };
    let mode = match exchange.conf().if_modified_since {
        Configured::Off => IfModifiedSince::Off,
        Configured::Exact => IfModifiedSince::Exact,
        Configured::Before => IfModifiedSince::Before,
    };
    let (conditions, validators, mode) = match follows_rfc9111(exchange) {
        true => by_rfc9111(exchange, conditions, validators, mode),
        false => (conditions, validators, mode),
    };
    let verdict = match (validators.last_modified, validators.etag) {
        (None, None) => without_a_time(&conditions),
        _ => evaluate(&conditions, &validators, mode),
    };
    match verdict {
        Verdict::Proceed => {}
        Verdict::PreconditionFailed => return Err(StatusCode::PRECONDITION_FAILED),
        Verdict::NotModified => {
            let response = &mut exchange.response;
            response.status = StatusCode::NOT_MODIFIED;
            if let Some(passed) = &mut response.passed {
                passed.reason = None;
            }
            response.content_type = None;
            response.content_length = None;
            response.content_encoding = None;
            response.allow_ranges = false;
            response.body.clear();
        }
    }
    Ok(())
}

/// Whether the response comes from a cache that has these rules, or is one for it.
fn follows_rfc9111(exchange: &Exchange) -> bool {
    let pass = &exchange.snapshot.location(exchange.location).pass;
    let settings = pass.as_ref().and_then(cache_settings);
    exchange.response.is_cacheable
        && settings.is_some_and(|settings| settings.rules == CacheRules::Rfc9111)
}

/// The same by RFC 9110 section 13.2.2 and RFC 9111 section 4.3.2: tags decide alone, a time need
/// not be the same, and a response without one is as old as its `Date`.
fn by_rfc9111<'a>(
    exchange: &'a Exchange,
    mut conditions: Preconditions<'a>,
    mut validators: Validators<'a>,
    mode: IfModifiedSince,
) -> (Preconditions<'a>, Validators<'a>, IfModifiedSince) {
    if conditions.if_match.is_some() {
        conditions.if_unmodified_since = None;
    }
    if conditions.if_none_match.is_some() {
        conditions.if_modified_since = None;
    }
    if conditions.if_modified_since.is_some() && validators.last_modified.is_none() {
        let date = exchange.response.headers.get_known(KnownHeader::Date);
        validators.last_modified = date.and_then(date::parse);
    }
    let mode = match mode {
        IfModifiedSince::Off => IfModifiedSince::Off,
        IfModifiedSince::Exact | IfModifiedSince::Before => IfModifiedSince::Before,
    };
    (conditions, validators, mode)
}

/// The verdict on a response that is not a file (`return`, `autoindex`, `stub_status`): it has
/// neither a time nor a tag, so only `*` can match.
fn without_a_time(conditions: &Preconditions<'_>) -> Verdict {
    let any = |list: Option<&[u8]>| list == Some(b"*");
    if conditions.if_unmodified_since.is_some()
        || (conditions.if_match.is_some() && !any(conditions.if_match))
    {
        return Verdict::PreconditionFailed;
    }
    if conditions.if_modified_since.is_none() && any(conditions.if_none_match) {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}
