//! Files, directories, conditions, ranges, fixed answers, error pages, `try_files`, `index`,
//! `add_header`, `autoindex`.

use super::{Files, compare};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

pub(super) fn some_files(files: &Files) {
    files
        .file("a.txt", "0123456789\n")
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
        |files| {
            some_files(files);
            let link = |to: &str, name: &str| {
                std::os::unix::fs::symlink(to, files.root().join(name)).expect("writable");
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

fn odd_names(files: &Files) {
    some_files(files);
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
        files.file(&format!("list/{name}"), "");
    }
    for (name, bytes) in [
        ("k", 10_000),
        ("k2", 10_751),
        ("b", 9_999),
        ("m", 1 << 20),
        ("m2", (3 << 19) + 1),
    ] {
        files.file(&format!("list/{name}"), vec![b'x'; bytes]);
    }
    for bytes in [46, 47, 49, 50, 51, 60] {
        files.file(&format!("list/{}", "n".repeat(bytes)), "");
        let directory = files.root().join(format!("list/{}", "d".repeat(bytes)));
        std::fs::create_dir_all(&directory).expect("writable");
    }
    files.file(&format!("list/{}<", "m".repeat(46)), "");
    files.file(&format!("list/{}", "é".repeat(40)), "");
    for characters in [47, 49, 50, 51, 60] {
        files.file(&format!("list/{}", "ü".repeat(characters)), "");
        let directory = files
            .root()
            .join(format!("list/{}", "ö".repeat(characters)));
        std::fs::create_dir_all(&directory).expect("writable");
    }
    let no_text = OsStr::from_bytes(b"list/\xc3\xa4\xff");
    std::fs::write(files.root().join(no_text), "").expect("writable");
    std::os::unix::fs::symlink("nowhere", files.root().join("list/dangling")).expect("writable");
    std::os::unix::fs::symlink("d1", files.root().join("list/link")).expect("writable");
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
