//! Packet numbers as they are sent, RFC 9000 section 17.1 and appendix A.

use crate::varint;

/// Bytes that `number` takes in a packet, so that a peer whose largest packet may still be
/// `largest_acked` understands it (appendix A.2).
pub(super) fn encoded_len(number: u64, largest_acked: Option<u64>) -> usize {
    let unacked = match largest_acked {
        Some(largest) => number.saturating_sub(largest),
        None => number.saturating_add(1),
    };
    // One bit more, as the window of the peer has two halves.
    let bits = (u64::BITS - unacked.leading_zeros()) as usize + 1;
    bits.div_ceil(8).clamp(1, 4)
}

/// The number whose lowest `len` bytes are `truncated`, closest to the one after `largest`
/// (appendix A.3).
pub(super) fn decode(largest: Option<u64>, truncated: u64, len: usize) -> u64 {
    let expected = largest.map_or(0, |largest| largest.saturating_add(1).min(varint::MAX));
    let window = 1_u64 << (8 * len);
    let candidate = expected & !(window - 1) | truncated;
    if candidate + window / 2 <= expected && candidate < varint::MAX + 1 - window {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_rfc_9000_appendix_a_2_and_a_3() {
        assert_eq!(encoded_len(0xac_5c02, Some(0xab_e8b3)), 2);
        assert_eq!(encoded_len(0xac_e8fe, Some(0xab_e8b3)), 3);
        assert_eq!(decode(Some(0xa82f_30ea), 0x9b32, 2), 0xa82f_9b32);
    }

    #[test]
    fn numbers_start_with_one_byte_and_have_at_most_four() {
        assert_eq!(encoded_len(0, None), 1);
        assert_eq!(encoded_len(126, None), 1);
        assert_eq!(encoded_len(127, None), 2);
        assert_eq!(encoded_len(varint::MAX, None), 4);
        assert_eq!(encoded_len(u64::MAX, None), 4);
        assert_eq!(decode(None, 0xff, 1), 0xff);
        assert_eq!(decode(Some(u64::MAX), 0xff, 1), varint::MAX);
    }

    #[test]
    fn the_window_ends_half_its_size_above_what_is_expected_rfc_9000_appendix_a_3() {
        for expected in 0x200..0x300 {
            for number in expected - 127..=expected + 128 {
                assert_eq!(decode(Some(expected - 1), number & 0xff, 1), number);
            }
        }
    }

    proptest! {
        /// A peer that has received anything from what it acknowledged to the packet before.
        #[test]
        fn the_peer_understands_rfc_9000_section_17_1(
            number in 0..=varint::MAX,
            behind in 1_u64..0x3fff_ffff,
            received in any::<u64>(),
        ) {
            let acked = number.checked_sub(behind);
            let len = encoded_len(number, acked);
            let truncated = number & ((1 << (8 * len)) - 1);
            let lowest = acked.map_or(0, |acked| acked + 1);
            let largest = (lowest + received % (number - lowest + 1)).checked_sub(1);
            if acked.is_some() || number < 0x3fff_ffff {
                prop_assert_eq!(decode(largest, truncated, len), number);
            }
        }

        #[test]
        fn no_number_has_more_than_62_bits(
            largest in any::<Option<u64>>(),
            truncated in any::<u32>(),
            len in 1_usize..=4,
        ) {
            let truncated = u64::from(truncated) & ((1 << (8 * len)) - 1);
            let number = decode(largest, truncated, len);
            prop_assert!(number <= varint::MAX);
            prop_assert_eq!(number & ((1 << (8 * len)) - 1), truncated);
        }
    }
}
