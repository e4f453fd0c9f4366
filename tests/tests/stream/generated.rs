//! Servers and conversations that are made up, with nginx and with Sealane: what both ends get, how
//! it ends for them, and what the access logs say.
//!
//! Everything follows from a seed. A failure prints the one of its round; `SEALANE_TEST_SEED=N`
//! repeats that round alone. In a conversation each step waits for what the step before has caused,
//! so nothing depends on who is fast.

use super::*;
use sealane_tests::random::Random;
use sealane_tests::{Certificate, CertificateKey, nginx_has_stream, scale};
use std::ops::Range;
use std::time::Instant;

#[path = "generated/conversation.rs"]
mod conversation;
#[path = "generated/servers.rs"]
mod servers;

use conversation::Conversation;
use servers::Layer4;

/// The first round of every run.
const SEED: u64 = 0x57ea;

/// Servers of a round, each with an origin, and conversations with each.
const SERVERS: usize = 16;
const CONVERSATIONS: usize = 6;

/// How many failures are shown.
const SHOWN: usize = 5;

#[test]
fn what_nobody_thought_of_is_passed_as_nginx_passes_it() {
    if !nginx_has_stream() {
        return sealane_needs::leave_out("this nginx has no \"stream\" to compare with");
    }
    let (first, rounds) = match std::env::var("SEALANE_TEST_SEED") {
        Ok(seed) => (seed.parse().expect("SEALANE_TEST_SEED is a number"), 1),
        Err(_) => (SEED, scale(2, 40)),
    };
    let mut failures = Vec::new();
    let mut reached = 0;
    for seed in (first..).take(rounds) {
        reached += round(seed, &mut failures);
    }
    let shown: Vec<String> = failures.iter().take(SHOWN).cloned().collect();
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        shown.join("\n")
    );
    assert!(
        rounds == 1 || reached > rounds * SERVERS * CONVERSATIONS / 3,
        "{reached} sessions had a server"
    );
}

/// Compares the servers and conversations of a seed. Returns how many had an origin.
fn round(seed: u64, failures: &mut Vec<String>) -> usize {
    let mut random = Random::new(seed);
    let dead = Dead::new();
    let cases: Vec<Case> = (0..SERVERS)
        .map(|number| Case::new(&mut random, number, &dead))
        .collect();
    let ours = run(Program::Sealane, &cases);
    let theirs = run(Program::Nginx, &cases);
    for (case, (ours, theirs)) in cases.iter().zip(ours.iter().zip(&theirs)) {
        for (talk, (ours, theirs)) in case.talks.iter().zip(ours.iter().zip(theirs)) {
            if ours != theirs {
                failures.push(format!(
                    "SEALANE_TEST_SEED={seed}\n{}\n{talk:?}\n--- ours\n{ours}--- nginx\n{theirs}",
                    case.server.text
                ));
                // What follows may differ because of it.
                break;
            }
        }
    }
    let talks = cases.iter().filter(|case| case.server.is_reached);
    talks.map(|case| case.talks.len()).sum()
}

/// A port at which nobody listens as long as this lives.
struct Dead {
    port: u16,
    _socket: socket2::Socket,
}

impl Dead {
    fn new() -> Dead {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.expect("a descriptor is left");
        let address = std::net::SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        socket.bind(&address.into()).expect("a free port");
        let bound = socket.local_addr().expect("it is bound");
        let port = bound.as_socket().expect("an address of IPv4").port();
        Dead {
            port,
            _socket: socket,
        }
    }
}

/// A server with its origin, and what is said to it.
struct Case {
    server: Layer4,
    origin: TcpListener,
    talks: Vec<Conversation>,
}

impl Case {
    fn new(random: &mut Random, number: usize, dead: &Dead) -> Case {
        let origin = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
        let port = origin.local_addr().expect("it is bound").port();
        let server = Layer4::new(random, number, port, dead.port);
        let talks = (0..CONVERSATIONS).map(|_| Conversation::new(random, &server));
        let talks = talks.collect();
        Case {
            server,
            origin,
            talks,
        }
    }
}

/// What happened at each server, conversation by conversation.
fn run(program: Program, cases: &[Case]) -> Vec<Vec<String>> {
    let site = Site::new();
    site.certificate(&Certificate::localhost("a", CertificateKey::P256));
    let mut text = String::from(servers::COMMON);
    for case in cases {
        text.push_str(&case.server.text);
    }
    // In a file of its own: nobody but us connects to them. They listen before the last one does.
    site.write("servers.conf", site.fill_in(&text));
    let whole = "worker_processes 1; error_log logs/error.log info; pid logs/pid;
         events { worker_connections 2000; }
         stream { include servers.conf; server { listen 127.0.0.1:%ready%; return ready; } }";
    let server = Server::start(&site, program, whole);
    let seen = thread::scope(|scope| {
        let running: Vec<_> = cases
            .iter()
            .map(|case| {
                let site = &site;
                scope.spawn(move || {
                    let mut all = Vec::new();
                    // Lines so far in the logs of the server, and behind it.
                    let mut lines = (0, 0);
                    for talk in &case.talks {
                        let mut seen = conversation::hold(site, case, talk);
                        let (at, behind) = talk.sessions(&case.server);
                        for log in &case.server.logs {
                            let lines = match log.starts_with("inner") {
                                true => lines.1..lines.1 + behind,
                                false => lines.0..lines.0 + at,
                            };
                            seen.push_str(&log_lines(site, &case.server, log, lines));
                        }
                        lines = (lines.0 + at, lines.1 + behind);
                        all.push(seen);
                    }
                    all
                })
            })
            .collect();
        let seen = running.into_iter().map(|thread| thread.join());
        seen.map(|seen| seen.expect("no panic")).collect()
    });
    drop(server);
    seen
}

/// These lines of a log, with the names that ports have for us.
fn log_lines(site: &Site, server: &Layer4, log: &str, lines: Range<usize>) -> String {
    let file = site.path(format!("logs/{log}.log"));
    let text = patiently(|| {
        let text = std::fs::read_to_string(&file).ok()?;
        (text.matches('\n').count() >= lines.end).then_some(text)
    });
    let Some(text) = text else {
        return format!("{log}: lines {lines:?} are missing\n");
    };
    let lines = text.lines().skip(lines.start).take(lines.len());
    let lines = lines.map(|line| {
        let mut line = as_nginx::without_chance(line);
        let fields: Vec<&str> = line.split('|').collect();
        if let ["502", sent, received, protocol, from, to, _, rest @ ..] = &fields[..] {
            // nginx counts a PROXY header even if the handshake after it fails.
            let known = [&["502", sent, received, protocol, from, to, "any"], rest];
            line = known.concat().join("|");
        }
        for name in &server.ports {
            line = line.replace(&format!(":{}", site.port(name)), &format!(":{name}"));
        }
        format!("{log}: {line}\n")
    });
    lines.collect()
}

/// What this gives, if it ever does: [`wait_for`] for what shall be compared as well.
fn patiently<T>(mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(value) = probe() {
            return Some(value);
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}
