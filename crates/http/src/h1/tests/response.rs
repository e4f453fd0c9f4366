//! Response heads: how they are parsed, and what is derived from them.

use crate::h1::{
    ParsedResponse, ReceivedResponse, ResponseError, ResponseFraming, ResponseKind, ResponseLimits,
    ResponseState, Version, parse_response,
};
use crate::headers::KnownHeader;
use crate::{Method, Span};

pub(super) fn parse(text: &[u8]) -> Result<ReceivedResponse, ResponseError> {
    match parse_response(text, &mut ResponseState::default(), &limits(4096))? {
        ParsedResponse::Complete(head) => Ok(head),
        ParsedResponse::Incomplete => panic!("incomplete: {:?}", text.escape_ascii().to_string()),
    }
}

pub(super) fn limits(max_head_bytes: usize) -> ResponseLimits {
    ResponseLimits {
        max_head_bytes,
        ..ResponseLimits::default()
    }
}

fn with_headers(lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes()
}

fn text(span: Span, buf: &[u8]) -> &str {
    std::str::from_utf8(span.of(buf)).expect("test input is ASCII")
}

#[test]
fn a_head_is_taken_apart() {
    let buf = b"HTTP/1.1 404 Not  Found\r\nServer: x/1\r\nX-Accel-Redirect:/a\r\n\
        set-COOKIE:\ta=b \r\nSet-Cookie: c=d\r\nX_Odd(1): \r\n\r\nbody";
    let head = parse(buf).expect("valid");
    assert_eq!(head.version, Version::Http11);
    assert_eq!(head.status.0, 404);
    assert_eq!(text(head.status_line, buf), "404 Not  Found");
    let lines: Vec<_> = head
        .headers
        .iter()
        .map(|header| (text(header.name, buf), text(header.value, buf)))
        .collect();
    let expected = [
        ("Server", "x/1"),
        ("X-Accel-Redirect", "/a"),
        ("set-COOKIE", "a=b"),
        ("Set-Cookie", "c=d"),
        ("X_Odd(1)", ""),
    ];
    assert_eq!(lines, expected);
    let redirect = head.get(KnownHeader::XAccelRedirect).expect("sent");
    assert_eq!(text(redirect, buf), "/a");
    assert_eq!(head.get_all(KnownHeader::SetCookie).count(), 2);
    assert_eq!(head.get(KnownHeader::Date), None);
    let odd = head.get_by_name(buf, b"x_odd(1)").expect("sent");
    assert!(odd.is_empty());
    assert_eq!(&buf[head.head_bytes..], b"body");
    assert!(head.keep_alive);
    assert_eq!(head.kind(), ResponseKind::Final);
}

#[test]
fn status_lines_as_nginx_takes_them() {
    for (line, version, status, kept) in [
        ("HTTP/1.1 200 OK", Version::Http11, 200, "200 OK"),
        ("HTTP/1.1 200", Version::Http11, 200, "200"),
        ("HTTP/1.1 200 ", Version::Http11, 200, "200 "),
        ("HTTP/1.0 302 Found", Version::Http10, 302, "302 Found"),
        ("HTTP/1.00 302 x", Version::Http10, 302, "302 x"),
        ("HTTP/1.1   500 a", Version::Http11, 500, "500 a"),
        ("HTTP/1.1 403.1 IIS", Version::Http11, 403, "403.1 IIS"),
        ("HTTP/1.2 200 OK", Version::Http11, 200, "200 OK"),
        ("HTTP/2.0 200 OK", Version::Http11, 200, "200 OK"),
        ("HTTP/1.1 999 \t\x01", Version::Http11, 999, "999 \t\x01"),
    ] {
        for end in ["\r\n\r\n", "\n\n", "\r\n\n"] {
            let buf = format!("{line}{end}").into_bytes();
            let head = parse(&buf).unwrap_or_else(|error| panic!("{line:?}: {error}"));
            assert_eq!(head.version, version, "{line}");
            assert_eq!(head.status.0, status, "{line}");
            assert_eq!(text(head.status_line, &buf), kept);
            assert_eq!(head.head_bytes, buf.len());
        }
    }
}

#[test]
fn other_first_lines_are_refused() {
    for (input, excerpt) in [
        ("<html>", "<"),
        ("\r\n", "\r"),
        (" HTTP/1.1 200 OK\r\n\r\n", " "),
        ("http/1.1 200 OK\r\n\r\n", "h"),
        ("HTTP1.1 200 OK\r\n\r\n", "HTTP1"),
        ("HTTP/1 200 OK\r\n\r\n", "HTTP/1 200 OK"),
        ("HTTP/ 200 OK\r\n\r\n", "HTTP/ 200 OK"),
        ("HTTP/0.9 200 OK\r\n\r\n", "HTTP/0.9 200 OK"),
        ("HTTP/a.b 200 OK\r\n\r\n", "HTTP/a.b 200 OK"),
        ("HTTP/1.1111 200 OK\r\n\r\n", "HTTP/1.1111 200 OK"),
        ("HTTP/1.1\t200 OK\r\n\r\n", "HTTP/1.1\t200 OK"),
        ("HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 20 OK"),
        ("HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 2000 OK"),
        ("HTTP/1.1 099 x\r\n\r\n", "HTTP/1.1 099 x"),
        ("HTTP/1.1 2 0 0 x\r\n\r\n", "HTTP/1.1 2 0 0 x"),
        ("HTTP/1.1 -20 x\r\n\r\n", "HTTP/1.1 -20 x"),
        ("HTTP/1.1 200 a\0b\r\n\r\n", "HTTP/1.1 200 a\0"),
        ("HTTP/1.1 200 a\rb\r\n\r\n", "HTTP/1.1 200 a\rb"),
        ("HTTP/1.1 200 a\r\r\n\r\n", "HTTP/1.1 200 a\r\r"),
    ] {
        let error = parse(input.as_bytes()).expect_err(input);
        let expected = "upstream sent no valid HTTP/1.0 header";
        assert_eq!(error.to_string(), expected, "{input:?}");
        let line = error.excerpt().expect("quotes the line");
        assert_eq!(text(line, input.as_bytes()), excerpt);
    }
}

#[test]
fn interim_responses_are_told_apart() {
    let mut wire: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\
        Link: </a>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    let mut state = ResponseState::default();
    let mut kinds = Vec::new();
    while !wire.is_empty() {
        match parse_response(wire, &mut state, &limits(80)).expect("valid") {
            ParsedResponse::Complete(head) => {
                kinds.push((head.status.0, head.kind(), head.headers.len()));
                wire = &wire[head.head_bytes..];
            }
            ParsedResponse::Incomplete => panic!("incomplete"),
        }
    }
    let expected = [
        (100, ResponseKind::Interim, 0),
        (103, ResponseKind::Interim, 1),
        (200, ResponseKind::Final, 0),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn interim_responses_are_bounded_between_answers() {
    let limits = ResponseLimits {
        max_interim: 2,
        ..ResponseLimits::default()
    };
    let mut state = ResponseState::default();
    let mut status = |line: &str| {
        let wire = format!("HTTP/1.1 {line}\r\n\r\n");
        match parse_response(wire.as_bytes(), &mut state, &limits)? {
            ParsedResponse::Complete(head) => Ok(head.status.0),
            ParsedResponse::Incomplete => panic!("incomplete"),
        }
    };
    for line in ["103 a", "100 b", "200 c", "103 d", "103 e"] {
        assert_eq!(
            status(line).map(|code| code.to_string()),
            Ok(line[..3].to_owned())
        );
    }
    assert_eq!(status("199 f"), Err(ResponseError::TooManyInterim));
}

#[test]
fn whether_the_connection_stays_open() {
    for (line, headers, expected) in [
        ("HTTP/1.1 200 OK", "", true),
        ("HTTP/1.1 200 OK", "Connection: keep-alive\r\n", true),
        ("HTTP/1.1 200 OK", "Connection: Close\r\n", false),
        (
            "HTTP/1.1 200 OK",
            "Connection: x\r\nConnection: y, close\r\n",
            false,
        ),
        // As in nginx, wherever the word stands.
        ("HTTP/1.1 200 OK", "Connection: closed\r\n", false),
        ("HTTP/1.1 200 OK", "Keep-Alive: timeout=0\r\n", true),
        ("HTTP/1.0 200 OK", "", false),
        ("HTTP/1.0 200 OK", "Connection: keep-alive\r\n", false),
        (
            "HTTP/1.1 101 Switching Protocols",
            "Connection: upgrade\r\n",
            false,
        ),
    ] {
        let buf = format!("{line}\r\n{headers}\r\n").into_bytes();
        let head = parse(&buf).expect("valid");
        assert_eq!(head.keep_alive, expected, "{line} {headers:?}");
    }
}

#[test]
fn upgrades_are_recognised() {
    let head = parse(b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let head = head.expect("valid");
    assert_eq!(head.kind(), ResponseKind::SwitchingProtocols);
    assert!(head.connection_upgrade && head.has(KnownHeader::Upgrade));
}

#[test]
fn framing_by_rfc_9112_section_6_3() {
    const LENGTH: &str = "Content-Length: 5\r\n";
    const CHUNKED: &str = "Transfer-Encoding: CHUNKED\r\n";
    for (status, headers, method, expected) in [
        (200, LENGTH, Method::Get, ResponseFraming::Length(5)),
        (200, LENGTH, Method::Head, ResponseFraming::None),
        (204, LENGTH, Method::Get, ResponseFraming::None),
        (304, LENGTH, Method::Get, ResponseFraming::None),
        (103, LENGTH, Method::Get, ResponseFraming::None),
        (101, LENGTH, Method::Get, ResponseFraming::None),
        (200, LENGTH, Method::Connect, ResponseFraming::UntilClose),
        (400, LENGTH, Method::Connect, ResponseFraming::Length(5)),
        (200, CHUNKED, Method::Get, ResponseFraming::Chunked),
        (200, CHUNKED, Method::Head, ResponseFraming::None),
        (204, CHUNKED, Method::Get, ResponseFraming::None),
        (200, CHUNKED, Method::Connect, ResponseFraming::UntilClose),
        (200, "", Method::Post, ResponseFraming::UntilClose),
        (
            200,
            "Content-Length: 0\r\n",
            Method::Get,
            ResponseFraming::Length(0),
        ),
    ] {
        let buf = format!("HTTP/1.1 {status} x\r\n{headers}\r\n").into_bytes();
        let head = parse(&buf).expect("valid");
        assert_eq!(
            head.framing(method),
            expected,
            "{status} {headers:?} {method}"
        );
    }
    // Chunks from an HTTP/1.0 origin are read, and the connection is not used again.
    let head = parse(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").expect("valid");
    assert_eq!(head.framing(Method::Get), ResponseFraming::Chunked);
    assert!(!head.keep_alive);
}

#[test]
fn ambiguous_framing_is_refused() {
    let both =
        "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time";
    let duplicate = "upstream sent duplicate header line";
    let invalid = "upstream sent invalid \"Content-Length\" header";
    let unknown = "upstream sent unknown \"Transfer-Encoding\"";
    for (lines, expected) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", both),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", both),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", duplicate),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", duplicate),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            duplicate,
        ),
        ("Content-Length: 5, 5\r\n", invalid),
        ("Content-Length: +5\r\n", invalid),
        ("Content-Length: -5\r\n", invalid),
        ("Content-Length: 0x5\r\n", invalid),
        ("Content-Length: 5 5\r\n", invalid),
        ("Content-Length:\r\n", invalid),
        ("Content-Length\r\n", invalid),
        ("Content-Length: 9223372036854775808\r\n", invalid),
        ("Content-Length: 99999999999999999999999\r\n", invalid),
        ("Transfer-Encoding: gzip, chunked\r\n", unknown),
        ("Transfer-Encoding: chunked, chunked\r\n", unknown),
        ("Transfer-Encoding: chunked;q=1\r\n", unknown),
        ("Transfer-Encoding: identity\r\n", unknown),
        ("Transfer-Encoding: xchunked\r\n", unknown),
        ("Transfer-Encoding: \x0bchunked\r\n", unknown),
        ("Transfer-Encoding\r\n", unknown),
    ] {
        for status in [200, 204, 304, 100] {
            let buf = format!("HTTP/1.1 {status} x\r\n{lines}\r\n").into_bytes();
            let error = parse(&buf).expect_err(lines);
            assert_eq!(error.to_string(), expected, "{lines:?}");
        }
    }
    let buf = with_headers("Content-Length: 5\r\nContent-Length: 6\r\n");
    let Err(ResponseError::DuplicateHeader { line, previous }) = parse(&buf) else {
        panic!("not a duplicate");
    };
    assert_eq!(text(line, &buf), "Content-Length: 6");
    assert_eq!(text(previous, &buf), "5");
}

#[test]
fn malformed_header_lines_are_refused() {
    for line in [
        " folded: 1\r\n",
        "A: b\r\n folded\r\n",
        "A: b\r\n\tfolded\r\n",
        "A : b\r\n",
        "A\t: b\r\n",
        "A b: c\r\n",
        "no colon\r\n",
        ": b\r\n",
        ":\r\n",
        "A\x01: b\r\n",
        "A\x7f: b\r\n",
        "A: b\0c\r\n",
        "A\0: b\r\n",
        "A: b\rc\r\n",
        "A: b\r\r\n",
        "\rA: b\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding\x0b: chunked\r\n",
    ] {
        let error = parse(&with_headers(line)).expect_err(line);
        assert_eq!(
            error.to_string(),
            "upstream sent invalid header",
            "{line:?}"
        );
        assert!(error.excerpt().is_some_and(|line| !line.is_empty()));
    }
}

#[test]
fn what_nginx_is_lenient_about() {
    // A name without a colon has an empty value, a second status line is no header, names may
    // hold anything visible, values anything but NUL and line ends.
    let buf = with_headers("Flag\r\nHTTP/1.1 200 OK: x\r\n\u{e4}@/: \x01\x7f\n");
    let head = parse(&buf).expect("lenient");
    let lines: Vec<_> = head
        .headers
        .iter()
        .map(|header| (header.name.of(&buf), header.value.of(&buf)))
        .collect();
    let odd_name = "\u{e4}@/".as_bytes();
    assert_eq!(lines, [(&b"Flag"[..], &b""[..]), (odd_name, b"\x01\x7f")]);
}

#[test]
fn headers_that_count_once_keep_their_first_line() {
    let buf = with_headers(
        "Date: one\r\ndate: two\r\nLocation: /a\r\nLocation: /b\r\nVary: a\r\nVary: b\r\n\
         X-Accel-Buffering: no\r\nX-Accel-Buffering: yes\r\nDate: three\r\n",
    );
    let head = parse(&buf).expect("valid");
    let repeated: Vec<_> = head.repeated.iter().map(|&line| text(line, &buf)).collect();
    assert_eq!(repeated, ["date: two", "Location: /b", "Date: three"]);
    assert_eq!(head.headers.len(), 6);
    assert_eq!(head.get_all(KnownHeader::Date).count(), 1);
    assert_eq!(head.get_all(KnownHeader::Vary).count(), 2);
    assert_eq!(head.get_all(KnownHeader::XAccelBuffering).count(), 2);
}

#[test]
fn a_head_fills_its_buffer_but_no_more() {
    let head = with_headers("A: b\r\n");
    let exact = limits(head.len());
    let mut state = ResponseState::default();
    let parsed = parse_response(&head, &mut state, &exact).expect("fits");
    assert!(matches!(parsed, ParsedResponse::Complete(_)));
    let short = limits(head.len() - 1);
    for available in [head.len() - 1, head.len()] {
        let mut state = ResponseState::default();
        let error = parse_response(&head[..available], &mut state, &short).expect_err("too big");
        assert_eq!(error, ResponseError::HeadTooLarge);
        assert_eq!(error.to_string(), "upstream sent too big header");
    }
    // What lies behind the end of the buffer is not judged.
    let mut bad = head;
    bad.splice(bad.len() - 2.., *b"\0\r\n");
    let nul = bad.len() - 3;
    let refusal = |max_head_bytes| {
        let mut state = ResponseState::default();
        parse_response(&bad, &mut state, &limits(max_head_bytes)).expect_err("malformed")
    };
    assert!(matches!(
        refusal(nul + 1),
        ResponseError::InvalidHeader { .. }
    ));
    assert_eq!(refusal(nul), ResponseError::HeadTooLarge);
}

#[test]
fn every_split_of_a_response_gives_the_same_head() {
    let inputs: [&[u8]; 5] = [
        b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 3\r\nX: y\n\r\nabc",
        b"HTTP/1.0 404\n\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        b"HTXP/1.1 200 OK\r\n\r\n",
    ];
    for input in inputs {
        let at_once = outcome(input, &[input.len()]);
        for first in 0..=input.len() {
            assert_eq!(outcome(input, &[first, input.len()]), at_once, "{first}");
        }
        let bytes: Vec<usize> = (1..=input.len()).collect();
        assert_eq!(outcome(input, &bytes), at_once);
    }
}

/// The outcome when these many bytes are there, call by call.
fn outcome(input: &[u8], ends: &[usize]) -> Result<ReceivedResponse, ResponseError> {
    let mut state = ResponseState::default();
    for &end in ends {
        if let ParsedResponse::Complete(head) =
            parse_response(&input[..end], &mut state, &limits(4096))?
        {
            return Ok(head);
        }
    }
    panic!("incomplete");
}
