//! tcpdump's files, and TCP streams out of their segments.

use std::collections::BTreeMap;

/// Both directions of one TCP connection.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// What the client sent.
    pub to_server: Vec<u8>,
    /// What the server sent.
    pub to_client: Vec<u8>,
    /// Whether the server ended its direction with FIN.
    pub server_finished: bool,
    /// Whether the server reset the connection.
    pub server_reset: bool,
}

/// One direction in the making.
#[derive(Default)]
struct Direction {
    /// The number of the first byte, from SYN.
    first: Option<u32>,
    /// Segments by their distance from the first byte.
    segments: BTreeMap<u32, Vec<u8>>,
    finished: bool,
    reset: bool,
}

impl Direction {
    /// The bytes in order, each once.
    fn assemble(&self) -> Result<Vec<u8>, String> {
        let mut stream: Vec<u8> = Vec::new();
        for (&at, bytes) in &self.segments {
            let at = at as usize;
            if at > stream.len() {
                return Err(format!("the capture lacks bytes {} to {at}", stream.len()));
            }
            // A retransmission repeats what is there, perhaps with more behind it.
            let new = (stream.len() - at).min(bytes.len());
            stream.extend_from_slice(&bytes[new..]);
        }
        Ok(stream)
    }
}

/// Reads a capture (pcap, Ethernet, IPv4) and returns the connections to the server's `port`,
/// in the order of their first segments.
///
/// # Errors
///
/// When the file is no such capture, or misses a part of a connection.
pub fn conversations(capture: &[u8], port: u16) -> Result<Vec<Conversation>, String> {
    const FILE_HEADER: usize = 24;
    const PACKET_HEADER: usize = 16;
    const ETHERNET: u32 = 1;
    if capture.len() < FILE_HEADER
        || word(capture, 0) != 0xa1b2_c3d4
        || word(capture, 20) != ETHERNET
    {
        return Err("no capture of Ethernet frames in this machine's byte order".into());
    }
    // Keyed by the client's port; the number keeps the order.
    let mut found: BTreeMap<u16, (usize, [Direction; 2])> = BTreeMap::new();
    let mut rest = &capture[FILE_HEADER..];
    while rest.len() >= PACKET_HEADER {
        let (captured, original) = (word(rest, 8) as usize, word(rest, 12) as usize);
        let Some(frame) = rest.get(PACKET_HEADER..PACKET_HEADER + captured) else {
            return Err("the capture ends within a packet".into());
        };
        if captured < original {
            return Err(format!(
                "a packet of {original} bytes was cut to {captured}"
            ));
        }
        rest = &rest[PACKET_HEADER + captured..];
        let Some(segment) = Segment::parse(frame) else {
            continue;
        };
        let (client, to_client) = match (segment.from == port, segment.to == port) {
            (true, false) => (segment.to, true),
            (false, true) => (segment.from, false),
            _ => continue,
        };
        let next = found.len();
        let (_, directions) = found
            .entry(client)
            .or_insert_with(|| (next, Default::default()));
        segment.add_to(&mut directions[usize::from(to_client)]);
    }
    let mut ordered: Vec<_> = found.into_values().collect();
    ordered.sort_by_key(|(order, _)| *order);
    ordered
        .iter()
        .map(|(_, [to_server, to_client])| {
            Ok(Conversation {
                to_server: to_server.assemble()?,
                to_client: to_client.assemble()?,
                server_finished: to_client.finished,
                server_reset: to_client.reset,
            })
        })
        .collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_ne_bytes(bytes)
}

struct Segment<'a> {
    from: u16,
    to: u16,
    sequence: u32,
    flags: u8,
    payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// RFC 791 and RFC 9293, without checksums: loopback does not compute them.
    fn parse(frame: &'a [u8]) -> Option<Segment<'a>> {
        const TCP: u8 = 6;
        let packet = frame.get(14..)?;
        if frame[12..14] != [0x08, 0x00] || *packet.get(9)? != TCP {
            return None;
        }
        let header_bytes = usize::from(packet[0] & 0x0f) * 4;
        // Zero when the kernel handed over more than the field can say.
        let total = match u16::from_be_bytes([packet[2], packet[3]]) {
            0 => packet.len(),
            length => usize::from(length),
        };
        let tcp = packet.get(header_bytes..total)?;
        let offset = usize::from(*tcp.get(12)? >> 4) * 4;
        Some(Segment {
            from: u16::from_be_bytes([tcp[0], tcp[1]]),
            to: u16::from_be_bytes([tcp[2], tcp[3]]),
            sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            flags: tcp[13],
            payload: tcp.get(offset..)?,
        })
    }

    fn add_to(&self, direction: &mut Direction) {
        const FIN: u8 = 1;
        const SYN: u8 = 2;
        const RST: u8 = 4;
        if self.flags & SYN != 0 {
            direction.first = Some(self.sequence.wrapping_add(1));
        }
        direction.finished |= self.flags & FIN != 0;
        direction.reset |= self.flags & RST != 0;
        let first = direction.first.unwrap_or(self.sequence);
        let at = self.sequence.wrapping_sub(first);
        // Keep-alive probes repeat a byte before the first one.
        if self.payload.is_empty() || at > u32::MAX / 2 {
            return;
        }
        let known = direction.segments.entry(at).or_default();
        if known.len() < self.payload.len() {
            *known = self.payload.to_vec();
        }
    }
}
