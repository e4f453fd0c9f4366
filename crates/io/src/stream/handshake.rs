//! The TLS handshake of a stream, on either side.
//!
//! It waits for one thing at a time: bytes from the peer, or someone else working on it (the
//! session store, a handshake thread, an accelerator). On a server each step takes its turn among
//! the handshakes of the worker thread.

use super::error::{ErrorOf, StreamError};
use super::sealed::Sealed;
use crate::buffers;
use crate::runtime::{self, Sleep};
use crate::socket::Socket;
use crate::turns::HandshakeSlot;
use sealane_tls::{HandshakeStatus, KernelSeal, Load};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// What only a handshake needs.
pub(super) struct Opening {
    /// Its slot among the handshakes of the thread. Client handshakes do not take turns.
    slot: Option<HandshakeSlot>,
    began: Instant,
    waits_for: HandshakeWait,
    /// The first flight has begun.
    begun: bool,
    /// Runs during a session store lookup.
    lookup_timer: Option<Pin<Box<Sleep>>>,
}

/// What a handshake waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandshakeWait {
    /// Bytes from the peer.
    Input,
    /// Someone else: the session store, a handshake thread, an accelerator.
    Asked,
    /// Nothing: it continues without new input.
    Nothing,
}

/// Where the time of a handshake was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandshakeTimes {
    /// From start to end. On a server it starts with the client's first byte.
    pub total: Duration,
    /// The part of `total` spent waiting for others.
    pub queued: Duration,
}

impl Opening {
    pub(super) fn accepting(slot: HandshakeSlot) -> Opening {
        Opening {
            slot: Some(slot),
            waits_for: HandshakeWait::Input,
            ..Opening::connecting()
        }
    }

    pub(super) fn connecting() -> Opening {
        Opening {
            slot: None,
            began: Instant::now(),
            waits_for: HandshakeWait::Nothing,
            begun: false,
            lookup_timer: None,
        }
    }

    fn set_in_flight(&mut self, in_flight: bool) {
        if let Some(slot) = &mut self.slot {
            slot.set_in_flight(in_flight);
        }
    }
}

impl<T: KernelSeal> Sealed<T> {
    /// Continues the handshake. What libssl writes last (session tickets, a client's last flight)
    /// may stay in the output: it is sent with the first message, or when the stream waits for
    /// bytes.
    ///
    /// `has_others` says whether the thread has other connections, for `ssl_async`. Must not be
    /// called again once it has returned ready.
    pub(super) fn poll_handshake(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        has_others: bool,
    ) -> Poll<Result<HandshakeTimes, ErrorOf<T>>> {
        loop {
            if self.poll_asked(cx).is_pending() {
                return self.poll_gone(socket, cx);
            }
            let opening = self.opening.as_deref_mut();
            let opening = opening.expect("there is one until the handshake is done");
            if opening.waits_for == HandshakeWait::Nothing || self.input_at < self.input.len() {
                let turn = match &mut opening.slot {
                    Some(slot) => Some(ready!(slot.poll_turn(cx))),
                    None => None,
                };
                opening.begun = true;
                let load = Load { has_others };
                let went_on = opening.waits_for == HandshakeWait::Nothing;
                let status = self.advance(load);
                drop(turn);
                match status {
                    Ok(HandshakeStatus::Done) => return Poll::Ready(Ok(self.opened())),
                    Ok(HandshakeStatus::WantRead) => {
                        self.set_wait(HandshakeWait::Input);
                        if went_on && self.input_at < self.input.len() {
                            // Input received after the flight was handed off has not been looked at
                            // yet.
                            continue;
                        }
                    }
                    Ok(HandshakeStatus::Pending) => {
                        self.set_wait(HandshakeWait::Asked);
                        continue;
                    }
                    Err(error) => {
                        self.opening = None;
                        self.alerted = self.has_unsent();
                        // Send the alert as far as the socket takes it.
                        let _ = self.poll_flush(socket, cx);
                        return Poll::Ready(Err(StreamError::Tls(error)));
                    }
                }
            }
            ready!(self.poll_flush(socket, cx))?;
            if ready!(self.poll_fill(socket, cx))? == 0 {
                return Poll::Ready(Err(StreamError::ClosedInHandshake));
            }
        }
    }

    /// One step of the handshake, with what has been received.
    fn advance(&mut self, load: Load) -> Result<HandshakeStatus, T::Error> {
        self.lend_output(buffers::SMALL_BYTES);
        let mut input = &self.input[self.input_at..];
        let output = &mut self.output.bytes;
        let status = self.connection.handshake(&mut input, output, load);
        self.input_at = self.input.len() - input.len();
        if !self.has_unsent() {
            // The wait may be long.
            self.output.release();
        }
        status
    }

    fn set_wait(&mut self, wait: HandshakeWait) {
        // Waiting for the store does not count as a handshake in flight.
        let in_flight = wait == HandshakeWait::Asked && self.connection.pending_timeout().is_none();
        if let Some(opening) = &mut self.opening {
            opening.waits_for = wait;
            opening.set_in_flight(in_flight);
        }
    }

    /// The handshake is done.
    fn opened(&mut self) -> HandshakeTimes {
        let opening = self.opening.take();
        self.readable = true;
        self.tickets_due = true;
        opening.map_or_else(HandshakeTimes::default, |opening| {
            let waited = opening.slot.map_or(Duration::ZERO, |slot| slot.waited());
            HandshakeTimes {
                total: opening.began.elapsed(),
                queued: waited + self.connection.queue_time(),
            }
        })
    }

    /// Waits for whoever was asked. The session store gets no longer than its total time limit.
    fn poll_asked(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(opening) = self.opening.as_deref_mut() else {
            return Poll::Ready(());
        };
        if opening.waits_for != HandshakeWait::Asked {
            return Poll::Ready(());
        }
        if self.connection.poll_pending(cx).is_pending() {
            let Some(timeout) = self.connection.pending_timeout() else {
                return Poll::Pending;
            };
            let timer = &mut opening.lookup_timer;
            let timer = timer.get_or_insert_with(|| Box::pin(runtime::sleep(timeout)));
            ready!(timer.as_mut().poll(cx));
            self.connection.pending_timed_out();
        }
        opening.set_in_flight(false);
        opening.waits_for = HandshakeWait::Nothing;
        Poll::Ready(())
    }

    /// While someone else works on the handshake: ready when the peer has gone away, in which case
    /// the pending work is cancelled. A peer with bytes still unread has only closed its sending
    /// side, and may get an answer.
    fn poll_gone<R>(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<R, ErrorOf<T>>> {
        if self.input_at == self.input.len() {
            match self.poll_fill(socket, cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(StreamError::ClosedInHandshake)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(_)) | Poll::Pending => {}
            }
        }
        Poll::Pending
    }

    /// Whether nothing has been done for the handshake yet.
    pub(super) fn awaits_first_turn(&self) -> bool {
        let opening = self.opening.as_deref();
        opening.is_some_and(|opening| !opening.begun)
    }
}

impl Sealed<sealane_tls::Connection> {
    /// Refuses a handshake for which nothing has been done yet. Sends an alert as far as the socket
    /// takes it at once. Returns why the connection ends.
    pub(super) fn refuse(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> StreamError<sealane_tls::Error> {
        self.opening = None;
        let error = self.connection.refuse(&mut self.output.bytes);
        let _ = self.poll_flush(socket, cx);
        StreamError::Tls(error)
    }
}
