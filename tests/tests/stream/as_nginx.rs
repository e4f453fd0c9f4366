//! The same sessions with nginx and with Sealane: what clients get, what servers get, and what the
//! access log says.

use super::*;
use sealane_tests::comparison::assert_as_nginx;
use sealane_tests::{client_hello, nginx_has_stream};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Every server, each with one thing to compare.
fn servers(origins: &Origins) -> String {
    let Origins {
        echo,
        greeting,
        closing,
        reporting,
    } = origins;
    let (echo, greeting) = (echo.port, greeting.port);
    let (closing, reporting) = (closing.port, reporting.port);
    format!(
        r#"
        log_format all '$realip_remote_port $server_port|$status|$bytes_sent|$bytes_received|$protocol|'
            '$remote_addr|$realip_remote_addr|$upstream_addr|$upstream_bytes_sent|'
            '$upstream_bytes_received|$proxy_protocol_addr|$proxy_protocol_port|$server_name|'
            '$ssl_preread_protocol|$ssl_preread_server_name|$ssl_preread_alpn_protocols|$by_map|'
            '$by_geo|$by_share|$limit_conn_status|$ssl_protocol|$server_addr';
        access_log logs/stream.log all;
        map $server_port$ssl_preread_server_name $by_map {{
            hostnames; volatile; default none; ~^(?<digits>\d+)$ "port"; ~example (x)$1; }}
        geo $by_geo {{ default far; 127.0.0.0/8 near; 192.0.2.0/24 test; }}
        split_clients $remote_addr $by_share {{ 50%% a; * b; }}
        map $ssl_preread_server_name $by_name {{ default 127.0.0.1:{echo}; to.greeting 127.0.0.1:{greeting};
            to.dead 127.0.0.1:%dead%; to.block behind; to.nothing ""; to.host nowhere; to.bad "a b:1"; }}
        upstream behind {{ hash $by_geo; server 127.0.0.1:%dead% max_fails=0; server 127.0.0.1:{echo}; }}
        upstream dead {{ hash $by_geo; server 127.0.0.1:%dead% max_fails=0; server 127.0.0.2:%dead% max_fails=0; }}
        upstream by_hash {{ hash $remote_addr; server 127.0.0.1:{echo}; server 127.0.0.1:{greeting}; }}
        upstream by_ring {{ hash $by_geo consistent; server 127.0.0.1:{echo}; server 127.0.0.1:{greeting}; }}
        upstream backup {{ server 127.0.0.1:%dead% max_fails=0; server 127.0.0.1:{echo} backup; }}
        upstream fewest {{ least_conn; zone z 64k; server 127.0.0.1:{echo}; }}
        upstream down {{ server 127.0.0.1:{greeting} down; server 127.0.0.1:{echo}; }}
        limit_conn_zone $binary_remote_addr zone=all:1m;
        server {{ listen 127.0.0.1:%echo%; proxy_pass 127.0.0.1:{echo}; }}
        server {{ listen 127.0.0.1:%greeting%; proxy_pass 127.0.0.1:{greeting}; }}
        server {{ listen 127.0.0.1:%closing%; proxy_pass 127.0.0.1:{closing}; }}
        server {{ listen 127.0.0.1:%next%; proxy_pass behind; }}
        server {{ listen 127.0.0.1:%nowhere%; proxy_pass dead; }}
        server {{ listen 127.0.0.1:%once%; proxy_pass dead; proxy_next_upstream off; }}
        server {{ listen 127.0.0.1:%one%; proxy_pass dead; proxy_next_upstream_tries 1; }}
        server {{ listen 127.0.0.1:%hash%; proxy_pass by_hash; }}
        server {{ listen 127.0.0.1:%ring%; proxy_pass by_ring; }}
        server {{ listen 127.0.0.1:%backup%; proxy_pass backup; }}
        server {{ listen 127.0.0.1:%fewest%; proxy_pass fewest; }}
        server {{ listen 127.0.0.1:%down%; proxy_pass down; }}
        server {{ listen 127.0.0.1:%half%; proxy_pass 127.0.0.1:{echo}; proxy_half_close on; }}
        server {{ listen 127.0.0.1:%text_header%; proxy_pass 127.0.0.1:{reporting}; proxy_protocol on; }}
        server {{ listen 127.0.0.1:%binary_header%; proxy_pass 127.0.0.1:{reporting}; proxy_protocol v2; }}
        server {{ listen 127.0.0.1:%from%; proxy_pass 127.0.0.1:{echo}; proxy_bind 127.0.0.3; }}
        server {{ listen 127.0.0.1:%unbound%; proxy_pass behind; proxy_bind 192.0.2.1; }}
        server {{ listen 127.0.0.1:%family%; proxy_pass behind; proxy_bind ::1; }}
        server {{ listen 127.0.0.1:%status%; set $before $status; return "$before $status\n"; }}
        server {{ listen 127.0.0.1:%text%; return "to $remote_addr by $protocol at $by_geo\n"; }}
        server {{ listen 127.0.0.1:%empty%; return ""; }}
        server {{ listen 127.0.0.1:%denied%; deny 127.0.0.1; return no; }}
        server {{ listen 127.0.0.1:%allowed%; allow 127.0.0.0/8; deny all; proxy_pass 127.0.0.1:{echo}; }}
        server {{ listen 127.0.0.1:%counted%; limit_conn all 100; proxy_pass 127.0.0.1:{echo}; }}
        server {{ listen 127.0.0.1:%preread%; ssl_preread on; proxy_pass $by_name; }}
        server {{ listen 127.0.0.1:%short%; ssl_preread on; preread_buffer_size 128;
                  proxy_pass 127.0.0.1:{echo}; }}
        server {{ listen 127.0.0.1:%names%; ssl_preread on; server_name first;
                  proxy_pass 127.0.0.1:{echo}; }}
        server {{ listen 127.0.0.1:%names%; server_name to.greeting; proxy_pass 127.0.0.1:{greeting}; }}
        server {{ listen 127.0.0.1:%names%; server_name *.wild.example; return "wild $server_name\n"; }}
        server {{ listen 127.0.0.1:%names%; server_name "~^(?<word>[a-z]+)\.re\.example$"; return "re $word\n"; }}
        server {{ listen 127.0.0.1:%told% proxy_protocol;
                  proxy_pass 127.0.0.1:{echo}; }}
        server {{ listen 127.0.0.1:%trusted% proxy_protocol;
                  set_real_ip_from 127.0.0.1; deny 192.0.2.66; proxy_protocol on;
                  proxy_pass 127.0.0.1:{reporting}; }}
        server {{ listen 127.0.0.1:%set%; set $a $by_geo; set $b "$a-$by_map"; return "$a $b\n"; }}
        server {{ listen 127.0.0.1:%passed%; pass 127.0.0.1:%text%; }}
        server {{ listen 127.0.0.1:%circle%; pass 127.0.0.1:%circle%; }}
        server {{ listen 127.0.0.1:%lost%; pass 127.0.0.1:%dead%; }}
        server {{ listen 127.0.0.1:%bare%; }}
        server {{ listen 127.0.0.1:%idle%; proxy_timeout 400ms; proxy_pass 127.0.0.1:{echo}; }}
        server {{ listen 127.0.0.1:%late_hello%; ssl_preread on; preread_timeout 300ms;
                  proxy_pass 127.0.0.1:{greeting}; }}
        server {{ listen 127.0.0.1:%late_header% proxy_protocol; proxy_protocol_timeout 300ms; return no; }}
        "#
    )
}

/// What all clients come to.
const PORTS: [&str; 37] = [
    "echo",
    "greeting",
    "next",
    "nowhere",
    "once",
    "one",
    "hash",
    "ring",
    "backup",
    "fewest",
    "down",
    "half",
    "text_header",
    "binary_header",
    "from",
    "unbound",
    "family",
    "status",
    "text",
    "empty",
    "denied",
    "allowed",
    "counted",
    "preread",
    "short",
    "names",
    "told",
    "trusted",
    "set",
    "passed",
    "circle",
    "lost",
    "bare",
    "echo",
    "preread",
    "names",
    "trusted",
];

/// What ends a session, or goes on with it, because a client is slow: only for those that say
/// nothing, or too little. Any other could be too slow by chance.
const LATE_PORTS: [&str; 3] = ["idle", "late_hello", "late_header"];

struct Origins {
    echo: Origin,
    /// Speaks first.
    greeting: Origin,
    /// Closes at once.
    closing: Origin,
    /// Sends back what it has got, in hexadecimal digits, once a second passes without more.
    reporting: Origin,
}

impl Origins {
    fn new() -> Origins {
        Origins {
            echo: Origin::echo(),
            greeting: Origin::doing(|mut socket| {
                let _ = socket.write_all(b"welcome\n");
                echo(socket);
            }),
            closing: Origin::doing(drop),
            reporting: Origin::doing(|mut socket| {
                let (mut got, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = socket.read(&mut piece) {
                    got.extend_from_slice(&piece[..count]);
                    let pause = Some(Duration::from_secs(1));
                    socket.set_read_timeout(pause).expect("not zero");
                }
                let digits: String = got.iter().map(|byte| format!("{byte:02x}")).collect();
                let _ = socket.write_all(digits.as_bytes());
            }),
        }
    }
}

/// What a client does: sends pieces, waits for an answer, stops sending, and reads to the end.
#[derive(Clone)]
struct Client {
    name: String,
    pieces: Vec<Vec<u8>>,
}

fn client(name: &str, pieces: &[&[u8]]) -> Client {
    let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
    let name = name.to_owned();
    Client { name, pieces }
}

/// A PROXY header of version 2 for a client at 192.0.2.7.
const HEADER_V2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x08\x12\x34\x01\xbb";

fn clients() -> Vec<Client> {
    let hello = |name: &str, options: &str| client_hello(name, options);
    let alpn = hello("to.greeting", "-alpn h2,http/1.1");
    let bytes: Vec<[u8; 1]> = alpn.iter().map(|byte| [*byte]).collect();
    let single: Vec<&[u8]> = bytes.iter().map(|byte| &byte[..]).collect();
    let old = hello("to.block", "-tls1_2");
    let large = vec![b'x'; 100_000];
    let mut all = vec![
        client("says hello", &[b"hello\n"]),
        client("says nothing", &[]),
        client("sends much", &[&large]),
        client("TLS", &[&alpn]),
        client("TLS in bytes", &single),
        client("TLS 1.2", &[&old]),
        client("half a hello", &[&alpn[..50]]),
        client("no hello", &[b"\x16\x03\x01\0\x04\x02\0\0\0", b"more"]),
        client(
            "header 1",
            &[b"PROXY TCP4 192.0.2.7 192.0.2.8 4660 443\r\nhello\n"],
        ),
        client("header 2", &[HEADER_V2, b"hello\n"]),
        client("header of nobody", &[b"PROXY UNKNOWN\r\nhello\n"]),
        client(
            "header of one denied",
            &[b"PROXY TCP4 192.0.2.66 192.0.2.8 1 2\r\nhello\n"],
        ),
        client("broken header", &[b"PROXY TCP4 192.0.2.7\r\nhello\n"]),
        client("zeros", &[&[0; 40]]),
    ];
    for name in [
        "to.dead",
        "to.block",
        "to.nothing",
        "to.host",
        "to.bad",
        "a.wild.example",
        "word.re.example",
        "TO.Greeting",
        "unknown.example",
    ] {
        all.push(client(name, &[&hello(name, "-quiet")]));
    }
    all
}

/// Whether something will come, or the session will end, if the client only waits for it.
fn is_worth_waiting(name: &str, client: &Client) -> bool {
    match name {
        "text_header" | "binary_header" => true,
        "trusted" => !client.pieces.is_empty(),
        name => LATE_PORTS.contains(&name),
    }
}

/// What a client sees: what it gets, and how it ends.
fn run(name: &str, client: &Client, port: u16) -> (u16, String) {
    let mut socket = connect(port);
    let own = socket.local_addr().expect("it is connected").port();
    let mut got = Vec::new();
    let mut ended = "";
    for piece in &client.pieces {
        if socket.write_all(piece).is_err() {
            break;
        }
        if client.pieces.len() > 1 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    // The answer, as long as more of it comes.
    let sent: usize = client.pieces.iter().map(Vec::len).sum();
    let mut piece = [0; 65_536];
    let quiet = Some(Duration::from_secs(1));
    if !is_worth_waiting(name, client) {
        socket.set_read_timeout(quiet).expect("not zero");
    }
    loop {
        match socket.read(&mut piece) {
            Ok(0) => ended = "closed",
            Ok(count) => {
                socket.set_read_timeout(quiet).expect("not zero");
                got.extend_from_slice(&piece[..count]);
                // All that there can be, unless somebody has greeted.
                if got.len() < sent || got.len() > sent {
                    continue;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => ended = "closed",
        }
        break;
    }
    if ended.is_empty() {
        let _ = socket.shutdown(Shutdown::Write);
        let _ = socket.set_read_timeout(Some(PATIENCE));
        ended = loop {
            match socket.read(&mut piece) {
                Ok(0) => break "closed after us",
                Ok(count) => got.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break "open",
                Err(_) => break "closed after us",
            }
        };
    }
    (own, format!("{} {ended}", got.escape_ascii()))
}

/// Long texts by their length and sum.
fn shortened(text: String) -> String {
    match text.len() {
        0..=400 => text,
        length => format!("{length} characters, {:x}", crc(text.as_bytes())),
    }
}

/// Without ports and checksum of a PROXY header of version 2, as the reporting origin shows it.
fn without_numbers(text: String) -> String {
    const BEGIN: &str = "0d0a0d0a000d0a515549540a211100137f0000017f000001";
    match text.strip_prefix(BEGIN) {
        Some(rest) if rest.len() >= 22 => {
            format!("{BEGIN} ports {} sum {}", &rest[8..14], &rest[22..])
        }
        _ => text,
    }
}

/// A line without the bytes received if no server was reached: nginx may read from the client while
/// it connects, or may not.
pub(super) fn without_chance(line: &str) -> String {
    let mut fields: Vec<&str> = line.split('|').collect();
    if let ["502", _, received, ..] = &mut fields[..] {
        *received = "any";
    }
    fields.join("|")
}

pub(super) fn crc(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte))
}

/// What all clients see at all servers, with the line of the log.
fn seen(program: Program, origins: &Origins, clients: &[Client]) -> BTreeMap<String, String> {
    let site = Site::new();
    let server = Server::start(&site, program, &configuration(&servers(origins)));
    for refused in ["bind(192.0.2.1) failed (99: ", "bind(::1) failed (97: "] {
        server.expect_alert(refused);
    }
    let found = Mutex::new(Vec::new());
    let mut work: Vec<(&str, &Client)> = Vec::new();
    for port in PORTS {
        work.extend(clients.iter().map(|client| (port, client)));
    }
    for port in LATE_PORTS {
        let little = |client: &&Client| matches!(&client.name[..], "says nothing" | "half a hello");
        work.extend(clients.iter().filter(little).map(|client| (port, client)));
    }
    let work = Mutex::new(work.into_iter());
    thread::scope(|scope| {
        for _ in 0..48 {
            scope.spawn(|| {
                loop {
                    let Some((name, client)) = work.lock().expect("no panic").next() else {
                        return;
                    };
                    let (own, text) = run(name, client, server.port(name));
                    let both = format!("{own} {}", server.port(name));
                    let mut found = found.lock().expect("no panic");
                    found.push((both, format!("{name}: {}", client.name), text));
                }
            });
        }
    });
    let found = found.into_inner().expect("no panic");
    let _ = server.stop("QUIT");
    let lines = std::fs::read_to_string(site.path("logs/stream.log")).expect("there is a log");
    let mut by_port: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in lines.lines() {
        let (port, rest) = line.split_once('|').expect("the format begins with it");
        by_port.entry(port).or_default().push(rest);
    }
    let dead = site.port("dead").to_string();
    let mut seen = BTreeMap::new();
    for (own, what, text) in found {
        let line = by_port
            .get_mut(own.as_str())
            .filter(|lines| !lines.is_empty());
        let line = line.map_or("no line", |lines| lines.remove(0));
        let line = without_chance(line);
        // Numbers of ports that differ, also in a PROXY header.
        let client = own.split(' ').next().unwrap_or_default();
        let text = text
            .replace(&hexadecimal(client), "OWN")
            .replace(&dead, "DEAD");
        let text = PORTS.iter().fold(text, |text, name| {
            text.replace(&hexadecimal(&server_port(&site, name)), "SERVER")
        });
        seen.insert(
            what,
            format!(
                "{}\n      {}",
                shortened(without_numbers(text)),
                line.replace(&dead, "DEAD")
            ),
        );
    }
    seen
}

fn server_port(site: &Site, name: &str) -> String {
    site.port(name).to_string()
}

/// As the reporting origin shows it.
fn hexadecimal(digits: &str) -> String {
    digits.bytes().map(|digit| format!("{digit:02x}")).collect()
}

#[test]
fn sessions_are_those_of_nginx() {
    if !nginx_has_stream() {
        return sealane_needs::leave_out("this nginx has no \"stream\" to compare with");
    }
    let (origins, clients) = (Origins::new(), clients());
    let ours = seen(Program::Sealane, &origins, &clients);
    let theirs = seen(Program::Nginx, &origins, &clients);
    assert!(ours.len() > 200, "{} sessions", ours.len());
    assert_as_nginx(&ours, &theirs, |_| false);
}
