//! RFC 9000 sections 2.3, 3.1, 3.5, 4.1 and 13.3, and RFC 9218 section 10.

use super::*;

/// A server that the peer lets send without limit, with requests `0..requests`.
fn unlimited(requests: u64) -> Streams {
    let huge = Settings {
        max_streams_bidi: 10_000,
        ..settings()
    };
    let mut streams = Streams::new(Side::Server, &huge);
    let limits = PeerLimits {
        max_data: 1 << 40,
        max_stream_data_bidi_local: 1 << 40,
        ..PeerLimits::default()
    };
    streams.set_peer_limits(&limits).unwrap();
    if requests > 0 {
        streams
            .on_stream_data_blocked(request(requests - 1))
            .unwrap();
    }
    events(&mut streams);
    streams
}

/// Stream, offset, length and end of a frame with data.
fn data(frame: Outgoing) -> (u64, u64, u16, bool) {
    match frame {
        Outgoing::Stream {
            id,
            offset,
            len,
            fin,
            ..
        } => (id.index(), offset, len, fin),
        other => panic!("{other:?}"),
    }
}

fn all_data(streams: &mut Streams, room: usize) -> Vec<(u64, u64, u16, bool)> {
    frames(streams, room).into_iter().map(data).collect()
}

#[test]
fn a_response_is_asked_for_as_it_becomes_available() {
    let mut streams = unlimited(1);
    let id = request(0);
    assert!(!streams.has_pending());
    assert!(streams.write_up_to(id, 100, false));
    assert!(streams.has_pending());
    assert_eq!(all_data(&mut streams, 1_200), [(0, 0, 100, false)]);
    assert!(!streams.has_pending());
    assert!(streams.write_up_to(id, 100, false));
    assert!(streams.write_up_to(id, 50, false));
    assert!(!streams.has_pending());
    assert!(streams.write_up_to(id, 150, true));
    assert!(!streams.write_up_to(id, 200, true), "the end was told");
    assert_eq!(all_data(&mut streams, 1_200), [(0, 100, 50, true)]);
}

#[test]
fn an_end_alone_is_sent_even_without_credit() {
    let mut streams = server();
    let id = request(0);
    arrives(&mut streams, id, 0..0, true).unwrap();
    streams.write_up_to(id, 3_000, false);
    let sent = frames(&mut streams, 5_000);
    assert_eq!(data(sent[0]), (0, 0, 3_000, false));
    streams.write_up_to(id, 3_000, true);
    assert_eq!(all_data(&mut streams, 100), [(0, 3_000, 0, true)]);
}

#[test]
fn frames_fill_the_room() {
    for room in 40..70 {
        let mut streams = unlimited(1);
        streams.write_up_to(request(0), 10_000, true);
        let mut at = 0;
        while let Some(frame) = streams.next_frame(room) {
            let Outgoing::Stream {
                offset,
                len,
                last,
                fin,
                ..
            } = frame
            else {
                panic!("{frame:?}");
            };
            assert_eq!(offset, at);
            at += u64::from(len);
            assert!(fin || last && frame.encoded_len() == room, "{frame:?}");
            assert!(frame.encoded_len() <= room);
        }
        assert_eq!(at, 10_000);
    }
    // The length is there as soon as it fits.
    let mut streams = unlimited(2);
    for (room, last) in [(102, true), (103, true), (104, false), (200, false)] {
        let id = request(1);
        let before = streams.next_frame(0);
        assert_eq!(before, None);
        let start = streams.table.get(id).unwrap().send.as_ref().unwrap().sent();
        streams.write_up_to(id, start + 100, false);
        let overhead = if start == 0 { 0 } else { varint::len(start) };
        let frame = streams.next_frame(room + overhead).unwrap();
        assert_eq!(data(frame), (1, start, 100, false));
        assert!(
            matches!(frame, Outgoing::Stream { last: l, .. } if l == last),
            "{room}"
        );
    }
}

#[test]
fn small_remainders_of_a_packet_are_left() {
    let mut streams = unlimited(1);
    streams.write_up_to(request(0), 100, true);
    for room in 0..34 {
        assert_eq!(streams.next_frame(room), None);
        assert!(streams.has_pending());
    }
    assert_eq!(data(streams.next_frame(34).unwrap()).2, 32);
}

#[test]
fn the_prefix_that_arrived_is_told_to_the_owner() {
    let mut streams = unlimited(1);
    let id = request(0);
    streams.write_up_to(id, 3_000, true);
    let sent = frames(&mut streams, 1_003);
    assert_eq!(sent.len(), 4);
    let acknowledged = |up_to| Event::Acknowledged { id, up_to };
    streams.on_acked(sent[1].sent());
    streams.on_acked(sent[3].sent());
    assert_eq!(events(&mut streams), []);
    streams.on_acked(sent[0].sent());
    let (_, offset, len, _) = data(sent[1]);
    let up_to = offset + u64::from(len);
    assert_eq!(events(&mut streams), [acknowledged(up_to)]);
    streams.on_acked(sent[0].sent());
    assert_eq!(events(&mut streams), []);
    streams.on_acked(sent[2].sent());
    assert_eq!(events(&mut streams), [acknowledged(3_000)]);
    // The request is not over.
    assert!(!streams.is_idle());
    arrives(&mut streams, id, 0..10, true).unwrap();
    assert_eq!(events(&mut streams), []);
    assert_eq!(read(&mut streams, id), (bytes(0..10), true));
    assert_eq!(events(&mut streams), [Event::Closed { id }]);
    assert!(streams.is_idle());
}

#[test]
fn a_response_that_arrived_ends_the_stream_with_one_event() {
    let mut streams = server();
    let id = request(0);
    streams
        .on_stream(id, 0, b"GET", true, &mut |_, got, _| got.len())
        .unwrap();
    streams.write_up_to(id, 500, true);
    let sent = streams.next_frame(1_200).unwrap();
    streams.on_acked(sent.sent());
    assert_eq!(events(&mut streams), [Event::Closed { id }]);
    assert_eq!(streams.heap_bytes(), 0);
}

#[test]
fn what_is_lost_goes_before_new_data_rfc_9000_section_13_3() {
    let mut streams = unlimited(2);
    streams.write_up_to(request(1), 2_000, true);
    streams.set_priority(request(1), 7, false);
    let sent: Vec<_> = (0..4).map(|_| streams.next_frame(503).unwrap()).collect();
    streams.write_up_to(request(0), 100, true);
    streams.on_lost(sent[2].sent());
    streams.on_lost(sent[0].sent());
    // A copy arrived in the meantime.
    let (_, offset, len, _) = data(sent[2]);
    streams.on_acked(sent[2].sent());
    let again = all_data(&mut streams, 503);
    assert_eq!(again[0], data(sent[0]));
    assert_eq!(again[1], (0, 0, 100, true));
    assert!(
        again[2..]
            .iter()
            .all(|frame| frame.1 > offset + u64::from(len))
    );
}

#[test]
fn what_arrived_is_not_sent_again() {
    let mut streams = unlimited(1);
    let id = request(0);
    streams.write_up_to(id, 1_000, false);
    let range = |offset, len| Sent::Stream {
        id,
        offset,
        len,
        fin: false,
    };
    streams.next_frame(1_200).unwrap();
    for arrived in [range(0, 100), range(300, 100), range(600, 200)] {
        streams.on_acked(arrived);
    }
    streams.on_lost(range(0, 1_000));
    let missing = [
        (0, 100, 200, false),
        (0, 400, 200, false),
        (0, 800, 200, false),
    ];
    assert_eq!(all_data(&mut streams, 1_200), missing);
    streams.on_lost(range(350, 500));
    streams.on_acked(range(400, 150));
    let missing = [(0, 550, 50, false), (0, 800, 50, false)];
    assert_eq!(all_data(&mut streams, 1_200), missing);
}

#[test]
fn a_lost_end_is_sent_again() {
    let mut streams = unlimited(1);
    let id = request(0);
    streams.write_up_to(id, 100, true);
    let sent = streams.next_frame(1_200).unwrap();
    streams.on_lost(sent.sent());
    streams.on_lost(sent.sent());
    assert_eq!(all_data(&mut streams, 1_200), [(0, 0, 100, true)]);
    // The bytes arrive by one copy, the end by another.
    let part = Sent::Stream {
        id,
        offset: 0,
        len: 100,
        fin: false,
    };
    streams.on_acked(part);
    streams.on_lost(sent.sent());
    assert_eq!(all_data(&mut streams, 1_200), [(0, 100, 0, true)]);
    streams.on_acked(sent.sent());
    assert_eq!(
        events(&mut streams),
        [Event::Acknowledged { id, up_to: 100 }]
    );
    streams.on_lost(sent.sent());
    assert!(!streams.has_pending());
}

#[test]
fn a_reset_ends_sending_rfc_9000_section_3_1() {
    let mut streams = unlimited(1);
    let id = request(0);
    streams.write_up_to(id, 3_000, false);
    let sent = streams.next_frame(1_003).unwrap();
    streams.on_lost(sent.sent());
    streams.reset(id, 42);
    streams.reset(id, 43);
    assert!(!streams.write_up_to(id, 4_000, true));
    let reset = Outgoing::ResetStream {
        id,
        code: 42,
        final_size: u64::from(data(sent).2),
    };
    assert_eq!(frames(&mut streams, 1_200), [reset]);
    streams.on_lost(sent.sent());
    assert_eq!(frames(&mut streams, 1_200), []);
    streams.on_lost(reset.sent());
    assert_eq!(frames(&mut streams, 1_200), [reset]);
    streams.on_acked(sent.sent());
    streams.on_acked(reset.sent());
    streams.on_lost(reset.sent());
    assert_eq!(frames(&mut streams, 1_200), []);
    assert_eq!(events(&mut streams), []);
    streams.on_reset_stream(id, 0, 0).unwrap();
    let expected = [Event::Reset { id, code: 0 }, Event::Closed { id }];
    assert_eq!(events(&mut streams), expected);
}

#[test]
fn stop_sending_is_answered_by_a_reset_rfc_9000_section_3_5() {
    let mut streams = unlimited(2);
    let id = request(0);
    streams.write_up_to(id, 100, true);
    streams.on_stop_sending(id, 11).unwrap();
    streams.on_stop_sending(id, 12).unwrap();
    let reset = Outgoing::ResetStream {
        id,
        code: 11,
        final_size: 0,
    };
    assert_eq!(frames(&mut streams, 1_200), [reset]);
    assert_eq!(events(&mut streams), [Event::Stopped { id, code: 11 }]);
    // Nothing to stop when all has arrived ("Data Recvd").
    let id = request(1);
    streams.write_up_to(id, 100, true);
    let sent = streams.next_frame(1_200).unwrap();
    streams.on_acked(sent.sent());
    streams.on_stop_sending(id, 11).unwrap();
    assert_eq!(frames(&mut streams, 1_200), []);
    assert_eq!(
        events(&mut streams),
        [Event::Acknowledged { id, up_to: 100 }]
    );
}

#[test]
fn a_limit_that_blocks_is_told_once_rfc_9000_sections_19_12_and_19_13() {
    let mut streams = server();
    for index in 0..5 {
        arrives(&mut streams, request(index), 0..0, true).unwrap();
        streams.write_up_to(request(index), 4_000, true);
    }
    let sent = frames(&mut streams, 5_000);
    let id = request(0);
    let stream_blocked = Outgoing::StreamDataBlocked { id, value: 3_000 };
    let blocked = Outgoing::DataBlocked { value: 10_000 };
    assert!(sent.contains(&stream_blocked));
    assert_eq!(sent.last(), Some(&blocked));
    assert!(!streams.has_pending());
    streams.on_lost(stream_blocked.sent());
    streams.on_lost(blocked.sent());
    let again = frames(&mut streams, 5_000);
    assert_eq!(again, [stream_blocked, blocked]);
    // Not once the limits have grown.
    streams.on_max_stream_data(id, 3_500).unwrap();
    streams.on_max_data(10_200);
    streams.on_lost(stream_blocked.sent());
    streams.on_lost(blocked.sent());
    let more = frames(&mut streams, 5_000);
    assert_eq!(data(more[0]), (0, 3_000, 200, false));
    assert_eq!(more[1], Outgoing::DataBlocked { value: 10_200 });
    assert_eq!(more.len(), 2);
    // Smaller limits than before mean nothing.
    streams.on_max_data(5);
    streams.on_max_stream_data(id, 5).unwrap();
    assert!(!streams.has_pending());
}

#[test]
fn frames_that_do_not_fit_wait() {
    let mut streams = server();
    let id = request(0);
    arrives(&mut streams, id, 0..2_000, false).unwrap();
    streams.stop_sending(id, 1 << 40);
    streams.reset(id, 1 << 40);
    streams.on_reset_stream(request(1), 0, 2_000).unwrap();
    streams.on_reset_stream(request(2), 0, 2_000).unwrap();
    let mut got = Vec::new();
    for room in 0..40 {
        let sent = frames(&mut streams, room);
        got.extend(sent.iter().map(|frame| (room, frame.encoded_len())));
    }
    // MAX_DATA, RESET_STREAM, and STOP_SENDING behind it.
    assert_eq!(got, [(3, 3), (11, 11), (11, 10)]);
    assert!(!streams.has_pending());
}

#[test]
fn more_urgent_streams_go_first_rfc_9218_section_10() {
    let mut streams = unlimited(6);
    for (index, urgency) in [(0, 3), (1, 7), (2, 0), (3, 3), (4, 0), (5, 9)] {
        streams.set_priority(request(index), urgency, false);
        streams.write_up_to(request(index), 2_000, true);
    }
    let order: Vec<_> = all_data(&mut streams, 1_200).iter().map(|f| f.0).collect();
    assert_eq!(order, [2, 2, 4, 4, 0, 0, 3, 3, 1, 1, 5, 5]);
}

#[test]
fn incremental_streams_take_turns_rfc_9218_section_10() {
    let mut streams = unlimited(4);
    for index in [2, 0, 1] {
        streams.set_priority(request(index), 3, true);
        streams.write_up_to(request(index), 3_000, true);
    }
    let order: Vec<_> = all_data(&mut streams, 1_200).iter().map(|f| f.0).collect();
    assert_eq!(order, [2, 0, 1, 2, 0, 1, 2, 0, 1]);
    // Others of the same urgency share with them.
    let mut streams = unlimited(4);
    for index in 0..4 {
        streams.set_priority(request(index), 3, index > 1);
        streams.write_up_to(request(index), 3_000, true);
    }
    let order: Vec<_> = all_data(&mut streams, 1_200).iter().map(|f| f.0).collect();
    assert_eq!(order, [2, 0, 3, 0, 2, 0, 3, 1, 2, 1, 3, 1]);
}

#[test]
fn a_priority_changes_while_the_stream_is_sent() {
    let mut streams = unlimited(3);
    for index in 0..3 {
        streams.write_up_to(request(index), 2_000, true);
    }
    let mut order = vec![data(streams.next_frame(1_200).unwrap()).0];
    streams.set_priority(request(0), 5, false);
    streams.set_priority(request(2), 1, true);
    order.extend(all_data(&mut streams, 1_200).iter().map(|f| f.0));
    assert_eq!(order, [0, 2, 2, 1, 1, 0]);
}

#[test]
fn a_flood_of_priorities_and_resets_leaves_nothing_behind() {
    let mut streams = unlimited(100);
    for index in 0..100 {
        streams.write_up_to(request(index), 2_000, true);
    }
    for round in 0..10_000_u64 {
        let id = request(round % 100);
        streams.set_priority(id, (round % 8) as u8, round % 3 == 0);
        assert!(streams.schedule.entries() <= 2 * 100 + 65);
    }
    for index in 0..100 {
        if index % 2 == 0 {
            streams.reset(request(index), 0);
        }
    }
    let sent = frames(&mut streams, 3_000);
    let resets = |frame: &&Outgoing| matches!(frame, Outgoing::ResetStream { .. });
    assert_eq!(sent.iter().filter(resets).count(), 50);
    assert_eq!(sent.len(), 100);
    assert!(!streams.has_pending());
}

#[test]
fn nothing_new_is_sent_while_too_much_is_kept() {
    let mut streams = unlimited(2);
    streams.set_max_kept(1_000);
    for index in 0..2 {
        streams.write_up_to(request(index), 800, false);
    }
    let sent = frames(&mut streams, 300);
    assert!(!streams.has_pending());
    let len = |frame: &Outgoing| u64::from(data(*frame).2);
    assert_eq!(sent.iter().map(len).sum::<u64>(), 1_000);
    // Everything but the first frame arrives: the owner keeps as much as before.
    for frame in &sent[1..] {
        if data(*frame).0 == 0 {
            streams.on_acked(frame.sent());
        }
    }
    assert_eq!(frames(&mut streams, 300), []);
    streams.check_sums();
    // What is lost is sent again.
    streams.on_lost(sent[0].sent());
    assert!(streams.has_pending());
    assert_eq!(frames(&mut streams, 300).len(), 1);
    assert_eq!(frames(&mut streams, 300), []);
    streams.on_acked(sent[0].sent());
    streams.check_sums();
    assert!(streams.has_pending());
    let more: u64 = frames(&mut streams, 300).iter().map(len).sum();
    assert_eq!(more, 600, "all that is left");
    // Of a stream that was reset, nothing is kept.
    streams.write_up_to(request(1), 5_000, false);
    assert!(!frames(&mut streams, 300).is_empty());
    assert_eq!(frames(&mut streams, 300), []);
    streams.reset(request(1), 0);
    streams.check_sums();
    streams.write_up_to(request(0), 1_300, false);
    let after = frames(&mut streams, 300);
    assert!(matches!(after[0], Outgoing::ResetStream { .. }));
    assert!(after.len() > 1, "{after:?}");
}
