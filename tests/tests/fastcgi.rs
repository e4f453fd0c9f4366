//! `fastcgi_pass` with PHP-FPM, as Debian ships both: what scripts are told, what becomes of
//! their answers, and the same from nginx.

use sealane_tests::comparison::differences;
use sealane_tests::random::Random;
use sealane_tests::wire::{self, Connection, Response};
use sealane_tests::{Application, Server, Site, command, sha256, wait_for};

/// The configuration of all tests, `%plain%` the port of the server, `%site%` its files.
const CONFIGURATION: &str = r#"
    types { text/html html; text/plain txt; }
    default_type application/octet-stream;
    client_max_body_size 64m;
    upstream php { server unix:%site%/php.sock; keepalive 4; }
    upstream broken_first { server unix:%site%/nobody.sock; server unix:%site%/php.sock backup; }

    server {
        listen 127.0.0.1:%plain%;
        server_name one.test;
        root %site%/html;
        index index.php index.html;
        absolute_redirect off;

        location / { try_files $uri $uri/ /index.php?$args; }
        location ~ \.php$ {
            try_files $uri =404;
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param X_EMPTY $arg_nothing if_not_empty;
            fastcgi_param X_SOME $arg_do if_not_empty;
            fastcgi_param HTTP_PROXY "";
            fastcgi_param HTTP_X_SET "set $arg_do";
            fastcgi_pass unix:%site%/php.sock;
            fastcgi_index index.php;
        }
        # The script and what follows it.
        location /info/ {
            fastcgi_split_path_info ^/info(/.+?\.php)(/.*)$;
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param PATH_INFO $fastcgi_path_info;
            fastcgi_param PATH_TRANSLATED $document_root$fastcgi_path_info;
            fastcgi_index page.php;
            fastcgi_pass php;
        }
        location /index/ {
            include /etc/nginx/fastcgi_params;
            fastcgi_index page.php;
            fastcgi_param SCRIPT_FILENAME $document_root/page.php;
            fastcgi_pass php;
        }
        location /bare/ {
            fastcgi_param SCRIPT_FILENAME %site%/html/page.php;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param HTTP_HOST $host;
            fastcgi_pass_request_headers off;
            fastcgi_pass_request_body off;
            fastcgi_pass php;
        }
        include common.conf;
    }
"#;

/// Locations that differ in one setting; the script is always `page.php`.
const LOCATIONS: &str = r#"
    include /etc/nginx/fastcgi_params;
    fastcgi_param SCRIPT_FILENAME %site%/html/page.php;
    location /plain/ { fastcgi_pass php; }
    location /kept/ { fastcgi_keep_conn on; fastcgi_pass php; }
    location /streamed/ { fastcgi_request_buffering off; fastcgi_pass php; }
    location /unbuffered/ { fastcgi_buffering off; fastcgi_pass php; }
    location /small/ { fastcgi_buffer_size 1k; fastcgi_buffers 4 1k; fastcgi_busy_buffers_size 2k; fastcgi_pass php; }
    location /intercepted/ { fastcgi_intercept_errors on; error_page 404 /errors/404.html; error_page 503 =200 /errors/503.html; fastcgi_pass php; }
    location /hidden/ { fastcgi_hide_header X-One; fastcgi_hide_header Set-Cookie; fastcgi_pass php; }
    location /deaf/ { fastcgi_ignore_headers X-Accel-Redirect; fastcgi_pass php; }
    location /next/ { fastcgi_pass broken_first; }
    location /variable/ { fastcgi_pass unix:$document_root/../php.sock; }
    location /impatient/ { fastcgi_read_timeout 1s; fastcgi_pass php; }
    location /caught/ { fastcgi_catch_stderr "first"; fastcgi_pass php; }
    location /files/ { internal; alias %site%/html/; }
    location /errors/ { internal; }
    location @named { return 200 "named\n"; }
"#;

fn configuration(site: &Site) -> String {
    let whole = CONFIGURATION.replace("include common.conf;", LOCATIONS);
    let directory = site.path("").display().to_string();
    whole.replace("%site%", directory.trim_end_matches('/'))
}

/// A site with PHP-FPM behind it and a server in front.
fn site() -> (Site, Application) {
    let site = Site::new();
    let php = Application::php_fpm(&site, "%site%/php.sock");
    site.write("html/index.php", "<?php echo 'index [', $_SERVER['QUERY_STRING'], '] ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], \"\\n\";");
    site.write("html/a.txt", "a file\n");
    site.write("html/blog/index.php", "<?php echo \"blog\\n\";");
    site.write("html/errors/404.html", "our 404\n");
    site.write("html/errors/503.html", "our 503\n");
    (site, php)
}

/// As `bytes()` of `page.php` makes them.
fn bytes(count: usize) -> Vec<u8> {
    (0..count)
        .map(|n| {
            let n = n % 65536;
            (n * 7 + n / 256) as u8
        })
        .collect()
}

fn get(server: &Server<'_>, target: &str) -> Response {
    wire::get(server.port("plain"), target)
}

fn parameters(response: &Response) -> Vec<String> {
    let text = response.text();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("SERVER_SOFTWARE") && !line.starts_with("SERVER_ADDR"));
    lines
}

#[test]
fn scripts_see_the_request() {
    let (site, _php) = site();
    let server = site.serve(&configuration(&site));
    let port = server.port("plain");
    let request = |head: &str| {
        let response = wire::request(port, head);
        assert_eq!(response.status, 200, "{}", response.text());
        parameters(&response)
    };
    let seen = request(
        "GET /page.php?do=parameters HTTP/1.1\r\nHost: one.test:81\r\nConnection: close\r\n\
         Proxy: evil\r\nX-Set: client\r\nAccept: a\r\nX-Twice: 1\r\nAccept: b\r\nx-twice: 2\r\n\
         Cookie: a=1\r\nCookie: b=2\r\n\r\n",
    );
    let root = site.path("html").display().to_string();
    let expected = [
        "CONTENT_LENGTH=".to_owned(),
        "CONTENT_TYPE=".to_owned(),
        format!("DOCUMENT_ROOT={root}"),
        "DOCUMENT_URI=/page.php".to_owned(),
        "HTTP_ACCEPT=a, b".to_owned(),
        "HTTP_CONNECTION=close".to_owned(),
        "HTTP_COOKIE=a=1; b=2".to_owned(),
        // Debian's file says `$host`.
        "HTTP_HOST=one.test".to_owned(),
        "HTTP_X_SET=set parameters".to_owned(),
        "HTTP_X_TWICE=1, 2".to_owned(),
        "PHP_SELF=/page.php".to_owned(),
        "QUERY_STRING=do=parameters".to_owned(),
        "REDIRECT_STATUS=200".to_owned(),
        "REMOTE_ADDR=127.0.0.1".to_owned(),
        "REMOTE_USER=".to_owned(),
        "REQUEST_METHOD=GET".to_owned(),
        "REQUEST_SCHEME=http".to_owned(),
        "REQUEST_URI=/page.php?do=parameters".to_owned(),
        format!("SCRIPT_FILENAME={root}/page.php"),
        "SCRIPT_NAME=/page.php".to_owned(),
        "SERVER_NAME=one.test".to_owned(),
        "SERVER_PROTOCOL=HTTP/1.1".to_owned(),
        "X_SOME=parameters".to_owned(),
    ];
    assert_eq!(seen, expected);
    // Neither headers nor a body where that is configured; Host by itself.
    let bare = request(
        "POST /bare/?do=parameters HTTP/1.0\r\nHost: x\r\nX-A: b\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert_eq!(
        bare,
        [
            "HTTP_HOST=x",
            "PHP_SELF=",
            "QUERY_STRING=do=parameters",
            "REQUEST_METHOD=POST",
            &format!("SCRIPT_FILENAME={root}/page.php"),
        ]
    );
}

#[test]
fn scripts_are_found() {
    let (site, _php) = site();
    let server = site.serve(&configuration(&site));
    for (target, expected) in [
        ("/a.txt", "a file\n"),
        ("/", "index [] / /index.php\n"),
        ("/?x=1", "index [x=1] /?x=1 /index.php\n"),
        (
            "/wordpress/post?p=1",
            "index [p=1] /wordpress/post?p=1 /index.php\n",
        ),
        ("/blog/", "blog\n"),
        ("/page.php?x", "page /page.php GET [x] -\n"),
        (
            "/info/page.php/more/info?y",
            "page /page.php GET [y] /more/info\n",
        ),
        ("/index/", "page /index/page.php GET [] -\n"),
        ("/variable/?z", "page /variable/ GET [z] -\n"),
        ("/next/", "page /next/ GET [] -\n"),
    ] {
        let response = get(&server, target);
        assert_eq!(
            (response.status, &*response.text()),
            (200, expected),
            "{target}"
        );
    }
    assert_eq!(get(&server, "/missing.php").status, 404);
    // A socket that is not there was tried first.
    server.expect_alert("nobody.sock failed");
    let line = server.wait_for_log(
        "nobody.sock failed (2: No such file or directory) while connecting to upstream",
    );
    assert!(
        line.contains("[crit]") && line.contains("connect() to unix:"),
        "{line}"
    );
}

#[test]
fn bodies_arrive_as_they_were_sent() {
    let (site, _php) = site();
    let server = site.serve(&configuration(&site));
    let port = server.port("plain");
    let mut random = Random::new(6);
    for size in [0, 1, 65_535, 65_536, 20 << 20] {
        let body = random.bytes(size);
        let file = site.write("temporary/body", &body);
        let digest = format!("{size} {} {size}\n", sha256(&body));
        for location in ["plain", "kept", "streamed"] {
            let url = |action: &str| format!("http://127.0.0.1:{port}/{location}/?do={action}");
            let data = format!("@{}", file.display());
            let post = |action: &str, options: &[&str]| {
                let url = url(action);
                let mut words = vec!["-sS", "-H", "Expect:", "--data-binary", &data, &url];
                words.extend_from_slice(options);
                command("curl", &words, b"").success().stdout
            };
            assert_eq!(post("digest", &[]), digest.as_bytes(), "{location} {size}");
            let echoed = post("echo", &[]);
            assert!(echoed == body, "{location} {size}: {} bytes", echoed.len());
            if location != "streamed" {
                // Chunked, and read as a whole before: the length is known then.
                let chunked = post("digest", &["-H", "Transfer-Encoding: chunked"]);
                assert_eq!(chunked, digest.as_bytes(), "{location} {size}");
            }
        }
    }
    let form = format!("http://127.0.0.1:{port}/plain/?do=form");
    let upload = format!("f=@{}", site.path("temporary/body").display());
    let words = ["-sS", "-F", "name=a b", "-F", &upload, &form];
    let text = command("curl", &words, b"").success().text();
    let body = std::fs::read(site.path("temporary/body")).expect("written above");
    assert_eq!(text, format!("{{\"name\":\"a b\"}} {}\n", sha256(&body)));
}

#[test]
fn answers_arrive_as_they_were_sent() {
    let (site, _php) = site();
    let server = site.serve(&configuration(&site));
    for location in ["plain", "kept", "unbuffered", "small"] {
        for (count, length) in [
            (0, ""),
            (1, ""),
            (4097, ""),
            (20 << 20, ""),
            (20 << 20, "&length=1"),
        ] {
            let target = format!("/{location}/?do=bytes&count={count}{length}");
            let response = get(&server, &target);
            assert_eq!(response.status, 200);
            assert!(
                response.body == bytes(count),
                "{target}: {} bytes",
                response.body.len()
            );
            let said = response.header("content-length").map(str::to_owned);
            let expected = (!length.is_empty()).then(|| count.to_string());
            assert_eq!(said.filter(|_| count > 5000), expected, "{target}");
        }
    }
}

#[test]
fn connections_are_kept() {
    let (site, _php) = site();
    let server = site.serve(&configuration(&site));
    // Those of PHP's side that are connected: its are the sockets with a name.
    let path = site.path("php.sock").display().to_string();
    let connections = || {
        let sockets = std::fs::read_to_string("/proc/net/unix").expect("the kernel tells");
        let is_ours = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(5) == Some(&"03") && words.get(7) == Some(&&*path)
        };
        sockets.lines().filter(is_ours).count()
    };
    assert_eq!(get(&server, "/plain/?do=pid").status, 200);
    wait_for("no connection to stay", || {
        (connections() == 0).then_some(())
    });
    let pids: std::collections::BTreeSet<String> = (0..20)
        .map(|_| get(&server, "/kept/?do=pid").text())
        .collect();
    assert_eq!(
        pids.len(),
        1,
        "one process answers on one connection: {pids:?}"
    );
    wait_for("one connection to stay", || {
        (connections() == 1).then_some(())
    });
    // A process that is gone closes it; the next request opens another one.
    let pid = pids.first().expect("some").trim();
    command("kill", &["-KILL", pid], b"").success();
    wait_for("another process", || {
        let next = get(&server, "/kept/?do=pid");
        assert_eq!(next.status, 200);
        (next.text().trim() != pid).then_some(())
    });
}

#[test]
fn errors_are_logged() {
    let (site, _php) = site();
    let server = site.serve(&configuration(&site));
    let response = get(&server, "/plain/?do=errors");
    assert_eq!(response.text(), "complained\n");
    let line =
        server.wait_for_log("FastCGI sent in stderr: \"PHP message: first \"quoted\" warning.");
    assert!(line.contains("[error]"), "{line}");
    assert!(
        line.contains("PHP message: second, of two"),
        "php-fpm sends both in one record: {line}"
    );
    assert!(
        line.contains("\" while reading response header from upstream, client: 127.0.0.1, server: one.test, request: \"GET /plain/?do=errors HTTP/1.1\", upstream: \"fastcgi://unix:"),
        "{line}"
    );
    let response = get(&server, "/plain/?do=late_errors");
    assert_eq!(response.text(), "before\nafter\n");
    let line =
        server.wait_for_log("FastCGI sent in stderr: \"PHP message: too late for the head\"");
    assert!(line.contains("while reading upstream"), "{line}");
    // A text that is looked for makes the answer a failure.
    assert_eq!(get(&server, "/caught/?do=errors").status, 502);
    assert_eq!(get(&server, "/caught/?do=late_errors").status, 200);
    let missing = get(&server, "/info/missing.php/x");
    assert_eq!(
        (missing.status, &*missing.text()),
        (404, "File not found.\n")
    );
    server.wait_for_log("FastCGI sent in stderr: \"Primary script unknown\" while reading response header from upstream");
}

#[test]
fn pieces_reach_the_client_at_once() {
    let (site, _php) = site();
    let server = site.serve(&configuration(&site));
    for location in ["unbuffered", "plain"] {
        let directory = site.path(format!("temporary/{location}"));
        std::fs::create_dir(&directory).expect("the site is ours");
        let mut connection = Connection::open(server.port("plain"));
        connection.send(format!(
            "GET /{location}/?do=steps&dir={} HTTP/1.0\r\nHost: x\r\n\r\n",
            directory.display()
        ));
        // Were a piece held back, the script would wait for its file for ever.
        let mut seen = String::new();
        for step in 1..=3 {
            while !seen.contains(&format!("step {step}\n")) {
                let mut piece = [0; 1024];
                let count = std::io::Read::read(&mut connection.socket(), &mut piece);
                let count = count.expect("a piece comes");
                assert!(count > 0, "ended: {seen}");
                seen.push_str(&String::from_utf8_lossy(&piece[..count]));
            }
            std::fs::write(directory.join(format!("step{step}")), "").expect("it is ours");
        }
        assert!(connection.is_closed());
    }
}

#[test]
fn a_script_learns_that_its_client_is_gone() {
    let (site, _php) = site();
    let server = site.serve(&configuration(&site));
    let directory = site.path("temporary");
    let mut connection = Connection::open(server.port("plain"));
    let target = format!("/plain/?do=wait&dir={}", directory.display());
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
    wait_for("the script to begin", || {
        directory.join("begun").exists().then_some(())
    });
    drop(connection);
    let ended = wait_for("the script to end", || {
        let text = std::fs::read_to_string(directory.join("ended")).ok()?;
        (!text.is_empty()).then_some(text)
    });
    assert_eq!(ended, "aborted");
    server.wait_for_log("client prematurely closed connection");
}

#[test]
fn what_fails() {
    let (site, php) = site();
    let server = site.serve(&configuration(&site));
    let port = server.port("plain");
    // Half an answer: the client can see that it is one.
    let mut connection = Connection::open(port);
    connection.send("GET /plain/?do=die HTTP/1.1\r\nHost: x\r\n\r\n");
    let half = connection.rest();
    let text = String::from_utf8_lossy(&half);
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("chunked"),
        "{text:.200}"
    );
    assert!(
        !text.ends_with("0\r\n\r\n"),
        "the last chunk would say that all is there"
    );
    // Closed or reset, whichever a process does that is killed.
    server.wait_for_log(" while reading upstream, client: 127.0.0.1, server: one.test, request: \"GET /plain/?do=die");

    assert_eq!(get(&server, "/small/?do=bighead&count=500").status, 200);
    assert_eq!(get(&server, "/small/?do=bighead&count=2000").status, 502);
    server.wait_for_log("upstream sent too big header while reading response header from upstream");
    assert_eq!(get(&server, "/impatient/?do=sleep&seconds=5").status, 504);
    server.wait_for_log("upstream timed out (110: Connection timed out) while reading response header from upstream");

    let mut connection = Connection::open(port);
    connection.send("GET /plain/?do=length&says=10&sends=5 HTTP/1.1\r\nHost: x\r\n\r\n");
    let short = connection.rest();
    assert!(short.ends_with(&[b"\r\n\r\n", &bytes(5)[..]].concat()));
    server.wait_for_log("upstream prematurely closed FastCGI request while reading upstream");
    let long = get(&server, "/plain/?do=length&says=5&sends=10");
    assert_eq!(long.body, bytes(5));
    server.wait_for_log("upstream sent more data than specified in \"Content-Length\" header");

    drop(php);
    // Its processes end one by one.
    let socket = site.path("php.sock");
    wait_for("nobody to listen", || {
        std::os::unix::net::UnixStream::connect(&socket).err()
    });
    assert_eq!(get(&server, "/plain/").status, 502);
    server.wait_for_log("failed (111: Connection refused) while connecting to upstream");
}

/// The same requests to nginx with the same PHP-FPM.
#[test]
fn as_nginx() {
    let (site, _php) = site();
    let reference = Site::new();
    let ours = site.serve(&configuration(&site));
    let theirs = reference.serve_by_nginx(&configuration(&site));
    ours.expect_alert("nobody.sock failed");
    theirs.expect_alert("nobody.sock failed");
    let body = "x=1&y=2";
    let requests = [
        "GET /page.php?do=parameters HTTP/1.1\r\nHost: one.test\r\nAccept: x\r\nX_Under: 1\r\nX-Empty:\r\n",
        "GET http://other.test:8080/page.php?do=parameters HTTP/1.1\r\nHost: one.test\r\n",
        "GET /page.php?do=parameters HTTP/1.0\r\n",
        "GET /info/page.php/a%20b/c?do=parameters HTTP/1.1\r\nHost: x\r\n",
        "GET /info/page.phpx/a HTTP/1.1\r\nHost: x\r\n",
        "GET /info/?do=parameters HTTP/1.1\r\nHost: x\r\n",
        "GET /index/?do=parameters HTTP/1.1\r\nHost: x\r\n",
        "GET /blog HTTP/1.1\r\nHost: x\r\n",
        "GET /nothing/here?a=b HTTP/1.1\r\nHost: x\r\n",
        "GET /no.php HTTP/1.1\r\nHost: x\r\n",
        "OPTIONS /page.php HTTP/1.1\r\nHost: x\r\n",
        "DELETE /page.php HTTP/1.1\r\nHost: x\r\n",
        "HEAD /page.php HTTP/1.1\r\nHost: x\r\n",
        "HEAD /plain/?do=length&says=10&sends=10 HTTP/1.1\r\nHost: x\r\n",
        "HEAD /kept/?do=length&says=10&sends=10 HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=status&code=204 HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=status&code=304 HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=status&code=404 HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=status&code=500 HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=status&code=418 HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=location&to=/here HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=location&to=http://a.test/ HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=headers HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=headers HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"abc\"\r\n",
        "GET /plain/?do=headers HTTP/1.1\r\nHost: x\r\nIf-Modified-Since: Tue, 09 Nov 2021 00:00:00 GMT\r\n",
        "GET /plain/?do=headers HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\n",
        "GET /hidden/?do=headers HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=bytes&count=100000 HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=bytes&count=100000 HTTP/1.0\r\nHost: x\r\n",
        "GET /plain/?do=bytes&count=100000&length=1 HTTP/1.1\r\nHost: x\r\nRange: bytes=5-9\r\n",
        "GET /kept/?do=length&says=5&sends=10 HTTP/1.1\r\nHost: x\r\n",
        "GET /intercepted/?do=status&code=404 HTTP/1.1\r\nHost: x\r\n",
        "GET /intercepted/?do=status&code=503 HTTP/1.1\r\nHost: x\r\n",
        "GET /intercepted/?do=status&code=500 HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=accel&to=/files/a.txt HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=accel&to=/files/missing HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=accel&to=/index.php%3Fq=1 HTTP/1.1\r\nHost: x\r\n",
        "GET /plain/?do=accel&to=@named HTTP/1.1\r\nHost: x\r\n",
        "GET /deaf/?do=accel&to=/files/a.txt HTTP/1.1\r\nHost: x\r\n",
        "GET /small/?do=bighead&count=2000 HTTP/1.1\r\nHost: x\r\n",
        "GET /small/?do=bighead&count=600 HTTP/1.1\r\nHost: x\r\n",
        "GET /caught/?do=errors HTTP/1.1\r\nHost: x\r\n",
        "GET /next/ HTTP/1.1\r\nHost: x\r\n",
        "GET /variable/?q HTTP/1.1\r\nHost: x\r\n",
        "POST /plain/?do=form HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        "POST /page.php?do=parameters HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n",
        "PUT /plain/?do=echo HTTP/1.1\r\nHost: x\r\n",
    ];
    let requests = requests.into_iter().flat_map(|request| {
        let chunked = format!("3\r\n{}\r\n4\r\n{}\r\n0\r\n\r\n", &body[..3], &body[3..]);
        let framings = match request.starts_with("POST") || request.starts_with("PUT") {
            true => vec![
                ("Content-Length: 7\r\n", body.to_owned()),
                ("Transfer-Encoding: chunked\r\n", chunked),
            ],
            false => vec![("", String::new())],
        };
        framings.into_iter().map(move |(framing, body)| {
            format!("{request}{framing}Connection: close\r\n\r\n{body}")
        })
    });
    let differences = differences(&ours, &theirs, requests, shown);
    assert!(differences.is_empty(), "{differences}");
}

/// What the two must have in common.
fn shown(response: &Response) -> String {
    let mut head: Vec<&str> = response.head.split('\n').collect();
    // nginx leaves out the space before a reason that the script did not give.
    head[0] = head[0].trim_end();
    let is_page = response.text().contains("<center>");
    if is_page {
        // nginx keeps the charset of an answer that it does not show.
        head.retain(|line| !line.starts_with("content-type: "));
    }
    let body = match is_page {
        true => response.text(),
        false => parameters(response).join("\n"),
    };
    format!("{}\n\n{body}", head.join("\n"))
}
