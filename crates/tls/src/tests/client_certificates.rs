//! Client certificates: which rules apply, across resumptions and moves.

use sealane_awslc::{
    CertificateChain, ClientIdentity, MAX_CLIENT_CERTIFICATES, PrivateKey, unix_time_s,
};

use super::*;
use crate::{
    ClientVerification, EarlyData, Packed, PemFile, ReplayRegister, RingSettings, SessionCache,
    SessionCacheSetting, TicketRing, VerifyClient, WINDOW_S,
};

const REVOKED: i32 = 23;
const UNKNOWN_ISSUER: i32 = 20;
const UNVERIFIED_LEAF: i32 = 21;
const TOO_LONG: i32 = 22;

type Issuer = rcgen::CertifiedIssuer<'static, rcgen::KeyPair>;

fn key() -> rcgen::KeyPair {
    rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("supported")
}

fn authority(name: &str) -> rcgen::CertificateParams {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![
        rcgen::KeyUsagePurpose::KeyCertSign,
        rcgen::KeyUsagePurpose::CrlSign,
    ];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params
}

fn root(name: &str) -> Issuer {
    rcgen::CertifiedIssuer::self_signed(authority(name), key()).expect("signs")
}

/// A root, an intermediate below it, and a client below that.
pub(super) struct People {
    pub(super) root: Issuer,
    intermediate: Issuer,
    pub(super) client: Made,
}

pub(super) fn people() -> &'static People {
    static PEOPLE: OnceLock<People> = OnceLock::new();
    PEOPLE.get_or_init(|| {
        let root = root("root");
        let intermediate =
            rcgen::CertifiedIssuer::signed_by(authority("intermediate"), key(), &root);
        let intermediate = intermediate.expect("signs");
        let key = key();
        let mut params =
            rcgen::CertificateParams::new(vec!["client.test".to_owned()]).expect("a valid name");
        params.serial_number = Some(77.into());
        let leaf = params.signed_by(&key, &intermediate).expect("signs");
        People {
            client: Made {
                chain_pem: format!("{}{}", leaf.pem(), intermediate.pem()),
                key_pem: key.serialize_pem(),
            },
            root,
            intermediate,
        }
    })
}

fn shown(made: &Made) -> ClientIdentity {
    let chain = CertificateChain::bundle_from_pem(made.chain_pem.as_bytes()).expect("PEM");
    let key = PrivateKey::from_pem(made.key_pem.as_bytes(), &[]).expect("PEM");
    ClientIdentity::new(&chain, &key).expect("they belong together")
}

fn file(pem: String) -> Option<PemFile> {
    Some(PemFile {
        pem: pem.into_bytes(),
        label: "file.pem".to_owned(),
    })
}

/// A list of the issuer with these serial numbers.
fn list(issuer: &Issuer, serials: &[u64]) -> String {
    let revoked = serials.iter().map(|serial| rcgen::RevokedCertParams {
        serial_number: (*serial).into(),
        revocation_time: rcgen::date_time_ymd(2020, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let list = rcgen::CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2020, 1, 1),
        next_update: rcgen::date_time_ymd(2120, 1, 1),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    let list = list.signed_by(issuer).expect("signs");
    list.pem().expect("encodes")
}

/// Lists of both issuers; the client is on the lower one's if `revoked`.
fn lists(revoked: bool) -> Option<PemFile> {
    let People {
        root, intermediate, ..
    } = people();
    let serials: &[u64] = if revoked { &[77] } else { &[] };
    file(format!(
        "{}{}",
        list(root, &[]),
        list(intermediate, serials)
    ))
}

pub(super) fn trusting() -> ClientVerification {
    ClientVerification {
        mode: VerifyClient::On,
        named: file(people().root.pem()),
        ..ClientVerification::OFF
    }
}

fn with(client_verification: &ClientVerification) -> ServerSettings {
    ServerSettings {
        client_verification: client_verification.clone(),
        ..settings(&[p256()])
    }
}

fn of(version: ProtocolVersion) -> ClientContext {
    client(|builder| super::version(builder, version))
}

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::Tls12, ProtocolVersion::Tls13];

/// A handshake of the client, with its certificates.
fn met(context: &ClientContext, server: &Arc<ServerTls>) -> Pair {
    let mut pair = Pair::with(context, server);
    let identity = shown(&people().client);
    pair.client.set_identity(&identity).expect("valid");
    pair.handshake()
        .expect("whoever has the key of what it shows");
    pair
}

/// What the server makes of what the client has shown: OpenSSL's number, 0 if it is good;
/// `None` if it has shown nothing.
fn judged(connection: &Connection) -> Option<i32> {
    let chain = connection.client_chain()?;
    let rules = connection.server()?.client_verifier()?;
    assert!(!rules.is_judged(&chain));
    let verdict = rules.judge(&chain);
    assert!(rules.is_judged(&chain));
    assert_eq!(rules.judge(&chain), verdict);
    Some(verdict.err().map_or(0, |failure| failure.code()))
}

#[test]
fn whoever_has_the_key_is_let_in_and_judged_by_the_rules() {
    let trusted = server(&with(&trusting()));
    let flat = server(&with(&ClientVerification {
        depth: 0,
        ..trusting()
    }));
    let foreign = server(&with(&ClientVerification {
        named: file(root("foreign").pem()),
        ..trusting()
    }));
    let revoked = server(&with(&ClientVerification {
        revoked: lists(true),
        ..trusting()
    }));
    let listed = server(&with(&ClientVerification {
        revoked: lists(false),
        ..trusting()
    }));
    for version in VERSIONS {
        let context = of(version);
        for (server, verdict) in [
            (&trusted, &[0][..]),
            (&listed, &[0]),
            (&flat, &[TOO_LONG, UNKNOWN_ISSUER]),
            (&foreign, &[UNKNOWN_ISSUER, UNVERIFIED_LEAF]),
            (&revoked, &[REVOKED]),
        ] {
            let code = judged(&met(&context, server).server).expect("it has shown one");
            assert!(verdict.contains(&code), "{version}: {code} of {verdict:?}");
        }
        let mut nobody = Pair::with(&context, &trusted);
        nobody
            .handshake()
            .expect("a certificate is not needed for it");
        assert_eq!(judged(&nobody.server), None);
    }
}

#[test]
fn a_session_brings_the_whole_chain_and_the_client_is_judged_again() {
    let kept = SessionCacheSetting::Shared(Arc::new(SessionCache::new(1 << 20)));
    for tickets in [true, false] {
        let server = server(&ServerSettings {
            tickets,
            session_cache: kept.clone(),
            ..with(&trusting())
        });
        for version in VERSIONS {
            let context = of(version);
            let mut first = met(&context, &server);
            let shown = first.server.client_chain().expect("shown");
            let session = first.session().expect("a session");
            // The client shows nothing this time.
            let mut again = Pair::resuming(&context, &server, &session);
            again.handshake().expect("resumes");
            assert!(again.client.is_session_reused(), "{version}, {tickets}");
            assert_eq!(judged(&again.server), Some(0), "{version}, {tickets}");
            let known = again.server.client_chain().expect("of the session");
            assert_eq!(known.leaf_der(), shown.leaf_der());
            assert_eq!((known.size().0, known.size()), (2, shown.size()));
            assert_eq!(known.sigalg(), "ecdsa_secp256r1_sha256");
            assert_eq!(known.sigalg(), shown.sigalg());
        }
    }
}

#[test]
fn nothing_resumes_under_other_rules() {
    let rotation = RingSettings {
        rotation_s: 1000,
        lifetime_s: 300,
        overlap_s: 0,
    };
    // All of them could open each other's sessions.
    let ring = Arc::new(TicketRing::rotating(rotation, unix_time_s()).expect("memory"));
    let cache = Arc::new(SessionCache::new(1 << 20));
    let rules = [
        ClientVerification::OFF,
        trusting(),
        ClientVerification {
            mode: VerifyClient::Optional,
            ..trusting()
        },
        ClientVerification {
            mode: VerifyClient::OptionalNoCa,
            ..trusting()
        },
        ClientVerification {
            depth: 2,
            ..trusting()
        },
        ClientVerification {
            named: None,
            trusted: trusting().named,
            ..trusting()
        },
        ClientVerification {
            named: file(root("foreign").pem()),
            ..trusting()
        },
        ClientVerification {
            revoked: lists(false),
            ..trusting()
        },
        ClientVerification {
            revoked: lists(true),
            ..trusting()
        },
    ];
    for tickets in [true, false] {
        let servers = rules.iter().map(|rules| {
            server(&ServerSettings {
                tickets,
                ticket_ring: Some(Arc::clone(&ring)),
                session_cache: SessionCacheSetting::Shared(Arc::clone(&cache)),
                ..with(rules)
            })
        });
        let servers: Vec<_> = servers.collect();
        for version in VERSIONS {
            let context = of(version);
            for (made, first) in servers.iter().enumerate() {
                let session = met(&context, first).session().expect("a session");
                for (used, second) in servers.iter().enumerate() {
                    let mut pair = Pair::resuming(&context, second, &session);
                    pair.handshake().expect("resumed or not");
                    let reused = pair.client.is_session_reused();
                    assert_eq!(reused, made == used, "{version}, {tickets}: {made}, {used}");
                }
            }
        }
    }
}

#[test]
fn a_connection_that_moves_is_judged_by_the_rules_where_it_arrives() {
    let here = server(&with(&trusting()));
    let there = server(&with(&ClientVerification {
        revoked: lists(true),
        ..trusting()
    }));
    for version in VERSIONS {
        let mut pair = met(&of(version), &here);
        assert_eq!(pair.up(b"request"), b"request");
        assert_eq!(judged(&pair.server), Some(0));
        let shown = pair.server.client_chain().expect("shown");
        let mut move_to = |server: &Arc<ServerTls>| {
            let left = Connection::accept(&Acceptor::single(Arc::clone(server)));
            let packed = std::mem::replace(&mut pair.server, left).pack();
            let bytes = packed.expect("between two requests").into_bytes();
            let packed = Packed::from_bytes(bytes.expose()).expect("of this version");
            let acceptor = Acceptor::single(Arc::clone(server));
            pair.server = Connection::unpack(&acceptor, packed).expect("of this version");
            let moved = pair.server.client_chain().expect("it came along");
            assert_eq!(moved.leaf_der(), shown.leaf_der());
            assert_eq!(moved.size(), shown.size());
            assert_eq!(moved.sigalg(), shown.sigalg());
            assert_eq!(pair.up(b"more"), b"more");
            judged(&pair.server)
        };
        assert_eq!(move_to(&here), Some(0), "{version}");
        assert_eq!(move_to(&there), Some(REVOKED), "{version}");
        assert_eq!(move_to(&here), Some(0), "{version}");
    }
}

#[test]
fn early_data_comes_with_the_certificates_of_its_session() {
    let register = ReplayRegister::new(10_000, unix_time_s() - 2 * WINDOW_S).expect("memory");
    let server = server(&ServerSettings {
        early_data: Some(EarlyData {
            register: Arc::new(register),
        }),
        ..with(&trusting())
    });
    let context = of(ProtocolVersion::Tls13);
    let session = met(&context, &server).session().expect("a ticket");
    let mut pair = Pair::resuming(&context, &server, &session);
    pair.client.offer_early_data();
    let status = pair.client.handshake(&mut &[][..], &mut pair.to_server);
    assert_eq!(status.expect("it can start"), HandshakeStatus::Done);
    pair.client
        .write(b"early", &mut pair.to_server)
        .expect("early data can be written");
    let mut input = &pair.to_server[..];
    let status = pair
        .server
        .handshake(&mut input, &mut pair.to_client, pair.load);
    assert_eq!(status, Ok(HandshakeStatus::Done));
    assert!(pair.server.is_early_data() && !pair.server.is_established());
    assert_eq!(judged(&pair.server), Some(0));
}

#[test]
fn a_chain_may_be_long_but_not_endless() {
    let server = server(&with(&trusting()));
    let People {
        client,
        intermediate,
        ..
    } = people();
    let chain = |certificates: usize| {
        let more = intermediate.pem().repeat(certificates - 2);
        shown(&Made {
            chain_pem: format!("{}{more}", client.chain_pem),
            key_pem: client.key_pem.clone(),
        })
    };
    for version in VERSIONS {
        let mut pair = Pair::with(&of(version), &server);
        let most = chain(MAX_CLIENT_CERTIFICATES);
        pair.client.set_identity(&most).expect("valid");
        pair.handshake().expect("not too many");
        assert_eq!(judged(&pair.server), Some(0));
        let mut pair = Pair::with(&of(version), &server);
        let too_many = chain(MAX_CLIENT_CERTIFICATES + 1);
        pair.client.set_identity(&too_many).expect("valid");
        let failure = pair.handshake().expect_err("too many");
        assert!(matches!(failure, Failure::Server(_)), "{failure:?}");
    }
}

#[test]
fn files_that_do_not_load_are_named() {
    let nonsense = || file("nonsense".to_owned());
    for (rules, words) in [
        (
            ClientVerification {
                named: nonsense(),
                ..trusting()
            },
            "cannot load certificate \"file.pem\"",
        ),
        (
            ClientVerification {
                trusted: nonsense(),
                ..ClientVerification::OFF
            },
            "cannot load certificate \"file.pem\"",
        ),
        (
            ClientVerification {
                revoked: nonsense(),
                ..ClientVerification::OFF
            },
            "cannot load CRL \"file.pem\"",
        ),
    ] {
        let error = ServerTls::build(&with(&rules)).expect_err("it does not load");
        assert!(error.to_string().starts_with(words), "{error}");
    }
}
