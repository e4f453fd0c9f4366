//! Integers with a prefix (RFC 7541 section 5.1).

use super::HpackError;

/// The most bytes after the prefix of an accepted integer: five times seven bits hold 2^32 - 1.
const MAX_CONTINUATION_BYTES: u32 = 5;

/// Appends `value` with a prefix of `prefix_bits`, 1 to 8; `flags` are the bits above the prefix.
pub(super) fn encode(out: &mut Vec<u8>, flags: u8, prefix_bits: u32, value: u32) {
    let max_prefix = (1u32 << prefix_bits) - 1;
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

/// Takes an integer with a prefix of `prefix_bits` from the front of `input`.
///
/// # Errors
/// [`HpackError::Truncated`], and [`HpackError::IntegerOverflow`] above 2^32 - 1 or with more
/// continuation bytes than that needs: endless leading zeros are as good an attack as large values.
#[inline]
pub(super) fn decode(input: &mut &[u8], prefix_bits: u32) -> Result<u32, HpackError> {
    let (&first, rest) = input.split_first().ok_or(HpackError::Truncated)?;
    *input = rest;
    let max_prefix = (1u32 << prefix_bits) - 1;
    let prefix = u32::from(first) & max_prefix;
    if prefix < max_prefix {
        return Ok(prefix);
    }
    decode_continuation(input, prefix)
}

fn decode_continuation(input: &mut &[u8], prefix: u32) -> Result<u32, HpackError> {
    let mut value = u64::from(prefix);
    for count in 0..MAX_CONTINUATION_BYTES {
        let (&byte, rest) = input.split_first().ok_or(HpackError::Truncated)?;
        *input = rest;
        value += u64::from(byte & 0x7f) << (7 * count);
        if byte & 0x80 == 0 {
            return u32::try_from(value).map_err(|_| HpackError::IntegerOverflow);
        }
    }
    Err(HpackError::IntegerOverflow)
}
