mod clients;
mod devices;
mod loading;

use super::*;
use crate::client::Wanted;
use crate::deposit::{Deposit, KeySource};
use crate::line::wait_for_report;
use crate::rules::Roles;
use crate::wire::{Reason, put_request, take_answer};
use crate::{Channel, KeyClient, Processor, Received};
use sealane_awslc::PrivateKey;
use sealane_sys::socket;
use sealane_tls::accelerator::{PendingJob, job};
use sealane_tls::{AcceleratorChoice, KeyId, KeyOperation, Secret};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

const LONG: Duration = Duration::from_secs(30);

/// A key process, as a thread of this one.
struct Service {
    line: OwnedFd,
    deposits: u64,
}

struct TestKey {
    key: PrivateKey,
    pem: String,
}

impl TestKey {
    fn new(algorithm: &'static rcgen::SignatureAlgorithm) -> Self {
        let pair = rcgen::KeyPair::generate_for(algorithm).expect("a key");
        let pem = pair.serialize_pem();
        let key = PrivateKey::from_pem(pem.as_bytes(), &[]).expect("it is one");
        Self { key, pem }
    }

    fn id(&self) -> KeyId {
        KeyId::of(&self.key).expect("a usual key")
    }
}

impl Service {
    fn start(threads: usize) -> Self {
        Self::start_with(threads, |report| Box::new(Processor::new(report)))
    }

    fn start_with(
        threads: usize,
        opener: impl FnOnce(Tell) -> Box<dyn OpenKeys> + Send + 'static,
    ) -> Self {
        let (line, other) = socket::seqpacket_pair().expect("descriptors");
        std::thread::spawn(move || {
            serve(
                other,
                Limits {
                    threads,
                    reports_panics: false,
                },
                opener,
            )
            .expect("it serves")
        });
        Self { line, deposits: 0 }
    }

    fn try_deposit(&mut self, deposit: &Deposit<'_>) -> Result<KeyId, String> {
        let memory = deposit.seal().expect("memory");
        self.deposits += 1;
        line::send_deposit(self.line.as_fd(), self.deposits, memory.as_fd()).expect("room");
        match wait_for_report(self.line.as_fd(), LONG).expect("an answer") {
            Some(Report::Deposited { number, result }) => {
                assert_eq!(number, self.deposits);
                result.map(|handle| handle.id)
            }
            other => panic!("{other:?}"),
        }
    }

    fn deposit(&mut self, key: &TestKey, may_decrypt: bool) {
        let id = self.try_deposit(&Deposit {
            roles: Roles::SERVER,
            may_decrypt,
            accelerator: AcceleratorChoice::Auto,
            passwords: &[],
            key: KeySource::Pem(key.pem.as_bytes()),
        });
        assert_eq!(id, Ok(key.id()));
    }

    /// The line of a worker process.
    fn introduce(&self, max_channels: u32) -> OwnedFd {
        self.introduce_with(Rights {
            max_channels,
            max_decryptions: u32::MAX,
            max_keys: 100,
        })
    }

    fn introduce_with(&self, rights: Rights) -> OwnedFd {
        let (worker, other) = socket::seqpacket_pair().expect("descriptors");
        while let Err(error) = line::send_introduction(self.line.as_fd(), rights, other.as_fd()) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            let fds = [(self.line.as_fd(), poll::Interest::Writable)];
            poll::wait(&fds, Some(LONG)).expect("a socket");
        }
        worker
    }

    fn client(&self, threads: usize) -> (Arc<KeyClient>, Arc<Channel>) {
        let client = KeyClient::new("keys", threads, Arc::new(|_: &str| ()));
        let line = self.introduce(u32::try_from(threads).expect("few"));
        client.connect(line).expect("it is there");
        let channel = client.own(0);
        (client, channel)
    }

    /// A channel of an attacker.
    fn channel(&self) -> UnixStream {
        Self::channel_over(self.introduce(1))
    }

    fn channel_over(line: OwnedFd) -> UnixStream {
        let (own, other) = UnixStream::pair().expect("descriptors");
        line::send_channel(line.as_fd(), other.as_fd()).expect("room");
        std::mem::forget(line);
        own.set_read_timeout(Some(LONG)).expect("a socket");
        own
    }
}

fn transcript(n: u64) -> Vec<u8> {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&n.to_le_bytes());
    [
        &[b' '; 64][..],
        b"TLS 1.3, server CertificateVerify\0",
        &hash,
    ]
    .concat()
}

fn sign(scheme: u16, n: u64) -> KeyOperation {
    let input = transcript(n);
    KeyOperation::Sign { scheme, input }
}

/// Waits as a worker thread does.
fn wait(client: &KeyClient, channel: &Channel, pending: &mut PendingJob) -> Option<Secret> {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(result) = pending.try_take() {
            return result;
        }
        assert!(Instant::now() < deadline, "{channel:?}");
        match channel.socket() {
            Some(socket) => {
                let patience = Some(Duration::from_millis(100));
                client.send(channel);
                poll::wait_readable(&[socket.as_fd()], patience).expect("a socket");
                client.receive(channel);
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn perform(
    client: &KeyClient,
    channel: &Channel,
    key: KeyId,
    operation: KeyOperation,
) -> Option<Secret> {
    let (job, mut pending) = job(operation);
    client.submit(Wanted::new(key, job));
    wait(client, channel, &mut pending)
}

/// The answer to one request on a bare channel.
fn ask(
    channel: &mut UnixStream,
    number: u64,
    key: KeyId,
    operation: &KeyOperation,
) -> Result<Vec<u8>, Reason> {
    let mut request = Vec::new();
    put_request(&mut request, number, key, operation);
    channel.write_all(&request).expect("it is open");
    let (of, result) = read_answer(channel);
    assert_eq!(of, number);
    result
}

fn read_answer(channel: &mut UnixStream) -> (u64, Result<Vec<u8>, Reason>) {
    let mut head = [0; 4];
    channel.read_exact(&mut head).expect("an answer");
    let mut frame = head.to_vec();
    frame.resize(4 + u32::from_le_bytes(head) as usize, 0);
    channel.read_exact(&mut frame[4..]).expect("all of it");
    let (number, result) = take_answer(&mut &frame[..])
        .expect("an answer")
        .expect("whole");
    (number, result.map(<[u8]>::to_vec))
}

const KEYS: [(&rcgen::SignatureAlgorithm, &[u16]); 4] = [
    (&rcgen::PKCS_RSA_SHA256, &[0x0804, 0x0805, 0x0806]),
    (&rcgen::PKCS_ECDSA_P256_SHA256, &[0x0403]),
    (&rcgen::PKCS_ECDSA_P384_SHA384, &[0x0503]),
    (&rcgen::PKCS_ED25519, &[0x0807]),
];

#[test]
fn keys_of_every_kind_sign() {
    let mut service = Service::start(2);
    let (client, channel) = service.client(2);
    for (algorithm, schemes) in KEYS {
        let key = TestKey::new(algorithm);
        service.deposit(&key, false);
        for (n, scheme) in schemes.iter().enumerate() {
            let operation = sign(*scheme, n as u64);
            let got = perform(&client, &channel, key.id(), operation.clone());
            let got = got.unwrap_or_else(|| panic!("{scheme:#x}"));
            // Deterministic ones are the same; the length of others is.
            let own = key.key.perform(&operation).expect("it fits");
            match scheme {
                0x0807 => assert_eq!(got.expose(), own.expose()),
                _ => assert!(got.expose().len().abs_diff(own.expose().len()) <= 8),
            }
        }
    }
}

#[test]
fn hundreds_of_operations_come_back_in_any_order() {
    let mut service = Service::start(2);
    let (client, channel) = service.client(1);
    let keys = [&rcgen::PKCS_RSA_SHA256, &rcgen::PKCS_ECDSA_P256_SHA256].map(TestKey::new);
    keys.iter().for_each(|key| service.deposit(key, false));
    let mut pending = Vec::new();
    for n in 0..300 {
        let key = &keys[n % 2];
        let (job, waiting) = job(sign([0x0804, 0x0403][n % 2], n as u64));
        client.submit(Wanted::new(key.id(), job));
        pending.push(waiting);
    }
    // Those that nobody waits for are left out.
    let waiting = pending.split_off(100);
    drop(pending);
    for mut waiting in waiting {
        assert!(wait(&client, &channel, &mut waiting).is_some());
    }
}

#[test]
fn keys_that_cannot_be_held_are_refused_with_the_reason() {
    let mut service = Service::start(1);
    let mut deposit = |pem: &[u8]| {
        service.try_deposit(&Deposit {
            roles: Roles::SERVER,
            may_decrypt: false,
            accelerator: AcceleratorChoice::Auto,
            passwords: &[],
            key: KeySource::Pem(pem),
        })
    };
    assert!(deposit(b"").is_err());
    assert!(deposit(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").is_err());
    let key = TestKey::new(&rcgen::PKCS_ED25519);
    assert_eq!(deposit(key.pem.as_bytes()), Ok(key.id()));
}

#[test]
fn what_handshakes_do_not_sign_is_refused() {
    let mut service = Service::start(1);
    let keys = [&rcgen::PKCS_RSA_SHA256, &rcgen::PKCS_ECDSA_P256_SHA256].map(TestKey::new);
    keys.iter().for_each(|key| service.deposit(key, false));
    let mut channel = service.channel();
    let message = |input: &[u8]| KeyOperation::Sign {
        scheme: 0x0403,
        input: input.to_vec(),
    };
    for (number, (key, operation, reason)) in [
        (&keys[1], message(b"pay 1000"), Reason::NotPermitted),
        (&keys[1], message(&[b' '; 64]), Reason::NotPermitted),
        (
            &keys[0],
            KeyOperation::Decrypt {
                input: vec![1; 256],
            },
            Reason::NotPermitted,
        ),
        (
            &keys[1],
            KeyOperation::Decrypt {
                input: vec![1; 256],
            },
            Reason::NotPermitted,
        ),
        (&keys[0], sign(0x0403, 1), Reason::NotPermitted),
        (&keys[1], sign(0x0804, 1), Reason::NotPermitted),
    ]
    .into_iter()
    .enumerate()
    {
        let number = number as u64;
        assert_eq!(
            ask(&mut channel, number, key.id(), &operation),
            Err(reason),
            "{operation:?}"
        );
    }
    let unknown = ask(&mut channel, 99, KeyId([1; 32]), &sign(0x0403, 1));
    assert_eq!(unknown, Err(Reason::UnknownKey));
    line::send_forget(service.line.as_fd(), keys[1].id()).expect("room");
    service.deposit(&keys[0], false); // it is answered after that
    let forgotten = ask(&mut channel, 100, keys[1].id(), &sign(0x0403, 1));
    assert_eq!(forgotten, Err(Reason::UnknownKey));
}

/// RSA's public operation, as whoever attacks does it.
fn encrypt(key: &PrivateKey, block: &[u8]) -> Vec<u8> {
    let numbers = key.rsa_numbers().expect("an RSA key");
    let modulus = num(&numbers.modulus);
    let power = num(block)
        .modpow(&num(&numbers.exponent), &modulus)
        .to_bytes_be();
    let mut bytes = vec![0; numbers.modulus.len() - power.len()];
    bytes.extend(power);
    bytes
}

fn num(bytes: &[u8]) -> num_bigint::BigUint {
    num_bigint::BigUint::from_bytes_be(bytes)
}

#[test]
fn decryption_gives_premaster_secrets_and_signs_nothing() {
    let mut service = Service::start(1);
    let key = TestKey::new(&rcgen::PKCS_RSA_SHA256);
    service.deposit(&key, true);
    let mut channel = service.channel();
    let mut number = 0;
    let mut decrypt = |input: Vec<u8>| {
        number += 1;
        ask(
            &mut channel,
            number,
            key.id(),
            &KeyOperation::Decrypt { input },
        )
    };
    let mut block = vec![0x77; 256];
    block[..2].copy_from_slice(&[0, 2]);
    block[207] = 0;
    block[208..].copy_from_slice(&[3; 48]);
    let got = decrypt(encrypt(&key.key, &block)).expect("a block");
    assert_eq!(got[208..], [3; 48]);
    // Wrong padding: another secret, the same each time, and nothing of what was decrypted.
    for (at, byte) in [(1, 1), (10, 0), (207, 1)] {
        let mut wrong = block.clone();
        wrong[at] = byte;
        let ciphertext = encrypt(&key.key, &wrong);
        let got = decrypt(ciphertext.clone()).expect("a block");
        assert_ne!(got[208..], [3; 48]);
        assert_eq!(got, decrypt(ciphertext).expect("a block"));
    }
    // The number that a signature of PKCS #1 v1.5 raises: its power is not given out.
    let to_sign = key.key.rsa_encoded(&KeyOperation::Sign {
        scheme: 0x0401,
        input: b"message".to_vec(),
    });
    let to_sign = to_sign.expect("an RSA key");
    let signature = key.key.rsa_raw(&to_sign).expect("in range");
    let got = decrypt(to_sign).expect("a block");
    assert_ne!(got, signature);
    assert!(got[..2] == [0, 2] && got[2..207].iter().all(|byte| *byte == 0xff));
    // What is no ciphertext fails, which the public key tells as well.
    assert_eq!(decrypt(vec![0xff; 256]), Err(Reason::Failed));
    assert_eq!(decrypt(vec![1; 255]), Err(Reason::Failed));
}

#[test]
fn a_worker_decrypts_so_often_in_a_second() {
    let mut service = Service::start(1);
    let key = TestKey::new(&rcgen::PKCS_RSA_SHA256);
    service.deposit(&key, true);
    let limited = service.introduce_with(Rights {
        max_channels: 1,
        max_decryptions: 3,
        max_keys: 0,
    });
    let mut limited = Service::channel_over(limited);
    let mut other = service.channel();
    let decrypt = KeyOperation::Decrypt {
        input: vec![2; 256],
    };
    let begun = Instant::now();
    let mut refused = 0;
    for number in 0..20 {
        let answer = ask(&mut limited, number, key.id(), &decrypt);
        refused += u32::from(answer == Err(Reason::TooMany));
        assert!(ask(&mut other, number, key.id(), &decrypt).is_ok());
        assert!(ask(&mut limited, number, key.id(), &sign(0x0804, number)).is_ok());
    }
    // Three in each second that has begun.
    let seconds = begun.elapsed().as_secs() as u32 + 1;
    assert!(
        refused >= 20_u32.saturating_sub(3 * (seconds + 1)),
        "{refused}"
    );
    let deadline = Instant::now() + LONG;
    while ask(&mut limited, 99, key.id(), &decrypt).is_err() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whatever a worker sends, others are served.
#[test]
fn hostile_bytes_end_their_channel_alone() {
    let mut service = Service::start(1);
    let key = TestKey::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    service.deposit(&key, false);
    let (client, channel) = service.client(1);
    let mut state = 0x9e37_79b9_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut good = Vec::new();
    put_request(&mut good, 1, key.id(), &sign(0x0403, 1));
    for round in 0..2_000 {
        let mut hostile = service.channel();
        let mut bytes = good.repeat(1 + random() as usize % 3);
        for _ in 0..1 + random() % 4 {
            let at = random() as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        bytes.truncate(1 + random() as usize % bytes.len());
        // It may end the channel before all is written.
        let _ = hostile.write_all(&bytes);
        if round % 100 == 0 {
            assert!(perform(&client, &channel, key.id(), sign(0x0403, round)).is_some());
        }
    }
    // On the lines of workers, too: another one is not concerned.
    for bytes in [&b"D"[..], b"W", b"F", b"O", &[0; 300]] {
        let line = service.introduce(4);
        let _ = socket::send_fds(line.as_fd(), bytes, &[]);
    }
    assert!(perform(&client, &channel, key.id(), sign(0x0403, 1)).is_some());
}

/// A worker that keeps the other end as well, and makes it a blocking one, holds nobody up.
#[test]
fn a_socket_that_blocks_blocks_nobody() {
    let mut service = Service::start(1);
    let key = TestKey::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    service.deposit(&key, false);
    let (client, channel) = service.client(1);
    let line = service.introduce(1);
    let (mut own, other) = UnixStream::pair().expect("descriptors");
    line::send_channel(line.as_fd(), other.as_fd()).expect("room");
    assert!(ask(&mut own, 1, key.id(), &sign(0x0403, 1)).is_ok());
    other.set_nonblocking(false).expect("a socket");
    // Nothing is read of these answers, until there is no room for more.
    own.set_nonblocking(true).expect("a socket");
    let mut request = Vec::new();
    put_request(&mut request, 1, key.id(), &sign(0x0403, 1));
    let requests = request.repeat(64);
    for _ in 0..200 {
        let _ = own.write(&requests);
        std::thread::yield_now();
    }
    for n in 0..10 {
        assert!(perform(&client, &channel, key.id(), sign(0x0403, n)).is_some());
    }
    // It is closed, but not by everybody: its events end all the same.
    own.shutdown(std::net::Shutdown::Both).expect("open");
    assert!(perform(&client, &channel, key.id(), sign(0x0403, 1)).is_some());
    drop((own, other));
}

#[test]
fn a_worker_has_no_more_channels_than_it_may() {
    let service = Service::start(1);
    let line = service.introduce(2);
    let open = || {
        let (own, other) = UnixStream::pair().expect("descriptors");
        line::send_channel(line.as_fd(), other.as_fd()).expect("room");
        drop(other);
        own.set_read_timeout(Some(LONG)).expect("a socket");
        own
    };
    let is_open = |channel: &mut UnixStream| {
        let mut request = Vec::new();
        put_request(&mut request, 5, KeyId([0; 32]), &sign(0x0403, 1));
        channel.write_all(&request).is_ok() && channel.read(&mut [0; 100]).is_ok_and(|n| n > 0)
    };
    let (mut one, mut two) = (open(), open());
    assert!(is_open(&mut one) && is_open(&mut two));
    assert!(!is_open(&mut open()));
    drop(one);
    let deadline = Instant::now() + LONG;
    while !is_open(&mut open()) {
        assert!(Instant::now() < deadline);
    }
}

/// The end of a channel is seen however it comes, so that others may be opened.
#[test]
fn channels_end_with_what_was_sent_last() {
    let service = Service::start(1);
    let line = service.introduce(1);
    for round in 0..200 {
        let deadline = Instant::now() + LONG;
        loop {
            let (mut own, other) = UnixStream::pair().expect("descriptors");
            line::send_channel(line.as_fd(), other.as_fd()).expect("room");
            drop(other);
            own.set_read_timeout(Some(LONG)).expect("a socket");
            let mut request = Vec::new();
            put_request(&mut request, round, KeyId([0; 32]), &sign(0x0403, 1));
            if own.write_all(&request).is_ok() && own.read(&mut [0; 100]).is_ok_and(|n| n > 0) {
                // Once more, and gone before it is read.
                own.write_all(&request).expect("it is open");
                break;
            }
            assert!(
                Instant::now() < deadline,
                "the channel before is still open"
            );
        }
    }
}

/// One worker process has thousands of expensive operations waiting; another one gets its turn.
#[test]
fn a_flood_of_one_worker_keeps_no_other_waiting() {
    let mut service = Service::start(1);
    let key = TestKey::new(&rcgen::PKCS_RSA_SHA256);
    service.deposit(&key, false);
    let mut flood = service.channel();
    let flooder = {
        let id = key.id();
        let mut flood = flood.try_clone().expect("a descriptor");
        std::thread::spawn(move || {
            for n in 0..2_000 {
                let mut request = Vec::new();
                put_request(&mut request, n, id, &sign(0x0804, n));
                if flood.write_all(&request).is_err() {
                    return;
                }
            }
        })
    };
    let _ = read_answer(&mut flood); // it has begun
    let (client, channel) = service.client(1);
    let mut done = 0;
    for n in 0..10 {
        assert!(perform(&client, &channel, key.id(), sign(0x0804, n)).is_some());
        done += 1;
    }
    assert_eq!(done, 10);
    // The flood is not over: at most those that may be under way were read since, and its answers.
    let mut answered = 1;
    flood.set_nonblocking(true).expect("a socket");
    let mut bytes = Vec::new();
    let _ = flood.read_to_end(&mut bytes);
    let mut rest = &bytes[..];
    while let Ok(Some(_)) = take_answer(&mut rest) {
        answered += 1;
    }
    assert!(
        answered < 1_000,
        "{answered} answers before ten of another worker"
    );
    flood.shutdown(std::net::Shutdown::Both).expect("open");
    flooder.join().expect("no panic");
}

/// The process dies with operations under way: the next one does them.
#[test]
fn what_was_under_way_is_done_by_the_next_process() {
    let key = TestKey::new(&rcgen::PKCS_RSA_SHA256);
    let client = KeyClient::new("keys", 1, Arc::new(|_: &str| ()));
    // A process that takes requests, and dies.
    let (line, dying) = socket::seqpacket_pair().expect("descriptors");
    client.connect(line).expect("it is there");
    let channel = client.own(0);
    let mut pending: Vec<PendingJob> = Vec::new();
    for n in 0..100 {
        let (job, waiting) = job(sign(0x0804, n));
        client.submit(Wanted::new(key.id(), job));
        pending.push(waiting);
    }
    let Ok(Some(WorkerRequest::Channel(taken))) = line::receive_request(dying.as_fd()) else {
        panic!("no channel");
    };
    let mut taken = UnixStream::from(taken);
    taken.read_exact(&mut [0; 1000]).expect("requests");
    drop(taken);
    assert_eq!(client.receive(&channel), Received::Closed);
    assert!(channel.socket().is_none());
    let mut service = Service::start(1);
    service.deposit(&key, false);
    let line = service.introduce(1);
    client.connect(line).expect("it is there");
    for waiting in &mut pending {
        assert!(wait(&client, &channel, waiting).is_some());
    }
    // What has been sent twice is not sent a third time.
    let (line, dying) = socket::seqpacket_pair().expect("descriptors");
    let (job, mut waiting) = job(sign(0x0804, 1));
    let connect = || client.connect(line.try_clone().expect("a descriptor"));
    connect().expect("it is there");
    client.submit(Wanted::new(key.id(), job));
    for _ in 0..2 {
        drop(line::receive_request(dying.as_fd()).expect("one"));
        assert_eq!(client.receive(&channel), Received::Closed);
        if channel.socket().is_none() && waiting.try_take().is_none() {
            connect().expect("it is there");
        }
    }
    assert!(wait(&client, &channel, &mut waiting).is_none());
}
