//! Percent-encoding, in the kinds nginx distinguishes.

use std::borrow::Cow;

/// Which characters are escaped; nginx's `ngx_escape_uri()` kinds, as of 1.21.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeKind {
    /// A path: keeps `/ & + ; = : @` and the like. Redirects and proxied requests.
    Uri,
    /// A query argument taken from a path: also `& + ;`.
    Args,
    /// One path segment or argument: everything but unreserved characters. `autoindex` links.
    UriComponent,
    /// A URL inside an HTML attribute: quotes, but not `?`.
    Html,
    /// A URL inside a `Refresh` header or tag: leaves existing escapes alone.
    Refresh,
    /// A memcached key: escapes spaces, percent signs and control characters only.
    Memcached,
}

impl EscapeKind {
    fn escapes(self, byte: u8) -> bool {
        if self == EscapeKind::Memcached {
            return byte <= 0x20 || byte == b'%';
        }
        if self == EscapeKind::UriComponent {
            return !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte);
        }
        // Control characters, DEL and above, and what RFC 3986 allows nowhere in a URI.
        if byte <= 0x20 || byte >= 0x7f || b"\"<>\\^`{|}".contains(&byte) {
            return true;
        }
        match self {
            EscapeKind::Uri => b"#%?".contains(&byte),
            EscapeKind::Args => b"#%?&+;".contains(&byte),
            EscapeKind::Html => b"#%'".contains(&byte),
            EscapeKind::Refresh => byte == b'\'',
            EscapeKind::UriComponent | EscapeKind::Memcached => false,
        }
    }
}

/// Percent-encodes `text`, borrowing it when nothing needs escaping.
pub fn escape(text: &[u8], kind: EscapeKind) -> Cow<'_, [u8]> {
    if !text.iter().any(|&byte| kind.escapes(byte)) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    escape_into(&mut out, text, kind);
    Cow::Owned(out)
}

/// Appends `text` percent-encoded, with upper-case digits.
pub fn escape_into(out: &mut Vec<u8>, text: &[u8], kind: EscapeKind) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if kind.escapes(byte) {
            let (high, low) = (byte >> 4, byte & 15);
            out.extend_from_slice(&[b'%', HEX[usize::from(high)], HEX[usize::from(low)]]);
        } else {
            out.push(byte);
        }
    }
}

/// Decodes every `%XX`; a percent sign without two digits is kept. Borrows if there is no percent
/// sign.
pub fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'%', text) else {
        return Cow::Borrowed(text);
    };
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(&text[..first]);
    let mut rest = &text[first..];
    while let Some((&byte, tail)) = rest.split_first() {
        let digit = |index: usize| Some((*tail.get(index)? as char).to_digit(16)? as u8);
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                rest = &tail[2..];
            }
            _ => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    Cow::Owned(out)
}
