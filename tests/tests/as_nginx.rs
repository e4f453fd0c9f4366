//! Small things that no standard prescribes and that configurations rely on: they are as in
//! nginx.

use sealane_tests::fastcgi::{self, FastCgiOrigin};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{self, Connection, get, get_with};
use sealane_tests::{
    Certificate, CertificateKey, PATIENCE, Site, command, handshake, http2, sealane_binary,
    wait_for,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// With `proxy_request_buffering off` a body that came with its head is a received one: the log
/// and other locations see it, and another server can be tried.
#[test]
fn an_unbuffered_body_that_came_at_once_is_there_for_everyone() {
    let site = Site::new();
    let refuses = Origin::answering(|_| {
        Answer::Send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    let takes = Origin::echo();
    let server = site.serve(&format!(
        r#"
        upstream both {{ server 127.0.0.1:{}; server 127.0.0.1:{}; }}
        proxy_request_buffering off;
        proxy_http_version 1.1;
        server {{
            listen 127.0.0.1:%plain%;
            location / {{
                proxy_pass http://both;
                proxy_next_upstream http_503 non_idempotent;
                add_header X-Body $request_body;
            }}
            location /elsewhere {{
                proxy_pass http://127.0.0.1:{0};
                proxy_intercept_errors on;
                error_page 503 =200 /page;
            }}
            location = /page {{ return 200 "body: $request_body"; }}
        }}"#,
        refuses.port(),
        takes.port(),
    ));
    for request in [
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(request);
        let response = connection.response(false);
        assert_eq!(response.status, 200, "the second server answers");
        assert_eq!(response.header("X-Body"), Some("hello"));
        assert!(
            response.text().ends_with("\r\n\r\nhello"),
            "{}",
            response.text()
        );
        // Each of the two is the first one in turn.
        connection.send(request);
        assert_eq!(connection.response(false).header("X-Body"), Some("hello"));
    }
    let mut connection = Connection::open(server.port("plain"));
    connection.send("POST /elsewhere HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(connection.response(false).text(), "body: hello");
}

/// What has arrived of a body goes out with the head; the rest follows as it comes.
#[test]
fn the_beginning_of_an_unbuffered_body_goes_out_with_the_head() {
    let site = Site::new();
    let origin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = origin.local_addr().expect("it is bound").port();
    let server = site.serve(&format!(
        r#"
        proxy_request_buffering off;
        proxy_http_version 1.1;
        server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass http://127.0.0.1:{port}; }} }}"#
    ));
    for (framing, first, first_there, rest, rest_there) in [
        ("Content-Length: 8", "half", "half", "rest", "rest"),
        (
            "Transfer-Encoding: chunked",
            "4\r\nhalf\r\n",
            "4\r\nhalf\r\n",
            "4\r\nrest\r\n0\r\n\r\n",
            "4\r\nrest\r\n0\r\n\r\n",
        ),
    ] {
        let mut client = Connection::open(server.port("plain"));
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n{first}"
        ));
        let (mut socket, _) = origin.accept().expect("the server connects");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("it is not zero");
        let mut came = vec![0; 4096];
        let count = socket.read(&mut came).expect("a head and its beginning");
        let text = String::from_utf8_lossy(&came[..count]).into_owned();
        assert!(
            text.ends_with(&format!("\r\n\r\n{first_there}")),
            "one piece: {text}"
        );
        client.send(rest);
        let mut came = vec![0; rest_there.len()];
        socket.read_exact(&mut came).expect("the rest");
        assert_eq!(String::from_utf8_lossy(&came), rest_there);
        socket
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            .expect("the server reads");
        assert_eq!(client.response(false).text(), "ok");
    }
}

/// A FastCGI program may end its output first and its request later.
#[test]
fn a_fastcgi_program_is_not_cut_off_before_it_has_ended_its_request() {
    let site = Site::new();
    let (told, tells) = mpsc::channel();
    let origin = FastCgiOrigin::start(move |_, socket| {
        let output = [
            fastcgi::stdout(b"Content-Type: text/plain\r\n\r\nbody"),
            fastcgi::stdout(b""),
        ];
        let began = socket.write_all(&output.concat()).is_ok();
        // What the server does about the end of the output it has done by now.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let ended = [fastcgi::stderr(b"the end"), fastcgi::end()];
        let is_open = ended.iter().all(|record| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            socket.write_all(record).is_ok()
        });
        let _ = told.send(began && is_open);
        false
    });
    let server = site.serve(&format!(
        r#"
        server {{ listen 127.0.0.1:%plain%; location / {{ fastcgi_pass 127.0.0.1:{}; }} }}"#,
        origin.port()
    ));
    assert_eq!(get(server.port("plain"), "/").text(), "body");
    let is_open = tells.recv_timeout(PATIENCE).expect("the program ends");
    assert!(is_open, "the connection was there to the end");
    server.wait_for_log("FastCGI sent in stderr: \"the end\"");
}

/// What another server says about rate and character set holds for the file that it names, too.
#[test]
fn accelerated_responses_keep_their_rate_and_character_set() {
    let site = Site::new();
    site.write("html/data.html", b"x");
    let origin = Origin::answering(|_| {
        Answer::Send(
            b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /data.html\r\nX-Accel-Limit-Rate: 12345\r\n\
              X-Accel-Charset: koi8-r\r\nContent-Length: 0\r\n\r\n"
                .to_vec(),
        )
    });
    let server = site.serve(&format!(
        r#"
        types {{ text/html html; }}
        server {{
            listen 127.0.0.1:%plain%;
            charset koi8-r;
            location / {{ proxy_pass http://127.0.0.1:{}; }}
            location = /data.html {{
                root html;
                limit_rate 1;
                charset utf-8;
                add_header X-Rate $limit_rate;
            }}
        }}"#,
        origin.port()
    ));
    let response = get(server.port("plain"), "/");
    assert_eq!(response.text(), "x");
    assert_eq!(response.header("X-Rate"), Some("12345"));
    assert_eq!(
        response.header("Content-Type"),
        Some("text/html; charset=koi8-r")
    );
}

/// Trailers have the values of the end, and know of each other.
#[test]
fn trailers_are_evaluated_after_the_body() {
    let site = Site::new();
    site.write("html/data", vec![b'x'; 100_000]);
    let server = site.serve(
        r#"
        log_format trailers "$sent_trailer_x_part";
        server {
            listen 127.0.0.1:%plain%;
            location /data { root html; limit_rate 50000; }
            location / {
                proxy_pass http://127.0.0.1:%plain%/data;
                access_log logs/trailers.log trailers;
                add_header X-Time $request_time;
                add_trailer X-Time $request_time;
                add_trailer X-Part one;
                add_trailer X-Part two;
                add_trailer X-All $sent_trailer_x_part;
            }
        }"#,
    );
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let all = String::from_utf8_lossy(&wire::read_to_close(connection.socket())).into_owned();
    assert!(all.contains("\r\nX-Time: 0.0"), "{}", &all[..500]);
    let (_, trailers) = all.rsplit_once("\r\n0\r\n").expect("a last chunk");
    assert!(
        !trailers.contains("X-Time: 0.0"),
        "the limit takes a second: {trailers}"
    );
    assert!(trailers.contains("X-All: one, two\r\n"), "{trailers}");
    let log = site.path("logs/trailers.log");
    wait_for("the line of the log", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        (text == "one, two\n").then_some(())
    });
}

/// A connection without a request is waiting, and one whose client has gone is not kept for the
/// time that `limit_rate` takes.
#[test]
fn silent_connections_wait_and_slow_responses_end_with_their_client() {
    let site = Site::new();
    let server = site.serve(
        r#"
        server {
            listen 127.0.0.1:%plain%;
            location /slow { limit_rate 1; return 200 "this would take more than half a minute"; }
            location /status { stub_status; }
        }"#,
    );
    let status = || get(server.port("plain"), "/status").text();
    let silent = Connection::open(server.port("plain"));
    wait_for("a waiting connection", || {
        status()
            .contains("Reading: 0 Writing: 1 Waiting: 1")
            .then_some(())
    });
    drop(silent);
    let mut slow = Connection::open(server.port("plain"));
    slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for("a slow response", || {
        status()
            .contains("Reading: 0 Writing: 2 Waiting: 0")
            .then_some(())
    });
    drop(slow);
    server.wait_for_log("client prematurely closed connection while sending response to client");
    wait_for("its end", || {
        status().starts_with("Active connections: 1 ").then_some(())
    });
}

/// What arrived before another server broke off is passed on, through filters, too.
#[test]
fn the_beginning_of_a_broken_response_reaches_the_client() {
    let site = Site::new();
    let origin = Origin::answering(|asked| {
        let framing = match asked.target().as_str() {
            "/length" => "Content-Length: 100\r\n\r\nunfinished",
            _ => "Transfer-Encoding: chunked\r\n\r\na\r\nunfinished\r\n",
        };
        Answer::SendAndClose(format!("HTTP/1.1 200 OK\r\n{framing}").into_bytes())
    });
    let server = site.serve(&format!(
        r#"
        proxy_http_version 1.1;
        server {{
            listen 127.0.0.1:%plain%;
            http2 on;
            location / {{ proxy_pass http://127.0.0.1:{0}; }}
            location /filtered/ {{
                proxy_pass http://127.0.0.1:{0}/;
                sub_filter_types *;
                sub_filter absent -;
            }}
            location /prompt/ {{
                proxy_pass http://127.0.0.1:{0}/;
                proxy_buffering off;
                sub_filter_types *;
                sub_filter absent -;
            }}
        }}"#,
        origin.port()
    ));
    for path in [
        "/length",
        "/chunked",
        "/filtered/length",
        "/filtered/chunked",
        "/prompt/length",
        "/prompt/chunked",
    ] {
        for _ in 0..5 {
            let mut connection = Connection::open(server.port("plain"));
            connection.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let all = wire::read_to_close(connection.socket());
            let text = String::from_utf8_lossy(&all).into_owned();
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            let is_chunked = head.contains("chunked");
            let (body, end) = match is_chunked {
                true => wire::without_chunks(body.as_bytes()),
                false => (body.as_bytes().to_vec(), None),
            };
            assert_eq!(String::from_utf8_lossy(&body), "unfinished", "{path}");
            assert_eq!(end, None, "{path}: no last chunk");
            let mut client = http2::Client::open(server.port("plain"), &[]);
            let response = client.fetch(path);
            assert_eq!(response.reset, Some(2), "{path}: INTERNAL_ERROR");
            assert_eq!(
                String::from_utf8_lossy(&response.body),
                "unfinished",
                "{path}"
            );
        }
    }
}

#[test]
fn variables_of_headers() {
    let site = Site::new();
    let origin = Origin::answering(|asked| {
        let cookie = match asked.target().as_str() {
            "/spaces" => "tc = content; Path=/",
            "/empty" => "tc=  ; Path=/",
            _ => "tc=content; Path=/",
        };
        let head = format!("HTTP/1.1 200 OK\r\nSet-Cookie: {cookie}\r\nContent-Length: 0\r\n\r\n");
        Answer::Send(head.into_bytes())
    });
    let server = site.serve(&format!(
        r#"
        log_format uri "[$uri]";
        server {{
            listen 127.0.0.1:%plain%;
            access_log logs/uri.log uri;
            location / {{
                proxy_pass http://127.0.0.1:{};
                add_header X-Cookie $upstream_cookie_tc;
                proxy_cookie_flags tc secure httponly;
            }}
            location /type {{ add_header X-Type $content_type; return 204; }}
        }}"#,
        origin.port()
    ));
    let port = server.port("plain");
    let cookie = |path| get(port, path).header("X-Cookie").map(str::to_owned);
    assert_eq!(cookie("/spaces").as_deref(), Some("content"));
    assert_eq!(cookie("/plain").as_deref(), Some("content"));
    assert_eq!(cookie("/empty"), None);
    assert_eq!(
        get(port, "/spaces").header("Set-Cookie"),
        Some("tc=content; Path=/; Secure; HttpOnly")
    );
    let types = get_with(
        port,
        "/type",
        "Content-Type: text/plain\r\nContent-Type: text/html\r\n",
    );
    assert_eq!(types.header("X-Type"), Some("text/plain, text/html"));
    assert_eq!(get(port, "/../outside").status, 400);
    let host = wire::request(port, "GET http://[ab..cd::1]/ HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(host.status, 400);
    let log = site.path("logs/uri.log");
    wait_for("the line of a URI that leaves the root", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().any(|line| line == "[]").then_some(())
    });
}

/// Bytes that are compressed already are neither converted nor said to be in another set.
#[test]
fn what_is_compressed_is_not_converted() {
    let site = Site::new();
    site.write("html/t.html", vec![b'X'; 99]);
    let zip = command("gzip", &["-9c"], &[b'X'; 99]).success().stdout;
    site.write("html/t.html.gz", &zip);
    let server = site.serve(
        r#"
        types { text/html html; }
        charset_map B A { 58 59; }
        server {
            listen 127.0.0.1:%plain%;
            root html;
            gzip_static on;
            location / { charset A; source_charset B; }
            location /same/ { alias %site%/html/; charset A; source_charset A; }
        }"#
        .replace("%site%", &site.path("").display().to_string())
        .trim(),
    );
    let port = server.port("plain");
    let plain = get(port, "/t.html");
    assert_eq!(plain.header("Content-Type"), Some("text/html; charset=A"));
    assert_eq!(plain.body, [b'Y'; 99]);
    let packed = get_with(port, "/t.html", "Accept-Encoding: gzip\r\n");
    assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
    assert_eq!(packed.header("Content-Type"), Some("text/html"));
    assert_eq!(packed.body, zip);
    let same = get_with(port, "/same/t.html", "Accept-Encoding: gzip\r\n");
    assert_eq!(same.header("Content-Type"), Some("text/html; charset=A"));
    assert_eq!(same.body, zip);
}

/// `limit_rate` is about all that is sent: a long head takes its time like a body.
#[test]
fn heads_are_held_back_by_limit_rate() {
    let site = Site::new();
    let long = "x".repeat(3000);
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; limit_rate 1000; add_header X-Long {long}; return 200 end; }}"
    ));
    let since = Instant::now();
    let response = get(server.port("plain"), "/");
    // The first second's worth leaves at once.
    assert!(since.elapsed() >= Duration::from_millis(1900));
    assert_eq!(response.header("X-Long"), Some(&*long));
    assert_eq!(response.text(), "end");
}

/// Certificates and keys need not lie on a disk.
#[test]
fn certificates_may_come_through_fifos() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("one", CertificateKey::P256));
    let mut writers = Vec::new();
    for name in ["one.pem", "one.key", "authority.pem"] {
        let path = site.path(format!("certificates/{name}"));
        let fifo = path
            .with_extension("fifo")
            .with_file_name(format!("{name}.fifo"));
        command("mkfifo", &[&fifo], b"").success();
        let content = std::fs::read(path).expect("it was made");
        // It waits for a reader.
        writers.push(std::thread::spawn(move || std::fs::write(fifo, content)));
    }
    let server = site.serve(
        "server { listen 127.0.0.1:%tls% ssl; return 204;
         ssl_verify_client optional; ssl_client_certificate certificates/authority.pem.fifo;
         ssl_certificate certificates/one.pem.fifo; ssl_certificate_key certificates/one.key.fifo; }",
    );
    for writer in writers {
        assert!(writer.join().is_ok_and(|written| written.is_ok()));
    }
    let shaken = handshake(&server, "");
    assert!(
        shaken.succeeded() && shaken.subject.contains("one"),
        "{shaken:?}"
    );
}

/// nginx would wait for ever.
#[test]
fn a_fifo_that_stays_empty_ends_the_start() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("one", CertificateKey::P256));
    let fifo = site.path("certificates/silent.fifo");
    command("mkfifo", &[&fifo], b"").success();
    let text = "events { } http { server { listen 127.0.0.1:%tls% ssl;
         ssl_certificate certificates/silent.fifo; ssl_certificate_key certificates/one.key; } }";
    let file = site.write("silent.conf", site.fill_in(text));
    let program = sealane_binary().display().to_string();
    let outcome = command(&program, &["-t", "-c", &file.display().to_string()], b"");
    assert_ne!(outcome.status, 0);
    let expected = "nothing was written to this FIFO for 10 s";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
}

/// `subrequest_output_buffer_size` is the location's that answers.
#[test]
fn responses_that_become_variables_have_a_limit() {
    let site = Site::new();
    site.write(
        "html/page.html",
        "<!--#include virtual=\"/$arg_of\" set=\"x\" -->set: <!--#echo var=\"x\" -->",
    );
    site.write("html/long", vec![b'x'; 400]);
    site.write("html/longer", vec![b'x'; 4000]);
    let server = site.serve(
        r#"
        server {
            listen 127.0.0.1:%plain%;
            root html;
            location = /page.html { ssi on; ssi_types *; }
            location = /long { subrequest_output_buffer_size 300; }
        }"#,
    );
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET /page.html?of=long HTTP/1.1\r\nHost: h\r\n\r\n");
    let all = wire::read_to_close(connection.socket());
    let all = String::from_utf8_lossy(&all);
    assert!(all.is_empty(), "not even a head may come: {all}");
    server.wait_for_log("too big subrequest response: ");
    let longer = get(server.port("plain"), "/page.html?of=longer").text();
    assert_eq!(longer.len(), 4000 + "set: ".len());
}

/// Small header buffers are allowed where `connection_pool_size` is as small.
#[test]
fn header_buffers_may_be_as_small_as_connection_pools() {
    let site = Site::new();
    let server = site.serve(
        r#"
        connection_pool_size 128;
        client_header_buffer_size 128;
        large_client_header_buffers 5 256;
        server { listen 127.0.0.1:%plain%; return 204; }"#,
    );
    let line = |bytes: usize| format!("X-Long: {}\r\n", "x".repeat(bytes));
    assert_eq!(get_with(server.port("plain"), "/", &line(200)).status, 204);
    assert_eq!(get_with(server.port("plain"), "/", &line(300)).status, 400);
}

/// `server_tokens` takes any text, for scripts and monitors that look for one.
#[test]
fn the_server_may_have_another_name() {
    let site = Site::new();
    let server = site.serve(
        r#"
        server {
            listen 127.0.0.1:%plain%;
            http2 on;
            server_tokens nginx;
            location / { return 404; }
            location /variable { server_tokens "one of $arg_name"; return 404; }
            location /none { server_tokens ""; return 404; }
            location /off { server_tokens off; return 404; }
        }"#,
    );
    for (path, name) in [
        ("/", "nginx"),
        ("/variable?name=mine", "one of mine"),
        ("/off", "sealane"),
    ] {
        let response = get(server.port("plain"), path);
        assert_eq!(response.header("Server"), Some(name));
        let line = format!("<hr><center>{name}</center>");
        assert!(response.text().contains(&line), "{}", response.text());
        let mut client = http2::Client::open(server.port("plain"), &[]);
        assert_eq!(client.fetch(path).field("server"), Some(name));
    }
    let response = get(server.port("plain"), "/none");
    assert_eq!(response.header("Server"), None);
    assert!(
        response
            .text()
            .ends_with("</center>\r\n</body>\r\n</html>\r\n")
    );
    assert!(!response.text().contains("<hr>"));
}

#[test]
fn old_browsers_are_refreshed_where_that_is_configured() {
    let site = Site::new();
    let server = site.serve(
        r#"
        server {
            listen 127.0.0.1:%plain%;
            msie_refresh on;
            location / { return 301 /elsewhere; }
            location /odd { return 302 "/a b\"><script>"; }
            location /page { error_page 404 http://other.test/; }
            location /other { return 303 /elsewhere; }
            location /off { msie_refresh off; return 301 /elsewhere; }
        }"#,
    );
    let port = server.port("plain");
    let ask = |path, agent| get_with(port, path, &format!("User-Agent: {agent}\r\n"));
    const MSIE: &str = "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)";
    for (path, url) in [
        ("/", "http://localhost:PORT/elsewhere"),
        ("/odd", "http://localhost:PORT/a%20b%22%3E%3Cscript%3E"),
        ("/page", "http://other.test/"),
    ] {
        let response = ask(path, MSIE);
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("Location"), None, "{path}");
        assert_eq!(response.header("Content-Type"), Some("text/html"), "{path}");
        let text = response.text();
        let (_, rest) = text.split_once("content=\"0; URL=").expect("a refresh");
        let (shown, _) = rest
            .split_once("\"></head>")
            .expect("the end of the attribute");
        let url = url.replace("PORT", &port.to_string());
        // A redirect within the server is absolute only in a header.
        assert!(url.ends_with(shown), "{path}: {shown}");
        assert!(!shown.is_empty());
    }
    assert_eq!(ask("/", "Mozilla/5.0 Firefox/140.0").status, 301);
    assert_eq!(ask("/other", MSIE).status, 303);
    assert_eq!(ask("/off", MSIE).status, 301);
}

/// `listen ... multipath` comes and goes with a reload; the kernel may lack it, which is an error
/// of its own.
#[test]
fn multipath_tcp_comes_and_goes_with_a_reload() {
    let site = Site::new();
    let configuration = |option: &str, text: &str| {
        format!(
            "worker_processes 2; pid logs/pid; events {{}} http {{ access_log off;
             server {{ listen 127.0.0.1:%plain% {option}; return 200 {text}; }} }}"
        )
    };
    let server = site.serve_whole(&configuration("", "one"));
    let port = server.port("plain");
    for (option, text) in [
        ("multipath", "two"),
        ("multipath reuseport", "three"),
        ("", "four"),
    ] {
        let file = site.path("sealane.conf");
        std::fs::write(&file, site.fill_in(&configuration(option, text))).expect("writable");
        server.signal("HUP");
        let without = "(93: Protocol not supported)";
        let is_there = wait_for("the new configuration", || {
            let is_new = get(port, "/").text() == text;
            (is_new || server.error_log().contains(without)).then_some(is_new)
        });
        if !is_there {
            server.expect_alert(without);
            return;
        }
    }
}

/// The buffers of connections to other servers; only their being set can be seen from outside.
#[test]
fn connections_to_other_servers_have_the_configured_buffers() {
    let site = Site::new();
    let origin = Origin::echo();
    let server = site.serve(&format!(
        r#"
        upstream origin {{ server 127.0.0.1:{}; keepalive 4; }}
        server {{
            listen 127.0.0.1:%plain%;
            location / {{
                proxy_pass http://origin;
                proxy_socket_rcvbuf 64k;
                proxy_socket_sndbuf 96k;
            }}
        }}"#,
        origin.port()
    ));
    assert_eq!(get(server.port("plain"), "/").status, 200);
    // The idle connection, with `rb` and `tb`: the kernel doubles what was asked for.
    let shown = command(
        "ss",
        &["-tnm", "dst", &format!("127.0.0.1:{}", origin.port())],
        b"",
    );
    let text = shown.success().text();
    assert!(
        text.contains("rb131072") && text.contains("tb196608"),
        "{text}"
    );
}

/// Another server is told how a request went, once it is over; the client hears nothing of it.
#[test]
fn another_server_learns_how_a_request_went() {
    let site = Site::new();
    site.write("html/page", "a page");
    site.write("html/large", vec![b'x'; 64 << 20]);
    let (sender, told) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let origin = Origin::answering(move |asked| {
        let head = String::from_utf8_lossy(&asked.head);
        let line = head.lines().next().unwrap_or_default().to_owned();
        sender
            .lock()
            .expect("no panic")
            .send(line)
            .expect("a reader");
        Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden".to_vec())
    });
    let server = site.serve(&format!(
        r#"
        upstream told {{ server 127.0.0.1:{}; }}
        server {{
            listen 127.0.0.1:%plain%;
            root html;
            post_action @done;
            location @done {{
                proxy_pass http://told/$status/$body_bytes_sent/$request_completion$uri;
            }}
            location /aside {{ post_action /told; return 204; }}
            location = /told {{ internal; proxy_pass http://told; }}
            location /quiet {{ post_action off; return 200; }}
            location /closed {{ return 444; }}
        }}"#,
        origin.port()
    ));
    let told = || told.recv_timeout(PATIENCE).expect("it is told");
    let mut connection = Connection::open(server.port("plain"));
    for (path, status, line) in [
        ("/page", 200, "GET /200/6/OK/page HTTP/1.1"),
        ("/none", 404, "GET /404/"),
        ("/aside", 204, "GET /told HTTP/1.1"),
    ] {
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let response = connection.response(false);
        assert_eq!(response.status, status);
        assert!(!response.text().contains("hidden"));
        let told = told();
        assert!(told.starts_with(line), "{told}");
    }
    assert_eq!(get(server.port("plain"), "/quiet").status, 200);
    let mut closed = Connection::open(server.port("plain"));
    closed.send("GET /closed HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(closed.is_closed());
    // A client that leaves: the response was not complete.
    let mut leaves = Connection::open(server.port("plain"));
    leaves.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    drop(leaves);
    let line = told();
    assert!(
        line.starts_with("GET /200/") && line.ends_with("//large HTTP/1.1"),
        "{line}"
    );
}

/// A body that is read first decides how its request is rewritten, over HTTP/1 and HTTP/2.
#[test]
fn a_body_may_be_read_before_the_first_rewrite() {
    let site = Site::new();
    let server = site.serve(
        r#"
        map $request_body $wanted { default no; "~word" yes; }
        client_max_body_size 8;
        server {
            listen 127.0.0.1:%plain%;
            http2 on;
            client_body_early_read $arg_early $http_x_early;
            if ($request_body = "words") { return 200 "words"; }
            location / { return 200 "late: $wanted"; }
        }"#,
    );
    let ask = |target: &str, headers: &str, body: &str| {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(format!(
            "POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        ));
        connection.response(false)
    };
    assert_eq!(ask("/", "", "words").text(), "late: no");
    assert_eq!(ask("/?early=0", "", "words").text(), "late: no");
    assert_eq!(ask("/?early=1", "", "words").text(), "words");
    assert_eq!(ask("/", "X-Early: on\r\n", "words").text(), "words");
    assert_eq!(ask("/?early=1", "", "sword").text(), "late: yes");
    assert_eq!(ask("/?early=1", "", "too many words").status, 413);
    // In pieces, and as chunks.
    let mut connection = Connection::open(server.port("plain"));
    connection
        .send("POST /?early=1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nwo");
    connection.send("\r\n3\r\nrds\r\n0\r\n\r\n");
    assert_eq!(connection.response(false).text(), "words");
    let url = format!("http://127.0.0.1:{}/?early=1", server.port("plain"));
    let arguments = ["-sS", "--http2-prior-knowledge", "-d", "words", &url];
    assert_eq!(command("curl", &arguments, b"").success().text(), "words");
}
