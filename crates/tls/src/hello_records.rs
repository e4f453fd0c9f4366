//! Collects a ClientHello that does not arrive in one piece.
//!
//! However small the incoming records are, the message is stored in records of the maximum size
//! (record boundaries mean nothing to the handshake). So a byte of the message takes a byte of
//! memory, and each byte is examined once.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client_hello::{
    MAX_FRAGMENT_BYTES, MAX_HELLO_BYTES, MESSAGE_HEADER_BYTES, RECORD_HEADER_BYTES,
    USUAL_HELLO_BYTES, fragment_length, message_length,
};

/// How many clients of the process may be sending a hello of more than 16 KiB at the same time: 33
/// MB for all of them. It is not configurable, as no client in use sends one: with ML-KEM keys a
/// hello has 2 KB, and a browser's resumption with a ticket no more than 4 KB. A client that takes
/// all slots keeps nobody else from connecting.
const MAX_LARGE_HELLOS: usize = 256;

/// The records of a hello collected so far.
#[derive(Default)]
pub(crate) struct HelloRecords {
    /// In the form that libssl gets.
    records: Vec<u8>,
    /// Where the header of the last one is.
    last_at: usize,
    /// The header of a record that is not complete yet.
    header: [u8; RECORD_HEADER_BYTES],
    header_bytes: usize,
    /// How many bytes of the current record are still missing.
    missing: usize,
    /// How many bytes of the message have arrived.
    message_bytes: usize,
    large: Option<LargeHello>,
}

/// The state of the hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collected {
    /// More is needed.
    Incomplete,
    /// It is complete, or cannot be a hello: libssl continues with what was collected and what
    /// follows.
    Ready,
    /// It is too long.
    TooLarge,
    /// It is a large hello, and the maximum number is being sent already.
    TooMany,
}

impl HelloRecords {
    /// Whether nothing has arrived yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.header_bytes == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len() + self.header_bytes
    }

    /// Takes what belongs to the hello from `input`.
    pub(crate) fn push(&mut self, input: &mut &[u8]) -> Collected {
        while !input.is_empty() {
            if self.missing > 0 {
                let (fragment, rest) = input.split_at(self.missing.min(input.len()));
                *input = rest;
                self.append(fragment);
                match self.judge() {
                    Collected::Incomplete => {}
                    collected => return collected,
                }
                continue;
            }
            self.header[self.header_bytes] = input[0];
            self.header_bytes += 1;
            *input = &input[1..];
            let is_other = self.header[0] != 22;
            if is_other || self.header_bytes == RECORD_HEADER_BYTES {
                match fragment_length(&self.header).filter(|_| !is_other) {
                    Some(length) => self.missing = length,
                    None => {
                        self.records
                            .extend_from_slice(&self.header[..self.header_bytes]);
                        self.header_bytes = 0;
                        return Collected::Ready;
                    }
                }
                self.begin_record();
                self.header_bytes = 0;
            }
        }
        Collected::Incomplete
    }

    /// The records: those of the complete hello, or of something in which libssl will find the
    /// error.
    pub(crate) fn take(&mut self) -> (Vec<u8>, Option<LargeHello>) {
        (std::mem::take(&mut self.records), self.large.take())
    }

    fn begin_record(&mut self) {
        if self.records.is_empty() {
            self.records.extend_from_slice(&self.header[..3]);
            self.records.extend_from_slice(&[0, 0]);
        }
    }

    fn append(&mut self, mut fragment: &[u8]) {
        self.missing -= fragment.len();
        self.message_bytes += fragment.len();
        while !fragment.is_empty() {
            let mut length = self.records.len() - self.last_at - RECORD_HEADER_BYTES;
            if length == MAX_FRAGMENT_BYTES {
                let start = self.last_at..self.last_at + 3;
                self.last_at = self.records.len();
                self.records.extend_from_within(start);
                self.records.extend_from_slice(&[0, 0]);
                length = 0;
            }
            let (now, later) = fragment.split_at(fragment.len().min(MAX_FRAGMENT_BYTES - length));
            self.records.extend_from_slice(now);
            let length = u16::try_from(length + now.len()).unwrap_or(u16::MAX);
            self.records[self.last_at + 3..self.last_at + RECORD_HEADER_BYTES]
                .copy_from_slice(&length.to_be_bytes());
            fragment = later;
        }
    }

    /// Evaluates the hello after another fragment.
    fn judge(&mut self) -> Collected {
        let start = self.records.get(RECORD_HEADER_BYTES..).unwrap_or(&[]);
        let Some(length) = message_length(start) else {
            return Collected::Incomplete;
        };
        if start[0] != 1 {
            // libssl refuses any other message as soon as it has a whole record of it.
            return match self.missing {
                0 => Collected::Ready,
                _ => Collected::Incomplete,
            };
        }
        if length > MESSAGE_HEADER_BYTES + MAX_HELLO_BYTES {
            return Collected::TooLarge;
        }
        if length > MESSAGE_HEADER_BYTES + USUAL_HELLO_BYTES && self.large.is_none() {
            self.large = LargeHello::admit();
            if self.large.is_none() {
                return Collected::TooMany;
            }
        }
        match self.missing == 0 && self.message_bytes >= length {
            true => Collected::Ready,
            false => Collected::Incomplete,
        }
    }
}

/// The slot of one hello of more than 16 KiB. The number of slots is per process and the only state
/// that threads share here, since memory belongs to the process.
pub(crate) struct LargeHello(());

static LARGE_HELLOS: AtomicUsize = AtomicUsize::new(0);

impl LargeHello {
    fn admit() -> Option<Self> {
        let before = LARGE_HELLOS.fetch_add(1, Ordering::Relaxed);
        let place = Self(());
        (before < MAX_LARGE_HELLOS).then_some(place)
    }
}

impl Drop for LargeHello {
    fn drop(&mut self) {
        LARGE_HELLOS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
