use super::*;

fn reader(status: u16, body_bytes: impl Into<Option<u64>>) -> ResponseReader {
    ResponseReader::new(Expected {
        status,
        body_bytes: body_bytes.into(),
    })
}

/// Feeds `text` in one piece and, with a second reader, byte by byte; both must agree.
fn feed(
    status: u16,
    body_bytes: impl Into<Option<u64>>,
    text: &str,
) -> Result<Option<Completed>, ResponseError> {
    let body_bytes = body_bytes.into();
    let whole = reader(status, body_bytes).feed(text.as_bytes());
    let mut pieces = reader(status, body_bytes);
    let mut last = Ok(None);
    for byte in text.as_bytes() {
        last = pieces.feed(std::slice::from_ref(byte));
        if last.is_err() {
            break;
        }
    }
    assert_eq!(
        whole, last,
        "one piece and single bytes disagree on {text:?}"
    );
    whole
}

#[test]
fn length_delimited() {
    let completed = feed(200, 5, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(
        completed,
        Ok(Some(Completed {
            body_bytes: 5,
            keep_alive: true
        }))
    );
}

#[test]
fn empty_body_completes_with_the_head() {
    let completed = feed(
        200,
        0,
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(
        completed,
        Ok(Some(Completed {
            body_bytes: 0,
            keep_alive: false
        }))
    );
    let completed = feed(
        304,
        None,
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n",
    );
    assert_eq!(
        completed,
        Ok(Some(Completed {
            body_bytes: 0,
            keep_alive: true
        }))
    );
}

#[test]
fn chunked_counts_the_data_only() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\n";
    assert_eq!(
        feed(200, 19, text),
        Ok(Some(Completed {
            body_bytes: 19,
            keep_alive: true
        }))
    );
}

#[test]
fn chunk_without_its_line_break_is_refused() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd";
    assert!(matches!(
        feed(200, None, text),
        Err(ResponseError::Malformed(_))
    ));
}

#[test]
fn several_responses_in_a_row() {
    let mut reader = reader(200, 2);
    for _ in 0..3 {
        let completed = reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(
            completed,
            Ok(Some(Completed {
                body_bytes: 2,
                keep_alive: true
            }))
        );
    }
}

#[test]
fn unexpected_status_is_an_error() {
    let got = feed(
        200,
        None,
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(
        got,
        Err(ResponseError::Status {
            wanted: 200,
            got: 404
        })
    );
}

#[test]
fn unexpected_length_is_an_error_before_the_body() {
    let got = reader(200, 1024).feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    assert_eq!(
        got,
        Err(ResponseError::Length {
            wanted: 1024,
            got: 1000
        })
    );
}

#[test]
fn surplus_bytes_are_an_error() {
    let got = reader(200, 2).feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP");
    assert_eq!(got, Err(ResponseError::Surplus(4)));
}

#[test]
fn body_until_close() {
    let mut reader = reader(200, 3);
    assert_eq!(reader.feed(b"HTTP/1.0 200 OK\r\n\r\nabc"), Ok(None));
    assert_eq!(
        reader.end_of_stream(),
        Ok(Some(Completed {
            body_bytes: 3,
            keep_alive: false
        }))
    );
}

#[test]
fn end_of_stream_inside_a_response() {
    let mut inside_body = reader(200, None);
    assert_eq!(
        inside_body.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
        Ok(None)
    );
    assert_eq!(inside_body.end_of_stream(), Err(ResponseError::Truncated));
    let mut inside_head = reader(200, None);
    assert_eq!(inside_head.feed(b"HTTP/1.1 2"), Ok(None));
    assert_eq!(inside_head.end_of_stream(), Err(ResponseError::Truncated));
    assert_eq!(reader(200, None).end_of_stream(), Ok(None));
}

#[test]
fn connection_field_decides_about_keep_alive() {
    for (head, keep_alive) in [
        ("HTTP/1.1 200 OK\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: Close\r\n", false),
        ("HTTP/1.0 200 OK\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", true),
    ] {
        let completed = feed(200, 0, &format!("{head}Content-Length: 0\r\n\r\n"));
        assert_eq!(
            completed,
            Ok(Some(Completed {
                body_bytes: 0,
                keep_alive
            })),
            "{head:?}"
        );
    }
}

#[test]
fn garbage_and_endless_heads_are_refused() {
    assert!(matches!(
        feed(200, None, "SSH-2.0-x\r\n"),
        Err(ResponseError::Malformed(_))
    ));
    let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_LIMIT_BYTES));
    assert!(matches!(
        reader(200, None).feed(endless.as_bytes()),
        Err(ResponseError::Malformed(_))
    ));
}

#[test]
fn responses_to_requests_sent_ahead_are_taken_one_by_one() {
    let expected = Expected {
        status: 200,
        body_bytes: Some(2),
    };
    let one = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    let bytes = [&one[..], &one[..], &one[..20]].concat();
    let mut reader = ResponseReader::new(expected);
    let mut left = bytes.as_slice();
    for rest in [one.len() + 20, 20] {
        let completed = reader.take(&mut left).expect("well-formed");
        assert_eq!(completed.map(|completed| completed.body_bytes), Some(2));
        assert_eq!(left.len(), rest);
    }
    assert_eq!(reader.take(&mut left).expect("well-formed so far"), None);
    assert!(left.is_empty());
    let completed = reader.take(&mut &one[20..]).expect("well-formed");
    assert!(completed.is_some());
}
