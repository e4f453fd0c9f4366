//! A quick hash of names and values for the encoder's table.
//!
//! It is not keyed: a peer that makes fields collide lengthens a chain of at most the table's
//! entries, in its own connection.

/// Odd, with its bits spread evenly: the golden ratio as a fraction of 2^64.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Eight bytes at a time; each product is folded so that its upper half affects the lower.
#[inline]
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = fold(seed ^ bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word));
    }
    if rest.is_empty() {
        return state;
    }
    // Reading the last eight bytes, some of them twice, costs less than reading the rest one by
    // one.
    let last = match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => rest
            .iter()
            .fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    fold(state ^ last)
}

#[inline]
const fn fold(value: u64) -> u64 {
    let product = (value ^ FACTOR) as u128 * FACTOR as u128;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_byte_and_the_seed_count() {
        for length in 0..40 {
            let bytes = vec![b'a'; length];
            let mut seen = HashSet::from([hash(1, &bytes), hash(2, &bytes)]);
            for at in 0..length {
                let mut other = bytes.clone();
                other[at] = b'b';
                seen.insert(hash(1, &other));
            }
            assert_eq!(seen.len(), length + 2, "{length} bytes");
        }
    }
}
