//! Certificates from ACME servers: `acme_issuer` and `acme_certificate`.

use super::Origin;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// An `acme_issuer` block: an account with an ACME server (RFC 8555).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeIssuer {
    /// Its name in the configuration.
    pub name: String,
    /// `uri`: where the directory of the ACME server is.
    pub uri: String,
    /// `account_key`; default `ecdsa:256`.
    pub account_key: AcmeAccountKey,
    /// `challenge`; default http-01.
    pub challenge: AcmeChallenge,
    /// `common_name_in_csr`; default off.
    pub common_name_in_csr: bool,
    /// `contact` lines as URLs.
    pub contacts: Vec<String>,
    /// `external_account_key`.
    pub external_account: Option<ExternalAccount>,
    /// `preferred_chain`: common name of the issuer of the topmost certificate.
    pub preferred_chain: Option<String>,
    /// `profile`.
    pub profile: Option<AcmeProfile>,
    /// `ssl_trusted_certificate` (absolute); `None`: what the system trusts.
    pub trusted_certificate: Option<PathBuf>,
    /// `ssl_verify`; default on.
    pub verify: bool,
    /// `state_path` (absolute); `None` when off.
    pub state_path: Option<PathBuf>,
    /// `accept_terms_of_service`.
    pub terms_accepted: bool,
    /// How names are put into the DNS; present with [`AcmeChallenge::Dns01`].
    pub dns: Option<AcmeDns>,
    /// Where the block begins.
    pub origin: Origin,
}

/// The longest DNS name, in bytes.
const MAX_NAME_BYTES: usize = 253;

/// Whether this can be a name in a certificate: labels of letters, digits, hyphens and underscores,
/// in lower case.
pub fn is_dns_name(name: &str) -> bool {
    let of_label =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(of_label);
    name.len() <= MAX_NAME_BYTES && name.split('.').all(is_label)
}

impl AcmeIssuer {
    /// The files that it names, each with what it is.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let account_key = match &self.account_key {
            AcmeAccountKey::File(path) => Some(path),
            AcmeAccountKey::Generated(_) => None,
        };
        let external = self.external_account.as_ref().map(|it| &it.key);
        let external_key = match external {
            Some(ExternalAccountKey::File(path)) => Some(path),
            _ => None,
        };
        let dns_key = match &self.dns {
            Some(AcmeDns::Update(update)) => update.key.as_ref(),
            Some(AcmeDns::Command(_) | AcmeDns::Listen(_)) | None => None,
        };
        let files = [
            ("account key", account_key),
            ("external account key", external_key),
            ("certificate", self.trusted_certificate.as_ref()),
            ("TSIG key", dns_key),
        ];
        files
            .into_iter()
            .filter_map(|(what, path)| Some((what, path?.as_path())))
    }
}

/// `account_key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcmeAccountKey {
    /// One of this kind, which is generated.
    Generated(AcmeKey),
    /// PEM file (absolute).
    File(PathBuf),
}

/// A kind of private key that is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AcmeKey {
    /// `ecdsa:256`
    #[default]
    P256,
    /// `ecdsa:384`
    P384,
    /// `ecdsa:521`
    P521,
    /// `rsa:2048`
    Rsa2048,
    /// `rsa:3072`
    Rsa3072,
    /// `rsa:4096`
    Rsa4096,
}

impl AcmeKey {
    /// Every kind with its name in the configuration.
    pub const ALL: [(&'static str, AcmeKey); 6] = [
        ("ecdsa:256", AcmeKey::P256),
        ("ecdsa:384", AcmeKey::P384),
        ("ecdsa:521", AcmeKey::P521),
        ("rsa:2048", AcmeKey::Rsa2048),
        ("rsa:3072", AcmeKey::Rsa3072),
        ("rsa:4096", AcmeKey::Rsa4096),
    ];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, key)| *key == self);
        found.map_or("", |(name, _)| name)
    }
}

/// How an ACME server finds out that an identifier is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// It requests a file over HTTP (RFC 8555 section 8.3).
    Http01,
    /// It connects with TLS and a protocol of its own (RFC 8737).
    TlsAlpn01,
    /// It looks for a TXT record (RFC 8555 section 8.4).
    Dns01,
}

impl AcmeChallenge {
    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
            AcmeChallenge::Dns01 => "dns-01",
        }
    }
}

/// `external_account_key`: what links an account to one outside of ACME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// What the server calls the key.
    pub kid: String,
    /// The key in base64url.
    pub key: ExternalAccountKey,
}

/// Where the key of an [`ExternalAccount`] is.
#[derive(Clone, PartialEq, Eq)]
pub enum ExternalAccountKey {
    /// In a file (absolute).
    File(PathBuf),
    /// In the configuration.
    Inline(String),
}

impl fmt::Debug for ExternalAccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExternalAccountKey::File(path) => f.debug_tuple("File").field(path).finish(),
            ExternalAccountKey::Inline(_) => f.write_str("Inline(redacted)"),
        }
    }
}

/// `profile`: the kind of certificate that is ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeProfile {
    /// What the server calls it.
    pub name: String,
    /// Whether nothing is ordered from a server that does not have it.
    pub is_required: bool,
}

/// How TXT records are made for DNS-01.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcmeDns {
    /// `dns_update`: by dynamic updates (RFC 2136).
    Update(DnsUpdate),
    /// `dns_command`: by a program.
    Command(DnsCommand),
    /// `dns_listen`: by answering name servers.
    Listen(DnsListen),
}

impl AcmeDns {
    /// The directive.
    pub fn directive(&self) -> &'static str {
        match self {
            AcmeDns::Update(_) => "dns_update",
            AcmeDns::Command(_) => "dns_command",
            AcmeDns::Listen(_) => "dns_listen",
        }
    }
}

/// `dns_update`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsUpdate {
    /// The primary server of the zone.
    pub server: SocketAddr,
    /// The zone; `None`: the server is asked for it.
    pub zone: Option<String>,
    /// File with the TSIG key (absolute).
    pub key: Option<PathBuf>,
    /// How long the other servers of the zone may need to learn of a record; default 5 s.
    pub wait: Duration,
}

/// `dns_command`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsCommand {
    /// The program (absolute).
    pub program: PathBuf,
    /// As whom it runs; `None`: as the worker process does.
    pub user: Option<String>,
    /// The zone into which aliases may lead; without one they are not followed.
    pub zone: Option<String>,
    /// When it is killed; default 60 s.
    pub timeout: Duration,
    /// How long the servers of the zone may need to learn of a record; default 5 s.
    pub wait: Duration,
}

/// `dns_listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsListen {
    /// Where name servers ask, over UDP and TCP.
    pub addresses: Vec<SocketAddr>,
    /// What delegations call this server.
    pub name_server: String,
    /// The zone into which aliases lead; without one, `_acme-challenge` of each name is a zone.
    pub zone: Option<String>,
}

/// `acme_certificate` of a server.
#[derive(Debug, Clone)]
pub struct AcmeCertificate {
    /// From whom it comes.
    pub issuer: Arc<AcmeIssuer>,
    /// What it is for; the first one names it in messages and files.
    pub identifiers: Vec<AcmeIdentifier>,
    /// The kind of its key.
    pub key: AcmeKey,
}

/// What a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AcmeIdentifier {
    /// A name in lower case, perhaps with `*.` in front.
    Dns(String),
    /// An address (RFC 8738).
    Ip(IpAddr),
}

impl fmt::Display for AcmeIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcmeIdentifier::Dns(name) => f.write_str(name),
            AcmeIdentifier::Ip(address) => address.fmt(f),
        }
    }
}
