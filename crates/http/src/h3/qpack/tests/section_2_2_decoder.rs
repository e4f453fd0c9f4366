//! Blocked decoding and the state of the decoder (section 2.2).

use super::*;
use crate::h3::error::Code;

/// Inserts `a: b`, which takes 34 bytes.
const INSERT: &str = "41 61 01 62";

/// A section that refers to the first `required` entries, of which it names the last.
fn section_that_needs(required: u64) -> Vec<u8> {
    let mut section = Vec::new();
    super::super::prefix::Prefix {
        required,
        base: required,
    }
    .push(super::super::max_entries(4096), &mut section);
    section.push(0x80);
    section
}

#[test]
fn section_2_2_1_streams_wait_and_go_on_when_their_entries_have_come() {
    let mut decoder = decoder();
    for stream in [0, 4, 8] {
        let section = section_that_needs(stream / 4 + 1);
        assert_eq!(decode(&mut decoder, stream, &section), Ok(None));
    }
    for stream in [0, 4, 8] {
        assert_eq!(decoder.next_unblocked(), None);
        decoder.encoder_stream(&bytes(INSERT)).expect("valid");
        assert_eq!(decoder.next_unblocked(), Some(stream));
        let section = section_that_needs(stream / 4 + 1);
        let fields = decode(&mut decoder, stream, &section);
        assert_eq!(fields, Ok(Some(vec![text("a", "b")])));
    }
    // Three acknowledgements, and no increment beside them.
    assert_eq!(acknowledgements(&mut decoder), bytes("80 84 88"));
}

#[test]
fn section_2_1_2_more_blocked_streams_than_promised_are_an_error() {
    let mut decoder = Decoder::new(4096, 2);
    assert_eq!(decode(&mut decoder, 0, &section_that_needs(1)), Ok(None));
    assert_eq!(decode(&mut decoder, 4, &section_that_needs(1)), Ok(None));
    // One that was cancelled does not count any more.
    decoder.cancel(0);
    assert_eq!(decode(&mut decoder, 8, &section_that_needs(1)), Ok(None));
    let error = decode(&mut decoder, 12, &section_that_needs(1)).expect_err("the third");
    assert_eq!(error.code, Code::QPACK_DECOMPRESSION_FAILED);
}

#[test]
fn section_2_2_2_1_only_sections_that_refer_to_the_table_are_acknowledged() {
    let mut decoder = decoder();
    decoder.encoder_stream(&bytes(INSERT)).expect("valid");
    assert!(decode(&mut decoder, 0, &bytes("0000 d1")).is_ok());
    // The entry is acknowledged by an increment.
    assert_eq!(acknowledgements(&mut decoder), bytes("01"));
    assert!(decode(&mut decoder, 4, &section_that_needs(1)).is_ok());
    assert_eq!(acknowledgements(&mut decoder), bytes("84"));
}

#[test]
fn section_2_2_2_2_cancellations_are_omitted_without_a_table() {
    let mut decoder = Decoder::new(0, 0);
    decoder.cancel(4);
    assert_eq!(decoder.outgoing(), []);
    let mut decoder = Decoder::new(100, 0);
    decoder.cancel(400);
    assert_eq!(acknowledgements(&mut decoder), bytes("7f d102"));
}

#[test]
fn section_2_2_2_3_increments_are_collected() {
    let mut decoder = decoder();
    for _ in 0..70 {
        decoder.encoder_stream(&bytes(INSERT)).expect("valid");
    }
    assert_eq!(acknowledgements(&mut decoder), bytes("3f 07"));
    assert_eq!(acknowledgements(&mut decoder), []);
}

#[test]
fn section_2_2_3_references_must_be_below_the_required_insert_count() {
    let mut decoder = decoder();
    for _ in 0..3 {
        decoder.encoder_stream(&bytes(INSERT)).expect("valid");
    }
    // Required 2, base 3: the newest entry is index 2, which is too much; then post-base ones.
    for wrong in [
        "03 01 80",
        "03 01 10",
        "03 01 40 00",
        "03 01 00 00",
        "03 01 83",
    ] {
        let error = decode(&mut decoder, 0, &bytes(wrong)).expect_err(wrong);
        assert_eq!(error.code, Code::QPACK_DECOMPRESSION_FAILED, "{wrong}");
    }
    assert!(decode(&mut decoder, 0, &bytes("03 01 81 82")).is_ok());
    // Without a Required Insert Count, nothing may be referred to.
    assert!(decode(&mut decoder, 0, &bytes("00 03 80")).is_err());
}

#[test]
fn evicted_entries_are_gone() {
    let mut decoder = Decoder::new(4096, 16);
    // Room for one entry.
    decoder.encoder_stream(&bytes("3f09")).expect("40 bytes");
    decoder.encoder_stream(&bytes(INSERT)).expect("valid");
    decoder
        .encoder_stream(&bytes("41 63 01 64"))
        .expect("valid");
    let fields = decode(&mut decoder, 0, &bytes("03 00 80"));
    assert_eq!(fields, Ok(Some(vec![text("c", "d")])));
    assert!(decode(&mut decoder, 4, &bytes("03 00 81")).is_err());
}

#[test]
fn what_is_decoded_is_bounded_before_it_is_copied() {
    let mut decoder = decoder();
    // An entry of about 2000 bytes, and a section that names it a thousand times.
    let mut insert = bytes("41 61");
    insert.extend(bytes("7f d10e"));
    insert.extend([b'x'; 2000]);
    decoder.encoder_stream(&insert).expect("valid");
    let mut bomb = bytes("02 00");
    bomb.extend([0x80; 1000]);
    let limits = FieldLimits {
        max_block_bytes: 10_000,
        ..NO_LIMITS
    };
    let (mut head, mut keeper) = (Vec::new(), Keeper::default());
    let decoded = decoder.decode(0, &bomb, &limits, &mut head, &mut keeper);
    assert_eq!(decoded, Ok(Section::Decoded(Decoded::LimitExceeded)));
    assert_eq!(keeper.fields.len(), 4);
    assert!(head.capacity() < 20_000);
    // It counts as decoded all the same (section 2.2.2.1).
    assert_eq!(acknowledgements(&mut decoder), bytes("80"));
}

/// Section 4.5.1.1: what the prefix says depends on what had come when the section arrived.
#[test]
fn the_prefix_of_a_section_that_waits_keeps_its_meaning() {
    let mut decoder = Decoder::new(100, 16);
    decoder.encoder_stream(&bytes("3f45")).expect("100 bytes");
    // Required Insert Count 2 of 0, with a range of 6.
    assert_eq!(decode(&mut decoder, 0, &bytes("0300 80")), Ok(None));
    for _ in 0..6 {
        decoder.encoder_stream(&bytes(INSERT)).expect("valid");
    }
    // By now it would be 8. The entry is gone, as only a broken encoder evicts it.
    assert_eq!(decoder.next_unblocked(), Some(0));
    let error = decode(&mut decoder, 0, &bytes("0300 80")).expect_err("evicted");
    assert_eq!(error.code, Code::QPACK_DECOMPRESSION_FAILED);
}
