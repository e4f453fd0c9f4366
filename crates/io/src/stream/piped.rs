//! Bytes that pass from one stream to another without a copy: out of a plain socket into a pipe,
//! and from there into a plain socket, or one whose records the kernel seals.

use super::error::{ErrorOf, StreamError};
use super::{Endpoint, Stream};
use crate::pipe::Pipe;
use crate::runtime::Direction;
use sealane_tls::KernelSeal;
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

/// What was received into a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piped {
    /// This many bytes.
    Bytes(usize),
    /// No bytes. That may be the end, urgent data, or that nothing has arrived:
    /// [`Stream::poll_receive`] knows.
    Nothing,
    /// This stream cannot do that: it is not plain, or the kernel does not support it.
    Unable,
}

impl<E: Endpoint, T: KernelSeal> Stream<E, T> {
    /// Moves up to `max` bytes of what the peer sent into an empty pipe.
    pub fn poll_receive_pipe(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
        max: usize,
    ) -> Poll<Result<Piped, ErrorOf<T>>> {
        if self.tls.is_some() {
            return Poll::Ready(Ok(Piped::Unable));
        }
        let socket = self.endpoint.socket();
        let filled = ready!(socket.poll_io(cx, Direction::Input, |fd| {
            match pipe.fill(fd, max) {
                // Nothing is concluded about the socket from that.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((0, false)),
                filled => Ok((filled?, false)),
            }
        }));
        Poll::Ready(match filled {
            Ok(0) => Ok(Piped::Nothing),
            Ok(count) => Ok(Piped::Bytes(count)),
            Err(error) if is_unsupported(&error) => Ok(Piped::Unable),
            Err(error) => Err(StreamError::Socket(error)),
        })
    }

    /// Whether [`Stream::poll_send_pipe`] is possible. With `ssl_ktls auto` the kernel takes over
    /// if `passed_bytes`, which were sent so far, show that it is worth it. Ready when everything
    /// before the pipe's bytes has been sent.
    pub fn poll_takes_pipe(
        &mut self,
        cx: &mut Context<'_>,
        passed_bytes: u64,
    ) -> Poll<Result<bool, ErrorOf<T>>> {
        if !self.ktls_settled {
            ready!(self.poll_settle_ktls(cx))?;
        }
        let Some(tls) = &mut self.tls else {
            return Poll::Ready(Ok(self.copied.is_none()));
        };
        if !tls.connection.is_sealed_by_kernel() && tls.connection.wants_kernel(passed_bytes) {
            ready!(tls.poll_take_over(self.endpoint.socket(), cx))?;
            self.endpoint.note_ktls(tls.connection.ktls());
        }
        Poll::Ready(Ok(self.is_sealed_by_kernel()))
    }

    /// Sends what is in the pipe, and adds to `sent` what the kernel has taken. Ready with `true`
    /// when the pipe is empty, with `false` if the kernel cannot do this with the socket: the rest
    /// has to be sent from memory.
    pub fn poll_send_pipe(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
        sent: &mut u64,
    ) -> Poll<Result<bool, ErrorOf<T>>> {
        while !pipe.is_empty() {
            let mut max = pipe.held_bytes();
            if let Some(tls) = &mut self.tls {
                if !tls.connection.is_sealed_by_kernel() {
                    return Poll::Ready(Ok(false));
                }
                ready!(tls.poll_control(self.endpoint.socket(), cx, true))?;
                let allowance = tls.connection.kernel_allowance_bytes();
                max = usize::try_from(allowance).map_or(max, |allowance| max.min(allowance));
            }
            let socket = self.endpoint.socket();
            let drained = socket.poll_io(cx, Direction::Output, |fd| {
                // A short count does not tell whether there is more room.
                Ok((pipe.drain(fd.as_fd(), max)?, false))
            });
            match ready!(drained) {
                Ok(count) => {
                    self.note_sent(count as u64, false);
                    *sent += count as u64;
                }
                Err(error) if is_unsupported(&error) => return Poll::Ready(Ok(false)),
                Err(error) => return Poll::Ready(Err(StreamError::Socket(error))),
            }
        }
        Poll::Ready(Ok(true))
    }
}

/// The kernel, or what stands in front of it, does not move bytes of this kind of socket.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM)
    )
}
