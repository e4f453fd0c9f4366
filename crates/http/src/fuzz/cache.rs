//! What messages say about caching.

use crate::cache_control::{MAX_SECONDS, RequestDirectives, ResponseDirectives, Seconds};
use crate::date;

/// The value of `Cache-Control`, of `CDN-Cache-Control` and of a date.
///
/// Whatever stands in a value, it hides no directive that follows it, and numbers stay in their
/// limits.
pub fn fuzz_cache_control(data: &[u8]) {
    let found = ResponseDirectives::read([data].into_iter());
    check(&found);
    let more = [data, b", no-store"].concat();
    assert!(ResponseDirectives::read([&more[..]].into_iter()).no_store);
    assert!(RequestDirectives::read([&more[..]].into_iter()).no_store);
    let wishes = RequestDirectives::read([data].into_iter());
    for seconds in [wishes.max_age, wishes.min_fresh, wishes.max_stale] {
        assert!(seconds.is_none_or(|seconds| (0..=MAX_SECONDS).contains(&seconds)));
    }
    if let Some(targeted) = ResponseDirectives::read_targeted([data].into_iter()) {
        check(&targeted);
        let both = ResponseDirectives::read_targeted([data, b"no-store"].into_iter());
        assert!(both.is_some_and(|both| both.no_store));
        let broken = ResponseDirectives::read_targeted([data, b"="].into_iter());
        assert_eq!(broken, None);
    }
    if let Some(time) = date::parse_exact(data) {
        assert_eq!(date::parse_exact(&date::imf(time)), Some(time));
    }
}

fn check(found: &ResponseDirectives) {
    for seconds in [found.max_age, found.s_maxage].into_iter().flatten() {
        let is_in_limits = match seconds {
            Seconds::Number(seconds) => (0..=MAX_SECONDS).contains(&seconds),
            Seconds::Invalid => true,
        };
        assert!(is_in_limits);
    }
    for seconds in [found.stale_while_revalidate, found.stale_if_error] {
        assert!((0..=MAX_SECONDS).contains(&seconds));
    }
}
