//! `$secure_link`, `$secure_link_expires` and `$invalid_referer`.

use super::{put, text};
use crate::exchange::Exchange;
use crate::request_log::log_request;
use crate::template;
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest, Md5};
use sealane_conf::model::{SecureLink, ServerName, Template, ValidReferers};
use sealane_conf::regex::Regex;
use sealane_conf::values;
use sealane_http::headers::KnownHeader;
use sealane_sys::time::unix_coarse_s;
use std::borrow::Cow;
use subtle::ConstantTimeEq;

/// As lenient as nginx: with or without padding, whatever the unused bits are.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// `$secure_link`.
pub(super) fn secure_link(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    match exchange.conf().secure_link.as_deref() {
        None => false,
        Some(SecureLink::Secret(secret)) => put(link_of_secret(exchange, secret), out),
        Some(SecureLink::Hash { value, of }) => match is_right(exchange, value, of) {
            None => false,
            Some(holds) => text(if holds { "1" } else { "0" }, out),
        },
    }
}

/// `$secure_link_expires`.
pub(super) fn expires(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let Some(SecureLink::Hash { value, .. }) = exchange.conf().secure_link.as_deref() else {
        return false;
    };
    let value = template::evaluate(value, exchange);
    match split(&value) {
        Some((_, Some((written, _)))) => text(written, out),
        _ => false,
    }
}

/// A hash, and the time until which it is valid, as text and as a number. `None` if the time is
/// invalid.
#[expect(clippy::type_complexity, reason = "it is taken apart at once")]
fn split(value: &[u8]) -> Option<(&[u8], Option<(&[u8], u64)>)> {
    let Some(comma) = memchr::memchr(b',', value) else {
        return Some((value, None));
    };
    let written = &value[comma + 1..];
    let time = values::number(written).filter(|time| *time > 0)?;
    Some((&value[..comma], Some((written, time))))
}

/// Whether the hash is right and still valid; `None` if it is wrong.
fn is_right(exchange: &Exchange, value: &Template, of: &Template) -> Option<bool> {
    const ENCODED_BYTES: usize = 24;
    let value = template::evaluate(value, exchange);
    let (hash, expires) = split(&value)?;
    if hash.len() > ENCODED_BYTES {
        return None;
    }
    let end = memchr::memchr(b'=', hash).unwrap_or(hash.len());
    let theirs = BASE64URL.decode(&hash[..end]).ok()?;
    let ours = Md5::digest(template::evaluate(of, exchange));
    if !bool::from(ours.ct_eq(&theirs)) {
        return None;
    }
    let now_s = u64::try_from(unix_coarse_s()).unwrap_or(0);
    Some(expires.is_none_or(|(_, time)| time >= now_s))
}

/// The link of `/prefix/hash/link`, if the hash is that of the link and the secret.
fn link_of_secret<'e>(exchange: &'e Exchange, secret: &[u8]) -> Option<&'e [u8]> {
    const HASH_BYTES: usize = 32;
    let request = &exchange.request;
    let uri = request.head.path.of(&request.buffer).get(1..)?;
    let begin = memchr::memchr(b'/', uri)? + 1;
    let (hash, link) = uri[begin..].split_at(memchr::memchr(b'/', &uri[begin..])?);
    let link = &link[1..];
    if hash.len() != HASH_BYTES || link.is_empty() {
        return None;
    }
    let mut theirs = [0; HASH_BYTES / 2];
    for (byte, digits) in theirs.iter_mut().zip(hash.chunks(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8; // two digits make a byte
    }
    let mut ours = Md5::new();
    ours.update(link);
    ours.update(secret);
    bool::from(ours.finalize().ct_eq(&theirs)).then_some(link)
}

/// `$invalid_referer`: empty or `1`.
pub(super) fn invalid_referer(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let referers = exchange.conf().valid_referers.as_deref();
    let valid = referers.is_none_or(|referers| is_valid(exchange, referers));
    text(if valid { "" } else { "1" }, out)
}

fn is_valid(exchange: &Exchange, referers: &ValidReferers) -> bool {
    /// nginx takes nothing shorter for a URL: `http://i.ru`.
    const SHORTEST_URL_BYTES: usize = 11;
    const MAX_HOST_BYTES: usize = 256;
    if referers.is_empty() {
        return true;
    }
    let request = &exchange.request;
    let Some(span) = request.head.get(KnownHeader::Referer) else {
        return referers.none;
    };
    let value = span.of(&request.buffer);
    let behind_scheme = [&b"http://"[..], b"https://"].iter().find_map(|scheme| {
        let (begin, rest) = value.split_at_checked(scheme.len())?;
        begin.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let Some(rest) = behind_scheme.filter(|_| value.len() >= SHORTEST_URL_BYTES) else {
        return referers.blocked;
    };
    let end = memchr::memchr2(b'/', b':', rest).unwrap_or(rest.len());
    if end > MAX_HOST_BYTES {
        return false;
    }
    let host = rest[..end].to_ascii_lowercase();
    if let Some(path) = referers.hosts.value(&host) {
        let begin = memchr::memchr(b'/', rest).unwrap_or(rest.len());
        return path
            .as_deref()
            .is_none_or(|path| rest[begin..].starts_with(path));
    }
    let names = &exchange.server().conf.names;
    if referers.server_names && names.iter().any(|name| is_named(exchange, name, &host)) {
        return true;
    }
    let mut expressions = referers.expressions.iter();
    expressions.any(|regex| matches(exchange, regex, rest))
}

fn is_named(exchange: &Exchange, name: &ServerName, host: &[u8]) -> bool {
    let lower = |name: &str| -> Cow<'_, [u8]> { name.to_ascii_lowercase().into_bytes().into() };
    match name {
        ServerName::Exact(name) => *host == *lower(name),
        ServerName::WildcardPrefix(suffix) => {
            host.len() > suffix.len() && host.ends_with(&lower(suffix))
        }
        ServerName::Dot(suffix) => host.ends_with(&lower(suffix)) || *host == lower(suffix)[1..],
        ServerName::WildcardSuffix(prefix) => {
            host.len() > prefix.len() && host.starts_with(&lower(prefix))
        }
        ServerName::Regex(regex) => matches(exchange, regex, host),
    }
}

fn matches(exchange: &Exchange, regex: &Regex, subject: &[u8]) -> bool {
    match regex.captures(subject) {
        Ok(found) => found.is_some(),
        Err(reason) => {
            let pattern = regex.pattern();
            let subject = subject.escape_ascii();
            log_request!(
                exchange,
                Alert,
                "\"{pattern}\" could not be matched against \"{subject}\": {reason}; \
                 use an expression that backtracks less"
            );
            false
        }
    }
}
