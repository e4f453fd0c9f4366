//! Which variant of a response a request is about (RFC 9111 section 4.1).
//!
//! A response is kept with the names of its `Vary`, to which a word is added that no field has as
//! its name: the generation. The variants of a key share it, as their places are computed from the
//! names with it. Once the response in the key's own place is gone, the next one has another
//! generation, and so whatever was kept for the older one is not found any more. That is how
//! removing one file removes all variants, for nginx too.

use sealane_cache::{CacheHeader, Hash, variant};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the word begins with; it cannot be in a field name.
const MARK: u8 = b'@';

/// The words of a list with commas or spaces between them.
fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = list.split(|byte| matches!(byte, b' ' | b','));
    words.filter(|word| !word.is_empty())
}

/// The generation that kept names contain.
pub(super) fn generation(kept: &[u8]) -> Option<Box<[u8]>> {
    let word = words(kept).find(|word| word.first() == Some(&MARK))?;
    Some(word.into())
}

/// A generation that there has never been.
pub(super) fn new_generation() -> Box<[u8]> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now_ms = u64::try_from(sealane_sys::time::unix_ms()).unwrap_or(0);
    // Two of one millisecond differ, and so do those before and after a restart.
    let next = |last: u64| Some((now_ms << 16).max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    let number = last.ok().and_then(next).unwrap_or(now_ms << 16);
    format!("@{number:x}").into_bytes().into()
}

/// The names to be kept for the `Vary` lines of a response; `None` if nothing may be kept: with a
/// star, or too many names.
pub(super) fn names<'v>(
    lines: impl Iterator<Item = &'v [u8]>,
    generation: Box<[u8]>,
) -> Option<Vec<u8>> {
    let mut names: Vec<&[u8]> = Vec::new();
    for line in lines {
        for name in line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            match name {
                b"*" => return None,
                b"" => {}
                // What has a space or a mark in it names no field.
                _ if !sealane_http::headers::is_token(name) => return None,
                _ => names.push(name),
            }
        }
    }
    if names.is_empty() {
        return Some(Vec::new());
    }
    names.push(&generation);
    let kept = names.join(&b", "[..]);
    (kept.len() <= CacheHeader::MAX_VARY_BYTES).then_some(kept)
}

/// The hash of a variant; `lines` gives the values of all lines of a field.
pub(in crate::proxying::cache) fn variant_of<'v, V>(
    main: &Hash,
    kept: &[u8],
    mut lines: impl FnMut(&[u8]) -> V,
) -> Hash
where
    V: Iterator<Item = &'v [u8]>,
{
    let kept = kept.to_ascii_lowercase();
    let values: Vec<(&[u8], Option<Vec<u8>>)> = words(&kept)
        .map(|name| (name, normalised(name, lines(name))))
        .collect();
    variant(main, &kept, |name| {
        let mut values = values.iter();
        let value = values.find(|(known, _)| *known == name);
        value.and_then(|(_, value)| value.as_deref()).into_iter()
    })
}

/// A field's value, so that values which mean the same are the same; `None` if there is no line.
fn normalised<'v>(name: &[u8], lines: impl Iterator<Item = &'v [u8]>) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = lines.collect();
    if lines.is_empty() {
        return None;
    }
    let whole = lines.join(&b", "[..]);
    if whole.is_empty() {
        // Not the same as no line. No field has this value.
        return Some(b"\0".to_vec());
    }
    Some(match name {
        // Ordered by weights, not by position, and of any case.
        b"accept-language" | b"accept-encoding" | b"accept-charset" => preferences(&whole),
        _ => whole,
    })
}

/// Members in the order of the alphabet, without the weight that is meant anyway.
fn preferences(list: &[u8]) -> Vec<u8> {
    let list = list.to_ascii_lowercase();
    let members = list.split(|byte| *byte == b',');
    let mut members: Vec<Vec<u8>> = members
        .map(|member| {
            member
                .iter()
                .copied()
                .filter(|byte| !byte.is_ascii_whitespace())
                .collect()
        })
        .map(without_full_weight)
        .filter(|member| !member.is_empty())
        .collect();
    members.sort();
    members.dedup();
    members.join(&b","[..])
}

fn without_full_weight(mut member: Vec<u8>) -> Vec<u8> {
    let start = member.len()
        - member
            .rsplit(|byte| *byte == b';')
            .next()
            .map_or(0, <[u8]>::len);
    if matches!(
        &member[start..],
        b"q=1" | b"q=1." | b"q=1.0" | b"q=1.00" | b"q=1.000"
    ) && start > 0
    {
        member.truncate(start - 1);
    }
    member
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(lines: &[&str]) -> Option<String> {
        let lines = lines.iter().map(|line| line.as_bytes());
        let names = names(lines, (*b"@1").into())?;
        Some(String::from_utf8(names).expect("text"))
    }

    #[test]
    fn names_are_kept_with_their_generation() {
        assert_eq!(kept(&[]).as_deref(), Some(""));
        assert_eq!(kept(&[",", ""]).as_deref(), Some(""));
        assert_eq!(kept(&["A,b", "C"]).as_deref(), Some("A, b, C, @1"));
        for refused in [
            &["*"][..],
            &["a, *"],
            &["a", "*"],
            &[", *"],
            &["a b"],
            &["@2"],
        ] {
            assert_eq!(kept(refused), None, "{refused:?}");
        }
        let long = "a".repeat(CacheHeader::MAX_VARY_BYTES - 4);
        assert_eq!(kept(&[&long]).map(|kept| kept.len()), Some(128));
        assert_eq!(kept(&[&format!("{long}a")]), None);
        assert_eq!(generation(b"A, b, @1"), Some((*b"@1").into()));
        assert_eq!(generation(b"A, b"), None);
        let (one, other) = (new_generation(), new_generation());
        assert!(one != other && one.first() == Some(&MARK) && one.len() <= 17);
    }

    fn hash(kept: &str, fields: &[(&str, &str)]) -> Hash {
        variant_of(&[7; 16], kept.as_bytes(), |name| {
            let of_name = fields.iter().filter(|field| field.0.as_bytes() == name);
            let values: Vec<&[u8]> = of_name.map(|field| field.1.as_bytes()).collect();
            values.into_iter()
        })
    }

    #[test]
    fn what_means_the_same_is_the_same_variant() {
        let language = |value| hash("Accept-Language, @1", &[("accept-language", value)]);
        let same = language("en, de");
        for value in [
            "de, en",
            "eN,De",
            " en ,   de ",
            "de;q=1.0, en",
            "de ; q=1,en",
        ] {
            assert_eq!(language(value), same, "{value:?}");
        }
        for value in ["en, de;q=0.5", "en", "en, de, fr", "ende"] {
            assert_ne!(language(value), same, "{value:?}");
        }
        let foo = |fields: &[(&str, &str)]| hash("Foo, @1", fields);
        let lines = foo(&[("foo", "1"), ("foo", "2")]);
        assert_eq!(foo(&[("foo", "1, 2")]), lines);
        assert_ne!(foo(&[("foo", "2, 1")]), lines);
        // Spaces may mean something in a field that is not known.
        assert_ne!(foo(&[("foo", "1,2")]), lines);
        assert_ne!(foo(&[]), foo(&[("foo", "")]));
    }

    #[test]
    fn generations_have_nothing_in_common() {
        let of = |kept| hash(kept, &[("foo", "1")]);
        assert_eq!(of("Foo, @1"), of("foo, @1"));
        assert_ne!(of("Foo, @1"), of("Foo, @2"));
        assert_ne!(of("Foo, @1"), of("Foo"));
    }
}
