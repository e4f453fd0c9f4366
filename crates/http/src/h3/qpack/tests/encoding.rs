//! What the encoder writes (section 2.1).

use super::*;
use crate::h3::error::Code;
use crate::headers::KnownHeader;

const SERVER: [(&str, &str); 1] = [("server", "sealane")];

/// An encoder towards a peer with a table of 4096 bytes.
fn encoder(blocked_streams: u64) -> Encoder {
    let mut encoder = Encoder::new(4096);
    encoder.peer_allows(4096, blocked_streams);
    assert_eq!(instructions(&mut encoder), bytes("02 3fe11f"));
    encoder
}

/// Whether a section refers to the dynamic table.
fn refers(section: &[u8]) -> bool {
    section[0] != 0
}

#[test]
fn without_a_table_everything_is_static_or_literal() {
    let mut encoder = Encoder::new(4096);
    for allowed in [0, 31] {
        encoder.peer_allows(allowed, 100);
        let fields = [(":status", "200"), ("Server", "x"), ("x-y", "z")];
        let section = encode(&mut encoder, 0, &fields);
        assert_eq!(section, bytes("0000 d9 5f4d 0178 23 782d79 017a"));
        assert_eq!(instructions(&mut encoder), []);
    }
    assert_eq!(encoder.heap_bytes(), 0);
}

#[test]
fn every_status_is_written() {
    let mut encoder = Encoder::new(0);
    for code in 100..1000 {
        let mut out = Vec::new();
        let mut section = encoder.section(0, &mut out);
        section.status(code);
        section.finish();
        let fields = decode(&mut decoder(), 0, &out);
        assert_eq!(fields, Ok(Some(vec![text(":status", &code.to_string())])));
    }
}

#[test]
fn section_2_1_2_without_blocked_streams_only_acknowledged_entries_are_referred_to() {
    let mut encoder = encoder(0);
    assert!(!refers(&encode(&mut encoder, 0, &SERVER)));
    let mut expected = bytes("ff1d");
    super::super::string::push(&mut expected, 0, 7, b"sealane");
    assert_eq!(instructions(&mut encoder), expected);
    // Nothing more is known, and the entry is not added a second time.
    assert!(!refers(&encode(&mut encoder, 4, &SERVER)));
    assert_eq!(instructions(&mut encoder), []);
    encoder.decoder_stream(&bytes("01")).expect("one has come");
    assert_eq!(encode(&mut encoder, 8, &SERVER), bytes("0200 80"));
}

#[test]
fn section_2_1_2_no_more_streams_may_wait_than_the_peer_allows() {
    let mut encoder = encoder(2);
    assert_eq!(encode(&mut encoder, 0, &SERVER), bytes("0280 10"));
    assert_eq!(encode(&mut encoder, 4, &SERVER), bytes("0200 80"));
    assert!(!refers(&encode(&mut encoder, 8, &SERVER)), "the third");
    // A stream that waits anyway may wait for more.
    assert!(refers(&encode(&mut encoder, 4, &SERVER)));
    // When the first is acknowledged, the entry is known to have come.
    encoder.decoder_stream(&bytes("80")).expect("stream 0");
    assert!(refers(&encode(&mut encoder, 8, &SERVER)));
    assert!(refers(&encode(&mut encoder, 12, &SERVER)));
}

#[test]
fn section_2_1_1_entries_that_are_referred_to_are_not_evicted() {
    let mut encoder = Encoder::new(4096);
    encoder.peer_allows(100, 100);
    instructions(&mut encoder);
    // Two entries of 39 bytes.
    let small = |value: &'static str| [("vary", value)];
    assert!(refers(&encode(&mut encoder, 0, &small("abc"))));
    assert!(refers(&encode(&mut encoder, 4, &small("def"))));
    instructions(&mut encoder);
    let third = encode(&mut encoder, 8, &small("ghi"));
    assert!(!refers(&third) && instructions(&mut encoder).is_empty());
    // The second stream is acknowledged: both entries have come, the first is still in use.
    encoder.decoder_stream(&bytes("84")).expect("stream 4");
    assert!(!refers(&encode(&mut encoder, 8, &small("ghi"))));
    encoder
        .decoder_stream(&bytes("40"))
        .expect("stream 0 is cancelled");
    assert!(refers(&encode(&mut encoder, 8, &small("ghi"))));
    assert!(!instructions(&mut encoder).is_empty());
}

#[test]
fn section_2_1_1_entries_that_have_not_come_are_not_evicted() {
    let mut encoder = Encoder::new(4096);
    encoder.peer_allows(100, 0);
    for value in ["abc", "def", "ghi"] {
        encode(&mut encoder, 0, &[("vary", value)]);
    }
    let mut decoder = Decoder::new(100, 0);
    let written = instructions(&mut encoder);
    decoder.encoder_stream(&written[1..]).expect("valid");
    assert_eq!(acknowledgements(&mut decoder), bytes("02"), "two fit");
    encoder
        .decoder_stream(&bytes("02"))
        .expect("both have come");
    encode(&mut encoder, 0, &[("vary", "ghi")]);
    assert!(!instructions(&mut encoder).is_empty());
}

#[test]
fn fields_that_come_again_are_added_and_secrets_never_are() {
    let mut encoder = encoder(100);
    let fields = [
        ("x-request", "the same"),
        ("date", "Fri, 27 Nov 2026 18:00:00 GMT"),
        ("set-cookie", "a=b"),
        ("cookie", "a=b"),
        ("authorization", "Basic eDp5"),
        ("proxy-authorization", "Basic eDp5"),
        ("etag", "\"1234\""),
    ];
    assert!(!refers(&encode(&mut encoder, 0, &fields)));
    assert_eq!(instructions(&mut encoder), []);
    for stream in [4, 8, 12] {
        let section = encode(&mut encoder, stream, &fields);
        assert!(refers(&section));
        let written = instructions(&mut encoder);
        assert_eq!(written.is_empty(), stream != 4);
        let found = |text: &str| {
            let mut huffman = Vec::new();
            super::super::string::push(&mut huffman, 0, 7, text.as_bytes());
            written.windows(huffman.len()).any(|part| part == huffman)
        };
        assert_eq!(found("the same"), stream == 4);
        assert!(!found("a=b") && !found("Basic eDp5") && !found("\"1234\""));
    }
    // Section 7.1.3: not on any other hop either.
    let section = encode(&mut Encoder::new(0), 0, &fields);
    let decoded = decode(&mut decoder(), 0, &section)
        .expect("valid")
        .expect("complete");
    let secret: Vec<&str> = decoded
        .iter()
        .filter(|field| field.2)
        .map(|field| field.0.as_str())
        .collect();
    let expected = [
        "set-cookie",
        "cookie",
        "authorization",
        "proxy-authorization",
    ];
    assert_eq!(secret, expected);
}

#[test]
fn names_become_lower_case() {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(0);
    let mut section = encoder.section(0, &mut out);
    section.field(b"X-Custom-NAME", b"V");
    section.field(b"Content-TYPE", b"text/css");
    section.known(KnownHeader::WwwAuthenticate, b"Basic");
    section.finish();
    let expected = vec![
        text("x-custom-name", "V"),
        text("content-type", "text/css"),
        text("www-authenticate", "Basic"),
    ];
    assert_eq!(decode(&mut decoder(), 0, &out), Ok(Some(expected)));
}

#[test]
fn section_4_4_wrong_acknowledgements_are_refused() {
    let refused = |encoder: &mut Encoder, hex: &str| {
        let error = encoder.decoder_stream(&bytes(hex)).expect_err(hex);
        assert_eq!(error.code, Code::QPACK_DECODER_STREAM_ERROR, "{hex}");
    };
    // Of a section that does not exist, or did not refer to the table.
    refused(&mut encoder(9), "80");
    let mut one = encoder(9);
    encode(&mut one, 0, &[(":status", "200")]);
    refused(&mut one, "80");
    // Twice.
    let mut one = encoder(9);
    encode(&mut one, 0, &SERVER);
    one.decoder_stream(&bytes("80")).expect("stream 0");
    refused(&mut one, "80");
    // Increments of zero, and of more than was inserted.
    refused(&mut encoder(9), "00");
    refused(&mut encoder(9), "01");
    refused(&mut encoder(9), "3f ffffffffffffffffff7f");
    // Without a table, too; but a stream may be cancelled, byte by byte.
    refused(&mut Encoder::new(0), "80");
    let mut none = Encoder::new(0);
    for byte in bytes("7f d102 48") {
        none.decoder_stream(&[byte]).expect("cancellations");
    }
}

#[test]
fn acknowledgements_arrive_byte_by_byte() {
    let mut encoder = encoder(9);
    encode(&mut encoder, 1000, &SERVER);
    for byte in bytes("ff e906") {
        encoder.decoder_stream(&[byte]).expect("stream 1000");
    }
    assert_eq!(encode(&mut encoder, 0, &SERVER), bytes("0200 80"));
}

#[test]
fn a_peer_that_acknowledges_nothing_takes_no_memory() {
    let mut encoder = encoder(u64::MAX);
    for stream in 0..1000 {
        let value = format!("{stream}");
        encode(
            &mut encoder,
            stream * 4,
            &[("server", "x"), ("vary", &value)],
        );
    }
    assert!(encoder.heap_bytes() < 40_000, "{}", encoder.heap_bytes());
    // Unsent instructions are bounded by the table, as nothing is evicted.
    assert!(instructions(&mut encoder).len() < 4096);
    assert!(!refers(&encode(&mut encoder, 4000, &SERVER)));
}

#[test]
fn prefixes_longer_than_usual_are_put_in_front() {
    let mut encoder = encoder(1000);
    let mut decoder = decoder();
    let mut longest = 0;
    for number in 0..400 {
        let value = format!("{number}");
        let fields = [("server", value.as_str()), ("x-y", "z")];
        let section = encode(&mut encoder, number * 4, &fields);
        let written = instructions(&mut encoder);
        decoder.encoder_stream(&written).expect("valid");
        let expected = fields.map(|(name, value)| text(name, value)).to_vec();
        assert_eq!(
            decode(&mut decoder, number * 4, &section),
            Ok(Some(expected))
        );
        encoder
            .decoder_stream(&acknowledgements(&mut decoder))
            .expect("valid");
        longest = longest.max(section.len());
    }
    // A Required Insert Count that is encoded as 255 or 256 takes two bytes.
    assert!(longest > 5);
}
