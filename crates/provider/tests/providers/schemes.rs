//! Every scheme of TLS, by OpenSSL's own provider and by one that pauses.

use super::*;
use sealane_provider::Failure;

/// Signatures that servers make with these keys.
const RSA: [u16; 8] = [
    0xff01, 0x0201, 0x0401, 0x0501, 0x0601, 0x0804, 0x0805, 0x0806,
];
const ECDSA: [u16; 4] = [0x0203, 0x0403, 0x0503, 0x0603];
const ED25519: [u16; 1] = [0x0807];

#[test]
fn every_scheme_by_the_default_provider() {
    let provider = default_provider();
    let version = provider.openssl_version();
    assert!(version.starts_with("OpenSSL "), "{version}");
    let cases: [(&'static rcgen::SignatureAlgorithm, &[u16]); 4] = [
        (&rcgen::PKCS_RSA_SHA256, &RSA),
        (&rcgen::PKCS_ECDSA_P256_SHA256, &ECDSA),
        (&rcgen::PKCS_ECDSA_P384_SHA384, &ECDSA),
        (&rcgen::PKCS_ED25519, &ED25519),
    ];
    for threads in [1, 2] {
        let options = EngineOptions {
            threads,
            ..patient()
        };
        for (algorithm, schemes) in cases {
            let running = Running::new(&provider, options, algorithm);
            assert_eq!(running.accelerator.name(), "provider");
            let mut all: Vec<KeyOperation> = schemes
                .iter()
                .map(|scheme| sign(*scheme, "message"))
                .collect();
            if algorithm == &rcgen::PKCS_RSA_SHA256 {
                all.push(decrypt(256));
            }
            let count = all.len() as u64;
            for operation in all {
                let result = running.run_well(operation.clone());
                let is_deterministic = !matches!(
                    operation,
                    KeyOperation::Sign {
                        scheme: 0x0804..=0x0806 | 0x0203 | 0x0403 | 0x0503 | 0x0603,
                        ..
                    }
                );
                if is_deterministic {
                    let ours = running.key.private.perform(&operation).expect("it fits");
                    assert!(ours == result, "{operation:?}");
                }
            }
            let stats = running.stats();
            assert_eq!(stats.operations.get(), count);
            assert_eq!(stats.operation_time.values().count(), count);
            assert_eq!(stats.queue_time.values().count(), count);
            until("the time is counted", || stats.busy_ns.get() > 0);
            assert_eq!((stats.pauses.get(), stats.in_flight.get()), (0, 0));
            assert!(running.lines.all().is_empty(), "{:?}", running.lines.all());
        }
    }
}

#[test]
fn every_scheme_by_a_provider_that_pauses() {
    for wake in ["fd", "callback", "both"] {
        let Some(provider) = card_with(&[("wake", wake)]) else {
            return;
        };
        let cases: [(&'static rcgen::SignatureAlgorithm, &[u16]); 2] = [
            (&rcgen::PKCS_RSA_SHA256, &RSA[1..]),
            (&rcgen::PKCS_ECDSA_P256_SHA256, &ECDSA),
        ];
        for (algorithm, schemes) in cases {
            let running = Running::new(&provider, patient(), algorithm);
            for scheme in schemes {
                running.run_well(sign(*scheme, "message"));
            }
            if algorithm == &rcgen::PKCS_RSA_SHA256 {
                running.run_well(decrypt(256));
            }
            assert!(running.stats().pauses.get() >= schemes.len() as u64);
        }
    }
}

#[test]
fn an_operation_that_does_not_fit_the_key_fails() {
    let provider = default_provider();
    let running = Running::new(&provider, patient(), &rcgen::PKCS_ECDSA_P256_SHA256);
    for operation in [sign(0x0804, "m"), sign(0xbeef, "m"), decrypt(256)] {
        assert!(running.run(operation).is_none());
    }
    assert_eq!(running.stats().failures(Failure::Unsuitable), 3);
    let lines = running.lines.all();
    assert!(
        lines.len() == 1 && lines[0].contains("does not fit the key: Sign(0x0804) with PublicKey("),
        "{lines:?}"
    );
    running.run_well(sign(0x0403, "m"));
}

/// A client may send any number. The operator hears nothing of it.
#[test]
fn a_number_that_is_out_of_range_fails() {
    let provider = default_provider();
    let running = Running::new(&provider, patient(), &rcgen::PKCS_RSA_SHA256);
    let numbers = [vec![0xff; 256], vec![0; 256], vec![1; 255], Vec::new()];
    for input in numbers {
        assert!(running.run(KeyOperation::Decrypt { input }).is_none());
    }
    assert_eq!(running.stats().failures(Failure::Ciphertext), 4);
    assert!(running.lines.all().is_empty());
    running.run_well(decrypt(256));
}
