//! The call of a method `Map<String, Object> method(Map<String, Object>)`.
//!
//! ```text
//! "2.0.2" service version method "Ljava/util/Map;" { name: value, ..., "body": bytes } null
//! ```
//!
//! The body is the last entry of the map, in chunks, so that its bytes need not be in memory.

use super::MAX_CHUNK_BYTES;
use super::hessian::{self, BINARY_CHUNK, END, MAP, NULL};

/// The version of the protocol that consumers name.
const PROTOCOL_VERSION: &str = "2.0.2";
/// The parameter types of the method, as Java describes them.
const PARAMETER_TYPES: &str = "Ljava/util/Map;";
/// The entry that is the body of the request.
const BODY: &str = "body";
/// The end of a binary value in chunks: a last one without bytes.
const EMPTY_LAST_CHUNK: u8 = 0x20;

/// What is called.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The name of the service, that of a Java interface.
    pub service: &'a [u8],
    /// Its version; `0.0.0` for none.
    pub version: &'a [u8],
    /// The name of the method.
    pub method: &'a [u8],
}

/// Appends the beginning of a payload, up to the first entry of the map.
pub fn encode_begin(out: &mut Vec<u8>, target: &Target<'_>) {
    hessian::write_string(out, PROTOCOL_VERSION);
    for text in [target.service, target.version, target.method] {
        hessian::write_string(out, &hessian::text_of(text));
    }
    hessian::write_string(out, PARAMETER_TYPES);
    out.push(MAP);
}

/// Appends an entry of the map. What is not UTF-8 is taken for ISO 8859-1.
pub fn encode_entry(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    hessian::write_string(out, &hessian::text_of(name));
    hessian::write_string(out, &hessian::text_of(value));
}

/// Appends an entry whose value is bytes.
pub fn encode_bytes_entry(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    hessian::write_string(out, &hessian::text_of(name));
    for chunk in value.chunks(MAX_CHUNK_BYTES) {
        encode_body_chunk(out, chunk.len());
        out.extend_from_slice(chunk);
    }
    out.push(EMPTY_LAST_CHUNK);
}

/// Appends the name of the body, which is the last entry.
pub fn encode_body_name(out: &mut Vec<u8>) {
    hessian::write_string(out, BODY);
}

/// Appends what stands before a chunk of the body with so many bytes.
///
/// # Panics
/// If these are more than [`MAX_CHUNK_BYTES`].
pub fn encode_body_chunk(out: &mut Vec<u8>, bytes: usize) {
    assert!(bytes <= MAX_CHUNK_BYTES, "the caller cuts the body");
    // It fits, as was asserted.
    let length = (bytes as u16).to_be_bytes();
    out.extend_from_slice(&[BINARY_CHUNK, length[0], length[1]]);
}

/// Appends the end of a payload, and before that the end of the body if there is one.
pub fn encode_end(out: &mut Vec<u8>, has_body: bool) {
    if has_body {
        out.push(EMPTY_LAST_CHUNK);
    }
    // Attachments: none.
    out.extend_from_slice(&[END, NULL]);
}
