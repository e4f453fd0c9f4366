//! OCSP staples: what a certificate's issuer says about it, sent along with it (`ssl_stapling`).
//!
//! [`StapledCertificate`] is one certificate with its question and its newest staple. All servers
//! with the certificate share it, and it outlives snapshots. The control plane asks responders and
//! hands over what they say; a handshake takes what is there, and waits for nothing.

mod responder;
mod state;

pub use responder::{BadResponder, Responder};
pub use state::StapleState;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use sealane_awslc::{
    Certificate, CertificateChain, CertificateStatus, OcspFailure, OcspIssuer, OcspQuestion,
    sha256, unix_time_s,
};

use crate::error::{SettingsError, Warning};
use crate::identities::LoadedIdentity;
use crate::settings::PemFile;

/// `ssl_stapling on` and what belongs to it.
#[derive(Clone, Debug)]
pub struct StaplingSettings {
    /// `ssl_stapling_file`: a response in DER, which is sent instead of one that is asked for.
    pub file: Option<StapleFile>,
    /// `ssl_stapling_responder`: instead of the one that the certificate names.
    pub responder: Option<String>,
    /// `ssl_stapling_verify`: responders have to lead to a certificate of `trusted`.
    pub verify: bool,
    /// `ssl_trusted_certificate`.
    pub trusted: Option<PemFile>,
    /// Where certificates and their staples outlive snapshots.
    pub state: Arc<StapleState>,
}

/// A file as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StapleFile {
    /// Its contents.
    pub der: Vec<u8>,
    /// Its name, for errors.
    pub label: String,
}

/// Which certificate, issuer, responder and rules a staple belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StapleId(pub [u8; 32]);

/// An OCSP response that may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staple {
    /// The response in DER.
    pub der: Vec<u8>,
    /// When the issuer knew what it says, in seconds since 1970.
    pub this_update_s: i64,
    /// Until when it may be sent. Without it the responder has something newer at any time.
    pub next_update_s: Option<i64>,
}

impl Staple {
    /// Whether clients would accept it at this time, in seconds since 1970.
    pub fn is_valid(&self, now_s: i64) -> bool {
        self.next_update_s.is_none_or(|end| now_s <= end)
    }
}

/// Why a response does not become a staple.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StapleRefused {
    /// It is not believed.
    Response(OcspFailure),
    /// It says something else than "good".
    Status(CertificateStatus),
    /// An older answer than the staple that is there.
    Older,
}

impl fmt::Display for StapleRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(failure) => failure.fmt(f),
            Self::Status(status) => {
                write!(f, "certificate status \"{status}\" in the OCSP response")
            }
            Self::Older => f.write_str("the OCSP response is older than the one before"),
        }
    }
}

/// A certificate whose staples are asked for.
pub struct StapledCertificate {
    id: StapleId,
    label: String,
    responder: Responder,
    question: OcspQuestion,
    demands_staple: bool,
    /// Locked for a few instructions by handshakes that send it, and when a new one has come.
    staple: Mutex<Option<Arc<Staple>>>,
}

impl StapledCertificate {
    /// What tells it from others.
    pub fn id(&self) -> StapleId {
        self.id
    }

    /// The certificate's file, for the log.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whom to ask.
    pub fn responder(&self) -> &Responder {
        &self.responder
    }

    /// What to ask, in DER.
    pub fn request(&self) -> &[u8] {
        self.question.request()
    }

    /// Whether clients may refuse the certificate without a staple (RFC 7633).
    pub fn demands_staple(&self) -> bool {
        self.demands_staple
    }

    /// The newest staple, valid or not.
    pub fn newest(&self) -> Option<Arc<Staple>> {
        self.slot().clone()
    }

    /// The staple to send now.
    pub fn staple(&self) -> Option<Arc<Staple>> {
        self.newest().filter(|staple| staple.is_valid(now_s()))
    }

    /// Checks what a responder, another node or a file says. If it is good and no older than what
    /// is there, it is sent from now on.
    ///
    /// # Errors
    ///
    /// Why not; the staple is the one before.
    pub fn take(&self, response: &[u8]) -> Result<Arc<Staple>, StapleRefused> {
        let answer = self
            .question
            .read(response)
            .map_err(StapleRefused::Response)?;
        if answer.status != CertificateStatus::Good {
            return Err(StapleRefused::Status(answer.status));
        }
        let new = Arc::new(Staple {
            der: response.to_vec(),
            this_update_s: answer.this_update_s,
            next_update_s: answer.next_update_s,
        });
        let mut slot = self.slot();
        let newer = |old: &Arc<Staple>| old.this_update_s > new.this_update_s;
        if slot.as_ref().is_some_and(newer) {
            return Err(StapleRefused::Older);
        }
        *slot = Some(Arc::clone(&new));
        Ok(new)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Staple>>> {
        self.staple.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StapledCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StapledCertificate({})", self.label)
    }
}

/// Where the staple of a certificate comes from.
#[derive(Debug)]
pub(crate) enum StapleSource {
    /// A responder.
    Asked(Arc<StapledCertificate>),
    /// `ssl_stapling_file`.
    File(Arc<Staple>),
}

impl StapleSource {
    /// The source for a certificate; `None` if there is none, which a warning explains.
    ///
    /// # Errors
    ///
    /// When a file does not decode, or libcrypto has no memory.
    pub(crate) fn build(
        settings: &StaplingSettings,
        identity: &LoadedIdentity,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<Self>, SettingsError> {
        let trusted = settings.trusted.as_ref().map(load).transpose()?;
        let leaf = identity.chain.leaf();
        let issuer = find_issuer(&identity.chain, trusted.as_ref());
        if let Some(file) = &settings.file {
            return from_file(file, identity, issuer, warnings);
        }
        let mut ignored = |why: String| {
            let message = format!("\"ssl_stapling\" ignored, {why}");
            warnings.push(Warning::new(message));
            Ok(None)
        };
        let label = &identity.label;
        let Some(issuer) = issuer else {
            return ignored(format!(
                "issuer certificate not found for certificate \"{label}\""
            ));
        };
        let url = match &settings.responder {
            Some(url) => url.clone(),
            None => match leaf.ocsp_responders().into_iter().next() {
                Some(url) => url,
                None => {
                    return ignored(format!(
                        "no OCSP responder URL in the certificate \"{label}\""
                    ));
                }
            },
        };
        let responder = match Responder::parse(&url) {
            Ok(responder) => responder,
            Err(why) => {
                return ignored(format!(
                    "{why} in OCSP responder \"{url}\" in the certificate \"{label}\""
                ));
            }
        };
        let ids = identify(leaf, issuer, &url, settings)?;
        let certificate = settings.state.certificate(ids.certificate, || {
            let authority = settings.state.issuer(ids.issuer, || {
                let trusted = trusted.as_ref().map(CertificateChain::certificates);
                // Without roots, only what the issuer itself has signed is believed.
                let roots = settings.verify.then(|| trusted.unwrap_or_default());
                OcspIssuer::new(issuer, roots).map_err(library)
            })?;
            Ok(StapledCertificate {
                id: ids.certificate,
                label: label.clone(),
                responder,
                question: OcspQuestion::new(leaf, authority).map_err(library)?,
                demands_staple: leaf.demands_staple(),
                staple: Mutex::default(),
            })
        })?;
        Ok(Some(Self::Asked(certificate)))
    }

    /// The staple to send now.
    pub(crate) fn staple(&self) -> Option<Arc<Staple>> {
        match self {
            Self::Asked(certificate) => certificate.staple(),
            Self::File(staple) => Some(Arc::clone(staple)).filter(|it| it.is_valid(now_s())),
        }
    }

    /// The certificate, if a responder is asked about it.
    pub(crate) fn asked(&self) -> Option<&Arc<StapledCertificate>> {
        match self {
            Self::Asked(certificate) => Some(certificate),
            Self::File(_) => None,
        }
    }
}

/// As in nginx: the file's own certificates come first.
fn find_issuer<'c>(
    chain: &'c CertificateChain,
    trusted: Option<&'c CertificateChain>,
) -> Option<&'c Certificate> {
    let sent = chain.certificates().iter().skip(1);
    let trusted = trusted.into_iter().flat_map(|found| found.certificates());
    sent.chain(trusted)
        .find(|issuer| issuer.has_issued(chain.leaf()))
}

/// The operator vouches for who has signed the response.
fn from_file(
    file: &StapleFile,
    identity: &LoadedIdentity,
    issuer: Option<&Certificate>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<StapleSource>, SettingsError> {
    let StapleFile { der, label } = file;
    let unusable = |failure: OcspFailure| {
        SettingsError::new(format!("cannot load OCSP response \"{label}\": {failure}"))
    };
    let Some(issuer) = issuer else {
        // Whether the response is about the certificate cannot be told without the issuer.
        sealane_awslc::check_ocsp_response(der).map_err(unusable)?;
        return Ok(Some(StapleSource::File(Arc::new(Staple {
            der: der.clone(),
            this_update_s: 0,
            next_update_s: None,
        }))));
    };
    let issuer = OcspIssuer::new(issuer, None).map_err(library)?;
    let question = OcspQuestion::new(identity.chain.leaf(), Arc::new(issuer)).map_err(library)?;
    let mut ignored = |why: &str| {
        warnings.push(Warning::new(format!(
            "\"ssl_stapling_file\" \"{label}\" is not sent with certificate \"{}\": {why}",
            identity.label
        )));
        Ok(None)
    };
    match question.read_unverified(der) {
        Ok(answer) => {
            let staple = Staple {
                der: der.clone(),
                this_update_s: answer.this_update_s,
                next_update_s: answer.next_update_s,
            };
            if !staple.is_valid(now_s()) {
                return ignored("the response is out of date; fetch a new one");
            }
            Ok(Some(StapleSource::File(Arc::new(staple))))
        }
        Err(OcspFailure::OtherCertificate) => ignored("the response is about another certificate"),
        Err(failure) => Err(unusable(failure)),
    }
}

/// Hashes by which certificates and their issuers are found again.
struct Ids {
    certificate: StapleId,
    issuer: [u8; 32],
}

fn identify(
    leaf: &Certificate,
    issuer: &Certificate,
    url: &str,
    settings: &StaplingSettings,
) -> Result<Ids, SettingsError> {
    let trusted = settings.trusted.as_ref().filter(|_| settings.verify);
    let issuer = digest(&[
        &issuer.to_der().map_err(library)?,
        &[u8::from(settings.verify)],
        trusted.map_or(&[], |file| &file.pem),
    ]);
    let leaf = leaf.to_der().map_err(library)?;
    Ok(Ids {
        certificate: StapleId(digest(&[&leaf, &issuer, url.as_bytes()])),
        issuer,
    })
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let parts: Vec<u8> = parts.iter().flat_map(|part| sha256(part)).collect();
    sha256(&parts)
}

fn load(file: &PemFile) -> Result<CertificateChain, SettingsError> {
    CertificateChain::bundle_from_pem(&file.pem).map_err(|error| {
        SettingsError::new(format!(
            "cannot load certificate \"{}\": {error}",
            file.label
        ))
    })
}

fn library(error: sealane_awslc::Error) -> SettingsError {
    SettingsError::new(error.to_string())
}

fn now_s() -> i64 {
    i64::try_from(unix_time_s()).unwrap_or(i64::MAX)
}
