//! uwsgi requests: a packet of names and values with 16-bit lengths, then the body.
//!
//! The response is that of a gateway: [`parse_cgi_response`](crate::cgi::parse_cgi_response).

use std::fmt;

use crate::cgi::Param;

/// The most bytes of a packet after its header: its length has 16 bits.
const MAX_PACKET_BYTES: usize = 65535;

const HEADER_BYTES: usize = 4;

/// The parameters do not fit into a packet, and the protocol has no continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTooBig {
    /// Size of the parameters, or a lower bound.
    pub bytes: usize,
}

impl fmt::Display for PacketTooBig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        write!(
            f,
            "uwsgi request is too big: {bytes} bytes of parameters, {MAX_PACKET_BYTES} at most"
        )
    }
}

impl std::error::Error for PacketTooBig {}

/// Appends the packet of a request (`uwsgi_modifier1`, `uwsgi_modifier2`); `string` ends it
/// (`uwsgi_string`). The body follows it.
///
/// # Errors
/// [`PacketTooBig`]; `out` is as it was.
pub fn encode_request<'a>(
    out: &mut Vec<u8>,
    modifier1: u8,
    modifier2: u8,
    params: impl IntoIterator<Item = Param<'a>>,
    string: &[u8],
) -> Result<(), PacketTooBig> {
    let start = out.len();
    out.extend_from_slice(&[modifier1, 0, 0, modifier2]);
    let content = start + HEADER_BYTES;
    for param in params {
        let (name, value) = (param.name(), param.value());
        let bytes = out.len() - content + name.len() + value.len() + 4;
        if bytes > MAX_PACKET_BYTES {
            out.truncate(start);
            return Err(PacketTooBig { bytes });
        }
        for part in [name, value] {
            out.extend_from_slice(&(part.len() as u16).to_le_bytes());
            out.extend_from_slice(part);
        }
    }
    let bytes = out.len() - content + string.len();
    if bytes > MAX_PACKET_BYTES {
        out.truncate(start);
        return Err(PacketTooBig { bytes });
    }
    out.extend_from_slice(string);
    let length = ((out.len() - content) as u16).to_le_bytes();
    out[start + 1..start + 3].copy_from_slice(&length);
    Ok(())
}

#[cfg(test)]
mod tests;
