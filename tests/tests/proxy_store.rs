//! `proxy_store`: responses that become files.

use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{self, Connection, get};
use sealane_tests::{PATIENCE, Server, Site, wait_for};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// A server whose answers say what was asked for, with some exceptions.
fn origin() -> Origin {
    Origin::answering(|asked| {
        let target = asked.target();
        let body = match target.as_str() {
            "/long" => "x".repeat(1 << 20),
            "/empty" => String::new(),
            _ => format!("body of {target}"),
        };
        let status = match target.as_str() {
            "/missing" => "404 Not Found",
            _ => "200 OK",
        };
        let framing = match target.as_str() {
            "/until-close" => "Connection: close".to_owned(),
            "/short" => format!("Content-Length: {}", body.len() + 5),
            _ => format!("Content-Length: {}", body.len()),
        };
        let modified = "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT";
        let body = if asked.text().starts_with("HEAD") {
            ""
        } else {
            &body
        };
        let text = format!("HTTP/1.1 {status}\r\n{modified}\r\n{framing}\r\n\r\n{body}");
        match target.as_str() {
            "/until-close" | "/short" => Answer::SendAndClose(text.into_bytes()),
            _ => Answer::Send(text.into_bytes()),
        }
    })
}

/// Temporary files that are left below the site.
fn temporary_files(site: &Site) -> Vec<String> {
    let mut left = Vec::new();
    let mut places = vec![site.path("proxy_temp")];
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => places.push(entry.path()),
                false => left.push(entry.path().display().to_string()),
            }
        }
    }
    left
}

/// Waits until no temporary file is left.
fn wait_for_none(site: &Site) {
    wait_for("the temporary files to go", || {
        temporary_files(site).is_empty().then_some(())
    });
}

/// Waits until the whole file is there: it has its name when the response ends.
fn stored(path: &Path) -> Vec<u8> {
    wait_for("the file", || fs::read(path).ok())
}

fn serve<'s>(site: &'s Site, port: u16) -> Server<'s> {
    fs::create_dir_all(site.path("www")).expect("the site is writable");
    fs::create_dir_all(site.path("mirror")).expect("the site is writable");
    for directory in ["www", "mirror"] {
        let all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(site.path(directory), all).expect("it is there");
    }
    let (www, mirror) = (site.path("www"), site.path("mirror"));
    let (www, mirror) = (www.display(), mirror.display());
    site.serve(&format!(
        "server {{
            listen 127.0.0.1:%plain%;
            root {www};
            location / {{
                proxy_pass http://127.0.0.1:{port};
                proxy_store on;
                proxy_store_access user:rw group:r all:r;
            }}
            location /by-path/ {{ proxy_pass http://127.0.0.1:{port}; proxy_store {mirror}$uri; }}
            location /chosen/ {{
                proxy_pass http://127.0.0.1:{port};
                proxy_store {mirror}$request_uri;
            }}
            location /unbuffered {{
                proxy_pass http://127.0.0.1:{port};
                proxy_store on;
                proxy_buffering off;
            }}
            location /first/ {{ try_files $uri @fetch; }}
            location @fetch {{ proxy_pass http://127.0.0.1:{port}; proxy_store on; }}
        }}"
    ))
}

#[test]
fn complete_responses_become_files() {
    let site = Site::new();
    let origin = origin();
    let server = serve(&site, origin.port());
    let port = server.port("plain");
    for target in ["/a", "/deep/er/b", "/until-close", "/empty", "/long"] {
        let response = get(port, target);
        assert_eq!(response.status, 200, "{target}");
        let path = site.path("www").join(&target[1..]);
        assert_eq!(stored(&path), response.body, "{target}");
        let facts = fs::metadata(&path).expect("it is there");
        assert_eq!(facts.mode() & 0o777, 0o644, "{target}");
        assert_eq!(facts.mtime(), 1_640_995_200, "Last-Modified of {target}");
    }
    get(port, "/by-path/c");
    assert_eq!(
        stored(&site.path("mirror/by-path/c")),
        b"body of /by-path/c"
    );
    let facts = fs::metadata(site.path("mirror/by-path/c")).expect("it is there");
    assert_eq!(facts.mode() & 0o777, 0o600);
    // What is stored is served without the other server.
    origin.take_asked();
    for _ in 0..3 {
        assert_eq!(get(port, "/first/d").text(), "body of /first/d");
        stored(&site.path("www/first/d"));
    }
    assert_eq!(origin.take_asked().len(), 1);
    wait_for_none(&site);
}

#[test]
fn nothing_else_becomes_a_file() {
    let site = Site::new();
    let origin = origin();
    let server = serve(&site, origin.port());
    let port = server.port("plain");
    assert_eq!(get(port, "/missing").status, 404);
    let head = wire::request(port, "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(head.status, 200);
    assert_eq!(get(port, "/unbuffered").status, 200);
    assert_eq!(get(port, "/directory/").status, 200);
    // Shorter than it says: the response breaks off, too.
    let mut connection = Connection::open(port);
    connection.send("GET /short HTTP/1.1\r\nHost: h\r\n\r\n");
    connection.rest();
    // Whoever writes $request_uri lets clients choose another directory in nginx.
    let response = wire::request(
        port,
        "GET /chosen/../chosen/evil HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    assert_eq!(response.status, 200);
    server.wait_for_log("the response is not stored at \"");
    // One more, after which those before would be there.
    get(port, "/last");
    stored(&site.path("www/last"));
    let list = |directory: &str| {
        let entries = fs::read_dir(site.path(directory)).expect("it is there");
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(list("www"), ["last"]);
    assert_eq!(list("mirror"), [""; 0]);
    wait_for_none(&site);
}

#[test]
fn a_client_that_goes_leaves_no_file() {
    let site = Site::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = serve(&site, listener.local_addr().expect("it is bound").port());
    let mut client = Connection::open(server.port("plain"));
    client.send("GET /half HTTP/1.1\r\nHost: h\r\n\r\n");
    let (mut peer, _) = listener.accept().expect("the server asks");
    peer.set_write_timeout(Some(PATIENCE)).expect("not zero");
    let half = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{}",
        "x".repeat(500_000)
    );
    peer.write_all(half.as_bytes()).expect("the server reads");
    wait_for("the temporary file", || {
        (!temporary_files(&site).is_empty()).then_some(())
    });
    drop(client);
    wait_for_none(&site);
    assert!(!site.path("www/half").exists());
}

#[test]
fn what_cannot_be_stored_is_served() {
    let site = Site::new();
    let origin = origin();
    let server = serve(&site, origin.port());
    server.expect_alert("the response is not stored");
    let port = server.port("plain");
    fs::create_dir(site.path("www/taken")).expect("the site is writable");
    fs::write(site.path("www/file"), "").expect("the site is writable");
    assert_eq!(get(port, "/taken").text(), "body of /taken");
    server.wait_for_log("Is a directory");
    assert_eq!(get(port, "/file/below").text(), "body of /file/below");
    server.wait_for_log("the response is not stored");
    wait_for_none(&site);
}
