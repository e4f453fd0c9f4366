//! The records that a server sent, each opened under the next sequence number
//! of its key: RFC 8446 section 5, RFC 5246 section 6.

use super::keys::{KeyLog, Keys, Suite, next_secret};
use std::collections::HashSet;

/// ContentType of ChangeCipherSpec.
const CHANGE_CIPHER_SPEC: u8 = 20;
/// ContentType of alerts.
pub const ALERT: u8 = 21;
/// ContentType of handshake messages.
pub const HANDSHAKE: u8 = 22;
/// ContentType of application data.
pub const APPLICATION_DATA: u8 = 23;

/// HandshakeType of ServerHello.
const SERVER_HELLO: u8 = 2;
/// HandshakeType of Finished.
const FINISHED: u8 = 20;
/// HandshakeType of KeyUpdate.
const KEY_UPDATE: u8 = 24;

/// One record that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its type; in TLS 1.3 the one inside.
    pub kind: u8,
    /// What it carried.
    pub plaintext: Vec<u8>,
    /// How often the application keys had been updated: 0 for the first ones.
    pub generation: u32,
    /// Its number under its key.
    pub sequence: u64,
}

/// What a server sent on one connection.
#[derive(Clone, Debug, Default)]
pub struct ServerStream {
    /// The suite's name, as OpenSSL writes it.
    pub suite: &'static str,
    /// Whether it is TLS 1.3.
    pub is_tls13: bool,
    /// The records under the application's keys, in order; in TLS 1.2 from Finished on.
    pub records: Vec<Record>,
    /// Bytes of a last record that did not arrive whole.
    pub incomplete_bytes: usize,
}

impl ServerStream {
    /// Opens everything that the server sent.
    ///
    /// # Errors
    ///
    /// When a record does not open under the next number of its key, when a nonce is used twice,
    /// or when something on the wire is no record.
    pub fn open(
        to_server: &[u8],
        to_client: &[u8],
        key_log: KeyLog<'_>,
    ) -> Result<ServerStream, String> {
        let client_hello = first_message(to_server)?;
        let client_random = client_hello.get(6..38).ok_or("no ClientHello")?.to_vec();
        let mut opener = Opener {
            key_log,
            client_random,
            stream: ServerStream::default(),
            hello: None,
            state: State::Plain,
            sequence: 0,
            generation: 0,
            nonces: HashSet::new(),
        };
        let mut rest = to_client;
        let mut number = 0;
        while rest.len() >= 5 {
            let length = usize::from(u16::from_be_bytes([rest[3], rest[4]]));
            if !(CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&rest[0]) || rest[1] != 3 {
                let at = to_client.len() - rest.len();
                return Err(format!(
                    "no record at byte {at} (after {number} records): {:02x?}",
                    &rest[..5]
                ));
            }
            let Some(fragment) = rest.get(5..5 + length) else {
                break;
            };
            opener.take(&rest[..5], fragment).map_err(|error| {
                format!(
                    "record {number} of the server (type {}, {length} bytes): {error}",
                    rest[0]
                )
            })?;
            rest = &rest[5 + length..];
            number += 1;
        }
        opener.stream.incomplete_bytes = rest.len();
        Ok(opener.stream)
    }

    /// The application's bytes.
    pub fn application_data(&self) -> Vec<u8> {
        let data = self
            .records
            .iter()
            .filter(|record| record.kind == APPLICATION_DATA);
        data.flat_map(|record| record.plaintext.iter().copied())
            .collect()
    }

    /// Level and description of every alert.
    pub fn alerts(&self) -> Vec<(u8, u8)> {
        let alerts = self.records.iter().filter(|record| record.kind == ALERT);
        alerts
            .map(|record| (record.plaintext[0], record.plaintext[1]))
            .collect()
    }

    /// How often the server changed its key.
    pub fn key_updates(&self) -> u32 {
        self.records.last().map_or(0, |record| record.generation)
    }
}

enum State {
    /// Before anything is encrypted.
    Plain,
    /// TLS 1.3, up to and with the server's Finished.
    Handshake(Keys),
    /// TLS 1.3 after that, with the secret that the next keys come from.
    Traffic(Keys, Vec<u8>),
    /// TLS 1.2 after ChangeCipherSpec.
    Tls12(Keys),
}

struct Hello {
    suite: Suite,
    is_tls13: bool,
    random: Vec<u8>,
}

struct Opener<'a> {
    key_log: KeyLog<'a>,
    client_random: Vec<u8>,
    stream: ServerStream,
    hello: Option<Hello>,
    state: State,
    sequence: u64,
    generation: u32,
    /// Explicit nonces under the present key.
    nonces: HashSet<u64>,
}

impl Opener<'_> {
    fn take(&mut self, header: &[u8], fragment: &[u8]) -> Result<(), String> {
        let failed = || {
            format!(
                "does not open as number {} of key {}",
                self.sequence, self.generation
            )
        };
        match &self.state {
            State::Plain => return self.take_plain(header[0], fragment),
            // A server sends one for middleboxes, RFC 8446 appendix D.4.
            State::Handshake(_) if header[0] == CHANGE_CIPHER_SPEC && fragment == [1] => {
                return Ok(());
            }
            State::Handshake(keys) => {
                let inner = keys
                    .open_13(self.sequence, header, fragment)
                    .ok_or_else(failed)?;
                self.sequence += 1;
                let (kind, plaintext) = split_inner(inner)?;
                if kind == HANDSHAKE && ends_with_finished(&plaintext)? {
                    let secret = self
                        .key_log
                        .secret("SERVER_TRAFFIC_SECRET_0", &self.client_random)?;
                    self.turn_to(secret);
                }
            }
            State::Traffic(keys, secret) => {
                let inner = keys
                    .open_13(self.sequence, header, fragment)
                    .ok_or_else(failed)?;
                let (kind, plaintext) = split_inner(inner)?;
                let updates = kind == HANDSHAKE && plaintext.first() == Some(&KEY_UPDATE);
                let secret = updates.then(|| next_secret(self.suite(), secret));
                self.note(kind, plaintext);
                if let Some(secret) = secret {
                    self.generation += 1;
                    self.turn_to(secret);
                }
            }
            State::Tls12(keys) => {
                let (plaintext, nonce) = keys
                    .open_12(self.sequence, header, fragment)
                    .ok_or_else(failed)?;
                if let Some(nonce) = nonce.filter(|nonce| !self.nonces.insert(*nonce)) {
                    return Err(format!("its explicit nonce {nonce:#018x} was used before"));
                }
                self.note(header[0], plaintext);
            }
        }
        Ok(())
    }

    fn suite(&self) -> Suite {
        self.hello
            .as_ref()
            .expect("keys come after ServerHello")
            .suite
    }

    fn turn_to(&mut self, secret: Vec<u8>) {
        self.state = State::Traffic(Keys::of_secret(self.suite(), &secret), secret);
        self.sequence = 0;
    }

    fn note(&mut self, kind: u8, plaintext: Vec<u8>) {
        self.stream.records.push(Record {
            kind,
            plaintext,
            generation: self.generation,
            sequence: self.sequence,
        });
        self.sequence += 1;
    }

    fn take_plain(&mut self, kind: u8, fragment: &[u8]) -> Result<(), String> {
        if kind == CHANGE_CIPHER_SPEC {
            let hello = self
                .hello
                .as_ref()
                .ok_or("ChangeCipherSpec before ServerHello")?;
            if !hello.is_tls13 {
                let master = self.key_log.secret("CLIENT_RANDOM", &self.client_random)?;
                self.state = State::Tls12(Keys::of_master_secret(
                    hello.suite,
                    &master,
                    &hello.random,
                    &self.client_random,
                ));
            }
            return Ok(());
        }
        if kind == HANDSHAKE && self.hello.is_none() && fragment.first() == Some(&SERVER_HELLO) {
            let hello = Hello::parse(fragment)?;
            self.stream.suite = hello.suite.name;
            self.stream.is_tls13 = hello.is_tls13;
            if hello.is_tls13 {
                let secret = self
                    .key_log
                    .secret("SERVER_HANDSHAKE_TRAFFIC_SECRET", &self.client_random)?;
                self.state = State::Handshake(Keys::of_secret(hello.suite, &secret));
            }
            self.hello = Some(hello);
        }
        Ok(())
    }
}

impl Hello {
    /// RFC 8446 section 4.1.3: type, length, version, random, session id, suite,
    /// compression, extensions.
    fn parse(message: &[u8]) -> Result<Hello, String> {
        const SUPPORTED_VERSIONS: u16 = 43;
        let parse = || {
            let random = message.get(6..38)?.to_vec();
            let session_bytes = usize::from(*message.get(38)?);
            let at = 39 + session_bytes;
            let suite = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
            let end = 4 + usize::from(u16::from_be_bytes([message[2], message[3]]));
            let mut extensions = message.get(at + 5..end).unwrap_or_default();
            let mut is_tls13 = false;
            while extensions.len() >= 4 {
                let kind = u16::from_be_bytes([extensions[0], extensions[1]]);
                let length = usize::from(u16::from_be_bytes([extensions[2], extensions[3]]));
                is_tls13 |= kind == SUPPORTED_VERSIONS && extensions.get(4..6) == Some(&[3, 4]);
                extensions = extensions.get(4 + length..)?;
            }
            Some((random, suite, is_tls13))
        };
        let (random, suite, is_tls13) = parse().ok_or("ServerHello is cut short")?;
        // RFC 8446: this random means HelloRetryRequest.
        if random.starts_with(&[0xcf, 0x21, 0xad, 0x74]) {
            return Err("a HelloRetryRequest, which no case provokes".into());
        }
        Ok(Hello {
            suite: Suite::by_number(suite)?,
            is_tls13,
            random,
        })
    }
}

/// The first handshake message of a stream.
fn first_message(stream: &[u8]) -> Result<&[u8], String> {
    match stream.first() {
        Some(&HANDSHAKE) if stream.len() > 5 => Ok(&stream[5..]),
        _ => Err("the client's stream does not begin with a handshake record".into()),
    }
}

/// TLSInnerPlaintext: the type stands behind the content, before the padding.
fn split_inner(mut inner: Vec<u8>) -> Result<(u8, Vec<u8>), String> {
    let end = inner
        .iter()
        .rposition(|&byte| byte != 0)
        .ok_or("a record of padding alone")?;
    let kind = inner[end];
    inner.truncate(end);
    Ok((kind, inner))
}

/// Whether Finished is among the messages of a record. A certificate may span
/// several records, so anything else is skipped by its own length at most to the end.
fn ends_with_finished(plaintext: &[u8]) -> Result<bool, String> {
    let mut rest = plaintext;
    while rest.len() >= 4 {
        if rest[0] == FINISHED {
            return Ok(true);
        }
        let length =
            (usize::from(rest[1]) << 16) | (usize::from(rest[2]) << 8) | usize::from(rest[3]);
        match rest.get(4 + length..) {
            Some(next) => rest = next,
            None => return Err("a handshake message spans records, which no case provokes".into()),
        }
    }
    Ok(false)
}
