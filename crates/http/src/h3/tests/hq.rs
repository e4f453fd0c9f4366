//! HTTP/0.9 in the place of frames.

use super::*;
use crate::StatusCode;
use crate::headers::Field;

fn hq_with(settings: Settings) -> Connection {
    let mut server = Connection::new(Role::Server, Arc::new(settings), NOW);
    server.speak_hq();
    server
}

fn hq() -> Connection {
    hq_with(Settings::default())
}

/// What a new server says to a line.
fn line(text: &str) -> Result<Vec<String>, Code> {
    request(&mut hq(), 0, text.as_bytes())
}

fn words_of(text: &str) -> Result<Vec<String>, Code> {
    Ok(vec![text.to_owned()])
}

#[test]
fn a_line_is_a_request_and_a_body_its_response() {
    let mut server = hq();
    for channel in Channel::ALL {
        assert!(server.outgoing(channel).is_empty(), "{channel:?}");
    }
    assert_eq!(
        request(&mut server, 0, b"GET /a?b\r\n"),
        words_of("0 GET /a?b end")
    );
    let mut out = Vec::new();
    let fields = || [Field::from_static("server", "x")];
    server
        .send_interim(0, StatusCode::EARLY_HINTS, fields(), &mut out)
        .expect("an interim head");
    server
        .send_head(0, StatusCode::OK, fields(), false, &mut out)
        .expect("the first head");
    server.data(0, 5, false, &mut out).expect("behind it");
    out.extend_from_slice(b"alpha");
    server
        .send_trailers(0, fields(), &mut out)
        .expect("behind the body");
    assert_eq!(out, b"alpha");
    assert_eq!(server.open_streams(), 0);
    for channel in Channel::ALL {
        assert!(server.outgoing(channel).is_empty(), "{channel:?}");
    }
}

#[test]
fn lines_end_with_crlf_with_lf_or_with_the_stream() {
    for text in [
        "GET /a\r\n",
        "GET /a\n",
        "GET /a",
        "GET /a\r",
        "\r\nGET /a\r\n",
    ] {
        assert_eq!(line(text), words_of("0 GET /a end"), "{text:?}");
    }
    // The stream need not end.
    let mut server = hq();
    assert_eq!(opened(&mut server, 0), Ok(None));
    let received = receive(&mut server, 0, b"GET /a\r\nmore", false);
    assert_eq!(received, words_of("0 GET /a end"));
    assert!(server.is_receiving(0), "the client is told to stop");
    assert_eq!(receive(&mut server, 0, b"still more", true), Ok(vec![]));
    assert!(!server.is_receiving(0));
    // Nothing is lost or read twice when bytes come one at a time.
    let mut server = hq();
    assert_eq!(opened(&mut server, 4), Ok(None));
    let text = b"GET /pieces\r\n";
    for byte in &text[..text.len() - 1] {
        assert_eq!(receive(&mut server, 4, &[*byte], false), Ok(vec![]));
    }
    assert!(server.awaits_requests());
    assert_eq!(
        receive(&mut server, 4, b"\n", false),
        words_of("4 GET /pieces end")
    );
    assert!(!server.awaits_requests());
}

#[test]
fn what_is_no_line_of_http_0_9_is_refused() {
    for (text, status) in [
        ("POST /a\r\n", 400),
        ("get /a\r\n", 400),
        ("GET\r\n", 400),
        ("GET a\r\n", 400),
        ("GET /a b\r\n", 400),
        ("GET /a HTTP/0.9\r\n", 400),
        ("\0\x01\x02", 400),
        ("GET /a HTTP/1.0\r\n", 505),
        ("GET /a HTTP/1.1\r\n", 505),
        ("GET /a HTTP/1.1\r\nHost: a\r\n\r\n", 505),
        ("GET /a HTTP/1.1\r\n\r\n", 505),
        ("GET /a HTTP/3.0\r\n", 505),
    ] {
        let expected = words_of(&format!("0 refused {status} end"));
        assert_eq!(line(text), expected, "{text:?}");
    }
    for empty in ["", "\r\n\r\n"] {
        assert_eq!(
            line(empty),
            words_of("0 H3_REQUEST_INCOMPLETE"),
            "{empty:?}"
        );
    }
}

/// `large_client_header_buffers`, and what many lines that do not end may take together.
#[test]
fn lines_have_limits() {
    let mut settings = Settings::default();
    settings.head.large_buffer_bytes = 2000;
    let within = format!("GET /{}\r\n", "x".repeat(1990));
    let mut server = hq_with(settings.clone());
    let received = request(&mut server, 0, within.as_bytes()).expect("it goes on");
    assert!(received[0].starts_with("0 GET /xxx"), "{received:?}");
    let beyond = format!("GET /{}", "x".repeat(2000));
    for pieces in [1, 7, 3000] {
        let mut server = hq_with(settings.clone());
        assert_eq!(opened(&mut server, 0), Ok(None));
        let mut events = Vec::new();
        for piece in beyond.as_bytes().chunks(pieces) {
            events.extend(receive(&mut server, 0, piece, false).expect("it goes on"));
        }
        assert_eq!(events, ["0 refused 414 end"], "{pieces}");
        assert_eq!(server.held_bytes, 0);
    }
    settings.held_bytes = 3000;
    settings.max_concurrent_streams = 1000;
    let mut server = hq_with(settings);
    let mut outcome = Ok(vec![]);
    for number in 0..10 {
        assert_eq!(opened(&mut server, 4 * number), Ok(None));
        outcome = receive(&mut server, 4 * number, &within.as_bytes()[..900], false);
        if outcome.is_err() {
            break;
        }
    }
    assert_eq!(outcome, Err(Code::H3_EXCESSIVE_LOAD));
}

#[test]
fn lines_that_come_to_nothing_are_metered() {
    let mut server = hq();
    let mut requests = 0;
    let error = loop {
        match request(&mut server, 4 * requests, b"BAD\r\n") {
            Ok(_) => server.reset(4 * requests),
            Err(error) => break error,
        }
        requests += 1;
    };
    assert_eq!((error, requests), (Code::H3_EXCESSIVE_LOAD, 400));
}

#[test]
fn there_are_no_other_streams() {
    let mut server = hq();
    assert_eq!(
        opened(&mut server, CLIENT_CONTROL),
        Err(Code::H3_STREAM_CREATION_ERROR)
    );
}

/// Nobody is told of the end, but it is one.
#[test]
fn the_end_is_not_announced() {
    let mut server = hq();
    assert_eq!(
        request(&mut server, 0, b"GET /\r\n"),
        words_of("0 GET / end")
    );
    server.drain();
    assert!(server.outgoing(Channel::Control).is_empty());
    assert_eq!(opened(&mut server, 4), Ok(Some(Code::H3_REQUEST_REJECTED)));
}

#[test]
fn a_client_that_gives_up_leaves_nothing() {
    let mut server = hq();
    assert_eq!(opened(&mut server, 0), Ok(None));
    assert_eq!(receive(&mut server, 0, b"GET /ha", false), Ok(vec![]));
    assert!(server.held_bytes > 0);
    server.stream_reset(0, NOW).expect("one reset is allowed");
    server.reset(0);
    assert_eq!((server.held_bytes, server.open_streams()), (0, 0));
    for channel in Channel::ALL {
        assert!(server.outgoing(channel).is_empty(), "{channel:?}");
    }
}
