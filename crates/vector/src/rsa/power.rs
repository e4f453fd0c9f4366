//! Powers with a secret exponent, modulo both primes at once.

use std::arch::x86_64::*;
use std::hint::black_box;

use super::montgomery::{DIGIT_BITS, Modulus, Number, Product, Vector, multiply_both, square_both};

/// Bits of the exponent that are taken at a time. With five there are a tenth fewer products,
/// but the table, which is read as a whole for each, no longer fits the first-level cache: that
/// took 2 to 8 % longer.
pub(super) const WINDOW_BITS: usize = 4;

const ENTRIES: usize = 1 << WINDOW_BITS;

/// What an exponentiation needs to remember. All of it says something about the key, and
/// is wiped when it is dropped.
pub(super) struct Work<const K: usize> {
    pub(super) products: [Product<K>; 2],
    /// Powers 0 to 15 of the numbers.
    tables: Vec<[Number<K>; 2]>,
    power: [Number<K>; 2],
    factor: [Number<K>; 2],
}

impl<const K: usize> Work<K> {
    #[target_feature(enable = "avx512f")]
    pub(super) fn new() -> Box<Self> {
        let zero = [[_mm512_setzero_si512(); K]; 2];
        Box::new(Self {
            products: [Product::new(), Product::new()],
            tables: vec![zero; ENTRIES],
            power: zero,
            factor: zero,
        })
    }

    /// Raises `bases` to `exponents`, of which the lowest `exponent_bits` count. Bases, `ones`
    /// and results are multiplied with R.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn raise(
        &mut self,
        bases: &[Number<K>; 2],
        ones: [Number<K>; 2],
        exponents: [&[u64; K]; 2],
        exponent_bits: usize,
        moduli: [&Modulus<K>; 2],
    ) -> [Number<K>; 2] {
        self.tables[0] = ones;
        self.tables[1] = *bases;
        for entry in 2..ENTRIES {
            if entry % 2 == 0 {
                let mut square = self.tables[entry / 2];
                square_both(&mut self.products, &mut square, moduli);
                self.tables[entry] = square;
            } else {
                let mut next = self.tables[entry - 1];
                multiply_both(&mut self.products, &mut next, bases, moduli);
                self.tables[entry] = next;
            }
        }
        let windows = exponent_bits.div_ceil(WINDOW_BITS);
        for number in (0..windows).rev() {
            let position = number * WINDOW_BITS;
            let index = exponents.map(|exponent| window(exponent, position));
            if number + 1 == windows {
                look_up(&self.tables, index, &mut self.power);
                continue;
            }
            for _ in 0..WINDOW_BITS {
                square_both(&mut self.products, &mut self.power, moduli);
            }
            look_up(&self.tables, index, &mut self.factor);
            multiply_both(&mut self.products, &mut self.power, &self.factor, moduli);
        }
        self.power
    }
}

impl<const K: usize> Drop for Work<K> {
    fn drop(&mut self) {
        let Self {
            products,
            tables,
            power,
            factor,
        } = self;
        for product in products {
            product.wipe();
        }
        wipe(tables.as_flattened_mut().as_flattened_mut());
        wipe(power.as_flattened_mut());
        wipe(factor.as_flattened_mut());
    }
}

/// Overwrites vectors, whoever looks at them later or not.
pub(super) fn wipe(vectors: &mut [Vector]) {
    for vector in vectors {
        // SAFETY: a vector is 64 bytes without invalid values, and the reference is to one.
        unsafe { std::ptr::write_volatile(vector, std::mem::zeroed()) };
    }
}

/// The bits of a window. Its place is not secret.
fn window<const K: usize>(exponent: &[u64; K], position: usize) -> u64 {
    let (digit, shift) = (position / DIGIT_BITS, position % DIGIT_BITS);
    let above = exponent.get(digit + 1).copied().unwrap_or(0);
    let bits = u128::from(exponent[digit]) | u128::from(above) << DIGIT_BITS;
    (bits >> shift) as u64 & (ENTRIES as u64 - 1)
}

/// The entries of a secret number: every entry is read, and all but one are masked out.
#[inline]
#[target_feature(enable = "avx512f")]
fn look_up<const K: usize>(
    tables: &[[Number<K>; 2]],
    index: [u64; 2],
    target: &mut [Number<K>; 2],
) {
    for which in 0..2 {
        // As many digits in one pass over the table as stay in registers.
        if K.is_multiple_of(20) {
            scan::<K, 20>(tables, which, index[which], &mut target[which]);
        } else {
            scan::<K, 15>(tables, which, index[which], &mut target[which]);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn scan<const K: usize, const DIGITS: usize>(
    tables: &[[Number<K>; 2]],
    which: usize,
    index: u64,
    target: &mut Number<K>,
) {
    let (targets, _) = target.as_chunks_mut::<DIGITS>();
    for (part, target) in targets.iter_mut().enumerate() {
        let mut found = [_mm512_setzero_si512(); DIGITS];
        for (number, entry) in (0_u64..).zip(tables) {
            // All ones where the numbers agree. The compiler must not see that.
            let differs = number ^ index;
            let mask = black_box((differs.wrapping_sub(1) as i64) >> 63);
            let mask = _mm512_set1_epi64(mask);
            let (digits, _) = entry[which].as_chunks::<DIGITS>();
            for (found, digit) in found.iter_mut().zip(&digits[part]) {
                *found = _mm512_or_si512(*found, _mm512_and_si512(*digit, mask));
            }
        }
        *target = found;
    }
}
