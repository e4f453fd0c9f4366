//! Pages without what nobody sees, and with something behind them.

use super::{LISTEN, WAYS, curl};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::get;
use sealane_tests::{Certificate, CertificateKey, Site, repository, wait_for};
use std::io::{Read, Write};
use std::net::TcpListener;

const CONFIGURATION: &str = r#"
    types { text/html html; text/plain txt; }
    log_format trimmed "$uri $trim_bytes/$trim_original_bytes";
    access_log logs/trimmed.log trimmed;
    server {
        LISTEN
        location / { trim on; trim_js on; trim_css on; }
        location /markup/ { alias html/; trim on; }
        location /plain/ { alias html/; }
        location /packed/ { alias html/; trim on; trim_js on; trim_css on; gzip on; gzip_min_length 0; }
        location /origin/ { proxy_pass http://127.0.0.1:ORIGIN/; proxy_http_version 1.1; trim on; trim_js on; trim_css on; }
        location /ssi/ { alias html/; ssi on; trim $arg_trim; add_after_body /part.html; }
        location /footer/ { alias html/; footer "<!-- $host  $uri -->"; trim on; gzip on; gzip_min_length 0; }
        location /signed/ { proxy_pass http://127.0.0.1:ORIGIN/; footer "signed"; }
    }
"#;

const NAMES: [&str; 4] = ["forum", "manual", "rendered", "shop"];

fn page(name: &str) -> Vec<u8> {
    let path = repository().join(format!("tests/pages/{name}.html"));
    std::fs::read(path).expect("it lies in the repository")
}

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    for name in NAMES {
        site.write(format!("html/{name}.html"), page(name));
    }
    site.write(
        "html/assembled.html",
        "<pre>  a<!--# include virtual=\"/part.html\" --></pre>  <!-- gone -->  b",
    );
    site.write("html/part.html", "  part  <b>  ");
    site
}

/// Answers with a page of the repository, a byte in each chunk; or with a part of a page.
fn byte_by_byte() -> Origin {
    Origin::answering(|asked| {
        let target = asked.target();
        if target.contains("part") {
            let part = "HTTP/1.1 206 Partial Content\r\nContent-Type: text/html\r\n\
                        Content-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\n<p> ";
            return Answer::Send(part.into());
        }
        let name = target.trim_start_matches('/').trim_end_matches(".html");
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\
            ETag: \"a\"\r\nTransfer-Encoding: chunked\r\n\r\n"
            .to_vec();
        for byte in page(name) {
            answer.extend_from_slice(&[&b"1\r\n"[..], &[byte], b"\r\n"].concat());
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        Answer::Send(answer)
    })
}

fn configuration(origin: u16) -> String {
    let text = CONFIGURATION.replace("LISTEN", LISTEN);
    text.replace("ORIGIN", &origin.to_string())
}

#[test]
fn pages_arrive_trimmed_on_every_way() {
    let (site, origin) = (site(), byte_by_byte());
    let server = site.serve(&configuration(origin.port()));
    for name in NAMES {
        let from = |place: &str, more: &[&str]| {
            let path = format!("{place}{name}.html");
            let all = WAYS.map(|way| curl(&server, &[way, more].concat(), &path));
            assert_eq!(all[0].body, all[1].body, "{path}");
            assert_eq!(all[0].body, all[2].body, "{path}");
            let [response, ..] = all;
            response
        };
        let (whole, trimmed) = (from("/plain/", &[]), from("/", &[]));
        assert_eq!(whole.body, page(name));
        println!(
            "{name}: {} bytes, markup trimmed {}, all trimmed {}",
            whole.body.len(),
            from("/markup/", &[]).body.len(),
            trimmed.body.len()
        );
        assert!(trimmed.body.len() < whole.body.len(), "{name}");
        for (name, expected) in [("content-length", None), ("accept-ranges", None)] {
            assert_eq!(trimmed.header(name), expected, "{name}");
        }
        let etag = trimmed.header("etag").unwrap_or_default().to_owned();
        assert!(etag.starts_with("W/"), "{etag}");
        // The same from memory, in one-byte pieces, compressed, in parts.
        assert_eq!(from("/origin/", &[]).text(), trimmed.text());
        assert_eq!(from("/origin/", &[]).header("etag"), Some("W/\"a\""));
        let packed = from("/packed/", &["--compressed"]);
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        assert_eq!(packed.text(), trimmed.text());
        let part = from("/", &["-HRange: bytes=0-9"]);
        assert_eq!((part.status, part.text()), (200, trimmed.text()));
        let unchanged = from("/", &[&*format!("-HIf-None-Match: {etag}")]);
        assert_eq!(unchanged.status, 304);
        let head = from("/", &["-I"]);
        assert_eq!((head.status, head.header("content-length")), (200, None));
    }
    let whole = curl(&server, WAYS[0], "/shop.html?a=b&http_trim=off");
    assert_eq!(whole.body, page("shop"));
    let lengths = page("shop").len();
    wait_for("the log to say how much was saved", || {
        let log = std::fs::read_to_string(site.path("logs/trimmed.log")).ok()?;
        let is_told =
            |line: &&str| line.starts_with("/shop.html ") && line.ends_with(&format!("/{lengths}"));
        (log.lines().find(is_told).is_some() && log.contains("/plain/shop.html -/-")).then_some(())
    });
}

#[test]
fn pages_are_trimmed_as_they_are_put_together() {
    let (site, origin) = (site(), byte_by_byte());
    let server = site.serve(&configuration(origin.port()));
    let get = |path| curl(&server, WAYS[2], path).text();
    let whole = "<pre>  a  part  <b>  </pre>  <!-- gone -->  b  part  <b>  ";
    assert_eq!(get("/ssi/assembled.html?trim=off"), whole);
    assert_eq!(get("/ssi/assembled.html"), whole);
    // The part is in an element that shows its white space, then it is not.
    let expected = "<pre>  a  part  <b>  </pre> b part <b> ";
    assert_eq!(get("/ssi/assembled.html?trim=on"), expected);
}

#[test]
fn pages_with_a_footer() {
    let (site, origin) = (site(), byte_by_byte());
    let server = site.serve(&configuration(origin.port()));
    let trimmed = get(server.port("plain"), "/markup/part.html").text();
    let expected = format!("{trimmed}<!-- localhost  /footer/part.html -->");
    for way in WAYS {
        for more in [&[][..], &["--compressed"], &["-HRange: bytes=0-1"]] {
            let response = curl(&server, &[way, more].concat(), "/footer/part.html");
            assert_eq!((response.status, response.text()), (200, expected.clone()));
        }
        let signed = curl(&server, way, "/signed/forum.html");
        assert_eq!(signed.body, [&page("forum")[..], b"signed"].concat());
        // What is only a part has no end to put anything at, and no white space is taken from it.
        for place in ["/signed/", "/origin/"] {
            let part = curl(
                &server,
                &[way, &["-HRange: bytes=0-3"]].concat(),
                &format!("{place}part"),
            );
            assert_eq!((part.status, &*part.text()), (206, "<p> "), "{place}");
        }
    }
}

/// Bytes of the page that does not fit.
const LARGE_BYTES: usize = 100 << 20;

/// What a worker may take above what it had before.
const BOUND_KIB: u64 = 24 << 10;

/// An origin that sends one page without end, as fast as it is read: white space, comments, tags,
/// a script, a style.
fn endless() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        // It ends with the process.
        for mut stream in listener.incoming().flatten() {
            let pages = NAMES.map(page).concat();
            let long = [&b"<!-- "[..], &[b' '; 60_000], b"-->", &[b'\n'; 60_000]].concat();
            let piece = [pages, b"-->".to_vec(), long].concat();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
                LARGE_BYTES / piece.len() * piece.len()
            );
            // A client that has gone ends it.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(head.as_bytes());
            for _ in 0..LARGE_BYTES / piece.len() {
                if stream.write_all(&piece).is_err() {
                    break;
                }
            }
        }
    });
    port
}

#[test]
fn a_large_page_takes_no_memory() {
    let site = site();
    let server = site.serve(&configuration(endless()));
    assert_eq!(get(server.port("plain"), "/plain/part.html").status, 200);
    let before_kib = server.resident_kib();
    for way in WAYS {
        server.forget_most_resident();
        let response = curl(
            &server,
            &[
                way,
                &[
                    "-o",
                    "/dev/null",
                    "-w",
                    "HTTP/1.1 200 OK\r\n\r\n%{size_download}",
                ],
            ]
            .concat(),
            "/origin/",
        );
        let trimmed: usize = response.text().parse().expect("a number");
        let most_kib = server.most_resident_kib();
        println!("{trimmed} of {LARGE_BYTES} bytes; {before_kib} KiB before, {most_kib} at most");
        assert!(trimmed > 1 << 20 && trimmed < LARGE_BYTES, "{trimmed}");
        assert!(most_kib < before_kib + BOUND_KIB, "{most_kib} KiB");
    }
}
