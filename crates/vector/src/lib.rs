//! Cryptography in wide vectors, where it is much faster than the TLS library.
//!
//! AWS-LC's ChaCha20-Poly1305 stops at AVX2. On processors with AVX-512 and its integer
//! multiply-and-add (Intel since Ice Lake, AMD since Zen 4) the same records can be sealed in a
//! third of the time, as measured in `docs/performance.md`. Everything that AWS-LC does as well or
//! better stays there.
//!
//! RSA's private operation is the other case: AWS-LC computes one at a time, while eight lanes of
//! AVX-512 compute eight with one key in less than three times the time of one. That is [`RsaKey`].
//! Elliptic-curve signatures are not: AWS-LC makes one with P-256 in 11 us, where RSA-2048 takes it
//! 196 us and a batch 60, and at a tenth of the cost of a connection there is little left to gain.
//! With P-384 it takes 59 us.
//!
//! [`RecordWriter`] is what a connection uses: it frames, numbers and seals the records of one
//! direction, with keys taken over from the library.
//!
//! The code uses the processor's vector instructions, which are checked for at run time: a
//! [`ChaCha20Poly1305`] or an [`RsaKey`] exists only where they do, and [`unsupported`] says what
//! is missing elsewhere. None of these instructions takes a time that depends on its operands, and
//! no branch or index depends on a secret. The pointers are those of fixed-size arrays.
//!
//! Keys are wiped when they are dropped. As in AWS-LC, values derived from them for one record stay
//! behind in registers and on the stack.
#![allow(unsafe_code)] // Target features and unaligned vectors; every block says why it is sound.

#[cfg(not(target_arch = "x86_64"))]
mod absent;
#[cfg(target_arch = "x86_64")]
mod chacha20;
#[cfg(target_arch = "x86_64")]
mod poly1305;
mod processor;
mod records;
mod rsa;
#[cfg(target_arch = "x86_64")]
mod seal;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

#[cfg(not(target_arch = "x86_64"))]
pub use absent::ChaCha20Poly1305;
pub use processor::unsupported;
pub use records::{Exhausted, MAX_RECORD_BYTES, RecordWriter, Version};
pub use rsa::{RSA_LANES, RsaKey, RsaRefused};
#[cfg(target_arch = "x86_64")]
pub use seal::ChaCha20Poly1305;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// The most plaintext under one nonce (RFC 8439 section 2.8): blocks are numbered in
/// 32 bits, and block 0 keys Poly1305.
pub const MAX_PLAIN_BYTES: u64 = u32::MAX as u64 * 64;
