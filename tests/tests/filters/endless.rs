//! Bodies that are much longer than what they are made of, or without an end.

use super::gzip;
use flate2::Compression;
use flate2::write::GzEncoder;
use sealane_tests::http2::{self, INITIAL_WINDOW};
use sealane_tests::wire::{self, Connection};
use sealane_tests::{Server, Site, scale, wait_for};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What the worker may take above what it had before, with all connections of a test.
const BOUND_KIB: u64 = 96 << 10;

/// What Brotli and zstd take for each response at their highest levels (24 MiB,
/// `docs/performance.md`), and what allocators make of it.
const COMPRESSOR_KIB: u64 = 32 << 10;

fn bomb(bytes: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let piece = [b'x'; 64 << 10];
    for _ in 0..bytes / piece.len() {
        encoder.write_all(&piece).expect("memory");
    }
    encoder.finish().expect("memory")
}

/// An origin that sends the bomb (`/bomb`), or text without an end, compressed (`/coded`) or not.
struct Endless {
    port: u16,
    open: Arc<AtomicUsize>,
}

impl Endless {
    fn start(bomb: Arc<Vec<u8>>) -> Endless {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let open = Arc::new(AtomicUsize::new(0));
        let counter = open.clone();
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (bomb, counter) = (bomb.clone(), counter.clone());
                counter.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    send(socket, &bomb);
                    counter.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Endless { port, open }
    }
}

fn send(mut socket: TcpStream, bomb: &[u8]) {
    let mut head = [0; 4096];
    let count = socket.read(&mut head).unwrap_or(0);
    let asked = String::from_utf8_lossy(&head[..count]).into_owned();
    let coding = match asked.contains(" /text") {
        true => "",
        false => "Content-Encoding: gzip\r\n",
    };
    let start = format!("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n{coding}\r\n");
    if socket.write_all(start.as_bytes()).is_err() {
        return;
    }
    if asked.contains(" /bomb") {
        let _ = socket.write_all(bomb);
        return;
    }
    // It must not compress well, or much of it fits between server and client.
    let lines: String = (0..20_000u32)
        .map(|n| format!("{:x}\n", n.wrapping_mul(2_654_435_769)))
        .collect();
    let piece = match asked.contains(" /coded") {
        true => gzip(lines.as_bytes()),
        false => lines.into_bytes(),
    };
    while socket.write_all(&piece).is_ok() {}
}

const FILTERS: [(&str, &str); 6] = [
    ("none", ""),
    (
        "sub",
        "sub_filter_types *; sub_filter_once off; sub_filter x yy;",
    ),
    ("charset", "charset utf-8; add_after_body /small;"),
    ("gzip", "gzip on; gzip_types *; gzip_proxied any;"),
    ("brotli", "brotli on; brotli_types *; brotli_comp_level 8;"),
    ("zstd", "zstd on; zstd_types *; zstd_comp_level 12;"),
];

fn configuration(origin: u16) -> String {
    let mut locations = String::new();
    for (name, lines) in FILTERS {
        locations.push_str(&format!(
            "location /file/{name}/ {{ gzip_static always; gunzip on; {lines} alias %site%/html/; }}
             location /origin/{name}/ {{ gunzip on; {lines} proxy_pass http://127.0.0.1:{origin}/; }}
             location /direct/{name}/ {{ gunzip on; {lines} proxy_buffering off; proxy_pass http://127.0.0.1:{origin}/; }}
             location /temporary/{name}/ {{ gunzip on; {lines} proxy_max_temp_file_size 1m;
                 proxy_pass http://127.0.0.1:{origin}/; }}\n"
        ));
    }
    format!(
        "types {{ text/plain txt; }} proxy_max_temp_file_size 0;
         server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%idle% sndbuf=64k; http2 on; root html;
         location = /status {{ stub_status; }} {locations}
         location /again/ {{ gzip on; gzip_types *; proxy_set_header Accept-Encoding '';
             proxy_pass http://127.0.0.1:%plain%/origin/none/; }} }}"
    )
}

/// What the client takes, so that gzip is never sent as it is.
fn accepted(filter: &str) -> &'static str {
    match filter {
        "brotli" => "br",
        "zstd" => "zstd",
        _ => "identity",
    }
}

/// Every connection but that of the question.
fn others(server: &Server<'_>) -> usize {
    let status = wire::get(server.port("plain"), "/status").text();
    let number = status
        .split_whitespace()
        .nth(2)
        .and_then(|n| n.parse().ok());
    number.map_or(usize::MAX, |n: usize| n - 1)
}

/// Clients that leave what they have asked for where it is: half over HTTP/1, half over HTTP/2.
struct Idle {
    ones: Vec<Connection>,
    twos: Vec<http2::Client>,
}

fn leave_unread(server: &Server<'_>, paths: &[String], accepted: &str) -> Idle {
    let mut idle = Idle {
        ones: Vec::new(),
        twos: Vec::new(),
    };
    for path in paths {
        let mut one = Connection::open(server.port("idle"));
        one.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n"
        ));
        idle.ones.push(one);
        let window = [(INITIAL_WINDOW, 1000)];
        let mut two = http2::Client::open(server.port("idle"), &window);
        two.request("GET", path, &[("accept-encoding", accepted)], true);
        idle.twos.push(two);
    }
    idle
}

impl Idle {
    /// Each takes a little, and others are served meanwhile. Returns the most memory seen.
    fn sip(&mut self, server: &Server<'_>, rounds: usize) -> u64 {
        let mut most_kib = 0;
        for _ in 0..rounds {
            for (one, two) in self.ones.iter_mut().zip(&mut self.twos) {
                let mut piece = [0; 2000];
                let count = one.socket().read(&mut piece).expect("the body goes on");
                assert!(count > 0, "the body goes on");
                let stream = 1;
                two.grant(stream, 900);
                two.grant(0, 900);
            }
            assert_eq!(wire::get(server.port("plain"), "/small.txt").body, b"small");
            most_kib = most_kib.max(server.resident_kib());
        }
        most_kib
    }
}

fn site(bomb: &[u8]) -> Site {
    let site = Site::new();
    site.write("html/small.txt", "small");
    site.write("html/small", "small");
    site.write("html/bomb.gz", bomb);
    site
}

/// Has curl read a body to its end and decompress it, and looks at the memory of the worker.
/// Returns the length and the most memory seen.
fn drain(server: &Server<'_>, path: &str, options: &[&str]) -> (u64, u64) {
    let port = server.port("plain");
    let mut curl = Command::new("curl")
        .args(["-sS", "--compressed"])
        .args(options)
        .arg(format!("http://127.0.0.1:{port}{path}"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl can be started");
    let mut output = curl.stdout.take().expect("it is piped");
    let mut piece = vec![0; 1 << 20];
    let (mut bytes, mut most_kib, mut next_look) = (0, 0, 0);
    while let Ok(count @ 1..) = output.read(&mut piece) {
        bytes += count as u64;
        if bytes >= next_look {
            next_look += 16 << 20;
            most_kib = most_kib.max(server.resident_kib());
            assert_eq!(wire::get(port, "/small.txt").body, b"small");
        }
    }
    let status = curl.wait().expect("our own child");
    assert!(status.success(), "{path} {options:?}: {status}");
    (bytes, most_kib)
}

#[test]
fn bombs_and_endless_bodies_stay_small() {
    let bytes = scale(16 << 20, 1 << 30);
    let bomb = Arc::new(bomb(bytes));
    let site = site(&bomb);
    let origin = Endless::start(bomb.clone());
    let server = site.serve(&configuration(origin.port));
    assert_eq!(wire::get(server.port("plain"), "/small.txt").body, b"small");
    let before_kib = server.resident_kib();
    println!("a bomb of {} bytes, {before_kib} KiB before", bomb.len());
    read_to_the_end(&server, bytes as u64, before_kib);
    hardly_read(&server, &origin, before_kib);
}

/// As long as it must be, and never in memory.
fn read_to_the_end(server: &Server<'_>, bytes: u64, before_kib: u64) {
    const BR: [&str; 2] = ["-H", "Accept-Encoding: br"];
    const ZSTD: [&str; 2] = ["-H", "Accept-Encoding: zstd"];
    const GZIP: [&str; 2] = ["-H", "Accept-Encoding: gzip"];
    const NONE: [&str; 2] = ["-H", "Accept-Encoding: identity"];
    let cases = [
        ("/file/none/bomb", NONE),
        ("/origin/none/bomb", NONE),
        ("/temporary/none/bomb", NONE),
        ("/file/sub/bomb", NONE),
        ("/direct/sub/bomb", NONE),
        ("/again/bomb", GZIP),
        ("/file/brotli/bomb", BR),
        ("/direct/brotli/bomb", BR),
        ("/origin/zstd/bomb", ZSTD),
    ];
    for (at, (path, coding)) in cases.into_iter().enumerate() {
        // One of both, in turns, or both.
        let from = at % scale(2, 1);
        let versions = &["--http1.1", "--http2-prior-knowledge", "--http1.1"];
        for version in &versions[from..from + scale(1, 2)] {
            let (got, most_kib) = drain(server, path, &[&coding[..], &[version]].concat());
            let factor = if path.contains("sub") { 2 } else { 1 };
            assert_eq!(got, factor * bytes, "{path} {version}");
            let above_kib = most_kib.saturating_sub(before_kib);
            println!("{path} {version}: {above_kib} KiB above");
            // What allocators keep of the compressors before it does not grow.
            let bound_kib = BOUND_KIB + 2 * COMPRESSOR_KIB;
            assert!(above_kib < bound_kib, "{path} {version}: {above_kib} KiB");
        }
    }
}

/// By two clients each.
fn hardly_read(server: &Server<'_>, origin: &Endless, before_kib: u64) {
    let mut all_idle = Vec::new();
    let mut bound_kib = BOUND_KIB;
    for (filter, _) in FILTERS {
        let mut paths = vec![
            format!("/origin/{filter}/text"),
            format!("/temporary/{filter}/coded"),
            format!("/direct/{filter}/text"),
            format!("/direct/{filter}/coded"),
        ];
        if accepted(filter) == "identity" {
            paths.push(format!("/file/{filter}/bomb"));
            paths.push(format!("/origin/{filter}/bomb"));
        } else {
            // What a bomb compresses to again is read in one piece.
            bound_kib += 2 * paths.len() as u64 * COMPRESSOR_KIB;
        }
        let mut idle = leave_unread(server, &paths, accepted(filter));
        // More rounds take longer than a client may leave everything unread (`send_timeout`).
        let most_kib = idle.sip(server, scale(5, 20));
        let above_kib = most_kib.saturating_sub(before_kib);
        let clients = 2 * paths.len();
        println!("{clients} clients more that hardly read, {filter}: {above_kib} KiB above");
        assert!(
            above_kib < bound_kib,
            "{filter}: {above_kib} KiB above {before_kib}"
        );
        all_idle.push(idle);
    }

    // They leave: so do those who send.
    drop(all_idle);
    wait_for("the connections to end", || {
        (others(server) == 0 && origin.open.load(Ordering::SeqCst) == 0).then_some(())
    });
    let after_kib = server.resident_kib();
    println!(
        "afterwards: {} KiB above",
        after_kib.saturating_sub(before_kib)
    );
}
