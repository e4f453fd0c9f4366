//! All accelerators give the same results; what they refuse, and their `Debug` output.

mod batch;
mod job;
mod stats;

use std::sync::{Arc, Mutex, OnceLock};

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, KeyPair, RsaParameters, UnparsedPublicKey};
use sealane_awslc::{KeyOperation, PrivateKey, Secret};

use super::*;

/// SignatureSchemes of RSA keys with their verifiers; `None`: aws-lc-rs does not verify it.
const RSA_SCHEMES: [(u16, Option<&RsaParameters>); 8] = [
    (0x0804, Some(&signature::RSA_PSS_2048_8192_SHA256)),
    (0x0805, Some(&signature::RSA_PSS_2048_8192_SHA384)),
    (0x0806, Some(&signature::RSA_PSS_2048_8192_SHA512)),
    (0x0401, Some(&signature::RSA_PKCS1_2048_8192_SHA256)),
    (0x0501, Some(&signature::RSA_PKCS1_2048_8192_SHA384)),
    (0x0601, Some(&signature::RSA_PKCS1_2048_8192_SHA512)),
    (
        0x0201,
        Some(&signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY),
    ),
    (0xff01, None), // MD5 with SHA-1, libssl's own number
];

/// A key of this size, made once.
fn rsa(bits: u32) -> PrivateKey {
    static KEYS: [OnceLock<PrivateKey>; 4] = [const { OnceLock::new() }; 4];
    let slot = match bits {
        2048 => 0,
        3072 => 1,
        4096 => 2,
        _ => 3,
    };
    let key = KEYS[slot].get_or_init(|| PrivateKey::generate_rsa(bits).expect("a usual size"));
    assert_eq!(key.bits(), bits);
    key.clone()
}

fn p256() -> (PrivateKey, Vec<u8>) {
    let algorithm = &signature::ECDSA_P256_SHA256_ASN1_SIGNING;
    let pair = signature::EcdsaKeyPair::generate(algorithm).expect("a key");
    let document = pair.to_pkcs8v1().expect("its own key");
    let key = PrivateKey::from_der(document.as_ref()).expect("PKCS #8");
    (key, pair.public_key().as_ref().to_vec())
}

/// What the operator was told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn report(&self) -> Report {
        let texts = self.0.clone();
        Arc::new(move |text| texts.lock().unwrap().push(text.to_owned()))
    }

    fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn made(choice: AcceleratorChoice, key: &PrivateKey) -> Result<Arc<dyn Accelerator>, NotSuited> {
    build(choice, key, &Arc::default(), &Told::default().report())
}

fn sign(scheme: u16, message: &[u8]) -> KeyOperation {
    KeyOperation::Sign {
        scheme,
        input: message.to_vec(),
    }
}

fn decrypt(number: &[u8]) -> KeyOperation {
    KeyOperation::Decrypt {
        input: number.to_vec(),
    }
}

/// A number of the key's length and below its modulus, different for each `n`.
fn number(key: &PrivateKey, n: u8) -> Vec<u8> {
    let mut number = vec![n; key.bits() as usize / 8];
    number[0] = 0x3f;
    number
}

/// Submits all, then works until all are done; the results in order.
fn run(accelerator: &dyn Accelerator, operations: &[KeyOperation]) -> Vec<Option<Secret>> {
    let mut pending = Vec::new();
    for operation in operations {
        let (job, waiter) = job(operation.clone());
        accelerator.submit(job);
        pending.push(waiter);
    }
    while accelerator.work() {}
    let taken = pending.iter_mut().map(|waiter| waiter.try_take());
    taken.map(|result| result.expect("all are done")).collect()
}

#[track_caller]
fn assert_signature(key: &PrivateKey, scheme: u16, message: &[u8], result: Option<&Secret>) {
    let signature = result.expect("it signs").expose();
    let verifier = RSA_SCHEMES.iter().find(|(known, _)| *known == scheme);
    if let Some((_, Some(parameters))) = verifier {
        let numbers = key.rsa_numbers().expect("an RSA key");
        let public = PublicKeyComponents {
            n: numbers.modulus,
            e: numbers.exponent,
        };
        let verdict = public.verify(parameters, message, signature);
        assert!(verdict.is_ok(), "{key:?}, {scheme:#06x}");
    }
    if !matches!(scheme, 0x0804..=0x0806) {
        let expected = key.perform(&sign(scheme, message)).expect("it signs");
        assert_eq!(signature, expected.expose(), "{key:?}, {scheme:#06x}");
    }
}

/// More operations than one batch takes, of all kinds, all at once.
fn assert_computes_everything(accelerator: &dyn Accelerator, key: &PrivateKey) {
    let mut operations = Vec::new();
    for (scheme, _) in RSA_SCHEMES {
        operations.push(sign(scheme, b"a message"));
        operations.push(sign(scheme, &[]));
        operations.push(decrypt(&number(key, operations.len() as u8)));
    }
    let results = run(accelerator, &operations);
    for (operation, result) in operations.iter().zip(&results) {
        match operation {
            KeyOperation::Sign { scheme, input } => {
                assert_signature(key, *scheme, input, result.as_ref());
            }
            KeyOperation::Decrypt { input } => {
                let expected = key.rsa_raw(input).expect("it is in range");
                assert_eq!(result.as_ref().map(Secret::expose), Some(&expected[..]));
            }
        }
    }
}

#[test]
fn cpu_computes_everything() {
    let key = rsa(2048);
    let accelerator = made(AcceleratorChoice::Cpu, &key).expect("any key");
    assert_eq!(accelerator.name(), "cpu");
    assert_computes_everything(&*accelerator, &key);
    assert!(!accelerator.work(), "it leaves nothing to do");

    let (key, public) = p256();
    let accelerator = made(AcceleratorChoice::Cpu, &key).expect("any key");
    let results = run(&*accelerator, &[sign(0x0403, b"a message")]);
    let signature = results[0].as_ref().expect("it signs").expose();
    UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_ASN1, public)
        .verify(b"a message", signature)
        .expect("a good signature");
}

#[test]
fn batch_computes_everything_with_every_size_or_says_that_the_processor_cannot() {
    for bits in [2048, 3072, 4096] {
        let key = rsa(bits);
        match (made(AcceleratorChoice::Batch, &key), is_batch_possible()) {
            (Ok(accelerator), Ok(())) => {
                assert_eq!(accelerator.name(), "batch");
                assert_computes_everything(&*accelerator, &key);
            }
            (Err(why), Err(reason)) => assert_eq!(why, reason),
            (made, possible) => panic!("{made:?}, {possible:?}"),
        }
    }
}

#[test]
fn auto_takes_what_suits() {
    let expected = if is_batch_possible().is_ok() {
        "batch"
    } else {
        "cpu"
    };
    let name = |key: &PrivateKey| made(AcceleratorChoice::Auto, key).expect("any key").name();
    assert_eq!(name(&rsa(2048)), expected);
    assert_eq!(name(&rsa(1024)), "cpu");
    assert_eq!(name(&p256().0), "cpu");
}

#[test]
fn batch_says_why_a_key_does_not_suit() {
    if let Err(why) = is_batch_possible() {
        assert!(why.to_string().contains("AVX-512"), "{why}");
        return;
    }
    let refusal =
        |key: &PrivateKey| made(AcceleratorChoice::Batch, key).expect_err("it does not suit");
    let why = refusal(&p256().0);
    assert_eq!(why, NotSuited::KeyType(KeyType::EcP256));
    assert!(why.to_string().contains("ECDSA on P-256"), "{why}");
    let why = refusal(&rsa(1024));
    assert_eq!(why, NotSuited::KeyBits(1024));
    assert!(why.to_string().contains("1024"), "{why}");
}

#[test]
fn what_a_key_cannot_do_fails_alone() {
    let key = rsa(2048);
    for choice in [AcceleratorChoice::Cpu, AcceleratorChoice::Auto] {
        let stats = Arc::default();
        let accelerator = build(choice, &key, &stats, &Told::default().report()).expect("suits");
        let n = key.rsa_numbers().expect("an RSA key").modulus;
        let mut n_less_one = n.clone();
        *n_less_one.last_mut().unwrap() -= 1;
        let mut one = vec![0; n.len()];
        one[n.len() - 1] = 1;
        // A client may send any of these. What fails must not depend on the accelerator.
        let bad = [
            vec![],
            vec![1],
            n[1..].to_vec(),
            vec![0; n.len()],
            one,
            n_less_one,
            n.clone(),
            vec![0xff; n.len()],
            vec![0; n.len() + 1],
        ];
        let bad_count = bad.len();
        let mut operations: Vec<_> = bad.iter().map(|number| decrypt(number)).collect();
        for n in 0..bad_count {
            operations.insert(2 * n, sign(0x0804, &[n as u8]));
        }
        for (n, result) in run(&*accelerator, &operations).iter().enumerate() {
            match n % 2 {
                0 => assert_signature(&key, 0x0804, &[n as u8 / 2], result.as_ref()),
                _ => assert_eq!(*result, None, "{:?} number {n}", operations[n]),
            }
        }
        assert_eq!(stats.failed_jobs.get(), bad_count as u64);
        assert_eq!(stats.jobs_done(), 2 * bad_count as u64);
        assert_eq!(stats.wrong_results.get(), 0);
    }
}

#[test]
fn debug_output_shows_no_secret() {
    let key = rsa(2048);
    let accelerator = made(AcceleratorChoice::Auto, &key).expect("any key");
    let (first, waiter) = job(sign(0x0804, b"needle"));
    let (second, result) = job(sign(0x0804, b"haystack"));
    second.complete(Some(Secret::new(b"needle".to_vec())));
    let stats = HandshakeStats::default();
    let shown = format!("{first:?} {waiter:?} {result:?} {accelerator:?} {stats:?}");
    assert!(
        shown.contains("waiting") && shown.contains("done"),
        "{shown}"
    );
    assert!(
        !shown.contains("needle") && !shown.contains("110, 101"),
        "{shown}"
    );
    let numbers = key.rsa_numbers().expect("an RSA key");
    for part in numbers.primes.iter().chain(&numbers.exponents) {
        let digits = format!("{:?}", &part[..4]);
        let digits = digits.trim_matches(['[', ']']);
        assert!(!shown.contains(digits), "{shown}");
    }
}
