//! `ssl_ocsp`: what the issuers of a client's certificates say about them now.
//!
//! A chain that is otherwise accepted becomes [`StatusQuestion`]s. What a responder has said before
//! is in the [`StatusCache`]; the rest is asked by the control plane. Nothing here waits.

mod cache;

pub use cache::StatusCache;

use std::fmt;
use std::sync::Arc;

use sealane_awslc::{
    Certificate, CertificateStatus, Error, OcspFailure, OcspIssuer, OcspQuestion, sha256,
    unix_time_s,
};

use crate::stapling::{BadResponder, Responder};

/// How long a response without an end is kept, in seconds; nginx's value.
const UNLIMITED_S: i64 = 3600;

/// `ssl_ocsp leaf` or `on`, and what belongs to it.
#[derive(Clone, Debug)]
pub struct StatusSettings {
    /// `on`: the whole chain, and not only the client's own certificate.
    pub whole_chain: bool,
    /// `ssl_ocsp_responder`: instead of those that certificates name.
    pub responder: Option<Responder>,
    /// `ssl_ocsp_cache`: its zone, and what is in it.
    pub cache: Option<(String, Arc<StatusCache>)>,
}

impl StatusSettings {
    /// All that an answer depends on, as text.
    pub(crate) fn identity(&self) -> String {
        let zone = self.cache.as_ref().map(|(zone, _)| zone);
        format!("{} {:?} {zone:?}", self.whole_chain, self.responder)
    }
}

/// Why a chain is not accepted although it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFailure {
    /// A certificate has been revoked.
    Revoked,
    /// A responder does not know a certificate.
    Unknown,
    /// A responder has not answered, or not as it should.
    RequestFailed,
}

impl fmt::Display for StatusFailure {
    /// nginx's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Revoked => "certificate revoked",
            Self::Unknown => "certificate status unknown",
            Self::RequestFailed => "certificate status request failed",
        })
    }
}

/// Which certificate of which issuer an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StatusKey([u8; 32]);

/// The question about one certificate of a client's chain.
#[derive(Debug)]
pub struct StatusQuestion {
    key: StatusKey,
    label: String,
    responder: Result<Responder, NoResponder>,
    is_named_by_certificate: bool,
    question: OcspQuestion,
    cache: Option<Arc<StatusCache>>,
}

/// Why nobody can be asked about a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoResponder {
    /// It names none.
    Unnamed,
    /// What it names is no address of a responder.
    Unusable(BadResponder, String),
}

impl fmt::Display for NoResponder {
    /// nginx's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unnamed => f.write_str("no OCSP responder URL in certificate"),
            Self::Unusable(why, url) => {
                write!(f, "{why} in OCSP responder \"{url}\" in certificate")
            }
        }
    }
}

impl StatusQuestion {
    /// The questions about a trusted chain, leaf first, root last.
    ///
    /// # Errors
    ///
    /// When libcrypto has no memory.
    pub(crate) fn about(
        chain: &[Certificate],
        settings: &StatusSettings,
    ) -> Result<Vec<Self>, Error> {
        // Nobody vouches for a root.
        let asked = match settings.whole_chain {
            true => chain.len(),
            false => chain.len().min(2),
        };
        let pairs = chain[..asked].windows(2);
        pairs
            .map(|pair| Self::new(&pair[0], &pair[1], settings))
            .collect()
    }

    fn new(
        certificate: &Certificate,
        issuer: &Certificate,
        settings: &StatusSettings,
    ) -> Result<Self, Error> {
        let issuer = OcspIssuer::new(issuer, None)?;
        let question = OcspQuestion::new(certificate, Arc::new(issuer))?;
        let named = || match certificate.ocsp_responders().into_iter().next() {
            None => Err(NoResponder::Unnamed),
            Some(url) => Responder::parse(&url).map_err(|why| NoResponder::Unusable(why, url)),
        };
        Ok(Self {
            // The request names the certificate and its issuer, and nothing else.
            key: StatusKey(sha256(question.request())),
            label: certificate.subject().unwrap_or_default(),
            responder: settings.responder.clone().map_or_else(named, Ok),
            is_named_by_certificate: settings.responder.is_none(),
            question,
            cache: settings.cache.as_ref().map(|(_, cache)| Arc::clone(cache)),
        })
    }

    /// The certificate's subject, for the log.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whom to ask.
    ///
    /// # Errors
    ///
    /// Why nobody can be asked.
    pub fn responder(&self) -> Result<&Responder, &NoResponder> {
        self.responder.as_ref()
    }

    /// Whether the responder comes from the certificate, and so from outside.
    pub fn is_named_by_certificate(&self) -> bool {
        self.is_named_by_certificate
    }

    /// What to ask, in DER.
    pub fn request(&self) -> &[u8] {
        self.question.request()
    }

    /// What is known already; `None` if a responder has to be asked.
    pub fn known(&self) -> Option<Result<(), StatusFailure>> {
        let status = self.cache.as_ref()?.find(&self.key, now_s())?;
        Some(verdict(status))
    }

    /// Checks what a responder says, and keeps it for as long as it is valid.
    ///
    /// # Errors
    ///
    /// Why the response is not believed.
    pub fn take(&self, response: &[u8]) -> Result<Result<(), StatusFailure>, OcspFailure> {
        let answer = self.question.read(response)?;
        if let Some(cache) = &self.cache {
            let now_s = now_s();
            let end_s = answer.next_update_s.unwrap_or(now_s + UNLIMITED_S);
            cache.keep(self.key, answer.status, end_s, now_s);
        }
        Ok(verdict(answer.status))
    }
}

fn verdict(status: CertificateStatus) -> Result<(), StatusFailure> {
    match status {
        CertificateStatus::Good => Ok(()),
        CertificateStatus::Revoked => Err(StatusFailure::Revoked),
        CertificateStatus::Unknown => Err(StatusFailure::Unknown),
    }
}

fn now_s() -> i64 {
    i64::try_from(unix_time_s()).unwrap_or(i64::MAX)
}
