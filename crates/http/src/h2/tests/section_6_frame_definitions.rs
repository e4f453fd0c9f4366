//! Section 6: each type of frame. Flow control is tested with section 5.2, priorities with RFC
//! 9218.

use super::*;
use crate::headers::Field;

/// Frames whose header alone is wrong.
#[test]
fn wrong_lengths_and_streams() {
    let cases = [
        (
            frame(FrameType::Data, 0, 0, b"x"),
            Fault::WrongStream("DATA"),
        ),
        (
            frame(FrameType::Data, flag::PADDED, 1, b""),
            Fault::FrameSize("DATA"),
        ),
        (
            frame(FrameType::Headers, 0x5, 0, b"\x82"),
            Fault::WrongStream("HEADERS"),
        ),
        (
            frame(FrameType::Headers, 0x5 | flag::PADDED, 3, b""),
            Fault::FrameSize("HEADERS"),
        ),
        (
            frame(
                FrameType::Headers,
                0x5 | flag::PRIORITY,
                3,
                b"\x00\x00\x00\x00",
            ),
            Fault::FrameSize("HEADERS"),
        ),
        (
            frame(FrameType::Priority, 0, 0, &[0; 5]),
            Fault::WrongStream("PRIORITY"),
        ),
        (
            frame(FrameType::RstStream, 0, 0, &[0; 4]),
            Fault::WrongStream("RST_STREAM"),
        ),
        (
            frame(FrameType::RstStream, 0, 1, &[0; 5]),
            Fault::FrameSize("RST_STREAM"),
        ),
        (
            frame(FrameType::Settings, 0, 1, b""),
            Fault::WrongStream("SETTINGS"),
        ),
        (
            frame(FrameType::Settings, 0, 0, &[0; 5]),
            Fault::FrameSize("SETTINGS"),
        ),
        (
            frame(FrameType::Settings, flag::ACK, 0, &[0; 6]),
            Fault::FrameSize("SETTINGS"),
        ),
        (
            frame(FrameType::PushPromise, 0x4, 1, &[0, 0, 0, 2]),
            Fault::Push,
        ),
        (
            frame(FrameType::Ping, 0, 1, &[0; 8]),
            Fault::WrongStream("PING"),
        ),
        (
            frame(FrameType::Ping, 0, 0, &[0; 7]),
            Fault::FrameSize("PING"),
        ),
        (
            frame(FrameType::GoAway, 0, 1, &[0; 8]),
            Fault::WrongStream("GOAWAY"),
        ),
        (
            frame(FrameType::GoAway, 0, 0, &[0; 7]),
            Fault::FrameSize("GOAWAY"),
        ),
        (
            frame(FrameType::WindowUpdate, 0, 0, &[0; 3]),
            Fault::FrameSize("WINDOW_UPDATE"),
        ),
        (
            frame(FrameType::Continuation, 0, 0, b""),
            Fault::WrongStream("CONTINUATION"),
        ),
    ];
    for (bytes, fault) in cases {
        let run = |end: &mut End| {
            end.feed(&bytes);
            assert_eq!(end.fault, Some(fault), "{bytes:?}");
        };
        server(|end| {
            end.post(1);
            run(end);
        });
        client(|end| {
            end.open(true);
            end.out.clear();
            run(end);
        });
    }
}

#[test]
fn padding_is_taken_off_data_and_headers() {
    server(|end| {
        let mut payload = vec![3];
        payload.extend(end.block(POST));
        payload.extend([0; 3]);
        end.feed(&frame(FrameType::Headers, 0x4 | flag::PADDED, 1, &payload));
        end.feed(&frame(
            FrameType::Data,
            flag::PADDED,
            1,
            b"\x04body\0\0\0\0",
        ));
        end.feed(&frame(FrameType::Data, flag::PADDED, 1, b"\x02\0\0"));
        end.feed(&frame(FrameType::Data, 0x1 | flag::PADDED, 1, b"\x00!"));
        assert_eq!(
            end.take_events(),
            ["request 1 POST / HTTP/2.0", "data 1 5 end"]
        );
        assert_eq!(end.bodies[&1], b"body!");
    });
}

#[test]
fn an_end_may_come_with_padding_alone() {
    server(|end| {
        end.post(1);
        end.feed(&frame(FrameType::Data, 0x1 | flag::PADDED, 1, b"\x02\0\0"));
        end.get(3);
        let events = end.take_events();
        assert_eq!(
            events[1..],
            ["data 1 0 end", "request 3 GET / HTTP/2.0 end"]
        );
    });
}

#[test]
fn more_padding_than_payload() {
    for kind in [FrameType::Data, FrameType::Headers] {
        server(|end| {
            end.post(1);
            end.feed(&frame(kind, 0x4 | flag::PADDED, 1, b"\x05abcd"));
            end.expect_fault(Fault::Padding);
        });
    }
}

#[test]
fn priority_of_rfc_7540_is_checked_and_ignored() {
    server(|end| {
        // A PRIORITY frame of another length is an error of its stream.
        end.post(1);
        end.feed(&frame(FrameType::Priority, 0, 1, &[0; 4]));
        assert_eq!(end.sent_words(), ["RST_STREAM 1 FRAME_SIZE_ERROR"]);
        end.post(3);
        end.feed(&frame(FrameType::Priority, 0, 3, &[0x80, 0, 0, 3, 9]));
        assert_eq!(end.sent_words(), ["RST_STREAM 3 PROTOCOL_ERROR"]);
        // With the priority part, and with one that points at itself.
        let mut payload = vec![0x80, 0, 0, 1, 200];
        payload.extend(end.block(GET));
        end.feed(&frame(
            FrameType::Headers,
            0x5 | flag::PRIORITY,
            5,
            &payload,
        ));
        let mut payload = vec![0, 0, 0, 7, 200];
        payload.extend(end.block(GET));
        end.feed(&frame(
            FrameType::Headers,
            0x5 | flag::PRIORITY,
            7,
            &payload,
        ));
        assert_eq!(end.sent_words(), ["RST_STREAM 7 PROTOCOL_ERROR"]);
        let events = end.take_events();
        assert!(events.contains(&"request 5 GET / HTTP/2.0 end".into()));
        assert_eq!(
            end.connection.priority(end.last_request()),
            Some(Priority::default())
        );
    });
}

#[test]
fn resets_are_reported_once() {
    server(|end| {
        let stream = end.post(1);
        end.feed(&rst_stream(1, ErrorCode::CANCEL));
        end.feed(&rst_stream(1, ErrorCode::CANCEL));
        end.get(3);
        end.feed(&rst_stream(3, ErrorCode(0xabc)));
        let events = end.take_events();
        assert_eq!(events[1], "reset 1 CANCEL");
        assert_eq!(events[3..], ["reset 3 error 0xabc"]);
        assert!(!end.connection.contains(stream));
        assert_eq!(end.connection.take_counters().resets_received, 2);
        // An answer to a reset would be an answer to a reset.
        assert_eq!(end.sent_words(), [""; 0]);
    });
}

#[test]
fn settings_have_ranges() {
    for (entry, fault, code) in [
        ((2, 2), Fault::Setting(2), ErrorCode::PROTOCOL_ERROR),
        (
            (4, 0x8000_0000),
            Fault::Setting(4),
            ErrorCode::FLOW_CONTROL_ERROR,
        ),
        ((5, 16_383), Fault::Setting(5), ErrorCode::PROTOCOL_ERROR),
        (
            (5, 0x0100_0000),
            Fault::Setting(5),
            ErrorCode::PROTOCOL_ERROR,
        ),
        ((9, 2), Fault::Setting(9), ErrorCode::PROTOCOL_ERROR),
    ] {
        server(|end| {
            end.feed(&settings_frame(&[entry]));
            assert_eq!(fault.code(), code);
            end.expect_fault(fault);
        });
    }
    // A server may not allow what a client forbids.
    client(|end| {
        end.feed(&settings_frame(&[(2, 1)]));
        end.expect_fault(Fault::Setting(2));
    });
    server(|end| {
        end.feed(&settings_frame(&[
            (2, 1),
            (2, 0),
            (0x77, 9),
            (6, 1),
            (1, 0),
        ]));
        assert_eq!(end.sent_words(), ["SETTINGS ack"]);
    });
}

#[test]
fn the_priority_scheme_does_not_change_later() {
    // RFC 9218 section 2.1.
    server(|end| {
        end.feed(&settings_frame(&[(9, 0)]));
        assert_eq!(end.fault, None);
        end.feed(&settings_frame(&[(9, 1)]));
        end.expect_fault(Fault::Setting(9));
    });
}

#[test]
fn the_header_table_of_the_peer_is_obeyed() {
    server(|end| {
        end.feed(&settings_frame(&[(1, 0)]));
        for id in [1, 3, 5] {
            let stream = end.get(id);
            end.sent();
            let fields = [Field::from_static("x-same", "value")];
            end.connection
                .send_head(stream, crate::StatusCode::OK, fields, true, &mut end.out)
                .expect("a head");
            let block = end.sent().remove(0).payload;
            if id == 1 {
                assert_eq!(block[0], 0x20, "the table's new size, zero, comes first");
                end.decoder.set_limit(0);
            }
            let text = end.fields(&block);
            assert_eq!(text, " :status: 200; x-same: value");
        }
    });
}

#[test]
fn settings_nobody_sent_are_not_acknowledged() {
    server(|end| {
        end.feed(&frame(FrameType::Settings, flag::ACK, 0, b""));
        end.expect_fault(Fault::SettingsAck);
    });
}

#[test]
fn pings_are_answered() {
    server(|end| {
        end.feed(&frame(FrameType::Ping, 0, 0, b"12345678"));
        let frames = end.sent();
        assert_eq!(frames.len(), 1);
        assert_eq!(
            (frames[0].flags, &frames[0].payload[..]),
            (flag::ACK, &b"12345678"[..])
        );
        // Our own, and one that nobody sent.
        end.connection.ping(&mut end.out);
        let ping = end.sent().remove(0).payload;
        end.feed(&frame(FrameType::Ping, flag::ACK, 0, b"whatever"));
        end.feed(&frame(FrameType::Ping, flag::ACK, 0, &ping));
        assert_eq!(end.take_events(), ["pong"]);
    });
}

#[test]
fn a_server_shuts_down_in_two_steps() {
    server(|end| {
        let first = end.get(1);
        end.sent();
        end.connection.shut_down(&mut end.out);
        end.connection.shut_down(&mut end.out);
        let frames = end.sent();
        let words: Vec<String> = frames.iter().map(|frame| end.words(frame)).collect();
        assert_eq!(words, ["GOAWAY 2147483647 NO_ERROR", "Ping"]);
        // What the client sent before it knew is still served.
        let second = end.get(3);
        end.feed(&frame(FrameType::Ping, flag::ACK, 0, &frames[1].payload));
        assert_eq!(end.sent_words(), ["GOAWAY 3 NO_ERROR"]);
        // And what it sends after is not.
        end.headers(5, true, GET);
        let events = end.take_events();
        assert_eq!(
            events.last().map(String::as_str),
            Some("request 3 GET / HTTP/2.0 end")
        );
        assert!(!end.connection.is_finished());
        end.feed(&data_frame(5, b"", true));
        end.respond(first, true);
        end.respond(second, true);
        assert!(end.connection.is_finished());
        assert_eq!(end.fault, None);
    });
}

#[test]
fn a_server_in_a_hurry_names_its_last_stream_at_once() {
    server(|end| {
        end.get(5);
        end.connection.shut_down(&mut end.out);
        end.connection.shut_down_now(&mut end.out);
        end.connection.shut_down_now(&mut end.out);
        let words = end.sent_words();
        assert_eq!(
            words,
            ["GOAWAY 2147483647 NO_ERROR", "Ping", "GOAWAY 5 NO_ERROR"]
        );
        end.connection
            .close(ErrorCode::INTERNAL_ERROR, &mut end.out);
        assert_eq!(end.sent_words(), ["GOAWAY 5 INTERNAL_ERROR"]);
        assert!(end.connection.is_finished());
    });
}

#[test]
fn a_client_learns_which_requests_were_not_processed() {
    client(|end| {
        let first = end.open(true);
        end.open(true);
        end.open(false);
        end.feed(&go_away(1, ErrorCode::NO_ERROR));
        assert_eq!(
            end.take_events(),
            [
                "goaway 1 NO_ERROR",
                "reset 3 REFUSED_STREAM unprocessed",
                "reset 5 REFUSED_STREAM unprocessed",
            ]
        );
        assert!(!end.connection.can_open() && !end.connection.is_finished());
        end.headers(1, true, &[(":status", "200")]);
        assert_eq!(end.take_events(), ["response 1 200 end"]);
        assert!(!end.connection.contains(first));
        assert!(end.connection.is_finished());
        end.feed(&go_away(3, ErrorCode::NO_ERROR));
        assert_eq!(end.fault, Some(Fault::GoAway));
    });
}

#[test]
fn a_graceful_goaway_takes_nothing_back() {
    client(|end| {
        end.open(true);
        end.feed(&go_away(0x7fff_ffff, ErrorCode::NO_ERROR));
        assert_eq!(end.take_events(), ["goaway 2147483647 NO_ERROR"]);
        assert_eq!(end.connection.open_streams(), 1);
        end.feed(&go_away(0, ErrorCode::ENHANCE_YOUR_CALM));
        let events = end.take_events();
        assert_eq!(events[1], "reset 1 REFUSED_STREAM unprocessed");
        assert!(end.connection.is_finished());
    });
}

#[test]
fn a_refused_stream_may_be_sent_again() {
    client(|end| {
        end.open(true);
        end.open(true);
        end.feed(&rst_stream(1, ErrorCode::REFUSED_STREAM));
        end.feed(&rst_stream(3, ErrorCode::INTERNAL_ERROR));
        assert_eq!(
            end.take_events(),
            [
                "reset 1 REFUSED_STREAM unprocessed",
                "reset 3 INTERNAL_ERROR"
            ]
        );
    });
}
