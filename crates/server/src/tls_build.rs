//! Builds TLS contexts and acceptors from the `ssl_*` directives of a configuration.
//!
//! `sealane_tls` does not know the configuration: this file translates it and passes on the
//! bytes of the files that it names.

mod inputs;
mod sessions;
mod staples;
mod threads;

use self::sessions::SessionsBuilder;
pub use self::sessions::SharedRing;
pub(crate) use self::sessions::upstream_stores;
pub use self::staples::StapleTask;
use self::staples::StaplesBuilder;
pub use self::threads::HandshakeThreads;
use crate::acme::{AcmeBuilder, AcmeId, AcmeState, AcmeTask};
use crate::certificate_files::{CertificateReader, KeptCertificates, KeyUse};
use crate::evaluated_certificates::EvaluatedCertificates;
use crate::materials::{KeyFile, Materials};
use crate::names::ServerNames;
use crate::quic::tls_protocols;
use crate::snapshot::{ServerId, Snapshot};
use sealane_conf::Config;
use sealane_conf::diagnostic::{Diagnostic, SourceLocation};
use sealane_conf::inline_keys;
use sealane_conf::model::{
    self, CertificateCache, CertificateFiles, CertificateSource, EvaluatedPair, Http, Listener,
    LogLevel, Server, ServerCertificates, Template, Tls,
};
use sealane_keys::rules::Roles;
use sealane_tls::ciphers::offer_rsa_key_exchange;
use sealane_tls::{
    AcceleratorChoice, Acceptor, AsyncMode, CertificatePair, ClientVerification, EchKeyFile,
    EchKeys, HandshakeSettings, Identity, PemFile, Protocol, Protocols, Responder, Secret,
    SelectServer, Selected, ServerSettings, ServerTls, StatusSettings, VerifyClient,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Application protocols offered over TLS; the first only where `http2` is on.
const ALPN: [&[u8]; 4] = [b"h2", b"http/1.1", b"http/1.0", b"http/0.9"];

/// The TLS settings of a configuration, for inspection without serving.
#[derive(Debug)]
pub struct TlsOfServers {
    /// The settings of each server, in the order of the configuration; `None`
    /// without TLS.
    pub servers: Vec<Option<Arc<ServerTls>>>,
    /// Warnings for the operator.
    pub warnings: Vec<Diagnostic>,
}

impl TlsOfServers {
    /// Builds the settings as a snapshot would.
    ///
    /// # Errors
    /// As [`Snapshot::build`].
    pub fn build(config: &Config, materials: &Materials) -> Result<TlsOfServers, Diagnostic> {
        let mut builder = TlsBuilder::new(config, materials, false)?;
        let built = config.http.iter().flat_map(|http| {
            let servers = http.servers.iter().enumerate();
            servers.map(|(at, server)| (server, offers_http2(http, at)))
        });
        let built = built.map(|(server, http2)| {
            let built = builder.server(server, http2)?;
            Ok(built.map(|(tls, _)| tls))
        });
        Ok(TlsOfServers {
            servers: built.collect::<Result<_, _>>()?,
            warnings: builder.finish().warnings,
        })
    }
}

/// What clients of a server may agree on with ALPN.
fn protocols_of(server: &Server, http2: bool) -> Vec<Box<[u8]>> {
    if let Some(stream) = &server.stream {
        return stream.alpn.to_vec();
    }
    if let Some(mail) = &server.mail {
        return vec![mail.protocol.name().as_bytes().into()];
    }
    let names = ALPN[usize::from(!http2)..].iter();
    names.map(|name| Box::from(*name)).collect()
}

/// Whether clients of the server with this number are offered HTTP/2: by its own `http2`, or by a
/// `listen` line of one of its addresses.
pub(crate) fn offers_http2(http: &Http, server: usize) -> bool {
    let listened =
        |listener: &Listener| listener.options.http2 && listener.servers.contains(&server);
    http.servers[server].http2.enabled || http.listeners.iter().any(listened)
}

/// What belongs to no server alone.
pub(crate) struct TlsRemainder {
    /// Ticket keys that are kept in a store.
    pub(crate) shared_rings: Vec<SharedRing>,
    /// Certificates whose staples are fetched.
    pub(crate) staples: Vec<StapleTask>,
    /// Certificates that are ordered.
    pub(crate) acme: Vec<AcmeTask>,
    /// For the operator, each text once.
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Builds the TLS settings of a snapshot, and shares equal parts between servers.
pub(crate) struct TlsBuilder<'a> {
    materials: &'a Materials,
    sessions: SessionsBuilder<'a>,
    staples: StaplesBuilder,
    /// `ssl_ech_file` of all servers.
    ech: Option<Arc<EchKeys>>,
    acme: AcmeBuilder,
    /// Whether `$ssl_curves`, `$ssl_sigalgs` or `$ssl_ja4` is used somewhere.
    remember_client_offer: bool,
    /// Base of relative certificate names that come from variables.
    conf_directory: PathBuf,
    /// Settings of the snapshot before, by all that they are made of.
    before: HashMap<[u8; 32], Arc<ServerTls>>,
    /// By `ssl_certificate_cache`.
    kept_certificates: Vec<SharedCache>,
    warnings: Vec<Diagnostic>,
}

/// The TLS settings of a server, and the fingerprint of all that they are made of.
pub(crate) type BuiltTls = (Arc<ServerTls>, [u8; 32]);

/// An `ssl_certificate_cache`, shared by the servers that inherit it.
type SharedCache = (
    Arc<CertificateCache>,
    Arc<KeptCertificates<Arc<CertificatePair>>>,
);

impl<'a> TlsBuilder<'a> {
    /// # Errors
    /// When a key of `ssl_ech_file` cannot be used.
    pub(crate) fn new(
        config: &Config,
        materials: &'a Materials,
        remember_client_offer: bool,
    ) -> Result<TlsBuilder<'a>, Diagnostic> {
        Ok(TlsBuilder {
            ech: ech_keys(config, materials)?,
            materials,
            sessions: SessionsBuilder::new(materials),
            staples: StaplesBuilder::new(materials),
            acme: AcmeBuilder::default(),
            remember_client_offer,
            conf_directory: conf_directory(config).to_owned(),
            before: inputs::of_before(materials),
            kept_certificates: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// What is left to do for all servers together.
    pub(crate) fn finish(mut self) -> TlsRemainder {
        let (shared_rings, notices) = self.sessions.finish();
        self.warnings.extend(notices);
        TlsRemainder {
            shared_rings,
            staples: self.staples.finish(),
            acme: self.acme.finish(),
            warnings: self.warnings,
        }
    }

    /// The TLS settings of a server, if it has any, with all that they are made of; `http2` offers
    /// it to clients.
    ///
    /// # Errors
    /// What in the settings or their files cannot be used.
    pub(crate) fn server(
        &mut self,
        server: &Server,
        http2: bool,
    ) -> Result<Option<BuiltTls>, Diagnostic> {
        let Some(tls) = &server.tls else {
            self.acme.add(server, self.materials, None)?;
            return Ok(None);
        };
        let settings = self.settings(server, tls, http2)?;
        let inputs = inputs::fingerprint(tls, &settings, self.materials);
        let shared = settings.shared_sessions.as_ref();
        self.acme.add(server, self.materials, shared)?;
        if let Some(known) = self.before.get(&inputs) {
            self.staples.add(known, server, self.materials, shared);
            return Ok(Some((Arc::clone(known), inputs)));
        }
        let (built, warnings) = ServerTls::build(&settings).map_err(|error| Diagnostic {
            place: place_of(&error.to_string(), tls),
            ..emerg(error.to_string())
        })?;
        for warning in warnings {
            self.warn(warning.to_string());
        }
        self.staples.add(&built, server, self.materials, shared);
        Ok(Some((Arc::new(built), inputs)))
    }

    /// The certificates of a server that handshakes ask for.
    ///
    /// # Errors
    /// When a file was not read.
    pub(crate) fn evaluated_certificates(
        &mut self,
        server: &Server,
    ) -> Result<Option<EvaluatedCertificates>, Diagnostic> {
        let Some(tls) = &server.tls else {
            return Ok(None);
        };
        let ServerCertificates::Evaluated(evaluated) = &tls.certificates else {
            return Ok(None);
        };
        let cache = evaluated.cache.as_ref().map(|cache| self.kept(cache));
        let passwords = passwords(tls, self.materials)?;
        let key_use = KeyUse {
            roles: Roles::SERVER,
            may_decrypt: may_decrypt(tls),
            accelerator: accelerator_choice(&tls.accelerator),
        };
        let reader = CertificateReader::new(
            self.conf_directory.clone(),
            passwords,
            cache,
            key_use,
            Arc::clone(self.materials.handshakes()),
        );
        let pairs = evaluated.pairs.iter().map(|pair| match pair {
            EvaluatedPair::Acme => EvaluatedPair::Acme,
            EvaluatedPair::Named { certificate, key } => {
                let passwords = tls.password_file.as_ref();
                let names = [certificate, key];
                let [certificate, key] = with_texts(self.materials, names, passwords);
                EvaluatedPair::Named { certificate, key }
            }
        });
        let acme = server.acme_certificate.as_ref();
        let acme = acme.map(|conf| (Arc::clone(self.materials.acme()), AcmeId::of(conf)));
        let pairs = pairs.collect();
        Ok(Some(EvaluatedCertificates::new(pairs, reader, acme)))
    }

    fn kept(
        &mut self,
        conf: &Arc<CertificateCache>,
    ) -> Arc<KeptCertificates<Arc<CertificatePair>>> {
        let mut known = self.kept_certificates.iter();
        if let Some((_, cache)) = known.find(|(known, _)| Arc::ptr_eq(known, conf)) {
            return Arc::clone(cache);
        }
        let cache = Arc::new(KeptCertificates::new(**conf));
        let entry = (Arc::clone(conf), Arc::clone(&cache));
        self.kept_certificates.push(entry);
        cache
    }

    /// The acceptor of a listener: TLS settings by server name.
    ///
    /// # Errors
    /// When the default server of the listener has no certificate.
    pub(crate) fn acceptor(
        &self,
        snapshot: &Snapshot,
        listener: &Listener,
        names: &ServerNames,
    ) -> Result<Acceptor, Diagnostic> {
        let servers = listener
            .servers
            .iter()
            .filter_map(|&at| {
                let id = ServerId(u32::try_from(at).ok()?);
                Some((id, snapshot.server(id).tls.clone()?))
            })
            .collect::<HashMap<_, _>>();
        let default = names.default_server();
        if !servers.contains_key(&default) {
            return Err(emerg(format!(
                "no \"ssl_certificate\" is defined for the default server of the \"listen ... ssl\" address {}",
                listener.address
            )));
        }
        let acceptor = Acceptor::new(Arc::new(ByName {
            names: names.clone(),
            servers,
            default,
            acme: Arc::clone(self.materials.acme()),
        }));
        Ok(acceptor.with_ech(self.ech.clone()))
    }

    fn settings(
        &mut self,
        server: &Server,
        tls: &Tls,
        http2: bool,
    ) -> Result<ServerSettings, Diagnostic> {
        let files = tls.certificates.files();
        let identities = files
            .unwrap_or_default()
            .iter()
            .map(|files| certificate_identity(tls, files, self.materials))
            .collect::<Result<Vec<_>, Diagnostic>>()?;
        let sessions = self.sessions.server(tls, &identities)?;
        Ok(ServerSettings {
            server_names: server.names.iter().map(name_text).collect(),
            identities,
            evaluates_certificates: files.is_none(),
            protocols: protocols(tls.protocols),
            ciphers: tls.ciphers.clone(),
            ciphersuites: None,
            conf_commands: tls.conf_commands.clone(),
            groups: (tls.ecdh_curve != "auto").then(|| tls.ecdh_curve.clone()),
            prefer_server_ciphers: tls.prefer_server_ciphers,
            prioritize_chacha: false,
            session_timeout_s: tls.session_timeout.as_secs(),
            tickets: tls.session_tickets,
            session_cache: sessions.cache,
            ticket_ring: sessions.ring,
            ticket_keys: sessions.ticket_keys,
            shared_sessions: sessions.shared,
            early_data: sessions.early_data,
            client_verification: self.client_verification(&tls.client_certificates)?,
            client_status: self.client_status(&tls.client_certificates)?,
            session_stats: Some(self.sessions.stats()),
            alpn: protocols_of(server, http2),
            quic_protocols: tls_protocols(server),
            reject_handshake: tls.reject_handshake,
            buffer_bytes: tls.buffer_bytes as usize,
            dynamic_records: tls.dynamic_records.map(|d| sealane_tls::DynamicRecords {
                size_lo: d.low_bytes as usize,
                size_hi: d.high_bytes as usize,
                threshold: d.threshold,
                timeout_ms: u64::try_from(d.timeout.as_millis()).unwrap_or(u64::MAX),
            }),
            stapling: self.staples.settings(tls, self.materials)?,
            ech: self.ech.clone().map(|keys| {
                let first = tls.ech_files.first();
                (keys, first.map(|path| path.display().to_string()))
            }),
            certificate_compression: tls.certificate_compression,
            remember_client_offer: self.remember_client_offer,
            ktls: self.materials.ktls(tls.ktls),
            handshakes: self.handshakes(tls),
        })
    }

    fn handshakes(&self, tls: &Tls) -> HandshakeSettings {
        HandshakeSettings {
            mode: match tls.async_mode {
                model::AsyncMode::On => AsyncMode::On,
                model::AsyncMode::Off => AsyncMode::Off,
                model::AsyncMode::Auto => AsyncMode::Auto,
            },
            accelerator: accelerator_choice(&tls.accelerator),
            state: Some(Arc::clone(self.materials.handshakes())),
        }
    }

    /// The rules for certificates of clients, with the contents of the files.
    fn client_verification(
        &self,
        conf: &model::ClientCertificates,
    ) -> Result<ClientVerification, Diagnostic> {
        let mode = match conf.verify {
            model::VerifyClient::Off => VerifyClient::Off,
            model::VerifyClient::On => VerifyClient::On,
            model::VerifyClient::Optional => VerifyClient::Optional,
            model::VerifyClient::OptionalNoCa => VerifyClient::OptionalNoCa,
        };
        Ok(ClientVerification {
            mode,
            depth: conf.depth,
            named: match mode {
                VerifyClient::Off => None,
                _ => pem_file(self.materials, &conf.client_certificate, "certificate")?,
            },
            trusted: trusted_file(self.materials, conf)?,
            revoked: pem_file(self.materials, &conf.crl, "CRL")?,
        })
    }

    /// `ssl_ocsp`.
    fn client_status(
        &self,
        conf: &model::ClientCertificates,
    ) -> Result<Option<StatusSettings>, Diagnostic> {
        let Some(ocsp) = &conf.ocsp else {
            return Ok(None);
        };
        let responder = ocsp.responder.as_ref().map(|url| {
            Responder::parse(url).map_err(|why| {
                emerg(format!(
                    "{why} in OCSP responder \"{url}\" in \"ssl_ocsp_responder\""
                ))
            })
        });
        let cache = ocsp.cache.as_ref().map(|(zone, bytes)| {
            let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
            (zone.clone(), self.materials.statuses().cache(zone, bytes))
        });
        Ok(Some(StatusSettings {
            whole_chain: ocsp.whole_chain,
            responder: responder.transpose()?,
            cache,
        }))
    }

    fn warn(&mut self, message: String) {
        if !self.warnings.iter().any(|known| known.message == message) {
            self.warnings.push(Diagnostic {
                level: LogLevel::Warn,
                message,
                place: None,
                help: None,
            });
        }
    }
}

/// The keys of all servers, each file once.
fn ech_keys(config: &Config, materials: &Materials) -> Result<Option<Arc<EchKeys>>, Diagnostic> {
    let servers = config.http.iter().flat_map(|http| &http.servers);
    let servers = servers.filter_map(|server| server.tls.as_deref());
    let mut paths: Vec<&Path> = Vec::new();
    for path in servers.flat_map(|tls| &tls.ech_files) {
        if !paths.contains(&path.as_path()) {
            paths.push(path);
        }
    }
    let files = paths.into_iter().map(|path| {
        Ok(EchKeyFile {
            pem: Secret::new(file(materials, path, "ECH key")?.to_vec()),
            label: path.display().to_string(),
        })
    });
    let files = files.collect::<Result<Vec<_>, Diagnostic>>()?;
    EchKeys::build(&files).map_err(|error| emerg(error.to_string()))
}

/// The line that a message is about, where it is known: that of `ssl_ecdh_curve`.
fn place_of(message: &str, tls: &Tls) -> Option<SourceLocation> {
    let about = format!("SSL_CTX_set1_curves_list(\"{}\")", tls.ecdh_curve);
    let origin = tls.ecdh_curve_origin.as_ref()?;
    message.starts_with(&about).then(|| SourceLocation {
        file: Some(origin.file.clone()),
        line: origin.line,
        column: 1,
        source_line: String::new(),
    })
}

/// Where relative names of certificates start from.
pub fn conf_directory(config: &Config) -> &Path {
    let conf_file = config.sources.first().map(|source| &*source.path);
    conf_file.and_then(Path::parent).unwrap_or(&config.prefix)
}

/// Whether a server may decrypt with its key: it offers the RSA key exchange. What
/// `ssl_conf_command` makes of that is not looked into.
pub fn may_decrypt(tls: &Tls) -> bool {
    !tls.conf_commands.is_empty() || offer_rsa_key_exchange(&tls.ciphers)
}

/// What computes with keys that no device does.
pub fn accelerator_choice(conf: &model::Accelerator) -> AcceleratorChoice {
    match conf {
        model::Accelerator::Auto | model::Accelerator::Device(_) => AcceleratorChoice::Auto,
        model::Accelerator::Cpu => AcceleratorChoice::Cpu,
        model::Accelerator::Batch => AcceleratorChoice::Batch,
    }
}

/// A certificate of a server, with its key, or the handle of one that another process holds.
///
/// # Errors
/// When a file was not read, or a device not opened.
pub fn certificate_identity(
    tls: &Tls,
    files: &CertificateFiles,
    materials: &Materials,
) -> Result<Identity, Diagnostic> {
    Ok(Identity {
        chain_pem: pem(materials, &files.certificate, "certificate")?.to_vec(),
        key_pem: key(materials, KeyFile::of_server(tls, files), &files.key)?,
        passwords: passwords(tls, materials)?,
        chain_label: files.certificate.label(),
        key_label: files.key.label(),
    })
}

/// The lines of `ssl_password_file`.
fn passwords(tls: &Tls, materials: &Materials) -> Result<Vec<Secret>, Diagnostic> {
    match &tls.password_file {
        None => Ok(Vec::new()),
        Some(path) => Ok(secrets(file(materials, path, "password file")?)),
    }
}

/// The lines of a file with passwords.
pub fn secrets(text: &[u8]) -> Vec<Secret> {
    text.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .map(|line| Secret::new(line.to_vec()))
        .collect()
}

/// The bytes of a certificate or key.
///
/// # Errors
/// When the file was not read.
pub(crate) fn pem<'m>(
    materials: &'m Materials,
    source: &'m CertificateSource,
    what: &str,
) -> Result<&'m [u8], Diagnostic> {
    match source {
        CertificateSource::File(path) | CertificateSource::Taken(path) => {
            file(materials, path, what)
        }
        CertificateSource::Inline(pem) => Ok(pem.as_bytes()),
        CertificateSource::Uri(uri) => Err(emerg(format!(
            "cannot load {what} \"{uri}\": its device was not opened"
        ))),
    }
}

/// The names of a certificate and its key, at least one of which has variables. In the place of a
/// text that was taken out of the configuration is the text, or the handle of the key.
pub(crate) fn with_texts(
    materials: &Materials,
    [certificate, key]: [&Template; 2],
    passwords: Option<&PathBuf>,
) -> [Template; 2] {
    let with_text = |name: &Template, text: Option<&[u8]>| match text {
        Some(text) => Template::literal([&b"data:"[..], text].concat()),
        None => name.clone(),
    };
    let chain = inline_keys::taken_from(certificate);
    let chain = chain.as_ref().and_then(|path| materials.get(path));
    let held = KeyFile::of_name(key, passwords.cloned());
    let held = held.and_then(|file| materials.key(&file));
    [
        with_text(certificate, chain),
        with_text(key, held.as_ref().map(|bytes| bytes.as_slice())),
    ]
}

/// A key, or the handle of one that another process holds.
pub(crate) fn key(
    materials: &Materials,
    file: Option<KeyFile>,
    source: &CertificateSource,
) -> Result<Secret, Diagnostic> {
    let held = file.and_then(|file| materials.key(&file));
    let bytes = match held {
        Some(mut bytes) => std::mem::take(&mut *bytes),
        None => pem(materials, source, "certificate key")?.to_vec(),
    };
    Ok(Secret::new(bytes))
}

/// `ssl_trusted_certificate`, for clients and for OCSP responders.
fn trusted_file(
    materials: &Materials,
    conf: &model::ClientCertificates,
) -> Result<Option<PemFile>, Diagnostic> {
    pem_file(materials, &conf.trusted_certificate, "certificate")
}

fn pem_file(
    materials: &Materials,
    path: &Option<PathBuf>,
    what: &str,
) -> Result<Option<PemFile>, Diagnostic> {
    let Some(path) = path else { return Ok(None) };
    Ok(Some(PemFile {
        pem: file(materials, path, what)?.to_vec(),
        label: path.display().to_string(),
    }))
}

/// The bytes of a file that the configuration names.
///
/// # Errors
/// When the file was not read.
pub(crate) fn file<'m>(
    materials: &'m Materials,
    path: &Path,
    what: &str,
) -> Result<&'m [u8], Diagnostic> {
    // The master has read every such file, and refused the configuration if it
    // could not.
    materials.get(path).ok_or_else(|| {
        emerg(format!(
            "cannot load {what} \"{}\": the file was not read",
            path.display()
        ))
    })
}

/// Chooses TLS settings by nginx's rules for server names.
struct ByName {
    names: ServerNames,
    servers: HashMap<ServerId, Arc<ServerTls>>,
    default: ServerId,
    acme: Arc<AcmeState>,
}

impl SelectServer for ByName {
    fn select(&self, name: Option<&str>) -> Selected {
        let wanted = name.map_or(self.default, |name| self.names.find(name.as_bytes(), None));
        // A server without TLS settings on a TLS address uses the default's.
        match self.servers.get(&wanted) {
            Some(tls) => Selected::Server(tls.clone(), wanted.0),
            None => match self.servers.get(&self.default) {
                Some(tls) => Selected::Server(tls.clone(), wanted.0),
                None => Selected::Reject,
            },
        }
    }

    fn challenge(&self, name: &str) -> Option<Arc<ServerTls>> {
        self.acme.tls_answer(name)
    }
}

pub(crate) fn emerg(message: String) -> Diagnostic {
    Diagnostic {
        level: LogLevel::Emerg,
        message,
        place: None,
        help: None,
    }
}

pub(crate) fn protocols(set: model::TlsProtocols) -> Protocols {
    [
        (set.ssl_v2_v3, Protocol::SslV3),
        (set.tls_1_0, Protocol::TlsV1),
        (set.tls_1_1, Protocol::TlsV1_1),
        (set.tls_1_2, Protocol::TlsV1_2),
        (set.tls_1_3, Protocol::TlsV1_3),
    ]
    .into_iter()
    .filter_map(|(on, protocol)| on.then_some(protocol))
    .collect()
}

fn name_text(name: &model::ServerName) -> String {
    match name {
        model::ServerName::Exact(text) => text.clone(),
        model::ServerName::Dot(text) => text.clone(),
        model::ServerName::WildcardPrefix(suffix) => format!("*{suffix}"),
        model::ServerName::WildcardSuffix(prefix) => format!("{prefix}*"),
        model::ServerName::Regex(regex) => format!("~{}", regex.pattern()),
    }
}

/// Whether the configuration uses a variable with this prefix. The search may find it in a comment,
/// which costs a few bytes per connection.
pub(crate) fn uses_variable(config: &Config, name: &str) -> bool {
    let forms = [format!("${name}"), format!("${{{name}")];
    config.sources.iter().any(|source| {
        forms
            .iter()
            .any(|form| memchr::memmem::find(&source.text, form.as_bytes()).is_some())
    })
}
