//! Prints the cost of header compression per block:
//! `cargo run --release -p sealane-http --example hpack`.
//!
//! Prints the best of several rounds, so that a busy machine has little effect. With `encode` or
//! `decode` and a number it does only that, and prints nothing, for `valgrind --tool=callgrind`.

mod browser;

use std::hint::black_box;
use std::time::Instant;

use browser::BROWSER;
use sealane_http::h2::hpack::{
    Decoder, Encoder, Field, FieldLimits, FieldSink, Indexing, Note, Origin,
};
use sealane_http::headers::KnownHeader;

const ROUNDS: usize = 20;
const PER_ROUND: u32 = 50_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, count] = &arguments[..] {
        let count: u32 = count
            .parse()
            .expect("the second argument is a number of blocks");
        let mut run: Box<dyn FnMut()> = match &what[..] {
            "encode" => Box::new(encode_file()),
            "decode" => Box::new(decode_browser()),
            _ => panic!("the first argument is encode or decode"),
        };
        (0..count).for_each(|_| run());
        return;
    }
    report("encode, a file, again", encode_file());
    report("encode, other files", encode_other_files());
    report("encode, no table", encode_without_table());
    report("decode, browser, other paths", decode_browser());
    report("decode, browser, first request", decode_first());
}

/// `:status` and eight headers.
fn encode_response(encoder: &mut Encoder, out: &mut Vec<u8>, etag: &[u8], length: &[u8]) {
    out.clear();
    let mut block = encoder.block(out);
    block.status(200);
    for (name, value) in [
        (KnownHeader::Server, &b"sealane"[..]),
        (KnownHeader::Date, b"Mon, 21 Oct 2013 20:13:21 GMT"),
        (KnownHeader::ContentType, b"text/html; charset=utf-8"),
        (KnownHeader::ContentLength, length),
        (KnownHeader::LastModified, b"Wed, 13 Mar 2024 12:00:00 GMT"),
        (KnownHeader::Etag, etag),
        (KnownHeader::CacheControl, b"max-age=3600"),
        (KnownHeader::AcceptRanges, b"bytes"),
    ] {
        block.known(name, black_box(value), Indexing::Auto);
    }
}

fn encode_file() -> impl FnMut() {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    move || {
        encode_response(&mut encoder, &mut out, b"\"65f1a2b3-1a2b\"", b"1024");
        black_box(&out);
    }
}

fn encode_other_files() -> impl FnMut() {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    let mut number = 10_000_000u32;
    move || {
        number += 1;
        let mut digits = [0; 8];
        let mut rest = number;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        encode_response(&mut encoder, &mut out, &digits, &digits[..5]);
        black_box(&out);
    }
}

fn encode_without_table() -> impl FnMut() {
    let (mut encoder, mut out) = (Encoder::new(0), Vec::new());
    move || {
        encode_response(&mut encoder, &mut out, b"\"65f1a2b3-1a2b\"", b"1024");
        black_box(&out);
    }
}

/// Looks at a field as a server does: at what it has not noted before.
struct Looker {
    lookups: u32,
}

impl FieldSink for Looker {
    fn field(&mut self, head: &mut Vec<u8>, field: &Field) -> Note {
        match field.origin {
            Origin::Dynamic(note) if note != 0 => note,
            Origin::Static(index) | Origin::StaticName(index) => Note::from(index) + 1,
            Origin::DynamicName(note) => note,
            _ => {
                self.lookups += 1;
                let known = KnownHeader::from_name(field.name(head));
                known.map_or(1, |known| known as Note + 2)
            }
        }
    }
}

fn browser_block(encoder: &mut Encoder, path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = encoder.block(&mut out);
    for &(name, value) in BROWSER {
        // Browsers index all but the path.
        match name {
            ":path" => block.field(name.as_bytes(), path.as_bytes(), Indexing::Auto),
            _ => block.field(name.as_bytes(), value.as_bytes(), Indexing::AtOnce),
        }
    }
    out
}

fn decode_block(decoder: &mut Decoder, block: &[u8], head: &mut Vec<u8>) {
    head.clear();
    let mut sink = Looker { lookups: 0 };
    let limits = FieldLimits::default();
    let decoded = decoder.decode(black_box(block), &limits, head, &mut sink);
    black_box(decoded).expect("a valid block");
    black_box(sink.lookups);
}

fn decode_browser() -> impl FnMut() {
    let mut encoder = Encoder::default();
    let (mut decoder, mut head) = (Decoder::new(), Vec::new());
    let first = browser_block(&mut encoder, "/");
    decode_block(&mut decoder, &first, &mut head);
    let block = browser_block(&mut encoder, BROWSER[3].1);
    assert_eq!(block[3] & 0xf0, 0, "the path is a literal without indexing");
    move || decode_block(&mut decoder, &block, &mut head)
}

/// The allocation of the table included.
fn decode_first() -> impl FnMut() {
    let block = browser_block(&mut Encoder::default(), BROWSER[3].1);
    let mut head = Vec::new();
    move || decode_block(&mut Decoder::new(), &block, &mut head)
}

fn report(what: &str, mut run: impl FnMut()) {
    let round = |_| {
        let start = Instant::now();
        (0..PER_ROUND).for_each(|_| run());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(PER_ROUND)
    };
    let best = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
    println!("{what:32} {best:8.1} ns");
}
