//! `ssl_ciphers`: OpenSSL's cipher strings, evaluated here into an explicit list.
//!
//! AWS-LC reads only part of the language (`HIGH` at the start only, no `@SECLEVEL`, unknown names
//! are errors). So it never gets the string itself, but the result, restricted to the suites that
//! AWS-LC has.

mod aliases;
mod language;
mod security_level;
mod suite;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use sealane_awslc::Cipher;

pub use security_level::SecurityLevel;
pub use suite::Suite;

use table::SUITES;

/// The suites of TLS 1.3, in OpenSSL's default order.
pub const TLS13_SUITES: [(u16, &str); 3] = [
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1301, "TLS_AES_128_GCM_SHA256"),
];

/// A cipher string after evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CipherList {
    suites: Vec<&'static Suite>,
    level: Option<SecurityLevel>,
}

/// Why a cipher string was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherStringError {
    /// An operator or a byte that the language does not have.
    InvalidCommand,
    /// Nothing in the string selects a suite that OpenSSL knows.
    NoCipherMatch,
    /// It selects suites, but none that AWS-LC has.
    NoneSupported,
}

impl fmt::Display for CipherStringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidCommand => "error:0A000118:SSL routines::invalid command",
            Self::NoCipherMatch => "error:0A0000B9:SSL routines::no cipher match",
            Self::NoneSupported => {
                "error:0A0000B9:SSL routines::no cipher match: AWS-LC has none of these suites"
            }
        })
    }
}

impl std::error::Error for CipherStringError {}

impl CipherList {
    /// Evaluates a string as OpenSSL does. As in OpenSSL, names of TLS 1.3 suites select nothing.
    ///
    /// # Errors
    ///
    /// The string is not in OpenSSL's cipher list format, or selects no suite.
    pub fn parse(text: &str) -> Result<Self, CipherStringError> {
        let (suites, level) =
            language::evaluate(text).map_err(|_| CipherStringError::InvalidCommand)?;
        if suites.is_empty() {
            return Err(CipherStringError::NoCipherMatch);
        }
        Ok(Self {
            suites,
            level: level.map(SecurityLevel::new),
        })
    }

    /// Everything OpenSSL would offer, in order, before any security level.
    pub fn suites(&self) -> &[&'static Suite] {
        &self.suites
    }

    /// The level that `@SECLEVEL=n` set, if any did.
    pub fn security_level(&self) -> Option<SecurityLevel> {
        self.level
    }

    /// The suites to offer: those that AWS-LC has and the level permits, in order.
    ///
    /// # Errors
    ///
    /// No suite is left.
    pub fn supported(&self) -> Result<Vec<&'static Suite>, CipherStringError> {
        let supported: Vec<_> = self
            .suites
            .iter()
            .copied()
            .filter(|suite| Cipher::by_id(suite.id).is_some())
            .filter(|suite| self.level.is_none_or(|level| level.permits_suite(suite)))
            .collect();
        if supported.is_empty() {
            return Err(CipherStringError::NoneSupported);
        }
        Ok(supported)
    }
}

/// Whether these suites include some with the RSA key exchange (`kRSA`), in which the server
/// decrypts with its key. For a string that is not in the format, the answer is yes.
pub fn offer_rsa_key_exchange(ciphers: &str) -> bool {
    let list = CipherList::parse(ciphers);
    list.map_or(true, |list| {
        let mut suites = list.suites().iter();
        suites.any(|suite| suite.exchange == suite::exchange::K_RSA)
    })
}

/// The suite of TLS 1.2 or below with this number.
pub fn suite_by_id(id: u16) -> Option<&'static Suite> {
    let at = SUITES.binary_search_by_key(&id, |suite| suite.id).ok()?;
    Some(&SUITES[at])
}

/// OpenSSL's name of any suite, as `$ssl_ciphers` prints it.
pub fn suite_name(id: u16) -> Option<&'static str> {
    let tls13 = TLS13_SUITES
        .iter()
        .find(|(known, _)| *known == id)
        .map(|(_, name)| *name);
    tls13.or_else(|| suite_by_id(id).map(|suite| suite.name))
}

/// Reads any string without panicking; the entry point for fuzzing.
pub fn fuzz_cipher_string(text: &str) {
    if let Ok(list) = CipherList::parse(text) {
        assert!(!list.suites().is_empty(), "an empty result is an error");
        let mut ids: Vec<u16> = list.suites().iter().map(|suite| suite.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), list.suites().len(), "no suite is listed twice");
        if let Ok(supported) = list.supported() {
            assert!(!supported.is_empty(), "an empty result is an error");
            let is_listed = |suite: &&Suite| ids.binary_search(&suite.id).is_ok();
            assert!(supported.iter().all(is_listed), "nothing is added");
        }
    }
}
