//! Kernel TLS: the socket takes plaintext, so that sendfile works over TLS.
//!
//! `sealane_tls` decides and hands over the keys. This module calls it at the right moments and
//! sends the control records it wants to send before data.

use super::error::{ErrorOf, StreamError};
use super::{Endpoint, Stream};
use crate::message::OutboundMessage;
use crate::runtime::{self, Sleep};
use sealane_sys::socket;
use sealane_tls::KernelSeal;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// An upper bound, in bytes, on what kernel TLS can hold back: two records with the kernel's
/// bookkeeping.
const KERNEL_QUEUE_BYTES: u32 = 64 << 10;

/// How often to check whether a full send buffer has drained.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);

/// Progress of closing a connection that the kernel seals.
#[derive(Default)]
pub(super) struct End {
    phase: Phase,
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Phase {
    /// close_notify has not been sent.
    #[default]
    Open,
    /// It has been sent; the data before it may not have reached TCP yet.
    Told {
        /// The last check found everything acknowledged.
        empty_before: bool,
    },
    /// Closing loses nothing.
    Gone,
}

impl<E: Endpoint, T: KernelSeal> Stream<E, T> {
    /// At the end of the handshake: runs the checks and, with `ssl_ktls on`, lets the kernel take
    /// over.
    pub fn poll_settle_ktls(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ErrorOf<T>>> {
        let Some(tls) = &mut self.tls else {
            return Poll::Ready(Ok(()));
        };
        // Nothing is decided while early data is being read. The question is asked again before
        // responses.
        self.ktls_settled = tls.connection.is_established();
        let socket = self.endpoint.socket();
        if tls.connection.settle_ktls(socket.is_tcp()) {
            ready!(tls.poll_take_over(socket, cx))?;
        }
        self.endpoint.note_ktls(tls.connection.ktls());
        Poll::Ready(Ok(()))
    }

    /// Whether the kernel seals what is sent through the socket. If so, a pending goodbye has to be
    /// waited for.
    pub fn is_sealed_by_kernel(&self) -> bool {
        let tls = self.tls.as_deref();
        tls.is_some_and(|tls| tls.connection.is_sealed_by_kernel())
    }

    /// With `ssl_ktls auto`: lets the kernel take over if the data to be sent is worth it.
    pub(super) fn poll_consider_kernel(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        if !self.ktls_settled {
            ready!(self.poll_settle_ktls(cx))?;
        }
        let Some(tls) = &mut self.tls else {
            return Poll::Ready(Ok(()));
        };
        // Without sendfile the bytes pass through the process anyway.
        if !message.sendfile || !tls.connection.wants_kernel(message.body.file_bytes()) {
            return Poll::Ready(Ok(()));
        }
        let taken_over = tls.poll_take_over(self.endpoint.socket(), cx);
        // What libssl has already sealed of the message is sent first.
        message.sent += tls.output.take_progress();
        ready!(taken_over)?;
        self.endpoint.note_ktls(tls.connection.ktls());
        Poll::Ready(Ok(()))
    }

    /// Sends through the kernel: first what must precede data, then as on plain TCP.
    pub(super) fn poll_send_kernel(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        loop {
            let Some(tls) = &mut self.tls else {
                return self.poll_send_plain(cx, message);
            };
            ready!(tls.poll_control(self.endpoint.socket(), cx, true))?;
            let allowance = tls.connection.kernel_allowance_bytes();
            let budget = message.budget;
            let allowed = budget.min(allowance.saturating_sub(message.head.len() as u64));
            message.budget = allowed;
            let sending = self.poll_send_plain(cx, message);
            message.budget = budget - (allowed - message.budget);
            ready!(sending)?;
            if message.body.is_empty() || message.budget == 0 {
                break;
            }
            // The key has reached its limit: switch to a new one, or end.
        }
        if message.last && message.body.is_empty() {
            return self.poll_end_kernel(cx);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends close_notify and waits until the kernel has handed everything to TCP.
    ///
    /// What sendfile has taken is sealed, but a record for which TCP had no room waits in a queue
    /// of kernel TLS. Closing the socket drops whatever one more attempt cannot place. That queue
    /// holds one or two records. So the alert is sent once TCP has room for them: the kernel puts
    /// them before it. If the send buffer is too small for that, everything must have been
    /// acknowledged, twice, with time in between for the kernel to refill TCP's buffer.
    pub(super) fn poll_end_kernel(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ErrorOf<T>>> {
        loop {
            if matches!(self.kernel_end.phase, Phase::Gone) {
                return Poll::Ready(Ok(()));
            }
            if let Some(timer) = &mut self.kernel_end.timer {
                ready!(timer.as_mut().poll(cx));
                self.kernel_end.timer = None;
            }
            let memory =
                socket::send_memory(self.endpoint.socket().as_fd()).map_err(StreamError::Socket)?;
            match self.kernel_end.phase {
                Phase::Open => {
                    let room = memory.limit.saturating_sub(memory.queued);
                    if room >= KERNEL_QUEUE_BYTES || memory.queued == 0 {
                        if let Some(tls) = &mut self.tls {
                            ready!(tls.poll_close_notify(self.endpoint.socket(), cx))?;
                        }
                        self.kernel_end.phase = if room >= KERNEL_QUEUE_BYTES {
                            Phase::Gone
                        } else {
                            Phase::Told {
                                empty_before: false,
                            }
                        };
                        continue;
                    }
                }
                Phase::Told { empty_before } => {
                    let empty = memory.queued == 0;
                    self.kernel_end.phase = if empty && empty_before {
                        Phase::Gone
                    } else {
                        Phase::Told {
                            empty_before: empty,
                        }
                    };
                    if matches!(self.kernel_end.phase, Phase::Gone) {
                        continue;
                    }
                }
                Phase::Gone => {}
            }
            self.kernel_end.timer = Some(Box::pin(runtime::sleep(DRAIN_PAUSE)));
        }
    }

    /// Counts what the kernel has taken.
    pub(super) fn note_sent(&mut self, bytes: u64, by_sendfile: bool) {
        if let Some(tls) = &mut self.tls {
            tls.connection.sent_by_kernel(bytes);
            if by_sendfile {
                self.endpoint.note_sendfile(bytes);
            }
        }
    }
}
