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
    let Some(end) = held.iter().position(|&byte| matches!(byte, b'\r' | b'\n')) else {
        let rest = held.get(PREFIX.len()..).unwrap_or_default();
        let mut agreeing = FAMILIES.iter().map(|family| family.iter().zip(rest));
        let may_go_on = agreeing.any(|mut both| both.all(|(one, other)| one == other));
        // Who sends something else may wait for an answer instead of ending the line.
        return match may_go_on && held.len() < MAX_V1_BYTES {
            true => Ok(Parsed::Incomplete),
            false => Err(broken(held.len())),
        };
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
