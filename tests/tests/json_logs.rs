//! `log_format escape=json`: byte for byte what nginx writes, and the example, whose every line is
//! JSON whatever clients send.

use sealane_tests::random::Random;
use sealane_tests::{Program, Server, Site, command, repository, scale, wait_for, wire};
use std::collections::BTreeSet;

/// What a client says of itself, in fields, arguments and cookies.
const FORMAT: &str = r#"log_format json escape=json
    '{"request":"$request","uri":"$request_uri","path":"$uri","args":"$args","one":"$arg_a",'
    '"agent":"$http_user_agent","referer":"$http_referer","other":"$http_x_other",'
    '"cookie":"$cookie_c","user":"$remote_user","host":"$host","missing":"$arg_none",'
    '"set":"$decoded","status":$status}';"#;

/// Bytes that a field of a request may have, the worst of them often.
fn value(random: &mut Random) -> Vec<u8> {
    const WORST: &[u8] = b"\"\\/\x01\x08\x09\x0c\x1f\x7f\x80\xc3\xa9\xff\xe2\x80\xa8{}<'u";
    let length = random.next_u64() as usize % 24;
    let byte = |random: &mut Random| match random.next_u64() % 3 {
        0 => b'a' + (random.next_u64() % 26) as u8,
        1 => WORST[random.next_u64() as usize % WORST.len()],
        _ => random.next_u64() as u8,
    };
    let bytes = (0..length).map(|_| byte(random));
    bytes.filter(|byte| !b"\0\r\n".contains(byte)).collect()
}

/// The bytes as an argument: some as they are, some escaped.
fn argument(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in value(random) {
        let is_plain = byte.is_ascii_graphic() && !b"%&#".contains(&byte);
        match is_plain && random.next_u64().is_multiple_of(2) {
            true => out.push(byte),
            false => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
        }
    }
    out
}

fn request(random: &mut Random) -> Vec<u8> {
    let mut out = b"GET /p".to_vec();
    out.extend(argument(random));
    out.extend_from_slice(b"?a=");
    out.extend(argument(random));
    out.extend_from_slice(b" HTTP/1.1\r\nHost: one.test\r\n");
    for name in ["User-Agent", "Referer", "X-Other"] {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        // White space around a value is no part of it (RFC 9110 section 5.5); nginx keeps tabs.
        out.extend_from_slice(value(random).trim_ascii());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"Cookie: c=");
    out.extend_from_slice(value(random).trim_ascii_end());
    out.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    out
}

/// Sends requests one after the other; the lines that are logged, as they are.
fn lines(server: &Server<'_>, log: &std::path::Path, requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    for request in requests {
        let mut connection = wire::Connection::open(server.port("plain"));
        connection.send(request);
        connection.rest();
    }
    wait_for("a line for each request", || {
        let log = std::fs::read(log).unwrap_or_default();
        let lines: Vec<Vec<u8>> = log
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        (lines.len() >= requests.len()).then_some(lines)
    })
}

#[test]
fn hostile_values_are_escaped_as_nginx_escapes_them() {
    let site = Site::new();
    let mut random = Random::new(20);
    let requests: Vec<Vec<u8>> = (0..scale(300, 20_000))
        .map(|_| request(&mut random))
        .collect();
    let configuration = |name: &str| {
        format!(
            "daemon off; error_log logs/error.log crit; pid logs/{name}.pid;
             events {{}} http {{ {FORMAT} access_log logs/{name}.json json;
             server {{ listen 127.0.0.1:%plain%; server_name one.test;
                 set $decoded \"\"; if ($uri ~ \"^/p(.*)\") {{ set $decoded $1; }}
                 return 204; }} }}"
        )
    };
    let of = |program, name: &str| {
        let text = configuration(name).replace("daemon off;", "");
        let server = Server::start(&site, program, &text);
        lines(&server, &site.path(format!("logs/{name}.json")), &requests)
    };
    let nginx = of(Program::Nginx, "nginx");
    let ours = of(Program::Sealane, "sealane");
    for ((request, nginx), ours) in requests.iter().zip(&nginx).zip(&ours) {
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert_eq!(shown(ours), shown(nginx), "{}", shown(request));
    }
    // Each of them was there: short escapes, long ones, and bytes as they are.
    let all = ours.concat();
    for part in [
        &b"\\\""[..],
        b"\\\\",
        b"\\b",
        b"\\t",
        b"\\f",
        b"\\u0001",
        b"\\u001F",
        b"\x80",
    ] {
        assert!(memchr(&all, part), "{}", part.escape_ascii());
    }
}

fn memchr(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn every_line_of_the_example_is_json() {
    let site = Site::new();
    let script = repository().join("scripts/make-certificates.sh");
    let certificates = site.path("certificates");
    command("bash", &[&script, &certificates], b"").success();
    let example = repository().join("examples/logs/nginx.conf");
    let text = std::fs::read_to_string(example).expect("part of the repository");
    let text = text
        .replace("/etc/ssl/example.pem", "certificates/ecdsa.pem")
        .replace("/etc/ssl/example.key", "certificates/ecdsa.key")
        .replace("listen 8080", "listen 127.0.0.1:%plain%")
        .replace("listen 8443", "listen 127.0.0.1:%tls%");
    let server = site.serve_whole(&text);
    let mut random = Random::new(21);
    let mut requests: Vec<Vec<u8>> = (0..100).map(|_| request(&mut random)).collect();
    // What is not understood, and what is hardly a request.
    requests.push(b"GET /old\r\n".to_vec());
    requests.push(b"NO\x01SUCH\xff\"\\ THING\r\n\r\n".to_vec());
    requests.push(b"\x16\x03\x01\x00\"}\r\n\r\n".to_vec());
    requests.push(b"GET / HTTP/1.1\r\nHost: \"\\\r\n\r\n".to_vec());
    let log = site.path("logs/access.json");
    lines(&server, &log, &requests);
    for path in ["/one", "/two"] {
        let url = format!("https://127.0.0.1:{}{path}", server.port("tls"));
        command(
            "curl",
            &["-sk", "--tls-max", "1.2", "-A", "\u{201c}\"", &url],
            b"",
        )
        .success();
    }
    let lines = wait_for("the lines", || {
        let log = std::fs::read(&log).unwrap_or_default();
        let count = log.iter().filter(|byte| **byte == b'\n').count();
        (count >= requests.len() + 2).then_some(log)
    });
    let mut states = BTreeSet::new();
    for line in String::from_utf8_lossy(&lines).lines() {
        let line: serde_json::Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{error}: {}", line.escape_debug()));
        assert_eq!(line["client"], "127.0.0.1");
        assert!(
            line["request_time"].is_number() && line["connection"].is_u64(),
            "{line}"
        );
        if line["scheme"] == "https" {
            assert_eq!(line["ssl_protocol"], "TLSv1.2");
            assert_eq!(line["user_agent"], "\u{201c}\"");
            states.insert(line["ssl_ktls"].to_string());
        }
    }
    // Whatever this kernel can do, it is said.
    assert_eq!(states.len(), 1, "{states:?}");
    assert!(!states.contains("\"\""));
    // A reader that others use.
    let program = "import json, sys\nfor line in sys.stdin.buffer:\n    json.loads(line.decode(errors='replace'))\n";
    command("/usr/bin/python3", &["-c", program], &lines).success();
}
