//! Filters of texts, on files and on what servers behind answer.

use super::{Files, compare_http};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A server that answers every path with the response that stands for it here, in pieces of the
/// length in the path's last digits (`/name-1`).
fn origin(answers: &'static [(&'static str, &'static str)]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        // It ends with the process.
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, answers));
        }
    });
    port
}

/// Whoever asks may go before the end, so errors are not looked at.
fn answer(mut stream: TcpStream, answers: &[(&str, &str)]) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let is_head = head.starts_with("HEAD ");
    let path = head.split(' ').nth(1)?;
    let (name, piece_bytes) = path[1..].split_once('-')?;
    let (_, response) = answers.iter().find(|(known, _)| *known == name)?;
    let (head, body) = response.split_once("\n\n")?;
    let head = head.replace('\n', "\r\n");
    stream
        .write_all(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{head}\r\n\r\n").as_bytes())
        .ok()?;
    let body = if is_head { "" } else { body };
    stream.set_nodelay(true).ok()?;
    for piece in body.as_bytes().chunks(piece_bytes.parse().ok()?) {
        std::thread::sleep(Duration::from_millis(1));
        stream.write_all(piece).ok()?;
    }
    Some(())
}

fn texts(files: &Files) {
    files
        .file("a.html", "<p>Hello, hello HELLO</p>")
        .file("a.txt", "hello abcd abc ab")
        .file("end.html", "some ab")
        .file("begun.html", "some abc")
        .file("empty.html", "")
        .file("404.html", "not hello")
        .file("head.html", "<head>\n")
        .file("foot.html", "</foot>\n")
        .file("latin.html", b"gr\xfc\xdfe \x80 \x81 end")
        .file("utf.html", "grüße € 😀 ž \u{2028} end")
        .file("broken.html", b"\xc3A \x80 \xe2\x82 \xc0\xe2\x82");
}

#[test]
fn replaced_texts() {
    compare_http(
        "",
        "sub_filter Hello bye; location /all/ { alias DIR/; sub_filter_once off; sub_filter hello 'by $uri'; } \
         location /types/ { alias DIR/; sub_filter_types text/plain; sub_filter hello bye; } \
         location /any/ { alias DIR/; sub_filter_types *; sub_filter_last_modified on; sub_filter_once off; sub_filter abcd X; sub_filter ABC Y; sub_filter 'ab' ''; } \
         location /swapped/ { alias DIR/; sub_filter_types *; sub_filter_once off; sub_filter ab Z; sub_filter abcd X; } \
         location /dynamic/ { alias DIR/; sub_filter_types *; sub_filter_once off; sub_filter $arg_a $arg_b; sub_filter $arg_c $arg_d; } \
         location /returned { return 200 'hello'; default_type text/html; } location /gone { return 410; } \
         error_page 404 /404.html;",
        texts,
        &[
            "GET /a.html",
            "HEAD /a.html",
            "GET /a.html|Range: bytes=0-3",
            "GET /a.html|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /a.html|If-None-Match: \"3b9aca00-19\"",
            "GET /a.txt",
            "GET /empty.html",
            "GET /none",
            "GET /returned",
            "GET /gone",
            "GET /all/a.html",
            "GET /all/a.txt",
            "GET /types/a.txt",
            "GET /types/a.html",
            "GET /any/a.txt",
            "GET /any/a.html",
            "GET /any/end.html",
            "GET /any/begun.html",
            "GET /any/a.txt|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /any/a.txt|Range: bytes=0-3",
            "GET /swapped/a.txt",
            "GET /swapped/begun.html",
            "GET /dynamic/a.txt?a=HELLO&b=x&c=ab&d=long",
            "GET /dynamic/a.txt?c=ab&d=long",
            "GET /dynamic/a.txt",
        ],
    );
}

#[test]
fn replaced_texts_of_other_servers() {
    const ANSWERS: &[(&str, &str)] = &[
        (
            "html",
            "Content-Type: text/html; charset=utf-8\nLast-Modified: Sun, 09 Sep 2001 01:46:40 GMT\nETag: \"x\"\nAccept-Ranges: bytes\n\n<head>ababac</head>",
        ),
        (
            "length",
            "Content-Type: text/html\nContent-Length: 6\n\nababac",
        ),
        ("plain", "Content-Type: text/plain\n\nababac"),
        ("untyped", "X-A: b\n\nababac"),
        ("parameter", "Content-Type: text/html;level=1\n\nababac"),
        (
            "coded",
            "Content-Type: text/html\nContent-Encoding: gzip\n\nababac",
        ),
    ];
    let port = origin(ANSWERS);
    compare_http(
        "",
        &format!(
            "sub_filter abac X; sub_filter head body; sub_filter_once off; \
             location / {{ proxy_pass http://127.0.0.1:{port}; }} \
             location /now/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_buffering off; }} \
             location /kept/ {{ sub_filter_last_modified on; proxy_pass http://127.0.0.1:{port}/; }}"
        ),
        |_| {},
        &[
            "GET /html-1",
            "GET /html-2",
            "GET /html-3",
            "GET /html-100",
            "GET /now/html-1",
            "GET /now/html-5",
            "GET /kept/html-4",
            "HEAD /html-100",
            "GET /length-1",
            "GET /length-1|Range: bytes=0-1",
            "GET /plain-3",
            "GET /untyped-3",
            "GET /parameter-3",
            "GET /coded-3",
        ],
    );
}

#[test]
fn added_answers() {
    const ANSWERS: &[(&str, &str)] = &[
        (
            "html",
            "Content-Type: text/html\nETag: \"x\"\nAccept-Ranges: bytes\nContent-Length: 5\n\nhello",
        ),
        ("plain", "Content-Type: text/plain\n\nhello"),
        ("other", "Content-Type: text/html\n\nHello you"),
    ];
    let port = origin(ANSWERS);
    compare_http(
        MAPS,
        &format!(
            "add_before_body /head.html; add_after_body /foot.html; error_page 404 /404.html; error_page 404 /404.html; \
             location /types/ {{ alias DIR/; addition_types text/plain; }} \
             location /any/ {{ alias DIR/; addition_types *; add_after_body ''; }} \
             location /missing/ {{ alias DIR/; add_before_body /none; add_after_body /gone; }} \
             location /gone {{ return 410; }} location /moved {{ return 302 /x; }} \
             location /words/ {{ alias DIR/; sub_filter head HEAD; sub_filter hello X; add_after_body /lower/; }} \
             location /lower/ {{ internal; alias DIR/; sub_filter head low; try_files head.html =404; }} \
             location /proxied/ {{ proxy_pass http://127.0.0.1:{port}/; add_before_body /over/other-1; add_after_body /over/plain-2; }} \
             location /over/ {{ proxy_pass http://127.0.0.1:{port}/; sub_filter you me; }} \
             location /echo/ {{ alias DIR/; add_before_body /say/x?y; add_after_body /go; }} \
             location /say/ {{ default_type text/html; return 200 '$uri $args $request_uri $request_method $is_args|'; }} \
             location /go {{ rewrite ^ /say/moved?q; }} \
             location /closed/ {{ alias DIR/; add_after_body /bytes; }} \
             location /bytes {{ alias DIR/latin.html; add_header X-Y z; expires 1h; source_charset iso-8859-1; }} \
             location /set/ {{ alias DIR/; charset utf-8; add_after_body /bytes; }}"
        ),
        texts,
        &[
            "GET /a.html",
            "HEAD /a.html",
            "POST /proxied/html-1",
            "GET /a.html|Range: bytes=0-3",
            "GET /a.html|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /a.html|If-None-Match: \"3b9aca00-19\"",
            "GET /empty.html",
            "GET /a.txt",
            "GET /none",
            "GET /moved",
            "GET /types/a.txt",
            "GET /types/a.txt|Range: bytes=0-3",
            "GET /any/a.txt",
            "GET /missing/a.html",
            "GET /words/a.html",
            "GET /lower/",
            "GET /proxied/html-1",
            "GET /proxied/html-5",
            "GET /proxied/plain-1",
            "HEAD /proxied/html-5",
            "GET /echo/a.html?a=b",
            "GET /closed/a.html",
            "GET /set/a.html",
            "GET /set/a.html|Accept-Encoding: gzip",
        ],
    );
}

/// Pages with commands.
fn pages(files: &Files) {
    texts(files);
    files.file("echo.html", "<<!--#echo var='uri' --> <!-- no --> <!-<!--#echo var=\"arg_a\"--><!--#echo var=\"none\" --><!--#echo var=\"none\" default=\"d\" --><!--#echo var=\"none\" default=\"\" -->|<!--#echo var='arg_b' encoding='url'--> <!--#echo var='arg_b' encoding='none'--> <!--#echo var='arg_b' --> <!--#echo var='arg_b' encoding='entity'-->.")
        .file("wrong.html", "a<!--#foo -->b<!--#echo -->c<!--#echo var='a' var='b' -->d<!--#echo x='y' var='a' -->e<!--#endif -->f<!--#echo var=a -->g<!--#echo var -->h<!--#echo var- -->i<!--#echo var='x'x -->j<!--#echo var='x' -x -->k<!--#config errmsg='[!]' --><!--#else -->l<!--#abcdefghijklmnopqrstuvwxyzabcdefghijk -->m<!--#include -->n<!--#include virtual='x' file='y' -->o<!--#include file='a.html' wait='yes' -->p<!--#include virtual='a.html' wait='x' -->q<!--#include virtual='/../x' -->r<!--#include virtual='a.html' set='a' stub='b' -->s<!--#include virtual='a.html' stub='b' -->t<!--#echo var='x' --->u")
        .file("if.html", "<!--#set var='v' value='abc' --><!--#if expr=\"$v\" -->1<!--#else -->2<!--#endif --><!--#if expr=\"$v = abc\" -->3<!--#endif --><!--#if expr=\"$v != abc\" -->4<!--#elif expr=\"$v = /^(a)(?<rest>.*)/\" -->5<!--#echo var='1' --><!--#echo var='rest' --><!--#else -->6<!--#endif --><!--#if expr=\"$none\" -->7<!--#echo var='uri' --><!--#else -->8<!--#endif --><!--#if expr=\"$v ~ x\" -->9<!--#endif --><!--#if expr=\"$v = /(/\" -->10<!--#endif --><!--#if expr=\"$arg_a = ${arg_b}x\" -->11<!--#endif -->.<!--#if expr=\"$v\" --><!--#if expr=\"$v\" -->12<!--#endif -->")
        .file("set.html", "<!--#set var='Name' value=\"$arg_a-${arg_b}-\\$x \\'q\\' \\n\" --><!--#echo var='name' --><!--#set var='name' value=\"[$name]\" --><!--#echo var='NAME' --><!--#set var='x' value=\"${x\" --><!--#set var='x' value=\"a$\" -->")
        .file("dir/include.html", "1<!--#include virtual=\"/a.html\" -->2<!--#include virtual='../x' -->3<!--#include virtual='inner.html?x=y' -->4<!--#include file='inner.html' -->5<!--#include virtual='/none' -->6<!--#include virtual='/upper/html-1' -->7<!--#include virtual='/empty.html' -->8<!--#include virtual='inner.html' wait='yes' -->9<!--#echo var='set_inside' -->")
        .file("dir/inner.html", "(<!--#echo var='uri' -->?<!--#echo var='args' --> <!--#echo var='request_uri' --><!--#set var='set_inside' value='inside' -->)")
        .file("stub.html", "<!--#block name='one' -->stub <!--#echo var='uri' --><!--#endblock -->a<!--#include virtual='/none' stub='one' -->b<!--#include virtual='/empty.html' stub='one' -->c<!--#include virtual='/a.html' stub='one' -->d<!--#include virtual='/none' stub='two' -->e")
        .file("setting.html", "<!--#include virtual='/a.txt' set='got' -->[<!--#echo var='got' -->]<!--#include virtual='/none' set='got' -->[<!--#echo var='got' -->]<!--#include virtual='/upper/plain-1' set='other' -->[<!--#echo var='other' -->]")
        .file("cycle.html", "x<!--#include virtual='/cycle.html' -->y")
        .file("open.html", "text <!--#echo var='uri' ")
        .file("date.html", "<!--#config timefmt='%s' --><!--#if expr='$date_gmt = $date_local' -->same<!--#endif --><!--#config timefmt='[%%]' --><!--#echo var='date_local' --><!--#echo var='date_gmt' --><!--#echo var='gmt' --><!--#config timefmt='' --><!--#echo var='date_gmt' -->")
        .file("many.html", "<!--#include virtual='/limited/a.txt' --> <!--#include virtual='/limited/a.html' --> <!--#include file='inner.html' --><!--#include virtual='/limited/a.txt' -->");
}

#[test]
fn includes() {
    const ANSWERS: &[(&str, &str)] = &[
        (
            "html",
            "Content-Type: text/html\nETag: \"x\"\nAccept-Ranges: bytes\nContent-Length: 47\n\nup <!-- <<!--#echo var='request_method' --> <!-",
        ),
        (
            "plain",
            "Content-Type: text/plain\n\nplain <!--#echo var='uri' -->",
        ),
    ];
    let port = origin(ANSWERS);
    compare_http(
        "",
        &format!(
            "ssi on; location /upper/ {{ proxy_pass http://127.0.0.1:{port}/; }} \
             location /off/ {{ alias DIR/; ssi off; }} location /silent/ {{ alias DIR/; ssi_silent_errors on; ssi_last_modified on; }} \
             location /short/ {{ alias DIR/; ssi_value_length 3; ssi_types text/plain; }} \
             location /added/ {{ alias DIR/; ssi off; add_before_body /dir/inner.html; add_after_body /echo.html; }} \
             location /words/ {{ alias DIR/; sub_filter stub STUB; charset utf-8; }}"
        ),
        pages,
        &[
            "GET /echo.html?a=1&b=%3Ca%20'b'%26%22",
            "GET /echo.html?a=1&b=<a'b%\"",
            "HEAD /echo.html",
            "GET /echo.html|Range: bytes=0-3",
            "GET /echo.html|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /a.txt",
            "GET /wrong.html",
            "GET /silent/wrong.html",
            "GET /short/echo.html",
            "GET /off/echo.html",
            "GET /if.html?a=1x&b=1",
            "GET /set.html?a=1&b=2",
            "GET /dir/include.html",
            "POST /dir/include.html",
            "GET /stub.html",
            "GET /words/stub.html",
            "GET /setting.html",
            "GET /cycle.html",
            "GET /open.html",
            "GET /empty.html",
            "GET /date.html",
            "GET /added/a.html?x=y",
            "GET /upper/html-1",
            "GET /upper/html-2",
            "GET /upper/html-50",
            "GET /upper/wrong-100",
            "GET /upper/wrong-1",
            "GET /dated/a.txt",
            "GET /returned",
        ],
    );
}

#[test]
fn a_request_with_includes_is_limited_once() {
    compare_http(
        "limit_req_zone $server_name zone=requests:1m rate=1r/m; limit_conn_zone $server_name zone=connections:1m;
         limit_req_zone $uri zone=own:1m rate=1r/m;",
        "ssi on; location /limited/ { alias DIR/; limit_req zone=requests burst=1 nodelay; }
         location /all/ { alias DIR/; limit_req zone=own; }
         location = /one.html { alias DIR/many.html; limit_conn connections 1; }
         location = /inner.html { limit_conn connections 1; }
         location /around/ { alias DIR/; limit_req zone=own; add_before_body /all/a.txt; add_after_body /limited/a.txt; }",
        pages,
        &[
            "GET /around/a.html",
            "GET /around/a.html",
            "GET /all/many.html",
            "GET /all/many.html",
            "GET /one.html",
            "GET /many.html",
            "GET /many.html",
            "GET /limited/a.txt",
        ],
    );
}

/// The part of a character set that the tests use.
const MAPS: &str = "charset_map iso-8859-1 utf-8 { FC C3BC; DF C39F; E4 C3A4; } \
     charset_map one two { E4 84; FC 81; 41 42; } \
     charset_map win utf-8 { 80 E282AC; FC C3BC; DF C39F; }";

#[test]
fn named_charsets() {
    compare_http(
        "",
        "charset utf-8; error_page 404 /404.html; \
         location /off/ { alias DIR/; charset off; } \
         location /types/ { alias DIR/; charset_types text/css; } \
         location /any/ { alias DIR/; charset_types *; charset ISO-8859-1; } \
         location /variable/ { alias DIR/; charset $arg_set; } \
         location /written/ { alias DIR/; types { } default_type 'text/html; charset=koi8-r'; } \
         location /same/ { alias DIR/; source_charset UTF-8; } \
         location /moved { return 301 /x; } location /moved8 { return 308 /x; } location /gone { return 410; } \
         location /returned { default_type text/plain; return 200 'hello'; } \
         location /bare { default_type ''; return 200 'hello'; }",
        texts,
        &[
            "GET /a.html",
            "HEAD /a.html",
            "GET /a.txt",
            "GET /a.txt|Range: bytes=0-3",
            "GET /a.txt|Range: bytes=0-3,5-6",
            "GET /a.txt|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /none",
            "GET /off/a.html",
            "GET /types/a.html",
            "GET /types/a.txt",
            "GET /any/a.txt",
            "GET /variable/a.txt?set=koi8-r",
            "GET /written/a.html",
            "GET /same/a.html",
            "GET /moved",
            "GET /moved8",
            "GET /gone",
            "GET /returned",
            "GET /bare",
        ],
    );
}

#[test]
fn converted_charsets() {
    compare_http(
        MAPS,
        "location /up/ { alias DIR/; charset utf-8; source_charset iso-8859-1; } \
         location /down/ { alias DIR/; charset win; source_charset utf-8; } \
         location /across/ { alias DIR/; charset two; source_charset one; } \
         location /back/ { alias DIR/; charset one; source_charset two; } \
         location /variable/ { alias DIR/; charset utf-8; source_charset $arg_from; } \
         location /other/ { alias DIR/; charset $arg_to; source_charset win; }",
        texts,
        &[
            "GET /up/latin.html",
            "GET /up/a.html",
            "HEAD /up/latin.html",
            "GET /up/latin.html|Range: bytes=0-3",
            "GET /down/utf.html",
            "GET /down/broken.html",
            "GET /down/a.txt",
            "GET /across/latin.html",
            "GET /across/latin.html|Range: bytes=1-2",
            "HEAD /across/latin.html",
            "GET /across/a.html",
            "GET /back/latin.html",
            "GET /variable/latin.html?from=win",
            "GET /variable/latin.html?from=one",
            "GET /variable/latin.html?from=utf-8",
            "GET /variable/latin.html?from=nobody",
            "GET /other/latin.html?to=utf-8",
            "GET /other/latin.html?to=nobody",
        ],
    );
}

#[test]
fn charsets_of_other_servers() {
    const ANSWERS: &[(&str, &str)] = &[
        ("plain", "Content-Type: text/plain\n\ngr\u{fc}\u{df}e"),
        (
            "named",
            "Content-Type: text/html; charset=utf-8\n\ngr\u{fc}\u{df}e \u{20ac}",
        ),
        (
            "quoted",
            "Content-Type: text/html; level=1; Charset=\"utf-8\"\n\ngr\u{fc}\u{df}e \u{20ac}",
        ),
        (
            "accel",
            "Content-Type: text/html; charset=utf-8\nX-Accel-Charset: iso-8859-1\n\n\u{fc}\u{20ac}",
        ),
        (
            "unknown",
            "Content-Type: text/html\nX-Accel-Charset: nobody\n\n\u{fc}\u{20ac}",
        ),
        ("untyped", "X-Accel-Charset: win\n\n\u{fc}\u{20ac}"),
    ];
    let port = origin(ANSWERS);
    compare_http(
        MAPS,
        &format!(
            "location / {{ charset win; proxy_pass http://127.0.0.1:{port}; }} \
             location /over/ {{ charset win; override_charset on; proxy_pass http://127.0.0.1:{port}/; }} \
             location /same/ {{ charset UTF-8; override_charset on; proxy_pass http://127.0.0.1:{port}/; }} \
             location /off/ {{ proxy_pass http://127.0.0.1:{port}/; }} \
             location /deaf/ {{ proxy_ignore_headers X-Accel-Charset; proxy_pass http://127.0.0.1:{port}/; }}"
        ),
        |_| {},
        &[
            "GET /plain-1",
            "GET /named-1",
            "GET /over/named-1",
            "GET /over/named-2",
            "GET /over/named-100",
            "GET /over/quoted-3",
            "GET /over/plain-3",
            "GET /same/named-3",
            "GET /accel-3",
            "GET /off/accel-3",
            "GET /deaf/accel-3",
            "GET /off/unknown-3",
            "GET /unknown-3",
            "GET /untyped-3",
        ],
    );
}
