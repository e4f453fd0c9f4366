//! First flights of TLS clients that know the protocol: the input is a program that builds
//! handshake messages, cuts them into records and mixes in everything else that may come.

use sealane_tls::{Connection, HandshakeStatus, Load};
use std::task::{Context, Waker};

use crate::sessions;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// What a server says in a handshake: certificates, tickets and alerts fit into this, whatever it
/// is told.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// Names and values of suites, groups, signatures and versions, known and not.
const SUITES: [u16; 10] = [
    0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xcca9, 0x002f, 0x00ff, 0x5600, 0x0a0a,
];
const GROUPS: [u16; 7] = [29, 23, 24, 25, 0x11ec, 0x6399, 0x1a1a];
const SIGNATURES: [u16; 7] = [0x0403, 0x0804, 0x0401, 0x0503, 0x0807, 0x0201, 0x2a2a];
const VERSIONS: [u16; 7] = [0x0304, 0x0303, 0x0302, 0x0300, 0x0305, 0x7f1c, 0x3a3a];

/// A program, one byte for each decision: a first byte for the server, then steps.
///
/// Nobody here knows a key, so that the handshake never ends well. Whatever comes: no panic; an
/// error stays one, and nothing is sent behind it; what is sent are whole records, a fatal alert
/// the last of them; all input is used or refused.
pub(crate) fn tls_flights(data: &[u8]) {
    let mut program = Program { rest: data };
    let acceptor = match program.byte() & 1 {
        0 => sessions::acceptor(),
        _ => sessions::cached_acceptor(),
    };
    let mut flight = Flight::default();
    let mut server = Server {
        connection: Connection::accept(acceptor),
        output: Vec::new(),
        has_failed: false,
    };
    while !program.rest.is_empty() {
        flight.step(&mut program);
        if program.byte() & 3 == 0 {
            let piece = usize::from(program.byte()) * 5 + 1;
            server.hear(&std::mem::take(&mut flight.records), piece);
        }
    }
    flight.send_messages(usize::MAX);
    server.hear(&flight.records, usize::MAX);
    server.is_final();
}

struct Program<'p> {
    rest: &'p [u8],
}

impl Program<'_> {
    /// The next decision; 0 at the end.
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        byte
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// Up to seven of a table, in any order and as often as the program likes.
    fn list(&mut self, table: &[u16]) -> Vec<u8> {
        let count = usize::from(self.byte() % 8);
        let pick = |byte: u8| table[usize::from(byte) % table.len()].to_be_bytes();
        (0..count).flat_map(|_| pick(self.byte())).collect()
    }
}

/// What the client has to say.
#[derive(Default)]
struct Flight {
    /// Handshake messages that are in no record yet.
    messages: Vec<u8>,
    records: Vec<u8>,
}

impl Flight {
    fn step(&mut self, program: &mut Program<'_>) {
        match program.byte() % 12 {
            0..=2 => {
                let body = client_hello(program);
                self.message(1, &body, 0);
            }
            3 => {
                // EndOfEarlyData, Certificate, ClientKeyExchange, CertificateVerify, Finished,
                // KeyUpdate, or none that there is.
                let kind = [5, 11, 16, 15, 20, 24, 0, 2][usize::from(program.byte() % 8)];
                let count = usize::from(program.byte());
                let body = program.bytes(count.min(60));
                let lie = u32::from(program.byte() / 64) * 1000;
                self.message(kind, &body, lie);
            }
            4 | 5 => self.send_messages(usize::from(program.byte()) + 1),
            6 => self.send_messages(usize::MAX),
            7 => {
                let body = match program.byte() % 4 {
                    0 => vec![2],
                    1 => vec![1, 1],
                    _ => vec![1],
                };
                self.record(CHANGE_CIPHER_SPEC, &body);
            }
            8 => {
                let (level, description) = (program.byte() % 3, program.byte());
                self.record(ALERT, &[level, description]);
            }
            9 => {
                // Early data, or what is to look like it.
                let count = usize::from(program.byte()) * 70;
                self.record(APPLICATION_DATA, &vec![program.byte(); count]);
            }
            10 => {
                let (kind, count) = (program.byte(), usize::from(program.byte() % 50));
                let body = program.bytes(count);
                self.record(kind, &body);
            }
            _ => {
                let count = usize::from(program.byte() % 20);
                let bytes = program.bytes(count);
                self.records.extend_from_slice(&bytes);
            }
        }
    }

    /// Adds a message whose length says `lie` bytes more than there are.
    fn message(&mut self, kind: u8, body: &[u8], lie: u32) {
        let length = u32::try_from(body.len()).expect("short") + lie;
        let [_, length @ ..] = length.to_be_bytes();
        self.messages.push(kind);
        self.messages.extend_from_slice(&length);
        self.messages.extend_from_slice(body);
    }

    fn send_messages(&mut self, record_bytes: usize) {
        let messages = std::mem::take(&mut self.messages);
        for part in messages.chunks(record_bytes.min(16_384)) {
            self.record(HANDSHAKE, part);
        }
    }

    fn record(&mut self, kind: u8, body: &[u8]) {
        self.records.extend_from_slice(&[kind, 3, 3]);
        self.records.extend_from_slice(&sessions::prefixed16(body));
    }
}

fn client_hello(program: &mut Program<'_>) -> Vec<u8> {
    let shape = program.byte();
    let id_bytes = usize::from(program.byte() % 34);
    let suites = match shape & 1 {
        0 => [&program.list(&SUITES)[..], &[0x13, 1, 0xc0, 0x2b]].concat(),
        _ => program.list(&SUITES),
    };
    let mut extensions = Vec::new();
    if shape & 2 == 0 {
        // Enough for a handshake of TLS 1.3.
        for kind in [43, 10, 13, 51] {
            push_extension(&mut extensions, kind, &usual(kind));
        }
    }
    for _ in 0..program.byte() % 10 {
        extension(program, &mut extensions);
    }
    let mut body = vec![3, 3];
    body.extend_from_slice(&[5; 32]);
    body.push(id_bytes as u8);
    body.extend(vec![7; id_bytes]);
    body.extend_from_slice(&sessions::prefixed16(&suites));
    body.extend_from_slice(if shape & 4 == 0 { &[1, 0] } else { &[2, 0, 1] });
    if shape & 8 == 0 {
        body.extend_from_slice(&sessions::prefixed16(&extensions));
    }
    if shape & 16 != 0 {
        let count = usize::from(program.byte() % 5);
        body.extend(program.bytes(count));
    }
    body
}

fn usual(kind: u16) -> Vec<u8> {
    match kind {
        43 => vec![2, 3, 4],
        10 => sessions::prefixed16(&[0, 29]),
        13 => sessions::prefixed16(&[4, 3]),
        _ => sessions::prefixed16(&[&[0, 29][..], &sessions::prefixed16(&[9; 32])].concat()),
    }
}

/// One extension, as it is meant to be or with a body of the program's choice.
fn extension(program: &mut Program<'_>, out: &mut Vec<u8>) {
    let kind = [
        0, 5, 10, 11, 13, 16, 18, 23, 35, 41, 42, 43, 44, 45, 49, 51, 0x2a2a, 0xff01,
    ][usize::from(program.byte() % 18)];
    let prefixed16 = sessions::prefixed16;
    let body = match (program.byte() % 4, kind) {
        (0, _) => {
            let count = usize::from(program.byte() % 40);
            program.bytes(count)
        }
        (_, 0) => {
            let name = [&b"name.test"[..], b"other.test", b"a\0b", b""];
            let name = name[usize::from(program.byte() % 4)];
            prefixed16(&[&[0][..], &prefixed16(name)].concat())
        }
        (_, 10) => prefixed16(&program.list(&GROUPS)),
        (_, 13) => prefixed16(&program.list(&SIGNATURES)),
        (_, 16) => {
            let name = [&b"\x02h2"[..], b"\x08http/1.1", b"\x00", b"\x05ab"];
            prefixed16(name[usize::from(program.byte() % 4)])
        }
        (_, 35) => {
            let count = usize::from(program.byte() % 200);
            vec![7; count]
        }
        (_, 41) => {
            let ticket = vec![program.byte(); usize::from(program.byte())];
            let identity = [&prefixed16(&ticket)[..], &[0; 4]].concat();
            let binder = vec![program.byte(); usize::from(program.byte() % 64)];
            let binder = [&[binder.len() as u8][..], &binder].concat();
            [prefixed16(&identity), prefixed16(&binder)].concat()
        }
        (_, 43) => {
            let versions = program.list(&VERSIONS);
            [&[versions.len() as u8][..], &versions].concat()
        }
        (_, 45) => vec![1, program.byte() % 3],
        (_, 51) => {
            let mut shares = Vec::new();
            for _ in 0..program.byte() % 4 {
                let group = GROUPS[usize::from(program.byte() % 7)];
                let count = [32, 65, 97, 1216, 0][usize::from(program.byte() % 5)];
                shares.extend_from_slice(&group.to_be_bytes());
                shares.extend_from_slice(&prefixed16(&vec![program.byte(); count]));
            }
            prefixed16(&shares)
        }
        _ => Vec::new(),
    };
    push_extension(out, kind, &body);
}

fn push_extension(out: &mut Vec<u8>, kind: u16, body: &[u8]) {
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&sessions::prefixed16(body));
}

struct Server {
    connection: Connection,
    output: Vec<u8>,
    has_failed: bool,
}

impl Server {
    fn hear(&mut self, records: &[u8], piece: usize) {
        for part in records.chunks(piece) {
            if self.has_failed {
                return self.is_final();
            }
            self.advance(part);
            self.check_output();
        }
    }

    fn advance(&mut self, mut input: &[u8]) {
        loop {
            let status = self
                .connection
                .handshake(&mut input, &mut self.output, Load::default());
            match status {
                Ok(HandshakeStatus::Pending) => {
                    let mut cx = Context::from_waker(Waker::noop());
                    let is_ready = self.connection.poll_pending(&mut cx).is_ready();
                    assert!(is_ready, "the store and the key answer at once");
                }
                Ok(HandshakeStatus::WantRead) => {
                    assert!(input.is_empty(), "more is wanted with {} left", input.len());
                    assert!(!self.connection.is_established());
                    return;
                }
                Ok(_) => panic!("a handshake without keys is done"),
                Err(_) => {
                    self.has_failed = true;
                    return;
                }
            }
        }
    }

    /// Whole records, and nothing behind a fatal alert.
    fn check_output(&self) {
        assert!(self.output.len() < MAX_OUTPUT_BYTES);
        let mut rest = &self.output[..];
        while !rest.is_empty() {
            assert!((CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&rest[0]));
            let length = usize::from(u16::from_be_bytes([rest[3], rest[4]]));
            let (record, behind) = rest.split_at(5 + length);
            let is_fatal = record[0] == ALERT && record[5..] != [1, 0];
            assert!(!is_fatal || (behind.is_empty() && self.has_failed));
            rest = behind;
        }
    }

    /// An error is the last word.
    fn is_final(&mut self) {
        if !self.has_failed {
            return;
        }
        let before = self.output.len();
        let mut hello = &[22, 3, 1, 0, 5, 1, 0, 0, 1, 0][..];
        let again = self
            .connection
            .handshake(&mut hello, &mut self.output, Load::default());
        assert!(again.is_err(), "an error is final");
        assert!(!self.connection.is_established() && !self.connection.is_early_data());
        let mut plain = [0; 100];
        let read =
            self.connection
                .read(&mut &[23, 3, 3, 0, 1, 0][..], &mut self.output, &mut plain);
        assert!(read.is_err());
        assert!(self.connection.write(b"late", 0, &mut self.output).is_err());
        self.connection.shutdown(&mut self.output);
        assert_eq!(self.output.len(), before, "nothing is sent after an error");
    }
}
