//! The same requests over HTTP/3 to nginx and to Sealane get the same answers.
//!
//! `scripts/peers/build-nginx.sh` builds an nginx that has HTTP/3.

use sealane_tests::nginx_has_http3;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::quic::{
    QUIC_CERTIFICATE, QuicClient, QuicRequest, QuicResponse, QuicScript, quic_site,
};
use sealane_tests::random::Random;
use std::net::{Ipv4Addr, SocketAddr};

/// A server block on the port of this name.
fn block(port: &str, origin: u16) -> String {
    format!(
        "keepalive_requests 100000;
         server {{ listen 127.0.0.1:%plain{port}%; return 200; }}
         server {{
           listen 127.0.0.1:%{port}% quic; server_name localhost; root html; {QUIC_CERTIFICATE}
           add_header X-Always yes always; absolute_redirect off; expires max;
           error_page 404 /errors/404.html;
           location /moved/ {{ return 301 /sub/; }}
           location /text {{ return 200 \"$request_method $uri|$args|$http_x_one|$cookie_b|$host|$scheme|$server_protocol|$http3\"; }}
           location /nothing {{ return 204; }}
           location /denied {{ return 403; }}
           location /list/ {{ alias html/sub/; autoindex on; }}
           location /try/ {{ try_files $uri /a.txt =404; }}
           location /dead/ {{ proxy_pass http://127.0.0.1:1; }}
           location /small/ {{ client_max_body_size 10; proxy_pass http://127.0.0.1:{origin}; }}
           location /origin/ {{ proxy_pass http://127.0.0.1:{origin}; }}
           location /pages/ {{ alias html/; gzip on; gzip_min_length 1; }}
         }}"
    )
}

/// What must be the same of a response.
fn comparable(response: &QuicResponse) -> (u16, Vec<(String, String)>, Option<String>) {
    let is_error_page = response.status >= 300 && response.header("content-length") != Some("4");
    let mut headers = response.headers.clone();
    headers.retain(|(name, _)| {
        // The names of the servers, and the time.
        // Error pages contain the names of servers.
        let differs = matches!(name.as_str(), "server" | "date" | "alt-svc")
            || (is_error_page && name == "content-length");
        !differs
    });
    for (_, value) in &mut headers {
        if let Some(at) = value.find("boundary=") {
            value.truncate(at);
        }
    }
    headers.sort();
    // nginx adds its own twice where a range cannot be met.
    headers.dedup();
    // Parts of a multipart response contain its boundary; gzip is another implementation.
    let is_own = response.status == 206 || response.header("content-encoding").is_some();
    let body = (!is_error_page && !is_own).then(|| response.sha256.clone());
    (response.status, headers, body)
}

fn requests() -> Vec<(String, QuicRequest)> {
    let paths = [
        "/a.txt",
        "/empty",
        "/big.bin",
        "/none",
        "/sub",
        "/sub/",
        "/list/",
        "/moved/x",
        "/text?q=1&r",
        "/text/%41%2f..",
        "/nothing",
        "/denied",
        "/try/what",
        "/dead/",
        "/origin/x?y",
        "/pages/page.html",
        "/%zz",
        "/../..",
        "//a.txt",
    ];
    let conditions: [&[(&str, &str)]; 5] = [
        &[],
        &[("range", "bytes=10-20")],
        &[("range", "bytes=999999-")],
        &[("if-modified-since", "Thu, 01 Jan 2099 00:00:00 GMT")],
        &[
            ("accept-encoding", "gzip"),
            ("x-one", "two"),
            ("cookie", "a=1; b=2"),
        ],
    ];
    let mut all = Vec::new();
    for method in ["GET", "HEAD", "POST", "OPTIONS"] {
        for path in paths {
            for fields in conditions {
                let mut request = QuicRequest::new(method, path);
                for (name, value) in fields {
                    request = request.header(name, value);
                }
                all.push((format!("{method} {path} {fields:?}"), request));
            }
        }
    }
    for bytes in [0, 5, 50, 100_000] {
        for path in ["/small/", "/origin/", "/a.txt"] {
            let request = QuicRequest::new("POST", path).body(bytes);
            all.push((format!("POST {path} of {bytes} bytes"), request));
        }
    }
    all
}

#[test]
fn answers_are_those_of_nginx() {
    if !nginx_has_http3() {
        sealane_needs::leave_out("nginx has no HTTP/3 (scripts/peers/build-nginx.sh)");
        return;
    }
    let site = quic_site();
    site.write("html/big.bin", Random::new(5).bytes(300_000));
    site.write("html/sub/index.html", "<p>sub</p>");
    site.write("html/page.html", "<p>page</p>".repeat(500));
    site.write("html/errors/404.html", "gone");
    let origin = Origin::answering(|asked| {
        let line = asked
            .text()
            .lines()
            .next()
            .unwrap_or_default()
            .replace("HTTP/1.1", "HTTP/1.0");
        let body = format!("{line} {}", asked.body.len());
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nX-Origin: yes\r\nContent-Length: {length}\r\n\r\n");
        let body = if line.starts_with("HEAD") {
            String::new()
        } else {
            body
        };
        Answer::SendAndClose(format!("{head}{body}").into_bytes())
    });
    let ours = site.serve_with("pid logs/ours.pid;", "", &block("ours", origin.port()));
    let theirs = site.serve_by_nginx(&block("theirs", origin.port()));
    let all = requests();
    let ask = |port: u16| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let requests = all.iter().map(|(_, request)| request.clone());
        let script = QuicScript::new(address, &site.authority()).requests(requests);
        QuicClient::Aioquic.run_one(&script).responses
    };
    let (ours, theirs) = (ask(ours.port("ours")), ask(theirs.port("theirs")));
    let mut different = Vec::new();
    for (((what, _), ours), theirs) in all.iter().zip(&ours).zip(&theirs) {
        let (ours, theirs) = (comparable(ours), comparable(theirs));
        if ours != theirs {
            different.push(format!("{what}\n  ours:   {ours:?}\n  nginx's: {theirs:?}"));
        }
    }
    assert!(
        different.is_empty(),
        "{} of {}:\n{}",
        different.len(),
        all.len(),
        different.join("\n")
    );
}
