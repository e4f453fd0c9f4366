//! Test vectors of RFC 8439, and Poly1305's wide form against its plain one.

use std::arch::is_x86_feature_detected;
use std::mem::MaybeUninit;

use crate::ChaCha20Poly1305;
use crate::chacha20::{BLOCK_BYTES, ChaCha20, GROUP_BYTES};
use crate::poly1305::Poly1305;

const SUNSCREEN: &[u8] = b"Ladies and Gentlemen of the class of '99: \
If I could offer you only one tip for the future, sunscreen would be it.";

/// Bytes of a hexadecimal string with spaces.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    let (pairs, _) = digits.as_chunks::<2>();
    pairs
        .iter()
        .map(|pair| {
            let digit = |digit: u8| char::from(digit).to_digit(16).expect("a digit") as u8;
            digit(pair[0]) << 4 | digit(pair[1])
        })
        .collect()
}

fn array<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    hex(text).try_into().expect("the length is right")
}

/// `first`, `first + 1`, ...
fn counting<const LENGTH: usize>(first: u8) -> [u8; LENGTH] {
    std::array::from_fn(|i| first + i as u8)
}

/// Whether this processor can run the code; says so if not.
fn is_supported() -> bool {
    let is_supported = ChaCha20Poly1305::new(&[0; 32]).is_some();
    if !is_supported {
        sealane_needs::leave_out("this processor has no AVX-512 IFMA");
    }
    is_supported
}

/// RFC 8439 section 2.3.2: a block, in each of the three arrangements.
#[test]
fn a_block_of_the_key_stream() {
    if !is_x86_feature_detected!("avx512f") {
        return sealane_needs::leave_out("this processor has no AVX-512F");
    }
    let cipher = ChaCha20::new(&counting(0));
    let cipher = cipher.with_nonce(&array("00000009 0000004a 00000000"));
    let expected: [u8; BLOCK_BYTES] = array(
        "10f1e7e4d13b5915500fdd1fa32071c4 c7d1f4c733c068030422aa9ac3d46c4e \
         d2826446079faa0914c2d705d98b02a2 b5129cd1de164eb9cbd083e8a2503c4e",
    );
    let mut one = [[MaybeUninit::uninit(); GROUP_BYTES]; 1];
    let mut two = [[MaybeUninit::uninit(); GROUP_BYTES]; 2];
    // SAFETY: AVX-512F was found.
    unsafe {
        let mut first = [cipher.four_blocks(1)];
        let one = cipher.encrypt(1, &[[0; GROUP_BYTES]; 1], &mut one, &mut first);
        assert_eq!(one[..BLOCK_BYTES], expected);
        let stream = first[0].stream();
        assert_eq!(stream[BLOCK_BYTES..][..BLOCK_BYTES], expected);
        // The same block as the last one of two groups; numbers wrap around.
        let counter = 1_u32.wrapping_sub(31);
        let mut none = [];
        let two = cipher.encrypt(counter, &[[0; GROUP_BYTES]; 2], &mut two, &mut none);
        assert_eq!(two[31 * BLOCK_BYTES..], expected);
        let mut alone = cipher.four_blocks(1);
        alone.rounds();
        assert_eq!(alone.stream(), stream);
    }
}

/// RFC 8439 section 2.6.2: the one-time key is block 0.
#[test]
fn a_one_time_key() {
    if !is_x86_feature_detected!("avx512f") {
        return sealane_needs::leave_out("this processor has no AVX-512F");
    }
    let cipher = ChaCha20::new(&counting(0x80));
    let cipher = cipher.with_nonce(&array("00000000 00010203 04050607"));
    // SAFETY: AVX-512F was found.
    let stream = unsafe {
        let mut first = cipher.four_blocks(7);
        first.rounds();
        first.stream()
    };
    let expected = "8ad5a08b905f81cc815040274ab29471 a833b637e3fd0da508dbb8e2fdd1a646";
    assert_eq!(stream[..32], hex(expected));
}

/// RFC 8439 appendix A.3, vectors 7 to 11: carries and the last subtraction.
#[test]
fn numbers_close_to_the_prime() {
    let ones = "ffffffffffffffffffffffffffffffff";
    let zero = "00000000000000000000000000000000";
    let one = "01000000000000000000000000000000";
    let two = "02000000000000000000000000000000";
    let three = "03000000000000000000000000000000";
    for (r, s, text, tag) in [
        (two, zero, ones.to_owned(), three),
        (two, ones, two.to_owned(), three),
        (
            one,
            zero,
            format!("{ones} f0{} 11{}", &ones[2..], &zero[2..]),
            "05000000000000000000000000000000",
        ),
        (
            one,
            zero,
            format!("{ones} fbfefefefefefefefefefefefefefefe 01010101010101010101010101010101"),
            zero,
        ),
        (
            two,
            zero,
            format!("fd{}", &ones[2..]),
            "faffffffffffffffffffffffffffffff",
        ),
    ] {
        let mut poly = Poly1305::new(&array(&format!("{r}{s}")));
        poly.padded(&hex(&text));
        assert_eq!(poly.finish(), array(tag), "{text}");
    }
}

/// Eight blocks side by side give what one after the other gives, for the largest
/// and smallest limbs as for others, in pieces of every kind.
#[test]
fn wide_is_plain() {
    if !is_supported() {
        return;
    }
    let mixed: [u8; 32] = std::array::from_fn(|i| (i as u8).wrapping_mul(37) ^ 0xa5);
    for key in [[0; 32], [0xff; 32], counting(1), mixed] {
        for fill in [[0; 3], [0xff; 3], [0x00, 0xff, 0x7f], [0x80, 0x3c, 0xe1]] {
            let text: Vec<u8> = (0..4096).map(|i| fill[i % 3]).collect();
            for lengths in [[0, 0], [128, 0], [384, 128], [512, 512], [2048, 1920]] {
                for before in [0, 16, 48] {
                    let [first, second] = lengths;
                    let end = before + first + second;
                    let mut plain = Poly1305::new(&key);
                    plain.padded(&text[..end + 32]);
                    let mut poly = Poly1305::new(&key);
                    poly.padded(&text[..before]);
                    // SAFETY: the features were found.
                    unsafe {
                        let mut wide = poly.widen();
                        assert!(wide.absorb(&text[before..before + first]).is_empty());
                        let rest = wide.absorb(&text[before + first..end + 16]);
                        assert_eq!(rest.len(), 16);
                        poly.narrow(&wide);
                        poly.padded(rest);
                    }
                    poly.padded(&text[end + 16..end + 32]);
                    assert_eq!(poly.finish(), plain.finish(), "{lengths:?} after {before}");
                }
            }
        }
    }
}

/// RFC 8439 section 2.8.2, with the plaintext cut in two at every place.
#[test]
fn a_sealed_text() {
    if !is_supported() {
        return;
    }
    let key = ChaCha20Poly1305::new(&counting(0x80)).expect("the processor can");
    let nonce = array("07000000 40414243 44454647");
    let associated = hex("50515253c0c1c2c3c4c5c6c7");
    let expected = hex(
        "d31a8d34648e60db7b86afbc53ef7ec2 a4aded51296e08fea9e2b5a736ee62d6 \
         3dbea45e8ca9671282fafb69da92728b 1a71de0a9e060b2905d6a5b67ecd3b36 \
         92ddbd7f2d778b8c9803aee328091b58 fab324e4fad675945585808b4831d7bc \
         3ff4def08e4b7a9de576d26586cec64b 6116 1ae10b594f09e26a7e902ecbd0600691",
    );
    for cut in 0..=SUNSCREEN.len() {
        let (plain, tail) = SUNSCREEN.split_at(cut);
        let mut output = b"before".to_vec();
        let sealed_bytes = key.seal(&nonce, &associated, plain, tail, &mut output);
        assert_eq!(sealed_bytes, Some(expected.len()));
        assert_eq!(output, [b"before", expected.as_slice()].concat());
    }
}

/// A key is not to be found in what is printed of it.
#[test]
fn debug_output_shows_no_key() {
    if let Some(key) = ChaCha20Poly1305::new(&[0x41; 32]) {
        assert_eq!(format!("{key:?}"), "ChaCha20Poly1305(redacted)");
    }
    let cipher = format!("{:?}", ChaCha20::new(&[0x41; 32]));
    assert_eq!(cipher, "ChaCha20(redacted)");
}
