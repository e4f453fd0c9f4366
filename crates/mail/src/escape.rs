//! How values are written into headers and commands, and base64 as nginx reads it.

use crate::limits::MAX_LOGGED_BYTES;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::fmt::{self, Write};
use zeroize::Zeroizing;

/// What is in front of the first `=`: padding is neither required nor checked, nor are the bits
/// that the last character has to spare.
const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// Decodes base64 as nginx does: everything from the first `=` on is ignored.
pub(crate) fn decode_base64(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let end = memchr::memchr(b'=', text).unwrap_or(text.len());
    UNPADDED.decode(&text[..end]).ok().map(Zeroizing::new)
}

/// Encodes base64, with padding.
pub(crate) fn encode_base64(bytes: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// For headers of requests to an auth service: control characters, space and `%` as `%XX`.
pub(crate) fn percent(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, b'%', |byte| byte <= b' ' || byte == b'%');
}

/// `xtext` (RFC 3461), for XCLIENT: everything but visible ASCII, and `+` and `=`, as `+XX`.
pub(crate) fn xtext(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, b'+', |byte| {
        !byte.is_ascii_graphic() || byte == b'+' || byte == b'='
    });
}

fn escape(out: &mut Vec<u8>, value: &[u8], prefix: u8, is_escaped: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in value {
        if is_escaped(byte) {
            out.extend([
                prefix,
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        } else {
            out.push(byte);
        }
    }
}

/// What a peer sent, for a message: bytes other than visible ASCII and spaces as `\xXX`, so that
/// nobody writes lines into the log, and not more than [`MAX_LOGGED_BYTES`].
pub(crate) struct Printable<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.iter().take(MAX_LOGGED_BYTES) {
            match byte {
                b' '..=b'~' => f.write_char(byte.into())?,
                _ => write!(f, "\\x{byte:02X}")?,
            }
        }
        if self.0.len() > MAX_LOGGED_BYTES {
            f.write_str("...")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent_text(value: &[u8]) -> String {
        let mut out = Vec::new();
        percent(&mut out, value);
        String::from_utf8(out).expect("ASCII")
    }

    fn xtext_text(value: &[u8]) -> String {
        let mut out = Vec::new();
        xtext(&mut out, value);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn headers_cannot_be_broken_by_values() {
        assert_eq!(percent_text(b"a b%c\r\nd\0"), "a%20b%25c%0D%0Ad%00");
        assert_eq!(
            percent_text(b"user@example.org=\"+"),
            "user@example.org=\"+"
        );
    }

    #[test]
    fn xtext_escapes_what_rfc_3461_says() {
        assert_eq!(xtext_text(b"te=st+ 1"), "te+3Dst+2B+201");
        assert_eq!(xtext_text(b"\x7f\xe4\r\n"), "+7F+E4+0D+0A");
    }

    #[test]
    fn base64_is_read_as_leniently_as_nginx_reads_it() {
        let decode = |text: &[u8]| decode_base64(text).map(|bytes| bytes.to_vec());
        assert_eq!(decode(b"dGVzdA=="), Some(b"test".to_vec()));
        assert_eq!(decode(b"dGVzdA"), Some(b"test".to_vec()));
        assert_eq!(decode(b"dGVzdB=x*"), Some(b"test".to_vec()));
        assert_eq!(decode(b"="), Some(Vec::new()));
        assert_eq!(decode(b""), Some(Vec::new()));
        assert_eq!(decode(b"d"), None);
        assert_eq!(decode(b"*"), None);
        assert_eq!(decode(b"dGVz\0A"), None);
    }

    #[test]
    fn lines_of_a_log_cannot_be_forged() {
        assert_eq!(
            Printable(b"-ERR no\r\n2026 [emerg]").to_string(),
            "-ERR no\\x0D\\x0A2026 [emerg]"
        );
        let long = Printable(&[b'a'; MAX_LOGGED_BYTES + 1]).to_string();
        assert!(long.ends_with("a..."), "{long}");
    }
}
