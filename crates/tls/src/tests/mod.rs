//! Whole connections in memory: a client of `awslc` against this crate's server.

mod client_certificates;
mod early_data;
mod ech;
mod handshakes;
mod identities;
mod ktls;
mod large_hellos;
mod moving;
mod offer;
mod offload;
mod quic;
mod record_writer;
mod resumption;
mod robustness;
mod selection;
mod settings;
mod shared;

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use sealane_awslc::{
    ClientConnection, ClientContext, ClientContextBuilder, ProtocolVersion, Session,
};

use crate::offload::Load;
use crate::{
    Acceptor, Connection, Error, HandshakeStatus, Identity, Protocol, ReadStatus, Secret,
    ServerSettings, ServerTls,
};

/// A certificate made for this run of the tests.
#[derive(Clone)]
struct Made {
    chain_pem: String,
    key_pem: String,
}

impl Made {
    fn identity(&self) -> Identity {
        identity(&self.chain_pem, &self.key_pem)
    }
}

pub(crate) fn identity(chain_pem: &str, key_pem: &str) -> Identity {
    Identity {
        chain_pem: chain_pem.as_bytes().to_vec(),
        key_pem: Secret::new(key_pem.as_bytes().to_vec()),
        passwords: Vec::new(),
        chain_label: "cert.pem".to_owned(),
        key_label: "key.pem".to_owned(),
    }
}

fn make(algorithm: &'static rcgen::SignatureAlgorithm, name: &str) -> Made {
    let key = rcgen::KeyPair::generate_for(algorithm).expect("the algorithm is supported");
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a valid name");
    let certificate = params.self_signed(&key).expect("the key signs");
    Made {
        chain_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    }
}

fn rsa() -> Made {
    static RSA: OnceLock<Made> = OnceLock::new();
    RSA.get_or_init(|| make(&rcgen::PKCS_RSA_SHA256, "rsa.test"))
        .clone()
}

fn p256() -> Made {
    static P256: OnceLock<Made> = OnceLock::new();
    P256.get_or_init(|| make(&rcgen::PKCS_ECDSA_P256_SHA256, "p256.test"))
        .clone()
}

fn ed25519() -> Made {
    static ED25519: OnceLock<Made> = OnceLock::new();
    ED25519
        .get_or_init(|| make(&rcgen::PKCS_ED25519, "ed25519.test"))
        .clone()
}

/// Settings with these certificates, every protocol and every suite.
fn settings(identities: &[Made]) -> ServerSettings {
    ServerSettings {
        identities: identities.iter().map(Made::identity).collect(),
        protocols: [
            Protocol::TlsV1,
            Protocol::TlsV1_1,
            Protocol::TlsV1_2,
            Protocol::TlsV1_3,
        ]
        .into_iter()
        .collect(),
        ciphers: "ALL:!aNULL".to_owned(),
        ..ServerSettings::default()
    }
}

pub(crate) fn server(settings: &ServerSettings) -> Arc<ServerTls> {
    let (server, warnings) = ServerTls::build(settings).expect("valid settings");
    assert_eq!(warnings, [], "no warning is expected");
    Arc::new(server)
}

fn client(configure: impl FnOnce(&mut ClientContextBuilder)) -> ClientContext {
    let mut builder = ClientContext::builder().expect("memory");
    builder
        .set_protocol_range(ProtocolVersion::Tls10, ProtocolVersion::Tls13)
        .expect("valid");
    configure(&mut builder);
    builder.build().expect("memory")
}

fn version(builder: &mut ClientContextBuilder, version: ProtocolVersion) {
    builder.set_protocol_range(version, version).expect("valid");
}

/// Both ends and the bytes between them.
struct Pair {
    client: ClientConnection,
    server: Connection,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// Bytes delivered per call.
    chunk_bytes: usize,
    /// How often the server asked the store.
    pending: usize,
    /// What the server's worker has to do besides.
    load: Load,
}

impl Pair {
    fn new(client: &ClientContext, acceptor: &Acceptor, name: Option<&str>) -> Self {
        Self {
            client: ClientConnection::new(client, name).expect("memory"),
            server: Connection::accept(acceptor),
            to_server: Vec::new(),
            to_client: Vec::new(),
            chunk_bytes: usize::MAX,
            pending: 0,
            load: Load::default(),
        }
    }

    fn with(client: &ClientContext, server: &Arc<ServerTls>) -> Self {
        Self::new(
            client,
            &Acceptor::single(Arc::clone(server)),
            Some("name.test"),
        )
    }

    fn resuming(client: &ClientContext, server: &Arc<ServerTls>, session: &Session) -> Self {
        let mut pair = Self::with(client, server);
        pair.client
            .set_session(session)
            .expect("before the handshake");
        pair
    }

    /// Runs both sides until they are done; an error names the side.
    fn handshake(&mut self) -> Result<(), Failure> {
        let (mut client_done, mut server_done) = (false, false);
        for _ in 0..200_000 {
            if client_done && server_done {
                return Ok(());
            }
            if !client_done {
                let status = deliver(&mut self.to_client, self.chunk_bytes, |input| {
                    self.client.handshake(input, &mut self.to_server)
                });
                client_done = status.map_err(Failure::Client)? == HandshakeStatus::Done;
            }
            if !server_done {
                let status = deliver(&mut self.to_server, self.chunk_bytes, |input| {
                    self.server.handshake(input, &mut self.to_client, self.load)
                });
                let status = status.map_err(Failure::Server)?;
                server_done = status == HandshakeStatus::Done;
                if status == HandshakeStatus::Pending {
                    self.pending += 1;
                    let mut cx = Context::from_waker(Waker::noop());
                    if self.server.poll_pending(&mut cx).is_pending() {
                        self.server.lookup_timed_out();
                    }
                }
            }
        }
        panic!("the handshake makes no progress");
    }

    /// Sends `data` from the server; returns what the client reads.
    fn down(&mut self, data: &[u8]) -> Vec<u8> {
        self.server
            .write(data, 0, &mut self.to_client)
            .expect("established");
        let (mut received, mut buffer) = (Vec::new(), vec![0; 50_000]);
        let wire = std::mem::take(&mut self.to_client);
        for piece in wire.chunks(self.chunk_bytes.min(wire.len().max(1))) {
            let mut input = piece;
            while let ReadStatus::Data(count) = self
                .client
                .read(&mut input, &mut self.to_server, &mut buffer)
                .expect("valid records")
            {
                received.extend_from_slice(&buffer[..count]);
            }
            assert!(input.is_empty(), "everything is consumed");
        }
        received
    }

    /// Sends `data` from the client; returns what the server reads.
    fn up(&mut self, data: &[u8]) -> Vec<u8> {
        self.client
            .write(data, &mut self.to_server)
            .expect("established");
        let wire = std::mem::take(&mut self.to_server);
        let chunk_bytes = self.chunk_bytes;
        read_all(&mut self.server, &wire, chunk_bytes, &mut self.to_client)
    }

    /// A session the client can resume with.
    fn session(&mut self) -> Option<Session> {
        assert_eq!(self.down(b"ticket"), b"ticket");
        self.client.take_session()
    }
}

/// Gives the first bytes of what is under way to its receiver, and keeps what that leaves.
pub(crate) fn deliver<T>(
    wire: &mut Vec<u8>,
    most_bytes: usize,
    receive: impl FnOnce(&mut &[u8]) -> T,
) -> T {
    let later = wire.split_off(most_bytes.min(wire.len()));
    let now = std::mem::take(wire);
    let mut input = &now[..];
    let received = receive(&mut input);
    *wire = [input, &later].concat();
    received
}

/// What the server reads, when `wire` comes in chunks of so many bytes.
pub(crate) fn read_all(
    server: &mut Connection,
    wire: &[u8],
    chunk_bytes: usize,
    to_client: &mut Vec<u8>,
) -> Vec<u8> {
    let (mut received, mut buffer) = (Vec::new(), vec![0; 1000]);
    for piece in wire.chunks(chunk_bytes.min(wire.len().max(1))) {
        let mut input = piece;
        while let ReadStatus::Data(count) = server
            .read(&mut input, to_client, &mut buffer)
            .expect("valid records")
        {
            received.extend_from_slice(&buffer[..count]);
        }
        assert!(input.is_empty(), "everything is consumed");
    }
    received
}

#[derive(Debug)]
enum Failure {
    #[allow(dead_code, reason = "shown when a test fails")]
    Client(sealane_awslc::Error),
    Server(Error),
}

/// A socket that cannot be taken over: its connection has ended.
pub(crate) fn ended_socket() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback");
    let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
    socket.shutdown(Shutdown::Both).expect("connected");
    socket
}

pub(crate) fn data(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 31 % 251) as u8).collect()
}
