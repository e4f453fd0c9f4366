//! Prints the cost of the codec per message: `cargo run --release -p sealane-http --example speed`.
//!
//! Prints the best of several rounds, so that a busy machine has little effect. With an argument it
//! parses one request that many times and prints nothing, for `valgrind --tool=callgrind`; with a
//! second one, a response.

use std::hint::black_box;
use std::time::Instant;

use sealane_http::h1::{
    ConnectionHeader, Limits, ParseState, RequestEncoder, ResponseHead, ResponseLimits,
    ResponseState, Version, encode_response_head, parse_request, parse_response,
};
use sealane_http::headers::{Field, FieldValue, HeaderList, KnownHeader};
use sealane_http::outgoing::{MethodName, Target};
use sealane_http::{StatusCode, date, uri};

const WRK: &str = "GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8443\r\n\r\n";
const CURL: &str = "GET /index.html HTTP/1.1\r\nHost: localhost:8443\r\n\
    User-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n";
const BROWSER: &str = "GET /assets/app.3f2a1b.js?v=17 HTTP/1.1\r\nHost: www.example.com\r\n\
    Connection: keep-alive\r\nsec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 \
    (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\nsec-ch-ua-platform: \"Linux\"\r\n\
    Accept: */*\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\n\
    Sec-Fetch-Dest: script\r\nReferer: https://www.example.com/\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\
    If-None-Match: \"65f1a2b3-1a2b\"\r\nIf-Modified-Since: Wed, 13 Mar 2024 12:00:00 GMT\r\n\r\n";

/// Ten headers, as an application server sends them.
const RESPONSE: &str = "HTTP/1.1 200 OK\r\nServer: gunicorn\r\nDate: Wed, 13 Mar 2024 12:00:00 GMT\r\n\
    Connection: keep-alive\r\nContent-Type: application/json; charset=utf-8\r\n\
    Content-Length: 1024\r\nCache-Control: private, max-age=0\r\nETag: \"65f1a2b3-1a2b\"\r\n\
    Vary: Accept-Encoding\r\nX-Request-Id: 0123456789abcdef\r\n\
    Set-Cookie: session=0123456789abcdef0123456789abcdef; Path=/; HttpOnly\r\n\r\n";

const ROUNDS: usize = 20;
const PER_ROUND: u32 = 50_000;

fn main() {
    let limits = Limits::default();
    let mut state = ParseState::default();
    let mut parse = |text: &str| {
        let parsed = parse_request(black_box(text.as_bytes()), &mut state, &limits);
        black_box(parsed).expect("a valid request");
    };
    let response_limits = ResponseLimits::default();
    let mut response_state = ResponseState::default();
    let mut parse_answer = |text: &str| {
        let text = black_box(text.as_bytes());
        let parsed = parse_response(text, &mut response_state, &response_limits);
        black_box(parsed).expect("a valid response");
    };
    if let Some(count) = std::env::args().nth(1) {
        let count: u32 = count.parse().expect("the argument is a number of messages");
        match std::env::args().nth(2) {
            None => (0..count).for_each(|_| parse(CURL)),
            Some(_) => (0..count).for_each(|_| parse_answer(RESPONSE)),
        }
        return;
    }
    report("parse, wrk", || parse(WRK));
    report("parse, curl", || parse(CURL));
    report("parse, browser", || parse(BROWSER));
    report("parse, 10-header response", || parse_answer(RESPONSE));
    let mut request = Vec::new();
    report("encode, proxied request", || {
        request.clear();
        let (method, target) = (black_box(b"GET"), black_box(b"/assets/app.3f2a1b.js?v=17"));
        let method = MethodName::new(method).expect("a method");
        let target = Target::new(target).expect("a target");
        let mut head = RequestEncoder::new(&mut request, method, target, Version::Http11);
        for (name, value) in [
            (&b"Host"[..], &b"backend"[..]),
            (b"Connection", b""),
            (b"X-Forwarded-For", b"203.0.113.195"),
            (b"User-Agent", b"curl/8.5.0"),
            (b"Accept", b"*/*"),
        ] {
            head.header(Field::new(name, black_box(value)).expect("a valid header"));
        }
        black_box(head.finish());
    });
    report("normalise a plain path", || {
        let target = black_box(&b"/assets/app.3f2a1b.js?v=17"[..]);
        black_box(uri::normalise(target, true)).expect("a valid path");
    });
    let mut headers = HeaderList::new();
    let mut out = Vec::new();
    let time = date::imf(784_111_777);
    report("encode, a file", || {
        headers.clear();
        out.clear();
        for (name, value) in [
            (KnownHeader::Etag, &b"\"65f1a2b3-1a2b\""[..]),
            (KnownHeader::AcceptRanges, b"bytes"),
        ] {
            headers.push_known(name, value).expect("a valid header");
        }
        let head = ResponseHead {
            server: Some(FieldValue::from_static("sealane")),
            date: FieldValue::new(&time).ok(),
            content_type: Some(FieldValue::from_static("text/html")),
            content_length: Some(1024),
            last_modified: FieldValue::new(&time).ok(),
            connection: ConnectionHeader::KeepAlive { timeout_s: None },
            ..ResponseHead::new(Version::Http11, StatusCode::OK, &headers)
        };
        encode_response_head(&mut out, black_box(&head));
        black_box(&out);
    });
}

fn report(what: &str, mut run: impl FnMut()) {
    let round = |_| {
        let start = Instant::now();
        (0..PER_ROUND).for_each(|_| run());
        start.elapsed() / PER_ROUND
    };
    let best = (0..ROUNDS).map(round).min().expect("at least one round");
    println!("{what:26} {:5} ns", best.as_nanos());
}
