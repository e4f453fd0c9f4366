//! The Poly1305 authenticator (RFC 8439 section 2.5), eight blocks side by side in
//! AVX-512 IFMA.
//!
//! Numbers modulo p = 2^130 - 5 are kept in limbs of 44, 44 and 42 bits. A product of two limbs is
//! accumulated in two halves, its low 52 bits and the rest, and there is room to add the products
//! of four groups of blocks before carries are propagated.
//!
//! A tag is the value at the secret r of a polynomial whose coefficients are the message's blocks.
//! Every lane takes each eighth block: absorbing eight blocks multiplies the lanes by r^8 and adds
//! a block to each. At the end the lanes are multiplied by r^7 to r^0, according to the position of
//! their blocks in a group, and added up.

use std::arch::x86_64::*;
use std::hint::black_box;

use crate::{KEY_BYTES, TAG_BYTES};

/// Bytes of one block.
pub(crate) const BLOCK_BYTES: usize = 16;

/// Eight blocks, one for each lane.
const GROUP_BYTES: usize = 8 * BLOCK_BYTES;

/// Four groups, absorbed without propagating carries in between.
const STRIDE_BYTES: usize = 4 * GROUP_BYTES;

const MASK_44: u64 = (1 << 44) - 1;
const MASK_42: u64 = (1 << 42) - 1;

/// The bit above a full block (RFC 8439 section 2.5.1), in the third limb.
const BLOCK_BIT: u64 = 1 << 40;

/// The exponents of r for lanes 0 to 7 at the end. [`load`] puts blocks 0, 4, 1, 5, 2, 6, 3 and 7
/// of a group there, and block 7 is the last.
const LANE_EXPONENTS: [usize; 8] = [7, 3, 6, 2, 5, 1, 4, 0];

/// Eight 64-bit lanes.
type Vector = __m512i;

/// Three limbs of eight numbers.
type Limbs = [Vector; 3];

/// A message being authenticated under its one-time key.
pub(crate) struct Poly1305 {
    key: Scalar,
    /// The key's second half, added to the polynomial at the end.
    pad: u128,
    /// The polynomial's value so far, without the last multiplication by r.
    state: [u64; 3],
}

impl Poly1305 {
    /// Begins with a fresh one-time key (RFC 8439 section 2.6).
    pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Self {
        let (halves, _) = key.as_chunks::<16>();
        // "Clamped", RFC 8439 section 2.5.
        let r = u128::from_le_bytes(halves[0]) & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;
        Self {
            key: Scalar::new(split(r)),
            pad: u128::from_le_bytes(halves[1]),
            state: [0; 3],
        }
    }

    /// Absorbs `bytes` as whole blocks, the last one padded with zeros, as RFC 8439 section 2.8
    /// pads associated data and ciphertext. Other messages are not needed.
    pub(crate) fn padded(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            self.block(u128::from_le_bytes(*block));
        }
        if !rest.is_empty() {
            let mut block = [0; BLOCK_BYTES];
            block[..rest.len()].copy_from_slice(rest);
            self.block(u128::from_le_bytes(block));
        }
    }

    /// Absorbs one block.
    pub(crate) fn block(&mut self, block: u128) {
        let [a, b, c] = self.key.product(self.state);
        let block = split(block);
        self.state = [a + block[0], b + block[1], c + block[2] + BLOCK_BIT];
    }

    /// Switches to eight blocks at a time. Preparing that costs as much as twenty single blocks.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn widen(&self) -> Wide {
        Wide::new(self)
    }

    /// Switches back to single blocks.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn narrow(&mut self, wide: &Wide) {
        self.state = wide.sum();
    }

    /// The tag.
    pub(crate) fn finish(&self) -> [u8; TAG_BYTES] {
        let [a, b, c] = self.key.product(self.state);
        // Carry twice, since overflow beyond 2^130 comes back times 5.
        let (b, a) = (b + (a >> 44), a & MASK_44);
        let (c, b) = (c + (b >> 44), b & MASK_44);
        let (a, c) = (a + 5 * (c >> 42), c & MASK_42);
        let (b, a) = (b + (a >> 44), a & MASK_44);
        let (c, b) = (c + (b >> 44), b & MASK_44);
        let (a, c) = (a + 5 * (c >> 42), c & MASK_42);
        let (b, a) = (b + (a >> 44), a & MASK_44);
        // The number is now below 2^130. It is p or more if adding 5 reaches bit 130; what remains
        // then is the number minus p.
        let over_a = a + 5;
        let over_b = b + (over_a >> 44);
        let over_c = c + (over_b >> 44);
        // The compiler must not see that there are two cases, or it might branch.
        let keep = black_box((over_c >> 42).wrapping_sub(1));
        let choose = |kept: u64, over: u64, mask: u64| (kept & keep) | (over & mask & !keep);
        let a = u128::from(choose(a, over_a, MASK_44));
        let b = u128::from(choose(b, over_b, MASK_44));
        let c = u128::from(choose(c, over_c, MASK_42));
        let sum = a.wrapping_add(b << 44).wrapping_add(c << 88);
        sum.wrapping_add(self.pad).to_le_bytes()
    }
}

/// Limbs of a number below 2^128.
fn split(number: u128) -> [u64; 3] {
    [
        number as u64 & MASK_44,
        (number >> 44) as u64 & MASK_44,
        (number >> 88) as u64,
    ]
}

/// A factor: r or a power of it.
#[derive(Clone, Copy)]
struct Scalar {
    limbs: [u64; 3],
    /// Limbs 1 and 2 times 20: products that weigh 2^132 or more come back times 4 * 5.
    folded: [u64; 2],
}

impl Scalar {
    fn new(limbs: [u64; 3]) -> Self {
        Self {
            limbs,
            folded: [20 * limbs[1], 20 * limbs[2]],
        }
    }

    fn times(&self, other: &Self) -> Self {
        Self::new(self.product(other.limbs))
    }

    /// The product, its limbs at most a few units above their width.
    fn product(&self, [a, b, c]: [u64; 3]) -> [u64; 3] {
        let product = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let ([r0, r1, r2], [s1, s2]) = (self.limbs, self.folded);
        let d0 = product(a, r0) + product(b, s2) + product(c, s1);
        let d1 = product(a, r1) + product(b, r0) + product(c, s2) + u128::from((d0 >> 44) as u64);
        let d2 = product(a, r2) + product(b, r1) + product(c, r0) + u128::from((d1 >> 44) as u64);
        let low = (d0 as u64 & MASK_44) + 5 * (d2 >> 42) as u64;
        [
            low & MASK_44,
            (d1 as u64 & MASK_44) + (low >> 44),
            d2 as u64 & MASK_42,
        ]
    }
}

/// Eight lanes of accumulators and the powers of r that they need.
pub(crate) struct Wide {
    lanes: Limbs,
    /// r^8, r^16, r^24, r^32.
    powers: [Scalar; 4],
    /// r^0 to r^7.
    last: [Scalar; 8],
}

impl Wide {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(poly: &Poly1305) -> Self {
        // One by one, as nothing else uses the scalar units meanwhile.
        let r1 = poly.key;
        let r2 = r1.times(&r1);
        let r4 = r2.times(&r2);
        let r8 = r4.times(&r4);
        let r16 = r8.times(&r8);
        let r3 = r2.times(&r1);
        // The state counts as the block before the first: the last lane of a group.
        let mut lanes = [_mm512_setzero_si512(); 3];
        for (lanes, limb) in lanes.iter_mut().zip(poly.state) {
            *lanes = _mm512_maskz_set1_epi64(0b1000_0000, limb as i64);
        }
        Self {
            lanes,
            powers: [r8, r16, r16.times(&r8), r16.times(&r16)],
            last: [
                Scalar::new([1, 0, 0]),
                r1,
                r2,
                r3,
                r4,
                r4.times(&r1),
                r4.times(&r2),
                r4.times(&r3),
            ],
        }
    }

    /// Absorbs the whole groups of `bytes`; returns the rest.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn absorb<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (strides, rest) = bytes.as_chunks::<STRIDE_BYTES>();
        let [r8, r16, r24, r32] = &self.powers;
        let (r8, r16) = (Factor::broadcast(r8), Factor::broadcast(r16));
        let (r24, r32) = (Factor::broadcast(r24), Factor::broadcast(r32));
        let mut lanes = self.lanes;
        for stride in strides {
            let (groups, _) = stride.as_chunks::<GROUP_BYTES>();
            let mut sums = Sums::new(load(&groups[3]));
            sums.add_product(&r24, load(&groups[0]));
            sums.add_product(&r16, load(&groups[1]));
            sums.add_product(&r8, load(&groups[2]));
            // Last, because everything above can be done while the previous stride is still being
            // carried.
            sums.add_product(&r32, lanes);
            lanes = sums.carry();
        }
        let (groups, rest) = rest.as_chunks::<GROUP_BYTES>();
        for group in groups {
            let mut sums = Sums::new(load(group));
            sums.add_product(&r8, lanes);
            lanes = sums.carry();
        }
        self.lanes = lanes;
        rest
    }

    /// The lanes as one number.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn sum(&self) -> [u64; 3] {
        let last = Factor::choose(&self.last, LANE_EXPONENTS);
        let mut products = Sums::new([_mm512_setzero_si512(); 3]);
        products.add_product(&last, self.lanes);
        let lanes = products.carry();
        let mut sums = [0; 3];
        for (sum, limb) in sums.iter_mut().zip(lanes) {
            *sum = _mm512_reduce_add_epi64(limb) as u64;
        }
        let [a, b, c] = sums;
        let (b, a) = (b + (a >> 44), a & MASK_44);
        let (c, b) = (c + (b >> 44), b & MASK_44);
        let (a, c) = (a + 5 * (c >> 42), c & MASK_42);
        [a & MASK_44, b + (a >> 44), c]
    }
}

/// Eight blocks as limbs, with the bit above each. See [`LANE_EXPONENTS`] for their order.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(group: &[u8; GROUP_BYTES]) -> Limbs {
    let (halves, _) = group.as_chunks::<64>();
    // SAFETY: the pointers are those of arrays of 64 bytes.
    let (first, second) = unsafe {
        (
            _mm512_loadu_si512(halves[0].as_ptr().cast()),
            _mm512_loadu_si512(halves[1].as_ptr().cast()),
        )
    };
    let low = _mm512_unpacklo_epi64(first, second);
    let high = _mm512_unpackhi_epi64(first, second);
    let mask = _mm512_set1_epi64(MASK_44 as i64);
    let middle = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
    [
        _mm512_and_si512(low, mask),
        _mm512_and_si512(middle, mask),
        _mm512_or_si512(
            _mm512_srli_epi64::<24>(high),
            _mm512_set1_epi64(BLOCK_BIT as i64),
        ),
    ]
}

/// A factor for each lane, as [`Scalar`] is for one number.
#[derive(Clone, Copy)]
struct Factor {
    limbs: Limbs,
    folded: [Vector; 2],
}

impl Factor {
    /// The same in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn broadcast(scalar: &Scalar) -> Self {
        let [a, b, c] = scalar.limbs;
        let [d, e] = scalar.folded;
        Self {
            limbs: [
                _mm512_set1_epi64(a as i64),
                _mm512_set1_epi64(b as i64),
                _mm512_set1_epi64(c as i64),
            ],
            folded: [_mm512_set1_epi64(d as i64), _mm512_set1_epi64(e as i64)],
        }
    }

    /// Number `exponents[i]` in lane `i`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn choose(powers: &[Scalar; 8], exponents: [usize; 8]) -> Self {
        let mut lanes = [[0; 8]; 5];
        for (lane, exponent) in exponents.into_iter().enumerate() {
            let Scalar { limbs, folded } = powers[exponent];
            for (lanes, limb) in lanes.iter_mut().zip(limbs.into_iter().chain(folded)) {
                lanes[lane] = limb as i64;
            }
        }
        let mut vectors = [_mm512_setzero_si512(); 5];
        for (vector, [a, b, c, d, e, f, g, h]) in vectors.iter_mut().zip(lanes) {
            *vector = _mm512_set_epi64(h, g, f, e, d, c, b, a);
        }
        let [a, b, c, d, e] = vectors;
        Self {
            limbs: [a, b, c],
            folded: [d, e],
        }
    }
}

/// Sums of products of limbs: the low 52 bits, and the rest.
///
/// Limbs of factors are below 2^49 (20 times 2^44 and a little), limbs of numbers below
/// 2^46. So the sums of four products have less than 57 and 48 bits.
struct Sums {
    low: Limbs,
    high: Limbs,
}

impl Sums {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(number: Limbs) -> Self {
        Self {
            low: number,
            high: [_mm512_setzero_si512(); 3],
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add_product(&mut self, factor: &Factor, number: Limbs) {
        let ([r0, r1, r2], [s1, s2]) = (factor.limbs, factor.folded);
        for (number, factors) in number
            .into_iter()
            .zip([[r0, r1, r2], [s2, r0, r1], [s1, s2, r0]])
        {
            for (limb, factor) in factors.into_iter().enumerate() {
                self.low[limb] = _mm512_madd52lo_epu64(self.low[limb], number, factor);
                self.high[limb] = _mm512_madd52hi_epu64(self.high[limb], number, factor);
            }
        }
    }

    /// Converts back to limbs that slightly exceed their width. A high part weighs 2^52 units of
    /// its limb: 2^8 units of the next one, or 2^10 if a limb has 42 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn carry(self) -> Limbs {
        let ([a, b, c], [high_a, high_b, high_c]) = (self.low, self.high);
        let mask_44 = _mm512_set1_epi64(MASK_44 as i64);
        let mask_42 = _mm512_set1_epi64(MASK_42 as i64);
        let over = _mm512_add_epi64(_mm512_srli_epi64::<44>(a), _mm512_slli_epi64::<8>(high_a));
        let a = _mm512_and_si512(a, mask_44);
        let b = _mm512_add_epi64(b, over);
        let over = _mm512_add_epi64(_mm512_srli_epi64::<44>(b), _mm512_slli_epi64::<8>(high_b));
        let b = _mm512_and_si512(b, mask_44);
        let c = _mm512_add_epi64(c, over);
        let over = _mm512_add_epi64(_mm512_srli_epi64::<42>(c), _mm512_slli_epi64::<10>(high_c));
        let c = _mm512_and_si512(c, mask_42);
        // Overflow beyond 2^130 comes back times 5.
        let a = _mm512_add_epi64(a, _mm512_add_epi64(over, _mm512_slli_epi64::<2>(over)));
        let b = _mm512_add_epi64(b, _mm512_srli_epi64::<44>(a));
        [_mm512_and_si512(a, mask_44), b, c]
    }
}
