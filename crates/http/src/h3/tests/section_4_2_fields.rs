//! Fields and pseudo-headers of requests (sections 4.2 and 4.3).

use super::*;

/// The head of a request with these fields beside those of GET; names as written.
fn head_with(fields: &[(&str, &str)]) -> Result<Vec<String>, Code> {
    requested(&[headers_as_written(&[&GET[..], fields].concat())])
}

fn text_with(fields: &[(&str, &str)]) -> String {
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    let bytes = headers_as_written(&[&GET[..], fields].concat());
    let received = server.receive(0, &bytes, true, NOW).expect("valid");
    let Some(Event::Request { request, .. }) = received.event else {
        panic!("a request");
    };
    let start = request.head.request_line.start as usize;
    String::from_utf8(request.text[start..].to_vec()).expect("as sent")
}

#[test]
fn heads_read_as_in_http1() {
    assert_eq!(
        text_with(&[("user-agent", "x"), ("x-y", "z")]),
        "GET / HTTP/3.0\r\nhost: example.com\r\nuser-agent: x\r\nx-y: z\r\n\r\n"
    );
}

/// Section 4.2.1.
#[test]
fn cookies_are_joined() {
    assert_eq!(
        text_with(&[("cookie", "a=b"), ("cookie", "c=d")]),
        "GET / HTTP/3.0\r\nhost: example.com\r\ncookie: a=b; c=d\r\n\r\n"
    );
}

/// Section 4.2: a malformed request is answered with 400, and then reset.
#[test]
fn malformed_fields_are_refused() {
    let refused = Ok(vec!["0 refused 400 end".to_owned()]);
    for field in [
        ("Upper", "x"),
        ("", "x"),
        ("a b", "x"),
        ("a:b", "x"),
        ("connection", "close"),
        ("keep-alive", "x"),
        ("proxy-connection", "x"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "x"),
        ("te", "gzip"),
        ("x", "a\rb"),
        ("x", "a\nb"),
        ("x", "a\0b"),
        ("x", " a"),
        ("x", "a "),
        // Section 4.3: unknown, late, of responses.
        (":unknown", "x"),
        (":status", "200"),
        (":protocol", "websocket"),
    ] {
        assert_eq!(head_with(&[field]), refused, "{field:?}");
    }
    assert_eq!(
        head_with(&[("te", "trailers")]),
        Ok(vec!["0 GET / HTTP/3.0 end".to_owned()])
    );
    let late = [("a", "b"), (":path", "/")];
    assert_eq!(head_with(&late), refused);
    assert_eq!(head_with(&[(":path", "/")]), refused, "twice");
}

/// Section 4.3.1.
#[test]
fn pseudo_headers_are_required() {
    for missing in 0..GET.len() {
        let mut fields = GET.to_vec();
        fields.remove(missing);
        let outcome = requested(&[headers(&fields)]);
        assert_eq!(
            outcome,
            Ok(vec!["0 refused 400 end".to_owned()]),
            "{missing}"
        );
    }
    for index in 0..GET.len() {
        let mut fields = GET.to_vec();
        fields[index].1 = "";
        let outcome = requested(&[headers(&fields)]);
        assert_eq!(outcome, Ok(vec!["0 refused 400 end".to_owned()]), "{index}");
    }
}

/// Section 4.3.1: `host` instead of `:authority`, or both if they agree.
#[test]
fn the_host_is_that_of_the_authority() {
    assert_eq!(
        text_with(&[("host", "example.com")]),
        "GET / HTTP/3.0\r\nhost: example.com\r\n\r\n"
    );
    let other = head_with(&[("host", "other.example")]);
    assert_eq!(other, Ok(vec!["0 refused 400 end".to_owned()]));
    let fields = [GET[0], GET[1], GET[3], ("host", "example.com")];
    let outcome = requested(&[headers(&fields)]);
    assert_eq!(outcome, Ok(vec!["0 GET / HTTP/3.0 end".to_owned()]));
}

#[test]
fn malformed_trailers_end_the_stream() {
    for field in [
        (":path", "/"),
        ("connection", "close"),
        ("te", "trailers"),
        ("Upper", "x"),
        ("x", "a\nb"),
    ] {
        let parts = [headers(&POST), headers_as_written(&[field])];
        let outcome = requested(&parts);
        let expected = ["0 POST / HTTP/3.0", "0 malformed H3_MESSAGE_ERROR"].map(str::to_owned);
        assert_eq!(outcome, Ok(expected.to_vec()), "{field:?}");
    }
}

/// Section 4.2.2: large heads are answered, and cost no more than the limits.
#[test]
fn large_heads_are_refused() {
    let value = "x".repeat(100);
    let mut many = GET.to_vec();
    many.extend(std::iter::repeat_n(("a", value.as_str()), 400));
    let outcome = requested(&[headers_as_written(&many)]);
    assert_eq!(outcome, Ok(vec!["0 refused 494 end".to_owned()]));
    // So large that it is not even decoded.
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    let mut start = Vec::new();
    frame::push_header(&mut start, 1, 1 << 20);
    let outcome = receive(&mut server, 0, &start, false);
    assert_eq!(outcome, Ok(vec!["0 H3_EXCESSIVE_LOAD".to_owned()]));
    assert_eq!(server.open_streams(), 0);
}
