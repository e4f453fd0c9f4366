//! What is configured for connections to upstreams.

use std::sync::Arc;

use crate::ktls::KtlsSettings;
use crate::offload::HandshakeState;
use crate::protocols::Protocols;
use crate::settings::{Identity, PemFile};

/// nginx's default for `proxy_ssl_ciphers`.
pub const DEFAULT_CLIENT_CIPHERS: &str = "DEFAULT";
/// nginx's default for `proxy_ssl_verify_depth`: certificates between the server's and the root.
pub const DEFAULT_VERIFY_DEPTH: u32 = 1;

/// The `*_ssl_*` directives of a location that passes requests on. `Default` gives nginx's
/// defaults.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The prefix of the directives, for messages: `proxy_ssl`.
    pub directives: &'static str,
    /// `proxy_ssl_protocols`.
    pub protocols: Protocols,
    /// `proxy_ssl_ciphers`, an OpenSSL cipher string.
    pub ciphers: String,
    /// `proxy_ssl_conf_command`, in order; they override the rest.
    pub conf_commands: Vec<(String, String)>,
    /// `proxy_ssl_server_name`: whether the name is sent (SNI).
    pub server_name: bool,
    /// `proxy_ssl_verify`: whether the server's certificate must be trusted and match the name.
    pub verify: bool,
    /// `proxy_ssl_verify_depth`.
    pub verify_depth: u32,
    /// `proxy_ssl_trusted_certificate`; needed with `verify`.
    pub trusted: Option<PemFile>,
    /// `proxy_ssl_crl`. As in nginx, every certificate of a chain then needs its issuer's CRL.
    pub revocation_lists: Option<PemFile>,
    /// `proxy_ssl_certificate`, its key and `proxy_ssl_password_file`. For those with variables
    /// see [`ClientTls::with_identity`](super::ClientTls::with_identity).
    pub identity: Option<Identity>,
    /// What passes operations to the process that holds the key, if another one does. `None` is for
    /// tests and tools.
    pub handshakes: Option<Arc<HandshakeState>>,
    /// `proxy_ssl_session_reuse`.
    pub session_reuse: bool,
    /// Application protocols to offer, preferred first; empty for none.
    pub alpn: Vec<&'static [u8]>,
    /// `proxy_ssl_ktls`.
    pub ktls: KtlsSettings,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            directives: "proxy_ssl",
            protocols: Protocols::default(),
            ciphers: DEFAULT_CLIENT_CIPHERS.to_owned(),
            conf_commands: Vec::new(),
            server_name: false,
            verify: false,
            verify_depth: DEFAULT_VERIFY_DEPTH,
            trusted: None,
            revocation_lists: None,
            identity: None,
            handshakes: None,
            session_reuse: true,
            alpn: Vec::new(),
            ktls: KtlsSettings::default(),
        }
    }
}
