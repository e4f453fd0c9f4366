//! [`ServerTls`]: settings checked once, built into immutable contexts.

use std::sync::Arc;

use sealane_awslc::{Context, KeyKind, ProtocolVersion, unix_time_s};

use crate::accelerator::{Accelerator, KeyType};
use crate::certificate_compression::KeptCertificates;
use crate::choice::ChoiceRules;
use crate::ciphers::{SecurityLevel, Suite};
use crate::client_certificates::ClientVerifier;
use crate::client_hello::ClientHello;
use crate::conf_command::Policy;
use crate::error::{SettingsError, Warning};
use crate::groups::GroupList;
use crate::identities::{
    BuiltIdentity, CertificateAlgorithms, Fingerprint, Identities, load_identity,
};
use crate::ktls::{KtlsMode, KtlsPolicy};
use crate::offload::policy::{self, Cost};
use crate::offload::pool::Pool;
use crate::offload::{HandshakeSettings, Load};
use crate::parameters::Parameters;
use crate::record_size::{DynamicRecords, MAX_RECORD_BYTES};
use crate::sessions::cache::SessionCache;
use crate::sessions::lookup::Resumption;
use crate::sessions::opaque::KeptSessions;
use crate::sessions::ring::{RingSettings, TicketRing};
use crate::settings::{ServerSettings, SessionCacheSetting};
use crate::stapling::{Staple, StapleSource, StapledCertificate};

mod offer;

/// Bytes of a `builtin` cache per session: most sessions have 150 to 250.
const BUILTIN_SESSION_BYTES: usize = 384;

/// One virtual server's TLS: immutable, shared by all workers.
#[derive(Debug)]
pub struct ServerTls {
    /// Tells it from others: [`Identities`] are built for it.
    mark: Arc<()>,
    plan: Plan,
    certificates: Certificates,
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

/// The certificates of a server.
#[derive(Debug)]
enum Certificates {
    /// There are none, and all handshakes are refused.
    None,
    /// The same for all clients.
    Fixed(Arc<Identities>),
    /// Each handshake asks for them.
    Evaluated(Box<Evaluated>),
}

/// What is needed once certificates are known.
#[derive(Debug)]
struct Evaluated {
    settings: ServerSettings,
    /// For connections that were made elsewhere.
    adopting: Context,
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
    /// The number of the chosen identity.
    pub(crate) identity: u8,
    /// The staple to send, if the client asks for one and there is one.
    pub(crate) staple: Option<Arc<Staple>>,
}

/// What a connection that was made elsewhere goes on with.
pub(crate) struct Adopted<'a> {
    pub(crate) context: &'a Context,
    pub(crate) certificate: SentCertificate,
}

/// The certificate that a client was sent, or gets.
#[derive(Debug, Default)]
pub(crate) enum SentCertificate {
    /// None yet.
    #[default]
    Undecided,
    /// The one with this number.
    Chosen(Arc<Identities>, u8),
    /// By another process, from certificates that are not known here.
    Elsewhere(Box<Fingerprint>),
}

impl SentCertificate {
    /// The chain.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Self::Undecided => None,
            Self::Chosen(identities, number) => Some(identities.get(*number).fingerprint),
            Self::Elsewhere(fingerprint) => Some(**fingerprint),
        }
    }

    /// What computes with its key.
    pub(crate) fn accelerator(&self) -> Option<&Arc<dyn Accelerator>> {
        Some(&self.chosen()?.accelerator)
    }

    /// What it is signed with, and its key; `None` also if another process has chosen it.
    pub(crate) fn algorithms(&self) -> Option<&Arc<CertificateAlgorithms>> {
        Some(&self.chosen()?.algorithms)
    }

    fn chosen(&self) -> Option<&BuiltIdentity> {
        match self {
            Self::Chosen(identities, number) => Some(identities.get(*number)),
            Self::Undecided | Self::Elsewhere(_) => None,
        }
    }
}

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
        let loaded = settings.identities.iter().map(|it| load_identity(it, None));
        let loaded = loaded.collect::<Result<Vec<_>, _>>()?;
        if loaded.is_empty() && !settings.reject_handshake && !settings.evaluates_certificates {
            return Err(SettingsError::new("no \"ssl_certificate\" is defined"));
        }
        let resumption = resumption(settings, &plan, &mut warnings)?;
        let clients = ClientVerifier::build(
            &settings.client_verification,
            settings.client_status.as_ref(),
        )?;
        let mut server = Self {
            mark: Arc::default(),
            certificates: Certificates::None,
            rejects: settings.reject_handshake,
            record_bytes: settings.buffer_bytes.clamp(1, MAX_RECORD_BYTES),
            dynamic_records: settings.dynamic_records,
            remember_client_offer: settings.remember_client_offer,
            resumption,
            clients: clients.map(Arc::new),
            ktls: settings.ktls.policy(plan.policy.ktls),
            handshakes: settings.handshakes.clone(),
            plan,
        };
        server.certificates = if settings.evaluates_certificates {
            Certificates::Evaluated(Box::new(server.evaluated(settings, &mut warnings)?))
        } else if loaded.is_empty() {
            Certificates::None
        } else {
            let built = server.build_identities(settings, loaded.iter(), &mut warnings)?;
            Certificates::Fixed(Arc::new(built))
        };
        Ok((server, warnings))
    }

    fn evaluated(
        &self,
        settings: &ServerSettings,
        warnings: &mut Vec<Warning>,
    ) -> Result<Evaluated, SettingsError> {
        let without_effect = [
            (settings.stapling.is_some(), "ssl_stapling"),
            (
                settings.certificate_compression,
                "ssl_certificate_compression",
            ),
        ];
        for (_, name) in without_effect.iter().filter(|(is_set, _)| *is_set) {
            warnings.push(Warning::new(format!(
                "\"{name}\" has no effect on certificates whose names contain variables"
            )));
        }
        Ok(Evaluated {
            settings: ServerSettings {
                stapling: None,
                ..settings.clone()
            },
            adopting: self.context_without_certificate(settings)?,
        })
    }

    /// Whether each handshake asks for the certificates:
    /// [`ServerSettings::evaluates_certificates`].
    pub fn evaluates_certificates(&self) -> bool {
        matches!(self.certificates, Certificates::Evaluated(_))
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
        let identities = self.list().iter();
        identities
            .map(|identity| (identity.key_type, identity.accelerator.name()))
            .collect()
    }

    /// The certificates in use, as far as they are the same for all clients.
    pub fn certificates(&self) -> impl Iterator<Item = CertificateReport<'_>> {
        self.list().iter().map(|identity| CertificateReport {
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
        let sources = self.list().iter().filter_map(|it| it.staple.as_ref());
        sources.filter_map(StapleSource::asked)
    }

    /// Whether this is one of the chains that this server sends to all clients.
    pub fn has_certificate(&self, fingerprint: &Fingerprint) -> bool {
        let fixed = self.fixed_identities();
        fixed.is_some_and(|identities| identities.position(fingerprint).is_some())
    }

    /// For a connection made elsewhere with this chain: its identity or, if the chain has changed,
    /// the first one. `None` without certificates.
    pub(crate) fn adopt(&self, fingerprint: &Fingerprint) -> Option<Adopted<'_>> {
        match &self.certificates {
            Certificates::None => None,
            Certificates::Fixed(identities) => {
                let number = identities.position(fingerprint).unwrap_or(0);
                Some(Adopted {
                    context: &identities.get(number).contexts.new,
                    certificate: SentCertificate::Chosen(Arc::clone(identities), number),
                })
            }
            Certificates::Evaluated(evaluated) => Some(Adopted {
                context: &evaluated.adopting,
                certificate: SentCertificate::Elsewhere(Box::new(*fingerprint)),
            }),
        }
    }

    fn list(&self) -> &[BuiltIdentity] {
        self.fixed_identities().map_or(&[], |fixed| fixed.list())
    }

    /// The certificates, if they are the same for all clients.
    pub(crate) fn fixed_identities(&self) -> Option<&Arc<Identities>> {
        match &self.certificates {
            Certificates::Fixed(identities) => Some(identities),
            Certificates::None | Certificates::Evaluated(_) => None,
        }
    }

    /// The settings by which certificates are built that come later.
    pub(crate) fn later_settings(&self) -> Option<&ServerSettings> {
        match &self.certificates {
            Certificates::Evaluated(evaluated) => Some(&evaluated.settings),
            Certificates::None | Certificates::Fixed(_) => None,
        }
    }

    pub(crate) fn mark(&self) -> &Arc<()> {
        &self.mark
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The accelerator of the certificate with this number.
    #[cfg(test)]
    pub(crate) fn accelerator(&self, identity: u8) -> &Arc<dyn Accelerator> {
        &self.list()[usize::from(identity)].accelerator
    }

    /// Replaces the accelerator of all keys.
    #[cfg(test)]
    pub(crate) fn set_accelerator(&mut self, accelerator: &Arc<dyn Accelerator>) {
        if let Certificates::Fixed(identities) = &mut self.certificates {
            let identities = Arc::get_mut(identities).expect("no connection has them yet");
            identities.set_accelerator(accelerator);
        }
    }

    /// The pool, if there is one.
    pub(crate) fn pool(&self) -> Option<&Pool> {
        self.handshakes.state.as_ref()?.pool()
    }

    /// Whether flights with an operation of this certificate's key leave the worker.
    pub(crate) fn flights_leave(&self, certificate: &SentCertificate, load: Load) -> bool {
        let chosen = certificate.chosen();
        chosen.is_some_and(|identity| {
            let cost = match identity.accelerator.is_elsewhere() {
                true => Cost::Low,
                false => Cost::of(identity.key_type),
            };
            self.pool().is_some() && policy::leaves(self.handshakes.mode, cost, load)
        })
    }

    /// Whether the first flight for this client has a private-key operation, as far as the hello
    /// shows. Whether an offered session is resumed is known only later.
    pub(crate) fn signs_first_flight(
        &self,
        identities: &Identities,
        hello: &ClientHello<'_>,
    ) -> bool {
        let is_returning = hello.offers_session()
            || hello
                .session_ticket()
                .is_some_and(|ticket| !ticket.is_empty())
            || (self.rules().version(hello) < Some(ProtocolVersion::Tls13)
                && !hello.session_id().is_empty());
        !is_returning && self.rules().signs_first_flight(identities.kinds(), hello)
    }

    pub(crate) fn ktls_policy(&self) -> &KtlsPolicy {
        &self.ktls
    }

    /// The suites of TLS 1.2 and below that are offered, in the server's order,
    /// by OpenSSL's names.
    #[cfg(test)]
    pub(crate) fn cipher_names(&self) -> Vec<&'static str> {
        self.rules().suites.iter().map(|suite| suite.name).collect()
    }

    pub(crate) fn rules(&self) -> &ChoiceRules {
        &self.plan.rules
    }

    /// The kinds of the certificates' keys; `None` if they are not known before a handshake.
    pub(crate) fn kinds(&self) -> Option<&[KeyKind]> {
        match &self.certificates {
            Certificates::None => Some(&[]),
            Certificates::Fixed(identities) => Some(identities.kinds()),
            Certificates::Evaluated(_) => None,
        }
    }

    pub(crate) fn rejects(&self) -> bool {
        self.rejects || matches!(self.certificates, Certificates::None)
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
    pub(crate) fn choose<'i>(
        &self,
        identities: &'i Identities,
        hello: Option<&ClientHello<'_>>,
    ) -> Option<Chosen<'i>> {
        let Some(hello) = hello else {
            return identities.list().first().map(|identity| Chosen {
                context: &identity.contexts.new,
                tls13_suite: None,
                identity: 0,
                staple: None,
            });
        };
        let rules = self.rules();
        let index = rules.identity(identities.kinds(), hello);
        let identity = identities.list().get(index)?;
        let contexts = match &identity.chacha_first {
            Some(contexts) if rules.chacha_first(hello) => contexts,
            _ => &identity.contexts,
        };
        let context = if hello.offers_session() {
            &contexts.returning
        } else {
            &contexts.new
        };
        Some(Chosen {
            context,
            tls13_suite: rules.tls13_suite(hello),
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
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) policy: Policy,
    pub(crate) rules: ChoiceRules,
    pub(crate) groups: GroupList,
    pub(crate) level: Option<SecurityLevel>,
    tickets: bool,
    /// `ssl_certificate_compression`: of all contexts.
    pub(crate) compressor: Arc<KeptCertificates>,
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
    pub(crate) fn chacha_first_order(&self) -> Option<Vec<&'static Suite>> {
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

/// How sessions are resumed: keys, cache, store, register.
fn resumption(
    settings: &ServerSettings,
    plan: &Plan,
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
    Ok(Resumption {
        tickets: plan.tickets,
        ring,
        kept,
        shared,
        early,
        stats: settings.session_stats.clone().unwrap_or_default(),
    })
}

pub(crate) fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(":")
}

pub(crate) fn library_error(error: sealane_awslc::Error) -> SettingsError {
    SettingsError::new(error.to_string())
}
