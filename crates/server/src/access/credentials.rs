//! User name and password of Basic authentication (RFC 7617).

use crate::exchange::Exchange;
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sealane_http::Method;
use sealane_http::headers::KnownHeader;
use std::fmt;
use zeroize::Zeroizing;

/// As lenient as nginx: with or without padding, whatever the unused bits are.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The contents of an `Authorization` header, or of `Proxy-Authorization` with CONNECT.
#[derive(Clone)]
pub(crate) struct Credentials {
    decoded: Zeroizing<Vec<u8>>,
    /// Position of the colon; the name before it is not empty.
    colon: usize,
}

impl Credentials {
    /// The credentials of a request; `None` if there are none, or none that can be read.
    pub(crate) fn of(exchange: &Exchange) -> Option<Credentials> {
        let head = &exchange.request.head;
        let name = match head.method {
            // A proxy is not the server that the client wants to reach (RFC 9110 section 11.7).
            Method::Connect => KnownHeader::ProxyAuthorization,
            _ => KnownHeader::Authorization,
        };
        let span = head.get(name)?;
        Credentials::parse(span.of(&exchange.request.buffer))
    }

    fn parse(header: &[u8]) -> Option<Credentials> {
        let (scheme, encoded) = header.split_at_checked(b"Basic ".len())?;
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return None;
        }
        let begin = encoded.iter().position(|byte| *byte != b' ')?;
        let encoded = &encoded[begin..];
        // nginx reads up to the first equals sign, whatever follows it.
        let end = memchr::memchr(b'=', encoded).unwrap_or(encoded.len());
        let decoded = Zeroizing::new(BASE64.decode(&encoded[..end]).ok()?);
        let colon = memchr::memchr(b':', &decoded).filter(|at| *at > 0)?;
        Some(Credentials { decoded, colon })
    }

    /// The name, which has no colon inside.
    pub(crate) fn user(&self) -> &[u8] {
        &self.decoded[..self.colon]
    }

    /// The password. It ends at a NUL, as in nginx, which passes it on as a C string.
    pub(crate) fn password(&self) -> &[u8] {
        let password = &self.decoded[self.colon + 1..];
        let end = memchr::memchr(0, password).unwrap_or(password.len());
        &password[..end]
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str) -> Option<(String, String)> {
        let found = Credentials::parse(header.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((text(found.user()), text(found.password())))
    }

    #[test]
    fn names_and_passwords() {
        let is = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(parse("Basic dXNlcjpwYXNz"), is("user", "pass"));
        assert_eq!(parse("bAsIc    dXNlcjpwYXNz"), is("user", "pass"));
        assert_eq!(parse("Basic dXNlcjpwYXM="), is("user", "pas"));
        assert_eq!(parse("Basic dXNlcjpwYXM"), is("user", "pas"));
        assert_eq!(parse("Basic dXNlcjpwYXM==== rest"), is("user", "pas"));
        assert_eq!(parse("Basic dXNlcjpwYXN"), is("user", "pas"));
        assert_eq!(parse("Basic dXNlcjphOmI="), is("user", "a:b"));
        assert_eq!(parse("Basic dXNlcjo="), is("user", ""));
        assert_eq!(parse("Basic dXNlcjphAGI="), is("user", "a"));
        for nothing in [
            "",
            "Basic",
            "Basic ",
            "Basic    ",
            "Basic =",
            "Basic dXNlcg==",
            "Basic OnBhc3M=",
            "Basic d",
            "Basic dXNlcjpwYXNzd",
            "Basic d%Nlcjpw",
            "Basic dXNl cjpw",
            "Bearer dXNlcjpwYXNz",
        ] {
            assert_eq!(parse(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn nothing_is_shown() {
        let found = Credentials::parse(b"Basic dXNlcjpwYXNz").expect("valid");
        assert_eq!(format!("{found:?}"), "Credentials(..)");
    }
}
