//! Requests by HTTP/1 that two servers could understand differently.

/// What is to arrive at the origin. `/t` stands for a target of the case's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant {
    /// No request. The connection ends: what follows has no beginning that is sure.
    Nothing,
    /// These requests; then the connection ends.
    Only(Vec<&'static str>),
    /// These requests, and what follows them on the connection.
    All(Vec<&'static str>),
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) meant: Meant,
}

use Meant::{All, Nothing, Only};

/// A request with these header lines and this body.
fn post(lines: &str, body: &str) -> Vec<u8> {
    format!("POST /t HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n{body}").into_bytes()
}

/// Hidden in a body for whoever looks for chunks.
const HIDDEN: &str = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
const HIDDEN_TEXT: &str =
    "POST /t 0\\r\\n\\r\\nGET /smuggled HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n";

/// `Transfer-Encoding` in every disguise, beside a `Content-Length`.
const CODINGS: &[(&str, &str, bool)] = &[
    ("coding", "Transfer-Encoding: chunked", false),
    ("coding in capitals", "TRANSFER-ENCODING: CHUNKED", false),
    ("coding without a blank", "Transfer-Encoding:chunked", false),
    ("coding behind a tab", "Transfer-Encoding:\tchunked", false),
    (
        "coding before a blank",
        "Transfer-Encoding: chunked ",
        false,
    ),
    (
        "coding, blank before the colon",
        "Transfer-Encoding : chunked",
        false,
    ),
    (
        "coding, tab before the colon",
        "Transfer-Encoding\t: chunked",
        false,
    ),
    (
        "coding, blank before the name",
        " Transfer-Encoding: chunked",
        false,
    ),
    (
        "coding folded into another",
        "X: y\r\n Transfer-Encoding: chunked",
        false,
    ),
    ("coding folded", "Transfer-Encoding:\r\n chunked", false),
    (
        "coding folded by a tab",
        "Transfer-Encoding:\r\n\tchunked",
        false,
    ),
    ("coding xchunked", "Transfer-Encoding: xchunked", false),
    (
        "coding chunked, identity",
        "Transfer-Encoding: chunked, identity",
        false,
    ),
    (
        "coding identity, chunked",
        "Transfer-Encoding: identity, chunked",
        false,
    ),
    ("coding identity", "Transfer-Encoding: identity", false),
    (
        "coding twice, x last",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
        false,
    ),
    (
        "coding twice, x first",
        "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
        false,
    ),
    (
        "coding twice the same",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        false,
    ),
    (
        "coding in double quotes",
        "Transfer-Encoding: \"chunked\"",
        false,
    ),
    (
        "coding in single quotes",
        "Transfer-Encoding: 'chunked'",
        false,
    ),
    (
        "coding with a parameter",
        "Transfer-Encoding: chunked;q=1",
        false,
    ),
    ("coding empty", "Transfer-Encoding:", false),
    (
        "coding behind a vertical tab",
        "Transfer-Encoding: \x0bchunked",
        false,
    ),
    (
        "coding behind a form feed",
        "Transfer-Encoding: \x0cchunked",
        false,
    ),
    ("coding behind NUL", "Transfer-Encoding: \0chunked", false),
    ("coding before NUL", "Transfer-Encoding: chunked\0", false),
    (
        "coding name before NUL",
        "Transfer-Encoding\0: chunked",
        false,
    ),
    (
        "coding before a CR",
        "Transfer-Encoding: chunked\rX: y",
        false,
    ),
    (
        "coding behind a CR",
        "X: y\rTransfer-Encoding: chunked",
        false,
    ),
    (
        "coding behind an LF",
        "X: y\nTransfer-Encoding: chunked",
        false,
    ),
    (
        "coding behind LF CR",
        "X: y\n\rTransfer-Encoding: chunked",
        false,
    ),
    (
        "coding behind CR CR LF",
        "X: y\r\r\nTransfer-Encoding: chunked",
        false,
    ),
    (
        "coding, then another length",
        "Transfer-Encoding: chunked\r\nContent-Length: 3",
        false,
    ),
    (
        "coding named in Connection",
        "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
        false,
    ),
    (
        "coding with a Kelvin sign",
        "Transfer-Encoding: chun\u{212a}ed",
        false,
    ),
    ("coding without a colon", "Transfer-Encoding chunked", false),
    (
        "coding behind a colon",
        ":Transfer-Encoding: chunked",
        false,
    ),
    // Other names: the length alone counts.
    (
        "name with an underscore",
        "Transfer_Encoding: chunked",
        true,
    ),
    ("name with an s", "Transfer-Encodings: chunked", true),
    ("name behind X-", "X-Transfer-Encoding: chunked", true),
    (
        "name before a no-break space",
        "Transfer-Encoding\u{a0}: chunked",
        true,
    ),
    (
        "name behind an at sign",
        "@Transfer-Encoding: chunked",
        true,
    ),
    (
        "name behind a byte order mark",
        "\u{feff}Transfer-Encoding: chunked",
        true,
    ),
    (
        "length named in Connection",
        "Connection: Content-Length",
        true,
    ),
    (
        "upgrade to h2c",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
        true,
    ),
    (
        "upgrade to a WebSocket",
        "Connection: Upgrade\r\nUpgrade: websocket",
        true,
    ),
];

/// Lengths of the body `hello`.
const LENGTHS: &[(&str, &str, bool)] = &[
    ("length", "Content-Length: 5", true),
    ("length with a zero before", "Content-Length: 05", true),
    ("length before a blank", "Content-Length: 5 ", true),
    ("length without a blank", "Content-Length:5", true),
    ("lengths", "Content-Length: 5\r\nContent-Length: 0", false),
    (
        "length twice",
        "Content-Length: 5\r\nContent-Length: 5",
        false,
    ),
    ("length list", "Content-Length: 5, 5", false),
    ("length list of two", "Content-Length: 5, 0", false),
    ("length plus", "Content-Length: +5", false),
    ("length minus", "Content-Length: -5", false),
    ("length hexadecimal", "Content-Length: 0x5", false),
    ("length with an exponent", "Content-Length: 5e0", false),
    ("length with a point", "Content-Length: 5.0", false),
    ("length with a blank inside", "Content-Length: 5 0", false),
    ("length with a semicolon", "Content-Length: 5;", false),
    ("length in quotes", "Content-Length: \"5\"", false),
    ("length empty", "Content-Length:", false),
    ("length in Arabic digits", "Content-Length: \u{665}", false),
    (
        "length past 64 bits",
        "Content-Length: 18446744073709551621",
        false,
    ),
    (
        "length past 63 bits",
        "Content-Length: 9223372036854775808",
        false,
    ),
    ("length before NUL", "Content-Length: 5\0", false),
    (
        "length, blank before the colon",
        "Content-Length : 5",
        false,
    ),
    ("length folded", "Content-Length:\r\n 5", false),
    ("length folded on", "Content-Length: 5\r\n 0", false),
    ("length behind a CR", "X: y\rContent-Length: 5", false),
    ("length name cut by a CR", "Content-\rLength: 5", false),
];

/// Bodies in chunks.
const CHUNKS: &[(&str, &str, Option<&str>)] = &[
    ("chunk", "5\r\nhello\r\n0\r\n\r\n", Some("POST /t hello")),
    (
        "chunk with zeros before",
        "0005\r\nhello\r\n0\r\n\r\n",
        Some("POST /t hello"),
    ),
    (
        "chunk in capitals",
        "A\r\nhellohello\r\n0\r\n\r\n",
        Some("POST /t hellohello"),
    ),
    (
        "chunk with an extension",
        "5;a=b\r\nhello\r\n0\r\n\r\n",
        Some("POST /t hello"),
    ),
    (
        "chunk with a quoted extension",
        "5;a=\"0 b\"\r\nhello\r\n0\r\n\r\n",
        Some("POST /t hello"),
    ),
    (
        "chunk before a blank",
        "5 \r\nhello\r\n0\r\n\r\n",
        Some("POST /t hello"),
    ),
    (
        "chunks",
        "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        Some("POST /t hello"),
    ),
    ("chunk none", "0\r\n\r\n", Some("POST /t")),
    ("chunk none with zeros", "0000\r\n\r\n", Some("POST /t")),
    (
        "chunk none with an extension",
        "0;x\r\n\r\n",
        Some("POST /t"),
    ),
    ("trailer", "0\r\nX-Smuggled: 1\r\n\r\n", Some("POST /t")),
    (
        "trailer with a length",
        "0\r\nContent-Length: 30\r\n\r\n",
        Some("POST /t"),
    ),
    (
        "trailer with a coding",
        "0\r\nTransfer-Encoding: chunked\r\n\r\n",
        Some("POST /t"),
    ),
    (
        "trailer with a host",
        "0\r\nHost: evil\r\n\r\n",
        Some("POST /t"),
    ),
    (
        "chunk that looks like a request",
        "2a\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n0\r\n\r\n",
        None,
    ),
    (
        "chunk holding a request",
        "2b\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n0\r\n\r\n",
        Some("POST /t GET /smuggled HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"),
    ),
    ("chunk plus", "+5\r\nhello\r\n0\r\n\r\n", None),
    ("chunk minus", "-5\r\nhello\r\n0\r\n\r\n", None),
    ("chunk 0x", "0x5\r\nhello\r\n0\r\n\r\n", None),
    ("chunk behind a blank", " 5\r\nhello\r\n0\r\n\r\n", None),
    ("chunk line end LF", "5\nhello\r\n0\r\n\r\n", None),
    ("chunk line end CR", "5\rhello\r\n0\r\n\r\n", None),
    ("chunk line end CR CR LF", "5\r\r\nhello\r\n0\r\n\r\n", None),
    ("chunk end LF", "5\r\nhello\n0\r\n\r\n", None),
    ("chunk end none", "5\r\nhello0\r\n\r\n", None),
    ("chunk longer than said", "5\r\nhelloX\r\n0\r\n\r\n", None),
    ("chunk extension with LF", "5;a\nhello\r\n0\r\n\r\n", None),
    (
        "chunk extension with CR",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    (
        "chunk extension with NUL",
        "5;a\0\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    (
        "chunk past 64 bits",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    (
        "chunk of 64 bits",
        "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    ("chunk size empty", "\r\nhello\r\n0\r\n\r\n", None),
    ("chunk size in words", "five\r\nhello\r\n0\r\n\r\n", None),
    (
        "chunk size with an underscore",
        "0_5\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    (
        "chunk behind an empty line",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        None,
    ),
    ("last chunk LF", "5\r\nhello\r\n0\n\n", None),
    ("last chunk CR LF, LF", "5\r\nhello\r\n0\r\n\n", None),
    ("trailer with NUL", "0\r\nX: \0\r\n\r\n", None),
    ("trailer with a bare CR", "0\r\nX: a\rb\r\n\r\n", None),
    ("trailer line end LF", "0\r\nX: a\n\r\n", None),
];

/// Whole requests.
fn others() -> Vec<Case> {
    let case = |name, text: &str, meant| Case {
        name,
        bytes: text.as_bytes().to_vec(),
        meant,
    };
    let get = || All(vec!["GET /t"]);
    let host = "Host: localhost\r\n";
    vec![
        case(
            "request",
            "GET /t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            get(),
        ),
        case(
            "line ends LF",
            "GET /t HTTP/1.1\nHost: localhost\n\n",
            get(),
        ),
        case(
            "line end LF at the end",
            "GET /t HTTP/1.1\r\nHost: localhost\r\n\n",
            get(),
        ),
        case(
            "line end CR CR LF at the end",
            "GET /t HTTP/1.1\r\nHost: localhost\r\n\r\r\n",
            Nothing,
        ),
        case(
            "empty line first",
            "\r\nGET /t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            get(),
        ),
        case(
            "blank first",
            " GET /t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "two blanks",
            "GET  /t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            get(),
        ),
        case(
            "tab",
            "GET\t/t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "blank in the target",
            "GET /t /u HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "blank behind the version",
            "GET /t HTTP/1.1 \r\nHost: localhost\r\n\r\n",
            get(),
        ),
        case(
            "NUL in the target",
            "GET /t\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "CR in the target",
            "GET /t\rX HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "CR LF in the target, escaped",
            "GET /t%0d%0aX-Smuggled:%201 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            All(vec!["GET /t%0d%0aX-Smuggled:%201"]),
        ),
        case(
            "request in the target, escaped",
            "GET /t%20HTTP/1.1%0d%0aX-Smuggled:1%0d%0a%0d%0a HTTP/1.1\r\nHost: localhost\r\n\r\n",
            All(vec!["GET /t%20HTTP/1.1%0d%0aX-Smuggled:1%0d%0a%0d%0a"]),
        ),
        case(
            "HTTP/0.9",
            "GET /t\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Only(vec!["GET /t"]),
        ),
        case(
            "HTTP/1.0",
            "GET /t HTTP/1.0\r\nHost: localhost\r\n\r\n",
            Only(vec!["GET /t"]),
        ),
        case(
            "HTTP/1.0 in chunks",
            "POST /t HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Nothing,
        ),
        case(
            "HTTP/1.2",
            "GET /t HTTP/1.2\r\nHost: localhost\r\n\r\n",
            get(),
        ),
        case(
            "HTTP/2.0",
            "GET /t HTTP/2.0\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "HTTP/1.10",
            "GET /t HTTP/1.10\r\nHost: localhost\r\n\r\n",
            get(),
        ),
        case(
            "http/1.1",
            "GET /t http/1.1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "method in small letters",
            "get /t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "method with a colon",
            "GE:T /t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "absolute target",
            "GET http://localhost/t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            get(),
        ),
        case(
            "absolute target, other host",
            "GET http://other/t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            get(),
        ),
        case(
            "absolute target with CR LF",
            "GET http://other\r\nX-Smuggled: 1/t HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Only(vec!["GET /"]),
        ),
        case(
            "CONNECT",
            "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "host twice",
            &format!("GET /t HTTP/1.1\r\n{host}{host}\r\n"),
            Nothing,
        ),
        case("host none", "GET /t HTTP/1.1\r\n\r\n", Nothing),
        case(
            "host with a blank",
            "GET /t HTTP/1.1\r\nHost: local host\r\n\r\n",
            Nothing,
        ),
        case(
            "host folded",
            "GET /t HTTP/1.1\r\nHost: localhost\r\n evil\r\n\r\n",
            Nothing,
        ),
        case(
            "host with a path",
            "GET /t HTTP/1.1\r\nHost: localhost/smuggled\r\n\r\n",
            Nothing,
        ),
        case(
            "header without a name",
            &format!("GET /t HTTP/1.1\r\n{host}: x\r\n\r\n"),
            Nothing,
        ),
        case(
            "header without a colon",
            &format!("GET /t HTTP/1.1\r\n{host}X\r\n\r\n"),
            Nothing,
        ),
        case(
            "header with a CR",
            &format!("GET /t HTTP/1.1\r\n{host}X: a\rX-Smuggled: 1\r\n\r\n"),
            Nothing,
        ),
        case(
            "header with NUL",
            &format!("GET /t HTTP/1.1\r\n{host}X: a\0b\r\n\r\n"),
            Nothing,
        ),
        case(
            "header folded",
            &format!("GET /t HTTP/1.1\r\n{host}X: a\r\n X-Smuggled: 1\r\n\r\n"),
            Nothing,
        ),
        case(
            "header folded first",
            "GET /t HTTP/1.1\r\n X-Smuggled: 1\r\nHost: localhost\r\n\r\n",
            Nothing,
        ),
        case(
            "pipelined",
            &format!("GET /t HTTP/1.1\r\n{host}\r\nGET /t HTTP/1.1\r\n{host}\r\n"),
            All(vec!["GET /t", "GET /t"]),
        ),
        case(
            "pipelined behind a body",
            &format!(
                "POST /t HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\nhelloGET /t HTTP/1.1\r\n{host}\r\n"
            ),
            All(vec!["POST /t hello", "GET /t"]),
        ),
        case(
            "pipelined before garbage",
            &format!("GET /t HTTP/1.1\r\n{host}\r\n\0\0\0\r\n\r\n"),
            Only(vec!["GET /t"]),
        ),
        case(
            "body of a GET",
            &format!("GET /t HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\nhello"),
            All(vec!["GET /t hello"]),
        ),
        case(
            "body of a HEAD",
            &format!("HEAD /t HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\nhello"),
            All(vec!["HEAD /t hello"]),
        ),
        case(
            "body that a length does not cover",
            &format!("POST /t HTTP/1.1\r\n{host}Content-Length: 2\r\n\r\nhe\0\0"),
            Only(vec!["POST /t he"]),
        ),
        case(
            "body without a length",
            &format!("POST /t HTTP/1.1\r\n{host}\r\nhello"),
            Only(vec!["POST /t"]),
        ),
        case(
            "expecting 100",
            &format!(
                "POST /t HTTP/1.1\r\n{host}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"
            ),
            All(vec!["POST /t hello"]),
        ),
        case(
            "expecting something else",
            &format!("POST /t HTTP/1.1\r\n{host}Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello"),
            All(vec!["POST /t hello"]),
        ),
        case(
            "length with an underscore",
            &format!("POST /t HTTP/1.1\r\n{host}Content_Length: 5\r\n\r\nhello"),
            Only(vec!["POST /t"]),
        ),
    ]
}

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = others();
    for (name, line, passes) in CODINGS {
        let length = HIDDEN.len();
        cases.push(Case {
            name,
            bytes: post(&format!("Content-Length: {length}\r\n{line}"), HIDDEN),
            meant: if *passes {
                All(vec![HIDDEN_TEXT])
            } else {
                Nothing
            },
        });
    }
    cases.push(Case {
        name: "chunk extension with a quoted CR LF",
        bytes: post(
            "Transfer-Encoding: chunked",
            "5;a=\"\r\nhello\r\n0\r\n\r\n\"\r\n\0",
        ),
        // The quote ends nothing, so the line ends where it ends; what follows is garbage.
        meant: Only(vec!["POST /t hello"]),
    });
    // The other way round: the length hides what the chunks hold.
    for (name, line) in [
        (
            "length, then coding",
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
        ),
        (
            "coding, then length",
            "Transfer-Encoding: chunked\r\nContent-Length: 4",
        ),
        (
            "coding, then length 0",
            "Transfer-Encoding: chunked\r\nContent-Length: 0",
        ),
        (
            "coding in two lines, then length",
            "Transfer-Encoding:\r\n chunked\r\nContent-Length: 4",
        ),
    ] {
        let body = "2b\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n0\r\n\r\n";
        cases.push(Case {
            name,
            bytes: post(line, body),
            meant: Nothing,
        });
    }
    for (name, line, passes) in LENGTHS {
        cases.push(Case {
            name,
            bytes: post(line, "hello"),
            meant: if *passes {
                All(vec!["POST /t hello"])
            } else {
                Nothing
            },
        });
    }
    for (name, body, meant) in CHUNKS {
        cases.push(Case {
            name,
            bytes: post("Transfer-Encoding: chunked", body),
            meant: meant.map_or(Nothing, |meant| All(vec![meant])),
        });
    }
    cases
}
