//! Integers with a prefix (RFC 9204 section 4.1.1, RFC 7541 section 5.1).

/// The largest integer that must be understood: 62 bits.
pub(super) const MAX: u64 = (1 << 62) - 1;

/// The most bytes after the prefix of an accepted integer: nine times seven bits hold 62.
const MAX_CONTINUATION_BYTES: u32 = 9;

/// The integer is above [`MAX`], or encoded with more bytes than that needs: endless leading zeros
/// are as good an attack as large values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

/// Appends `value` with a prefix of `prefix_bits`, 1 to 8; `flags` are the bits above the prefix.
#[inline]
pub(super) fn encode(out: &mut Vec<u8>, flags: u8, prefix_bits: u32, value: u64) {
    let max_prefix = (1u64 << prefix_bits) - 1;
    if value < max_prefix {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | max_prefix as u8);
    let mut rest = value - max_prefix;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Takes an integer with a prefix of `prefix_bits` from the front of `input`; `None` if it is not
/// complete.
#[inline]
pub(super) fn decode(input: &mut &[u8], prefix_bits: u32) -> Result<Option<u64>, Overflow> {
    let Some((&first, rest)) = input.split_first() else {
        return Ok(None);
    };
    let max_prefix = (1u64 << prefix_bits) - 1;
    let prefix = u64::from(first) & max_prefix;
    if prefix < max_prefix {
        *input = rest;
        return Ok(Some(prefix));
    }
    decode_continuation(input, rest, prefix)
}

fn decode_continuation<'i>(
    input: &mut &'i [u8],
    mut rest: &'i [u8],
    prefix: u64,
) -> Result<Option<u64>, Overflow> {
    let mut value = prefix;
    for count in 0..MAX_CONTINUATION_BYTES {
        let Some((&byte, after)) = rest.split_first() else {
            return Ok(None);
        };
        rest = after;
        // At most 2^63 + 2^8 in all.
        value += u64::from(byte & 0x7f) << (7 * count);
        if byte & 0x80 == 0 {
            *input = rest;
            return if value <= MAX {
                Ok(Some(value))
            } else {
                Err(Overflow)
            };
        }
    }
    Err(Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541 appendix C.1.
    #[test]
    fn the_examples_of_hpack() {
        for (value, prefix_bits, expected) in [
            (10, 5, &[0x0a][..]),
            (1337, 5, &[0x1f, 0x9a, 0x0a]),
            (42, 8, &[0x2a]),
        ] {
            let mut out = Vec::new();
            encode(&mut out, 0, prefix_bits, value);
            assert_eq!(out, expected);
            assert_eq!(decode(&mut &out[..], prefix_bits), Ok(Some(value)));
        }
    }

    /// RFC 9204 section 4.1.1: integers up to and including 62 bits.
    #[test]
    fn sixty_two_bits_and_no_more() {
        for prefix_bits in 1..=8 {
            for value in [0, 1, 30, 31, 254, 255, 256, MAX - 1, MAX] {
                let mut out = Vec::new();
                encode(&mut out, 0, prefix_bits, value);
                for end in 0..out.len() {
                    assert_eq!(decode(&mut &out[..end], prefix_bits), Ok(None));
                }
                let mut input = &out[..];
                assert_eq!(decode(&mut input, prefix_bits), Ok(Some(value)));
                assert!(input.is_empty());
            }
            let mut out = Vec::new();
            encode(&mut out, 0, prefix_bits, MAX + 1);
            assert_eq!(decode(&mut &out[..], prefix_bits), Err(Overflow));
            let endless = [&[0xff][..], &[0x80; 20]].concat();
            assert_eq!(decode(&mut &endless[..], prefix_bits), Err(Overflow));
        }
    }
}
