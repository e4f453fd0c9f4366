//! Certificates of clients (`ssl_verify_client`): who is let in, what is said about those
//! who are not, and what variables show.

#[path = "client_certificates/authority.rs"]
mod authority;
#[path = "client_certificates/sessions.rs"]
mod sessions;

use authority::CLIENTS;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{Daemon, KeptTls};
use sealane_tests::{Program, Server, Site, command, handshake};

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

/// Servers by name on one port, which ask for different things.
const NAMES: &str = "ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
    ssl_session_cache shared:all:1m;
    server { listen 127.0.0.1:%tls% ssl http2; server_name open.test;
        return 200 \"open $ssl_client_verify $ssl_session_reused;\"; }
    server { listen 127.0.0.1:%tls% ssl http2; server_name closed.test also.test;
        ssl_verify_client on; ssl_client_certificate clients/root.pem;
        return 200 \"closed $ssl_client_verify $ssl_session_reused;\"; }
    server { listen 127.0.0.1:%tls% ssl http2; server_name other.test;
        ssl_verify_client on; ssl_client_certificate clients/other.pem;
        return 200 \"other $ssl_client_verify $ssl_session_reused;\"; }
    server { listen 127.0.0.1:%tls% ssl http2; server_name asking.test;
        ssl_verify_client optional; ssl_client_certificate clients/root.pem;
        return 200 \"asking $ssl_client_verify $ssl_session_reused;\"; }
    server { listen 127.0.0.1:%strict% ssl default_server;
        ssl_verify_client optional; ssl_client_certificate clients/root.pem;
        return 200 \"default $ssl_client_verify;\"; }
    server { listen 127.0.0.1:%strict% ssl; server_name other.test;
        ssl_verify_client on; ssl_client_certificate clients/other.pem;
        return 200 \"other $ssl_client_verify;\"; }";

fn names(site: &Site) -> String {
    let directory = site.path("").display().to_string();
    NAMES
        .replace(" certificates/", &format!(" {directory}certificates/"))
        .replace(" clients/", &format!(" {directory}clients/"))
}

/// What `curl` gets that connects for the name `connected` and asks for `host`; the first line
/// of the body and the status.
fn ask_for(
    port: u16,
    site: &Site,
    [connected, host]: [&str; 2],
    client: Option<&str>,
    options: &str,
) -> String {
    let path = |name: &str| site.path(format!("clients/{name}")).display().to_string();
    let mut arguments: Vec<String> = ["-sk", "-w", " %{http_code}", "-H"]
        .map(str::to_owned)
        .into();
    arguments.push(format!("Host: {host}"));
    arguments.extend(options.split_whitespace().map(str::to_owned));
    if let Some(client) = client {
        let (certificate, key) = (path(&format!("{client}.pem")), path("client.key"));
        arguments.extend(["--cert".to_owned(), certificate, "--key".to_owned(), key]);
    }
    match connected {
        "" => arguments.push(format!("https://127.0.0.1:{port}/")),
        name => arguments.extend([
            "--resolve".to_owned(),
            format!("{name}:{port}:127.0.0.1"),
            format!("https://{name}:{port}/"),
        ]),
    }
    let text = command("curl", &arguments, b"").success().text();
    // The built-in page ends with the name of the server.
    let end = text.find("<hr>").unwrap_or(text.len());
    let status = text.rsplit(' ').next().unwrap_or("");
    format!("{status} {}", &text[..end])
}

#[test]
fn names_lead_where_nginx_would_lead() {
    let (ours, theirs) = (authority::site(), Site::new());
    let sealane = ours.serve(&names(&ours));
    let nginx = theirs.serve_by_nginx(&names(&ours));
    let mut misdirected = 0;
    for connected in ["", "open.test", "closed.test", "unknown.test"] {
        for host in ["open.test", "closed.test", "also.test", "other.test"] {
            for client in [None, Some("good"), Some("foreign")] {
                for options in ["--http1.1", "--http2"] {
                    // Both protocols take the same way; a few will do for the second.
                    if options == "--http2" && connected != "closed.test" {
                        continue;
                    }
                    let names = [connected, host];
                    let [own, other] = [&sealane, &nginx]
                        .map(|server| ask_for(server.port("tls"), &ours, names, client, options));
                    assert_eq!(own, other, "{names:?} {client:?} {options}");
                    misdirected += usize::from(own.starts_with("421"));
                }
            }
        }
    }
    assert!(misdirected > 10, "{misdirected}");
    sealane.wait_for_log(
        "client attempted to request the server name different from the one that was negotiated \
         while reading client request headers, client: ",
    );
}

#[test]
fn a_certificate_that_another_server_trusts_is_not_good_enough() {
    let site = authority::site();
    let server = site.serve(&names(&site));
    let ask = |names: [&str; 2], client: &str| {
        ask_for(server.port("strict"), &site, names, Some(client), "")
    };
    assert!(ask(["", "x.test"], "good").contains("default SUCCESS"));
    assert!(ask(["", "x.test"], "foreign").starts_with("400"));
    assert!(ask(["x.test", "y.test"], "good").contains("default SUCCESS"));
    // Without a name in the handshake the default server asks, and nginx would take its word.
    assert!(ask(["", "other.test"], "good").starts_with("400"));
    assert!(ask(["", "other.test"], "foreign").contains("other SUCCESS"));
    assert!(ask(["other.test", "other.test"], "foreign").contains("other SUCCESS"));
}

/// One connection of `openssl s_client` for a name: whether it has resumed the session in
/// `file`, and what it got.
fn connect(server: &Server<'_>, site: &Site, name: &str, options: &str) -> (bool, String) {
    let path = |name: &str| site.path(format!("clients/{name}")).display().to_string();
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let (certificate, key) = (path("below.pem"), path("client.key"));
    let mut arguments = vec![
        "s_client",
        "-connect",
        &address,
        "-ign_eof",
        "-servername",
        name,
    ];
    arguments.extend([
        "-cert",
        &certificate,
        "-cert_chain",
        &certificate,
        "-key",
        &key,
    ]);
    arguments.extend(options.split_whitespace());
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    let outcome = command("openssl", &arguments, request.as_bytes());
    let text = outcome.text();
    let line = text.lines().find(|line| line.contains(", Cipher is "));
    let resumed = line.is_some_and(|line| line.starts_with("Reused"));
    (resumed, text)
}

#[test]
fn sessions_resume_with_their_certificate_and_never_under_other_rules() {
    let site = authority::site();
    for tickets in ["on", "off"] {
        let server = site.serve(&format!("ssl_session_tickets {tickets};\n{}", names(&site)));
        let names = ["open.test", "closed.test", "other.test", "asking.test"];
        for protocol in ["-tls1_2", "-tls1_3"] {
            for made in names {
                let file = site.path("session").display().to_string();
                let _ = std::fs::remove_file(&file);
                let (_, text) = connect(
                    &server,
                    &site,
                    made,
                    &format!("{protocol} -sess_out {file}"),
                );
                for used in names {
                    let place = format!("{tickets} {protocol} {made} {used}");
                    let (resumed, text) =
                        connect(&server, &site, used, &format!("{protocol} -sess_in {file}"));
                    assert_eq!(resumed, made == used, "{place}: {text}");
                    let expected = match used {
                        "open.test" => "open NONE",
                        "closed.test" => "closed SUCCESS",
                        "asking.test" => "asking SUCCESS",
                        _ => "400 The SSL certificate error",
                    };
                    assert!(text.contains(expected), "{place}: {text}");
                }
                assert!(text.contains("HTTP/1.1 "), "{text}");
            }
        }
    }
}

#[test]
fn a_reload_changes_the_rules_of_connections_and_sessions() {
    let site = authority::site();
    let with = |rules: &str| {
        format!(
            "worker_processes 1; pid logs/pid; error_log logs/error.log info; events {{}}
             http {{ access_log off; server {{ listen 127.0.0.1:%tls% ssl; server_name a.test;
             ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
             ssl_client_certificate clients/root.pem; {rules}
             return 200 \"$ssl_client_verify,$ssl_client_s_dn;\"; }} }}"
        )
    };
    let before = with("ssl_verify_client on; ssl_crl clients/empty.crl;");
    let server = site.serve_whole(&before);
    let path = |name: &str| site.path(format!("clients/{name}")).display().to_string();
    let shown = |protocol: &str| {
        format!(
            "{protocol} -cert {} -key {}",
            path("revoked.pem"),
            path("client.key")
        )
    };
    let protocols = ["-tls1_2", "-tls1_3"];
    let open = |protocol: &&str| KeptTls::open(server.port("tls"), &shown(protocol));
    let mut kept: Vec<KeptTls> = protocols.iter().map(open).collect();
    let good = "SUCCESS,CN=revoked,O=Example,C=DE;";
    for connection in &mut kept {
        assert_eq!(connection.get("/"), good);
    }
    let session = |protocol: &str, direction: &str| {
        let file = site.path(format!("session{protocol}"));
        handshake(
            &server,
            &format!("{} {direction} {}", shown(protocol), file.display()),
        )
    };
    for protocol in protocols {
        assert!(session(protocol, "-sess_out").output.contains(good));
    }
    assert_eq!(
        reload(&site, &server, &format!("{before} ")),
        Reload::Applied
    );
    for protocol in protocols {
        let again = session(protocol, "-sess_in");
        assert!(
            again.resumed && again.output.contains(good),
            "{}",
            again.output
        );
    }
    let after = with("ssl_verify_client on; ssl_crl clients/root.crl;");
    assert_eq!(reload(&site, &server, &after), Reload::Applied);
    for protocol in protocols {
        let again = session(protocol, "-sess_in");
        assert!(!again.resumed, "{}", again.output);
        assert!(again.output.contains("The SSL certificate error"));
    }
    for connection in &mut kept {
        assert!(connection.get("/").contains("The SSL certificate error"));
    }
}

#[test]
fn a_connection_takes_its_certificate_to_another_binary() {
    let site = authority::site();
    let configuration = "worker_processes 1; pid logs/pid; error_log logs/error.log info; events {}
        http { access_log off; server { listen 127.0.0.1:%tls% ssl; server_name a.test;
        ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
        ssl_client_certificate clients/root.pem; ssl_verify_client on;
        return 200 \"$ssl_client_verify,$ssl_client_s_dn,$ssl_client_fingerprint;$pid\"; } }";
    let server = Daemon::start(&site, Program::Sealane, configuration);
    let path = |name: &str| site.path(format!("clients/{name}")).display().to_string();
    let (certificate, key) = (path("below.pem"), path("client.key"));
    let mut kept = ["-tls1_2", "-tls1_3"].map(|protocol| {
        let shown = format!("{protocol} -cert {certificate} -cert_chain {certificate} -key {key}");
        KeptTls::open(site.port("tls"), &shown)
    });
    let before = kept.each_mut().map(|connection| connection.get("/"));
    for said in &before {
        assert!(
            said.starts_with("SUCCESS,CN=below,O=Example,C=DE,"),
            "{said}"
        );
    }
    server.upgrade();
    for (connection, before) in kept.iter_mut().zip(before) {
        let after = connection.get("/");
        let [(shown_before, old), (shown_after, new)] =
            [&before, &after].map(|said| said.split_once(';').expect("two parts"));
        assert_eq!(shown_before, shown_after);
        assert_ne!(old, new, "another process");
    }
}

#[test]
fn pages_servers_without_a_certificate_and_headers_for_others() {
    let (ours, theirs) = (authority::site(), Site::new());
    let directory = ours.path("").display().to_string();
    let configuration = "ssl_protocols TLSv1.2 TLSv1.3;
        server { listen 127.0.0.1:%plain%;
            location /whole { return 200 \"whole $http_x_whole;\"; }
            location / { return 200 \"$http_x_subject|$http_x_verify|$http_x_escaped;\"; } }
        server { listen 127.0.0.1:%tls% ssl default_server; server_name pages.test;
            ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
            ssl_verify_client on; ssl_client_certificate clients/root.pem;
            error_page 495 =403 /flawed; error_page 496 = @nobody;
            location / { return 200 \"hello $ssl_client_v_remain;\"; }
            location /flawed { return 200 \"flawed $ssl_client_verify;\"; }
            location @nobody { return 401 \"nobody $ssl_client_verify;\"; }
            location /whole {
                proxy_pass http://127.0.0.1:%plain%; proxy_set_header X-Whole $ssl_client_cert;
            }
            location /passed {
                proxy_pass http://127.0.0.1:%plain%;
                proxy_set_header X-Subject $ssl_client_s_dn;
                proxy_set_header X-Verify $ssl_client_verify;
                proxy_set_header X-Escaped $ssl_client_escaped_cert;
            } }
        server { listen 127.0.0.1:%tls% ssl; server_name bare.test; ssl_verify_client on;
            return 200 \"bare $ssl_client_verify;\"; }
        server { listen 127.0.0.1:%tls% ssl; server_name open.test;
            return 200 \"open $ssl_client_verify;\"; }"
        .replace(" certificates/", &format!(" {directory}certificates/"))
        .replace(" clients/", &format!(" {directory}clients/"));
    let sealane = ours.serve(&configuration);
    let nginx = theirs.serve_by_nginx(&configuration);
    let mut seen = Vec::new();
    for name in ["", "pages.test", "bare.test", "open.test"] {
        for client in [None, Some("good"), Some("foreign")] {
            let host = if name.is_empty() { "pages.test" } else { name };
            for path in ["/", "/passed"] {
                let [own, other] = [&sealane, &nginx].map(|server| {
                    let target = format!("--path-as-is --request-target {path}");
                    ask_for(server.port("tls"), &ours, [name, host], client, &target)
                });
                assert_eq!(own, other, "{name} {client:?} {path}");
                seen.push(own);
            }
        }
    }
    for expected in [
        "403 flawed FAILED:",
        "401 nobody NONE",
        "200 hello ",
        "200 bare SUCCESS",
    ] {
        assert!(
            seen.iter().any(|own| own.starts_with(expected)),
            "{expected}: {seen:?}"
        );
    }
    assert!(
        seen.iter()
            .any(|own| own.contains("CN=good,O=Example,C=DE|SUCCESS|-----BEGIN%20"))
    );
    // nginx sends it in several lines, which a server must not take any more.
    let names = ["pages.test", "pages.test"];
    let target = "--path-as-is --request-target /whole";
    let whole = ask_for(sealane.port("tls"), &ours, names, Some("good"), target);
    let begins = "200 whole -----BEGIN CERTIFICATE----- MII";
    assert!(whole.starts_with(begins), "{whole}");
    assert!(
        whole.ends_with(" -----END CERTIFICATE-----; 200"),
        "{whole}"
    );
    let address = format!("127.0.0.1:{}", sealane.port("tls"));
    let asked = command("openssl", &["s_client", "-connect", &address], b"").text();
    let names = asked.split_once("Acceptable client certificate CA names\n");
    let (_, names) = names.expect("the handshake names authorities");
    assert!(names.starts_with("O = Example, CN = root\n"), "{names}");
}
