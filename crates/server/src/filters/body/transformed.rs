//! A body that passes through a filter while it is sent.

use super::input::Input;
use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::Exchange;
use bytes::Bytes;
use sealane_http::headers::HeaderList;
use sealane_io::chain::OutputChain;
use std::task::{Context, Poll};

/// The work of a filter on the bytes of a body. It neither waits nor reads. It produces no more
/// than it is asked for, so that a small input cannot fill the memory.
pub(crate) trait Transform: Send {
    /// Takes what it can use from the front of `input` and appends the result to `output`, about
    /// `max_bytes` at most (never 0). `ended`: nothing follows `input`.
    ///
    /// # Errors
    /// When the body makes no sense. The filter has said so in the log.
    fn step(
        &mut self,
        exchange: &mut Exchange,
        input: &mut Bytes,
        ended: bool,
        output: &mut OutputChain,
        max_bytes: usize,
    ) -> Result<TransformStatus, SourceError>;

    /// Appends what it holds back, as far as that can be read without what follows. Called when
    /// there is no more input for now.
    fn flush(&mut self, _exchange: &mut Exchange, _output: &mut OutputChain) {}

    /// How much it takes before other tasks run.
    fn turn_bytes(&self) -> usize {
        TURN_BYTES
    }
}

/// The state of a [`Transform`] after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransformStatus {
    /// All of the input is taken.
    Hungry,
    /// There is more output than was asked for.
    Full,
    /// Nothing follows, whatever input is left.
    Ended,
}

/// Replaces the body of `exchange` by the output of `transform`. The caller changes the head.
pub(super) fn transform(exchange: &mut Exchange, transform: impl Transform + 'static) {
    let response = &mut exchange.response;
    let input = Input::of(response);
    response.source = Some(PendingBody::new(Transformed {
        input,
        piece: Bytes::new(),
        input_ended: false,
        flushed: true,
        transform,
    }));
}

/// Input of one poll, after which other tasks run, unless the filter says otherwise.
const TURN_BYTES: usize = 256 << 10;

struct Transformed<T> {
    input: Input,
    /// Input that the filter has not taken yet.
    piece: Bytes,
    input_ended: bool,
    /// The filter holds nothing back.
    flushed: bool,
    transform: T,
}

impl<T: Transform> Transformed<T> {
    /// Continues until there is as much as was asked for, or nothing to read. `out` is empty.
    fn poll_work(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        let mut worked_bytes = 0;
        loop {
            if self.piece.is_empty() && !self.input_ended {
                self.piece = Bytes::new(); // what is empty keeps the memory that it was taken from
                match self.input.poll_piece(cx, exchange)? {
                    Poll::Ready(Some(piece)) => self.piece = piece,
                    Poll::Ready(None) => self.input_ended = true,
                    Poll::Pending => return Poll::Pending,
                }
            }
            let before_bytes = self.piece.len();
            let room = max_bytes.saturating_sub(out.len()).clamp(1, 1 << 30) as usize;
            self.flushed = false;
            let ended = self.input_ended;
            let progress = self
                .transform
                .step(exchange, &mut self.piece, ended, out, room)?;
            worked_bytes += before_bytes - self.piece.len();
            match progress {
                TransformStatus::Ended => return Poll::Ready(Ok(Filled::End)),
                TransformStatus::Hungry if ended => return Poll::Ready(Ok(Filled::End)),
                TransformStatus::Full | TransformStatus::Hungry if out.len() >= max_bytes => {
                    return Poll::Ready(Ok(Filled::More));
                }
                TransformStatus::Full | TransformStatus::Hungry
                    if worked_bytes < self.transform.turn_bytes() => {}
                TransformStatus::Full | TransformStatus::Hungry => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }
}

impl<T: Transform> BodySource for Transformed<T> {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        if max_bytes == 0 {
            self.input.read_ahead(cx, exchange);
            return Poll::Pending;
        }
        let mut made = OutputChain::new();
        let result = self.poll_work(cx, exchange, &mut made, max_bytes);
        let is_due = match &result {
            Poll::Pending => made.is_empty() && self.input.is_prompt(),
            // The client gets what the filter has of a body that breaks off.
            Poll::Ready(Err(_)) => self.input.has_failed(),
            Poll::Ready(Ok(_)) => false,
        };
        if is_due && !self.flushed {
            self.flushed = true;
            self.transform.flush(exchange, &mut made);
        }
        let is_some = !made.is_empty();
        out.append(made);
        match result {
            Poll::Pending if is_some => Poll::Ready(Ok(Filled::More)),
            result => result,
        }
    }

    fn is_prompt(&self) -> bool {
        self.input.is_prompt()
    }

    fn take_trailers(&mut self, exchange: &mut Exchange) -> HeaderList {
        self.input.take_trailers(exchange)
    }

    fn conclude(self: Box<Self>, exchange: &mut Exchange, completed: bool) {
        self.input.conclude(exchange, completed);
    }
}
