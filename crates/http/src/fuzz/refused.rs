//! After an error, everything that follows must stay an error. A caller that overlooks one and
//! reads on must not find a message that an attacker has hidden after it.

use crate::fastcgi::RecordDecoder;
use crate::h1::{
    BodyDecoder, Limits, ParseState, ParsedResponse, RequestError, ResponseBodyDecoder,
    ResponseError, ResponseState, parse_request,
};
use crate::h2;
use std::time::Duration;

/// What a sender could append after an error, so that a decoder that reads on comes to an end.
const ENDINGS: [&[u8]; 6] = [
    b"",
    b"\n",
    b"\r\n",
    b"0\r\n\r\n",
    b"\r\n0\r\n\r\n",
    b"\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// What may follow an error: the rest of the input from each position near it, and the endings, at
/// once and byte by byte.
fn each_continuation(rest: &[u8], mut feed: impl FnMut(&[u8])) {
    feed(rest);
    feed(rest.get(1..).unwrap_or_default());
    for ending in ENDINGS {
        feed(ending);
        for byte in ending.chunks(1) {
            feed(byte);
        }
    }
}

pub(super) fn body(decoder: &mut BodyDecoder, rest: &[u8]) {
    each_continuation(rest, |bytes| {
        let again = decoder.decode(bytes);
        assert!(again.is_err(), "read on behind an error: {again:?}");
        assert!(!decoder.is_done(), "a body ended behind an error");
    });
}

pub(super) fn response_body(decoder: &mut ResponseBodyDecoder, rest: &[u8]) {
    each_continuation(rest, |bytes| {
        let again = decoder.decode(bytes);
        assert!(again.is_err(), "read on behind an error: {again:?}");
        assert!(!decoder.is_done(), "a body ended behind an error");
    });
    assert!(decoder.close().is_err(), "a body was complete");
}

pub(super) fn records(decoder: &mut RecordDecoder, rest: &[u8]) {
    each_continuation(rest, |bytes| {
        let again = decoder.decode(bytes);
        assert!(again.is_err(), "read on behind an error: {again:?}");
        assert!(!decoder.is_done(), "a response ended behind an error");
    });
}

/// A head that was refused when `input[..end]` had arrived.
pub(super) fn request(
    state: &mut ParseState,
    input: &[u8],
    end: usize,
    limits: &Limits,
    error: &RequestError,
) {
    each_head(input, end, |bytes| {
        let again = parse_request(bytes, state, limits);
        assert!(again.is_err(), "{again:?} behind {error:?}");
    });
}

/// The same for a response, whose dialect the caller knows.
pub(super) fn response(
    state: &mut ResponseState,
    input: &[u8],
    end: usize,
    parse: impl Fn(&[u8], &mut ResponseState) -> Result<ParsedResponse, ResponseError>,
) {
    each_head(input, end, |bytes| {
        let again = parse(bytes, state);
        assert!(again.is_err(), "{again:?} behind an error");
    });
}

/// The bytes again, more of them, all of them, and with the endings appended.
fn each_head(input: &[u8], end: usize, mut parse: impl FnMut(&[u8])) {
    parse(&input[..end]);
    parse(&input[..(end + 1).min(input.len())]);
    parse(input);
    for ending in ENDINGS {
        parse(&[input, ending].concat());
    }
}

/// An HTTP/2 connection that ended in a fault: it accepts no further frame and writes nothing more.
pub(super) fn connection(connection: &mut h2::Connection, rest: &[u8]) {
    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut written = Vec::new();
    for bytes in [rest, rest.get(1..).unwrap_or_default(), &PING, b""] {
        let again = connection.receive(bytes, Duration::from_secs(1), &mut written);
        if let Ok(received) = again {
            assert!(received.event.is_none(), "an event behind a fault");
        }
        assert!(connection.is_finished(), "a fault is the end");
    }
    assert!(written.is_empty(), "GOAWAY was the last: {written:?}");
}
