//! Bytes that nobody may see.

use std::fmt;
use zeroize::Zeroizing;

/// A password, a token, or a command that contains one. It is wiped when it is dropped, and
/// `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes over bytes; copies of them that the caller has are not wiped.
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(bytes))
    }

    /// The parts one after the other, in memory that is allocated once: nothing is left behind by
    /// growing.
    pub(crate) fn concat(parts: &[&[u8]]) -> Secret {
        Secret::new(parts.concat())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_nothing() {
        let secret = Secret::concat(&[b"PASS ", b"hunter2", b"\r\n"]);
        assert_eq!(secret.as_bytes(), b"PASS hunter2\r\n");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
