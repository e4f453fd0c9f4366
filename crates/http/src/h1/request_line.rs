//! The request line: method, target, version.

use super::error::RequestError;
use super::request::{RequestHead, Version};
use crate::uri::{TargetForm, split_target};
use crate::{Method, Span};

/// The longest method that is examined; the longest registered one has 17 letters.
const MAX_METHOD_BYTES: usize = 64;

/// Checks the received bytes of the method, so that input other than HTTP (a TLS handshake, a
/// scanner) is refused at its first byte instead of waiting for more.
pub(super) fn check_method_bytes(
    buf: &[u8],
    line_start: usize,
    scanned: &mut usize,
) -> Result<(), RequestError> {
    while let Some(&byte) = buf.get(*scanned) {
        let length = *scanned - line_start;
        match byte {
            b'A'..=b'Z' | b'_' | b'-' if length < MAX_METHOD_BYTES => *scanned += 1,
            // `scanned` stays on the space: the method is complete.
            b' ' if length > 0 => break,
            _ => {
                let line = Span::new(line_start, *scanned + 1);
                return Err(RequestError::InvalidMethod { line });
            }
        }
    }
    Ok(())
}

/// Parses a complete request line whose method has been checked. It starts at `head.request_line`.
///
/// As in nginx, several spaces may separate the parts and follow the version.
pub(super) fn parse(
    buf: &[u8],
    text_end: usize,
    head: &mut RequestHead,
) -> Result<(), RequestError> {
    let start = head.request_line.start as usize;
    let line = Span::new(start, text_end);
    let text = &buf[start..text_end];
    head.request_line = line;

    let invalid = RequestError::InvalidRequestLine { line };
    let method_end = position_of_space(text, 0);
    let target_start = skip_spaces(text, method_end);
    let target_end = position_of_space(text, target_start);
    let version_start = skip_spaces(text, target_end);

    head.method = Method::from_bytes(&text[..method_end]);
    head.method_name = Span::new(start, start + method_end);
    head.version = match &text[version_start..] {
        [] => Version::Http09,
        version => match parse_version(version, line) {
            Err(error @ RequestError::VersionNotSupported { .. }) => {
                // As in nginx, the first wrong part is blamed: in `PRI * HTTP/2.0` the target.
                let target = Span::new(start + target_start, start + target_end);
                parse_target(buf, target, head)?;
                return Err(error);
            }
            parsed => parsed?,
        },
    };
    if target_start == target_end {
        return Err(invalid);
    }
    if head.version == Version::Http09 && head.method != Method::Get {
        return Err(RequestError::MethodInHttp09 { line });
    }
    parse_target(
        buf,
        Span::new(start + target_start, start + target_end),
        head,
    )
}

fn position_of_space(text: &[u8], from: usize) -> usize {
    let found = text[from..].iter().position(|&byte| byte == b' ');
    found.map_or(text.len(), |offset| from + offset)
}

fn skip_spaces(text: &[u8], from: usize) -> usize {
    let spaces = text[from..]
        .iter()
        .take_while(|&&byte| byte == b' ')
        .count();
    from + spaces
}

/// `HTTP/major.minor`, spaces after it allowed.
fn parse_version(text: &[u8], line: Span) -> Result<Version, RequestError> {
    match text {
        b"HTTP/1.1" => return Ok(Version::Http11),
        b"HTTP/1.0" => return Ok(Version::Http10),
        _ => {}
    }
    let invalid = RequestError::InvalidRequestLine { line };
    let numbers = text.strip_prefix(b"HTTP/").ok_or(invalid)?;
    let end = numbers
        .iter()
        .rposition(|&byte| byte != b' ')
        .ok_or(invalid)?
        + 1;
    let numbers = &numbers[..end];
    let dot = memchr::memchr(b'.', numbers).ok_or(invalid)?;
    let (major, minor) = (&numbers[..dot], &numbers[dot + 1..]);
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if !is_number(major) || !is_number(minor) || major[0] == b'0' || minor.len() > 3 {
        return Err(invalid);
    }
    if major != b"1" {
        return Err(RequestError::VersionNotSupported { line });
    }
    Ok(if minor.iter().all(|&digit| digit == b'0') {
        Version::Http10
    } else {
        Version::Http11
    })
}

fn parse_target(buf: &[u8], target: Span, head: &mut RequestHead) -> Result<(), RequestError> {
    let form = split_target(target.of(buf), head.method)
        .map_err(|error| RequestError::InvalidTarget { target, error })?;
    let start = target.start as usize;
    let in_buffer = |part: Span| Span::new(start + part.start as usize, start + part.end as usize);
    head.target = target;
    head.form = form;
    match form {
        TargetForm::Origin => head.path = target,
        TargetForm::Absolute { host, port, path } => {
            head.host = Some(in_buffer(host));
            head.port = port;
            head.path = in_buffer(path);
        }
        TargetForm::Authority { host, port } => {
            head.host = Some(in_buffer(host));
            head.port = Some(port);
        }
        TargetForm::Asterisk => {}
    }
    Ok(())
}
