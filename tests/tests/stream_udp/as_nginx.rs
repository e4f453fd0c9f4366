//! The same sessions with nginx and with Sealane: what clients get, what the access log says, and
//! what the error log.

use super::*;
use sealane_tests::comparison::nginx_version;
use sealane_tests::nginx_has_stream;
use std::collections::BTreeMap;

/// Every server, each with one thing to compare.
fn servers(origin: &Origin, second: &Origin, six: Option<&Origin>) -> String {
    let (a, b) = (origin.address, second.address);
    let six = six.map_or(String::new(), |six| {
        format!(
            "server {{ listen [::1]:%six% udp; proxy_pass {a}; }}
             server {{ listen 127.0.0.2:%to_six% udp; proxy_pass {}; }}",
            six.address
        )
    });
    format!(
        r#"
        log_format all '$remote_addr-$remote_port|$status|$bytes_sent|$bytes_received|$protocol|$remote_addr|'
            '$upstream_addr|$upstream_bytes_sent|$upstream_bytes_received|$server_addr|'
            '$server_port|$by_map|$limit_conn_status';
        access_log logs/stream.log all;
        map $protocol $by_map {{ UDP datagrams; default other; }}
        map $remote_addr $by_name {{ default {a}; }}
        limit_conn_zone $binary_remote_addr zone=all:1m;
        limit_conn_zone $server_port zone=few:1m;
        proxy_timeout 1500ms; proxy_buffer_size 64k;
        upstream dead {{ server 127.0.0.3:%dead%; server 127.0.0.4:%dead% backup; }}
        upstream unusable {{ server {a} down; }}
        upstream by_hash {{ hash $remote_addr; server {a}; server {b}; }}
        upstream by_ring {{ hash $remote_addr consistent; server {a}; server {b}; }}
        upstream fewest {{ least_conn; server {a}; server {b} backup; }}
        upstream in_turn {{ zone z 64k; server {a}; }}
        server {{ listen 127.0.0.2:%plain% udp; proxy_pass {a}; }}
        server {{ listen 127.0.0.2:%none% udp; proxy_pass {a}; proxy_responses 0; }}
        server {{ listen 127.0.0.2:%one% udp; proxy_pass {a}; proxy_responses 1; }}
        server {{ listen 127.0.0.2:%two% udp; proxy_pass {a}; proxy_responses 2; }}
        server {{ listen 127.0.0.2:%most% udp; proxy_pass {a}; proxy_responses 2147483647; }}
        server {{ listen 127.0.0.2:%single% udp; proxy_pass {a}; proxy_requests 1; }}
        server {{ listen 127.0.0.2:%double% udp; proxy_pass {a}; proxy_requests 2; }}
        server {{ listen 127.0.0.2:%answered% udp; proxy_pass {a}; proxy_requests 1; proxy_responses 1; }}
        server {{ listen 127.0.0.2:%pairs% udp; proxy_pass {a}; proxy_requests 2; proxy_responses 1; }}
        server {{ listen 127.0.0.2:%sent% udp; proxy_pass {a}; proxy_requests 2; proxy_responses 0; }}
        server {{ listen 127.0.0.2:%nobody% udp; proxy_pass 127.0.0.3:%dead%; proxy_responses 1; }}
        server {{ listen 127.0.0.2:%nobody_counts% udp; proxy_pass 127.0.0.3:%dead%; }}
        server {{ listen 127.0.0.2:%backup% udp; proxy_pass dead; }}
        server {{ listen 127.0.0.2:%unusable% udp; proxy_pass unusable; }}
        server {{ listen 127.0.0.2:%hash% udp; proxy_pass by_hash; }}
        server {{ listen 127.0.0.2:%ring% udp; proxy_pass by_ring; proxy_responses 1; }}
        server {{ listen 127.0.0.2:%fewest% udp; proxy_pass fewest; }}
        server {{ listen 127.0.0.2:%turn% udp; proxy_pass in_turn; proxy_responses 1; }}
        server {{ listen 127.0.0.2:%by_name% udp; proxy_pass $by_name; }}
        server {{ listen 127.0.0.2:%from% udp; proxy_pass {a}; proxy_bind 127.0.0.5; }}
        server {{ listen 127.0.0.2:%unbound% udp; proxy_pass {a}; proxy_bind 192.0.2.1; }}
        server {{ listen 127.0.0.2:%status% udp; set $before $status; return "$before $status"; }}
        server {{ listen 127.0.0.2:%text_header% udp; proxy_pass {a}; proxy_protocol on; }}
        server {{ listen 127.0.0.2:%tls% udp; proxy_pass {a}; proxy_ssl on; }}
        server {{ listen 127.0.0.2:%preread% udp; proxy_pass {a}; ssl_preread on; }}
        server {{ listen 127.0.0.2:%text% udp; return "to $remote_addr by $protocol\n"; }}
        server {{ listen 127.0.0.2:%silent% udp; return ""; }}
        server {{ listen 127.0.0.2:%denied% udp; deny 127.0.0.1; return no; }}
        server {{ listen 127.0.0.2:%allowed% udp; allow 127.0.0.0/8; deny all; proxy_pass {a}; }}
        server {{ listen 127.0.0.2:%counted% udp; limit_conn all 1000; proxy_pass {a}; }}
        server {{ listen 127.0.0.2:%limited% udp; limit_conn few 1; proxy_requests 1; proxy_pass {a}; }}
        server {{ listen 127.0.0.2:%set% udp; set $a $by_map; set $b "$a-$protocol"; return $b; }}
        server {{ listen 127.0.0.2:%passed% udp; pass 127.0.0.1:%up%; }}
        server {{ listen 127.0.0.2:%named% udp; server_name a; return a; }}
        server {{ listen 127.0.0.2:%named% udp; server_name b; return b; }}
        server {{ listen 127.0.0.2:%both% udp; return datagram; }}
        server {{ listen 127.0.0.2:%both%; return connection; }}
        server {{ listen 127.0.0.2:%late% udp; proxy_pass {a}; proxy_download_rate 3000; }}
        server {{ listen 127.0.0.2:%early% udp; proxy_pass {a}; proxy_upload_rate 3000; }}
        {six}
        "#
    )
}

/// Servers where sessions have nothing to do with each other.
const PORTS: [&str; 40] = [
    "plain",
    "none",
    "one",
    "two",
    "most",
    "single",
    "double",
    "answered",
    "pairs",
    "sent",
    "nobody",
    "nobody_counts",
    "unusable",
    "hash",
    "ring",
    "fewest",
    "turn",
    "by_name",
    "from",
    "unbound",
    "status",
    "text_header",
    "tls",
    "preread",
    "text",
    "silent",
    "denied",
    "allowed",
    "counted",
    "set",
    "passed",
    "named",
    "both",
    "late",
    "early",
    "backup",
    "plain",
    "answered",
    "one",
    "six",
];

/// What a client does: sends a datagram, and waits for so many.
struct Script {
    name: &'static str,
    steps: Vec<(Vec<u8>, usize)>,
}

fn scripts() -> Vec<Script> {
    let script = |name, steps: &[(&[u8], usize)]| {
        let steps = steps.iter().map(|(text, count)| (text.to_vec(), *count));
        let steps = steps.collect();
        Script { name, steps }
    };
    let large = [b"x".repeat(60_000), b"long 60000".to_vec()];
    vec![
        script("one", &[(b"hello", 1)]),
        script("an empty one", &[(b"", 1)]),
        script("three in turn", &[(b"a", 1), (b"b", 1), (b"c", 1)]),
        script("no answer", &[(b"none", 0)]),
        script("no answer, then one", &[(b"none", 0), (b"a", 1)]),
        script("two answers", &[(b"two", 2)]),
        script("an empty answer", &[(b"empty", 1)]),
        script("who", &[(b"who", 1)]),
        script("a large one", &[(&large[0], 1)]),
        script("a long answer", &[(b"long 9000", 1)]),
        script("many answers", &[(b"many 3", 3)]),
    ]
}

/// What a client gets.
fn run(script: &Script, to: SocketAddr) -> (Client, String) {
    let client = Client::at(if to.is_ipv6() { "::1" } else { "127.0.0.1" });
    let mut seen = String::new();
    for (datagram, count) in &script.steps {
        client.send(to, datagram);
        let mut got = 0;
        // One more than expected would be seen.
        while got <= *count {
            let time = match got < *count {
                true => QUIET,
                false => Duration::from_millis(50),
            };
            let Some((from, text)) = client.receive_within(time) else {
                break;
            };
            got += 1;
            assert_eq!(from, to, "it comes from where the client has sent to");
            let text = match text.len() {
                0..=300 => text.escape_ascii().to_string(),
                length => format!("{length} bytes, the last {}", text[length - 1]),
            };
            seen.push_str(&format!("[{text}] "));
        }
        seen.push_str("| ");
    }
    (client, seen)
}

/// Digits of ports differ, also in a PROXY header as the origin shows it.
fn without_ports(text: &str, ports: &[(u16, &str)]) -> String {
    let hexadecimal = |port: u16| {
        let digits = port.to_string();
        let bytes = digits.bytes().map(|digit| format!("{digit:02x}"));
        bytes.collect::<String>()
    };
    ports.iter().fold(text.to_owned(), |text, (port, name)| {
        let text = text.replace(&hexadecimal(*port), name);
        text.replace(&port.to_string(), name)
    })
}

/// What all clients see at all servers, with the lines of the access log.
fn seen(
    program: Program,
    origins: (&Origin, &Origin, Option<&Origin>),
) -> BTreeMap<String, String> {
    let site = Site::new();
    let text = configuration(1, &servers(origins.0, origins.1, origins.2));
    let server = Server::start(&site, program, &text);
    server.expect_alert("bind(192.0.2.1) failed (99: ");
    let scripts = scripts();
    let mut work: Vec<(usize, &str, &Script)> = Vec::new();
    for (number, port) in PORTS.iter().enumerate() {
        if *port == "six" && origins.2.is_none() {
            continue;
        }
        // What comes after the last response that is expected arrives by chance.
        let ends = ["one", "answered", "pairs", "turn", "ring", "two", "nobody"].contains(port);
        let scripts = scripts.iter();
        let scripts = scripts.filter(|script| !(ends && script.steps.iter().any(|it| it.1 > 1)));
        work.extend(scripts.map(|script| (number, *port, script)));
    }
    let work = Mutex::new(work.into_iter());
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                loop {
                    let Some((number, port, script)) = work.lock().expect("no panic").next() else {
                        return;
                    };
                    let to: SocketAddr = match port {
                        "six" => ([0, 0, 0, 0, 0, 0, 0, 1], server.port(port)).into(),
                        _ => here(&server, port),
                    };
                    let (client, text) = run(script, to);
                    let what = format!("{port} {number}: {}", script.name);
                    found.lock().expect("no panic").push((client, what, text));
                }
            });
        }
    });
    // Every session ends by its time-out at the latest.
    let found = found.into_inner().expect("no panic");
    let mut before = String::new();
    wait_for("the last session", || {
        thread::sleep(Duration::from_millis(2000));
        let log = std::fs::read_to_string(site.path("logs/stream.log")).ok()?;
        let is_last = log == before;
        before = log;
        is_last.then_some(())
    });
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Without who has looked whether the server has started.
    for line in before.lines().filter(|line| line.contains("|UDP|")) {
        let (port, rest) = line.split_once('|').expect("the format begins with it");
        lines
            .entry(port.to_owned())
            .or_default()
            .push(rest.to_owned());
    }
    let dead = site.port("dead");
    let mut seen = BTreeMap::new();
    for (client, what, text) in found {
        let address = client.socket.local_addr().expect("it is bound");
        let own = address.port();
        let name = what.split(' ').next().unwrap_or_default().to_owned();
        let ports = [
            (own, "OWN"),
            (site.port(&name), "SERVER"),
            (dead, "DEAD"),
            (origins.0.address.port(), "A"),
            (origins.1.address.port(), "B"),
        ];
        let mut lines = lines
            .remove(&format!("{}-{own}", address.ip()))
            .unwrap_or_default();
        // Sessions of one client may end at the same time.
        lines.sort();
        let tag = format!("{:06}", client.number);
        let tag = tag.bytes().map(|digit| format!("{digit:02x}"));
        let text = text.replace(&tag.collect::<String>(), "TAG");
        let all = format!("{text}\n      {}", lines.join("\n      "));
        seen.insert(what, without_ports(&all, &ports));
    }
    drop(server);
    seen
}

#[test]
fn sessions_are_those_of_nginx() {
    if !nginx_has_stream() {
        return sealane_needs::leave_out("this nginx has no \"stream\" to compare with");
    }
    let (first, second) = (Origin::new(), Origin::new());
    let has_six = UdpSocket::bind("[::1]:0").is_ok();
    let six = has_six.then(|| Origin::at("::1"));
    let origins = (&first, &second, six.as_ref());
    let compare = || {
        let (ours, theirs) = (
            seen(Program::Sealane, origins),
            seen(Program::Nginx, origins),
        );
        assert!(ours.len() > 300, "{} sessions", ours.len());
        let differing = ours.iter().filter_map(|(what, text)| {
            let other = theirs.get(what).map_or("", String::as_str);
            (text != other).then(|| format!("{what}\n  ours  {text}\n  nginx {other}"))
        });
        differing.collect::<Vec<_>>()
    };
    // A machine that is busy may take longer than the time-outs, once.
    let mut differing = compare();
    if !differing.is_empty() {
        differing = compare();
    }
    assert!(
        differing.is_empty(),
        "{} differ\n{}",
        differing.len(),
        differing.join("\n")
    );
}

/// One after the other: what is said about each session.
fn log_lines(program: Program, origin: &Origin) -> Vec<String> {
    let site = Site::new();
    let a = origin.address;
    let text = configuration(
        1,
        &format!(
            "server {{ listen 127.0.0.2:%one% udp; proxy_pass {a}; proxy_responses 1; }}
             server {{ listen 127.0.0.2:%timed% udp; proxy_pass {a}; proxy_timeout 200ms; }}
             server {{ listen 127.0.0.2:%silent% udp; proxy_pass {a}; proxy_timeout 200ms; proxy_responses 1; }}
             server {{ listen 127.0.0.2:%nobody% udp; proxy_pass 127.0.0.3:%dead%; proxy_responses 1; }}
             server {{ listen 127.0.0.2:%denied% udp; deny all; return no; }}
             server {{ listen 127.0.0.2:%limited% udp; limit_conn few 1; proxy_timeout 200ms; proxy_pass {a}; }}
             server {{ listen 127.0.0.2:%unusable% udp; proxy_pass unusable; }}
             server {{ listen 127.0.0.2:%passed% udp; pass 127.0.0.1:%up%; }}
             upstream unusable {{ server 127.0.0.3:%dead% down; }}
             limit_conn_zone $server_port zone=few:1m;"
        ),
    );
    let server = Server::start(&site, program, &text);
    let mut ports = vec![(a.port(), "A"), (site.port("dead"), "DEAD")];
    let mut clients = Vec::new();
    for (port, datagram, ends) in [
        ("one", "hello", "udp done, packets from/to client:1/1"),
        (
            "timed",
            "hello",
            "udp timed out, packets from/to client:1/1",
        ),
        ("silent", "none", "upstream timed out (110"),
        (
            "nobody",
            "hello",
            "udp done, packets from/to client:1/1, bytes from/to client:13/0",
        ),
        ("denied", "hello", "access forbidden by rule"),
        ("unusable", "hello", "no live upstreams"),
        ("passed", "hello", "cannot pass udp connection"),
    ] {
        let before = server.error_log().matches(ends).count();
        let client = Client::new();
        client.send(here(&server, port), datagram.as_bytes());
        wait_for(&format!("{ends:?} in the log of {program:?}"), || {
            (server.error_log().matches(ends).count() > before).then_some(())
        });
        ports.push((site.port(port), "SERVER"));
        ports.push((client.socket.local_addr().expect("bound").port(), "OWN"));
        clients.push(client);
    }
    let log = server.error_log();
    let lines = log.lines().filter(|line| line.contains("udp"));
    let lines = lines.map(|line| {
        // What it sends from is its own choice.
        let own = line.split_once("proxy 127.0.0.1:");
        let own = own.and_then(|(_, rest)| rest.split_once(' ')?.0.parse().ok());
        let own: Vec<_> = own.map(|port: u16| (port, "LOCAL")).into_iter().collect();
        let line = &*without_ports(line, &own);
        // Without time, process and number of the connection.
        let line = line.split_once("] ").map_or(line, |(_, rest)| rest);
        let line = line.split_once('*').map_or(line, |(_, rest)| rest);
        let line = line.split_once(' ').map_or(line, |(_, rest)| rest);
        without_ports(line, &ports)
    });
    lines.collect()
}

#[test]
fn log_lines_are_those_of_nginx() {
    if !nginx_has_stream() {
        return sealane_needs::leave_out("this nginx has no \"stream\" to compare with");
    }
    let origin = Origin::new();
    let ours = log_lines(Program::Sealane, &origin);
    assert!(ours.len() >= 10, "{ours:#?}");
    assert_eq!(ours, log_lines(Program::Nginx, &origin));
}

/// What a server is told of a client in a PROXY header of version 2, up to the checksum.
fn told(program: Program) -> Vec<Vec<u8>> {
    let origin = UdpSocket::bind("127.0.0.3:0").expect("a free port");
    origin.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let to = origin.local_addr().expect("it is bound");
    let has_six = UdpSocket::bind("[::1]:0").is_ok();
    let six = match has_six {
        true => format!("server {{ listen [::1]:%six% udp; proxy_pass {to}; proxy_protocol v2; }}"),
        false => String::new(),
    };
    let text = format!(
        "server {{ listen 127.0.0.2:%four% udp; proxy_pass {to}; proxy_protocol v2; }} {six}"
    );
    let site = Site::new();
    let server = Server::start(&site, program, &configuration(1, &text));
    let mut addresses = vec![here(&server, "four")];
    if has_six {
        addresses.push(([0, 0, 0, 0, 0, 0, 0, 1], server.port("six")).into());
    }
    let heads = addresses.into_iter().map(|address| {
        let own = if address.is_ipv6() {
            "[::1]:0"
        } else {
            "127.0.0.1:0"
        };
        let client = UdpSocket::bind(own).expect("a free port");
        client.send_to(b"hello", address).expect("it is taken");
        let mut got = [0; 128];
        // Who has looked whether it listens has sent other datagrams, if any.
        let got = loop {
            let (count, _) = origin.recv_from(&mut got).expect("it comes");
            if got[..count].ends_with(b"hello") {
                break &got[..count];
            }
        };
        let own = client.local_addr().expect("it is bound").port();
        // Ports differ, and with them the checksum.
        let end = got.len() - b"hello".len() - 4;
        let ports = end - 3 - 4;
        assert_eq!(got[ports..ports + 2], own.to_be_bytes());
        assert_eq!(got[ports + 2..ports + 4], address.port().to_be_bytes());
        [&got[..ports], &got[ports + 4..end]].concat()
    });
    heads.collect()
}

#[test]
fn servers_are_told_that_datagrams_come() {
    let ours = told(Program::Sealane);
    let families: Vec<u8> = ours.iter().map(|head| head[13]).collect();
    assert!([0x12, 0x22].starts_with(&families), "{families:x?}");
    if !nginx_has_stream() || nginx_version() < (1, 31, 0) {
        return sealane_needs::leave_out("nginx 1.31 with \"stream\" to compare with");
    }
    assert_eq!(ours, told(Program::Nginx));
}
