//! `host[:port]`, as in the `Host` header, an absolute URL and a CONNECT target.

use super::UriError;
use crate::Span;

/// A host and its port, as positions in the bytes they were parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The name or address as written, an IPv6 address with its brackets; without one trailing dot,
    /// matching how nginx compares server names. Never empty.
    pub host: Span,
    /// The port, if one is written; `host:` counts as none.
    pub port: Option<u16>,
}

/// Parses `host[:port]`, which must fill `text` entirely (RFC 3986 section 3.2.2).
///
/// As in nginx since 1.29.4; before, nginx accepted any byte except control characters and `/` in a
/// host. A server that accepts a doubtful host may disagree with others about which host it is.
///
/// # Errors
/// [`UriError::Host`] for an empty host, user information, a character that no host has,
/// two dots in a row, a bare percent sign, an unclosed bracket, a port above 65535 or not a number.
pub fn parse_authority(text: &[u8]) -> Result<Authority, UriError> {
    let host_end = if text.first() == Some(&b'[') {
        ip_literal_end(text)?
    } else {
        registered_name_end(text)?
    };
    let port = match text.get(host_end..) {
        None | Some([]) => None,
        Some([b':', digits @ ..]) => parse_port(digits)?,
        Some(_) => return Err(UriError::Host),
    };
    let mut name_end = host_end;
    if text[..host_end].last() == Some(&b'.') {
        name_end -= 1;
    }
    if name_end == 0 {
        return Err(UriError::Host);
    }
    Ok(Authority {
        host: Span::new(0, name_end),
        port,
    })
}

/// End of a name or IPv4 address: at a colon or the end of the text.
fn registered_name_end(text: &[u8]) -> Result<usize, UriError> {
    let mut previous = 0;
    for (index, &byte) in text.iter().enumerate() {
        match byte {
            b':' => return Ok(index),
            b'.' if previous == b'.' => return Err(UriError::Host),
            b'%' if !is_escape(&text[index..]) => return Err(UriError::Host),
            _ if is_name_byte(byte) => previous = byte,
            _ => return Err(UriError::Host),
        }
    }
    Ok(text.len())
}

/// Whether the text starts with a percent sign and two hexadecimal digits.
fn is_escape(text: &[u8]) -> bool {
    matches!(text, [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// End of `[...]`, after the bracket.
fn ip_literal_end(text: &[u8]) -> Result<usize, UriError> {
    let close = memchr::memchr(b']', text).ok_or(UriError::Host)?;
    let inside = &text[1..close];
    let plausible = |&byte: &u8| byte == b':' || (byte != b'%' && is_name_byte(byte));
    let has_empty_label = inside.windows(2).any(|pair| pair == b"..");
    if inside.is_empty() || has_empty_label || !inside.iter().all(plausible) {
        return Err(UriError::Host);
    }
    Ok(close + 1)
}

/// Unreserved characters, sub-delimiters and the percent sign of RFC 3986.
fn is_name_byte(byte: u8) -> bool {
    NAME_BYTES[usize::from(byte)]
}

static NAME_BYTES: [bool; 256] = {
    const SIGNS: &[u8] = b"-._~!$&'()*+,;=%";
    let mut is_name = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        is_name[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < SIGNS.len() {
        is_name[SIGNS[index] as usize] = true;
        index += 1;
    }
    is_name
};

fn parse_port(digits: &[u8]) -> Result<Option<u16>, UriError> {
    if digits.is_empty() {
        return Ok(None);
    }
    let value = crate::decimal::parse_offset(digits).ok_or(UriError::Host)?;
    u16::try_from(value).map(Some).map_err(|_| UriError::Host)
}
