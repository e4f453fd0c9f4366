//! A [`Connection`] without records, for QUIC. [`crate::quic::ServerConnection`] drives it.

use sealane_awslc as awslc;
use sealane_awslc::{HandshakeStatus, QuicEvent, QuicLevel};

use super::{Connection, ConnectionState, Question};
use crate::acceptor::Acceptor;
use crate::client_hello::{
    self, ClientHello, EXTENSION_QUIC_PARAMETERS, Parsed, RECORD_HEADER_BYTES,
};
use crate::error::Error;
use crate::identities::Identities;
use crate::offload::Load;
use crate::quic::Version;

/// What is kept until the handshake is over, for libssl and for the caller.
#[derive(Default)]
pub(super) struct QuicHandshake {
    pub(super) version: Version,
    /// The transport parameters to send, once they are known.
    pub(super) parameters: Option<Box<[u8]>>,
    /// What early data depends on; empty refuses it.
    early_data_context: Box<[u8]>,
    /// The parameters in the hello, until libssl has it.
    peer_parameters: Option<Box<[u8]>>,
}

impl QuicHandshake {
    /// Remembers what the client says to the transport.
    pub(super) fn note_hello(&mut self, hello: Option<&ClientHello<'_>>) {
        let extensions = hello.map(ClientHello::extensions);
        let mut extensions = extensions.into_iter().flatten();
        let parameters = extensions.find(|(kind, _)| *kind == EXTENSION_QUIC_PARAMETERS);
        self.peer_parameters = parameters.map(|(_, data)| data.into());
    }

    /// Starts libssl on the hello in `records`.
    pub(super) fn start(
        &self,
        tls: &mut awslc::Connection,
        identities: &Identities,
        takes_early_data: bool,
        records: &[u8],
    ) -> Result<(), Error> {
        tls.start_quic(self.parameters.as_deref().unwrap_or_default())?;
        if self.version != Version::V1 {
            tls.set_quic_session_context(identities.quic_context_id(self.version))?;
        }
        if takes_early_data && !self.early_data_context.is_empty() {
            tls.set_quic_early_data_context(&self.early_data_context)?;
            tls.set_early_data_enabled(true);
        }
        let Parsed::Complete(message) = client_hello::collect(records) else {
            return Err(Error::NotEstablished);
        };
        Ok(tls.provide_quic_data(QuicLevel::Initial, &message)?)
    }
}

/// The progress of a handshake over QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuicProgress {
    /// The server is chosen: the transport parameters are due.
    Chosen,
    /// As without QUIC.
    Status(HandshakeStatus),
}

impl Connection {
    /// A connection over QUIC just accepted.
    pub(crate) fn accept_quic(acceptor: &Acceptor, version: Version) -> Self {
        let mut connection = Self::accept(acceptor);
        connection.quic = Some(Box::new(QuicHandshake {
            version,
            ..QuicHandshake::default()
        }));
        connection
    }

    /// Chooses the version anew, as long as libssl has not started.
    pub(crate) fn set_quic_version(&mut self, version: Version) {
        if let Some(quic) = &mut self.quic {
            quic.version = version;
        }
    }

    pub(crate) fn set_quic_parameters(&mut self, parameters: &[u8], early_data_context: &[u8]) {
        if let Some(quic) = &mut self.quic {
            quic.parameters = Some(parameters.into());
            quic.early_data_context = early_data_context.into();
        }
    }

    /// Whether the ClientHello has not come yet.
    pub(crate) fn is_before_hello(&self) -> bool {
        matches!(self.state, ConnectionState::Hello { .. })
    }

    /// Takes the ClientHello, which has at most 16 KiB.
    pub(crate) fn quic_hello(&mut self, hello: &[u8], load: Load) -> Result<QuicProgress, Error> {
        // It is looked at, kept and opened as hellos over TCP are.
        let Ok(length) = u16::try_from(hello.len()) else {
            return Err(Error::HelloTooLarge);
        };
        let mut records = Vec::with_capacity(RECORD_HEADER_BYTES + hello.len());
        records.extend_from_slice(&[22, 3, 1]);
        records.extend_from_slice(&length.to_be_bytes());
        records.extend_from_slice(hello);
        let (mut input, mut output) = (&records[..], Vec::new());
        let status = self.start(&records, None, &mut input, &mut output, load)?;
        Ok(self.quic_progress(status.unwrap_or(HandshakeStatus::WantRead)))
    }

    /// Goes on with the handshake.
    pub(crate) fn quic_go_on(&mut self, load: Load) -> Result<QuicProgress, Error> {
        let awaits = self.is_awaiting_parameters();
        if awaits && self.quic.as_ref().is_some_and(|it| it.parameters.is_none()) {
            return Ok(QuicProgress::Chosen);
        }
        let status = self.handshake(&mut &[][..], &mut Vec::new(), load)?;
        Ok(self.quic_progress(status))
    }

    fn quic_progress(&mut self, status: HandshakeStatus) -> QuicProgress {
        if self.is_awaiting_parameters() {
            return QuicProgress::Chosen;
        }
        if self.is_established() {
            self.quic = None;
        }
        QuicProgress::Status(status)
    }

    fn is_awaiting_parameters(&self) -> bool {
        match &self.state {
            ConnectionState::Waiting(waiting) => {
                matches!(waiting.question, Question::Parameters(_))
            }
            _ => false,
        }
    }

    /// libssl's connection, when it is here and can be given data.
    pub(crate) fn quic_library(&mut self) -> Option<&mut awslc::Connection> {
        match &mut self.state {
            ConnectionState::Running(tls) => Some(tls),
            _ => None,
        }
    }

    /// The same, to be asked.
    pub(crate) fn quic_library_ref(&self) -> Option<&awslc::Connection> {
        match &self.state {
            ConnectionState::Running(tls) => Some(tls),
            _ => None,
        }
    }

    /// The next event; those of a handshake that waits for something come later.
    pub(crate) fn quic_event(&mut self) -> Option<QuicEvent> {
        self.quic_library()?.take_quic_event()
    }

    /// The alert that libssl has failed the connection with.
    pub(crate) fn quic_alert(&self) -> Option<u8> {
        self.quic_library_ref()?.quic_alert()
    }

    /// The transport parameters of the client, once its hello is there.
    pub(crate) fn quic_peer_parameters(&self) -> Option<&[u8]> {
        match self.quic_library_ref() {
            Some(tls) => tls.peer_transport_parameters(),
            None => self.quic.as_ref()?.peer_parameters.as_deref(),
        }
    }

    /// Whether early data was accepted.
    pub(crate) fn is_early_data_accepted(&self) -> bool {
        let library = self.quic_library_ref();
        library.is_some_and(awslc::Connection::is_early_data_accepted)
    }
}
