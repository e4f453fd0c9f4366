//! Responses of upstream servers, valid and invalid: HTTP/1, HTTP/2 and FastCGI.

/// How many there are.
pub(super) const COUNT: usize = TEXTS.len() + 16;

/// Responses of HTTP/1, SCGI and uwsgi; `|` marks the ends of lines.
const TEXTS: [&str; 22] = [
    "HTTP/1.1 200 OK|Content-Length: 5||hello",
    "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|0||",
    "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello",
    "HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello!|0||",
    "HTTP/1.1 200 OK|Content-Length: 10||hello",
    "HTTP/1.1 200 OK|Content-Length: 5||hello, world",
    "HTTP/1.0 200 OK||hello",
    "HTTP/1.1 100 Continue||HTTP/1.1 103 Early Hints|Link: x||HTTP/1.1 204 No Content||",
    "HTTP/1.1 101 Switching Protocols|Upgrade: websocket|Connection: upgrade||hello",
    "HTTP/1.1 302 Found|Location: http://b/x|Content-Length: 0||",
    "HTTP/1.1 404 Not Found|Content-Length: 0|Set-Cookie: c=d; domain=b||",
    "HTTP/1.1 500 Oops|Content-Length: 0||",
    "HTTP/1.1 200 OK|X-Accel-Redirect: /files/small.txt||",
    "HTTP/1.1 200 OK|X-Accel-Buffering: no|X-Accel-Charset: koi8-r|X-Accel-Limit-Rate: 0||hello",
    "HTTP/1.1 206 Partial Content|Content-Range: bytes 0-9/25|Content-Length: 10||0123456789",
    "HTTP/1.1 206 Partial Content|Content-Range: bytes 10-19/25|Content-Length: 10||0123456789",
    "Status: 200 OK|Content-Type: text/plain||hello",
    "HTTP/1.1 200 OK|Content-Type: text/html|Content-Length: 40||<!--#echo var=\"uri\" --> aabab <!--#if exp",
    "HTTP/1.1 200 OK|Content-Encoding: gzip||\u{1f}garbage",
    "HTTP/1.1 401 Unauthorized|WWW-Authenticate: x||",
    "HTTP/1.1 200 OK|Content-Length: 5|Content-Length: 6||hello",
    "HTTP/2.0 200 nothing||",
];

/// The answer with this number, below [`COUNT`].
pub(super) fn answer(number: usize) -> Vec<u8> {
    match TEXTS.get(number) {
        Some(text) => super::steps::lines(text),
        None => records(number - TEXTS.len()),
    }
}

fn records(number: usize) -> Vec<u8> {
    const HEAD: &[u8] = b"Content-Type: text/x\r\n\r\na";
    match number {
        0 => [stdout(HEAD, 0), stdout(b"", 0), end_request(0)].concat(),
        1 => [
            fastcgi(7, b"a notice\nanother", 0),
            stdout(b"Status: 404 Not", 3),
            stdout(b" Found\r\n\r\n", 255),
            fastcgi(7, b"the last", 1),
            end_request(0),
        ]
        .concat(),
        // The server is overloaded; a request that was not sent; an unknown type; no end.
        2 => end_request(2),
        3 => [1, 6, 0, 9, 0, 1, 0, 0, b'a'].to_vec(),
        4 => fastcgi(11, b"abcdefgh", 0),
        5 => [
            stdout(b"X-Accel-Redirect: /fine\r\n\r\n", 0),
            stdout(HEAD, 9),
        ]
        .concat(),
        6 => [settings(), headers(END, b"\x88")].concat(),
        7 => [settings(), headers(0, b"\x88"), data(END, b"hello")].concat(),
        8 => {
            let early = headers(0, b"\x08\x03103");
            [settings(), early, headers(END, b"\x89")].concat()
        }
        9 => [
            settings(),
            headers(0, b"\x88\x0f\x10\x10application/grpc"),
            data(0, b"\0\0\0\0\x01a"),
            headers(END, b"\0\x0bgrpc-status\x010"),
        ]
        .concat(),
        10 => [
            settings(),
            headers(0, b"\x88\x0f\x0d\x019"),
            data(END, b"short"),
        ]
        .concat(),
        11 => [
            settings(),
            headers(0, b"\x88"),
            data(0, b"enough"),
            frame(3, 0, 1, &[0; 4]),
        ]
        .concat(),
        12 => [settings(), frame(7, 0, 0, &[0; 8])].concat(),
        13 => [
            settings(),
            frame(1, 0, 1, b"\x88"),
            frame(9, 4, 1, b"\0\x01a\x01b"),
            frame(0, 8 | END, 1, b"\x03hello\0\0\0"),
        ]
        .concat(),
        // No window and no streams, then room.
        14 => [
            frame(4, 0, 0, &[0, 4, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]),
            frame(8, 0, 0, &[0, 0, 1, 0]),
            frame(4, 0, 0, &[0, 4, 0, 0, 1, 0, 0, 3, 0, 0, 0, 9]),
            headers(END, b"\x88"),
        ]
        .concat(),
        // The second request of a connection.
        _ => [frame(1, 4, 3, b"\x88"), frame(0, END, 3, b"again")].concat(),
    }
}

fn stdout(bytes: &[u8], padding: u8) -> Vec<u8> {
    fastcgi(6, bytes, padding)
}

fn end_request(protocol_status: u8) -> Vec<u8> {
    fastcgi(3, &[0, 0, 0, 0, protocol_status, 0, 0, 0], 0)
}

fn fastcgi(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("short").to_be_bytes();
    let header = [1, kind, 0, 1, high, low, padding, 0];
    [&header[..], content, &vec![0; usize::from(padding)]].concat()
}

/// END_STREAM.
const END: u8 = 1;

fn settings() -> Vec<u8> {
    frame(4, 0, 0, b"")
}

/// A whole header block on stream 1.
fn headers(flags: u8, block: &[u8]) -> Vec<u8> {
    frame(1, 4 | flags, 1, block)
}

fn data(flags: u8, bytes: &[u8]) -> Vec<u8> {
    frame(0, flags, 1, bytes)
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("short");
    [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
}
