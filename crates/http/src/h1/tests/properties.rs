//! Properties, on random and on nearly valid input.

use proptest::prelude::*;

use super::{decode_in_pieces, in_chunks, parse, text};
use crate::fuzz::{fuzz_chunked, fuzz_request};
use crate::h1::{BodyDecoder, Framing};

/// Pieces of which heads are made, valid and not.
fn head_piece() -> impl Strategy<Value = Vec<u8>> {
    let words: &[&[u8]] = &[
        b"GET ",
        b"POST ",
        b"/",
        b"/a/../b%2e ",
        b" ",
        b"HTTP/1.1",
        b"HTTP/1.0",
        b"HTTP/2.0",
        b"\r\n",
        b"\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b":",
        b"Host: a\r\n",
        b"Host: ",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"X_Y: 1\r\n",
        b"A : b\r\n",
        b" folded\r\n",
        b"http://h:80/",
        b"*",
        b"\xff",
        b"\t",
    ];
    prop_oneof![
        8 => prop::sample::select(words.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => (any::<u8>(), 1..200usize).prop_map(|(byte, count)| vec![byte | 0x40; count]),
    ]
}

fn header_name() -> impl Strategy<Value = String> {
    "[A-Za-z][A-Za-z0-9-]{0,12}".prop_map(|name| format!("x-{name}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn heads_do_not_depend_on_fragmentation(
        choice in any::<u8>(),
        pieces in prop::collection::vec(head_piece(), 0..24),
    ) {
        let mut data = vec![choice];
        data.extend(pieces.concat());
        fuzz_request(&data);
    }

    #[test]
    fn arbitrary_bytes_are_handled(data in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_request(&data);
        fuzz_chunked(&data);
    }

    #[test]
    fn valid_heads_are_read_as_httparse_reads_them(
        path in "/[a-z0-9/?=&%._~-]{0,40}",
        fields in prop::collection::vec((header_name(), "[!-~]([ -~]{0,30}[!-~])?"), 0..30),
    ) {
        let mut input = format!("GET {path} HTTP/1.1\r\nHost: h\r\n");
        for (name, value) in &fields {
            input.push_str(&format!("{name}: {value}\r\n"));
        }
        input.push_str("\r\n");
        let buf = input.as_bytes();
        let head = parse(buf).expect("valid");

        let mut slots = [httparse::EMPTY_HEADER; 64];
        let mut other = httparse::Request::new(&mut slots);
        let status = other.parse(buf).expect("valid");
        prop_assert_eq!(status, httparse::Status::Complete(head.head_bytes));
        prop_assert_eq!(other.path, Some(text(head.target, buf)));
        prop_assert_eq!(other.headers.len(), head.headers.len());
        for (one, other) in head.headers.iter().zip(other.headers.iter()) {
            prop_assert_eq!(text(one.name, buf), other.name);
            prop_assert_eq!(one.value.of(buf), other.value);
        }
    }

    #[test]
    fn chunked_framing_does_not_depend_on_fragmentation(
        choice in any::<u8>(),
        pieces in prop::collection::vec(prop::sample::select(vec![
            "0", "1", "5", "a", "\r\n", "\r\n", "\r", "\n", ";x", " ", "hello", "x", "A: b",
            "7fffffffffffffff", "8",
        ]), 0..24),
    ) {
        let mut data = vec![choice];
        data.extend(pieces.concat().into_bytes());
        fuzz_chunked(&data);
    }

    #[test]
    fn what_is_encoded_in_chunks_is_decoded_from_them(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..10),
        piece in 1..40usize,
        follows in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let wire = in_chunks(&chunks);
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        let (data, taken) = decode_in_pieces(&[&wire[..], &follows].concat(), piece, |input| {
            decoder.decode(input).expect("valid")
        });
        prop_assert_eq!(data, chunks.concat());
        prop_assert_eq!(taken, wire.len());
    }
}
