//! Changes to the head of a response whose body is filtered.

use crate::exchange::{ETag, Exchange, Response};
use sealane_conf::model::MediaTypes;

/// The current coding of the body, set by a handler or an upstream server.
pub(super) fn content_encoding(response: &Response) -> Option<&[u8]> {
    let own = response.content_encoding.map(str::as_bytes);
    own.or_else(|| response.headers.get(b"Content-Encoding"))
}

/// The body is not in any coding any more.
pub(super) fn clear_content_encoding(response: &mut Response) {
    response.content_encoding = None;
    response.headers.remove(b"Content-Encoding");
}

/// The body is in this coding from now on.
pub(super) fn set_content_encoding(response: &mut Response, coding: &'static str) {
    response.content_encoding = None;
    response.headers.remove(b"Content-Encoding");
    // A known name and a known value.
    let _ = response.headers.set(b"Content-Encoding", coding.as_bytes());
}

/// The media type without the character set that an upstream server or `charset` has added. As in
/// nginx, parameters that the configuration writes into a type belong to it.
pub(in crate::filters) fn media_type(response: &Response) -> Option<&[u8]> {
    let text = response.content_type.as_ref()?.as_bytes();
    match charset_at(response, text) {
        Some((end, _)) => Some(&text[..end]),
        None => Some(text),
    }
}

/// The character set that is named in the type.
pub(crate) fn charset(response: &Response) -> Option<&[u8]> {
    let text = response.content_type.as_ref()?.as_bytes();
    let (_, from) = charset_at(response, text)?;
    let name = &text[from..];
    let name = name.strip_prefix(b"\"").unwrap_or(name);
    let name = name.strip_suffix(b"\"").unwrap_or(name);
    Some(name).filter(|name| !name.is_empty())
}

/// Where the type ends, and where the name of its character set begins.
fn charset_at(response: &Response, text: &[u8]) -> Option<(usize, usize)> {
    if !response.from_upstream && !response.charset_named {
        return None;
    }
    memchr::memchr_iter(b';', text).find_map(|end| {
        let parameter = text[end + 1..].trim_ascii_start();
        const NAME: &[u8] = b"charset=";
        let is_charset = parameter
            .get(..NAME.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(NAME));
        is_charset.then(|| (end, text.len() - parameter.len() + NAME.len()))
    })
}

/// Whether the response has one of these types. `*` matches all, even none.
pub(super) fn is_of(response: &Response, types: &MediaTypes) -> bool {
    let media_type = media_type(response);
    matches!(types, MediaTypes::Any) || media_type.is_some_and(|one| types.has(one))
}

/// The file's time and tag do not describe this body.
pub(super) fn clear_validators(response: &mut Response) {
    response.last_modified_s = None;
    response.etag = None;
    response.headers.remove(b"ETag");
    if let Some(passed) = &mut response.passed {
        passed.last_modified = false;
        response.headers.remove(b"Last-Modified");
    }
}

/// The length is no longer known, and byte ranges would be those of another body.
pub(super) fn forget_length(response: &mut Response) {
    response.content_length = None;
    response.allow_ranges = false;
    response.headers.remove(b"Accept-Ranges");
}

/// The body is equivalent, but not byte for byte (RFC 9110 section 8.8.1).
pub(super) fn weaken_etag(exchange: &mut Exchange) {
    let response = &mut exchange.response;
    if let Some(etag) = &response.etag {
        response.etag = weak(etag.as_bytes()).as_deref().and_then(ETag::new);
    }
    let passed = response.headers.get(b"ETag");
    if let Some(passed) = passed {
        match weak(passed) {
            // It was valid before, and gets two bytes longer.
            Some(weak) => drop(response.headers.set(b"ETag", &weak)),
            None => drop(response.headers.remove(b"ETag")),
        }
    }
}

/// The weak form of a tag; `None` if it is not a valid tag.
fn weak(etag: &[u8]) -> Option<Vec<u8>> {
    match etag {
        [b'W', b'/', b'"', ..] => Some(etag.to_vec()),
        [b'"', ..] => Some([b"W/", etag].concat()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_weak_once() {
        assert_eq!(weak(b"\"a\"").as_deref(), Some(&b"W/\"a\""[..]));
        assert_eq!(weak(b"W/\"a\"").as_deref(), Some(&b"W/\"a\""[..]));
        assert_eq!(weak(b"a"), None);
        assert_eq!(weak(b""), None);
    }
}
