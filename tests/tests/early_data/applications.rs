//! What applications and HTTP/2 servers are told of early data (RFC 8470 section 5.1).

use super::client::{Client, request};
use super::{serve_blocks, server_block, site};
use sealane_tests::fastcgi::{FastCgiOrigin, answer};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const NAME: &str = "HTTP_EARLY_DATA";

/// FastCGI, uwsgi, SCGI, gRPC and HTTP/2: each shows what it was told.
#[test]
fn applications_and_http2_servers_are_told_of_early_data() {
    let fastcgi = FastCgiOrigin::start(|asked, socket| {
        let told = asked.parameter(NAME);
        let count = asked.names.iter().filter(|name| *name == NAME).count();
        let status = match (asked.parameter("URI"), told) {
            ("/fastcgi/choosy", "1") => "425 Too Early",
            _ => "200 OK",
        };
        let text = format!("Status: {status}\r\nX-Count: {count}\r\n\r\n<{told}>");
        answer(socket, text.as_bytes())
    });
    let uwsgi = application(|socket| {
        let mut header = [0; 4];
        socket.read_exact(&mut header)?;
        let mut rest = vec![0; usize::from(u16::from_le_bytes([header[1], header[2]]))];
        socket.read_exact(&mut rest)?;
        Ok(told(&rest, |rest| {
            let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
            (&rest[2..2 + length], &rest[2 + length..])
        }))
    });
    let scgi = application(|socket| {
        let mut digits = Vec::new();
        while digits.last() != Some(&b':') {
            let mut byte = [0];
            socket.read_exact(&mut byte)?;
            digits.push(byte[0]);
        }
        let length = std::str::from_utf8(&digits[..digits.len() - 1]).expect("digits");
        let mut rest = vec![0; length.parse().expect("a number")];
        socket.read_exact(&mut rest)?;
        Ok(told(&rest, |rest| {
            let end = rest.iter().position(|&byte| byte == 0).expect("a string");
            (&rest[..end], &rest[end + 1..])
        }))
    });
    let fastcgi = fastcgi.port();
    let params = "fastcgi_param URI $uri; uwsgi_param URI $uri; scgi_param URI $uri;";
    let locations = format!(
        "underscores_in_headers on; {params}
         location /fastcgi {{ fastcgi_pass 127.0.0.1:{fastcgi}; }}
         location /quiet {{ fastcgi_pass 127.0.0.1:{fastcgi}; fastcgi_pass_request_headers off; }}
         location /own {{ fastcgi_pass 127.0.0.1:{fastcgi}; fastcgi_param {NAME} own; }}
         location /uwsgi {{ uwsgi_pass 127.0.0.1:{uwsgi}; }}
         location /scgi {{ scgi_pass 127.0.0.1:{scgi}; }}
         location /http1 {{ proxy_pass http://127.0.0.1:%behind%; proxy_http_version 1.1; }}
         location /http2 {{ proxy_pass http://127.0.0.1:%behind%; proxy_http_version 2; }}
         location /grpc {{ grpc_pass 127.0.0.1:%behind%; }}"
    );
    let behind =
        "server { listen 127.0.0.1:%behind%; http2 on; return 200 \"<$http_early_data>\"; }";
    let (site, client) = (site(), Client::new());
    let server = serve_blocks(&site, &(server_block("tls", &locations) + behind));
    // What the client says, and what is to be heard in early data and after the handshake.
    let marks = [
        ("", "<1>", "<>"),
        ("Early-Data: 1\r\n", "<1>", "<1>"),
        ("Early-Data: 0\r\n", "<1>", "<0>"),
        ("Early-Data: 0\r\nEarly-Data: 1\r\n", "<1>", "<0, 1>"),
    ];
    let families = [
        "fastcgi", "quiet", "uwsgi", "scgi", "http1", "http2", "grpc",
    ];
    for family in families {
        for (headers, early, late) in marks {
            let uri = format!("/{family}");
            let asked = request("GET", &uri, &format!("{headers}Connection: close\r\n"));
            let session = client.session(server.port("tls"));
            let heard = client.converse(server.port("tls"), Some(&session), &asked);
            assert!(heard.accepted, "{family} {heard:?}");
            let is_told = heard.response.contains(early);
            assert!(is_told, "{family} {headers:?} in early data: {heard:?}");
            let heard = client.converse(server.port("tls"), None, &asked);
            let late = match (family, headers) {
                ("quiet", "") => "<>",
                // Dropping it would turn what may be a replay into what is none.
                ("quiet", _) => "<1>",
                _ => late,
            };
            let is_told = heard.response.contains(late);
            assert!(
                is_told,
                "{family} {headers:?} after the handshake: {heard:?}"
            );
        }
    }
    for (uri, headers, expected) in [
        ("/own", "", "<own>"),
        ("/own", "Early-Data: 0\r\n", "<own>"),
        ("/fastcgi", "Early_Data: 0\r\n", "<1>"),
        ("/fastcgi/choosy", "", "<1>"),
    ] {
        let asked = request("GET", uri, &format!("{headers}Connection: close\r\n"));
        let session = client.session(server.port("tls"));
        let heard = client.converse(server.port("tls"), Some(&session), &asked);
        assert!(
            heard.accepted && heard.response.contains(expected),
            "{uri}: {heard:?}"
        );
        assert!(
            heard.response.contains("X-Count: 1\r\n"),
            "{uri}: {heard:?}"
        );
        let refused = heard.response.starts_with("HTTP/1.1 425 ");
        assert_eq!(refused, uri == "/fastcgi/choosy", "{heard:?}");
    }
}

/// The value of the parameter in a request of strings, taken from it one by one.
fn told(mut rest: &[u8], mut take: impl FnMut(&[u8]) -> (&[u8], &[u8])) -> String {
    let mut values = Vec::new();
    while !rest.is_empty() {
        let (name, behind) = take(rest);
        let (value, behind) = take(behind);
        if name == NAME.as_bytes() {
            values.push(String::from_utf8_lossy(value).into_owned());
        }
        rest = behind;
    }
    values.join("+")
}

/// An application on a port of its own, which says what `hear` makes of a request.
fn application(hear: impl Fn(&mut TcpStream) -> std::io::Result<String> + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            if let Ok(heard) = hear(&mut socket) {
                let text = format!("Status: 200 OK\r\n\r\n<{heard}>");
                let _ = socket.write_all(text.as_bytes());
            }
        }
    });
    port
}
