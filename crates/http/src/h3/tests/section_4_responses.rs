//! Responses, as clients read them (sections 4.1 and 4.3.2).

use super::*;

const OK: [(&str, &str); 1] = [(":status", "200")];

fn responded(method: &str, frames: &[Vec<u8>]) -> Result<Vec<String>, Code> {
    let mut client = client(&[(0, method)]);
    let outcome = receive(&mut client, 0, &frames.concat(), true);
    if outcome.is_ok() {
        assert_eq!(client.open_streams(), 0);
    }
    outcome
}

fn words_of(words: &[&str]) -> Result<Vec<String>, Code> {
    Ok(words.iter().map(|&word| word.to_owned()).collect())
}

#[test]
fn responses_have_a_head_a_body_and_trailers() {
    assert_eq!(
        responded("GET", &[headers(&OK)]),
        words_of(&["0 response 200 end"])
    );
    assert_eq!(
        responded("GET", &[headers(&OK), data("abc"), headers(&[("a", "b")])]),
        words_of(&["0 response 200", "0 abc", "0 trailers a: b"])
    );
}

#[test]
fn interim_responses_come_first() {
    let interim = headers(&[(":status", "103"), ("link", "</a.css>")]);
    assert_eq!(
        responded("GET", &[interim.clone(), interim.clone(), headers(&OK)]),
        words_of(&["0 interim 103", "0 interim 103", "0 response 200 end"])
    );
    assert_eq!(
        responded("GET", std::slice::from_ref(&interim)),
        words_of(&["0 H3_MESSAGE_ERROR"])
    );
    assert_eq!(
        responded("GET", &[interim, data("a")]),
        Err(Code::H3_FRAME_UNEXPECTED)
    );
    // Section 4.5.
    let switched = headers(&[(":status", "101")]);
    assert_eq!(
        responded("GET", &[switched]),
        words_of(&["0 H3_MESSAGE_ERROR"])
    );
}

#[test]
fn malformed_responses_end_the_stream() {
    for fields in [
        &[("a", "b")][..],
        &[(":status", "20")],
        &[(":status", "2000")],
        &[(":status", "99")],
        &[(":status", "200"), (":status", "200")],
        &[("a", "b"), (":status", "200")],
        &[(":status", "200"), (":path", "/")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("A", "b")],
        &[(":status", "200"), ("a", "b\n")],
    ] {
        let outcome = responded("GET", &[headers_as_written(fields)]);
        assert_eq!(outcome, words_of(&["0 H3_MESSAGE_ERROR"]), "{fields:?}");
    }
    assert_eq!(responded("GET", &[]), words_of(&["0 H3_MESSAGE_ERROR"]));
}

#[test]
fn responses_to_head_have_a_length_and_no_body() {
    let head = headers(&[(":status", "200"), ("content-length", "5")]);
    assert_eq!(
        responded("HEAD", std::slice::from_ref(&head)),
        words_of(&["0 response 200 end"])
    );
    assert_eq!(
        responded("HEAD", &[head.clone(), data("hello")]),
        words_of(&["0 response 200", "0 H3_MESSAGE_ERROR"])
    );
    assert_eq!(
        responded("GET", &[head.clone(), data("hello")]),
        words_of(&["0 response 200", "0 hello end"])
    );
    assert_eq!(responded("GET", &[head]), words_of(&["0 H3_MESSAGE_ERROR"]));
    let unchanged = headers(&[(":status", "304"), ("content-length", "5")]);
    assert_eq!(
        responded("GET", &[unchanged]),
        words_of(&["0 response 304 end"])
    );
}

/// Section 7.2.5: no push was allowed.
#[test]
fn pushes_are_refused() {
    assert_eq!(
        responded("GET", &[raw_frame(5, b"\0\0\0")]),
        Err(Code::H3_ID_ERROR)
    );
    let mut client = client(&[]);
    assert_eq!(opened(&mut client, 7), Ok(None));
    assert_eq!(
        receive(&mut client, 7, b"\x01\x00", false),
        Err(Code::H3_ID_ERROR)
    );
}
