//! One range of a body that is still arriving (`proxy_force_ranges`).

use crate::body_source::{BodySource, Filled, SourceError};
use crate::exchange::Exchange;
use sealane_http::range::ByteRange;
use sealane_io::chain::OutputChain;
use std::task::{Context, Poll, ready};

/// A source of which only one range is sent. What precedes the range is read and discarded; what
/// follows it is not waited for.
pub(super) struct RangedSource {
    inner: Box<dyn BodySource>,
    skip_bytes: u64,
    left_bytes: u64,
}

impl RangedSource {
    /// Bytes of `inner` that belong to the range, from `range.start` on. `taken` are those that
    /// have left it already; the range is cut out of them.
    pub(super) fn new(
        inner: Box<dyn BodySource>,
        range: ByteRange,
        taken: &mut OutputChain,
    ) -> RangedSource {
        let mut source = RangedSource {
            inner,
            skip_bytes: range.start,
            left_bytes: range.bytes(),
        };
        *taken = source.cut(std::mem::take(taken));
        source
    }

    /// The part of a piece that belongs to the range.
    fn cut(&mut self, mut piece: OutputChain) -> OutputChain {
        let skipped = self.skip_bytes.min(piece.len());
        piece.advance(skipped);
        self.skip_bytes -= skipped;
        let kept = piece.split_to(self.left_bytes.min(piece.len()));
        self.left_bytes -= kept.len();
        kept
    }
}

impl BodySource for RangedSource {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        loop {
            if self.left_bytes == 0 {
                return Poll::Ready(Ok(Filled::End));
            }
            // What is discarded needs no room at the client.
            let max_bytes = match self.skip_bytes {
                0 => max_bytes,
                bytes => bytes,
            };
            let mut piece = OutputChain::new();
            let filled = ready!(self.inner.poll_fill(cx, exchange, &mut piece, max_bytes));
            let kept = self.cut(piece);
            let has_some = !kept.is_empty();
            out.append(kept);
            let filled = filled?;
            if filled == Filled::End || has_some {
                let ended = filled == Filled::End || self.left_bytes == 0;
                return Poll::Ready(Ok(if ended { Filled::End } else { Filled::More }));
            }
        }
    }

    fn is_prompt(&self) -> bool {
        self.inner.is_prompt()
    }

    fn conclude(self: Box<Self>, exchange: &mut Exchange, completed: bool) {
        self.inner.conclude(exchange, completed);
    }
}
