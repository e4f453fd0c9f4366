//! Connections that continue in another process: one test uses a real second process, the others
//! use this process with a rebuilt server.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use sealane_awslc::group_by_name;

use super::*;
use crate::{
    Ktls, KtlsMode, KtlsSettings, NotPackable, Packed, Refusal, RingSettings, SelectServer,
    Selected, SessionCache, SessionCacheSetting, TicketRing, UnpackError, moving_format,
};

/// What the other process does with it.
fn arrive(packed: Packed, acceptor: &Acceptor) -> Result<Connection, UnpackError> {
    let bytes = packed.into_bytes();
    Connection::unpack(acceptor, Packed::from_bytes(bytes.expose())?)
}

fn single(server: &Arc<ServerTls>) -> Acceptor {
    Acceptor::single(Arc::clone(server))
}

impl Pair {
    fn take_server(&mut self) -> Connection {
        let Some(server) = self.server.server().cloned() else {
            panic!("no server was chosen")
        };
        std::mem::replace(&mut self.server, Connection::accept(&single(&server)))
    }

    /// Moves the server's end to `server`.
    fn move_to(&mut self, server: &Arc<ServerTls>) {
        let packed = self.take_server().pack().expect("between two requests");
        self.server = arrive(packed, &single(server)).expect("of this version");
    }

    /// It cannot be packed, and goes on.
    fn stays(&mut self, reason: &NotPackable) {
        assert_eq!(self.server.check_packable().as_ref(), Err(reason));
        let (server, told) = *self.take_server().pack().expect_err("not now");
        assert_eq!(&told, reason);
        self.server = server;
    }
}

/// Everything that variables show.
fn facts(connection: &Connection) -> String {
    let info = connection.info().expect("established");
    let names = [
        info.protocol(),
        info.cipher(),
        info.curve(),
        info.sigalg(),
        info.session_reused(),
        info.server_name(),
        info.session_source(),
        info.session_miss(),
        info.early_data(),
        info.early_data_verdict(),
    ];
    format!(
        "{names:?} {:?} {:?} {:?} {:?} {:?}",
        info.ciphers(),
        info.curves(),
        info.session_id(),
        info.alpn(),
        connection.queue_time()
    )
}

fn suite(name: &'static str) -> impl FnOnce(&mut ClientContextBuilder) {
    move |builder| {
        builder.set_alpn(&[b"http/1.1"]).expect("a name");
        if name.starts_with("TLS_") {
            version(builder, ProtocolVersion::Tls13);
            builder.set_ciphersuites(name).expect("known");
        } else {
            version(builder, ProtocolVersion::Tls12);
            builder.set_cipher_list(name).expect("known");
        }
    }
}

const SUITES: [&str; 11] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "AES256-GCM-SHA384",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-ECDSA-AES256-SHA",
    "AES128-SHA",
];

fn full_settings() -> ServerSettings {
    ServerSettings {
        alpn: vec![b"http/1.1"[..].into()],
        remember_client_offer: true,
        ..settings(&[rsa(), p256()])
    }
}

#[test]
fn ten_moves_with_data_both_ways_under_every_suite() {
    let servers = [server(&full_settings()), server(&full_settings())];
    for name in SUITES {
        // With the second size our own writer takes over, where there is one.
        for bytes in [500, 50_000] {
            let mut pair = Pair::with(&client(suite(name)), &servers[0]);
            pair.handshake().expect("a suite of both");
            pair.chunk_bytes = 1_000;
            let before = facts(&pair.server);
            assert!(before.contains("name.test"), "{before}");
            for round in 0..10 {
                pair.move_to(&servers[(round + 1) % 2]);
                assert_eq!(facts(&pair.server), before, "{name}");
                assert!(pair.server.is_established() && !pair.server.has_pending());
                if round % 3 != 1 {
                    assert_eq!(pair.up(b"request"), b"request", "{name}, {round}");
                    assert_eq!(pair.down(&data(bytes)), data(bytes), "{name}, {round}");
                }
            }
            let mut wire = Vec::new();
            pair.server.shutdown(&mut wire);
            let end = pair
                .client
                .read(&mut &wire[..], &mut Vec::new(), &mut [0; 9]);
            assert_eq!(end, Ok(ReadStatus::CloseNotify), "{name}");
        }
    }
}

#[test]
fn a_close_notify_of_the_client_is_read_after_the_move() {
    let servers = [server(&full_settings()), server(&full_settings())];
    for name in SUITES {
        let mut pair = Pair::with(&client(suite(name)), &servers[0]);
        pair.handshake().expect("a suite of both");
        assert_eq!(pair.down(&data(20_000)), data(20_000));
        pair.move_to(&servers[1]);
        let mut up = Vec::new();
        pair.client.shutdown(&mut up);
        let mut wire = Vec::new();
        let end = pair.server.read(&mut &up[..], &mut wire, &mut [0; 9]);
        assert_eq!(end, Ok(ReadStatus::CloseNotify), "{name}");
        pair.stays(&NotPackable::Closed);
    }
}

#[test]
fn sessions_resume_before_and_after_a_move() {
    let lasting = RingSettings {
        rotation_s: 3_600,
        lifetime_s: 3_600,
        overlap_s: 0,
    };
    let ring = TicketRing::rotating(lasting, sealane_awslc::unix_time_s());
    let ring = Arc::new(ring.expect("memory"));
    for tickets in [true, false] {
        let cache = Arc::new(SessionCache::new(1 << 20));
        let settings = || ServerSettings {
            tickets,
            ticket_ring: Some(Arc::clone(&ring)),
            session_cache: SessionCacheSetting::Shared(Arc::clone(&cache)),
            ..full_settings()
        };
        let servers = [server(&settings()), server(&settings())];
        for name in SUITES {
            let context = client(suite(name));
            let mut pair = Pair::with(&context, &servers[0]);
            pair.handshake().expect("a full handshake");
            // In TLS 1.3 the tickets are not sent yet: they go along.
            pair.move_to(&servers[1]);
            let session = pair.session().expect("a session to resume");
            let mut pair = Pair::resuming(&context, &servers[0], &session);
            pair.handshake().expect("resumed");
            let before = facts(&pair.server);
            assert!(pair.client.is_session_reused(), "{name}: {before}");
            pair.move_to(&servers[1]);
            assert_eq!(facts(&pair.server), before, "{name}");
            assert!(pair.server.resumed().is_some());
            assert_eq!(pair.up(b"request"), b"request");
            assert_eq!(pair.down(&data(40_000)), data(40_000));
        }
    }
}

#[test]
fn keys_turn_after_a_move() {
    let servers = [server(&full_settings()), server(&full_settings())];
    for name in &SUITES[..3] {
        for bytes in [500, 50_000] {
            let mut pair = Pair::with(&client(suite(name)), &servers[0]);
            pair.handshake().expect("a suite of both");
            assert_eq!(pair.down(&data(bytes)), data(bytes));
            for round in 0..6 {
                pair.move_to(&servers[(round + 1) % 2]);
                pair.client.update_keys().expect("TLS 1.3");
                assert_eq!(pair.up(b"request"), b"request", "{name}");
                // Its answer is owed, and comes with the next write.
                pair.stays(&NotPackable::KeyUpdate);
                if round % 2 == 0 {
                    pair.server
                        .write(&[], 0, &mut pair.to_client)
                        .expect("established");
                    pair.move_to(&servers[round % 2]);
                }
                assert_eq!(pair.down(&data(bytes)), data(bytes), "{name}, {round}");
            }
        }
    }
}

#[test]
fn what_cannot_move_says_why_and_goes_on() {
    let server = server(&full_settings());
    let fresh = Connection::accept(&single(&server));
    assert_eq!(fresh.check_packable(), Err(NotPackable::Handshake));
    let old = client(|builder| version(builder, ProtocolVersion::Tls11));
    let mut pair = Pair::with(&old, &server);
    pair.handshake().expect("a version of both");
    pair.stays(&NotPackable::Protocol("TLSv1.1"));
    assert_eq!(pair.down(b"response"), b"response");
    for name in ["TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-SHA256"] {
        let mut pair = Pair::with(&client(suite(name)), &server);
        let status = pair.client.handshake(&mut &[][..], &mut pair.to_server);
        assert_eq!(status, Ok(HandshakeStatus::WantRead));
        let hello = std::mem::take(&mut pair.to_server);
        let status = pair
            .server
            .handshake(&mut &hello[..], &mut pair.to_client, pair.load);
        assert_eq!(status, Ok(HandshakeStatus::WantRead));
        pair.stays(&NotPackable::Handshake);
        pair.handshake().expect("a suite of both");
        assert_eq!(pair.down(&data(9)), data(9));
        pair.client
            .write(b"request", &mut pair.to_server)
            .expect("established");
        let wire = std::mem::take(&mut pair.to_server);
        let (first, rest) = wire.split_at(wire.len() / 2);
        let mut wire = Vec::new();
        assert_eq!(read_all(&mut pair.server, first, 100, &mut wire), b"");
        pair.stays(&NotPackable::Unread);
        assert_eq!(read_all(&mut pair.server, rest, 100, &mut wire), b"request");
        pair.server.shutdown(&mut wire);
        pair.stays(&NotPackable::Closed);
    }
}

/// A client that was told one server's certificate ends up where its name leads.
#[test]
fn the_server_is_found_by_name_and_judged_by_its_certificate() {
    struct Two(Arc<ServerTls>, Arc<ServerTls>);
    impl SelectServer for Two {
        fn select(&self, name: Option<&str>) -> Selected {
            match name {
                Some("name.test") => Selected::Server(Arc::clone(&self.0), 4),
                Some("gone.test") => Selected::Reject,
                _ => Selected::Server(Arc::clone(&self.1), 7),
            }
        }
    }
    let both = server(&full_settings());
    let other = server(&settings(&[ed25519()]));
    let acceptor = Acceptor::new(Arc::new(Two(Arc::clone(&both), Arc::clone(&other))));
    let context = client(suite("ECDHE-ECDSA-AES256-GCM-SHA384"));
    for (sent, name, token) in [
        (Some("NAME.test"), Some("name.test"), 4),
        (Some("else.test"), Some("else.test"), 7),
        (None, None, 7),
    ] {
        let mut pair = Pair::new(&context, &single(&both), sent);
        pair.handshake().expect("a suite of both");
        let packed = pair.take_server().pack().expect("established");
        assert_eq!(packed.server_name(), name);
        assert!(both.has_certificate(packed.certificate()));
        assert!(!other.has_certificate(packed.certificate()));
        pair.server = arrive(packed, &acceptor).expect("a server for every name");
        assert_eq!(pair.server.selected_token(), token);
        assert_eq!(pair.down(&data(30_000)), data(30_000));
    }
    let mut pair = Pair::new(&context, &single(&both), Some("gone.test"));
    pair.handshake().expect("a suite of both");
    let packed = pair.take_server().pack().expect("established");
    let bytes = packed.into_bytes();
    let packed = Packed::from_bytes(bytes.expose()).expect("of this version");
    let refused = Connection::unpack(&acceptor, packed).expect_err("the name is gone");
    assert_eq!(refused, UnpackError::NoServer);
    // The new process did nothing with it: the old one may go on.
    let packed = Packed::from_bytes(bytes.expose()).expect("of this version");
    pair.server = Connection::unpack(&single(&both), packed).expect("as before");
    assert_eq!(pair.down(b"response"), b"response");
}

#[test]
fn records_go_on_growing() {
    let settings = || ServerSettings {
        dynamic_records: Some(crate::DynamicRecords::default()),
        ..full_settings()
    };
    let servers = [server(&settings()), server(&settings())];
    for name in ["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"] {
        let mut pair = Pair::with(&client(suite(name)), &servers[0]);
        pair.handshake().expect("a suite of both");
        assert_eq!(pair.down(&data(300_000)), data(300_000));
        pair.move_to(&servers[1]);
        pair.server
            .write(&data(60_000), 900, &mut pair.to_client)
            .expect("established");
        let first = u16::from_be_bytes([pair.to_client[3], pair.to_client[4]]);
        assert!(first > 16_000, "{name}: {first}");
        pair.move_to(&servers[0]);
        pair.server
            .write(&data(1), 5_000, &mut pair.to_client)
            .expect("established");
        assert_eq!(pair.down(&[]), [data(60_000), data(1)].concat());
    }
}

/// Settings and kernel are judged again, what this socket said is not.
#[test]
fn reasons_against_kernel_tls_are_found_again() {
    let with = |mode, capabilities| {
        server(&ServerSettings {
            ktls: KtlsSettings {
                mode: Some(mode),
                capabilities: Arc::new(capabilities),
                ..KtlsSettings::default()
            },
            ..full_settings()
        })
    };
    let everything = crate::Capabilities::everything;
    let auto = with(KtlsMode::Auto, everything());
    let off = with(KtlsMode::Off, everything());
    let name = |connection: &Connection| match connection.ktls() {
        Ktls::Off(refusal) => refusal.name(),
        Ktls::Pending => "pending",
        Ktls::On => "on",
    };
    for suite_name in ["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"] {
        let mut pair = Pair::with(&client(suite(suite_name)), &off);
        pair.handshake().expect("a suite of both");
        assert_eq!(pair.down(&data(50_000)), data(50_000));
        assert!(!pair.server.settle_ktls(true));
        assert_eq!(name(&pair.server), "disabled");
        pair.move_to(&auto);
        assert!(!pair.server.settle_ktls(true));
        assert_eq!(name(&pair.server), "pending");
        assert!(pair.server.wants_kernel(1 << 20));
        pair.move_to(&off);
        assert!(!pair.server.settle_ktls(true));
        assert_eq!(name(&pair.server), "disabled");
        pair.move_to(&auto);
        assert!(!pair.server.settle_ktls(false));
        assert_eq!(name(&pair.server), "not_tcp");
        pair.move_to(&with(KtlsMode::On, everything()));
        assert!(pair.server.settle_ktls(true));

        let mut pair = Pair::with(&client(suite(suite_name)), &auto);
        pair.handshake().expect("a suite of both");
        assert_eq!(pair.down(&data(50_000)), data(50_000));
        let (socket, _other) = UnixStream::pair().expect("descriptors");
        pair.server.take_over(socket.as_fd());
        let Ktls::Off(refusal @ Refusal::Call { .. }) = pair.server.ktls() else {
            panic!("{:?}", pair.server.ktls())
        };
        let refusal = refusal.clone();
        pair.move_to(&with(KtlsMode::On, everything()));
        assert!(!pair.server.settle_ktls(true), "it is not tried again");
        assert!(matches!(pair.server.ktls(), Ktls::Off(again) if *again == refusal));
        assert!(!pair.server.wants_kernel(u64::MAX));
        assert_eq!(pair.down(&data(50_000)), data(50_000));
    }
}

#[test]
fn a_server_that_does_not_ask_for_groups_does_not_keep_them() {
    let asks = server(&full_settings());
    let does_not = server(&settings(&[rsa()]));
    let group = group_by_name("P-384").expect("known");
    let context = client(|builder| builder.set_groups(&[group]).expect("known"));
    let mut pair = Pair::with(&context, &asks);
    pair.handshake().expect("a group of both");
    pair.move_to(&asks);
    let shown = |pair: &Pair| pair.server.info().map(|info| info.curves());
    assert_eq!(shown(&pair).as_deref(), Some("secp384r1"));
    pair.move_to(&does_not);
    assert_eq!(shown(&pair).as_deref(), Some(""));
}

/// Bytes that were changed on their way are refused, or make a connection that fails.
#[test]
fn changed_bytes_never_panic() {
    let server = server(&full_settings());
    let acceptor = single(&server);
    for name in ["TLS_CHACHA20_POLY1305_SHA256", "AES128-SHA"] {
        let mut pair = Pair::with(&client(suite(name)), &server);
        pair.handshake().expect("a suite of both");
        assert_eq!(pair.down(&data(20_000)), data(20_000));
        let packed = pair.take_server().pack().expect("established");
        let bytes = packed.into_bytes();
        let bytes = bytes.expose();
        assert!(bytes.len() < 1_500, "{name}: {}", bytes.len());
        for at in 0..bytes.len() {
            let cut = Packed::from_bytes(&bytes[..at]);
            assert!(cut.is_err(), "{name}, {at}");
            for change in [1, 0x10, 0x80, 0xff] {
                let mut changed = bytes.to_vec();
                changed[at] ^= change;
                let Ok(packed) = Packed::from_bytes(&changed) else {
                    continue;
                };
                let Ok(mut connection) = Connection::unpack(&acceptor, packed) else {
                    continue;
                };
                let mut output = Vec::new();
                let _ = facts(&connection);
                let _ = connection.write(&data(20_000), 0, &mut output);
                let _ = connection.read(&mut &[23; 99][..], &mut output, &mut [0; 99]);
                connection.shutdown(&mut output);
                let _ = connection.pack();
            }
        }
    }
}

/// Set in the process that goes on.
const OTHER_PROCESS: &str = "SEALANE_TEST_OTHER_PROCESS";

#[test]
fn another_process_goes_on() {
    if std::env::var_os(OTHER_PROCESS).is_some() {
        return go_on_here();
    }
    let server = server(&full_settings());
    for name in SUITES {
        let mut pair = Pair::with(&client(suite(name)), &server);
        pair.handshake().expect("a suite of both");
        assert_eq!(pair.up(b"request"), b"request");
        assert_eq!(pair.down(&data(50_000)), data(50_000));
        let (mut ours, theirs) = UnixStream::pair().expect("descriptors");
        ours.set_read_timeout(Some(Duration::from_secs(120)))
            .expect("not zero");
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["--exact", "tests::moving::another_process_goes_on"])
            .env(OTHER_PROCESS, "1")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .expect("it runs");
        let packed = pair.take_server().pack().expect("between two requests");
        send(&mut ours, moving_format().as_bytes());
        send(&mut ours, packed.into_bytes().expose());
        for _ in 0..3 {
            let mut up = Vec::new();
            pair.client.write(b"request", &mut up).expect("established");
            send(&mut ours, &up);
            pair.to_client = receive(&mut ours).expect("an answer");
            let (mut plain, wire) = (vec![0; 40_000], std::mem::take(&mut pair.to_client));
            let status = pair
                .client
                .read(&mut &wire[..], &mut Vec::new(), &mut plain);
            assert_eq!(status, Ok(ReadStatus::Data(30_000)), "{name}");
            assert_eq!(plain[..30_000], data(30_000));
        }
        drop(ours);
        assert!(child.wait().expect("started above").success(), "{name}");
    }
}

/// Its certificates are others, and nothing else is known of the connection.
fn go_on_here() {
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let mut socket = UnixStream::from(socket.expect("a descriptor"));
    let format = receive(&mut socket).expect("the format comes first");
    assert_eq!(format, moving_format().as_bytes());
    let server = server(&full_settings());
    let packed = receive(&mut socket).expect("the connection comes next");
    let packed = Packed::from_bytes(&packed).expect("of this version");
    assert!(!server.has_certificate(packed.certificate()));
    let mut connection = Connection::unpack(&single(&server), packed).expect("of this version");
    while let Some(wire) = receive(&mut socket) {
        let mut down = Vec::new();
        assert_eq!(
            read_all(&mut connection, &wire, 1_000, &mut down),
            b"request"
        );
        connection
            .write(&data(30_000), 0, &mut down)
            .expect("established");
        send(&mut socket, &down);
    }
}

fn send(socket: &mut UnixStream, bytes: &[u8]) {
    let length = (bytes.len() as u64).to_be_bytes();
    let sent = socket
        .write_all(&length)
        .and_then(|()| socket.write_all(bytes));
    sent.expect("somebody reads");
}

/// `None` when the other side has closed.
fn receive(socket: &mut UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 8];
    socket.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; u64::from_be_bytes(length) as usize];
    socket.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
