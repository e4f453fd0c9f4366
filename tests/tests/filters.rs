//! Filters of bodies: every two of them, on whatever answers, and on bodies that are broken or
//! have no end.

#[path = "filters/broken.rs"]
mod broken;
#[path = "filters/endless.rs"]
mod endless;
#[path = "filters/odd.rs"]
mod odd;
#[path = "filters/pairs.rs"]
mod pairs;

use flate2::Compression;
use flate2::write::GzEncoder;
use sealane_tests::{Site, command, wait_for, wire};
use std::io::Write;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
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

/// `$zstd_bytes_in` and `$zstd_bytes_out` are known once the response is complete.
#[test]
fn what_compression_has_made_of_a_body_is_logged() {
    let site = Site::new();
    site.write("html/text.txt", "a text. ".repeat(1000));
    let server = site.serve(
        "log_format sizes '$uri $zstd_bytes_in $zstd_bytes_out $body_bytes_sent $brotli_ratio';
         access_log logs/sizes.log sizes;
         types { text/plain txt; }
         server { listen 127.0.0.1:%plain%; root html; zstd on; zstd_types text/plain; }",
    );
    let port = server.port("plain");
    let zipped = wire::get_with(port, "/text.txt", "Accept-Encoding: zstd\r\n");
    assert_eq!(zipped.header("Content-Encoding"), Some("zstd"));
    assert_eq!(wire::get(port, "/text.txt").body.len(), 8000);
    let log = wait_for("two lines", || {
        let log = std::fs::read_to_string(site.path("logs/sizes.log")).ok()?;
        (log.lines().count() == 2).then_some(log)
    });
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
    let [.., input, output, sent, brotli] = lines[0][..] else {
        panic!("{log}");
    };
    assert_eq!((input, brotli), ("8000", "-"), "{log}");
    // What was sent has the lines of chunks as well.
    assert_eq!(output.parse(), Ok(zipped.body.len()), "{log}");
    assert!(
        sent.parse::<usize>()
            .is_ok_and(|sent| sent > zipped.body.len()),
        "{log}"
    );
    assert_eq!(lines[1][1..3], ["-", "-"], "{log}");
}
