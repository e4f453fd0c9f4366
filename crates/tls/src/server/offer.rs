//! The suites that a server offers.

use sealane_awslc::{KeyKind, ProtocolVersion};
use sealane_sys::ktls::{Cipher, Version};

use super::ServerTls;
use crate::ciphers::Suite;
use crate::ktls::OfferedSuite;

impl ServerTls {
    /// The suites that a client can get from this server: configured, possible with its protocols,
    /// and usable with one of its certificates. TLS 1.3 first.
    pub fn offered_suites(&self) -> Vec<OfferedSuite> {
        let rules = self.rules();
        let mut offered = Vec::new();
        if rules.max >= ProtocolVersion::Tls13 {
            offered.extend(rules.tls13_suites.iter().map(|(id, name)| OfferedSuite {
                name,
                kernel: tls13_cipher(*id).map(|cipher| (Version::Tls13, cipher)),
            }));
        }
        let has_protocol = |suite: &Suite| {
            let lowest = if suite.needs_tls12() {
                ProtocolVersion::Tls12
            } else {
                rules.min
            };
            rules.min <= ProtocolVersion::Tls12 && rules.max >= lowest
        };
        let has_certificate = |suite: &Suite| {
            let Some(kinds) = self.kinds() else {
                return true;
            };
            kinds.iter().any(|kind| match kind {
                KeyKind::Rsa => suite.uses_rsa_certificate(),
                _ => suite.uses_ecdsa_certificate(),
            })
        };
        let older = rules.suites.iter().filter(|suite| has_protocol(suite));
        offered.extend(
            older
                .filter(|suite| has_certificate(suite))
                .map(|suite| OfferedSuite {
                    name: suite.name,
                    kernel: suite.record_cipher().map(|cipher| (Version::Tls12, cipher)),
                }),
        );
        offered
    }
}

fn tls13_cipher(id: u16) -> Option<Cipher> {
    match id {
        0x1301 => Some(Cipher::Aes128Gcm),
        0x1302 => Some(Cipher::Aes256Gcm),
        0x1303 => Some(Cipher::ChaCha20Poly1305),
        _ => None,
    }
}
