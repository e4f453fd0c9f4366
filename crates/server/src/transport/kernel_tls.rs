//! Kernel TLS: the socket takes plaintext, so that sendfile works over TLS.
//!
//! `sealane_tls` decides and hands the keys over; this file asks it at the right
//! moments and sends what it wants to say before data.

use super::{SendMode, Transport, TransportError};
use crate::chain::OutputChain;
use sealane_conf::model::LogLevel;
use sealane_log::Logger;
use sealane_sys::socket;
use sealane_tls::Ktls;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;

/// More than what the kernel's TLS can hold back: two records with the kernel's
/// bookkeeping, in bytes.
const KERNEL_QUEUE_BYTES: u32 = 64 << 10;

/// How often it is looked whether a full send buffer has drained.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);

/// How far the end of a connection is that the kernel seals.
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
    /// It has been sent; what was before it may still be on its way to TCP.
    Told {
        /// The last look found everything acknowledged.
        empty_before: bool,
    },
    /// Closing loses nothing.
    Gone,
}

impl Transport {
    /// At the end of the handshake: makes the checks, and with `ssl_ktls on` has
    /// the kernel take over.
    pub(crate) fn poll_settle_ktls(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        let Some(tls) = &mut self.tls else {
            return Poll::Ready(Ok(()));
        };
        // While early data is read nothing is decided: it is asked again before
        // responses.
        self.ktls_settled = tls.connection().is_established();
        let at_once = tls.settle_ktls(self.facts.socket.is_tcp());
        if at_once {
            ready!(tls.poll_take_over(&self.facts.socket, cx))?;
        }
        self.note_ktls();
        Poll::Ready(Ok(()))
    }

    /// Where to write nginx's debug lines about kernel TLS.
    pub(crate) fn set_debug_log(&mut self, logger: &Logger) {
        self.debug_log = logger.enabled(LogLevel::Debug).then(|| logger.clone());
    }

    /// Whether the response that begins should be the last of the connection.
    pub(crate) fn should_end(&self) -> bool {
        self.tls
            .as_deref()
            .is_some_and(|tls| tls.connection().should_end())
    }

    /// Whether what is sent through the socket is sealed by the kernel. A goodbye
    /// that is not ready has to be waited for then.
    pub(crate) fn is_sealed_by_kernel(&self) -> bool {
        self.tls
            .as_deref()
            .is_some_and(|tls| tls.is_sealed_by_kernel())
    }

    /// With `ssl_ktls auto`: has the kernel take over when what is to be sent is
    /// worth it.
    pub(super) fn poll_consider_kernel(
        &mut self,
        cx: &mut Context<'_>,
        chain: &OutputChain,
        mode: SendMode,
    ) -> Poll<Result<(), TransportError>> {
        if !self.ktls_settled {
            ready!(self.poll_settle_ktls(cx))?;
        }
        let Some(tls) = &mut self.tls else {
            return Poll::Ready(Ok(()));
        };
        // Without sendfile the bytes come through the process anyway.
        if !mode.sendfile || !tls.connection().wants_kernel(chain.file_bytes()) {
            return Poll::Ready(Ok(()));
        }
        ready!(tls.poll_take_over(&self.facts.socket, cx))?;
        self.note_ktls();
        Poll::Ready(Ok(()))
    }

    /// Sends through the kernel: what must come before data, then like plain TCP.
    pub(super) fn poll_send_kernel(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Vec<u8>,
        chain: &mut OutputChain,
        mode: &mut SendMode,
        sent: &mut u64,
    ) -> Poll<Result<(), TransportError>> {
        loop {
            let Some(tls) = &mut self.tls else {
                return self.poll_send_plain(cx, head, chain, mode, sent);
            };
            ready!(tls.poll_control(&self.facts.socket, cx, true))?;
            let allowance = tls.connection().kernel_allowance_bytes();
            let mut part = SendMode {
                max_bytes: mode
                    .max_bytes
                    .min(allowance.saturating_sub(head.len() as u64)),
                ..*mode
            };
            let allowed = part.max_bytes;
            let sending = self.poll_send_plain(cx, head, chain, &mut part, sent);
            mode.max_bytes -= allowed - part.max_bytes;
            ready!(sending)?;
            if chain.is_empty() || mode.max_bytes == 0 {
                break;
            }
            // The key may seal no more: another one, or the end.
        }
        if mode.last && chain.is_empty() {
            return self.poll_end_kernel(cx);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends close_notify and waits until the kernel has handed everything to TCP.
    ///
    /// What sendfile has taken is sealed, but a record for which TCP had no room
    /// waits in a queue of the kernel's TLS, and closing the socket drops what one
    /// more attempt cannot place. That queue holds a record or two. So the alert is
    /// sent when TCP has room for them: the kernel puts them in front of it. Where the
    /// send buffer is too small for that, everything must have been acknowledged,
    /// twice, with time in between for the kernel to fill TCP's buffer again.
    pub(super) fn poll_end_kernel(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        loop {
            if matches!(self.kernel_end.phase, Phase::Gone) {
                return Poll::Ready(Ok(()));
            }
            if let Some(timer) = &mut self.kernel_end.timer {
                ready!(timer.as_mut().poll(cx));
                self.kernel_end.timer = None;
            }
            let memory =
                socket::send_memory(self.facts.socket.as_fd()).map_err(TransportError::Socket)?;
            match self.kernel_end.phase {
                Phase::Open => {
                    let room = memory.limit.saturating_sub(memory.queued);
                    if room >= KERNEL_QUEUE_BYTES || memory.queued == 0 {
                        if let Some(tls) = &mut self.tls {
                            ready!(tls.poll_close_notify(&self.facts.socket, cx))?;
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
            self.kernel_end.timer = Some(Box::pin(tokio::time::sleep(DRAIN_PAUSE)));
        }
    }

    /// Counts what one call has moved; `by_sendfile` is logged as nginx does it.
    pub(super) fn note_sent(&mut self, bytes: u64, by_sendfile: bool) {
        let Some(tls) = &mut self.tls else {
            return;
        };
        tls.sent_by_kernel(bytes);
        if by_sendfile {
            self.debug(format_args!("SSL_sendfile: {bytes}"));
        }
    }

    /// Remembers what was decided, for variables and the debug log.
    fn note_ktls(&self) {
        let Some(tls) = &self.tls else {
            return;
        };
        let state = tls.connection().ktls();
        self.facts.set_ktls(state);
        match state {
            Ktls::Pending => {}
            Ktls::On => self.debug(format_args!("BIO_get_ktls_send(): 1")),
            Ktls::Off(refusal) => self.debug(format_args!("kernel TLS is not used: {refusal}")),
        }
    }

    fn debug(&self, message: std::fmt::Arguments<'_>) {
        if let Some(logger) = &self.debug_log {
            logger.log(LogLevel::Debug, Some(self.facts.number), message);
        }
    }
}
