//! Floods (section 10.5): each limit, and that honest traffic does not reach it.

use super::*;
use crate::StatusCode;
use crate::headers::Field;

const LOAD: Code = Code::H3_EXCESSIVE_LOAD;

/// How often `step` succeeds, which must end.
fn count(mut step: impl FnMut(u64) -> Result<(), Code>) -> u64 {
    for number in 0..10_000 {
        if let Err(code) = step(number) {
            assert_eq!(code, LOAD);
            return number;
        }
    }
    panic!("there is no limit");
}

fn respond(server: &mut Connection, id: u64) {
    let fields = [Field::from_static("server", "x")];
    server
        .send_head(id, StatusCode::OK, fields, true, &mut Vec::new())
        .expect("the first head");
}

/// CVE-2023-44487.
#[test]
fn requests_that_are_reset_are_counted() {
    let mut server = server();
    let resets = count(|number| {
        let id = number * 4;
        opened(&mut server, id)?;
        receive(&mut server, id, &headers(&GET), false)?;
        server.stream_reset(id, NOW).map_err(|error| error.code)?;
        server.reset(id);
        Ok(())
    });
    assert_eq!(resets, 400);
    let counted = server.take_counters();
    assert_eq!(counted.rapid_reset_floods, 1);
    assert_eq!(counted.resets_received, 401);
}

#[test]
fn responses_that_are_not_wanted_are_counted() {
    let mut server = server();
    let stopped = count(|number| {
        let id = number * 4;
        opened(&mut server, id)?;
        receive(&mut server, id, &headers(&GET), true)?;
        server.sending_stopped(id, NOW).map_err(|error| error.code)
    });
    assert_eq!(stopped, 400);
}

#[test]
fn malformed_requests_are_counted() {
    let mut server = server();
    let malformed = count(|number| {
        request(&mut server, number * 4, &headers(&[("a", "b")]))?;
        server.reset(number * 4);
        Ok(())
    });
    assert_eq!(malformed, 400);
}

#[test]
fn answered_requests_do_not_count() {
    let mut server = server();
    for number in 0..5000 {
        let id = number * 4;
        assert!(request(&mut server, id, &headers(&GET)).is_ok());
        respond(&mut server, id);
        // Reset behind the end, as some clients do.
        assert!(server.stream_reset(id, NOW).is_ok());
    }
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn more_requests_than_allowed_are_rejected() {
    let mut server = server_with(Settings {
        max_concurrent_streams: 2,
        ..Settings::default()
    });
    assert_eq!(opened(&mut server, 0), Ok(None));
    assert_eq!(opened(&mut server, 4), Ok(None));
    assert_eq!(opened(&mut server, 8), Ok(Some(Code::H3_REQUEST_REJECTED)));
    server.reset(0);
    assert_eq!(opened(&mut server, 12), Ok(None));
}

#[test]
fn frames_without_content_are_counted() {
    for frame in [data(""), raw_frame(0x21, b"x")] {
        let mut server = server();
        assert_eq!(opened(&mut server, 0), Ok(None));
        assert!(receive(&mut server, 0, &headers(&POST), false).is_ok());
        let empty = count(|_| receive(&mut server, 0, &frame, false).map(drop));
        assert_eq!(empty, 200);
        assert_eq!(server.take_counters().empty_frame_floods, 1);
    }
    for frame in [raw_frame(0x21, b""), numbers(0xd, &[0]), numbers(7, &[0])] {
        let mut server = server();
        assert_eq!(count(|_| control(&mut server, &frame).map(drop)), 200);
    }
    let mut client = client(&[(0, "GET")]);
    let interim = headers(&[(":status", "103")]);
    let empty = count(|_| receive(&mut client, 0, &interim, false).map(drop));
    assert!(empty <= 202);
}

#[test]
fn data_gives_back() {
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    assert!(receive(&mut server, 0, &headers(&POST), false).is_ok());
    for _ in 0..1000 {
        let parts = [data("a"), data("")].concat();
        assert!(receive(&mut server, 0, &parts, false).is_ok());
    }
}

#[test]
fn priorities_are_counted() {
    let mut server = server();
    let update = raw_frame(0xf0700, b"\x00u=1");
    assert_eq!(count(|_| control(&mut server, &update).map(drop)), 1000);
    assert_eq!(server.take_counters().priority_floods, 1);
}

#[test]
fn unidirectional_streams_are_counted() {
    let mut server = server();
    let streams = count(|number| {
        let id = 6 + number * 4;
        opened(&mut server, id)?;
        receive(&mut server, id, b"\x21", true).map(drop)
    });
    assert_eq!(streams, 31, "and the control stream");
    // They are limited at a time, too, whenever they come.
    let mut server = super::server();
    let streams = count(|number| {
        let now = NOW + Duration::from_secs(number * 100);
        let opened = server.opened(6 + number * 4, now);
        opened.map(drop).map_err(|error| error.code)
    });
    assert_eq!(streams, 63);
}

#[test]
fn large_heads_are_counted() {
    let mut server = server();
    let value = "x".repeat(100);
    let mut many = GET.to_vec();
    many.extend(std::iter::repeat_n(("a", value.as_str()), 400));
    let head = headers_as_written(&many);
    let large = count(|number| {
        let id = number * 4;
        request(&mut server, id, &head)?;
        respond(&mut server, id);
        Ok(())
    });
    assert_eq!(large, 20);
    assert_eq!(server.take_counters().header_bombs, 1);
}

/// A byte for each copy of an entry.
#[test]
fn what_is_written_into_the_table_is_counted() {
    let mut server = server();
    assert_eq!(opened(&mut server, 6), Ok(None));
    let start = b"\x02\x3f\xe1\x1f\x41a\x7f\xd1\x0e";
    let start = [&start[..], &[b'x'; 2000]].concat();
    assert!(receive(&mut server, 6, &start, false).is_ok());
    let duplicates = count(|_| receive(&mut server, 6, &[0], false).map(drop));
    assert_eq!(duplicates, (1 << 20) / 2033 - 1);
}

#[test]
fn acknowledgements_that_are_not_read_are_counted() {
    let mut server = server();
    let cancelled = count(|number| {
        let id = number * 4;
        opened(&mut server, id)?;
        server.reset(id);
        receive(&mut server, CLIENT_CONTROL, b"", false).map(drop)
    });
    assert!(cancelled > 4000);
    assert_eq!(server.take_counters().unread_reply_floods, 1);
}

#[test]
fn sections_that_are_not_complete_are_bounded() {
    let settings = Settings {
        max_concurrent_streams: 1000,
        ..Settings::default()
    };
    let mut server = server_with(settings);
    let mut part = Vec::new();
    frame::push_header(&mut part, 1, 10_000);
    part.extend([0; 9999]);
    let held = count(|number| {
        let id = number * 4;
        opened(&mut server, id)?;
        receive(&mut server, id, &part, false).map(drop)
    });
    assert_eq!(held, 26);
    // What is given up does not count.
    let mut server = super::server();
    for number in 0..100 {
        let id = number * 4;
        assert_eq!(opened(&mut server, id), Ok(None));
        assert_eq!(receive(&mut server, id, &part, false), Ok(vec![]));
        server.reset(id);
    }
}
