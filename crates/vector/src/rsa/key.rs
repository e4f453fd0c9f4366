//! One key size: the private operation by Chinese remainders, and the public one.

use std::arch::x86_64::*;

use zeroize::Zeroize;

use super::digits::{bits, gather, is_below, product, scatter};
use super::montgomery::{DIGIT_BITS, DIGIT_MASK, Modulus, Number, Product, all, all_digits, carry};
use super::power::{Work, wipe};

/// A prime, and precomputed values modulo it.
pub(super) struct Prime<const K: usize> {
    modulus: Modulus<K>,
    /// d modulo the prime minus one.
    exponent: [u64; K],
    /// R, its square and its third power.
    powers_of_r: [[u64; K]; 3],
}

/// A key with primes of K digits and a modulus of twice as many.
pub(super) struct Key<const K: usize, const K2: usize> {
    prime_bits: usize,
    p: Prime<K>,
    q: Prime<K>,
    /// R / q modulo p.
    coefficient: [u64; K],
    n: Modulus<K2>,
    /// R squared modulo n.
    n_r_squared: [u64; K2],
    e: u64,
}

/// A key's numbers as given.
pub(super) struct Parts<const K: usize, const K2: usize> {
    pub(super) n: [u64; K2],
    pub(super) e: u64,
    pub(super) primes: [[u64; K]; 2],
    pub(super) exponents: [[u64; K]; 2],
    pub(super) coefficient: [u64; K],
}

impl<const K: usize, const K2: usize> Drop for Parts<K, K2> {
    fn drop(&mut self) {
        self.primes.zeroize();
        self.exponents.zeroize();
        self.coefficient.zeroize();
    }
}

impl<const K: usize> Prime<K> {
    fn new(prime: [u64; K], exponent: [u64; K]) -> Self {
        let modulus = Modulus::new(prime);
        let mut one = [0; K];
        one[0] = 1;
        let r = modulus.times_r(&one);
        let r_squared = modulus.times_r(&r);
        let r_cubed = modulus.times_r(&r_squared);
        Self {
            modulus,
            exponent,
            powers_of_r: [r, r_squared, r_cubed],
        }
    }
}

impl<const K: usize> Drop for Prime<K> {
    fn drop(&mut self) {
        self.modulus.digits.zeroize();
        self.modulus.inverse.zeroize();
        self.exponent.zeroize();
        self.powers_of_r.zeroize();
    }
}

impl<const K: usize, const K2: usize> Drop for Key<K, K2> {
    fn drop(&mut self) {
        self.coefficient.zeroize();
    }
}

impl<const K: usize, const K2: usize> Key<K, K2> {
    /// `None` if the numbers are not those of a key with two primes of `prime_bits` each.
    pub(super) fn new(parts: &Parts<K, K2>, prime_bits: usize) -> Option<Self> {
        let [p, q] = &parts.primes;
        let [exponent_p, exponent_q] = &parts.exponents;
        let is_sound = bits(p) == prime_bits
            && bits(q) == prime_bits
            && p[0] & q[0] & parts.e & 1 == 1
            && parts.e >= 3
            && product::<K, K2>(p, q) == parts.n
            && is_below(exponent_p, p)
            && is_below(exponent_q, q)
            && is_below(&parts.coefficient, p);
        if !is_sound {
            return None;
        }
        let p = Prime::new(*p, *exponent_p);
        let q = Prime::new(*q, *exponent_q);
        let n = Modulus::new(parts.n);
        let mut one = [0; K2];
        one[0] = 1;
        Some(Self {
            prime_bits,
            coefficient: p.modulus.times_r(&parts.coefficient),
            p,
            q,
            n_r_squared: n.times_r(&n.times_r(&one)),
            n,
            e: parts.e,
        })
    }

    pub(super) fn modulus(&self) -> &[u64; K2] {
        &self.n.digits
    }

    /// c^d modulo n of eight numbers below n.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn private(
        &self,
        inputs: &[[u64; K2]; 8],
        work: &mut Work<K, K2>,
        pause: fn(),
    ) -> [[u64; K2]; 8] {
        let mut inputs: Number<K2> = gather(inputs);
        let moduli = [&self.p.modulus, &self.q.modulus];
        let primes = [&self.p, &self.q];
        let mut bases = [[_mm512_setzero_si512(); K]; 2];
        for which in 0..2 {
            reduce(&inputs, primes[which], &mut work.product, &mut bases[which]);
        }
        let ones = [
            all_digits(&self.p.powers_of_r[0]),
            all_digits(&self.q.powers_of_r[0]),
        ];
        let exponents = [&self.p.exponent, &self.q.exponent];
        let mut powers = work.raise(&bases, &ones, exponents, self.prime_bits, moduli, pause);

        // Leave Montgomery form, then reduce below the primes.
        let mut one = [_mm512_setzero_si512(); K];
        one[0] = all(1);
        for which in 0..2 {
            work.product
                .multiply(&mut powers[which], &one, moduli[which]);
            subtract_once(&mut powers[which], &moduli[which].digits);
        }
        let [power_p, power_q] = &mut powers;
        let mut output = self.recombine(power_p, power_q, &mut work.product);
        let outputs = scatter(&output);
        wipe(bases.as_flattened_mut());
        wipe(powers.as_flattened_mut());
        wipe(&mut inputs);
        wipe(&mut output);
        outputs
    }

    /// Garner's formula: the number that is x modulo p and y modulo q is y + q h, where h is (x -
    /// y) / q modulo p.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn recombine(&self, x: &mut Number<K>, y: &Number<K>, product: &mut Product<K>) -> Number<K2> {
        // Both primes have their highest bit set: adding p twice makes it positive.
        let mask = all(DIGIT_MASK);
        let mut above = _mm512_setzero_si512();
        for ((x, y), p) in x.iter_mut().zip(y).zip(&self.p.modulus.digits) {
            let sum = _mm512_add_epi64(_mm512_add_epi64(*x, all(2 * p)), above);
            let sum = _mm512_sub_epi64(sum, *y);
            *x = _mm512_and_si512(sum, mask);
            above = _mm512_srai_epi64::<{ DIGIT_BITS as u32 }>(sum);
        }
        product.multiply(x, &all_digits(&self.coefficient), &self.p.modulus);
        subtract_once(x, &self.p.modulus.digits);

        let mut sums = [_mm512_setzero_si512(); K2];
        sums[..K].copy_from_slice(y);
        for (row, q) in self.q.modulus.digits.iter().enumerate() {
            let q = all(*q);
            for (position, h) in x.iter().enumerate() {
                let low = &mut sums[row + position];
                *low = _mm512_madd52lo_epu64(*low, *h, q);
                let high = &mut sums[row + position + 1];
                *high = _mm512_madd52hi_epu64(*high, *h, q);
            }
        }
        let mut output = [_mm512_setzero_si512(); K2];
        carry(&mut sums, &mut output);
        wipe(&mut sums);
        output
    }

    /// m^e modulo n for eight numbers below n. The time depends on e, which is public.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn public(&self, inputs: &[[u64; K2]; 8], work: &mut Work<K, K2>) -> [[u64; K2]; 8] {
        let mut input: Number<K2> = gather(inputs);
        let product = &mut work.check;
        let mut base = input;
        product.multiply(&mut base, &all_digits(&self.n_r_squared), &self.n);
        let mut power = base;
        // e is odd. Its lowest bit comes last, with the unconverted input, which also leaves
        // Montgomery form.
        for bit in (1..self.e.ilog2()).rev() {
            product.square(&mut power, &self.n);
            if self.e >> bit & 1 == 1 {
                product.multiply(&mut power, &base, &self.n);
            }
        }
        product.square(&mut power, &self.n);
        product.multiply(&mut power, &input, &self.n);
        subtract_once(&mut power, &self.n.digits);
        wipe(&mut base);
        wipe(&mut input);
        scatter(&power)
    }
}

/// Reduces numbers of 2 K digits below p q modulo a prime, into Montgomery form: the lower half
/// times R plus the upper half, which counts R times as much, times R squared.
#[target_feature(enable = "avx512f,avx512ifma")]
fn reduce<const K: usize, const K2: usize>(
    inputs: &Number<K2>,
    prime: &Prime<K>,
    product: &mut Product<K>,
    target: &mut Number<K>,
) {
    let mut sums = [_mm512_setzero_si512(); K];
    for half in 0..2 {
        target.copy_from_slice(&inputs[half * K..][..K]);
        let power = all_digits(&prime.powers_of_r[half + 1]);
        product.multiply(target, &power, &prime.modulus);
        for (sum, digit) in sums.iter_mut().zip(&*target) {
            *sum = _mm512_add_epi64(*sum, *digit);
        }
    }
    // Below 4 p, which is small enough for a factor.
    carry(&mut sums, target);
    wipe(&mut sums);
}

/// Subtracts the modulus if the number is not below it.
#[target_feature(enable = "avx512f")]
fn subtract_once<const K: usize>(number: &mut Number<K>, modulus: &[u64; K]) {
    let mask = all(DIGIT_MASK);
    let mut less = [_mm512_setzero_si512(); K];
    let mut borrow = _mm512_setzero_si512();
    for ((less, digit), n) in less.iter_mut().zip(&*number).zip(modulus) {
        let difference = _mm512_add_epi64(_mm512_sub_epi64(*digit, all(*n)), borrow);
        *less = _mm512_and_si512(difference, mask);
        borrow = _mm512_srai_epi64::<{ DIGIT_BITS as u32 }>(difference);
    }
    // All ones if the number was below the modulus.
    for (digit, less) in number.iter_mut().zip(&less) {
        let kept = _mm512_and_si512(borrow, *digit);
        *digit = _mm512_or_si512(kept, _mm512_andnot_si512(borrow, *less));
    }
    wipe(&mut less);
}
