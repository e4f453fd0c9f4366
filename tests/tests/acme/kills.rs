//! Node, store and ACME server are killed at every step of an order: whatever dies, the account
//! stays, every handshake succeeds, and there is at most one more order than without.

use super::{certificate, get_verified, issuer};
use sealane_tests::{
    Pebble, PebbleSettings, Program, Redis, Server, Site, command, has_go, scale, wait_for,
};
use std::time::{Duration, Instant};

/// Requests of one order, from the directory to the certificate.
const STEPS: usize = 16;

/// How long to wait for a step that does not come, because the order has fewer.
const STEP_PATIENCE: Duration = Duration::from_secs(20);

fn requests(pebble: &Pebble<'_>) -> usize {
    pebble.log().matches("calling handler()").count()
}

/// Panics if a server sends a certificate that is not its key's.
fn shake_hands(server: &Server<'_>) {
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let arguments = ["s_client", "-connect", &address, "-servername", "kill.test"];
    let outcome = command("openssl", &arguments, b"");
    let text = format!("{}{}", outcome.text(), outcome.stderr);
    // Between two worker processes nobody may answer.
    let is_connected = text.contains("BEGIN CERTIFICATE");
    assert!(!is_connected || outcome.status == 0, "{text}");
    assert!(!text.contains("bad signature"), "{text}");
}

/// What is killed.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Node,
    Store,
    AcmeServer,
}

#[test]
fn a_node_is_killed_at_every_step() {
    if !has_go(24) {
        return;
    }
    kill(Victim::Node);
}

#[test]
fn the_store_is_killed_at_every_step() {
    if !has_go(24) {
        return;
    }
    kill(Victim::Store);
}

#[test]
fn the_acme_server_is_killed_at_every_step() {
    if !has_go(24) {
        return;
    }
    kill(Victim::AcmeServer);
}

fn kill(victim: Victim) {
    let site = Site::new();
    let settings = PebbleSettings::verifying_at(site.port("http"), site.port("tls"));
    let mut pebble = Pebble::start(&site, settings);
    let mut redis = Redis::start(&site, "redis", &[]);
    site.write("seal.key", "0123456789abcdef0123456789abcdef");
    let store = match victim {
        Victim::Store => "ssl_session_store redis://127.0.0.1:%redis% key=seal.key timeout=1s;",
        // Nobody but this node goes on, and it need not wait for the end of its own lease.
        Victim::Node | Victim::AcmeServer => "",
    };
    let text = format!(
        "worker_processes 1; pid logs/pid; error_log logs/error.log info; events {{ }}
         http {{ access_log off; {} {store}
         server {{ listen 127.0.0.1:%tls% ssl; acme_certificate pebble kill.test;
             ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
             return 200 \"secure\\n\"; }}
         server {{ listen 127.0.0.1:%http%; return 404; }} }}",
        issuer("")
    );
    let mut account = None;
    let rounds = scale(3, 68);
    for round in 0..rounds {
        // The short form still meets an early, a middle and a late step.
        let stride = if rounds < STEPS { 5 } else { 1 };
        let step = 1 + (round * stride) % STEPS;
        forget_certificate(&site);
        redis.ask(&["FLUSHALL"]);
        let (orders, before) = (pebble.orders(), requests(&pebble));
        let server = Server::start(&site, Program::Sealane, &text);
        let began = Instant::now();
        while requests(&pebble) < before + step && began.elapsed() < STEP_PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        match victim {
            Victim::Node => {
                server.expect_alert("exited on signal 9");
                server.kill_worker();
            }
            Victim::Store => {
                redis.kill();
                shake_hands(&server);
                redis.restart();
            }
            Victim::AcmeServer => {
                pebble.kill();
                shake_hands(&server);
                pebble.restart();
            }
        }
        wait_for(
            &format!("a certificate, {victim:?} was killed at step {step}"),
            || {
                shake_hands(&server);
                let shown = certificate(server.port("tls"), "kill.test");
                shown.contains("Pebble Intermediate").then_some(())
            },
        );
        if !matches!(victim, Victim::AcmeServer) {
            assert_eq!(
                get_verified(&pebble, server.port("tls"), "kill.test"),
                "secure\n"
            );
        }
        let made = pebble.orders() - orders;
        println!(
            "{victim:?} {round} at step {step}: {made} orders, {:?}",
            began.elapsed()
        );
        assert!(
            (1..=2).contains(&made),
            "{victim:?} at step {step}: {made} orders"
        );
        assert!(
            pebble.accounts() <= 1,
            "{victim:?} at step {step}: another account"
        );
        let key = std::fs::read(site.path("acme_pebble/account.key")).expect("it is there");
        assert_eq!(
            *account.get_or_insert(key.clone()),
            key,
            "the account was lost"
        );
        server.stop("QUIT");
        std::fs::write(site.path("logs/error.log"), "").expect("ours");
    }
}

/// The account stays.
fn forget_certificate(site: &Site) {
    let Ok(entries) = std::fs::read_dir(site.path("acme_pebble")) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|kind| kind == "json") {
            std::fs::remove_file(path).expect("ours");
        }
    }
}
