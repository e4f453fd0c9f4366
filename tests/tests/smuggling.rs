//! Requests that two servers could understand differently, sent through to origins that
//! read strictly and leniently: what arrives is what was meant, and what follows on the
//! same connection, and on others, gets its own answer.

use http1_cases::Meant;
use sealane_tests::understanding::{Manner, Understanding, Understood};
use sealane_tests::{PATIENCE, Server, Site, http2, wait_for, wire};
use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

#[path = "smuggling/broken_chunks.rs"]
mod broken_chunks;
#[path = "smuggling/http1_cases.rs"]
mod http1_cases;
#[path = "smuggling/http2_cases.rs"]
mod http2_cases;
#[path = "smuggling/mutants.rs"]
mod mutants;

const MANNERS: [Manner; 3] = [Manner::Strict, Manner::Lax, Manner::LaxByLength];

/// The ports that lead to each of them: request bodies are passed on when they are
/// complete, or as they come.
const PORTS: [[&str; 2]; 3] = [
    ["buffered_a", "streamed_a"],
    ["buffered_b", "streamed_b"],
    ["buffered_c", "streamed_c"],
];

/// One server for each origin, and two ways to pass a body on.
fn serve<'s>(site: &'s Site, origins: &[Understanding]) -> Server<'s> {
    let mut configuration = String::from(
        "proxy_http_version 1.1; proxy_set_header Connection \"\"; http2 on; keepalive_timeout 5s;
         client_header_timeout 5s; client_body_timeout 5s; server_tokens off;
         proxy_set_header X-Id $request_id; add_header X-Id $request_id always;
         log_format seen escape=none '$request_id $upstream_addr $upstream_status $request_method $request_uri';
         access_log logs/seen.log seen;",
    );
    for (number, origin) in origins.iter().enumerate() {
        let address = format!("127.0.0.1:{}", origin.port());
        let [buffered, streamed] = PORTS[number];
        configuration.push_str(&format!(
            "upstream o{number} {{ server {address}; keepalive 8; }}
             server {{ listen 127.0.0.1:%{buffered}%; location / {{ proxy_pass http://o{number}; }} }}
             server {{ listen 127.0.0.1:%{streamed}%;
                       location / {{ proxy_pass http://o{number}; proxy_request_buffering off; }} }}"
        ));
    }
    site.serve(&configuration)
}

/// Everything that comes until the connection ends, or until `last` has come.
fn exchange(port: u16, bytes: &[u8], last: &str) -> String {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("it is not zero");
    let _ = socket.write_all(bytes);
    let mut received = Vec::new();
    let mut piece = [0; 16_384];
    loop {
        match socket.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => received.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("nothing came for {} s: {error}", PATIENCE.as_secs()),
        }
        if String::from_utf8_lossy(&received).contains(last) {
            break;
        }
    }
    String::from_utf8_lossy(&received).into_owned()
}

/// The status codes of the responses in there.
fn statuses(received: &str) -> String {
    let codes = received
        .split("HTTP/1.1 ")
        .skip(1)
        .filter_map(|part| part.get(..3));
    codes.collect::<Vec<_>>().join(" ")
}

/// What is to arrive, with the targets of this case.
fn expected(meant: &Meant, target: &str, marker: &str) -> Vec<String> {
    let own = |text: &&str| text.replacen("/t", target, 1);
    let follower = format!("GET {marker}");
    match meant {
        Meant::Nothing => Vec::new(),
        Meant::Only(texts) => texts.iter().map(own).collect(),
        Meant::All(texts) => texts.iter().map(own).chain([follower]).collect(),
    }
}

/// What was understood. A request whose body was being passed on when it turned out to be
/// malformed is cut short, which may be noted late; it is none.
fn understood(origin: &Understanding) -> Vec<Understood> {
    let mut all = origin.take();
    all.retain(|one| one.text != "REFUSED cut");
    all
}

fn texts(all: &[Understood]) -> Vec<String> {
    all.iter().map(|one| one.text.clone()).collect()
}

/// Every request that an origin understood is one that the server has logged as passed on,
/// with the same method and target, and none is there twice. Every request that the log says
/// was answered was understood.
#[track_caller]
fn assert_as_logged(site: &Site, understood: &[Understood]) {
    let mut by_id = HashMap::new();
    for one in understood {
        assert_eq!(one.id.len(), 32, "not a request of the server: {one:?}");
        let before = by_id.insert(one.id.clone(), one);
        assert!(before.is_none(), "{before:?} and {one:?}");
    }
    let log = wait_for("every request to be logged", || {
        let log = std::fs::read(site.path("logs/seen.log")).ok()?;
        let log = String::from_utf8_lossy(&log).into_owned();
        let logged: HashSet<&str> = log.lines().filter_map(|line| line.get(..32)).collect();
        by_id
            .keys()
            .all(|id| logged.contains(id.as_str()))
            .then_some(log)
    });
    for line in log.lines() {
        let (id, rest) = line.split_once(' ').expect("the format");
        let Some(one) = by_id.remove(id) else {
            assert!(!rest.contains(" 200 "), "nobody understood: {line}");
            continue;
        };
        assert!(
            !rest.starts_with('-'),
            "not passed on, but understood: {line}"
        );
        let mut words = rest.rsplit(' ');
        let (target, method) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        // As in nginx, `$request_uri` of `http://host?query` has no path, but what is sent.
        let request = match target {
            "?" => format!("{method} /"),
            query if query.starts_with('?') => format!("{method} /{query}"),
            _ => format!("{method} {target}"),
        };
        let same = one.text == request || one.text.starts_with(&format!("{request} "));
        assert!(same, "{one:?} is logged as {line:?}");
    }
    assert!(by_id.is_empty(), "understood, but not logged: {by_id:?}");
}

#[test]
fn what_arrives_by_http1_is_what_was_meant() {
    let origins = MANNERS.map(Understanding::start);
    let site = Site::new();
    let server = serve(&site, &origins);
    let cases = http1_cases::all();
    assert!(cases.len() >= 160);
    let (mut wrong, mut everything) = (Vec::new(), Vec::new());
    for (number, case) in cases.iter().enumerate() {
        let mut columns = Vec::new();
        for (origin, names) in origins.iter().zip(PORTS) {
            for (way, name) in names.into_iter().enumerate() {
                let port = server.port(name);
                let (target, marker, other) = (
                    format!("/c{number}w{way}"),
                    format!("/m{number}w{way}"),
                    format!("/o{number}"),
                );
                let text = String::from_utf8_lossy(&case.bytes).into_owned();
                let mut bytes = match text.as_bytes() == case.bytes {
                    true => text.replace("/t", &target).into_bytes(),
                    false => panic!("cases are text"),
                };
                bytes.extend_from_slice(
                    format!("GET {marker} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes(),
                );
                let received = exchange(port, &bytes, &format!("GET {marker}"));
                let follower = wire::get(port, &other);
                let seen = understood(origin);
                let mut all = texts(&seen);
                let last = all.pop();
                everything.extend(seen);
                let meant = expected(&case.meant, &target, &marker);
                let own_answer = follower.text() == format!("GET {other}")
                    && last == Some(format!("GET {other}"));
                let passes = matches!(case.meant, Meant::All(_));
                let own_answer =
                    own_answer && received.contains(&format!("GET {marker}")) == passes;
                if all != meant || !own_answer {
                    wrong.push(format!(
                        "{} ({name}): {all:?}, not {meant:?}; then {last:?}: {:?}",
                        case.name,
                        follower.text()
                    ));
                }
                columns.push(format!("{}/{}", statuses(&received), all.len()));
            }
        }
        println!("{:40} {}", case.name, columns.join("  "));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_as_logged(&site, &everything);
}

/// Otherwise the tests above could not fail.
#[test]
fn the_origins_do_understand_differently() {
    let origins = MANNERS.map(Understanding::start);
    let body = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let ask = |coding: &str| {
        let length = body.len();
        let request = format!(
            "POST /t HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{coding}\r\n\r\n{body}\
             GET /end HTTP/1.1\r\nHost: localhost\r\n\r\n"
        );
        let texts = origins.iter().map(|origin| {
            exchange(origin.port(), request.as_bytes(), "GET /end");
            texts(&origin.take())
        });
        texts.collect::<Vec<_>>()
    };
    let plain = ask("Transfer-Encoding: chunked");
    assert_eq!(plain[0], ["REFUSED Content-Length and Transfer-Encoding"]);
    assert_eq!(plain[1], ["POST /t", "GET /smuggled", "GET /end"]);
    assert_eq!(plain[2].len(), 2, "{plain:?}");
    let disguised = ask("Transfer-Encoding : xchunked");
    assert!(
        disguised[0][0].starts_with("REFUSED a header name"),
        "{disguised:?}"
    );
    assert_eq!(disguised[1], ["POST /t", "GET /smuggled", "GET /end"]);
}

#[test]
fn what_arrives_by_http2_is_what_was_meant() {
    let origins = MANNERS.map(Understanding::start);
    let site = Site::new();
    let server = serve(&site, &origins);
    let (mut wrong, mut everything) = (Vec::new(), Vec::new());
    let cases = http2_cases::all();
    assert!(cases.len() >= 90);
    for (number, case) in cases.iter().enumerate() {
        let mut columns = Vec::new();
        for (origin, names) in origins.iter().zip(PORTS) {
            for (way, name) in names.into_iter().enumerate() {
                let port = server.port(name);
                let (target, marker, other) = (
                    format!("/c{number}w{way}"),
                    format!("/m{number}w{way}"),
                    format!("/o{number}"),
                );
                let mut client = http2::Client::open(port, &[]);
                let fields: Vec<(&str, String)> = case
                    .fields
                    .iter()
                    .map(|(name, value)| (*name, value.replace("/t", &target)))
                    .collect();
                let fields: Vec<(&str, &str)> = fields
                    .iter()
                    .map(|(name, value)| (*name, value.as_str()))
                    .collect();
                let answered = send(&mut client, &fields, &case.data, case.trailers.as_deref());
                // The same connection, unless the server has closed it.
                let stream = client.get(&marker);
                let answer = read(&mut client, stream);
                let follower = wire::get(port, &other);
                let seen = understood(origin);
                let mut all = texts(&seen);
                let last = all.pop();
                everything.extend(seen);
                let mut meant: Vec<String> = case
                    .meant
                    .iter()
                    .map(|text| text.replacen("/t", &target, 1))
                    .collect();
                meant.push(format!("GET {marker}"));
                let own = follower.text() == format!("GET {other}")
                    && last == Some(format!("GET {other}"));
                let its_own = answer == format!("200 GET {marker}");
                if all != meant || !own || !its_own {
                    wrong.push(format!(
                        "{} ({name}): {all:?}, not {meant:?}; then {answer:?}, {:?}",
                        case.name,
                        follower.text()
                    ));
                }
                columns.push(format!(
                    "{}/{}",
                    answered.get(..3).unwrap_or("-"),
                    all.len()
                ));
            }
        }
        println!("{:40} {}", case.name, columns.join("  "));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_as_logged(&site, &everything);
}

/// The body turns out to be wrong before the request is passed on, or while it is.
#[test]
fn a_body_behind_length_0_goes_nowhere() {
    const REQUEST: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let origins = MANNERS.map(Understanding::start);
    let site = Site::new();
    let server = serve(&site, &origins);
    for (origin, names) in origins.iter().zip(PORTS) {
        for name in names {
            let mut client = http2::Client::open(server.port(name), &[]);
            let stream = client.request("POST", "/t", &[("content-length", "0")], false);
            client.frame(http2::kind::DATA, http2::flag::END_STREAM, stream, REQUEST);
            let answer = read(&mut client, stream);
            let is_refused = answer.starts_with("400 ");
            assert!(is_refused || answer == "200 POST /t", "{name}: {answer}");
            let stream = client.get("/after");
            assert_eq!(read(&mut client, stream), "200 GET /after", "{name}");
            let other = wire::get(server.port(name), "/other").text();
            assert_eq!(other, "GET /other", "{name}");
            let mut seen = texts(&understood(origin));
            // Where bodies are streamed, its head may have been on its way.
            seen.retain(|text| text != "POST /t" || name == names[0]);
            assert_eq!(seen, ["GET /after", "GET /other"], "{name}");
        }
    }
}

/// Sends a request, and returns what [`read`] makes of the answer.
fn send<T: AsRef<str>>(
    client: &mut http2::Client,
    fields: &[(T, T)],
    data: &[T],
    trailers: Option<&[(T, T)]>,
) -> String {
    let block = |fields: &[(T, T)]| {
        let mut block = Vec::new();
        for (name, value) in fields {
            http2::push_field(&mut block, name.as_ref(), value.as_ref());
        }
        block
    };
    let stream = client.next_stream();
    let has_more = !data.is_empty() || trailers.is_some();
    let flags = http2::flag::END_HEADERS | (u8::from(!has_more) * http2::flag::END_STREAM);
    client.frame(http2::kind::HEADERS, flags, stream, &block(fields));
    for (at, piece) in data.iter().enumerate() {
        let is_last = at + 1 == data.len() && trailers.is_none();
        let piece = piece.as_ref().as_bytes();
        client.frame(http2::kind::DATA, u8::from(is_last), stream, piece);
    }
    if let Some(trailers) = trailers {
        let flags = http2::flag::END_HEADERS | http2::flag::END_STREAM;
        client.frame(http2::kind::HEADERS, flags, stream, &block(trailers));
    }
    read(client, stream)
}

/// Status and body of a stream; `RST` if it was reset, empty if the connection ended.
fn read(client: &mut http2::Client, stream: u32) -> String {
    let (mut status, mut body) = (String::new(), Vec::new());
    while let Some(frame) = client.next_frame() {
        if frame.kind == http2::kind::HEADERS {
            let fields = client.decode(&frame.payload);
            if frame.stream == stream {
                let found = fields.into_iter().find(|(name, _)| name == ":status");
                status = found.map_or(status, |(_, value)| value);
            }
        }
        if frame.stream != stream {
            continue;
        }
        match frame.kind {
            http2::kind::DATA => body.extend_from_slice(&frame.payload),
            http2::kind::RST_STREAM if status.is_empty() => return "RST".to_owned(),
            _ => {}
        }
        if frame.ends_stream() {
            return format!("{status} {}", String::from_utf8_lossy(&body));
        }
    }
    String::new()
}
