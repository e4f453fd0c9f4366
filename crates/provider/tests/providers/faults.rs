//! A provider that fails, errs, hangs or does not return.

use super::*;
use sealane_provider::Failure;

/// Short, for operations that never end.
const SHORT: Duration = Duration::from_millis(100);

fn hasty(max_in_flight: usize) -> EngineOptions {
    EngineOptions {
        max_in_flight,
        timeout: SHORT,
        ..EngineOptions::default()
    }
}

#[test]
fn a_failure_costs_one_handshake() {
    for pause in ["yes", "no"] {
        let Some(provider) = card_with(&[("fail_every", "3"), ("pause", pause)]) else {
            return;
        };
        let running = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
        for number in 1..=9 {
            let result = running.run(sign(0x0403, "m"));
            assert_eq!(result.is_none(), number % 3 == 0, "{number}");
        }
        assert_eq!(running.stats().failures(Failure::Error), 3);
        let lines = running.lines.all();
        assert!(
            lines.len() == 1
                && lines[0].starts_with("ssl_accelerator provider:asynctest: ")
                && lines[0].contains("the provider failed: EVP_DigestSign() failed ("),
            "{lines:?}"
        );
    }
}

#[test]
fn a_wrong_result_is_never_used() {
    let Some(provider) = card_with(&[("wrong_every", "2")]) else {
        return;
    };
    let cases: [(&'static rcgen::SignatureAlgorithm, Vec<KeyOperation>); 2] = [
        (
            &rcgen::PKCS_RSA_SHA256,
            vec![sign(0x0401, "m"), sign(0x0804, "m"), decrypt(256)],
        ),
        (&rcgen::PKCS_ECDSA_P256_SHA256, vec![sign(0x0403, "m")]),
    ];
    let options = EngineOptions {
        verify_ecdsa: true,
        ..patient()
    };
    for (algorithm, operations) in cases {
        let running = Running::new(&provider, options, algorithm);
        for operation in &operations {
            running.run_well(operation.clone());
            assert!(running.run(operation.clone()).is_none(), "{operation:?}");
        }
        assert_eq!(
            running.stats().failures(Failure::Wrong),
            operations.len() as u64
        );
        let lines = running.lines.all();
        assert!(
            lines.len() == 1 && lines[0].contains("result is wrong: "),
            "{lines:?}"
        );
    }
}

/// To verify an ECDSA signature costs more than to make it.
#[test]
fn a_wrong_ecdsa_signature_is_left_to_the_client() {
    let Some(provider) = card_with(&[("wrong_every", "1")]) else {
        return;
    };
    let running = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
    let operation = sign(0x0403, "m");
    let wrong = running.run(operation.clone()).expect("unverified");
    assert!(
        running
            .key
            .public
            .verify_result(&operation, wrong.expose())
            .is_err()
    );
    assert_eq!(running.stats().operations.get(), 1);
}

/// Hanging operations fail after the time-out, further ones at once; when they end after all, the
/// engine is as it was.
#[test]
fn operations_that_hang_do_not_make_others_wait() {
    for wake in ["fd", "callback"] {
        let Some(provider) = card_with(&[("hang_first", "4"), ("wake", wake)]) else {
            return;
        };
        let running = Running::new(&provider, hasty(4), &rcgen::PKCS_ECDSA_P256_SHA256);
        let stats = running.stats();
        let first: Vec<_> = (0..6).map(|_| running.submit(sign(0x0403, "m"))).collect();
        for pending in first {
            assert!(wait(pending).is_none());
        }
        // On a busy machine, some may have timed out before they began.
        until("four hang", || {
            stats.hanging.get() == 4 || running.run(sign(0x0403, "m")).is_some()
        });
        assert_eq!(stats.hanging.get(), 4);
        assert_eq!((stats.in_flight.get(), stats.queued.get()), (0, 0));
        let before = stats.failures(Failure::AllHanging);
        let mut refused = running.submit(sign(0x0403, "m"));
        assert!(matches!(refused.try_take(), Some(None)), "at once");
        assert_eq!(stats.failures(Failure::AllHanging), before + 1);
        assert!(stats.failures(Failure::TimedOut) >= 4);
        let lines = running.lines.all();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for text in [
            "took too long: it w",
            "as many operations hang as may be in flight",
        ] {
            assert!(lines.iter().any(|line| line.contains(text)), "{lines:?}");
        }
        // The same card, by another engine.
        let other = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
        other.run_well(sign(0x0403, "release"));
        until("none hangs", || stats.hanging.get() == 0);
        // They may be late when this machine is busy.
        until("it works again", || {
            running.run(sign(0x0403, "m")).is_some()
        });
    }
}

/// Jobs that hang when the engine stops are left alone, and may be woken later.
#[test]
fn an_engine_stops_although_operations_hang() {
    for wake in ["fd", "callback"] {
        let Some(provider) = card_with(&[("hang_first", "3"), ("wake", wake)]) else {
            return;
        };
        let running = Running::new(&provider, hasty(10), &rcgen::PKCS_ECDSA_P256_SHA256);
        let pending: Vec<_> = (0..3).map(|_| running.submit(sign(0x0403, "m"))).collect();
        let stats = running.engine.stats().clone();
        until("they have begun", || stats.queued.get() == 0);
        drop(running);
        for pending in pending {
            assert!(wait(pending).is_none());
        }
        let other = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
        other.run_well(sign(0x0403, "release"));
        other.run_well(sign(0x0403, "m"));
    }
}

#[test]
fn a_thread_that_does_not_return_keeps_none_from_another() {
    let Some(provider) = card_with(&[("block_first", "1"), ("pause", "no")]) else {
        return;
    };
    let options = EngineOptions {
        threads: 2,
        ..hasty(10)
    };
    let running = Running::new(&provider, options, &rcgen::PKCS_ECDSA_P256_SHA256);
    assert!(running.run(sign(0x0403, "blocks")).is_none());
    let stats = running.stats();
    assert_eq!(stats.failures(Failure::TimedOut), 1);
    until("the other thread works", || {
        running.run(sign(0x0403, "m")).is_some()
    });
    let other = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
    other.run_well(sign(0x0403, "release"));
    until("it returns", || stats.hanging.get() == 0);
}

#[test]
fn if_no_thread_returns_operations_fail_at_once() {
    let Some(provider) = card_with(&[("block_first", "1"), ("pause", "no")]) else {
        return;
    };
    let running = Running::new(&provider, hasty(10), &rcgen::PKCS_ECDSA_P256_SHA256);
    assert!(running.run(sign(0x0403, "blocks")).is_none());
    until("it is noticed", || {
        let is_at_once = running.submit(sign(0x0403, "m")).try_take().is_some();
        is_at_once && running.stats().failures(Failure::Blocked) > 0
    });
    let lines = running.lines.all();
    assert!(
        lines.iter().any(|line| line.contains("does not return")),
        "{lines:?}"
    );
    // Stopping does not wait for it for ever.
    let stats = running.engine.stats().clone();
    drop(running);
    let other = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
    other.run_well(sign(0x0403, "release"));
    until("it ends", || stats.hanging.get() == 0);
}
