//! Headers for the next server (`proxy_protocol on` towards an upstream).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::version2::{FIXED_BYTES, LOCAL, PROXY, SIGNATURE, TCP4, TCP6, UDP4, UDP6, VERSION_2};
use super::{Addresses, Tlv, tlv_type};

/// What a client sends by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTransport {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
}

/// TLVs whose total exceeds the 16-bit length of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlvTooLong {
    /// The size that the header would have after its fixed part, or a lower bound.
    pub bytes: usize,
}

impl fmt::Display for TlvTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        write!(f, "PROXY protocol TLVs are too long: {bytes} bytes")
    }
}

impl std::error::Error for TlvTooLong {}

/// Appends a header of version 1. `None` means a connection that is not TCP (a Unix socket) and
/// gives `PROXY UNKNOWN`.
pub fn encode_v1(out: &mut Vec<u8>, addresses: Option<&Addresses>) {
    let line = match addresses.map(one_family) {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some((source, destination)) => {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (source.ip(), destination.ip());
            let (from_port, to_port) = (source.port(), destination.port());
            format!("PROXY {family} {from} {to} {from_port} {to_port}\r\n")
        }
    };
    out.extend_from_slice(line.as_bytes());
}

/// Appends a header of version 2 with these TLVs and a checksum (PP2_TYPE_CRC32C), as nginx sends
/// it.
///
/// # Errors
/// [`TlvTooLong`]; `out` is as it was.
pub fn encode_v2_with_checksum<'a>(
    out: &mut Vec<u8>,
    transport: ClientTransport,
    addresses: Option<&Addresses>,
    tlvs: impl IntoIterator<Item = Tlv<'a>>,
) -> Result<(), TlvTooLong> {
    let start = out.len();
    let checksum = Tlv {
        kind: tlv_type::CRC32C,
        value: &[0; 4],
    };
    let tlvs = tlvs.into_iter().chain([checksum]);
    encode(out, transport, addresses, tlvs)?;
    let sum = crc32c(&out[start..]).to_be_bytes();
    let at = out.len() - sum.len();
    out[at..].copy_from_slice(&sum);
    Ok(())
}

/// The checksum of RFC 9260, appendix A. Headers are short: bit by bit is fast enough.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg())
        })
    });
    !sum
}

/// Appends a header of version 2 for a connection, with these TLVs. Without addresses it is the
/// LOCAL command: the next server uses the connection's own addresses.
///
/// # Errors
/// [`TlvTooLong`]; `out` is as it was.
pub fn encode_v2<'a>(
    out: &mut Vec<u8>,
    addresses: Option<&Addresses>,
    tlvs: impl IntoIterator<Item = Tlv<'a>>,
) -> Result<(), TlvTooLong> {
    encode(out, ClientTransport::Tcp, addresses, tlvs)
}

fn encode<'a>(
    out: &mut Vec<u8>,
    transport: ClientTransport,
    addresses: Option<&Addresses>,
    tlvs: impl IntoIterator<Item = Tlv<'a>>,
) -> Result<(), TlvTooLong> {
    let start = out.len();
    let addresses = addresses.map(one_family);
    let (command, family) = match (addresses, transport) {
        (None, _) => (LOCAL, 0),
        (Some((SocketAddr::V4(_), _)), ClientTransport::Tcp) => (PROXY, TCP4),
        (Some((SocketAddr::V6(_), _)), ClientTransport::Tcp) => (PROXY, TCP6),
        (Some((SocketAddr::V4(_), _)), ClientTransport::Udp) => (PROXY, UDP4),
        (Some((SocketAddr::V6(_), _)), ClientTransport::Udp) => (PROXY, UDP6),
    };
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[VERSION_2 | command, family, 0, 0]);
    if let Some((source, destination)) = addresses {
        push_ip(out, source.ip());
        push_ip(out, destination.ip());
        out.extend_from_slice(&source.port().to_be_bytes());
        out.extend_from_slice(&destination.port().to_be_bytes());
    }
    let content = start + FIXED_BYTES;
    for tlv in tlvs {
        let bytes = out.len() - content + 3 + tlv.value.len();
        if bytes > usize::from(u16::MAX) {
            out.truncate(start);
            return Err(TlvTooLong { bytes });
        }
        out.push(tlv.kind);
        out.extend_from_slice(&(tlv.value.len() as u16).to_be_bytes());
        out.extend_from_slice(tlv.value);
    }
    let length = (out.len() - content) as u16;
    out[content - 2..content].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Both addresses in one family: if they differ, the IPv4 one becomes IPv4-mapped.
fn one_family(addresses: &Addresses) -> (SocketAddr, SocketAddr) {
    let Addresses {
        source,
        destination,
    } = *addresses;
    if source.is_ipv4() == destination.is_ipv4() {
        return (source, destination);
    }
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    (mapped(source), mapped(destination))
}

fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
}
