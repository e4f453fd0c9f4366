//! A worker that dies: what the log says, how soon the next one serves, and what a core dump
//! does not hold.

use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, sealane_binary, wait_for, wire,
};
use std::path::PathBuf;

const SERVE: &str = "
    error_log logs/error.log notice;
    MAIN
    events { worker_connections 64; }
    http {
        access_log off;
        server { listen 127.0.0.1:%plain%; root html; }
        server {
            listen 127.0.0.1:%tls% ssl;
            ssl_certificate certificates/site.pem;
            ssl_certificate_key certificates/site.key;
            ssl_session_ticket_key tickets.key;
            root html;
        }
    }";

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::Rsa));
    site.write("html/a.txt", b"hello");
    site.write("tickets.key", TICKET_KEY);
    site
}

const TICKET_KEY: &[u8] =
    b"0123456789abcdef-these-bytes-must-not-be-found-in-a-core-file-0123456789-abcdefg";

#[track_caller]
fn start<'a>(site: &'a Site, main: &str) -> Server<'a> {
    let server = Server::start(site, Program::Sealane, &SERVE.replace("MAIN", main));
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    for alert in [
        "crashed: signal",
        "exited on signal",
        "#",
        "names of these",
        "keep dying",
    ] {
        server.expect_alert(alert);
    }
    server
}

/// Kills the worker and returns the process id of the next one.
#[track_caller]
fn kill(server: &Server<'_>, signal: &str) -> u32 {
    let worker = server.worker_pid();
    command("kill", &[&format!("-{signal}"), &worker.to_string()], b"").success();
    let next = wait_for("another worker", || {
        let workers = server.worker_pids();
        workers.first().filter(|pid| **pid != worker).copied()
    });
    // The connection waits in the queue of the socket that stayed open.
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    next
}

#[test]
fn the_log_has_signal_build_and_stack_and_the_next_worker_serves() {
    let site = site();
    let server = start(&site, "");
    for (signal, name) in [
        ("SEGV", "signal 11 (SIGSEGV)"),
        ("BUS", "signal 7 (SIGBUS)"),
        ("ILL", "signal 4 (SIGILL)"),
        ("FPE", "signal 8 (SIGFPE)"),
        ("ABRT", "signal 6 (SIGABRT)"),
    ] {
        kill(&server, signal);
        let line = server.wait_for_log(name);
        assert!(line.contains("[alert]"), "{line}");
        assert!(line.contains("worker process crashed"), "{line}");
        assert!(line.contains("thread \"sealane: worker\""), "{line}");
        let id = line.rsplit_once("build id ").expect("a build id").1;
        let notes = command(
            "readelf",
            &["-n", &sealane_binary().display().to_string()],
            b"",
        );
        assert!(notes.success().text().contains(id), "{id}");
    }
    let log = server.error_log();
    let names = log
        .lines()
        .find_map(|line| Some(line.split_once("names of these: ")?.1));
    let words: Vec<&str> = names.expect("a command").split(' ').collect();
    assert_eq!(words[0], "addr2line");
    let names = command(words[0], &words[1..], b"").success().text();
    assert!(names.contains("worker_process"), "{names}");
}

#[test]
fn a_master_that_crashes_says_so_as_well() {
    let site = site();
    let server = start(&site, "");
    server.expect_alert("master process");
    let text = server.error_log();
    assert!(!text.contains("crashed"), "{text}");
    let (master, worker) = (server.pid(), server.worker_pid());
    // It must not be stopped by the harness, which has to see that it is dead.
    let status = server.stop("SEGV");
    assert!(!status.success());
    let text = std::fs::read_to_string(site.path("logs/error.log")).expect("a log");
    assert!(
        text.contains("master process crashed: signal 11 (SIGSEGV)"),
        "{text}"
    );
    assert!(text.contains(&format!("{master}#{master}: #0 ")), "{text}");
    wait_for("the worker to end", || {
        let gone = !PathBuf::from(format!("/proc/{worker}/exe")).exists();
        gone.then_some(())
    });
}
