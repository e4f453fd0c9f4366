//! Which requests are accepted, and how they are understood.

use super::*;
use crate::Method;
use crate::h1::{Framing, Version};
use crate::headers::KnownHeader;
use crate::uri::TargetForm;

const CURL: &[u8] = b"GET /a/b?x=1 HTTP/1.1\r\nHost: localhost:8443\r\n\
    User-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n";

#[test]
fn a_curl_request() {
    let head = parse(CURL).expect("valid");
    assert_eq!(head.method, Method::Get);
    assert_eq!(text(head.method_name, CURL), "GET");
    assert_eq!(text(head.request_line, CURL), "GET /a/b?x=1 HTTP/1.1");
    assert_eq!(text(head.target, CURL), "/a/b?x=1");
    assert_eq!(head.path, head.target);
    assert_eq!(head.form, TargetForm::Origin);
    assert_eq!(head.version, Version::Http11);
    assert_eq!(text(head.host.expect("a host"), CURL), "localhost");
    assert_eq!(head.port, Some(8443));
    assert_eq!(head.head_bytes, CURL.len());
    assert_eq!(head.framing, Framing::None);
    assert!(head.keep_alive && !head.expect_continue && !head.connection_upgrade);
    let headers: Vec<_> = head
        .headers
        .iter()
        .map(|h| (text(h.name, CURL), text(h.value, CURL), h.known))
        .collect();
    assert_eq!(
        headers,
        [
            ("Host", "localhost:8443", Some(KnownHeader::Host)),
            ("User-Agent", "curl/8.5.0", Some(KnownHeader::UserAgent)),
            ("Accept", "*/*", Some(KnownHeader::Accept)),
        ]
    );
}

#[test]
fn headers_are_found_by_number_and_by_name() {
    let input = b"GET / HTTP/1.1\r\nhost: a\r\nX-Foo:1\r\nCookie: a\r\ncookie: b\r\n\r\n";
    let head = parse(input).expect("valid");
    assert_eq!(
        text(head.get(KnownHeader::Cookie).expect("sent"), input),
        "a"
    );
    let all: Vec<_> = head
        .get_all(KnownHeader::Cookie)
        .map(|v| text(v, input))
        .collect();
    assert_eq!(all, ["a", "b"]);
    assert_eq!(head.get(KnownHeader::Range), None);
    assert_eq!(head.get_all(KnownHeader::Range).count(), 0);
    assert_eq!(
        text(head.get_by_name(input, b"x-foo").expect("sent"), input),
        "1"
    );
    assert_eq!(head.get_by_name(input, b"x-fo"), None);
}

#[test]
fn values_lose_the_white_space_around_them_only() {
    let input = with_headers("A: \t b  c\t \r\nB:\r\nC: \t\r\nD:\u{1}\u{7f}é\r\n");
    let head = parse(&input).expect("valid");
    let values: Vec<_> = head.headers[1..]
        .iter()
        .map(|h| text(h.value, &input))
        .collect();
    assert!(head.headers.iter().all(|h| h.value.start <= h.value.end));
    assert_eq!(values, ["b  c", "", "", "\u{1}\u{7f}é"]);
}

#[test]
fn bare_line_feeds_end_lines_of_the_head() {
    let input = b"GET / HTTP/1.0\nHost: a\nB: c\n\nrest";
    let head = parse(input).expect("valid");
    assert_eq!(head.headers.len(), 2);
    assert_eq!(&input[head.head_bytes..], b"rest");
}

#[test]
fn empty_lines_before_the_request_are_skipped() {
    let input = b"\r\n\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = parse(input).expect("valid");
    assert_eq!(text(head.request_line, input), "GET /x HTTP/1.1");
    assert_eq!(head.head_bytes, input.len());
}

#[test]
fn pipelined_requests_are_parsed_one_by_one_with_one_state() {
    let input = [CURL, b"GET /2 HTTP/1.1\r\nHost: b\r\n\r\n"].concat();
    let (mut state, limits) = (ParseState::default(), Limits::default());
    let mut next = |buf: &[u8]| match parse_request(buf, &mut state, &limits) {
        Ok(Parsed::Complete(head)) => head,
        other => panic!("{other:?}"),
    };
    let first = next(&input);
    let rest = &input[first.head_bytes..];
    let second = next(rest);
    assert_eq!(text(second.target, rest), "/2");
    assert_eq!(text(second.host.expect("a host"), rest), "b");
    assert_eq!(second.head_bytes, rest.len());
}

#[test]
fn spaces_between_and_after_the_parts_of_the_request_line() {
    let input = b"GET   /x   HTTP/1.1  \r\nHost: a\r\n\r\n";
    let head = parse(input).expect("valid, as in nginx");
    assert_eq!(text(head.target, input), "/x");
}

#[test]
fn versions() {
    for (version, wanted) in [
        ("HTTP/1.1", Version::Http11),
        ("HTTP/1.0", Version::Http10),
        ("HTTP/1.00", Version::Http10),
        ("HTTP/1.2", Version::Http11),
        ("HTTP/1.01", Version::Http11),
    ] {
        let input = format!("GET / {version}\r\nHost: a\r\n\r\n");
        assert_eq!(
            parse(input.as_bytes()).expect("valid").version,
            wanted,
            "{version}"
        );
    }
    for version in ["HTTP/2.0", "HTTP/10.0", "HTTP/9.9"] {
        let input = format!("GET / {version}\r\nHost: a\r\n\r\n");
        let wanted = (505, "client sent invalid version");
        assert_eq!(refusal(input.as_bytes()), wanted, "{version}");
    }
    for version in [
        "HTTP/0.9",
        "HTTP/01.1",
        "HTTP/1",
        "HTTP/1.",
        "HTTP/.1",
        "HTTP/1.1111",
        "HTTP/1.x",
        "HTTP/1.1x",
        "http/1.1",
        "HTTP 1.1",
        "HTTPS/1.1",
        "H",
        "x",
        "HTTP/",
        "HTTP/1.1 x",
    ] {
        let input = format!("GET / {version}\r\nHost: a\r\n\r\n");
        let wanted = (400, "client sent invalid request");
        assert_eq!(refusal(input.as_bytes()), wanted, "{version}");
    }
}

#[test]
fn http_0_9_is_a_line_and_nothing_more() {
    for input in [
        &b"GET /x\r\nHost: a\r\n"[..],
        b"GET /x\nHost: a\r\n",
        b"GET /x  \r\nHost: a\r\n",
    ] {
        let head = parse(input).expect("valid");
        assert_eq!(head.version, Version::Http09);
        assert_eq!(text(head.target, input), "/x");
        assert!(!head.keep_alive && head.host.is_none() && head.headers.is_empty());
        assert_eq!(&input[head.head_bytes..], b"Host: a\r\n");
    }
    let wanted = (400, "client sent invalid method in HTTP/0.9 request");
    assert_eq!(refusal(b"POST /x\r\n"), wanted);
}

#[test]
fn methods_are_upper_case_letters_hyphens_and_underscores() {
    for (name, method) in [
        ("PROPFIND", Method::Propfind),
        ("M-SEARCH", Method::Other),
        ("_", Method::Other),
    ] {
        let input = format!("{name} / HTTP/1.0\r\n\r\n");
        let head = parse(input.as_bytes()).expect("valid");
        assert_eq!(head.method, method);
        assert_eq!(text(head.method_name, input.as_bytes()), name);
    }
    let long = "A".repeat(65);
    for line in [
        "get /",
        "GE(T /",
        " GET /",
        "GET",
        "",
        &long,
        "GET\t/",
        "\u{16}\u{3}\u{1}",
    ] {
        let input = format!("x{line} HTTP/1.0\r\n\r\n");
        // The first byte is already no method: refused without waiting for more.
        assert_eq!(
            refusal(&input.as_bytes()[..1]).1,
            "client sent invalid method"
        );
        if !line.is_empty() {
            let input = format!("{line}\r\n\r\n");
            assert_eq!(
                refusal(input.as_bytes()),
                (400, "client sent invalid method"),
                "{line:?}"
            );
        }
    }
}

#[test]
fn absolute_form_outranks_the_host_header() {
    let input = b"GET http://Example.com.:81/p?q HTTP/1.1\r\nHost: other\r\n\r\n";
    let head = parse(input).expect("valid");
    assert_eq!(text(head.host.expect("a host"), input), "Example.com");
    assert_eq!(head.port, Some(81));
    assert_eq!(text(head.path, input), "/p?q");
    assert_eq!(text(head.target, input), "http://Example.com.:81/p?q");

    let input = b"GET http://h?q HTTP/1.0\r\n\r\n";
    let head = parse(input).expect("valid");
    assert_eq!(text(head.path, input), "?q");
    assert_eq!(text(head.host.expect("a host"), input), "h");
}

#[test]
fn authority_and_asterisk_forms() {
    let input = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n";
    let head = parse(input).expect("valid");
    assert_eq!(head.method, Method::Connect);
    assert_eq!(text(head.host.expect("a host"), input), "example.com");
    assert_eq!(head.port, Some(443));
    assert!(head.path.is_empty());

    let head = parse(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").expect("valid");
    assert_eq!(head.form, TargetForm::Asterisk);
    let invalid = (400, "client sent invalid request");
    assert_eq!(refusal(b"GET * HTTP/1.1\r\nHost: a\r\n\r\n"), invalid);
    assert_eq!(refusal(b"CONNECT /x HTTP/1.1\r\nHost: a\r\n\r\n"), invalid);
    assert_eq!(
        refusal(b"CONNECT example.com HTTP/1.1\r\nHost: a\r\n\r\n"),
        invalid
    );
}

#[test]
fn targets_with_forbidden_characters() {
    for target in [
        "/a\u{1}",
        "/\u{7f}",
        "/a\tb",
        "a",
        "http:/x",
        "http://",
        "http://a b/",
        "http://u@h/",
    ] {
        let input = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let wanted = (400, "client sent invalid request");
        assert_eq!(refusal(input.as_bytes()), wanted, "{target:?}");
    }
    // Raw UTF-8 is common in the wild, and nginx takes it.
    let input = "GET /ä HTTP/1.1\r\nHost: a\r\n\r\n".as_bytes();
    assert_eq!(text(parse(input).expect("valid").path, input), "/ä");
}

#[test]
fn connections_stay_open_or_not() {
    let keep = |version: &str, lines: &str| {
        let input = format!("GET / {version}\r\nHost: a\r\n{lines}\r\n");
        parse(input.as_bytes()).expect("valid").keep_alive
    };
    assert!(keep("HTTP/1.1", ""));
    assert!(keep("HTTP/1.1", "Connection: Keep-Alive\r\n"));
    assert!(!keep("HTTP/1.1", "Connection: close\r\n"));
    assert!(!keep("HTTP/1.1", "Connection: keep-alive, CLOSE\r\n"));
    assert!(!keep(
        "HTTP/1.1",
        "Connection: close\r\nConnection: keep-alive\r\n"
    ));
    assert!(!keep("HTTP/1.0", ""));
    assert!(keep("HTTP/1.0", "Connection: keep-alive\r\n"));
    assert!(!keep("HTTP/1.0", "Connection: close\r\n"));
}

#[test]
fn body_framing() {
    let framing = |lines: &str| parse(&with_headers(lines)).expect("valid").framing;
    assert_eq!(framing(""), Framing::None);
    assert_eq!(framing("Content-Length: 0\r\n"), Framing::Length(0));
    assert_eq!(framing("content-length:  42 \r\n"), Framing::Length(42));
    assert_eq!(framing("Transfer-Encoding: CHUNKED\r\n"), Framing::Chunked);
}

#[test]
fn expect_and_upgrade() {
    let head = |version: &str, lines: &str| {
        let input = format!("GET / {version}\r\nHost: a\r\n{lines}\r\n");
        parse(input.as_bytes()).expect("valid")
    };
    assert!(head("HTTP/1.1", "Expect: 100-Continue\r\n").expect_continue);
    assert!(!head("HTTP/1.0", "Expect: 100-continue\r\n").expect_continue);
    assert!(!head("HTTP/1.1", "Expect: 200-ok\r\n").expect_continue);
    assert!(head("HTTP/1.1", "Connection: keep-alive, Upgrade\r\n").connection_upgrade);
    assert!(!head("HTTP/1.1", "Upgrade: websocket\r\n").connection_upgrade);
}

#[test]
fn unusual_names_are_ignored_or_taken_as_configured() {
    let strict = Limits {
        ignore_invalid_headers: false,
        ..Limits::default()
    };
    let underscores = Limits {
        underscores_in_headers: true,
        ..Limits::default()
    };
    for (line, odd) in [
        ("X_Y: 1\r\n", false),
        ("X!: 1\r\n", true),
        ("é: 1\r\n", true),
    ] {
        let input = with_headers(line);
        let head = parse(&input).expect("ignored");
        assert_eq!(head.headers.len(), 1, "{line}");
        let ignored = head.ignored_header.expect("noted");
        assert_eq!(text(ignored, &input), line.trim_end());
        let head = parse_with(&input, &strict).expect("taken");
        assert_eq!(
            (head.headers.len(), head.ignored_header),
            (2, None),
            "{line}"
        );
        let head = parse_with(&input, &underscores).expect("ignored or taken");
        assert_eq!(head.headers.len(), if odd { 1 } else { 2 }, "{line}");
    }
}

#[test]
fn headers_are_replaced_and_removed_afterwards() {
    let mut input = with_headers("X-A: 1\r\nCookie: a=b\r\nx-a: 2\r\nRange: bytes=0-1\r\n");
    let mut head = parse(&input).expect("valid");
    let values = |head: &RequestHead, input: &[u8], name: &str| -> Vec<String> {
        let named = head
            .headers
            .iter()
            .filter(|header| header.name.of(input).eq_ignore_ascii_case(name.as_bytes()));
        named
            .map(|header| text(header.value, input).to_owned())
            .collect()
    };
    head.set_header(&mut input, b"X-a", b"three");
    assert_eq!(values(&head, &input, "x-a"), ["three"]);
    head.set_header(&mut input, b"User-Agent", b"robot");
    assert!(head.has(KnownHeader::UserAgent));
    let agent = head.get(KnownHeader::UserAgent).expect("it was set");
    assert_eq!(text(agent, &input), "robot");
    head.remove_headers(&input, |name| name.len() > 4);
    assert_eq!(values(&head, &input, "host"), ["a"]);
    assert_eq!(head.get(KnownHeader::Cookie), None);
    assert!(!head.has(KnownHeader::UserAgent) && !head.has(KnownHeader::Range));
    assert_eq!(
        head.host.map(|host| text(host, &input).to_owned()),
        Some("a".into())
    );
}
