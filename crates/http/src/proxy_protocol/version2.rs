//! Version 2: a binary header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Addresses, Header, MAX_V2_BYTES, Parsed, ProxyProtocolError};
use crate::Span;

pub(super) const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length.
pub(super) const FIXED_BYTES: usize = 16;

/// Version 2 in the upper half of its byte.
pub(super) const VERSION_2: u8 = 0x20;
pub(super) const LOCAL: u8 = 0;
pub(super) const PROXY: u8 = 1;
/// TCP over IPv4: family and transport.
pub(super) const TCP4: u8 = 0x11;
/// TCP over IPv6.
pub(super) const TCP6: u8 = 0x21;
/// UDP over IPv4.
pub(super) const UDP4: u8 = 0x12;
/// UDP over IPv6.
pub(super) const UDP6: u8 = 0x22;

/// Whether these bytes are the signature, or its beginning.
pub(super) fn may_begin(buf: &[u8]) -> bool {
    SIGNATURE.iter().zip(buf).all(|(one, other)| one == other) && !buf.is_empty()
}

pub(super) fn parse(buf: &[u8]) -> Result<Parsed, ProxyProtocolError> {
    if let Some(&byte) = buf.get(SIGNATURE.len()) {
        if byte & 0xf0 != VERSION_2 {
            return Err(ProxyProtocolError::UnknownVersion(byte >> 4));
        }
        if byte & 0x0f > PROXY {
            return Err(ProxyProtocolError::UnknownCommand(byte & 0x0f));
        }
    }
    let Some((fixed, _)) = buf.split_first_chunk::<FIXED_BYTES>() else {
        return Ok(Parsed::Incomplete);
    };
    let [.., command, family, length_high, length_low] = *fixed;
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    let header_bytes = FIXED_BYTES + length;
    if header_bytes > MAX_V2_BYTES {
        return Err(ProxyProtocolError::TooLarge {
            bytes: header_bytes,
        });
    }
    let block_bytes = match family {
        _ if command & 0x0f == LOCAL => 0,
        TCP4 => 12,
        TCP6 => 36,
        _ => 0,
    };
    if block_bytes > length {
        return Err(ProxyProtocolError::ShortAddresses);
    }
    let Some(block) = buf.get(FIXED_BYTES..header_bytes) else {
        return Ok(Parsed::Incomplete);
    };
    let addresses = addresses(&block[..block_bytes]);
    let tlvs = match addresses {
        Some(_) => Span::new(FIXED_BYTES + block_bytes, header_bytes),
        None => Span::default(),
    };
    Ok(Parsed::Complete(Header {
        addresses,
        tlvs,
        header_bytes,
    }))
}

/// The addresses in a block of 12 (IPv4) or 36 bytes (IPv6); `None` for other lengths.
fn addresses(block: &[u8]) -> Option<Addresses> {
    let (source, destination, ports): (IpAddr, IpAddr, &[u8]) = match block.len() {
        12 => {
            let (source, rest) = block.split_first_chunk::<4>()?;
            let (destination, ports) = rest.split_first_chunk::<4>()?;
            let ip = |octets: &[u8; 4]| Ipv4Addr::from(*octets).into();
            (ip(source), ip(destination), ports)
        }
        36 => {
            let (source, rest) = block.split_first_chunk::<16>()?;
            let (destination, ports) = rest.split_first_chunk::<16>()?;
            let ip = |octets: &[u8; 16]| Ipv6Addr::from(*octets).into();
            (ip(source), ip(destination), ports)
        }
        _ => return None,
    };
    let &[source_high, source_low, high, low] = ports else {
        return None;
    };
    Some(Addresses {
        source: SocketAddr::new(source, u16::from_be_bytes([source_high, source_low])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([high, low])),
    })
}
