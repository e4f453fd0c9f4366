//! `acme_issuer` and `acme_certificate` as written.

use crate::model::{
    AcmeAccountKey, AcmeChallenge, AcmeDns, AcmeIdentifier, AcmeKey, AcmeProfile, ExternalAccount,
    Origin,
};
use std::path::PathBuf;

/// An `acme_issuer` block that is open.
#[derive(Debug)]
pub(crate) struct AcmeIssuerDraft {
    pub(crate) name: String,
    pub(crate) uri: Option<String>,
    pub(crate) account_key: Option<AcmeAccountKey>,
    pub(crate) challenge: Option<AcmeChallenge>,
    pub(crate) common_name_in_csr: Option<bool>,
    pub(crate) contacts: Vec<String>,
    pub(crate) external_account: Option<ExternalAccount>,
    pub(crate) preferred_chain: Option<String>,
    pub(crate) profile: Option<AcmeProfile>,
    pub(crate) trusted_certificate: Option<PathBuf>,
    pub(crate) verify: Option<bool>,
    /// `Some(None)`: `off`.
    pub(crate) state_path: Option<Option<PathBuf>>,
    pub(crate) terms_accepted: Option<()>,
    pub(crate) dns: Option<AcmeDns>,
    pub(crate) origin: Origin,
}

impl AcmeIssuerDraft {
    /// One in which nothing is set.
    pub(crate) fn new(origin: Origin) -> AcmeIssuerDraft {
        AcmeIssuerDraft {
            name: String::new(),
            uri: None,
            account_key: None,
            challenge: None,
            common_name_in_csr: None,
            contacts: Vec::new(),
            external_account: None,
            preferred_chain: None,
            profile: None,
            trusted_certificate: None,
            verify: None,
            state_path: None,
            terms_accepted: None,
            dns: None,
            origin,
        }
    }
}

/// `acme_certificate` of a server.
#[derive(Debug, Clone)]
pub(crate) struct AcmeCertificateDraft {
    pub(crate) issuer: String,
    /// None: those of `server_name`.
    pub(crate) identifiers: Vec<AcmeIdentifier>,
    pub(crate) key: Option<AcmeKey>,
    pub(crate) origin: Origin,
}
