use crate::testing::{Reply, Site};

/// The value of a text with variables for a request.
fn value(template: &str, request: &str) -> String {
    let site = Site::new(&format!("location / {{ return 200 '{template}'; }}"));
    site.request(request).text().to_owned()
}

fn get(template: &str, target: &str) -> String {
    value(
        template,
        &format!("GET {target} HTTP/1.1\r\nHost: Example.ORG:8080\r\n\r\n"),
    )
}

#[test]
fn the_request_line() {
    assert_eq!(
        get(
            "$request|$request_method|$request_uri|$uri|$document_uri|$args|$query_string|$is_args|$server_protocol",
            "/a%20b/../c?x=1"
        ),
        "GET /a%20b/../c?x=1 HTTP/1.1|GET|/a%20b/../c?x=1|/c|/c|x=1|x=1|?|HTTP/1.1"
    );
    assert_eq!(get("$args|$is_args|", "/"), "||");
    assert_eq!(
        value("$request_method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n"),
        "BREW"
    );
    let absolute = |target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        value("$request_uri|$uri|$host", &request)
    };
    assert_eq!(absolute("http://b/c?d"), "/c?d|/c|b");
    assert_eq!(absolute("http://b"), "/|/|b");
    assert_eq!(absolute("http://b?d"), "?d|/|b");
    assert_eq!(
        value("$server_protocol $host", "GET / HTTP/1.0\r\n\r\n"),
        "HTTP/1.0 site"
    );
    for written in [
        "HTTP/1.12",
        "HTTP/1.2",
        "HTTP/1.00",
        "HTTP/1.01",
        "HTTP/1.1 ",
    ] {
        let request = format!("GET / {written}\r\nHost: a\r\n\r\n");
        let protocol = value("$server_protocol", &request);
        assert_eq!(protocol, written.trim_end());
    }
}

#[test]
fn hosts_and_ports() {
    assert_eq!(
        get(
            "$host|$http_host|$request_port|$is_request_port|$server_name",
            "/"
        ),
        "example.org|Example.ORG:8080|8080|:|site"
    );
    assert_eq!(
        value(
            "$host|$is_request_port$request_port|",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        ),
        "a||"
    );
}

#[test]
fn request_headers() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx-a: 2\r\nCookie: a=1; B=2\r\nCookie: c=3\r\nContent-Type: t/x\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(
        value("$http_x_a|$http_X_A|$http_none|", request),
        "1, 2|1, 2||"
    );
    assert_eq!(
        value(
            "$http_cookie|$cookie_a|$cookie_b|$cookie_c|$cookie_d|",
            request
        ),
        "a=1; B=2; c=3|1|2|3||"
    );
    assert_eq!(value("$content_type|$content_length", request), "t/x|0");
}

#[test]
fn cookies_by_whole_name() {
    let cookie = |text: &str| {
        value(
            "$cookie_id",
            &format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {text}\r\n\r\n"),
        )
    };
    assert_eq!(cookie("xid=1; id=2"), "2");
    assert_eq!(cookie("id2=1;id=a=b"), "a=b");
    assert_eq!(cookie("id; ID = x"), "x");
    assert_eq!(cookie("other=id=1"), "");
}

#[test]
fn arguments_by_whole_name() {
    assert_eq!(
        get("$arg_a|$arg_b|$arg_c|$arg_d|", "/?xa=0&A=1&b=&c&a=2&d=%41"),
        "1|||%41|"
    );
}

#[test]
fn captures_by_number_and_name() {
    let site =
        Site::new("location ~ ^/(?<first>\\w+)/(\\d+)?/ { return 200 \"$first|$1|$2|$3|\"; }");
    assert_eq!(site.get("/abc/12/").text(), "abc|abc|12||");
    assert_eq!(site.get("/abc//").status(), 404, "slashes are merged");
    // A match without groups takes the numbered ones away, the named ones stay.
    let site = Site::new(
        "location ~ ^/(?<first>\\w+)/x { try_files /none /second; } location ~ ^/second$ { return 200 \"$first|$1|\"; }",
    );
    assert_eq!(site.get("/abc/x").text(), "abc||");
}

#[test]
fn captures_of_the_server_s_name() {
    let site = Site::with_http(
        "server { listen 127.0.0.1:80; server_name ~^(?<sub>\\w+)\\.test$; location / { return 200 $sub,$1; } }
         server { listen 127.0.0.1:80; server_name plain; return 200 plain; }",
    );
    let ask = |host: &str| {
        site.request(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .text()
            .to_owned()
    };
    assert_eq!(ask("anna.test"), "anna,anna");
    assert_eq!(ask("plain"), "plain");
}

#[test]
fn files_and_their_root() {
    let site = Site::new(
        "location / { return 200 $document_root|$request_filename|$realpath_root; } \
         location /al/ { alias DIR/x/; return 200 $document_root|$request_filename; }",
    );
    let root = site.root().display().to_string();
    let real = std::fs::canonicalize(site.root()).expect("it exists");
    assert_eq!(
        site.get("/a/b").text(),
        format!("{root}|{root}/a/b|{}", real.display())
    );
    assert_eq!(site.get("/al/b").text(), format!("{root}/x/|{root}/x/b"));
}

#[test]
fn credentials() {
    let user = |credentials: &str| {
        value(
            "$remote_user|",
            &format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: {credentials}\r\n\r\n"),
        )
    };
    assert_eq!(user("Basic YW5uYTpzZWNyZXQ="), "anna|");
    assert_eq!(user("basic   YW5uYTpzZWNyZXQ="), "anna|");
    assert_eq!(user("Basic YW5uYQ=="), "|", "no colon");
    assert_eq!(user("Basic !!!"), "|");
    assert_eq!(user("Bearer YW5uYTpzZWNyZXQ="), "|");
}

#[test]
fn the_two_ends() {
    let site = Site::new(
        "location / { return 200 $remote_addr|$remote_port|$server_addr|$server_port|$connection|$scheme|$https|$realip_remote_addr; }",
    );
    let reply = site.get("/");
    assert_eq!(
        reply.text(),
        format!(
            "192.0.2.7|4711|127.0.0.1|{}|7|http||192.0.2.7",
            reply.local_port()
        )
    );
    let site = Site::new("location / { return 200 $binary_remote_addr; }");
    assert_eq!(site.get("/").body, [192, 0, 2, 7]);
    let site = Site::new("location / { return 200 $tcpinfo_rtt,$tcpinfo_snd_cwnd; }");
    let reply = site.get("/");
    let numbers: Vec<u64> = reply
        .text()
        .split(',')
        .map(|n| n.parse().expect("a number"))
        .collect();
    assert_eq!(numbers.len(), 2);
}

#[test]
fn identifiers_are_random_and_stay() {
    let site = Site::new("location / { return 200 $request_id,$request_id; }");
    let reply = site.get("/");
    let (first, second) = reply.text().split_once(',').expect("two");
    assert_eq!(first, second);
    assert!(
        first.len() == 32
            && first
                .bytes()
                .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
    );
    assert_ne!(site.get("/").text(), reply.text());
}

#[test]
fn times() {
    let reply = Site::new("location / { return 200 $msec|$time_iso8601|$time_local|$request_time|$pid|$nginx_version; }").get("/");
    let fields: Vec<_> = reply.text().split('|').collect();
    let now: f64 = fields[0].parse().expect("seconds");
    let real = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    assert!((now - real.as_secs_f64()).abs() < 60.0);
    assert_eq!((fields[1].len(), fields[2].len()), (25, 26));
    assert_eq!(
        fields[3]
            .split_once('.')
            .map(|(_, decimals)| decimals.len()),
        Some(3)
    );
    assert_eq!(fields[4], std::process::id().to_string());
    assert_eq!(fields[5], super::process::NGINX_VERSION);
}

fn sent(reply: &Reply, name: &str) -> Option<String> {
    let mut out = Vec::new();
    let found = super::response::header(&reply.exchange, name, &mut out);
    found.then(|| String::from_utf8(out).expect("text"))
}

#[test]
fn response_headers() {
    let site = Site::new("add_header X-A 1; add_header X-A 2; location /r { return 301 /to; }");
    site.file("a.txt", "hello");
    let reply = site.get("/a.txt");
    for (name, expected) in [
        ("content_type", Some("text/plain")),
        ("content_length", Some("5")),
        ("last_modified", Some("Sun, 09 Sep 2001 01:46:40 GMT")),
        ("etag", Some("\"3b9aca00-5\"")),
        ("accept_ranges", Some("bytes")),
        ("x_a", Some("1, 2")),
        ("connection", Some("keep-alive")),
        ("transfer_encoding", None),
        ("location", None),
        ("x_b", None),
    ] {
        assert_eq!(sent(&reply, name).as_deref(), expected, "{name}");
    }
    let reply = site.get("/r");
    let location = format!("http://example.org:{}/to", reply.local_port());
    assert_eq!(sent(&reply, "location"), Some(location));
}

#[test]
fn every_variable_can_be_asked_for() {
    for (name, ..) in sealane_conf::variables::BUILTINS {
        let name = if name.ends_with('_') {
            format!("{name}x")
        } else {
            (*name).to_owned()
        };
        let reply = Site::new(&format!("location / {{ return 200 \"[${{{name}}}]\"; }}")).get("/");
        assert!(
            reply.body.starts_with(b"[") && reply.body.ends_with(b"]"),
            "{name}"
        );
    }
}

/// A value that is made of itself is a mistake in the configuration: it must not cost the worker.
#[test]
fn values_made_of_themselves() {
    let cycles = [
        (
            "root /x$request_filename;",
            "$request_filename|$document_root",
        ),
        ("root /x$request_filename;", "$realpath_root"),
        ("limit_rate $limit_rate;", "$limit_rate"),
        (
            "secure_link \"$secure_link_expires$secure_link,1\"; \
             secure_link_md5 \"$secure_link $secure_link_expires\";",
            "$secure_link|$secure_link_expires",
        ),
        (
            "secure_link \"AAAAAAAAAAAAAAAAAAAAAA,9\"; \
             secure_link_md5 \"$secure_link$secure_link$secure_link_expires\";",
            "$secure_link|$secure_link_expires",
        ),
        (
            "secure_link $mapped; secure_link_md5 $mapped;",
            "$mapped|$secure_link",
        ),
        ("root /$mapped;", "$document_root$mapped"),
    ];
    for (directives, value) in cycles {
        let site = Site::with_http(&format!(
            "map $secure_link$request_filename $mapped {{ default $request_filename$secure_link; }} \
             server {{ listen 127.0.0.1:80; server_name site; location / {{ {directives} return 200 '{value}'; }} }}"
        ));
        assert_eq!(site.get("/a").status(), 200, "{directives}");
        let log = site.error_log();
        assert!(
            log.contains("cycle while evaluating variable"),
            "{directives}: {log}"
        );
        // What was under way is over.
        assert_eq!(site.get("/a").status(), 200, "{directives}");
    }
}
