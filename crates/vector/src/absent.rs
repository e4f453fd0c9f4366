//! Processors other than x86-64: no key can be created, so callers need no `cfg`.

use crate::{KEY_BYTES, NONCE_BYTES};

/// A sealing key, which does not exist on this processor.
#[derive(Debug)]
pub enum ChaCha20Poly1305 {}

impl ChaCha20Poly1305 {
    /// Always `None` here.
    pub fn new(_key: &[u8; KEY_BYTES]) -> Option<Self> {
        None
    }

    /// Cannot be called here.
    pub fn seal(
        &self,
        _nonce: &[u8; NONCE_BYTES],
        _associated: &[u8],
        _plain: &[u8],
        _tail: &[u8],
        _output: &mut Vec<u8>,
    ) -> Option<usize> {
        match *self {}
    }
}
