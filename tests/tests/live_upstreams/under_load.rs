//! Changes under load, and requests that nobody would make.

use super::{ask, json, origin};
use sealane_tests::origin::Origin;
use sealane_tests::random::Random;
use sealane_tests::wire::{Connection, get};
use sealane_tests::{Server, Site, scale};
use serde_json::json as value;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const SERVERS: &str = "/api/9/http/upstreams/app/servers/";

fn configuration(ports: &[u16], method: &str) -> String {
    let servers: String = ports
        .iter()
        .map(|port| format!("server 127.0.0.1:{port};"))
        .collect();
    format!(
        "upstream app {{ zone app 1m; {method} {servers} }}
        server {{
            listen 127.0.0.1:%plain%;
            keepalive_requests 1000000;
            location / {{ proxy_pass http://app; proxy_next_upstream off; }}
            location /api/ {{ api write=on; }}
            location /conf {{ upstream_conf; }}
            location /dyups/ {{ dyups_interface; }}
        }}"
    )
}

/// Changes the group at random; at least one server can always be picked.
struct Changer<'s> {
    server: &'s Server<'s>,
    random: Random,
    origins: Vec<u16>,
    /// Numbers of servers, the first of which stays as it is.
    ids: Vec<u64>,
}

impl Changer<'_> {
    fn change(&mut self) {
        let port = *self.random.choose(&self.origins);
        let address = format!("127.0.0.1:{port}");
        let other = match self.ids.len() {
            1 => None,
            count => Some(1 + self.random.below(count - 1)),
        };
        let (method, target, body, status) = match (self.random.below(5), other) {
            (0, Some(at)) => {
                let id = self.ids.remove(at);
                ("DELETE", format!("{SERVERS}{id}"), String::new(), 200)
            }
            (kind @ 1..=3, Some(at)) => {
                let id = self.ids[at];
                let body = match kind {
                    1 => value!({"weight": 1 + self.random.below(9)}),
                    2 => value!({"server": address}),
                    _ => match self.random.below(3) {
                        0 => value!({"drain": true}),
                        1 => value!({"down": true}),
                        _ => value!({"down": false, "drain": false}),
                    },
                };
                ("PATCH", format!("{SERVERS}{id}"), body.to_string(), 200)
            }
            _ => (
                "POST",
                SERVERS.to_owned(),
                value!({"server": address}).to_string(),
                201,
            ),
        };
        let answer = ask(self.server, method, &target, &body);
        assert_eq!(
            answer.status,
            status,
            "{method} {target} {body}: {}",
            answer.text()
        );
        if method == "POST" {
            self.ids
                .push(json(&answer)["id"].as_u64().expect("a number"));
        }
    }
}

/// Requests that were not answered with 200 while the group changed so often.
fn lost(method: &str, changes: usize, clients: usize) -> usize {
    let site = Site::new();
    let origins: Vec<Origin> = (0..4).map(|_| origin()).collect();
    let ports: Vec<u16> = origins.iter().map(Origin::port).collect();
    let events = "worker_connections 2000;";
    let server = site.serve_with(
        "worker_processes 2;",
        events,
        &configuration(&ports[..1], method),
    );
    let (done, failed, answered) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut connection = Connection::open(server.port("plain"));
                while !done.load(Ordering::Relaxed) {
                    connection.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
                    match connection.try_response(false) {
                        Some(response) if response.status == 200 => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            connection = Connection::open(server.port("plain"));
                        }
                    }
                }
            });
        }
        let mut changer = Changer {
            server: &server,
            random: Random::new(21),
            origins: ports.clone(),
            ids: vec![0],
        };
        for _ in 0..changes {
            changer.change();
        }
        done.store(true, Ordering::Relaxed);
    });
    let answered = answered.into_inner();
    println!("{changes} changes with {clients} clients, {method:?}: {answered} requests");
    assert!(answered > clients, "{}", server.error_log());
    failed.into_inner()
}

#[test]
fn no_request_is_lost_while_the_servers_change() {
    assert_eq!(lost("", scale(1_500, 10_000), 200), 0);
}

#[test]
fn nor_with_other_methods() {
    for method in [
        "least_conn;",
        "random two;",
        "hash $request_id consistent;",
        "vnswrr;",
    ] {
        assert_eq!(lost(method, scale(150, 2_000), 20), 0, "{method}");
    }
}

/// Pieces of requests, put together at random.
const TARGETS: [&str; 14] = [
    "/api/9/http/upstreams/app/servers/",
    "/api/9/http/upstreams/app/servers/1",
    "/api/9/http/upstreams/app/",
    "/api/9/http/upstreams//servers",
    "/api/9/http/upstreams/dy/servers",
    "/api/99999999999/http",
    "/api/9/http/upstreams/%00/servers/%2f",
    "/dyups/upstream/dy",
    "/dyups/upstream/app",
    "/dyups/upstream/%ff%0a",
    "/dyups/list",
    "/dyups/detail",
    "/conf?upstream=app&add=&server=127.0.0.1:1&down=",
    "/conf?upstream=app&id=1&weight=2",
];
const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "DELETE", "HEAD", "PUT"];
const BODIES: [&str; 12] = [
    "{\"server\": \"127.0.0.1:1\", \"down\": true}",
    "{\"server\": \"unix:/nowhere\", \"down\": true}",
    "{\"weight\": 3, \"drain\": true}",
    "{\"route\": \"\\u0000\\\"; server ::1;\"}",
    "{\"server\": \"[::1]:1\", \"service\": \"_x._tcp\"}",
    "{\"max_conns\": 18446744073709551616}",
    "server 127.0.0.1:1 down; server 127.0.0.1:2;",
    "server 127.0.0.1:1 weight=3 route=\"a b\"; least_conn; keepalive 3;",
    "sticky cookie a; server 127.0.0.1:1; check type=tcp;",
    "hash $request_uri consistent; server 127.0.0.1:1;",
    "zone a 1m; zone b 1m; server 127.0.0.1:1;",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

#[test]
fn requests_that_nobody_would_make_are_answered_and_break_nothing() {
    let site = Site::new();
    let a = origin();
    let server = site.serve(&configuration(&[a.port()], ""));
    let worker = server.worker_pid();
    let mut random = Random::new(2100);
    for round in 0..scale(3_000, 60_000) {
        let method = *random.choose(&METHODS);
        let mut target = (*random.choose(&TARGETS)).to_owned();
        let mut body = random.choose(&BODIES).as_bytes().to_vec();
        match random.below(4) {
            0 => body.truncate(random.below(body.len() + 1)),
            1 => {
                let at = random.below(body.len());
                body[at] = *random.choose(b"\0\"{}[];#$ \n\xff0-");
            }
            2 => body.extend(random.choose(&BODIES).as_bytes()),
            _ => {}
        }
        if random.below(3) == 0 {
            let at = random.below(target.len());
            let with = random.choose(&["/", "%2e", "&", "=", "7", "x"]);
            target.replace_range(at..=at, with);
        }
        if !target.starts_with('/') {
            target.insert(0, '/');
        }
        let mut connection = Connection::open(server.port("plain"));
        let mut bytes = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend(body);
        connection.send(&bytes);
        let response = connection.try_response(method == "HEAD");
        let status = response.map(|response| response.status);
        let is_good = status.is_some_and(|status| status < 500 || [502, 507].contains(&status));
        assert!(
            is_good,
            "round {round}: {method} {target}: {status:?}\n{}",
            server.error_log()
        );
    }
    assert_eq!(server.worker_pid(), worker, "it still runs");
    // Everything that is there can be shown, and taken away.
    let all = json(&ask(&server, "GET", SERVERS, ""));
    for one in all.as_array().expect("a list") {
        let removed = ask(&server, "DELETE", &format!("{SERVERS}{}", one["id"]), "");
        assert_eq!(removed.status, 200, "{}", removed.text());
    }
    assert_eq!(ask(&server, "GET", SERVERS, "").text(), "[]\n");
    let body = value!({"server": format!("127.0.0.1:{}", a.port())}).to_string();
    ask(&server, "POST", SERVERS, &body);
    assert_eq!(get(server.port("plain"), "/").text(), a.port().to_string());
}
