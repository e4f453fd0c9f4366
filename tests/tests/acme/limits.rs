//! What an ACME server, or somebody in its place, may send: it is bounded, and serving goes on.

use super::{certificate, issuer, servers, start};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Certificate, CertificateKey, Server, Site, wait_for};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server with this issuer, whose ACME server is a script behind TLS of ours.
fn start_scripted<'a>(site: &'a Site, servers: &str, script: &Origin) -> Server<'a> {
    site.certificate(&Certificate::localhost("pebble", CertificateKey::P256));
    let front = format!(
        "server {{ listen 127.0.0.1:%acme% ssl; ssl_certificate certificates/pebble.pem;
             ssl_certificate_key certificates/pebble.key;
             location / {{ proxy_pass http://127.0.0.1:{}; }} }}",
        script.port()
    );
    start(site, &issuer(""), &format!("{servers} {front}"))
}

fn answer(status: &str, body: &str) -> Answer {
    Answer::Send(
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nReplay-Nonce: nonce\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

#[test]
fn an_answer_without_end_is_not_read() {
    let site = Site::new();
    let script = Origin::answering(|_: &Asked| answer("200 OK", &" ".repeat(2 << 20)));
    let server = start_scripted(&site, &servers("long.test"), &script);
    let line = server.wait_for_log("the server sent a response of more than 1048576 bytes");
    assert!(line.contains("a self-signed one is served"), "{line}");
}

#[test]
fn silence_ends_an_attempt_and_delays_no_client() {
    let site = Site::new();
    let script = Origin::answering(|_: &Asked| Answer::Silence);
    let server = start_scripted(&site, &servers("silent.test"), &script);
    wait_for("the question", || {
        (!script.take_asked().is_empty()).then_some(())
    });
    assert!(certificate(server.port("tls"), "silent.test").contains("DNS:silent.test"));
    server.wait_for_log("no certificate for \"silent.test\": no response within 15 s");
}

/// A directory, an account, an order, and an authorization with this token.
fn with_token(base: &str, asked: &Asked, token: &str) -> Answer {
    let of = |path: &str| format!("\"{base}{path}\"");
    match asked.target().as_str() {
        "/dir" => answer(
            "200 OK",
            &format!(
                "{{\"newNonce\":{},\"newAccount\":{},\"newOrder\":{}}}",
                of("/nonce"),
                of("/account"),
                of("/order")
            ),
        ),
        "/nonce" => answer("200 OK", ""),
        path @ ("/account" | "/order") => answer(
            &format!("201 Created\r\nLocation: {base}{path}/1"),
            "{\"status\":\"pending\"}",
        ),
        "/order/1" => answer(
            "200 OK",
            &format!(
                "{{\"status\":\"pending\",\"authorizations\":[{}]}}",
                of("/authorization")
            ),
        ),
        "/authorization" => answer(
            "200 OK",
            &format!(
                "{{\"status\":\"pending\",\"identifier\":{{\"type\":\"dns\",\
                 \"value\":\"token.test\"}},\"challenges\":[{{\"type\":\"http-01\",\"url\":{},\
                 \"token\":\"{token}\"}}]}}",
                of("/challenge")
            ),
        ),
        _ => answer("500 Internal Server Error", "{\"detail\":\"it was tried\"}"),
    }
}

#[test]
fn tokens_are_short_and_plain() {
    let long = "x".repeat(257);
    let fits = "x".repeat(256);
    let of_token = "the server's answer has no valid token";
    for (token, expected) in [
        (long.as_str(), of_token),
        ("../../secret", of_token),
        ("", of_token),
        (&fits, "the server says \"it was tried\""),
    ] {
        let site = Site::new();
        let base = format!("https://localhost:{}", site.port("acme"));
        let theirs = token.to_owned();
        let script = Origin::answering(move |asked: &Asked| with_token(&base, asked, &theirs));
        let server = start_scripted(&site, &servers("token.test"), &script);
        let line = server.wait_for_log("no certificate for \"token.test\"");
        assert!(line.contains(expected), "{token:?}: {line}");
    }
}

#[test]
fn no_more_than_eight_orders_are_under_way() {
    let site = Site::new();
    let [now, most, all] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let (theirs, greatest, count) = (now, Arc::clone(&most), Arc::clone(&all));
    let script = Origin::answering(move |_: &Asked| {
        count.fetch_add(1, Ordering::SeqCst);
        let under_way = theirs.fetch_add(1, Ordering::SeqCst) + 1;
        greatest.fetch_max(under_way, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(500));
        theirs.fetch_sub(1, Ordering::SeqCst);
        answer("500 Internal Server Error", "")
    });
    let mut text = String::new();
    for number in 0..20 {
        let _ = write!(
            text,
            "server {{ listen 127.0.0.1:%tls% ssl; server_name n{number}.test;
                 acme_certificate pebble; ssl_certificate $acme_certificate;
                 ssl_certificate_key $acme_certificate_key; }}\n"
        );
    }
    let _server = start_scripted(&site, &text, &script);
    wait_for("an attempt for each certificate", || {
        (all.load(Ordering::SeqCst) >= 20).then_some(())
    });
    let most = most.load(Ordering::SeqCst);
    assert!((2..=8).contains(&most), "{most} at a time");
}
