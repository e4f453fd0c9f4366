//! Two sequences of products, modulo p and modulo q, alternating block by block.
//!
//! The head of a block and the carries at a product's end are chains of latencies. The number
//! modulo q is half a block behind the other one, also from one product to the next, so that there
//! is always a body with independent sums to compute beside them.

use std::arch::x86_64::_mm512_setzero_si512;

use super::montgomery::{Modulus, Number, Product, ROWS, carry};
use super::power::wipe;

/// A number modulo p, one modulo q, and their factors.
pub(super) struct Turns<const K: usize> {
    products: [Product<K>; 2],
    numbers: [Number<K>; 2],
    /// The factors for [`Turns::multiply`].
    pub(super) factors: [Number<K>; 2],
    /// The kind of the product modulo q, if its last body is still missing.
    behind: Option<Kind>,
}

#[derive(Clone, Copy)]
enum Kind {
    Product,
    Square,
}

impl<const K: usize> Turns<K> {
    #[target_feature(enable = "avx512f")]
    pub(super) fn new() -> Self {
        let zero = [[_mm512_setzero_si512(); K]; 2];
        Self {
            products: [Product::new(), Product::new()],
            numbers: zero,
            factors: zero,
            behind: None,
        }
    }

    /// Starts with other numbers, after [`Turns::finish`].
    pub(super) fn set(&mut self, numbers: [Number<K>; 2]) {
        debug_assert!(self.behind.is_none(), "the numbers before were finished");
        self.numbers = numbers;
    }

    /// Completes the products; returns the resulting numbers.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn finish(&mut self, moduli: [&Modulus<K>; 2]) -> [Number<K>; 2] {
        self.catch_up(moduli[1]);
        self.numbers
    }

    /// Replaces both numbers by their squares, divided by R. Before each block, calls `beside` with
    /// the block's number and the factors, which it may change.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn square(
        &mut self,
        moduli: [&Modulus<K>; 2],
        beside: impl FnMut(usize, &mut [Number<K>; 2]),
    ) {
        self.step::<true>(moduli, beside);
        self.behind = Some(Kind::Square);
    }

    /// Replaces both numbers by their products with the factors, divided by R.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn multiply(&mut self, moduli: [&Modulus<K>; 2]) {
        self.step::<false>(moduli, |_, _| {});
        self.behind = Some(Kind::Product);
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn step<const SQUARE: bool>(
        &mut self,
        [p, q]: [&Modulus<K>; 2],
        mut beside: impl FnMut(usize, &mut [Number<K>; 2]),
    ) {
        let x = &self.numbers[0];
        let y = if SQUARE { x } else { &self.factors[0] };
        self.products[0].head::<SQUARE>(0, x, y, p);
        self.catch_up(q);
        let [x_p, x_q] = &self.numbers;
        let [product_p, product_q] = &mut self.products;
        for block in 0..K / ROWS {
            beside(block, &mut self.factors);
            let factors = if SQUARE { &self.numbers } else { &self.factors };
            let [y_p, y_q] = factors;
            product_q.head::<SQUARE>(block, x_q, y_q, q);
            product_p.body::<SQUARE>(block, x_p, y_p, p);
            if block + 1 < K / ROWS {
                product_p.head::<SQUARE>(block + 1, x_p, y_p, p);
                product_q.body::<SQUARE>(block, x_q, y_q, q);
            }
        }
        carry(&mut product_p.sums, &mut self.numbers[0]);
    }

    /// Computes the last body of the product modulo q.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn catch_up(&mut self, q: &Modulus<K>) {
        let x = &self.numbers[1];
        let product = &mut self.products[1];
        let last = K / ROWS - 1;
        match self.behind.take() {
            None => return,
            Some(Kind::Product) => product.body::<false>(last, x, &self.factors[1], q),
            Some(Kind::Square) => product.body::<true>(last, x, x, q),
        }
        carry(&mut product.sums, &mut self.numbers[1]);
    }

    /// Overwrites everything.
    pub(super) fn wipe(&mut self) {
        for product in &mut self.products {
            product.wipe();
        }
        wipe(self.numbers.as_flattened_mut());
        wipe(self.factors.as_flattened_mut());
        self.behind = None;
    }
}
