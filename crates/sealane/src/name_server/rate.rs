//! How many answers go to one network: the sender of a datagram may be forged, and whoever is
//! meant by that gets the answers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Instant;

/// Answers to one network in a second. Those that verify a name ask a few times.
const MAX_PER_SECOND: u32 = 50;

/// Of the queries beyond, one of so many is told to ask over TCP, which cannot be forged.
const TOLD: u32 = 2;

/// Networks that are counted on their own; others share a count with one of them.
const BUCKETS: usize = 4_096;

/// What a query gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer.
    Answer,
    /// That it is to be asked over TCP.
    AskOverTcp,
    /// Nothing.
    Silence,
}

/// The counts of the present second.
pub(super) struct RateLimit {
    start: Instant,
    hashes: RandomState,
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    second: u64,
    count: u32,
}

impl RateLimit {
    pub(super) fn new() -> RateLimit {
        RateLimit {
            start: Instant::now(),
            hashes: RandomState::new(),
            buckets: vec![Bucket::default(); BUCKETS],
        }
    }

    /// Counts a query.
    pub(super) fn verdict(&mut self, client: IpAddr, now: Instant) -> Verdict {
        let second = now.saturating_duration_since(self.start).as_secs();
        let hash = self.hashes.hash_one(network(client));
        let bucket = &mut self.buckets[hash as usize % BUCKETS];
        if bucket.second != second {
            *bucket = Bucket { second, count: 0 };
        }
        bucket.count = bucket.count.saturating_add(1);
        match bucket.count {
            ..=MAX_PER_SECOND => Verdict::Answer,
            count if count % TOLD == 0 => Verdict::AskOverTcp,
            _ => Verdict::Silence,
        }
    }
}

/// The network that an address belongs to: /24, and /56 with IPv6.
fn network(address: IpAddr) -> [u8; 7] {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            // No network of IPv6 that is in use begins with 0.
            [0, a, b, c, 0, 0, 0]
        }
        IpAddr::V6(address) => {
            let [a, b, c, d, e, f, g, ..] = address.octets();
            [a, b, c, d, e, f, g]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_network_gets_so_many_answers_in_a_second() {
        let mut limit = RateLimit::new();
        let now = limit.start + Duration::from_secs(7);
        let client = |last| IpAddr::from([192, 0, 2, last]);
        for count in 0..MAX_PER_SECOND {
            let verdict = limit.verdict(client(count as u8), now);
            assert_eq!(verdict, Verdict::Answer, "{count}");
        }
        let more: Vec<Verdict> = (0..100).map(|_| limit.verdict(client(1), now)).collect();
        let told = more.iter().filter(|it| **it == Verdict::AskOverTcp).count();
        assert_eq!(told, 50);
        assert!(!more.contains(&Verdict::Answer));
        let later = now + Duration::from_secs(1);
        assert_eq!(limit.verdict(client(1), later), Verdict::Answer);
    }

    #[test]
    fn networks_are_told_apart() {
        let of = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.1"), of("192.0.2.200"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.7"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8:0:12ab::1"), of("2001:db8:0:12ff::1"));
        assert_ne!(of("2001:db8:0:12ab::1"), of("2001:db8:0:13ab::1"));
    }
}
