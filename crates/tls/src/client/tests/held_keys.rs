//! A certificate whose key another process holds.

use std::sync::Mutex;
use std::task::{Context, Waker};

use sealane_awslc::PrivateKey;

use super::*;
use crate::accelerator::Job;
use crate::sessions::identity::{ClientVerification, VerifyClient};
use crate::{HandshakeState, KeyHandle, KeyHolder, KeyId, Route};

/// Keeps operations until the test says what becomes of them.
#[derive(Debug, Default)]
struct Elsewhere {
    jobs: Mutex<Vec<(KeyId, Job)>>,
}

impl KeyHolder for Elsewhere {
    fn submit(&self, key: KeyId, _route: Route, job: Job) {
        self.jobs.lock().expect("no panic").push((key, job));
    }
}

impl Elsewhere {
    fn take(&self) -> Option<(KeyId, Job)> {
        self.jobs.lock().expect("no panic").pop()
    }
}

/// A client whose key `elsewhere` has, and the key.
fn client_with_held_key(protocol: Protocol) -> (ClientTls, Arc<Elsewhere>, PrivateKey) {
    let ours = root().leaf(&["client.test"]);
    let key = PrivateKey::from_pem(ours.key_pem.as_bytes(), &[]).expect("it is one");
    let handle = KeyHandle::of(&key).expect("a usual key");
    let (elsewhere, handshakes) = (Arc::new(Elsewhere::default()), HandshakeState::new());
    handshakes.set_key_holder(Arc::clone(&elsewhere) as _);
    let identity = Identity {
        key_pem: Secret::new(handle.to_bytes().to_vec()),
        ..ours.identity()
    };
    let settings = ClientSettings {
        identity: Some(identity),
        handshakes: Some(handshakes),
        ..verifying(&root().pem())
    };
    (client(&only(protocol, &settings)), elsewhere, key)
}

fn asking_server() -> Arc<ServerTls> {
    server(&ServerSettings {
        identities: vec![root().leaf(&["a.test"]).identity()],
        client_verification: ClientVerification {
            mode: VerifyClient::On,
            named: pem(&root().pem()),
            ..ClientVerification::default()
        },
        ..ServerSettings::default()
    })
}

/// Runs both sides until the client waits for its key.
fn until_pending(pair: &mut Pair) {
    for _ in 0..100 {
        let status = deliver(&mut pair.to_client, usize::MAX, |input| {
            pair.client.handshake(input, &mut pair.to_server)
        });
        if status.expect("nothing has failed") == Handshake::Pending {
            return;
        }
        deliver(&mut pair.to_server, usize::MAX, |input| {
            pair.server
                .handshake(input, &mut pair.to_client, Load::default())
        })
        .expect("the server agrees");
    }
    panic!("the key is not asked for");
}

const VERSIONS: [Protocol; 2] = [Protocol::TlsV1_2, Protocol::TlsV1_3];

#[test]
fn the_handshake_waits_for_the_signature_and_goes_on() {
    for protocol in VERSIONS {
        let (tls, elsewhere, key) = client_with_held_key(protocol);
        let mut pair = Pair::new(&tls, &asking_server(), "a.test");
        until_pending(&mut pair);
        let (id, job) = elsewhere.take().expect("it was asked");
        assert_eq!(id, KeyId::of(&key).expect("a usual key"));
        // It is asked once, however often the handshake is called.
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(pair.client.poll_pending(&mut cx).is_pending());
            let status = pair.client.handshake(&mut &[][..], &mut pair.to_server);
            assert_eq!(status, Ok(Handshake::Pending));
        }
        assert!(elsewhere.take().is_none());
        assert!(!pair.client.is_established());
        let signature = key.perform(job.operation()).expect("it fits");
        job.complete(Some(signature));
        assert!(pair.client.poll_pending(&mut cx).is_ready());
        assert!(pair.client.poll_pending(&mut cx).is_ready());
        assert_eq!(pair.handshake(), Ok(()), "{protocol:?}");
        assert_eq!(pair.up(b"a request"), b"a request");
        assert_eq!(pair.down(b"a response"), b"a response");
        assert!(pair.server.client_chain().is_some(), "{protocol:?}");
    }
}

#[test]
fn an_operation_that_fails_ends_the_handshake_with_an_alert() {
    for protocol in VERSIONS {
        let (tls, elsewhere, _) = client_with_held_key(protocol);
        let answer = |result: Option<&[u8]>| {
            let mut pair = Pair::new(&tls, &asking_server(), "a.test");
            until_pending(&mut pair);
            let (_, job) = elsewhere.take().expect("it was asked");
            job.complete(result.map(|bytes| Secret::new(bytes.to_vec())));
            pair.to_server.clear();
            let status = pair.client.handshake(&mut &[][..], &mut pair.to_server);
            (pair, status)
        };
        for failed in [None, Some(&[1; 1000][..])] {
            let (mut pair, status) = answer(failed);
            assert!(matches!(status, Err(Error::Library(_))), "{status:?}");
            assert_eq!(failed.is_none(), !pair.to_server.is_empty(), "an alert");
            let again = pair.client.handshake(&mut &[][..], &mut pair.to_server);
            assert_eq!(again, Err(Error::NotEstablished));
        }
        // It is for the server to find that this is no signature.
        for wrong in [&b""[..], &[1; 70]] {
            let (mut pair, status) = answer(Some(wrong));
            assert!(status.is_ok(), "{status:?}");
            let refused = deliver(&mut pair.to_server, usize::MAX, |input| {
                pair.server
                    .handshake(input, &mut pair.to_client, Load::default())
            });
            assert!(refused.is_err(), "{protocol:?}: {refused:?}");
        }
    }
}

#[test]
fn a_connection_that_ends_meanwhile_cancels_its_operation() {
    for protocol in VERSIONS {
        let (tls, elsewhere, _) = client_with_held_key(protocol);
        let mut pair = Pair::new(&tls, &asking_server(), "a.test");
        until_pending(&mut pair);
        let (_, job) = elsewhere.take().expect("it was asked");
        assert!(!job.is_cancelled());
        drop(pair);
        assert!(job.is_cancelled());
        job.complete(None);
    }
}

/// A server that asks for no certificate costs no operation, and neither does a session.
#[test]
fn without_a_question_there_is_no_operation() {
    for protocol in VERSIONS {
        let (tls, elsewhere, _) = client_with_held_key(protocol);
        let server = root().leaf(&["a.test"]).server();
        let mut pair = Pair::new(&tls, &server, "a.test");
        assert_eq!(pair.handshake(), Ok(()));
        assert!(elsewhere.take().is_none());
    }
}

#[test]
fn without_a_holder_the_handshake_fails() {
    let ours = root().leaf(&["client.test"]);
    let key = PrivateKey::from_pem(ours.key_pem.as_bytes(), &[]).expect("it is one");
    let handle = KeyHandle::of(&key).expect("a usual key");
    let identity = Identity {
        key_pem: Secret::new(handle.to_bytes().to_vec()),
        ..ours.identity()
    };
    let tls = client(&verifying(&root().pem()));
    let identity = ClientIdentity::load(&identity, None).expect("the handle of its key");
    let tls = tls.with_identity(Some(identity));
    let mut pair = Pair::new(&tls, &asking_server(), "a.test");
    let failed = (0..100).find_map(|_| {
        let status = deliver(&mut pair.to_client, usize::MAX, |input| {
            pair.client.handshake(input, &mut pair.to_server)
        });
        let _ = deliver(&mut pair.to_server, usize::MAX, |input| {
            pair.server
                .handshake(input, &mut pair.to_client, Load::default())
        });
        status.err()
    });
    assert!(matches!(failed, Some(Error::Library(_))), "{failed:?}");
    // The handle of another key is refused when the certificate is read.
    let other = PrivateKey::from_pem(key_pem().as_bytes(), &[]).expect("it is one");
    let handle = KeyHandle::of(&other).expect("a usual key");
    let identity = Identity {
        key_pem: Secret::new(handle.to_bytes().to_vec()),
        ..ours.identity()
    };
    let refused = ClientIdentity::load(&identity, None).expect_err("another key");
    assert!(
        refused.to_string().contains("KEY_VALUES_MISMATCH"),
        "{refused}"
    );
}

fn key_pem() -> String {
    key().serialize_pem()
}
