//! What is configured for one virtual server.

use std::sync::Arc;

use sealane_awslc::Secret;

use crate::client_status::StatusSettings;
use crate::ech::EchKeys;
use crate::ktls::KtlsSettings;
use crate::offload::HandshakeSettings;
use crate::protocols::Protocols;
use crate::record_size::DynamicRecords;
use crate::sessions::cache::SessionCache;
use crate::sessions::early_data::EarlyData;
use crate::sessions::identity::ClientVerification;
use crate::sessions::ring::TicketRing;
use crate::sessions::stats::SessionStats;
use crate::sessions::store::SharedSessions;
use crate::stapling::StaplingSettings;

/// nginx's default for `ssl_ciphers`.
pub const DEFAULT_CIPHERS: &str = "HIGH:!aNULL:!MD5";
/// nginx's default for `ssl_buffer_size`, in bytes.
pub const DEFAULT_BUFFER_BYTES: usize = 16_384;
/// nginx's default for `ssl_session_timeout`, in seconds.
const DEFAULT_SESSION_TIMEOUT_S: u64 = 300;

/// The `ssl_*` directives of one server. `Default` gives nginx's defaults, without a certificate.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Names of the server (`server_name`), part of its identity for resumption.
    pub server_names: Vec<String>,
    /// Certificates and keys, in the order of the directives. There may be several kinds; of each
    /// kind the last one counts.
    pub identities: Vec<Identity>,
    /// Names of certificates contain variables: `identities` is empty, and each handshake asks
    /// [`SelectServer::identities`](crate::SelectServer::identities).
    pub evaluates_certificates: bool,
    /// `ssl_protocols`.
    pub protocols: Protocols,
    /// `ssl_ciphers`, an OpenSSL cipher string.
    pub ciphers: String,
    /// TLS 1.3 suites joined by `:`; all of them when `None`.
    pub ciphersuites: Option<String>,
    /// `ssl_conf_command`, in order; they override the rest.
    pub conf_commands: Vec<(String, String)>,
    /// `ssl_ecdh_curve`; `None` is `auto`.
    pub groups: Option<String>,
    /// `ssl_prefer_server_ciphers`.
    pub prefer_server_ciphers: bool,
    /// `Options PrioritizeChaCha`: with server preference, ChaCha20 goes first
    /// for clients that prefer it.
    pub prioritize_chacha: bool,
    /// `ssl_session_timeout` in seconds.
    pub session_timeout_s: u64,
    /// `ssl_session_tickets`.
    pub tickets: bool,
    /// `ssl_session_cache`.
    pub session_cache: SessionCacheSetting,
    /// Contents of the `ssl_session_ticket_key` files, in order.
    pub ticket_keys: Vec<Secret>,
    /// Random keys to use without `ticket_keys`, from a [`SessionState`](crate::SessionState). They
    /// are shared between servers and kept across reloads by whoever rotates them. `None` makes one
    /// for this server, which does not rotate.
    pub ticket_ring: Option<Arc<TicketRing>>,
    /// `ssl_session_store`: gets sessions if there is a `session_cache`, and claims on early data
    /// in any case.
    pub shared_sessions: Option<SharedSessions>,
    /// `ssl_early_data`.
    pub early_data: Option<EarlyData>,
    /// How client certificates are verified; part of the identity that sessions are bound to.
    pub client_verification: ClientVerification,
    /// `ssl_ocsp`; `None` when off.
    pub client_status: Option<StatusSettings>,
    /// The counters of all servers; `None` counts for this one alone.
    pub session_stats: Option<Arc<SessionStats>>,
    /// Application protocols in the server's order; empty for none.
    pub alpn: Vec<Box<[u8]>>,
    /// The same for connections over QUIC, which all have one of them; empty refuses all.
    pub quic_protocols: Vec<Box<[u8]>>,
    /// `ssl_reject_handshake`: no certificate is needed.
    pub reject_handshake: bool,
    /// `ssl_buffer_size`: the most plaintext in one record, in bytes.
    pub buffer_bytes: usize,
    /// Dynamic record sizes, off when `None`.
    pub dynamic_records: Option<DynamicRecords>,
    /// `ssl_stapling`.
    pub stapling: Option<StaplingSettings>,
    /// `ssl_ech_file`: the keys of all servers, and the first file of this one.
    pub ech: Option<(Arc<EchKeys>, Option<String>)>,
    /// `ssl_certificate_compression`.
    pub certificate_compression: bool,
    /// Keep the client's lists of groups and signature schemes, and its fingerprint, for
    /// `$ssl_curves`, `$ssl_sigalgs` and `$ssl_ja4`: some 150 bytes per connection, so only when
    /// one of them is used.
    pub remember_client_offer: bool,
    /// Kernel TLS.
    pub ktls: KtlsSettings,
    /// Where handshakes are computed, and with what.
    pub handshakes: HandshakeSettings,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            server_names: Vec::new(),
            identities: Vec::new(),
            evaluates_certificates: false,
            protocols: Protocols::default(),
            ciphers: DEFAULT_CIPHERS.to_owned(),
            ciphersuites: None,
            conf_commands: Vec::new(),
            groups: None,
            prefer_server_ciphers: false,
            prioritize_chacha: false,
            session_timeout_s: DEFAULT_SESSION_TIMEOUT_S,
            tickets: true,
            session_cache: SessionCacheSetting::None,
            ticket_keys: Vec::new(),
            ticket_ring: None,
            shared_sessions: None,
            early_data: None,
            client_verification: ClientVerification::default(),
            client_status: None,
            session_stats: None,
            alpn: Vec::new(),
            quic_protocols: Vec::new(),
            reject_handshake: false,
            buffer_bytes: DEFAULT_BUFFER_BYTES,
            dynamic_records: None,
            stapling: None,
            ech: None,
            certificate_compression: false,
            remember_client_offer: false,
            ktls: KtlsSettings::default(),
            handshakes: HandshakeSettings::default(),
        }
    }
}

/// A certificate chain with its key, as read from files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `ssl_certificate`: PEM, the leaf first.
    pub chain_pem: Vec<u8>,
    /// `ssl_certificate_key`: PEM.
    pub key_pem: Secret,
    /// `ssl_password_file`: tried in turn on an encrypted key.
    pub passwords: Vec<Secret>,
    /// The chain's file name, for errors.
    pub chain_label: String,
    /// The key's file name, for errors.
    pub key_label: String,
}

/// `ssl_session_cache`.
#[derive(Clone, Debug)]
pub enum SessionCacheSetting {
    /// `off`: no session ids.
    Off,
    /// `none`, the default: equivalent to `off` here, as AWS-LC gives out no id for a session that
    /// is not kept.
    None,
    /// `builtin[:sessions]`: a cache of this server's own.
    Builtin {
        /// Sessions to hold.
        sessions: usize,
    },
    /// `shared:name:size`: servers that name the same zone share one cache.
    Shared(Arc<SessionCache>),
}

/// A file in PEM, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemFile {
    /// Its contents.
    pub pem: Vec<u8>,
    /// Its name, for errors.
    pub label: String,
}
