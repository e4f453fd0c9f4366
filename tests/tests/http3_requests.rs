//! What requests over HTTP/3 have to do with: certificates of clients, applications, time-outs.

use sealane_tests::fastcgi::{FastCgiOrigin, answer};
use sealane_tests::quic::{
    QUIC_CERTIFICATE, QuicClient, QuicRequest, QuicScript, pattern, quic_configuration, quic_site,
    serve_quic,
};
use sealane_tests::{Certificate, CertificateKey, sha256};

#[test]
fn clients_show_certificates() {
    let site = quic_site();
    site.certificate(&Certificate {
        name: "client",
        key: CertificateKey::P256,
        names: "DNS:client.test",
    });
    let block = |port: &str, rule: &str| {
        format!(
            "server {{ listen 127.0.0.1:%{port}% quic; server_name localhost; {QUIC_CERTIFICATE}
               ssl_verify_client {rule}; ssl_client_certificate certificates/authority.pem;
               location / {{ return 200 '$ssl_client_verify $ssl_client_s_dn'; }} }}"
        )
    };
    let plain = "server { listen 127.0.0.1:%plain%; return 200; }";
    let server = site.serve(&[plain, &block("tls", "optional"), &block("strict", "on")].concat());
    let strict = QuicScript::new(
        ([127, 0, 0, 1], server.port("strict")).into(),
        &site.authority(),
    );
    let optional = QuicScript::to(&site, &server);
    let with = |script: &QuicScript| {
        let path = |name: &str| site.path(format!("certificates/client.{name}"));
        let script = script.clone().certificate(&path("pem"), &path("key"));
        QuicClient::Aioquic.run(&script.get("/").reconnect_resumed().get("/"))
    };
    let without = |script: &QuicScript| QuicClient::Aioquic.run_one(&script.clone().get("/"));
    let known = sha256(b"SUCCESS CN=client");
    for script in [&optional, &strict] {
        let run = with(script);
        for connection in &run.connections {
            assert_eq!(connection.responses[0].status, 200, "{run:?}");
            assert_eq!(connection.responses[0].sha256, known, "{run:?}");
        }
    }
    let run = without(&optional);
    assert_eq!(run.responses[0].sha256, sha256(b"NONE "), "{run:?}");
    // As over other protocols: 400 in the words of nginx.
    let run = without(&strict);
    assert_eq!(run.responses[0].status, 400, "{run:?}");
}

#[test]
fn fastcgi_applications_get_requests() {
    let site = quic_site();
    let application = FastCgiOrigin::start(|request, socket| {
        let parameters = ["REQUEST_METHOD", "SERVER_PROTOCOL", "HTTPS", "QUERY_STRING"];
        let said = parameters.map(|name| request.parameter(name)).join(" ");
        let sum = sha256(&request.body);
        let output = format!("Status: 202 Accepted\r\nX-Said: {said}\r\nX-Sum: {sum}\r\n\r\nbody");
        answer(socket, output.as_bytes());
        false
    });
    let server = serve_quic(
        &site,
        &format!(
            "client_max_body_size 0;
             location / {{
               fastcgi_pass 127.0.0.1:{};
               fastcgi_param REQUEST_METHOD $request_method; fastcgi_param HTTPS $https;
               fastcgi_param SERVER_PROTOCOL $server_protocol;
               fastcgi_param QUERY_STRING $query_string;
               fastcgi_param CONTENT_LENGTH $content_length;
             }}",
            application.port()
        ),
    );
    let requests = [
        QuicRequest::get("/app?one"),
        QuicRequest::new("POST", "/app?two").body(300_000),
    ];
    let run = QuicClient::Aioquic.run_one(&QuicScript::to(&site, &server).requests(requests));
    let [get, post] = &run.responses[..] else {
        panic!("{run:?}");
    };
    assert_eq!((get.status, post.status), (202, 202), "{run:?}");
    assert_eq!(get.header("x-said"), Some("GET HTTP/3.0 on one"));
    assert_eq!(post.header("x-said"), Some("POST HTTP/3.0 on two"));
    assert_eq!(post.header("x-sum"), Some(&*sha256(&pattern(300_000))));
    assert_eq!(get.sha256, sha256(b"body"));
}

/// RFC 9218: the client's wish is followed; a wrong one is ignored.
#[test]
fn priorities_are_taken_as_they_are() {
    let site = quic_site();
    site.write("html/large.bin", vec![7; 300_000]);
    let server = serve_quic(&site, "");
    let large = sha256(&vec![7; 300_000]);
    let requests = ["u=7", "u=0", "u=3, i", "i", "u=9", "nonsense ((", ""]
        .map(|priority| QuicRequest::get("/large.bin").header("priority", priority));
    let run = QuicClient::Aioquic.run_one(&QuicScript::to(&site, &server).requests(requests));
    assert_eq!(run.responses.len(), 7, "{run:?}");
    for response in &run.responses {
        assert_eq!(
            (response.status, &response.sha256),
            (200, &large),
            "{run:?}"
        );
    }
}

/// As manuals recommend it; the port is that of QUIC.
#[test]
fn alternatives_are_announced() {
    let site = quic_site();
    let server = site.serve(&quic_configuration(
        "add_header Alt-Svc 'h3=\":$server_port\"; ma=86400' always;",
    ));
    let run = QuicClient::Aioquic.run_one(&QuicScript::to(&site, &server).get("/a.txt"));
    let expected = format!("h3=\":{}\"; ma=86400", server.port("tls"));
    assert_eq!(
        run.responses[0].header("alt-svc"),
        Some(&*expected),
        "{run:?}"
    );
}

/// What `large_client_header_buffers` allows is received, more than once at a time.
#[test]
fn long_heads_are_received_as_far_as_they_are_allowed() {
    let site = quic_site();
    let server = site.serve(&quic_configuration(
        "large_client_header_buffers 8 64k; location = /long { return 200 ok; }",
    ));
    let long = |fields: usize| {
        let value = "x".repeat(60_000);
        (0..fields).fold(QuicRequest::get("/long"), |request, number| {
            request.header(&format!("x-{number}"), &value)
        })
    };
    let script = QuicScript::to(&site, &server).requests([long(7), long(7), long(7)]);
    let run = QuicClient::Aioquic.run_one(&script);
    let statuses: Vec<_> = run.responses.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [200; 3], "{:?}", run.close);
    // One buffer more than there are.
    let run = QuicClient::Aioquic.run_one(&QuicScript::to(&site, &server).requests([long(9)]));
    assert_eq!(run.responses[0].status, 400, "{:?}", run.close);
}
