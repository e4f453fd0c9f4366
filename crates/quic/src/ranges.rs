//! Sets of offsets, as ranges.

use std::collections::VecDeque;

/// Ranges of offsets, from `start` to before `end`, in order and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: VecDeque<(u64, u64)>,
}

impl RangeSet {
    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is no offset.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }

    /// Adds the offsets from `start` to before `end`.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let from = self.ranges.partition_point(|range| range.1 < start);
        let to = self.ranges.partition_point(|range| range.0 <= end);
        if from == to {
            self.ranges.insert(from, (start, end));
            return;
        }
        let merged = (
            start.min(self.ranges[from].0),
            end.max(self.ranges[to - 1].1),
        );
        self.ranges[from] = merged;
        self.ranges.drain(from + 1..to);
    }

    /// Removes the offsets from `start` to before `end`.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        let from = self.ranges.partition_point(|range| range.1 <= start);
        let to = self.ranges.partition_point(|range| range.0 < end);
        if start >= end || from >= to {
            return;
        }
        let below = (self.ranges[from].0, start);
        let above = (end, self.ranges[to - 1].1);
        self.ranges.drain(from..to);
        for range in [above, below] {
            if range.0 < range.1 {
                self.ranges.insert(from, range);
            }
        }
    }

    /// Calls `each` with the parts of a range that are not in the set.
    pub(crate) fn missing(&self, start: u64, end: u64, mut each: impl FnMut(u64, u64)) {
        let mut at = start;
        let first = self.ranges.partition_point(|range| range.1 <= start);
        for &(from, to) in self.ranges.range(first..) {
            if from >= end {
                break;
            }
            if at < from {
                each(at, from);
            }
            at = to;
        }
        if at < end {
            each(at, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set_of(ranges: &RangeSet) -> BTreeSet<u64> {
        ranges.ranges.iter().flat_map(|&(a, b)| a..b).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn ranges_are_sets(steps in prop::collection::vec((any::<bool>(), 0..60_u64, 0..12_u64), 0..60)) {
            let mut ranges = RangeSet::default();
            let mut model = BTreeSet::new();
            for (insert, start, len) in steps {
                let end = start + len;
                let mut missing = BTreeSet::new();
                ranges.missing(start, end, |a, b| missing.extend(a..b));
                let expected = (start..end).filter(|at| !model.contains(at)).collect();
                prop_assert_eq!(missing, expected);
                if insert {
                    ranges.insert(start, end);
                    model.extend(start..end);
                } else {
                    ranges.remove(start, end);
                    model.retain(|at| !(start..end).contains(at));
                }
                prop_assert_eq!(&set_of(&ranges), &model);
                prop_assert_eq!(ranges.first().map(|range| range.0), model.first().copied());
                prop_assert_eq!(ranges.is_empty(), model.is_empty());
                let apart = ranges.ranges.iter().zip(ranges.ranges.iter().skip(1));
                prop_assert!(apart.into_iter().all(|(a, b)| a.0 < a.1 && a.1 < b.0));
            }
        }
    }
}
