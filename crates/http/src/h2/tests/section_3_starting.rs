//! Section 3: how a connection begins.

use super::*;

fn new_server(cut: Cut) -> End {
    End::new(Role::Server, Arc::new(Settings::default()), cut)
}

#[test]
fn a_server_sends_its_settings_at_once() {
    let mut end = new_server(Cut::Whole);
    let frames = end.sent();
    assert_eq!(frames[0].kind, FrameType::Settings);
    let entries: Vec<(u16, u32)> = frames[0]
        .payload
        .as_chunks::<6>()
        .0
        .iter()
        .map(|&[a, b, c, d, e, f]| (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f])))
        .collect();
    // Streams, window, and that the priorities of RFC 7540 are not kept.
    assert_eq!(entries, [(3, 128), (4, 65_536), (9, 1)]);
    assert_eq!(frames[1].kind, FrameType::WindowUpdate);
    assert_eq!(frames[1].payload, ((1u32 << 20) - 65_535).to_be_bytes());
    assert_eq!(frames.len(), 2);
}

#[test]
fn a_client_forbids_pushes() {
    let mut end = End::new(Role::Client, Arc::new(Settings::default()), Cut::Whole);
    assert_eq!(end.out.drain(..24).as_slice(), PREFACE);
    let frames = end.sent();
    assert_eq!(frames[0].payload[..6], [0, 2, 0, 0, 0, 0]);
}

#[test]
fn the_preface_is_compared_as_it_comes() {
    for cut in CUTS {
        let mut end = new_server(cut);
        end.out.clear();
        end.feed(&PREFACE[..20]);
        assert_eq!(end.fault, None);
        end.feed(b"X");
        end.expect_fault(Fault::Preface);
    }
    // An HTTP/1 request is refused at its first byte that differs.
    let mut end = new_server(Cut::Bytes);
    end.out.clear();
    end.feed(b"GET / HTTP/1.1\r\n");
    end.expect_fault(Fault::Preface);
}

#[test]
fn the_first_frame_of_a_server_is_settings() {
    for first in [
        frame(FrameType::Ping, 0, 0, &[0; 8]),
        frame(FrameType::Settings, flag::ACK, 0, b""),
        frame(FrameType::Unknown, 0, 0, b"x"),
        window_update(0, 1),
    ] {
        for cut in CUTS {
            let settings = Arc::new(Settings::default());
            let mut end = End::new(Role::Client, settings, cut);
            end.out.clear();
            end.feed(&first);
            end.expect_fault(Fault::FirstFrame);
        }
    }
}

#[test]
fn clients_that_begin_with_another_frame_are_served() {
    for first in [
        frame(FrameType::Ping, 0, 0, &[0; 8]),
        frame(FrameType::Settings, flag::ACK, 0, b""),
        frame(FrameType::Unknown, 0, 0, b"x"),
        window_update(0, 1),
        Vec::new(),
    ] {
        for cut in CUTS {
            let mut end = new_server(cut);
            let block = end.block(GET);
            end.feed(PREFACE);
            end.feed(&first);
            end.feed(&frame(FrameType::Headers, 0x5, 1, &block));
            end.feed(&settings_frame(&[(3, 7)]));
            assert_eq!(end.fault, None);
            let events = end.take_events();
            assert_eq!(events, ["request 1 GET / HTTP/2.0 end", "settings"]);
        }
    }
}

#[test]
fn what_cannot_be_understood_is_no_beginning() {
    for cut in CUTS {
        let mut end = new_server(cut);
        end.out.clear();
        end.feed(PREFACE);
        end.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(end.fault.is_some());
    }
}

#[test]
fn settings_are_acknowledged_and_announced_once() {
    for cut in CUTS {
        let mut end = new_server(cut);
        end.out.clear();
        end.feed(PREFACE);
        end.feed(&settings_frame(&[(3, 7)]));
        end.feed(&settings_frame(&[(3, 8)]));
        assert_eq!(end.take_events(), ["settings"]);
        assert_eq!(end.sent_words(), ["SETTINGS ack", "SETTINGS ack"]);
    }
}

#[test]
fn requests_may_follow_the_preface_without_waiting() {
    for cut in CUTS {
        let mut end = new_server(cut);
        let block = end.block(GET);
        let mut input = PREFACE.to_vec();
        input.extend(settings_frame(&[]));
        input.extend(frame(FrameType::Headers, 0x5, 1, &block));
        end.feed(&input);
        assert_eq!(
            end.take_events(),
            ["settings", "request 1 GET / HTTP/2.0 end"]
        );
    }
}

#[test]
fn nothing_is_read_after_a_fault() {
    server(|end| {
        end.feed(&window_update(0, 0));
        end.expect_fault(Fault::ZeroIncrement);
        let more = frame(FrameType::Ping, 0, 0, &[0; 8]);
        let received = end.connection.receive(&more, end.now, &mut end.out);
        assert_eq!(received.err(), Some(Fault::ZeroIncrement));
        assert!(end.out.is_empty(), "GOAWAY was said already");
    });
}
