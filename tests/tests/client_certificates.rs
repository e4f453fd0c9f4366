//! Certificates of clients (`ssl_verify_client`): who is let in, what is said about those
//! who are not, and what variables show.

#[path = "client_certificates/authority.rs"]
mod authority;

use authority::CLIENTS;
use sealane_tests::{Server, Site, command};

/// Servers of the matrix, each on a port of its name.
const RULES: [(&str, &str); 7] = [
    (
        "on",
        "ssl_verify_client on; ssl_client_certificate clients/root.pem;",
    ),
    (
        "optional",
        "ssl_verify_client optional; ssl_client_certificate clients/root.pem;",
    ),
    (
        "any",
        "ssl_verify_client optional_no_ca; ssl_client_certificate clients/root.pem;",
    ),
    (
        "deep",
        "ssl_verify_client on; ssl_verify_depth 2; ssl_trusted_certificate clients/root.pem;
         ssl_client_certificate clients/other.pem;",
    ),
    (
        "flat",
        "ssl_verify_client on; ssl_verify_depth 0; ssl_client_certificate clients/root.pem;",
    ),
    (
        "listed",
        "ssl_verify_client on; ssl_client_certificate clients/root.pem; ssl_crl clients/root.crl;",
    ),
    (
        "stale",
        "ssl_verify_client on; ssl_client_certificate clients/root.pem; ssl_crl clients/stale.crl;",
    ),
];

const SHOWN: &str = "$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_s_dn_legacy|\
    $ssl_client_i_dn_legacy|$ssl_client_serial|$ssl_client_v_start|$ssl_client_v_end|\
    $ssl_client_fingerprint|$ssl_client_cert|$ssl_client_raw_cert|\
    $ssl_client_escaped_cert|";

/// The servers, with the files of `site`.
fn configuration(site: &Site) -> String {
    let certificate = "ssl_protocols TLSv1.2 TLSv1.3;\n\
         ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;";
    let servers = RULES.map(|(name, rules)| {
        format!(
            "server {{ listen 127.0.0.1:%{name}% ssl; server_name {name}.test; {rules}
                location / {{ return 200 \"{SHOWN}\"; }} }}\n"
        )
    });
    let text = format!("{certificate}\n{}", servers.concat());
    let directory = site.path("").display().to_string();
    text.replace(" certificates/", &format!(" {directory}certificates/"))
        .replace(" clients/", &format!(" {directory}clients/"))
}

/// What a client gets from each of the servers: the status and the body.
fn ask(server: &Server<'_>, site: &Site, client: Option<&str>, protocol: &str) -> Vec<String> {
    let path = |name: &str| site.path(format!("clients/{name}")).display().to_string();
    let mut arguments = vec![
        "-sk".to_owned(),
        protocol.to_owned(),
        "--tls-max".to_owned(),
        protocol.trim_start_matches("--tlsv").to_owned(),
        "-w".to_owned(),
        "\n%{http_code}\x01".to_owned(),
    ];
    if let Some(client) = client {
        let (certificate, key) = (path(&format!("{client}.pem")), path("client.key"));
        arguments.extend(["--cert".to_owned(), certificate, "--key".to_owned(), key]);
    }
    let tag = format!("{}{protocol}", client.unwrap_or("none"));
    for (name, _) in RULES {
        let port = server.port(name);
        arguments.push(format!("https://127.0.0.1:{port}/{tag}/{name}/"));
    }
    let outcome = command("curl", &arguments, b"").success();
    let text = outcome.text();
    let answers = text.split_terminator('\x01').map(|answer| {
        // The built-in page ends with the name of the server.
        let end = answer.find("<hr>").unwrap_or(answer.len());
        let status = answer.rsplit('\n').next().unwrap_or("");
        format!("{status} {}", &answer[..end])
    });
    answers.collect()
}

/// What the log says of a request that was refused, without the time before and the client
/// behind.
fn complaint(server: &Server<'_>, path: &str) -> String {
    let line = server.wait_for_log(&format!("\"GET {path} HTTP/1.1\""));
    assert!(line.contains("[info]"), "{line}");
    let (text, _) = line.split_once(", client: ").expect("a client");
    let text = text.split_once(": *").expect("a connection").1;
    let text = text.split_once(' ').expect("its number").1;
    // What newer versions of OpenSSL add.
    text.replace(" or the system clock is incorrect", "")
}

#[test]
fn everybody_gets_what_nginx_would_give() {
    let (ours, theirs) = (authority::site(), Site::new());
    let sealane = ours.serve(&configuration(&ours));
    let nginx = theirs.serve_by_nginx(&configuration(&ours));
    // Of nginx 1.22.
    nginx.expect_alert("ignoring stale global SSL error");
    let clients = CLIENTS.map(Some).into_iter().chain([None]);
    for client in clients {
        for protocol in ["--tlsv1.2", "--tlsv1.3"] {
            let answers = [&sealane, &nginx].map(|server| ask(server, &ours, client, protocol));
            for (at, (rules, _)) in RULES.iter().enumerate() {
                let place = format!("{client:?} {protocol} at {rules}");
                let [own, theirs] = [&answers[0][at], &answers[1][at]];
                assert_eq!(own, theirs, "{place}");
                // Which of several flaws is named depends on the version of OpenSSL.
                let has_list = ["listed", "stale"].contains(rules);
                let has_flaws = has_list && !matches!(client, None | Some("good" | "revoked"));
                if own.starts_with("400") && !has_flaws {
                    let path = format!("/{}{protocol}/{rules}/", client.unwrap_or("none"));
                    let said = [&sealane, &nginx].map(|server| complaint(server, &path));
                    assert_eq!(said[0], said[1], "{place}");
                }
            }
        }
    }
}
