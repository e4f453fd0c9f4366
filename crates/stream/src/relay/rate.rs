//! `proxy_upload_rate` and `proxy_download_rate`, as nginx counts: what may have been received by
//! now, one second ahead, since the relay began.

use std::time::Duration;

/// How many of `max` bytes may be received at `rate` bytes a second, after `elapsed` and
/// `received` bytes; an error says how long to wait until it is one.
pub(super) fn allowed(
    rate: u64,
    elapsed: Duration,
    received: u64,
    max: usize,
) -> Result<usize, Duration> {
    // Neither can overflow: there are not that many seconds.
    let so_far = u128::from(rate) * (elapsed.as_millis() + 1000) / 1000;
    match so_far.checked_sub(u128::from(received)) {
        None | Some(0) => {
            let over = u128::from(received) - so_far;
            let millis = over * 1000 / u128::from(rate.max(1)) + 1;
            Err(Duration::from_millis(
                u64::try_from(millis).unwrap_or(u64::MAX),
            ))
        }
        Some(left) => Ok(usize::try_from(left).map_or(max, |left| left.min(max))),
    }
}

/// How long `count` bytes take at that rate, if that is a time to wait for.
pub(super) fn pause(rate: u64, count: usize) -> Option<Duration> {
    let millis = u128::from(count as u64) * 1000 / u128::from(rate.max(1));
    let millis = u64::try_from(millis).unwrap_or(u64::MAX);
    (millis > 0).then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_second_may_be_received_ahead() {
        assert_eq!(allowed(1000, Duration::ZERO, 0, 16384), Ok(1000));
        assert_eq!(allowed(1000, SECOND, 500, 16384), Ok(1500));
        assert_eq!(allowed(1000, SECOND, 500, 16), Ok(16));
        assert_eq!(allowed(u64::MAX, SECOND * 1000, 1, 16), Ok(16));
    }

    #[test]
    fn what_was_received_too_early_is_waited_for() {
        let wait = |received| allowed(1000, SECOND, received, 16384);
        assert_eq!(wait(2000), Err(Duration::from_millis(1)));
        assert_eq!(wait(5000), Err(Duration::from_millis(3001)));
        assert_eq!(
            allowed(1, Duration::ZERO, u64::MAX, 1),
            Err(Duration::from_millis(u64::MAX))
        );
    }

    #[test]
    fn a_batch_takes_its_time() {
        assert_eq!(pause(1000, 500), Some(Duration::from_millis(500)));
        assert_eq!(pause(1_000_000, 500), None);
    }
}
