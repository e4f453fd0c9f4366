//! Instructions of the peer's encoder (section 4.3).

use super::*;
use crate::h3::error::Code;

fn refused(decoder: &mut Decoder, hex: &str) {
    let error = decoder.encoder_stream(&bytes(hex)).expect_err(hex);
    assert_eq!(error.code, Code::QPACK_ENCODER_STREAM_ERROR, "{hex}");
}

#[test]
fn section_4_3_1_the_capacity_is_limited() {
    let mut decoder = Decoder::new(100, 0);
    decoder.encoder_stream(&bytes("3f45")).expect("100 bytes");
    refused(&mut decoder, "3f46");
    refused(&mut Decoder::new(0, 0), "21");
    Decoder::new(0, 0)
        .encoder_stream(&bytes("20"))
        .expect("0 bytes");
}

#[test]
fn section_3_2_2_an_entry_must_fit() {
    // Before the capacity is set, nothing fits.
    refused(&mut Decoder::new(4096, 0), "41 61 01 62");
    let mut decoder = Decoder::new(4096, 0);
    // 34 bytes hold `a: b`, and not `a: bc`.
    decoder
        .encoder_stream(&bytes("3f03 41 61 01 62"))
        .expect("it fits");
    refused(&mut decoder, "41 61 02 62 63");
}

#[test]
fn strings_that_cannot_fit_are_refused_before_they_arrive() {
    let mut decoder = Decoder::new(4096, 0);
    decoder.encoder_stream(&bytes("3f45")).expect("100 bytes");
    // The first bytes of a value of 401 bytes.
    refused(&mut decoder, "41 61 7f 9202 61");
    let mut decoder = Decoder::new(4096, 0);
    decoder.encoder_stream(&bytes("3f45")).expect("100 bytes");
    decoder
        .encoder_stream(&bytes("41 61 ff 9102"))
        .expect("a Huffman string of 400 bytes may be shorter in truth");
}

#[test]
fn indexes_must_exist() {
    // Static 99; dynamic 0 of an empty table, by name and as a duplicate.
    for wrong in ["ff24 00", "80 00", "00"] {
        refused(&mut decoder(), wrong);
    }
    // An integer above 62 bits, wherever there is one.
    for start in ["ff", "3f", "1f", "41 61 7f", "5f", "bf"] {
        let endless = format!("{start} ffffffffffffffffffff");
        refused(&mut decoder(), &endless);
    }
    // A code with wrong padding.
    refused(&mut decoder(), "41 61 81 00");
}

#[test]
fn instructions_arrive_byte_by_byte() {
    let mut encoder = Encoder::new(4096);
    encoder.peer_allows(4096, 16);
    let fields = [("server", "sealane"), ("vary", "x-custom"), ("x-a", "1")];
    encode(&mut encoder, 0, &fields);
    let section = encode(&mut encoder, 4, &fields);
    let written = instructions(&mut encoder);
    let mut whole = Decoder::new(4096, 16);
    whole.encoder_stream(&written[1..]).expect("valid");
    let mut split = Decoder::new(4096, 16);
    for byte in &written[1..] {
        split.encoder_stream(&[*byte]).expect("valid");
    }
    let expected = Ok(Some(fields.map(|(name, value)| text(name, value)).to_vec()));
    assert_eq!(decode(&mut whole, 4, &section), expected);
    assert_eq!(decode(&mut split, 4, &section), expected);
}

#[test]
fn what_is_written_into_the_table_is_counted() {
    let mut decoder = decoder();
    assert_eq!(decoder.encoder_stream(&bytes("41 61 01 62")), Ok(34));
    // Each byte copies an entry.
    assert_eq!(decoder.encoder_stream(&[0; 100]), Ok(3400));
}
