//! HTTP/2 over a real socket: what is counted, and what a connection takes.

use super::serving::Serving;
use crate::connection::tests::{serve_on_thread, settle};
use crate::metrics;
use crate::testing::Site;
use crate::worker::Process;
use sealane_http::h2::PREFACE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
/// `GET /` over http on stream 1, from the host `a`.
const HEADERS: [u8; 15] = [0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x84, 0x86, 1, 1, b'a'];

/// Sends bytes behind preface and SETTINGS, and reads to the end.
fn talk(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("not zero");
    let all = [&PREFACE[..], &SETTINGS, bytes].concat();
    stream.write_all(&all).expect("the server reads");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("it is connected");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn site() -> Site {
    Site::with_http("server { listen 127.0.0.1:80 http2; return 200 fine; }")
}

#[test]
fn what_the_codec_counts_is_summed_up() {
    let (address, worker) = serve_on_thread(&site(), |_| {});
    let answer = talk(address, &HEADERS);
    assert!(answer.windows(4).any(|part| part == b"fine"));
    settle(&worker);
    let count = |name: &str| {
        let all = worker.counters.http2.all();
        all.filter(|(known, _)| *known == name)
            .map(|(_, count)| count)
            .next()
    };
    assert_eq!(count("streams_opened"), Some(1));
    assert_eq!(count("ping_floods"), Some(0));
    let answer = talk(address, &PING.repeat(1000));
    // ENHANCE_YOUR_CALM is the last thing that is said.
    assert!(answer.ends_with(&[0, 0, 0, 0, 0, 0, 0, 11]), "{answer:?}");
    talk(address, &[0, 0, 0, 0, 0, 0, 0, 0, 9]); // DATA of a stream that never was
    settle(&worker);
    assert_eq!(count("ping_floods"), Some(1));
    assert_eq!(count("connection_faults"), Some(1));
    assert_eq!(worker.counters.requests.get(), 1);
}

/// A frame of less than 256 bytes.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short frame");
    let header = [0, 0, length, kind, flags, 0, 0, 0, stream];
    [&header, payload].concat()
}

#[test]
fn each_flood_raises_its_metric() {
    let site = site();
    let reset_each = |count: u16| {
        let both = |number: u16| {
            let [high, low] = (2 * number + 1).to_be_bytes();
            let mut bytes = HEADERS.to_vec();
            bytes.extend(frame(3, 0, 0, &[0, 0, 0, 8]));
            // The stream of both frames.
            bytes[7..9].copy_from_slice(&[high, low]);
            bytes[15 + 7..15 + 9].copy_from_slice(&[high, low]);
            bytes
        };
        (0..count).flat_map(both).collect::<Vec<u8>>()
    };
    // An entry of 4000 bytes for the table, and blocks full of references to it.
    let bombs = || {
        let entry = [&[0x40, 1, b'x', 127, 0x81, 0x1e][..], &[b'y'; 3968]].concat();
        let block = [&HEADERS[9..], &entry, &[0xbe; 100]].concat();
        let bomb = |number: u8| {
            let [high, low] = (block.len() as u16).to_be_bytes();
            let header = [0, high, low, 1, 5, 0, 0, 0, 2 * number + 1];
            [&header, &block[..]].concat()
        };
        (0..100).flat_map(bomb).collect::<Vec<u8>>()
    };
    let block_begins = [0, 0, 0, 1, 1, 0, 0, 0, 1];
    for (kind, bytes) in [
        ("rapid_reset", reset_each(2000)),
        (
            "continuation",
            [&block_begins[..], &frame(9, 0, 1, &[]).repeat(100)].concat(),
        ),
        ("header_bomb", bombs()),
        ("settings", SETTINGS.repeat(1000)),
        ("ping", PING.repeat(1000)),
        ("empty_frame", frame(0xbe, 0, 0, &[]).repeat(1000)),
        ("priority", frame(2, 0, 9, &[0, 0, 0, 0, 1]).repeat(3000)),
        ("window_update", frame(8, 0, 0, &[0, 0, 0, 1]).repeat(5000)),
    ] {
        let (address, worker) = serve_on_thread(&site, |_| {});
        let answer = talk(address, &bytes);
        // GOAWAY with ENHANCE_YOUR_CALM.
        let is_told = answer
            .windows(17)
            .any(|part| part[..9] == [0, 0, 8, 7, 0, 0, 0, 0, 0] && part[13..] == [0, 0, 0, 11]);
        assert!(is_told, "{kind}");
        settle(&worker);
        let process = Arc::new(Process::default());
        process.set_workers(vec![worker]);
        let text = metrics::show(&process, |families| families.text());
        let floods = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("sealane_http2_floods_total{kind=\"")?;
            rest.split_once("\"} ")
        });
        for (known, count) in floods {
            let expected = if known == kind { "1" } else { "0" };
            assert_eq!(count, expected, "{known} after a flood of {kind}");
        }
        assert!(text.contains(&format!("{{kind=\"{kind}\"}} 1\n")), "{text}");
    }
}

#[test]
fn a_panic_of_a_stream_ends_its_connection_alone() {
    let site = Site::with_http(
        "server { listen 127.0.0.1:80 http2; location / { return 200 fine; } location /x { return 200 x; } }",
    );
    let (address, worker) = serve_on_thread(&site, |snapshot| {
        // Whoever asks for the last location finds none.
        snapshot.locations.pop();
    });
    let to_x = [
        0, 0, 9, 1, 5, 0, 0, 0, 1, 0x82, 4, 2, b'/', b'x', 0x86, 1, 1, b'a',
    ];
    talk(address, &to_x);
    assert!(
        talk(address, &HEADERS)
            .windows(4)
            .any(|part| part == b"fine")
    );
    settle(&worker);
    assert_eq!(worker.counters.panics.get(), 1);
    assert_eq!(worker.counters.http2.streams_opened.get(), 2);
}

#[test]
fn an_idle_connection_is_small() {
    let bytes = size_of::<Serving>();
    assert!(bytes < 2048, "{bytes}");
}
