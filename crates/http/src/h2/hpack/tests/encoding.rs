//! The choices of the encoder: representations, entries, table sizes.

use super::*;
use crate::headers::KnownHeader;

/// One block.
fn encode(encoder: &mut Encoder, fields: &[(&str, &str, Indexing)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = encoder.block(&mut out);
    for (name, value, indexing) in fields {
        block.field(name.as_bytes(), value.as_bytes(), *indexing);
    }
    out
}

fn auto<'a>(name: &'a str, value: &'a str) -> (&'a str, &'a str, Indexing) {
    (name, value, Indexing::Auto)
}

#[test]
fn static_entries_are_one_byte() {
    let mut encoder = Encoder::default();
    for index in (1..=61).filter(|index| !matches!(index, 23 | 32 | 49 | 55)) {
        let (name, value) = static_field(index).expect("an entry");
        if value.is_empty() {
            continue;
        }
        let mut out = Vec::new();
        encoder.block(&mut out).field(name, value, Indexing::Auto);
        assert_eq!(out, [0x80 | index as u8]);
    }
    assert_eq!(encoder.heap_bytes(), 0);
}

#[test]
fn status() {
    let mut encoder = Encoder::default();
    let mut decoder = Decoder::new();
    for code in 100..=999 {
        let mut out = Vec::new();
        encoder.block(&mut out).status(code);
        let expected = [format!(":status: {code}")];
        assert_eq!(lines(&mut decoder, &out).expect("valid"), expected);
        let again = out.len();
        out.clear();
        encoder.block(&mut out).status(code);
        assert_eq!(out.len(), 1, "{code}, which took {again} before");
        assert_eq!(lines(&mut decoder, &out).expect("valid"), expected);
    }
}

#[test]
fn names_are_lower_case() {
    let mut encoder = Encoder::default();
    let mut decoder = Decoder::new();
    let fields = [auto("Content-Type", "Text"), auto("X-UPPER", "Value")];
    let block = encode(&mut encoder, &fields);
    let expected = ["content-type: Text", "x-upper: Value"];
    assert_eq!(lines(&mut decoder, &block).expect("valid"), expected);
    for known in KnownHeader::ALL {
        let mut out = Vec::new();
        encoder.block(&mut out).known(known, b"v", Indexing::Auto);
        let name = known.name().to_ascii_lowercase();
        let expected = [format!("{name}: v")];
        assert_eq!(lines(&mut decoder, &out).expect("valid"), expected);
    }
}

/// A date is worth an entry at once, and is one byte for the rest of its second.
#[test]
fn what_servers_repeat_is_indexed_at_once() {
    let mut encoder = Encoder::default();
    let fields = [
        auto("server", "sealane"),
        auto("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        auto("content-type", "text/html"),
    ];
    assert!(encode(&mut encoder, &fields).len() > 30);
    assert_eq!(encode(&mut encoder, &fields), [0xc0, 0xbf, 0xbe]);
    let next = [auto("date", "Mon, 21 Oct 2013 20:13:22 GMT"), fields[0]];
    assert_eq!(encode(&mut encoder, &next)[0], 0x61);
    assert_eq!(encode(&mut encoder, &next), [0xbe, 0xc1]);
}

/// Anything else when it comes for the second time, so that what never repeats pushes nothing out.
#[test]
fn other_fields_are_indexed_the_second_time() {
    let mut encoder = Encoder::default();
    let field = [auto("etag", "\"65f1a2b3-1a2b\"")];
    let first = encode(&mut encoder, &field);
    assert_eq!(first[..2], [0x0f, 34 - 15], "without indexing");
    let second = encode(&mut encoder, &field);
    assert_eq!(second[0], 0x40 | 34, "with indexing");
    assert_eq!(encode(&mut encoder, &field), [0xbe]);
    let before = encoder.heap_bytes();
    for number in 0..1000 {
        encode(&mut encoder, &[auto("etag", &format!("\"{number}\""))]);
    }
    assert_eq!(encode(&mut encoder, &field), [0xbe]);
    assert_eq!(encoder.heap_bytes(), before);
}

/// A name that is in no table gets there by its second value; then its index stands for it.
#[test]
fn names_that_repeat_are_indexed() {
    let mut encoder = Encoder::default();
    let id = |value| [auto("x-request-id", value)];
    assert_eq!(encode(&mut encoder, &id("1"))[0], 0x00);
    assert_eq!(encode(&mut encoder, &id("2"))[0], 0x40);
    assert_eq!(encode(&mut encoder, &id("3")), [0x0f, 62 - 15, 1, b'3']);
    assert_eq!(encode(&mut encoder, &id("2")), [0xbe]);
}

/// Section 7.1: secrets do not enter the table, whatever repeats; the caller can say so of any
/// field.
#[test]
fn s_7_1_secrets_are_never_indexed() {
    let mut encoder = Encoder::default();
    let mut decoder = Decoder::new();
    let fields = [
        auto("set-cookie", "a=b"),
        auto("cookie", "a=b"),
        auto("authorization", "Basic eDp5"),
        auto("proxy-authorization", "Basic eDp5"),
        ("x-token", "secret", Indexing::Never),
        ("content-type", "text/html", Indexing::Never),
        (":path", "/", Indexing::Never),
    ];
    for _ in 0..4 {
        let block = encode(&mut encoder, &fields);
        let decoded = decode(&mut decoder, &block).expect("valid");
        assert_eq!(decoded.len(), fields.len());
        for ((name, value, never), sent) in decoded.iter().zip(fields) {
            assert_eq!((&name[..], &value[..], *never), (sent.0, sent.1, true));
        }
    }
    assert_eq!(decoder.table_bytes(), 0);
}

/// Section 5.2: Huffman only where it is shorter.
#[test]
fn s_5_2_the_shorter_string() {
    let mut encoder = Encoder::default();
    let block = encode(&mut encoder, &[("x", "&&&&", Indexing::Never)]);
    assert_eq!(block, [0x10, 1, b'x', 4, b'&', b'&', b'&', b'&']);
    let block = encode(&mut encoder, &[("a", "0000", Indexing::Never)]);
    assert_eq!(block, [0x10, 1, b'a', 0x83, 0, 0, 0x0f]);
}

/// Section 4.2: sizes are told before the next field, the smallest first.
#[test]
fn s_4_2_table_size_updates() {
    let mut encoder = Encoder::new(8192);
    assert_eq!(encode(&mut encoder, &[]), b"");
    encoder.set_peer_limit(4096);
    assert_eq!(encode(&mut encoder, &[]), b"");
    encoder.set_peer_limit(16_384);
    assert_eq!(encode(&mut encoder, &[]), hex("3fe1 3f"), "8192");
    encoder.set_peer_limit(100_000);
    assert_eq!(encode(&mut encoder, &[]), b"");
    for limit in [1000, 10, 500] {
        encoder.set_peer_limit(limit);
    }
    assert_eq!(encode(&mut encoder, &[]), hex("2a 3fd5 03"), "10, 500");
    assert_eq!(encode(&mut encoder, &[]), b"");
    // Down and back evicts: it must be told, too.
    encoder.set_peer_limit(0);
    encoder.set_peer_limit(500);
    assert_eq!(encode(&mut encoder, &[]), hex("20 3fd5 03"));
    encoder.set_peer_limit(600);
    encoder.set_peer_limit(500);
    assert_eq!(encode(&mut encoder, &[]), b"");
    assert_eq!(encode(&mut Encoder::new(0), &[]), [0x20]);
}

/// A peer without a table gets blocks without entries, and no memory is held for it.
#[test]
fn s_4_2_no_table() {
    let mut encoder = Encoder::default();
    let mut decoder = Decoder::new();
    let fields = [auto("server", "sealane"), auto("x", "y")];
    for _ in 0..3 {
        let block = encode(&mut encoder, &fields);
        assert_eq!(decode(&mut decoder, &block).expect("valid").len(), 2);
    }
    assert!(encoder.heap_bytes() > 0);
    encoder.set_peer_limit(0);
    decoder.set_limit(0);
    for _ in 0..3 {
        let block = encode(&mut encoder, &fields);
        assert_eq!(decode(&mut decoder, &block).expect("valid").len(), 2);
        assert_eq!(encoder.heap_bytes(), 0);
    }
    assert_eq!(decoder.heap_bytes(), 0);
}

/// One long value does not push out the rest.
#[test]
fn long_fields_are_not_indexed() {
    let mut encoder = Encoder::default();
    let server = [auto("server", "sealane")];
    encode(&mut encoder, &server);
    let long = "x".repeat(3000);
    for _ in 0..3 {
        encode(&mut encoder, &[("x-long", &long, Indexing::AtOnce)]);
    }
    assert_eq!(encode(&mut encoder, &server), [0xbe]);
}

/// Far more entries than the numbers in the chains can count.
#[test]
fn entries_without_end() {
    let mut encoder = Encoder::new(1024);
    let mut decoder = Decoder::new();
    for number in 0..200_000u32 {
        let value = (number % 1009).to_string();
        let fields = [
            ("etag", &value[..], Indexing::AtOnce),
            ("server", "sealane", Indexing::AtOnce),
            ("x-custom", &value[..], Indexing::AtOnce),
        ];
        let block = encode(&mut encoder, &fields);
        let decoded = decode(&mut decoder, &block).expect("valid");
        assert_eq!((&decoded[0].1, &decoded[2].1), (&value, &value));
        assert_eq!(decoded[1].1, "sealane");
    }
}
