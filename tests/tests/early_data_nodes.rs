//! 0-RTT on several nodes: what a client sends first is accepted once, wherever and
//! however often it is sent again.

use sealane_tests::nodes::{configuration, s_client, sites, wait_until_shared};
use sealane_tests::{Program, Redis, Relay, Server, Site, command, scale, wait_for};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// A session for early data from whichever node.
#[track_caller]
fn new_session(site: &Site, port: u16) -> String {
    let file = site.path("temporary/early.pem").display().to_string();
    let _ = std::fs::remove_file(&file);
    s_client(port, "-tls1_3", &file, false).success();
    assert!(Path::new(&file).exists(), "the server sent a ticket");
    file
}

/// Sends a request for `path` as early data. Whether it was accepted.
#[track_caller]
fn send_early(site: &Site, port: u16, session: &str, path: &str) -> bool {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let early = site
        .write("temporary/early.txt", request)
        .display()
        .to_string();
    let address = format!("127.0.0.1:{port}");
    let arguments = [
        "s_client",
        "-connect",
        &address,
        "-tls1_3",
        "-ign_eof",
        "-sess_in",
        session,
        "-early_data",
        &early,
    ];
    let outcome = command("openssl", &arguments, b"");
    outcome.text().contains("Early data was accepted")
}

/// Relays one connection and keeps what the client sends before it hears
/// anything: its hello and the early data.
fn record_one(listener: &TcpListener, server_port: u16) -> Vec<u8> {
    let (mut client, _) = listener.accept().expect("a client connects");
    // A client that has said all waits for the answer.
    let quiet = Some(Duration::from_millis(200));
    client.set_read_timeout(quiet).expect("a socket");
    let (mut flight, mut buffer) = (Vec::new(), [0; 16 << 10]);
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        flight.extend_from_slice(&buffer[..count]);
    }
    client.set_read_timeout(None).expect("a socket");
    let mut server = TcpStream::connect(("127.0.0.1", server_port)).expect("it listens");
    server.write_all(&flight).expect("it reads");
    let (mut from, mut to) = (
        client.try_clone().expect("a socket"),
        server.try_clone().expect("a socket"),
    );
    let rest = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(Shutdown::Both);
    rest.join().expect("copying does not panic");
    flight
}

/// Sends a recorded flight and waits for the server's first answer.
fn replay(port: u16, flight: &[u8]) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let limit = Some(Duration::from_secs(5));
    socket.set_read_timeout(limit).expect("a socket");
    if socket.write_all(flight).is_ok() {
        let _ = socket.read(&mut [0; 4096]);
    }
}

/// How often each path was answered, by the access logs of all nodes, and how often
/// as early data.
fn answered(sites: &[Site]) -> BTreeMap<String, (usize, usize)> {
    let mut paths = BTreeMap::new();
    for site in sites {
        let log = std::fs::read_to_string(site.path("logs/access.log")).unwrap_or_default();
        for line in log.lines() {
            let (early, path) = line.split_once(' ').expect("the format has a blank");
            let counts: &mut (usize, usize) = paths.entry(path.to_owned()).or_default();
            counts.0 += 1;
            counts.1 += usize::from(early == "<1>");
        }
    }
    paths
}

#[test]
fn a_flight_is_accepted_once_on_all_nodes() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    // As if nodes had used this store for long: one that has just begun is trusted
    // five minutes later.
    let info = redis.ask(&["INFO", "server"]);
    let run = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("run_id:"));
    redis.ask(&["SET", "sealane:claims:run", run.expect("a run")]);
    let text = configuration(&format!(
        "ssl_early_data on; ssl_session_store redis://127.0.0.1:{} timeout=1s;",
        redis.port()
    ))
    .replace(
        "access_log off;",
        "log_format early '<$ssl_early_data> $request_uri'; access_log logs/access.log early;",
    );
    let servers: Vec<Server<'_>> = sites
        .iter()
        .map(|site| Server::start(site, Program::Sealane, &text))
        .collect();
    let ports: Vec<u16> = servers.iter().map(|server| server.port("tls")).collect();
    let relay = Relay::start(&ports);
    wait_until_shared(&sites[0], relay.port(), "-tls1_3");

    let flights = scale(20, 100);
    let replays = scale(10, 1000);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let recorder = listener.local_addr().expect("it is bound").port();
    let mut accepted = Vec::new();
    for number in 0..flights {
        let session = new_session(&sites[0], relay.port());
        let path = format!("/tls?{number}");
        let (early, flight) = std::thread::scope(|scope| {
            let recording = scope.spawn(|| record_one(&listener, relay.port()));
            let early = send_early(&sites[0], recorder, &session, &path);
            (early, recording.join().expect("recorded"))
        });
        accepted.extend(early.then_some(&path).cloned());
        for again in 0..replays {
            let mut flight = flight.clone();
            if again % 5 == 4 {
                let at = 5 + again * 31 % (flight.len() - 5);
                flight[at] ^= 1;
            }
            replay(ports[again % ports.len()], &flight);
        }
    }
    println!("{} of {flights} accepted", accepted.len());
    assert!(
        accepted.len() * 100 >= flights * 99,
        "{accepted:?} of {flights}"
    );
    let paths = wait_for("the log lines", || {
        let paths = answered(&sites);
        accepted
            .iter()
            .all(|path| paths.contains_key(path))
            .then_some(paths)
    });
    for path in &accepted {
        assert_eq!(paths[path], (1, 1), "{path}: answered once, as early data");
    }
    // A path that nobody sent would be a mangled flight that was accepted.
    assert!(
        paths
            .keys()
            .all(|path| path == "/tls" || path.starts_with("/tls?")),
        "{paths:?}"
    );
}
