//! Sections 5.2 and 6.9: flow control of both directions, and how receive windows grow.

use super::*;
use crate::headers::Field;

fn offered(end: &mut End, id: u32) -> StreamRef {
    let stream = end.get(id);
    end.respond(stream, false);
    end.connection.offer(stream);
    stream
}

#[test]
fn data_keeps_to_the_windows_of_stream_and_connection() {
    server(|end| {
        let first = offered(end, 1);
        assert_eq!(
            end.send_granted(u32::MAX),
            [(1, 16_384), (1, 16_384), (1, 16_384), (1, 16_383)]
        );
        assert!(end.connection.is_blocked(first));
        // Both windows are used up.
        end.feed(&window_update(1, 10));
        assert_eq!(end.connection.next_data(), None);
        end.feed(&window_update(0, 4));
        assert_eq!(end.send_granted(u32::MAX), [(1, 4)]);
        end.feed(&window_update(0, 100));
        assert_eq!(end.send_granted(u32::MAX), [(1, 6)]);
        offered(end, 3);
        assert_eq!(end.send_granted(u32::MAX), [(3, 94)]);
        assert!(end.connection.is_blocked(first));
    });
}

#[test]
fn an_end_without_bytes_needs_no_window() {
    server(|end| {
        let stream = offered(end, 1);
        end.send_granted(u32::MAX);
        end.sent();
        end.connection
            .data(stream, 0, true, &mut end.out)
            .expect("no window is needed");
        assert_eq!(end.sent_words(), ["DATA 1 0 end"]);
        let other = offered(end, 3);
        end.sent();
        let fields = [Field::from_static("grpc-status", "0")];
        end.connection
            .send_trailers(other, fields, &mut end.out)
            .expect("trailers are not flow-controlled");
        assert_eq!(end.sent_words(), ["HEADERS 3 grpc-status: 0 end"]);
    });
}

#[test]
fn the_initial_window_changes_open_streams() {
    server(|end| {
        end.feed(&settings_frame(&[(4, 10)]));
        offered(end, 1);
        assert_eq!(end.send_granted(u32::MAX), [(1, 10)]);
        end.feed(&settings_frame(&[(4, 25)]));
        assert_eq!(end.send_granted(u32::MAX), [(1, 15)]);
    });
}

#[test]
fn a_window_may_be_negative() {
    // The example of section 6.9.2.
    server(|end| {
        let stream = offered(end, 1);
        assert_eq!(end.send_granted(60_000).len(), 4);
        end.feed(&settings_frame(&[(4, 16_384)]));
        assert!(end.connection.is_blocked(stream));
        let missing = 60_000 - 16_384;
        end.feed(&window_update(1, missing));
        assert_eq!(end.connection.next_data(), None);
        end.feed(&window_update(1, 5));
        assert_eq!(end.send_granted(u32::MAX), [(1, 5)]);
    });
}

#[test]
fn windows_beyond_2_31_are_errors() {
    server(|end| {
        end.feed(&window_update(0, 0x7fff_ffff));
        end.expect_fault(Fault::WindowOverflow);
    });
    server(|end| {
        offered(end, 1);
        end.sent();
        end.feed(&window_update(1, 0x7fff_ffff));
        assert_eq!(end.sent_words(), ["RST_STREAM 1 FLOW_CONTROL_ERROR"]);
        assert_eq!(end.fault, None);
        assert_eq!(end.connection.next_data(), None);
    });
    server(|end| {
        end.get(1);
        end.feed(&window_update(1, 1));
        end.sent();
        end.feed(&settings_frame(&[(4, 0x7fff_ffff)]));
        end.expect_fault(Fault::WindowOverflow);
    });
    server(|end| {
        end.feed(&window_update(0, 0x7fff_ffff - 65_535));
        assert_eq!(end.fault, None);
    });
}

#[test]
fn an_increment_of_zero_is_an_error() {
    server(|end| {
        end.get(1);
        end.feed(&window_update(1, 0));
        assert_eq!(end.sent_words(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
        end.feed(&window_update(0, 0));
        end.expect_fault(Fault::ZeroIncrement);
    });
}

#[test]
fn more_data_than_the_window_of_the_stream_resets_it() {
    let settings = Settings {
        stream_window_bytes: 100,
        ..Settings::default()
    };
    server_with(settings, |end| {
        end.post(1);
        end.feed(&data_frame(1, &[0; 100], false));
        assert_eq!(
            end.take_events(),
            ["request 1 POST / HTTP/2.0", "data 1 100"]
        );
        end.feed(&data_frame(1, &[0; 1], false));
        assert_eq!(end.sent_words(), ["RST_STREAM 1 FLOW_CONTROL_ERROR"]);
    });
}

#[test]
fn until_settings_are_acknowledged_the_default_window_holds() {
    for cut in CUTS {
        let settings = Settings {
            stream_window_bytes: 100,
            ..Settings::default()
        };
        let mut end = End::new(Role::Server, Arc::new(settings), cut);
        end.feed(PREFACE);
        end.feed(&settings_frame(&[]));
        end.post(1);
        end.feed(&data_frame(1, &[0; 1000], false));
        end.feed(&frame(FrameType::Settings, flag::ACK, 0, b""));
        end.sent();
        assert_eq!(end.fault, None);
        // From here on 900 bytes too many have come.
        end.feed(&data_frame(1, &[0; 1], false));
        assert_eq!(end.sent_words(), ["RST_STREAM 1 FLOW_CONTROL_ERROR"]);
    }
}

#[test]
fn more_data_than_the_window_of_the_connection_ends_it() {
    let settings = Settings {
        connection_window_bytes: 65_535,
        stream_window_bytes: 60_000,
        ..Settings::default()
    };
    server_with(settings, |end| {
        end.post(1);
        end.post(3);
        for _ in 0..3 {
            end.feed(&data_frame(1, &[0; 16_000], false));
        }
        end.feed(&data_frame(3, &[0; 16_000], false));
        assert_eq!(end.fault, None);
        end.feed(&data_frame(3, &[0; 2_000], false));
        end.expect_fault(Fault::ConnectionWindow);
    });
}

#[test]
fn padding_counts_and_comes_back_at_once() {
    let settings = Settings {
        stream_window_bytes: 1000,
        connection_window_bytes: 65_535,
        ..Settings::default()
    };
    server_with(settings, |end| {
        end.post(1);
        let mut payload = vec![200];
        payload.extend_from_slice(&[7; 10]);
        payload.extend_from_slice(&[0; 200]);
        for _ in 0..4 {
            end.feed(&frame(FrameType::Data, flag::PADDED, 1, &payload));
        }
        // Padding only: the window is restored although nothing was released.
        let words = end.sent_words();
        assert_eq!(words, ["WINDOW_UPDATE 1 603"]);
        assert_eq!(end.bodies[&1], [7; 40]);
        assert_eq!(end.connection.unreleased(end.last_request()), 40);
    });
}

#[test]
fn bytes_come_back_when_they_are_released() {
    let settings = Settings {
        stream_window_bytes: 1000,
        connection_window_bytes: 65_535,
        ..Settings::default()
    };
    server_with(settings, |end| {
        let stream = end.post(1);
        end.feed(&data_frame(1, &[0; 900], false));
        end.sent();
        end.connection.release(stream, 400, &mut end.out);
        assert_eq!(end.sent_words(), [""; 0], "not worth a frame");
        end.connection.release(stream, 300, &mut end.out);
        assert_eq!(end.sent_words(), ["WINDOW_UPDATE 1 700"]);
        // More than came is not given.
        end.connection.release(stream, 5000, &mut end.out);
        assert_eq!(end.connection.unreleased(stream), 0);
        end.feed(&data_frame(1, &[0; 800], false));
        assert_eq!(end.fault, None);
        end.feed(&data_frame(1, &[0; 101], false));
        assert_eq!(end.sent_words(), ["RST_STREAM 1 FLOW_CONTROL_ERROR"]);
    });
}

#[test]
fn what_a_closed_stream_held_returns_to_the_connection() {
    let settings = Settings {
        connection_window_bytes: 65_535,
        ..Settings::default()
    };
    server_with(settings, |end| {
        for index in 0..20 {
            let id = 1 + 2 * index;
            let stream = end.post(id);
            end.feed(&data_frame(id, &[0; 16_000], false));
            if index % 2 == 0 {
                end.connection
                    .reset(stream, ErrorCode::CANCEL, &mut end.out);
            } else {
                end.feed(&rst_stream(id, ErrorCode::CANCEL));
            }
            // Data for a stream that is gone as well.
            if index % 2 == 0 {
                end.feed(&data_frame(id, &[0; 16_000], false));
            }
        }
        assert_eq!(end.fault, None);
        let words = end.sent_words();
        assert!(
            words.iter().any(|word| word.starts_with("WINDOW_UPDATE 0")),
            "{words:?}"
        );
    });
}

#[test]
fn the_connection_gets_it_back_at_once_however_the_stream_ends() {
    // Nothing else may come that could bring an update along: a client whose window is closed
    // waits for it.
    let ends: [fn(&mut End, StreamRef); 5] = [
        |end, stream| end.feed(&rst_stream(stream.id(), ErrorCode::CANCEL)),
        |end, stream| end.feed(&window_update(stream.id(), 0)),
        |end, stream| {
            end.connection
                .reset(stream, ErrorCode::CANCEL, &mut end.out);
        },
        |end, stream| {
            end.feed(&data_frame(stream.id(), b"", true));
            end.respond(stream, true);
        },
        |end, stream| {
            end.feed(&data_frame(stream.id(), b"", true));
            end.respond(stream, false);
            end.connection
                .data(stream, 3, true, &mut end.out)
                .expect("windows are open");
            end.out.extend_from_slice(b"abc");
        },
    ];
    let settings = Settings {
        connection_window_bytes: 65_535,
        ..Settings::default()
    };
    for finish in ends {
        server_with(settings.clone(), |end| {
            let stream = end.post(1);
            for bytes in [16_000, 16_000, 16_000, 16_000, 1_535] {
                end.feed(&data_frame(1, &vec![0; bytes], false));
            }
            end.sent();
            finish(end, stream);
            let words = end.sent_words();
            let update = "WINDOW_UPDATE 0 65535".to_owned();
            assert!(words.contains(&update), "{words:?}");
            assert!(!end.connection.contains(stream));
        });
    }
}

/// Uploads at a given round trip and consumption; returns the stream's window at the end.
fn upload(round_trip: Duration, rounds: u32) -> u32 {
    let settings = Arc::new(Settings {
        max_stream_window_bytes: 1 << 20,
        ..Settings::default()
    });
    let mut end = End::new(Role::Server, settings, Cut::Whole);
    end.feed(PREFACE);
    end.feed(&settings_frame(&[]));
    end.now += round_trip;
    end.feed(&frame(FrameType::Settings, flag::ACK, 0, b""));
    assert_eq!(end.connection.round_trip(), Some(round_trip));
    let stream = end.post(1);
    let mut window = 65_536u32;
    end.sent();
    for _ in 0..rounds {
        // The peer fills the window, the application consumes it at once, and the update
        // takes a round trip.
        while window > 0 {
            let part = window.min(16_384);
            end.feed(&data_frame(1, &vec![0; part as usize], false));
            end.connection.release(stream, part as usize, &mut end.out);
            window -= part;
        }
        assert_eq!(end.fault, None);
        for sent in end.sent() {
            if sent.kind == FrameType::WindowUpdate && sent.stream == 1 {
                window += u32::from_be_bytes(sent.payload[..4].try_into().expect("four bytes"));
            }
        }
        end.connection.flushed();
        end.now += round_trip;
    }
    let found = end.connection.streams.get(stream).expect("open");
    found.receive_window.target()
}

#[test]
fn windows_grow_while_they_hold_the_peer_back() {
    assert_eq!(
        upload(Duration::from_millis(50), 12),
        1 << 20,
        "up to the bound"
    );
    assert!(upload(Duration::from_millis(50), 2) > 65_536);
}

#[test]
fn windows_do_not_grow_while_the_application_is_slow() {
    server(|end| {
        // A round trip of nothing was measured by the greeting.
        end.now += Duration::from_millis(5);
        let stream = end.post(1);
        for _ in 0..50 {
            end.feed(&data_frame(1, &[0; 16_384], false));
            end.now += Duration::from_millis(100);
            end.connection.release(stream, 16_384, &mut end.out);
        }
        let found = end.connection.streams.get(stream).expect("open");
        assert_eq!(found.receive_window.target(), 65_536);
    });
}

#[test]
fn the_round_trip_is_measured_while_bodies_come() {
    server(|end| {
        let stream = end.post(1);
        end.now += Duration::from_secs(2);
        for _ in 0..4 {
            end.feed(&data_frame(1, &[0; 16_384], false));
            end.connection.release(stream, 16_384, &mut end.out);
        }
        let pings: Vec<Frame> = end
            .sent()
            .into_iter()
            .filter(|frame| frame.kind == FrameType::Ping)
            .collect();
        assert_eq!(pings.len(), 1, "one at a time");
        end.now += Duration::from_millis(80);
        end.feed(&frame(FrameType::Ping, flag::ACK, 0, &pings[0].payload));
        // A quarter of it, as the first measurement was zero.
        assert_eq!(end.connection.round_trip(), Some(Duration::from_millis(20)));
    });
}

#[test]
fn no_update_for_a_stream_that_has_ended() {
    server(|end| {
        let stream = end.post(1);
        for index in 0..4 {
            end.feed(&data_frame(1, &[0; 16_000], index == 3));
        }
        end.sent();
        end.connection.release(stream, 64_000, &mut end.out);
        assert_eq!(end.sent_words(), [""; 0]);
    });
}
