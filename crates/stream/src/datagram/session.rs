//! One client of a listening socket.

use super::listener::{Key, Table};
use super::{Packets, Traffic};
use sealane_io::datagram::{Path, Run};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A client of a listening socket, until this is dropped.
pub struct Session {
    pub(super) table: Rc<Table>,
    pub(super) inner: Rc<Inner>,
}

pub(super) struct Inner {
    pub(super) key: Key,
    /// What comes from there is for this session.
    pub(super) is_bound: Cell<bool>,
    /// It gets so many datagrams; 0 for no limit.
    pub(super) max_requests: u64,
    pub(super) waiting: RefCell<Packets>,
    pub(super) received: Cell<Traffic>,
    /// The last batch with something for it, and whether as much waited already as may.
    pub(super) last_batch: Cell<u64>,
    pub(super) is_full: Cell<bool>,
    reader: Cell<Option<Waker>>,
}

impl Inner {
    pub(super) fn new(key: Key, max_requests: u64) -> Inner {
        Inner {
            key,
            is_bound: Cell::new(true),
            max_requests,
            waiting: RefCell::default(),
            received: Cell::default(),
            last_batch: Cell::default(),
            is_full: Cell::default(),
            reader: Cell::default(),
        }
    }

    /// Something has arrived.
    pub(super) fn wake(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Session {
    /// The client's address.
    pub fn client(&self) -> SocketAddr {
        self.inner.key.client
    }

    /// The address that it has sent to.
    pub fn local(&self) -> SocketAddr {
        let mut address = self.table.address;
        if let Some(ip) = self.inner.key.local {
            address.set_ip(ip);
        }
        address
    }

    /// Looks at the first datagram that waits; there is one from the start.
    pub fn peek<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.inner.waiting.borrow().first().map(look)
    }

    /// What the client has sent so far, and was kept.
    pub fn received(&self) -> Traffic {
        self.inner.received.get()
    }

    /// Whether datagrams wait to be taken.
    pub fn has_waiting(&self) -> bool {
        !self.inner.waiting.borrow().is_empty()
    }

    /// Takes what the client has sent, at least one datagram. Pending for ever once the session has
    /// had all it gets (`max_requests`).
    pub fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Packets> {
        if !self.has_waiting() {
            self.inner.reader.set(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        let waiting = self.inner.waiting.take();
        self.table.note_taken(waiting.byte_count());
        Poll::Ready(waiting)
    }

    /// Sends datagrams to the client, from the address that it has sent to, at most one batch.
    /// Ready with how many the kernel has taken, at least one.
    ///
    /// # Errors
    /// Why the first one cannot be sent.
    pub fn poll_send<'a>(
        &self,
        cx: &mut Context<'_>,
        runs: impl Iterator<Item = Run<'a>> + Clone,
    ) -> Poll<io::Result<usize>> {
        let path = Path {
            to: Some(self.inner.key.client),
            from: self.inner.key.local,
        };
        // Other sessions may wait for the same socket.
        let everyone = Waker::from(Arc::clone(&self.table.writers));
        let mut shared = Context::from_waker(&everyone);
        let sent = self.table.socket.poll_send(&mut shared, path, runs);
        if sent.is_pending() {
            self.table.writers.add(cx.waker());
        }
        sent
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.table.end(&self.inner);
    }
}
