//! Filters of bodies, every two of them: on files and on what an origin sends with a length, in
//! chunks of one byte and compressed, whole and in ranges.

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use sealane_tests::comparison::normalise;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{Connection, Response};
use sealane_tests::{Certificate, CertificateKey, Site, command};
use std::io::{Read, Write};

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

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
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
            answer.extend_from_slice(&body);
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
fn read(port: u16, mut response: Response) -> Response {
    // What `addition` has put behind compressed bytes nobody can read; then all is compared.
    if response.header("Content-Encoding") == Some("gzip") {
        response.body = decompressed(&response.body);
    }
    let lines: Vec<&str> = response.head.split("\r\n").collect();
    let kept = lines.into_iter().map(|line| match line.split_once('=') {
        // A new visitor each time.
        Some(("Set-Cookie: uid", _)) => "Set-Cookie: uid",
        _ => line,
    });
    response.head = kept.collect::<Vec<_>>().join("\r\n");
    normalise(port, response, false)
}

fn ask(connection: &mut Connection, port: u16, path: &str, headers: &str) -> Response {
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n"));
    read(port, connection.response(false))
}

fn paths() -> Vec<String> {
    let of_pair = |[(first, _), (second, _)]: [&(&str, &str); 2]| {
        SOURCES.map(|source| format!("/{first}-{second}/{source}/t.txt"))
    };
    pairs().flat_map(of_pair).collect()
}

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    site.write("html/t.txt", text());
    site.write("html/t.txt.gz", gzip(&text()));
    site
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
        if at % 150 == 149 {
            (one, other) = (Connection::open(our_port), Connection::open(their_port));
        }
        for headers in [
            "",
            "Accept-Encoding: gzip\r\n",
            "Range: bytes=2-5\r\n",
            "Accept-Encoding: gzip\r\nRange: bytes=2-5\r\n",
            "If-None-Match: \"t\"\r\n",
        ] {
            let our = ask(&mut one, our_port, path, headers);
            let their = ask(&mut other, their_port, path, headers);
            if our != their {
                let (our_text, their_text) = (our.text(), their.text());
                differences.push_str(&format!(
                    "{path} {headers:?}\nours:\n{}\n{our_text}\nnginx:\n{}\n{their_text}\n\n",
                    our.head, their.head
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// The body without gzip, which was sent to somebody who did not ask for it.
fn decompressed(body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match MultiGzDecoder::new(body).read_to_end(&mut plain) {
        Ok(_) if body.starts_with(&[0x1f, 0x8b]) => plain,
        _ => body.to_vec(),
    }
}

/// Without buffers more is read from the origin only when nobody holds what it sent before.
#[test]
fn bodies_without_buffers_pass_through_filters() {
    let site = Site::new();
    // Far more than the one buffer, compressed too.
    let mut state = 1_u32;
    let mut plain = Vec::new();
    while plain.len() < 300_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        plain.extend_from_slice(format!("{:x}", state >> 8).as_bytes());
    }
    site.write("html/t.txt.gz", gzip(&plain));
    site.write("html/plain.txt", &plain);
    site.write("html/tail", "the end");
    let filters = [
        ("none", ""),
        ("sub", "sub_filter abc ABCDEF;"),
        ("gzip", "gzip on; gzip_types *; gzip_proxied any;"),
        (
            "all",
            "sub_filter abc ABCDEF; add_after_body /tail; ssi on; ssi_types *; charset utf-8; \
             gzip on; gzip_types *; gzip_proxied any;",
        ),
    ];
    let locations: String = filters
        .iter()
        .map(|(name, filter)| {
            format!("location /{name}/ {{ proxy_pass http://127.0.0.1:%origin%/; {filter} }}\n")
        })
        .collect();
    let server = site.serve(&format!(
        "default_type text/plain; root html;
         server {{ listen 127.0.0.1:%origin%; gzip_static always; }}
         server {{ listen 127.0.0.1:%plain%; gunzip on; proxy_buffering off;
             sub_filter_types *; sub_filter_once off; addition_types *;
             proxy_set_header Accept-Encoding \"\";
             location /tail {{ }} {locations} }}"
    ));
    let text = String::from_utf8(plain).expect("digits");
    let replaced = text.replace("abc", "ABCDEF");
    for (name, _) in filters {
        let expected = match name {
            "sub" => replaced.clone(),
            "all" => format!("{replaced}the end"),
            _ => text.clone(),
        };
        // Decompressed for one client, compressed for the other.
        for (file, compressed) in [("t.txt", &[][..]), ("plain.txt", &["--compressed"][..])] {
            let url = format!("http://127.0.0.1:{}/{name}/{file}", server.port("plain"));
            let mut arguments = vec!["-s", "--max-time", "50", &url];
            arguments.extend(compressed);
            let got = command("curl", &arguments, b"").success().text();
            assert!(
                got == expected,
                "{name} {compressed:?}: {} bytes",
                got.len()
            );
        }
    }
}

/// The same for answers that become parts of other bodies, and for bodies that those are put
/// around.
#[test]
fn answers_without_buffers_become_parts() {
    let site = Site::new();
    let mut random = sealane_tests::random::Random::new(11);
    let text: String = random
        .bytes(150_000)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let short = &text[..3000];
    site.write("html/text", &text);
    site.write("html/short", short);
    site.write("html/empty", "");
    site.write("html/word", "word");
    site.write(
        "html/include",
        "[<!--# include virtual=\"/plain/text\" --><!--# include virtual=\"/sub/text\" -->]",
    );
    // More than the buffer, less than a variable may have.
    site.write(
        "html/set",
        "<!--# include virtual=\"/small/short\" set=\"x\" -->[<!--# echo var=\"x\" -->]",
    );
    let server = site.serve(
        "default_type text/plain; root html; addition_types *; ssi_types *; gzip_types *;
         gzip_proxied any; sub_filter_types *; sub_filter_once off;
         server { listen 127.0.0.1:%origin%; }
         server { listen 127.0.0.1:%plain%; proxy_buffering off; proxy_buffer_size 4k;
             location /plain/ { proxy_pass http://127.0.0.1:%origin%/; }
             location /sub/ { sub_filter abc ABCDEF; proxy_pass http://127.0.0.1:%origin%/; }
             location /small/ { proxy_buffer_size 1k; proxy_pass http://127.0.0.1:%origin%/; }
             location /around/ { add_before_body /plain/text; add_after_body /sub/text;
                                 proxy_pass http://127.0.0.1:%origin%/; }
             location /files/ { add_before_body /plain/text; add_after_body /sub/text;
                                gzip on; alias html/; }
             location /ssi/ { ssi on; alias html/; }
             location /passed/ { ssi on; gzip on; add_after_body /plain/text;
                                 proxy_pass http://127.0.0.1:%origin%/; } }",
    );
    let replaced = text.replace("abc", "ABCDEF");
    for (path, expected) in [
        ("/around/word", format!("{text}word{replaced}")),
        ("/around/text", format!("{text}{text}{replaced}")),
        ("/files/word", format!("{text}word{replaced}")),
        ("/files/text", format!("{text}{text}{replaced}")),
        ("/ssi/include", format!("[{text}{replaced}]")),
        ("/ssi/set", format!("[{short}]")),
        ("/passed/text", format!("{text}{text}")),
        ("/passed/include", format!("[{text}{replaced}]{text}")),
        ("/passed/set", format!("[{short}]{text}")),
    ] {
        let url = format!("http://127.0.0.1:{}{path}", server.port("plain"));
        for compressed in [&[][..], &["--compressed"][..]] {
            let mut arguments = vec!["-s", "--max-time", "50", &url];
            arguments.extend(compressed);
            let got = command("curl", &arguments, b"").text();
            assert!(
                got == expected,
                "{path} {compressed:?}: {} bytes of {}",
                got.len(),
                expected.len()
            );
        }
    }
}
