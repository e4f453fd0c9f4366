//! Whether a response of the origin is kept.

use super::super::super::PassRuntime;
use super::super::super::wire::UpstreamHead;
use super::super::freshness::Freshness;
use super::super::look::variant_of;
use super::super::{form, state};
use super::policy::{Circumstances, Policy};
use super::serve::finish;
use super::status::{Course, Forward};
use super::{head, vary};
use crate::exchange::Exchange;
use sealane_conf::model::CacheSettings;
use sealane_http::date::ImfDate;
use sealane_http::headers::KnownHeader;
use sealane_http::{Method, StatusCode};
use sealane_sys::time::unix_coarse_s;
use std::sync::Arc;

/// When the last response was asked for, in seconds since 1970. The time that it took counts as
/// its age (RFC 9111 section 4.2.3).
pub(in crate::proxying::cache) fn received_s(exchange: &Exchange) -> i64 {
    let states = exchange.upstream.as_deref();
    let attempt = states.and_then(|states| states.attempts.last());
    let delay_s = attempt.map_or(0, |attempt| attempt.started.elapsed().as_secs());
    unix_coarse_s() - i64::try_from(delay_s).unwrap_or(0)
}

/// What counts besides a response with this status.
pub(super) fn circumstances(
    exchange: &Exchange,
    settings: &CacheSettings,
    status: StatusCode,
) -> Circumstances {
    let configured = settings.valid(status.0);
    Circumstances {
        is_authorized: exchange.request.head.has(KnownHeader::Authorization),
        is_unwanted: state(exchange).is_some_and(|state| state.lookup.wishes.no_store),
        is_slice: exchange.features.slice.asks(),
        revalidates: settings.revalidate,
        configured_s: configured.map(|time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX)),
    }
}

/// Whether, and until when, a response is kept.
pub(in crate::proxying::cache) fn freshness(
    exchange: &Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    head: &UpstreamHead,
    received_s: i64,
) -> Freshness {
    let ignored = pass.settings().ignore_headers;
    let policy = Policy::of(head, ignored);
    let around = circumstances(exchange, settings, head.parsed.status);
    let Some(valid_s) = policy.kept_until(received_s, &around) else {
        return Freshness::refused();
    };
    let names = match ignored.vary {
        true => Some(Vec::new()),
        false => names(exchange, head),
    };
    let Some(names) = names else {
        return Freshness::refused();
    };
    let (updating_s, error_s) = policy.stale_windows();
    Freshness::kept(valid_s, updating_s, error_s, names)
}

/// The names of `Vary` as they are kept. A response that is another variant than the one that was
/// looked for takes the key's own place, and what was kept for the names there is not found any
/// more.
fn names(exchange: &Exchange, head: &UpstreamHead) -> Option<Vec<u8>> {
    let named = |generation| {
        let lines = head.parsed.get_all(KnownHeader::Vary);
        vary::names(lines.map(|line| line.of(&head.buffer)), generation)
    };
    let state = state(exchange)?;
    let stale = state.stale.as_deref();
    let of_stale = stale.and_then(|stale| vary::generation(&stale.header.vary));
    let Some(known) = state.lookup.generation.clone().or(of_stale) else {
        return named(vary::new_generation());
    };
    let names = named(known)?;
    let is_variant = state.hash != state.key.hash();
    match is_variant && variant_of(exchange, &state.key, &names) != state.hash {
        true => named(vary::new_generation()),
        false => Some(names),
    }
}

/// The head as it is kept, without the form of the protocol.
pub(super) fn kept_text(pass: &PassRuntime, head: &UpstreamHead, received_s: i64) -> Vec<u8> {
    let policy = Policy::of(head, pass.settings().ignore_headers);
    let date = match policy.date_s() {
        Some(_) => None,
        None => Some(ImfDate::new(received_s)),
    };
    let text = form::text(pass.speaks_http2(), head);
    head::kept(
        &text,
        &policy.omitted(),
        date.as_ref().map(|date| &date.as_bytes()[..]),
    )
}

/// The head as it is kept, in the form of files, and for those who get it before it is in one.
pub(in crate::proxying::cache) fn as_kept(
    pass: &PassRuntime,
    head: &UpstreamHead,
    received_s: i64,
) -> Option<(Vec<u8>, Arc<UpstreamHead>)> {
    let kept = form::wrap(&pass.pass, kept_text(pass, head, received_s));
    let shared = form::decode(&pass.pass, &kept)?;
    Some((kept, shared))
}

/// The response is the origin's: its date stays, and `Cache-Status` says why it was asked.
pub(in crate::proxying::cache) fn note_passed_on(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    head: &UpstreamHead,
    is_stored: bool,
) {
    let forward = state(exchange).and_then(|state| state.lookup.forward);
    let policy = Policy::of(head, pass.settings().ignore_headers);
    // Without a look into the cache, because of the method or of the configuration.
    let unseen = match exchange.request.head.method {
        Method::Get | Method::Head => Forward::Bypass,
        _ => Forward::Method,
    };
    let course = Course {
        forward: Some(forward.unwrap_or(unseen)),
        is_stored,
        ..Course::default()
    };
    finish(exchange, pass, head, policy.date_s(), &course);
}
