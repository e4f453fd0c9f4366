//! Answers of an origin that are not simply a body: what each filter makes of them, beside nginx.

use super::gzip;
use sealane_tests::Site;
use sealane_tests::comparison::normalise;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{self, Connection, Response};

const FILTERS: [(&str, &str); 10] = [
    ("none", ""),
    (
        "gzip",
        "gzip on; gzip_types *; gzip_proxied any; gzip_vary on;",
    ),
    (
        "picky",
        "gzip on; gzip_types *; gzip_proxied no-cache no-store private;",
    ),
    ("gunzip", "gunzip on; gzip_vary on;"),
    (
        "sub",
        "sub_filter_types *; sub_filter_once off; sub_filter e EE;",
    ),
    ("ssi", "ssi on; ssi_types *;"),
    (
        "addition",
        "addition_types *; add_before_body /tail; add_after_body /tail;",
    ),
    ("charset", "charset utf-8; charset_types *;"),
    ("ranges", "proxy_force_ranges on;"),
    (
        "all",
        "gzip on; gzip_types *; gzip_proxied any; gunzip on; sub_filter_types *; sub_filter e EE;
         addition_types *; add_after_body /tail; charset utf-8; charset_types *;",
    ),
];

/// Status line, header lines and body of an answer.
fn answers() -> Vec<(&'static str, &'static str, &'static str, Vec<u8>)> {
    let text = b"here is some text; ".repeat(20);
    let plain = "Content-Type: text/plain\r\nETag: \"t\"\r\n";
    let coded = "Content-Type: text/plain\r\nETag: \"t\"\r\nContent-Encoding: gzip\r\n";
    let (ok, packed) = ("200 OK", gzip(&text));
    vec![
        ("empty", ok, plain, Vec::new()),
        ("nothing-coded", ok, coded, gzip(b"")),
        ("one", ok, plain, b"e".to_vec()),
        ("coded", ok, coded, packed.clone()),
        (
            "two-coded",
            ok,
            coded,
            [gzip(b"one"), gzip(b"two")].concat(),
        ),
        (
            "no-transform",
            ok,
            "Content-Type: text/plain\r\nCache-Control: no-transform\r\n",
            text.clone(),
        ),
        (
            "private",
            ok,
            "Content-Type: text/plain\r\nCache-Control: private, no-transform\r\n",
            text.clone(),
        ),
        (
            "weak",
            ok,
            "Content-Type: text/plain\r\nETag: W/\"t\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            text.clone(),
        ),
        (
            "deflate",
            ok,
            "Content-Type: text/plain\r\nContent-Encoding: deflate\r\n",
            text.clone(),
        ),
        (
            "identity",
            ok,
            "Content-Type: text/plain\r\nContent-Encoding: identity\r\n",
            text.clone(),
        ),
        ("no-type", ok, "X-Without: a type\r\n", text.clone()),
        (
            "vary",
            ok,
            "Content-Type: text/plain\r\nVary: Cookie\r\n",
            text.clone(),
        ),
        ("created", "201 Created", plain, text.clone()),
        ("no-content", "204 No Content", plain, Vec::new()),
        (
            "part",
            "206 Partial Content",
            "Content-Type: text/plain\r\nContent-Range: bytes 0-379/1000\r\n",
            text.clone(),
        ),
        (
            "moved",
            "302 Found",
            "Content-Type: text/plain\r\nLocation: /x\r\n",
            text.clone(),
        ),
        ("unchanged", "304 Not Modified", plain, Vec::new()),
        ("unchanged-coded", "304 Not Modified", coded, Vec::new()),
        ("missing", "404 Not Found", plain, text.clone()),
        ("missing-coded", "404 Not Found", coded, packed),
        ("failed", "500 Internal Server Error", plain, text),
    ]
}

fn origin() -> Origin {
    let answers = answers();
    Origin::answering(move |asked| {
        let target = asked.target();
        let found = answers.iter().find(|(name, ..)| target[1..] == **name);
        let (_, status, lines, body) = found.expect("one of the list");
        let length = match body.is_empty() && !status.starts_with("200") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let mut answer = format!("HTTP/1.1 {status}\r\n{lines}{length}\r\n").into_bytes();
        if !asked.head.starts_with(b"HEAD ") {
            answer.extend_from_slice(body);
        }
        Answer::Send(answer)
    })
}

fn configuration(origin: u16) -> String {
    let location = |(filter, lines): &(&str, &str)| {
        format!("location /{filter}/ {{ {lines} proxy_pass http://127.0.0.1:{origin}/; }}\n")
    };
    let locations: String = FILTERS.iter().map(location).collect();
    format!(
        "server_tokens off; gzip_min_length 0; proxy_http_version 1.1; proxy_set_header Connection '';
         server {{ listen 127.0.0.1:%plain%; keepalive_requests 100000;
         location = /tail {{ default_type text/plain; return 200 tail; }} {locations} }}"
    )
}

/// What came until the server closed: the answer, and whether all of it did.
fn ask(port: u16, method: &str, path: &str, headers: &str) -> (Response, bool) {
    let mut connection = Connection::open(port);
    connection.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n"
    ));
    let raw = connection.rest();
    let Some(mut response) = wire::whole(&raw) else {
        let (head, body) = (String::new(), raw);
        return (
            Response {
                status: 0,
                head,
                body,
            },
            false,
        );
    };
    let mut complete = true;
    if method != "HEAD" {
        if let Some(length) = response.header("Content-Length") {
            complete = length.parse() == Ok(response.body.len()) || response.status == 304;
        } else if response.header("Transfer-Encoding") == Some("chunked") {
            let (body, trailers) = wire::without_chunks(&response.body);
            complete = trailers == Some(b"");
            response.body = body;
        }
    }
    (normalise(&[port], response, method == "HEAD"), complete)
}

#[test]
fn odd_answers_come_through_as_with_nginx() {
    let (site, theirs, origin) = (Site::new(), Site::new(), origin());
    let ours = site.serve(&configuration(origin.port()));
    let theirs = theirs.serve_by_nginx(&configuration(origin.port()));
    let ports = [ours.port("plain"), theirs.port("plain")];
    let mut differences = String::new();
    for (filter, _) in FILTERS {
        for (name, ..) in answers() {
            let path = format!("/{filter}/{name}");
            for (method, headers) in [
                ("GET", ""),
                ("GET", "Accept-Encoding: gzip\r\n"),
                ("GET", "Accept-Encoding: gzip\r\nVia: 1.1 a\r\n"),
                ("GET", "Range: bytes=2-5\r\n"),
                ("GET", "Accept-Encoding: gzip\r\nRange: bytes=2-5\r\n"),
                ("GET", "If-None-Match: \"t\"\r\n"),
                ("HEAD", ""),
                ("HEAD", "Accept-Encoding: gzip\r\n"),
            ] {
                let [(one, all_of_one), (other, all_of_other)] =
                    ports.map(|port| ask(port, method, &path, headers));
                // nginx closes without an answer: there is no body to decompress.
                if name == "unchanged-coded" && other.status == 0 && one.status == 304 {
                    continue;
                }
                if one != other || all_of_one != all_of_other {
                    let (our_text, their_text) = (one.text(), other.text());
                    differences.push_str(&format!(
                        "{method} {path} {headers:?}\nours ({all_of_one}):\n{}\n{our_text}\nnginx ({all_of_other}):\n{}\n{their_text}\n\n",
                        one.head, other.head
                    ));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
