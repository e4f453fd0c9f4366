//! RSA operations computed here give AWS-LC's results.

use sealane_awslc::{PrivateKey, fill_random};
use sealane_vector::{RSA_LANES, RsaKey, RsaRefused, unsupported};

/// Random calls of each size of key; [`LONG_CALLS`] with `SEALANE_TEST_LONG=1`.
const CALLS: usize = 150;
const LONG_CALLS: usize = 75_000;

/// Keys of each size.
const KEYS: usize = 3;
const LONG_KEYS: usize = 150;

/// Calls after which the long test says how far it is.
const PROGRESS_CALLS: usize = 5_000;

/// Calls and keys of each size: a million operations in the long test.
fn extent() -> (usize, usize) {
    let is_long = std::env::var_os("SEALANE_TEST_LONG").is_some_and(|value| value == "1");
    if is_long {
        (LONG_CALLS, LONG_KEYS)
    } else {
        (CALLS, KEYS)
    }
}

/// The same key for both; `None` if this processor cannot run the code.
fn keys(bits: u32) -> Option<(RsaKey, PrivateKey, Vec<u8>)> {
    let reference = PrivateKey::generate_rsa(bits).expect("the library makes keys");
    let numbers = reference.rsa_numbers().expect("it is an RSA key");
    let ours = RsaKey::new(
        &numbers.modulus,
        &numbers.exponent,
        [&numbers.primes[0], &numbers.primes[1]],
        [&numbers.exponents[0], &numbers.exponents[1]],
        &numbers.coefficient,
    );
    if ours.is_none() {
        let reason = unsupported().expect("a key of the library is refused for no other reason");
        sealane_needs::leave_out(reason);
    }
    Some((ours?, reference, numbers.modulus))
}

/// A random number below the modulus.
fn below(modulus: &[u8]) -> Vec<u8> {
    let mut number = vec![0; modulus.len()];
    loop {
        fill_random(&mut number);
        if number.as_slice() < modulus {
            return number;
        }
    }
}

/// `number` minus a little.
fn minus(number: &[u8], less: u8) -> Vec<u8> {
    let mut number = number.to_vec();
    let mut borrow = less;
    for byte in number.iter_mut().rev() {
        let (difference, is_below) = byte.overflowing_sub(borrow);
        *byte = difference;
        borrow = u8::from(is_below);
    }
    number
}

fn small(number: u8, bytes: usize) -> Vec<u8> {
    let mut small = vec![0; bytes];
    small[bytes - 1] = number;
    small
}

/// A batch computed here, checked and, if asked for, not, against the library.
#[track_caller]
fn compare(
    (ours, reference, modulus): &(RsaKey, PrivateKey, Vec<u8>),
    inputs: &[Vec<u8>],
    is_also_unchecked: bool,
) {
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs = vec![vec![0xee; ours.modulus_bytes()]; inputs.len()];
    let mut targets: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    assert_eq!(ours.checked(&inputs, &mut targets), Ok(0));
    if is_also_unchecked {
        let mut unchecked = vec![vec![0xee; ours.modulus_bytes()]; inputs.len()];
        let mut targets: Vec<&mut [u8]> = unchecked.iter_mut().map(Vec::as_mut_slice).collect();
        assert_eq!(ours.private(&inputs, &mut targets), Ok(()));
        assert_eq!(outputs, unchecked);
    }
    for (lane, (input, output)) in inputs.iter().zip(&outputs).enumerate() {
        // The library refuses those whose result is the number itself, d being odd.
        let is_itself = *input == small(0, input.len())
            || *input == small(1, input.len())
            || *input == minus(modulus, 1);
        let expected = if is_itself {
            input.to_vec()
        } else {
            reference.rsa_raw(input).expect("the input is below n")
        };
        assert!(
            *output == expected,
            "lane {lane} of {}: {input:02x?}",
            inputs.len()
        );
    }
}

fn differential(bits: u32) {
    let mut pair = None;
    let (calls, keys_made) = extent();
    let mut compared = 0;
    for call in 0..calls {
        if call % (calls / keys_made) == 0 {
            let Some(new) = keys(bits) else { return };
            pair = Some(new);
        }
        let pair = pair.as_ref().expect("the first call made one");
        let lanes = call % RSA_LANES + 1;
        let mut inputs: Vec<_> = (0..lanes).map(|_| below(&pair.2)).collect();
        if call % 5 == 0 {
            // The same number twice.
            inputs[lanes - 1] = inputs[0].clone();
        }
        compare(pair, &inputs, call % 16 == 0);
        compared += lanes;
        if (call + 1) % PROGRESS_CALLS == 0 {
            println!("RSA-{bits}: {compared} operations are the library's");
        }
    }
    println!("RSA-{bits}: {compared} operations with {keys_made} keys are the library's");
}

#[test]
fn random_numbers_2048() {
    differential(2048);
}

#[test]
fn random_numbers_3072() {
    differential(3072);
}

#[test]
fn random_numbers_4096() {
    differential(4096);
}

/// Numbers at the edges, and multiples of the primes, in every lane of batches of every size.
#[test]
fn special_numbers() {
    for bits in [2048, 3072, 4096] {
        let Some(pair) = keys(bits) else {
            return;
        };
        let (_, reference, modulus) = &pair;
        let numbers = reference.rsa_numbers().expect("it is an RSA key");
        let bytes = modulus.len();
        let padded = |prime: &[u8]| [vec![0; bytes - prime.len()], prime.to_vec()].concat();
        let [p, q] = numbers.primes.each_ref().map(|prime| padded(prime));
        let less = |number: &[u8]| -> Vec<u8> {
            let mut borrow = 0;
            let mut less = modulus.clone();
            for (byte, number) in less.iter_mut().zip(number).rev() {
                let difference = i16::from(*byte) - i16::from(*number) - borrow;
                borrow = i16::from(difference < 0);
                *byte = difference as u8;
            }
            less
        };
        // The largest number of ones that is below every modulus, and the highest bit alone.
        let mut ones = vec![0xff; bytes];
        ones[0] = 0x7f;
        let mut top = vec![0; bytes];
        top[0] = 0x80;
        let special = [
            small(0, bytes),
            small(1, bytes),
            small(2, bytes),
            minus(modulus, 1),
            minus(modulus, 2),
            less(&p),
            less(&q),
            p,
            q,
            ones,
            top,
        ];
        for lanes in 1..=RSA_LANES {
            for first in (0..special.len()).step_by(if lanes == RSA_LANES { 1 } else { 4 }) {
                let inputs = special.iter().cycle().skip(first).take(lanes);
                compare(&pair, &inputs.cloned().collect::<Vec<_>>(), true);
            }
        }
    }
}

#[test]
fn what_is_refused() {
    let Some((ours, _, modulus)) = keys(2048) else {
        return;
    };
    let number = small(3, 256);
    let good = number.as_slice();
    let call = |inputs: &[&[u8]], lengths: &[usize]| {
        let mut outputs: Vec<_> = lengths.iter().map(|length| vec![7; *length]).collect();
        let mut targets: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let result = ours.checked(inputs, &mut targets);
        let untouched = outputs.concat().iter().all(|byte| *byte == 7);
        assert!(result.is_ok() || untouched);
        result
    };
    assert_eq!(call(&[], &[]), Err(RsaRefused::Count));
    assert_eq!(call(&[good; 9], &[256; 9]), Err(RsaRefused::Count));
    assert_eq!(call(&[good; 2], &[256; 1]), Err(RsaRefused::Count));
    assert_eq!(call(&[&good[1..]], &[256]), Err(RsaRefused::Length));
    assert_eq!(call(&[good], &[257]), Err(RsaRefused::Length));
    assert_eq!(call(&[good, &modulus], &[256; 2]), Err(RsaRefused::Range));
    assert_eq!(call(&[&[0xff; 256]], &[256]), Err(RsaRefused::Range));
    assert_eq!(call(&[good], &[256]), Ok(0));
    assert_eq!(format!("{ours:?}"), "RsaKey(2048 bits, redacted)");
}

/// A key whose numbers do not belong together computes wrong results, which give it away: it
/// is not taken, whichever of its numbers is wrong.
#[test]
fn spoiled_keys_are_refused() {
    let Some((_, reference, _)) = keys(2048) else {
        return;
    };
    let numbers = reference.rsa_numbers().expect("it is an RSA key");
    let parts: [&[u8]; 7] = [
        &numbers.modulus,
        &numbers.exponent,
        &numbers.primes[0],
        &numbers.primes[1],
        &numbers.exponents[0],
        &numbers.exponents[1],
        &numbers.coefficient,
    ];
    let make = |parts: &[Vec<u8>]| {
        RsaKey::new(
            &parts[0],
            &parts[1],
            [&parts[2], &parts[3]],
            [&parts[4], &parts[5]],
            &parts[6],
        )
    };
    let good = parts.map(|part| part.to_vec());
    assert!(make(&good).is_some());
    for which in 0..good.len() {
        let mut spoiled = good.clone();
        let middle = spoiled[which].len() / 2;
        spoiled[which][middle] ^= 0x10;
        assert!(make(&spoiled).is_none(), "number {which} was changed");
    }
    let short = PrivateKey::generate_rsa(1024).expect("the library makes short keys too");
    let numbers = short.rsa_numbers().expect("it is an RSA key");
    let key = RsaKey::new(
        &numbers.modulus,
        &numbers.exponent,
        [&numbers.primes[0], &numbers.primes[1]],
        [&numbers.exponents[0], &numbers.exponents[1]],
        &numbers.coefficient,
    );
    assert!(key.is_none());
}

#[test]
fn others_get_their_turn_while_a_batch_is_computed() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static PAUSES: AtomicUsize = AtomicUsize::new(0);
    let Some((key, _, modulus)) = keys(2048) else {
        return;
    };
    let key = key.pausing(|| {
        PAUSES.fetch_add(1, Ordering::Relaxed);
    });
    let mut counts = Vec::new();
    for _ in 0..3 {
        let before = PAUSES.load(Ordering::Relaxed);
        let mut output = vec![0; modulus.len()];
        let wrong = key.checked(&[&below(&modulus)], &mut [&mut output]);
        assert_eq!(wrong, Ok(0));
        counts.push(PAUSES.load(Ordering::Relaxed) - before);
    }
    assert_eq!(counts, [counts[0]; 3], "whatever the number");
    assert!(counts[0] >= 4, "{} pauses in half a millisecond", counts[0]);
}
