use super::*;
use crate::tests::{Made, make};

const ALGORITHMS: [(&rcgen::SignatureAlgorithm, &[u16]); 4] = [
    (
        &rcgen::PKCS_RSA_SHA256,
        &[
            0x0201, 0x0401, 0x0501, 0x0601, 0x0804, 0x0805, 0x0806, 0xff01,
        ],
    ),
    (&rcgen::PKCS_ECDSA_P256_SHA256, &[0x0403]),
    (&rcgen::PKCS_ECDSA_P384_SHA384, &[0x0503]),
    (&rcgen::PKCS_ED25519, &[0x0807]),
];

fn public(made: &Made) -> PublicKey {
    let certificate = made.chain.leaf().to_der().expect("memory");
    PublicKey::from_certificate_der(&certificate).expect("its key is known")
}

#[test]
fn what_the_private_key_signs_is_verified() {
    for (algorithm, schemes) in ALGORITHMS {
        let made = make(algorithm);
        let key = public(&made);
        assert_eq!(
            (key.kind(), key.bits()),
            (made.key.kind(), made.key.bits()),
            "{algorithm:?}"
        );
        for scheme in schemes {
            let operation = KeyOperation::Sign {
                scheme: *scheme,
                input: b"message".to_vec(),
            };
            let signature = made.key.perform(&operation).expect("it fits the key");
            let signature = signature.expose();
            key.verify(*scheme, b"message", signature)
                .unwrap_or_else(|error| panic!("{scheme:#x}: {error}"));
            let _ = key.verify(*scheme, b"Message", signature).expect_err("it");
            let mut wrong = signature.to_vec();
            let middle = wrong.len() / 2;
            wrong[middle] ^= 1;
            let _ = key.verify(*scheme, b"message", &wrong).expect_err("it");
            let _ = key.verify(*scheme, b"message", b"").expect_err("it");
            let _ = key.verify(0xbeef, b"message", signature).expect_err("it");
        }
    }
}

#[test]
fn encoding_and_raising_need_the_public_key_only() {
    let made = make(&rcgen::PKCS_RSA_SHA256);
    let key = public(&made);
    for scheme in [0x0401, 0x0804] {
        let operation = KeyOperation::Sign {
            scheme,
            input: b"message".to_vec(),
        };
        let number = key.rsa_encoded(&operation).expect("an RSA key");
        let signature = made.key.rsa_raw(&number).expect("in range");
        key.verify(scheme, b"message", &signature)
            .expect("it is what it encodes");
        assert_eq!(key.rsa_raised(&signature).expect("in range"), number);
    }
    let too_large = vec![0xff; 256];
    assert!(key.rsa_raised(&too_large).is_err() && key.rsa_raised(&[1]).is_err());
    let other = public(&make(&rcgen::PKCS_ED25519));
    assert!(other.rsa_raised(&too_large).is_err());
}

#[test]
fn der_goes_both_ways_and_nothing_may_follow() {
    for (algorithm, _) in ALGORITHMS {
        let key = public(&make(algorithm));
        let der = key.to_spki_der().expect("memory");
        let again = PublicKey::from_spki_der(&der).expect("just encoded");
        assert_eq!(again.to_spki_der().expect("memory"), der);
        let longer = [&der[..], &[0]].concat();
        assert!(PublicKey::from_spki_der(&longer).is_err());
        for length in 0..der.len() {
            assert!(PublicKey::from_spki_der(&der[..length]).is_err());
        }
    }
    assert!(PublicKey::from_certificate_der(b"").is_err());
}

#[test]
fn devices_get_the_hash_that_the_scheme_asks_for() {
    let hashed = |scheme| {
        let input = b"message".to_vec();
        KeyOperation::Sign { scheme, input }
            .hashed()
            .expect("memory")
    };
    assert_eq!(
        hashed(0x0403).as_deref(),
        Some(&crate::sha256(b"message")[..])
    );
    let lengths = [
        (0x0201, 20),
        (0x0804, 32),
        (0x0503, 48),
        (0x0806, 64),
        (0xff01, 36),
    ];
    for (scheme, length) in lengths {
        assert_eq!(hashed(scheme).map(|hash| hash.len()), Some(length));
    }
    assert_eq!((hashed(0x0807), hashed(0xbeef)), (None, None));
    let decrypt = KeyOperation::Decrypt { input: vec![1] };
    assert_eq!(decrypt.hashed().expect("memory"), None);
}
