//! Filters of texts (`sub_filter`, additions, character sets, server-side includes) as clients
//! get them: over TLS and HTTP/2, from origins that answer byte by byte, and when a client goes.

use sealane_tests::comparison::normalise;
use sealane_tests::http2::{Client, kind};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{self, Connection, get};
use sealane_tests::{Certificate, CertificateKey, Server, Site, command, wait_for};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, SystemTime};

const PAGE: &str = "<h1>Gr\u{fc}\u{df}e old</h1><!--#set var='v' value=\"old $arg_a\" --><!--#echo var='v' -->\
     <!--#include virtual='/part.html' --><!--#if expr='$v = /new|OLD/' -->yes<!--#else -->no<!--#endif -->\
     <!--#include virtual='/bytes/part.html' --><!--#foo -->";

const CONFIGURATION: &str = r#"
    types { text/html html; text/plain txt; }
    server_tokens off;
    charset_map iso-8859-1 utf-8 { FC C3BC; DF C39F; }
    server {
        listen 127.0.0.1:%plain%;
        listen 127.0.0.1:%tls% ssl http2; #HTTP2
        ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
        root html;
        proxy_http_version 1.1;
        location / { ssi on; }
        location /sub/ { alias html/; sub_filter old new; sub_filter_once off; }
        location /add/ { alias html/; add_before_body /part.html; add_after_body /bytes/part.html; }
        location /charset/ { alias html/; source_charset utf-8; charset iso-8859-1; }
        location /all/ {
            alias html/; ssi on; sub_filter old new; sub_filter_once off; source_charset utf-8;
            charset iso-8859-1; add_before_body /part.html; add_after_body /bytes/part.html;
            gzip on; gzip_min_length 0; gunzip on;
        }
        location /bytes/ { proxy_pass http://127.0.0.1:ORIGIN/; ssi on; sub_filter part PART; }
        location /bytes/all/ {
            proxy_pass http://127.0.0.1:ORIGIN/;
            ssi on; sub_filter old new; sub_filter_once off; source_charset utf-8;
            charset iso-8859-1; add_before_body /part.html; add_after_body /bytes/part.html;
            gzip on; gzip_min_length 0;
        }
        location /slow/ { proxy_pass http://127.0.0.1:SLOW/; }
        location /status { stub_status; }
    }
"#;

fn site(origin: u16, slow: u16) -> (Site, String) {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.write("html/page.html", PAGE);
    site.write(
        "html/part.html",
        "<p>an old part <!--#echo var='uri' --></p>",
    );
    site.write(
        "html/cycle.html",
        "(<!--#include virtual='/cycle.html' -->)",
    );
    let both = "<!--#include virtual='/cycle.html' -->";
    site.write("html/tree.html", both.repeat(20));
    site.write(
        "html/slow.html",
        "first <!--#include virtual='/slow/x' --> last",
    );
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for file in std::fs::read_dir(site.path("html")).expect("it is there") {
        let path = file.expect("readable").path();
        let file = std::fs::File::options().append(true).open(path);
        let file = file.expect("just written");
        file.set_modified(modified).expect("our own");
    }
    let configuration = CONFIGURATION.replace("ORIGIN", &origin.to_string());
    (site, configuration.replace("SLOW", &slow.to_string()))
}

/// Answers with the page, or the part, a byte in each chunk.
fn byte_by_byte() -> Origin {
    Origin::answering(|asked| {
        let text = match asked.target().contains("part") {
            true => "a part",
            false => PAGE,
        };
        let mut answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"a\"\r\n\
            Transfer-Encoding: chunked\r\n\r\n"
            .to_vec();
        for byte in text.bytes() {
            answer.extend_from_slice(&[&b"1\r\n"[..], &[byte], b"\r\n"].concat());
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        Answer::Send(answer)
    })
}

/// What curl makes of it: some header lines, and the body.
fn curl(server: &Server<'_>, how: &[&str], path: &str) -> String {
    let (scheme, port) = match how.contains(&"--cleartext") {
        true => ("http", "plain"),
        false => ("https", "tls"),
    };
    let url = format!("{scheme}://localhost:{}{path}", server.port(port));
    let mut arguments = vec!["-sSik", "--max-time", "60"];
    arguments.extend(how.iter().filter(|one| **one != "--cleartext"));
    arguments.push(&url);
    let outcome = command("curl", &arguments, b"").success();
    let response = wire::whole(&outcome.stdout).expect("there is a head");
    let response = normalise(&[server.port(port)], response, false);
    // How a body is framed is another matter in HTTP/2.
    let told = response.head.split('\n').skip(1).filter(|line| {
        let known = ["content-type:", "content-encoding:", "etag:", "vary:"];
        known.iter().any(|name| line.starts_with(name))
    });
    let told: Vec<&str> = told.collect();
    let body: String = response.body.iter().copied().map(char::from).collect();
    format!("{}\n{}\n\n{body}", response.status, told.join("\n"))
}

#[test]
fn every_way_to_a_client_brings_what_nginx_sends() {
    let origin = byte_by_byte();
    let (site, configuration) = site(origin.port(), 1);
    let server = site.serve(&configuration);
    let (other, configuration) = self::site(origin.port(), 1);
    let nginx = other.serve_by_nginx(&configuration);
    for path in [
        "/page.html?a=1",
        "/sub/page.html",
        "/add/page.html",
        "/charset/page.html",
        "/all/page.html?a=b",
        "/bytes/page.html",
        "/bytes/all/page.html?a=new",
        "/cycle.html",
        "/tree.html",
        "/none.html",
    ] {
        for asked in [&["-HX: x"][..], &["--compressed"], &["-HRange: bytes=2-9"]] {
            let expected = curl(&nginx, &[&["--cleartext"], asked].concat(), path);
            for way in ["--cleartext", "--http1.1", "--http2"] {
                let ours = curl(&server, &[&[way], asked].concat(), path);
                assert_eq!(ours, expected, "{path} {asked:?} {way}");
            }
        }
    }
}

/// An origin that begins an answer and never ends it. Says when a request came, and when its
/// connection was closed.
fn endless() -> (u16, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let (closed, is_closed) = channel();
    thread::spawn(move || {
        // It ends with the process.
        for stream in listener.incoming().flatten() {
            let closed = closed.clone();
            thread::spawn(move || {
                begin(stream);
                let _ = closed.send(());
            });
        }
    });
    (port, is_closed)
}

/// Whoever asks goes in the middle, so errors say no more than the end does.
fn begin(mut stream: TcpStream) -> Option<()> {
    let mut buffer = [0; 4096];
    if stream.read(&mut buffer).ok()? == 0 {
        return None;
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n";
    stream.write_all(format!("{head}begun").as_bytes()).ok()?;
    while stream.read(&mut buffer).ok()? > 0 {}
    Some(())
}

#[test]
fn who_leaves_in_the_middle_of_an_include_leaves_nothing_behind() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let (slow, closed) = endless();
    let (site, configuration) = site(1, slow);
    let server = site.serve(&configuration.replace("#HTTP2", "http2 on;"));
    for _ in 0..3 {
        let mut connection = Connection::open(server.port("plain"));
        connection.send("GET /slow.html HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut got = Vec::new();
        while !got.windows(5).any(|bytes| bytes == b"begun") {
            let mut buffer = [0; 1024];
            let bytes = connection.socket().read(&mut buffer).expect("it goes on");
            assert!(bytes > 0, "the answer goes on");
            got.extend_from_slice(&buffer[..bytes]);
        }
        drop(connection);
        closed.recv_timeout(PATIENCE).expect("the origin is let go");
    }
    // A stream is reset, its connection goes on.
    let mut client = Client::open(server.port("plain"), &[]);
    let stream = client.get("/slow.html");
    let mut got = Vec::new();
    while !got.windows(5).any(|bytes| bytes == b"begun") {
        let frame = client.next_frame().expect("it goes on");
        match frame.kind {
            kind::DATA => got.extend_from_slice(&frame.payload),
            kind::HEADERS => drop(client.decode(&frame.payload)),
            _ => {}
        }
    }
    let cancel = 8u32.to_be_bytes();
    client.frame(kind::RST_STREAM, 0, stream, &cancel);
    closed.recv_timeout(PATIENCE).expect("the origin is let go");
    assert_eq!(client.fetch("/part.html").status, 200);
    drop(client);
    // Nobody is left but who asks.
    wait_for("the other connections to be over", || {
        let status = get(server.port("plain"), "/status").text();
        status.contains("Active connections: 1 ").then_some(())
    });
    assert!(server.stop("QUIT").success());
}
