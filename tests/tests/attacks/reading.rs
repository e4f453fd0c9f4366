//! How cases are written down. One line is one case:
//!
//! ```text
//! = RFC 9112 section 3.2: request target     every case below comes from here
//! > <case> HTTP/1.1\eHost: a.test\e\e         what is around it
//! 1 two slashes | GET //t                     requests, fate, name | bytes
//! ```
//!
//! The number says how many well-formed requests a strict reader of the RFC finds. `close`
//! behind it: nothing on this connection is answered after them. `bad`: behind them stands a
//! malformed one, which may have one answer before the connection ends; in HTTP/2, `stream`
//! says that the stream is malformed, and the connection may go on.
//!
//! `\e` is CR LF; `\r`, `\n`, `\t`, `\0`, `\xHH`, `\s` (a blank) and `\\` are one byte, and
//! `{text*N}` is the text N times.

/// Where the bytes of a case go in what is around them.
const PLACE: &str = "<case>";

/// What may come behind the requests of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Another request may be answered.
    Open,
    /// Nothing is answered any more.
    Close,
    /// One more answer, which refuses, and then nothing.
    Bad,
    /// HTTP/2: the stream is refused.
    Stream,
}

/// One case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Unique within its protocol.
    pub(crate) name: String,
    /// The RFC's section or the class of attacks.
    pub(crate) source: String,
    /// Well-formed requests.
    pub(crate) requests: usize,
    pub(crate) fate: Fate,
    /// HTTP/1: the bytes. HTTP/2: the text behind the bar, with its template.
    pub(crate) text: String,
}

/// Reads a file of cases.
pub(crate) fn read(file: &str, content: &str) -> Vec<Case> {
    let (mut source, mut template) = (String::new(), PLACE.to_owned());
    let mut cases = Vec::new();
    for (number, line) in content.lines().enumerate() {
        let place = || format!("{file}, line {}: {line:?}", number + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(text) = line.strip_prefix("= ") {
            source = text.to_owned();
            template = PLACE.to_owned();
            continue;
        }
        if let Some(text) = line.strip_prefix("> ") {
            template = text.to_owned();
            assert!(template.contains(PLACE), "no {PLACE} in {}", place());
            continue;
        }
        let (what, own) = line
            .split_once(" | ")
            .unwrap_or_else(|| panic!("no bar in {}", place()));
        let (requests, name) = what
            .split_once(' ')
            .unwrap_or_else(|| panic!("no name in {}", place()));
        let (fate, name) = match name.split_once(' ') {
            Some(("close", name)) => (Fate::Close, name),
            Some(("bad", name)) => (Fate::Bad, name),
            Some(("stream", name)) => (Fate::Stream, name),
            _ => (Fate::Open, name),
        };
        cases.push(Case {
            name: name.trim().to_owned(),
            source: source.clone(),
            requests: requests
                .parse()
                .unwrap_or_else(|_| panic!("no number in {}", place())),
            fate,
            text: template.replacen(PLACE, own, 1),
        });
    }
    cases
}

/// The bytes that a text stands for.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '\\' => {
                let escape = rest.chars().next().expect("something behind a backslash");
                rest = &rest[1..];
                match escape {
                    'e' => out.extend_from_slice(b"\r\n"),
                    'r' => out.push(b'\r'),
                    'n' => out.push(b'\n'),
                    't' => out.push(b'\t'),
                    's' => out.push(b' '),
                    '0' => out.push(0),
                    'x' => {
                        let byte = u8::from_str_radix(&rest[..2], 16);
                        out.push(byte.unwrap_or_else(|_| panic!("no byte in {text:?}")));
                        rest = &rest[2..];
                    }
                    '\\' | '{' | '}' => out.push(escape as u8),
                    other => panic!("an unknown escape {other:?} in {text:?}"),
                }
            }
            '{' => {
                let (inner, behind) = rest.split_once('}').expect("braces are closed");
                let (inner, count) = inner.rsplit_once('*').expect("a count in braces");
                let count: usize = count.parse().expect("the count is a number");
                out.extend(bytes(inner).repeat(count));
                rest = behind;
            }
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

#[test]
fn texts_stand_for_bytes() {
    assert_eq!(bytes(r"a\eb\s\0\xff\\{x\t*3}"), b"a\r\nb \0\xff\\x\tx\tx\t");
    let cases = read(
        "here",
        "# a word\n= RFC 1\n> <case> HTTP/1.1\\e\\e\n1 bad two words | GET /\n0 one | x\n",
    );
    assert_eq!(cases[0].name, "two words");
    assert_eq!((cases[0].requests, cases[0].fate), (1, Fate::Bad));
    assert_eq!(cases[0].text, "GET / HTTP/1.1\\e\\e");
    assert_eq!(
        (cases[1].source.as_str(), cases[1].fate),
        ("RFC 1", Fate::Open)
    );
}
