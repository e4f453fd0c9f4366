//! Active health checks: `health_check` and `match`, and Tengine's `check`.

#[path = "health_checks/origin.rs"]
mod origin;
#[path = "health_checks/protocols.rs"]
mod protocols;
#[path = "health_checks/shared.rs"]
mod shared;
#[path = "health_checks/state.rs"]
mod state;

use origin::{Changing, Mode};
use sealane_tests::wire::get;
use sealane_tests::{Server, Site, wait_for};
use std::net::SocketAddr;

/// A group of two servers with these lines, and a location with those.
fn configuration(a: u16, b: u16, group: &str, location: &str) -> String {
    format!(
        "match good {{ status 200-299; header X-Version = 7; body ~ \"^up\"; }}
        upstream both {{
            zone both 64k;
            server 127.0.0.1:{a} max_fails=0;
            server 127.0.0.1:{b} max_fails=0;
            {group}
        }}
        server {{
            listen 127.0.0.1:%plain%;
            proxy_connect_timeout 1s;
            proxy_read_timeout 1s;
            proxy_next_upstream off;
            location / {{ proxy_pass http://both; {location} }}
            location = /peers {{ api /status/; }}
            location = /checks {{ check_status json; }}
            location = /checks.csv {{ check_status csv; }}
            location = /checks.html {{ check_status; }}
            location = /metrics {{ metrics; }}
        }}"
    )
}

/// The state of each server of the group, by port.
fn state_of(server: &Server<'_>, port: u16) -> String {
    state_at(server.port("plain"), port)
}

/// The same, by the port of the server under test.
fn state_at(plain: u16, port: u16) -> String {
    let metrics = get(plain, "/metrics").text();
    let mark = format!("upstream=\"both\",peer=\"127.0.0.1:{port}\",state=\"");
    let line = metrics.lines().find(|line| {
        line.starts_with("sealane_upstream_peer_state{")
            && line.contains(&mark)
            && line.ends_with(" 1")
    });
    let line = line.unwrap_or_else(|| panic!("no state of {port} in\n{metrics}"));
    let state = line.split("state=\"").nth(1).expect("a label");
    state.split('"').next().expect("an end").to_owned()
}

#[track_caller]
fn wait_for_state(server: &Server<'_>, port: u16, state: &str) {
    wait_for(
        &format!("{port} to be {state}: {}", server.error_log()),
        || (state_of(server, port) == state).then_some(()),
    );
}

/// The statuses of so many requests.
fn statuses(server: &Server<'_>, requests: usize) -> Vec<u16> {
    let get = |_| get(server.port("plain"), "/page").status;
    (0..requests).map(get).collect()
}

#[test]
fn a_server_that_fails_gets_no_requests_until_it_passes_again() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Works));
    let check = "health_check interval=30ms fails=2 passes=3 uri=/health?of=a match=good;";
    let server = site.serve(&configuration(a.port(), b.port(), "", check));
    assert_eq!(statuses(&server, 4), [200; 4]);
    let rounds = [
        (
            Mode::Status(500),
            "status 500 is not what match \"good\" wants",
        ),
        (Mode::Closes, "while reading response header from upstream"),
        (Mode::Hangs, "upstream timed out"),
        // Every byte comes in time, but the end never does.
        (Mode::Drips, "upstream timed out"),
        (Mode::Babbles, "upstream sent"),
    ];
    for (round, (mode, reason)) in rounds.into_iter().enumerate() {
        b.becomes(mode);
        wait_for_state(&server, b.port(), "unhealthy");
        let port = b.port();
        let text = format!("upstream server 127.0.0.1:{port} of \"both\" is unhealthy");
        // Another thread writes the log.
        let last = wait_for("the line of this round", || {
            let log = server.error_log();
            let mut lines = log.lines().filter(|line| line.contains(&text));
            lines.nth(round).map(str::to_owned)
        });
        assert!(last.contains(reason), "{mode:?}: {last}");
        assert!(last.contains("(health_check in location \"/\")"), "{last}");
        assert_eq!(statuses(&server, 6), [200; 6], "{mode:?}");
        b.becomes(Mode::Works);
        wait_for_state(&server, b.port(), "up");
    }
    // What is asked is what the location sends.
    let heads = a.take_heads();
    let head = heads
        .iter()
        .find(|head| head.starts_with("GET /health?of=a "));
    let head = head.expect("a check");
    assert!(head.contains("Host: both\r\n"), "{head}");
    assert!(
        head.contains("User-Agent: sealane (health check)\r\n"),
        "{head}"
    );
}

#[test]
fn a_server_that_dies_is_left_out_and_returns_when_it_is_started_again() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Works));
    let check = "health_check interval=30ms;";
    let server = site.serve(&configuration(a.port(), b.port(), "", check));
    wait_for("checks", || (b.connections() > 2).then_some(()));
    let address: SocketAddr = b.dies();
    wait_for_state(&server, address.port(), "unhealthy");
    assert_eq!(statuses(&server, 8), [200; 8]);
    let b = Changing::on(address, Mode::Works);
    wait_for_state(&server, b.port(), "up");
    b.take_heads();
    assert_eq!(statuses(&server, 8), [200; 8]);
    let pages = b.take_heads();
    let pages = pages.iter().filter(|head| head.starts_with("GET /page "));
    assert_eq!(pages.count(), 4);
}

#[test]
fn the_verdict_changes_after_as_many_results_as_configured() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Status(503)));
    let check = "health_check interval=50ms fails=5 passes=1;";
    let server = site.serve(&configuration(a.port(), b.port(), "", check));
    wait_for_state(&server, b.port(), "unhealthy");
    let line = server.wait_for_log("is unhealthy");
    assert!(line.contains("it answers with status 503"), "{line}");
    let asked = b.take_heads().len();
    assert!(asked >= 5, "unhealthy after {asked} checks");
    let checks = |name: &str| {
        let metrics = get(server.port("plain"), "/metrics").text();
        let start = format!(
            "sealane_{name}{{upstream=\"both\",peer=\"127.0.0.1:{}\"",
            b.port()
        );
        let line = metrics.lines().find(|line| line.starts_with(&start));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value
            .and_then(|value| value.parse::<u64>().ok())
            .expect(name)
    };
    assert!(checks("upstream_health_checks_failed_total") >= 5);
    assert_eq!(checks("upstream_unhealthy_total"), 1);
    b.becomes(Mode::Works);
    wait_for_state(&server, b.port(), "up");
    let api = get(server.port("plain"), "/peers").text();
    assert!(api.contains("\"health_checks\": {"), "{api}");
}

#[test]
fn mandatory_servers_get_no_requests_before_they_have_passed() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Hangs));
    let check = "health_check interval=30ms mandatory;";
    let server = site.serve(&configuration(a.port(), b.port(), "", check));
    // It neither passes nor fails for a while.
    assert_ne!(state_of(&server, b.port()), "up");
    wait_for_state(&server, a.port(), "up");
    assert_eq!(statuses(&server, 6), [200; 6]);
    let pages = b.take_heads();
    assert!(
        pages.iter().all(|head| !head.contains("/page")),
        "{pages:?}"
    );
}

#[test]
fn requests_get_502_while_no_server_is_healthy() {
    let site = Site::new();
    let (a, b) = (
        Changing::new(Mode::Status(404)),
        Changing::new(Mode::Status(404)),
    );
    let check = "health_check interval=30ms;";
    let server = site.serve(&configuration(a.port(), b.port(), "", check));
    wait_for_state(&server, a.port(), "unhealthy");
    wait_for_state(&server, b.port(), "unhealthy");
    assert_eq!(statuses(&server, 2), [502; 2]);
    server.wait_for_log("no live upstreams while connecting to upstream");
}

#[test]
fn another_port_can_be_asked() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Works));
    let health = Changing::new(Mode::Status(500));
    let check = format!("health_check interval=30ms port={};", health.port());
    let server = site.serve(&configuration(a.port(), b.port(), "", &check));
    wait_for_state(&server, a.port(), "unhealthy");
    wait_for_state(&server, b.port(), "unhealthy");
    health.becomes(Mode::Works);
    wait_for_state(&server, a.port(), "up");
    wait_for_state(&server, b.port(), "up");
    assert_eq!((a.connections(), b.connections()), (0, 0));
}

#[test]
fn checks_can_share_a_connection() {
    let site = Site::new();
    let (a, b) = (Changing::new(Mode::Works), Changing::new(Mode::Works));
    let check = "health_check interval=20ms keepalive_time=1h;";
    let server = site.serve(&configuration(a.port(), b.port(), "", check));
    let mut checks = 0;
    wait_for("checks", || {
        checks += a.take_heads().len();
        (checks > 10).then_some(())
    });
    assert_eq!(a.connections(), 1);
    // One that is closed meanwhile is no failure.
    a.becomes(Mode::Closes);
    wait_for_state(&server, a.port(), "unhealthy");
    drop(server);
}
