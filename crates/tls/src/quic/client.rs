//! A client's end of a handshake over QUIC, for tests and the load generator.

use std::fmt;
use std::task::{Context, Poll};

use sealane_awslc::{QuicEvent as Event, QuicLevel as Level};

use super::failure::Failure;
use super::server::Status;
use crate::client::{ClientTls, Connection, Error, Handshake, Session};

/// What a client offers over QUIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientOffer<'a> {
    /// Application protocols, preferred first; those of the settings if there are none.
    pub protocols: &'a [&'a [u8]],
    /// The transport parameters for the server.
    pub transport_parameters: &'a [u8],
    /// A session that was made over QUIC, with the same version (RFC 9369 section 5).
    pub session: Option<&'a Session>,
    /// Whether early data is offered with it, if its server takes that.
    pub early_data: bool,
}

impl ClientTls {
    /// Starts a connection over QUIC. Names, certificates and sessions are as with
    /// [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// When a name cannot be sent, or without memory.
    pub fn connect_quic(
        &self,
        name: Option<&str>,
        offer: ClientOffer<'_>,
    ) -> Result<ClientConnection, Error> {
        let mut tls = self.connect(name, offer.session)?;
        tls.start_quic(offer.transport_parameters)?;
        if !offer.protocols.is_empty() {
            tls.offer_protocols(offer.protocols)?;
        }
        if offer.early_data {
            tls.offer_early_data();
        }
        Ok(ClientConnection { tls, failure: None })
    }
}

/// A client's end of TLS in one QUIC connection, driven like a
/// [`ServerConnection`](super::ServerConnection). The first [`advance`](Self::advance) makes the
/// ClientHello.
pub struct ClientConnection {
    tls: Connection,
    failure: Option<Box<Failure>>,
}

impl ClientConnection {
    /// Takes data of CRYPTO frames, in order and without repetition.
    ///
    /// # Errors
    ///
    /// When there can be none at this level, or it is more than what is kept.
    pub fn receive(&mut self, level: Level, bytes: &[u8]) -> Result<(), Failure> {
        self.check()?;
        if bytes.is_empty() {
            return Ok(());
        }
        let provided = self.tls.library().provide_quic_data(level, bytes);
        provided.map_err(|error| self.fail(error.into()))
    }

    /// See [`ServerConnection::max_crypto_bytes`](super::ServerConnection::max_crypto_bytes): the
    /// server's certificates come at [`Level::Handshake`].
    pub fn max_crypto_bytes(&self, level: Level) -> usize {
        self.tls.max_crypto_bytes(level)
    }

    /// Goes on with the handshake or, once that is over, with the tickets that follow it.
    ///
    /// Early data may be sent as soon as there is a [`Event::WriteSecret`] for it. If
    /// [`early_data_accepted`](Self::early_data_accepted) does not hold when the handshake is over,
    /// all of it has to be sent again.
    ///
    /// # Errors
    ///
    /// The handshake has failed.
    pub fn advance(&mut self) -> Result<Status, Failure> {
        self.check()?;
        if self.tls.is_established() {
            let processed = self.tls.process_quic_data();
            processed.map_err(|error| self.fail(error))?;
            return Ok(Status::Established);
        }
        let status = self.tls.handshake(&mut &[][..], &mut Vec::new());
        match status.map_err(|error| self.fail(error))? {
            Handshake::Done if self.tls.is_established() => Ok(Status::Established),
            // Early data can be sent.
            Handshake::Done | Handshake::WantRead => Ok(Status::WantRead),
            Handshake::Pending => Ok(Status::Pending),
        }
    }

    /// What is to be done next.
    pub fn next_event(&mut self) -> Option<Event> {
        self.tls.library().take_quic_event()
    }

    /// Waits for what made the handshake [`Status::Pending`]: the signature of a key that another
    /// process holds.
    pub fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.tls.poll_pending(cx)
    }

    /// The transport parameters of the server, as they came.
    pub fn peer_transport_parameters(&self) -> Option<&[u8]> {
        self.tls.peer_transport_parameters()
    }

    /// Whether the server has accepted early data; known when the handshake is over.
    pub fn early_data_accepted(&self) -> bool {
        self.tls.was_early_data_accepted()
    }

    /// Whether the handshake is over and nothing has failed since.
    pub fn is_established(&self) -> bool {
        self.failure.is_none() && self.tls.is_established()
    }

    /// The application protocol, once it is negotiated.
    pub fn alpn(&self) -> Option<&[u8]> {
        Some(self.tls.alpn()).filter(|alpn| !alpn.is_empty())
    }

    /// The suite by OpenSSL's name; empty before it is negotiated.
    pub fn cipher(&self) -> &'static str {
        self.tls.cipher()
    }

    /// Whether the offered session was resumed.
    pub fn is_session_reused(&self) -> bool {
        self.tls.is_session_reused()
    }

    /// The last session from the server, once. They come after the handshake.
    pub fn take_session(&mut self) -> Option<Session> {
        self.tls.take_session()
    }

    /// The library's connection, for what settings have no words for.
    #[cfg(test)]
    pub(crate) fn library_client(&mut self) -> &mut sealane_awslc::ClientConnection {
        self.tls.library_client()
    }

    fn check(&self) -> Result<(), Failure> {
        match &self.failure {
            Some(failure) => Err((**failure).clone()),
            None => Ok(()),
        }
    }

    fn fail(&mut self, error: Error) -> Failure {
        let failure = Failure::of_client(error, self.tls.library().quic_alert());
        self.failure = Some(Box::new(failure.clone()));
        failure
    }
}

impl fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Some(failure) => write!(f, "quic::ClientConnection({failure})"),
            None => write!(f, "quic::{:?}", self.tls),
        }
    }
}
