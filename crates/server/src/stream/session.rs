//! What a session is to everything else: an exchange without a request.

use crate::client_link::ClientLink;
use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::facts::ConnectionFacts;
use crate::mail::MailState;
use crate::prologue::Arrival;
use crate::snapshot::{ListenerId, ServerId, Snapshot};
use crate::worker::Worker;
use sealane_conf::model::ServerKind;
use sealane_http::StatusCode;
use sealane_http::h1::RequestHead;
use sealane_tls::PrereadHello;
use std::sync::Arc;
use std::time::Instant;

/// `$status` of a session whose end is not known yet.
const UNDECIDED: StatusCode = StatusCode(0);

/// What a session keeps besides what requests do.
#[derive(Default)]
pub(crate) struct SessionState {
    /// What the ClientHello says, with `ssl_preread`.
    pub(super) hello: Option<PrereadHello>,
    /// Of a session of mail.
    pub(crate) mail: Option<Box<MailState>>,
}

/// The session of a connection that begins.
pub(crate) fn of_connection(connection: &Connection) -> Exchange {
    begin(
        connection.worker.clone(),
        connection.snapshot.clone(),
        connection.facts.clone(),
        (connection.listener, connection.server),
    )
}

/// A session that begins at this listener, with this server of it.
pub(super) fn begin(
    worker: Arc<Worker>,
    snapshot: Arc<Snapshot>,
    facts: Arc<ConnectionFacts>,
    (listener, server): (ListenerId, ServerId),
) -> Exchange {
    let arrival = Arrival {
        worker,
        snapshot,
        facts,
        listener,
        server,
        client: ClientLink::default(),
        buffer: Vec::new(),
        head: RequestHead::default(),
        since: Instant::now(),
        early_data: false,
    };
    let mut exchange = arrival.begin();
    exchange.features.session = Some(Box::default());
    exchange.response.status = UNDECIDED;
    exchange
}

/// Goes on with another server of the listener.
pub(super) fn choose_server(exchange: &mut Exchange, server: ServerId) {
    exchange.server = server;
    exchange.location = exchange.snapshot.server(server).default_location;
}

impl Exchange {
    /// Whether it is a session of layer 4 or of mail.
    pub(crate) fn is_session(&self) -> bool {
        self.features.session.is_some()
    }

    /// The block that it belongs to.
    pub(crate) fn kind(&self) -> ServerKind {
        match &self.features.session {
            None => ServerKind::Http,
            Some(session) if session.mail.is_some() => ServerKind::Mail,
            Some(_) => ServerKind::Stream,
        }
    }
}
