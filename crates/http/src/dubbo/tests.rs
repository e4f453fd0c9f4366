//! Frames, values and answers, against the examples of the Hessian 2 specification and bytes that
//! Dubbo's Java library writes.

use super::hessian::{Reader, Value, write_string};
use super::*;
use crate::tests::Random;

const LIMITS: AnswerLimits = AnswerLimits { head_bytes: 1000 };

fn header(kind: Kind, number: u64, payload_bytes: u32) -> Header {
    Header {
        kind,
        serialization: HESSIAN2,
        status: 0,
        number,
        payload_bytes,
    }
}

/// What a decoder finds in an input that comes in pieces of this size: headers and payloads.
fn frames(input: &[u8], piece_bytes: usize) -> Result<Vec<(Header, Vec<u8>)>, FrameError> {
    let mut decoder = FrameDecoder::default();
    let (mut found, mut current) = (Vec::new(), None);
    for mut piece in input.chunks(piece_bytes.max(1)) {
        loop {
            let decoded = decoder.decode(piece)?;
            match decoded.event {
                Event::NeedMore => break,
                Event::Begin(header) => current = Some((header, Vec::new())),
                Event::Payload(at) => {
                    let (_, payload) = current.as_mut().expect("a frame has begun");
                    payload.extend_from_slice(&piece[at]);
                }
                Event::End => found.extend(current.take()),
            }
            piece = &piece[decoded.consumed..];
        }
    }
    assert_eq!(decoder.is_between_frames(), {
        let whole: usize = found.iter().map(|(_, payload)| 16 + payload.len()).sum();
        whole == input.len()
    });
    Ok(found)
}

#[test]
fn headers_are_those_of_the_protocol() {
    let request = header(Kind::Request { two_way: true }, 0x0102_0304_0506_0708, 9);
    let bytes = b"\xda\xbb\xc2\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x09";
    assert_eq!(request.encode(), *bytes);
    for (kind, flags) in [
        (Kind::Request { two_way: false }, 0x82),
        (Kind::Event { two_way: true }, 0xe2),
        (Kind::Event { two_way: false }, 0xa2),
        (Kind::Response, 0x02),
        (Kind::EventResponse, 0x22),
    ] {
        let bytes = header(kind, 1, 0).encode();
        assert_eq!(bytes[2], flags, "{kind:?}");
        assert_eq!(Header::decode(&bytes), Ok(header(kind, 1, 0)), "{kind:?}");
    }
    let mut negative = request.encode();
    negative[12] = 0x80;
    assert_eq!(
        Header::decode(&negative),
        Err(FrameError::Length(0x8000_0009))
    );
}

#[test]
fn frames_are_found_however_they_are_cut() {
    let one = header(Kind::Response, 1, 5);
    let two = header(Kind::EventResponse, 2, 0);
    let input = [&one.encode()[..], b"hello", &two.encode()].concat();
    for size in 1..=input.len() {
        let found = frames(&input, size);
        let expected = vec![(one, b"hello".to_vec()), (two, Vec::new())];
        assert_eq!(found, Ok(expected), "{size}");
    }
    // What is no frame is seen at its first byte.
    let mut decoder = FrameDecoder::default();
    assert_eq!(decoder.decode(b"H"), Err(FrameError::Magic([b'H', 0])));
    assert_eq!(decoder.decode(b""), Err(FrameError::Magic([b'H', 0])));
    assert_eq!(frames(b"\xdax", 1), Err(FrameError::Magic([0xda, b'x'])));
}

fn value(bytes: &[u8]) -> Result<Value, HessianError> {
    let mut reader = Reader::new(bytes);
    let value = reader.value(1000);
    let mut skipping = Reader::new(bytes);
    assert_eq!(value.is_ok(), skipping.skip().is_ok(), "{bytes:02x?}");
    value
}

#[test]
fn numbers_are_those_of_the_specification() {
    for (bytes, number) in [
        (&b"\x90"[..], 0),
        (b"\x80", -16),
        (b"\xbf", 47),
        (b"\xc8\x00", 0),
        (b"\xc0\x00", -2048),
        (b"\xc7\x00", -256),
        (b"\xcf\xff", 2047),
        (b"\xd4\x00\x00", 0),
        (b"\xd0\x00\x00", -262_144),
        (b"\xd7\xff\xff", 262_143),
        (b"I\x00\x00\x00\x00", 0),
        (b"I\xff\xff\xff\xff", -1),
        (b"\xe0", 0),
        (b"\xd8", -8),
        (b"\xef", 15),
        (b"\xf8\x00", 0),
        (b"\xf0\x00", -2048),
        (b"\xf7\x00", -256),
        (b"\xff\xff", 2047),
        (b"\x3c\x00\x00", 0),
        (b"\x38\x00\x00", -262_144),
        (b"\x3f\xff\xff", 262_143),
        (b"\x59\x00\x00\x01\x2c", 300),
        (b"L\x00\x00\x00\x00\x00\x00\x01\x2c", 300),
    ] {
        assert_eq!(value(bytes), Ok(Value::Int(number)), "{bytes:02x?}");
    }
    for (bytes, number) in [
        (&b"\x5b"[..], 0.0),
        (b"\x5c", 1.0),
        (b"\x5d\x80", -128.0),
        (b"\x5e\x7f\xff", 32767.0),
        (b"\x5f\x00\x00\x00\x7b", 0.123),
        (b"D\x40\x28\x80\x00\x00\x00\x00\x00", 12.25),
    ] {
        assert_eq!(value(bytes), Ok(Value::Double(number)), "{bytes:02x?}");
    }
    assert_eq!(value(b"N"), Ok(Value::Null));
    assert_eq!(value(b"T"), Ok(Value::Bool(true)));
    assert_eq!(value(b"F"), Ok(Value::Bool(false)));
}

#[test]
fn strings_and_bytes_come_in_chunks() {
    let text = |text: &str| Ok(Value::Text(text.to_owned()));
    assert_eq!(value(b"\x00"), text(""));
    assert_eq!(value(b"\x05hello"), text("hello"));
    assert_eq!(value(b"\x01\xc3\x83"), text("\u{c3}"));
    assert_eq!(value(b"S\x00\x05hello"), text("hello"));
    assert_eq!(value(b"R\x00\x02heS\x00\x03llo"), text("hello"));
    assert_eq!(value(b"R\x00\x02he\x03llo"), text("hello"));
    assert_eq!(value(b"\x30\x05hello"), text("hello"));
    // A character beyond the basic plane, as Java writes it, and as others do.
    assert_eq!(value(b"\x02\xed\xa0\xbd\xed\xb8\x80"), text("\u{1f600}"));
    assert_eq!(value(b"\x02\xf0\x9f\x98\x80"), text("\u{1f600}"));
    assert_eq!(value(b"\x23\x01\x02\x03"), Ok(Value::Binary(0..4)));
    assert_eq!(value(b"B\x00\x01\x05"), Ok(Value::Binary(0..4)));
    assert_eq!(value(b"A\x00\x01\x05\x34\x01\x06"), Ok(Value::Binary(0..7)));
    for (bytes, error) in [
        (&b"\x05hell"[..], HessianError::Truncated),
        (b"R\x00\x02he", HessianError::Truncated),
        (b"R\x00\x02heN", HessianError::Tag(b'N')),
        (b"\x01\xff", HessianError::Text),
        (b"\x01\xc3A", HessianError::Text),
        (b"\x01\xf0\x9f\x98\x80", HessianError::Text),
        (b"A\x00\x01\x05N", HessianError::Tag(b'N')),
        (b"\x24\x01", HessianError::Truncated),
    ] {
        assert_eq!(value(bytes), Err(error), "{bytes:02x?}");
    }
    // Half a character is no text, but may be passed over.
    let half = b"\x01\xed\xa0\xbd";
    assert_eq!(Reader::new(half).value(9), Err(HessianError::Text));
    let long = Reader::new(b"\x05hello").value(4);
    assert_eq!(long, Err(HessianError::TooLong));
}

#[test]
fn strings_that_are_written_are_read_again() {
    let mut out = Vec::new();
    write_string(&mut out, "\u{1f600}");
    assert_eq!(out, b"\x02\xed\xa0\xbd\xed\xb8\x80");
    let units = [0, 1, 31, 32, 1023, 1024, 0x7fff, 0x8000, 0x8001, 0x12345];
    for (count, fill) in units.into_iter().flat_map(|count| {
        let fills = ["x", "\u{e4}", "\u{4e2d}", "\u{1f600}"];
        fills.map(|fill| (count, fill))
    }) {
        // The first character moves where chunks begin.
        let text = format!("x{}", fill.repeat(count));
        let mut out = Vec::new();
        write_string(&mut out, &text);
        let read = Reader::new(&out).value(usize::MAX);
        assert!(read == Ok(Value::Text(text)), "{count} {fill}");
    }
}

#[test]
fn containers_are_passed_over() {
    for bytes in [
        &b"H\x90\x03feeZ"[..],
        b"M\x13com.caucho.test.Car\x05color\x0aaquamarineZ",
        b"W\x90\x91Z",
        b"U\x04[intZ",
        b"V\x04[int\x92\x90\x91",
        b"X\x91\x57Z",
        b"\x72\x04[int\x90\x91",
        b"\x7a\x90\x91",
        b"C\x0bexample.Car\x92\x05color\x05modelO\x90\x03red\x08corvette",
        b"C\x0bexample.Car\x91\x05color\x60\x03red",
        b"\x4a\x00\x00\x00\xd0\x4b\x92\x84\xb8",
        b"\x4b\x00\xe3\x83\x8f",
        // A list that contains itself.
        b"\x79Q\x90",
        // A type that was named before.
        b"\x7a\x70\x01t\x70\x90",
    ] {
        assert_eq!(value(bytes), Ok(Value::Other), "{bytes:02x?}");
        for end in 0..bytes.len() {
            assert!(value(&bytes[..end]).is_err(), "{end} of {bytes:02x?}");
        }
    }
    for (bytes, error) in [
        (&b"Q\x90"[..], HessianError::Reference),
        (b"\x60\x90", HessianError::Reference),
        (b"O\x8f", HessianError::Reference),
        (b"\x70\x90", HessianError::Reference),
        (b"X\x8f", HessianError::Length),
        (b"X\xd7\xff\xff", HessianError::Truncated),
        (b"Z", HessianError::Tag(b'Z')),
        (b"E", HessianError::Tag(b'E')),
        (b"H\x90Z", HessianError::Tag(b'Z')),
    ] {
        assert_eq!(value(bytes), Err(error), "{bytes:02x?}");
    }
}

#[test]
fn depth_and_classes_are_bounded() {
    let nested = |depth: usize| [&vec![0x79; depth][..], b"\x90"].concat();
    assert_eq!(value(&nested(64)), Ok(Value::Other));
    assert_eq!(value(&nested(65)), Err(HessianError::Depth));
    assert_eq!(value(&nested(1_000_000)), Err(HessianError::Depth));
    let classes = |count: usize| [b"C\x01c\x90".repeat(count), b"\x60".to_vec()].concat();
    assert_eq!(value(&classes(256)), Ok(Value::Other));
    assert_eq!(value(&classes(257)), Err(HessianError::Classes));
    let mut fields = b"C\x01cI\x00\x00\x10\x01".to_vec();
    fields.extend_from_slice(&[0; 0x1001]);
    assert_eq!(value(&fields), Err(HessianError::Classes));
}

fn answer(bytes: &[u8]) -> Result<Answer, AnswerError> {
    decode_answer(bytes, &LIMITS)
}

#[test]
fn a_map_is_an_answer() {
    let bytes = b"\x94H\x06status\x03200\x04bodyB\x00\x02hi\x01A\x01b\x01n\x91\x01tT\x01xNZ\x48Z";
    let found = answer(bytes).expect("a map");
    assert_eq!(found.status.as_deref(), Some("200"));
    let mut payload = bytes.to_vec();
    let Body::Binary(at) = found.body else {
        panic!("{:?}", found.body);
    };
    let at = join_binary(&mut payload, at).expect("it was found");
    assert_eq!(payload[at], *b"hi");
    let fields = [("A", "b"), ("n", "1"), ("t", "true")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(found.fields, fields);
    let number = answer(b"\x91H\x06Status\xc8\xc8\x04BODY\x02hiZ").expect("a map");
    assert_eq!(number.status.as_deref(), Some("200"));
    assert_eq!(number.body, Body::Text("hi".to_owned()));
    let typed = answer(b"\x91M\x11java.util.TreeMap\x06status\x03204Z").expect("a map");
    assert_eq!(
        (typed.status.as_deref(), typed.body),
        (Some("204"), Body::None)
    );
}

#[test]
fn what_is_no_answer_says_why() {
    let thrown = |class: &str, message: &str| {
        AnswerError::Thrown(Thrown {
            class: class.to_owned(),
            message: message.to_owned(),
        })
    };
    for (bytes, error) in [
        (&b"\x92"[..], AnswerError::Null),
        (b"\x95H", AnswerError::Null),
        (b"\x91N", AnswerError::Null),
        (b"\x97", AnswerError::Kind(7)),
        (b"\x91\x03map", AnswerError::NotAMap),
        (b"\x91H\x90\x90Z", AnswerError::NotAMap),
        (b"\x91H\x01aWZZ", AnswerError::Entry("a".to_owned())),
        (b"\x91H\x04bodyWZZ", AnswerError::Entry("body".to_owned())),
        (b"\x90\x04oops", thrown("", "oops")),
        (
            b"\x93C\x03a.B\x93\x05cause\x05stack\x0ddetailMessage\x60Q\x90WZ\x09no\n\tat a.b",
            thrown("a.B", "no"),
        ),
        // The message cannot be found, but an exception it is.
        (b"\x90C\x03a.B\x91\x05cause\x60", thrown("a.B", "")),
        (b"", AnswerError::Hessian(HessianError::Truncated)),
        (b"\x91H", AnswerError::Hessian(HessianError::Truncated)),
    ] {
        assert_eq!(answer(bytes), Err(error), "{bytes:02x?}");
    }
    let mut long = b"\x91H\x01aS\x03\xe8".to_vec();
    long.extend_from_slice(&[b'x'; 1000]);
    long.push(b'Z');
    assert_eq!(answer(&long), Err(AnswerError::TooBig));
    assert_eq!(decode_message(b"\x07a\nb\nc\nd"), "a");
    assert_eq!(decode_message(b"\x07a"), "a");
    assert_eq!(decode_message(b"N"), "");
}

#[test]
fn a_body_is_joined_in_place() {
    let mut random = Random(7);
    for _ in 0..300 {
        let (mut encoded, mut body) = (b"before".to_vec(), Vec::new());
        let start = encoded.len();
        for _ in 0..random.below(6) {
            let piece: Vec<u8> = (0..random.below(3000))
                .map(|_| random.next() as u8)
                .collect();
            encode_body_chunk(&mut encoded, piece.len());
            encoded.extend_from_slice(&piece);
            body.extend_from_slice(&piece);
        }
        encoded.push(0x20);
        let end = encoded.len();
        encoded.extend_from_slice(b"after");
        let at = join_binary(&mut encoded, start..end).expect("it is valid");
        assert_eq!(encoded[at], body);
        assert!(encoded.starts_with(b"before") && encoded.ends_with(b"after"));
    }
}

#[test]
fn a_call_is_what_java_would_send() {
    let target = Target {
        service: b"a.Service",
        version: b"1.0",
        method: b"m",
    };
    let mut out = Vec::new();
    encode_begin(&mut out, &target);
    encode_entry(&mut out, b"k", b"\xe4");
    encode_body_name(&mut out);
    encode_body_chunk(&mut out, 2);
    out.extend_from_slice(b"hi");
    encode_end(&mut out, true);
    let expected = b"\x052.0.2\x09a.Service\x031.0\x01m\x0fLjava/util/Map;\
        H\x01k\x01\xc3\xa4\x04bodyA\0\x02hi\x20ZN";
    assert_eq!(out, expected);
    let mut bytes = Vec::new();
    encode_bytes_entry(&mut bytes, b"body", b"");
    assert_eq!(bytes, b"\x04body\x20");
}

#[test]
fn whatever_comes_is_read_or_refused() {
    let words: &[&[u8]] = &[
        b"\x91",
        b"H",
        b"Z",
        b"\x06status\x03200",
        b"\x04bodyB\0\x02hi",
        b"C\x01c\x91\x01f\x60",
        b"Q\x90",
        b"W",
        b"\x79",
        b"A\0\x01x",
        b"R\0\x01x",
        b"\x72\x01t",
        b"N",
        b"M\x01t",
    ];
    let mut answers = 0;
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let mut input = b"\x91H\x06status\x03200".to_vec();
        for _ in 0..random.below(12) {
            input.extend_from_slice(words[random.below(words.len())]);
        }
        input.push(b'Z');
        let at = random.below(input.len());
        if random.below(3) == 0 {
            input[at] = random.next() as u8;
        }
        crate::fuzz::fuzz_dubbo(&input);
        answers += usize::from(answer(&input).is_ok());
    }
    assert!(answers > 100, "{answers}");
}
