//! What applications send, in every fragmentation.

use super::*;

const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const END: u8 = 3;

fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut record = vec![1, kind, 0, 1, high, low, padding, 0];
    record.extend_from_slice(content);
    record.resize(record.len() + usize::from(padding), 0);
    record
}

fn end() -> Vec<u8> {
    record(END, &[0; 8], 0)
}

/// What came of a response.
#[derive(Debug, PartialEq, Eq)]
struct FastCgiResult {
    status: u16,
    body: Vec<u8>,
    remarks: Vec<String>,
    /// Reusable and what is complained about; or why it failed.
    end: Result<(bool, Option<&'static str>), String>,
}

struct Given {
    method: Method,
    keep_conn: bool,
    /// The connection closes behind the bytes.
    closes: bool,
    catches: &'static [&'static str],
}

impl Default for Given {
    fn default() -> Given {
        Given {
            method: Method::Get,
            keep_conn: false,
            closes: false,
            catches: &[],
        }
    }
}

/// The outcome, the same however the bytes are cut; `None` while more must come.
fn outcome(given: &Given, bytes: &[u8]) -> Option<FastCgiResult> {
    let whole = in_pieces(given, bytes, bytes.len());
    for size in 1..bytes.len().min(40) {
        assert_eq!(in_pieces(given, bytes, size), whole, "pieces of {size}");
    }
    whole
}

fn in_pieces(given: &Given, bytes: &[u8], size: usize) -> Option<FastCgiResult> {
    let catches = given.catches.iter().map(|word| word.as_bytes().into());
    let mut wire = FastCgi::new(given.method, 100, given.keep_conn, catches.collect());
    let mut found = FastCgiResult {
        status: 0,
        body: Vec::new(),
        remarks: Vec::new(),
        end: Err("nothing".to_owned()),
    };
    let mut input = Vec::new();
    let mut pieces = bytes.chunks(size.max(1)).peekable();
    loop {
        let is_last = pieces.peek().is_none();
        let event = wire.next_event(&mut input, is_last && given.closes);
        found.remarks.extend(wire.take_remarks());
        match event {
            Ok(Some(WireEvent::Head(head))) => {
                assert_eq!(found.status, 0, "one head");
                found.status = head.parsed.status.0;
                assert!(head.buffer.ends_with(b"\n"), "nothing but the head");
            }
            Ok(Some(WireEvent::Data(piece))) => {
                assert!(!piece.is_empty());
                found.body.extend_from_slice(&piece);
            }
            // An answer to HEAD ends with what there is: give it all at once.
            Ok(Some(WireEvent::End(ending))) => {
                found.end = Ok((ending.reusable, ending.complaint));
                return Some(found);
            }
            Ok(None) => input.extend_from_slice(pieces.next()?),
            Err(error) => {
                found.end = Err(match error {
                    WireError::Invalid(text) => text,
                    WireError::ClosedEarly => "closed".to_owned(),
                    WireError::Unprocessed(text) => panic!("FastCGI cannot say so: {text}"),
                });
                return Some(found);
            }
        }
    }
}

#[test]
fn a_response_and_its_end() {
    let response = |padding| {
        let parts = [
            record(STDOUT, b"Status: 201 Made\r\nContent-", padding),
            record(STDERR, b"PHP message: a \"warning\".\n", 3),
            record(STDOUT, b"Type: text/plain\r\n\r\nHello", padding),
            record(STDERR, b"b\xff\n\n", 0),
            record(STDOUT, b", world", padding),
        ];
        parts.concat()
    };
    let expected = |end| FastCgiResult {
        status: 201,
        body: b"Hello, world".to_vec(),
        remarks: vec![
            "FastCGI sent in stderr: \"PHP message: a \"warning\"\"".to_owned(),
            "FastCGI sent in stderr: \"b\u{fffd}\"".to_owned(),
        ],
        end,
    };
    for padding in [0, 1, 7, 255] {
        let bytes = response(padding);
        assert_eq!(outcome(&Given::default(), &bytes), None, "no end yet");
        let ended = [&bytes[..], &end()].concat();
        assert_eq!(
            outcome(&Given::default(), &ended),
            Some(expected(Ok((false, None))))
        );
        // The end of the output is not the end of the request, but the connection's is.
        let stdout_ended = [&bytes[..], &record(STDOUT, b"", 0)].concat();
        assert_eq!(outcome(&Given::default(), &stdout_ended), None);
        let kept = Given {
            keep_conn: true,
            ..Given::default()
        };
        assert_eq!(outcome(&kept, &stdout_ended), None);
        for ending in [end(), record(END, &[0; 8], 8), record(END, b"", 0)] {
            let ended = [&stdout_ended[..], &ending].concat();
            assert_eq!(outcome(&kept, &ended), Some(expected(Ok((true, None)))));
        }
        // Padding that does not come, or what nobody asked for: not again.
        let short = record(END, &[0; 8], 8);
        let cut = [&bytes[..], &short[..short.len() - 1]].concat();
        assert_eq!(outcome(&kept, &cut), None);
    }
    let kept = Given {
        keep_conn: true,
        ..Given::default()
    };
    let more = [&response(0)[..], &end(), b"\x01"].concat();
    let whole = in_pieces(&kept, &more, more.len()).expect("complete");
    assert_eq!(whole.end, Ok((false, None)));
}

#[test]
fn lengths() {
    let with = |method, length: &str, body: &[u8], rest: &[u8]| {
        let head = format!("Content-Length: {length}\n\n");
        let bytes = [
            record(STDOUT, &[head.as_bytes(), body].concat(), 0),
            rest.to_vec(),
        ]
        .concat();
        let given = Given {
            method,
            keep_conn: true,
            closes: true,
            ..Given::default()
        };
        let found = outcome(&given, &bytes).expect("complete");
        (found.body, found.end)
    };
    let surplus = Some("upstream sent more data than specified in \"Content-Length\" header");
    let ended = end();
    let get = |length, body, rest: &[u8]| with(Method::Get, length, body, rest);
    assert_eq!(get("5", b"12345", &end()).0, b"12345");
    assert_eq!(
        get("3", b"12345", &ended),
        (b"123".to_vec(), Ok((false, surplus)))
    );
    assert_eq!(get("0", b"1", &ended), (Vec::new(), Ok((false, surplus))));
    let closed_request = Err("upstream prematurely closed FastCGI request".to_owned());
    assert_eq!(
        get("9", b"12345", &ended),
        (b"12345".to_vec(), closed_request)
    );
    let closed_stdout = Err("upstream prematurely closed FastCGI stdout".to_owned());
    let stdout_end = record(STDOUT, b"", 0);
    assert_eq!(get("9", b"1", &stdout_end), (b"1".to_vec(), closed_stdout));
    assert_eq!(
        get("9", b"1", b""),
        (b"1".to_vec(), Err("closed".to_owned()))
    );
    assert_eq!(get("1", b"1", b""), (b"1".to_vec(), Ok((false, None))));
}

#[test]
fn answers_without_body_end_with_their_head() {
    let head = record(STDOUT, b"Content-Length: 5\n\nhello and more", 0);
    let given = |method, keep_conn| Given {
        method,
        keep_conn,
        ..Given::default()
    };
    let found = in_pieces(&given(Method::Head, true), &head, head.len()).expect("complete");
    assert_eq!((&found.body[..], found.end), (&b""[..], Ok((false, None))));
    // One that came as a whole leaves the connection usable.
    let whole = [&head[..], &end()].concat();
    let found = in_pieces(&given(Method::Head, true), &whole, whole.len()).expect("complete");
    assert_eq!((&found.body[..], found.end), (&b""[..], Ok((true, None))));
    let status = record(STDOUT, b"Status: 304\n\nbody", 0);
    let found = outcome(&given(Method::Get, false), &status).expect("complete");
    assert_eq!((found.status, &found.body[..]), (304, &b""[..]));
}

#[test]
fn what_is_no_response() {
    let error = |given: &Given, bytes: &[u8]| {
        let found = outcome(given, bytes).expect("an error");
        found.end.expect_err("an error")
    };
    let error_of = |bytes: &[u8]| error(&Given::default(), bytes);
    for (bytes, expected) in [
        (
            b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            "upstream sent unsupported FastCGI protocol version: 72",
        ),
        (
            record(11, b"what?", 0),
            "upstream sent invalid FastCGI record type: 11",
        ),
        (end(), "upstream sent unexpected FastCGI record: 3"),
        (
            record(STDOUT, b"", 0),
            "upstream prematurely closed FastCGI stdout",
        ),
        (
            record(STDOUT, b"Status: 103 Early Hints\n\n", 0),
            "upstream sent invalid status \"103\"",
        ),
        (
            record(STDOUT, &[b'a'; 200], 0),
            "upstream sent too big header",
        ),
        (
            record(STDOUT, b"A\x01: b\n\n", 0),
            "upstream sent invalid header: \"A\\x01...\"",
        ),
    ] {
        assert_eq!(error_of(&bytes), expected);
    }
    let closes = Given {
        closes: true,
        ..Given::default()
    };
    let half = record(STDOUT, b"A: b\n", 0);
    assert_eq!(error(&closes, &half), "closed");
    let unended = record(STDOUT, b"A: b\n\nbody", 0);
    assert_eq!(error(&closes, &unended), "closed");
}

#[test]
fn texts_are_caught_before_the_head() {
    let given = Given {
        catches: &["PHP Fatal", "oops"],
        ..Given::default()
    };
    let head = record(STDOUT, b"A: b\n\nx", 0);
    let fatal = record(STDERR, b"PHP message: PHP Fatal error", 0);
    let caught = [&fatal[..], &head].concat();
    for size in 1..caught.len() {
        let found = in_pieces(&given, &caught, size).expect("caught at once");
        assert_eq!((found.status, found.remarks.len()), (0, 1));
        found.end.expect_err("caught");
    }
    // However long the text before it is.
    let long = record(STDERR, &[&[b'.'; 5000][..], b"oops", b"x"].concat(), 0);
    let found = in_pieces(&given, &long, long.len()).expect("caught at once");
    found.end.expect_err("caught");
    let later = [&head[..], &fatal, &end()].concat();
    let found = outcome(&given, &later).expect("complete");
    assert_eq!((found.remarks.len(), found.end), (1, Ok((false, None))));
}

#[test]
fn a_flood_of_error_text_is_bounded() {
    let given = Given::default();
    let line = record(STDERR, &[b'x'; 4000], 0);
    let found = in_pieces(&given, &line.repeat(100), usize::MAX);
    assert_eq!(found, None, "no end");
    let mut wire = FastCgi::new(Method::Get, 100, false, Vec::new());
    let mut input = line.repeat(100);
    assert!(matches!(wire.next_event(&mut input, false), Ok(None)));
    let remarks = wire.take_remarks();
    let bytes: usize = remarks.iter().map(String::len).sum();
    assert!(bytes < 2 * MAX_REMARK_BYTES, "{bytes}");
    let last = remarks.last().expect("some");
    assert_eq!(
        last,
        "FastCGI sent 139264 more bytes in stderr than are logged at once"
    );
    assert!(wire.take_remarks().is_empty());
}

#[test]
fn a_body_in_records() {
    let mut wire = FastCgi::new(Method::Post, 100, false, Vec::new());
    let body: Vec<u8> = (0..100_003_u32).map(|n| n as u8).collect();
    let mut out = OutputChain::new();
    wire.frame_body(Segment::Memory(Bytes::from(body.clone())), &mut out);
    wire.frame_body(Segment::Memory(Bytes::new()), &mut out);
    wire.end_body(&mut out);
    let mut bytes = Vec::new();
    for segment in out.segments() {
        match segment {
            Segment::Memory(piece) => bytes.extend_from_slice(piece),
            Segment::File(_) => panic!("there was no file"),
        }
    }
    let mut found = Vec::new();
    let mut ends = 0;
    let mut rest = &bytes[..];
    while let [1, 5, 0, 1, high, low, padding, 0, more @ ..] = rest {
        let content = usize::from(u16::from_be_bytes([*high, *low]));
        found.extend_from_slice(&more[..content]);
        ends += usize::from(content == 0);
        rest = &more[content + usize::from(*padding)..];
    }
    assert!(rest.is_empty() && ends == 1 && found == body);
}
