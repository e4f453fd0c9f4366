//! Which server and which location answer, and what `root`, `alias`, `index`,
//! `try_files`, `return`, `error_page` and `internal` make of the request.

use sealane_tests::wire::{get, get_with, request};
use sealane_tests::{Server, Site};

#[track_caller]
fn assert_body(server: &Server<'_>, target: &str, body: &str) {
    assert_eq!(
        get(server.port("plain"), target).text(),
        body,
        "GET {target}"
    );
}

#[test]
fn exact_prefix_and_regex_locations_in_nginx_order() {
    let site = Site::new();
    let server = site.serve(
        r#"server {
            listen 127.0.0.1:%plain%;
            location = /exact      { return 200 exact; }
            location /             { return 200 root; }
            location /prefix/      { return 200 prefix; }
            location /prefix/long/ { return 200 longer; }
            location ^~ /kept/     { return 200 kept; }
            location ~ \.php$      { return 200 first-regex; }
            location ~ ^/prefix/.*\.php$ { return 200 second-regex; }
            location ~* \.JPG$     { return 200 caseless; }
            location ~ ^/user/(?<who>[a-z]+)/(\d+)$ { return 200 "$who $2"; }
            location /outer/ {
                location /outer/inner/ { return 200 inner; }
                location ~ \.txt$      { return 200 nested-regex; }
                return 200 outer;
            }
        }"#,
    );
    for (target, body) in [
        ("/exact", "exact"),
        ("/exact/", "root"),
        ("/exactly", "root"),
        ("/prefix/x", "prefix"),
        ("/prefix", "root"),
        ("/prefix/long/x", "longer"),
        ("/prefix/a.php", "first-regex"),
        ("/kept/a.php", "kept"),
        ("/a.jpg", "caseless"),
        ("/a.JpG", "caseless"),
        ("/user/ann/42", "ann 42"),
        ("/user/Ann/42", "root"),
        ("/outer/x", "outer"),
        ("/outer/inner/x", "inner"),
        ("/outer/x.txt", "nested-regex"),
        // Selection works on the decoded, normalised path without arguments.
        ("/%65xact", "exact"),
        ("/x/../exact", "exact"),
        ("//exact", "exact"),
        ("/./exact?a=b", "exact"),
        ("/x?y=.php", "root"),
    ] {
        assert_body(&server, target, body);
    }
}

#[test]
fn server_names_exact_wildcard_regex_and_default() {
    let site = Site::new();
    let server = site.serve(
        r#"server { listen 127.0.0.1:%plain%; server_name first.example; return 200 first; }
        server { listen 127.0.0.1:%plain% default_server; server_name _; return 200 default; }
        server { listen 127.0.0.1:%plain%; server_name exact.example; return 200 exact; }
        server { listen 127.0.0.1:%plain%; server_name *.example; return 200 leading; }
        server { listen 127.0.0.1:%plain%; server_name *.long.example; return 200 longer; }
        server { listen 127.0.0.1:%plain%; server_name www.*; return 200 trailing; }
        server { listen 127.0.0.1:%plain%; server_name .dotted.test; return 200 dotted; }
        server { listen 127.0.0.1:%plain%; server_name ~^(?<tenant>[a-z]+)\.apps\.test$; return 200 "tenant $tenant"; }
        server { listen 127.0.0.1:%plain%; server_name ""; return 200 nameless; }
        server { listen 127.0.0.1:%other%; return 200 other-port; }"#,
    );
    for (host, body) in [
        ("exact.example", "exact"),
        ("EXACT.Example", "exact"),
        ("exact.example:8080", "exact"),
        ("exact.example.", "exact"),
        ("a.example", "leading"),
        ("a.b.example", "leading"),
        ("a.long.example", "longer"),
        ("www.elsewhere", "trailing"),
        ("www.example", "leading"),
        ("dotted.test", "dotted"),
        ("sub.dotted.test", "dotted"),
        ("blue.apps.test", "tenant blue"),
        ("blue9.apps.test", "default"),
        ("unknown.test", "default"),
        ("127.0.0.1", "default"),
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(
            request(server.port("plain"), &head).text(),
            body,
            "Host: {host}"
        );
    }
    assert_eq!(
        request(server.port("plain"), "GET / HTTP/1.0\r\n\r\n").text(),
        "nameless"
    );
    let absolute =
        "GET http://exact.example/ HTTP/1.1\r\nHost: unknown.test\r\nConnection: close\r\n\r\n";
    assert_eq!(
        request(server.port("plain"), absolute).text(),
        "exact",
        "the request line's host wins"
    );
    assert_eq!(get(server.port("other"), "/").text(), "other-port");
}

#[test]
fn root_alias_index_and_directory_redirects() {
    let site = Site::new();
    site.write("html/index.html", "start");
    site.write("html/sub/index.htm", "sub index");
    site.write("html/empty/.keep", "");
    site.write("html/space name.txt", "space");
    site.write("other/file.txt", "aliased");
    site.write("other/deep/x.png", "picture");
    site.write("html/images/real.txt", "under root");
    let server = site.serve(
        r#"server {
            listen 127.0.0.1:%plain%;
            root html;
            index missing.html index.htm index.html;
            location /alias/ { alias other/; }
            location ~ ^/pictures/(.+\.png)$ { alias other/deep/$1; }
            location = /one { alias other/file.txt; }
            location /images/ { }
            location /absolute/ { root html; index /index.html; }
        }"#,
    );
    for (target, body) in [
        ("/", "start"),
        ("/sub/", "sub index"),
        ("/space%20name.txt", "space"),
        ("/alias/file.txt", "aliased"),
        ("/alias/deep/../file.txt", "aliased"),
        ("/pictures/x.png", "picture"),
        ("/one", "aliased"),
        ("/images/real.txt", "under root"),
    ] {
        assert_body(&server, target, body);
    }
    let port = server.port("plain");
    assert_eq!(get(port, "/empty/").status, 403, "no index and no listing");
    assert_eq!(get(port, "/missing").status, 404);
    assert_eq!(
        get(port, "/index.html/").status,
        404,
        "a file is no directory"
    );
    let redirect = get(port, "/sub?x=1");
    assert_eq!(redirect.status, 301);
    assert_eq!(
        redirect.header("location"),
        Some(format!("http://localhost:{port}/sub/?x=1").as_str())
    );
    assert_eq!(
        get(port, "/alias/..%2f..%2fetc/passwd").status,
        400,
        "nothing above the root"
    );
}

#[test]
fn try_files_takes_the_first_that_exists() {
    let site = Site::new();
    site.write("html/a.txt", "a");
    site.write("html/fallback.html", "fallback");
    site.write("html/dir/index.html", "dir");
    let server = site.serve(
        r#"server {
            listen 127.0.0.1:%plain%;
            root html;
            location /         { try_files $uri $uri.txt $uri/ /fallback.html; }
            location /strict/  { try_files $uri =404; }
            location /code/    { try_files $uri =444; }
            location /named/   { try_files $uri @named; }
            location @named    { return 200 "named $uri"; }
            location /arguments/ { try_files $uri /answer?uri=$uri; }
            location = /answer { return 200 "$args"; }
        }"#,
    );
    for (target, body) in [
        ("/a", "a"),
        ("/a.txt", "a"),
        ("/dir/", "dir"),
        ("/none", "fallback"),
        ("/named/x", "named /named/x"),
        ("/arguments/x", "uri=/arguments/x"),
    ] {
        assert_body(&server, target, body);
    }
    assert_eq!(get(server.port("plain"), "/strict/x").status, 404);
    let mut silent = sealane_tests::wire::Connection::open(server.port("plain"));
    silent.send("GET /code/x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(silent.is_closed(), "444 closes without a response");
}

#[test]
fn return_makes_redirects_and_texts() {
    let site = Site::new();
    let server = site.serve(
        r#"server {
            listen 127.0.0.1:%plain%;
            location /code      { return 410; }
            location /text      { default_type text/plain; return 200 "uri=$uri args=$args host=$host\n"; }
            location /moved     { return 301 /there$is_args$args; }
            location /found     { return https://elsewhere.example/; }
            location /temporary { return 307 http://other.example/x; }
            location /none      { return 204; }
            location /silent    { return 444; }
        }"#,
    );
    let port = server.port("plain");
    assert_eq!(get(port, "/code").status, 410);
    let text = get(port, "/text?a=1");
    assert_eq!(text.text(), "uri=/text args=a=1 host=localhost\n");
    assert_eq!(text.header("content-type"), Some("text/plain"));
    let location = |target: &str| {
        let response = get(port, target);
        (
            response.status,
            response.header("location").unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(
        location("/moved?q"),
        (301, format!("http://localhost:{port}/there?q"))
    );
    assert_eq!(
        location("/found"),
        (302, "https://elsewhere.example/".to_owned())
    );
    assert_eq!(
        location("/temporary"),
        (307, "http://other.example/x".to_owned())
    );
    let none = get(port, "/none");
    assert_eq!(
        (none.status, none.body.len(), none.header("content-length")),
        (204, 0, None)
    );
    let mut silent = sealane_tests::wire::Connection::open(port);
    silent.send("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(silent.is_closed(), "444 closes without a response");
}

#[test]
fn error_pages_by_file_location_status_and_redirect() {
    let site = Site::new();
    site.write("html/404.html", "our own 404");
    site.write("html/dir/.keep", "");
    let server = site.serve(
        r#"server {
            listen 127.0.0.1:%plain%;
            root html;
            error_page 404 /404.html;
            error_page 403 =200 @soft;
            location = /404.html { internal; }
            location @soft { return 200 "soft $status"; }
            location /teapot/ { error_page 404 = /answered; }
            location = /answered { return 202 answered; }
            location /away/ { error_page 404 https://elsewhere.example/; }
            location /loud/ { error_page 404 =503 /404.html; }
            location /plain/ { error_page 404 /does-not-exist; }
            location /secret { internal; return 200 secret; }
            location /down { return 503; }
        }"#,
    );
    let port = server.port("plain");
    let page = get(port, "/nothing");
    assert_eq!((page.status, page.text().as_str()), (404, "our own 404"));
    assert_eq!(
        get(port, "/404.html").status,
        404,
        "an internal location is not found from outside"
    );
    assert_eq!(get(port, "/secret").status, 404);
    assert_eq!(get(port, "/dir/").status, 200, "403 became 200");
    let answered = get(port, "/teapot/x");
    assert_eq!(
        (answered.status, answered.text().as_str()),
        (202, "answered")
    );
    let away = get(port, "/away/x");
    assert_eq!(
        (away.status, away.header("location")),
        (302, Some("https://elsewhere.example/"))
    );
    assert_eq!(get(port, "/loud/x").status, 503);
    let plain = get(port, "/plain/x");
    assert_eq!(plain.status, 404);
    assert!(
        plain
            .text()
            .contains("<center><h1>404 Not Found</h1></center>"),
        "{}",
        plain.text()
    );
    let down = get(port, "/down");
    assert_eq!(
        (down.status, down.header("content-type")),
        (503, Some("text/html"))
    );
    assert_eq!(
        get_with(port, "/nothing", "If-None-Match: *\r\n").status,
        404,
        "conditions are about success"
    );
}

#[test]
fn variables_in_paths_headers_and_arguments() {
    let site = Site::new();
    site.write("html/de/index.html", "deutsch");
    site.write("html/en/index.html", "english");
    let server = site.serve(
        r#"server {
            listen 127.0.0.1:%plain%;
            location / { root html/$arg_lang; index index.html; }
            location = /show {
                add_header X-Echo "$http_x_question|$cookie_taste|$request_method|$server_port|$scheme";
                return 200 "$request_uri $query_string $remote_addr $server_protocol\n";
            }
        }"#,
    );
    assert_body(&server, "/?lang=de", "deutsch");
    assert_body(&server, "/?lang=en", "english");
    let port = server.port("plain");
    let shown = get_with(
        port,
        "/show?x=%20y",
        "X-Question: why\r\nCookie: a=b; taste=sweet\r\n",
    );
    assert_eq!(shown.text(), "/show?x=%20y x=%20y 127.0.0.1 HTTP/1.1\n");
    assert_eq!(
        shown.header("x-echo"),
        Some(format!("why|sweet|GET|{port}|http").as_str())
    );
}
