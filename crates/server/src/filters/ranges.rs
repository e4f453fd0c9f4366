//! Ranges: 206, 416 and `multipart/byteranges` (RFC 9110 section 14).

use super::has_head;
use super::ranged_source::RangedSource;
use super::slice;
use crate::exchange::{ContentType, Exchange};
use sealane_http::StatusCode;
use sealane_http::headers::KnownHeader;
use sealane_http::range::{self, ByteRange, Multipart, RangeOutcome};
use sealane_io::chain::OutputChain;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// Cuts the response to the ranges that the client asked for.
///
/// # Errors
/// 416; the `Content-Range` header that belongs to it is added already.
pub(super) fn apply(exchange: &mut Exchange) -> Result<(), StatusCode> {
    let conf = exchange.conf();
    let response = &exchange.response;
    let possible = response.allow_ranges
        && response.status == StatusCode::OK
        && conf.max_ranges != Some(0)
        && has_head(exchange);
    let Some(total_bytes) = response.content_length.filter(|_| possible) else {
        exchange.response.allow_ranges = false;
        return Ok(());
    };
    let max_ranges = match response.single_range {
        true => 1,
        false => conf.max_ranges.map_or(usize::MAX, |max| max as usize),
    };
    match wanted(exchange, total_bytes, max_ranges) {
        RangeOutcome::Whole => Ok(()),
        RangeOutcome::Single(range) => {
            send_one(exchange, range, total_bytes);
            Ok(())
        }
        // A body of another server, or one that is filtered, can be read once: as in nginx, only
        // one range of it is served.
        RangeOutcome::Multiple(_)
            if (exchange.response.from_upstream && !exchange.response.is_cacheable)
                || exchange.response.source.is_some() =>
        {
            Ok(())
        }
        RangeOutcome::Multiple(ranges) => {
            send_several(exchange, &ranges, total_bytes);
            Ok(())
        }
        RangeOutcome::NotSatisfiable => {
            let mut value = Vec::with_capacity(32);
            range::push_unsatisfied_content_range(&mut value, total_bytes);
            push_content_range(exchange, &value);
            Err(StatusCode::RANGE_NOT_SATISFIABLE)
        }
    }
}

/// How much the head of a part counts when the size of a multipart response is limited.
const PART_HEAD_BYTES: u64 = 256;

/// By how much such a response may exceed the file.
const PARTS_ALLOWANCE_BYTES: u64 = 4096;

/// Whether the ranges, with the heads of their parts, are larger than the file itself: then, as in
/// nginx since 1.29.5, the whole file is sent, as many tiny ranges would otherwise inflate it.
/// `max_ranges` overrides the limit.
fn is_wasteful(ranges: &[ByteRange], total_bytes: u64) -> bool {
    // Ranges lie within the file and are fewer than a request head has bytes.
    let sum_bytes: u64 = ranges
        .iter()
        .map(|range| range.bytes() + PART_HEAD_BYTES)
        .sum();
    sum_bytes > total_bytes + PARTS_ALLOWANCE_BYTES
}

fn wanted(exchange: &Exchange, total_bytes: u64, max_ranges: usize) -> RangeOutcome {
    let head = &exchange.request.head;
    let value = |name| head.get(name).map(|span| span.of(&exchange.request.buffer));
    let Some(asked) = value(KnownHeader::Range) else {
        return RangeOutcome::Whole;
    };
    if let Some(if_range) = value(KnownHeader::IfRange) {
        let response = &exchange.response;
        let etag = response.etag.as_ref().map(|etag| etag.as_bytes());
        let etag = etag.or_else(|| response.headers.get_known(KnownHeader::Etag));
        if !range::if_range_applies(if_range, etag, response.last_modified_s) {
            return RangeOutcome::Whole;
        }
    }
    match range::evaluate(asked, total_bytes, max_ranges) {
        RangeOutcome::Multiple(ranges)
            if exchange.conf().max_ranges.is_none() && is_wasteful(&ranges, total_bytes) =>
        {
            RangeOutcome::Whole
        }
        outcome => outcome,
    }
}

fn send_one(exchange: &mut Exchange, range: ByteRange, total_bytes: u64) {
    let mut value = Vec::with_capacity(64);
    range.push_content_range(&mut value, total_bytes);
    push_content_range(exchange, &value);
    let response = &mut exchange.response;
    response.status = StatusCode::PARTIAL_CONTENT;
    response.allow_ranges = false;
    response.content_length = Some(range.bytes());
    if let Some(passed) = &mut response.passed {
        passed.reason = None;
    }
    if slice::set_range(exchange, range.start..range.start + range.bytes()) {
        return;
    }
    let response = &mut exchange.response;
    if let Some(source) = response.source.take() {
        let body = &mut response.body;
        let ranged = source.wrap(|inner| Box::new(RangedSource::new(inner, range, body)));
        response.source = Some(ranged);
    } else {
        response.body = response.body.slice(range.start, range.bytes());
    }
}

fn send_several(exchange: &mut Exchange, ranges: &[ByteRange], total_bytes: u64) {
    let response = &mut exchange.response;
    let part_type = response.content_type.take();
    let part_type = part_type.as_ref().map(|text| text.as_bytes());
    let multipart = Multipart::new(next_boundary(), part_type, total_bytes);
    let mut content_type = Vec::with_capacity(64);
    multipart.push_content_type(&mut content_type);
    let mut body = OutputChain::new();
    for range in ranges {
        let mut head = Vec::with_capacity(160);
        multipart.push_part_head(&mut head, *range);
        body.push_bytes(head);
        body.append(response.body.slice(range.start, range.bytes()));
    }
    let mut end = Vec::with_capacity(32);
    multipart.push_end(&mut end);
    body.push_bytes(end);
    response.status = StatusCode::PARTIAL_CONTENT;
    response.headers.remove(b"Content-Range");
    response.allow_ranges = false;
    response.content_type = ContentType::new(&content_type);
    response.content_length = Some(multipart.body_bytes(ranges));
    response.body = body;
}

fn push_content_range(exchange: &mut Exchange, value: &[u8]) {
    // A response of another server may bring one that makes no sense.
    exchange.response.headers.remove(b"Content-Range");
    // Digits and a few signs: the list has nothing to refuse.
    let _ = exchange
        .response
        .headers
        .push_known(KnownHeader::ContentRange, value);
}

thread_local! {
    static BOUNDARY: Cell<u64> = Cell::new(RandomState::new().hash_one(0u8));
}

/// A random number for a boundary, which the author of a file cannot predict.
fn next_boundary() -> u64 {
    BOUNDARY.with(|next| {
        let number = next.get();
        next.set(number.wrapping_add(1));
        number
    })
}
