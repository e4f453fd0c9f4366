//! Encodes the records of a request.

use std::fmt;

use crate::cgi::Param;

use super::{
    BEGIN_REQUEST, MAX_RECORD_BYTES, PARAMS, RECORD_HEADER_BYTES, REQUEST_ID, STDIN, VERSION,
};

/// Content lengths are rounded up to this with padding, as the specification recommends.
const ALIGNMENT: usize = 8;

/// A parameter that does not fit into a record. Servers in use (PHP) read parameters record by
/// record, so a parameter must not be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamTooLong {
    /// The parameter's name, or its beginning.
    pub name: Vec<u8>,
    /// Its size: name, value and their lengths.
    pub bytes: usize,
}

impl fmt::Display for ParamTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fastcgi parameter \"{}\" is too big: {} bytes, {MAX_RECORD_BYTES} at most",
            self.name.escape_ascii(),
            self.bytes
        )
    }
}

impl std::error::Error for ParamTooLong {}

/// Appends the record that begins a request in the responder role. With `keep_conn`
/// (`fastcgi_keep_conn`) the application leaves the connection open afterwards.
pub fn encode_begin(out: &mut Vec<u8>, keep_conn: bool) {
    push_header(out, BEGIN_REQUEST, 8, 0);
    out.extend_from_slice(&[0, 1, u8::from(keep_conn), 0, 0, 0, 0, 0]);
}

/// Appends the parameters and the empty record that ends them.
///
/// nginx refuses requests whose parameters exceed one record. Here they continue in the next
/// record, in whole pairs, which every known application reads.
///
/// # Errors
/// [`ParamTooLong`]; `out` is as it was.
pub fn encode_params<'a>(
    out: &mut Vec<u8>,
    params: impl IntoIterator<Item = Param<'a>>,
) -> Result<(), ParamTooLong> {
    let start = out.len();
    let mut record = out.len();
    push_header(out, PARAMS, 0, 0);
    for param in params {
        let (name, value) = (param.name(), param.value());
        let pair_bytes =
            length_bytes(name.len()) + length_bytes(value.len()) + name.len() + value.len();
        if pair_bytes > MAX_RECORD_BYTES {
            out.truncate(start);
            return Err(ParamTooLong {
                name: name[..name.len().min(128)].to_vec(),
                bytes: pair_bytes,
            });
        }
        if out.len() - record - RECORD_HEADER_BYTES + pair_bytes > MAX_RECORD_BYTES {
            close_record(out, record);
            record = out.len();
            push_header(out, PARAMS, 0, 0);
        }
        push_length(out, name.len());
        push_length(out, value.len());
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    if out.len() - record > RECORD_HEADER_BYTES {
        close_record(out, record);
        push_header(out, PARAMS, 0, 0);
    }
    Ok(())
}

/// The frame of one record of the request body: the header precedes the data, the padding follows
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdinRecord {
    /// Bytes of data, 1 to [`MAX_DATA_BYTES`](Self::MAX_DATA_BYTES).
    pub data_bytes: usize,
}

impl StdinRecord {
    /// The most data in one record: as much as fits without padding.
    pub const MAX_DATA_BYTES: usize = MAX_RECORD_BYTES / ALIGNMENT * ALIGNMENT;

    /// The record for the next part of a body of which `available_bytes` are available; `None` if
    /// that is zero, as an empty record would end the body.
    pub fn next(available_bytes: u64) -> Option<StdinRecord> {
        let data_bytes = available_bytes.min(Self::MAX_DATA_BYTES as u64) as usize;
        (data_bytes > 0).then_some(StdinRecord { data_bytes })
    }

    /// Appends the record's header.
    pub fn push_header(self, out: &mut Vec<u8>) {
        push_header(out, STDIN, self.data_bytes, self.padding().len());
    }

    /// The padding that follows the data.
    pub fn padding(self) -> &'static [u8] {
        &[0; ALIGNMENT][..padding_bytes(self.data_bytes)]
    }
}

/// Appends the empty record that ends the request body.
pub fn encode_stdin_end(out: &mut Vec<u8>) {
    push_header(out, STDIN, 0, 0);
}

fn push_header(out: &mut Vec<u8>, kind: u8, content_bytes: usize, padding_bytes: usize) {
    debug_assert!(content_bytes <= MAX_RECORD_BYTES && padding_bytes < ALIGNMENT);
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    let [high, low] = (content_bytes as u16).to_be_bytes();
    let padding = padding_bytes as u8;
    out.extend_from_slice(&[VERSION, kind, id_high, id_low, high, low, padding, 0]);
}

/// Fills in length and padding of the record that began at `record` and ends with `out`.
fn close_record(out: &mut Vec<u8>, record: usize) {
    let content_bytes = out.len() - record - RECORD_HEADER_BYTES;
    let padding = padding_bytes(content_bytes);
    out[record + 4..record + 6].copy_from_slice(&(content_bytes as u16).to_be_bytes());
    out[record + 6] = padding as u8;
    out.resize(out.len() + padding, 0);
}

fn padding_bytes(content_bytes: usize) -> usize {
    content_bytes.next_multiple_of(ALIGNMENT) - content_bytes
}

/// Size of an encoded length: one byte up to 127, otherwise four.
fn length_bytes(length: usize) -> usize {
    if length < 0x80 { 1 } else { 4 }
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    if length < 0x80 {
        out.push(length as u8);
    } else {
        out.extend_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes());
    }
}
