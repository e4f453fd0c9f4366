//! Whether what there is may be served, and the fields that it gets.

use super::super::super::PassRuntime;
use super::super::super::wire::UpstreamHead;
use super::super::fill::Fill;
use super::super::stored::StoredResponse;
use super::super::{CacheState, CacheStatus, answer, state, state_mut, update};
use super::policy::{Policy, Standing};
use super::status::{CACHE_STATUS, Course, Forward};
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use sealane_cache::{CacheHeader, Visit};
use sealane_conf::model::{CacheSettings, NextUpstreamCause};
use sealane_http::StatusCode;
use sealane_http::cache_control::RequestDirectives;
use sealane_http::date::ImfDate;
use sealane_http::headers::KnownHeader;
use sealane_sys::time::unix_coarse_s;
use std::sync::Arc;
use std::time::Instant;

/// What becomes of a request for which there is a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is fresh.
    Serve,
    /// It is not, but the client takes it.
    ServeStale,
    /// The origin is asked.
    Ask(Forward),
}

impl Standing {
    /// What the rules say, with the wishes of the client (RFC 9111 section 5.2.1).
    fn verdict(&self, wishes: &RequestDirectives) -> Verdict {
        let is_too_old = wishes.max_age.is_some_and(|most| self.age_s > most);
        let is_too_near = wishes.min_fresh.is_some_and(|least| self.fresh_s < least);
        if self.fresh_s > 0 {
            return match wishes.no_cache || is_too_old || is_too_near {
                true => Verdict::Ask(Forward::Request),
                false => Verdict::Serve,
            };
        }
        let is_taken = wishes.max_stale.is_some_and(|most| -self.fresh_s <= most);
        let is_wanted = !wishes.no_cache && !is_too_old && !is_too_near;
        match is_taken && is_wanted && !self.forbids_stale {
            true => Verdict::ServeStale,
            false => Verdict::Ask(Forward::Stale),
        }
    }
}

/// Whether a response may be served at once, whether it is kept or still being received (RFC 9111
/// section 4). With other rules that is decided elsewhere.
pub(in crate::proxying::cache) fn serves(
    state: &CacheState,
    pass: &PassRuntime,
    header: &CacheHeader,
    head: &UpstreamHead,
) -> bool {
    if !state.lookup.is_on {
        return true;
    }
    let policy = Policy::of(head, pass.settings().ignore_headers);
    let standing = policy.standing(header, unix_coarse_s());
    standing.verdict(&state.lookup.wishes) == Verdict::Serve
}

/// There is a file that may not be served just so: answers with it, unless the origin has to be
/// asked. `None` is for that.
///
/// # Errors
/// The status for clients that want nothing else than what there is.
pub(in crate::proxying::cache) fn not_fresh(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    mut visit: Visit<Fill>,
    stored: Box<StoredResponse>,
    head: Arc<UpstreamHead>,
) -> Result<Option<Outcome>, StatusCode> {
    let Some(state) = state_mut(exchange) else {
        return Ok(None);
    };
    let policy = Policy::of(&head, pass.settings().ignore_headers);
    let standing = policy.standing(&stored.header, unix_coarse_s());
    let why = match standing.verdict(&state.lookup.wishes) {
        Verdict::Ask(why) => why,
        Verdict::Serve | Verdict::ServeStale => {
            state.status = CacheStatus::Stale;
            return Ok(Some(answer::from_file(exchange, pass, head, *stored)));
        }
    };
    state.allows_stale = standing.allows_error;
    state.lookup.forbids_stale = standing.forbids_stale;
    let is_wanted = why == Forward::Stale && !state.lookup.wishes.no_cache;
    let by_setting =
        settings.use_stale.contains(NextUpstreamCause::Updating) && !standing.forbids_stale;
    let allows_updating = is_wanted && (standing.allows_updating || by_setting);
    let updates = standing.allows_updating || settings.background_update;
    let is_ours = visit.lock_stale(Instant::now());
    let served = match is_ours {
        true if allows_updating && updates => Some(CacheStatus::Stale),
        false if allows_updating => Some(CacheStatus::Updating),
        _ => None,
    };
    if let Some(status) = served {
        state.status = status;
        if is_ours {
            update::begin(exchange, visit, stored.clone());
        }
        return Ok(Some(answer::from_file(exchange, pass, head, *stored)));
    }
    state.lookup.nothing(why)?;
    state.status = CacheStatus::Expired;
    state.stale = Some(stored);
    state.visit = Some(visit);
    Ok(None)
}

/// The response comes from the cache: it gets its age, its own date, and `Cache-Status`.
pub(in crate::proxying::cache) fn note_served(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    head: &UpstreamHead,
    header: &CacheHeader,
    is_collapsed: bool,
) {
    let Some(state) = state(exchange).filter(|state| state.lookup.is_on) else {
        return;
    };
    let policy = Policy::of(head, pass.settings().ignore_headers);
    let standing = policy.standing(header, unix_coarse_s());
    let asked = match is_collapsed {
        true => Some(Forward::UriMiss),
        false => state.lookup.forward,
    };
    let course = Course {
        forward: asked,
        forward_status: state.lookup.origin.map(|status| status.0),
        fresh_s: Some(standing.fresh_s),
        is_stored: false,
        is_collapsed,
    };
    let has_age = state.status != CacheStatus::Revalidated || head.parsed.has(KnownHeader::Age);
    exchange.response.headers.remove(b"Age");
    // What the origin has just confirmed has none, unless another cache did so in its place.
    if has_age {
        push(
            exchange,
            KnownHeader::Age.name().as_bytes(),
            standing.age_s.to_string().as_bytes(),
        );
    }
    let date_s = policy.date_s().unwrap_or(header.date_s);
    finish(exchange, pass, head, Some(date_s), &course);
}

/// What all responses get whose location has these rules.
pub(super) fn finish(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    head: &UpstreamHead,
    date_s: Option<i64>,
    course: &Course,
) {
    let response = &mut exchange.response;
    if let Some(date_s) = date_s {
        response.headers.remove(b"Date");
        let date = ImfDate::new(date_s);
        let _ = response.headers.push(b"Date", date.as_bytes());
        if let Some(passed) = &mut response.passed {
            passed.date = true;
        }
    }
    let accepts = head.parsed.get(KnownHeader::AcceptRanges);
    let refuses = accepts.is_some_and(|value| value.of(&head.buffer).eq_ignore_ascii_case(b"none"));
    let is_whole = response.status == StatusCode::OK && response.content_length.is_some();
    if response.is_cacheable && is_whole {
        response.headers.remove(b"Accept-Ranges");
        response.allow_ranges = !refuses;
        response.single_range = true;
    }
    if !pass.settings().hidden_headers.contains(CACHE_STATUS) {
        push(exchange, CACHE_STATUS, course.member().as_bytes());
    }
}

fn push(exchange: &mut Exchange, name: &[u8], value: &[u8]) {
    // Made here, of characters that are allowed.
    let _ = exchange.response.headers.push(name, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_count_as_rfc_9111_has_them() {
        let fresh = Standing {
            fresh_s: 10,
            age_s: 5,
            forbids_stale: false,
            allows_updating: false,
            allows_error: false,
        };
        let stale = Standing {
            fresh_s: -10,
            ..fresh
        };
        let strict = Standing {
            forbids_stale: true,
            ..stale
        };
        let verdict = |standing: Standing, wishes: &str| {
            let wishes = RequestDirectives::read([wishes.as_bytes()].into_iter());
            standing.verdict(&wishes)
        };
        let (by_request, by_age) = (Verdict::Ask(Forward::Request), Verdict::Ask(Forward::Stale));
        for (standing, wishes, expected) in [
            (fresh, "", Verdict::Serve),
            (fresh, "no-store", Verdict::Serve),
            (fresh, "no-cache", by_request),
            (fresh, "max-age=5", Verdict::Serve),
            (fresh, "max-age=4", by_request),
            (fresh, "max-age=0, max-stale", by_request),
            (fresh, "min-fresh=10", Verdict::Serve),
            (fresh, "min-fresh=11", by_request),
            (stale, "", by_age),
            (stale, "max-stale=9", by_age),
            (stale, "max-stale=10", Verdict::ServeStale),
            (stale, "max-stale", Verdict::ServeStale),
            (stale, "max-stale, no-cache", by_age),
            (stale, "max-stale, max-age=4", by_age),
            (stale, "max-stale, min-fresh=1", by_age),
            (strict, "max-stale", by_age),
        ] {
            assert_eq!(verdict(standing, wishes), expected, "{wishes:?}");
        }
    }
}
