//! `resolver_file`, `backtrace_log`, `worker_cpu_affinity off`.

use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{NameServer, Program, Server, Site, command, wait_for, wire};
use std::fs;
use std::net::Ipv4Addr;

#[test]
fn name_servers_come_from_a_file() {
    let site = Site::new();
    let origin = Origin::answering(|_: &Asked| {
        Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
    });
    sealane_needs::root();
    // Nobody else's; the port is that of every name server in such a file.
    let address = Ipv4Addr::new(127, 53, 53, 7);
    let names = NameServer::at(address, 53);
    names.says("origin.test", &[Ipv4Addr::LOCALHOST]);
    let file = format!("# comment\nsearch example.org\nnameserver {address}\noptions rotate\n");
    site.write("resolv.conf", file);
    let server = site.serve(&format!(
        "resolver_file %site%/resolv.conf; resolver_timeout 5s;
         server {{ listen 127.0.0.1:%plain%;
             location / {{ set $host_name origin.test;
                 proxy_pass http://$host_name:{}; }} }}",
        origin.port()
    ));
    let response = wire::get(server.port("plain"), "/");
    assert_eq!((response.status, response.text()), (200, "ok".into()));
}

#[test]
fn a_crash_is_reported_in_the_configured_file() {
    let site = Site::new();
    let server = Server::start(
        &site,
        Program::Sealane,
        "error_log logs/error.log notice; backtrace_log logs/crashes.log; events {}
         http { server { listen 127.0.0.1:%plain%; return 200 hello; } }",
    );
    server.expect_alert("exited on signal");
    let worker = server.worker_pid();
    command("kill", &["-SEGV", &worker.to_string()], b"").success();
    let report = wait_for("the report", || {
        let report = fs::read_to_string(site.path("logs/crashes.log")).ok()?;
        report.contains("names of these").then_some(report)
    });
    assert!(
        report.contains("worker process crashed: signal 11 (SIGSEGV)"),
        "{report}"
    );
    wait_for("another worker", || {
        let workers = server.worker_pids();
        workers.iter().any(|pid| *pid != worker).then_some(())
    });
    assert_eq!(wire::get(server.port("plain"), "/").body, b"hello");
    let log = server.error_log();
    assert!(!log.contains("worker process crashed"), "{log}");
}

/// The CPUs that each worker thread of a server may use.
fn cpus(server: &Server<'_>) -> Vec<String> {
    let tasks = format!("/proc/{}/task", server.worker_pid());
    let threads = fs::read_dir(tasks).expect("it runs").flatten();
    let of = |path: std::path::PathBuf| {
        let name = fs::read_to_string(path.join("comm")).ok()?;
        let status = fs::read_to_string(path.join("status")).ok()?;
        let cpus = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        name.starts_with("worker-")
            .then(|| cpus.unwrap_or("?").trim().to_owned())
    };
    threads.filter_map(|thread| of(thread.path())).collect()
}

#[test]
fn off_leaves_threads_where_they_are() {
    let site = Site::new();
    let text = |affinity: &str| {
        format!(
            "worker_processes 2; worker_cpu_affinity {affinity}; events {{}}
             http {{ server {{ listen 127.0.0.1:%plain%; return 200; }} }}"
        )
    };
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let all = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let all = all.expect("a list").trim().to_owned();
    for (affinity, is_bound) in [("off", false), ("auto", true)] {
        let server = Server::start(&site, Program::Sealane, &text(affinity));
        // Threads are bound a moment after they have their names, and before they serve.
        for _ in 0..20 {
            assert_eq!(wire::get(server.port("plain"), "/").status, 200);
        }
        let is_one = |cpus: &String| cpus.parse::<usize>().is_ok();
        let found = wait_for("two threads", || {
            let found = cpus(&server);
            let are_ready = found.len() == 2 && (!is_bound || found.iter().all(is_one));
            are_ready.then_some(found)
        });
        if !is_bound {
            assert_eq!(found, [all.clone(), all.clone()]);
        }
    }
}
