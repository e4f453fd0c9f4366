//! `queue`: requests that wait until a server of their group can take them.

use sealane_tests::metrics::{Step, Watch, samples, value};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::reload::{self, Reload};
use sealane_tests::wire::{Connection, Response, get};
use sealane_tests::{Server, Site, http2, scale, wait_for};
use std::sync::{Arc, Condvar, Mutex};

/// Lets so many requests pass as it is told.
#[derive(Clone, Default)]
struct Turnstile(Arc<(Mutex<usize>, Condvar)>);

impl Turnstile {
    fn pass(&self) {
        let (left, told) = &*self.0;
        let mut left = left.lock().expect("no panic");
        while *left == 0 {
            left = told.wait(left).expect("no panic");
        }
        *left -= 1;
    }

    fn admit(&self, count: usize) {
        *self.0.0.lock().expect("no panic") += count;
        self.0.1.notify_all();
    }
}

/// An origin that answers with the target, as far as the turnstile lets it.
fn origin(turnstile: &Turnstile) -> Origin {
    let turnstile = turnstile.clone();
    Origin::answering(move |asked| {
        turnstile.pass();
        let body = asked.target();
        let length = body.len();
        Answer::Send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into())
    })
}

/// A server with a group of one server that takes `max_conns` requests, and a queue.
fn configuration(port: u16, of_server: &str, lines: &str) -> String {
    format!(
        "log_format queue '$uri $status $upstream_queue_time';
        upstream app {{ server 127.0.0.1:{port} {of_server}; {lines} }}
        server {{
            listen 127.0.0.1:%plain%;
            http2 on;
            access_log logs/queue.log queue;
            location / {{ proxy_pass http://app; }}
        }}
        server {{
            listen 127.0.0.1:%metrics%;
            access_log off;
            location = /metrics {{ metrics; }}
        }}"
    )
}

const WAITING: &str = "sealane_upstream_queue_waiting{upstream=\"app\"}";

/// Waits until so many requests wait.
#[track_caller]
fn wait_for_waiting(server: &Server<'_>, count: usize) {
    let port = server.port("metrics");
    wait_for("requests in the queue", || {
        (value(&samples(port), WAITING) == count as f64).then_some(())
    });
}

/// Waits until the origin has been asked so often.
#[track_caller]
fn wait_for_asked(origin: &Origin, count: usize) {
    wait_for("a request at the origin", || {
        (origin.asked().len() >= count).then_some(())
    });
}

/// Sends a request and does not wait for the response.
fn begin(server: &Server<'_>, target: &str) -> Connection {
    let mut connection = Connection::open(server.port("plain"));
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    connection
}

/// The lines of the access log, once there are so many.
fn log_lines(site: &Site, count: usize) -> Vec<String> {
    wait_for("lines of the access log", || {
        let text = std::fs::read_to_string(site.path("logs/queue.log")).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        (lines.len() >= count).then_some(lines)
    })
}

/// `$upstream_queue_time` of the line of a target.
fn queue_time<'l>(lines: &'l [String], target: &str) -> &'l str {
    let line = lines
        .iter()
        .find(|line| line.split(' ').next() == Some(target));
    line.and_then(|line| line.split(' ').nth(2))
        .expect("a line")
}

#[test]
fn requests_are_served_in_the_order_in_which_they_came() {
    for workers in ["1", "4"] {
        let site = Site::new();
        let turnstile = Turnstile::default();
        let origin = origin(&turnstile);
        let configuration = configuration(origin.port(), "max_conns=1", "queue 10;");
        let server = site.serve_with(&format!("worker_processes {workers};"), "", &configuration);
        let mut connections = vec![begin(&server, "/0")];
        wait_for_asked(&origin, 1);
        for number in 1..6 {
            connections.push(begin(&server, &format!("/{number}")));
            wait_for_waiting(&server, number);
        }
        turnstile.admit(6);
        for connection in &mut connections {
            assert_eq!(connection.response(false).status, 200);
        }
        let targets: Vec<_> = origin.asked().iter().map(|asked| asked.target()).collect();
        assert_eq!(targets, ["/0", "/1", "/2", "/3", "/4", "/5"], "{workers}");
        let lines = log_lines(&site, 6);
        assert_eq!(queue_time(&lines, "/0"), "-");
        for waited in ["/1", "/5"] {
            let time = queue_time(&lines, waited);
            assert!(time.parse::<f64>().is_ok(), "{time}");
        }
        // Nobody waits any more: the next one goes at once.
        turnstile.admit(1);
        assert_eq!(get(server.port("plain"), "/last").status, 200);
        assert_eq!(queue_time(&log_lines(&site, 7), "/last"), "-");
    }
}

#[test]
fn no_more_wait_than_may_and_none_for_longer() {
    let site = Site::new();
    let turnstile = Turnstile::default();
    let origin = origin(&turnstile);
    let lines = "queue 2 timeout=100ms;";
    let server = site.serve(&configuration(origin.port(), "max_conns=1", lines));
    let watch = Watch::start(&server);
    let mut first = begin(&server, "/first");
    wait_for_asked(&origin, 1);
    let mut waiting = [begin(&server, "/a"), begin(&server, "/b")];
    for connection in &mut waiting {
        assert_eq!(connection.response(false).status, 502);
    }
    server.wait_for_log(
        "upstream timed out (110: Connection timed out) while waiting in upstream queue",
    );
    wait_for_waiting(&server, 0);
    let lines = log_lines(&site, 2);
    let time: f64 = queue_time(&lines, "/a").parse().expect("seconds");
    assert!(time >= 0.1, "{time}");
    turnstile.admit(1);
    assert_eq!(first.response(false).status, 200);
    watch.saw(&[
        (WAITING, Step::To(0.0)),
        (
            "sealane_upstream_requests_without_peer_total{upstream=\"app\"}",
            Step::By(2),
        ),
    ]);
}

#[test]
fn a_full_queue_and_its_length_are_counted() {
    let site = Site::new();
    let turnstile = Turnstile::default();
    let origin = origin(&turnstile);
    let server = site.serve(&configuration(origin.port(), "max_conns=1", "queue 1;"));
    let watch = Watch::start(&server);
    let mut connections = vec![begin(&server, "/first")];
    wait_for_asked(&origin, 1);
    connections.push(begin(&server, "/waits"));
    wait_for_waiting(&server, 1);
    assert_eq!(get(server.port("plain"), "/refused").status, 502);
    server.wait_for_log("upstream queue is full while connecting to upstream");
    watch.saw(&[
        (
            "sealane_upstream_queue_waiting{upstream=\"app\"}",
            Step::To(1.0),
        ),
        (
            "sealane_upstream_queue_overflows_total{upstream=\"app\"}",
            Step::By(1),
        ),
    ]);
    turnstile.admit(2);
    for connection in &mut connections {
        assert_eq!(connection.response(false).status, 200);
    }
}

#[test]
fn a_client_that_leaves_gives_its_place_up() {
    let site = Site::new();
    let turnstile = Turnstile::default();
    let origin = origin(&turnstile);
    let server = site.serve(&configuration(origin.port(), "max_conns=1", "queue 2;"));
    let mut first = begin(&server, "/first");
    wait_for_asked(&origin, 1);
    let leaves = begin(&server, "/leaves");
    wait_for_waiting(&server, 1);
    // A stream of HTTP/2 that is reset.
    let mut client = http2::Client::open(server.port("plain"), &[]);
    let stream = client.get("/reset");
    wait_for_waiting(&server, 2);
    drop(leaves);
    wait_for_waiting(&server, 1);
    client.frame(http2::kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    wait_for_waiting(&server, 0);
    let mut last = begin(&server, "/last");
    wait_for_waiting(&server, 1);
    turnstile.admit(2);
    assert_eq!(first.response(false).status, 200);
    assert_eq!(last.response(false).status, 200);
    let targets: Vec<_> = origin.asked().iter().map(|asked| asked.target()).collect();
    assert_eq!(targets, ["/first", "/last"]);
    let lines = log_lines(&site, 4);
    assert!(
        lines.iter().any(|line| line.starts_with("/leaves 499 ")),
        "{lines:?}"
    );
}

#[test]
fn streams_of_one_connection_wait_beside_each_other() {
    let site = Site::new();
    let turnstile = Turnstile::default();
    let origin = origin(&turnstile);
    let server = site.serve(&configuration(origin.port(), "max_conns=1", "queue 8;"));
    let mut client = http2::Client::open(server.port("plain"), &[]);
    let first = client.get("/0");
    wait_for_asked(&origin, 1);
    let mut streams = vec![first];
    for number in 1..5 {
        streams.push(client.get(&format!("/{number}")));
        wait_for_waiting(&server, number);
    }
    turnstile.admit(5);
    let last = client.response(streams[4]);
    assert_eq!(last.status, 200);
    let targets: Vec<_> = origin.asked().iter().map(|asked| asked.target()).collect();
    assert_eq!(targets, ["/0", "/1", "/2", "/3", "/4"]);
}

/// One that failed, and is left out for a second, comes back by time alone.
#[test]
fn a_server_that_comes_back_takes_those_who_waited() {
    let site = Site::new();
    let turnstile = Turnstile::default();
    turnstile.admit(1000);
    let fails = Arc::new(Mutex::new(true));
    let is_failing = fails.clone();
    let origin = Origin::answering(move |_| match *is_failing.lock().expect("no panic") {
        true => Answer::SendAndClose(Vec::new()),
        false => Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()),
    });
    let of_server = "fail_timeout=1s";
    let other = format!("server 127.0.0.1:{} down; queue 10;", origin.port());
    let server = site.serve(&configuration(origin.port(), of_server, &other));
    assert_eq!(get(server.port("plain"), "/fails").status, 502);
    let mut connections = [begin(&server, "/a"), begin(&server, "/b")];
    wait_for_waiting(&server, 2);
    *fails.lock().expect("no panic") = false;
    for connection in &mut connections {
        assert_eq!(connection.response(false).status, 200);
    }
}

#[test]
fn a_health_check_that_passes_ends_the_wait() {
    let site = Site::new();
    let healthy = Arc::new(Mutex::new(false));
    let state = healthy.clone();
    let origin = Origin::answering(move |_| match *state.lock().expect("no panic") {
        true => Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()),
        false => Answer::Send(b"HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n".to_vec()),
    });
    let server = site.serve(&format!(
        "upstream app {{
            zone app 64k; server 127.0.0.1:{}; queue 10;
        }}
        server {{
            listen 127.0.0.1:%plain%;
            location / {{ proxy_pass http://app; health_check mandatory interval=100ms; }}
        }}
        server {{ listen 127.0.0.1:%metrics%; location = /metrics {{ metrics; }} }}",
        origin.port()
    ));
    let mut waits = begin(&server, "/waits");
    wait_for_waiting(&server, 1);
    *healthy.lock().expect("no panic") = true;
    assert_eq!(waits.response(false).status, 200);
}

#[test]
fn a_reload_loses_nobody_who_waits() {
    let site = Site::new();
    let turnstile = Turnstile::default();
    let origin = origin(&turnstile);
    let conf = |lines: &str| configuration(origin.port(), "max_conns=1", lines);
    let server = site.serve(&conf("queue 10;"));
    let mut connections = vec![begin(&server, "/first")];
    wait_for_asked(&origin, 1);
    connections.push(begin(&server, "/old"));
    wait_for_waiting(&server, 1);
    let whole = |lines: &str| {
        let file = std::fs::read_to_string(site.path("sealane.conf")).expect("a file");
        assert!(file.contains("queue 10;") || file.contains("queue 20;"));
        file.replace("queue 10;", lines).replace("queue 20;", lines)
    };
    assert_eq!(
        reload::reload(&site, &server, &whole("queue 20;")),
        Reload::Applied
    );
    connections.push(begin(&server, "/new"));
    wait_for_waiting(&server, 2);
    // Without the directive nobody joins; those who wait already are not forgotten.
    assert_eq!(reload::reload(&site, &server, &whole("")), Reload::Applied);
    turnstile.admit(3);
    for connection in &mut connections {
        assert_eq!(connection.response(false).status, 200);
    }
    let targets: Vec<_> = origin.asked().iter().map(|asked| asked.target()).collect();
    assert_eq!(targets, ["/first", "/old", "/new"]);
}

#[test]
fn a_server_that_ends_in_good_order_serves_those_who_wait() {
    let site = Site::new();
    let turnstile = Turnstile::default();
    let origin = origin(&turnstile);
    let server = site.serve(&configuration(origin.port(), "max_conns=1", "queue 10;"));
    let mut connections = vec![begin(&server, "/first")];
    wait_for_asked(&origin, 1);
    connections.push(begin(&server, "/waits"));
    wait_for_waiting(&server, 1);
    server.signal("QUIT");
    server.wait_for_log("gracefully shutting down");
    turnstile.admit(2);
    for connection in &mut connections {
        assert_eq!(connection.response(false).status, 200);
    }
    assert!(server.wait_for_exit().success());
}

/// Many clients of several worker threads, fewer places at the servers: everybody is served, and no
/// server ever has more than it takes.
#[test]
fn a_crowd_is_served_without_a_wake_that_is_lost() {
    let site = Site::new();
    let active = Arc::new(Mutex::new((0_usize, 0_usize)));
    let counted = active.clone();
    let origin = Origin::answering(move |_| {
        {
            let mut counts = counted.lock().expect("no panic");
            counts.0 += 1;
            counts.1 = counts.1.max(counts.0);
        }
        std::thread::yield_now();
        counted.lock().expect("no panic").0 -= 1;
        Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
    });
    let configuration = configuration(origin.port(), "max_conns=2", "queue 64;");
    let server = site.serve_with("worker_processes 3;", "", &configuration);
    let port = server.port("plain");
    let each = scale(50, 1000);
    let clients = (0..16).map(|_| {
        std::thread::spawn(move || {
            let mut connection = Connection::open(port);
            let ask = |_| -> Response {
                connection.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                connection.response(false)
            };
            (0..each)
                .map(ask)
                .filter(|response| response.status == 200)
                .count()
        })
    });
    let clients: Vec<_> = clients.collect();
    for client in clients {
        assert_eq!(client.join().expect("no panic"), each);
    }
    assert!(active.lock().expect("no panic").1 <= 2);
    wait_for_waiting(&server, 0);
}
