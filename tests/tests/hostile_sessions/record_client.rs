//! A client of TLS 1.3 that seals its own records, so that it can send what no TLS library would:
//! records without content, a million KeyUpdates.
//!
//! `openssl s_client` does the handshake on a connection that is passed on to it, and its key log
//! says with which key the connection goes on.

use sealane_awslc::{Aead, RecordCipher, hmac_sha256};
use sealane_tests::layer4::connect;
use sealane_tests::{PATIENCE, wait_for};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The types of records (RFC 8446, section 5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// The length of a record's header.
const HEADER_BYTES: usize = 5;

/// An established connection on which the next record is the client's first.
#[derive(Debug)]
pub(super) struct RecordClient {
    /// What the server sends comes out sealed.
    pub(super) socket: TcpStream,
    secret: [u8; 32],
    key: Key,
}

#[derive(Debug)]
struct Key {
    aead: Aead,
    iv: [u8; Aead::NONCE_BYTES],
    sequence: u64,
}

impl RecordClient {
    /// Connects to a port where TLS begins at once.
    #[track_caller]
    pub(super) fn connect(port: u16) -> RecordClient {
        RecordClient::on(connect(port))
    }

    /// Does a handshake on a connection whose server waits for one.
    #[track_caller]
    pub(super) fn on(socket: TcpStream) -> RecordClient {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sealane-keys-{}-{number}", std::process::id());
        let log = std::env::temp_dir().join(name);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let child = Command::new("openssl")
            .args(["s_client", "-quiet", "-tls1_3", "-connect", &address])
            .args(["-ciphersuites", "TLS_AES_128_GCM_SHA256", "-keylogfile"])
            .arg(&log)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let openssl = OpenSsl(child);
        let (theirs, _) = listener.accept().expect("openssl connects");
        pass_handshake(&theirs, &socket);
        let secret = wait_for("the key log", || {
            client_secret(&std::fs::read_to_string(&log).ok()?)
        });
        drop(openssl);
        let _ = std::fs::remove_file(&log);
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        let key = Key::new(&secret);
        RecordClient {
            socket,
            secret,
            key,
        }
    }

    /// A record with application data, which may be empty.
    pub(super) fn data(&mut self, plain: &[u8]) -> Vec<u8> {
        self.key.seal(APPLICATION_DATA, plain)
    }

    /// A KeyUpdate, after which the next key is used (RFC 8446, section 4.6.3). With `requested`
    /// the server has to update its key too.
    pub(super) fn key_update(&mut self, requested: bool) -> Vec<u8> {
        const KEY_UPDATE: u8 = 24;
        let message = [KEY_UPDATE, 0, 0, 1, u8::from(requested)];
        let record = self.key.seal(HANDSHAKE, &message);
        self.secret = expand(&self.secret, "traffic upd");
        self.key = Key::new(&self.secret);
        record
    }

    /// The alert that says that nothing follows.
    pub(super) fn close_notify(&mut self) -> Vec<u8> {
        self.key.seal(ALERT, &[1, 0])
    }

    /// Sends these bytes. False once the server has closed the connection.
    pub(super) fn send(&mut self, records: &[u8]) -> bool {
        self.socket.write_all(records).is_ok()
    }

    /// Waits until the server closes the connection.
    #[track_caller]
    pub(super) fn wait_for_end(&mut self) {
        let mut piece = [0; 16_384];
        loop {
            match self.socket.read(&mut piece) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("the server keeps the connection")
                }
                Err(_) => return,
            }
        }
    }
}

impl Key {
    fn new(secret: &[u8; 32]) -> Key {
        let key: [u8; 16] = expand(secret, "key");
        let aead = Aead::for_records(RecordCipher::Aes128Gcm, &key);
        Key {
            aead: aead.expect("a key of 16 bytes"),
            iv: expand(secret, "iv"),
            sequence: 0,
        }
    }

    /// RFC 8446, sections 5.2 and 5.3.
    fn seal(&mut self, kind: u8, plain: &[u8]) -> Vec<u8> {
        let mut inner = plain.to_vec();
        inner.push(kind);
        let length = inner.len() + Aead::TAG_BYTES;
        let [high, low] = u16::try_from(length).expect("a record").to_be_bytes();
        let mut record = vec![APPLICATION_DATA, 3, 3, high, low];
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence += 1;
        let header = record.clone();
        record.resize(HEADER_BYTES + length, 0);
        let sealed = self
            .aead
            .seal(&nonce, &header, &inner, &mut record[HEADER_BYTES..]);
        assert_eq!(sealed, Some(length));
        record
    }
}

/// HKDF-Expand-Label without a context (RFC 8446, section 7.1), for up to one block.
fn expand<const BYTES: usize>(secret: &[u8; 32], label: &str) -> [u8; BYTES] {
    let label = format!("tls13 {label}");
    let mut info = vec![0, u8::try_from(BYTES).expect("at most a block")];
    info.push(u8::try_from(label.len()).expect("a short label"));
    info.extend_from_slice(label.as_bytes());
    info.extend_from_slice(&[0, 1]);
    let block = hmac_sha256(secret, &info);
    block[..BYTES].try_into().expect("at most a block")
}

/// Passes on what both say, up to the client's Finished: the first record that it seals.
#[track_caller]
fn pass_handshake(mut client: &TcpStream, mut server: &TcpStream) {
    for socket in [client, server] {
        let pause = Some(Duration::from_millis(1));
        socket.set_read_timeout(pause).expect("not zero");
    }
    let deadline = Instant::now() + PATIENCE;
    let (mut piece, mut said) = ([0; 16_384], Vec::new());
    while Instant::now() < deadline {
        if let Ok(count @ 1..) = server.read(&mut piece) {
            client.write_all(&piece[..count]).expect("openssl reads");
        }
        if let Ok(count @ 1..) = client.read(&mut piece) {
            said.extend_from_slice(&piece[..count]);
        }
        while let Some(length) = said.get(3..HEADER_BYTES) {
            let length = HEADER_BYTES + usize::from(u16::from_be_bytes([length[0], length[1]]));
            if said.len() < length {
                break;
            }
            let record: Vec<u8> = said.drain(..length).collect();
            server.write_all(&record).expect("the server reads");
            if record[0] == APPLICATION_DATA {
                return;
            }
        }
    }
    panic!("the handshake does not end");
}

fn client_secret(log: &str) -> Option<[u8; 32]> {
    let line = log.split_inclusive('\n').find(|line| {
        // A line without its end is still being written.
        line.starts_with("CLIENT_TRAFFIC_SECRET_0 ") && line.ends_with('\n')
    })?;
    let digits = line.split_whitespace().last()?;
    let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    bytes?.try_into().ok()
}

struct OpenSsl(Child);

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
