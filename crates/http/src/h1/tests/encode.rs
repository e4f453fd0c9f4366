//! Response heads and chunks.

use crate::StatusCode;
use crate::date;
use crate::h1::{
    ConnectionHeader, ResponseHead, Version, encode_chunk_header, encode_response_head,
};
use crate::headers::{FieldValue, HeaderList, KnownHeader};

fn encode(head: &ResponseHead<'_>) -> String {
    let mut out = Vec::new();
    encode_response_head(&mut out, head);
    String::from_utf8(out).expect("test output is ASCII")
}

#[test]
fn a_file_is_answered_in_nginx_s_order() {
    let mut headers = HeaderList::new();
    let time = date::imf(784_111_777);
    headers
        .push_known(KnownHeader::Etag, b"\"2ebc4d21-5\"")
        .expect("valid");
    headers
        .push_known(KnownHeader::AcceptRanges, b"bytes")
        .expect("valid");
    let head = ResponseHead {
        server: Some(FieldValue::from_static("nginx/1.29.3")),
        date: FieldValue::new(&time).ok(),
        content_type: Some(FieldValue::from_static("text/html")),
        charset: Some(FieldValue::from_static("utf-8")),
        content_length: Some(5),
        last_modified: FieldValue::new(&time).ok(),
        connection: ConnectionHeader::KeepAlive { timeout_s: None },
        ..ResponseHead::new(Version::Http11, StatusCode::OK, &headers)
    };
    assert_eq!(
        encode(&head),
        "HTTP/1.1 200 OK\r\n\
         Server: nginx/1.29.3\r\n\
         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Content-Type: text/html; charset=utf-8\r\n\
         Content-Length: 5\r\n\
         Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Connection: keep-alive\r\n\
         ETag: \"2ebc4d21-5\"\r\n\
         Accept-Ranges: bytes\r\n\r\n"
    );
}

#[test]
fn the_other_fixed_headers() {
    let headers = HeaderList::new();
    let head = ResponseHead {
        location: Some(FieldValue::from_static("http://a/b/")),
        chunked: true,
        connection: ConnectionHeader::KeepAlive {
            timeout_s: Some(75),
        },
        vary_accept_encoding: true,
        ..ResponseHead::new(Version::Http10, StatusCode::MOVED_PERMANENTLY, &headers)
    };
    assert_eq!(
        encode(&head),
        "HTTP/1.1 301 Moved Permanently\r\n\
         Location: http://a/b/\r\n\
         Transfer-Encoding: chunked\r\n\
         Connection: keep-alive\r\n\
         Keep-Alive: timeout=75\r\n\
         Vary: Accept-Encoding\r\n\r\n"
    );
}

#[test]
fn status_lines() {
    let line = |status: u16, connection| {
        let headers = HeaderList::new();
        let head = ResponseHead {
            connection,
            ..ResponseHead::new(Version::Http11, StatusCode(status), &headers)
        };
        encode(&head)
    };
    let close = ConnectionHeader::Close;
    assert_eq!(
        line(494, close),
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
    );
    // nginx, too, leaves the space after a code that has no phrase.
    assert_eq!(
        line(599, close),
        "HTTP/1.1 599 \r\nConnection: close\r\n\r\n"
    );
    assert_eq!(
        line(101, ConnectionHeader::Upgrade),
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n"
    );
}

#[test]
fn http_0_9_has_no_head() {
    let headers = HeaderList::new();
    assert_eq!(
        encode(&ResponseHead::new(
            Version::Http09,
            StatusCode::OK,
            &headers
        )),
        ""
    );
}

#[test]
fn chunk_headers() {
    let header = |bytes: u64| {
        let mut out = Vec::new();
        encode_chunk_header(&mut out, bytes);
        String::from_utf8(out).expect("ASCII")
    };
    assert_eq!(header(1), "1\r\n");
    assert_eq!(header(15), "f\r\n");
    assert_eq!(header(16), "10\r\n");
    assert_eq!(header(0x1_0abc), "10abc\r\n");
    assert_eq!(header(u64::MAX), "ffffffffffffffff\r\n");
}
