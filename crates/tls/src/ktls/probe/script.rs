//! The script of a test: what is sent and must arrive unchanged.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use sealane_awslc::fill_random;
use sealane_sys::{file, ktls, socket};

use super::loopback::{Pair, Sent, Taken};
use super::records::{self, Opener, RecordKeys, Sealer};
use super::unavailable::{Flaw, Unavailable};

/// Bytes of a sample: a dozen records, and more than the sockets' buffers hold.
const SAMPLE_BYTES: usize = (256 << 10) + 4_099;
/// How many of them are the head of a response; the rest is its file, which therefore starts in the
/// middle of a page.
const HEAD_BYTES: usize = 1_237;
/// Where sending the file is interrupted for the first time.
const PART_END: usize = HEAD_BYTES + 30_001;

/// warning, close_notify (RFC 8446 section 6.1).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// KeyUpdate, `update_not_requested` (RFC 8446 section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// Random bytes, in memory and in a file.
pub(super) struct Sample {
    pub(super) content: Vec<u8>,
    pub(super) file: File,
}

impl Sample {
    pub(super) fn new() -> Result<Sample, Unavailable> {
        let mut content = vec![0; SAMPLE_BYTES];
        fill_random(&mut content);
        let mut file = file::memory_file(c"sealane-self-test")
            .map_err(|error| Unavailable::failed("memfd_create()", &error))?;
        file.write_all(&content)
            .map_err(|error| Unavailable::failed("writing to memory", &error))?;
        Ok(Sample { content, file })
    }
}

/// One thing that the sender does.
enum ScriptStep {
    /// send(2) with `MSG_MORE`, from the sample in memory.
    Head(Range<usize>),
    /// sendfile(2) from the sample's file.
    File(Range<usize>),
    /// One record of a type of its own.
    Record(u8, &'static [u8]),
    /// New keys for the kernel.
    Keys(Box<RecordKeys>),
}

/// Steps, in order.
pub(super) struct Script<'a> {
    sample: &'a Sample,
    steps: VecDeque<ScriptStep>,
}

impl<'a> Script<'a> {
    /// A response as the server sends it, and the end of the connection.
    pub(super) fn response(sample: &'a Sample) -> Script<'a> {
        Script {
            sample,
            steps: VecDeque::from([
                ScriptStep::Head(0..HEAD_BYTES),
                ScriptStep::File(HEAD_BYTES..PART_END),
                ScriptStep::File(PART_END..SAMPLE_BYTES),
                ScriptStep::Record(records::ALERT, &CLOSE_NOTIFY),
            ]),
        }
    }

    /// A response in the middle of which the key changes.
    pub(super) fn key_update(sample: &'a Sample, new: RecordKeys) -> Script<'a> {
        Script {
            sample,
            steps: VecDeque::from([
                ScriptStep::Head(0..HEAD_BYTES),
                ScriptStep::File(HEAD_BYTES..PART_END),
                ScriptStep::Record(records::HANDSHAKE, &KEY_UPDATE),
                ScriptStep::Keys(Box::new(new)),
                ScriptStep::File(PART_END..SAMPLE_BYTES),
                ScriptStep::Record(records::ALERT, &CLOSE_NOTIFY),
            ]),
        }
    }

    /// The data alone, for sockets that make no records.
    #[cfg(test)]
    pub(super) fn without_end(mut self) -> Script<'a> {
        self.steps
            .retain(|step| matches!(step, ScriptStep::Head(_) | ScriptStep::File(_)));
        self
    }

    /// Sends everything through the kernel, which has `keys`, and checks what
    /// arrives.
    ///
    /// [`Unavailable::Corrupts`] when anything other than what was sent arrives.
    pub(super) fn play(
        mut self,
        pair: &Pair,
        keys: RecordKeys,
        deadline: Instant,
    ) -> Result<(), Unavailable> {
        let mut expectation = Expectation::new(&self, keys)?;
        pair.drive(
            deadline,
            |socket| self.send(socket),
            |bytes| expectation.take(bytes),
        )?;
        Ok(())
    }

    /// Does the next step, or a part of it.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>) -> Result<Sent, Unavailable> {
        let Some(step) = self.steps.front_mut() else {
            return Ok(Sent::All);
        };
        let (call, sent) = match step {
            ScriptStep::Head(range) => {
                let bytes = &self.sample.content[range.clone()];
                ("send()", advance(range, socket::send(socket, bytes, true)))
            }
            ScriptStep::File(range) => {
                let (offset, count) = (range.start as u64, range.len());
                let sent = file::sendfile(socket, self.sample.file.as_fd(), offset, count);
                ("sendfile()", advance(range, sent))
            }
            ScriptStep::Record(kind, bytes) => {
                let sent = ktls::send_record(socket, *kind, bytes);
                ("sendmsg()", sent.map(|_| true))
            }
            ScriptStep::Keys(keys) => match ktls::set_transmit(socket, &keys.for_kernel()) {
                Ok(()) => ("", Ok(true)),
                Err(error) => return Err(Unavailable::of_new_keys(&error)),
            },
        };
        match sent {
            Ok(done) => {
                if done {
                    self.steps.pop_front();
                }
                Ok(Sent::Some)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Sent::Full),
            Err(error) => Err(Unavailable::failed(call, &error)),
        }
    }
}

/// Removes the sent bytes from `range`; true if nothing is left of it.
fn advance(range: &mut Range<usize>, sent: io::Result<usize>) -> io::Result<bool> {
    match sent? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        sent => {
            range.start += sent;
            Ok(range.start == range.end)
        }
    }
}

/// What must arrive, in order.
enum Piece {
    /// Application data, in records of any length.
    Data(Range<usize>),
    /// Exactly one record of this type.
    Record(u8, &'static [u8]),
    /// From here on the next records are under these keys.
    Keys(Box<RecordKeys>),
}

/// Opens what arrives, and compares every byte with what was sent.
pub(super) struct Expectation<'a> {
    content: &'a [u8],
    pieces: VecDeque<Piece>,
    opener: Opener,
    suite: (ktls::Version, ktls::Cipher),
}

impl<'a> Expectation<'a> {
    /// The expectation for a script that has not begun, under `keys`.
    pub(super) fn new(
        script: &Script<'a>,
        keys: RecordKeys,
    ) -> Result<Expectation<'a>, Unavailable> {
        let mut pieces: VecDeque<Piece> = VecDeque::new();
        for step in &script.steps {
            match (step, pieces.back_mut()) {
                (ScriptStep::Head(range) | ScriptStep::File(range), Some(Piece::Data(last))) => {
                    last.end = range.end;
                }
                (ScriptStep::Head(range) | ScriptStep::File(range), _) => {
                    pieces.push_back(Piece::Data(range.clone()));
                }
                (ScriptStep::Record(kind, bytes), _) => {
                    pieces.push_back(Piece::Record(*kind, bytes))
                }
                (ScriptStep::Keys(keys), _) => pieces.push_back(Piece::Keys(keys.clone())),
            }
        }
        Ok(Expectation {
            content: &script.sample.content,
            pieces,
            suite: (keys.version, keys.cipher),
            opener: Opener::new(keys)?,
        })
    }

    /// Takes bytes from the wire.
    ///
    /// # Errors
    /// [`Unavailable::Corrupts`] at the first difference.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Taken, Unavailable> {
        self.opener.feed(bytes);
        loop {
            if let Some(Piece::Keys(_)) = self.pieces.front()
                && let Some(Piece::Keys(keys)) = self.pieces.pop_front()
            {
                self.opener.change(*keys)?;
            }
            if self.pieces.is_empty() {
                return match self.opener.unopened_bytes() {
                    0 => Ok(Taken::Complete),
                    _ => Err(self.corrupts(Flaw::Surplus)),
                };
            }
            match self.opener.next() {
                Ok(None) => return Ok(Taken::Incomplete),
                Ok(Some(record)) => self.compare(&record)?,
                Err(flaw) => return Err(self.corrupts(flaw)),
            }
        }
    }

    /// Removes one record from what must still arrive.
    fn compare(&mut self, record: &records::Record) -> Result<(), Unavailable> {
        let number = self.opener.number() - 1;
        let wrong_type = Flaw::Type { record: number };
        let flaw = match self.pieces.front_mut() {
            Some(Piece::Data(range)) if record.kind == records::DATA => {
                let arrived = record.content.len();
                if arrived > range.len() {
                    Some(Flaw::Surplus)
                } else if let Some(at) = difference(&record.content, &self.content[range.clone()]) {
                    Some(Flaw::Content {
                        offset: (range.start + at) as u64,
                    })
                } else {
                    range.start += arrived;
                    if range.start == range.end {
                        self.pieces.pop_front();
                    }
                    None
                }
            }
            Some(Piece::Record(kind, bytes)) if record.kind == *kind => {
                if record.content == *bytes {
                    self.pieces.pop_front();
                    None
                } else {
                    Some(wrong_type)
                }
            }
            _ => Some(wrong_type),
        };
        flaw.map_or(Ok(()), |flaw| Err(self.corrupts(flaw)))
    }

    fn corrupts(&self, flaw: Flaw) -> Unavailable {
        let (version, cipher) = self.suite;
        Unavailable::Corrupts {
            version,
            cipher,
            flaw,
        }
    }
}

/// Where `arrived` first differs from the beginning of `sent`.
fn difference(arrived: &[u8], sent: &[u8]) -> Option<usize> {
    arrived.iter().zip(sent).position(|(a, b)| a != b)
}

/// A sample sealed by the TLS library, for the kernel to open.
pub(super) struct Reception<'a> {
    sample: &'a Sample,
    wire: Vec<u8>,
}

impl<'a> Reception<'a> {
    /// Seals the sample in records of several lengths.
    pub(super) fn new(sample: &'a Sample, keys: &RecordKeys) -> Result<Reception<'a>, Unavailable> {
        let mut sealer = Sealer::new(keys.clone())?;
        let (mut wire, mut rest) = (Vec::new(), &sample.content[..]);
        for length in [1, records::MAX_CONTENT_BYTES, 7_001].into_iter().cycle() {
            let (content, after) = rest.split_at(length.min(rest.len()));
            wire.extend(sealer.seal(records::DATA, content)?);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        Ok(Reception { sample, wire })
    }

    /// Sends the records to a socket whose kernel has the keys, and compares what it returns.
    ///
    /// # Errors
    /// [`Unavailable::Corrupts`] when that is something else.
    pub(super) fn play(
        self,
        pair: &Pair,
        keys: RecordKeys,
        deadline: Instant,
    ) -> Result<(), Unavailable> {
        let mut unsent = 0..self.wire.len();
        let mut missing = &self.sample.content[..];
        pair.drive(
            deadline,
            |socket| {
                if unsent.is_empty() {
                    return Ok(Sent::All);
                }
                let bytes = &self.wire[unsent.clone()];
                match advance(&mut unsent, socket::send(socket, bytes, false)) {
                    Ok(_) => Ok(Sent::Some),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Sent::Full),
                    Err(error) => Err(Unavailable::failed("send()", &error)),
                }
            },
            |bytes| {
                let at = SAMPLE_BYTES - missing.len();
                let flaw = if bytes.len() > missing.len() {
                    Flaw::Surplus
                } else if let Some(difference) = difference(bytes, missing) {
                    Flaw::Content {
                        offset: (at + difference) as u64,
                    }
                } else {
                    missing = &missing[bytes.len()..];
                    return Ok(if missing.is_empty() {
                        Taken::Complete
                    } else {
                        Taken::Incomplete
                    });
                };
                Err(Unavailable::Corrupts {
                    version: keys.version,
                    cipher: keys.cipher,
                    flaw,
                })
            },
        )?;
        Ok(())
    }
}
