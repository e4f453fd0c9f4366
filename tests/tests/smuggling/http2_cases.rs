//! Requests by HTTP/2 that would be others by HTTP/1.

pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The fields of the head, pseudo-headers included.
    pub(crate) fields: Vec<(&'static str, &'static str)>,
    /// DATA frames; the last one ends the stream unless trailers follow.
    pub(crate) data: Vec<&'static str>,
    pub(crate) trailers: Option<Vec<(&'static str, &'static str)>>,
    /// What is to arrive at the origin.
    pub(crate) meant: Vec<&'static str>,
}

const METHOD: (&str, &str) = (":method", "POST");
const SCHEME: (&str, &str) = (":scheme", "http");
const PATH: (&str, &str) = (":path", "/t");
const AUTHORITY: (&str, &str) = (":authority", "localhost");
const HEAD: [(&str, &str); 4] = [METHOD, SCHEME, PATH, AUTHORITY];

fn with(name: &'static str, fields: &[(&'static str, &'static str)]) -> Case {
    Case {
        name,
        fields: [&HEAD, fields].concat(),
        data: Vec::new(),
        trailers: None,
        meant: Vec::new(),
    }
}

fn whole(name: &'static str, fields: &[(&'static str, &'static str)]) -> Case {
    Case {
        fields: fields.to_vec(),
        ..with(name, &[])
    }
}

impl Case {
    fn data(mut self, data: &[&'static str]) -> Case {
        self.data = data.to_vec();
        self
    }

    fn trailers(mut self, trailers: &[(&'static str, &'static str)]) -> Case {
        self.trailers = Some(trailers.to_vec());
        self
    }

    fn passes(mut self, meant: &'static str) -> Case {
        self.meant = vec![meant];
        self
    }
}

const REQUEST: &str = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
const REQUEST_TEXT: &str = "POST /t GET /smuggled HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n";

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = values();
    cases.extend(lengths());
    cases.extend(pseudo_headers());
    cases.extend(trailers());
    cases
}

fn values() -> Vec<Case> {
    vec![
        with("request", &[]).passes("POST /t"),
        with("value with CR LF", &[("x", "a\r\nX-Smuggled: 1")]),
        with("value with LF", &[("x", "a\nX-Smuggled: 1")]),
        with("value with CR", &[("x", "a\rX-Smuggled: 1")]),
        with("value with NUL", &[("x", "a\0b")]),
        with(
            "value with a whole request",
            &[(
                "x",
                "a\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
            )],
        ),
        with("value with a folded line", &[("x", "a\r\n X-Smuggled: 1")]),
        with("value before CR LF", &[("x", "a\r\n")]),
        with(
            "upgrade to h2c",
            &[("upgrade", "h2c"), ("http2-settings", "AAMAAABkAAQAAP__")],
        ),
        with("name with CR", &[("x\rx-smuggled", "1")]),
        with("name with LF", &[("x\nx-smuggled", "1")]),
        with("name with a tab", &[("x\t", "1")]),
        with("name behind a colon", &[(":x-smuggled", "1")]),
        with("value behind a blank", &[("x", " a")]),
        with("value before a tab", &[("x", "a\t")]),
        with("name with CR LF", &[("x: a\r\nx-smuggled", "1")]),
        with("name with a colon", &[("x-smuggled: 1", "y")]),
        with("name with a blank", &[("x y", "1")]),
        with("name with NUL", &[("x\0", "1")]),
        with("name empty", &[("", "1")]),
        with("name in capitals", &[("X-Smuggled", "1")]),
        with("coding", &[("transfer-encoding", "chunked")]).data(&["0\r\n\r\n", REQUEST]),
        with("coding in capitals", &[("Transfer-Encoding", "chunked")])
            .data(&["0\r\n\r\n", REQUEST]),
        with(
            "coding before a blank",
            &[("transfer-encoding ", "chunked")],
        )
        .data(&["0\r\n\r\n", REQUEST]),
        with(
            "coding with an underscore",
            &[("transfer_encoding", "chunked")],
        )
        .data(&[REQUEST])
        .passes(REQUEST_TEXT),
        with(
            "coding in a value",
            &[("x", "a\r\nTransfer-Encoding: chunked")],
        )
        .data(&["0\r\n\r\n", REQUEST]),
        with("connection", &[("connection", "close")]),
        with(
            "connection naming a header",
            &[("connection", "content-length")],
        )
        .data(&["hello"]),
        with("keep-alive", &[("keep-alive", "timeout=5")]),
        with("proxy-connection", &[("proxy-connection", "keep-alive")]),
        with("upgrade", &[("upgrade", "websocket")]),
        with("te gzip", &[("te", "gzip")]),
        with("te trailers", &[("te", "trailers")]).passes("POST /t"),
        with("te chunked", &[("te", "trailers, chunked")]),
        with("cookies", &[("cookie", "a=1"), ("cookie", "b=2")]).passes("POST /t"),
        with("cookie with CR LF", &[("cookie", "a=1\r\nX-Smuggled: 1")]),
        with(
            "expecting 100",
            &[("expect", "100-continue"), ("content-length", "5")],
        )
        .data(&["hello"])
        .passes("POST /t hello"),
    ]
}

fn lengths() -> Vec<Case> {
    vec![
        with("body", &[]).data(&["hello"]).passes("POST /t hello"),
        with("body holding a request", &[])
            .data(&[REQUEST])
            .passes(REQUEST_TEXT),
        with("body holding chunks", &[])
            .data(&["0\r\n\r\n"])
            .passes("POST /t 0\\r\\n\\r\\n"),
        with("length", &[("content-length", "5")])
            .data(&["hello"])
            .passes("POST /t hello"),
        with("length too small", &[("content-length", "2")]).data(&["hello"]),
        with("length too large", &[("content-length", "50")]).data(&["hello"]),
        with("length, no body", &[("content-length", "5")]),
        with(
            "length twice",
            &[("content-length", "5"), ("content-length", "5")],
        )
        .data(&["hello"]),
        with(
            "lengths",
            &[("content-length", "5"), ("content-length", "0")],
        )
        .data(&["hello"]),
        with("length list", &[("content-length", "5, 5")]).data(&["hello"]),
        with("length plus", &[("content-length", "+5")]).data(&["hello"]),
        with("length minus", &[("content-length", "-5")]).data(&["hello"]),
        with("length hexadecimal", &[("content-length", "0x5")]).data(&["hello"]),
        with("length empty", &[("content-length", "")]).data(&["hello"]),
        with(
            "length past 64 bits",
            &[("content-length", "18446744073709551621")],
        )
        .data(&["hello"]),
        with(
            "length with CR LF",
            &[("content-length", "5\r\nX-Smuggled: 1")],
        )
        .data(&["hello"]),
        with("length with an underscore", &[("content_length", "2")])
            .data(&["hello"])
            .passes("POST /t hello"),
    ]
}

fn pseudo_headers() -> Vec<Case> {
    vec![
        whole("no method", &[SCHEME, PATH, AUTHORITY]),
        whole("no scheme", &[METHOD, PATH, AUTHORITY]),
        whole("no path", &[METHOD, SCHEME, AUTHORITY]),
        whole("no authority", &[METHOD, SCHEME, PATH]),
        whole(
            "host instead of authority",
            &[METHOD, SCHEME, PATH, ("host", "localhost")],
        )
        .passes("POST /t"),
        with("host like the authority", &[("host", "localhost")]).passes("POST /t"),
        with("host unlike the authority", &[("host", "other")]),
        with(
            "host twice like the authority",
            &[("host", "localhost"), ("host", "localhost")],
        )
        .passes("POST /t"),
        with(
            "host twice, once another",
            &[("host", "localhost"), ("host", "other")],
        ),
        whole(
            "host twice, no authority",
            &[
                METHOD,
                SCHEME,
                PATH,
                ("host", "localhost"),
                ("host", "other"),
            ],
        ),
        whole(
            "host twice the same, no authority",
            &[
                METHOD,
                SCHEME,
                PATH,
                ("host", "localhost"),
                ("host", "localhost"),
            ],
        ),
        with("path twice", &[(":path", "/smuggled")]),
        with("method twice", &[(":method", "GET")]),
        with("authority twice", &[(":authority", "other")]),
        with("pseudo-header of a response", &[(":status", "200")]),
        with("pseudo-header unknown", &[(":x", "y")]),
        whole(
            "pseudo-header behind a header",
            &[METHOD, SCHEME, AUTHORITY, ("x", "y"), PATH],
        ),
        whole("path empty", &[METHOD, SCHEME, (":path", ""), AUTHORITY]),
        whole(
            "path without a slash",
            &[METHOD, SCHEME, (":path", "smuggled"), AUTHORITY],
        ),
        whole(
            "path with a blank",
            &[METHOD, SCHEME, (":path", "/t /smuggled"), AUTHORITY],
        ),
        whole(
            "path with CR LF",
            &[METHOD, SCHEME, (":path", "/t\r\nX-Smuggled: 1"), AUTHORITY],
        ),
        whole(
            "path with LF",
            &[METHOD, SCHEME, (":path", "/t\nX-Smuggled: 1"), AUTHORITY],
        ),
        whole(
            "path with NUL",
            &[METHOD, SCHEME, (":path", "/t\0"), AUTHORITY],
        ),
        whole(
            "path with a tab",
            &[METHOD, SCHEME, (":path", "/t\tHTTP/1.1"), AUTHORITY],
        ),
        whole(
            "path with a whole request",
            &[
                METHOD,
                SCHEME,
                (
                    ":path",
                    "/t HTTP/1.1\r\nHost: localhost\r\n\r\nGET /smuggled",
                ),
                AUTHORITY,
            ],
        ),
        whole(
            "path, escaped",
            &[METHOD, SCHEME, (":path", "/t%0d%0aX-Smuggled:1"), AUTHORITY],
        )
        .passes("POST /t%0d%0aX-Smuggled:1"),
        whole(
            "path absolute",
            &[
                METHOD,
                SCHEME,
                (":path", "http://other/smuggled"),
                AUTHORITY,
            ],
        ),
        whole(
            "method with a request",
            &[
                (
                    ":method",
                    "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\nGET",
                ),
                SCHEME,
                PATH,
                AUTHORITY,
            ],
        ),
        whole(
            "method with a blank",
            &[(":method", "GET /smuggled"), SCHEME, PATH, AUTHORITY],
        ),
        whole(
            "method in small letters",
            &[(":method", "get"), SCHEME, PATH, AUTHORITY],
        ),
        whole("method empty", &[(":method", ""), SCHEME, PATH, AUTHORITY]),
        whole("method CONNECT", &[(":method", "CONNECT"), AUTHORITY]),
        whole(
            "scheme with a host",
            &[
                METHOD,
                (":scheme", "http://localhost/smuggled?"),
                PATH,
                AUTHORITY,
            ],
        ),
        whole(
            "scheme with CR LF",
            &[
                METHOD,
                (":scheme", "http\r\nX-Smuggled: 1"),
                PATH,
                AUTHORITY,
            ],
        ),
        whole(
            "authority with NUL",
            &[METHOD, SCHEME, PATH, (":authority", "local\0host")],
        ),
        whole(
            "authority with CR LF",
            &[
                METHOD,
                SCHEME,
                PATH,
                (":authority", "localhost\r\nX-Smuggled: 1"),
            ],
        ),
        whole(
            "authority with a blank",
            &[METHOD, SCHEME, PATH, (":authority", "local host")],
        ),
        whole(
            "authority with a path",
            &[METHOD, SCHEME, PATH, (":authority", "localhost/smuggled")],
        ),
        whole(
            "authority with a user",
            &[METHOD, SCHEME, PATH, (":authority", "a@localhost")],
        ),
    ]
}

fn trailers() -> Vec<Case> {
    vec![
        with("trailer", &[])
            .data(&["hello"])
            .trailers(&[("x-smuggled", "1")])
            .passes("POST /t hello"),
        with("trailer with CR LF", &[])
            .data(&["hello"])
            .trailers(&[("x", "a\r\nX-Smuggled: 1")]),
        with("trailer with a pseudo-header", &[])
            .data(&["hello"])
            .trailers(&[(":path", "/smuggled")]),
        with("trailer with a length", &[])
            .data(&["hello"])
            .trailers(&[("content-length", "30")])
            .passes("POST /t hello"),
        with("trailer with a coding", &[])
            .data(&["hello"])
            .trailers(&[("transfer-encoding", "chunked")]),
        with("trailer in capitals", &[])
            .data(&["hello"])
            .trailers(&[("X-Smuggled", "1")]),
    ]
}
