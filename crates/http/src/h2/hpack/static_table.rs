//! The fields that both ends know from the start (RFC 7541 appendix A).

use crate::headers::KnownHeader;

/// Number of entries; dynamic entries follow from index 62 (RFC 7541 section 2.3.3).
pub const STATIC_ENTRIES: u32 = 61;

/// An entry as the decoder appends it: `name: value\r\n`.
#[derive(Clone, Copy)]
pub(super) struct StaticLine {
    pub(super) line: &'static [u8],
    pub(super) name_bytes: u32,
}

impl StaticLine {
    pub(super) const fn name(&self) -> &'static [u8] {
        self.line.split_at(self.name_bytes as usize).0
    }

    pub(super) const fn value(&self) -> &'static [u8] {
        let (_, rest) = self.line.split_at(self.name_bytes as usize + 2);
        rest.split_at(rest.len() - 2).0
    }
}

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

macro_rules! line {
    ($name:literal, $value:literal) => {
        StaticLine {
            line: concat!($name, ": ", $value, "\r\n").as_bytes(),
            name_bytes: $name.len() as u32,
        }
    };
}

static LINES: [StaticLine; STATIC_ENTRIES as usize] = [
    line!(":authority", ""),
    line!(":method", "GET"),
    line!(":method", "POST"),
    line!(":path", "/"),
    line!(":path", "/index.html"),
    line!(":scheme", "http"),
    line!(":scheme", "https"),
    line!(":status", "200"),
    line!(":status", "204"),
    line!(":status", "206"),
    line!(":status", "304"),
    line!(":status", "400"),
    line!(":status", "404"),
    line!(":status", "500"),
    line!("accept-charset", ""),
    line!("accept-encoding", "gzip, deflate"),
    line!("accept-language", ""),
    line!("accept-ranges", ""),
    line!("accept", ""),
    line!("access-control-allow-origin", ""),
    line!("age", ""),
    line!("allow", ""),
    line!("authorization", ""),
    line!("cache-control", ""),
    line!("content-disposition", ""),
    line!("content-encoding", ""),
    line!("content-language", ""),
    line!("content-length", ""),
    line!("content-location", ""),
    line!("content-range", ""),
    line!("content-type", ""),
    line!("cookie", ""),
    line!("date", ""),
    line!("etag", ""),
    line!("expect", ""),
    line!("expires", ""),
    line!("from", ""),
    line!("host", ""),
    line!("if-match", ""),
    line!("if-modified-since", ""),
    line!("if-none-match", ""),
    line!("if-range", ""),
    line!("if-unmodified-since", ""),
    line!("last-modified", ""),
    line!("link", ""),
    line!("location", ""),
    line!("max-forwards", ""),
    line!("proxy-authenticate", ""),
    line!("proxy-authorization", ""),
    line!("range", ""),
    line!("referer", ""),
    line!("refresh", ""),
    line!("retry-after", ""),
    line!("server", ""),
    line!("set-cookie", ""),
    line!("strict-transport-security", ""),
    line!("transfer-encoding", ""),
    line!("user-agent", ""),
    line!("vary", ""),
    line!("via", ""),
    line!("www-authenticate", ""),
];
