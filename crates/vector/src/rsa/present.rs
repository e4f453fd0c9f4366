//! [`RsaKey`]: bytes in and out, for the three sizes of key.

use std::fmt;

use zeroize::{Zeroize, Zeroizing};

use super::digits::{from_bytes, is_below, to_bytes};
use super::key::{Key, Parts};
use super::power::Spares;
use super::{RSA_LANES, RsaRefused};
use crate::unsupported;

/// An RSA key of 2048, 3072 or 4096 bits, on a processor that can compute with it.
pub struct RsaKey {
    size: Size,
    /// See [`RsaKey::pausing`].
    pause: fn(),
}

enum Size {
    Rsa2048(Box<Key<20, 40>>),
    Rsa3072(Box<Key<30, 60>>),
    Rsa4096(Box<Key<40, 80>>),
}

/// Memory for operations with keys of each size.
static SPARES_2048: Spares<20, 40> = Spares::new();
static SPARES_3072: Spares<30, 60> = Spares::new();
static SPARES_4096: Spares<40, 80> = Spares::new();

impl RsaKey {
    /// Imports a key's numbers, big-endian: modulus, public exponent, primes p and q, d modulo p -
    /// 1 and q - 1, and 1 / q modulo p.
    ///
    /// `None` if the processor cannot run it ([`unsupported`] says why), if the modulus has a size
    /// other than 2048, 3072 or 4096 bits, if the primes are not two of half its length, if the
    /// public exponent is longer than 64 bits, or if the numbers do not belong together: one
    /// operation is tried and checked.
    pub fn new(
        n: &[u8],
        e: &[u8],
        primes: [&[u8]; 2],
        exponents: [&[u8]; 2],
        coefficient: &[u8],
    ) -> Option<Self> {
        if unsupported().is_some() {
            return None;
        }
        let leading = n.iter().position(|byte| *byte != 0)?;
        let n = &n[leading..];
        let key = match n.len() * 8 {
            2048 => Size::Rsa2048(boxed(n, e, primes, exponents, coefficient)?),
            3072 => Size::Rsa3072(boxed(n, e, primes, exponents, coefficient)?),
            4096 => Size::Rsa4096(boxed(n, e, primes, exponents, coefficient)?),
            _ => return None,
        };
        let key = Self {
            size: key,
            pause: || {},
        };
        // An input without structure, whose result depends on all of the key's numbers.
        let input = Zeroizing::new(vec![0x5a; n.len()]);
        let mut output = Zeroizing::new(vec![0; n.len()]);
        let wrong = key.checked(&[&input], &mut [&mut output]);
        (wrong == Ok(0)).then_some(key)
    }

    /// Makes operations call `pause` about every quarter of a millisecond, for instance to let
    /// other threads run: a batch of RSA-4096 takes milliseconds.
    pub fn pausing(self, pause: fn()) -> Self {
        Self { pause, ..self }
    }

    /// Bytes of the modulus, of every input and of every output.
    pub fn modulus_bytes(&self) -> usize {
        match self.size {
            Size::Rsa2048(_) => 256,
            Size::Rsa3072(_) => 384,
            Size::Rsa4096(_) => 512,
        }
    }

    /// The private operation for up to eight numbers, big-endian and as long as the modulus. It
    /// always takes the time of eight.
    ///
    /// A result must not leave the process before it has been verified with the public key, because
    /// a faulty one reveals the key: [`RsaKey::checked`] does both.
    ///
    /// # Errors
    ///
    /// More than eight numbers, another count of outputs, or a number of another length or not
    /// below the modulus.
    pub fn private(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), RsaRefused> {
        self.run(inputs, outputs, false).map(|_| ())
    }

    /// The private operation, with every result raised to the public exponent for verification.
    /// Returns one bit per output, the lowest for the first: 1 if the result was wrong and has been
    /// replaced by zeros. Wrong results are caused by faults of the processor or the memory.
    ///
    /// # Errors
    ///
    /// As [`RsaKey::private`].
    pub fn checked(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<u8, RsaRefused> {
        self.run(inputs, outputs, true)
    }

    fn run(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        is_checked: bool,
    ) -> Result<u8, RsaRefused> {
        let pause = self.pause;
        match &self.size {
            Size::Rsa2048(key) => run(key, &SPARES_2048, pause, inputs, outputs, is_checked),
            Size::Rsa3072(key) => run(key, &SPARES_3072, pause, inputs, outputs, is_checked),
            Size::Rsa4096(key) => run(key, &SPARES_4096, pause, inputs, outputs, is_checked),
        }
    }
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RsaKey({} bits, redacted)", self.modulus_bytes() * 8)
    }
}

fn boxed<const K: usize, const K2: usize>(
    n: &[u8],
    e: &[u8],
    primes: [&[u8]; 2],
    exponents: [&[u8]; 2],
    coefficient: &[u8],
) -> Option<Box<Key<K, K2>>> {
    let leading = e.iter().position(|byte| *byte != 0)?;
    let e = &e[leading..];
    if e.len() > 8 {
        return None;
    }
    let parts = Parts {
        n: from_bytes(n)?,
        e: e.iter().fold(0, |e, byte| e << 8 | u64::from(*byte)),
        primes: [from_bytes(primes[0])?, from_bytes(primes[1])?],
        exponents: [from_bytes(exponents[0])?, from_bytes(exponents[1])?],
        coefficient: from_bytes(coefficient)?,
    };
    Key::new(&parts, n.len() * 4).map(Box::new)
}

pub(super) fn run<const K: usize, const K2: usize>(
    key: &Key<K, K2>,
    spares: &Spares<K, K2>,
    pause: fn(),
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    is_checked: bool,
) -> Result<u8, RsaRefused> {
    if inputs.is_empty() || inputs.len() > RSA_LANES || inputs.len() != outputs.len() {
        return Err(RsaRefused::Count);
    }
    let modulus_bytes = (K2 * 52) / 512 * 64;
    let is_long = |length: usize| length != modulus_bytes;
    if inputs.iter().any(|input| is_long(input.len()))
        || outputs.iter().any(|output| is_long(output.len()))
    {
        return Err(RsaRefused::Length);
    }
    // Lanes without an input compute with zero.
    let mut numbers = [[0; K2]; RSA_LANES];
    for (number, input) in numbers.iter_mut().zip(inputs) {
        *number = from_bytes(input).ok_or(RsaRefused::Range)?;
        if !is_below(number, key.modulus()) {
            return Err(RsaRefused::Range);
        }
    }
    // SAFETY: a key exists only where `RsaKey::new` has found the features that the methods
    // are compiled for.
    let (mut work, mut results) = unsafe {
        let mut work = spares.take();
        let results = key.private(&numbers, &mut work, pause);
        (work, results)
    };
    let mut wrong = 0;
    if is_checked {
        // SAFETY: as above.
        let again = unsafe { key.public(&results, &mut work) };
        for lane in 0..inputs.len() {
            if again[lane] != numbers[lane] {
                wrong |= 1 << lane;
                results[lane] = [0; K2];
            }
        }
    }
    spares.put_back(work);
    for (result, output) in results.iter().zip(outputs) {
        to_bytes(result, output);
    }
    results.zeroize();
    numbers.zeroize();
    Ok(wrong)
}
