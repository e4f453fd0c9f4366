//! Variable-length integers (RFC 9000 section 16).

/// Largest value: 62 bits.
pub(super) const MAX: u64 = (1 << 62) - 1;

/// Takes an integer from the front of `bytes`, or `None` if it is not complete.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (encoded, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    let value = encoded[1..]
        .iter()
        .fold(u64::from(first & 0x3f), |value, &byte| {
            value << 8 | u64::from(byte)
        });
    Some(value)
}

/// How many bytes the shortest encoding of `value` has: 1, 2, 4 or 8.
pub(super) const fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends the shortest encoding of `value`, which is at most [`MAX`].
pub(super) fn put(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX, "{value} has more than 62 bits");
    match len(value) {
        1 => out.push(value as u8),
        2 => out.extend((value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend((value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend((value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// The front of one or two integers that have not arrived entirely: at most 15 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Partial {
    bytes: [u8; 16],
    len: u8,
}

impl Partial {
    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Takes what `parse` reads from the bytes held and those of `input`; `None` if they are too
    /// few, and then they are held. `parse` needs at most 16 bytes.
    pub(super) fn take<T>(
        &mut self,
        input: &mut &[u8],
        parse: impl Fn(&mut &[u8]) -> Option<T>,
    ) -> Option<T> {
        if self.len == 0 {
            let mut rest = *input;
            if let Some(parsed) = parse(&mut rest) {
                *input = rest;
                return Some(parsed);
            }
        }
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            *self.bytes.get_mut(usize::from(self.len))? = byte;
            self.len += 1;
            if let Some(parsed) = parse(&mut &self.bytes[..usize::from(self.len)]) {
                self.len = 0;
                return Some(parsed);
            }
        }
        None
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
            assert_eq!((&out[..], len(value)), (encoded, encoded.len()));
            for end in 0..encoded.len() {
                assert_eq!(take(&mut &encoded[..end]), None);
            }
        }
        // Longer than it had to be.
        assert_eq!(take(&mut &[0x40, 0x25][..]), Some(37));
    }

    #[test]
    fn integers_in_pieces_are_put_together() {
        let mut encoded = Vec::new();
        let values = [MAX, 5, 0x3fff, MAX];
        for value in values {
            put(&mut encoded, value);
        }
        let pair = |bytes: &mut &[u8]| Some((take(bytes)?, take(bytes)?));
        for piece in 1..=encoded.len() {
            let mut partial = Partial::default();
            let mut found = Vec::new();
            for mut input in encoded.chunks(piece) {
                while let Some((first, second)) = partial.take(&mut input, pair) {
                    found.extend([first, second]);
                }
                assert!(input.is_empty());
            }
            assert!(partial.is_empty());
            assert_eq!(found, values, "{piece}");
        }
    }
}
