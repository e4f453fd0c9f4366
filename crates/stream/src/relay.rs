//! A relay: bytes between a client and a server, both ways, until the end.
//!
//! The two directions know nothing of each other. Each receives only when everything it received
//! before has been sent, so that a slow reader slows its peer down instead of filling memory.
//!
//! | file | what |
//! |---|---|
//! | `flow.rs` | one direction |
//! | `pace.rs` | how much is received at a time, and whether through a pipe or memory |
//! | `rate.rs` | `proxy_upload_rate`, `proxy_download_rate` |

mod flow;
mod pace;
pub(crate) mod rate;
#[cfg(test)]
mod tests;

use flow::{Flow, Passage};
use sealane_io::stream::StreamError;
use sealane_io::{Endpoint, Stream};
use sealane_tls::KernelSeal;
use std::fmt;
use std::task::{Context, Poll};
use std::time::Instant;

pub use pace::{BULK_BYTES, MAX_BULK};

/// Bytes that a direction moves before other connections of the thread have their turn.
const SHARE_BYTES: usize = 512 << 10;

/// What receiving counts for at least, however little comes: to open many records with a byte in
/// each takes as long as to open one large record.
const RECEIVE_BYTES: usize = 16 << 10;

/// How a relay works.
#[derive(Debug, Clone, Copy)]
pub struct RelaySettings {
    /// `proxy_buffer_size`: bytes received at a time. Over TLS, while a peer sends more than that
    /// at once, a bounded number of relays ([`MAX_BULK`]) receives up to [`BULK_BYTES`].
    pub buffer_bytes: usize,
    /// `proxy_upload_rate`: bytes received from the client in a second; 0 for no limit.
    pub upload_rate: u64,
    /// `proxy_download_rate`: bytes received from the server in a second; 0 for no limit.
    pub download_rate: u64,
    /// `proxy_half_close`: the end of one direction does not end the other.
    pub half_close: bool,
}

/// One of the two peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Who has connected.
    Client,
    /// Who was connected to.
    Server,
}

/// What was being done. As text, nginx's words for it in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Receiving from this side.
    Reading(Side),
    /// Sending to this side.
    Sending(Side),
}

/// Bytes so far, without what TLS adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received from the client, with those that the relay was given.
    pub from_client: u64,
    /// Taken by the kernel for the server.
    pub to_server: u64,
    /// Received from the server, with those that the relay was given.
    pub from_server: u64,
    /// Taken by the kernel for the client.
    pub to_client: u64,
}

/// The relay has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Who has ended it; with `half_close`, who was the last to end.
    pub by: Side,
}

/// Why the relay, or one direction of it, cannot go on. `C` and `S` are the errors of TLS to the
/// client and to the server.
#[derive(Debug)]
pub enum RelayError<C, S> {
    /// The client's stream has failed.
    Client(Action, StreamError<C>),
    /// The server's stream has failed.
    Server(Action, StreamError<S>),
}

/// The error of a relay between streams with these TLS sides.
pub type RelayErrorOf<C, S> =
    RelayError<<C as sealane_tls::SansIo>::Error, <S as sealane_tls::SansIo>::Error>;

/// Bytes between a client and a server. It holds no buffer and no pipe while nothing is on its way.
pub struct Relay {
    settings: RelaySettings,
    began: Instant,
    /// From the client to the server.
    up: Flow,
    /// From the server to the client.
    down: Flow,
}

impl Relay {
    /// A relay that begins now. `from_client` and `from_server` were received before; they are sent
    /// first, and counted.
    pub fn new(settings: RelaySettings, from_client: Vec<u8>, from_server: Vec<u8>) -> Relay {
        Relay {
            settings,
            began: Instant::now(),
            up: Flow::new(from_client),
            down: Flow::new(from_server),
        }
    }

    /// Moves bytes until there is nothing more to do now. Ready when the relay has ended: without
    /// `half_close`, when one side has ended and has been sent on entirely, as in nginx; with it,
    /// when both have. Then the streams can be closed.
    ///
    /// # Errors
    /// Of [`Action::Reading`]: the side counts as ended now, and what it has sent is still to be
    /// passed on, so poll again. Of [`Action::Sending`]: the relay is over.
    pub fn poll<E1: Endpoint, T1: KernelSeal, E2: Endpoint, T2: KernelSeal>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut Stream<E1, T1>,
        server: &mut Stream<E2, T2>,
    ) -> Poll<Result<Ended, RelayErrorOf<T1, T2>>> {
        let finished_before = (self.up.is_finished(), self.down.is_finished());
        let passage = Passage {
            buffer_bytes: self.settings.buffer_bytes.max(1),
            rate: self.settings.upload_rate,
            began: self.began,
            half_close: self.settings.half_close,
        };
        if let Poll::Ready(Err(error)) = self.up.poll(cx, &passage, client, server) {
            return Poll::Ready(Err(match error {
                flow::Error::From(error) => {
                    RelayError::Client(Action::Reading(Side::Client), error)
                }
                flow::Error::To(error) => RelayError::Server(Action::Sending(Side::Server), error),
            }));
        }
        let passage = Passage {
            rate: self.settings.download_rate,
            ..passage
        };
        if let Poll::Ready(Err(error)) = self.down.poll(cx, &passage, server, client) {
            return Poll::Ready(Err(match error {
                flow::Error::From(error) => {
                    RelayError::Server(Action::Reading(Side::Server), error)
                }
                flow::Error::To(error) => RelayError::Client(Action::Sending(Side::Client), error),
            }));
        }
        match self.is_over() {
            true => {
                let by_client = match finished_before {
                    (false, false) => self.up.is_finished(),
                    (client_before, _) => !client_before,
                };
                Poll::Ready(Ok(Ended {
                    by: match by_client {
                        true => Side::Client,
                        false => Side::Server,
                    },
                }))
            }
            false => Poll::Pending,
        }
    }

    /// Bytes so far.
    pub fn counts(&self) -> Counts {
        Counts {
            from_client: self.up.received,
            to_server: self.up.sent,
            from_server: self.down.received,
            to_client: self.down.sent,
        }
    }

    /// A number that grows with every byte received or sent: while it stands still, `proxy_timeout`
    /// runs.
    pub fn progress(&self) -> u64 {
        let counts = self.counts();
        [
            counts.from_client,
            counts.to_server,
            counts.from_server,
            counts.to_client,
        ]
        .into_iter()
        .fold(0, u64::wrapping_add)
    }

    /// Whether a direction waits for its rate, during which `proxy_timeout` does not run.
    pub fn is_delayed(&self) -> bool {
        self.up.is_delayed() || self.down.is_delayed()
    }

    fn is_over(&self) -> bool {
        let (up, down) = (&self.up, &self.down);
        let both = up.is_finished() && down.is_finished();
        let either = up.is_finished() || down.is_finished();
        // Nobody loses what they have been promised, even if both end at the same time.
        let is_settled = |flow: &Flow| flow.is_finished() || !flow.has_ended();
        both || either && !self.settings.half_close && is_settled(up) && is_settled(down)
    }
}

impl<C, S> RelayError<C, S> {
    /// What was being done.
    pub fn action(&self) -> Action {
        match self {
            RelayError::Client(action, _) | RelayError::Server(action, _) => *action,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Reading(Side::Client) => "proxying and reading from client",
            Action::Reading(Side::Server) => "proxying and reading from upstream",
            Action::Sending(Side::Client) => "proxying and sending to client",
            Action::Sending(Side::Server) => "proxying and sending to upstream",
        })
    }
}

impl<C: fmt::Display, S: fmt::Display> fmt::Display for RelayError<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RelayError::Client(action, error) => write!(f, "{error} while {action}"),
            RelayError::Server(action, error) => write!(f, "{error} while {action}"),
        }
    }
}

impl<C, S> std::error::Error for RelayError<C, S>
where
    C: std::error::Error + 'static,
    S: std::error::Error + 'static,
{
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RelayError::Client(_, error) => Some(error),
            RelayError::Server(_, error) => Some(error),
        }
    }
}
