//! Response bodies: data, end, surplus and missing bytes.

use crate::h1::{
    MAX_TRAILER_BYTES, ResponseBodyDecoder, ResponseBodyError, ResponseFraming, parse_trailers,
};

/// Data, bytes left over and outcome of a body that arrives in pieces and then ends.
fn read(
    framing: ResponseFraming,
    input: &[u8],
    piece: usize,
) -> (Vec<u8>, usize, Result<(), ResponseBodyError>) {
    let mut decoder = ResponseBodyDecoder::new(framing);
    let (mut data, mut at) = (Vec::new(), 0);
    while at < input.len() && !decoder.is_done() {
        let end = (at + piece).min(input.len());
        match decoder.decode(&input[at..end]) {
            Ok(decoded) => {
                data.extend_from_slice(&input[at..end][decoded.data]);
                at += decoded.consumed;
                assert_eq!(decoded.done, decoder.is_done());
            }
            Err(error) => return (data, 0, Err(error)),
        }
    }
    let outcome = decoder.close();
    assert_eq!(outcome.is_ok(), decoder.is_done());
    (data, input.len() - at, outcome)
}

#[test]
fn bodies_end_where_their_framing_says() {
    let closed_early = Err(ResponseBodyError::ClosedEarly);
    let cases: [(_, &[u8], &[u8], _, _); 10] = [
        (ResponseFraming::None, b"xx", b"", 2, Ok(())),
        (ResponseFraming::None, b"", b"", 0, Ok(())),
        (ResponseFraming::Length(3), b"abc", b"abc", 0, Ok(())),
        (ResponseFraming::Length(3), b"abcde", b"abc", 2, Ok(())),
        (ResponseFraming::Length(3), b"ab", b"ab", 0, closed_early),
        (ResponseFraming::Length(0), b"a", b"", 1, Ok(())),
        (ResponseFraming::UntilClose, b"abc", b"abc", 0, Ok(())),
        (
            ResponseFraming::Chunked,
            b"3\r\nabc\r\n0\r\n\r\nzz",
            b"abc",
            2,
            Ok(()),
        ),
        (
            ResponseFraming::Chunked,
            b"3\r\nabc\r\n0\r\n",
            b"abc",
            0,
            closed_early,
        ),
        (ResponseFraming::Chunked, b"", b"", 0, closed_early),
    ];
    for (framing, input, data, left, outcome) in cases {
        for piece in 1..=input.len().max(1) {
            let expected = (data.to_vec(), left, outcome);
            assert_eq!(read(framing, input, piece), expected, "{framing:?} {piece}");
        }
    }
}

#[test]
fn malformed_chunks_name_the_upstream() {
    for (input, detail) in [
        ("3\nabc\r\n", "malformed chunk size"),
        ("x\r\n", "malformed chunk size"),
        ("-1\r\n", "malformed chunk size"),
        ("3\r\nabcd\r\n", "chunk longer than its size"),
        ("3;\n", "malformed line end or control character"),
        ("ffffffffffffffff\r\n", "chunk size too large"),
        ("11111111111111111\r\n", "malformed chunk size"),
    ] {
        let (_, _, outcome) = read(ResponseFraming::Chunked, input.as_bytes(), 1);
        let error = outcome.expect_err(input).to_string();
        let expected = format!("upstream sent invalid chunked response ({detail})");
        assert_eq!(error, expected, "{input:?}");
    }
}

#[test]
fn what_the_surplus_is_called() {
    let chunked = ResponseBodyDecoder::new(ResponseFraming::Chunked);
    assert_eq!(chunked.surplus(), "upstream sent data after final chunk");
    let length = ResponseBodyDecoder::new(ResponseFraming::Length(1));
    let expected = "upstream sent more data than specified in \"Content-Length\" header";
    assert_eq!(length.surplus(), expected);
}

#[test]
fn trailers_are_kept_where_wanted() {
    let input = b"1\r\na\r\n0\r\nX-Sum:  1 \r\nContent-Length: 7\r\ngrpc-status: 0\r\n\r\nrest";
    for piece in 1..input.len() {
        let mut decoder = ResponseBodyDecoder::new(ResponseFraming::Chunked).keep_trailers();
        let mut at = 0;
        while !decoder.is_done() {
            let end = (at + piece).min(input.len());
            at += decoder.decode(&input[at..end]).expect("valid").consumed;
        }
        assert_eq!(&input[at..], b"rest");
        let lines = decoder.take_trailers();
        assert_eq!(
            lines,
            b"X-Sum:  1 \r\nContent-Length: 7\r\ngrpc-status: 0\r\n"
        );
        let trailers = parse_trailers(&lines).expect("valid");
        let fields: Vec<_> = trailers
            .iter()
            .map(|trailer| (trailer.name.of(&lines), trailer.value.of(&lines)))
            .collect();
        let expected: [(&[u8], &[u8]); 2] = [(b"X-Sum", b"1"), (b"grpc-status", b"0")];
        assert_eq!(fields, expected);
    }
    let mut decoder = ResponseBodyDecoder::new(ResponseFraming::Chunked);
    decoder.decode(b"0\r\nA: b\r\n\r\n").expect("valid");
    assert!(decoder.take_trailers().is_empty(), "not kept unless asked");
}

#[test]
fn malformed_and_endless_trailers_are_refused() {
    for lines in ["A b: c\r\n", " folded\r\n", ": x\r\n"] {
        let error = parse_trailers(lines.as_bytes()).expect_err(lines);
        assert_eq!(error.to_string(), "upstream sent invalid trailer");
    }
    assert!(parse_trailers(b"").expect("none").is_empty());
    let mut decoder = ResponseBodyDecoder::new(ResponseFraming::Chunked).keep_trailers();
    let mut input = b"0\r\nA: ".to_vec();
    input.resize(MAX_TRAILER_BYTES + 20, b'x');
    let error = decoder.decode(&input).expect_err("endless");
    assert_eq!(error.to_string(), "upstream sent too big trailers");
    assert!(decoder.take_trailers().len() <= MAX_TRAILER_BYTES + 1);
}

#[test]
fn what_is_left_to_read() {
    let mut length = ResponseBodyDecoder::new(ResponseFraming::Length(10));
    length.decode(b"abc").expect("valid");
    assert_eq!(length.known_left(), 7);
    let mut close = ResponseBodyDecoder::new(ResponseFraming::UntilClose);
    assert_eq!(close.known_left(), 1);
    close.close().expect("the end");
    assert_eq!(close.known_left(), 0);
    assert_eq!(close.decode(b"late").expect("dropped").consumed, 0);
}
