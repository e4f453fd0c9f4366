//! Tests the key of a certificate: it signs something once, which is verified, and then as much as
//! it can for a moment.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealane_awslc::{KeyKind, KeyOperation, PublicKey, fill_random};

use crate::accelerator::{Accelerator, AcceleratorChoice, KeyType, PendingJob, job};
use crate::identities::{accelerator_of, load_identity};
use crate::offload::{HandshakeSettings, HandshakeState};
use crate::server_key::KeyHolder;
use crate::settings::Identity;

/// Operations under way at a time: what a busy server has.
const UNDER_WAY: usize = 64;
/// How long the speed is measured, unless no operation has ended by then.
const MEASURED_FOR: Duration = Duration::from_millis(250);
/// How long an operation may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a test has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyTest {
    /// Kind and size of the key.
    pub key: KeyType,
    /// How many signatures there are in a second, with 64 under way.
    pub per_second: f64,
}

/// Tests the key of an identity. `holder` has the keys that are not in this process.
///
/// # Errors
///
/// Why it cannot be used: it does not load, does not sign, or signs wrong.
pub fn test_key(
    identity: &Identity,
    choice: AcceleratorChoice,
    holder: Option<Arc<dyn KeyHolder>>,
) -> Result<KeyTest, String> {
    let loaded = load_identity(identity, None).map_err(|error| error.to_string())?;
    let state = HandshakeState::new();
    if let Some(holder) = holder {
        state.set_key_holder(holder);
    }
    let settings = HandshakeSettings {
        accelerator: choice,
        state: Some(state),
        ..HandshakeSettings::default()
    };
    let accelerator = accelerator_of(&settings, &loaded, &mut Vec::new());
    let accelerator = accelerator.map_err(|error| error.to_string())?;
    let spki = loaded.chain.leaf().public_key_der();
    let public = spki.and_then(|spki| PublicKey::from_spki_der(&spki));
    let public = public.map_err(|error| error.to_string())?;
    let operation = operation(loaded.key.kind());
    let pending = submit(&*accelerator, &operation);
    while accelerator.work() {}
    let result = pending.wait(PATIENCE);
    let result = result.ok_or("it does not sign")?;
    public
        .verify_result(&operation, result.expose())
        .map_err(|error| format!("what it signs is wrong: {error}"))?;
    Ok(KeyTest {
        key: loaded.key.key_type(),
        per_second: measure(&*accelerator, &operation)?,
    })
}

/// What TLS 1.3 signs (RFC 8446 section 4.4.3), with a transcript that nobody has.
fn operation(kind: KeyKind) -> KeyOperation {
    let mut hash = [0; 32];
    fill_random(&mut hash);
    let context = b"TLS 1.3, server CertificateVerify\0";
    KeyOperation::Sign {
        scheme: match kind {
            KeyKind::EcP256 => 0x0403,
            KeyKind::EcP384 => 0x0503,
            KeyKind::EcP521 => 0x0603,
            KeyKind::Ed25519 => 0x0807,
            KeyKind::Rsa | KeyKind::Other => 0x0804,
        },
        input: [&[b' '; 64][..], context, &hash].concat(),
    }
}

fn submit(accelerator: &dyn Accelerator, operation: &KeyOperation) -> PendingJob {
    let (job, pending) = job(operation.clone());
    accelerator.submit(job);
    while accelerator.queued() >= accelerator.batch_size() && accelerator.work() {}
    pending
}

/// Operations in a second.
fn measure(accelerator: &dyn Accelerator, operation: &KeyOperation) -> Result<f64, String> {
    let begin = Instant::now();
    let mut pending: VecDeque<PendingJob> = VecDeque::new();
    let mut done = 0_u32;
    loop {
        while pending.len() < UNDER_WAY {
            pending.push_back(submit(accelerator, operation));
        }
        while accelerator.work() {}
        let Some(first) = pending.pop_front() else {
            return Err("nothing is under way".to_owned());
        };
        first
            .wait(PATIENCE)
            .ok_or("it does not sign with others at the same time")?;
        done += 1;
        let elapsed = begin.elapsed();
        if elapsed >= MEASURED_FOR {
            return Ok(f64::from(done) / elapsed.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_awslc::Secret;

    fn identity(algorithm: &'static rcgen::SignatureAlgorithm) -> Identity {
        let key = rcgen::KeyPair::generate_for(algorithm).expect("supported");
        let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("it signs");
        Identity {
            chain_pem: certificate.pem().into_bytes(),
            key_pem: Secret::new(key.serialize_pem().into_bytes()),
            passwords: Vec::new(),
            chain_label: "a.pem".to_owned(),
            key_label: "a.key".to_owned(),
        }
    }

    #[test]
    fn keys_of_all_kinds_are_tested() {
        for (algorithm, key) in [
            (&rcgen::PKCS_RSA_SHA256, "rsa2048"),
            (&rcgen::PKCS_ECDSA_P256_SHA256, "p256"),
            (&rcgen::PKCS_ED25519, "ed25519"),
        ] {
            let test = test_key(&identity(algorithm), AcceleratorChoice::Auto, None);
            let test = test.expect("it signs");
            assert_eq!(test.key.name(), key);
            assert!(test.per_second > 1.0, "{test:?}");
        }
    }

    #[test]
    fn a_key_that_nobody_has_does_not_sign() {
        let mut identity = identity(&rcgen::PKCS_ECDSA_P256_SHA256);
        let key = sealane_awslc::PrivateKey::from_pem(identity.key_pem.expose(), &[]);
        let handle = crate::KeyHandle::of(&key.expect("a key")).expect("a usual key");
        identity.key_pem = Secret::new(handle.to_bytes().to_vec());
        let test = test_key(&identity, AcceleratorChoice::Auto, None);
        assert_eq!(test, Err("it does not sign".to_owned()));
    }
}
