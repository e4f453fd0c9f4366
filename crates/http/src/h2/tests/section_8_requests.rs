//! Section 8: what the head of a request may contain, and its body (8.1.1, 8.2, 8.3.1, 8.5).

use super::*;
use crate::h1::{Framing, Limits as HeadLimits, Version};
use crate::headers::KnownHeader;
use crate::uri::TargetForm;
use crate::{Method, StatusCode};

pub(super) type Fields<'a> = &'a [(&'a str, &'a str)];

/// What becomes of one request.
pub(super) fn outcome(fields: Fields<'_>, end: bool) -> String {
    outcome_with(Settings::default(), fields, end)
}

pub(super) fn outcome_with(settings: Settings, fields: Fields<'_>, end_stream: bool) -> String {
    let result = std::cell::RefCell::new(None);
    server_with(settings, |end| {
        end.headers(1, end_stream, fields);
        assert_eq!(end.fault, None);
        let events = end.take_events();
        assert_eq!(events.len(), 1);
        if events[0].starts_with("fault") {
            assert_eq!(end.connection.open_streams(), 0);
            assert_eq!(end.sent_words(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
        } else {
            assert_eq!(end.sent_words(), [""; 0]);
        }
        // The same fields out of the peer's table are judged in the same way.
        end.headers(3, end_stream, fields);
        let again: Vec<String> = end
            .take_events()
            .iter()
            .map(|event| event.replacen(" 3 ", " 1 ", 1))
            .collect();
        assert_eq!(again, events);
        let before = result.replace(Some(events[0].clone()));
        assert!(
            before.is_none_or(|before| before == events[0]),
            "however it is cut"
        );
    });
    result.into_inner().expect("the script ran")
}

fn with<'a>(more: Fields<'a>) -> Vec<(&'a str, &'a str)> {
    [GET, more].concat()
}

/// Runs a request and hands its head to a check.
fn head(fields: Fields<'_>, end_stream: bool, check: impl Fn(&Request)) {
    server(|end| {
        end.headers(1, end_stream, fields);
        let (_, request) = end.requests.last().expect("a request");
        check(request);
    });
}

/// Names and values of a head.
pub(super) fn list(request: &Request) -> Vec<(String, String)> {
    let of = |span: crate::Span| show(span.of(&request.text));
    let headers = request.head.headers.iter();
    headers
        .map(|header| (of(header.name), of(header.value)))
        .collect()
}

#[test]
fn a_head_reads_like_one_of_http_1() {
    let fields = with(&[
        ("user-agent", "test/1"),
        ("accept", "*/*"),
        ("x-custom", "a: b"),
    ]);
    head(&fields, true, |request| {
        let head = &request.head;
        let text = &request.text[head.request_line.start as usize..];
        assert_eq!(
            show(text),
            "GET / HTTP/2.0\r\nhost: example.com\r\nuser-agent: test/1\r\naccept: */*\r\n\
             x-custom: a: b\r\n\r\n"
        );
        // As sent, which is less: names from the static table, strings in Huffman code.
        assert!((1..request.text.len()).contains(&head.head_bytes));
        assert_eq!(head.version, Version::Http2);
        assert_eq!(head.version.name(), "HTTP/2.0");
        assert_eq!(head.method, Method::Get);
        assert_eq!(head.method_name.of(&request.text), b"GET");
        assert_eq!(head.request_line.of(&request.text), b"GET / HTTP/2.0");
        assert_eq!(head.target.of(&request.text), b"/");
        assert_eq!(head.path.of(&request.text), b"/");
        assert_eq!(head.form, TargetForm::Origin);
        assert_eq!(head.framing, Framing::None);
        assert!(head.keep_alive && !head.expect_continue && !head.connection_upgrade);
        let host = head.host.expect("a host");
        assert_eq!(host.of(&request.text), b"example.com");
        assert_eq!(head.get(KnownHeader::Host), Some(host));
        let names: Vec<String> = list(request).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["host", "user-agent", "accept", "x-custom"]);
        for header in &head.headers {
            assert_eq!(
                header.known,
                KnownHeader::from_name(header.name.of(&request.text))
            );
        }
    });
}

#[test]
fn pseudo_headers_in_any_order() {
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
    for order in orders {
        let fields: Vec<(&str, &str)> = order.iter().map(|&index| GET[index]).collect();
        head(&fields, true, |request| {
            let start = request.head.request_line.start as usize;
            assert_eq!(
                show(&request.text[start..]),
                "GET / HTTP/2.0\r\nhost: example.com\r\n\r\n"
            );
        });
    }
}

#[test]
fn host_port_and_long_targets() {
    let path = format!("/{}?q=1", "p".repeat(3000));
    let fields = [
        (":method", "PROPFIND"),
        (":path", path.as_str()),
        (":scheme", "http"),
        (":authority", "WWW.Example.com:8443"),
    ];
    head(&fields, false, |request| {
        let head = &request.head;
        assert_eq!(head.path.of(&request.text), path.as_bytes());
        assert_eq!(
            head.host.map(|host| show(host.of(&request.text))),
            Some("WWW.Example.com".into())
        );
        assert_eq!(head.port, Some(8443));
        let value = head.get(KnownHeader::Host).expect("a host");
        assert_eq!(value.of(&request.text), b"WWW.Example.com:8443");
        assert_eq!(head.method, Method::Propfind);
        assert_eq!(head.framing, Framing::Chunked, "a body of unknown length");
    });
}

#[test]
fn host_and_authority() {
    // 8.3.1: the host header serves where there is no authority.
    let no_authority = [(":method", "GET"), (":scheme", "https"), (":path", "/x")];
    head(
        &[&no_authority[..], &[("host", "a.example:81")]].concat(),
        true,
        |request| {
            assert_eq!(list(request), [("host".into(), "a.example:81".into())]);
            let host = request.head.host.expect("a host");
            assert_eq!(host.of(&request.text), b"a.example");
            assert_eq!(request.head.port, Some(81));
            let start = request.head.request_line.start as usize;
            assert!(request.text[start..].starts_with(b"GET /x HTTP/2.0\r\nhost: "));
        },
    );
    // Both, and equal: one of them is enough.
    head(
        &with(&[("a", "1"), ("host", "EXAMPLE.com"), ("b", "2")]),
        true,
        |request| {
            let names: Vec<String> = list(request).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["host", "a", "b"]);
        },
    );
    for (fields, expected) in [
        (
            no_authority.to_vec(),
            "refused 1 400 client sent HTTP/1.1 request without \"Host\" header end",
        ),
        (
            with(&[("host", "other.example")]),
            "refused 1 400 client sent invalid host header end",
        ),
        (
            [&no_authority[..], &[("host", "a"), ("host", "b")]].concat(),
            "refused 1 400 client sent duplicate host header end",
        ),
        (
            [&no_authority[..], &[("host", "a/b")]].concat(),
            "refused 1 400 client sent invalid host header end",
        ),
        (
            [&no_authority[..], &[(":authority", "user@host")]].concat(),
            "refused 1 400 client sent invalid host header end",
        ),
        (
            [&no_authority[..], &[(":authority", "")]].concat(),
            "refused 1 400 client sent empty :authority header end",
        ),
    ] {
        assert_eq!(outcome(&fields, true), expected, "{fields:?}");
    }
}

#[test]
fn malformed_pseudo_headers() {
    for (fields, why) in [
        (
            with(&[(":path", "/again")]),
            "client sent duplicate :path header",
        ),
        (
            with(&[(":method", "GET")]),
            "client sent duplicate :method header",
        ),
        (
            with(&[(":scheme", "https")]),
            "client sent duplicate :scheme header",
        ),
        (
            with(&[(":authority", "b")]),
            "client sent duplicate :authority header",
        ),
        (
            with(&[(":status", "200")]),
            "client sent unknown pseudo header",
        ),
        (
            with(&[(":protocol", "websocket")]),
            "client sent unknown pseudo header",
        ),
        (with(&[(":x", "1")]), "client sent unknown pseudo header"),
        (
            vec![(":method", "GET"), ("a", "b"), (":path", "/")],
            "client sent pseudo header after other headers",
        ),
        (replaced(":path", ""), "client sent empty :path header"),
        (replaced(":method", ""), "client sent empty :method header"),
        (replaced(":scheme", ""), "client sent empty :scheme header"),
        (
            replaced(":scheme", "ht tp"),
            "client sent invalid :scheme header",
        ),
        (replaced(":method", "G T"), "client sent invalid method"),
        (replaced(":method", "get"), "client sent invalid method"),
        (
            replaced(":method", "GET\u{7f}"),
            "client sent invalid method",
        ),
        (
            replaced(":path", "relative"),
            "client sent invalid :path header",
        ),
        (
            replaced(":path", "http://other/"),
            "client sent invalid :path header",
        ),
        (
            replaced(":path", "/with space"),
            "client sent invalid :path header",
        ),
        (
            replaced(":path", "/\u{1}"),
            "client sent invalid :path header",
        ),
        (replaced(":path", "*"), "client sent invalid :path header"),
        (
            replaced(":path", "/\r\nx: y"),
            "client sent header with invalid value",
        ),
    ] {
        let expected = format!("refused 1 400 {why} end");
        assert_eq!(outcome(&fields, true), expected, "{fields:?}");
    }
    // 8.3.1: every request has these; nginx answers 400.
    for (missing, why) in [
        (":method", "client sent no :method header"),
        (":scheme", "client sent no :schema header"),
        (":path", "client sent no :path header"),
    ] {
        let fields: Vec<(&str, &str)> = GET
            .iter()
            .copied()
            .filter(|(name, _)| *name != missing)
            .collect();
        assert_eq!(outcome(&fields, true), format!("refused 1 400 {why} end"));
    }
    assert_eq!(
        outcome(&[], true),
        "refused 1 400 client sent no :method header end"
    );
}

fn replaced<'a>(name: &str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let replace = |&(other, old): &(&'static str, &'static str)| {
        (other, if other == name { value } else { old })
    };
    GET.iter().map(replace).collect()
}

#[test]
fn other_methods_and_the_asterisk() {
    let fields = [
        (":method", "OPTIONS"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "*"),
    ];
    head(&fields, true, |request| {
        assert_eq!(request.head.form, TargetForm::Asterisk);
        assert!(request.head.path.is_empty());
    });
    let fields = replaced(":method", "BREW-IT");
    head(&fields, true, |request| {
        assert_eq!(request.head.method, Method::Other);
        assert_eq!(request.head.method_name.of(&request.text), b"BREW-IT");
    });
}

#[test]
fn connect() {
    // 8.5.
    let authority = "a-host-with-a-rather-long-name.example:443";
    let fields = [
        (":method", "CONNECT"),
        (":authority", authority),
        ("x", "y"),
    ];
    head(&fields, false, |request| {
        let line = show(request.head.request_line.of(&request.text));
        assert_eq!(line, format!("CONNECT {authority} HTTP/2.0"));
        assert_eq!(request.head.port, Some(443));
        assert_eq!(
            list(request),
            [
                ("host".into(), authority.to_owned()),
                ("x".into(), "y".into())
            ]
        );
        let start = request.head.request_line.start as usize;
        assert!(show(&request.text[start..]).ends_with("\r\nx: y\r\n\r\n"));
        assert!(matches!(
            request.head.form,
            TargetForm::Authority { port: 443, .. }
        ));
    });
    for (fields, expected) in [
        (
            vec![(":method", "CONNECT"), ("host", "a:1")],
            "refused 1 400 client sent CONNECT without :authority header end",
        ),
        (
            replaced(":method", "CONNECT"),
            "refused 1 400 client sent CONNECT with :scheme or :path header end",
        ),
        (
            vec![
                (":method", "CONNECT"),
                (":authority", "a:1"),
                ("content-length", "0"),
            ],
            "refused 1 400 client sent CONNECT with content-length header end",
        ),
        (
            vec![(":method", "CONNECT"), (":authority", "no-port")],
            "refused 1 400 client sent invalid host header",
        ),
    ] {
        assert_eq!(outcome(&fields, false), expected);
    }
}

#[test]
fn malformed_names_and_values() {
    let name = "refused 1 400 client sent invalid header name end";
    let value = "refused 1 400 client sent header with invalid value end";
    for (field, expected) in [
        (("", "v"), name),
        (("a b", "v"), name),
        (("a\tb", "v"), name),
        (("a:b", "v"), name),
        ((":", "v"), name),
        (("a\r", "v"), name),
        (("a\u{0}", "v"), name),
        (("a\u{7f}", "v"), name),
        (("n\u{e4}me", "v"), name),
        (("n", "\r"), value),
        (("n", "a\nb"), value),
        (("n", "a\u{0}"), value),
        (("n", " a"), value),
        (("n", "a "), value),
        (("n", "\ta"), value),
        (("n", "a\t"), value),
        (("cookie", "a\r\nb"), value),
    ] {
        assert_eq!(outcome(&with(&[field]), true), expected, "{field:?}");
    }
    for field in [("n", ""), ("n", "a b\tc"), ("n", "\u{e4}\u{1}\u{7f}")] {
        assert_eq!(
            outcome(&with(&[field]), true),
            "request 1 GET / HTTP/2.0 end"
        );
    }
}

#[test]
fn upper_case_names() {
    // Our encoder lowers names, so this one is written by hand: X-A: b, then User-Agent: c.
    for field in [
        &b"\x00\x03X-A\x01b"[..],
        b"\x00\x0aUser-Agent\x01c",
        b"\x40\x03X-A\x01b",
    ] {
        server(|end| {
            let mut block = end.block(GET);
            block.extend_from_slice(field);
            end.feed(&frame(FrameType::Headers, 0x5, 1, &block));
            assert_eq!(
                end.take_events(),
                ["refused 1 400 client sent invalid header name end"]
            );
        });
    }
}

#[test]
fn invalid_names_are_ignored_or_passed() {
    let fields = with(&[
        ("under_score", "1"),
        ("plain", "2"),
        ("odd!", "3"),
        ("(odd)", "4"),
    ]);
    let run = |ignore: bool, underscores: bool, expected: &[&str]| {
        let settings = Settings {
            head: HeadLimits {
                ignore_invalid_headers: ignore,
                underscores_in_headers: underscores,
                ..HeadLimits::default()
            },
            ..Settings::default()
        };
        server_with(settings, |end| {
            end.headers(1, true, &fields);
            let (_, request) = end.requests.last().expect("a request");
            let names: Vec<String> = list(request).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, expected);
            let ignored = request
                .head
                .ignored_header
                .map(|line| show(line.of(&request.text)));
            let first = if underscores {
                "odd!: 3"
            } else {
                "under_score: 1"
            };
            assert_eq!(ignored.as_deref(), ignore.then_some(first));
        });
    };
    run(true, false, &["host", "plain"]);
    run(true, true, &["host", "under_score", "plain"]);
    run(
        false,
        false,
        &["host", "under_score", "plain", "odd!", "(odd)"],
    );
}

#[test]
fn fields_about_the_connection() {
    // 8.2.2.
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    ] {
        assert_eq!(
            outcome(&with(&[(name, "x")]), true),
            "refused 1 400 client sent connection-specific header end"
        );
    }
    assert_eq!(
        outcome(&with(&[("te", "trailers")]), true),
        "request 1 GET / HTTP/2.0 end"
    );
    for value in ["gzip", "trailers, gzip", ""] {
        assert_eq!(
            outcome(&with(&[("te", value)]), true),
            "refused 1 400 client sent \"TE\" header other than \"trailers\" end"
        );
    }
}

#[test]
fn crumbs_of_cookies_are_joined() {
    // 8.2.3.
    head(
        &with(&[
            ("a", "1"),
            ("cookie", "x=1"),
            ("cookie", "y=2"),
            ("cookie", ""),
            ("b", "2"),
        ]),
        true,
        |request| {
            assert_eq!(
                list(request)[1..],
                [
                    ("a".into(), "1".into()),
                    ("cookie".into(), "x=1; y=2; ".into()),
                    ("b".into(), "2".into()),
                ]
            );
            let start = request.head.request_line.start as usize;
            assert!(
                show(&request.text[start..]).contains("\r\ncookie: x=1; y=2; \r\nb: 2\r\n\r\n")
            );
        },
    );
    // With something between them they come last, as in nginx.
    head(
        &with(&[
            ("cookie", "x=1"),
            ("a", "1"),
            ("cookie", "y=2"),
            ("cookie", "z=3"),
        ]),
        true,
        |request| {
            assert_eq!(
                list(request)[1..],
                [
                    ("a".into(), "1".into()),
                    ("cookie".into(), "x=1; y=2; z=3".into())
                ]
            );
            let cookie = request.head.get(KnownHeader::Cookie).expect("a cookie");
            assert_eq!(cookie.of(&request.text), b"x=1; y=2; z=3");
        },
    );
}

#[test]
fn headers_that_are_sent_once() {
    for name in [
        "content-length",
        "if-modified-since",
        "authorization",
        "expect",
    ] {
        let expected = "refused 1 400 client sent duplicate header line";
        assert_eq!(outcome(&with(&[(name, "1"), (name, "1")]), false), expected);
    }
    let twice = with(&[("accept", "a"), ("accept", "b")]);
    assert_eq!(outcome(&twice, true), "request 1 GET / HTTP/2.0 end");
}

#[test]
fn expectations() {
    head(&with(&[("expect", "100-Continue")]), false, |request| {
        assert!(request.head.expect_continue);
    });
    head(&with(&[("expect", "something")]), false, |request| {
        assert!(!request.head.expect_continue);
    });
}

#[test]
fn content_length_and_data_agree() {
    // 8.1.1.
    let run = |length: &str, parts: &[(&'static [u8], bool)], last: &str| {
        server(|end| {
            end.headers(1, false, &[POST, &[("content-length", length)]].concat());
            for (part, end_stream) in parts {
                end.feed(&data_frame(1, part, *end_stream));
            }
            let events = end.take_events();
            assert_eq!(events.last().map(String::as_str), Some(last));
            assert_eq!(end.fault, None);
        });
    };
    let fault = "malformed 1 PROTOCOL_ERROR body does not have the declared length";
    run("4", &[(b"ab", false), (b"cd", true)], "data 1 4 end");
    run(
        "4",
        &[(b"ab", false), (b"cd", false), (b"", true)],
        "data 1 4 end",
    );
    run("0", &[(b"", true)], "data 1 0 end");
    run("4", &[(b"ab", false), (b"cde", false)], fault);
    run("4", &[(b"ab", true)], fault);
    run("4", &[(b"ab", false), (b"", true)], fault);
    run("0", &[(b"a", true)], fault);
    let premature = "refused 1 400 client prematurely closed stream end";
    assert_eq!(outcome(&with(&[("content-length", "1")]), true), premature);
    assert_eq!(
        outcome(&with(&[("content-length", "0")]), true),
        "request 1 GET / HTTP/2.0 end"
    );
    for bad in ["-1", "1x", "", "99999999999999999999", "+1", "0x1"] {
        let expected = "refused 1 400 client sent invalid \"Content-Length\" header";
        assert_eq!(outcome(&with(&[("content-length", bad)]), false), expected);
    }
}

#[test]
fn limits_of_heads() {
    let settings = |max_headers, large_buffer_bytes, large_buffer_count| Settings {
        head: HeadLimits {
            max_headers,
            large_buffer_bytes,
            large_buffer_count,
            ..HeadLimits::default()
        },
        ..Settings::default()
    };
    let long = "v".repeat(200);
    let many: Vec<(&str, &str)> = std::iter::repeat_n(("x", "y"), 20).collect();
    // Pseudo-headers are none, as in nginx.
    let fits = with(&many[..10]);
    let outcome_of = |settings: Settings, fields: Fields<'_>| outcome_with(settings, fields, true);
    assert_eq!(
        outcome_of(settings(10, 8192, 4), &fits),
        "request 1 GET / HTTP/2.0 end"
    );
    let refused = outcome_of(settings(10, 8192, 4), &with(&many[..11]));
    assert_eq!(
        refused,
        "refused 1 494 client sent too many header lines end"
    );
    let refused = outcome_of(settings(10, 8192, 4), &with(&many));
    assert!(
        refused.starts_with("refused 1 494 client sent too"),
        "{refused}"
    );
    let refused = outcome_of(settings(1000, 100, 4), &with(&[("x", long.as_str())]));
    assert_eq!(refused, "refused 1 494 client sent too large request end");
    let refused = outcome_of(settings(1000, 300, 2), &with(&[("x", long.as_str()); 4]));
    assert_eq!(refused, "refused 1 494 client sent too large request end");
    let path = format!("/{long}");
    let refused = outcome_of(settings(1000, 100, 4), &replaced(":path", &path));
    assert_eq!(refused, "refused 1 414 client sent too long URI end");
}

#[test]
fn a_refused_request_is_answered_on_its_stream() {
    server(|end| {
        end.headers(1, false, &with(&[("content-length", "x")]));
        let stream = end.last_request();
        end.feed(&data_frame(1, b"some body", false));
        end.connection
            .send_head(stream, StatusCode::BAD_REQUEST, [], true, &mut end.out)
            .expect("a head");
        end.connection
            .reset(stream, ErrorCode::NO_ERROR, &mut end.out);
        assert_eq!(
            end.sent_words(),
            ["HEADERS 1 :status: 400 end", "RST_STREAM 1 NO_ERROR"]
        );
        assert_eq!(end.bodies[&1], b"some body");
    });
}

#[test]
fn what_follows_an_error_is_ignored_until_the_stream_is_reset() {
    // 8.1.1: a malformed request may be answered before its stream is reset.
    let scripts: [&dyn Fn(&mut End); 2] = [
        &|end| end.headers(1, false, &with(&[("a b", "v")])),
        &|end| {
            end.headers(1, false, &[POST, &[("content-length", "1")]].concat());
            end.feed(&data_frame(1, b"more", false));
        },
    ];
    for script in scripts {
        server(|end| {
            script(end);
            assert!(end.take_events().last().is_some_and(|event| {
                event.starts_with("refused 1 400") || event.starts_with("malformed 1")
            }));
            let stream = end.last_request();
            assert!(end.connection.has_received_end(stream));
            end.feed(&data_frame(1, b"still more", false));
            end.headers(1, true, &[("x", "y")]);
            end.feed(&data_frame(1, b"", true));
            assert_eq!(end.take_events(), [""; 0]);
            assert_eq!(end.sent_words(), [""; 0]);
            end.respond(stream, false);
            let mut out = Vec::new();
            end.connection
                .reset(stream, ErrorCode::PROTOCOL_ERROR, &mut out);
            assert_eq!(end.connection.open_streams(), 0);
            assert_eq!(end.fault, None);
        });
    }
}

#[test]
fn an_answered_request_that_turns_out_to_be_malformed_is_reset_at_once() {
    server(|end| {
        end.headers(1, false, &[POST, &[("content-length", "1")]].concat());
        let stream = end.last_request();
        end.respond(stream, false);
        end.feed(&data_frame(1, b"more", true));
        assert_eq!(
            end.take_events().last().map(String::as_str),
            Some("fault 1 PROTOCOL_ERROR body does not have the declared length")
        );
        assert_eq!(end.connection.open_streams(), 0);
    });
}
