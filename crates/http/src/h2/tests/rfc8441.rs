//! RFC 8441: WebSockets on streams of HTTP/2.

use super::section_8_requests::{Fields, list, outcome, outcome_with};
use super::*;
use crate::Method;
use crate::h1::Framing;

/// Settings of a server that announces extended CONNECT.
fn extended() -> Settings {
    Settings {
        extended_connect: true,
        ..Settings::default()
    }
}

const WEBSOCKET: Fields<'static> = &[
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "https"),
    (":path", "/chat?room=1"),
    (":authority", "server.example:8443"),
    ("sec-websocket-version", "13"),
];

#[test]
fn extended_connect_becomes_an_upgrade() {
    // RFC 8441 section 5.1.
    server_with(extended(), |end| {
        end.headers(1, false, WEBSOCKET);
        let (_, request) = end.requests.last().expect("a request");
        let line = show(request.head.request_line.of(&request.text));
        assert_eq!(line, "GET /chat?room=1 HTTP/2.0");
        assert_eq!(request.head.method, Method::Get);
        assert_eq!(request.head.method_name.of(&request.text), b"GET");
        assert_eq!(request.head.path.of(&request.text), b"/chat?room=1");
        assert_eq!(request.head.framing, Framing::None);
        assert!(request.head.extended_connect && request.head.connection_upgrade);
        let host = request.head.host.expect("an authority");
        assert_eq!(host.of(&request.text), b"server.example");
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            list(request),
            [
                field("host", "server.example:8443"),
                field("sec-websocket-version", "13"),
                field("connection", "upgrade"),
                field("upgrade", "websocket"),
            ]
        );
    });
}

#[test]
fn extended_connect_is_complete_and_announced() {
    let without = |name: &str| -> Vec<_> {
        let fields = WEBSOCKET.iter().copied();
        fields.filter(|(other, _)| *other != name).collect()
    };
    let with = |name, value| [WEBSOCKET, &[(name, value)]].concat();
    let instead = |name, value| [vec![(name, value)], without(name)].concat();
    for (fields, expected) in [
        (
            without(":authority"),
            "refused 1 400 client sent CONNECT without :authority header end",
        ),
        (
            without(":path"),
            "refused 1 400 client sent no :path header end",
        ),
        (
            without(":scheme"),
            "refused 1 400 client sent no :schema header end",
        ),
        (
            instead(":method", "GET"),
            "refused 1 400 client sent :protocol header without CONNECT end",
        ),
        (
            instead(":protocol", ""),
            "refused 1 400 client sent empty :protocol header end",
        ),
        (
            [&[(":protocol", "a")], WEBSOCKET].concat(),
            "refused 1 400 client sent duplicate :protocol header end",
        ),
        (
            with("content-length", "0"),
            "refused 1 400 client sent CONNECT with content-length header end",
        ),
        (
            with("upgrade", "websocket"),
            "refused 1 400 client sent connection-specific header end",
        ),
    ] {
        assert_eq!(outcome_with(extended(), &fields, false), expected);
    }
    let unknown = "refused 1 400 client sent unknown pseudo header end";
    assert_eq!(outcome(WEBSOCKET, false), unknown);
}
