//! RFC 9000 sections 2.2, 3.2, 3.5 and 4.5.

use super::*;

#[test]
fn a_request_in_one_frame_is_handed_over_as_it_lies_in_the_packet() {
    let mut streams = server();
    let packet = bytes(0..100);
    let mut calls = 0;
    streams
        .on_stream(request(0), 0, &packet, true, &mut |id, got, fin| {
            calls += 1;
            assert_eq!((id, fin), (request(0), true));
            assert_eq!(got.as_ptr_range(), packet.as_ptr_range());
            got.len()
        })
        .unwrap();
    assert_eq!(calls, 1);
    // The call stands for the event.
    assert_eq!(events(&mut streams), []);
    // A copy is ignored.
    let mut sink = |_: StreamId, _: &[u8], _: bool| unreachable!("nothing is new");
    let copy = streams.on_stream(request(0), 0, &packet, true, &mut sink);
    assert_eq!(copy, Ok(()));
}

#[test]
fn what_is_not_taken_is_offered_by_read() {
    let mut streams = server();
    let id = request(0);
    let half = &mut |_: StreamId, got: &[u8], _: bool| got.len() / 2;
    streams
        .on_stream(id, 0, &bytes(0..100), true, half)
        .unwrap();
    assert_eq!(events(&mut streams), []);
    assert_eq!(read(&mut streams, id), (bytes(50..100), true));
    assert_eq!(read(&mut streams, id), (vec![], false));
}

#[test]
fn bytes_out_of_order_wait_and_overlaps_are_handed_over_once() {
    let mut streams = server();
    let id = request(0);
    arrives(&mut streams, id, 60..100, true).unwrap();
    assert_eq!(events(&mut streams), [Event::Opened { id }]);
    arrives(&mut streams, id, 40..70, false).unwrap();
    assert_eq!(events(&mut streams), []);
    arrives(&mut streams, id, 0..50, false).unwrap();
    // The owner was asked, and took nothing: it knows.
    assert_eq!(events(&mut streams), []);
    assert_eq!(read(&mut streams, id), (bytes(0..100), true));
}

#[test]
fn an_end_without_bytes_is_told() {
    let mut streams = server();
    let id = request(0);
    let mut got = Vec::new();
    let mut sink = |_: StreamId, bytes: &[u8], fin| {
        got.push((bytes.len(), fin));
        bytes.len()
    };
    streams.on_stream(id, 0, &[1; 5], false, &mut sink).unwrap();
    streams.on_stream(id, 5, &[], true, &mut sink).unwrap();
    streams.on_stream(id, 5, &[], true, &mut sink).unwrap();
    assert_eq!(got, [(5, false), (0, true)]);
}

#[test]
fn lower_ids_are_opened_too_and_come_in_order_rfc_9000_section_3_2() {
    let mut streams = server();
    let mut direct = 0;
    for index in [2, 1, 3] {
        streams
            .on_stream(request(index), 0, b"x", true, &mut |_, got, _| {
                direct += 1;
                got.len()
            })
            .unwrap();
    }
    assert_eq!(direct, 0, "the owner does not know lower ones");
    let opened = (0..4).map(|i| Event::Opened { id: request(i) });
    let readable = [2, 1, 3].map(|i| Event::Readable { id: request(i) });
    let expected: Vec<_> = opened.chain(readable).collect();
    assert_eq!(events(&mut streams), expected);
    assert_eq!(read(&mut streams, request(3)), (b"x".to_vec(), true));
}

#[test]
fn a_final_size_does_not_change_rfc_9000_section_4_5() {
    let id = request(0);
    type Operation = fn(&mut Streams, StreamId) -> Result<(), Error>;
    let wrong: [Operation; 6] = [
        |s, id| arrives(s, id, 50..101, false),
        |s, id| arrives(s, id, 101..101, false),
        |s, id| arrives(s, id, 90..99, true),
        |s, id| arrives(s, id, 90..101, true),
        |s, id| s.on_reset_stream(id, 7, 99),
        |s, id| s.on_reset_stream(id, 7, 101),
    ];
    for step in wrong {
        let mut streams = server();
        arrives(&mut streams, id, 90..100, true).unwrap();
        assert_eq!(
            code_of(step(&mut streams, id)),
            Some(Code::FINAL_SIZE_ERROR)
        );
        let mut streams = server();
        streams.on_reset_stream(id, 7, 100).unwrap();
        assert_eq!(
            code_of(step(&mut streams, id)),
            Some(Code::FINAL_SIZE_ERROR)
        );
    }
    // Lower than what was sent.
    let mut streams = server();
    arrives(&mut streams, id, 0..100, false).unwrap();
    for step in [
        streams.on_reset_stream(id, 7, 99),
        arrives(&mut streams, id, 0..99, true),
    ] {
        assert_eq!(code_of(step), Some(Code::FINAL_SIZE_ERROR));
    }
    // The same again is no error.
    let mut streams = server();
    arrives(&mut streams, id, 90..100, true).unwrap();
    arrives(&mut streams, id, 90..100, true).unwrap();
    streams.on_reset_stream(id, 7, 100).unwrap();
    streams.on_reset_stream(id, 7, 100).unwrap();
}

#[test]
fn frames_for_parts_that_a_stream_lacks_rfc_9000_section_19() {
    let ours = StreamId::new(Side::Server, UNI, 0);
    let theirs = StreamId::new(Side::Client, UNI, 0);
    let unopened = StreamId::new(Side::Server, BIDI, 0);
    let mut streams = server();
    assert_eq!(streams.open(UNI), Some(ours));
    let state = Some(Code::STREAM_STATE_ERROR);
    for id in [ours, unopened] {
        assert_eq!(code_of(arrives(&mut streams, id, 0..1, false)), state);
        assert_eq!(code_of(streams.on_reset_stream(id, 0, 0)), state);
        assert_eq!(code_of(streams.on_stream_data_blocked(id)), state);
    }
    for id in [theirs, unopened] {
        assert_eq!(code_of(streams.on_stop_sending(id, 0)), state);
        assert_eq!(code_of(streams.on_max_stream_data(id, 0)), state);
    }
    assert_eq!(streams.on_stop_sending(ours, 0), Ok(()));
    assert_eq!(arrives(&mut streams, theirs, 0..1, false), Ok(()));
}

#[test]
fn any_frame_opens_a_stream_of_the_peer() {
    type Operation = fn(&mut Streams, StreamId) -> Result<(), Error>;
    let steps: [Operation; 5] = [
        |s, id| arrives(s, id, 0..0, false),
        |s, id| s.on_reset_stream(id, 7, 0),
        |s, id| s.on_stop_sending(id, 7),
        |s, id| s.on_max_stream_data(id, 7),
        |s, id| s.on_stream_data_blocked(id),
    ];
    for step in steps {
        let mut streams = server();
        step(&mut streams, request(1)).unwrap();
        let got = events(&mut streams);
        assert_eq!(got[..2], [0, 1].map(|i| Event::Opened { id: request(i) }));
        assert!(!streams.is_idle());
        let beyond = step(&mut streams, request(10));
        assert_eq!(code_of(beyond), Some(Code::STREAM_LIMIT_ERROR));
    }
}

#[test]
fn a_reset_is_told_and_drops_what_was_not_read() {
    let mut streams = server();
    let id = request(0);
    arrives(&mut streams, id, 0..1_500, false).unwrap();
    streams.on_reset_stream(id, 77, 2_000).unwrap();
    assert_eq!(events(&mut streams), [Event::Reset { id, code: 77 }]);
    assert_eq!(read(&mut streams, id), (vec![], false));
    // Later frames are ignored, RFC 9000 section 3.2.
    arrives(&mut streams, id, 1_500..2_000, true).unwrap();
    assert_eq!(events(&mut streams), []);
    // The owner has nothing to consume: all of the final size was given back (section 4.5).
    for index in 1..3 {
        streams.on_reset_stream(request(index), 1, 2_000).unwrap();
    }
    let max = Outgoing::MaxData { value: 16_000 };
    assert_eq!(frames(&mut streams, 100), [max]);
}

#[test]
fn stop_sending_is_sent_until_the_peer_is_done_rfc_9000_section_3_5() {
    let mut streams = server();
    let id = request(0);
    arrives(&mut streams, id, 0..10, false).unwrap();
    streams.stop_sending(id, 5);
    streams.stop_sending(id, 6);
    let stop = Outgoing::StopSending { id, code: 5 };
    assert_eq!(frames(&mut streams, 100), [stop]);
    streams.on_lost(stop.sent());
    assert_eq!(frames(&mut streams, 100), [stop]);
    // What comes is dropped.
    arrives(&mut streams, id, 10..20, false).unwrap();
    assert_eq!(events(&mut streams), []);
    assert_eq!(read(&mut streams, id), (vec![], false));
    streams.on_reset_stream(id, 5, 20).unwrap();
    streams.on_lost(stop.sent());
    assert_eq!(frames(&mut streams, 100), []);
    assert_eq!(events(&mut streams), []);
}

#[test]
fn the_window_of_the_connection_opens_for_what_nobody_reads() {
    let mut streams = server();
    for index in 0..4 {
        let id = request(index);
        arrives(&mut streams, id, 0..500, false).unwrap();
        streams.stop_sending(id, 5);
    }
    frames(&mut streams, 100);
    arrives(&mut streams, request(0), 1_500..2_000, false).unwrap();
    arrives(&mut streams, request(0), 500..1_500, false).unwrap();
    arrives(&mut streams, request(1), 500..500, true).unwrap();
    assert_eq!(frames(&mut streams, 100), []);
    streams.on_reset_stream(request(2), 5, 1_999).unwrap();
    assert_eq!(frames(&mut streams, 100), []);
    // 2,000 + 500 + 1,999 + 501 are half of the window.
    arrives(&mut streams, request(3), 500..501, false).unwrap();
    let max = Outgoing::MaxData { value: 15_000 };
    assert_eq!(frames(&mut streams, 100), [max]);
}

#[test]
fn a_stream_whose_size_is_known_is_not_stopped() {
    let mut streams = server();
    let id = request(0);
    arrives(&mut streams, id, 5..10, true).unwrap();
    streams.stop_sending(id, 5);
    assert_eq!(frames(&mut streams, 100), []);
    arrives(&mut streams, id, 0..5, false).unwrap();
    assert_eq!(events(&mut streams), [Event::Opened { id }]);
}

#[test]
fn frames_of_streams_that_are_over_are_ignored() {
    let mut streams = server();
    let id = request(0);
    streams.on_reset_stream(id, 1, 0).unwrap();
    streams.reset(id, 2);
    let [reset] = frames(&mut streams, 100)[..] else {
        panic!("one frame");
    };
    streams.on_acked(reset.sent());
    let expected = [
        Event::Opened { id },
        Event::Reset { id, code: 1 },
        Event::Closed { id },
    ];
    assert_eq!(events(&mut streams), expected);
    assert!(streams.is_idle());
    assert_eq!(streams.heap_bytes(), 0);
    arrives(&mut streams, id, 0..50, true).unwrap();
    streams.on_reset_stream(id, 1, 3).unwrap();
    streams.on_stop_sending(id, 3).unwrap();
    streams.on_max_stream_data(id, 1 << 40).unwrap();
    streams.on_stream_data_blocked(id).unwrap();
    streams.on_acked(reset.sent());
    streams.on_lost(reset.sent());
    assert!(!streams.write_up_to(id, 5, true));
    streams.set_priority(id, 0, true);
    streams.reset(id, 0);
    streams.stop_sending(id, 0);
    assert_eq!(events(&mut streams), []);
    assert_eq!(frames(&mut streams, 100), []);
}

#[test]
fn bytes_that_fill_a_gap_are_handed_over_and_those_behind_are_told_of() {
    let mut streams = server();
    let id = request(0);
    let mut got = Vec::new();
    let mut sink = |_: StreamId, bytes: &[u8], fin| {
        got.push((bytes.to_vec(), fin));
        bytes.len()
    };
    streams
        .on_stream(id, 0, &bytes(0..10), false, &mut sink)
        .unwrap();
    streams
        .on_stream(id, 30, &bytes(30..40), true, &mut sink)
        .unwrap();
    streams
        .on_stream(id, 5, &bytes(5..20), false, &mut sink)
        .unwrap();
    assert_eq!(events(&mut streams), []);
    let mut sink = |_: StreamId, bytes: &[u8], fin| {
        got.push((bytes.to_vec(), fin));
        bytes.len()
    };
    streams
        .on_stream(id, 20, &bytes(20..32), false, &mut sink)
        .unwrap();
    let expected = [0..10, 10..20, 20..32].map(|range| (bytes(range), false));
    assert_eq!(got, expected);
    assert_eq!(events(&mut streams), [Event::Readable { id }]);
    assert_eq!(read(&mut streams, id), (bytes(32..40), true));
}
