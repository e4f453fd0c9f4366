//! `api write=on`, and `upstream_conf`.

use super::{answering, ask, json, origin};
use sealane_tests::reload::ask as command;
use sealane_tests::wire::{get, get_with, request};
use sealane_tests::{NameServer, Server, Site, wait_for};
use serde_json::json as value;
use std::net::Ipv4Addr;

const SERVERS: &str = "/api/9/http/upstreams/app/servers/";

fn configuration(first: u16, group: &str) -> String {
    format!(
        "upstream app {{ zone app 64k; server 127.0.0.1:{first}; {group} }}
        upstream static {{ server 127.0.0.1:{first}; }}
        server {{
            listen 127.0.0.1:%plain%;
            location / {{ proxy_pass http://app; proxy_next_upstream off; }}
            location /api {{ api write=on; }}
            location /read {{ api; }}
            location /conf {{ upstream_conf; }}
        }}"
    )
}

#[track_caller]
fn code_of(server: &Server<'_>, method: &str, target: &str, body: &str) -> (u16, String) {
    let response = ask(server, method, target, body);
    let error = json(&response);
    let code = error["error"]["code"]
        .as_str()
        .unwrap_or_else(|| panic!("{error}"));
    assert_eq!(error["error"]["status"], response.status);
    assert!(error["error"]["text"].is_string() && error["request_id"].is_string());
    (response.status, code.to_owned())
}

#[test]
fn servers_are_listed_added_changed_drained_and_removed() {
    let site = Site::new();
    let (a, b) = (origin(), origin());
    let server = site.serve(&configuration(a.port(), ""));
    let all = json(&ask(&server, "GET", SERVERS, ""));
    let address = format!("127.0.0.1:{}", a.port());
    assert_eq!(
        all,
        value!([{
            "id": 0, "server": address, "weight": 1, "max_conns": 0, "max_fails": 1,
            "fail_timeout": "10s", "slow_start": "0s", "route": "", "backup": false, "down": false,
        }])
    );

    let second = format!(
        "{{\"server\": \"127.0.0.1:{}\", \"weight\": 2, \"max_fails\": \"0\", \
         \"fail_timeout\": \"1m\", \"slow_start\": \"500ms\", \"route\": \"b r\"}}",
        b.port()
    );
    let added = ask(&server, "POST", SERVERS, &second);
    assert_eq!(added.status, 201, "{}", added.text());
    let location = added.header("Location").unwrap_or_default();
    let path = "/api/9/http/upstreams/app/servers/1/";
    assert!(
        location.starts_with("http://localhost") && location.ends_with(path),
        "{location}"
    );
    let shown = json(&added);
    assert_eq!((&shown["id"], &shown["weight"]), (&value!(1), &value!(2)));
    assert_eq!(
        (
            &shown["max_fails"],
            &shown["fail_timeout"],
            &shown["slow_start"],
            &shown["route"]
        ),
        (&value!(0), &value!("60s"), &value!("500ms"), &value!("b r"))
    );
    assert_eq!(answering(&server, "/", 12), [a.port(), b.port()].into());

    // What is shown can be sent back.
    let one = format!("{SERVERS}1");
    let mut changed = shown.clone();
    changed["weight"] = value!(5);
    for member in ["backup", "service"] {
        changed.as_object_mut().expect("an object").remove(member);
    }
    let answer = ask(&server, "PATCH", &one, &changed.to_string());
    assert_eq!((answer.status, &json(&answer)["weight"]), (200, &value!(5)));

    let zero = format!("{SERVERS}0/");
    let answer = ask(&server, "PATCH", &zero, "{\"drain\": true}");
    assert_eq!(
        (answer.status, &json(&answer)["drain"]),
        (200, &value!(true))
    );
    assert_eq!(answering(&server, "/", 6), [b.port()].into());
    let peers = json(&ask(&server, "GET", "/api/9/http/upstreams/app", ""));
    assert_eq!(peers["peers"][0]["state"], "draining", "{peers}");
    assert_eq!(peers["peers"][1]["id"], 1, "{peers}");

    let answer = ask(&server, "PATCH", &zero, "{\"drain\": false}");
    assert_eq!(json(&answer).get("drain"), None);
    let rest = json(&ask(&server, "DELETE", &one, ""));
    assert_eq!(rest.as_array().map(Vec::len), Some(1), "{rest}");
    assert_eq!(answering(&server, "/", 6), [a.port()].into());
    // A number is not given again.
    let again = json(&ask(&server, "POST", SERVERS, &second));
    assert_eq!(again["id"], 2);
    // Without any server there is nobody to ask.
    for id in [0, 2] {
        ask(&server, "DELETE", &format!("{SERVERS}{id}"), "");
    }
    assert_eq!(get(server.port("plain"), "/").status, 502);
    server.wait_for_log("no live upstreams");
}

#[test]
fn what_is_wrong_is_refused_in_nginxs_words_and_changes_nothing() {
    let site = Site::new();
    let a = origin();
    let server = site.serve(&configuration(a.port(), ""));
    let before = ask(&server, "GET", SERVERS, "").text();
    let one = &format!("{SERVERS}0");
    let fixed = "/api/9/http/upstreams/static/servers/";
    let good = "{\"server\": \"127.0.0.1:1\"}";
    for (method, target, body, status, code) in [
        ("GET", "/api/10/", "", 404, "UnknownVersion"),
        ("GET", "/api/0/http", "", 404, "UnknownVersion"),
        ("GET", "/api/9/nonsense", "", 404, "PathNotFound"),
        (
            "GET",
            "/api/9/http/upstreams/none/",
            "",
            404,
            "UpstreamNotFound",
        ),
        (
            "POST",
            "/api/9/http/upstreams/app/",
            good,
            405,
            "MethodNotAllowed",
        ),
        ("PUT", one, good, 405, "MethodNotAllowed"),
        ("DELETE", SERVERS, "", 405, "MethodNotAllowed"),
        (
            "POST",
            "/read/9/http/upstreams/app/servers",
            good,
            405,
            "MethodDisabled",
        ),
        (
            "DELETE",
            "/read/9/http/upstreams/app/servers/0",
            "",
            405,
            "MethodDisabled",
        ),
        ("GET", fixed, "", 400, "UpstreamStatic"),
        ("POST", fixed, good, 400, "UpstreamStatic"),
        ("POST", SERVERS, "", 415, "JsonError"),
        ("POST", SERVERS, "{\"server\":", 415, "JsonError"),
        ("POST", SERVERS, "[]", 400, "UpstreamConfFormatError"),
        ("POST", SERVERS, "{}", 400, "UpstreamConfFormatError"),
        (
            "POST",
            SERVERS,
            "{\"server\": [\"127.0.0.1\"]}",
            400,
            "UpstreamConfFormatError",
        ),
        (
            "POST",
            SERVERS,
            "{\"server\": null}",
            400,
            "UpstreamConfFormatError",
        ),
        (
            "POST",
            SERVERS,
            "{\"server\": true}",
            400,
            "UpstreamConfFormatError",
        ),
        (
            "POST",
            SERVERS,
            "{\"server\": \"127.0.0.1\", \"cat\": 1}",
            400,
            "UpstreamConfFormatError",
        ),
        (
            "POST",
            SERVERS,
            "{\"server\": \"127.0.0.1:99999\"}",
            400,
            "UpstreamBadAddress",
        ),
        (
            "POST",
            SERVERS,
            "{\"server\": \"\"}",
            400,
            "UpstreamBadAddress",
        ),
        (
            "POST",
            SERVERS,
            "{\"server\": \"127.0.0.1; server ::1\"}",
            400,
            "UpstreamBadAddress",
        ),
        (
            "POST",
            SERVERS,
            "{\"server\": \"http://127.0.0.1/\"}",
            400,
            "UpstreamBadAddress",
        ),
        (
            "POST",
            SERVERS,
            "{\"server\": \"app.example\"}",
            400,
            "UpstreamConfNoResolver",
        ),
        ("PATCH", one, "{\"weight\": 0}", 400, "UpstreamBadWeight"),
        ("PATCH", one, "{\"weight\": -1}", 400, "UpstreamBadWeight"),
        ("PATCH", one, "{\"weight\": 1.5}", 400, "UpstreamBadWeight"),
        (
            "PATCH",
            one,
            "{\"weight\": \"1 backup\"}",
            400,
            "UpstreamBadWeight",
        ),
        (
            "PATCH",
            one,
            "{\"max_conns\": \"many\"}",
            400,
            "UpstreamBadMaxConns",
        ),
        (
            "PATCH",
            one,
            "{\"max_fails\": \"x\"}",
            400,
            "UpstreamBadMaxFails",
        ),
        (
            "PATCH",
            one,
            "{\"fail_timeout\": \"x\"}",
            400,
            "UpstreamBadFailTimeout",
        ),
        (
            "PATCH",
            one,
            "{\"slow_start\": \"x\"}",
            400,
            "UpstreamBadSlowStart",
        ),
        (
            "PATCH",
            one,
            "{\"route\": \"123456789012345678901234567890123\"}",
            400,
            "UpstreamBadRoute",
        ),
        (
            "PATCH",
            one,
            "{\"down\": 1}",
            400,
            "UpstreamConfFormatError",
        ),
        (
            "PATCH",
            one,
            "{\"backup\": true}",
            400,
            "UpstreamConfFormatError",
        ),
        (
            "PATCH",
            "/api/9/http/upstreams/app/servers/7",
            "{}",
            404,
            "UpstreamServerNotFound",
        ),
        (
            "DELETE",
            "/api/9/http/upstreams/app/servers/7",
            "",
            404,
            "UpstreamServerNotFound",
        ),
        (
            "GET",
            "/api/9/http/upstreams/app/servers/x",
            "",
            400,
            "UpstreamBadServerId",
        ),
        (
            "GET",
            "/api/9/http/upstreams/app/servers/99999999999999999999",
            "",
            400,
            "UpstreamBadServerId",
        ),
    ] {
        let found = code_of(&server, method, target, body);
        assert_eq!(found, (status, code.to_owned()), "{method} {target} {body}");
    }
    assert_eq!(ask(&server, "GET", SERVERS, "").text(), before);
    assert_eq!(
        json(&ask(&server, "GET", "/api/", "")),
        value!([1, 2, 3, 4, 5, 6, 7, 8, 9])
    );
    assert_eq!(
        json(&ask(&server, "GET", "/api/3/http", "")),
        value!(["upstreams"])
    );
    // Angie's tree is still there.
    let angie = json(&ask(&server, "GET", "/read/http/upstreams/app/peers", ""));
    assert!(angie.is_object(), "{angie}");
    let only = json(&ask(
        &server,
        "GET",
        "/api/9/http/upstreams?fields=zone",
        "",
    ));
    assert_eq!(
        only,
        value!({"app": {"zone": "app"}, "static": {"zone": null}})
    );
}

#[test]
fn backups_only_where_the_method_has_them_and_no_more_servers_than_the_zone_has_room_for() {
    let site = Site::new();
    let a = origin();
    let server = site.serve(&configuration(a.port(), "ip_hash;"));
    let backup = "{\"server\": \"127.0.0.1:1\", \"backup\": true}";
    assert_eq!(
        code_of(&server, "POST", SERVERS, backup),
        (400, "UpstreamNoBackup".into())
    );
    let mut count = 1;
    let full = loop {
        let answer = ask(
            &server,
            "POST",
            SERVERS,
            "{\"server\": \"127.0.0.1:1\", \"down\": true}",
        );
        match answer.status {
            201 => count += 1,
            _ => break json(&answer),
        }
    };
    assert_eq!(
        (count, &full["error"]["code"]),
        (128, &value!("UpstreamOutOfMemory"))
    );
    assert_eq!(answering(&server, "/", 3), [a.port()].into());
}

#[test]
fn names_are_looked_up_and_followed() {
    let site = Site::new();
    let (names, a) = (NameServer::start(), origin());
    let resolver = format!("resolver 127.0.0.1:{} valid=1s;", names.port());
    let server = site.serve(&configuration(1, &resolver));
    names.says("app.test", &[Ipv4Addr::LOCALHOST]);
    let name = format!("app.test:{}", a.port());
    let body = value!({"server": name}).to_string();
    let added = json(&ask(&server, "POST", SERVERS, &body));
    assert_eq!(added["server"], name, "{added}");
    ask(&server, "DELETE", &format!("{SERVERS}0"), "");
    wait_for("the name to be looked up", || {
        (get(server.port("plain"), "/").status == 200).then_some(())
    });
    assert_eq!(answering(&server, "/", 2), [a.port()].into());
    // Another port for the same name, then none.
    let body = value!({"server": "app.test:1"}).to_string();
    ask(&server, "PATCH", &format!("{SERVERS}1"), &body);
    wait_for("the other port", || {
        let peers = json(&ask(&server, "GET", "/api/9/http/upstreams/app", ""));
        (peers["peers"][0]["server"] == "127.0.0.1:1").then_some(())
    });
    ask(&server, "DELETE", &format!("{SERVERS}1"), "");
    let asked = names.asked();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(names.asked(), asked, "a name that is gone is not looked up");
    let service = value!({"server": "app.test", "service": "http"}).to_string();
    let added = json(&ask(&server, "POST", SERVERS, &service));
    assert_eq!(added["service"], "http", "{added}");
}

#[test]
fn pages_of_other_sites_change_nothing() {
    let site = Site::new();
    let a = origin();
    let server = site.serve(&configuration(a.port(), ""));
    let port = server.port("plain");
    let body = "{\"server\": \"127.0.0.1:1\"}";
    for (header, status) in [
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Sec-Fetch-Site: same-origin\r\n", 201),
        ("Origin: http://localhost\r\n", 201),
    ] {
        let head = format!("POST {SERVERS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let length = body.len();
        let text = format!("{head}{header}Content-Length: {length}\r\n\r\n{body}");
        assert_eq!(request(port, &text).status, status, "{header}");
    }
    let target = "/conf?upstream=app&id=0&remove=";
    let evil = get_with(port, target, "Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(evil.status, 403);
    let reading = get_with(port, "/conf?upstream=app", "Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(reading.status, 200);
}

#[test]
fn everybody_must_not_reach_them() {
    let site = Site::new();
    for directive in ["api write=on", "dyups_interface", "upstream_conf"] {
        let configuration = format!(
            "events {{}} http {{ server {{ listen 8080; location / {{ {directive}; }} }} }}"
        );
        site.write("sealane.conf", &configuration);
        let tested = command(&site, &["-t"]);
        assert!(tested.status != 0, "{directive}");
        let name = directive.split(' ').next().expect("a name");
        let text = tested.stderr;
        assert!(
            text.contains(&format!("\"{name}\" is open to everyone")),
            "{text}"
        );
        assert!(text.contains("it decides where requests go"), "{text}");
    }
}

#[test]
fn the_arguments_of_upstream_conf() {
    let site = Site::new();
    let (a, b) = (origin(), origin());
    let server = site.serve(&configuration(a.port(), ""));
    let ask = |args: &str| {
        let response = get(server.port("plain"), &format!("/conf?{args}"));
        (response.status, response.text())
    };
    let (a_line, b_address) = (format!("server 127.0.0.1:{}", a.port()), b.port());
    assert_eq!(ask("upstream=app"), (200, format!("{a_line}; # id=0\n")));
    assert_eq!(
        ask(&format!(
            "add=&upstream=app&server=127.0.0.1:{b_address}&weight=3&route=b%20r"
        )),
        (
            200,
            format!("server 127.0.0.1:{b_address} weight=3 route=b r; # id=1\n")
        )
    );
    assert_eq!(answering(&server, "/", 8), [a.port(), b.port()].into());
    assert_eq!(
        ask("upstream=app&id=0&down="),
        (200, format!("{a_line} down; # id=0\n"))
    );
    assert_eq!(answering(&server, "/", 3), [b.port()].into());
    assert_eq!(
        ask("upstream=app&id=0&drain="),
        (200, format!("{a_line} drain; # id=0\n"))
    );
    assert_eq!(
        ask("upstream=app&id=0&drain=&up="),
        (200, format!("{a_line} drain; # id=0\n"))
    );
    assert_eq!(
        ask("upstream=app&id=0&down="),
        (200, format!("{a_line} down; # id=0\n"))
    );
    assert_eq!(
        ask("upstream=app&id=0&up="),
        (200, format!("{a_line}; # id=0\n"))
    );
    assert_eq!(
        ask("remove=&upstream=app&id=1"),
        (200, format!("{a_line}; # id=0\n"))
    );
    for (args, status, text) in [
        ("", 400, "missing \"upstream\""),
        ("upstream=none", 404, "upstream not found"),
        ("upstream=static", 400, "static"),
        ("upstream=app&id=5", 404, "server not found"),
        ("upstream=app&id=x", 400, "invalid \"id\""),
        ("upstream=app&add=", 400, "missing \"server\""),
        (
            "upstream=app&add=&server=127.0.0.1&id=1",
            400,
            "given together",
        ),
        ("upstream=app&weight=2", 400, "missing \"id\""),
        ("upstream=app&id=0&weight=0", 400, "weight"),
        ("upstream=app&remove=", 400, "missing \"id\""),
        ("upstream=app&cat=1", 400, "unknown \"cat\""),
        ("upstream=app&stream=", 400, "streams"),
        ("upstream=%ff", 400, "invalid \"upstream\""),
    ] {
        let (found, answer) = ask(args);
        assert!(
            found == status && answer.contains(text),
            "{args}: {found} {answer}"
        );
    }
}
