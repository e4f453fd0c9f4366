//! Powers with a secret exponent, modulo both primes at once.

use std::arch::x86_64::*;
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::montgomery::{DIGIT_BITS, Modulus, Number, Product, ROWS, Rows, Vector};
use super::turns::Turns;

/// Bits of the exponent taken at a time. With five there are a tenth fewer products, but the table,
/// which is read as a whole for each, is twice as large, and even with four it just about fills the
/// first-level cache: that took 3 to 9 % longer.
pub(super) const WINDOW_BITS: usize = 4;

/// A window takes 2 us with RSA-2048 and 7 us with RSA-4096, so others wait for a quarter of a
/// millisecond at most. The times of the calls are no secret, as the number of windows depends only
/// on the key's size.
const WINDOWS_PER_PAUSE: usize = 32;

const ENTRIES: usize = 1 << WINDOW_BITS;

/// Five digits of the powers 0 to 15, modulo p and modulo q: what one pass over the table reads is
/// contiguous.
type Table = [[Rows; ENTRIES]; 2];

/// The working memory of an operation. All of it reveals something about the key or the result, and
/// must be wiped after use; dropping it also wipes it.
pub(super) struct Work<const K: usize, const K2: usize> {
    /// For single products.
    pub(super) product: Product<K>,
    /// For the public operation.
    pub(super) check: Product<K2>,
    turns: Turns<K>,
    /// One for every five digits.
    tables: Vec<Table>,
}

impl<const K: usize, const K2: usize> Work<K, K2> {
    #[target_feature(enable = "avx512f")]
    pub(super) fn new() -> Box<Self> {
        let zero = _mm512_setzero_si512();
        Box::new(Self {
            product: Product::new(),
            check: Product::new(),
            turns: Turns::new(),
            tables: vec![[[[zero; ROWS]; ENTRIES]; 2]; K / ROWS],
        })
    }

    /// Raises `bases` to `exponents`, of which the lowest `exponent_bits` count. Bases, `ones`
    /// and results are multiplied with R. `pause` is called every [`WINDOWS_PER_PAUSE`].
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn raise(
        &mut self,
        bases: &[Number<K>; 2],
        ones: &[Number<K>; 2],
        exponents: [&[u64; K]; 2],
        exponent_bits: usize,
        moduli: [&Modulus<K>; 2],
        pause: fn(),
    ) -> [Number<K>; 2] {
        self.tabulate(bases, ones, moduli);
        let Self { turns, tables, .. } = self;
        let last = exponent_bits.div_ceil(WINDOW_BITS) - 1;
        let index = |number| exponents.map(|exponent| window(exponent, number * WINDOW_BITS));
        let first = index(last);
        for look_up in 0..2 * tables.len() {
            find(tables, first, look_up, &mut turns.factors);
        }
        turns.set(turns.factors);
        for number in (0..last).rev() {
            let index = index(number);
            for square in 0..WINDOW_BITS {
                // The next factor is looked up meanwhile, in every other block, so that memory
                // latency overlaps with the multipliers' work.
                turns.square(moduli, |block, factors| {
                    let block = square * tables.len() + block;
                    if block.is_multiple_of(BLOCKS_PER_LOOK_UP) {
                        find(tables, index, block / BLOCKS_PER_LOOK_UP, factors);
                    }
                });
            }
            turns.multiply(moduli);
            if number.is_multiple_of(WINDOWS_PER_PAUSE) {
                pause();
            }
        }
        turns.finish(moduli)
    }

    /// Fills the table with the powers of `bases`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn tabulate(
        &mut self,
        bases: &[Number<K>; 2],
        ones: &[Number<K>; 2],
        moduli: [&Modulus<K>; 2],
    ) {
        self.store(0, ones);
        self.store(1, bases);
        self.turns.factors = *bases;
        self.turns.set(*bases);
        for number in 2..ENTRIES {
            self.turns.multiply(moduli);
            let power = self.turns.finish(moduli);
            self.store(number, &power);
        }
    }

    fn store(&mut self, number: usize, powers: &[Number<K>; 2]) {
        for (which, power) in powers.iter().enumerate() {
            let (parts, _) = power.as_chunks();
            for (table, part) in self.tables.iter_mut().zip(parts) {
                table[which][number] = *part;
            }
        }
    }

    /// Overwrites everything.
    pub(super) fn wipe(&mut self) {
        let Self {
            product,
            check,
            turns,
            tables,
        } = self;
        product.wipe();
        check.wipe();
        turns.wipe();
        for table in tables {
            wipe(table.as_flattened_mut().as_flattened_mut());
        }
    }
}

#[cfg(test)]
impl<const K: usize, const K2: usize> Work<K, K2> {
    /// Whether the tables and the numbers are zeros.
    pub(super) fn is_blank(&self) -> bool {
        let entries = self.tables.as_flattened().as_flattened().as_flattened();
        let numbers = self.turns.factors.as_flattened();
        entries.iter().chain(numbers).all(|vector| {
            // SAFETY: both are 64 bytes without invalid values.
            let digits: [u64; 8] = unsafe { std::mem::transmute(*vector) };
            digits == [0; 8]
        })
    }
}

impl<const K: usize, const K2: usize> Drop for Work<K, K2> {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// Wiped memory of earlier operations: as many pieces as there were concurrent callers. It does not
/// belong to a key, so a thousand keys need no more than one.
pub(super) struct Spares<const K: usize, const K2: usize>(Mutex<Vec<Box<Work<K, K2>>>>);

/// The most pieces of memory kept, of 54, 80 and 105 KiB depending on the key size.
const MAX_SPARES: usize = 64;

impl<const K: usize, const K2: usize> Spares<K, K2> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Memory for one caller.
    #[target_feature(enable = "avx512f")]
    pub(super) fn take(&self) -> Box<Work<K, K2>> {
        let spare = self.list().pop();
        spare.unwrap_or_else(|| Work::new())
    }

    pub(super) fn put_back(&self, mut work: Box<Work<K, K2>>) {
        work.wipe();
        let mut spares = self.list();
        if spares.len() < MAX_SPARES {
            spares.push(work);
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Box<Work<K, K2>>>> {
        // A panic leaves the vector consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The squarings of a window have four times as many blocks as there are tables, and each table is
/// looked up for p and for q.
const BLOCKS_PER_LOOK_UP: usize = WINDOW_BITS / 2;

/// Overwrites vectors in a way that the compiler cannot remove.
pub(super) fn wipe(vectors: &mut [Vector]) {
    for vector in vectors {
        // SAFETY: a vector is 64 bytes without invalid values, and the reference is to one.
        unsafe { std::ptr::write_volatile(vector, std::mem::zeroed()) };
    }
}

/// The bits of a window. Its position is not secret.
fn window<const K: usize>(exponent: &[u64; K], position: usize) -> u64 {
    let (digit, shift) = (position / DIGIT_BITS, position % DIGIT_BITS);
    let above = exponent.get(digit + 1).copied().unwrap_or(0);
    let bits = u128::from(exponent[digit]) | u128::from(above) << DIGIT_BITS;
    (bits >> shift) as u64 & (ENTRIES as u64 - 1)
}

/// Look-up number `look_up` of those that make up a pair of factors: five digits, modulo p if it is
/// even, modulo q if it is odd. Every entry is read, and all except the one with the secret `index`
/// are masked out.
#[inline]
#[target_feature(enable = "avx512f")]
fn find<const K: usize>(
    tables: &[Table],
    index: [u64; 2],
    look_up: usize,
    targets: &mut [Number<K>; 2],
) {
    let (part, which) = (look_up / 2, look_up % 2);
    let mut found = [_mm512_setzero_si512(); ROWS];
    for (number, entry) in (0_u64..).zip(&tables[part][which]) {
        // All ones if the numbers are equal. The compiler must not see that.
        let differs = number ^ index[which];
        let mask = black_box((differs.wrapping_sub(1) as i64) >> 63);
        let mask = _mm512_set1_epi64(mask);
        for (found, digit) in found.iter_mut().zip(entry) {
            *found = _mm512_or_si512(*found, _mm512_and_si512(*digit, mask));
        }
    }
    let (parts, _) = targets[which].as_chunks_mut();
    parts[part] = found;
}
