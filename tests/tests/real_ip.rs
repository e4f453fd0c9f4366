//! `set_real_ip_from`, `real_ip_header`, `real_ip_recursive`: who the client is, and where
//! that is seen.

use sealane_tests::origin::{Answer, Origin};
use sealane_tests::random::Random;
use sealane_tests::wire::{Connection, get, get_with};
use sealane_tests::{Certificate, CertificateKey, Site, command, scale, wait_for};

const TOLD: &str = r#"return 200 "$remote_addr $remote_port $realip_remote_addr";"#;

/// The client's address as a server with these directives sees it.
fn address(port: u16, headers: &str) -> String {
    let answer = get_with(port, "/", headers);
    assert_eq!(answer.status, 200, "{headers}");
    let text = answer.text();
    let mut words = text.split(' ');
    let address = words.next().unwrap_or_default().to_owned();
    let port = words.next().unwrap_or_default();
    assert_eq!(words.next(), Some("127.0.0.1"), "{text}");
    match address.as_str() {
        // Its own port, whatever it is.
        "127.0.0.1" => address,
        _ if port.is_empty() => address,
        _ => format!("{address} {port}"),
    }
}

#[test]
fn lists_are_read_from_their_end() {
    let site = Site::new();
    let server = site.serve(&format!(
        r#"
        set_real_ip_from 127.0.0.0/8;
        set_real_ip_from 10.1.0.0/16;
        set_real_ip_from fd00::/8;
        real_ip_header X-Forwarded-For;
        server {{ listen 127.0.0.1:%last%; {TOLD} }}
        server {{ listen 127.0.0.1:%recursive%; real_ip_recursive on; {TOLD} }}
        "#
    ));
    let (last, recursive) = (server.port("last"), server.port("recursive"));
    for (header, simple, through) in [
        ("", "127.0.0.1", "127.0.0.1"),
        ("X-Forwarded-For: 1.2.3.4\r\n", "1.2.3.4", "1.2.3.4"),
        (
            "X-Forwarded-For: 1.2.3.4:567\r\n",
            "1.2.3.4 567",
            "1.2.3.4 567",
        ),
        (
            "X-Forwarded-For: 1.2.3.4, 10.1.0.9\r\n",
            "10.1.0.9",
            "1.2.3.4",
        ),
        (
            "x-forwarded-for: 9.9.9.9,1.2.3.4 ,10.1.2.3,,10.1.0.1\r\n",
            "10.1.0.1",
            "1.2.3.4",
        ),
        (
            "X-Forwarded-For: 1.2.3.4, 10.2.0.9\r\n",
            "10.2.0.9",
            "10.2.0.9",
        ),
        (
            "X-Forwarded-For: 10.1.0.2, 10.1.0.9\r\n",
            "10.1.0.9",
            "10.1.0.2",
        ),
        (
            "X-Forwarded-For: 2001:db8::1, [fd00::1]:99\r\n",
            "fd00::1 99",
            "2001:db8::1",
        ),
        (
            "X-Forwarded-For: [2001:DB8::0:1]\r\n",
            "2001:db8::1",
            "2001:db8::1",
        ),
        (
            "X-Forwarded-For: ::ffff:10.1.0.1\r\n",
            "::ffff:10.1.0.1",
            "::ffff:10.1.0.1",
        ),
        (
            "X-Forwarded-For: 1.2.3.4, ::ffff:10.1.0.1\r\n",
            "::ffff:10.1.0.1",
            "1.2.3.4",
        ),
        // One line after the other, from the last.
        (
            "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 10.1.0.1\r\n",
            "10.1.0.1",
            "1.2.3.4",
        ),
        (
            "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\n",
            "5.6.7.8",
            "5.6.7.8",
        ),
        // What is no address is where the chain ends.
        ("X-Forwarded-For: garbage\r\n", "127.0.0.1", "127.0.0.1"),
        (
            "X-Forwarded-For: 1.2.3.4, unknown\r\n",
            "127.0.0.1",
            "127.0.0.1",
        ),
        (
            "X-Forwarded-For: 1.2.3.4, unknown, 10.1.0.1\r\n",
            "10.1.0.1",
            "10.1.0.1",
        ),
        ("X-Forwarded-For: 1.2.3.4;\r\n", "127.0.0.1", "127.0.0.1"),
        ("X-Forwarded-For: 1.2.3.456\r\n", "127.0.0.1", "127.0.0.1"),
        ("X-Forwarded-For: 1.2.3.4:0\r\n", "127.0.0.1", "127.0.0.1"),
        (
            "X-Forwarded-For: 1.2.3.4:65536\r\n",
            "127.0.0.1",
            "127.0.0.1",
        ),
        ("X-Forwarded-For: unix:\r\n", "127.0.0.1", "127.0.0.1"),
        ("X-Forwarded-For: ,\r\n", "127.0.0.1", "127.0.0.1"),
        ("X-Real-IP: 1.2.3.4\r\n", "127.0.0.1", "127.0.0.1"),
    ] {
        assert_eq!(address(last, header), simple, "{header}");
        assert_eq!(address(recursive, header), through, "recursive, {header}");
    }
}

#[test]
fn headers_and_peers() {
    let site = Site::new();
    let server = site.serve(&format!(
        r#"
        server {{ listen 127.0.0.1:%default%; set_real_ip_from 127.0.0.1; {TOLD} }}
        server {{ listen 127.0.0.1:%own%; set_real_ip_from 127.0.0.1; real_ip_header X-Client; {TOLD} }}
        server {{ listen 127.0.0.1:%others%; set_real_ip_from 127.0.0.2; {TOLD} }}
        server {{ listen 127.0.0.1:%named%; set_real_ip_from localhost; {TOLD} }}
        server {{
            listen 127.0.0.1:%inner%;
            location / {{ root html; }}
            location = /trusting {{
                set_real_ip_from 127.0.0.1;
                try_files /none @said;
            }}
            location @said {{ return 200 "$remote_addr"; }}
            location = /outer {{ return 200 "$remote_addr"; }}
        }}
        "#
    ));
    let one = "X-Real-IP: 1.2.3.4\r\n";
    assert_eq!(address(server.port("default"), one), "1.2.3.4");
    // The first line of it, of which the last address.
    let two = "X-Real-IP: 1.2.3.4\r\nX-Real-IP: 5.6.7.8\r\n";
    assert_eq!(address(server.port("default"), two), "1.2.3.4");
    let list = "X-Real-IP: 1.2.3.4, 5.6.7.8\r\n";
    assert_eq!(address(server.port("default"), list), "5.6.7.8");
    let own = "X-Client: 1.2.3.4\r\nX-CLIENT: 5.6.7.8\r\nX-Real-IP: 9.9.9.9\r\n";
    assert_eq!(address(server.port("own"), own), "1.2.3.4");
    assert_eq!(address(server.port("others"), one), "127.0.0.1");
    assert_eq!(address(server.port("named"), one), "1.2.3.4");
    assert_eq!(
        get_with(server.port("inner"), "/trusting", one).text(),
        "1.2.3.4"
    );
    assert_eq!(
        get_with(server.port("inner"), "/outer", one).text(),
        "127.0.0.1"
    );
}

#[test]
fn peers_on_unix_sockets() {
    let site = Site::new();
    let _server = site.serve(&format!(
        r#"
        server {{ listen unix:%site%/trusted; set_real_ip_from unix:; {TOLD} }}
        server {{ listen unix:%site%/other; set_real_ip_from 0.0.0.0/0; {TOLD} }}
        server {{ listen 127.0.0.1:%plain%; }}
        "#
    ));
    let ask = |socket: &str| {
        let path = site.path(socket).display().to_string();
        let arguments = [
            "-sS",
            "--unix-socket",
            &path,
            "-H",
            "X-Real-IP: 1.2.3.4",
            "http://h/",
        ];
        command("curl", &arguments, b"").success().text()
    };
    assert_eq!(ask("trusted"), "1.2.3.4  unix:");
    assert_eq!(ask("other"), "unix:  unix:");
}

#[test]
fn everything_sees_the_client_and_nobody_else_does() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("default", CertificateKey::P256));
    let app = Origin::echo();
    let server = site.serve(&format!(
        r#"
        log_format who "$remote_addr $realip_remote_addr $request_uri";
        access_log logs/access.log who;
        set_real_ip_from 127.0.0.1;
        set_real_ip_from 10.0.0.0/8;
        real_ip_header X-Forwarded-For;
        real_ip_recursive on;
        server {{
            listen 127.0.0.1:%plain%;
            listen 127.0.0.1:%tls% ssl;
            http2 on;
            ssl_certificate certificates/default.pem;
            ssl_certificate_key certificates/default.key;
            location / {{
                proxy_pass http://127.0.0.1:{};
                proxy_set_header X-Real-IP $remote_addr;
                proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            }}
            location /missing {{ root html; }}
        }}"#,
        app.port()
    ));
    let mut connection = Connection::open(server.port("plain"));
    for (target, header, sent, added) in [
        (
            "/a",
            "X-Forwarded-For: 1.2.3.4, 10.0.0.1\r\n",
            "1.2.3.4",
            "1.2.3.4, 10.0.0.1, 1.2.3.4",
        ),
        ("/b", "", "127.0.0.1", "127.0.0.1"),
        (
            "/c",
            "X-Forwarded-For: 2001:db8::1\r\n",
            "2001:db8::1",
            "2001:db8::1, 2001:db8::1",
        ),
    ] {
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{header}\r\n"));
        assert_eq!(connection.response(false).status, 200);
        let asked = app.take_asked();
        assert_eq!(asked[0].headers("X-Real-IP"), [sent]);
        assert_eq!(asked[0].headers("X-Forwarded-For"), [added]);
    }
    let url = format!("https://127.0.0.1:{}/", server.port("tls"));
    let (one, two) = (format!("{url}d"), format!("{url}e"));
    // Two streams of one connection.
    let arguments = [
        "-sSk",
        "-H",
        "X-Forwarded-For: 4.4.4.4",
        &one,
        "--next",
        "-sSk",
        &two,
    ];
    command("curl", &arguments, b"").success();
    let asked = app.take_asked();
    assert_eq!(asked[0].headers("X-Real-IP"), ["4.4.4.4"]);
    assert_eq!(asked[1].headers("X-Real-IP"), ["127.0.0.1"]);
    assert_eq!(
        get_with(
            server.port("plain"),
            "/missing",
            "X-Forwarded-For: 6.6.6.6\r\n"
        )
        .status,
        404
    );
    let line = server.wait_for_log("html/missing");
    assert!(line.contains("client: 6.6.6.6,"), "{line}");
    let log = site.path("logs/access.log");
    wait_for("six lines of the access log", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        (lines.len() == 6).then(|| {
            assert_eq!(
                lines,
                [
                    "1.2.3.4 127.0.0.1 /a",
                    "127.0.0.1 127.0.0.1 /b",
                    "2001:db8::1 127.0.0.1 /c",
                    "4.4.4.4 127.0.0.1 /d",
                    "127.0.0.1 127.0.0.1 /e",
                    "6.6.6.6 127.0.0.1 /missing",
                ]
            );
        })
    });
}

/// nginx's `ip_hash`: the first three bytes of an IPv4 address, all of an IPv6 one.
fn ip_hash(bytes: &[u8], servers: u32) -> usize {
    let hash = bytes
        .iter()
        .fold(89u32, |hash, byte| (hash * 113 + u32::from(*byte)) % 6271);
    usize::try_from(hash % servers).expect("a small number")
}

#[test]
fn balancing_goes_by_the_client() {
    let site = Site::new();
    let origins: Vec<Origin> = (0..3)
        .map(|number| {
            Origin::answering(move |_| {
                let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
                Answer::Send(text.into_bytes())
            })
        })
        .collect();
    let servers: String = origins
        .iter()
        .map(|origin| format!("server 127.0.0.1:{};\n", origin.port()))
        .collect();
    let server = site.serve(&format!(
        r#"
        upstream by_address {{ ip_hash; {servers} }}
        upstream by_bytes {{ hash $binary_remote_addr; {servers} }}
        upstream by_text {{ hash $remote_addr; {servers} }}
        set_real_ip_from 127.0.0.1;
        real_ip_header X-Real-IP;
        keepalive_requests 1000000;
        server {{
            listen 127.0.0.1:%plain%;
            location /ip {{ proxy_pass http://by_address; }}
            location /bytes {{ proxy_pass http://by_bytes; }}
            location /text {{ proxy_pass http://by_text; }}
        }}"#
    ));
    let mut connection = Connection::open(server.port("plain"));
    let mut ask = |path: &str, client: &str| -> usize {
        connection.send(format!(
            "GET {path} HTTP/1.1\r\nHost: h\r\nX-Real-IP: {client}\r\n\r\n"
        ));
        connection
            .response(false)
            .text()
            .parse()
            .expect("the number of a server")
    };
    let mut random = Random::new(11);
    let mut by_text = Vec::new();
    let mut by_bytes = Vec::new();
    for _ in 0..scale(100, 5000) {
        let bytes = random.bytes(16);
        let v4 = format!("{}.{}.{}.{}", bytes[0], bytes[1], bytes[2], bytes[3]);
        assert_eq!(ask("/ip", &v4), ip_hash(&bytes[..3], 3), "{v4}");
        let groups: Vec<String> = bytes
            .chunks(2)
            .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
            .collect();
        let v6 = groups.join(":");
        assert_eq!(ask("/ip", &v6), ip_hash(&bytes, 3), "{v6}");
        by_bytes.push(ask("/bytes", &v4));
        by_text.push(ask("/text", &v4));
    }
    for picks in [by_bytes, by_text] {
        for server in 0..3 {
            assert!(picks.contains(&server), "every server has clients");
        }
    }
}

/// Random headers, through nginx and through us.
#[test]
fn the_same_as_nginx() {
    let site = Site::new();
    let http = |name: &str| {
        format!(
            r#"
            set_real_ip_from 127.0.0.0/8;
            set_real_ip_from 10.0.0.0/8;
            set_real_ip_from fd00::/8;
            server {{ listen 127.0.0.1:%{name}_a%; real_ip_header X-Forwarded-For; real_ip_recursive on; {TOLD} }}
            server {{ listen 127.0.0.1:%{name}_b%; real_ip_header X-Forwarded-For; {TOLD} }}
            server {{ listen 127.0.0.1:%{name}_c%; real_ip_header X-Real-IP; real_ip_recursive on; {TOLD} }}
            server {{ listen 127.0.0.1:%{name}_d%; real_ip_header X-Other; real_ip_recursive on; {TOLD} }}
            "#
        )
    };
    let sealane = site.serve(&http("ours"));
    let other = Site::new();
    let nginx = other.serve_by_nginx(&http("theirs"));
    let mut random = Random::new(5);
    let mut words = vec![
        "1.2.3.4",
        "10.0.0.1",
        "10.255.255.255",
        "127.0.0.1",
        "11.0.0.1",
        "1.2.3.4:80",
        "10.0.0.1:8080",
        "[fd00::1]",
        "[fd00::2]:443",
        "fd00::3",
        "2001:db8::1",
        "[2001:db8::2]:1",
        "::ffff:10.0.0.1",
        "unknown",
        "_hidden",
        "unix:",
        "1.2.3",
        "256.1.1.1",
        "001.002.003.004",
        "010.000.000.001:090",
        "1.2.3.4:",
        "1.2.3.4:99999",
        "[1.2.3.4]",
        "[::1",
        "::",
        "::1",
        "1::2::3",
        "fe80::1%1",
        "\"1.2.3.4\"",
        "",
        "-",
        "1.2.3.4/8",
        "0.0.0.0",
        "255.255.255.255",
        "10.0.0.1:0",
        "+1.2.3.4",
    ];
    if std::env::var_os("SEALANE_TEST_NGINX").is_none() {
        // Debian's nginx takes brackets only with a port behind them.
        words.retain(|word| !word.ends_with(']'));
    }
    let separators = [", ", ",", " ", " , ", ",,", ";"];
    let names = ["X-Forwarded-For", "x-forwarded-for", "X-Real-IP", "X-Other"];
    for _ in 0..scale(400, 20_000) {
        let mut headers = String::new();
        for _ in 0..=random.below(3) {
            let mut value = String::new();
            for _ in 0..=random.below(4) {
                value.push_str(random.choose::<&str>(&words));
                value.push_str(random.choose::<&str>(&separators));
            }
            if random.below(3) > 0 {
                value.truncate(value.trim_end_matches([',', ' ', ';']).len());
            }
            headers.push_str(&format!("{}: {value}\r\n", random.choose(&names)));
        }
        for kind in ["a", "b", "c", "d"] {
            let ours = get_with(sealane.port(&format!("ours_{kind}")), "/", &headers).text();
            let theirs = get_with(nginx.port(&format!("theirs_{kind}")), "/", &headers).text();
            let own_port = |text: &str| match text.strip_prefix("127.0.0.1 ") {
                Some(rest) => format!("127.0.0.1 {}", rest.split(' ').next_back().unwrap_or("")),
                None => text.to_owned(),
            };
            assert_eq!(own_port(&ours), own_port(&theirs), "{kind}: {headers}");
        }
    }
    assert_eq!(get(sealane.port("ours_a"), "/").status, 200);
}

#[test]
fn ipv4_on_an_ipv6_socket_is_ipv4() {
    let site = Site::new();
    let server = |name: &str, from: &str| {
        format!(
            "server {{ listen [::ffff:127.0.0.1]:%{name}% ipv6only=off; real_ip_header X-Real-IP;
               set_real_ip_from {from}; return 200 \"$remote_addr $realip_remote_addr\"; }}"
        )
    };
    let servers = server("four", "127.0.0.0/8") + &server("six", "::/0");
    let server = site.serve(&servers);
    for (name, told) in [
        ("four", "1.2.3.4 ::ffff:127.0.0.1"),
        ("six", "::ffff:127.0.0.1 ::ffff:127.0.0.1"),
    ] {
        let answer = get_with(server.port(name), "/", "X-Real-IP: 1.2.3.4\r\n");
        assert_eq!(answer.text(), told, "{name}");
    }
}
