//! A point in time as the caller's clock tells it.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Microseconds since an origin that the caller chooses. It never goes back.
///
/// Eight bytes, where `std::time::Instant` takes sixteen: a connection and each packet in flight
/// keep several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// The time so many microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; nothing if it was later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// As microseconds, at most `u64::MAX` of them.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_end_wraps() {
        let second = Duration::from_secs(1);
        assert_eq!((Time::ZERO + second).since(Time::ZERO), second);
        assert_eq!(Time::ZERO.since(Time::ZERO + second), Duration::ZERO);
        assert_eq!(Time::ZERO - second, Time::ZERO);
        let end = Time::from_micros(u64::MAX);
        assert_eq!(end + Duration::MAX, end);
    }
}
