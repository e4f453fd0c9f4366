//! `@SECLEVEL=n` and its effects.
//!
//! Without it no level applies: the operator's other settings say what is allowed, so that TLS 1.0
//! works where it is configured. With it the effects are those of OpenSSL 3 (`man
//! SSL_CTX_set_security_level`).

use sealane_awslc::{KeyKind, ProtocolVersion};

use super::suite::{
    Suite, auth::A_NULL, exchange::K_DHE, exchange::K_ECDHE, mac::M_MD5, mac::M_SHA1,
};

/// OpenSSL's security level, 0 to 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecurityLevel(u8);

impl SecurityLevel {
    /// The level `n`; values above 5 count as 5.
    pub fn new(n: u8) -> Self {
        Self(n.min(5))
    }

    /// The number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Security bits that everything must reach.
    fn min_bits(self) -> u16 {
        [0, 80, 112, 128, 192, 256][usize::from(self.0)]
    }

    /// Whether a suite of TLS 1.2 or below may be used.
    pub fn permits_suite(self, suite: &Suite) -> bool {
        if self.0 == 0 {
            return true;
        }
        let min_bits = self.min_bits();
        suite.strength_bits() >= min_bits
            && suite.auth & A_NULL == 0
            && suite.mac & M_MD5 == 0
            && !(min_bits > 160 && suite.mac & M_SHA1 != 0)
            && !(self.0 >= 3 && suite.exchange & (K_DHE | K_ECDHE) == 0)
    }

    /// Whether a TLS 1.3 suite with keys of this many bits may be used.
    pub fn permits_tls13_bits(self, bits: u16) -> bool {
        bits >= self.min_bits()
    }

    /// TLS 1.0 and 1.1 sign with SHA-1, which no level above 0 allows.
    pub fn permits_protocol(self, version: ProtocolVersion) -> bool {
        self.0 == 0 || version >= ProtocolVersion::Tls12
    }

    /// With tickets, forward secrecy depends on a single key.
    pub fn permits_tickets(self) -> bool {
        self.0 < 3
    }

    /// Whether a certificate with such a key may be shown.
    pub fn permits_key(self, kind: KeyKind, bits: u32) -> bool {
        security_bits(kind, bits) >= self.min_bits()
    }

    /// Whether a key exchange with this many security bits may be used.
    pub fn permits_group_bits(self, bits: u16) -> bool {
        bits >= self.min_bits()
    }
}

/// Security bits of a key (NIST SP 800-57 part 1, table 2).
fn security_bits(kind: KeyKind, bits: u32) -> u16 {
    match kind {
        KeyKind::Rsa => match bits {
            15360.. => 256,
            7680.. => 192,
            3072.. => 128,
            2048.. => 112,
            1024.. => 80,
            _ => 0,
        },
        KeyKind::Ed25519 => 128,
        _ => u16::try_from(bits / 2).unwrap_or(u16::MAX),
    }
}
