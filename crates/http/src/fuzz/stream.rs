//! Several requests on one connection, and whether each begins where it may.

use super::model;
use crate::h1::{BodyDecoder, Limits, ParseState, Parsed, parse_request};

/// The pieces that streams are built from, each selected by one byte of the program: whole heads,
/// lines that frame a body, chunks, and what breaks them.
const PIECES: [&[u8]; 64] = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: a\r\n",
    b"POST /b HTTP/1.0\r\nConnection: keep-alive\r\n",
    b"PUT /dav/a HTTP/1.1\r\nHost: a\r\n",
    b"GET /stolen HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /old\r\n",
    b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n",
    b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    b"GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n",
    b"Host: a\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 4\r\n",
    b"Content-Length : 5\r\n",
    b"Content-Length: +5\r\n",
    b"Content-Length: 5, 5\r\n",
    b"Content-Length: 0x5\r\n",
    b"Content-Length:\t5 \r\n",
    b"Content-Length: 18446744073709551616\r\n",
    b"Content_Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding:chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: \x0bchunked\r\n",
    b"Transfer-Encoding:\r\n chunked\r\n",
    b"Transfer-Encoding: CHUNKED\n",
    b"Transfer_Encoding: chunked\r\n",
    b" Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Connection: close, keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"X: y\r\n",
    b"X\r\n",
    b": y\r\n",
    b"X: \r y\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"5\r\nhello\r\n",
    b"5\r\nhello",
    b"5;a=b\r\nhello\r\n",
    b"5;a=\"\n\"\r\nhello\r\n",
    b"5 \r\nhello\r\n",
    b"5\nhello\n",
    b"5\r\nhello!\r\n",
    b"0005\r\nhello\r\n",
    b"0x5\r\nhello\r\n",
    b"7fffffffffffffff\r\n",
    b"10000000000000005\r\nhello\r\n",
    b"1a\r\n",
    b"0\r\n",
    b"0\r\n\r\n",
    b"00;x\r\n\r\n",
    b"0\r\nTrailer: x\r\n\r\n",
    b"0\r\nContent-Length: 9\n\r\n",
    b"hello",
];

/// Program bytes from here on give the number of literal bytes that follow.
const LITERAL: u8 = 0xe0;
/// Program bytes from here on mean that what precedes them arrives separately from what follows.
const CUT: u8 = 0xc0;

/// The stream that a program describes, and where it is split. A byte is a piece, a split, or the
/// length of a few literal bytes.
pub fn stream_of(program: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let (mut stream, mut cuts) = (Vec::new(), Vec::new());
    let mut rest = program.iter();
    while let Some(&step) = rest.next() {
        match step {
            LITERAL.. => stream.extend(rest.by_ref().take(usize::from(step - LITERAL) + 1)),
            CUT.. => cuts.push(stream.len()),
            _ => stream.extend_from_slice(PIECES[usize::from(step) % PIECES.len()]),
        }
    }
    cuts.push(stream.len());
    (stream, cuts)
}

/// Several requests on one connection. The first byte chooses limits, the rest is a program of
/// [`stream_of`].
///
/// A request never begins where RFC 9112 has none, neither in normal operation nor when a caller
/// that got an error reads on with the same decoder.
pub fn fuzz_stream(data: &[u8]) {
    let Some((&choice, program)) = data.split_first() else {
        return;
    };
    let (stream, cuts) = stream_of(program);
    let allowed = model::request_starts(&stream);
    let limits = Limits {
        ignore_invalid_headers: choice & 1 == 0,
        underscores_in_headers: choice & 2 != 0,
        ..Limits::default()
    };
    let found = requests_of(&stream, &cuts, &limits);
    for start in &found {
        assert!(
            allowed.contains(start),
            "a request begins at {start}, which may begin at {allowed:?}: {}",
            stream.escape_ascii()
        );
    }
    let whole = [stream.len()];
    assert_eq!(found, requests_of(&stream, &whole, &limits), "at once");
}

/// Where a connection finds complete heads. This reads like a server, except that it continues
/// after errors in bodies, where a server closes.
fn requests_of(stream: &[u8], cuts: &[usize], limits: &Limits) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut at, mut cut) = (0, cuts.iter());
    let Some(&(mut end)) = cut.next() else {
        return found;
    };
    loop {
        let mut state = ParseState::default();
        let head = loop {
            match parse_request(&stream[at..end], &mut state, limits) {
                Ok(Parsed::Complete(head)) => break head,
                Ok(Parsed::Incomplete) => {}
                Err(_) => return found,
            }
            match cut.next() {
                Some(&next) => end = next,
                None => return found,
            }
        };
        found.push(model::behind_empty_lines(stream, at));
        if !head.keep_alive {
            return found;
        }
        at += head.head_bytes;
        let mut decoder = BodyDecoder::new(head.framing);
        while !decoder.is_done() {
            if at == end {
                match cut.next() {
                    Some(&next) => end = next,
                    None => return found,
                }
                continue;
            }
            match decoder.decode(&stream[at..end]) {
                Ok(decoded) => at += decoded.consumed,
                // A decoder that is called again continues here, or at the next byte.
                Err(_) => at += 1,
            }
        }
    }
}
