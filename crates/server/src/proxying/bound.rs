//! Authentication of connections (NTLM, and Negotiate as far as servers do so): whoever uses such a
//! connection is taken for the user who has proved who they are on it. So it never serves another
//! client. With `ntlm` it is bound to the connection of its client: it carries that client's
//! requests only, one at a time, and is closed with it. Without, it is closed after its request.
//!
//! A connection of HTTP/2 is not bound to: its requests come at the same time, and the three steps
//! of NTLM would be spread over several connections. Browsers use HTTP/1.1 for NTLM by themselves.

use super::PassRuntime;
use super::lease::GroupRuntime;
use super::peer_connection::PeerConnection;
use crate::exchange::Exchange;
use crate::facts::ConnectionFacts;
use sealane_conf::model::Pass;
use sealane_http::h1::Version;
use sealane_http::headers::KnownHeader;
use sealane_upstream::Picked;
use sealane_upstream::pool::{ConnectionKey, Life};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections bound to that of one client: to several groups, or with other TLS settings. The
/// oldest one is closed for another.
const MAX_BOUND: usize = 8;

/// What becomes of a connection when its request is over.
#[derive(Clone, Default)]
pub(super) enum Afterwards {
    /// Any client may have it.
    #[default]
    Shared,
    /// Only the client of this connection may.
    Bound(Arc<ConnectionFacts>),
    /// Nobody may.
    Closed,
}

impl Afterwards {
    /// That of a request for which no bound connection is there.
    pub(super) fn of(exchange: &Exchange, pass: &PassRuntime, group: &GroupRuntime) -> Afterwards {
        // Gateway protocols leave it to us who the user is.
        let is_http = matches!(pass.pass, Pass::Proxy(_) | Pass::Grpc(_));
        if !is_http || !authenticates_connection(exchange) {
            return Afterwards::Shared;
        }
        match group.ntlm && !pass.speaks_http2() && can_be_bound(exchange) {
            true => Afterwards::Bound(exchange.connection.clone()),
            false => Afterwards::Closed,
        }
    }
}

/// Whether requests of the client come one by one.
fn can_be_bound(exchange: &Exchange) -> bool {
    let version = exchange.request.head.version;
    matches!(version, Version::Http10 | Version::Http11)
}

/// Whether the request authenticates the connection that it is sent on.
fn authenticates_connection(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let mut credentials = request.head.get_all(KnownHeader::Authorization);
    credentials.any(|credentials| is_of_connections(credentials.of(&request.buffer)))
}

/// As nginx documents it: the value starts with `Negotiate` or `NTLM`. Schemes have no case.
fn is_of_connections(credentials: &[u8]) -> bool {
    let schemes = [&b"negotiate"[..], b"ntlm"];
    schemes.iter().any(|scheme| {
        let start = credentials.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// The connections that are bound to a client's.
#[derive(Default)]
pub(crate) struct BoundConnections(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    /// The client's connection has ended.
    closed: bool,
    /// The most recently used last.
    idle: VecDeque<Bound>,
}

/// One of them, between two requests.
pub(super) struct Bound {
    pub(super) connection: PeerConnection,
    pub(super) life: Life,
    group: Box<str>,
    /// The address of its peer.
    pub(super) peer: Arc<str>,
    key: ConnectionKey,
    since: Instant,
}

impl BoundConnections {
    /// The connection to a group with this key, if it is not in use. One that has been idle for
    /// `timeout`, or that the peer has closed, is closed.
    pub(super) fn take(
        &self,
        group: &str,
        key: &ConnectionKey,
        timeout: Duration,
        now: Instant,
    ) -> Option<Bound> {
        let is_it = |bound: &Bound| *bound.group == *group && bound.key == *key;
        let mut bound = {
            let mut shelf = self.shelf();
            let at = shelf.idle.iter().position(is_it)?;
            shelf.idle.remove(at)?
        };
        let is_fresh = now.saturating_duration_since(bound.since) < timeout;
        (is_fresh && bound.connection.is_quiet()).then_some(bound)
    }

    /// Keeps a connection after a request.
    pub(super) fn put(
        &self,
        group: &str,
        key: &ConnectionKey,
        picked: &Picked,
        connection: PeerConnection,
        life: Life,
    ) {
        let bound = Bound {
            connection,
            life,
            group: group.into(),
            peer: picked.peer().name().clone(),
            key: key.clone(),
            since: Instant::now(),
        };
        let mut shelf = self.shelf();
        if shelf.closed {
            return;
        }
        // A second one can only come of requests at the same time: subrequests.
        shelf
            .idle
            .retain(|other| other.group != bound.group || other.key != bound.key);
        if shelf.idle.len() >= MAX_BOUND {
            shelf.idle.pop_front();
        }
        shelf.idle.push_back(bound);
    }

    /// The client's connection has ended, and so do these.
    fn close(&self) {
        let mut shelf = self.shelf();
        shelf.closed = true;
        let idle = std::mem::take(&mut shelf.idle);
        drop(shelf);
        drop(idle);
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Usable whatever a panic has left.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the connections that are bound to a client's connection once that is dropped. The facts
/// about it may live on.
pub(crate) struct ClosesBound(pub(crate) Arc<ConnectionFacts>);

impl Drop for ClosesBound {
    fn drop(&mut self) {
        if let Some(bound) = self.0.bound.get() {
            bound.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn these_credentials_belong_to_a_connection() {
        for credentials in [
            "NTLM TlRMTVNT",
            "Negotiate abc",
            "ntlm x",
            "NEGOTIATE",
            "NTLMx",
        ] {
            assert!(is_of_connections(credentials.as_bytes()), "{credentials}");
        }
        for credentials in ["", "Basic NTLM", "Bearer Negotiate", "NTL", " NTLM"] {
            assert!(!is_of_connections(credentials.as_bytes()), "{credentials}");
        }
    }
}
