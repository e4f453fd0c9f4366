//! Frames on a channel between a worker thread and the key process.
//!
//! ```text
//! request  length (4) | kind (1) | number (8) | key (32) | scheme (2) | input
//! answer   length (4) | outcome (1) | number (8) | result
//! ```
//!
//! Numbers are little-endian; the length counts what follows it. Both ends run the same binary, or
//! two of them during an upgrade, where each has a key process of its own.

use sealane_tls::{KeyId, KeyOperation};
use std::fmt;

/// Operations under way on one channel. A client that knows this sends no more; for one that does
/// not, the key process stops reading.
pub const MAX_UNDER_WAY: usize = 64;

/// Longest request in bytes, without its length. A client of TLS 1.2 signs all messages of its
/// handshake: the names of authorities in a server's request have 64 KiB at most, and the rest is
/// for certificates. All other requests have a few hundred bytes.
pub const MAX_REQUEST_BYTES: usize = 128 << 10;

/// While requests under way on one channel have so many bytes, no more are sent, or read.
pub const MAX_UNDER_WAY_BYTES: usize = 256 << 10;

/// What comes before the input of a request.
const HEAD_BYTES: usize = 1 + 8 + 32 + 2;

/// Longest answer in bytes, without its length.
pub const MAX_ANSWER_BYTES: usize = 4096;

const LENGTH_BYTES: usize = 4;
const SIGN: u8 = 1;
const DECRYPT: u8 = 2;
const DONE: u8 = 0;

/// An operation that a worker thread wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The worker's number for it.
    pub number: u64,
    /// The key.
    pub key: KeyId,
    /// What to compute.
    pub operation: KeyOperation,
}

/// Why an operation was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No such key.
    UnknownKey,
    /// A handshake does not sign, or decrypt, this.
    NotPermitted,
    /// The key or its device has failed.
    Failed,
    /// More decryptions in a second than a worker process may have.
    TooMany,
}

impl Reason {
    const ALL: [Self; 4] = [
        Self::UnknownKey,
        Self::NotPermitted,
        Self::Failed,
        Self::TooMany,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownKey => "the key process does not have the key",
            Self::NotPermitted => "the key process refuses to sign this",
            Self::Failed => "the operation has failed in the key process",
            Self::TooMany => {
                "the key process decrypts no more in this second (\"decryptions=\" of \
                 \"ssl_key_process\")"
            }
        })
    }
}

/// The other end does not speak this protocol: the channel is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonsense;

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it does not speak the protocol of the key process")
    }
}

impl std::error::Error for Nonsense {}

/// What an operation has to be computed from, in bytes.
pub fn input_bytes(operation: &KeyOperation) -> usize {
    match operation {
        KeyOperation::Sign { input, .. } | KeyOperation::Decrypt { input } => input.len(),
    }
}

/// Whether a request for this operation is not too long to be sent.
pub fn has_room_for(operation: &KeyOperation) -> bool {
    HEAD_BYTES + input_bytes(operation) <= MAX_REQUEST_BYTES
}

/// Appends a request to what is to be sent.
pub fn put_request(target: &mut Vec<u8>, number: u64, key: KeyId, operation: &KeyOperation) {
    let (kind, scheme, input) = match operation {
        KeyOperation::Sign { scheme, input } => (SIGN, *scheme, input),
        KeyOperation::Decrypt { input } => (DECRYPT, 0, input),
    };
    let parts: [&[u8]; 5] = [
        &[kind],
        &number.to_le_bytes(),
        &key.0,
        &scheme.to_le_bytes(),
        input,
    ];
    put(target, &parts);
}

/// Appends an answer to what is to be sent.
pub fn put_answer(target: &mut Vec<u8>, number: u64, result: Result<&[u8], Reason>) {
    let (outcome, bytes) = match result {
        Ok(bytes) => (DONE, bytes),
        Err(reason) => (1 + reason as u8, &[][..]),
    };
    put(target, &[&[outcome], &number.to_le_bytes(), bytes]);
}

fn put(target: &mut Vec<u8>, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    // Every caller is far below the limits above.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    target.extend_from_slice(&length.to_le_bytes());
    parts.iter().for_each(|part| target.extend_from_slice(part));
}

/// Takes the next request from the front of what has arrived; `None` when it is not whole.
///
/// # Errors
///
/// When this is no request. Nothing behind it can be understood.
pub fn take_request(received: &mut &[u8]) -> Result<Option<Request>, Nonsense> {
    let Some(frame) = take(received, MAX_REQUEST_BYTES)? else {
        return Ok(None);
    };
    let request = || {
        let (&kind, rest) = frame.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let (scheme, input) = rest.split_first_chunk()?;
        let scheme = u16::from_le_bytes(*scheme);
        let input = input.to_vec();
        let operation = match (kind, scheme) {
            (SIGN, _) => KeyOperation::Sign { scheme, input },
            (DECRYPT, 0) => KeyOperation::Decrypt { input },
            _ => return None,
        };
        Some(Request {
            number: u64::from_le_bytes(*number),
            key: KeyId(*key),
            operation,
        })
    };
    request().map(Some).ok_or(Nonsense)
}

/// An answer: the number of its request, and the result.
pub type Answer<'a> = (u64, Result<&'a [u8], Reason>);

/// Takes the next answer from the front of what has arrived; `None` when it is not whole.
///
/// # Errors
///
/// When this is no answer.
pub fn take_answer<'a>(received: &mut &'a [u8]) -> Result<Option<Answer<'a>>, Nonsense> {
    let Some(frame) = take(received, MAX_ANSWER_BYTES)? else {
        return Ok(None);
    };
    let (&outcome, rest) = frame.split_first().ok_or(Nonsense)?;
    let (number, result) = rest.split_first_chunk().ok_or(Nonsense)?;
    let result = match usize::from(outcome).checked_sub(1) {
        None => Ok(result),
        Some(index) => {
            let reason = Reason::ALL.get(index).filter(|_| result.is_empty());
            Err(*reason.ok_or(Nonsense)?)
        }
    };
    Ok(Some((u64::from_le_bytes(*number), result)))
}

fn take<'a>(received: &mut &'a [u8], max_bytes: usize) -> Result<Option<&'a [u8]>, Nonsense> {
    let Some((length, rest)) = received.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > max_bytes {
        return Err(Nonsense);
    }
    let Some((frame, rest)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    *received = rest;
    Ok(Some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests() -> Vec<Request> {
        let key = KeyId(std::array::from_fn(|n| n as u8));
        let request = |number, operation| Request {
            number,
            key,
            operation,
        };
        let (scheme, input) = (0x0403, b"input".to_vec());
        vec![
            request(1, KeyOperation::Sign { scheme, input }),
            request(
                u64::MAX,
                KeyOperation::Decrypt {
                    input: vec![7; 256],
                },
            ),
        ]
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        for request in requests() {
            put_request(&mut bytes, request.number, request.key, &request.operation);
        }
        bytes
    }

    #[test]
    fn what_is_written_is_read_however_it_arrives() {
        let bytes = written();
        for cut in 0..=bytes.len() {
            let mut read = Vec::new();
            let mut rest = &bytes[..cut];
            while let Some(request) = take_request(&mut rest).expect("it is one") {
                read.push(request);
            }
            let kept = [rest, &bytes[cut..]].concat();
            let mut rest = &kept[..];
            while let Some(request) = take_request(&mut rest).expect("it is one") {
                read.push(request);
            }
            assert_eq!(read, requests(), "cut at {cut}");
        }
        let mut bytes = Vec::new();
        put_answer(&mut bytes, 9, Ok(b"signature"));
        for reason in Reason::ALL {
            put_answer(&mut bytes, 10, Err(reason));
        }
        let mut rest = &bytes[..];
        assert_eq!(take_answer(&mut rest), Ok(Some((9, Ok(&b"signature"[..])))));
        for reason in Reason::ALL {
            assert_eq!(take_answer(&mut rest), Ok(Some((10, Err(reason)))));
        }
        assert_eq!(take_answer(&mut rest), Ok(None));
    }

    #[test]
    fn the_longest_request_is_read() {
        let request = |bytes| KeyOperation::Sign {
            scheme: 0x0804,
            input: vec![1; bytes],
        };
        let most = MAX_REQUEST_BYTES - HEAD_BYTES;
        assert!(has_room_for(&request(most)));
        assert!(!has_room_for(&request(most + 1)));
        let mut bytes = Vec::new();
        put_request(&mut bytes, 1, KeyId([1; 32]), &request(most));
        assert_eq!(bytes.len(), 4 + MAX_REQUEST_BYTES);
        let read = take_request(&mut &bytes[..]).expect("it is one");
        assert_eq!(read.map(|it| it.operation), Some(request(most)));
    }

    #[test]
    fn lengths_beyond_the_limit_are_refused_before_anything_is_kept() {
        let longest = (MAX_REQUEST_BYTES as u32).to_le_bytes();
        assert_eq!(take_request(&mut &longest[..]), Ok(None));
        let longer = (MAX_REQUEST_BYTES as u32 + 1).to_le_bytes();
        assert_eq!(take_request(&mut &longer[..]), Err(Nonsense));
        assert_eq!(take_answer(&mut &[0xff; 4][..]), Err(Nonsense));
        // A frame without a kind, and one that ends within its number.
        assert_eq!(take_request(&mut &[0, 0, 0, 0][..]), Err(Nonsense));
        assert_eq!(take_answer(&mut &[2, 0, 0, 0, 0, 1][..]), Err(Nonsense));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_bytes_are_read_to_the_end_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &bytes[..];
            while let Ok(Some(request)) = take_request(&mut rest) {
                let mut again = Vec::new();
                put_request(&mut again, request.number, request.key, &request.operation);
                prop_assert_eq!(take_request(&mut &again[..]), Ok(Some(request)));
            }
            let mut rest = &bytes[..];
            while let Ok(Some(_)) = take_answer(&mut rest) {}
        }

        #[test]
        fn damaged_requests_are_read_or_refused(at in 0_usize..350, byte in any::<u8>()) {
            let mut bytes = written();
            let length = bytes.len();
            bytes[at % length] = byte;
            let mut rest = &bytes[..];
            while let Ok(Some(_)) = take_request(&mut rest) {}
        }
    }
}
