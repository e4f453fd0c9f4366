//! `console`: the page in Chromium, with the numbers of a server that is at work.

use sealane_tests::load::Load;
use sealane_tests::{Certificate, CertificateKey, Server, Site, command, page_client, wire};
use std::fmt::Write;

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.write("html/page", vec![b'x'; 20_000]);
    site
}

/// Servers `a.test` on `%plain%` and `%tls%`, so many others, and the page on `%console%`.
fn serve<'a>(site: &'a Site, others: usize, more: &str) -> Server<'a> {
    let mut http = format!(
        "access_log off; ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
         server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; http2 on; server_name a.test; root html; }}
         server {{ listen 127.0.0.1:%console%; server_name console.test; location = /console {{ console; }} }}
         {more}"
    );
    for number in 0..others {
        let _ = writeln!(
            http,
            "server {{ listen 127.0.0.1:%plain%; server_name site-{number:04}.test; return 204; }}"
        );
    }
    site.serve(&http)
}

fn url(server: &Server<'_>) -> String {
    format!("http://127.0.0.1:{}/console", server.port("console"))
}

#[track_caller]
fn look(scenario: &str, server: &Server<'_>, more: &[&str]) {
    let url = url(server);
    let outcome = page_client(&[&[scenario, &url], more].concat());
    assert_eq!(outcome.success().text(), "good\n");
}

#[test]
fn the_page_shows_what_the_server_says_while_clients_come_and_go() {
    let site = site();
    let server = serve(&site, 0, "");
    let authority = site.authority().display().to_string();
    let address = |name: &str| format!("127.0.0.1:{}", server.port(name));
    let mut loads = [
        Load::go("close", &address("tls"), Some(&authority), 4),
        Load::go("http2", &address("tls"), Some(&authority), 2),
        Load::go("keep", &address("plain"), None, 4),
    ];
    loads.iter_mut().for_each(Load::wait_until_begun);
    look("numbers", &server, &[]);
    for load in loads {
        let name = load.name().to_owned();
        let tally = load.stop();
        assert_eq!(tally.failures(), 0, "{name}: {tally:?}");
    }
}

#[test]
fn among_300_servers_each_is_found_and_nothing_else_runs() {
    let site = site();
    let server = serve(
        &site,
        300,
        "server { listen 127.0.0.1:%plain%; server_name b.test; return 204;
             status_zone '<b>name</b><script>alert(1)</script>'; }",
    );
    look("tables", &server, &[]);
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let site = site();
    let path = |name: &str| site.path(name).display().to_string();
    let certificate = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 5 -subj /CN=soon.test -keyout {} -out {}",
        path("certificates/soon.key"),
        path("certificates/soon.pem")
    );
    let words: Vec<&str> = certificate.split(' ').collect();
    command("openssl", &words, b"").success();
    let server = serve(
        &site,
        0,
        "limit_req_zone $server_name zone=narrow:1m rate=1r/m;
         ssl_session_store redis://127.0.0.1:%dead%;
         limit_req_zone $server_name zone=sometimes:1m rate=30r/m;
         upstream flaps { server 127.0.0.1:%other% fail_timeout=1s; server 127.0.0.1:%plain%; }
         upstream dead { server 127.0.0.1:%dead% fail_timeout=600s; server 127.0.0.2:%dead% fail_timeout=600s; }
         server { listen 127.0.0.1:%tls% ssl; server_name soon.test;
             ssl_certificate certificates/soon.pem; ssl_certificate_key certificates/soon.key; }
         server { listen 127.0.0.1:%other%; server_name other.test;
             location = /limited { limit_req zone=narrow; root html; try_files /page =404; }
             location = /flaps { proxy_pass http://flaps/sometimes; proxy_next_upstream http_503; }
             location = /sometimes { limit_req zone=sometimes; root html; try_files /page =404; }
             location = /dead { proxy_pass http://dead; } }",
    );
    // Both peers are tried, and left out.
    assert_eq!(wire::get(server.port("other"), "/dead").status, 502);
    let at = |path: &str| format!("http://127.0.0.1:{}/{path}", server.port("other"));
    look("problems", &server, &[&at("limited"), &at("flaps")]);
    // The log says the same.
    for line in [
        "soon.pem\" of server \"soon.test\" ends in ",
        "is not reachable (",
        "upstream server temporarily disabled",
        "limiting requests, excess: ",
    ] {
        server.wait_for_log(line);
    }
}

#[test]
fn the_page_outlasts_a_server_that_does_not_answer() {
    let site = site();
    let server = serve(&site, 3, "");
    look("outage", &server, &[]);
}

#[test]
fn the_page_comes_with_a_policy_that_allows_nothing_else() {
    let site = site();
    let server = serve(&site, 0, "");
    let page = wire::get(server.port("console"), "/console");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert!(
        !policy.contains("unsafe") && !policy.contains("http"),
        "{policy}"
    );
    // What a policy would refuse, or what would need another file.
    let text = page.text();
    for part in [
        "<script ",
        "<style ",
        " style=\"",
        " onclick",
        "innerHTML",
        "eval(",
        "src=\"",
        "@import",
        "url(",
    ] {
        assert!(!text.contains(part), "{part}");
    }
    let json = wire::get(server.port("console"), "/console?format=json");
    assert_eq!(json.header("content-type"), Some("application/json"));
}
