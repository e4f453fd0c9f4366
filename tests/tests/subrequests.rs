//! `auth_request` and `mirror`: what the servers that are asked see, and what becomes of
//! the request that asks them.

use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::random::Random;
use sealane_tests::wire::{Connection, Response, get, get_with, request};
use sealane_tests::{Server, Site, command, scale, wait_for};

/// An origin that answers with the status and header lines of the request's `X-Say`
/// (`401|Name: value|...`), and 200 without one.
fn obedient() -> Origin {
    Origin::answering(|asked| {
        let says = asked.headers("X-Say").join("");
        let mut parts = says.split('|').filter(|part| !part.is_empty());
        let status = parts.next().unwrap_or("200");
        let mut head = format!("HTTP/1.1 {status} Said\r\n");
        for line in parts {
            head.push_str(&format!("{line}\r\n"));
        }
        let body = if status == "204" { "" } else { "no matter" };
        if status != "204" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        Answer::Send(format!("{head}\r\n{body}").into_bytes())
    })
}

/// A site whose `/auth` asks one origin, and whose `/app/` is another.
struct Gate {
    site: Site,
    auth: Origin,
    app: Origin,
}

impl Gate {
    fn new(auth: Origin) -> Gate {
        let site = Site::new();
        site.write("html/a.txt", "alpha");
        site.write("html/denied.html", "denied");
        site.write("html/login.html", "log in");
        Gate {
            site,
            auth,
            app: Origin::echo(),
        }
    }

    fn serve(&self, more: &str) -> Server<'_> {
        self.serve_with("", more)
    }

    fn serve_with(&self, main: &str, more: &str) -> Server<'_> {
        let http = format!(
            r#"
            log_format who "$request_uri $status user=$user for=$remote_user";
            access_log logs/access.log who;
            client_max_body_size 0;
            server {{
                listen 127.0.0.1:%plain%;
                root html;
                location = /auth {{
                    internal;
                    proxy_pass http://127.0.0.1:{auth}/check;
                    proxy_pass_request_body off;
                    proxy_set_header Content-Length "";
                    proxy_set_header X-Original-URI $request_uri;
                    proxy_set_header X-Original-Method $request_method;
                    proxy_set_header X-Id $request_id;
                }}
                location / {{
                    auth_request /auth;
                    auth_request_set $user $upstream_http_x_user;
                    add_header X-User $user always;
                }}
                location /app/ {{
                    auth_request /auth;
                    auth_request_set $user $upstream_http_x_user;
                    proxy_pass http://127.0.0.1:{app};
                    proxy_set_header X-User $user;
                    proxy_set_header X-Id $request_id;
                    add_header X-User $user always;
                }}
                {more}
            }}"#,
            auth = self.auth.port(),
            app = self.app.port(),
        );
        self.site.serve_with(main, "", &http)
    }
}

fn says(what: &str) -> String {
    format!("X-Say: {what}\r\n")
}

#[test]
fn the_status_decides() {
    let gate = Gate::new(obedient());
    let server = gate.serve("");
    let port = server.port("plain");
    for (said, status) in [
        ("200", 200),
        ("201", 200),
        ("204", 200),
        ("299", 200),
        ("401", 401),
        ("403", 403),
        ("302|Location: /login", 500),
        ("404", 500),
        ("500", 500),
    ] {
        let answer = get_with(port, "/a.txt", &says(said));
        assert_eq!(answer.status, status, "{said}");
        if status == 200 {
            assert_eq!(answer.text(), "alpha", "{said}");
        } else {
            assert!(!answer.text().contains("alpha"), "{said}");
            assert!(answer.text().contains(&status.to_string()), "{said}");
        }
        assert_eq!(answer.header("location"), None, "{said}");
    }
    for code in ["302", "404", "500"] {
        let line = server.wait_for_log(&format!("auth request unexpected status: {code}"));
        assert!(line.contains("[error]"), "{line}");
    }
}

#[test]
fn how_to_authenticate_comes_from_the_subrequest() {
    let gate = Gate::new(obedient());
    let server = gate.serve("");
    let port = server.port("plain");
    let said = says("401|WWW-Authenticate: Basic realm=\"a\"|www-authenticate: Bearer|X-Secret: s");
    let answer = get_with(port, "/a.txt", &said);
    assert_eq!(answer.status, 401);
    assert_eq!(
        answer.headers("WWW-Authenticate"),
        ["Basic realm=\"a\"", "Bearer"]
    );
    assert_eq!(answer.header("X-Secret"), None);
    // It is no part of any other refusal.
    let answer = get_with(port, "/a.txt", &says("403|WWW-Authenticate: Basic"));
    assert_eq!(answer.header("WWW-Authenticate"), None);
}

#[test]
fn the_server_that_is_asked_sees_no_body() {
    let gate = Gate::new(obedient());
    let server = gate.serve("");
    let port = server.port("plain");
    let head = "POST /app/x%20y?b=1 HTTP/1.1\r\nHost: h\r\nCookie: c=1\r\nContent-Length: 4\r\nConnection: close\r\n";
    let answer = request(port, &format!("{head}{}\r\nbody", says("200|X-User: ann")));
    assert_eq!(answer.status, 200);
    let asked = gate.auth.take_asked();
    let [asked] = &asked[..] else {
        panic!("one question: {asked:?}")
    };
    assert!(
        asked.text().starts_with("GET /check HTTP/1."),
        "{}",
        asked.text()
    );
    assert_eq!(asked.headers("X-Original-URI"), ["/app/x%20y?b=1"]);
    assert_eq!(asked.headers("X-Original-Method"), ["POST"]);
    assert_eq!(asked.headers("Cookie"), ["c=1"]);
    assert!(asked.headers("Content-Length").is_empty());
    assert!(asked.headers("Transfer-Encoding").is_empty());
    assert!(asked.body.is_empty());
    let reached = gate.app.take_asked();
    assert!(reached[0].text().starts_with("POST /app/x%20y?b=1 HTTP/1."));
    assert_eq!(reached[0].headers("X-User"), ["ann"]);
    assert_eq!(
        reached[0].headers("X-Id"),
        asked.headers("X-Id"),
        "one request, one id"
    );
    assert_eq!(reached[0].body, b"body");
}

#[test]
fn bodies_reach_the_origin_behind() {
    let gate = Gate::new(obedient());
    let server = gate.serve(
        r#"
        location /streamed/ {
            auth_request /auth;
            proxy_request_buffering off;
            proxy_http_version 1.1;
            proxy_pass http://127.0.0.1:%app%;
        }"#
        .replace("%app%", &gate.app.port().to_string())
        .as_str(),
    );
    let mut random = Random::new(7);
    for path in ["/app/", "/streamed/"] {
        for len in [0, 1, 8 << 10, 16 << 10, 100_000, 3 << 20] {
            let body = random.bytes(len);
            let mut connection = Connection::open(server.port("plain"));
            connection.send(format!(
                "PUT {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n"
            ));
            connection.send(&body);
            assert_eq!(connection.response(false).status, 200, "{path} {len}");
            let asked = gate.app.take_asked();
            assert_eq!(asked.len(), 1);
            assert!(
                asked[0].body == body,
                "{path} {len}: the body arrives as it was"
            );
        }
    }
    // A refused one is read past: the connection goes on.
    let mut connection = Connection::open(server.port("plain"));
    connection.send(format!(
        "POST /app/ HTTP/1.1\r\nHost: h\r\n{}Content-Length: 100000\r\n\r\n",
        says("403")
    ));
    connection.send(vec![b'x'; 100_000]);
    assert_eq!(connection.response(false).status, 403);
    connection.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(connection.response(false).text(), "alpha");
    assert!(gate.app.take_asked().is_empty());
}

#[test]
fn variables_are_set_from_the_answer() {
    let gate = Gate::new(obedient());
    let server = gate.serve("");
    let port = server.port("plain");
    let answer = get_with(port, "/a.txt", &says("200|X-User: ann"));
    assert_eq!(answer.header("X-User"), Some("ann"));
    // Refusals have them too.
    let answer = get_with(port, "/a.txt", &says("403|X-User: eve"));
    assert_eq!((answer.status, answer.header("X-User")), (403, Some("eve")));
    let answer = get(port, "/a.txt");
    assert_eq!((answer.status, answer.header("X-User")), (200, None));
    let answer = get_with(port, "/app/", &says("200|X-User: bob"));
    assert!(
        answer.text().contains("X-User: bob\r\n"),
        "{}",
        answer.text()
    );
    let log = gate.site.path("logs/access.log");
    wait_for("four lines of the access log", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        (lines.len() == 4).then(|| {
            assert_eq!(
                lines,
                [
                    "/a.txt 200 user=ann for=-",
                    "/a.txt 403 user=eve for=-",
                    "/a.txt 200 user= for=-",
                    "/app/ 200 user=bob for=-",
                ]
            );
        })
    });
}

#[test]
fn locations_of_every_kind_can_decide() {
    let gate = Gate::new(obedient());
    let server = gate.serve(
        r#"
        location = /yes { return 204; }
        location = /no { return 403; }
        location = /who { return 401; }
        location = /login.html { }
        location /by-return/ { auth_request /yes; alias html/; }
        location /by-refusal/ { auth_request /no; alias html/; }
        location /by-who/ { auth_request /who; alias html/; }
        location /by-file/ { auth_request /login.html; alias html/; }
        location /by-nothing/ { auth_request /missing/; alias html/; }
        location /missing/ { }
        location /asked-not/ { auth_request off; alias html/; }
        location ~ ^/captured/(?<word>\w+)$ { return 204; }
        location ~ ^/(capturing|x)/ {
            auth_request /captured/there;
            auth_request_set $group $word;
            add_header X-Group "$group $1";
            try_files /a.txt =404;
        }
        "#,
    );
    let port = server.port("plain");
    for (path, status) in [
        ("/by-return/a.txt", 200),
        ("/by-refusal/a.txt", 403),
        ("/by-who/a.txt", 401),
        ("/by-file/a.txt", 200),
        ("/by-nothing/a.txt", 500),
        ("/asked-not/a.txt", 200),
        ("/auth", 404),
    ] {
        assert_eq!(get(port, path).status, status, "{path}");
    }
    let answer = get(port, "/capturing/x");
    assert_eq!(answer.header("X-Group"), Some("there capturing"));
    assert_eq!(gate.auth.take_asked().len(), 0);
}

#[test]
fn error_pages_stand_for_refusals() {
    let gate = Gate::new(obedient());
    let server = gate.serve(
        r#"
        error_page 401 = @login;
        error_page 403 /denied.html;
        location = /denied.html { }
        location @login { return 302 /login?back=$request_uri; }
        location /guarded/ {
            auth_request /auth;
            error_page 403 /guarded/denied.html;
            alias html/;
        }
        location /changed/ {
            auth_request /auth;
            error_page 401 =200 /login.html;
            alias html/;
        }
        location = /login.html { }
        "#,
    );
    let port = server.port("plain");
    let answer = get_with(port, "/a.txt", &says("401|WWW-Authenticate: Basic"));
    assert_eq!(answer.status, 302);
    assert!(
        answer
            .header("location")
            .is_some_and(|to| to.ends_with("/login?back=/a.txt"))
    );
    let answer = get_with(port, "/a.txt", &says("403"));
    assert_eq!((answer.status, answer.text().as_str()), (403, "denied"));
    assert_eq!(gate.auth.take_asked().len(), 2);
    // The page is guarded too: it is asked for again, and refused like the first.
    let answer = get_with(port, "/guarded/a.txt", &says("403"));
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("403 Forbidden"));
    assert_eq!(gate.auth.take_asked().len(), 2);
    let answer = get_with(port, "/changed/a.txt", &says("401|WWW-Authenticate: Basic"));
    assert_eq!((answer.status, answer.text().as_str()), (200, "log in"));
}

#[test]
fn internal_redirects_are_asked_for_again() {
    let gate = Gate::new(obedient());
    gate.site.write("html/d/index.html", "index");
    let server = gate.serve("");
    let port = server.port("plain");
    assert_eq!(get(port, "/d/").text(), "index");
    // For the directory and for its index.
    assert_eq!(gate.auth.take_asked().len(), 2);
}

#[test]
fn http2_requests_are_asked_for_too() {
    let gate = Gate::new(obedient());
    let server = gate.serve("http2 on;");
    let url = format!("http://127.0.0.1:{}/app/?q", server.port("plain"));
    let curl = |arguments: &[&str]| {
        let mut all = vec!["-sS", "-i", "--http2-prior-knowledge", url.as_str()];
        all.extend_from_slice(arguments);
        command("curl", &all, b"").success().text()
    };
    let answer = curl(&["-H", "X-Say: 200|X-User: ann", "--data-binary", "the body"]);
    assert!(answer.starts_with("HTTP/2 200"), "{answer}");
    assert!(answer.contains("x-user: ann"), "{answer}");
    assert!(answer.ends_with("the body"), "{answer}");
    let answer = curl(&[
        "-H",
        "X-Say: 401|WWW-Authenticate: Basic",
        "--data-binary",
        "the body",
    ]);
    assert!(answer.starts_with("HTTP/2 401"), "{answer}");
    assert!(answer.contains("www-authenticate: Basic"), "{answer}");
    let asked = gate.auth.take_asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].text().starts_with("GET /check HTTP/1."));
    assert_eq!(asked[0].headers("X-Original-Method"), ["POST"]);
    assert_eq!(gate.app.take_asked().len(), 1);
}

#[test]
fn dead_and_silent_servers_refuse() {
    let gate = Gate::new(Origin::answering(|_| Answer::Silence));
    let server = gate.serve(
        r#"
        location = /dead { proxy_pass http://127.0.0.1:%nobody%; }
        location = /silent { proxy_pass http://127.0.0.1:%silent%; proxy_read_timeout 1s; }
        location /by-dead/ { auth_request /dead; alias html/; }
        location /by-silent/ { auth_request /silent; alias html/; }
        "#
        .replace("%silent%", &gate.auth.port().to_string())
        .as_str(),
    );
    let port = server.port("plain");
    assert_eq!(get(port, "/by-dead/a.txt").status, 500);
    server.wait_for_log("auth request unexpected status: 502");
    assert_eq!(get(port, "/by-silent/a.txt").status, 500);
    server.wait_for_log("auth request unexpected status: 504");
}

#[test]
fn a_client_that_goes_is_not_waited_for() {
    let gate = Gate::new(Origin::answering(|_| Answer::Silence));
    let server = gate.serve("");
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for("the question", || gate.auth.take_asked().pop());
    drop(connection);
    let log = gate.site.path("logs/access.log");
    wait_for("a line that says so", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.starts_with("/a.txt 499 ").then_some(())
    });
}

#[test]
fn nothing_passes_from_one_request_to_another() {
    let gate = Gate::new(obedient());
    let server = gate.serve_with("worker_processes 3;", "");
    let port = server.port("plain");
    let rounds = scale(40, 1000);
    std::thread::scope(|threads| {
        for client in 0..12 {
            threads.spawn(move || {
                let mut connection = Connection::open(port);
                for round in 0..rounds {
                    let user = format!("user-{client}-{round}");
                    // Every third has no name, every fifth is refused.
                    let (status, named) = match (round % 5, round % 3) {
                        (0, _) => (403, format!("403|X-User: {user}")),
                        (_, 0) => (200, "200".to_owned()),
                        _ => (200, format!("200|X-User: {user}")),
                    };
                    let path = if round % 2 == 0 { "/app/" } else { "/a.txt" };
                    connection.send(format!(
                        "POST {path}?{user} HTTP/1.1\r\nHost: h\r\n{}Content-Length: {}\r\n\r\n{user}",
                        says(&named),
                        user.len()
                    ));
                    let answer = connection.response(false);
                    // A file takes no POST.
                    let expected = if status == 200 && path == "/a.txt" { 405 } else { status };
                    assert_eq!(answer.status, expected, "{user}");
                    let shown = named.contains(&user).then_some(user.as_str());
                    assert_eq!(answer.header("X-User"), shown, "{user}");
                    if expected == 200 {
                        assert!(answer.text().ends_with(&user), "{user}: {}", answer.text());
                    }
                }
            });
        }
    });
    for asked in gate.app.take_asked() {
        let user = asked.target().replace("/app/?", "");
        let header = asked.headers("X-User");
        assert!(
            header.is_empty() || header == [user.clone()],
            "{user}: {header:?}"
        );
    }
}

/// A site that mirrors to two origins.
struct Mirrors {
    site: Site,
    app: Origin,
    first: Origin,
    second: Origin,
}

impl Mirrors {
    fn new(first: Origin, second: Origin) -> Mirrors {
        let site = Site::new();
        site.write("html/a.txt", "alpha");
        Mirrors {
            site,
            app: Origin::echo(),
            first,
            second,
        }
    }

    fn serve(&self, more: &str) -> Server<'_> {
        let fill = |text: &str| {
            text.replace("APP", &self.app.port().to_string())
                .replace("FIRST", &self.first.port().to_string())
                .replace("SECOND", &self.second.port().to_string())
        };
        let http = fill(
            r#"
            log_format simple "$uri $status";
            access_log logs/access.log simple;
            client_max_body_size 0;
            server {
                listen 127.0.0.1:%plain%;
                location / {
                    mirror /first;
                    mirror /second;
                    proxy_pass http://127.0.0.1:APP;
                    proxy_set_header X-Id $request_id;
                }
                location = /first {
                    internal;
                    proxy_pass http://127.0.0.1:FIRST$request_uri;
                    proxy_set_header X-Id $request_id;
                    proxy_set_header X-Method $request_method;
                }
                location = /second {
                    internal;
                    proxy_pass http://127.0.0.1:SECOND;
                }
                location /headless/ {
                    mirror /without-body;
                    mirror_request_body off;
                    proxy_pass http://127.0.0.1:APP;
                }
                location = /without-body {
                    internal;
                    proxy_pass http://127.0.0.1:FIRST$request_uri;
                    proxy_pass_request_body off;
                    proxy_set_header Content-Length "";
                }
                "#,
        ) + &fill(more)
            + "}";
        self.site.serve(&http)
    }
}

/// The questions an origin got, once there are so many.
fn wait_for_asked(origin: &Origin, count: usize) -> Vec<Asked> {
    let mut asked = Vec::new();
    wait_for(&format!("{count} questions"), || {
        asked.extend(origin.take_asked());
        (asked.len() >= count).then_some(())
    });
    assert_eq!(asked.len(), count, "{asked:?}");
    asked
}

fn upload(port: u16, head: &str, body: &[u8]) -> Response {
    let mut connection = Connection::open(port);
    connection.send(head);
    connection.send(body);
    connection.response(false)
}

#[test]
fn copies_have_the_request_and_its_body() {
    let mirrors = Mirrors::new(Origin::echo(), obedient());
    let server = mirrors.serve("");
    let port = server.port("plain");
    let mut random = Random::new(3);
    for len in [0, 1, 8 << 10, 20_000, 100_000, 5 << 20] {
        let body = random.bytes(len);
        let answer = upload(
            port,
            &format!(
                "PUT /x%2Fy?a=1 HTTP/1.1\r\nHost: h\r\nX-Say: 500\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n"
            ),
            &body,
        );
        assert_eq!(answer.status, 200, "{len}");
        let app = wait_for_asked(&mirrors.app, 1);
        let first = wait_for_asked(&mirrors.first, 1);
        let second = wait_for_asked(&mirrors.second, 1);
        for asked in [&app[0], &first[0], &second[0]] {
            assert!(asked.body == body, "{len}: every server gets the body");
            assert!(asked.text().starts_with("PUT "), "{}", asked.text());
        }
        assert_eq!(first[0].target(), "/x%2Fy?a=1");
        assert_eq!(second[0].target(), "/second?a=1");
        assert_eq!(first[0].headers("X-Method"), ["PUT"]);
        assert_eq!(first[0].headers("X-Id"), app[0].headers("X-Id"));
    }
    let answer = upload(
        port,
        "POST /chunked HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
    );
    assert_eq!(answer.status, 200);
    for origin in [&mirrors.app, &mirrors.first, &mirrors.second] {
        let asked = wait_for_asked(origin, 1);
        assert_eq!(asked[0].headers("Content-Length"), ["7"]);
        assert_eq!(asked[0].body, b"abcdefg");
    }
    let answer = request(
        port,
        "HEAD /head HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(answer.status, 200);
    assert!(
        wait_for_asked(&mirrors.first, 1)[0]
            .text()
            .starts_with("HEAD /head ")
    );
}

#[test]
fn copies_without_the_body() {
    let mirrors = Mirrors::new(Origin::echo(), Origin::echo());
    let server = mirrors.serve("");
    let answer = upload(
        server.port("plain"),
        "POST /headless/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 200000\r\n\r\n",
        &[b'b'; 200_000],
    );
    assert_eq!(answer.status, 200);
    let asked = wait_for_asked(&mirrors.first, 1);
    assert_eq!(asked[0].target(), "/headless/");
    assert!(asked[0].body.is_empty() && asked[0].headers("Content-Length").is_empty());
    let app = wait_for_asked(&mirrors.app, 1);
    assert!(app[0].body == [b'b'; 200_000]);
    assert!(mirrors.second.take_asked().is_empty());
}

#[test]
fn dead_and_silent_mirrors_are_no_matter() {
    // The first does not answer as long as the connection stands; the second is not there.
    let mirrors = Mirrors::new(Origin::answering(|_| Answer::Silence), Origin::echo());
    let server = mirrors.serve(
        r#"
        location /gone/ {
            mirror /nobody;
            mirror /first;
            proxy_pass http://127.0.0.1:APP;
        }
        location = /nobody {
            proxy_pass http://127.0.0.1:%nobody%;
            proxy_read_timeout 1s;
        }"#,
    );
    let port = server.port("plain");
    for round in 0..5 {
        let body = vec![b'x'; round * 100_000];
        let head = format!(
            "POST /gone/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = upload(port, &head, &body);
        assert_eq!(answer.status, 200);
        assert!(answer.body.ends_with(&body));
    }
    wait_for_asked(&mirrors.first, 5);
    let line = server.wait_for_log("connect() failed (111: Connection refused)");
    assert!(
        line.contains("request: \"POST /gone/ HTTP/1.1\", subrequest: \"/nobody\", upstream: "),
        "{line}"
    );
    // Static answers as well.
    assert_eq!(get(port, "/gone/x").status, 200);
}

/// nginx keeps a connection from its next request until the copies of the last one are
/// answered; here nobody waits for them at all.
#[test]
fn the_next_request_does_not_wait_for_a_silent_mirror() {
    if std::env::var_os("SEALANE_BINARY")
        .is_some_and(|path| path.to_string_lossy().contains("nginx"))
    {
        return sealane_needs::leave_out("this is not about nginx");
    }
    let mirrors = Mirrors::new(Origin::answering(|_| Answer::Silence), Origin::echo());
    let server = mirrors.serve("");
    let mut connection = Connection::open(server.port("plain"));
    for round in 0..20 {
        connection.send(format!("GET /{round} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(connection.response(false).status, 200);
    }
    wait_for_asked(&mirrors.first, 20);
}

#[test]
fn copies_that_pile_up_are_limited() {
    if std::env::var_os("SEALANE_BINARY")
        .is_some_and(|path| path.to_string_lossy().contains("nginx"))
    {
        return sealane_needs::leave_out("this is not about nginx");
    }
    const LIMIT: usize = 40;
    let first = Origin::answering(|_| Answer::Silence);
    let site = Site::new();
    site.write("html/a.txt", "alpha");
    let server = site.serve_with(
        "",
        &format!("worker_connections {LIMIT};"),
        &format!(
            r#"server {{
                listen 127.0.0.1:%plain%;
                root html;
                location / {{ mirror /first; }}
                location = /first {{ proxy_pass http://127.0.0.1:{}; }}
            }}"#,
            first.port()
        ),
    );
    server.expect_alert("worker_connections are not enough while mirroring");
    let mut connection = Connection::open(server.port("plain"));
    for _ in 0..3 * LIMIT {
        connection.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(connection.response(false).text(), "alpha");
    }
    server.wait_for_log("40 worker_connections are not enough while mirroring to \"/first\"");
    // One of the connections is the client's.
    wait_for_asked(&first, LIMIT - 1);
}

#[test]
fn what_is_mirrored() {
    let mirrors = Mirrors::new(Origin::echo(), Origin::echo());
    let server = mirrors.serve(
        r#"
        location = /static { mirror /first; root html; try_files /a.txt =404; }
        location = /other { mirror /first; root html; try_files /missing @other; }
        location @other { return 200 other; }
        location = /returned { mirror /first; return 200 returned; }
        location = /off { mirror off; root html; try_files /a.txt =404; }
        location /logged/ { mirror /logging; proxy_pass http://127.0.0.1:APP; }
        location = /logging { log_subrequest on; proxy_pass http://127.0.0.1:FIRST; }
        "#,
    );
    let port = server.port("plain");
    assert_eq!(get(port, "/static").text(), "alpha");
    assert_eq!(wait_for_asked(&mirrors.first, 1)[0].target(), "/static");
    // Others answer before anything is mirrored.
    assert_eq!(get(port, "/other").text(), "other");
    assert_eq!(get(port, "/returned").text(), "returned");
    assert_eq!(get(port, "/off").text(), "alpha");
    assert_eq!(get(port, "/logged/x").status, 200);
    assert_eq!(wait_for_asked(&mirrors.first, 1)[0].target(), "/logging");
    let log = mirrors.site.path("logs/access.log");
    wait_for("a line for the copy", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("/logging 200")
            .then(|| assert!(!text.contains("/first "), "{text}"))
    });
}
