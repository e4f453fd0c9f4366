//! Picks compared with nginx's, request by request.
//!
//! nginx proxies to its own peers and reports in `$upstream_addr` which of them it tried; a
//! [`Group`] with the same servers gets the same requests. Peers that refuse connections are
//! addresses without a listener. The reference is Debian's nginx, or the one named by
//! `SEALANE_TEST_NGINX`.

mod nginx;

use nginx::{Ask, Nginx, Site};
use sealane_upstream::{
    Group, GroupSettings, KeepaliveSettings, Method, PeerAddress, PickRequest, ServerSettings,
    Tried,
};
use std::net::SocketAddr;
use std::time::Instant;

/// A `server` line of a case.
#[derive(Debug, Clone, Copy)]
struct Line {
    weight: u32,
    max_fails: u32,
    refuses: bool,
    down: bool,
    backup: bool,
}

const PLAIN: Line = Line {
    weight: 1,
    max_fails: 1,
    refuses: false,
    down: false,
    backup: false,
};

impl Line {
    const fn weighing(weight: u32) -> Line {
        Line { weight, ..PLAIN }
    }

    fn to_conf(self, address: SocketAddr) -> String {
        let mut line = format!(
            "server {address} weight={} max_fails={} fail_timeout=1000s",
            self.weight, self.max_fails
        );
        if self.down {
            line += " down";
        }
        if self.backup {
            line += " backup";
        }
        line + ";\n"
    }

    fn to_settings(self, address: SocketAddr) -> ServerSettings {
        ServerSettings {
            weight: self.weight,
            max_fails: self.max_fails,
            fail_timeout: std::time::Duration::from_secs(1000),
            backup: self.backup,
            down: self.down,
            ..ServerSettings::new(address.to_string(), vec![PeerAddress::Ip(address)])
        }
    }
}

/// Asks nginx and a group the same, and compares the addresses that each tried.
#[track_caller]
fn compare(directive: &str, method: Method, lines: &[Line], asks: &[Ask]) {
    let site = Site::new(lines.iter().map(|line| !line.refuses && !line.down));
    let servers: String = lines
        .iter()
        .zip(&site.peers)
        .map(|(line, address)| line.to_conf(*address))
        .collect();
    let mut nginx = Nginx::start(&site, &format!("{directive}\n{servers}"));
    let servers = lines.iter().zip(&site.peers);
    let settings = GroupSettings {
        counted_as: "balance".into(),
        name: "backend".to_owned(),
        servers: servers
            .map(|(line, address)| line.to_settings(*address))
            .collect(),
        method,
        checks: std::sync::Arc::default(),
        zone: false,
        keepalive: KeepaliveSettings::OFF,
        queue: None,
    };
    let group = Group::new(settings, 1);
    let refuses = |name: &str| {
        let refusing = lines
            .iter()
            .zip(&site.peers)
            .filter(|(line, _)| line.refuses);
        refusing
            .into_iter()
            .any(|(_, address)| address.to_string() == name)
    };
    for (number, ask) in asks.iter().enumerate() {
        let theirs = nginx.ask(ask);
        let ours = tried_addresses(&group, ask, refuses);
        assert_eq!(ours, theirs, "request {number}: {ask:?}; ours, theirs");
    }
}

/// What `$upstream_addr` says of a request.
fn tried_addresses(group: &Group, ask: &Ask, refuses: impl Fn(&str) -> bool) -> String {
    let mut tried = Tried::new(0);
    let mut names = Vec::new();
    loop {
        let now = Instant::now();
        let request = PickRequest {
            key: ask.key.as_bytes(),
            client: Some(ask.client),
            server_id: None,
            own_only: false,
            thread: 0,
            now,
        };
        let Ok(picked) = group.pick(&request, &mut tried) else {
            names.push(group.name().to_owned());
            break;
        };
        let name = picked.peer().name().to_string();
        names.push(name.clone());
        if !refuses(&name) {
            picked.succeeded(now);
            break;
        }
        let _ = picked.failed(now);
        if tried.left() == 0 {
            break;
        }
    }
    names.join(", ")
}

/// So many requests that differ in nothing.
fn same(count: usize) -> Vec<Ask> {
    vec![Ask::default(); count]
}

/// So many keys.
fn keys(count: usize) -> Vec<Ask> {
    let key = |number| match number % 4 {
        0 => format!("k{number}"),
        1 => format!("/some/longer/path/{}?q={number}", number * 7919),
        2 => String::new(),
        _ => format!("{}", number * 104_729),
    };
    let ask = |number| Ask {
        key: key(number),
        ..Ask::default()
    };
    (0..count).map(ask).collect()
}

/// So many clients, IPv4 and IPv6.
fn clients(count: u32) -> Vec<Ask> {
    let client = |number: u32| match number % 3 {
        0 => format!("10.{}.{}.{}", number % 251, number % 13, number % 7),
        1 => format!("192.168.{}.9", number % 256),
        _ => format!("2001:db8:{:x}::{:x}", number * 31 % 65536, number),
    };
    let ask = |number| Ask {
        client: client(number).parse().expect("an address"),
        ..Ask::default()
    };
    (0..count).map(ask).collect()
}

#[test]
fn round_robin_with_weights() {
    let lines = [5, 1, 1].map(Line::weighing);
    compare("", Method::RoundRobin, &lines, &same(40));
    let lines = [3, 7, 1, 1, 4, 2, 90, 7].map(Line::weighing);
    compare("", Method::RoundRobin, &lines, &same(300));
}

#[test]
fn round_robin_with_zone() {
    let lines = [2, 3, 4].map(Line::weighing);
    compare("zone shared 64k;", Method::RoundRobin, &lines, &same(60));
}

#[test]
fn round_robin_past_peers_that_refuse() {
    let refusing = |weight, max_fails| Line {
        max_fails,
        refuses: true,
        ..Line::weighing(weight)
    };
    // One is left out after its first failure, one after three, one never.
    let lines = [
        Line::weighing(2),
        refusing(3, 1),
        refusing(5, 3),
        Line::weighing(4),
        refusing(2, 0),
    ];
    compare("", Method::RoundRobin, &lines, &same(120));
}

#[test]
fn no_peer_is_left() {
    let refusing = Line {
        refuses: true,
        ..PLAIN
    };
    compare("", Method::RoundRobin, &[refusing; 3], &same(8));
    // The last is never left out, so it is asked every time.
    let patient = Line {
        max_fails: 0,
        ..refusing
    };
    compare("", Method::RoundRobin, &[refusing, patient], &same(8));
}

#[test]
fn a_single_peer_is_never_left_out() {
    let refusing = Line {
        refuses: true,
        ..PLAIN
    };
    compare("", Method::RoundRobin, &[refusing], &same(5));
    compare("least_conn;", Method::LeastConn, &[refusing], &same(5));
    let down = Line {
        down: true,
        ..PLAIN
    };
    compare("", Method::RoundRobin, &[down], &same(3));
}

#[test]
fn backup_peers_when_no_primary_peer_is_left() {
    let refusing = Line {
        refuses: true,
        ..PLAIN
    };
    let backup = |weight| Line {
        backup: true,
        ..Line::weighing(weight)
    };
    let lines = [refusing, backup(3), refusing, backup(1)];
    compare("", Method::RoundRobin, &lines, &same(30));
    compare("least_conn;", Method::LeastConn, &lines, &same(30));
    let failing_backup = Line {
        backup: true,
        ..refusing
    };
    let lines = [refusing, failing_backup, backup(2)];
    compare("", Method::RoundRobin, &lines, &same(30));
}

#[test]
fn peers_that_are_down() {
    let down = Line {
        down: true,
        ..Line::weighing(3)
    };
    let lines = [Line::weighing(2), down, PLAIN];
    compare("", Method::RoundRobin, &lines, &same(20));
    compare("hash $arg_k;", Method::Hash, &lines, &keys(60));
    compare("ip_hash;", Method::IpHash, &lines, &clients(60));
    let consistent = "hash $arg_k consistent;";
    compare(consistent, Method::ConsistentHash, &lines, &keys(60));
}

#[test]
fn least_conn_when_nothing_is_under_way() {
    let lines = [2, 3, 4].map(Line::weighing);
    compare("least_conn;", Method::LeastConn, &lines, &same(60));
}

#[test]
fn hash() {
    let lines = [1, 4, 2, 7].map(Line::weighing);
    compare("hash $arg_k;", Method::Hash, &lines, &keys(400));
    compare("hash $arg_k;", Method::Hash, &[PLAIN; 9], &keys(400));
}

#[test]
fn hash_past_peers_that_refuse() {
    let refusing = Line {
        refuses: true,
        max_fails: 0,
        ..Line::weighing(4)
    };
    let lines = [PLAIN, refusing, refusing, Line::weighing(2)];
    compare("hash $arg_k;", Method::Hash, &lines, &keys(200));
    let failing = Line {
        max_fails: 2,
        ..refusing
    };
    let lines = [failing, failing, PLAIN, failing];
    compare("hash $arg_k;", Method::Hash, &lines, &keys(200));
}

#[test]
fn consistent_hash() {
    let lines = [1, 4, 2, 7].map(Line::weighing);
    let directive = "hash $arg_k consistent;";
    compare(directive, Method::ConsistentHash, &lines, &keys(400));
    compare(directive, Method::ConsistentHash, &[PLAIN; 9], &keys(400));
}

#[test]
fn consistent_hash_past_peers_that_refuse() {
    let refusing = Line {
        refuses: true,
        max_fails: 0,
        ..Line::weighing(3)
    };
    let failing = Line {
        max_fails: 2,
        ..refusing
    };
    let lines = [PLAIN, refusing, failing, Line::weighing(2)];
    let directive = "hash $arg_k consistent;";
    compare(directive, Method::ConsistentHash, &lines, &keys(200));
}

#[test]
fn ip_hash() {
    let lines = [1, 4, 2, 7].map(Line::weighing);
    compare("ip_hash;", Method::IpHash, &lines, &clients(400));
    compare("ip_hash;", Method::IpHash, &[PLAIN; 9], &clients(400));
}

#[test]
fn ip_hash_past_peers_that_refuse() {
    let refusing = Line {
        refuses: true,
        max_fails: 0,
        ..Line::weighing(4)
    };
    let failing = Line {
        max_fails: 2,
        ..refusing
    };
    let lines = [PLAIN, refusing, failing, Line::weighing(2)];
    compare("ip_hash;", Method::IpHash, &lines, &clients(300));
}
