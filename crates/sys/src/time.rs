//! Clocks and the local time zone.

use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Milliseconds of the monotonic clock as of the last timer tick (1-4 ms behind): the cheapest
/// clock there is, for time-outs.
pub fn monotonic_coarse_ms() -> u64 {
    let (s, ns) = clock(libc::CLOCK_MONOTONIC_COARSE);
    s as u64 * 1000 + ns / 1_000_000
}

/// Nanoseconds of the monotonic clock, precise.
pub fn monotonic_ns() -> u64 {
    let (s, ns) = clock(libc::CLOCK_MONOTONIC);
    s as u64 * 1_000_000_000 + ns
}

/// Time since 1970 in milliseconds, precise.
pub fn unix_ms() -> i64 {
    let (s, ns) = clock(libc::CLOCK_REALTIME);
    s * 1000 + (ns / 1_000_000) as i64
}

/// Seconds since 1970 as of the last timer tick: for time stamps.
pub fn unix_coarse_s() -> i64 {
    clock(libc::CLOCK_REALTIME_COARSE).0
}

/// Seconds and nanoseconds of a clock.
fn clock(id: libc::clockid_t) -> (i64, u64) {
    let mut raw = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `raw` has room for the answer.
    let code = unsafe { libc::clock_gettime(id, &raw mut raw) };
    debug_assert_eq!(code, 0, "these clocks exist on every Linux");
    (raw.tv_sec, raw.tv_nsec as u64)
}

/// A point in time in local calendar fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Year, such as 2026.
    pub year: i32,
    /// Month, 1 to 12.
    pub month: u32,
    /// Day of the month, 1 to 31.
    pub day: u32,
    /// Hour, 0 to 23.
    pub hour: u32,
    /// Minute, 0 to 59.
    pub minute: u32,
    /// Second, 0 to 60.
    pub second: u32,
    /// Seconds east of UTC.
    pub utc_offset_s: i32,
}

/// Local time at `unix_s` seconds since 1970, according to the `TZ` variable or `/etc/localtime` at
/// the time of the first call (localtime_r(3)).
///
/// A year that does not fit gives the start of 1970, UTC.
pub fn local(unix_s: i64) -> LocalTime {
    let mut raw = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid; the zone is read under glibc's own lock.
    // Rust code changes the environment only while single-threaded
    // (`process::replace_environment`).
    unsafe { libc::localtime_r(&raw const unix_s, raw.as_mut_ptr()) };
    // SAFETY: plain old data, zeroed, then filled if the year fits.
    let raw = unsafe { raw.assume_init() };
    if raw.tm_mday == 0 {
        return EPOCH;
    }
    LocalTime {
        year: raw.tm_year + 1900,
        month: raw.tm_mon as u32 + 1,
        day: raw.tm_mday as u32,
        hour: raw.tm_hour as u32,
        minute: raw.tm_min as u32,
        second: raw.tm_sec as u32,
        utc_offset_s: raw.tm_gmtoff as i32,
    }
}

/// A point in time in the notation of strftime(3), local or UTC; empty if it is longer than
/// 2 KiB.
pub fn formatted(unix_s: i64, is_local: bool, format: &CStr) -> Vec<u8> {
    let mut raw = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: as in `local`.
    let found = unsafe {
        match is_local {
            true => libc::localtime_r(&raw const unix_s, raw.as_mut_ptr()),
            false => libc::gmtime_r(&raw const unix_s, raw.as_mut_ptr()),
        }
    };
    if found.is_null() {
        return Vec::new();
    }
    let mut text = vec![0u8; 2048];
    // SAFETY: the buffer has that many bytes, the format ends with NUL, and the time was
    // filled in, as it was found.
    let written = unsafe {
        libc::strftime(
            text.as_mut_ptr().cast(),
            text.len(),
            format.as_ptr(),
            raw.as_ptr(),
        )
    };
    text.truncate(written);
    text
}

const EPOCH: LocalTime = LocalTime {
    year: 1970,
    month: 1,
    day: 1,
    hour: 0,
    minute: 0,
    second: 0,
    utc_offset_s: 0,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree_with_the_standard_library() {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("the clock is past 1970");
        assert!((unix_ms() - now.as_millis() as i64).abs() < 60_000);
        assert!((unix_coarse_s() - now.as_secs() as i64).abs() < 60);
    }

    #[test]
    fn monotonic_clocks_do_not_go_back() {
        let (a, b) = (monotonic_ns(), monotonic_ns());
        assert!(b >= a);
        let (a, b) = (monotonic_coarse_ms(), monotonic_coarse_ms());
        assert!(b >= a && a > 0);
    }

    #[test]
    fn local_time_is_utc_plus_offset() {
        // 2026-11-21 21:00:00 UTC, wherever the test runs.
        let unix_s = 1_795_294_800;
        let local = local(unix_s);
        let seconds_of_day = i64::from(local.hour * 3600 + local.minute * 60 + local.second);
        let shifted = unix_s + i64::from(local.utc_offset_s);
        assert_eq!(seconds_of_day, shifted.rem_euclid(86_400));
        assert_eq!((local.year, local.month), (2026, 11));
    }

    #[test]
    fn a_year_that_does_not_fit_is_harmless() {
        assert_eq!(local(i64::MAX), EPOCH);
    }
}
