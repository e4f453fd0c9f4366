//! HTTP/3: that it answers as HTTP/1 does, and what logs and variables say of it.

use sealane_tests::origin::{Answer, Origin};
use sealane_tests::quic::{
    QUIC_CERTIFICATE, QuicClient, QuicRequest, QuicResponse, QuicScript, pattern, quic_site,
    serve_quic,
};
use sealane_tests::{Server, Site, random::Random, sha256, wait_for, wire};
use std::collections::BTreeSet;

/// The responses to requests that are all sent at once on one connection.
#[track_caller]
fn ask(site: &Site, server: &Server<'_>, requests: Vec<QuicRequest>) -> Vec<QuicResponse> {
    let script = QuicScript::to(site, server).requests(requests);
    QuicClient::Aioquic.run_one(&script).responses
}

/// The access log once it has so many lines.
#[track_caller]
fn log_of(site: &Site, lines: usize) -> Vec<String> {
    wait_for("the access log", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        let all: Vec<String> = log.lines().map(str::to_owned).collect();
        (all.len() >= lines).then_some(all)
    })
}

/// Fields that belong to the connection of HTTP/1, and the time.
fn is_about_connection(name: &str) -> bool {
    matches!(
        name,
        "connection" | "keep-alive" | "transfer-encoding" | "date"
    )
}

#[track_caller]
fn assert_same(old: &wire::Response, new: &QuicResponse, what: &str) {
    assert!(new.complete && new.reset.is_none(), "{what}: {new:?}");
    assert_eq!(old.status, new.status, "{what}");
    let lines = old.head.split("\r\n").skip(1);
    let lines = lines.filter_map(|line| line.split_once(": "));
    let lines = lines.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let without_connection = |fields: Vec<(String, String)>| {
        let mut fields = fields;
        fields.retain(|(name, _)| !is_about_connection(name));
        fields.sort();
        fields
    };
    let mut before = without_connection(lines.collect());
    let mut after = without_connection(new.headers.clone());
    // Of ranges: chosen anew for each response, and as long each time.
    let mut has_boundary = false;
    for (_, value) in before.iter_mut().chain(&mut after) {
        if let Some(at) = value.find("boundary=") {
            value.truncate(at);
            has_boundary = true;
        }
    }
    assert_eq!(before, after, "{what}");
    assert_eq!(old.body.len() as u64, new.body_bytes, "{what}");
    if !has_boundary {
        assert_eq!(sha256(&old.body), new.sha256, "the body of {what}");
    }
}

/// What [`answers_are_those_of_http1`] asks for.
const PATHS: [&str; 19] = [
    "/a.txt",
    "/empty",
    "/big.bin",
    "/none",
    "/sub",
    "/sub/",
    "/list/",
    "/moved/x",
    "/text?q=1&r",
    "/text/%41%2f..",
    "/nothing",
    "/denied",
    "/one/big.bin",
    "/try/what",
    "/dead/",
    "/pages/page.html",
    "/%zz",
    "/../..",
    "//a.txt",
];

#[test]
fn answers_are_those_of_http1() {
    let site = quic_site();
    site.write("html/big.bin", Random::new(5).bytes(300_000));
    site.write("html/sub/index.html", "<p>sub</p>");
    site.write("html/page.html", "<p>page</p>".repeat(500));
    site.write("html/errors/404.html", "gone");
    let server = serve_quic(
        &site,
        "error_page 404 /errors/404.html; add_header X-Always yes always; gzip_vary on;
         absolute_redirect off; keepalive_requests 1000000;
         location /list/ { alias html/; autoindex on; }
         location /moved/ { return 301 /sub/; }
         location /text { return 200 \"$request_method $uri|$args|$http_x_one|$cookie_b\"; }
         location /nothing { return 204; }
         location /denied { return 403; }
         location /one/ { alias html/; max_ranges 1; expires max; }
         location /try/ { try_files $uri /a.txt =404; }
         location /dead/ { proxy_pass http://127.0.0.1:1; }
         location /pages/ { alias html/; gzip on; gzip_min_length 1; }",
    );
    let port = server.port("plain");
    let etag = wire::get(port, "/big.bin");
    let etag = etag.header("etag").expect("files have one").to_owned();
    let conditions: [&[(&str, &str)]; 7] = [
        &[],
        &[("range", "bytes=10-20")],
        &[("range", "bytes=0-9,100-199,-5")],
        &[("range", "bytes=999999-")],
        &[("if-none-match", &etag)],
        &[("if-modified-since", "Thu, 01 Jan 2099 00:00:00 GMT")],
        &[
            ("accept-encoding", "gzip"),
            ("x-one", "two"),
            ("cookie", "a=1; b=2"),
        ],
    ];
    let mut cases = Vec::new();
    for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE"] {
        for path in PATHS {
            for fields in conditions {
                cases.push((method, path, fields));
            }
        }
    }
    let mut statuses = BTreeSet::new();
    let request = |(method, path, fields): &(&str, &str, &[(&str, &str)])| {
        let request = QuicRequest::new(method, path).header("content-length", "0");
        let fields = fields.iter();
        fields.fold(request, |request, (name, value)| {
            request.header(name, value)
        })
    };
    let new = ask(&site, &server, cases.iter().map(request).collect());
    assert_eq!(new.len(), cases.len());
    for ((method, path, fields), new) in cases.iter().zip(&new) {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n"
        );
        for (name, value) in *fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let old = wire::request(port, &format!("{head}\r\n"));
        assert_same(&old, new, &format!("{method} {path} {fields:?}"));
        statuses.insert(new.status);
    }
    for status in [200, 204, 206, 301, 304, 400, 403, 404, 405, 416, 502] {
        assert!(statuses.contains(&status), "{status} among {statuses:?}");
    }
}

#[test]
fn variables_and_log_lines_tell_of_the_protocol() {
    let site = quic_site();
    site.write("html/k.bin", vec![7; 1000]);
    let origin = Origin::answering(|_| {
        Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    let server = site.serve(&format!(
        "log_format all '$server_protocol|$http3|$http2|$quic|$scheme|$https|$ssl_protocol|$ssl_server_name|\
           $ssl_session_reused|$remote_addr|$server_port|$connection_requests|$status|$body_bytes_sent|$request|$host';
         log_format sizes '$bytes_sent $request_length $remote_port $ssl_cipher $ssl_alpn_protocol $request_completion';
         access_log logs/access.log all; access_log logs/sizes.log sizes;
         server {{ listen 127.0.0.1:%tls% ssl; listen 127.0.0.1:%tls% quic; root html; {QUIC_CERTIFICATE}
           location /here {{ return 200 '$server_protocol $http3 $quic $server_port $remote_addr'; }}
           location /upload {{ proxy_pass http://127.0.0.1:{}; }} }}",
        origin.port()
    ));
    let port = server.port("tls");
    let script = QuicScript::to(&site, &server)
        .get("/k.bin")
        .get("/none")
        .requests([QuicRequest::new("POST", "/upload").body(10_000)])
        .get("/here")
        .reconnect_resumed()
        .get("/k.bin");
    let run = QuicClient::Aioquic.run(&script);
    let here = format!("HTTP/3.0 h3 quic {port} 127.0.0.1");
    assert_eq!(
        run.connections[0].responses[3].sha256,
        sha256(here.as_bytes())
    );
    let lines = log_of(&site, 5);
    let line = |reused: &str, number: u32, rest: &str| {
        format!(
            "HTTP/3.0|h3||quic|https|on|TLSv1.3|localhost|{reused}|127.0.0.1|{port}|{number}|{rest}|localhost"
        )
    };
    let none = run.connections[0].responses[1].body_bytes;
    assert_eq!(
        lines,
        [
            line(".", 1, "200|1000|GET /k.bin HTTP/3.0"),
            line(".", 2, &format!("404|{none}|GET /none HTTP/3.0")),
            line(".", 3, "200|0|POST /upload HTTP/3.0"),
            line(".", 4, &format!("200|{}|GET /here HTTP/3.0", here.len())),
            line("r", 1, "200|1000|GET /k.bin HTTP/3.0"),
        ]
    );
    let sizes = wait_for("the other log", || {
        let text = std::fs::read_to_string(site.path("logs/sizes.log")).ok()?;
        (text.matches('\n').count() == lines.len()).then_some(text)
    });
    let sizes: Vec<Vec<&str>> = sizes
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    let number = |line: usize, column: usize| sizes[line][column].parse::<u64>().expect("a number");
    assert!((1001..1500).contains(&number(0, 0)), "{sizes:?}");
    assert!((10_001..10_500).contains(&number(2, 1)), "{sizes:?}");
    assert!((1..500).contains(&number(0, 1)), "{sizes:?}");
    for line in &sizes {
        assert!(line[2].parse::<u16>().expect("a port") > 0);
        assert!(line[3].starts_with("TLS_"), "{line:?}");
        assert_eq!(line[4..], ["h3", "OK"]);
    }
    assert_ne!(sizes[0][2], sizes[4][2], "another connection, another port");
    assert_eq!(sizes[0][2], sizes[3][2]);
}

/// Requests that have too much of something (RFC 9114 sections 4.2.2 and 4.1.2).
#[test]
fn too_much_is_refused_and_the_connection_goes_on() {
    let site = quic_site();
    let server = serve_quic(
        &site,
        "large_client_header_buffers 2 2k; client_max_body_size 10k;
         location /upload { proxy_pass http://127.0.0.1:1; }
         location /named { error_page 413 =499 /a.txt; client_max_body_size 1; proxy_pass http://127.0.0.1:1; }",
    );
    let long = "x".repeat(3000);
    let many = |count: usize| {
        let request = QuicRequest::get("/a.txt");
        (0..count).fold(request, |request, number| {
            request.header(&format!("x-{number}"), &"y".repeat(1000))
        })
    };
    let all = ask(
        &site,
        &server,
        vec![
            QuicRequest::get("/a.txt").header("x-long", &long),
            many(5),
            QuicRequest::get(&format!("/{long}")),
            QuicRequest::new("POST", "/upload").body(20_000),
            QuicRequest::new("POST", "/named").body(20_000),
            many(2),
        ],
    );
    let statuses: Vec<u16> = all.iter().map(|one| one.status).collect();
    assert_eq!(statuses[..2], [400, 400]);
    assert_eq!(statuses[3..], [413, 499, 200], "{all:?}");
    assert_eq!(statuses[2], 414);
}

#[test]
fn bodies_reach_origins_and_come_back() {
    let site = quic_site();
    let origin = Origin::answering(|asked| {
        let sum = sha256(&asked.body);
        let length = asked.headers("content-length").concat();
        Answer::Send(
            format!(
                "HTTP/1.1 200 OK\r\nX-Sum: {sum}\r\nX-Length: {length}\r\nContent-Length: 2\r\n\r\nok"
            )
            .into_bytes(),
        )
    });
    let server = serve_quic(
        &site,
        &format!(
            "client_max_body_size 0; client_body_buffer_size 16k;
             location /stored/ {{ proxy_pass http://127.0.0.1:{0}; }}
             location /streamed/ {{ proxy_pass http://127.0.0.1:{0}; proxy_request_buffering off; }}",
            origin.port()
        ),
    );
    let sizes = [0, 1, 1000, 16_384, 65_536, 65_537, 1_000_000];
    for place in ["stored", "streamed"] {
        let path = format!("/{place}/x");
        let request = |bytes: &u64| QuicRequest::new("POST", &path).body(*bytes);
        let all = ask(&site, &server, sizes.iter().map(request).collect());
        for (bytes, response) in sizes.iter().zip(&all) {
            let expected = sha256(&pattern(*bytes as usize));
            assert_eq!(response.status, 200, "{path} {bytes}: {response:?}");
            assert_eq!(response.header("x-sum"), Some(&*expected), "{path} {bytes}");
            let length = bytes.to_string();
            assert_eq!(
                response.header("x-length"),
                Some(&*length),
                "{path} {bytes}"
            );
        }
    }
}

/// Responses of origins that are much larger than the buffers for them.
#[test]
fn large_responses_of_origins_come_whole() {
    let site = quic_site();
    let body = Random::new(8).bytes(1_500_000);
    let digest = sha256(&body);
    let origin = Origin::answering(move |asked| {
        let mut answer = match asked.target().as_str() {
            "/whole" => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()),
            _ => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
        }
        .into_bytes();
        answer.extend_from_slice(&body);
        match asked.target().as_str() {
            "/whole" => Answer::Send(answer),
            _ => Answer::SendAndClose(answer),
        }
    });
    let server = serve_quic(
        &site,
        &format!(
            "proxy_buffer_size 4k; proxy_buffers 4 4k; proxy_busy_buffers_size 4k;
             location /buffered/ {{ proxy_pass http://127.0.0.1:{0}/; }}
             location /unbuffered/ {{ proxy_buffering off; proxy_pass http://127.0.0.1:{0}/; }}
             location /memory/ {{ proxy_max_temp_file_size 0; proxy_pass http://127.0.0.1:{0}/; }}",
            origin.port()
        ),
    );
    for place in ["buffered", "unbuffered", "memory"] {
        let requests = ["whole", "open"].map(|name| QuicRequest::get(&format!("/{place}/{name}")));
        for response in ask(&site, &server, requests.into()) {
            assert_eq!(
                (response.status, &response.sha256),
                (200, &digest),
                "{place}: {response:?}"
            );
        }
    }
}

/// RFC 9114 section 4.1: interim responses come before, trailers behind.
#[test]
fn trailers_and_early_hints_come_through() {
    let site = quic_site();
    let origin = Origin::answering(|asked| {
        Answer::Send(match asked.target().as_str() {
            "/hints" => b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n\
                HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
                .to_vec(),
            _ => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-end\r\n\r\n\
                4\r\nbody\r\n0\r\nX-End: really\r\n\r\n"
                .to_vec(),
        })
    });
    let server = serve_quic(
        &site,
        &format!(
            "early_hints 1; location / {{ proxy_http_version 1.1; proxy_pass_trailers on; proxy_pass http://127.0.0.1:{}; }}",
            origin.port()
        ),
    );
    let requests = vec![
        QuicRequest::get("/hints"),
        QuicRequest::get("/trailers").header("te", "trailers"),
    ];
    let all = ask(&site, &server, requests);
    let body = sha256(b"body");
    assert_eq!((all[0].status, &all[0].sha256), (200, &body));
    assert_eq!(all[0].header("link"), Some("</a.css>"), "{all:?}");
    assert_eq!((all[1].status, &all[1].sha256), (200, &body));
    assert_eq!(all[1].header("x-end"), Some("really"), "{all:?}");
}

/// What upstreams see of a request (RFC 9114 section 4.2: no fields of a connection; section
/// 4.2.1: one cookie).
#[test]
fn upstreams_see_an_ordinary_request() {
    let site = quic_site();
    let origin = Origin::echo();
    let server = serve_quic(
        &site,
        &format!(
            "location / {{ proxy_pass http://127.0.0.1:{}; proxy_set_header X-Protocol $server_protocol; }}",
            origin.port()
        ),
    );
    let all = ask(
        &site,
        &server,
        vec![
            QuicRequest::get("/x?y")
                .header("cookie", "a=1")
                .header("cookie", "b=2")
                .header("x-one", "two"),
        ],
    );
    assert_eq!(all[0].status, 200);
    let asked = &origin.asked()[0];
    assert!(asked.text().starts_with("GET /x?y HTTP/1."), "{asked:?}");
    assert_eq!(asked.headers("cookie"), ["a=1; b=2"]);
    assert_eq!(asked.headers("x-one"), ["two"]);
    assert_eq!(asked.headers("x-protocol"), ["HTTP/3.0"]);
    assert!(asked.headers("transfer-encoding").is_empty(), "{asked:?}");
}

/// `location`s and names are chosen as for other protocols.
#[test]
fn servers_are_chosen_by_name() {
    let site = quic_site();
    let block = |name: &str, more: &str| {
        format!(
            "server {{ listen 127.0.0.1:%tls% ssl; listen 127.0.0.1:%tls% quic; server_name {name};
               {QUIC_CERTIFICATE} {more} location / {{ return 200 {name}; }} }}"
        )
    };
    let server = site.serve(&[block("localhost", ""), block("off.test", "http3 off;")].concat());
    let run = QuicClient::Aioquic.run_one(&QuicScript::to(&site, &server).get("/"));
    assert_eq!(run.responses[0].sha256, sha256(b"localhost"));
    // A server without HTTP/3 is not reached by it: no_application_protocol (RFC 9001 8.1).
    let script = QuicScript::to(&site, &server)
        .server_name("off.test")
        .get("/");
    let run = QuicClient::Aioquic.run_one(&script);
    assert!(run.responses.is_empty(), "{run:?}");
}
