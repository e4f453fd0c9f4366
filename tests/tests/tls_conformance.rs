//! What clients get that do not keep to TLS: an alert that arrives.

use sealane_tests::{Certificate, CertificateKey, PATIENCE, Server, Site, handshake};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};

fn serve(site: &Site) -> Server<'_> {
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.serve(
        "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
         server { listen 127.0.0.1:%tls% ssl; location / { return 200 ok; } }",
    )
}

/// What the server sends to a client that sends all of `bytes` before it reads. An error is a
/// reset, which may take from the client what it has not read.
fn answer(server: &Server<'_>, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port("tls")))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    for piece in bytes.chunks(10_000) {
        stream.write_all(piece)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

#[test]
fn an_alert_reaches_a_client_that_goes_on_sending() {
    let site = Site::new();
    let server = serve(&site);
    let much = vec![0; 2_000_000];
    for (what, start, alert) in [
        ("a message of 6 MB", &b"\x16\x03\x01\x00\x05hello"[..], 47),
        (
            "a hello that is too long",
            b"\x16\x03\x01\x40\x00\x01\x02\x01\x45\x03\x03",
            50,
        ),
        ("a record that is too long", b"\x16\x03\x01\xff\xff\x01", 22),
    ] {
        let answer = answer(&server, &[start, &much].concat())
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(answer[0], 21, "{what}: an alert");
        assert_eq!(answer[5..], [2, alert], "{what}");
    }
    assert!(handshake(&server, "").succeeded(), "others are served");
}
