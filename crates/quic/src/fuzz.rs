//! Entry points for the fuzzers.
//!
//! Each takes arbitrary bytes, reads them, writes what was read, reads that again and compares. A
//! finding is a panic. They live here, beside the code they exercise, so that the property tests
//! run them too.

mod connection;

pub use connection::connection;

use crate::frame::{self, Frame, Frames, MAX_RANGES_SENT};
use crate::packet::{self, Form, Header, Packet, PacketType, Packets, Protected};
use crate::parameters::TransportParameters;
use crate::token::{self, Arrival, TokenKey, TokenLifetimes, Verdict};
use crate::{Code, ConnectionId, Side, Version};

/// A datagram; the first six bytes choose the length of ids in short headers and the mask of header
/// protection.
pub fn packets(data: &[u8]) {
    let Some((&[short_id_len, mask @ ..], datagram)) = data.split_first_chunk::<6>() else {
        return;
    };
    let short_id_len = usize::from(short_id_len) % (ConnectionId::MAX_LEN + 1);
    let first = packet::destination(datagram, short_id_len).map(<[u8]>::to_vec);
    let mut bytes = datagram.to_vec();
    let mut total_len = 0;
    for packet in Packets::new(&mut bytes, short_id_len) {
        let destination = match packet {
            Packet::Protected(packet) => {
                total_len += packet.bytes().len();
                let destination = packet.destination().to_vec();
                packet_again(packet, short_id_len, &mask);
                destination
            }
            Packet::Retry(retry) => {
                assert!(retry.token.len() < datagram.len());
                assert!(retry.without_tag().ends_with(retry.token));
                retry.destination.to_vec()
            }
            Packet::VersionNegotiation(packet) => {
                assert!(packet.versions().next().is_some());
                packet.destination.to_vec()
            }
            Packet::UnknownVersion(packet) => {
                assert_eq!(Version::from_wire(packet.version), None);
                assert_eq!(packet.datagram_len, datagram.len());
                packet.destination.to_vec()
            }
        };
        assert_eq!(Some(destination), first, "RFC 9000 section 12.2");
    }
    assert!(total_len <= datagram.len());
}

/// Builds the packet from what was read, and reads that.
fn packet_again(packet: Protected<'_>, short_id_len: usize, mask: &[u8; 5]) {
    let (destination, source) = (packet.destination(), packet.source());
    let (packet_type, version) = (packet.packet_type(), packet.version());
    let (token, fixed_bit) = (packet.token().to_vec(), packet.has_fixed_bit());
    let Some(read) = packet.unmask(mask, None) else {
        return;
    };
    let version_of = |version: Option<Version>| version.expect("long headers have a version");
    let form = match packet_type {
        PacketType::OneRtt => Form::OneRtt {
            spin: read.spin(),
            key_phase: read.key_phase(),
        },
        PacketType::Initial => Form::Initial {
            version: version_of(version),
            source: &source,
            token: &token,
        },
        PacketType::ZeroRtt => Form::ZeroRtt {
            version: version_of(version),
            source: &source,
        },
        PacketType::Handshake => Form::Handshake {
            version: version_of(version),
            source: &source,
        },
    };
    let header = Header {
        destination: &destination,
        form,
        fixed_bit,
    };
    // Longer ones are never built.
    if read.payload.len() > 0x3000 {
        return;
    }
    let mut out = vec![0xee];
    let building = header.put(read.number, None, &mut out);
    let overhead = header.overhead(read.number, None);
    assert_eq!(
        building.payload_at() - building.start() + packet::TAG_LEN,
        overhead
    );
    out.extend_from_slice(read.payload);
    building.close(&mut out);
    building.protect(&mut out, mask);
    let mut again = Packets::new(&mut out[1..], short_id_len);
    let Some(Packet::Protected(packet)) = again.next() else {
        panic!("what was built is no packet");
    };
    assert_eq!(
        (packet.destination(), packet.source()),
        (destination, source)
    );
    assert_eq!(
        (packet.packet_type(), packet.version()),
        (packet_type, version)
    );
    assert_eq!(
        (packet.token(), packet.has_fixed_bit()),
        (&token[..], fixed_bit)
    );
    let again = packet.unmask(mask, None).expect("long enough");
    assert_eq!(again.number, read.number);
    if packet_type == PacketType::OneRtt {
        assert_eq!(again.spin(), read.spin());
        assert_eq!(again.key_phase(), read.key_phase());
    }
    assert!(again.check_reserved().is_ok());
    assert!(again.payload.starts_with(read.payload));
}

/// The payload of a packet; the first byte chooses the type of packet and the receiver.
pub fn frames(data: &[u8]) {
    let Some((&choice, payload)) = data.split_first() else {
        return;
    };
    let packet_type = match choice & 3 {
        0 => PacketType::Initial,
        1 => PacketType::ZeroRtt,
        2 => PacketType::Handshake,
        _ => PacketType::OneRtt,
    };
    let receiver = if choice & 4 == 0 {
        Side::Client
    } else {
        Side::Server
    };
    let mut reader = Frames::new(payload, packet_type, receiver);
    let mut read = Vec::new();
    let mut out = Vec::new();
    let mut error = None;
    for frame in reader.by_ref() {
        assert_eq!(error, None, "nothing comes after an error");
        match frame {
            Ok(frame) => {
                let before = out.len();
                frame.put(&mut out);
                assert_eq!(out.len() - before, frame.encoded_len());
                if let Frame::Ack(ack) = frame {
                    ack_again(ack, receiver);
                }
                read.push(frame);
            }
            Err(found) => error = Some(found),
        }
    }
    assert!(reader.next().is_none());
    if let Some(error) = error {
        assert!([Code::FRAME_ENCODING_ERROR, Code::PROTOCOL_VIOLATION].contains(&error.code));
    } else {
        let again: Result<Vec<_>, _> = Frames::new(&out, packet_type, receiver).collect();
        assert_eq!(again, Ok(read));
    }
}

fn ack_again(ack: frame::Ack<'_>, receiver: Side) {
    let ranges: Vec<_> = ack.ranges().take(MAX_RANGES_SENT).collect();
    assert!(ranges.is_sorted_by(|a, b| a.start() > b.end() && *a.start() - *b.end() > 1));
    let mut out = Vec::new();
    let written = frame::put_ack(
        &mut out,
        usize::MAX,
        ranges.iter().cloned(),
        ack.raw_delay,
        ack.ecn(),
    );
    assert_eq!(written, ranges.len());
    let mut frames = Frames::new(&out, PacketType::OneRtt, receiver);
    let Some(Ok(Frame::Ack(again))) = frames.next() else {
        panic!("what was written is no ACK frame");
    };
    assert!(frames.next().is_none());
    assert_eq!(again.ranges().collect::<Vec<_>>(), ranges);
    assert_eq!((again.largest, again.ecn()), (ack.largest, ack.ecn()));
    assert_eq!(again.delay(3), ack.delay(3));
}

/// Transport parameters; the first byte chooses the sender.
pub fn parameters(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let sender = if choice & 1 == 0 {
        Side::Client
    } else {
        Side::Server
    };
    let read = match TransportParameters::parse(bytes, sender) {
        Ok(read) => read,
        Err(error) => {
            assert_eq!(error.code, Code::TRANSPORT_PARAMETER_ERROR);
            return;
        }
    };
    let mut out = Vec::new();
    read.put(
        &mut out,
        u64::from(choice).wrapping_mul(0x0123_4567_89ab_cdef),
    );
    // What a client sends always names the chosen version: `put` does not make it up.
    assert_eq!(
        TransportParameters::parse(&out, Side::Server).as_ref(),
        Ok(&read)
    );
}

/// A key that changes nothing: what comes behind the tag's check is reached.
struct NoKey;

impl TokenKey for NoKey {
    fn id(&self) -> u32 {
        0
    }

    fn seal(&self, _: &[u8; 12], _: &[u8], _: &mut [u8]) {}

    fn open(&self, _: &[u8; 12], _: &[u8], _: &mut [u8]) -> bool {
        true
    }
}

/// A token, as if its tag were right.
pub fn tokens(data: &[u8]) {
    let destination = ConnectionId::new(b"server's").expect("short enough");
    let arrival = Arrival {
        version: Version::V1,
        address: ([192, 0, 2, 1], 4433).into(),
        destination: &destination,
        unix_secs: 1_700_000_000,
    };
    match token::validate(data, &[NoKey], &arrival, &TokenLifetimes::default()) {
        Ok(Verdict::Unproven) => {}
        Ok(_) => assert!(data.len() <= token::MAX_LEN),
        Err(error) => assert_eq!(error.code, Code::INVALID_TOKEN),
    }
}
