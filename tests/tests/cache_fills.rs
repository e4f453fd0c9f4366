//! The cache while a response is being received, and what it does about full disks, forged files,
//! purges, reloads and processes that end: never a wrong body.

#[path = "cache_fills/files.rs"]
mod files;
#[path = "cache_fills/gate.rs"]
mod gate;
#[path = "cache_fills/memory.rs"]
mod memory;
#[path = "cache_fills/power.rs"]
mod power;
#[path = "cache_fills/processes.rs"]
mod processes;

use gate::GatedOrigin;
use sealane_tests::caching::{verdict, wait_for_hit};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Site, scale, wait_for, wire};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// `http` with a zone `one` and a server whose locations are given.
fn http(zone: &str, locations: &str) -> String {
    format!(
        "proxy_temp_path temp;
         proxy_cache_path cache keys_zone=one:1m inactive=1h {zone};
         server {{ listen 127.0.0.1:%plain%; proxy_cache one; proxy_cache_valid 200 1h;
             proxy_cache_key $uri;
             add_header X-Cache $upstream_cache_status always; {locations} }}"
    )
}

fn pass(origin: u16, more: &str) -> String {
    format!("location / {{ proxy_pass http://127.0.0.1:{origin}; {more} }}")
}

/// An origin whose answers are counted, and can be told apart.
fn counting() -> (Origin, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let origin = Origin::answering(move |_: &Asked| {
        let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
        let body = format!("answer {number}");
        let bytes = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{body}");
        Answer::Send(head.into_bytes())
    });
    (origin, count)
}

#[test]
fn many_clients_of_a_cold_key_are_one_request_and_read_along() {
    let clients = scale(300, 5000);
    let site = Site::new();
    let body: Vec<u8> = (0..400_000u32).flat_map(u32::to_be_bytes).collect();
    let origin = GatedOrigin::new(body.clone(), 100_000);
    let main = format!(
        "worker_processes 2; worker_rlimit_nofile {};",
        clients + 500
    );
    let events = format!("worker_connections {};", clients * 2 + 200);
    let lock = "proxy_cache_lock on; proxy_cache_lock_timeout 1m; proxy_cache_lock_age 1m;";
    let server = site.serve_with(&main, &events, &http("", &pass(origin.port(), lock)));
    let port = server.port("plain");
    let mut sockets: Vec<TcpStream> = Vec::new();
    for _ in 0..clients {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        let request = b"GET /cold HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        socket.write_all(request).expect("it reads");
        sockets.push(socket);
    }
    // The origin has sent a part, and goes on when every client has that part.
    let mut heads = 0;
    for socket in &sockets {
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("valid");
        let mut begun = vec![0; 512];
        socket.peek(&mut begun).expect("the first bytes come");
        heads += usize::from(begun.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    assert_eq!(heads, clients);
    assert_eq!(origin.requests(), 1);
    origin.open();
    let readers = sockets.chunks_mut(clients.div_ceil(8));
    thread::scope(|scope| {
        for sockets in readers {
            let body = &body;
            scope.spawn(move || {
                for socket in sockets {
                    let all = wire::read_to_close(socket);
                    let response = wire::whole(&all).expect("a whole response");
                    assert!(response.body == *body, "{} bytes", response.body.len());
                }
            });
        }
    });
    assert_eq!(origin.requests(), 1);
    assert!(wait_for_hit(&server, "/cold").body == body);
}

#[test]
fn nobody_waits_for_what_is_not_kept() {
    const CLIENTS: usize = 20;
    let site = Site::new();
    let asked = Arc::new((Mutex::new(0), Condvar::new()));
    let counter = Arc::clone(&asked);
    let most = Arc::new(AtomicUsize::new(0));
    let together = Arc::clone(&most);
    // The first response leaves the others time to wait for it; these wait for each other.
    let origin = Origin::answering(move |_: &Asked| {
        let (count, changed) = &*counter;
        let mut asked = count.lock().expect("no panic");
        *asked += 1;
        let number = *asked;
        changed.notify_all();
        if number == 1 {
            drop(asked);
            thread::sleep(Duration::from_millis(500));
        } else {
            let patience = Duration::from_secs(2);
            let waited = changed.wait_timeout_while(asked, patience, |asked| *asked < CLIENTS);
            let (asked, _) = waited.expect("no panic");
            together.fetch_max(*asked - number + 1, Ordering::Relaxed);
        }
        let head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 3\r\n\r\nown";
        Answer::Send(head.into())
    });
    let lock = "proxy_cache_lock on; proxy_cache_lock_timeout 5m; proxy_cache_lock_age 5m;";
    let server = site.serve(&http("", &pass(origin.port(), lock)));
    let port = server.port("plain");
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let response = wire::get(port, "/own");
                assert_eq!(
                    (verdict(&response), response.text().as_str()),
                    ("MISS", "own")
                );
            });
        }
    });
    assert_eq!(*asked.0.lock().expect("no panic"), CLIENTS);
    let most = most.load(Ordering::Relaxed);
    assert!(most > 2, "only {most} at a time");
}

#[test]
fn a_client_that_leaves_ends_nothing() {
    let site = Site::new();
    let body = vec![b'x'; 300_000];
    let origin = GatedOrigin::new(body.clone(), 10);
    let server = site.serve(&http("", &pass(origin.port(), "proxy_cache_lock on;")));
    let mut socket =
        TcpStream::connect((Ipv4Addr::LOCALHOST, server.port("plain"))).expect("it listens");
    socket
        .write_all(b"GET /left HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("it reads");
    socket.peek(&mut [0; 16]).expect("the first bytes come");
    drop(socket);
    thread::sleep(Duration::from_millis(50));
    origin.open();
    assert!(wait_for_hit(&server, "/left").body == body);
    assert_eq!(origin.requests(), 1);
}

#[test]
fn what_breaks_off_is_not_kept() {
    let site = Site::new();
    let number = AtomicUsize::new(0);
    let origin = Origin::answering(move |asked: &Asked| {
        let is_cut = number.fetch_add(1, Ordering::Relaxed) < 2;
        let head = match asked.target().as_str() {
            "/length" => "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n",
            _ => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n",
        };
        let body = match (is_cut, asked.target().as_str()) {
            (true, _) => "part",
            (false, "/length") => "complete",
            (false, _) => "complete\r\n0\r\n\r\n",
        };
        Answer::SendAndClose([head, body].concat().into_bytes())
    });
    let server = site.serve(&http("", &pass(origin.port(), "")));
    for target in ["/length", "/chunks"] {
        let mut connection = wire::Connection::open(server.port("plain"));
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let begun = String::from_utf8(connection.rest()).expect("text");
        assert!(begun.contains("part"), "{begun}");
        assert!(!begun.ends_with("0\r\n\r\n"), "{begun}");
    }
    for target in ["/length", "/chunks"] {
        let response = wire::get(server.port("plain"), target);
        assert_eq!(
            (verdict(&response), response.text().as_str()),
            ("MISS", "complete")
        );
        assert_eq!(wait_for_hit(&server, target).text(), "complete");
    }
    server.wait_for_log("upstream prematurely closed connection while reading upstream");
}

#[test]
fn purging_is_for_those_who_may() {
    let site = Site::new();
    let (origin, count) = counting();
    let purge = "proxy_cache_purge $arg_purge;";
    let port = origin.port();
    let locations = format!(
        "location / {{ proxy_pass http://127.0.0.1:{port}; {purge} allow 127.0.0.1; deny all; }}
         location /open/ {{ proxy_pass http://127.0.0.1:{port}; {purge} }}
         location /closed/ {{ proxy_pass http://127.0.0.1:{port}; {purge}
             limit_except GET {{ deny all; }} deny all; }}"
    );
    let server = site.serve(&http("", &locations));
    let ask = |target: &str| wire::get(server.port("plain"), target);
    assert_eq!(ask("/a").text(), "answer 1");
    assert_eq!(wait_for_hit(&server, "/a").text(), "answer 1");
    assert!(ask("/a?purge=1").head.starts_with("HTTP/1.1 204 "));
    assert!(ask("/a?purge=1").head.starts_with("HTTP/1.1 404 "));
    assert!(ask("/a?purge=0").head.starts_with("HTTP/1.1 200 "));
    assert_eq!(wait_for_hit(&server, "/a").text(), "answer 2");
    assert_eq!(count.load(Ordering::Relaxed), 2);
    server.wait_for_log("purged \"/a\"");
    assert!(ask("/open/a?purge=1").head.starts_with("HTTP/1.1 403 "));
    server.wait_for_log("nothing is purged: anybody could do it");
    assert!(ask("/closed/a?purge=1").head.starts_with("HTTP/1.1 403 "));
}

#[test]
fn a_response_that_was_asked_for_before_a_purge_is_not_kept() {
    let site = Site::new();
    let origin = GatedOrigin::new(vec![b'x'; 1000], 10);
    let more = "proxy_cache_purge $arg_purge; allow all;";
    let server = site.serve(&http("", &pass(origin.port(), more)));
    let port = server.port("plain");
    let mut first = wire::Connection::open(port);
    first.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for("the origin to be asked", || {
        (origin.requests() == 1).then_some(())
    });
    // There is no file yet, but what will come is not wanted any more.
    wire::get(port, "/a?purge=1");
    origin.open();
    assert_eq!(first.response(false).body.len(), 1000);
    let second = wire::get(port, "/a");
    assert_eq!(verdict(&second), "MISS");
    assert_eq!(origin.requests(), 2);
}

#[test]
fn a_miss_has_its_trailers_and_its_pace() {
    let site = Site::new();
    let origin = Origin::answering(|asked: &Asked| {
        Answer::Send(match asked.target().as_str() {
            "/trailers" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                            5\r\nhello\r\n0\r\nX-Sum: 5d41\r\n\r\n"
                .to_owned()
                .into_bytes(),
            _ => [
                &b"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n"[..],
                &[b'x'; 40_000],
            ]
            .concat(),
        })
    });
    let port = origin.port();
    let locations = format!(
        "location /trailers {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1;
             proxy_pass_trailers on; proxy_set_header TE trailers;
             proxy_set_header Connection TE; }}
         location /slow {{ proxy_pass http://127.0.0.1:{port}; proxy_limit_rate 10000; }}"
    );
    let server = site.serve(&http("", &locations));
    let port = server.port("plain");
    let mut connection = wire::Connection::open(port);
    connection
        .send("GET /trailers HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: close\r\n\r\n");
    let all = String::from_utf8(connection.rest()).expect("text");
    assert!(
        all.contains("hello") && all.contains("X-Sum: 5d41"),
        "{all}"
    );
    assert_eq!(wait_for_hit(&server, "/trailers").text(), "hello");
    let begun = Instant::now();
    assert_eq!(wire::get(port, "/slow").body.len(), 40_000);
    // No more than the rate, but for what came with the head.
    assert!(begun.elapsed() >= Duration::from_millis(1500));
}
