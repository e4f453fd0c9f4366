//! `upstream` blocks: who is picked, who is left alone, connections that are used again,
//! and names that are looked up while the server runs.

use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{self, Connection, get, get_with};
use sealane_tests::{NameServer, Server, Site, scale, wait_for};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Whether nginx itself is under test.
fn is_nginx() -> bool {
    std::env::var_os("SEALANE_BINARY").is_some_and(|path| path.to_string_lossy().contains("nginx"))
}

fn saying(name: &str) -> Answer {
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}",
        name.len()
    );
    Answer::Send(text.into_bytes())
}

/// An origin that answers with its name.
fn named(name: &'static str) -> Origin {
    Origin::answering(move |_| saying(name))
}

/// Holds answers back until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let (open, told) = &*self.0;
        let mut open = open.lock().expect("no panic");
        while !*open {
            open = told.wait(open).expect("no panic");
        }
    }

    fn open(&self) {
        *self.0.0.lock().expect("no panic") = true;
        self.0.1.notify_all();
    }
}

/// An origin that answers with its name, but not before the gate is opened if it is asked
/// for `/wait`.
fn patient(name: &'static str, gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::answering(move |asked| {
        if asked.target().starts_with("/wait") {
            gate.pass();
        }
        saying(name)
    })
}

/// A server whose `/` is the group `app` of these lines.
fn group<'s>(site: &'s Site, lines: &str) -> Server<'s> {
    site.serve(&group_conf("plain", lines))
}

fn group_conf(listen: &str, lines: &str) -> String {
    format!(
        r#"
        upstream app {{ {lines} }}
        server {{
            listen 127.0.0.1:%{listen}%;
            location / {{
                proxy_pass http://app;
                proxy_http_version 1.1;
                proxy_set_header Connection "";
            }}
        }}"#
    )
}

/// The answers to so many requests, one after the other on one connection.
fn answers(port: u16, count: usize) -> Vec<String> {
    let mut connection = Connection::open(port);
    (0..count)
        .map(|_| {
            connection.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            connection.response(false).text()
        })
        .collect()
}

fn counted(answers: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer.as_str()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn weights_backup_and_down() {
    let site = Site::new();
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let ports = [a.port(), b.port(), c.port()];
    let [a_port, b_port, c_port] = ports;
    let server = group(
        &site,
        &format!(
            "server 127.0.0.1:{a_port} weight=5; server 127.0.0.1:{b_port}; server 127.0.0.1:{c_port};"
        ),
    );
    // Smooth: the heavy one is not picked five times on end.
    assert_eq!(answers(server.port("plain"), 14).concat(), "aabacaaaabacaa");
    drop(server);
    let server = group(
        &site,
        &format!(
            "server 127.0.0.1:{a_port} down; server 127.0.0.1:{b_port} weight=2; server 127.0.0.1:{c_port} backup;"
        ),
    );
    assert_eq!(answers(server.port("plain"), 6).concat(), "bbbbbb");
    drop(server);
    let server = group(
        &site,
        &format!("server 127.0.0.1:%nobody% max_fails=0; server 127.0.0.1:{c_port} backup;"),
    );
    assert_eq!(answers(server.port("plain"), 6).concat(), "cccccc");
}

#[test]
fn a_server_that_dies_is_left_alone_until_it_is_back() {
    let site = Site::new();
    let steady = named("steady");
    let server = group(
        &site,
        &format!(
            "server 127.0.0.1:%frail% max_fails=2 fail_timeout=2s; server 127.0.0.1:{};",
            steady.port()
        ),
    );
    let (port, frail_port) = (server.port("plain"), server.port("frail"));
    // Nobody is there; every request is answered all the same.
    let count = counted(&answers(port, 30)).get("steady").copied();
    assert_eq!(count, Some(30));
    server.wait_for_log("upstream server temporarily disabled while connecting to upstream");
    let frail = Origin::at((Ipv4Addr::LOCALHOST, frail_port), |_| saying("frail"));
    wait_for("the server that is back", || {
        (get(port, "/").text() == "frail").then_some(())
    });
    let both = answers(port, 20);
    assert_eq!(counted(&both).len(), 2, "{both:?}");
    drop(frail);
}

/// A server that failed is back for good with its first answer, also if that answer is not
/// what the client gets.
#[test]
fn answers_that_lead_elsewhere_are_answers() {
    for (answer, conf) in [
        (
            "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /elsewhere\r\nContent-Length: 0\r\n\r\n",
            "",
        ),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "proxy_intercept_errors on; error_page 404 =200 /elsewhere;",
        ),
    ] {
        let site = Site::new();
        let steady = named("steady");
        let server = site.serve(&format!(
            r#"
            upstream app {{
                server 127.0.0.1:%frail% fail_timeout=2s;
                server 127.0.0.1:{};
            }}
            server {{
                listen 127.0.0.1:%plain%;
                location / {{ proxy_pass http://app; {conf} }}
                location = /elsewhere {{ internal; return 200 elsewhere; }}
            }}"#,
            steady.port()
        ));
        let port = server.port("plain");
        let count = counted(&answers(port, 4)).get("steady").copied();
        assert_eq!(count, Some(4));
        let _frail = Origin::at((Ipv4Addr::LOCALHOST, server.port("frail")), move |_| {
            Answer::Send(answer.as_bytes().to_vec())
        });
        wait_for("the server that is back", || {
            (get(port, "/").text() == "elsewhere").then_some(())
        });
        let both = answers(port, 20);
        assert_eq!(counted(&both).get("elsewhere"), Some(&10), "{both:?}");
    }
}

/// A request picks its server when it is handed on, not when it began.
#[test]
fn a_slow_upload_finds_servers_that_came_back_meanwhile() {
    let site = Site::new();
    let lines = "server 127.0.0.1:%one% fail_timeout=1s; server 127.0.0.1:%other% fail_timeout=1s;";
    let server = group(&site, lines);
    let port = server.port("plain");
    let mut upload = Connection::open(port);
    upload.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");
    // Both fail while the upload is under way, and are there again before it is complete.
    assert_eq!(get(port, "/").status, 502);
    let back = ["one", "other"].map(|name| {
        let address = (Ipv4Addr::LOCALHOST, server.port(name));
        Origin::at(address, |_| saying("back"))
    });
    // Longer than `fail_timeout`, also for nginx, whose clock has seconds.
    std::thread::sleep(Duration::from_millis(2500));
    upload.send("cd");
    assert_eq!(upload.response(false).text(), "back");
    drop(back);
}

#[test]
fn nobody_left() {
    let site = Site::new();
    let server = group(&site, "server 127.0.0.1:%one%; server 127.0.0.1:%other%;");
    assert_eq!(get(server.port("plain"), "/").status, 502);
    server.wait_for_log("connect() failed (111: Connection refused) while connecting to upstream");
    assert_eq!(get(server.port("plain"), "/").status, 502);
    server.wait_for_log("no live upstreams while connecting to upstream");
}

/// Sends a request for which there is no answer yet, and waits until an origin has it: then
/// there are so many connections.
fn held_request(port: u16, held: usize, connections: impl Fn() -> usize) -> Connection {
    let mut connection = Connection::open(port);
    connection.send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for("the request to be held", || {
        (connections() == held).then_some(())
    });
    connection
}

#[test]
fn connections_are_limited() {
    let site = Site::new();
    let gate = Gate::default();
    let (a, b) = (patient("a", &gate), patient("b", &gate));
    let server = group(
        &site,
        &format!(
            "zone app 64k; server 127.0.0.1:{} max_conns=1 weight=100; server 127.0.0.1:{} max_conns=2;",
            a.port(),
            b.port()
        ),
    );
    let port = server.port("plain");
    let expected = [(&a, 1), (&b, 1), (&b, 2)];
    let waiting = expected.map(|(origin, held)| held_request(port, held, || origin.connections()));
    // Everybody is busy.
    assert_eq!(get(port, "/").status, 502);
    server.wait_for_log("no live upstreams while connecting to upstream");
    gate.open();
    for mut connection in waiting {
        assert_eq!(connection.response(false).status, 200);
    }
    assert_eq!(get(port, "/").text(), "a");
}

#[test]
fn the_least_busy_one() {
    let site = Site::new();
    let gate = Gate::default();
    let (a, b) = (patient("a", &gate), patient("b", &gate));
    let server = group(
        &site,
        &format!(
            "least_conn; server 127.0.0.1:{} weight=2; server 127.0.0.1:{};",
            a.port(),
            b.port()
        ),
    );
    let port = server.port("plain");
    let both = || a.connections() + b.connections();
    let waiting: Vec<Connection> = (1..=6).map(|held| held_request(port, held, both)).collect();
    assert_eq!((a.connections(), b.connections()), (4, 2));
    gate.open();
    for mut connection in waiting {
        assert_eq!(connection.response(false).status, 200);
    }
}

/// The same picks as nginx's, request by request.
#[test]
fn picks_are_those_of_nginx() {
    let site = Site::new();
    let other = Site::new();
    let origins = [named("a"), named("b"), named("c"), named("d")];
    let servers: String = origins
        .iter()
        .enumerate()
        .map(|(at, origin)| {
            format!(
                "server 127.0.0.1:{} weight={};\n",
                origin.port(),
                at * 2 + 1
            )
        })
        .collect();
    let conf = |name: &str| {
        format!(
            r#"
            upstream rr {{ {servers} }}
            upstream key {{ hash $arg_key; {servers} }}
            upstream ketama {{ hash $arg_key$uri consistent; {servers} }}
            upstream address {{ ip_hash; {servers} }}
            set_real_ip_from 127.0.0.1;
            server {{
                listen 127.0.0.1:%{name}%;
                location /rr {{ proxy_pass http://rr; }}
                location /key {{ proxy_pass http://key; }}
                location /ketama {{ proxy_pass http://ketama; }}
                location /address {{ proxy_pass http://address; }}
                location /var {{ proxy_pass http://$arg_group; }}
            }}"#
        )
    };
    let sealane = site.serve(&conf("ours"));
    let nginx = other.serve_by_nginx(&conf("theirs"));
    let ports = [sealane.port("ours"), nginx.port("theirs")];
    for round in 0..scale(200, 5000) {
        let mut connections = ports.map(Connection::open);
        for target in [
            "/rr".to_owned(),
            format!("/key?key=number-{round}"),
            format!("/ketama?key={round}"),
            format!("/ketama/{round}?key={round}"),
            format!("/address?{round}"),
            "/var?group=rr".to_owned(),
        ] {
            let [ours, theirs] = connections.each_mut().map(|connection| {
                let address = format!("10.{}.{}.1", round % 251, round / 251);
                connection.send(format!(
                    "GET {target} HTTP/1.1\r\nHost: h\r\nX-Real-IP: {address}\r\n\r\n"
                ));
                connection.response(false).text()
            });
            assert_eq!(ours, theirs, "{target}, round {round}");
        }
    }
}

#[test]
fn random_and_virtual_nodes_go_by_weight() {
    if is_nginx() {
        return sealane_needs::leave_out("this is not about nginx");
    }
    let site = Site::new();
    let origins = [named("a"), named("b"), named("c")];
    let servers: String = origins
        .iter()
        .zip([1, 2, 5])
        .map(|(origin, weight)| format!("server 127.0.0.1:{} weight={weight};\n", origin.port()))
        .collect();
    let http = format!(
        r#"
        upstream nodes {{ vnswrr; {servers} }}
        upstream dice {{ random; {servers} }}
        upstream two {{ random two least_conn; {servers} }}
        server {{
            listen 127.0.0.1:%plain%;
            location /nodes {{ proxy_pass http://nodes; }}
            location /dice {{ proxy_pass http://dice; }}
            location /two {{ proxy_pass http://two; }}
        }}"#
    );
    let server = site.serve(&http);
    let ask = |path: &str, count: usize| -> Vec<String> {
        let mut connection = Connection::open(server.port("plain"));
        let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        (0..count)
            .map(|_| {
                connection.send(&head);
                connection.response(false).text()
            })
            .collect()
    };
    let expected = BTreeMap::from([("a", 10), ("b", 20), ("c", 50)]);
    assert_eq!(
        counted(&ask("/nodes", 80)),
        expected,
        "each its weight in every round"
    );
    for path in ["/dice", "/two"] {
        let all = ask(path, 300);
        assert_eq!(counted(&all).len(), 3, "{path}");
    }
}

#[test]
fn connections_are_used_again() {
    let site = Site::new();
    let app = named("a");
    let server = |more: &str| {
        group(
            &site,
            &format!("server 127.0.0.1:{}; keepalive 8; {more}", app.port()),
        )
    };
    let opened = |before: usize| app.connections() - before;
    let first = server("");
    answers(first.port("plain"), 20);
    assert_eq!(opened(0), 1);
    drop(first);
    let before = app.connections();
    let limited = server("keepalive_requests 5;");
    answers(limited.port("plain"), 20);
    assert_eq!(opened(before), 4);
    drop(limited);
    for more in ["keepalive_timeout 1s;", "keepalive_time 1s;"] {
        let before = app.connections();
        let timed = server(more);
        let port = timed.port("plain");
        answers(port, 3);
        std::thread::sleep(std::time::Duration::from_millis(2500));
        answers(port, 1);
        // One more answer after its time; after that it is closed.
        let again = usize::from(more.contains("keepalive_timeout"));
        assert_eq!(opened(before), 1 + again, "{more}");
        answers(port, 1);
        assert_eq!(opened(before), 2, "{more}");
        drop(timed);
    }
}

#[test]
fn idle_connections_belong_to_all_workers() {
    if is_nginx() {
        return sealane_needs::leave_out("this is not about nginx");
    }
    const WORKERS: usize = 4;
    let site = Site::new();
    let app = named("a");
    let http = group_conf(
        "plain",
        &format!("server 127.0.0.1:{}; keepalive 8;", app.port()),
    )
    // A socket for each worker: the kernel spreads the connections.
    .replace("%plain%", "%plain% reuseport");
    let server = site.serve_with(&format!("worker_processes {WORKERS};"), "", &http);
    let mut clients: Vec<_> = (0..32)
        .map(|_| Connection::open(server.port("plain")))
        .collect();
    for _ in 0..3 {
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(client.response(false).text(), "a");
        }
    }
    let opened = app.connections();
    assert!(
        opened < WORKERS,
        "{opened} connections for {WORKERS} workers"
    );
}

#[test]
fn an_idle_connection_that_the_server_closes_is_no_failure() {
    let site = Site::new();
    let app = Origin::answering(|_| {
        Answer::SendAndClose(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na".to_vec())
    });
    let server = group(
        &site,
        &format!("server 127.0.0.1:{}; keepalive 8;", app.port()),
    );
    assert_eq!(answers(server.port("plain"), 50).concat(), "a".repeat(50));
    // Nor is it one for requests that may not be repeated.
    let mut connection = Connection::open(server.port("plain"));
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        connection.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(connection.response(false).status, 200);
    }
}

#[test]
fn idle_connections_end_in_time_also_when_no_client_is_left() {
    let site = Site::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let origin = listener.local_addr().expect("it is bound").port();
    let ended = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut request = [0; 4096];
        let count = socket.read(&mut request).expect("a request");
        assert!(request[..count].starts_with(b"GET / HTTP/1.1\r\n"));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        socket.write_all(answer).expect("it is there");
        // Nothing more comes but the end.
        socket.read(&mut request)
    });
    let lines = format!("server 127.0.0.1:{origin}; keepalive 4; keepalive_timeout 1s;");
    let server = group(&site, &lines);
    assert_eq!(get(server.port("plain"), "/").text(), "ok");
    wait_for("the connection to be closed", || {
        ended.is_finished().then_some(())
    });
    let rest = ended.join().expect("no panic");
    assert_eq!(rest.expect("an end in order"), 0);
}

#[test]
fn lists_of_servers_in_files() {
    let site = Site::new();
    let (a, b) = (named("a"), named("b"));
    site.write(
        "servers/1.list",
        format!("server 127.0.0.1:{};\n", a.port()),
    );
    site.write(
        "servers/2.list",
        format!("server 127.0.0.1:{};\nleast_conn;\n", b.port()),
    );
    let server = group(&site, "zone app 64k; include servers/*.list; keepalive 4;");
    let all = answers(server.port("plain"), 10);
    assert_eq!(counted(&all), BTreeMap::from([("a", 5), ("b", 5)]));
}

#[test]
fn servers_on_unix_sockets() {
    let site = Site::new();
    let path = site.path("app.socket");
    let listener = UnixListener::bind(&path).expect("the site is writable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&path, mode).expect("it is ours");
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let mut head = [0; 4096];
            let count = socket.read(&mut head).unwrap_or(0);
            let text = String::from_utf8_lossy(&head[..count]).into_owned();
            let target = text.split(' ').nth(1).unwrap_or_default().to_owned();
            let _ = write!(
                socket,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{target}",
                target.len()
            );
        }
    });
    let dead = named("dead");
    drop(dead);
    let server = site.serve(
        r#"
        upstream app { server unix:%site%/app.socket; server unix:%site%/missing.socket backup; }
        server {
            listen 127.0.0.1:%plain%;
            location / { proxy_pass http://app; add_header X-Peer $upstream_addr; }
            location /direct/ { proxy_pass http://unix:%site%/app.socket:/uri/; }
        }"#,
    );
    let answer = get(server.port("plain"), "/x");
    assert_eq!(answer.text(), "/x");
    let peer = format!("unix:{}", path.display());
    assert_eq!(answer.header("X-Peer"), Some(peer.as_str()));
    assert_eq!(get(server.port("plain"), "/direct/y").text(), "/uri/y");
}

#[test]
fn variables_name_a_group_or_a_host() {
    let site = Site::new();
    let names = NameServer::start();
    let (a, b) = (named("a"), named("b"));
    names.says("app.test", &[Ipv4Addr::LOCALHOST]);
    names.says("nothing.test", &[]);
    let server = site.serve(&format!(
        r#"
        upstream first {{ server 127.0.0.1:{a}; }}
        upstream second.test {{ server 127.0.0.1:{b}; }}
        server {{
            listen 127.0.0.1:%plain%;
            location /unresolved {{ proxy_pass http://$arg_to; }}
            location /known {{ proxy_pass http://localhost:{a}; }}
            location / {{
                resolver 127.0.0.1:{dns} ipv6=off;
                resolver_timeout 1s;
                proxy_pass http://$arg_to/;
            }}
        }}"#,
        a = a.port(),
        b = b.port(),
        dns = names.port(),
    ));
    let port = server.port("plain");
    let to = |to: &str| get(port, &format!("/?to={to}"));
    assert_eq!(to("first").text(), "a");
    assert_eq!(to("SECOND.test").text(), "b");
    assert_eq!(to(&format!("LOCALHOST:{}", a.port())).text(), "a");
    assert_eq!(names.asked(), 0, "a group is not looked up");
    // A block has no port, and another port of a host that is known is another server.
    assert_eq!(get(port, "/unresolved?to=first:80").status, 502);
    server.wait_for_log("no resolver defined to resolve first");
    assert_eq!(get(port, "/unresolved?to=localhost:1").status, 502);
    server.wait_for_log("no resolver defined to resolve localhost");
    assert_eq!(to(&format!("app.test:{}", b.port())).text(), "b");
    assert_eq!(to(&format!("APP.test:{}", a.port())).text(), "a");
    assert_eq!(to(&format!("127.0.0.1:{}", a.port())).text(), "a");
    assert_eq!(to("missing.test").status, 502);
    server.wait_for_log("missing.test could not be resolved (3: Host not found)");
    assert_eq!(to("nothing.test").status, 502);
    server.wait_for_log("nothing.test could not be resolved (");
    assert_eq!(get(port, "/unresolved?to=app.test").status, 502);
    server.wait_for_log("no resolver defined to resolve app.test");
    names.set_silent(true);
    assert_eq!(to("late.test").status, 502);
    server.wait_for_log("late.test could not be resolved (110: Operation timed out)");
    assert_eq!(to("").status, 500);
}

#[test]
fn servers_are_resolved_again_without_a_reload() {
    let site = Site::new();
    let names = NameServer::start();
    let port = site.port("app");
    let hosts = [
        Ipv4Addr::new(127, 0, 0, 2),
        Ipv4Addr::new(127, 0, 0, 3),
        Ipv4Addr::new(127, 0, 0, 4),
    ];
    let _origins: Vec<_> = hosts
        .iter()
        .zip(["two", "three", "four"])
        .map(|(host, name)| Origin::at((*host, port), move |_| saying(name)))
        .collect();
    names.says("app.test", &hosts[..1]);
    let server = site.serve(&format!(
        r#"
        resolver 127.0.0.1:{} valid=1s ipv6=off;
        {}"#,
        names.port(),
        group_conf(
            "plain",
            "zone app 64k; server app.test:%app% resolve; keepalive 4;"
        ),
    ));
    let plain = server.port("plain");
    // It is resolved once the server runs; until then nobody is there.
    wait_for("the first address", || {
        let answer = get(plain, "/");
        assert!([200, 502].contains(&answer.status), "{}", answer.head);
        (answer.text() == "two").then_some(())
    });
    names.says("app.test", &hosts[1..]);
    wait_for("the next addresses", || {
        let all = answers(plain, 8);
        assert!(
            all.iter()
                .all(|one| ["two", "three", "four"].contains(&one.as_str())),
            "{all:?}"
        );
        let counts = counted(&all);
        (counts.get("three") == Some(&4) && counts.get("four") == Some(&4)).then_some(())
    });
    // While nobody says anything, what is known holds.
    names.set_silent(true);
    let before = names.asked();
    wait_for("questions that get no answer", || {
        (names.asked() > before + 1).then_some(())
    });
    assert_eq!(counted(&answers(plain, 8)).len(), 2);
    names.set_silent(false);
    names.says("app.test", &hosts[..1]);
    wait_for("the first address again", || {
        let all = answers(plain, 4);
        (counted(&all).get("two") == Some(&4)).then_some(())
    });
}

#[test]
fn a_retry_goes_to_another_server() {
    let site = Site::new();
    let bad = Origin::answering(|_| {
        Answer::Send(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    let good = named("good");
    let server = site.serve(&format!(
        r#"
        upstream app {{ server 127.0.0.1:{}; server 127.0.0.1:{}; }}
        server {{
            listen 127.0.0.1:%plain%;
            location / {{
                proxy_pass http://app;
                proxy_next_upstream error timeout http_503;
                add_header X-Tried "$upstream_addr" always;
                add_header X-Said "$upstream_status" always;
            }}
        }}"#,
        bad.port(),
        good.port()
    ));
    let answer = get_with(server.port("plain"), "/", "");
    assert_eq!(answer.text(), "good");
    let tried = format!("127.0.0.1:{}, 127.0.0.1:{}", bad.port(), good.port());
    assert_eq!(answer.header("X-Tried"), Some(tried.as_str()));
    assert_eq!(answer.header("X-Said"), Some("503, 200"));
    let head = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for _ in 0..4 {
        // What changes something is not sent twice.
        let answer = wire::request(server.port("plain"), head);
        assert!(!answer.header("X-Said").unwrap_or_default().contains(','));
    }
}
