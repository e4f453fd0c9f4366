//! TLS for one connection and those that resume its session, and what can be seen of it.

use crate::{Failure, Script};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
    WebPkiServerVerifier,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, NamedGroup, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the hooks of rustls have seen.
#[derive(Debug)]
pub struct Seen {
    tickets: AtomicU64,
    /// A server with a session to resume sends none.
    certificate: AtomicBool,
}

impl Seen {
    pub fn tickets(&self) -> u64 {
        self.tickets.load(Ordering::Relaxed)
    }

    pub fn certificate(&self) -> bool {
        self.certificate.load(Ordering::Relaxed)
    }

    pub fn forget_certificate(&self) {
        self.certificate.store(false, Ordering::Relaxed);
    }
}

/// Settings without a session and without a token.
pub fn settings(script: &Script) -> Result<(quinn::ClientConfig, Arc<Seen>), Failure> {
    let seen = Arc::new(Seen {
        tickets: AtomicU64::new(0),
        certificate: AtomicBool::new(false),
    });
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&script.authority)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let verifier = Arc::new(Verifier(verifier, seen.clone()));
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let protocol = script.alpn.as_deref().unwrap_or("h3");
    tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    tls.enable_early_data = true;
    let sessions = Sessions(ClientSessionMemoryCache::new(8), seen.clone());
    tls.resumption = rustls::client::Resumption::store(Arc::new(sessions));
    let mut settings = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let mut transport = quinn::TransportConfig::default();
    if let Some(window) = script.receive_window {
        transport.stream_receive_window(window.into());
        transport.receive_window(window.into());
    }
    settings.transport_config(Arc::new(transport));
    Ok((settings, seen))
}

/// rustls' own verifier, and a note that there was a certificate.
#[derive(Debug)]
struct Verifier(Arc<WebPkiServerVerifier>, Arc<Seen>);

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        staple: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.1.certificate.store(true, Ordering::Relaxed);
        self.0
            .verify_server_cert(certificate, intermediates, name, staple, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// rustls' own store, and a count of tickets.
#[derive(Debug)]
struct Sessions(ClientSessionMemoryCache, Arc<Seen>);

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(name)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.0.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.1.tickets.fetch_add(1, Ordering::Relaxed);
        self.0.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(name)
    }
}
