//! Datagrams for many peers, built where they are sent from, and sent in few calls.

use super::{DatagramSocket, Run, is_uncut};
use crate::buffers;
use crate::runtime::Direction;
use sealane_sys::socket::{self, BATCH_MESSAGES, Ecn, MAX_SEGMENTED_BYTES, MessageToSend};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

/// Bytes from which on a batch is full: what one pooled buffer holds, less the longest run that may
/// be built before somebody asks.
const FULL_BYTES: usize = buffers::LARGE_BYTES - MAX_SEGMENTED_BYTES;

/// Where a datagram goes to and comes from, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The peer.
    pub to: SocketAddr,
    /// The machine's own address; `None` leaves it to the kernel.
    pub from: Option<IpAddr>,
    /// What routers may say about congestion.
    pub ecn: Ecn,
    /// It may be too long for the network (RFC 9000 section 14.3). No other shares its message, so
    /// that none is lost with it.
    pub is_probe: bool,
}

/// A datagram that the interface does not take in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// What it was.
    pub transmit: Transmit,
    /// Its length.
    pub bytes: usize,
}

/// Datagrams that are to be sent. Equal ones for the same peer become one message, which the kernel
/// cuts. Holds no buffer while there are none.
#[derive(Debug, Default)]
pub struct SendBatch {
    bytes: Vec<u8>,
    /// Those before this position have gone.
    at: usize,
    /// Those from here on are being built.
    committed: usize,
    messages: VecDeque<Message>,
    sent: u64,
    lost: u64,
}

/// A run of datagrams.
#[derive(Debug)]
struct Message {
    transmit: Transmit,
    bytes: usize,
    segment_bytes: usize,
}

impl SendBatch {
    /// Whether there is nothing to be sent.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether it should be sent before more is added.
    pub fn is_full(&self) -> bool {
        self.committed - self.at >= FULL_BYTES || self.messages.len() >= BATCH_MESSAGES
    }

    /// Datagrams that the kernel has taken.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Datagrams that could not be sent for another reason than their length: there is no way to
    /// the peer, or a firewall forbids it. The transport takes them for lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Where to append datagrams; what is there already is not the caller's: whoever shortens it
    /// loses the batch. They are to be sent after [`SendBatch::commit`].
    pub fn room(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = buffers::large();
        }
        if self.at > self.committed - self.at {
            self.bytes.drain(..self.at);
            self.committed -= self.at;
            self.at = 0;
        }
        &mut self.bytes
    }

    /// What was appended is one datagram or, with `segment_bytes`, several of this size, of which
    /// the last may be shorter.
    pub fn commit(&mut self, transmit: Transmit, segment_bytes: Option<usize>) {
        self.forget_if_shortened();
        let mut left = self.bytes.len() - self.committed;
        let segment_bytes = segment_bytes.unwrap_or(left).max(1);
        while left > 0 {
            let length = left.min(segment_bytes);
            self.add(transmit, length);
            left -= length;
        }
    }

    /// Drops what was appended and not committed.
    pub fn discard(&mut self) {
        self.bytes.truncate(self.committed);
        self.release_if_empty();
    }

    /// Adds the next datagram to the last run or to a new one.
    fn add(&mut self, transmit: Transmit, length: usize) {
        let (bytes, committed) = (&self.bytes, self.committed);
        self.committed += length;
        if let Some(last) = self.messages.back_mut().filter(|last| {
            let run = Run {
                bytes: &bytes[committed - last.bytes..committed],
                segment_bytes: last.segment_bytes,
            };
            !transmit.is_probe && last.transmit == transmit && run.takes(length)
        }) {
            last.bytes += length;
            return;
        }
        self.messages.push_back(Message {
            transmit,
            bytes: length,
            segment_bytes: length,
        });
    }

    /// They, as messages.
    fn runs(&self) -> impl Iterator<Item = (Transmit, Run<'_>)> {
        let mut at = self.at;
        self.messages.iter().map(move |message| {
            let start = at;
            at += message.bytes;
            let run = Run {
                bytes: &self.bytes[start..at],
                segment_bytes: message.segment_bytes,
            };
            (message.transmit, run)
        })
    }

    /// The first ones have gone.
    fn advance(&mut self, mut datagrams: usize) {
        while datagrams > 0
            && let Some(first) = self.messages.front_mut()
        {
            let whole = first.bytes.div_ceil(first.segment_bytes);
            if whole <= datagrams {
                self.at += first.bytes;
                datagrams -= whole;
                self.messages.pop_front();
                continue;
            }
            let bytes = datagrams * first.segment_bytes;
            (self.at, first.bytes, datagrams) = (self.at + bytes, first.bytes - bytes, 0);
        }
        self.release_if_empty();
    }

    /// The bytes of messages are gone: so are the messages.
    fn forget_if_shortened(&mut self) {
        if self.bytes.len() < self.committed {
            let runs = self.messages.drain(..);
            let lost: usize = runs.map(|run| run.bytes.div_ceil(run.segment_bytes)).sum();
            self.lost = self.lost.saturating_add(lost as u64);
            self.bytes.clear();
            (self.at, self.committed) = (0, 0);
        }
    }

    fn release_if_empty(&mut self) {
        if self.messages.is_empty() && self.bytes.len() <= self.committed {
            buffers::release(&mut self.bytes);
            (self.at, self.committed) = (0, 0);
        }
    }

    /// The kernel does not take the first message, cut or not.
    fn drop_first(&mut self, error: &io::Error, refused: &mut impl FnMut(Refused)) {
        let Some((transmit, run)) = self.runs().next() else {
            return;
        };
        if error.raw_os_error() == Some(libc::EMSGSIZE) {
            let bytes = run.bytes.len().min(run.segment_bytes);
            refused(Refused { transmit, bytes });
            self.advance(1);
        } else {
            let count = run.count();
            self.lost = self.lost.saturating_add(count as u64);
            self.advance(count);
        }
    }
}

impl DatagramSocket {
    /// Sends a batch. Pending while the socket has no room: the batch keeps what is left then.
    /// Datagrams that are too long for the interface are reported, and none of them is an error,
    /// nor is what became of others: see [`SendBatch::lost`].
    ///
    /// # Errors
    /// The socket belongs to the event loop of another thread.
    pub fn poll_send_batch(
        &self,
        cx: &mut Context<'_>,
        batch: &mut SendBatch,
        mut refused: impl FnMut(Refused),
    ) -> Poll<io::Result<()>> {
        batch.forget_if_shortened();
        while !batch.is_empty() {
            ready!(self.poll_ready(cx, Direction::Output))?;
            match self.send_some(batch) {
                Ok(datagrams) => {
                    batch.sent = batch.sent.saturating_add(datagrams as u64);
                    batch.advance(datagrams);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.clear_stale(Direction::Output);
                }
                Err(error) => batch.drop_first(&error, &mut refused),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what one call takes; returns how many datagrams that was, at least one. An error is
    /// one of the first message, or of the first datagram in it.
    fn send_some(&self, batch: &SendBatch) -> io::Result<usize> {
        if !self.cuts.get() {
            return self.send_messages(cut(batch.runs()));
        }
        self.send_messages(batch.runs()).or_else(|error| {
            let mut first = batch.runs().take(1);
            let is_run = first.next().is_some_and(|(_, run)| run.count() > 1);
            if !(is_run && is_uncut(&error)) {
                return Err(error);
            }
            // If that was the reason, it is one for all that follow.
            let sent = self.send_messages(cut(batch.runs().take(1)))?;
            self.cuts.set(false);
            Ok(sent)
        })
    }

    fn send_messages<'a>(
        &self,
        runs: impl Iterator<Item = (Transmit, Run<'a>)>,
    ) -> io::Result<usize> {
        let mut messages = SmallVec::<[MessageToSend<'_>; BATCH_MESSAGES]>::new();
        messages.extend(
            runs.take(BATCH_MESSAGES)
                .map(|(transmit, run)| MessageToSend {
                    bytes: run.bytes,
                    segment_bytes: run.segment_bytes,
                    to: Some(transmit.to),
                    from: transmit.from,
                    ecn: transmit.ecn,
                }),
        );
        let taken = socket::send_datagrams(self.as_fd(), &messages)?;
        Ok(DatagramSocket::count(&messages[..taken]))
    }
}

/// The same datagrams, each by itself.
fn cut<'a>(
    runs: impl Iterator<Item = (Transmit, Run<'a>)>,
) -> impl Iterator<Item = (Transmit, Run<'a>)> {
    runs.flat_map(|(transmit, run)| run.cut().map(move |one| (transmit, one)))
}

#[cfg(test)]
mod tests;
