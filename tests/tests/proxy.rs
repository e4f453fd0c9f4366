//! `proxy_pass` over HTTP/1: what a differential test against nginx cannot show, since
//! nginx has none of it, or the time, or the order of things matters.

use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::wire::{self, Connection};
use sealane_tests::{Server, Site};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `ORIGIN` in the configuration is the origin's address.
fn serve<'s>(site: &'s Site, origins: &[&Origin], configuration: &str) -> Server<'s> {
    let mut configuration = configuration.to_owned();
    for (index, origin) in origins.iter().enumerate() {
        let address = format!("127.0.0.1:{}", origin.port());
        configuration = configuration.replace(&format!("ORIGIN{index}"), &address);
    }
    site.serve(&configuration)
}

fn ok(body: &str) -> Answer {
    let length = body.len();
    Answer::Send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes())
}

fn status(line: &str) -> Answer {
    Answer::Send(format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n").into_bytes())
}

/// An origin that says who it is.
fn named(name: &'static str) -> Origin {
    Origin::answering(move |_| ok(name))
}

#[test]
fn error_lines_name_the_upstream() {
    let closing = Origin::answering(|_| Answer::SendAndClose(Vec::new()));
    let invalid = Origin::answering(|_| {
        Answer::SendAndClose(b"HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n".to_vec())
    });
    let twice = Origin::answering(|_| {
        Answer::SendAndClose(b"HTTP/1.1 204 No\r\nETag: \"a\"\r\netag: \"b\"\r\n\r\n".to_vec())
    });
    let big = Origin::answering(|_| {
        Answer::SendAndClose(
            format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(9000)).into_bytes(),
        )
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&closing, &invalid, &twice, &big],
        "upstream dead { server 127.0.0.1:%nobody%; server 127.0.0.1:%nobody%; }
         server {
             listen 127.0.0.1:%plain%;
             server_name front.test;
             location /closing/ { proxy_pass http://ORIGIN0/x/; }
             location /invalid/ { proxy_pass http://ORIGIN1; }
             location /twice/ { proxy_pass http://ORIGIN2; }
             location /big/ { proxy_pass http://ORIGIN3; }
             location /refused/ { proxy_pass http://127.0.0.1:%nobody%/y/; }
             location /dead/ { proxy_pass http://dead; }
             location /unix/ { proxy_pass http://unix:%site%/nothing:/z/; }
         }",
    );
    server.expect_alert("nothing failed (2: No such file or directory)");
    let front = server.port("plain");
    let nobody = server.port("nobody");
    let tail = |request: &str, upstream: &str| {
        format!(
            ", client: 127.0.0.1, server: front.test, request: \"GET {request} HTTP/1.1\", \
             upstream: \"{upstream}\", host: \"localhost\""
        )
    };
    let site_path = site.path("").display().to_string();
    let site_path = site_path.trim_end_matches('/');
    for (target, expected_status, level, message, upstream) in [
        (
            "/closing/a?b",
            502,
            "error",
            "upstream prematurely closed connection while reading response header from upstream",
            format!("http://127.0.0.1:{}/x/a?b", closing.port()),
        ),
        (
            "/invalid/",
            502,
            "error",
            "upstream sent invalid header: \"Bad\\x20...\" while reading response header from upstream",
            format!("http://127.0.0.1:{}/invalid/", invalid.port()),
        ),
        (
            "/twice/",
            204,
            "warn",
            "upstream sent duplicate header line: \"etag: \"b\"\", previous value: \"ETag: \"a\"\", ignored \
             while reading response header from upstream",
            format!("http://127.0.0.1:{}/twice/", twice.port()),
        ),
        (
            "/big/",
            502,
            "error",
            "upstream sent too big header while reading response header from upstream",
            format!("http://127.0.0.1:{}/big/", big.port()),
        ),
        (
            "/refused/",
            502,
            "error",
            "connect() failed (111: Connection refused) while connecting to upstream",
            format!("http://127.0.0.1:{nobody}/y/"),
        ),
        (
            "/unix/",
            502,
            "crit",
            &format!(
                "connect() to unix:{site_path}/nothing failed (2: No such file or directory) while \
                 connecting to upstream"
            ),
            format!("http://unix:{site_path}/nothing:/z/"),
        ),
    ] {
        assert_eq!(wire::get(front, target).status, expected_status, "{target}");
        let line = server.wait_for_log(&format!("GET {target} "));
        assert!(line.contains(&format!("[{level}]")), "{line}");
        let expected = format!("{message}{}", tail(target, &upstream));
        assert!(line.ends_with(&expected), "{line}\n{expected}");
    }
    // Both addresses fail; then nobody is left.
    assert_eq!(wire::get(front, "/dead/1").status, 502);
    assert_eq!(wire::get(front, "/dead/2").status, 502);
    let line = server.wait_for_log("no live upstreams");
    let expected = format!(
        "no live upstreams while connecting to upstream{}",
        tail("/dead/2", "http://dead/dead/2")
    );
    assert!(line.ends_with(&expected), "{line}\n{expected}");
    server.wait_for_log("upstream server temporarily disabled while connecting to upstream");
}

#[test]
fn another_server_is_asked_for_the_causes_that_are_named() {
    let failing = Origin::answering(|asked: &Asked| {
        let target = asked.target();
        match target
            .trim_start_matches("/all/")
            .trim_start_matches("/few/")
        {
            "404" => status("404 Not Found"),
            "500" => status("500 Internal Server Error"),
            "429" => status("429 Too Many Requests"),
            "invalid" => Answer::SendAndClose(b"HTTP/1.1 200 OK\r\nB B: x\r\n\r\n".to_vec()),
            _ => Answer::SendAndClose(Vec::new()),
        }
    });
    let good = named("good");
    let site = Site::new();
    let server = serve(
        &site,
        &[&failing, &good],
        "log_format tries '$request_method $uri [$upstream_addr] [$upstream_status] [$upstream_response_length] $status';
         access_log logs/tries.log tries;
         upstream group { server ORIGIN0 max_fails=0; server ORIGIN1 backup; keepalive 4; }
         upstream three { server ORIGIN0 max_fails=0; server ORIGIN0 max_fails=0; server ORIGIN1 backup; }
         server {
             listen 127.0.0.1:%plain%;
             location /all/ {
                 proxy_pass http://group;
                 proxy_next_upstream error timeout invalid_header http_500 http_404 http_429;
             }
             location /few/ { proxy_pass http://group; }
             location /never/ { proxy_pass http://group; proxy_next_upstream off; }
             location /twice/ { proxy_pass http://three; proxy_next_upstream_tries 2; }
             location /repeats/ { proxy_pass http://group; proxy_next_upstream error non_idempotent; }
         }",
    );
    let front = server.port("plain");
    let ask = |method: &str, target: &str| {
        wire::request(
            front,
            &format!("{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"),
        )
        .status
    };
    let (bad, good_port) = (failing.port(), good.port());
    let [bad, good_address] = [bad, good_port].map(|port| format!("127.0.0.1:{port}"));
    let both = |first: &str| format!("[{bad}, {good_address}] [{first}, 200] [0, 4] 200");
    for (method, target, expected_status, line) in [
        ("GET", "/all/404", 200, both("404")),
        ("GET", "/all/500", 200, both("500")),
        ("GET", "/all/429", 200, both("429")),
        ("GET", "/all/invalid", 200, both("502")),
        ("GET", "/all/closed", 200, both("502")),
        ("PUT", "/all/500", 200, both("500")),
        // What changes something is not repeated once it may have been seen.
        ("POST", "/all/500", 500, format!("[{bad}] [500] [0] 500")),
        (
            "PATCH",
            "/all/closed",
            502,
            format!("[{bad}] [502] [0] 502"),
        ),
        ("POST", "/repeats/closed", 200, both("502")),
        ("GET", "/few/500", 500, format!("[{bad}] [500] [0] 500")),
        ("GET", "/few/invalid", 502, format!("[{bad}] [502] [0] 502")),
        (
            "GET",
            "/never/closed",
            502,
            format!("[{bad}] [502] [0] 502"),
        ),
        (
            "GET",
            "/twice/closed",
            502,
            format!("[{bad}, {bad}] [502, 502] [0, 0] 502"),
        ),
    ] {
        assert_eq!(ask(method, target), expected_status, "{method} {target}");
        let beginning = format!("{method} {target} ");
        let logged = sealane_tests::wait_for("the access log", || {
            let log = std::fs::read_to_string(site.path("logs/tries.log")).ok()?;
            log.lines()
                .rev()
                .find(|line| line.starts_with(&beginning))
                .map(str::to_owned)
        });
        assert_eq!(logged, format!("{beginning}{line}"));
    }
}

#[test]
fn a_connection_that_was_closed_while_idle_is_no_failure_of_the_server() {
    // Answers once on each connection and closes when it is asked again.
    let origin = Origin::answering(|asked: &Asked| match asked.number {
        0 => ok("fresh"),
        _ => Answer::SendAndClose(Vec::new()),
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "upstream group { server ORIGIN0 max_fails=1; keepalive 4; }
         server { listen 127.0.0.1:%plain%; location / { proxy_pass http://group; } }",
    );
    for _ in 0..5 {
        let response = wire::get(server.port("plain"), "/");
        assert_eq!((response.status, response.text().as_str()), (200, "fresh"));
    }
    assert!(
        origin.take_asked().len() > 5,
        "idle connections were used again"
    );
    assert!(!server.error_log().contains("temporarily disabled"));
}

#[test]
fn a_client_that_goes_takes_its_request_with_it() {
    let origin = Origin::answering(|asked: &Asked| match asked.target().as_str() {
        "/slow/" => Answer::Silence,
        _ => {
            std::thread::sleep(std::time::Duration::from_millis(300));
            ok("late")
        }
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "log_format gone '$uri $status [$upstream_status] [$upstream_header_time]';
         access_log logs/gone.log gone;
         server {
             listen 127.0.0.1:%plain%;
             location / { proxy_pass http://ORIGIN0; }
             location /patient/ { proxy_pass http://ORIGIN0; proxy_ignore_client_abort on; }
         }",
    );
    let leave = |target: &str| {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
        sealane_tests::wait_for("the request at the origin", || {
            origin
                .take_asked()
                .iter()
                .any(|asked| asked.target() == target)
                .then_some(())
        });
    };
    let logged = |beginning: &str| {
        sealane_tests::wait_for("the access log", || {
            let log = std::fs::read_to_string(site.path("logs/gone.log")).ok()?;
            log.lines()
                .find(|line| line.starts_with(beginning))
                .map(str::to_owned)
        })
    };
    leave("/slow/");
    let line = server
        .wait_for_log("client prematurely closed connection, so upstream connection is closed too");
    assert!(
        line.contains("[info]") && line.contains("while reading response header from upstream"),
        "{line}"
    );
    assert_eq!(logged("/slow/"), "/slow/ 499 [-] [-]");
    leave("/patient/");
    assert!(
        logged("/patient/").starts_with("/patient/ 200 [200] [0."),
        "the answer was waited for"
    );
}

#[test]
fn proxy_headers_tell_who_the_client_is() {
    let origin = Origin::echo();
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "upstream group { server ORIGIN0; keepalive 4; }
         server {
             listen 127.0.0.1:%plain%;
             location /v1/ { proxy_pass http://group; proxy_send_proxy_protocol v1; }
             location /v2/ { proxy_pass http://group; proxy_send_proxy_protocol v2; }
             location /none/ { proxy_pass http://group; }
             location /bound/ { proxy_pass http://group; proxy_bind 127.0.0.7; }
         }",
    );
    let front = server.port("plain");
    let mut first = Connection::open(front);
    let own = first.socket().local_addr().expect("connected").port();
    let ask = |connection: &mut Connection, target: &str| {
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(connection.response(false).status, 200);
        let mut asked = origin.take_asked();
        asked.pop().expect("the origin was asked")
    };
    let one = ask(&mut first, "/v1/");
    assert_eq!(
        String::from_utf8_lossy(&one.proxy_header),
        format!("PROXY TCP4 127.0.0.1 127.0.0.1 {own} {front}\r\n")
    );
    // The same client may have the connection again, and no other.
    let again = ask(&mut first, "/v1/");
    assert_eq!((again.connection, again.number), (one.connection, 1));
    let mut second = Connection::open(front);
    let other = ask(&mut second, "/v1/");
    assert_ne!(other.connection, one.connection);
    assert!(other.proxy_header.starts_with(b"PROXY TCP4 "));
    let binary = ask(&mut second, "/v2/");
    let port = second.socket().local_addr().expect("connected").port();
    let mut expected = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\x7f\0\0\x01\x7f\0\0\x01".to_vec();
    expected.extend_from_slice(&port.to_be_bytes());
    expected.extend_from_slice(&front.to_be_bytes());
    assert_eq!(binary.proxy_header, expected);
    let plain = ask(&mut second, "/none/");
    assert_eq!((plain.number, plain.proxy_header.len()), (0, 0));
    let bound = ask(&mut second, "/bound/");
    assert_eq!(
        bound.number, 0,
        "a connection from another address is another one"
    );
}

#[test]
fn one_range_of_a_body_that_is_still_arriving() {
    const BODY_BYTES: usize = 3 << 20;
    let body: Arc<Vec<u8>> = Arc::new((0..BODY_BYTES).map(|at| (at / 7) as u8).collect());
    let theirs = body.clone();
    let origin = Origin::answering(move |_| {
        let mut answer =
            format!("HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: {BODY_BYTES}\r\n\r\n")
                .into_bytes();
        answer.extend_from_slice(&theirs);
        Answer::Send(answer)
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "server { listen 127.0.0.1:%plain%; location / { proxy_pass http://ORIGIN0; proxy_force_ranges on; } }",
    );
    let front = server.port("plain");
    for (range, expected) in [
        ("0-9", 0..10),
        ("100000-200000", 100_000..200_001),
        ("2000000-", 2_000_000..BODY_BYTES),
        ("-5", BODY_BYTES - 5..BODY_BYTES),
    ] {
        let response = wire::get_with(
            front,
            "/",
            &format!("Range: bytes={range}\r\nIf-Range: \"e\"\r\n"),
        );
        assert_eq!(response.status, 206, "{range}");
        assert!(
            response.body == body[expected],
            "{range}: {} bytes",
            response.body.len()
        );
    }
    for whole in [
        "Range: bytes=0-1,5-6\r\n",
        "Range: bytes=0-1\r\nIf-Range: \"f\"\r\n",
    ] {
        let response = wire::get_with(front, "/", whole);
        assert_eq!(
            (response.status, response.body.len()),
            (200, BODY_BYTES),
            "{whole}"
        );
    }
}

#[test]
fn early_hints_pass_where_they_may() {
    let origin = Origin::answering(|_| {
        Answer::Send(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Note: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
              HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                .to_vec(),
        )
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "server {
             listen 127.0.0.1:%plain%;
             location / { proxy_pass http://ORIGIN0; }
             location /hints/ { proxy_pass http://ORIGIN0; early_hints $http_x_hints; }
         }",
    );
    for (target, headers, hints) in [
        ("/", "X-Hints: 1\r\n", false),
        ("/hints/", "X-Hints: 1\r\n", true),
        ("/hints/", "", false),
    ] {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n"));
        let mut response = connection.response(false);
        if hints {
            assert_eq!(response.status, 103);
            assert_eq!(response.headers("Link"), ["</a.css>; rel=preload"]);
            response = connection.response(false);
        }
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "ok"),
            "{target}"
        );
    }
}

#[test]
fn hints_are_few_and_without_what_is_hidden() {
    const HINTS: usize = 8;
    let origin = Origin::answering(|_| {
        let hint = format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </{}>\r\nX-Note: x\r\nServer: s\r\nConnection: close\r\n\r\n",
            "x".repeat(900)
        );
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        Answer::Send((hint.repeat(HINTS) + head).into_bytes())
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "server {
             listen 127.0.0.1:%plain%;
             location / { proxy_pass http://ORIGIN0; early_hints 1; proxy_hide_header X-Note; }
         }",
    );
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut hints = 0;
    let response = loop {
        let response = connection.response(false);
        if response.status != 103 {
            break response;
        }
        hints += 1;
        assert_eq!(response.headers("Link").len(), 1);
        for hidden in ["X-Note", "Server", "Connection"] {
            assert_eq!(response.header(hidden), None);
        }
    };
    assert_eq!(
        (response.status, response.text().as_str()),
        (200, "ok"),
        "after {hints} hints"
    );
    // All of them together are no longer than one head may be (`proxy_buffer_size`).
    assert!((1..=4096 / 900).contains(&hints), "{hints} hints");
}

#[test]
fn variables_of_several_groups() {
    let first = Origin::answering(|_| {
        Answer::Send(
            b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /second/\r\nContent-Length: 0\r\n\r\n".to_vec(),
        )
    });
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let second = Origin::answering(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        ok("second")
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&first, &second],
        "log_format all '$uri|$upstream_addr|$upstream_status|$upstream_response_length|$upstream_http_x_accel_redirect';
         access_log logs/all.log all;
         server {
             listen 127.0.0.1:%plain%;
             location /first/ { proxy_pass http://ORIGIN0; }
             location /second/ { internal; proxy_pass http://ORIGIN1; }
         }",
    );
    let response = wire::get(server.port("plain"), "/first/");
    assert_eq!((response.status, response.text().as_str()), (200, "second"));
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let line = sealane_tests::wait_for("the access log", || {
        let log = std::fs::read_to_string(site.path("logs/all.log")).ok()?;
        log.lines().next().map(str::to_owned)
    });
    let expected = format!(
        "/second/|127.0.0.1:{} : 127.0.0.1:{}|200 : 200|0 : 6|-",
        first.port(),
        second.port()
    );
    assert_eq!(line, expected);
}

/// An origin that sends the request back to itself.
#[test]
fn redirects_of_an_origin_to_itself_end() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let origin = Origin::answering(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Answer::Send(
            b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /again\r\nContent-Length: 0\r\n\r\n".to_vec(),
        )
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "server { listen 127.0.0.1:%plain%; location / { proxy_pass http://ORIGIN0; } }",
    );
    let response = wire::get(server.port("plain"), "/");
    assert_eq!(response.status, 500);
    assert_eq!(
        count.load(Ordering::Relaxed),
        11,
        "it was asked, and ten times more"
    );
    server.wait_for_log("rewrite or internal redirection cycle while");
}

#[test]
fn trailers_pass_where_they_may() {
    let origin = Origin::answering(|_| {
        Answer::Send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1 2\r\n\r\n".to_vec(),
        )
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "server {
             listen 127.0.0.1:%plain%;
             location / { proxy_pass http://ORIGIN0; }
             location /passed/ { proxy_pass http://ORIGIN0; proxy_pass_trailers on; }
         }",
    );
    for (target, end) in [("/", "0\r\n\r\n"), ("/passed/", "0\r\nX-Sum: 1 2\r\n\r\n")] {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(format!(
            "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        ));
        let whole = String::from_utf8_lossy(&connection.rest()).into_owned();
        assert!(
            whole.ends_with(&format!("2\r\nok\r\n{end}")),
            "{target}: {whole}"
        );
    }
}

#[test]
fn hidden_trailers_are_for_variables_alone() {
    let origin = Origin::answering(|_| {
        Answer::Send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1 2\r\nX-Secret: 3\r\n\r\n"
                .to_vec(),
        )
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "log_format trailers '$upstream_trailer_x_sum|$upstream_trailer_x_secret|$upstream_trailer_x_none';
         access_log logs/trailers.log trailers;
         server {
             listen 127.0.0.1:%plain%;
             location / {
                 proxy_pass http://ORIGIN0;
                 proxy_http_version 1.1;
                 proxy_pass_trailers on;
                 proxy_hide_header X-Secret;
             }
         }",
    );
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let whole = String::from_utf8_lossy(&connection.rest()).into_owned();
    assert!(
        whole.ends_with("2\r\nok\r\n0\r\nX-Sum: 1 2\r\n\r\n"),
        "{whole}"
    );
    let line = sealane_tests::wait_for("the access log", || {
        let log = std::fs::read_to_string(site.path("logs/trailers.log")).ok()?;
        log.lines().next().map(str::to_owned)
    });
    assert_eq!(line, "1 2|3|-");
}

#[test]
fn the_method_that_is_sent_decides_about_the_body() {
    let origin = Origin::answering(|asked: &Asked| {
        let body = if asked.head.starts_with(b"HEAD ") {
            ""
        } else {
            "hello"
        };
        Answer::Send(format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}").into_bytes())
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "server {
             listen 127.0.0.1:%plain%;
             location /head/ { proxy_pass http://ORIGIN0; proxy_method HEAD; }
             location /get/ { proxy_pass http://ORIGIN0; proxy_method GET; }
         }",
    );
    let mut connection = Connection::open(server.port("plain"));
    // Nothing of a body may be taken for the next response.
    for (request, length) in [
        ("GET /head/", "0"),
        ("HEAD /head/", "5"),
        ("HEAD /get/", "5"),
        ("GET /get/", "5"),
    ] {
        connection.send(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let response = connection.response(request.starts_with("HEAD "));
        assert_eq!(
            (response.status, response.header("Content-Length")),
            (200, Some(length)),
            "{request}"
        );
        let expected = if request == "GET /get/" { "hello" } else { "" };
        assert_eq!(response.text(), expected, "{request}");
    }
}

/// nginx announces the length that the 304 had, and the client waits for that body.
#[test]
fn a_304_that_becomes_something_else_has_no_body() {
    let origin = Origin::answering(|_| {
        Answer::Send(
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\n".to_vec(),
        )
    });
    let site = Site::new();
    let server = serve(
        &site,
        &[&origin],
        "server {
             listen 127.0.0.1:%plain%;
             location /plain/ { proxy_pass http://ORIGIN0; }
             location / { error_page 404 =402 @other; return 404; }
             location @other { proxy_pass http://ORIGIN0; }
         }",
    );
    let mut connection = Connection::open(server.port("plain"));
    for (target, status, length) in [
        ("/plain/", 304, "5"),
        ("/x", 402, "0"),
        ("/plain/", 304, "5"),
    ] {
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let response = connection.response(false);
        assert_eq!(response.status, status, "{target}");
        assert_eq!(response.header("Content-Length"), Some(length), "{target}");
        assert_eq!(response.body, b"", "{target}");
    }
}
