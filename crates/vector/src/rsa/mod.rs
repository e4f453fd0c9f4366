//! RSA's private operation, eight at a time with one key.
//!
//! [`RsaKey::private`] computes c^d modulo n for up to eight numbers c, one in each lane of AVX-512
//! vectors, in hardly more time than for one. The caller does the padding.
//!
//! As usual (RFC 8017 section 5.1.2) it computes modulo p and q with exponents of half the length
//! and recombines (Garner). Powers use a fixed window of four bits ([`power`]) and Montgomery
//! products with digits of 52 bits, the size of IFMA's multipliers ([`montgomery`]), alternating
//! between p and q ([`turns`]). See Gueron and Krasnov, "Software implementation of modular
//! exponentiation, using advanced vector instructions architectures", and Drucker and Gueron, "Fast
//! modular squaring with AVX512IFMA".
//!
//! On an AMD EPYC of family 26 (Zen 5), which starts two of the instructions per cycle, the
//! multipliers are busy for 83 to 88 % of the time. Slower there were a window of five bits,
//! look-ups of ten digits at once, and the head of one product in pieces between the columns of the
//! other.
//!
//! # What leaks, and what does not
//!
//! The sequence of instructions and of addresses is the same for all keys of one size and for all
//! inputs: windows are of fixed size, every table entry is read for every look-up, and comparisons
//! act through masks only. Whether an input is refused, and whether a result was wrong, are
//! branches on values that are not secret. That the time is the same, too, relies on the
//! processor's vector arithmetic, which is not known to depend on its operands.
//!
//! `examples/rsa_timing.rs` looks for differences in the manner of dudect: batches of RSA-2048, two
//! classes in alternation, Welch's t-test over all measurements and below five percentiles. The
//! largest |t| on a busy EPYC of family 26, from 150,000 measurements each: 1.9 between one input
//! and random ones, 2.2 between a key with almost no one bits in exponents and primes and 64 random
//! keys, 2.1 between two identical classes; and 18, from 60,000, for a control that leaks a quarter
//! of a percent. A batch retires the same number of instructions and of branches for these keys
//! (7,816,375, by the processor's counters).
//!
//! **Blinding** hides from the implementation which number an attacker has sent. It is the remedy
//! if the time depends on the numbers, which it does not here, and [`RsaKey`] adds none. It remains
//! useful against another channel: power, and a clock that follows the power and can be observed
//! remotely (Hertzbleed). Such attacks choose the numbers. An attacker cannot do that for
//! signatures, since they are over padded hashes, with PSS even randomised ones. The ciphertexts of
//! TLS 1.2's RSA key exchange, however, are chosen by the client. A caller must blind those, that
//! is, multiply the input by r^e before and the result by 1/r after, as `ssl_accelerator batch`
//! does, or leave them to a library that does; [`RsaKey::checked`] then verifies the power of the
//! blinded number. Nor is blinding a defence against faults.
//!
//! **Faults**: one wrong bit in one of the two halves gives a result whose difference from the
//! right one is divisible by p or q (Boneh, DeMillo and Lipton). [`RsaKey::checked`] raises every
//! result to the public exponent, modulo n itself and without p or q, compares it with the input,
//! and returns zeros if they differ.
//!
//! Keys are wiped when they are dropped. Tables and intermediate numbers are wiped after each call,
//! before their memory is used for the next; copies in registers and spilled to the stack are not.

#[cfg(target_arch = "x86_64")]
mod digits;
#[cfg(target_arch = "x86_64")]
mod key;
#[cfg(target_arch = "x86_64")]
mod montgomery;
#[cfg(target_arch = "x86_64")]
mod power;
#[cfg(target_arch = "x86_64")]
mod turns;

use std::fmt;

/// The most operations in one call.
pub const RSA_LANES: usize = 8;

/// Why a call was refused; nothing was computed in that case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RsaRefused {
    /// No input, more than [`RSA_LANES`], or not as many outputs.
    Count,
    /// An input or output that is not as long as the modulus.
    Length,
    /// An input that is not below the modulus (RFC 8017: "representative out of range").
    Range,
}

impl fmt::Display for RsaRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "not one to eight inputs with an output each",
            Self::Length => "an input or output is not as long as the modulus",
            Self::Range => "an input is not below the modulus",
        })
    }
}

impl std::error::Error for RsaRefused {}

#[cfg(target_arch = "x86_64")]
pub use present::RsaKey;

#[cfg(not(target_arch = "x86_64"))]
pub use absent::RsaKey;

#[cfg(target_arch = "x86_64")]
mod present;

#[cfg(not(target_arch = "x86_64"))]
mod absent;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
