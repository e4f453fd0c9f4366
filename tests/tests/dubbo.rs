//! `dubbo_pass`, to a provider in Python that shares nothing with the server, and to Apache Dubbo's
//! own.

use sealane_tests::load::Load;
use sealane_tests::reload::{Reload, ask as ask_program, configure, reload, reload_as_it_is};
use sealane_tests::wire::{self, Connection, Response, get};
use sealane_tests::{Application, Server, Site, wait_for};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

/// A server whose requests go to the provider on the port `provider`. `do` among the arguments says
/// what it does.
fn configuration(settings: &str) -> String {
    format!(
        "client_max_body_size 64m;
         upstream providers {{ multi 1; server 127.0.0.1:%provider%; }}
         server {{
             listen 127.0.0.1:%plain%;
             location / {{
                 dubbo_pass_set do $arg_do$http_x_do;
                 dubbo_pass a.b.Service 1.2.3 answer providers;
                 {settings}
             }}
             location = /page {{
                 dubbo_pass_set do echo;
                 dubbo_pass a.b.Service 1.2.3 answer providers;
             }}
             location = /static {{ return 200 static; }}
         }}"
    )
}

fn ask(server: &Server<'_>, deed: &str) -> Response {
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\nX-Do: {deed}\r\nConnection: close\r\n\r\n");
    wire::request(server.port("plain"), &head)
}

fn described(server: &Server<'_>) -> serde_json::Value {
    let response = ask(server, "describe");
    assert_eq!(response.status, 200, "{}", server.error_log());
    assert_eq!(response.header("Content-Type"), Some("application/json"));
    serde_json::from_slice(&response.body).expect("JSON")
}

#[test]
fn a_method_is_called_with_a_map() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let server = site.serve(
        "client_max_body_size 64m;
         upstream providers { multi 1; server 127.0.0.1:%provider%; }
         server {
             listen 127.0.0.1:%plain%;
             location / {
                 set $version 1.0;
                 dubbo_pass $arg_service $version go_$request_method providers;
                 dubbo_pass_set Uri $request_uri;
                 dubbo_pass_set x-replaced by-us;
                 dubbo_pass_set \"a key of ä\" $arg_none;
             }
             location /bare {
                 dubbo_pass_all_headers off;
                 dubbo_pass_body off;
                 dubbo_pass a 0.0.0 b providers;
             }
             location /set-body {
                 dubbo_pass_set body text;
                 dubbo_pass a 0.0.0 b 127.0.0.1:%provider%;
             }
         }",
    );
    let port = server.port("plain");
    let body_of = |response: Response| -> serde_json::Value {
        assert_eq!(response.status, 200, "{}", server.error_log());
        serde_json::from_slice(&response.body).expect("JSON")
    };
    let told = body_of(wire::request(
        port,
        "POST /x?service=com.example.S HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\nBody: trap\r\n\
         Cookie: c=1\r\nX-Replaced: by-client\r\nX-Latin: \u{e4}\r\nContent-Length: 5\r\n\
         Connection: close\r\n\r\nhello",
    ));
    assert_eq!(told["protocol"], "2.0.2");
    assert_eq!(told["service"], "com.example.S");
    assert_eq!(told["version"], "1.0");
    assert_eq!(told["method"], "go_POST");
    assert_eq!(told["types"], "Ljava/util/Map;");
    assert!(told["attachments"].is_null());
    let map = &told["map"];
    assert_eq!(map["body"]["bytes"], 5);
    assert_eq!(map["body"]["text"], "hello");
    assert_eq!(map["host"], "h");
    assert_eq!(map["x-a"], "1, 2");
    assert_eq!(map["cookie"], "c=1");
    assert_eq!(map["x-replaced"], "by-us");
    assert_eq!(map["x-latin"], "\u{e4}");
    assert_eq!(map["Uri"], "/x?service=com.example.S");
    assert_eq!(map["a key of ä"], "");
    let told = body_of(get(port, "/?service=s"));
    assert!(told["map"].get("body").is_none(), "{told}");
    let post = "POST /bare HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    let told = body_of(wire::request(port, post));
    assert_eq!(told["map"], serde_json::json!({}));
    let told = body_of(get(port, "/set-body"));
    assert_eq!(told["map"]["body"]["text"], "text");
}

#[test]
fn what_it_returns_is_the_response() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let server = site.serve(&configuration(
        "dubbo_hide_header X-Hidden; dubbo_pass_header Server; dubbo_intercept_errors on;
         error_page 418 /static; add_header X-Status $upstream_status;",
    ));
    let answer = |map: &str| ask(&server, &format!("answer {map}"));
    let full = answer(
        r#"{"status": 201, "X-A": "b", "X-N": 7, "X-T": true, "X-Null": null, "X-Hidden": "h",
            "Date": "never", "Server": "theirs", "Content-Length": "99", "body": "text é"}"#
            .replace('\n', " ")
            .as_str(),
    );
    assert_eq!((full.status, full.text().as_str()), (201, "text é"));
    assert_eq!(full.header("X-A"), Some("b"));
    assert_eq!(full.header("X-N"), Some("7"));
    assert_eq!(full.header("X-T"), Some("true"));
    assert_eq!(
        (full.header("X-Null"), full.header("X-Hidden")),
        (None, None)
    );
    assert_ne!(full.header("Date"), Some("never"));
    assert_eq!(full.header("Server"), Some("theirs"));
    assert_eq!(full.header("Content-Length"), Some("7"));
    assert_eq!(full.header("X-Status"), Some("201"));
    let empty = answer(r#"{"status": "204", "body": "lost"}"#);
    assert_eq!((empty.status, empty.body.len()), (204, 0));
    assert_eq!(answer(r#"{"status": "418"}"#).text(), "static");
    let mut connection = Connection::open(server.port("plain"));
    connection.send("HEAD /?do=describe HTTP/1.1\r\nHost: h\r\n\r\n");
    let head = connection.response(true);
    assert_eq!(head.status, 200);
    assert_ne!(head.header("Content-Length"), Some("0"));
    connection.send("GET /static HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(connection.response(false).text(), "static");
    for (map, complaint) in [
        (r#"{"X-A": "b"}"#, "upstream sent no status"),
        (r#"{"status": "99"}"#, "upstream sent invalid status \"99\""),
        (
            r#"{"status": "101"}"#,
            "upstream sent invalid status \"101\"",
        ),
        (
            r#"{"status": "200", "X-A": "b\r\nX-Injected: c"}"#,
            r#"upstream sent invalid header: "X-A: b\r\nX-Injected: c""#,
        ),
        (
            r#"{"status": "200", "X A": "b"}"#,
            r#"upstream sent invalid header: "X A: b""#,
        ),
        (
            r#"{"status": "200", "X-A": ["b"]}"#,
            r#"upstream returned a value that is neither text nor a number for "X-A""#,
        ),
        ("[1]", "upstream did not return a map of strings"),
        ("null", "upstream returned null instead of a map"),
    ] {
        let response = answer(map);
        assert_eq!(response.status, 502, "{map}");
        assert_eq!(response.header("X-Injected"), None, "{map}");
        server.wait_for_log(complaint);
    }
    let long = format!(r#"{{"status": "200", "X-A": "{}"}}"#, "a".repeat(5000));
    assert_eq!(answer(&long).status, 502);
    server.wait_for_log("upstream sent too big header while reading response header");
}

#[test]
fn failures_of_a_provider_are_told_apart() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let server = site.serve(&configuration("dubbo_read_timeout 2s;"));
    for (deed, status, complaint) in [
        (
            "throw it is broken",
            502,
            r#"upstream threw "java.lang.IllegalStateException": "it is broken""#,
        ),
        ("null", 502, "upstream returned null instead of a map"),
        (
            "status 60",
            502,
            r#"upstream sent dubbo status 60 (service not found): "it is said""#,
        ),
        (
            "status 100",
            502,
            "upstream sent dubbo status 100 (server threadpool exhausted)",
        ),
        (
            "raw 97",
            502,
            "upstream sent dubbo response of unknown kind 7",
        ),
        (
            "raw 9148",
            502,
            "upstream sent invalid hessian2 response: a value ends too early",
        ),
        (
            "garbage",
            502,
            "upstream sent invalid dubbo magic number: 4854",
        ),
        (
            "wrong",
            502,
            "upstream sent dubbo response with unknown request id",
        ),
        (
            "call_back",
            502,
            "upstream sent a dubbo request instead of a response",
        ),
        (
            "die",
            502,
            "upstream prematurely closed connection while reading response header",
        ),
        (
            "never",
            504,
            "upstream timed out (110: Connection timed out) while reading response header",
        ),
        ("half", 504, ""),
    ] {
        let response = ask(&server, deed);
        assert_eq!(response.status, status, "{deed}: {}", server.error_log());
        server.wait_for_log(complaint);
        // Whatever it was, the next request is not its victim.
        assert_eq!(ask(&server, "echo").status, 200, "after {deed}");
    }
    // Time between two reads counts, not the whole.
    let dripped = ask(&server, "drip 0.5");
    assert_eq!((dripped.status, dripped.text().as_str()), (200, "dripped"));
    assert_eq!(ask(&server, "twice").text(), "once");
    assert_eq!(ask(&server, "echo").status, 200);
}

#[test]
fn a_hundred_requests_share_a_connection() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let server = site.serve(&configuration(""));
    let port = server.port("plain");
    let mut clients: Vec<Connection> = (0..100).map(|_| Connection::open(port)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\nX-Do: gather 100\r\n\r\n");
    }
    let mut ids = Vec::new();
    for client in &mut clients {
        let response = client.response(false);
        assert_eq!(response.status, 200, "{}", server.error_log());
        let told: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
        assert_eq!(told["same"], true);
        ids.push(told["id"].as_u64().expect("a number"));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 100, "each has the answer to its own request");
    assert_eq!(described(&server)["connections"], 1);
}

#[test]
fn several_connections_are_used_evenly() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let settings = configuration("").replace("multi 1", "multi 3");
    let server = site.serve(&settings);
    for _ in 0..9 {
        assert_eq!(ask(&server, "echo").status, 200);
    }
    assert_eq!(described(&server)["connections"], 3);
}

#[test]
fn a_request_that_has_gone_leaves_the_connection_to_the_others() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let server = site.serve(&configuration(""));
    let port = server.port("plain");
    assert_eq!(ask(&server, "echo").status, 200);
    let mut gone = Connection::open(port);
    gone.send("GET / HTTP/1.1\r\nHost: h\r\nX-Do: slow 4\r\n\r\n");
    let mut stays = Connection::open(port);
    stays.send("GET / HTTP/1.1\r\nHost: h\r\nX-Do: slow 5\r\n\r\n");
    // Both have arrived when a later one is answered.
    assert_eq!(ask(&server, "echo").status, 200);
    drop(gone);
    server.wait_for_log("client prematurely closed connection");
    assert_eq!(stays.response(false).status, 200);
    let told = described(&server);
    assert_eq!(told["connections"], 1, "{told}");
}

#[test]
fn a_connection_in_doubt_fails_all_its_requests() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let server = site.serve(&configuration(""));
    let port = server.port("plain");
    assert_eq!(ask(&server, "echo").status, 200);
    let mut waiting: Vec<Connection> = (0..5).map(|_| Connection::open(port)).collect();
    for client in &mut waiting {
        client.send("POST / HTTP/1.1\r\nHost: h\r\nX-Do: never\r\nContent-Length: 1\r\n\r\nx");
    }
    assert_eq!(ask(&server, "echo").status, 200);
    assert_eq!(ask(&server, "garbage").status, 502);
    for client in &mut waiting {
        assert_eq!(client.response(false).status, 502);
    }
    let complaint = "upstream sent invalid dubbo magic number: 4854";
    wait_for("a line for each request", || {
        (server.error_log().matches(complaint).count() == 6).then_some(())
    });
    assert_eq!(described(&server)["connections"], 2);
}

#[test]
fn another_provider_is_tried() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    // Nobody listens on the first; the port stays reserved for the site.
    let dead = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let dead = {
        let port = dead.local_addr().expect("it is bound").port();
        drop(dead);
        port
    };
    let server = site.serve(&format!(
        "upstream providers {{
             multi 1;
             server 127.0.0.1:{dead} max_fails=0;
             server 127.0.0.1:%provider% backup max_fails=0;
         }}
         log_format tried '$upstream_addr $upstream_status';
         access_log logs/access.log tried;
         server {{
             listen 127.0.0.1:%plain%;
             dubbo_next_upstream error timeout invalid_header http_503;
             location / {{ dubbo_pass_set do $http_x_do; dubbo_pass s 0.0.0 m providers; }}
         }}"
    ));
    let port = server.port("plain");
    for _ in 0..3 {
        assert_eq!(ask(&server, "echo").status, 200, "{}", server.error_log());
    }
    server.wait_for_log("connect() failed (111: Connection refused) while connecting to upstream");
    // Nothing was sent to the first, so that this may be repeated.
    let post = "POST / HTTP/1.1\r\nHost: h\r\nX-Do: echo\r\nContent-Length: 2\r\n\
                Connection: close\r\n\r\nhi";
    assert_eq!(wire::request(port, post).text(), "hi");
    assert_eq!(ask(&server, "throw x").status, 502);
    assert_eq!(ask(&server, r#"answer {"status": "503"}"#).status, 503);
}

#[test]
fn a_status_leads_to_the_next_provider() {
    let site = Site::new();
    let _one = Application::dubbo(&site, "127.0.0.1:%provider%");
    let _other = Application::dubbo(&site, "127.0.0.1:%other%");
    let server = site.serve(
        "upstream providers {
             multi 1; server 127.0.0.1:%provider% max_fails=0; server 127.0.0.1:%other% max_fails=0;
         }
         log_format tried '$request_method $upstream_status';
         access_log logs/access.log tried;
         server {
             listen 127.0.0.1:%plain%;
             dubbo_next_upstream error http_503 invalid_header;
             location / { dubbo_pass_set do $http_x_do; dubbo_pass s 0.0.0 m providers; }
         }",
    );
    assert_eq!(ask(&server, r#"answer {"status": "503"}"#).status, 503);
    assert_eq!(ask(&server, "throw x").status, 502);
    // A provider that had no thread has not acted on the request.
    let port = server.port("plain");
    let post = "POST / HTTP/1.1\r\nHost: h\r\nX-Do: status 100\r\nContent-Length: 2\r\n\
                Connection: close\r\n\r\nhi";
    assert_eq!(wire::request(port, post).status, 502);
    let post = post.replace("status 100", "throw x");
    assert_eq!(wire::request(port, &post).status, 502);
    let expected = ["GET 503, 503", "GET 502, 502", "POST 502, 502", "POST 502"];
    wait_for("the log of the attempts", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).unwrap_or_default();
        (log.lines().collect::<Vec<_>>() == expected).then_some(())
    });
}

#[test]
fn heartbeats_go_both_ways() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let settings = "dubbo_heartbeat_interval 1s; dubbo_read_timeout 50s;";
    let server = site.serve(&configuration(settings));
    wait_for("heartbeats", || {
        // In the meantime there is nothing else to say.
        assert_eq!(ask(&server, "slow 2.2").status, 200);
        let told = described(&server);
        assert_eq!(told["connections"], 1);
        (told["heartbeats"].as_u64() >= Some(3)).then_some(())
    });
    assert_eq!(ask(&server, "beat 20").text(), "beaten");
    // One that answers nothing any more is not waited for.
    assert_eq!(ask(&server, "mute").status, 504);
    server.wait_for_log("upstream timed out (110: Connection timed out)");
    assert_eq!(described(&server)["connections"], 2);
}

#[test]
fn a_provider_that_wants_no_more_requests_gets_none() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let server = site.serve(&configuration(""));
    let mut last = Connection::open(server.port("plain"));
    last.send("GET / HTTP/1.1\r\nHost: h\r\nX-Do: readonly 1\r\n\r\n");
    // Once the event has come, requests have another connection.
    wait_for("another connection", || {
        (described(&server)["connections"] == 2).then_some(())
    });
    assert_eq!(last.response(false).text(), "the last");
}

#[test]
fn bodies_of_any_size_pass() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let settings = "client_body_buffer_size 64k; dubbo_max_response_size 3m;";
    let server = site.serve(&configuration(settings));
    let port = server.port("plain");
    for bytes in [0, 1, 65_534, 65_535, 65_536, 131_071, 2_000_000] {
        let body: Vec<u8> = (0..bytes).map(|at: u32| (at * 7 % 251) as u8).collect();
        let mut connection = Connection::open(port);
        connection.send(format!(
            "POST / HTTP/1.1\r\nHost: h\r\nX-Do: echo\r\nContent-Length: {bytes}\r\n\r\n"
        ));
        connection.send(&body);
        let response = connection.response(false);
        assert_eq!(response.status, 200, "{bytes}: {}", server.error_log());
        assert!(response.body == body, "{bytes}");
    }
    // In chunks, whose length is not known before.
    let mut connection = Connection::open(port);
    connection.send(
        "POST / HTTP/1.1\r\nHost: h\r\nX-Do: echo\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n",
    );
    assert_eq!(connection.response(false).text(), "onetwo");
    assert_eq!(ask(&server, "size 4000000").status, 502);
    server.wait_for_log("upstream sent too big response: 4");
    let large = ask(&server, "size 2500000");
    assert_eq!((large.status, large.body.len()), (200, 2_500_000));
}

/// A provider that promises a lot and sends it must not fill memory; nor one that pings and does
/// not read.
#[test]
fn memory_is_bounded() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let settings = "dubbo_max_response_size 1m; dubbo_read_timeout 30s;";
    let server = site.serve(&configuration(settings));
    assert_eq!(ask(&server, "echo").status, 200);
    let idle_kib = server.resident_kib();
    server.forget_most_resident();
    for _ in 0..3 {
        assert_eq!(ask(&server, "size 40000000").status, 502);
        assert_eq!(ask(&server, "echo").status, 200);
    }
    let above_kib = server.most_resident_kib().saturating_sub(idle_kib);
    println!("{above_kib} KiB above {idle_kib}");
    assert!(above_kib < 20 << 10, "{above_kib} KiB");

    let flood = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = flood.local_addr().expect("it is bound").port();
    let pinging = std::thread::spawn(move || {
        let (mut socket, _) = flood.accept().expect("a connection");
        let mut begun = [0; 64];
        socket.read_exact(&mut begun).expect("a request");
        let ping = b"\xda\xbb\xe2\0\0\0\0\0\0\0\0\x01\0\0\0\x01N";
        let pings = ping.repeat(5000);
        // Until the server has had enough of it.
        let limit = Some(Duration::from_secs(60));
        socket.set_write_timeout(limit).expect("a time");
        while socket.write_all(&pings).is_ok() {}
    });
    let flooded = Site::new();
    let server = flooded.serve(&format!(
        "server {{
             listen 127.0.0.1:%plain%;
             location / {{ dubbo_pass s 0.0.0 m 127.0.0.1:{port}; }}
         }}"
    ));
    assert_eq!(get(server.port("plain"), "/").status, 502);
    server.wait_for_log("upstream sent too many dubbo events, and reads no answers");
    pinging.join().expect("it ends");
}

#[test]
fn reloads_lose_no_request_and_keep_the_connection() {
    let site = Site::new();
    let _provider = Application::dubbo(&site, "127.0.0.1:%provider%");
    let of = |settings: &str| {
        format!(
            "worker_processes 1; pid logs/pid; error_log logs/error.log info;
             events {{}} http {{ access_log off; {} }}",
            configuration(settings)
        )
    };
    configure(&site, &of(""));
    let server = site.serve_whole(&of(""));
    let mut waiting = Connection::open(server.port("plain"));
    waiting.send("GET / HTTP/1.1\r\nHost: h\r\nX-Do: slow 1.5\r\n\r\n");
    let address = format!("127.0.0.1:{}", server.port("plain"));
    let mut load = Load::go("keep", &address, None, 8);
    load.wait_until_begun();
    for at in 0..3 {
        let reloaded = reload(&site, &server, &of(&format!("add_header X-Reload {at};")));
        assert!(
            matches!(reloaded, Reload::Applied),
            "{}",
            server.error_log()
        );
    }
    assert!(matches!(reload_as_it_is(&server), Reload::Applied));
    assert_eq!(waiting.response(false).status, 200);
    let tally = load.stop();
    assert_eq!(tally.failures(), 0, "{tally:?}\n{}", server.error_log());
    assert_eq!(described(&server)["connections"], 1);
}

#[test]
fn the_directives_are_checked() {
    let site = Site::new();
    for (http, complaint) in [
        (
            "server { location / { dubbo_pass s 0.0.0 m; } }",
            "invalid number of arguments in \"dubbo_pass\" directive",
        ),
        (
            "upstream u { multi 0; server 127.0.0.1:1; }",
            "invalid value \"0\" in \"multi\" directive",
        ),
        (
            "upstream u { multi 1; multi 2; server 127.0.0.1:1; }",
            "\"multi\" directive is duplicate",
        ),
        (
            "server { location / { dubbo_pass s 0.0.0 m 127.0.0.1:1; health_check; } }",
            "\"health_check\" in a location with \"dubbo_pass\"",
        ),
        (
            "server { location / { dubbo_next_upstream updating; } }",
            "invalid value \"updating\"",
        ),
        (
            "server { location / { dubbo_pass s 0.0.0 m nobody.invalid:1; } }",
            "host not found in upstream",
        ),
    ] {
        let text = format!("events {{}} http {{ {http} }}");
        configure(&site, &text);
        let said = ask_program(&site, &["-t"]).stderr;
        assert!(said.contains(complaint), "{http}: {said}");
    }
}

/// Apache Dubbo's provider, if it was built.
#[test]
fn apache_dubbo_answers() {
    let site = Site::new();
    let Some(_provider) = Application::java_dubbo(&site, "[::1]:%provider%") else {
        let why = "Apache Dubbo is not there (scripts/peers/build-dubbo.sh)";
        return sealane_needs::leave_out(why);
    };
    let settings = configuration("dubbo_heartbeat_interval 5s; dubbo_pass_set x-do $http_x_do;")
        .replace("127.0.0.1:%provider%", "[::1]:%provider%")
        .replace("a.b.Service 1.2.3", "example.HttpService 1.2.3");
    let server = site.serve(&settings);
    let port = server.port("plain");
    let told = ask(&server, "describe").text();
    assert!(told.contains("host=h\n"), "{told}: {}", server.error_log());
    let mut clients: Vec<Connection> = (0..50).map(|_| Connection::open(port)).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        let body: Vec<u8> = vec![b'a' + (at % 26) as u8; at * 5000];
        let length = body.len();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: h\r\nX-Do: echo\r\nContent-Length: {length}\r\n\r\n"
        ));
        client.send(&body);
    }
    for (at, client) in clients.iter_mut().enumerate() {
        let response = client.response(false);
        assert_eq!(response.status, 200, "{}", server.error_log());
        assert!(
            response.body == vec![b'a' + (at % 26) as u8; at * 5000],
            "{at}"
        );
    }
    // It takes longer than it is silent: there is a heartbeat meanwhile.
    assert_eq!(ask(&server, "slow").status, 200);
    let zeros = ask(&server, "bytes 3000000");
    assert_eq!((zeros.status, zeros.body.len()), (200, 3_000_000));
    assert_eq!(ask(&server, "null").status, 502);
    server.wait_for_log("upstream returned null instead of a map");
    assert_eq!(ask(&server, "throw").status, 502);
    server.wait_for_log(r#"upstream threw "java.lang.IllegalStateException": "no""#);
}
