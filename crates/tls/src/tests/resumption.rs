//! Tickets and session ids.

use sealane_awslc::{CLOCK_TOLERANCE_S, unix_time_s};

use super::*;
use crate::{EarlyData, RingSettings, SessionCache, SessionCacheSetting, SessionState, TicketRing};

fn resumes(context: &ClientContext, first: &Arc<ServerTls>, second: &Arc<ServerTls>) -> bool {
    let mut pair = Pair::with(context, first);
    pair.handshake().expect("a full handshake");
    assert_eq!(
        pair.server.info().map(|info| info.session_reused()),
        Some(".")
    );
    let Some(session) = pair.session() else {
        return false;
    };
    let mut pair = Pair::resuming(context, second, &session);
    pair.handshake().expect("resumed or not, it works");
    assert_eq!(pair.up(b"hello"), b"hello");
    let reused = pair.client.is_session_reused();
    assert_eq!(
        pair.server.info().map(|info| info.session_reused()),
        Some(if reused { "r" } else { "." })
    );
    reused
}

#[test]
fn tickets_resume_under_every_version() {
    let server = server(&settings(&[p256()]));
    for version in [
        ProtocolVersion::Tls10,
        ProtocolVersion::Tls11,
        ProtocolVersion::Tls12,
        ProtocolVersion::Tls13,
    ] {
        let context = client(|builder| super::version(builder, version));
        assert!(resumes(&context, &server, &server), "{version}");
    }
}

#[test]
fn without_tickets_nothing_resumes_unless_a_cache_keeps_it() {
    let off = server(&ServerSettings {
        tickets: false,
        ..settings(&[p256()])
    });
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        assert!(
            !resumes(
                &client(|builder| super::version(builder, version)),
                &off,
                &off
            ),
            "{version}"
        );
    }
    for session_cache in [
        SessionCacheSetting::Builtin { sessions: 100 },
        SessionCacheSetting::Shared(Arc::new(SessionCache::new(1 << 20))),
    ] {
        let config = ServerSettings {
            tickets: false,
            session_cache,
            ..settings(&[p256()])
        };
        let server = server(&config);
        let context = client(|builder| super::version(builder, ProtocolVersion::Tls12));
        assert!(resumes(&context, &server, &server));
    }
}

#[test]
fn a_shared_cache_serves_another_server_with_the_same_identity_only() {
    let cache = Arc::new(SessionCache::new(1 << 20));
    let config = ServerSettings {
        session_cache: SessionCacheSetting::Shared(Arc::clone(&cache)),
        server_names: vec!["a.test".to_owned(), "b.test".to_owned()],
        ..settings(&[p256()])
    };
    let same = ServerSettings {
        server_names: vec!["B.test".to_owned(), "a.test".to_owned()],
        ..config.clone()
    };
    let other = ServerSettings {
        server_names: vec!["other.test".to_owned()],
        ..config.clone()
    };
    let [config, same, other] = [config, same, other].map(|config| server(&config));
    let context = client(|builder| {
        super::version(builder, ProtocolVersion::Tls12);
        builder.set_tickets_enabled(false);
    });
    assert!(resumes(&context, &config, &same));
    assert!(!resumes(&context, &config, &other));
    assert!(cache.len() >= 2 && cache.bytes() > 0);
}

#[test]
fn tickets_resume_on_another_node_with_the_same_key_file() {
    let keys = vec![Secret::new(vec![5; 80])];
    let config = ServerSettings {
        ticket_keys: keys,
        ..settings(&[p256()])
    };
    let [first, second] = [server(&config), server(&config)];
    let stranger = server(&ServerSettings {
        ticket_keys: vec![Secret::new(vec![6; 48])],
        ..config
    });
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        let context = client(|builder| super::version(builder, version));
        assert!(resumes(&context, &first, &second), "{version}");
        assert!(!resumes(&context, &first, &stranger), "{version}");
    }
}

#[test]
fn a_ring_given_from_outside_survives_a_rebuild_and_rotates() {
    let rotation = RingSettings {
        rotation_s: 10,
        lifetime_s: 300,
        overlap_s: 0,
    };
    let ring = Arc::new(TicketRing::rotating(rotation, 0).expect("memory"));
    let config = ServerSettings {
        ticket_ring: Some(Arc::clone(&ring)),
        ..settings(&[rsa(), p256()])
    };
    let [before, after] = [server(&config), server(&config)];
    let context = client(|_| {});
    assert!(resumes(&context, &before, &after));
    assert!(ring.rotate(10).expect("memory"));
    assert!(resumes(&context, &after, &after));
}

#[test]
fn the_number_of_tickets_is_configurable() {
    let with = |count: &str| {
        let commands = vec![("NumTickets".to_owned(), count.to_owned())];
        let server = server(&ServerSettings {
            conf_commands: commands,
            ..settings(&[p256()])
        });
        let mut pair = Pair::with(
            &client(|builder| super::version(builder, ProtocolVersion::Tls13)),
            &server,
        );
        pair.handshake().expect("defaults");
        pair.server
            .write(b"", 0, &mut pair.to_client)
            .expect("established");
        pair.to_client.len()
    };
    assert_eq!(with("0"), 0);
    assert!(with("2") > with("1"));
}

#[test]
fn an_old_ticket_resumes_and_brings_a_new_one_in_tls13() {
    let rotation = RingSettings {
        rotation_s: 100,
        lifetime_s: 300,
        overlap_s: 0,
    };
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        // Keys seal from when they were made on; libssl has a clock of its own.
        let start_s = unix_time_s() - 1000;
        let ring = Arc::new(TicketRing::rotating(rotation, start_s).expect("memory"));
        let server = server(&ServerSettings {
            ticket_ring: Some(Arc::clone(&ring)),
            ..settings(&[p256()])
        });
        let context = client(|builder| super::version(builder, version));
        let mut pair = Pair::with(&context, &server);
        pair.handshake().expect("full");
        let old = pair.session().expect("a ticket");
        assert!(ring.rotate(start_s + 100).expect("memory"));
        let mut pair = Pair::resuming(&context, &server, &old);
        pair.handshake().expect("resumed");
        assert!(pair.client.is_session_reused(), "{version}");
        let new = pair.session();
        assert_eq!(new.is_some(), version == ProtocolVersion::Tls13);
        // Until every ticket of the first key has ended, and none of the second.
        let mut at_s = start_s + 100;
        while at_s <= start_s + 100 + rotation.lifetime_s + CLOCK_TOLERANCE_S {
            at_s += 100;
            assert!(ring.rotate(at_s).expect("memory"));
        }
        for (session, expected) in [(Some(old), false), (new, true)] {
            let Some(session) = session else { continue };
            let mut pair = Pair::resuming(&context, &server, &session);
            pair.handshake().expect("resumed or full");
            assert_eq!(pair.client.is_session_reused(), expected, "{version}");
        }
    }
}

#[test]
fn a_session_is_not_bound_to_files_nor_to_the_key_of_a_renewed_certificate() {
    let keys = vec![Secret::new(vec![5; 80])];
    let config = |made: Made, label: &str| {
        let mut identity = made.identity();
        identity.chain_label = format!("{label}/cert.pem");
        identity.key_label = format!("{label}/key.pem");
        server(&ServerSettings {
            identities: vec![identity],
            ticket_keys: keys.clone(),
            ..settings(&[])
        })
    };
    let made = |name| make(&rcgen::PKCS_ECDSA_P256_SHA256, name);
    let ours = config(made("name.test"), "/etc/ssl");
    let renewed = config(made("name.test"), "/srv/tls");
    let other = config(made("other.test"), "/etc/ssl");
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        let context = client(|builder| super::version(builder, version));
        assert!(resumes(&context, &ours, &renewed), "{version}");
        assert!(!resumes(&context, &ours, &other), "{version}");
    }
}

#[test]
fn a_second_snapshot_resumes_what_the_first_began() {
    let state = SessionState::new();
    let rotation = RingSettings {
        rotation_s: 100,
        lifetime_s: 300,
        overlap_s: 0,
    };
    let snapshot = |tickets| {
        let now_s = unix_time_s();
        server(&ServerSettings {
            tickets,
            ticket_ring: Some(state.ring("", rotation, now_s).expect("memory")),
            session_cache: SessionCacheSetting::Shared(state.cache("SSL", 1 << 20)),
            early_data: Some(EarlyData {
                register: state.register(100, now_s).expect("memory"),
            }),
            session_stats: Some(Arc::clone(state.stats())),
            ..settings(&[p256()])
        })
    };
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        for tickets in [true, false] {
            let context = client(|builder| super::version(builder, version));
            let [before, after] = [(); 2].map(|()| snapshot(tickets));
            assert!(resumes(&context, &before, &after), "{version}, {tickets}");
        }
    }
    assert_eq!(state.stats().full(), 4, "counted together");
}
