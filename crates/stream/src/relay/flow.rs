//! One direction of a relay.

use super::pace::{BULK_BYTES, Bulk, Pace};
use super::rate::Throttle;
use super::{RECEIVE_BYTES, SHARE_BYTES};
use sealane_io::buffers;
use sealane_io::chain::OutputChain;
use sealane_io::pipe::{self, Pipe};
use sealane_io::runtime;
use sealane_io::stream::{ErrorOf, Piped, StreamError};
use sealane_io::{Endpoint, OutboundMessage, Received, Stream};
use sealane_tls::{KernelSeal, SansIo};
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// The most that is moved into a pipe at once.
const PIPE_BYTES: usize = 1 << 20;

/// From one stream to the other.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Received, and not taken by the other stream yet. Bytes are here or in the pipe, not in both.
    buffer: Vec<u8>,
    pipe: Option<Pipe>,
    bulk: Option<Bulk>,
    throttle: Throttle,
    pace: Pace,
    phase: Phase,
    /// One of the sockets cannot do it.
    no_pipes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing more is received.
    Ended,
    /// Everything has been sent.
    Finished,
}

/// What a direction needs to know in a poll.
#[derive(Clone, Copy)]
pub(super) struct Passage {
    pub(super) buffer_bytes: usize,
    /// 0 for no limit.
    pub(super) rate: u64,
    pub(super) began: Instant,
    pub(super) half_close: bool,
}

/// Which stream has failed.
pub(super) enum Error<F, T> {
    From(StreamError<F>),
    To(StreamError<T>),
}

/// The error of a direction between streams with these TLS sides.
type FlowError<F, T> = Error<<F as SansIo>::Error, <T as SansIo>::Error>;

impl Flow {
    /// A direction with bytes that have been received.
    pub(super) fn new(received: Vec<u8>) -> Flow {
        Flow {
            received: received.len() as u64,
            sent: 0,
            buffer: received,
            pipe: None,
            bulk: None,
            throttle: Throttle::default(),
            pace: Pace::default(),
            phase: Phase::Open,
            no_pipes: false,
        }
    }

    /// Nothing more is received.
    pub(super) fn has_ended(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Nothing more is sent.
    pub(super) fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    /// Waits for its rate.
    pub(super) fn is_delayed(&self) -> bool {
        self.throttle.is_waiting()
    }

    /// Moves what there is. Ready when everything has been sent after the end.
    pub(super) fn poll<E1: Endpoint, F: KernelSeal, E2: Endpoint, T: KernelSeal>(
        &mut self,
        cx: &mut Context<'_>,
        passage: &Passage,
        from: &mut Stream<E1, F>,
        to: &mut Stream<E2, T>,
    ) -> Poll<Result<(), FlowError<F, T>>> {
        let mut moved = 0;
        while self.phase != Phase::Finished {
            let sent = self.poll_send(cx, to);
            if sent.is_pending() {
                // Who does not read must not make the wait for the rate last for ever.
                self.throttle.watch(cx);
            }
            ready!(sent).map_err(Error::To)?;
            if self.phase == Phase::Ended {
                ready!(self.poll_finish(cx, passage, to));
                break;
            }
            if moved >= SHARE_BYTES as u64 {
                runtime::defer(cx.waker().clone());
                return Poll::Pending;
            }
            let before = self.received;
            match self.poll_receive(cx, passage, from, to) {
                Poll::Ready(Ok(())) => moved += (self.received - before).max(RECEIVE_BYTES as u64),
                Poll::Ready(Err(error)) => {
                    self.end();
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => {
                    self.release();
                    from.release_buffers();
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is there. Ready when the kernel has all of it.
    fn poll_send<E: Endpoint, T: KernelSeal>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Stream<E, T>,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        if let Some(pipe) = &mut self.pipe
            && !ready!(to.poll_send_pipe(cx, pipe, &mut self.sent))?
        {
            self.no_pipes = true;
            pipe.read_back(&mut self.buffer)
                .map_err(StreamError::Socket)?;
            self.pipe = None;
        }
        if self.buffer.is_empty() && !to.has_unsent() {
            // The other direction may have sent what was left, when it received.
            self.sent += to.take_progress();
            return Poll::Ready(Ok(()));
        }
        let buffer = std::mem::take(&mut self.buffer);
        let mut message = OutboundMessage::new(buffer, OutputChain::new());
        let sent = to.poll_send(cx, &mut message);
        self.sent += message.sent;
        self.buffer = message.head;
        if self.buffer.is_empty() && sent.is_pending() {
            // TLS has taken it: whoever reads slowly holds one copy of it.
            buffers::release(&mut self.buffer);
        }
        sent
    }

    /// Receives once. What was there before has been sent.
    fn poll_receive<E1: Endpoint, F: KernelSeal, E2: Endpoint, T: KernelSeal>(
        &mut self,
        cx: &mut Context<'_>,
        passage: &Passage,
        from: &mut Stream<E1, F>,
        to: &mut Stream<E2, T>,
    ) -> Poll<Result<(), FlowError<F, T>>> {
        let is_busy = self.pace.is_busy() && passage.rate == 0;
        if is_busy && !self.no_pipes && ready!(self.poll_receive_pipe(cx, from, to))? {
            return Poll::Ready(Ok(()));
        }
        let mut max = passage.buffer_bytes;
        // Records are sealed and opened in batches; copying alone gains nothing from them.
        let over_tls = from.tls().is_some() || to.tls().is_some();
        if is_busy && over_tls && max < BULK_BYTES && self.may_hold_batch() {
            max = BULK_BYTES;
        }
        let (rate, began) = (passage.rate, passage.began);
        let allowed = self
            .throttle
            .poll_allowed(cx, rate, began, self.received, max);
        max = ready!(allowed);
        self.lend_buffer(max);
        match ready!(from.poll_receive(cx, &mut self.buffer, max)).map_err(Error::From)? {
            Received::End => self.end(),
            Received::Bytes(count) => {
                self.received += count as u64;
                self.pace.note(count, max);
                self.throttle.note(rate, count);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Receives into a pipe. Ready with `false` if there is no pipe to be had, or nothing came that
    /// way: then memory is the way.
    fn poll_receive_pipe<E1: Endpoint, F: KernelSeal, E2: Endpoint, T: KernelSeal>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Stream<E1, F>,
        to: &mut Stream<E2, T>,
    ) -> Poll<Result<bool, FlowError<F, T>>> {
        if from.tls().is_some() || !ready!(to.poll_takes_pipe(cx, self.sent)).map_err(Error::To)? {
            return Poll::Ready(Ok(false));
        }
        let Some(pipe) = self.pipe.take().or_else(pipe::take) else {
            return Poll::Ready(Ok(false));
        };
        let pipe = self.pipe.insert(pipe);
        match ready!(from.poll_receive_pipe(cx, pipe, PIPE_BYTES)).map_err(Error::From)? {
            Piped::Bytes(count) => {
                buffers::release(&mut self.buffer);
                self.received += count as u64;
                self.pace.note(count, PIPE_BYTES);
                return Poll::Ready(Ok(true));
            }
            Piped::Nothing => {}
            Piped::Unable => self.no_pipes = true,
        }
        Poll::Ready(Ok(false))
    }

    /// Everything has been sent: the other side is told of the end. A stream that fails at that
    /// loses nothing.
    fn poll_finish<E: Endpoint, T: KernelSeal>(
        &mut self,
        cx: &mut Context<'_>,
        passage: &Passage,
        to: &mut Stream<E, T>,
    ) -> Poll<()> {
        let _ = ready!(to.poll_goodbye(cx));
        if passage.half_close {
            let _ = to.endpoint_mut().socket().end_sending();
        }
        self.phase = Phase::Finished;
        self.release();
        Poll::Ready(())
    }

    fn end(&mut self) {
        self.phase = Phase::Ended;
    }

    fn may_hold_batch(&mut self) -> bool {
        self.bulk = self.bulk.take().or_else(Bulk::take);
        self.bulk.is_some()
    }

    /// A buffer for that many bytes, unless there is one. It is empty.
    fn lend_buffer(&mut self, max: usize) {
        if self.buffer.capacity() >= max {
            return;
        }
        buffers::release(&mut self.buffer);
        self.buffer = match self.bulk {
            Some(_) => buffers::large(),
            // It grows to what is asked for, and is kept at that.
            None => buffers::small(),
        };
    }

    /// Gives back what an idle direction does not need.
    fn release(&mut self) {
        if self.buffer.is_empty() {
            buffers::release(&mut self.buffer);
            self.bulk = None;
        }
        if self.pipe.as_ref().is_some_and(Pipe::is_empty) {
            self.pipe = None;
        }
    }
}

/// What tests look at.
#[cfg(test)]
impl Flow {
    pub(super) fn holds_nothing(&self) -> bool {
        self.memory_bytes() == 0 && self.pipe.is_none() && self.bulk.is_none()
    }

    pub(super) fn has_pipe(&self) -> bool {
        self.pipe.is_some()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}
