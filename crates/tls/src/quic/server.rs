//! A server's end of a handshake over QUIC.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sealane_awslc::{
    HandshakeStatus, MAX_QUIC_FLIGHT_BYTES, QuicEvent as Event, QuicLevel as Level,
};

use super::failure::{Close, Failure};
use super::version::Version;
use crate::acceptor::Acceptor;
use crate::client_certificates::ClientChain;
use crate::client_hello::message_length;
use crate::connection::{Connection, QuicProgress};
use crate::error::Error;
use crate::info::Info;
use crate::offload::Load;
use crate::server::ServerTls;
use crate::sessions::stats::{EarlyVerdict, Missed, Resumed};

/// `unexpected_message`: what begins as no ClientHello does.
const ALERT_UNEXPECTED_MESSAGE: u8 = 10;

const CLIENT_HELLO: u8 = 1;

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is over: the client is who has its secrets and, where one was asked for, has shown the
    /// certificate of [`ServerConnection::client_chain`].
    Established,
    /// Take the events, then come back with more data.
    WantRead,
    /// On a server: its parameters are due
    /// ([`set_transport_parameters`](ServerConnection::set_transport_parameters)).
    ParametersDue,
    /// Wait with `poll_pending`, then call again.
    Pending,
}

/// A server's end of TLS in one QUIC connection. It moves between threads by value.
///
/// Give it what comes in CRYPTO frames, in order and without repetition
/// ([`receive`](Self::receive)), call [`advance`](Self::advance), and take all of
/// [`next_event`](Self::next_event) unless it is [`Status::Pending`]. When one of these fails,
/// close the connection as the [`Failure`] says; every later call fails, too.
pub struct ServerConnection {
    tls: Connection,
    /// The ClientHello, until it is complete.
    hello: Vec<u8>,
    /// What came while the handshake was waiting for something.
    backlog: Vec<(Level, Vec<u8>)>,
    failure: Option<Box<Failure>>,
}

impl ServerConnection {
    /// A connection of a client whose first packet is of this version.
    pub fn accept(acceptor: &Acceptor, version: Version) -> Self {
        Self {
            tls: Connection::accept_quic(acceptor, version),
            hello: Vec::new(),
            backlog: Vec::new(),
            failure: None,
        }
    }

    /// The version that was negotiated (RFC 9368), if it is not that of the first packet. It must
    /// be known when the parameters are set.
    pub fn set_version(&mut self, version: Version) {
        self.tls.set_quic_version(version);
    }

    /// The transport parameters for the client (RFC 9001 section 8.2). They may be set at once, or
    /// when [`advance`](Self::advance) says [`Status::ParametersDue`]: then the server is chosen,
    /// and the [parameters of the client](Self::peer_transport_parameters) are known.
    ///
    /// `early_data_context` is everything that a client remembers with a ticket for its early data:
    /// the limits among the parameters, and the settings of the application. Early data is accepted
    /// only if it is, byte for byte, what it was when the ticket was made; none if it is empty.
    pub fn set_transport_parameters(&mut self, parameters: &[u8], early_data_context: &[u8]) {
        self.tls.set_quic_parameters(parameters, early_data_context);
    }

    /// Takes data of CRYPTO frames.
    ///
    /// # Errors
    ///
    /// When there can be none at this level, or it is more than what is kept.
    pub fn receive(&mut self, level: Level, bytes: &[u8]) -> Result<(), Failure> {
        self.check()?;
        let taken = self.take(level, bytes);
        taken.map_err(|failure| self.fail(failure))
    }

    fn take(&mut self, level: Level, bytes: &[u8]) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        let is_before_hello = self.tls.is_before_hello();
        if level == Level::ZeroRtt || (is_before_hello && level != Level::Initial) {
            return Err(Failure::of_peer(
                Close::ProtocolViolation,
                "CRYPTO data at a level that has none",
            ));
        }
        if is_before_hello {
            if self.hello.len().saturating_add(bytes.len()) > MAX_QUIC_FLIGHT_BYTES {
                return Err(too_much());
            }
            self.hello.extend_from_slice(bytes);
            return Ok(());
        }
        if self.backlog.is_empty()
            && let Some(library) = self.tls.quic_library()
        {
            let provided = library.provide_quic_data(level, bytes);
            return provided.map_err(|error| self.failure_of(error.into()));
        }
        let kept: usize = self.backlog.iter().map(|(_, bytes)| bytes.len()).sum();
        if kept.saturating_add(bytes.len()) > MAX_QUIC_FLIGHT_BYTES {
            return Err(too_much());
        }
        match self.backlog.last_mut() {
            Some((last, kept)) if *last == level => kept.extend_from_slice(bytes),
            _ => self.backlog.push((level, bytes.to_vec())),
        }
        Ok(())
    }

    /// The most bytes at this level that are worth keeping while earlier ones are missing: no more
    /// is taken at a time. [`MAX_QUIC_FLIGHT_BYTES`], or more where the client's certificates are
    /// expected.
    pub fn max_crypto_bytes(&self, level: Level) -> usize {
        let library = self.tls.quic_library_ref();
        library.map_or(MAX_QUIC_FLIGHT_BYTES, |tls| {
            tls.quic_max_flight_bytes(level)
        })
    }

    /// Goes on with the handshake or, once that is over, with what came after it. `load` decides,
    /// with `ssl_async`, whether the handshake leaves for the handshake threads.
    ///
    /// [`Status::Pending`] has the same causes as over TCP: certificates are being found, the store
    /// of all nodes was asked, the handshake has left, or an accelerator has its private-key
    /// operation.
    ///
    /// # Errors
    ///
    /// The handshake has failed.
    pub fn advance(&mut self, load: Load) -> Result<Status, Failure> {
        self.check()?;
        let status = self.step(load);
        status.map_err(|failure| self.fail(failure))
    }

    fn step(&mut self, load: Load) -> Result<Status, Failure> {
        if self.tls.is_before_hello() {
            let Some(length) = hello_length(&self.hello)? else {
                return Ok(Status::WantRead);
            };
            let rest = self.hello.split_off(length);
            let hello = std::mem::take(&mut self.hello);
            if !rest.is_empty() {
                // libssl says what is wrong about it.
                self.backlog.push((Level::Initial, rest));
            }
            let progress = self.tls.quic_hello(&hello, load);
            let progress = progress.map_err(|error| self.failure_of(error))?;
            if let Some(status) = self.pause(progress) {
                return Ok(status);
            }
        }
        loop {
            if !self.backlog.is_empty()
                && let Some(library) = self.tls.quic_library()
            {
                let (level, bytes) = self.backlog.remove(0);
                let provided = library.provide_quic_data(level, &bytes);
                provided.map_err(|error| self.failure_of(error.into()))?;
            }
            if self.tls.is_established()
                && let Some(library) = self.tls.quic_library()
            {
                let processed = library.process_quic_data();
                processed.map_err(|error| self.failure_of(error.into()))?;
            }
            let progress = self.tls.quic_go_on(load);
            let progress = progress.map_err(|error| self.failure_of(error))?;
            if let Some(status) = self.pause(progress) {
                return Ok(status);
            }
            if self.backlog.is_empty() {
                return Ok(match self.tls.is_established() {
                    true => Status::Established,
                    // Also while early data is read.
                    false => Status::WantRead,
                });
            }
        }
    }

    /// What has to be waited for before more data is of use.
    fn pause(&self, progress: QuicProgress) -> Option<Status> {
        match progress {
            QuicProgress::Chosen => Some(Status::ParametersDue),
            QuicProgress::Status(HandshakeStatus::Pending) => Some(Status::Pending),
            QuicProgress::Status(HandshakeStatus::Done | HandshakeStatus::WantRead) => None,
        }
    }

    /// What is to be done next; `None` when that is nothing, or the handshake is pending. The
    /// server's flight has data at several levels: fill datagrams with what all events of one call
    /// of [`advance`](Self::advance) have brought. The session tickets are the last.
    pub fn next_event(&mut self) -> Option<Event> {
        self.tls.quic_event()
    }

    /// Waits for whatever made the handshake [`Status::Pending`]. Ready at once when nothing did.
    pub fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.tls.poll_pending(cx)
    }

    /// The longest that this handshake may wait for the store of all nodes, in all: one timer from
    /// the first [`Status::Pending`] on. `None` when it does not wait for the store.
    pub fn pending_timeout(&self) -> Option<Duration> {
        self.tls.lookup_timeout()
    }

    /// Waits no longer for the store: call [`advance`](Self::advance) next.
    pub fn pending_timed_out(&mut self) {
        self.tls.lookup_timed_out();
    }

    /// How long the handshake has waited for a thread of the pool and for its turn in an
    /// accelerator.
    pub fn queue_time(&self) -> Duration {
        self.tls.queue_time()
    }

    /// Refuses the handshake as there is too much to do.
    pub fn refuse(&mut self) -> Failure {
        let error = self.tls.refuse(&mut Vec::new());
        let failure = self.failure_of(error);
        self.fail(failure)
    }

    /// The transport parameters of the client, as they came, once its hello has been read.
    pub fn peer_transport_parameters(&self) -> Option<&[u8]> {
        self.tls.quic_peer_parameters()
    }

    /// Whether early data is accepted: 0-RTT packets are then what the client's session allows,
    /// and may be replays until the handshake is over. Known with the first
    /// [`Status::WantRead`] after the hello; if not, 0-RTT packets are dropped.
    pub fn early_data_accepted(&self) -> bool {
        self.tls.is_early_data_accepted()
    }

    /// Whether the handshake is over.
    pub fn is_established(&self) -> bool {
        self.failure.is_none() && self.tls.is_established()
    }

    /// The application protocol, once it is negotiated.
    pub fn alpn(&self) -> Option<&[u8]> {
        let alpn = self.info()?.alpn();
        (!alpn.is_empty()).then_some(alpn)
    }

    /// The server name that the client sent.
    pub fn server_name(&self) -> Option<&str> {
        let name = self.info()?.server_name();
        (!name.is_empty()).then_some(name)
    }

    /// What was negotiated; `None` before a server was chosen and while the handshake is pending.
    pub fn info(&self) -> Option<Info<'_>> {
        self.tls.info()
    }

    /// The certificates of the client: see
    /// [`Connection::client_chain`](crate::Connection::client_chain).
    pub fn client_chain(&self) -> Option<ClientChain> {
        self.tls.client_chain()
    }

    /// The token that [`SelectServer`](crate::SelectServer) gave; 0 before.
    pub fn selected_token(&self) -> u32 {
        self.tls.selected_token()
    }

    /// The server chosen; `None` before.
    pub fn server(&self) -> Option<&Arc<ServerTls>> {
        self.tls.server()
    }

    /// How the session was resumed, once the handshake is done.
    pub fn resumed(&self) -> Option<Resumed> {
        self.tls.resumed()
    }

    /// Why the session that the client offered was not resumed, once the handshake is done.
    pub fn missed(&self) -> Option<Missed> {
        self.tls.missed()
    }

    /// What became of early data; `None` when none was offered, or the server takes none.
    pub fn early_verdict(&self) -> Option<EarlyVerdict> {
        self.tls.early_verdict()
    }

    fn check(&self) -> Result<(), Failure> {
        match &self.failure {
            Some(failure) => Err((**failure).clone()),
            None => Ok(()),
        }
    }

    fn failure_of(&self, error: Error) -> Failure {
        Failure::of_server(error, self.tls.quic_alert())
    }

    fn fail(&mut self, failure: Failure) -> Failure {
        self.failure = Some(Box::new(failure.clone()));
        self.hello = Vec::new();
        self.backlog = Vec::new();
        failure
    }
}

/// How long the ClientHello at the start of these bytes is; `None` if it is not complete.
fn hello_length(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    if bytes.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        let alert = Close::Alert(ALERT_UNEXPECTED_MESSAGE);
        return Err(Failure::of_peer(alert, "no ClientHello"));
    }
    match message_length(bytes) {
        Some(length) if length > MAX_QUIC_FLIGHT_BYTES => Err(too_much()),
        Some(length) if length <= bytes.len() => Ok(Some(length)),
        _ => Ok(None),
    }
}

fn too_much() -> Failure {
    Failure::of_peer(Close::CryptoBufferExceeded, "too much CRYPTO data")
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Some(failure) => write!(f, "quic::ServerConnection({failure})"),
            None => write!(f, "quic::Server{:?}", self.tls),
        }
    }
}
