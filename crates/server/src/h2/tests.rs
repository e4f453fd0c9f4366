//! HTTP/2 over a real socket: what is counted, and what a connection takes.

use super::serving::Serving;
use crate::connection::tests::{serve_on_thread, settle};
use crate::testing::Site;
use sealane_http::h2::PREFACE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
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
    for level in [
        &worker.counters.reading,
        &worker.counters.writing,
        &worker.counters.waiting,
    ] {
        assert_eq!(level.get(), 0);
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
    assert_eq!(worker.counters.writing.get(), 0);
}

#[test]
fn an_idle_connection_is_small() {
    let bytes = size_of::<Serving>();
    assert!(bytes < 2048, "{bytes}");
}
