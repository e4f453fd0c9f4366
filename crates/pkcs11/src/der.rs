//! The few DER structures between a token's attributes and a public key (RFC 5280, RFC 5480, RFC
//! 8410), and between a token's ECDSA signature and that of TLS (RFC 3279 section 2.2.3).

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;

/// rsaEncryption with its NULL.
const RSA_ALGORITHM: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
/// id-ecPublicKey.
const EC_OID: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// id-Ed25519.
const ED25519_ALGORITHM: &[u8] = &[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];

/// SubjectPublicKeyInfo of an RSA key.
pub(crate) fn rsa_spki(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let key = tagged(
        SEQUENCE,
        &[&integer(modulus)[..], &integer(exponent)].concat(),
    );
    spki(RSA_ALGORITHM, &key)
}

/// SubjectPublicKeyInfo of a key on a curve, from CKA_EC_PARAMS and a point.
pub(crate) fn ec_spki(parameters: &[u8], point: &[u8]) -> Vec<u8> {
    spki(&tagged(SEQUENCE, &[EC_OID, parameters].concat()), point)
}

/// SubjectPublicKeyInfo of an Ed25519 key.
pub(crate) fn ed25519_spki(point: &[u8]) -> Vec<u8> {
    spki(ED25519_ALGORITHM, point)
}

/// What CKA_EC_POINT may mean: an OCTET STRING with the point, as the standard says, a BIT STRING,
/// as its version 2.40 said of Ed25519, or the point itself, as some modules have it.
pub(crate) fn points(attribute: &[u8]) -> Vec<&[u8]> {
    let inner = match attribute {
        [OCTET_STRING, rest @ ..] => contents(rest),
        [BIT_STRING, rest @ ..] => contents(rest).and_then(|bits| bits.strip_prefix(&[0])),
        _ => None,
    };
    inner.into_iter().chain([attribute]).collect()
}

/// What follows a tag, if nothing follows that.
fn contents(rest: &[u8]) -> Option<&[u8]> {
    let (length, value) = match rest {
        [length @ 0..=0x7f, value @ ..] => (usize::from(*length), value),
        [0x81, length, value @ ..] => (usize::from(*length), value),
        _ => return None,
    };
    (value.len() == length).then_some(value)
}

/// An ECDSA signature as TLS has it, from the two numbers of equal length that tokens return.
pub(crate) fn ecdsa_signature(numbers: &[u8]) -> Option<Vec<u8>> {
    if numbers.is_empty() || !numbers.len().is_multiple_of(2) {
        return None;
    }
    let (r, s) = numbers.split_at(numbers.len() / 2);
    Some(tagged(SEQUENCE, &[integer(r), integer(s)].concat()))
}

fn spki(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let bits = tagged(BIT_STRING, &[&[0], key].concat());
    tagged(SEQUENCE, &[algorithm, &bits].concat())
}

/// A number that is not negative, from its big-endian bytes.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0);
    let bytes = start.map_or(&[0][..], |start| &bytes[start..]);
    match bytes[0] {
        0x80.. => tagged(INTEGER, &[&[0], bytes].concat()),
        _ => tagged(INTEGER, bytes),
    }
}

fn tagged(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut der = vec![tag];
    let length = contents.len().to_be_bytes();
    let start = length.iter().position(|byte| *byte != 0);
    let length = &length[start.unwrap_or(length.len() - 1)..];
    if contents.len() >= 0x80 {
        // At most eight bytes.
        der.push(0x80 | u8::try_from(length.len()).unwrap_or(8));
    }
    der.extend_from_slice(length);
    der.extend_from_slice(contents);
    der
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_minimal_and_positive() {
        assert_eq!(integer(&[]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0, 1]), [2, 1, 1]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(tagged(4, &[7; 0x80])[..4], [4, 0x81, 0x80, 7]);
        assert_eq!(tagged(4, &[7; 0x123])[..5], [4, 0x82, 1, 0x23, 7]);
    }

    #[test]
    fn signatures_are_two_numbers() {
        let expected = vec![0x30, 8, 2, 1, 1, 2, 3, 0, 0x80, 2];
        assert_eq!(ecdsa_signature(&[0, 1, 0x80, 2]), Some(expected));
        assert_eq!(
            (ecdsa_signature(&[]), ecdsa_signature(&[1, 2, 3])),
            (None, None)
        );
    }

    #[test]
    fn points_in_every_wrapping() {
        assert_eq!(points(&[4, 2, 4, 9]), [&[4, 9][..], &[4, 2, 4, 9]]);
        assert_eq!(points(&[3, 3, 0, 4, 9]), [&[4, 9][..], &[3, 3, 0, 4, 9]]);
        assert_eq!(points(&[4, 0x81, 1, 9]), [&[9][..], &[4, 0x81, 1, 9]]);
        for odd in [&[][..], &[4], &[4, 3, 1], &[3, 1, 1], &[4, 0x82, 0, 1, 9]] {
            assert_eq!(points(odd), [odd]);
        }
    }
}
