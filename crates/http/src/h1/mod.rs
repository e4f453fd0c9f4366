//! HTTP/1 for clients and towards origins: parses request heads and bodies, encodes response heads
//! and chunks, and the reverse.
//!
//! # Why this tokenizer and not `httparse`
//!
//! `httparse` was the first choice and is what the tests compare with. It cannot express nginx's
//! rules. A header name with characters outside `A-Za-z0-9-` makes a *line to skip* (or, with
//! `ignore_invalid_headers off`, an ordinary line), while folding and a space before the colon are
//! always errors; `httparse`'s option to ignore invalid lines ignores those too. Values may contain
//! control characters other than NUL, CR and LF. HTTP/0.9 has no headers. Repeated spaces separate
//! the parts of a request line. `httparse` also starts from the first byte at every call, so a
//! client that sends byte by byte costs quadratic time. And it fills an array of slices with a
//! lifetime, where the server wants positions that it can keep beside the buffer.
//!
//! # Refused here but accepted by nginx
//!
//! Leniency that lets two servers see different messages: a header line without a colon (nginx: a
//! header with an empty value), CR CR LF as a line end, hosts with characters that are invalid in
//! hosts, and `Connection: closed` understood as `close`.
//!
//! From origins: a response that does not begin with `HTTP/`. nginx logs `upstream sent no valid
//! HTTP/1.0 header` and sends the bytes to the client as an HTTP/0.9 response, a body without a
//! head on a connection that may stay open; here it is an invalid header (502). The same holds for
//! a status below 100 or with spaces between its digits, NUL in the status line, CR CR LF, and
//! chunked framing with LF alone. Anything that does not affect where a response ends is accepted
//! as in nginx: heads whose lines end with LF, lines without a colon (a header with an empty
//! value), names of any visible characters, a second status line among the headers (skipped).

mod body;
mod connection;
mod encode;
mod encode_request;
mod error;
mod header_buffers;
mod header_line;
mod request;
mod request_line;
pub(crate) mod response;
mod response_body;
mod response_error;
mod response_head;

pub use body::{BodyDecoder, BodyError, Decoded, MAX_EXTENSION_BYTES, MAX_TRAILER_BYTES};
pub use encode::{
    CONTINUE, ConnectionHeader, LAST_CHUNK, ResponseHead, encode_chunk_header, encode_interim_head,
    encode_response_head, push_fields,
};
pub use encode_request::RequestEncoder;
pub use error::RequestError;
pub(crate) use request::is_sent_once;
pub use request::{
    DEFAULT_MAX_HEADERS, Framing, Limits, ParseState, Parsed, RawHeader, RequestHead, Version,
    parse_request,
};
pub use response::{
    DEFAULT_MAX_INTERIM, ParsedResponse, ResponseLimits, ResponseState, parse_response,
};
pub use response_body::{ResponseBodyDecoder, parse_trailers};
pub use response_error::{ResponseBodyError, ResponseError};
pub use response_head::{ReceivedResponse, ResponseFraming, ResponseKind};

#[cfg(test)]
mod tests;
