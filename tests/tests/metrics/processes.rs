//! The processes of the server: their lives, what they may have, what they lose.

use super::*;

/// A configuration with other limits and another worker process, one that cannot be used, and the
/// deaths of a worker and of the key process.
pub(super) const MOVES: &[Move] = &[
    ("sealane_reloads_total{result=\"success\"}", By(1)),
    ("sealane_reloads_total{result=\"refused\"}", By(1)),
    ("sealane_worker_starts_total", By(2)),
    ("sealane_worker_deaths_total", By(1)),
    ("sealane_key_process_starts_total", By(1)),
    ("sealane_key_process_deaths_total", By(1)),
    ("sealane_worker_threads", To(2.0)),
    ("sealane_worker_connections", To(600.0)),
    ("sealane_configuration_load_time_seconds", Up),
    ("sealane_start_time_seconds", By(0)),
    ("sealane_build_info", To(1.0)),
];

/// A thousand idle connections, one after the other.
pub(super) const OPEN: &[Move] = &[
    ("sealane_process_open_fds", Up),
    ("sealane_process_resident_memory_bytes", Up),
];

/// More of everything that can be configured.
pub(super) const MORE: &[&str] = &[
    "sealane_start_time_seconds",
    "sealane_process_max_fds",
    "sealane_process_virtual_memory_bytes",
    "sealane_metrics_memory_bytes",
    "sealane_metrics_memory_limit_bytes",
];

/// Lines for a log that cannot be written.
pub(super) const LOST: &[Move] = &[("sealane_log_lines_lost_total", Up)];

fn configuration(main: &str, connections: usize, more: &str) -> String {
    format!(
        "pid logs/pid; error_log logs/error.log notice; {main}
         events {{ worker_connections {connections}; }}
         http {{ access_log off; {more} server {{ listen 127.0.0.1:%plain%; return 204; }}
             server {{ listen 127.0.0.1:%metrics%; location = /metrics {{ metrics; }} }} }}"
    )
}

#[test]
fn what_becomes_of_processes_and_configurations_is_counted_and_told() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let with_keys = "server { listen 127.0.0.1:%tls% ssl;
        ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key; }";
    let configuration = |main: &str, connections| configuration(main, connections, with_keys);
    let server = site.serve_whole(&configuration("worker_processes 1;", 500));
    let watch = Watch::start(&server);
    watch.saw(&[
        ("sealane_worker_threads", To(1.0)),
        ("sealane_worker_connections", To(500.0)),
    ]);
    // Times are in whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    // More threads need another process.
    let more = configuration("worker_processes 2;", 600);
    assert_eq!(reload(&site, &server, &more), Reload::Applied);
    server.expect_alert("the new configuration is refused");
    server.expect_alert("unknown directive");
    assert_eq!(
        reload(&site, &server, &more.replace("return", "retrun")),
        Reload::Refused
    );
    wait_for("the first process to end", || {
        (server.worker_pids().len() == 1).then_some(())
    });
    server.expect_alert("exited on signal 9");
    server.kill_worker();
    server.kill_key_process();
    watch.saw(MOVES);
    server.wait_for_log("the new configuration is refused");
    server.wait_for_log("exited on signal 9");
}

#[test]
fn what_the_process_has_and_may_have_is_what_was_configured() {
    let site = Site::new();
    let small = "worker_rlimit_nofile 1000; metrics_memory 1m;";
    let server = site.serve_whole(&configuration(small, 500, ""));
    let before = samples(server.port("metrics"));
    drop(server);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    // Much more address space: by itself it differs by some 60 MB from one start to the next.
    let large = "worker_rlimit_nofile 2000; metrics_memory 1500m; worker_processes 2;";
    let names: String = (0..50)
        .map(|number| {
            format!("server {{ listen 127.0.0.1:%plain%; server_name {number}.test; }}\n")
        })
        .collect();
    let server = site.serve_whole(&configuration(large, 500, &names));
    let after = samples(server.port("metrics"));
    for name in MORE {
        let (was, is) = (value(&before, name), value(&after, name));
        assert!(is > was, "{name} was {was}, is {is}");
    }
    let limit = "sealane_metrics_memory_limit_bytes";
    assert_eq!(
        (value(&before, limit), value(&after, limit)),
        (1048576.0, 1572864000.0)
    );
    assert!(value(&after, "sealane_metrics_memory_bytes") < value(&after, limit));
    let watch = Watch::start(&server);
    let open: Vec<_> = (0..400)
        .map(|_| Connection::open(server.port("plain")))
        .collect();
    watch.saw(OPEN);
    let fds = "sealane_process_open_fds";
    // Those in the backlog come later, and a descriptor or two may be closed meanwhile.
    wait_for("all connections to be accepted", || {
        (watch.growth(fds) >= 390.0).then_some(())
    });
    drop(open);
}

#[test]
fn lines_of_a_log_that_cannot_be_written_are_lost_and_told() {
    let site = Site::new();
    let text = configuration("worker_processes 1; log_queue_size 64k;", 500, "");
    let text = text.replace("access_log off;", "access_log /dev/full;");
    let server = site.serve_whole(&text);
    server.expect_alert("cannot be written");
    let watch = Watch::start(&server);
    let port = server.port("plain");
    let path = format!("/{}", "x".repeat(4000));
    wait_for("lines to be lost", || {
        wire::get(port, &path);
        (watch.growth("sealane_log_lines_lost_total") > 0.0).then_some(())
    });
    watch.saw(LOST);
    server.wait_for_log("cannot be written (28: No space left on device)");
}
