//! The part of a response that has been read from the peer and not yet been sent to the client:
//! in memory, and in a temporary file once memory is full.
//!
//! ```text
//! peer -> fresh (memory) -> moving (being written) -> filed (temporary file) -> client
//!              \________________\_________________________________________________^
//! ```
//!
//! The client gets the file ranges first, then the bytes that are being written (from memory,
//! which still has them), then those that were read last. Memory counts until it is freed,
//! including what the client's connection holds and has not sent. So a response takes no more
//! than its buffers, however slow the client is.

use crate::temp_file::{Keep, TempFile, TempFileError};
use bytes::Bytes;
use sealane_conf::model::TempPath;
use sealane_io::chain::{OutputChain, Segment};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Smaller pieces are collected: each would otherwise occupy an allocation of its own.
const GATHERED_BYTES: usize = 4 << 10;
/// One TLS record: the client is given multiples of it, if the buffers allow.
const RECORD_BYTES: u64 = 16 << 10;

/// Limits of what is kept of a response for a slow client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes in memory: `proxy_buffer_size` and all of `proxy_buffers`; without
    /// buffering `proxy_buffer_size` alone.
    pub(super) memory_bytes: u64,
    /// `proxy_busy_buffers_size`: bytes that the client's connection holds while the
    /// response goes on.
    pub(super) busy_bytes: u64,
    /// `proxy_max_temp_file_size`; 0 without buffering.
    pub(super) temp_file_bytes: u64,
    /// `proxy_temp_file_write_size`: bytes written by one call.
    pub(super) write_bytes: u64,
}

/// What has moved from memory to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing is being written.
    Nothing,
    /// Memory has been freed.
    ToFile,
}

/// Bytes between a peer and a client.
pub(super) struct ResponseBuffer {
    limits: Limits,
    /// The range of the file that is still to be sent: one range, as the file only grows at its
    /// end.
    filed: Range<u64>,
    moving: Option<Moving>,
    fresh: OutputChain,
    fresh_bytes: u64,
    /// Small pieces behind `fresh`.
    gathered: Vec<u8>,
    /// Bytes of memory that the client's connection holds.
    busy: Option<Arc<AtomicU64>>,
    file: Option<TempFile>,
}

/// Memory that is being written to the file.
struct Moving {
    /// The part that the client has not been given meanwhile.
    left: OutputChain,
    /// Where `left` will be in the file.
    offset: u64,
    left_bytes: u64,
    /// All that is being written.
    bytes: u64,
    writing: Writing,
}

/// Gives the file if it was made.
type Writing = Pin<Box<dyn Future<Output = Result<Option<TempFile>, TempFileError>> + Send>>;

/// Memory that counts as busy until it is freed.
struct Busy {
    bytes: Bytes,
    total: Arc<AtomicU64>,
}

impl AsRef<[u8]> for Busy {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let count = self.bytes.len() as u64;
        // A count, which orders nothing.
        self.total.fetch_sub(count, Ordering::Relaxed);
    }
}

impl ResponseBuffer {
    pub(super) fn new(limits: Limits) -> ResponseBuffer {
        ResponseBuffer {
            limits,
            filed: 0..0,
            moving: None,
            fresh: OutputChain::new(),
            fresh_bytes: 0,
            gathered: Vec::new(),
            busy: None,
            file: None,
        }
    }

    /// Adds a piece of the response, which was read with a buffer of `read_bytes`.
    pub(super) fn push(&mut self, piece: Bytes, read_bytes: usize) {
        self.fresh_bytes += piece.len() as u64;
        // A piece that does not fill its buffer would occupy more memory than it counts for.
        let fills = piece.len() >= read_bytes / 2 && piece.len() >= GATHERED_BYTES;
        if fills {
            self.end_gathering();
            return self.fresh.push_bytes(piece);
        }
        if self.gathered.len() + piece.len() > GATHERED_BYTES.max(piece.len()) {
            self.end_gathering();
        }
        if self.gathered.is_empty() {
            self.gathered.reserve_exact(piece.len());
        }
        self.gathered.extend_from_slice(&piece);
    }

    fn end_gathering(&mut self) {
        if !self.gathered.is_empty() {
            self.fresh.push_bytes(std::mem::take(&mut self.gathered));
        }
    }

    /// Whether the client has been given everything.
    pub(super) fn is_empty(&self) -> bool {
        let moving = self.moving.as_ref().map_or(0, |moving| moving.left_bytes);
        self.fresh_bytes == 0 && moving == 0 && self.filed.is_empty()
    }

    /// Bytes that may be read before memory is full.
    pub(super) fn room(&self) -> u64 {
        let moving = self.moving.as_ref().map_or(0, |moving| moving.bytes);
        let used = self.fresh_bytes + moving + self.busy_bytes();
        self.limits.memory_bytes.saturating_sub(used)
    }

    /// Bytes of memory that the client's connection was given and has not sent.
    pub(super) fn busy_bytes(&self) -> u64 {
        self.busy
            .as_ref()
            .map_or(0, |busy| busy.load(Ordering::Relaxed))
    }

    /// All of a response that has arrived at once.
    pub(super) fn take_all(&mut self, out: &mut OutputChain) {
        self.end_gathering();
        self.fresh_bytes = 0;
        out.append(std::mem::take(&mut self.fresh));
    }

    /// Gives the client up to `max_bytes`, in order: memory as far as the busy buffers allow, and
    /// all of it when the response `is_complete`. Returns how much.
    pub(super) fn give(&mut self, out: &mut OutputChain, max_bytes: u64, is_complete: bool) -> u64 {
        let mut given = 0;
        if let Some(file) = &self.file {
            given = max_bytes.min(self.filed.end - self.filed.start);
            out.push(file.segment(self.filed.start, given));
            self.filed.start += given;
        }
        let idle = match is_complete {
            true => u64::MAX,
            false => self.max_busy_bytes().saturating_sub(self.busy_bytes()),
        };
        let mut memory = idle.min(max_bytes - given);
        if let Some(moving) = &mut self.moving {
            let count = memory.min(moving.left_bytes);
            lend(&mut self.busy, moving.left.split_to(count), out);
            moving.left_bytes -= count;
            moving.offset += count;
            memory -= count;
            given += count;
        }
        self.end_gathering();
        let count = memory.min(self.fresh_bytes);
        lend(&mut self.busy, self.fresh.split_to(count), out);
        self.fresh_bytes -= count;
        given + count
    }

    /// Half of the memory, in whole TLS records, or `proxy_busy_buffers_size` if that
    /// is more: with less than a record at a time sealing and sending cost much more.
    /// Without a file there is nothing to keep memory free for.
    fn max_busy_bytes(&self) -> u64 {
        let limits = &self.limits;
        if limits.temp_file_bytes == 0 {
            return limits.memory_bytes;
        }
        let half = limits.memory_bytes / 2;
        let records = half - half % RECORD_BYTES;
        limits.busy_bytes.max(records)
    }

    /// Whether memory can be freed by writing it to the file.
    pub(super) fn can_move(&self) -> bool {
        let used = self.file.as_ref().map_or(0, TempFile::len);
        self.moving.is_none() && self.fresh_bytes > 0 && used < self.limits.temp_file_bytes
    }

    /// Begins to write what is in memory to the file.
    pub(super) fn begin_to_move(&mut self, temp_path: &Arc<TempPath>) {
        self.end_gathering();
        if self.filed.is_empty() {
            // All of the file has been given to the client. Its pages may still be in use, so the
            // next bytes go to another file instead of overwriting them.
            self.file = None;
        }
        let left = std::mem::take(&mut self.fresh);
        let bytes = std::mem::take(&mut self.fresh_bytes);
        let max_write = usize::try_from(self.limits.write_bytes.max(1)).unwrap_or(usize::MAX);
        let pieces = left.segments().filter_map(|segment| match segment {
            Segment::Memory(bytes) => Some(bytes.clone()),
            Segment::File(_) => None,
        });
        let mut writes = Vec::new();
        for mut piece in pieces {
            while piece.len() > max_write {
                writes.push(piece.split_to(max_write));
            }
            writes.push(piece);
        }
        let offset = self.file.as_ref().map_or(0, TempFile::len);
        let writing: Writing = match &mut self.file {
            Some(file) => {
                let written = file.append(writes);
                Box::pin(async { written.await.map(|()| None) })
            }
            None => Box::pin(write_first(Arc::clone(temp_path), writes)),
        };
        self.moving = Some(Moving {
            left,
            offset,
            left_bytes: bytes,
            bytes,
            writing,
        });
    }

    /// Continues to write.
    ///
    /// # Errors
    /// When the file cannot be created or written.
    pub(super) fn poll_move(&mut self, cx: &mut Context<'_>) -> Poll<Result<Moved, TempFileError>> {
        let Some(moving) = &mut self.moving else {
            return Poll::Ready(Ok(Moved::Nothing));
        };
        let written = std::task::ready!(moving.writing.as_mut().poll(cx));
        let (offset, left_bytes) = (moving.offset, moving.left_bytes);
        self.moving = None;
        if let Some(file) = written? {
            self.file = Some(file);
        }
        if self.filed.is_empty() {
            self.filed.start = offset;
        }
        self.filed.end = offset + left_bytes;
        Poll::Ready(Ok(Moved::ToFile))
    }

    /// The file, if there is one.
    pub(super) fn file(&self) -> Option<&TempFile> {
        self.file.as_ref()
    }
}

async fn write_first(
    temp_path: Arc<TempPath>,
    pieces: Vec<Bytes>,
) -> Result<Option<TempFile>, TempFileError> {
    let mut file = TempFile::create(&temp_path, Keep::Unnamed).await?;
    file.append(pieces).await?;
    Ok(Some(file))
}

/// Moves memory to the client's chain, where it counts until it has been sent.
fn lend(busy: &mut Option<Arc<AtomicU64>>, given: OutputChain, out: &mut OutputChain) {
    for segment in given.segments() {
        let Segment::Memory(bytes) = segment else {
            continue;
        };
        let total = busy.get_or_insert_default();
        total.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        out.push_bytes(Bytes::from_owner(Busy {
            bytes: bytes.clone(),
            total: Arc::clone(total),
        }));
    }
}

#[cfg(test)]
mod tests;
