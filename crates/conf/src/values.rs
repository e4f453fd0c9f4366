//! Numbers, sizes and times as nginx writes them.

use std::time::Duration;

/// A decimal number, digits only.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter()
        .try_fold(0i64, |value, byte| {
            let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
            value.checked_mul(10)?.checked_add(digit)
        })?
        .try_into()
        .ok()
}

/// A number with at most `places` digits behind a point, in units of the last of them: with three
/// places, `1.5` is 1500.
pub(crate) fn decimal(text: &[u8], places: u32) -> Option<u64> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &b""[..]),
    };
    let missing = places.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = [whole, fraction].concat();
    number(&digits)?.checked_mul(10u64.checked_pow(missing)?)
}

/// The rate of `limit_req_zone`, `10r/s` or `30r/m`, in thousandths of a request in a second.
pub fn request_rate(text: &[u8]) -> Option<u64> {
    let (digits, seconds) = if let Some(digits) = text.strip_suffix(b"r/s") {
        (digits, 1)
    } else if let Some(digits) = text.strip_suffix(b"r/m") {
        (digits, 60)
    } else {
        (text, 1)
    };
    let requests = number(digits).filter(|requests| *requests > 0)?;
    Some(requests.checked_mul(1000)? / seconds)
}

/// A size in bytes: a number with `k` or `m`.
pub fn size(text: &[u8]) -> Option<u64> {
    scaled(text, false)
}

/// A file size or offset in bytes: a number with `k`, `m` or `g`.
pub fn offset(text: &[u8]) -> Option<u64> {
    scaled(text, true)
}

fn scaled(text: &[u8], giga: bool) -> Option<u64> {
    let (last, rest) = text.split_last()?;
    let (digits, shift) = match last {
        b'k' | b'K' => (rest, 10),
        b'm' | b'M' => (rest, 20),
        b'g' | b'G' if giga => (rest, 30),
        _ => (text, 0),
    };
    let value = number(digits)?.checked_mul(1 << shift)?;
    (value <= i64::MAX as u64).then_some(value)
}

/// A time with milliseconds: `10`, `1500ms`, `1h 30m`. Without a unit, seconds.
pub fn time(text: &[u8]) -> Option<Duration> {
    total(text, Resolution::Milliseconds).map(Duration::from_millis)
}

/// A time in whole seconds; years and months are allowed, milliseconds are not.
pub fn seconds(text: &[u8]) -> Option<Duration> {
    total(text, Resolution::Seconds).map(Duration::from_secs)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Resolution {
    Seconds,
    Milliseconds,
}

/// Units must come in falling order, each at most once. The rank of the last
/// one seen is kept in `step`.
fn total(text: &[u8], resolution: Resolution) -> Option<u64> {
    const YEAR: u8 = 1;
    const MONTH: u8 = 2;
    const SECOND: u8 = 7;
    const MILLISECOND: u8 = 8;
    const NO_UNIT: u8 = 9;

    let per_second: i64 = if resolution == Resolution::Milliseconds {
        1000
    } else {
        1
    };
    let mut step: u8 = if resolution == Resolution::Milliseconds {
        MONTH
    } else {
        0
    };
    let (mut value, mut sum) = (0i64, 0i64);
    let mut seen_digit = false;
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if byte.is_ascii_digit() {
            value = value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
            seen_digit = true;
            continue;
        }
        let (rank, scale) = match byte {
            b'y' => (YEAR, 365 * 86400),
            b'M' => (MONTH, 30 * 86400),
            b'w' => (3, 7 * 86400),
            b'd' => (4, 86400),
            b'h' => (5, 3600),
            b'm' if rest.first() == Some(&b's') => {
                if resolution == Resolution::Seconds {
                    return None;
                }
                rest = &rest[1..];
                (MILLISECOND, 1)
            }
            b'm' => (6, 60),
            b's' => (SECOND, 1),
            // A number without unit may be followed by blanks, once.
            b' ' if step < SECOND => (NO_UNIT, 1),
            _ => return None,
        };
        if step >= rank {
            return None;
        }
        step = rank;
        let scale = if rank == MILLISECOND {
            1
        } else {
            scale * per_second
        };
        sum = sum.checked_add(value.checked_mul(scale)?)?;
        value = 0;
        while let Some((b' ', after)) = rest.split_first() {
            rest = after;
        }
    }
    if !seen_digit {
        return None;
    }
    u64::try_from(sum.checked_add(value.checked_mul(per_second)?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"9223372036854775807"), Some(i64::MAX as u64));
        for bad in ["", "-1", "+1", "1k", " 1", "9223372036854775808", "1.5"] {
            assert_eq!(number(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size(b"8k"), Some(8192));
        assert_eq!(size(b"8K"), Some(8192));
        assert_eq!(size(b"1m"), Some(1 << 20));
        assert_eq!(size(b"100"), Some(100));
        assert_eq!(size(b"1g"), None, "only offsets have g");
        assert_eq!(offset(b"1g"), Some(1 << 30));
        assert_eq!(offset(b"2G"), Some(2 << 30));
        for bad in ["", "k", "1kb", "-1k", "9223372036854775807k", "1t"] {
            assert_eq!(size(bad.as_bytes()), None, "{bad:?}");
            assert_eq!(offset(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn decimals() {
        let of = |text: &str| decimal(text.as_bytes(), 3);
        assert_eq!(of("10.5"), Some(10_500));
        assert_eq!(of("0.001"), Some(1));
        assert_eq!(of(".5"), Some(500));
        assert_eq!(of("7"), Some(7000));
        for bad in [
            "",
            ".",
            "1.0001",
            "1.2.3",
            "-1",
            "1e3",
            "9223372036854775807",
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn times() {
        let ms = |text: &str| time(text.as_bytes()).map(|d| d.as_millis());
        assert_eq!(ms("75"), Some(75_000));
        assert_eq!(ms("1500ms"), Some(1_500));
        assert_eq!(ms("1h 30m"), Some(5_400_000));
        assert_eq!(ms("1h30m"), Some(5_400_000));
        assert_eq!(ms("1d1h1m1s1ms"), Some(90_061_001));
        assert_eq!(ms("1m 30"), Some(90_000));
        assert_eq!(ms("2w"), Some(14 * 86_400_000));
        for bad in [
            "",
            "ms",
            "1x",
            "1m1h",
            "1s 1s",
            "1y",
            "1M",
            "-1",
            "1ms 5s",
            "99999999999999999w",
        ] {
            assert_eq!(ms(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn whole_seconds() {
        let s = |text: &str| seconds(text.as_bytes()).map(|d| d.as_secs());
        assert_eq!(s("1y"), Some(365 * 86_400));
        assert_eq!(s("1M"), Some(30 * 86_400));
        assert_eq!(s("1y1M"), Some(395 * 86_400));
        assert_eq!(s("1d"), Some(86_400));
        assert_eq!(s("300"), Some(300));
        assert_eq!(s("500ms"), None);
    }
}
