//! `dyups_interface`, as Tengine has it.

use super::{answering, ask, origin};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::wire::{get, get_with, request};
use sealane_tests::{Server, Site, wait_for};

fn configuration(first: u16, more: &str) -> String {
    format!(
        "dyups_shm_zone_size 4k;
        upstream host1 {{ server 127.0.0.1:{first}; }}
        {more}
        server {{
            listen 127.0.0.1:%plain%;
            location / {{ proxy_pass http://$http_x_group; }}
            location /fixed {{ proxy_pass http://host1; }}
            location /dyups/ {{ dyups_interface; }}
        }}"
    )
}

/// The status, and who answers, for a group.
fn through(server: &Server<'_>, group: &str) -> (u16, String) {
    let header = format!("X-Group: {group}\r\n");
    let response = get_with(server.port("plain"), "/", &header);
    let text = if response.status == 200 {
        response.text()
    } else {
        String::new()
    };
    (response.status, text)
}

fn to(port: u16) -> (u16, String) {
    (200, port.to_string())
}

#[test]
fn groups_are_made_shown_replaced_and_removed() {
    let site = Site::new();
    let (a, b) = (origin(), origin());
    let server = site.serve(&configuration(a.port(), ""));
    let ask = |method: &str, path: &str, body: &str| {
        let response = ask(&server, method, &format!("/dyups{path}"), body);
        (response.status, response.text())
    };
    let success = (200, "success".to_owned());
    let (a_line, b_line) = (
        format!("server 127.0.0.1:{}", a.port()),
        format!("server 127.0.0.1:{}", b.port()),
    );
    assert_eq!(ask("GET", "/list", ""), (200, "host1\n".to_owned()));
    assert_eq!(
        ask("GET", "/upstream/host1", ""),
        (200, format!("{a_line}\n"))
    );
    let details = " weight=1 max_conns=0 max_fails=1 fail_timeout=10 backup=0 down=0";
    assert_eq!(
        ask("GET", "/detail", ""),
        (200, format!("host1\n{a_line}{details}\n\n"))
    );
    assert_eq!(through(&server, "dyhost").0, 502);
    assert_eq!(
        ask("POST", "/upstream/dyhost", &format!("{b_line};")),
        success
    );
    assert_eq!(through(&server, "dyhost"), to(b.port()));
    assert_eq!(through(&server, "DYHOST"), to(b.port()));
    assert_eq!(ask("GET", "/list", ""), (200, "host1\ndyhost\n".to_owned()));
    // Another method and other servers.
    let both = format!("least_conn; {a_line} weight=2; {b_line};");
    assert_eq!(ask("POST", "/upstream/dyhost", &both), success);
    let shown = format!("{a_line}\n{b_line}\n");
    assert_eq!(ask("GET", "/upstream/dyhost", ""), (200, shown));
    assert_eq!(ask("DELETE", "/upstream/dyhost", ""), success);
    assert_eq!(through(&server, "dyhost").0, 502);
    assert_eq!(ask("DELETE", "/upstream/dyhost", "").0, 404);
    // A group of the configuration, for every location.
    assert_eq!(
        ask("POST", "/upstream/host1", &format!("{b_line};")),
        success
    );
    assert_eq!(answering(&server, "/fixed", 3), [b.port()].into());
    assert_eq!(through(&server, "host1"), to(b.port()));
    assert_eq!(ask("DELETE", "/upstream/host1", ""), success);
    assert_eq!(get(server.port("plain"), "/fixed").status, 502);
    assert_eq!(ask("GET", "/list", "").0, 204);
    assert_eq!(
        ask("POST", "/upstream/host1", &format!("{a_line};")),
        success
    );
    assert_eq!(answering(&server, "/fixed", 3), [a.port()].into());
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let site = Site::new();
    let a = origin();
    let server = site.serve(&configuration(a.port(), ""));
    let ask = |method: &str, path: &str, body: &str| {
        let response = ask(&server, method, &format!("/dyups{path}"), body);
        (response.status, response.text())
    };
    let long = format!("/upstream/{}", "n".repeat(300));
    let large = format!("server 127.0.0.1:1; # {}", "x".repeat(5000));
    for (method, path, body, status, text) in [
        ("GET", "/", "", 404, ""),
        ("GET", "/upstream/none", "", 404, ""),
        ("GET", "/upstream", "", 404, ""),
        ("PUT", "/upstream/new", "server 127.0.0.1:1;", 405, ""),
        (
            "POST",
            "/elsewhere/new",
            "server 127.0.0.1:1;",
            404,
            "not support",
        ),
        ("POST", "/upstream/new", "", 400, "no content"),
        ("POST", "/upstream/new", "keepalive 4;", 400, "no servers"),
        (
            "POST",
            "/upstream/new",
            "server 127.0.0.1:1",
            400,
            "unexpected end",
        ),
        (
            "POST",
            "/upstream/new",
            "server 127.0.0.1:1; } http {",
            400,
            "unexpected",
        ),
        (
            "POST",
            "/upstream/new",
            "server 127.0.0.1:1; include /etc/passwd;",
            400,
            "failed",
        ),
        (
            "POST",
            "/upstream/new",
            "server app.example;",
            400,
            "host not found",
        ),
        (
            "POST",
            "/upstream/new",
            "server app.example resolve;",
            400,
            "only addresses",
        ),
        (
            "POST",
            "/upstream/new",
            "server 127.0.0.1:1; state x;",
            400,
            "state",
        ),
        (
            "POST",
            "/upstream/new",
            "server 127.0.0.1:1 backup;",
            400,
            "backup",
        ),
        ("POST", "/upstream/new", "listen 80;", 400, "not allowed"),
        (
            "POST",
            "/upstream/host1",
            "least_conn; server 127.0.0.1:1;",
            400,
            "balancing method",
        ),
        ("POST", &*long, "server 127.0.0.1:1;", 400, "invalid name"),
        ("POST", "/upstream/new", &*large, 507, "dyups_shm_zone_size"),
    ] {
        let (found, answer) = ask(method, path, body);
        assert!(
            found == status && answer.contains(text),
            "{method} {path}: {found} {answer}"
        );
    }
    assert_eq!(ask("GET", "/list", ""), (200, "host1\n".to_owned()));
    assert_eq!(answering(&server, "/fixed", 2), [a.port()].into());
    // Odd bytes in a name.
    let name = "/dyups/upstream/%22%7b%20%24x";
    let made = request(
        server.port("plain"),
        &format!(
            "POST {name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 19\r\n\r\n\
             server 127.0.0.1:1;"
        ),
    );
    assert_eq!(made.status, 200, "{}", made.text());
    assert_eq!(ask("GET", "/list", ""), (200, "host1\n\"{ $x\n".to_owned()));
}

#[test]
fn groups_outlive_a_reload_unless_the_configuration_has_them() {
    let site = Site::new();
    let (a, b) = (origin(), origin());
    let server = site.serve(&configuration(a.port(), ""));
    let line = format!("server 127.0.0.1:{};", b.port());
    for name in ["one", "two", "host1"] {
        ask(&server, "POST", &format!("/dyups/upstream/{name}"), &line);
    }
    let more = format!("upstream two {{ server 127.0.0.1:{}; }}", a.port());
    let main = "error_log logs/error.log notice; pid logs/pid; events {} http { access_log off;";
    let whole = |more: &str| format!("{main} {} }}", configuration(a.port(), more));
    assert_eq!(reload(&site, &server, &whole(&more)), Reload::Applied);
    assert_eq!(through(&server, "one"), to(b.port()));
    assert_eq!(through(&server, "two"), to(a.port()));
    // As in nginx, its servers are those of the configuration again.
    assert_eq!(through(&server, "host1"), to(a.port()));
    assert_eq!(reload(&site, &server, &whole("")), Reload::Applied);
    assert_eq!(through(&server, "one"), to(b.port()));
    assert_eq!(through(&server, "two").0, 502);
}

#[test]
fn servers_of_a_new_group_are_checked() {
    let site = Site::new();
    let (a, b) = (origin(), origin());
    let server = site.serve(&configuration(a.port(), ""));
    let dead = {
        let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        gone.local_addr().expect("bound").port()
    };
    let text = format!(
        "server 127.0.0.1:{}; server 127.0.0.1:{dead} max_fails=0;
         check interval=50 rise=1 fall=1 timeout=1000 type=tcp default_down=false;",
        b.port()
    );
    let made = ask(&server, "POST", "/dyups/upstream/checked", &text);
    assert_eq!(made.text(), "success");
    wait_for("the dead server to be found", || {
        server
            .error_log()
            .contains(&format!("{dead} of \"checked\" is unhealthy"))
            .then_some(())
    });
    for _ in 0..6 {
        assert_eq!(through(&server, "checked"), to(b.port()));
    }
}
