//! `grpc_pass`: calls of every kind to a gRPC service (tests/clients/grpc), by a client of
//! the same library, each beside what the service itself would answer.

#[path = "grpc/http3.rs"]
mod http3;

use sealane_tests::{Certificate, CertificateKey, Outcome, Site, command, repository, wait_for};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Debian's, which is where its python3-grpcio is.
const PYTHON: &str = "/usr/bin/python3";

/// The service, until it is dropped.
struct Service {
    child: Child,
    port: u16,
    said: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start() -> Service {
        Service::start_on(0, &[])
    }

    /// With TLS, if a certificate and its key are given.
    fn start_on(port: u16, tls: &[PathBuf]) -> Service {
        let mut child = Command::new(PYTHON)
            .arg(script("origin.py"))
            .arg(port.to_string())
            .args(tls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = lines.next().and_then(Result::ok);
        let port = first.and_then(|line| line.parse().ok());
        let port = port.expect("the service starts (python3-grpcio is installed)");
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().expect("no test panics here").push(line);
            }
        });
        Service { child, port, said }
    }

    /// Waits until it has said so often that a call was cancelled.
    #[track_caller]
    fn wait_for_cancelled(&self, count: usize) {
        let said = || self.said.lock().expect("no test panics here").clone();
        wait_for("the service to hear of it", || {
            (said().len() >= count).then_some(())
        });
        assert_eq!(said(), vec!["cancelled"; count]);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Ours; it may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn script(name: &str) -> PathBuf {
    repository().join("tests/clients/grpc").join(name)
}

/// Runs cases of the client against a port of this machine.
fn call(port: u16, cases: &[&str]) -> Outcome {
    client(&format!("127.0.0.1:{port}"), "-", cases)
}

fn client(address: &str, authority: &str, cases: &[&str]) -> Outcome {
    let script = script("client.py").display().to_string();
    let mut arguments = vec![script.as_str(), address, authority];
    arguments.extend(cases);
    command(PYTHON, &arguments, b"")
}

/// A server that hands everything to `service`.
fn to(service: &Service, more: &str) -> String {
    format!(
        "client_max_body_size 0; \
         server {{ listen 127.0.0.1:%grpc%; http2 on; location / {{ grpc_pass 127.0.0.1:{}; {more} }} }}",
        service.port
    )
}

#[test]
fn calls_of_every_kind() {
    let (site, service) = (Site::new(), Service::start());
    let server = site.serve(&to(&service, ""));
    let cases = [
        "unary",
        "large",
        "server_stream",
        "client_stream",
        "chat",
        "flood_both_ways",
        "greet_first",
        "early",
    ];
    call(server.port("grpc"), &cases).success();
}

#[test]
fn metadata_and_errors() {
    let (site, service) = (Site::new(), Service::start());
    let server = site.serve(&to(&service, ""));
    call(server.port("grpc"), &["metadata", "errors"]).success();
}

#[test]
fn over_tls_and_by_name_of_a_group() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    let service = Service::start();
    let server = site.serve(&format!(
        "client_max_body_size 0; upstream service {{ server 127.0.0.1:{}; keepalive 4; }} \
         server {{ listen 127.0.0.1:%grpc% ssl; http2 on; \
         ssl_certificate certificates/localhost.pem; ssl_certificate_key certificates/localhost.key; \
         location /test.Service/ {{ grpc_pass grpc://service; }} }}",
        service.port
    ));
    let address = format!("localhost:{}", server.port("grpc"));
    let authority = site.authority().display().to_string();
    let cases = [
        "unary",
        "large",
        "metadata",
        "chat",
        "flood_both_ways",
        "errors",
    ];
    client(&address, &authority, &cases).success();
}

#[test]
fn over_tls_to_the_service() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    let files = ["pem", "key"].map(|kind| site.path(format!("certificates/localhost.{kind}")));
    let service = Service::start_on(0, &files);
    let server = site.serve(&format!(
        "client_max_body_size 0;
         upstream service {{ server 127.0.0.1:{}; keepalive 4; }}
         server {{ listen 127.0.0.1:%grpc%; http2 on;
           grpc_ssl_verify on; grpc_ssl_trusted_certificate {}; grpc_ssl_name localhost;
           grpc_ssl_server_name on;
           location / {{ grpc_pass grpcs://service; }} }}",
        service.port,
        site.authority().display()
    ));
    // The library speaks to nobody who does not offer h2.
    let cases = [
        "unary",
        "large",
        "metadata",
        "chat",
        "flood_both_ways",
        "cancel",
    ];
    call(server.port("grpc"), &cases).success();
    service.wait_for_cancelled(2);
}

#[test]
fn hundreds_at_a_time() {
    let (site, service) = (Site::new(), Service::start());
    let server = site.serve_with(
        "worker_processes 2; worker_rlimit_nofile 8192;",
        "worker_connections 4096;",
        &format!("keepalive_requests 100000; {}", to(&service, "")),
    );
    call(server.port("grpc"), &["many"]).success();
}

#[test]
fn a_call_that_is_cancelled_is_cancelled_at_the_service() {
    let (site, service) = (Site::new(), Service::start());
    let server = site.serve(&to(&service, ""));
    call(server.port("grpc"), &["cancel"]).success();
    service.wait_for_cancelled(2);
}

#[test]
fn connections_are_kept_even_after_a_call_was_cancelled() {
    let (site, service) = (Site::new(), Service::start());
    let server = site.serve(&format!(
        "upstream service {{ server 127.0.0.1:{}; keepalive 4; }} \
         server {{ listen 127.0.0.1:%grpc%; http2 on; \
         location / {{ grpc_pass service; grpc_set_header X-Set '$request_method $server_port'; }} }} \
         server {{ listen 127.0.0.1:%alone%; http2 on; location / {{ grpc_pass 127.0.0.1:{}; }} }}",
        service.port, service.port
    ));
    let distinct = |cases: &[&str], port: &str| {
        let text = call(server.port(port), cases).success().text();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines.dedup();
        lines
    };
    let kept = distinct(&["who"], "grpc");
    assert_eq!(kept.len(), 1, "one connection: {kept:?}");
    let set = format!(" POST {}", server.port("grpc"));
    assert!(kept[0].ends_with(&set), "{kept:?}");
    let kept = distinct(&["who_after_cancel"], "grpc");
    assert_eq!(kept.len(), 1, "one connection: {kept:?}");
    service.wait_for_cancelled(5);
    // Without `keepalive` each has its own, as before nginx 1.29.7.
    assert!(!distinct(&["who"], "alone").is_empty());
}

#[test]
fn a_service_that_restarts_is_found_again() {
    let site = Site::new();
    let port = site.port("service");
    let configuration = format!(
        "upstream service {{ server 127.0.0.1:{port} max_fails=0; keepalive 4; }} \
         server {{ listen 127.0.0.1:%grpc%; http2 on; location / {{ grpc_pass service; }} }}"
    );
    let server = site.serve(&configuration);
    // As nginx's 502 is understood by clients of gRPC.
    let down = call(server.port("grpc"), &["unary_fails"]).success().text();
    assert!(down.starts_with("UNAVAILABLE: "), "{down}");
    server.wait_for_log("connect() failed (111: Connection refused) while connecting to upstream");
    for _ in 0..2 {
        let service = Service::start_on(port, &[]);
        call(server.port("grpc"), &["unary"]).success();
        drop(service);
    }
}

#[test]
fn errors_of_the_proxy_become_errors_of_grpc() {
    let site = Site::new();
    let service = Service::start();
    // The ways of nginx's documentation and articles about gRPC.
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%grpc%; http2 on; \
         error_page 502 = @unavailable; error_page 504 = @late; error_page 403 = @denied; \
         grpc_read_timeout 1s; \
         location / {{ grpc_pass 127.0.0.1:{port}; }} \
         location = /test.Service/Unary {{ grpc_pass 127.0.0.1:%nobody%; }} \
         location = /test.Service/Fail {{ return 403; }} \
         location @unavailable {{ internal; default_type application/grpc; \
           add_header grpc-status 14; add_header grpc-message 'nobody there'; return 204; }} \
         location @late {{ internal; default_type application/grpc; \
           add_header grpc-status 4; add_header grpc-message late; return 204; }} \
         location @denied {{ internal; default_type application/grpc; \
           add_header grpc-status 7; add_header grpc-message denied; return 204; }} }}",
        port = service.port
    ));
    let cases = [
        "unary_fails",
        "mute_fails",
        "fail_fails",
        "hang_fails",
        "hang_fails_while_sending",
    ];
    let outcome = call(server.port("grpc"), &cases).success();
    let text = outcome.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "UNAVAILABLE: nobody there");
    assert_eq!(lines[1], "DEADLINE_EXCEEDED: late");
    assert_eq!(lines[2], "PERMISSION_DENIED: denied");
    // The head has left: only the stream can be ended.
    assert!(lines[3].starts_with("INTERNAL: "), "{text}");
    assert!(lines[4].starts_with("INTERNAL: "), "{text}");
    server.wait_for_log("upstream timed out (110: Connection timed out) while reading upstream");
}
