//! WebSockets on streams of HTTP/2 (RFC 8441), for origins that know them over HTTP/1.1.

use super::*;
use sealane_tests::http2::{Client, Frame, flag, kind, push_field};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::{Application, Certificate, CertificateKey, browse_until_loaded};

const ENABLE_CONNECT_PROTOCOL: u16 = 8;

const PASS_ON: &str = "proxy_set_header Upgrade $http_upgrade;
                       proxy_set_header Connection $connection_upgrade;";
const MAP: &str = "map $http_upgrade $connection_upgrade { default upgrade; '' close; }";

/// The server's first SETTINGS.
fn settings(client: &mut Client) -> Vec<(u16, u32)> {
    let is_settings = |frame: &Frame| frame.kind == kind::SETTINGS && frame.flags & flag::ACK == 0;
    loop {
        let frame = client.next_frame().expect("the server begins with them");
        if is_settings(&frame) {
            let entries = frame.payload.as_chunks::<6>().0.iter();
            return entries
                .map(|&[a, b, c, d, e, f]| {
                    (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))
                })
                .collect();
        }
    }
}

fn ask(client: &mut Client, path: &str, protocol: &str) -> u32 {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "CONNECT"),
        (":protocol", protocol),
        (":scheme", "https"),
        (":path", path),
        (":authority", "localhost"),
        ("sec-websocket-version", "13"),
        ("origin", "https://localhost"),
    ] {
        push_field(&mut block, name, value);
    }
    let stream = client.next_stream();
    client.frame(kind::HEADERS, flag::END_HEADERS, stream, &block);
    stream
}

/// The fields of the next head of a stream.
fn head(client: &mut Client, stream: u32) -> Vec<(String, String)> {
    loop {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.kind == kind::HEADERS {
            let fields = client.decode(&frame.payload);
            if frame.stream == stream {
                return fields;
            }
        }
    }
}

/// A text frame of RFC 6455, masked with zeros.
fn message(text: &str) -> Vec<u8> {
    let length = 0x80 | u8::try_from(text.len()).expect("a short text");
    [&[0x81, length, 0, 0, 0, 0], text.as_bytes()].concat()
}

#[test]
fn a_real_web_socket_server_behind_a_stream() {
    let site = Site::new();
    let _application = Application::web_socket(&site, "127.0.0.1:%websocket%");
    let server = site.serve(&format!(
        "{MAP} log_format x '$request|$status|$upstream_status';
         access_log logs/access.log x;
         server {{ listen 127.0.0.1:%plain%; http2 on; client_body_timeout 1s;
           location / {{ proxy_pass http://127.0.0.1:%websocket%; {PASS_ON} }} }}"
    ));
    let mut client = Client::open(server.port("plain"), &[]);
    assert!(settings(&mut client).contains(&(ENABLE_CONNECT_PROTOCOL, 1)));
    let stream = ask(&mut client, "/chat?room=1", "websocket");
    let fields = head(&mut client, stream);
    assert_eq!(
        fields[0],
        (":status".to_owned(), "200".to_owned()),
        "{fields:?}"
    );
    for gone in [
        "upgrade",
        "connection",
        "sec-websocket-accept",
        "transfer-encoding",
    ] {
        assert!(!fields.iter().any(|(name, _)| name == gone), "{fields:?}");
    }
    thread::sleep(Duration::from_millis(1500));
    client.frame(kind::DATA, 0, stream, &message("hello"));
    let mut got = Vec::new();
    while got.len() < 7 {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.kind == kind::DATA && frame.stream == stream {
            got.extend_from_slice(&frame.payload);
        }
    }
    assert_eq!(got, b"\x81\x05hello");
    // Close, which the server answers before it ends the stream.
    client.frame(
        kind::DATA,
        flag::END_STREAM,
        stream,
        &[0x88, 0x80, 0, 0, 0, 0],
    );
    loop {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.stream == stream && frame.ends_stream() {
            break;
        }
    }
    let log = sealane_tests::wait_for("the line", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        (!log.is_empty()).then_some(log)
    });
    assert_eq!(log.trim(), "GET /chat?room=1 HTTP/2.0|200|101");
}

#[test]
fn it_is_announced_only_where_it_works() {
    let site = Site::new();
    let server = site.serve(&format!(
        "{MAP} server {{ listen 127.0.0.1:%with%; http2 on; location / {{ }}
           location /ws {{ proxy_pass http://127.0.0.1:1; {PASS_ON} }} }}
         server {{ listen 127.0.0.1:%plain%; http2 on; location / {{ proxy_pass http://127.0.0.1:1; }} }}
         server {{ listen 127.0.0.1:%old%; http2 on; proxy_http_version 1.0;
           location / {{ proxy_pass http://127.0.0.1:1; {PASS_ON} }} }}
         server {{ listen 127.0.0.1:%off%; http2 on; http2_extended_connect off;
           location / {{ proxy_pass http://127.0.0.1:1; {PASS_ON} }} }}"
    ));
    for (port, announced) in [
        ("with", true),
        ("plain", false),
        ("old", false),
        ("off", false),
    ] {
        let mut client = Client::open(server.port(port), &[]);
        let settings = settings(&mut client);
        let found = settings.contains(&(ENABLE_CONNECT_PROTOCOL, 1));
        assert_eq!(found, announced, "{port}: {settings:?}");
        if !announced {
            let stream = ask(&mut client, "/", "websocket");
            let answer = client.response(stream);
            assert_eq!((answer.status, answer.reset), (400, Some(1)), "{port}");
        }
    }
}

#[test]
fn only_an_open_web_socket_is_a_success() {
    let site = Site::new();
    site.write("html/index.html", "the index");
    let origin = Origin::answering(|asked| {
        let target = asked.target();
        let answer = match target.as_str() {
            "/page" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
            "/teapot" => "HTTP/1.1 418 Teapot\r\nContent-Length: 2\r\n\r\nno",
            "/refused" => "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
            "/wrong" => {
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n"
            }
            _ => {
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            }
        };
        Answer::Send(answer.as_bytes().to_vec())
    });
    let server = site.serve(&format!(
        "{MAP} server {{ listen 127.0.0.1:%plain%; http2 on; location /text {{ return 200 text; }}
           location /files/ {{ alias html/; }}
           location = /checked {{ auth_request /auth; proxy_pass http://127.0.0.1:{port}/teapot; {PASS_ON} }}
           location = /auth {{ proxy_pass http://127.0.0.1:{port}/page; }}
           location / {{ proxy_pass http://127.0.0.1:{port}; {PASS_ON} }} }}",
        port = origin.port()
    ));
    for (path, protocol, status) in [
        ("/page", "websocket", 502),
        ("/wrong", "websocket", 502),
        ("/none", "websocket", 502),
        ("/refused", "websocket", 403),
        ("/text", "websocket", 501),
        ("/files/index.html", "websocket", 501),
        ("/files/none", "websocket", 404),
        ("/page", "connect-udp", 501),
        ("/checked", "websocket", 418),
    ] {
        let mut client = Client::open(server.port("plain"), &[]);
        let stream = ask(&mut client, path, protocol);
        assert_eq!(client.response(stream).status, status, "{path} {protocol}");
    }
    server.wait_for_log("upstream sent status 200 instead of 101 to a WebSocket handshake");
    server.wait_for_log("upstream sent invalid \"Sec-WebSocket-Accept\"");
    // The origin has been asked as over HTTP/1.1, each time with another key.
    let asked = origin.take_asked();
    let keys: Vec<String> = asked
        .iter()
        .filter(|asked| asked.headers("upgrade") == ["websocket"])
        .flat_map(|asked| asked.headers("sec-websocket-key"))
        .collect();
    assert_eq!(keys.len(), 5, "{keys:?}");
    assert!(keys.iter().all(|key| key.len() == 24), "{keys:?}");
    assert_ne!(keys[0], keys[1]);
    assert_eq!(asked[0].headers("upgrade"), ["websocket"]);
    assert_eq!(asked[0].headers("connection"), ["upgrade"]);
}

#[test]
fn chromium_opens_a_web_socket_on_its_http2_connection() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    site.write(
        "html/index.html",
        // It is loaded once the picture is there.
        "<!DOCTYPE html><title>page</title><p id=said>nothing</p><img src=/wait><script>
         const said = document.getElementById('said');
         const socket = new WebSocket('wss://' + location.host + '/socket');
         socket.onopen = () => socket.send('hello');
         socket.onmessage = (message) => { said.textContent = 'echo ' + message.data; socket.close(); };
         socket.onerror = () => { said.textContent = 'error'; };
         </script>",
    );
    let _application = Application::web_socket(&site, "127.0.0.1:%websocket%");
    let log = site.path("logs/access.log");
    // Answers once the socket has been closed, which the page does after its message.
    let waiting = Origin::answering(move |_| {
        sealane_tests::wait_for("the socket to end", || {
            let log = std::fs::read_to_string(&log).ok()?;
            log.contains("/socket").then_some(())
        });
        Answer::Send(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())
    });
    let server = site.serve(&format!(
        "{MAP} log_format x '$request $status'; access_log logs/access.log x;
         server {{ listen 127.0.0.1:%tls% ssl; http2 on;
           ssl_certificate certificates/localhost.pem; ssl_certificate_key certificates/localhost.key;
           location = /socket {{ proxy_pass http://127.0.0.1:%websocket%; {PASS_ON} }}
           location = /wait {{ proxy_pass http://127.0.0.1:{}; proxy_read_timeout 120s; }}
           location / {{ root html; }} }}",
        waiting.port()
    ));
    let url = format!("https://localhost:{}/", server.port("tls"));
    let page = browse_until_loaded(&site, &url);
    assert!(page.contains("echo hello"), "{page}");
    let log = sealane_tests::wait_for("the line", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        log.contains("/socket").then_some(log)
    });
    assert!(log.contains("GET /socket HTTP/2.0 200"), "{log}");
}
