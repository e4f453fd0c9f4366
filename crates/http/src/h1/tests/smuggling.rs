//! Messages refused because two servers could read them differently.

use super::*;

#[track_caller]
fn assert_refused(lines: &str, status: u16, reason: &str) {
    assert_eq!(refusal(&with_headers(lines)), (status, reason), "{lines:?}");
}

#[test]
fn two_lengths() {
    let reason = "client sent duplicate header line";
    assert_refused("Content-Length: 1\r\nContent-Length: 2\r\n", 400, reason);
    assert_refused("Content-Length: 1\r\ncontent-length: 1\r\n", 400, reason);
    let reason = "client sent invalid \"Content-Length\" header";
    assert_refused("Content-Length: 1, 1\r\n", 400, reason);
}

#[test]
fn length_that_is_no_number() {
    for value in [
        "",
        "+1",
        "-1",
        "0x1",
        "1 2",
        "1a",
        "9223372036854775808",
        "1\u{b}",
    ] {
        let lines = format!("Content-Length: {value}\r\n");
        assert_refused(&lines, 400, "client sent invalid \"Content-Length\" header");
    }
}

#[test]
fn length_with_transfer_encoding() {
    let reason =
        "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time";
    assert_refused(
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        400,
        reason,
    );
    assert_refused(
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        400,
        reason,
    );
}

#[test]
fn transfer_encodings_other_than_chunked() {
    let reason = "client sent unknown \"Transfer-Encoding\"";
    for value in [
        "identity",
        "gzip, chunked",
        "chunked, chunked",
        "xchunked",
        "chunked;",
        "",
        "\u{b}chunked",
    ] {
        assert_refused(&format!("Transfer-Encoding: {value}\r\n"), 501, reason);
    }
    let reason = "client sent duplicate header line";
    assert_refused(
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        400,
        reason,
    );
    let input = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    let reason = "client sent HTTP/1.0 request with \"Transfer-Encoding\" header";
    assert_eq!(refusal(input), (400, reason));
}

#[test]
fn malformed_header_lines() {
    for lines in [
        "A : b\r\n", // space before the colon
        "A\t: b\r\n",
        " A: b\r\n", // folding of the line before
        "\tA: b\r\n",
        "A: b\r\n c\r\n",
        ": b\r\n",     // no name
        "A\r\n",       // no colon
        "A: b\rc\r\n", // bare CR
        "A: b\r\r\n",
        "\rA: b\r\n",
        "A\r: b\r\n",
        "A: \0\r\n", // NUL
        "A\0: b\r\n",
        "A: b\0",        // NUL, the line not yet complete
        "A\u{1}: b\r\n", // control character in a name
        "A\u{7f}: b\r\n",
        "Content-Length : 1\r\n",
        "Transfer-Encoding\r\n",
    ] {
        assert_refused(lines, 400, "client sent invalid header line");
    }
}

#[test]
fn line_feed_after_a_value_cannot_hide_a_header() {
    // A bare LF ends the line, so the second half is a header like any other, and counts.
    assert_refused(
        "X: a\nContent-Length: 1\r\nContent-Length: 1\r\n",
        400,
        "client sent duplicate header line",
    );
}

#[test]
fn bare_cr_and_nul_in_the_request_line() {
    for line in [
        "GET /\rx HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "GET / HTTP/1.1\r",
        "GET / \rHTTP/1.1",
    ] {
        let input = format!("{line}\r\nHost: a\r\n\r\n");
        let wanted = (400, "client sent invalid request");
        assert_eq!(refusal(input.as_bytes()), wanted, "{line:?}");
    }
}

#[test]
fn hosts() {
    let request = |lines: &str| format!("GET / HTTP/1.1\r\n{lines}\r\n").into_bytes();
    let reason = "client sent HTTP/1.1 request without \"Host\" header";
    assert_eq!(refusal(&request("")), (400, reason));
    let reason = "client sent duplicate host header";
    assert_eq!(refusal(&request("Host: a\r\nHost: a\r\n")), (400, reason));
    for value in [
        "", " ", "a b", "a/b", "a@b", "a..b", ".", "a:x", "a:65536", "a:1:2", "[::1", "[]",
        "[::1]x", "ä", "a\u{1}", "a,b c", "a\\b", "a#", "a?", "<a>", "[a%1]",
    ] {
        let input = request(&format!("Host: {value}\r\n"));
        let wanted = (400, "client sent invalid host header");
        assert_eq!(refusal(&input), wanted, "{value:?}");
    }
    // In absolute form the header must be there and valid all the same.
    let input = b"GET http://a/ HTTP/1.1\r\nHost: b/c\r\n\r\n";
    assert_eq!(refusal(input), (400, "client sent invalid host header"));
    let input = b"GET http://a/ HTTP/1.1\r\n\r\n";
    assert_eq!(refusal(input).0, 400);
}

#[test]
fn headers_that_may_be_sent_once() {
    for name in [
        "If-Match",
        "If-None-Match",
        "If-Range",
        "Authorization",
        "Expect",
        "Content-Range",
    ] {
        let lines = format!("{name}: a\r\n{name}: a\r\n");
        assert_refused(&lines, 400, "client sent duplicate header line");
    }
    // The first of these counts, as in nginx.
    for name in ["Range", "Referer", "User-Agent", "Cookie"] {
        let input = with_headers(&format!("{name}: a\r\n{name}: b\r\n"));
        assert_eq!(parse(&input).expect("valid").headers.len(), 3);
    }
}

#[test]
fn the_line_is_quoted_up_to_the_byte_at_fault() {
    for (line, quoted) in [
        ("A: b\rc\r\n", "A: b\rc"),
        ("A: b\0c\r\n", "A: b\0"),
        ("A : b\r\n", "A : b"),
    ] {
        let input = with_headers(line);
        let error = parse(&input).expect_err("refused");
        assert_eq!(text(error.excerpt().expect("the line"), &input), quoted);
    }
    let input = with_headers("Content-Length: 1x\r\n");
    let error = parse(&input).expect_err("refused");
    assert_eq!(text(error.excerpt().expect("the value"), &input), "1x");
}
