//! `limit_rate` and `limit_rate_after`.

use crate::exchange::Exchange;
use crate::template;
use sealane_conf::model::Template;
use std::time::{Duration, Instant};

/// The time whose worth of bytes is sent, or read, at a time.
const QUANTUM_MS: u64 = 100;
/// The least that is sent at a time, unless it takes longer than a second: smaller packets would be
/// headers for the most part.
const PACKET_BYTES: u64 = 1460;

/// The pace of one response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimit {
    /// Bytes per second; 0 is no limit.
    rate: u64,
    /// Bytes that are sent before the limit holds.
    after: u64,
}

impl RateLimit {
    /// The limit that holds for this exchange. A value that is no size (a
    /// variable may hold anything) limits nothing, as in nginx.
    pub(crate) fn of(exchange: &Exchange) -> RateLimit {
        let conf = exchange.conf();
        let size = |value: &Option<Template>| {
            value
                .as_ref()
                .and_then(|v| sealane_conf::values::size(&template::evaluate(v, exchange)))
                .unwrap_or(0)
        };
        RateLimit {
            rate: exchange
                .features
                .limit_rate
                .of_request
                .unwrap_or_else(|| size(&conf.limit_rate)),
            after: size(&conf.limit_rate_after),
        }
    }

    /// So many bytes per second, from the first one on.
    pub(crate) fn per_second(rate: u64) -> RateLimit {
        RateLimit { rate, after: 0 }
    }

    /// Whether there is no limit.
    pub(crate) fn is_unlimited(self) -> bool {
        self.rate == 0
    }

    /// How many bytes may be sent now, or how long to wait for the next ones.
    /// The first second's worth may leave at once, as in nginx; then [`QUANTUM_MS`] worth or a
    /// packet at a time, not each byte as it is earned.
    pub(crate) fn allowed(self, sent: u64, started: Instant) -> Result<u64, Duration> {
        // No limit is the rule; then the clock need not be read.
        if self.rate == 0 {
            return Ok(u64::MAX);
        }
        self.allowed_after(sent, started.elapsed())
    }

    fn allowed_after(self, sent: u64, elapsed: Duration) -> Result<u64, Duration> {
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let earned = self.rate.saturating_mul(elapsed_ms.saturating_add(1000)) / 1000;
        let budget = earned.saturating_add(self.after);
        let quantum = self.rate.saturating_mul(QUANTUM_MS) / 1000;
        let quantum = quantum.max(PACKET_BYTES.min(self.rate));
        let next = sent.saturating_add(quantum);
        if budget >= next {
            return Ok(budget - sent);
        }
        let missing = next - budget;
        Err(Duration::from_millis(
            missing.saturating_mul(1000) / self.rate + 1,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit() {
        let limit = RateLimit { rate: 0, after: 0 };
        assert_eq!(limit.allowed(1 << 40, Instant::now()), Ok(u64::MAX));
    }

    #[test]
    fn paces_after_the_first_second() {
        let limit = RateLimit {
            rate: 100_000,
            after: 500,
        };
        assert_eq!(limit.allowed_after(0, Duration::ZERO), Ok(100_500));
        assert_eq!(
            limit.allowed_after(100_500, Duration::ZERO),
            Err(Duration::from_millis(101))
        );
        assert_eq!(
            limit.allowed_after(150_500, Duration::ZERO),
            Err(Duration::from_millis(601))
        );
        let second = Duration::from_secs(1);
        assert_eq!(limit.allowed_after(150_500, second), Ok(50_000));
        // Not the 5,000 bytes that have been earned.
        assert_eq!(
            limit.allowed_after(195_500, second),
            Err(Duration::from_millis(51))
        );
    }

    #[test]
    fn slow_ones_send_a_packet_or_what_a_second_is_worth() {
        let second = Duration::from_secs(1);
        let limit = RateLimit {
            rate: 2000,
            after: 0,
        };
        assert_eq!(limit.allowed_after(2540, second), Ok(1460));
        assert_eq!(
            limit.allowed_after(2740, second),
            Err(Duration::from_millis(101))
        );
        let slow = RateLimit { rate: 3, after: 0 };
        assert_eq!(slow.allowed_after(3, second), Ok(3));
        assert_eq!(
            slow.allowed_after(5, second),
            Err(Duration::from_millis(667))
        );
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        let limit = RateLimit {
            rate: u64::MAX,
            after: u64::MAX,
        };
        assert!(
            limit
                .allowed_after(u64::MAX - 1, Duration::from_secs(1 << 40))
                .is_ok()
        );
    }
}
