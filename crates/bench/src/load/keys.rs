//! Requests that differ: numbers that are appended to the path, the same for every server.

use std::sync::Arc;

/// What follows the path in each request of a run.
#[derive(Clone, Debug)]
pub enum Keys {
    /// A number that no other request of the run has.
    Distinct,
    /// A number that is asked for as often as its rank says.
    Zipf(Zipf),
}

/// Zipf's law: number `n` of `count`, from 1 on, is chosen with a probability in proportion to
/// `1 / n`.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// The sum of the weights up to each number.
    sums: Arc<[f64]>,
}

impl Zipf {
    /// Over `count` numbers, at least one.
    pub fn of(count: u32) -> Self {
        let mut sum = 0.0;
        let sums = (1..=count.max(1)).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        Self {
            sums: sums.collect(),
        }
    }

    /// The number at `point` of 0.0 (inclusive) to 1.0 of the distribution.
    fn at(&self, point: f64) -> u64 {
        let last = self.sums.len() - 1;
        let wanted = point * self.sums[last];
        let index = self.sums.partition_point(|&sum| sum <= wanted);
        index.min(last) as u64 + 1
    }
}

/// One client's keys.
pub(super) struct KeySequence {
    keys: Keys,
    /// Starts as the client's number, from 0 on.
    state: u64,
    clients: u64,
}

impl KeySequence {
    pub(super) fn new(keys: Keys, client: usize, clients: usize) -> Self {
        Self {
            keys,
            state: client as u64,
            clients: clients as u64,
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        let state = self.state;
        self.state = state.wrapping_add(self.clients);
        match &self.keys {
            Keys::Distinct => state,
            // 53 bits, as many as a fraction has.
            Keys::Zipf(zipf) => zipf.at((scatter(state) >> 11) as f64 / (1_u64 << 53) as f64),
        }
    }
}

/// SplitMix64's output for the state `number`: scattered over all 64 bits.
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_keys_are_distinct_over_all_clients() {
        let mut all = Vec::new();
        for client in 0..3 {
            let mut sequence = KeySequence::new(Keys::Distinct, client, 3);
            all.extend((0..100).map(|_| sequence.next()));
        }
        all.sort_unstable();
        assert_eq!(all, (0..300).collect::<Vec<_>>());
    }

    #[test]
    fn the_ends_of_the_distribution() {
        let zipf = Zipf::of(3);
        // 6, 3 and 2 of 11 parts.
        for (point, number) in [
            (0.0, 1),
            (0.54, 1),
            (0.55, 2),
            (0.81, 2),
            (0.82, 3),
            (1.0, 3),
        ] {
            assert_eq!(zipf.at(point), number, "{point}");
        }
        assert_eq!(Zipf::of(0).at(0.7), 1);
    }

    #[test]
    fn frequencies_follow_the_ranks() {
        let mut counts = [0_u32; 1001];
        for client in 0..10 {
            let mut sequence = KeySequence::new(Keys::Zipf(Zipf::of(1000)), client, 10);
            for _ in 0..10_000 {
                counts[sequence.next() as usize] += 1;
            }
        }
        // The sum of 1/n up to 1000 is 7.4855. The sequence is always the same.
        for (number, wanted) in [(1, 13_359.0), (2, 6_680.0), (10, 1_336.0), (100, 133.6)] {
            let difference = f64::from(counts[number]) - wanted;
            assert!(
                difference.abs() < 5.0 * f64::sqrt(wanted),
                "{number}: {}",
                counts[number]
            );
        }
        assert_eq!(counts[0], 0);
    }
}
