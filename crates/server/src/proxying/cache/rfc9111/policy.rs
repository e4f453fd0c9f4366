//! What the head of a response says about keeping it and serving it again (RFC 9111 sections 3 and
//! 4.2), as far as nothing but the head is needed.

use super::super::super::wire::UpstreamHead;
use sealane_cache::CacheHeader;
use sealane_conf::model::IgnoreHeaders;
use sealane_http::StatusCode;
use sealane_http::cache_control::{MAX_SECONDS, ResponseDirectives, Scope, seconds};
use sealane_http::date::parse_exact;
use sealane_http::headers::KnownHeader;

/// The name of the targeted field (RFC 9213).
const TARGETED: &[u8] = b"CDN-Cache-Control";

/// A response that says nothing is fresh for a tenth of the time since it was modified (RFC 9111
/// section 4.2.2), and no longer than a day.
const HEURISTIC_PART: i64 = 10;
const MAX_HEURISTIC_SECONDS: i64 = 86_400;

/// What a response says. Times are in seconds.
#[derive(Debug, Clone)]
pub(in crate::proxying::cache) struct Policy {
    status: StatusCode,
    /// Of `CDN-Cache-Control` if there is one, otherwise of `Cache-Control`.
    directives: ResponseDirectives,
    accel: Option<Accel>,
    lifetime: Lifetime,
    /// `Date`, since 1970.
    date_s: Option<i64>,
    /// `Age`.
    age_s: i64,
    /// `Last-Modified`, since 1970.
    last_modified_s: Option<i64>,
    has_etag: bool,
    sets_cookie: bool,
}

/// `X-Accel-Expires`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accel {
    /// So many seconds after the response was received; 0 is not at all.
    After(i64),
    /// At this time, since 1970.
    At(i64),
}

/// How long the origin says that the response is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    /// It does not say it.
    Unknown,
    /// From the time when it was made.
    Seconds(i64),
    /// `Expires`, since 1970.
    Until(i64),
}

/// What counts besides the response.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Circumstances {
    /// The request has `Authorization`.
    pub(super) is_authorized: bool,
    /// The request has `no-store`.
    pub(super) is_unwanted: bool,
    /// It asks for a piece (`slice`).
    pub(super) is_slice: bool,
    /// Stale responses are confirmed, so that they are of use (`cache_revalidate`).
    pub(super) revalidates: bool,
    /// `cache_valid` for the status: how long it is fresh.
    pub(super) configured_s: Option<i64>,
}

/// How a kept response stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxying::cache) struct Standing {
    /// How long it is still fresh; 0 or less if it is not.
    pub(super) fresh_s: i64,
    /// Its age.
    pub(super) age_s: i64,
    /// It must not be served without the origin once it is stale.
    pub(super) forbids_stale: bool,
    /// It is fresh, or says that it may be served while it is updated,
    pub(super) allows_updating: bool,
    /// and if the origin fails.
    pub(super) allows_error: bool,
}

impl Policy {
    /// Reads a head.
    pub(super) fn of(head: &UpstreamHead, ignored: IgnoreHeaders) -> Policy {
        let (buffer, parsed) = (&head.buffer, &head.parsed);
        let first = |name| parsed.get(name).map(|value| value.of(buffer));
        let targeted = match ignored.cache_control {
            true => None,
            false => ResponseDirectives::read_targeted(
                parsed
                    .headers
                    .iter()
                    .filter(|header| header.name.of(buffer).eq_ignore_ascii_case(TARGETED))
                    .map(|header| header.value.of(buffer)),
            ),
        };
        let is_targeted = targeted.is_some();
        let directives = targeted.unwrap_or_else(|| {
            let lines = parsed.get_all(KnownHeader::CacheControl);
            let lines = lines.filter(|_| !ignored.cache_control);
            ResponseDirectives::read(lines.map(|value| value.of(buffer)))
        });
        let expires = first(KnownHeader::Expires).filter(|_| !ignored.expires && !is_targeted);
        let lifetime = match (directives.s_maxage.or(directives.max_age), expires) {
            (Some(age), _) => Lifetime::Seconds(age.or_zero()),
            (None, Some(text)) => parse_exact(text).map_or(Lifetime::Seconds(0), Lifetime::Until),
            (None, None) => Lifetime::Unknown,
        };
        let accel = first(KnownHeader::XAccelExpires).filter(|_| !ignored.accel_expires);
        Policy {
            status: parsed.status,
            accel: accel.and_then(Accel::read),
            lifetime,
            date_s: first(KnownHeader::Date).and_then(parse_exact),
            age_s: first(KnownHeader::Age).map_or(0, age),
            last_modified_s: first(KnownHeader::LastModified).and_then(parse_exact),
            has_etag: parsed.has(KnownHeader::Etag),
            sets_cookie: parsed.has(KnownHeader::SetCookie) && !ignored.set_cookie,
            directives,
        }
    }

    /// The fields that are not kept.
    pub(super) fn omitted(&self) -> [&Scope; 2] {
        [&self.directives.no_cache, &self.directives.private]
    }

    /// For how many seconds a stale response may be served while it is updated, and if that fails.
    pub(super) fn stale_windows(&self) -> (i64, i64) {
        let directives = &self.directives;
        match self.forbids_stale() {
            true => (0, 0),
            false => (directives.stale_while_revalidate, directives.stale_if_error),
        }
    }

    /// `Date`, if it is one.
    pub(super) fn date_s(&self) -> Option<i64> {
        self.date_s
    }

    /// Until when the response is to be kept as fresh, if it was received at `received_s` (both
    /// since 1970); in the past if the origin has to confirm it before it is used. `None` if it is
    /// not kept.
    pub(super) fn kept_until(&self, received_s: i64, around: &Circumstances) -> Option<i64> {
        if !self.may_be_kept(around) {
            return None;
        }
        let stale_s = received_s - 1;
        let until_s = match (self.said_until(received_s), around.configured_s) {
            (Some(until_s), _) => until_s,
            (None, Some(0)) => return None,
            (None, Some(seconds)) => received_s.saturating_add(seconds),
            (None, None) => self.guessed_until(received_s).unwrap_or(stale_s),
        };
        let until_s = match self.is_never_fresh() {
            true => stale_s,
            false => until_s,
        };
        if until_s > received_s {
            return Some(until_s);
        }
        // What one client is told to remember goes to others only if the response is said to be
        // fresh for all of them.
        let is_confirmed = around.revalidates
            && self.status == StatusCode::OK
            && (self.has_etag || self.last_modified_s.is_some());
        let is_of_use = is_confirmed
            || !self.forbids_stale() && {
                let directives = &self.directives;
                directives
                    .stale_while_revalidate
                    .max(directives.stale_if_error)
                    > 0
            };
        (is_of_use && !self.sets_cookie).then_some(until_s.min(stale_s).max(1))
    }

    /// Whether a shared cache may keep it at all (RFC 9111 sections 3 and 3.5).
    fn may_be_kept(&self, around: &Circumstances) -> bool {
        let directives = &self.directives;
        let by_status = match self.status.0 {
            206 => around.is_slice,
            // RFC 6585.
            428 | 429 | 431 | 511 => false,
            ..200 | 304 => false,
            _ => !directives.must_understand || is_understood(self.status),
        };
        let by_directives = match self.accel {
            // As with nginx's rules, it takes their place.
            Some(Accel::After(0)) => false,
            Some(_) => true,
            None => {
                let is_refused = directives.no_store && !directives.must_understand;
                !is_refused && directives.private != Scope::Everything
            }
        };
        let by_cookie = !self.sets_cookie || self.lifetime != Lifetime::Unknown;
        let by_authorization = !around.is_authorized
            || directives.public
            || directives.must_revalidate
            || directives.s_maxage.is_some();
        by_status && by_directives && by_cookie && by_authorization && !around.is_unwanted
    }

    /// Until when the origin says that the response is fresh.
    fn said_until(&self, received_s: i64) -> Option<i64> {
        match self.accel {
            Some(Accel::At(time)) => return Some(time),
            Some(Accel::After(seconds)) => return Some(received_s.saturating_add(seconds)),
            None => {}
        }
        let lifetime_s = match self.lifetime {
            Lifetime::Unknown => return None,
            Lifetime::Seconds(seconds) => seconds,
            Lifetime::Until(time) => time.saturating_sub(self.made_s(received_s)),
        };
        Some(self.ends(received_s, lifetime_s.clamp(0, MAX_SECONDS)))
    }

    /// The same where nothing says it (RFC 9111 section 4.2.2).
    fn guessed_until(&self, received_s: i64) -> Option<i64> {
        if !is_cacheable_by_default(self.status) && !self.directives.public {
            return None;
        }
        let since_s = self
            .made_s(received_s)
            .saturating_sub(self.last_modified_s?);
        let lifetime_s = (since_s / HEURISTIC_PART).clamp(0, MAX_HEURISTIC_SECONDS);
        Some(self.ends(received_s, lifetime_s))
    }

    /// When the response was made; without a `Date`, when it was received.
    fn made_s(&self, received_s: i64) -> i64 {
        self.date_s.unwrap_or(received_s)
    }

    fn ends(&self, received_s: i64, lifetime_s: i64) -> i64 {
        received_s.saturating_add(lifetime_s - self.initial_age_s(received_s))
    }

    /// The age that the response had when it was received (RFC 9111 section 4.2.3). As `received_s`
    /// is the time at which it was asked for, the delay of the response is counted later.
    fn initial_age_s(&self, received_s: i64) -> i64 {
        let apparent_s = received_s.saturating_sub(self.made_s(received_s));
        apparent_s.max(self.age_s).clamp(0, MAX_SECONDS)
    }

    /// The age now.
    fn age_s(&self, received_s: i64, now_s: i64) -> i64 {
        let resident_s = now_s.saturating_sub(received_s).max(0);
        (self.initial_age_s(received_s) + resident_s).min(MAX_SECONDS)
    }

    /// Whether the origin has to confirm it before each use.
    fn is_never_fresh(&self) -> bool {
        let directives = &self.directives;
        let is_only_for_one = directives.private == Scope::Everything
            || directives.no_store && !directives.must_understand;
        let must_be_confirmed = directives.no_cache == Scope::Everything || is_only_for_one;
        self.accel.is_none() && must_be_confirmed
    }

    fn forbids_stale(&self) -> bool {
        let directives = &self.directives;
        match self.accel {
            // It takes the place of `no-cache` and `s-maxage`.
            Some(_) => directives.must_revalidate || directives.proxy_revalidate,
            None => directives.forbids_stale() || self.is_never_fresh(),
        }
    }

    /// How a response stands that was kept with this header.
    pub(super) fn standing(&self, header: &CacheHeader, now_s: i64) -> Standing {
        let received_s = header.date_s;
        // Another server, or other rules, may have kept it for longer.
        let until_s = match self.said_until(received_s) {
            Some(until_s) => until_s.min(header.valid_s),
            None => header.valid_s,
        };
        let fresh_s = match self.is_never_fresh() {
            true => -1,
            false => until_s.saturating_sub(now_s),
        };
        let forbids_stale = self.forbids_stale();
        let allows = |seconds: i64| !forbids_stale && fresh_s.saturating_add(seconds) > 0;
        Standing {
            fresh_s,
            age_s: self.age_s(received_s, now_s),
            forbids_stale,
            allows_updating: allows(self.directives.stale_while_revalidate),
            allows_error: allows(self.directives.stale_if_error),
        }
    }
}

impl Accel {
    /// As with nginx's rules, what is not a number is as if it were not there.
    fn read(value: &[u8]) -> Option<Accel> {
        match value.strip_prefix(b"@") {
            Some(time) => std::str::from_utf8(time).ok()?.parse().ok().map(Accel::At),
            None => seconds(value).map(Accel::After),
        }
    }
}

/// `Age`: of several numbers the first; what is none does not count (RFC 9111 section 5.1).
fn age(value: &[u8]) -> i64 {
    let first = value.split(|byte| *byte == b',').next();
    first
        .and_then(|text| seconds(text.trim_ascii()))
        .unwrap_or(0)
}

/// Statuses whose responses may be kept although nothing says for how long (RFC 9110 section
/// 15.1).
fn is_cacheable_by_default(status: StatusCode) -> bool {
    matches!(
        status.0,
        200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Statuses whose rules about caching are known here (`must-understand`).
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.0,
        200..=206 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 451 | 500..=505
    )
}

#[cfg(test)]
mod tests;
