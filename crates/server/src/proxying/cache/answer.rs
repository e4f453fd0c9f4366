//! Responses that come from the cache.

use super::super::wire::UpstreamHead;
use super::super::{PassRuntime, accel, response};
use super::fill::{Fill, FillReader};
use super::hot::HotResponse;
use super::rfc9111;
use super::stored::StoredResponse;
use crate::body_source::PendingBody;
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use sealane_cache::CacheHeader;
use sealane_http::Method;
use sealane_http::h1::ResponseFraming;
use sealane_http::headers::KnownHeader;
use std::sync::Arc;

/// Whether a file has the body that its head announces.
pub(super) fn is_whole(exchange: &Exchange, head: &UpstreamHead, stored: &StoredResponse) -> bool {
    let announced = match head.parsed.framing(Method::Get) {
        ResponseFraming::Length(bytes) => bytes,
        ResponseFraming::None => 0,
        ResponseFraming::Chunked | ResponseFraming::UntilClose => return true,
    };
    // A response to HEAD that was kept as such (`cache_convert_head off`) has no body.
    let has_none = stored.body_bytes() == 0 && exchange.request.head.method == Method::Head;
    stored.body_bytes() == announced || has_none
}

/// Answers with a file.
pub(super) fn from_file(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    head: Arc<UpstreamHead>,
    stored: StoredResponse,
) -> Outcome {
    if let Some(outcome) = begin(exchange, pass, head, &stored.header, false) {
        return outcome;
    }
    let offset = u64::from(stored.header.body_start);
    let bytes = stored.body_bytes();
    let response = &mut exchange.response;
    response.body.clear();
    response.body.push_file(stored.file, offset, bytes);
    Outcome::Answered
}

/// Answers with a response in memory.
pub(super) fn from_memory(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    hot: &HotResponse,
) -> Outcome {
    let head = Arc::clone(&hot.head);
    if let Some(outcome) = begin(exchange, pass, head, &hot.header, false) {
        return outcome;
    }
    let response = &mut exchange.response;
    response.body.clear();
    response.body.push_bytes(hot.body.clone());
    Outcome::Answered
}

/// Answers with a response that is being received for another request.
pub(super) fn from_fill(exchange: &mut Exchange, pass: &PassRuntime, fill: Arc<Fill>) -> Outcome {
    let head = Arc::clone(&fill.head);
    let is_collapsed = !fill.is_complete();
    if let Some(outcome) = begin(exchange, pass, head, &fill.header, is_collapsed) {
        return outcome;
    }
    let mut reader = FillReader::new(fill, false);
    let response = &mut exchange.response;
    response.body.clear();
    if !reader.take_at_once(&mut response.body) {
        response.single_range = true;
        response.source = Some(PendingBody::new(reader));
    }
    Outcome::Answered
}

/// Turns a head into the client's.
fn begin(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    head: Arc<UpstreamHead>,
    header: &CacheHeader,
    is_collapsed: bool,
) -> Option<Outcome> {
    let settings = pass.settings();
    accel::apply(exchange, &head, settings);
    if let Some(outcome) = accel::redirect(exchange, &head, pass) {
        return Some(outcome);
    }
    let framing = head.parsed.framing(Method::Get);
    response::copy_head(
        exchange,
        &head,
        framing,
        settings,
        |exchange, name, value| pass.rewrite_header(exchange, name, value),
    );
    mark(exchange, &head, true);
    rfc9111::note_served(exchange, pass, &head, header, is_collapsed);
    exchange.response.single_range = false;
    if let Some(states) = exchange.upstream.as_deref_mut() {
        states.head = Some(head);
        if let Some(state) = &mut states.cache {
            state.date_s = Some(header.date_s);
        }
    }
    None
}

/// The response is, or becomes, one of the cache: we answer conditions and ranges ourselves.
pub(super) fn mark(exchange: &mut Exchange, head: &UpstreamHead, is_cached: bool) {
    let response = &mut exchange.response;
    response.is_cacheable = true;
    if head.parsed.get(KnownHeader::AcceptRanges).is_some() {
        response.headers.remove(b"Accept-Ranges");
        response.allow_ranges = response.content_length.is_some();
        response.single_range = !is_cached;
    }
}
