use crate::handlers::path::FilePath;
use crate::handlers::static_file;
use crate::open_file_cache::{Errno, Lookup};
use crate::testing::{Site, set_mtime};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::io::Read;
use std::sync::Arc;

#[test]
fn a_file_is_served_as_nginx_serves_it() {
    let site = Site::new("");
    site.file("a.txt", "hello\n");
    let reply = site.get("/a.txt");
    assert_eq!(
        reply.head,
        "HTTP/1.1 200 OK\n\
         Content-Type: text/plain\n\
         Content-Length: 6\n\
         Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT\n\
         Connection: keep-alive\n\
         ETag: \"3b9aca00-6\"\n\
         Accept-Ranges: bytes\n"
    );
    assert_eq!(reply.text(), "hello\n");
}

#[test]
fn server_tokens_names_the_version_or_not() {
    let full = concat!("sealane/", env!("CARGO_PKG_VERSION"));
    for (directive, name) in [("", full), ("server_tokens off;", "sealane")] {
        let reply = Site::new(directive).get("/missing");
        assert!(
            reply
                .text()
                .contains(&format!("<hr><center>{name}</center>\r\n")),
            "{}",
            reply.text()
        );
        let mut head = Vec::new();
        let close = sealane_http::h1::ConnectionHeader::Close;
        super::encode_head(&reply.exchange, &mut head, close, false);
        let head = String::from_utf8(head).expect("text");
        assert!(
            head.contains(&format!("\r\nServer: {name}\r\nDate: ")),
            "{head}"
        );
    }
}

#[test]
fn return_444_drops_the_connection() {
    let reply = Site::new("return 444;").get("/");
    assert!(reply.exchange.response.drop_connection);
    assert_eq!(reply.status(), 444);
    // Also when an error page would lead to it.
    let site = Site::new("error_page 404 /gone; location /gone { return 444; }");
    assert!(site.get("/x").exchange.response.drop_connection);
}

#[test]
fn a_return_of_the_server_answers_everything() {
    let site =
        Site::new("location / { return 200 location; } return 301 https://$host$request_uri;");
    let reply = site.get("/a?b=c");
    assert_eq!(reply.header("Location"), Some("https://example.org/a?b=c"));
}

#[test]
fn trace_and_connect_are_refused_and_end_the_connection() {
    let site = Site::new("");
    site.file("a.txt", "x");
    for request in [
        "TRACE /a.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
    ] {
        let reply = site.request(request);
        assert_eq!(reply.status(), 405, "{request}");
        assert!(reply.exchange.response.close);
    }
    assert!(
        site.error_log()
            .contains("client sent TRACE method while reading client request headers")
    );
}

#[test]
fn statuses_that_end_the_connection() {
    let site = Site::new(
        "location /400 { return 400; } location /404 { return 404; } location /500 { return 500; }",
    );
    for (target, close) in [("/400", true), ("/404", false), ("/500", true)] {
        assert_eq!(site.get(target).exchange.response.close, close, "{target}");
    }
}

#[test]
fn internal_redirects_are_limited_to_ten() {
    // Ten hops lead to the answer, an eleventh does not.
    let hops = |count: u32| {
        let hop = |n: u32| format!("location = /{n} {{ try_files /none /{}; }} ", n - 1);
        let server: String = (1..=count).map(hop).collect();
        Site::new(&format!("{server} location = /0 {{ return 200 arrived; }}"))
    };
    assert_eq!(hops(10).get("/10").text(), "arrived");
    let site = hops(11);
    let reply = site.get("/11");
    assert_eq!(reply.status(), 500);
    let log = site.error_log();
    assert!(
        log.contains(
            "rewrite or internal redirection cycle while internally redirecting to \"/0\""
        ),
        "{log}"
    );
}

#[test]
fn nothing_climbs_out_of_the_root() {
    let site = Site::new(
        "root DIR/inside; location /alias/ { alias DIR/inside/; } \
         location ~ ^/re/(.*)$ { alias DIR/inside/$1; } location /try/ { try_files $uri =404; }",
    );
    site.file("secret.txt", "secret").file("inside/a.txt", "a");
    for target in [
        "/alias/%2e%2e/secret.txt",
        "/alias/..%2fsecret.txt",
        "/re/%2e%2e%2fsecret.txt",
        "/alias/%252e%252e/secret.txt",
        "/%5c..%5csecret.txt",
        "/alias/a.txt%2f..%2f..%2fsecret.txt",
        "/try/..%2fsecret.txt",
        "/alias/../secret.txt",
    ] {
        assert_eq!(site.get(target).status(), 404, "{target}");
    }
    assert_eq!(site.get("/alias/b/..%2fa.txt").text(), "a");
}

#[test]
fn a_value_of_the_client_in_a_path_is_the_configuration_s_decision() {
    // As in nginx: whoever writes $arg_f into a path lets the client choose it.
    let site = Site::new("location /try/ { root DIR/inside; try_files /$arg_f =404; }");
    site.file("secret.txt", "secret").file("inside/a.txt", "a");
    assert_eq!(site.get("/try/?f=a.txt").text(), "a");
}

#[test]
fn what_the_errors_of_open_mean() {
    let site = Site::new("");
    let exchange = site.exchange("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let path = FilePath::of(&exchange).expect("a root maps every URI");
    for (errno, status, logged) in [
        (libc::ENOENT, 404, "[error]"),
        (libc::ENOTDIR, 404, "[error]"),
        (libc::ENAMETOOLONG, 404, "[error]"),
        (libc::EACCES, 403, "[error]"),
        (libc::ELOOP, 403, "[error]"),
        (libc::EMFILE, 500, "[crit]"),
        (libc::EIO, 500, "[crit]"),
    ] {
        let before = site.error_log().len();
        assert_eq!(
            static_file::refuse(&exchange, &path, Errno(errno)).0,
            status
        );
        let log = site.error_log().split_off(before);
        assert!(
            log.contains(logged) && log.contains(&format!("www/a\" failed ({errno}: ")),
            "{log}"
        );
    }
}

#[test]
fn other_kinds_of_files_are_not_served() {
    let site = Site::new("location /dev { alias /dev/null; }");
    assert_eq!(site.get("/dev").status(), 404);
    assert!(site.error_log().contains("[crit]"));
    assert!(
        site.error_log()
            .contains("\"/dev/null\" is not a regular file")
    );
}

#[test]
fn log_not_found_off_is_silent() {
    let site = Site::new("log_not_found off;");
    assert_eq!(site.get("/missing").status(), 404);
    assert_eq!(site.get("/missing/").status(), 404);
    let log = site.error_log();
    let mut lines = log.lines().filter(|line| !line.contains("[debug]"));
    assert_eq!(lines.find(|line| line.contains("missing")), None);
}

#[test]
fn a_nested_location_inherits_alias_with_its_prefix() {
    let site =
        Site::new("location /i/ { alias DIR/img/; location ~ \\.gif$ { add_header X-Gif yes; } }");
    site.file("img/a.gif", "gif").file("img/a.png", "png");
    let reply = site.get("/i/a.gif");
    assert_eq!((reply.text(), reply.header("X-Gif")), ("gif", Some("yes")));
    assert_eq!(site.get("/i/a.png").text(), "png");
}

#[test]
fn a_relative_root_from_a_variable_starts_at_the_prefix() {
    let site = Site::new("root $arg_r; log_not_found on;");
    let reply = site.get("/x?r=some/where");
    assert_eq!(reply.status(), 404);
    let log = site.error_log();
    assert!(
        log.contains("\"/etc/sealane/some/where/x\" failed"),
        "{log}"
    );
}

#[test]
fn roots_and_aliases_with_variables() {
    let site = Site::new(
        "location /v/ { root DIR/$host; } location ~ ^/u/(?<name>\\w+)/(.+)$ { alias DIR/users/$name/$2; }",
    );
    site.file("example.org/v/a.txt", "by host")
        .file("users/anna/b/c.txt", "by capture");
    assert_eq!(site.get("/v/a.txt").text(), "by host");
    assert_eq!(site.get("/u/anna/b/c.txt").text(), "by capture");
}

#[test]
fn the_open_file_cache_serves_contents_from_memory() {
    let site = Site::new("open_file_cache max=100; open_file_cache_content 1m 64k;");
    site.file("a.txt", "cached");
    for _ in 0..2 {
        let reply = site.get("/a.txt");
        assert_eq!(reply.text(), "cached");
        let segments: Vec<_> = reply.exchange.response.body.segments().collect();
        assert!(
            matches!(segments[..], [sealane_io::chain::Segment::Memory(_)]),
            "{segments:?}"
        );
    }
    // Valid for a minute: the change is not seen yet, and what is sent is whole.
    let path = site.root().join("a.txt");
    fs::write(&path, "changed and longer").expect("writable");
    let reply = site.get("/a.txt");
    assert_eq!(
        (reply.text(), reply.header("Content-Length")),
        ("cached", Some("6"))
    );
    assert_eq!(site.get_with("/a.txt", &["Range: bytes=1-2"]).text(), "ac");
}

#[test]
fn open_file_cache_valid_notices_changes() {
    let site = Site::new(
        "open_file_cache max=100; open_file_cache_valid 0; open_file_cache_content 1m 64k;",
    );
    site.file("a.txt", "one");
    assert_eq!(site.get("/a.txt").text(), "one");
    fs::write(site.root().join("a.txt"), "three").expect("writable");
    set_mtime(&site.root().join("a.txt"), 1_000_000_007);
    let reply = site.get("/a.txt");
    assert_eq!(
        (reply.text(), reply.header("ETag")),
        ("three", Some("\"3b9aca07-5\""))
    );
}

#[test]
fn a_file_that_changes_size_keeps_the_promised_length() {
    let site = Site::new("open_file_cache max=100;");
    site.file("a.txt", "0123456789");
    assert_eq!(site.get("/a.txt").body.len(), 10);
    fs::write(site.root().join("a.txt"), "0123456789 and more").expect("writable");
    let reply = site.get("/a.txt");
    assert_eq!(reply.header("Content-Length"), Some("10"));
    assert_eq!(
        reply.exchange.response.body.len(),
        10,
        "never more than promised"
    );
}

#[test]
fn errors_are_cached_when_asked_to() {
    let site = Site::new("open_file_cache max=100; open_file_cache_errors on;");
    assert_eq!(site.get("/late.txt").status(), 404);
    site.file("late.txt", "here");
    assert_eq!(site.get("/late.txt").status(), 404);
    let exchange = site.exchange("GET /late.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let settings = exchange.conf().open_file_cache.expect("it is on");
    let path = site.root().join("late.txt");
    let path = path.to_str().expect("UTF-8").as_bytes();
    let lookup = site
        .worker()
        .open_files
        .lookup(&settings, path, exchange.transfer.started);
    assert!(matches!(lookup, Lookup::Answer(Err(_))), "{lookup:?}");
}

#[test]
fn a_sparse_gigabyte_costs_no_memory() {
    let site = Site::new("");
    site.file("sparse", "");
    let file = fs::File::options()
        .write(true)
        .open(site.root().join("sparse"))
        .expect("it is there");
    file.set_len(1 << 30).expect("sparse files are free");
    drop(file);
    let mut exchange =
        site.exchange("GET /sparse HTTP/1.1\r\nHost: a\r\nRange: bytes=1073741822-\r\n\r\n");
    site.handle(&mut exchange);
    assert_eq!(exchange.response.content_length, Some(2));
    assert_eq!(exchange.response.body.len(), 2);
    let mut exchange = site.exchange("GET /sparse HTTP/1.1\r\nHost: a\r\n\r\n");
    site.handle(&mut exchange);
    assert_eq!(exchange.response.body.len(), 1 << 30);
}

#[test]
fn http_0_9_gets_a_body_and_no_head() {
    let site = Site::new("");
    site.file("a.txt", "old");
    let reply = site.request("GET /a.txt\r\n");
    assert_eq!((&reply.head[..], reply.text()), ("", "old"));
}

#[test]
fn failures_before_a_request_use_the_server_s_error_page() {
    let site = Site::new("error_page 400 /bad.html;");
    site.file("bad.html", "<p>bad</p>");
    let mut exchange = site.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    site.fail(&mut exchange, 400);
    assert_eq!(exchange.response.status.0, 400);
    assert_eq!(exchange.response.content_length, Some(10));
    assert!(exchange.response.close);

    let mut exchange = site.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    site.fail(&mut exchange, 497);
    assert_eq!(exchange.response.status.0, 400);
    let reply = crate::testing::Reply::of(exchange);
    assert!(
        reply
            .text()
            .contains("The plain HTTP request was sent to HTTPS port"),
        "{}",
        reply.text()
    );
}

#[test]
fn plain_http_on_a_tls_port_can_be_redirected() {
    let site = Site::new("error_page 497 =301 https://$host$request_uri;");
    let mut exchange = site.exchange("GET /x?y HTTP/1.1\r\nHost: Example.org:8443\r\n\r\n");
    site.fail(&mut exchange, 497);
    assert_eq!(exchange.response.status.0, 301);
    assert_eq!(
        exchange.response.location.as_deref(),
        Some(&b"https://example.org/x?y"[..])
    );
}

#[test]
fn stub_status_counts() {
    let site = Site::new("location /status { stub_status; }");
    let worker = site.worker();
    worker.process.set_workers(vec![Arc::clone(worker)]);
    let counters = &worker.counters;
    counters.accepted.add(3);
    counters.handled.add(2);
    counters.requests.add(7);
    counters.active.add(2);
    counters.writing.add(1);
    counters.waiting.add(1);
    assert_eq!(
        site.get("/status").text(),
        "Active connections: 2 \nserver accepts handled requests\n 3 2 7 \nReading: 0 Writing: 1 Waiting: 1 \n"
    );
    assert_eq!(
        site.request("POST /status HTTP/1.1\r\nHost: a\r\n\r\n")
            .status(),
        405
    );
}

#[test]
fn a_416_has_its_headers_once() {
    let site = Site::new("add_header X-Always a always; expires 1h;");
    site.file("a.txt", "0123456789");
    let reply = site.get_with("/a.txt", &["Range: bytes=100-"]);
    assert_eq!(reply.status(), 416);
    assert_eq!(reply.header("Content-Range"), Some("bytes */10"));
    assert_eq!(reply.head.matches("X-Always").count(), 1, "{}", reply.head);
    assert_eq!(reply.header("ETag"), None);
}

#[test]
fn a_line_break_in_a_variable_does_not_split_the_response() {
    let site = Site::new("add_header X-Uri $uri; location /r { return 301 http://x.test$uri; }");
    site.file("a.txt", "x");
    let reply = site.get("/a%0d%0aSet-Cookie:%20x.txt");
    assert_eq!(reply.status(), 404);
    let reply = site.get("/r%0d%0aSet-Cookie:%20x");
    assert_eq!(reply.header("X-Uri"), Some("/r  Set-Cookie: x"));
    assert!(
        !reply
            .head
            .lines()
            .any(|line| line.starts_with("Set-Cookie")),
        "{}",
        reply.head
    );
}

#[test]
fn last_modified_can_be_replaced() {
    let site = Site::new("add_header Last-Modified \"Mon, 28 Sep 1970 06:00:00 GMT\";");
    site.file("a.txt", "x");
    assert_eq!(
        site.get("/a.txt").header("Last-Modified"),
        Some("Mon, 28 Sep 1970 06:00:00 GMT")
    );
}

#[test]
fn an_alias_of_a_file_with_a_slash_in_the_uri_is_no_directory() {
    let site = Site::new("location /file/ { alias DIR/a.txt; }");
    site.file("a.txt", "x");
    assert_eq!(site.get("/file/").status(), 500);
    assert!(
        site.error_log().contains("www/a.txt\" is not a directory"),
        "{}",
        site.error_log()
    );
}

#[test]
fn many_tiny_ranges_are_answered_with_the_file() {
    let site = Site::new("location /limited/ { alias DIR/; max_ranges 100; }");
    site.file("a.txt", vec![b'x'; 10_000]);
    let ask = |target: &str, count: u32| {
        let ranges: Vec<_> = (0..count).map(|n| format!("{n}-{n}")).collect();
        site.get_with(target, &[&format!("Range: bytes={}", ranges.join(","))])
            .status()
    };
    // (10,000 + 4,096) bytes are room for 54 parts of 1 + 256 bytes.
    assert_eq!(ask("/a.txt", 54), 206);
    assert_eq!(ask("/a.txt", 55), 200);
    assert_eq!(ask("/limited/a.txt", 100), 206);
    assert_eq!(ask("/limited/a.txt", 101), 200);
}

#[test]
fn an_error_page_of_416_takes_the_place_of_the_file() {
    let site = Site::new("gzip_static always; error_page 416 /416.html;");
    site.file("a.txt", "0123456789")
        .file("416.html", "<p>no such range</p>");
    let reply = site.get_with("/a.txt", &["Range: bytes=100-"]);
    assert_eq!(
        (reply.status(), reply.text()),
        (416, "<p>no such range</p>")
    );
    assert_eq!(reply.header("Content-Length"), Some("20"));
    assert_eq!(reply.header("Content-Range"), Some("bytes */10"));
}

#[test]
fn files_that_were_compressed_beforehand_have_ranges() {
    let site = Site::new("gzip_static always;");
    site.file("a.txt", "0123456789")
        .file("a.txt.gz", "not really gzip");
    let whole = site.get("/a.txt");
    assert_eq!(
        (whole.text(), whole.header("Accept-Ranges")),
        ("not really gzip", Some("bytes"))
    );
    let part = site.get_with("/a.txt", &["Range: bytes=4-9"]);
    assert_eq!((part.status(), part.text()), (206, "really"));
    assert_eq!(part.header("Content-Range"), Some("bytes 4-9/15"));
    assert_eq!(part.header("Content-Encoding"), Some("gzip"));
    // The page of a 416 is no gzip.
    let none = site.get_with("/a.txt", &["Range: bytes=100-"]);
    assert_eq!(none.status(), 416);
    assert_eq!(none.header("Content-Range"), Some("bytes */15"));
    assert_eq!(none.header("Content-Encoding"), None);
}

#[test]
fn a_failed_precondition_leaves_nothing_of_the_file() {
    let site = Site::new("add_header X-Always a always;");
    site.file("a.txt", "0123456789");
    let reply = site.get_with("/a.txt", &["If-Match: \"other\""]);
    assert_eq!(reply.status(), 412);
    assert_eq!(
        (reply.header("ETag"), reply.header("X-Always")),
        (None, Some("a"))
    );
    assert!(!reply.text().contains("0123"));
}

#[test]
fn new_cookies_tell_clients_apart() {
    let site = Site::new(
        "userid_expires 1d; userid_p3p p3p; userid_flags secure; add_header X-Set $uid_set always; \
         location /on { userid on; userid_service 258; } location /v1 { userid v1; userid_service 258; } \
         location /mark { userid on; userid_mark Z; } \
         location /reset { userid on; set $uid_reset log; }",
    );
    let cookie = |target: &str, headers: &[&str]| {
        let reply = site.get_with(target, headers);
        assert_eq!(reply.header("P3P"), Some("p3p"));
        let value = reply.header("Set-Cookie").expect("one is set").to_owned();
        let (id, rest) = value.split_once(';').expect("more follows");
        assert!(rest.starts_with(" expires="), "{value}");
        assert!(rest.ends_with(" GMT; path=/; secure"), "{value}");
        let id = id.strip_prefix("uid=").expect("its name").to_owned();
        let bytes = STANDARD.decode(format!("{}==", &id[..22])).expect("base64");
        let shown = reply.header("X-Set").expect("it is shown").to_owned();
        let words = bytes.chunks(4).map(|word| {
            let word: [u8; 4] = word.try_into().expect("four bytes");
            format!("{:08X}", u32::from_ne_bytes(word))
        });
        assert_eq!(shown, format!("uid={}", words.collect::<String>()));
        (id, bytes)
    };
    let (first, bytes) = cookie("/on", &[]);
    assert_eq!(bytes[..4], [0, 0, 1, 2]);
    let (second, _) = cookie("/on", &[]);
    assert_ne!(first, second);
    let (_, bytes) = cookie("/v1", &[]);
    assert_eq!(bytes[..4], 258_u32.to_ne_bytes());
    let (marked, _) = cookie("/mark", &[]);
    assert!(marked.ends_with("Z="), "{marked}");
    let line = format!("Cookie: uid={first}");
    assert_eq!(site.get_with("/on", &[&line]).header("Set-Cookie"), None);
    let (reset, _) = cookie("/reset", &[&line]);
    assert_ne!(first, reset);
    assert!(site.error_log().contains("userid cookie \"uid="));
    assert!(site.error_log().contains("\" was reset"));
}

/// nginx does not say why.
#[test]
fn a_link_in_place_of_an_index_file_is_logged() {
    let site =
        Site::new("disable_symlinks on; location /off/ { alias DIR/l/; disable_symlinks off; }");
    site.file("a.txt", "0123456789\n").file("l/plain", "plain");
    std::os::unix::fs::symlink("../a.txt", site.root().join("l/index.html")).expect("writable");
    assert_eq!(site.get("/off/").status(), 200);
    assert_eq!(site.get("/l/").status(), 403);
    let log = site.error_log();
    assert!(
        log.contains("/l/index.html\" is forbidden (40: Too many"),
        "{log}"
    );
}

#[test]
fn brotli_and_zstd() {
    let site = Site::with_http(
        "brotli_types *; zstd_types *; gzip_types *; gzip_vary on; server { listen 127.0.0.1:80;
         location / { brotli on; gzip on; } location /all/ { alias DIR/; brotli on; gzip on; zstd on; }
         location /static/ { alias DIR/; brotli_static on; zstd_static on; gzip_static on; } }",
    );
    let plain = "a text that is long enough ".repeat(5000);
    site.file("t.txt", &plain)
        .file("t.txt.br", "as brotli")
        .file("t.txt.zst", "as zstd")
        .file("t.txt.gz", "as gzip");
    for (path, accepted, coding) in [
        ("/t.txt", "gzip, br, zstd", "br"),
        ("/t.txt", "gzip, br;q=0", "gzip"),
        ("/all/t.txt", "gzip;q=1, br;q=1, zstd;q=0.1", "zstd"),
        ("/all/t.txt", "br", "br"),
        ("/all/t.txt", "identity", ""),
        ("/static/t.txt", "gzip, br, zstd", "zstd"),
        ("/static/t.txt", "br, gzip", "br"),
        ("/static/t.txt", "x", ""),
    ] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n");
        let reply = site.request(&request);
        let said = reply
            .head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Encoding: "));
        assert_eq!(said.unwrap_or_default(), coding, "{path} {accepted}");
        assert!(
            reply.head.contains("Vary: Accept-Encoding"),
            "{path} {accepted}"
        );
        let is_static = path.starts_with("/static/") && !coding.is_empty();
        let mut text = Vec::new();
        let body = &*reply.body;
        match coding {
            _ if is_static => assert!(body.starts_with(b"as ")),
            "br" => {
                let mut decoder = brotli::Decompressor::new(body, 4096);
                decoder.read_to_end(&mut text).expect("Brotli's format");
            }
            "gzip" => {
                let mut decoder = flate2::read::GzDecoder::new(body);
                decoder.read_to_end(&mut text).expect("gzip's format");
            }
            "zstd" => {
                text = Vec::with_capacity(plain.len() + 1);
                zstd_safe::decompress(&mut text, body).expect("zstd's format");
            }
            _ => text = body.to_vec(),
        }
        assert!(is_static || text == plain.as_bytes(), "{path} {accepted}");
    }
}
