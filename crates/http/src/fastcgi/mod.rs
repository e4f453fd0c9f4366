//! FastCGI 1.0, the web server side: one request at a time per connection, responder role.
//!
//! Written from the specification (Open Market, 1996) and for the behaviour of PHP-FPM. Payload
//! bytes never pass through here: the encoder writes the record headers around them, and the
//! decoder says where they are.
//! decoder says where they are.

mod decode;
mod encode;

pub use decode::{Decoded, Event, FastCgiError, ProtocolStatus, RecordDecoder, StderrText};
pub use encode::{ParamTooLong, StdinRecord, encode_begin, encode_params, encode_stdin_end};

/// Bytes of a record before its content.
pub const RECORD_HEADER_BYTES: usize = 8;

/// The most content of one record: its length has 16 bits.
pub const MAX_RECORD_BYTES: usize = 65535;

/// The most standard error text that is kept for one log line.
pub const MAX_STDERR_BYTES: usize = 2048;

const VERSION: u8 = 1;
/// The only request on a connection is number one.
const REQUEST_ID: u16 = 1;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

#[cfg(test)]
mod tests;
