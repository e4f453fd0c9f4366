//! Client certificates: the rules for verifying them, and their contents.
//!
//! The handshake asks for a certificate and checks that the client has its key. The chain is
//! verified later, by the [`ClientVerifier`] of the server that answers the request. That may be
//! another server than in the handshake: the session may have been resumed, or the connection may
//! have survived a reload or come from another process. The chain is kept with the session, and the
//! session with the connection, so a verdict made under other rules is never used.

use std::fmt::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use sealane_awslc::{
    self as awslc, CertificateChain, PeerChain, Verifier, VerifierBuilder, VerifyFailure, sha1,
    sha256, unix_time_s,
};

use crate::client_status::{StatusFailure, StatusQuestion, StatusSettings};
use crate::error::SettingsError;
use crate::sessions::identity::{ClientVerification, VerifyClient};
use crate::settings::PemFile;

/// Chains of up to this length are verified where the request is handled: a leaf and an
/// intermediate or two. With keys of usual kinds (RSA-2048 to 4096, P-256, Ed25519) that takes 40
/// to 160 us; with the largest that fit (RSA-8192, P-521) a millisecond at most.
const MAX_CHEAP_CERTIFICATES: usize = 3;
const MAX_CHEAP_BYTES: usize = 4 << 10;

/// Verdicts remembered per connection: as many servers as a client may reasonably ask.
const MAX_VERDICTS: usize = 8;

/// The verification rules of one server.
#[derive(Debug)]
pub struct ClientVerifier {
    mode: VerifyClient,
    verifier: Verifier,
    /// Names of `ssl_client_certificate`, in DER.
    issuers: Vec<Vec<u8>>,
    /// Hash of everything that a verdict depends on.
    id: [u8; 32],
    /// `ssl_ocsp`.
    status: Option<StatusRules>,
}

/// How issuers are asked, and a hash of everything that their answer depends on.
#[derive(Debug)]
struct StatusRules {
    settings: StatusSettings,
    id: [u8; 32],
}

impl ClientVerifier {
    /// Loads the files that the directives name; `None` if no certificate is asked for.
    ///
    /// # Errors
    ///
    /// In nginx's words, when a file does not load. `ssl_trusted_certificate` and `ssl_crl` must
    /// load even if no certificate is asked for.
    pub(crate) fn build(
        settings: &ClientVerification,
        status: Option<&StatusSettings>,
    ) -> Result<Option<Self>, SettingsError> {
        let mut builder = VerifierBuilder::for_clients(settings.depth).map_err(library_error)?;
        let asks = settings.mode != VerifyClient::Off;
        let mut issuers: Vec<Vec<u8>> = Vec::new();
        if let Some(named) = settings.named.as_ref().filter(|_| asks) {
            let bundle = load(named)?;
            builder.add_trusted(&bundle).map_err(library_error)?;
            for certificate in bundle.certificates() {
                let name = certificate.subject_der().map_err(library_error)?;
                if !issuers.contains(&name) {
                    issuers.push(name);
                }
            }
        }
        if let Some(trusted) = &settings.trusted {
            let bundle = load(trusted)?;
            builder.add_trusted(&bundle).map_err(library_error)?;
        }
        if let Some(lists) = &settings.revoked {
            builder.add_revocation_lists(&lists.pem).map_err(|error| {
                SettingsError::new(format!("cannot load CRL \"{}\": {error}", lists.label))
            })?;
        }
        Ok(asks.then(|| Self {
            mode: settings.mode,
            verifier: builder.build(),
            issuers,
            id: rules_id(settings),
            status: status.map(|status| StatusRules {
                id: sha256(&[&rules_id(settings), status.identity().as_bytes()].concat()),
                settings: status.clone(),
            }),
        }))
    }

    /// `ssl_verify_client`; never `Off`.
    pub fn mode(&self) -> VerifyClient {
        self.mode
    }

    /// Verifies the chain, once for each set of rules.
    ///
    /// # Errors
    ///
    /// Why it is not trusted.
    pub fn judge(&self, client: &ClientChain) -> Result<(), VerifyFailure> {
        if let Some(verdict) = client.verdicts.find(&self.id) {
            return verdict;
        }
        let verdict = self.verifier.judge_chain(&client.chain);
        client.verdicts.note(self.id, verdict);
        verdict
    }

    /// Whether the verdict for this chain is already known, so that [`judge`](Self::judge) is
    /// cheap.
    pub fn is_judged(&self, client: &ClientChain) -> bool {
        client.verdicts.find(&self.id).is_some()
    }

    /// What the issuers say about a chain that is trusted, if it is known: always, unless
    /// `ssl_ocsp` is set.
    pub fn status(&self, client: &ClientChain) -> Option<Result<(), StatusFailure>> {
        match &self.status {
            None => Some(Ok(())),
            Some(rules) => client.statuses.find(&rules.id),
        }
    }

    /// Remembers what the issuers have said.
    pub fn note_status(&self, client: &ClientChain, status: Result<(), StatusFailure>) {
        if let Some(rules) = &self.status {
            client.statuses.note(rules.id, status);
        }
    }

    /// Verifies the chain, and returns what its issuers are to be asked.
    ///
    /// # Errors
    ///
    /// Why it is not trusted.
    pub fn questions(&self, client: &ClientChain) -> Result<Vec<StatusQuestion>, VerifyFailure> {
        let Some(rules) = &self.status else {
            return self.judge(client).map(|()| Vec::new());
        };
        let trusted = self.verifier.trusted_chain(&client.chain);
        let verdict = trusted.as_ref().map(drop).map_err(|failure| *failure);
        client.verdicts.note(self.id, verdict);
        StatusQuestion::about(&trusted?, &rules.settings).map_err(|_| VerifyFailure::UNSPECIFIED)
    }

    pub(crate) fn issuers(&self) -> &[Vec<u8>] {
        &self.issuers
    }
}

fn load(file: &PemFile) -> Result<CertificateChain, SettingsError> {
    CertificateChain::bundle_from_pem(&file.pem).map_err(|error| {
        SettingsError::new(format!(
            "cannot load certificate \"{}\": {error}",
            file.label
        ))
    })
}

/// Hash of the rules, but not of how a verdict is used.
fn rules_id(settings: &ClientVerification) -> [u8; 32] {
    let digest = |file: &Option<PemFile>| file.as_ref().map(|file| sha256(&file.pem));
    let text = format!(
        "{} {:?} {:?} {:?}",
        settings.depth,
        digest(&settings.named),
        digest(&settings.trusted),
        digest(&settings.revoked)
    );
    sha256(text.as_bytes())
}

/// The chain that a client sent on a connection, and the verdicts on it.
#[derive(Debug)]
pub struct ClientChain {
    chain: PeerChain,
    sigalg: &'static str,
    verdicts: Verdicts<VerifyFailure>,
    /// What the issuers say.
    statuses: Verdicts<StatusFailure>,
    text: OnceLock<Option<Box<ClientCertificateText>>>,
}

/// Verdicts by the id of the rules.
#[derive(Debug)]
struct Verdicts<E>(Mutex<Vec<Verdict<E>>>);

type Verdict<E> = ([u8; 32], Result<(), E>);

impl<E: Copy> Verdicts<E> {
    fn find(&self, rules: &[u8; 32]) -> Option<Result<(), E>> {
        let verdicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = verdicts.iter().find(|(id, _)| id == rules);
        found.map(|(_, verdict)| *verdict)
    }

    fn note(&self, rules: [u8; 32], verdict: Result<(), E>) {
        let mut verdicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.retain(|(id, _)| *id != rules);
        if verdicts.len() == MAX_VERDICTS {
            drop(verdicts.drain(..1));
        }
        verdicts.push((rules, verdict));
    }
}

impl<E> Default for Verdicts<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// The contents of a certificate, in nginx's notation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificateText {
    /// `$ssl_client_s_dn` (RFC 2253).
    pub subject: Box<str>,
    /// The common name in it; of several, the first. Empty without one.
    pub common_name: Box<str>,
    /// `$ssl_client_i_dn`.
    pub issuer: Box<str>,
    /// `$ssl_client_s_dn_legacy`.
    pub subject_legacy: Box<str>,
    /// `$ssl_client_i_dn_legacy`.
    pub issuer_legacy: Box<str>,
    /// `$ssl_client_serial`: hexadecimal, upper case.
    pub serial: Box<str>,
    /// `$ssl_client_v_start`.
    pub not_before: Box<str>,
    /// `$ssl_client_v_end`.
    pub not_after: Box<str>,
    /// The end of validity in seconds since 1970.
    pub not_after_s: Option<i64>,
}

impl ClientChain {
    pub(crate) fn of(tls: &awslc::Connection) -> Option<Self> {
        Some(Self {
            chain: tls.peer_chain()?,
            sigalg: tls
                .client_signature_scheme()
                .and_then(awslc::Connection::signature_scheme_name)
                .unwrap_or(""),
            verdicts: Verdicts::default(),
            statuses: Verdicts::default(),
            text: OnceLock::new(),
        })
    }

    /// The contents of the leaf; `None` if it cannot be parsed.
    pub fn text(&self) -> Option<&ClientCertificateText> {
        let text = self.text.get_or_init(|| {
            let leaf = self.chain.parse_leaf().ok()?;
            let text = |value: Option<String>| value.unwrap_or_default().into_boxed_str();
            Some(Box::new(ClientCertificateText {
                subject: text(leaf.subject()),
                common_name: text(leaf.common_name()),
                issuer: text(leaf.issuer()),
                subject_legacy: text(leaf.subject_oneline()),
                issuer_legacy: text(leaf.issuer_oneline()),
                serial: leaf.serial().into(),
                not_before: text(leaf.not_before_text()),
                not_after: text(leaf.not_after_text()),
                not_after_s: leaf.not_after_unix_s(),
            }))
        });
        text.as_deref()
    }

    /// `$ssl_client_v_remain`: whole days until the leaf expires, 0 afterwards.
    pub fn days_left(&self) -> Option<u64> {
        let end_s = self.text()?.not_after_s?;
        let now_s = i64::try_from(unix_time_s()).unwrap_or(i64::MAX);
        let left_s = u64::try_from(end_s.saturating_sub(now_s)).unwrap_or(0);
        Some(left_s / (24 * 3600))
    }

    /// `$ssl_client_fingerprint`: SHA-1 of the leaf, in hexadecimal, lower case.
    pub fn fingerprint(&self) -> String {
        let mut text = String::with_capacity(40);
        for byte in sha1(self.chain.leaf()) {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// `$ssl_client_sigalg`: the scheme of the client's signature; empty below TLS 1.2.
    pub fn sigalg(&self) -> &'static str {
        self.sigalg
    }

    /// Whether verification takes a millisecond at most.
    pub fn is_cheap(&self) -> bool {
        let (certificates, bytes) = self.size();
        certificates <= MAX_CHEAP_CERTIFICATES && bytes <= MAX_CHEAP_BYTES
    }

    /// The leaf in DER.
    pub fn leaf_der(&self) -> &[u8] {
        self.chain.leaf()
    }

    /// The number of certificates, and their total size in bytes.
    pub fn size(&self) -> (usize, usize) {
        let certificates = self.chain.certificates();
        (certificates.len(), certificates.map(<[u8]>::len).sum())
    }
}

fn library_error(error: awslc::Error) -> SettingsError {
    SettingsError::new(error.to_string())
}
