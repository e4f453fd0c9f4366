use super::*;
use sealane_http::date::imf;

const NOW: i64 = 1_700_000_000;

/// The policy of a head: a status, and fields with bars behind them. `{+5}` is the date in five
/// seconds.
fn of(status: u16, fields: &str) -> Policy {
    let mut text = format!("HTTP/1.1 {status} X\r\n{fields}\r\n").replace('|', "\r\n");
    while let Some(start) = text.find('{') {
        let end = start + text[start..].find('}').expect("a brace");
        let seconds: i64 = text[start + 1..end].parse().expect("a number");
        let date = String::from_utf8(imf(NOW + seconds).to_vec()).expect("dates are ASCII");
        text.replace_range(start..=end, &date);
    }
    let head = UpstreamHead::of_text(text);
    Policy::of(&head, IgnoreHeaders::default())
}

/// For how long a response is kept as fresh that was received now; -1 if it is kept to be
/// confirmed.
fn kept_around(policy: &Policy, around: &Circumstances) -> Option<i64> {
    Some(policy.kept_until(NOW, around)? - NOW)
}

fn kept(status: u16, fields: &str) -> Option<i64> {
    let around = Circumstances {
        revalidates: true,
        ..Circumstances::default()
    };
    kept_around(&of(status, fields), &around)
}

#[test]
fn lifetimes_come_from_the_first_that_says_something() {
    for (fields, expected) in [
        ("", None),
        ("Cache-Control: max-age=5|", Some(5)),
        ("Cache-Control: max-age=5, s-maxage=6|", Some(6)),
        ("Cache-Control: s-maxage=0, max-age=6|", None),
        ("Cache-Control: max-age=5|Expires: {+9}|", Some(5)),
        ("Cache-Control: max-age=x|Expires: {+9}|", None),
        ("Expires: {+9}|", Some(9)),
        ("Expires: {+9}|Date: {+4}|", Some(5)),
        // An origin whose clock is slow: nine seconds of which four have passed.
        ("Expires: {+5}|Date: {-4}|", Some(5)),
        ("Expires: {+300}|Date: {+400}|", None),
        ("Expires: {0}|Date: {0}|", None),
        ("Expires: 0|", None),
        ("Expires: Thu, 18 Aug 2050 02:01:18 UTC|", None),
        ("Expires: {+9}|Date: foo|", Some(9)),
        (
            "CDN-Cache-Control: max-age=7|Cache-Control: no-store|Expires: 0|",
            Some(7),
        ),
        (
            "CDN-Cache-Control: no-store|Cache-Control: max-age=5|",
            None,
        ),
        ("CDN-Cache-Control: private|Cache-Control: max-age=5|", None),
        (
            "CDN-Cache-Control: foo|Cache-Control: max-age=5|Expires: {+9}|",
            None,
        ),
        ("CDN-Cache-Control: &|Cache-Control: max-age=5|", Some(5)),
        ("CDN-Cache-Control: |Cache-Control: max-age=5|", Some(5)),
        (
            "X-Accel-Expires: 8|Cache-Control: no-store, max-age=5|",
            Some(8),
        ),
        (
            "X-Accel-Expires: 8|CDN-Cache-Control: no-cache|Age: 5|",
            Some(8),
        ),
        ("X-Accel-Expires: @1700000003|", Some(3)),
        ("X-Accel-Expires: 0|Cache-Control: max-age=5|", None),
        ("X-Accel-Expires: x|Cache-Control: max-age=5|", Some(5)),
        ("Pragma: no-cache|Cache-Control: max-age=5|", Some(5)),
    ] {
        assert_eq!(kept(200, fields), expected, "{fields:?}");
    }
}

#[test]
fn what_has_an_age_is_fresh_for_less() {
    for (fields, expected) in [
        ("Age: 4|", Some(6)),
        ("Age: 10|", None),
        ("Age: 99999999999999999999|", None),
        ("Age: 4, 9|", Some(6)),
        ("Age: 4|Age: 9|", Some(6)),
        ("Age: x|", Some(10)),
        ("Age: -4|", Some(10)),
        ("Age: 4.0|", Some(10)),
        ("Age: 4;a=b|", Some(10)),
        ("Date: {-3}|", Some(7)),
        ("Date: {-3}|Age: 5|", Some(5)),
        ("Date: {-5}|Age: 3|", Some(5)),
        ("Date: {+900}|", Some(10)),
        ("Date: {+900}|Age: 3|", Some(7)),
    ] {
        let fields = format!("Cache-Control: max-age=10|{fields}");
        assert_eq!(kept(200, &fields), expected, "{fields:?}");
    }
}

#[test]
fn a_guess_is_a_tenth_of_the_time_without_change() {
    for (status, fields, expected) in [
        (200, "Last-Modified: {-1000}|", Some(100)),
        (200, "Last-Modified: {-1000}|Age: 30|", Some(70)),
        (200, "Last-Modified: {-1000}|Date: {+1000}|", Some(200)),
        (404, "Last-Modified: {-1000}|", Some(100)),
        (302, "Last-Modified: {-1000}|", None),
        (599, "Last-Modified: {-1000}|", None),
        (
            599,
            "Last-Modified: {-1000}|Cache-Control: public|",
            Some(100),
        ),
        (200, "Last-Modified: {-99999999}|", Some(86_400)),
        // In the future, or now: it is confirmed each time.
        (200, "Last-Modified: {+1000}|", Some(-1)),
        (200, "Last-Modified: {-9}|", Some(-1)),
        (
            200,
            "Last-Modified: {-1000}|Cache-Control: max-age=0|",
            Some(-1),
        ),
        (200, "Last-Modified: {-1000}|Expires: 0|", Some(-1)),
        (200, "ETag: \"a\"|", Some(-1)),
        (404, "ETag: \"a\"|", None),
        (200, "Last-Modified: {-1000}|Set-Cookie: a=b|", None),
    ] {
        assert_eq!(kept(status, fields), expected, "{status} {fields:?}");
    }
}

#[test]
fn what_must_be_confirmed_is_kept_only_if_it_can_be() {
    let never = Circumstances::default();
    for fields in ["Cache-Control: no-cache|", "Cache-Control: max-age=0|", ""] {
        let policy = of(200, &format!("{fields}ETag: \"a\"|"));
        assert_eq!(kept_around(&policy, &never), None, "{fields}");
    }
    assert_eq!(kept(200, "Cache-Control: no-cache, max-age=9|"), None);
    let confirmed = "Cache-Control: no-cache, max-age=9|ETag: \"a\"|";
    assert_eq!(kept(200, confirmed), Some(-1));
    assert_eq!(kept(404, confirmed), None);
    // It may be served when the origin fails.
    let stale = "Cache-Control: max-age=0, stale-if-error=9|";
    assert_eq!(kept(503, stale), Some(-1));
    let forbidden = "Cache-Control: max-age=0, stale-if-error=9, must-revalidate|";
    assert_eq!(kept(503, forbidden), None);
    assert_eq!(
        kept(200, "Cache-Control: no-cache=\"a\", max-age=9|"),
        Some(9)
    );
    assert_eq!(
        kept(200, "Cache-Control: private=\"a\", max-age=9|"),
        Some(9)
    );
    assert_eq!(
        kept(200, "Cache-Control: private, max-age=9|ETag: \"a\"|"),
        None
    );
}

#[test]
fn statuses_decide_too() {
    let fresh = "Cache-Control: max-age=9|";
    for (status, expected) in [
        (200, Some(9)),
        (206, None),
        (302, Some(9)),
        (304, None),
        (428, None),
        (429, None),
        (431, None),
        (503, Some(9)),
        (511, None),
        (599, Some(9)),
    ] {
        assert_eq!(kept(status, fresh), expected, "{status}");
    }
    let slice = Circumstances {
        is_slice: true,
        ..Circumstances::default()
    };
    assert_eq!(kept_around(&of(206, fresh), &slice), Some(9));
    let understood = "Cache-Control: max-age=9, no-store, must-understand|";
    assert_eq!(kept(200, understood), Some(9));
    assert_eq!(kept(599, understood), None);
    assert_eq!(kept(200, "Cache-Control: max-age=9, no-store|"), None);
}

#[test]
fn requests_decide_too() {
    let around = |is_authorized, is_unwanted, configured_s| Circumstances {
        is_authorized,
        is_unwanted,
        configured_s,
        ..Circumstances::default()
    };
    let authorized = around(true, false, Some(60));
    for (fields, expected) in [
        ("", None),
        ("Cache-Control: max-age=9|", None),
        ("Cache-Control: max-age=9, public|", Some(9)),
        ("Cache-Control: max-age=9, must-revalidate|", Some(9)),
        ("Cache-Control: max-age=9, proxy-revalidate|", None),
        ("Cache-Control: s-maxage=9|", Some(9)),
        ("X-Accel-Expires: 9|", None),
    ] {
        assert_eq!(
            kept_around(&of(200, fields), &authorized),
            expected,
            "{fields:?}"
        );
    }
    let fresh = of(200, "Cache-Control: max-age=9|");
    assert_eq!(kept_around(&fresh, &around(false, true, None)), None);
}

#[test]
fn what_is_configured_is_for_responses_that_say_nothing() {
    let configured = |seconds| Circumstances {
        configured_s: Some(seconds),
        ..Circumstances::default()
    };
    for (fields, seconds, expected) in [
        ("", 60, Some(60)),
        ("Last-Modified: {-1000}|", 60, Some(60)),
        ("Age: 50|", 60, Some(60)),
        ("Last-Modified: {-1000}|", 0, None),
        ("Cache-Control: max-age=5|", 0, Some(5)),
        ("Cache-Control: max-age=0|", 60, None),
        ("Cache-Control: no-cache|", 60, None),
        ("Set-Cookie: a=b|", 60, None),
        ("Set-Cookie: a=b|Cache-Control: max-age=5|", 60, Some(5)),
        (
            "Set-Cookie: a=b|Cache-Control: max-age=0|ETag: \"a\"|",
            60,
            None,
        ),
        ("Set-Cookie: a=b|X-Accel-Expires: 5|", 60, None),
    ] {
        let found = kept_around(&of(200, fields), &configured(seconds));
        assert_eq!(found, expected, "{fields:?} {seconds}");
    }
}

#[test]
fn a_kept_response_ages() {
    let header = CacheHeader {
        valid_s: NOW + 100,
        date_s: NOW,
        ..CacheHeader::default()
    };
    let standing = |fields: &str, later: i64| of(200, fields).standing(&header, NOW + later);
    let found = standing("Cache-Control: max-age=10|Age: 3|", 5);
    assert_eq!((found.age_s, found.fresh_s), (8, 2));
    // As long as it is fresh, nothing speaks against it if the origin fails.
    assert!(!found.forbids_stale && found.allows_error);
    let found = standing("Cache-Control: max-age=10|", 10);
    assert_eq!(found.fresh_s, 0);
    assert!(!found.forbids_stale && !found.allows_updating && !found.allows_error);
    // The clock has gone back.
    let found = standing("Cache-Control: max-age=10|Age: 3|", -50);
    assert_eq!((found.age_s, found.fresh_s), (3, 57));
    // It was kept for longer than it may be served.
    assert_eq!(standing("Cache-Control: max-age=1000|", 1).fresh_s, 99);
    assert_eq!(standing("Date: {-50}|", 1).fresh_s, 99);
    assert_eq!(standing("Date: {-50}|", 1).age_s, 51);
    let found = standing(
        "Cache-Control: max-age=1, stale-while-revalidate=5, stale-if-error=9|",
        6,
    );
    assert_eq!((found.allows_updating, found.allows_error), (false, true));
    let found = standing("Cache-Control: max-age=1, stale-while-revalidate=5|", 5);
    assert_eq!((found.allows_updating, found.allows_error), (true, false));
    for forbidding in [
        "must-revalidate",
        "proxy-revalidate",
        "s-maxage=1",
        "no-cache",
        "no-store",
        "private",
    ] {
        let fields = format!("Cache-Control: max-age=1, stale-while-revalidate=5, {forbidding}|");
        let found = standing(&fields, 3);
        assert!(
            found.forbids_stale && !found.allows_updating,
            "{forbidding}"
        );
    }
    assert!(standing("Cache-Control: no-cache|", 0).fresh_s <= 0);
    let found = standing("X-Accel-Expires: 9|Cache-Control: no-cache|", 1);
    assert_eq!((found.fresh_s, found.forbids_stale), (8, false));
}
