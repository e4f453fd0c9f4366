//! Blinding and unblinding cancel out, and no factor comes twice.

use std::collections::HashSet;
use std::thread;

use super::*;
use crate::fill_random;

fn key(bits: u32) -> PrivateKey {
    PrivateKey::generate_rsa(bits).expect("a usual size")
}

/// `value` as long as the modulus.
fn padded(value: &[u8], bytes: usize) -> Vec<u8> {
    let mut number = vec![0; bytes - value.len()];
    number.extend_from_slice(value);
    number
}

/// `number` less `by`.
fn less(number: &[u8], by: u8) -> Vec<u8> {
    let (mut number, mut borrow) = (number.to_vec(), by);
    for byte in number.iter_mut().rev() {
        let (digit, is_below) = byte.overflowing_sub(borrow);
        (*byte, borrow) = (digit, u8::from(is_below));
    }
    assert_eq!(borrow, 0, "it is large");
    number
}

/// A number below any modulus of its length.
fn random(bytes: usize) -> Vec<u8> {
    let mut number = vec![0; bytes];
    fill_random(&mut number);
    number[0] &= 0x3f;
    number
}

/// Computes with the blinded number and says what that was.
#[track_caller]
fn assert_same(key: &PrivateKey, blinding: &RsaBlinding, number: &[u8]) -> Vec<u8> {
    let mut blinded = number.to_vec();
    let unblinding = blinding.blind(&mut blinded).expect("in range");
    let mut result = key.rsa_raw(&blinded).expect("in range");
    unblinding.unblind(&mut result).expect("in range");
    assert_eq!(result, key.rsa_raw(number).expect("in range"));
    blinded
}

#[test]
fn the_result_is_that_of_the_number_itself() {
    for bits in [2048, 3072, 4096] {
        let key = key(bits);
        let blinding = RsaBlinding::new(&key).expect("an RSA key");
        let bytes = bits as usize / 8;
        let numbers = key.rsa_numbers().expect("an RSA key");
        let mut edges = vec![
            padded(&[2], bytes),
            padded(&[3], bytes),
            less(&numbers.modulus, 2),
            less(&numbers.modulus, 3),
            padded(&[1, 0, 0, 0, 0, 0, 0, 0, 0], bytes),
            // What has p or q for a divisor has no inverse, and need not have one.
            padded(&numbers.primes[0], bytes),
            padded(&numbers.primes[1], bytes),
        ];
        // With the smallest, beyond the draw of a second number.
        let randoms = if bits == 2048 { USES_PER_DRAW } else { 30 };
        edges.extend((0..randoms).map(|_| random(bytes)));
        for number in edges {
            assert_ne!(assert_same(&key, &blinding, &number), number);
        }
    }
}

#[test]
fn the_least_and_the_largest_number_are_blinded_too() {
    // AWS-LC does not compute with these: their results are themselves, since the private
    // exponent is odd.
    let key = key(2048);
    let blinding = RsaBlinding::new(&key).expect("an RSA key");
    let n_less_one = less(&key.rsa_numbers().expect("an RSA key").modulus, 1);
    for number in [vec![0; 256], padded(&[1], 256), n_less_one] {
        let mut blinded = number.clone();
        let unblinding = blinding.blind(&mut blinded).expect("in range");
        let is_zero = number.iter().all(|byte| *byte == 0);
        assert_eq!(blinded == number, is_zero);
        let mut result = match is_zero {
            true => blinded,
            false => key.rsa_raw(&blinded).expect("in range"),
        };
        unblinding.unblind(&mut result).expect("in range");
        assert_eq!(result, number);
    }
}

#[test]
fn a_number_is_blinded_with_another_factor_each_time() {
    const USES: usize = 3 * USES_PER_DRAW as usize;
    let key = key(2048);
    let (blinding, other) = (RsaBlinding::new(&key), RsaBlinding::new(&key));
    let (blinding, other) = (blinding.expect("RSA"), other.expect("RSA"));
    let number = random(256);
    let mut seen = HashSet::from([number.clone()]);
    for _ in 0..USES {
        for blinding in [&blinding, &other] {
            let mut blinded = number.clone();
            blinding.blind(&mut blinded).expect("in range");
            assert!(seen.insert(blinded), "a factor came twice");
        }
    }
    assert_eq!(seen.len(), 1 + 2 * USES);
}

#[test]
fn pairs_are_squared_and_drawn_again_after_so_many_uses() {
    let key = key(2048);
    let blinding = RsaBlinding::new(&key).expect("an RSA key");
    let workspace = Workspace::new().expect("memory");
    let bytes = |number: &Number| {
        let mut bytes = vec![0; 256];
        number.write(&mut bytes).expect("below the modulus");
        bytes
    };
    let mut squares = Vec::new();
    let mut before: Option<(Number, Number)> = None;
    for _ in 0..3 * USES_PER_DRAW {
        blinding.blind(&mut random(256)).expect("in range");
        let pair = blinding.lock();
        if let Some((mut factor, mut inverse)) = before.take() {
            for number in [&mut factor, &mut inverse] {
                let squared = blinding.montgomery.square(number, &workspace);
                squared.expect("memory");
            }
            let is_square = bytes(&factor) == bytes(&pair.factor);
            assert_eq!(is_square, bytes(&inverse) == bytes(&pair.inverse));
            squares.push(is_square);
        }
        let copies = (pair.factor.copy(), pair.inverse.copy());
        before = Some((copies.0.expect("memory"), copies.1.expect("memory")));
    }
    let period = USES_PER_DRAW as usize;
    for (index, is_square) in squares.iter().enumerate() {
        let is_drawn = (index + 1).is_multiple_of(period);
        assert_eq!(*is_square, !is_drawn, "use {}", index + 2);
    }
}

#[test]
fn what_a_failure_left_behind_is_not_used() {
    let key = key(2048);
    let blinding = RsaBlinding::new(&key).expect("an RSA key");
    assert_same(&key, &blinding, &random(256));
    // The call that changes the pair fails here as it would without memory: a negative number
    // is the one that the library refuses to multiply.
    let pair = blinding.lock();
    // SAFETY: the number is valid and borrowed mutably.
    unsafe { sys::BN_set_negative(pair.inverse.0, 1) };
    drop(pair);
    let number = random(256);
    let mut unchanged = number.clone();
    let failure = blinding.blind(&mut unchanged).expect_err("it is negative");
    assert!(failure.to_string().contains("NEGATIVE"), "{failure}");
    assert_eq!(unchanged, number);
    assert_eq!(blinding.lock().uses_left, 0);
    assert_same(&key, &blinding, &number);
    assert_eq!(blinding.lock().uses_left, USES_PER_DRAW - 1);
}

#[test]
fn what_cannot_be_blinded_is_refused_and_left_as_it_is() {
    let key = key(2048);
    let blinding = RsaBlinding::new(&key).expect("an RSA key");
    let n = key.rsa_numbers().expect("an RSA key").modulus;
    for number in [vec![], vec![1; 255], vec![1; 257], n, vec![0xff; 256]] {
        let mut same = number.clone();
        assert!(blinding.blind(&mut same).is_err());
        assert_eq!(same, number);
        let unblinding = blinding.blind(&mut random(256)).expect("in range");
        assert!(unblinding.unblind(&mut same).is_err());
        assert_eq!(same, number);
    }
    let pair = rcgen::KeyPair::generate().expect("a P-256 key");
    let key = PrivateKey::from_der(pair.serialized_der()).expect("PKCS #8");
    assert!(RsaBlinding::new(&key).is_err());
}

#[test]
fn threads_share_it_and_unblind_in_any_order() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 12;
    let key = key(2048);
    let blinding = RsaBlinding::new(&key).expect("an RSA key");
    let number = random(256);
    let thread = || {
        let mut seen = Vec::new();
        for _ in 0..ROUNDS {
            let numbers: Vec<_> = (0..8).map(|_| random(256)).collect();
            let mut lanes = Vec::new();
            for number in &numbers {
                let mut blinded = number.clone();
                let unblinding = blinding.blind(&mut blinded).expect("in range");
                lanes.push((number, blinded, unblinding));
            }
            for (number, blinded, unblinding) in lanes.into_iter().rev() {
                let mut result = key.rsa_raw(&blinded).expect("in range");
                unblinding.unblind(&mut result).expect("in range");
                assert_eq!(result, key.rsa_raw(number).expect("in range"));
            }
            let mut blinded = number.clone();
            blinding.blind(&mut blinded).expect("in range");
            seen.push(blinded);
        }
        seen
    };
    let seen = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(thread)).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.flatten().collect::<HashSet<_>>()
    });
    assert_eq!(seen.len(), THREADS * ROUNDS, "a factor came twice");
}

#[test]
fn debug_output_shows_no_factor() {
    let blinding = RsaBlinding::new(&key(2048)).expect("an RSA key");
    let unblinding = blinding.blind(&mut random(256)).expect("in range");
    let shown = format!("{blinding:?} {unblinding:?}");
    assert_eq!(shown, "RsaBlinding(redacted) RsaUnblinding(redacted)");
}
