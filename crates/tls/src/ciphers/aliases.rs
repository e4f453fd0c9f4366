//! The words of cipher strings that select many suites.

use super::suite::MinVersion::{self, Ssl3, Tls10, Tls12};
use super::suite::{auth::*, encryption::*, exchange::*, mac::*, strength::*};

/// What a term selects. A suite matches if it shares a bit with every mask that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    /// A suite named exactly.
    pub(super) id: Option<u16>,
    pub(super) exchange: u16,
    pub(super) auth: u16,
    pub(super) encryption: u32,
    pub(super) mac: u16,
    pub(super) min_version: Option<MinVersion>,
    /// LOW, MEDIUM, HIGH, FIPS.
    pub(super) strength: u8,
    pub(super) not_default: bool,
}

/// Selects everything.
pub(super) const ANY: Selector = Selector {
    id: None,
    exchange: 0,
    auth: 0,
    encryption: 0,
    mac: 0,
    min_version: None,
    strength: 0,
    not_default: false,
};

const fn exchange(exchange: u16) -> Selector {
    Selector { exchange, ..ANY }
}

const fn auth(auth: u16) -> Selector {
    Selector { auth, ..ANY }
}

const fn encryption(encryption: u32) -> Selector {
    Selector { encryption, ..ANY }
}

const fn mac(mac: u16) -> Selector {
    Selector { mac, ..ANY }
}

const fn version(version: MinVersion) -> Selector {
    Selector {
        min_version: Some(version),
        ..ANY
    }
}

const fn strength(strength: u8) -> Selector {
    Selector { strength, ..ANY }
}

const fn both(exchange: u16, auth: u16) -> Selector {
    Selector {
        exchange,
        auth,
        ..ANY
    }
}

/// The aliases of OpenSSL 3 (`man openssl-ciphers`, "CIPHER STRINGS") for which its default build
/// has suites, and 3DES, which it knows but has no suites for. All others (RC4, SEED, GOST, ...)
/// are unknown words, so they select nothing.
#[rustfmt::skip]
pub(super) static ALIASES: &[(&str, Selector)] = &[
    ("ALL", encryption(E_ALL & !E_NULL)),
    ("COMPLEMENTOFALL", encryption(E_NULL)),
    ("COMPLEMENTOFDEFAULT", Selector { not_default: true, ..ANY }),
    ("kRSA", exchange(K_RSA)),
    ("kEDH", exchange(K_DHE)),
    ("kDHE", exchange(K_DHE)),
    ("DH", exchange(K_DHE)),
    ("kEECDH", exchange(K_ECDHE)),
    ("kECDHE", exchange(K_ECDHE)),
    ("ECDH", exchange(K_ECDHE)),
    ("kPSK", exchange(K_PSK)),
    ("kRSAPSK", exchange(K_RSAPSK)),
    ("kECDHEPSK", exchange(K_ECDHEPSK)),
    ("kDHEPSK", exchange(K_DHEPSK)),
    ("kSRP", exchange(K_SRP)),
    ("aRSA", auth(A_RSA)),
    ("aDSS", auth(A_DSS)),
    ("DSS", auth(A_DSS)),
    ("aNULL", auth(A_NULL)),
    ("aECDSA", auth(A_ECDSA)),
    ("ECDSA", auth(A_ECDSA)),
    ("aPSK", auth(A_PSK)),
    ("aSRP", auth(A_SRP)),
    ("EDH", both(K_DHE, !A_NULL)),
    ("DHE", both(K_DHE, !A_NULL)),
    ("EECDH", both(K_ECDHE, !A_NULL)),
    ("ECDHE", both(K_ECDHE, !A_NULL)),
    ("NULL", encryption(E_NULL)),
    ("RSA", both(K_RSA, A_RSA)),
    ("ADH", both(K_DHE, A_NULL)),
    ("AECDH", both(K_ECDHE, A_NULL)),
    ("PSK", exchange(K_ANY_PSK)),
    ("SRP", exchange(K_SRP)),
    ("3DES", encryption(E_3DES)),
    ("eNULL", encryption(E_NULL)),
    ("AES128", encryption(E_AES128 | E_AES128GCM | E_AES128CCM | E_AES128CCM8)),
    ("AES256", encryption(E_AES256 | E_AES256GCM | E_AES256CCM | E_AES256CCM8)),
    ("AES", encryption(E_AES)),
    ("AESGCM", encryption(E_AESGCM)),
    ("AESCCM", encryption(E_AESCCM)),
    ("AESCCM8", encryption(E_AES128CCM8 | E_AES256CCM8)),
    ("CAMELLIA128", encryption(E_CAMELLIA128)),
    ("CAMELLIA256", encryption(E_CAMELLIA256)),
    ("CAMELLIA", encryption(E_CAMELLIA128 | E_CAMELLIA256)),
    ("CHACHA20", encryption(E_CHACHA20)),
    ("ARIA", encryption(E_ARIA128GCM | E_ARIA256GCM)),
    ("ARIAGCM", encryption(E_ARIA128GCM | E_ARIA256GCM)),
    ("ARIA128", encryption(E_ARIA128GCM)),
    ("ARIA256", encryption(E_ARIA256GCM)),
    ("CBC", encryption(E_CBC)),
    ("MD5", mac(M_MD5)),
    ("SHA1", mac(M_SHA1)),
    ("SHA", mac(M_SHA1)),
    ("SHA256", mac(M_SHA256)),
    ("SHA384", mac(M_SHA384)),
    ("SSLv3", version(Ssl3)),
    ("TLSv1", version(Tls10)),
    ("TLSv1.0", version(Tls10)),
    ("TLSv1.2", version(Tls12)),
    ("LOW", strength(LOW)),
    ("MEDIUM", strength(MEDIUM)),
    ("HIGH", strength(HIGH)),
    ("FIPS", Selector { strength: FIPS, encryption: E_ALL & !E_NULL, ..ANY }),
];
