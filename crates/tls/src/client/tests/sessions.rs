//! Resumption: offered where it may be, and nowhere else.

use super::*;

const PEER: &[u8] = b"127.0.0.1:443";

fn resumable() -> Arc<ServerTls> {
    static SERVER: OnceLock<Arc<ServerTls>> = OnceLock::new();
    let server = SERVER.get_or_init(|| root().leaf(&["a.test", "b.test"]).server());
    Arc::clone(server)
}

/// One connection; returns whether it resumed, as both ends see it.
fn connect(tls: &ClientTls, cache: &SessionCache, peer: &[u8], name: &str) -> bool {
    let server = resumable();
    let session = cache.get(tls, peer, Some(name), unix_time_s());
    let mut pair = Pair::resuming(tls, &server, name, session.as_ref());
    pair.handshake().expect("they agree");
    assert_eq!(pair.up(b"GET"), b"GET");
    assert_eq!(pair.down(b"body"), b"body");
    if let Some(session) = pair.client.take_session() {
        assert!(pair.client.take_session().is_none(), "handed out once");
        cache.put(peer, session);
    }
    let reused = pair.client.is_session_reused();
    let info = pair.server.info().expect("a server was chosen");
    assert_eq!(info.session_reused(), if reused { "r" } else { "." });
    reused
}

#[test]
fn the_second_connection_resumes() {
    for protocol in [Protocol::TlsV1_2, Protocol::TlsV1_3] {
        let tls = client(&only(protocol, &verifying(&root().pem())));
        let cache = SessionCache::default();
        assert!(!connect(&tls, &cache, PEER, "a.test"));
        for _ in 0..3 {
            assert!(connect(&tls, &cache, PEER, "a.test"), "{}", protocol.name());
        }
        assert_eq!(cache.key_count(), 1);
    }
}

#[test]
fn nothing_is_resumed_elsewhere() {
    let settings = verifying(&root().pem());
    let tls = client(&settings);
    let cache = SessionCache::default();
    assert!(!connect(&tls, &cache, PEER, "a.test"));
    assert!(!connect(&tls, &cache, PEER, "b.test"), "another name");
    assert!(
        !connect(&tls, &cache, b"other peer", "a.test"),
        "another peer"
    );
    let others = [
        ClientSettings {
            verify: false,
            ..settings.clone()
        },
        ClientSettings {
            verify_depth: 2,
            ..settings.clone()
        },
        verifying(&(root().pem() + &Ca::root("Another").pem())),
        ClientSettings {
            server_name: false,
            ..settings.clone()
        },
        ClientSettings {
            alpn: vec![b"http/1.1"],
            ..settings.clone()
        },
        ClientSettings {
            ciphers: "HIGH".to_owned(),
            ..settings.clone()
        },
        ClientSettings {
            identity: Some(root().leaf(&["client"]).identity()),
            ..settings.clone()
        },
    ];
    for other in &others {
        assert!(
            !connect(&client(other), &cache, PEER, "a.test"),
            "{other:?}"
        );
    }
    // The same settings, built again after a reload, are the same.
    assert!(connect(&client(&settings), &cache, PEER, "a.test"));
}

#[test]
fn a_session_is_not_offered_under_another_name_even_if_handed_over() {
    let settings = verifying(&root().pem());
    let (tls, cache, server) = (client(&settings), SessionCache::default(), resumable());
    assert!(!connect(&tls, &cache, PEER, "a.test"));
    let session = cache.get(&tls, PEER, Some("a.test"), unix_time_s());
    let session = session.expect("just put");
    let trusting_nobody = client(&verifying(&Ca::root("Another").pem()));
    for (tls, name) in [(&tls, "b.test"), (&trusting_nobody, "a.test")] {
        let mut pair = Pair::resuming(tls, &server, name, Some(&session));
        let end = pair.handshake();
        assert_eq!(end.is_ok(), name == "b.test");
        assert!(!pair.client.is_session_reused());
    }
    let mut pair = Pair::resuming(&tls, &server, "a.test", Some(&session));
    pair.handshake().expect("they agree");
    assert!(pair.client.is_session_reused());
}

#[test]
fn another_certificate_of_ours_is_another_client() {
    let tls = client(&verifying(&root().pem()));
    let cache = SessionCache::default();
    let [alice, bob] = ["alice", "bob"].map(|name| root().leaf(&[name]).identity());
    let with = |identity: &Identity| {
        tls.with_identity(Some(ClientIdentity::load(identity, None).expect("valid")))
    };
    assert!(!connect(&with(&alice), &cache, PEER, "a.test"));
    assert!(!connect(&with(&bob), &cache, PEER, "a.test"));
    assert!(!connect(&tls, &cache, PEER, "a.test"));
    // Loaded again it is the same.
    assert!(connect(&with(&alice), &cache, PEER, "a.test"));
}

#[test]
fn without_reuse_nothing_is_kept_or_offered() {
    for protocol in [Protocol::TlsV1_2, Protocol::TlsV1_3] {
        let settings = ClientSettings {
            session_reuse: false,
            ..only(protocol, &verifying(&root().pem()))
        };
        let (tls, cache) = (client(&settings), SessionCache::default());
        assert!(!connect(&tls, &cache, PEER, "a.test"));
        assert_eq!(cache.key_count(), 0);
        assert!(!connect(&tls, &cache, PEER, "a.test"));
    }
}

#[test]
fn tickets_of_tls13_serve_once_except_the_last() {
    let tls = client(&only(Protocol::TlsV1_3, &verifying(&root().pem())));
    let (cache, server) = (SessionCache::default(), resumable());
    for _ in 0..6 {
        let mut pair = Pair::new(&tls, &server, "a.test");
        pair.handshake().expect("they agree");
        assert_eq!(pair.down(b"body"), b"body");
        cache.put(PEER, pair.client.take_session().expect("a ticket"));
    }
    let take = || {
        let session = cache.get(&tls, PEER, Some("a.test"), unix_time_s());
        session
            .expect("there is one")
            .library()
            .to_bytes()
            .expect("encodes")
    };
    let taken: Vec<_> = (0..6).map(|_| take()).collect();
    for (n, one) in taken.iter().enumerate() {
        // Four are kept: three serve once, the oldest on and on.
        let before = taken[..n].contains(one);
        assert_eq!(before, n >= 4, "{n}");
    }
}

#[test]
fn what_has_ended_is_not_offered() {
    let tls = client(&verifying(&root().pem()));
    let cache = SessionCache::default();
    assert!(!connect(&tls, &cache, PEER, "a.test"));
    let far = unix_time_s() + 8 * 24 * 3600;
    assert!(cache.get(&tls, PEER, Some("a.test"), far).is_none());
    assert_eq!(cache.key_count(), 0, "and is dropped");
}

#[test]
fn the_cache_is_bounded_and_drops_what_was_not_used() {
    let tls = client(&verifying(&root().pem()));
    let (cache, server) = (SessionCache::new(32), resumable());
    let mut pair = Pair::new(&tls, &server, "a.test");
    pair.handshake().expect("they agree");
    assert_eq!(pair.down(b"body"), b"body");
    let session = pair.client.take_session().expect("a ticket");
    for n in 0..1000_u32 {
        cache.put(&n.to_be_bytes(), session.clone());
        let kept = cache.get(&tls, &0_u32.to_be_bytes(), Some("a.test"), unix_time_s());
        assert!(kept.is_some(), "used all the time, dropped after {n}");
    }
    assert!(cache.key_count() <= 32, "{}", cache.key_count());
}

#[test]
fn nothing_shows_a_secret() {
    let tls = client(&ClientSettings {
        identity: Some(root().leaf(&["client"]).identity()),
        ..verifying(&root().pem())
    });
    let cache = SessionCache::default();
    assert!(!connect(&tls, &cache, PEER, "a.test"));
    let session = cache.get(&tls, PEER, Some("a.test"), unix_time_s());
    assert_eq!(format!("{session:?}"), "Some(client::Session(redacted))");
    assert_eq!(format!("{cache:?}"), "client::SessionCache(1 servers)");
    let settings = ClientSettings {
        identity: Some(root().leaf(&["client"]).identity()),
        ..ClientSettings::default()
    };
    assert!(!format!("{settings:?}").contains("PRIVATE KEY"));
    assert!(!format!("{tls:?}").contains("PRIVATE KEY"));
}
