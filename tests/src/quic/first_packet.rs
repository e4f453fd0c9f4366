//! The first packet of a client of QUIC that sends no other.

use sealane_awslc::{HeaderCipher, PacketCipher, QuicSuite, TrafficSecret, expand_label, extract};

/// From which the keys of Initial packets are derived (RFC 9001 section 5.2).
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
/// Bytes of the datagram, all of which are the packet's (RFC 9000 section 14.1).
const BYTES: usize = 1200;
/// PING; what follows is PADDING.
const PING: u8 = 1;

/// A datagram with an authentic Initial packet of version 1, to the server's id `destination` and
/// from the id `client`. It begins a connection, and nothing comes of it: it has no ClientHello. A
/// datagram in which any bit is changed begins none.
///
/// # Panics
/// If an id has more than 20 bytes, or the token more than a packet has room for.
pub fn first_datagram(destination: &[u8], token: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0xc0, 0, 0, 0, 1];
    for id in [destination, b"client"] {
        datagram.push(id.len() as u8);
        datagram.extend(id);
    }
    datagram.extend((0x4000 | token.len() as u16).to_be_bytes());
    datagram.extend(token);
    let rest = BYTES - datagram.len() - 2;
    datagram.extend((0x4000 | rest as u16).to_be_bytes());
    let number_at = datagram.len();
    datagram.extend([0, PING]);
    datagram.resize(BYTES, 0);

    let mut secret = [0; 32];
    expand_label(
        &extract(&SALT, destination),
        b"tls13 client in",
        &mut secret,
    );
    let secret = TrafficSecret::new(QuicSuite::Aes128Gcm, &secret).expect("32 bytes");
    let (header, payload) = datagram.split_at_mut(number_at + 1);
    PacketCipher::derive(&secret, b"tls13 quic key", b"tls13 quic iv").seal(0, header, payload);
    let sample = datagram[number_at + 4..].first_chunk();
    let mask = HeaderCipher::derive(&secret, b"tls13 quic hp").mask(sample.expect("16 bytes"));
    datagram[0] ^= mask[0] & 0x0f;
    datagram[number_at] ^= mask[1];
    datagram
}
