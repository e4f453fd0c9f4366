//! Filters that compress bodies, and every pair of filters.

use super::files::some_files;
use super::{Files, compare, compare_http};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

fn compressed_files(files: &Files) {
    some_files(files);
    let long: Vec<u8> = (0..30_000u32).flat_map(|n| n.to_le_bytes()).collect();
    let two = [gzip(b"first "), gzip(b"second")].concat();
    files
        .file("long.txt.gz", gzip(&long))
        .file("two.txt.gz", two)
        .file("none.txt.gz", gzip(b""))
        .file("bomb.txt.gz", gzip(&vec![b'x'; 3 << 20]))
        .file("bare.txt.gz", b"");
}

#[test]
fn decompressed_files() {
    compare_http(
        "gunzip on; gzip_vary on;",
        "gzip_static always; location /off/ { alias DIR/; gunzip off; }",
        compressed_files,
        &[
            "GET /long.txt",
            "GET /long.txt|Accept-Encoding: gzip",
            "GET /long.txt|Accept-Encoding: gzip;q=0",
            "GET /long.txt|Range: bytes=0-9",
            "GET /long.txt|If-None-Match: \"x\"",
            "HEAD /long.txt",
            "GET /two.txt",
            "GET /none.txt",
            "GET /bomb.txt",
            "GET /off/two.txt",
            "GET /a.txt",
        ],
    );
}

#[test]
fn compressed_responses() {
    compare_http(
        "gzip on; gzip_vary on; gzip_min_length 3;",
        "location /types/ { alias DIR/; gzip_types text/plain; gzip_comp_level 9; }
         location /all/ { alias DIR/; gzip_types *; add_header X y; expires 1h; }
         location /long/ { alias DIR/; gzip_types *; gzip_min_length 50; gzip_vary off; }
         location /off/ { alias DIR/; gzip off; }
         location /403 { return 403; }
         location /404 { gzip_types *; default_type text/x; return 404 'not there'; }
         location /500 { return 500; }
         location /204 { return 204; }
         location /200 { default_type text/html; return 200 'a short text'; }
         location /none { default_type text/html; return 200 ''; }
         location /charset { default_type 'text/html; charset=x'; return 200 'a short text'; }
         location /redirect { return 301 /x; }
         error_page 503 /all/a.txt; location /503 { return 503; }
         error_page 502 =200 /all/a.txt; location /502 { return 502; }",
        |files| {
            some_files(files);
            files.file("page.html", "<html>some text</html>".repeat(50));
            files.file("empty.html", b"");
            let long: Vec<u8> = (0..30_000u32).flat_map(|n| n.to_le_bytes()).collect();
            files.file("numbers.txt", long);
        },
        &[
            "GET /page.html|Accept-Encoding: gzip",
            "GET /page.html|Accept-Encoding: deflate, GZIP;q=0.5",
            "GET /page.html|Accept-Encoding: gzip;q=0",
            "GET /page.html|Accept-Encoding: gzipx, gzip",
            "GET /page.html|Accept-Encoding: br",
            "GET /page.html",
            "GET /page.html|Accept-Encoding: gzip|Via: 1.1 x",
            "GET /page.html|Accept-Encoding: gzip|Range: bytes=3-9",
            "GET /page.html|Range: bytes=3-9",
            "GET /page.html|Accept-Encoding: gzip|If-None-Match: \"x\"",
            "GET /page.html|Accept-Encoding: gzip|If-None-Match: *",
            "GET /page.html|Accept-Encoding: gzip|If-Modified-Since: Sun, 06 Nov 2050 08:49:37 GMT",
            "HEAD /page.html|Accept-Encoding: gzip",
            "HEAD /page.html",
            "GET /empty.html|Accept-Encoding: gzip",
            "GET /numbers.txt|Accept-Encoding: gzip",
            "GET /types/numbers.txt|Accept-Encoding: gzip",
            "GET /types/page.html|Accept-Encoding: gzip",
            "GET /all/numbers.txt|Accept-Encoding: gzip",
            "GET /all/numbers.txt",
            "HEAD /all/numbers.txt|Accept-Encoding: gzip",
            "GET /all/a.txt|Accept-Encoding: gzip",
            "GET /long/a.txt|Accept-Encoding: gzip",
            "GET /long/numbers.txt|Accept-Encoding: gzip",
            "GET /off/page.html|Accept-Encoding: gzip",
            "GET /403|Accept-Encoding: gzip",
            "GET /404|Accept-Encoding: gzip",
            "GET /missing|Accept-Encoding: gzip",
            "GET /500|Accept-Encoding: gzip",
            "GET /204|Accept-Encoding: gzip",
            "GET /200|Accept-Encoding: gzip",
            "HEAD /200|Accept-Encoding: gzip",
            "GET /none|Accept-Encoding: gzip",
            "GET /charset|Accept-Encoding: gzip",
            "GET /redirect|Accept-Encoding: gzip",
            "GET /502|Accept-Encoding: gzip",
            "GET /503|Accept-Encoding: gzip",
        ],
    );
}

#[test]
fn who_gets_gzip() {
    let agents = [
        "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
        "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)",
        "Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.1)",
        "Mozilla/4.0 (compatible; MSIE 6.0; Opera 7.0)",
        "OLDbrowser/1",
        "other/1",
    ];
    let paths = [
        "/off/",
        "/any/",
        "/auth/",
        "/expired/",
        "/cache/",
        "/unsaid/",
        "/disable/",
        "/mixed/",
    ];
    let said = [
        "plain", "past", "future", "no-cache", "no-store", "private", "public",
    ];
    let mut requests = Vec::new();
    for path in paths {
        for file in said {
            requests.push(format!("GET {path}{file}|Accept-Encoding: gzip|Via: 1.1 x"));
        }
        requests.push(format!(
            "GET {path}plain|Accept-Encoding: gzip|Via: 1.1 x|Authorization: Basic eDp5"
        ));
        requests.push(format!("GET {path}a.txt|Accept-Encoding: gzip|Via: 1.1 x"));
        for agent in agents {
            requests.push(format!(
                "GET {path}plain|Accept-Encoding: gzip|User-Agent: {agent}"
            ));
        }
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let answers = "default_type text/html; alias DIR/;
         location ~ /plain$ { return 200 'a text to be compressed'; }
         location ~ /past$ { expires -1; return 200 'a text to be compressed'; }
         location ~ /future$ { expires 1h; return 200 'a text to be compressed'; }
         location ~ /(no-cache|no-store|private|public)$ {
             add_header Cache-Control 'x=y, $1'; return 200 'a text to be compressed'; }";
    let server = [
        ("off", "gzip_proxied off any;"),
        ("any", "gzip_proxied any; gzip_disable msie6 ^old;"),
        ("auth", "gzip_proxied auth;"),
        ("expired", "gzip_proxied expired;"),
        ("cache", "gzip_proxied no-cache no-store private;"),
        ("unsaid", "gzip_proxied no_last_modified no_etag;"),
        ("disable", "gzip_disable msie6; gzip_http_version 1.0;"),
        (
            "mixed",
            "gzip_proxied expired private; gzip_disable ^other ^old;",
        ),
    ]
    .map(|(path, rules)| format!("location /{path}/ {{ {rules} {answers} }}"))
    .concat();
    compare_http(
        "gzip on; gzip_types *; gzip_min_length 0; gzip_vary on;",
        &server,
        some_files,
        &requests,
    );
}

#[test]
fn compressed_files_and_compression() {
    compare_http(
        "gzip on; gzip_types *; gzip_min_length 0;",
        "location / { gzip_static on; }
         location /vary/ { alias DIR/; gzip_static on; gzip_vary on; gunzip on; }
         location /always/ { alias DIR/; gzip_static always; gunzip on; gzip_vary on; }
         location /disable/ { alias DIR/; gzip_static on; gzip_disable old; }
         location /proxied/ { alias DIR/; gzip_static on; gzip_proxied any; }",
        compressed_files,
        &[
            "GET /long.txt|Accept-Encoding: gzip",
            "GET /long.txt|Accept-Encoding: gzip|Range: bytes=0-9",
            "GET /a.txt|Accept-Encoding: gzip",
            "GET /a.txt",
            "GET /vary/two.txt|Accept-Encoding: gzip",
            "GET /vary/a.txt|Accept-Encoding: gzip",
            "GET /vary/a.txt",
            "GET /always/two.txt",
            "GET /always/two.txt|Accept-Encoding: gzip",
            "HEAD /always/two.txt",
            "GET /always/a.txt",
            "GET /disable/two.txt|Accept-Encoding: gzip|User-Agent: very old",
            "GET /disable/two.txt|Accept-Encoding: gzip|User-Agent: new",
            "GET /proxied/two.txt|Accept-Encoding: gzip|Via: 1.1 x",
            "GET /long.txt|Accept-Encoding: gzip|Via: 1.1 x",
        ],
    );
}

/// Filters, for pairs of them: a line for each.
const FILTERS: &[(&str, &str)] = &[
    ("gzip", "gzip on; gzip_types *; gzip_proxied any;"),
    ("gunzip", "gunzip on;"),
    ("static", "gzip_static always;"),
    (
        "sub",
        "sub_filter_types *; sub_filter_once off; sub_filter 56 FIVE;",
    ),
    ("addition", "addition_types *; add_after_body /tail;"),
    ("charset", "charset utf-8;"),
    ("ssi", "ssi on; ssi_types *;"),
    ("ranges", "max_ranges 1;"),
];

#[test]
fn every_pair_of_filters() {
    let mut locations =
        String::from("location = /tail { default_type text/plain; return 200 'tail'; }");
    let mut requests = Vec::new();
    for (at, (first, one)) in FILTERS.iter().enumerate() {
        for (second, other) in &FILTERS[at + 1..] {
            let path = format!("/{first}-{second}/");
            locations.push_str(&format!("location {path} {{ {one} {other} alias DIR/; }}"));
            for rest in [
                "",
                "|Accept-Encoding: gzip",
                "|Range: bytes=2-5",
                "|Accept-Encoding: gzip|Range: bytes=2-5",
                "|If-Modified-Since: Sun, 06 Nov 2050 08:49:37 GMT",
            ] {
                requests.push(format!("GET {path}two.txt{rest}"));
                requests.push(format!("GET {path}a.txt{rest}"));
            }
            requests.push(format!("HEAD {path}a.txt|Accept-Encoding: gzip"));
        }
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare_http(
        "gzip_vary on; gzip_min_length 0;",
        &locations,
        compressed_files,
        &requests,
    );
}

#[test]
fn precompressed_files() {
    compare(
        "location / { gzip_static on; } location /always/ { alias DIR/; gzip_static always; }",
        some_files,
        &[
            "GET /z.txt|Accept-Encoding: gzip",
            "GET /z.txt|Accept-Encoding: br, gzip;q=0.5",
            "GET /z.txt",
            "GET /z.txt|Accept-Encoding: gzip;q=0",
            "HEAD /z.txt|Accept-Encoding: gzip",
            "GET /a.txt|Accept-Encoding: gzip",
            "POST /z.txt|Accept-Encoding: gzip",
            "GET /z.txt|Accept-Encoding: gzip|Range: bytes=0-1",
            "GET /z.txt|Accept-Encoding: gzip|Via: 1.1 x",
            "GET /z.txt|Accept-Encoding: gzip|If-None-Match: \"3b9aca00-f\"",
            "GET /always/z.txt",
            "GET /always/a.txt",
            "GET /z.txt.gz",
            "GET /dir|Accept-Encoding: gzip",
        ],
    );
}
