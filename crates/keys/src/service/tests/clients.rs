//! Keys of clients: what is signed with them in handshakes of every version, and what is not.

use super::*;
use sealane_tls::accelerator::Job;
use sealane_tls::client::{ClientSettings, ClientTls, Connection, Handshake};
use sealane_tls::{
    Acceptor, ClientVerification, HandshakeState, HandshakeStatus, Identity, KeyHolder, Load,
    Protocol, Route, ServerSettings, ServerTls, VerifyClient,
};
use std::task::{Context, Waker};

/// A certificate with its key. `bytes` more are in the certificate.
struct Made {
    key: TestKey,
    chain_pem: String,
}

impl Made {
    fn new(algorithm: &'static rcgen::SignatureAlgorithm, bytes: usize) -> Self {
        let pair = rcgen::KeyPair::generate_for(algorithm).expect("a key");
        let names = (0..bytes / 64).map(|n| format!("{n:060}.test"));
        let names: Vec<_> = names.chain(["a.test".to_owned()]).collect();
        let params = rcgen::CertificateParams::new(names).expect("valid names");
        let chain_pem = params.self_signed(&pair).expect("it signs").pem();
        let pem = pair.serialize_pem();
        let key = PrivateKey::from_pem(pem.as_bytes(), &[]).expect("it is one");
        let key = TestKey { key, pem };
        Self { key, chain_pem }
    }

    fn identity(&self, key_pem: &[u8]) -> Identity {
        Identity {
            chain_pem: self.chain_pem.clone().into_bytes(),
            key_pem: Secret::new(key_pem.to_vec()),
            passwords: Vec::new(),
            chain_label: "chain".into(),
            key_label: "key".into(),
        }
    }

    /// A server that asks every client for a certificate.
    fn server(&self, protocol: Protocol, ciphers: &str) -> Arc<ServerTls> {
        let settings = ServerSettings {
            identities: vec![self.identity(self.key.pem.as_bytes())],
            protocols: [protocol].into_iter().collect(),
            ciphers: ciphers.to_owned(),
            client_verification: ClientVerification {
                mode: VerifyClient::OptionalNoCa,
                ..ClientVerification::default()
            },
            ..ServerSettings::default()
        };
        let (server, _) = ServerTls::build(&settings).expect("valid settings");
        Arc::new(server)
    }

    /// A client with this certificate, whose key a key process has.
    fn client(&self, protocol: Protocol, holder: &Arc<KeyClient>) -> ClientTls {
        let handshakes = HandshakeState::new();
        handshakes.set_key_holder(Arc::new(OneProcess(Arc::clone(holder))));
        let handle = sealane_tls::KeyHandle::of(&self.key.key).expect("a usual key");
        let settings = ClientSettings {
            protocols: [protocol].into_iter().collect(),
            ciphers: "ALL:@SECLEVEL=0".to_owned(),
            identity: Some(self.identity(&handle.to_bytes())),
            handshakes: Some(handshakes),
            ..ClientSettings::default()
        };
        ClientTls::build(&settings).expect("valid settings").0
    }
}

/// Passes all operations to one process.
#[derive(Debug)]
struct OneProcess(Arc<KeyClient>);

impl KeyHolder for OneProcess {
    fn submit(&self, key: KeyId, _route: Route, job: Job) {
        self.0.submit(Wanted::new(key, job));
    }
}

impl Service {
    fn deposit_as(&mut self, roles: Roles, key: &TestKey, may_decrypt: bool) {
        let id = self.try_deposit(&Deposit {
            roles,
            may_decrypt,
            accelerator: AcceleratorChoice::Auto,
            passwords: &[],
            key: KeySource::Pem(key.pem.as_bytes()),
        });
        assert_eq!(id, Ok(key.id()));
    }
}

/// Runs a handshake; the answers of the key process are read meanwhile. Returns what the server
/// has of the client.
fn shake_hands(
    tls: &ClientTls,
    server: &Arc<ServerTls>,
    holder: (&KeyClient, &Channel),
) -> Result<bool, sealane_tls::client::Error> {
    let mut client: Connection = tls.connect(Some("a.test"), None)?;
    let mut server = sealane_tls::Connection::accept(&Acceptor::single(Arc::clone(server)));
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let (mut is_client_done, mut is_server_done) = (false, false);
    let mut waited = false;
    let deadline = Instant::now() + LONG;
    while !is_client_done || !is_server_done {
        assert!(Instant::now() < deadline, "the handshake makes no progress");
        if !is_client_done {
            let mut input = &to_client[..];
            let status = client.handshake(&mut input, &mut to_server)?;
            to_client = input.to_vec();
            is_client_done = status == Handshake::Done;
            if status == Handshake::Pending {
                waited = true;
                let mut cx = Context::from_waker(Waker::noop());
                while client.poll_pending(&mut cx).is_pending() {
                    assert!(Instant::now() < deadline, "no answer");
                    holder.0.send(holder.1);
                    assert_eq!(holder.0.receive(holder.1), Received::Nothing);
                    std::thread::yield_now();
                }
            }
        }
        if !is_server_done {
            let mut input = &to_server[..];
            let status = server
                .handshake(&mut input, &mut to_client, Load::default())
                .expect("the server agrees");
            to_server = input.to_vec();
            is_server_done = status == HandshakeStatus::Done;
        }
    }
    Ok(waited)
}

const VERSIONS: [Protocol; 4] = [
    Protocol::TlsV1,
    Protocol::TlsV1_1,
    Protocol::TlsV1_2,
    Protocol::TlsV1_3,
];

/// Real messages of real handshakes pass the rules.
#[test]
fn handshakes_of_every_version_are_signed() {
    let mut service = Service::start(2);
    let (holder, channel) = service.client(2);
    let of_server = Made::new(&rcgen::PKCS_RSA_SHA256, 0);
    for (algorithm, _) in KEYS {
        let ours = Made::new(algorithm, 0);
        service.deposit_as(Roles::CLIENT, &ours.key, false);
        for protocol in VERSIONS {
            if protocol < Protocol::TlsV1_2
                && ours.key.key.kind() == sealane_awslc::KeyKind::Ed25519
            {
                continue; // there is no scheme for it
            }
            // With and without a part of the server in the key exchange.
            for ciphers in ["kECDHE:@SECLEVEL=0", "kRSA:@SECLEVEL=0"] {
                let server = of_server.server(protocol, ciphers);
                let client = ours.client(protocol, &holder);
                let waited = shake_hands(&client, &server, (&holder, &channel));
                assert_eq!(waited, Ok(true), "{algorithm:?} {protocol:?} {ciphers}");
            }
        }
    }
}

#[test]
fn a_key_signs_in_the_place_for_which_it_was_deposited() {
    let mut service = Service::start(1);
    let (holder, channel) = service.client(1);
    let ours = Made::new(&rcgen::PKCS_RSA_SHA256, 0);
    let of_server = sign(0x0804, 1);
    let decryption = KeyOperation::Decrypt {
        input: [&[0; 128][..], &[1; 128]].concat(),
    };
    let mut attacker = service.channel();
    let mut can =
        |operation: &KeyOperation| ask(&mut attacker, 1, ours.key.id(), operation).is_ok();
    service.deposit_as(Roles::SERVER, &ours.key, true);
    assert!(can(&of_server) && can(&decryption));
    for protocol in [Protocol::TlsV1_2, Protocol::TlsV1_3] {
        let server = ours.server(protocol, "HIGH");
        let client = ours.client(protocol, &holder);
        let refused = shake_hands(&client, &server, (&holder, &channel));
        assert!(refused.is_err(), "{protocol:?}");
    }
    // The same key in another file: whoever had it before keeps what it needs.
    service.deposit_as(Roles::CLIENT, &ours.key, false);
    assert!(can(&of_server) && can(&decryption));
    for protocol in [Protocol::TlsV1_2, Protocol::TlsV1_3] {
        let server = ours.server(protocol, "HIGH");
        let client = ours.client(protocol, &holder);
        let signed = shake_hands(&client, &server, (&holder, &channel));
        assert_eq!(signed, Ok(true), "{protocol:?}");
    }
    // As that of a client alone.
    line::send_forget(service.line.as_fd(), ours.key.id()).expect("room");
    service.deposit_as(Roles::CLIENT, &ours.key, true);
    assert!(!can(&of_server) && !can(&decryption));
}

/// The rules see all of it: a server with a large certificate is no reason to fail, and one whose
/// certificates are larger than any costs its own handshake only.
#[test]
fn long_handshakes_are_signed_up_to_the_limit() {
    let mut service = Service::start(1);
    let (holder, channel) = service.client(1);
    let ours = Made::new(&rcgen::PKCS_ECDSA_P256_SHA256, 60 << 10);
    service.deposit_as(Roles::CLIENT, &ours.key, false);
    let client = ours.client(Protocol::TlsV1_2, &holder);
    // Both sides send a certificate.
    for (bytes, is_signed) in [(50 << 10, true), (80 << 10, false), (50 << 10, true)] {
        let server = Made::new(&rcgen::PKCS_ECDSA_P256_SHA256, bytes);
        let server = server.server(Protocol::TlsV1_2, "HIGH");
        let signed = shake_hands(&client, &server, (&holder, &channel));
        assert_eq!(signed.is_ok(), is_signed, "{bytes}: {signed:?}");
    }
}

/// Many long ones at a time are neither lost nor all kept at once.
#[test]
fn many_long_requests_take_turns() {
    let mut service = Service::start(1);
    let (holder, channel) = service.client(1);
    let key = TestKey::new(&rcgen::PKCS_RSA_SHA256);
    service.deposit_as(Roles::CLIENT, &key, false);
    let input = crate::rules::transcript::tests::long_handshake(100 << 10);
    let operation = KeyOperation::Sign {
        scheme: 0x0401,
        input,
    };
    let expected = key.key.perform(&operation).expect("it fits");
    let mut pending = Vec::new();
    for _ in 0..40 {
        let (job, waiting) = job(operation.clone());
        holder.submit(Wanted::new(key.id(), job));
        pending.push(waiting);
    }
    for mut waiting in pending {
        let got = wait(&holder, &channel, &mut waiting).expect("it is permitted");
        assert_eq!(got.expose(), expected.expose());
    }
    // From somebody who reads no answers and keeps no limit.
    let mut attacker = service.channel();
    let mut sender = attacker.try_clone().expect("descriptors");
    let id = key.id();
    let sending = std::thread::spawn(move || {
        for number in 0..40 {
            let mut request = Vec::new();
            put_request(&mut request, number, id, &operation);
            sender.write_all(&request).expect("it is open");
        }
    });
    for _ in 0..40 {
        let (_, result) = read_answer(&mut attacker);
        assert_eq!(result.as_deref(), Ok(expected.expose()));
    }
    sending.join().expect("all are sent");
}
