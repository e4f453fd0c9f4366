//! Keys of our certificates for other servers (`proxy_ssl_certificate_key`): origins see what they
//! saw when keys were in the worker, and the key process signs for nobody else with them.

use super::kill_between;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::signal;
use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, handshake, scale, wait_for, wire,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A front with every kind of key in both versions of TLS, and nothing but that.
const FRONT: &str = "
    error_log logs/error.log notice;
    worker_processes 2;
    events { worker_connections 256; }
    http {
        access_log off;
        PROCESS
        server {
            listen 127.0.0.1:%plain%;
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate authority.pem;
            proxy_ssl_name localhost;
            proxy_ssl_session_reuse off;
            location / { return 200 front; }
            LOCATIONS
        }
    }";

/// Names of certificates with their keys.
const KINDS: [(&str, CertificateKey); 2] = [
    ("client-rsa", CertificateKey::Rsa),
    ("client-ec", CertificateKey::P256),
];

const VERSIONS: [&str; 2] = ["TLSv1.2", "TLSv1.3"];

/// nginx, which asks for a certificate of the authority and tells what it saw.
fn origin(behind: &Site) -> Server<'_> {
    behind.certificate(&Certificate::localhost("origin", CertificateKey::P256));
    behind.serve_by_nginx(&format!(
        "ssl_certificate certificates/origin.pem; ssl_certificate_key certificates/origin.key;
         ssl_verify_client on; ssl_client_certificate {};
         ssl_protocols TLSv1.2 TLSv1.3; keepalive_timeout 0;
         server {{ listen 127.0.0.1:%tls% ssl;
            location / {{ return 200 \"$ssl_client_verify $ssl_client_s_dn $ssl_protocol\"; }} }}",
        behind.authority().display()
    ))
}

/// The site of a front whose certificates are of the origin's authority.
fn front(behind: &Site) -> Site {
    let site = Site::new();
    for (name, key) in KINDS {
        behind.certificate(&Certificate::localhost(name, key));
        for suffix in ["pem", "key"] {
            let file = format!("certificates/{name}.{suffix}");
            let bytes = std::fs::read(behind.path(&file)).expect("it was made");
            site.write(&file, bytes);
        }
    }
    let authority = std::fs::read(behind.authority()).expect("it was made");
    site.write("authority.pem", authority);
    site
}

fn text(process: &str, port: u16) -> String {
    let mut locations = String::new();
    for (name, _) in KINDS {
        for version in VERSIONS {
            locations += &format!(
                "location /{name}/{version}/ {{
                    proxy_ssl_protocols {version};
                    proxy_ssl_certificate certificates/{name}.pem;
                    proxy_ssl_certificate_key certificates/{name}.key;
                    proxy_pass https://127.0.0.1:{port}/; }}"
            );
        }
    }
    FRONT
        .replace("PROCESS", process)
        .replace("LOCATIONS", &locations)
}

#[track_caller]
fn ask_all(server: &Server<'_>) {
    for (name, _) in KINDS {
        for version in VERSIONS {
            ask(server, &format!("/{name}/{version}/"), name, version);
        }
    }
}

#[track_caller]
fn ask(server: &Server<'_>, target: &str, name: &str, version: &str) {
    let response = wire::get(server.port("plain"), target);
    let log = server.error_log();
    let seen = response.text();
    assert_eq!(
        seen,
        format!("SUCCESS CN={name} {version}"),
        "{target}: {log}"
    );
}

#[test]
fn origins_are_shown_our_certificate_with_and_without_a_key_process() {
    let behind = Site::new();
    let origin = origin(&behind);
    let site = front(&behind);
    let port = origin.port("tls");
    let (on, off) = (text("", port), text("ssl_key_process off;", port));
    let server = Server::start(&site, Program::Sealane, &on);
    ask_all(&server);
    server.key_process_pid();
    for _ in 0..2 {
        assert_eq!(reload(&site, &server, &off), Reload::Applied);
        ask_all(&server);
        assert_eq!(reload(&site, &server, &on), Reload::Applied);
        ask_all(&server);
        server.key_process_pid();
    }
    // The files are not needed any more.
    for (name, _) in KINDS {
        site.write(format!("certificates/{name}.key"), "half written");
    }
    server.expect_alert("exited on signal 9");
    server.kill_key_process();
    ask_all(&server);
    server.kill_worker();
    ask_all(&server);
    // A broken file is told as ever, and what is in use goes on.
    server.expect_alert("cannot load certificate key");
    assert_eq!(reload(&site, &server, &on), Reload::Refused);
    ask_all(&server);
}

/// Requests wait for the next process, and none fails.
#[test]
fn it_may_be_killed_under_requests_to_origins() {
    let behind = Site::new();
    let origin = origin(&behind);
    let site = front(&behind);
    let server = Server::start(&site, Program::Sealane, &text("", origin.port("tls")));
    server.expect_alert("exited on signal 9; handshakes wait");
    ask_all(&server);
    let ends = AtomicBool::new(false);
    let done: Vec<_> = (0..KINDS.len() * VERSIONS.len())
        .map(|_| AtomicUsize::new(0))
        .collect();
    std::thread::scope(|scope| {
        let mut counts = done.iter();
        for (name, _) in KINDS {
            for version in VERSIONS {
                let (ends, server) = (&ends, &server);
                let done = counts.next().expect("one for each");
                scope.spawn(move || {
                    while !ends.load(Ordering::Relaxed) {
                        ask(server, &format!("/{name}/{version}/"), name, version);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        }
        for _ in 0..scale(4, 40) {
            kill_between(&server, &done);
        }
        ends.store(true, Ordering::Relaxed);
    });
}

/// While it hangs, requests that need no signature are answered; the others wait for it.
#[test]
fn while_it_hangs_only_handshakes_with_origins_wait() {
    let behind = Site::new();
    let origin = origin(&behind);
    let site = front(&behind);
    let server = Server::start(&site, Program::Sealane, &text("", origin.port("tls")));
    ask_all(&server);
    let pid = server.key_process_pid();
    signal(pid, "STOP");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = KINDS
            .iter()
            .map(|(name, _)| {
                let target = format!("/{name}/TLSv1.3/");
                let server = &server;
                scope.spawn(move || ask(server, &target, name, "TLSv1.3"))
            })
            .collect();
        for _ in 0..20 {
            let response = wire::get(server.port("plain"), "/");
            assert_eq!(response.text(), "front");
        }
        assert!(waiting.iter().all(|it| !it.is_finished()));
        signal(pid, "CONT");
    });
    // Nobody waits for longer than it may take to connect.
    let impatient = text("proxy_connect_timeout 300ms;", origin.port("tls"));
    assert_eq!(reload(&site, &server, &impatient), Reload::Applied);
    ask_all(&server);
    signal(pid, "STOP");
    let response = wire::get(server.port("plain"), "/client-ec/TLSv1.3/");
    assert_eq!(response.status, 504, "{}", server.error_log());
    signal(pid, "CONT");
    ask_all(&server);
}

/// One key for both: it signs as a server and as a client. Files may be two, with the same key.
#[test]
fn a_key_may_be_that_of_a_server_and_of_a_client() {
    let behind = Site::new();
    let origin = origin(&behind);
    let site = front(&behind);
    let key = std::fs::read(site.path("certificates/client-ec.key")).expect("it was made");
    site.write("certificates/copy.key", key);
    let port = origin.port("tls");
    let with = |key: &str| {
        let server = format!(
            "server {{ listen 127.0.0.1:%tls% ssl;
                ssl_certificate certificates/client-ec.pem;
                ssl_certificate_key certificates/{key}.key; }}"
        );
        text(&server, port)
    };
    let server = Server::start(&site, Program::Sealane, &with("client-ec"));
    let both = |server: &Server<'_>| {
        ask_all(server);
        for version in ["-tls1_2", "-tls1_3"] {
            let outcome = handshake(server, version);
            assert!(outcome.succeeded(), "{version}: {}", outcome.output);
        }
    };
    both(&server);
    for key in ["copy", "client-ec", "copy"] {
        assert_eq!(reload(&site, &server, &with(key)), Reload::Applied);
        both(&server);
    }
    server.expect_alert("exited on signal 9");
    server.kill_key_process();
    both(&server);
    // Without the server it stays that of a client.
    assert_eq!(reload(&site, &server, &text("", port)), Reload::Applied);
    ask_all(&server);
}

/// gRPC and uwsgi have directives of their own for the same.
#[test]
fn other_protocols_have_keys_of_their_own() {
    let behind = Site::new();
    behind.certificate(&Certificate::localhost("origin", CertificateKey::P256));
    let origin = behind.serve(&format!(
        "log_format seen '$ssl_client_verify $ssl_client_s_dn';
         access_log logs/seen.log seen;
         server {{ listen 127.0.0.1:%tls% ssl; http2 on;
            ssl_certificate certificates/origin.pem; ssl_certificate_key certificates/origin.key;
            ssl_verify_client on; ssl_client_certificate {};
            location / {{ return 204; }} }}",
        behind.authority().display()
    ));
    let site = front(&behind);
    let port = origin.port("tls");
    let text = FRONT.replace("PROCESS", "").replace(
        "LOCATIONS",
        &format!(
            "location /grpc {{ grpc_pass grpcs://127.0.0.1:{port};
                grpc_ssl_certificate certificates/client-ec.pem;
                grpc_ssl_certificate_key certificates/client-ec.key; }}
             location /h2 {{ proxy_pass https://127.0.0.1:{port}; proxy_http_version 2;
                proxy_ssl_certificate certificates/client-rsa.pem;
                proxy_ssl_certificate_key certificates/client-rsa.key; }}"
        ),
    );
    let server = Server::start(&site, Program::Sealane, &text);
    for (target, name) in [("/grpc", "client-ec"), ("/h2", "client-rsa")] {
        wire::get(server.port("plain"), target);
        wait_for("the line", || {
            let seen = std::fs::read_to_string(behind.path("logs/seen.log")).unwrap_or_default();
            let expected = format!("SUCCESS CN={name}\n");
            seen.contains(&expected).then_some(())
        });
    }
}

/// A health check begins its handshake on a thread without a channel of its own.
#[test]
fn health_checks_show_the_certificate_as_requests_do() {
    let behind = Site::new();
    let origin = origin(&behind);
    let site = front(&behind);
    let port = origin.port("tls");
    let location = "location /checked/ {
            health_check interval=100ms fails=1 mandatory;
            proxy_ssl_certificate certificates/client-rsa.pem;
            proxy_ssl_certificate_key certificates/client-rsa.key;
            proxy_pass https://checked/; }";
    let text = FRONT.replace("LOCATIONS", location).replace(
        "PROCESS",
        &format!("upstream checked {{ zone checked 64k; server 127.0.0.1:{port}; }}"),
    );
    let server = Server::start(&site, Program::Sealane, &text);
    // No request is passed on before a check has passed.
    wait_for("the check to pass", || {
        let response = wire::get(server.port("plain"), "/checked/");
        (response.status == 200).then_some(())
    });
    ask(&server, "/checked/", "client-rsa", "TLSv1.3");
}

/// An encrypted key has its passwords in `proxy_ssl_password_file`.
#[test]
fn an_encrypted_key_is_decrypted_there() {
    let behind = Site::new();
    let origin = origin(&behind);
    let site = front(&behind);
    let key = site
        .path("certificates/client-rsa.key")
        .display()
        .to_string();
    let encrypted = ["pkey", "-in", &key, "-aes256", "-passout", "pass:secret"];
    let encrypted = command("openssl", &encrypted, b"").success().text();
    site.write("certificates/client-rsa.key", encrypted);
    site.write("passwords", "wrong\nsecret\n");
    let port = origin.port("tls");
    let with = text("proxy_ssl_password_file passwords;", port);
    let server = Server::start(&site, Program::Sealane, &with);
    ask_all(&server);
    server.expect_alert("cannot load certificate key");
    assert_eq!(reload(&site, &server, &text("", port)), Reload::Refused);
    ask_all(&server);
}
