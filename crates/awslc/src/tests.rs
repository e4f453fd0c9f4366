//! Keys, certificates, and behaviour at the boundary to C. `sealane-tls`, which builds servers,
//! tests whole handshakes.

use std::ffi::c_int;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use aws_lc_sys as sys;

use super::*;

pub(crate) struct Made {
    pub(crate) chain: CertificateChain,
    pub(crate) key: PrivateKey,
    key_pem: String,
}

pub(crate) fn make(algorithm: &'static rcgen::SignatureAlgorithm) -> Made {
    let key = rcgen::KeyPair::generate_for(algorithm).expect("supported");
    let names = vec!["a.test".to_owned(), "*.B.test".to_owned()];
    let mut params = rcgen::CertificateParams::new(names).expect("valid names");
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "a.test");
    params
        .distinguished_name
        .push(rcgen::DnType::OrganizationName, "Example, Inc");
    let certificate = params.self_signed(&key).expect("the key signs");
    Made {
        chain: CertificateChain::from_pem(certificate.pem().as_bytes()).expect("just made"),
        key: PrivateKey::from_pem(key.serialize_pem().as_bytes(), &[]).expect("just made"),
        key_pem: key.serialize_pem(),
    }
}

pub(crate) fn server_builder(made: &Made) -> ContextBuilder {
    let mut builder = ContextBuilder::new().expect("memory");
    builder
        .set_identity(&made.chain, &made.key)
        .expect("they match");
    builder
}

fn client() -> ClientContext {
    ClientContext::builder()
        .and_then(ClientContextBuilder::build)
        .expect("memory")
}

/// Runs a handshake to its end; the client's last flight is consumed as well.
pub(crate) fn handshake(
    client: &mut ClientConnection,
    server: &mut Connection,
) -> Result<(), Error> {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let (mut client_done, mut server_done) = (false, false);
    while !(client_done && server_done) {
        client_done =
            client.handshake(&mut &to_client[..], &mut to_server)? == HandshakeStatus::Done;
        to_client.clear();
        server_done =
            server.do_handshake(&mut &to_server[..], &mut to_client)? == HandshakeStatus::Done;
        to_server.clear();
    }
    Ok(())
}

#[test]
fn kinds_and_sizes_of_keys() {
    for (algorithm, kind, bits) in [
        (&rcgen::PKCS_RSA_SHA256, KeyKind::Rsa, 2048),
        (&rcgen::PKCS_ECDSA_P256_SHA256, KeyKind::EcP256, 256),
        (&rcgen::PKCS_ECDSA_P384_SHA384, KeyKind::EcP384, 384),
        (&rcgen::PKCS_ED25519, KeyKind::Ed25519, 256),
    ] {
        let made = make(algorithm);
        assert_eq!(made.key.kind(), kind);
        if kind != KeyKind::Ed25519 {
            assert_eq!(made.key.bits(), bits);
        }
        assert_eq!(made.chain.leaf().check_key(&made.key), Ok(()));
        assert!(!format!("{:?}", made.key).contains("BEGIN"));
    }
}

#[test]
fn a_key_of_another_certificate_does_not_match() {
    let [ours, theirs] = [
        make(&rcgen::PKCS_ECDSA_P256_SHA256),
        make(&rcgen::PKCS_ECDSA_P256_SHA256),
    ];
    let error = ours
        .chain
        .leaf()
        .check_key(&theirs.key)
        .expect_err("another key");
    assert_eq!(error.reason(), Some("KEY_VALUES_MISMATCH"), "{error}");
    let mut builder = ContextBuilder::new().expect("memory");
    assert!(builder.set_identity(&ours.chain, &theirs.key).is_err());
}

#[test]
fn fields_of_a_certificate() {
    let made = make(&rcgen::PKCS_ECDSA_P256_SHA256);
    let leaf = made.chain.leaf();
    assert_eq!(leaf.dns_names(), ["a.test", "*.b.test"]);
    let subject = leaf.subject().expect("printable");
    assert!(
        subject.contains("CN=a.test") && subject.contains("O=Example\\, Inc"),
        "{subject}"
    );
    assert_eq!(leaf.issuer(), leaf.subject());
    assert!(leaf.not_after_unix_s().expect("a date") > 1_700_000_000);
    assert!(
        CertificateChain::from_pem(&leaf.to_der().expect("valid")).is_err(),
        "DER is not PEM"
    );
}

#[test]
fn a_chain_of_several_certificates_and_one_that_is_broken() {
    let pem = |n: u8| {
        let key = rcgen::KeyPair::generate().expect("supported");
        let params = rcgen::CertificateParams::new(vec![format!("n{n}.test")]).expect("valid");
        params.self_signed(&key).expect("the key signs").pem()
    };
    let both = format!("{}\ncomment\n{}", pem(1), pem(2));
    let chain = CertificateChain::from_pem(both.as_bytes()).expect("two certificates");
    assert_eq!(chain.certificates().len(), 2);
    assert_eq!(chain.leaf().dns_names(), ["n1.test"]);
    let broken = both.replacen("MII", "MIJ", 1);
    assert!(CertificateChain::from_pem(broken.as_bytes()).is_err());
    let second_broken = format!(
        "{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        pem(1)
    );
    assert!(
        CertificateChain::from_pem(second_broken.as_bytes()).is_err(),
        "never half a chain"
    );
}

/// Encrypts a key with the `openssl` binary.
fn encrypted(key_pem: &str, arguments: &[&str]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed (scripts/install-test-deps.sh)");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(key_pem.as_bytes())
        .expect("openssl reads it");
    let output = child.wait_with_output().expect("it was started");
    assert!(output.status.success() && !output.stdout.is_empty());
    output.stdout
}

#[test]
fn encrypted_keys_and_their_passwords() {
    let made = make(&rcgen::PKCS_RSA_SHA256);
    let secret = |text: &str| Secret::new(text.as_bytes().to_vec());
    for arguments in [
        &[
            "pkcs8",
            "-topk8",
            "-v2",
            "aes-256-cbc",
            "-passout",
            "pass:right",
        ][..],
        &["rsa", "-traditional", "-aes256", "-passout", "pass:right"][..],
    ] {
        let pem = encrypted(&made.key_pem, arguments);
        let key = PrivateKey::from_pem(&pem, &[secret("wrong"), secret("right")])
            .expect("the second opens it");
        assert_eq!(made.chain.leaf().check_key(&key), Ok(()));
        let wrong = PrivateKey::from_pem(&pem, &[secret("wrong"), secret("")]);
        assert!(
            matches!(wrong, Err(KeyError::WrongPassword(_))),
            "{wrong:?}"
        );
        let none = PrivateKey::from_pem(&pem, &[]);
        assert!(matches!(none, Err(KeyError::PasswordNeeded(_))), "{none:?}");
        let long = PrivateKey::from_pem(&pem, &[Secret::new(vec![b'x'; 5000])]);
        assert!(matches!(long, Err(KeyError::WrongPassword(_))), "{long:?}");
    }
    let plain = PrivateKey::from_pem(made.key_pem.as_bytes(), &[secret("not needed")]);
    assert!(plain.is_ok(), "a password for a plain key does no harm");
    let garbage = PrivateKey::from_pem(
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        &[],
    );
    assert!(
        matches!(garbage, Err(KeyError::Unreadable(_))),
        "{garbage:?}"
    );
    assert!(matches!(
        PrivateKey::from_der(b"x"),
        Err(KeyError::Unreadable(_))
    ));
}

#[test]
fn a_panic_in_a_callback_is_continued_after_the_call_and_ends_one_connection_only() {
    struct Panics;
    impl TicketCipher for Panics {
        fn overhead_bytes(&self) -> usize {
            0
        }
        fn seal(&self, _: &[u8], _: &mut [u8], _: u64) -> Option<usize> {
            panic!("sealing panics")
        }
        fn open(&self, _: &[u8], _: &mut [u8], _: u64) -> TicketOpened {
            TicketOpened::Miss(Miss::UnknownKey)
        }
    }
    let made = make(&rcgen::PKCS_ECDSA_P256_SHA256);
    let mut builder = server_builder(&made);
    builder.set_tickets_enabled(true);
    builder.set_ticket_cipher(Arc::new(Panics));
    let context = builder.build().expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    let mut client_connection = ClientConnection::new(&client(), None).expect("memory");
    let caught = catch_unwind(AssertUnwindSafe(|| {
        handshake(&mut client_connection, &mut server)
    }));
    let panic = caught.expect_err("the panic goes on in Rust");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"sealing panics"));
    drop(server);
    // The library is as usable as before.
    let context = server_builder(&made).build().expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    let mut client_connection = ClientConnection::new(&client(), None).expect("memory");
    handshake(&mut client_connection, &mut server).expect("another connection");
}

#[test]
fn connections_move_between_threads_in_the_middle_of_a_handshake() {
    let made = make(&rcgen::PKCS_ECDSA_P256_SHA256);
    let context = server_builder(&made).build().expect("memory");
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut client_connection = ClientConnection::new(&client(), Some("a.test")).expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    client_connection
        .handshake(&mut &b""[..], &mut to_server)
        .expect("a hello");
    let (server_back, output) = std::thread::spawn(move || {
        let mut output = Vec::new();
        server
            .do_handshake(&mut &to_server[..], &mut output)
            .expect("a flight");
        (server, output)
    })
    .join()
    .expect("no panic");
    server = server_back;
    to_client.extend_from_slice(&output);
    let mut finish = Vec::new();
    client_connection
        .handshake(&mut &to_client[..], &mut finish)
        .expect("finished");
    assert_eq!(
        server.do_handshake(&mut &finish[..], &mut Vec::new()),
        Ok(HandshakeStatus::Done)
    );
    assert_eq!(server.server_name(), Some("a.test"));
}

#[test]
fn an_error_of_one_connection_is_not_blamed_on_the_next() {
    let made = make(&rcgen::PKCS_ECDSA_P256_SHA256);
    let context = server_builder(&made).build().expect("memory");
    let mut broken = Connection::server(&context).expect("memory");
    let error = broken
        .do_handshake(&mut &b"GET / HTTP/1.1\r\n"[..], &mut Vec::new())
        .expect_err("not TLS");
    assert_eq!(
        (error.reason(), error.fault()),
        (Some("HTTP_REQUEST"), Fault::Peer)
    );
    assert_eq!(
        error.to_string(),
        "SSL_do_handshake() failed (SSL: error:1000009c:SSL routines:OPENSSL_internal:HTTP_REQUEST)"
    );
    let mut waiting = Connection::server(&context).expect("memory");
    assert_eq!(
        waiting.do_handshake(&mut &b""[..], &mut Vec::new()),
        Ok(HandshakeStatus::WantRead)
    );
}

#[test]
fn sealed_records_and_ssl_write_share_one_sequence() {
    let made = make(&rcgen::PKCS_ECDSA_P256_SHA256);
    let mut builder = server_builder(&made);
    builder.set_tickets_enabled(true);
    let context = builder.build().expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    let mut client_connection = ClientConnection::new(&client(), None).expect("memory");
    handshake(&mut client_connection, &mut server).expect("defaults");
    // Tickets, records, and close_notify come from three code paths of libssl.
    let mut wire = Vec::new();
    for size in [0, 1, 16_384, 16_385, 100_000] {
        server
            .write(&vec![size as u8; size], &mut wire)
            .expect("established");
    }
    server
        .write_records(&[9; 10], 3, &mut wire)
        .expect("established");
    server.shutdown(&mut wire);
    let (mut input, mut plain, mut total) = (&wire[..], vec![0; 200_000], 0);
    while let ReadStatus::Data(count) = client_connection
        .read(&mut input, &mut Vec::new(), &mut plain)
        .expect("in sequence")
    {
        total += count;
    }
    assert_eq!(total, 1 + 16_384 + 16_385 + 100_000 + 10);
    assert!(
        client_connection
            .take_session()
            .is_some_and(|session| session.has_ticket())
    );
    assert!(
        server.write(b"late", &mut wire).is_err(),
        "nothing follows a close_notify"
    );
}

#[test]
fn sessions_survive_serialisation() {
    let made = make(&rcgen::PKCS_ECDSA_P256_SHA256);
    let mut builder = server_builder(&made);
    builder.set_tickets_enabled(true);
    builder.set_session_timeout(1234);
    let context = builder.build().expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    let client_context = client();
    let mut first = ClientConnection::new(&client_context, None).expect("memory");
    handshake(&mut first, &mut server).expect("defaults");
    let mut wire = Vec::new();
    server.write(b"x", &mut wire).expect("established");
    first
        .read(&mut &wire[..], &mut Vec::new(), &mut [0; 9])
        .expect("a ticket and data");
    let session = first.take_session().expect("a ticket");
    assert!(session.timeout_s() <= 1234);
    let copy =
        Session::from_bytes(&session.to_bytes().expect("memory"), &context).expect("just written");
    let mut server = Connection::server(&context).expect("memory");
    let mut second = ClientConnection::new(&client_context, None).expect("memory");
    second.set_session(&copy).expect("before the handshake");
    handshake(&mut second, &mut server).expect("resumed");
    assert!(second.is_session_reused() && server.is_session_reused());
    assert!(Session::from_bytes(b"garbage", &context).is_err());
}

#[test]
fn a_verifying_client_refuses_strangers() {
    let [ours, theirs] = [
        make(&rcgen::PKCS_ECDSA_P256_SHA256),
        make(&rcgen::PKCS_ECDSA_P256_SHA256),
    ];
    let context = server_builder(&ours).build().expect("memory");
    for (trusted, name, works) in [
        (&ours, "a.test", true),
        (&ours, "c.test", false),
        (&theirs, "a.test", false),
    ] {
        let mut builder = ClientContext::builder().expect("memory");
        builder.set_verify(Verify::Required);
        builder.add_trusted(&trusted.chain).expect("a certificate");
        let client_context = builder.build().expect("memory");
        let mut client_connection =
            ClientConnection::new(&client_context, Some(name)).expect("memory");
        let mut server = Connection::server(&context).expect("memory");
        assert_eq!(
            handshake(&mut client_connection, &mut server).is_ok(),
            works,
            "{name}"
        );
    }
}

#[test]
fn sealing_with_an_aead_needs_room_and_the_same_key() {
    let [aead, other] = [[1; 32], [2; 32]].map(|key| Aead::new(&key).expect("memory"));
    let (nonce, mut sealed, mut opened) = ([3; Aead::NONCE_BYTES], [0; 100], [0; 100]);
    assert_eq!(aead.seal(&nonce, b"name", b"plain", &mut sealed[..5]), None);
    let length = aead
        .seal(&nonce, b"name", b"plain", &mut sealed)
        .expect("room");
    assert_eq!(length, 5 + Aead::TAG_BYTES);
    assert_eq!(
        aead.open(&nonce, b"name", &sealed[..length], &mut opened),
        Some(5)
    );
    assert_eq!(&opened[..5], b"plain");
    assert_eq!(
        aead.open(&nonce, b"other", &sealed[..length], &mut opened),
        None
    );
    assert_eq!(
        other.open(&nonce, b"name", &sealed[..length], &mut opened),
        None
    );
}

#[test]
fn known_answers() {
    // RFC 5869, test case 1.
    let (mut okm, info) = (
        [0; 42],
        [0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9],
    );
    let salt: Vec<u8> = (0..13).collect();
    hkdf_sha256(&mut okm, &[0x0b; 22], &salt, &info);
    assert_eq!(okm[..8], [0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a]);
    // FIPS 180-4, "abc".
    assert_eq!(sha256(b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
}

#[test]
fn the_library_says_what_it_is() {
    assert!(
        library_version().starts_with("AWS-LC"),
        "{}",
        library_version()
    );
    assert!(all_ciphers().len() >= 20);
}

/// Says what it was asked for, and changes every byte.
struct Inverting(Mutex<Vec<CertificateCompression>>);

impl CertificateCompressor for Inverting {
    fn compress(
        &self,
        algorithm: CertificateCompression,
        message: &[u8],
        output: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool {
        self.0.lock().expect("no panic").push(algorithm);
        let inverted: Vec<u8> = message.iter().map(|byte| !byte).collect();
        output(&inverted[..10]) && output(&inverted[10..])
    }
}

/// What [`Inverting`] makes.
unsafe extern "C" fn invert(
    _ssl: *mut sys::SSL,
    out: *mut *mut sys::CRYPTO_BUFFER,
    length: usize,
    bytes: *const u8,
    count: usize,
) -> c_int {
    assert_eq!(length, count, "as long as before");
    // SAFETY: libssl passes `count` bytes, and takes the buffer.
    unsafe {
        let bytes = std::slice::from_raw_parts(bytes, count);
        let message: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        *out = sys::CRYPTO_BUFFER_new(message.as_ptr(), message.len(), std::ptr::null_mut());
    }
    1
}

#[test]
fn certificates_are_compressed_for_clients_that_ask() {
    use CertificateCompression::{Brotli, Zlib, Zstd};
    let made = make(&rcgen::PKCS_ECDSA_P256_SHA256);
    let asked_for = |offered: &[u16]| {
        let compressor = Arc::new(Inverting(Mutex::default()));
        let mut builder = server_builder(&made);
        builder
            .set_certificate_compression(&[Brotli, Zlib], Arc::clone(&compressor) as _)
            .expect("memory");
        let context = builder.build().expect("memory");
        let asking = ClientContext::builder().expect("memory");
        for algorithm in offered {
            // SAFETY: the context is valid; the callback is a function.
            let code = unsafe {
                sys::SSL_CTX_add_cert_compression_alg(
                    asking.as_ptr(),
                    *algorithm,
                    None,
                    Some(invert),
                )
            };
            assert_eq!(code, 1);
        }
        let asking = asking.build().expect("memory");
        let mut client = ClientConnection::new(&asking, Some("a.test")).expect("memory");
        let mut server = Connection::server(&context).expect("memory");
        handshake(&mut client, &mut server).expect("both agree");
        compressor.0.lock().expect("no panic").clone()
    };
    assert_eq!(
        asked_for(&[Zlib as u16, Brotli as u16]),
        [Brotli],
        "the server's order"
    );
    assert_eq!(asked_for(&[Zlib as u16, Zstd as u16]), [Zlib]);
    assert_eq!(asked_for(&[Zstd as u16]), [], "sent as it is");
    assert_eq!(asked_for(&[]), []);
}

#[test]
fn an_ocsp_response_comes_to_clients_that_ask() {
    let made = make(&rcgen::PKCS_ECDSA_P256_SHA256);
    let context = server_builder(&made).build().expect("memory");
    let received = |asks: bool, response: Option<&[u8]>| {
        let mut asking = ClientContext::builder().expect("memory");
        if asks {
            asking.ask_for_ocsp_response();
        }
        let asking = asking.build().expect("memory");
        let mut client = ClientConnection::new(&asking, Some("a.test")).expect("memory");
        let mut server = Connection::server(&context).expect("memory");
        if let Some(response) = response {
            server.set_ocsp_response(response).expect("memory");
        }
        handshake(&mut client, &mut server).expect("both agree");
        client.ocsp_response_bytes()
    };
    assert_eq!(received(true, Some(b"a response")), 10);
    assert_eq!(received(false, Some(b"a response")), 0);
    assert_eq!(received(true, None), 0);
}

#[test]
fn serial_numbers_are_those_of_der() {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("supported");
    // The first is the example of RFC 9773 section 4.1.
    for (number, der) in [
        (
            &[0x87, 0x65, 0x43, 0x21][..],
            &[0, 0x87, 0x65, 0x43, 0x21][..],
        ),
        (&[0x7f, 0xff], &[0x7f, 0xff]),
        (&[1], &[1]),
    ] {
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("valid names");
        params.serial_number = Some(rcgen::SerialNumber::from_slice(number));
        let certificate = params.self_signed(&key).expect("the key signs");
        let chain = CertificateChain::from_pem(certificate.pem().as_bytes()).expect("just made");
        assert_eq!(chain.leaf().serial_der(), der);
    }
}
