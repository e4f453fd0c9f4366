//! The configuration in which nothing is wrong, and mistakes in its text.

use crate::judge::{Case, Expected};
use sealane_conf::directives::{Contexts, EVENTS, HTTP, LOCATION, MAIN, SERVER, UPSTREAM};
use sealane_tests::Site;
use sealane_tests::random::Random;
use std::os::unix::ffi::OsStrExt;

/// Where a line is written: the words stand alone in their line of the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A context of directives.
    In(Contexts),
    /// The server with TLS.
    Tls,
}

/// Everything that a mistake is put into. Each line begins with what it says, so that a line can
/// take the place of another one of its name.
pub(crate) const BASE: &str = "\
worker_processes 2;
pid logs/pid;
error_log logs/error.log info;
#main
events {
#events
}
http {
access_log off;
#http
upstream localhost {
server 127.0.0.1:%one%;
#upstream
}
server {
listen 127.0.0.1:%plain%;
server_name a.test;
location / { return 200 first; }
}
server {
listen 127.0.0.1:%plain%;
server_name b.test;
#server
location /there {
#location
}
}
server {
listen 127.0.0.1:%tls% ssl;
server_name a.test;
ssl_certificate certificates/server.pem;
ssl_certificate_key certificates/server.key;
#tls
location / { return 200 tls; }
}
}
";

/// The base with a line at a place.
pub(crate) fn with(base: &str, place: Place, line: &str) -> String {
    let mark = match place {
        Place::In(MAIN) => "#main\n",
        Place::In(EVENTS) => "#events\n",
        Place::In(HTTP) => "#http\n",
        Place::In(UPSTREAM) => "#upstream\n",
        Place::In(SERVER) => "#server\n",
        Place::In(LOCATION) => "#location\n",
        Place::In(other) => panic!("no place for context {other}"),
        Place::Tls => "#tls\n",
    };
    assert_eq!(base.matches(mark).count(), 1, "{mark}");
    base.replace(mark, &format!("{line}\n"))
}

fn case(class: &'static str, expected: Expected, text: impl Into<Vec<u8>>) -> Case {
    Case {
        class,
        text: text.into(),
        expected,
    }
}

/// Braces, quotes, semicolons, and bytes that belong into no configuration.
pub(crate) fn syntax(base: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |expected, text: Vec<u8>| cases.push(case("syntax", expected, text));
    // Each of these characters is needed. Without the end of a statement the next one is part of
    // it, which a list of words may not mind.
    for (at, byte) in base.bytes().enumerate() {
        let expected = match byte {
            b'{' | b'}' => Expected::Refused,
            b';' => Expected::Alike,
            _ => continue,
        };
        let mut text = base.as_bytes().to_vec();
        text.remove(at);
        if !listens_elsewhere(&text) {
            add(expected, text);
        }
    }
    let broken: [&[u8]; 22] = [
        b"{",
        b"}",
        b";",
        b"\"",
        b"'",
        b"\"a\"b;",
        b"'a'b;",
        b"root \"html;",
        b"root 'html;",
        b"root html\\",
        b"root {html};",
        b"root ${html;",
        b"root ${;",
        b"{ }",
        b"} {",
        b"\0",
        b"root \0;",
        b"\xff\xfe;",
        b"root a;;",
        b"\"\";",
        b"root html }",
        b"root (html;",
    ];
    for line in broken {
        for mark in ["#main\n", "#http\n", "#server\n", "#location\n"] {
            let (before, after) = base.split_once(mark).expect("the base has it");
            let text = [before.as_bytes(), line, b"\n", after.as_bytes()].concat();
            add(Expected::Alike, text);
        }
    }
    let utf16: Vec<u8> = base.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let long = format!("root {};", "x".repeat(70_000));
    let deep = |depth| {
        format!(
            "{}{}",
            "location /there/a { ".repeat(depth),
            "} ".repeat(depth)
        )
    };
    for text in [
        Vec::new(),
        b"\0".to_vec(),
        b"\n\n\n".to_vec(),
        b"# nothing\n".to_vec(),
        utf16,
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03;".to_vec(),
        (0..=255).collect(),
        [b"\xef\xbb\xbf", base.as_bytes()].concat(),
        base.replace('\n', "\r").into_bytes(),
        base.replace('\n', "\r\n").into_bytes(),
        [base.as_bytes(), b"\0"].concat(),
        base.repeat(2).into_bytes(),
        base.as_bytes()[..base.len() / 2].to_vec(),
        with(base, Place::In(SERVER), &long).into_bytes(),
        with(base, Place::In(LOCATION), &deep(2)).into_bytes(),
        with(base, Place::In(LOCATION), &deep(100)).into_bytes(),
    ] {
        add(Expected::Alike, text);
    }
    cases
}

/// Names that no directive has, and letters that are missing.
pub(crate) fn unknown(base: &str) -> Vec<Case> {
    let names = [
        "rot",
        "Root",
        "server_nam",
        "locations",
        "no_such_directive",
        "ssl_certificat",
        "proxy-pass",
        "\u{fc}ber",
        "-",
        "$uri",
        "0",
        "root\\;",
        "\\",
        "root:",
        "root=html",
        "=",
        "*",
        "http2_on",
    ];
    let places = [MAIN, EVENTS, HTTP, UPSTREAM, SERVER, LOCATION];
    let mut cases = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let at = |place: usize| Place::In(places[place % places.len()]);
        for (place, line) in [
            (at(index), format!("{name} on;")),
            (at(index + 4), format!("{name} {{ }}")),
        ] {
            cases.push(case(
                "unknown directives",
                Expected::Refused,
                with(base, place, &line),
            ));
        }
    }
    cases
}

/// `include` of what is not there, comes back to itself, or is no text.
pub(crate) fn includes(base: &str, site: &Site) -> Vec<Case> {
    site.write(
        "parts/itself.conf",
        "include itself.conf;\ninclude parts/itself.conf;",
    );
    site.write("parts/ping.conf", "include parts/pong.conf;");
    site.write("parts/pong.conf", "\n\ninclude parts/ping.conf;");
    site.write("parts/missing.conf", "include parts/not-there.conf;");
    site.write("parts/binary.conf", Random::new(3).bytes(4096));
    site.write("parts/nul.conf", b"root html;\0");
    site.write("parts/unclosed.conf", "location /unclosed {");
    site.write("parts/closing.conf", "}");
    site.write("parts/unknown.conf", "\n\n  no_such_directive;");
    site.write("parts/quote.conf", "add_header x \"y;");
    site.write("parts/half.conf", "add_header x");
    let huge = std::fs::File::create(site.path("parts/huge.conf")).expect("the site is writable");
    huge.set_len(65 << 20).expect("holes take no room");
    let fifo = std::ffi::CString::new(site.path("parts/fifo.conf").as_os_str().as_bytes());
    sealane_tests::command(
        "mkfifo",
        &[fifo.expect("no NUL").to_str().expect("UTF-8")],
        b"",
    )
    .success();
    let mut cases = Vec::new();
    for name in [
        "parts/itself.conf",
        "parts/ping.conf",
        "parts/missing.conf",
        "parts/binary.conf",
        "parts/nul.conf",
        "parts/unclosed.conf",
        "parts/closing.conf",
        "parts/unknown.conf",
        "parts/quote.conf",
        "parts/half.conf",
        "parts/not-there.conf",
        "parts",
        "parts/*.conf",
        "certificates/server.pem",
        "certificates/server.key",
        "/dev/zero",
        "sealane.conf",
    ] {
        for place in [HTTP, SERVER] {
            let line = format!("include {name};");
            cases.push(case(
                "include",
                Expected::Refused,
                with(base, Place::In(place), &line),
            ));
        }
    }
    for (expected, name) in [
        (Expected::Refused, "parts/huge.conf"),
        (Expected::Taken, "parts/none-*.conf"),
        (Expected::Taken, "parts/[.conf"),
        (Expected::Taken, "/dev/null"),
        (Expected::Alike, "parts/fifo.conf"),
    ] {
        let line = format!("include {name};");
        cases.push(case(
            "include",
            expected,
            with(base, Place::In(LOCATION), &line),
        ));
    }
    cases
}

/// A configuration of everyday use. No name in it has to be looked up elsewhere, and none comes to
/// be when a word is changed that [`is_address`] does not keep.
pub(crate) const LARGE: &str = "\
worker_processes 2;
pid logs/pid;
error_log logs/error.log info;
worker_shutdown_timeout 5s ;
events { worker_connections 64 ; multi_accept off ; }
http {
    include parts/types.conf ;
    default_type text/plain ;
    access_log off ;
    log_format short '$remote_addr \"$request\" $status' ;
    sendfile on ;
    tcp_nopush on ;
    keepalive_timeout 65s ;
    keepalive_requests 100 ;
    server_tokens off ;
    client_header_buffer_size 1k ;
    large_client_header_buffers 4 8k ;
    client_max_body_size 8m ;
    open_file_cache max=100 inactive=20s ;
    open_file_cache_valid 30s ;
    ssl_protocols TLSv1.2 TLSv1.3 ;
    ssl_session_cache shared:ssl:1m ;
    ssl_session_timeout 10m ;
    ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20 ;
    upstream localhost {
        server 127.0.0.1:%one% weight=2 max_fails=3 fail_timeout=10s ;
        server 127.0.0.1:%two% backup ;
        keepalive 4 ;
    }
    server {
        listen 127.0.0.1:%plain% ;
        server_name a.test *.b.test ~^www\\d+\\.test$ ;
        root html ;
        index index.html index.htm ;
        error_page 404 /404.html ;
        error_page 500 502 503 504 /50x.html ;
        add_header X-Frame-Options SAMEORIGIN always ;
        location / { return 200 first ; }
        location = /exact { return 204 ; }
        location ^~ /static/ { expires 30d ; autoindex on ; try_files $uri $uri/ =404 ; }
        location ~ ^/x(\\d+)$ { return 301 /y/$1 ; }
        location ~* \\.(gif|jpg)$ { etag off ; limit_rate 100k ; }
        location /p {
            proxy_pass http://localhost ;
            proxy_set_header Host $host ;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for ;
            proxy_connect_timeout 5s ;
            proxy_buffers 8 4k ;
            proxy_next_upstream error timeout ;
        }
        location /q { return 302 https://$host$request_uri ; }
    }
    server {
        listen 127.0.0.1:%tls% ssl ;
        server_name a.test ;
        ssl_certificate certificates/server.pem ;
        ssl_certificate_key certificates/server.key ;
        http2 on ;
        location / { return 200 tls ; }
    }
}
";

/// How many lines of [`LARGE`] stay as they are: they say where the log and the pid file are.
const KEPT_LINES: usize = 3;

/// The large configuration with one change at random.
pub(crate) fn changed(large: &str, random: &mut Random) -> Case {
    loop {
        let text = change(large, random);
        if text != large.as_bytes() && !listens_elsewhere(&text) {
            return case("changes at random", Expected::Alike, text);
        }
    }
}

fn change(large: &str, random: &mut Random) -> Vec<u8> {
    let kept: usize = large
        .split_inclusive('\n')
        .take(KEPT_LINES)
        .map(str::len)
        .sum();
    let (head, rest) = large.split_at(kept);
    // Words with the blanks in front of them.
    let mut words: Vec<Vec<u8>> = Vec::new();
    for piece in rest.split_inclusive(char::is_whitespace) {
        words.push(piece.as_bytes().to_vec());
    }
    let at = loop {
        let at = random.below(words.len());
        if !is_address(&words[at]) {
            break at;
        }
    };
    let other = random.choose(&words).clone();
    let near_address = |at: usize| words.get(at).is_some_and(|word| is_address(word));
    let inserted = random.choose(&["{ ", "} ", "; ", "\" ", "' ", "$ ", "-1 "]);
    match random.below(6) {
        0 => drop(words.remove(at)),
        1 if !near_address(at + 1) => words.insert(at, words[at].clone()),
        2 if at > 0 && !near_address(at - 1) => words.swap(at, at - 1),
        3 if !is_address(&other) => words[at] = other,
        4 => {
            let byte = random.below(words[at].len());
            words[at][byte] ^= 1 << random.below(8);
        }
        5 if random.below(4) == 0 => words.truncate(at),
        _ => words.insert(at, inserted.as_bytes().to_vec()),
    }
    [head.as_bytes(), &words.concat()].concat()
}

/// Words that would be another address, or a name that has to be looked up.
fn is_address(word: &[u8]) -> bool {
    let contains = |part: &[u8]| word.windows(part.len()).any(|bytes| bytes == part);
    contains(b"127.0.0.1") || contains(b"://") || contains(b"listen")
}

/// Whether a server would take port 80, which is not a test's, because no line says `listen`.
pub(crate) fn listens_elsewhere(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    if text.contains("#!") {
        return true;
    }
    let lines = text.lines().map(str::trim);
    let code: Vec<&str> = lines
        .map(|line| line.split('#').next().unwrap_or_default())
        .collect();
    let code = code.join(" ");
    let words: Vec<&str> = code.split_whitespace().collect();
    let words = words.join(" ");
    let listens = |block: &str| block.starts_with(" listen 127.0.0.1");
    let blocks = words.split("server {").skip(1);
    let whole = words.matches("server {").count() == words.matches("listen 127.0.0.1").count();
    !whole || !blocks.into_iter().all(listens)
}
