//! The `ssl_*` directives of one server.

use super::{
    Accelerator, CertificateCache, DeviceKind, KeyDevice, Origin, SessionStore, Template,
    without_query,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The least `ssl_session_ticket_rotation`. Nodes that share keys need a moment
/// to learn of a new one before it seals.
pub const MIN_TICKET_ROTATION: Duration = Duration::from_secs(2);

/// `ssl_certificate_reload on`, the default.
pub const CERTIFICATE_RELOAD: Duration = Duration::from_secs(10);

/// TLS settings of a server, inherited from `http` where not set.
#[derive(Debug, Clone)]
pub struct Tls {
    /// `ssl_certificate` with its `ssl_certificate_key`, in order.
    pub certificates: ServerCertificates,
    /// `ssl_password_file`.
    pub password_file: Option<PathBuf>,
    /// `ssl_protocols`; default TLSv1.2 TLSv1.3.
    pub protocols: TlsProtocols,
    /// `ssl_ciphers`; default `HIGH:!aNULL:!MD5`.
    pub ciphers: String,
    /// `ssl_conf_command` lines, name and value, in order.
    pub conf_commands: Vec<(String, String)>,
    /// `ssl_prefer_server_ciphers`; default off.
    pub prefer_server_ciphers: bool,
    /// `ssl_ecdh_curve`; default `auto`.
    pub ecdh_curve: String,
    /// Where `ssl_ecdh_curve` is written.
    pub ecdh_curve_origin: Option<Origin>,
    /// `ssl_dhparam`: read and checked, but DHE is not offered.
    pub dhparam: Option<PathBuf>,
    /// `ssl_buffer_size`; default 16384.
    pub buffer_bytes: u32,
    /// `ssl_dyn_rec_*`: records grow with the amount sent; `None` when off.
    pub dynamic_records: Option<DynamicRecords>,
    /// `ssl_ktls` and its limits.
    pub ktls: Ktls,
    /// `ssl_session_timeout`; default 5 minutes.
    pub session_timeout: Duration,
    /// `ssl_session_tickets`; default on.
    pub session_tickets: bool,
    /// `ssl_session_ticket_key` files; the first seals.
    pub session_ticket_keys: Vec<PathBuf>,
    /// `ssl_session_ticket_rotation`: how long a ticket key that Sealane made
    /// seals before the next one does. Default a third of `session_timeout`, and
    /// never less than [`MIN_TICKET_ROTATION`].
    pub session_ticket_rotation: Duration,
    /// `ssl_session_ticket_state`: where such keys survive a restart.
    pub session_ticket_state: Option<PathBuf>,
    /// `ssl_session_cache`; default `none`.
    pub session_cache: SessionCache,
    /// `ssl_session_store`: what nodes share.
    pub session_store: Option<Arc<SessionStore>>,
    /// `ssl_certificate_compression`; default off.
    pub certificate_compression: bool,
    /// `ssl_ech_file` files (absolute), in order.
    pub ech_files: Vec<PathBuf>,
    /// `ssl_stapling`; `None` when off.
    pub stapling: Option<Stapling>,
    /// `ssl_early_data` and what belongs to it.
    pub early_data: EarlyData,
    /// How certificates of clients are judged.
    pub client_certificates: ClientCertificates,
    /// `ssl_reject_handshake`; default off.
    pub reject_handshake: bool,
    /// `ssl_async`: where handshakes are worked on. Default auto.
    pub async_mode: AsyncMode,
    /// `ssl_accelerator`: what computes with the private keys. Default auto.
    pub accelerator: Accelerator,
    /// `ssl_handshake_timeout`: from accept to the end of the handshake. Default 60 s.
    pub handshake_timeout: Duration,
}

impl Tls {
    /// The device that computes with a key of this server, if one does.
    pub fn key_device(&self, key: &CertificateSource) -> Option<Arc<KeyDevice>> {
        let configured = match &self.accelerator {
            Accelerator::Device(device) => Some(device),
            _ => None,
        };
        let is_provider = |device: &KeyDevice| matches!(device.kind, DeviceKind::Provider { .. });
        let provider = configured.filter(|device| is_provider(device));
        match key {
            CertificateSource::Inline(_) | CertificateSource::Taken(_) => None,
            CertificateSource::File(_) => provider.cloned(),
            CertificateSource::Uri(uri) => match provider {
                Some(provider) if uri.starts_with("store:") => Some(Arc::clone(provider)),
                _ => {
                    let tokens = configured.filter(|device| !is_provider(device));
                    Some(
                        tokens
                            .cloned()
                            .unwrap_or_else(|| KeyDevice::pkcs11().into()),
                    )
                }
            },
        }
    }
}

/// The certificates of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerCertificates {
    /// Known when the configuration is read. There are none if all handshakes are refused.
    Files(Vec<CertificateFiles>),
    /// The name of at least one contains variables.
    Evaluated(EvaluatedCertificates),
}

impl ServerCertificates {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files().is_some_and(<[CertificateFiles]>::is_empty)
    }

    /// The files, if they are the same in all handshakes.
    pub fn files(&self) -> Option<&[CertificateFiles]> {
        match self {
            ServerCertificates::Files(files) => Some(files),
            ServerCertificates::Evaluated(_) => None,
        }
    }
}

/// Certificates whose names are evaluated in each handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluatedCertificates {
    /// In the order of the directives.
    pub pairs: Arc<[EvaluatedPair]>,
    /// `ssl_certificate_cache`; default off. Servers that inherit it have the same one.
    pub cache: Option<Arc<CertificateCache>>,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvaluatedPair {
    /// Paths, or `data:` and PEM text. Relative paths start from the configuration file's
    /// directory.
    Named {
        /// `ssl_certificate`.
        certificate: Template,
        /// `ssl_certificate_key`.
        key: Template,
    },
    /// `$acme_certificate` and `$acme_certificate_key`: what the server's `acme_certificate` has
    /// brought.
    Acme,
}

/// One certificate chain and its private key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    /// PEM file: certificate first, then intermediates.
    pub certificate: CertificateSource,
    /// PEM file of the key, or its URI.
    pub key: CertificateSource,
}

/// Where a certificate or key comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CertificateSource {
    /// A file (absolute path).
    File(PathBuf),
    /// `data:PEM` written into the configuration.
    Inline(String),
    /// The same with a private key, which was taken out of the configuration: see
    /// [`inline_keys`](crate::inline_keys). Whoever did that has it under this path.
    Taken(PathBuf),
    /// A key in a device: `pkcs11:`, `store:` or `engine:pkcs11:`, as written.
    Uri(String),
}

impl CertificateSource {
    /// Its name in messages.
    pub fn label(&self) -> String {
        match self {
            CertificateSource::File(path) => path.display().to_string(),
            CertificateSource::Inline(_) | CertificateSource::Taken(_) => "data:...".to_owned(),
            CertificateSource::Uri(uri) => without_query(uri).to_owned(),
        }
    }
}

/// `ssl_protocols` as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TlsProtocols {
    /// SSLv2 or SSLv3 was named (never offered; warned about).
    pub ssl_v2_v3: bool,
    /// TLSv1.
    pub tls_1_0: bool,
    /// TLSv1.1.
    pub tls_1_1: bool,
    /// TLSv1.2.
    pub tls_1_2: bool,
    /// TLSv1.3.
    pub tls_1_3: bool,
}

/// Dynamic record sizing: small records first, so that a browser can use the
/// first bytes before the congestion window has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicRecords {
    /// `ssl_dyn_rec_size_lo`: payload of the first records. Default 1369.
    pub low_bytes: u32,
    /// `ssl_dyn_rec_size_hi`: payload of the next records. Default 4229.
    pub high_bytes: u32,
    /// `ssl_dyn_rec_threshold`: records per step. Default 40.
    pub threshold: u32,
    /// `ssl_dyn_rec_timeout`: idle time after which it starts over. Default 1 s.
    pub timeout: Duration,
}

/// Kernel TLS: `ssl_ktls` and what belongs to it, or `proxy_ssl_ktls` with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ktls {
    /// `ssl_ktls`; without it `ssl_conf_command Options` decides.
    pub mode: Option<KtlsMode>,
    /// `ssl_ktls_min_size`: smallest file body that `auto` gives to the kernel.
    /// Default 64 KiB.
    pub min_size_bytes: u64,
    /// `ssl_ktls_key_records`: most records under one key. Default 2^24.
    pub key_records: u64,
    /// `ssl_ktls_key_updates`: most KeyUpdates of one connection. Default 64.
    pub key_updates: u32,
}

impl Default for Ktls {
    fn default() -> Ktls {
        Ktls {
            mode: None,
            min_size_bytes: 64 << 10,
            key_records: 1 << 24,
            key_updates: 64,
        }
    }
}

/// `ssl_ktls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KtlsMode {
    /// Never.
    Off,
    /// From the end of the handshake.
    On,
    /// When a file body pays for it.
    Auto,
}

/// `ssl_stapling on` and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stapling {
    /// `ssl_stapling_verify`; default off.
    pub verify: bool,
    /// `ssl_stapling_file` (absolute).
    pub file: Option<PathBuf>,
    /// `ssl_stapling_responder`, as written.
    pub responder: Option<String>,
    /// `ssl_stapling_state` (absolute): where staples survive a restart.
    pub state: Option<PathBuf>,
}

/// `ssl_verify_client` and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// `ssl_verify_client`.
    pub verify: VerifyClient,
    /// `ssl_verify_depth`; default 1.
    pub depth: u32,
    /// `ssl_client_certificate` (absolute). This or the next is present when
    /// clients are verified.
    pub client_certificate: Option<PathBuf>,
    /// `ssl_trusted_certificate` (absolute).
    pub trusted_certificate: Option<PathBuf>,
    /// `ssl_crl` (absolute).
    pub crl: Option<PathBuf>,
    /// `ssl_ocsp`; `None` when off.
    pub ocsp: Option<ClientOcsp>,
}

/// `ssl_ocsp` and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOcsp {
    /// `on`: all certificates of the chain, and not only the client's own.
    pub whole_chain: bool,
    /// `ssl_ocsp_responder`, as written.
    pub responder: Option<String>,
    /// `ssl_ocsp_cache`: the zone's name and its size in bytes.
    pub cache: Option<(String, u64)>,
}

/// `ssl_verify_client`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerifyClient {
    /// No certificate is asked for.
    #[default]
    Off,
    /// Without a valid one there is no answer.
    On,
    /// One that is shown must be valid.
    Optional,
    /// A certificate may be issued by anyone.
    OptionalNoCa,
}

/// `ssl_async`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncMode {
    /// Handshakes stay on the worker threads.
    Off,
    /// What needs a private key is done by the handshake threads.
    On,
    /// As the kind of key and the load make better.
    Auto,
}

/// `ssl_key_process`: whether private keys of servers are in a process of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyProcessSetting {
    /// Default on.
    pub is_on: bool,
    /// `decryptions=`: how many a worker process may have in a second; default 10000.
    pub decryptions: u32,
    /// `keys=`: how many keys a worker process may have loaded in handshakes; by default as many as
    /// its caches hold, and more.
    pub keys: Option<u32>,
    /// `user=`: whom processes with keys run as; default: the master's user.
    pub user: Option<String>,
}

impl Default for KeyProcessSetting {
    fn default() -> KeyProcessSetting {
        KeyProcessSetting {
            is_on: true,
            decryptions: 10_000,
            keys: None,
            user: None,
        }
    }
}

/// Limits on handshakes that hold for the whole process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// `ssl_async_threads`; `None`, the default, is `auto`.
    pub threads: Option<u32>,
    /// `ssl_handshake_queue`: handshakes that may wait, per worker thread. `auto`, the
    /// default, is seven eighths of `worker_connections`.
    pub queue: u32,
}

/// `ssl_session_cache`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCache {
    /// `off`: clients are told that sessions cannot be resumed.
    Off,
    /// `none`: clients may think so, but nothing is stored.
    None,
    /// `builtin[:entries]`: here the same as a shared zone of that many sessions.
    Builtin(Option<u32>),
    /// `shared:name:size`.
    Shared {
        /// Zone name; equal names share one cache.
        name: String,
        /// Size in bytes.
        bytes: u64,
    },
}

/// 0-RTT (RFC 8446 section 2.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyData {
    /// `ssl_early_data`; default off.
    pub enabled: bool,
    /// `ssl_early_data_methods`: requests answered before the handshake is
    /// done; others get 425. Default GET, HEAD and OPTIONS.
    pub methods: Arc<[String]>,
    /// `ssl_early_data_register_size` in bytes: how much memory may be spent on
    /// recognising early data. Default 10 MiB. One register serves the process.
    pub register_bytes: u64,
}

/// Methods of `ssl_early_data_methods` by default: those without effect on the
/// server (RFC 9110 section 9.2.1), so that a replay does no harm.
pub const EARLY_DATA_METHODS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Default of `ssl_early_data_register_size`, in bytes.
pub const EARLY_DATA_REGISTER_BYTES: u64 = 10 << 20;
