//! Histograms, and the reports of wrong results to the operator.

use std::thread;
use std::time::{Duration, Instant};

use super::*;
use sealane_counters::{BUCKET_BOUNDS, Histogram, Level};

#[test]
fn a_duration_is_counted_in_the_bucket_that_its_bound_names() {
    assert!(BUCKET_BOUNDS.is_sorted());
    for (index, bound) in BUCKET_BOUNDS.iter().enumerate() {
        let histogram = Histogram::default();
        histogram.record(*bound - Duration::from_nanos(1));
        histogram.record(*bound);
        histogram.record(*bound + Duration::from_nanos(1));
        let values = histogram.values();
        assert_eq!(values.buckets[index], 2, "bounds are inclusive");
        assert_eq!(values.buckets[index + 1], 1, "beyond {bound:?}");
        assert_eq!(values.count(), 3);
        assert_eq!(values.sum, *bound * 3);
    }
    let histogram = Histogram::default();
    histogram.record(Duration::ZERO);
    histogram.record(Duration::from_secs(3600));
    let values = histogram.values();
    assert_eq!(values.buckets[0], 1);
    assert_eq!(values.buckets[BUCKET_BOUNDS.len()], 1);
}

#[test]
fn operations_are_counted_by_key_and_accelerator() {
    let stats = HandshakeStats::default();
    let (ms, us) = (Duration::from_millis, Duration::from_micros);
    stats.record_operation(KeyType::Rsa2048, AcceleratorKind::Batch, ms(1), true);
    stats.record_operation(KeyType::Rsa2048, AcceleratorKind::Batch, ms(2), true);
    stats.record_operation(KeyType::EcP256, AcceleratorKind::Cpu, us(15), false);
    for key in KeyType::ALL {
        for accelerator in AcceleratorKind::ALL {
            let expected = match (key, accelerator) {
                (KeyType::Rsa2048, AcceleratorKind::Batch) => (2, ms(3)),
                (KeyType::EcP256, AcceleratorKind::Cpu) => (1, us(15)),
                _ => (0, Duration::ZERO),
            };
            let values = stats.operation_time(key, accelerator);
            assert_eq!((values.count(), values.sum), expected);
        }
    }
    assert_eq!(stats.jobs_done(), 3);
    assert_eq!(stats.failed_jobs.get(), 1);
    stats.record_busy(AcceleratorKind::Batch, ms(2));
    assert_eq!(stats.busy_time(AcceleratorKind::Batch), ms(2));
    assert_eq!(stats.busy_time(AcceleratorKind::Cpu), Duration::ZERO);
    for operations in [0, 1, 8, 8, 9] {
        stats.record_batch(operations);
    }
    assert_eq!(stats.batches(), [1, 0, 0, 0, 0, 0, 0, 2]);
}

#[test]
fn keys_are_told_apart_by_what_they_cost() {
    assert_eq!(KeyType::of(&rsa(2048)), KeyType::Rsa2048);
    assert_eq!(KeyType::of(&rsa(3072)), KeyType::Rsa3072);
    assert_eq!(KeyType::of(&rsa(1024)), KeyType::RsaOther);
    assert_eq!(KeyType::of(&p256().0), KeyType::EcP256);
    let mut names: Vec<_> = KeyType::ALL.iter().map(|key| key.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KeyType::ALL.len(), "labels are different");
}

#[test]
fn a_level_that_is_lowered_first_is_not_negative() {
    let gauge = Level::default();
    gauge.lower(2);
    assert_eq!(gauge.get(), 0);
    gauge.raise(3);
    assert_eq!(gauge.get(), 1);
}

#[test]
fn the_operator_is_told_once_a_minute_and_when_it_is_over() {
    let wrong = WrongResults::default();
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let text = wrong.add(1, start).expect("the first is told");
    assert!(
        text.contains(" 1 so far") && text.contains("ssl_accelerator cpu"),
        "{text}"
    );
    assert_eq!(wrong.add(2, after(59)), None);
    let text = wrong.add(1, after(60)).expect("a minute has passed");
    assert!(text.contains(" 4 so far"), "{text}");
    assert!(!wrong.are_too_many());
    // The end is told at once, and is the end.
    let text = wrong.add(MAX_WRONG_RESULTS, after(61)).expect("the limit");
    assert!(text.contains("disabled until"), "{text}");
    assert!(
        text.contains(&(MAX_WRONG_RESULTS + 4).to_string()),
        "{text}"
    );
    assert!(wrong.are_too_many());
    assert_eq!(wrong.add(1, after(600)), None);
    assert_eq!(wrong.get(), MAX_WRONG_RESULTS + 5);
}

#[test]
fn one_thread_alone_says_that_it_is_over() {
    let wrong = WrongResults::default();
    let told: Vec<String> = thread::scope(|scope| {
        let thread = || {
            let now = Instant::now();
            let told = (0..100).filter_map(|_| wrong.add(1, now));
            told.collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(thread)).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.flatten().collect()
    });
    let last = told
        .iter()
        .filter(|text| text.contains("disabled until"))
        .count();
    assert_eq!((last, told.len()), (1, 2), "{told:?}");
    assert_eq!(wrong.get(), 800);
}
