//! What a byte stream needs from a TLS connection, on either side.
//!
//! Both [`Connection`](crate::Connection) and [`client::Connection`](crate::client::Connection)
//! implement it without I/O: received bytes go in, bytes to send come out. `sealane_io::Stream`
//! moves the bytes.

use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use sealane_awslc::{HandshakeStatus, ReadStatus};

use crate::ktls::Ktls;
use crate::offload::Load;

/// One side of a TLS connection.
///
/// Every call takes the received bytes as `input`, advances it past what was consumed, and appends
/// what must be sent to `output`. That holds on errors too: send the output before closing.
pub trait SansIo {
    /// Why the connection failed.
    type Error: std::error::Error;

    /// Continues the handshake. [`HandshakeStatus::Pending`] means that someone else is working on
    /// it: wait with [`poll_pending`](Self::poll_pending), then call again.
    ///
    /// # Errors
    ///
    /// When the handshake failed; an alert may be in `output`.
    fn handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<HandshakeStatus, Self::Error>;

    /// Ready when a pending handshake can continue; at once if nothing is pending.
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The longest that a pending handshake may take; `None` when it has no limit of its own.
    fn pending_timeout(&self) -> Option<Duration>;

    /// That time has passed: the handshake continues without the answer.
    fn pending_timed_out(&mut self);

    /// How long the handshake has waited for threads and accelerators.
    fn queue_time(&self) -> Duration;

    /// Opens records and appends at most `max_bytes` of plaintext to `plain`.
    ///
    /// # Errors
    ///
    /// When a record or a message in it is wrong; an alert may be in `output`.
    fn read(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        max_bytes: usize,
    ) -> Result<ReadStatus, Self::Error>;

    /// Whether another [`read`](Self::read) may return something without new input, after one that
    /// returned `got_bytes` of at most `max_bytes`.
    fn may_hold_more(&self, got_bytes: usize, max_bytes: usize) -> bool;

    /// Seals all of `plain`, after whatever the protocol itself has queued. An empty `plain` sends
    /// only the queue. `now_ms` is a monotonic clock in milliseconds.
    ///
    /// # Errors
    ///
    /// Before the connection is established, and when the library fails.
    fn write(&mut self, plain: &[u8], now_ms: u64, output: &mut Vec<u8>)
    -> Result<(), Self::Error>;

    /// Appends a close_notify. Returns whether that is settled: while early data is being read, no
    /// alert is possible, and a later call writes it.
    fn close_notify(&mut self, output: &mut Vec<u8>) -> bool;

    /// Whether the handshake is over.
    fn is_established(&self) -> bool;
}

/// The part of a TLS connection that lets the kernel seal records (kernel TLS); from then on the
/// socket takes plaintext.
pub trait KernelSeal: SansIo {
    /// Runs the checks that are possible at the end of the handshake. Returns whether the kernel
    /// should take over at once.
    fn settle_ktls(&mut self, is_tcp: bool) -> bool;

    /// Whether the kernel should take over now that `file_bytes` of a file are to be sent.
    fn wants_kernel(&self, file_bytes: u64) -> bool;

    /// Hands the write direction to the kernel. All output must have been sent.
    fn take_over(&mut self, socket: BorrowedFd<'_>);

    /// Who seals, as far as it has been decided.
    fn ktls(&self) -> Ktls<'_>;

    /// Whether the kernel seals.
    fn is_sealed_by_kernel(&self) -> bool;

    /// Sends alerts and, with `data_follows`, whatever must precede data. `Some` says why the
    /// connection has to end.
    ///
    /// # Errors
    ///
    /// The socket's; with `WouldBlock`, call again when it is writable.
    fn send_control(
        &mut self,
        socket: BorrowedFd<'_>,
        data_follows: bool,
    ) -> io::Result<Option<Self::Error>>;

    /// Counts plaintext that the kernel has taken.
    fn sent_by_kernel(&mut self, bytes: u64);

    /// Whether whatever begins should be the last on the connection: the key has sealed half of
    /// what it may, and cannot be changed.
    fn should_end(&self) -> bool;

    /// How many bytes may be given to the kernel before [`send_control`](Self::send_control) must
    /// be called again.
    fn kernel_allowance_bytes(&self) -> u64;
}
