//! What has to change in the head of a response whose body a filter changes.

use crate::exchange::{ETag, Exchange, Response};

/// The coding that the body has now: a handler's, or that of a server behind us.
pub(super) fn content_encoding(response: &Response) -> Option<&[u8]> {
    let own = response.content_encoding.map(str::as_bytes);
    own.or_else(|| response.headers.get(b"Content-Encoding"))
}

/// The body is not in any coding any more.
pub(super) fn clear_content_encoding(response: &mut Response) {
    response.content_encoding = None;
    response.headers.remove(b"Content-Encoding");
}

/// Nobody knows the length any more, and byte ranges would be those of another body.
pub(super) fn forget_length(response: &mut Response) {
    response.content_length = None;
    response.allow_ranges = false;
    response.headers.remove(b"Accept-Ranges");
}

/// It means the same, byte for byte it is something else (RFC 9110 section 8.8.1).
pub(super) fn weaken_etag(exchange: &mut Exchange) {
    let response = &mut exchange.response;
    if let Some(etag) = &response.etag {
        response.etag = weak(etag.as_bytes()).as_deref().and_then(ETag::new);
    }
    let passed = response.headers.get(b"ETag");
    if let Some(passed) = passed {
        match weak(passed) {
            // It was one when it came, and is longer by two bytes.
            Some(weak) => drop(response.headers.set(b"ETag", &weak)),
            None => drop(response.headers.remove(b"ETag")),
        }
    }
}

/// The weak form of a tag; nothing for what is no tag.
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
