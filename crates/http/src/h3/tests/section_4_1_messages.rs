//! Message framing (section 4.1).

use super::*;
use crate::StatusCode;

const UNEXPECTED: Result<Vec<String>, Code> = Err(Code::H3_FRAME_UNEXPECTED);

fn words_of(words: &[&str]) -> Result<Vec<String>, Code> {
    Ok(words.iter().map(|&word| word.to_owned()).collect())
}

#[test]
fn requests_have_a_head_a_body_and_trailers() {
    assert_eq!(
        requested(&[headers(&GET)]),
        words_of(&["0 GET / HTTP/3.0 end"])
    );
    assert_eq!(
        requested(&[headers(&POST), data("abc"), data(""), data("de")]),
        words_of(&["0 POST / HTTP/3.0", "0 abc", "0 de end"])
    );
    assert_eq!(
        requested(&[
            headers(&POST),
            data("abc"),
            headers(&[("a", "b"), ("c", "d")])
        ]),
        words_of(&["0 POST / HTTP/3.0", "0 abc", "0 trailers a: b, c: d"])
    );
    assert_eq!(
        requested(&[headers(&POST), headers(&[("a", "b")])]),
        words_of(&["0 POST / HTTP/3.0", "0 trailers a: b"])
    );
}

#[test]
fn an_end_that_comes_alone_ends_the_body() {
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    let head = receive(&mut server, 0, &headers(&POST), false);
    assert_eq!(head, words_of(&["0 POST / HTTP/3.0"]));
    assert_eq!(receive(&mut server, 0, b"", false), words_of(&[]));
    assert_eq!(receive(&mut server, 0, b"", true), words_of(&["0  end"]));
    assert_eq!(receive(&mut server, 0, b"", true), words_of(&[]));
}

#[test]
fn frames_of_unknown_types_may_come_anywhere() {
    let unknown = raw_frame(0x21, b"whatever");
    let parts = [
        unknown.clone(),
        headers(&POST),
        unknown.clone(),
        data("a"),
        unknown.clone(),
        headers(&[("a", "b")]),
        unknown,
    ];
    assert_eq!(
        requested(&parts),
        words_of(&["0 POST / HTTP/3.0", "0 a", "0 trailers a: b"])
    );
}

#[test]
fn other_sequences_end_the_connection() {
    let trailers = headers(&[("a", "b")]);
    assert_eq!(requested(&[data("a")]), UNEXPECTED);
    assert_eq!(
        requested(&[headers(&POST), trailers.clone(), data("a")]),
        UNEXPECTED
    );
    assert_eq!(
        requested(&[headers(&POST), trailers.clone(), trailers]),
        UNEXPECTED
    );
}

#[test]
fn a_stream_without_a_request_is_incomplete() {
    assert_eq!(requested(&[]), words_of(&["0 H3_REQUEST_INCOMPLETE"]));
    assert_eq!(
        requested(&[raw_frame(0x21, b"")]),
        words_of(&["0 H3_REQUEST_INCOMPLETE"])
    );
}

/// Section 7.1: "a frame that is truncated at the end of a stream".
#[test]
fn a_stream_that_ends_within_a_frame_ends_the_connection() {
    let whole = [headers(&POST), data("abc"), raw_frame(0x21, b"abc")].concat();
    let head_bytes = headers(&POST).len();
    let ends = [head_bytes, head_bytes + data("abc").len(), whole.len()];
    for end in 1..whole.len() {
        let outcome = request(&mut server(), 0, &whole[..end]);
        match ends.contains(&end) {
            true => assert!(outcome.is_ok(), "{end}"),
            false => assert_eq!(outcome, Err(Code::H3_FRAME_ERROR), "{end}"),
        }
    }
}

/// Section 10.5: clients may not let a server wait for ever.
#[test]
fn requests_that_do_not_come_are_told() {
    let mut connection = server();
    let timeout = Duration::from_secs(60);
    assert_eq!(opened(&mut connection, 0), Ok(None));
    assert!(connection.awaits_requests());
    let head = headers(&GET);
    let part = receive(&mut connection, 0, &head[..3], false);
    assert_eq!(part, Ok(Vec::new()));
    assert_eq!(connection.late_request(NOW, timeout), None);
    assert_eq!(connection.late_request(NOW + timeout, timeout), Some(0));
    let rest = receive(&mut connection, 0, &head[3..], false);
    assert_eq!(rest, words_of(&["0 GET / HTTP/3.0"]));
    assert!(!connection.awaits_requests());
    assert_eq!(connection.late_request(NOW + 2 * timeout, timeout), None);
}

/// Section 4.1.2.
#[test]
fn a_malformed_request_may_be_answered() {
    let mut connection = server();
    let mut fields = POST.to_vec();
    fields.push(("content-length", "3"));
    let bytes = [headers(&fields), data("ab")].concat();
    let told = words_of(&["0 POST / HTTP/3.0", "0 malformed H3_MESSAGE_ERROR"]);
    assert_eq!(request(&mut connection, 0, &bytes), told);
    assert!(!connection.is_receiving(0));
    let mut out = Vec::new();
    let sent = connection.send_head(0, StatusCode::BAD_REQUEST, [], false, &mut out);
    assert!(sent.is_ok() && !out.is_empty());
}

/// Section 4.1.2.
#[test]
fn bodies_must_have_the_declared_length() {
    let with_length = |length: &'static str| {
        let mut fields = POST.to_vec();
        fields.push(("content-length", length));
        headers(&fields)
    };
    let wrong = words_of(&["0 POST / HTTP/3.0", "0 malformed H3_MESSAGE_ERROR"]);
    assert_eq!(
        requested(&[with_length("3"), data("abc")]),
        words_of(&["0 POST / HTTP/3.0", "0 abc end"])
    );
    // One frame that is too long is refused at its header.
    assert_eq!(requested(&[with_length("3"), data("abcd")]), wrong);
    assert_eq!(requested(&[with_length("3"), data("ab")]), wrong);
    let parts = [with_length("3"), data("ab"), data("cd")];
    let after_data = words_of(&["0 POST / HTTP/3.0", "0 ab", "0 malformed H3_MESSAGE_ERROR"]);
    assert_eq!(requested(&parts), after_data);
    let parts = [with_length("3"), data("ab"), headers(&[("a", "b")])];
    assert_eq!(requested(&parts), after_data);
    assert_eq!(
        requested(&[with_length("0")]),
        words_of(&["0 POST / HTTP/3.0 end"])
    );
    assert_eq!(
        requested(&[with_length("3")]),
        words_of(&["0 refused 400 end"])
    );
    assert_eq!(
        requested(&[with_length("x"), data("abc")]),
        words_of(&["0 refused 400", "0 abc end"])
    );
}

/// Section 4.4: only DATA after the head.
#[test]
fn connect_opens_a_tunnel() {
    let connect = headers(&[(":method", "CONNECT"), (":authority", "example.com:443")]);
    assert_eq!(
        requested(&[connect.clone(), data("a")]),
        words_of(&["0 CONNECT example.com:443 HTTP/3.0", "0 a end"])
    );
    let parts = [connect, data("a"), headers(&[("a", "b")])];
    assert_eq!(requested(&parts), UNEXPECTED);
    let with_path = headers(&[
        (":method", "CONNECT"),
        (":scheme", "https"),
        (":authority", "example.com:443"),
        (":path", "/"),
    ]);
    assert_eq!(requested(&[with_path]), words_of(&["0 refused 400 end"]));
}

#[test]
fn what_follows_a_malformed_head_is_ignored() {
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    let parts = [headers(&[(":method", "GET"), ("te", "x")]), data("a")].concat();
    assert_eq!(
        receive(&mut server, 0, &parts, false),
        words_of(&["0 refused 400 end"])
    );
    assert_eq!(receive(&mut server, 0, &data("b"), true), words_of(&[]));
    // Its response is sent all the same.
    let mut out = Vec::new();
    let fields = [crate::headers::Field::from_static("a", "b")];
    server
        .send_head(0, crate::StatusCode::BAD_REQUEST, fields, true, &mut out)
        .expect("the first head");
    assert_eq!(server.open_streams(), 0);
    assert_eq!(server.take_counters().malformed_heads, 1);
}

#[test]
fn a_response_may_come_before_the_end_of_the_request() {
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    assert!(receive(&mut server, 0, &headers(&POST), false).is_ok());
    let mut out = Vec::new();
    let fields = [crate::headers::Field::from_static("a", "b")];
    server
        .send_head(0, crate::StatusCode::OK, fields, true, &mut out)
        .expect("the first head");
    assert_eq!(server.open_streams(), 1);
    server.stop_receiving(0);
    assert_eq!(server.open_streams(), 0);
    assert_eq!(receive(&mut server, 0, &data("late"), true), words_of(&[]));
}
