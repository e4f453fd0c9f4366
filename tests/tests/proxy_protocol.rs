//! `listen ... proxy_protocol`: headers of both versions before everything else, and what
//! they tell.

use sealane_tests::wire::Connection;
use sealane_tests::{Certificate, CertificateKey, Relay, Server, Site, command};

const TOLD: &str = r#"return 200 "$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port $remote_addr";"#;

const V1: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.7 1234 443\r\n";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Whether nginx itself is under test, which wants a header in one piece.
fn is_nginx() -> bool {
    std::env::var_os("SEALANE_BINARY").is_some_and(|path| path.to_string_lossy().contains("nginx"))
}

/// A header of version 2.
fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend_from_slice(&[0x20 | command, family]);
    header.extend_from_slice(&u16::try_from(content.len()).expect("short").to_be_bytes());
    header.extend_from_slice(content);
    header
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut tlv = vec![kind];
    tlv.extend_from_slice(&u16::try_from(value.len()).expect("short").to_be_bytes());
    tlv.extend_from_slice(value);
    tlv
}

/// 192.0.2.1:1234 to 198.51.100.7:443.
const BLOCK_V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 7, 0x04, 0xd2, 0x01, 0xbb];

fn told(port: u16, header: &[u8]) -> String {
    let mut connection = Connection::open(port);
    connection.send([header, REQUEST].concat());
    let answer = connection.response(false);
    assert_eq!(answer.status, 200, "{}", header.escape_ascii());
    answer.text()
}

#[test]
fn headers_of_both_versions() {
    let site = Site::new();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain% proxy_protocol; {TOLD} }}"
    ));
    let port = server.port("plain");
    let v4 = "192.0.2.1 1234 198.51.100.7 443 127.0.0.1";
    let nothing = "    127.0.0.1";
    let mut block_v6 = [0; 36];
    (block_v6[15], block_v6[31], block_v6[33], block_v6[35]) = (1, 2, 80, 81);
    for (header, expected) in [
        (V1.to_vec(), v4),
        (
            b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n".to_vec(),
            "2001:db8::1 1 ::1 65535 127.0.0.1",
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), nothing),
        (b"PROXY UNKNOWN ffff:f ::1 1 2\r\n".to_vec(), nothing),
        (binary(1, 0x11, &BLOCK_V4), v4),
        (
            binary(1, 0x11, &[&BLOCK_V4[..], &tlv(4, &[0; 300])].concat()),
            v4,
        ),
        (binary(1, 0x21, &block_v6), "::1 80 ::2 81 127.0.0.1"),
        // Health checks of the proxy, datagrams, unix sockets: the connection itself.
        (binary(0, 0x00, b""), nothing),
        (binary(0, 0x11, &BLOCK_V4), nothing),
        (binary(1, 0x12, &BLOCK_V4), nothing),
        (binary(1, 0x31, &[0; 216]), nothing),
        (binary(1, 0x00, b""), nothing),
    ] {
        assert_eq!(told(port, &header), expected, "{}", header.escape_ascii());
    }
}

#[test]
fn the_header_holds_for_the_connection() {
    let site = Site::new();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain% proxy_protocol; {TOLD} }}"
    ));
    let mut connection = Connection::open(server.port("plain"));
    connection.send(V1);
    for _ in 0..3 {
        connection.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(
            connection
                .response(false)
                .text()
                .starts_with("192.0.2.1 1234 ")
        );
    }
    // A second one is no request.
    connection.send(b"PROXY TCP4 192.0.2.2 198.51.100.7 1234 443\r\n\r\n");
    assert_eq!(connection.response(false).status, 400);
}

#[test]
fn headers_that_come_in_pieces() {
    if is_nginx() {
        return sealane_needs::leave_out("this is not about nginx");
    }
    let site = Site::new();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain% proxy_protocol; {TOLD} }}"
    ));
    let with_tlv = binary(1, 0x11, &[&BLOCK_V4[..], &tlv(2, b"name")].concat());
    for header in [V1, &with_tlv[..]] {
        let mut connection = Connection::open(server.port("plain"));
        for byte in [header, REQUEST].concat() {
            connection.send([byte]);
            std::thread::yield_now();
        }
        assert!(
            connection
                .response(false)
                .text()
                .starts_with("192.0.2.1 1234 ")
        );
    }
}

#[test]
fn broken_headers_get_no_answer() {
    let site = Site::new();
    let server = site.serve(&format!(
        "client_header_timeout 2s; server {{ listen 127.0.0.1:%plain% proxy_protocol; {TOLD} }}"
    ));
    let broken = |header: &[u8]| {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(header);
        assert!(connection.is_closed(), "{}", header.escape_ascii());
    };
    broken(REQUEST);
    let line = server.wait_for_log(
        "broken header: \"GET / HTTP/1.1\" while reading PROXY protocol, client: 127.0.0.1",
    );
    assert!(line.contains("[error]"), "{line}");
    broken(b"PROXY TCP4 192.0.2.1 198.51.100.7 1234\r\nGET / HTTP/1.1\r\n\r\n");
    server.wait_for_log("broken header: \"PROXY TCP4 192.0.2.1 198.51.100.7 1234\"");
    broken(b"PROXY TCP5 192.0.2.1 198.51.100.7 1234 443\r\n");
    broken(b"PROXY TCP4 192.0.2.1 198.51.100.7 1234 70000\r\n");
    broken(&[b'x'; 4000]);
    broken(&binary(1, 0x11, &BLOCK_V4[..11]));
    let mut version_1 = binary(1, 0x11, &BLOCK_V4);
    version_1[12] = 0x11;
    broken(&version_1);
    let line = server.wait_for_log("unknown PROXY protocol version: 1");
    assert!(
        line.contains("version: 1 while reading PROXY protocol"),
        "{line}"
    );
    // Half a header, and nothing at all, for too long.
    broken(b"PROXY TCP4 192.0.2.1");
    broken(b"");
}

#[test]
fn extensions_have_variables() {
    let site = Site::new();
    let server = site.serve(
        r#"server {
            listen 127.0.0.1:%plain% proxy_protocol;
            return 200 "$proxy_protocol_tlv_alpn|$proxy_protocol_tlv_authority|$proxy_protocol_tlv_unique_id|$proxy_protocol_tlv_netns|$proxy_protocol_tlv_0xe0|$proxy_protocol_tlv_ssl_verify|$proxy_protocol_tlv_ssl_version|$proxy_protocol_tlv_ssl_cn|$proxy_protocol_tlv_ssl_cipher|$proxy_protocol_tlv_ssl_sig_alg|$proxy_protocol_tlv_ssl_key_alg";
        }"#,
    );
    let port = server.port("plain");
    let mut ssl = vec![7, 0, 0, 0, 18];
    for (kind, value) in [
        (0x21, "TLSv1.3"),
        (0x22, "ann"),
        (0x23, "AES"),
        (0x24, "SHA256"),
        (0x25, "RSA2048"),
    ] {
        ssl.extend_from_slice(&tlv(kind, value.as_bytes()));
    }
    let mut content = BLOCK_V4.to_vec();
    for (kind, value) in [
        (1, &b"h2"[..]),
        (2, b"example.com"),
        (4, b"padding"),
        (5, b"id-1"),
        (0x30, b"ns"),
        (0xe0, b"own"),
        (0x20, &ssl),
        (1, b"second"),
    ] {
        content.extend_from_slice(&tlv(kind, value));
    }
    assert_eq!(
        told(port, &binary(1, 0x11, &content)),
        "h2|example.com|id-1|ns|own|18|TLSv1.3|ann|AES|SHA256|RSA2048"
    );
    // Without any, and without a header that could have them.
    assert_eq!(told(port, &binary(1, 0x11, &BLOCK_V4)), "||||||||||");
    assert_eq!(told(port, V1), "||||||||||");
}

#[test]
fn the_client_of_real_ip() {
    let site = Site::new();
    let server = site.serve(&format!(
        r#"
        real_ip_header proxy_protocol;
        server {{
            listen 127.0.0.1:%trusted% proxy_protocol;
            set_real_ip_from 127.0.0.1;
            return 200 "$remote_addr $remote_port $realip_remote_addr $proxy_protocol_addr";
        }}
        server {{
            listen 127.0.0.1:%other% proxy_protocol;
            set_real_ip_from 10.0.0.0/8;
            {TOLD}
        }}"#
    ));
    let trusted = server.port("trusted");
    assert_eq!(told(trusted, V1), "192.0.2.1 1234 127.0.0.1 192.0.2.1");
    assert_eq!(
        told(trusted, &binary(1, 0x11, &BLOCK_V4)),
        "192.0.2.1 1234 127.0.0.1 192.0.2.1"
    );
    assert!(told(trusted, b"PROXY UNKNOWN\r\n").starts_with("127.0.0.1 "));
    assert!(told(server.port("other"), V1).ends_with(" 127.0.0.1"));
}

fn over_tls(site: &Site) -> Server<'_> {
    site.certificate(&Certificate::localhost("default", CertificateKey::P256));
    site.serve(&format!(
        r#"
        ssl_certificate certificates/default.pem;
        ssl_certificate_key certificates/default.key;
        server {{
            listen 127.0.0.1:%tls% ssl proxy_protocol;
            http2 on;
            set_real_ip_from 127.0.0.1;
            real_ip_header proxy_protocol;
            {TOLD}
        }}
        server {{ listen 127.0.0.1:%plain% proxy_protocol; http2 on; {TOLD} }}
        "#
    ))
}

#[test]
fn before_tls_and_http2() {
    let site = Site::new();
    let server = over_tls(&site);
    let v2 = binary(1, 0x11, &BLOCK_V4);
    for header in [V1, &v2[..]] {
        let tls = Relay::start_with(&[server.port("tls")], header);
        for protocol in ["--http1.1", "--http2"] {
            let url = format!("https://127.0.0.1:{}/", tls.port());
            let answer = command("curl", &["-sSk", protocol, &url], b"")
                .success()
                .text();
            assert_eq!(
                answer, "192.0.2.1 1234 198.51.100.7 443 192.0.2.1",
                "{protocol}"
            );
        }
        let plain = Relay::start_with(&[server.port("plain")], header);
        let url = format!("http://127.0.0.1:{}/", plain.port());
        let arguments = ["-sS", "--http2-prior-knowledge", &url];
        let answer = command("curl", &arguments, b"").success().text();
        assert_eq!(answer, "192.0.2.1 1234 198.51.100.7 443 127.0.0.1");
    }
    // curl's own header names its own end.
    let url = format!("https://127.0.0.1:{}/", server.port("tls"));
    for protocol in ["--http1.1", "--http2"] {
        let arguments = ["-sSk", "--haproxy-protocol", protocol, &url];
        let answer = command("curl", &arguments, b"").success().text();
        assert!(
            answer.starts_with("127.0.0.1 ") && answer.ends_with(" 127.0.0.1"),
            "{answer}"
        );
    }
}

#[test]
fn what_is_not_tls_behind_the_header() {
    let site = Site::new();
    let server = over_tls(&site);
    let mut connection = Connection::open(server.port("tls"));
    connection.send([V1, REQUEST].concat());
    let answer = connection.response(false);
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .text()
            .contains("plain HTTP request was sent to HTTPS port")
    );
    // TLS without the header is not even looked at.
    let url = format!("https://127.0.0.1:{}/", server.port("tls"));
    let outcome = command("curl", &["-sSk", &url], b"");
    assert_ne!(outcome.status, 0);
    // nginx logs the bytes as they are, which are no text.
    if !is_nginx() {
        server.wait_for_log("broken header: \"");
    }
}
