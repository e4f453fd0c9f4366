//! Does the time of RSA's private operation depend on the input or on the key? A test in the manner
//! of dudect (Reparaz, Balasch and Verbauwhede, "Dude, is my code constant time?"):
//!
//! ```sh
//! cargo run --release -p sealane-vector --example rsa_timing [measurements [comparison]]
//! ```
//!
//! Batches of eight RSA-2048 operations of two classes are measured in random order, with the time
//! stamp counter, and the classes are compared with Welch's t-test: over all measurements, and over
//! those below each of several percentiles, as the operating system causes the slowest ones. A |t|
//! above 4.5 is a hint, above 10 a leak. The comparisons:
//!
//! - nothing: both classes are the same, which shows the noise of the machine;
//! - inputs: always the same number, or a random one each time;
//! - keys: one with exponents and primes that are almost all zero bits, or one of many random ones;
//! - a control that leaks: the batch is followed by powers of a 64-bit number that take an
//!   additional product for each one bit of their exponent. The exponent is sparse or random: one
//!   or two parts in a thousand of the time, which the test must detect.
//!
//! It only prints: a machine's noise must not fail a test.

use std::hint::black_box;

use sealane_awslc::{PrivateKey, fill_random};
use sealane_vector::{RSA_LANES, RsaKey, unsupported};

const MEASUREMENTS: usize = 100_000;

/// Powers of the control.
const LEAKING_POWERS: usize = 8;

/// Random keys of the comparison of keys.
const KEYS: usize = 64;

/// What is cut off, in thousandths of the measurements.
const KEPT: [usize; 6] = [1000, 990, 950, 900, 700, 500];

/// A key's numbers, as `RsaKey::new` takes them.
struct Numbers([Vec<u8>; 7]);

/// Public exponent 3. Modulo p - 1 the private exponent is 2^1023 + 2^A + 2^B + 3, and p is
/// half of one more than three times that; so is q. A and B
/// are 33 and 378 for p, 231 and 613 for q.
const SPARSE: [&str; 6] = [
    "9000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     0000000000000024000000000000000000000000000000000000000000000000000000000480000000000000\
     0000000000000000000000900000000000000000000000000000000000000000000000024000000780000001\
     2000000000000000000000000000000000000000000000000000000000000000000000000000000000000090\
     000000f4800000000000000000000000000000000000000000000000000000001e0000000000000000000000\
     00000240000003c000000000000000000000000000000000000000000000000f00000019",
    "c000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     0000000000000000000000000000000000000000000000000000000000000000000000000600000000000000\
     00000000000000000000000000000000000000000000000000000000000000000000000300000005",
    "c000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     0000000000000030000000000000000000000000000000000000000000000000000000000000000000000000\
     0000000000000000000000c000000000000000000000000000000000000000000000000000000005",
    "8000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     0000000000000000000000000000000000000000000000000000000000000000000000000400000000000000\
     00000000000000000000000000000000000000000000000000000000000000000000000200000003",
    "8000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
     0000000000000020000000000000000000000000000000000000000000000000000000000000000000000000\
     00000000000000000000008000000000000000000000000000000000000000000000000000000003",
    "3a6fd00e667eb929ebe4bb80514d61bd041cebd68d94a8ab5805b1163c26297a34fd49dfee3e21e1153f9ed1\
     e8240a213a4ed50e3245043f48225093d808761597beca3e80ee51b1e29a09f605f68f846e62eb59473948aa\
     dd1d7a608d8684ecfc360c0185574a211c477ea94130cd011f1b3bec766ca2b4227821f3802cf563",
];

impl Numbers {
    fn sparse() -> Self {
        let [n, p, q, dp, dq, coefficient] = SPARSE.map(bytes);
        Self([n, vec![3], p, q, dp, dq, coefficient])
    }

    fn random() -> Self {
        let key = PrivateKey::generate_rsa(2048).expect("the library makes keys");
        let numbers = key.rsa_numbers().expect("it is an RSA key");
        let [p, q] = numbers.primes.map(|prime| prime.to_vec());
        let [dp, dq] = numbers.exponents.map(|exponent| exponent.to_vec());
        let coefficient = numbers.coefficient.to_vec();
        Self([numbers.modulus, numbers.exponent, p, q, dp, dq, coefficient])
    }

    fn key(&self) -> RsaKey {
        let [n, e, p, q, dp, dq, coefficient] = &self.0;
        RsaKey::new(n, e, [p, q], [dp, dq], coefficient).expect("the processor was asked")
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .bytes()
        .map(|digit| (digit as char).to_digit(16).expect("hexadecimal") as u8)
        .collect();
    let (pairs, _) = digits.as_chunks();
    pairs.iter().map(|[high, low]| high << 4 | low).collect()
}

fn main() {
    if let Some(reason) = unsupported() {
        return println!("{reason}");
    }
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let count = count.unwrap_or(MEASUREMENTS);
    println!(
        "largest |t| of two classes, RSA-2048, batches of eight, {count} measurements each line"
    );
    let fixed = Numbers::random();
    let key = fixed.key();
    let number = random_number();

    let only = std::env::args().nth(2);
    let is_wanted = |what: &str| only.as_ref().is_none_or(|only| what == only);
    if is_wanted("nothing") {
        report(
            "nothing",
            compare(count, |_, batch| {
                batch.inputs = [(); RSA_LANES].map(|()| number.clone());
                batch.time(&key, None)
            }),
        );
    }
    if is_wanted("inputs") {
        report(
            "inputs, fixed or random",
            compare(count, |class, batch| {
                // The same work for both: a random number is made, and one of two is copied.
                batch.inputs = [(); RSA_LANES].map(|()| {
                    let random = random_number();
                    [&number, &random][class].clone()
                });
                batch.time(&key, None)
            }),
        );
    }
    if is_wanted("keys") {
        let sparse = Numbers::sparse();
        let keys: Vec<Numbers> = (0..KEYS).map(|_| Numbers::random()).collect();
        let mut position = 0;
        report(
            "keys, sparse or random",
            compare(count, |class, batch| {
                position = (position + 1) % KEYS;
                let numbers = if class == 0 { &sparse } else { &keys[position] };
                // Made anew, in the same place, which computes one batch with it.
                let key = numbers.key();
                batch.inputs = [(); RSA_LANES].map(|()| random_number());
                batch.time(&key, None)
            }),
        );
    }
    if is_wanted("control") {
        report(
            "control, must be seen",
            compare(count, |class, batch| {
                batch.inputs = [(); RSA_LANES].map(|()| random_number());
                let mut random = [0; 8];
                fill_random(&mut random);
                let random = u64::from_ne_bytes(random) | 1 << 63;
                batch.time(&key, Some(if class == 0 { 1 << 63 | 1 } else { random }))
            }),
        );
    }
}

/// A number below every modulus of 2048 bits.
fn random_number() -> Vec<u8> {
    let mut number = vec![0; 256];
    fill_random(&mut number);
    number[0] &= 0x7f;
    number
}

#[derive(Default)]
struct Batch {
    inputs: [Vec<u8>; RSA_LANES],
}

impl Batch {
    /// Ticks of the private operation, and of the leaking power if there is an exponent for it.
    fn time(&self, key: &RsaKey, leaking: Option<u64>) -> u64 {
        let inputs = self.inputs.each_ref().map(Vec::as_slice);
        let mut outputs = [[0; 256]; RSA_LANES];
        let mut targets = outputs.each_mut().map(|output| output.as_mut_slice());
        let start = ticks();
        key.private(black_box(&inputs), &mut targets)
            .expect("the numbers are small");
        if let Some(exponent) = leaking {
            for _ in 0..LEAKING_POWERS {
                black_box(leaking_power(black_box(exponent)));
            }
        }
        let end = ticks();
        black_box(&outputs);
        end - start
    }
}

/// Square and multiply, modulo a prime of 64 bits.
#[inline(never)]
fn leaking_power(exponent: u64) -> u64 {
    const PRIME: u128 = 0xffff_ffff_ffff_ffc5;
    let base = 0x1234_5678_9abc_def1_u128;
    let mut power = 1;
    for bit in (0..64).rev() {
        power = power * power % PRIME;
        if exponent >> bit & 1 == 1 {
            power = black_box(power * base % PRIME);
        }
    }
    power as u64
}

/// Ticks of `count` measurements by class, in random order.
fn compare(count: usize, mut measure: impl FnMut(usize, &mut Batch) -> u64) -> [Vec<u64>; 2] {
    let mut ticks = [Vec::new(), Vec::new()];
    let mut classes = vec![0; count];
    fill_random(&mut classes);
    let mut batch = Batch::default();
    for class in classes {
        let class = usize::from(class & 1);
        ticks[class].push(measure(class, &mut batch));
    }
    ticks
}

fn report(what: &str, ticks: [Vec<u64>; 2]) {
    let mut all = ticks.concat();
    all.sort_unstable();
    let medians = ticks.each_ref().map(|ticks| {
        let mut ticks = ticks.clone();
        ticks.sort_unstable();
        ticks[ticks.len() / 2]
    });
    let tests = KEPT.map(|kept| {
        let limit = all[(all.len() * kept / 1000).min(all.len() - 1)];
        let cropped = ticks.each_ref().map(|ticks| {
            let kept = ticks.iter().filter(|ticks| **ticks <= limit);
            kept.map(|ticks| *ticks as f64).collect::<Vec<f64>>()
        });
        welch(&cropped)
    });
    let largest = tests.iter().fold(0_f64, |largest, t| largest.max(t.abs()));
    let columns: Vec<String> = tests.iter().map(|t| format!("{t:6.2}")).collect();
    println!(
        "{what:<26}|t| {largest:7.2}   medians {medians:?}   t of {KEPT:?}/1000: {}",
        columns.join(" ")
    );
}

/// Welch's t of two samples.
fn welch(samples: &[Vec<f64>; 2]) -> f64 {
    let [(mean_0, error_0), (mean_1, error_1)] = samples.each_ref().map(|sample| {
        let count = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / count;
        let squares: f64 = sample.iter().map(|x| (x - mean) * (x - mean)).sum();
        (mean, squares / (count - 1.0) / count)
    });
    (mean_0 - mean_1) / (error_0 + error_1).sqrt()
}

/// The time stamp counter, once everything before has been computed.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instructions.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        let ticks = std::arch::x86_64::_rdtsc();
        std::arch::x86_64::_mm_lfence();
        ticks
    }
}

/// Other processors have no key either.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}
