//! Other processors than x86-64: there is no key, so that callers need no `cfg`.

use super::RsaRefused;

/// A key, of which this processor has none.
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
    pub fn private(&self, _inputs: &[&[u8]], _outputs: &mut [&mut [u8]]) -> Result<(), RsaRefused> {
        match *self {}
    }

    /// Cannot be called here.
    pub fn checked(&self, _inputs: &[&[u8]], _outputs: &mut [&mut [u8]]) -> Result<u8, RsaRefused> {
        match *self {}
    }
}
