//! Configurations that cannot be used: `-t`, `-s reload` and HUP agree on each, and the server
//! goes on as it was.

use sealane_tests::random::Random;
use sealane_tests::reload::{Reload, ask, configure, reload, reload_as_it_is};
use sealane_tests::{Certificate, CertificateKey, Server, Site, scale, wire};

/// What every configuration here begins with, so that the log and the pid file stay.
const HEAD: &str = "worker_processes 2; pid logs/pid; error_log logs/error.log info;";

/// The part that is changed at random. `listen` comes first, so that no change leaves a server
/// without.
const HTTP: &str = "
events { worker_connections 64 ; }
http {
    access_log off ;
    default_type text/plain ;
    upstream group { server 127.0.0.1:%one% weight=2 ; keepalive 4 ; }
    server {
        listen 127.0.0.1:%plain% ;
        server_name a.test *.b.test ;
        root html ;
        client_max_body_size 1m ;
        location / { return 200 first ; }
        location ~ ^/x(\\d+)$ { return 301 /y/$1 ; }
        location /p { proxy_pass http://group ; proxy_set_header Host $host ; }
    }
    server {
        listen 127.0.0.1:%tls% ssl ;
        server_name a.test ;
        ssl_certificate certificates/server.pem ;
        ssl_certificate_key certificates/server.key ;
        ssl_protocols TLSv1.2 TLSv1.3 ;
        location / { return 200 tls ; }
    }
}";

fn site() -> Site {
    let site = Site::new();
    for name in ["server", "other"] {
        site.certificate(&Certificate::localhost(name, CertificateKey::P256));
    }
    site
}

fn base() -> String {
    format!("{HEAD}{HTTP}")
}

/// It answers as before, with the processes of before.
#[track_caller]
fn goes_on(server: &Server<'_>, workers: &[u32]) {
    assert_eq!(wire::get(server.port("plain"), "/").text(), "first");
    assert_eq!(server.worker_pids(), workers);
}

/// What the first error of a run of the binary says, without level and process.
fn first_error(stderr: &str) -> Option<&str> {
    let line = stderr.lines().find(|line| line.contains("[emerg] "))?;
    line.split_once("[emerg] ").map(|(_, text)| text)
}

#[test]
fn every_kind_of_mistake_is_said_alike_and_changes_nothing() {
    let site = site();
    site.write("certificates/garbage.pem", "no certificate");
    let server = site.serve_whole(&base());
    server.expect_alert(""); // mistakes are what this is about
    let workers = [server.worker_pid()];
    let in_server = |line: &str| base().replace("root html ;", line);
    let in_tls = |from: &str, to: &str| base().replace(from, to);
    let certificate = "ssl_certificate certificates/server.pem ;";
    let key = "ssl_certificate_key certificates/server.key ;";
    let mistakes = [
        in_server("unknown_directive on;"),
        in_server("root html; root html;"),
        in_server("root;"),
        in_server("root html"),
        in_server("root \"html;"),
        in_server("root html; }"),
        in_server("root $no_such_variable;"),
        in_server("include no/such/file;"),
        in_server("location / { }"),
        in_server("location ~ ( { }"),
        in_server("access_log logs/a no_such_format;"),
        in_server("access_log no/such/directory/log;"),
        in_server("error_log no/such/directory/log;"),
        in_server("client_max_body_size lots;"),
        in_server("keepalive_timeout -1;"),
        in_server("listen 127.0.0.1:99999;"),
        in_server("listen 127.0.0.1:%plain%;"),
        in_server("listen unix:no/such/directory/socket;"),
        in_server("error_page 200 /x;"),
        in_server("location /q { proxy_pass ftp://group; }"),
        in_server("location /q { proxy_pass; }"),
        in_tls(certificate, ""),
        in_tls(key, ""),
        in_tls(certificate, "ssl_certificate none.pem;"),
        in_tls(certificate, "ssl_certificate certificates;"),
        in_tls(certificate, "ssl_certificate certificates/garbage.pem;"),
        in_tls(key, "ssl_certificate_key certificates/garbage.pem;"),
        in_tls(key, "ssl_certificate_key certificates/other.key;"),
        in_tls(certificate, "ssl_certificate certificates/other.pem;"),
        in_tls(key, &format!("{key} ssl_ciphers none-of-these;")),
        in_tls(key, &format!("{key} ssl_protocols SSLv9;")),
        in_tls(key, &format!("{key} ssl_ecdh_curve no-such-curve;")),
        in_tls(key, &format!("{key} ssl_session_cache shared:x:1k;")),
        in_tls(key, &format!("{key} ssl_session_ticket_key none.key;")),
        in_tls(key, &format!("{key} ssl_dhparam none.pem;")),
        base().replace("keepalive 4 ;", "keepalive none;"),
        base().replace("server 127.0.0.1:%one% weight=2 ;", ""),
        base().replace("worker_processes 2;", "worker_processes 0;"),
        base().replace(
            "worker_processes 2;",
            "worker_processes 2; worker_processes 2;",
        ),
        base().replace(
            "worker_processes 2;",
            "worker_processes 2; user no-such-user-here;",
        ),
        base()
            .replace("worker_processes 2;", "worker_processes 2; env =;")
            .replace("; env =;", "; env;"),
        base().replace("pid logs/pid;", "pid no/such/directory/pid;"),
        base().replace("events { worker_connections 64 ; }", ""),
        String::new(),
        "\u{0}".to_owned(),
        base().replace("http {", "http { http {"),
    ];
    for mistake in &mistakes {
        configure(&site, mistake);
        let tested = ask(&site, &["-t"]);
        assert_eq!(tested.status, 1, "-t takes {mistake}");
        let said = first_error(&tested.stderr).unwrap_or_else(|| panic!("{}", tested.stderr));
        // Addresses are bound by the server, not by the command that tells it.
        if !mistake.contains("unix:no/such") {
            let ordered = ask(&site, &["-s", "reload"]);
            assert_eq!(ordered.status, 1, "-s reload takes {mistake}");
            // Whom to tell stands in the file of the new configuration, as in nginx.
            if !mistake.contains("no/such/directory/pid") {
                assert_eq!(first_error(&ordered.stderr), Some(said));
            }
        }
        let before = server.error_log().len();
        assert_eq!(reload_as_it_is(&server), Reload::Refused, "{mistake}");
        let log = server.error_log().split_off(before);
        assert!(log.contains(said), "no {said:?} after {mistake} in\n{log}");
        goes_on(&server, &workers);
    }
    assert_eq!(reload(&site, &server, &base()), Reload::Applied);
    goes_on(&server, &workers);
}

/// The base with one change.
fn changed(random: &mut Random) -> String {
    let text = base();
    let (head, rest) = text.split_at(HEAD.len());
    let mut words: Vec<&str> = rest.split_whitespace().collect();
    let at = random.below(words.len());
    // Names would be looked up.
    let is_address = |word: &str| word.contains("127.0.0.1") || word.contains("http://");
    match random.below(5) {
        0 => {
            words.remove(at);
        }
        1 => words.insert(at, words[at]),
        2 if at > 0 => words.swap(at, at - 1),
        3 => words.insert(at, *random.choose(&["{", "}", ";", "\"", "'", "$", "-1"])),
        _ if !is_address(words[at]) => words[at] = "-1",
        _ => {
            words.truncate(at);
        }
    }
    format!("{head}{}", words.join(" "))
}

#[test]
fn changes_at_random_are_judged_alike_by_a_test_and_a_reload() {
    let site = site();
    let server = site.serve_whole(&base());
    server.expect_alert("");
    let worker = server.worker_pid();
    let mut random = Random::new(7);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..scale(80, 500) {
        let text = changed(&mut random);
        if listens_elsewhere(&text) {
            continue;
        }
        configure(&site, &text);
        let tested = ask(&site, &["-t"]);
        let reloaded = reload_as_it_is(&server);
        let expected = match tested.status {
            0 => Reload::Applied,
            _ => Reload::Refused,
        };
        assert_eq!(reloaded, expected, "{text}\n{}", tested.stderr);
        if reloaded == Reload::Applied {
            good += 1;
            assert_eq!(reload(&site, &server, &base()), Reload::Applied);
        } else {
            bad += 1;
        }
        goes_on(&server, &[worker]);
    }
    assert!(good > 0 && bad > good, "{good} good, {bad} bad");
}

/// A server without `listen` takes port 80, which is not a test's.
fn listens_elsewhere(text: &str) -> bool {
    let blocks = text.split("server {").skip(1);
    blocks
        .into_iter()
        .any(|block| !block.trim_start().starts_with("listen 127.0.0.1"))
        || text.matches("server {").count() != 2
}
