//! `echo` and its relatives: what is sent, when it is sent, and what stands around other responses.

use sealane_tests::http2::Client;
use sealane_tests::wire::{self, Connection, get, request};
use sealane_tests::{Site, command, sealane_binary};
use std::io::Read;

const CONFIGURATION: &str = r#"
    types { text/html html; }
    server {
        listen 127.0.0.1:%plain%;
        listen 127.0.0.1:%two%;
        http2 on;
        root html;
        location /words { default_type text/x; echo hello "big  world" $arg_a; echo; echo -n -- -n end; }
        location /twice { echo_duplicate 2 "ab"; echo_duplicate 0 never; echo_duplicate 1_0 $arg_a; }
        location /status { echo_status 404; echo missing; }
        location /if { if ($arg_a) { echo inside; } echo outside; }
        location /slow { echo first; echo_sleep $arg_s; echo second; }
        location /flush { echo first; echo_flush; echo_sleep 0.001; echo_reset_timer; echo second; }
        location /body { echo_read_request_body; echo $echo_request_body; echo_request_body; }
        location /unread { echo "[$echo_request_body]"; echo_request_body; }
        location /facts {
            echo $echo_request_method $echo_client_request_method $echo_request_uri;
            echo $echo_response_status;
            echo -n $echo_client_request_headers;
        }
        location /timer { echo $echo_timer_elapsed; }
        location /around/ {
            alias html/;
            echo_before_body "before $uri"; echo_before_body -n next;
            echo_after_body after;
        }
        location /around/none/ { alias html/; echo_before_body -n ""; }
        location /zip { gzip on; gzip_types *; gzip_min_length 1; echo_duplicate 1000 text; }
        location /204 { return 204; echo_after_body x; }
    }
"#;

#[test]
fn texts_are_sent_one_after_the_other() {
    let site = Site::new();
    site.write("html/page.html", "<p>");
    let server = site.serve(CONFIGURATION);
    let port = server.port("plain");
    let text = |target: &str| get(port, target).text();
    let words = get(port, "/words?a=x%20y");
    assert_eq!(words.text(), "hello big  world x%20y\n\n-n end");
    assert_eq!(words.header("Content-Type"), Some("text/x"));
    assert_eq!(words.header("Transfer-Encoding"), Some("chunked"));
    assert_eq!(text("/twice?a=c"), "ababcccccccccc");
    let missing = get(port, "/status");
    assert_eq!((missing.status, missing.text()), (404, "missing\n".into()));
    assert_eq!(
        (text("/if?a=1"), text("/if")),
        ("inside\n".into(), "outside\n".into())
    );
    assert_eq!(text("/slow?s=0.002"), "first\nsecond\n");
    assert_eq!(text("/flush"), "first\nsecond\n");
    assert_eq!(text("/unread"), "[]\n");
    assert_eq!(
        text("/facts?q=%20"),
        "GET GET /facts\n200\nGET /facts?q=%20 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    let elapsed = text("/timer");
    assert!(
        elapsed
            .trim()
            .parse::<f64>()
            .is_ok_and(|seconds| seconds >= 0.0),
        "{elapsed}"
    );
    let head = request(
        port,
        "HEAD /words HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!((head.status, head.body.len()), (200, 0));
    let posted =
        "POST /body HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(request(port, posted).text(), "body\nbody");
    let zipped = wire::get_with(port, "/zip", "Accept-Encoding: gzip\r\n");
    let mut plain = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&zipped.body[..]);
    decoder
        .read_to_string(&mut plain)
        .expect("it is compressed");
    assert_eq!(plain, "text".repeat(1000));
    let mut client = Client::open(server.port("two"), &[]);
    assert_eq!(client.fetch("/twice?a=c").body, b"ababcccccccccc");
}

#[test]
fn texts_stand_around_a_body() {
    let site = Site::new();
    site.write("html/page.html", "<p>");
    let server = site.serve(CONFIGURATION);
    let port = server.port("plain");
    let page = get(port, "/around/page.html");
    assert_eq!(page.text(), "before /around/page.html\nnext<p>after\n");
    assert_eq!(
        (page.header("Content-Length"), page.header("Accept-Ranges")),
        (None, None)
    );
    assert_eq!(get(port, "/around/none/page.html").text(), "<p>");
    let missing = get(port, "/around/missing").text();
    assert!(
        missing.starts_with("before ") && missing.ends_with("after\n"),
        "{missing}"
    );
    assert_eq!(get(port, "/204").text(), "");
}

/// The pause is as long as the test lets it be: it ends when the client has gone.
#[test]
fn what_precedes_a_pause_is_sent() {
    let site = Site::new();
    let server = site.serve(CONFIGURATION);
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET /slow?s=100000 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut seen = Vec::new();
    while !seen.ends_with(b"first\n\r\n") {
        let mut piece = [0; 256];
        let count = connection.socket().read(&mut piece).expect("it arrives");
        assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..count]);
    }
    drop(connection);
    // A duration that is none ends the response, which the client can tell.
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET /slow?s=long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let rest = connection.rest();
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "{}",
        String::from_utf8_lossy(&rest)
    );
    server.wait_for_log("invalid sleep duration \"long\"");
    server.expect_alert("invalid sleep duration");
}

#[test]
fn other_locations_answer() {
    let site = Site::new();
    site.write("html/page.html", "<p>");
    let server = site.serve(
        "root html;
         server { listen 127.0.0.1:%plain%;
             location /parts { echo before; echo_location /args a=$arg_a; echo_location /args?b=c;
                 echo_location_async /page.html; echo; echo_location /slow; echo after; }
             location /args { echo \"$echo_request_method $uri [$args]\"; }
             location /slow { echo 1; echo_sleep 0.01; echo 2; }
             location /missing { echo_location /none; echo after; }
             location /odd { echo before; echo_flush; echo_location $arg_to; echo after; }
             location /cycle { echo -n x; echo_location /cycle; }
             location /exec { echo_sleep 0.001; echo_exec /args a=b; echo never; }
             location /exec-own { echo_exec /args?$args; }
             location /exec-named { echo_exec @named; }
             location @named { echo_status 201; echo $uri $args; }
             location /exec-cycle { echo_exec /exec-cycle; }
             location /exec-odd { echo_exec /../etc/passwd; }
             location /exec-file { echo_exec /page.html; } }",
    );
    let port = server.port("plain");
    let text = |target: &str| get(port, target).text();
    let parts = "before\nGET /args [a=x]\nGET /args [b=c]\n<p>\n1\n2\nafter\n";
    assert_eq!(text("/parts?a=x"), parts);
    let missing = get(port, "/missing");
    assert_eq!(missing.status, 200);
    assert!(
        missing.text().contains("404 Not Found"),
        "{}",
        missing.text()
    );
    assert!(missing.text().ends_with("after\n"), "{}", missing.text());
    assert_eq!(text("/exec"), "GET /args [a=b]\n");
    assert_eq!(text("/exec-own?x=y"), "GET /args [x=y]\n");
    let named = get(port, "/exec-named?x=y");
    assert_eq!(
        (named.status, named.text()),
        (201, "/exec-named x=y\n".into())
    );
    assert_eq!(text("/exec-file"), "<p>");
    assert_eq!(get(port, "/exec-cycle").status, 500);
    assert_eq!(get(port, "/exec-odd").status, 500);
    // What has begun is cut off: there is no last chunk.
    for target in ["/odd?to=/../x", "/cycle"] {
        let mut connection = Connection::open(port);
        connection.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        ));
        let mut received = Vec::new();
        // It may end with a reset.
        let _ = connection.socket().read_to_end(&mut received);
        let text = String::from_utf8_lossy(&received);
        assert!(
            !text.ends_with("0\r\n\r\n") && !text.contains("after"),
            "{text}"
        );
    }
    server.wait_for_log("unsafe URI \"/../x\" was detected");
    server.wait_for_log("subrequests cycle while processing \"/cycle\"");
}

#[test]
fn what_is_written_wrongly_is_refused() {
    let site = Site::new();
    for (lines, said) in [
        ("echo -x a;", "invalid option: \"-x\""),
        ("echo_duplicate x a;", "invalid value \"x\""),
        ("echo_status 99;", "invalid value \"99\""),
        ("echo_subrequest POST /a;", "belongs to echo-nginx-module"),
        ("echo a; echo_exec /b;", "comes too late"),
    ] {
        let text = format!("events {{}} http {{ server {{ location / {{ {lines} }} }} }}");
        let file = site.write("nginx.conf", text).display().to_string();
        let binary = sealane_binary().display().to_string();
        let outcome = command(&binary, &["-t", "-c", &file], b"");
        assert_eq!(outcome.status, 1, "{lines}");
        assert!(outcome.stderr.contains(said), "{lines}\n{}", outcome.stderr);
    }
}
