//! The same configuration and the same requests to Sealane and to nginx: the
//! responses are equal, up to the differences that `normalise` names.

use sealane_tests::wire::{Connection, Response};
use sealane_tests::{Server, Site, comparison, random::Random, scale};
use std::time::{Duration, SystemTime};

const SEED: u64 = 0x5ea1a9e;

const CONFIGURATION: &str = r#"
    types { text/html html htm; text/plain txt; image/png png; }
    default_type application/octet-stream;
    server_tokens off;
    index index.html;
    gzip_vary on;
    client_max_body_size 100;

    server {
        listen 127.0.0.1:%plain% default_server;
        server_name one.test *.wild.test;
        root html;
        error_page 404 /errors/404.html;
        error_page 403 = @forbidden;
        add_header X-Server one;

        location / { }
        location /list/ { autoindex on; }
        location /aliased/ { alias html/sub/; }
        location ~* \.(png|jpg)$ { expires max; add_header X-Kind picture always; }
        location ^~ /static/ { alias html/; etag off; expires -1; }
        location = /exact { return 200 "exact $args\n"; }
        location /moved/ { return 301 /sub/$is_args$args; }
        location /try/ { try_files $uri $uri.txt /sub/ =404; }
        location /fallback/ { try_files $uri @echo; }
        location @echo { default_type text/plain; return 200 "$request_method $uri|$args|$request_uri\n"; }
        location @forbidden { return 403 "forbidden $uri\n"; }
        location /pre/ { alias html/; gzip_static on; }
        location /ranges/ { alias html/; max_ranges 2; }
        location /noranges/ { alias html/; max_ranges 0; }
        location /since/ { alias html/; if_modified_since before; }
        location /internal/ { internal; return 200 seen; }
        location /errors/ { internal; root html; }
        location ~ ^/re/(?<first>[^/]+)/(.*)$ { default_type text/plain; return 200 "$first|$2\n"; }
        location /status/ { return 418; }
        location /nothing/ { return 204; }
        location /limited/ { client_max_body_size 2; return 200 ok; }
    }
    server {
        listen 127.0.0.1:%plain%;
        server_name two.test "" ~^re[0-9]+\.test$;
        root html/sub;
        absolute_redirect off;
        keepalive_timeout 0;
        location / { add_header X-Server "two $server_name $host"; }
    }
    server {
        listen 127.0.0.1:%plain%;
        server_name three.test;
        return 302 http://elsewhere.test$request_uri;
    }
"#;

/// Seconds since 1970 of every file, 2021-11-09.
const MODIFIED_S: u64 = 1_636_416_000;

fn site() -> Site {
    let site = Site::new();
    let mut files = vec![
        ("index.html", b"<h1>start</h1>".to_vec()),
        ("a.txt", b"0123456789".to_vec()),
        ("a.txt.gz", b"not really gzip".to_vec()),
        ("empty.txt", Vec::new()),
        ("picture.png", Random::new(1).bytes(5000)),
        ("big.bin", Random::new(2).bytes(200_000)),
        ("no-extension", b"?".to_vec()),
        ("with space.txt", b"space".to_vec()),
        ("with%percent.txt", b"percent".to_vec()),
        ("plus+and&.txt", b"plus".to_vec()),
        ("sub/index.html", b"sub index".to_vec()),
        ("sub/b.txt", b"b in sub".to_vec()),
        ("sub/deep/c.txt", b"c".to_vec()),
        ("try/there.txt", b"there".to_vec()),
        ("list/one.txt", b"1".to_vec()),
        ("list/two & three.html", b"23".to_vec()),
        ("list/inner/x", b"".to_vec()),
        ("noindex/x", b"x".to_vec()),
        ("errors/404.html", b"our own page\n".to_vec()),
    ];
    files.push(("UPPER.TXT", b"upper".to_vec()));
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED_S);
    for (name, content) in files {
        let path = site.write(format!("html/{name}"), content);
        set_modified(&path, modified);
    }
    for directory in ["list/inner", "list"] {
        set_modified(&site.path(format!("html/{directory}")), modified);
    }
    site
}

fn set_modified(path: &std::path::Path, time: SystemTime) {
    let file = std::fs::File::open(path).expect("just written");
    file.set_modified(time).expect("the file is ours");
}

fn target(random: &mut Random) -> String {
    let fixed = [
        "/",
        "/a.txt",
        "/empty.txt",
        "/picture.png",
        "/big.bin",
        "/no-extension",
        "/with%20space.txt",
        "/with%25percent.txt",
        "/plus+and&.txt",
        "/sub",
        "/sub/",
        "/sub/b.txt",
        "/sub/deep",
        "/sub/deep/",
        "/list",
        "/list/",
        "/list/inner/",
        "/noindex/",
        "/noindex",
        "/aliased",
        "/aliased/",
        "/aliased/b.txt",
        "/aliased/deep",
        "/static/a.txt",
        "/static/picture.png",
        "/exact",
        "/exact/",
        "/moved/x",
        "/try/there",
        "/try/there.txt",
        "/try/nothing",
        "/fallback/x",
        "/pre/a.txt",
        "/pre/picture.png",
        "/ranges/a.txt",
        "/noranges/a.txt",
        "/since/a.txt",
        "/internal/x",
        "/errors/404.html",
        "/re/one/two/three",
        "/re/one/",
        "/status/",
        "/nothing/",
        "/limited/",
        "/missing",
        "/missing.png",
        "/UPPER.TXT",
        "/upper.txt",
        "/a.TXT",
    ];
    let mut target = (*random.choose(&fixed)).to_owned();
    for _ in 0..random.below(3) {
        target = match random.below(12) {
            0 => target.replacen('/', "//", 1),
            1 => target.replacen('/', "/./", 1),
            2 => format!("/x/..{target}"),
            3 => format!("/x/y/../..{target}"),
            4 => format!("{target}/"),
            5 => format!("{target}/."),
            6 => format!("{target}/.."),
            7 => target.replace('a', "%61"),
            8 => target
                .replace('t', "%74")
                .replace('/', "%2F")
                .replacen("%2F", "/", 1),
            9 => format!("{target}%20"),
            10 => format!("/..{target}"),
            _ => format!("{target}%"),
        };
    }
    let tails = [
        "",
        "",
        "",
        "",
        "?",
        "?x=1&y=%20",
        "?a?b",
        "#part",
        "?x#y",
        "%3Fx",
        ";p=1",
    ];
    target.push_str(random.choose::<&str>(&tails));
    if random.below(15) == 0 {
        target = format!(
            "http://{}{target}",
            random.choose(&["one.test", "two.test", "TWO.test:80", "three.test"])
        );
    }
    target
}

fn headers(random: &mut Random) -> String {
    let mut headers = String::new();
    let mut add = |line: &str| {
        headers.push_str(line);
        headers.push_str("\r\n");
    };
    if random.below(20) != 0 {
        let hosts = [
            "one.test",
            "one.test",
            "one.test",
            "two.test",
            "three.test",
            "a.wild.test",
            "re7.test",
            "unknown",
            "ONE.TEST",
            "one.test:8080",
            "one.test.",
            "[::1]",
            "[::1]:80",
            "127.0.0.1",
            "",
            "a/b",
            "one test",
            "one.test:abc",
            "..",
            "a..b",
        ];
        add(&format!("Host: {}", random.choose(&hosts)));
    }
    let choices: [&[&str]; 6] = [
        &[
            "Range: bytes=0-3",
            "Range: bytes=2-",
            "Range: bytes=-2",
            "Range: bytes=0-0,-1",
            "Range: bytes=1-2,4-5,7-8",
            "Range: bytes=100-",
            "Range: bytes=5-2",
            "Range: bytes=",
            "Range: bytes=a",
            "Range: lines=1-2",
            "Range: bytes=0-",
            "Range: bytes=-0",
            "Range: bytes=-1000000",
            "Range: bytes=0-1,2-3",
            "Range: bytes=0-9,0-9,0-9",
            "Range: bytes=1-1 , 3-3",
            "Range: bytes=99999999999999999999-",
            "Range: bytes= 1-2",
            "range: BYTES=1-2",
            "Range: bytes=1-2;q=1",
            "Range: bytes=0-5,20-",
        ],
        &[
            "If-None-Match: *",
            "If-None-Match: \"6189ba00-a\"",
            "If-None-Match: W/\"6189ba00-a\"",
            "If-None-Match: \"no\", \"6189ba00-a\"",
            "If-None-Match: \"no\"",
            "If-None-Match: nonsense",
            "If-None-Match: \"6189b9\"",
            "If-None-Match:",
        ],
        &[
            "If-Modified-Since: Tue, 09 Nov 2021 00:00:00 GMT",
            "If-Modified-Since: Tue, 09 Nov 2021 00:00:01 GMT",
            "If-Modified-Since: Mon, 08 Nov 2021 23:59:59 GMT",
            "If-Modified-Since: Tuesday, 09-Nov-21 00:00:00 GMT",
            "If-Modified-Since: Tue Nov  9 00:00:00 2021",
            "If-Modified-Since: nonsense",
            "If-Unmodified-Since: Tue, 09 Nov 2021 00:00:00 GMT",
            "If-Unmodified-Since: Mon, 08 Nov 2021 23:59:59 GMT",
            "If-Match: *",
            "If-Match: \"no\"",
            "If-Match: \"6189ba00-a\"",
        ],
        &[
            "If-Range: \"6189ba00-a\"",
            "If-Range: \"no\"",
            "If-Range: Tue, 09 Nov 2021 00:00:00 GMT",
            "If-Range: Mon, 08 Nov 2021 00:00:00 GMT",
            "If-Range: W/\"6189ba00-a\"",
            "If-Range: \"",
        ],
        &[
            "Accept-Encoding: gzip",
            "Accept-Encoding: gzip;q=0",
            "Accept-Encoding: deflate, gzip;q=0.1",
            "Accept-Encoding: *",
            "Accept-Encoding: gzip; q=0.0",
            "Accept-Encoding: gzip;q=1.0000",
            "Accept-Encoding: xgzip",
            "Accept-Encoding: GZIP",
        ],
        &[
            "Connection: close",
            "Connection: keep-alive",
            "Connection: upgrade, close",
            "X_Underscore: 1",
            "Empty:",
            "Colon:: x",
            "Content-Length: 0",
            "Content-Length: 3",
            "Content-Length: 101",
            "Content-Length: -1",
            "Content-Length: 1a",
            "Transfer-Encoding: chunked",
            "Transfer-Encoding: identity",
            "Expect: 100-continue",
            "Expect: other",
            " Leading: space",
            "Bad Name: x",
            "No-Colon",
            "X: a\tb",
            "X-Long: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
        ],
    ];
    for group in choices {
        if random.below(3) == 0 {
            add(random.choose::<&str>(group));
        }
    }
    headers
}

fn request(random: &mut Random) -> String {
    let methods = [
        "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "HEAD", "POST", "PUT", "DELETE",
        "OPTIONS", "PATCH", "PROPFIND", "TRACE", "CONNECT", "UNKNOWN", "get", "G-T",
    ];
    let versions = [
        "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0",
        "HTTP/1.2", "HTTP/2.0", "HTTP/1", "http/1.1",
    ];
    let (method, version) = (random.choose(&methods), random.choose(&versions));
    format!(
        "{method} {} {version}\r\n{}\r\n",
        target(random),
        headers(random)
    )
}

/// What is compared of one exchange: the responses until the server closes or
/// nothing more can come.
fn exchange(server: &Server<'_>, request: &str) -> Vec<Response> {
    let mut connection = Connection::open(server.port("plain"));
    connection.send(request);
    // The bodies that the requests announce; then nothing, so that a connection
    // that is kept alive ends.
    if request.contains("Transfer-Encoding: chunked") {
        connection.send("0\r\n\r\n");
    } else if request.contains("Content-Length: 3\r\n") {
        connection.send("abc");
    } else if request.contains("Content-Length: 101\r\n") {
        connection.send("x".repeat(101));
    }
    connection.shut_down_sending();
    let head_only = request.starts_with("HEAD ");
    let mut responses = Vec::new();
    while let Some(response) = connection.try_response(head_only) {
        // A server may leave out 100 when it does not want the body (RFC 9110, 10.1.1).
        if response.status != 100 {
            responses.push(comparison::normalise(
                &[server.port("plain")],
                response,
                head_only,
            ));
        }
    }
    responses
}

#[test]
fn the_same_answers_as_nginx() {
    let (ours, theirs) = (site(), site());
    let sealane = ours.serve(CONFIGURATION);
    let nginx = theirs.serve_by_nginx(CONFIGURATION);
    let mut random = Random::new(SEED);
    let mut differences = Vec::new();
    let shown = 1000;
    let mut statuses = std::collections::BTreeSet::new();
    let count = scale(3000, 50_000);
    for number in 0..count {
        let request = request(&mut random);
        let (mine, reference) = (exchange(&sealane, &request), exchange(&nginx, &request));
        statuses.extend(reference.iter().map(|response| response.status));
        if mine != reference && !explained(&request, &mine, &reference) {
            differences.push(format!(
                "#{number} {request:?}\n   nginx: {}\n sealane: {}",
                show(&reference),
                show(&mine)
            ));
        }
    }
    // The generator reaches what it is meant to reach.
    for status in [
        200, 204, 206, 301, 302, 304, 400, 403, 404, 405, 412, 413, 416, 418, 501, 505,
    ] {
        assert!(
            statuses.contains(&status),
            "no request was answered with {status}: {statuses:?}"
        );
    }
    assert!(
        differences.is_empty(),
        "{} of {count} differ:\n{}",
        differences.len(),
        differences[..differences.len().min(shown)].join("\n")
    );
}

/// Differences that are there on purpose, or because the nginx of Debian 12
/// (1.22) is older than the one whose behaviour counts.
fn explained(request: &str, mine: &[Response], reference: &[Response]) -> bool {
    let [mine, reference] = [mine, reference].map(|responses| match responses {
        [only] => Some(only),
        _ => None,
    });
    let (Some(mine), Some(reference)) = (mine, reference) else {
        return false;
    };
    // Two things are wrong with the request: which one is named does not matter.
    if mine.status >= 400
        && reference.status >= 400
        && is_refused_by_parser(mine)
        && is_refused_by_parser(reference)
    {
        return true;
    }
    if mine.status == 400 {
        // nginx 1.29 looks at the port in a Host header, 1.22 did not.
        let bad_port = request.contains("Host: one.test:abc\r\n");
        // A header line without a colon is not a header line (RFC 9112, 5): refused, not skipped.
        let no_colon = request.contains("\r\nNo-Colon\r\n");
        // CONNECT takes an authority, not a path (RFC 9112, 3.2.3); 1.22 answered 405.
        let connect = request.starts_with("CONNECT ");
        return bad_port || no_colon || connect;
    }
    // nginx runs its header filters twice for a 416: `add_header ... always` stands there twice.
    if mine.status == 416 && reference.status == 416 {
        let mut theirs: Vec<_> = reference.head.lines().collect();
        theirs.dedup();
        return theirs == mine.head.lines().collect::<Vec<_>>() && mine.body == reference.body;
    }
    // 1.22 has no ranges of what gzip_static sends.
    if reference.status == 200 && reference.head.contains("\ncontent-encoding: gzip\n") {
        let is_part = matches!(mine.status, 206 | 416) && request.contains("\r\nRange: ");
        let head = mine.head.replace("accept-ranges: bytes\n", "");
        return is_part || head == reference.head && mine.body == reference.body;
    }
    // nginx sends a listing in chunks of unknown total; here its length is known and told.
    let without_length = |response: &Response| {
        let lines = response.head.lines().filter(|line| {
            !line.starts_with("content-length") && !line.starts_with("transfer-encoding")
        });
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let is_listing = mine.status == 200 && reference.header("content-length").is_none();
    is_listing && without_length(mine) == without_length(reference) && mine.body == reference.body
}

/// Whether a response is one that the parser of requests gives by itself.
fn is_refused_by_parser(response: &Response) -> bool {
    matches!(response.status, 400 | 405 | 501 | 505) && response.head.contains("connection: close")
}

fn show(responses: &[Response]) -> String {
    let each = responses.iter().map(|response| {
        let body: String = response.text().chars().take(80).collect();
        format!("{:?} {} bytes {body:?}", response.head, response.body.len())
    });
    each.collect::<Vec<_>>().join(" + ")
}
