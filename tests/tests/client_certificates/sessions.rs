//! Sessions with the certificate of a client: on other nodes, and with early data.

use super::authority;
use sealane_tests::Redis;
use sealane_tests::nodes::s_client;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::{Program, Server, Site, command, wait_for};

/// The site of another node: the same certificates.
fn twin(first: &Site) -> Site {
    let site = Site::new();
    for file in [
        "certificates/site.pem",
        "certificates/site.key",
        "clients/root.pem",
        "clients/root.crl",
    ] {
        site.write(file, std::fs::read(first.path(file)).expect("it is there"));
    }
    site
}

/// `-cert` and `-key` of a client.
fn shown(site: &Site, client: &str) -> String {
    let path = |name: &str| site.path(format!("clients/{name}")).display().to_string();
    let (certificate, key) = (path(&format!("{client}.pem")), path("client.key"));
    format!("-cert {certificate} -cert_chain {certificate} -key {key}")
}

#[test]
fn a_session_takes_its_certificate_to_another_node_and_not_to_other_rules() {
    let first = authority::site();
    let second = twin(&first);
    let redis = Redis::start(&first, "redis", &[]);
    let configuration = |port: &str, rules: &str| {
        format!(
            "server {{ listen 127.0.0.1:%{port}% ssl; server_name localhost;
             ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
             ssl_session_tickets off; ssl_session_cache shared:S:1m;
             ssl_session_store redis://127.0.0.1:{} timeout=5s;
             ssl_verify_client on; ssl_client_certificate clients/root.pem; {rules}
             location = /tls {{ return 200 \"<$ssl_session_reused>$ssl_client_verify,$ssl_client_s_dn;\"; }} }}",
            redis.port()
        )
    };
    let whole = |servers: &str| {
        format!(
            "worker_processes 1; pid logs/pid; error_log logs/error.log notice; events {{ }}
             http {{ access_log off; {servers} }}"
        )
    };
    let one = whole(&configuration("tls", ""));
    let one = Server::start(&first, Program::Sealane, &one);
    let two = [
        configuration("tls", ""),
        configuration("listed", "ssl_crl clients/root.crl;"),
    ];
    let two = Server::start(&second, Program::Sealane, &whole(&two.concat()));
    let good = shown(&first, "good");
    let file = first.path("temporary/session.pem").display().to_string();
    for protocol in ["-tls1_2", "-tls1_3"] {
        let options = format!("{protocol} {good}");
        // The node has to have found the store, too.
        let text = wait_for("a session on another node", || {
            s_client(one.port("tls"), &options, &file, false).success();
            let text = s_client(two.port("tls"), &options, &file, true).text();
            text.contains("<r>").then_some(text)
        });
        assert!(
            text.contains("<r>SUCCESS,CN=good,O=Example,C=DE;"),
            "{text}"
        );
        s_client(one.port("tls"), &options, &file, false).success();
        let text = s_client(two.port("listed"), &options, &file, true).text();
        assert!(text.contains("<.>SUCCESS,CN=good"), "{protocol}: {text}");
    }
}

#[test]
fn early_data_comes_from_the_client_that_has_shown_its_certificate() {
    let site = authority::site();
    let with = |rules: &str| {
        format!(
            "worker_processes 1; pid logs/pid; error_log logs/error.log info; events {{}}
             http {{ access_log off; server {{ listen 127.0.0.1:%tls% ssl; server_name a.test;
             ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
             ssl_client_certificate clients/root.pem; ssl_verify_client on; ssl_early_data on; {rules}
             location / {{ return 200 \"<$ssl_early_data>$ssl_client_verify,$ssl_client_s_dn;\"; }} }} }}"
        )
    };
    let before = with("ssl_crl clients/empty.crl;");
    let server = site.serve_whole(&before);
    let request = b"GET /early HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    site.write("temporary/early", request);
    let early = site.path("temporary/early").display().to_string();
    let file = site.path("temporary/session.pem").display().to_string();
    let client = shown(&site, "revoked");
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let connect = |more: &str, input: &[u8]| {
        let line = format!("s_client -connect {address} -ign_eof -tls1_3 {client} {more}");
        let arguments: Vec<&str> = line.split_whitespace().collect();
        command("openssl", &arguments, input).text()
    };
    let good = "SUCCESS,CN=revoked,O=Example,C=DE;";
    // The register does not answer for what came in its first second.
    let text = wait_for("early data", || {
        let text = connect(&format!("-sess_out {file}"), request);
        assert!(text.contains(&format!("<>{good}")), "{text}");
        // Where it is refused, the request is sent again.
        let text = connect(&format!("-sess_in {file} -early_data {early}"), request);
        text.contains("Early data was accepted").then_some(text)
    });
    assert!(text.contains(&format!("<1>{good}")), "{text}");
    connect(&format!("-sess_out {file}"), request);
    let after = with("ssl_crl clients/root.crl;");
    assert_eq!(reload(&site, &server, &after), Reload::Applied);
    let text = connect(&format!("-sess_in {file} -early_data {early}"), request);
    assert!(text.contains("Early data was rejected"), "{text}");
    assert!(text.contains("The SSL certificate error"), "{text}");
}
