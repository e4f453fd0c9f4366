//! A channel, as the key process sees it.

use super::{Client, lock};
use crate::wire::{self, MAX_UNDER_WAY, MAX_UNDER_WAY_BYTES, Reason};
use sealane_sys::socket;
use sealane_tls::KeyOperation;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use zeroize::Zeroize;

/// Bytes that are read at a time.
pub(super) const READ_BYTES: usize = 16 << 10;

/// While so many bytes of answers wait for a worker that does not read them, nothing more is read
/// from it.
const MAX_UNSENT_BYTES: usize = 64 << 10;

/// A channel of a worker thread.
pub(crate) struct Channel {
    socket: UnixStream,
    client: Arc<Client>,
    /// Operations that wait, or are computed by another thread.
    under_way: AtomicUsize,
    /// What their requests have come to.
    under_way_bytes: AtomicUsize,
    /// It has more under way than it may; the thread that reads it goes on when that ends.
    is_held: AtomicBool,
    /// The other end is gone: nothing has to be computed for it.
    is_closed: AtomicBool,
    unsent: Mutex<Vec<u8>>,
}

/// What reading has come to.
pub(super) enum Reading<'b> {
    /// There was something; there may be more.
    Some(&'b [u8]),
    /// There is nothing more for now.
    Last(&'b [u8]),
    /// It is over.
    Closed,
}

impl Channel {
    pub(super) fn new(socket: UnixStream, client: &Arc<Client>) -> Self {
        client.channels.fetch_add(1, Ordering::Relaxed);
        Self {
            socket,
            client: Arc::clone(client),
            under_way: AtomicUsize::new(0),
            under_way_bytes: AtomicUsize::new(0),
            is_held: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            unsent: Mutex::default(),
        }
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Reads a piece into `buffer`.
    pub(super) fn read<'b>(&self, buffer: &'b mut [u8; READ_BYTES]) -> Reading<'b> {
        // The worker may have kept the socket, and made it a blocking one.
        match socket::receive_at_once(self.socket.as_fd(), buffer) {
            Ok(0) => Reading::Closed,
            // What arrives from now on is another event.
            Ok(count) if count < READ_BYTES => Reading::Last(&buffer[..count]),
            Ok(_) => Reading::Some(&buffer[..]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Reading::Last(&[]),
            Err(_) => Reading::Closed,
        }
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Another operation waits for another thread.
    pub(super) fn begin(&self, operation: &KeyOperation) {
        let bytes = wire::input_bytes(operation);
        self.under_way_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended. Whether the thread that reads the channel waits for that.
    fn end(&self, operation: &KeyOperation) -> bool {
        let bytes = wire::input_bytes(operation);
        self.under_way_bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.is_held.load(Ordering::SeqCst) && !self.has_too_much()
    }

    /// Whether its worker has more under way, or unread, than it may.
    fn has_too_much(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) >= MAX_UNDER_WAY
            || self.under_way_bytes.load(Ordering::SeqCst) >= MAX_UNDER_WAY_BYTES
            || lock(&self.unsent).len() >= MAX_UNSENT_BYTES
    }

    /// Whether nothing more is to be read for now.
    pub(super) fn holds(&self) -> bool {
        self.is_held.store(true, Ordering::SeqCst);
        let holds = self.has_too_much();
        if !holds {
            self.is_held.store(false, Ordering::SeqCst);
        }
        holds
    }

    /// Keeps an answer until [`flush`](Self::flush).
    pub(super) fn answer(&self, number: u64, result: Result<&[u8], Reason>) {
        wire::put_answer(&mut lock(&self.unsent), number, result);
    }

    /// The answer to an operation that another thread has computed. Whether the thread that reads
    /// the channel is to go on.
    #[must_use]
    pub(super) fn answer_later(
        &self,
        number: u64,
        operation: &KeyOperation,
        result: Result<&[u8], Reason>,
    ) -> bool {
        self.answer(number, result);
        self.end(operation)
    }

    /// Sends what can be sent.
    pub(super) fn flush(&self) {
        let mut unsent = lock(&self.unsent);
        let mut sent = 0;
        while sent < unsent.len() {
            match socket::send_at_once(self.socket.as_fd(), &unsent[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.is_closed.store(true, Ordering::Relaxed);
                    sent = unsent.len();
                }
            }
        }
        unsent[..sent].zeroize(); // premaster secrets
        unsent.drain(..sent);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.client.channels.fetch_sub(1, Ordering::Relaxed);
        lock(&self.unsent).zeroize();
    }
}
