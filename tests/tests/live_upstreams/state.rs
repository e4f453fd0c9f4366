//! `state`: the file that keeps the servers of a group.

use super::{answering, ask, json, origin};
use sealane_tests::reload::{Reload, ask as command, reload_as_it_is};
use sealane_tests::wire::get;
use sealane_tests::{Server, Site, scale};
use serde_json::json as value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

const SERVERS: &str = "/api/9/http/upstreams/app/servers/";

const CONFIGURATION: &str = "
    upstream app { zone app 64k; state state/app.conf; }
    server {
        listen 127.0.0.1:%plain%;
        location / { proxy_pass http://app; }
        location /api/ { api write=on; }
    }";

fn add(server: &Server<'_>, port: u16) {
    let body = value!({"server": format!("127.0.0.1:{port}")}).to_string();
    let answer = ask(server, "POST", SERVERS, &body);
    assert_eq!(
        answer.status,
        201,
        "{}\n{}",
        answer.text(),
        server.error_log()
    );
}

/// A site with the directory of the file.
fn site() -> Site {
    let site = Site::new();
    site.write("state/.keep", "");
    // For the user of the worker process.
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(site.path("state"), all).expect("the site is writable");
    site
}

#[test]
fn servers_outlive_a_reload_and_a_restart() {
    let (site, a, b) = (site(), origin(), origin());
    let server = site.serve(CONFIGURATION);
    assert_eq!(get(server.port("plain"), "/").status, 502);
    add(&server, a.port());
    add(&server, b.port());
    let body = value!({"weight": 3, "route": "x y", "max_conns": 7}).to_string();
    ask(&server, "PATCH", &format!("{SERVERS}1"), &body);
    let all = ask(&server, "GET", SERVERS, "").text();
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(ask(&server, "GET", SERVERS, "").text(), all);
    assert_eq!(answering(&server, "/", 8), [a.port(), b.port()].into());
    server.wait_for_log("server 1 was changed in upstream \"app\"");
    server.stop("QUIT");
    let file = fs::read_to_string(site.path("state/app.conf")).expect("it was written");
    assert!(file.starts_with("# sealane state 1 bytes="), "{file}");
    let server = site.serve(CONFIGURATION);
    assert_eq!(ask(&server, "GET", SERVERS, "").text(), all, "{file}");
    assert_eq!(answering(&server, "/", 8), [a.port(), b.port()].into());
}

#[test]
fn a_file_that_is_cut_at_any_byte_is_refused() {
    let site = site();
    let server = site.serve(CONFIGURATION);
    for port in [1, 2] {
        add(&server, port);
    }
    server.stop("QUIT");
    let path = site.path("state/app.conf");
    let content = fs::read(&path).expect("it was written");
    for end in 0..content.len() {
        fs::write(&path, &content[..end]).expect("the site is writable");
        let tested = command(&site, &["-t"]);
        let text = tested.stderr;
        assert!(tested.status != 0, "{end}: {text}");
        assert!(
            text.contains("state file") && text.contains("remove it"),
            "{end}: {text}"
        );
    }
    for (other, message) in [
        (&b"listen 80;"[..], "not allowed"),
        (b"server 127.0.0.1:1", "unexpected end of file"),
        (b"server 127.0.0.1:1; }", "unexpected"),
        (b"include other;", "failed"),
    ] {
        fs::write(&path, other).expect("the site is writable");
        let text = command(&site, &["-t"]).stderr;
        assert!(
            text.contains("cannot be used") && text.contains(message),
            "{text}"
        );
    }
    // As nginx writes it.
    fs::write(&path, "server 127.0.0.1:7;\n").expect("the site is writable");
    assert!(command(&site, &["-t"]).status == 0);
    fs::write(&path, &content).expect("the site is writable");
    assert!(command(&site, &["-t"]).status == 0);
}

#[test]
fn what_somebody_else_writes_is_not_overwritten_and_a_reload_takes_it_over() {
    let (site, a, b) = (site(), origin(), origin());
    let server = site.serve(CONFIGURATION);
    add(&server, a.port());
    let path = site.path("state/app.conf");
    let line = format!("server 127.0.0.1:{};\n", b.port());
    fs::write(&path, &line).expect("the site is writable");
    let refused = ask(&server, "DELETE", &format!("{SERVERS}0"), "");
    let error = json(&refused);
    assert_eq!(
        (refused.status, &error["error"]["code"]),
        (500, &value!("UpstreamStateError"))
    );
    assert!(refused.text().contains("reload to take it over"), "{error}");
    assert_eq!(answering(&server, "/", 2), [a.port()].into());
    assert_eq!(fs::read_to_string(&path).expect("there"), line);
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(answering(&server, "/", 2), [b.port()].into());
    add(&server, a.port());
    assert_eq!(answering(&server, "/", 4), [a.port(), b.port()].into());
}

#[test]
fn a_change_that_cannot_be_written_is_no_change() {
    let (site, a) = (site(), origin());
    let server = site.serve(CONFIGURATION);
    add(&server, a.port());
    let (directory, away) = (site.path("state"), site.path("away"));
    fs::rename(&directory, &away).expect("the site is writable");
    // A file where the directory has been.
    fs::write(&directory, "").expect("the site is writable");
    let refused = ask(&server, "DELETE", &format!("{SERVERS}0"), "");
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert_eq!(answering(&server, "/", 2), [a.port()].into());
    fs::remove_file(&directory).expect("it is a file");
    fs::rename(&away, &directory).expect("the site is writable");
    let removed = ask(&server, "DELETE", &format!("{SERVERS}0"), "");
    assert_eq!(removed.status, 200, "{}", removed.text());
}

#[test]
fn nothing_is_lost_that_changes_during_reloads() {
    let site = site();
    let server = site.serve_with("worker_processes 2;", "", CONFIGURATION);
    let changes = scale(150, 2_000);
    thread::scope(|scope| {
        let changing = scope.spawn(|| {
            for number in 0..changes {
                let port = u16::try_from(1 + number % 60_000).expect("below 65536");
                add(&server, port);
                if number >= 50 {
                    let target = format!("{SERVERS}{}", number - 50);
                    assert_eq!(ask(&server, "DELETE", &target, "").status, 200);
                }
            }
        });
        while !changing.is_finished() {
            assert_eq!(reload_as_it_is(&server), Reload::Applied);
        }
    });
    let all = json(&ask(&server, "GET", SERVERS, ""));
    let ids: Vec<u64> = all
        .as_array()
        .expect("a list")
        .iter()
        .map(|server| server["id"].as_u64().expect("a number"))
        .collect();
    let wanted: Vec<u64> = (changes - 50..changes).map(|id| id as u64).collect();
    assert_eq!(ids, wanted);
    let before = ask(&server, "GET", SERVERS, "").text();
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(ask(&server, "GET", SERVERS, "").text(), before);
}

#[test]
fn state_takes_the_place_of_servers_and_needs_a_zone() {
    let site = site();
    for (block, message) in [
        ("state a; server 127.0.0.1;", "cannot be used together"),
        (
            "zone z 64k; server 127.0.0.1; state a;",
            "cannot be used together",
        ),
        ("state a;", "requires upstream \"app\""),
        ("zone z 64k; state a; state b;", "is duplicate"),
        ("zone z 64k; state state;", "cannot be read"),
    ] {
        site.write(
            "sealane.conf",
            format!("events {{}} http {{ upstream app {{ {block} }} }}"),
        );
        let text = command(&site, &["-t"]).stderr;
        assert!(text.contains(message), "{block}: {text}");
    }
}
