//! A [`Connection`] without records, for QUIC. [`crate::quic::ClientConnection`] drives it.

use sealane_awslc as awslc;
use sealane_awslc::QuicLevel;

use super::connection::Connection;
use super::error::Error;

impl Connection {
    /// Makes this a connection over QUIC.
    pub(crate) fn start_quic(&mut self, transport_parameters: &[u8]) -> Result<(), Error> {
        Ok(self.library().start_quic(transport_parameters)?)
    }

    /// Offers early data with the session.
    pub(crate) fn offer_early_data(&mut self) {
        self.tls.offer_early_data();
    }

    /// Whether the server has accepted it.
    pub(crate) fn was_early_data_accepted(&self) -> bool {
        self.tls.was_early_data_accepted()
    }

    /// libssl's connection.
    pub(crate) fn library(&mut self) -> &mut awslc::Connection {
        self.tls.connection_mut()
    }

    /// The same as a client.
    #[cfg(test)]
    pub(crate) fn library_client(&mut self) -> &mut awslc::ClientConnection {
        &mut self.tls
    }

    /// Reads what came after the handshake.
    pub(crate) fn process_quic_data(&mut self) -> Result<(), Error> {
        self.library().process_quic_data()?;
        self.keep_session();
        Ok(())
    }

    /// The most bytes that are taken at a time.
    pub(crate) fn max_crypto_bytes(&self, level: QuicLevel) -> usize {
        self.tls.connection().quic_max_flight_bytes(level)
    }

    /// The transport parameters of the server.
    pub(crate) fn peer_transport_parameters(&self) -> Option<&[u8]> {
        self.tls.connection().peer_transport_parameters()
    }
}
