//! Handshakes over QUIC: the client of `quic/client.rs` against the server.

mod early_data;
mod failures;
mod handshakes;
mod waiting;

use super::*;
use crate::client::{ClientSettings, ClientTls, Session as ClientSession};
use crate::quic::{
    ClientConnection as QuicClient, ClientOffer, Event, Failure as QuicFailure, Level,
    ServerConnection as QuicServer, Status, TrafficSecret, Version,
};

const CLIENT_PARAMETERS: &[u8] = b"what the client says";
const SERVER_PARAMETERS: &[u8] = b"what the server says";
/// What a client remembers for its early data.
const REMEMBERED: &[u8] = b"limits and settings";

/// Settings with this certificate, for HTTP/3.
fn settings_of(made: Made) -> ServerSettings {
    ServerSettings {
        quic_protocols: vec![b"h3".as_slice().into(), b"hq".as_slice().into()],
        alpn: vec![b"http/1.1".as_slice().into()],
        ..settings(&[made])
    }
}

fn client_of(settings: &ClientSettings) -> ClientTls {
    let (client, warnings) = ClientTls::build(settings).expect("valid settings");
    assert_eq!(warnings, []);
    client
}

fn plain_client() -> ClientTls {
    client_of(&ClientSettings {
        server_name: true,
        ..ClientSettings::default()
    })
}

fn offer<'a>() -> ClientOffer<'a> {
    ClientOffer {
        protocols: &[b"h3"],
        transport_parameters: CLIENT_PARAMETERS,
        session: None,
        early_data: false,
    }
}

fn resuming(session: &ClientSession) -> ClientOffer<'_> {
    ClientOffer {
        session: Some(session),
        ..offer()
    }
}

/// The side whose handshake has failed.
#[derive(Debug)]
enum Failed {
    Client(QuicFailure),
    Server(QuicFailure),
}

/// The secrets that one side has got.
#[derive(Default)]
struct Secrets {
    read: Vec<(Level, TrafficSecret)>,
    write: Vec<(Level, TrafficSecret)>,
}

impl Secrets {
    fn of(secrets: &[(Level, TrafficSecret)], level: Level) -> Option<&TrafficSecret> {
        let mut found = secrets.iter().filter(|(known, _)| *known == level);
        let secret = found.next().map(|(_, secret)| secret);
        assert!(found.next().is_none(), "each once");
        secret
    }
}

/// Messages under way.
type Wire = Vec<(Level, Vec<u8>)>;

/// Both ends and what is under way between them.
struct QuicPair {
    client: QuicClient,
    server: QuicServer,
    to_server: Wire,
    to_client: Wire,
    client_secrets: Secrets,
    server_secrets: Secrets,
    /// The most bytes given at a time.
    chunk_bytes: usize,
    context: &'static [u8],
    load: Load,
    /// How often the server had to wait.
    pending: usize,
}

impl QuicPair {
    fn new(client: &ClientTls, acceptor: &Acceptor, offer: ClientOffer<'_>) -> Self {
        let client = client.connect_quic(Some("name.test"), offer);
        Self {
            client: client.expect("it can be offered"),
            server: QuicServer::accept(acceptor, Version::V1),
            to_server: Vec::new(),
            to_client: Vec::new(),
            client_secrets: Secrets::default(),
            server_secrets: Secrets::default(),
            chunk_bytes: usize::MAX,
            context: REMEMBERED,
            load: Load::default(),
            pending: 0,
        }
    }

    fn with(client: &ClientTls, server: &Arc<ServerTls>, offer: ClientOffer<'_>) -> Self {
        Self::new(client, &Acceptor::single(Arc::clone(server)), offer)
    }

    fn handshake(&mut self) -> Result<(), Failed> {
        for _ in 0..100 {
            let client = self.step_client().map_err(Failed::Client)?;
            let server = self.step_server().map_err(Failed::Server)?;
            let is_over = client == Status::Established && server == Status::Established;
            if is_over && self.to_server.is_empty() && self.to_client.is_empty() {
                self.check_secrets();
                return Ok(());
            }
        }
        panic!("the handshake makes no progress");
    }

    fn step_client(&mut self) -> Result<Status, QuicFailure> {
        for (level, bytes) in std::mem::take(&mut self.to_client) {
            for piece in bytes.chunks(self.chunk_bytes) {
                self.client.receive(level, piece)?;
                self.client.advance()?;
            }
        }
        let status = self.client.advance()?;
        while let Some(event) = self.client.next_event() {
            sort(event, &mut self.to_server, &mut self.client_secrets);
        }
        Ok(status)
    }

    fn step_server(&mut self) -> Result<Status, QuicFailure> {
        for (level, bytes) in std::mem::take(&mut self.to_server) {
            for piece in bytes.chunks(self.chunk_bytes) {
                self.server.receive(level, piece)?;
                self.advance_server()?;
            }
        }
        self.advance_server()
    }

    fn advance_server(&mut self) -> Result<Status, QuicFailure> {
        let status = loop {
            match self.server.advance(self.load)? {
                Status::Pending => {
                    self.pending += 1;
                    assert_eq!(self.server.next_event(), None);
                    let mut cx = Context::from_waker(Waker::noop());
                    if self.server.poll_pending(&mut cx).is_pending() {
                        self.server.pending_timed_out();
                        std::thread::yield_now();
                    }
                }
                Status::ParametersDue => {
                    let theirs = self.server.peer_transport_parameters();
                    assert_eq!(theirs, Some(CLIENT_PARAMETERS));
                    self.server
                        .set_transport_parameters(SERVER_PARAMETERS, self.context);
                }
                status => break status,
            }
        };
        while let Some(event) = self.server.next_event() {
            sort(event, &mut self.to_client, &mut self.server_secrets);
        }
        Ok(status)
    }

    /// RFC 9001 section 4.1.4: both sides have the secrets of the two levels, and the same.
    fn check_secrets(&self) {
        let (client, server) = (&self.client_secrets, &self.server_secrets);
        for level in [Level::Handshake, Level::OneRtt] {
            for (write, read) in [(&client.write, &server.read), (&server.write, &client.read)] {
                let secret = Secrets::of(write, level);
                assert!(secret.is_some(), "{level:?}");
                assert_eq!(secret, Secrets::of(read, level), "{level:?}");
            }
        }
        if let Some(early) = Secrets::of(&server.read, Level::ZeroRtt) {
            assert_eq!(Secrets::of(&client.write, Level::ZeroRtt), Some(early));
        }
        assert_eq!(Secrets::of(&server.write, Level::ZeroRtt), None);
    }

    fn session(&mut self) -> ClientSession {
        self.client.take_session().expect("a ticket")
    }
}

fn sort(event: Event, wire: &mut Wire, secrets: &mut Secrets) {
    match event {
        Event::Crypto { level, bytes } => wire.push((level, bytes)),
        Event::ReadSecret { level, secret } => secrets.read.push((level, secret)),
        Event::WriteSecret { level, secret } => secrets.write.push((level, secret)),
    }
}

/// A handshake that succeeds.
fn met(client: &ClientTls, server: &Arc<ServerTls>, offer: ClientOffer<'_>) -> QuicPair {
    let mut pair = QuicPair::with(client, server, offer);
    pair.handshake().expect("nothing is wrong");
    pair
}

/// The first flight of a client.
fn hello_of(client: &ClientTls, offer: ClientOffer<'_>) -> Vec<u8> {
    let client = client.connect_quic(Some("name.test"), offer);
    let mut client = client.expect("it can be offered");
    assert_eq!(client.advance(), Ok(Status::WantRead));
    while let Some(event) = client.next_event() {
        if let Event::Crypto { level, bytes } = event {
            assert_eq!(level, Level::Initial);
            return bytes;
        }
    }
    panic!("there is a hello");
}
