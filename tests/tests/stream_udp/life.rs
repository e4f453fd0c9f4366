//! How sessions begin and end, what floods cost, and what large datagrams do.

use super::*;
use sealane_tests::metrics::samples;
use sealane_tests::upgrade::signal;
use std::collections::HashSet;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;

#[test]
fn datagrams_of_every_size_pass_in_both_directions() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let server = serve(
        &site,
        &format!("server {{ listen 127.0.0.2:%a% udp; proxy_pass {a}; }}"),
    );
    let (client, to) = (Client::new(), here(&server, "a"));
    // The largest that fits into a packet of IPv4.
    for length in [0, 1, 1472, 1473, 9000, 16_384, 16_385, 65_505] {
        let datagram: Vec<u8> = (0..length)
            .map(|at: usize| (at * 7 / 3) as u8 | 128)
            .collect();
        client.send_as_it_is(to, &datagram);
        let got = client.receive();
        let text = got.splitn(2, |byte| *byte == b' ').nth(1);
        assert!(
            text == Some(&datagram[..]),
            "{length} bytes: {} come back",
            got.len()
        );
    }
    client.send(to, b"long 65507");
    assert_eq!(client.receive().len(), 65_507);
}

#[test]
fn each_client_has_a_session_whatever_the_others_do() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let server = serve(
        &site,
        &format!("server {{ listen 127.0.0.2:%a% udp; proxy_pass {a}; }}"),
    );
    let clients: Vec<Client> = (0..200).map(|_| Client::new()).collect();
    for round in 1..4 {
        for (number, client) in clients.iter().enumerate() {
            client.send(here(&server, "a"), format!("{number}").as_bytes());
        }
        for (number, client) in clients.iter().enumerate() {
            let text = String::from_utf8(client.receive()).expect("a text");
            assert_eq!(text, format!("{round} {number}"));
        }
    }
}

#[test]
fn answers_come_from_the_address_that_was_asked() {
    let (site, origin, port) = (Site::new(), Origin::new(), port_everywhere());
    let a = origin.address;
    let server = serve(
        &site,
        &format!(
            "log_format s '$server_addr $bytes_sent'; access_log logs/stream.log s;
             proxy_responses 1;
             server {{ listen {port} udp; proxy_pass {a}; }}
             server {{ listen 127.0.0.7:{port} udp; proxy_requests 2; proxy_responses 0; proxy_pass {a}; }}
             server {{ listen 127.0.0.8:{port} udp; return special; }}"
        ),
    );
    for ip in [1, 5, 9] {
        let to = SocketAddr::from((Ipv4Addr::new(127, 0, 0, ip), port));
        let client = Client::at("127.0.0.1");
        client.send(to, b"hello");
        let (from, text) = client.receive_within(PATIENCE).expect("an answer");
        assert_eq!((from, &text[..]), (to, &b"1 hello"[..]));
    }
    Client::new().asks((Ipv4Addr::new(127, 0, 0, 8), port), "hello", "special");
    // The server of one address decides about its own sessions.
    let client = Client::new();
    let before = origin.wait_for(3).len();
    for _ in 0..4 {
        client.send((Ipv4Addr::new(127, 0, 0, 7), port), b"none");
    }
    let got = origin.wait_for(before + 4);
    let sources: HashSet<_> = got[before..].iter().map(|(from, _)| *from).collect();
    assert_eq!(sources.len(), 2, "two sessions of two datagrams: {got:?}");
    drop(server);
    let log = std::fs::read_to_string(site.path("logs/stream.log")).expect("a log");
    for line in ["127.0.0.1 7", "127.0.0.5 7", "127.0.0.8 7", "127.0.0.7 0"] {
        assert!(log.lines().any(|found| found == line), "{line} in {log}");
    }
}

#[test]
fn ipv6_wildcards_answer_from_the_address_that_was_asked() {
    if UdpSocket::bind("[::1]:0").is_err() {
        return sealane_needs::leave_out("this machine has no IPv6");
    }
    let (site, origin) = (Site::new(), Origin::at("::1"));
    let a = origin.address;
    let server = serve(
        &site,
        &format!("server {{ listen [::]:%a% udp; proxy_pass {a}; }}"),
    );
    let client = Client::at("::1");
    client.asks(
        ([0, 0, 0, 0, 0, 0, 0, 1], server.port("a")),
        "hello",
        "1 hello",
    );
}

/// A dead server is found out by what its machine says, or by its silence.
#[test]
fn servers_that_fail_are_left_out() {
    let (site, origin) = (Site::new(), Origin::new());
    let silent = UdpSocket::bind("127.0.0.3:0").expect("a free port");
    let (a, quiet) = (origin.address, silent.local_addr().expect("bound"));
    let server = serve(
        &site,
        &format!(
            "proxy_responses 1; proxy_timeout 300ms;
             upstream refused {{ server 127.0.0.3:%dead% fail_timeout=1m; server {a} backup; }}
             upstream silent {{ server {quiet} fail_timeout=1m; server {a} backup; }}
             server {{ listen 127.0.0.2:%refused% udp; proxy_pass refused; }}
             server {{ listen 127.0.0.2:%silent% udp; proxy_pass silent; }}"
        ),
    );
    for port in ["refused", "silent"] {
        let (client, to) = (Client::new(), here(&server, port));
        client.send(to, b"lost");
        server.wait_for_log(match port {
            "refused" => {
                "recv() failed (111: Connection refused) while proxying and reading from upstream"
            }
            _ => "upstream timed out (110: Connection timed out) while proxying connection",
        });
        wait_for("the other server", || {
            client.send(to, b"hello");
            client.receive_within(QUIET).map(|(_, text)| {
                assert!(text.ends_with(b" hello"), "{text:?}");
            })
        });
    }
    server.wait_for_log("upstream server temporarily disabled while proxying connection");
}

#[test]
fn a_server_that_cannot_be_reached_is_followed_by_the_next() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let server = serve(
        &site,
        &format!(
            "upstream u {{ server unix:%site%/none; server {a} backup; }}
             server {{ listen 127.0.0.2:%a% udp; proxy_pass u; }}
             server {{ listen 127.0.0.2:%b% udp; proxy_pass u; proxy_next_upstream off; }}"
        ),
    );
    server.expect_alert("failed (2: No such file or directory) while connecting to upstream");
    Client::new().asks(here(&server, "a"), "hello", "1 hello");
}

#[test]
fn a_unix_socket_gets_datagrams() {
    let site = Site::new();
    let socket = UnixDatagram::bind(site.path("socket")).expect("a free path");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(site.path("socket"), all).expect("it is ours");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let server = serve(
        &site,
        "server { listen 127.0.0.2:%a% udp; proxy_responses 0; proxy_pass unix:%site%/socket; }",
    );
    let client = Client::new();
    for text in ["first", "", "third"] {
        client.send_as_it_is(here(&server, "a"), text.as_bytes());
        let mut buffer = [0; 100];
        let length = socket.recv(&mut buffer).expect("it arrives");
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), text);
    }
}

#[test]
fn rates_are_kept() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let server = serve(
        &site,
        &format!(
            "server {{ listen 127.0.0.2:%a% udp; proxy_download_rate 5000; proxy_pass {a}; }}"
        ),
    );
    let begun = std::time::Instant::now();
    let client = Client::new();
    client.send(here(&server, "a"), b"many 15");
    for _ in 0..15 {
        assert_eq!(client.receive().len(), 1000);
    }
    // The first second's share comes at once; whatever a machine is busy with takes longer.
    assert!(begun.elapsed() > Duration::from_millis(1500));
}

/// Whoever sends from many addresses gets no more sessions than there may be, and takes nothing
/// from the sessions of others.
#[test]
fn floods_stay_within_limits() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let text = format!(
        "{} http {{ server {{ listen 127.0.0.1:%metrics%; location / {{ metrics; }} }} }}",
        configuration(
            1,
            &format!(
                "server {{ listen 127.0.0.2:%a% udp; udp_sessions 100; proxy_timeout 1h; proxy_pass {a}; }}
                 server {{ listen 127.0.0.2:%other% udp; proxy_pass {a}; }}
                 server {{ listen 127.0.0.1:%connections%; return ok; }}"
            )
        )
    );
    let server = site.serve_whole(&text);
    server.expect_alert("100 udp_sessions are not enough");
    let (known, to) = (Client::new(), here(&server, "a"));
    known.asks(to, "hello", "1 hello");
    let before = server.resident_kib();
    let flood: Vec<Client> = (0..400).map(|_| Client::new()).collect();
    for _ in 0..20 {
        for client in &flood {
            client.send(to, b"none");
        }
        // The kernel drops what its buffer has no room for.
        wait_for("an answer in the flood", || {
            known.send(to, b"still there?");
            let (_, text) = known.receive_within(QUIET)?;
            assert!(text.ends_with(b" still there?"), "{text:?}");
            Some(())
        });
    }
    server.wait_for_log("100 udp_sessions are not enough on 127.0.0.2:");
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 20_000, "{grown} KiB for a hundred sessions");
    let got = origin.got.lock().expect("no panic").clone();
    let sources: HashSet<_> = got.iter().map(|(from, _)| *from).collect();
    assert!(sources.len() <= 100, "{} sessions", sources.len());
    // Others have theirs.
    Client::new().asks(here(&server, "other"), "hello", "1 hello");
    let connected = TcpStream::connect(("127.0.0.1", server.port("connections")));
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut connected.expect("it listens"), &mut answer)
        .expect("an answer");
    assert_eq!(answer, "ok");
    let dropped = samples(server.port("metrics"));
    let dropped = sealane_tests::metrics::value(&dropped, "sealane_datagrams_dropped_total");
    assert!(dropped >= 300.0, "{dropped} datagrams dropped");
    let lines = server
        .error_log()
        .matches("udp_sessions are not enough")
        .count();
    assert_eq!(lines, 1, "it is said once a minute");
}

#[test]
fn sessions_take_slots_of_the_worker() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let text = configuration(
        1,
        &format!("server {{ listen 127.0.0.2:%a% udp; udp_sessions 1000; proxy_pass {a}; }}"),
    );
    let server =
        site.serve_whole(&text.replace("worker_connections 2000", "worker_connections 20"));
    // Of datagrams, and of the connection that looks whether the server has started.
    server.expect_alert("20 worker_connections are not enough");
    let clients: Vec<Client> = (0..40).map(|_| Client::new()).collect();
    for client in &clients {
        client.send(here(&server, "a"), b"hello");
    }
    server.wait_for_log("20 worker_connections are not enough; dropping datagrams");
    assert!(origin.wait_for(15).len() <= 20);
    clients[0].asks(here(&server, "a"), "hello", "1 hello");
}

/// What waits in the socket's buffer waits there until sessions have taken what came before.
#[test]
fn bursts_are_not_lost_while_the_socket_holds_them() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let server = site.serve_whole(&configuration(
        1,
        &format!(
            "log_format s '$server_port $bytes_received'; access_log logs/stream.log s;
             server {{ listen 127.0.0.2:%sessions% udp; udp_sessions 50; proxy_responses 0; proxy_pass {a}; }}
             server {{ listen 127.0.0.2:%packets% udp; udp_session_queue 40 1m; proxy_timeout 300ms; proxy_pass {a}; }}
             server {{ listen 127.0.0.2:%bytes% udp; udp_session_queue 1000 1k; proxy_timeout 300ms; proxy_pass {a}; }}"
        ),
    ));
    let worker = server.worker_pid();
    for name in ["sessions", "packets", "bytes"] {
        let client = Client::new();
        signal(worker, "STOP");
        for _ in 0..200 {
            client.send_as_it_is(here(&server, name), &[b'x'; 50]);
        }
        signal(worker, "CONT");
        let of_it = format!("{} ", server.port(name));
        wait_for(&format!("all of the burst in {name}"), || {
            let log = std::fs::read_to_string(site.path("logs/stream.log")).ok()?;
            let counts = log.lines().filter_map(|line| line.strip_prefix(&of_it));
            let received: u64 = counts.filter_map(|count| count.parse::<u64>().ok()).sum();
            (received == 200 * 50).then_some(())
        });
    }
}

/// There is one error for all that was sent shortly before: the session is over all the same.
#[test]
fn a_burst_to_a_dead_server_does_not_bind_its_client_to_it() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let server = site.serve_whole(&configuration(
        1,
        &format!(
            "upstream u {{ server 127.0.0.3:%dead% fail_timeout=1h; server {a}; }}
             server {{ listen 127.0.0.2:%a% udp; proxy_pass u; proxy_responses 1; proxy_timeout 1h; }}"
        ),
    ));
    let (client, to) = (Client::new(), here(&server, "a"));
    let worker = server.worker_pid();
    signal(worker, "STOP");
    for _ in 0..8 {
        client.send(to, b"lost");
    }
    signal(worker, "CONT");
    wait_for("the other server", || {
        client.send(to, b"hello");
        client.receive_within(QUIET).map(|(_, text)| {
            assert!(text.ends_with(b" hello"), "{text:?}");
        })
    });
}

#[test]
fn the_key_of_a_limit_may_be_a_variable_that_is_set() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let server = serve(
        &site,
        &format!(
            "limit_conn_zone $key zone=keyed:1m;
             server {{ listen 127.0.0.2:%a% udp; set $key $remote_addr; limit_conn keyed 1; proxy_pass {a}; }}"
        ),
    );
    let to = here(&server, "a");
    Client::new().asks(to, "hello", "1 hello");
    Client::new().send(to, b"hello");
    server.wait_for_log("limiting connections by zone \"keyed\"");
}
