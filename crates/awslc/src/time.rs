//! The time as libssl sees it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch, by the clock that libssl uses for sessions; 0 before 1970.
pub fn unix_time_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
