//! Sessions in the cache and in the store of all nodes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::*;
use crate::sessions::store::{Reply, SharedSessions, SharedStore, StoreKey};
use crate::{Missed, Resumed, SessionCache, SessionCacheSetting, SessionStats, StoreSeal};

/// How a store behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    /// Nothing is ever answered.
    Slow,
    /// Every question is dropped.
    Dead,
}

/// A store in memory.
pub(super) struct MemoryStore {
    pub(super) mood: Mutex<Mood>,
    pub(super) values: Mutex<HashMap<String, Vec<u8>>>,
    waiting: Mutex<Vec<Box<dyn std::any::Any + Send>>>,
    pub(super) lifetimes_s: Mutex<Vec<u32>>,
}

pub(super) fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryStore {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            mood: Mutex::new(Mood::Well),
            values: Mutex::default(),
            waiting: Mutex::default(),
            lifetimes_s: Mutex::default(),
        })
    }

    fn answer<T: Send + 'static>(&self, reply: Reply<T>, answer: impl FnOnce() -> T) {
        match *lock(&self.mood) {
            Mood::Well => reply.send(answer()),
            Mood::Slow => lock(&self.waiting).push(Box::new(reply)),
            Mood::Dead => drop(reply),
        }
    }
}

impl SharedStore for MemoryStore {
    fn fetch(&self, key: StoreKey, reply: Reply<Option<Vec<u8>>>) {
        self.answer(reply, || lock(&self.values).get(key.as_str()).cloned());
    }

    fn put(&self, key: StoreKey, value: Vec<u8>, lifetime_s: u32) {
        lock(&self.values).insert(key.as_str().to_owned(), value);
        lock(&self.lifetimes_s).push(lifetime_s);
    }

    fn claim(&self, key: StoreKey, _lifetime_s: u32, reply: Reply<bool>) {
        self.answer(reply, || {
            let mut values = lock(&self.values);
            values.insert(key.as_str().to_owned(), Vec::new()).is_none()
        });
    }
}

pub(super) fn shared(store: &Arc<MemoryStore>, secret: u8) -> SharedSessions {
    SharedSessions {
        store: Arc::clone(store) as _,
        seal: Arc::new(StoreSeal::from_key_file(&Secret::new(vec![secret; 32])).expect("32 bytes")),
        timeout: Duration::from_millis(20),
    }
}

fn cache() -> SessionCacheSetting {
    SessionCacheSetting::Shared(Arc::new(SessionCache::new(1 << 20)))
}

/// A node of its own, without tickets that contain the session.
struct Node {
    server: Arc<ServerTls>,
    stats: Arc<SessionStats>,
}

fn node(store: Option<SharedSessions>) -> Node {
    node_of(ServerSettings {
        shared_sessions: store,
        ..settings(&[p256()])
    })
}

fn node_of(settings: ServerSettings) -> Node {
    let stats = Arc::new(SessionStats::default());
    let server = server(&ServerSettings {
        tickets: false,
        session_cache: cache(),
        session_stats: Some(Arc::clone(&stats)),
        ..settings
    });
    Node { server, stats }
}

fn only(version: ProtocolVersion) -> ClientContext {
    client(|builder| super::version(builder, version))
}

fn first_session(context: &ClientContext, node: &Node) -> Session {
    let mut pair = Pair::with(context, &node.server);
    pair.handshake().expect("a full handshake");
    pair.session().expect("a session to resume")
}

/// Resumes, or not, and finishes a handshake in any case.
fn returns(context: &ClientContext, node: &Node, session: &Session) -> Pair {
    let mut pair = Pair::resuming(context, &node.server, session);
    pair.handshake().expect("resumed or not, it works");
    assert_eq!(pair.up(b"hello"), b"hello");
    assert_eq!(pair.down(b"hello"), b"hello");
    let reused = pair.client.is_session_reused();
    assert_eq!(pair.server.resumed().is_some(), reused);
    assert!(!reused || pair.server.missed().is_none());
    pair
}

const VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::Tls10,
    ProtocolVersion::Tls11,
    ProtocolVersion::Tls12,
    ProtocolVersion::Tls13,
];

#[test]
fn a_cache_resumes_every_version_without_tickets() {
    let node = node(None);
    for version in VERSIONS {
        let context = only(version);
        let session = first_session(&context, &node);
        assert_eq!(
            session.has_ticket(),
            version == ProtocolVersion::Tls13,
            "below TLS 1.3 there are ids"
        );
        let expected = if session.has_ticket() {
            Resumed::OpaqueTicket
        } else {
            Resumed::SessionId
        };
        for _ in 0..2 {
            let pair = returns(&context, &node, &session);
            assert_eq!(pair.server.resumed(), Some(expected), "{version}");
            assert_eq!(pair.pending, 0);
        }
    }
    assert_eq!(node.stats.full(), 4);
    assert_eq!(node.stats.resumed(Resumed::OpaqueTicket), 2);
    assert_eq!(node.stats.resumed(Resumed::SessionId), 6);
}

#[test]
fn sessions_resume_on_another_node_through_the_store_and_then_from_its_cache() {
    let store = MemoryStore::new();
    let [ours, theirs] = [(); 2].map(|()| node(Some(shared(&store, 1))));
    for version in VERSIONS {
        let context = only(version);
        let session = first_session(&context, &ours);
        let pair = returns(&context, &theirs, &session);
        assert_eq!(
            (pair.server.resumed(), pair.pending),
            (Some(Resumed::Store), 1),
            "{version}"
        );
        let pair = returns(&context, &theirs, &session);
        assert_ne!(pair.server.resumed(), Some(Resumed::Store), "{version}");
        assert!(pair.server.resumed().is_some(), "{version}");
        assert_eq!(pair.pending, 0);
    }
    assert_eq!(theirs.stats.resumed(Resumed::Store), 4);
    assert_eq!(theirs.stats.full(), 0);
    let lifetimes_s = lock(&store.lifetimes_s);
    assert!(
        lifetimes_s.iter().all(|s| (290..=300).contains(s)),
        "{lifetimes_s:?}"
    );
}

#[test]
fn a_hello_in_pieces_waits_for_the_store_too() {
    let store = MemoryStore::new();
    let [ours, theirs] = [(); 2].map(|()| node(Some(shared(&store, 1))));
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        for chunk_bytes in [1, 7, 100, 250] {
            let context = only(version);
            let session = first_session(&context, &ours);
            let mut pair = Pair::resuming(&context, &theirs.server, &session);
            pair.chunk_bytes = chunk_bytes;
            pair.handshake().expect("it resumes");
            assert_eq!(
                pair.server.resumed(),
                Some(Resumed::Store),
                "{version}, {chunk_bytes}"
            );
            assert_eq!(pair.up(b"hello"), b"hello");
        }
    }
}

#[test]
fn a_store_that_does_not_answer_costs_a_full_handshake_and_nothing_else() {
    for (mood, reason) in [
        (Mood::Slow, Missed::StoreTimeout),
        (Mood::Dead, Missed::StoreError),
        (Mood::Well, Missed::Evicted),
    ] {
        let store = MemoryStore::new();
        let [ours, theirs] = [(); 2].map(|()| node(Some(shared(&store, 1))));
        for (n, version) in VERSIONS.into_iter().enumerate() {
            let context = only(version);
            let session = first_session(&context, &ours);
            lock(&store.values).clear();
            *lock(&store.mood) = mood;
            let pair = returns(&context, &theirs, &session);
            assert_eq!(pair.server.missed(), Some(reason), "{version}");
            assert_eq!(theirs.stats.missed(reason), n as u64 + 1);
            *lock(&store.mood) = Mood::Well;
        }
        assert_eq!(theirs.stats.full(), 4);
    }
}

#[test]
fn values_that_are_forged_moved_or_foreign_are_refused() {
    type Change = fn(&mut HashMap<String, Vec<u8>>);
    let alterations: [Change; 4] = [
        |values| values.values_mut().for_each(|value| value[20] ^= 1),
        |values| values.values_mut().for_each(|value| value.truncate(12)),
        |values| values.values_mut().for_each(Vec::clear),
        |values| {
            // Each value under the name of the other.
            let moved: Vec<Vec<u8>> = values.values().cloned().collect();
            for (value, other) in values.values_mut().zip(moved.into_iter().rev()) {
                *value = other;
            }
        },
    ];
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        let context = only(version);
        for (n, alter) in alterations.into_iter().enumerate() {
            let store = MemoryStore::new();
            let [ours, theirs] = [(); 2].map(|()| node(Some(shared(&store, 1))));
            let session = first_session(&context, &ours);
            if version == ProtocolVersion::Tls12 {
                first_session(&context, &ours); // so that there are two
            }
            alter(&mut lock(&store.values));
            let pair = returns(&context, &theirs, &session);
            assert_eq!(
                pair.server.missed(),
                Some(Missed::Damaged),
                "{version}, {n}"
            );
        }
        let store = MemoryStore::new();
        let ours = node(Some(shared(&store, 1)));
        let stranger = node(Some(shared(&store, 2)));
        let session = first_session(&context, &ours);
        let pair = returns(&context, &stranger, &session);
        assert_eq!(
            pair.server.missed(),
            Some(Missed::Evicted),
            "another key, other names"
        );
    }
}

#[test]
fn a_session_never_resumes_under_another_identity() {
    let store = MemoryStore::new();
    let named = |name: &str| {
        node_of(ServerSettings {
            server_names: vec![name.to_owned()],
            shared_sessions: Some(shared(&store, 1)),
            ..settings(&[p256()])
        })
    };
    let (ours, theirs) = (named("a.test"), named("b.test"));
    for version in VERSIONS {
        let context = only(version);
        let session = first_session(&context, &ours);
        let pair = returns(&context, &theirs, &session);
        assert_eq!(
            pair.server.missed(),
            Some(Missed::OtherContext),
            "{version}"
        );
    }
}

#[test]
fn other_nodes_clocks_may_be_ahead() {
    let store = MemoryStore::new();
    let seal = shared(&store, 1).seal;
    let context = only(ProtocolVersion::Tls13);
    for (ahead_s, expected) in [
        (60, None),
        (sealane_awslc::CLOCK_TOLERANCE_S, None),
        (sealane_awslc::CLOCK_TOLERANCE_S + 30, Some(Missed::Expired)),
    ] {
        let [ours, theirs] = [(); 2].map(|()| node(Some(shared(&store, 1))));
        lock(&store.values).clear();
        let session = first_session(&context, &ours);
        // What a node would have written whose clock is ahead.
        for (name, value) in lock(&store.values).iter_mut() {
            let key = StoreKey::for_tests(name);
            let mut plain = seal.open(&key, value).expect("ours").expose().to_vec();
            let facts = sealane_awslc::SessionFacts::parse(&plain).expect("a session");
            let [from, to] = [facts.made_s, facts.made_s + ahead_s]
                .map(|s| u32::try_from(s).expect("before 2106").to_be_bytes());
            let at = plain
                .windows(4)
                .position(|bytes| bytes == from)
                .expect("its date");
            plain[at..at + 4].copy_from_slice(&to);
            *value = seal.seal(&key, &plain);
        }
        let pair = returns(&context, &theirs, &session);
        assert_eq!(pair.server.missed(), expected, "{ahead_s} s");
    }
}

#[test]
fn what_has_ended_is_a_full_handshake() {
    let brief = node_of(ServerSettings {
        session_timeout_s: 1,
        ..settings(&[p256()])
    });
    let ticket = server(&ServerSettings {
        session_timeout_s: 1,
        ..settings(&[p256()])
    });
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        let context = only(version);
        let session = first_session(&context, &brief);
        let mut pair = Pair::with(&context, &ticket);
        pair.handshake().expect("a full handshake");
        let by_ticket = pair.session().expect("a session to resume");
        std::thread::sleep(Duration::from_millis(2100));
        // The client would not offer what it knows to have ended, so it is given a longer life.
        let [session, by_ticket] = [session, by_ticket].map(|session| {
            let longer = session.copy_with_timeout_s(300, &context);
            longer.expect("memory")
        });
        let pair = returns(&context, &brief, &session);
        assert_eq!(pair.server.missed(), Some(Missed::Expired), "{version}");
        let mut pair = Pair::resuming(&context, &ticket, &by_ticket);
        pair.handshake().expect("full");
        assert_eq!(pair.server.missed(), Some(Missed::Expired), "{version}");
    }
}

#[test]
fn tickets_and_a_store_need_no_look_up() {
    let store = MemoryStore::new();
    let stats = Arc::new(SessionStats::default());
    let server = server(&ServerSettings {
        session_cache: cache(),
        shared_sessions: Some(shared(&store, 1)),
        session_stats: Some(Arc::clone(&stats)),
        ..settings(&[p256()])
    });
    let node = Node { server, stats };
    for version in VERSIONS {
        let context = only(version);
        let session = first_session(&context, &node);
        let pair = returns(&context, &node, &session);
        assert_eq!(
            (pair.server.resumed(), pair.pending),
            (Some(Resumed::Ticket), 0)
        );
    }
}

#[test]
fn every_miss_of_a_ticket_has_its_reason() {
    let keyed = |key: u8, name: &str| {
        server(&ServerSettings {
            ticket_keys: vec![Secret::new(vec![key; 48])],
            server_names: vec![name.to_owned()],
            ..settings(&[p256()])
        })
    };
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        let context = only(version);
        let mut pair = Pair::with(&context, &keyed(1, "a.test"));
        pair.handshake().expect("full");
        let session = pair.session().expect("a ticket");
        for (key, name, expected) in [
            (1, "a.test", None),
            (2, "a.test", Some(Missed::UnknownKey)),
            (1, "b.test", Some(Missed::OtherContext)),
        ] {
            let mut pair = Pair::resuming(&context, &keyed(key, name), &session);
            pair.handshake().expect("resumed or full");
            assert_eq!(pair.server.missed(), expected, "{version}");
            let info = pair.server.info().expect("a server was chosen");
            assert_eq!(info.session_miss(), expected.map_or("", Missed::name));
            assert_eq!(
                info.session_source(),
                if expected.is_none() { "ticket" } else { "" }
            );
        }
    }
}
