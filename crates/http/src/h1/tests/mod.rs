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

use super::{
    Decoded, LAST_CHUNK, Limits, ParseState, Parsed, RequestError, RequestHead,
    encode_chunk_header, parse_request,
};
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

/// A chunked body of these chunks, as both encoders write it.
fn in_chunks(chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut wire = Vec::new();
    for chunk in chunks {
        encode_chunk_header(&mut wire, chunk.len() as u64);
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(LAST_CHUNK);
    wire
}

/// Decodes a body in pieces of so many bytes. Returns the data, and how many bytes it took.
fn decode_in_pieces(
    wire: &[u8],
    piece: usize,
    mut decode: impl FnMut(&[u8]) -> Decoded,
) -> (Vec<u8>, usize) {
    let (mut data, mut position) = (Vec::new(), 0);
    loop {
        let input = &wire[position..(position + piece).min(wire.len())];
        let decoded = decode(input);
        data.extend_from_slice(&input[decoded.data.clone()]);
        position += decoded.consumed;
        if decoded.done {
            return (data, position);
        }
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
