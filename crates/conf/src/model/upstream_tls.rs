//! TLS to other servers: `proxy_ssl_*`, `uwsgi_ssl_*` and `grpc_ssl_*`. Names of
//! directives are given without the prefix.

use super::{CertificateFiles, CertificateSource, KeyDevice, Ktls, Template, TlsProtocols};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// TLS settings of a location that passes requests on. Equal settings may share
/// what is built from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamTls {
    /// `ssl_protocols`; default TLSv1.2 TLSv1.3.
    pub protocols: TlsProtocols,
    /// `ssl_ciphers`; default `DEFAULT`.
    pub ciphers: String,
    /// `ssl_conf_command` lines, name and value, in order.
    pub conf_commands: Vec<(String, String)>,
    /// `ssl_name`: the name in SNI and in the certificate; default the host of the
    /// pass directive, or the name of the group.
    pub name: Option<Template>,
    /// `ssl_server_name`: whether the name is sent (SNI); default off.
    pub server_name: bool,
    /// `ssl_verify`; default off.
    pub verify: bool,
    /// `ssl_verify_depth`; default 1.
    pub verify_depth: u32,
    /// `ssl_trusted_certificate` (absolute); present when `verify` is on.
    pub trusted_certificate: Option<PathBuf>,
    /// `ssl_crl` (absolute).
    pub crl: Option<PathBuf>,
    /// `ssl_certificate` and `ssl_certificate_key`.
    pub certificate: Option<UpstreamCertificate>,
    /// `ssl_password_file` (absolute).
    pub password_file: Option<PathBuf>,
    /// `ssl_certificate_cache`; default off: a certificate that has variables is read for
    /// each connection.
    pub certificate_cache: Option<CertificateCache>,
    /// `ssl_session_reuse`; default on.
    pub session_reuse: bool,
    /// `ssl_ktls`.
    pub ktls: Ktls,
}

impl UpstreamTls {
    /// The device that has a key for other servers, if one does. Providers of OpenSSL compute for
    /// servers only.
    pub fn key_device(key: &CertificateSource) -> Option<Arc<KeyDevice>> {
        match key {
            CertificateSource::Uri(_) => Some(Arc::new(KeyDevice::pkcs11())),
            CertificateSource::File(_)
            | CertificateSource::Inline(_)
            | CertificateSource::Taken(_) => None,
        }
    }
}

/// `ssl_certificate_cache`: certificates with variables that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateCache {
    /// `max=`: the most that are kept; the one that was not used for longest leaves.
    pub max: u32,
    /// `inactive=`: how long an unused one is kept; default 10 s.
    pub inactive: Duration,
    /// `valid=`: how often the files are checked for changes; default 60 s.
    pub valid: Duration,
}

/// The certificate that is shown to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamCertificate {
    /// Known when the configuration is read.
    Files(CertificateFiles),
    /// At least one of the two has variables: paths (or `data:` and PEM text) are
    /// evaluated for each connection. Relative ones start from the configuration file's
    /// directory. An empty certificate means none.
    Evaluated {
        /// `ssl_certificate`.
        certificate: Template,
        /// `ssl_certificate_key`.
        key: Template,
    },
}
