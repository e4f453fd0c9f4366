//! `vhost_traffic_status`: what nginx-module-vts shows, from requests that were answered.

use sealane_tests::caching::wait_for_hit;
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::reload::{Reload, reload_as_it_is};
use sealane_tests::{Program, Server, Site, wait_for, wire};
use serde_json::Value;
use std::fs;

/// A server with numbers at `/status` of another one.
fn http(outer: &str, locations: &str) -> String {
    format!(
        "{outer}
         server {{ listen 127.0.0.1:%plain%; server_name one.test other.test; {locations} }}
         server {{ listen 127.0.0.1:%numbers%; server_name numbers.test;
             vhost_traffic_status_bypass_stats on;
             location /status {{ vhost_traffic_status_display; }} }}"
    )
}

fn get(port: u16, host: &str, target: &str) -> wire::Response {
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    wire::request(port, &head)
}

/// The numbers as JSON.
fn numbers(server: &Server<'_>) -> Value {
    let response = wire::get(server.port("numbers"), "/status/format/json");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("Content-Type"), Some("application/json"));
    serde_json::from_slice(&response.body).expect("JSON")
}

/// The numbers once so many requests of the servers were counted: that is after they are answered.
fn numbers_of(server: &Server<'_>, requests: u64) -> Value {
    wait_for("the numbers", || {
        let all = numbers(server);
        let counted = all["serverZones"]["*"]["requestCounter"].as_u64();
        (counted == Some(requests)).then_some(all)
    })
}

/// The numbers as Prometheus gets them.
fn metrics(server: &Server<'_>) -> String {
    let response = wire::get(server.port("numbers"), "/status/format/prometheus");
    let media_type = response.header("Content-Type").unwrap_or_default();
    assert!(media_type.starts_with("text/plain"), "{media_type}");
    response.text()
}

#[test]
fn servers_upstreams_and_caches_have_the_numbers_of_their_requests() {
    let site = Site::new();
    let origin = Origin::answering(|asked: &Asked| {
        let status = if asked.target() == "/bad" { 503 } else { 200 };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\nhello");
        Answer::Send(head.into_bytes())
    });
    let server = site.serve(&http(
        &format!(
            "vhost_traffic_status_zone; vhost_traffic_status_histogram_buckets 0.005 60;
             proxy_temp_path temp; proxy_cache_path cache keys_zone=zone1:1m max_size=10m;
             upstream backend {{ server 127.0.0.1:{} weight=3 max_fails=2 fail_timeout=7s; }}",
            origin.port()
        ),
        "location / { return 200 ok; }
         location /gone { return 404; }
         location /moved { return 302 /; }
         location /off { vhost_traffic_status off; return 200; }
         location /bypassed { vhost_traffic_status_bypass_stats on; return 200; }
         location /ignored { vhost_traffic_status_ignore_status 4xx; return 404; }
         location /proxied { proxy_pass http://backend/; }
         location /bad { proxy_pass http://backend/bad; proxy_next_upstream off; }
         location /cached { proxy_pass http://backend/c; proxy_cache zone1;
             proxy_cache_valid 200 1h; add_header X-Cache $upstream_cache_status; }",
    ));
    let port = server.port("plain");
    for target in [
        "/",
        "/",
        "/gone",
        "/moved",
        "/off",
        "/bypassed",
        "/ignored",
        "/proxied",
        "/bad",
    ] {
        get(port, "one.test", target);
    }
    get(port, "one.test", "/cached");
    numbers_of(&server, 7);
    wait_for_hit(&server, "/cached");
    // Each is counted, and the file's size as well, once it has been answered.
    let asked = origin.take_asked().len() as u64;
    let all = wait_for("the numbers", || {
        let all = numbers(&server);
        let one = &all["serverZones"]["one.test"];
        let counted = one["responses"]["hit"] == 1
            && one["requestCounter"] == asked + 5
            && all["upstreamZones"]["backend"][0]["requestCounter"] == asked
            && all["cacheZones"]["zone1"]["usedSize"] != 0;
        counted.then_some(all)
    });

    let one = &all["serverZones"]["one.test"];
    assert_eq!(one, &all["serverZones"]["*"], "it is the only one");
    let requests = one["requestCounter"].as_u64().expect("a number");
    for (class, expected) in [
        ("1xx", 0),
        ("2xx", requests - 3),
        ("3xx", 1),
        ("4xx", 1),
        ("5xx", 1),
    ] {
        assert_eq!(one["responses"][class], expected, "{class}");
    }
    for (status, expected) in [
        ("miss", requests - 7),
        ("hit", 1),
        ("bypass", 0),
        ("scarce", 0),
    ] {
        assert_eq!(one["responses"][status], expected, "{status}");
    }
    assert!(one["inBytes"].as_u64() > Some(40 * requests), "{one}");
    assert!(one["outBytes"].as_u64() > Some(100 * requests), "{one}");
    assert_eq!(
        one["requestBuckets"]["msecs"],
        serde_json::json!([5, 60_000])
    );
    assert_eq!(one["requestBuckets"]["counters"][1], requests);
    let times = one["requestMsecs"]["times"].as_array().expect("a list");
    assert_eq!(times.len() as u64, requests);
    assert_eq!(one["overCounts"]["maxIntegerSize"], u64::MAX);

    let peer = &all["upstreamZones"]["backend"][0];
    assert_eq!(peer["server"], format!("127.0.0.1:{}", origin.port()));
    assert_eq!(peer["responses"]["2xx"], asked - 1);
    assert_eq!(peer["responses"]["5xx"], 1);
    assert!(peer["outBytes"].as_u64() >= Some(asked * 40), "{peer}");
    for (member, expected) in [("weight", 3), ("maxFails", 2), ("failTimeout", 7)] {
        assert_eq!(peer[member], expected, "{member}");
    }
    assert_eq!(
        (&peer["backup"], &peer["down"]),
        (&Value::Bool(false), &Value::Bool(false))
    );

    let cache = &all["cacheZones"]["zone1"];
    assert_eq!(cache["maxSize"], 10 << 20);
    assert_eq!(cache["responses"]["hit"], 1);
    let file = fs::read_dir(site.path("cache")).expect("there").flatten();
    let is_file = |entry: &fs::DirEntry| entry.file_name().len() == 32;
    assert_eq!(file.filter(is_file).count(), 1);

    let shown = all["connections"]["requests"].as_u64();
    assert!(shown >= Some(requests), "{all}");
    assert_eq!(all["sharedZones"]["name"], "ngx_http_vhost_traffic_status");
    assert!(all["loadMsec"].as_u64() <= all["nowMsec"].as_u64());
    let text = metrics(&server);
    for line in [
        "# TYPE nginx_vts_server_requests_total counter".to_owned(),
        format!(
            "nginx_vts_server_requests_total{{host=\"one.test\",code=\"2xx\"}} {}",
            requests - 3
        ),
        "nginx_vts_server_requests_total{host=\"*\",code=\"4xx\"} 1".to_owned(),
        "nginx_vts_server_cache_total{host=\"one.test\",status=\"hit\"} 1".to_owned(),
        format!(
            "nginx_vts_server_request_duration_seconds_bucket{{host=\"one.test\",le=\"60.000\"}} \
             {requests}"
        ),
        format!("nginx_vts_server_request_duration_seconds_count{{host=\"one.test\"}} {requests}"),
        format!(
            "nginx_vts_upstream_requests_total{{upstream=\"backend\",backend=\"127.0.0.1:{}\",\
             code=\"5xx\"}} 1",
            origin.port()
        ),
        "nginx_vts_cache_requests_total{cache_zone=\"zone1\",status=\"hit\"} 1".to_owned(),
        format!(
            "nginx_vts_cache_usage_bytes{{cache_zone=\"zone1\",cache_size=\"max\"}} {}",
            10 << 20
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn filters_count_by_values_of_requests() {
    let site = Site::new();
    let server = site.serve(&http(
        "vhost_traffic_status_zone shared:vts:2m;
         vhost_traffic_status_filter_by_set_key $arg_c all::;
         vhost_traffic_status_filter_max_node 2 uris;",
        "vhost_traffic_status_filter_by_set_key $status status::$server_name;
         location / { return 200; }
         location /inner { vhost_traffic_status_filter_by_set_key $uri uris::x; return 404; }
         location /without { vhost_traffic_status_filter off; return 200; }
         location /named { vhost_traffic_status_filter_by_set_key $arg_n; return 200; }",
    ));
    let port = server.port("plain");
    for target in [
        "/?c=de",
        "/?c=de",
        "/?c=%22%0a",
        "/inner/1",
        "/inner/2?c=fr",
        "/inner/3",
        "/without?c=de",
        "/named?n=mine",
    ] {
        get(port, "one.test", target);
    }
    // One of them counts twice.
    let all = numbers_of(&server, 9);
    let count = |group: &str, name: &str| all["filterZones"][group][name]["requestCounter"].clone();
    assert_eq!(count("all::", "de"), 2);
    assert_eq!(count("all::", "fr"), 1);
    assert_eq!(count("all::", "%22%0a"), 1);
    assert_eq!(count("status::one.test", "200"), 3);
    assert_eq!(
        all["filterZones"]["status::one.test"]
            .as_object()
            .map(|all| all.len()),
        Some(1)
    );
    let uris = all["filterZones"]["uris::x"].as_object().expect("a group");
    let uris: Vec<&str> = uris.keys().map(String::as_str).collect();
    assert_eq!(uris, ["/inner/2", "/inner/3"]);
    assert_eq!(
        all["filterZones"]["uris::x"]["/inner/3"]["responses"]["4xx"],
        1
    );
    assert_eq!(all["serverZones"]["mine"]["requestCounter"], 1);
    let text = metrics(&server);
    let line =
        "nginx_vts_filter_requests_total{filter=\"all::\",filter_name=\"de\",code=\"2xx\"} 2";
    assert!(text.lines().any(|found| found == line), "{text}");
}

#[test]
fn hosts_of_clients_fill_the_zone_and_no_more() {
    let site = Site::new();
    let server = site.serve(&http(
        "vhost_traffic_status_zone shared:vts:64k; vhost_traffic_status_filter_by_host on;",
        "location / { return 200; } location /own { return 200;
             vhost_traffic_status_filter_by_host off; }",
    ));
    let port = server.port("plain");
    let mut connection = wire::Connection::open(port);
    for number in 0..500 {
        connection.send(format!("GET / HTTP/1.1\r\nHost: h{number}.test\r\n\r\n"));
        assert_eq!(connection.response(false).status, 200);
    }
    get(port, "h0.test", "/");
    // One that is refused counts for the server.
    assert_eq!(get(port, "odd\u{22}.test", "/").status, 400);
    get(port, "one.test", "/own");
    let all = wait_for("the server's own", || {
        let all = numbers(&server);
        (all["serverZones"]["one.test"]["requestCounter"] == 2).then_some(all)
    });
    let zones = all["serverZones"].as_object().expect("an object");
    assert!((10..60).contains(&zones.len()), "{}", zones.len());
    assert_eq!(zones["h0.test"]["requestCounter"], 2);
    server.wait_for_log("requests are not counted in zone \"vts\"");
}

#[test]
fn the_numbers_outlive_a_reload_and_have_all_formats() {
    let site = Site::new();
    let text = http("vhost_traffic_status_zone;", "location / { return 200; }").replace(
        "vhost_traffic_status_display; }",
        "vhost_traffic_status_display; vhost_traffic_status_display_format jsonp;
             vhost_traffic_status_display_jsonp shown.it;
             vhost_traffic_status_display_sum_key sum; }",
    );
    let server = site.serve(&text);
    get(server.port("plain"), "one.test", "/");
    let port = server.port("numbers");
    let counted = || {
        let text = wire::get(port, "/status").text();
        let object = text
            .strip_prefix("shown.it(")
            .and_then(|text| text.strip_suffix(')'));
        let all: Value = serde_json::from_str(object.expect("a call")).expect("JSON");
        all["serverZones"]["sum"]["requestCounter"].as_u64() == Some(1)
    };
    wait_for("the request", || counted().then_some(()));
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert!(counted());
    let page = wire::get(port, "/status/format/html");
    assert!(
        page.header("Content-Type")
            .is_some_and(|found| found.starts_with("text/html"))
    );
    assert!(page.text().contains("<script>"));
    // What the page asks for.
    let asked = wire::get(port, "/status/format/html?format=json");
    assert_eq!(asked.header("Content-Type"), Some("application/json"));
    let head = "POST /status HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(wire::request(port, head).status, 405);
    let control = wire::get(port, "/status/control?cmd=reset&group=*").text();
    assert!(control.contains("\"processingReturn\":false"), "{control}");
    assert!(counted());
}

#[test]
fn numbers_are_not_shown_to_everyone() {
    let site = Site::new();
    let text = "events {} http { vhost_traffic_status_zone;
        server { listen 0.0.0.0:%open%; location /status { vhost_traffic_status_display; } } }";
    let path = site.write("open.conf", site.fill_in(text));
    let told = sealane_tests::command(
        &sealane_tests::sealane_binary().display().to_string(),
        &["-t", "-c", &path.display().to_string()],
        b"",
    );
    assert_eq!(told.status, 1);
    let expected = "\"vhost_traffic_status_display\" is open to everyone";
    assert!(told.stderr.contains(expected), "{}", told.stderr);
    let without = "events {} http { server { listen 127.0.0.1:%plain%;
        location / { vhost_traffic_status_display; } } }";
    let server = Server::start(&site, Program::Sealane, without);
    assert_eq!(wire::get(server.port("plain"), "/").status, 501);
}
