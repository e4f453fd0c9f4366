//! Origins that send without end.

use super::{FLOOD, Watch, site};
use sealane_tests::Site;
use sealane_tests::fastcgi;
use sealane_tests::http2::{flag, frame, kind, push_field};
use sealane_tests::wire::Connection;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Requests of a case at a time.
const CLIENTS: usize = 10;

/// What an origin says: the beginning, and then the same again and again.
pub(super) struct Says {
    name: &'static str,
    beginning: Vec<u8>,
    again: Vec<u8>,
}

pub(super) fn says(
    name: &'static str,
    beginning: impl AsRef<[u8]>,
    again: impl AsRef<[u8]>,
) -> Says {
    let again = again.as_ref();
    Says {
        name,
        beginning: beginning.as_ref().to_vec(),
        again: again.repeat((64 << 10) / again.len() + 1),
    }
}

/// Starts an origin that says so, until nobody listens or the time is over. Its thread ends with
/// the process.
pub(super) fn origin(says: Arc<Says>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let says = says.clone();
            thread::spawn(move || flood(socket, &says));
        }
    });
    port
}

fn flood(mut socket: TcpStream, says: &Says) {
    let until = Instant::now() + FLOOD;
    let _ = socket.set_write_timeout(Some(FLOOD));
    let _ = socket.read(&mut [0; 64 << 10]);
    let mut goes_on = socket.write_all(&says.beginning).is_ok();
    while goes_on && Instant::now() < until {
        goes_on = socket.write_all(&says.again).is_ok();
    }
}

/// Has the requests of each case answered, whatever with.
fn run(site: &Site, all: Vec<Says>, pass: impl Fn(u16) -> String) {
    let all: Vec<Arc<Says>> = all.into_iter().map(Arc::new).collect();
    let locations: String = (all.iter().enumerate())
        .map(|(number, says)| {
            let pass = pass(origin(says.clone()));
            format!("location /{number}/ {{ {pass} }}\n")
        })
        .collect();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; root html; proxy_max_temp_file_size 1m;
            fastcgi_max_temp_file_size 1m; {locations} }}"
    ));
    let mut watch = Watch::begin(&server);
    for (number, says) in all.iter().enumerate() {
        watch.case(&format!("{CLIENTS} x {}", says.name), || {
            let mut clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let mut client = Connection::open(server.port("plain"));
                    client.send(format!(
                        "GET /{number}/ HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n\r\n"
                    ));
                    client
                })
                .collect();
            for client in &mut clients {
                client.rest();
            }
        });
    }
}

#[test]
fn of_http1() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let all = vec![
        says("a status line", "HTTP/1.1 200 ", "x"),
        says("header lines", ok, "X: y\r\n"),
        says("a header line", "HTTP/1.1 200 OK\r\nX: ", "y"),
        says("no head at all", "", "x"),
        says(
            "interim responses",
            "",
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        ),
        says("chunk extensions", format!("{chunked}5"), ";a=b"),
        says("a chunk size", chunked, "0"),
        says("small chunks", chunked, "1\r\nx\r\n"),
        says("trailers", format!("{chunked}0\r\n"), "X: y\r\n"),
        says("a trailer", format!("{chunked}0\r\nX: "), "y"),
        says("cookies", ok, "Set-Cookie: a=b\r\n"),
        says(
            "bytes behind the end",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            "y",
        ),
    ];
    let site = site();
    run(&site, all, |port| {
        format!(
            "early_hints 1; proxy_http_version 1.1; proxy_pass_trailers on;
             proxy_pass http://127.0.0.1:{port};"
        )
    });
}

#[test]
fn of_http2() {
    let settings = frame(kind::SETTINGS, 0, 0, b"");
    let with = |more: &[u8]| [&settings[..], more].concat();
    let status = [0x88]; // `:status: 200` of the static table
    let headers = frame(kind::HEADERS, flag::END_HEADERS, 1, &status);
    let mut field = Vec::new();
    push_field(&mut field, "x", "y");
    let mut interim = Vec::new();
    push_field(&mut interim, ":status", "103");
    let begun = frame(kind::HEADERS, 0, 1, &status);
    let promise = [&2u32.to_be_bytes()[..], &status].concat();
    let all = vec![
        says("SETTINGS", &settings, &settings),
        says("PING", &settings, frame(kind::PING, 0, 0, &[0; 8])),
        says(
            "CONTINUATION",
            with(&begun),
            frame(kind::CONTINUATION, 0, 1, &field),
        ),
        says(
            "empty CONTINUATION",
            with(&begun),
            frame(kind::CONTINUATION, 0, 1, b""),
        ),
        says(
            "PUSH_PROMISE",
            &settings,
            frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &promise),
        ),
        says(
            "interim HEADERS",
            &settings,
            frame(kind::HEADERS, flag::END_HEADERS, 1, &interim),
        ),
        says("empty DATA", with(&headers), frame(kind::DATA, 0, 1, b"")),
        says(
            "DATA beyond the window",
            with(&headers),
            frame(kind::DATA, 0, 1, &[b'x'; 16_384]),
        ),
        says(
            "frames of unknown types",
            &settings,
            frame(0x42, 0, 0, &[0; 1000]),
        ),
        says(
            "WINDOW_UPDATE",
            &settings,
            frame(kind::WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes()),
        ),
    ];
    let site = site();
    run(&site, all, |port| {
        format!("proxy_http_version 2; proxy_pass http://127.0.0.1:{port};")
    });
}

#[test]
fn of_fastcgi() {
    let head = fastcgi::stdout(b"Content-Type: text/plain\r\n\r\nx");
    let all = vec![
        says(
            "FastCGI standard error",
            "",
            fastcgi::stderr(b"again and again\n"),
        ),
        says(
            "FastCGI standard error behind the head",
            &head,
            fastcgi::stderr(&[b'x'; 3000]),
        ),
        says("FastCGI header lines", "", fastcgi::stdout(b"X: y\r\n")),
        says("empty FastCGI records", &head, fastcgi::record(11, b"")),
        says(
            "FastCGI records of another type",
            &head,
            fastcgi::record(9, &[0; 1000]),
        ),
        says("FastCGI output", &head, fastcgi::stdout(&[b'x'; 3000])),
    ];
    let site = site();
    run(&site, all, |port| format!("fastcgi_pass 127.0.0.1:{port};"));
    // However often it says the same, the log has it once, and how often.
    let log = std::fs::read_to_string(site.path("logs/error.log")).expect("a log");
    let lines = log
        .lines()
        .filter(|line| line.contains("stderr: \"again and again\""));
    let lines = lines.count();
    assert!(lines <= 2 * CLIENTS, "{lines} lines");
}
