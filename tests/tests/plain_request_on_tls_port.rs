//! A plain HTTP request on a TLS port is answered in plain text, as nginx does.

use sealane_tests::wire::Connection;
use sealane_tests::{Certificate, CertificateKey, Site, handshake};

#[test]
fn it_gets_a_400_that_says_why() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let server = site.serve(
        "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
         server { listen 127.0.0.1:%tls% ssl; location = /tls { return 200 ok; } }
         server { listen 127.0.0.1:%redirecting% ssl; error_page 497 https://$host:$server_port$request_uri; }",
    );
    let mut connection = Connection::open(server.port("tls"));
    connection.send("GET /tls HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = connection.response(false);
    assert_eq!(response.status, 400);
    assert!(
        response
            .text()
            .contains("The plain HTTP request was sent to HTTPS port"),
        "{}",
        response.text()
    );
    assert!(connection.is_closed());

    let mut redirected = Connection::open(server.port("redirecting"));
    redirected.send("GET /a?b HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = redirected.response(false);
    let wanted = format!("https://localhost:{}/a?b", server.port("redirecting"));
    assert_eq!(
        (response.status, response.header("location")),
        (302, Some(wanted.as_str()))
    );

    assert!(
        handshake(&server, "").succeeded(),
        "TLS on the same port goes on"
    );
}
