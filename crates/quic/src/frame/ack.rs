//! ACK frames, RFC 9000 section 19.3.

use super::types;
use crate::reader::Reader;
use crate::varint;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Most ranges that a frame is sent with, so that their number takes one byte. RFC 9000 section
/// 13.2.3 lets receivers of packets bound them.
pub(crate) const MAX_RANGES_SENT: usize = 64;

/// An ACK frame as it came. Its ranges have been looked at: none reaches below packet 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack<'a> {
    /// The largest packet number that is acknowledged.
    pub largest: u64,
    /// How long the peer waited, in units that its `ack_delay_exponent` tells.
    pub raw_delay: u64,
    /// How many packets before the largest are in the first range.
    first_range: u64,
    range_count: u64,
    /// Pairs of gap and length.
    ranges: &'a [u8],
    ecn: Option<&'a [u8]>,
}

impl<'a> Ack<'a> {
    /// Reads what comes behind the type.
    pub(super) fn read(reader: &mut Reader<'a>, has_ecn: bool) -> Option<Self> {
        let largest = reader.varint()?;
        let raw_delay = reader.varint()?;
        let range_count = reader.varint()?;
        let first_range = reader.varint()?;
        let start = reader.rest();
        let mut smallest = largest.checked_sub(first_range)?;
        // A count that is not true ends with the bytes.
        for _ in 0..range_count {
            smallest = next_range(reader, smallest)?.0;
        }
        let ranges = &start[..start.len() - reader.len()];
        let ecn = match has_ecn {
            false => None,
            true => {
                let start = reader.rest();
                read_ecn(reader)?;
                Some(&start[..start.len() - reader.len()])
            }
        };
        Some(Self {
            largest,
            raw_delay,
            first_range,
            range_count,
            ranges,
            ecn,
        })
    }

    /// The ranges of packet numbers, from the largest down. At most one for two bytes of the frame.
    #[must_use]
    pub(crate) const fn ranges(&self) -> AckRanges<'a> {
        AckRanges {
            next: Some((self.largest - self.first_range, self.largest)),
            rest: Reader::new(self.ranges),
        }
    }

    /// How long the peer waited, by its `ack_delay_exponent` of at most 20. At most 2^62
    /// microseconds.
    #[must_use]
    pub(crate) fn delay(&self, exponent: u8) -> Duration {
        let micros = u128::from(self.raw_delay) << exponent.min(20);
        Duration::from_micros(
            u64::try_from(micros)
                .unwrap_or(varint::MAX)
                .min(varint::MAX),
        )
    }

    /// How many packets came with which mark of ECN, if the peer tells.
    #[must_use]
    pub(crate) fn ecn(&self) -> Option<EcnCounts> {
        read_ecn(&mut Reader::new(self.ecn?))
    }

    /// Its length behind the type.
    pub(super) fn body_len(&self) -> usize {
        [
            self.largest,
            self.raw_delay,
            self.range_count,
            self.first_range,
        ]
        .map(varint::len)
        .iter()
        .sum::<usize>()
            + self.ranges.len()
            + self.ecn.map_or(0, <[u8]>::len)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let with_ecn = self.ecn.is_some();
        varint::put(out, if with_ecn { types::ACK_ECN } else { types::ACK });
        for field in [
            self.largest,
            self.raw_delay,
            self.range_count,
            self.first_range,
        ] {
            varint::put(out, field);
        }
        out.extend_from_slice(self.ranges);
        out.extend_from_slice(self.ecn.unwrap_or_default());
    }
}

/// The range below one that starts with `smallest`, as first and last.
fn next_range(reader: &mut Reader<'_>, smallest: u64) -> Option<(u64, u64)> {
    let gap = reader.varint()?;
    let len = reader.varint()?;
    let last = smallest.checked_sub(gap)?.checked_sub(2)?;
    Some((last.checked_sub(len)?, last))
}

fn read_ecn(reader: &mut Reader<'_>) -> Option<EcnCounts> {
    Some(EcnCounts {
        ect0: reader.varint()?,
        ect1: reader.varint()?,
        ce: reader.varint()?,
    })
}

/// The ranges of an ACK frame, from the largest packet number down.
#[derive(Clone, Debug)]
pub(crate) struct AckRanges<'a> {
    next: Option<(u64, u64)>,
    rest: Reader<'a>,
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        let (first, last) = self.next?;
        self.next = next_range(&mut self.rest, first);
        Some(first..=last)
    }
}

/// How many packets came with which mark, RFC 9000 section 19.3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EcnCounts {
    /// With ECT(0).
    pub ect0: u64,
    /// With ECT(1).
    pub ect1: u64,
    /// With ECN-CE.
    pub ce: u64,
}

/// Appends an ACK frame of at most `room` bytes and gives the number of its ranges: 0 if there was
/// not even room for one, and nothing was appended.
///
/// `ranges` go from the largest packet number down and do not touch each other; those that do not
/// fit, or are more than [`MAX_RANGES_SENT`], are left out. `raw_delay` is in units of the exponent
/// that was announced.
pub(crate) fn put_ack(
    out: &mut Vec<u8>,
    room: usize,
    mut ranges: impl Iterator<Item = RangeInclusive<u64>>,
    raw_delay: u64,
    ecn: Option<EcnCounts>,
) -> usize {
    let Some(first) = ranges.next() else {
        return 0;
    };
    let (largest, mut smallest) = (*first.end(), *first.start());
    let raw_delay = raw_delay.min(varint::MAX);
    let ecn_fields = ecn.map(|ecn| [ecn.ect0, ecn.ect1, ecn.ce]);
    let ecn_len: usize = ecn_fields.map_or(0, |fields| fields.map(varint::len).iter().sum());
    // The type and the number of ranges take a byte each.
    let fixed_len = 2
        + varint::len(largest)
        + varint::len(raw_delay)
        + varint::len(largest - smallest)
        + ecn_len;
    let Some(mut left) = room.checked_sub(fixed_len) else {
        return 0;
    };
    out.push(if ecn.is_some() {
        types::ACK_ECN
    } else {
        types::ACK
    } as u8);
    varint::put(out, largest);
    varint::put(out, raw_delay);
    let count_at = out.len();
    out.push(0);
    varint::put(out, largest - smallest);
    let mut count = 1;
    for range in ranges.take(MAX_RANGES_SENT - 1) {
        let Some(gap) = smallest
            .checked_sub(*range.end())
            .and_then(|n| n.checked_sub(2))
        else {
            debug_assert!(false, "{range:?} is not below {smallest}");
            break;
        };
        let len = range.end() - range.start();
        let Some(after) = left.checked_sub(varint::len(gap) + varint::len(len)) else {
            break;
        };
        left = after;
        varint::put(out, gap);
        varint::put(out, len);
        smallest = *range.start();
        count += 1;
    }
    out[count_at] = (count - 1) as u8;
    for field in ecn_fields.into_iter().flatten() {
        varint::put(out, field);
    }
    count
}
