//! What is queued and how it is taken; faulty processors. The kernel is AWS-LC in disguise, so that
//! all of this is tested on any processor.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread;

use sealane_awslc::{RsaBlinding, fill_random};
use sealane_vector::{RSA_LANES, RsaRefused};

use super::super::batch::{Batch, Kernel};
use super::*;

/// Computes eight numbers as the vectors do, and errs when it is told to.
#[derive(Debug)]
struct Disguised {
    key: PrivateKey,
    told: Arc<Orders>,
}

/// What a kernel is to do and what it did.
#[derive(Debug, Default)]
struct Orders {
    /// Lanes that give a wrong result.
    wrong: AtomicU8,
    is_refusing: AtomicBool,
    calls: AtomicUsize,
    lanes: AtomicUsize,
    /// What it was given.
    numbers: Mutex<Vec<Vec<u8>>>,
}

impl Kernel for Disguised {
    fn checked(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<u8, RsaRefused> {
        self.told.calls.fetch_add(1, Ordering::Relaxed);
        self.told.lanes.fetch_add(inputs.len(), Ordering::Relaxed);
        let numbers = inputs.iter().map(|input| input.to_vec());
        self.told.numbers.lock().unwrap().extend(numbers);
        assert!(inputs.len() <= RSA_LANES && inputs.len() == outputs.len());
        if self.told.is_refusing.load(Ordering::Relaxed) {
            return Err(RsaRefused::Range);
        }
        let wrong = self.told.wrong.load(Ordering::Relaxed);
        for (lane, (input, output)) in inputs.iter().zip(outputs).enumerate() {
            match wrong >> lane & 1 {
                0 => output.copy_from_slice(&self.key.rsa_raw(input).expect("in range")),
                _ => output.fill(0),
            }
        }
        Ok(wrong & (0xff >> (RSA_LANES - inputs.len())))
    }
}

/// A batch of a 2048-bit key with everything that can be seen of it.
struct Bench {
    batch: Batch,
    orders: Arc<Orders>,
    stats: Arc<HandshakeStats>,
    told: Told,
}

impl Bench {
    fn new() -> Self {
        Self::counting(&Arc::default())
    }

    fn counting(stats: &Arc<HandshakeStats>) -> Self {
        let blinding = RsaBlinding::new(&rsa(2048)).expect("an RSA key");
        Self::blinding(blinding, stats)
    }

    fn blinding(blinding: RsaBlinding, stats: &Arc<HandshakeStats>) -> Self {
        let key = rsa(2048);
        let (orders, told) = (Arc::<Orders>::default(), Told::default());
        let kernel = Disguised {
            key: key.clone(),
            told: orders.clone(),
        };
        let modulus = key.rsa_numbers().expect("an RSA key").modulus;
        let (kernel, report) = (Box::new(kernel), told.report());
        Self {
            batch: Batch::with_kernel(&key, modulus, kernel, blinding, stats, &report),
            orders,
            stats: stats.clone(),
            told,
        }
    }

    /// Runs `count` operations and checks every result.
    #[track_caller]
    fn assert_right(&self, count: u8) {
        let key = rsa(2048);
        let numbers: Vec<_> = (0..count).map(|n| number(&key, n)).collect();
        let operations: Vec<_> = numbers.iter().map(|number| decrypt(number)).collect();
        for (number, result) in numbers.iter().zip(run(&self.batch, &operations)) {
            let expected = key.rsa_raw(number).expect("in range");
            assert_eq!(result.as_ref().map(Secret::expose), Some(&expected[..]));
        }
    }

    fn submit(&self, count: u8) -> Vec<PendingJob> {
        let submit = |n| {
            let (job, pending) = job(decrypt(&number(&rsa(2048), n)));
            self.batch.submit(job);
            pending
        };
        (0..count).map(submit).collect()
    }

    fn calls(&self) -> usize {
        self.orders.calls.load(Ordering::Relaxed)
    }

    fn lanes(&self) -> usize {
        self.orders.lanes.load(Ordering::Relaxed)
    }

    fn numbers(&self) -> Vec<Vec<u8>> {
        self.orders.numbers.lock().unwrap().clone()
    }
}

#[test]
fn the_disguise_is_good() {
    let bench = Bench::new();
    assert_computes_everything(&bench.batch, &rsa(2048));
    assert_eq!(bench.lanes(), 24, "all of them");
}

#[test]
fn few_are_computed_alone_and_many_together() {
    let bench = Bench::new();
    assert!(!bench.batch.work(), "nothing is queued");
    let mut pending = bench.submit(3);
    assert_eq!(
        (bench.batch.queued(), bench.stats.queued_jobs.get()),
        (3, 3)
    );
    assert!(bench.batch.work());
    assert!(pending[0].try_take().is_some(), "first come, first served");
    assert_eq!(bench.batch.queued(), 2, "the others are for who is free");
    // More have come: enough for one call.
    pending.extend(bench.submit(6));
    assert!(bench.batch.work());
    assert_eq!(
        (bench.calls(), bench.lanes(), bench.batch.queued()),
        (1, 8, 0)
    );
    assert!(!bench.batch.work());
    assert_eq!(bench.stats.batches(), [1, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(bench.stats.queued_jobs.get(), 0);
    assert_eq!(bench.stats.jobs_done(), 9);
    assert_eq!(bench.stats.job_queue_time.values().count(), 9);
    for pending in &mut pending[1..] {
        assert!(matches!(pending.try_take(), Some(Some(_))));
    }
}

#[test]
fn those_that_are_left_for_later_keep_their_order() {
    let bench = Bench::new();
    let mut pending = bench.submit(3);
    for expected in 1..=3 {
        assert!(bench.batch.work());
        let done = pending.iter_mut().map(|pending| pending.try_take());
        let done: Vec<_> = done.map(|result| result.is_some()).collect();
        assert_eq!(done, [true, expected > 1, expected > 2]);
    }
}

#[test]
fn batches_are_full_before_they_are_small() {
    let bench = Bench::new();
    bench.assert_right(21);
    assert_eq!(bench.stats.batches(), [0, 0, 0, 0, 1, 0, 0, 2]);
}

#[test]
fn wrong_results_are_computed_again_counted_and_told() {
    let bench = Bench::new();
    bench.orders.wrong.store(0b0100_0010, Ordering::Relaxed);
    bench.assert_right(8);
    assert_eq!(bench.stats.wrong_results.get(), 2);
    let texts = bench.told.texts();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains(" 2 so far"), "{}", texts[0]);
    bench.assert_right(8);
    assert_eq!(bench.stats.wrong_results.get(), 4);
    assert_eq!(bench.told.texts().len(), 1, "not every time");
    assert_eq!(bench.stats.jobs_done(), 16, "each is counted once");
    assert_eq!(bench.stats.failed_jobs.get(), 0);
}

#[test]
fn a_processor_that_errs_too_often_is_not_asked_any_more() {
    let bench = Bench::new();
    bench.orders.wrong.store(0xff, Ordering::Relaxed);
    bench.assert_right(24);
    assert_eq!(bench.stats.wrong_results.get(), MAX_WRONG_RESULTS);
    assert_eq!(bench.calls(), 2);
    assert_eq!(bench.batch.batch_size(), 1);
    assert_eq!(
        bench.told.texts().len(),
        2,
        "the first, and that it is over"
    );
    // It is the processor's fault, not the key's.
    let other = Bench::counting(&bench.stats);
    other.assert_right(24);
    assert_eq!(other.calls(), 0);
    assert!(other.told.texts().is_empty());
}

#[test]
fn a_kernel_that_refuses_costs_time_only() {
    let bench = Bench::new();
    bench.orders.is_refusing.store(true, Ordering::Relaxed);
    bench.assert_right(8);
    assert_eq!(bench.calls(), 1);
    assert_eq!(bench.stats.wrong_results.get(), 0);
    assert!(bench.told.texts().is_empty());
}

#[test]
fn a_hostile_number_does_not_keep_others_from_the_vectors() {
    let bench = Bench::new();
    let key = rsa(2048);
    let mut operations: Vec<_> = (0..7).map(|n| decrypt(&number(&key, n))).collect();
    operations.insert(3, decrypt(&[0xff; 256]));
    let results = run(&bench.batch, &operations);
    assert_eq!((bench.calls(), bench.lanes()), (1, 7));
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result.is_some(), n != 3);
    }
}

#[test]
fn the_kernel_never_sees_a_ciphertext() {
    let bench = Bench::new();
    let key = rsa(2048);
    let mut operations = Vec::new();
    for n in 0..16 {
        operations.push(decrypt(&number(&key, n)));
        // Whoever sends the same again does not make the processor do the same again.
        operations.push(decrypt(&number(&key, 0x11)));
    }
    let results = run(&bench.batch, &operations);
    let mut seen = bench.numbers();
    assert_eq!(seen.len(), operations.len(), "all of them, in vectors");
    for (operation, result) in operations.iter().zip(results) {
        let KeyOperation::Decrypt { input } = operation else {
            unreachable!("nothing is signed");
        };
        assert!(!seen.contains(input), "{:02x?}...", &input[..4]);
        let expected = key.rsa_raw(input).expect("in range");
        assert_eq!(result.as_ref().map(Secret::expose), Some(&expected[..]));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), operations.len(), "a number came twice");
}

#[test]
fn signatures_are_not_blinded() {
    let bench = Bench::new();
    let key = rsa(2048);
    // PKCS #1 v1.5, which makes the same number of a message each time.
    let operations: Vec<_> = (0..8).map(|n| sign(0x0401, &[n])).collect();
    run(&bench.batch, &operations);
    let encoded = operations
        .iter()
        .map(|operation| key.rsa_encoded(operation));
    let encoded: Vec<_> = encoded.map(|number| number.expect("it fits")).collect();
    assert_eq!(bench.numbers(), encoded);
}

#[test]
fn what_cannot_be_blinded_goes_to_the_library() {
    // The blinding of a longer key refuses the numbers of this one.
    let blinding = RsaBlinding::new(&rsa(3072)).expect("an RSA key");
    let bench = Bench::blinding(blinding, &Arc::default());
    bench.assert_right(8);
    assert_eq!((bench.calls(), bench.stats.jobs_done()), (0, 8));
    assert_eq!(bench.stats.failed_jobs.get(), 0);
    // Signatures do not suffer for it.
    let key = rsa(2048);
    let mut operations: Vec<_> = (0..4).map(|n| sign(0x0401, &[n])).collect();
    operations.extend((0..4).map(|n| decrypt(&number(&key, n))));
    let results = run(&bench.batch, &operations);
    assert!(results.iter().all(Option::is_some));
    assert_eq!((bench.calls(), bench.lanes()), (1, 4));
    assert_eq!(bench.stats.wrong_results.get(), 0);
}

/// Numbers that AWS-LC computes with, near the bounds and anywhere.
fn ciphertexts(key: &PrivateKey, randoms: usize) -> Vec<Vec<u8>> {
    let numbers = key.rsa_numbers().expect("an RSA key");
    let bytes = numbers.modulus.len();
    let padded = |value: &[u8]| [&vec![0; bytes - value.len()][..], value].concat();
    // Less two, with the borrow that an odd modulus needs if it ends in one.
    let (mut large, mut borrow) = (numbers.modulus.clone(), 2);
    for byte in large.iter_mut().rev() {
        let is_below;
        (*byte, is_below) = byte.overflowing_sub(borrow);
        borrow = u8::from(is_below);
    }
    let mut all = vec![
        padded(&[2]),
        padded(&[3]),
        large,
        padded(&numbers.primes[0]),
        padded(&numbers.primes[1]),
    ];
    all.extend((0..randoms).map(|_| {
        let mut number = vec![0; bytes];
        fill_random(&mut number);
        number[0] &= 0x3f;
        number
    }));
    all
}

#[test]
fn ciphertexts_of_all_kinds_come_out_right() {
    for (bits, randoms) in [(2048, 400), (3072, 30), (4096, 30)] {
        let key = rsa(bits);
        // Where vectors can compute, they do; else it is still true.
        let accelerator = made(AcceleratorChoice::Auto, &key).expect("any key");
        let numbers = ciphertexts(&key, randoms);
        let operations: Vec<_> = numbers.iter().map(|number| decrypt(number)).collect();
        for (number, result) in numbers.iter().zip(run(&*accelerator, &operations)) {
            let expected = key.rsa_raw(number).expect("in range");
            assert_eq!(result.as_ref().map(Secret::expose), Some(&expected[..]));
        }
    }
}

#[test]
fn cancelled_jobs_are_dropped_uncomputed() {
    let bench = Bench::new();
    let mut pending = bench.submit(12);
    let mut n = 0;
    pending.retain(|_| {
        n += 1;
        n % 3 == 0
    });
    assert!(bench.batch.work());
    assert_eq!((bench.calls(), bench.lanes()), (1, 4), "four of twelve");
    assert_eq!(bench.stats.cancelled_jobs.get(), 8);
    assert_eq!(
        (bench.batch.queued(), bench.stats.queued_jobs.get()),
        (0, 0)
    );
    assert!(
        pending
            .iter_mut()
            .all(|pending| pending.try_take().is_some())
    );
    // Nobody works, and everybody dies: they do not pile up.
    for _ in 0..100 {
        bench.submit(1);
    }
    assert_eq!(
        (bench.batch.queued(), bench.stats.queued_jobs.get()),
        (1, 1)
    );
    assert!(!bench.batch.work(), "nobody is there to work for");
    assert_eq!(bench.batch.queued(), 0);
    assert_eq!(bench.stats.cancelled_jobs.get(), 108);
}

#[test]
fn an_accelerator_that_ends_fails_what_is_queued() {
    let bench = Bench::new();
    let mut pending = bench.submit(5);
    let stats = bench.stats.clone();
    drop(bench);
    assert!(
        pending
            .iter_mut()
            .all(|pending| pending.try_take() == Some(None))
    );
    assert_eq!(stats.queued_jobs.get(), 0);
}

#[test]
fn many_threads_submit_cancel_and_work() {
    const SUBMITTERS: usize = 8;
    const ROUNDS: usize = 40;
    let bench = Bench::new();
    bench.orders.wrong.store(0b1000, Ordering::Relaxed);
    let is_over = AtomicBool::new(false);
    let cancelled = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if !bench.batch.work() {
                        thread::yield_now();
                    }
                }
            });
        }
        let submitter = |thread: usize| {
            let (bench, cancelled) = (&bench, &cancelled);
            move || {
                let key = rsa(2048);
                for round in 0..ROUNDS {
                    let message = [thread as u8, round as u8];
                    let number = number(&key, (thread * ROUNDS + round) as u8);
                    let is_signed = round.is_multiple_of(2);
                    let (job, mut pending) = job(match is_signed {
                        true => sign(0x0804, &message),
                        false => decrypt(&number),
                    });
                    bench.batch.submit(job);
                    if (thread + round).is_multiple_of(5) {
                        cancelled.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let result = super::job::wait(&mut pending);
                    if is_signed {
                        assert_signature(&key, 0x0804, &message, result.as_ref());
                        continue;
                    }
                    let expected = key.rsa_raw(&number).expect("in range");
                    assert_eq!(result.as_ref().map(Secret::expose), Some(&expected[..]));
                }
            }
        };
        let threads: Vec<_> = (0..SUBMITTERS).map(|n| scope.spawn(submitter(n))).collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "every result is right");
    });
    while bench.batch.work() {}
    // A cancelled job may have been under way already.
    let stats = &bench.stats;
    assert!(stats.cancelled_jobs.get() <= cancelled.into_inner() as u64);
    let ended = stats.jobs_done() + stats.cancelled_jobs.get();
    assert_eq!(ended, (SUBMITTERS * ROUNDS) as u64);
    assert_eq!((stats.queued_jobs.get(), stats.failed_jobs.get()), (0, 0));
}
