//! Variable-length integers, RFC 9000 section 16.

/// Largest value: 62 bits.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// Takes an integer from the front of `bytes`, or `None` if it is not complete.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let len = 1_usize << (first >> 6);
    let (encoded, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    let value = encoded[1..]
        .iter()
        .fold(u64::from(first & 0x3f), |value, &byte| {
            value << 8 | u64::from(byte)
        });
    Some(value)
}

/// How many bytes the shortest encoding of `value` has: 1, 2, 4 or 8.
pub(crate) const fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends the shortest encoding of `value`, which is at most [`MAX`].
pub(crate) fn put(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX, "{value} has more than 62 bits");
    match len(value) {
        1 => out.push(value as u8),
        2 => out.extend((value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend((value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend((value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_9000_appendix_a_1() {
        for (encoded, value) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut bytes = encoded;
            assert_eq!((take(&mut bytes), bytes), (Some(value), &[][..]));
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out, encoded);
            for end in 0..encoded.len() {
                assert_eq!(take(&mut &encoded[..end]), None);
            }
        }
        // Longer than it had to be.
        assert_eq!(take(&mut &[0x40, 0x25][..]), Some(37));
    }

    #[test]
    fn lengths_change_where_the_values_do_not_fit_any_more() {
        for (value, expected) in [
            (0, 1),
            (0x3f, 1),
            (0x40, 2),
            (0x3fff, 2),
            (0x4000, 4),
            (0x3fff_ffff, 4),
            (0x4000_0000, 8),
            (MAX, 8),
        ] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!((len(value), out.len()), (expected, expected));
            assert_eq!(take(&mut &out[..]), Some(value));
        }
    }
}
