//! 0-RTT: data that comes with the ClientHello, accepted once.

use proptest::prelude::*;
use sealane_awslc::{group_by_name, unix_time_s};

use super::shared::{MemoryStore, Mood, lock, shared};
use super::*;
use crate::{
    EarlyData, EarlyVerdict, NotPackable, ReplayRegister, SessionCache, SessionCacheSetting,
    SessionStats, SharedSessions, WINDOW_S,
};

const REQUEST: &[u8] = b"GET /early HTTP/1.1\r\n\r\n";

/// A register that began long ago.
pub(super) fn register() -> Arc<ReplayRegister> {
    let register = ReplayRegister::new(10_000, unix_time_s() - 2 * WINDOW_S);
    Arc::new(register.expect("memory"))
}

fn early_settings() -> ServerSettings {
    ServerSettings {
        ticket_keys: vec![Secret::new(vec![3; 48])],
        early_data: Some(EarlyData {
            register: register(),
        }),
        ..settings(&[p256()])
    }
}

/// Builds settings that may warn that other nodes are not asked.
pub(super) fn build(settings: &ServerSettings) -> Arc<ServerTls> {
    let (server, warnings) = ServerTls::build(settings).expect("valid settings");
    let alone = settings.shared_sessions.is_none() && !settings.ticket_keys.is_empty();
    assert_eq!(warnings.len(), usize::from(alone), "{warnings:?}");
    Arc::new(server)
}

fn tls13() -> ClientContext {
    client(|builder| super::version(builder, ProtocolVersion::Tls13))
}

fn ticket(context: &ClientContext, server: &Arc<ServerTls>) -> Session {
    let mut pair = Pair::with(context, server);
    pair.handshake().expect("a full handshake");
    assert_eq!(pair.server.early_verdict(), None, "none was offered");
    let session = pair.session().expect("a ticket");
    assert!(session.takes_early_data());
    session
}

/// A client that has sent its hello and `REQUEST` as early data.
fn early_client(context: &ClientContext, server: &Arc<ServerTls>, session: &Session) -> Pair {
    let mut pair = Pair::resuming(context, server, session);
    pair.client.offer_early_data();
    let status = pair.client.handshake(&mut &[][..], &mut pair.to_server);
    assert_eq!(status.expect("it can start"), HandshakeStatus::Done);
    assert!(pair.client.is_early_data());
    pair.client
        .write(REQUEST, &mut pair.to_server)
        .expect("early data can be written");
    pair
}

/// The first flight of such a client.
fn flight(context: &ClientContext, server: &Arc<ServerTls>, session: &Session) -> Vec<u8> {
    early_client(context, server, session).to_server
}

/// Sends a flight to a server; returns the early data that it read.
fn replay(server: &Arc<ServerTls>, flight: &[u8]) -> (Option<Vec<u8>>, Connection) {
    let mut connection = Connection::accept(&Acceptor::single(Arc::clone(server)));
    let (mut input, mut output) = (flight, Vec::new());
    loop {
        match connection.handshake(&mut input, &mut output, Load::default()) {
            Ok(HandshakeStatus::Pending) => {
                let mut cx = Context::from_waker(Waker::noop());
                if connection.poll_pending(&mut cx).is_pending() {
                    connection.lookup_timed_out();
                }
            }
            Ok(HandshakeStatus::Done) => break,
            Ok(HandshakeStatus::WantRead) | Err(_) => return (None, connection),
        }
    }
    assert!(connection.is_early_data() && !connection.is_established());
    let (mut data, mut buffer) = (Vec::new(), [0; 1000]);
    while let Ok(ReadStatus::Data(count)) = connection.read(&mut input, &mut output, &mut buffer) {
        data.extend_from_slice(&buffer[..count]);
    }
    (Some(data), connection)
}

fn verdict(server: &Arc<ServerTls>, flight: &[u8]) -> Option<EarlyVerdict> {
    let (data, connection) = replay(server, flight);
    let verdict = connection.early_verdict();
    assert_eq!(data.is_some(), verdict == Some(EarlyVerdict::Accepted));
    assert!(data.is_none_or(|data| data == REQUEST));
    verdict
}

#[test]
fn a_request_is_read_and_answered_before_the_handshake_is_over() {
    let stats = Arc::new(SessionStats::default());
    let server = build(&ServerSettings {
        session_stats: Some(Arc::clone(&stats)),
        ..early_settings()
    });
    let context = tls13();
    let session = ticket(&context, &server);
    let mut pair = early_client(&context, &server, &session);
    let mut input = &pair.to_server[..];
    let status = pair
        .server
        .handshake(&mut input, &mut pair.to_client, pair.load);
    assert_eq!(status, Ok(HandshakeStatus::Done));
    assert!(pair.server.is_early_data() && !pair.server.is_established());
    assert_eq!(pair.server.early_verdict(), Some(EarlyVerdict::Accepted));
    assert_eq!(pair.server.info().map(|info| info.early_data()), Some("1"));
    assert!(!pair.server.settle_ktls(true) && !pair.server.wants_kernel(u64::MAX));
    assert!(matches!(pair.server.ktls(), crate::Ktls::Pending));
    let mut buffer = [0; 100];
    let read = pair
        .server
        .read(&mut input, &mut pair.to_client, &mut buffer);
    assert_eq!(read, Ok(ReadStatus::Data(REQUEST.len())));
    assert_eq!(&buffer[..REQUEST.len()], REQUEST);
    pair.to_server.clear();
    // The answer, in several records, in the server's first flight.
    let response = data(40_000);
    assert_eq!(pair.down(&response), response);
    assert!(pair.client.was_early_data_accepted());
    assert!(pair.client.is_session_reused());
    assert!(pair.client.take_session().is_some(), "tickets came with it");
    assert_eq!(pair.up(b"more"), b"more");
    assert!(!pair.server.is_early_data() && pair.server.is_established());
    assert_eq!(pair.server.info().map(|info| info.early_data()), Some(""));
    assert_eq!(pair.down(b"done"), b"done");
    assert_eq!(stats.early_data(EarlyVerdict::Accepted), 1);
    assert_eq!(
        (stats.full(), stats.resumed(crate::Resumed::Ticket)),
        (1, 1)
    );
}

/// Until it is over nobody else could answer for it; what became of it goes along.
#[test]
fn a_connection_moves_once_its_early_data_is_over() {
    let server = build(&early_settings());
    let context = tls13();
    let session = ticket(&context, &server);
    let mut pair = early_client(&context, &server, &session);
    let mut input = &pair.to_server[..];
    let status = pair
        .server
        .handshake(&mut input, &mut pair.to_client, pair.load);
    assert_eq!(status, Ok(HandshakeStatus::Done));
    let mut buffer = [0; 100];
    let read = pair
        .server
        .read(&mut input, &mut pair.to_client, &mut buffer);
    assert_eq!(read, Ok(ReadStatus::Data(REQUEST.len())));
    pair.to_server.clear();
    assert_eq!(pair.server.check_packable(), Err(NotPackable::EarlyData));
    let acceptor = Acceptor::single(Arc::clone(&server));
    let fresh = || Connection::accept(&acceptor);
    let stays = std::mem::replace(&mut pair.server, fresh()).pack();
    let (stays, reason) = *stays.expect_err("it reads early data");
    assert_eq!(reason, NotPackable::EarlyData);
    pair.server = stays;
    assert_eq!(pair.down(b"early answer"), b"early answer");
    assert_eq!(pair.up(b"more"), b"more");
    let packed = std::mem::replace(&mut pair.server, fresh()).pack();
    let packed = packed.expect("the handshake is over");
    pair.server = Connection::unpack(&acceptor, packed).expect("of this version");
    assert_eq!(pair.server.early_verdict(), Some(EarlyVerdict::Accepted));
    assert_eq!(pair.server.resumed(), Some(crate::Resumed::Ticket));
    assert!(!pair.server.is_early_data());
    assert_eq!(pair.up(b"request"), b"request");
    assert_eq!(pair.down(&data(40_000)), data(40_000));
}

#[test]
fn a_flight_is_accepted_once_and_its_client_can_go_on() {
    let server = build(&early_settings());
    let context = tls13();
    let session = ticket(&context, &server);
    let first = flight(&context, &server, &session);
    assert_eq!(verdict(&server, &first), Some(EarlyVerdict::Accepted));
    for _ in 0..100 {
        assert_eq!(verdict(&server, &first), Some(EarlyVerdict::Replayed));
    }
    let second = flight(&context, &server, &session);
    assert_eq!(verdict(&server, &second), Some(EarlyVerdict::Accepted));
}

#[test]
fn a_refusal_costs_a_round_trip_and_the_next_ticket_allows_early_data_again() {
    let server = build(&early_settings());
    let context = tls13();
    let session = ticket(&context, &server);
    let mut pair = early_client(&context, &server, &session);
    // Someone was faster with the same bytes.
    assert_eq!(
        verdict(&server, &pair.to_server.clone()),
        Some(EarlyVerdict::Accepted)
    );
    pair.handshake().expect("it goes on in one round trip");
    assert_eq!(pair.server.early_verdict(), Some(EarlyVerdict::Replayed));
    assert!(!pair.server.is_early_data());
    assert!(pair.client.is_session_reused());
    assert!(!pair.client.was_early_data_accepted());
    assert_eq!(pair.up(REQUEST), REQUEST, "sent again as ordinary data");
    let session = pair.session().expect("a ticket");
    assert!(session.takes_early_data());
    let again = flight(&context, &server, &session);
    assert_eq!(verdict(&server, &again), Some(EarlyVerdict::Accepted));
}

#[test]
fn the_binder_is_checked_with_every_suite() {
    let server = build(&early_settings());
    for suite in [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
    ] {
        let context = client(|builder| {
            super::version(builder, ProtocolVersion::Tls13);
            builder.set_ciphersuites(suite).expect("known");
        });
        let session = ticket(&context, &server);
        let flight = flight(&context, &server, &session);
        let hello_bytes = 5 + usize::from(u16::from_be_bytes([flight[3], flight[4]]));
        let mut forged = flight.clone();
        forged[hello_bytes - 1] ^= 1;
        assert_eq!(
            verdict(&server, &forged),
            Some(EarlyVerdict::BadBinder),
            "{suite}"
        );
        assert_eq!(
            verdict(&server, &flight),
            Some(EarlyVerdict::Accepted),
            "{suite}"
        );
    }
}

#[test]
fn a_ticket_has_its_share_of_flights_and_a_new_one_another() {
    let server = build(&early_settings());
    let context = tls13();
    let session = ticket(&context, &server);
    for n in 0..crate::MAX_FLIGHTS_PER_TICKET + 3 {
        let expected = if n < crate::MAX_FLIGHTS_PER_TICKET {
            EarlyVerdict::Accepted
        } else {
            EarlyVerdict::TicketExhausted
        };
        let flight = flight(&context, &server, &session);
        assert_eq!(verdict(&server, &flight), Some(expected), "flight {n}");
    }
    let fresh = ticket(&context, &server);
    let flight = flight(&context, &server, &fresh);
    assert_eq!(verdict(&server, &flight), Some(EarlyVerdict::Accepted));
}

#[test]
fn nodes_that_share_a_store_accept_a_flight_once() {
    let store = MemoryStore::new();
    let settings = || ServerSettings {
        shared_sessions: Some(shared(&store, 1)),
        ..early_settings()
    };
    let nodes = [(); 3].map(|()| build(&settings()));
    let context = tls13();
    let session = ticket(&context, &nodes[0]);
    for first in 0..3 {
        let flight = flight(&context, &nodes[0], &session);
        for turn in 0..6 {
            let expected = if turn == 0 {
                EarlyVerdict::Accepted
            } else {
                EarlyVerdict::Replayed
            };
            let node = &nodes[(first + turn) % 3];
            assert_eq!(verdict(node, &flight), Some(expected), "turn {turn}");
        }
    }
    for (mood, expected) in [
        (Mood::Slow, EarlyVerdict::StoreTimeout),
        (Mood::Dead, EarlyVerdict::StoreError),
    ] {
        *lock(&store.mood) = mood;
        let flight = flight(&context, &nodes[0], &session);
        assert_eq!(verdict(&nodes[0], &flight), Some(expected));
        *lock(&store.mood) = Mood::Well;
        // In doubt it stays refused where it was seen.
        assert_eq!(verdict(&nodes[0], &flight), Some(EarlyVerdict::Replayed));
    }
}

#[test]
fn opaque_tickets_carry_early_data_across_nodes() {
    let store = MemoryStore::new();
    let settings = || ServerSettings {
        tickets: false,
        ticket_keys: Vec::new(),
        session_cache: SessionCacheSetting::Shared(Arc::new(SessionCache::new(1 << 20))),
        shared_sessions: Some(shared(&store, 1)),
        ..early_settings()
    };
    let [ours, theirs] = [(); 2].map(|()| build(&settings()));
    let context = tls13();
    let session = ticket(&context, &ours);
    let flight = flight(&context, &ours, &session);
    assert_eq!(verdict(&theirs, &flight), Some(EarlyVerdict::Accepted));
    assert_eq!(verdict(&ours, &flight), Some(EarlyVerdict::Replayed));
    assert_eq!(verdict(&theirs, &flight), Some(EarlyVerdict::Replayed));
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let context = tls13();
    let late = |settings: ServerSettings| ServerSettings {
        early_data: Some(EarlyData {
            register: Arc::new(ReplayRegister::new(100, unix_time_s() + 10).expect("memory")),
        }),
        ..settings
    };
    let full = |settings: ServerSettings| {
        let register = Arc::new(ReplayRegister::new(1, 0).expect("memory"));
        for n in 0..1000_u32 {
            let ticket = *sealane_awslc::sha256(&n.to_be_bytes())
                .first_chunk()
                .expect("32 bytes");
            let flight = crate::Flight {
                ticket,
                binder: ticket,
            };
            register.claim(&flight, 0, unix_time_s());
        }
        ServerSettings {
            early_data: Some(EarlyData { register }),
            ..settings
        }
    };
    type Change<'a> = &'a dyn Fn(ServerSettings) -> ServerSettings;
    let cases: [(Change<'_>, EarlyVerdict); 5] = [
        (&late, EarlyVerdict::BeforeRegister),
        (&full, EarlyVerdict::RegisterFull),
        (
            &|settings| ServerSettings {
                ticket_keys: vec![Secret::new(vec![4; 48])],
                ..settings
            },
            EarlyVerdict::NoSession,
        ),
        (
            &|settings| ServerSettings {
                server_names: vec!["other.test".to_owned()],
                ..settings
            },
            EarlyVerdict::NoSession,
        ),
        (
            &|settings| ServerSettings {
                groups: Some("P-384".to_owned()),
                ..settings
            },
            EarlyVerdict::Unsuitable,
        ),
    ];
    for (change, expected) in cases {
        let session = ticket(&context, &build(&early_settings()));
        let server = build(&change(early_settings()));
        let mut pair = early_client(&context, &server, &session);
        pair.handshake().expect("without early data");
        assert_eq!(pair.server.early_verdict(), Some(expected));
        assert_eq!(pair.up(REQUEST), REQUEST, "{expected:?}");
    }
}

#[test]
fn early_data_needs_the_same_application_protocol() {
    let context = |protocol: &'static [u8]| {
        client(|builder| {
            super::version(builder, ProtocolVersion::Tls13);
            builder.set_alpn(&[protocol]).expect("valid");
        })
    };
    let settings = |alpn: &'static [u8]| ServerSettings {
        alpn: vec![alpn.into()],
        ..early_settings()
    };
    let (ours, theirs) = (build(&settings(b"http/1.1")), build(&settings(b"h2")));
    let session = ticket(&context(b"http/1.1"), &ours);
    let flight = flight(&context(b"http/1.1"), &ours, &session);
    assert_eq!(verdict(&ours, &flight), Some(EarlyVerdict::Accepted));
    // A server that would choose another one cannot take what was meant for the first.
    let mut pair = early_client(&context(b"http/1.1"), &theirs, &session);
    assert!(pair.handshake().is_err(), "no protocol in common");
}

#[test]
fn without_the_directive_nothing_is_taken_or_promised() {
    let context = tls13();
    let session = ticket(&context, &build(&early_settings()));
    let off = build(&ServerSettings {
        early_data: None,
        shared_sessions: Some(shared(&MemoryStore::new(), 1)),
        ..early_settings()
    });
    let mut pair = early_client(&context, &off, &session);
    pair.handshake().expect("without early data");
    assert!(pair.client.is_session_reused());
    assert_eq!(pair.server.early_verdict(), None);
    assert!(!pair.session().expect("a ticket").takes_early_data());
}

#[test]
fn forged_hellos_leave_nothing_in_the_register() {
    let register = register();
    let server = build(&ServerSettings {
        early_data: Some(EarlyData {
            register: Arc::clone(&register),
        }),
        ..early_settings()
    });
    let context = tls13();
    let session = ticket(&context, &server);
    let flight = flight(&context, &server, &session);
    let hello_bytes = 5 + usize::from(u16::from_be_bytes([flight[3], flight[4]]));
    // The binder is the last of the hello.
    for at in hello_bytes - 32..hello_bytes {
        let mut forged = flight.clone();
        forged[at] ^= 1;
        assert_eq!(verdict(&server, &forged), Some(EarlyVerdict::BadBinder));
    }
    assert_eq!(register.flights(unix_time_s()), 0);
    assert_eq!(verdict(&server, &flight), Some(EarlyVerdict::Accepted));
    assert_eq!(register.flights(unix_time_s()), 1);
}

#[test]
fn a_client_with_a_second_group_is_retried_without_early_data() {
    let context = client(|builder| {
        super::version(builder, ProtocolVersion::Tls13);
        let groups = ["X25519", "P-256"].map(|name| group_by_name(name).expect("known"));
        builder.set_groups(&groups).expect("valid");
    });
    let first = build(&early_settings());
    let session = ticket(&context, &first);
    let server = build(&ServerSettings {
        groups: Some("P-256".to_owned()),
        ..early_settings()
    });
    let mut pair = early_client(&context, &server, &session);
    pair.handshake().expect("after a HelloRetryRequest");
    assert_eq!(pair.server.early_verdict(), Some(EarlyVerdict::Unsuitable));
    assert_eq!(pair.up(REQUEST), REQUEST);
    assert!(pair.session().expect("a ticket").takes_early_data());
}

fn stored(store: &Arc<MemoryStore>) -> SharedSessions {
    shared(store, 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A flight and whatever is made of it by changing bytes, cutting, splitting
    /// records or adding to them: one of them at most is accepted by any of the nodes.
    #[test]
    fn of_a_flight_and_all_its_mangled_replays_one_is_accepted(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..6), 1..40),
        original_at in any::<prop::sample::Index>(),
    ) {
        let store = MemoryStore::new();
        let nodes = [(); 2].map(|()| build(&ServerSettings {
            shared_sessions: Some(stored(&store)),
            ..early_settings()
        }));
        let context = tls13();
        let session = ticket(&context, &nodes[0]);
        let flight = flight(&context, &nodes[0], &session);
        let mut attempts: Vec<Vec<u8>> = changes.iter().map(|(at, value, kind)| mangled(&flight, at.index(flight.len()), *value, *kind)).collect();
        attempts.insert(original_at.index(attempts.len() + 1), flight);
        let mut accepted = 0;
        for (n, attempt) in attempts.iter().enumerate() {
            accepted += u32::from(replay(&nodes[n % 2], attempt).0.is_some());
        }
        prop_assert_eq!(accepted, 1);
    }
}

fn mangled(flight: &[u8], at: usize, value: u8, kind: u8) -> Vec<u8> {
    let mut bytes = flight.to_vec();
    match kind {
        0 => bytes[at] ^= value | 1,
        1 => bytes.truncate(at),
        2 => bytes.insert(at, value),
        3 => drop(bytes.remove(at)),
        // The hello in two records: its message is the same.
        4 => {
            let hello = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
            let first = 1 + at % (hello - 1);
            let message = bytes[5..5 + hello].to_vec();
            let rest = bytes[5 + hello..].to_vec();
            bytes.clear();
            for part in [&message[..first], &message[first..]] {
                let length = u16::try_from(part.len()).expect("a part of a record");
                bytes.extend_from_slice(&[22, 3, 1]);
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.extend_from_slice(part);
            }
            bytes.extend_from_slice(&rest);
        }
        // The record's version is not part of the message.
        _ => bytes[2] = value % 4,
    }
    bytes
}
