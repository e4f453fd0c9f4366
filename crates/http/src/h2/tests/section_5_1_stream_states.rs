//! Section 5.1: states of streams; 5.1.1 identifiers; 5.1.2 concurrency; 5.4 errors.

use super::*;

#[test]
fn idle_streams_take_headers_and_priority_only() {
    for (bytes, name) in [
        (data_frame(5, b"x", true), "DATA"),
        (rst_stream(5, ErrorCode::CANCEL), "RST_STREAM"),
        (window_update(5, 1), "WINDOW_UPDATE"),
    ] {
        server(|end| {
            end.get(3);
            end.feed(&bytes);
            end.expect_fault(Fault::IdleStream(name));
        });
        client(|end| {
            end.open(true);
            end.feed(&bytes);
            end.out.drain(..end.out.len() - 17);
            end.expect_fault(Fault::IdleStream(name));
        });
    }
    server(|end| {
        end.feed(&frame(FrameType::Priority, 0, 5, &[0, 0, 0, 0, 1]));
        assert_eq!(end.fault, None);
    });
}

#[test]
fn after_end_stream_only_control_frames_come() {
    server(|end| {
        end.get(1);
        end.feed(&window_update(1, 10));
        end.feed(&frame(FrameType::Priority, 0, 1, &[0, 0, 0, 0, 1]));
        assert_eq!(end.fault, None);
        end.feed(&data_frame(1, b"x", true));
        let words = end.take_events();
        assert_eq!(
            words[1],
            "fault 1 STREAM_CLOSED frame after the end of the stream"
        );
        assert_eq!(end.sent_words(), ["RST_STREAM 1 STREAM_CLOSED"]);
    });
    server(|end| {
        end.get(1);
        end.headers(1, true, &[("x-trailer", "1")]);
        assert_eq!(end.sent_words(), ["RST_STREAM 1 STREAM_CLOSED"]);
        assert_eq!(end.connection.open_streams(), 0);
    });
}

#[test]
fn a_stream_both_sides_have_ended_is_closed() {
    for bytes in [data_frame(1, b"x", false), data_frame(1, b"", true)] {
        server(|end| {
            let stream = end.get(1);
            end.respond(stream, true);
            assert!(!end.connection.contains(stream));
            end.feed(&bytes);
            end.expect_fault(Fault::ClosedStream("DATA"));
        });
    }
    server(|end| {
        let stream = end.get(1);
        end.respond(stream, true);
        end.headers(1, true, GET);
        end.expect_fault(Fault::ClosedStream("HEADERS"));
    });
    server(|end| {
        let stream = end.get(1);
        end.respond(stream, true);
        // These may have been on their way.
        end.feed(&window_update(1, 10));
        end.feed(&rst_stream(1, ErrorCode::CANCEL));
        end.feed(&frame(FrameType::Priority, 0, 1, &[0, 0, 0, 0, 1]));
        assert_eq!(end.fault, None);
        assert_eq!(end.take_events(), ["request 1 GET / HTTP/2.0 end"]);
    });
}

#[test]
fn the_order_of_the_ends_does_not_matter() {
    server(|end| {
        let stream = end.post(1);
        end.respond(stream, true);
        assert!(end.connection.contains(stream));
        end.feed(&data_frame(1, b"late", true));
        assert!(!end.connection.contains(stream));
        let stream = end.post(3);
        end.feed(&data_frame(3, b"early", true));
        assert!(end.connection.contains(stream));
        end.respond(stream, true);
        assert!(!end.connection.contains(stream));
    });
}

#[test]
fn what_is_under_way_when_a_stream_is_reset_is_ignored() {
    server(|end| {
        let stream = end.post(1);
        end.connection
            .reset(stream, ErrorCode::CANCEL, &mut end.out);
        end.take_events();
        end.feed(&data_frame(1, b"on its way", false));
        end.headers(1, true, &[("x-trailer", "1")]);
        end.feed(&window_update(1, 10));
        end.feed(&rst_stream(1, ErrorCode::CANCEL));
        assert_eq!(end.fault, None);
        assert_eq!(end.take_events(), [""; 0]);
        assert_eq!(end.sent_words(), ["RST_STREAM 1 CANCEL"]);
        // And it is not taken for a new one, nor are the tables out of step.
        end.headers(3, true, &[GET, &[("x-trailer", "1")]].concat());
        assert_eq!(end.take_events(), ["request 3 GET / HTTP/2.0 end"]);
    });
}

#[test]
fn a_stream_may_be_reset_within_a_frame() {
    for cut in CUTS {
        let mut end = End::new(Role::Server, Arc::new(Settings::default()), cut);
        end.feed(PREFACE);
        end.feed(&settings_frame(&[]));
        let stream = end.post(1);
        let bytes = data_frame(1, &[1; 1000], true);
        end.feed(&bytes[..500]);
        end.connection
            .reset(stream, ErrorCode::CANCEL, &mut end.out);
        let before = end.take_events().len();
        end.feed(&bytes[500..]);
        end.get(3);
        assert_eq!(end.take_events(), ["request 3 GET / HTTP/2.0 end"]);
        assert!(before > 0);
        assert_eq!(end.fault, None);
    }
}

#[test]
fn identifiers_are_odd_and_rise() {
    server(|end| {
        end.headers(2, true, GET);
        end.expect_fault(Fault::StreamId);
    });
    server(|end| {
        end.get(5);
        end.get(9);
        end.headers(7, true, GET);
        end.expect_fault(Fault::StreamId);
    });
    client(|end| {
        end.open(true);
        end.headers(2, true, &[(":status", "200")]);
        end.out.drain(..end.out.len() - 17);
        end.expect_fault(Fault::IdleStream("HEADERS"));
    });
    client(|end| {
        let ids = [
            end.open(true).id(),
            end.open(false).id(),
            end.open(true).id(),
        ];
        assert_eq!(ids, [1, 3, 5]);
    });
}

#[test]
fn identifiers_run_out() {
    client(|end| {
        end.connection.last_stream = frame::MAX_STREAM_ID - 4;
        assert_eq!(end.open(true).id(), frame::MAX_STREAM_ID - 2);
        assert_eq!(end.open(true).id(), frame::MAX_STREAM_ID);
        assert!(!end.connection.can_open());
        let target = RequestTarget::new(b"GET", Scheme::Http, b"a", b"/").expect("valid");
        let error = end.connection.open(&target, [], true, &mut end.out);
        assert_eq!(error, Err(OpenError::Closing));
    });
}

#[test]
fn streams_above_the_limit_are_refused() {
    let settings = Settings {
        max_concurrent_streams: 2,
        ..Settings::default()
    };
    server_with(settings, |end| {
        let first = end.get(1);
        end.post(3);
        end.headers(5, true, GET);
        assert_eq!(end.sent_words(), ["RST_STREAM 5 REFUSED_STREAM"]);
        assert_eq!(end.connection.take_counters().streams_refused, 1);
        end.respond(first, true);
        end.get(7);
        let words = end.take_events();
        assert_eq!(
            words.last().map(String::as_str),
            Some("request 7 GET / HTTP/2.0 end")
        );
        assert_eq!(
            words[2],
            "fault 5 REFUSED_STREAM concurrent streams exceeded"
        );
    });
}

#[test]
fn a_client_keeps_to_the_limit_of_the_server() {
    client(|end| {
        end.feed(&settings_frame(&[(3, 2)]));
        let first = end.open(true);
        end.open(true);
        assert!(!end.connection.can_open());
        end.headers(1, true, &[(":status", "204")]);
        assert!(!end.connection.contains(first));
        assert!(end.connection.can_open());
        end.feed(&settings_frame(&[(3, 0)]));
        assert!(!end.connection.can_open());
    });
}

#[test]
fn operations_out_of_order_write_nothing() {
    server(|end| {
        let stream = end.get(1);
        end.sent();
        let connection = &mut end.connection;
        let out = &mut end.out;
        assert_eq!(
            connection.data(stream, 1, false, out),
            Err(SendError::Order)
        );
        let trailers = connection.send_trailers(stream, [], out);
        assert_eq!(trailers, Err(SendError::Order));
        let ok = crate::StatusCode::OK;
        connection
            .send_head(stream, ok, [], false, out)
            .expect("a head");
        out.clear();
        let second = connection.send_head(stream, ok, [], false, out);
        assert_eq!(second, Err(SendError::Order));
        let late = connection.send_interim(stream, crate::StatusCode(103), [], out);
        assert_eq!(late, Err(SendError::Order));
        assert_eq!(connection.data(stream, 0, false, out), Ok(()));
        assert_eq!(
            connection.data(stream, 70_000, false, out),
            Err(SendError::Window)
        );
        assert!(out.is_empty());
        connection.data(stream, 0, true, out).expect("the end");
        out.clear();
        assert_eq!(connection.data(stream, 0, true, out), Err(SendError::Gone));
        let gone = connection.send_head(stream, ok, [], true, out);
        assert_eq!(gone, Err(SendError::Gone));
        connection.reset(stream, ErrorCode::CANCEL, out);
        connection.offer(stream);
        connection.pause(stream);
        connection.release(stream, 5, out);
        connection.set_priority(stream, Priority::default());
        assert!(out.is_empty() && connection.next_data().is_none());
    });
}

#[test]
fn slots_are_dense_and_used_again() {
    server(|end| {
        let first = end.get(1);
        let second = end.get(3);
        assert_eq!((first.slot(), second.slot()), (0, 1));
        end.respond(first, true);
        let third = end.get(5);
        assert_eq!(third.slot(), 0);
        assert!(end.connection.contains(third) && !end.connection.contains(first));
    });
}
