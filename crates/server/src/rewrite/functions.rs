//! The functions of set-misc-nginx-module: `set_md5`, `set_escape_uri` and so on.

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use sealane_conf::model::Function;
use sealane_sys::time;
use sha1::Sha1;
use sha2::Sha256;
use std::ffi::CString;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, Ordering};

/// The last number of `set_rotate` in a location. All worker threads go on from it, as the module
/// does in each worker process.
pub(crate) struct Rotation(AtomicI64);

impl Default for Rotation {
    fn default() -> Rotation {
        Rotation(AtomicI64::new(Self::UNSET))
    }
}

impl Rotation {
    const UNSET: i64 = i64::MIN;

    /// The number after `own`, or else after the last one.
    fn next(&self, own: Option<i64>, from: i64, to: i64) -> i64 {
        let after = |last: i64| match last.saturating_add(1) {
            next if (from..=to).contains(&next) => next,
            _ => from,
        };
        if let Some(own) = own {
            let next = after(own);
            self.0.store(next, Ordering::Relaxed);
            return next;
        }
        // It is a number of its own: nothing else depends on it.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let last = self.0.fetch_update(set, fetch, |last| Some(after(last)));
        after(last.unwrap_or(Self::UNSET))
    }
}

/// The longest random text.
const MAX_RANDOM_BYTES: usize = 64;

/// The value of a function of these arguments.
///
/// # Errors
/// What is wrong with them.
pub(super) fn value(
    function: Function,
    arguments: &[Vec<u8>],
    rotation: &Rotation,
) -> Result<Vec<u8>, String> {
    let argument = |index: usize| arguments.get(index).map_or(&b""[..], Vec::as_slice);
    let text = argument(0);
    Ok(match function {
        Function::EscapeUri => escape_uri(text),
        Function::UnescapeUri => unescape_uri(text),
        Function::IfEmpty if text.is_empty() => argument(1).to_vec(),
        Function::IfEmpty => text.to_vec(),
        Function::Md5 => hex(&Md5::digest(text)),
        Function::Sha1 => hex(&Sha1::digest(text)),
        Function::HmacSha1 => hmac::<Hmac<Sha1>>(text, argument(1)),
        Function::HmacSha256 => hmac::<Hmac<Sha256>>(text, argument(1)),
        Function::EncodeBase64 => BASE64_STANDARD.encode(text).into_bytes(),
        Function::DecodeBase64 => decode_base64(text, &STANDARD)?,
        Function::EncodeBase64Url => BASE64_URL_SAFE_NO_PAD.encode(text).into_bytes(),
        Function::DecodeBase64Url => decode_base64(text, &URL_SAFE)?,
        Function::EncodeHex => hex(text),
        Function::DecodeHex => decode_hex(text).ok_or("invalid value")?,
        Function::QuoteSql => quote_sql(text),
        Function::QuoteJson => quote_json(text),
        Function::Random => {
            let (from, to) = in_order(number("from", text)?, number("to", argument(1))?);
            let span = (to - from).unsigned_abs() + 1; // both are at least 0
            let random = u64::from_ne_bytes(random::<8>()) % span;
            // Less than the span.
            (from + random as i64).to_string().into_bytes()
        }
        Function::RandomAlphanum => {
            const ALPHANUM: &[u8] =
                b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
            random_text(text, ALPHANUM)?
        }
        Function::RandomLetters => random_text(text, b"abcdefghijklmnopqrstuvwxyz")?,
        Function::Rotate => {
            let (from, to) = in_order(number("from", argument(1))?, number("to", argument(2))?);
            // One that is no number counts as none.
            let own = number("current", text).ok();
            rotation.next(own, from, to).to_string().into_bytes()
        }
        Function::LocalToday => formatted(b"%Y-%m-%d", true)?,
        Function::FormattedGmtTime => formatted(text, false)?,
        Function::FormattedLocalTime => formatted(text, true)?,
    })
}

/// A number of digits alone.
fn number(what: &str, text: &[u8]) -> Result<i64, String> {
    let digits = std::str::from_utf8(text).ok();
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("bad \"{what}\" argument: {}", text.escape_ascii()))
}

fn in_order(a: i64, b: i64) -> (i64, i64) {
    (a.min(b), a.max(b))
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The kernel's generator cannot fail once the machine has started.
    getrandom::fill(&mut bytes).expect("the kernel has random bytes");
    bytes
}

fn random_text(length: &[u8], letters: &[u8]) -> Result<Vec<u8>, String> {
    let wanted = number("length", length)?;
    let wanted = usize::try_from(wanted).ok();
    let wanted = wanted.filter(|wanted| (1..=MAX_RANDOM_BYTES).contains(wanted));
    let wanted = wanted.ok_or_else(|| {
        let length = length.escape_ascii();
        format!("bad \"length\" argument: {length}; it must be from 1 to {MAX_RANDOM_BYTES}")
    })?;
    // Four bytes for each letter: what is left over by the division does not show.
    let random = random::<{ 4 * MAX_RANDOM_BYTES }>();
    let (words, _) = random.as_chunks::<4>();
    let letter = |word: &[u8; 4]| letters[u32::from_ne_bytes(*word) as usize % letters.len()];
    Ok(words.iter().take(wanted).map(letter).collect())
}

/// What the module escapes, which is more than nginx does in a path.
fn escape_uri(text: &[u8]) -> Vec<u8> {
    const SPECIAL: &[u8] = b" \"#%&+/:;<=>?[\\]^{}";
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if !(0x20..0x7f).contains(&byte) || SPECIAL.contains(&byte) {
            out.push(b'%');
            out.extend([byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]));
        } else {
            out.push(byte);
        }
    }
    out
}

/// As the module decodes: what follows a percent sign and is no digit stands for itself, and half
/// an escape is lost.
fn unescape_uri(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => match bytes.next() {
                None => break,
                Some(first) => match digit(first) {
                    None => out.push(first),
                    Some(high) => {
                        let low = bytes.next().and_then(digit);
                        // Two digits make a byte.
                        out.extend(low.map(|low| (high * 16 + low) as u8));
                    }
                },
            },
            byte => out.push(byte),
        }
    }
    out
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to memory cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out.into_bytes()
}

fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8; 2]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    pairs
        .iter()
        .map(byte)
        .collect::<Option<_>>()
        .filter(|_| rest.is_empty())
}

/// As nginx decodes: padding may be missing, and what follows it does not matter.
fn decode_base64(text: &[u8], alphabet: &Alphabet) -> Result<Vec<u8>, String> {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true);
    let end = memchr::memchr(b'=', text).unwrap_or(text.len());
    let engine = GeneralPurpose::new(alphabet, config);
    engine
        .decode(&text[..end])
        .map_err(|_| "invalid value".to_owned())
}

fn hmac<M: Mac + KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn quote_sql(text: &[u8]) -> Vec<u8> {
    let mut out = vec![b'\''];
    for &byte in text {
        let escape = match byte {
            0 => b'0',
            0x08 => b'b',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x1a => b'Z',
            b'\\' | b'\'' | b'"' | b'$' => byte,
            byte => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
    out.push(b'\'');
    out
}

fn quote_json(text: &[u8]) -> Vec<u8> {
    if text.is_empty() {
        return b"null".to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in text {
        let escape = match byte {
            b'\r' => b'r',
            b'\n' => b'n',
            b'\t' => b't',
            0x0c => b'f',
            0x08 => b'b',
            b'\\' | b'"' => byte,
            0..0x20 => {
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                continue;
            }
            byte => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
    out.push(b'"');
    out
}

fn formatted(notation: &[u8], is_local: bool) -> Result<Vec<u8>, String> {
    if notation.is_empty() {
        return Ok(Vec::new());
    }
    let shown = notation.escape_ascii();
    let notation = CString::new(notation).map_err(|_| format!("NUL in \"{shown}\""))?;
    match time::formatted(time::unix_coarse_s(), is_local, &notation) {
        text if text.is_empty() => Err(format!("nothing comes of \"{shown}\"")),
        text => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(function: Function, arguments: &[&str]) -> Result<String, String> {
        let arguments: Vec<Vec<u8>> = arguments
            .iter()
            .map(|text| text.as_bytes().into())
            .collect();
        let value = value(function, &arguments, &Rotation::default())?;
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    #[test]
    fn texts_are_escaped_and_quoted() {
        let one = |function, text| of(function, &[text]).expect("it has a value");
        assert_eq!(
            one(Function::EscapeUri, "a b/c?d=ü|~"),
            "a%20b%2Fc%3Fd%3D%C3%BC|~"
        );
        assert_eq!(one(Function::UnescapeUri, "a+b%2Fc%zd%4"), "a b/czd");
        assert_eq!(one(Function::UnescapeUri, "%4x1%"), "1");
        assert_eq!(
            one(Function::QuoteSql, "it's \\ \"$x\"\0\n"),
            "'it\\'s \\\\ \\\"\\$x\\\"\\0\\n'"
        );
        assert_eq!(one(Function::QuoteSql, ""), "''");
        assert_eq!(
            one(Function::QuoteJson, "a\"\\\n\u{1}é"),
            "\"a\\\"\\\\\\n\\u0001é\""
        );
        assert_eq!(one(Function::QuoteJson, ""), "null");
    }

    #[test]
    fn digests_and_codes() {
        let one = |function, text| of(function, &[text]).expect("it has a value");
        assert_eq!(
            one(Function::Md5, "hello"),
            "5d41402abc4b2a76b9719d911017c592"
        );
        assert_eq!(
            one(Function::Sha1, "hello"),
            "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
        );
        assert_eq!(one(Function::EncodeBase64, "a?>"), "YT8+");
        assert_eq!(one(Function::EncodeBase64Url, "a?>b"), "YT8-Yg");
        for coded in ["YWI=", "YWI", "YWI=ignored"] {
            assert_eq!(one(Function::DecodeBase64, coded), "ab", "{coded}");
        }
        assert_eq!(one(Function::DecodeBase64Url, "YT8-"), "a?>");
        for wrong in ["YT8-", "Y", "a b"] {
            assert!(of(Function::DecodeBase64, &[wrong]).is_err(), "{wrong}");
        }
        assert_eq!(one(Function::EncodeHex, "az"), "617a");
        assert_eq!(one(Function::DecodeHex, "617A"), "az");
        assert!(
            of(Function::DecodeHex, &["6"]).is_err() && of(Function::DecodeHex, &["6g"]).is_err()
        );
        // RFC 2202 and RFC 4231, the second cases.
        let arguments = ["Jefe", "what do ya want for nothing?"];
        let coded = |function| {
            let arguments = arguments.map(|text| text.as_bytes().to_vec());
            let bytes = value(function, &arguments, &Rotation::default());
            String::from_utf8(hex(&bytes.expect("it has a value"))).expect("hexadecimal")
        };
        assert_eq!(
            coded(Function::HmacSha1),
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"
        );
        assert!(coded(Function::HmacSha256).starts_with("5bdcc146bf60754e6a042426089575c7"));
    }

    #[test]
    fn random_values_are_what_was_asked_for() {
        for _ in 0..100 {
            let number: i64 = of(Function::Random, &["9", "5"])
                .expect("a value")
                .parse()
                .expect("one");
            assert!((5..=9).contains(&number));
            let letters = of(Function::RandomLetters, &["64"]).expect("a value");
            assert!(letters.len() == 64 && letters.bytes().all(|byte| byte.is_ascii_lowercase()));
            let mixed = of(Function::RandomAlphanum, &["1"]).expect("a value");
            assert!(mixed.len() == 1 && mixed.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        }
        for wrong in ["0", "65", "", "-1", "x"] {
            assert!(of(Function::RandomLetters, &[wrong]).is_err(), "{wrong}");
        }
        assert_eq!(of(Function::Random, &["7", "7"]), Ok("7".into()));
        assert!(of(Function::Random, &["a", "7"]).is_err());
        assert!(of(Function::Random, &["0", "9223372036854775807"]).is_ok());
    }

    #[test]
    fn numbers_rotate() {
        let rotation = Rotation::default();
        let next = |own: &str| {
            let arguments = [own, "3", "1"].map(|text| text.as_bytes().to_vec());
            let value = value(Function::Rotate, &arguments, &rotation).expect("a value");
            String::from_utf8(value).expect("digits")
        };
        assert_eq!(["", "", "", ""].map(next), ["1", "2", "3", "1"]);
        assert_eq!(["2", "", "9", "none"].map(next), ["3", "1", "1", "2"]);
    }

    #[test]
    fn times_are_formatted() {
        let today = of(Function::LocalToday, &[]).expect("a value");
        assert_eq!(today.len(), "2026-01-31".len());
        assert_eq!(
            of(Function::FormattedGmtTime, &["%% %Z"]),
            Ok("% GMT".into())
        );
        assert_eq!(of(Function::FormattedGmtTime, &[""]), Ok(String::new()));
        assert!(of(Function::FormattedLocalTime, &["a\0b"]).is_err());
    }
}
