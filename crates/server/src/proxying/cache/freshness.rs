//! How long a response may be served, by nginx's rules.
//!
//! The fields count in the order in which they were received, as in nginx: `X-Accel-Expires` over
//! all others, `Cache-Control` over an `Expires` that follows it. What nothing says is said by
//! `*_cache_valid`.

use super::super::wire::UpstreamHead;
use sealane_cache::CacheHeader;
use sealane_conf::model::IgnoreHeaders;
use sealane_http::date;
use sealane_http::headers::KnownHeader;

/// What the head of a response says about keeping it. Times are in seconds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Freshness {
    /// Until when it is fresh, since 1970; 0 if nothing says so.
    pub(super) valid_s: i64,
    /// How long after that it may be served while it is updated.
    pub(super) updating_s: i64,
    /// And when updating it fails.
    pub(super) error_s: i64,
    /// The fields of `Vary`.
    pub(super) vary: Vec<u8>,
    /// `X-Accel-Expires` was there, whatever it said.
    has_accel: bool,
    /// `no-cache`, `no-store`, `private` or an age of zero.
    is_refused: bool,
    /// `Expires` is in the past.
    is_expired: bool,
    /// It must not be kept, and no other field changes that.
    is_forbidden: bool,
}

impl Freshness {
    /// Reads a head that was received at `now_s`.
    pub(super) fn of(head: &UpstreamHead, ignored: IgnoreHeaders, now_s: i64) -> Freshness {
        let mut freshness = Freshness::default();
        for header in &head.parsed.headers {
            let value = header.value.of(&head.buffer);
            match header.known {
                Some(KnownHeader::XAccelExpires) if !ignored.accel_expires => {
                    freshness.accel_expires(value, now_s);
                }
                Some(KnownHeader::CacheControl) if !ignored.cache_control => {
                    freshness.cache_control(value, now_s);
                }
                Some(KnownHeader::Expires) if !ignored.expires => {
                    freshness.expires(value, now_s);
                }
                Some(KnownHeader::SetCookie) if !ignored.set_cookie => {
                    freshness.is_forbidden = true;
                }
                Some(KnownHeader::Vary) if !ignored.vary => freshness.vary(value),
                _ => {}
            }
        }
        freshness
    }

    /// What other rules have found: the response is not kept.
    pub(super) fn refused() -> Freshness {
        Freshness {
            is_forbidden: true,
            ..Freshness::default()
        }
    }

    /// What other rules have found: it is kept, as fresh until `valid_s`, which is not 0.
    pub(super) fn kept(valid_s: i64, updating_s: i64, error_s: i64, vary: Vec<u8>) -> Freshness {
        Freshness {
            valid_s,
            updating_s,
            error_s,
            vary,
            ..Freshness::default()
        }
    }

    /// Whether it may be kept at all.
    pub(super) fn allows(&self) -> bool {
        !self.is_forbidden && !self.is_refused && !self.is_expired
    }

    fn accel_expires(&mut self, value: &[u8], now_s: i64) {
        self.has_accel = true;
        let (value, begin_s) = match value.strip_prefix(b"@") {
            Some(time) => (time, 0),
            None => (value, now_s),
        };
        match digits(value) {
            None => {}
            Some(0) if begin_s > 0 => self.is_forbidden = true,
            Some(seconds) => {
                self.valid_s = begin_s.saturating_add(seconds);
                self.is_refused = false;
                self.is_expired = false;
            }
        }
    }

    fn cache_control(&mut self, value: &[u8], now_s: i64) {
        let value = value.to_ascii_lowercase();
        if !(self.valid_s != 0 && self.has_accel) {
            let has = |word: &[u8]| memchr::memmem::find(&value, word).is_some();
            if has(b"no-cache") || has(b"no-store") || has(b"private") {
                self.is_refused = true;
                return;
            }
            let age = seconds(&value, b"s-maxage=").or_else(|| seconds(&value, b"max-age="));
            match age {
                None => {}
                Some(Err(NotANumber)) => {
                    self.is_forbidden = true;
                    return;
                }
                Some(Ok(0)) => {
                    self.is_refused = true;
                    return;
                }
                Some(Ok(age)) => {
                    self.valid_s = now_s.saturating_add(age);
                    self.is_expired = false;
                }
            }
        }
        match seconds(&value, b"stale-while-revalidate=") {
            None => {}
            Some(Err(NotANumber)) => {
                self.is_forbidden = true;
                return;
            }
            Some(Ok(seconds)) => {
                self.updating_s = seconds;
                self.error_s = seconds;
            }
        }
        match seconds(&value, b"stale-if-error=") {
            None => {}
            Some(Err(NotANumber)) => self.is_forbidden = true,
            Some(Ok(seconds)) => self.error_s = seconds,
        }
    }

    fn expires(&mut self, value: &[u8], now_s: i64) {
        if self.valid_s != 0 {
            return;
        }
        match date::parse(value) {
            Some(time) if time >= now_s => self.valid_s = time,
            _ => self.is_expired = true,
        }
    }

    fn vary(&mut self, value: &[u8]) {
        if !self.vary.is_empty() {
            self.vary.extend_from_slice(b", ");
        }
        self.vary.extend_from_slice(value);
        // nginx looks for a star that is alone in its line; it means the same in a list.
        let mut names = value.split(|byte| matches!(byte, b',' | b' '));
        self.is_forbidden |=
            names.any(|name| name == b"*") || self.vary.len() > CacheHeader::MAX_VARY_BYTES;
    }
}

struct NotANumber;

/// The number behind a word; `None` if the word is not there.
fn seconds(value: &[u8], word: &[u8]) -> Option<Result<i64, NotANumber>> {
    let begin = memchr::memmem::find(value, word)? + word.len();
    let rest = &value[begin..];
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b',' | b';' | b' '));
    let text = &rest[..end.unwrap_or(rest.len())];
    let mut number: i64 = 0;
    for byte in text {
        if !byte.is_ascii_digit() {
            return Some(Err(NotANumber));
        }
        number = number
            .saturating_mul(10)
            .saturating_add(i64::from(byte - b'0'));
    }
    Some(Ok(number))
}

/// A number without anything else.
fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn of(fields: &str) -> Freshness {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n").replace("|", "\r\n");
        let head = UpstreamHead::of_text(text);
        Freshness::of(&head, IgnoreHeaders::default(), NOW)
    }

    #[test]
    fn fields_decide_in_their_order() {
        let valid = |fields: &str| {
            let freshness = of(fields);
            freshness.allows().then_some(freshness.valid_s)
        };
        for (fields, seconds) in [
            ("", Some(0)),
            ("Cache-Control: max-age=5|", Some(NOW + 5)),
            ("Cache-Control: MAX-AGE=5, s-maxage=6|", Some(NOW + 6)),
            ("Cache-Control: max-age=0|", None),
            ("Cache-Control: max-age=x|", None),
            (
                "Cache-Control: max-age=99999999999999999999|",
                Some(i64::MAX),
            ),
            ("Cache-Control: no-cache|", None),
            ("Cache-Control: private=\"x\"|", None),
            ("X-Accel-Expires: 7|Cache-Control: no-store|", Some(NOW + 7)),
            ("Cache-Control: no-store|X-Accel-Expires: 7|", Some(NOW + 7)),
            ("X-Accel-Expires: @5|", Some(5)),
            ("X-Accel-Expires: @0|", Some(0)),
            ("X-Accel-Expires: 0|", None),
            (
                "X-Accel-Expires: x|Cache-Control: max-age=3|",
                Some(NOW + 3),
            ),
            ("Expires: Thu, 01 Jan 1970 00:00:01 GMT|", None),
            ("Expires: 0|", None),
            ("Expires: 0|Cache-Control: max-age=4|", Some(NOW + 4)),
            (
                "Cache-Control: max-age=4|Expires: Fri, 01 Jan 2100 00:00:00 GMT|",
                Some(NOW + 4),
            ),
            (
                "Expires: Fri, 01 Jan 2100 00:00:00 GMT|",
                Some(4_102_444_800),
            ),
            ("Set-Cookie: a=b|Cache-Control: max-age=4|", None),
            ("Vary: *|", None),
            ("Vary: Cookie, *|", None),
        ] {
            assert_eq!(valid(fields), seconds, "{fields:?}");
        }
    }

    #[test]
    fn what_is_stale_may_be_served_for_a_while() {
        let stale = |fields: &str| {
            let freshness = of(fields);
            (freshness.updating_s, freshness.error_s)
        };
        let fields = "Cache-Control: max-age=1, stale-while-revalidate=2|";
        assert_eq!(stale(fields), (2, 2));
        let fields =
            "Cache-Control: max-age=1, stale-while-revalidate=2, stale-if-error=3|Vary: a|Vary: b|";
        assert_eq!(stale(fields), (2, 3));
        assert_eq!(of(fields).vary, b"a, b");
        let fields = "X-Accel-Expires: 5|Cache-Control: no-store, stale-if-error=3|";
        assert_eq!(stale(fields), (0, 3));
    }
}
