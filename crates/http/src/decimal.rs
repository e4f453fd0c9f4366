//! Decimal numbers of headers: digits only, no sign, no white space, no overflow.

/// Parses one or more ASCII digits up to `i64::MAX`, the largest file offset; `None` for
/// anything else. The bound is nginx's, and it keeps sums of two such numbers inside `u64`.
pub fn parse_offset(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        if value > i64::MAX as u64 {
            return None;
        }
    }
    Some(value)
}

/// Appends `value` in decimal.
pub(crate) fn push(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_digits_only_and_bounded() {
        assert_eq!(parse_offset(b"0"), Some(0));
        assert_eq!(parse_offset(b"0042"), Some(42));
        assert_eq!(parse_offset(b"9223372036854775807"), Some(i64::MAX as u64));
        for bad in [
            "",
            "+1",
            "-1",
            " 1",
            "1 ",
            "1,1",
            "0x10",
            "9223372036854775808",
        ] {
            assert_eq!(parse_offset(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parse_offset(&[b'9'; 40]), None);
    }
}
