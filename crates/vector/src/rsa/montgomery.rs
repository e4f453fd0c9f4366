//! Products modulo an odd number, of eight pairs of numbers side by side.
//!
//! A number is K digits of 52 bits, each digit a vector of eight lanes. The product is Montgomery's
//! (x y / R modulo n, R = 2^(52 K)), with rows of x interleaved with the rows of the reduction.
//! Five rows form a block: first [`Product::head`] computes the block's five quotient digits, one
//! after the other, then [`Product::body`] adds the five rows of x y and of the quotients times n
//! column by column. A column's twenty products are independent, so the multipliers are busy. The
//! head is a chain of latencies, so two products, modulo p and modulo q, alternate, and the
//! processor does the head of one beside the body of the other.
//!
//! No subtraction follows. R is at least 2^16 n here, and for factors below 4 n the product is
//! below n (1 + 16 n / R), thus below 2 n. This is "almost" Montgomery multiplication (Gueron),
//! with so much headroom that it does not even need a correction.

use std::arch::x86_64::*;

use super::power::wipe;

/// One digit of eight numbers.
pub(super) type Vector = __m512i;

/// Eight numbers of K digits, the least significant first.
pub(super) type Number<const K: usize> = [Vector; K];

pub(super) const DIGIT_BITS: usize = 52;
pub(super) const DIGIT_MASK: u64 = (1 << DIGIT_BITS) - 1;

/// Rows of a block. The numbers of digits (20, 30, 40 and twice as many) are multiples of it.
pub(super) const ROWS: usize = 5;

const IN_RANGE: &str = "numbers have a multiple of five digits";

pub(super) type Rows = [Vector; ROWS];

/// The digits that contribute to five columns of a block.
type Digits = [Vector; 2 * ROWS];

/// The modulus of products: the same number in all lanes.
pub(super) struct Modulus<const K: usize> {
    pub(super) digits: [u64; K],
    /// -1 / n modulo 2^52.
    pub(super) inverse: u64,
}

/// A product in progress.
pub(super) struct Product<const K: usize> {
    /// Sums of the columns from the current block's first one on, without carries; zero between
    /// products.
    pub(super) sums: Number<K>,
    /// Sums of five columns above those, for the last block of a square only.
    top: Rows,
    /// The current block's quotient digits, and the carry out of its first five columns.
    quotients: Rows,
    carry: Vector,
}

#[inline]
#[target_feature(enable = "avx512f")]
fn zero() -> Vector {
    _mm512_setzero_si512()
}

/// `digit` in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn all(digit: u64) -> Vector {
    _mm512_set1_epi64(digit as i64)
}

/// `digits` in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn all_digits<const K: usize>(digits: &[u64; K]) -> Number<K> {
    let mut number = [zero(); K];
    for (vector, digit) in number.iter_mut().zip(digits) {
        *vector = all(*digit);
    }
    number
}

/// Column C of five, all of whose rows have digits: `y` starts at the fifth digit below the first
/// column. Low halves come from this column's pairs of digits, high halves from the pairs one
/// column below.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn full_column<const C: usize>(mut sums: [Vector; 2], x: &Rows, y: &Digits) -> [Vector; 2] {
    for row in 0..ROWS {
        sums[0] = _mm512_madd52lo_epu64(sums[0], x[row], y[ROWS + C - row]);
        sums[1] = _mm512_madd52hi_epu64(sums[1], x[row], y[ROWS + C - row - 1]);
    }
    sums
}

/// The same with digits that are the same in all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn full_column_of_all<const C: usize>(
    mut sums: [Vector; 2],
    x: &Rows,
    y: &[u64; 2 * ROWS],
) -> [Vector; 2] {
    for row in 0..ROWS {
        sums[0] = _mm512_madd52lo_epu64(sums[0], x[row], all(y[ROWS + C - row]));
        sums[1] = _mm512_madd52hi_epu64(sums[1], x[row], all(y[ROWS + C - row - 1]));
    }
    sums
}

/// Column C, below 5, of the first `COUNT` rows: `y` is digits 0 to 4.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn low_column<const C: usize, const COUNT: usize>(
    mut sums: [Vector; 2],
    x: &Rows,
    y: &Rows,
) -> [Vector; 2] {
    for row in 0..ROWS {
        if row < COUNT && row <= C {
            sums[0] = _mm512_madd52lo_epu64(sums[0], x[row], y[C - row]);
        }
        if row < COUNT && row < C {
            sums[1] = _mm512_madd52hi_epu64(sums[1], x[row], y[C - row - 1]);
        }
    }
    sums
}

/// Column C above the last digit: `y` is the five last digits.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn high_column<const C: usize>(mut sums: [Vector; 2], x: &Rows, y: &Rows) -> [Vector; 2] {
    for row in 0..ROWS {
        if row > C {
            sums[0] = _mm512_madd52lo_epu64(sums[0], x[row], y[ROWS + C - row]);
        }
        if row >= C {
            sums[1] = _mm512_madd52hi_epu64(sums[1], x[row], y[ROWS - 1 + C - row]);
        }
    }
    sums
}

/// Five digits of `number`.
#[inline]
#[target_feature(enable = "avx512f")]
fn five(number: &[Vector], first: usize) -> Rows {
    let digits = &number[first..first + ROWS];
    [digits[0], digits[1], digits[2], digits[3], digits[4]]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn five_of_all(digits: &[u64], first: usize) -> Rows {
    let digits = &digits[first..first + ROWS];
    [
        all(digits[0]),
        all(digits[1]),
        all(digits[2]),
        all(digits[3]),
        all(digits[4]),
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total(first: [Vector; 2], second: [Vector; 2]) -> Vector {
    _mm512_add_epi64(
        _mm512_add_epi64(first[0], first[1]),
        _mm512_add_epi64(second[0], second[1]),
    )
}

/// The same with `first` counted twice.
#[inline]
#[target_feature(enable = "avx512f")]
fn total_twice(first: [Vector; 2], second: [Vector; 2]) -> Vector {
    let once = _mm512_add_epi64(first[0], first[1]);
    let twice = _mm512_add_epi64(once, once);
    _mm512_add_epi64(twice, _mm512_add_epi64(second[0], second[1]))
}

/// Propagates the carries of `sums` into digits, and leaves zeros behind.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn carry<const K: usize>(sums: &mut Number<K>, number: &mut Number<K>) {
    let mask = all(DIGIT_MASK);
    let mut carry = zero();
    for (source, digit) in sums.iter_mut().zip(number) {
        let sum = _mm512_add_epi64(*source, carry);
        *source = zero();
        *digit = _mm512_and_si512(sum, mask);
        carry = _mm512_srli_epi64::<{ DIGIT_BITS as u32 }>(sum);
    }
}

/// What [`five_columns`] adds of the product: nothing, twice the digits from the first column on,
/// twice all digits, or all of them once.
const NOTHING: u8 = 0;
const LOW_TWICE: u8 = 1;
const TWICE: u8 = 2;
const ONCE: u8 = 3;

/// Five columns, `source`, of the five rows of a block, which are stored one block lower.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn five_columns<const PRODUCT: u8>(
    target: &mut Rows,
    source: &Rows,
    [x, quotients]: [&Rows; 2],
    y: &Digits,
    n: &[u64; 2 * ROWS],
) {
    let low = y.last_chunk().expect("ten are more than five");
    macro_rules! column {
        ($column:literal) => {
            let sums = full_column_of_all::<$column>([source[$column], zero()], quotients, n);
            target[$column] = match PRODUCT {
                NOTHING => _mm512_add_epi64(sums[0], sums[1]),
                ONCE => total(full_column::<$column>([zero(); 2], x, y), sums),
                TWICE => total_twice(full_column::<$column>([zero(); 2], x, y), sums),
                _ => total_twice(low_column::<$column, ROWS>([zero(); 2], x, low), sums),
            };
        };
    }
    column!(0);
    column!(1);
    column!(2);
    column!(3);
    column!(4);
}

impl<const K: usize> Product<K> {
    /// Nothing yet.
    #[target_feature(enable = "avx512f")]
    pub(super) fn new() -> Self {
        Self {
            sums: [zero(); K],
            top: [zero(); ROWS],
            quotients: [zero(); ROWS],
            carry: zero(),
        }
    }

    /// Overwrites everything.
    pub(super) fn wipe(&mut self) {
        wipe(&mut self.sums);
        wipe(&mut self.top);
        wipe(&mut self.quotients);
        wipe(std::slice::from_mut(&mut self.carry));
    }

    /// Adds the products of a block's five digits with each other. The body multiplies the digits
    /// above by them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn diagonal(&mut self, first: usize, x: &Rows) {
        let mut sums = [zero(); 2 * ROWS];
        for row in 0..ROWS {
            for other in 0..ROWS {
                if other > row {
                    let low = &mut sums[row + other];
                    *low = _mm512_madd52lo_epu64(*low, x[row], x[other]);
                    let high = &mut sums[row + other + 1];
                    *high = _mm512_madd52hi_epu64(*high, x[row], x[other]);
                }
            }
        }
        for row in 0..ROWS {
            let doubled = _mm512_slli_epi64::<1>(sums[2 * row]);
            sums[2 * row] = _mm512_madd52lo_epu64(doubled, x[row], x[row]);
            let doubled = _mm512_slli_epi64::<1>(sums[2 * row + 1]);
            sums[2 * row + 1] = _mm512_madd52hi_epu64(doubled, x[row], x[row]);
        }
        let behind = first + ROWS;
        for (target, sum) in self.sums[first..behind].iter_mut().zip(&sums[..ROWS]) {
            *target = _mm512_add_epi64(*target, *sum);
        }
        if behind < K {
            let targets = &mut self.sums[behind..behind + ROWS];
            for (target, sum) in targets.iter_mut().zip(&sums[ROWS..]) {
                *target = _mm512_add_epi64(*target, *sum);
            }
        } else {
            self.top.copy_from_slice(&sums[ROWS..]);
        }
    }

    /// The first five columns of a block, and its quotient digits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn head<const SQUARE: bool>(
        &mut self,
        block: usize,
        x: &Number<K>,
        y: &Number<K>,
        modulus: &Modulus<K>,
    ) {
        let first = block * ROWS;
        let rows = five(x, first);
        if SQUARE {
            self.diagonal(first, &rows);
        }
        let y = five(y, 0);
        let n = five_of_all(&modulus.digits, 0);
        let inverse = all(modulus.inverse);
        let mut quotients = [zero(); ROWS];
        let mut carry = zero();
        macro_rules! column {
            ($column:literal) => {
                let mut product = [self.sums[$column], zero()];
                if !SQUARE {
                    product = low_column::<$column, ROWS>(product, &rows, &y);
                }
                let reduction = low_column::<$column, $column>([zero(), zero()], &quotients, &n);
                let sum = _mm512_add_epi64(total(product, reduction), carry);
                // Makes the column's low 52 bits zero.
                quotients[$column] = _mm512_madd52lo_epu64(zero(), sum, inverse);
                let sum = _mm512_madd52lo_epu64(sum, quotients[$column], n[0]);
                carry = _mm512_srli_epi64::<{ DIGIT_BITS as u32 }>(sum);
            };
        }
        column!(0);
        column!(1);
        column!(2);
        column!(3);
        column!(4);
        self.quotients = quotients;
        self.carry = carry;
    }

    /// The other columns of a block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn body<const SQUARE: bool>(
        &mut self,
        block: usize,
        x: &Number<K>,
        y: &Number<K>,
        modulus: &Modulus<K>,
    ) {
        let rows = five(x, block * ROWS);
        let quotients = self.quotients;
        let n = &modulus.digits;
        self.sums[ROWS] = _mm512_add_epi64(self.sums[ROWS], self.carry);
        let (targets, _) = self.sums.as_chunks_mut::<ROWS>();
        for column in (ROWS..K).step_by(ROWS) {
            let pair = &mut targets[column / ROWS - 1..=column / ROWS];
            let [target, source] = pair else {
                unreachable!("two chunks were asked for")
            };
            let digits = y[column - ROWS..].first_chunk().expect(IN_RANGE);
            let n = n[column - ROWS..].first_chunk().expect(IN_RANGE);
            let behind = (block + 1) * ROWS;
            if SQUARE && column < behind {
                // Summed up on the diagonal.
                five_columns::<NOTHING>(target, source, [&rows, &quotients], digits, n);
            } else if SQUARE && column == behind {
                five_columns::<LOW_TWICE>(target, source, [&rows, &quotients], digits, n);
            } else if SQUARE {
                five_columns::<TWICE>(target, source, [&rows, &quotients], digits, n);
            } else {
                five_columns::<ONCE>(target, source, [&rows, &quotients], digits, n);
            }
        }
        let last = five(y, K - ROWS);
        let last_n = five_of_all(n, K - ROWS);
        let is_diagonal = SQUARE && (block + 1) * ROWS == K;
        macro_rules! above {
            ($column:literal) => {
                let sums = high_column::<$column>([zero(); 2], &quotients, &last_n);
                self.sums[K - ROWS + $column] = if is_diagonal {
                    total([self.top[$column], zero()], sums)
                } else if SQUARE {
                    total_twice(high_column::<$column>([zero(); 2], &rows, &last), sums)
                } else {
                    total(high_column::<$column>([zero(); 2], &rows, &last), sums)
                };
            };
        }
        above!(0);
        above!(1);
        above!(2);
        above!(3);
        above!(4);
    }

    /// Replaces `x` by x y / R modulo the modulus.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn multiply(&mut self, x: &mut Number<K>, y: &Number<K>, modulus: &Modulus<K>) {
        for block in 0..K / ROWS {
            self.head::<false>(block, x, y, modulus);
            self.body::<false>(block, x, y, modulus);
        }
        carry(&mut self.sums, x);
    }

    /// Replaces `x` by x x / R modulo the modulus.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn square(&mut self, x: &mut Number<K>, modulus: &Modulus<K>) {
        for block in 0..K / ROWS {
            self.head::<true>(block, x, x, modulus);
            self.body::<true>(block, x, x, modulus);
        }
        carry(&mut self.sums, x);
    }
}
