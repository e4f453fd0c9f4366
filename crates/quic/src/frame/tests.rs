use super::*;
use crate::packet::PacketType::{self, Handshake, Initial, OneRtt, ZeroRtt};
use crate::{Code, Error, Side, varint};
use proptest::prelude::*;

fn read(payload: &[u8], packet_type: PacketType, receiver: Side) -> Result<Vec<Frame<'_>>, Error> {
    Frames::new(payload, packet_type, receiver).collect()
}

/// What a client reads from a 1-RTT packet.
fn frames(payload: &[u8]) -> Result<Vec<Frame<'_>>, Error> {
    read(payload, OneRtt, Side::Client)
}

fn refused(payload: &[u8]) -> (Code, u64) {
    let error = frames(payload).expect_err("frames that are to be refused");
    (error.code, error.frame_type)
}

fn new_id(sequence: u64, retire_prior_to: u64, id: &[u8]) -> Frame<'static> {
    Frame::NewConnectionId(NewConnectionId {
        sequence,
        retire_prior_to,
        id: ConnectionId::new(id).unwrap(),
        reset_token: ResetToken::new(*b"0123456789abcdef"),
    })
}

/// Every frame but ACK, its bytes, the letters of table 3, and "A" and "P" for those that are
/// ack-eliciting and probing.
fn examples() -> Vec<(Frame<'static>, Vec<u8>, &'static str)> {
    let of = |text: &[u8]| text.to_vec();
    let with_token = |front: &[u8]| [front, b"0123456789abcdef"].concat();
    vec![
        (Frame::Padding(3), of(&[0, 0, 0]), "IH01 P"),
        (Frame::Ping, of(&[1]), "IH01 A"),
        (
            Frame::ResetStream {
                id: 4,
                code: 0x100,
                final_size: 0x4000,
            },
            of(&[4, 4, 0x41, 0, 0x80, 0, 0x40, 0]),
            "01 A",
        ),
        (
            Frame::StopSending { id: 8, code: 1 },
            of(&[5, 8, 1]),
            "01 A",
        ),
        (
            Frame::Crypto {
                offset: 64,
                data: b"hello",
            },
            of(b"\x06\x40\x40\x05hello"),
            "IH1 A",
        ),
        (Frame::NewToken(b"token"), of(b"\x07\x05token"), "1 A"),
        (
            Frame::Stream {
                id: 0,
                offset: 0,
                data: b"",
                fin: true,
            },
            of(&[0x0b, 0, 0]),
            "01 A",
        ),
        (
            Frame::Stream {
                id: 3,
                offset: 9,
                data: b"data",
                fin: false,
            },
            of(b"\x0e\x03\x09\x04data"),
            "01 A",
        ),
        (Frame::MaxData(63), of(&[0x10, 63]), "01 A"),
        (
            Frame::MaxStreamData { id: 1, limit: 2 },
            of(&[0x11, 1, 2]),
            "01 A",
        ),
        (
            Frame::MaxStreams {
                bidirectional: true,
                limit: 1 << 60,
            },
            of(&[0x12, 0xd0, 0, 0, 0, 0, 0, 0, 0]),
            "01 A",
        ),
        (
            Frame::MaxStreams {
                bidirectional: false,
                limit: 5,
            },
            of(&[0x13, 5]),
            "01 A",
        ),
        (Frame::DataBlocked(7), of(&[0x14, 7]), "01 A"),
        (
            Frame::StreamDataBlocked { id: 1, limit: 2 },
            of(&[0x15, 1, 2]),
            "01 A",
        ),
        (
            Frame::StreamsBlocked {
                bidirectional: true,
                limit: 1,
            },
            of(&[0x16, 1]),
            "01 A",
        ),
        (
            Frame::StreamsBlocked {
                bidirectional: false,
                limit: 1 << 60,
            },
            of(&[0x17, 0xd0, 0, 0, 0, 0, 0, 0, 0]),
            "01 A",
        ),
        (
            new_id(2, 1, b"id"),
            with_token(b"\x18\x02\x01\x02id"),
            "01 AP",
        ),
        (Frame::RetireConnectionId(3), of(&[0x19, 3]), "1 A"),
        (
            Frame::PathChallenge(*b"12345678"),
            of(b"\x1a12345678"),
            "01 AP",
        ),
        (
            Frame::PathResponse(*b"12345678"),
            of(b"\x1b12345678"),
            "1 AP",
        ),
        (
            Frame::ConnectionClose {
                code: Code::FRAME_ENCODING_ERROR,
                frame_type: 6,
                reason: b"why",
            },
            of(b"\x1c\x07\x06\x03why"),
            "IH01",
        ),
        (
            Frame::ApplicationClose {
                code: 0x102,
                reason: b"why",
            },
            of(b"\x1d\x41\x02\x03why"),
            "01",
        ),
        (Frame::HandshakeDone, of(&[0x1e]), "1 A"),
    ]
}

#[test]
fn all_frames_are_read_and_written_rfc_9000_section_19() {
    let mut all = (Vec::new(), Vec::new());
    for (frame, bytes, flags) in examples() {
        assert_eq!(frames(&bytes), Ok(vec![frame]));
        let mut out = Vec::new();
        frame.put(&mut out);
        assert_eq!((&out, frame.encoded_len()), (&bytes, bytes.len()));
        assert_eq!(frame.is_ack_eliciting(), flags.contains('A'), "{frame:?}");
        assert_eq!(frame.is_probing(), flags.contains('P'), "{frame:?}");
        all.0.extend(bytes);
        all.1.push(frame);
    }
    assert_eq!(frames(&all.0), Ok(all.1));
}

#[test]
fn frames_come_in_their_packets_only_rfc_9000_table_3() {
    let ack = [
        (2, vec![2, 9, 0, 0, 0], "IH1"),
        (3, vec![3, 9, 0, 0, 0, 1, 2, 3], "IH1"),
    ];
    let others = examples()
        .into_iter()
        .map(|(_, bytes, flags)| (bytes[0], bytes, flags));
    for (frame_type, bytes, flags) in others.chain(ack) {
        for (packet_type, letter) in [
            (Initial, 'I'),
            (Handshake, 'H'),
            (ZeroRtt, '0'),
            (OneRtt, '1'),
        ] {
            let result = read(&bytes, packet_type, Side::Client);
            if flags.contains(letter) {
                assert!(result.is_ok(), "{frame_type:#x} in {packet_type:?}");
            } else {
                let error = result.expect_err("a frame that may not be there");
                let expected = (Code::PROTOCOL_VIOLATION, u64::from(frame_type));
                assert_eq!((error.code, error.frame_type), expected, "{packet_type:?}");
            }
        }
    }
}

#[test]
fn servers_are_not_sent_tokens_and_confirmations_rfc_9000_sections_19_7_and_19_20() {
    for payload in [&b"\x07\x01t"[..], &[0x1e]] {
        assert!(frames(payload).is_ok());
        let error = read(payload, OneRtt, Side::Server).expect_err("not for servers");
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
        assert_eq!(error.frame_type, u64::from(payload[0]));
    }
}

#[test]
fn a_packet_without_frames_is_a_violation_rfc_9000_section_12_4() {
    let mut frames = Frames::new(&[], Handshake, Side::Server);
    let error = frames.next().unwrap().expect_err("no frames");
    assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
    assert!(frames.next().is_none());
}

#[test]
fn types_have_their_shortest_encoding_rfc_9000_section_12_4() {
    assert_eq!(refused(&[0x40, 0x01]), (Code::PROTOCOL_VIOLATION, 1));
    assert_eq!(
        refused(&[0x80, 0, 0, 0x06, 0, 0]),
        (Code::PROTOCOL_VIOLATION, 6)
    );
}

#[test]
fn unknown_types_are_encoding_errors_rfc_9000_section_12_4() {
    assert_eq!(refused(&[0x1f]), (Code::FRAME_ENCODING_ERROR, 0x1f));
    assert_eq!(refused(&[0x40, 0x40]), (Code::FRAME_ENCODING_ERROR, 0x40));
    assert_eq!(refused(&[0x40]), (Code::FRAME_ENCODING_ERROR, 0));
}

#[test]
fn datagrams_were_not_negotiated_rfc_9221_section_3() {
    assert_eq!(refused(b"\x30data"), (Code::PROTOCOL_VIOLATION, 0x30));
    assert_eq!(refused(b"\x31\x04data"), (Code::PROTOCOL_VIOLATION, 0x31));
}

#[test]
fn frames_that_are_cut_short_are_encoding_errors() {
    for (_, bytes, _) in examples() {
        // Padding has no end.
        for len in 1..bytes.len() * usize::from(bytes[0] != 0) {
            let expected = (Code::FRAME_ENCODING_ERROR, u64::from(bytes[0]));
            assert_eq!(refused(&bytes[..len]), expected);
        }
    }
    let ack = [3, 9, 0, 1, 0, 0, 0, 1, 2, 3];
    assert!(frames(&ack).is_ok());
    for len in 1..ack.len() {
        assert_eq!(refused(&ack[..len]), (Code::FRAME_ENCODING_ERROR, 3));
    }
}

#[test]
fn nothing_is_read_behind_an_error() {
    let mut frames = Frames::new(&[1, 0x1f, 1], OneRtt, Side::Server);
    assert_eq!(frames.next(), Some(Ok(Frame::Ping)));
    assert!(frames.next().unwrap().is_err());
    assert!(frames.next().is_none() && frames.next().is_none());
}

#[test]
fn values_that_no_frame_may_have() {
    let mut beyond = varint::MAX.to_be_bytes();
    beyond[0] |= 0xc0;
    let encoding_error = |front: &[u8], back: &[u8]| {
        let payload = [front, back].concat();
        let expected = (Code::FRAME_ENCODING_ERROR, u64::from(front[0]));
        assert_eq!(refused(&payload), expected, "{payload:x?}");
    };
    // Offsets whose ends have more than 62 bits, sections 19.6 and 19.8.
    encoding_error(&[&[0x06][..], &beyond].concat(), b"\x01a");
    encoding_error(&[&[0x0e, 0][..], &beyond].concat(), b"\x01a");
    encoding_error(&[&[0x0c, 0][..], &beyond].concat(), b"a");
    assert!(frames(&[&[0x0c, 0][..], &beyond].concat()).is_ok());
    // An empty token, section 19.7.
    encoding_error(&[0x07], &[0]);
    // More than 2^60 streams, sections 19.11 and 19.14.
    for frame_type in [0x12, 0x13, 0x16, 0x17] {
        encoding_error(&[frame_type], &[0xd0, 0, 0, 0, 0, 0, 0, 1]);
    }
    // Ids of 0 and 21 bytes, and one that retires itself, section 19.15.
    encoding_error(&[0x18, 1, 0, 0], &[0; 16]);
    encoding_error(&[0x18, 1, 0, 21], &[0; 37]);
    encoding_error(&[0x18, 1, 2, 2], &[0; 18]);
    assert!(frames(&[&[0x18, 2, 2, 2][..], &[0; 18]].concat()).is_ok());
}

#[test]
fn a_stream_frame_without_a_length_reaches_to_the_end_rfc_9000_section_19_8() {
    for (bits, offset, fin) in [(0x08, 0, false), (0x09, 0, true), (0x0c, 5, false)] {
        let mut out = Vec::new();
        put_stream_header(&mut out, 4, offset, None, fin);
        assert_eq!(
            (out[0], out.len()),
            (bits, stream_header_len(4, offset, None))
        );
        out.extend_from_slice(b"\x01rest");
        let data = &b"\x01rest"[..];
        let expected = Frame::Stream {
            id: 4,
            offset,
            data,
            fin,
        };
        assert_eq!(frames(&out), Ok(vec![expected]));
    }
}

fn only_ack(payload: &[u8]) -> Ack<'_> {
    match frames(payload).unwrap()[..] {
        [Frame::Ack(ack)] => ack,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn ranges_of_acknowledgements_rfc_9000_section_19_3_1() {
    // 20..=21, then a gap of two, 16..=17, a gap of one, 14.
    let payload = [2, 21, 0x40, 0xff, 2, 1, 1, 1, 0, 0];
    let ack = only_ack(&payload);
    let ranges: Vec<_> = ack.ranges().collect();
    assert_eq!(ranges, [20..=21, 16..=17, 14..=14]);
    assert_eq!((ack.largest, ack.raw_delay, ack.ecn()), (21, 255, None));
    assert_eq!(ack.delay(3).as_micros(), 255 << 3);
    let mut out = Vec::new();
    assert_eq!(put_ack(&mut out, 100, ack.ranges(), ack.raw_delay, None), 3);
    assert_eq!(out, payload);
    let mut out = Vec::new();
    Frame::Ack(ack).put(&mut out);
    assert_eq!(out, payload);
}

#[test]
fn acknowledgements_below_packet_0_are_encoding_errors_rfc_9000_section_19_3_1() {
    for payload in [
        &[2, 0, 0, 0, 1][..],
        &[2, 3, 0, 1, 0, 2, 0],
        &[2, 3, 0, 1, 0, 1, 1],
        // More ranges than there are bytes.
        &[
            2, 63, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0,
        ],
    ] {
        assert_eq!(refused(payload), (Code::FRAME_ENCODING_ERROR, 2));
    }
    assert_eq!(
        only_ack(&[2, 3, 0, 1, 0, 1, 0]).ranges().last(),
        Some(0..=0)
    );
}

#[test]
fn delays_do_not_overflow() {
    let mut out = Vec::new();
    put_ack(&mut out, 100, [0..=0].into_iter(), u64::MAX, None);
    let ack = only_ack(&out);
    assert_eq!(ack.raw_delay, varint::MAX);
    for exponent in [20, 255] {
        assert_eq!(ack.delay(exponent).as_micros(), u128::from(varint::MAX));
    }
}

#[test]
fn an_acknowledgement_ends_where_the_room_ends() {
    let ranges: Vec<_> = (0..100).rev().map(|n| n * 1000..=n * 1000 + 5).collect();
    let ecn = Some(EcnCounts {
        ect0: 70,
        ect1: 0,
        ce: 1,
    });
    let mut before = 0;
    for room in 0..400 {
        let mut out = Vec::new();
        let count = put_ack(&mut out, room, ranges.iter().cloned(), 1, ecn);
        assert!(out.len() <= room && count >= before);
        assert_eq!(count == 0, out.is_empty());
        if count != 0 {
            let ack = only_ack(&out);
            assert_eq!(ack.ranges().collect::<Vec<_>>(), ranges[..count]);
            assert_eq!(ack.ecn(), ecn);
        }
        before = count;
    }
    assert_eq!(before, MAX_RANGES_SENT);
    assert_eq!(put_ack(&mut Vec::new(), 400, std::iter::empty(), 1, ecn), 0);
}

#[test]
fn reasons_are_cut_to_the_room_between_characters() {
    let reason = "ä".repeat(100);
    for room in 0..250 {
        for frame_type in [None, Some(6)] {
            let mut out = Vec::new();
            let was_put = put_close(&mut out, room, 0x0a, frame_type, &reason);
            assert_eq!(was_put, !out.is_empty());
            assert_eq!(was_put, room >= 3 + usize::from(frame_type.is_some()));
            if !was_put {
                continue;
            }
            assert!(out.len() <= room);
            let (Frame::ConnectionClose { reason: cut, .. }
            | Frame::ApplicationClose { reason: cut, .. }) = frames(&out).unwrap()[0]
            else {
                panic!("another frame");
            };
            assert!(reason.starts_with(str::from_utf8(cut).unwrap()));
            assert!(out.len() + 3 >= room || cut.len() == reason.len());
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..100)) {
        crate::fuzz::frames(&data);
    }

    /// Frames that are nearly right.
    #[test]
    fn changed_frames(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        choice in any::<u8>(),
    ) {
        let mut examples = examples().into_iter().map(|(_, bytes, _)| bytes).collect::<Vec<_>>();
        examples.push(vec![3, 21, 0x40, 0xff, 2, 1, 1, 1, 0, 0, 1, 2, 3]);
        let mut data: Vec<u8> = picks.iter().flat_map(|pick| pick.get(&examples).clone()).collect();
        for (place, byte) in changes {
            let place = place.index(data.len());
            data[place] = byte;
        }
        data.insert(0, choice);
        crate::fuzz::frames(&data);
    }

    /// Ranges as a receiver of packets has them.
    #[test]
    fn acknowledgements_arrive_as_they_were_sent(
        steps in prop::collection::vec((0_u64..1 << 40, 2_u64..1 << 40), 1..80),
        raw_delay in 0..=varint::MAX,
        counts in any::<Option<[u32; 3]>>(),
    ) {
        let mut next = 0;
        let mut ranges = Vec::new();
        for (len, gap) in steps {
            ranges.insert(0, next..=next + len);
            next += len + gap;
        }
        let ecn = counts.map(|[ect0, ect1, ce]| EcnCounts {
            ect0: ect0.into(),
            ect1: ect1.into(),
            ce: ce.into(),
        });
        let mut out = Vec::new();
        let count = put_ack(&mut out, 10_000, ranges.iter().cloned(), raw_delay, ecn);
        prop_assert_eq!(count, ranges.len().min(MAX_RANGES_SENT));
        let ack = only_ack(&out);
        prop_assert_eq!(ack.ranges().collect::<Vec<_>>(), &ranges[..count]);
        prop_assert_eq!((ack.raw_delay, ack.ecn()), (raw_delay, ecn));
    }
}
