use super::*;
use crate::{Side, Version, varint};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn id(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

fn parameter(id: u64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::put(&mut out, id);
    varint::put(&mut out, value.len() as u64);
    out.extend_from_slice(value);
    out
}

fn number(id: u64, value: u64) -> Vec<u8> {
    let mut encoded = Vec::new();
    varint::put(&mut encoded, value);
    parameter(id, &encoded)
}

fn refused(bytes: &[u8], sender: Side) -> bool {
    match TransportParameters::parse(bytes, sender) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.code, Code::TRANSPORT_PARAMETER_ERROR);
            true
        }
    }
}

fn every_one() -> TransportParameters {
    TransportParameters {
        original_destination: Some(id(b"original")),
        max_idle_timeout_ms: 30_000,
        stateless_reset_token: Some(ResetToken::new([1; 16])),
        max_udp_payload_size: 1200,
        initial_max_data: varint::MAX,
        initial_max_stream_data_bidi_local: 1,
        initial_max_stream_data_bidi_remote: 2,
        initial_max_stream_data_uni: 3,
        initial_max_streams_bidi: 1 << 60,
        initial_max_streams_uni: 4,
        ack_delay_exponent: 20,
        max_ack_delay_ms: (1 << 14) - 1,
        disable_active_migration: true,
        preferred_address: Some(Box::new(PreferredAddress {
            v4: Some(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443)),
            v6: Some(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 8443, 0, 0)),
            id: id(b"preferred"),
            reset_token: ResetToken::new([2; 16]),
        })),
        active_connection_id_limit: 8,
        initial_source: Some(id(b"source")),
        retry_source: Some(id(b"")),
        version_information: Some(VersionInformation::new(Version::V1, &Version::ALL)),
        grease_quic_bit: true,
    }
}

#[test]
fn what_is_sent_arrives_rfc_9000_section_18_2() {
    for random in [0, 1, 2, u64::MAX, 0x0123_4567_89ab_cdef] {
        let mut out = Vec::new();
        every_one().put(&mut out, random);
        assert_eq!(
            TransportParameters::parse(&out, Side::Server),
            Ok(every_one())
        );
    }
}

/// Recorded from aioquic 1.x.
#[test]
fn a_client_of_another_implementation() {
    let text = "01048000ea6004048010000005048010000006048010000007048010000008024080090240800a01030b\
                01190e01080f0872abf434932fb4d9110c00000001000000016b3343cf";
    let bytes: Vec<u8> = (0..text.len() / 2)
        .map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap())
        .collect();
    let read = TransportParameters::parse(&bytes, Side::Client).unwrap();
    let expected = TransportParameters {
        max_idle_timeout_ms: 60_000,
        initial_max_data: 1 << 20,
        initial_max_stream_data_bidi_local: 1 << 20,
        initial_max_stream_data_bidi_remote: 1 << 20,
        initial_max_stream_data_uni: 1 << 20,
        initial_max_streams_bidi: 128,
        initial_max_streams_uni: 128,
        active_connection_id_limit: 8,
        initial_source: Some(id(&[0x72, 0xab, 0xf4, 0x34, 0x93, 0x2f, 0xb4, 0xd9])),
        version_information: Some(VersionInformation::new(Version::V1, &Version::ALL)),
        ..TransportParameters::default()
    };
    assert_eq!(read, expected);
}

#[test]
fn what_is_not_spoken_is_ignored_rfc_9000_section_7_4_2() {
    // `max_datagram_frame_size`, a reserved parameter, a reserved version.
    let source = id(b"client");
    let bytes = [
        number(0x01, 30_000),
        number(0x03, 1472),
        number(0x04, 15_728_640),
        number(0x08, 100),
        number(0x20, 65_536),
        parameter(0x0f, &source),
        parameter(31 * 7 + 27, b"any"),
        parameter(0x11, &[0, 0, 0, 1, 0x1a, 0x2a, 0x3a, 0x4a, 0, 0, 0, 1]),
        parameter(0x2ab2, b""),
    ]
    .concat();
    let read = TransportParameters::parse(&bytes, Side::Client).unwrap();
    let expected = TransportParameters {
        max_idle_timeout_ms: 30_000,
        max_udp_payload_size: 1472,
        initial_max_data: 15_728_640,
        initial_max_streams_bidi: 100,
        initial_source: Some(source),
        version_information: Some(VersionInformation::new(Version::V1, &[Version::V1])),
        grease_quic_bit: true,
        ..TransportParameters::default()
    };
    assert_eq!(read, expected);
    read.check_client_id(&source).unwrap();
}

#[test]
fn a_reserved_parameter_is_sent_rfc_9000_section_18_1() {
    let reserved_of = |random| {
        let mut out = Vec::new();
        TransportParameters::default().put(&mut out, random);
        let mut reader = crate::reader::Reader::new(&out);
        let id = reader.varint().unwrap();
        let value = reader.prefixed().unwrap();
        assert!(reader.is_empty());
        assert_eq!(id % 31, 27);
        (id, value.to_vec())
    };
    assert_ne!(
        reserved_of(0x0000_0001_0000_0003),
        reserved_of(0x0000_0002_0000_0003)
    );
}

#[test]
fn nothing_comes_twice_rfc_9000_section_7_4() {
    let mut once = vec![
        number(0x01, 1),
        number(0x0e, 2),
        parameter(0x0c, b""),
        parameter(0x0f, b"id"),
        parameter(0x20, b"\x01"),
        parameter(0x2ab2, b""),
        parameter(0x7777, b""),
    ];
    assert!(!refused(&once.concat(), Side::Client));
    for twice in 0..once.len() {
        once.push(once[twice].clone());
        assert!(refused(&once.concat(), Side::Client), "{twice}");
        once.pop();
    }
}

#[test]
fn so_many_unknown_ones_are_compared() {
    let unknown = |n: usize| parameter(1000 + n as u64, b"");
    let many: Vec<u8> = (0..MAX_UNKNOWN).flat_map(unknown).collect();
    assert!(!refused(&many, Side::Client));
    let within = [&many[..many.len() - unknown(0).len()], &unknown(0)[..]].concat();
    assert!(refused(&within, Side::Client));
    let beyond = [many, unknown(0)].concat();
    assert!(!refused(&beyond, Side::Client));
    // Known ones are compared all the same.
    assert!(refused(
        &[beyond, number(1, 1), number(1, 1)].concat(),
        Side::Client
    ));
}

#[test]
fn clients_do_not_send_what_only_servers_have_rfc_9000_section_18_2() {
    let address = [&[0; 24][..], b"\x02id", &[0; 16]].concat();
    for bytes in [
        parameter(0x00, b"original"),
        parameter(0x02, &[0; 16]),
        parameter(0x0d, &address),
        parameter(0x10, b"retry"),
    ] {
        assert!(refused(&bytes, Side::Client));
        assert!(!refused(&bytes, Side::Server));
    }
}

#[test]
fn values_out_of_range_rfc_9000_section_18_2() {
    for (id, allowed, others) in [
        (0x03, vec![1200, 65_527, varint::MAX], vec![0, 1199]),
        (0x08, vec![0, 1 << 60], vec![(1 << 60) + 1, varint::MAX]),
        (0x09, vec![0, 1 << 60], vec![(1 << 60) + 1, varint::MAX]),
        (0x0a, vec![0, 20], vec![21, 255, 256 + 20]),
        (0x0b, vec![0, (1 << 14) - 1], vec![1 << 14, (1 << 16) + 1]),
        (0x0e, vec![2, varint::MAX], vec![0, 1]),
    ] {
        for value in allowed {
            assert!(
                !refused(&number(id, value), Side::Client),
                "{id:#x} {value}"
            );
        }
        for value in others {
            assert!(refused(&number(id, value), Side::Client), "{id:#x} {value}");
        }
    }
}

#[test]
fn malformed_values() {
    for bytes in [
        // Numbers that are cut, and with something behind.
        parameter(0x01, b""),
        parameter(0x04, &[0x40]),
        parameter(0x04, &[1, 1]),
        // Flags that are not empty.
        parameter(0x0c, &[0]),
        parameter(0x2ab2, &[0]),
        // Ids and tokens of other lengths.
        parameter(0x0f, &[0; 21]),
        parameter(0x02, &[0; 15]),
        parameter(0x02, &[0; 17]),
        // Preferred addresses: without an id, cut, with something behind.
        parameter(0x0d, &[0; 24 + 1 + 16]),
        parameter(0x0d, &[&[0; 24][..], b"\x02id", &[0; 15]].concat()),
        parameter(0x0d, &[&[0; 24][..], b"\x02id", &[0; 17]].concat()),
        parameter(0x0d, &[&[0; 24][..], &[21], &[0; 37]].concat()),
    ] {
        assert!(refused(&bytes, Side::Server), "{bytes:x?}");
    }
    let whole = number(0x04, 0x4000);
    for len in 1..whole.len() {
        assert!(refused(&whole[..len], Side::Client));
    }
}

#[test]
fn an_address_of_zeros_is_none_rfc_9000_section_18_2() {
    let value = [&[0; 22][..], &[0, 80], b"\x02id", &[3; 16]].concat();
    let read = TransportParameters::parse(&parameter(0x0d, &value), Side::Server).unwrap();
    let address = read.preferred_address.unwrap();
    assert_eq!((address.v4, address.v6), (None, None));
    assert_eq!(
        (address.id, address.reset_token),
        (id(b"id"), ResetToken::new([3; 16]))
    );
}

#[test]
fn ids_are_those_of_the_packets_rfc_9000_section_7_3() {
    let (original, source, retry) = (id(b"original"), id(b"source"), id(b"retry"));
    let told = TransportParameters {
        original_destination: Some(original),
        initial_source: Some(source),
        ..TransportParameters::default()
    };
    let with_retry = TransportParameters {
        retry_source: Some(retry),
        ..told.clone()
    };
    assert!(told.check_client_id(&source).is_ok());
    assert!(told.check_client_id(&retry).is_err());
    assert!(
        TransportParameters::default()
            .check_client_id(&ConnectionId::EMPTY)
            .is_err()
    );
    assert!(told.check_server_ids(&original, &source, None).is_ok());
    assert!(
        with_retry
            .check_server_ids(&original, &source, Some(&retry))
            .is_ok()
    );
    for (told, original, source, retry) in [
        (&told, &retry, &source, None),
        (&told, &original, &original, None),
        (&told, &original, &source, Some(&retry)),
        (&with_retry, &original, &source, None),
        (&with_retry, &original, &source, Some(&source)),
    ] {
        let error = told.check_server_ids(original, source, retry).unwrap_err();
        assert_eq!(error.code, Code::TRANSPORT_PARAMETER_ERROR);
    }
}

#[test]
fn version_information_rfc_9368_sections_3_and_4() {
    let v1 = &1_u32.to_be_bytes()[..];
    let v2 = &Version::V2.to_wire().to_be_bytes()[..];
    let grease = &[0x1a, 0x2a, 0x3a, 0x4a][..];
    let read = |value: &[u8], sender| {
        TransportParameters::parse(&parameter(0x11, value), sender)
            .map(|parameters| parameters.version_information.unwrap())
    };
    let info = read(&[v1, grease, v2, v1, v2].concat(), Side::Client).unwrap();
    assert_eq!(
        info.available().collect::<Vec<_>>(),
        [Version::V2, Version::V1]
    );
    info.check_chosen(Version::V1).unwrap();
    let error = info.check_chosen(Version::V2).unwrap_err();
    assert_eq!(error.code, Code::VERSION_NEGOTIATION_ERROR);
    // A server need not offer what it uses, nor anything.
    for value in [v1.to_vec(), [v1, v2].concat()] {
        assert!(read(&value, Side::Server).is_ok());
        assert!(read(&value, Side::Client).is_err());
    }
    for value in [
        vec![],
        v1[..3].to_vec(),
        [v1, v1, &[0]].concat(),
        [&[0; 4], v1].concat(),
        [v1, v1, &[0; 4]].concat(),
    ] {
        let error = read(&value, Side::Client).unwrap_err();
        assert_eq!(error.code, Code::TRANSPORT_PARAMETER_ERROR, "{value:x?}");
    }
}

#[test]
fn what_is_kept_for_early_data_tells_of_any_other_limit_rfc_9000_section_7_4_1() {
    let kept = |parameters: &TransportParameters| {
        let mut kept = Vec::new();
        parameters.put_early_limits(&mut kept);
        kept
    };
    let before = every_one();
    let changes: [fn(&mut TransportParameters); 7] = [
        |now| now.active_connection_id_limit -= 1,
        |now| now.initial_max_data -= 1,
        |now| now.initial_max_stream_data_bidi_local -= 1,
        |now| now.initial_max_stream_data_bidi_remote -= 1,
        |now| now.initial_max_stream_data_uni -= 1,
        |now| now.initial_max_streams_bidi -= 1,
        |now| now.initial_max_streams_uni -= 1,
    ];
    for change in changes {
        let mut now = before.clone();
        change(&mut now);
        assert_ne!(kept(&now), kept(&before));
    }
    let other = TransportParameters {
        max_idle_timeout_ms: 1,
        disable_active_migration: false,
        ..before.clone()
    };
    assert_eq!(kept(&other), kept(&before));
}

proptest! {
    #[test]
    fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..100)) {
        crate::fuzz::parameters(&data);
    }

    /// Parameters that are nearly right.
    #[test]
    fn changed_parameters(
        sender in any::<u8>(),
        random in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut data = vec![sender];
        every_one().put(&mut data, random);
        for (place, byte) in changes {
            let place = place.index(data.len() - 1);
            data[1 + place] = byte;
        }
        crate::fuzz::parameters(&data);
    }

    /// Parameters of known numbers with any values.
    #[test]
    fn any_values(
        sender in any::<u8>(),
        values in prop::collection::vec((0..0x12_u64, prop::collection::vec(any::<u8>(), 0..9)), 0..8),
    ) {
        let mut data = vec![sender];
        for (id, value) in values {
            data.extend(parameter(id, &value));
        }
        crate::fuzz::parameters(&data);
    }
}
