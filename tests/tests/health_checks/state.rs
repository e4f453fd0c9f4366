//! Verdicts outlive configurations, processes and binaries; thousands of servers.

use super::origin::{Changing, Mode};
use super::{configuration, get, state_at, state_of, statuses, wait_for_state};
use sealane_tests::reload::{self, Reload};
use sealane_tests::upgrade::Daemon;
use sealane_tests::{Program, Site, wait_for};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// A whole configuration file.
fn whole(a: u16, b: u16, group: &str, check: &str) -> String {
    let http = configuration(a, b, group, check);
    format!(
        "error_log logs/error.log info; pid logs/pid; worker_processes 2; events {{}}
        http {{ access_log off; {http} }}"
    )
}

#[test]
fn verdicts_outlive_a_reload() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Status(500)));
    let check = "health_check interval=100ms mandatory persistent;";
    let whole = |group: &str, check: &str| whole(a.port(), b.port(), group, check);
    let server = site.serve_whole(&whole("", check));
    wait_for_state(&server, b.port(), "unhealthy");
    wait_for_state(&server, a.port(), "up");
    // From now on nobody finds out anything new.
    a.becomes(Mode::Hangs);
    let check = "health_check interval=1h mandatory persistent;";
    let changed = whole("least_conn;", check);
    assert_eq!(reload::reload(&site, &server, &changed), Reload::Applied);
    assert_eq!(state_of(&server, a.port()), "up");
    assert_eq!(state_of(&server, b.port()), "unhealthy");
    // Without the check there is nothing against it.
    let changed = whole("", "");
    assert_eq!(reload::reload(&site, &server, &changed), Reload::Applied);
    assert_eq!(state_of(&server, b.port()), "up");
}

#[test]
fn verdicts_outlive_a_worker_process() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Status(500)));
    let check = "health_check interval=50ms mandatory;";
    let server = site.serve(&configuration(a.port(), b.port(), "", check));
    wait_for_state(&server, b.port(), "unhealthy");
    wait_for_state(&server, a.port(), "up");
    // Neither answers the first check of the next process for a second.
    a.becomes(Mode::Hangs);
    b.becomes(Mode::Hangs);
    let worker = server.worker_pid();
    server.kill_worker();
    server.expect_alert("exited on signal 9");
    wait_for("another worker", || {
        (server.worker_pid() != worker).then_some(())
    });
    assert_eq!(state_of(&server, b.port()), "unhealthy");
}

#[test]
fn verdicts_outlive_an_upgrade() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Status(500)));
    let whole = |check: &str| whole(a.port(), b.port(), "", check);
    let check = "health_check interval=50ms mandatory;";
    let daemon = Daemon::start(&site, Program::Sealane, &whole(check));
    let plain = site.port("plain");
    for (port, state) in [(a.port(), "up"), (b.port(), "unhealthy")] {
        wait_for(state, || (state_at(plain, port) == state).then_some(()));
    }
    // Neither answers the first check of the new process for a second.
    a.becomes(Mode::Hangs);
    b.becomes(Mode::Hangs);
    daemon.configure(&whole("health_check interval=1h fails=9 mandatory;"));
    daemon.upgrade();
    assert_eq!(state_at(plain, a.port()), "up");
    assert_eq!(state_at(plain, b.port()), "unhealthy");
}

#[test]
fn two_locations_check_a_group_together() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Works));
    let check = "health_check interval=30ms match=good;
        location /more { proxy_pass http://both; health_check interval=30ms match=none; }";
    let text = configuration(a.port(), b.port(), "", check);
    let server = site.serve(&format!("match none {{ header ! X-Version; }} {text}"));
    wait_for_state(&server, a.port(), "unhealthy");
    let line = server.wait_for_log("is unhealthy");
    assert!(
        line.contains("(health_check in location \"/more\")"),
        "{line}"
    );
    assert!(
        line.contains("header \"X-Version\" is not what match \"none\" wants"),
        "{line}"
    );
}

/// 5,000 servers, of which some refuse connections, are asked in turn.
#[test]
fn thousands_of_servers_are_not_asked_all_at_once() {
    const SERVERS: usize = 5_000;
    let site = Site::new();
    // One socket accepts for all loopback addresses.
    let all = Changing::on(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), Mode::Works);
    let port = all.port();
    let lines: String = (0..SERVERS)
        .map(|at| format!("server 127.1.{}.{}:{port};\n", at / 250, at % 250 + 1))
        .collect();
    let server = site.serve(&format!(
        "upstream many {{ {lines} check interval=5000 timeout=4000 fall=1 rise=1; }}
        server {{
            listen 127.0.0.1:%plain%;
            location / {{ proxy_pass http://many; }}
            location = /checks {{ check_status json; }}
        }}"
    ));
    let begun = Instant::now();
    let mut per_second = Vec::new();
    let mut before = 0;
    let up = |page: &str| page.contains(&format!("\"up\":{SERVERS}"));
    wait_for("all servers to pass", || {
        let now = all.connections();
        per_second.push((begun.elapsed(), now - before));
        before = now;
        std::thread::sleep(Duration::from_millis(200));
        up(&get(server.port("plain"), "/checks").text()).then_some(())
    });
    // As many as the interval allows, and one more for the round that has begun.
    let rounds = begun.elapsed().as_secs_f64() / 5.0 + 2.0;
    let connections = all.connections();
    assert!(
        (connections as f64) < rounds * SERVERS as f64,
        "{connections} in {rounds} rounds"
    );
    for (at, count) in per_second {
        println!("{:.1} s: {count} connections", at.as_secs_f64());
    }
    assert_eq!(statuses(&server, 3), [200; 3]);
}
