//! Session tickets: TLS 1.3 sends them after the handshake, just before the kernel
//! takes over. They must arrive, and work.

use crate::client::get;
use crate::lab::{BOTH, Lab, SUITES, Suite, assert_same};
use crate::program::run;
use crate::sniffer::Sniffer;
use sealane_vm::wire::HANDSHAKE;

const SESSION: &str = "/tmp/session.pem";

/// One request with the classic output of s_client, which says whether the session is new.
#[track_caller]
fn request(suite: Suite, session: [&str; 2]) -> String {
    let connect = format!("127.0.0.1:{BOTH}");
    let fixed = [
        "s_client",
        "-connect",
        &connect,
        "-ign_eof",
        "-nocommands",
        "-keylogfile",
        crate::client::KEY_LOG,
    ];
    let options = [&fixed[..], &suite.s_client(), &session].concat();
    let request = String::from_utf8(get("/4m")).expect("a request is text");
    let request = request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let outcome = run("openssl", &options, request.as_bytes());
    // Its own remarks about tickets may stand between the head and the body; the file comes whole.
    let file = std::fs::read("/data/4m").expect("the site has the file");
    let at = outcome
        .stdout
        .windows(64)
        .position(|window| window == &file[..64]);
    let at = at.unwrap_or_else(|| panic!("no body: {}", outcome.stderr));
    let end = outcome.stdout.len().min(at + file.len());
    assert_same(&outcome.stdout[at..end], &file);
    String::from_utf8_lossy(&outcome.stdout[..at]).into_owned()
}

#[track_caller]
fn resumes(lab: &Lab, suite: Suite, tickets_after_handshake: bool) {
    lab.server();
    lab.settle_counters();
    let _ = std::fs::remove_file(SESSION);
    let sniffer = Sniffer::start(BOTH);
    let first = request(suite, ["-sess_out", SESSION]);
    assert!(first.contains("New, "), "the first session: {first}");
    let second = request(suite, ["-sess_in", SESSION]);
    assert!(second.contains("Reused, "), "the second session: {second}");
    assert_eq!(lab.sealed_connections(), 2, "both are sealed by the kernel");
    for seen in sniffer.finish() {
        let tickets = seen
            .server
            .records
            .iter()
            .filter(|record| record.kind == HANDSHAKE);
        let tickets = tickets
            .filter(|record| record.plaintext.first() == Some(&4))
            .count();
        assert_eq!(
            tickets > 0,
            tickets_after_handshake,
            "records with NewSessionTicket"
        );
    }
}

pub(crate) fn tickets_tls13(lab: &Lab) {
    resumes(lab, SUITES[5], true);
    resumes(lab, SUITES[6], true);
}

pub(crate) fn tickets_tls12(lab: &Lab) {
    // Sent in the handshake, before anything is encrypted.
    resumes(lab, SUITES[2], false);
}
