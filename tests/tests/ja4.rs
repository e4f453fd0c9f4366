//! `$ssl_ja4`: what openssl and Chromium offer, as the log shows it.

use sealane_tests::{Certificate, CertificateKey, Site, browse, command, wait_for};

#[test]
fn a_client_has_one_fingerprint_and_another_client_another() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.write("html/index.html", "hello");
    let server = site.serve(
        "log_format ja4 $ssl_ja4; access_log logs/ja4.log ja4;
         server { listen 127.0.0.1:%tls% ssl; http2 on;
             ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key; }",
    );
    let lines = || {
        let log = std::fs::read_to_string(site.path("logs/ja4.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let next = |ask: &dyn Fn()| {
        let before = lines().len();
        ask();
        wait_for("a line of the log", || {
            let now = lines();
            (now.len() > before).then(|| now[before].clone())
        })
    };
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let openssl = |options: &str| {
        next(&|| {
            let mut arguments = vec!["s_client", "-connect", &address, "-ign_eof"];
            arguments.extend(options.split_whitespace());
            let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            command("openssl", &arguments, request);
        })
    };
    let plain = openssl("-tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256 -noservername");
    // One suite, and the one that means renegotiation (RFC 5746).
    assert!(plain.starts_with("t13i02"), "{plain}");
    assert!(
        plain[..11].ends_with("00_"),
        "no application protocol: {plain}"
    );
    let again = openssl("-tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256 -noservername");
    assert_eq!(plain, again);
    let named = openssl(
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256 -servername localhost -alpn http/1.1",
    );
    assert!(
        named.starts_with("t12d02"),
        "with the signalling suite: {named}"
    );
    assert!(named[..11].ends_with("h1_"), "{named}");
    // Chromium shuffles its extensions and adds GREASE: each connection looks different.
    let url = format!("https://localhost:{}/", server.port("tls"));
    let browser = || next(&|| drop(browse(&site, &url)));
    let (first, second) = (browser(), browser());
    assert_eq!(first, second);
    assert!(
        first.starts_with("t13d") && first[..11].ends_with("h2_"),
        "{first}"
    );
}
