//! `shared`: several nodes with a Redis, of which one asks for all.

use super::origin::{Changing, Mode};
use super::{configuration, get, state_at};
use sealane_tests::reload::{self, Reload};
use sealane_tests::upgrade::Daemon;
use sealane_tests::{Program, Redis, Server, Site, wait_for};
use std::collections::HashSet;

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// Nodes with a Redis on the first one's site, and the two servers that they check.
struct Nodes {
    sites: Vec<Site>,
    a: Changing,
    b: Changing,
}

impl Nodes {
    fn new(count: usize) -> Nodes {
        let sites: Vec<Site> = (0..count).map(|_| Site::new()).collect();
        for site in &sites {
            site.write("store.key", KEY);
        }
        Nodes {
            sites,
            a: Changing::new(Mode::Works),
            b: Changing::new(Mode::Works),
        }
    }

    fn redis(&self) -> Redis<'_> {
        Redis::start(&self.sites[0], "redis", &[])
    }

    /// Each node tells who asks.
    fn configuration(&self, node: usize, group: &str, check: &str) -> String {
        let redis = self.sites[0].port("redis");
        let check = format!("proxy_set_header X-Node n{node}; {check}");
        let http = configuration(self.a.port(), self.b.port(), group, &check);
        format!(
            "master_process off; error_log logs/error.log info; pid logs/pid;
             worker_processes 1; events {{}}
             http {{ access_log off;
                 upstream_store redis://127.0.0.1:{redis} key=store.key timeout=1s;
                 {http} }}"
        )
    }

    fn start(&self, node: usize, check: &str) -> Server<'_> {
        let text = self.configuration(node, "", check);
        Server::start(&self.sites[node], Program::Sealane, &text)
    }

    fn start_all(&self, check: &str) -> Vec<Server<'_>> {
        (0..self.sites.len())
            .map(|at| self.start(at, check))
            .collect()
    }

    /// Who has asked the first server, of its next checks.
    fn asking(&self, checks: usize) -> HashSet<String> {
        self.a.take_heads();
        let mut heads = Vec::new();
        wait_for("checks", || {
            heads.extend(self.a.take_heads());
            (heads.len() >= checks).then_some(())
        });
        let nodes = heads.iter().map(|head| {
            let node = head
                .split("X-Node: ")
                .nth(1)
                .and_then(|rest| rest.lines().next());
            node.unwrap_or_else(|| panic!("no node in {head}"))
                .to_owned()
        });
        nodes.collect()
    }

    /// Waits until one node asks for all; which one.
    #[track_caller]
    fn only_one(&self) -> usize {
        wait_for("one node to ask for all", || {
            let asking = self.asking(4);
            let only = asking.iter().next().filter(|_| asking.len() == 1)?;
            only.strip_prefix('n')?.parse().ok()
        })
    }

    #[track_caller]
    fn wait_for_state(&self, node: usize, port: u16, state: &str) {
        let plain = self.sites[node].port("plain");
        wait_for(&format!("{port} to be {state} for node {node}"), || {
            (state_at(plain, port) == state).then_some(())
        });
    }
}

const CHECK: &str = "health_check interval=1s shared;";

#[test]
fn one_node_asks_and_all_know() {
    let nodes = Nodes::new(3);
    let redis = nodes.redis();
    let servers = nodes.start_all(CHECK);
    let asking = nodes.only_one();
    for (mode, state) in [(Mode::Status(500), "unhealthy"), (Mode::Works, "up")] {
        nodes.b.becomes(mode);
        for node in 0..servers.len() {
            nodes.wait_for_state(node, nodes.b.port(), state);
        }
    }
    // Nobody else had to ask for that.
    let other = (asking + 1) % servers.len();
    let line = servers[other].wait_for_log("is unhealthy");
    assert!(
        line.contains("has found that out (health_check in location \"/\")"),
        "{line}"
    );
    let line = servers[asking].wait_for_log("is unhealthy");
    assert!(line.contains("status 500"), "{line}");
    // What is in the store is sealed.
    let keys = redis.keys();
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in keys {
        assert!(key.starts_with("sealane:h:") && key.len() == 74, "{key}");
        let value = redis.ask(&["GET", &key]);
        assert!(!value.contains("127.0.0.1"), "{value}");
        // Whatever becomes of the nodes, it goes.
        let ttl: i64 = redis.ask(&["TTL", &key]).parse().expect("a number");
        assert!((0..=3).contains(&ttl), "{ttl}");
    }
}

#[test]
fn another_node_takes_over_when_the_one_that_asks_dies() {
    let nodes = Nodes::new(2);
    let _redis = nodes.redis();
    let mut servers: Vec<_> = nodes.start_all(CHECK).into_iter().map(Some).collect();
    let asking = nodes.only_one();
    nodes.b.becomes(Mode::Status(500));
    let other = 1 - asking;
    nodes.wait_for_state(other, nodes.b.port(), "unhealthy");
    servers[asking].take().expect("it runs").stop("KILL");
    wait_for("the other node to ask", || {
        nodes.asking(1).contains(&format!("n{other}")).then_some(())
    });
    assert_eq!(
        state_at(nodes.sites[other].port("plain"), nodes.b.port()),
        "unhealthy"
    );
    nodes.b.becomes(Mode::Works);
    nodes.wait_for_state(other, nodes.b.port(), "up");
    // The first one comes back, and lets the other go on.
    servers[asking] = Some(nodes.start(asking, CHECK));
    assert_eq!(nodes.only_one(), other);
}

#[test]
fn nodes_ask_by_themselves_while_the_store_does_not_answer() {
    let nodes = Nodes::new(2);
    let mut redis = nodes.redis();
    let servers = nodes.start_all(CHECK);
    nodes.only_one();
    let both = || {
        wait_for("both nodes to ask", || {
            (nodes.asking(4).len() == 2).then_some(())
        });
    };
    redis.pause();
    both();
    for (node, server) in servers.iter().enumerate() {
        server.wait_for_log("this node carries out shared health checks by itself");
        nodes.b.becomes(Mode::Status(500));
        nodes.wait_for_state(node, nodes.b.port(), "unhealthy");
    }
    redis.resume();
    nodes.only_one();
    redis.kill();
    both();
    nodes.b.becomes(Mode::Works);
    for node in 0..servers.len() {
        nodes.wait_for_state(node, nodes.b.port(), "up");
    }
    redis.restart();
    nodes.only_one();
    for server in &servers {
        let log = server.error_log();
        let silent = log.matches("this node carries out shared health checks by itself");
        // Once for each of the two.
        assert!(silent.count() <= 2, "{log}");
        server.wait_for_log("answers again: nodes share health checks");
    }
}

#[test]
fn a_server_without_a_store_checks_from_the_beginning() {
    let nodes = Nodes::new(1);
    nodes.b.becomes(Mode::Status(500));
    // Nobody listens there.
    let server = nodes.start(0, "health_check interval=1s shared mandatory;");
    nodes.wait_for_state(0, nodes.a.port(), "up");
    nodes.wait_for_state(0, nodes.b.port(), "unhealthy");
    server.wait_for_log("this node carries out shared health checks by itself");
    assert_eq!(get(server.port("plain"), "/page").status, 200);
}

#[test]
fn what_others_write_into_the_store_is_refused() {
    let nodes = Nodes::new(2);
    let redis = nodes.redis();
    let first = nodes.start(0, CHECK);
    nodes.only_one();
    let keys = redis.keys();
    let [one, other] = &keys[..] else {
        panic!("{keys:?}");
    };
    // The record is longer than a lease.
    let length = |key: &str| {
        redis
            .ask(&["STRLEN", key])
            .parse::<usize>()
            .expect("a number")
    };
    let (record, lease) = match length(one) > length(other) {
        true => (one, other),
        false => (other, one),
    };
    first.stop("QUIT");
    nodes.b.becomes(Mode::Status(500));
    let long = "x".repeat(120_000);
    for garbage in ["garbage", "", &long] {
        redis.ask(&["SET", record, garbage, "EX", "600"]);
        // Somebody who never asks, and never gives the lease back.
        redis.ask(&["SET", lease, "0123456789abcdef", "EX", "600"]);
        let server = nodes.start(1, CHECK);
        nodes.wait_for_state(1, nodes.b.port(), "unhealthy");
        if garbage == "garbage" {
            server.wait_for_log("is not used (it was sealed with another \"key=\", or by nobody)");
        }
    }
    // A record that belongs elsewhere.
    redis.ask(&["DEL", record, lease]);
    let server = nodes.start(0, CHECK);
    wait_for("a record", || (length(record) > 50).then_some(()));
    redis.ask(&["RENAME", record, "moved"]);
    redis.ask(&["PERSIST", "moved"]);
    server.stop("KILL");
    redis.ask(&["DEL", lease]);
    let other_group = nodes.configuration(1, "", "health_check interval=2s shared;");
    let server = Server::start(&nodes.sites[1], Program::Sealane, &other_group);
    nodes.only_one();
    // With another interval it is another check, with names of its own.
    let own = wait_for("another record", || {
        let keys = redis.keys().into_iter();
        let mut own = keys.filter(|key| key != record && key != lease && key != "moved");
        own.find(|key| length(key) > 50)
    });
    server.stop("KILL");
    redis.ask(&["COPY", "moved", &own, "REPLACE"]);
    redis.ask(&["PERSIST", &own]);
    let server = Server::start(&nodes.sites[1], Program::Sealane, &other_group);
    server.wait_for_log("is not used (it was sealed with another \"key=\", or by nobody)");
}

#[test]
fn nodes_with_another_key_share_nothing() {
    let nodes = Nodes::new(2);
    let _redis = nodes.redis();
    nodes.sites[1].write("store.key", "another key with more than 32 bytes");
    let _servers = nodes.start_all(CHECK);
    wait_for("both nodes to ask", || {
        (nodes.asking(4).len() == 2).then_some(())
    });
    // For good: longer than it takes until one follows the other.
    assert_eq!(nodes.asking(10).len(), 2);
}

#[test]
fn the_node_that_asks_goes_on_after_a_reload() {
    let nodes = Nodes::new(2);
    let _redis = nodes.redis();
    let masters: Vec<_> = (0..2)
        .map(|node| {
            let text = nodes.configuration(node, "", CHECK);
            let text = text.replace("master_process off;", "");
            (
                Server::start(&nodes.sites[node], Program::Sealane, &text),
                text,
            )
        })
        .collect();
    let asking = nodes.only_one();
    let (server, text) = &masters[asking];
    let changed = text.replace("access_log off;", "access_log off; server_tokens off;");
    assert_eq!(
        reload::reload(&nodes.sites[asking], server, &changed),
        Reload::Applied
    );
    assert_eq!(nodes.only_one(), asking);
    nodes.b.becomes(Mode::Status(500));
    for node in 0..2 {
        nodes.wait_for_state(node, nodes.b.port(), "unhealthy");
    }
    // The next worker process is another node for the others, and begins with what is known.
    server.kill_worker();
    server.expect_alert("exited on signal 9");
    nodes.wait_for_state(asking, nodes.b.port(), "unhealthy");
    nodes.only_one();
    nodes.b.becomes(Mode::Works);
    for node in 0..2 {
        nodes.wait_for_state(node, nodes.b.port(), "up");
    }
}

#[test]
fn an_upgrade_goes_on_with_what_is_shared() {
    let nodes = Nodes::new(2);
    let _redis = nodes.redis();
    let text = nodes.configuration(0, "", CHECK);
    let text = text.replace("master_process off;", "");
    let daemon = Daemon::start(&nodes.sites[0], Program::Sealane, &text);
    assert_eq!(nodes.only_one(), 0);
    let _other = nodes.start(1, CHECK);
    nodes.b.becomes(Mode::Status(500));
    for node in 0..2 {
        nodes.wait_for_state(node, nodes.b.port(), "unhealthy");
    }
    daemon.upgrade();
    let plain = nodes.sites[0].port("plain");
    assert_eq!(state_at(plain, nodes.b.port()), "unhealthy");
    nodes.only_one();
    nodes.b.becomes(Mode::Works);
    for node in 0..2 {
        nodes.wait_for_state(node, nodes.b.port(), "up");
    }
}

#[test]
fn a_check_of_tengine_is_shared_as_well() {
    let nodes = Nodes::new(2);
    let _redis = nodes.redis();
    let check = "check interval=1000 fall=1 rise=1 type=http shared;";
    let servers: Vec<_> = (0..2)
        .map(|node| {
            let text = nodes.configuration(node, check, "");
            Server::start(&nodes.sites[node], Program::Sealane, &text)
        })
        .collect();
    for (mode, state) in [(Mode::Works, "up"), (Mode::Status(500), "unhealthy")] {
        nodes.b.becomes(mode);
        for node in 0..2 {
            nodes.wait_for_state(node, nodes.b.port(), state);
        }
    }
    // One of them has found it out, the other one has heard of it.
    let logs: Vec<String> = servers.iter().map(Server::error_log).collect();
    let heard = logs
        .iter()
        .filter(|log| log.contains("has found that out (check)"));
    assert_eq!(heard.count(), 1, "{logs:?}");
}

/// What it costs the store when a thousand servers are shared by two nodes.
#[test]
fn a_store_has_little_to_do_for_thousands_of_servers() {
    const SERVERS: usize = 2_000;
    let nodes = Nodes::new(2);
    let redis = nodes.redis();
    let all = Changing::on(([0, 0, 0, 0], 0).into(), Mode::Works);
    let port = all.port();
    let lines: String = (0..SERVERS)
        .map(|at| format!("server 127.1.{}.{}:{port};\n", at / 250, at % 250 + 1))
        .collect();
    // Verdicts are written as well: on a busy machine some do not answer in time now and then.
    let group = format!(
        "upstream many {{ {lines} check interval=2000 timeout=4000 fall=5 rise=1 shared; }}"
    );
    let servers: Vec<_> = (0..2)
        .map(|node| {
            let text = nodes.configuration(node, "", "");
            let text = text.replace("match good", &format!("{group} match good"));
            Server::start(&nodes.sites[node], Program::Sealane, &text)
        })
        .collect();
    for server in &servers {
        let up = format!("\"up\":{SERVERS}");
        wait_for("all servers to pass", || {
            let page = get(server.port("plain"), "/checks").text();
            page.contains(&up).then_some(())
        });
    }
    let count = |name: &str| {
        let text = redis.ask(&["INFO", "stats"]);
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value
            .and_then(|value| value.trim().parse::<usize>().ok())
            .expect("a number")
    };
    let (commands, bytes) = (
        count("total_commands_processed:"),
        count("total_net_output_bytes:"),
    );
    let before = all.connections();
    let begun = std::time::Instant::now();
    wait_for("two rounds", || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        (all.connections() - before >= 2 * SERVERS).then_some(())
    });
    let (connections, seconds) = (all.connections() - before, begun.elapsed().as_secs_f64());
    let commands = count("total_commands_processed:") - commands;
    let bytes = count("total_net_output_bytes:") - bytes;
    println!(
        "{SERVERS} servers, 2 nodes, {seconds:.1} s: {connections} checks, {commands} commands, \
         {bytes} bytes from the store"
    );
    // Not one for each server: two for each of eight parts and a tick, on each node.
    let rounds = seconds / 2.0 + 1.0;
    assert!(
        (commands as f64) < rounds * 8.0 * 2.0 * 2.0 + 40.0,
        "{commands} in {rounds} rounds"
    );
}
