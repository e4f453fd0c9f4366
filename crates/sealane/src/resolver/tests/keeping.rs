//! `server ... resolve`.

use super::dns::Service;
use super::keeper::{KeptServer, MAX_PEERS, peers};
use super::name_server::{address, service};
use super::*;
use sealane_upstream::{Group, GroupSettings, KeepaliveSettings, Method, ServerSettings};
use tokio::task::JoinHandle;

/// A group with one server that is kept up to date until this is dropped.
struct Kept {
    group: Arc<Group>,
    task: JoinHandle<()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn keep(server: &NameServer, host: &str, srv: Option<&str>, timeout: Duration) -> Kept {
    let settings = GroupSettings {
        counted_as: "keeping".into(),
        name: "backend".to_owned(),
        servers: vec![ServerSettings::new(format!("{host}:8080"), Vec::new())],
        method: Method::RoundRobin,
        checks: Arc::default(),
        zone: true,
        keepalive: KeepaliveSettings::OFF,
        queue: None,
    };
    let group = Arc::new(Group::new(settings, 1));
    let known = Arc::clone(&group);
    let server = conf(&[server.address]);
    let dns = Resolvers::default().of(&Arc::new(server), Duration::from_secs(20));
    let dns = Arc::new(dns.dns().expect("settings that fit"));
    let kept = KeptServer {
        group: "backend".to_owned(),
        host: host.to_owned(),
        port: 8080,
        service: srv.map(str::to_owned),
        timeout,
        apply: Box::new(move |addresses| known.set_addresses(0, addresses)),
    };
    let journal = Journal::running(sealane_log::Logger::discard());
    let task = tokio::spawn(kept.keep(dns, journal));
    Kept { group, task }
}

impl Kept {
    fn peers(&self) -> Vec<String> {
        self.group
            .peers()
            .iter()
            .map(|peer| peer.name().to_string())
            .collect()
    }

    /// Waits until the group has these peers.
    async fn becomes(&self, peers: &[&str]) {
        let wait = async {
            while self.peers() != peers {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        assert!(waited.is_ok(), "{:?} instead of {peers:?}", self.peers());
    }
}

/// Waits until a name server was queried this many more times.
async fn asked_again(server: &NameServer, times: usize) {
    let before = server.asked();
    while server.asked() < before + times {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_group_follows_its_name() {
    let server = NameServer::start().await;
    let says = |last: &[u8]| {
        let record = |last| address("app.test", 1, &format!("192.0.2.{last}"));
        Says::Records(last.iter().map(record).collect())
    };
    server.says("app.test", says(&[2, 1]));
    let kept = keep(&server, "app.test", None, SECOND);
    kept.becomes(&["192.0.2.1:8080", "192.0.2.2:8080"]).await;
    let first = kept.group.peers();

    // In another order they are the same.
    server.says("app.test", says(&[1, 2]));
    asked_again(&server, 4).await;
    assert!(Arc::ptr_eq(&first[0], &kept.group.peers()[0]));

    server.says("app.test", says(&[2, 3]));
    kept.becomes(&["192.0.2.2:8080", "192.0.2.3:8080"]).await;
    assert!(Arc::ptr_eq(&first[1], &kept.group.peers()[0]));
    assert!(first[0].is_gone());

    // Failures leave what was known ...
    server.says("app.test", Says::Code(ResponseCode::ServFail));
    asked_again(&server, 20).await;
    kept.becomes(&["192.0.2.2:8080", "192.0.2.3:8080"]).await;
    // ... until the name no longer exists.
    server.says("app.test", Says::Code(ResponseCode::NXDomain));
    kept.becomes(&[]).await;
    server.says("app.test", says(&[4]));
    kept.becomes(&["192.0.2.4:8080"]).await;
}

#[test]
fn a_service_has_no_more_peers_than_may_be() {
    let addresses: Vec<IpAddr> = (0..1000u32)
        .map(|number| std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into())
        .collect();
    let record = |port| Service {
        target: "app.test.".into(),
        port,
        weight: 1,
        priority: 1,
    };
    let records = (1..=100).map(|port| (record(port), addresses.clone()));
    assert_eq!(peers(records.collect()).len(), MAX_PEERS);
}

#[tokio::test]
async fn the_name_of_a_service_can_be_an_alias() {
    let server = NameServer::start().await;
    let of = "_http._tcp.app.test";
    // One of which the name server tells the records too, and one of which it does not.
    let other = alias(of, 300, "web.test");
    server.says(of, Says::Records(vec![other]));
    let other = alias("web.test", 300, "www.test");
    let record = service("www.test", 10, 1, 9000, "small.test");
    server.says("web.test", Says::Records(vec![other, record.clone()]));
    server.says("www.test", Says::Records(vec![record]));
    let found = vec![address("small.test", 300, "192.0.2.1")];
    server.says("small.test", Says::Records(found));
    let kept = keep(&server, "app.test", Some("http"), SECOND);
    kept.becomes(&["192.0.2.1:9000"]).await;
    // One that leads to itself leads nowhere, and is not followed for ever.
    let itself = alias("loop.test", 300, "loop.test");
    server.says("loop.test", Says::Records(vec![itself]));
    let dns = Resolvers::default().of(&Arc::new(conf(&[server.address])), SECOND);
    let dns = dns.dns().expect("settings that fit");
    assert!(dns.services("loop.test").await.is_err());
}

#[tokio::test]
async fn records_of_a_service_bring_ports_weights_and_priorities() {
    let server = NameServer::start().await;
    let of = "_http._tcp.app.test";
    let records = vec![
        service(of, 20, 1, 9002, "spare.test"),
        service(of, 10, 3, 9001, "big.test"),
        service(of, 10, 1, 9000, "small.test"),
        service(of, 10, 1, 9003, "missing.test"),
    ];
    server.says(of, Says::Records(records));
    for (name, last) in [("small.test", 1), ("big.test", 2), ("spare.test", 3)] {
        let ip = format!("192.0.2.{last}");
        server.says(name, Says::Records(vec![address(name, 300, &ip)]));
    }
    let kept = keep(&server, "app.test", Some("http"), SECOND);
    // Primary peers first; what a backup peer is, picks show.
    kept.becomes(&["192.0.2.2:9001", "192.0.2.1:9000", "192.0.2.3:9002"])
        .await;
    let servers = kept.group.peers();
    let servers: Vec<&str> = servers.iter().map(|peer| &**peer.server()).collect();
    assert_eq!(servers, ["big.test", "small.test", "spare.test"]);
    let mut picks = Vec::new();
    for _ in 0..8 {
        let asked = sealane_upstream::PickRequest {
            key: b"",
            client: None,
            server_id: None,
            own_only: false,
            thread: 0,
            now: Instant::now(),
        };
        let picked = kept
            .group
            .pick(&asked, &mut Default::default())
            .expect("a peer");
        picks.push(picked.peer().server().to_string());
        picked.succeeded(Instant::now());
    }
    assert_eq!(
        picks.iter().filter(|server| *server == "big.test").count(),
        6
    );
    assert_eq!(
        picks
            .iter()
            .filter(|server| *server == "small.test")
            .count(),
        2
    );
}

#[test]
fn records_that_lead_to_one_address_are_as_many_peers() {
    let ip: IpAddr = std::net::Ipv4Addr::new(192, 0, 2, 1).into();
    let record = |weight| Service {
        target: "app.test.".into(),
        port: 80,
        weight,
        priority: 1,
    };
    let found = peers(vec![(record(5), vec![ip]), (record(5), vec![ip])]);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn a_target_that_fails_keeps_its_peers() {
    let server = NameServer::start().await;
    // A name with a dot is taken as it is.
    let of = "_web._tcp.app.test";
    let mut records = vec![
        service(of, 10, 1, 9000, "a.test"),
        service(of, 10, 1, 9000, "b.test"),
    ];
    records.iter_mut().for_each(|record| record.ttl = 1);
    server.says(of, Says::Records(records));
    server.says(
        "a.test",
        Says::Records(vec![address("a.test", 1, "192.0.2.1")]),
    );
    server.says(
        "b.test",
        Says::Records(vec![address("b.test", 1, "192.0.2.2")]),
    );
    let kept = keep(&server, "app.test", Some("_web._tcp"), SECOND);
    kept.becomes(&["192.0.2.1:9000", "192.0.2.2:9000"]).await;
    server.says("a.test", Says::Code(ResponseCode::ServFail));
    server.says(
        "b.test",
        Says::Records(vec![address("b.test", 1, "192.0.2.3")]),
    );
    kept.becomes(&["192.0.2.1:9000", "192.0.2.3:9000"]).await;
    server.says("a.test", Says::Code(ResponseCode::NXDomain));
    kept.becomes(&["192.0.2.3:9000"]).await;
}
