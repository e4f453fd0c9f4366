//! The ChaCha20 cipher (RFC 8439 section 2.4) in 512-bit vectors.
//!
//! There are two arrangements. A *group* is sixteen blocks, with the same word of all of them in
//! each vector: rounds need no shuffles, and the blocks are transposed once at the end. Two groups
//! at a time fill all 32 registers and keep the processor busy, where one would wait for its own
//! results half of the time. *Four blocks*, with the same row of all in each vector, is the
//! arrangement for the few blocks that every record needs besides: their rounds run in the shadow
//! of a group's.

use std::arch::x86_64::*;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;

use zeroize::Zeroize;

use crate::{KEY_BYTES, NONCE_BYTES};

/// Bytes of one block.
pub(crate) const BLOCK_BYTES: usize = 64;

/// Blocks of a group: the 32-bit lanes of a vector.
pub(crate) const GROUP_BLOCKS: usize = 16;

/// Bytes of a group.
pub(crate) const GROUP_BYTES: usize = GROUP_BLOCKS * BLOCK_BYTES;

/// Column and diagonal rounds alternate, ten times (RFC 8439 section 2.3).
const DOUBLE_ROUNDS: usize = 10;

/// "expand 32-byte k" (RFC 8439 section 2.3).
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Sixteen lanes of 32 bits.
type Vector = __m512i;

/// Sixteen blocks: vector `j` of row `i` holds word `4i + j` of each.
type Group = [[Vector; 4]; 4];

/// The initial state (RFC 8439 section 2.3), the counter left at zero.
pub(crate) struct ChaCha20 {
    words: [u32; 16],
}

impl ChaCha20 {
    /// The state under `key`, with no nonce yet.
    pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Self {
        let mut words = [0; 16];
        words[..4].copy_from_slice(&CONSTANTS);
        for (word, bytes) in words[4..12].iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Self { words }
    }

    /// The same key with `nonce`.
    pub(crate) fn with_nonce(&self, nonce: &[u8; NONCE_BYTES]) -> Self {
        let mut words = self.words;
        for (word, bytes) in words[13..].iter_mut().zip(nonce.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Self { words }
    }

    /// Encrypts one or two groups, starting with block number `counter`. At the same time does the
    /// rounds of `beside`, none or one, at almost no cost.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn encrypt<'a, const GROUPS: usize, const BESIDE: usize>(
        &self,
        counter: u32,
        plain: &[[u8; GROUP_BYTES]; GROUPS],
        sealed: &'a mut [[MaybeUninit<u8>; GROUP_BYTES]; GROUPS],
        beside: &mut [FourBlocks; BESIDE],
    ) -> &'a [u8] {
        const { assert!(GROUPS == 1 || GROUPS == 2) };
        let next_counter = counter.wrapping_add(GROUP_BLOCKS as u32);
        let mut groups = [self.group(counter); GROUPS];
        if GROUPS > 1 {
            groups[1] = self.group(next_counter);
        }
        for _ in 0..DOUBLE_ROUNDS {
            double_round(&mut groups);
            for blocks in beside.iter_mut() {
                blocks.double_round();
            }
        }
        self.finish::<0, GROUPS, BESIDE>(groups[0], counter, &plain[0], &mut sealed[0]);
        if GROUPS > 1 {
            self.finish::<1, GROUPS, BESIDE>(groups[1], next_counter, &plain[1], &mut sealed[1]);
        }
        let sealed = ptr::from_ref(sealed.as_flattened()) as *const [u8];
        // SAFETY: the reference was just taken apart, its lifetime is kept, and
        // `finish` has written every byte of every group.
        unsafe { &*sealed }
    }

    /// Adds the initial state and encrypts a group with the blocks (RFC 8439 sections 2.3
    /// and 2.4).
    ///
    /// The parameters produce a separate function for each caller, which the compiler then inlines:
    /// the state need not go through memory, which saves a tenth of the total time.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn finish<const INDEX: usize, const GROUPS: usize, const BESIDE: usize>(
        &self,
        mut group: Group,
        counter: u32,
        plain: &[u8; GROUP_BYTES],
        sealed: &mut [MaybeUninit<u8>; GROUP_BYTES],
    ) {
        let initial = self.group(counter);
        let words = group.as_flattened_mut().iter_mut();
        for (word, initial) in words.zip(initial.as_flattened()) {
            *word = _mm512_add_epi32(*word, *initial);
        }
        let stream = transpose(group);
        let (plain, _) = plain.as_chunks::<BLOCK_BYTES>();
        let (sealed, _) = sealed.as_chunks_mut::<BLOCK_BYTES>();
        for i in 0..GROUP_BLOCKS {
            // SAFETY: the pointers are those of arrays of 64 bytes, one readable, one writable.
            unsafe {
                let plain = _mm512_loadu_si512(plain[i].as_ptr().cast());
                let block = _mm512_xor_si512(stream[i], plain);
                _mm512_storeu_si512(sealed[i].as_mut_ptr().cast(), block);
            }
        }
    }

    /// The initial state of sixteen blocks.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn group(&self, counter: u32) -> Group {
        let mut group = [[_mm512_setzero_si512(); 4]; 4];
        for (vector, word) in group.as_flattened_mut().iter_mut().zip(self.words) {
            *vector = _mm512_set1_epi32(word as i32);
        }
        let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        group[3][0] = _mm512_add_epi32(_mm512_set1_epi32(counter as i32), lanes);
        group
    }

    /// The initial state of block 0 and the three blocks from number `counter` on.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn four_blocks(&self, counter: u32) -> FourBlocks {
        let [b, c, d] = [0, 1, 2].map(|number| counter.wrapping_add(number) as i32);
        let counters = _mm512_set_epi32(0, 0, 0, d, 0, 0, 0, c, 0, 0, 0, b, 0, 0, 0, 0);
        let mut initial = [_mm512_setzero_si512(); 4];
        for (row, [a, b, c, d]) in initial.iter_mut().zip(self.words.as_chunks().0) {
            *row = _mm512_set4_epi32(*d as i32, *c as i32, *b as i32, *a as i32);
        }
        initial[3] = _mm512_add_epi32(initial[3], counters);
        FourBlocks {
            initial,
            rows: initial,
        }
    }
}

impl Drop for ChaCha20 {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

impl fmt::Debug for ChaCha20 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChaCha20(redacted)")
    }
}

/// Four blocks: vector `i` holds row `i` of each.
pub(crate) struct FourBlocks {
    initial: [Vector; 4],
    rows: [Vector; 4],
}

impl FourBlocks {
    /// All rounds at once, for when there is no group to run beside.
    #[target_feature(enable = "avx512f")]
    pub(crate) fn rounds(&mut self) {
        for _ in 0..DOUBLE_ROUNDS {
            self.double_round();
        }
    }

    /// The blocks, after their rounds.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn stream(&self) -> [u8; 4 * BLOCK_BYTES] {
        let mut rows = self.rows;
        for (row, initial) in rows.iter_mut().zip(self.initial) {
            *row = _mm512_add_epi32(*row, initial);
        }
        let mut stream = [0; 4 * BLOCK_BYTES];
        let (blocks, _) = stream.as_chunks_mut::<BLOCK_BYTES>();
        for (bytes, block) in blocks.iter_mut().zip(transpose_lanes(rows)) {
            // SAFETY: the pointer is that of an array of 64 bytes.
            unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), block) };
        }
        stream
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn double_round(&mut self) {
        self.column_round();
        self.move_rows::<0b00_11_10_01, 0b10_01_00_11>();
        self.column_round();
        self.move_rows::<0b10_01_00_11, 0b00_11_10_01>();
    }

    /// Four quarter rounds of each block (RFC 8439 section 2.1).
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn column_round(&mut self) {
        let [a, b, c, d] = &mut self.rows;
        *a = _mm512_add_epi32(*a, *b);
        *d = _mm512_rol_epi32::<16>(_mm512_xor_si512(*d, *a));
        *c = _mm512_add_epi32(*c, *d);
        *b = _mm512_rol_epi32::<12>(_mm512_xor_si512(*b, *c));
        *a = _mm512_add_epi32(*a, *b);
        *d = _mm512_rol_epi32::<8>(_mm512_xor_si512(*d, *a));
        *c = _mm512_add_epi32(*c, *d);
        *b = _mm512_rol_epi32::<7>(_mm512_xor_si512(*b, *c));
    }

    /// Turns diagonals into columns, or the reverse.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn move_rows<const SECOND: i32, const FOURTH: i32>(&mut self) {
        self.rows[1] = _mm512_shuffle_epi32::<SECOND>(self.rows[1]);
        self.rows[2] = _mm512_shuffle_epi32::<0b01_00_11_10>(self.rows[2]);
        self.rows[3] = _mm512_shuffle_epi32::<FOURTH>(self.rows[3]);
    }
}

/// A column round and a diagonal round of all groups, interleaved step by step.
#[inline]
#[target_feature(enable = "avx512f")]
fn double_round<const GROUPS: usize>(groups: &mut [Group; GROUPS]) {
    column_round(groups);
    // Diagonals are columns once the rows have been moved by none, one, two and
    // three places, which only renames registers.
    for [_, b, c, d] in &mut *groups {
        *b = [b[1], b[2], b[3], b[0]];
        *c = [c[2], c[3], c[0], c[1]];
        *d = [d[3], d[0], d[1], d[2]];
    }
    column_round(groups);
    for [_, b, c, d] in groups {
        *b = [b[3], b[0], b[1], b[2]];
        *c = [c[2], c[3], c[0], c[1]];
        *d = [d[1], d[2], d[3], d[0]];
    }
}

/// Four quarter rounds of each block (RFC 8439 section 2.1).
#[inline]
#[target_feature(enable = "avx512f")]
fn column_round<const GROUPS: usize>(groups: &mut [Group; GROUPS]) {
    for [a, b, _, d] in &mut *groups {
        add_xor_rotate::<16>(a, b, d);
    }
    for [_, b, c, d] in &mut *groups {
        add_xor_rotate::<12>(c, d, b);
    }
    for [a, b, _, d] in &mut *groups {
        add_xor_rotate::<8>(a, b, d);
    }
    for [_, b, c, d] in groups {
        add_xor_rotate::<7>(c, d, b);
    }
}

/// A line of RFC 8439 section 2.1 for four quarter rounds: `a += b; d ^= a; d <<<= BITS`.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_xor_rotate<const BITS: i32>(a: &mut [Vector; 4], b: &[Vector; 4], d: &mut [Vector; 4]) {
    for i in 0..4 {
        a[i] = _mm512_add_epi32(a[i], b[i]);
    }
    for i in 0..4 {
        d[i] = _mm512_xor_si512(d[i], a[i]);
    }
    for word in d {
        *word = _mm512_rol_epi32::<BITS>(*word);
    }
}

/// From one word of sixteen blocks in each vector to block `i` in vector `i`.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: Group) -> [Vector; GROUP_BLOCKS] {
    // Within 128-bit lanes first: lane `q` of `lanes[i][s]` is row `i` of block `4q + s`.
    let mut lanes = [[_mm512_setzero_si512(); 4]; 4];
    for (lanes, [a, b, c, d]) in lanes.iter_mut().zip(rows) {
        let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
        let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
        *lanes = [
            _mm512_unpacklo_epi64(low[0], low[1]),
            _mm512_unpackhi_epi64(low[0], low[1]),
            _mm512_unpacklo_epi64(high[0], high[1]),
            _mm512_unpackhi_epi64(high[0], high[1]),
        ];
    }
    let mut blocks = [_mm512_setzero_si512(); GROUP_BLOCKS];
    for s in 0..4 {
        let rows = [lanes[0][s], lanes[1][s], lanes[2][s], lanes[3][s]];
        let [a, b, c, d] = transpose_lanes(rows);
        blocks[s] = a;
        blocks[4 + s] = b;
        blocks[8 + s] = c;
        blocks[12 + s] = d;
    }
    blocks
}

/// From row `i` of four blocks in vector `i` to block `i` in vector `i`.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_lanes([a, b, c, d]: [Vector; 4]) -> [Vector; 4] {
    let low = [
        _mm512_shuffle_i32x4::<0b01_00_01_00>(a, b),
        _mm512_shuffle_i32x4::<0b01_00_01_00>(c, d),
    ];
    let high = [
        _mm512_shuffle_i32x4::<0b11_10_11_10>(a, b),
        _mm512_shuffle_i32x4::<0b11_10_11_10>(c, d),
    ];
    [
        _mm512_shuffle_i32x4::<0b10_00_10_00>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0b11_01_11_01>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0b10_00_10_00>(high[0], high[1]),
        _mm512_shuffle_i32x4::<0b11_01_11_01>(high[0], high[1]),
    ]
}
