//! `slice`: answers that are put together from pieces, compared with nginx's, for every range
//! and for origins whose pieces do not fit together.

use sealane_tests::comparison::normalise;
use sealane_tests::http2::{Client, kind};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::random::Random;
use sealane_tests::wire::{self, Connection};
use sealane_tests::{Server, Site, command, wait_for};
use std::time::{Duration, SystemTime};

const CONFIGURATION: &str = r#"
    types { text/plain txt; application/octet-stream bin; }
    server_tokens off;
    map $http_range $piece {
        "bytes=0-9" "bytes 0-9/25";
        "bytes=10-19" "bytes 10-19/25";
        "bytes=20-29" "bytes 20-24/25";
    }
    map $http_range $text {
        "bytes=20-29" "01234";
        default "0123456789";
    }
    map $http_range $growing {
        "bytes=0-9" "bytes 0-9/25";
        default "bytes 10-19/26";
    }
    map $http_range $shifted {
        "bytes=0-9" "bytes 0-9/25";
        default "bytes 9-18/25";
    }
    map $http_range $late {
        "bytes=20-29" "nonsense";
        default $piece;
    }
    server {
        listen 127.0.0.1:%plain%;
        server_name slice.test;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Range $slice_range;
        slice 10;
        location / { proxy_pass http://127.0.0.1:%origin%; add_header X-Slice $slice_range; }
        location /large/ { slice 1k; proxy_pass http://127.0.0.1:%origin%/; }
        location /unbuffered/ { slice 1000; proxy_buffering off; proxy_pass http://127.0.0.1:%origin%/; }
        location ~ ^/regex/(.*)$ { slice 4096; proxy_pass http://127.0.0.1:%origin%/$1; }
        location /off/ { slice 0; proxy_pass http://127.0.0.1:%origin%/; }
        location /unused/ { proxy_set_header Range ""; proxy_pass http://127.0.0.1:%origin%/; }
        location /one/ { max_ranges 1; proxy_pass http://127.0.0.1:%origin%/; }
        location /log/ { return 200 "[$slice_range]"; }
    }
    server {
        listen 127.0.0.1:%origin%;
        root html;
        location /made/ { add_header Content-Range $piece; add_header ETag '"a"'; return 206 $text; }
        location /growing/ { add_header Content-Range $growing; return 206 $text; }
        location /shifted/ { add_header Content-Range $shifted; return 206 $text; }
        location /late/ { add_header Content-Range $late; return 206 $text; }
        location /tags/ { add_header Content-Range $piece; add_header ETag '"$http_range"'; return 206 $text; }
        location /no-length/ { add_header Content-Range "bytes 0-9/*"; return 206 $text; }
        location /no-range/ { return 206 $text; }
        location /other-range/ { add_header Content-Range "bytes 5-14/25"; return 206 $text; }
        location /short/ { add_header Content-Range $piece; return 206 "0123"; }
        location /whole/ { max_ranges 0; alias html/; }
        location /later-gone/ { if ($http_range != "bytes=0-9") { return 404; } add_header Content-Range $piece; return 206 $text; }
    }
"#;

fn site() -> Site {
    let site = Site::new();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (name, content) in [
        ("a.txt", b"0123456789abcdefghijABCDEFGHIJ!".to_vec()),
        ("ten.txt", b"0123456789".to_vec()),
        ("empty.txt", Vec::new()),
        ("big.bin", Random::new(5).bytes(300_000)),
    ] {
        let path = site.write(format!("html/{name}"), content);
        let file = std::fs::File::open(path).expect("just written");
        file.set_modified(modified).expect("our own");
    }
    site
}

/// What comes of a request, until the server closes: head, and as much body as there is.
fn ask(server: &Server<'_>, request: &str) -> (Vec<String>, Vec<u8>) {
    let mut lines = request.split('|');
    let target = lines.next().expect("there is one");
    let mut head = format!("{target} HTTP/1.1\r\nHost: slice.test\r\nConnection: close\r\n");
    for line in lines {
        head.push_str(&format!("{line}\r\n"));
    }
    let mut connection = Connection::open(server.port("plain"));
    connection.send(format!("{head}\r\n"));
    let answer = connection.rest();
    // nginx closes without an answer to some of these.
    let Some(response) = wire::whole(&answer) else {
        return (Vec::new(), answer);
    };
    let head_only = request.starts_with("HEAD ");
    let response = normalise(&[server.port("plain")], response, head_only);
    let shown = response.head.split('\n').map(str::to_owned).collect();
    (shown, response.body)
}

#[test]
fn every_range_and_every_origin_is_answered_as_nginx_does() {
    let (one, other) = (site(), site());
    let ours = one.serve(CONFIGURATION);
    let theirs = other.serve_by_nginx(CONFIGURATION);
    let mut requests: Vec<String> = Vec::new();
    let ranges = [
        "",
        "0-",
        "0-0",
        "0-9",
        "5-14",
        "9-10",
        "10-19",
        "10-",
        "15-",
        "25-30",
        "29-",
        "30-",
        "31-",
        "100-",
        "-1",
        "-5",
        "-100",
        "3-2",
        "0-100000",
        "0-4,10-12",
        "x",
        " 12-20",
        "12 -20",
        "99999999999999999999-",
        "1023-1025",
        "4096-",
        "299000-",
        "-1500",
    ];
    for range in ranges {
        let line = match range {
            "" => String::new(),
            range => format!("|Range: bytes={range}"),
        };
        for path in [
            "/a.txt",
            "/ten.txt",
            "/large/big.bin",
            "/unbuffered/big.bin",
            "/regex/big.bin",
            "/off/a.txt",
            "/unused/a.txt",
            "/one/a.txt",
            "/made/",
            "/empty.txt",
        ] {
            requests.push(format!("GET {path}{line}"));
        }
        requests.push(format!("HEAD /a.txt{line}"));
    }
    for request in [
        "GET /missing.txt",
        "GET /a.txt|Range: BYTES=10-",
        "GET /a.txt|Range: bytes=12-|If-Range: \"3b9aca00-1f\"",
        "GET /a.txt|Range: bytes=12-|If-Range: \"other\"",
        "GET /a.txt|Range: bytes=22-|If-Range: Sun, 09 Sep 2001 01:46:40 GMT",
        "GET /a.txt|If-None-Match: \"3b9aca00-1f\"",
        "GET /made/x",
        "GET /no-length/",
        "GET /no-range/",
        "GET /other-range/",
        "GET /whole/a.txt",
        "GET /whole/a.txt|Range: bytes=12-15",
        "GET /log/|Range: bytes=25-",
        "POST /log/",
    ] {
        requests.push(request.to_owned());
    }
    let mut differences = String::new();
    for request in &requests {
        let (answer, wanted) = (ask(&ours, request), ask(&theirs, request));
        if answer != wanted {
            let cut = |body: &[u8]| {
                (
                    body.len(),
                    String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned(),
                )
            };
            differences.push_str(&format!(
                "{request}\nours   {:?} {:?}\nnginx  {:?} {:?}\n",
                answer.0,
                cut(&answer.1),
                wanted.0,
                cut(&wanted.1)
            ));
        }
    }
    assert!(differences.is_empty(), "{differences}");
    // nginx sends nothing of these, as it still holds back the little that there is, or goes
    // on behind a piece that is too short as if nothing were missing.
    for path in ["growing", "shifted", "late", "tags", "short", "later-gone"] {
        let (head, body) = ask(&ours, &format!("GET /{path}/"));
        let announced = head
            .iter()
            .find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(announced, Some("25"), "{path}: {head:?}");
        assert!(body.len() < 25, "{path}: {} bytes", body.len());
        assert!(
            b"0123456789012345678901234".starts_with(&body[..]),
            "{path}: {body:?}"
        );
    }
    for message in [
        "unexpected complete length in slice response: 26, expected: 25",
        "unexpected range in slice response: 9-19, expected: 10-19",
        "invalid range in slice response",
        "etag mismatch in slice response",
        "unexpected status code 404 in slice response",
        "no complete length in slice response",
    ] {
        ours.wait_for_log(message);
    }
}

/// Without buffers more is read from the origin only when nobody holds what it sent before.
#[test]
fn pieces_without_buffers() {
    let site = site();
    let content: String = Random::new(7)
        .bytes(150_000)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    site.write("html/hex.txt", &content);
    let server = site.serve(
        "types { text/plain txt; } root html;
         server { listen 127.0.0.1:%origin%; location /tail { return 200 'the end'; } }
         server { listen 127.0.0.1:%plain%;
             slice 100k; proxy_buffering off; proxy_buffer_size 4k;
             proxy_set_header Range $slice_range;
             location /plain/ { proxy_pass http://127.0.0.1:%origin%/; }
             location /sub/ {
                 sub_filter_once off; sub_filter_types *;
                 sub_filter abc ABCDEF;
                 proxy_pass http://127.0.0.1:%origin%/; }
             location /ssi/ { ssi on; ssi_types *; proxy_pass http://127.0.0.1:%origin%/; }
             location /gzip/ { gzip on; gzip_types *; proxy_pass http://127.0.0.1:%origin%/; }
             location /all/ {
                 sub_filter_once off; sub_filter_types *; addition_types *;
                 sub_filter abc ABCDEF; add_after_body /tail; ssi on; ssi_types *;
                 gzip on; gzip_types *; proxy_pass http://127.0.0.1:%origin%/; }
             location /tail { proxy_pass http://127.0.0.1:%origin%; proxy_set_header Range ''; } }",
    );
    let replaced = content.replace("abc", "ABCDEF");
    for (name, range, expected) in [
        ("plain", "0-", content.as_str()),
        ("plain", "150000-250000", &content[150_000..250_001]),
        ("sub", "", &replaced),
        ("ssi", "", &content),
        ("gzip", "", &content),
        ("all", "", &format!("{replaced}the end")),
    ] {
        let url = format!("http://127.0.0.1:{}/{name}/hex.txt", server.port("plain"));
        let mut arguments = vec!["-s", "--compressed", "--max-time", "50", &url];
        if !range.is_empty() {
            arguments.extend(["-r", range]);
        }
        let got = command("curl", &arguments, b"").success().text();
        assert!(got == expected, "{name} {range}: {} bytes", got.len());
    }
}

/// Who has gone wants no more pieces, and the origin is not waited for.
#[test]
fn a_client_that_goes_ends_the_pieces() {
    let site = Site::new();
    let origin = Origin::answering(|asked| match asked.headers("Range")[0].as_str() {
        "bytes=0-9" => Answer::Send(
            b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/100\r\n\
              Content-Length: 10\r\n\r\n0123456789"
                .to_vec(),
        ),
        _ => Answer::Silence,
    });
    let server = site.serve_with(
        "",
        "",
        &format!(
            "log_format status '$request_method $status $body_bytes_sent';
             server {{ listen 127.0.0.1:%plain%; http2 on; slice 10;
                 access_log logs/access.log status; error_log logs/error.log info;
                 proxy_set_header Range $slice_range;
                 location / {{ proxy_pass http://127.0.0.1:{}; }} }}",
            origin.port()
        ),
    );
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_for_pieces(&origin, 2);
    drop(connection);
    let lines = |count: usize| {
        wait_for("a line for each in the access log", || {
            let log = std::fs::read_to_string(site.path("logs/access.log")).unwrap_or_default();
            (log.lines().count() == count).then_some(())
        });
    };
    lines(1);
    let mut client = Client::open(server.port("plain"), &[]);
    let stream = client.get("/");
    wait_for_pieces(&origin, 2);
    client.frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    lines(2);
    assert_eq!(origin.take_asked().len(), 0, "more was asked for");
    let log = server.error_log();
    assert!(!log.contains("[error]"), "{log}");
}

#[track_caller]
fn wait_for_pieces(origin: &Origin, count: usize) {
    let mut asked = 0;
    wait_for("pieces to be asked for", || {
        asked += origin.take_asked().len();
        (asked == count).then_some(())
    });
}
