//! Processors other than x86-64: no key can be created, so callers need no `cfg`.

use super::RsaRefused;

/// A key, which does not exist on this processor.
#[derive(Debug)]
pub enum RsaKey {}

impl RsaKey {
    /// Always `None` here.
    pub fn new(
        _n: &[u8],
        _e: &[u8],
        _primes: [&[u8]; 2],
        _exponents: [&[u8]; 2],
        _coefficient: &[u8],
    ) -> Option<Self> {
        None
    }

    /// Cannot be called here.
    pub fn pausing(self, _pause: fn()) -> Self {
        match self {}
    }

    /// Cannot be called here.
    pub fn modulus_bytes(&self) -> usize {
        match *self {}
    }

    /// Cannot be called here.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn private(&self, _inputs: &[&[u8]], _outputs: &mut [&mut [u8]]) -> Result<(), RsaRefused> {
        match *self {}
    }

    /// Cannot be called here.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn checked(&self, _inputs: &[&[u8]], _outputs: &mut [&mut [u8]]) -> Result<u8, RsaRefused> {
        match *self {}
    }
}
