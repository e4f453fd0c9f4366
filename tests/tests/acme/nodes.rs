//! Three nodes behind a round robin, with one Redis.

use super::{certificate, issuer, serial, wait_for_certificate};
use sealane_tests::{
    Pebble, PebbleSettings, Program, Redis, Relay, Server, Site, has_go, wait_for,
};

/// How many nodes there are.
pub(super) const NODES: usize = 3;

/// Nodes with a store in common; Pebble belongs to the first site.
pub(super) struct Cluster {
    pub(super) sites: Vec<Site>,
    pub(super) http: Relay,
    pub(super) tls: Relay,
}

impl Cluster {
    pub(super) fn new(nodes: usize) -> Cluster {
        let sites: Vec<Site> = (0..nodes).map(|_| Site::new()).collect();
        let relay = |name: &str| {
            let ports: Vec<u16> = sites.iter().map(|site| site.port(name)).collect();
            Relay::start(&ports)
        };
        let (http, tls) = (relay("http"), relay("tls"));
        Cluster { http, tls, sites }
    }

    pub(super) fn settings(&self) -> PebbleSettings {
        PebbleSettings::verifying_at(self.http.port(), self.tls.port())
    }

    /// What a node is configured with, once Pebble has made its certificate. Where there are
    /// several, they have a store on the port `%redis%` of the first site.
    pub(super) fn configuration(&self, challenge: &str, names: &str) -> String {
        let [first, ..] = &self.sites[..] else {
            panic!("there are nodes");
        };
        let authority = first.authority().display().to_string();
        let seal = first.write("seal.key", "0123456789abcdef0123456789abcdef");
        let seal = seal.display();
        let store = match self.sites.len() {
            1 => String::new(),
            _ => format!(
                "ssl_session_store redis://127.0.0.1:{} key={seal} timeout=1s;",
                first.port("redis")
            ),
        };
        let text = format!(
            "worker_processes 1; pid logs/pid; error_log logs/error.log info; events {{ }}
             http {{ access_log off; {} {store}
             server {{ listen 127.0.0.1:%tls% ssl; acme_certificate pebble {names};
                 ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }}
             server {{ listen 127.0.0.1:%http%; return 404; }} }}",
            issuer(challenge),
        );
        text.replace("certificates/authority.pem", &authority)
            .replace("%acme%", &first.port("acme").to_string())
    }

    pub(super) fn start(&self, configuration: &str) -> Vec<Server<'_>> {
        let start = |site| Server::start(site, Program::Sealane, configuration);
        self.sites.iter().map(start).collect()
    }
}

#[track_caller]
pub(super) fn same_everywhere(servers: &[Server<'_>], name: &str) -> String {
    wait_for("all nodes to serve the same certificate", || {
        let shown: Vec<String> = servers
            .iter()
            .map(|server| certificate(server.port("tls"), name))
            .collect();
        let first = shown.first().expect("there are nodes");
        let is_good = first.contains("Pebble Intermediate");
        let is_same = shown.iter().all(|other| serial(other) == serial(first));
        (is_good && is_same).then(|| first.clone())
    })
}

fn order_together(challenge: &str) {
    let cluster = Cluster::new(NODES);
    let first = &cluster.sites[0];
    let pebble = Pebble::start(first, cluster.settings());
    let redis = Redis::start(first, "redis", &[]);
    let configuration = cluster.configuration(challenge, "nodes.test");
    let servers = cluster.start(&configuration);
    let shown = same_everywhere(&servers, "nodes.test");
    assert!(shown.contains("DNS:nodes.test"), "{shown}");
    assert_eq!(
        (pebble.orders(), pebble.accounts()),
        (1, 1),
        "{}",
        pebble.log()
    );
    // What is in the store is sealed.
    for key in redis.keys() {
        let value = redis.ask(&["--raw", "GET", &key]);
        assert!(
            !value.contains("BEGIN") && !value.contains("nodes.test"),
            "{key}"
        );
    }
    // A node that has lost its state gets everything from the others.
    let mut servers = servers;
    servers.remove(2).stop("QUIT");
    std::fs::remove_dir_all(cluster.sites[2].path("acme_pebble")).expect("it is there");
    let server = Server::start(&cluster.sites[2], Program::Sealane, &configuration);
    let again = wait_for_certificate(server.port("tls"), "nodes.test");
    assert_eq!(serial(&again), serial(&shown));
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn one_node_orders_and_all_answer_over_http_and_serve() {
    if !has_go(24) {
        return;
    }
    order_together("");
}

#[test]
fn one_node_orders_and_all_answer_over_tls_and_serve() {
    if !has_go(24) {
        return;
    }
    order_together("challenge tls-alpn-01;");
}

#[test]
fn an_order_goes_on_when_the_process_dies_that_ordered() {
    if !has_go(24) {
        return;
    }
    let cluster = Cluster::new(NODES);
    let first = &cluster.sites[0];
    let pebble = Pebble::start(first, cluster.settings());
    let _redis = Redis::start(first, "redis", &[]);
    let servers = cluster.start(&cluster.configuration("", "gone.test"));
    wait_for("the order", || (pebble.orders() > 0).then_some(()));
    let ordering = wait_for("the node that orders", || {
        let mut logs = servers.iter().map(Server::error_log);
        logs.position(|log| log.contains("ordering a certificate"))
    });
    // The next worker process there has to wait for the lease like any other node.
    servers[ordering].expect_alert("exited on signal 9");
    servers[ordering].kill_worker();
    same_everywhere(&servers, "gone.test");
    // One more if it has gone before it could tell the others.
    assert!(pebble.orders() <= 2, "{}", pebble.log());
    assert_eq!(pebble.accounts(), 1);
}
