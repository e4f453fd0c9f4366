//! Ticket keys that Sealane makes: they rotate, survive a worker and a restart.

use sealane_tests::nodes::{configuration, openssl, s_client};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::{Certificate, CertificateKey, Program, Server, Site, wait_for};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site
}

/// A server with keys that are saved in `logs/tickets`.
#[track_caller]
fn start<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    // The directive stands in `http`.
    let text = configuration(directives).replace(
        "access_log off;",
        "access_log off; ssl_session_ticket_state logs/tickets;",
    );
    Server::start(site, Program::Sealane, &text)
}

/// One connection; `resume` offers the session that the last one left. Whether it was
/// resumed.
#[track_caller]
fn connect(server: &Server<'_>, site: &Site, resume: bool) -> bool {
    let file = site.path("temporary/kept.pem").display().to_string();
    let outcome = s_client(server.port("tls"), "", &file, resume).success();
    outcome.text().contains("<r>")
}

#[test]
fn keys_survive_a_restart_in_a_private_file() {
    let site = site();
    let server = start(&site, "");
    assert!(!connect(&server, &site, false));
    let path = site.path("logs/tickets");
    wait_for("the state to be written", || path.exists().then_some(()));
    let mode = std::fs::metadata(&path)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(server.stop("QUIT").success());
    let server = start(&site, "");
    assert!(connect(&server, &site, true), "after a restart");
    assert!(
        !server.error_log().contains("[warn]"),
        "{}",
        server.error_log()
    );
}

#[test]
fn keys_survive_a_worker_that_dies_even_without_the_file() {
    let site = site();
    let server = start(&site, "ssl_session_ticket_rotation 2s;");
    server.expect_alert("exited on signal 9");
    let path = site.path("logs/tickets");
    let size = || std::fs::metadata(&path).map_or(0, |facts| facts.len());
    let first = wait_for("the state", || Some(size()).filter(|size| *size > 0));
    // Keys that the master did not have when it forked the first worker.
    wait_for("more keys", || (size() > first).then_some(()));
    assert!(!connect(&server, &site, false));
    let _ = std::fs::remove_file(&path);
    server.kill_worker();
    server.wait_for_log("exited on signal 9");
    assert!(connect(&server, &site, true), "after the worker's death");
}

#[test]
fn a_file_that_cannot_be_used_costs_a_warning_and_a_handshake() {
    for content in [
        &b"rubbish"[..],
        b"",
        b"SLST\x01\x00\x05",
        b"SLST\x02\x00\x00",
    ] {
        let site = site();
        site.write("logs/tickets", content);
        let server = start(&site, "");
        let warning = server.wait_for_log("cannot be used (");
        assert!(warning.contains("[warn]"), "{warning}");
        openssl(&site, server.port("tls"), "-tls1_3", 2).at_least(100, "with new keys");
        wait_for("a good file in its place", || {
            let state = std::fs::read(site.path("logs/tickets")).ok()?;
            (state.len() > 60).then_some(())
        });
    }
}

#[test]
fn a_place_where_nothing_can_be_written_is_said_once() {
    let site = site();
    // A directory where the file should be: rename() fails, even for root.
    std::fs::create_dir(site.path("logs/tickets")).expect("new");
    let server = start(&site, "");
    server.expect_alert("session ticket keys cannot be saved");
    assert!(
        server
            .error_log()
            .contains("it is not a regular file; generating new ones")
    );
    let alert = server.wait_for_log("session ticket keys cannot be saved: rename()");
    assert!(alert.contains("logs/tickets"), "{alert}");
    openssl(&site, server.port("tls"), "-tls1_2", 2).at_least(100, "without the file");
}

/// Keys change every two seconds while workers are replaced and killed: whichever key a ticket was
/// sealed with, the worker of the end has it.
#[test]
fn tickets_given_at_any_moment_resume_whatever_happens_to_workers() {
    let site = site();
    let server = start(&site, "ssl_session_ticket_rotation 2s;");
    server.expect_alert("exited on signal 9");
    let text = std::fs::read_to_string(site.path("sealane.conf")).expect("it is there");
    let port = server.port("tls");
    let file = |number: usize| site.path(format!("temporary/{number}.pem"));
    let done = AtomicBool::new(false);
    let given = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut given = Vec::new();
            // On a busy machine there are few meanwhile; the last ones are from the end.
            for number in 0..1000 {
                if done.load(Ordering::Relaxed) && given.len() > 10 {
                    break;
                }
                let file = file(number).display().to_string();
                let outcome = s_client(port, "", &file, false);
                // The worker may have been killed meanwhile.
                if outcome.text().contains("<.>") {
                    given.push(file);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            given
        });
        for round in 0..6 {
            if round % 3 == 2 {
                server.kill_worker();
            } else {
                let text = format!("worker_rlimit_nofile {};\n{text}", 3000 + round);
                assert_eq!(reload(&site, &server, &text), Reload::Applied);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        done.store(true, Ordering::Relaxed);
        client.join().expect("no panic")
    });
    assert!(given.len() > 10, "{}", given.len());
    let resumed = |file: &String| s_client(port, "", file, true).text().contains("<r>");
    let lost: Vec<&String> = given.iter().filter(|file| !resumed(file)).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", given.len());
}
