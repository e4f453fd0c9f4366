//! Connects sessions of layer 4 to a server: one after the other, until a connection stands
//! (`proxy_next_upstream` of `stream`).

use super::attempt::{
    begin_attempt, end_attempt, forget_unreached_peer, last_attempt, note_failure,
};
use super::failure::{Doing, Failure};
use super::lease::Leased;
use super::next::{self, Cause};
use super::peer_choice::{self, Asked, ReadyPeer};
use super::peer_connection::{self, Dial, PeerAt, PeerConnection};
use super::states::Attempt;
use super::tls_settings::Secured;
use super::{PassRuntime, Target, identity};
use crate::exchange::Exchange;
use crate::request_log;
use sealane_http::StatusCode;
use sealane_io::datagram::DatagramSocket;
use sealane_upstream::{Peer, Tried};
use std::time::Instant;

/// A server with the connection, or the socket, to it.
pub(crate) struct SessionPeer<C> {
    connection: C,
    lease: Leased,
    preamble_bytes: u64,
}

impl<C> SessionPeer<C> {
    /// The address of the server, as in `$upstream_addr`.
    pub(crate) fn name(&self) -> &str {
        self.lease.picked().peer().name()
    }

    /// The first byte has come from the server.
    pub(crate) fn note_first_byte(&mut self) {
        if !self.lease.group().times_connecting {
            self.lease.note_head();
        }
    }

    /// The socket, apart from the server.
    pub(crate) fn split(self) -> (C, SessionPeer<()>) {
        let SessionPeer {
            connection,
            lease,
            preamble_bytes,
        } = self;
        let rest = SessionPeer {
            connection: (),
            lease,
            preamble_bytes,
        };
        (connection, rest)
    }
}

impl SessionPeer<()> {
    /// Bytes of the PROXY header that the server has got first.
    pub(crate) fn preamble_bytes(&self) -> u64 {
        self.preamble_bytes
    }

    /// The session is over; the server has answered, as far as that was expected, or has failed.
    pub(crate) fn end(self, exchange: &Exchange, has_failed: bool) {
        match has_failed {
            true => note_failure(exchange, self.lease, Doing::Proxying),
            false => self.lease.succeeded(None),
        }
    }
}

/// A server of the pass's group that datagrams can be sent to, and the PROXY header for it, which
/// belongs in front of the first one.
///
/// # Errors
/// The status of the session; the reason is logged.
pub(crate) async fn connect_datagrams(
    exchange: &mut Exchange,
    pass: &PassRuntime,
) -> Result<(SessionPeer<DatagramSocket>, Vec<u8>), StatusCode> {
    let opening = async |exchange: &Exchange, _: Option<&Secured>, peer: &Peer| {
        let dial = Dial::new(exchange, pass.settings(), peer.address());
        let socket = dial.connect_datagrams();
        socket.map_err(|error| error.into_failure(Some(peer.name().as_ref().into())))
    };
    let header = identity::proxy_header(exchange).unwrap_or_default();
    let peer = connect_by(exchange, pass, header.len() as u64, opening).await?;
    Ok((peer, header))
}

/// Connects to a server of the pass's group.
///
/// # Errors
/// The status of the session; the reason is logged.
pub(crate) async fn connect(
    exchange: &mut Exchange,
    pass: &PassRuntime,
) -> Result<SessionPeer<PeerConnection>, StatusCode> {
    let header = identity::proxy_header(exchange);
    let preamble_bytes = header.as_ref().map_or(0, Vec::len) as u64;
    let opening = async |exchange: &Exchange, secured: Option<&Secured>, peer: &Peer| {
        let to = PeerAt::itself(peer, secured);
        peer_connection::open(exchange, pass, to, header.clone()).await
    };
    connect_by(exchange, pass, preamble_bytes, opening).await
}

/// Picks servers until one can be opened. A server gets a PROXY header of that length first.
async fn connect_by<C>(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    preamble_bytes: u64,
    opening: impl AsyncFn(&Exchange, Option<&Secured>, &Peer) -> Result<C, Failure>,
) -> Result<SessionPeer<C>, StatusCode> {
    let target = Target::of(exchange, pass).await;
    // As in nginx, whatever is wrong with it.
    let target = target.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let settings = pass.settings();
    // As in nginx, datagrams are not encrypted, whatever `proxy_ssl` says.
    let secured = match exchange.connection.is_udp() {
        true => None,
        false => pass.secured(exchange, &target),
    };
    let secured = secured.as_deref();
    let mut begun = Instant::now();
    let mut tried = Tried::new(settings.next_upstream_tries);
    loop {
        let asked = Asked {
            pass,
            target: &target,
            secured,
            affinity: None,
            redirected: false,
        };
        let found = peer_choice::find(exchange, &asked, &mut tried).await;
        let ReadyPeer {
            mut lease,
            queued,
            now,
        } = found.map_err(|_| StatusCode::BAD_GATEWAY)?;
        begun += queued.unwrap_or_default();
        let peer = lease.picked().peer().clone();
        let mut attempt = Attempt::new(peer.name().clone(), peer.server().clone(), now);
        attempt.counted = Some(peer.clone());
        begin_attempt(exchange, attempt, false);
        let opened = opening(exchange, secured, &peer).await;
        let failure = match opened {
            Ok(connection) => {
                if let Some(attempt) = last_attempt(exchange) {
                    attempt.connect_time = Some(now.elapsed());
                }
                lease.set_opened();
                lease.note_connected();
                return Ok(SessionPeer {
                    connection,
                    lease,
                    preamble_bytes,
                });
            }
            Err(failure) => failure,
        };
        request_log::log(exchange, failure.level(), format_args!("{failure}"));
        end_attempt(exchange, StatusCode::BAD_GATEWAY);
        if !failure.is_of_peer() {
            forget_unreached_peer(exchange, &failure);
            return Err(StatusCode::INTERNAL_SERVER_ERROR);
        }
        note_failure(exchange, lease, failure.doing());
        let cause = Cause::of(&failure);
        if tried.left() == 0 || !next::may_go_on(exchange, settings, cause, false, false, begun) {
            return Err(StatusCode::BAD_GATEWAY);
        }
    }
}
