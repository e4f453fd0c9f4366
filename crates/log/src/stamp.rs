//! The current time in the formats of log lines, formatted once per second and thread.

use sealane_sys::time::{LocalTime, local, unix_coarse_s};
use std::cell::Cell;
use std::fmt::Write;

/// One second in the three notations that logs use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeStamps {
    /// Seconds since 1970.
    pub unix_s: i64,
    /// `2026/11/21 21:00:00`, for error logs.
    pub error_log: String,
    /// `Nov 21 21:00:00`, for syslog.
    pub syslog: String,
    /// `21/Nov/2026:21:00:00 +0000`, nginx's `$time_local`.
    pub local: String,
    /// `2026-11-21T21:00:00+00:00`, nginx's `$time_iso8601`.
    pub iso8601: String,
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

impl TimeStamps {
    const EMPTY: TimeStamps = TimeStamps {
        unix_s: i64::MIN,
        error_log: String::new(),
        syslog: String::new(),
        local: String::new(),
        iso8601: String::new(),
    };

    fn set(&mut self, unix_s: i64, time: &LocalTime) {
        let LocalTime {
            year,
            month,
            day,
            hour,
            minute,
            second,
            utc_offset_s,
        } = *time;
        let month_name = MONTHS[(month as usize - 1) % 12];
        let sign = if utc_offset_s < 0 { '-' } else { '+' };
        let offset_minutes = utc_offset_s.unsigned_abs() / 60;
        let (zone_h, zone_m) = (offset_minutes / 60, offset_minutes % 60);

        self.unix_s = unix_s;
        self.error_log.clear();
        self.syslog.clear();
        self.local.clear();
        self.iso8601.clear();
        // Writing to a String cannot fail.
        let _ = write!(
            self.error_log,
            "{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}"
        );
        let _ = write!(
            self.syslog,
            "{month_name} {day:2} {hour:02}:{minute:02}:{second:02}"
        );
        let _ = write!(
            self.local,
            "{day:02}/{month_name}/{year:04}:{hour:02}:{minute:02}:{second:02} {sign}{zone_h:02}{zone_m:02}"
        );
        let _ = write!(
            self.iso8601,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{sign}{zone_h:02}:{zone_m:02}"
        );
    }
}

thread_local! {
    static STAMPS: Cell<TimeStamps> = const { Cell::new(TimeStamps::EMPTY) };
}

/// Calls `use_them` with the current second's notations.
pub fn with_time_stamps<R>(use_them: impl FnOnce(&TimeStamps) -> R) -> R {
    let now_s = unix_coarse_s();
    // Taken out and put back, so that `use_them` may do anything. A thread that is ending has no
    // cache any more and formats anew.
    let mut stamps = STAMPS
        .try_with(|cache| cache.replace(TimeStamps::EMPTY))
        .unwrap_or(TimeStamps::EMPTY);
    if stamps.unix_s != now_s {
        stamps.set(now_s, &local(now_s));
    }
    let answer = use_them(&stamps);
    let _ = STAMPS.try_with(|cache| cache.set(stamps));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(time: LocalTime) -> TimeStamps {
        let mut stamps = TimeStamps::EMPTY;
        stamps.set(0, &time);
        stamps
    }

    const TIME: LocalTime = LocalTime {
        year: 2026,
        month: 11,
        day: 3,
        hour: 9,
        minute: 5,
        second: 7,
        utc_offset_s: 0,
    };

    #[test]
    fn notations_are_nginx_s() {
        let stamps = stamps(TIME);
        assert_eq!(stamps.error_log, "2026/11/03 09:05:07");
        assert_eq!(stamps.syslog, "Nov  3 09:05:07");
        assert_eq!(stamps.local, "03/Nov/2026:09:05:07 +0000");
        assert_eq!(stamps.iso8601, "2026-11-03T09:05:07+00:00");
    }

    #[test]
    fn zones_west_and_at_half_hours() {
        let west = stamps(LocalTime {
            utc_offset_s: -12_600,
            ..TIME
        });
        assert!(west.local.ends_with(" -0330"), "{}", west.local);
        assert!(west.iso8601.ends_with("-03:30"), "{}", west.iso8601);
        let east = stamps(LocalTime {
            utc_offset_s: 20_700,
            ..TIME
        });
        assert!(east.local.ends_with(" +0545"), "{}", east.local);
    }

    #[test]
    fn a_second_call_in_the_same_second_gives_the_same() {
        let first = with_time_stamps(TimeStamps::clone);
        let second = with_time_stamps(TimeStamps::clone);
        assert!(second.unix_s > first.unix_s || second == first);
        assert_eq!(first.error_log.len(), 19);
        assert_eq!(first.local.len(), 26);
        assert_eq!(first.iso8601.len(), 25);
    }
}
