//! Preconditions (RFC 9110 section 13): `If-Match`, `If-Unmodified-Since`, `If-None-Match`,
//! `If-Modified-Since`, and the comparison of entity tags.

use crate::date;

/// The directive `if_modified_since`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// `off`: the header counts as "modified".
    Off,
    /// `exact`: the time must be the same.
    #[default]
    Exact,
    /// `before`: the representation must not be newer.
    Before,
}

/// The precondition headers of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preconditions<'a> {
    /// `If-Match`.
    pub if_match: Option<&'a [u8]>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a [u8]>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
}

/// The validators of the representation that a 200 response would carry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators<'a> {
    /// The `ETag` as it is sent, quotes and `W/` included.
    pub etag: Option<&'a [u8]>,
    /// `Last-Modified`, in seconds since 1970.
    pub last_modified: Option<i64>,
}

/// The outcome of the preconditions for a 200 response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it.
    Proceed,
    /// Send 304 without a body.
    NotModified,
    /// Send 412.
    PreconditionFailed,
}

/// Evaluates the preconditions for a response that would be 200.
///
/// The order is nginx's: `If-Unmodified-Since`, `If-Match`, then `If-Modified-Since` and
/// `If-None-Match` together. If both of the last two are present, nginx answers 304 only if both
/// agree, while RFC 9110 section 13.2.2 would let the tag alone decide. A client that sends both
/// gets at worst a body it did not need. As in nginx, preconditions do not apply to a
/// representation without a modification time.
pub fn evaluate(
    conditions: &Preconditions<'_>,
    validators: &Validators<'_>,
    mode: IfModifiedSince,
) -> Verdict {
    if validators.last_modified.is_none() && validators.etag.is_none() {
        return Verdict::Proceed;
    }
    if let Some(value) = conditions.if_unmodified_since
        && (date::parse(value).zip(validators.last_modified))
            .is_none_or(|(limit, last_modified)| limit < last_modified)
    {
        return Verdict::PreconditionFailed;
    }
    if let Some(list) = conditions.if_match
        && !list_matches(list, validators.etag, Comparison::Strong)
    {
        return Verdict::PreconditionFailed;
    }
    if conditions.if_modified_since.is_none() && conditions.if_none_match.is_none() {
        return Verdict::Proceed;
    }
    if let Some(value) = conditions.if_modified_since
        && (validators.last_modified)
            .is_none_or(|last_modified| is_modified(value, last_modified, mode))
    {
        return Verdict::Proceed;
    }
    if let Some(list) = conditions.if_none_match
        && !list_matches(list, validators.etag, Comparison::Weak)
    {
        return Verdict::Proceed;
    }
    Verdict::NotModified
}

/// Strong comparison (RFC 9110 section 8.8.3.2): the same tag, and not a weak one.
pub fn strong_match(one: &[u8], other: &[u8]) -> bool {
    one == other && !one.starts_with(b"W/")
}

/// Weak comparison: the same tag, whether weak or not.
fn weak_match(one: &[u8], other: &[u8]) -> bool {
    opaque_tag(one) == opaque_tag(other)
}

#[derive(Clone, Copy)]
enum Comparison {
    Strong,
    Weak,
}

fn is_modified(value: &[u8], last_modified: i64, mode: IfModifiedSince) -> bool {
    match (mode, date::parse(value)) {
        (IfModifiedSince::Off, _) | (_, None) => true,
        (IfModifiedSince::Exact, Some(since)) => since != last_modified,
        (IfModifiedSince::Before, Some(since)) => since < last_modified,
    }
}

/// Whether a list of entity tags, or `*`, covers the representation.
fn list_matches(list: &[u8], etag: Option<&[u8]>, comparison: Comparison) -> bool {
    if list == b"*" {
        return true;
    }
    let Some(etag) = etag else { return false };
    Tags(list).any(|tag| match comparison {
        Comparison::Strong => strong_match(tag, etag),
        Comparison::Weak => weak_match(tag, etag),
    })
}

/// The members of a list of entity tags. A tag may hold commas between its quotes.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let skipped = self
            .0
            .iter()
            .position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
        let list = &self.0[skipped..];
        let mut quoted = false;
        let end = list
            .iter()
            .position(|&byte| {
                quoted ^= byte == b'"';
                byte == b',' && !quoted
            })
            .unwrap_or(list.len());
        self.0 = &list[end..];
        Some(list[..end].trim_ascii_end())
    }
}

fn opaque_tag(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests;
