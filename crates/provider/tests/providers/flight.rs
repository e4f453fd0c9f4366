//! Many operations at a time, which end in any order, or whose connections are gone.

use super::*;
use sealane_provider::Failure;

/// Notes which operation ends when.
struct Note {
    number: usize,
    order: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.order.lock().expect("no panic").push(self.number);
    }
}

/// Submits as many operations; returns the order in which they ended, all of them well.
fn run_many(running: &Running, count: usize) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut all = Vec::new();
    for number in 0..count {
        let operation = sign(0x0403, &format!("message {number}"));
        let (job, mut pending) = job(operation.clone());
        let order = order.clone();
        let waker = Waker::from(Arc::new(Note { number, order }));
        assert!(pending.poll(&mut Context::from_waker(&waker)).is_pending());
        running.accelerator.submit(job);
        all.push((operation, pending));
    }
    until("all end", || order.lock().expect("no panic").len() == count);
    for (operation, mut pending) in all {
        let result = pending
            .try_take()
            .expect("it has ended")
            .expect("no failure");
        assert!(
            running
                .key
                .public
                .verify_result(&operation, result.expose())
                .is_ok()
        );
    }
    let order = order.lock().expect("no panic");
    order.clone()
}

/// The provider answers nothing before it has a thousand requests, and then the last one first.
#[test]
fn a_thousand_operations_are_in_flight_and_end_in_another_order() {
    for wake in ["callback", "fd"] {
        let parameters = [("hold", "1000"), ("threads", "1"), ("wake", wake)];
        let Some(provider) = card_with(&parameters) else {
            return;
        };
        let running = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
        // Twice: the second time everything is used again.
        for _ in 0..2 {
            let mut order = run_many(&running, 1000);
            // The last one may be answered before anybody waits for its descriptor.
            order.retain(|number| *number != 999);
            assert!(
                order.is_sorted_by(|a, b| a > b),
                "{wake}: {:?}",
                &order[..20]
            );
        }
        let stats = running.stats();
        assert_eq!(stats.operations.get(), 2000);
        assert_eq!((stats.in_flight.get(), stats.queued.get()), (0, 0));
    }
}

#[test]
fn what_is_beyond_the_limit_waits_for_its_turn() {
    for threads in [1, 2] {
        let Some(provider) = card_with(&[("latency_us", "1000")]) else {
            return;
        };
        let options = EngineOptions {
            threads,
            max_in_flight: 8,
            ..patient()
        };
        let running = Running::new(&provider, options, &rcgen::PKCS_ECDSA_P256_SHA256);
        run_many(&running, 100);
        assert_eq!(running.stats().operations.get(), 100);
    }
}

/// A card whose ring is full does not wake the jobs that it refused.
#[test]
fn a_device_that_takes_no_more_is_asked_again() {
    for wake in ["callback", "fd", "both"] {
        let parameters = [("ring", "2"), ("latency_us", "500"), ("wake", wake)];
        let Some(provider) = card_with(&parameters) else {
            return;
        };
        let running = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
        run_many(&running, 50);
        assert!(running.stats().retries.get() > 0);
    }
}

#[test]
fn jobs_whose_connections_are_gone_go_on_to_their_end() {
    let Some(provider) = card_with(&[("hold", "3")]) else {
        return;
    };
    let running = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
    let [first, second] = ["first", "second"].map(|text| running.submit(sign(0x0403, text)));
    let stats = running.stats();
    until("two are in flight", || stats.in_flight.get() == 2);
    drop((first, second));
    running.run_well(sign(0x0403, "third"));
    until("all end", || stats.in_flight.get() == 0);
    assert_eq!((stats.operations.get(), stats.cancelled.get()), (1, 2));
    assert_eq!(Failure::ALL.map(|reason| stats.failures(reason)), [0; 8]);
}

/// The mappings of this process: begin, end and permissions.
fn mappings() -> Vec<(usize, usize, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
    let mapping = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (begin, end) = words.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some((address(begin)?, address(end)?, words.next()?.to_owned()))
    };
    maps.lines().filter_map(mapping).collect()
}

/// OpenSSL's own stacks have 32 KiB, and lie amid other memory.
#[test]
fn jobs_have_large_stacks_with_a_guard_below() {
    let Some(provider) = card_with(&[("hang_first", "1")]) else {
        return;
    };
    let running = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
    let hanging = running.submit(sign(0x0403, "m"));
    until("it is in flight", || running.stats().pauses.get() == 1);
    let all = mappings();
    let is_stack = |pair: &[(usize, usize, String)]| {
        let (guard, stack) = (&pair[0], &pair[1]);
        let is_guard = guard.2 == "---p" && guard.1 - guard.0 == 64 << 10;
        is_guard && guard.1 == stack.0 && stack.2 == "rw-p" && stack.1 - stack.0 >= 256 << 10
    };
    assert!(all.windows(2).any(is_stack), "{all:x?}");
    let other = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
    other.run_well(sign(0x0403, "release"));
    assert!(wait(hanging).is_some());
}

#[test]
fn an_operation_that_is_cancelled_while_it_waits_never_begins() {
    let Some(provider) = card_with(&[("hang_first", "1")]) else {
        return;
    };
    let options = EngineOptions {
        max_in_flight: 1,
        ..patient()
    };
    let running = Running::new(&provider, options, &rcgen::PKCS_ECDSA_P256_SHA256);
    let hanging = running.submit(sign(0x0403, "hangs"));
    until("it is in flight", || running.stats().in_flight.get() == 1);
    drop(running.submit(sign(0x0403, "waits")));
    assert_eq!(running.stats().queued.get(), 1);
    let last = running.submit(sign(0x0403, "last"));
    let other = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
    other.run_well(sign(0x0403, "release"));
    assert!(wait(hanging).is_some() && wait(last).is_some());
    assert_eq!(running.stats().cancelled.get(), 1);
}

#[test]
fn a_stopped_engine_fails_what_is_submitted() {
    let provider = default_provider();
    let running = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
    let Running {
        engine,
        accelerator,
        lines,
        ..
    } = running;
    let stats = engine.stats().clone();
    drop(engine);
    let (job, mut pending) = job(sign(0x0403, "late"));
    accelerator.submit(job);
    assert!(matches!(pending.try_take(), Some(None)));
    assert_eq!(stats.failures(Failure::Stopped), 1);
    assert!(
        lines.all()[0].contains("the engine stops"),
        "{:?}",
        lines.all()
    );
}

#[test]
fn what_is_in_flight_ends_before_the_engine_does() {
    let Some(provider) = card_with(&[("latency_us", "20000")]) else {
        return;
    };
    let options = EngineOptions {
        max_in_flight: 2,
        ..patient()
    };
    let running = Running::new(&provider, options, &rcgen::PKCS_ECDSA_P256_SHA256);
    let pending: Vec<_> = (0..6).map(|_| running.submit(sign(0x0403, "m"))).collect();
    until("some are in flight", || running.stats().in_flight.get() > 0);
    let stats = running.engine.stats().clone();
    drop(running);
    let results = pending.into_iter().map(wait);
    let good = results.filter(Option::is_some).count() as u64;
    assert_eq!(good, stats.operations.get());
    assert!(good > 0);
    assert_eq!(good + stats.failures(Failure::Stopped), 6);
}
