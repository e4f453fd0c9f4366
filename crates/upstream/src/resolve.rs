//! Names that are resolved at run time (`resolver`): the interface for workers.
//!
//! The data plane does not implement DNS. An implementation of [`Resolve`] answers from its own
//! thread; workers wait for a [`Lookup`] as for any future.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The resolver given by `resolver` and `resolver_timeout` of a location.
pub trait Resolve: Send + Sync + fmt::Debug {
    /// Looks up the addresses of a name. An IP address (IPv6 also in brackets) resolves to itself.
    /// Does not wait: answers that are not known yet come later.
    fn lookup(&self, name: &str) -> Lookup;

    /// Asks where a name leads that is an alias (CNAME), one step. It is asked anew each time.
    fn alias(&self, name: &str) -> NameAnswer;

    /// Asks for the name of an address (PTR). It is asked anew each time.
    fn name_of(&self, address: IpAddr) -> NameAnswer;
}

/// The answer to [`Resolve::alias`] or [`Resolve::name_of`] when it comes: a name without a dot at
/// its end, in lower case; `None` for a name that is no alias, or an address without a name.
pub type NameAnswer = oneshot::Receiver<Result<Option<String>, ResolveError>>;

/// The addresses of a name: at least one. Each lookup starts with a different one, if there are
/// several.
pub type Addresses = Arc<[IpAddr]>;

/// Addresses that are known or will be. Dropping a lookup cancels it.
#[derive(Debug)]
pub struct Lookup(ResolveState);

#[derive(Debug)]
enum ResolveState {
    Known(Option<Result<Addresses, ResolveError>>),
    Waiting(oneshot::Receiver<Result<Addresses, ResolveError>>),
}

impl Lookup {
    /// A lookup with a known result.
    #[must_use]
    pub fn known(result: Result<Addresses, ResolveError>) -> Lookup {
        Lookup(ResolveState::Known(Some(result)))
    }

    /// A pending lookup, and the sender for its result.
    #[must_use]
    pub fn waiting() -> (oneshot::Sender<Result<Addresses, ResolveError>>, Lookup) {
        let (sender, receiver) = oneshot::channel();
        (sender, Lookup(ResolveState::Waiting(receiver)))
    }
}

impl Future for Lookup {
    type Output = Result<Addresses, ResolveError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            ResolveState::Known(result) => Poll::Ready(
                result
                    .take()
                    .expect("a future that is ready is not polled again"),
            ),
            // If the resolver is gone, there will be no answer.
            ResolveState::Waiting(receiver) => Pin::new(receiver)
                .poll(task)
                .map(|answer| answer.unwrap_or(Err(ResolveError::TimedOut))),
        }
    }
}

/// Why a name has no addresses. Displayed as in nginx, code first: `NAME could not be resolved (3:
/// Host not found)` is `format!("{name} could not be resolved ({error})")`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResolveError {
    /// The server did not understand the query (FORMERR).
    Format,
    /// The server failed (SERVFAIL), or its answer was invalid.
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
