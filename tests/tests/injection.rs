//! What clients put into variables stays what it was meant to be: it becomes neither a second
//! header, nor a second parameter, nor a second request, whichever protocol it is written in.

use sealane_tests::fastcgi::{FastCgiOrigin, answer};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire;
use sealane_tests::{Server, Site, command, wait_for};
use std::io::ErrorKind;
use std::net::TcpListener;

const LOG: &str =
    "log_format parts '[$status|$upstream_status] $request_uri'; access_log logs/access.log parts;";

/// What clients try, as it stands in a URI.
const BREAKS: [&str; 4] = [
    "%0d%0aX-Injected:%20yes",
    "%0aX-Injected:%20yes",
    "%0dX-Injected:%20yes",
    "a%0d%0a%0d%0aGET%20/second%20HTTP/1.1%0d%0aHost:%20x%0d%0a%0d%0a",
];

/// Locations that put what follows their name into one part of a request each: the name, the
/// directives, and what the error log says.
const PARTS: [(&str, &str, &str); 17] = [
    (
        "uri-1",
        "proxy_pass http://ORIGIN/$1; proxy_http_version 1.1;",
        "character in the URI of the request to the upstream: a variable in \"proxy_pass\"",
    ),
    (
        "uri-2",
        "proxy_pass http://ORIGIN/$1; proxy_http_version 2;",
        "character in the URI of the request to the upstream: a variable in \"proxy_pass\"",
    ),
    (
        "uri-grpc",
        "set $args $uri; rewrite ^ /to break; grpc_pass ORIGIN;",
        "character in the URI of the request to the upstream: a variable in \"grpc_pass\"",
    ),
    (
        "method-1",
        "proxy_pass http://ORIGIN/$arg_none; proxy_http_version 1.1; proxy_method $1;",
        "invalid method of the request to the upstream: \"proxy_method\"",
    ),
    (
        "method-2",
        "proxy_pass http://ORIGIN/$arg_none; proxy_http_version 2; proxy_method $1;",
        "invalid method of the request to the upstream: \"proxy_method\"",
    ),
    (
        "value-1",
        "proxy_pass http://ORIGIN/$arg_none; proxy_http_version 1.1; proxy_set_header X-V $1;",
        "line break or NUL in header \"X-V\" of the request to the upstream: a variable in \
         \"proxy_set_header X-V\"",
    ),
    (
        "value-2",
        "proxy_pass http://ORIGIN/$arg_none; proxy_http_version 2; proxy_set_header X-V $1;",
        "a variable in \"proxy_set_header X-V\"",
    ),
    (
        "host-2",
        "proxy_pass http://ORIGIN/$arg_none; proxy_http_version 2; proxy_set_header Host $1;",
        "a variable in \"proxy_set_header Host\"",
    ),
    (
        "value-grpc",
        "grpc_pass ORIGIN; grpc_set_header X-V $1;",
        "a variable in \"grpc_set_header X-V\"",
    ),
    (
        "fastcgi-header",
        "fastcgi_pass ORIGIN; fastcgi_param HTTP_X_V $1;",
        "line break or NUL in parameter \"HTTP_X_V\" of the request to the upstream: a variable \
         in \"fastcgi_param HTTP_X_V\"",
    ),
    (
        "fastcgi-uri",
        "fastcgi_pass ORIGIN; fastcgi_param REQUEST_URI $1;",
        "a variable in \"fastcgi_param REQUEST_URI\"",
    ),
    (
        "uwsgi-header",
        "uwsgi_pass ORIGIN; uwsgi_param HTTP_X_V $1;",
        "a variable in \"uwsgi_param HTTP_X_V\"",
    ),
    (
        "uwsgi-method",
        "uwsgi_pass ORIGIN; uwsgi_param REQUEST_METHOD $1;",
        "a variable in \"uwsgi_param REQUEST_METHOD\"",
    ),
    (
        "scgi-header",
        "scgi_pass ORIGIN; scgi_param HTTP_X_V $1;",
        "a variable in \"scgi_param HTTP_X_V\"",
    ),
    // The address of the client in four bytes: 127.0.0.1 has two that are NUL.
    (
        "fastcgi-nul",
        "fastcgi_pass ORIGIN; fastcgi_param A $binary_remote_addr;",
        "line break or NUL in parameter \"A\"",
    ),
    (
        "uwsgi-nul",
        "uwsgi_pass ORIGIN; uwsgi_param B $binary_remote_addr;",
        "line break or NUL in parameter \"B\"",
    ),
    (
        "scgi-nul",
        "scgi_pass ORIGIN; scgi_param C $binary_remote_addr;",
        "line break or NUL in parameter \"C\"",
    ),
];

#[test]
fn no_part_of_a_request_to_another_server_is_more_than_it_was_meant_to_be() {
    let site = Site::new();
    let origin = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    origin.set_nonblocking(true).expect("a socket");
    let address = origin.local_addr().expect("it is bound").to_string();
    let locations: String = PARTS
        .iter()
        .map(|(name, directives, _)| {
            let directives = directives.replace("ORIGIN", &address);
            format!("location ~ (?s)^/{name}/(.*)$ {{ {directives} }}\n")
        })
        .collect();
    // Before, some of these were sent: nobody waits for their answers.
    let server = site.serve(&format!(
        "{LOG} proxy_read_timeout 1s; grpc_read_timeout 1s; fastcgi_read_timeout 1s;
         uwsgi_read_timeout 1s; scgi_read_timeout 1s; merge_slashes off;
         server {{ listen 127.0.0.1:%plain%; {locations} }}"
    ));
    for (name, _, said) in PARTS {
        for text in BREAKS {
            let target = format!("/{name}/{text}");
            let response = wire::get(server.port("plain"), &target);
            assert_eq!(response.status, 500, "{target}");
            server.wait_for_log(said);
            assert_eq!(logged(&site, &target), "500|-");
        }
    }
    // Nobody was asked anything.
    let asked = origin.accept().map(|(_, address)| address);
    let nobody = asked.expect_err("no connection").kind();
    assert_eq!(nobody, ErrorKind::WouldBlock);
}

/// Waits for the line about `uri` and gives what is in front of it.
#[track_caller]
fn logged(site: &Site, uri: &str) -> String {
    wait_for(&format!("a line about {uri}"), || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        let line = log
            .lines()
            .find(|line| line.ends_with(&format!("] {uri}")))?;
        let (facts, _) = line.trim_start_matches('[').split_once(']')?;
        Some(facts.to_owned())
    })
}

/// What is no part of an HTTP request may hold what a path may.
#[test]
fn parameters_hold_whatever_a_path_does_and_stay_one() {
    let (site, origin) = (Site::new(), echo_fastcgi());
    let server = site.serve(&format!(
        "ignore_invalid_headers off; server {{ listen 127.0.0.1:%plain%;
           location ~ (?s)^/path(/.*)$ {{ fastcgi_pass 127.0.0.1:{}; fastcgi_param PATH_INFO $1; }} }}",
        origin.port()
    ));
    let response = wire::get(server.port("plain"), "/path/a%0d%0aHTTPS:on");
    assert_eq!(
        response.text(),
        "HTTP_CONNECTION=close|HTTP_HOST=localhost|PATH_INFO=/a\\r\\nHTTPS:on|"
    );
    // A name with `=` would be another variable in the environment of a program.
    let mut connection = wire::Connection::open(server.port("plain"));
    connection.send(
        "GET /path/a HTTP/1.1\r\nHost: localhost\r\nUser=root: b\r\nConnection: close\r\n\r\n",
    );
    let response = connection.response(false);
    assert_eq!(
        response.text(),
        "HTTP_CONNECTION=close|HTTP_HOST=localhost|PATH_INFO=/a|"
    );
    server.wait_for_log("client header \"User=root\" is not passed to upstream");
}

/// Shows the parameters that it got.
fn echo_fastcgi() -> FastCgiOrigin {
    FastCgiOrigin::start(|request, socket| {
        let mut text = String::from("Content-Type: text/plain\r\n\r\n");
        for (name, value) in &request.parameters {
            text.push_str(&format!("{name}={}|", value.escape_default()));
        }
        answer(socket, text.as_bytes())
    })
}

/// Whatever variables hold and rules make, a client sees the headers that were meant.
#[test]
fn no_header_of_a_response_is_more_than_it_was_meant_to_be() {
    let origin = Origin::answering(|_| {
        let head = "HTTP/1.1 302 Found\r\nLocation: http://origin/there\r\n\
                    Set-Cookie: a=b; Path=/; Domain=origin\r\nRefresh: 1; url=http://origin/\r\n\
                    Content-Length: 0\r\n\r\n";
        Answer::Send(head.as_bytes().to_vec())
    });
    let site = Site::new();
    let pass = format!("proxy_pass http://127.0.0.1:{}/$arg_none;", origin.port());
    let locations = [
        ("return", "return 301 /to$1;".to_owned()),
        ("return-url", "return 302 https://x.test/$1;".to_owned()),
        ("rewrite", "rewrite (?s)^/rewrite/(.*)$ /to/$1 redirect;".to_owned()),
        ("rewrite-url", "rewrite (?s)^/[^/]*/(.*)$ http://x.test/$1 permanent;".to_owned()),
        ("error-page", "error_page 404 http://x.test/$1; return 404;".to_owned()),
        ("add-header", "add_header X-V $1 always; return 200 ok;".to_owned()),
        ("add-trailer", "add_trailer X-V $1 always; return 200 ok;".to_owned()),
        ("etag", "add_header ETag $1 always; return 200 ok;".to_owned()),
        ("location", "add_header Location $1 always; return 200 ok;".to_owned()),
        (
            "charset",
            "set $c $uri; charset $c; default_type text/html; return 200 ok;".to_owned(),
        ),
        ("realm", "auth_basic $1; auth_basic_user_file users; return 200 ok;".to_owned()),
        ("redirect", format!("{pass} proxy_redirect http://origin/ /to/$1;")),
        ("redirect-url", format!("{pass} proxy_redirect http://origin/ http://x.test/$1;")),
        ("cookie-path", format!("{pass} proxy_cookie_path / /$1;")),
        ("cookie-domain", format!("{pass} proxy_cookie_domain origin x.test$1;")),
        (
            "userid",
            "userid on; userid_domain x.test; add_header X-U $uid_set; add_header X-V $1; return 200 ok;"
                .to_owned(),
        ),
    ];
    let text: String = locations
        .iter()
        .map(|(name, directives)| format!("location ~ (?s)^/{name}/(.*)$ {{ {directives} }}\n"))
        .collect();
    site.write("users", "");
    let server = site.serve(&format!(
        "{LOG} server {{ listen 127.0.0.1:%plain%; http2 on; merge_slashes off; {text} }}"
    ));
    for (name, _) in &locations {
        for text in BREAKS {
            for version in ["--http1.1", "--http2-prior-knowledge"] {
                let lines = lines(&server, &format!("/{name}/{text}"), version);
                let injected = lines.iter().find(|line| {
                    let line = line.to_ascii_lowercase();
                    line.starts_with("x-injected") || line.starts_with("get ")
                });
                assert_eq!(injected, None, "{name} {version}: {lines:?}");
                assert!(lines.len() > 1, "{name} {version}");
            }
        }
    }
    server.wait_for_log("line break or NUL in \"Location\" of the response");
    server.wait_for_log("line break or NUL in the charset of the response");
}

/// Every line of the answer, as curl understands it: head, body and trailers. A CR alone counts
/// as the end of a line, as it does for some.
fn lines(server: &Server<'_>, target: &str, version: &str) -> Vec<String> {
    let url = format!("http://127.0.0.1:{}{target}", server.port("plain"));
    let arguments = ["-sS", "-i", "--raw", version, &url];
    let text = command("curl", &arguments, b"").success().text();
    text.split(['\r', '\n'])
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// What an application or an origin says with a line break of the wrong kind in it.
#[test]
fn no_header_of_an_origin_becomes_two() {
    const HEADS: [&str; 3] = [
        "X-A: b\rX-Injected: yes\r\n",
        "X-A: b\0X-Injected: yes\r\n",
        "X-A: b\r\rX-Injected: yes\r\n",
    ];
    let head = |target: &str| {
        let digit = target.bytes().last().unwrap_or(b'0') - b'0';
        HEADS[usize::from(digit)]
    };
    let http = Origin::answering(move |asked| {
        let head = head(&asked.target());
        let text = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 2\r\n\r\nok");
        Answer::Send(text.into_bytes())
    });
    let fastcgi = FastCgiOrigin::start(move |request, socket| {
        let head = head(request.parameter("REQUEST_URI"));
        let text = format!("Status: 200 OK\r\n{head}\r\nok");
        answer(socket, text.as_bytes())
    });
    let site = Site::new();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; http2 on;
           location /http/ {{ proxy_pass http://127.0.0.1:{}; }}
           location /fastcgi/ {{ fastcgi_pass 127.0.0.1:{}; fastcgi_param REQUEST_URI $request_uri; }} }}",
        http.port(),
        fastcgi.port()
    ));
    for family in ["http", "fastcgi"] {
        for number in 0..HEADS.len() {
            for version in ["--http1.1", "--http2-prior-knowledge"] {
                let lines = lines(&server, &format!("/{family}/{number}"), version);
                assert!(lines[0].contains(" 502"), "{family} {number}: {lines:?}");
                let injected = lines.iter().any(|line| line.starts_with("X-Injected"));
                assert!(!injected, "{family} {number} {version}: {lines:?}");
            }
        }
    }
}
