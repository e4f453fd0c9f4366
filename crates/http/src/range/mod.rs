//! Byte ranges (RFC 9110 section 14), handled as in nginx.

mod multipart;

use crate::{conditional, date, decimal};

pub use multipart::{BOUNDARY_BYTES, Multipart};

/// Bytes `start..end` of a representation; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl ByteRange {
    /// Number of bytes.
    pub fn bytes(self) -> u64 {
        self.end - self.start
    }

    /// Appends the value of `Content-Range`: `bytes 0-499/1234`.
    pub fn push_content_range(self, out: &mut Vec<u8>, total_bytes: u64) {
        out.extend_from_slice(b"bytes ");
        push_positions(out, self, total_bytes);
    }
}

/// `max_ranges` of a location that does not set it.
///
/// Since 1.29.5 nginx then ignores a multi-range request if the response, including boundaries,
/// would come close to the size of the whole: many small ranges cost more work than they save.
pub const MAX_RANGES_UNSET: usize = usize::MAX;

/// The assumed overhead of each of several ranges, if `max_ranges` is unset.
const PART_COST_BYTES: u64 = 256;

/// How much several ranges may cost beyond the whole, if `max_ranges` is unset.
const PARTS_ALLOWANCE_BYTES: u64 = 4096;

/// How to answer a `Range` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeOutcome {
    /// Answer 200 with everything: the header is not a byte range, or asks for nothing of an empty
    /// file, for more ranges than `max_ranges`, or for more bytes than there are.
    Whole,
    /// Answer 206 with one range.
    Single(ByteRange),
    /// Answer 206 with `multipart/byteranges`: two or more ranges, in the order asked for.
    Multiple(Vec<ByteRange>),
    /// Answer 416 with `Content-Range: bytes */length`.
    NotSatisfiable,
}

/// Evaluates the value of a `Range` header for a representation of `total_bytes`.
///
/// nginx's rules, which differ from RFC 9110 in that a malformed range is answered with 416 instead
/// of being ignored. `max_ranges` is the directive, or [`MAX_RANGES_UNSET`]; 0 turns ranges off. A
/// `total_bytes` beyond the largest file offset, which no file has, yields `Whole`.
pub fn evaluate(value: &[u8], total_bytes: u64, max_ranges: usize) -> RangeOutcome {
    const UNIT: &[u8] = b"bytes=";
    let Some((unit, specs)) = value.split_at_checked(UNIT.len()) else {
        return RangeOutcome::Whole;
    };
    let too_large = total_bytes > i64::MAX as u64;
    if max_ranges == 0 || too_large || specs.is_empty() || !unit.eq_ignore_ascii_case(UNIT) {
        return RangeOutcome::Whole;
    }
    let mut first = None;
    let mut ranges = Vec::new();
    let mut count = 0;
    let mut sum_bytes: u64 = 0;
    for spec in specs.split(|&byte| byte == b',') {
        let range = match resolve(spec, total_bytes) {
            Resolved::Malformed => return RangeOutcome::NotSatisfiable,
            Resolved::NothingOfNothing => return RangeOutcome::Whole,
            Resolved::Beyond => continue,
            Resolved::Range(range) => range,
        };
        count += 1;
        if count > max_ranges {
            return RangeOutcome::Whole;
        }
        sum_bytes = sum_bytes.saturating_add(range.bytes());
        // The usual single range allocates nothing.
        match first {
            None => first = Some(range),
            Some(first) if ranges.is_empty() => ranges.extend([first, range]),
            Some(_) => ranges.push(range),
        }
    }
    match first {
        None => RangeOutcome::NotSatisfiable,
        Some(_) if sum_bytes > total_bytes => RangeOutcome::Whole,
        Some(range) if ranges.is_empty() => RangeOutcome::Single(range),
        Some(_)
            if max_ranges == MAX_RANGES_UNSET && cost_too_much(count, sum_bytes, total_bytes) =>
        {
            RangeOutcome::Whole
        }
        Some(_) => RangeOutcome::Multiple(ranges),
    }
}

fn cost_too_much(count: usize, sum_bytes: u64, total_bytes: u64) -> bool {
    let cost_bytes = (count as u64)
        .saturating_mul(PART_COST_BYTES)
        .saturating_add(sum_bytes);
    cost_bytes > total_bytes.saturating_add(PARTS_ALLOWANCE_BYTES)
}

/// Whether `If-Range` lets the `Range` header apply (RFC 9110 section 13.1.5).
///
/// `etag` is the representation's entity tag as it is sent, `last_modified` its time. A weak tag
/// never matches; a date must equal the time exactly.
pub fn if_range_applies(if_range: &[u8], etag: Option<&[u8]>, last_modified: Option<i64>) -> bool {
    if if_range.len() >= 2 && if_range.ends_with(b"\"") {
        return etag.is_some_and(|etag| conditional::strong_match(if_range, etag));
    }
    last_modified.is_some() && date::parse(if_range) == last_modified
}

/// Appends the value of the `Content-Range` of a 416 answer: `bytes */1234`.
pub fn push_unsatisfied_content_range(out: &mut Vec<u8>, total_bytes: u64) {
    out.extend_from_slice(b"bytes */");
    decimal::push(out, total_bytes);
}

fn push_positions(out: &mut Vec<u8>, range: ByteRange, total_bytes: u64) {
    decimal::push(out, range.start);
    out.push(b'-');
    decimal::push(out, range.end - 1);
    out.push(b'/');
    decimal::push(out, total_bytes);
}

/// What one range specification means for a representation.
enum Resolved {
    Range(ByteRange),
    /// It starts after the end, or ends before its start.
    Beyond,
    /// It would start at 0 but covers nothing, as the representation is empty.
    NothingOfNothing,
    Malformed,
}

/// Resolves `first-last`, `first-` or `-suffix`; spaces may surround the parts.
fn resolve(spec: &[u8], total_bytes: u64) -> Resolved {
    let Some(dash) = memchr::memchr(b'-', spec) else {
        return Resolved::Malformed;
    };
    let (first, last) = (trim_spaces(&spec[..dash]), trim_spaces(&spec[dash + 1..]));
    let number = decimal::parse_offset;
    let (start, end) = if first.is_empty() {
        // Unlike anywhere else, nginx refuses a space after the dash of a suffix.
        let Some(suffix) = number(last).filter(|_| spec[dash + 1] != b' ') else {
            return Resolved::Malformed;
        };
        (total_bytes.saturating_sub(suffix), total_bytes)
    } else {
        let Some(start) = number(first) else {
            return Resolved::Malformed;
        };
        let end = match last {
            [] => total_bytes,
            last => match number(last) {
                Some(last) => total_bytes.min(last.saturating_add(1)),
                None => return Resolved::Malformed,
            },
        };
        (start, end)
    };
    if start < end {
        return Resolved::Range(ByteRange { start, end });
    }
    if start == 0 {
        return Resolved::NothingOfNothing;
    }
    Resolved::Beyond
}

fn trim_spaces(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests;
