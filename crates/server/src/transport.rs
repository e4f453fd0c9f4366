//! The stream of a client's connection, and what the connection learns from it.

use crate::facts::ConnectionFacts;
use sealane_conf::model::LogLevel;
use sealane_io::socket::Socket;
use sealane_io::{Endpoint, Stream, StreamError};
use sealane_log::Logger;
use sealane_tls::Ktls;
use std::fmt;
use std::sync::Arc;

/// Bytes to and from a client.
pub(crate) type Transport = Stream<ClientEndpoint, sealane_tls::Connection>;

/// Why a client's connection cannot go on.
pub(crate) type TransportError = StreamError<sealane_tls::Error>;

/// Takes down who seals the records, for variables and the debug log.
pub(crate) struct ClientEndpoint {
    facts: Arc<ConnectionFacts>,
    /// Where to write debug lines about kernel TLS, if anyone wants them.
    debug_log: Option<Logger>,
}

impl ClientEndpoint {
    pub(crate) fn new(facts: Arc<ConnectionFacts>) -> ClientEndpoint {
        ClientEndpoint {
            facts,
            debug_log: None,
        }
    }

    /// Where to write nginx's debug lines about kernel TLS.
    pub(crate) fn set_debug_log(&mut self, logger: &Logger) {
        self.debug_log = logger.enabled(LogLevel::Debug).then(|| logger.clone());
    }

    fn debug(&self, message: fmt::Arguments<'_>) {
        if let Some(logger) = &self.debug_log {
            logger.log(LogLevel::Debug, Some(self.facts.number), message);
        }
    }
}

impl Endpoint for ClientEndpoint {
    fn socket(&self) -> &Socket {
        self.facts.socket()
    }

    fn note_ktls(&self, state: Ktls<'_>) {
        self.facts.set_ktls(state);
        match state {
            Ktls::Pending => {}
            Ktls::On => self.debug(format_args!("BIO_get_ktls_send(): 1")),
            Ktls::Off(refusal) => self.debug(format_args!("kernel TLS is not used: {refusal}")),
        }
    }

    fn note_sendfile(&self, bytes: u64) {
        self.debug(format_args!("SSL_sendfile: {bytes}"));
    }
}
