//! Names that are looked up at run time (`resolver`): the interface that workers ask.
//!
//! The data plane knows no DNS. Who does implements [`Resolve`] and answers from a
//! thread of its own; workers wait for a [`Lookup`] as for any future.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// What `resolver` and `resolver_timeout` of a location name.
pub trait Resolve: Send + Sync + fmt::Debug {
    /// Looks the addresses of a name up. An IP address (IPv6 also in brackets) stands for
    /// itself. Does not wait: what is not known is answered later.
    fn lookup(&self, name: &str) -> Lookup;
}

/// The addresses of a name: at least one. Of several, each lookup begins with another one.
pub type Addresses = Arc<[IpAddr]>;

/// Addresses that are known, or will be. A lookup that is dropped is given up.
#[derive(Debug)]
pub struct Lookup(State);

#[derive(Debug)]
enum State {
    Known(Option<Result<Addresses, ResolveError>>),
    Waiting(oneshot::Receiver<Result<Addresses, ResolveError>>),
}

impl Lookup {
    /// It is known already.
    #[must_use]
    pub fn known(result: Result<Addresses, ResolveError>) -> Lookup {
        Lookup(State::Known(Some(result)))
    }

    /// It will be known, and the end that says it.
    #[must_use]
    pub fn waiting() -> (oneshot::Sender<Result<Addresses, ResolveError>>, Lookup) {
        let (sender, receiver) = oneshot::channel();
        (sender, Lookup(State::Waiting(receiver)))
    }
}

impl Future for Lookup {
    type Output = Result<Addresses, ResolveError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Known(result) => Poll::Ready(
                result
                    .take()
                    .expect("a future that is ready is not polled again"),
            ),
            // Without a resolver that could answer, none will.
            State::Waiting(receiver) => Pin::new(receiver)
                .poll(task)
                .map(|answer| answer.unwrap_or(Err(ResolveError::TimedOut))),
        }
    }
}

/// Why a name has no addresses. Shown as nginx shows it, code first: `NAME could not be
/// resolved (3: Host not found)` is `format!("{name} could not be resolved ({error})")`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResolveError {
    /// The server did not understand the question (FORMERR).
    Format,
    /// The server failed (SERVFAIL), or its answer made no sense.
    ServerFailure,
    /// There is no such name (NXDOMAIN), or it has no address.
    NotFound,
    /// NOTIMP.
    Unimplemented,
    /// REFUSED.
    Refused,
    /// No answer within `resolver_timeout`.
    TimedOut,
}

impl ResolveError {
    /// nginx's number: DNS's response code, or `ETIMEDOUT`.
    pub fn code(self) -> u32 {
        match self {
            ResolveError::Format => 1,
            ResolveError::ServerFailure => 2,
            ResolveError::NotFound => 3,
            ResolveError::Unimplemented => 4,
            ResolveError::Refused => 5,
            ResolveError::TimedOut => 110,
        }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ResolveError::Format => "Format error",
            ResolveError::ServerFailure => "Server failure",
            ResolveError::NotFound => "Host not found",
            ResolveError::Unimplemented => "Unimplemented",
            ResolveError::Refused => "Operation refused",
            ResolveError::TimedOut => "Operation timed out",
        };
        write!(f, "{}: {text}", self.code())
    }
}

impl std::error::Error for ResolveError {}
