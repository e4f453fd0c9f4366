//! `proxy_pass` beside nginx: the same configuration and the same requests to both, in
//! front of one origin. What the origin receives is equal to the byte, and so is what the
//! client gets, up to the differences that are named here with their reasons.

#[path = "proxy_differential/canned.rs"]
mod canned;
#[path = "proxy_differential/rewriting.rs"]
mod rewriting;

use canned::canned;
use sealane_tests::comparison::{as_sent, nginx_version};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::wire::{Connection, Response};
use sealane_tests::{Server, Site};

/// Both servers with the same configuration, in front of the same origin.
struct Pair<'s> {
    sealane: Server<'s>,
    nginx: Server<'s>,
}

impl<'s> Pair<'s> {
    fn start(ours: &'s Site, theirs: &'s Site, origin: &Origin, configuration: &str) -> Pair<'s> {
        let configuration =
            configuration.replace("ORIGIN", &format!("127.0.0.1:{}", origin.port()));
        for site in [ours, theirs] {
            site.write("html/there.txt", "a file\n");
            site.write("html/page.html", "<p>a page</p>\n");
        }
        Pair {
            sealane: ours.serve(&configuration),
            nginx: theirs.serve_by_nginx(&configuration),
        }
    }

    /// What both make of a request: ours, then nginx's.
    fn ask(&self, request: &[u8]) -> [Vec<Response>; 2] {
        let mut asked = [&self.sealane, &self.nginx].map(|server| exchange(server, request));
        if nginx_version() < (1, 31, 0) {
            // Older ones send the host where `proxy_set_header` has it, or after what that sets.
            asked.iter_mut().flatten().for_each(host_first);
        }
        asked
    }
}

fn exchange(server: &Server<'_>, request: &[u8]) -> Vec<Response> {
    let mut connection = Connection::open(server.port("plain"));
    connection.send(request);
    let head_only = request.starts_with(b"HEAD ");
    let mut responses = Vec::new();
    // Every request asks for the connection to be closed.
    while let Some(response) = connection.try_response(head_only) {
        responses.push(as_sent(&[server.port("plain")], response, head_only));
    }
    responses
}

/// Moves the `Host` lines of an echoed request to its beginning.
fn host_first(response: &mut Response) {
    let Some(end) = response
        .body
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
    else {
        return;
    };
    let text = String::from_utf8_lossy(&response.body[..end]).into_owned();
    if text.as_bytes() != &response.body[..end] {
        return;
    }
    let mut lines: Vec<&str> = text.split("\r\n").collect();
    lines[1..].sort_by_key(|line| !line.to_ascii_lowercase().starts_with("host:"));
    let head = lines.join("\r\n").into_bytes();
    response.body.splice(..end, head);
}

fn show(responses: &[Response]) -> String {
    let each = responses
        .iter()
        .map(|response| format!("{}\n\n{}", response.head, response.text().escape_debug()));
    each.collect::<Vec<_>>().join("\n+ ")
}

/// Compares request by request and panics with all differences that `explained` does not know.
fn compare(
    pair: &Pair<'_>,
    requests: &[Vec<u8>],
    explained: impl Fn(&[u8], &[Response], &[Response]) -> bool,
) {
    let mut differences = Vec::new();
    for request in requests {
        let [ours, theirs] = pair.ask(request);
        if ours != theirs && !explained(request, &ours, &theirs) {
            let request = request.escape_ascii();
            differences.push(format!(
                "{request}\n--- nginx:\n{}\n--- sealane:\n{}\n",
                show(&theirs),
                show(&ours)
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        requests.len(),
        differences.join("\n")
    );
}

fn get(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: front.test\r\nConnection: close\r\n{headers}\r\n")
        .into_bytes()
}

const URIS: &str = r#"
    server_tokens off;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    server {
        listen 127.0.0.1:%plain%;
        server_name front.test;
        root html;

        location /plain/ { proxy_pass http://ORIGIN; }
        location /top/ { proxy_pass http://ORIGIN/; }
        location /sub/ { proxy_pass http://ORIGIN/other/; }
        location /glued { proxy_pass http://ORIGIN/other; }
        location /query/ { proxy_pass http://ORIGIN/other?fixed=1&rest=; }
        location = /exact/ { proxy_pass http://ORIGIN/new; }
        location ~ ^/re/ { proxy_pass http://ORIGIN; }
        location ~ ^/captures/([^/]*)/(.*)$ { proxy_pass http://ORIGIN/c/$2/$1; }
        location /requested/ { proxy_pass http://ORIGIN$request_uri; }
        location /fixed/ { proxy_pass http://$http_x_backend/fixed; }
        location /asked/ { proxy_pass http://$http_x_backend; }
        location /arguments/ { proxy_pass http://$http_x_backend?$args; }
        location /try/ { try_files /nothing @named; }
        location /tried/ { try_files $uri /sub/instead?tried=1; }
        location /error/ { error_page 404 = @named; }
        location /error_uri/ { error_page 404 = /sub/moved/?from=$request_uri; }
        location @named { proxy_pass http://ORIGIN; }
        location /outer/ {
            location /outer/inner/ { proxy_pass http://ORIGIN/deep/; }
            location ~ \.php$ { proxy_pass http://ORIGIN; }
        }
    }
"#;

/// What stands behind a location's prefix.
const TAILS: &[&str] = &[
    "",
    "x",
    "x/y",
    "x/",
    "/x",
    "//x//y",
    "./x",
    "../plain/x",
    "x/../y",
    "x/./y",
    "x/..",
    "../../x",
    "x%2Fy",
    "x%2fy",
    "%2F",
    "%2e%2e/x",
    "%2e/x",
    "x%25y",
    "x%2525y",
    "x%20y",
    "x+y",
    "x%2By",
    "x%3Fy",
    "x%3fy?z",
    "x%23y",
    "x%26y",
    "x%3By;z",
    "x:y",
    "x@y",
    "x,y",
    "x!y",
    "x$y",
    "x'y",
    "x(y)",
    "x*y",
    "x=y",
    "x~y",
    "x|y",
    "x{y}",
    "x[y]",
    "x^y",
    "x`y",
    "x\"y",
    "x<y>",
    "x\\y",
    "%c3%a9",
    "%C3%A9",
    "\u{e9}",
    "\u{65e5}\u{672c}",
    "%ff%fe",
    "%7f",
    "%01",
    "%0a",
    "%0d%0ax: y",
    "%7e",
    "%41bc",
    "x?a=1",
    "x?a=%20b&c=%2F",
    "x?a=b?c",
    "x?",
    "?",
    "?a",
    "x??",
    "x?a#b",
    "x#y",
    "#",
    "x;p=1",
    "x%",
    "x%zz",
    "x%4",
    "x.php",
    "x.php?y",
    "%00",
    "x%e2%80%a8y",
    "x/%2e%2e/y",
    "..%2fx",
];

const PREFIXES: &[&str] = &[
    "/plain/",
    "/top/",
    "/sub/",
    "/glued",
    "/glued/",
    "/query/",
    "/escaped/",
    "/exact/",
    "/re/",
    "/captures/a/",
    "/captures/",
    "/requested/",
    "/fixed/",
    "/asked/",
    "/arguments/",
    "/try/",
    "/tried/",
    "/error/",
    "/error_uri/",
    "/outer/inner/",
    "/outer/",
];

#[test]
fn request_lines_are_those_of_nginx() {
    let origin = Origin::echo();
    let (ours, theirs) = (Site::new(), Site::new());
    let pair = Pair::start(&ours, &theirs, &origin, URIS);
    let backend = format!("X-Backend: 127.0.0.1:{}\r\n", origin.port());
    let mut requests = Vec::new();
    for prefix in PREFIXES {
        for tail in TAILS {
            requests.push(get(&format!("{prefix}{tail}"), &backend));
        }
    }
    // Without the slash at the end of a location, and URLs with a host.
    for target in [
        "/plain",
        "/sub",
        "/sub?a=b",
        "/re",
        "/query",
        "/exact",
        "/outer/inner",
        "/outer",
        "/glue",
        "/requested",
        "http://front.test/plain/x%2fy?z",
        "http://front.test/sub/x",
        "http://front.test",
        "http://front.test?x",
    ] {
        requests.push(get(target, &backend));
    }
    compare(&pair, &requests, |request, ours, theirs| {
        let request = String::from_utf8_lossy(request);
        // A variable that was decoded puts a space or a control character into the request
        // line: nginx sends it, and the origin sees two lines or a wrong version.
        let decodes = request.starts_with("GET /captures/");
        let refused = ours.first().is_some_and(|response| response.status == 500);
        let broken = theirs.first().is_some_and(|response| {
            response.text().split("\r\n").next().is_some_and(|line| {
                line.split(' ').count() != 3 || line.bytes().any(|byte| byte < b' ' || byte == 0x7f)
            })
        });
        decodes && refused && (broken || theirs.is_empty())
    });
}

const HEADERS: &str = r#"
    server_tokens off;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    underscores_in_headers on;
    server {
        listen 127.0.0.1:%plain%;
        server_name front.test;
        location / { proxy_pass http://ORIGIN; }
        location /set/ {
            proxy_pass http://ORIGIN;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header Accept-Encoding "";
            proxy_set_header x-CASE "as written  with  spaces";
            proxy_set_header X-Empty $http_nothing;
            proxy_set_header User-Agent "$http_user_agent and more";
        }
        location /closing/ { proxy_pass http://ORIGIN; proxy_set_header Connection close; }
        location /none/ { proxy_pass http://ORIGIN; proxy_pass_request_headers off; }
        location /nobody/ {
            proxy_pass http://ORIGIN;
            proxy_pass_request_body off;
            proxy_set_header Connection "";
            proxy_set_header Content-Length "";
        }
        location /body/ { proxy_pass http://ORIGIN; proxy_set_body "x=$arg_x&y"; }
        location /body-of/ {
            proxy_pass http://ORIGIN;
            proxy_set_body "<$request_body>";
            proxy_request_buffering off;
        }
        location /method/ { proxy_pass http://ORIGIN; proxy_method PUT; }
        location /evaluated/ { proxy_pass http://ORIGIN; proxy_method $arg_m; }
        location /old/ { proxy_pass http://ORIGIN; proxy_http_version 1.0; }
        location /streamed/ { proxy_pass http://ORIGIN; proxy_request_buffering off; }
    }
"#;

#[test]
fn request_headers_and_bodies_are_those_of_nginx() {
    let origin = Origin::echo();
    let (ours, theirs) = (Site::new(), Site::new());
    let pair = Pair::start(&ours, &theirs, &origin, HEADERS);
    let locations = [
        "/",
        "/set/",
        "/closing/",
        "/none/",
        "/nobody/",
        "/body/?x=1",
        "/body-of/",
        "/method/",
        "/old/",
        "/streamed/",
    ];
    let fields = [
        "",
        "User-Agent: test/1.0 (a;  b)\r\nAccept: */*\r\nACCEPT-language: de, en;q=0.5\r\n",
        "Z: 1\r\na: 2\r\nM: 3\r\nz: 4\r\nA: 5\r\n",
        "Cookie: a=b; c=\"d\"\r\nCookie: e=f\r\n",
        "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-For: 10.0.0.2, 10.0.0.3\r\n",
        "X-Forwarded-For:\r\n",
        "X-Spaces:    many   spaces\t\tand tabs   \r\n",
        "X-Empty:\r\nX-Colon: a:b::c\r\n",
        "X-Bytes: \u{e9}\u{65e5}\r\n",
        "X_Underscore: 1\r\n",
        "TE: trailers\r\nKeep-Alive: timeout=5\r\nProxy-Connection: close\r\nUpgrade: x\r\n",
        "Expect: 100-continue\r\n",
        "Authorization: Basic Zm9vOmJhcg==\r\nProxy-Authorization: x\r\nRange: bytes=0-1\r\n",
        "If-None-Match: \"x\"\r\nIf-Modified-Since: yes\r\nIf-Range: z\r\nAccept-Encoding: gzip, br\r\n",
        "Forwarded: for=1.2.3.4\r\nVia: 1.0 fred\r\nMax-Forwards: 10\r\n",
    ];
    let mut requests = Vec::new();
    for location in locations {
        for fields in fields {
            requests.push(get(location, fields));
        }
        let start = |method: &str| {
            format!("{method} {location} HTTP/1.1\r\nHost: front.test:81\r\nConnection: close\r\n")
        };
        for (method, rest) in [
            ("POST", "Content-Length: 5\r\n\r\nhello"),
            ("POST", "Content-Length: 0\r\n\r\n"),
            ("POST", "\r\n"),
            (
                "POST",
                "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n",
            ),
            ("POST", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            ("PUT", "Content-Type: a/b\r\nContent-Length: 3\r\n\r\nabc"),
            ("DELETE", "\r\n"),
            ("OPTIONS", "\r\n"),
            ("PROPFIND", "Depth: 1\r\n\r\n"),
            ("PURGE", "\r\n"),
            ("M-SEARCH", "\r\n"),
            ("HEAD", "\r\n"),
        ] {
            requests.push(format!("{}{rest}", start(method)).into_bytes());
        }
        requests.push(format!("GET {location} HTTP/1.0\r\n\r\n").into_bytes());
        requests.push(format!("GET {location} HTTP/1.0\r\nHost: FRONT.test\r\n\r\n").into_bytes());
    }
    for target in ["/evaluated/?m=REPORT", "/evaluated/?m=get"] {
        requests.push(get(target, ""));
    }
    compare(&pair, &requests, |request, ours, theirs| {
        let request = String::from_utf8_lossy(request);
        // Since 1.29.7 nginx keeps this one of the client's to itself, as it is about the
        // connection.
        let without = |response: &Response, line: &str| response.text().replace(line, "");
        if let ([ours], [theirs], true) = (ours, theirs, request.contains("\r\nProxy-Connection:"))
        {
            return ours.text() == without(theirs, "Proxy-Connection: close\r\n");
        }
        // nginx knows the length of a body in chunks when all of it came with the head.
        request.starts_with("POST /streamed/") && request.contains("chunked")
    });
}

const RESPONSES: &str = r#"
    server_tokens off;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    types { text/html html; text/plain txt; }
    server {
        listen 127.0.0.1:%plain%;
        server_name front.test;
        root html;
        location /default/ { proxy_pass http://ORIGIN/r/; }
        location /off/ { proxy_pass http://ORIGIN/r/; proxy_redirect off; }
        location /rules/ {
            proxy_pass http://ORIGIN/r/;
            proxy_redirect http://$proxy_host/r/ /x/;
            proxy_redirect ~^http://(?<other>[a-z]+)\.test/(.*)$ https://$host/$other/$2;
            proxy_redirect ~*^HTTPS:.*/([^/]*)$ $scheme://last/$1;
            proxy_redirect /r/ /relative/;
        }
        location /noabs/ { proxy_pass http://ORIGIN/r/; absolute_redirect off; }
        location /cookies/ {
            proxy_pass http://ORIGIN/r/;
            proxy_cookie_domain origin.test front.test;
            proxy_cookie_domain .dotted.test $host;
            proxy_cookie_domain ~\.(?<name>[a-z]+)\.org$ $name.example;
            proxy_cookie_path /r/ /;
            proxy_cookie_path ~*^/APP/(.+)$ /a/$1;
            proxy_cookie_flags ~^s secure samesite=lax;
            proxy_cookie_flags plain nosecure nohttponly nosamesite;
            proxy_cookie_flags $host httponly;
        }
        location /shown/ {
            proxy_pass http://ORIGIN/r/;
            proxy_hide_header X-Custom;
            proxy_hide_header Set-Cookie;
            proxy_pass_header Server;
            proxy_pass_header Date;
            proxy_pass_header X-Accel-Limit-Rate;
        }
        location /ignoring/ {
            proxy_pass http://ORIGIN/r/;
            proxy_ignore_headers X-Accel-Redirect X-Accel-Limit-Rate X-Accel-Buffering;
        }
        location /intercepting/ {
            proxy_pass http://ORIGIN/r/;
            proxy_intercept_errors on;
            error_page 404 410 /page.html;
            error_page 500 =503 @named;
            error_page 401 /there.txt;
            error_page 302 = /there.txt;
        }
        location /ranges/ { proxy_pass http://ORIGIN/r/; proxy_force_ranges on; }
        location /adding/ {
            proxy_pass http://ORIGIN/r/;
            add_header X-Added yes;
            add_header X-Status $upstream_status always;
            add_header X-Seen "$upstream_http_x_custom|$upstream_cookie_s1|$upstream_http_set_cookie" always;
            add_header X-Sent "$sent_http_content_type $sent_http_location" always;
            expires epoch;
        }
        location /unbuffered/ { proxy_pass http://ORIGIN/r/; proxy_buffering off; }
        location @named { proxy_pass http://ORIGIN; }
        location /internal/ { internal; alias html/; }
    }
"#;

/// Responses that nginx handles in another way since 1.23.
const TAKEN_BY_OLD: &[&str] = &[
    "twice",
    "two_lengths",
    "bad_length",
    "both",
    "coding",
    "401",
    "cookies",
    "many",
];

#[test]
fn responses_are_those_of_nginx() {
    let is_old = nginx_version() < (1, 23, 0);
    let origin = Origin::answering(|asked: &Asked| {
        let target = asked.target();
        let name = target.strip_prefix("/r/").unwrap_or(&target);
        let host = asked.headers("Host").concat();
        let all = canned();
        let Some((_, whole)) = all.iter().find(|(known, _)| *known == name) else {
            return Answer::SendAndClose(
                b"HTTP/1.1 404 Not Canned\r\nContent-Length: 0\r\n\r\n".to_vec(),
            );
        };
        let mut whole = whole.replace('%', &host);
        if asked.head.starts_with(b"HEAD ") {
            let end = whole.find("\r\n\r\n").map_or(whole.len(), |at| at + 4);
            whole.truncate(end);
        }
        Answer::SendAndClose(whole.into_bytes())
    });
    let (ours, theirs) = (Site::new(), Site::new());
    let pair = Pair::start(&ours, &theirs, &origin, RESPONSES);
    let locations = [
        "default",
        "off",
        "rules",
        "noabs",
        "cookies",
        "shown",
        "ignoring",
        "intercepting",
        "ranges",
        "adding",
        "unbuffered",
    ];
    let mut requests = Vec::new();
    for (name, _) in canned() {
        for location in locations {
            requests.push(get(&format!("/{location}/{name}"), ""));
        }
        for location in ["default", "intercepting", "ranges"] {
            let request = get(&format!("/{location}/{name}"), "");
            requests.push([b"HEAD", &request[3..]].concat());
        }
        for range in ["bytes=1-3", "bytes=-2", "bytes=0-1,3-4", "bytes=50-"] {
            requests.push(get(
                &format!("/ranges/{name}"),
                &format!("Range: {range}\r\n"),
            ));
        }
        requests.push(get(
            &format!("/default/{name}"),
            "If-None-Match: \"e\"\r\nIf-Modified-Since: Tue, 09 Nov 2021 00:00:00 GMT\r\n",
        ));
        requests.push(format!("GET /default/{name} HTTP/1.0\r\n\r\n").into_bytes());
    }
    compare(&pair, &requests, |request, ours, theirs| {
        let request = String::from_utf8_lossy(request);
        let sorted = |responses: &[Response]| {
            let each = responses.iter().map(|response| {
                let mut lines: Vec<_> = response.head.lines().map(str::to_owned).collect();
                lines.sort();
                (lines, response.body.clone())
            });
            each.collect::<Vec<_>>()
        };
        // Before 1.23 nginx took second lines of what counts once, and framing that is no
        // number, for good; and variables and redirects knew one line of each header.
        if is_old
            && TAKEN_BY_OLD
                .iter()
                .any(|name| request.contains(&format!("/{name} HTTP")))
        {
            return true;
        }
        // nginx puts the origin's charset on its own error page.
        let is_416 =
            |responses: &[Response]| responses.iter().all(|response| response.status == 416);
        if is_416(ours) && is_416(theirs) {
            return ours.iter().zip(theirs).all(|(ours, theirs)| {
                let without = theirs
                    .head
                    .replace("; charset=utf-8", "")
                    .replace("; charset=x", "");
                ours.head == without && ours.body == theirs.body
            });
        }
        // A file's entity tag stands before what came from the origin, in nginx behind it.
        if request.contains("/accel") || request.contains("/intercepting/401") {
            return sorted(ours) == sorted(theirs);
        }
        false
    });
}
