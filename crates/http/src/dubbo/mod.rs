//! The Dubbo protocol, version 2, the consumer's side: frames, and calls of a method that takes a
//! map and returns one, serialised in Hessian 2.
//!
//! Written from Apache Dubbo's and Hessian's documentation and for the behaviour of Dubbo's
//! providers. A connection carries frames of many calls, told apart by their number. Payload bytes
//! never pass through the frame decoder: it says where they are.
//!
//! | file | what it holds |
//! |---|---|
//! | `frame` | the header of a frame, and the decoder that finds frames |
//! | `hessian` | values of Hessian 2: the few that are written, all that may be read |
//! | `invocation` | the call of a method |
//! | `answer` | what it returns: a map, nothing, or an exception |

mod answer;
mod frame;
mod hessian;
mod invocation;

pub use answer::{
    Answer, AnswerError, AnswerLimits, Body, Thrown, decode_answer, decode_message, join_binary,
};
pub use frame::{Decoded, Event, FrameDecoder, FrameError, Header, Kind};
pub use hessian::HessianError;
pub use invocation::{
    Target, encode_begin, encode_body_chunk, encode_body_name, encode_bytes_entry, encode_end,
    encode_entry,
};

/// Bytes of a frame before its payload.
pub const HEADER_BYTES: usize = 16;

/// The longest payload: its length is a positive `int` of Java.
pub const MAX_PAYLOAD_BYTES: u64 = i32::MAX as u64;

/// The most bytes of a body in one chunk: its length has 16 bits.
pub const MAX_CHUNK_BYTES: usize = 65535;

/// The number of Hessian 2 among Dubbo's serialisations.
pub const HESSIAN2: u8 = 2;

/// The status of a response that has a result.
pub const OK: u8 = 20;

/// The status of a response to a request for which the provider had no thread: it was not
/// processed.
pub const NO_THREAD: u8 = 100;

/// The payload of a heartbeat: null.
pub const HEARTBEAT: &[u8] = b"N";

/// The payload of the event by which a provider asks for no more requests: the string `R`.
pub const READ_ONLY: &[u8] = b"\x01R";

/// What the status of a response means, in Dubbo's words; `None` for a number that it does not
/// define.
pub fn status_text(status: u8) -> Option<&'static str> {
    Some(match status {
        OK => "ok",
        30 => "client side timeout",
        31 => "server side timeout",
        35 => "channel inactive",
        40 => "bad request",
        50 => "bad response",
        60 => "service not found",
        70 => "service error",
        80 => "server error",
        90 => "client error",
        NO_THREAD => "server threadpool exhausted",
        105 => "serialization error",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
