//! The types of Tengine's `check`, and the protocols of `health_check`.

use super::origin::{Changing, Mode};
use super::{configuration, get, state_of, statuses, wait_for_state};
use sealane_tests::fastcgi::{self, FastCgiOrigin};
use sealane_tests::{Certificate, CertificateKey, Site, collector_path, wait_for};
use std::io::Write;
use std::process::{Child, Command, Stdio};

#[test]
fn types_of_check_know_their_servers() {
    for (check, good, bad) in [
        (
            "type=tcp",
            &[Mode::Works, Mode::Hangs, Mode::Babbles][..],
            &[][..],
        ),
        (
            "type=http",
            &[Mode::Works, Mode::Status(302)],
            &[
                Mode::Status(500),
                Mode::Status(404),
                Mode::Hangs,
                Mode::Closes,
                Mode::Drips,
                Mode::Babbles,
            ],
        ),
        (
            "type=mysql",
            &[Mode::Greets],
            &[
                Mode::GreetsWithError,
                Mode::Hangs,
                Mode::Closes,
                Mode::Babbles,
            ],
        ),
        (
            "type=ajp",
            &[Mode::Pongs],
            &[Mode::Hangs, Mode::Closes, Mode::Babbles],
        ),
        (
            "type=ssl_hello",
            &[],
            &[Mode::Works, Mode::Hangs, Mode::Closes, Mode::Babbles],
        ),
        (
            "type=fastcgi",
            &[],
            &[Mode::Works, Mode::Hangs, Mode::Closes, Mode::Babbles],
        ),
    ] {
        let site = Site::new();
        let (a, b) = (Changing::new(Mode::Hangs), Changing::new(Mode::Hangs));
        let line = format!("check interval=30 timeout=300 rise=2 fall=2 {check};");
        let server = site.serve(&configuration(a.port(), b.port(), &line, ""));
        for mode in good {
            a.becomes(*mode);
            wait_for_state(&server, a.port(), "up");
        }
        for mode in bad {
            if let [mode, ..] = good {
                a.becomes(*mode);
                wait_for_state(&server, a.port(), "up");
            }
            a.becomes(*mode);
            wait_for_state(&server, a.port(), "unhealthy");
        }
    }
}

#[test]
fn a_check_waits_for_a_new_server_unless_it_is_told_not_to() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Works));
    let line = "check interval=60000 type=tcp;"; // two of them take a minute
    let server = site.serve(&configuration(a.port(), b.port(), line, ""));
    assert_eq!(state_of(&server, a.port()), "checking");
    assert_eq!(statuses(&server, 1), [502]);
    drop(server);
    let site = Site::new();
    let line = "check interval=60000 type=tcp default_down=false;";
    let server = site.serve(&configuration(a.port(), b.port(), line, ""));
    assert_eq!(statuses(&server, 2), [200; 2]);
}

#[test]
fn what_is_sent_and_expected_can_be_said() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Status(404)), Changing::new(Mode::Works));
    let lines = r#"check interval=30 type=http rise=1 fall=1;
        check_http_send "HEAD /alive HTTP/1.1\r\nHost: me\r\nConnection: keep-alive\r\n\r\n";
        check_http_expect_alive http_4xx;
        check_keepalive_requests 100;"#;
    let server = site.serve(&configuration(a.port(), b.port(), lines, ""));
    wait_for_state(&server, a.port(), "up");
    wait_for_state(&server, b.port(), "unhealthy");
    let mut heads = Vec::new();
    wait_for("checks", || {
        heads.extend(a.take_heads());
        (heads.len() > 10).then_some(())
    });
    let wanted = "HEAD /alive HTTP/1.1\r\nHost: me\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(heads[0], wanted);
}

#[test]
fn check_status_shows_what_is_known() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Closes));
    let line = "check interval=30 type=http rise=1 fall=1;";
    let server = site.serve(&configuration(a.port(), b.port(), line, ""));
    wait_for_state(&server, a.port(), "up");
    wait_for_state(&server, b.port(), "unhealthy");
    let (a, b) = (a.port(), b.port());
    let page = |target: &str| {
        let response = get(server.port("plain"), target);
        assert_eq!(response.status, 200);
        let kind = response
            .header("Content-Type")
            .unwrap_or_default()
            .to_owned();
        (kind, response.text())
    };
    let (kind, csv) = page("/checks.csv");
    assert_eq!(kind, "text/plain; charset=utf-8");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let shown = |line: usize, columns: &[usize]| -> Vec<&str> {
        columns.iter().map(|column| lines[line][*column]).collect()
    };
    let name = format!("127.0.0.1:{a}");
    let port = a.to_string();
    let wanted = ["0", "both", &name, "up", "0", "http", &port];
    assert_eq!(shown(0, &[0, 1, 2, 3, 5, 6, 7]), wanted);
    assert!(
        lines[0][4].parse::<u64>().is_ok_and(|rise| rise > 0),
        "{csv}"
    );
    let name = format!("127.0.0.1:{b}");
    assert_eq!(
        shown(1, &[0, 1, 2, 3, 4]),
        ["1", "both", &name, "down", "0"]
    );
    let (kind, json) = page("/checks");
    assert_eq!(kind, "application/json");
    for part in [
        "\"total\":2",
        "\"up\":1",
        "\"down\":1",
        "\"status\":\"down\"",
    ] {
        assert!(json.contains(part), "{json}");
    }
    let (kind, html) = page("/checks.html");
    assert_eq!(kind, "text/html; charset=utf-8");
    assert!(
        html.contains(&format!("<td>127.0.0.1:{b}</td><td>down</td>")),
        "{html}"
    );
    let (_, down) = page("/checks.html?format=csv&status=down");
    assert!(
        down.starts_with(&format!("0,both,127.0.0.1:{b},down,")),
        "{down}"
    );
    assert_eq!(down.lines().count(), 1);
}

#[test]
fn fastcgi_programs_are_asked_in_their_protocol() {
    let site = Site::new();
    let alive = FastCgiOrigin::start(|request, socket| {
        let status = match request.parameter("REQUEST_URI") {
            "/alive" | "/" => "200 OK",
            _ => "500 Error",
        };
        let text = format!("Status: {status}\r\nContent-Type: text/plain\r\n\r\nup");
        fastcgi::answer(socket, text.as_bytes())
    });
    let port = alive.port();
    let server = site.serve(&format!(
        "upstream both {{ server 127.0.0.1:{port}; check interval=30 rise=1 type=fastcgi; }}
        upstream located {{ server 127.0.0.1:{port}; server 127.0.0.1:1 down; }}
        upstream wrong {{ server 127.0.0.1:{port}; server 127.0.0.1:1 down; }}
        server {{
            listen 127.0.0.1:%plain%;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name;
            location / {{ fastcgi_pass both; }}
            location /located {{
                fastcgi_pass located;
                health_check interval=30ms uri=/alive mandatory;
            }}
            location /wrong {{ fastcgi_pass wrong; health_check interval=30ms uri=/other mandatory; }}
            location = /metrics {{ metrics; }}
        }}"
    ));
    wait_for_state(&server, port, "up");
    wait_for("requests that are passed", || {
        (get(server.port("plain"), "/located?x").status == 500).then_some(())
    });
    let line = server.wait_for_log("of \"wrong\" is unhealthy");
    assert!(line.contains("it answers with status 500"), "{line}");
    assert_eq!(get(server.port("plain"), "/wrong").status, 502);
}

#[test]
fn tls_and_http2_servers_are_asked_as_the_location_asks_them() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("server", CertificateKey::P256));
    // The servers that are checked are servers of the same configuration.
    let server = site.serve(
        "upstream secure { server 127.0.0.1:%tls%; server 127.0.0.1:1 down; }
        upstream hello { server 127.0.0.1:%tls%; check interval=30 rise=1 type=ssl_hello; }
        upstream both { server 127.0.0.1:%two%; server 127.0.0.1:1 down; }
        upstream untrusted { server 127.0.0.1:%tls%; server 127.0.0.1:1 down; }
        server {
            listen 127.0.0.1:%tls% ssl;
            ssl_certificate certificates/server.pem;
            ssl_certificate_key certificates/server.key;
            location / { return 200 secure; }
        }
        server {
            listen 127.0.0.1:%two%;
            http2 on;
            location / { return 200 $server_protocol; }
        }
        match two { body ~ \"^HTTP/2.0$\"; }
        server {
            listen 127.0.0.1:%plain%;
            location / { proxy_pass https://secure; health_check interval=30ms mandatory; }
            location /hello { proxy_pass https://hello; }
            location /two {
                proxy_pass http://both;
                proxy_http_version 2;
                health_check interval=30ms mandatory match=two;
            }
            location /untrusted {
                proxy_pass https://untrusted;
                proxy_ssl_verify on;
                proxy_ssl_trusted_certificate certificates/authority.pem;
                proxy_ssl_name other.example;
                health_check interval=30ms mandatory;
            }
            location = /metrics { metrics; }
        }",
    );
    let answers = |target: &str, text: &str| {
        wait_for(&format!("{target}: {}", server.error_log()), || {
            let response = get(server.port("plain"), target);
            (response.status == 200 && response.text() == text).then_some(())
        });
    };
    answers("/page", "secure");
    answers("/hello", "secure");
    answers("/two", "HTTP/2.0");
    let line = server.wait_for_log("of \"untrusted\" is unhealthy");
    assert!(
        line.contains("upstream SSL certificate does not match"),
        "{line}"
    );
    // A server that is down is not asked.
    assert!(
        !server.error_log().contains("127.0.0.1:1 "),
        "{}",
        server.error_log()
    );
    assert_eq!(get(server.port("plain"), "/untrusted").status, 502);
}

#[test]
fn grpc_servers_say_whether_they_serve() {
    let site = Site::new();
    let mut grpc = Grpc::start(&site);
    let server = site.serve(
        "upstream health { server 127.0.0.1:%service%; server 127.0.0.1:1 down; }
        upstream unknown { server 127.0.0.1:%service%; server 127.0.0.1:1 down; }
        upstream without { server 127.0.0.1:%plain%; server 127.0.0.1:1 down; }
        server {
            listen 127.0.0.1:%plain%;
            http2 on;
            location / { grpc_pass health; health_check interval=50ms type=grpc mandatory; }
            location /unknown {
                grpc_pass unknown;
                health_check interval=50ms type=grpc grpc_service=no.such grpc_status=5 mandatory;
            }
            location /without {
                grpc_pass without;
                health_check interval=50ms type=grpc mandatory;
            }
            location /grpc.health.v1.Health/ { return 403; }
            location = /checks { check_status csv; }
        }",
    );
    let is = |group: &str, status: &str| {
        wait_for(&format!("{group} {status}: {}", server.error_log()), || {
            let page = get(server.port("plain"), "/checks").text();
            let line = page
                .lines()
                .find(|line| line.split(',').nth(1) == Some(group));
            let line = line.unwrap_or_default();
            (line.split(',').nth(3) == Some(status) && line.contains(",grpc,")).then_some(())
        });
    };
    is("health", "up");
    // The service says that it does not know the name, as it is expected to.
    is("unknown", "up");
    is("without", "down");
    let line = server.wait_for_log("of \"without\" is unhealthy");
    assert!(line.contains("it answers with status 403"), "{line}");
    grpc.say("not_serving");
    is("health", "down");
    let line = server.wait_for_log("of \"health\" is unhealthy");
    assert!(
        line.contains("it says that it is not serving (2)"),
        "{line}"
    );
    grpc.say("serving");
    is("health", "up");
}

/// A gRPC server with the health checking service of grpc-go, until it is dropped.
struct Grpc(Child);

impl Grpc {
    fn start(site: &Site) -> Grpc {
        let address = format!("127.0.0.1:{}", site.port("service"));
        let child = Command::new(collector_path())
            .args(["-address", &address])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Grpc(child.expect("it was built"))
    }

    fn say(&mut self, word: &str) {
        let input = self.0.stdin.as_mut().expect("a pipe");
        writeln!(input, "{word}").expect("it reads");
    }
}

impl Drop for Grpc {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A body without end is as good as its beginning.
#[test]
fn an_endless_response_is_read_to_the_limit() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Endless), Changing::new(Mode::Works));
    let check = "health_check interval=50ms mandatory match=good;";
    let server = site.serve(&configuration(a.port(), b.port(), "", check));
    wait_for_state(&server, a.port(), "up");
    assert!(server.most_resident_kib() < 200 << 10);
}
