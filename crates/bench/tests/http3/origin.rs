//! A small server for HTTP/3 inside the test process, which misbehaves on demand.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Waker},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use sealane_http::{
    StatusCode,
    h3::{self, Channel, Role},
    headers::Field,
};
use sealane_quic::{
    Accepted, Addresses, Algorithm, Codepoint, Connection, ConnectionId, ConnectionSettings,
    Direction, Event, IdSource, Outbox, Owner, ResetToken, Settings, Side, StreamId, Time, Version,
};
use sealane_tls::{
    Acceptor, Identity, Load, Protocol, Secret, ServerSettings, ServerTls,
    quic::{self, ServerConnection},
};

/// How the server treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// 200 with [`BODY`].
    Good,
    /// 404 from the tenth request on.
    LaterNotFound,
    /// A body that is shorter by a byte.
    Short,
    /// A body of the same length in which two pieces are exchanged.
    Exchanged,
    /// It closes the connection.
    Closes,
    /// It never answers.
    Silent,
}

/// The body that well-behaved answers carry: several datagrams.
pub(crate) fn body() -> Vec<u8> {
    (0..5000_u32).flat_map(u32::to_be_bytes).collect()
}

/// How long the server waits for a datagram before it looks at its timers.
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counters {
    requests: AtomicU64,
    connections: AtomicU64,
    /// Connections that the client has closed without an error.
    closed: AtomicU64,
    stop: AtomicBool,
}

impl Origin {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        socket.set_read_timeout(Some(PAUSE)).expect("a time-out");
        let counters = Arc::new(Counters::default());
        let mut server = Server {
            acceptor: acceptor(),
            settings: Arc::new(settings()),
            behaviour,
            counters: Arc::clone(&counters),
            began: Instant::now(),
            peers: Vec::new(),
            address,
        };
        let thread = thread::spawn(move || {
            while !server.counters.stop.load(Ordering::SeqCst) {
                server.turn(&socket);
            }
        });
        Self {
            address,
            counters,
            thread: Some(thread),
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.counters.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.counters.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn closed(&self) -> u64 {
        self.counters.closed.load(Ordering::SeqCst)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.counters.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn acceptor() -> Acceptor {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]);
    let certificate = params.expect("a name").self_signed(&key).expect("signed");
    let settings = ServerSettings {
        identities: vec![Identity {
            chain_pem: certificate.pem().into_bytes(),
            key_pem: Secret::new(key.serialize_pem().into_bytes()),
            passwords: Vec::new(),
            chain_label: "cert.pem".to_owned(),
            key_label: "key.pem".to_owned(),
        }],
        protocols: [Protocol::TlsV1_3].into_iter().collect(),
        quic_protocols: vec![b"h3".as_slice().into()],
        ..ServerSettings::default()
    };
    let (server, _) = ServerTls::build(&settings).expect("valid settings");
    Acceptor::single(Arc::new(server))
}

fn settings() -> ConnectionSettings {
    ConnectionSettings {
        streams: Settings {
            max_data: 1 << 20,
            max_stream_data_bidi_local: 64 << 10,
            max_stream_data_bidi_remote: 64 << 10,
            max_stream_data_uni: 64 << 10,
            // Fewer than what the clients of a test want at a time.
            max_streams_bidi: 3,
            max_streams_uni: 3,
            max_window: 1 << 20,
            max_stream_window: 1 << 20,
        },
        congestion_control: Algorithm::Cubic,
        max_idle_timeout: Duration::from_secs(60),
        active_connection_id_limit: 2,
        max_udp_payload_size: 1472,
        max_datagram_size: 1472,
        mtu_discovery: true,
        ecn: false,
        versions: vec![Version::V1],
        early_data_context: Vec::new(),
        migration: false,
        preferred_v4: None,
        preferred_v6: None,
    }
}

struct Server {
    acceptor: Acceptor,
    settings: Arc<ConnectionSettings>,
    behaviour: Behaviour,
    counters: Arc<Counters>,
    began: Instant,
    peers: Vec<Peer>,
    address: SocketAddr,
}

struct Peer {
    remote: SocketAddr,
    connection: Connection,
    answers: Answers,
    is_counted: bool,
}

impl Server {
    fn turn(&mut self, socket: &UdpSocket) {
        let mut buffer = [0; 2000];
        let received = socket.recv_from(&mut buffer);
        let now = Time::from_micros(self.began.elapsed().as_micros() as u64);
        match received {
            Ok((length, remote)) => self.take(&mut buffer[..length], remote, now),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("receive: {error}"),
        }
        for peer in &mut self.peers {
            peer.work(self.behaviour, &self.counters, now);
            let mut outbox = Outbox::default();
            let (connection, answers) = (&mut peer.connection, &mut peer.answers);
            while let Some(sent) = connection.transmit(now, &mut outbox, 10, answers) {
                for datagram in outbox.bytes.chunks(sent.segment_bytes) {
                    // A client that has gone does not listen.
                    let _ = socket.send_to(datagram, peer.remote);
                }
                outbox.bytes.clear();
            }
        }
        self.peers.retain(|peer| !peer.connection.is_closed());
    }

    fn take(&mut self, datagram: &mut [u8], remote: SocketAddr, now: Time) {
        let found = self.peers.iter().position(|peer| peer.remote == remote);
        let Some(at) = found.or_else(|| self.accept(datagram, remote, now)) else {
            return;
        };
        let peer = &mut self.peers[at];
        let addresses = Addresses {
            local: self.address,
            remote,
        };
        peer.connection.receive(
            now,
            addresses,
            Codepoint::NotEct,
            datagram,
            &mut peer.answers,
        );
    }

    /// A new connection, if this is its first packet; its number.
    fn accept(&mut self, datagram: &[u8], remote: SocketAddr, now: Time) -> Option<usize> {
        // RFC 9000 section 17.2: the bit of long headers, the version, both ids with their lengths.
        let (&[first, _, _, _, _, length], rest) = datagram.split_first_chunk()?;
        if first & 0x80 == 0 {
            return None;
        }
        let (destination, rest) = rest.split_at_checked(length.into())?;
        let (&length, rest) = rest.split_first()?;
        let (source, _) = rest.split_at_checked(length.into())?;
        let destination = ConnectionId::new(destination)?;
        let accepted = Accepted {
            version: Version::V1,
            destination,
            source: ConnectionId::new(source)?,
            original_destination: destination,
            retry_source: None,
            is_validated: false,
            addresses: Addresses {
                local: self.address,
                remote,
            },
        };
        let mut answers = Answers::new();
        let (id, reset_token) = answers.new_id();
        let tls = ServerConnection::accept(&self.acceptor, quic::Version::V1);
        let settings = Arc::clone(&self.settings);
        let connection = Connection::server(settings, tls, &accepted, id, reset_token, now);
        self.counters.connections.fetch_add(1, Ordering::SeqCst);
        self.peers.push(Peer {
            remote,
            connection,
            answers,
            is_counted: false,
        });
        Some(self.peers.len() - 1)
    }
}

impl Peer {
    fn work(&mut self, behaviour: Behaviour, counters: &Counters, now: Time) {
        let (connection, answers) = (&mut self.connection, &mut self.answers);
        if connection.timeout().is_some_and(|time| time <= now) {
            connection.on_timeout(now);
        }
        let mut cx = Context::from_waker(Waker::noop());
        let _ = connection.poll_handshake(&mut cx, Load::default(), now, answers);
        while let Some(event) = connection.next_event() {
            if let Event::Readable { id } = event {
                connection.read(id, answers);
            }
        }
        for (id, bytes) in std::mem::take(&mut answers.consumed) {
            connection.consumed(id, bytes, now);
        }
        while let Some(id) = answers.requests.pop_front() {
            let number = counters.requests.fetch_add(1, Ordering::SeqCst);
            match behaviour {
                Behaviour::Silent => {}
                Behaviour::Closes => connection.close(now, h3::Code::H3_INTERNAL_ERROR.0),
                _ => {
                    let length = answers.answer(id, behaviour, number);
                    connection.write_up_to(id, length, true);
                }
            }
        }
        if connection.is_established() {
            answers.write_channels(connection);
        }
        let reason = connection.close_reason();
        if let Some(sealane_quic::CloseReason::PeerApplication { code, .. }) = reason
            && *code == h3::Code::H3_NO_ERROR.0
            && !std::mem::replace(&mut self.is_counted, true)
        {
            counters.closed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// HTTP/3 of one connection.
struct Answers {
    http: h3::Connection,
    outgoing: BTreeMap<StreamId, Vec<u8>>,
    channels: [Option<StreamId>; 3],
    opened: Vec<StreamId>,
    requests: VecDeque<StreamId>,
    consumed: Vec<(StreamId, u64)>,
    random: u64,
}

impl Answers {
    fn new() -> Self {
        let settings = Arc::new(h3::Settings::default());
        Self {
            http: h3::Connection::new(Role::Server, settings, Duration::ZERO),
            outgoing: BTreeMap::new(),
            channels: [None; 3],
            opened: Vec::new(),
            requests: VecDeque::new(),
            consumed: Vec::new(),
            random: 1,
        }
    }

    /// Writes the response to the request with this number; returns its length.
    fn answer(&mut self, id: StreamId, behaviour: Behaviour, number: u64) -> u64 {
        let mut content = body();
        match behaviour {
            Behaviour::Short => content.truncate(content.len() - 1),
            Behaviour::Exchanged => content.rotate_left(4),
            _ => {}
        }
        let status = match behaviour == Behaviour::LaterNotFound && number >= 9 {
            true => StatusCode::NOT_FOUND,
            false => StatusCode::OK,
        };
        let out = self.outgoing.entry(id).or_default();
        let fields = [Field::from_static("server", "origin")];
        let wire = id.to_wire();
        (self.http.send_head(wire, status, fields, false, out)).expect("the first head");
        let length = content.len() as u64;
        (self.http.data(wire, length, true, out)).expect("behind the head");
        out.extend_from_slice(&content);
        out.len() as u64
    }

    fn write_channels(&mut self, connection: &mut Connection) {
        for (at, channel) in Channel::ALL.into_iter().enumerate() {
            let new = self.http.outgoing(channel).to_vec();
            if new.is_empty() {
                continue;
            }
            let open = self.channels[at].or_else(|| connection.open(Direction::Unidirectional));
            let id = open.expect("clients allow three");
            self.channels[at] = Some(id);
            self.http.sent(channel, new.len());
            let out = self.outgoing.entry(id).or_default();
            out.extend_from_slice(&new);
            connection.write_up_to(id, out.len() as u64, false);
        }
    }
}

impl IdSource for Answers {
    fn new_id(&mut self) -> (ConnectionId, ResetToken) {
        let id = ConnectionId::new(&self.random().to_be_bytes()).expect("short");
        (id, ResetToken::new([7; 16]))
    }

    fn retire(&mut self, _id: &ConnectionId) {}
}

impl Owner for Answers {
    fn random(&mut self) -> u64 {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn receive(&mut self, id: StreamId, bytes: &[u8], fin: bool) -> usize {
        let wire = id.to_wire();
        if id.initiator() == Side::Client && !self.opened.contains(&id) {
            self.opened.push(id);
            let refused = self.http.opened(wire, Duration::ZERO).expect("in order");
            assert!(refused.is_none(), "{refused:?}");
        }
        let mut at = 0;
        loop {
            let received = self.http.receive(wire, &bytes[at..], fin, Duration::ZERO);
            let received = received.expect("the client's bytes are in order");
            at += received.consumed;
            match received.event {
                Some(h3::Event::Request { request, end, .. }) => {
                    assert!(end, "a GET without a body");
                    assert_eq!(request.head.path.of(&request.text), b"/file");
                    self.requests.push_back(id);
                }
                Some(h3::Event::Settings) => {}
                Some(other) => panic!("{other:?}"),
                None => break,
            }
        }
        self.consumed.push((id, at as u64));
        at
    }

    fn copy(&mut self, id: StreamId, offset: u64, len: usize, out: &mut Vec<u8>) {
        let start = offset as usize;
        out.extend_from_slice(&self.outgoing[&id][start..start + len]);
    }
}
