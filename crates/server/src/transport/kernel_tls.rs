//! Kernel TLS: the socket takes plaintext, so that sendfile works over TLS.
//!
//! `sealane_tls` decides and hands the keys over; this file asks it at the right
//! moments and sends what it wants to say before data.

use super::{SendMode, Transport, TransportError};
use crate::chain::OutputChain;
use crate::log::Logger;
use sealane_conf::model::LogLevel;
use sealane_tls::Ktls;
use std::task::{Context, Poll, ready};

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

    /// Whether what is sent through the socket is sealed by the kernel.
    pub(super) fn is_sealed_by_kernel(&self) -> bool {
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
        if let Some(tls) = &mut self.tls {
            ready!(tls.poll_control(&self.facts.socket, cx, true))?;
        }
        self.poll_send_plain(cx, head, chain, mode, sent)
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
