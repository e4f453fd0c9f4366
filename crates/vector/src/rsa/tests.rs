//! Products of numbers at the limits of their range, and wrong results.

use super::digits::{from_bytes, gather, is_below, scatter};
use super::key::{Key, Parts};
use super::montgomery::{DIGIT_MASK, Modulus};
use super::power::Spares;
use super::present::run;
use super::turns::Turns;

/// Whether this processor can run the code; says so if not.
fn is_supported() -> bool {
    let reason = crate::unsupported();
    if let Some(reason) = reason {
        sealane_needs::leave_out(reason);
    }
    reason.is_none()
}

/// x + y modulo n, bit by bit carried, for numbers below n.
fn sum<const K: usize>(x: &[u64; K], y: &[u64; K], n: &[u64; K]) -> [u64; K] {
    let mut sum = [0; K];
    let mut carry = 0;
    for (sum, (x, y)) in sum.iter_mut().zip(x.iter().zip(y)) {
        let digit = x + y + carry;
        *sum = digit & DIGIT_MASK;
        carry = digit >> 52;
    }
    reduced(&sum, n)
}

/// A number below a few n, modulo n.
fn reduced<const K: usize>(number: &[u64; K], n: &[u64; K]) -> [u64; K] {
    let mut number = *number;
    while !is_below(&number, n) {
        let mut borrow = 0;
        for (digit, n) in number.iter_mut().zip(n) {
            let difference = digit.wrapping_sub(*n).wrapping_sub(borrow);
            *digit = difference & DIGIT_MASK;
            borrow = difference >> 63;
        }
    }
    number
}

/// x y modulo n, the slow way.
fn product<const K: usize>(x: &[u64; K], y: &[u64; K], n: &[u64; K]) -> [u64; K] {
    let (x, y) = (reduced(x, n), reduced(y, n));
    let mut product = [0; K];
    for bit in (0..K * 52).rev() {
        product = sum(&product, &product, n);
        if x[bit / 52] >> (bit % 52) & 1 == 1 {
            product = sum(&product, &y, n);
        }
    }
    product
}

/// Factors up to 4 n and moduli whose digits make the most of every carry.
fn edges<const K: usize>(bits: usize) {
    let power = |bit: usize| {
        let mut number = [0; K];
        number[bit / 52] = 1 << (bit % 52);
        number
    };
    let ones = |bits: usize| -> [u64; K] {
        std::array::from_fn(|digit| match bits.saturating_sub(digit * 52) {
            0 => 0,
            rest if rest >= 52 => DIGIT_MASK,
            rest => (1 << rest) - 1,
        })
    };
    let mut lowest = power(bits - 1);
    lowest[0] = 1;
    let mut sparse = ones(bits);
    for digit in sparse[1..K - 1].iter_mut().step_by(2) {
        *digit &= 1 << 51 | 1;
    }
    for n in [ones(bits), lowest, sparse] {
        let modulus = Modulus::new(n);
        let factors = [
            [0; K],
            ones(1),
            n,
            ones(bits),
            ones(bits + 1),
            power(bits),
            ones(52),
            lowest,
        ];
        for turn in 0..factors.len() {
            let mut others = factors;
            others.rotate_left(turn);
            // SAFETY: the callers have found the features.
            let (products, squares) = unsafe {
                let mut turns = Turns::new();
                let moduli = [&modulus; 2];
                let (x, y) = (gather(&factors), gather(&others));
                turns.factors = [y, x];
                turns.set([x, y]);
                turns.multiply(moduli);
                let products = turns.finish(moduli);
                turns.set([x, y]);
                turns.square(moduli, |_, _| {});
                let squares = turns.finish(moduli);
                (products.map(|x| scatter(&x)), squares.map(|x| scatter(&x)))
            };
            for lane in 0..factors.len() {
                let (x, y) = (&factors[lane], &others[lane]);
                for (result, x, y) in [
                    (products[0][lane], x, y),
                    (products[1][lane], x, y),
                    (squares[0][lane], x, x),
                    (squares[1][lane], y, y),
                ] {
                    let twice = ones(bits + 1);
                    assert!(
                        is_below(&result, &twice),
                        "a result of {K} digits is not small"
                    );
                    let result = modulus.times_r(&reduced(&result, &n));
                    assert_eq!(result, product(x, y, &n), "{K} digits, lane {lane}");
                }
            }
        }
    }
}

#[test]
fn products_at_the_edges() {
    if is_supported() {
        edges::<20>(1024);
        edges::<30>(1536);
        edges::<40>(2048);
    }
}

/// A key that computes wrong results, but for zero and one: they are noticed, named and kept back.
#[test]
fn wrong_results_are_kept_back() {
    if !is_supported() {
        return;
    }
    // Two odd numbers of the right size, which are no primes and have no exponents.
    let p: [u64; 20] = from_bytes(&[0xc1; 128]).expect("1024 bits fit");
    let q: [u64; 20] = from_bytes(&[0xd3; 128]).expect("1024 bits fit");
    let parts = Parts::<20, 40> {
        n: super::digits::product(&p, &q),
        e: 65537,
        primes: [p, q],
        exponents: [from_bytes(&[5]).expect("it fits"); 2],
        coefficient: from_bytes(&[1]).expect("it fits"),
    };
    let key = Key::new(&parts, 1024).expect("the sizes are right");
    let mut inputs = [[0; 256]; 4];
    inputs[1][255] = 1;
    inputs[2][255] = 2;
    inputs[3][200] = 9;
    let mut outputs = [[0xee; 256]; 4];
    let wrong = {
        let inputs = inputs.each_ref().map(|input| input.as_slice());
        let mut outputs = outputs.each_mut().map(|output| output.as_mut_slice());
        run(&key, &Spares::new(), || {}, &inputs, &mut outputs, true)
    };
    assert_eq!(wrong, Ok(0b1100));
    assert_eq!(outputs[..2], inputs[..2]);
    assert_eq!(outputs[2..], [[0; 256]; 2]);
}

/// Memory that is used again holds nothing of what it was used for.
#[test]
fn memory_is_wiped_before_it_is_used_again() {
    if !is_supported() {
        return;
    }
    let spares = Spares::<20, 40>::new();
    let modulus = Modulus::new(from_bytes(&[0xc1; 128]).expect("1024 bits fit"));
    // SAFETY: the features were found.
    unsafe {
        let mut work = spares.take();
        let address = std::ptr::from_ref(&*work);
        let number = gather(&[[5; 20]; 8]);
        let numbers = [number; 2];
        work.raise(
            &numbers,
            &numbers,
            [&[9; 20]; 2],
            1024,
            [&modulus; 2],
            || {},
        );
        assert!(!work.is_blank());
        spares.put_back(work);
        let work = spares.take();
        assert_eq!(std::ptr::from_ref(&*work), address);
        assert!(work.is_blank());
        assert_ne!(std::ptr::from_ref(&*spares.take()), address);
    }
}
