//! Extended CONNECT (RFC 9220).

use super::*;

const WEBSOCKET: [(&str, &str); 5] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "https"),
    (":authority", "example.com"),
    (":path", "/chat"),
];

fn server() -> Connection {
    server_with(Settings {
        extended_connect: true,
        ..Settings::default()
    })
}

#[test]
fn section_3_a_websocket_reads_like_one_of_http1() {
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    let bytes = headers(&WEBSOCKET);
    let received = server.receive(0, &bytes, false, NOW).expect("valid");
    let Some(Event::Request {
        request,
        end: false,
        ..
    }) = received.event
    else {
        panic!("a request");
    };
    let text = String::from_utf8(request.text.clone()).expect("text");
    let start = request.head.request_line.start as usize;
    assert_eq!(
        &text[start..],
        "GET /chat HTTP/3.0\r\nhost: example.com\r\nconnection: upgrade\r\n\
         upgrade: websocket\r\n\r\n"
    );
    assert!(request.head.extended_connect);
    assert_eq!(
        receive(&mut server, 0, &data("frame"), false),
        Ok(vec!["0 frame".to_owned()])
    );
    let trailers = receive(&mut server, 0, &headers(&[("a", "b")]), false);
    assert_eq!(trailers, Err(Code::H3_FRAME_UNEXPECTED));
}

#[test]
fn it_is_refused_unless_it_was_announced() {
    let outcome = request(&mut super::server(), 0, &headers(&WEBSOCKET));
    assert_eq!(outcome, Ok(vec!["0 refused 400 end".to_owned()]));
}

#[test]
fn it_needs_all_pseudo_headers() {
    for missing in [2, 3, 4] {
        let mut fields = WEBSOCKET.to_vec();
        fields.remove(missing);
        let outcome = request(&mut server(), 0, &headers(&fields));
        assert_eq!(
            outcome,
            Ok(vec!["0 refused 400 end".to_owned()]),
            "{missing}"
        );
    }
    let mut fields = WEBSOCKET.to_vec();
    fields[0].1 = "GET";
    let outcome = request(&mut server(), 0, &headers(&fields));
    assert_eq!(outcome, Ok(vec!["0 refused 400 end".to_owned()]));
}
