//! A response body that is still arriving when its head is sent.
//!
//! A handler whose body is complete puts it into the response's chain. One that
//! has more to come leaves a [`BodySource`], which the connection asks whenever it
//! is polled: the body flows at the pace of the client, and what the handler reads
//! from elsewhere is its own affair.

use crate::exchange::Exchange;
use sealane_http::headers::HeaderList;
use sealane_io::chain::OutputChain;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

/// Where the rest of a response body comes from.
pub trait BodySource: Send {
    /// Appends up to `max_bytes` of the body to `out`.
    ///
    /// It is called on every poll of the client's connection until the body has
    /// ended, with `max_bytes` 0 while the client takes nothing: a source that
    /// buffers may go on reading then. Ready means that something was appended, or
    /// that this was the end; a source that has appended nothing is pending.
    ///
    /// # Errors
    /// When the rest will not come; what was appended to `out` is still good. The source has said
    /// why; the client learns that the response is incomplete by the way its connection or stream
    /// ends.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>>;

    /// Whether what is there should reach the client although more follows: a filter then holds
    /// nothing back for a better result (`proxy_buffering off`).
    fn is_prompt(&self) -> bool {
        false
    }

    /// Whether the head is to wait for the first bytes of the body: if there will be none because
    /// of an error, the client gets no response instead of the beginning of one.
    fn holds_head(&self) -> bool {
        false
    }

    /// Trailers for the client, once the body has ended.
    fn take_trailers(&mut self, _exchange: &mut Exchange) -> HeaderList {
        HeaderList::new()
    }

    /// The response is over, `completed` or not: what is known goes into the exchange,
    /// for logs, and connections go back to where they came from.
    fn conclude(self: Box<Self>, exchange: &mut Exchange, completed: bool);
}

/// A body that is pending, in a response.
///
/// Exchanges are lent to several readers at a time, sources are not; the lock, which
/// is never taken, is what says so to the compiler.
pub struct PendingBody(Mutex<Box<dyn BodySource>>);

impl PendingBody {
    /// The body that comes from this source.
    pub fn new(source: impl BodySource + 'static) -> PendingBody {
        PendingBody(Mutex::new(Box::new(source)))
    }

    /// The source.
    pub fn into_source(self) -> Box<dyn BodySource> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source inside another, for a filter.
    pub fn wrap(self, by: impl FnOnce(Box<dyn BodySource>) -> Box<dyn BodySource>) -> PendingBody {
        PendingBody(Mutex::new(by(self.into_source())))
    }
}

impl fmt::Debug for PendingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingBody")
    }
}

/// What [`BodySource::poll_fill`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// There may be more.
    More,
    /// That was all.
    End,
}

/// The body ends before its time; the source has logged why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceError;
