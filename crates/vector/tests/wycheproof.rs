//! Wycheproof's vectors with RSA private keys: encryption with PKCS#1 v1.5 and OAEP. Every
//! ciphertext is decrypted without padding, and the result must equal the library's. If the vector
//! gives the message, it must be found inside (with OAEP: if the hash is SHA-256).
//!
//! The vectors for signatures have public keys only.

use std::collections::HashMap;

use sealane_awslc::{PrivateKey, sha256};
use sealane_vector::{RSA_LANES, RsaKey, RsaRefused, unsupported};
use wycheproof::{HashFunction, TestResult, rsa_oaep, rsa_pkcs1_decrypt};

/// One key of each test group, and the ciphertexts of all groups that have it, with the padding
/// they are to be read with.
type Groups = HashMap<Vec<u8>, Vec<Vector>>;

struct Vector {
    ciphertext: Vec<u8>,
    /// `None`: a ciphertext that is not to be decrypted.
    message: Option<Vec<u8>>,
    padding: Padding,
}

/// Bytes of SHA-256.
const HASH_BYTES: usize = 32;

enum Padding {
    Pkcs1,
    /// Hash, that of the mask function, label.
    Oaep(HashFunction, HashFunction, Vec<u8>),
}

/// What became of the vectors.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    keys: usize,
    /// Compared with the library.
    compared: usize,
    /// Of these, read to the message.
    read: usize,
    /// Of the wrong length or not below the modulus.
    refused: usize,
}

/// Decrypts all vectors whose keys have a size that is computed here.
fn decrypt(groups: &Groups) -> Sum {
    let mut sum = Sum::default();
    for (der, vectors) in groups {
        let library = PrivateKey::from_der(der).expect("the library reads Wycheproof's keys");
        let numbers = library.rsa_numbers().expect("it is an RSA key");
        let key = RsaKey::new(
            &numbers.modulus,
            &numbers.exponent,
            [&numbers.primes[0], &numbers.primes[1]],
            [&numbers.exponents[0], &numbers.exponents[1]],
            &numbers.coefficient,
        )
        .expect("a key of such a size is taken");
        sum.keys += 1;
        let mut good: Vec<&Vector> = Vec::new();
        for vector in vectors {
            let mut output = vec![0; numbers.modulus.len()];
            let refused = key.checked(&[&vector.ciphertext], &mut [&mut output]);
            if vector.ciphertext.len() != numbers.modulus.len() {
                assert_eq!(refused, Err(RsaRefused::Length));
            } else if vector.ciphertext >= numbers.modulus {
                assert_eq!(refused, Err(RsaRefused::Range));
            } else {
                good.push(vector);
                continue;
            }
            assert!(vector.message.is_none(), "a valid vector was refused");
            sum.refused += 1;
        }
        for batch in good.chunks(RSA_LANES) {
            let inputs: Vec<&[u8]> = batch.iter().map(|vector| &*vector.ciphertext).collect();
            let mut outputs = vec![vec![0; numbers.modulus.len()]; batch.len()];
            let mut targets: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            assert_eq!(key.checked(&inputs, &mut targets), Ok(0));
            for (vector, output) in batch.iter().zip(&outputs) {
                // The library refuses numbers that are their own result.
                match library.rsa_raw(&vector.ciphertext) {
                    Ok(expected) => assert!(*output == expected, "not what the library makes"),
                    Err(_) => assert_eq!(*output, vector.ciphertext),
                }
                sum.compared += 1;
                if let Some(message) = &vector.message
                    && let Some(found) = read(output, &vector.padding)
                {
                    assert!(found == *message, "not the message of the vector");
                    sum.read += 1;
                }
            }
        }
    }
    sum
}

/// The message in a padded number; `None` with OAEP and another hash than SHA-256.
///
/// # Panics
///
/// If the padding is wrong.
fn read(number: &[u8], padding: &Padding) -> Option<Vec<u8>> {
    match padding {
        // RFC 8017 section 7.2.2.
        Padding::Pkcs1 => {
            assert_eq!(number[..2], [0, 2]);
            let end = number[2..].iter().position(|byte| *byte == 0);
            Some(number[3 + end.expect("the padding ends")..].to_vec())
        }
        // RFC 8017 section 7.1.2.
        Padding::Oaep(HashFunction::Sha2_256, HashFunction::Sha2_256, label) => {
            let mut seed = number[1..=HASH_BYTES].to_vec();
            let mut block = number[1 + HASH_BYTES..].to_vec();
            mask(&mut seed, &block);
            mask(&mut block, &seed);
            assert_eq!(number[0], 0);
            let (label_hash, text) = block.split_at(HASH_BYTES);
            assert_eq!(label_hash, sha256(label));
            let end = text.iter().position(|byte| *byte != 0);
            let (one, message) = text.split_at(end.expect("the padding ends") + 1);
            assert_eq!(one.last(), Some(&1));
            Some(message.to_vec())
        }
        Padding::Oaep(..) => None,
    }
}

/// Adds MGF1 (RFC 8017 appendix B.2.1).
fn mask(target: &mut [u8], seed: &[u8]) {
    for (counter, chunk) in (0_u32..).zip(target.chunks_mut(HASH_BYTES)) {
        let mask = sha256(&[seed, &counter.to_be_bytes()].concat());
        for (byte, mask) in chunk.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
}

fn is_computed_here(bits: usize) -> bool {
    [2048, 3072, 4096].contains(&bits)
}

/// Whether this processor can run the code; says so if not.
fn is_supported() -> bool {
    let reason = unsupported();
    if let Some(reason) = reason {
        sealane_needs::leave_out(reason);
    }
    reason.is_none()
}

#[test]
fn pkcs1_decryption() {
    let mut groups = Groups::new();
    for name in rsa_pkcs1_decrypt::TestName::all() {
        let set = rsa_pkcs1_decrypt::TestSet::load(name).expect("the crate's own file");
        for group in set.test_groups {
            assert!(is_computed_here(group.key_size));
            let vectors = groups.entry(group.pkcs8.to_vec()).or_default();
            vectors.extend(group.tests.into_iter().map(|test| Vector {
                ciphertext: test.ct.to_vec(),
                message: (test.result == TestResult::Valid).then(|| test.pt.to_vec()),
                padding: Padding::Pkcs1,
            }));
        }
    }
    if is_supported() {
        let sum = decrypt(&groups);
        println!("{sum:?}");
        assert!(sum.read >= 120 && sum.compared >= 180 && sum.keys >= 99);
    }
}

#[test]
fn oaep_decryption() {
    let mut groups = Groups::new();
    for name in rsa_oaep::TestName::all() {
        let set = rsa_oaep::TestSet::load(name).expect("the crate's own file");
        for group in set.test_groups {
            if !is_computed_here(group.key_size) {
                continue;
            }
            let vectors = groups.entry(group.pkcs8.to_vec()).or_default();
            vectors.extend(group.tests.into_iter().map(|test| Vector {
                ciphertext: test.ct.to_vec(),
                message: (test.result == TestResult::Valid).then(|| test.pt.to_vec()),
                padding: Padding::Oaep(group.hash, group.mgf_hash, test.label.to_vec()),
            }));
        }
    }
    if is_supported() {
        let sum = decrypt(&groups);
        println!("{sum:?}");
        assert!(sum.read >= 50 && sum.compared >= 790 && sum.keys >= 16);
    }
}
