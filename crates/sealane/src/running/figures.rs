//! Numbers as text, for people. The page writes them the same way.

/// What stands for a number that is not known.
pub(crate) const UNKNOWN: &str = "–";

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;

/// A whole number with its thousands apart.
pub(crate) fn count(value: impl Into<Option<f64>>) -> String {
    let Some(value) = value.into() else {
        return UNKNOWN.to_owned();
    };
    let digits = format!("{value:.0}");
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", &*digits),
    };
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How often something happens in a second.
pub(crate) fn rate(value: impl Into<Option<f64>>) -> String {
    let Some(value) = value.into() else {
        return UNKNOWN.to_owned();
    };
    match value {
        0.0 => "0".to_owned(),
        _ if value < 0.05 => "<0.1".to_owned(),
        _ if value < 9.95 => format!("{value:.1}"),
        _ => brief(value),
    }
}

/// A number of at most six characters or so.
pub(crate) fn brief(value: impl Into<Option<f64>>) -> String {
    let Some(value) = value.into() else {
        return UNKNOWN.to_owned();
    };
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.iter().find(|(unit, _)| value >= unit * 0.9995);
    match unit {
        Some((unit, name)) if value >= 99_999.5 => format!("{} {name}", digits(value / unit)),
        _ => count(value),
    }
}

/// Bytes, in units of 1,024.
pub(crate) fn bytes(value: impl Into<Option<f64>>) -> String {
    let Some(mut value) = value.into() else {
        return UNKNOWN.to_owned();
    };
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    if value < 999.5 {
        return format!("{value:.0} B");
    }
    while value >= 999.5
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = next;
    }
    format!("{} {unit}", digits(value))
}

/// A duration.
pub(crate) fn seconds(value: impl Into<Option<f64>>) -> String {
    let Some(value) = value.into() else {
        return UNKNOWN.to_owned();
    };
    match value {
        _ if value.is_infinite() => "over 10 s".to_owned(),
        _ if value < 0.9995e-3 => format!("{} µs", digits(value * 1e6)),
        _ if value < 0.9995 => format!("{} ms", digits(value * 1e3)),
        _ => format!("{} s", digits(value)),
    }
}

/// A long time, in its two largest units.
pub(crate) fn span(value: impl Into<Option<f64>>) -> String {
    let Some(value) = value.into() else {
        return UNKNOWN.to_owned();
    };
    // What is negative, or no number, is no time at all.
    let left = value.max(0.0) as u64;
    let (days, hours) = (left / DAY_S, left / HOUR_S % 24);
    let minutes = left / MINUTE_S % 60;
    match left {
        DAY_S.. => format!("{days} d {hours} h"),
        HOUR_S.. => format!("{hours} h {minutes} min"),
        MINUTE_S.. => format!("{minutes} min"),
        _ => format!("{left} s"),
    }
}

/// A share of one.
pub(crate) fn percent(share: impl Into<Option<f64>>) -> String {
    let Some(share) = share.into().filter(|share| share.is_finite()) else {
        return UNKNOWN.to_owned();
    };
    let value = share * 100.0;
    match value {
        _ if value > 0.0 && value < 0.05 => "<0.1 %".to_owned(),
        _ if value > 0.0 && value < 9.95 || value > 99.0 && value < 99.95 => {
            format!("{value:.1} %")
        }
        _ => format!("{value:.0} %"),
    }
}

/// `1 thing`, `2 things`.
pub(crate) fn plural(number: f64, one: &str, many: &str) -> String {
    let what = if number == 1.0 { one } else { many };
    format!("{} {what}", count(number))
}

/// Two digits or three.
fn digits(value: f64) -> String {
    match value {
        _ if value < 9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_their_unit() {
        for (text, expected) in [
            (count(0.0), "0"),
            (count(1_234_567.0), "1,234,567"),
            (count(-1234.0), "-1,234"),
            (count(None), "–"),
            (rate(0.0), "0"),
            (rate(0.01), "<0.1"),
            (rate(3.33), "3.3"),
            (rate(99_999.0), "99,999"),
            (rate(123_456.0), "123 k"),
            (brief(1_500_000.0), "1.5 M"),
            (bytes(999.0), "999 B"),
            (bytes(1000.0), "1.0 KiB"),
            (bytes(123.0 * 1024.0 * 1024.0), "123 MiB"),
            (bytes(1e30), "888178419700125 PiB"),
            (seconds(0.000_012), "12 µs"),
            (seconds(0.0015), "1.5 ms"),
            (seconds(2.0), "2.0 s"),
            (seconds(f64::INFINITY), "over 10 s"),
            (span(59.0), "59 s"),
            (span(3600.0), "1 h 0 min"),
            (span(100_000.0), "1 d 3 h"),
            (span(-5.0), "0 s"),
            (percent(0.5), "50 %"),
            (percent(0.0001), "<0.1 %"),
            (percent(0.995), "99.5 %"),
            (percent(f64::NAN), "–"),
            (plural(1.0, "peer", "peers"), "1 peer"),
            (plural(1200.0, "peer", "peers"), "1,200 peers"),
        ] {
            assert_eq!(text, expected);
        }
    }
}
