//! Real clients: curl, openssl, Go.

use super::*;
use sealane_tests::{Certificate, CertificateKey, command, go_client, sha256, sha256_of_output};

/// A proxy, plain and over TLS, with an HTTPS server to reach through it.
fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    site.write("passwords", "user:{PLAIN}pass\n");
    site
}

const CERTIFICATE: &str = "ssl_certificate certificates/localhost.pem;
                           ssl_certificate_key certificates/localhost.key;";

fn serve(site: &Site) -> Server<'_> {
    site.serve(&format!(
        "{ALLOW} {CERTIFICATE}
         server {{ listen 127.0.0.1:%origin% ssl; root html; }}
         server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; http2 on; tunnel_pass; }}
         server {{ listen 127.0.0.1:%password%; tunnel_pass; auth_basic realm;
                   auth_basic_user_file passwords; }}
         server {{ listen 127.0.0.1:%old%; proxy_connect; proxy_connect_allow all;
                   proxy_connect_allow_addresses 127.0.0.1; }}"
    ))
}

#[test]
fn curl_fetches_through_a_proxy_with_and_without_tls() {
    let site = site();
    let content: Vec<u8> = (0..5_000_000_u32).map(|at| (at / 5) as u8).collect();
    site.write("html/large", &content);
    let server = serve(&site);
    let url = format!("https://127.0.0.1:{}/large", server.port("origin"));
    let authority = site.authority().display().to_string();
    for scheme in ["http", "https"] {
        let port = if scheme == "http" { "plain" } else { "tls" };
        let proxy = format!("{scheme}://localhost:{}", server.port(port));
        let arguments = [
            "-sS",
            "--cacert",
            &authority,
            "--proxy-cacert",
            &authority,
            "-x",
            &proxy,
            &url,
        ];
        let got = sha256_of_output("curl", &arguments);
        assert_eq!(got, sha256(&content), "{proxy}");
    }
}

#[test]
fn curl_opens_a_tunnel_on_a_stream_of_http2() {
    let options = command("curl", &["--help", "all"], b"").success().text();
    if !options.contains("--proxy-http2") {
        return sealane_needs::leave_out("this curl has no --proxy-http2 (8.1 and newer have it)");
    }
    let site = site();
    site.write("html/page", "a page");
    let server = serve(&site);
    let proxy = format!("https://localhost:{}", server.port("tls"));
    let url = format!("https://127.0.0.1:{}/page", server.port("origin"));
    let arguments = [
        "-sk",
        "--proxy-insecure",
        "--proxy-http2",
        "-x",
        &proxy,
        &url,
    ];
    assert_eq!(command("curl", &arguments, b"").success().text(), "a page");
}

#[test]
fn curl_is_asked_for_a_password() {
    let site = site();
    site.write("html/file", "the file");
    let server = serve(&site);
    let url = format!("https://127.0.0.1:{}/file", server.port("origin"));
    let authority = site.authority().display().to_string();
    let proxy = format!("http://127.0.0.1:{}", server.port("password"));
    let fetch = |more: &[&str]| {
        let common = ["-sS", "--cacert", &authority, "-x", &proxy, &url];
        command("curl", &[&common[..], more].concat(), b"")
    };
    let refused = fetch(&[]);
    assert!(
        refused.stderr.contains("response 407"),
        "{}",
        refused.stderr
    );
    assert_eq!(fetch(&["-U", "user:pass"]).success().text(), "the file");
    let asking = ["-U", "user:pass", "--proxy-anyauth"];
    assert_eq!(fetch(&asking).success().text(), "the file");
    let wrong = fetch(&["-U", "user:wrong"]);
    assert!(wrong.stderr.contains("response 407"), "{}", wrong.stderr);
}

/// It speaks HTTP/1.0 with proxies, which `tunnel_pass` refuses as in nginx.
#[test]
fn openssl_connects_through_proxy_connect() {
    let site = site();
    site.write("html/file", "the file");
    let server = serve(&site);
    let connect = format!("127.0.0.1:{}", server.port("origin"));
    let authority = site.authority().display().to_string();
    let run = |port: &str| {
        let proxy = format!("127.0.0.1:{}", server.port(port));
        let arguments = [
            "s_client",
            "-proxy",
            &proxy,
            "-connect",
            &connect,
            "-CAfile",
            &authority,
            "-quiet",
            "-verify_return_error",
            "-servername",
            "localhost",
            "-ign_eof",
        ];
        let request = b"GET /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        command("openssl", &arguments, request)
    };
    assert!(run("old").text().ends_with("the file"));
    assert!(!run("plain").text().contains("the file"));
    server.wait_for_log("client sent CONNECT method while reading client request headers");
}

#[test]
fn go_opens_a_tunnel_on_a_stream_of_http2() {
    let site = site();
    let server = serve(&site);
    // Says something after it has heard the end.
    let far = Far::at(Ipv4Addr::LOCALHOST, |mut socket| {
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = socket.read(&mut piece) {
            all.extend_from_slice(&piece[..count]);
            let _ = socket.write_all(&piece[..count]);
        }
        let _ = write!(socket, "{} bytes", all.len());
    });
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let authority = site.authority().display().to_string();
    let target = format!("127.0.0.1:{}", far.port);
    let arguments = [
        "connect", "-address", &address, "-ca", &authority, &target, "one ", "two",
    ];
    let said = go_client(&arguments, b"").success().text();
    assert_eq!(said, "HTTP/2.0 200\none two\n7 bytes\n");
    let forbidden = [
        "connect",
        "-address",
        &address,
        "-ca",
        &authority,
        "10.0.0.1:443",
        "x",
    ];
    let said = go_client(&forbidden, b"").success().text();
    assert_eq!(said, "HTTP/2.0 403\n");
}
