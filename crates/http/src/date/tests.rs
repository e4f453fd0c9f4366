use proptest::prelude::*;

use super::*;

/// RFC 9110's example.
const TIME: i64 = 784_111_777;

fn text<const N: usize>(bytes: [u8; N]) -> String {
    String::from_utf8(bytes.to_vec()).expect("dates are ASCII")
}

#[test]
fn imf_dates() {
    assert_eq!(text(imf(TIME)), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(text(imf(0)), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(text(imf(-1)), "Wed, 31 Dec 1969 23:59:59 GMT");
    assert_eq!(text(imf(951_782_400)), "Tue, 29 Feb 2000 00:00:00 GMT");
    assert_eq!(text(imf(4_107_542_400)), "Mon, 01 Mar 2100 00:00:00 GMT");
    assert_eq!(text(imf(i64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_eq!(text(imf(i64::MIN)), "Sat, 01 Jan 0000 00:00:00 GMT");
}

#[test]
fn the_three_forms() {
    for form in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun Nov 06 08:49:37 1994",
        "Sun,06 Nov 1994 08:49:37 GMT",
        // Neither the day's name nor the zone is looked at.
        "Mon, 06 Nov 1994 08:49:37",
    ] {
        assert_eq!(parse(form.as_bytes()), Some(TIME), "{form}");
    }
    assert_eq!(
        parse(b"Sun Nov 16 08:49:37 1994"),
        Some(TIME + 10 * SECONDS_PER_DAY)
    );
    let year = |text: &str| Some(&imf(parse(text.as_bytes())?)[12..16] == b"2069");
    assert_eq!(year("Sunday, 06-Nov-69 08:49:37 GMT"), Some(true));
    assert_eq!(parse(b"Thursday, 01-Jan-70 00:00:00 GMT"), Some(0));
}

#[test]
fn malformed_dates() {
    for form in [
        "",
        "x",
        "Sun,",
        "Sun, ",
        "Sun, 06 Nov 1994",
        "Sun, 06 Nov 1994 08:49",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06-Nov 1994 08:49:37 GMT",
        "Sun, 06/Nov/1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:60 GMT",
        "Sun, 06 Nov 1994 08.49.37 GMT",
        "Sun Nov 6 08:49:37",
        "Sun Nov   6 08:49:37 1994",
        "784111777",
        "-784111777 ",
    ] {
        assert_eq!(parse(form.as_bytes()), None, "{form}");
    }
    assert_eq!(parse(b"Sun, 29 Feb 2000 00:00:00 GMT"), Some(951_782_400));
}

#[test]
fn log_formats() {
    assert_eq!(text(log_iso8601(TIME, 0)), "1994-11-06T08:49:37+00:00");
    assert_eq!(text(log_iso8601(TIME, -90)), "1994-11-06T07:19:37-01:30");
    assert_eq!(text(error_log(TIME, 60)), "1994/11/06 09:49:37");
    assert_eq!(text(autoindex(TIME, 0)), "06-Nov-1994 08:49");
}

proptest! {
    #[test]
    fn dates_round_trip(time in FIRST_SECOND..=LAST_SECOND) {
        prop_assert_eq!(parse(&imf(time)), Some(time));
    }

    #[test]
    fn the_asctime_form_names_the_same_second(time in FIRST_SECOND..=LAST_SECOND) {
        let fixed = text(imf(time));
        let (name, day, month) = (&fixed[..3], &fixed[5..7], &fixed[8..11]);
        let day = day.strip_prefix('0').map_or(day.to_owned(), |digit| format!(" {digit}"));
        let (year, clock) = (&fixed[12..16], &fixed[17..25]);
        let asctime = format!("{name} {month} {day} {clock} {year}");
        prop_assert_eq!(parse(asctime.as_bytes()), Some(time));
    }

    #[test]
    fn days_follow_each_other(day in -700_000..2_900_000i64) {
        let (year, month, date) = civil_from_days(day);
        prop_assert_eq!(days_from_civil(year, month, i64::from(date)), day);
        prop_assert!(date >= 1 && date <= days_in_month(year, month));
        let next = civil_from_days(day + 1);
        let follows = next == (year, month, date + 1)
            || date == days_in_month(year, month)
                && (next == (year, month + 1, 1) || next == (year + 1, 1, 1) && month == 12);
        prop_assert!(follows);
    }
}

#[test]
fn exact_dates_name_their_zone_and_end_there() {
    for (text, time) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
        ("SUN, 06 NOV 1994 08:49:37 gMT", Some(784_111_777)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
        ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
        ("Sun, 06 Nov 1994 08:49:37 UTC", None),
        ("Sun, 06 Nov 1994 08:49:37 +0000", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT GMT", None),
        ("Sun, 06 Nov 94 08:49:37 GMT", None),
        ("Sun 06 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06  Nov  1994 08:49:37 GMT", None),
        ("Sun, 06-Nov-1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08.49.37 GMT", None),
        ("Sun, 06 Nov 1994 8:49:37 GMT", None),
        ("Sun, 06 Nox 1994 08:49:37 GMT", None),
        ("Sun Nov  6 08:49:37 1994 GMT", None),
        ("Sun, GMT", None),
        (", GMT", None),
        (" ", None),
        ("0", None),
        ("", None),
    ] {
        assert_eq!(parse_exact(text.as_bytes()), time, "{text:?}");
    }
}
