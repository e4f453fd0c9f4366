//! Start, stop, death and rebirth.

use crate::site::{PATIENCE, Site, alive, get, is_root, kill, stderr, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

#[test]
fn stop_and_quit_end_both_processes_and_remove_the_pid_file() {
    for (order, signal) in [("stop", "15 (SIGTERM)"), ("quit", "3 (SIGQUIT)")] {
        let mut site = Site::serving("");
        site.start();
        let (master, worker) = (site.master(), site.worker());
        assert!(site.run(&["-s", order]).status.success());
        assert_eq!(site.wait_for_end(), Some(0));
        assert!(!alive(master) && !alive(worker));
        assert!(!site.path("logs/sealane.pid").exists());
        assert!(TcpStream::connect(site.address()).is_err());
        let log = site.text("logs/error.log");
        for line in [
            "using the \"epoll\" event method".to_owned(),
            "start worker processes".to_owned(),
            format!("start worker process {worker}"),
            format!("signal {signal} received from "),
            format!("worker process {worker} exited with code 0"),
            format!("[notice] {master}#{master}: exit\n"),
        ] {
            assert!(log.contains(&line), "no \"{line}\" in\n{log}");
        }
        assert!(!log.contains("[alert]"), "{log}");
    }
}

#[test]
fn quit_lets_a_request_under_way_finish_and_refuses_new_connections() {
    let mut site = Site::serving("");
    site.start();
    let mut connection = TcpStream::connect(site.address()).unwrap();
    connection.write_all(b"GET / HTTP/1.0\r\n").unwrap();
    // An exchange on a later connection proves that the first is accepted.
    site.wait_until_it_answers();
    site.signal_master("QUIT");
    site.wait_for_text("logs/error.log", "gracefully shutting down");
    wait_until("refusal", || TcpStream::connect(site.address()).is_err());
    connection.write_all(b"Host: localhost\r\n\r\n").unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("it works\n"), "{answer}");
    assert_eq!(site.wait_for_end(), Some(0));
}

#[test]
fn int_stops_at_once_even_with_open_connections() {
    let mut site = Site::serving("");
    site.start();
    let mut connection = TcpStream::connect(site.address()).unwrap();
    connection.write_all(b"GET / HTTP/1.0\r\n").unwrap();
    site.wait_until_it_answers();
    site.signal_master("QUIT");
    site.wait_for_text("logs/error.log", "gracefully shutting down");
    site.signal_master("INT");
    assert_eq!(site.wait_for_end(), Some(0));
    assert!(
        site.text("logs/error.log")
            .contains("signal 2 (SIGINT) received from ")
    );
}

#[test]
fn a_killed_worker_is_started_again_and_the_sockets_stay() {
    let mut site = Site::serving("");
    site.start();
    let first = site.worker();
    kill(first, "KILL");
    // No connection is refused meanwhile: the master has the socket.
    let waiting = TcpStream::connect(site.address()).expect("the socket stays open");
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(get(waiting).unwrap().ends_with("it works\n"));
    let second = site.worker();
    assert_ne!(first, second);
    let log = site.text("logs/error.log");
    let alert = format!(
        "[alert] {0}#{0}: worker process {first} exited on signal 9",
        site.master()
    );
    assert!(log.contains(&alert), "{log}");

    // The runtime takes a SEGV from outside for its own and lets the first pass.
    kill(second, "ABRT");
    site.wait_for_text(
        "logs/error.log",
        &format!("worker process {second} exited on signal 6"),
    );
    site.wait_until_it_answers();
}

#[test]
fn a_worker_answers_signals_by_itself() {
    let mut site = Site::serving("");
    site.start();
    for (signal, word) in [("TERM", "exiting"), ("QUIT", "shutting down")] {
        let worker = site.worker();
        kill(worker, signal);
        site.wait_for_text(
            "logs/error.log",
            &format!("worker process {worker} exited with code 0"),
        );
        let line = format!("{worker}#{worker}: signal ");
        let log = site.text("logs/error.log");
        let line = log.lines().find(|text| text.contains(&line)).unwrap();
        assert!(line.ends_with(word), "{line}");
        wait_until("another worker", || {
            site.workers().iter().any(|&pid| pid != worker)
        });
        site.wait_until_it_answers();
    }
}

#[test]
fn a_worker_without_its_master_says_so_and_ends() {
    let mut site = Site::serving("");
    site.start();
    let (master, worker) = (site.master(), site.worker());
    kill(master, "KILL");
    site.wait_for_end();
    wait_until("the end of the worker", || !alive(worker));
    let log = site.text("logs/error.log");
    assert!(log.contains(&format!(
        "[alert] {worker}#{worker}: master process {master} is gone"
    )));
    assert!(TcpStream::connect(site.address()).is_err());
    assert!(
        site.path("logs/sealane.pid").exists(),
        "nobody was there to remove it"
    );
    // The stale pid file is no obstacle.
    site.start();
    assert_ne!(site.master(), master);
}

#[test]
fn a_daemon_is_ready_when_its_command_returns() {
    let site = Site::serving("");
    let output = site.run(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    assert!(alive(site.master()), "the pid file is written");
    assert_eq!(site.workers().len(), 1);
    let master = site.master();
    let session = fs::read_to_string(format!("/proc/{master}/stat")).unwrap();
    let session = session
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(3)
        .unwrap()
        .to_owned();
    assert_eq!(session, master.to_string(), "it has a session of its own");
    let stderr = fs::read_link(format!("/proc/{master}/fd/2")).unwrap();
    assert_eq!(
        stderr,
        site.path("logs/error.log"),
        "what a library prints is not lost"
    );
    site.wait_until_it_answers();
    assert!(site.run(&["-s", "stop"]).status.success());
    wait_until("the end of the daemon", || !alive(master));
    assert!(!site.path("logs/sealane.pid").exists());
}

#[test]
fn a_daemon_that_cannot_write_its_pid_fails_in_the_foreground() {
    let site = Site::serving("");
    let conf = fs::read_to_string(site.path("conf/nginx.conf")).unwrap();
    site.configure(&conf.replace("pid logs/", "pid none/"));
    let output = site.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("[emerg] open() \"") && text.contains("none/sealane.pid\" failed (2: "));
    assert!(
        TcpStream::connect(site.address()).is_err(),
        "nothing is left running"
    );
}

#[test]
fn one_process_alone_serves_and_stops() {
    let mut site = Site::serving("master_process off;");
    site.start();
    assert!(site.workers().is_empty());
    fs::rename(site.path("logs/error.log"), site.path("logs/error.log.1")).unwrap();
    site.signal_master("USR1");
    wait_until("the new log", || site.path("logs/error.log").exists());
    site.signal_master("QUIT");
    assert_eq!(site.wait_for_end(), Some(0));
    assert!(!site.path("logs/sealane.pid").exists());
}

#[test]
fn the_worker_has_no_privileges_but_limits_and_a_time_zone() {
    let site = Site::serving("worker_rlimit_nofile 300; worker_processes 2;");
    let started = site.command().env("TZ", "Asia/Kathmandu").output().unwrap();
    assert!(started.status.success(), "{}", stderr(&started));
    let worker = site.worker();
    site.wait_until_it_answers();
    let limits = fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    assert!(
        files.contains(" 600 "),
        "twice 300 for two threads: {files}"
    );
    // TZ is kept without being named: its offset is in the access log.
    site.wait_for_text("logs/access.log", " +0545] ");
    if is_root() {
        let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let field = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(!field("Uid:").contains("\t0"), "{status}");
        assert!(!field("Gid:").contains("\t0"), "{status}");
        assert_eq!(field("CapEff:"), "CapEff:\t0000000000000000");
    }
    let master = site.master();
    assert!(site.run(&["-s", "stop"]).status.success());
    wait_until("the end of the daemon", || !alive(master));
}

#[test]
fn a_worker_that_cannot_start_is_not_started_for_ever() {
    let mut site = Site::serving("");
    // It is there, but the worker may not go there.
    let closed = site.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o400)).unwrap();
    let (closed, rest) = (closed.display(), site.text("conf/nginx.conf"));
    site.configure(&format!("working_directory {closed};\n{rest}"));
    site.spawn();
    site.wait_for_text(
        "logs/error.log",
        "exited with fatal code 2 and cannot be respawned",
    );
    let log = site.text("logs/error.log");
    assert!(
        log.contains("/closed\") failed (13: Permission denied)"),
        "{log}"
    );
    assert_eq!(log.matches("start worker process ").count(), 1, "{log}");
    site.signal_master("TERM");
    assert_eq!(site.wait_for_end(), Some(0));
}
