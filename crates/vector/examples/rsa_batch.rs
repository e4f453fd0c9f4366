//! RSA's private operation: this crate's batches of one to eight and AWS-LC's single operation in
//! alternation:
//!
//! ```sh
//! cargo run --release -p sealane-vector --example rsa_batch
//! ```
//!
//! Prints medians of the rounds, per operation: microseconds, cycles of the time stamp counter, and
//! the ratio to AWS-LC. Batches use `RsaKey::checked`; the last column is an unchecked batch of
//! eight. AWS-LC's operation includes its own check and blinding.

use std::hint::black_box;
use std::time::{Duration, Instant};

use sealane_awslc::PrivateKey;
use sealane_vector::{RSA_LANES, RsaKey, unsupported};

const ROUNDS: usize = 9;
const TIMED: Duration = Duration::from_millis(40);

/// Time and cycles of one operation.
type Cost = [f64; 2];

fn main() {
    println!("us and cycles per operation, median of {ROUNDS} rounds, and ratio to AWS-LC");
    for bits in [2048, 3072, 4096] {
        let library = PrivateKey::generate_rsa(bits).expect("the library makes keys");
        let numbers = library.rsa_numbers().expect("it is an RSA key");
        let ours = RsaKey::new(
            &numbers.modulus,
            &numbers.exponent,
            [&numbers.primes[0], &numbers.primes[1]],
            [&numbers.exponents[0], &numbers.exponents[1]],
            &numbers.coefficient,
        );
        let Some(ours) = ours else {
            return println!("{}", unsupported().unwrap_or("the key was refused"));
        };
        let input = vec![0x5a; ours.modulus_bytes()];
        // AWS-LC, batches of 1 to 8, and one of 8 that is not checked.
        let mut costs = vec![Vec::new(); RSA_LANES + 2];
        for _ in 0..ROUNDS {
            costs[0].push(cost(1, || {
                let output = library.rsa_raw(black_box(&input));
                assert_eq!(output.expect("the input is in range").len(), input.len());
            }));
            for (costs, batch) in costs[1..].iter_mut().zip(1..=RSA_LANES) {
                costs.push(batch_cost(&ours, &input, batch, true));
            }
            costs[RSA_LANES + 1].push(batch_cost(&ours, &input, RSA_LANES, false));
        }
        let medians: Vec<Cost> = costs.iter().map(|costs| median(costs)).collect();
        for (number, [time_us, cycles]) in medians.iter().enumerate() {
            let what = match number {
                0 => "AWS-LC".to_owned(),
                9 => "batch of 8, not checked".to_owned(),
                _ => format!("batch of {number}"),
            };
            let ratio = time_us / medians[0][0];
            println!("RSA-{bits}  {what:<24}{time_us:>9.1}{cycles:>12.0}{ratio:>8.3}");
        }
    }
}

fn batch_cost(key: &RsaKey, input: &[u8], batch: usize, is_checked: bool) -> Cost {
    let inputs = vec![input; batch];
    let mut outputs = vec![vec![0; input.len()]; batch];
    let mut targets: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    cost(batch, || {
        let inputs = black_box(&inputs);
        if is_checked {
            assert_eq!(key.checked(inputs, &mut targets), Ok(0));
        } else {
            assert_eq!(key.private(inputs, &mut targets), Ok(()));
        }
    })
}

fn median(costs: &[Cost]) -> Cost {
    [0, 1].map(|which| {
        let mut values: Vec<f64> = costs.iter().map(|cost| cost[which]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    })
}

/// What one of the `batch` operations costs that `compute` does.
fn cost(batch: usize, mut compute: impl FnMut()) -> Cost {
    compute();
    let (start, first_cycle) = (Instant::now(), cycles());
    let mut operations = 0;
    loop {
        compute();
        operations += batch;
        let elapsed = start.elapsed();
        if elapsed >= TIMED {
            let cycles = cycles() - first_cycle;
            let per_operation = 1.0 / operations as f64;
            return [
                elapsed.as_secs_f64() * 1e6 * per_operation,
                cycles as f64 * per_operation,
            ];
        }
    }
}

/// The time stamp counter, which ticks at the nominal frequency.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn cycles() -> u64 {
    // SAFETY: every x86-64 processor that runs this has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Other processors have no key either.
#[cfg(not(target_arch = "x86_64"))]
fn cycles() -> u64 {
    0
}
