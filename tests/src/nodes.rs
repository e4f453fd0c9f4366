//! Several servers of one service, and clients that carry sessions from one to another.

use crate::{
    Certificate, CertificateKey, Outcome, Program, Relay, Server, Site, command, wait_for,
};
use std::path::Path;

/// How many nodes a service of the tests has.
pub const NODES: usize = 3;

/// Sites with the same certificate, as the nodes of one service have.
pub fn sites() -> Vec<Site> {
    let sites: Vec<Site> = (0..NODES).map(|_| Site::new()).collect();
    sites[0].certificate(&Certificate::localhost("site", CertificateKey::P256));
    for site in &sites[1..] {
        for file in ["authority.pem", "authority.key", "site.pem", "site.key"] {
            let path = format!("certificates/{file}");
            let content = std::fs::read(sites[0].path(&path)).expect("the first site has it");
            site.write(&path, content);
        }
    }
    sites
}

/// The configuration of a node: one server with these directives, `%tls%`, and `/tls` that
/// tells whether the session was resumed; and its metrics on `%metrics%`.
pub fn configuration(directives: &str) -> String {
    format!(
        "worker_processes 2; pid logs/pid; error_log logs/error.log notice;
         env FAKETIME; env LD_PRELOAD; env FAKETIME_DONT_FAKE_MONOTONIC;
         events {{ }}
         http {{ access_log off; server {{ listen 127.0.0.1:%tls% ssl;
             ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
             {directives}
             location = /tls {{ return 200 \"<$ssl_session_reused>\"; }} }}
             server {{ listen 127.0.0.1:%metrics%; location = /metrics {{ metrics; }} }} }}"
    )
}

/// Starts a server on each site.
#[track_caller]
pub fn start<'a>(sites: &'a [Site], directives: &str) -> Vec<Server<'a>> {
    let configuration = configuration(directives);
    let start = |site| Server::start(site, Program::Sealane, &configuration);
    sites.iter().map(start).collect()
}

/// A relay to all of them.
pub fn relay_to(servers: &[Server<'_>]) -> Relay {
    let ports: Vec<u16> = servers.iter().map(|server| server.port("tls")).collect();
    Relay::start(&ports)
}

/// Connections after the first, and how many of them were resumed.
#[derive(Debug, Clone, Copy)]
pub struct Count {
    /// Connections.
    pub connections: usize,
    /// Resumed ones of them.
    pub resumed: usize,
}

impl Count {
    /// Panics when less than `percent` were resumed.
    #[track_caller]
    pub fn at_least(self, percent: usize, what: &str) {
        println!("{what}: {self:?}");
        assert!(self.connections > 0, "{what}: nobody connected");
        assert!(
            self.resumed * 100 >= self.connections * percent,
            "{what}: {self:?}, which is less than {percent} %"
        );
    }
}

/// `openssl s_client`, each connection with the session of the one before.
#[track_caller]
pub fn openssl(site: &Site, port: u16, options: &str, connections: usize) -> Count {
    let file = site.path("temporary/session.pem");
    let _ = std::fs::remove_file(&file);
    let file = file.display().to_string();
    let mut resumed = 0;
    for number in 0..=connections {
        let resume = number > 0 && Path::new(&file).exists();
        let outcome = s_client(port, options, &file, resume);
        let output = outcome.text();
        assert_eq!(outcome.status, 0, "{options}: {output}{}", outcome.stderr);
        let reused = output.contains("\nReused, ");
        assert!(
            output.contains(if reused { "<r>" } else { "<.>" }),
            "$ssl_session_reused agrees: {output}"
        );
        resumed += usize::from(number > 0 && reused);
    }
    Count {
        connections,
        resumed,
    }
}

/// One connection of `openssl s_client`, which asks for `/tls` and leaves its session in
/// `file`; with `resume` it offers the one that is there.
pub fn s_client(port: u16, options: &str, file: &str, resume: bool) -> Outcome {
    let address = format!("127.0.0.1:{port}");
    let mut arguments = vec!["s_client", "-connect", &address, "-ign_eof"];
    arguments.extend(["-sess_out", file]);
    arguments.extend(options.split_whitespace());
    if resume {
        arguments.extend(["-sess_in", file]);
    }
    let request = b"GET /tls HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    command("openssl", &arguments, request)
}

/// Waits until sessions of each node are resumed on each other.
#[track_caller]
pub fn wait_until_shared(site: &Site, port: u16, options: &str) {
    wait_for("sessions to resume on every node", || {
        let round = openssl(site, port, options, 2 * NODES);
        (round.resumed == round.connections).then_some(())
    });
}
