//! Filters of bodies: the same configuration, files and requests for Debian's nginx and for the
//! pipeline.

use super::differential::{compare_http, some_files};
use crate::testing::Site;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

fn compressed_files(site: &Site) {
    some_files(site);
    let long: Vec<u8> = (0..30_000u32).flat_map(|n| n.to_le_bytes()).collect();
    let two = [gzip(b"first "), gzip(b"second")].concat();
    site.file("long.txt.gz", gzip(&long))
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
