//! `sticky`: clients that stay with their server, and `least_time`.

#[path = "sticky/sync.rs"]
mod sync;

use sealane_tests::origin::{Answer, Origin};
use sealane_tests::reload::{self, Reload};
use sealane_tests::wire::{Connection, Response, get, get_with};
use sealane_tests::{Server, Site, scale};

/// A server that calls itself so in `X-Origin`, and answers `/fails` with 503 if it `fails`.
fn origin(name: &'static str, fails: bool) -> Origin {
    Origin::answering(move |asked| {
        let failed = fails && asked.target().starts_with("/fails");
        let status = if failed { "503 Busy" } else { "200 OK" };
        // A session of its own for /login.
        let session = match asked.target().strip_prefix("/login/") {
            Some(session) => format!("Set-Cookie: session={session}\r\n"),
            None => String::new(),
        };
        let head =
            format!("HTTP/1.1 {status}\r\nX-Origin: {name}\r\n{session}Content-Length: 0\r\n\r\n");
        Answer::Send(head.into_bytes())
    })
}

struct Two {
    a: Origin,
    b: Origin,
}

impl Two {
    fn new() -> Two {
        Two {
            a: origin("a", true),
            b: origin("b", false),
        }
    }

    /// A configuration with a group of the two servers.
    fn configuration(&self, lines: &str, of_a: &str, of_b: &str) -> String {
        let (a, b) = (self.a.port(), self.b.port());
        format!(
            "upstream both {{
                server 127.0.0.1:{a} {of_a};
                server 127.0.0.1:{b} {of_b};
                {lines}
            }}
            server {{
                listen 127.0.0.1:%plain%;
                proxy_next_upstream error http_503;
                location / {{ proxy_pass http://both; }}
                location /page/ {{
                    proxy_pass http://both/;
                    proxy_intercept_errors on;
                    error_page 503 = /none;
                }}
                location = /none {{ return 204; }}
            }}"
        )
    }
}

fn origin_of(response: &Response) -> &str {
    response.header("X-Origin").unwrap_or("none")
}

/// The servers of so many requests with this header.
fn origins(server: &Server<'_>, target: &str, header: &str, requests: usize) -> String {
    let names = (0..requests).map(|_| {
        let response = get_with(server.port("plain"), target, header);
        origin_of(&response).to_owned()
    });
    names.collect()
}

#[test]
fn a_cookie_leads_to_the_server_that_was_picked() {
    let site = Site::new();
    let two = Two::new();
    let sticky = "sticky cookie srv expires=1h domain=.example.org httponly secure \
                  samesite=$arg_same path=/app;";
    let server = site.serve(&two.configuration(sticky, "", ""));
    let port = server.port("plain");
    let response = get(port, "/?same=lax");
    let cookie = response.header("Set-Cookie").expect("a cookie").to_owned();
    let (pair, attributes) = cookie.split_once("; ").expect("attributes");
    // The MD5 hash of the address, as in nginx.
    let id = pair.strip_prefix("srv=").expect("the name");
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert!(attributes.starts_with("expires="), "{attributes}");
    let rest = attributes.split_once("; ").map(|(_, rest)| rest);
    assert_eq!(
        rest,
        Some("max-age=3600; domain=.example.org; httponly; secure; samesite=lax; path=/app")
    );
    let first = origin_of(&response).to_owned();
    let cookie_line = format!("Cookie: other=1; {pair}\r\n");
    assert_eq!(origins(&server, "/", &cookie_line, 4), first.repeat(4));
    // A value that a variable made and that is none.
    let response = get(port, "/?same=unsafe");
    let cookie = response.header("Set-Cookie").expect("a cookie");
    assert!(cookie.contains("; samesite=strict; "), "{cookie}");
    // A server that nobody knows: in turns, with a new cookie.
    let unknown = origins(&server, "/", "Cookie: srv=ffff\r\n", 2);
    assert!(unknown == "ab" || unknown == "ba", "{unknown}");
}

#[test]
fn another_server_is_picked_when_one_s_own_fails_and_gives_its_own_cookie() {
    let site = Site::new();
    let two = Two::new();
    let server = site.serve(&two.configuration("sticky cookie srv;", "route=a", "route=b"));
    let of_a = "Cookie: srv=a\r\n";
    assert_eq!(origins(&server, "/", of_a, 3), "aaa");
    let response = get_with(server.port("plain"), "/fails", of_a);
    assert_eq!(response.status, 200);
    assert_eq!(response.headers("Set-Cookie"), ["srv=b"]);
    // a failed once, so it is left out for fail_timeout.
    assert_eq!(origins(&server, "/", of_a, 3), "bbb");
}

#[test]
fn an_error_page_has_the_cookie_of_its_server() {
    let site = Site::new();
    let two = Two::new();
    let lines = "sticky cookie srv;";
    let server = site.serve(&two.configuration(lines, "route=a", "route=b down"));
    let response = get(server.port("plain"), "/page/fails");
    assert_eq!(response.status, 204);
    assert_eq!(response.headers("Set-Cookie"), ["srv=a"]);
}

#[test]
fn the_first_variable_with_a_value_is_the_route() {
    let site = Site::new();
    let two = Two::new();
    for method in ["", "least_conn;", "hash $uri;", "ip_hash;", "random two;"] {
        let lines = format!("{method} sticky route $cookie_route $arg_route;");
        let server = site.serve(&two.configuration(&lines, "route=a", "route=b"));
        let cookie = "Cookie: route=b\r\n";
        assert_eq!(origins(&server, "/?route=a", cookie, 3), "bbb", "{method}");
        assert_eq!(origins(&server, "/?route=a", "", 3), "aaa", "{method}");
        let response = get(server.port("plain"), "/?route=a");
        assert_eq!(response.header("Set-Cookie"), None);
    }
}

#[test]
fn a_drained_server_keeps_its_clients_and_gets_no_others() {
    let site = Site::new();
    let two = Two::new();
    let sticky = "sticky route $arg_route;";
    let server = site.serve(&two.configuration(sticky, "route=a drain", "route=b"));
    assert_eq!(origins(&server, "/", "", 4), "bbbb");
    assert_eq!(origins(&server, "/?route=a", "", 4), "aaaa");
}

#[test]
fn sessions_that_servers_make_are_learnt_and_outlive_a_reload() {
    for (mode, size) in [("", "64k"), ("header", "1m")] {
        let site = Site::new();
        let two = Two::new();
        let sticky = format!(
            "sticky learn create=$upstream_cookie_session lookup=$cookie_session \
             zone=sessions:{size} {mode};"
        );
        let configuration = two.configuration(&sticky, "", "");
        let server = site.serve(&configuration);
        let response = get(server.port("plain"), "/login/s1");
        let home = origin_of(&response).to_owned();
        assert_eq!(response.headers("Set-Cookie"), ["session=s1"]);
        let session = "Cookie: session=s1\r\n";
        assert_eq!(origins(&server, "/", session, 4), home.repeat(4));
        // A session that nobody has made is not learnt.
        let unknown = origins(&server, "/", "Cookie: session=s2\r\n", 4);
        assert!(unknown == "abab" || unknown == "baba", "{unknown}");
        assert_eq!(reload::reload_as_it_is(&server), Reload::Applied);
        assert_eq!(origins(&server, "/", session, 4), home.repeat(4));
    }
}

/// A small zone, and a client that makes one session after the other: the memory of the worker does
/// not grow, and a session that is in use stays.
#[test]
fn new_sessions_take_no_more_memory_than_their_zone() {
    let site = Site::new();
    let two = Two::new();
    let sticky = "sticky learn create=$upstream_cookie_session lookup=$cookie_session \
                  zone=sessions:64k header; keepalive 4;";
    let server = site.serve(&two.configuration(sticky, "", ""));
    let home = origin_of(&get(server.port("plain"), "/login/known")).to_owned();
    let mut strangers = 0;
    // Each on a connection that has not carried too many requests yet.
    let mut flood = |rounds: usize| {
        for _ in 0..rounds {
            let mut connection = Connection::open(server.port("plain"));
            let mut ask = |target: &str, cookie: &str| {
                connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{cookie}\r\n"));
                connection.response(false)
            };
            for _ in 0..50 {
                strangers += 1;
                ask(&format!("/login/{strangers:0200}"), "");
            }
            let response = ask("/", "Cookie: session=known\r\n");
            assert_eq!(origin_of(&response), home, "after {strangers} others");
        }
        server.resident_kib()
    };
    // The zone is full after some 250.
    let full = flood(20);
    let after = flood(scale(60, 4000));
    println!("{strangers} new sessions: {full} KiB when the zone was full, {after} KiB afterwards");
    assert!(after < full + 1024, "{full} KiB, then {after} KiB");
    server.wait_for_log("sticky session zone \"sessions\" is full");
}

#[test]
fn the_faster_server_gets_the_requests() {
    // With `random two`, servers of which nothing is known are drawn: after thirty requests the
    // slow one was it once.
    for (method, before) in [
        ("least_time header inflight", 2),
        ("random two least_time=header", 30),
        ("random two least_time=last_byte", 30),
    ] {
        let site = Site::new();
        let slow = Origin::answering(|_| {
            std::thread::sleep(std::time::Duration::from_millis(300));
            let head = "HTTP/1.1 200 OK\r\nX-Origin: s\r\nContent-Length: 0\r\n\r\n";
            Answer::Send(head.into())
        });
        let fast = origin("f", false);
        let server = site.serve(&format!(
            "upstream both {{ {method}; server 127.0.0.1:{}; server 127.0.0.1:{}; }}
            server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass http://both; }} }}",
            slow.port(),
            fast.port()
        ));
        // Each is tried; then one of them is known to be fast.
        let first = origins(&server, "/", "", before);
        assert!(
            first.contains('s') && first.contains('f'),
            "{method}: {first}"
        );
        assert_eq!(origins(&server, "/", "", 10), "f".repeat(10), "{method}");
    }
}

#[test]
fn wrong_parameters_are_refused_in_nginx_s_words() {
    let site = Site::new();
    for (lines, words) in [
        ("sticky cook srv;", "unknown parameter \"cook\""),
        (
            "sticky cookie \"\";",
            "\"sticky\" directive empty cookie name",
        ),
        (
            "sticky cookie a path=/ path=/;",
            "parameter \"path\" is duplicate",
        ),
        (
            "sticky cookie a expires=soon;",
            "invalid \"expires\" parameter value",
        ),
        (
            "sticky cookie a samesite=some;",
            "invalid \"samesite\" parameter value",
        ),
        (
            "sticky cookie a; sticky route $uri;",
            "\"sticky\" directive is duplicate",
        ),
        ("sticky route uri;", "invalid variable name \"uri\""),
        (
            "sticky route $nobody_knows;",
            "unknown \"nobody_knows\" variable",
        ),
        (
            "sticky learn zone=z:1m lookup=$cookie_a;",
            "\"create\" parameter is not specified",
        ),
        (
            "sticky learn create=$cookie_a lookup=$cookie_a zone=z:4k;",
            "zone is too small",
        ),
        (
            "sticky learn create=$cookie_a lookup=$cookie_a;",
            "\"zone\" parameter is not specified",
        ),
        ("server 127.0.0.1:2 route=;", "route is empty"),
        (
            "server 127.0.0.1:2 route=123456789012345678901234567890123;",
            "route is longer than 32",
        ),
        ("least_time soon;", "invalid value \"soon\""),
        ("least_time header late;", "invalid parameter \"late\""),
    ] {
        let text = format!("events {{}} http {{ upstream u {{ server 127.0.0.1:1; {lines} }} }}");
        let file = site.write("wrong.conf", text);
        let tested = std::process::Command::new(sealane_tests::sealane_binary())
            .args(["-t", "-c"])
            .arg(&file)
            .output()
            .expect("the binary runs");
        let said = String::from_utf8_lossy(&tested.stderr).into_owned();
        assert!(!tested.status.success(), "{lines}: {said}");
        assert!(said.contains(words), "{lines}: {said}");
    }
}
