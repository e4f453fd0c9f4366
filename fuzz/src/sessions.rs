//! What clients and the store bring back: tickets, session ids, stored values,
//! first flights with early data. Whatever it is, the server goes on with a full
//! handshake, and reads nothing as early data that the holder of a session did
//! not send.

use sealane_tls::{
    Acceptor, Connection, EarlyData, HandshakeStatus, Identity, Load, ReplayRegister, Reply,
    RingSettings, Secret, ServerSettings, ServerTls, SessionCache, SessionCacheSetting,
    SharedSessions, SharedStore, StoreKey, StoreSeal, TicketRing,
};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

/// A hello's ticket and id are limited by its own limit, not by ours.
const MAX_TICKET_BYTES: usize = 4096;

/// `data` as a ticket of TLS 1.3, of TLS 1.2, as a session id, as a ring on its
/// way between nodes.
pub(crate) fn ticket(data: &[u8]) {
    let ticket = &data[..data.len().min(MAX_TICKET_BYTES)];
    for acceptor in [&SERVERS.tickets, &SERVERS.cached] {
        full_handshake(acceptor, &hello_tls13(ticket));
        full_handshake(acceptor, &hello_tls12(&[], Some(ticket)));
        let id = &ticket[..ticket.len().min(32)];
        full_handshake(acceptor, &hello_tls12(id, None));
    }
    let settings = RingSettings {
        rotation_s: 100,
        lifetime_s: 300,
        overlap_s: 0,
    };
    let ring = TicketRing::rotating(settings, 1_000_000).expect("memory");
    match ring.merge(data, 1_000_000) {
        Ok(added) => assert!(ring.key_count() > added),
        Err(_) => assert_eq!(ring.key_count(), 1),
    }
}

/// `data` as what the store answers: as it is, and as a value that a node with
/// the right key has sealed.
pub(crate) fn value(data: &[u8]) {
    *lock(&STORE.answer) = Answer::Raw(data.to_vec());
    full_handshake(&SERVERS.cached, &hello_tls12(&[7; 32], None));
    full_handshake(&SERVERS.cached, &hello_tls13(&opaque_ticket()));
    *lock(&STORE.answer) = Answer::Sealed(data.to_vec());
    // Who has the key could make a session that resumes; it must only not panic.
    let _ = first_answer(&SERVERS.cached, &hello_tls12(&[8; 32], None));
    let _ = first_answer(&SERVERS.cached, &hello_tls13(&opaque_ticket()));
    *lock(&STORE.answer) = Answer::Nothing;
}

/// `data` as the first flight of a client, hello and early data.
pub(crate) fn early_flight(data: &[u8]) {
    for acceptor in [&SERVERS.tickets, &SERVERS.cached] {
        let (connection, _) = first_answer(acceptor, data);
        assert!(!connection.is_early_data(), "no session is known");
    }
}

/// One that takes tickets.
pub(crate) fn acceptor() -> &'static Acceptor {
    &SERVERS.tickets
}

/// One without tickets, with a cache and a store.
pub(crate) fn cached_acceptor() -> &'static Acceptor {
    &SERVERS.cached
}

/// The server answers this hello with a full handshake: it neither fails nor
/// resumes.
#[track_caller]
fn full_handshake(acceptor: &Acceptor, hello: &[u8]) {
    let (connection, status) = first_answer(acceptor, hello);
    assert_eq!(status, Some(HandshakeStatus::WantRead));
    assert!(!connection.is_early_data());
    let info = connection.info().expect("a server was chosen");
    assert_eq!(info.session_reused(), ".");
}

/// What the server makes of a first flight; `None` when it ends the connection.
fn first_answer(acceptor: &Acceptor, flight: &[u8]) -> (Connection, Option<HandshakeStatus>) {
    let mut connection = Connection::accept(acceptor);
    let (mut input, mut output) = (flight, Vec::new());
    loop {
        match connection.handshake(&mut input, &mut output, Load::default()) {
            Ok(HandshakeStatus::Pending) => {
                let mut cx = Context::from_waker(Waker::noop());
                assert!(
                    connection.poll_pending(&mut cx).is_ready(),
                    "it answers at once"
                );
            }
            Ok(status) => return (connection, Some(status)),
            Err(_) => return (connection, None),
        }
    }
}

struct Servers {
    tickets: Acceptor,
    cached: Acceptor,
}

/// A certificate made for this run.
pub(crate) fn identity() -> Identity {
    let key = rcgen::KeyPair::generate().expect("P-256 is supported");
    let params = rcgen::CertificateParams::new(vec!["name.test".to_owned()]);
    let certificate = params.expect("a valid name").self_signed(&key);
    Identity {
        chain_pem: certificate.expect("the key signs").pem().into_bytes(),
        key_pem: Secret::new(key.serialize_pem().into_bytes()),
        passwords: Vec::new(),
        chain_label: "generated".to_owned(),
        key_label: "generated".to_owned(),
    }
}

static SERVERS: LazyLock<Servers> = LazyLock::new(|| {
    let settings = ServerSettings {
        identities: vec![identity()],
        ticket_keys: vec![Secret::new(vec![1; 48])],
        early_data: Some(EarlyData {
            register: Arc::new(ReplayRegister::new(1000, 0).expect("memory")),
        }),
        ..ServerSettings::default()
    };
    let cached = ServerSettings {
        tickets: false,
        session_cache: SessionCacheSetting::Shared(Arc::new(SessionCache::new(0))),
        shared_sessions: Some(SharedSessions {
            store: Arc::new(&*STORE),
            seal: Arc::new(seal()),
            timeout: Duration::from_millis(20),
        }),
        ..settings.clone()
    };
    let acceptor = |settings: &ServerSettings| {
        let (server, _) = ServerTls::build(settings).expect("valid settings");
        Acceptor::single(Arc::new(server))
    };
    Servers {
        tickets: acceptor(&settings),
        cached: acceptor(&cached),
    }
});

fn seal() -> StoreSeal {
    StoreSeal::from_key_file(&Secret::new(vec![2; 32])).expect("32 bytes")
}

static STORE: LazyLock<OneAnswer> = LazyLock::new(|| OneAnswer {
    answer: Mutex::new(Answer::Nothing),
    seal: seal(),
});

/// A store that has the same for every name.
struct OneAnswer {
    answer: Mutex<Answer>,
    seal: StoreSeal,
}

enum Answer {
    Nothing,
    Raw(Vec<u8>),
    Sealed(Vec<u8>),
}

impl SharedStore for &'static OneAnswer {
    fn fetch(&self, key: StoreKey, reply: Reply<Option<Vec<u8>>>) {
        reply.send(match &*lock(&self.answer) {
            Answer::Nothing => None,
            Answer::Raw(value) => Some(value.clone()),
            Answer::Sealed(plain) => Some(self.seal.seal(&key, plain)),
        });
    }

    fn put(&self, _key: StoreKey, _value: Vec<u8>, _lifetime_s: u32) {}

    fn claim(&self, _key: StoreKey, _lifetime_s: u32, reply: Reply<bool>) {
        reply.send(true);
    }
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A ticket of the form that names a session in the cache.
fn opaque_ticket() -> Vec<u8> {
    [&b"SLS1"[..], &[7; 32], &[0; 200]].concat()
}

/// A hello of TLS 1.3 with a ticket and early data; its binder is of no session.
fn hello_tls13(ticket: &[u8]) -> Vec<u8> {
    let identity = [&prefixed16(ticket)[..], &[0; 4]].concat();
    let binders = prefixed16(&[&[32][..], &[0; 32]].concat());
    let share = [&[0, 29][..], &prefixed16(&[9; 32])].concat();
    let extensions = [
        extension(43, &[2, 3, 4]),
        extension(10, &prefixed16(&[0, 29])),
        extension(13, &prefixed16(&[4, 3])),
        extension(51, &prefixed16(&share)),
        extension(45, &[1, 1]),
        extension(42, &[]),
        extension(41, &[prefixed16(&identity), binders].concat()),
    ];
    hello(&[], &[0x13, 1], &extensions.concat())
}

/// A hello of TLS 1.2 with a session id or a ticket.
fn hello_tls12(id: &[u8], ticket: Option<&[u8]>) -> Vec<u8> {
    let mut extensions = [
        extension(10, &prefixed16(&[0, 23])),
        extension(11, &[1, 0]),
        extension(13, &prefixed16(&[4, 3])),
        extension(23, &[]),
    ]
    .concat();
    if let Some(ticket) = ticket {
        extensions.extend_from_slice(&extension(35, ticket));
    }
    hello(id, &[0xc0, 0x2b], &extensions)
}

pub(crate) fn hello(id: &[u8], suites: &[u8], extensions: &[u8]) -> Vec<u8> {
    let id_bytes = u8::try_from(id.len()).expect("an id has at most 32 bytes");
    let body = [
        &[3, 3][..],
        &[5; 32],
        &[id_bytes],
        id,
        &prefixed16(suites),
        &[1, 0],
        &prefixed16(extensions),
    ]
    .concat();
    let length = u16::try_from(body.len()).expect("far shorter than a record");
    let message = [&[1, 0][..], &length.to_be_bytes(), &body].concat();
    [&[22, 3, 1][..], &prefixed16(&message)].concat()
}

pub(crate) fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &prefixed16(data)].concat()
}

pub(crate) fn prefixed16(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).expect("short enough for its field");
    [&length.to_be_bytes()[..], data].concat()
}
