//! `proxy_connect` and its relatives, as ngx_http_proxy_connect_module documents them.

use super::*;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::{NameServer, wait_for, wire};

const SAFE: &str =
    "proxy_connect; proxy_connect_allow all; proxy_connect_allow_addresses 127.0.0.0/8;";

#[test]
fn a_server_answers_connect_itself_and_its_locations_the_rest() {
    let (site, far) = (Site::new(), Far::echo());
    site.write("html/index.html", "the index");
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%proxy%; {SAFE} location / {{ deny all; }} location /x {{ return 200 x; }} }}
         server {{ listen 127.0.0.1:%root%; {SAFE} }}"
    ));
    let mut socket = ask(server.port("proxy"), &format!("127.0.0.1:{}", far.port), "");
    let head = read_head(&mut socket);
    assert!(
        head.starts_with("HTTP/1.1 200 Connection Established\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nProxy-agent: nginx\r\n"), "{head}");
    socket.write_all(b"hello").expect("it is taken");
    says(&mut socket, "hello");
    assert_eq!(wire::get(server.port("proxy"), "/").status, 403);
    assert_eq!(wire::get(server.port("proxy"), "/x").body, b"x");
    assert_eq!(wire::get(server.port("root"), "/").body, b"the index");
}

#[test]
fn ports_and_addresses_are_limited() {
    let (site, far) = (Site::new(), Far::echo());
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%safe%; proxy_connect; }}
         server {{ listen 127.0.0.1:%ports%; proxy_connect; proxy_connect_allow 443 {}-65535; }}
         server {{ listen 127.0.0.1:%all%; {SAFE} }}
         server {{ listen 127.0.0.1:%fixed%; proxy_connect; proxy_connect_allow 563;
                   proxy_connect_address 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:%chosen%; proxy_connect; proxy_connect_allow all;
                   proxy_connect_address $http_x_to; }}",
        far.port, far.port
    ));
    let target = format!("127.0.0.1:{}", far.port);
    assert_eq!(status(server.port("safe"), "9.9.9.9:25"), 403);
    server.wait_for_log("tunnel to port 25 refused by \"proxy_connect_allow\"");
    assert_eq!(status(server.port("safe"), "127.0.0.1:443"), 403);
    server.wait_for_log("\"proxy_connect_allow_addresses 127.0.0.1\" allows it");
    assert_eq!(status(server.port("ports"), &target), 403);
    assert_eq!(far.accepted(), 0);
    assert_eq!(status(server.port("all"), &target), 200);
    // The address is the configuration's, and the port is still the client's.
    assert_eq!(status(server.port("fixed"), "name.example:563"), 200);
    assert_eq!(status(server.port("fixed"), "name.example:443"), 403);
    wait_for("both", || (far.accepted() == 2).then_some(()));
    let head = read_head(&mut ask(
        server.port("chosen"),
        "a:1",
        &format!("X-To: {target}\r\n"),
    ));
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
}

#[test]
fn the_response_and_the_variables() {
    let (site, far, names) = (Site::new(), Far::echo(), NameServer::start());
    names.says("far.example", &[Ipv4Addr::LOCALHOST]);
    let slow = Origin::answering(|_| {
        thread::sleep(Duration::from_millis(1200));
        Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow".to_vec())
    });
    let server = site.serve(&format!(
        r#"resolver 127.0.0.1:{} ipv6=off;
        log_format x '$connect_host|$connect_port|$connect_addr|$proxy_connect_connect_timeout|$proxy_connect_data_timeout|$proxy_connect_resolve_time|$proxy_connect_connect_time|$proxy_connect_first_byte_time|$status';
        access_log logs/access.log x; proxy_connect_connect_timeout 7s; proxy_connect_bind 127.0.0.3;
        proxy_connect_response "HTTP/1.1 200 Yes\r\nX-To: $connect_addr\r\nContent-Length: 9\r\n\r\n";
        server {{ listen 127.0.0.1:%proxy%; {SAFE}
                  if ($http_x_fast) {{ set $proxy_connect_data_timeout 500ms; set $proxy_connect_connect_timeout 6s;
                                       set $proxy_connect_response "HTTP/1.1 200 Set\r\n\r\n"; }}
                  location /slow {{ access_log off; proxy_pass http://127.0.0.1:{}; }} }}
        server {{ listen 127.0.0.1:%wrong%; {SAFE} proxy_connect_response "HTTP/1.1 302 No\r\n\r\n"; }}
        server {{ listen 127.0.0.1:%cut%; {SAFE} proxy_connect_response "HTTP/1.1 200"; }}"#,
        names.port(),
        slow.port()
    ));
    // What is set for tunnels is not for other requests.
    let answer = wire::get_with(server.port("proxy"), "/slow", "X-Fast: 1\r\n");
    assert_eq!(answer.text(), "slow");
    let target = format!("far.example:{}", far.port);
    let mut socket = ask(server.port("proxy"), &target, "");
    let head = read_head(&mut socket);
    assert!(head.starts_with("HTTP/1.1 200 Yes\r\n"), "{head}");
    assert!(
        head.contains(&format!("\r\nX-To: 127.0.0.1:{}\r\n", far.port)),
        "{head}"
    );
    assert!(!head.contains("Content-Length"), "{head}");
    socket.write_all(b"x").expect("it is taken");
    says(&mut socket, "x");
    drop(socket);
    let mut socket = ask(server.port("proxy"), &target, "X-Fast: 1\r\n");
    let head = read_head(&mut socket);
    assert!(head.starts_with("HTTP/1.1 200 Set\r\n"), "{head}");
    assert!(
        read_to_close(&socket).is_empty(),
        "it ends after half a second"
    );
    let _ = ask(server.port("proxy"), "unknown.example:1", "").read_to_end(&mut Vec::new());
    let lines = wait_for("the log", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        (log.lines().count() == 3).then_some(log)
    });
    let mut lines: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split('|').collect())
        .collect();
    lines.sort_by_key(|line| (line[0] == "unknown.example", line[3] != "7000"));
    let address = format!("127.0.0.1:{}", far.port);
    let port = far.port.to_string();
    let times = |line: &[&str]| -> Vec<String> {
        line[5..8]
            .iter()
            .map(|time| time.replace(|c: char| c.is_ascii_digit(), "d"))
            .collect()
    };
    assert_eq!(
        lines[0][..5],
        ["far.example", &port, &address, "7000", "60000"]
    );
    assert_eq!(times(&lines[0]), ["d.ddd"; 3]);
    assert_eq!(
        lines[1][..5],
        ["far.example", &port, &address, "6000", "500"]
    );
    assert_eq!(times(&lines[1]), ["d.ddd", "d.ddd", "-"]);
    assert_eq!(lines[2][..3], ["unknown.example", "1", "-"]);
    assert_eq!(lines[2][5..], ["-", "-", "-", "502"]);
    for port in ["wrong", "cut"] {
        assert_eq!(status(server.port(port), &target), 500, "{port}");
        server.wait_for_log("invalid \"proxy_connect_response\"");
    }
}

#[test]
fn connections_come_from_the_address_of_bind() {
    let site = Site::new();
    let far = Far::at(Ipv4Addr::LOCALHOST, |mut socket| {
        let peer = socket.peer_addr().expect("it is connected").ip();
        let _ = write!(socket, "{peer}");
    });
    let server = site.serve(&format!(
        "{ALLOW} server {{ listen 127.0.0.1:%connect%; {SAFE} proxy_connect_bind 127.0.0.3; }}
         server {{ listen 127.0.0.1:%tunnel%; tunnel_pass; tunnel_bind $http_x_from; }}"
    ));
    let target = format!("127.0.0.1:{}", far.port);
    for (port, more) in [("connect", ""), ("tunnel", "X-From: 127.0.0.3\r\n")] {
        let mut socket = ask(server.port(port), &target, more);
        assert!(
            read_head(&mut socket).starts_with("HTTP/1.1 200 "),
            "{port}"
        );
        assert_eq!(read_to_close(&socket), b"127.0.0.3", "{port}");
    }
}
