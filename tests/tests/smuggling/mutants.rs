//! The cases again, with random damage that is the same in every run.

use super::http1_cases::Meant;
use super::{MANNERS, PORTS, assert_as_logged, http1_cases, http2_cases, send, serve, understood};
use sealane_tests::random::Random;
use sealane_tests::understanding::{Understanding, Understood};
use sealane_tests::{Site, http2, scale, wire};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// A mutant may be the beginning of a longer request: after so long it is given up.
const SILENCE: Duration = Duration::from_millis(40);

/// What parsers disagree about.
const PIECES: &[&str] = &[
    "\r",
    "\n",
    "\r\n",
    "\n\n",
    "\r\n\r\n",
    "\r\n ",
    "\0",
    " ",
    "\t",
    "\x0b",
    "\u{85}",
    ":",
    ";",
    ",",
    "\"",
    "0",
    "1",
    "f",
    "+",
    "-",
    "0x",
    "%0d%0a",
    "%00",
    "//",
    "..",
    "?",
    "#",
    "@",
    "chunked",
    "identity",
    "HTTP/1.0",
    "HTTP/1.1",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 44\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Connection: content-length\r\n",
    "Connection: close\r\n",
    "Host: other\r\n",
    "0\r\n\r\n",
    "Expect: 100-continue\r\n",
    "X-Smuggled: 1\r\n",
    "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
];

/// Damages bytes in one place or two.
pub(super) fn damage(random: &mut Random, bytes: &mut Vec<u8>, others: &[http1_cases::Case]) {
    for _ in 0..=random.below(2) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(4)).min(bytes.len());
        match random.below(12) {
            0..5 => drop(bytes.splice(at..at, random.choose(PIECES).bytes())),
            5 => drop(bytes.splice(at..end, random.choose(PIECES).bytes())),
            6 => drop(bytes.drain(at..end)),
            7 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
            8 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            // A line stands somewhere else too.
            9 | 10 => {
                let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                let mut lines: Vec<Vec<u8>> = lines.into_iter().map(<[u8]>::to_vec).collect();
                let line = random.choose(&lines).clone();
                lines.insert(random.below(lines.len() + 1), line);
                *bytes = lines.concat();
            }
            // It goes on like another one.
            _ => {
                let other = &random.choose(others).bytes;
                bytes.truncate(at);
                bytes.extend_from_slice(&other[random.below(other.len())..]);
            }
        }
        if bytes.is_empty() {
            return;
        }
    }
}

/// Everything that comes until the connection ends, or nothing comes any more.
fn exchange(port: u16, bytes: &[u8], last: &str) -> String {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    socket
        .set_read_timeout(Some(SILENCE))
        .expect("it is not zero");
    let _ = socket.write_all(bytes);
    let (mut received, mut piece) = (Vec::new(), [0; 16_384]);
    while let Ok(count @ 1..) = socket.read(&mut piece) {
        received.extend_from_slice(&piece[..count]);
        if String::from_utf8_lossy(&received).contains(last) {
            break;
        }
    }
    String::from_utf8_lossy(&received).into_owned()
}

/// Every response is the one to the request that the server took it for. What an origin has
/// understood is escaped in its body, so that lines of a body are not taken for heads.
#[track_caller]
fn assert_own_answers(received: &str, request: &[u8]) {
    for response in received.split("HTTP/1.1 200 OK\r\n").skip(1) {
        let head = response.split("\r\n\r\n").next().unwrap_or_default();
        let value = |name: &str| head.split("\r\n").find_map(|line| line.strip_prefix(name));
        let (id, seen) = (value("X-Id: "), value("X-Seen: "));
        assert_eq!(id, seen, "{}: {received}", request.escape_ascii());
    }
}

/// Sends mutants to one port, and returns what the origin understood.
fn trouble(port: u16, origin: &Understanding, seed: u64, count: usize) -> Vec<Understood> {
    let mut random = Random::new(seed);
    let is_good = |case: &http1_cases::Case| matches!(case.meant, Meant::All(_));
    let cases = http1_cases::all();
    let good: Vec<_> = cases.iter().filter(|case| is_good(case)).collect();
    let mut all = Vec::new();
    for number in 0..count {
        // Most of those that were refused before are refused again.
        let mut bytes = match random.below(4) {
            0 => random.choose(&cases).bytes.clone(),
            _ => random.choose(&good).bytes.clone(),
        };
        damage(&mut random, &mut bytes, &cases);
        let marker = format!("/m{seed}n{number}");
        let follower = format!("GET {marker} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        bytes.extend_from_slice(follower.as_bytes());
        let received = exchange(port, &bytes, &format!("\r\n\r\nGET {marker}"));
        assert_own_answers(&received, &bytes);
        // Others share the connections to the origin.
        let other = format!("/o{seed}n{number}");
        let answer = wire::get(port, &other).text();
        assert_eq!(answer, format!("GET {other}"), "{}", bytes.escape_ascii());
        for one in understood(origin) {
            let refused = one.text.starts_with("REFUSED");
            assert!(!refused, "{one:?}: {}", bytes.escape_ascii());
            all.push(one);
        }
    }
    all
}

#[test]
fn mutants_by_http1_arrive_as_they_are_logged() {
    let count = scale(3000, 100_000);
    // An origin for each port, so that what it says is about the last mutant.
    for way in [0, 1] {
        let origins = MANNERS.map(Understanding::start);
        let site = Site::new();
        let server = serve(&site, &origins);
        let everything: Vec<Understood> = std::thread::scope(|scope| {
            let threads: Vec<_> = origins
                .iter()
                .enumerate()
                .map(|(number, origin)| {
                    let port = server.port(PORTS[number][way]);
                    let seed = 1 + (number * 2 + way) as u64;
                    scope.spawn(move || trouble(port, origin, seed, count))
                })
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .flat_map(|seen| seen.expect("the mutants did no harm"))
                .collect()
        });
        let passed = everything.len() - 3 * count;
        println!("way {way}: {passed} requests of {} mutants", 3 * count);
        assert!(passed > count / 2, "most mutants are refused: {passed}");
        assert_as_logged(&site, &everything);
    }
}

/// Damages a text in one place.
fn damage_text(random: &mut Random, text: &mut String) {
    let mut at = random.below(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    match random.below(4) {
        0..3 => text.insert_str(at, random.choose::<&str>(PIECES)),
        _ => text.truncate(at),
    }
}

#[test]
fn mutants_by_http2_arrive_as_they_are_logged() {
    let origins = MANNERS.map(Understanding::start);
    let site = Site::new();
    let server = serve(&site, &origins);
    let mut random = Random::new(99);
    let cases = http2_cases::all();
    let mut everything = Vec::new();
    for number in 0..scale(1500, 50_000) {
        let case = random.choose(&cases);
        let own = |fields: &[(&'static str, &'static str)]| -> Vec<(String, String)> {
            let pairs = fields.iter();
            pairs
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect()
        };
        let mut fields = own(&case.fields);
        let mut data: Vec<String> = case.data.iter().map(ToString::to_string).collect();
        let mut trailers = case.trailers.as_deref().map(own);
        for _ in 0..=random.below(3) {
            let at = random.below(fields.len());
            match random.below(10) {
                0..2 => damage_text(&mut random, &mut fields[at].0),
                2..6 => damage_text(&mut random, &mut fields[at].1),
                6 => {
                    let others = own(&random.choose(&cases).fields);
                    fields.insert(at, random.choose(&others).clone());
                }
                7 if fields.len() > 1 => drop(fields.remove(at)),
                8 => data.push(random.choose(PIECES).to_string()),
                _ => trailers = Some(own(&[("x-smuggled", "1")])),
            }
        }
        let which = random.below(3);
        let port = server.port(PORTS[which][random.below(2)]);
        let mut client = http2::Client::open(port, &[]);
        let answered = send(&mut client, &fields, &data, trailers.as_deref());
        let marker = format!("/m{number}");
        let stream = client.get(&marker);
        let after = super::read(&mut client, stream);
        let why = || format!("{fields:?} {data:?} {trailers:?}: {answered}");
        let meant = [format!("200 GET {marker}"), String::new()];
        assert!(meant.contains(&after), "{}: {after}", why());
        let other = format!("/o{number}");
        assert_eq!(
            wire::get(port, &other).text(),
            format!("GET {other}"),
            "{}",
            why()
        );
        for one in understood(&origins[which]) {
            assert!(!one.text.starts_with("REFUSED"), "{one:?}: {}", why());
            everything.push(one);
        }
    }
    assert_as_logged(&site, &everything);
}
