//! A request body whose chunks are wrong ends its connection, whoever answers the request, and
//! however it is cut into packets. What follows it is never a request.

use super::{http1_cases, mutants};
use sealane_http::h1::{BodyDecoder, Limits, ParseState, Parsed, parse_request};
use sealane_tests::random::Random;
use sealane_tests::{PATIENCE, Server, Site, scale, wire};
use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

/// Bodies up to the byte that is wrong, which is in the second part.
const FORMS: &[(&str, &str)] = &[
    ("1\r\nA\r\n1", "Zffffffffffff\r\n0\r\n\r\n"),
    ("5\r\nhello\r\n12", "Z\r\n0\r\n\r\n"),
    ("1\r\nA", "B\r\n0\r\n\r\n"),
    ("3\r\nabc\r", "X\n0\r\n\r\n"),
    ("7fffffffffffffff", "f\r\n0\r\n\r\n"),
    ("5", "\nhello\n0\n\n"),
    ("", "-1\r\n0\r\n\r\n"),
    ("0", "x5\r\nhello\r\n0\r\n\r\n"),
    ("1;a=\"b", "\0\"\r\nA\r\n0\r\n\r\n"),
    ("0\r\nX: ", "\0\r\n\r\n"),
    ("0\r\n\r", "\r\n"),
    ("1\r\nA\r\n", "\r\n0\r\n\r\n"),
];

/// What follows.
const SMUGGLED: &str = "GET /return HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// How a request is cut into packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Not at all.
    Whole,
    /// Into single bytes.
    Bytes,
    /// Somewhere.
    Twice,
    /// Before the byte that is wrong, which is sent when the answer has come, if one comes.
    Late,
}

/// Who answers.
struct Route {
    method: &'static str,
    path: &'static str,
    /// The status when all of it comes at once. As in nginx an answer that is an error anyway
    /// stays what it is.
    status: u16,
    /// It answers before the body is complete.
    is_early: bool,
}

const fn early(method: &'static str, path: &'static str, status: u16) -> Route {
    Route {
        method,
        path,
        status,
        is_early: true,
    }
}

const fn reading(method: &'static str, path: &'static str) -> Route {
    Route {
        method,
        path,
        status: 400,
        is_early: false,
    }
}

const ROUTES: &[Route] = &[
    early("POST", "/return", 400),
    early("GET", "/return", 400),
    early("HEAD", "/return", 400),
    early("POST", "/empty", 400),
    early("POST", "/redirect", 400),
    early("POST", "/refused", 403),
    early("POST", "/failed", 500),
    early("GET", "/a.txt", 400),
    early("POST", "/a.txt", 405),
    early("GET", "/missing", 404),
    early("GET", "/instead", 404),
    early("GET", "/denied/a.txt", 403),
    early("GET", "/secret/a.txt", 401),
    early("GET", "/auto/", 400),
    early("GET", "/directory", 400),
    early("GET", "/stub", 400),
    early("GET", "/gif", 400),
    early("GET", "/compressed/a.txt", 400),
    early("GET", "/included/a.txt", 400),
    early("GET", "/movie.mp4", 400),
    early("GET", "/movie.flv", 400),
    early("GET", "/asked/a.txt", 400),
    early("GET", "/shown/a.txt", 400),
    early("GET", "/limited/a.txt", 503),
    early("POST", "/early", 400),
    reading("GET", "/mirrored/a.txt"),
    reading("PUT", "/dav/new.txt"),
    reading("POST", "/proxied"),
    reading("POST", "/streamed"),
    reading("POST", "/fastcgi"),
    reading("POST", "/fastcgi_streamed"),
    reading("POST", "/uwsgi"),
    reading("POST", "/uwsgi_streamed"),
    reading("POST", "/scgi"),
    reading("POST", "/scgi_streamed"),
    reading("POST", "/grpc"),
];

/// An origin that answers as soon as the head is there, and reads on.
fn hasty() -> u16 {
    origin(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

/// An origin that reads, and says nothing.
fn silent() -> u16 {
    origin(b"")
}

fn origin(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    // It ends with the test's process.
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut received, mut piece) = (Vec::new(), [0; 4096]);
                let mut answered = answer.is_empty();
                while let Ok(count @ 1..) = socket.read(&mut piece) {
                    received.extend_from_slice(&piece[..count]);
                    let head_ended = received.windows(4).any(|four| four == b"\r\n\r\n");
                    if !answered && head_ended {
                        answered = socket.write_all(answer).is_ok();
                    }
                }
            });
        }
    });
    port
}

fn serve<'s>(site: &'s Site) -> Server<'s> {
    for file in ["a.txt", "directory/a.txt", "movie.mp4", "movie.flv"] {
        site.write(format!("html/{file}"), "alpha".repeat(100));
    }
    site.write("users", "user:{PLAIN}password");
    let html = site.path("html").display().to_string();
    let (hasty, silent) = (hasty(), silent());
    let (hasty, silent) = (format!("127.0.0.1:{hasty}"), format!("127.0.0.1:{silent}"));
    let gateways: String = ["fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| {
            format!(
                "location /{name} {{ {name}_pass {silent}; }}
                 location /{name}_streamed {{ {name}_pass {silent}; {name}_request_buffering off; }}"
            )
        })
        .collect();
    site.serve(&format!(
        "limit_req_zone $server_port zone=requests:1m rate=1r/m; gzip_types text/plain; gzip_min_length 1;
         server {{ listen 127.0.0.1:%http%; root html; default_type text/plain; error_page 410 /a.txt;
           location /return {{ return 200 text; }}
           location /marker {{ return 200 'reached $request_uri;'; }}
           location /empty {{ return 204; }}
           location /redirect {{ return 301 /elsewhere; }}
           location /refused {{ return 403; }}
           location /failed {{ return 500; }}
           location /instead {{ error_page 404 /return; }}
           location /denied/ {{ alias {html}/; deny all; }}
           location /secret/ {{ alias {html}/; auth_basic secret; auth_basic_user_file users; }}
           location /auto/ {{ alias {html}/; autoindex on; }}
           location /stub {{ stub_status; }}
           location /gif {{ empty_gif; }}
           location /compressed/ {{ alias {html}/; gzip on; gunzip on; }}
           location /included/ {{ alias {html}/; ssi on; ssi_types text/plain; sub_filter a b; sub_filter_types *; }}
           location /movie.mp4 {{ mp4; }}
           location /movie.flv {{ flv; }}
           location = /yes {{ internal; return 204; }}
           location /asked/ {{ alias {html}/; auth_request /yes; }}
           location /shown/ {{ alias {html}/; mirror /yes; mirror_request_body off; }}
           location /mirrored/ {{ alias {html}/; mirror /yes; }}
           location /limited/ {{ alias {html}/; limit_req zone=requests; }}
           location /dav/ {{ dav_methods PUT; create_full_put_path on; }}
           location /proxied {{ proxy_pass http://{hasty}; }}
           location /early {{ proxy_pass http://{hasty}; proxy_http_version 1.1; proxy_request_buffering off; }}
           location /streamed {{ proxy_pass http://{silent}; proxy_http_version 1.1; proxy_request_buffering off; }}
           location /grpc {{ grpc_pass grpc://{silent}; }}
           {gateways}
         }}"
    ))
}

/// Sends a request so cut, and returns everything that comes until the connection ends, which
/// is to be in order.
fn exchange(port: u16, cut: Cut, route: &Route, form: (&str, &str), random: &mut Random) -> String {
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\
         Transfer-Encoding: chunked\r\n\r\n{}",
        route.method, route.path, form.0
    );
    let all = format!("{head}{}{SMUGGLED}", form.1);
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    socket.set_nodelay(true).expect("it is connected");
    let timeout = Some(PATIENCE);
    socket.set_read_timeout(timeout).expect("it is not zero");
    let pieces: Vec<&[u8]> = match cut {
        Cut::Whole => vec![all.as_bytes()],
        Cut::Bytes => all.as_bytes().chunks(1).collect(),
        Cut::Twice => {
            let (one, other) = all.as_bytes().split_at(random.below(all.len()));
            vec![one, other]
        }
        Cut::Late => {
            let (one, other) = all.as_bytes().split_at(head.len());
            vec![one, other]
        }
    };
    let mut received = Vec::new();
    for piece in pieces {
        socket
            .write_all(piece)
            .expect("the server reads what is sent");
        if cut == Cut::Late && route.is_early && received.is_empty() {
            let mut first = [0; 4096];
            let count = socket.read(&mut first).expect("an answer comes");
            received.extend_from_slice(&first[..count]);
        }
    }
    let mut piece = [0; 4096];
    loop {
        match socket.read(&mut piece).expect("the server closes in order") {
            0 => return String::from_utf8_lossy(&received).into_owned(),
            count => received.extend_from_slice(&piece[..count]),
        }
        let text = String::from_utf8_lossy(&received);
        if super::statuses(&text).len() > 3 {
            return text.into_owned(); // to a request that was smuggled
        }
    }
}

#[test]
fn a_broken_chunk_ends_the_connection_whoever_answers() {
    let site = Site::new();
    let server = serve(&site);
    let port = server.port("http");
    // From now on there are too many.
    wire::get(port, "/limited/a.txt");
    let (mut count, mut found_out, mut wrong) = (0, 0, Vec::new());
    let mut random = Random::new(1);
    for route in ROUTES {
        for form in FORMS {
            for cut in [Cut::Whole, Cut::Bytes, Cut::Twice, Cut::Late] {
                let received = exchange(port, cut, route, *form, &mut random);
                count += 1;
                // Behind a 500, which ends the connection, nothing is looked at any more.
                let is_sure = cut == Cut::Whole || route.status != 500;
                found_out += usize::from(is_sure);
                let statuses = super::statuses(&received);
                let has_one = statuses.len() == 3;
                let is_meant = cut != Cut::Whole || statuses == route.status.to_string();
                if !has_one || !is_meant {
                    wrong.push(format!(
                        "{} {} {form:?} {cut:?}: {statuses}",
                        route.method, route.path
                    ));
                }
            }
        }
    }
    assert!(count >= 216);
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // Each connection has one line about it, for those who want to know.
    server.stop("QUIT");
    let log = std::fs::read_to_string(site.path("logs/error.log")).expect("it was written");
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("client sent invalid"))
        .collect();
    let is_right = |line: &&&str| {
        line.contains(" [info] ") && line.contains("client sent invalid chunked body (")
    };
    assert_eq!(lines.iter().filter(is_right).count(), lines.len());
    let connections: HashSet<&str> = lines
        .iter()
        .filter_map(|line| line.split(' ').find(|word| word.starts_with('*')))
        .collect();
    assert_eq!(connections.len(), lines.len());
    assert!(
        (found_out..=count).contains(&lines.len()),
        "{}",
        lines.len()
    );
}

/// Whether a request for this path begins where another one ends. What a connection does that
/// reads requests, and their bodies, by the rules, and stops at the first that breaks them.
fn is_reached(mut bytes: &[u8], path: &str) -> bool {
    loop {
        let (mut state, limits) = (ParseState::default(), Limits::default());
        let Ok(Parsed::Complete(head)) = parse_request(bytes, &mut state, &limits) else {
            return false;
        };
        if head.path.of(bytes) == path.as_bytes() {
            return true;
        }
        if !head.keep_alive {
            return false;
        }
        bytes = &bytes[head.head_bytes..];
        let mut body = BodyDecoder::new(head.framing);
        while !body.is_done() {
            match body.decode(bytes) {
                Ok(decoded) if decoded.consumed > 0 || decoded.done => {
                    bytes = &bytes[decoded.consumed..];
                }
                Ok(_) | Err(_) => return false,
            }
        }
    }
}

#[test]
fn mutants_open_no_way_to_another_request_whoever_answers() {
    let site = Site::new();
    let server = serve(&site);
    // The worker may not write there.
    server.expect_alert("rename()");
    let mut random = Random::new(7);
    let cases = http1_cases::all();
    let (mut reached, mut refused) = (0, 0);
    let count = scale(3000, 100_000);
    for number in 0..count {
        let route = random.choose::<Route>(ROUTES);
        let form = random.choose::<(&str, &str)>(FORMS);
        let (path, method) = (route.path, route.method);
        // A case of any kind, or a body in chunks: a damaged one, or a good one to damage.
        let text = match random.below(4) {
            0 | 1 => {
                let bytes = &random.choose(&cases).bytes;
                String::from_utf8_lossy(bytes).replacen("/t", path, 1)
            }
            kind => {
                let head =
                    format!("{method} {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked");
                let body = match kind {
                    2 => format!("{}{}", form.0, form.1),
                    _ => "5\r\nhello\r\n1;x\r\nA\r\n0\r\nX: y\r\n\r\n".to_owned(),
                };
                format!("{head}\r\n\r\n{body}")
            }
        };
        let mut bytes = text.into_bytes();
        mutants::damage(&mut random, &mut bytes, &cases);
        let marker = format!("/marker{number}");
        bytes.extend_from_slice(
            format!("GET {marker} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes(),
        );
        let port = server.port("http");
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        let timeout = Some(PATIENCE);
        socket.set_read_timeout(timeout).expect("it is not zero");
        let (one, other) = bytes.split_at(random.below(bytes.len()));
        // A connection that its request ends may be closed before the rest is sent.
        let sent = socket.write_all(one).and_then(|()| socket.write_all(other));
        if sent.is_ok() {
            // Whoever waits for more hears that there is none.
            let _ = socket.shutdown(Shutdown::Write);
        }
        let mut received = Vec::new();
        if let Err(error) = socket.read_to_end(&mut received) {
            let is_reset = error.kind() == ErrorKind::ConnectionReset;
            assert!(is_reset, "{error}: {}", bytes.escape_ascii());
        }
        let shown = bytes.escape_ascii();
        let received = String::from_utf8_lossy(&received);
        let is_answered = received.contains(&format!("reached {marker};"));
        match is_reached(&bytes, &marker) {
            true => reached += u32::from(is_answered),
            false => {
                refused += 1;
                assert!(!is_answered, "{method} {path}: {shown}: {received}");
            }
        }
    }
    println!("{refused} of {count} end the connection, {reached} do not");
    assert!(refused > 500 && reached > 100, "{refused}, {reached}");
}
