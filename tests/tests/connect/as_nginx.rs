//! The same requests to nginx 1.31 and to Sealane: the same answers.

use super::*;
use sealane_tests::{Program, wait_for};

fn configuration(far: &Far, is_nginx: bool) -> String {
    let allow = if is_nginx { "" } else { ALLOW };
    format!(
        r#"{allow}
        log_format x '$request|$request_uri|$uri|$host|$request_port|$status|$upstream_addr|$remote_user|$http_host';
        access_log logs/access.log x;
        tunnel_read_timeout 1s; tunnel_connect_timeout 1s;
        upstream behind {{ server 127.0.0.1:%dead% max_fails=0; server 127.0.0.1:{far}; }}
        server {{ listen 127.0.0.1:%open%; tunnel_pass; add_header X-A b;
                  location /x {{ return 200 x; }} location /t {{ tunnel_pass; }} }}
        server {{ listen 127.0.0.1:%password%; auth_basic realm; tunnel_pass;
                  auth_basic_user_file passwords; auth_delay 100ms; }}
        server {{ listen 127.0.0.1:%either%; auth_basic realm; tunnel_pass;
                  auth_basic_user_file passwords; satisfy any; allow 127.0.0.1; deny all; }}
        server {{ listen 127.0.0.1:%neither%; auth_basic realm; tunnel_pass;
                  auth_basic_user_file passwords; satisfy any; deny all; }}
        server {{ listen 127.0.0.1:%denied%; deny all; tunnel_pass; }}
        server {{ listen 127.0.0.1:%page%; location / {{
                  if ($request_method = CONNECT) {{ tunnel_pass; error_page 502 504 /50x.html; break; }} }} }}
        server {{ listen 127.0.0.1:%fixed%; tunnel_pass behind; }}
        server {{ listen 127.0.0.1:%once%; tunnel_pass behind; tunnel_next_upstream off; }}
        server {{ listen 127.0.0.1:%mapped%; tunnel_pass $http_x_to; }}
        server {{ listen 127.0.0.1:%elsewhere%; location / {{ }} location /t {{ tunnel_pass; }} }}
        server {{ listen 127.0.0.1:%limited%; tunnel_pass; location / {{
                  limit_except GET {{ deny all; }} tunnel_pass; }} }}
        server {{ listen 127.0.0.1:%none%; }}"#,
        far = far.port
    )
}

/// The requests: a port, the target and header lines, and what follows.
fn requests(far: u16, dead: u16) -> Vec<(&'static str, String)> {
    let target = format!("127.0.0.1:{far}");
    let connect = |target: &str, more: &str| {
        format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{more}\r\n")
    };
    let mut all = Vec::new();
    for port in [
        "open",
        "password",
        "either",
        "neither",
        "denied",
        "page",
        "fixed",
        "elsewhere",
        "limited",
        "none",
        "mapped",
    ] {
        all.push((port, connect(&target, "")));
    }
    for more in [
        "Proxy-Authorization: Basic dXNlcjpwYXNz\r\n",
        "Proxy-Authorization: Basic dXNlcjpubw==\r\n",
        "Authorization: Basic dXNlcjpwYXNz\r\n",
    ] {
        all.push(("password", connect(&target, more)));
        all.push(("neither", connect(&target, more)));
    }
    for wrong in [
        format!("{target}/"),
        format!("{target}?"),
        format!("{target}#"),
        format!("user@{target}"),
        format!("http://{target}/"),
        "127.0.0.1".to_owned(),
        "127.0.0.1:".to_owned(),
        format!(":{far}"),
        ":".to_owned(),
        "*".to_owned(),
        "/".to_owned(),
        "127.0.0.1:65536".to_owned(),
        "127.0.0.1:0".to_owned(),
        "127.0.0.1:x".to_owned(),
        "a_b:443".to_owned(),
        "[::1:443".to_owned(),
        format!("127.0.0.1:{dead}"),
        "name.example:443".to_owned(),
    ] {
        all.push(("open", connect(&wrong, "")));
        all.push(("page", connect(&wrong, "")));
    }
    all.push((
        "open",
        format!("CONNECT {target} HTTP/1.0\r\nHost: {target}\r\n\r\n"),
    ));
    all.push(("open", format!("CONNECT {target} HTTP/1.1\r\n\r\n")));
    all.push((
        "open",
        format!("CONNECT  {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"),
    ));
    all.push(("open", connect(&target, "Content-Length: 5\r\n") + "hello"));
    all.push(("open", connect(&target, "Content-Length: 0\r\n")));
    all.push((
        "open",
        connect(&target, "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n",
    ));
    all.push(("open", connect(&target, "Connection: keep-alive\r\n")));
    all.push(("mapped", connect(&target, &format!("X-To: {target}\r\n"))));
    all.push(("mapped", connect(&target, "X-To: behind\r\n")));
    all.push(("mapped", connect(&target, "X-To: 127.0.0.1\r\n")));
    for path in ["/", "/x", "/t"] {
        let line = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        for port in ["open", "elsewhere", "limited", "fixed", "page"] {
            all.push((port, line.clone()));
        }
    }
    all
}

/// What a server answers, up to the end of the connection, without what must differ.
fn answer(server: &Server<'_>, port: &str, request: &str) -> String {
    let mut socket =
        TcpStream::connect((Ipv4Addr::LOCALHOST, server.port(port))).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    socket.write_all(request.as_bytes()).expect("it is taken");
    let text = String::from_utf8_lossy(&read_to_close(&socket)).into_owned();
    let mut lines: Vec<&str> = text.split("\r\n").collect();
    lines.retain(|line| !line.starts_with("Date:") && !line.starts_with("Server:"));
    // The page names the server, and is as long as its name.
    lines.retain(|line| !line.starts_with("<hr>") && !line.starts_with("Content-Length:"));
    lines.join("\n")
}

#[test]
fn every_answer_is_nginxs() {
    if !nginx_has_tunnels() {
        return sealane_needs::leave_out("this nginx has no \"tunnel_pass\" to compare with");
    }
    let far = Far::at(Ipv4Addr::LOCALHOST, |mut socket| {
        let _ = socket.write_all(b"hello from the far end");
        thread::sleep(Duration::from_millis(20));
    });
    let (ours, theirs) = (Site::new(), Site::new());
    for site in [&ours, &theirs] {
        site.write("passwords", "user:{PLAIN}pass\n");
        site.write("html/50x.html", "the page");
        site.write("html/index.html", "the index");
    }
    let sealane = ours.serve(&configuration(&far, false));
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path temporary/{name};"))
        .join(" ");
    let whole = format!(
        "error_log logs/error.log info; pid logs/pid; worker_processes 1; events {{ }}
         http {{ {temporary} {} }}",
        configuration(&far, true)
    );
    let nginx = Server::start(&theirs, Program::Nginx, &whole);
    let mut differences = Vec::new();
    let count = requests(far.port, ours.port("dead")).len();
    let of_nginx = requests(far.port, theirs.port("dead"));
    let of_sealane = requests(far.port, ours.port("dead"));
    for ((port, request), (_, same)) in of_sealane.iter().zip(&of_nginx) {
        let (here, there) = (answer(&sealane, port, request), answer(&nginx, port, same));
        if here != there {
            differences.push(format!(
                "{port}: {request:?}\n--- nginx\n{there}\n--- here\n{here}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    let log = |site: &Site| {
        let lines = wait_for("the last line", || {
            let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
            (log.lines().count() >= count).then_some(log)
        });
        let dead = site.port("dead").to_string();
        // How much is known of a line that is refused is not what this is about.
        let lines = lines.lines().filter(|line| !line.contains("|400|"));
        let lines = lines.map(|line| line.replace(&dead, "DEAD"));
        lines.collect::<Vec<_>>()
    };
    let (here, there) = (log(&ours), log(&theirs));
    assert_eq!(here.len(), there.len());
    for (here, there) in here.iter().zip(&there) {
        assert_eq!(here, there);
    }
}

#[test]
fn the_next_address_is_tried_as_in_nginx() {
    let far = Far::at(Ipv4Addr::LOCALHOST, |mut socket| {
        let _ = socket.write_all(b"here");
    });
    let site = Site::new();
    let server = site.serve(&configuration(&far, false));
    // Whichever is first: the dead one is never the answer, unless no other may be tried.
    for _ in 0..4 {
        let mut socket = ask(server.port("fixed"), "anything:1", "");
        assert!(read_head(&mut socket).starts_with("HTTP/1.1 200 "));
        says(&mut socket, "here");
    }
    let statuses: Vec<u16> = (0..4).map(|_| status(server.port("once"), "a:1")).collect();
    assert!(statuses.contains(&502), "{statuses:?}");
}
