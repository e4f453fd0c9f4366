//! The data for the `$ssl_*` variables of a connection.

use std::fmt::Write;
use std::sync::Arc;

use sealane_awslc as awslc;

use crate::ciphers::suite_name;
use crate::client_hello::ClientOffer;
use crate::ech::EchOutcome;
use crate::groups::openssl_name;
use crate::identities::CertificateAlgorithms;
use crate::server::SentCertificate;
use crate::sessions::outcome::SessionOutcome;
use crate::sessions::stats::{EarlyVerdict, Missed, Resumed};

/// A view of what was negotiated, in nginx's notation.
#[derive(Clone, Copy, Debug)]
pub struct Info<'a> {
    tls: &'a awslc::Connection,
    client_offer: Option<&'a ClientOffer>,
    ech: &'a EchOutcome,
    session: SessionOutcome,
    certificate: &'a SentCertificate,
}

impl<'a> Info<'a> {
    pub(crate) fn new(
        tls: &'a awslc::Connection,
        client_offer: Option<&'a ClientOffer>,
        ech: &'a EchOutcome,
        session: SessionOutcome,
        certificate: &'a SentCertificate,
    ) -> Self {
        Self {
            tls,
            client_offer,
            ech,
            session,
            certificate,
        }
    }

    /// The algorithms of the certificate that the client was sent, now or with the session that it
    /// resumes; `None` if another process has chosen the certificate.
    pub fn certificate_algorithms(&self) -> Option<&'a Arc<CertificateAlgorithms>> {
        self.certificate.algorithms()
    }

    /// `$ssl_protocol`: `TLSv1.3`.
    pub fn protocol(&self) -> &'static str {
        self.tls.protocol()
    }

    /// `$ssl_cipher`: OpenSSL's name; empty before it is negotiated.
    pub fn cipher(&self) -> &'static str {
        self.tls.cipher().map_or("", awslc::Cipher::name)
    }

    /// `$ssl_ciphers`: the suites that the client offered, known ones by name, others as `0x1a1a`,
    /// separated by `:`. Empty on resumption in TLS 1.2; as in nginx, only a full handshake is sure
    /// to have it.
    pub fn ciphers(&self) -> String {
        let suites = self.tls.client_cipher_suites().chunks_exact(2);
        join(
            suites.map(|pair| u16::from_be_bytes([pair[0], pair[1]])),
            suite_name,
        )
    }

    /// `$ssl_curve`: the group of the key exchange; empty with static RSA.
    pub fn curve(&self) -> &'static str {
        self.tls
            .group()
            .and_then(|group| openssl_name(group.id))
            .unwrap_or("")
    }

    /// `$ssl_curves`: the groups that the client offered; empty unless the server's settings ask to
    /// remember them.
    pub fn curves(&self) -> String {
        let offer = self.client_offer;
        offer.map_or_else(String::new, ClientOffer::curves)
    }

    /// `$ssl_ja4`: JA4, a fingerprint of the client; empty unless the server's settings say to
    /// remember the offer.
    pub fn ja4(&self) -> &'a str {
        self.client_offer.map_or("", |offer| &offer.ja4)
    }

    /// `$ssl_ech_status`: `SUCCESS`, `GREASE` or `NOT_TRIED`.
    pub fn ech_status(&self) -> &'static str {
        self.ech.name()
    }

    /// `$ssl_ech_outer_server_name`: the name outside of an encrypted hello; empty unless it was
    /// opened.
    pub fn ech_outer_server_name(&self) -> &'a str {
        match self.ech {
            EchOutcome::Accepted { outer_name } => outer_name,
            _ => "",
        }
    }

    /// `$ssl_sigalgs`: the signature schemes that the client accepts; empty unless the server's
    /// settings ask to remember them.
    pub fn sigalgs(&self) -> String {
        let offer = self.client_offer;
        offer.map_or_else(String::new, ClientOffer::sigalgs)
    }

    /// `$ssl_sigalg`: the scheme of the server's signature, `rsa_pss_rsae_sha256`;
    /// empty when nothing was signed.
    pub fn sigalg(&self) -> &'static str {
        let scheme = self.tls.signature_scheme();
        scheme
            .and_then(awslc::Connection::signature_scheme_name)
            .unwrap_or("")
    }

    /// `$ssl_session_id`: lower-case hexadecimal.
    pub fn session_id(&self) -> String {
        self.tls
            .session_id()
            .iter()
            .fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
    }

    /// `$ssl_session_reused`: `r` or `.`.
    pub fn session_reused(&self) -> &'static str {
        if self.tls.is_session_reused() {
            "r"
        } else {
            "."
        }
    }

    /// `$ssl_server_name`: as the client sent it; empty without SNI.
    pub fn server_name(&self) -> &'a str {
        self.tls.server_name().unwrap_or("")
    }

    /// `$ssl_alpn_protocol`: empty when none was negotiated.
    pub fn alpn(&self) -> &'a [u8] {
        self.tls.alpn()
    }

    /// `$ssl_early_data`: `1` while what is read is early data, empty otherwise.
    pub fn early_data(&self) -> &'static str {
        if self.tls.is_early_data() { "1" } else { "" }
    }

    /// How the session was resumed: `ticket`, `id`, `opaque` or `store`; empty
    /// after a full handshake.
    pub fn session_source(&self) -> &'static str {
        self.session.resumed().map_or("", Resumed::name)
    }

    /// Why the session that the client offered was not resumed; empty if it was resumed or none was
    /// offered.
    pub fn session_miss(&self) -> &'static str {
        self.session.missed().map_or("", Missed::name)
    }

    /// The outcome of early data; empty if none was offered or the server takes none.
    pub fn early_data_verdict(&self) -> &'static str {
        self.session.early_verdict().map_or("", EarlyVerdict::name)
    }
}

/// Known numbers by name, others as `0x1a1a`, separated by `:`.
pub(crate) fn join(
    numbers: impl Iterator<Item = u16>,
    name: impl Fn(u16) -> Option<&'static str>,
) -> String {
    let mut text = String::new();
    for number in numbers {
        if !text.is_empty() {
            text.push(':');
        }
        match name(number) {
            Some(name) => text.push_str(name),
            None => {
                let _ = write!(text, "0x{number:04x}");
            }
        }
    }
    text
}
