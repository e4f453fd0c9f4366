//! Properties of responses, on random and on nearly valid input.

use proptest::prelude::*;

use super::response::parse;
use super::{decode_in_pieces, in_chunks};
use crate::fuzz::{fuzz_fastcgi, fuzz_proxy_protocol, fuzz_response, fuzz_set_cookie};
use crate::h1::{ResponseBodyDecoder, ResponseFraming};
use crate::headers::KnownHeader;

/// Pieces of which responses are made, valid and not.
fn response_piece() -> impl Strategy<Value = Vec<u8>> {
    let words: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 404\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        b"HTTP/1.1 101 x\r\n",
        b"HTTP/1.1 204 x\r\n",
        b"HTTP/",
        b"\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b"\0",
        b": ",
        b"Content-Length: 3\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Status: 404 Not Found\r\n",
        b"Location: /\n",
        b"Date: x\r\n",
        b"Flag\r\n",
        b"A : b\r\n",
        b" folded\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n",
        b"X-T: y\r\n",
        b"\xff",
        b"\t",
    ];
    prop_oneof![
        12 => prop::sample::select(words.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => (any::<u8>(), 1..60usize).prop_map(|(byte, count)| vec![byte | 0x40; count]),
    ]
}

fn cookie_piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        ";",
        "; ",
        "=",
        " ",
        "a",
        "a=b",
        "domain=origin",
        "Domain=.Origin",
        "secure",
        "SECURE ",
        "httponly",
        "samesite=lax",
        "SameSite",
        "none",
        "path=/",
        "url=",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn responses_do_not_depend_on_fragmentation(
        choice in any::<u8>(),
        pieces in prop::collection::vec(response_piece(), 0..20),
    ) {
        let mut data = vec![choice];
        data.extend(pieces.concat());
        fuzz_response(&data);
    }

    #[test]
    fn arbitrary_bytes_are_handled(data in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_response(&data);
        fuzz_fastcgi(&data);
        fuzz_proxy_protocol(&data);
        fuzz_set_cookie(&data);
    }

    #[test]
    fn cookies_are_changed_once(
        choice in any::<u8>(),
        pieces in prop::collection::vec(cookie_piece(), 0..12),
    ) {
        let mut data = vec![choice];
        data.extend(pieces.concat().into_bytes());
        fuzz_set_cookie(&data);
    }

    #[test]
    fn valid_responses_are_read_as_httparse_reads_them(
        status in 100..1000_u16,
        reason in "[A-Za-z ]{0,20}",
        fields in prop::collection::vec(
            ("x-[A-Za-z0-9!#$%&'*+.^_|~-]{0,12}", "[!-~]([ -~]{0,30}[!-~])?"),
            0..20,
        ),
    ) {
        let mut input = format!("HTTP/1.1 {status} {reason}\r\n");
        for (name, value) in &fields {
            input.push_str(&format!("{name}: {value}\r\n"));
        }
        input.push_str("\r\n");
        let buf = input.as_bytes();
        let head = parse(buf).expect("valid");

        let mut slots = [httparse::EMPTY_HEADER; 32];
        let mut other = httparse::Response::new(&mut slots);
        let parsed = other.parse(buf).expect("valid");
        prop_assert_eq!(parsed, httparse::Status::Complete(head.head_bytes));
        prop_assert_eq!(other.code, Some(head.status.0));
        prop_assert_eq!(other.headers.len(), head.headers.len());
        for (one, other) in head.headers.iter().zip(other.headers.iter()) {
            prop_assert_eq!(one.name.of(buf), other.name.as_bytes());
            prop_assert_eq!(one.value.of(buf), other.value);
        }
    }

    #[test]
    fn chunks_of_an_origin_are_read_with_what_follows_left_alone(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..10),
        piece in 1..40usize,
        surplus in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let wire = in_chunks(&chunks);
        let mut decoder = ResponseBodyDecoder::new(ResponseFraming::Chunked);
        let (data, taken) = decode_in_pieces(&[&wire[..], &surplus].concat(), piece, |input| {
            decoder.decode(input).expect("valid")
        });
        prop_assert_eq!(data, chunks.concat());
        prop_assert_eq!(taken, wire.len());
    }
}

#[test]
fn headers_that_frame_are_found_whatever_their_case() {
    for (line, name) in [
        ("cOnTeNt-LeNgTh: 3", KnownHeader::ContentLength),
        ("TRANSFER-ENCODING: chunked", KnownHeader::TransferEncoding),
        ("x-accel-LIMIT-rate: 9", KnownHeader::XAccelLimitRate),
        ("www-authenticate: Basic", KnownHeader::WwwAuthenticate),
    ] {
        let head = parse(format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes());
        assert!(head.expect("valid").has(name), "{line}");
    }
}
