//! FastCGI 1.0, the web server's end: one request at a time on a connection, responder role.
//!
//! Written from the specification (Open Market, 1996) and for what PHP-FPM does with it. Bytes
//! that are data never pass through here: the encoder writes the record headers around them, the
//! decoder says where they are.

mod decode;
mod encode;

pub use decode::{Decoded, Event, FastCgiError, ProtocolStatus, RecordDecoder, StderrText};
pub use encode::{ParamTooLong, StdinRecord, encode_begin, encode_params, encode_stdin_end};

/// Bytes of a record before its content.
pub const RECORD_HEADER_BYTES: usize = 8;

/// The most content of one record: its length has 16 bits.
pub const MAX_RECORD_BYTES: usize = 65535;

/// The most text of standard error that is kept for one line of the log.
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
