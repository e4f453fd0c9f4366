//! One suite and the attributes that cipher strings select by, as bit masks in
//! the way of OpenSSL's own table.

use sealane_sys::ktls::Cipher;

/// The lowest protocol that a suite is defined for. `TLSv1.2` in a cipher string means the suites
/// that need it, not those that work with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MinVersion {
    Ssl3,
    Tls10,
    Tls12,
}

/// Key exchange.
pub(super) mod exchange {
    pub(crate) const K_RSA: u16 = 1;
    pub(crate) const K_DHE: u16 = 1 << 1;
    pub(crate) const K_ECDHE: u16 = 1 << 2;
    pub(crate) const K_PSK: u16 = 1 << 3;
    pub(crate) const K_RSAPSK: u16 = 1 << 4;
    pub(crate) const K_DHEPSK: u16 = 1 << 5;
    pub(crate) const K_ECDHEPSK: u16 = 1 << 6;
    pub(crate) const K_SRP: u16 = 1 << 7;
    pub(crate) const K_ANY_PSK: u16 = K_PSK | K_RSAPSK | K_DHEPSK | K_ECDHEPSK;
}

/// Authentication.
pub(super) mod auth {
    pub(crate) const A_RSA: u16 = 1;
    pub(crate) const A_DSS: u16 = 1 << 1;
    pub(crate) const A_NULL: u16 = 1 << 2;
    pub(crate) const A_ECDSA: u16 = 1 << 3;
    pub(crate) const A_PSK: u16 = 1 << 4;
    pub(crate) const A_SRP: u16 = 1 << 5;
}

/// Encryption.
pub(super) mod encryption {
    pub(crate) const E_NULL: u32 = 1;
    pub(crate) const E_AES128: u32 = 1 << 1;
    pub(crate) const E_AES256: u32 = 1 << 2;
    pub(crate) const E_AES128GCM: u32 = 1 << 3;
    pub(crate) const E_AES256GCM: u32 = 1 << 4;
    pub(crate) const E_AES128CCM: u32 = 1 << 5;
    pub(crate) const E_AES256CCM: u32 = 1 << 6;
    pub(crate) const E_AES128CCM8: u32 = 1 << 7;
    pub(crate) const E_AES256CCM8: u32 = 1 << 8;
    pub(crate) const E_CAMELLIA128: u32 = 1 << 9;
    pub(crate) const E_CAMELLIA256: u32 = 1 << 10;
    pub(crate) const E_ARIA128GCM: u32 = 1 << 11;
    pub(crate) const E_ARIA256GCM: u32 = 1 << 12;
    pub(crate) const E_CHACHA20: u32 = 1 << 13;
    /// No suite of the table has it.
    pub(crate) const E_3DES: u32 = 1 << 14;

    pub(crate) const E_AESGCM: u32 = E_AES128GCM | E_AES256GCM;
    pub(crate) const E_AESCCM: u32 = E_AES128CCM | E_AES256CCM | E_AES128CCM8 | E_AES256CCM8;
    pub(crate) const E_AES: u32 = E_AES128 | E_AES256 | E_AESGCM | E_AESCCM;
    pub(crate) const E_CBC: u32 = E_AES128 | E_AES256 | E_CAMELLIA128 | E_CAMELLIA256;
    pub(crate) const E_ALL: u32 = !0;
}

/// Message authentication.
pub(super) mod mac {
    pub(crate) const M_MD5: u16 = 1;
    pub(crate) const M_SHA1: u16 = 1 << 1;
    pub(crate) const M_SHA256: u16 = 1 << 2;
    pub(crate) const M_SHA384: u16 = 1 << 3;
    pub(crate) const M_AEAD: u16 = 1 << 4;
}

/// Strength class and membership of the default list.
pub(super) mod strength {
    pub(crate) const LOW: u8 = 1;
    pub(crate) const MEDIUM: u8 = 1 << 1;
    pub(crate) const HIGH: u8 = 1 << 2;
    pub(crate) const FIPS: u8 = 1 << 3;
    pub(crate) const NOT_DEFAULT: u8 = 1 << 4;
}

/// A suite of TLS 1.2 or below.
#[derive(Debug, PartialEq, Eq)]
pub struct Suite {
    /// IANA number.
    pub id: u16,
    /// OpenSSL's name.
    pub name: &'static str,
    /// IANA name.
    pub standard_name: &'static str,
    pub(crate) min_version: MinVersion,
    pub(crate) exchange: u16,
    pub(crate) auth: u16,
    pub(crate) encryption: u32,
    pub(crate) mac: u16,
    pub(crate) strength: u8,
}

impl Suite {
    /// Security of the encryption in bits.
    pub fn strength_bits(&self) -> u16 {
        use encryption::*;
        match self.encryption {
            E_NULL => 0,
            // The tag has 64 bits, but OpenSSL 3.0 counts the key.
            E_AES128 | E_AES128GCM | E_AES128CCM | E_AES128CCM8 | E_CAMELLIA128 | E_ARIA128GCM => {
                128
            }
            _ => 256,
        }
    }

    /// Whether it needs TLS 1.2.
    pub fn needs_tls12(&self) -> bool {
        self.min_version == MinVersion::Tls12
    }

    /// Whether the keys are ephemeral Diffie-Hellman on an elliptic curve.
    pub fn is_ecdhe(&self) -> bool {
        self.exchange == exchange::K_ECDHE
    }

    /// Whether the server shows an RSA certificate.
    pub fn uses_rsa_certificate(&self) -> bool {
        self.auth == auth::A_RSA
    }

    /// Whether the server shows an ECDSA (or Ed25519) certificate.
    pub fn uses_ecdsa_certificate(&self) -> bool {
        self.auth == auth::A_ECDSA
    }

    /// The cipher of its records, if kernels support it.
    pub fn record_cipher(&self) -> Option<Cipher> {
        match self.encryption {
            encryption::E_AES128GCM => Some(Cipher::Aes128Gcm),
            encryption::E_AES256GCM => Some(Cipher::Aes256Gcm),
            encryption::E_CHACHA20 => Some(Cipher::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// Whether it encrypts with ChaCha20-Poly1305.
    pub fn is_chacha20(&self) -> bool {
        self.encryption == encryption::E_CHACHA20
    }
}

/// A row of the table, in one line.
#[allow(clippy::too_many_arguments)]
pub(super) const fn row(
    id: u16,
    name: &'static str,
    standard_name: &'static str,
    min_version: MinVersion,
    exchange: u16,
    auth: u16,
    encryption: u32,
    mac: u16,
    strength: u8,
) -> Suite {
    Suite {
        id,
        name,
        standard_name,
        min_version,
        exchange,
        auth,
        encryption,
        mac,
        strength,
    }
}
