//! Tengine's `session_sticky`: its cookies, their times, and what servers get of them.

use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{Response, get, get_with};
use sealane_tests::{Server, Site};
use std::time::{SystemTime, UNIX_EPOCH};

/// An origin that calls itself so, and says which `Cookie` it got. `/set` makes it set cookies;
/// `/fails` is answered with 503 by `a`, `/missing` with 404.
fn origin(name: &'static str) -> Origin {
    Origin::answering(move |asked| {
        let target = asked.target();
        let status = match &*target {
            "/fails" if name == "a" => "503 Busy",
            "/missing" => "404 Not Found",
            _ => "200 OK",
        };
        let set = match &*target {
            "/set" => "Set-Cookie: other=1\r\nSet-Cookie: uid=x42; Path=/app\r\n",
            _ => "",
        };
        let got = asked.headers("Cookie").join(" + ");
        let length = got.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nX-Origin: {name}\r\n{set}Content-Length: {length}\r\n\r\n{got}"
        );
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
            a: origin("a"),
            b: origin("b"),
        }
    }

    fn configuration(&self, session: &str, of_location: &str) -> String {
        let (a, b) = (self.a.port(), self.b.port());
        format!(
            "upstream both {{
                server 127.0.0.1:{a} id=one;
                server 127.0.0.1:{b} id=two;
                session_sticky {session};
            }}
            server {{
                listen 127.0.0.1:%plain%;
                {of_location}
                location / {{ proxy_pass http://both; proxy_next_upstream error http_503; }}
            }}"
        )
    }

    fn serve<'s>(&self, site: &'s Site, session: &str, of_location: &str) -> Server<'s> {
        site.serve(&self.configuration(session, of_location))
    }
}

const HIDE: &str = "session_sticky_hide_cookie upstream=both;";

fn origin_of(response: &Response) -> &str {
    response.header("X-Origin").unwrap_or("none")
}

fn with_cookie(server: &Server<'_>, target: &str, cookie: &str) -> Response {
    get_with(
        server.port("plain"),
        target,
        &format!("Cookie: {cookie}\r\n"),
    )
}

/// The origins of so many requests with this cookie.
fn origins(server: &Server<'_>, cookie: &str, requests: usize) -> String {
    let names = (0..requests).map(|_| origin_of(&with_cookie(server, "/", cookie)).to_owned());
    names.collect()
}

fn now_s() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(since.as_secs()).expect("it fits")
}

#[test]
fn a_cookie_is_inserted_once_and_leads_back() {
    let site = Site::new();
    let two = Two::new();
    let server = two.serve(&site, "", "");
    let response = get(server.port("plain"), "/");
    let cookie = response.header("Set-Cookie").expect("a cookie").to_owned();
    let pair = cookie
        .strip_suffix("; Path=/")
        .expect("Tengine's default path");
    let id = pair.strip_prefix("route=").expect("Tengine's default name");
    // The MD5 hash of the address, whatever its id.
    assert!(
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
    let home = origin_of(&response);
    for _ in 0..4 {
        let response = with_cookie(&server, "/", &format!("x=1; {pair}"));
        assert_eq!(origin_of(&response), home);
        assert_eq!(response.header("Set-Cookie"), None);
        // Not hidden.
        assert_eq!(response.text(), format!("x=1; {pair}"));
    }
    // One that means nobody.
    let response = with_cookie(&server, "/", "route=nobody");
    assert!(response.header("Set-Cookie").is_some());
    // Nothing with an error.
    let response = get(server.port("plain"), "/missing");
    assert_eq!(
        (response.status, response.header("Set-Cookie")),
        (404, None)
    );
}

#[test]
fn attributes_and_plain_ids() {
    let site = Site::new();
    let two = Two::new();
    let session = "cookie=uid domain=www.example.org path=/app maxage=3600 hash=plain";
    let server = two.serve(&site, session, "");
    assert_eq!(origins(&server, "uid=one", 3), "aaa");
    assert_eq!(origins(&server, "uid=two", 3), "bbb");
    let before_s = now_s();
    let response = get(server.port("plain"), "/");
    let cookie = response.header("Set-Cookie").expect("a cookie");
    let id = match origin_of(&response) {
        "a" => "one",
        _ => "two",
    };
    let start = format!("uid={id}; Domain=www.example.org; Path=/app; Max-Age=3600; Expires=");
    let expires = cookie.strip_prefix(&start).expect("Tengine's order");
    let expires = expires.replace('-', " ");
    // `Thu, 26 Nov 26 17:00:00 GMT` has two digits for the year.
    assert!(
        expires.ends_with(" GMT") && expires.len() == 27,
        "{before_s} {expires}"
    );
}

#[test]
fn addresses_are_plain_ids_of_servers_without_one() {
    let site = Site::new();
    let two = Two::new();
    let configuration = two
        .configuration("hash=plain", "")
        .replace("id=one", "")
        .replace("id=two", "");
    let server = site.serve(&configuration);
    let cookie = format!("route=127.0.0.1:{}", two.b.port());
    assert_eq!(origins(&server, &cookie, 3), "bbb");
}

#[test]
fn times_in_the_cookie_end_a_session() {
    let site = Site::new();
    let two = Two::new();
    let server = two.serve(&site, "hash=plain maxidle=100 maxlife=1000", "");
    let now_s = now_s();
    let response = get(server.port("plain"), "/");
    let cookie = response.header("Set-Cookie").expect("a cookie");
    let (value, _) = cookie.split_once(';').expect("a path");
    let parts: Vec<_> = value.split('|').collect();
    assert_eq!(parts.len(), 3, "{cookie}");
    assert_eq!(parts[1], parts[2]);
    let first: i64 = parts[1].parse().expect("seconds");
    assert!((now_s - 1..now_s + 100).contains(&first), "{cookie}");
    // The first time stays, the last one is now.
    let first = now_s - 900;
    let response = with_cookie(&server, "/", &format!("route=two|{}|{first}", now_s - 50));
    assert_eq!(origin_of(&response), "b");
    let cookie = response.header("Set-Cookie").expect("a cookie");
    let start = cookie
        .strip_suffix(&format!("|{first}; Path=/"))
        .expect("the first time");
    let last = start.strip_prefix("route=two|").expect("the id");
    assert!(
        last.parse::<i64>().expect("seconds") >= now_s - 1,
        "{cookie}"
    );
    // Too long unused, too old, out of the future, no times at all: in turns.
    for times in [
        format!("|{}|{}", now_s - 110, now_s - 110),
        format!("|{now_s}|{}", now_s - 1010),
        format!("|{}|{now_s}", now_s + 2 * 86400),
        String::new(),
        "|x|y".into(),
    ] {
        let found = origins(&server, &format!("route=two{times}"), 4);
        assert!(found == "abab" || found == "baba", "{times}: {found}");
    }
}

#[test]
fn an_indirect_cookie_is_hidden_from_servers() {
    let site = Site::new();
    let two = Two::new();
    let server = two.serve(&site, "cookie=uid hash=plain option=indirect", HIDE);
    for (cookie, got) in [
        ("uid=two", ""),
        ("uid=two; x=1", "x=1"),
        ("x=1; uid=two; y=2", "x=1; y=2"),
        ("x=1; uid=two", "x=1"),
        ("x=1; myuid=one; uid=two", "x=1; myuid=one"),
    ] {
        let response = with_cookie(&server, "/", cookie);
        assert_eq!(
            (origin_of(&response), &*response.text()),
            ("b", got),
            "{cookie}"
        );
        assert_eq!(response.header("Set-Cookie"), None);
    }
    // One that the server sets by this name is replaced.
    let response = get(server.port("plain"), "/set");
    let id = match origin_of(&response) {
        "a" => "one",
        _ => "two",
    };
    let own = format!("uid={id}; Path=/");
    assert_eq!(response.headers("Set-Cookie"), ["other=1", &own]);
    // Without the directive in the location, no cookie is set, as in Tengine.
    let site = Site::new();
    let server = two.serve(&site, "cookie=uid option=indirect", "");
    assert_eq!(get(server.port("plain"), "/").header("Set-Cookie"), None);
}

#[test]
fn a_prefix_is_put_before_the_server_s_value_and_taken_away_again() {
    let site = Site::new();
    let two = Two::new();
    let server = two.serve(&site, "cookie=uid mode=prefix hash=plain", HIDE);
    let response = get(server.port("plain"), "/set");
    let id = match origin_of(&response) {
        "a" => "one",
        _ => "two",
    };
    let set = format!("uid={id}~x42; Path=/app");
    assert_eq!(response.headers("Set-Cookie"), ["other=1", &set]);
    let response = with_cookie(&server, "/", "y=1; uid=two~x42");
    assert_eq!(
        (origin_of(&response), &*response.text()),
        ("b", "y=1; uid=x42")
    );
    assert_eq!(response.header("Set-Cookie"), None);
    // No prefix, no server.
    let response = with_cookie(&server, "/", "uid=x42");
    assert_eq!(response.text(), "uid=x42");
}

#[test]
fn the_server_s_own_cookie_is_rewritten() {
    let site = Site::new();
    let two = Two::new();
    let server = two.serve(&site, "cookie=uid mode=rewrite hash=plain", "");
    let response = get(server.port("plain"), "/set");
    let id = match origin_of(&response) {
        "a" => "one",
        _ => "two",
    };
    let set = format!("uid={id}; Path=/app");
    assert_eq!(response.headers("Set-Cookie"), ["other=1", &set]);
    assert_eq!(origins(&server, "uid=two", 3), "bbb");
    // The server decides which requests need it.
    assert_eq!(get(server.port("plain"), "/").header("Set-Cookie"), None);
}

#[test]
fn another_server_is_asked_only_with_fallback() {
    for fallback in ["on", "off"] {
        let site = Site::new();
        let two = Two::new();
        let session = format!("hash=plain fallback={fallback}");
        let server = two.serve(&site, &session, "");
        let ask = |target: &str| {
            let response = with_cookie(&server, target, "route=one");
            let cookies = response.headers("Set-Cookie").concat();
            format!("{} {} {cookies}", response.status, origin_of(&response))
        };
        let expected = match fallback {
            // It is left out after it has failed.
            "on" => ["200 b route=two; Path=/", "200 b route=two; Path=/"],
            // What it says is passed on, which is no failure.
            _ => ["503 a ", "200 a "],
        };
        assert_eq!(["/fails", "/"].map(ask), expected);
        // The same with a server that nobody can connect to.
        let configuration = two.configuration(&session, "");
        drop(two.a);
        let site = Site::new();
        let server = site.serve(&configuration);
        let ask = |_| {
            let response = with_cookie(&server, "/", "route=one");
            format!("{} {}", response.status, origin_of(&response))
        };
        let expected = match fallback {
            "on" => "200 b",
            _ => "502 none",
        };
        assert_eq!([0, 1].map(ask), [expected; 2]);
        // A client without a cookie goes anywhere.
        assert_eq!(get(server.port("plain"), "/").status, 200);
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let site = Site::new();
    for (lines, words) in [
        ("session_sticky cookie=;", "invalid argument \"cookie=\""),
        ("session_sticky cookie=a;b;", "invalid argument"),
        (
            "session_sticky mode=append;",
            "invalid argument \"mode=append\"",
        ),
        (
            "session_sticky maxidle=soon;",
            "invalid argument \"maxidle=soon\"",
        ),
        (
            "session_sticky option=none;",
            "invalid argument \"option=none\"",
        ),
        (
            "session_sticky hash=sha1;",
            "invalid argument \"hash=sha1\"",
        ),
        ("session_sticky; session_sticky;", "is duplicate"),
        (
            "sticky cookie a; session_sticky;",
            "cannot be combined with \"sticky\"",
        ),
        ("session_sticky; sticky cookie a;", "is duplicate"),
        ("server 127.0.0.1:2 id=a|b;", "invalid parameter \"id=a|b\""),
        ("server 127.0.0.1:2 id=;", "invalid parameter \"id=\""),
    ] {
        let lines = lines.replace("cookie=a;b;", "\"cookie=a;b\";");
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
