//! Tests by topic.

mod body;
mod encode;
mod encode_request;
mod limits;
mod properties;
mod request;
mod response;
mod response_body;
mod response_properties;
mod smuggling;

use super::{Limits, ParseState, Parsed, RequestError, RequestHead, parse_request};
use crate::Span;

/// Parses a whole head with nginx's default limits.
fn parse(text: &[u8]) -> Result<RequestHead, RequestError> {
    parse_with(text, &Limits::default())
}

fn parse_with(text: &[u8], limits: &Limits) -> Result<RequestHead, RequestError> {
    match parse_request(text, &mut ParseState::default(), limits)? {
        Parsed::Complete(head) => Ok(head),
        Parsed::Incomplete => panic!("incomplete: {:?}", String::from_utf8_lossy(text)),
    }
}

/// A request with these header lines (each with its line end) after a valid `Host`.
fn with_headers(lines: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

fn text(span: Span, buf: &[u8]) -> &str {
    std::str::from_utf8(span.of(buf)).expect("test input is ASCII")
}

/// Status and reason of a refused request.
fn refusal(input: &[u8]) -> (u16, &'static str) {
    match parse(input) {
        Err(error) => (error.status().0, error.reason()),
        Ok(_) => panic!("accepted: {:?}", String::from_utf8_lossy(input)),
    }
}
