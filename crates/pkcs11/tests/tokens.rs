//! Keys in tokens of SoftHSM: every kind and scheme, whole handshakes, and what is not there.

mod setup;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error as CallError, RvError};
use cryptoki::object::{Attribute, CertificateType, ObjectClass};
use cryptoki::session::{Session, UserType};
use cryptoki::types::AuthPin;
use sealane_awslc::{
    CertificateChain, ClientConnection, ClientContext, Connection, ContextBuilder, HandshakeStatus,
    KeyKind, KeyOperation, ProtocolVersion, PublicKey, Secret, group_by_name,
};
use sealane_pkcs11::{Failure, FailureKind, Link, TokenKey, Uri};

use setup::{Made, PIN, Setup, eventually, in_own_process, module, perform, sign, submit, wait};

const KINDS: [(&str, &rcgen::SignatureAlgorithm, KeyKind, u32, &[u16]); 5] = [
    (
        "rsa",
        &rcgen::PKCS_RSA_SHA256,
        KeyKind::Rsa,
        2048,
        &[
            0x0201, 0x0401, 0x0501, 0x0601, 0x0804, 0x0805, 0x0806, 0xff01,
        ],
    ),
    (
        "p256",
        &rcgen::PKCS_ECDSA_P256_SHA256,
        KeyKind::EcP256,
        256,
        &[0x0403],
    ),
    (
        "p384",
        &rcgen::PKCS_ECDSA_P384_SHA384,
        KeyKind::EcP384,
        384,
        &[0x0503],
    ),
    (
        "p521",
        &rcgen::PKCS_ECDSA_P521_SHA512,
        KeyKind::EcP521,
        521,
        &[0x0603],
    ),
    (
        "ed25519",
        &rcgen::PKCS_ED25519,
        KeyKind::Ed25519,
        253,
        &[0x0807],
    ),
];

/// A token with a key of each kind.
fn keys(setup: &Setup) -> Vec<Made> {
    setup.token("t");
    let kinds = KINDS.iter().enumerate();
    kinds
        .map(|(at, (name, algorithm, ..))| setup.key("t", name, &format!("{at:02}"), algorithm))
        .collect()
}

#[test]
fn every_kind_of_key_and_every_scheme() {
    in_own_process(|setup| {
        let made = keys(setup);
        for ((name, _, kind, bits, schemes), made) in KINDS.iter().zip(&made) {
            let key = setup.open(&format!("pkcs11:token=t;object={name}"));
            assert_eq!(
                (key.public_key().kind(), key.public_key().bits()),
                (*kind, *bits)
            );
            let expected = PublicKey::from_certificate_der(&made.certificate_der).expect("valid");
            let spki = expected.to_spki_der().expect("memory");
            assert_eq!(key.public_key().to_spki_der().expect("memory"), spki);
            for scheme in *schemes {
                for message in [&b""[..], b"message", &[7; 3000]] {
                    let signature = perform(&key, sign(*scheme, message))
                        .unwrap_or_else(|| panic!("{name} {scheme:#x}: {:?}", key.health()));
                    expected
                        .verify(*scheme, message, signature.expose())
                        .unwrap_or_else(|error| panic!("{name} {scheme:#x}: {error}"));
                }
            }
            let done = u64::try_from(schemes.len() * 3).expect("few");
            assert_eq!(key.stats().done(), done);
            // What does not fit fails, and is no fault of the token.
            assert_eq!(perform(&key, sign(0xbeef, b"")), None, "{name}");
            if *kind != KeyKind::Rsa {
                let decrypt = KeyOperation::Decrypt {
                    input: vec![1; 256],
                };
                assert_eq!(perform(&key, decrypt), None, "{name}");
                assert_eq!(
                    key.stats().failed(FailureKind::Unsuited),
                    2,
                    "{:?}",
                    key.stats()
                );
            }
            assert_eq!(key.health().link, Link::Up);
        }
        let [] = setup.reports();
    });
}

#[test]
fn numbers_are_decrypted_and_odd_ones_refused() {
    in_own_process(|setup| {
        setup.token("t");
        setup.key("t", "rsa", "01", &rcgen::PKCS_RSA_SHA256);
        let key = setup.open("pkcs11:token=t;id=%01");
        let public = key.public_key();
        for first in [0, 0x42] {
            let mut number = vec![7; 256];
            number[..2].copy_from_slice(&[0, first]);
            let input = public.rsa_raised(&number).expect("below the modulus");
            let decrypted = perform(&key, KeyOperation::Decrypt { input }).expect("it can");
            assert_eq!(decrypted.expose(), number);
        }
        let tiny = |last| [&[0; 255][..], &[last]].concat();
        let odd = [
            vec![],
            vec![1; 255],
            vec![1; 257],
            vec![0xff; 256],
            tiny(0),
            tiny(1),
        ];
        let count = u64::try_from(odd.len()).expect("few");
        for input in odd {
            assert_eq!(perform(&key, KeyOperation::Decrypt { input }), None);
        }
        assert_eq!(key.stats().failed(FailureKind::Unsuited), count);
        assert_eq!((key.stats().done(), key.health().link), (2, Link::Up));
    });
}

fn client(max: ProtocolVersion, ciphers: Option<&str>) -> ClientConnection {
    let mut builder = ClientContext::builder().expect("memory");
    builder
        .set_protocol_range(ProtocolVersion::Tls12, max)
        .expect("supported");
    let algorithms = "ed25519:ECDSA+SHA256:ECDSA+SHA384:ECDSA+SHA512:RSA-PSS+SHA256:RSA+SHA256";
    builder.set_signature_algorithms(algorithms).expect("known");
    let groups = ["X25519", "P-256", "P-384", "P-521"].map(|name| group_by_name(name).expect(name));
    builder.set_groups(&groups).expect("known");
    if let Some(ciphers) = ciphers {
        builder.set_cipher_list(ciphers).expect("known suites");
    }
    ClientConnection::new(&builder.build().expect("memory"), None).expect("memory")
}

/// A handshake of libssl with libssl, whose key is in the token.
fn handshake(key: &TokenKey, made: &Made, mut client: ClientConnection) {
    let mut builder = ContextBuilder::new().expect("memory");
    builder
        .set_protocol_range(ProtocolVersion::Tls12, ProtocolVersion::Tls13)
        .expect("supported");
    let chain = CertificateChain::from_pem(made.certificate_pem.as_bytes()).expect("valid");
    builder.set_chain(&chain).expect("a good chain");
    let context = builder.build().expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut operations = 0;
    let (mut client_done, mut server_done) = (false, false);
    while !(client_done && server_done) {
        let status = client.handshake(&mut &to_client[..], &mut to_server);
        client_done = status.expect("the server's key signs") == HandshakeStatus::Done;
        to_client.clear();
        let mut input = &to_server[..];
        loop {
            let status = server.do_handshake(&mut input, &mut to_client);
            match status.expect("the client's flight is right") {
                HandshakeStatus::Pending => {
                    let operation = server.take_key_operation().expect("it waits for the key");
                    let pending = submit(key, operation);
                    server.complete_key_operation(wait(pending));
                    operations += 1;
                }
                status => {
                    server_done = status == HandshakeStatus::Done;
                    break;
                }
            }
        }
        to_server.clear();
    }
    assert_eq!(operations, 1);
}

#[test]
fn handshakes_of_libssl() {
    in_own_process(|setup| {
        let made = keys(setup);
        for ((name, _, kind, ..), made) in KINDS.iter().zip(&made) {
            let key = setup.open(&format!("pkcs11:token=t;object={name};type=private"));
            handshake(&key, made, client(ProtocolVersion::Tls13, None));
            handshake(&key, made, client(ProtocolVersion::Tls12, None));
            if *kind == KeyKind::Rsa {
                let exchange = Some("AES128-GCM-SHA256");
                handshake(&key, made, client(ProtocolVersion::Tls12, exchange));
            }
            assert_eq!(key.stats().queue_time.values().count(), key.stats().done());
        }
    });
}

#[test]
fn many_threads_share_the_sessions_of_a_token() {
    in_own_process(|setup| {
        setup.token("t");
        setup.key("t", "a", "01", &rcgen::PKCS_ECDSA_P256_SHA256);
        setup.key("t", "b", "02", &rcgen::PKCS_RSA_SHA256);
        let before = threads();
        let keys = ["a", "b"].map(|name| Arc::new(setup.open(&format!("pkcs11:object={name}"))));
        // Four and the watch, for both.
        eventually("those that have opened the keys end", || {
            threads() == before + 5
        });
        assert_eq!(keys[0].health().sessions, 4);
        let signing: Vec<_> = (0..8)
            .map(|number| {
                let keys = keys.clone();
                std::thread::spawn(move || {
                    for round in 0..50 {
                        let (key, scheme) = [(&keys[0], 0x0403), (&keys[1], 0x0804)][round % 2];
                        let message = format!("{number} {round}");
                        let pending: Vec<_> = (0..3)
                            .map(|_| submit(key, sign(scheme, message.as_bytes())))
                            .collect();
                        for pending in pending {
                            let signature = wait(pending).expect("the token signs");
                            let public = key.public_key();
                            public
                                .verify(scheme, message.as_bytes(), signature.expose())
                                .expect("it is the signature of this message");
                        }
                    }
                })
            })
            .collect();
        for thread in signing {
            thread.join().expect("no panic");
        }
        assert_eq!(keys.each_ref().map(|key| key.stats().done()), [600, 600]);
        let [a, b] = keys;
        drop(a);
        assert!(perform(&b, sign(0x0401, b"goes on")).is_some());
        drop(b);
        eventually("threads end with the last key", || threads() == before);
        let again = setup.open("pkcs11:object=a");
        assert!(perform(&again, sign(0x0403, b"anew")).is_some());
    });
}

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    tasks.count()
}

/// The error, and what must be in its text.
fn refused(setup: &Setup, uri: &str, parts: &[&str]) -> Failure {
    let error = setup.try_open(uri).expect_err(uri);
    let text = error.to_string();
    for part in parts.iter().chain(&["libsofthsm2.so"]) {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(PIN), "{text}");
    error.failure().clone()
}

#[test]
fn what_is_not_there_or_not_the_only_one() {
    in_own_process(|setup| {
        setup.token("one");
        setup.token("two");
        setup.token("two");
        let algorithm = &rcgen::PKCS_ECDSA_P256_SHA256;
        setup.key("one", "same", "0a", algorithm);
        setup.key("one", "same", "0b", algorithm);
        setup.key("one", "other", "0c", algorithm);
        let there = [
            "no token matches the URI; the tokens are: ",
            "\"one\" (serial ",
            "manufacturer SoftHSM project, model SoftHSM v2, slot-id ",
        ];
        for uri in [
            "pkcs11:token=three;object=same",
            "pkcs11:token=one;serial=0",
            "pkcs11:token=one;manufacturer=x",
            "pkcs11:token=one;model=x",
            "pkcs11:token=one;slot-id=4711",
            "pkcs11:token=one;slot-description=x",
            "pkcs11:token=one;slot-manufacturer=x",
            "engine:pkcs11:slot_4711-id_0a",
        ] {
            let failure = refused(setup, uri, &there);
            assert!(matches!(failure, Failure::NoToken(_)), "{failure:?}");
        }
        let library = ["the module is \"Implementation of PKCS11\", version 2.6, of \"SoftHSM\""];
        for uri in [
            "pkcs11:library-manufacturer=x",
            "pkcs11:library-version=9",
            "pkcs11:library-description=x",
        ] {
            refused(setup, uri, &library);
        }
        let failure = refused(setup, "pkcs11:token=two", &["add \"serial=\"", "\"two\""]);
        assert!(matches!(failure, Failure::SeveralTokens(_)), "{failure:?}");
        let keys = [
            "\"same\" (id %0A)",
            "\"same\" (id %0B)",
            "\"other\" (id %0C)",
        ];
        for uri in [
            "pkcs11:token=one;object=x",
            "pkcs11:token=one;object=same;id=%0C",
        ] {
            let failure = refused(setup, uri, &keys);
            assert!(matches!(failure, Failure::NoKey(_)), "{failure:?}");
        }
        let several = ["add \"id=\"", keys[0], keys[1]];
        let failure = refused(setup, "pkcs11:token=one;object=same", &several);
        assert!(matches!(failure, Failure::SeveralKeys(_)), "{failure:?}");
        // A message lists what is there in the words of URIs.
        let text = setup
            .try_open("pkcs11:token=three")
            .expect_err("none")
            .to_string();
        let (_, one) = text.split_once("\"one\" (serial ").expect("it is listed");
        let (serial, one) = one.split_once(", ").expect("manufacturer");
        let (_, slot) = one.split_once("slot-id ").expect("the last one");
        let (slot, _) = slot.split_once(')').expect("its end");
        for uri in [
            format!("pkcs11:serial={serial};id=%0c"),
            format!("pkcs11:slot-id={slot};object=other"),
            format!("engine:pkcs11:slot_{slot}-id_0C"),
            format!("engine:pkcs11:slot_{slot}-label_other"),
        ] {
            assert!(
                perform(&setup.open(&uri), sign(0x0403, b"")).is_some(),
                "{uri}"
            );
        }
        // What names one is found, by whichever attributes.
        for uri in [
            "pkcs11:token=one;object=same;id=%0a",
            "pkcs11:token=one;id=%0b;model=SoftHSM%20v2;library-version=2.6",
            "pkcs11:token=one;object=other;library-manufacturer=SoftHSM",
            "engine:pkcs11:pkcs11:token=one;object=other",
        ] {
            assert!(
                perform(&setup.open(uri), sign(0x0403, b"")).is_some(),
                "{uri}"
            );
        }
    });
}

#[test]
fn pins_that_are_missing_or_wrong() {
    in_own_process(|setup| {
        setup.token("t");
        setup.key("t", "k", "01", &rcgen::PKCS_ED25519);
        let uri = Uri::parse("pkcs11:token=t;object=k").expect("a URI");
        let open = |pin: Option<&str>| {
            let pin = pin.map(|pin| Secret::new(pin.as_bytes().to_vec()));
            TokenKey::open(&uri, module(), pin.as_ref(), &setup.options())
        };
        let error = open(None).expect_err("the token wants one");
        assert_eq!(error.failure(), &Failure::PinNeeded);
        assert!(
            error.to_string().contains("pin-source=file:/path"),
            "{error}"
        );
        for (pin, part) in [
            ("", "is empty"),
            ("\n", "is empty"),
            ("1234\nx", "one line"),
        ] {
            let error = open(Some(pin)).expect_err("it is no PIN");
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = open(Some("9876")).expect_err("it is wrong");
        assert!(
            matches!(error.failure(), Failure::PinRefused(_)),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(
            text.contains("C_Login() failed (CKR_PIN_INCORRECT)"),
            "{text}"
        );
        assert!(text.contains("correct the file of the PIN"), "{text}");
        assert!(!format!("{text} {error:?}").contains("9876"), "{text}");
        let error = open(Some("9876")).expect_err("it is still wrong");
        assert!(error.to_string().contains("not tried again"), "{error}");
        let key = open(Some("1234\r\n")).expect("the end of the line is no part of it");
        assert!(perform(&key, sign(0x0807, b"")).is_some());
        // The token is open, so it does not ask.
        assert!(open(Some("9876")).is_ok());
        drop(key);
        sealane_pkcs11::forget_refused_pins();
    });
}

#[test]
fn files_that_are_no_modules() {
    in_own_process(|setup| {
        let open = |path: &Path| {
            let uri = Uri::parse("pkcs11:").expect("a URI");
            let error = TokenKey::open(&uri, path, None, &setup.options()).expect_err("no module");
            assert!(
                matches!(error.failure(), Failure::NotLoaded(_)),
                "{error:?}"
            );
            error.to_string()
        };
        let text = setup.directory.join("text.so");
        std::fs::write(&text, "no library ".repeat(20)).expect("a file");
        assert!(open(&text).contains("invalid ELF header"));
        assert!(open(&setup.directory.join("none.so")).contains("No such file"));
        assert!(open(&setup.directory).contains("cannot be loaded"));
        let library = std::fs::read_to_string("/proc/self/maps").expect("Linux");
        let library = library
            .lines()
            .filter_map(|line| line.split_whitespace().last());
        let mut libraries = library.filter(|path| path.contains("/libc.so"));
        let error = open(Path::new(libraries.next().expect("glibc")));
        assert!(error.contains("it is not a PKCS #11 module"), "{error}");
    });
}

/// The module, used beside the crate that is tested: to change what is in a token.
fn other_user() -> Session {
    let pkcs11 = Pkcs11::new(module()).expect("it is installed");
    // The crate finds it initialised, or has done so.
    let _ = pkcs11.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK));
    let slots = pkcs11.get_slots_with_initialized_token().expect("slots");
    let session = pkcs11.open_rw_session(slots[0]).expect("a session");
    match session.login(UserType::User, Some(&AuthPin::from(PIN))) {
        Ok(()) | Err(CallError::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => session,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn public_keys_come_from_wherever_the_token_has_them() {
    in_own_process(|setup| {
        setup.token("t");
        let made = setup.key("t", "k", "0d", &rcgen::PKCS_ECDSA_P384_SHA384);
        setup.key("t", "rsa", "0e", &rcgen::PKCS_RSA_SHA256);
        let user = other_user();
        let publics = [Attribute::Class(ObjectClass::PUBLIC_KEY)];
        for object in user.find_objects(&publics).expect("two") {
            user.destroy_object(object).expect("it may");
        }
        let uri = "pkcs11:token=t;object=k";
        let parts = ["import its public key or its certificate", "(%0D)"];
        let failure = refused(setup, uri, &parts);
        assert!(matches!(failure, Failure::NoPublicKey(_)), "{failure:?}");
        // RSA's private keys have the public numbers.
        assert!(perform(&setup.open("pkcs11:object=rsa"), sign(0x0804, b"")).is_some());
        let certificate = |id: u8, der: &[u8]| {
            let object = [
                Attribute::Class(ObjectClass::CERTIFICATE),
                Attribute::CertificateType(CertificateType::X_509),
                Attribute::Token(true),
                Attribute::Id(vec![id]),
                Attribute::Subject(vec![0x30, 0]),
                Attribute::Value(der.to_vec()),
            ];
            user.create_object(&object).expect("a certificate")
        };
        let broken = certificate(0x0d, b"nothing");
        refused(setup, uri, &parts);
        user.destroy_object(broken).expect("it may");
        certificate(0x0d, &made.certificate_der);
        assert!(perform(&setup.open(uri), sign(0x0503, b"")).is_some());
    });
}

#[test]
fn a_key_that_is_deleted() {
    in_own_process(|setup| {
        setup.token("t");
        setup.key("t", "k", "01", &rcgen::PKCS_ED25519);
        setup.key("t", "stays", "02", &rcgen::PKCS_ED25519);
        let (key, stays) = (
            setup.open("pkcs11:object=k"),
            setup.open("pkcs11:object=stays"),
        );
        assert!(perform(&key, sign(0x0807, b"")).is_some());
        let user = other_user();
        let private = [
            Attribute::Class(ObjectClass::PRIVATE_KEY),
            Attribute::Label(b"k".to_vec()),
        ];
        let object = user.find_objects(&private).expect("one")[0];
        user.destroy_object(object).expect("it may");
        for missing in 1..4 {
            assert_eq!(perform(&key, sign(0x0807, b"")), None);
            assert_eq!(key.stats().failed(FailureKind::KeyMissing), missing);
        }
        let (text, _) = key.health().last_error.expect("it is gone");
        assert!(
            text.contains("object=k;type=private\": no private key matches"),
            "{text}"
        );
        assert!(text.contains("\"stays\" (id %02)"), "{text}");
        // The token is there, and so is its other key.
        assert!(perform(&stays, sign(0x0807, b"")).is_some());
        assert_eq!(key.health().link, Link::Up);
        let [_told] = setup.reports();
    });
}

#[test]
fn a_token_that_is_taken_away_and_comes_back() {
    in_own_process(|setup| {
        setup.token("t");
        setup.key("t", "k", "01", &rcgen::PKCS_ECDSA_P256_SHA256);
        let key = setup.open("pkcs11:token=t;object=k");
        assert!(perform(&key, sign(0x0403, b"before")).is_some());
        let (tokens, away) = (setup.directory.join("tokens"), setup.directory.join("away"));
        std::fs::rename(&tokens, &away).expect("the same directory");
        std::fs::create_dir(&tokens).expect("an empty one");
        assert_eq!(perform(&key, sign(0x0403, b"away")), None);
        let health = key.health();
        assert_eq!(health.link, Link::Away, "{health:?}");
        let (text, _) = health.last_error.expect("what happened");
        assert!(text.contains("no token matches the URI"), "{text}");
        // At once, without asking the module.
        assert_eq!(perform(&key, sign(0x0403, b"away")), None);
        assert_eq!(key.stats().failed(FailureKind::TokenAway), 2);
        std::fs::remove_dir(&tokens).expect("it is empty");
        std::fs::rename(&away, &tokens).expect("the same directory");
        eventually("it is found again", || key.health().link == Link::Up);
        assert!(perform(&key, sign(0x0403, b"back")).is_some());
        assert_eq!(key.health().returned, 1);
        let [lost, back] = setup.reports();
        assert!(
            lost.starts_with("PKCS #11 token \"t\": no token matches"),
            "{lost}"
        );
        assert!(lost.contains("fail until it is back"), "{lost}");
        assert!(
            back.starts_with("PKCS #11 token \"t\": it is back after "),
            "{back}"
        );
    });
}

#[test]
fn a_token_that_comes_and_goes_under_load() {
    in_own_process(|setup| {
        setup.token("t");
        setup.key("t", "ec", "01", &rcgen::PKCS_ECDSA_P256_SHA256);
        setup.key("t", "rsa", "02", &rcgen::PKCS_RSA_SHA256);
        let ec = Arc::new(setup.open("pkcs11:token=t;object=ec"));
        let rsa = Arc::new(setup.open("pkcs11:token=t;object=rsa"));
        let keys = [(ec, 0x0403), (rsa, 0x0401)];
        let is_over = Arc::new(AtomicBool::new(false));
        let signing: Vec<_> = (0..4)
            .map(|number| {
                let ((key, scheme), is_over) = (keys[number % 2].clone(), is_over.clone());
                std::thread::spawn(move || {
                    let mut ended = [0, 0];
                    while !is_over.load(Ordering::Relaxed) {
                        let result = perform(&key, sign(scheme, b"x"));
                        ended[usize::from(result.is_some())] += 1;
                        if let Some(signature) = result {
                            let public = key.public_key();
                            let verified = public.verify(scheme, b"x", signature.expose());
                            verified.expect("only right results come out");
                        } else {
                            // Failing is fast.
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                    ended
                })
            })
            .collect();
        let (tokens, away) = (setup.directory.join("tokens"), setup.directory.join("away"));
        for _ in 0..3 {
            let returned = keys[0].0.health().returned;
            std::fs::rename(&tokens, &away).expect("the same directory");
            eventually("it is away", || keys[0].0.health().link == Link::Away);
            std::fs::rename(&away, &tokens).expect("the same directory");
            eventually("it is back", || keys[0].0.health().returned > returned);
            let done = keys.each_ref().map(|(key, _)| key.stats().done());
            eventually("both sign", || {
                let now = keys.each_ref().map(|(key, _)| key.stats().done());
                now[0] > done[0] && now[1] > done[1]
            });
        }
        is_over.store(true, Ordering::Relaxed);
        let ended = signing
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        let ended = ended.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        let done: u64 = keys.iter().map(|(key, _)| key.stats().done()).sum();
        let failed = keys.iter().flat_map(|(key, _)| {
            let kinds = FailureKind::ALL.into_iter();
            kinds.map(|kind| key.stats().failed(kind))
        });
        assert_eq!(
            ended,
            [failed.sum::<u64>(), done],
            "every job is counted once"
        );
    });
}
