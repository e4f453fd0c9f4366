//! Errors are final. Code that frames messages must not find a message in whatever follows a
//! malformed one. After an error every decoder returns that error, whatever it is given and however
//! that is split, even if it is not shown the invalid bytes again.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::Random;
use crate::cgi::{StatusLine, parse_cgi_response};
use crate::dubbo::{self, FrameDecoder, FrameError};
use crate::fastcgi::{self, FastCgiError, RecordDecoder};
use crate::h1::{
    BodyDecoder, BodyError, Framing, Limits, ParseState, Parsed, ParsedResponse, RequestError,
    ResponseBodyDecoder, ResponseBodyError, ResponseError, ResponseFraming, ResponseLimits,
    ResponseState, parse_request, parse_response,
};
use crate::h2::hpack::{self, Field, FieldLimits, FieldSink, HpackError, Note};
use crate::h2::{Connection, Fault, PREFACE, RequestTarget, Scheme, Settings};
use crate::proxy_protocol::{self, HeaderDecoder, ProxyProtocolError};

/// Cases for each decoder; [`LONG_CASES`] with `SEALANE_TEST_LONG=1`.
const CASES: u64 = 4_000;
const LONG_CASES: u64 = 1_000_000;

/// A decoder, and what a connection does with it: it goes on to the next message behind each.
trait Decode {
    type Error: Copy + PartialEq + Debug;

    /// Takes what has come.
    fn take(&mut self, piece: &[u8]) -> Result<(), Self::Error>;

    /// Throws away what has come and was not used.
    fn forget(&mut self) {}
}

impl Random {
    /// A message, perhaps, and then some of the words, one of them perhaps damaged.
    fn input(&mut self, good: &[u8], words: &[&[u8]]) -> Vec<u8> {
        let mut input = match self.below(2) {
            0 => Vec::new(),
            _ => good.to_vec(),
        };
        for _ in 0..self.below(12) {
            input.extend_from_slice(words[self.below(words.len())]);
        }
        if !input.is_empty() && self.below(3) == 0 {
            let at = self.below(input.len());
            input[at] = match self.below(2) {
                0 => input[at] ^ 1 << self.below(8),
                _ => self.next() as u8,
            };
        }
        input
    }

    /// Cuts it into pieces: single bytes, a few, or all of it.
    fn cut<'i>(&mut self, mut input: &'i [u8]) -> Vec<&'i [u8]> {
        let longest = [1, 4, 40, usize::MAX][self.below(4)].min(input.len().max(1));
        let mut pieces = Vec::new();
        while !input.is_empty() {
            let (piece, rest) = input.split_at((1 + self.below(longest)).min(input.len()));
            pieces.push(piece);
            input = rest;
        }
        pieces
    }
}

fn check<D: Decode>(good: &[u8], words: &[&[u8]], make: impl Fn() -> D) {
    assert_eq!(make().take(good), Ok(()), "a message that is right");
    let is_long = std::env::var_os("SEALANE_TEST_LONG").is_some_and(|value| value == "1");
    let cases = if is_long { LONG_CASES } else { CASES };
    let mut failed = 0;
    for seed in 0..cases {
        let mut random = Random(seed);
        let mut decoder = make();
        let input = random.input(good, words);
        let mut error = None;
        for piece in random.cut(&input) {
            match (decoder.take(piece), error) {
                (taken, None) => error = taken.err(),
                (again, Some(error)) => assert_eq!(again, Err(error), "seed {seed}"),
            }
        }
        let Some(error) = error else {
            continue;
        };
        failed += 1;
        let noise: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        let more = random.input(good, words);
        for follows in [&[], good, &more, &noise, good] {
            for piece in [&[][..]].into_iter().chain(random.cut(follows)) {
                assert_eq!(decoder.take(piece), Err(error), "seed {seed}");
            }
            decoder.forget();
        }
    }
    // Otherwise the above says nothing.
    println!("{failed} of {cases} inputs are refused");
    assert!(cases / 5 < failed && failed < cases, "{failed} of {cases}");
}

struct RequestBody(BodyDecoder);

impl RequestBody {
    fn new() -> RequestBody {
        RequestBody(BodyDecoder::new(Framing::Chunked))
    }
}

impl Decode for RequestBody {
    type Error = BodyError;

    fn take(&mut self, mut piece: &[u8]) -> Result<(), BodyError> {
        loop {
            let decoded = self.0.decode(piece)?;
            assert!(!decoded.done || self.0.error().is_none());
            piece = &piece[decoded.consumed..];
            if piece.is_empty() {
                return Ok(());
            }
            if decoded.done {
                *self = RequestBody::new();
            }
        }
    }
}

const CHUNKED: &[u8] = b"5;x=\"y\"\r\nhello\r\n1\r\nA\r\n0\r\nX-T: y\r\n\r\n";

const CHUNK_WORDS: &[&[u8]] = &[
    b"1\r\nA\r\n",
    b"2\r\nBC\r\n",
    b"0\r\n\r\n",
    b"0\r\nX: y\r\n\r\n",
    b"1Zffffffffffff\r\n",
    b"12Z",
    b"7fffffffffffffff\r\n",
    b"ffffffffffffffff\r\n",
    b"1;x\r\n",
    b"\r\n",
    b"\n",
    b"A",
    b"GET / HTTP/1.1\r\n\r\n",
];

#[test]
fn of_request_bodies() {
    check(CHUNKED, CHUNK_WORDS, RequestBody::new);
}

struct ResponseBody(ResponseBodyDecoder);

impl ResponseBody {
    fn new() -> ResponseBody {
        let decoder = ResponseBodyDecoder::new(ResponseFraming::Chunked);
        ResponseBody(decoder.keep_trailers())
    }
}

impl Decode for ResponseBody {
    type Error = ResponseBodyError;

    fn take(&mut self, mut piece: &[u8]) -> Result<(), ResponseBodyError> {
        loop {
            let decoded = match self.0.decode(piece) {
                Ok(decoded) => decoded,
                Err(error) => {
                    assert!(!self.0.is_done());
                    assert_eq!(self.0.close(), Err(error), "the end comes too late");
                    return Err(error);
                }
            };
            piece = &piece[decoded.consumed..];
            if piece.is_empty() {
                return Ok(());
            }
            if decoded.done {
                *self = ResponseBody::new();
            }
        }
    }
}

#[test]
fn of_response_bodies() {
    check(CHUNKED, CHUNK_WORDS, ResponseBody::new);
}

#[test]
fn of_response_bodies_that_were_cut() {
    for framing in [ResponseFraming::Length(5), ResponseFraming::Chunked] {
        let mut decoder = ResponseBodyDecoder::new(framing);
        assert_eq!(decoder.close(), Err(ResponseBodyError::ClosedEarly));
        for input in [&b"hello"[..], b"0\r\n\r\n", b""] {
            let again = decoder.decode(input).map(|decoded| decoded.done);
            assert_eq!(again, Err(ResponseBodyError::ClosedEarly));
            assert_eq!(decoder.close(), Err(ResponseBodyError::ClosedEarly));
            assert!(!decoder.is_done());
        }
    }
}

#[derive(Default)]
struct Requests {
    buffer: Vec<u8>,
    state: ParseState,
}

impl Decode for Requests {
    type Error = RequestError;

    fn take(&mut self, piece: &[u8]) -> Result<(), RequestError> {
        let limits = Limits {
            header_buffer_bytes: 200,
            large_buffer_bytes: 300,
            max_headers: 6,
            ..Limits::default()
        };
        self.buffer.extend_from_slice(piece);
        loop {
            match parse_request(&self.buffer, &mut self.state, &limits)? {
                Parsed::Incomplete => return Ok(()),
                Parsed::Complete(head) => drop(self.buffer.drain(..head.head_bytes)),
            }
        }
    }

    fn forget(&mut self) {
        self.buffer.clear();
    }
}

#[test]
fn of_request_heads() {
    let good = b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let words: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\nHost: b\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: b\r\n",
        b"Host: c\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: y\r\n",
        b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
        b"\r\n",
        b"\n",
        b"\0",
        b"GET ",
        b"/ HTTP/2.0\r\n",
    ];
    check(good, words, Requests::default);
}

/// The heads of origins, in each of their dialects.
struct Responses {
    buffer: Vec<u8>,
    state: ResponseState,
    status_line: Option<StatusLine>,
}

impl Responses {
    fn new(status_line: Option<StatusLine>) -> Responses {
        Responses {
            buffer: Vec::new(),
            state: ResponseState::default(),
            status_line,
        }
    }
}

impl Decode for Responses {
    type Error = ResponseError;

    fn take(&mut self, piece: &[u8]) -> Result<(), ResponseError> {
        let limits = ResponseLimits {
            max_head_bytes: 300,
            max_interim: 2,
        };
        self.buffer.extend_from_slice(piece);
        loop {
            let (buf, state) = (&self.buffer[..], &mut self.state);
            let parsed = match self.status_line {
                None => parse_response(buf, state, &limits),
                Some(line) => parse_cgi_response(buf, state, &limits, line),
            };
            match parsed? {
                ParsedResponse::Incomplete => return Ok(()),
                ParsedResponse::Complete(head) => drop(self.buffer.drain(..head.head_bytes)),
            }
        }
    }

    fn forget(&mut self) {
        self.buffer.clear();
    }
}

const RESPONSE_WORDS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"Status: 404 Not Found\r\n",
    b"Status: x\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: x\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"A: b\r\n",
    b"A : b\r\n",
    b" folded\r\n",
    b"\r\n",
    b"\n",
    b"\0",
    b"A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
];

#[test]
fn of_response_heads() {
    let good = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    check(good, RESPONSE_WORDS, || Responses::new(None));
}

#[test]
fn of_heads_by_scgi_and_uwsgi() {
    let good = b"Status: 200 OK\r\nContent-Length: 5\r\n\r\n";
    check(good, RESPONSE_WORDS, || {
        Responses::new(Some(StatusLine::Taken))
    });
}

#[test]
fn of_heads_by_fastcgi() {
    let good = b"Status: 200 OK\r\nContent-Length: 5\r\n\r\n";
    check(good, RESPONSE_WORDS, || {
        Responses::new(Some(StatusLine::Skipped))
    });
}

struct Records(RecordDecoder);

impl Decode for Records {
    type Error = FastCgiError;

    fn take(&mut self, mut piece: &[u8]) -> Result<(), FastCgiError> {
        loop {
            let decoded = self.0.decode(piece)?;
            piece = &piece[decoded.consumed..];
            if self.0.is_done() {
                self.0 = RecordDecoder::new();
            }
            if piece.is_empty() && decoded.event == fastcgi::Event::NeedMore {
                return Ok(());
            }
        }
    }
}

#[test]
fn of_fastcgi_records() {
    let good = b"\x01\x06\0\x01\0\x05\x03\0hello\0\0\0\x01\x06\0\x01\0\0\0\0\
        \x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0";
    let words: &[&[u8]] = &[
        b"\x01\x06\0\x01\0\x01\0\0A",
        b"\x01\x07\0\x01\0\x02\x01\0AB\0",
        b"\x01\x06\0\x01\0\0\0\0",
        b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0",
        b"\x02\x06\0\x01",
        b"\x01\x05\0\x01",
        b"\x01\x06\0\x02",
    ];
    check(good, words, || Records(RecordDecoder::new()));
}

struct DubboFrames(FrameDecoder);

impl Decode for DubboFrames {
    type Error = FrameError;

    fn take(&mut self, mut piece: &[u8]) -> Result<(), FrameError> {
        loop {
            let decoded = self.0.decode(piece)?;
            piece = &piece[decoded.consumed..];
            if decoded.event == dubbo::Event::NeedMore {
                return Ok(());
            }
        }
    }
}

#[test]
fn of_dubbo_frames() {
    let good = b"\xda\xbb\x02\x14\0\0\0\0\0\0\0\x01\0\0\0\x02\x91N";
    let words: &[&[u8]] = &[
        good,
        b"\xda\xbb\x22\x14\0\0\0\0\0\0\0\x02\0\0\0\x01N",
        b"\xda\xbb\xe2\0\0\0\0\0\0\0\0\x03\0\0\0\0",
        b"\xda\xbb\x02\x14\0\0\0\0\0\0\0\x04\x80\0\0\0",
        b"\xda\xbc",
        b"HTTP/1.1 200 OK\r\n",
    ];
    check(good, words, || DubboFrames(FrameDecoder::default()));
}

/// Each piece is a block.
struct Blocks(hpack::Decoder);

struct Nobody;

impl FieldSink for Nobody {
    fn field(&mut self, head: &mut Vec<u8>, _field: &Field) -> Note {
        head.clear();
        0
    }
}

impl Decode for Blocks {
    type Error = HpackError;

    fn take(&mut self, piece: &[u8]) -> Result<(), HpackError> {
        let limits = FieldLimits::default();
        self.0
            .decode(piece, &limits, &mut Vec::new(), &mut Nobody)
            .map(drop)
    }
}

#[test]
fn of_header_compression() {
    let good = b"\x82\x84\x86\x40\x01a\x01b\xbe\x00\x01c\x82\x1c\x7f";
    let words: &[&[u8]] = &[
        b"\x82",
        b"\xbe",
        b"\xff\x80\x01",
        b"\x40\x01x\x03yyy",
        b"\x00\x01x\x01y",
        b"\x20",
        b"\x3f\xe1\x1f",
        b"\x3f\xe1\xff\x03",
        b"\x80",
        b"\x00\x01x\x84\xff\xff\xff\xff",
        b"\x41\x05ab",
    ];
    check(good, words, || Blocks(hpack::Decoder::new()));
}

#[derive(Default)]
struct ProxyHeaders {
    buffer: Vec<u8>,
    decoder: HeaderDecoder,
}

impl Decode for ProxyHeaders {
    type Error = ProxyProtocolError;

    fn take(&mut self, piece: &[u8]) -> Result<(), ProxyProtocolError> {
        self.buffer.extend_from_slice(piece);
        loop {
            match self.decoder.decode(&self.buffer)? {
                proxy_protocol::Parsed::Incomplete => return Ok(()),
                proxy_protocol::Parsed::Complete(header) => {
                    self.buffer.drain(..header.header_bytes);
                }
            }
        }
    }

    fn forget(&mut self) {
        self.buffer.clear();
    }
}

#[test]
fn of_proxy_headers() {
    let good = b"PROXY TCP4 1.2.3.4 5.6.7.8 1234 443\r\n";
    let words: &[&[u8]] = &[
        b"PROXY UNKNOWN\r\n",
        b"PROXY TCP6 ::1 ::2 1 2\r\n",
        b"PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x20\x00\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08\0\x50\0\x51",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x01\x01",
        b"\r\n\r\n\0\r\nQUIT\n\x31",
        b"GET / HTTP/1.1\r\n",
        b"PROXY ",
    ];
    check(good, words, ProxyHeaders::default);
}

/// Either end of a connection; nothing is written after an error.
struct Peer {
    connection: Connection,
    input: Vec<u8>,
    out: Vec<u8>,
    fault: Option<Fault>,
}

impl Peer {
    fn server(settings: &Arc<Settings>) -> Peer {
        let mut out = Vec::new();
        let connection = Connection::server(settings.clone(), Duration::ZERO, &mut out);
        Peer::of(connection, out)
    }

    fn client(settings: &Arc<Settings>) -> Peer {
        let mut out = Vec::new();
        let mut connection = Connection::client(settings.clone(), Duration::ZERO, &mut out);
        let target = RequestTarget::new(b"GET", Scheme::Https, b"a", b"/").expect("a valid target");
        connection
            .open(&target, [], true, &mut out)
            .expect("the first stream");
        Peer::of(connection, out)
    }

    fn of(connection: Connection, out: Vec<u8>) -> Peer {
        Peer {
            connection,
            input: Vec::new(),
            out,
            fault: None,
        }
    }
}

impl Decode for Peer {
    type Error = Fault;

    fn take(&mut self, piece: &[u8]) -> Result<(), Fault> {
        self.input.extend_from_slice(piece);
        let mut at = 0;
        loop {
            let (now, written) = (Duration::ZERO, self.out.len());
            let received = self
                .connection
                .receive(&self.input[at..], now, &mut self.out);
            let received = match received {
                Ok(received) => received,
                Err(fault) => {
                    let is_new = self.fault.replace(fault).is_none();
                    assert_eq!(self.out.len() > written, is_new, "GOAWAY is said once");
                    assert!(self.connection.is_finished());
                    return Err(fault);
                }
            };
            at += received.consumed;
            if received.event.is_none() {
                self.input.drain(..at);
                return Ok(());
            }
        }
    }

    fn forget(&mut self) {
        self.input.clear();
    }
}

const FRAMES: &[&[u8]] = &[
    b"\0\0\0\x04\x01\0\0\0\0",
    b"\0\0\x08\x06\0\0\0\0\0roundtrp",
    b"\0\0\x05\0\0\0\0\0\x01hello",
    b"\0\0\x01\0\x01\0\0\0\x01!",
    b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x05",
    b"\0\0\x04\x08\0\0\0\0\0\0\0\0\0",
    b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    b"\0\0\x03\x01\x05\0\0\0\x03\x82\x84\x86",
    b"\0\0\x01\x01\x04\0\0\0\x01\x88",
    b"\0\0\x01\x01\x05\0\0\0\x07\xff",
    b"\0\0\x01\x01\0\0\0\0\x09\x82",
    b"\0\0\x01\x09\x04\0\0\0\x09\x84",
    b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\0\0\x02\x42\0\0\0\0\0??",
    b"\0\0\x05\x06\0\0\0\0\0short",
];

#[test]
fn of_http2_connections() {
    let settings = Arc::new(Settings::default());
    let good = [
        &PREFACE[..],
        b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0\
          \0\0\x06\x01\x05\0\0\0\x01\x82\x84\x87\x41\x01a",
    ];
    check(&good.concat(), FRAMES, || Peer::server(&settings));
}

#[test]
fn of_http2_connections_to_origins() {
    let settings = Arc::new(Settings::default());
    let good = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0\0\0\x01\x01\x04\0\0\0\x01\x88";
    check(good, FRAMES, || Peer::client(&settings));
}
