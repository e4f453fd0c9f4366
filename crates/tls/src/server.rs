//! [`ServerTls`]: settings checked once, built into immutable contexts.

use std::sync::Arc;

use sealane_awslc::{
    CertificateChain, Context, ContextBuilder, KeyError, KeyKind, PrivateKey, ProtocolVersion,
    sha256, unix_time_s,
};

use crate::accelerator::{self, Accelerator, AcceleratorChoice, KeyType, NotSuited, Report};
use crate::certificate_compression::{self, KeptCertificates};
use crate::choice::ChoiceRules;
use crate::ciphers::{SecurityLevel, Suite};
use crate::client_certificates::ClientVerifier;
use crate::client_hello::ClientHello;
use crate::conf_command::Policy;
use crate::error::{SettingsError, Warning};
use crate::groups::GroupList;
use crate::ktls::{KtlsMode, KtlsPolicy};
use crate::offload::pool::Pool;
use crate::offload::{HandshakeSettings, Load, policy};
use crate::parameters::Parameters;
use crate::record_size::{DynamicRecords, MAX_RECORD_BYTES};
use crate::sessions::cache::SessionCache;
use crate::sessions::identity;
use crate::sessions::lookup::Resumption;
use crate::sessions::opaque::{KeptSessions, OpaqueTickets};
use crate::sessions::ring::{RingSettings, TicketRing};
use crate::settings::{Identity, ServerSettings, SessionCacheSetting};
use crate::signatures;
use crate::stapling::{Staple, StapleSource, StapledCertificate};

mod offer;

/// Bytes of a `builtin` cache per session: most sessions have 150 to 250.
const BUILTIN_SESSION_BYTES: usize = 384;
/// Maximum age in seconds of sessions that libssl resumes (RFC 8446 section 4.6.1: seven days).
const MAX_SESSION_TIMEOUT_S: u64 = 7 * 24 * 3600;

/// One virtual server's TLS: immutable, shared by all workers.
#[derive(Debug)]
pub struct ServerTls {
    identities: Vec<BuiltIdentity>,
    kinds: Vec<KeyKind>,
    rules: ChoiceRules,
    rejects: bool,
    record_bytes: usize,
    dynamic_records: Option<DynamicRecords>,
    remember_client_offer: bool,
    resumption: Resumption,
    /// Present when clients are asked for certificates.
    clients: Option<Arc<ClientVerifier>>,
    ktls: KtlsPolicy,
    handshakes: HandshakeSettings,
}

/// A certificate with its contexts.
#[derive(Debug)]
struct BuiltIdentity {
    key_type: KeyType,
    /// Of the chain.
    fingerprint: Fingerprint,
    accelerator: Arc<dyn Accelerator>,
    staple: Option<StapleSource>,
    /// The certificate's file.
    label: Box<str>,
    /// The end of its validity, in seconds since 1970.
    ends_s: Option<i64>,
    contexts: Contexts,
    /// The same with ChaCha20 first, if `PrioritizeChaCha` asks for it.
    chacha_first: Option<Contexts>,
}

/// One of a server's certificates, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateReport<'a> {
    /// Its file.
    pub label: &'a str,
    /// The type of its key.
    pub key: KeyType,
    /// The end of its validity, in seconds since 1970.
    pub ends_s: Option<i64>,
    /// Where staples come from: a responder's host and port, or `ssl_stapling_file`; `None`
    /// without staples.
    pub staples: Option<&'a str>,
}

/// The choice made for a client.
pub(crate) struct Chosen<'a> {
    pub(crate) context: &'a Context,
    /// The suite to insist on in TLS 1.3.
    pub(crate) tls13_suite: Option<&'static str>,
    /// The index of the chosen identity, for [`ServerTls::accelerator`].
    pub(crate) identity: u8,
    /// The staple to send, if the client asks for one and there is one.
    pub(crate) staple: Option<Arc<Staple>>,
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

/// Contexts that differ in how many TLS 1.3 tickets they send.
#[derive(Debug)]
struct Contexts {
    /// For new clients: a browser will open several connections.
    new: Context,
    /// For clients that offer a session. As in OpenSSL, one ticket replaces the one they used.
    /// Making a ticket is a tenth of the cost of a resumed handshake.
    returning: Context,
}

/// Tickets that libssl sends by default; OpenSSL's default too.
const DEFAULT_TICKET_COUNT: usize = 2;

impl ServerTls {
    /// Checks and builds `settings`. The warnings name settings that were accepted without their
    /// full effect.
    ///
    /// # Errors
    ///
    /// In nginx's words: a certificate or key that does not load or match, a
    /// cipher string that selects nothing, an unknown command, group or protocol.
    pub fn build(settings: &ServerSettings) -> Result<(Self, Vec<Warning>), SettingsError> {
        let mut warnings = Vec::new();
        let plan = Plan::new(settings, &mut warnings)?;
        let loaded = load_identities(settings, &plan, &mut warnings)?;
        let resumption = resumption(settings, &plan, &loaded, &mut warnings)?;
        let clients = ClientVerifier::build(
            &settings.client_verification,
            settings.client_status.as_ref(),
        )?;
        let mut identities = Vec::with_capacity(loaded.len());
        for identity in &loaded {
            let build = |suites: &[&'static Suite]| -> Result<Contexts, SettingsError> {
                let tickets = plan.policy.ticket_count.unwrap_or(DEFAULT_TICKET_COUNT);
                let context = |tickets| {
                    let rest = (&resumption, clients.as_ref());
                    build_context(settings, &plan, rest, identity, suites, tickets)
                };
                Ok(Contexts {
                    new: context(tickets)?,
                    returning: context(tickets.min(1))?,
                })
            };
            let suites = &plan.rules.suites;
            identities.push(BuiltIdentity {
                key_type: KeyType::of(&identity.key),
                fingerprint: Fingerprint::of(&identity.chain).map_err(library_error)?,
                accelerator: accelerator_of(&settings.handshakes, identity, &mut warnings)?,
                staple: match &settings.stapling {
                    Some(stapling) => StapleSource::build(stapling, identity, &mut warnings)?,
                    None => None,
                },
                label: identity.label.as_str().into(),
                ends_s: identity.chain.leaf().not_after_unix_s(),
                contexts: build(suites)?,
                chacha_first: plan
                    .chacha_first_order()
                    .map(|order| build(&order))
                    .transpose()?,
            });
        }
        let server = Self {
            kinds: loaded.iter().map(|identity| identity.key.kind()).collect(),
            identities,
            rules: plan.rules,
            rejects: settings.reject_handshake,
            record_bytes: settings.buffer_bytes.clamp(1, MAX_RECORD_BYTES),
            dynamic_records: settings.dynamic_records,
            remember_client_offer: settings.remember_client_offer,
            resumption,
            clients: clients.map(Arc::new),
            ktls: KtlsPolicy {
                mode: settings.ktls.mode(plan.policy.ktls),
                settings: settings.ktls.clone(),
            },
            handshakes: settings.handshakes.clone(),
        };
        Ok((server, warnings))
    }

    /// Whether the kernel may seal records: `ssl_ktls`, or the setting of `ssl_conf_command
    /// Options`.
    pub fn ktls_mode(&self) -> KtlsMode {
        self.ktls.mode
    }

    /// Where this server counts the outcomes of sessions and early data.
    pub fn session_stats(&self) -> &crate::SessionStats {
        &self.resumption.stats
    }

    /// The verifier of client certificates; `None` if none are asked for.
    pub fn client_verifier(&self) -> Option<&Arc<ClientVerifier>> {
        self.clients.as_ref()
    }

    /// The accelerators for the private keys: (type of key, name of the accelerator).
    pub fn accelerators(&self) -> Vec<(KeyType, &'static str)> {
        let identities = self.identities.iter();
        identities
            .map(|identity| (identity.key_type, identity.accelerator.name()))
            .collect()
    }

    /// The certificates in use.
    pub fn certificates(&self) -> impl Iterator<Item = CertificateReport<'_>> {
        self.identities.iter().map(|identity| CertificateReport {
            label: &identity.label,
            key: identity.key_type,
            ends_s: identity.ends_s,
            staples: identity.staple.as_ref().map(|source| match source.asked() {
                Some(certificate) => certificate.responder().authority.as_str(),
                None => "ssl_stapling_file",
            }),
        })
    }

    /// The certificates that responders are asked about (`ssl_stapling`).
    pub fn stapled_certificates(&self) -> impl Iterator<Item = &Arc<StapledCertificate>> {
        let sources = self.identities.iter().filter_map(|it| it.staple.as_ref());
        sources.filter_map(StapleSource::asked)
    }

    /// Whether this is one of the chains that this server sends.
    pub fn has_certificate(&self, fingerprint: &Fingerprint) -> bool {
        self.identity_of(fingerprint).is_some()
    }

    /// The chain of the identity that was [`choose`](Self::choose)n.
    pub(crate) fn fingerprint(&self, identity: u8) -> Option<Fingerprint> {
        let identity = self.identities.get(usize::from(identity))?;
        Some(identity.fingerprint)
    }

    /// For a connection made elsewhere with this chain: its identity or, if the chain has changed,
    /// the first one. `None` without certificates.
    pub(crate) fn adopt(&self, fingerprint: &Fingerprint) -> Option<(u8, &Context)> {
        let index = self.identity_of(fingerprint).unwrap_or(0);
        let identity = self.identities.get(index)?;
        Some((u8::try_from(index).ok()?, &identity.contexts.new))
    }

    fn identity_of(&self, fingerprint: &Fingerprint) -> Option<usize> {
        let mut identities = self.identities.iter();
        identities.position(|identity| identity.fingerprint == *fingerprint)
    }

    /// The accelerator of the identity that was [`choose`](Self::choose)n.
    pub(crate) fn accelerator(&self, identity: u8) -> &Arc<dyn Accelerator> {
        &self.identities[usize::from(identity)].accelerator
    }

    /// Replaces the accelerator of all keys.
    #[cfg(test)]
    pub(crate) fn set_accelerator(&mut self, accelerator: &Arc<dyn Accelerator>) {
        for identity in &mut self.identities {
            identity.accelerator = Arc::clone(accelerator);
        }
    }

    /// The pool, if there is one.
    pub(crate) fn pool(&self) -> Option<&Pool> {
        self.handshakes.state.as_ref()?.pool()
    }

    /// Whether flights with an operation of this identity's key leave the worker.
    pub(crate) fn flights_leave(&self, identity: u8, load: Load) -> bool {
        let key = self.identities[usize::from(identity)].key_type;
        self.pool().is_some() && policy::leaves(self.handshakes.mode, key, load)
    }

    /// Whether the first flight for this client has a private-key operation, as far as the hello
    /// shows. Whether an offered session is resumed is known only later.
    pub(crate) fn signs_first_flight(&self, hello: &ClientHello<'_>) -> bool {
        let is_returning = hello.offers_session()
            || hello
                .session_ticket()
                .is_some_and(|ticket| !ticket.is_empty())
            || (self.rules.version(hello) < Some(ProtocolVersion::Tls13)
                && !hello.session_id().is_empty());
        !is_returning && self.rules.signs_first_flight(&self.kinds, hello)
    }

    pub(crate) fn ktls_policy(&self) -> &KtlsPolicy {
        &self.ktls
    }

    /// The suites of TLS 1.2 and below that are offered, in the server's order,
    /// by OpenSSL's names.
    #[cfg(test)]
    pub(crate) fn cipher_names(&self) -> Vec<&'static str> {
        self.rules.suites.iter().map(|suite| suite.name).collect()
    }

    pub(crate) fn rules(&self) -> &ChoiceRules {
        &self.rules
    }

    /// The kinds of the certificates' keys.
    pub(crate) fn kinds(&self) -> &[KeyKind] {
        &self.kinds
    }

    pub(crate) fn rejects(&self) -> bool {
        self.rejects || self.identities.is_empty()
    }

    pub(crate) fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    pub(crate) fn dynamic_records(&self) -> Option<&DynamicRecords> {
        self.dynamic_records.as_ref()
    }

    pub(crate) fn remembers_client_offer(&self) -> bool {
        self.remember_client_offer
    }

    pub(crate) fn resumption(&self) -> &Resumption {
        &self.resumption
    }

    /// The context for a client and what goes with it. Without a readable ClientHello libssl gets
    /// the first certificate.
    pub(crate) fn choose(&self, hello: Option<&ClientHello<'_>>) -> Option<Chosen<'_>> {
        let Some(hello) = hello else {
            return self.identities.first().map(|identity| Chosen {
                context: &identity.contexts.new,
                tls13_suite: None,
                identity: 0,
                staple: None,
            });
        };
        let index = self.rules.identity(&self.kinds, hello);
        let identity = self.identities.get(index)?;
        let contexts = match &identity.chacha_first {
            Some(contexts) if self.rules.chacha_first(hello) => contexts,
            _ => &identity.contexts,
        };
        let context = if hello.offers_session() {
            &contexts.returning
        } else {
            &contexts.new
        };
        Some(Chosen {
            context,
            tls13_suite: self.rules.tls13_suite(hello),
            // One for each kind of key.
            identity: u8::try_from(index).ok()?,
            staple: match &identity.staple {
                Some(source) if hello.asks_for_staple() => source.staple(),
                _ => None,
            },
        })
    }
}

/// Settings after evaluation, before certificates.
struct Plan {
    policy: Policy,
    rules: ChoiceRules,
    groups: GroupList,
    level: Option<SecurityLevel>,
    tickets: bool,
    /// `ssl_certificate_compression`: of all contexts.
    compressor: Arc<KeptCertificates>,
}

impl Plan {
    fn new(settings: &ServerSettings, warnings: &mut Vec<Warning>) -> Result<Self, SettingsError> {
        let policy = Policy::new(settings, warnings)?;
        let parameters = Parameters::new(&policy, warnings)?;
        let groups = parameters.groups;
        let rules = ChoiceRules {
            min: parameters.min,
            max: parameters.max,
            suites: parameters.suites,
            tls13_suites: parameters.tls13_suites,
            groups: groups.groups().iter().map(|group| group.id).collect(),
            prefer_server: policy.prefer_server_ciphers,
            prioritize_chacha: policy.prioritize_chacha,
            // OpenSSL's security levels above 0 do not permit it. If no level is set, enabling
            // protocols that sign with nothing else shows what the operator wants.
            signs_with_sha1: policy.signature_algorithms.is_some()
                || match parameters.level {
                    Some(level) => level.number() == 0,
                    None => parameters.min < ProtocolVersion::Tls12,
                },
        };
        Ok(Self {
            policy,
            rules,
            groups,
            level: parameters.level,
            tickets: parameters.tickets,
            compressor: Arc::default(),
        })
    }

    /// The suites with ChaCha20 in front, if that is asked for and makes a difference.
    fn chacha_first_order(&self) -> Option<Vec<&'static Suite>> {
        if !(self.rules.prefer_server && self.rules.prioritize_chacha) {
            return None;
        }
        let (mut order, others): (Vec<_>, Vec<_>) = self
            .rules
            .suites
            .iter()
            .copied()
            .partition(|suite| suite.is_chacha20());
        if order.is_empty() {
            return None;
        }
        order.extend(others);
        Some(order)
    }
}

/// A certificate chain and key that belong together.
pub(crate) struct LoadedIdentity {
    pub(crate) chain: CertificateChain,
    pub(crate) key: PrivateKey,
    pub(crate) label: String,
}

fn load_identities(
    settings: &ServerSettings,
    plan: &Plan,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<LoadedIdentity>, SettingsError> {
    let mut loaded: Vec<LoadedIdentity> = Vec::new();
    for identity in &settings.identities {
        let new = load_identity(identity, plan.level)?;
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
    if loaded.is_empty() && !settings.reject_handshake {
        return Err(SettingsError::new("no \"ssl_certificate\" is defined"));
    }
    Ok(loaded)
}

pub(crate) fn load_identity(
    identity: &Identity,
    level: Option<SecurityLevel>,
) -> Result<LoadedIdentity, SettingsError> {
    let chain = CertificateChain::from_pem(&identity.chain_pem).map_err(|error| {
        SettingsError::new(format!(
            "cannot load certificate \"{}\": {error}",
            identity.chain_label
        ))
    })?;
    let key =
        PrivateKey::from_pem(identity.key_pem.expose(), &identity.passwords).map_err(|error| {
            let hint = match &error {
                KeyError::PasswordNeeded(_) => {
                    " (the key is encrypted and no \"ssl_password_file\" is set)"
                }
                KeyError::WrongPassword(_) => " (no password in \"ssl_password_file\" decrypts it)",
                KeyError::Unreadable(_) => "",
            };
            SettingsError::new(format!(
                "cannot load certificate key \"{}\": {error}{hint}",
                identity.key_label
            ))
        })?;
    chain.leaf().check_key(&key).map_err(|error| {
        SettingsError::new(format!(
            "SSL_CTX_use_PrivateKey(\"{}\") failed (SSL: {})",
            identity.key_label,
            error.queue()
        ))
    })?;
    if key.kind() == KeyKind::Other {
        return Err(SettingsError::new(format!(
            "cannot load certificate key \"{}\": only RSA, P-256, P-384, P-521 and Ed25519 keys can be used",
            identity.key_label
        )));
    }
    if level.is_some_and(|level| !level.permits_key(key.kind(), key.bits())) {
        return Err(SettingsError::new(format!(
            "SSL_CTX_use_certificate(\"{}\") failed (SSL: error:0A00018F:SSL routines::ee key too small)",
            identity.chain_label
        )));
    }
    Ok(LoadedIdentity {
        chain,
        key,
        label: identity.chain_label.clone(),
    })
}

/// For tools and tests without an operator to tell.
fn silent() -> Report {
    Arc::new(|_| {})
}

/// The accelerator for the identity's key.
fn accelerator_of(
    settings: &HandshakeSettings,
    identity: &LoadedIdentity,
    warnings: &mut Vec<Warning>,
) -> Result<Arc<dyn Accelerator>, SettingsError> {
    let build = |choice| match &settings.state {
        Some(state) => state.accelerator(choice, &identity.key),
        None => accelerator::build(choice, &identity.key, &Arc::default(), &silent()),
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

/// How sessions are resumed: keys, cache, store, register.
fn resumption(
    settings: &ServerSettings,
    plan: &Plan,
    loaded: &[LoadedIdentity],
    warnings: &mut Vec<Warning>,
) -> Result<Resumption, SettingsError> {
    let ring = match &settings.ticket_ring {
        _ if !settings.ticket_keys.is_empty() => {
            Arc::new(TicketRing::from_files(&settings.ticket_keys)?)
        }
        Some(ring) => Arc::clone(ring),
        None => {
            let lasting = RingSettings {
                rotation_s: u64::MAX,
                lifetime_s: settings.session_timeout_s,
                overlap_s: 0,
            };
            Arc::new(TicketRing::rotating(lasting, unix_time_s()).map_err(library_error)?)
        }
    };
    let cache = match &settings.session_cache {
        SessionCacheSetting::Off | SessionCacheSetting::None => None,
        SessionCacheSetting::Builtin { sessions } => Some(Arc::new(SessionCache::new(
            sessions.saturating_mul(BUILTIN_SESSION_BYTES),
        ))),
        SessionCacheSetting::Shared(cache) => Some(Arc::clone(cache)),
    };
    let shared = settings.shared_sessions.clone();
    let kept = cache.map(|cache| {
        Arc::new(KeptSessions {
            cache,
            shared: shared.clone(),
        })
    });
    let early = settings.early_data.clone();
    if early.is_some() && shared.is_none() && !settings.ticket_keys.is_empty() {
        warnings.push(Warning::new(
            "\"ssl_early_data\" with \"ssl_session_ticket_key\" and without \"ssl_session_store\": another server with the same key file may accept the same early data again",
        ));
    }
    let certificate_names = loaded.iter().flat_map(|identity| {
        let leaf = identity.chain.leaf();
        leaf.dns_names().into_iter().chain(leaf.subject())
    });
    let context_id = identity::context_id(&identity::Parts {
        server_names: &settings.server_names,
        certificate_names: certificate_names.collect(),
        client: &settings.client_verification,
    });
    Ok(Resumption {
        tickets: plan.tickets,
        ring,
        kept,
        shared,
        early,
        stats: settings.session_stats.clone().unwrap_or_default(),
        context_id,
    })
}

fn build_context(
    settings: &ServerSettings,
    plan: &Plan,
    (resumption, clients): (&Resumption, Option<&ClientVerifier>),
    identity: &LoadedIdentity,
    suites: &[&'static Suite],
    ticket_count: usize,
) -> Result<Context, SettingsError> {
    let rules = &plan.rules;
    let mut builder = match clients {
        None => ContextBuilder::new().map_err(library_error)?,
        Some(clients) => asking_context(clients).map_err(library_error)?,
    };
    builder
        .set_protocol_range(rules.min, rules.max)
        .map_err(library_error)?;
    if !suites.is_empty() {
        builder
            .set_cipher_list(&join(suites.iter().map(|suite| suite.name)))
            .map_err(library_error)?;
    }
    builder
        .set_ciphersuites(&join(rules.tls13_suites.iter().map(|(_, name)| *name)))
        .map_err(library_error)?;
    builder
        .set_groups(plan.groups.groups())
        .map_err(library_error)?;
    if let Some(algorithms) = &plan.policy.signature_algorithms {
        builder
            .set_signature_algorithms(algorithms)
            .map_err(library_error)?;
    } else if !rules.signs_with_sha1 {
        builder
            .set_signing_schemes(signatures::OURS)
            .map_err(library_error)?;
    }
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
        .set_session_id_context(&resumption.context_id)
        .map_err(library_error)?;
    if !settings.alpn.is_empty() {
        builder.set_alpn_select(&settings.alpn);
    }
    if let Some((keys, retry)) = &settings.ech {
        keys.set(&mut builder, retry.as_deref())
            .map_err(library_error)?;
    }
    if settings.certificate_compression {
        let compressor = Arc::clone(&plan.compressor) as _;
        builder
            .set_certificate_compression(&certificate_compression::ALGORITHMS, compressor)
            .map_err(library_error)?;
    }
    builder.watch_messages();
    builder.set_chain(&identity.chain).map_err(library_error)?;
    builder.build().map_err(library_error)
}

/// A context that asks clients for certificates.
fn asking_context(clients: &ClientVerifier) -> Result<ContextBuilder, sealane_awslc::Error> {
    let mut builder = ContextBuilder::with_buffers()?;
    builder.set_accepted_schemes(signatures::OF_CLIENTS)?;
    builder.ask_for_certificate(clients.issuers())?;
    Ok(builder)
}

pub(crate) fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(":")
}

fn library_error(error: sealane_awslc::Error) -> SettingsError {
    SettingsError::new(error.to_string())
}
