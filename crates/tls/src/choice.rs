//! Chooses what a client gets: a certificate it can verify, and the order of suites.
//!
//! libssl would choose too, but only within one `SSL_CTX` and, in TLS 1.3, always in the client's
//! order. The choice here follows OpenSSL. Below TLS 1.3 the first usable suite decides which
//! certificate is sent; in TLS 1.3 the first usable signature scheme does. "First" is in the
//! client's order unless `ssl_prefer_server_ciphers` is on.

use sealane_awslc::{KeyKind, ProtocolVersion};

use crate::ciphers::{Suite, suite_by_id};
use crate::client_hello::ClientHello;

/// What the choice depends on besides the client.
#[derive(Debug)]
pub(crate) struct ChoiceRules {
    pub(crate) min: ProtocolVersion,
    pub(crate) max: ProtocolVersion,
    /// Suites of TLS 1.2 and below, in the server's order.
    pub(crate) suites: Vec<&'static Suite>,
    /// Suites of TLS 1.3, in the server's order.
    pub(crate) tls13_suites: Vec<(u16, &'static str)>,
    /// Groups by number.
    pub(crate) groups: Vec<u16>,
    pub(crate) prefer_server: bool,
    pub(crate) prioritize_chacha: bool,
    /// Whether we sign with SHA-1 in TLS 1.2 if the client accepts nothing better.
    pub(crate) signs_with_sha1: bool,
}

const TLS13_CHACHA20: u16 = 0x1303;

/// Signature schemes in OpenSSL's order of preference.
const SERVER_SCHEMES: [u16; 7] = [0x0403, 0x0503, 0x0603, 0x0807, 0x0804, 0x0805, 0x0806];

impl ChoiceRules {
    /// The version libssl will negotiate; `None` if there is none in common.
    pub(crate) fn version(&self, hello: &ClientHello<'_>) -> Option<ProtocolVersion> {
        (self.min.wire()..=self.max.wire())
            .rev()
            .find(|wire| hello.offers_version(*wire))
            .and_then(ProtocolVersion::from_wire)
    }

    /// Whether ChaCha20 goes first for this client: it is the client's own first choice and
    /// `PrioritizeChaCha` is on.
    pub(crate) fn chacha_first(&self, hello: &ClientHello<'_>) -> bool {
        if !(self.prefer_server && self.prioritize_chacha) {
            return false;
        }
        // Numbers unknown to OpenSSL (GREASE, signalling values) do not count as a first choice.
        let known = |id: u16| (0x1301..=0x1303).contains(&id) || suite_by_id(id).is_some();
        hello
            .suites()
            .find(|id| known(*id))
            .is_some_and(is_chacha20)
    }

    /// The TLS 1.3 suite to insist on; `None` if libssl's own choice, the first permitted suite in
    /// the client's order, is right.
    pub(crate) fn tls13_suite(&self, hello: &ClientHello<'_>) -> Option<&'static str> {
        if !self.prefer_server {
            return None;
        }
        let offered = |id: u16| hello.suites().any(|suite| suite == id);
        let chacha = self.chacha_first(hello).then_some(TLS13_CHACHA20);
        let ours = chacha
            .and_then(|id| self.tls13_suites.iter().find(|(suite, _)| *suite == id))
            .or_else(|| self.tls13_suites.iter().find(|(id, _)| offered(*id)))?;
        let theirs = hello
            .suites()
            .find(|id| self.tls13_suites.iter().any(|(suite, _)| suite == id))?;
        (theirs != ours.0).then_some(ours.1)
    }

    /// Which certificate (by kind of key) to send. Falls back to the first, with which libssl will
    /// tell the client what is missing.
    pub(crate) fn identity(&self, kinds: &[KeyKind], hello: &ClientHello<'_>) -> usize {
        if kinds.len() <= 1 {
            return 0;
        }
        let chosen = match self.version(hello) {
            Some(ProtocolVersion::Tls13) => self.identity_by_scheme(kinds, hello),
            Some(version) => self.identity_by_suite(kinds, hello, version),
            None => None,
        };
        chosen.unwrap_or(0)
    }

    fn identity_by_scheme(&self, kinds: &[KeyKind], hello: &ClientHello<'_>) -> Option<usize> {
        let of = |scheme: u16| {
            kinds
                .iter()
                .position(|kind| tls13_schemes(*kind).contains(&scheme))
        };
        if self.prefer_server {
            let accepted = |scheme: &u16| {
                hello
                    .signature_schemes()
                    .is_some_and(|mut all| all.any(|one| one == *scheme))
            };
            SERVER_SCHEMES.into_iter().filter(accepted).find_map(of)
        } else {
            hello.signature_schemes()?.find_map(of)
        }
    }

    fn identity_by_suite(
        &self,
        kinds: &[KeyKind],
        hello: &ClientHello<'_>,
        version: ProtocolVersion,
    ) -> Option<usize> {
        self.by_suite(kinds, hello, version)
            .map(|(identity, _)| identity)
    }

    /// Whether the first flight of a full handshake is signed: always in TLS 1.3, and below it with
    /// an ephemeral key exchange. The RSA key exchange needs the key later.
    pub(crate) fn signs_first_flight(&self, kinds: &[KeyKind], hello: &ClientHello<'_>) -> bool {
        match self.version(hello) {
            Some(ProtocolVersion::Tls13) => true,
            Some(version) => self
                .by_suite(kinds, hello, version)
                .is_some_and(|(_, suite)| suite.is_ecdhe()),
            None => false,
        }
    }

    /// The identity and the suite that a client below TLS 1.3 gets.
    fn by_suite(
        &self,
        kinds: &[KeyKind],
        hello: &ClientHello<'_>,
        version: ProtocolVersion,
    ) -> Option<(usize, &'static Suite)> {
        let usable = |suite: &'static Suite| {
            if suite.needs_tls12() && version < ProtocolVersion::Tls12 {
                return None;
            }
            if suite.is_ecdhe() && !self.shares_group(hello) {
                return None;
            }
            let mut kinds = kinds.iter();
            let identity = kinds.position(|kind| self.serves(*kind, suite, hello, version));
            identity.map(|identity| (identity, suite))
        };
        if self.prefer_server {
            let offered = |suite: &&Suite| hello.suites().any(|id| id == suite.id);
            self.suites.iter().copied().filter(offered).find_map(usable)
        } else {
            let configured = |id: u16| self.suites.iter().copied().find(|suite| suite.id == id);
            hello.suites().filter_map(configured).find_map(usable)
        }
    }

    /// Without the extension any group may be used (RFC 8422 section 4).
    fn shares_group(&self, hello: &ClientHello<'_>) -> bool {
        hello
            .groups()
            .is_none_or(|mut offered| offered.any(|id| self.groups.contains(&id)))
    }

    /// Whether a key can serve a suite below TLS 1.3 and the client can verify it.
    fn serves(
        &self,
        kind: KeyKind,
        suite: &Suite,
        hello: &ClientHello<'_>,
        version: ProtocolVersion,
    ) -> bool {
        match kind {
            KeyKind::Rsa => {
                suite.uses_rsa_certificate()
                    && (!suite.is_ecdhe() || self.accepts(kind, hello, version))
            }
            KeyKind::Ed25519 => {
                suite.uses_ecdsa_certificate()
                    && version >= ProtocolVersion::Tls12
                    && self.accepts(kind, hello, version)
            }
            _ => {
                // The client must know the curve of the certificate as well.
                let knows_curve = hello
                    .groups()
                    .is_none_or(|mut groups| groups.any(|id| Some(id) == curve(kind)));
                suite.uses_ecdsa_certificate() && knows_curve && self.accepts(kind, hello, version)
            }
        }
    }

    /// Whether the client accepts a signature by such a key. TLS 1.2 without the extension, and
    /// earlier versions, sign with SHA-1 whatever the key.
    fn accepts(&self, kind: KeyKind, hello: &ClientHello<'_>, version: ProtocolVersion) -> bool {
        if version < ProtocolVersion::Tls12 {
            return true;
        }
        let Some(mut schemes) = hello.signature_schemes() else {
            return self.signs_with_sha1 && kind != KeyKind::Ed25519;
        };
        schemes.any(|scheme| {
            tls12_schemes(kind).contains(&scheme) && (self.signs_with_sha1 || !is_sha1(scheme))
        })
    }
}

fn is_chacha20(id: u16) -> bool {
    id == TLS13_CHACHA20 || suite_by_id(id).is_some_and(Suite::is_chacha20)
}

/// `rsa_pkcs1_sha1` and `ecdsa_sha1`.
fn is_sha1(scheme: u16) -> bool {
    matches!(scheme, 0x0201 | 0x0203)
}

fn tls13_schemes(kind: KeyKind) -> &'static [u16] {
    match kind {
        KeyKind::Rsa => &[0x0804, 0x0805, 0x0806],
        KeyKind::EcP256 => &[0x0403],
        KeyKind::EcP384 => &[0x0503],
        KeyKind::EcP521 => &[0x0603],
        KeyKind::Ed25519 => &[0x0807],
        KeyKind::Other => &[],
    }
}

fn tls12_schemes(kind: KeyKind) -> &'static [u16] {
    match kind {
        KeyKind::Rsa => &[0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601, 0x0201],
        // Below TLS 1.3 the scheme does not bind the curve.
        KeyKind::EcP256 | KeyKind::EcP384 | KeyKind::EcP521 => &[0x0403, 0x0503, 0x0603, 0x0203],
        KeyKind::Ed25519 => &[0x0807],
        KeyKind::Other => &[],
    }
}

fn curve(kind: KeyKind) -> Option<u16> {
    match kind {
        KeyKind::EcP256 => Some(23),
        KeyKind::EcP384 => Some(24),
        KeyKind::EcP521 => Some(25),
        _ => None,
    }
}
