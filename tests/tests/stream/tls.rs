//! TLS of sessions: ended here, begun towards servers, and both.

use super::*;
use sealane_tests::upgrade::KeptTls;
use sealane_tests::{Certificate, CertificateKey, client_hello, handshake_at, nginx_has_stream};

/// A site with certificates `a` and `b`.
fn site() -> Site {
    let site = Site::new();
    for name in ["a", "b"] {
        site.certificate(&Certificate::localhost(name, CertificateKey::P256));
    }
    site
}

const A: &str = "ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;";
const B: &str = "ssl_certificate certificates/b.pem; ssl_certificate_key certificates/b.key;";

#[test]
fn the_name_in_the_handshake_chooses_the_server() {
    let (site, origin) = (site(), Origin::echo());
    let server = serve(
        &site,
        &format!(
            "log_format s '$status $ssl_server_name $server_name $ssl_protocol $ssl_session_reused';
             access_log logs/stream.log s;
             server {{ listen 127.0.0.1:%a% ssl; server_name a.example; {A} proxy_pass 127.0.0.1:{0}; }}
             server {{ listen 127.0.0.1:%a% ssl; server_name b.example; {B} return \"by b\\n\"; }}",
            origin.port
        ),
    );
    let mut kept = KeptTls::open(server.port("a"), "-servername a.example");
    assert_eq!(kept.says_back("hello\n"), "hello\n");
    drop(kept);
    let mut kept = KeptTls::open(server.port("a"), "-servername b.example");
    assert_eq!(kept.line(), "by b\n");
    drop(kept);
    wait_for_lines(
        &site,
        &[
            "200 a.example a.example TLSv1.3 .",
            "200 b.example b.example TLSv1.3 .",
        ],
    );
}

/// What `openssl s_client` with these arguments finds, or a client that sends these bytes.
enum Failing {
    Program(&'static str),
    Bytes(Vec<u8>),
}

/// A line about a client of which nothing is known; nginx shows the protocol that it would prefer.
const UNKNOWN: &str = "500 first.example - - - -";

/// The lines of the access log about handshakes that fail, except those that tell nothing.
fn failed_handshakes(program: Program, clients: &[Failing]) -> Vec<String> {
    let site = site();
    let text = configuration(&format!(
        "log_format s '$status $server_name $ssl_server_name $ssl_protocol $ssl_session_reused $ssl_client_verify';
         access_log logs/stream.log s; {A}
         server {{ listen 127.0.0.1:%a% ssl; server_name first.example; return ok; }}
         server {{ listen 127.0.0.1:%a% ssl; server_name alpn.example; ssl_alpn a; return ok; }}
         server {{ listen 127.0.0.1:%a% ssl; server_name no.example; ssl_reject_handshake on; }}"
    ));
    let server = Server::start(&site, program, &text);
    // Connections that have only looked whether the server listens may be logged at any time.
    const PROBE: &str = "500 first.example - TLSv1.3 . NONE";
    let lines = || {
        let text = std::fs::read_to_string(site.path("logs/stream.log")).unwrap_or_default();
        let lines = text.split_inclusive('\n');
        let lines = lines.filter_map(|line| line.strip_suffix('\n'));
        let lines = lines.filter(|line| *line != PROBE && *line != UNKNOWN);
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut seen = Vec::new();
    for client in clients {
        match client {
            Failing::Program(arguments) => {
                let shaken = handshake_at(&server, "a", arguments);
                assert!(!shaken.succeeded(), "{}", shaken.output);
            }
            Failing::Bytes(bytes) => {
                let mut socket = connect(server.port("a"));
                socket.write_all(bytes).expect("it is taken");
                // Something comes: a flight, or an alert.
                let _ = socket.read(&mut [0; 4096]);
            }
        }
        seen = wait_for("a line", || {
            let lines = lines();
            (lines.len() > seen.len()).then_some(lines)
        });
    }
    seen
}

#[test]
fn handshakes_that_fail_are_logged_where_they_belong() {
    let clients = [
        // It has had enough once it has seen the certificate.
        Failing::Bytes(client_hello("alpn.example", "-tls1_3")),
        Failing::Program("-servername alpn.example -alpn other -tls1_3"),
        Failing::Program("-servername alpn.example -alpn other -tls1_2"),
        Failing::Program("-servername no.cipher -tls1_2 -cipher DHE-RSA-AES128-SHA256"),
        Failing::Program("-servername no.example"),
    ];
    let ours = failed_handshakes(Program::Sealane, &clients);
    assert_eq!(
        ours,
        [
            "500 alpn.example alpn.example TLSv1.3 . NONE",
            "500 alpn.example alpn.example TLSv1.3 . NONE",
            "500 alpn.example alpn.example TLSv1.2 . NONE",
            "500 first.example no.cipher TLSv1.2 . NONE",
            "500 no.example - - - -",
        ]
    );
    if nginx_has_stream() {
        let theirs = failed_handshakes(Program::Nginx, &clients[..4]);
        assert_eq!(ours[..4], theirs);
    }
}

#[test]
fn sessions_of_tls_resume() {
    let site = site();
    let server = serve(
        &site,
        &format!(
            "ssl_session_cache shared:all:1m; {A} server {{ listen 127.0.0.1:%a% ssl; return ok; }}"
        ),
    );
    let file = site.path("session").display().to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        let first = handshake_at(&server, "a", &format!("{version} -sess_out {file}"));
        assert!(first.succeeded() && !first.resumed, "{}", first.output);
        let second = handshake_at(&server, "a", &format!("{version} -sess_in {file}"));
        assert!(second.resumed, "{version}: {}", second.output);
    }
}

#[test]
fn protocols_and_certificates_of_clients_are_asked_for() {
    let site = site();
    let server = serve(
        &site,
        &format!(
            "log_format s '$status $ssl_alpn_protocol $ssl_client_verify'; access_log logs/stream.log s;
             {A} server {{ listen 127.0.0.1:%alpn% ssl; ssl_alpn mqtt x; return ok; }}
             server {{ listen 127.0.0.1:%client% ssl; ssl_verify_client on; ssl_client_certificate certificates/a.pem;
                       return ok; }}"
        ),
    );
    let agreed = handshake_at(&server, "alpn", "-alpn http/1.1,mqtt");
    assert!(
        agreed.output.contains("ALPN protocol: mqtt"),
        "{}",
        agreed.output
    );
    let refused = handshake_at(&server, "alpn", "-alpn http/1.1");
    assert!(!refused.succeeded(), "{}", refused.output);
    let mut bare = KeptTls::open(server.port("client"), "");
    assert_eq!(bare.line(), "", "without a certificate");
    server.wait_for_log("client sent no required SSL certificate");
    wait_for_lines(&site, &["200 mqtt NONE", "500 - -", "500 - NONE"]);
}

#[test]
fn servers_are_reached_over_tls_and_verified() {
    let (site, origin) = (site(), Origin::echo());
    let server = serve(
        &site,
        &format!(
            "log_format s '$status $upstream_addr $ssl_alpn_protocol';
             server {{ listen 127.0.0.1:%inner% ssl; {A} ssl_alpn x y; access_log logs/stream.log s;
                       proxy_ssl off; proxy_pass 127.0.0.1:{}; }}
             proxy_ssl on; proxy_ssl_verify on; proxy_ssl_trusted_certificate {};
             server {{ listen 127.0.0.1:%good%; proxy_ssl_name localhost; proxy_ssl_alpn '' $protocol y;
                       proxy_pass 127.0.0.1:%inner%; }}
             server {{ listen 127.0.0.1:%name%; proxy_ssl_name other.example; proxy_pass 127.0.0.1:%inner%; }}
             server {{ listen 127.0.0.1:%both% ssl; {B} proxy_ssl_name localhost; proxy_pass 127.0.0.1:%inner%; }}
             server {{ listen 127.0.0.1:%plain%; proxy_ssl_name localhost; proxy_pass 127.0.0.1:{0}; }}",
            origin.port,
            site.authority().display()
        ),
    );
    let mut socket = connect(server.port("good"));
    says_back(&mut socket, "hello");
    drop(socket);
    wait_for_lines(&site, &[&format!("200 127.0.0.1:{} y", origin.port)]);
    let mut kept = KeptTls::open(server.port("both"), "");
    assert_eq!(kept.says_back("twice\n"), "twice\n");
    assert_eq!(rest(&mut connect(server.port("name"))), "");
    server.wait_for_log("upstream SSL certificate does not match \"other.example\"");
}

#[test]
fn large_transfers_survive_every_pair_of_ends() {
    let (site, origin) = (site(), Origin::echo());
    let server = serve(
        &site,
        &format!(
            "ssl_ktls on;
             server {{ listen 127.0.0.1:%inner% ssl; {A} proxy_pass 127.0.0.1:{0}; }}
             server {{ listen 127.0.0.1:%outer%; proxy_ssl on; proxy_pass 127.0.0.1:%inner%; }}
             server {{ listen 127.0.0.1:%middle% ssl; {B} proxy_ssl on; proxy_pass 127.0.0.1:%inner%; }}
             server {{ listen 127.0.0.1:%whole%; proxy_ssl on; proxy_pass 127.0.0.1:%middle%; }}",
            origin.port
        ),
    );
    for port in ["outer", "whole"] {
        let mut socket = connect(server.port(port));
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 5 / 3) as u8).collect();
        let mut writing = socket.try_clone().expect("a descriptor");
        let mut got = vec![0; sent.len()];
        thread::scope(|scope| {
            scope.spawn(|| writing.write_all(&sent).expect("it is taken"));
            socket.read_exact(&mut got).expect("it comes back");
        });
        assert!(got == sent, "{port}: unchanged and in order");
    }
}

#[test]
fn who_does_not_speak_tls_is_refused() {
    let site = site();
    let server = serve(
        &site,
        &format!(
            "log_format s '$status'; access_log logs/stream.log s; {A}
             server {{ listen 127.0.0.1:%a% ssl; ssl_handshake_timeout 300ms; return ok; }}"
        ),
    );
    let mut socket = connect(server.port("a"));
    socket
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("it is taken");
    let mut got = Vec::new();
    let _ = socket.read_to_end(&mut got);
    assert!(!got.windows(2).any(|two| two == b"ok"));
    // Nor who says nothing.
    assert_eq!(rest(&mut connect(server.port("a"))), "");
    // With the connection that has looked whether it listens.
    wait_for_lines(&site, &["500"; 3]);
}

#[test]
fn captures_of_a_name_are_variables() {
    let site = site();
    let server = serve(
        &site,
        &format!(
            "{A} server {{ listen 127.0.0.1:%a% ssl; server_name other; return \"none\\n\"; }}
             server {{ listen 127.0.0.1:%a% ssl; server_name \"~^(?<name>[a-z]+)\\.example$\";
                       return \"$name of $server_name\\n\"; }}"
        ),
    );
    let port = server.port("a");
    for (asked, answer) in [
        ("DB.example", "db of ~^(?<name>[a-z]+)\\.example$\n"),
        ("7.example", "none\n"),
    ] {
        let mut kept = KeptTls::open(port, &format!("-servername {asked}"));
        assert_eq!(kept.line(), answer, "{asked}");
    }
}

/// The server that answers is the one whose settings the handshake had.
#[test]
fn names_are_looked_up_as_hosts_are() {
    let site = site();
    let server = serve(
        &site,
        &format!(
            "log_format s '$ssl_server_name $ssl_protocol'; access_log logs/stream.log s; {A}
             server {{ listen 127.0.0.1:%a% ssl; server_name a.example; ssl_protocols TLSv1.2; return \"a\\n\"; }}
             server {{ listen 127.0.0.1:%a% ssl; server_name \"~^(?<name>d.*)$\"; return \"re $name\\n\"; }}
             server {{ listen 127.0.0.1:%a% ssl default_server; return \"default\\n\"; }}"
        ),
    );
    let port = server.port("a");
    for (asked, answer) in [
        ("a.example.", "a\n"),
        ("A.example", "a\n"),
        ("dfoo.", "re dfoo\n"),
        ("d_x", "re d_x\n"),
        ("other", "default\n"),
    ] {
        let mut kept = KeptTls::open(port, &format!("-servername {asked}"));
        assert_eq!(kept.line(), answer, "{asked}");
    }
    wait_for_lines(&site, &["a.example. TLSv1.2", "dfoo. TLSv1.3"]);
}

#[test]
fn what_was_read_before_a_connection_is_passed_goes_along() {
    let site = site();
    let configuration = format!(
        "{} http {{ {A} server {{ listen 127.0.0.1:%web% ssl; return 200 secure; }}
           server {{ listen 127.0.0.1:%plain%; return 200 plain; }} }}",
        configuration(
            "server { listen 127.0.0.1:%a%; ssl_preread on; server_name none; pass 127.0.0.1:%plain%; }
             server { listen 127.0.0.1:%a%; server_name web.example; pass 127.0.0.1:%web%; }"
        )
    );
    let server = site.serve_whole(&configuration);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut socket = connect(server.port("a"));
    socket.write_all(request.as_bytes()).expect("it is taken");
    let answer = rest(&mut socket);
    assert!(answer.ends_with("\r\n\r\nplain"), "{answer}");
    let mut kept = KeptTls::open(server.port("a"), "-servername web.example");
    assert_eq!(kept.says_back(request), "HTTP/1.1 200 OK\r\n");
}
