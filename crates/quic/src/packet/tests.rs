use super::*;
use crate::{Code, ConnectionId};
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    hex(text).try_into().unwrap()
}

fn id(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

/// What the appendices show of a packet with a long header.
struct Example {
    packet_type: PacketType,
    version: Version,
    destination: &'static str,
    source: &'static str,
    number: u64,
    number_len: usize,
    /// Of number and payload.
    length: usize,
    plain: &'static str,
    sample: &'static str,
    mask: &'static str,
    masked: &'static str,
}

/// RFC 9001 appendices A.2 and A.3, RFC 9369 appendices A.2 and A.3.
const EXAMPLES: [Example; 4] = [
    Example {
        packet_type: PacketType::Initial,
        version: Version::V1,
        destination: "8394c8f03e515708",
        source: "",
        number: 2,
        number_len: 4,
        length: 1182,
        plain: "c300000001088394c8f03e5157080000449e00000002",
        sample: "d1b1c98dd7689fb8ec11d242b123dc9b",
        mask: "437b9aec36",
        masked: "c000000001088394c8f03e5157080000449e7b9aec34",
    },
    Example {
        packet_type: PacketType::Initial,
        version: Version::V1,
        destination: "",
        source: "f067a5502a4262b5",
        number: 1,
        number_len: 2,
        length: 117,
        plain: "c1000000010008f067a5502a4262b50040750001",
        sample: "2cd0991cd25b0aac406a5816b6394100",
        mask: "2ec0d8356a",
        masked: "cf000000010008f067a5502a4262b5004075c0d9",
    },
    Example {
        packet_type: PacketType::Initial,
        version: Version::V2,
        destination: "8394c8f03e515708",
        source: "",
        number: 2,
        number_len: 4,
        length: 1182,
        plain: "d36b3343cf088394c8f03e5157080000449e00000002",
        sample: "ffe67b6abcdb4298b485dd04de806071",
        mask: "94a0c95e80",
        masked: "d76b3343cf088394c8f03e5157080000449ea0c95e82",
    },
    Example {
        packet_type: PacketType::Initial,
        version: Version::V2,
        destination: "",
        source: "f067a5502a4262b5",
        number: 1,
        number_len: 2,
        length: 117,
        plain: "d16b3343cf0008f067a5502a4262b50040750001",
        sample: "6f05d8a4398c47089698baeea26b91eb",
        mask: "4dd92e91ea",
        masked: "dc6b3343cf0008f067a5502a4262b5004075d92f",
    },
];

#[test]
fn initial_packets_of_rfc_9001_and_9369_appendix_a_are_read() {
    for example in EXAMPLES {
        let mut datagram = hex(example.masked);
        let header_len = datagram.len();
        let len = header_len - example.number_len + example.length;
        datagram.resize(header_len + 4 - example.number_len, 0xaa);
        datagram.extend(hex(example.sample));
        datagram.resize(len, 0xbb);
        let mut packets = Packets::new(&mut datagram, 8);
        let Some(Packet::Protected(packet)) = packets.next() else {
            panic!("no packet");
        };
        assert!(packets.next().is_none());
        assert_eq!(packet.packet_type(), example.packet_type);
        assert_eq!(packet.version(), Some(example.version));
        assert_eq!(packet.destination(), id(&hex(example.destination)));
        assert_eq!(packet.source(), id(&hex(example.source)));
        assert!(packet.token().is_empty() && packet.has_fixed_bit());
        assert_eq!(packet.bytes().len(), len);
        assert_eq!(packet.sample(), Some(&array(example.sample)));
        let packet = packet.unmask(&array(example.mask), None).unwrap();
        assert_eq!(packet.header, hex(example.plain));
        assert_eq!(
            (packet.number, packet.payload.len()),
            (example.number, len - header_len)
        );
        packet.check_reserved().unwrap();
    }
}

#[test]
fn initial_packets_of_rfc_9001_and_9369_appendix_a_are_built() {
    for example in EXAMPLES {
        let (destination, source) = (hex(example.destination), hex(example.source));
        let header = Header {
            destination: &destination,
            form: Form::Initial {
                version: example.version,
                source: &source,
                token: &[],
            },
            fixed_bit: true,
        };
        let mut out = Vec::new();
        let building = header.start(example.number, example.number_len, &mut out);
        let plaintext_len = example.length - example.number_len - TAG_LEN;
        out.resize(building.payload_at() + plaintext_len, 0xcc);
        let (header, payload) = building.close(&mut out);
        assert_eq!(
            (header, payload.len()),
            (&hex(example.plain)[..], plaintext_len + TAG_LEN)
        );
        payload[4 - example.number_len..][..SAMPLE_LEN].copy_from_slice(&hex(example.sample));
        assert_eq!(building.sample(&out), &array(example.sample));
        building.protect(&mut out, &array(example.mask));
        assert!(out.starts_with(&hex(example.masked)));
    }
}

/// RFC 9001 appendix A.5 and RFC 9369 appendix A.5: mask, header, packet.
const SHORT_EXAMPLES: [(&str, &str, &str); 2] = [
    (
        "aefefe7d03",
        "4200bff4",
        "4cfe4189655e5cd55c41f69080575d7999c25a5bfb",
    ),
    (
        "97580e32bf",
        "4200bff4",
        "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba",
    ),
];

#[test]
fn short_headers_of_rfc_9001_and_9369_appendix_a_5() {
    for (mask, header, packet) in SHORT_EXAMPLES {
        let (mask, sealed) = (array(mask), hex(packet));
        let mut datagram = sealed.clone();
        let Some(Packet::Protected(packet)) = Packets::new(&mut datagram, 0).next() else {
            panic!("no packet");
        };
        assert_eq!(
            (packet.packet_type(), packet.version()),
            (PacketType::OneRtt, None)
        );
        let packet = packet.unmask(&mask, Some(654_360_563)).unwrap();
        assert_eq!(
            (packet.number, packet.header),
            (654_360_564, &hex(header)[..])
        );
        assert_eq!((packet.key_phase(), packet.spin()), (false, false));
        packet.check_reserved().unwrap();

        let header = Header {
            destination: &[],
            form: Form::OneRtt {
                spin: false,
                key_phase: false,
            },
            fixed_bit: true,
        };
        let mut out = Vec::new();
        let building = header.put(654_360_564, Some(654_360_564 - 0x8000), &mut out);
        out.push(1);
        let (_, payload) = building.close(&mut out);
        payload.copy_from_slice(&sealed[4..]);
        building.protect(&mut out, &mask);
        assert_eq!(out, sealed);
    }
}

/// RFC 9001 appendix A.4 and RFC 9369 appendix A.4.
#[test]
fn retry_packets_of_rfc_9001_and_9369_appendix_a_4() {
    let source = id(&hex("f067a5502a4262b5"));
    for (version, packet, tag) in [
        (
            Version::V1,
            "ff000000010008f067a5502a4262b5746f6b656e",
            "04a265ba2eff4d829058fb3f0f2496ba",
        ),
        (
            Version::V2,
            "cf6b3343cf0008f067a5502a4262b5746f6b656e",
            "c8646ce8bfe33952d955543665dcc7b6",
        ),
    ] {
        let whole = [hex(packet), hex(tag)].concat();
        let mut datagram = whole.clone();
        let Some(Packet::Retry(retry)) = Packets::new(&mut datagram, 0).next() else {
            panic!("no Retry packet");
        };
        assert_eq!((retry.version, retry.token), (version, &b"token"[..]));
        assert_eq!(
            (retry.destination, retry.source),
            (ConnectionId::EMPTY, source)
        );
        assert_eq!(retry.tag, &array(tag));
        assert_eq!(retry.without_tag(), hex(packet));

        let mut out = b"before".to_vec();
        let retry = NewRetry {
            version,
            destination: &ConnectionId::EMPTY,
            source: &source,
            token: b"token",
            unused: 0xff,
        };
        retry.put(&mut out, |given| {
            assert_eq!(given, hex(packet));
            array(tag)
        });
        assert_eq!(out[6..], whole);
    }
}

#[test]
fn a_retry_packet_without_a_token_is_dropped_rfc_9000_section_17_2_5_2() {
    let front = hex("ff000000010008f067a5502a4262b5");
    for (token_len, is_packet) in [(0, false), (1, true)] {
        let mut datagram = front.clone();
        datagram.resize(front.len() + token_len + TAG_LEN, 0xaa);
        assert_eq!(Packets::new(&mut datagram, 8).next().is_some(), is_packet);
    }
}

#[test]
fn a_datagram_is_padded_to_its_end_rfc_9000_section_14_1() {
    let mut out = b"before".to_vec();
    for (end, expected) in [
        (1206, 1206),
        (1300, 1300),
        (100, 1300 + 1 + 4 + 1 + 3 + TAG_LEN),
    ] {
        let header = Header {
            destination: b"peer",
            form: SHORT,
            fixed_bit: true,
        };
        let building = header.put(0, None, &mut out);
        out.extend_from_slice(&[1, 1, 1]);
        building.pad_to(end, &mut out);
        building.close(&mut out);
        assert_eq!(out.len(), expected);
    }
}

#[test]
fn version_negotiation_swaps_ids_and_has_a_reserved_version_rfc_9000_section_17_2_1() {
    // Ids of other versions may have more than 20 bytes.
    let (destination, source) = ([7; 255], [8; 21]);
    let mut out = Vec::new();
    put_version_negotiation(&mut out, &destination, &source, &Version::ALL, 0x1234_5678);
    assert_eq!(out[0], 0xf8);
    assert_eq!(out[1..6], [0, 0, 0, 0, 21]);
    let mut datagram = out.clone();
    let Some(Packet::VersionNegotiation(packet)) = Packets::new(&mut datagram, 8).next() else {
        panic!("no Version Negotiation packet");
    };
    assert_eq!(
        (packet.destination, packet.source),
        (&source[..], &destination[..])
    );
    let versions: Vec<u32> = packet.versions().collect();
    assert_eq!(versions, [0x1a3a_5a7a, 1, 0x6b33_43cf]);
    // Cut versions, or none.
    for len in [out.len() - 1, out.len() - 12] {
        assert!(Packets::new(&mut out.clone()[..len], 8).next().is_none());
    }
}

#[test]
fn other_versions_are_read_as_far_as_rfc_8999_goes() {
    let mut datagram = hex("80 0a0a0a0a 02 0102 00");
    datagram.resize(1200, 0xff);
    assert_eq!(destination(&datagram, 8), Some(&[1, 2][..]));
    let Some(Packet::UnknownVersion(packet)) = Packets::new(&mut datagram, 8).next() else {
        panic!("no packet of an unknown version");
    };
    assert_eq!((packet.version, packet.datagram_len), (0x0a0a_0a0a, 1200));
    assert_eq!((packet.destination, packet.source), (&[1, 2][..], &[][..]));
}

#[test]
fn ids_of_21_bytes_make_no_packet_of_version_1_rfc_9000_section_17_2() {
    for (destination_len, source_len, is_packet) in [(20, 20, true), (21, 0, false), (0, 21, false)]
    {
        let mut datagram = hex("e000000001");
        datagram.push(destination_len);
        datagram.resize(datagram.len() + usize::from(destination_len), 1);
        datagram.push(source_len);
        datagram.resize(datagram.len() + usize::from(source_len), 2);
        datagram.push(40);
        datagram.resize(datagram.len() + 40, 0);
        assert_eq!(Packets::new(&mut datagram, 8).next().is_some(), is_packet);
    }
}

/// A packet with its mask off.
fn build(destination: &[u8], form: Form<'_>, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        destination,
        form,
        fixed_bit: true,
    };
    let mut out = Vec::new();
    let building = header.put(0, None, &mut out);
    assert_eq!(out.len() + TAG_LEN, header.overhead(0, None));
    out.extend_from_slice(payload);
    building.close(&mut out);
    building.protect(&mut out, &[0; 5]);
    out
}

fn handshake(destination: &[u8], version: Version) -> Vec<u8> {
    let form = Form::Handshake {
        version,
        source: b"me",
    };
    build(destination, form, b"payload")
}

const SHORT: Form<'static> = Form::OneRtt {
    spin: true,
    key_phase: true,
};

fn types_of(mut datagram: Vec<u8>) -> Vec<Option<PacketType>> {
    Packets::new(&mut datagram, 4)
        .map(|packet| match packet {
            Packet::Protected(packet) => Some(packet.packet_type()),
            _ => None,
        })
        .collect()
}

#[test]
fn all_types_of_both_versions_are_coalesced_rfc_9000_section_12_2() {
    for version in Version::ALL {
        let source = &b"me"[..];
        let initial = Form::Initial {
            version,
            source,
            token: b"token",
        };
        let datagram = [
            build(b"peer", initial, b"payload"),
            build(b"peer", Form::ZeroRtt { version, source }, b""),
            handshake(b"peer", version),
            build(b"peer", SHORT, b"payload"),
        ]
        .concat();
        use PacketType::{Handshake, Initial, OneRtt, ZeroRtt};
        let expected = [Initial, ZeroRtt, Handshake, OneRtt].map(Some);
        assert_eq!(types_of(datagram), expected, "{version:?}");
    }
}

#[test]
fn packets_for_another_destination_are_left_out_rfc_9000_section_12_2() {
    use PacketType::{Handshake, OneRtt};
    let first = handshake(b"peer", Version::V1);
    let other = handshake(b"poor", Version::V1);
    let short = |destination| build(destination, SHORT, b"payload");
    let datagram = [&first[..], &other, &first, &short(b"peer")].concat();
    assert_eq!(types_of(datagram), [Handshake, Handshake, OneRtt].map(Some));
    let datagram = [&first[..], &short(b"poor")].concat();
    assert_eq!(types_of(datagram), [Some(Handshake)]);
    // A version that is not spoken may only come first.
    let unknown = hex("80 0a0a0a0a 04 70656572 00 00");
    assert_eq!(types_of(unknown.clone()), [None]);
    assert_eq!(types_of([first, unknown].concat()), [Some(Handshake)]);
}

#[test]
fn at_most_so_many_packets_of_a_datagram_are_looked_at() {
    let many = handshake(b"peer", Version::V1).repeat(MAX_COALESCED + 1);
    assert_eq!(types_of(many).len(), MAX_COALESCED);
    // Those that are left out count too.
    let mut datagram = handshake(b"peer", Version::V1);
    datagram.extend(handshake(b"poor", Version::V1).repeat(MAX_COALESCED - 1));
    datagram.extend(handshake(b"peer", Version::V1));
    assert_eq!(types_of(datagram).len(), 1);
}

#[test]
fn packets_that_are_cut_short_are_none() {
    let whole = handshake(b"peer", Version::V2);
    for len in 0..whole.len() {
        assert_eq!(types_of(whole[..len].to_vec()), [], "{len}");
    }
    // A short header needs its id.
    assert_eq!(types_of(vec![0x40, 1, 2, 3]), []);
    assert_eq!(types_of(vec![0x40, 1, 2, 3, 4]), [Some(PacketType::OneRtt)]);
}

/// RFC 9001 section 5.4.2.
#[test]
fn a_packet_without_a_whole_sample_is_not_unmasked() {
    for len in 0..40 {
        let mut datagram = vec![0x40; 1 + 4 + len];
        let Some(Packet::Protected(packet)) = Packets::new(&mut datagram, 4).next() else {
            panic!("no packet");
        };
        assert_eq!(packet.sample().is_some(), len >= 20);
        assert_eq!(packet.unmask(&[0; 5], None).is_some(), len >= 20);
    }
    // What is built always has one.
    let mut shortest = build(b"peer", SHORT, b"");
    assert_eq!(shortest.len(), 1 + 4 + 4 + SAMPLE_LEN);
    let Some(Packet::Protected(packet)) = Packets::new(&mut shortest, 4).next() else {
        panic!("no packet");
    };
    assert!(packet.sample().is_some());
}

#[test]
fn reserved_bits_are_a_violation_rfc_9000_sections_17_2_and_17_3_1() {
    for (bit, packet) in [
        (0x04, handshake(b"peer", Version::V1)),
        (0x08, handshake(b"peer", Version::V2)),
        (0x08, build(b"peer", SHORT, b"payload")),
        (0x10, build(b"peer", SHORT, b"payload")),
    ] {
        for flip in [0, bit] {
            let mut datagram = packet.clone();
            datagram[0] ^= flip;
            let Some(Packet::Protected(packet)) = Packets::new(&mut datagram, 4).next() else {
                panic!("no packet");
            };
            let packet = packet.unmask(&[0; 5], None).unwrap();
            let code = packet.check_reserved().map_err(|error| error.code);
            let expected = if flip == 0 {
                Ok(())
            } else {
                Err(Code::PROTOCOL_VIOLATION)
            };
            assert_eq!(code, expected);
        }
    }
}

#[test]
fn the_fixed_bit_may_be_left_out_rfc_9287() {
    for fixed_bit in [false, true] {
        let header = Header {
            destination: b"peer",
            form: SHORT,
            fixed_bit,
        };
        let mut out = Vec::new();
        header.put(0, None, &mut out).close(&mut out);
        let Some(Packet::Protected(packet)) = Packets::new(&mut out, 4).next() else {
            panic!("no packet");
        };
        assert_eq!(packet.has_fixed_bit(), fixed_bit);
        let packet = packet.unmask(&[0; 5], None).unwrap();
        assert!(packet.spin() && packet.key_phase());
    }
}

#[test]
fn a_packet_that_waits_for_its_keys_is_read_again() {
    let mut datagram = [
        handshake(b"peer", Version::V1),
        build(b"peer", SHORT, b"abc"),
    ]
    .concat();
    let kept: Vec<Vec<u8>> = Packets::new(&mut datagram, 4)
        .map(|packet| match packet {
            Packet::Protected(packet) => packet.bytes().to_vec(),
            _ => panic!("another packet"),
        })
        .collect();
    assert_eq!(kept.len(), 2);
    assert_eq!(types_of(kept[0].clone()), [Some(PacketType::Handshake)]);
    assert_eq!(types_of(kept[1].clone()), [Some(PacketType::OneRtt)]);
}

proptest! {
    #[test]
    fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzz::packets(&data);
    }

    /// Packets that are nearly right.
    #[test]
    fn changed_bytes(
        version in prop::sample::select(&Version::ALL[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let initial = Form::Initial { version, source: b"me", token: b"token" };
        let mut data = vec![4; 6];
        data.extend(build(b"peer", initial, b"payload"));
        data.extend(handshake(b"peer", version));
        data.extend(build(b"peer", SHORT, b"payload"));
        for (place, byte) in changes {
            let place = place.index(data.len());
            data[place] = byte;
        }
        crate::fuzz::packets(&data);
    }

    /// What one end builds, the other reads.
    #[test]
    fn packets_arrive_as_they_were_built(
        kind in 0..4,
        version in prop::sample::select(&Version::ALL[..]),
        destination in prop::collection::vec(any::<u8>(), 0..=20),
        source in prop::collection::vec(any::<u8>(), 0..=20),
        token in prop::collection::vec(any::<u8>(), 0..100),
        payload in prop::collection::vec(any::<u8>(), 4..100),
        number in 0..=crate::varint::MAX,
        behind in 1_u64..0x3fff_ffff,
        mask in any::<[u8; 5]>(),
        bits in any::<(bool, bool)>(),
    ) {
        let form = match kind {
            0 => Form::Initial { version, source: &source, token: &token },
            1 => Form::ZeroRtt { version, source: &source },
            2 => Form::Handshake { version, source: &source },
            _ => Form::OneRtt { spin: bits.0, key_phase: bits.1 },
        };
        let acked = number.saturating_sub(behind);
        let header = Header { destination: &destination, form, fixed_bit: true };
        let mut out = b"before".to_vec();
        let building = header.put(number, Some(acked), &mut out);
        out.extend_from_slice(&payload);
        let (plain, sealed) = building.close(&mut out);
        let plain = plain.to_vec();
        prop_assert_eq!(sealed.len(), payload.len() + TAG_LEN);
        prop_assert_eq!(out.len() - 6, payload.len() + header.overhead(number, Some(acked)));
        let sample = *building.sample(&out);
        building.protect(&mut out, &mask);
        let mut packets = Packets::new(&mut out[6..], destination.len());
        let Some(Packet::Protected(packet)) = packets.next() else {
            panic!("no packet");
        };
        prop_assert!(packets.next().is_none());
        prop_assert_eq!(packet.packet_type(), form.packet_type());
        prop_assert_eq!(&packet.destination()[..], &destination[..]);
        if kind < 3 {
            prop_assert_eq!(packet.version(), Some(version));
            prop_assert_eq!(&packet.source()[..], &source[..]);
        }
        prop_assert_eq!(packet.token(), if kind == 0 { &token[..] } else { &[] });
        prop_assert_eq!(packet.sample(), Some(&sample));
        let largest = number.checked_sub(1).map(|before| before.max(acked));
        let packet = packet.unmask(&mask, largest).unwrap();
        prop_assert_eq!((packet.number, packet.header), (number, &plain[..]));
        prop_assert_eq!(&packet.payload[..payload.len()], &payload[..]);
        if kind == 3 {
            prop_assert_eq!((packet.spin(), packet.key_phase()), bits);
        }
        packet.check_reserved().unwrap();
    }
}
