//! `more_set_headers` and the others of the headers-more module: fields of responses, whatever
//! they come from, and of requests, as access rules, variables and origins see them.

use sealane_tests::http2::Client;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{Connection, Response, get, get_with, request};
use sealane_tests::{Server, Site, command};
use std::time::{Duration, SystemTime};

const RESPONSES: &str = r#"
    types { text/html html; text/plain txt; }
    proxy_cache_path cache keys_zone=kept:1m;
    more_set_headers "X-Http: h" "X-Over: http";
    server {
        listen 127.0.0.1:%plain%;
        listen 127.0.0.1:%two%;
        http2 on;
        root html;
        more_set_headers "X-Over: $uri" "Server: mine";
        more_set_headers -s '404 500' -s 503 "Retry-After: 5";
        location / { }
        location /type/ {
            alias html/;
            more_set_headers -t 'text/html text/css' "X-Page: yes";
            more_clear_headers -t text/plain X-Http;
        }
        location /clear/ {
            alias html/;
            more_clear_headers Server Date Last-Modified ETag Content-Length Accept-Ranges;
            more_clear_headers Connection Transfer-Encoding "X-*";
        }
        location /content/ {
            alias html/;
            gzip on; gzip_types text/css; gzip_min_length 1;
            more_set_headers "Content-Type: text/css; charset=koi8-r";
        }
        location /add/ {
            alias html/;
            add_header X-Over added;
            more_set_headers -a "X-Over: more" "X-New: new";
        }
        location /if {
            more_set_headers "X-If: no";
            if ($arg_a) { more_set_headers "X-If: $arg_a"; }
            return 200 "text";
        }
        location /seen/ {
            alias html/;
            more_set_headers 'Last-Modified: never';
            add_header X-Seen "$sent_http_last_modified, $sent_http_x_http";
        }
        location /moved { more_set_headers "Location: /there"; return 302 /here; }
        location /origin/ { proxy_pass http://127.0.0.1:ORIGIN; more_set_headers "X-A: ours"; more_clear_headers "X-Hidden-*" X-B; }
        location /kept/ {
            proxy_pass http://127.0.0.1:ORIGIN;
            proxy_cache kept; proxy_cache_valid 1m; add_header X-Cache $upstream_cache_status;
            more_set_headers "X-A: $upstream_cache_status"; more_clear_headers X-B;
        }
        location /pages/ { error_page 404 /page.html; }
    }
"#;

fn site() -> Site {
    let site = Site::new();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (name, text) in [("page.html", "<p>page</p>"), ("text.txt", "a text")] {
        let path = site.write(format!("html/{name}"), text);
        let file = std::fs::File::open(path).expect("just written");
        file.set_modified(modified).expect("the file is ours");
    }
    site
}

/// One that answers with fields to change.
fn origin() -> Origin {
    Origin::answering(|_| {
        let head = "HTTP/1.1 200 OK\r\nServer: origin\r\nX-A: 1\r\nX-a: 2\r\nX-B: b\r\n\
                    X-Hidden-1: h\r\nx-hidden-two: h\r\nContent-Length: 4\r\n\r\nbody";
        Answer::Send(head.into())
    })
}

fn serve<'s>(site: &'s Site, origin: &Origin) -> Server<'s> {
    site.serve(&RESPONSES.replace("ORIGIN", &origin.port().to_string()))
}

#[test]
fn fields_of_responses_are_replaced_level_by_level() {
    let (site, origin) = (site(), origin());
    let server = serve(&site, &origin);
    let get = |target: &str| get(server.port("plain"), target);
    let page = get("/page.html");
    assert_eq!(page.headers("X-Over"), ["/page.html"]);
    assert_eq!(page.headers("Server"), ["mine"]);
    assert_eq!(
        (page.header("X-Http"), page.header("Retry-After")),
        (Some("h"), None)
    );
    // Every status, unless they are listed.
    let missing = get("/missing");
    assert_eq!(missing.status, 404);
    assert_eq!(missing.headers("Server"), ["mine"]);
    assert_eq!(missing.header("Retry-After"), Some("5"));
    let invalid = request(server.port("plain"), "GET / HTTP/1.1\r\n\r\n");
    assert_eq!(
        (invalid.status, invalid.header("Server")),
        (400, Some("mine"))
    );
    // A page of another location, with the status of the error.
    let page = get("/pages/none");
    assert_eq!((page.status, page.header("Retry-After")), (404, Some("5")));
    assert_eq!(page.text(), "<p>page</p>");
    // By type.
    assert_eq!(get("/type/page.html").header("X-Page"), Some("yes"));
    let text = get("/type/text.txt");
    assert_eq!((text.header("X-Page"), text.header("X-Http")), (None, None));
    // `if`, after its location.
    assert_eq!(get("/if").headers("X-If"), ["no"]);
    assert_eq!(get("/if?a=yes").headers("X-If"), ["yes"]);
    // What add_header adds comes later, and `-a` adds too.
    assert_eq!(
        get("/add/text.txt").headers("X-Over"),
        ["/add/text.txt", "more", "added"]
    );
    let seen = get("/seen/text.txt");
    assert_eq!(seen.headers("Last-Modified"), ["never"]);
    assert_eq!(seen.header("X-Seen"), Some("never, h"));
    let moved = get("/moved").header("Location").map(str::to_owned);
    let expected = format!("http://localhost:{}/there", server.port("plain"));
    assert_eq!(moved, Some(expected));
}

#[test]
fn what_the_server_writes_itself_is_cleared_and_messages_still_end() {
    let (site, origin) = (site(), origin());
    let server = serve(&site, &origin);
    // On one connection: the next response is found only if the first has ended.
    let mut connection = Connection::open(server.port("plain"));
    for round in 0..2 {
        connection.send("GET /clear/text.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = connection.response(false);
        assert_eq!(response.text(), "a text", "{round}");
        let gone = [
            "Server",
            "Date",
            "Last-Modified",
            "ETag",
            "Content-Length",
            "Accept-Ranges",
        ];
        for name in gone.into_iter().chain(["X-Http", "X-Over"]) {
            assert_eq!(response.header(name), None, "{name}");
        }
        // These are about the connection, and stay.
        assert_eq!(response.header("Transfer-Encoding"), Some("chunked"));
        assert_eq!(response.header("Connection"), Some("keep-alive"));
    }
    // Body filters see the type.
    let port = server.port("plain");
    let zipped = get_with(port, "/content/text.txt", "Accept-Encoding: gzip\r\n");
    assert_eq!(zipped.header("Content-Encoding"), Some("gzip"));
    assert_eq!(zipped.headers("Content-Type"), ["text/css; charset=koi8-r"]);
}

#[test]
fn other_statuses_and_ranges_have_the_fields_once() {
    let (site, origin) = (site(), origin());
    let server = serve(&site, &origin);
    let port = server.port("plain");
    let get = |target: &str, headers: &str| get_with(port, target, headers);
    let since = "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n";
    let unchanged = get("/page.html", since);
    assert_eq!(
        (unchanged.status, unchanged.header("X-Over")),
        (304, Some("/page.html"))
    );
    let part = get("/add/text.txt", "Range: bytes=0-0\r\n");
    assert_eq!((part.status, part.text()), (206, "a".into()));
    assert_eq!(part.headers("X-New"), ["new"]);
    // A 416 takes the place of a response that has been changed, and is changed again.
    let none = get("/add/text.txt", "Range: bytes=90-\r\n");
    assert_eq!(none.status, 416);
    assert_eq!(
        (none.headers("X-New"), none.headers("Server")),
        (vec!["new", "new"], vec!["mine"])
    );
    let head = request(
        port,
        "HEAD /clear/text.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!((head.status, head.header("Content-Length")), (200, None));
}

#[test]
fn responses_of_other_servers_and_of_caches_are_changed() {
    let (site, origin) = (site(), origin());
    let server = serve(&site, &origin);
    let port = server.port("plain");
    let passed = get(port, "/origin/");
    assert_eq!(passed.text(), "body");
    assert_eq!(
        (passed.headers("X-A"), passed.headers("Server")),
        (vec!["ours"], vec!["mine"])
    );
    for name in ["X-B", "X-Hidden-1", "X-Hidden-Two"] {
        assert_eq!(passed.header(name), None, "{name}");
    }
    // The cache keeps what the origin sent; the change is made each time.
    let seen = |response: &Response| {
        let fields = ["X-Cache", "X-A", "X-B"];
        fields.map(|name| response.headers(name).join("|"))
    };
    assert_eq!(seen(&get(port, "/kept/")), ["MISS", "MISS", ""]);
    assert_eq!(seen(&get(port, "/kept/")), ["HIT", "HIT", ""]);
    assert_eq!(origin.take_asked().len(), 2);
}

#[test]
fn http2_has_the_same_fields() {
    let (site, origin) = (site(), origin());
    let server = serve(&site, &origin);
    let mut client = Client::open(server.port("two"), &[]);
    let response = client.fetch("/page.html");
    let field = |name: &str| {
        response
            .fields
            .iter()
            .filter(|(known, _)| known == name)
            .count()
    };
    assert_eq!(response.field("server"), Some("mine"));
    assert_eq!((field("server"), field("x-over")), (1, 1));
    let cleared = client.fetch("/clear/text.txt");
    assert_eq!(cleared.body, b"a text");
    for name in ["server", "date", "content-length", "etag", "x-http"] {
        assert_eq!(cleared.field(name), None, "{name}");
    }
    let missing = client.fetch("/missing");
    assert_eq!(
        (missing.status, missing.field("retry-after")),
        (404, Some("5"))
    );
}

const REQUESTS: &str = r#"
    server {
        listen 127.0.0.1:%plain%;
        listen 127.0.0.1:%two%;
        http2 on;
        server_name first;
        more_set_input_headers "X-All: $host";
        location / { proxy_pass http://127.0.0.1:ORIGIN; }
        location /set {
            more_set_input_headers "X-One: 1" "User-Agent: $arg_agent" "Cookie: a=b";
            proxy_pass http://127.0.0.1:ORIGIN;
            proxy_set_header X-Seen "$http_x_one $http_user_agent $cookie_a";
        }
        location /replace {
            more_set_input_headers -r "X-One: new" "X-Two: new";
            more_set_input_headers -t 'text/plain text/css' "X-Type: $content_type";
            proxy_pass http://127.0.0.1:ORIGIN;
        }
        location /clear {
            more_clear_input_headers X-One "X-Many-*" "Content-*" Accept;
            proxy_pass http://127.0.0.1:ORIGIN;
        }
        location /host {
            more_set_input_headers "Host: Other.Example:8080";
            proxy_pass http://127.0.0.1:ORIGIN;
            proxy_set_header X-Seen "$host $http_host $server_name";
        }
        location /nohost { more_set_input_headers "Host: $arg_h"; proxy_pass http://127.0.0.1:ORIGIN; proxy_set_header X-Seen $host; }
        location /secret {
            if ($arg_token = "right") { more_set_input_headers "Authorization: Basic dTpw"; }
            more_clear_input_headers Authorization-None;
            auth_basic realm;
            auth_basic_user_file users;
            proxy_pass http://127.0.0.1:ORIGIN;
        }
        location /moved {
            more_set_input_headers "X-Left: yes";
            rewrite ^ /arrived;
        }
        location /arrived { more_set_input_headers "X-One: $http_x_left $uri"; proxy_pass http://127.0.0.1:ORIGIN; }
        location /close { more_set_input_headers "Connection: close"; proxy_pass http://127.0.0.1:ORIGIN; }
        location /break { more_set_input_headers "X-One: $arg_v"; set $v $arg_v; rewrite ^/break/(.*)$ /x?v= break; proxy_pass http://127.0.0.1:ORIGIN; }
        location ~ (?s)^/lines/(.*)$ {
            more_set_input_headers "X-One: $1";
            proxy_pass http://127.0.0.1:ORIGIN;
        }
    }
"#;

/// What the origin was asked, in order.
fn asked(origin: &Origin) -> Vec<sealane_tests::origin::Asked> {
    origin.take_asked()
}

#[test]
fn fields_of_requests_reach_variables_access_rules_and_origins() {
    let (site, origin) = (Site::new(), Origin::echo());
    site.write("users", "u:{PLAIN}p\n");
    let server = site.serve(&REQUESTS.replace("ORIGIN", &origin.port().to_string()));
    let port = server.port("plain");
    let only = || asked(&origin).pop().expect("it was asked");
    get_with(
        port,
        "/set?agent=robot",
        "X-One: a\r\nUser-Agent: x\r\nX-one: b\r\nCookie: c=d\r\n",
    );
    let first = only();
    assert_eq!(first.headers("X-One"), ["1"]);
    assert_eq!(first.headers("User-Agent"), ["robot"]);
    assert_eq!(first.headers("Cookie"), ["a=b"]);
    assert_eq!(first.headers("X-Seen"), ["1 robot b"]);
    assert_eq!(first.headers("X-All"), ["localhost"]);
    get_with(port, "/replace", "X-One: a\r\nContent-Type: text/css\r\n");
    let second = only();
    assert_eq!(
        (second.headers("X-One"), second.headers("X-Two")),
        (vec!["new".into()], vec![])
    );
    assert_eq!(second.headers("X-Type"), ["text/css"]);
    get_with(port, "/replace", "Content-Type: text/html\r\n");
    assert_eq!(only().headers("X-Type").len(), 0);
    // A body keeps its length, whatever is cleared.
    let head = "POST /clear HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: a/b\r\n\
                Content-Length: 4\r\nX-One: 1\r\nX-Many-A: 1\r\nx-many-b: 1\r\nAccept: x\r\n\r\nbody";
    assert_eq!(request(port, head).status, 200);
    let third = only();
    assert_eq!(
        (third.headers("Content-Length"), &third.body[..]),
        (vec!["4".into()], &b"body"[..])
    );
    for name in ["X-One", "X-Many-A", "X-Many-B", "Content-Type", "Accept"] {
        assert_eq!(third.headers(name).len(), 0, "{name}");
    }
    let seen = |target: &str| {
        get(port, target);
        only().headers("X-Seen").join("")
    };
    assert_eq!(seen("/host"), "other.example Other.Example:8080 first");
    assert_eq!(seen("/nohost"), "first");
    assert_eq!(seen("/nohost?h=/bad"), "localhost");
    server.wait_for_log("invalid host \"/bad\"");
    assert_eq!(get(port, "/secret").status, 401);
    assert_eq!(get(port, "/secret?token=right").status, 200);
    asked(&origin);
    // In the location that is left, and in the one that is reached.
    get(port, "/moved");
    let moved = only();
    assert_eq!(moved.headers("X-Left"), ["yes"]);
    assert_eq!(moved.headers("X-One"), ["yes /arrived"]);
    // After the rewriting: the argument is that of the new URI.
    get(port, "/break/a?v=old");
    assert_eq!(only().headers("X-One").len(), 0);
    // A client writes no header line of its own.
    get(port, "/lines/a%0d%0aX-Two:%20b");
    let lines = only();
    assert_eq!(
        (lines.headers("X-One"), lines.headers("X-Two")),
        (vec!["a  X-Two: b".into()], vec![])
    );
    let closed = request(port, "GET /close HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(closed.header("Connection"), Some("close"));
    // HTTP/2.
    let mut client = Client::open(server.port("two"), &[]);
    assert_eq!(client.fetch("/set?agent=two").status, 200);
    assert_eq!(only().headers("X-Seen"), ["1 two b"]);
    server.expect_alert("no user/password was provided");
}

#[test]
fn what_frames_messages_cannot_be_set() {
    let site = Site::new();
    let binary = sealane_tests::sealane_binary();
    for (line, said) in [
        (
            "more_set_headers 'Content-Length: 5';",
            "cannot set what frames a response",
        ),
        (
            "more_set_headers 'transfer-encoding: x';",
            "cannot set what frames a response",
        ),
        (
            "more_set_headers 'Connection: $arg_c';",
            "cannot set what frames a response",
        ),
        (
            "more_set_input_headers 'Content-Length: 5';",
            "cannot change what frames a request",
        ),
        (
            "more_clear_input_headers Transfer-Encoding;",
            "cannot change what frames a request",
        ),
        (
            "more_set_headers -a 'Server: x';",
            "cannot append built-in headers",
        ),
        ("more_set_headers -r 'X: x';", "invalid option name: \"-r\""),
        (
            "more_set_input_headers -s 200 'X: x';",
            "invalid option name: \"-s\"",
        ),
        ("more_clear_headers -a X;", "invalid option name: \"-a\""),
        (
            "more_set_headers 'X: x' -s;",
            "needs an argument after \"-s\"",
        ),
        ("more_set_headers -s 2x0 'X: x';", "invalid value \"2x0\""),
        ("more_clear_headers '*';", "invalid header name: \"*\""),
        ("more_set_headers 'X*: x';", "cannot set all headers"),
        (
            "more_set_headers 'X(: x';",
            "invalid header name: \"X(: x\"",
        ),
        (
            "more_set_headers 'X: $nowhere';",
            "unknown \"nowhere\" variable",
        ),
    ] {
        let file = site.write("nginx.conf", format!("events {{}} http {{ {line} }}"));
        let file = file.display().to_string();
        let outcome = command(&binary.display().to_string(), &["-t", "-c", &file], b"");
        assert_eq!(outcome.status, 1, "{line}");
        assert!(outcome.stderr.contains(said), "{line}\n{}", outcome.stderr);
    }
}
