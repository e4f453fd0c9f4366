//! `proxy_ssl_*`, `grpc_ssl_*` and `uwsgi_ssl_*` at run time: built once per snapshot, and
//! completed for each request.

use super::failure::Failure;
use super::{PassRuntime, Target};
use crate::certificate_files::{CertificateReader, KeptCertificates, KeyUse, Names};
use crate::exchange::Exchange;
use crate::materials::{KeyFile, Materials};
use crate::template;
use crate::tls_build::{conf_directory, emerg, file, key, pem, protocols, secrets, with_texts};
use sealane_conf::Config;
use sealane_conf::diagnostic::Diagnostic;
use sealane_conf::model::{
    CertificateFiles, Family, LogLevel, Pass, ProxyHttpVersion, Template, UpstreamCertificate,
    UpstreamTls,
};
use sealane_io::stream::Sealed;
use sealane_keys::rules::Roles;
use sealane_tls::client::{
    ClientIdentity, ClientSettings, ClientTls, Connection, PemFile, SessionCache,
};
use sealane_tls::{AcceleratorChoice, Identity, KtlsMode, Secret};
use sealane_upstream::Peer;
use sealane_upstream::pool::ConnectionKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// Builds the TLS settings of pass directives; equal ones only once.
pub(crate) struct TlsSettings<'m> {
    materials: &'m Materials,
    /// Base of relative certificate names that come from variables.
    conf_directory: PathBuf,
    built: Vec<Built>,
    warnings: Vec<Diagnostic>,
}

struct Built {
    conf: Arc<UpstreamTls>,
    http2: bool,
    tls: PeerTls,
}

/// TLS to the peers of a pass directive.
#[derive(Clone)]
pub(crate) struct PeerTls {
    client: ClientTls,
    /// Identifies settings, also across snapshots: everything that they are made of.
    fingerprint: [u8; 32],
    /// `proxy_ssl_name`.
    name: Option<Template>,
    /// Neither sent nor compared: the name makes no difference.
    ignores_name: bool,
    /// `proxy_ssl_certificate` and its key, when they have variables.
    evaluated: Option<(Template, Template)>,
    certificates: CertificateReader<ClientIdentity>,
}

/// The TLS of one request's connections.
pub(crate) struct Secured {
    client: ClientTls,
    name: Arc<str>,
    /// The names of a certificate and its key, with their variables evaluated.
    files: Option<Names>,
    certificates: CertificateReader<ClientIdentity>,
    key: ConnectionKey,
}

impl<'m> TlsSettings<'m> {
    pub(crate) fn new(config: &Config, materials: &'m Materials) -> TlsSettings<'m> {
        TlsSettings {
            materials,
            conf_directory: conf_directory(config).to_owned(),
            built: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The TLS settings for the peers of `pass`, if it may use TLS.
    ///
    /// # Errors
    /// In nginx's words, what is wrong with a file, a cipher string or a command.
    pub(crate) fn of(&mut self, pass: &Pass) -> Result<Option<PeerTls>, Diagnostic> {
        let Some(conf) = pass.tls() else {
            return Ok(None);
        };
        let http2 = match pass {
            Pass::Grpc(_) => true,
            Pass::Proxy(proxy) => proxy.http_version == ProxyHttpVersion::Http2,
            _ => false,
        };
        let same = |built: &&Built| built.http2 == http2 && built.conf == *conf;
        if let Some(built) = self.built.iter().find(same) {
            return Ok(Some(built.tls.clone()));
        }
        let settings = self.settings(conf, pass.upstream().family, http2)?;
        let (client, warnings) =
            ClientTls::build(&settings).map_err(|error| emerg(error.to_string()))?;
        for warning in warnings {
            self.warn(warning.to_string());
        }
        let evaluated = match &conf.certificate {
            Some(UpstreamCertificate::Evaluated { certificate, key }) => {
                let passwords = conf.password_file.as_ref();
                let names = with_texts(self.materials, [certificate, key], passwords);
                Some(names.into())
            }
            _ => None,
        };
        let certificates = CertificateReader::new(
            self.conf_directory.clone(),
            self.passwords(conf)?,
            conf.certificate_cache
                .map(|settings| Arc::new(KeptCertificates::new(settings))),
            KeyUse {
                roles: Roles::CLIENT,
                may_decrypt: false,
                accelerator: AcceleratorChoice::Auto,
            },
            Arc::clone(self.materials.handshakes()),
        );
        let tls = PeerTls {
            client,
            fingerprint: self.fingerprint(conf, http2),
            name: conf.name.clone(),
            ignores_name: !conf.server_name && !conf.verify,
            evaluated,
            certificates,
        };
        self.built.push(Built {
            conf: conf.clone(),
            http2,
            tls: tls.clone(),
        });
        Ok(Some(tls))
    }

    /// Warnings for the operator, each text once.
    pub(crate) fn finish(self) -> Vec<Diagnostic> {
        self.warnings
    }

    fn settings(
        &self,
        conf: &UpstreamTls,
        family: Family,
        http2: bool,
    ) -> Result<ClientSettings, Diagnostic> {
        let verifying = |path: &Option<PathBuf>, what: &str| {
            let path = path.as_ref().filter(|_| conf.verify);
            path.map(|path| self.pem_file(path, what)).transpose()
        };
        let identity = match &conf.certificate {
            Some(UpstreamCertificate::Files(files)) => Some(self.identity(conf, files)?),
            _ => None,
        };
        Ok(ClientSettings {
            directives: directives(family),
            protocols: protocols(conf.protocols),
            ciphers: conf.ciphers.clone(),
            conf_commands: conf.conf_commands.clone(),
            server_name: conf.server_name,
            verify: conf.verify,
            verify_depth: conf.verify_depth,
            trusted: verifying(&conf.trusted_certificate, "certificate")?,
            revocation_lists: verifying(&conf.crl, "CRL")?,
            identity,
            handshakes: Some(Arc::clone(self.materials.handshakes())),
            session_reuse: conf.session_reuse,
            // nginx offers nothing for HTTP/1 and uwsgi, and some peers refuse what they
            // do not know.
            alpn: if http2 { vec![b"h2"] } else { Vec::new() },
            ktls: self.materials.ktls(conf.ktls),
        })
    }

    /// What two settings must have in common for connections to be shared: the directives and the
    /// contents of all files that they name.
    fn fingerprint(&self, conf: &UpstreamTls, http2: bool) -> [u8; 32] {
        let mut text = Zeroizing::new(format!("{http2} {conf:?}").into_bytes());
        if let Some(UpstreamCertificate::Files(files)) = &conf.certificate {
            let certificate = pem(self.materials, &files.certificate, "certificate");
            push_counted(&mut text, certificate.unwrap_or_default());
            let key = key(
                self.materials,
                KeyFile::of_upstream(conf, files),
                &files.key,
            );
            push_counted(&mut text, key.as_ref().map_or(&[], Secret::expose));
        }
        let files = [&conf.trusted_certificate, &conf.crl, &conf.password_file];
        for path in files.into_iter().flatten() {
            let bytes = self.materials.get(path);
            push_counted(&mut text, bytes.unwrap_or_default());
        }
        sealane_tls::sha256(&text)
    }

    fn identity(
        &self,
        conf: &UpstreamTls,
        files: &CertificateFiles,
    ) -> Result<Identity, Diagnostic> {
        Ok(Identity {
            chain_pem: pem(self.materials, &files.certificate, "certificate")?.to_vec(),
            key_pem: key(
                self.materials,
                KeyFile::of_upstream(conf, files),
                &files.key,
            )?,
            passwords: self.passwords(conf)?,
            chain_label: files.certificate.label(),
            key_label: files.key.label(),
        })
    }

    fn passwords(&self, conf: &UpstreamTls) -> Result<Vec<Secret>, Diagnostic> {
        match &conf.password_file {
            Some(path) => Ok(secrets(file(self.materials, path, "password file")?)),
            None => Ok(Vec::new()),
        }
    }

    fn pem_file(&self, path: &Path, what: &str) -> Result<PemFile, Diagnostic> {
        Ok(PemFile {
            pem: file(self.materials, path, what)?.to_vec(),
            label: path.display().to_string(),
        })
    }

    fn warn(&mut self, message: String) {
        if !self.warnings.iter().any(|known| known.message == message) {
            self.warnings.push(Diagnostic {
                level: LogLevel::Warn,
                ..emerg(message)
            });
        }
    }
}

/// The prefix of a family's TLS directives.
fn directives(family: Family) -> &'static str {
    match family {
        Family::Proxy => "proxy_ssl",
        Family::Uwsgi => "uwsgi_ssl",
        Family::Grpc => "grpc_ssl",
        // They have none; conf gives them no TLS.
        Family::FastCgi => "fastcgi_ssl",
        Family::Scgi => "scgi_ssl",
        Family::Memcached => "memcached_ssl",
        Family::Tunnel => "tunnel_ssl",
        Family::ProxyConnect => "proxy_connect_ssl",
        Family::Dubbo => "dubbo_ssl",
    }
}

impl PassRuntime {
    /// The TLS of a request's connections, if they use it.
    pub(super) fn secured(&self, exchange: &Exchange, target: &Target) -> Option<Arc<Secured>> {
        if !target.tls {
            return None;
        }
        if let Some(fixed) = &self.secured_alike {
            return Some(fixed.clone());
        }
        // There are settings if the target can be a TLS one.
        let tls = self.tls.as_ref()?;
        let name = match &tls.name {
            Some(name) => String::from_utf8_lossy(&template::evaluate(name, exchange)).into(),
            None => default_name(target),
        };
        let files = tls.evaluated.as_ref().and_then(|(certificate, key)| {
            let certificate = template::evaluate(certificate, exchange).into_owned();
            let key = template::evaluate(key, exchange).into_owned();
            (!certificate.is_empty()).then_some((certificate, key))
        });
        let base = self.connection_key(&target.group);
        Some(Arc::new(tls.secure(name, files, &base)))
    }

    /// Remembers TLS to the peers.
    pub(crate) fn set_tls(&mut self, tls: PeerTls) {
        if self.tls_by_default
            && let Some(group) = &self.group
            && let Some(name) = tls.fixed_name(|| self.host_or_group(group.group.name()))
        {
            let base = self.connection_key(group);
            self.secured_alike = Some(Arc::new(tls.secure(name, None, &base)));
        }
        self.tls = Some(tls);
    }

    /// `proxy_ssl_ktls` in force; `None` without TLS.
    pub(crate) fn ktls_mode(&self) -> Option<KtlsMode> {
        self.tls.as_ref().map(|tls| tls.client.ktls_mode())
    }

    fn host_or_group(&self, group: &str) -> Arc<str> {
        match &*self.host {
            "" => group.into(),
            _ => self.host.clone(),
        }
    }
}

/// As in nginx: the host of the directive, or the name of the group.
fn default_name(target: &Target) -> Arc<str> {
    match &*target.host {
        "" => target.group.group.name().into(),
        _ => target.host.clone(),
    }
}

impl PeerTls {
    /// The TLS of every connection, if no request can change it.
    fn fixed_name(&self, default: impl FnOnce() -> Arc<str>) -> Option<Arc<str>> {
        if self.evaluated.is_some() {
            return None;
        }
        match &self.name {
            None => Some(default()),
            Some(name) => {
                let literal = name.as_literal()?;
                Some(String::from_utf8_lossy(literal).into())
            }
        }
    }

    fn secure(
        &self,
        name: Arc<str>,
        files: Option<(Vec<u8>, Vec<u8>)>,
        base: &ConnectionKey,
    ) -> Secured {
        // Requests that differ in any of this must not share a connection.
        let mut key = base.to_vec();
        key.extend_from_slice(b" tls ");
        key.extend_from_slice(&self.fingerprint);
        if !self.ignores_name {
            push_counted(&mut key, name.as_bytes());
        }
        if let Some((certificate, key_file)) = &files {
            push_counted(&mut key, certificate);
            push_counted(&mut key, key_file);
        }
        Secured {
            client: self.client.clone(),
            name,
            files: files.map(|(certificate, key)| Names::new(&certificate, &key)),
            certificates: self.certificates.clone(),
            key: key.into(),
        }
    }
}

/// Preceded by its length, so that two texts cannot be confused.
fn push_counted(key: &mut Vec<u8>, text: &[u8]) {
    key.extend_from_slice(format!(" {}:", text.len()).as_bytes());
    key.extend_from_slice(text);
}

impl Secured {
    /// The key of an idle connection.
    pub(super) fn connection_key(&self) -> ConnectionKey {
        self.key.clone()
    }

    /// The settings, with the certificate that variables name.
    ///
    /// # Errors
    /// [`Failure::TlsSetup`] when the certificate cannot be loaded.
    pub(super) async fn client(&self, exchange: &Exchange) -> Result<ClientTls, Failure> {
        let Some(names) = &self.files else {
            return Ok(self.client.clone());
        };
        let keys = exchange.worker.key_loader();
        let loaded = self.certificates.load(names.clone(), keys).await;
        let identity = loaded.map_err(Failure::TlsSetup)?;
        Ok(self.client.with_identity(Some(identity)))
    }

    /// Begins TLS towards a peer, and offers `protocols` (ALPN) if there are any.
    ///
    /// # Errors
    /// [`Failure::TlsSetup`] when the library refuses the settings.
    pub(super) fn begin(
        &self,
        client: &ClientTls,
        peer: &Peer,
        sessions: &Arc<SessionCache>,
        protocols: &[&[u8]],
    ) -> Result<Sealed<Connection>, Failure> {
        let known = peer.name().clone();
        let name = Some(&*self.name);
        let session = sessions.get(client, known.as_bytes(), name, now_s());
        let mut connection = client
            .connect(name, session.as_ref())
            .map_err(|error| Failure::TlsSetup(error.to_string()))?;
        if !protocols.is_empty() {
            let offered = connection.offer_protocols(protocols);
            offered.map_err(|error| Failure::TlsSetup(error.to_string()))?;
        }
        if client.reuses_sessions() {
            connection.keep_sessions(sessions.clone(), known);
        }
        Ok(Sealed::connecting(connection))
    }
}

/// Seconds since 1970.
pub(super) fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
