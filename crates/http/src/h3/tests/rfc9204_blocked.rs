//! Requests that wait for the peer's encoder (RFC 9204 section 2.1.2).

use super::*;

const ENCODER: u64 = 6;

/// A server, and a client's encoder with its instructions for a table.
fn server_and_encoder() -> (Connection, Encoder) {
    let mut server = server();
    assert_eq!(opened(&mut server, ENCODER), Ok(None));
    let mut encoder = Encoder::new(4096);
    encoder.peer_allows(4096, 16);
    (server, encoder)
}

/// A HEADERS frame that refers to an entry which is new.
fn headers_with(encoder: &mut Encoder, id: u64, value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut section = encoder.section(id, &mut out);
    for (name, value) in POST {
        section.field(name.as_bytes(), value.as_bytes());
    }
    section.field(b"vary", value.as_bytes());
    section.finish();
    assert_ne!(out[0], 0, "it refers to the table");
    raw_frame(1, &out)
}

fn instructions(encoder: &mut Encoder) -> Vec<u8> {
    let out = encoder.outgoing().to_vec();
    encoder.sent(out.len());
    out
}

#[test]
fn requests_wait_and_come_with_the_instructions() {
    let (mut server, mut encoder) = server_and_encoder();
    for id in [0, 4] {
        assert_eq!(opened(&mut server, id), Ok(None));
    }
    let first = headers_with(&mut encoder, 0, "first");
    let second = headers_with(&mut encoder, 4, "second");
    let body = data("body");
    assert_eq!(receive(&mut server, 0, &first, false), Ok(vec![]));
    // What follows is not consumed, as no memory is provided for it.
    let left = receive(&mut server, 0, &body, true);
    assert_eq!(left, Ok(vec!["6 bytes left".to_owned()]));
    assert_eq!(receive(&mut server, 4, &second, true), Ok(vec![]));
    assert!(server.is_blocked(0) && server.is_blocked(4));
    let events = receive(&mut server, ENCODER, &instructions(&mut encoder), false);
    let expected = ["0 POST / HTTP/3.0", "4 POST / HTTP/3.0 end"].map(str::to_owned);
    assert_eq!(events, Ok(expected.to_vec()));
    let events = receive(&mut server, 0, &body, true);
    assert_eq!(events, Ok(vec!["0 body end".to_owned()]));
    assert_eq!(server.outgoing(Channel::Decoder), b"\x03\x80\x84");
}

#[test]
fn trailers_wait_too() {
    let (mut server, mut encoder) = server_and_encoder();
    assert_eq!(opened(&mut server, 0), Ok(None));
    let mut out = Vec::new();
    let mut section = encoder.section(0, &mut out);
    section.field(b"vary", b"a");
    section.finish();
    let parts = [headers(&POST), data("body"), raw_frame(1, &out)].concat();
    let expected = ["0 POST / HTTP/3.0", "0 body"].map(str::to_owned);
    assert_eq!(receive(&mut server, 0, &parts, true), Ok(expected.to_vec()));
    let events = receive(&mut server, ENCODER, &instructions(&mut encoder), false);
    assert_eq!(events, Ok(vec!["0 trailers vary: a".to_owned()]));
    assert_eq!(receive(&mut server, 0, b"", true), Ok(vec![]));
}

#[test]
fn streams_that_are_given_up_wait_no_longer() {
    let (mut server, mut encoder) = server_and_encoder();
    for id in [0, 4] {
        assert_eq!(opened(&mut server, id), Ok(None));
        let bytes = headers_with(&mut encoder, id, "value");
        assert_eq!(receive(&mut server, id, &bytes, true), Ok(vec![]));
    }
    assert!(server.stream_reset(0, NOW).is_ok());
    server.reset(4);
    let events = receive(&mut server, ENCODER, &instructions(&mut encoder), false);
    assert_eq!(events, Ok(vec![]));
    // Section 2.2.2.2, and two entries have come, the other one of which is the authority.
    assert_eq!(server.outgoing(Channel::Decoder), b"\x03\x40\x44\x02");
}

#[test]
fn more_streams_than_announced_end_the_connection() {
    let (mut server, mut encoder) = server_and_encoder();
    encoder.peer_allows(4096, 100);
    let bytes = headers_with(&mut encoder, 0, "value");
    for number in 0..16 {
        let id = number * 4;
        assert_eq!(opened(&mut server, id), Ok(None));
        assert_eq!(receive(&mut server, id, &bytes, true), Ok(vec![]));
    }
    let error = request(&mut server, 64, &bytes);
    assert_eq!(error, Err(Code::QPACK_DECOMPRESSION_FAILED));
}

#[test]
fn errors_of_the_streams_end_the_connection() {
    let (mut server, _) = server_and_encoder();
    let error = receive(&mut server, ENCODER, b"\x02\x00", false);
    assert_eq!(error, Err(Code::QPACK_ENCODER_STREAM_ERROR));
    let mut server = super::server();
    assert_eq!(opened(&mut server, 6), Ok(None));
    let error = receive(&mut server, 6, b"\x03\x00", false);
    assert_eq!(error, Err(Code::QPACK_DECODER_STREAM_ERROR));
    let error = requested(&[raw_frame(1, b"")]);
    assert_eq!(error, Err(Code::QPACK_DECOMPRESSION_FAILED));
}
