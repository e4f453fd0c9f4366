//! What a server sends as its certificates, and how they are found if the configuration alone does
//! not say which.
//!
//! ```text
//! PEM --CertificatePair::load--> CertificatePair --ServerTls::identities--> Identities
//!       parsed, checked as a pair                  contexts of one server, immutable
//! ```
//!
//! A server whose certificates are known when it is built has one [`Identities`] for its lifetime.
//! Any other asks in each handshake: see
//! [`SelectServer::identities`](crate::SelectServer::identities).
//!
//! # Sources of certificates
//!
//! A source is whatever answers that question: files whose names contain variables,
//! or pairs in memory that a control thread replaces while the server runs. It makes a
//! [`CertificatePair`] once per pair, away from the worker threads, keeps it for as long as the
//! pair is current, and hands the newest ones to [`ServerTls::identities`]. Contexts are built for
//! the first handshake of a server with these pairs and remembered with them.
//!
//! So a source in memory comes down to one slot per pair, `Mutex<Arc<CertificatePair>>`: its
//! thread loads a new pair, with the same checks as a file, and stores it there; a handshake
//! clones the `Arc`. Nothing is parsed again, and handshakes under way keep what they have. Pairs
//! with keys of different types (RSA and ECDSA) are slots of their own, whose contents are passed
//! on together. `tests/identities.rs` has such a source. In the server, it would be another way
//! to find a pair in `evaluated_certificates.rs`.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sealane_awslc::{
    Certificate, CertificateChain, Context, ContextBuilder, KeyError, KeyKind, PrivateKey, sha256,
};

use crate::accelerator::{self, Accelerator, AcceleratorChoice, KeyType, NotSuited, Report};
use crate::certificate_compression;
use crate::ciphers::{SecurityLevel, Suite};
use crate::client_certificates::ClientVerifier;
use crate::client_hello::{ClientHello, ClientOffer};
use crate::error::{SettingsError, Warning};
use crate::offload::HandshakeSettings;
use crate::quic::Version;
use crate::server::{Plan, ServerTls, join, library_error};
use crate::server_key::{HeldKey, HolderId, KeyHandle, KeyId, KeyLease, ServerKey};
use crate::sessions::identity;
use crate::sessions::opaque::OpaqueTickets;
use crate::settings::{Identity, ServerSettings};
use crate::signatures;
use crate::stapling::StapleSource;

/// Maximum age in seconds of sessions that libssl resumes (RFC 8446 section 4.6.1: seven days).
const MAX_SESSION_TIMEOUT_S: u64 = 7 * 24 * 3600;

/// Tickets that libssl sends by default; OpenSSL's default too.
const DEFAULT_TICKET_COUNT: usize = 2;

/// A certificate chain with its key: parsed, and checked to belong together.
///
/// It remembers what servers have built from it, so keep it for as long as it is current.
pub struct CertificatePair {
    loaded: LoadedIdentity,
    /// Locked for a few instructions in handshakes of servers that ask for certificates.
    built: Mutex<Vec<BuiltFor>>,
}

/// What a server has built from a pair and others.
struct BuiltFor {
    server: Weak<()>,
    others: Vec<Weak<CertificatePair>>,
    identities: Arc<Identities>,
}

impl CertificatePair {
    /// Parses and checks a pair. Takes some time for an encrypted key: not for worker threads.
    ///
    /// # Errors
    ///
    /// In nginx's words: a certificate or key that does not load, or does not match the other.
    pub fn load(identity: &Identity) -> Result<Self, SettingsError> {
        Self::load_leased(identity, None)
    }

    /// The same, where another process holds the key for as long as there is this lease.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_leased(
        identity: &Identity,
        lease: Option<KeyLease>,
    ) -> Result<Self, SettingsError> {
        Ok(Self {
            loaded: load_identity(identity, lease)?,
            built: Mutex::default(),
        })
    }

    /// No code that may panic runs under the lock.
    fn built(&self) -> MutexGuard<'_, Vec<BuiltFor>> {
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CertificatePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CertificatePair({})", self.loaded.label)
    }
}

impl BuiltFor {
    fn is_for(&self, server: &Arc<()>, others: &[Arc<CertificatePair>]) -> bool {
        let is_server = std::ptr::eq(self.server.as_ptr(), Arc::as_ptr(server));
        let same = |(old, new): (&Weak<CertificatePair>, &Arc<CertificatePair>)| {
            std::ptr::eq(old.as_ptr(), Arc::as_ptr(new))
        };
        is_server && self.others.len() == others.len() && self.others.iter().zip(others).all(same)
    }
}

/// The certificates that a client may get from a server, with the contexts to send them.
#[derive(Debug)]
pub struct Identities {
    list: Vec<BuiltIdentity>,
    kinds: Vec<KeyKind>,
    /// What sessions are bound to.
    context_id: [u8; 32],
    /// The same with version 2 of QUIC.
    quic_v2_context_id: [u8; 32],
}

impl Identities {
    pub(crate) fn list(&self) -> &[BuiltIdentity] {
        &self.list
    }

    /// The kinds of the keys.
    pub(crate) fn kinds(&self) -> &[KeyKind] {
        &self.kinds
    }

    /// What sessions with one of these certificates are bound to.
    pub(crate) fn context_id(&self) -> &[u8; 32] {
        &self.context_id
    }

    /// The same over QUIC. libssl itself tells sessions of QUIC from others, but not those of its
    /// versions from each other (RFC 9369 section 5).
    pub(crate) fn quic_context_id(&self, version: Version) -> &[u8; 32] {
        match version {
            Version::V1 => &self.context_id,
            Version::V2 => &self.quic_v2_context_id,
        }
    }

    pub(crate) fn get(&self, number: u8) -> &BuiltIdentity {
        &self.list[usize::from(number)]
    }

    /// The number of the certificate with this chain.
    pub(crate) fn position(&self, fingerprint: &Fingerprint) -> Option<u8> {
        let mut identities = self.list.iter();
        let index = identities.position(|identity| identity.fingerprint == *fingerprint)?;
        u8::try_from(index).ok()
    }

    /// Replaces the accelerator of all keys.
    #[cfg(test)]
    pub(crate) fn set_accelerator(&mut self, accelerator: &Arc<dyn Accelerator>) {
        for identity in &mut self.list {
            identity.accelerator = Arc::clone(accelerator);
        }
    }
}

/// A certificate with its contexts.
#[derive(Debug)]
pub(crate) struct BuiltIdentity {
    pub(crate) key_type: KeyType,
    /// Of the chain.
    pub(crate) fingerprint: Fingerprint,
    pub(crate) accelerator: Arc<dyn Accelerator>,
    pub(crate) staple: Option<StapleSource>,
    /// The certificate's file.
    pub(crate) label: Box<str>,
    /// The end of its validity, in seconds since 1970.
    pub(crate) ends_s: Option<i64>,
    pub(crate) algorithms: Arc<CertificateAlgorithms>,
    pub(crate) contexts: Contexts,
    /// The same with ChaCha20 first, if `PrioritizeChaCha` asks for it.
    pub(crate) chacha_first: Option<Contexts>,
}

/// The algorithms of a certificate, as the PROXY protocol names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateAlgorithms {
    /// How it is signed, by OpenSSL's short name: `RSA-SHA256`.
    pub signature: &'static str,
    /// Its key and the key's size: `RSA2048`, `EC256`; `None` for other algorithms.
    pub key: Option<Box<str>>,
}

impl CertificateAlgorithms {
    fn of(certificate: &Certificate) -> Self {
        Self {
            signature: certificate.signature_name(),
            key: certificate.key_name().map(String::into_boxed_str),
        }
    }
}

/// Contexts that differ in how many TLS 1.3 tickets they send.
#[derive(Debug)]
pub(crate) struct Contexts {
    /// For new clients: a browser will open several connections.
    pub(crate) new: Context,
    /// For clients that offer a session. As in OpenSSL, one ticket replaces the one they used.
    /// Making a ticket is a tenth of the cost of a resumed handshake.
    pub(crate) returning: Context,
}

/// SHA-256 of a certificate chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    fn of(chain: &CertificateChain) -> Result<Self, sealane_awslc::Error> {
        let mut all = Vec::new();
        for certificate in chain.certificates() {
            let der = certificate.to_der()?;
            all.extend_from_slice(&(der.len() as u64).to_be_bytes());
            all.extend_from_slice(&der);
        }
        Ok(Self(sha256(&all)))
    }
}

/// The answer of a source of certificates, or why it has none in nginx's words.
pub type IdentityResult = Result<Arc<Identities>, String>;

/// What a source of certificates says in a handshake.
pub enum IdentityAnswer {
    /// They are at hand.
    Ready(IdentityResult),
    /// They have to be read or built first. The handshake waits for as long as
    /// `ssl_handshake_timeout` allows.
    Pending(Pin<Box<dyn Future<Output = IdentityResult> + Send>>),
}

/// What a ClientHello says that a source of certificates may go by.
#[derive(Clone, Copy, Debug)]
pub struct HelloFacts<'a> {
    name: Option<&'a str>,
    offer: Option<&'a ClientOffer>,
}

impl<'a> HelloFacts<'a> {
    pub(crate) fn new(hello: Option<&ClientHello<'a>>, offer: Option<&'a ClientOffer>) -> Self {
        Self {
            name: hello.and_then(ClientHello::server_name_sent),
            offer,
        }
    }

    /// `$ssl_server_name`: as the client sent it. Empty without SNI, and if it is not a host name:
    /// it may be part of a file's name.
    pub fn server_name(&self) -> &'a str {
        self.name.unwrap_or("")
    }

    /// `$ssl_curves`: see [`Info::curves`](crate::Info::curves).
    pub fn curves(&self) -> String {
        self.offer.map_or_else(String::new, ClientOffer::curves)
    }

    /// `$ssl_sigalgs`: see [`Info::sigalgs`](crate::Info::sigalgs).
    pub fn sigalgs(&self) -> String {
        self.offer.map_or_else(String::new, ClientOffer::sigalgs)
    }

    /// `$ssl_ja4`: see [`Info::ja4`](crate::Info::ja4).
    pub fn ja4(&self) -> &'a str {
        self.offer.map_or("", |offer| &offer.ja4)
    }
}

impl ServerTls {
    /// What this server makes of these pairs, in the order of the directives: built now, or
    /// remembered from an earlier call. Building takes a few tenths of a millisecond.
    ///
    /// # Errors
    ///
    /// In nginx's words: no pairs, or a key that this server's settings do not permit.
    pub fn identities(
        &self,
        pairs: &[Arc<CertificatePair>],
    ) -> Result<Arc<Identities>, SettingsError> {
        if let Some(known) = self.known_identities(pairs) {
            return Ok(known);
        }
        let (Some((first, others)), Some(settings)) = (pairs.split_first(), self.later_settings())
        else {
            return Err(SettingsError::new("no \"ssl_certificate\" is defined"));
        };
        let loaded = pairs.iter().map(|pair| &pair.loaded);
        // They were shown when the server was built, or there is nobody to show them to.
        let identities = Arc::new(self.build_identities(settings, loaded, &mut Vec::new())?);
        let server = self.mark();
        let mut built = first.built();
        built.retain(|old| old.server.strong_count() > 0 && !old.is_for(server, others));
        built.push(BuiltFor {
            server: Arc::downgrade(server),
            others: others.iter().map(Arc::downgrade).collect(),
            identities: Arc::clone(&identities),
        });
        Ok(identities)
    }

    /// The same if nothing has to be built.
    pub fn known_identities(&self, pairs: &[Arc<CertificatePair>]) -> Option<Arc<Identities>> {
        let (first, others) = pairs.split_first()?;
        let built = first.built();
        let known = built.iter().find(|old| old.is_for(self.mark(), others))?;
        Some(Arc::clone(&known.identities))
    }

    /// Builds contexts. Of several certificates with the same kind of key the last one counts.
    pub(crate) fn build_identities<'a>(
        &self,
        settings: &ServerSettings,
        loaded: impl Iterator<Item = &'a LoadedIdentity>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Identities, SettingsError> {
        let plan = self.plan();
        let loaded = one_of_each_kind(loaded, plan.level, warnings)?;
        let certificate_names = loaded.iter().flat_map(|identity| {
            let leaf = identity.chain.leaf();
            leaf.dns_names().into_iter().chain(leaf.subject())
        });
        let context_id = identity::context_id(&identity::Parts {
            server_names: &settings.server_names,
            certificate_names: certificate_names.collect(),
            client: &settings.client_verification,
        });
        let list = loaded
            .iter()
            .map(|identity| self.build_identity(settings, identity, &context_id, warnings));
        Ok(Identities {
            list: list.collect::<Result<_, _>>()?,
            kinds: loaded.iter().map(|identity| identity.key.kind()).collect(),
            context_id,
            quic_v2_context_id: sha256(&[b"QUIC version 2", &context_id[..]].concat()),
        })
    }

    fn build_identity(
        &self,
        settings: &ServerSettings,
        identity: &LoadedIdentity,
        context_id: &[u8; 32],
        warnings: &mut Vec<Warning>,
    ) -> Result<BuiltIdentity, SettingsError> {
        let plan = self.plan();
        let build = |suites: &[&'static Suite]| -> Result<Contexts, SettingsError> {
            let tickets = plan.policy.ticket_count.unwrap_or(DEFAULT_TICKET_COUNT);
            let context = |tickets| {
                let mut builder = self.context(settings, context_id, suites, tickets)?;
                builder.set_chain(&identity.chain).map_err(library_error)?;
                builder.build().map_err(library_error)
            };
            Ok(Contexts {
                new: context(tickets)?,
                returning: context(tickets.min(1))?,
            })
        };
        Ok(BuiltIdentity {
            key_type: identity.key.key_type(),
            fingerprint: Fingerprint::of(&identity.chain).map_err(library_error)?,
            accelerator: accelerator_of(&settings.handshakes, identity, warnings)?,
            staple: match &settings.stapling {
                Some(stapling) => StapleSource::build(stapling, identity, warnings)?,
                None => None,
            },
            label: identity.label.as_str().into(),
            ends_s: identity.chain.leaf().not_after_unix_s(),
            algorithms: Arc::new(CertificateAlgorithms::of(identity.chain.leaf())),
            contexts: build(&plan.rules.suites)?,
            chacha_first: plan
                .chacha_first_order()
                .map(|order| build(&order))
                .transpose()?,
        })
    }

    /// A context without a certificate, for connections whose handshake is over.
    pub(crate) fn context_without_certificate(
        &self,
        settings: &ServerSettings,
    ) -> Result<Context, SettingsError> {
        let builder = self.context(settings, &[0; 32], &self.plan().rules.suites, 0)?;
        builder.build().map_err(library_error)
    }

    /// A context to which a certificate is to be added.
    fn context(
        &self,
        settings: &ServerSettings,
        context_id: &[u8; 32],
        suites: &[&'static Suite],
        ticket_count: usize,
    ) -> Result<ContextBuilder, SettingsError> {
        let (plan, resumption) = (self.plan(), self.resumption());
        let rules = &plan.rules;
        let mut builder = match self.client_verifier() {
            None => ContextBuilder::new().map_err(library_error)?,
            Some(clients) => asking_context(clients).map_err(library_error)?,
        };
        negotiate(&mut builder, plan, suites).map_err(library_error)?;
        builder.set_prefer_server_ciphers(rules.prefer_server);
        // Opaque tickets are for TLS 1.3 only; connections below that do without.
        builder.set_tickets_enabled(resumption.tickets || resumption.kept.is_some());
        builder
            .set_ticket_count(ticket_count)
            .map_err(library_error)?;
        match &resumption.kept {
            Some(kept) if !resumption.tickets => {
                builder.set_ticket_cipher(Arc::new(OpaqueTickets(Arc::clone(kept))));
            }
            _ => builder.set_ticket_cipher(Arc::clone(&resumption.ring) as _),
        }
        if let Some(kept) = &resumption.kept {
            builder.set_session_store(Arc::clone(kept) as _);
        }
        let timeout_s = settings.session_timeout_s.clamp(1, MAX_SESSION_TIMEOUT_S);
        builder.set_session_timeout(u32::try_from(timeout_s).unwrap_or(u32::MAX));
        builder
            .set_session_id_context(context_id)
            .map_err(library_error)?;
        if !settings.alpn.is_empty() {
            let names: Vec<&[u8]> = settings.alpn.iter().map(|name| &**name).collect();
            builder.set_alpn_select(&names);
        }
        if !settings.quic_protocols.is_empty() {
            let names: Vec<&[u8]> = settings.quic_protocols.iter().map(|name| &**name).collect();
            builder.set_quic_alpn_select(&names);
        }
        if let Some((keys, retry)) = &settings.ech {
            keys.set(&mut builder, retry.as_deref())
                .map_err(library_error)?;
        }
        // As in nginx. The worker would compress what is sent a few times at most.
        if settings.certificate_compression && !settings.evaluates_certificates {
            let compressor = Arc::clone(&plan.compressor) as _;
            builder
                .set_certificate_compression(&certificate_compression::ALGORITHMS, compressor)
                .map_err(library_error)?;
        }
        builder.watch_messages();
        Ok(builder)
    }
}

/// What may be negotiated.
fn negotiate(
    builder: &mut ContextBuilder,
    plan: &Plan,
    suites: &[&'static Suite],
) -> Result<(), sealane_awslc::Error> {
    let rules = &plan.rules;
    builder.set_protocol_range(rules.min, rules.max)?;
    if !suites.is_empty() {
        builder.set_cipher_list(&join(suites.iter().map(|suite| suite.name)))?;
    }
    builder.set_ciphersuites(&join(rules.tls13_suites.iter().map(|(_, name)| *name)))?;
    builder.set_groups(plan.groups.groups())?;
    match &plan.policy.signature_algorithms {
        Some(algorithms) => builder.set_signature_algorithms(algorithms),
        None if !rules.signs_with_sha1 => builder.set_signing_schemes(signatures::OURS),
        None => Ok(()),
    }
}

/// A context that asks clients for certificates.
fn asking_context(clients: &ClientVerifier) -> Result<ContextBuilder, sealane_awslc::Error> {
    let mut builder = ContextBuilder::with_buffers()?;
    builder.set_accepted_schemes(signatures::OF_CLIENTS)?;
    builder.ask_for_certificate(clients.issuers())?;
    Ok(builder)
}

/// A certificate chain and key that belong together.
pub(crate) struct LoadedIdentity {
    pub(crate) chain: CertificateChain,
    pub(crate) key: ServerKey,
    pub(crate) label: String,
}

/// Leaves out what a later certificate replaces, and checks the rest.
fn one_of_each_kind<'a>(
    all: impl Iterator<Item = &'a LoadedIdentity>,
    level: Option<SecurityLevel>,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<&'a LoadedIdentity>, SettingsError> {
    let mut loaded: Vec<&LoadedIdentity> = Vec::new();
    for new in all {
        check_level(new, level)?;
        match loaded
            .iter_mut()
            .find(|old| old.key.kind() == new.key.kind())
        {
            Some(old) => {
                warnings.push(Warning::new(format!(
                    "certificate \"{}\" is not used: \"{}\" has the same kind of key",
                    old.label, new.label
                )));
                *old = new;
            }
            None => loaded.push(new),
        }
    }
    Ok(loaded)
}

fn check_level(
    identity: &LoadedIdentity,
    level: Option<SecurityLevel>,
) -> Result<(), SettingsError> {
    let key = &identity.key;
    match level.is_some_and(|level| !level.permits_key(key.kind(), key.bits())) {
        true => Err(SettingsError::new(format!(
            "SSL_CTX_use_certificate(\"{}\") failed (SSL: error:0A00018F:SSL routines::ee key too small)",
            identity.label
        ))),
        false => Ok(()),
    }
}

pub(crate) fn load_identity(
    identity: &Identity,
    lease: Option<KeyLease>,
) -> Result<LoadedIdentity, SettingsError> {
    let chain = CertificateChain::from_pem(&identity.chain_pem).map_err(|error| {
        SettingsError::new(format!(
            "cannot load certificate \"{}\": {error}",
            identity.chain_label
        ))
    })?;
    let key = match KeyHandle::from_bytes(identity.key_pem.expose()) {
        Some(handle) => held_key(identity, &chain, KeyHandle { lease, ..handle })?,
        None => ServerKey::Here(load_key(identity, &chain)?),
    };
    if key.kind() == KeyKind::Other {
        return Err(SettingsError::new(format!(
            "cannot load certificate key \"{}\": only RSA, P-256, P-384, P-521 and Ed25519 keys can be used",
            identity.key_label
        )));
    }
    Ok(LoadedIdentity {
        chain,
        key,
        label: identity.chain_label.clone(),
    })
}

/// Why a key does not load, and what may be done about it.
pub fn key_error_text(error: &KeyError) -> String {
    let hint = match error {
        KeyError::PasswordNeeded(_) => {
            " (the key is encrypted and no \"ssl_password_file\" is set)"
        }
        KeyError::WrongPassword(_) => " (no password in \"ssl_password_file\" decrypts it)",
        KeyError::Unreadable(_) => "",
    };
    format!("{error}{hint}")
}

/// The key in this process.
fn load_key(identity: &Identity, chain: &CertificateChain) -> Result<PrivateKey, SettingsError> {
    let key =
        PrivateKey::from_pem(identity.key_pem.expose(), &identity.passwords).map_err(|error| {
            SettingsError::new(format!(
                "cannot load certificate key \"{}\": {}",
                identity.key_label,
                key_error_text(&error)
            ))
        })?;
    chain.leaf().check_key(&key).map_err(|error| {
        SettingsError::new(format!(
            "SSL_CTX_use_PrivateKey(\"{}\") failed (SSL: {})",
            identity.key_label,
            error.queue()
        ))
    })?;
    Ok(key)
}

/// The key that another process holds.
fn held_key(
    identity: &Identity,
    chain: &CertificateChain,
    handle: KeyHandle,
) -> Result<ServerKey, SettingsError> {
    let leaf = chain.leaf();
    let id = KeyId::of_certificate(leaf).map_err(library_error)?;
    match leaf.key_kind() {
        Some((_, bits)) if id == handle.id => Ok(ServerKey::Held { handle, bits }),
        // The library's words for a key that is here.
        leaf => {
            let why = match leaf.is_some_and(|(kind, _)| kind == handle.kind) {
                true => "0b000074:X.509 certificate routines:OPENSSL_internal:KEY_VALUES_MISMATCH",
                false => "0b000073:X.509 certificate routines:OPENSSL_internal:KEY_TYPE_MISMATCH",
            };
            Err(SettingsError::new(format!(
                "SSL_CTX_use_PrivateKey(\"{}\") failed (SSL: error:{why})",
                identity.key_label
            )))
        }
    }
}

/// For tools and tests without an operator to tell.
fn silent() -> Report {
    Arc::new(|_| {})
}

/// The accelerator for the identity's key.
pub(crate) fn accelerator_of(
    settings: &HandshakeSettings,
    identity: &LoadedIdentity,
    warnings: &mut Vec<Warning>,
) -> Result<Arc<dyn Accelerator>, SettingsError> {
    let key_type = identity.key.key_type();
    let build = |choice| match (&settings.state, &identity.key) {
        (Some(state), ServerKey::Here(key)) => state.accelerator(choice, key),
        (None, ServerKey::Here(key)) => accelerator::build(choice, key, &Arc::default(), &silent()),
        (state, ServerKey::Held { handle, bits, .. }) => {
            let is_device = handle.route.holder != HolderId::PROCESSOR;
            if choice == AcceleratorChoice::Batch && !is_device {
                accelerator::suits_batch(key_type, *bits)?;
            }
            Ok(Arc::new(HeldKey::new(handle, state.as_deref())) as Arc<dyn Accelerator>)
        }
    };
    let error = match build(settings.accelerator) {
        Ok(accelerator) => return Ok(accelerator),
        Err(error) => error,
    };
    let label = &identity.label;
    // A server with certificates of two kinds sets `batch` for the sake of one of them.
    if let NotSuited::KeyType(_) = error
        && let Ok(accelerator) = build(AcceleratorChoice::Cpu)
    {
        warnings.push(Warning::new(format!(
            "\"ssl_accelerator batch\" is not for certificate \"{label}\", \"cpu\" is used: {error}"
        )));
        return Ok(accelerator);
    }
    Err(SettingsError::new(format!(
        "\"ssl_accelerator batch\" cannot be used with certificate \"{label}\": {error}; use \"auto\" or \"cpu\""
    )))
}
