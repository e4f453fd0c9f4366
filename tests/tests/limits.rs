//! What `limit_req` and `limit_conn` say and count at their edges, beside nginx: levels, dry
//! runs, zones that are full, clients that vanish or stall; and what of it processes outlive.

use sealane_tests::http2::{Client, kind};
use sealane_tests::upgrade::Daemon;
use sealane_tests::wire::{self, Connection};
use sealane_tests::{Program, Server, Site, reload, wait_for};
use std::io::Read;

const LEVELS: [&str; 4] = ["info", "notice", "warn", "error"];

/// What both read. The place for a value of `$arg_held` is taken by `/held/`.
fn configuration() -> String {
    let mut locations = String::new();
    for level in LEVELS {
        locations.push_str(&format!(
            "location /conn-{level}/ {{ limit_conn held 1; limit_conn_log_level {level}; alias html/; }}
             location /conn-dry-{level}/ {{ limit_conn held 1; limit_conn_dry_run on;
                 limit_conn_log_level {level}; alias html/; }}
             location /req-{level}/ {{ limit_req zone=req; limit_req_log_level {level}; alias html/; }}
             location /req-dry-{level}/ {{ limit_req zone=req burst=1; limit_req_dry_run on;
                 limit_req_log_level {level}; alias html/; }}\n"
        ));
    }
    format!(
        "user nobody nogroup; worker_processes 1; error_log logs/error.log info; pid logs/pid;
         events {{ worker_connections 1024; }}
         http {{
         client_body_temp_path temporary/a; proxy_temp_path temporary/b;
         fastcgi_temp_path temporary/c; uwsgi_temp_path temporary/d; scgi_temp_path temporary/e;
         log_format limits '$request_method $uri $status [$limit_req_status|$limit_conn_status]';
         access_log logs/access.log limits;
         large_client_header_buffers 4 64k; reset_timedout_connection on;
         limit_conn_zone $arg_held zone=held:1m; limit_conn_zone $arg_other zone=other:1m;
         limit_conn_zone $arg_full zone=full:32k;
         limit_req_zone $arg_k zone=req:1m rate=1r/m; limit_req_zone $arg_l zone=slow:1m rate=1r/m;
         limit_req_zone $arg_tiny zone=tiny:32k rate=1r/m;
         server {{
             listen 127.0.0.1:%plain%; listen 127.0.0.1:%streams% http2;
             default_type text/plain; root html;
             location /held/ {{ limit_conn held 1; alias html/; }}
             {locations}
             location /conn-444/ {{ limit_conn held 1; limit_conn_status 444; alias html/; }}
             location /conn-two/ {{ limit_conn other 1; limit_conn held 1; limit_conn_status 429; alias html/; }}
             location /conn-two-dry/ {{ limit_conn held 1; limit_conn other 1; limit_conn_dry_run on; alias html/; }}
             location /conn-page/ {{ limit_conn held 1; error_page 503 =200 /conn-error/a.txt; alias html/; }}
             location /conn-named/ {{ limit_conn held 1; error_page 503 = @named; alias html/; }}
             location @named {{ limit_conn held 1; limit_req zone=slow; root html; try_files /a.txt =404; }}
             location /conn-ssi/ {{ limit_conn other 1; ssi on; ssi_types *; alias html/; }}
             location /req-444/ {{ limit_req zone=req; limit_req_status 444; alias html/; }}
             location /req-page/ {{ limit_req zone=req; error_page 503 /req-error/a.txt; alias html/; }}
             location /req-delay/ {{ limit_req zone=slow burst=2; alias html/; }}
             location /req-both/ {{ limit_req zone=req; limit_conn held 1; alias html/; }}
             location /tiny/ {{ limit_req zone=tiny; limit_req_status 429; alias html/; }}
             location /full/ {{ limit_conn full 1; limit_conn_status 429; alias html/; }}
             location /full-dry/ {{ limit_conn full 1; limit_conn_dry_run on; alias html/; }}
             location /stalls/ {{ limit_conn other 1; send_timeout 1s; alias html/; }}
             location /uploads/ {{ limit_conn other 1; client_body_timeout 1s;
                 proxy_pass http://127.0.0.1:1; }}
         }} }}"
    )
}

fn site() -> Site {
    let site = Site::new();
    site.write("html/a.txt", "a file\n");
    let include = "<!--# include virtual=\"/conn-error/a.txt\" -->";
    site.write("html/page.shtml", include.repeat(3));
    site.write("html/large", vec![b'x'; 16 << 20]);
    site
}

/// A request whose answer has begun and is not read on; its status.
fn begun(port: u16, target: &str) -> (Connection, String) {
    let mut connection = Connection::open(port);
    assert!(connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")));
    let mut begin = [0; 12];
    let mut socket = connection.socket();
    socket.read_exact(&mut begin).expect("an answer begins");
    let status = String::from_utf8_lossy(&begin[9..]).into_owned();
    (connection, status)
}

/// What comes of a request, in a word.
fn ask(port: u16, request: &str) -> String {
    let mut connection = Connection::open(port);
    let head_only = request.starts_with("HEAD");
    assert!(connection.send(format!(
        "{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )));
    match connection.try_response(head_only) {
        Some(response) => response.status.to_string(),
        None => "nothing".to_owned(),
    }
}

/// Lines of the log about limits: level and message, without times, numbers and requests.
fn said(server: &Server<'_>) -> Vec<String> {
    let log = server.error_log();
    let about = |line: &&str| {
        [
            "limiting ",
            "delaying ",
            "could not allocate",
            " key is more",
        ]
        .iter()
        .any(|words| line.contains(words))
    };
    log.lines()
        .filter(about)
        .map(|line| {
            let from = line.find('[').expect("a level");
            let to = line.find(", client: ").unwrap_or(line.len());
            let (level, rest) = line[from..to].split_once("] ").expect("a level");
            let (_, message) = rest.split_once(' ').expect("a process");
            let message = match message.split_once(' ') {
                Some((number, message)) if number.starts_with('*') => message,
                _ => message, // nginx does not always say whose it is
            };
            let message = match (message.find("excess: "), message.find("by zone")) {
                (Some(from), Some(to)) => format!("{}{}", &message[..from], &message[to..]),
                _ => message.replace("; make the zone larger", ""),
            };
            format!("{level}] {message}")
        })
        .collect()
}

/// The access log once it has so many lines.
fn logged(site: &Site, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    wait_for("lines of the access log", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).unwrap_or_default();
        lines = log.lines().map(str::to_owned).collect();
        (lines.len() >= count).then_some(())
    });
    lines
}

/// Everything that is asked one after the other. Gives what was seen.
fn ask_all(site: &Site, server: &Server<'_>) -> Vec<String> {
    let port = server.port("plain");
    let mut seen = Vec::new();
    let (holder, status) = begun(port, "/held/large?held=1");
    assert_eq!(status, "200");
    let mut targets = Vec::new();
    for level in LEVELS {
        targets.push(format!("GET /conn-{level}/a.txt?held=1"));
        targets.push(format!("GET /conn-dry-{level}/a.txt?held=1"));
        for _ in 0..2 {
            targets.push(format!("GET /req-{level}/a.txt?k={level}"));
        }
        for _ in 0..3 {
            targets.push(format!("GET /req-dry-{level}/a.txt?k=dry{level}"));
        }
    }
    let long = "l".repeat(300);
    let huge = "h".repeat(30_000);
    for request in [
        "GET /conn-error/a.txt?held=2",
        "GET /conn-error/a.txt",
        "HEAD /conn-error/a.txt?held=1",
        "GET /conn-444/a.txt?held=1",
        "GET /conn-two/a.txt?held=1&other=1",
        "GET /conn-two/a.txt?held=2&other=1",
        "GET /conn-two-dry/a.txt?held=1&other=1",
        "GET /conn-two-dry/a.txt?held=2&other=1",
        "GET /conn-page/a.txt?held=1",
        "GET /conn-named/a.txt?held=1&l=named",
        "GET /conn-named/a.txt?held=1&l=named",
        "GET /conn-ssi/page.shtml?other=1",
        "GET /req-444/a.txt?k=444",
        "GET /req-444/a.txt?k=444",
        "GET /req-page/a.txt?k=page",
        "GET /req-page/a.txt?k=page",
        "GET /req-both/a.txt?k=both&held=1",
        "GET /req-both/a.txt?k=both&held=2",
        "GET /req-both/a.txt?k=both2&held=2",
        "GET /req-both/missing?k=both3&held=2",
        "GET /tiny/a.txt?tiny=1",
        "GET /tiny/a.txt?tiny=1",
        "GET /tiny/a.txt?tiny=2",
        &format!("GET /tiny/a.txt?tiny={huge}"),
        "GET /tiny/a.txt?tiny=2",
        &format!("GET /conn-error/a.txt?held={long}"),
        &format!("GET /conn-dry-error/a.txt?held={long}"),
    ] {
        targets.push(request.to_owned());
    }
    for target in &targets {
        let status = ask(port, target);
        seen.push(format!("{} {status}", &target[..target.len().min(60)]));
    }
    // Those that leave while they are delayed.
    assert_eq!(ask(port, "GET /req-delay/a.txt?l=leaves"), "200");
    let mut waiting = Connection::open(port);
    assert!(waiting.send("GET /req-delay/a.txt?l=leaves HTTP/1.1\r\nHost: a\r\n\r\n"));
    server.wait_for_log("by zone \"slow\", client: ");
    wait_for("a request that is delayed", || {
        let log = server.error_log();
        log.contains("by zone \"slow\", client").then_some(())
    });
    drop(waiting);
    seen.extend(logged(site, targets.len() + 2));
    let mut client = Client::open(server.port("streams"), &[]);
    let stream = client.get("/req-delay/a.txt?l=leaves");
    wait_for("a stream that is delayed", || {
        let log = server.error_log();
        (log.matches("by zone \"slow\", client").count() == 3).then_some(())
    });
    client.frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    let lines = logged(site, targets.len() + 3);
    seen.push(lines.last().expect("many").clone());
    // The place is free when the request is over, not when the connection is.
    drop(holder);
    logged(site, targets.len() + 4);
    let mut keeper = Connection::open(port);
    wait_for("a place on a connection that is kept", || {
        assert!(keeper.send("GET /held/a.txt?held=1 HTTP/1.1\r\nHost: a\r\n\r\n"));
        (keeper.response(false).status == 200).then_some(())
    });
    wait_for("a place", || {
        (ask(port, "GET /held/a.txt?held=1") == "200").then_some(())
    });
    let said = said(server);
    // The last of them are about this wait.
    let after = said.iter().rposition(|line| line.contains("slow"));
    seen.extend_from_slice(&said[..=after.expect("requests were delayed")]);
    seen
}

#[test]
fn what_is_said_and_counted_is_what_nginx_says() {
    let (one, other) = (site(), site());
    let [ours, theirs] =
        [(&one, Program::Sealane), (&other, Program::Nginx)].map(|(site, program)| {
            let server = Server::start(site, program, &configuration());
            server.expect_alert("could not allocate node");
            server.expect_alert("no memory in ");
            ask_all(site, &server)
        });
    let different: Vec<_> = (0..ours.len().max(theirs.len()))
        .map(|at| (ours.get(at), theirs.get(at)))
        .filter(|(ours, theirs)| ours != theirs)
        .collect();
    assert!(different.is_empty(), "{different:#?}");
    assert!(ours.len() > 100, "{ours:#?}");
}

/// Takes places with keys of one length until there is none. How many there were, and who holds
/// them.
fn fill(port: u16) -> Vec<Connection> {
    let mut held = Vec::new();
    loop {
        let key = format!("{:0240}", held.len());
        let (connection, status) = begun(port, &format!("/full/large?full={key}"));
        match &*status {
            "200" => held.push(connection),
            "429" => return held,
            status => panic!("{status} of number {}", held.len()),
        }
        assert!(held.len() < 500, "the zone is never full");
    }
}

#[test]
fn full_zones_and_clients_that_stall() {
    let counts =
        [Program::Sealane, Program::Nginx].map(|program| {
            let site = site();
            let server = Server::start(&site, program, &configuration());
            server.expect_alert("could not allocate node");
            server.expect_alert("no memory in ");
            let port = server.port("plain");
            let held = fill(port);
            let count = held.len();
            // Who is there already stays; new keys have no place, not even for a moment.
            let first = format!("GET /full/a.txt?full={:0240}", 0);
            let new = format!("{:0240}", 1000);
            for _ in 0..3 {
                assert_eq!(ask(port, &first), "429", "{program:?}");
                let asked = ask(port, &format!("GET /full/a.txt?full={new}"));
                assert_eq!(asked, "429", "{program:?}");
                let dry = ask(port, &format!("GET /full-dry/a.txt?full={new}"));
                assert_eq!(dry, "200", "{program:?}");
            }
            let lines = logged(&site, 10);
            assert_eq!(
                lines.last().map(String::as_str),
                Some("GET /full-dry/a.txt 200 [-|REJECTED_DRY_RUN]")
            );
            drop(held);
            wait_for("a place", || (ask(port, &first) == "200").then_some(()));
            wait_for("all places", || (fill(port).len() == count).then_some(()));

            // A client that is there and takes nothing, or sends nothing, holds its place until
            // it is taken for dead.
            let place = |what: &str| {
                let what = format!("a place that a client had {what}, {program:?}");
                wait_for(&what, || {
                    (ask(port, "GET /stalls/a.txt?other=2") == "200").then_some(())
                });
            };
            let (stalled, status) = begun(port, "/stalls/large?other=2");
            assert_eq!(status, "200");
            assert_eq!(ask(port, "GET /stalls/a.txt?other=2"), "503", "{program:?}");
            place("that reads nothing");
            let mut silent = Connection::open(port);
            assert!(silent.send(
                "POST /uploads/?other=2 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"
            ));
            wait_for("an upload that stalls", || {
                (ask(port, "GET /stalls/a.txt?other=2") == "503").then_some(())
            });
            place("that sends nothing");
            let mut client = Client::open(server.port("streams"), &[]);
            client.request("POST", "/uploads/?other=2", &[], false);
            wait_for("a stream that stalls", || {
                (ask(port, "GET /stalls/a.txt?other=2") == "503").then_some(())
            });
            place("that sends nothing on a stream");
            drop((stalled, silent, client));
            count
        });
    // Eight such keys are a page.
    let [ours, theirs] = counts;
    assert!(ours.abs_diff(theirs) <= 8, "{ours} keys, nginx {theirs}");
}

/// How many of so many requests in a row pass.
fn pass(port: u16, target: &str, requests: usize) -> usize {
    let passed = |_: &usize| wire::get(port, target).status == 200;
    (0..requests).filter(passed).count()
}

const ZONES: &str = "limit_req_zone $arg_k zone=req:1m rate=1r/m;
    limit_conn_zone $arg_k zone=conn:1m;";

fn of_processes(main: &str, zones: &str) -> String {
    format!(
        "{main} error_log logs/error.log info; pid logs/pid; events {{}}
         http {{ access_log off; {zones}
         client_body_temp_path temporary/a; proxy_temp_path temporary/b;
         fastcgi_temp_path temporary/c; uwsgi_temp_path temporary/d; scgi_temp_path temporary/e;
         server {{ listen 127.0.0.1:%plain%; root html;
             location /req/ {{ limit_req zone=req burst=2 nodelay; alias html/; }}
             location /conn/ {{ limit_conn conn 1; alias html/; }} }} }}"
    )
}

#[test]
fn zones_outlive_what_the_documentation_says() {
    let site = site();
    let one = "worker_processes 1;";
    let server = site.serve_whole(&of_processes(one, ZONES));
    let port = server.port("plain");
    let change = |text: &str| {
        assert_eq!(
            reload::reload(&site, &server, text),
            reload::Reload::Applied
        );
    };
    let asked = |key: &str| pass(port, &format!("/req/a.txt?k={key}"), 4);
    let place = |key: &str| wire::get(port, &format!("/conn/a.txt?k={key}")).status;
    assert_eq!((asked("a"), asked("a")), (3, 0));
    let (holder, status) = begun(port, "/conn/large?k=a");
    assert_eq!((&*status, place("a")), ("200", 503));
    // Another rate is another rule for the same zone.
    change(&of_processes(one, &ZONES.replace("1r/m", "2r/m")));
    assert_eq!((asked("a"), place("a")), (0, 503));
    // Another size, or another key, is another zone; who holds a place in the old one gives
    // nothing back in the new one.
    change(&of_processes(one, &ZONES.replace("1m", "2m")));
    assert_eq!((asked("a"), asked("a"), place("a")), (3, 0, 200));
    // Who had the place just now may hold it for a moment more.
    let second = wait_for("a place", || {
        let (connection, status) = begun(port, "/conn/large?k=a");
        (status == "200").then_some(connection)
    });
    drop(holder);
    wait_for("the first to be gone", || {
        server.error_log().contains("while sending").then_some(())
    });
    assert_eq!(place("a"), 503);
    change(&of_processes(one, &ZONES.replace("$arg_k", "$arg_k$arg_k")));
    assert_eq!((asked("a"), asked("a"), place("a")), (3, 0, 200));
    drop(second);
    // Another process begins with empty ones. The one before may still accept connections until
    // it has heard that it is to finish.
    let before = server.worker_pid();
    change(&of_processes(
        "worker_processes 2;",
        &ZONES.replace("$arg_k", "$arg_k$arg_k"),
    ));
    wait_for("the worker process before to end", || {
        (!server.worker_pids().contains(&before)).then_some(())
    });
    assert_eq!((asked("a"), asked("a")), (3, 0));
    let (lost, status) = begun(port, "/conn/large?k=lost");
    assert_eq!((&*status, place("lost")), ("200", 503));
    server.expect_alert("exited on signal 9");
    server.kill_worker();
    wait_for("another worker", || (place("lost") == 200).then_some(()));
    assert_eq!((asked("a"), asked("a")), (3, 0));
    drop(lost);
}

#[test]
fn a_new_binary_begins_with_empty_zones() {
    let site = site();
    let text = of_processes("worker_processes 1; user nobody nogroup;", ZONES);
    let daemon = Daemon::start(&site, Program::Sealane, &text);
    let port = site.port("plain");
    let asked = || pass(port, "/req/a.txt?k=a", 4);
    assert_eq!((asked(), asked()), (3, 0));
    daemon.upgrade();
    assert_eq!((asked(), asked()), (3, 0));
}
