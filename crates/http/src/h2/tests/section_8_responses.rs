//! Section 8: responses in both directions, interim ones and trailers included (8.1, 8.3.2).

use super::*;
use crate::StatusCode;
use crate::h1::{ResponseHead, Version};
use crate::headers::{Field, FieldValue, HeaderList};

#[test]
fn trailers_of_requests() {
    server(|end| {
        end.post(1);
        end.feed(&data_frame(1, b"body", false));
        let fields = [
            ("x-checksum", "1"),
            ("content-length", "9"),
            ("host", "h"),
            ("y", "2"),
        ];
        end.headers(1, true, &fields);
        // Framing and routing are not changed any more.
        assert_eq!(
            end.take_events(),
            [
                "request 1 POST / HTTP/2.0",
                "data 1 4",
                "trailers 1 x-checksum=1 y=2"
            ]
        );
        assert!(end.connection.has_received_end(end.last_request()));
    });
    for (fields, why) in [
        (&[(":path", "/")][..], "pseudo header in trailers"),
        (&[("connection", "close")], "connection-specific trailer"),
        (&[("a b", "x")], "trailer with invalid name"),
        (&[("a", "x\n")], "trailer with invalid value"),
    ] {
        server(|end| {
            end.post(1);
            end.headers(1, true, fields);
            assert_eq!(
                end.take_events()[1],
                format!("malformed 1 PROTOCOL_ERROR {why}")
            );
        });
    }
    server(|end| {
        end.post(1);
        end.headers(1, false, &[("x", "y")]);
        assert_eq!(
            end.take_events()[1],
            "malformed 1 PROTOCOL_ERROR header block within a body"
        );
    });
    server(|end| {
        end.headers(1, false, &[POST, &[("content-length", "4")]].concat());
        end.feed(&data_frame(1, b"bod", false));
        end.headers(1, true, &[("x", "y")]);
        let events = end.take_events();
        assert_eq!(
            events[2],
            "malformed 1 PROTOCOL_ERROR body does not have the declared length"
        );
    });
}

#[test]
fn responses_are_written_without_what_http_2_does_not_have() {
    server(|end| {
        let stream = end.get(1);
        let mut headers = HeaderList::new();
        for (name, value) in [
            ("X-Custom", "A"),
            ("Connection", "close"),
            ("Keep-Alive", "x"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2"),
            ("Proxy-Connection", "x"),
            ("ETag", "\"e\""),
        ] {
            headers
                .push(name.as_bytes(), value.as_bytes())
                .expect("a valid header");
        }
        let head = ResponseHead {
            server: Some(FieldValue::from_static("sealane")),
            date: Some(FieldValue::from_static("today")),
            content_type: Some(FieldValue::from_static(" text/html ")),
            charset: Some(FieldValue::from_static("utf-8")),
            content_length: Some(1234),
            last_modified: Some(FieldValue::from_static("yesterday")),
            location: Some(FieldValue::from_static("/there ")),
            chunked: true,
            vary_accept_encoding: true,
            ..ResponseHead::new(Version::Http2, StatusCode(301), &headers)
        };
        let connection = &mut end.connection;
        connection
            .send_response(stream, &head, true, &mut end.out)
            .expect("a head");
        assert_eq!(
            end.sent_words(),
            ["HEADERS 1 :status: 301; server: sealane; date: today; \
              content-type: text/html; charset=utf-8; content-length: 1234; \
              last-modified: yesterday; location: /there; vary: Accept-Encoding; \
              x-custom: A; etag: \"e\" end"]
        );
    });
}

#[test]
fn interim_responses_come_before_the_head() {
    server(|end| {
        let stream = end.get(1);
        let link = [Field::from_static("Link", "</a.css>")];
        let connection = &mut end.connection;
        for status in [100, 103] {
            connection
                .send_interim(stream, StatusCode(status), link, &mut end.out)
                .expect("an interim head");
        }
        end.respond(stream, true);
        assert_eq!(
            end.sent_words(),
            [
                "HEADERS 1 :status: 100; link: </a.css>",
                "HEADERS 1 :status: 103; link: </a.css>",
                "HEADERS 1 :status: 200 end"
            ]
        );
    });
}

#[test]
fn a_client_reads_interim_heads_head_body_and_trailers() {
    client(|end| {
        end.open(true);
        end.headers(1, false, &[(":status", "103"), ("link", "x")]);
        end.headers(
            1,
            false,
            &[(":status", "200"), ("content-length", "4"), ("grpc", "1")],
        );
        end.feed(&data_frame(1, b"body", false));
        end.headers(1, true, &[("grpc-status", "0")]);
        assert_eq!(
            end.take_events(),
            [
                "interim 1 103",
                "response 1 200",
                "data 1 4",
                "trailers 1 grpc-status=0"
            ]
        );
        assert_eq!(end.connection.open_streams(), 0);
        let (_, response) = &end.responses[1];
        assert_eq!(
            show(&response.text),
            "HTTP/2.0 200\r\ncontent-length: 4\r\ngrpc: 1\r\n\r\n"
        );
        assert_eq!(response.head.version, Version::Http2);
        assert_eq!(response.head.content_length, Some(4));
        assert_eq!(response.head.headers.len(), 2);
        let value = response
            .head
            .get_by_name(&response.text, b"grpc")
            .expect("a header");
        assert_eq!(value.of(&response.text), b"1");
    });
}

#[test]
fn malformed_responses() {
    for fields in [
        &[("a", "b")][..],
        &[],
        &[(":status", "200"), (":status", "200")],
        &[("a", "b"), (":status", "200")],
        &[(":status", "20")],
        &[(":status", "2000")],
        &[(":status", "abc")],
        &[(":status", "099")],
        &[(":status", "101")],
        &[(":status", "200"), (":path", "/")],
        &[(":status", "200"), ("transfer-encoding", "chunked")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("content-length", "x")],
        &[
            (":status", "200"),
            ("content-length", "1"),
            ("content-length", "2"),
        ],
        &[(":status", "200"), ("x", "y\r")],
        &[(":status", "200"), ("x y", "z")],
    ] {
        client(|end| {
            end.open(true);
            end.sent();
            end.headers(1, false, fields);
            let events = end.take_events();
            assert!(
                events[0].starts_with("fault 1 PROTOCOL_ERROR upstream sent"),
                "{events:?}"
            );
            assert_eq!(end.sent_words(), ["RST_STREAM 1 PROTOCOL_ERROR"]);
        });
    }
    client(|end| {
        end.open(true);
        end.headers(1, true, &[(":status", "100")]);
        let events = end.take_events();
        assert_eq!(
            events,
            ["fault 1 PROTOCOL_ERROR upstream ended a stream with status 1xx"]
        );
    });
    client(|end| {
        end.open(true);
        end.feed(&data_frame(1, b"x", true));
        let events = end.take_events();
        assert_eq!(
            events,
            ["fault 1 PROTOCOL_ERROR upstream sent DATA before HEADERS"]
        );
    });
}

#[test]
fn bodies_of_responses_agree_with_their_length() {
    let run = |method: &'static [u8], status: &str, length: &str, body: Option<&[u8]>| {
        let result = std::cell::RefCell::new(String::new());
        client(|end| {
            let target = RequestTarget::new(method, Scheme::Https, b"a", b"/").expect("valid");
            end.connection
                .open(&target, [], true, &mut end.out)
                .expect("a stream");
            let fields = [(":status", status), ("content-length", length)];
            end.headers(1, body.is_none(), &fields);
            if let Some(body) = body {
                end.feed(&data_frame(1, body, true));
            }
            assert_eq!(end.fault, None);
            result.replace(end.take_events().pop().expect("an event"));
        });
        result.into_inner()
    };
    let fault = "fault 1 PROTOCOL_ERROR body does not have the declared length";
    assert_eq!(run(b"GET", "200", "3", Some(b"abc")), "data 1 3 end");
    assert_eq!(run(b"GET", "200", "3", Some(b"ab")), fault);
    assert_eq!(run(b"GET", "200", "3", Some(b"abcd")), fault);
    assert_eq!(run(b"GET", "200", "3", None), fault);
    assert_eq!(run(b"HEAD", "200", "3", None), "response 1 200 end");
    assert_eq!(run(b"HEAD", "200", "3", Some(b"")), "data 1 0 end");
    assert_eq!(run(b"HEAD", "200", "3", Some(b"abc")), fault);
    assert_eq!(run(b"GET", "304", "3", None), "response 1 304 end");
}

#[test]
fn requests_are_written_without_what_http_2_does_not_have() {
    client(|end| {
        let (http, path) = (Scheme::Http, b"/a?b");
        let target = RequestTarget::new(b"POST", http, b"origin:81", path).expect("valid");
        let fields = [
            Field::from_static("Host", "other"),
            Field::from_static("Connection", "close"),
            Field::from_static("TE", "gzip, Trailers"),
            Field::from_static("Transfer-Encoding", "chunked"),
            Field::from_static("HTTP2-Settings", "x"),
            Field::from_static("X-Up", " \tValue of it\t "),
            Field::from_static("X-Blank", " "),
            Field::from_static("content-length", "3"),
        ];
        end.sent();
        let stream = end
            .connection
            .open(&target, fields, false, &mut end.out)
            .expect("a stream");
        end.connection.offer(stream);
        end.connection
            .data(stream, 3, true, &mut end.out)
            .expect("a body");
        end.out.extend_from_slice(b"abc");
        assert_eq!(
            end.sent_words(),
            [
                "HEADERS 1 :method: POST; :scheme: http; :authority: origin:81; :path: /a?b; \
                 te: trailers; x-up: Value of it; x-blank: ; content-length: 3",
                "DATA 1 3 end"
            ]
        );
        let target = RequestTarget::new(b"POST", http, b"", path).expect("valid");
        let host = [
            Field::from_static("host", "named"),
            Field::from_static("te", "gzip"),
        ];
        end.connection
            .open(&target, host, true, &mut end.out)
            .expect("a stream");
        assert_eq!(
            end.sent_words(),
            ["HEADERS 3 :method: POST; :scheme: http; :path: /a?b; host: named end"]
        );
    });
}

#[test]
fn empty_trailers_are_an_empty_frame() {
    server(|end| {
        let stream = end.get(1);
        end.respond(stream, false);
        end.sent();
        end.connection
            .send_trailers(stream, [], &mut end.out)
            .expect("trailers");
        assert_eq!(end.sent_words(), ["DATA 1 0 end"]);
        assert!(!end.connection.contains(stream));
    });
}
