//! When a certificate is renewed, when a failed attempt is repeated, and how loud to warn.

use std::time::Duration;

/// How long after a certificate has come the server is asked when it wants it renewed.
pub(super) const FIRST_QUESTION_S: i64 = 60;

/// Between two such questions: what the server says, within these limits, or the default.
const MIN_QUESTION_S: i64 = 60;
pub(super) const MAX_QUESTION_S: i64 = 24 * 3600;
pub(super) const QUESTION_S: i64 = 6 * 3600;

/// Certificates that are valid for less than this are renewed after half of their time, others
/// when a third is left.
const SHORT_LIFETIME_S: i64 = 10 * 24 * 3600;

/// After the first failure of an order, which counts against the limits of public servers (five an
/// hour); four times as long after each that follows.
const FIRST_ORDER_RETRY_S: i64 = 60;
const MAX_ORDER_RETRY_S: i64 = 12 * 3600;

/// After the first failure to talk to the server; it doubles with each that follows.
const FIRST_RETRY_S: i64 = 10;
const MAX_RETRY_S: i64 = 3600;

const DAY_S: i64 = 24 * 3600;

/// When to renew a certificate: the moment is chosen so that certificates ordered together are not
/// renewed together. `random` is from 0 to 1.
pub(super) fn due_s(begins_s: i64, ends_s: i64, random: f64) -> i64 {
    let lifetime = ends_s.saturating_sub(begins_s).max(0);
    let left = match lifetime < SHORT_LIFETIME_S {
        true => lifetime / 2,
        false => lifetime / 3,
    };
    // Up to a tenth of that earlier.
    let earlier = (left as f64 * 0.1 * random) as i64;
    ends_s - left - earlier
}

/// A moment in the window that a server suggests (RFC 9773 section 4.2); at once if it is over.
pub(super) fn within(start_s: i64, end_s: i64, random: f64) -> i64 {
    let length = end_s.saturating_sub(start_s).max(0);
    start_s.saturating_add((length as f64 * random) as i64)
}

/// How long to wait before the server is asked again when it wants a certificate renewed.
/// `retry_after` is what it says.
pub(super) fn question_s(retry_after: Option<Duration>) -> i64 {
    let after = retry_after.and_then(|after| i64::try_from(after.as_secs()).ok());
    after
        .unwrap_or(QUESTION_S)
        .clamp(MIN_QUESTION_S, MAX_QUESTION_S)
}

/// How long to wait after a failure. `before` are the failures before it.
pub(super) fn retry_s(before: u32, order_failed: bool, random: f64) -> i64 {
    let wait = match order_failed {
        true => FIRST_ORDER_RETRY_S
            .checked_shl(2 * before.min(8))
            .unwrap_or(MAX_ORDER_RETRY_S)
            .min(MAX_ORDER_RETRY_S),
        false => FIRST_RETRY_S
            .checked_shl(before.min(16))
            .unwrap_or(MAX_RETRY_S)
            .min(MAX_RETRY_S),
    };
    wait + (wait as f64 * 0.1 * random) as i64
}

/// How urgent it is to look after a certificate that should have been renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// More than fourteen days are left.
    None,
    /// Less than fourteen.
    Warn,
    /// Less than seven.
    Error,
    /// Less than three.
    Critical,
    /// It has ended.
    Ended,
}

/// Certificates that are valid for less than ninety days have proportionally shorter limits.
pub(crate) fn urgency(begins_s: i64, ends_s: i64, now_s: i64) -> Urgency {
    let lifetime = ends_s.saturating_sub(begins_s).clamp(0, 90 * DAY_S);
    let limit = |days: i64| lifetime * days / 90;
    let left = ends_s.saturating_sub(now_s);
    match left {
        _ if left <= 0 => Urgency::Ended,
        _ if left < limit(3) => Urgency::Critical,
        _ if left < limit(7) => Urgency::Error,
        _ if left < limit(14) => Urgency::Warn,
        _ => Urgency::None,
    }
}

/// From 0 to 1.
pub(super) fn random() -> f64 {
    let mut bytes = [0; 4];
    sealane_tls::fill_random(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

/// Seconds since 1970 of a time as in RFC 3339; fractions of seconds are dropped.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().ok())?
    };
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let matches = |(at, byte): (usize, u8)| bytes.get(at) == Some(&byte);
    if !separators.into_iter().all(matches) || !matches!(bytes.get(10), Some(b'T' | b't')) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let is_valid = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_valid {
        return None;
    }
    let mut rest = text.get(19..)?;
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    let offset_s = match rest {
        "Z" | "z" => 0,
        _ => {
            let sign = match rest.bytes().next()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let (hours, minutes) = rest.get(1..)?.split_once(':')?;
            sign * (hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60)
        }
    };
    let seconds = days_since_1970(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second;
    Some(seconds - offset_s)
}

/// Days of a date in the Gregorian calendar, in which years begin in March so that the day that
/// some of them lack is the last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    era * 146_097 + days - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_renewed_in_time_and_not_together() {
        let quarter = 90 * DAY_S;
        assert_eq!(due_s(0, quarter, 0.0), 60 * DAY_S);
        assert_eq!(due_s(0, quarter, 1.0), 57 * DAY_S);
        assert_eq!(due_s(0, 6 * DAY_S, 0.0), 3 * DAY_S);
        assert_eq!(due_s(100, 50, 0.5), 50);
        assert_eq!(within(100, 200, 0.25), 125);
        assert_eq!(within(100, 50, 0.25), 100);
    }

    #[test]
    fn failures_are_further_and_further_apart() {
        let orders = [0, 1, 2, 3, 9, 60].map(|before| retry_s(before, true, 0.0));
        assert_eq!(orders, [60, 240, 960, 3840, 43_200, 43_200]);
        let first_hour: Vec<i64> = (0..4)
            .map(|before| retry_s(before, true, 0.0))
            .scan(0, |sum, wait| {
                *sum += wait;
                Some(*sum)
            })
            .collect();
        let within_an_hour = first_hour.iter().filter(|at| **at < 3600).count();
        assert!(
            within_an_hour < 5,
            "as public servers allow: {first_hour:?}"
        );
        let questions = [0, 1, 8, 9, 60].map(|before| retry_s(before, false, 0.0));
        assert_eq!(questions, [10, 20, 2560, 3600, 3600]);
        assert_eq!(retry_s(0, true, 1.0), 66);
    }

    #[test]
    fn the_server_is_asked_when_to_renew_once_in_a_minute_at_most() {
        let after = |seconds| question_s(Some(Duration::from_secs(seconds)));
        assert_eq!([0, 1, 59].map(after), [60; 3]);
        assert_eq!(after(7200), 7200);
        assert_eq!([86_401, u64::MAX - 1].map(after), [86_400, 21_600]);
        assert_eq!(question_s(None), 21_600);
    }

    #[test]
    fn warnings_grow_louder() {
        let ends_s = 90 * DAY_S;
        let at = |days_left: i64| urgency(0, ends_s, ends_s - days_left * DAY_S);
        assert_eq!(at(14), Urgency::None);
        assert_eq!(at(13), Urgency::Warn);
        assert_eq!(at(6), Urgency::Error);
        assert_eq!(at(2), Urgency::Critical);
        assert_eq!(at(0), Urgency::Ended);
        assert_eq!(urgency(0, 9 * DAY_S, 8 * DAY_S), Urgency::Warn);
    }

    #[test]
    fn times_of_rfc_3339_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2025-01-02T04:00:00Z", Some(1_735_790_400)),
            ("2025-01-02T04:00:00.123456789Z", Some(1_735_790_400)),
            ("2025-01-02T05:30:00+01:30", Some(1_735_790_400)),
            ("2024-02-29T00:00:00-00:00", Some(1_709_164_800)),
            ("2000-03-01t00:00:00z", Some(951_868_800)),
            ("2025-01-02 04:00:00Z", None),
            ("2025-13-02T04:00:00Z", None),
            ("2025-01-02T04:00:00", None),
            ("2025-01-02T04:00:00+1", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
    }
}
