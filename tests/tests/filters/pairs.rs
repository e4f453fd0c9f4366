//! Filters of bodies, every two of them: on files and on what an origin sends with a length, in
//! chunks of one byte and compressed, over HTTP/1, HTTP/2 and TLS, whole and in ranges.

use super::gzip;
use sealane_tests::comparison::{decompressed, normalise};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{Connection, Response};
use sealane_tests::{Certificate, CertificateKey, Server, Site, command, http2};

/// Filters, a line for each; those of the last kind nginx does not have.
const FILTERS: &[(&str, &str)] = &[
    (
        "gzip",
        "gzip on; gzip_types *; gzip_proxied any; gzip_vary on;",
    ),
    ("gunzip", "gunzip on;"),
    ("static", "gzip_static always;"),
    (
        "sub",
        "sub_filter_types *; sub_filter_once off; sub_filter 56 FIVE;",
    ),
    ("addition", "addition_types *; add_after_body /tail;"),
    ("charset", "charset utf-8;"),
    ("slice", "slice 100;"),
    ("ranges", "max_ranges 1;"),
    ("userid", "userid on;"),
    ("headers", "add_header X-Added yes; expires 1h;"),
    ("brotli", "brotli on; brotli_types *;"),
    ("zstd", "zstd on; zstd_types *;"),
];
const OURS: [&str; 2] = ["brotli", "zstd"];

/// Where bodies come from.
const SOURCES: [&str; 4] = ["file", "length", "chunks", "gzip"];

fn pairs() -> impl Iterator<Item = [&'static (&'static str, &'static str); 2]> {
    let others = |at: usize| FILTERS[at + 1..].iter();
    (0..FILTERS.len()).flat_map(move |at| others(at).map(move |other| [&FILTERS[at], other]))
}

fn text() -> Vec<u8> {
    (0..120u32)
        .flat_map(|n| format!("{n} ").into_bytes())
        .collect()
}

fn origin() -> Origin {
    Origin::answering(|asked| {
        let (plain, target) = (text(), asked.target());
        let body = match target.starts_with("/gzip/") {
            true => gzip(&plain),
            false => plain,
        };
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"t\"\r\n".to_vec();
        if target.starts_with("/gzip/") {
            answer.extend_from_slice(b"Content-Encoding: gzip\r\n");
        }
        if target.starts_with("/length/") {
            answer.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            if !asked.head.starts_with(b"HEAD ") {
                answer.extend_from_slice(&body);
            }
        } else if asked.head.starts_with(b"HEAD ") {
            answer.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        } else {
            answer.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for byte in body {
                answer.extend_from_slice(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']);
            }
            answer.extend_from_slice(b"0\r\n\r\n");
        }
        Answer::Send(answer)
    })
}

fn configuration(origin: u16, is_ours: bool) -> String {
    let mut locations = String::new();
    for [(first, one), (second, other)] in pairs() {
        let lines = |name, lines| match is_ours || !OURS.contains(name) {
            true => lines,
            false => "",
        };
        let filters = format!("{} {}", lines(first, *one), lines(second, *other));
        for source in SOURCES {
            let handler = match source {
                "file" => "alias %site%/html/;".to_owned(),
                _ => format!("proxy_pass http://127.0.0.1:{origin}/{source}/;"),
            };
            locations.push_str(&format!(
                "location /{first}-{second}/{source}/ {{ {filters} {handler} }}\n"
            ));
        }
    }
    let only_ours = match is_ours {
        true => {
            "brotli_min_length 0; zstd_min_length 0; http2 on; listen 127.0.0.1:%tls% ssl;
             ssl_certificate certificates/localhost.pem; ssl_certificate_key certificates/localhost.key;"
        }
        false => "",
    };
    format!(
        "types {{ text/plain txt; }} server_tokens off; gzip_min_length 0;
         proxy_http_version 1.1; proxy_set_header Connection '';
         server {{ listen 127.0.0.1:%plain%; {only_ours}
         location = /tail {{ default_type text/plain; return 200 tail; }}
         {locations} }}"
    )
}

/// The body as whoever asked reads it, and the head without what differs by chance.
fn read(port: u16, method: &str, response: Response) -> Response {
    let head_only = method == "HEAD";
    let mut response = normalise(&[port], response, head_only);
    // In a 416 nginx makes two.
    let mut kept: Vec<&str> = response.head.split('\n').collect();
    kept.dedup_by(|line, before| line == before && line.starts_with("set-cookie: uid="));
    response.head = kept.join("\n");
    response
}

fn ask(connection: &mut Connection, port: u16, path: &str, headers: &str) -> Response {
    ask_with(connection, port, "GET", path, headers)
}

fn ask_with(
    connection: &mut Connection,
    port: u16,
    method: &str,
    path: &str,
    headers: &str,
) -> Response {
    connection.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n"
    ));
    read(port, method, connection.response(method == "HEAD"))
}

fn paths() -> Vec<String> {
    let of_pair = |[(first, _), (second, _)]: [&(&str, &str); 2]| {
        SOURCES.map(|source| format!("/{first}-{second}/{source}/t.txt"))
    };
    pairs().flat_map(of_pair).collect()
}

/// A status and a body.
type Fetched = (String, Vec<u8>);

/// Fetches all paths in one run of curl, which decompresses, and returns what it got.
fn fetch_by_curl(site: &Site, base: &str, paths: &[String], options: &[&str]) -> Vec<Fetched> {
    let file = |at: usize| site.path(format!("temporary/curl-{at}"));
    let mut asked = String::new();
    for (at, path) in paths.iter().enumerate() {
        asked.push_str(&format!(
            "url = \"{base}{path}\"\noutput = \"{}\"\n",
            file(at).display()
        ));
    }
    let mut arguments = vec!["-sS", "-k", "-w", "%{http_code} ", "-K", "-"];
    arguments.extend(options);
    let outcome = command("curl", &arguments, asked.as_bytes()).success();
    let statuses = outcome.text();
    let statuses = statuses.split_whitespace().map(str::to_owned);
    let fetched: Vec<Fetched> = statuses
        .enumerate()
        .map(|(at, status)| {
            // curl makes no file for an empty body.
            let body = std::fs::read(file(at)).unwrap_or_default();
            let _ = std::fs::remove_file(file(at));
            (status, body)
        })
        .collect();
    assert_eq!(fetched.len(), paths.len());
    fetched
}

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    site.write("html/t.txt", text());
    site.write("html/t.txt.gz", gzip(&text()));
    site
}

/// What is sent over HTTP/1 without a coding, by path: what every client has to end up with.
fn plain_responses(server: &Server<'_>, paths: &[String], headers: &str) -> Vec<Fetched> {
    let port = server.port("plain");
    let mut connection = Connection::open(port);
    let ask = |path: &String| {
        let response = ask(&mut connection, port, path, headers);
        (response.status.to_string(), response.body)
    };
    paths.iter().map(ask).collect()
}

/// Takes out what is wrong in nginx, or in 1.22 older than what counts.
fn explain(path: &str, ours: &mut Response, theirs: &mut Response) {
    if !(path.contains("static") && path.contains("/file/")) {
        return;
    }
    if ours.status == 416 && theirs.status == 416 {
        // The page is no gzip.
        theirs.head = theirs.head.replace("\ncontent-encoding: gzip", "");
    }
    // Ranges of files that were compressed beforehand: since nginx 1.23.
    if theirs.status == 200 && !theirs.head.contains("\naccept-ranges: ") {
        ours.head = ours.head.replace("\naccept-ranges: bytes", "");
        if matches!(ours.status, 206 | 416) {
            *theirs = ours.clone();
        }
    }
}

#[test]
fn every_pair_of_filters_answers_as_nginx_does() {
    let (site, theirs) = (site(), site());
    let origin = origin();
    // The same file for both: its time is part of the head.
    for name in ["html/t.txt", "html/t.txt.gz"] {
        let time = std::fs::metadata(site.path(name)).and_then(|data| data.modified());
        let file = std::fs::File::options().write(true).open(theirs.path(name));
        let set = file.and_then(|file| file.set_modified(time?));
        set.expect("the file is ours");
    }
    let ours = site.serve(&configuration(origin.port(), true));
    let theirs = theirs.serve_by_nginx(&configuration(origin.port(), false));
    let (our_port, their_port) = (ours.port("plain"), theirs.port("plain"));
    let (mut one, mut other) = (Connection::open(our_port), Connection::open(their_port));
    let mut differences = String::new();
    for (at, path) in paths().iter().enumerate() {
        // After 1000 requests both close.
        if at % 100 == 99 {
            (one, other) = (Connection::open(our_port), Connection::open(their_port));
        }
        for (method, headers) in [
            ("GET", ""),
            ("GET", "Accept-Encoding: gzip\r\n"),
            ("GET", "Range: bytes=2-5\r\n"),
            ("GET", "Accept-Encoding: gzip\r\nRange: bytes=2-5\r\n"),
            ("GET", "If-None-Match: \"t\"\r\n"),
            ("GET", "Range: bytes=0-1,3-4\r\n"),
            ("GET", "Range: bytes=100000-\r\n"),
            ("HEAD", ""),
            ("HEAD", "Accept-Encoding: gzip\r\n"),
        ] {
            let mut our = ask_with(&mut one, our_port, method, path, headers);
            let mut their = ask_with(&mut other, their_port, method, path, headers);
            explain(path, &mut our, &mut their);
            if our != their {
                let (our_text, their_text) = (our.text(), their.text());
                differences.push_str(&format!(
                    "{method} {path} {headers:?}\nours:\n{}\n{our_text}\nnginx:\n{}\n{their_text}\n\n",
                    our.head, their.head
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn every_pair_of_filters_reaches_every_client() {
    let site = site();
    let origin = origin();
    let server = site.serve(&configuration(origin.port(), true));
    let mut paths = paths();
    // As with nginx, nobody can read text behind compressed bytes, and what is replaced depends
    // on whether the client takes gzip.
    let is_coded = |path: &String| path.contains("/gzip/") || path.contains("static");
    paths.retain(|path| !(is_coded(path) && (path.contains("addition") || path.contains("sub"))));
    let base = format!("https://127.0.0.1:{}", server.port("tls"));
    // All that curl knows is decompressed: zstd goes before br, and br before gzip. Over TLS
    // only, as curl 7.88 cannot use a connection of HTTP/2 without TLS twice.
    for (headers, all_options) in [
        (
            "",
            &[
                &["--http2", "--compressed"][..],
                &["--http2", "--compressed", "-H", "Accept-Encoding: br, gzip"],
                &["--http1.1", "--compressed", "-H", "Accept-Encoding: br"],
                &["--http1.1", "--compressed", "-H", "Accept-Encoding: zstd"],
            ][..],
        ),
        (
            "Range: bytes=2-5\r\n",
            &[&["--http2", "-r", "2-5"], &["--http1.1", "-r", "2-5"]],
        ),
    ] {
        let plain = plain_responses(&server, &paths, headers);
        for options in all_options {
            let fetched = fetch_by_curl(&site, &base, &paths, options);
            for ((path, fetched), plain) in paths.iter().zip(fetched).zip(&plain) {
                assert_same(&format!("{path} {options:?}"), fetched, plain);
            }
        }
    }
    codings_over_http2(&server, &paths);
}

/// What is compressed already is not decompressed for a client without gzip.
fn assert_same(what: &str, (status, body): Fetched, (plain_status, plain): &Fetched) {
    let (body, plain) = (decompressed(body), decompressed(plain.clone()));
    let (body, plain) = (
        String::from_utf8_lossy(&body),
        String::from_utf8_lossy(&plain),
    );
    assert!(
        (&status, &body) == (plain_status, &plain),
        "{what}: {status}\n{body}\nwanted: {plain_status}\n{plain}"
    );
}

/// Which coding each location takes for a client of all of them.
fn codings_over_http2(server: &Server<'_>, paths: &[String]) {
    let mut client = http2::Client::open(server.port("plain"), &[]);
    for path in paths {
        let all = [("accept-encoding", "gzip, br, zstd")];
        let stream = client.request("GET", path, &all, true);
        let response = client.response(stream);
        let has = |name: &str| path.contains(name);
        let is_coded = has("/gzip/") || (has("static") && has("/file/"));
        let wanted = match () {
            () if is_coded => Some("gzip"),
            () if has("zstd") => Some("zstd"),
            () if has("brotli") => Some("br"),
            () if has("gzip-") => Some("gzip"),
            () => None,
        };
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.field("content-encoding"), wanted, "{path}");
    }
}
