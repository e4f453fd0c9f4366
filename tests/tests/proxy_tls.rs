//! TLS towards the servers behind us: `proxy_ssl_*`.

#[path = "proxy_tls/certificates.rs"]
mod certificates;
#[path = "proxy_tls/origin.rs"]
mod origin;
#[path = "proxy_tls/trouble.rs"]
mod trouble;

use origin::Origin;
use sealane_tests::wire::{Connection, get};
use sealane_tests::{
    Certificate, CertificateKey, Server, Site, command, random::Random, sha256, sha256_of_file,
};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;

/// What an origin says of the connection that a request came on.
const SEEN: &str =
    "$ssl_server_name|$ssl_client_s_dn|$ssl_session_reused|$ssl_protocol|$connection";

/// A site whose certificates are `origin`, valid for `origin.test`, and `client`.
fn origin_site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate {
        name: "origin",
        key: CertificateKey::P256,
        names: "DNS:origin.test, DNS:*.wild.test, IP:127.0.0.1",
    });
    for name in ["client", "other"] {
        site.certificate(&Certificate::localhost(name, CertificateKey::P256));
        // What variables name is read by the worker, which may run as "nobody".
        readable_by_all(&site.path(format!("certificates/{name}.key")));
    }
    site
}

fn readable_by_all(path: &Path) {
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(path, mode).expect("the file is ours");
}

/// nginx as the origin, on `%tls%`.
fn nginx_origin<'s>(site: &'s Site, directives: &str) -> Server<'s> {
    site.serve_by_nginx(&format!(
        "ssl_certificate certificates/origin.pem; ssl_certificate_key certificates/origin.key;
         ssl_protocols TLSv1.2 TLSv1.3;
         server {{ listen 127.0.0.1:%tls% ssl; {directives}
            location / {{ return 200 \"{SEEN}\"; }} }}"
    ))
}

/// What nginx saw.
#[derive(Debug)]
struct Seen {
    name: String,
    client: String,
    reused: bool,
    protocol: String,
    connection: String,
}

fn seen(server: &Server<'_>, target: &str) -> Seen {
    let response = get(server.port("plain"), target);
    assert_eq!(response.status, 200, "{target}: {}", server.error_log());
    let text = response.text();
    let mut parts = text.split('|').map(str::to_owned);
    let mut next = || parts.next().expect("five parts");
    Seen {
        name: next(),
        client: next(),
        reused: next() == "r",
        protocol: next(),
        connection: next(),
    }
}

#[test]
fn the_name_that_is_sent() {
    let behind = origin_site();
    let origin = nginx_origin(&behind, "");
    let address = format!("127.0.0.1:{}", origin.port("tls"));
    let site = Site::new();
    let server = site.serve(&format!(
        "upstream group.test {{ server {address}; }}
         server {{ listen 127.0.0.1:%plain%;
            proxy_ssl_server_name on;
            location /off {{ proxy_ssl_server_name off; proxy_pass https://group.test; }}
            location /group {{ proxy_pass https://group.test; }}
            location /address {{ proxy_pass https://{address}; }}
            location /fixed {{ proxy_ssl_name origin.test:8443; proxy_pass https://{address}; }}
            location /evaluated {{ proxy_ssl_name $arg_name; proxy_pass https://{address}; }}
            location /variables {{ proxy_pass https://$arg_to; }}
            location /empty {{ proxy_ssl_name ''; proxy_pass https://group.test; }} }}"
    ));
    for (target, name) in [
        ("/off", ""),
        ("/group", "group.test"),
        // Addresses are not sent (RFC 6066 section 3).
        ("/address", ""),
        ("/fixed", "origin.test"),
        ("/evaluated?name=one.test", "one.test"),
        ("/evaluated?name=two.test:1", "two.test"),
        ("/evaluated?name=127.0.0.1", ""),
        ("/variables?to=group.test", "group.test"),
        ("/empty", ""),
    ] {
        assert_eq!(seen(&server, target).name, name, "{target}");
    }
}

#[test]
fn sessions_are_used_again_unless_told_otherwise() {
    for version in ["TLSv1.2", "TLSv1.3"] {
        let behind = origin_site();
        let origin = nginx_origin(
            &behind,
            &format!(
                "ssl_protocols {version}; ssl_session_cache shared:s:1m; keepalive_timeout 0;"
            ),
        );
        let address = format!("127.0.0.1:{}", origin.port("tls"));
        let site = Site::new();
        let server = site.serve(&format!(
            "server {{ listen 127.0.0.1:%plain%;
                proxy_ssl_server_name on; proxy_ssl_name $arg_name;
                location / {{ proxy_pass https://{address}; }}
                location /off {{ proxy_ssl_session_reuse off; proxy_pass https://{address}; }}
                location /strict {{ proxy_ssl_verify on; proxy_pass https://{address};
                    proxy_ssl_trusted_certificate {}; }} }}",
            behind.authority().display()
        ));
        let ask = |target: &str| {
            let seen = seen(&server, target);
            assert_eq!(seen.protocol, version);
            seen.reused
        };
        assert!(!ask("/?name=origin.test"), "{version}: the first");
        for _ in 0..3 {
            assert!(ask("/?name=origin.test"), "{version}: the next");
        }
        assert!(!ask("/?name=other.test"), "{version}: another name");
        // Whoever wants to see a certificate must not be content with a session of somebody
        // who did not.
        assert!(!ask("/strict?name=origin.test"), "{version}: verified");
        assert!(ask("/strict?name=origin.test"), "{version}: verified again");
        for _ in 0..2 {
            assert!(!ask("/off?name=origin.test"), "{version}: off");
        }
    }
}

#[test]
fn idle_connections_serve_the_same_name_policy_and_certificate_only() {
    let behind = origin_site();
    let origin = nginx_origin(&behind, "ssl_verify_client optional_no_ca;");
    let client = |name: &str| behind.path(format!("certificates/{name}"));
    let site = Site::new();
    let server = site.serve(&format!(
        "upstream group {{ server 127.0.0.1:{}; keepalive 32; }}
         proxy_http_version 1.1; proxy_set_header Connection '';
         proxy_ssl_trusted_certificate {};
         server {{ listen 127.0.0.1:%plain%;
            location / {{ proxy_pass https://group; }}
            location /again {{ proxy_pass https://group; }}
            location /name {{ proxy_ssl_server_name on; proxy_ssl_name $arg_name;
                proxy_pass https://group; }}
            location /strict {{ proxy_ssl_verify on; proxy_ssl_name origin.test;
                proxy_pass https://group; }}
            location /client {{ proxy_pass https://group;
                proxy_ssl_certificate {}; proxy_ssl_certificate_key {}; }}
            location /evaluated {{ proxy_pass https://group;
                proxy_ssl_certificate {}; proxy_ssl_certificate_key {}; }} }}",
        origin.port("tls"),
        behind.authority().display(),
        client("client.pem").display(),
        client("client.key").display(),
        client("$arg_who.pem").display(),
        client("$arg_who.key").display(),
    ));
    let targets = [
        "/",
        "/name?name=a.test",
        "/name?name=b.test",
        "/strict",
        "/client",
        "/evaluated?who=client",
        "/evaluated?who=other",
    ];
    let first: Vec<String> = targets
        .iter()
        .map(|target| seen(&server, target).connection)
        .collect();
    for (at, connection) in first.iter().enumerate() {
        assert!(!first[..at].contains(connection), "{first:?}");
    }
    // Whatever was said in between, each finds its own again.
    for _ in 0..2 {
        for (target, connection) in targets.iter().zip(&first) {
            assert_eq!(&seen(&server, target).connection, connection, "{target}");
        }
    }
    assert_eq!(seen(&server, "/again").connection, first[0]);
}

#[test]
fn large_bodies_both_ways() {
    const SIZE: usize = 20 << 20;
    let behind = origin_site();
    let body = Random::new(7).bytes(SIZE);
    behind.write("html/large", &body);
    // nginx may write as "nobody".
    behind.write("html/put/there", "");
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(behind.path("html/put"), mode).expect("the directory is ours");
    let origin = behind.serve_by_nginx(
        "ssl_certificate certificates/origin.pem; ssl_certificate_key certificates/origin.key;
         ssl_protocols TLSv1.2 TLSv1.3; client_max_body_size 0;
         server { listen 127.0.0.1:%tls% ssl; root html;
            location /put/ { dav_methods PUT; create_full_put_path on; } }",
    );
    let site = Site::new();
    let server = site.serve(&format!(
        "client_max_body_size 0; proxy_http_version 1.1;
         server {{ listen 127.0.0.1:%plain%;
            location / {{ proxy_pass https://127.0.0.1:{0}; }}
            location /put/streamed {{ proxy_request_buffering off;
                proxy_pass https://127.0.0.1:{0}; }} }}",
        origin.port("tls")
    ));
    let upload = behind.path("html/large").display().to_string();
    let digest = sha256(&body);
    let url = |target: &str| format!("http://127.0.0.1:{}{target}", server.port("plain"));
    for target in ["/put/buffered", "/put/streamed"] {
        let arguments = ["-sS", "-f", "-T", &upload, &url(target)];
        command("curl", &arguments, b"").success();
        let written = behind.path(format!("html{target}"));
        assert_eq!(sha256_of_file(&written), digest, "{target}");
    }
    let chunked = ["-sS", "-f", "-T", "-", &url("/put/streamed-chunks")];
    command("curl", &chunked, &body).success();
    assert_eq!(
        sha256_of_file(&behind.path("html/put/streamed-chunks")),
        digest
    );
    for version in ["--http1.0", "--http1.1"] {
        let got = command("curl", &["-sS", "-f", version, &url("/large")], b"").success();
        assert_eq!(sha256(&got.stdout), digest, "{version}");
    }
}

#[test]
fn many_at_once() {
    const THREADS: usize = 24;
    const REQUESTS: usize = 40;
    let behind = origin_site();
    let origin = nginx_origin(
        &behind,
        "location /body/ { return 200 \"$request_uri $request_uri\"; }",
    );
    let site = Site::new();
    let server = site.serve_with(
        "worker_processes 3;",
        "",
        &format!(
            "upstream kept {{ server 127.0.0.1:{0}; keepalive 8; }}
             proxy_http_version 1.1; proxy_set_header Connection $http_x_close;
             proxy_ssl_verify on; proxy_ssl_name origin.test; proxy_ssl_trusted_certificate {1};
             server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass https://kept; }} }}",
            origin.port("tls"),
            behind.authority().display()
        ),
    );
    let port = server.port("plain");
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            thread::spawn(move || {
                for number in 0..REQUESTS {
                    let mut connection = Connection::open(port);
                    let target = format!("/body/{thread}/{number}");
                    let close = if number % 5 == 0 { "close" } else { "" };
                    connection.send(format!(
                        "GET {target} HTTP/1.1\r\nHost: h\r\nX-Close: {close}\r\nConnection: close\r\n\r\n"
                    ));
                    let response = connection.response(false);
                    assert_eq!(response.status, 200);
                    assert_eq!(response.text(), format!("{target} {target}"));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("every answer is the right one");
    }
}

/// Bytes that an idle connection to a peer may cost, libssl and the kernel's part of our
/// process included.
const IDLE_BYTES: u64 = 48 << 10;

#[test]
fn idle_connections_cost_little() {
    const CONNECTIONS: usize = 150;
    let behind = origin_site();
    let together = Arc::new(Barrier::new(CONNECTIONS));
    let origin = Origin::tls(&behind, "origin", move |mut peer| {
        while let Some(head) = peer.request() {
            if head.starts_with("GET /all") {
                together.wait();
            }
            // More than fits in a small buffer, so that large ones must be given back.
            let body = vec![b'x'; 100_000];
            peer.send(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(),
            );
            peer.send(&body);
        }
    });
    let site = Site::new();
    let server = site.serve(&format!(
        "upstream kept {{ server 127.0.0.1:{}; keepalive 1000; }}
         proxy_http_version 1.1; proxy_set_header Connection '';
         server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass https://kept; }} }}",
        origin.port()
    ));
    let port = server.port("plain");
    for _ in 0..20 {
        assert_eq!(get(port, "/one").body.len(), 100_000);
    }
    let before = server.resident_kib();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| thread::spawn(move || assert_eq!(get(port, "/all").body.len(), 100_000)))
        .collect();
    for client in clients {
        client.join().expect("every answer is complete");
    }
    let grown = server.resident_kib().saturating_sub(before) << 10;
    assert!(origin.connections() >= CONNECTIONS);
    let each = grown / CONNECTIONS as u64;
    assert!(each < IDLE_BYTES, "{each} bytes for each idle connection");
    // They are still good.
    let opened = origin.connections();
    assert_eq!(get(port, "/one").status, 200);
    assert_eq!(origin.connections(), opened);
}
