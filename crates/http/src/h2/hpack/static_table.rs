//! The fields that both ends know from the start (RFC 7541 appendix A).

use crate::headers::KnownHeader;
use crate::message::{StaticLine, static_line};

/// Number of entries; dynamic entries follow from index 62 (RFC 7541 section 2.3.3).
pub const STATIC_ENTRIES: u32 = 61;

/// Name and value of the static entry `index`, 1 to 61.
///
/// A sink can use this at compile time to build a table of what it knows about these names.
pub const fn static_field(index: u32) -> Option<(&'static [u8], &'static [u8])> {
    if index == 0 || index > STATIC_ENTRIES {
        return None;
    }
    let line = &LINES[index as usize - 1];
    Some((line.name(), line.value()))
}

/// The entry `index`, 1 to 61.
#[inline]
pub(super) fn line(index: u32) -> Option<StaticLine> {
    LINES.get((index as usize).wrapping_sub(1)).copied()
}

/// The first entry with this name, given in lower case, or 0.
pub(super) fn name_index(name: &[u8]) -> u8 {
    if let Some(known) = KnownHeader::from_name(name) {
        return known_name_index(known);
    }
    match name {
        b":authority" => 1,
        b":method" => 2,
        b":path" => 4,
        b":scheme" => 6,
        b":status" => 8,
        b"access-control-allow-origin" => 20,
        b"content-language" => 27,
        b"content-location" => 29,
        b"from" => 37,
        b"max-forwards" => 47,
        b"proxy-authenticate" => 48,
        _ => 0,
    }
}

/// The first entry with that name, or 0.
#[inline]
pub(super) const fn known_name_index(known: KnownHeader) -> u8 {
    KNOWN_NAMES[known as usize]
}

/// The last entry that has a value: `accept-encoding: gzip, deflate`.
const LAST_WITH_VALUE: u8 = 16;

/// The first entry with this value among those that share the name of `name_index`.
#[inline]
pub(super) fn index_with_value(name_index: u8, value: &[u8]) -> Option<u8> {
    if name_index > LAST_WITH_VALUE {
        return None;
    }
    with_value(name_index, value)
}

fn with_value(name_index: u8, value: &[u8]) -> Option<u8> {
    // Only these names have entries with values.
    let candidates = match name_index {
        2 => 2..=3,
        4 => 4..=5,
        6 => 6..=7,
        8 => 8..=14,
        16 => 16..=16,
        _ => return None,
    };
    let has_value = |index: &u8| LINES[usize::from(*index) - 1].value() == value;
    candidates.into_iter().find(has_value)
}

static KNOWN_NAMES: [u8; KnownHeader::ALL.len()] = {
    let mut indexes = [0; KnownHeader::ALL.len()];
    let mut known = 0;
    while known < indexes.len() {
        let name = KnownHeader::ALL[known].name().as_bytes();
        let mut index = LINES.len();
        while index > 0 {
            if LINES[index - 1].name().eq_ignore_ascii_case(name) {
                indexes[known] = index as u8;
            }
            index -= 1;
        }
        known += 1;
    }
    indexes
};

static LINES: [StaticLine; STATIC_ENTRIES as usize] = [
    static_line!(":authority", ""),
    static_line!(":method", "GET"),
    static_line!(":method", "POST"),
    static_line!(":path", "/"),
    static_line!(":path", "/index.html"),
    static_line!(":scheme", "http"),
    static_line!(":scheme", "https"),
    static_line!(":status", "200"),
    static_line!(":status", "204"),
    static_line!(":status", "206"),
    static_line!(":status", "304"),
    static_line!(":status", "400"),
    static_line!(":status", "404"),
    static_line!(":status", "500"),
    static_line!("accept-charset", ""),
    static_line!("accept-encoding", "gzip, deflate"),
    static_line!("accept-language", ""),
    static_line!("accept-ranges", ""),
    static_line!("accept", ""),
    static_line!("access-control-allow-origin", ""),
    static_line!("age", ""),
    static_line!("allow", ""),
    static_line!("authorization", ""),
    static_line!("cache-control", ""),
    static_line!("content-disposition", ""),
    static_line!("content-encoding", ""),
    static_line!("content-language", ""),
    static_line!("content-length", ""),
    static_line!("content-location", ""),
    static_line!("content-range", ""),
    static_line!("content-type", ""),
    static_line!("cookie", ""),
    static_line!("date", ""),
    static_line!("etag", ""),
    static_line!("expect", ""),
    static_line!("expires", ""),
    static_line!("from", ""),
    static_line!("host", ""),
    static_line!("if-match", ""),
    static_line!("if-modified-since", ""),
    static_line!("if-none-match", ""),
    static_line!("if-range", ""),
    static_line!("if-unmodified-since", ""),
    static_line!("last-modified", ""),
    static_line!("link", ""),
    static_line!("location", ""),
    static_line!("max-forwards", ""),
    static_line!("proxy-authenticate", ""),
    static_line!("proxy-authorization", ""),
    static_line!("range", ""),
    static_line!("referer", ""),
    static_line!("refresh", ""),
    static_line!("retry-after", ""),
    static_line!("server", ""),
    static_line!("set-cookie", ""),
    static_line!("strict-transport-security", ""),
    static_line!("transfer-encoding", ""),
    static_line!("user-agent", ""),
    static_line!("vary", ""),
    static_line!("via", ""),
    static_line!("www-authenticate", ""),
];
