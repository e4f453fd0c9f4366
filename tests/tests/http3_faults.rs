//! Clients that break rules of QUIC, HTTP/3 or QPACK: the answer is one that the RFC asks for.
//!
//! The rules are those of h3spec, and some more (`tests/clients/quic/python/faults*.py`).

use sealane_tests::quic::{faults, faults_named};
use sealane_tests::{Certificate, CertificateKey, Server, Site};
use std::net::{Ipv4Addr, SocketAddr};

/// Cases whose answer is another one on purpose, and why. None so far.
const EXCEPTIONS: [(&str, &str); 0] = [];

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site
}

/// Sealane in front of an origin that answers a POST when its body has come, so that all of it is
/// looked at.
fn serve(site: &Site) -> Server<'_> {
    site.serve(
        "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
         server { listen 127.0.0.1:%plain%; return 200 whole; }
         server {
           listen 127.0.0.1:%tls% quic; ssl_early_data on;
           location / { proxy_pass http://127.0.0.1:%plain%; }
         }",
    )
}

#[test]
fn every_broken_rule_is_answered_as_the_rfcs_ask() {
    let site = site();
    let server = serve(&site);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port("tls")));
    let all = faults(address, &site.authority());
    assert!(all.len() > 130, "{}", all.len());
    let wrong: Vec<_> = (all.iter())
        .filter(|fault| !fault.passed)
        .filter(|fault| EXCEPTIONS.iter().all(|(name, _)| *name != fault.name))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {}: {wrong:#?}",
        wrong.len(),
        all.len()
    );
}

/// RFC 9114 section 4.1.2.
#[test]
fn a_malformed_request_is_answered_and_its_stream_reset() {
    let site = site();
    let server = serve(&site);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port("tls")));
    for name in [
        "an unknown pseudo-header field",
        "Content-Length is more than there is",
        "a pseudo-header field in trailers",
    ] {
        let all = faults_named(address, &site.authority(), name);
        let told = (all[0].status, &*all[0].received);
        assert_eq!(told, (Some(400), "H3_MESSAGE_ERROR"), "{name}");
    }
}
