//! Requests to origins.

use crate::h1::{Limits, ParseState, Parsed, RequestEncoder, Version, parse_request};
use crate::headers::{Field, InvalidHeader};
use crate::outgoing::{MethodName, Target};

fn begin<'o>(
    out: &'o mut Vec<u8>,
    method: &str,
    target: &str,
    version: Version,
) -> RequestEncoder<'o> {
    let method = MethodName::new(method.as_bytes()).expect("valid");
    let target = Target::new(target.as_bytes()).expect("valid");
    RequestEncoder::new(out, method, target, version)
}

#[test]
fn a_head_is_written_line_by_line() {
    let mut out = b"before".to_vec();
    let mut head = begin(&mut out, "POST", "/a?b=%20", Version::Http10);
    head.header(Field::from_static("Host", "backend"));
    head.header(Field::from_static("x_odd!", ""));
    head.header(Field::from_static("X-Forwarded-For", "1.2.3.4, ::1"));
    let bytes = head.finish();
    let expected = b"POST /a?b=%20 HTTP/1.0\r\nHost: backend\r\nx_odd!: \r\n\
        X-Forwarded-For: 1.2.3.4, ::1\r\n\r\n";
    assert_eq!(out, [b"before", &expected[..]].concat());
    assert_eq!(bytes, expected.len());
}

#[test]
fn nothing_gets_in_through_variables() {
    for name in ["", "A:", ":path", "A b", "A\r\n", "\u{e4}"] {
        let refused = Field::new(name.as_bytes(), b"x");
        assert_eq!(refused, Err(InvalidHeader::Name), "{name:?}");
    }
    for value in ["a\r\nb", "a\rb", "a\nb", "a\0b", "\n"] {
        let refused = Field::new(b"X", value.as_bytes());
        assert_eq!(refused, Err(InvalidHeader::Value), "{value:?}");
    }
    let mut out = Vec::new();
    let mut head = begin(&mut out, "GET", "/\u{e4}", Version::Http11);
    head.header(Field::new(b"Y", b"ok").expect("valid"));
    head.finish();
    assert_eq!(out, "GET /\u{e4} HTTP/1.1\r\nY: ok\r\n\r\n".as_bytes());
}

#[test]
fn an_unfinished_head_leaves_no_trace() {
    let mut out = b"before".to_vec();
    let mut head = begin(&mut out, "GET", "/", Version::Http11);
    head.header(Field::from_static("A", "b"));
    drop(head);
    assert_eq!(out, b"before");
}

#[test]
fn what_is_written_is_what_our_own_parser_reads() {
    let mut out = Vec::new();
    let mut head = begin(&mut out, "PURGE", "/x", Version::Http11);
    head.header(Field::from_static("Host", "h"));
    head.header(Field::from_static("Content-Length", "3"));
    let bytes = head.finish();
    let parsed = parse_request(&out, &mut ParseState::default(), &Limits::default());
    let Ok(Parsed::Complete(parsed)) = parsed else {
        panic!("refused: {parsed:?}");
    };
    assert_eq!(parsed.head_bytes, bytes);
    assert_eq!(parsed.method_name.of(&out), b"PURGE");
    assert_eq!(parsed.headers.len(), 2);
}
