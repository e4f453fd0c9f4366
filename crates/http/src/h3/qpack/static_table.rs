//! The fields that both ends know from the start (RFC 9204 appendix A).

use crate::headers::KnownHeader;
use crate::message::{Note, StaticLine, note_of_static, static_line};

/// Number of entries.
pub(crate) const STATIC_ENTRIES: usize = 99;

/// Where there is no entry.
const NONE: u8 = u8::MAX;

/// The entry `index`, 0 to 98, and the note about it.
#[inline]
pub(super) fn get(index: u64) -> Option<(StaticLine, Note)> {
    let index = usize::try_from(index).ok()?;
    Some((*LINES.get(index)?, *NOTES.get(index)?))
}

/// The entries with a name that fit a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StaticMatch {
    /// The first entry with the name.
    pub(super) name: u8,
    /// The entry with the name and the value.
    pub(super) field: Option<u8>,
}

/// The entries with the name `known`.
#[inline]
pub(super) fn find_known(known: KnownHeader, value: &[u8]) -> Option<StaticMatch> {
    with_value(KNOWN_NAMES[known as usize], value)
}

/// The entries with this name, given in lower case.
pub(super) fn find(name: &[u8], value: &[u8]) -> Option<StaticMatch> {
    let mut index = BUCKETS[bucket(name)];
    while let Some(line) = LINES.get(usize::from(index)) {
        if line.name() == name {
            return with_value(index, value);
        }
        index = NEXT_IN_BUCKET[usize::from(index)];
    }
    None
}

fn with_value(first: u8, value: &[u8]) -> Option<StaticMatch> {
    let mut index = first;
    while let Some(line) = LINES.get(usize::from(index)) {
        if line.value() == value {
            break;
        }
        index = NEXT_WITH_NAME[usize::from(index)];
    }
    (first != NONE).then_some(StaticMatch {
        name: first,
        field: (index != NONE).then_some(index),
    })
}

const BUCKET_COUNT: usize = 64;

const fn bucket(name: &[u8]) -> usize {
    match name {
        [first, .., last] => (name.len() * 7 + *first as usize * 3 + *last as usize) % BUCKET_COUNT,
        _ => 0,
    }
}

/// The notes about all entries.
static NOTES: [Note; STATIC_ENTRIES] = {
    let mut notes = [0; STATIC_ENTRIES];
    let mut index = 0;
    while index < STATIC_ENTRIES {
        notes[index] = note_of_static(LINES[index].name());
        index += 1;
    }
    notes
};

/// The first entry with each of the known names.
static KNOWN_NAMES: [u8; KnownHeader::ALL.len()] = {
    let mut indexes = [NONE; KnownHeader::ALL.len()];
    let mut known = 0;
    while known < indexes.len() {
        indexes[known] = first_with_name(KnownHeader::ALL[known].name().as_bytes());
        known += 1;
    }
    indexes
};

/// The next entry with the same name.
static NEXT_WITH_NAME: [u8; STATIC_ENTRIES] = {
    let mut next = [NONE; STATIC_ENTRIES];
    let mut index = 0;
    while index < STATIC_ENTRIES {
        let mut later = STATIC_ENTRIES - 1;
        while later > index {
            if LINES[later]
                .name()
                .eq_ignore_ascii_case(LINES[index].name())
            {
                next[index] = later as u8;
            }
            later -= 1;
        }
        index += 1;
    }
    next
};

/// The last first entry with a name in each bucket, and the one before each of them.
const CHAINS: ([u8; BUCKET_COUNT], [u8; STATIC_ENTRIES]) = {
    let mut buckets = [NONE; BUCKET_COUNT];
    let mut next = [NONE; STATIC_ENTRIES];
    let mut index = 0;
    while index < STATIC_ENTRIES {
        let name = LINES[index].name();
        if first_with_name(name) as usize == index {
            let at = bucket(name);
            next[index] = buckets[at];
            buckets[at] = index as u8;
        }
        index += 1;
    }
    (buckets, next)
};
static BUCKETS: [u8; BUCKET_COUNT] = CHAINS.0;
static NEXT_IN_BUCKET: [u8; STATIC_ENTRIES] = CHAINS.1;

const fn first_with_name(name: &[u8]) -> u8 {
    let mut index = 0;
    while index < STATIC_ENTRIES {
        if LINES[index].name().eq_ignore_ascii_case(name) {
            return index as u8;
        }
        index += 1;
    }
    NONE
}

const LINES: [StaticLine; STATIC_ENTRIES] = [
    static_line!(":authority", ""),
    static_line!(":path", "/"),
    static_line!("age", "0"),
    static_line!("content-disposition", ""),
    static_line!("content-length", "0"),
    static_line!("cookie", ""),
    static_line!("date", ""),
    static_line!("etag", ""),
    static_line!("if-modified-since", ""),
    static_line!("if-none-match", ""),
    static_line!("last-modified", ""),
    static_line!("link", ""),
    static_line!("location", ""),
    static_line!("referer", ""),
    static_line!("set-cookie", ""),
    static_line!(":method", "CONNECT"),
    static_line!(":method", "DELETE"),
    static_line!(":method", "GET"),
    static_line!(":method", "HEAD"),
    static_line!(":method", "OPTIONS"),
    static_line!(":method", "POST"),
    static_line!(":method", "PUT"),
    static_line!(":scheme", "http"),
    static_line!(":scheme", "https"),
    static_line!(":status", "103"),
    static_line!(":status", "200"),
    static_line!(":status", "304"),
    static_line!(":status", "404"),
    static_line!(":status", "503"),
    static_line!("accept", "*/*"),
    static_line!("accept", "application/dns-message"),
    static_line!("accept-encoding", "gzip, deflate, br"),
    static_line!("accept-ranges", "bytes"),
    static_line!("access-control-allow-headers", "cache-control"),
    static_line!("access-control-allow-headers", "content-type"),
    static_line!("access-control-allow-origin", "*"),
    static_line!("cache-control", "max-age=0"),
    static_line!("cache-control", "max-age=2592000"),
    static_line!("cache-control", "max-age=604800"),
    static_line!("cache-control", "no-cache"),
    static_line!("cache-control", "no-store"),
    static_line!("cache-control", "public, max-age=31536000"),
    static_line!("content-encoding", "br"),
    static_line!("content-encoding", "gzip"),
    static_line!("content-type", "application/dns-message"),
    static_line!("content-type", "application/javascript"),
    static_line!("content-type", "application/json"),
    static_line!("content-type", "application/x-www-form-urlencoded"),
    static_line!("content-type", "image/gif"),
    static_line!("content-type", "image/jpeg"),
    static_line!("content-type", "image/png"),
    static_line!("content-type", "text/css"),
    static_line!("content-type", "text/html; charset=utf-8"),
    static_line!("content-type", "text/plain"),
    static_line!("content-type", "text/plain;charset=utf-8"),
    static_line!("range", "bytes=0-"),
    static_line!("strict-transport-security", "max-age=31536000"),
    static_line!(
        "strict-transport-security",
        "max-age=31536000; includesubdomains"
    ),
    static_line!(
        "strict-transport-security",
        "max-age=31536000; includesubdomains; preload"
    ),
    static_line!("vary", "accept-encoding"),
    static_line!("vary", "origin"),
    static_line!("x-content-type-options", "nosniff"),
    static_line!("x-xss-protection", "1; mode=block"),
    static_line!(":status", "100"),
    static_line!(":status", "204"),
    static_line!(":status", "206"),
    static_line!(":status", "302"),
    static_line!(":status", "400"),
    static_line!(":status", "403"),
    static_line!(":status", "421"),
    static_line!(":status", "425"),
    static_line!(":status", "500"),
    static_line!("accept-language", ""),
    static_line!("access-control-allow-credentials", "FALSE"),
    static_line!("access-control-allow-credentials", "TRUE"),
    static_line!("access-control-allow-headers", "*"),
    static_line!("access-control-allow-methods", "get"),
    static_line!("access-control-allow-methods", "get, post, options"),
    static_line!("access-control-allow-methods", "options"),
    static_line!("access-control-expose-headers", "content-length"),
    static_line!("access-control-request-headers", "content-type"),
    static_line!("access-control-request-method", "get"),
    static_line!("access-control-request-method", "post"),
    static_line!("alt-svc", "clear"),
    static_line!("authorization", ""),
    static_line!(
        "content-security-policy",
        "script-src 'none'; object-src 'none'; base-uri 'none'"
    ),
    static_line!("early-data", "1"),
    static_line!("expect-ct", ""),
    static_line!("forwarded", ""),
    static_line!("if-range", ""),
    static_line!("origin", ""),
    static_line!("purpose", "prefetch"),
    static_line!("server", ""),
    static_line!("timing-allow-origin", "*"),
    static_line!("upgrade-insecure-requests", "1"),
    static_line!("user-agent", ""),
    static_line!("x-forwarded-for", ""),
    static_line!("x-frame-options", "deny"),
    static_line!("x-frame-options", "sameorigin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9204 appendix A.
    #[test]
    fn every_entry_is_found_by_its_name_and_value() {
        for (index, line) in LINES.iter().enumerate() {
            let found = find(line.name(), line.value()).expect("a name of the table");
            assert_eq!(found.field, Some(index as u8));
            assert_eq!(LINES[usize::from(found.name)].name(), line.name());
            assert!(usize::from(found.name) <= index);
            if let Some(known) = KnownHeader::from_name(line.name()) {
                assert_eq!(find_known(known, line.value()), Some(found));
            }
            let other = find(line.name(), b"another value").expect("a name of the table");
            assert_eq!((other.name, other.field), (found.name, None));
        }
        assert_eq!(find(b"x-none", b""), None);
        assert_eq!(find(b"", b""), None);
        assert_eq!(find_known(KnownHeader::Te, b""), None);
    }
}
