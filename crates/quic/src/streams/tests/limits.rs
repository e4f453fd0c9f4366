//! RFC 9000 sections 4.1, 4.2, 4.6, 7.4.1 and 19.9 to 19.14.

use super::*;

#[test]
fn each_kind_of_stream_has_its_window_rfc_9000_section_4_1() {
    for (id, window) in [
        (request(0), 2_000),
        (StreamId::new(Side::Server, BIDI, 0), 3_000),
        (StreamId::new(Side::Client, UNI, 0), 1_000),
    ] {
        let mut streams = server();
        streams.open(BIDI).unwrap();
        arrives(&mut streams, id, 0..window, false).unwrap();
        let beyond = arrives(&mut streams, id, window..window + 1, false);
        assert_eq!(code_of(beyond), Some(Code::FLOW_CONTROL_ERROR));
        let mut streams = server();
        streams.open(BIDI).unwrap();
        let beyond = streams.on_reset_stream(id, 0, window + 1);
        assert_eq!(code_of(beyond), Some(Code::FLOW_CONTROL_ERROR));
    }
}

#[test]
fn all_streams_share_the_window_of_the_connection() {
    let mut streams = server();
    for index in 0..5 {
        arrives(&mut streams, request(index), 1_999..2_000, false).unwrap();
    }
    // What lies below was counted.
    arrives(&mut streams, request(0), 0..1_000, false).unwrap();
    assert_eq!(arrives(&mut streams, request(5), 0..0, false), Ok(()));
    for step in [
        arrives(&mut streams, request(5), 0..1, false),
        server_that_is_full().on_reset_stream(request(5), 0, 1),
    ] {
        assert_eq!(code_of(step), Some(Code::FLOW_CONTROL_ERROR));
    }
}

fn server_that_is_full() -> Streams {
    let mut streams = server();
    for index in 0..5 {
        arrives(&mut streams, request(index), 1_999..2_000, false).unwrap();
    }
    streams
}

#[test]
fn offsets_of_more_than_62_bits_rfc_9000_section_19_8() {
    let mut streams = server();
    for offset in [varint::MAX, u64::MAX] {
        let sink = &mut |_: StreamId, _: &[u8], _: bool| 0;
        let step = streams.on_stream(request(0), offset, b"x", false, sink);
        assert_eq!(code_of(step), Some(Code::FLOW_CONTROL_ERROR));
    }
}

#[test]
fn windows_open_when_half_is_consumed_rfc_9000_section_4_2() {
    let mut streams = server();
    let id = request(0);
    arrives(&mut streams, id, 0..2_000, false).unwrap();
    read(&mut streams, id);
    consume(&mut streams, id, 999);
    assert_eq!(frames(&mut streams, 100), []);
    consume(&mut streams, id, 1);
    let max = Outgoing::MaxStreamData { id, value: 3_000 };
    assert_eq!(frames(&mut streams, 100), [max]);
    arrives(&mut streams, id, 2_000..3_000, false).unwrap();
    // Lost, it is made again with the newest value; an old one is not.
    consume(&mut streams, id, 1_000);
    let newer = Outgoing::MaxStreamData { id, value: 4_000 };
    streams.on_lost(max.sent());
    assert_eq!(frames(&mut streams, 100), [newer]);
    streams.on_lost(max.sent());
    assert_eq!(frames(&mut streams, 100), []);
    streams.on_lost(newer.sent());
    assert_eq!(frames(&mut streams, 100), [newer]);
    // Not when the size is known.
    arrives(&mut streams, id, 3_000..3_000, true).unwrap();
    streams.on_lost(newer.sent());
    assert_eq!(frames(&mut streams, 100), []);
}

#[test]
fn the_window_of_the_connection_opens_also_for_streams_that_are_over() {
    let mut streams = server();
    for index in 0..3 {
        let id = request(index);
        arrives(&mut streams, id, 0..2_000, true).unwrap();
        assert_eq!(read(&mut streams, id).0.len(), 2_000);
        streams.reset(id, 0);
        let sent = streams.next_frame(100).unwrap().sent();
        streams.on_acked(sent);
        events(&mut streams);
    }
    assert!(streams.is_idle());
    consume(&mut streams, request(0), 4_999);
    assert_eq!(frames(&mut streams, 100), []);
    consume(&mut streams, request(1), 1);
    let max = Outgoing::MaxData { value: 15_000 };
    assert_eq!(frames(&mut streams, 100), [max]);
    streams.on_lost(max.sent());
    assert_eq!(frames(&mut streams, 100), [max]);
    // An owner cannot give back more than came.
    consume(&mut streams, request(1), 1_000_000);
    assert_eq!(frames(&mut streams, 100), []);
}

#[test]
fn more_streams_are_allowed_as_they_are_finished_rfc_9000_section_4_6() {
    let mut streams = server();
    let finish = |streams: &mut Streams, index| {
        let id = request(index);
        arrives(streams, id, 0..0, true).unwrap();
        events(streams);
        read(streams, id);
        streams.write_up_to(id, 0, true);
        let sent = frames(streams, 100);
        for frame in &sent {
            streams.on_acked(frame.sent());
        }
        let last = events(streams).last().copied();
        assert_eq!(last, Some(Event::Closed { id }));
    };
    for index in 0..4 {
        finish(&mut streams, index);
    }
    assert_eq!(frames(&mut streams, 100), []);
    assert_eq!(
        code_of(arrives(&mut streams, request(10), 0..0, false)),
        Some(Code::STREAM_LIMIT_ERROR)
    );
    finish(&mut streams, 4);
    let max = Outgoing::MaxStreams {
        direction: BIDI,
        value: 15,
    };
    assert_eq!(frames(&mut streams, 100), [max]);
    arrives(&mut streams, request(14), 0..0, false).unwrap();
    streams.on_lost(max.sent());
    assert_eq!(frames(&mut streams, 100), [max]);
}

#[test]
fn a_peer_that_has_no_streams_left_is_told_of_the_first_that_is_finished() {
    for (says_so, opened) in [(true, 10), (false, 10), (true, 9)] {
        let mut streams = server();
        for index in 0..opened {
            arrives(&mut streams, request(index), 0..0, false).unwrap();
        }
        events(&mut streams);
        if says_so {
            streams.on_streams_blocked(BIDI, 10).unwrap();
        }
        assert_eq!(frames(&mut streams, 100), [], "all are open");
        streams.on_reset_stream(request(0), 0, 0).unwrap();
        streams.reset(request(0), 0);
        let sent = streams.next_frame(100).unwrap().sent();
        streams.on_acked(sent);
        events(&mut streams);
        let max = Outgoing::MaxStreams {
            direction: BIDI,
            value: 11,
        };
        assert_eq!(frames(&mut streams, 100), [max], "{says_so} {opened}");
    }
}

#[test]
fn streams_that_are_not_read_leave_the_window_of_the_connection_to_others() {
    let mut streams = server();
    let take = |streams: &mut Streams, index, range| {
        arrives(streams, request(index), range, false).unwrap();
        let (got, _) = read(streams, request(index));
        consume(streams, request(index), got.len() as u64);
    };
    for index in 0..3 {
        arrives(&mut streams, request(index), 0..2_000, false).unwrap();
    }
    take(&mut streams, 3, 0..900);
    assert_eq!(frames(&mut streams, 100), [], "3,100 are left");
    take(&mut streams, 4, 0..900);
    assert_eq!(frames(&mut streams, 100), [], "2,200 are left");
    take(&mut streams, 5, 0..500);
    let max = Outgoing::MaxData { value: 12_300 };
    assert_eq!(frames(&mut streams, 100), [max], "1,700 are left");
    // Little at a time, unless the peer waits for it.
    arrives(&mut streams, request(6), 0..2_000, false).unwrap();
    arrives(&mut streams, request(7), 0..2_000, false).unwrap();
    consume(&mut streams, request(7), 5);
    assert_eq!(frames(&mut streams, 100), []);
    streams.on_data_blocked(12_299);
    assert_eq!(frames(&mut streams, 100), []);
    streams.on_data_blocked(12_300);
    let max = Outgoing::MaxData { value: 12_305 };
    assert_eq!(frames(&mut streams, 100), [max]);
    streams.on_data_blocked(12_305);
    assert_eq!(frames(&mut streams, 100), []);
    consume(&mut streams, request(7), 1);
    let max = Outgoing::MaxData { value: 12_306 };
    assert_eq!(frames(&mut streams, 100), [max]);
}

#[test]
fn the_owner_may_allow_fewer_streams() {
    let mut streams = server();
    streams.set_max_streams(BIDI, 0);
    // What was announced stays.
    for index in 0..10 {
        let id = request(index);
        streams.on_reset_stream(id, 0, 0).unwrap();
        streams.reset(id, 0);
    }
    for frame in frames(&mut streams, 100) {
        streams.on_acked(frame.sent());
    }
    events(&mut streams);
    streams.on_streams_blocked(BIDI, 10).unwrap();
    assert_eq!(frames(&mut streams, 100), []);
    streams.set_max_streams(BIDI, 3);
    let max = Outgoing::MaxStreams {
        direction: BIDI,
        value: 13,
    };
    assert_eq!(frames(&mut streams, 100), [max]);
}

#[test]
fn we_open_as_many_streams_as_the_peer_allows() {
    let mut streams = client();
    for index in 0..10 {
        assert_eq!(streams.open(BIDI), Some(request(index)));
    }
    assert_eq!(streams.open(BIDI), None);
    assert_eq!(streams.open(BIDI), None);
    let blocked = Outgoing::StreamsBlocked {
        direction: BIDI,
        value: 10,
    };
    assert_eq!(frames(&mut streams, 100), [blocked]);
    streams.on_lost(blocked.sent());
    assert_eq!(frames(&mut streams, 100), [blocked]);
    streams.on_max_streams(BIDI, 11).unwrap();
    streams.on_max_streams(BIDI, 5).unwrap();
    streams.on_lost(blocked.sent());
    assert_eq!(frames(&mut streams, 100), []);
    let available = Event::Available { direction: BIDI };
    assert_eq!(events(&mut streams), [available]);
    assert_eq!(streams.open(BIDI), Some(request(10)));
    assert_eq!(streams.open(BIDI), None);
}

#[test]
fn no_more_streams_than_ids_rfc_9000_sections_19_11_and_19_14() {
    let mut streams = client();
    let encoding = Some(Code::FRAME_ENCODING_ERROR);
    for direction in Direction::ALL {
        streams.on_max_streams(direction, 1 << 60).unwrap();
        streams.on_streams_blocked(direction, 1 << 60).unwrap();
        let value = (1 << 60) + 1;
        assert_eq!(code_of(streams.on_max_streams(direction, value)), encoding);
        let blocked = streams.on_streams_blocked(direction, value);
        assert_eq!(code_of(blocked), encoding);
    }
}

#[test]
fn limits_do_not_shrink_after_0_rtt_rfc_9000_section_7_4_1() {
    let remembered = limits_of(&settings());
    let lower: [fn(&mut PeerLimits); 6] = [
        |l| l.max_data -= 1,
        |l| l.max_stream_data_bidi_local -= 1,
        |l| l.max_stream_data_bidi_remote -= 1,
        |l| l.max_stream_data_uni -= 1,
        |l| l.max_streams_bidi -= 1,
        |l| l.max_streams_uni -= 1,
    ];
    for lower in lower {
        let mut streams = Streams::new(Side::Client, &settings());
        streams.remember_peer_limits(&remembered);
        let mut limits = remembered;
        lower(&mut limits);
        let step = streams.set_peer_limits(&limits);
        assert_eq!(code_of(step), Some(Code::PROTOCOL_VIOLATION));
        // They may when 0-RTT was rejected.
        streams.restart_sending();
        assert_eq!(streams.set_peer_limits(&limits), Ok(()));
    }
    let mut streams = Streams::new(Side::Client, &settings());
    streams.remember_peer_limits(&remembered);
    let id = streams.open(BIDI).unwrap();
    streams.write_up_to(id, 5_000, true);
    frames(&mut streams, 1_200);
    let more = PeerLimits {
        max_stream_data_bidi_remote: 4_000,
        ..remembered
    };
    assert_eq!(streams.set_peer_limits(&more), Ok(()));
    let more = frames(&mut streams, 3_000);
    assert!(matches!(
        more[0],
        Outgoing::Stream {
            id: _,
            offset: 2_000,
            len: 2_000,
            ..
        }
    ));
}

#[test]
fn all_is_sent_again_when_0_rtt_is_rejected() {
    let mut streams = Streams::new(Side::Client, &settings());
    assert_eq!(streams.open(BIDI), None);
    assert!(!streams.has_pending(), "there is no limit to be blocked by");
    streams.remember_peer_limits(&limits_of(&settings()));
    let ids: Vec<_> = (0..3).map(|_| streams.open(BIDI).unwrap()).collect();
    for id in &ids {
        streams.write_up_to(*id, 500, true);
    }
    let before = frames(&mut streams, 1_200);
    streams.reset(ids[1], 9);
    frames(&mut streams, 1_200);
    streams.restart_sending();
    assert!(!streams.has_pending());
    // There is room for two of the three, and for less of each.
    let limits = PeerLimits {
        max_data: 1_000,
        max_stream_data_bidi_remote: 400,
        max_streams_bidi: 2,
        ..PeerLimits::default()
    };
    streams.set_peer_limits(&limits).unwrap();
    let again = frames(&mut streams, 1_200);
    let stream = |index: usize, offset, len, fin| Outgoing::Stream {
        id: ids[index],
        offset,
        len,
        fin,
        last: false,
    };
    let reset = Outgoing::ResetStream {
        id: ids[1],
        code: 9,
        final_size: 0,
    };
    assert!(before.contains(&stream(0, 0, 500, true)));
    assert!(again.contains(&stream(0, 0, 400, false)), "{again:?}");
    assert!(again.contains(&reset), "{again:?}");
    let of_third = |frame: &Outgoing| matches!(*frame, Outgoing::Stream { id, .. } if id == ids[2]);
    assert!(!again.iter().any(of_third), "{again:?}");
    streams.on_max_streams(BIDI, 3).unwrap();
    let third = frames(&mut streams, 1_200);
    assert!(third.contains(&stream(2, 0, 400, false)), "{third:?}");
    // What the rejected packets had is of no interest.
    assert!(!streams.has_pending());
}
