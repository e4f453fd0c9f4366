//! One listener's entry to TLS.

use std::fmt;
use std::sync::Arc;

use crate::ech::EchKeys;
use crate::identities::{HelloFacts, IdentityAnswer};
use crate::server::ServerTls;

/// The protocol by which ACME servers verify names (RFC 8737 section 3).
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// Chooses the server for a name. `server` implements it with nginx's rules:
/// exact names, wildcards, regular expressions, then the default server.
pub trait SelectServer: Send + Sync {
    /// The server for `name`: lower case, no dot at the end; `None` when the
    /// client sent none (or nothing that can be a host name).
    fn select(&self, name: Option<&str>) -> Selected;

    /// What answers an ACME server that verifies `name` (TLS-ALPN-01, RFC 8737), if it is asked
    /// to. Handshakes ask that offer [`ACME_TLS`] and nothing else.
    fn challenge(&self, name: &str) -> Option<Arc<ServerTls>> {
        let _ = name;
        None
    }

    /// The certificates of the `server` that was selected with this `token`, for one handshake.
    /// Called only if it [evaluates](ServerTls::evaluates_certificates) them. Must not block: what
    /// has to be read or parsed first is [`IdentityAnswer::Pending`]. `identities.rs` describes how
    /// a source of certificates works.
    fn identities(
        &self,
        server: &Arc<ServerTls>,
        token: u32,
        hello: HelloFacts<'_>,
    ) -> IdentityAnswer {
        let _ = (server, token, hello);
        IdentityAnswer::Ready(Err("no \"ssl_certificate\" is defined".to_owned()))
    }
}

/// A server chosen.
#[derive(Clone, Debug)]
pub enum Selected {
    /// This server; the token comes back from
    /// [`Connection::selected_token`](crate::Connection::selected_token).
    Server(Arc<ServerTls>, u32),
    /// Refuse: the client gets the alert `unrecognized_name`.
    Reject,
}

/// Accepts the connections of one listener. Cloning shares it.
#[derive(Clone)]
pub struct Acceptor {
    select: Arc<dyn SelectServer>,
    ech: Option<Arc<EchKeys>>,
}

impl Acceptor {
    /// An acceptor that asks `select` for every connection.
    pub fn new(select: Arc<dyn SelectServer>) -> Self {
        Self { select, ech: None }
    }

    /// The same, for servers whose settings have these keys.
    #[must_use]
    pub fn with_ech(self, ech: Option<Arc<EchKeys>>) -> Self {
        Self { ech, ..self }
    }

    /// An acceptor for a listener with one server; its token is 0.
    pub fn single(server: Arc<ServerTls>) -> Self {
        struct Single(Arc<ServerTls>);
        impl SelectServer for Single {
            fn select(&self, _name: Option<&str>) -> Selected {
                Selected::Server(Arc::clone(&self.0), 0)
            }
        }
        Self::new(Arc::new(Single(server)))
    }

    /// What opens encrypted hellos.
    pub(crate) fn ech(&self) -> Option<&EchKeys> {
        self.ech.as_deref()
    }

    pub(crate) fn select(&self, name: Option<&str>) -> Selected {
        self.select.select(name)
    }

    pub(crate) fn challenge(&self, name: &str) -> Option<Arc<ServerTls>> {
        self.select.challenge(name)
    }

    pub(crate) fn identities(
        &self,
        server: &Arc<ServerTls>,
        token: u32,
        hello: HelloFacts<'_>,
    ) -> IdentityAnswer {
        self.select.identities(server, token, hello)
    }

    /// The one that chooses.
    pub fn selection(&self) -> &Arc<dyn SelectServer> {
        &self.select
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// Whether the first bytes of a connection are TLS. Like nginx, this looks only at the first byte:
/// a handshake record, or the length of an SSL 2 hello. Anything else on a TLS port is taken for a
/// plain HTTP request, which nginx answers with 400 "The plain HTTP request was sent to HTTPS
/// port". True if there are no bytes yet.
pub fn looks_like_tls(first: &[u8]) -> bool {
    first
        .first()
        .is_none_or(|byte| byte & 0x80 != 0 || *byte == 0x16)
}
