//! The entries for fuzzers, with inputs made of what clients send.

use proptest::prelude::*;

use super::*;
use crate::fuzz::{fuzz_h3_server, fuzz_qpack};

/// Something that a piece of a stream may hold.
fn token() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"\x00\x04\x00".to_vec()),
        Just(headers(&GET)),
        Just(headers(&POST)),
        Just(headers(&[
            ("a", "b"),
            ("cookie", "c"),
            ("content-length", "3")
        ])),
        Just(data("abc")),
        Just(data("")),
        Just(raw_frame(0x21, b"unknown")),
        Just(raw_frame(0xf0700, b"\x00u=1")),
        Just(numbers(7, &[0])),
        // The encoder's stream, with a table, two entries, a duplicate.
        Just(b"\x02\x3f\xe1\x1f".to_vec()),
        Just(b"\x41a\x01b\x41c\x01d\x00".to_vec()),
        // Sections that refer to them.
        Just(raw_frame(1, b"\x02\x00\xd1\xd7\x50\x01a\xc1\x80")),
        Just(raw_frame(1, b"\x04\x00\xd4\xd7\x50\x01a\xc1\x81")),
        prop::collection::vec(any::<u8>(), 0..12),
    ]
}

/// A piece of a stream, as both entries take it.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let selector = prop_oneof![
        // The streams that come first, and whatever there is.
        5 => prop_oneof![Just(8), Just(9), Just(0), Just(1), Just(0x80), Just(0x81)],
        1 => any::<u8>(),
    ];
    (selector, prop::collection::vec(token(), 0..4)).prop_map(|(selector, tokens)| {
        let mut bytes = tokens.concat();
        bytes.truncate(255);
        [&[selector, bytes.len() as u8][..], &bytes].concat()
    })
}

fn input() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        3 => Just(b"\x08\x03\x00\x04\x00".to_vec()),
        1 => Just(Vec::new()),
    ];
    (any::<u8>(), start, prop::collection::vec(record(), 0..24))
        .prop_map(|(choice, start, records)| [vec![choice], start, records.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn servers_keep_their_promises(input in input()) {
        fuzz_h3_server(&input);
    }

    #[test]
    fn header_compression_keeps_its_promises(input in input()) {
        fuzz_qpack(&input);
    }

    #[test]
    fn any_bytes_are_taken(input in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_h3_server(&input);
        fuzz_qpack(&input);
    }
}
