//! Datagrams for another thread.

use super::Forwarded;
use sealane_sys::socket::Ecn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Datagrams that wait for a thread. Others are dropped: a thread that does not keep up would be
/// slower yet with more of them.
pub const QUEUE_DATAGRAMS: usize = 1024;
/// Bytes of these datagrams.
pub const QUEUE_BYTES: usize = 1 << 20;
/// Memory that an empty batch keeps, so that a few datagrams now and then allocate nothing.
const KEPT_BYTES: usize = 64 << 10;

/// The datagrams that other threads have for one: any of them may push, and one takes. They take
/// turns at a lock which each of them holds for no longer than it copies a datagram or exchanges a
/// buffer.
#[derive(Debug, Default)]
pub struct ForwardQueue {
    waiting: Mutex<Waiting>,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    batch: ForwardedBatch,
    reader: Option<Waker>,
}

impl ForwardQueue {
    /// Copies a datagram into the queue. Returns whether there was room.
    pub fn push(&self, datagram: Forwarded<&[u8]>) -> bool {
        let mut waiting = self.lock();
        let fits = waiting.batch.heads.len() < QUEUE_DATAGRAMS
            && datagram.bytes.len() <= QUEUE_BYTES.saturating_sub(waiting.batch.bytes.len());
        if !fits {
            drop(waiting);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        waiting.batch.push(datagram);
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
        true
    }

    /// Exchanges what has come with `batch`, whose datagrams have been dealt with. Ready if there
    /// is something in it now. The last one who has polled is woken.
    pub fn poll_take(&self, cx: &mut Context<'_>, batch: &mut ForwardedBatch) -> Poll<()> {
        batch.clear();
        let mut waiting = self.lock();
        if waiting.batch.heads.is_empty() {
            let known = waiting.reader.as_ref();
            if !known.is_some_and(|known| known.will_wake(cx.waker())) {
                waiting.reader = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        std::mem::swap(&mut waiting.batch, batch);
        Poll::Ready(())
    }

    /// Datagrams that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Datagrams that were taken from a queue.
#[derive(Debug, Default)]
pub struct ForwardedBatch {
    bytes: Vec<u8>,
    heads: Vec<Head>,
}

#[derive(Debug)]
struct Head {
    bytes: usize,
    peer: SocketAddr,
    local: SocketAddr,
    ecn: Ecn,
}

impl ForwardedBatch {
    /// The datagrams, in the order in which they have come.
    pub fn datagrams_mut(&mut self) -> impl Iterator<Item = Forwarded<&mut [u8]>> {
        let mut rest = &mut self.bytes[..];
        self.heads.iter().map(move |head| {
            let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(head.bytes);
            rest = behind;
            Forwarded {
                bytes,
                peer: head.peer,
                local: head.local,
                ecn: head.ecn,
            }
        })
    }

    fn push(&mut self, datagram: Forwarded<&[u8]>) {
        self.bytes.extend_from_slice(datagram.bytes);
        self.heads.push(Head {
            bytes: datagram.bytes.len(),
            peer: datagram.peer,
            local: datagram.local,
            ecn: datagram.ecn,
        });
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.heads.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            *self = ForwardedBatch::default();
        }
    }
}

#[cfg(test)]
mod tests;
