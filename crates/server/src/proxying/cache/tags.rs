//! Tags of responses, which purges name: `Surrogate-Key` and `Cache-Tag`.

use super::form::without_records;
use sealane_cache::Tags;
use std::borrow::Cow;

/// The fields of a response that list its tags.
const FIELDS: [&[u8]; 2] = [b"surrogate-key", b"cache-tag"];

/// The first byte of a head that is kept in FastCGI records: no other head begins with it.
const FASTCGI_VERSION: u8 = 1;

/// The tags in a list: separated by white space (`Surrogate-Key`) or commas (`Cache-Tag`).
pub(super) fn listed(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let tags = list.split(|byte| matches!(byte, b' ' | b'\t' | b','));
    tags.filter(|tag| !tag.is_empty())
}

/// The tags of a response, from its head as it is kept.
pub(super) fn of_head(kept: &[u8]) -> Tags {
    let text = match kept.first() {
        Some(&FASTCGI_VERSION) => match without_records(kept) {
            Some(text) => Cow::Owned(text),
            None => return Tags::Unknown,
        },
        _ => Cow::Borrowed(kept),
    };
    let mut tags: Vec<Box<[u8]>> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if FIELDS.iter().any(|field| field.eq_ignore_ascii_case(name)) {
            let value = value.strip_suffix(b"\r").unwrap_or(value);
            tags.extend(listed(value).map(Box::from));
        }
    }
    Tags::Known(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(kept: &[u8]) -> Option<Vec<String>> {
        match of_head(kept) {
            Tags::Known(tags) => {
                let texts = tags
                    .iter()
                    .map(|tag| String::from_utf8_lossy(tag).into_owned());
                Some(texts.collect())
            }
            Tags::Unknown => None,
        }
    }

    #[test]
    fn tags_are_those_of_both_fields_in_any_form_of_head() {
        let head = b"HTTP/1.1 200 OK\r\nSURROGATE-KEY: a  b\tc\r\nX: d\r\nCache-Tag:e, f,,g \r\n\
            X-Cache-Tag: h\r\nsurrogate-key:\r\n\r\n";
        let expected = ["a", "b", "c", "e", "f", "g"].map(str::to_owned).to_vec();
        assert_eq!(tags(head), Some(expected));
        assert_eq!(
            tags(b"Status: 200\nCache-Tag: z\n\n"),
            Some(vec!["z".into()])
        );
        let record =
            |content: &[u8]| [&[1, 6, 0, 1, 0, content.len() as u8, 0, 0], content].concat();
        let records = [record(b"Cache-T"), record(b"ag: y\r\n\r\n")].concat();
        assert_eq!(tags(&records), Some(vec!["y".into()]));
        assert_eq!(tags(b""), Some(Vec::new()));
        // What cannot be taken apart may have any tag.
        assert_eq!(tags(&[&[1; 8][..], &[9; 300]].concat()), None);
    }
}
