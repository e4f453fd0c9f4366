//! Dates: HTTP's (RFC 9110 section 5.6.7) and the access log's. Input and output are seconds since
//! 1970; nothing here reads a clock.

use crate::headers::FieldValue;

/// Bytes of an IMF-fixdate.
pub const IMF_DATE_BYTES: usize = 29;

const SECONDS_PER_DAY: i64 = 86_400;
const DAY_NAMES: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTH_NAMES: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The last second of the year 9999, where four-digit years end. Later times are shown as this one.
const LAST_SECOND: i64 = 253_402_300_799;
/// The first second of the year 0; earlier times are shown as this one.
const FIRST_SECOND: i64 = -62_167_219_200;

/// A date in the format of HTTP fields. It needs no validation before it is written.
#[derive(Clone, Copy, Debug)]
pub struct ImfDate([u8; IMF_DATE_BYTES]);

impl ImfDate {
    /// The date of this second.
    pub fn new(unix_s: i64) -> ImfDate {
        ImfDate(imf(unix_s))
    }

    /// The text that [`imf`] returns.
    pub fn as_bytes(&self) -> &[u8; IMF_DATE_BYTES] {
        &self.0
    }

    /// The date as a field value, for an encoder.
    pub fn as_value(&self) -> FieldValue<'_> {
        FieldValue::trusted(&self.0)
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn imf(unix_s: i64) -> [u8; IMF_DATE_BYTES] {
    let time = CivilTime::from_unix(unix_s);
    let mut out = *b"Sun, 00 Jan 0000 00:00:00 GMT";
    out[..3].copy_from_slice(DAY_NAMES[usize::from(time.weekday)].as_bytes());
    put2(&mut out[5..], time.day);
    out[8..11].copy_from_slice(time.month_name().as_bytes());
    put4(&mut out[12..], time.year);
    put_clock(&mut out[17..], &time);
    out
}

/// `1994-11-06T08:49:37+00:00`, nginx's `$time_iso8601`.
pub fn log_iso8601(unix_s: i64, offset_minutes: i32) -> [u8; 25] {
    let time = CivilTime::from_unix(unix_s.saturating_add(i64::from(offset_minutes) * 60));
    let mut out = *b"0000-00-00T00:00:00+00:00";
    put_date(&mut out, &time, b'-');
    put_clock(&mut out[11..], &time);
    let (sign, hours, minutes) = split_offset(offset_minutes);
    out[19] = sign;
    put2(&mut out[20..], hours);
    put2(&mut out[23..], minutes);
    out
}

/// `1994/11/06 08:49:37`, the start of nginx's error log lines.
pub fn error_log(unix_s: i64, offset_minutes: i32) -> [u8; 19] {
    let time = CivilTime::from_unix(unix_s.saturating_add(i64::from(offset_minutes) * 60));
    let mut out = *b"0000/00/00 00:00:00";
    put_date(&mut out, &time, b'/');
    put_clock(&mut out[11..], &time);
    out
}

/// `06-Nov-1994 08:49`, the times of `autoindex` pages.
pub fn autoindex(unix_s: i64, offset_minutes: i32) -> [u8; 17] {
    let time = CivilTime::from_unix(unix_s.saturating_add(i64::from(offset_minutes) * 60));
    let mut out = *b"00-Jan-0000 00:00";
    put2(&mut out, time.day);
    out[3..6].copy_from_slice(time.month_name().as_bytes());
    put4(&mut out[7..], time.year);
    put2(&mut out[12..], time.hour);
    put2(&mut out[15..], time.minute);
    out
}

/// Parses the three forms of an HTTP date: IMF-fixdate, RFC 850 (`Sunday, 06-Nov-94 08:49:37
/// GMT`) and asctime (`Sun Nov  6 08:49:37 1994`). `None` for anything else.
///
/// As in nginx, the day name and the zone are ignored, and a two-digit year belongs to the century
/// that puts it between 1970 and 2069.
pub fn parse(text: &[u8]) -> Option<i64> {
    let start = text.iter().position(|&byte| byte == b',' || byte == b' ')?;
    let is_asctime = text[start] == b' ';
    let mut reader = Reader(text[start + 1..].trim_ascii_start());
    if is_asctime {
        parse_asctime(&mut reader)
    } else {
        parse_with_comma(&mut reader)
    }
}

/// Parses an HTTP date as RFC 9110 wants it: the zone must be `GMT`, and nothing may follow. Names
/// may be written in any case (RFC 9111 section 4.2).
pub fn parse_exact(text: &[u8]) -> Option<i64> {
    let start = text.iter().position(|&byte| byte == b',' || byte == b' ')?;
    let end = match text[start] {
        b' ' => text.len(),
        _ => {
            let zone = text.len().checked_sub(b" GMT".len())?;
            let is_gmt = text[zone..].eq_ignore_ascii_case(b" GMT");
            is_gmt.then_some(zone)?
        }
    };
    let mut folded = text[..end].to_ascii_lowercase();
    let month = (start + 1..end.saturating_sub(2)).find(|&at| {
        let name = &folded[at..at + 3];
        MONTH_NAMES
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    })?;
    folded[month].make_ascii_uppercase();
    let mut reader = Reader(folded[start + 1..].trim_ascii_start());
    let time = match text[start] {
        b' ' => parse_asctime(&mut reader),
        _ => parse_with_comma(&mut reader),
    };
    time.filter(|_| reader.0.is_empty())
}

fn parse_with_comma(reader: &mut Reader<'_>) -> Option<i64> {
    let day = reader.digits(2)?;
    let separator = reader.byte()?;
    let month = reader.month()?;
    if reader.byte()? != separator {
        return None;
    }
    let year = match separator {
        b' ' => reader.digits(4)?,
        b'-' => match reader.digits(2)? {
            year @ 70.. => 1900 + year,
            year => 2000 + year,
        },
        _ => return None,
    };
    reader.expect(b' ')?;
    let second_of_day = reader.clock()?;
    unix_from_parts(year, month, day, second_of_day)
}

fn parse_asctime(reader: &mut Reader<'_>) -> Option<i64> {
    let month = reader.month()?;
    reader.expect(b' ')?;
    if reader.0.first() == Some(&b' ') {
        reader.byte()?;
    }
    let day = match reader.0 {
        [_, second, ..] if second.is_ascii_digit() => reader.digits(2)?,
        _ => reader.digits(1)?,
    };
    reader.expect(b' ')?;
    let second_of_day = reader.clock()?;
    reader.expect(b' ')?;
    let year = reader.digits(4)?;
    unix_from_parts(year, month, day, second_of_day)
}

fn unix_from_parts(year: i64, month: u8, day: i64, second_of_day: i64) -> Option<i64> {
    if day < 1 || day > i64::from(days_in_month(year, month)) {
        return None;
    }
    Some(days_from_civil(year, month, day) * SECONDS_PER_DAY + second_of_day)
}

/// The unread rest of a date.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.byte()? == wanted).then_some(())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0, |value, &byte| {
            byte.is_ascii_digit()
                .then(|| value * 10 + i64::from(byte - b'0'))
        })
    }

    /// Number of a month, from 1.
    fn month(&mut self) -> Option<u8> {
        let (name, rest) = self.0.split_at_checked(3)?;
        self.0 = rest;
        let index = MONTH_NAMES.iter().position(|m| m.as_bytes() == name)?;
        Some(index as u8 + 1)
    }

    /// `HH:MM:SS` as seconds.
    fn clock(&mut self) -> Option<i64> {
        let hour = self.digits(2)?;
        self.expect(b':')?;
        let minute = self.digits(2)?;
        self.expect(b':')?;
        let second = self.digits(2)?;
        let valid = hour < 24 && minute < 60 && second < 60;
        valid.then_some(hour * 3600 + minute * 60 + second)
    }
}

/// A point in time in the proleptic Gregorian calendar.
struct CivilTime {
    year: u16,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    /// 0 is Sunday.
    weekday: u8,
}

impl CivilTime {
    fn from_unix(unix_s: i64) -> CivilTime {
        let unix_s = unix_s.clamp(FIRST_SECOND, LAST_SECOND);
        let days = unix_s.div_euclid(SECONDS_PER_DAY);
        let second_of_day = unix_s.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        CivilTime {
            year: year as u16,
            month,
            day,
            hour: (second_of_day / 3600) as u8,
            minute: (second_of_day / 60 % 60) as u8,
            second: (second_of_day % 60) as u8,
            // 1 January 1970 was a Thursday.
            weekday: (days + 4).rem_euclid(7) as u8,
        }
    }

    fn month_name(&self) -> &'static str {
        MONTH_NAMES[usize::from(self.month) - 1]
    }
}

/// Year, month and day of a day number, 0 being 1 January 1970. Years are counted from March,
/// so that the leap day is the last of its year; 146,097 days make 400 years.
fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let from_march_0 = days + 719_468;
    let era = from_march_0.div_euclid(146_097);
    let day_of_era = from_march_0.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8;
    let (month, next_year) = match month_from_march {
        0..=9 => (month_from_march + 3, 0),
        _ => (month_from_march - 9, 1),
    };
    (year_of_era + era * 400 + next_year, month as u8, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: u8, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn days_in_month(year: i64, month: u8) -> u8 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn split_offset(offset_minutes: i32) -> (u8, u8, u8) {
    let sign = if offset_minutes < 0 { b'-' } else { b'+' };
    let distance = offset_minutes.unsigned_abs();
    (sign, (distance / 60 % 100) as u8, (distance % 60) as u8)
}

fn put2(out: &mut [u8], value: u8) {
    out[0] = b'0' + value / 10;
    out[1] = b'0' + value % 10;
}

fn put4(out: &mut [u8], value: u16) {
    put2(out, (value / 100) as u8);
    put2(&mut out[2..], (value % 100) as u8);
}

fn put_date(out: &mut [u8], time: &CivilTime, separator: u8) {
    put4(out, time.year);
    out[4] = separator;
    put2(&mut out[5..], time.month);
    out[7] = separator;
    put2(&mut out[8..], time.day);
}

fn put_clock(out: &mut [u8], time: &CivilTime) {
    put2(out, time.hour);
    out[2] = b':';
    put2(&mut out[3..], time.minute);
    out[5] = b':';
    put2(&mut out[6..], time.second);
}

#[cfg(test)]
mod tests;
