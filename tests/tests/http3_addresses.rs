//! Where clients of HTTP/3 are: their addresses are proved, and may change.

use sealane_tests::quic::{QuicClient, QuicScript};
use sealane_tests::{Certificate, CertificateKey, Server, Site};
use std::net::{Ipv4Addr, SocketAddr};

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site
}

/// Sealane with these directives for a server on the port `%tls%`.
fn serve<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    site.serve(&format!(
        "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
         server {{ listen 127.0.0.1:%tls% quic; {directives} }}"
    ))
}

fn script(site: &Site, server: &Server<'_>) -> QuicScript {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port("tls")));
    QuicScript::new(address, &site.authority())
}

#[test]
fn requests_of_a_client_that_has_moved_have_its_new_address() {
    let site = site();
    site.write("html/private/file", "text");
    let server = serve(
        &site,
        "add_header X-At \"$remote_addr $realip_remote_addr\"; location / { return 204; }
         location /private/ { root html; allow 127.0.0.1; deny all; }",
    );
    let run = QuicClient::Aioquic.run(
        &script(&site, &server)
            .get("/")
            .get("/private/file")
            .rebind("127.0.0.2")
            .get("/")
            .get("/private/file"),
    );
    let [before, allowed, after, denied] = &run.connections[0].responses[..] else {
        panic!("{run:?}");
    };
    assert_eq!(before.header("x-at"), Some("127.0.0.1 127.0.0.1"));
    assert_eq!(allowed.status, 200);
    assert_eq!(after.header("x-at"), Some("127.0.0.2 127.0.0.2"));
    assert_eq!(denied.status, 403, "access goes by where the client is");
}

#[test]
fn a_token_spares_a_returning_client_the_retry() {
    let site = site();
    let server = serve(&site, "quic_retry on; location / { return 204; }");
    let run =
        QuicClient::Aioquic.run(&script(&site, &server).get("/").reconnect_resumed().get("/"));
    let [first, again] = &run.connections[..] else {
        panic!("{run:?}");
    };
    assert!(first.retry && first.tokens > 0, "{first:?}");
    assert!(!again.retry && again.tokens > 0, "{again:?}");
    assert_eq!(again.responses[0].status, 204);
}

#[test]
fn without_retry_there_are_no_tokens() {
    let site = site();
    let server = serve(&site, "quic_retry off; location / { return 204; }");
    let run = QuicClient::Aioquic.run(&script(&site, &server).get("/"));
    assert_eq!(run.connections[0].tokens, 0, "{run:?}");
}
