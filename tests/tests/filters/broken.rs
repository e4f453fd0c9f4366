//! Bodies that end early or are not what they say: no client may take what it got for all of it.

use super::gzip;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::Connection;
use sealane_tests::{Site, http2};

/// What is wrong with a body, and the body of an origin with its framing.
fn broken_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let text: String = (0..30_000u32).map(|n| format!("{n} ")).collect();
    let whole = gzip(text.as_bytes());
    let half = whole[..whole.len() / 2].to_vec();
    let with = |bytes: &[u8], at: usize| {
        let mut changed = bytes.to_vec();
        let at = (at + changed.len()) % changed.len();
        changed[at] ^= 0x55;
        changed
    };
    let length = |bytes: usize, body: &[u8]| {
        [format!("Content-Length: {bytes}\r\n\r\n").as_bytes(), body].concat()
    };
    let framed = |body: &[u8]| length(body.len(), body);
    let chunk = |body: &[u8]| {
        let start = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
        [start.as_bytes(), body, b"\r\n"].concat()
    };
    vec![
        ("half", framed(&half)),
        ("half-by-close", [b"\r\n", &half[..]].concat()),
        ("without-its-sum", framed(&whole[..whole.len() - 8])),
        ("without-a-byte", framed(&whole[..whole.len() - 1])),
        ("shorter-than-said", length(whole.len(), &half)),
        ("nothing-of-what-was-said", length(whole.len(), b"")),
        ("whole-without-last-chunk", chunk(&whole)),
        ("half-without-last-chunk", chunk(&half)),
        ("wrong-sum", framed(&with(&whole, whole.len() - 6))),
        ("wrong-length", framed(&with(&whole, whole.len() - 2))),
        ("wrong-start", framed(&with(&whole, 0))),
        ("wrong-method", framed(&with(&whole, 2))),
        ("wrong-middle", framed(&with(&half, half.len() - 100))),
        (
            "half-a-second-one",
            framed(&[&whole[..], &half[..]].concat()),
        ),
        ("more-behind", framed(&[&whole[..], b"more"].concat())),
        ("text", framed(b"not compressed at all")),
        ("one-byte", framed(b"\x1f")),
    ]
}

const FILTERS: [(&str, &str); 7] = [
    ("none", ""),
    (
        "sub",
        "sub_filter_types *; sub_filter_once off; sub_filter 56 FIVE;",
    ),
    ("addition", "addition_types *; add_after_body /small;"),
    ("ssi", "ssi on; ssi_types *;"),
    ("direct", "proxy_buffering off;"),
    ("brotli", "brotli on; brotli_types *;"),
    ("zstd", "zstd on; zstd_types *;"),
];

#[test]
fn what_is_cut_does_not_look_complete() {
    let bodies = broken_bodies();
    let site = Site::new();
    site.write("html/small", "small");
    let mut names = Vec::new();
    for (name, answer) in &bodies {
        names.push(*name);
        // Files cannot be shorter than they are, and an empty one is an empty body.
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let (Some(end), true) = (end, answer.starts_with(b"Content-Length")) {
            let file = &answer[end + 4..];
            if !file.is_empty() {
                site.write(format!("html/{name}.gz"), file);
            }
        }
    }
    let origin = Origin::answering(move |asked| {
        let target = asked.target();
        let found = bodies.iter().find(|(name, _)| target[1..] == **name);
        let (_, body) = found.expect("one of the list");
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n";
        Answer::SendAndClose([&head[..], body].concat())
    });
    let port = origin.port();
    let locations: String = FILTERS
        .iter()
        .map(|(filter, lines)| {
            format!(
                "location /origin/{filter}/ {{ {lines} proxy_pass http://127.0.0.1:{port}/; }}
                 location /file/{filter}/ {{ {lines} gzip_static always; alias %site%/html/; }}\n"
            )
        })
        .collect();
    let server = site.serve(&format!(
        "types {{ text/plain txt; }} root html; gunzip on; proxy_http_version 1.1;
         server {{ listen 127.0.0.1:%plain%; http2 on; {locations} }}"
    ));
    for (filter, _) in FILTERS {
        for name in &names {
            let coding = match filter {
                "brotli" => "br",
                "zstd" => "zstd",
                _ => "identity",
            };
            let path = format!("/origin/{filter}/{name}");
            assert_cut(server.port("plain"), &path, coding);
            if site.path(format!("html/{name}.gz")).exists() {
                let path = format!("/file/{filter}/{name}");
                assert_cut(server.port("plain"), &path, coding);
            }
        }
    }
}

/// Over both versions of HTTP. An error instead of the response is as good.
fn assert_cut(port: u16, path: &str, coding: &str) {
    let mut one = Connection::open(port);
    one.send(format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"
    ));
    let got = one.rest();
    let text = String::from_utf8_lossy(&got);
    if !text.starts_with("HTTP/1.1 502 ") {
        let is_chunked = text.is_empty() || text.contains("\r\nTransfer-Encoding: chunked\r\n");
        assert!(is_chunked, "{path}: {text}");
        assert!(
            !text.ends_with("0\r\n\r\n"),
            "{path} looks complete: {text}"
        );
    }
    let mut two = http2::Client::open(port, &[]);
    let stream = two.request("GET", path, &[("accept-encoding", coding)], true);
    let response = two.response(stream);
    let is_cut = response.reset.is_some() || response.status == 502;
    assert!(is_cut, "{path} looks complete: {response:?}");
}
