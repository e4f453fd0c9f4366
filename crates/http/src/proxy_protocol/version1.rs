//! Version 1: one line of text.

use std::net::{IpAddr, SocketAddr};

use super::{Addresses, Header, MAX_V1_BYTES, Parsed, ProxyProtocolError};
use crate::{Span, decimal};

const PREFIX: &[u8] = b"PROXY ";

/// What may follow it.
const FAMILIES: [&[u8]; 3] = [b"TCP4 ", b"TCP6 ", b"UNKNOWN"];

pub(super) fn parse(buf: &[u8]) -> Result<Parsed, ProxyProtocolError> {
    let held = &buf[..buf.len().min(MAX_V1_BYTES)];
    let differs = PREFIX
        .iter()
        .zip(held)
        .position(|(one, other)| one != other);
    if let Some(at) = differs {
        return Err(broken(at + 1));
    }
    // Who sends something else may wait for an answer instead of ending the line.
    if let Some(at) = no_family_at(held.get(PREFIX.len()..).unwrap_or_default()) {
        return Err(broken(PREFIX.len() + at + 1));
    }
    let Some(end) = held.iter().position(|&byte| matches!(byte, b'\r' | b'\n')) else {
        if held.len() == MAX_V1_BYTES {
            return Err(broken(held.len()));
        }
        return Ok(Parsed::Incomplete);
    };
    match (held[end], held.get(end + 1)) {
        (b'\r', Some(b'\n')) => {}
        (b'\r', None) if held.len() < MAX_V1_BYTES => return Ok(Parsed::Incomplete),
        _ => return Err(broken(end)),
    }
    let addresses = parse_line(&held[PREFIX.len()..end]).ok_or_else(|| broken(end))?;
    Ok(Parsed::Complete(Header {
        addresses,
        tlvs: Span::default(),
        header_bytes: end + 2,
    }))
}

/// Where it is certain that what follows `PROXY ` is no family, unless the line ends there.
fn no_family_at(rest: &[u8]) -> Option<usize> {
    let mut last = 0;
    for family in FAMILIES {
        let mut both = family.iter().zip(rest);
        last = last.max(both.position(|(one, other)| one != other)?);
    }
    (!matches!(rest[last], b'\r' | b'\n')).then_some(last)
}

/// Parses what follows `PROXY `: no addresses for `UNKNOWN`, whatever follows that word; `None` if
/// the line is malformed.
fn parse_line(text: &[u8]) -> Option<Option<Addresses>> {
    if text.starts_with(b"UNKNOWN") {
        return Some(None);
    }
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split(' ');
    let mut word = || words.next();
    let is_tcp = matches!(word()?, "TCP4" | "TCP6");
    // As in nginx, the address itself determines the family.
    let source: IpAddr = word()?.parse().ok()?;
    let destination: IpAddr = word()?.parse().ok()?;
    let source_port = port(word()?)?;
    let destination_port = port(word()?)?;
    let is_over = word().is_none();
    (is_tcp && is_over).then_some(Some(Addresses {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    }))
}

fn port(text: &str) -> Option<u16> {
    u16::try_from(decimal::parse_offset(text.as_bytes())?).ok()
}

fn broken(end: usize) -> ProxyProtocolError {
    let line = Span::new(0, end);
    ProxyProtocolError::Broken { line }
}
