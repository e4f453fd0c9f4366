//! Node, store and ACME server are killed at every step of first orders and of renewals: whatever
//! dies, the account stays, every handshake succeeds, and there is at most one more order than
//! without.

use super::nodes::{Cluster, NODES};
use super::{certificate, serial};
use sealane_tests::{Pebble, Redis, Server, Site, command, has_go, scale};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Requests of one order, from the directory to the certificate.
const STEPS: usize = 16;

/// How long to wait for a step that does not come, because the order has fewer.
const STEP_PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for certificates: an order that fails is repeated after a minute.
const RECOVERY: Duration = Duration::from_secs(240);

const NAME: &str = "kill.test";

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
    kill(Victim::Node, NODES, scale(2, 68));
}

#[test]
fn the_store_is_killed_at_every_step() {
    if !has_go(24) {
        return;
    }
    kill(Victim::Store, NODES, scale(2, 68));
}

#[test]
fn the_acme_server_is_killed_at_every_step() {
    if !has_go(24) {
        return;
    }
    kill(Victim::AcmeServer, NODES, scale(2, 68));
}

#[test]
fn a_node_without_others_is_killed_at_every_step() {
    if !has_go(24) {
        return;
    }
    kill(Victim::Node, 1, scale(2, 2 * STEPS));
}

fn kill(victim: Victim, nodes: usize, rounds: usize) {
    let cluster = Cluster::new(nodes);
    let first = &cluster.sites[0];
    let mut pebble = Pebble::start(first, cluster.settings());
    let mut redis = Redis::start(first, "redis", &[]);
    let configuration = cluster.configuration("", NAME);
    let mut keys = HashSet::new();
    let mut all_orders = 0;
    if nodes > 1 {
        // Who has just made an account has to be given the time to tell the others.
        let servers = cluster.start(&configuration);
        wait_for_recovery("the account on all nodes", || {
            let found = cluster.sites.iter().filter_map(account_key);
            found.count() == nodes && has_new_certificate(&servers, "")
        });
        stop(servers);
    }
    for round in 0..rounds {
        // The first certificate, then its renewal. The short form still meets a late step.
        let is_renewal = round % 2 == 1;
        let step = match rounds < STEPS {
            true => 5 + 6 * round,
            false => 1 + (round / 2) % STEPS,
        };
        for site in &cluster.sites {
            change_records(site, is_renewal);
            site.write("logs/error.log", "");
        }
        redis.ask(&["FLUSHALL"]);
        let (orders, before) = (pebble.orders(), requests(&pebble));
        let servers = cluster.start(&configuration);
        let shown = certificate(cluster.tls.port(), NAME);
        assert_eq!(shown.contains("Pebble Intermediate"), is_renewal, "{shown}");
        let old = serial(&shown);
        let began = Instant::now();
        while requests(&pebble) < before + step && began.elapsed() < STEP_PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        match victim {
            Victim::Node => {
                let is_ordering = |server: &&Server<'_>| {
                    let log = server.error_log();
                    log.contains("ordering a certificate") && !log.contains("has come")
                };
                let ordering = servers.iter().find(is_ordering);
                let killed = ordering.unwrap_or(&servers[round % nodes]);
                killed.expect_alert("exited on signal 9");
                killed.kill_worker();
            }
            Victim::Store => {
                redis.kill();
                shake_hands(&cluster);
                redis.restart();
            }
            Victim::AcmeServer => {
                pebble.kill();
                shake_hands(&cluster);
                pebble.restart();
            }
        }
        let what = format!("certificates, {victim:?} was killed at step {step}");
        wait_for_recovery(&what, || {
            shake_hands(&cluster);
            has_new_certificate(&servers, old)
        });
        let made = pebble.orders() - orders;
        all_orders += made;
        println!(
            "{victim:?} {round} of {nodes} at step {step}, renewal {is_renewal}: {made} orders, \
             {:?}",
            began.elapsed()
        );
        assert!(
            (1..=2).contains(&made),
            "{victim:?} at step {step}: {made} orders\n{}",
            pebble.log()
        );
        assert!(
            pebble.accounts() <= 1,
            "{victim:?} at step {step}: another account"
        );
        stop(servers);
        keys.extend(cluster.sites.iter().filter_map(account_key));
        assert_eq!(keys.len(), 1, "the account was lost");
    }
    println!("{victim:?} of {nodes}: {rounds} kills, {all_orders} orders, 1 account");
}

#[track_caller]
fn wait_for_recovery(what: &str, mut is_there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < RECOVERY, "gave up waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn stop(servers: Vec<Server<'_>>) {
    for server in servers {
        server.stop("QUIT");
    }
}

fn requests(pebble: &Pebble<'_>) -> usize {
    pebble.log().matches("calling handler()").count()
}

/// Whether all nodes send the same certificate of the ACME server, another than this one.
fn has_new_certificate(servers: &[Server<'_>], old: &str) -> bool {
    let shown = servers.iter().map(|server| {
        let shown = certificate(server.port("tls"), NAME);
        let is_new = shown.contains("Pebble Intermediate") && serial(&shown) != old;
        is_new.then(|| serial(&shown).to_owned())
    });
    let serials: HashSet<Option<String>> = shown.collect();
    serials.len() == 1 && !serials.contains(&None)
}

/// Panics if a node sends a certificate that is not its key's, asked by way of the relay.
fn shake_hands(cluster: &Cluster) {
    let address = format!("127.0.0.1:{}", cluster.tls.port());
    let arguments = ["s_client", "-connect", &address, "-servername", NAME];
    let outcome = command("openssl", &arguments, b"");
    let text = format!("{}{}", outcome.text(), outcome.stderr);
    // Between two worker processes nobody may answer.
    let is_connected = text.contains("BEGIN CERTIFICATE");
    assert!(!is_connected || outcome.status == 0, "{text}");
    assert!(!text.contains("bad signature"), "{text}");
}

fn account_key(site: &Site) -> Option<Vec<u8>> {
    std::fs::read(site.path("acme_pebble/account.key")).ok()
}

/// Makes the certificate due for its renewal, or forgets it. The account stays.
fn change_records(site: &Site, is_renewal: bool) {
    let Ok(entries) = std::fs::read_dir(site.path("acme_pebble")) else {
        return;
    };
    let paths = entries.map(|entry| entry.expect("readable").path());
    for path in paths.filter(|path| path.extension().is_some_and(|kind| kind == "json")) {
        if !is_renewal {
            std::fs::remove_file(path).expect("ours");
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("ours");
        let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        record["certificate"]["renew_s"] = 0.into();
        record["order"] = serde_json::Value::Null;
        std::fs::write(path, record.to_string()).expect("ours");
    }
}
