//! What a response is found by.

use md5::{Digest, Md5};

/// Length of an MD5 sum.
pub const HASH_BYTES: usize = 16;

/// The MD5 sum of a key: its place in the index, and the name of its file.
pub type Hash = [u8; HASH_BYTES];

/// A key with its sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheKey {
    text: Box<[u8]>,
    crc32: u32,
    hash: Hash,
}

impl CacheKey {
    /// The key of this text.
    pub fn new(text: Vec<u8>) -> CacheKey {
        CacheKey {
            crc32: crc32fast::hash(&text),
            hash: Md5::digest(&text).into(),
            text: text.into(),
        }
    }

    /// The text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its CRC-32, a second sum that cache files contain.
    pub fn crc32(&self) -> u32 {
        self.crc32
    }

    /// Its MD5 sum.
    pub fn hash(&self) -> Hash {
        self.hash
    }
}

/// The hash of a variant: of the main key's hash with the request's values of the fields that
/// `Vary` names. `values` gives the values of all lines of a field, in order.
///
/// As in nginx, spaces and commas of `Accept-Charset`, `Accept-Encoding` and `Accept-Language` do
/// not count.
pub fn variant<'v, V>(main: &Hash, vary: &[u8], mut values: impl FnMut(&[u8]) -> V) -> Hash
where
    V: Iterator<Item = &'v [u8]>,
{
    let mut sum = Md5::new();
    sum.update(main);
    for name in words(&vary.to_ascii_lowercase()) {
        sum.update(name);
        sum.update(b":");
        let normalises = matches!(
            name,
            b"accept-charset" | b"accept-encoding" | b"accept-language"
        );
        let mut is_first = true;
        let mut add = |value: &[u8]| {
            if !std::mem::take(&mut is_first) {
                sum.update(b",");
            }
            sum.update(value);
        };
        for value in values(name) {
            match normalises {
                true => words(value).for_each(&mut add),
                false => add(value),
            }
        }
        sum.update(b"\r\n");
    }
    sum.finalize().into()
}

/// The words of a list with commas or spaces between them.
fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = list.split(|byte| matches!(byte, b' ' | b','));
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vary: &str, fields: &[(&str, &str)]) -> Hash {
        let main = CacheKey::new(b"key".to_vec()).hash();
        variant(&main, vary.as_bytes(), |name| {
            let of_name = fields.iter().filter(|field| field.0.as_bytes() == name);
            let values: Vec<&[u8]> = of_name.map(|field| field.1.as_bytes()).collect();
            values.into_iter()
        })
    }

    #[test]
    fn sums_are_those_that_everybody_computes() {
        let key = CacheKey::new(b"123456789".to_vec());
        assert_eq!(key.crc32(), 0xcbf4_3926);
        assert_eq!(key.hash()[..4], [0x25, 0xf9, 0xe7, 0x94]);
        assert_eq!(key.text(), b"123456789");
    }

    #[test]
    fn variants_differ_by_the_fields_that_are_named() {
        let gzip = of("Accept-Encoding", &[("accept-encoding", "gzip")]);
        assert_ne!(gzip, of("Accept-Encoding", &[]));
        assert_eq!(
            gzip,
            of(
                "accept-encoding",
                &[("accept-encoding", "gzip"), ("cookie", "1")]
            )
        );
        let spaced = [("accept-encoding", "gzip, br")];
        let split = [("accept-encoding", "gzip"), ("accept-encoding", " br,")];
        assert_eq!(
            of("Accept-Encoding", &spaced),
            of("Accept-Encoding", &split)
        );
        assert_ne!(
            of("X-Other", &[("x-other", "a, b")]),
            of("X-Other", &[("x-other", "a,b")])
        );
        assert_ne!(of("A, B", &[("a", "1")]), of("A, B", &[("b", "1")]));
    }
}
