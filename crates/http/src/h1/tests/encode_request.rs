//! Requests to origins.

use crate::h1::{
    Limits, ParseState, Parsed, RequestEncodeError, RequestEncoder, Version, parse_request,
};

#[test]
fn a_head_is_written_line_by_line() {
    let mut out = b"before".to_vec();
    let mut head =
        RequestEncoder::new(&mut out, b"POST", b"/a?b=%20", Version::Http10).expect("valid");
    head.header(b"Host", b"backend").expect("valid");
    head.header(b"x_odd!", b"").expect("valid");
    head.header_from(b"X-Forwarded-For", [&b"1.2.3.4"[..], b", ", b"::1"])
        .expect("valid");
    let bytes = head.finish();
    let expected = b"POST /a?b=%20 HTTP/1.0\r\nHost: backend\r\nx_odd!: \r\n\
        X-Forwarded-For: 1.2.3.4, ::1\r\n\r\n";
    assert_eq!(out, [b"before", &expected[..]].concat());
    assert_eq!(bytes, expected.len());
}

#[test]
fn nothing_gets_in_through_variables() {
    let mut out = Vec::new();
    for method in ["", "GE T", "GET\r\nX: y", "G\0", "GET:"] {
        let error = RequestEncoder::new(&mut out, method.as_bytes(), b"/", Version::Http11);
        assert_eq!(error.expect_err(method), RequestEncodeError::Method);
    }
    for target in [
        "",
        "/ HTTP/1.1\r\nX: y",
        "/a b",
        "/a\tb",
        "/\n",
        "/\0",
        "/\x7f",
    ] {
        let error = RequestEncoder::new(&mut out, b"GET", target.as_bytes(), Version::Http11);
        assert_eq!(error.expect_err(target), RequestEncodeError::Target);
    }
    let mut head = RequestEncoder::new(&mut out, b"GET", "/ä".as_bytes(), Version::Http11)
        .expect("raw bytes above ASCII pass, as in nginx");
    for name in ["", "A:", "A b", "A\r\n", "ä"] {
        let error = head.header(name.as_bytes(), b"x").expect_err(name);
        assert_eq!(error, RequestEncodeError::Name);
    }
    for value in ["a\r\nb", "a\rb", "a\nb", "a\0b", "\n"] {
        let error = head
            .header(b"X", value.as_bytes())
            .expect_err("must not pass");
        let name = b"X".to_vec();
        assert_eq!(error, RequestEncodeError::Value { name });
        head.header_from(b"X", [b"clean", value.as_bytes()])
            .expect_err("must not pass in pieces");
    }
    head.header(b"Y", b"ok").expect("the others stay");
    head.finish();
    assert_eq!(out, "GET /ä HTTP/1.1\r\nY: ok\r\n\r\n".as_bytes());
}

#[test]
fn an_unfinished_head_leaves_no_trace() {
    let mut out = b"before".to_vec();
    let mut head = RequestEncoder::new(&mut out, b"GET", b"/", Version::Http11).expect("valid");
    head.header(b"A", b"b").expect("valid");
    drop(head);
    assert_eq!(out, b"before");
}

#[test]
fn what_is_written_is_what_our_own_parser_reads() {
    let mut out = Vec::new();
    let mut head = RequestEncoder::new(&mut out, b"PURGE", b"/x", Version::Http11).expect("valid");
    head.header(b"Host", b"h").expect("valid");
    head.header(b"Content-Length", b"3").expect("valid");
    let bytes = head.finish();
    let parsed = parse_request(&out, &mut ParseState::default(), &Limits::default());
    let Ok(Parsed::Complete(parsed)) = parsed else {
        panic!("refused: {parsed:?}");
    };
    assert_eq!(parsed.head_bytes, bytes);
    assert_eq!(parsed.method_name.of(&out), b"PURGE");
    assert_eq!(parsed.headers.len(), 2);
}
