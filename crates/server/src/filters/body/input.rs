//! The input of a body filter: the body before it, as bytes in memory.

use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::{Exchange, Response};
use crate::request_log::log_request;
use bytes::Bytes;
use sealane_http::headers::HeaderList;
use sealane_io::chain::{OutputChain, Segment};
use sealane_io::stream::ChainReader;
use std::task::{Context, Poll, ready};

/// The longest piece that a filter gets at a time.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// A body that is read piece by piece: first what is there in memory and files, then what is still
/// to come.
pub(crate) struct Input {
    chain: OutputChain,
    reader: ChainReader,
    source: Option<Box<dyn BodySource>>,
    /// The source has ended, or failed.
    source_ended: bool,
    /// The source has failed: what it gave before is still to be read.
    has_failed: bool,
}

impl Input {
    /// Takes the body out of a response.
    pub(crate) fn of(response: &mut Response) -> Input {
        Input {
            chain: std::mem::take(&mut response.body),
            reader: ChainReader::default(),
            source: response.source.take().map(PendingBody::into_source),
            source_ended: false,
            has_failed: false,
        }
    }

    /// The next piece, never empty; `None` at the end.
    ///
    /// # Errors
    /// When the rest cannot be read. The log says why.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
    ) -> Poll<Result<Option<Bytes>, SourceError>> {
        loop {
            match self.chain.front() {
                Some(Segment::Memory(_)) => return Poll::Ready(Ok(self.take_memory())),
                Some(Segment::File(_)) => {
                    return self.poll_file(cx, exchange).map(|read| read.map(Some));
                }
                None => {}
            }
            if self.has_failed {
                return Poll::Ready(Err(SourceError));
            }
            let Some(source) = self.source.as_mut().filter(|_| !self.source_ended) else {
                return Poll::Ready(Ok(None));
            };
            let room = PIECE_BYTES as u64;
            let filled = ready!(source.poll_fill(cx, exchange, &mut self.chain, room));
            self.note(filled);
        }
    }

    /// Whether the source has failed, and everything that it gave before was read.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed && self.chain.is_empty()
    }

    fn note(&mut self, filled: Result<Filled, SourceError>) {
        self.has_failed = filled.is_err();
        self.source_ended = matches!(filled, Ok(Filled::End) | Err(_));
    }

    /// Lets the source read on although its bytes are not needed yet. If it fails, that is
    /// returned after what it gave before.
    pub(crate) fn read_ahead(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange) {
        while let Some(source) = self.source.as_mut().filter(|_| !self.source_ended)
            && let Poll::Ready(filled) = source.poll_fill(cx, exchange, &mut self.chain, 0)
        {
            self.note(filled);
        }
    }

    /// See [`BodySource::is_prompt`].
    pub(crate) fn is_prompt(&self) -> bool {
        self.source
            .as_ref()
            .is_some_and(|source| source.is_prompt())
    }

    /// Trailers of the source.
    pub(crate) fn take_trailers(&mut self, exchange: &mut Exchange) -> HeaderList {
        match &mut self.source {
            Some(source) => source.take_trailers(exchange),
            None => HeaderList::new(),
        }
    }

    /// See [`BodySource::conclude`].
    pub(crate) fn conclude(self, exchange: &mut Exchange, completed: bool) {
        if let Some(source) = self.source {
            source.conclude(exchange, completed);
        }
    }

    /// Memory at the front.
    fn take_memory(&mut self) -> Option<Bytes> {
        let piece = self.chain.split_to(match self.chain.front() {
            Some(front) => front.len().min(PIECE_BYTES as u64),
            None => 0,
        });
        match piece.front() {
            // A source without buffers reads on when its last piece has been freed; a filter that
            // waits for the end of a word may keep part of it.
            Some(Segment::Memory(bytes)) if self.is_prompt() => Some(Bytes::copy_from_slice(bytes)),
            Some(Segment::Memory(bytes)) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// Part of the file at the front, once it is in memory.
    fn poll_file(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &Exchange,
    ) -> Poll<Result<Bytes, SourceError>> {
        let front_bytes = self.chain.front().map_or(0, Segment::len);
        let allowed = front_bytes.min(PIECE_BYTES as u64);
        let mut bytes = Vec::with_capacity(allowed as usize); // at most a piece
        match ready!(
            self.reader
                .poll_gather(cx, &self.chain, &mut bytes, allowed)
        ) {
            Ok(taken) => {
                self.chain.advance(taken);
                Poll::Ready(Ok(Bytes::from(bytes)))
            }
            Err(error) => {
                log_request!(exchange, Crit, "{error}");
                Poll::Ready(Err(SourceError))
            }
        }
    }
}
