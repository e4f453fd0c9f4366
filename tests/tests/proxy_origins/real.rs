//! Origins that others have written.

use super::fetch;
use sealane_tests::random::Random;
use sealane_tests::wire::{self, Connection};
use sealane_tests::{Application, Site, command, http2, sha256, sha256_of_output};

#[test]
fn gunicorn() {
    let site = Site::new();
    let _application = Application::gunicorn(&site, "127.0.0.1:%gunicorn%");
    let server = site.serve(
        "upstream app { server 127.0.0.1:%gunicorn%; keepalive 4; }
         server {
             http2 on; listen 127.0.0.1:%plain%; client_max_body_size 0;
             proxy_http_version 1.1; proxy_set_header Connection '';
             location / { proxy_pass http://app; }
             location /closing/ { proxy_pass http://app/; proxy_set_header Connection close; }
             location /closing/unbuffered/ {
                 proxy_pass http://app/; proxy_set_header Connection close; proxy_buffering off;
             }
             location /unbuffered/ { proxy_pass http://app/; proxy_buffering off; proxy_request_buffering off; }
         }",
    );
    let port = server.port("plain");
    let upload = Random::new(5).bytes(3 << 20);
    let digest = sha256(&upload);
    let file = site.write("upload.bin", &upload).display().to_string();
    for place in ["", "/unbuffered"] {
        let mut client = Connection::open(port);
        let mut ask = |path: &str| {
            client.send(format!(
                "GET {place}{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ));
            client.response(false)
        };
        let pieces: String = (0..20).map(|number| format!("piece {number}\n")).collect();
        let response = ask("/pieces");
        assert_eq!((response.status, response.text()), (200, pieces.clone()));
        assert_eq!(ask("/nothing").status, 204);
        assert_eq!(ask("/error").status, 500);
        assert_eq!(ask("/a-b?c").text(), "GET /a-b?c");
        let response = http2::Client::open(port, &[]).fetch(&format!("{place}/pieces"));
        assert_eq!((response.status, response.body), (200, pieces.into_bytes()));
        for path in ["/broken", "/short"] {
            // Both end before their time, and the client can tell.
            let path = format!("/closing{place}{path}");
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            let response = String::from_utf8_lossy(&fetch(port, request.as_bytes())).into_owned();
            assert!(response.starts_with("HTTP/1.1 200"), "{path}: {response}");
            assert!(!response.ends_with("0\r\n\r\n"), "{path}: {response}");
            let response = http2::Client::open(port, &[]).fetch(&path);
            assert_eq!(
                (response.status, response.reset.is_some()),
                (200, true),
                "{path}"
            );
        }
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            for framing in ["Expect:", "Transfer-Encoding: chunked"] {
                let url = format!("http://localhost:{port}{place}/digest");
                let arguments = [
                    "-sS", version, "-H", framing, "-X", "POST", "-T", &file, &url,
                ];
                let answer = command("curl", &arguments, b"").success().text();
                assert_eq!(answer, digest, "{url} {version} {framing}");
            }
        }
    }
}

#[test]
fn nginx() {
    let origin = Site::new();
    origin.write("html/a.txt", "0123456789");
    let large = Random::new(6).bytes(5 << 20);
    origin.write("html/large.bin", &large);
    let behind = origin.serve_by_nginx(
        "server { listen 127.0.0.1:%origin%; root html;
                  location /moved { return 301 /a.txt; }
                  location /slow/ { alias html/; limit_rate 5m; } }",
    );
    let site = Site::new();
    let server = site.serve(
        &"upstream nginx { server 127.0.0.1:ORIGIN; keepalive 4; }
          server { listen 127.0.0.1:%plain%; http2 on;
                   proxy_http_version 1.1; proxy_set_header Connection '';
                   location / { proxy_pass http://nginx; } }"
            .replace("ORIGIN", &behind.port("origin").to_string()),
    );
    let port = server.port("plain");
    let mut client = Connection::open(port);
    let mut ask = |method: &str, path: &str, lines: &str| {
        client.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"
        ));
        client.response(method == "HEAD")
    };
    let whole = ask("GET", "/a.txt", "");
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"));
    let tag = whole.header("etag").expect("nginx sends one").to_owned();
    let direct = wire::get(behind.port("origin"), "/a.txt");
    for name in ["etag", "last-modified", "content-type", "accept-ranges"] {
        assert_eq!(whole.header(name), direct.header(name), "{name}");
    }
    let part = ask("GET", "/a.txt", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "234"));
    assert_eq!(
        ask("GET", "/a.txt", &format!("If-None-Match: {tag}\r\n")).status,
        304
    );
    let head = ask("HEAD", "/a.txt", "");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("10"))
    );
    assert_eq!(ask("GET", "/moved", "").status, 301);
    assert_eq!(ask("GET", "/missing", "").status, 404);
    let digest = sha256(&large);
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for path in ["/large.bin", "/slow/large.bin"] {
            let url = format!("http://localhost:{port}{path}");
            let got = sha256_of_output("curl", &["-sS", version, &url]);
            assert_eq!(got, digest, "{url} {version}");
        }
    }
}
