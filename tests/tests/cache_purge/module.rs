//! `proxy_cache_purge` as in the module ngx_cache_purge: by method, and in a location of its own.

use super::{counting, files, verdict, wait_for_files, wait_for_hit};
use sealane_tests::{Server, Site, wait_for, wire};

/// `http` with zone `one`, in which all that is below `/` is cached; `outer` is outside of servers.
fn http(origin: u16, outer: &str, locations: &str) -> String {
    let locations = locations.replace("%origin%", &origin.to_string());
    format!(
        "proxy_temp_path temp; {outer}
         proxy_cache_path cache levels=1:2 keys_zone=one:8m inactive=1h;
         proxy_cache_valid 200 1h; proxy_cache_key $uri;
         add_header X-Cache $upstream_cache_status always;
         server {{ listen 127.0.0.1:%plain%; {locations} }}"
    )
}

/// The response to a request with a method.
fn ask(port: u16, method: &str, target: &str) -> wire::Response {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    wire::request(port, &head)
}

/// Gets these targets until they come from the cache.
fn fill(server: &Server<'_>, targets: &[&str]) {
    for target in targets {
        wire::get(server.port("plain"), target);
        wait_for_hit(server, target);
    }
}

#[test]
fn a_method_purges_its_key_for_addresses_that_may() {
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve(&http(
        origin.port(),
        "",
        "proxy_cache one;
         location / { proxy_pass http://127.0.0.1:%origin%;
             proxy_cache_purge PURGE from 10.0.0.0/8 127.0.0.1; }
         location /others/ { proxy_pass http://127.0.0.1:%origin%;
             proxy_cache_purge PURGE from 10.0.0.0/8 ::1; }
         location /all/ { proxy_pass http://127.0.0.1:%origin%;
             proxy_cache_purge DELETE from all; }
         location /on/ { proxy_pass http://127.0.0.1:%origin%; proxy_cache_purge on; }
         location /let-in/ { proxy_pass http://127.0.0.1:%origin%; proxy_cache_purge on;
             allow 127.0.0.1; deny all; }
         location /denied/ { proxy_pass http://127.0.0.1:%origin%;
             proxy_cache_purge PURGE from all; deny all; }
         location /uncached/ { proxy_pass http://127.0.0.1:%origin%; proxy_cache off;
             proxy_cache_purge PURGE from all; }
         location /uncached-others/ { proxy_pass http://127.0.0.1:%origin%; proxy_cache off;
             proxy_cache_purge PURGE from 10.0.0.1; }",
    ));
    let port = server.port("plain");
    let cached = ["/a", "/ab", "/others/a", "/all/a", "/on/a", "/let-in/a"];
    fill(&server, &cached);
    wait_for_files(&site, cached.len());
    for (method, target, expected) in [
        ("PURGE", "/a", 200),
        ("PURGE", "/a", 404),
        ("PURGE", "/others/a", 403),
        ("DELETE", "/all/a", 200),
        ("DELETE", "/all/a", 404),
        // Nobody has said who may.
        ("PURGE", "/on/a", 403),
        ("PURGE", "/let-in/a", 200),
        ("PURGE", "/let-in/a", 404),
        ("PURGE", "/denied/a", 403),
        ("PURGE", "/uncached/a", 404),
        ("PURGE", "/uncached-others/a", 403),
        // Other methods are passed on.
        ("PURGED", "/ab", 200),
        ("PURGE", "/all/a", 200),
    ] {
        let response = ask(port, method, target);
        assert_eq!(response.status, expected, "{method} {target}");
    }
    for (target, expected) in [
        ("/a", "MISS"),
        ("/ab", "HIT"),
        ("/others/a", "HIT"),
        ("/on/a", "HIT"),
        ("/all/a", "MISS"),
        ("/let-in/a", "MISS"),
    ] {
        assert_eq!(verdict(&wire::get(port, target)), expected, "{target}");
    }
    server.wait_for_log("purged \"/a\"");
    server.wait_for_log("the client is not among those after \"from\"");
    server.wait_for_log("nothing is purged: anybody could do it");
}

#[test]
fn a_purge_is_answered_with_a_page_in_the_configured_format() {
    let site = Site::new();
    let (origin, _) = counting();
    let location = |name: &str| {
        format!(
            "location /{name}/ {{ proxy_pass http://127.0.0.1:%origin%;
                 cache_purge_response_type {name}; }}"
        )
    };
    let locations = ["html", "json", "xml", "text"].map(location).concat();
    let server = site.serve(&http(
        origin.port(),
        "cache_purge_legacy_status on;",
        &format!(
            "proxy_cache one; proxy_cache_purge PURGE from 127.0.0.1; {locations}
             location / {{ proxy_pass http://127.0.0.1:%origin%; }}"
        ),
    ));
    let port = server.port("plain");
    for (target, media_type, part) in [
        ("/a", "text/html", "<p>Key: /a</p><p>Status: purged</p>"),
        ("/html/%3Cb%3E", "text/html", "<p>Key: /html/&lt;b&gt;</p>"),
        (
            "/json/%22",
            "application/json",
            "{\"Key\": \"/json/\\\"\", \"Status\": \"purged\"}",
        ),
        (
            "/xml/%3Ca",
            "text/xml",
            "<Key>/xml/&lt;a</Key><Status>purged</Status>",
        ),
        ("/text/a", "text/plain", "Key: /text/a\nStatus: purged\n"),
    ] {
        fill(&server, &[target]);
        let response = ask(port, "PURGE", target);
        assert_eq!(response.status, 200, "{target}");
        assert_eq!(
            response.header("Content-Type"),
            Some(media_type),
            "{target}"
        );
        assert!(response.text().contains(part), "{}", response.text());
        // What is not there is 412 as configured. A second request for it, sent before the first
        // answer was kept, may have left a file that is never used, and is purged then.
        wait_for("nothing to be there", || {
            (ask(port, "PURGE", target).status == 412).then_some(())
        });
    }
}

#[test]
fn an_asterisk_and_purge_all_purge_more() {
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve(&http(
        origin.port(),
        "",
        "proxy_cache one;
         location / { proxy_pass http://127.0.0.1:%origin%; proxy_cache_purge PURGE from all; }
         location /everything { proxy_pass http://127.0.0.1:%origin%;
             proxy_cache_purge PURGE purge_all from 127.0.0.1; }",
    ));
    let port = server.port("plain");
    let all = ["/a/1", "/a/2", "/b", "/everything"];
    for (target, gone) in [
        ("/a/*", &["/a/1", "/a/2"][..]),
        ("/*", &all),
        ("/everything", &all),
        // Whether there is something or not.
        ("/none*", &[]),
    ] {
        fill(&server, &all);
        let response = ask(port, "PURGE", target);
        assert_eq!(response.status, 200, "{target}");
        assert!(response.text().contains("purged"), "{}", response.text());
        for target in all {
            let expected = if gone.contains(&target) {
                "MISS"
            } else {
                "HIT"
            };
            assert_eq!(verdict(&wire::get(port, target)), expected, "{target}");
        }
    }
}

#[test]
fn a_location_of_its_own_purges_a_key() {
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve(&http(
        origin.port(),
        "",
        "location / { proxy_pass http://127.0.0.1:%origin%; proxy_cache one; }
         location ~ ^/purge(/.*) { allow 127.0.0.1; deny all; proxy_cache_purge one $1; }
         location ~ ^/open(/.*) { proxy_cache_purge one $1; }
         location ~ ^/denied(/.*) { deny all; proxy_cache_purge one $1; }
         location /by-method/ { error_page 418 = @purge; if ($request_method = PURGE) {
             return 418; } return 200 ok; }
         location @purge { allow all; proxy_cache_purge one $arg_key; }
         location = /included { ssi on; default_type text/html; root %site%; }",
    ));
    let port = server.port("plain");
    let page = "<!--# include virtual=\"/purge/b\" -->";
    site.write("included", page);
    fill(&server, &["/a", "/b", "/c/1", "/c/2"]);
    wait_for_files(&site, 4);
    for (method, target, expected) in [
        ("GET", "/open/a", 403),
        ("GET", "/denied/a", 403),
        ("GET", "/purge/a", 200),
        ("GET", "/purge/a", 404),
        // An include is no request of the client for it.
        ("GET", "/included", 200),
        ("PURGE", "/by-method/?key=/c/*", 200),
        ("GET", "/by-method/?key=/b", 200),
    ] {
        let response = ask(port, method, target);
        assert_eq!(response.status, expected, "{method} {target}");
    }
    for (target, expected) in [
        ("/a", "MISS"),
        ("/b", "HIT"),
        ("/c/1", "MISS"),
        ("/c/2", "MISS"),
    ] {
        assert_eq!(verdict(&wire::get(port, target)), expected, "{target}");
    }
    wait_for_files(&site, 4);
    assert_eq!(files(&site).len(), 4);
    let head = "HEAD /purge/b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let mut connection = wire::Connection::open(port);
    connection.send(head);
    let response = connection.response(true);
    assert_eq!((response.status, response.body.len()), (200, 0));
    server.wait_for_log("nothing is purged: a subrequest asks for it");
}

#[test]
fn levels_replace_each_other() {
    let site = Site::new();
    let (origin, _) = counting();
    let server = site.serve(&http(
        origin.port(),
        "proxy_cache_purge PURGE from 127.0.0.1;",
        "proxy_cache one;
         location /inherited/ { proxy_pass http://127.0.0.1:%origin%; }
         location /off/ { proxy_pass http://127.0.0.1:%origin%; proxy_cache_purge off; }
         location /values/ { proxy_pass http://127.0.0.1:%origin%; allow all;
             proxy_cache_purge $arg_purge; }",
    ));
    let port = server.port("plain");
    for (target, expected) in [
        ("/inherited/*", 200),
        ("/off/*", 200),
        ("/values/*", 200),
        ("/values/*?purge=1", 204),
    ] {
        assert_eq!(ask(port, "PURGE", target).status, expected, "{target}");
    }
    // Two of them were passed on.
    let inherited = ask(port, "PURGE", "/inherited/*").text();
    assert!(inherited.contains("Status: purged"), "{inherited}");
    assert!(ask(port, "PURGE", "/off/*").text().starts_with("/off/*"));
    assert!(
        ask(port, "PURGE", "/values/*")
            .text()
            .starts_with("/values/*")
    );
}
