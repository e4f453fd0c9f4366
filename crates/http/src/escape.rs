//! Escaping for HTML pages and access logs.

use std::borrow::Cow;

/// How `log_format` escapes variables (`escape=default|json|none`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogEscape {
    /// `"`, `\`, controls and bytes of 0x7f and above as `\xXX`.
    #[default]
    Default,
    /// As in a JSON string: `\"`, `\\`, `\n` and the like, other controls as `\u00XX`;
    /// bytes of 0x7f and above pass.
    Json,
    /// Unchanged. A client can then forge log lines.
    None,
}

/// Appends a variable's value to a log line.
pub fn log_into(out: &mut Vec<u8>, value: &[u8], kind: LogEscape) {
    match kind {
        LogEscape::None => out.extend_from_slice(value),
        LogEscape::Default => copy_escaping(out, value, is_special_in_log, |out, byte| {
            push_hex(out, b"\\x", byte, b"0123456789ABCDEF");
        }),
        LogEscape::Json => copy_escaping(out, value, is_special_in_json, push_json_escape),
    }
}

/// Appends text to an HTML page: `<`, `>`, `&` and `"` become entities.
pub fn html_into(out: &mut Vec<u8>, text: &[u8]) {
    copy_escaping(out, text, is_special_in_html, |out, byte| {
        out.extend_from_slice(match byte {
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'&' => b"&amp;",
            _ => b"&quot;",
        });
    });
}

/// Like [`html_into`] for a single text, which is borrowed if nothing needs escaping.
pub fn html(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|&byte| is_special_in_html(byte)) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    html_into(&mut out, text);
    Cow::Owned(out)
}

/// Copies runs of ordinary bytes at once and passes special ones to `escape`.
fn copy_escaping(
    out: &mut Vec<u8>,
    text: &[u8],
    is_special: fn(u8) -> bool,
    escape: fn(&mut Vec<u8>, u8),
) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| is_special(byte)) {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn is_special_in_log(byte: u8) -> bool {
    !matches!(byte, 0x20..0x7f) || byte == b'"' || byte == b'\\'
}

fn is_special_in_json(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn is_special_in_html(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'&' | b'"')
}

fn push_json_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => return push_hex(out, b"\\u00", byte, b"0123456789ABCDEF"),
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn push_hex(out: &mut Vec<u8>, prefix: &[u8], byte: u8, digits: &[u8; 16]) {
    out.extend_from_slice(prefix);
    out.push(digits[usize::from(byte >> 4)]);
    out.push(digits[usize::from(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(value: &[u8], kind: LogEscape) -> String {
        let mut out = Vec::new();
        log_into(&mut out, value, kind);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn default_log_escaping_is_nginx_s() {
        assert_eq!(log(b"plain /a?b", LogEscape::Default), "plain /a?b");
        assert_eq!(
            log(b"\"\\\n\x00\x7f\xff~", LogEscape::Default),
            r"\x22\x5C\x0A\x00\x7F\xFF~"
        );
    }

    #[test]
    fn json_log_escaping() {
        assert_eq!(
            log(
                " \"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}é".as_bytes(),
                LogEscape::Json
            ),
            " \\\"\\\\\\n\\r\\t\\b\\f\\u0001\u{7f}é"
        );
    }

    #[test]
    fn no_log_escaping() {
        assert_eq!(log(b"a\"\n", LogEscape::None), "a\"\n");
    }

    #[test]
    fn html_entities() {
        assert_eq!(
            &*html(b"<a href=\"&\">'"),
            b"&lt;a href=&quot;&amp;&quot;&gt;'"
        );
        assert!(matches!(html(b"plain"), Cow::Borrowed(_)));
    }
}
