//! Who may purge.

use super::{MAP, counting, files, purge, purge_with, verdict, wait_for_files, wait_for_hit};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Program, Server, Site, command, wire};

/// A server whose locations are given, each with a prefix of its own.
fn http(locations: &str) -> String {
    format!(
        "proxy_temp_path temp; {MAP}
         proxy_cache_path cache keys_zone=one:1m inactive=1h;
         proxy_cache one; proxy_cache_valid 200 1h; proxy_cache_key $uri;
         add_header X-Cache $upstream_cache_status always;
         server {{ listen 127.0.0.1:%plain%; {locations} }}"
    )
}

#[test]
fn only_those_purge_whom_somebody_has_let_in() {
    let site = Site::new();
    site.write("users", "anna:{PLAIN}secret\n");
    let (origin, _) = counting();
    let asked = Origin::answering(|asked: &Asked| {
        let is_known = asked.headers("X-Token") == ["right"];
        Answer::Send(match is_known {
            true => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            false => b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec(),
        })
    });
    let basic = "auth_basic realm; auth_basic_user_file %site%/users;";
    // "Basic" with anna:secret, and with another password.
    let (right, wrong) = ("YW5uYTpzZWNyZXQ=", "YW5uYTpvdGhlcg==");
    let authorization = |token: &str| format!("Authorization: Basic {token}\r\n");
    let (right, wrong) = (authorization(right), authorization(wrong));
    let cases: [(&str, &str, &str, u16); 15] = [
        ("none", "", "", 403),
        ("allowed", "allow 127.0.0.1; deny all;", "", 204),
        ("all", "allow all;", "", 204),
        ("denied", "deny all;", "", 403),
        // Nobody has said that this client may.
        ("other-denied", "deny 10.0.0.1;", "", 403),
        ("other-allowed", "allow 10.0.0.1;", "", 403),
        ("basic", basic, &right, 204),
        ("basic-wrong", basic, &wrong, 401),
        ("asked", "auth_request /auth;", "X-Token: right\r\n", 204),
        ("asked-wrong", "auth_request /auth;", "", 403),
        (
            "except",
            "limit_except GET { allow 127.0.0.1; deny all; }",
            "",
            204,
        ),
        ("except-denied", "limit_except GET { deny all; }", "", 403),
        (
            "any",
            "satisfy any; deny all; auth_request /auth;",
            "X-Token: right\r\n",
            204,
        ),
        ("both", "allow all; auth_request /auth;", "", 403),
        (
            "delayed",
            "auth_delay 1ms; auth_request /auth;",
            "X-Token: right\r\n",
            204,
        ),
    ];
    let locations = cases.iter().map(|(name, lines, ..)| {
        let port = origin.port();
        format!(
            "location /{name}/ {{ proxy_pass http://127.0.0.1:{port}; proxy_cache_purge $purge;
                 {lines} }}"
        )
    });
    let auth = format!(
        "location = /auth {{ internal; proxy_cache off; proxy_pass http://127.0.0.1:{}; }}",
        asked.port()
    );
    let server = site.serve(&http(&(locations.collect::<String>() + &auth)));
    let port = server.port("plain");
    for (name, _, fields, expected) in cases.iter() {
        let wildcard = format!("/{name}/*");
        assert_eq!(purge_with(port, &wildcard, fields), *expected, "{name}");
        // A single key that is not there.
        let expected = if *expected == 204 { 404 } else { *expected };
        assert_eq!(
            purge_with(port, &format!("/{name}/a"), fields),
            expected,
            "{name}"
        );
    }
    server.wait_for_log("nothing is purged: anybody could do it");
}

#[test]
fn a_redirect_inside_does_not_bring_along_what_another_location_allows() {
    let site = Site::new();
    let (origin, _) = counting();
    let port = origin.port();
    let server = site.serve(&http(&format!(
        "location /in/ {{ allow all; error_page 418 = @named; return 418; }}
         location /file/ {{ allow all; try_files /none /open/; }}
         location @named {{ proxy_pass http://127.0.0.1:{port}; proxy_cache_purge $purge; }}
         location /open/ {{ proxy_pass http://127.0.0.1:{port}; proxy_cache_purge $purge; }}"
    )));
    for target in ["/in/*", "/file/*", "/open/*"] {
        assert_eq!(purge(server.port("plain"), target), 403, "{target}");
    }
}

#[test]
fn subrequests_purge_nothing() {
    let site = Site::new();
    let (origin, _) = counting();
    let asked = Origin::answering(|_: &Asked| {
        Answer::Send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    // The subrequest has the method of the request, and the settings of the server.
    let server = site.serve(&http(&format!(
        "proxy_cache_purge $purge; allow all;
         location / {{ proxy_pass http://127.0.0.1:{}; }}
         location /guarded/ {{ auth_request /auth; proxy_pass http://127.0.0.1:{}; }}
         location = /auth {{ internal; proxy_pass http://127.0.0.1:{}; proxy_cache_key /seen;
             proxy_cache_bypass 1; }}
         location /mirrored/ {{ mirror /copy; return 200 ok; }}
         location = /copy {{ internal; proxy_pass http://127.0.0.1:{}; proxy_cache_key /seen; }}",
        origin.port(),
        origin.port(),
        asked.port(),
        origin.port(),
    )));
    let port = server.port("plain");
    wire::get(port, "/seen");
    wait_for_hit(&server, "/seen");
    wait_for_files(&site, 1);
    // It would be let in if the subrequest had purged.
    assert_eq!(purge(port, "/guarded/a"), 403);
    purge(port, "/mirrored/a");
    assert_eq!(verdict(&wire::get(port, "/seen")), "HIT");
    assert_eq!(files(&site).len(), 1);
}

#[test]
fn a_certificate_that_was_required_and_is_valid_will_do() {
    // It is good for servers and clients.
    let site = Site::with_keys(&[("site", "rsa:2048")]);
    let (origin, _) = counting();
    let port = origin.port();
    let pass =
        format!("location / {{ proxy_pass http://127.0.0.1:{port}; proxy_cache_purge $purge; }}");
    let certificate = "ssl_certificate %site%/certificates/site.pem;
        ssl_certificate_key %site%/certificates/site.key;
        ssl_client_certificate %authority%;";
    let certificate = certificate.replace("%authority%", &site.authority().display().to_string());
    let text = http("return 404;");
    let text = format!(
        "{text}
         server {{ listen 127.0.0.1:%on% ssl; {certificate} ssl_verify_client on; {pass} }}
         server {{ listen 127.0.0.1:%optional% ssl; {certificate} ssl_verify_client optional;
             {pass} }}"
    );
    let server = site.serve(&text);
    let purge = |name: &str, has_certificate: bool| {
        let path = |file: &str| {
            site.path(format!("certificates/{file}"))
                .display()
                .to_string()
        };
        let url = format!("https://127.0.0.1:{}/a*", server.port(name));
        let (pem, key) = (path("site.pem"), path("site.key"));
        let mut arguments = vec![
            "-sk",
            "-X",
            "PURGE",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
        ];
        if has_certificate {
            arguments.extend(["--cert", &pem, "--key", &key]);
        }
        arguments.push(&url);
        let printed = command("curl", &arguments, b"").stdout;
        String::from_utf8(printed).expect("a status")
    };
    assert_eq!(purge("on", true), "204");
    assert_eq!(purge("on", false), "400");
    // Whoever has none is served as well, so nobody has been let in.
    assert_eq!(purge("optional", true), "403");
    assert_eq!(purge("optional", false), "403");
}

#[test]
fn a_configuration_in_which_nobody_may_draws_a_warning() {
    let site = Site::new();
    let lines = "proxy_pass http://127.0.0.1:1; proxy_cache_purge $purge;";
    let text = http(&format!(
        "server_name purges.test; location / {{ {lines} }}"
    ));
    let configuration = site.fill_in(&format!("events {{}} http {{ {text} }}"));
    let path = site.write("warned.conf", configuration);
    let site_path = site.path("").display().to_string();
    let binary = sealane_tests::sealane_binary().display().to_string();
    let path = path.display().to_string();
    let told = command(&binary, &["-t", "-p", &site_path, "-c", &path], b"");
    assert_eq!(told.status, 0);
    let expected = "\"proxy_cache_purge\" purges nothing in a location of server \"purges.test\"";
    assert!(told.stderr.contains(expected), "{}", told.stderr);
    drop(Server::start(
        &site,
        Program::Sealane,
        &format!("events {{}} http {{ {text} }}"),
    ));
}
