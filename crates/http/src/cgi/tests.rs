//! Heads of gateway programs, as nginx reads them.

use super::{StatusLine, parse_cgi_response, variables};
use crate::h1::{
    ParsedResponse, ReceivedResponse, ResponseError, ResponseFraming, ResponseKind, ResponseLimits,
    ResponseState,
};
use crate::headers::KnownHeader;
use crate::{Method, Span};

fn parse(text: &[u8], status_line: StatusLine) -> Result<ReceivedResponse, ResponseError> {
    let at_once = parse_in_pieces(text, status_line, text.len());
    for piece in 1..text.len() {
        assert_eq!(
            parse_in_pieces(text, status_line, piece),
            at_once,
            "{piece}"
        );
    }
    at_once
}

fn parse_in_pieces(
    text: &[u8],
    status_line: StatusLine,
    piece: usize,
) -> Result<ReceivedResponse, ResponseError> {
    let mut state = ResponseState::default();
    let limits = ResponseLimits::default();
    let mut end = 0;
    while end < text.len() {
        end = (end + piece).min(text.len());
        let parsed = parse_cgi_response(&text[..end], &mut state, &limits, status_line)?;
        if let ParsedResponse::Complete(head) = parsed {
            return Ok(head);
        }
    }
    panic!("incomplete: {:?}", text.escape_ascii().to_string());
}

fn text(span: Span, buf: &[u8]) -> &str {
    std::str::from_utf8(span.of(buf)).expect("test input is ASCII")
}

#[test]
fn where_the_status_comes_from() {
    use StatusLine::{Skipped, Taken};
    for (head, dialect, status, kept) in [
        (
            "Status: 404 Not Found\r\n\r\n",
            Skipped,
            404,
            "404 Not Found",
        ),
        ("Status: 404 Not Found\n\n", Taken, 404, "404 Not Found"),
        ("status:500\n\n", Skipped, 500, ""),
        ("Status: 200OK\n\n", Skipped, 200, "200OK"),
        ("Location: /x\n\n", Skipped, 302, ""),
        (
            "Location: /x\nStatus: 201 Made\n\n",
            Skipped,
            201,
            "201 Made",
        ),
        ("Content-Type: a\n\n", Skipped, 200, ""),
        ("\n", Skipped, 200, ""),
        ("\r\n", Taken, 200, ""),
        // FastCGI skips a status line, the others take it.
        ("HTTP/1.1 404 Gone\nA: b\n\n", Skipped, 200, ""),
        (
            "HTTP/1.1 404 Gone\nStatus: 500 x\n\n",
            Skipped,
            500,
            "500 x",
        ),
        (
            "HTTP/1.1 404 Gone\nStatus: 500 x\n\n",
            Taken,
            404,
            "404 Gone",
        ),
        ("HTTP/1.0 404\r\n\r\n", Taken, 404, "404"),
        // A first line that only looks like one is skipped, or a header.
        ("HTTP/x y\nStatus: 410 x\n\n", Taken, 410, "410 x"),
        ("HTTP-Flag: y\nStatus: 410 x\n\n", Taken, 410, "410 x"),
        ("H: y\n\n", Taken, 200, ""),
    ] {
        let parsed = parse(head.as_bytes(), dialect).unwrap_or_else(|e| panic!("{head:?}: {e}"));
        assert_eq!(parsed.status.0, status, "{head:?}");
        assert_eq!(text(parsed.status_line, head.as_bytes()), kept, "{head:?}");
        assert_eq!(parsed.head_bytes, head.len());
        assert!(!parsed.keep_alive, "that is the gateway protocol's");
    }
}

#[test]
fn a_status_that_is_no_number_is_refused() {
    for value in ["OK", "", "20", "2 0", "-20 x", "099", "\u{663}00"] {
        let head = format!("Status: {value}\r\n\r\n");
        let error = parse(head.as_bytes(), StatusLine::Skipped).expect_err(value);
        assert_eq!(error.to_string(), "upstream sent invalid status");
        let quoted = error.excerpt().expect("quotes the value");
        assert_eq!(quoted.of(head.as_bytes()), value.as_bytes());
    }
}

#[test]
fn the_first_status_counts() {
    let head = b"Status: 201 a\nStatus: 202 b\n\n";
    let parsed = parse(head, StatusLine::Skipped).expect("valid");
    assert_eq!(parsed.status.0, 201);
    assert_eq!(parsed.repeated.len(), 1);
}

#[test]
fn header_lines_are_those_of_http() {
    let head = b"X-Powered-By: PHP/8\nSet-Cookie: a\r\nset-cookie: b\nFlag\n\nbody";
    let parsed = parse(head, StatusLine::Skipped).expect("valid");
    assert_eq!(parsed.headers.len(), 4);
    assert_eq!(parsed.get_all(KnownHeader::SetCookie).count(), 2);
    assert_eq!(&head[parsed.head_bytes..], b"body");
    for bad in [
        "A b: c\n\n",
        " a: b\n\n",
        "a: \0\n\n",
        "A: b\n c\n\n",
        "A: b\rc\n\n",
    ] {
        for dialect in [StatusLine::Skipped, StatusLine::Taken] {
            let error = parse(bad.as_bytes(), dialect).expect_err(bad);
            assert_eq!(error.to_string(), "upstream sent invalid header", "{bad:?}");
        }
    }
}

#[test]
fn the_gateway_protocol_ends_the_body() {
    for (head, method, expected) in [
        (
            "Content-Length: 5\n\n",
            Method::Get,
            ResponseFraming::Length(5),
        ),
        ("A: b\n\n", Method::Get, ResponseFraming::UntilClose),
        // Chunks are not the gateway's to send; nginx passes what it sends as it is.
        (
            "Transfer-Encoding: chunked\n\n",
            Method::Get,
            ResponseFraming::UntilClose,
        ),
        ("Content-Length: 5\n\n", Method::Head, ResponseFraming::None),
        ("Status: 204\n\n", Method::Get, ResponseFraming::None),
        (
            "Status: 304\nContent-Length: 5\n\n",
            Method::Get,
            ResponseFraming::None,
        ),
    ] {
        let parsed = parse(head.as_bytes(), StatusLine::Skipped).expect("valid");
        assert_eq!(parsed.framing(method), expected, "{head:?}");
    }
    let both = b"Content-Length: 5\nTransfer-Encoding: chunked\n\n";
    let error = parse(both, StatusLine::Taken).expect_err("ambiguous");
    assert_eq!(error, ResponseError::LengthWithTransferEncoding);
}

#[test]
fn an_upgrade_is_told() {
    let parsed = parse(b"Status: 101 x\n\n", StatusLine::Skipped).expect("valid");
    assert_eq!(parsed.kind(), ResponseKind::SwitchingProtocols);
}

#[test]
fn headers_become_meta_variables() {
    let mut out = Vec::new();
    variables::push_name(&mut out, b"X-Forwarded-For_2");
    assert_eq!(out, b"HTTP_X_FORWARDED_FOR_2");
    assert!(variables::is_same_variable(b"X-A", b"x_a"));
    assert!(!variables::is_same_variable(b"X-A", b"x_a_"));
    assert_eq!(variables::separator(b"cookie"), b"; ");
    assert_eq!(variables::separator(b"Accept"), b", ");
}
