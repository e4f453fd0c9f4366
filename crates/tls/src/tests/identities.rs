//! Certificates that are found in the handshake.

use std::sync::{Mutex, PoisonError};

use super::*;
use crate::{
    CertificatePair, HelloFacts, IdentityAnswer, KeyHandle, Packed, Protocols, SelectServer,
    Selected,
};
use sealane_awslc::PrivateKey;

/// Pairs in memory that another thread replaces: one slot for each kind of key.
struct InMemory {
    server: Arc<ServerTls>,
    slots: Vec<Mutex<Arc<CertificatePair>>>,
    /// Whether finding them takes more than one step.
    takes_time: bool,
    asked: Mutex<Vec<String>>,
}

impl InMemory {
    fn new(made: &[Made], settings: &ServerSettings, takes_time: bool) -> Arc<Self> {
        Self::of(server(settings), made, takes_time)
    }

    fn of(server: Arc<ServerTls>, made: &[Made], takes_time: bool) -> Arc<Self> {
        Arc::new(Self {
            server,
            slots: made.iter().map(|made| Mutex::new(loaded(made))).collect(),
            takes_time,
            asked: Mutex::default(),
        })
    }

    fn replace(&self, slot: usize, made: &Made) {
        *lock(&self.slots[slot]) = loaded(made);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn loaded(made: &Made) -> Arc<CertificatePair> {
    Arc::new(CertificatePair::load(&made.identity()).expect("a pair"))
}

impl SelectServer for InMemory {
    fn select(&self, _name: Option<&str>) -> Selected {
        Selected::Server(Arc::clone(&self.server), 7)
    }

    fn identities(
        &self,
        server: &Arc<ServerTls>,
        token: u32,
        hello: HelloFacts<'_>,
    ) -> IdentityAnswer {
        assert_eq!(token, 7);
        lock(&self.asked).push(hello.server_name().to_owned());
        let slots = self.slots.iter().map(|slot| Arc::clone(&lock(slot)));
        let pairs = slots.collect::<Vec<_>>();
        if let Some(known) = server.known_identities(&pairs) {
            return IdentityAnswer::Ready(Ok(known));
        }
        let server = Arc::clone(server);
        let build = move || server.identities(&pairs).map_err(|error| error.to_string());
        match self.takes_time {
            false => IdentityAnswer::Ready(build()),
            true => IdentityAnswer::Pending(Box::pin(async move { build() })),
        }
    }
}

fn evaluating() -> ServerSettings {
    ServerSettings {
        evaluates_certificates: true,
        ..settings(&[])
    }
}

fn pair(source: &Arc<InMemory>, client: &ClientContext) -> Pair {
    let acceptor = Acceptor::new(Arc::clone(source) as _);
    Pair::new(client, &acceptor, Some("Name.test"))
}

/// Whether the client got this one.
fn was_sent(mut pair: Pair, made: &Made) -> bool {
    assert_eq!(pair.down(b"data"), b"data");
    let packed = pair.server.pack().map_err(|back| back.1).expect("idle");
    server(&settings(std::slice::from_ref(made))).has_certificate(packed.certificate())
}

#[test]
fn clients_get_what_the_source_has_now() {
    for takes_time in [false, true] {
        let [first, second] =
            ["first.test", "second.test"].map(|name| make(&rcgen::PKCS_ECDSA_P256_SHA256, name));
        let source = InMemory::new(std::slice::from_ref(&first), &evaluating(), takes_time);
        let context = client(|_| {});
        let handshake = |expected: &Made, steps: usize| {
            let mut pair = pair(&source, &context);
            pair.handshake().expect("a certificate");
            assert_eq!(pair.pending, steps);
            assert!(was_sent(pair, expected));
        };
        handshake(&first, usize::from(takes_time));
        // What was built once is at hand.
        handshake(&first, 0);
        source.replace(0, &second);
        handshake(&second, usize::from(takes_time));
        assert_eq!(*lock(&source.asked), ["Name.test"; 3]);
    }
}

#[test]
fn pairs_of_two_kinds_are_chosen_from_and_replaced_on_their_own() {
    let source = InMemory::new(&[rsa(), p256()], &evaluating(), true);
    let only = |name: &str| {
        client(|builder| {
            version(builder, ProtocolVersion::Tls12);
            builder.set_cipher_list(name).expect("a suite");
        })
    };
    let (for_rsa, for_ecdsa) = (
        only("ECDHE-RSA-AES128-GCM-SHA256"),
        only("ECDHE-ECDSA-AES128-GCM-SHA256"),
    );
    let handshake = |context: &ClientContext, expected: &Made| {
        let mut pair = pair(&source, context);
        pair.handshake().expect("a certificate");
        assert!(was_sent(pair, expected));
    };
    handshake(&for_rsa, &rsa());
    handshake(&for_ecdsa, &p256());
    let new = make(&rcgen::PKCS_ECDSA_P256_SHA256, "new.test");
    source.replace(1, &new);
    handshake(&for_rsa, &rsa());
    handshake(&for_ecdsa, &new);
}

#[test]
fn sessions_belong_to_the_names_of_the_certificate() {
    let [first, renewed, other] =
        ["a.test", "a.test", "b.test"].map(|name| make(&rcgen::PKCS_ECDSA_P256_SHA256, name));
    let source = InMemory::new(&[first], &evaluating(), false);
    let context = client(|_| {});
    let mut begun = pair(&source, &context);
    begun.handshake().expect("a certificate");
    let session = begun.session().expect("a ticket");
    for (made, resumes) in [(&renewed, true), (&other, false)] {
        source.replace(0, made);
        let mut again = pair(&source, &context);
        again.client.set_session(&session).expect("a new one");
        again.handshake().expect("a handshake either way");
        let reused = again.server.info().expect("it is done").session_reused();
        assert_eq!(reused, if resumes { "r" } else { "." });
    }
}

#[test]
fn without_certificates_the_client_gets_an_alert() {
    let source = InMemory::new(&[], &evaluating(), false);
    let mut failing = pair(&source, &client(|_| {}));
    match failing.handshake() {
        Err(Failure::Server(Error::Certificate(why))) => {
            assert_eq!(why, "no \"ssl_certificate\" is defined");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(failing.to_client, [21, 3, 3, 0, 2, 2, 80]);
}

#[test]
fn names_that_lead_out_of_a_directory_are_not_shown() {
    let source = InMemory::new(&[p256()], &evaluating(), false);
    let acceptor = Acceptor::new(Arc::clone(&source) as _);
    let names = ["../secret", "a/b", "..", "a..b", "."];
    for name in names {
        let mut pair = Pair::new(&client(|_| {}), &acceptor, Some(name));
        pair.handshake().expect("the default server's");
    }
    assert_eq!(*lock(&source.asked), [""; 5]);
}

#[test]
fn a_connection_moves_without_its_certificate() {
    let source = InMemory::new(&[p256()], &evaluating(), false);
    let mut begun = pair(&source, &client(|_| {}));
    begun.handshake().expect("a certificate");
    assert_eq!(begun.down(b"here"), b"here");
    let packed = begun.server.pack().map_err(|back| back.1).expect("idle");
    let before = *packed.certificate();
    let there = InMemory::new(&[rsa()], &evaluating(), false);
    let acceptor = Acceptor::new(there as _);
    begun.server = Connection::unpack(&acceptor, packed).expect("a server");
    assert_eq!(begun.down(b"there"), b"there");
    assert_eq!(begun.up(b"back"), b"back");
    let again: Packed = begun.server.pack().map_err(|back| back.1).expect("idle");
    assert_eq!(*again.certificate(), before);
}

#[test]
fn settings_that_a_key_must_meet_are_those_of_the_server() {
    let strict = ServerSettings {
        ciphers: "ALL:@SECLEVEL=4".to_owned(),
        protocols: [Protocol::TlsV1_2].into_iter().collect::<Protocols>(),
        ..evaluating()
    };
    let (server, _) = ServerTls::build(&strict).expect("valid settings");
    let source = InMemory::of(Arc::new(server), &[rsa()], false);
    let mut failing = pair(&source, &client(|_| {}));
    match failing.handshake() {
        Err(Failure::Server(Error::Certificate(why))) => {
            assert!(why.contains("ee key too small"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

/// A pair whose key another process holds is judged like one that is here, in the same words.
#[test]
fn handles_of_keys_are_judged_as_keys() {
    let all = [
        rsa(),
        make(&rcgen::PKCS_ECDSA_P256_SHA256, "one.test"),
        make(&rcgen::PKCS_ECDSA_P256_SHA256, "two.test"),
        make(&rcgen::PKCS_ED25519, "three.test"),
    ];
    for certificate in &all {
        for key in &all {
            let here = identity(&certificate.chain_pem, &key.key_pem);
            let private = PrivateKey::from_pem(key.key_pem.as_bytes(), &[]).expect("a key");
            let handle = KeyHandle::of(&private).expect("a usual key");
            let held = Identity {
                key_pem: Secret::new(handle.to_bytes().to_vec()),
                ..here.clone()
            };
            let judged = |identity: &Identity| {
                let loaded = CertificatePair::load(identity);
                loaded.map(drop).map_err(|error| error.to_string())
            };
            assert_eq!(judged(&held), judged(&here));
            let store = |identity: &Identity| {
                let seal = crate::StoreSeal::from_identity(identity).expect("a key");
                seal.session_key(b"id").as_str().to_owned()
            };
            assert_eq!(
                store(&held),
                store(&here),
                "nodes with and without one agree"
            );
        }
    }
}
