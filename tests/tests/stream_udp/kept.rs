//! Sessions over reload and upgrade, and over threads.

use super::*;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{Daemon, signal};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

fn passing(listen: &str, origin: &Origin) -> String {
    let a = origin.address;
    configuration(
        2,
        &format!("server {{ listen 127.0.0.2:%{listen}% udp; proxy_pass {a}; }}"),
    )
}

#[test]
fn a_reload_keeps_sessions_whatever_becomes_of_their_server() {
    let (site, first, second) = (Site::new(), Origin::new(), Origin::new());
    let server = site.serve_whole(&passing("a", &first));
    let worker = server.worker_pid();
    let (kept, a) = (Client::new(), here(&server, "a"));
    kept.asks(a, "before", "1 before");
    let rounds = sealane_tests::scale(20, 200);
    for round in 0..rounds {
        let applied = reload(&site, &server, &passing("a", &first));
        assert_eq!(applied, Reload::Applied);
        kept.asks(a, "after", &format!("{} after", round + 2));
    }
    assert_eq!(
        reload(&site, &server, &passing("a", &second)),
        Reload::Applied
    );
    kept.asks(a, "the first", &format!("{} the first", rounds + 2));
    let new = Client::new();
    new.asks(a, "new", "1 new");
    assert_eq!(second.wait_for(1).len(), 1);
    // The listener goes, and its sessions stay.
    assert_eq!(
        reload(&site, &server, &passing("b", &second)),
        Reload::Applied
    );
    kept.asks(a, "without", &format!("{} without", rounds + 3));
    new.asks(a, "without", "2 without");
    let nobody = Client::new();
    nobody.send(a, b"too late");
    assert_eq!(nobody.receive_within(QUIET), None);
    Client::new().asks(here(&server, "b"), "new", "1 new");
    // It comes back, with the same socket.
    assert_eq!(
        reload(&site, &server, &passing("a", &second)),
        Reload::Applied
    );
    nobody.asks(a, "again", "1 again");
    kept.asks(a, "again", &format!("{} again", rounds + 4));
    assert_eq!(server.worker_pid(), worker, "all in one process");
}

#[test]
fn an_address_is_free_once_the_last_session_has_ended() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let with = configuration(
        2,
        &format!("server {{ listen 127.0.0.2:%a% udp; proxy_timeout 1500ms; proxy_pass {a}; }}"),
    );
    let server = site.serve_whole(&with);
    let (client, to) = (Client::new(), here(&server, "a"));
    client.asks(to, "hello", "1 hello");
    assert_eq!(
        reload(&site, &server, &configuration(2, "")),
        Reload::Applied
    );
    assert!(UdpSocket::bind(to).is_err(), "the session is still there");
    let other = wait_for("the address to be free", || UdpSocket::bind(to).ok());
    drop(other);
    assert_eq!(reload(&site, &server, &with), Reload::Applied);
    client.asks(to, "hello", "1 hello");
}

#[test]
fn what_lasts_longer_than_it_may_ends() {
    let (site, origin) = (Site::new(), Origin::new());
    let text = format!("worker_shutdown_timeout 300ms; {}", passing("a", &origin));
    let server = site.serve_whole(&text);
    let (client, to) = (Client::new(), here(&server, "a"));
    client.asks(to, "hello", "1 hello");
    assert_eq!(reload(&site, &server, &text), Reload::Applied);
    server.wait_for_log("shutdown timeout while proxying connection, udp client: 127.0.0.1");
    client.asks(to, "hello", "1 hello");
    let status = server.stop("QUIT");
    assert!(status.success());
}

/// Clients that ask all the time, while the configuration is loaded again and again.
#[test]
fn a_reload_under_load_loses_nothing() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let text = configuration(
        2,
        &format!(
            "server {{ listen 127.0.0.2:%a% udp; proxy_pass {a}; }}
             server {{ listen 127.0.0.2:%group% udp reuseport; proxy_pass {a}; }}"
        ),
    );
    let server = site.serve_whole(&text);
    let to = [here(&server, "a"), here(&server, "group")];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|number| {
                let (to, is_over) = (to[number % 2], &is_over);
                scope.spawn(move || {
                    let client = Client::new();
                    let mut count = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        count += 1;
                        client.asks(to, "x", &format!("{count} x"));
                    }
                    count
                })
            })
            .collect();
        for _ in 0..sealane_tests::scale(20, 200) {
            assert_eq!(reload(&site, &server, &text), Reload::Applied);
        }
        is_over.store(true, Ordering::Relaxed);
        for asking in asking {
            assert!(asking.join().expect("every answer came, in order") > 0);
        }
    });
}

#[test]
fn a_group_of_sockets_serves_from_every_thread() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let group = |threads| {
        let stream = format!(
            "log_format s $pid-$connection; access_log logs/stream.log s;
             server {{ listen 127.0.0.2:%a% udp reuseport; proxy_pass {a}; }}"
        );
        configuration(threads, &stream)
    };
    let server = site.serve_whole(&group(3));
    let to = here(&server, "a");
    let clients: Vec<Client> = (0..50).map(|_| Client::new()).collect();
    for round in 1..4 {
        for client in &clients {
            client.asks(to, "x", &format!("{round} x"));
        }
        // The same thread goes on with each.
        assert_eq!(reload(&site, &server, &group(3)), Reload::Applied);
    }
    // More threads are another process, to which new clients come.
    assert_eq!(reload(&site, &server, &group(4)), Reload::Applied);
    for client in (0..50).map(|_| Client::new()) {
        client.asks(to, "x", "1 x");
    }
    assert_eq!(reload(&site, &server, &group(2)), Reload::Applied);
    for client in (0..50).map(|_| Client::new()) {
        client.asks(to, "x", "1 x");
    }
}

/// What was asked in the old process is answered by it, and nothing new comes there.
#[test]
fn another_process_takes_over_without_a_loss() {
    let (site, origin) = (Site::new(), Origin::new());
    // Answers when it is told to.
    let slow = UdpSocket::bind("127.0.0.3:0").expect("a free port");
    slow.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let (a, b) = (origin.address, slow.local_addr().expect("bound"));
    let text = |threads| {
        configuration(
            threads,
            &format!(
                "proxy_responses 1;
                 server {{ listen 127.0.0.2:%a% udp; proxy_pass {a}; }}
                 server {{ listen 127.0.0.2:%slow% udp; proxy_pass {b}; }}"
            ),
        )
    };
    let server = site.serve_whole(&text(1));
    let old = server.worker_pid();
    let patient = Client::new();
    patient.send(here(&server, "slow"), b"question");
    let mut buffer = [0; 100];
    let (_, asked_by) = slow.recv_from(&mut buffer).expect("it arrives");
    assert_eq!(reload(&site, &server, &text(2)), Reload::Applied);
    for _ in 0..20 {
        Client::new().asks(here(&server, "a"), "new", "1 new");
    }
    assert!(sealane_tests::upgrade::runs(old), "it waits for an answer");
    slow.send_to(b"answer", asked_by).expect("it is there");
    let (from, text) = patient.receive_within(PATIENCE).expect("the answer");
    assert_eq!((from, &text[..]), (here(&server, "slow"), &b"answer"[..]));
    wait_for("the end of the old process", || {
        (!sealane_tests::upgrade::runs(old)).then_some(())
    });
}

#[test]
fn an_upgrade_hands_the_sockets_over() {
    let (site, origin) = (Site::new(), Origin::new());
    let a = origin.address;
    let text = configuration(
        2,
        &format!(
            "proxy_responses 1;
             server {{ listen 127.0.0.2:%a% udp; proxy_pass {a}; }}
             server {{ listen 127.0.0.2:%group% udp reuseport; proxy_pass {a}; }}"
        ),
    );
    let daemon = Daemon::start(&site, Program::Sealane, &text);
    let to = [site.port("a"), site.port("group")].map(|port| SocketAddr::from((HERE, port)));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                count += 1;
                Client::new().asks(to[count % 2], "x", "1 x");
            }
            count
        });
        for _ in 0..sealane_tests::scale(2, 20) {
            let old = daemon.pid();
            daemon.begin_upgrade();
            signal(old, "QUIT");
            daemon.wait_for_end(old);
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(asking.join().expect("every answer came") > 0);
    });
    let got = origin.got.lock().expect("no panic").len();
    let sources = origin.got.lock().expect("no panic").clone();
    let sources: HashSet<_> = sources.iter().map(|(_, text)| text.clone()).collect();
    assert!(got > 0 && sources.len() == 1);
}
