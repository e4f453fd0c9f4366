//! Files as responses: media types, validators, conditions, ranges, expiry,
//! added headers, listings, precompressed files and the status page.

use sealane_tests::wire::{Connection, get, get_with, request};
use sealane_tests::{Site, command, random::Random, wait_for};
use std::time::{Duration, SystemTime};

/// A modification time that is the same in every run: 2021-11-09 00:00:00 UTC.
const MODIFIED_S: u64 = 1_636_416_000;
const MODIFIED: &str = "Tue, 09 Nov 2021 00:00:00 GMT";

fn write_dated(site: &Site, relative: &str, content: &[u8]) {
    let path = site.write(relative, content);
    let file = std::fs::File::options()
        .write(true)
        .open(path)
        .expect("just written");
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED_S);
    file.set_modified(modified).expect("the file is ours");
}

#[test]
fn headers_of_a_file_and_of_head() {
    let site = Site::new();
    write_dated(&site, "html/page.html", b"<p>page</p>");
    write_dated(&site, "html/data.unknown", b"?");
    write_dated(&site, "html/empty.txt", b"");
    let server = site.serve(
        "types { text/html html; text/plain txt; } default_type application/octet-stream;
         server { listen 127.0.0.1:%plain%; root html; }",
    );
    let port = server.port("plain");
    let page = get(port, "/page.html");
    assert_eq!(
        (page.status, page.body.as_slice()),
        (200, b"<p>page</p>".as_slice())
    );
    assert_eq!(page.header("content-type"), Some("text/html"));
    assert_eq!(page.header("content-length"), Some("11"));
    assert_eq!(page.header("last-modified"), Some(MODIFIED));
    assert_eq!(
        page.header("etag"),
        Some(format!("\"{MODIFIED_S:x}-b\"").as_str())
    );
    assert_eq!(page.header("accept-ranges"), Some("bytes"));
    assert_eq!(
        get(port, "/data.unknown").header("content-type"),
        Some("application/octet-stream")
    );
    let empty = get(port, "/empty.txt");
    assert_eq!(
        (
            empty.status,
            empty.header("content-length"),
            empty.body.len()
        ),
        (200, Some("0"), 0)
    );
    let head = request(
        port,
        "HEAD /page.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("11"))
    );
    assert_eq!(head.header("etag"), page.header("etag"));
    for method in ["POST", "PUT", "DELETE"] {
        let head = format!(
            "{method} /page.html HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(request(port, &head).status, 405, "{method} on a file");
    }
}

#[test]
fn conditional_requests() {
    let site = Site::new();
    write_dated(&site, "html/a.txt", b"0123456789");
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html;
            location /before/ { alias html/; if_modified_since before; }
            location /never/ { alias html/; if_modified_since off; }
            location /untagged/ { alias html/; etag off; } }",
    );
    let port = server.port("plain");
    let etag = get(port, "/a.txt")
        .header("etag")
        .expect("a file has an ETag")
        .to_owned();
    let later = "Tue, 09 Nov 2021 00:00:01 GMT";
    let earlier = "Mon, 08 Nov 2021 23:59:59 GMT";
    for (target, header, status) in [
        ("/a.txt", format!("If-None-Match: {etag}"), 304),
        ("/a.txt", format!("If-None-Match: W/{etag}"), 304),
        ("/a.txt", format!("If-None-Match: \"x\", {etag}"), 304),
        ("/a.txt", "If-None-Match: *".to_owned(), 304),
        ("/a.txt", "If-None-Match: \"x\"".to_owned(), 200),
        ("/a.txt", format!("If-Modified-Since: {MODIFIED}"), 304),
        ("/a.txt", format!("If-Modified-Since: {later}"), 200),
        ("/a.txt", format!("If-Modified-Since: {earlier}"), 200),
        ("/a.txt", "If-Modified-Since: yesterday".to_owned(), 200),
        ("/before/a.txt", format!("If-Modified-Since: {later}"), 304),
        (
            "/before/a.txt",
            format!("If-Modified-Since: {earlier}"),
            200,
        ),
        (
            "/never/a.txt",
            format!("If-Modified-Since: {MODIFIED}"),
            200,
        ),
        ("/a.txt", format!("If-Match: {etag}"), 200),
        ("/a.txt", "If-Match: *".to_owned(), 200),
        ("/a.txt", "If-Match: \"x\"".to_owned(), 412),
        ("/a.txt", format!("If-Match: W/{etag}"), 412),
        ("/a.txt", format!("If-Unmodified-Since: {MODIFIED}"), 200),
        ("/a.txt", format!("If-Unmodified-Since: {earlier}"), 412),
        // The entity tag decides; the date is not asked when the tag differs.
        (
            "/a.txt",
            format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {MODIFIED}"),
            200,
        ),
    ] {
        let response = get_with(port, target, &format!("{header}\r\n"));
        assert_eq!(response.status, status, "{target} with {header}");
        if status == 304 {
            assert_eq!(
                response.header("etag"),
                Some(etag.as_str()),
                "304 carries the ETag"
            );
            assert_eq!(response.header("content-length"), None, "304 has no length");
        }
    }
    assert_eq!(get(port, "/untagged/a.txt").header("etag"), None);
}

#[test]
fn single_ranges() {
    let site = Site::new();
    write_dated(&site, "html/a.txt", b"0123456789");
    write_dated(&site, "html/empty.txt", b"");
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html;
            location /whole/ { alias html/; max_ranges 0; }
            location /two/ { alias html/; max_ranges 2; } }",
    );
    let port = server.port("plain");
    for (range, body, content_range) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=5-100", "56789", "bytes 5-9/10"),
        ("bytes=-100", "0123456789", "bytes 0-9/10"),
        ("bytes= 2 - 4 ", "234", "bytes 2-4/10"),
        ("Bytes=2-4", "234", "bytes 2-4/10"),
    ] {
        let response = get_with(port, "/a.txt", &format!("Range: {range}\r\n"));
        assert_eq!(
            (response.status, response.text().as_str()),
            (206, body),
            "{range}"
        );
        assert_eq!(
            response.header("content-range"),
            Some(content_range),
            "{range}"
        );
    }
    for range in [
        "bytes=10-",
        "bytes=100-200",
        "bytes=5-2",
        "bytes=-",
        "bytes=a-b",
        "bytes=1-99999999999999999999999",
    ] {
        let response = get_with(port, "/a.txt", &format!("Range: {range}\r\n"));
        assert_eq!(response.status, 416, "{range}");
        assert_eq!(
            response.header("content-range"),
            Some("bytes */10"),
            "{range}"
        );
    }
    for range in ["lines=1-2", "bytes", "bytes=", "1-2"] {
        assert_eq!(
            get_with(port, "/a.txt", &format!("Range: {range}\r\n")).status,
            200,
            "{range}"
        );
    }
    assert_eq!(
        get_with(port, "/whole/a.txt", "Range: bytes=1-2\r\n").status,
        200
    );
    assert_eq!(get(port, "/whole/a.txt").header("accept-ranges"), None);
    assert_eq!(
        get_with(port, "/two/a.txt", "Range: bytes=1-2,4-5\r\n").status,
        206
    );
    assert_eq!(
        get_with(port, "/two/a.txt", "Range: bytes=1-2,4-5,7-8\r\n").status,
        200
    );
    assert_eq!(
        get_with(port, "/empty.txt", "Range: bytes=0-0\r\n").status,
        200,
        "nothing to take a range of"
    );
}

#[test]
fn if_range_guards_a_range() {
    let site = Site::new();
    write_dated(&site, "html/a.txt", b"0123456789");
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; }");
    let port = server.port("plain");
    let etag = get(port, "/a.txt")
        .header("etag")
        .expect("a file has an ETag")
        .to_owned();
    for (guard, status) in [
        (etag.as_str(), 206),
        ("\"x\"", 200),
        (MODIFIED, 206),
        ("Tue, 09 Nov 2021 00:00:01 GMT", 200),
        ("nonsense", 200),
    ] {
        let response = get_with(
            port,
            "/a.txt",
            &format!("Range: bytes=1-3\r\nIf-Range: {guard}\r\n"),
        );
        assert_eq!(response.status, status, "If-Range: {guard}");
    }
}

#[test]
fn multiple_ranges_are_multipart() {
    let site = Site::new();
    write_dated(&site, "html/a.txt", b"0123456789");
    let server =
        site.serve("types { text/plain txt; } server { listen 127.0.0.1:%plain%; root html; }");
    let response = get_with(
        server.port("plain"),
        "/a.txt",
        "Range: bytes=0-1,4-5,-1\r\n",
    );
    assert_eq!(response.status, 206);
    assert_eq!(response.header("content-range"), None);
    let kind = response
        .header("content-type")
        .expect("a multipart type")
        .to_owned();
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("a boundary");
    let part = |range: &str, text: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {range}/10\r\n\r\n{text}"
        )
    };
    let expected = format!(
        "{}{}{}\r\n--{boundary}--\r\n",
        part("0-1", "01"),
        part("4-5", "45"),
        part("9-9", "9")
    );
    assert_eq!(response.text(), expected);
    assert_eq!(
        response.header("content-length"),
        Some(expected.len().to_string().as_str())
    );
    // Ranges that together are longer than the file are not worth a multipart.
    assert_eq!(
        get_with(server.port("plain"), "/a.txt", "Range: bytes=0-,0-,0-\r\n").status,
        200
    );
}

#[test]
fn expires_and_added_headers() {
    let site = Site::new();
    write_dated(&site, "html/a.txt", b"a");
    let server = site.serve(
        r#"server { listen 127.0.0.1:%plain%; root html;
            add_header Strict-Transport-Security "max-age=3600; includeSubDomains" always;
            add_header X-Ok yes;
            location /hour/   { alias html/; expires 1h; }
            location /max/    { alias html/; expires max; }
            location /epoch/  { alias html/; expires epoch; }
            location /minus/  { alias html/; expires -1; }
            location /own/    { alias html/; add_header X-Own "$uri"; add_header X-Empty ""; }
        }"#,
    );
    let port = server.port("plain");
    let plain = get(port, "/a.txt");
    assert_eq!(
        plain.header("strict-transport-security"),
        Some("max-age=3600; includeSubDomains")
    );
    assert_eq!(plain.header("x-ok"), Some("yes"));
    assert_eq!(plain.header("expires"), None);
    let missing = get(port, "/missing");
    assert_eq!(
        missing.header("strict-transport-security"),
        Some("max-age=3600; includeSubDomains"),
        "always"
    );
    assert_eq!(
        missing.header("x-ok"),
        None,
        "only with success and redirects"
    );
    let hour = get(port, "/hour/a.txt");
    assert_eq!(hour.header("cache-control"), Some("max-age=3600"));
    assert!(
        hour.header("expires")
            .is_some_and(|date| date.ends_with("GMT"))
    );
    let max = get(port, "/max/a.txt");
    assert_eq!(max.header("expires"), Some("Thu, 31 Dec 2037 23:55:55 GMT"));
    assert_eq!(max.header("cache-control"), Some("max-age=315360000"));
    let epoch = get(port, "/epoch/a.txt");
    assert_eq!(
        epoch.header("expires"),
        Some("Thu, 01 Jan 1970 00:00:01 GMT")
    );
    assert_eq!(epoch.header("cache-control"), Some("no-cache"));
    assert_eq!(
        get(port, "/minus/a.txt").header("cache-control"),
        Some("no-cache")
    );
    let own = get(port, "/own/a.txt");
    assert_eq!(own.header("x-own"), Some("/own/a.txt"));
    assert_eq!(own.header("x-empty"), None, "an empty value adds nothing");
    assert_eq!(
        own.header("x-ok"),
        None,
        "a location's own add_header replaces inherited ones"
    );
}

#[test]
fn directory_listing() {
    let site = Site::new();
    write_dated(&site, "html/list/b&c.txt", b"12345");
    write_dated(&site, "html/list/sub/x", b"");
    write_dated(&site, "html/list/.hidden", b"");
    write_dated(
        &site,
        "html/list/a very long name that goes on and on until it has to be cut somewhere.txt",
        b"",
    );
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; autoindex on; }");
    let listing = get(server.port("plain"), "/list/");
    assert_eq!(
        (listing.status, listing.header("content-type")),
        (200, Some("text/html"))
    );
    let text = listing.text();
    assert!(text.contains("<h1>Index of /list/</h1>"), "{text}");
    assert!(text.contains("<a href=\"../\">../</a>"), "{text}");
    assert!(text.contains("<a href=\"sub/\">sub/</a>"), "{text}");
    assert!(
        text.contains("<a href=\"b%26c.txt\">b&amp;c.txt</a>"),
        "{text}"
    );
    assert!(text.contains("09-Nov-2021 00:00"), "{text}");
    assert!(text.contains("..&gt;</a>"), "a long name is cut: {text}");
    assert!(
        !text.contains(".hidden"),
        "dot files are not listed: {text}"
    );
    assert!(
        text.find("sub/").unwrap() < text.find("b&amp;c").unwrap(),
        "directories come first: {text}"
    );
}

#[test]
fn precompressed_files() {
    let site = Site::new();
    write_dated(&site, "html/a.txt", b"plain");
    let compressed = command("gzip", &["-c"], b"compressed").success().stdout;
    write_dated(&site, "html/a.txt.gz", &compressed);
    write_dated(&site, "html/only.txt.gz", &compressed);
    let server = site.serve(
        "types { text/plain txt; } gzip_vary on;
         server { listen 127.0.0.1:%plain%; root html; gzip_static on;
            location /always/ { alias html/; gzip_static always; }
            location /off/ { alias html/; gzip_static off; } }",
    );
    let port = server.port("plain");
    for (accept, encoded) in [
        ("gzip", true),
        ("deflate, gzip;q=0.5", true),
        ("gzip;q=0", false),
        ("gzip;q=0.000", false),
        ("deflate", false),
        ("*", false),
    ] {
        let response = get_with(port, "/a.txt", &format!("Accept-Encoding: {accept}\r\n"));
        assert_eq!(
            response.header("content-encoding").is_some(),
            encoded,
            "Accept-Encoding: {accept}"
        );
        assert_eq!(
            response.body,
            if encoded {
                compressed.as_slice()
            } else {
                b"plain"
            },
            "Accept-Encoding: {accept}"
        );
        assert_eq!(response.header("content-type"), Some("text/plain"));
        assert_eq!(response.header("vary"), Some("Accept-Encoding"));
    }
    assert_eq!(
        get(port, "/only.txt").status,
        404,
        "the client does not accept gzip"
    );
    assert_eq!(
        get_with(port, "/only.txt", "Accept-Encoding: gzip\r\n").status,
        200
    );
    assert_eq!(
        get(port, "/always/only.txt").header("content-encoding"),
        Some("gzip")
    );
    assert_eq!(
        get_with(port, "/off/a.txt", "Accept-Encoding: gzip\r\n").text(),
        "plain"
    );
}

#[test]
fn every_way_to_transmit_gives_the_same_bytes() {
    let site = Site::new();
    let content = Random::new(11).bytes(3_000_001);
    site.write("html/big.bin", &content);
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html;
            location /sendfile/ { alias html/; sendfile on; }
            location /corked/   { alias html/; sendfile on; tcp_nopush on; }
            location /chunks/   { alias html/; sendfile on; sendfile_max_chunk 64k; }
            location /copied/   { alias html/; sendfile off; output_buffers 2 16k; }
            location /delayed/  { alias html/; tcp_nodelay off; }
        }",
    );
    for prefix in ["", "/sendfile", "/corked", "/chunks", "/copied", "/delayed"] {
        let response = get(server.port("plain"), &format!("{prefix}/big.bin"));
        assert!(
            response.body == content,
            "{prefix}: {} bytes",
            response.body.len()
        );
        let part = get_with(
            server.port("plain"),
            &format!("{prefix}/big.bin"),
            "Range: bytes=1000000-2000000\r\n",
        );
        assert!(
            part.body == content[1_000_000..=2_000_000],
            "{prefix}: range of {} bytes",
            part.body.len()
        );
    }
}

#[test]
fn limit_rate_bounds_the_speed_and_loses_nothing() {
    let site = Site::new();
    let content = Random::new(12).bytes(60_000);
    site.write("html/a.bin", &content);
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html; limit_rate 20k;
            location /later/ { alias html/; limit_rate_after 1m; } }",
    );
    let started = std::time::Instant::now();
    assert!(get(server.port("plain"), "/a.bin").body == content);
    // 60 KB at 20 KB/s end after two full seconds at the earliest. No upper
    // bound: a loaded machine may take longer.
    assert!(
        started.elapsed() >= Duration::from_millis(1900),
        "sent in {:?}",
        started.elapsed()
    );
    assert!(get(server.port("plain"), "/later/a.bin").body == content);
}

#[test]
fn status_page_counts_connections_and_requests() {
    let site = Site::new();
    site.write("html/a.txt", "a");
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html; location = /status { stub_status; } }",
    );
    let port = server.port("plain");
    let read = || {
        let response = get(port, "/status");
        assert_eq!(response.header("content-type"), Some("text/plain"));
        let text = response.text();
        let numbers: Vec<u64> = text
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        assert_eq!(numbers.len(), 7, "{text}");
        assert!(text.starts_with("Active connections: "), "{text}");
        assert!(text.contains("server accepts handled requests"), "{text}");
        numbers
    };
    let before = read();
    let mut connection = Connection::open(port);
    for _ in 0..5 {
        connection.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        connection.response(false);
    }
    let after = read();
    // active, accepts, handled, requests, reading, writing, waiting
    assert_eq!(
        after[1] - before[1],
        2,
        "one connection for the files, one for this page"
    );
    assert_eq!(after[1], after[2], "every accepted connection was handled");
    assert_eq!(after[3] - before[3], 6);
    // A connection that this test has closed may be counted a moment longer.
    wait_for("one connection that writes and one that waits", || {
        let now = read();
        ((now[0], now[4], now[5], now[6]) == (2, 0, 1, 1)).then_some(())
    });
}

#[test]
fn lists_of_directories_have_a_limit() {
    let site = Site::new();
    for (directory, count) in [("three", 3), ("four", 4)] {
        for number in 0..count {
            site.write(format!("html/{directory}/{number}.txt"), "file");
        }
    }
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html; autoindex_max_entries 3;
             location / { autoindex on; }
             location /any/ { alias %site%/html/; random_index on; } }",
    );
    let port = server.port("plain");
    for list in ["", "/any"] {
        assert_eq!(get(port, &format!("{list}/three/")).status, 200, "{list}");
        assert_eq!(get(port, &format!("{list}/four/")).status, 500, "{list}");
    }
    server.wait_for_log("has more than 3 entries, you may want to increase autoindex_max_entries");
}
