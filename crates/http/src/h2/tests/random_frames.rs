//! Random sequences of frames, most of them valid, to both sides: the same as the fuzzers' runs on
//! bytes, but with input that gets further. The assertions are those of the fuzz targets.

use super::*;
use crate::fuzz::{fuzz_h2_client, fuzz_h2_server};

const NAMES: &[&str] = &[
    ":method",
    ":path",
    ":scheme",
    ":authority",
    ":status",
    "host",
    "cookie",
    "te",
    "connection",
    "content-length",
    "expect",
    "priority",
    "x-a",
    "x_b",
    "x-c!",
    "accept",
    "bad name",
];

const VALUES: &[&str] = &[
    "GET",
    "POST",
    "CONNECT",
    "/",
    "/a?b",
    "*",
    "https",
    "a.test",
    "a.test:443",
    "200",
    "103",
    "204",
    "trailers",
    "100-continue",
    "u=1, i",
    "0",
    "5",
    "x=1",
    "",
    " x",
    "x\n",
    "a longer value of some field",
];

struct Generator {
    random: Random,
    encoder: Encoder,
    next_stream: u32,
}

impl Generator {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.random.below(from.len())]
    }

    fn stream(&mut self) -> u32 {
        match self.random.below(8) {
            0 => self.random.below(30) as u32,
            1 => 0,
            _ => 1 + 2 * self.random.below(self.next_stream as usize / 2 + 1) as u32,
        }
    }

    fn block(&mut self, is_server: bool) -> Vec<u8> {
        let mut fields: Vec<(&str, &str)> = match (is_server, self.random.below(4)) {
            (true, 0) => POST.to_vec(),
            (true, _) => GET.to_vec(),
            (false, _) => vec![(":status", self.pick(&["200", "103", "204", "404"]))],
        };
        if self.random.below(6) == 0 {
            // Trailers, or no head at all.
            fields.clear();
        }
        for _ in 0..self.random.below(4) {
            let is_any = self.random.below(4) == 0;
            let name = self.pick(if is_any { NAMES } else { &["priority"] });
            let value = self.pick(VALUES);
            fields.push((name, value));
        }
        if self.random.below(12) == 0 && fields.len() > 1 {
            let (one, other) = (
                self.random.below(fields.len()),
                self.random.below(fields.len()),
            );
            fields.swap(one, other);
        }
        let mut out = Vec::new();
        let mut block = self.encoder.block(&mut out);
        for (name, value) in fields {
            block.field(name.as_bytes(), value.as_bytes(), Indexing::Auto);
        }
        out
    }

    fn frame(&mut self, is_server: bool) -> Vec<u8> {
        let stream = self.stream();
        match self.random.below(14) {
            0..5 => {
                let id = if is_server && self.random.below(4) > 0 {
                    self.next_stream += 2;
                    self.next_stream - 2
                } else {
                    stream
                };
                self.headers(id, is_server)
            }
            5..8 => {
                let bytes = vec![b'd'; self.random.below(120)];
                let end = self.random.below(3) == 0;
                if self.random.below(4) == 0 {
                    let padding = self.random.below(5);
                    let mut payload = vec![padding as u8];
                    payload.extend(&bytes);
                    payload.resize(payload.len() + padding, 0);
                    return frame(
                        FrameType::Data,
                        flag::PADDED | u8::from(end),
                        stream,
                        &payload,
                    );
                }
                data_frame(stream, &bytes, end)
            }
            8 => window_update(stream, self.random.below(3000) as u32),
            9 => rst_stream(stream, ErrorCode(self.random.below(15) as u32)),
            10 => {
                let identifier = 1 + self.random.below(9) as u16;
                let value = match self.random.below(3) {
                    0 => self.random.below(3) as u32,
                    1 => self.random.below(70_000) as u32,
                    _ => 16_384,
                };
                settings_frame(&[(identifier, value)])
            }
            11 => frame(FrameType::Ping, self.random.below(2) as u8, 0, b"roundtrp"),
            12 => {
                let mut payload = stream.to_be_bytes().to_vec();
                payload.extend(self.pick(VALUES).as_bytes());
                frame(FrameType::PriorityUpdate, 0, 0, &payload)
            }
            _ => match self.random.below(4) {
                0 => go_away(stream, ErrorCode::NO_ERROR),
                1 => frame(FrameType::Unknown, 0, stream, b"???"),
                _ => frame(FrameType::Priority, 0, stream, &[0, 0, 0, 1, 7]),
            },
        }
    }

    fn headers(&mut self, id: u32, is_server: bool) -> Vec<u8> {
        let block = self.block(is_server);
        let end = u8::from(self.random.below(3) == 0);
        if self.random.below(4) > 0 {
            return frame(FrameType::Headers, flag::END_HEADERS | end, id, &block);
        }
        let (first, rest) = block.split_at(self.random.below(block.len() + 1));
        let mut bytes = frame(FrameType::Headers, end, id, first);
        bytes.extend(frame(FrameType::Continuation, flag::END_HEADERS, id, rest));
        bytes
    }

    fn input(&mut self, is_server: bool) -> Vec<u8> {
        // Tight limits end most sequences early; they are exercised now and then.
        let mut choice = self.random.next() as u8 & !0x0a;
        if self.random.below(8) == 0 {
            choice |= 2;
        }
        let mut input = vec![choice];
        for _ in 0..1 + self.random.below(40) {
            let mut bytes = self.frame(is_server);
            if self.random.below(100) == 0 {
                let at = self.random.below(bytes.len());
                bytes[at] ^= 1 << self.random.below(8);
            }
            input.extend(bytes);
        }
        input
    }
}

fn run(is_server: bool, target: fn(&[u8])) {
    let long = std::env::var_os("SEALANE_TEST_LONG").is_some_and(|value| value == "1");
    for seed in 0..if long { 100_000 } else { 3_000 } {
        let mut generator = Generator {
            random: Random(seed),
            encoder: Encoder::default(),
            next_stream: if is_server { 1 } else { 7 },
        };
        let input = generator.input(is_server);
        let outcome = std::panic::catch_unwind(|| target(&input));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_server_survives_them() {
    run(true, fuzz_h2_server);
}

#[test]
fn a_client_survives_them() {
    run(false, fuzz_h2_client);
}
