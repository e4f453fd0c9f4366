//! A program of steps: several connections at once, and the upstream servers.

use super::answers;
use super::client::FuzzedClient;
use super::origin::OriginAnswer;
use super::site::{FuzzSite, Stage, Through};
use sealane_http::fuzz::stream_of;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Connections that a program may have open.
const CLIENTS: usize = 4;
/// Steps after which nothing new happens.
const MAX_STEPS: usize = 64;
/// The most bytes that a step gives as they are.
const MAX_LITERAL: u8 = 64;

/// Runs whose uploads may lie around before they are removed.
const RUNS_BETWEEN_CLEARING: u32 = 100;

/// Heads of requests; `|` stands for the ends of lines. What follows a head that announces a body
/// is a matter of the program.
const REQUESTS: [&str; 69] = [
    "GET / HTTP/1.1|Host: a||",
    "GET /small.txt HTTP/1.1|Host: a|Range: bytes=2-5,7-,-3||",
    "GET /large.bin HTTP/1.1|Host: a|If-Range: x|Range: bytes=0-||",
    "GET /files/ HTTP/1.1|Host: a||",
    "GET /files/small.txt HTTP/1.1|Host: a|Range: bytes=1-1,3-3,5-||",
    "GET /files/%2e%2e/users HTTP/1.1|Host: a||",
    "GET /packed.txt HTTP/1.1|Host: a||",
    "GET /packed.txt HTTP/1.1|Host: a|Accept-Encoding: gzip||",
    "GET /gz HTTP/1.1|Host: a|Accept-Encoding: gzip;q=0.5||",
    "GET /br HTTP/1.1|Host: a|Accept-Encoding: br, zstd||",
    "GET /film?start=0.2&end=1.5 HTTP/1.1|Host: a||",
    "GET /flv?start=99000 HTTP/1.1|Host: a||",
    "GET /page?a=b HTTP/1.1|Host: a||",
    "GET /page?a=<x> HTTP/1.1|Host: a|Accept-Encoding: gzip||",
    "PUT /dav/a HTTP/1.1|Host: a|Content-Length: 5||",
    "PUT /dav/b/c HTTP/1.1|Host: a|Transfer-Encoding: chunked||",
    "MKCOL /dav/d/ HTTP/1.1|Host: a||",
    "COPY /dav/a HTTP/1.1|Host: a|Destination: /dav/d/a||",
    "MOVE /dav/d/ HTTP/1.1|Host: a|Destination: http://a/dav/e/|Overwrite: F||",
    "DELETE /dav/e/ HTTP/1.1|Host: a|Depth: infinity||",
    "GET /proxy HTTP/1.1|Host: a||",
    "POST /proxy HTTP/1.1|Host: a|Content-Length: 5||",
    "POST /proxy HTTP/1.1|Host: a|Transfer-Encoding: chunked||",
    "POST /proxy HTTP/1.1|Host: a|Transfer-Encoding: chunked|Expect: 100-continue||",
    "POST /unbuffered HTTP/1.1|Host: a|Content-Length: 5||",
    "POST /unbuffered HTTP/1.1|Host: a|Transfer-Encoding: chunked||",
    "GET /tunnel HTTP/1.1|Host: a|Connection: Upgrade|Upgrade: websocket||",
    "GET /retried HTTP/1.1|Host: a||",
    "GET /followed HTTP/1.1|Host: a||",
    "GET /h2 HTTP/1.1|Host: a||",
    "POST /grpc HTTP/1.1|Host: a|TE: trailers|Content-Length: 5||",
    "POST /php HTTP/1.1|Host: a|Content-Length: 5||",
    "POST /uwsgi HTTP/1.1|Host: a|Transfer-Encoding: chunked||",
    "GET /scgi HTTP/1.1|Host: a||",
    "GET /asked HTTP/1.1|Host: a||",
    "POST /asked HTTP/1.1|Host: a|Content-Length: 5||",
    "GET /secret HTTP/1.1|Host: a|Authorization: Basic dXNlcjp3b3Jk||",
    "GET /secret HTTP/1.1|Host: a|Authorization: Basic !||",
    "POST /mirrored HTTP/1.1|Host: a|Content-Length: 5||",
    "GET /sliced HTTP/1.1|Host: a|Range: bytes=5-25||",
    "GET /ranged HTTP/1.1|Host: a|Range: bytes=1-1||",
    "GET /rewritten/small.txt HTTP/1.1|Host: a||",
    "GET /if?a=b HTTP/1.1|Host: a||",
    "GET /if HTTP/1.1|Host: a|X: y||",
    "GET /user HTTP/1.1|Host: a|Cookie: uid=fwAAAWAAAAAAAAAAAwMDAg==; a=b||",
    "GET /link?md5=AAAAAAAAAAAAAAAAAAAAAA&e=99999999999 HTTP/1.1|Host: a||",
    "GET /status HTTP/1.1|Host: a||",
    "HEAD /gif HTTP/1.1|Host: a|If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT||",
    "GET /gunzipped HTTP/1.1|Host: a||",
    "GET /subbed HTTP/1.1|Host: a||",
    "GET /recoded HTTP/1.1|Host: a||",
    "GET /included HTTP/1.1|Host: a||",
    "GET /added HTTP/1.1|Host: a||",
    "GET /everything HTTP/1.1|Host: a||",
    "GET /limited HTTP/1.1|Host: a||",
    "GET /slow-limited HTTP/1.1|Host: a||",
    "GET /fine HTTP/1.0||",
    "GET /fine HTTP/1.0|Connection: keep-alive||",
    "GET /fine|",
    "POST /fine HTTP/1.1|Host: a|Content-Length: 5||",
    "POST /fine HTTP/1.1|Host: a|Transfer-Encoding: chunked||",
    "POST /dav/a HTTP/1.1|Host: a|Content-Length: 70000||",
    "OPTIONS * HTTP/1.1|Host: a||",
    "GET /nothing HTTP/1.1|Host: a|Connection: close||",
    "GET /list/ HTTP/1.1|Host: a||",
    "GET /random/ HTTP/1.1|Host: a||",
    "GET /secret HTTP/1.1|Host: a|Authorization: Basic bWQ1OndvcmQ=||",
    "GET /secret HTTP/1.1|Host: a|Authorization: Basic YXByMTp3b3Jk||",
    "GET /secret HTTP/1.1|Host: a|Authorization: Basic ZGVzOndvcmQ=||",
];

/// Frames of a client behind the preface; streams 1, 3 and so on are written over the byte `S`.
const FRAMES: [&[u8]; 20] = [
    b"\0\0\x06\x01\x05\0\0\0S\x82\x84\x86\x01\x01a",
    b"\0\0\x0c\x01\x05\0\0\0S\x82\x04\x06/proxy\x86\x01\x01a",
    b"\0\0\x0c\x01\x04\0\0\0S\x83\x04\x06/proxy\x86\x01\x01a",
    b"\0\0\x11\x01\x04\0\0\0S\x83\x04\x0b/unbuffered\x86\x01\x01a",
    b"\0\0\x0e\x01\x05\0\0\0S\x82\x04\x08/sliced/\x86\x01\x01a",
    b"\0\0\x09\x01\x05\0\0\0S\x82\x04\x03/br\x86\x01\x01a",
    b"\0\0\x0b\x01\x05\0\0\0S\x82\x04\x05/page\x86\x01\x01a",
    b"\0\0\x0c\x01\x04\0\0\0S\x83\x04\x06/dav/x\x86\x01\x01a",
    b"\0\0\x0b\x01\x04\0\0\0S\x83\x04\x05/grpc\x86\x01\x01a",
    b"\0\0\x05\0\0\0\0\0Shello",
    b"\0\0\x05\0\x01\0\0\0Shello",
    b"\0\0\x04\x03\0\0\0\0S\0\0\0\x08",
    b"\0\0\x04\x08\0\0\0\0S\0\0\x10\0",
    b"\0\0\x04\x08\0\0\0\0\0\0\0\xff\xff",
    b"\0\0\x08\x06\0\0\0\0\0pingpong",
    b"\0\0\0\x04\x01\0\0\0\0",
    b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0",
    b"\0\0\x02\x01\0\0\0\0S\x82\x84",
    b"\0\0\x04\x09\x04\0\0\0S\x86\x01\x01a",
    b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0",
];

static SITE: LazyLock<Mutex<(FuzzSite, u32)>> =
    LazyLock::new(|| Mutex::new((FuzzSite::new("worker"), 0)));

/// A program of steps against a whole worker: connections are opened, pieces sent and answers
/// read, either end is closed, time passes, servers behind answer or die.
///
/// No task panics. No client gets more answers than RFC 9112 finds requests in what it sent, and on
/// HTTP/2 none on a stream without a request. At the end no connection is left or counted, and
/// another client is answered.
pub fn fuzz_worker(data: &[u8]) {
    let mut site = SITE.lock().unwrap_or_else(PoisonError::into_inner);
    let (site, runs) = &mut *site;
    site.run(async |stage| {
        let mut program = Program {
            stage,
            rest: data,
            clients: [const { None }; CLIENTS],
        };
        for _ in 0..MAX_STEPS {
            if !program.step() {
                break;
            }
            stage.turn().await;
        }
        program.end();
    });
    *runs += 1;
    if *runs % RUNS_BETWEEN_CLEARING == 0 {
        site.clear_uploads();
    }
}

struct Program<'a> {
    stage: &'a Stage,
    rest: &'a [u8],
    clients: [Option<FuzzedClient>; CLIENTS],
}

impl<'a> Program<'a> {
    /// The upper half of a byte says what, the lower one with whom.
    fn step(&mut self) -> bool {
        let Some(byte) = self.byte() else {
            return false;
        };
        let slot = usize::from(byte) % CLIENTS;
        match byte >> 4 {
            0 => self.open(slot, byte),
            1..=4 => {
                let request = usize::from(self.byte().unwrap_or(0)) % REQUESTS.len();
                self.send(slot, &lines(REQUESTS[request]));
            }
            5 | 6 => {
                let pieces = self.some();
                self.send(slot, &stream_of(pieces).0);
            }
            7 => {
                let literal = self.some();
                self.send(slot, literal);
            }
            8 | 9 => {
                let frame = self.byte().unwrap_or(0);
                let stream = (frame >> 5) * 2 + 1;
                self.send(slot, &on_stream(usize::from(frame & 31), stream));
            }
            10 => self.with(slot, FuzzedClient::read),
            11 => self.with(slot, FuzzedClient::half_close),
            12 => {
                if let Some(client) = self.clients[slot].take() {
                    client.check();
                }
            }
            13 => self.stage.advance(100 << (u32::from(byte & 15) * 2)),
            14 => {
                let answer = usize::from(self.byte().unwrap_or(0)) % answers::COUNT;
                self.answer(byte, answers::answer(answer));
            }
            _ => {
                let literal = self.some().to_vec();
                self.answer(byte, literal);
            }
        }
        true
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    /// As many bytes as the next one says.
    fn some(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte().unwrap_or(0) % MAX_LITERAL);
        let (some, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        some
    }

    fn open(&mut self, slot: usize, byte: u8) {
        let through = [
            Through::Http1,
            Through::Http1,
            Through::Http2,
            Through::Proxied,
        ];
        let opened = FuzzedClient::open(self.stage, through[usize::from(byte >> 2 & 3)]);
        if let Some(before) = self.clients[slot].replace(opened) {
            before.check();
        }
    }

    fn send(&mut self, slot: usize, bytes: &[u8]) {
        self.with(slot, |client| client.send(bytes));
    }

    fn with(&mut self, slot: usize, act: impl FnOnce(&mut FuzzedClient)) {
        if let Some(client) = &mut self.clients[slot] {
            act(client);
        }
    }

    fn answer(&self, byte: u8, bytes: Vec<u8>) {
        let middle = bytes.len() / 2;
        let pieces = match byte & 2 {
            0 => vec![bytes],
            _ => vec![bytes[..middle].to_vec(), bytes[middle..].to_vec()],
        };
        let closes = byte & 1 != 0;
        self.stage.origin.push(OriginAnswer { pieces, closes });
    }

    fn end(self) {
        for client in self.clients.into_iter().flatten() {
            client.check();
        }
    }
}

/// `|` becomes CR LF.
pub(super) fn lines(text: &str) -> Vec<u8> {
    text.replace('|', "\r\n").into_bytes()
}

fn on_stream(frame: usize, stream: u8) -> Vec<u8> {
    let mut frame = FRAMES[frame % FRAMES.len()].to_vec();
    if frame[8] == b'S' {
        frame[8] = stream;
    }
    frame
}
