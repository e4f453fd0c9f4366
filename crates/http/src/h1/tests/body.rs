//! Body framing.

use crate::h1::{BodyDecoder, BodyError, Framing, MAX_EXTENSION_BYTES, MAX_TRAILER_BYTES};

/// Decodes everything; returns the data and what follows the body, `None` when it has not ended.
fn decode(framing: Framing, input: &[u8]) -> Result<(Vec<u8>, Option<&[u8]>), BodyError> {
    let mut decoder = BodyDecoder::new(framing);
    let (mut data, mut rest) = (Vec::new(), input);
    loop {
        let decoded = decoder.decode(rest)?;
        data.extend_from_slice(&rest[decoded.data.clone()]);
        rest = &rest[decoded.consumed..];
        assert_eq!(decoded.done, decoder.is_done());
        if decoded.done {
            return Ok((data, Some(rest)));
        }
        if rest.is_empty() {
            return Ok((data, None));
        }
    }
}

fn chunked(input: &str) -> Result<(String, Option<String>), BodyError> {
    let (data, rest) = decode(Framing::Chunked, input.as_bytes())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&data), rest.map(text)))
}

#[test]
fn no_body_and_lengths() {
    assert_eq!(
        decode(Framing::None, b"next"),
        Ok((vec![], Some(&b"next"[..])))
    );
    assert_eq!(
        decode(Framing::Length(0), b"next"),
        Ok((vec![], Some(&b"next"[..])))
    );
    assert_eq!(
        decode(Framing::Length(3), b"abcnext"),
        Ok((b"abc".to_vec(), Some(&b"next"[..])))
    );
    assert_eq!(
        decode(Framing::Length(9), b"abc"),
        Ok((b"abc".to_vec(), None))
    );
    let mut decoder = BodyDecoder::new(Framing::Length(9));
    decoder.decode(b"abc").expect("lengths have no errors");
    assert_eq!(decoder.known_left(), 6);
}

#[test]
fn chunks() {
    let ok = |data: &str, rest: &str| Ok((data.to_owned(), Some(rest.to_owned())));
    assert_eq!(chunked("0\r\n\r\nnext"), ok("", "next"));
    assert_eq!(
        chunked("3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"),
        ok("abc0123456789", "")
    );
    assert_eq!(
        chunked("000000000000000a\r\n0123456789\r\n00\r\n\r\n"),
        ok("0123456789", "")
    );
    assert_eq!(
        chunked("1;a=b;c=\"d\"\r\nx\r\n0 ; e\t\r\n\r\n"),
        ok("x", "")
    );
    assert_eq!(chunked("1 \t\r\nx\r\n0\r\n\r\n"), ok("x", ""));
    assert_eq!(
        chunked("1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\nnext"),
        ok("x", "next")
    );
    assert_eq!(chunked("3\r\nab"), Ok(("ab".to_owned(), None)));
}

#[test]
fn framing_lines_end_with_cr_lf_only() {
    for (input, error) in [
        ("1\nx\r\n0\r\n\r\n", BodyError::InvalidSize),
        ("1\rx\r\n0\r\n\r\n", BodyError::InvalidLine),
        ("1;a\nx\r\n0\r\n\r\n", BodyError::InvalidLine),
        ("1;a\rb\r\nx\r\n", BodyError::InvalidLine),
        ("1\r\nx\n0\r\n\r\n", BodyError::MissingCrlf),
        ("1\r\nx\r0\r\n\r\n", BodyError::MissingCrlf),
        ("1\r\nxy\r\n0\r\n\r\n", BodyError::MissingCrlf),
        ("0\n\r\n", BodyError::InvalidSize),
        ("0\r\n\n", BodyError::InvalidLine),
        ("0\r\nA: b\n\r\n", BodyError::InvalidLine),
        ("0\r\n\rx", BodyError::InvalidLine),
        ("0\r\nA: \0\r\n\r\n", BodyError::InvalidLine),
        ("1;\0\r\nx\r\n", BodyError::InvalidLine),
    ] {
        assert_eq!(chunked(input), Err(error), "{input:?}");
    }
}

#[test]
fn malformed_sizes() {
    for (input, error) in [
        ("\r\n", BodyError::InvalidSize),
        (" 1\r\n", BodyError::InvalidSize),
        (";a\r\n", BodyError::InvalidSize),
        ("-1\r\n", BodyError::InvalidSize),
        ("+1\r\n", BodyError::InvalidSize),
        ("0x1\r\n", BodyError::InvalidSize),
        ("1 2\r\n", BodyError::InvalidSize),
        ("g\r\n", BodyError::InvalidSize),
        ("00000000000000001\r\n", BodyError::InvalidSize),
        ("8000000000000000\r\n", BodyError::SizeOverflow),
        ("ffffffffffffffff\r\n", BodyError::SizeOverflow),
    ] {
        assert_eq!(chunked(input), Err(error), "{input:?}");
    }
    assert!(chunked("7fffffffffffffff\r\nx").is_ok());
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let extension = |bytes: usize| format!("0;{}\r\n\r\n", "x".repeat(bytes));
    // The CR that ends the extension counts as well.
    assert!(chunked(&extension(MAX_EXTENSION_BYTES - 1)).is_ok());
    let too_long = Err(BodyError::ExtensionsTooLong);
    assert_eq!(chunked(&extension(MAX_EXTENSION_BYTES)), too_long);
    let many = "1;123456789\r\nx\r\n".repeat(MAX_EXTENSION_BYTES / 9 + 2);
    assert_eq!(chunked(&many), too_long, "the limit is for the whole body");
    let paid = "a;123456789\r\n0123456789\r\n".repeat(MAX_EXTENSION_BYTES);
    assert!(chunked(&paid).is_ok(), "data makes up for it");

    let trailer = |bytes: usize| format!("0\r\n{}\r\n\r\n", "x".repeat(bytes));
    assert!(chunked(&trailer(MAX_TRAILER_BYTES - 1)).is_ok());
    assert_eq!(
        chunked(&trailer(MAX_TRAILER_BYTES)),
        Err(BodyError::TrailersTooLong)
    );
}

#[test]
fn data_is_returned_in_place() {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let first = decoder.decode(b"5\r\nhello\r\n").expect("valid");
    assert_eq!((first.data, first.consumed, first.done), (3..8, 8, false));
    let second = decoder.decode(b"\r\n").expect("valid");
    assert_eq!(
        (second.data, second.consumed, second.done),
        (2..2, 2, false)
    );
    let third = decoder.decode(b"0\r\n\r\nGET").expect("valid");
    assert_eq!((third.consumed, third.done), (5, true));
    let after = decoder.decode(b"GET").expect("valid");
    assert_eq!((after.consumed, after.done), (0, true));
}
