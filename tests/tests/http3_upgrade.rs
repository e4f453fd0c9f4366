//! HTTP/3 connections outlive threads, worker processes and binaries, or their clients are told.

use sealane_tests::quic::{QuicClient, QuicRequest, QuicResponse, QuicRun, QuicScript};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{Daemon, signal};
use sealane_tests::{
    Certificate, CertificateKey, Program, Site, command, has_go, random::Random, scale,
    sha256_of_file, wait_for,
};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The size of the file that clients get.
const FILE_BYTES: usize = 1_500_000;

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.write("html/large.bin", Random::new(1).bytes(FILE_BYTES));
    site.write("html/a.txt", "alpha");
    site.write("certificates/one.key", Random::new(2).bytes(32));
    site.write("certificates/other.key", Random::new(3).bytes(32));
    site
}

/// A configuration with so many threads.
fn configuration(threads: usize, directives: &str) -> String {
    format!(
        "worker_processes {threads}; pid logs/pid; error_log logs/error.log info;
         events {{ worker_connections 1000; }}
         http {{
             access_log off; root html;
             ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
             server {{
                 listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% quic; server_name localhost;
                 keepalive_requests 100000; {directives}
                 location /slow/ {{ alias html/; limit_rate 500k; }}
             }}
         }}\n"
    )
}

fn script_to(port: u16, site: &Site) -> QuicScript {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    QuicScript::new(address, &site.authority())
}

fn script(site: &Site) -> QuicScript {
    script_to(site.port("tls"), site)
}

/// Checks that all responses are whole, and that the server has broken nothing off.
#[track_caller]
fn assert_whole(run: &QuicRun, digest: &str, what: &str) {
    for connection in &run.connections {
        let unasked = connection.responses.iter().filter(|one| is_unasked(one));
        let in_order_at_end = connection
            .close
            .as_ref()
            .is_none_or(|close| close.application);
        for response in &connection.responses {
            // quic-go sends the two one after the other: GOAWAY may come between them.
            if is_unasked(response) && in_order_at_end && unasked.clone().count() == 1 {
                continue;
            }
            let is_whole = response.complete && response.sha256 == digest;
            assert!(response.status == 200 && is_whole, "{what}: {connection:?}");
        }
        // H3_NO_ERROR is how a server ends a connection in order.
        let in_order = |close: &sealane_tests::quic::QuicClose| {
            close.application && matches!(close.code, Some(0 | 0x100))
        };
        let close = connection.close.as_ref();
        assert!(close.is_none_or(in_order), "{what}: {connection:?}");
    }
}

/// Whether the server has told the client, with GOAWAY, to ask on another connection before it had
/// asked at all.
fn is_turned_away(run: &QuicRun) -> bool {
    run.connections.iter().any(|connection| {
        let is_untouched = connection.responses.iter().all(is_unasked);
        is_untouched && connection.close.is_none()
    })
}

/// Whether the client has not sent a request, as it looks to the client.
fn is_unasked(response: &QuicResponse) -> bool {
    response.status == 0 && response.reset.is_none()
}

/// Runs `change` again and again while clients get long files, each on new connections.
fn under_load(site: &Site, rounds: usize, mut change: impl FnMut(usize)) {
    let digest = sha256_of_file(&site.path("html/large.bin"));
    let mut clients = vec![QuicClient::Aioquic, QuicClient::Quinn];
    if has_go(26) {
        clients.push(QuicClient::QuicGo);
    }
    let clients = clients.into_iter().map(QuicClient::built);
    let clients: Vec<_> = clients.collect();
    let (is_over, runs) = (AtomicBool::new(false), AtomicUsize::new(0));
    let turned_away = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (digest, is_over, runs) = (&*digest, &is_over, &runs);
        let turned_away = &turned_away;
        for client in &clients {
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let requests = (0..2).map(|_| QuicRequest::new("GET", "/slow/large.bin"));
                    let run = client.run(&script(site).requests(requests).reconnect().requests([
                        QuicRequest::new("GET", "/large.bin"),
                        QuicRequest::new("GET", "/slow/large.bin"),
                    ]));
                    if is_turned_away(&run) {
                        turned_away.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    assert_whole(&run, digest, &format!("{client:?}"));
                    runs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..rounds {
            thread::sleep(Duration::from_millis(700));
            change(round);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let (runs, turned_away) = (runs.into_inner(), turned_away.into_inner());
    assert!(runs >= clients.len());
    // It takes a handshake that is overtaken by the end of its process.
    assert!(turned_away <= 1 + runs / 10, "{turned_away} of {runs}");
}

#[test]
fn no_request_is_lost_by_reloads() {
    let site = site();
    let server = site.serve_whole(&configuration(2, ""));
    under_load(&site, scale(10, 200), |round| {
        let directives = format!("add_header X-Round {round};");
        let outcome = reload(&site, &server, &configuration(2, &directives));
        assert_eq!(outcome, Reload::Applied);
    });
}

#[test]
fn no_request_is_lost_when_another_process_takes_over() {
    let site = site();
    let server = site.serve_whole(&configuration(2, ""));
    under_load(&site, scale(6, 60), |round| {
        let threads = [4, 1, 3, 2][round % 4];
        let outcome = reload(&site, &server, &configuration(threads, ""));
        assert_eq!(outcome, Reload::Applied);
    });
}

#[test]
fn no_request_is_lost_by_upgrades() {
    let site = site();
    let daemon = Daemon::start(&site, Program::Sealane, &configuration(2, ""));
    under_load(&site, scale(2, 20), |_| daemon.upgrade());
}

#[test]
fn an_upgrade_that_is_taken_back_loses_no_request() {
    let site = site();
    let daemon = Daemon::start(&site, Program::Sealane, &configuration(2, ""));
    under_load(&site, scale(1, 10), |_| {
        let new = daemon.begin_upgrade();
        thread::sleep(Duration::from_secs(1));
        signal(new, "QUIT");
        daemon.wait_for_end(new);
    });
}

/// Further addresses with the same port.
const MORE_ADDRESSES: &str =
    "listen 127.0.0.2:%tls% quic; listen 127.0.0.3:%tls% quic; listen [::1]:%tls% quic;";

fn address(site: &Site, ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), site.port("tls"))
}

/// Has clients at these addresses ask once before `change` and once behind it, each on one
/// connection. What they say of connections that did not last.
fn lost_by(site: &Site, ips: &[&str], change: impl FnOnce()) -> Vec<String> {
    let log = || std::fs::read_to_string(site.path("logs/access.log")).unwrap_or_default();
    let asked = |log: String| log.matches("/a.txt").count();
    let before = asked(log());
    let client = QuicClient::Quinn.built();
    let expected = sealane_tests::sha256(b"alpha");
    thread::scope(|scope| {
        let clients: Vec<_> = ips
            .iter()
            .map(|ip| {
                let script = QuicScript::new(address(site, ip), &site.authority());
                let script = script.get("/a.txt").wait(5000).get("/a.txt");
                scope.spawn(move || client.run(&script))
            })
            .collect();
        wait_for("the first requests", || {
            (asked(log()) == before + ips.len()).then_some(())
        });
        change();
        let mut lost = Vec::new();
        for (ip, client) in ips.iter().zip(clients) {
            let connection = client
                .join()
                .expect("the client ends")
                .connections
                .remove(0);
            let is_good = |one: &QuicResponse| one.sha256 == expected;
            if !connection.responses.iter().all(is_good) {
                lost.push(format!("{ip}: {connection:?}"));
            }
        }
        lost
    })
}

/// Each socket has its own queue of packets from others, and all of a thread know its connections.
#[test]
fn addresses_with_the_same_port_do_not_disturb_each_other() {
    let site = site();
    let log = "access_log logs/access.log;";
    let both = configuration(2, &format!("{log} {MORE_ADDRESSES}"));
    let daemon = Daemon::start(&site, Program::Sealane, &both);
    let ips = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].repeat(3);
    let upgraded = |ips: &[&str]| {
        let mut new = 0;
        let lost = lost_by(&site, ips, || new = daemon.begin_upgrade());
        assert_eq!(lost, [""; 0]);
        new
    };
    let take_back = |new| {
        signal(new, "QUIT");
        daemon.wait_for_end(new);
        daemon.pid()
    };
    // An upgrade that is taken back leaves none of them deaf.
    take_back(upgraded(&ips));
    assert_eq!(lost_by(&site, &ips, || ()), [""; 0]);
    // One that goes takes nothing along of another.
    daemon.configure(&configuration(2, log));
    signal(daemon.pid(), "HUP");
    daemon.wait_for_log("reconfiguring");
    thread::sleep(Duration::from_secs(1));
    take_back(upgraded(&["127.0.0.1"; 4]));
}

/// A connection whose worker is killed while it is idle, and which then asks again.
#[track_caller]
fn ends_by_reset(directives: &str) {
    let site = site();
    let directives = format!("access_log logs/access.log; {directives}");
    let server = site.serve_whole(&configuration(2, &directives));
    server.expect_alert("exited on signal 9");
    let script = script(&site).get("/a.txt").wait(4000).get("/a.txt");
    let run = thread::scope(|scope| {
        let client = QuicClient::Quinn.built();
        let client = scope.spawn(move || client.run(&script));
        wait_for("the first request", || {
            let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
            log.contains("/a.txt").then_some(())
        });
        thread::sleep(Duration::from_millis(500));
        server.kill_worker();
        client.join().expect("the client ends")
    });
    let connection = &run.connections[0];
    let close = connection.close.as_ref().expect("the connection is gone");
    assert!(close.reason.contains("reset"), "{close:?}");
    assert!(connection.milliseconds < 20_000, "it is not a time-out");
}

/// RFC 9000 section 10.3.
#[test]
fn a_killed_worker_is_followed_by_stateless_resets() {
    ends_by_reset("");
    ends_by_reset("quic_host_key certificates/one.key;");
}

/// Takes the filters from the sockets of a server, so that the kernel chooses by addresses.
fn stop_steering(master: u32) {
    let program = "
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
process = os.pidfd_open(pid)
done = 0
for name in os.listdir(f'/proc/{pid}/fd'):
    if not os.readlink(f'/proc/{pid}/fd/{name}').startswith('socket:'):
        continue
    fd = libc.syscall(438, process, int(name), 0)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    one = socket.socket(fileno=fd)
    if one.type == socket.SOCK_DGRAM and one.family == socket.AF_INET:
        try:
            one.setsockopt(socket.SOL_SOCKET, 68, 0)
            done += 1
        except OSError:
            pass
print(done)
";
    let outcome = command("python3", &["-c", program, &master.to_string()], b"").success();
    assert_ne!(outcome.text().trim(), "0", "there was a filter");
}

/// Connections that go on from other addresses, where the kernel would choose other threads
/// (RFC 9000 section 9).
fn migrate(site: &Site, client: QuicClient) {
    let digest = sha256_of_file(&site.path("html/large.bin"));
    for round in 0..scale(3, 30) {
        let mut script = script(site).get("/large.bin");
        for host in 2..6 {
            script = script.rebind(&format!("127.0.0.{host}")).get("/large.bin");
        }
        let run = client.run(&script);
        assert_whole(&run, &digest, &format!("{client:?}, {round}"));
        assert_eq!(run.connections[0].responses.len(), 5);
    }
}

#[test]
fn clients_that_move_reach_their_threads() {
    let site = site();
    let server = site.serve_whole(&configuration(4, ""));
    migrate(&site, QuicClient::Aioquic);
    migrate(&site, QuicClient::Quinn);
    stop_steering(server.pid());
    migrate(&site, QuicClient::Aioquic);
    migrate(&site, QuicClient::Quinn);
}

/// Sends packets to `first` until that has answered with a Retry packet, then to `second`.
fn relay(first: u16, second: u16, is_over: &AtomicBool, socket: &UdpSocket) {
    let mut buffer = [0; 2048];
    let (mut client, mut server) = (None, first);
    let patience = Some(Duration::from_millis(50));
    socket.set_read_timeout(patience).expect("a time");
    while !is_over.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let packet = &buffer[..length];
        if from.port() == first || from.port() == second {
            // A long header of type 3 (RFC 9000 section 17.2.5).
            if from.port() == first && packet[0] & 0xf0 == 0xf0 {
                server = second;
            }
            let to: SocketAddr = client.expect("a client has asked");
            socket.send_to(packet, to).expect("loopback");
        } else {
            client = Some(from);
            let to = (Ipv4Addr::LOCALHOST, server);
            socket.send_to(packet, to).expect("loopback");
        }
    }
}

/// The status of a request with a token of one node at the other one. Who does not know the token
/// takes the client for one that has none, and the client misses the ids of the Retry packet in the
/// transport parameters (RFC 9000 section 7.3).
fn status_at_other_node(keys: [&str; 2]) -> u16 {
    status_with(keys.map(|key| format!("quic_host_key certificates/{key}.key;")))
}

/// The same with what each of them is configured with.
fn status_with(keys: [String; 2]) -> u16 {
    let sites = [site(), site()];
    let server = |at: usize| {
        let (retry, key) = (["on", "off"][at], &keys[at]);
        let directives = format!("quic_retry {retry}; {key} ");
        let node = format!("quic_node_id {at}; server {{");
        let text = configuration(2, &directives).replacen("server {", &node, 1);
        sites[at].serve_whole(&text)
    };
    let _servers = [server(0), server(1)];
    let [first, second] = [sites[0].port("tls"), sites[1].port("tls")];
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = socket.local_addr().expect("bound").port();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| relay(first, second, &is_over, &socket));
        let run = QuicClient::Quinn.run(&script_to(port, &sites[1]).get("/a.txt"));
        is_over.store(true, Ordering::Relaxed);
        let responses = &run.connections[0].responses;
        responses.first().map_or(0, |response| response.status)
    })
}

/// RFC 9000 section 8.1.2: a client follows one Retry packet alone, so the second node has to know
/// the token.
#[test]
fn nodes_with_the_same_key_know_each_others_tokens() {
    assert_eq!(status_at_other_node(["one", "one"]), 200);
    assert_eq!(status_at_other_node(["one", "other"]), 0);
}

/// The store itself is not asked: it may be down.
#[test]
fn nodes_with_the_same_session_store_know_each_others_tokens() {
    let store = |key| {
        format!("ssl_session_store redis://127.0.0.1:1 key=certificates/{key}.key timeout=100ms;")
    };
    assert_eq!(status_with([store("one"), store("one")]), 200);
    assert_eq!(status_with([store("one"), store("other")]), 0);
}

#[test]
fn a_host_key_has_to_be_there() {
    let site = site();
    site.write("certificates/empty.key", "");
    let server = site.serve_whole(&configuration(1, ""));
    for (key, says) in [
        ("empty", "zero key size"),
        ("none", "failed (2: No such file or directory)"),
    ] {
        let directives = format!("quic_host_key certificates/{key}.key;");
        server.expect_alert(says);
        let outcome = reload(&site, &server, &configuration(1, &directives));
        assert_eq!(outcome, Reload::Refused);
        assert!(server.error_log().contains(says), "{}", server.error_log());
    }
}
