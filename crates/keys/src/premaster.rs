//! RSA decryption for the key exchange of TLS 1.2 and below (RFC 5246 section 7.4.7.1) that is no
//! oracle.
//!
//! The bare result of the private operation would let a worker that was taken over sign whatever it
//! likes, and tell valid padding from invalid (Bleichenbacher). So a worker gets a block whose
//! padding is always right, with a premaster secret of 48 bytes: the one that was encrypted or, if
//! the padding of what was decrypted is wrong, one that is derived from the ciphertext and a secret
//! of this key ("implicit rejection"). Asked again, the answer is the same, and nothing in it or in
//! the time that it takes tells which of them it is.

use sealane_awslc::hmac_sha256;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

/// Length of a premaster secret in bytes.
pub const PREMASTER_BYTES: usize = 48;

/// The least padding of PKCS #1 v1.5: 00 02, eight bytes that are not zero, 00.
const MIN_PADDING_BYTES: usize = 11;

/// What stands between 00 02 and 00 in an answer.
const FILLER: u8 = 0xff;

/// The block that a worker gets for what was decrypted; as long as that. `None` when the key is too
/// short for a premaster secret, which depends on the key alone.
pub fn block(decrypted: &[u8], ciphertext: &[u8], secret: &[u8; 32]) -> Option<Zeroizing<Vec<u8>>> {
    let padding_bytes = decrypted.len().checked_sub(PREMASTER_BYTES)?;
    if padding_bytes < MIN_PADDING_BYTES {
        return None;
    }
    let (padding, premaster) = decrypted.split_at(padding_bytes);
    let is_right = is_padding(padding);
    let substitute = substitute(ciphertext, secret);
    let mut block = Zeroizing::new(vec![FILLER; decrypted.len()]);
    block[..2].copy_from_slice(&[0, 2]);
    block[padding_bytes - 1] = 0;
    let target = block[padding_bytes..].iter_mut();
    for ((target, real), other) in target.zip(premaster).zip(&*substitute) {
        *target = u8::conditional_select(other, real, is_right);
    }
    Some(block)
}

/// 00 02, bytes that are not zero, 00; in a time that does not depend on them.
fn is_padding(padding: &[u8]) -> Choice {
    let last = padding.len() - 1;
    let mut is_right = padding[0].ct_eq(&0) & padding[1].ct_eq(&2) & padding[last].ct_eq(&0);
    for byte in &padding[2..last] {
        is_right &= !byte.ct_eq(&0);
    }
    is_right
}

/// What takes the place of a premaster secret: as random to whoever does not have the secret, and
/// always the same for a ciphertext.
fn substitute(ciphertext: &[u8], secret: &[u8; 32]) -> Zeroizing<[u8; PREMASTER_BYTES]> {
    let mut bytes = Zeroizing::new([0; PREMASTER_BYTES]);
    for (index, part) in bytes.chunks_mut(32).enumerate() {
        let mut input = vec![index as u8];
        input.extend_from_slice(ciphertext);
        let hash = Zeroizing::new(hmac_sha256(secret, &input));
        part.copy_from_slice(&hash[..part.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [9; 32];

    fn padded(bytes: usize) -> Vec<u8> {
        let mut block = vec![0x33; bytes];
        block[0] = 0;
        block[1] = 2;
        let end = bytes - PREMASTER_BYTES;
        block[end - 1] = 0;
        for (n, byte) in block[end..].iter_mut().enumerate() {
            *byte = n as u8;
        }
        block
    }

    fn answer(decrypted: &[u8]) -> Vec<u8> {
        block(decrypted, b"ciphertext", &SECRET)
            .expect("long enough")
            .to_vec()
    }

    fn is_well_formed(block: &[u8]) -> bool {
        let end = block.len() - PREMASTER_BYTES;
        block[..2] == [0, 2] && block[end - 1] == 0 && !block[2..end - 1].contains(&0)
    }

    #[test]
    fn a_premaster_secret_is_passed_on() {
        for bytes in [59, 128, 256, 512] {
            let (given, got) = (padded(bytes), answer(&padded(bytes)));
            assert_eq!(got.len(), bytes);
            assert!(is_well_formed(&got));
            assert_eq!(got[bytes - 48..], given[bytes - 48..]);
        }
        assert!(block(&[0; 58], b"", &SECRET).is_none());
        assert!(block(&[], b"", &SECRET).is_none());
    }

    #[test]
    fn wrong_padding_looks_like_any_other() {
        let good = answer(&padded(256));
        let substitute = answer(&[0xaa; 256]);
        for (at, byte) in [(0, 1), (1, 1), (1, 0), (2, 0), (100, 0), (206, 0), (207, 1)] {
            let mut decrypted = padded(256);
            decrypted[at] = byte;
            let got = answer(&decrypted);
            assert!(is_well_formed(&got), "{at}");
            assert_ne!(got, good, "{at}");
            // It depends on the ciphertext alone: asking twice tells nothing.
            assert_eq!(got, substitute, "{at}");
        }
        let other = block(&[0xaa; 256], b"another ciphertext", &SECRET).expect("long enough");
        assert_ne!(*other, substitute);
        let other = block(&[0xaa; 256], b"ciphertext", &[8; 32]).expect("long enough");
        assert_ne!(*other, substitute);
    }

    /// A padding that is right but for its end: a secret of another length.
    #[test]
    fn secrets_of_other_lengths_are_replaced() {
        let mut decrypted = padded(256);
        decrypted[207] = 0x33;
        decrypted[208] = 0;
        assert_eq!(answer(&decrypted), answer(&[0xaa; 256]));
    }
}
