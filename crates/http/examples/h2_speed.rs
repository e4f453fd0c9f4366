//! Prints the cost of the HTTP/2 codec per request: `cargo run --release -p sealane-http --example
//! h2_speed`.
//!
//! Ten requests per turn, as a browser's connection sends them after its first ones, answered with
//! 1 KiB each. The time covers everything between decrypted input and the bytes to encrypt,
//! including copying payloads. Prints the best of several rounds, so that a busy machine has little
//! effect. With a number as argument it runs that many turns and prints nothing, for `valgrind
//! --tool=callgrind`.

mod browser;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use browser::BROWSER;
use sealane_http::h1::{ResponseHead, Version};
use sealane_http::h2::hpack::{Encoder, Indexing};
use sealane_http::h2::{Connection, Event, PREFACE, Settings};
use sealane_http::headers::{FieldValue, HeaderList, KnownHeader};
use sealane_http::{StatusCode, date};

const STREAMS: u32 = 10;
const ROUNDS: usize = 20;
const PER_ROUND: u32 = 5_000;

const H2LOAD: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "127.0.0.1:8443"),
    (":path", "/1k.bin"),
    ("user-agent", "h2load nghttp2/1.52.0"),
];

/// A connection and its client's encoder.
struct Bench {
    connection: Connection,
    encoder: Encoder,
    fields: &'static [(&'static str, &'static str)],
    next_id: u32,
    input: Vec<u8>,
    out: Vec<u8>,
    body: [u8; 1024],
    headers: HeaderList,
    date: [u8; 29],
    turns: u64,
}

impl Bench {
    fn new(fields: &'static [(&'static str, &'static str)]) -> Bench {
        let mut out = Vec::new();
        let settings = Arc::new(Settings::default());
        let mut connection = Connection::server(settings, Duration::ZERO, &mut out);
        let mut hello = PREFACE.to_vec();
        push_frame(&mut hello, 4, 0, 0, b"");
        push_frame(&mut hello, 4, 1, 0, b"");
        push_frame(&mut hello, 8, 0, 0, &0x7000_0000u32.to_be_bytes());
        let mut rest = &hello[..];
        while let received = connection
            .receive(rest, Duration::ZERO, &mut out)
            .expect("a greeting")
            && received.event.is_some()
        {
            rest = &rest[received.consumed..];
        }
        let mut headers = HeaderList::new();
        for (name, value) in [
            (KnownHeader::Etag, &b"\"65f1a2b3-400\""[..]),
            (KnownHeader::AcceptRanges, b"bytes"),
        ] {
            headers.push_known(name, value).expect("a valid header");
        }
        Bench {
            connection,
            encoder: Encoder::default(),
            fields,
            next_id: 1,
            input: Vec::new(),
            out,
            body: [b'x'; 1024],
            headers,
            date: date::imf(784_111_777),
            turns: 0,
        }
    }

    /// What the client sends for one turn.
    fn prepare(&mut self) {
        self.input.clear();
        for _ in 0..STREAMS {
            let mut block = Vec::new();
            let mut encoder = self.encoder.block(&mut block);
            for (name, value) in self.fields {
                encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Auto);
            }
            push_frame(&mut self.input, 1, 0x5, self.next_id, &block);
            self.next_id += 2;
        }
        if self.turns.is_multiple_of(1000) {
            push_frame(
                &mut self.input,
                8,
                0,
                0,
                &(STREAMS * 1_024_000).to_be_bytes(),
            );
        }
        self.turns += 1;
    }

    /// The turn of the server.
    fn turn(&mut self) {
        self.out.clear();
        self.connection.flushed();
        let mut at = 0;
        loop {
            let now = Duration::from_micros(self.turns);
            let received = self
                .connection
                .receive(black_box(&self.input[at..]), now, &mut self.out)
                .expect("valid frames");
            at += received.consumed;
            match received.event {
                Some(Event::Request {
                    stream, request, ..
                }) => {
                    black_box(&request);
                    let head = ResponseHead {
                        server: Some(FieldValue::from_static("sealane")),
                        date: FieldValue::new(&self.date).ok(),
                        content_type: Some(FieldValue::from_static("application/octet-stream")),
                        content_length: Some(1024),
                        last_modified: Some(FieldValue::from_static(
                            "Wed, 13 Mar 2024 12:00:00 GMT",
                        )),
                        ..ResponseHead::new(Version::Http2, StatusCode::OK, &self.headers)
                    };
                    self.connection
                        .send_response(stream, &head, false, &mut self.out)
                        .expect("a new stream");
                    self.connection.offer(stream);
                }
                Some(event) => {
                    black_box(&event);
                }
                None => break,
            }
        }
        while let Some(grant) = self.connection.next_data() {
            let bytes = grant.max_bytes.min(1024);
            self.connection
                .data(grant.stream, bytes, true, &mut self.out)
                .expect("within the grant");
            self.out.extend_from_slice(&self.body[..bytes as usize]);
        }
        assert!(self.out.len() > 10 * 1024, "every request was answered");
        assert_eq!(self.connection.open_streams(), 0);
    }
}

fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

fn main() {
    if let Some(count) = std::env::args().nth(1) {
        let count: u32 = count.parse().expect("the argument is a number of turns");
        let mut bench = Bench::new(H2LOAD);
        for _ in 0..count {
            bench.prepare();
            bench.turn();
        }
        return;
    }
    for (what, fields) in [("h2load", H2LOAD), ("browser", BROWSER)] {
        let mut bench = Bench::new(fields);
        let mut round = || {
            let mut spent = Duration::ZERO;
            for _ in 0..PER_ROUND / STREAMS {
                bench.prepare();
                let start = Instant::now();
                bench.turn();
                spent += start.elapsed();
            }
            spent / PER_ROUND
        };
        let best = (0..ROUNDS).map(|_| round()).min().expect("a round");
        bench.connection.trim();
        let idle_bytes = size_of::<Connection>() + bench.connection.heap_bytes();
        println!(
            "{what:10} {:5} ns per request, {idle_bytes} bytes when idle",
            best.as_nanos()
        );
    }
}
