//! Requests for tunnels that two servers could understand differently.

use super::*;

/// Everything that a proxy says to these bytes, until it closes.
fn exchange(port: u16, bytes: &str) -> String {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    socket.write_all(bytes.as_bytes()).expect("it is taken");
    String::from_utf8_lossy(&read_to_close(&socket)).into_owned()
}

#[test]
fn nothing_behind_a_refused_request_is_taken_for_another() {
    let site = Site::new();
    site.write("passwords", "user:{PLAIN}pass\n");
    site.write("html/secret", "the secret");
    let server = site.serve(
        "access_log logs/access.log;
         server { listen 127.0.0.1:%refused%; tunnel_pass; }
         server { listen 127.0.0.1:%password%; tunnel_pass; auth_basic a;
                  auth_basic_user_file passwords; location /secret { auth_basic off; } }
         server { listen 127.0.0.1:%none%; }
         server { listen 127.0.0.1:%page%; tunnel_pass; error_page 403 =200 /secret; location /secret { } }
         server { listen 127.0.0.1:%text%; return 200 text; location /t { tunnel_pass; } }",
    );
    let behind = "GET /secret HTTP/1.1\r\nHost: a\r\n\r\n";
    for (port, status) in [
        ("refused", 403),
        ("password", 407),
        ("none", 405),
        // Neither a page nor `return` makes a tunnel of it.
        ("page", 405),
        ("text", 405),
    ] {
        for more in ["", "Connection: keep-alive\r\n", "Content-Length: 0\r\n"] {
            let head =
                format!("CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n{more}\r\n");
            let said = exchange(server.port(port), &(head + behind));
            assert!(
                said.starts_with(&format!("HTTP/1.1 {status} ")),
                "{port}: {said}"
            );
            assert!(said.contains("\r\nConnection: close\r\n"), "{port}: {said}");
            assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{port}: {said}");
            assert!(!said.contains("the secret"), "{port}: {said}");
        }
    }
    let log = std::fs::read_to_string(site.path("logs/access.log")).expect("it was written");
    assert!(!log.contains("GET /secret"), "{log}");
}

#[test]
fn a_request_for_a_tunnel_means_one_thing_or_is_refused() {
    let (site, far) = (Site::new(), Far::echo());
    let server = proxy(&site, "");
    let target = format!("127.0.0.1:{}", far.port);
    let lines = [
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Host: other\r\n",
    ];
    for line in lines {
        let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{line}\r\nhello");
        let said = exchange(server.port("proxy"), &head);
        assert!(said.starts_with("HTTP/1.1 400 "), "{line}: {said}");
    }
    for host in [
        "other",
        "other:443",
        "127.0.0.1:1",
        "127.0.0.2",
        "user@127.0.0.1",
        "",
    ] {
        let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {host}\r\n\r\nhello");
        let said = exchange(server.port("proxy"), &head);
        assert!(said.starts_with("HTTP/1.1 400 "), "{host}: {said}");
    }
    assert_eq!(far.accepted(), 0);
    // The port may be left out, and letters may have any case.
    for host in ["127.0.0.1", &target] {
        let mut socket =
            TcpStream::connect((Ipv4Addr::LOCALHOST, server.port("proxy"))).expect("it listens");
        let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        socket.write_all(head.as_bytes()).expect("it is taken");
        assert!(
            read_head(&mut socket).starts_with("HTTP/1.1 200 "),
            "{host}"
        );
    }
}

#[test]
fn what_comes_before_the_answer_belongs_to_the_tunnel() {
    let (site, far) = (Site::new(), Far::echo());
    let server = proxy(&site, "");
    let target = format!("127.0.0.1:{}", far.port);
    let early = "GET /early HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut socket = ask(server.port("proxy"), &target, "");
    socket.write_all(early.as_bytes()).expect("it is taken");
    assert!(read_head(&mut socket).starts_with("HTTP/1.1 200 "));
    says(&mut socket, early);
    // In one segment with the head.
    let mut socket =
        TcpStream::connect((Ipv4Addr::LOCALHOST, server.port("proxy"))).expect("it listens");
    let all = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n{early}");
    socket.write_all(all.as_bytes()).expect("it is taken");
    assert!(read_head(&mut socket).starts_with("HTTP/1.1 200 "));
    says(&mut socket, early);
}

#[test]
fn a_tunnel_has_no_length() {
    let (site, far) = (Site::new(), Far::echo());
    let server = proxy(&site, "");
    let mut socket = ask(server.port("proxy"), &format!("127.0.0.1:{}", far.port), "");
    let head = read_head(&mut socket).to_lowercase();
    assert!(
        !head.contains("content-length") && !head.contains("transfer-encoding"),
        "{head}"
    );
}
