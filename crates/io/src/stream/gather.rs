//! Reads an output chain into memory, for data that TLS seals or that is sent without sendfile.
//! Files are read from the page cache at once, otherwise on a disk thread while the worker does
//! something else.

use crate::buffers::{self, BATCH_BYTES};
use crate::chain::{FileRange, OutputChain, Segment};
use crate::disk;
use sealane_sys::file;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Reads chains that are sent in order: what it has read ahead from a file range still belongs to
/// the front of the chain on the next call.
#[derive(Default)]
pub struct ChainReader {
    /// A disk read in progress on another thread, as it would have blocked the worker.
    disk_read: Option<DiskRead>,
    /// Its result, waiting to be sent.
    read_ahead: Option<ReadAhead>,
}

type DiskRead = Pin<Box<dyn Future<Output = (Vec<u8>, io::Result<usize>)> + Send>>;

/// File bytes read from disk off the worker thread.
struct ReadAhead {
    bytes: Vec<u8>,
    sent: usize,
}

/// Why part of a file cannot be sent.
#[derive(Debug)]
pub enum FileError {
    /// It ended before the length that was promised.
    Truncated {
        /// Where it ended.
        offset: u64,
    },
    /// It could not be read.
    Read(io::Error),
}

impl ChainReader {
    /// Appends up to `allowed` bytes of the chain to `plain`, as far as a batch has room. Returns
    /// the number of bytes appended; the caller then advances the chain by that much.
    ///
    /// If pending, it may have left bytes in `plain`: those that precede a file range that has to
    /// come from disk. They count as taken if the caller sends them.
    pub fn poll_gather(
        &mut self,
        cx: &mut Context<'_>,
        chain: &OutputChain,
        plain: &mut Vec<u8>,
        allowed: u64,
    ) -> Poll<Result<u64, FileError>> {
        let room = |plain: &Vec<u8>| BATCH_BYTES.saturating_sub(plain.len()) as u64;
        let mut taken = 0;
        for segment in chain.segments() {
            let take = segment.len().min(room(plain)).min(allowed - taken);
            if take == 0 {
                break;
            }
            match segment {
                Segment::Memory(bytes) => plain.extend_from_slice(&bytes[..take as usize]),
                Segment::File(range) => {
                    let before = plain.len();
                    match self.poll_read_file(cx, range, plain, take as usize) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending => return Poll::Pending,
                    }
                    let got = (plain.len() - before) as u64;
                    if let Some(ahead) = &mut self.read_ahead {
                        ahead.sent += got as usize;
                    }
                    self.drop_used_read_ahead();
                    if got < take {
                        return Poll::Ready(Ok(taken + got));
                    }
                }
            }
            taken += take;
        }
        Poll::Ready(Ok(taken))
    }

    /// Appends up to `max` bytes of a file range, directly if they are in the page cache, otherwise
    /// read from disk on another thread.
    fn poll_read_file(
        &mut self,
        cx: &mut Context<'_>,
        range: &FileRange,
        plain: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<(), FileError>> {
        let truncated = || FileError::Truncated {
            offset: range.offset,
        };
        if self.read_ahead.is_none() && self.disk_read.is_none() {
            match file::read_cached_at(range.file.as_fd(), plain, max, range.offset) {
                Ok(0) => return Poll::Ready(Err(truncated())),
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.disk_read = Some(spawn_read(range));
                }
                Err(error) => return Poll::Ready(Err(FileError::Read(error))),
            }
        }
        if let Some(read) = &mut self.disk_read {
            let (bytes, result) = ready!(read.as_mut().poll(cx));
            self.disk_read = None;
            match result {
                Ok(0) => return Poll::Ready(Err(truncated())),
                Ok(_) => self.read_ahead = Some(ReadAhead { bytes, sent: 0 }),
                Err(error) => return Poll::Ready(Err(FileError::Read(error))),
            }
        }
        if let Some(ahead) = &self.read_ahead {
            let rest = &ahead.bytes[ahead.sent..];
            plain.extend_from_slice(&rest[..rest.len().min(max)]);
        }
        Poll::Ready(Ok(()))
    }

    fn drop_used_read_ahead(&mut self) {
        if self
            .read_ahead
            .as_ref()
            .is_some_and(|ahead| ahead.sent >= ahead.bytes.len())
            && let Some(ahead) = self.read_ahead.take()
        {
            buffers::give_back(ahead.bytes);
        }
    }
}

/// Reads a batch of a file on a thread that may block.
fn spawn_read(range: &FileRange) -> DiskRead {
    let (file, offset) = (range.file.clone(), range.offset);
    let max = range.len.min(BATCH_BYTES as u64) as usize;
    let mut buffer = buffers::large();
    Box::pin(disk::run(move || {
        let result = file::read_at(file.as_fd(), &mut buffer, max, offset);
        (buffer, result)
    }))
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Truncated { offset } => write!(
                f,
                "the file being sent was truncated at byte {offset} after its length had been promised; closing the connection"
            ),
            FileError::Read(error) => write!(
                f,
                "pread() of the file being sent failed ({})",
                sealane_sys::OsError(error)
            ),
        }
    }
}

impl std::error::Error for FileError {}
