//! Who seals the records of one connection. Both sides of TLS have one: clients of ours, and what
//! connects to other servers.

use std::io;
use std::os::fd::BorrowedFd;

use sealane_awslc as awslc;

use super::{
    KernelTransmit, KeysEnded, Ktls, KtlsMode, KtlsPolicy, Refusal, check, take_over::take_over,
};
use crate::record_writer::RecordWriter;

/// The state of one connection.
pub(crate) enum Sealing {
    /// libssl, until the kernel takes over.
    Pending,
    On(Box<KernelTransmit>),
    /// libssl, for the connection's whole life.
    Off(Refusal),
}

impl Sealing {
    /// See [`KernelSeal::ktls`](crate::KernelSeal::ktls).
    pub(crate) fn state(&self) -> Ktls<'_> {
        match self {
            Sealing::Pending => Ktls::Pending,
            Sealing::On(_) => Ktls::On,
            Sealing::Off(refusal) => Ktls::Off(refusal),
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(self, Sealing::Pending)
    }

    pub(crate) fn is_on(&self) -> bool {
        matches!(self, Sealing::On(_))
    }

    /// Makes the checks that the end of the handshake of `tls` allows. Returns whether the kernel
    /// should take over at once. What is decided stays.
    pub(crate) fn settle(
        &mut self,
        policy: &KtlsPolicy,
        tls: &awslc::Connection,
        is_tcp: bool,
    ) -> bool {
        if !self.is_pending() {
            return false;
        }
        match check(policy, tls, is_tcp) {
            Ok(()) => policy.mode == KtlsMode::On,
            Err(refusal) => {
                *self = Sealing::Off(refusal);
                false
            }
        }
    }

    /// See [`KernelSeal::wants_kernel`](crate::KernelSeal::wants_kernel).
    pub(crate) fn wants_kernel(&self, policy: &KtlsPolicy, file_bytes: u64) -> bool {
        self.is_pending() && file_bytes >= policy.settings.min_body_bytes
    }

    /// Hands the write direction of `tls` to the kernel, from libssl or from our own writer.
    pub(crate) fn take_over(
        &mut self,
        policy: &KtlsPolicy,
        tls: &mut awslc::Connection,
        writer: Option<&mut RecordWriter>,
        socket: BorrowedFd<'_>,
    ) {
        if self.is_pending() {
            *self = match take_over(policy, tls, writer, socket) {
                Ok(kernel) => Sealing::On(Box::new(kernel)),
                Err(refusal) => Sealing::Off(refusal),
            };
        }
    }

    /// See [`KernelSeal::send_control`](crate::KernelSeal::send_control).
    ///
    /// # Errors
    ///
    /// The socket's.
    pub(crate) fn send_control(
        &mut self,
        tls: &mut awslc::Connection,
        socket: BorrowedFd<'_>,
        data_follows: bool,
    ) -> io::Result<Option<KeysEnded>> {
        match self {
            Sealing::On(kernel) => kernel.control(tls, socket, data_follows),
            Sealing::Pending | Sealing::Off(_) => Ok(None),
        }
    }

    /// See [`KernelSeal::sent_by_kernel`](crate::KernelSeal::sent_by_kernel).
    pub(crate) fn sent_by_kernel(&mut self, bytes: u64) {
        if let Sealing::On(kernel) = self {
            kernel.sent(bytes);
        }
    }

    /// See [`KernelSeal::should_end`](crate::KernelSeal::should_end).
    pub(crate) fn should_end(&self) -> bool {
        matches!(self, Sealing::On(kernel) if kernel.should_end())
    }

    /// See [`KernelSeal::kernel_allowance_bytes`](crate::KernelSeal::kernel_allowance_bytes).
    pub(crate) fn allowance_bytes(&self) -> u64 {
        match self {
            Sealing::On(kernel) => kernel.allowance_bytes(),
            Sealing::Pending | Sealing::Off(_) => u64::MAX,
        }
    }
}
