//! JA4, a fingerprint of what a client offers: `$ssl_ja4`.
//!
//! `t13d1516h2_8daaf6152771_02713d6af862`: transport, newest version, whether there is a server
//! name, how many suites and extensions, the first application protocol; then hashes of the suites
//! and of the extensions, both in numeric order, the latter with the signature algorithms as they
//! came. Values of GREASE (RFC 8701) do not count, as they are random. Clients that shuffle their
//! extensions, as browsers do, keep their fingerprint.

use std::fmt::Write;

use sealane_awslc::sha256;

use crate::client_hello::{ClientHello, EXTENSION_ALPN, EXTENSION_SERVER_NAME};

/// Bytes of a fingerprint.
pub(crate) const JA4_BYTES: usize = 36;

/// Digits of a hash that are shown.
const HASH_DIGITS: usize = 12;

/// The highest number that is shown.
const MAX_COUNT: usize = 99;

/// What a hello came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Quic,
}

impl Transport {
    fn letter(self) -> char {
        match self {
            Self::Tcp => 't',
            Self::Quic => 'q',
        }
    }
}

/// The fingerprint of a client.
pub(crate) fn fingerprint(hello: &ClientHello<'_>, transport: Transport) -> String {
    let mut suites: Vec<u16> = hello.suites().filter(|suite| !is_grease(*suite)).collect();
    let mut kinds = Vec::new();
    let mut alpn = &b""[..];
    for (kind, data) in hello.extensions().filter(|(kind, _)| !is_grease(*kind)) {
        kinds.push(kind);
        if kind == EXTENSION_ALPN {
            // A list of names, each behind its length.
            let first = data.get(3..).unwrap_or_default();
            let length = data.get(2).copied().unwrap_or(0);
            alpn = first.get(..length.into()).unwrap_or_default();
        }
    }
    let name = match kinds.contains(&EXTENSION_SERVER_NAME) {
        true => 'd',
        false => 'i',
    };
    let mut text = String::with_capacity(JA4_BYTES);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{}{}{name}{:02}{:02}{}_",
        transport.letter(),
        version(hello),
        suites.len().min(MAX_COUNT),
        kinds.len().min(MAX_COUNT),
        protocol(alpn)
    );
    suites.sort_unstable();
    text.push_str(&hash(&list(&suites)));
    text.push('_');
    kinds.retain(|kind| ![EXTENSION_SERVER_NAME, EXTENSION_ALPN].contains(kind));
    kinds.sort_unstable();
    let mut rest = list(&kinds);
    let schemes = hello.signature_schemes().into_iter().flatten();
    let schemes: Vec<u16> = schemes.filter(|scheme| !is_grease(*scheme)).collect();
    if !schemes.is_empty() {
        rest.push('_');
        rest.push_str(&list(&schemes));
    }
    text.push_str(&hash(&rest));
    text
}

/// RFC 8701: two equal bytes that end with `a`.
fn is_grease(value: u16) -> bool {
    let [first, second] = value.to_be_bytes();
    first == second && first & 0x0f == 0x0a
}

/// The newest version that the client speaks.
fn version(hello: &ClientHello<'_>) -> &'static str {
    let newest = hello.versions().filter(|wire| !is_grease(*wire)).max();
    match newest {
        Some(0x0304) => "13",
        Some(0x0303) => "12",
        Some(0x0302) => "11",
        Some(0x0301) => "10",
        Some(0x0300) => "s3",
        Some(0x0002) => "s2",
        _ => "00",
    }
}

/// The first and the last character of the first protocol; of its hexadecimal form if one of them
/// is neither letter nor digit.
fn protocol(name: &[u8]) -> String {
    let (Some(first), Some(last)) = (name.first(), name.last()) else {
        return "00".to_owned();
    };
    match first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        true => [char::from(*first), char::from(*last)].iter().collect(),
        false => {
            let (first, last) = (format!("{first:02x}"), format!("{last:02x}"));
            format!("{}{}", &first[..1], &last[1..])
        }
    }
}

fn list(values: &[u16]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("{value:04x}")).collect();
    values.join(",")
}

/// The start of a SHA-256; zeros for nothing.
fn hash(text: &str) -> String {
    if text.is_empty() {
        return "0".repeat(HASH_DIGITS);
    }
    let mut digits = String::new();
    for byte in &sha256(text.as_bytes())[..HASH_DIGITS / 2] {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).expect("short");
        [&kind.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
    }

    fn numbers(values: &[u16]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_be_bytes())
            .collect()
    }

    fn prefixed(data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).expect("short");
        [&length.to_be_bytes()[..], data].concat()
    }

    fn hello(suites: &[u16], extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend(prefixed(&numbers(suites)));
        body.extend([1, 0]);
        body.extend(prefixed(&extensions.concat()));
        let length = u32::try_from(body.len()).expect("short").to_be_bytes();
        [&[1][..], &length[1..], &body].concat()
    }

    fn of(message: &[u8]) -> String {
        let hello = ClientHello::parse(message).expect("well formed");
        fingerprint(&hello, Transport::Tcp)
    }

    /// The example of the specification's text.
    #[test]
    fn the_example_of_the_specification() {
        let suites = [
            0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
            0x009c, 0x009d, 0x002f, 0x0035,
        ];
        let schemes = [
            0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601,
        ];
        let versions = [&[4][..], &numbers(&[0x0304, 0x0303])].concat();
        let plain = |kind| extension(kind, &[]);
        let mut extensions = vec![
            extension(0x0a0a, &[]),
            plain(0x001b),
            extension(
                0x0000,
                &prefixed(&[&[0][..], &prefixed(b"a.test")].concat()),
            ),
            plain(0x0033),
            extension(0x0010, &prefixed(b"\x02h2\x08http/1.1")),
            plain(0x4469),
            plain(0x0017),
            extension(0x002d, &[]),
            extension(0x000d, &prefixed(&numbers(&schemes))),
            plain(0x0005),
            plain(0x0023),
            plain(0x0012),
            extension(0x002b, &versions),
            plain(0xff01),
            plain(0x000b),
            extension(0x000a, &prefixed(&numbers(&[0x1a1a, 29]))),
            plain(0x0015),
            extension(0xbaba, &[0]),
        ];
        let greased = [&[0x2a2a][..], &suites].concat();
        assert_eq!(
            of(&hello(&greased, &extensions)),
            "t13d1516h2_8daaf6152771_e5627efa2ab1"
        );
        // The order of extensions does not matter.
        extensions.reverse();
        assert!(of(&hello(&greased, &extensions)).ends_with("_8daaf6152771_e5627efa2ab1"));
    }

    #[test]
    fn little_is_fingerprinted_too() {
        assert_eq!(of(&hello(&[], &[])), "t12i000000_000000000000_000000000000");
        let odd = extension(0x0010, &prefixed(b"\x03\xab?\xcd"));
        assert!(of(&hello(&[], &[odd])).starts_with("t12i0001ad_"));
        let single = extension(0x0010, &prefixed(b"\x01x"));
        assert!(of(&hello(&[], &[single])).starts_with("t12i0001xx_"));
        let cut = extension(0x0010, &[0, 9, 5]);
        assert!(of(&hello(&[], &[cut])).starts_with("t12i000100_"));
    }
}
