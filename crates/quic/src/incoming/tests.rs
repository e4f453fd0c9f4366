use super::*;
use crate::frame::{Frame, Frames};
use crate::packet::{Packet, PacketType, Packets, destination};
use crate::{Side, TokenLifetimes, Verdict, token};
use proptest::prelude::*;

fn id(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).expect("short enough")
}

/// A datagram whose Initial packet nobody could open: it is only looked at.
fn datagram(version: Version, destination: &[u8], token: &[u8], len: usize) -> Vec<u8> {
    let header = Header {
        destination,
        form: Form::Initial {
            version,
            source: b"source",
            token,
        },
        fixed_bit: true,
    };
    let mut out = Vec::new();
    let building = header.put(0, None, &mut out);
    building.pad_to(len, &mut out);
    let _ = building.close(&mut out);
    out
}

fn read(datagram: &[u8]) -> Option<Initial<'_>> {
    match initial(datagram) {
        Unrouted::Initial(initial) => Some(initial),
        _ => None,
    }
}

#[test]
fn initial_packets_are_read_without_keys() {
    for version in Version::ALL {
        let bytes = datagram(version, b"original", b"token", 1200);
        let expected = Initial {
            version,
            destination: id(b"original"),
            source: id(b"source"),
            token: b"token",
        };
        assert_eq!(read(&bytes), Some(expected));
        assert!(is_long(&bytes));
        assert_eq!(destination(&bytes, 8), Some(&b"original"[..]));
    }
}

#[test]
fn initial_packets_are_authentic_or_begin_nothing_rfc_9001_section_5_2() {
    for version in Version::ALL {
        let mut bytes = datagram(version, b"original", b"token", 1200);
        assert!(!read(&bytes).expect("it looks well").is_authentic(&bytes));
        // Now with what is missing: the seal.
        let number_at = 6 + 8 + 1 + 6 + 1 + 5 + 2;
        let secrets = InitialSecrets::derive(version.to_tls(), b"original");
        let keys = tls::Keys::derive(version.to_tls(), &secrets.client);
        let number_len = usize::from(bytes[0] & 3) + 1;
        let (header, payload) = bytes.split_at_mut(number_at + number_len);
        keys.packet.seal(0, header, payload);
        let sample = bytes[number_at + 4..].first_chunk().expect("16 bytes");
        let mask = keys.header.mask(sample);
        bytes[0] ^= mask[0] & 0x0f;
        for (byte, mask) in bytes[number_at..][..number_len].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
        assert!(read(&bytes).expect("it looks well").is_authentic(&bytes));
        for at in 0..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[at] ^= 1;
            if let Some(initial) = read(&spoilt) {
                assert!(!initial.is_authentic(&spoilt), "byte {at}");
            }
        }
    }
}

#[test]
fn short_datagrams_and_short_ids_start_nothing_rfc_9000_sections_7_2_and_14_1() {
    assert!(read(&datagram(Version::V1, b"original", b"", 1200)).is_some());
    assert!(read(&datagram(Version::V1, b"original", b"", 1199)).is_none());
    assert!(read(&datagram(Version::V1, b"7 bytes", b"", 1200)).is_none());
    assert!(read(&[0xc0; 1200]).is_none());
    assert!(!is_long(&[0x40; 1200]) && !is_long(&[]));
}

#[test]
fn the_fixed_bit_is_missing_only_where_it_may_rfc_9287_section_3_1() {
    for (token, is_valid) in [(&b""[..], false), (b"token", true)] {
        let mut bytes = datagram(Version::V1, b"original", token, 1200);
        bytes[0] &= !0x40;
        assert_eq!(read(&bytes).is_some(), is_valid);
    }
}

#[test]
fn other_types_start_nothing() {
    for version in Version::ALL {
        let of = |first: u8| {
            let mut bytes = datagram(version, b"original", b"", 1200);
            bytes[0] = bytes[0] & 0xcf | first << 4;
            read(&bytes).is_some()
        };
        let initials: Vec<u8> = (0..4).filter(|&first| of(first)).collect();
        let expected = match version {
            Version::V1 => [0],
            Version::V2 => [1],
        };
        assert_eq!(initials, expected);
    }
}

#[test]
fn lengths_that_are_not_there_start_nothing() {
    let bytes = datagram(Version::V1, b"original", b"", 1200);
    // The length is behind the first byte, the version, both ids and the token's length.
    let at = 1 + 4 + 9 + 7 + 1;
    for (len, is_valid) in [(0_u16, false), (19, false), (20, true), (0x3fff, false)] {
        let mut bytes = bytes.clone();
        bytes[at..at + 2].copy_from_slice(&(0x4000 | len).to_be_bytes());
        assert_eq!(read(&bytes).is_some(), is_valid, "{len}");
    }
}

#[test]
fn unknown_versions_are_answered_if_the_datagram_is_long_rfc_9000_section_6_1() {
    let mut bytes = datagram(Version::V1, b"original", b"", 1200);
    bytes[1..5].copy_from_slice(&[0xfa, 0xce, 0xb0, 0x0c]);
    assert!(matches!(initial(&bytes[..1199]), Unrouted::Other));
    let Unrouted::UnknownVersion(unknown) = initial(&bytes) else {
        panic!("it is of no version that is known");
    };
    let mut out = Vec::new();
    put_version_negotiation(&mut out, &unknown, &Version::ALL, 7);
    let Some(Packet::VersionNegotiation(offer)) = Packets::new(&mut out, 8).next() else {
        panic!("a Version Negotiation packet");
    };
    assert_eq!(
        (offer.destination, offer.source),
        (&b"source"[..], &b"original"[..])
    );
    let known = offer.versions().filter_map(Version::from_wire);
    assert_eq!(known.collect::<Vec<_>>(), Version::ALL);
    // A Version Negotiation packet is never answered with one.
    bytes[1..5].copy_from_slice(&[0; 4]);
    assert!(matches!(initial(&bytes), Unrouted::Other));
}

#[test]
fn a_refusal_says_why_to_whom_it_may_concern() {
    for version in Version::ALL {
        let bytes = datagram(version, b"original", b"", 1200);
        let client = read(&bytes).expect("an Initial packet");
        let reason = "no".repeat(500);
        let mut out = Vec::new();
        put_refusal(&mut out, &client, Code::INVALID_TOKEN, &reason);
        assert!(out.len() <= MAX_REFUSAL_LEN, "{}", out.len());
        let Some(Packet::Protected(packet)) = Packets::new(&mut out, 8).next() else {
            panic!("a packet");
        };
        assert_eq!(packet.packet_type(), PacketType::Initial);
        assert_eq!(packet.destination(), id(b"source"));
        let secrets = InitialSecrets::derive(version.to_tls(), b"original");
        let keys = tls::Keys::derive(version.to_tls(), &secrets.server);
        let mask = keys.header.mask(packet.sample().expect("long enough"));
        let packet = packet.unmask(&mask, None).expect("long enough");
        let opened = keys
            .packet
            .open(packet.number, packet.header, packet.payload);
        let payload = &packet.payload[..opened.expect("authentic")];
        let frame = Frames::new(payload, PacketType::Initial, Side::Client).next();
        let Some(Ok(Frame::ConnectionClose { code, reason, .. })) = frame else {
            panic!("{frame:?}");
        };
        assert_eq!(code, Code::INVALID_TOKEN);
        assert!(reason.starts_with(b"nono"));
    }
}

#[test]
fn reset_tokens_depend_on_the_secret_and_on_the_id() {
    let key = ResetKey::new(&[1; 32]);
    let token = key.token(&id(b"one"));
    assert_eq!(token, ResetKey::new(&[1; 32]).token(&id(b"one")));
    assert_ne!(token, key.token(&id(b"two")));
    assert_ne!(token, ResetKey::new(&[2; 32]).token(&id(b"one")));
    assert_eq!(format!("{key:?}"), "ResetKey(..)");
}

#[test]
fn tokens_are_good_under_their_key_only() {
    let arrival = crate::TokenArrival {
        version: Version::V1,
        address: ([192, 0, 2, 1], 4433).into(),
        destination: &id(b"original"),
        unix_secs: 1_700_000_000,
    };
    let key = AddressTokenKey::new(&[1; 32]).expect("memory");
    let mut bytes = Vec::new();
    token::put_new_token(&mut bytes, &key, &[5; 12], &arrival);
    let lifetimes = TokenLifetimes::default();
    let verdict = |bytes: &[u8], secret: u8| {
        let keys = [AddressTokenKey::new(&[secret; 32]).expect("memory")];
        crate::validate(bytes, &keys, &arrival, &lifetimes).expect("of no Retry packet")
    };
    assert_eq!(verdict(&bytes, 1), Verdict::NewToken { nonce: [5; 12] });
    assert_eq!(verdict(&bytes, 2), Verdict::Unproven);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert_eq!(verdict(&changed, 1), Verdict::Unproven, "byte {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..40),
        version in prop_oneof![Just(1_u32), Just(0x6b33_43cf), any::<u32>()],
    ) {
        bytes.resize(1200, 0);
        bytes[1..5].copy_from_slice(&version.to_be_bytes());
        let _ = initial(&bytes);
        let _ = destination(&bytes, 20);
    }
}
