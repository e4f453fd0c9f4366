//! A connection whose records the kernel seals; its state is set by hand. `tests/vm` tests whether
//! a kernel really continues it.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use sealane_awslc::{ClientConnection, ClientContext, HandshakeStatus, ReadStatus};

use super::*;
use crate::ktls::KernelCounts;
use crate::offload::Load;
use crate::tests::{identity, server};
use crate::{Capabilities, Ktls, KtlsMode, KtlsSettings, ServerSettings, ServerTls, UnpackError};

fn built(key_records: u64) -> Arc<ServerTls> {
    let key = rcgen::KeyPair::generate().expect("supported");
    let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("the key signs");
    server(&ServerSettings {
        identities: vec![identity(&certificate.pem(), &key.serialize_pem())],
        ktls: KtlsSettings {
            mode: Some(KtlsMode::On),
            max_key_records: key_records,
            capabilities: Arc::new(Capabilities::everything()),
            ..KtlsSettings::default()
        },
        ..ServerSettings::default()
    })
}

fn established(server: &Arc<ServerTls>) -> (ClientConnection, Connection) {
    let context = ClientContext::builder().and_then(|builder| builder.build());
    let mut client =
        ClientConnection::new(&context.expect("memory"), Some("a.test")).expect("memory");
    let mut connection = Connection::accept(&Acceptor::single(Arc::clone(server)));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut is_done = false;
    while !is_done || !client.is_established() {
        let status = client.handshake(&mut &down[..], &mut up);
        status.expect("a suite of both");
        down.clear();
        let status = connection.handshake(&mut &up[..], &mut down, Load::default());
        is_done = status.expect("a suite of both") == HandshakeStatus::Done;
        up.clear();
    }
    connection.write(&[], 0, &mut down).expect("established");
    (client, connection)
}

/// As `take_over` leaves it.
fn sealed_by_kernel(
    server: &Arc<ServerTls>,
    counts: KernelCounts,
) -> (ClientConnection, Connection) {
    let (client, mut connection) = established(server);
    if let ConnectionState::Running(tls) = &mut connection.state {
        tls.release_transmit();
    }
    let kernel = KernelTransmit::new(server.ktls_policy(), true, counts);
    connection.ktls = Sealing::On(Box::new(kernel));
    (client, connection)
}

fn arrive(connection: Connection, server: &Arc<ServerTls>) -> Connection {
    let bytes = connection
        .pack()
        .expect("between two requests")
        .into_bytes();
    let packed = Packed::from_bytes(bytes.expose()).expect("of this version");
    assert!(packed.is_sealed_by_kernel());
    Connection::unpack(&Acceptor::single(Arc::clone(server)), packed).expect("a server")
}

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback");
    let ours = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
    let (theirs, _) = listener.accept().expect("connected");
    (ours, theirs)
}

const COUNTS: KernelCounts = KernelCounts {
    records: 60,
    key_updates: 3,
};

#[test]
fn the_kernel_goes_on_sealing_and_libssl_stays_behind_its_guard() {
    let servers = [built(100), built(1_000)];
    let (mut client, connection) = sealed_by_kernel(&servers[0], COUNTS);
    let mut connection = connection;
    for round in 0..10 {
        connection = arrive(connection, &servers[round % 2]);
        assert!(connection.is_sealed_by_kernel() && matches!(connection.ktls(), Ktls::On));
        assert!(connection.write(b"x", 0, &mut Vec::new()).is_err());
        let Sealing::On(kernel) = &connection.ktls else {
            panic!("checked above")
        };
        assert_eq!(kernel.counts(), Ok(COUNTS));
        let (mut up, mut wire) = (Vec::new(), Vec::new());
        client.write(b"request", &mut up).expect("established");
        let status = connection.read(&mut &up[..], &mut wire, &mut [0; 20]);
        assert_eq!(status, Ok(ReadStatus::Data(7)));
        assert!(wire.is_empty());
    }
    // The limit is the present server's: 1,000 records, of which 60 are used.
    assert_eq!(connection.kernel_allowance_bytes(), 939 << 14);
    assert!(!connection.settle_ktls(true), "it is on already");
    let (ours, mut theirs) = sockets();
    connection.shutdown(&mut Vec::new());
    assert_eq!(
        connection.check_packable(),
        Err(NotPackable::Closed),
        "libssl has said it"
    );
    let sent = connection.send_control(ours.as_fd(), false);
    assert_eq!(sent.expect("a connected socket"), None);
    let mut alert = [0; 2];
    theirs.read_exact(&mut alert).expect("sent just now");
    assert_eq!(alert, [1, 0], "close_notify, which the kernel would seal");
}

#[test]
fn what_is_on_its_way_through_the_kernel_comes_first() {
    let server = built(100);
    let (mut client, mut connection) = sealed_by_kernel(&server, COUNTS);
    let (mut up, mut plain) = (Vec::new(), [0; 20]);
    client.update_keys().expect("TLS 1.3");
    client.write(b"x", &mut up).expect("established");
    let status = connection.read(&mut &up[..], &mut Vec::new(), &mut plain);
    assert_eq!(status, Ok(ReadStatus::Data(1)));
    assert_eq!(connection.check_packable(), Err(NotPackable::KeyUpdate));
    // The message leaves; this socket does not take the key that follows.
    let (ours, mut theirs) = sockets();
    assert!(connection.send_control(ours.as_fd(), true).is_err());
    let mut message = [0; 5];
    theirs.read_exact(&mut message).expect("sent just now");
    assert_eq!(message, crate::control_records::KEY_UPDATE);
    let (connection, reason) = *connection.pack().expect_err("between two keys");
    assert_eq!(reason, NotPackable::KeyUpdate);
    assert!(connection.is_sealed_by_kernel());
}

/// libssl and somebody else would both seal, or nobody.
#[test]
fn who_seals_must_fit_the_guard() {
    let server = built(100);
    let acceptor = Acceptor::single(Arc::clone(&server));
    let (_client, connection) = sealed_by_kernel(&server, COUNTS);
    let mut packed = connection.pack().expect("between two requests");
    packed.sealer = Sealer::Library;
    let refused = Connection::unpack(&acceptor, packed).expect_err("nobody would seal");
    assert_eq!(refused, UnpackError::Malformed("who seals"));
    let (_client, connection) = established(&server);
    let mut packed = connection.pack().expect("between two requests");
    packed.sealer = Sealer::Kernel(COUNTS);
    let refused = Connection::unpack(&acceptor, packed).expect_err("both would seal");
    assert_eq!(refused, UnpackError::Malformed("who seals"));
    let (_client, connection) = sealed_by_kernel(&server, COUNTS);
    let mut packed = connection.pack().expect("between two requests");
    packed.sealer = Sealer::Writer { sequence: 1 };
    let refused = Connection::unpack(&acceptor, packed).expect_err("AES has no such writer");
    assert_eq!(refused, UnpackError::NoRecordWriter);
}
