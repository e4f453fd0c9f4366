//! Numbers in digits of 52 bits: conversion to and from bytes, and precomputation per key.

use std::arch::x86_64::*;
use std::hint::black_box;

use super::montgomery::{DIGIT_BITS, DIGIT_MASK, Modulus, Number, Vector};

/// Digits of a big-endian number; `None` if it needs more.
pub(super) fn from_bytes<const K: usize>(bytes: &[u8]) -> Option<[u64; K]> {
    let mut digits = [0; K];
    for (position, byte) in bytes.iter().rev().enumerate() {
        let (digit, shift) = (position * 8 / DIGIT_BITS, position * 8 % DIGIT_BITS);
        let value = u64::from(*byte) << shift;
        let parts = [value & DIGIT_MASK, value >> DIGIT_BITS];
        for (part, digit) in parts.into_iter().zip(digit..) {
            match digits.get_mut(digit) {
                Some(target) => *target |= part,
                None if part == 0 => {}
                None => return None,
            }
        }
    }
    Some(digits)
}

/// Writes a number into big-endian bytes, which must be large enough.
pub(super) fn to_bytes(digits: &[u64], bytes: &mut [u8]) {
    for (position, byte) in bytes.iter_mut().rev().enumerate() {
        let (digit, shift) = (position * 8 / DIGIT_BITS, position * 8 % DIGIT_BITS);
        let mut value = digits[digit] >> shift;
        if shift > DIGIT_BITS - 8 && digit + 1 < digits.len() {
            value |= digits[digit + 1] << (DIGIT_BITS - shift);
        }
        *byte = value as u8;
    }
}

/// Eight numbers side by side.
#[target_feature(enable = "avx512f")]
pub(super) fn gather<const K: usize>(numbers: &[[u64; K]; 8]) -> Number<K> {
    let mut gathered = [_mm512_setzero_si512(); K];
    for (position, vector) in gathered.iter_mut().enumerate() {
        let lane = |lane: usize| numbers[lane][position] as i64;
        *vector = _mm512_set_epi64(
            lane(7),
            lane(6),
            lane(5),
            lane(4),
            lane(3),
            lane(2),
            lane(1),
            lane(0),
        );
    }
    gathered
}

/// The eight numbers, separated.
#[target_feature(enable = "avx512f")]
pub(super) fn scatter<const K: usize>(number: &Number<K>) -> [[u64; K]; 8] {
    let mut numbers = [[0; K]; 8];
    for (position, vector) in number.iter().enumerate() {
        for (lane, number) in lanes(*vector).into_iter().zip(&mut numbers) {
            number[position] = lane;
        }
    }
    numbers
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lanes(vector: Vector) -> [u64; 8] {
    let mut lanes = [0; 8];
    // SAFETY: the array has the vector's 64 bytes, and the store needs no alignment.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), vector) };
    lanes
}

/// Bit length of a number whose size is not secret.
pub(super) fn bits(digits: &[u64]) -> usize {
    let top = digits.iter().rposition(|digit| *digit != 0);
    top.map_or(0, |top| {
        top * DIGIT_BITS + (64 - digits[top].leading_zeros()) as usize
    })
}

/// Whether `number` is below `limit`, in a time that depends only on the length.
pub(super) fn is_below(number: &[u64], limit: &[u64]) -> bool {
    let borrow = number.iter().zip(limit).fold(0, |borrow, (digit, limit)| {
        digit.wrapping_sub(*limit).wrapping_sub(borrow) >> 63
    });
    black_box(borrow) == 1
}

/// p q.
pub(super) fn product<const K: usize, const K2: usize>(p: &[u64; K], q: &[u64; K]) -> [u64; K2] {
    let mut product = [0; K2];
    for (row, x) in p.iter().enumerate() {
        let mut carry = 0;
        for (digit, y) in product[row..].iter_mut().zip(q.iter().chain(&[0])) {
            let sum = u128::from(*x) * u128::from(*y) + u128::from(*digit) + u128::from(carry);
            *digit = sum as u64 & DIGIT_MASK;
            carry = (sum >> DIGIT_BITS) as u64;
        }
    }
    product
}

impl<const K: usize> Modulus<K> {
    /// An odd number of at most 52 K - 2 bits.
    pub(super) fn new(digits: [u64; K]) -> Self {
        // Newton's iteration: an odd number is its own inverse modulo 8, and every step doubles the
        // number of correct bits.
        let lowest = digits[0];
        let mut inverse = lowest;
        for _ in 0..5 {
            let error = 2_u64.wrapping_sub(lowest.wrapping_mul(inverse));
            inverse = inverse.wrapping_mul(error);
        }
        Self {
            digits,
            inverse: inverse.wrapping_neg() & DIGIT_MASK,
        }
    }

    /// `number`, which is below the modulus, times R modulo the modulus, in constant time.
    pub(super) fn times_r(&self, number: &[u64; K]) -> [u64; K] {
        let mut number = *number;
        for _ in 0..K * DIGIT_BITS {
            self.double(&mut number);
        }
        number
    }

    fn double(&self, number: &mut [u64; K]) {
        let mut carry = 0;
        for digit in number.iter_mut() {
            let doubled = *digit << 1 | carry;
            *digit = doubled & DIGIT_MASK;
            carry = doubled >> DIGIT_BITS;
        }
        let mut less = [0; K];
        let mut borrow = 0;
        for ((less, digit), n) in less.iter_mut().zip(&*number).zip(&self.digits) {
            let difference = digit.wrapping_sub(*n).wrapping_sub(borrow);
            *less = difference & DIGIT_MASK;
            borrow = difference >> 63;
        }
        // The compiler must not see that there are two cases, or it might branch.
        let keep = black_box(borrow.wrapping_neg());
        for (digit, less) in number.iter_mut().zip(less) {
            *digit = (*digit & keep) | (less & !keep);
        }
    }
}
