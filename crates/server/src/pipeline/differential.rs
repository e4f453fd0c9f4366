//! The same configuration, files and requests for Debian's nginx and for the
//! pipeline: heads in their order, bodies byte for byte.
//!
//! Only what nginx 1.22 and the reference version agree on is asked here.

use super::differential_filters::{decompressed, is_newer};
use crate::testing::{Reply, Site};
use sealane_http::date;
use sealane_sys::time;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const NGINX: &str = "/usr/sbin/nginx";
const THEIR_NAME: &str = "nginx/1.22.1";
const OUR_NAME: &str = concat!("sealane/", env!("CARGO_PKG_VERSION"));

/// A running nginx that serves the directory of a site.
struct Nginx {
    process: Child,
    port: u16,
    directory: PathBuf,
}

/// A port on which nothing listened a moment ago, below the range that the
/// kernel gives to outgoing connections: nobody else gets it by chance.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id() % 40 * 100;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 5000 + (start + step) % 4000;
        let port = u16::try_from(port).expect("below 9000");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Nginx {
    fn start(root: &Path, http: &str, server: &str) -> Nginx {
        assert!(
            Path::new(NGINX).exists(),
            "{NGINX} is missing: apt-get install nginx-light"
        );
        let port = free_port();
        let directory = root.with_file_name("nginx");
        std::fs::create_dir_all(&directory).expect("writable");
        let dir = directory.display();
        let root = root.display().to_string();
        let text = format!(
            "daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log info; events {{}}\n\
             http {{ access_log off; root {root}; types {{ text/html html; text/plain txt; }}\n\
             client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;\n\
             uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e; {}\n\
             server {{ listen 127.0.0.1:{port}; server_name site; lingering_close off; {} }} }}",
            http.replace("DIR", &root),
            server.replace("DIR", &root)
        );
        let conf = directory.join("nginx.conf");
        std::fs::write(&conf, text).expect("writable");
        let process = Command::new(NGINX)
            .arg("-c")
            .arg(&conf)
            .arg("-p")
            .arg(&directory)
            .arg("-e")
            .arg(directory.join("error.log"))
            .stderr(Stdio::inherit())
            .spawn()
            .expect("nginx can be started");
        let mut nginx = Nginx {
            process,
            port,
            directory,
        };
        nginx.wait_until_ready();
        nginx
    }

    fn wait_until_ready(&mut self) {
        let end = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.process.try_wait().expect("our own child");
            assert!(ended.is_none(), "nginx ended: {}", self.log());
            assert!(
                Instant::now() < end,
                "nginx does not listen: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("error.log")).unwrap_or_default()
    }

    /// Sends a request and reads until nginx closes.
    fn ask(&self, request: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("nginx listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("any socket can");
        stream.write_all(request.as_bytes()).expect("nginx reads");
        let mut answer = Vec::new();
        stream
            .read_to_end(&mut answer)
            .expect("nginx answers and closes");
        let end = answer
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .expect("there is a head");
        let head = String::from_utf8(answer[..end + 2].to_vec()).expect("the head is text");
        (head, answer[end + 4..].to_vec())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A head without what must differ.
fn comparable_head(head: &str, port: u16) -> Vec<String> {
    head.lines()
        .filter(|line| {
            !line.is_empty() && !line.starts_with("Server: ") && !line.starts_with("Date: ")
        })
        .map(|line| line.replace(&format!(":{port}/"), ":PORT/"))
        .map(|line| match line.split_once("boundary=") {
            Some((start, _)) => format!("{start}boundary=N"),
            None => line,
        })
        .map(|line| match line.strip_prefix("Expires: ") {
            Some(date) => format!("Expires: {}", from_now(date)),
            None => line,
        })
        .collect()
}

/// A date close to now as the minutes from now: the two are not asked within the same second.
fn from_now(date: &str) -> String {
    const DAY_S: i64 = 24 * 3600;
    let now_s = time::unix_coarse_s();
    match date::parse(date.as_bytes()).map(|date_s| date_s - now_s) {
        Some(away_s) if away_s.abs() < DAY_S => {
            format!("in {} minutes", (away_s + 30).div_euclid(60))
        }
        _ => date.to_owned(),
    }
}

fn decode_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = body.windows(2).position(|w| w == b"\r\n") {
        let size = std::str::from_utf8(&body[..end])
            .ok()
            .and_then(|t| usize::from_str_radix(t, 16).ok());
        let Some(size @ 1..) = size else { break };
        out.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
    out
}

/// A body without the server's name and the boundary, which the head knows.
fn comparable_body(head: &str, body: &[u8]) -> String {
    // One character for each byte: nothing is lost.
    let text: String = body.iter().copied().map(char::from).collect();
    let text = text.replace(OUR_NAME, THEIR_NAME);
    match head
        .split_once("boundary=")
        .and_then(|(_, rest)| rest.lines().next())
    {
        Some(boundary) => text.replace(boundary, "N"),
        None => text,
    }
}

/// Corrects a length for the names that were replaced; a response to HEAD has
/// only its length to tell that a page is meant.
fn with_length(head: Vec<String>, body: &str, is_head: bool, name: &str) -> Vec<String> {
    let has = |start: &str| head.iter().any(|line| line.starts_with(start));
    let is_page = !head[0].contains(" 200 ") && has("Content-Type: text/html") && !has("ETag");
    let fix = |line: String| match line
        .strip_prefix("Content-Length: ")
        .map(str::parse::<usize>)
    {
        Some(Ok(_)) if !is_head => format!("Content-Length: {}", body.len()),
        Some(Ok(bytes)) if is_page => format!("Content-Length: {}", bytes - name.len()),
        _ => line,
    };
    head.into_iter().map(fix).collect()
}

pub(super) fn compare(server: &str, prepare: fn(&Site), requests: &[&str]) {
    compare_http("", server, prepare, requests);
}

/// The same with directives in the `http` block.
pub(super) fn compare_http(http: &str, server: &str, prepare: fn(&Site), requests: &[&str]) {
    let site = Site::with_http(&format!(
        "{http} server {{ listen 127.0.0.1:80; server_name site; {server} }}"
    ));
    prepare(&site);
    let nginx = Nginx::start(&site.root(), http, server);
    for request in requests {
        let (method, rest) = request.split_once(' ').expect("METHOD target");
        let mut lines = rest.split('|');
        let target = lines.next().unwrap_or_default();
        let headers: String = lines.map(|line| format!("{line}\r\n")).collect();
        let text = format!("{method} {target} HTTP/1.1\r\nHost: example.org\r\n{headers}");
        let length = headers
            .split_once("Content-Length: ")
            .map(|(_, rest)| rest.trim().parse());
        let body = "x".repeat(length.map_or(0, |length| length.expect("a number")));
        let (their_head, their_body) = nginx.ask(&format!("{text}Connection: close\r\n\r\n{body}"));
        let ours: Reply = site.request(&format!("{text}\r\n"));

        let chunked = their_head.contains("Transfer-Encoding: chunked");
        let their_body = if chunked {
            decode_chunks(&their_body)
        } else {
            their_body
        };
        let their_body = comparable_body(&their_head, &decompressed(&their_head, their_body));
        let our_body = comparable_body(&ours.head, &decompressed(&ours.head, ours.body.clone()));
        let is_head = method == "HEAD";
        let mut their_head = with_length(
            comparable_head(&their_head, nginx.port),
            &their_body,
            is_head,
            THEIR_NAME,
        );
        let mut our_head = with_length(
            comparable_head(&ours.head, ours.local_port()),
            &our_body,
            is_head,
            OUR_NAME,
        );
        their_head.retain(|line| line != "Connection: close");
        our_head.retain(|line| line != "Connection: keep-alive");
        if chunked && ours.exchange.response.content_length.is_some() {
            // Lists of directories: their length is known here.
            their_head.retain(|line| line != "Transfer-Encoding: chunked");
            our_head.retain(|line| !line.starts_with("Content-Length: "));
        }
        if is_newer(&mut our_head, &their_head) {
            continue;
        }
        assert_eq!(our_head, their_head, "{request}\n{server}\n{}", nginx.log());
        assert_eq!(our_body, their_body, "{request}\n{server}");
    }
    let (ours, theirs) = (complaints(&site.error_log()), complaints(&nginx.log()));
    for (our_line, their_line) in ours.iter().zip(&theirs) {
        assert_eq!(our_line, their_line, "{server}");
    }
    assert_eq!(ours.len(), theirs.len(), "{server}\n{ours:#?}\n{theirs:#?}");
}

/// What was logged about requests at level `notice` and above, from the level on, without
/// processes, connections and clients.
/// The same twice counts once: nginx evaluates values twice, the first time for their length,
/// and says again what is counted here.
fn complaints(log: &str) -> Vec<String> {
    let mut complaints: Vec<String> = log
        .lines()
        .filter(|line| {
            let levels = ["[notice]", "[warn]", "[error]", "[crit]", "[alert]"];
            // nginx's mp4 module makes empty buffers and is told so.
            let is_about_itself = line.contains("zero size buf in output");
            let is_serious = levels.iter().any(|level| line.contains(level));
            let is_count = line.contains(" message repeated ");
            is_serious && line.contains(": *") && !is_about_itself && !is_count
        })
        .map(|line| {
            let (_, line) = line.split_once('[').expect("there is a level");
            let (level, rest) = line.split_once(']').expect("it ends");
            let (_, message) = rest.split_once(": *").expect("it is about a connection");
            let (_, message) = message.split_once(' ').expect("the number ends");
            let message = message.replace("client: 192.0.2.7", "client: 127.0.0.1");
            format!("{level} {}", without_excess(&message))
        })
        .collect();
    let mut known = HashSet::new();
    complaints.retain(|complaint| known.insert(complaint.clone()));
    complaints
}

/// A message without the excess of `limit_req`, which says how much time has passed.
fn without_excess(message: &str) -> String {
    let Some((before, after)) = message.split_once("excess: ") else {
        return message.to_owned();
    };
    let number = |byte: char| byte.is_ascii_digit() || byte == '.';
    format!("{before}excess: N{}", after.trim_start_matches(number))
}

pub(super) fn some_files(site: &Site) {
    site.file("a.txt", "0123456789\n")
        .file("index.html", "<p>index</p>")
        .file("dir/index.html", "<p>dir</p>")
        .file("dir/x.TXT", "x")
        .file("bare/y", "y")
        .file("sp ace/100%.txt", "z")
        .file("404.html", "<p>not here</p>")
        .file("empty.txt", "")
        .file("z.txt", "plain text")
        .file("z.txt.gz", "not really gzip")
        .file(".hidden", "h")
        .file("noext", "n");
}

#[test]
fn files_and_directories() {
    compare(
        "location /alias/ { alias DIR/dir/; } location ~ ^/re/(.*)$ { alias DIR/$1; } \
         location /off { alias DIR/dir; } location /forbidden/ { alias DIR/bare/; }",
        some_files,
        &[
            "GET /a.txt",
            "HEAD /a.txt",
            "POST /a.txt",
            "PUT /a.txt",
            "DELETE /missing",
            "OPTIONS /a.txt",
            "BREW /a.txt",
            "GET /",
            "POST /",
            "HEAD /",
            "PUT /",
            "GET /dir",
            "GET /dir?a=b&c",
            "POST /dir",
            "GET /dir/",
            "GET /dir/x.TXT",
            "GET /missing",
            "GET /missing/",
            "POST /missing",
            "GET /a.txt/",
            "GET /a.txt/b",
            "GET /bare/",
            "GET /bare",
            "GET /sp%20ace",
            "GET /sp%20ace/100%25.txt",
            "GET /empty.txt",
            "HEAD /empty.txt",
            "GET /.hidden",
            "GET /noext",
            "GET /alias/x.TXT",
            "GET /alias/",
            "GET /alias",
            "GET /alias/../a.txt",
            "GET /re/a.txt",
            "GET /re/dir",
            "GET /re/dir/",
            "GET /off/x.TXT",
            "GET /off/",
            "GET /off",
            "GET /offx",
            "GET /forbidden/",
            "GET //dir//x.TXT",
            "GET /dir/./x.TXT",
            "GET /%61.txt",
            "GET /dir%2Fx.TXT",
        ],
    );
}

#[test]
fn names_too_long_and_links() {
    compare(
        "",
        |site| {
            some_files(site);
            let link = |to: &str, name: &str| {
                std::os::unix::fs::symlink(to, site.root().join(name)).expect("writable");
            };
            link("a.txt", "link");
            link("nowhere", "dangling");
            link("loop", "loop");
            link("dir", "dirlink");
        },
        &[
            "GET /link",
            "GET /dangling",
            "GET /dirlink",
            "GET /dirlink/x.TXT",
            "GET /loop",
        ],
    );
    let long = format!("GET /{}", "x".repeat(300));
    compare("", some_files, &[&long]);
}

#[test]
fn conditional_requests_and_ranges() {
    compare(
        "location /none { alias DIR/a.txt; max_ranges 0; } location /one { alias DIR/a.txt; max_ranges 1; } \
         location /noetag { alias DIR/a.txt; etag off; } location /before { alias DIR/a.txt; if_modified_since before; } \
         location /ignore { alias DIR/a.txt; if_modified_since off; }",
        some_files,
        &[
            "GET /a.txt|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "HEAD /a.txt|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /a.txt|If-Modified-Since: Sun, 09 Sep 2001 01:46:41 GMT",
            "GET /before|If-Modified-Since: Sun, 09 Sep 2001 01:46:41 GMT",
            "GET /ignore|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /a.txt|If-None-Match: \"3b9aca00-b\"",
            "GET /a.txt|If-None-Match: W/\"3b9aca00-b\", \"x\"",
            "GET /a.txt|If-None-Match: \"other\"",
            "GET /a.txt|If-None-Match: *",
            "GET /noetag|If-None-Match: *",
            "GET /a.txt|If-Match: \"other\"",
            "GET /a.txt|If-Match: \"3b9aca00-b\"",
            "GET /a.txt|If-Unmodified-Since: Sun, 09 Sep 2001 01:46:39 GMT",
            "GET /missing|If-Match: \"other\"",
            "GET /a.txt|Range: bytes=0-3",
            "HEAD /a.txt|Range: bytes=0-3",
            "GET /a.txt|Range: bytes=-2",
            "GET /a.txt|Range: bytes=5-",
            "GET /a.txt|Range: bytes=0-0,2-3,-1",
            "HEAD /a.txt|Range: bytes=0-0,2-3",
            "GET /a.txt|Range: bytes=100-",
            "GET /a.txt|Range: bytes=3-1",
            "GET /a.txt|Range: lines=1-2",
            "GET /a.txt|Range: bytes=0-100,5-50,1-20",
            "GET /none|Range: bytes=0-3",
            "GET /one|Range: bytes=0-1,3-4",
            "GET /one|Range: bytes=0-1",
            "GET /empty.txt|Range: bytes=0-",
            "GET /missing|Range: bytes=0-3",
            "GET /a.txt|Range: bytes=0-3|If-Range: \"3b9aca00-b\"",
            "GET /a.txt|Range: bytes=0-3|If-Range: \"other\"",
            "GET /a.txt|Range: bytes=0-3|If-Range: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /a.txt|Range: bytes=0-3|If-Range: Sun, 09 Sep 2001 01:46:41 GMT",
            "GET /a.txt|Range: bytes=0-3|If-None-Match: \"3b9aca00-b\"",
        ],
    );
}

#[test]
fn fixed_answers() {
    compare(
        "location /200 { return 200; } location /text { return 200 \"hi $uri $args $is_args|$arg_x|\"; } \
         location /typed.html { return 200 \"<p>\"; } location /204 { return 204; } location /201 { return 201 made; } \
         location /301 { return 301 /to?$args; } location /302 { return 302 http://x.test/; } \
         location /303 { return 303 /a; } location /307 { return 307 /a; } location /308 { return 308 /a; } \
         location /url { return https://x.test$request_uri; } location /404t { return 404 gone; } \
         location /410 { return 410; } location /418 { return 418; } location /500 { return 500; } \
         location /304 { return 304; } location /relative { absolute_redirect off; return 301 /to; } \
         location /named { server_name_in_redirect on; return 301 /to; } \
         location /noport { port_in_redirect off; return 301 /to; } location /bare { return 301 other; } \
         location /teapot { return 418 \"short and stout\"; } location = /vars { return 200 \
         \"$host $request_method $scheme $server_name $request $server_protocol $http_x_y $cookie_c $https.\"; }",
        some_files,
        &[
            "GET /200",
            "HEAD /200",
            "POST /200",
            "GET /text?x=1&y=2",
            "GET /text",
            "GET /typed.html",
            "GET /204",
            "HEAD /204",
            "GET /201",
            "GET /301?a=b",
            "GET /301",
            "GET /302",
            "HEAD /302",
            "GET /303",
            "GET /307",
            "GET /308",
            "GET /url?q",
            "GET /404t",
            "GET /410",
            "GET /418",
            "GET /500",
            "GET /304",
            "GET /relative",
            "GET /named",
            "GET /noport",
            "GET /bare",
            "GET /teapot",
            "POST /vars|X-Y: 1",
            "GET /vars|Cookie: a=b; C=d; c=e",
        ],
    );
}

#[test]
fn preconditions_of_answers_without_a_file() {
    compare(
        "location /text { return 200 text; } location /list/ { alias DIR/; index none; autoindex on; } \
         location /410 { return 410; }",
        some_files,
        &[
            "GET /text|If-None-Match: *",
            "GET /text|If-None-Match: \"x\"",
            "GET /text|If-Match: *",
            "GET /text|If-Match: \"x\"",
            "GET /text|If-Unmodified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /text|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /text|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT|If-None-Match: *",
            "GET /text|Range: bytes=0-1",
            "GET /list/|If-None-Match: *",
            "GET /list/|If-Match: \"x\"",
            "GET /410|If-None-Match: *",
        ],
    );
}

#[test]
fn error_pages() {
    compare(
        "error_page 404 /404.html; error_page 403 =200 /a.txt; error_page 405 @named; \
         location @named { return 200 \"named $request_method $uri\"; } \
         location /over { error_page 404 = /a.txt; } location /url { error_page 404 http://x.test$uri; } \
         location /moved { error_page 404 =301 http://x.test/; } location /code { error_page 404 =503 /404.html; } \
         location /none { error_page 404 /missing.html; } location /static { error_page 404 /text; } \
         location /text { return 200 \"text $args\"; } location /arg { error_page 404 /text?x=y; } \
         location /internal { internal; return 200 inside; } location /to_internal { error_page 404 /internal; } \
         location /recursive { recursive_error_pages on; error_page 404 /deeper; } \
         location /deeper { error_page 404 =410 /404.html; } location /return { error_page 410 =200 /a.txt; return 410; } \
         location /redirected { error_page 301 =200 /a.txt; return 301 /x; } location /many { error_page 404 410 /a.txt; } \
         location /name { error_page 404 @absent; } location /errcode { error_page 404 @deny; } \
         location @deny { return 403; } location /post { error_page 404 =200 @named; } \
         location /empty { error_page 404 =204 /204; } location /204 { return 204; }",
        some_files,
        &[
            "GET /missing",
            "HEAD /missing",
            "POST /missing",
            "GET /bare/",
            "PUT /a.txt",
            "GET /over/x",
            "GET /url/x",
            "GET /moved/x",
            "GET /code/x",
            "GET /none/x",
            "GET /static/x",
            "GET /arg/x",
            "GET /internal",
            "GET /to_internal/x",
            "GET /recursive/x",
            "GET /return",
            "GET /redirected",
            "GET /many/x",
            "GET /name/x",
            "GET /errcode/x",
            "POST /post/x",
            "GET /empty/x",
        ],
    );
}

#[test]
fn redirection_cycles_end() {
    compare(
        "location /a/ { recursive_error_pages on; error_page 404 /b/x; } \
         location /b/ { recursive_error_pages on; error_page 404 /a/x; } \
         location /t/ { try_files /none /t/again; } location /n { recursive_error_pages on; error_page 404 @n; } \
         location @n { recursive_error_pages on; error_page 410 @n; return 410; }",
        some_files,
        &["GET /a/x", "GET /t/x", "GET /n/x"],
    );
}

#[test]
fn try_files() {
    compare(
        "location / { try_files $uri $uri/ /404.html; } location /code/ { try_files $uri =410; } \
         location /named/ { try_files $uri @named; } location @named { return 200 \"named $uri\"; } \
         location /args/ { try_files $uri /text?u=$uri; } location /text { return 200 \"text $uri $args\"; } \
         location /fixed/ { try_files /a.txt /dir/ =404; } location /al/ { alias DIR/dir/; try_files $uri x.TXT =404; } \
         location ~ ^/re/(.*)$ { alias DIR/; try_files $1 =404; } location /self/ { root DIR/dir; try_files /x.TXT =404; } \
         location /dironly/ { try_files /dir/ =404; }",
        some_files,
        &[
            "GET /a.txt",
            "GET /dir",
            "GET /dir/",
            "GET /missing",
            "GET /",
            "GET /bare",
            "GET /bare/",
            "POST /a.txt",
            "GET /code/x",
            "GET /named/x",
            "GET /args/x",
            "GET /args/x?q=1",
            "GET /fixed/x",
            "GET /al/x.TXT",
            "GET /al/missing",
            "GET /re/a.txt",
            "GET /re/missing",
            "GET /self/x",
            "GET /dironly/x",
            "HEAD /missing",
        ],
    );
}

#[test]
fn indexes() {
    compare(
        "location /many/ { alias DIR/dir/; index none.html x.TXT index.html; } \
         location /abs/ { alias DIR/bare/; index none.html /a.txt; } \
         location /var/ { alias DIR/dir/; index $arg_i index.html; } location /nowhere/ { alias DIR/nowhere/; } \
         location /index.html { return 200 \"found $uri $args\"; }",
        some_files,
        &[
            "GET /",
            "GET /?a=b",
            "GET /many/",
            "POST /many/",
            "GET /abs/",
            "GET /var/?i=x.TXT",
            "GET /var/?i=nope",
            "GET /var/?i=/a.txt",
            "GET /nowhere/",
            "GET /nowhere/x",
        ],
    );
}

#[test]
fn headers_and_expires() {
    compare(
        "add_header X-Server s; add_header X-Always a always; \
         location /own { add_header X-Own $uri; add_header X-Empty $arg_none; alias DIR/a.txt; } \
         location /epoch { expires epoch; alias DIR/a.txt; } location /max { expires max; alias DIR/a.txt; } \
         location /off { expires off; alias DIR/a.txt; } location /mod { expires modified +30d; alias DIR/a.txt; } \
         location /past { expires -1; alias DIR/a.txt; } location /cc { expires epoch; add_header Cache-Control public; \
         alias DIR/a.txt; } location /lm { add_header Last-Modified \"\"; alias DIR/a.txt; } \
         location /etag { add_header ETag '\"mine\"'; alias DIR/a.txt; } \
         location /noetag { add_header ETag \"\"; alias DIR/a.txt; } location /r { return 301 /x; } \
         location /var { expires $arg_e; alias DIR/a.txt; } location /204 { expires epoch; return 204; }",
        some_files,
        &[
            "GET /a.txt",
            "GET /missing",
            "GET /own",
            "GET /epoch",
            "GET /max",
            "GET /off",
            "GET /mod",
            "GET /past",
            "GET /cc",
            "GET /lm",
            "GET /etag",
            "GET /noetag",
            "GET /r",
            "GET /var?e=epoch",
            "GET /var?e=nonsense",
            "GET /var?e=off",
            "GET /var",
            "GET /204",
            "GET /a.txt|If-None-Match: *",
            "GET /a.txt|Range: bytes=0-1",
            "GET /a.txt|If-Match: \"x\"",
            "GET /a.txt|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
        ],
    );
}

fn odd_names(site: &Site) {
    some_files(site);
    for name in [
        "x<y>&\"z",
        "é",
        "a:b",
        "sp ace",
        "%41",
        "q?x#y'",
        "tab\there",
        "back\\slash",
        "d1/f",
        "D2/f",
    ] {
        site.file(&format!("list/{name}"), "");
    }
    for (name, bytes) in [
        ("k", 10_000),
        ("k2", 10_751),
        ("b", 9_999),
        ("m", 1 << 20),
        ("m2", (3 << 19) + 1),
    ] {
        site.file(&format!("list/{name}"), vec![b'x'; bytes]);
    }
    for bytes in [46, 47, 49, 50, 51, 60] {
        site.file(&format!("list/{}", "n".repeat(bytes)), "");
        let directory = site.root().join(format!("list/{}", "d".repeat(bytes)));
        std::fs::create_dir_all(&directory).expect("writable");
    }
    site.file(&format!("list/{}<", "m".repeat(46)), "");
    site.file(&format!("list/{}", "é".repeat(40)), "");
    for characters in [47, 49, 50, 51, 60] {
        site.file(&format!("list/{}", "ü".repeat(characters)), "");
        let directory = site.root().join(format!("list/{}", "ö".repeat(characters)));
        std::fs::create_dir_all(&directory).expect("writable");
    }
    let no_text = OsStr::from_bytes(b"list/\xc3\xa4\xff");
    std::fs::write(site.root().join(no_text), "").expect("writable");
    std::os::unix::fs::symlink("nowhere", site.root().join("list/dangling")).expect("writable");
    std::os::unix::fs::symlink("d1", site.root().join("list/link")).expect("writable");
}

#[test]
fn lists_of_directories() {
    compare(
        "autoindex on; location /rough/ { alias DIR/list/; autoindex_exact_size off; } \
         location /json/ { alias DIR/list/; autoindex_format json; } location /xml/ { alias DIR/list/; autoindex_format xml; } \
         location /jsonp/ { alias DIR/list/; autoindex_format jsonp; } location /nothing/ { alias DIR/nothing/; } \
         location /utf8/ { alias DIR/list/; charset UTF-8; } location /other/ { alias DIR/list/; charset koi8-r; } \
         location /json8/ { alias DIR/list/; charset utf-8; autoindex_format json; }",
        odd_names,
        &[
            "GET /list/",
            "POST /list/",
            "GET /rough/",
            "GET /utf8/",
            "GET /other/",
            "GET /json8/",
            "GET /json/",
            "GET /xml/",
            "GET /jsonp/",
            "GET /jsonp/?callback=a.b_1",
            "GET /jsonp/?callback=a(b",
            "GET /nothing/",
            "GET /list/d1/",
            "GET /list/D2",
        ],
    );
}

#[test]
fn too_large_bodies() {
    compare(
        "client_max_body_size 10; error_page 413 /404.html; location /any { client_max_body_size 0; return 200; } \
         location /builtin { error_page 410 /x; return 200; }",
        some_files,
        &[
            "POST /a.txt|Content-Length: 11",
            "POST /any|Content-Length: 11",
            "POST /builtin|Content-Length: 11",
            "POST /builtin|Content-Length: 10",
        ],
    );
}

#[test]
fn old_browsers_get_padding() {
    let chrome = "GET /missing|User-Agent: Mozilla/5.0 (X11) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/99.0";
    let off = "GET /off/x|User-Agent: Mozilla/4.0 (compatible; MSIE 8.0; Windows)";
    compare(
        "location /off { msie_padding off; } location /r { return 301 /x; }",
        some_files,
        &[
            chrome,
            off,
            "GET /missing|User-Agent: Mozilla/4.0 (compatible; MSIE 8.0; Windows)",
            "GET /missing|User-Agent: Mozilla/4.0 (compatible; MSIE 8.0; Windows) Opera 9",
            "GET /missing|User-Agent: Mozilla/5.0 (X11; rv:1) Gecko/20100101 Firefox/9 Chrome/1",
            "GET /r|User-Agent: Chrome/9",
        ],
    );
}

#[test]
fn trailers() {
    compare(
        "add_trailer X-T \"$status\"; add_trailer X-None $arg_none; location /off { chunked_transfer_encoding off; \
         alias DIR/a.txt; }",
        some_files,
        &[
            "GET /a.txt",
            "HEAD /a.txt",
            "GET /missing",
            "GET /off",
            "GET /a.txt|If-None-Match: *",
            "GET /a.txt|Range: bytes=0-1",
        ],
    );
}
