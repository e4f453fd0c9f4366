//! What becomes of early data is counted by verdict: those of this file need a client of their own.

use crate::client::{Client, get};
use crate::replays::send;
use crate::{serve, site};
use sealane_tests::metrics::Step::By;
use sealane_tests::metrics::Watch;
use sealane_tests::{Server, Site, command};

#[test]
fn replays_and_forgeries_are_counted_one_by_one() {
    let site = site();
    let server = serve(&site, "");
    let port = server.port("tls");
    let client = Client::new();
    let session = client.session(port);
    let flights: Vec<_> = (0..17)
        .map(|number| client.flight(&session, &get(&format!("/{number}"))))
        .collect();
    let watch = Watch::start(&server);
    // A ticket is good for sixteen.
    for flight in &flights {
        send(port, &flight.bytes(), 1);
    }
    send(port, &flights[0].bytes(), 1);
    let mut forged = flights[1].clone();
    // The binder is the end of the hello.
    let last = forged.hello.len() - 1;
    forged.hello[last] ^= 1;
    send(port, &forged.bytes(), 1);
    watch.saw(&[
        ("sealane_tls_early_data_total", By(19)),
        ("sealane_tls_early_data_total{verdict=\"accepted\"}", By(16)),
        (
            "sealane_tls_early_data_total{verdict=\"ticket_exhausted\"}",
            By(1),
        ),
        ("sealane_tls_early_data_total{verdict=\"replayed\"}", By(1)),
        (
            "sealane_tls_early_data_total{verdict=\"bad_binder\"}",
            By(1),
        ),
    ]);
}

/// Connections of openssl, the second with the session of the first and a request as early data.
fn early_by_openssl(site: &Site, server: &Server<'_>, first: &str, second: &str) {
    let session = site.path("session.pem").display().to_string();
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let early = site.write("request", request).display().to_string();
    let address = format!("127.0.0.1:{}", server.port("tls"));
    for options in [
        format!("{first} -ign_eof -sess_out {session}"),
        format!("{second} -sess_in {session} -early_data {early}"),
    ] {
        let mut words = vec!["s_client", "-connect", &address, "-tls1_3"];
        words.extend(options.split(' ').filter(|word| !word.is_empty()));
        let input = if options.contains("-early_data") {
            ""
        } else {
            request
        };
        command("openssl", &words, input.as_bytes());
    }
}

#[test]
fn early_data_that_does_not_fit_the_handshake_is_counted() {
    let site = site();
    let server = serve(&site, "http2 on; ssl_ecdh_curve P-256;");
    let watch = Watch::start(&server);
    early_by_openssl(&site, &server, "-alpn http/1.1", "-alpn h2,http/1.1");
    watch.saw(&[(
        "sealane_tls_early_data_total{verdict=\"other_protocol\"}",
        By(1),
    )]);
    // The client begins with a group that the server does not have.
    early_by_openssl(&site, &server, "", "-groups X25519:P-256");
    watch.saw(&[
        ("sealane_tls_early_data_total", By(2)),
        (
            "sealane_tls_early_data_total{verdict=\"unsuitable\"}",
            By(1),
        ),
    ]);
}
