//! Field lines (section 4.5).

use super::*;
use crate::h3::error::Code;

fn never(name: &str, value: &str) -> Text {
    (name.to_owned(), value.to_owned(), true)
}

/// A table with `a: 1` (absolute index 0) and `b: 2`.
fn with_two() -> Decoder {
    let mut decoder = decoder();
    decoder
        .encoder_stream(&bytes("41 61 01 31 41 62 01 32"))
        .expect("valid");
    decoder
}

#[test]
fn every_representation_is_decoded() {
    for (section, expected) in [
        // 4.5.2: static and dynamic, relative to the base.
        ("0000 d1", text(":method", "GET")),
        ("0000 ff23", text("x-frame-options", "sameorigin")),
        ("0300 80", text("b", "2")),
        ("0300 81", text("a", "1")),
        ("0305 86", text("a", "1")),
        // 4.5.3: behind the base, which is 1 or 0.
        ("0380 10", text("b", "2")),
        ("0381 10", text("a", "1")),
        // 4.5.4: with a name of either table, without and with the bit that forbids an entry.
        ("0000 51 02 2f78", text(":path", "/x")),
        ("0000 71 02 2f78", never(":path", "/x")),
        ("0000 5f4b 01 78", text("origin", "x")),
        ("0300 40 01 78", text("b", "x")),
        ("0300 61 01 78", never("a", "x")),
        // 4.5.5.
        ("0381 00 01 78", text("a", "x")),
        ("0381 09 01 78", never("b", "x")),
        // 4.5.6, plain and Huffman.
        ("0000 23 782d79 01 78", text("x-y", "x")),
        ("0000 33 782d79 01 78", never("x-y", "x")),
        ("0000 2b f2b7af 01 78", text("x-y", "x")),
    ] {
        let found = decode(&mut with_two(), 0, &bytes(section));
        assert_eq!(found, Ok(Some(vec![expected])), "{section}");
    }
}

#[test]
fn sections_that_are_cut_or_wrong_are_refused() {
    for wrong in [
        // No prefix; half a prefix.
        "",
        "00",
        "ff", // Static 99, which does not exist.
        "0000 ff24",
        "0000 5f54 00", // Ends within an index, a length, a string.
        "0000 ff",
        "0000 51",
        "0000 51 7f",
        "0000 51 02 2f",
        "0000 23 78",
        "0000 27",
        // Huffman: the end-of-string symbol, eight bits of padding.
        "0000 51 84 ffffffff",
        "0000 51 82 1fff", // An integer of more than 62 bits.
        "0000 ff ffffffffffffffffffff",
    ] {
        let error = decode(&mut with_two(), 0, &bytes(wrong)).expect_err(wrong);
        assert_eq!(error.code, Code::QPACK_DECOMPRESSION_FAILED, "{wrong}");
    }
}

#[test]
fn an_empty_section_has_no_fields() {
    assert_eq!(decode(&mut with_two(), 0, &bytes("0000")), Ok(Some(vec![])));
}

#[test]
fn notes_are_kept_with_entries() {
    // The sink of these tests compares a note that it is handed with the one that it returned.
    let mut decoder = with_two();
    for stream in 0..3 {
        assert!(decode(&mut decoder, stream, &bytes("0300 80 81 40 01 78")).is_ok());
    }
}
