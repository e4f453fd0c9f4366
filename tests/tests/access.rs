//! Who may ask, how often, and how many at a time: the same configuration in Sealane and in
//! Debian's nginx, with the same clients, and what each of them answers. What is counted here
//! is counted exactly; nothing depends on how long it takes.

use sealane_needs::is_root;
use sealane_sys::socket::set_linger;
use sealane_tests::comparison::differences;
use sealane_tests::http2::{Client, kind};
use sealane_tests::wire::{self, Connection};
use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, reload, wait_for,
};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// `%hung%` is a server that takes connections and says nothing.
const CONFIGURATION: &str = r#"
user nobody nogroup;
worker_processes 1;
error_log logs/error.log info;
pid logs/pid;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path temporary/a; proxy_temp_path temporary/b; fastcgi_temp_path temporary/c;
    uwsgi_temp_path temporary/d; scgi_temp_path temporary/e;
    keepalive_requests 100000;
    limit_req_zone $arg_k zone=often:1m rate=1r/m;
    limit_req_zone $arg_k zone=leaks:1m rate=50r/s;
    limit_req_zone $binary_remote_addr zone=small:32k rate=1r/m;
    limit_conn_zone $arg_k zone=many:1m;
    set_real_ip_from 127.0.0.0/8;
    set_real_ip_from unix:;
    real_ip_header X-Real-IP;
    ssl_certificate certificates/localhost.pem;
    ssl_certificate_key certificates/localhost.key;
    server { listen 127.0.0.1:%behind%; location / { return 200 "behind $request_method"; } }
    server {
        listen 127.0.0.1:%plain%;
        listen 127.0.0.1:%tls% ssl http2;
        listen 127.0.0.1:%streams% http2;
        listen [::1]:%plain%;
        listen unix:%site%/front.sock;
        root html;
        default_type text/plain;
        location /basic/ { auth_basic "with \"quotes\""; auth_basic_user_file %site%/users; alias html/; }
        location /workers/ { auth_basic w; auth_basic_user_file %site%/workers; alias html/; }
        location /roots/ { auth_basic r; auth_basic_user_file %site%/roots; alias html/; }
        location /nowhere/ { auth_basic n; auth_basic_user_file %site%/nowhere; alias html/; }
        location /directory/ { auth_basic d; auth_basic_user_file %site%/html; alias html/; }
        location /page/ { auth_basic p; auth_basic_user_file %site%/users; error_page 401 /a.txt; }
        location /page200/ { auth_basic p; auth_basic_user_file %site%/users; error_page 401 =200 /a.txt; }
        location /any/ {
            satisfy any; allow 10.0.0.0/8; deny all; auth_request /ask;
            auth_basic any; auth_basic_user_file %site%/users; alias html/;
        }
        location /all/ {
            allow 10.0.0.0/8; deny all; auth_request /ask;
            auth_basic all; auth_basic_user_file %site%/users; alias html/;
        }
        location = /ask {
            internal;
            if ($http_x_ask = yes) { return 204; }
            if ($http_x_ask = no) { return 403; }
            return 401;
        }
        location /except/ {
            satisfy any;
            proxy_pass http://127.0.0.1:%behind%;
            limit_except GET {
                allow 10.0.0.0/8; deny all;
                auth_basic e; auth_basic_user_file %site%/users;
                proxy_pass http://127.0.0.1:%behind%;
            }
        }
        location /addresses/ { allow 10.0.0.0/8; deny 2001:db8::1; allow 2001:db8::/32; deny all; alias html/; }
        location /local/ { allow ::1; allow unix:; deny all; alias html/; }
        location /often/ { limit_req zone=often burst=5 nodelay; alias html/; }
        location /later/ { limit_req zone=often burst=3; alias html/; }
        location /leaks/ { limit_req zone=leaks burst=100; limit_req_status 429; alias html/; }
        location /small/ { limit_req zone=small; alias html/; }
        location /many/ { limit_conn many 2; limit_conn_status 429; alias html/; }
        location /hung/ { limit_conn many 2; proxy_pass http://127.0.0.1:%hung%; }
    }
}
"#;

const USER: &str = "Authorization: Basic dXNlcjpzZWNyZXQ="; // user:secret

fn base64(text: &str) -> String {
    let encoded = command("base64", &["-w0"], text.as_bytes()).success();
    encoded.text()
}

/// The files; `holder` never answers.
fn site(holder: &TcpListener) -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    site.write("html/a.txt", "a file\n");
    site.write("html/large", vec![b'x'; 16 << 20]);
    let mut users = String::from("# made by openssl passwd, htpasswd and mkpasswd\n");
    for (name, kind) in [
        ("md5", "-1"),
        ("apr1", "-apr1"),
        ("sha256", "-5"),
        ("sha512", "-6"),
    ] {
        let made = command("openssl", &["passwd", kind, "secret"], b"").success();
        users.push_str(&format!("{name}:{}", made.text()));
    }
    users.push_str("user:{PLAIN}secret\nempty:\nunknown:$9$what\n");
    users.push_str("sha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
    users.push_str("bcrypt:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n");
    users.push_str(
        "yescrypt:$y$j75$abcdefghijklmno.$Pn8sxQPHVTdAnM9GGNj8GPFUmfKJYY0lO2Oh12De2yB:of somebody\n",
    );
    for (name, mode) in [("users", 0o644), ("workers", 0o400), ("roots", 0o000)] {
        let path = site.write(name, &users);
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode).expect("the file is ours");
    }
    // Without root both servers and the files have one user.
    if is_root() {
        let path = site.path("workers").display().to_string();
        command("chown", &["nobody", &path], b"").success();
    }
    let hung = holder.local_addr().expect("it is bound").port();
    site.write("hung", hung.to_string());
    site
}

fn configuration(site: &Site) -> String {
    let hung = std::fs::read_to_string(site.path("hung")).expect("it was written");
    CONFIGURATION.replace("%hung%", &hung)
}

fn start(site: &Site, program: Program) -> Server<'_> {
    let server = Server::start(site, program, &configuration(site));
    // Files that the worker may not read.
    server.expect_alert("roots\" failed (13: Permission denied)");
    server.expect_alert("read() \"");
    server.expect_alert("pread() \"");
    server.expect_alert("crypt_r() failed");
    server
}

/// Both servers, each after the other.
fn with_each(check: impl Fn(Program, &Site, &Server<'_>)) {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port");
    for program in [Program::Nginx, Program::Sealane] {
        let site = site(&holder);
        let server = start(&site, program);
        check(program, &site, &server);
    }
}

fn head(target: &str, headers: &[&str]) -> String {
    let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{lines}Connection: close\r\n\r\n")
}

#[test]
fn both_say_the_same_of_who_may() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (our_site, their_site) = (site(&holder), site(&holder));
    let ours = start(&our_site, Program::Sealane);
    let theirs = start(&their_site, Program::Nginx);
    let mut requests = Vec::new();
    let names = [
        "md5", "apr1", "sha256", "sha512", "user", "sha", "bcrypt", "yescrypt", "empty", "nobody",
    ];
    for name in names {
        for password in ["secret", "Secret", ""] {
            let credentials = base64(&format!("{name}:{password}"));
            requests.push(head(
                "/basic/a.txt",
                &[&format!("Authorization: Basic {credentials}")],
            ));
        }
    }
    for place in ["workers", "nowhere", "directory", "page", "page200"] {
        requests.push(head(&format!("/{place}/a.txt"), &[]));
        requests.push(head(&format!("/{place}/a.txt"), &[USER]));
    }
    if is_root() {
        requests.push(head("/roots/a.txt", &[USER]));
    }
    for hostile in [
        "Authorization:",
        "Authorization: Basic",
        "Authorization: Basic =",
        "Authorization: Basic \u{fc}\u{fc}",
        "Authorization: BASIC dXNlcjpzZWNyZXQ=",
        "Authorization: Basic      dXNlcjpzZWNyZXQ",
        "Authorization: Basic\tdXNlcjpzZWNyZXQ=",
        "Authorization: Basic dXNlcjpzZWNyZXQ= and more",
        "Authorization: Basic dXNlcgA6c2VjcmV0",
        "Authorization: Basic dXNlcjpzZWNyZXQAeA==",
        "Authorization: Basic OnNlY3JldA==",
        "Authorization: Bearer dXNlcjpzZWNyZXQ=",
        "Authorization: Digest username=\"user\"",
    ] {
        requests.push(head("/basic/a.txt", &[hostile]));
    }
    for many in [600, 3000, 7000] {
        let long = base64(&format!("user:{}", "x".repeat(many)));
        requests.push(head(
            "/basic/a.txt",
            &[&format!("Authorization: Basic {}", long)],
        ));
        let long = base64(&format!("{}:secret", "u".repeat(many)));
        requests.push(head(
            "/basic/a.txt",
            &[&format!("Authorization: Basic {}", long)],
        ));
    }
    for place in ["any", "all", "addresses", "local"] {
        for ask in ["X-Ask: yes", "X-Ask: no", "X-Ask: who"] {
            for from in [
                "10.1.2.3",
                "192.0.2.1",
                "2001:db8::1",
                "2001:db8::2",
                "unix:",
                "nobody",
            ] {
                let target = format!("/{place}/a.txt");
                let from = format!("X-Real-IP: {from}");
                requests.push(head(&target, &[ask, &from]));
                requests.push(head(&target, &[ask, &from, USER]));
            }
        }
    }
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PROPFIND"] {
        for more in ["", "X-Real-IP: 10.0.0.1\r\n", &format!("{USER}\r\n")] {
            requests.push(format!(
                "{method} /except/ HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n"
            ));
        }
    }
    let count = requests.len();
    let shown = |response: &wire::Response| format!("{}\n{}", response.head, response.text());
    let different = differences(&ours, &theirs, requests, shown);
    assert!(different.is_empty(), "of {count} requests:\n{different}");
}

/// curl's answer: the status alone.
fn curl(site: &Site, arguments: &[&str]) -> String {
    let authority = site.authority().display().to_string();
    let mut all = vec![
        "-sS",
        "-g",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %{http_version}",
    ];
    all.extend(["--cacert", &authority]);
    all.extend(arguments);
    command("curl", &all, b"").success().text()
}

#[test]
fn real_clients_and_other_sockets() {
    with_each(|program, site, server| {
        let (plain, tls) = (server.port("plain"), server.port("tls"));
        let secure = format!("https://localhost:{tls}/basic/a.txt");
        for user in [
            "user", "md5", "apr1", "sha256", "sha512", "bcrypt", "yescrypt",
        ] {
            let right = format!("{user}:secret");
            assert_eq!(
                curl(site, &["-u", &right, &secure]),
                "200 2",
                "{program:?} {user}"
            );
            let right = curl(site, &["--http1.1", "--anyauth", "-u", &right, &secure]);
            assert_eq!(right, "200 1.1", "{program:?} {user}");
            let wrong = format!("{user}:secret2");
            assert_eq!(
                curl(site, &["-u", &wrong, &secure]),
                "401 2",
                "{program:?} {user}"
            );
        }
        // The file is another one from now on.
        site.write("users.new", "user:{PLAIN}changed\n");
        std::fs::rename(site.path("users.new"), site.path("users")).expect("the site is ours");
        assert_eq!(curl(site, &["-u", "user:secret", &secure]), "401 2");
        assert_eq!(curl(site, &["-u", "user:changed", &secure]), "200 2");

        let socket = site.path("front.sock").display().to_string();
        let local = ["--unix-socket", &socket, "http://localhost/local/a.txt"];
        assert_eq!(curl(site, &local), "200 1.1", "{program:?}");
        let addresses = ["--unix-socket", &socket, "http://localhost/addresses/a.txt"];
        assert_eq!(curl(site, &addresses), "403 1.1", "{program:?}");
        let real = ["-H", "X-Real-IP: 10.1.1.1"];
        assert_eq!(
            curl(site, &[&real[..], &addresses].concat()),
            "200 1.1",
            "{program:?}"
        );
        let six = format!("http://[::1]:{plain}/local/a.txt");
        assert_eq!(curl(site, &[&six]), "200 1.1", "{program:?}");
        let four = format!("http://127.0.0.1:{plain}/local/a.txt");
        assert_eq!(curl(site, &[&four]), "403 1.1", "{program:?}");
    });
}

/// How many of so many requests in a row are answered with 200; the others get `refused`.
fn let_in(port: u16, target: &str, requests: usize, refused: u16) -> usize {
    let statuses: Vec<u16> = (0..requests)
        .map(|_| wire::get(port, target).status)
        .collect();
    let served = statuses.iter().filter(|status| **status == 200).count();
    let others = statuses.iter().filter(|status| **status == refused).count();
    assert_eq!(served + others, requests, "{target}: {statuses:?}");
    served
}

#[test]
fn so_many_requests_and_no_more() {
    with_each(|program, site, server| {
        let plain = server.port("plain");
        assert_eq!(
            let_in(plain, "/often/a.txt?k=one", 10, 503),
            6,
            "{program:?}"
        );
        assert_eq!(
            let_in(plain, "/often/a.txt?k=", 10, 503),
            10,
            "no key, no limit"
        );
        // They all pass, each in its time.
        assert_eq!(
            let_in(plain, "/leaks/a.txt?k=one", 20, 429),
            20,
            "{program:?}"
        );

        // Streams count as requests.
        let url = format!(
            "https://localhost:{}/often/a.txt?k=streams",
            server.port("tls")
        );
        let load = command("h2load", &["-n", "20", "-c", "1", "-m", "20", &url], b"").success();
        let line = "status codes: 6 2xx, 0 3xx, 0 4xx, 14 5xx";
        assert!(load.text().contains(line), "{program:?}: {}", load.text());

        // Those that wait count, those that have gone too.
        assert_eq!(wire::get(plain, "/later/a.txt?k=later").status, 200);
        let request = b"GET /later/a.txt?k=later HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut waiting = Vec::new();
        for number in 1..=3 {
            let mut connection = Connection::open(plain);
            assert!(connection.send(request));
            waiting.push(connection);
            wait_for("a request that waits", || {
                let count = server
                    .error_log()
                    .matches("delaying request, excess: ")
                    .count();
                let all = server.error_log().matches("k=later").count();
                (count >= number && all >= number).then_some(())
            });
        }
        assert_eq!(
            wire::get(plain, "/later/a.txt?k=later").status,
            503,
            "{program:?}"
        );
        drop(waiting);
        assert_eq!(
            wire::get(plain, "/later/a.txt?k=later").status,
            503,
            "{program:?}"
        );

        // A new configuration takes over what was counted.
        assert_eq!(
            let_in(plain, "/often/a.txt?k=reload", 4, 503),
            4,
            "{program:?}"
        );
        if program == Program::Sealane {
            let text = format!("{}# another one\n", configuration(site));
            assert_eq!(reload::reload(site, server, &text), reload::Reload::Applied);
        }
        assert_eq!(
            let_in(plain, "/often/a.txt?k=reload", 8, 503),
            2,
            "{program:?}"
        );

        // More addresses than a zone has room for: the oldest are forgotten, nobody is refused.
        let mut connection = Connection::open(plain);
        let mut ask = |number: usize| {
            let from = format!("127.{}.{}.1", 1 + number / 250, number % 250);
            let request =
                format!("GET /small/a.txt HTTP/1.1\r\nHost: a\r\nX-Real-IP: {from}\r\n\r\n");
            assert!(connection.send(request));
            connection.response(false).status
        };
        for number in 0..2000 {
            assert_eq!(ask(number), 200, "{program:?} {number}");
        }
        assert_eq!((ask(1999), ask(0)), (503, 200), "{program:?}");
    });
}

/// How a client is when it goes away.
#[derive(Clone, Copy, Debug)]
enum Phase {
    HeadHalfSent,
    BodyHalfSent,
    NoAnswerYet,
    AnswerHalfRead,
}

/// Two requests that get as far as this phase.
fn two_in(phase: Phase, port: u16, key: &str) -> Vec<Connection> {
    let text = match phase {
        Phase::HeadHalfSent => format!("GET /many/large?k={key} HTTP/1.1\r\nHost: a\r\nX-"),
        Phase::BodyHalfSent => {
            format!("POST /hung/?k={key} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")
        }
        Phase::NoAnswerYet => format!("GET /hung/?k={key} HTTP/1.1\r\nHost: a\r\n\r\n"),
        Phase::AnswerHalfRead => format!("GET /many/large?k={key} HTTP/1.1\r\nHost: a\r\n\r\n"),
    };
    let open = |_| {
        let mut connection = Connection::open(port);
        assert!(connection.send(&text));
        connection
    };
    (0..2).map(open).collect()
}

#[test]
fn places_are_given_back_whatever_clients_do() {
    with_each(|program, site, server| {
        let plain = server.port("plain");
        let status = |key: &str| wire::get(plain, &format!("/many/a.txt?k={key}")).status;
        let until = |what: &str, key: &str, wanted: u16| {
            let what = format!("{wanted} of {program:?}, {what}");
            wait_for(&what, || (status(key) == wanted).then_some(()));
        };
        for phase in [
            Phase::HeadHalfSent,
            Phase::BodyHalfSent,
            Phase::NoAnswerYet,
            Phase::AnswerHalfRead,
        ] {
            for resets in [false, true] {
                let (key, what) = (format!("{phase:?}{resets}"), format!("{phase:?}, {resets}"));
                let clients = two_in(phase, plain, &key);
                match phase {
                    Phase::HeadHalfSent => assert_eq!(status(&key), 200, "{program:?}"),
                    _ => until(&what, &key, 429),
                }
                for client in &clients {
                    if resets {
                        let linger = set_linger(client.socket().as_fd(), Some(Duration::ZERO));
                        linger.expect("the socket is ours");
                    }
                }
                drop(clients);
                until(&what, &key, 200);
            }
        }

        // Streams take places as connections do, and give them back one by one.
        let mut client = Client::open(server.port("streams"), &[]);
        let streams = [client.get("/hung/?k=h2"), client.get("/hung/?k=h2")];
        assert_eq!(client.fetch("/many/a.txt?k=h2").status, 429, "{program:?}");
        assert_eq!(status("h2"), 429, "{program:?}");
        client.frame(kind::RST_STREAM, 0, streams[0], &8u32.to_be_bytes());
        until("a stream was reset", "h2", 200);
        let third = client.get("/hung/?k=h2");
        until("another one", "h2", 429);
        client.frame(kind::RST_STREAM, 0, third, &8u32.to_be_bytes());
        drop(client);
        until("the connection has ended", "h2", 200);

        // Over a reload too.
        if program == Program::Sealane {
            let clients = two_in(Phase::NoAnswerYet, plain, "reload");
            until("two wait", "reload", 429);
            let text = format!("{}# another one\n", configuration(site));
            assert_eq!(reload::reload(site, server, &text), reload::Reload::Applied);
            assert_eq!(status("reload"), 429, "they still wait");
            drop(clients);
            until("they have gone", "reload", 200);
        }
    });
}
