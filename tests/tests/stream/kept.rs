//! Sessions over reload and upgrade.

use super::*;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{Daemon, signal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Short sessions, one after the other, each of which must get its answer.
struct Sessions {
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<usize>>,
}

impl Sessions {
    fn begin(port: u16) -> Sessions {
        let over = Arc::new(AtomicBool::new(false));
        let client = |number: usize| {
            let over = over.clone();
            thread::spawn(move || {
                let mut served = 0;
                while !over.load(Ordering::Relaxed) {
                    says_back(&mut connect(port), &format!("client {number}: {served}"));
                    served += 1;
                }
                served
            })
        };
        let clients = (0..4).map(client).collect();
        Sessions { over, clients }
    }

    /// Ends them; every client has had some.
    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for client in self.clients {
            assert!(client.join().expect("no session was lost") > 0);
        }
    }
}

#[test]
fn a_reload_keeps_sessions_whatever_becomes_of_their_server() {
    let (site, first, second) = (
        Site::new(),
        Origin::echo(),
        Origin::doing(|mut socket| {
            let _ = socket.write_all(b"second");
        }),
    );
    let passing = |listen: &str, origin: &Origin| {
        configuration(&format!(
            "server {{ listen 127.0.0.1:%{listen}%; proxy_pass 127.0.0.1:{}; }}",
            origin.port
        ))
    };
    let server = site.serve_whole(&passing("a", &first));
    let worker = server.worker_pid();
    let mut kept = connect(server.port("a"));
    says_back(&mut kept, "before");
    let others = Sessions::begin(server.port("a"));
    for round in 0..sealane_tests::scale(5, 200) {
        assert_eq!(
            reload(&site, &server, &passing("a", &first)),
            Reload::Applied
        );
        says_back(&mut kept, &format!("round {round}"));
    }
    others.end();
    assert_eq!(
        reload(&site, &server, &passing("a", &second)),
        Reload::Applied
    );
    says_back(&mut kept, "still the first");
    assert_eq!(rest(&mut connect(server.port("a"))), "second");
    // The listener goes, and the session stays.
    assert_eq!(
        reload(&site, &server, &passing("b", &second)),
        Reload::Applied
    );
    says_back(&mut kept, "without a listener");
    assert_eq!(rest(&mut connect(server.port("b"))), "second");
    assert_eq!(server.worker_pid(), worker, "all in one process");
}

#[test]
fn what_lasts_longer_than_it_may_ends() {
    let (site, origin) = (Site::new(), Origin::echo());
    let text = configuration(&format!(
        "log_format s '$status $bytes_received'; access_log logs/stream.log s;
         server {{ listen 127.0.0.1:%a%; proxy_pass 127.0.0.1:{}; }}",
        origin.port
    ));
    let text = format!("worker_shutdown_timeout 300ms; {text}");
    let server = site.serve_whole(&text);
    let mut kept = connect(server.port("a"));
    says_back(&mut kept, "hello");
    assert_eq!(reload(&site, &server, &text), Reload::Applied);
    assert_eq!(rest(&mut kept), "");
    wait_for_lines(&site, &["200 5"]);
    let mut kept = connect(server.port("a"));
    says_back(&mut kept, "hello again");
    let status = server.stop("QUIT");
    assert!(status.success());
    assert_eq!(rest(&mut kept), "");
}

#[test]
fn an_upgrade_leaves_sessions_to_the_old_process_until_they_end() {
    let (site, origin) = (Site::new(), Origin::echo());
    let text = configuration(&format!(
        "server {{ listen 127.0.0.1:%a%; proxy_pass 127.0.0.1:{}; }}",
        origin.port
    ));
    let daemon = Daemon::start(&site, Program::Sealane, &text);
    let port = site.port("a");
    let mut kept = Vec::new();
    let others = Sessions::begin(port);
    for round in 0..sealane_tests::scale(2, 20) {
        let mut socket = connect(port);
        says_back(&mut socket, &format!("before {round}"));
        kept.push(socket);
        let old = daemon.pid();
        daemon.begin_upgrade();
        signal(old, "QUIT");
        for socket in &mut kept {
            says_back(socket, "after");
        }
        says_back(&mut connect(port), "new");
        // The old process ends with its session.
        kept.clear();
        daemon.wait_for_end(old);
    }
    others.end();
}
