//! HTTP/2 with the clients that people have: curl, nghttp2's, Go's and Chromium, over
//! TLS by ALPN and without it by prior knowledge; and that it answers as HTTP/1 does.

use sealane_tests::http2::{Client, Response, code, flag, frame, head, kind};
use sealane_tests::origin::Origin;
use sealane_tests::wire::{self, Connection};
use sealane_tests::{
    Certificate, CertificateKey, Server, Site, browse, command, go_get, random::Random, scale,
    sha256, wait_for,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TLS: &str =
    "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;";

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.write("html/a.txt", "alpha");
    site.write("html/empty", "");
    site
}

fn serve<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; http2 on;
            server_name localhost; root html; {TLS} {directives} }}"
    ))
}

/// curl with these options, for a path on the port `%name%`; its output.
#[track_caller]
fn curl(server: &Server<'_>, site: &Site, name: &str, path: &str, options: &[&str]) -> Vec<u8> {
    let scheme = if name == "plain" { "http" } else { "https" };
    let url = format!("{scheme}://localhost:{}{path}", server.port(name));
    let authority = site.authority().display().to_string();
    let mut arguments = vec!["-sS", "--ipv4", "--cacert", &authority, &url];
    arguments.extend(options);
    command("curl", &arguments, b"").success().stdout
}

const VERSION: [&str; 4] = ["-o", "/dev/null", "-w", "%{http_version} %{response_code}"];

#[test]
fn clients_choose_the_protocol() {
    let site = site();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; http2 on; root html; {TLS} }}
         server {{ listen 127.0.0.1:%plainold% ; listen 127.0.0.1:%tlsold% ssl; root html; {TLS} }}
         server {{ listen 127.0.0.1:%plainlisten% http2; listen 127.0.0.1:%tlslisten% ssl http2; root html; {TLS} }}"
    ));
    let version = |name: &str, options: &[&str]| {
        let options = [&["--http2"], options, &VERSION].concat();
        String::from_utf8(curl(&server, &site, name, "/a.txt", &options)).expect("a version")
    };
    for name in ["tls", "tlslisten"] {
        assert_eq!(version(name, &[]), "2 200", "{name}");
        assert_eq!(version(name, &["--no-alpn"]), "1.1 200", "{name}");
    }
    assert_eq!(version("tlsold", &[]), "1.1 200");
    for name in ["plain", "plainlisten"] {
        let url = format!("http://127.0.0.1:{}/a.txt", server.port(name));
        for (option, expected) in [
            ("--http2-prior-knowledge", "2 200"),
            ("--http1.1", "1.1 200"),
            // An Upgrade to h2c is not taken, as the RFC allows and nginx does.
            ("--http2", "1.1 200"),
        ] {
            let arguments = [&["-sS", &url, option], &VERSION[..]].concat();
            let answer = command("curl", &arguments, b"").success().text();
            assert_eq!(answer, expected, "{name} {option}");
        }
    }
    // Where it is off the preface is a request of HTTP/1 that nobody understands.
    let mut connection = Connection::open(server.port("plainold"));
    connection.send(sealane_http::h2::PREFACE);
    assert!(matches!(connection.response(false).status, 400 | 505));
    // Pieces of the preface are waited for; what only begins like it is HTTP/1.
    let mut client = Client::silent(server.port("plain"));
    for byte in sealane_http::h2::PREFACE {
        client.send(&[*byte]);
    }
    client.settings(&[]);
    assert_eq!(client.fetch("/a.txt").body, b"alpha");
    let mut connection = Connection::open(server.port("plain"));
    connection.send("P");
    connection.send("ROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(connection.response(false).status, 405);
}

/// Fields that belong to the connection of HTTP/1, and the time.
#[test]
fn servers_without_http2_are_not_reached_by_it() {
    let site = site();
    site.write("html/a.txt", "alpha");
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%all% http2; server_name localhost;
            http2 on; root html; }
         server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%all%; server_name other;
            root html; }",
    );
    let other = || {
        let mut block = head("GET", "/a.txt", &[]);
        let name = block.len() - "localhost".len() - 1;
        block.truncate(name);
        block.extend(b"\x05other");
        block
    };
    let ask = |client: &mut Client, block: &[u8]| {
        let stream = client.next_stream();
        client.frame(
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            stream,
            block,
        );
        client.response(stream).status
    };
    let mut client = Client::open(server.port("plain"), &[]);
    assert_eq!(ask(&mut client, &head("GET", "/a.txt", &[])), 200);
    assert_eq!(ask(&mut client, &other()), 421);
    server.wait_for_log(
        "client attempted to request the server name for which the negotiated protocol is disabled",
    );
    // The connection serves what it may.
    assert_eq!(ask(&mut client, &head("GET", "/a.txt", &[])), 200);
    // `listen ... http2` is for all servers of the address.
    let mut client = Client::open(server.port("all"), &[]);
    assert_eq!(ask(&mut client, &other()), 200);
}

fn is_about_connection(name: &str) -> bool {
    matches!(
        name,
        "connection" | "keep-alive" | "transfer-encoding" | "date"
    )
}

#[test]
fn answers_are_those_of_http1() {
    let site = site();
    let content = Random::new(5).bytes(300_000);
    site.write("html/big.bin", &content);
    site.write("html/sub/index.html", "<p>sub</p>");
    site.write("html/page.html", "<p>page</p>".repeat(500));
    site.write("html/errors/404.html", "gone");
    let origin = Origin::echo();
    let origin = origin.port();
    let server = serve(
        &site,
        &format!(
            "error_page 404 /errors/404.html; add_header X-Always yes always; gzip_vary on;
             location /list/ {{ alias html/; autoindex on; }}
             location /moved/ {{ return 301 /sub/; }}
             location /text {{ return 200 \"$request_method $uri|$args|$http_x_one|$cookie_b|$host\"; }}
             location /nothing {{ return 204; }}
             location /denied {{ return 403; }}
             location /one/ {{ alias html/; max_ranges 1; expires 1h; }}
             location /try/ {{ try_files $uri /a.txt =404; }}
             location /origin/ {{ proxy_pass http://127.0.0.1:{origin}; }}
             location /dead/ {{ proxy_pass http://127.0.0.1:1; }}
             location /pages/ {{ alias html/; gzip on; gzip_min_length 1; }}"
        ),
    );
    let mut client = Client::open(server.port("plain"), &[]);
    let (mut seen, mut statuses) = (0, std::collections::BTreeSet::new());
    let etag = wire::get(server.port("plain"), "/big.bin");
    let etag = etag.header("etag").expect("files have one").to_owned();
    let modified = "Thu, 01 Jan 2099 00:00:00 GMT";
    for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE"] {
        for path in [
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
            "/a.txt?x#y",
        ] {
            for fields in [
                &[][..],
                &[("range", "bytes=10-20")],
                &[("range", "bytes=0-9,100-199,-5")],
                &[("range", "bytes=999999-")],
                &[("if-none-match", etag.as_str())],
                &[("if-modified-since", modified)],
                &[
                    ("accept-encoding", "gzip"),
                    ("x-one", "two"),
                    ("cookie", "a=1; b=2"),
                ],
            ] {
                let mut head =
                    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n");
                for (name, value) in fields {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                let old = wire::request(
                    server.port("plain"),
                    &format!("{head}Connection: close\r\n\r\n"),
                );
                let all = [&[("content-length", "0")], fields].concat();
                let stream = client.request(method, path, &all, true);
                let new = client.response(stream);
                let what = format!("{method} {path} {fields:?}");
                assert_same(&old, &new, &what);
                statuses.insert(new.status);
                seen += 1;
                if seen % 900 == 0 {
                    client = Client::open(server.port("plain"), &[]);
                }
            }
        }
    }
    for status in [200, 204, 206, 301, 304, 400, 403, 404, 405, 416, 502] {
        assert!(statuses.contains(&status), "{status} among {statuses:?}");
    }
    println!("{seen} requests, {statuses:?}");
}

#[track_caller]
fn assert_same(old: &wire::Response, new: &Response, what: &str) {
    assert_eq!(old.status, new.status, "{what}");
    let lines = old.head.split("\r\n").skip(1);
    let lines = lines.filter_map(|line| line.split_once(": "));
    let mut before: Vec<_> = lines
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .filter(|(name, _)| !is_about_connection(name))
        .collect();
    let mut after: Vec<_> = new
        .fields
        .iter()
        .filter(|(name, _)| !is_about_connection(name))
        .cloned()
        .collect();
    before.sort();
    after.sort();
    let boundary = |fields: &mut Vec<(String, String)>| {
        let mut found = None;
        for (_, value) in fields.iter_mut() {
            if let Some(at) = value.find("boundary=") {
                found = Some(value[at + 9..].to_owned());
                value.truncate(at);
            }
        }
        found
    };
    let (one, two) = (boundary(&mut before), boundary(&mut after));
    assert_eq!(before, after, "{what}");
    let text = |body: &[u8], boundary: Option<String>| match boundary {
        Some(boundary) => String::from_utf8_lossy(body)
            .replace(&boundary, "B")
            .into_bytes(),
        None => body.to_vec(),
    };
    assert!(
        text(&old.body, one) == text(&new.body, two),
        "the body of {what}"
    );
}

#[test]
fn curl_uploads_and_is_refused() {
    let site = site();
    let origin = Origin::answering(|asked| {
        let body = sha256(&asked.body);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        sealane_tests::origin::Answer::Send(answer.into_bytes())
    });
    let origin = origin.port();
    let server = serve(
        &site,
        &format!(
            "client_max_body_size 60m;
             location /stored/ {{ proxy_pass http://127.0.0.1:{origin}; }}
             location /streamed/ {{ proxy_pass http://127.0.0.1:{origin}; proxy_request_buffering off; }}
             location /small/ {{ client_max_body_size 10k; proxy_pass http://127.0.0.1:{origin}; }}"
        ),
    );
    let content = Random::new(9).bytes(50 << 20);
    let file = site.write("upload.bin", &content).display().to_string();
    let expected = sha256(&content);
    for (name, version) in [("tls", "--http2"), ("plain", "--http2-prior-knowledge")] {
        for path in ["/stored/", "/streamed/"] {
            let answer = curl(&server, &site, name, path, &[version, "-T", &file]);
            assert_eq!(String::from_utf8_lossy(&answer), expected, "{name} {path}");
        }
        // The answer comes while the body is being sent.
        let options = [&[version, "-T", &file][..], &VERSION].concat();
        let answer = curl(&server, &site, name, "/small/x", &options);
        assert_eq!(answer, b"2 413", "{name}");
        let answer = curl(&server, &site, name, "/a.txt", &options);
        assert_eq!(answer, b"2 405", "{name}");
        // A client that waits for 100 gets it when somebody wants its body.
        let expect = [&[
            version,
            "-T",
            &file,
            "-H",
            "Expect: 100-continue",
            "--expect100-timeout",
            "100",
            "-v",
        ][..]]
        .concat();
        let url = format!(
            "{}://localhost:{}/streamed/",
            if name == "tls" { "https" } else { "http" },
            server.port(name)
        );
        let authority = site.authority().display().to_string();
        let arguments = [
            &["-sS", "--ipv4", "--cacert", &authority, &url][..],
            &expect,
        ]
        .concat();
        let outcome = command("curl", &arguments, b"").success();
        assert_eq!(outcome.text(), expected);
        assert!(
            outcome.stderr.contains("< HTTP/2 100"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn nghttp2_and_go_get_every_byte() {
    let site = site();
    let mut random = Random::new(11);
    let mut expected = Vec::new();
    for (name, bytes) in [
        ("1", 1),
        ("1k", 1024),
        ("16k", 16_384),
        ("100k", 100_001),
        ("3m", 3_000_000),
    ] {
        let content = random.bytes(bytes);
        site.write(format!("html/{name}.bin"), &content);
        expected.push(format!("200 {bytes} {} /{name}.bin", sha256(&content)));
    }
    let server = serve(&site, "keepalive_requests 300;");
    // One connection at a time, that ends after 300 requests, as often as it takes.
    let count = scale(3000, 30_000);
    let lines: Vec<&str> = (0..count)
        .map(|_| random.choose(&expected).as_str())
        .collect();
    let paths: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.rsplit(' ').next())
        .collect();
    let options = ["-parallel", "50", "-http2", "-"];
    let text = go_get(&site, &server, &options, paths.join("\n").as_bytes());
    assert!(
        text.lines().eq(lines.iter().copied()),
        "every answer is the file's"
    );
    for (scheme, name) in [("http", "plain"), ("https", "tls")] {
        let url = |path: &str| format!("{scheme}://127.0.0.1:{}/{path}", server.port(name));
        // 200 requests for each connection: nobody is told to go in between.
        let load = [
            "-n",
            "2000",
            "-c",
            "10",
            "-m",
            "32",
            &url("1k.bin"),
            &url("100k.bin"),
        ];
        let report = command("h2load", &load, b"").success().text();
        assert!(
            report.contains("2000 succeeded, 0 failed, 0 errored"),
            "{report}"
        );
        assert!(report.contains("status codes: 2000 2xx"), "{report}");
        let body = command(
            "nghttp",
            &["--no-verify-peer", "-w", "20", "-W", "20", &url("3m.bin")],
            b"",
        );
        assert_eq!(
            format!("200 3000000 {} /3m.bin", sha256(&body.success().stdout)),
            expected[4]
        );
    }
}

#[test]
fn chromium_loads_a_page_of_many_parts() {
    let site = site();
    let mut random = Random::new(13);
    let mut expected = Vec::new();
    for number in 0..100 {
        let size = 1 + random.below(60_000);
        let content = random.bytes(size);
        site.write(format!("html/part-{number}"), &content);
        expected.push(sha256(&content));
    }
    site.write(
        "html/index.html",
        "<!doctype html><pre id=out></pre><script>
        const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, '0')).join('');
        const digest = async (number) => {
          const response = await fetch('/part-' + number);
          return hex(await crypto.subtle.digest('SHA-256', await response.arrayBuffer()));
        };
        Promise.all([...Array(100).keys()].map(digest)).then((all) => {
          const kinds = new Set(performance.getEntriesByType('resource').map((entry) => entry.nextHopProtocol));
          document.getElementById('out').textContent = [...kinds].join() + ' ' + all.join(' ');
        }).catch((error) => { document.getElementById('out').textContent = 'failed: ' + error; });
        </script>",
    );
    let server = serve(&site, "");
    let document = browse(&site, &format!("https://localhost:{}/", server.port("tls")));
    let expected = format!("h2 {}", expected.join(" "));
    assert!(document.contains(&expected), "{document}");
}

/// Requests of every kind on many connections at once: files, ranges, errors, what an
/// origin answers, uploads, streams that are reset and streams that nobody reads.
#[test]
fn a_mixture_comes_byte_by_byte() {
    let site = site();
    let large = Random::new(17).bytes(2_000_000);
    site.write("html/large.bin", &large);
    let origin = Origin::echo();
    let origin = origin.port();
    let server = serve(
        &site,
        &format!(
            "keepalive_requests 1000000; location /origin/ {{ proxy_pass http://127.0.0.1:{origin}; }}"
        ),
    );
    let port = server.port("plain");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Clients that reset what they asked for, or let it lie.
        for seed in 0..4 {
            let done = &done;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                while !done.load(Ordering::Relaxed) {
                    let mut client = Client::open(port, &[]);
                    for _ in 0..100 {
                        let path = random.choose(&["/large.bin", "/origin/x", "/none"]);
                        let stream = client.get(path);
                        if random.below(3) > 0 {
                            client.frame(kind::RST_STREAM, 0, stream, &code::CANCEL.to_be_bytes());
                        }
                    }
                    client.fetch("/a.txt");
                }
            });
        }
        let workers: Vec<_> = (0..8)
            .map(|seed| {
                let large = &large;
                scope.spawn(move || {
                    let mut random = Random::new(100 + seed);
                    let mut client = Client::open(port, &[]);
                    for _ in 0..scale(400, 4000) {
                        one_of_many(&mut client, &mut random, large);
                    }
                })
            })
            .collect();
        for worker in workers {
            let ended = worker.join();
            if ended.is_err() {
                done.store(true, Ordering::Relaxed);
            }
            ended.expect("every answer is right");
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn one_of_many(client: &mut Client, random: &mut Random, large: &[u8]) {
    match random.below(12) {
        0 => assert!(client.fetch("/large.bin").body == large),
        1..4 => {
            let first = random.below(large.len());
            let last = first + random.below((large.len() - first).min(50_000));
            let range = format!("bytes={first}-{last}");
            let stream = client.request("GET", "/large.bin", &[("range", &range)], true);
            let answer = client.response(stream);
            assert_eq!(answer.status, 206);
            assert!(answer.body == large[first..=last]);
        }
        4 => assert_eq!(client.fetch("/none").status, 404),
        5..7 => {
            let size = random.below(60_000);
            let body = random.bytes(size);
            let length = size.to_string();
            let fields = [("content-length", length.as_str())];
            let stream = client.request("POST", "/origin/echo", &fields, false);
            let mut pieces = body.chunks(16_384).peekable();
            if pieces.peek().is_none() {
                client.frame(0, 1, stream, &[]);
            }
            while let Some(piece) = pieces.next() {
                client.frame(0, u8::from(pieces.peek().is_none()), stream, piece);
            }
            let answer = client.response(stream);
            assert_eq!(answer.status, 200);
            assert!(answer.body.ends_with(&body));
        }
        7 => {
            let stream = client.get("/origin/gone");
            client.frame(kind::RST_STREAM, 0, stream, &code::CANCEL.to_be_bytes());
        }
        _ => assert_eq!(client.fetch("/a.txt").body, b"alpha"),
    }
}

#[test]
fn requests_come_in_early_data() {
    let site = site();
    let server = site.serve(&format!(
        "log_format early '$ssl_session_reused|$ssl_early_data|$http2|$status|$request_uri'; access_log logs/access.log early;
         server {{ listen 127.0.0.1:%tls% ssl; http2 on; root html; keepalive_timeout 1s; ssl_early_data on; {TLS} }}"
    ));
    // The register of flights does not answer for its first second.
    std::thread::sleep(Duration::from_millis(1100));
    let request = |path: &str| {
        let flags = flag::END_HEADERS | flag::END_STREAM;
        let mut bytes = sealane_http::h2::PREFACE.to_vec();
        bytes.extend(frame(kind::SETTINGS, 0, 0, &[]));
        bytes.extend(frame(kind::HEADERS, flags, 1, &head("GET", path, &[])));
        bytes
    };
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let session = site.path("session").display().to_string();
    let common = [
        "s_client", "-connect", &address, "-alpn", "h2", "-tls1_3", "-ign_eof",
    ];
    let first = [&common[..], &["-sess_out", &session]].concat();
    command("openssl", &first, &request("/a.txt?first"));
    let early = site
        .write("early", request("/a.txt?early"))
        .display()
        .to_string();
    let second = [&common[..], &["-sess_in", &session, "-early_data", &early]].concat();
    let outcome = command("openssl", &second, b"");
    assert!(
        outcome.text().contains("Early data was accepted"),
        "{}",
        outcome.text()
    );
    let log = wait_for("two lines", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        (log.lines().count() == 2).then_some(log)
    });
    assert_eq!(log, ".|-|h2|200|/a.txt?first\nr|1|h2|200|/a.txt?early\n");
    assert!(outcome.text().contains("alpha"), "the answer came");
}

#[test]
fn logs_and_counters_tell_what_happened() {
    let site = site();
    site.write("html/k.bin", vec![7; 1000]);
    let server = site.serve(&format!(
        "log_format two '$server_protocol [$http2] $status $body_bytes_sent $request_length $request $scheme $content_length';
         access_log logs/access.log two;
         server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; http2 on; root html; {TLS}
            location /status {{ stub_status; }} }}"
    ));
    let mut client = Client::open(server.port("plain"), &[]);
    client.fetch("/k.bin");
    let sent_get = sealane_tests::http2::head("GET", "/k.bin", &[]).len();
    // In one piece, so that all of it has been read when it is refused.
    let stream = client.next_stream();
    let head = head("POST", "/k.bin", &[("content-length", "500")]);
    let mut request = frame(kind::HEADERS, flag::END_HEADERS, stream, &head);
    request.extend(frame(kind::DATA, flag::END_STREAM, stream, &[9; 500]));
    client.send(&request);
    assert_eq!(client.response(stream).status, 405);
    curl(
        &server,
        &site,
        "tls",
        "/k.bin",
        &["--http2", "-o", "/dev/null"],
    );
    let lines = wait_for("three lines", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        let lines: Vec<String> = log.lines().map(str::to_owned).collect();
        (lines.len() >= 3).then_some(lines)
    });
    assert!(
        lines[0].starts_with("HTTP/2.0 [h2c] 200 1000 "),
        "{}",
        lines[0]
    );
    assert!(
        lines[0].ends_with(" GET /k.bin HTTP/2.0 http -"),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("HTTP/2.0 [h2c] 405 "), "{}", lines[1]);
    assert!(
        lines[2].starts_with("HTTP/2.0 [h2] 200 1000 "),
        "{}",
        lines[2]
    );
    let length = |line: &str| {
        line.split(' ')
            .nth(4)
            .and_then(|word| word.parse::<u64>().ok())
    };
    let (get, post) = (length(&lines[0]), length(&lines[1]));
    // The header block as it was sent, and the body.
    let blocks = [sent_get, head.len()].map(|bytes| bytes as u64);
    assert_eq!((get, post), (Some(blocks[0]), Some(blocks[1] + 500)));
    // One connection that writes; it had three requests before this one, and the harness and
    // curl one connection each.
    let status = String::from_utf8(client.fetch("/status").body).expect("text");
    assert!(status.starts_with("Active connections: 1 \n"), "{status}");
    assert!(
        status.ends_with(" 4 \nReading: 0 Writing: 1 Waiting: 0 \n"),
        "{status}"
    );
    let idle = wire::get(server.port("plain"), "/status").text();
    assert!(
        idle.ends_with("Reading: 0 Writing: 1 Waiting: 1 \n"),
        "{idle}"
    );
}
