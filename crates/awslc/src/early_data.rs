//! Early data (0-RTT, RFC 8446 section 2.3), on the server and on the client.
//!
//! libssl checks the ticket's age and application protocol, and that a ticket allows early data at
//! all, but it has no register of what it accepted. So contexts never accept early data by
//! themselves: the caller allows it for one connection, once it knows that the flight is new.

use aws_lc_sys as sys;

use crate::client::ClientConnection;
use crate::connection::Connection;
use crate::error::Error;
use crate::ffi::int_length;

/// What libssl decided about early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyDataOutcome {
    /// Nothing yet, or the protocol is older than TLS 1.3.
    Undecided,
    /// It is read as it arrives.
    Accepted,
    /// It was not allowed for this connection.
    Disabled,
    /// None was offered.
    NotOffered,
    /// The session was not resumed.
    NotResumed,
    /// The ticket does not allow early data.
    NotInTicket,
    /// The application protocol differs from the ticket's.
    OtherProtocol,
    /// The ticket's age as seen by the client differs by more than 60 s from ours.
    AgeSkew,
    /// A HelloRetryRequest was necessary.
    Retried,
    /// Some other rule of libssl.
    Other,
}

impl Connection {
    /// Whether early data is accepted on this connection and allowed by the tickets that it issues.
    /// libssl decides about the former when it reads the ClientHello, about the latter when it
    /// writes tickets.
    pub fn set_early_data_enabled(&mut self, on: bool) {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_set_early_data_enabled(self.as_ptr(), i32::from(on)) }
    }

    /// Whether application data flows before the handshake is finished. On a server this lasts
    /// until the client's Finished; until then the data could be a replay.
    pub fn is_early_data(&self) -> bool {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_in_early_data(self.as_ptr()) != 0 }
    }

    /// Whether early data was accepted: by this server, or by that of a client.
    pub fn is_early_data_accepted(&self) -> bool {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_early_data_accepted(self.as_ptr()) != 0 }
    }

    /// What libssl decided.
    pub fn early_data_outcome(&self) -> EarlyDataOutcome {
        // SAFETY: the SSL is valid.
        match unsafe { sys::SSL_get_early_data_reason(self.as_ptr()) } {
            sys::ssl_early_data_reason_t_ssl_early_data_unknown
            | sys::ssl_early_data_reason_t_ssl_early_data_protocol_version => {
                EarlyDataOutcome::Undecided
            }
            sys::ssl_early_data_reason_t_ssl_early_data_accepted => EarlyDataOutcome::Accepted,
            sys::ssl_early_data_reason_t_ssl_early_data_disabled => EarlyDataOutcome::Disabled,
            sys::ssl_early_data_reason_t_ssl_early_data_peer_declined
            | sys::ssl_early_data_reason_t_ssl_early_data_no_session_offered => {
                EarlyDataOutcome::NotOffered
            }
            sys::ssl_early_data_reason_t_ssl_early_data_session_not_resumed => {
                EarlyDataOutcome::NotResumed
            }
            sys::ssl_early_data_reason_t_ssl_early_data_unsupported_for_session => {
                EarlyDataOutcome::NotInTicket
            }
            sys::ssl_early_data_reason_t_ssl_early_data_alpn_mismatch => {
                EarlyDataOutcome::OtherProtocol
            }
            sys::ssl_early_data_reason_t_ssl_early_data_ticket_age_skew => {
                EarlyDataOutcome::AgeSkew
            }
            sys::ssl_early_data_reason_t_ssl_early_data_hello_retry_request => {
                EarlyDataOutcome::Retried
            }
            _ => EarlyDataOutcome::Other,
        }
    }

    /// A client whose early data was refused continues without it.
    pub(crate) fn forget_early_data(&mut self) {
        // SAFETY: the SSL is valid and has just reported the refusal.
        unsafe { sys::SSL_reset_early_data_reject(self.as_ptr()) }
    }

    /// Writes while early data is being read (0.5-RTT data): through libssl, record by record,
    /// because its own handshake state determines the keys.
    pub(crate) fn write_early(
        &mut self,
        plain: &[u8],
        record_bytes: usize,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        for chunk in plain.chunks(record_bytes.max(1)) {
            let size = int_length(chunk.len());
            // SAFETY: the SSL is valid, its BIO attached, `chunk` readable.
            let code = self.call(&mut &[][..], output, |ssl| unsafe {
                sys::SSL_write(ssl, chunk.as_ptr().cast(), size)
            });
            // The BIO accepts everything, so a write is never partial.
            if code != size {
                return Err(Error::drain("SSL_write"));
            }
        }
        Ok(())
    }
}

impl ClientConnection {
    /// Offers early data with the session set before. `handshake` is then done at once: data
    /// written while [`is_early_data`](Self::is_early_data) holds is early data, and further calls
    /// of `handshake` continue with the rest. Data refused by the server must be written again.
    pub fn offer_early_data(&mut self) {
        self.connection_mut().set_early_data_enabled(true);
    }

    /// Whether data written now is early data.
    pub fn is_early_data(&self) -> bool {
        self.connection().is_early_data()
    }

    /// Whether the server accepted the early data; known once the handshake is done.
    pub fn was_early_data_accepted(&self) -> bool {
        self.connection().is_early_data_accepted()
    }
}
