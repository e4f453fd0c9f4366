//! What the origin answers.

/// Heads and bodies of the origin, by name. `%` stands for its address.
pub(crate) fn canned() -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, String)> = Vec::new();
    let mut with_headers = |name, status: &str, headers: &str| {
        let body = if status.starts_with("204") || status.starts_with("304") {
            ""
        } else {
            "0123456789"
        };
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        all.push((
            name,
            format!("HTTP/1.1 {status}\r\n{headers}{length}\r\n{body}"),
        ));
    };
    with_headers("ok", "200 OK", "Content-Type: text/plain\r\n");
    with_headers(
        "named",
        "200 Named",
        "Content-Type: text/plain\r\nX-Custom: named\r\n",
    );
    with_headers("untyped", "200 OK", "");
    with_headers(
        "reason",
        "200 All Is Well",
        "Content-Type: text/html; charset=utf-8\r\n",
    );
    with_headers(
        "404",
        "404 Nope",
        "Content-Type: text/html\r\nLast-Modified: Tue, 09 Nov 2021 00:00:00 GMT\r\nX-Custom: c\r\n",
    );
    with_headers("410", "410 Gone", "Set-Cookie: a=b\r\n");
    with_headers("500", "500 Internal Server Error", "X-Custom: c\r\n");
    with_headers("502", "502 Bad Gateway", "");
    with_headers(
        "401",
        "401 Unauthorized",
        "WWW-Authenticate: Basic realm=\"a\"\r\nwww-authenticate: Digest x\r\n",
    );
    with_headers("429", "429 Too Many Requests", "Retry-After: 3\r\n");
    with_headers("418", "418 I'm a teapot", "");
    with_headers("299", "299 Own", "");
    with_headers("599", "599 Own", "");
    with_headers("201", "201 Created", "Location: http://%/r/new\r\n");
    with_headers("204", "204 No Content", "X-Custom: c\r\nETag: \"e\"\r\n");
    with_headers(
        "304",
        "304 Not Modified",
        "ETag: \"e\"\r\nContent-Type: a/b\r\nLast-Modified: Tue, 09 Nov 2021 00:00:00 GMT\r\nExpires: 0\r\n",
    );
    with_headers(
        "206",
        "206 Partial Content",
        "Content-Range: bytes 0-9/100\r\nAccept-Ranges: bytes\r\n",
    );
    with_headers(
        "moved",
        "301 Moved Permanently",
        "Location: http://%/r/x/y?z\r\n",
    );
    with_headers(
        "found",
        "302 Found",
        "Location: http://other.test/a/b?c\r\n",
    );
    with_headers(
        "other",
        "303 See Other",
        "Location: HTTPS://Other.test/a/last\r\n",
    );
    with_headers(
        "temporary",
        "307 Temporary Redirect",
        "Location: /r/path\r\n",
    );
    with_headers(
        "permanent",
        "308 Permanent Redirect",
        "location: relative/path\r\n",
    );
    with_headers("empty_location", "302 Found", "Location:\r\n");
    with_headers("refresh", "200 OK", "Refresh: 5; url=http://%/r/x\r\n");
    with_headers(
        "refresh_other",
        "200 OK",
        "Refresh: 0;URL=http://other.test/a\r\n",
    );
    with_headers("refresh_none", "200 OK", "Refresh: 5\r\n");
    with_headers(
        "cookies",
        "200 OK",
        "Set-Cookie: s1=v1; domain=origin.test; path=/r/x\r\nSet-Cookie: s2=v2; Domain=.ORIGIN.test; HttpOnly; Secure\r\n\
         set-cookie: plain=x; secure; httponly; samesite=none; path=/\r\nSet-Cookie: front.test=1; path=/App/x\r\n\
         Set-Cookie: other=a.b; domain=www.name.org; path=/app/y; expires=Thu, 01 Jan 1970 00:00:00 GMT\r\n\
         Set-Cookie: d=1; domain=dotted.test\r\nSet-Cookie: valueless\r\n",
    );
    with_headers(
        "many",
        "200 OK",
        "Server: origin/1.0 (x)\r\nDate: Tue, 09 Nov 2021 00:00:00 GMT\r\nX-Pad: p\r\nX-Custom: one\r\nx-lOWER: A  b\tc\r\n\
         X-Custom: two\r\nX-Empty:\r\nX_Under: 1\r\nETag: W/\"x\"\r\nLast-Modified: Tue, 09 Nov 2021 00:00:00 GMT\r\n\
         Expires: Tue, 09 Nov 2021 01:00:00 GMT\r\nCache-Control: private\r\nCache-Control: max-age=1\r\nLink: </a>; rel=x\r\n\
         Vary: Accept\r\nContent-Disposition: inline\r\nContent-Encoding: identity\r\nContent-Language: de\r\nAccept-Ranges: none\r\n\
         Keep-Alive: timeout=5\r\nConnection: keep-alive\r\nStatus: 200 fine\r\nTrailer: x\r\nUpgrade: h9\r\nProxy-Authenticate: a\r\nVia: 1.1 x\r\n\
         X-Accel-Limit-Rate: 100000\r\nX-Accel-Buffering: no\r\nX-Accel-Charset: utf-8\r\nX-Accel-Expires: 10\r\n",
    );
    with_headers(
        "bytes",
        "200 OK",
        "X-Bytes: \u{e9}\u{65e5}\r\nContent-Type: text/plain;  charset=\"x\"\r\n",
    );
    with_headers(
        "twice",
        "200 OK",
        "Content-Type: a/b\r\nContent-Type: c/d\r\nETag: \"1\"\r\nETag: \"2\"\r\nExpires: 0\r\nExpires: 1\r\n",
    );
    for (name, target) in [
        ("accel", "/internal/there.txt"),
        ("accel_args", "/internal/there.txt?a=b"),
        ("accel_escaped", "/internal/%74here.txt"),
        ("accel_missing", "/internal/missing"),
        ("accel_unsafe", "/internal/../there.txt"),
        ("accel_unsafe_escaped", "/internal/%2e%2e/there.txt"),
        ("accel_empty", ""),
        ("accel_named", "@named"),
        ("accel_unnamed", "@nothing"),
        ("accel_pass", "/default/cookies"),
    ] {
        let headers = format!(
            "X-Accel-Redirect: {target}\r\nSet-Cookie: s1=v; domain=origin.test\r\nContent-Disposition: attachment\r\nCache-Control: no-store\r\n\
             Expires: 0\r\nContent-Type: text/x-own\r\nX-Custom: lost\r\nETag: \"lost\"\r\nLast-Modified: Tue, 09 Nov 2021 00:00:00 GMT\r\n"
        );
        with_headers(name, "200 OK", &headers);
    }
    with_headers(
        "accel_error",
        "500 Oops",
        "X-Accel-Redirect: /internal/there.txt\r\n",
    );
    for (name, whole) in [
        (
            "old",
            "HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nuntil the end",
        ),
        (
            "old_length",
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ),
        (
            "to_the_end",
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
        ),
        ("nothing", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (
            "chunks",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\nyou\r\n0\r\n\r\n",
        ),
        (
            "trailers",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
        ),
        (
            "bare_lf",
            "HTTP/1.1 200 OK\nContent-Length: 5\nX-Custom: c\n\nhello",
        ),
        (
            "status_twice",
            "HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ),
        (
            "http_1_9",
            "HTTP/1.9 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ),
        ("closed", ""),
        ("half", "HTTP/1.1 200 O"),
        ("half_head", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-"),
        ("bad_name", "HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n"),
        ("control", "HTTP/1.1 200 OK\r\nX\u{1}: x\r\n\r\n"),
        ("folded", "HTTP/1.1 200 OK\r\nX-A: x\r\n folded\r\n\r\n"),
        (
            "two_lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        ),
        (
            "bad_length",
            "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello",
        ),
        (
            "both",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "coding",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        ),
    ] {
        all.push((name, whole.to_owned()));
    }
    all.push((
        "too_big",
        format!("HTTP/1.1 200 OK\r\nX-Big: {}\r\n\r\n", "x".repeat(70_000)),
    ));
    all
}
