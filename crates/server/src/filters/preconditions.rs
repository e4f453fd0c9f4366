//! `If-Modified-Since` and its relatives (RFC 9110 section 13).

use crate::exchange::Exchange;
use sealane_conf::model::IfModifiedSince as Configured;
use sealane_http::StatusCode;
use sealane_http::conditional::{IfModifiedSince, Preconditions, Validators, Verdict, evaluate};
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
