//! Requests that a grammar makes up.

use sealane_tests::http2;
use sealane_tests::random::Random;

/// A request, in parts that can be left out one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub method: String,
    pub target: String,
    /// 0 and 1 are minor versions of HTTP/1, 2 is HTTP/2.
    pub version: u8,
    pub host: Option<String>,
    /// Names and values, without `Host` and what frames the body.
    pub headers: Vec<(String, String)>,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    Length(Vec<u8>),
    Chunked(Vec<u8>),
}

const SEGMENTS: &[&str] = &[
    "a",
    "a",
    "b",
    "b",
    "ab",
    "dir",
    "A",
    "x.txt",
    "x.txt",
    "index.html",
    "p.html",
    "img.png",
    "i.php",
    "no",
    "%61",
    "%C3%A4",
    "\u{e4}",
    "sp%20ace.txt",
    "x%2Etxt",
    "1",
    "deep",
    "er",
    "empty.txt",
    "big.txt",
    "info",
    "p",
    "a+b",
    "%2B",
    "a%2Fb",
    "x.TXT",
    "%25",
    "%3F",
    "a%26b",
    "a:b",
    "~",
    "'",
    "\"",
    "(x)",
    "a;b=c",
    "loc",
    "s404",
    "s302",
    "s500",
    "s304",
    "accel",
    "gz",
    "gz",
    "word",
    "zip.txt",
    // What `secure_link_secret word` wants before `x.txt`.
    "68e191a30407831fe6832a1d28cd58fd/x.txt",
];

fn target(random: &mut Random, paths: &[String]) -> String {
    let mut target = String::new();
    if !paths.is_empty() && random.below(3) != 0 {
        let path = random.choose::<String>(paths).trim_end_matches('/');
        target.push_str(&path.replace(
            '\u{e4}',
            random.choose::<&str>(&["%C3%A4", "\u{e4}", "%c3%a4"]),
        ));
    }
    let is_location = !target.is_empty();
    let segments = if is_location {
        [0, 0, 1, 1, 1, 2, 2, 3]
    } else {
        [0, 1, 1, 2, 2, 2, 3, 4]
    };
    for _ in 0..segments[random.below(8)] {
        target.push('/');
        target.push_str(random.choose::<&str>(SEGMENTS));
    }
    if target.is_empty() || random.below(3) == 0 {
        target.push('/');
    }
    match random.below(45) {
        0 => target = target.replacen('/', "//", 1),
        1 => target.push_str("/."),
        2 => target.push_str("/.."),
        3 => target = target.replacen('/', "/./", 1),
        4 => target = format!("/x/..{target}"),
        5 => target.push_str("//"),
        6 => target = format!("{target}/..{target}"),
        7 => target.push_str("%00"),
        8 => target.push_str(&"/long".repeat(1 + random.below(200))),
        9 => target = target.replace('a', "%61"),
        10 => target.push_str("/%2e%2e/b"),
        11 => target = format!("/..{target}"),
        12 => target.push('%'),
        13 => target.push_str("...."),
        14 => target = target.replacen('/', "/%2e/", 1),
        15 => target.push_str("/%2F..%2fb/x.txt"),
        16 => target.push_str("%2e%2e"),
        17 => target = format!("{target}/a//../x.txt"),
        18 => target.push_str("/b/%2E%2E/x.txt"),
        _ => {}
    }
    let arguments = [
        "",
        "",
        "",
        "",
        "",
        "?",
        "?x=1",
        "?x=1",
        "?x=",
        "?y=2&x=0",
        "?x=%20a+b",
        "?x=1&x=2",
        "?X=3",
        "?r=a",
        "?r=dir&i=x.txt",
        "?i=p.html",
        "?x=/a/x.txt",
        "?x=%2Fb%2Fx.txt",
        "?x=http://h.test/",
        "?x=?y=1",
        "?&&x=1",
        "?x",
        "?x=a&y=b&r=b",
        "?%78=1",
        "?\u{e4}",
        "?x=\"q\"",
        "?x=$uri",
        "?x=1#f",
        "#f",
        "?x='",
        "?x=a%0d%0ab",
        "?x=x32vEOIXkPKvap67MyTyHw",
        "?x=x32vEOIXkPKvap67MyTyHw,2147483647&y=2147483647",
        "?x=x32vEOIXkPKvap67MyTyHw,1",
        "?x=10.1.0.5",
        "?y=op&x=e",
    ];
    target.push_str(random.choose::<&str>(&arguments));
    target
}

const HEADERS: &[&[(&str, &str)]] = &[
    &[
        ("Range", "bytes=0-3"),
        ("Range", "bytes=2-"),
        ("Range", "bytes=-2"),
        ("Range", "bytes=0-0,2-2"),
        ("Range", "bytes=9999999-"),
        ("Range", "bytes=5-2"),
        ("Range", "bytes=-0"),
        ("Range", "bytes=0-1,1-2,2-3"),
        ("Range", "items=0-1"),
        ("Range", "bytes=0-,0-"),
        ("Range", "bytes=a-b"),
        ("Range", "bytes=0-18446744073709551615"),
        ("Range", "bytes=0-0, 2-3 ,-1"),
        ("Range", "bytes=3-,0-1"),
        ("Range", "bytes= 1-2"),
        ("Range", "BYTES=1-2"),
        ("Range", "bytes=1-2,"),
    ],
    &[
        ("If-None-Match", "*"),
        ("If-None-Match", "\"6189ba00-7\""),
        ("If-None-Match", "W/\"6189ba00-7\""),
        ("If-None-Match", "\"no\", \"1\""),
        ("If-Match", "*"),
        ("If-Match", "\"no\""),
        ("If-Match", "\"6189ba00-7\""),
        ("If-None-Match", "\"1\""),
        ("If-Match", "W/\"6189ba00-7\", \"6189ba00-f\""),
        ("If-None-Match", "\"no\",\"6189ba00-7\""),
        ("If-Match", "\"o\""),
    ],
    &[
        ("If-Modified-Since", "Tue, 09 Nov 2021 00:00:00 GMT"),
        ("If-Modified-Since", "Mon, 08 Nov 2021 23:59:59 GMT"),
        ("If-Modified-Since", "Wed, 10 Nov 2021 00:00:00 GMT"),
        ("If-Modified-Since", "never"),
        ("If-Unmodified-Since", "Tue, 09 Nov 2021 00:00:00 GMT"),
        ("If-Unmodified-Since", "Mon, 08 Nov 2021 23:59:59 GMT"),
    ],
    &[
        ("If-Range", "\"6189ba00-7\""),
        ("If-Range", "\"no\""),
        ("If-Range", "Tue, 09 Nov 2021 00:00:00 GMT"),
        ("If-Range", "W/\"6189ba00-7\""),
        ("If-Range", "Mon, 08 Nov 2021 23:59:59 GMT"),
        ("If-Range", "\"o\""),
    ],
    &[
        ("X-T", "1"),
        ("X-T", "a b"),
        ("X-T", ""),
        ("X-T", "\"quoted\" \\ back"),
        ("X-T", "\u{e4}"),
        ("X_T", "under"),
        ("X-T", "$uri"),
    ],
    &[
        ("Cookie", "c=1"),
        ("Cookie", "d=2; c=3"),
        ("Cookie", "c="),
        ("Cookie", "cc=4; C=5"),
        ("Cookie", "uid=fwAAAWGJugAAAAAAAwMEAg=="),
        ("Cookie", "c=fwAAAWGJugAAAAAAAwMEAm=="),
        ("Cookie", "uid=short"),
    ],
    &[
        ("Referer", "http://ok.test/x"),
        ("Referer", "http://www.ok.test/"),
        ("Referer", "https://bad.test/"),
        ("Referer", "good"),
        ("Referer", "http://ok.test/a/b"),
        ("Referer", "xhttp://ok.test/"),
        ("Referer", "http://s1.test/"),
        ("Referer", ""),
    ],
    &[
        ("User-Agent", "curl/8"),
        ("User-Agent", "Mozilla/5.0 (X; \"y\")"),
        ("User-Agent", "GoogleBot"),
    ],
    &[
        ("Accept-Encoding", "gzip"),
        ("Accept-Encoding", "gzip;q=0, deflate"),
        ("Accept-Encoding", "identity"),
        ("Accept-Encoding", "br, gzip;q=0.5"),
    ],
    &[
        ("X-Forwarded-For", "10.1.2.3"),
        ("X-Forwarded-For", "10.1.2.3, 10.9.9.9"),
        ("Authorization", "Basic dTpw"),
        ("Authorization", "Basic dTpw"),
        ("Authorization", "Basic dTp3cm9uZw=="),
        ("Authorization", "Basic bm9ib2R5OnA="),
        ("Authorization", "Basic !"),
        ("Content-Type", "text/x"),
    ],
];

/// Makes up a request to the server of this number, often to one of these paths or below it.
pub(crate) fn request(random: &mut Random, number: usize, paths: &[String]) -> Request {
    let methods = [
        "POST", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "MKCOL", "TRACE", "FOO",
    ];
    let method = match random.below(20) {
        0..=10 => "GET",
        11..=13 => "HEAD",
        14 => "POST",
        _ => *random.choose(&methods),
    };
    let method = method.to_owned();
    let version = [1, 1, 1, 1, 1, 1, 0, 2, 2][random.below(9)];
    let own = format!("s{number}.test");
    let mut host = match random.below(25) {
        0 => Some(own.to_uppercase()),
        1 => Some(format!("{own}:8080")),
        2 => Some(format!("{own}.")),
        3 if version != 2 => None,
        4 if version != 2 => Some("bad host".to_owned()),
        5 if version != 2 => Some("127.0.0.1".to_owned()),
        _ => Some(own),
    };
    let mut target = target(random, paths);
    if version != 2 && random.below(30) == 0 {
        let authority = host.clone().unwrap_or_else(|| "s1.test".to_owned());
        target = format!("http://{authority}{target}");
    }
    if version == 2 {
        // Bytes of UTF-8 and controls are the parsers' tests.
        target = target.replace('#', "%23");
        host = host.or_else(|| Some("s1.test".to_owned()));
    }
    let mut headers = Vec::new();
    for group in HEADERS {
        if random.below(5) == 0 {
            let (name, value) = random.choose::<(&str, &str)>(group);
            headers.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    if version != 2 && random.below(12) == 0 {
        let value = *random.choose(&["close", "keep-alive", "Keep-Alive, x"]);
        headers.push(("Connection".to_owned(), value.to_owned()));
    }
    let bytes = random.choose(&[0, 1, 4, 5, 300, 16_000]);
    let content: Vec<u8> = b"0123456789".iter().copied().cycle().take(*bytes).collect();
    let body = match (method.as_str(), random.below(3)) {
        ("GET" | "HEAD", 1) if random.below(10) == 0 => Body::Length(content),
        ("POST" | "PUT" | "PATCH" | "PROPFIND" | "FOO", 0) if version == 1 => {
            Body::Chunked(content)
        }
        ("POST" | "PUT" | "PATCH" | "PROPFIND" | "FOO", 1) => Body::Length(content),
        _ => Body::None,
    };
    Request {
        method,
        target,
        version,
        host,
        headers,
        body,
    }
}

impl Request {
    /// Bytes of the body, without what frames it.
    pub(crate) fn body_bytes(&self) -> usize {
        match &self.body {
            Body::None => 0,
            Body::Length(content) | Body::Chunked(content) => content.len(),
        }
    }

    /// The header block that it is sent with over HTTP/2.
    pub(crate) fn block(&self, id: &str) -> Vec<u8> {
        let mut block = Vec::new();
        let host = self.host.as_deref().unwrap_or_default();
        for (name, value) in [
            (":method", self.method.as_str()),
            (":scheme", "http"),
            (":path", &self.target),
            (":authority", host),
            ("x-id", id),
        ] {
            http2::push_field(&mut block, name, value);
        }
        for (name, value) in &self.headers {
            http2::push_field(&mut block, &name.to_ascii_lowercase(), value);
        }
        if self.body != Body::None {
            http2::push_field(&mut block, "content-length", &self.body_bytes().to_string());
        }
        block
    }

    /// As it is sent over HTTP/1, `id` being what its log lines are found by.
    pub(crate) fn bytes(&self, id: &str) -> Vec<u8> {
        let mut text = format!(
            "{} {} HTTP/{}\r\n",
            self.method,
            self.target,
            ["1.0", "1.1", "2"][usize::from(self.version)]
        );
        if let Some(host) = &self.host {
            text.push_str(&format!("Host: {host}\r\n"));
        }
        text.push_str(&format!("X-Id: {id}\r\n"));
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        match &self.body {
            Body::None => {}
            Body::Length(content) => {
                text.push_str(&format!("Content-Length: {}\r\n", content.len()))
            }
            Body::Chunked(_) => text.push_str("Transfer-Encoding: chunked\r\n"),
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        match &self.body {
            Body::None => {}
            Body::Length(content) => bytes.extend_from_slice(content),
            Body::Chunked(content) => {
                for piece in content.chunks(1500) {
                    bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                    bytes.extend_from_slice(piece);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        bytes
    }
}
