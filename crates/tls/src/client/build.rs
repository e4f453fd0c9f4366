//! [`ClientTls`]: settings checked once, built into an immutable context.

use std::sync::Arc;

use sealane_awslc::{
    self as awslc, CertificateChain, ClientContext, Verifier, VerifierBuilder, sha256,
};

use super::connection::Connection;
use super::error::Error;
use super::identity::ClientIdentity;
use super::name;
use super::sessions::{Binding, Session};
use super::settings::ClientSettings;
use super::signing::Signing;
use crate::conf_command::Policy;
use crate::error::{SettingsError, Warning};
use crate::ktls::{KtlsMode, KtlsPolicy};
use crate::parameters::Parameters;
use crate::server::join;
use crate::settings::PemFile;
use crate::signatures;

/// How connections to upstreams are secured: immutable, shared by all threads. Cloning is
/// cheap.
#[derive(Clone, Debug)]
pub struct ClientTls {
    shared: Arc<Shared>,
    identity: Option<ClientIdentity>,
}

/// What connections keep of it, too.
#[derive(Debug)]
pub(super) struct Shared {
    context: ClientContext,
    /// The prefix of the directives.
    pub(super) directives: &'static str,
    pub(super) ktls: KtlsPolicy,
    server_name: bool,
    verify: bool,
    session_reuse: bool,
    /// Hash of everything that decides whether a session may be reused.
    fingerprint: [u8; 32],
}

impl ClientTls {
    /// Checks and builds `settings`. The warnings name settings that were accepted without their
    /// full effect.
    ///
    /// # Errors
    ///
    /// In nginx's words: files that do not load, a cipher string that selects nothing, an
    /// unknown command, group or protocol.
    pub fn build(settings: &ClientSettings) -> Result<(Self, Vec<Warning>), SettingsError> {
        let mut warnings = Vec::new();
        let policy = Policy::for_client(settings, &mut warnings)?;
        let offer = Parameters::new(&policy, &mut warnings)?;
        let mut builder = ClientContext::builder().map_err(library_error)?;
        builder
            .set_protocol_range(offer.min, offer.max)
            .map_err(library_error)?;
        if !offer.suites.is_empty() {
            builder
                .set_cipher_list(&join(offer.suites.iter().map(|suite| suite.name)))
                .map_err(library_error)?;
        }
        builder
            .set_ciphersuites(&join(offer.tls13_suites.iter().map(|(_, name)| *name)))
            .map_err(library_error)?;
        builder
            .set_groups(offer.groups.groups())
            .map_err(library_error)?;
        match &policy.signature_algorithms {
            Some(algorithms) => builder.set_signature_algorithms(algorithms),
            None => builder.set_accepted_schemes(signatures::OF_SERVERS),
        }
        .map_err(library_error)?;
        if !settings.alpn.is_empty() {
            builder.set_alpn(&settings.alpn).map_err(library_error)?;
        }
        builder.set_sessions_kept(settings.session_reuse);
        builder.set_tickets_enabled(settings.session_reuse && offer.tickets);
        if let Some(verifier) = verifier(settings, &mut warnings)? {
            builder.set_verifier(verifier);
        }
        let tls = Self {
            shared: Arc::new(Shared {
                context: builder.build().map_err(library_error)?,
                directives: settings.directives,
                ktls: settings.ktls.policy(policy.ktls),
                server_name: settings.server_name,
                verify: settings.verify,
                session_reuse: settings.session_reuse,
                fingerprint: fingerprint(settings),
            }),
            identity: settings
                .identity
                .as_ref()
                .map(|identity| ClientIdentity::load(identity, settings.handshakes.as_deref()))
                .transpose()?,
        };
        Ok((tls, warnings))
    }

    /// The same with a different certificate for servers that ask for one, or with none. Used where
    /// `proxy_ssl_certificate` has variables. Nothing is rebuilt.
    #[must_use]
    pub fn with_identity(&self, identity: Option<ClientIdentity>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            identity,
        }
    }

    /// Starts a connection. `name` is `proxy_ssl_name` or the host of the pass directive, from
    /// which a port is removed. It is sent if `proxy_ssl_server_name` says so and it is not an
    /// address. It is compared with the certificate if `proxy_ssl_verify` says so.
    ///
    /// `session` comes from [`SessionCache::get`](super::SessionCache::get). A session made under
    /// another name, with other settings or with another client certificate is not offered.
    ///
    /// # Errors
    ///
    /// When the name cannot be sent (longer than 255 bytes), or without memory.
    pub fn connect(
        &self,
        name: Option<&str>,
        session: Option<&Session>,
    ) -> Result<Connection, Error> {
        let host = name::without_port(name.unwrap_or(""));
        let mut tls = awslc::ClientConnection::unnamed(&self.shared.context)?;
        if self.shared.server_name
            && let Some(sent) = name::server_name(host)
        {
            tls.send_name(sent)?;
        }
        if self.shared.verify {
            tls.expect_name(name::expected(host));
        }
        if let Some(identity) = &self.identity {
            tls.set_identity(identity.library())?;
        }
        let binding = self.binding(host);
        if let Some(session) = session
            && *session.binding() == binding
        {
            tls.set_session(session.library())?;
        }
        let key = self.identity.as_ref().and_then(ClientIdentity::key);
        let signing = key.map(|key| Box::new(Signing::new(Arc::clone(key))));
        Ok(Connection::new(
            tls,
            binding,
            signing,
            Arc::clone(&self.shared),
        ))
    }

    /// Whether sessions are reused (`proxy_ssl_session_reuse`).
    pub fn reuses_sessions(&self) -> bool {
        self.shared.session_reuse
    }

    /// `proxy_ssl_ktls` in force, whatever the kernel can do.
    pub fn ktls_mode(&self) -> KtlsMode {
        self.shared.ktls.mode
    }

    /// What a session with this server belongs to.
    pub(super) fn binding(&self, host: &str) -> Binding {
        Binding {
            settings: self.shared.fingerprint,
            identity: self
                .identity
                .as_ref()
                .map_or([0; 32], |identity| *identity.fingerprint()),
            host: host.into(),
        }
    }
}

/// The verifier, if certificates are verified.
fn verifier(
    settings: &ClientSettings,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Verifier>, SettingsError> {
    let directives = settings.directives;
    let load_error = |kind: &str, file: &PemFile, error: &dyn std::fmt::Display| {
        SettingsError::new(format!("cannot load {kind} \"{}\": {error}", file.label))
    };
    let mut builder = VerifierBuilder::new(settings.verify_depth).map_err(library_error)?;
    if let Some(trusted) = &settings.trusted {
        let bundle = CertificateChain::bundle_from_pem(&trusted.pem)
            .map_err(|error| load_error("certificate", trusted, &error))?;
        builder.add_trusted(&bundle).map_err(library_error)?;
    } else if settings.verify {
        return Err(SettingsError::new(format!(
            "no {directives}_trusted_certificate for {directives}_verify"
        )));
    }
    if let Some(lists) = &settings.revocation_lists {
        builder
            .add_revocation_lists(&lists.pem)
            .map_err(|error| load_error("CRL", lists, &error))?;
        if !settings.verify {
            warnings.push(Warning::new(format!(
                "\"{directives}_crl\" has no effect without \"{directives}_verify on\""
            )));
        }
    }
    Ok(settings.verify.then(|| builder.build()))
}

/// Hash of everything in `settings` that decides whether a session may be reused, so that sessions
/// survive a reload that changes nothing.
fn fingerprint(settings: &ClientSettings) -> [u8; 32] {
    let ClientSettings {
        directives: _,
        protocols,
        ciphers,
        conf_commands,
        server_name,
        verify,
        verify_depth,
        trusted,
        revocation_lists,
        identity: _, // it has a fingerprint of its own
        handshakes: _,
        session_reuse: _,
        alpn,
        ktls: _, // who seals makes no difference to a session
    } = settings;
    let pem = |file: &Option<PemFile>| file.as_ref().map(|file| sha256(&file.pem));
    let text = format!(
        "{protocols:?} {ciphers:?} {conf_commands:?} {server_name} {verify} {verify_depth} {:?} {:?} {alpn:?}",
        pem(trusted),
        pem(revocation_lists)
    );
    sha256(text.as_bytes())
}

pub(super) fn library_error(error: awslc::Error) -> SettingsError {
    SettingsError::new(error.to_string())
}
