//! Streams, faults and floods of HTTP/2.

use super::*;
use sealane_tests::http2::{code, flag, frame, head, kind};
use sealane_tests::origin::{Answer, Origin};

/// What [`streams_and_faults_are_counted_one_by_one`] does.
pub(super) const STREAMS: &[Move] = &[
    ("sealane_http2_streams_opened_total", By(10)),
    ("sealane_http2_streams_refused_total", By(1)),
    ("sealane_http2_resets_received_total", By(1)),
    // The one that was refused among them.
    ("sealane_http2_stream_faults_total", By(3)),
    ("sealane_http2_malformed_heads_total", By(1)),
    ("sealane_http2_heads_too_large_total", By(1)),
    ("sealane_http2_connection_faults_total", By(1)),
    ("sealane_http2_floods_total", By(0)),
];

/// One flood of each kind that a client can bring about.
pub(super) const FLOODS: &[Move] = &[
    ("sealane_http2_floods_total", By(8)),
    ("sealane_http2_floods_total{kind=\"rapid_reset\"}", By(1)),
    ("sealane_http2_floods_total{kind=\"continuation\"}", By(1)),
    ("sealane_http2_floods_total{kind=\"header_bomb\"}", By(1)),
    ("sealane_http2_floods_total{kind=\"settings\"}", By(1)),
    ("sealane_http2_floods_total{kind=\"ping\"}", By(1)),
    ("sealane_http2_floods_total{kind=\"empty_frame\"}", By(1)),
    ("sealane_http2_floods_total{kind=\"priority\"}", By(1)),
    ("sealane_http2_floods_total{kind=\"window_update\"}", By(1)),
    ("sealane_http2_connection_faults_total", By(0)),
];

const WHOLE: u8 = flag::END_HEADERS | flag::END_STREAM;

fn serve<'a>(site: &'a Site, origin: &Origin) -> Server<'a> {
    site.write("html/a.txt", [b'a'; 1024]);
    let origin = origin.port();
    site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; http2 on; root html; http2_max_concurrent_streams 4;
             location /silent/ {{ proxy_pass http://127.0.0.1:{origin}; proxy_request_buffering off; }} }}
         server {{ listen 127.0.0.1:%metrics%; location = /metrics {{ metrics; }} }}"
    ))
}

#[test]
fn streams_and_faults_are_counted_one_by_one() {
    let site = Site::new();
    let origin = Origin::answering(|_| Answer::Silence);
    let server = serve(&site, &origin);
    let watch = Watch::start(&server);
    let mut client = Client::open(server.port("plain"), &[]);
    assert_eq!(client.fetch("/a.txt").status, 200);
    let cookie = "c".repeat(10_000);
    let large = client.request("GET", "/a.txt", &[("cookie", &cookie)], true);
    assert_eq!(client.response(large).status, 400);
    let malformed = client.request("GET", "/a.txt", &[("Upper", "case")], true);
    assert_eq!(client.response(malformed).reset, Some(code::PROTOCOL_ERROR));
    let longer = client.request("POST", "/silent/", &[("content-length", "1")], false);
    client.frame(kind::DATA, 0, longer, b"more");
    assert_eq!(client.response(longer).reset, Some(code::PROTOCOL_ERROR));
    let silent: Vec<u32> = (0..4).map(|_| client.get("/silent/")).collect();
    let refused = client.get("/a.txt");
    assert_eq!(client.response(refused).reset, Some(code::REFUSED_STREAM));
    client.frame(kind::RST_STREAM, 0, silent[0], &code::CANCEL.to_be_bytes());
    // An index of the header table that no table has.
    let stream = client.next_stream();
    client.frame(kind::HEADERS, WHOLE, stream, &[0xff; 6]);
    assert_eq!(client.end(), Some(code::COMPRESSION_ERROR));
    watch.saw(STREAMS);
}

/// Sends the same bytes until the server has had enough of them.
#[track_caller]
fn insist(port: u16, kind: &str, begin: impl FnOnce(&mut Client), bytes: &[u8]) {
    let mut client = Client::open(port, &[]);
    begin(&mut client);
    let many = bytes.repeat(50);
    for _ in 0..2000 {
        if !client.send(&many) {
            break;
        }
    }
    assert_eq!(client.end(), Some(code::ENHANCE_YOUR_CALM), "{kind}");
}

#[test]
fn each_kind_of_flood_is_counted_and_told() {
    let site = Site::new();
    let origin = Origin::answering(|_| Answer::Silence);
    let server = serve(&site, &origin);
    let port = server.port("plain");
    let watch = Watch::start(&server);
    for (name, bytes) in [
        ("settings", frame(kind::SETTINGS, 0, 0, &[])),
        ("ping", frame(kind::PING, 0, 0, &[7; 8])),
        ("empty_frame", frame(kind::DATA, 0, 1, &[])),
        ("priority", frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 9])),
        (
            "window_update",
            frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        ),
    ] {
        let open = |client: &mut Client| {
            client.request("POST", "/silent/", &[], false);
        };
        insist(port, name, open, &bytes);
    }
    let endless = |client: &mut Client| {
        let stream = client.next_stream();
        client.frame(
            kind::HEADERS,
            flag::END_STREAM,
            stream,
            &head("GET", "/a.txt", &[]),
        );
    };
    insist(
        port,
        "continuation",
        endless,
        &frame(kind::CONTINUATION, 0, 1, &[0x82]),
    );

    let mut client = Client::open(port, &[]);
    for _ in 0..1000 {
        let stream = client.get("/silent/");
        if !client.frame(kind::RST_STREAM, 0, stream, &code::CANCEL.to_be_bytes()) {
            break;
        }
    }
    assert_eq!(client.end(), Some(code::ENHANCE_YOUR_CALM), "rapid_reset");

    // An entry of 4000 bytes in the table, and a block of one-byte references to it.
    let mut bomb = head("GET", "/a.txt", &[]);
    bomb.extend([0x40, 1, b'x', 127, 0x81, 0x1e]); // 127 + 1 + 30 * 128 = 3968
    bomb.extend(vec![b'y'; 3968]);
    bomb.extend(vec![0xbe; 12_000]);
    let mut client = Client::open(port, &[]);
    for _ in 0..200 {
        let stream = client.next_stream();
        if !client.send(&frame(kind::HEADERS, WHOLE, stream, &bomb)) {
            break;
        }
    }
    assert_eq!(client.end(), Some(code::ENHANCE_YOUR_CALM), "header_bomb");

    watch.saw(FLOODS);
    wait_for("a line for each of them", || {
        let log = server.error_log();
        (log.matches("http2 flood detected").count() == 8).then_some(())
    });
}
