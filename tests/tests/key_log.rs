//! `SSLKEYLOGFILE`: debug builds append the secrets of connections to that file, others do not
//! know the variable.

use sealane_tests::quic::{QuicClient, QuicScript, quic_configuration, quic_site};
use sealane_tests::{Program, Server, Site, command, sealane_binary, wait_for};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

/// What NSS calls the secrets of a connection of TLS 1.3.
const LABELS: [&str; 5] = [
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
    "EXPORTER_SECRET",
];

/// Whether the binary under test is a debug build, by where cargo has put it.
fn is_debug_build() -> bool {
    let binary = sealane_binary();
    binary.iter().any(|part| part == "debug")
}

fn serve(site: &Site) -> Server<'_> {
    let configuration = format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid;
         events {{}} http {{ access_log off; {} }}",
        quic_configuration("")
    );
    let variable = format!("SSLKEYLOGFILE={}", site.path("keys.log").display());
    Server::start_under(site, Program::Sealane, &configuration, &["env", &variable])
}

fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn secrets_of_all_connections_are_in_the_key_log_of_debug_builds() {
    let site = quic_site();
    let server = serve(&site);
    let theirs = site.path("client.log");
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let arguments = ["s_client", "-tls1_3", "-connect", &address, "-keylogfile"].map(Into::into);
    let arguments = [&arguments[..], &[theirs.clone().into_os_string()]].concat();
    command("openssl", &arguments, b"Q\n").success();
    let script = QuicScript::to(&site, &server).get("/a.txt");
    let run = QuicClient::Aioquic.run_one(&script);
    assert_eq!(run.responses[0].status, 200, "{run:?}");

    let path = site.path("keys.log");
    if !is_debug_build() {
        assert!(!path.exists(), "a release build has no key log");
        return;
    }
    server.wait_for_log("this is a debug build: the secrets of all TLS connections are written to");
    let mode = std::fs::metadata(&path).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let theirs = std::fs::read_to_string(&theirs).expect("openssl has written it");
    let theirs = lines(&theirs);
    let ours = wait_for("the secrets of both connections", || {
        let text = std::fs::read_to_string(&path).ok()?;
        let count = |label: &str| text.lines().filter(|line| line.starts_with(label)).count();
        LABELS.iter().all(|label| count(label) == 2).then_some(text)
    });
    let ours = lines(&ours);
    assert!(
        theirs.len() >= LABELS.len() && theirs.is_subset(&ours),
        "{theirs:#?}\n{ours:#?}"
    );
    // Those of the other connection belong to one ClientHello, too.
    let random = |line: &&str| line.split(' ').nth(1).map(str::to_owned);
    let others: BTreeSet<_> = ours.difference(&theirs).filter_map(random).collect();
    assert_eq!(others.len(), 1, "{ours:#?}");
}

/// A file that cannot be opened is told, and the server serves.
#[test]
fn a_key_log_that_cannot_be_opened_is_told() {
    let site = quic_site();
    std::fs::create_dir(site.path("keys.log")).expect("the site is writable");
    let server = serve(&site);
    let script = QuicScript::to(&site, &server).get("/a.txt");
    let run = QuicClient::Aioquic.run_one(&script);
    assert_eq!(run.responses[0].status, 200, "{run:?}");
    if is_debug_build() {
        let line = server.wait_for_log("SSLKEYLOGFILE: open() ");
        assert!(line.contains("no secrets are written"), "{line}");
    }
}
