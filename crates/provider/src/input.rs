//! An operation of TLS as one of OpenSSL.

use std::ffi::CStr;

use sealane_awslc::{KeyKind, KeyOperation, is_rsa_operand};
use sealane_sys::openssl::Input;

use crate::Failure;

/// The digest of a scheme, and whether it is RSASSA-PSS; `None` if no key of this kind signs so.
/// The numbers are IANA's (RFC 8446 section 4.2.3); 0xff01 is libssl's for MD5 with SHA-1, which
/// TLS 1.1 and below sign with RSA (RFC 4346 section 7.4.3).
fn scheme_of(kind: KeyKind, scheme: u16) -> Option<(Option<&'static CStr>, bool)> {
    let is_rsa = kind == KeyKind::Rsa;
    let is_ecdsa = matches!(kind, KeyKind::EcP256 | KeyKind::EcP384 | KeyKind::EcP521);
    let found = match scheme {
        0xff01 if is_rsa => (Some(c"MD5-SHA1"), false),
        0x0201 if is_rsa => (Some(c"SHA1"), false),
        0x0401 if is_rsa => (Some(c"SHA256"), false),
        0x0501 if is_rsa => (Some(c"SHA384"), false),
        0x0601 if is_rsa => (Some(c"SHA512"), false),
        0x0804 if is_rsa => (Some(c"SHA256"), true),
        0x0805 if is_rsa => (Some(c"SHA384"), true),
        0x0806 if is_rsa => (Some(c"SHA512"), true),
        0x0203 if is_ecdsa => (Some(c"SHA1"), false),
        0x0403 if is_ecdsa => (Some(c"SHA256"), false),
        0x0503 if is_ecdsa => (Some(c"SHA384"), false),
        0x0603 if is_ecdsa => (Some(c"SHA512"), false),
        0x0807 if kind == KeyKind::Ed25519 => (None, false),
        _ => return None,
    };
    Some(found)
}

/// The digest of the signatures that are most common with keys of this kind.
pub(crate) fn common_digest(kind: KeyKind) -> Option<&'static CStr> {
    (kind != KeyKind::Ed25519).then_some(c"SHA256")
}

/// What OpenSSL computes for an operation with a key of this kind, and, if it is RSA, with this
/// modulus.
///
/// # Errors
///
/// The operation does not fit the key.
pub(crate) fn input_of(
    kind: KeyKind,
    modulus: &[u8],
    operation: &KeyOperation,
) -> Result<Input, Failure> {
    match operation {
        KeyOperation::Sign { scheme, input } => {
            let (digest, is_pss) = scheme_of(kind, *scheme).ok_or(Failure::Unsuitable)?;
            Ok(Input::Sign {
                digest,
                is_pss,
                message: input.clone(),
            })
        }
        KeyOperation::Decrypt { .. } if kind != KeyKind::Rsa => Err(Failure::Unsuitable),
        KeyOperation::Decrypt { input } => match is_rsa_operand(input, modulus) {
            true => Ok(Input::Decrypt(input.clone())),
            false => Err(Failure::Ciphertext),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_fit_one_kind_of_key() {
        for scheme in 0..=u16::MAX {
            let kinds = [KeyKind::Rsa, KeyKind::EcP256, KeyKind::Ed25519];
            let fits = kinds
                .iter()
                .filter(|kind| scheme_of(**kind, scheme).is_some());
            assert!(fits.count() <= 1, "{scheme:#x}");
            assert!(scheme_of(KeyKind::Other, scheme).is_none());
        }
    }

    #[test]
    fn a_number_to_decrypt_is_below_the_modulus() {
        let refusal = |kind, input: &[u8]| {
            let input = input.to_vec();
            input_of(kind, &[0xc5, 0x01], &KeyOperation::Decrypt { input }).err()
        };
        assert_eq!(refusal(KeyKind::Rsa, &[0, 2]), None);
        for number in [&[0xc5, 0x01][..], &[0, 1], &[2], &[0, 0, 2], &[]] {
            assert_eq!(refusal(KeyKind::Rsa, number), Some(Failure::Ciphertext));
        }
        assert_eq!(refusal(KeyKind::EcP256, &[0, 2]), Some(Failure::Unsuitable));
    }
}
