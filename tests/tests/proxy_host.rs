//! `proxy_set_header Host` with a value that is empty, as `$http_host` of a client that names no
//! host: `$proxy_host` takes its place, as in nginx 1.31.

use sealane_tests::comparison::nginx_version;
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Program, Server, Site, wire};

/// The Host of the request that each location sends for this one.
fn hosts(program: Program, request: &str) -> Vec<(String, Vec<String>)> {
    let site = Site::new();
    let origin = Origin::answering(|_: &Asked| {
        Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
    });
    let names = ["client", "empty", "old", "named", "default", "twice"];
    let lines = [
        "proxy_set_header Host $http_host;",
        "proxy_set_header Host '';",
        "proxy_set_header Host $http_host; proxy_http_version 1.0;",
        "proxy_set_header Host named.test;",
        "",
        "proxy_set_header Host a; proxy_set_header HOST $http_host; proxy_set_header X-A b;",
    ];
    let locations = names.iter().zip(lines).map(|(name, lines)| {
        let port = origin.port();
        format!(
            "location /{name} {{ proxy_pass http://localhost:{port}/; proxy_http_version 1.1;
                 {lines} }}"
        )
        .replace(
            "proxy_http_version 1.1;",
            match lines.contains("1.0") {
                true => "",
                false => "proxy_http_version 1.1;",
            },
        )
    });
    let text = format!(
        "events {{}} http {{ server {{ listen 127.0.0.1:%plain%; {} }} }}",
        locations.collect::<String>()
    );
    let server = Server::start(&site, program, &text);
    let mut found = Vec::new();
    for name in names {
        let request = request.replace("TARGET", &format!("/{name}"));
        assert_eq!(wire::request(server.port("plain"), &request).status, 200);
        let asked = origin.take_asked();
        let hosts = asked[0].headers("Host").into_iter();
        let port = origin.port().to_string();
        let hosts = hosts.map(|host| host.replace(&port, "PORT")).collect();
        found.push((name.to_owned(), hosts));
    }
    found
}

const OLD: &str = "GET TARGET HTTP/1.0\r\n\r\n";
const NAMED: &str = "GET TARGET HTTP/1.1\r\nHost: c.test\r\nConnection: close\r\n\r\n";

#[test]
fn an_empty_host_gives_way_to_that_of_the_upstream() {
    let of = |request| -> Vec<String> {
        let found = hosts(Program::Sealane, request).into_iter();
        found.map(|(_, hosts)| hosts.join("+")).collect()
    };
    let own = "localhost:PORT";
    assert_eq!(of(OLD), [own, own, "", "named.test", own, own]);
    assert_eq!(
        of(NAMED),
        ["c.test", own, "c.test", "named.test", own, "c.test"]
    );
}

#[test]
fn nginx_does_the_same() {
    if nginx_version() < (1, 31, 0) {
        return sealane_needs::leave_out(
            "before 1.31, nginx sends no Host in place of an empty one",
        );
    }
    for request in [OLD, NAMED] {
        assert_eq!(
            hosts(Program::Sealane, request),
            hosts(Program::Nginx, request)
        );
    }
}
