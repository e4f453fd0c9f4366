//! Flights recorded on their way and sent again: to one server, and to three that
//! share a store. A request that is logged as early data is what a replay must
//! not get.

use crate::client::{Client, Flight, connect, get};
use crate::{LOG, serve, server_block, site};
use sealane_tests::metrics::Step::Up;
use sealane_tests::metrics::Watch;
use sealane_tests::{Program, Redis, Server, Site, random::Random, scale, wait_for};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const NODES: usize = 3;
/// Replays on their way at the same time.
const LANES: usize = 6;

/// Sends what somebody might have recorded, and nothing more. What comes back is
/// of no use without the client's secrets; it is read so that the server is done.
pub(crate) fn send(port: u16, bytes: &[u8], pieces: usize) {
    let mut socket = connect(port);
    for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
        if socket.write_all(piece).is_err() {
            break;
        }
    }
    let _ = socket.shutdown(Shutdown::Write);
    let mut sink = [0; 4096];
    loop {
        match socket.read(&mut sink) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("a server that neither answers nor closes: {error}"),
        }
    }
}

/// The flight as it is, or changed: a bit anywhere, a cut, a piece repeated, another
/// flight's early data.
fn replayed(flight: &Flight, other: &Flight, random: &mut Random) -> Vec<u8> {
    let flip = |bytes: &mut [u8], random: &mut Random| {
        let at = random.below(bytes.len() * 8);
        bytes[at / 8] ^= 1 << (at % 8);
    };
    let Flight {
        mut hello,
        mut early,
    } = flight.clone();
    match random.below(12) {
        0 => flip(&mut hello, random),
        // The binder is the end of the hello.
        1 => {
            let binder = hello.len() - 32;
            flip(&mut hello[binder..], random);
        }
        2 => flip(&mut early, random),
        3 => early.truncate(random.below(early.len())),
        4 => hello.truncate(1 + random.below(hello.len() - 1)),
        5 => early.extend_from_slice(&flight.early),
        6 => early.clone_from(&other.early),
        7 => early = random.bytes(early.len()),
        _ => {}
    }
    [hello, early].concat()
}

/// Sends every flight `times` more times to all ports in turn.
fn replay(flights: &[Flight], ports: &[u16], times: usize) -> usize {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let next = &next;
            scope.spawn(move || {
                let mut random = Random::new(lane as u64);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= flights.len() * times {
                        return;
                    }
                    // Flights change faster than ports, so that each meets all of them.
                    let (flight, round) = (number % flights.len(), number / flights.len());
                    let other = &flights[(flight + 1) % flights.len()];
                    let bytes = replayed(&flights[flight], other, &mut random);
                    let port = ports[(round + flight) % ports.len()];
                    send(port, &bytes, 1 + random.below(3));
                }
            });
        }
    });
    flights.len() * times
}

/// Sends the same flight to all ports at once.
fn send_everywhere(flight: &Flight, ports: &[u16]) {
    let bytes = &flight.bytes();
    std::thread::scope(|scope| {
        for port in ports {
            scope.spawn(move || send(*port, bytes, 1));
        }
    });
}

/// How often each URI was answered in early data, by all servers.
fn answered(sites: &[&Site]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for site in sites {
        let log = std::fs::read_to_string(site.path("logs/access.log")).unwrap_or_default();
        for line in log.lines() {
            let fields: Vec<&str> = line.trim_matches(['[', ']']).split('|').collect();
            let [early, verdict, _, _, uri] = fields[..] else {
                panic!("a line of another form: {line}")
            };
            if early == "1" {
                assert_eq!(verdict, "accepted", "{line}");
                *counts.entry(uri.to_owned()).or_default() += 1;
            }
        }
    }
    counts
}

/// Flights of which one half reached a server undisturbed, while the other is
/// known to nobody yet, and what they ask for.
struct Recording {
    flights: Vec<Flight>,
    uris: Vec<String>,
}

fn record(client: &Client, ports: &[u16], count: usize) -> Recording {
    let uris: Vec<String> = (0..count)
        .map(|number| format!("/flight?{number}"))
        .collect();
    let flights = uris.iter().enumerate().map(|(number, uri)| {
        let session = client.session(ports[number % ports.len()]);
        client.flight(&session, &get(uri))
    });
    let flights: Vec<Flight> = flights.collect();
    for flight in flights.iter().step_by(2) {
        send(ports[0], &flight.bytes(), 1);
    }
    for flight in flights.iter().skip(1).step_by(2) {
        send_everywhere(flight, ports);
    }
    Recording { flights, uris }
}

#[track_caller]
fn assert_each_once(recording: &Recording, counts: &HashMap<String, usize>) {
    for uri in &recording.uris {
        assert_eq!(
            counts.get(uri),
            Some(&1),
            "{uri} was answered so often: {counts:?}"
        );
    }
}

#[test]
fn one_server_accepts_a_flight_once() {
    let site = site();
    let server = serve(&site, "");
    let port = server.port("tls");
    let client = Client::new();
    // To the same server three times at once, which is what three nodes get below.
    let ports = [port; NODES];
    let recording = record(&client, &ports, scale(10, 100));
    let sent = replay(&recording.flights, &ports, scale(100, 1000));
    let log = server.error_log();
    assert!(server.stop("QUIT").success());
    assert!(!log.contains("panicked"), "{log}");
    assert_each_once(&recording, &answered(&[&site]));
    println!("{sent} replays of {} flights", recording.flights.len());
}

/// Three servers with one certificate and a store that has been running for long.
struct Nodes<'a> {
    servers: Vec<Server<'a>>,
    ports: Vec<u16>,
}

fn sites() -> Vec<Site> {
    let sites: Vec<Site> = std::iter::once(site())
        .chain((1..NODES).map(|_| Site::new()))
        .collect();
    for site in &sites[1..] {
        for file in ["authority.pem", "site.pem", "site.key"] {
            let path = format!("certificates/{file}");
            let content = std::fs::read(sites[0].path(&path)).expect("the first site has it");
            site.write(&path, content);
        }
    }
    sites
}

/// A store is trusted with early data once it has remembered for longer than a
/// flight can live. It says of itself who it is; a node notes that there, with a
/// mark where it is news. This is a store that the nodes have known for long.
fn known_for_long(redis: &Redis<'_>) {
    let info = redis.ask(&["INFO", "server"]);
    let run = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("run_id:"));
    redis.ask(&["SET", "sealane:claims:run", run.expect("it says who it is")]);
}

fn start<'a>(sites: &'a [Site], redis: &Redis<'_>) -> Nodes<'a> {
    // A machine under load answers later than in 20 ms, which is not what this is about.
    let store = format!(
        "ssl_session_store redis://127.0.0.1:{} timeout=2s;",
        redis.port()
    );
    let configuration = format!(
        "worker_processes 2; pid logs/pid; error_log logs/error.log notice;
         events {{ }}
         http {{ {LOG} {}
             server {{ listen 127.0.0.1:%metrics%; access_log off;
                 location = /metrics {{ metrics; }} }} }}",
        server_block("tls", &store)
    );
    let servers: Vec<Server<'_>> = sites
        .iter()
        .map(|site| Server::start(site, Program::Sealane, &configuration))
        .collect();
    let ports = servers.iter().map(|server| server.port("tls")).collect();
    Nodes { servers, ports }
}

impl Nodes<'_> {
    /// Waits until every node takes the early data of every other's sessions.
    fn wait_until_shared(&self, client: &Client) {
        wait_for("early data on every node", || {
            let all = self.ports.iter().all(|from| {
                let session = client.session(*from);
                let accepts =
                    |to: &u16| client.converse(*to, Some(&session), &get("/try")).accepted;
                self.ports.iter().all(accepts)
            });
            all.then_some(())
        });
    }

    /// How many of so many new flights were accepted, each on another node than the
    /// one that gave the session. Every request is answered.
    fn fresh(&self, client: &Client, count: usize) -> usize {
        let mut session = client.session(self.ports[0]);
        let mut accepted = 0;
        for number in 1..=count {
            let port = self.ports[number % NODES];
            let early = client.converse(port, Some(&session), &get("/fresh"));
            assert!(early.offered && early.resumed, "{early:?}");
            let body = if early.accepted { "<GET 1>" } else { "<GET >" };
            assert!(early.response.ends_with(body), "{early:?}");
            accepted += usize::from(early.accepted);
            session = early.session.expect("the next session");
        }
        accepted
    }
}

#[test]
fn three_nodes_with_a_store_accept_a_flight_once() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    known_for_long(&redis);
    let nodes = start(&sites, &redis);
    let client = Client::new();
    nodes.wait_until_shared(&client);

    let count = scale(200, 2000);
    let accepted = nodes.fresh(&client, count);
    println!("{accepted} of {count} fresh attempts accepted");
    assert!(accepted * 100 >= count * 99, "{accepted} of {count}");

    let recording = record(&client, &nodes.ports, scale(10, 100));
    let sent = replay(&recording.flights, &nodes.ports, scale(100, 1000));
    println!("{sent} replays of {} flights", recording.flights.len());
    for server in nodes.servers {
        let log = server.error_log();
        assert!(server.stop("QUIT").success());
        assert!(!log.contains("panicked"), "{log}");
    }
    let sites: Vec<&Site> = sites.iter().collect();
    assert_each_once(&recording, &answered(&sites));
}

#[test]
fn without_the_store_early_data_is_refused_and_nothing_else() {
    let sites = sites();
    let mut redis = Redis::start(&sites[0], "redis", &[]);
    known_for_long(&redis);
    let nodes = start(&sites, &redis);
    let client = Client::new();
    nodes.wait_until_shared(&client);
    let before = record(&client, &nodes.ports, scale(6, 30));

    let watches: Vec<Watch> = nodes.servers.iter().map(Watch::start).collect();
    redis.kill();
    let verdicts = |allowed: &[&str]| {
        for site in &sites {
            let log = std::fs::read_to_string(site.path("logs/access.log")).expect("a log");
            for line in log.lines().filter(|line| line.contains("|/fresh]")) {
                assert!(
                    allowed.iter().any(|verdict| line.starts_with(verdict)),
                    "{line}"
                );
            }
        }
    };
    assert_eq!(nodes.fresh(&client, scale(30, 300)), 0, "the store is gone");
    verdicts(&["[-|store_error|r|200", "[-|store_timeout|r|200"]);
    for watch in &watches {
        watch.saw(&[("sealane_tls_early_data_total{verdict=\"store_error\"}", Up)]);
    }
    replay(&before.flights, &nodes.ports, scale(10, 100));

    // It is back, and empty: it cannot know what was accepted.
    redis.restart();
    for server in &nodes.servers {
        server.wait_for_log("is back");
    }
    replay(&before.flights, &nodes.ports, scale(10, 100));
    assert_eq!(nodes.fresh(&client, 30), 0, "the store has forgotten");

    // As if the flights of before had died of age meanwhile.
    redis.ask(&["DEL", "sealane:claims:began"]);
    for server in nodes.servers {
        assert!(server.stop("QUIT").success());
    }
    let all: Vec<&Site> = sites.iter().collect();
    assert_each_once(&before, &answered(&all));
    let nodes = start(&sites, &redis);
    nodes.wait_until_shared(&client);
    std::thread::sleep(Duration::from_millis(100));
    assert!(nodes.fresh(&client, 30) >= 29);
}

/// What the warning at the start is about, and what the tests above would show if
/// the nodes did not ask each other.
#[test]
fn without_a_store_each_node_knows_its_own_flights_only() {
    let sites = sites();
    let servers: Vec<Server<'_>> = sites
        .iter()
        .map(|site| {
            site.write("ticket.key", [7; 80]);
            serve(site, "ssl_session_ticket_key ticket.key;")
        })
        .collect();
    let warning = servers[0].wait_for_log("may accept the same early data again");
    assert!(warning.contains("[warn]"), "{warning}");
    let ports: Vec<u16> = servers.iter().map(|server| server.port("tls")).collect();
    let client = Client::new();
    let flight = client.flight(&client.session(ports[0]), &get("/flight"));
    for _ in 0..5 {
        send_everywhere(&flight, &ports);
    }
    for server in servers {
        assert!(server.stop("QUIT").success());
    }
    let all: Vec<&Site> = sites.iter().collect();
    assert_eq!(answered(&all).get("/flight"), Some(&NODES));
}
