//! Certificates that come from ACME servers while this one runs, and what those servers are
//! answered when they verify a name (`acme_certificate`).
//!
//! [`AcmeState`] outlives snapshots. The control plane puts in what it has ordered and what is to
//! be answered; handshakes and requests take what is there, and wait for nothing.

use crate::exchange::{ContentType, Exchange};
use crate::handlers::Outcome;
use crate::materials::Materials;
use crate::tls_build;
use bytes::Bytes;
use sealane_conf::diagnostic::Diagnostic;
use sealane_conf::model::{AcmeAccountKey, AcmeCertificate, AcmeDns, ExternalAccountKey, Server};
use sealane_http::{Method, StatusCode};
use sealane_keys::{Holders, KeyClient};
use sealane_tls::{CertificatePair, ServerTls, SharedSessions, sha256};
use sealane_upstream::resolve::Resolve;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use zeroize::Zeroizing;

/// Where ACME servers ask (RFC 8555 section 8.3).
const CHALLENGE_PATH: &[u8] = b"/.well-known/acme-challenge/";

/// What tells a certificate from others: its issuer, its identifiers and the kind of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AcmeId(pub [u8; 32]);

impl AcmeId {
    /// That of an `acme_certificate`.
    pub fn of(conf: &AcmeCertificate) -> AcmeId {
        let mut text = format!("{}\n{}\n", conf.issuer.uri, conf.key.name());
        for identifier in &conf.identifiers {
            let _ = writeln!(text, "{identifier}");
        }
        AcmeId(sha256(text.as_bytes()))
    }
}

/// What is to be answered to an ACME server that verifies one identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The last part of the path that it asks for.
    pub token: String,
    /// The body of the response.
    pub authorization: String,
}

/// The same over TLS (RFC 8737).
#[derive(Debug, Clone)]
pub struct TlsAnswer {
    /// The server name that it asks for.
    pub name: String,
    /// What it gets to see.
    pub server: Arc<ServerTls>,
}

/// The text of a TXT record by which one identifier is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsAnswer {
    /// The name that is verified, without the star of a wildcard.
    pub identifier: String,
    /// The text.
    pub value: String,
}

/// Certificates and answers of the process.
#[derive(Debug, Default)]
pub struct AcmeState {
    /// Whether any answer is pending, so that other requests pay for one load.
    has_answers: AtomicBool,
    answers: RwLock<HashMap<AcmeId, Vec<HttpAnswer>>>,
    tls_answers: RwLock<HashMap<AcmeId, Vec<TlsAnswer>>>,
    dns_answers: RwLock<HashMap<AcmeId, Vec<DnsAnswer>>>,
    /// What handshakes send; each is locked for a few instructions.
    pairs: RwLock<HashMap<AcmeId, Arc<CertificatePair>>>,
    /// Where private keys are, if not in this process.
    keys: OnceLock<Arc<Holders>>,
}

impl AcmeState {
    /// Private keys are elsewhere.
    pub fn set_keys(&self, keys: &Arc<Holders>) {
        self.keys.get_or_init(|| Arc::clone(keys));
    }

    /// What has keys held elsewhere.
    pub fn key_loader(&self) -> Option<Arc<KeyClient>> {
        self.keys.get()?.processor()
    }

    /// Serves a certificate from now on.
    pub fn set_pair(&self, id: AcmeId, pair: Arc<CertificatePair>) {
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        pairs.insert(id, pair);
    }

    /// What is served for an `acme_certificate`.
    pub fn pair(&self, id: AcmeId) -> Option<Arc<CertificatePair>> {
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        pairs.get(&id).cloned()
    }

    /// Forgets certificates that no configuration uses.
    pub fn retain(&self, used: &[AcmeTask]) {
        let is_used = |id: &AcmeId| used.iter().any(|task| task.id == *id);
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        pairs.retain(|id, _| is_used(id));
        drop(pairs);
        let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|id, _| is_used(id));
        self.has_answers
            .store(!answers.is_empty(), Ordering::Release);
        drop(answers);
        let answers = self.tls_answers.write();
        let mut answers = answers.unwrap_or_else(PoisonError::into_inner);
        answers.retain(|id, _| is_used(id));
        drop(answers);
        let answers = self.dns_answers.write();
        let mut answers = answers.unwrap_or_else(PoisonError::into_inner);
        answers.retain(|id, _| is_used(id));
    }

    /// Replaces the answers for the identifiers of a certificate.
    pub fn set_http_answers(&self, id: AcmeId, answers: Vec<HttpAnswer>) {
        let mut all = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        match answers.is_empty() {
            true => all.remove(&id),
            false => all.insert(id, answers),
        };
        self.has_answers.store(!all.is_empty(), Ordering::Release);
    }

    /// Replaces the answers over TLS for the identifiers of a certificate.
    pub fn set_tls_answers(&self, id: AcmeId, answers: Vec<TlsAnswer>) {
        let all = self.tls_answers.write();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        match answers.is_empty() {
            true => all.remove(&id),
            false => all.insert(id, answers),
        };
    }

    /// Replaces the TXT records for the identifiers of a certificate.
    pub fn set_dns_answers(&self, id: AcmeId, answers: Vec<DnsAnswer>) {
        let all = self.dns_answers.write();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        match answers.is_empty() {
            true => all.remove(&id),
            false => all.insert(id, answers),
        };
    }

    /// The texts by which an identifier is verified at present, no more than `most`.
    pub fn dns_texts(&self, identifier: &str, most: usize) -> Vec<String> {
        let all = self.dns_answers.read();
        let all = all.unwrap_or_else(PoisonError::into_inner);
        let mut texts: Vec<String> = Vec::new();
        for answer in all.values().flatten() {
            let is_new = answer.identifier == identifier && !texts.contains(&answer.value);
            if is_new && texts.len() < most {
                texts.push(answer.value.clone());
            }
        }
        texts
    }

    /// What a client gets to see that verifies this name over TLS.
    pub(crate) fn tls_answer(&self, name: &str) -> Option<Arc<ServerTls>> {
        let all = self.tls_answers.read();
        let all = all.unwrap_or_else(PoisonError::into_inner);
        let mut answers = all.values().flatten();
        let found = answers.find(|answer| answer.name == name);
        found.map(|answer| Arc::clone(&answer.server))
    }

    fn http_answer(&self, token: &[u8]) -> Option<String> {
        if !self.has_answers.load(Ordering::Acquire) {
            return None;
        }
        let all = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        let mut answers = all.values().flatten();
        let found = answers.find(|answer| answer.token.as_bytes() == token);
        found.map(|answer| answer.authorization.clone())
    }
}

/// Answers an ACME server that verifies a name of this process, whatever the configuration says
/// about the path. All other requests go on.
pub(crate) fn answer(exchange: &mut Exchange) -> Outcome {
    let Some(token) = exchange.request.uri.strip_prefix(CHALLENGE_PATH) else {
        return Outcome::Declined;
    };
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Outcome::Declined;
    }
    let Some(authorization) = exchange.snapshot.acme.http_answer(token) else {
        return Outcome::Declined;
    };
    let response = &mut exchange.response;
    response.status = StatusCode::OK;
    response.content_type = ContentType::new(b"application/octet-stream");
    response.content_length = Some(authorization.len() as u64);
    response.body.clear();
    response.body.push_bytes(Bytes::from(authorization));
    Outcome::Answered
}

/// A certificate that is to be ordered and renewed.
#[derive(Clone)]
pub struct AcmeTask {
    /// What tells it from others.
    pub id: AcmeId,
    /// What is configured.
    pub conf: Arc<AcmeCertificate>,
    /// The files that its issuer names.
    pub files: Arc<AcmeFiles>,
    /// Finds the ACME server; without it, the system does. It also follows aliases for DNS-01.
    pub resolver: Option<Arc<dyn Resolve>>,
    /// Where nodes share accounts and certificates.
    pub shared: Option<SharedSessions>,
}

/// The contents of the files of an `acme_issuer`.
#[derive(Default, PartialEq, Eq)]
pub struct AcmeFiles {
    /// `account_key`.
    pub account_key: Option<Zeroizing<Vec<u8>>>,
    /// `external_account_key`, in base64url.
    pub external_key: Option<Zeroizing<Vec<u8>>>,
    /// `ssl_trusted_certificate`.
    pub trusted: Option<Vec<u8>>,
    /// `key=` of `dns_update`.
    pub dns_key: Option<Zeroizing<Vec<u8>>>,
}

impl AcmeFiles {
    /// Those of an issuer.
    ///
    /// # Errors
    /// When one was not read.
    fn of(conf: &AcmeCertificate, materials: &Materials) -> Result<AcmeFiles, Diagnostic> {
        let issuer = &conf.issuer;
        let secret = |path: Option<&Path>, what: &str| match path {
            None => Ok(None),
            Some(path) => {
                let bytes = tls_build::file(materials, path, what)?;
                Ok(Some(Zeroizing::new(bytes.to_vec())))
            }
        };
        let account_key = match &issuer.account_key {
            AcmeAccountKey::File(path) => Some(path.as_path()),
            AcmeAccountKey::Generated(_) => None,
        };
        let external = issuer.external_account.as_ref().map(|it| &it.key);
        let external_key = match external {
            Some(ExternalAccountKey::File(path)) => secret(Some(path), "external account key")?,
            Some(ExternalAccountKey::Inline(key)) => Some(Zeroizing::new(key.clone().into_bytes())),
            None => None,
        };
        let dns_key = match &issuer.dns {
            Some(AcmeDns::Update(update)) => update.key.as_deref(),
            Some(AcmeDns::Command(_) | AcmeDns::Listen(_)) | None => None,
        };
        let trusted = secret(issuer.trusted_certificate.as_deref(), "certificate")?;
        Ok(AcmeFiles {
            account_key: secret(account_key, "account key")?,
            external_key,
            trusted: trusted.map(|bytes| bytes.to_vec()),
            dns_key: secret(dns_key, "TSIG key")?,
        })
    }
}

/// Collects the tasks of a snapshot, one for each certificate.
#[derive(Default)]
pub(crate) struct AcmeBuilder {
    tasks: Vec<AcmeTask>,
}

impl AcmeBuilder {
    /// Notes what a server orders. If several order the same, the first one says how.
    ///
    /// # Errors
    /// When a file was not read.
    pub(crate) fn add(
        &mut self,
        server: &Server,
        materials: &Materials,
        shared: Option<&SharedSessions>,
    ) -> Result<(), Diagnostic> {
        let Some(conf) = &server.acme_certificate else {
            return Ok(());
        };
        let id = AcmeId::of(conf);
        if let Some(known) = self.tasks.iter_mut().find(|known| known.id == id) {
            if known.shared.is_none() {
                known.shared = shared.cloned();
            }
            return Ok(());
        }
        let resolver = server.conf.resolver.as_ref();
        self.tasks.push(AcmeTask {
            id,
            files: Arc::new(AcmeFiles::of(conf, materials)?),
            conf: Arc::clone(conf),
            resolver: resolver
                .and_then(|it| materials.resolver(it, server.conf.resolver_timeout))
                .cloned(),
            shared: shared.cloned(),
        });
        Ok(())
    }

    pub(crate) fn finish(self) -> Vec<AcmeTask> {
        self.tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_there_until_they_are_taken_back() {
        let state = AcmeState::default();
        let (one, other) = (AcmeId([1; 32]), AcmeId([2; 32]));
        let answer = |token: &str| HttpAnswer {
            token: token.to_owned(),
            authorization: format!("{token}.print"),
        };
        assert_eq!(state.http_answer(b"a"), None);
        state.set_http_answers(one, vec![answer("a"), answer("b")]);
        state.set_http_answers(other, vec![answer("c")]);
        assert_eq!(state.http_answer(b"b").as_deref(), Some("b.print"));
        assert_eq!(state.http_answer(b"c").as_deref(), Some("c.print"));
        assert_eq!(state.http_answer(b"bb"), None);
        state.set_http_answers(one, Vec::new());
        assert_eq!(state.http_answer(b"b"), None);
        assert_eq!(state.http_answer(b"c").as_deref(), Some("c.print"));
        let answer = |name: &str, value: &str| DnsAnswer {
            identifier: name.to_owned(),
            value: value.to_owned(),
        };
        state.set_dns_answers(one, vec![answer("a.test", "x"), answer("a.test", "y")]);
        state.set_dns_answers(other, vec![answer("a.test", "y"), answer("b.test", "z")]);
        let mut texts = state.dns_texts("a.test", 9);
        texts.sort();
        assert_eq!(texts, ["x", "y"]);
        assert_eq!(state.dns_texts("a.test", 1).len(), 1);
        assert_eq!(state.dns_texts("b.test", 9), ["z"]);
        assert!(state.dns_texts("c.test", 9).is_empty());
        state.retain(&[]);
        assert!(state.dns_texts("a.test", 9).is_empty());
        state.set_http_answers(other, Vec::new());
        assert!(!state.has_answers.load(Ordering::Acquire));
    }
}
