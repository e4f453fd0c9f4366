//! Section 5.2 and appendix B, compared with another implementation and with the definition of the
//! code.

use proptest::prelude::*;

use super::super::huffman::{decode, encode, encoded_bytes};
use super::*;

fn encoded(text: &[u8]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    encode(text, encoded_bytes(text), &mut out);
    assert!(out.starts_with(b"before"));
    out.split_off(6)
}

fn decoded(input: &[u8]) -> Result<Vec<u8>, HpackError> {
    let mut out = b"before".to_vec();
    decode(input, &mut out)?;
    assert!(out.starts_with(b"before"));
    Ok(out.split_off(6))
}

fn encoded_by_other(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    httlib_huffman::encode(text, &mut out).expect("any bytes can be encoded");
    out
}

/// `codes` as bits from the left, filled up with ones.
fn from_bits(codes: &str) -> Vec<u8> {
    let mut bits: Vec<char> = codes.chars().filter(|bit| *bit != ' ').collect();
    bits.resize(bits.len().next_multiple_of(8), '1');
    let byte = |bits: &[char]| {
        bits.iter()
            .fold(0, |byte, bit| byte << 1 | u8::from(*bit == '1'))
    };
    bits.chunks(8).map(byte).collect()
}

#[test]
fn codes_of_appendix_b() {
    for (text, codes) in [
        (&b"0"[..], "00000"),
        (b"\0", "1111111111000"),
        (b"\n", "111111111111111111111111111100"),
        (b"\r", "111111111111111111111111111101"),
        (b"\x16", "111111111111111111111111111110"),
        (b"\xff", "11111111111111111111101110"),
        (b"a&b", "00011 11111000 100011"),
    ] {
        assert_eq!(encoded(text), from_bits(codes));
        assert_eq!(decoded(&from_bits(codes)).as_deref(), Ok(text));
    }
}

/// Each symbol, and each in front of and behind symbols of every length, so that every step of the
/// decoder sees every boundary.
#[test]
fn every_pair_of_symbols() {
    for first in 0..=255u8 {
        for second in 0..=255u8 {
            let text = [first, second, b'0', first];
            let bytes = encoded(&text);
            assert_eq!(decoded(&bytes).as_deref(), Ok(&text[..]));
            assert_eq!(bytes, encoded_by_other(&text));
        }
    }
}

#[test]
fn nothing_is_nothing() {
    assert_eq!(encoded(b""), b"");
    assert_eq!(decoded(b""), Ok(Vec::new()));
}

/// "A padding strictly longer than 7 bits MUST be treated as a decoding error."
#[test]
fn padding_of_eight_bits_or_more() {
    for input in [&[0xff][..], &[0xff, 0xff], &[0xff, 0xff, 0xff]] {
        assert_eq!(decoded(input), Err(HpackError::HuffmanPadding));
    }
    // '?' ends with the byte's bits: nothing may follow. 'a' leaves three.
    for (text, ones) in [("11111100", 8), ("00011 111", 8), ("00011 111", 16)] {
        let mut input = from_bits(text);
        assert!(decoded(&input).is_ok());
        input.extend(std::iter::repeat_n(0xff, ones / 8));
        assert_eq!(decoded(&input), Err(HpackError::HuffmanPadding), "{text}");
    }
}

/// "A padding not corresponding to the most significant bits of the code for the EOS symbol MUST be
/// treated as a decoding error."
#[test]
fn padding_that_is_not_ones() {
    for padding in 0..7 {
        // '0' and three more bits.
        let input = [padding];
        assert_eq!(
            decoded(&input),
            Err(HpackError::HuffmanPadding),
            "{padding}"
        );
    }
    assert_eq!(decoded(&[7]).as_deref(), Ok(&b"0"[..]));
    // A long text, then '0' and a wrong bit.
    let mut input = encoded(&[b'0'; 64]);
    input.push(0b0000_0110);
    assert_eq!(decoded(&input), Err(HpackError::HuffmanPadding));
}

/// "A Huffman-encoded string literal containing the EOS symbol MUST be treated as a decoding
/// error."
#[test]
fn end_of_string_symbol() {
    let eos = "1".repeat(30);
    assert!(decoded(&from_bits(&eos)).is_err());
    for before in 0..8 {
        for after in 1..12 {
            let codes = format!("{}{eos}{}", "00011".repeat(before), "00011".repeat(after));
            let error = decoded(&from_bits(&codes)).expect_err("a symbol too many");
            let either = [HpackError::HuffmanEos, HpackError::HuffmanPadding];
            assert!(either.contains(&error));
        }
    }
    let codes = format!("{eos}{}", "00011".repeat(12));
    assert_eq!(decoded(&from_bits(&codes)), Err(HpackError::HuffmanEos));
}

proptest! {
    #[test]
    fn any_text_comes_back(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = encoded(&text);
        prop_assert_eq!(&bytes, &encoded_by_other(&text));
        prop_assert_eq!(decoded(&bytes), Ok(text));
    }

    #[test]
    fn header_text_comes_back(text in "[ -~]{0,300}") {
        let bytes = encoded(text.as_bytes());
        prop_assert_eq!(&bytes, &encoded_by_other(text.as_bytes()));
        prop_assert_eq!(decoded(&bytes), Ok(text.into_bytes()));
    }

    /// What is accepted is the one encoding of what it means: nothing else decodes to the same
    /// text.
    #[test]
    fn any_input_is_refused_or_the_encoding_of_its_text(
        input in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..40)
    ) {
        match decoded(&input) {
            Ok(text) => prop_assert_eq!(encoded(&text), input),
            Err(error) => prop_assert!(
                matches!(error, HpackError::HuffmanEos | HpackError::HuffmanPadding)
            ),
        }
    }
}
