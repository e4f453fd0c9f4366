//! Whole connections in memory: both ends, and a network between them that loses and reorders.

mod arrivals;
mod endings;
mod handshakes;
mod moving;
mod raw_peer;
mod rules;
mod traces;
mod transfers;
mod versions;

use super::*;
use crate::recovery::Codepoint;
use crate::{Algorithm, streams};
use sealane_tls::client::{ClientSettings, ClientTls};
use sealane_tls::quic::ClientOffer;
use sealane_tls::{
    Acceptor, Identity, Load, Protocol, Secret, ServerSettings, ServerTls, SharedSessions,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use std::task::{Context, Waker};

/// Half a round trip.
const DELAY: Duration = Duration::from_millis(10);

fn server_tls() -> &'static Acceptor {
    static ACCEPTOR: OnceLock<Acceptor> = OnceLock::new();
    ACCEPTOR.get_or_init(|| acceptor(None))
}

/// TLS of a server, with a session store.
fn acceptor(shared_sessions: Option<SharedSessions>) -> Acceptor {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["name.test".to_owned()]);
    let certificate = params.expect("a name").self_signed(&key).expect("signed");
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let begun_s = since_epoch.expect("it is after 1970").as_secs() - 3600;
    let register = sealane_tls::ReplayRegister::new(1000, begun_s).expect("memory");
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
        ticket_keys: vec![Secret::new(vec![3; 48])],
        early_data: Some(sealane_tls::EarlyData {
            register: Arc::new(register),
        }),
        shared_sessions,
        ..ServerSettings::default()
    };
    let (server, _) = ServerTls::build(&settings).expect("valid settings");
    Acceptor::single(Arc::new(server))
}

fn client_tls() -> &'static ClientTls {
    static TLS: OnceLock<ClientTls> = OnceLock::new();
    TLS.get_or_init(|| {
        let settings = ClientSettings {
            server_name: true,
            ..ClientSettings::default()
        };
        ClientTls::build(&settings).expect("valid settings").0
    })
}

fn settings() -> ConnectionSettings {
    ConnectionSettings {
        streams: streams::Settings {
            max_data: 1 << 20,
            max_stream_data_bidi_local: 256 << 10,
            max_stream_data_bidi_remote: 256 << 10,
            max_stream_data_uni: 64 << 10,
            max_streams_bidi: 100,
            max_streams_uni: 3,
            max_window: 8 << 20,
            max_stream_window: 4 << 20,
        },
        congestion_control: Algorithm::Cubic,
        max_idle_timeout: Duration::from_secs(30),
        active_connection_id_limit: 4,
        max_udp_payload_size: 1500,
        max_datagram_size: 1452,
        mtu_discovery: true,
        ecn: true,
        versions: Version::ALL.to_vec(),
        early_data_context: b"h3".to_vec(),
        migration: true,
        preferred_v4: None,
        preferred_v6: None,
    }
}

/// Settings of ends that like this version best.
fn preferring(version: Version) -> ConnectionSettings {
    let mut versions = Version::ALL.to_vec();
    versions.sort_by_key(|known| *known != version);
    ConnectionSettings {
        versions,
        ..settings()
    }
}

/// What belongs to a connection of the tests.
#[derive(Default)]
struct Application {
    random: u64,
    next_id: u8,
    name: u8,
    retired: Vec<ConnectionId>,
    /// What came, by stream, and whether it ended.
    received: BTreeMap<StreamId, (Vec<u8>, bool)>,
    /// Bytes of a stream that are taken at most; the rest stays in the connection.
    takes_at_most: Option<usize>,
    events: Vec<Event>,
    /// Streams that had begun when the handshake was complete.
    early: Option<Vec<StreamId>>,
}

/// The bytes of streams are known everywhere.
fn byte(id: StreamId, offset: u64) -> u8 {
    (offset ^ (offset >> 8) ^ id.to_wire().wrapping_mul(31)) as u8
}

impl IdSource for Application {
    fn new_id(&mut self) -> (ConnectionId, ResetToken) {
        self.next_id += 1;
        let id = [self.name, self.next_id, 3, 4, 5, 6, 7, 8];
        let id = ConnectionId::new(&id).expect("short");
        (id, ResetToken::new([self.next_id; 16]))
    }

    fn retire(&mut self, id: &ConnectionId) {
        self.retired.push(*id);
    }
}

impl Owner for Application {
    fn random(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn receive(&mut self, id: StreamId, bytes: &[u8], fin: bool) -> usize {
        let (data, ended) = self.received.entry(id).or_default();
        let most = self.takes_at_most.unwrap_or(usize::MAX);
        let taken = most.saturating_sub(data.len()).min(bytes.len());
        data.extend(&bytes[..taken]);
        *ended |= fin && taken == bytes.len();
        taken
    }

    fn copy(&mut self, id: StreamId, offset: u64, len: usize, out: &mut Vec<u8>) {
        out.extend((offset..offset + len as u64).map(|at| byte(id, at)));
    }

    fn handshake_complete(&mut self) {
        self.early = Some(self.received.keys().copied().collect());
    }
}

/// One end.
struct End {
    connection: Connection,
    application: Application,
}

impl End {
    fn write(&mut self, id: StreamId, len: u64, fin: bool) {
        self.connection.write_up_to(id, len, fin);
    }

    fn got(&self, id: StreamId) -> (usize, bool) {
        let found = self.application.received.get(&id);
        found.map_or((0, false), |(data, fin)| {
            for (offset, &got) in data.iter().enumerate() {
                assert_eq!(got, byte(id, offset as u64), "byte {offset} of {id:?}");
            }
            (data.len(), *fin)
        })
    }

    /// Gives it a datagram from where its peer is. Returns how many of the packets were dropped.
    fn take(&mut self, now: Time, mut datagram: Vec<u8>) -> u64 {
        let before = self.connection.counters().packets_dropped;
        let (mark, addresses) = (Codepoint::NotEct, self.connection.addresses());
        let (connection, application) = (&mut self.connection, &mut self.application);
        connection.receive(now, addresses, mark, &mut datagram, application);
        self.connection.counters().packets_dropped - before
    }

    /// Everything that a caller does after a datagram or a time-out. Bytes that came are consumed.
    fn work(&mut self, now: Time) {
        let mut cx = Context::from_waker(Waker::noop());
        let connection = &mut self.connection;
        let _ = connection.poll_handshake(&mut cx, Load::default(), now, &mut self.application);
        while let Some(event) = connection.next_event() {
            if let Event::Readable { id } = event {
                connection.read(id, &mut self.application);
            }
            self.application.events.push(event);
        }
    }
}

struct UnderWay {
    arrives: Time,
    sent_to: SocketAddr,
    addresses: Addresses,
    mark: Codepoint,
    bytes: Vec<u8>,
}

/// What the network does to a datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Lose,
    /// It comes later than the ones behind it.
    Delay,
    Duplicate,
}

/// Both ends and the network.
struct Pair {
    client: End,
    server: Option<End>,
    now: Time,
    to_server: VecDeque<UnderWay>,
    to_client: VecDeque<UnderWay>,
    /// Asked for each datagram, with its number.
    network: Box<dyn FnMut(u64) -> Fault>,
    datagrams: u64,
    /// The network drops longer ones.
    mtu: usize,
    /// What the server sees of the client, if it differs from where the client is.
    translated: Option<SocketAddr>,
    /// The address of the server that the client's datagrams reach, if it is another one.
    reached_at: Option<SocketAddr>,
    /// Steps since the time went on.
    steps_at_once: u32,
    settings: Arc<ConnectionSettings>,
    acceptor: Acceptor,
    /// The server tells what happens.
    traces: bool,
}

use std::net::SocketAddr;

fn client_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 40_000))
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 2], 443))
}

impl Pair {
    fn new() -> Self {
        Self::with(settings(), Version::V1)
    }

    /// With a handshake that is over.
    fn connected() -> Self {
        let mut pair = Self::new();
        pair.handshake();
        pair
    }

    fn with(settings: ConnectionSettings, version: Version) -> Self {
        Self::offering(settings, version, ClientOffer::default(), None)
    }

    fn offering(
        settings: ConnectionSettings,
        version: Version,
        offer: ClientOffer<'_>,
        remembered: Option<PeerLimits>,
    ) -> Self {
        let settings = Arc::new(settings);
        let source = ConnectionId::new(b"client's").expect("short");
        let parameters = match offer.transport_parameters {
            [] => settings.client_parameters(version, source, 1),
            given => given.to_vec(),
        };
        let offer = ClientOffer {
            protocols: &[b"h3"],
            transport_parameters: &parameters,
            ..offer
        };
        let tls = client_tls()
            .connect_quic(Some("name.test"), offer)
            .expect("it can be offered");
        let target = Target {
            version,
            destination: ConnectionId::new(b"original").expect("short"),
            source,
            token: &[],
            remembered,
            addresses: Addresses {
                local: client_address(),
                remote: server_address(),
            },
        };
        let now = Time::from_micros(1_000_000);
        let connection = Connection::client(settings.clone(), tls, &target, now);
        let application = Application {
            random: 11,
            name: b'c',
            ..Application::default()
        };
        let mut client = End {
            connection,
            application,
        };
        client.work(now);
        Self {
            client,
            server: None,
            now,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            network: Box::new(|_| Fault::None),
            datagrams: 0,
            mtu: 1500,
            translated: None,
            reached_at: None,
            steps_at_once: 0,
            settings,
            acceptor: server_tls().clone(),
            traces: false,
        }
    }

    fn server(&mut self) -> &mut End {
        self.server
            .as_mut()
            .expect("it has accepted the connection")
    }

    /// A stream that the client opens.
    fn open(&mut self) -> StreamId {
        let stream = self.client.connection.open(Direction::Bidirectional);
        stream.expect("within the server's limit")
    }

    /// A server end for the client whose first datagram this is.
    fn accept(&self, datagram: &[u8], addresses: Addresses) -> End {
        let crate::Unrouted::Initial(initial) = crate::initial(datagram) else {
            panic!("an Initial packet");
        };
        self.accept_as(&Accepted {
            version: initial.version,
            destination: initial.destination,
            source: initial.source,
            original_destination: initial.destination,
            retry_source: None,
            is_validated: false,
            addresses,
        })
    }

    fn accept_as(&self, accepted: &Accepted) -> End {
        let mut application = Application {
            random: 17,
            name: b's',
            ..Application::default()
        };
        let (id, reset_token) = match accepted.retry_source {
            Some(id) => (id, ResetToken::new([1; 16])),
            None => application.new_id(),
        };
        let tls = ServerConnection::accept(&self.acceptor, accepted.version.to_tls());
        let mut connection = Connection::server(
            self.settings.clone(),
            tls,
            accepted,
            id,
            reset_token,
            self.now,
        );
        if self.traces {
            connection.start_trace(self.now);
        }
        End {
            connection,
            application,
        }
    }

    /// Sends what one end has.
    fn flush(&mut self, from_client: bool) {
        let mut outbox = Outbox::default();
        loop {
            let Some(end) = (match from_client {
                true => Some(&mut self.client),
                false => self.server.as_mut(),
            }) else {
                return;
            };
            outbox.bytes.clear();
            let sent = end
                .connection
                .transmit(self.now, &mut outbox, 10, &mut end.application);
            let Some(sent) = sent else {
                return;
            };
            assert!(!outbox.bytes.is_empty());
            for datagram in outbox.bytes.chunks(sent.segment_bytes) {
                self.carry(from_client, sent, datagram);
            }
        }
    }

    fn carry(&mut self, from_client: bool, sent: Datagrams, datagram: &[u8]) {
        let number = self.datagrams;
        self.datagrams += 1;
        let fault = (self.network)(number);
        if datagram.len() > self.mtu || fault == Fault::Lose {
            return;
        }
        let source = match self.translated {
            Some(address) if from_client => address,
            _ => sent.from,
        };
        let delay = match fault {
            Fault::Delay => DELAY * 5 / 2,
            _ => DELAY,
        };
        let under_way = || UnderWay {
            arrives: self.now + delay,
            sent_to: sent.to,
            addresses: Addresses {
                local: match self.reached_at {
                    Some(address) if from_client => address,
                    _ => sent.to,
                },
                remote: source,
            },
            mark: sent.mark,
            bytes: datagram.to_vec(),
        };
        let copies = 1 + usize::from(fault == Fault::Duplicate);
        for copy in (0..copies).map(|_| under_way()) {
            // A translator maps the address back.
            match from_client {
                true => self.to_server.push_back(copy),
                false => self.to_client.push_back(UnderWay {
                    addresses: Addresses {
                        local: client_address(),
                        remote: server_address(),
                    },
                    ..copy
                }),
            }
        }
    }

    /// When the next thing happens, once both ends have sent what they have.
    fn next_time(&mut self) -> Option<Time> {
        self.flush(true);
        self.flush(false);
        let timeout = |end: &End| end.connection.timeout();
        let arrivals = self.to_server.iter().chain(&self.to_client);
        arrivals
            .map(|under_way| under_way.arrives)
            .chain(timeout(&self.client))
            .chain(self.server.as_ref().and_then(timeout))
            .min()
    }

    /// Lets so much time pass.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.next_time().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
    }

    /// The next thing that happens.
    fn step(&mut self) -> bool {
        let Some(next) = self.next_time() else {
            return false;
        };
        self.steps_at_once = match next <= self.now {
            true => self.steps_at_once + 1,
            false => 0,
        };
        assert!(
            self.steps_at_once < 100,
            "it goes round in circles: {self:?}"
        );
        self.now = self.now.max(next);
        let now = self.now;
        for (is_server, mut under_way) in self.take_arrived() {
            if is_server && self.server.is_none() {
                let end = self.accept(&under_way.bytes, under_way.addresses);
                self.server = Some(end);
            }
            let end = match is_server {
                true => self.server.as_mut().expect("just made"),
                false => &mut self.client,
            };
            end.connection.receive(
                now,
                under_way.addresses,
                under_way.mark,
                &mut under_way.bytes,
                &mut end.application,
            );
            end.work(now);
        }
        for end in [Some(&mut self.client), self.server.as_mut()]
            .into_iter()
            .flatten()
        {
            if end.connection.timeout().is_some_and(|time| time <= now) {
                end.connection.on_timeout(now);
                end.work(now);
            }
        }
        self.flush(true);
        self.flush(false);
        true
    }

    fn take_arrived(&mut self) -> Vec<(bool, UnderWay)> {
        let now = self.now;
        let mut arrived = Vec::new();
        for (is_server, queue) in [(true, &mut self.to_server), (false, &mut self.to_client)] {
            let mut kept = VecDeque::new();
            while let Some(under_way) = queue.pop_front() {
                match under_way.arrives <= now {
                    true => arrived.push((is_server, under_way)),
                    false => kept.push_back(under_way),
                }
            }
            *queue = kept;
        }
        arrived
    }

    /// Goes on until something holds.
    #[track_caller]
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let end = self.now + Duration::from_secs(300);
        for _ in 0..2_000_000 {
            if holds(self) {
                return;
            }
            assert!(self.now < end, "too late for: {what}\n{self:?}");
            assert!(self.step(), "nothing happens any more: {what}\n{self:?}");
        }
        panic!("too many steps: {what}\n{self:?}");
    }

    #[track_caller]
    fn handshake(&mut self) {
        self.until("handshake", |pair| {
            pair.client.connection.is_confirmed()
                && (pair.server.as_ref()).is_some_and(|server| server.connection.is_confirmed())
        });
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let server = self.server.as_ref().map(|server| &server.connection);
        writeln!(f, "at {:?}: {:?}", self.now, self.client.connection)?;
        writeln!(f, "{:?}", self.client.connection.counters())?;
        writeln!(f, "{server:?}")?;
        write!(f, "{:?}", server.map(Connection::counters))
    }
}

/// Bits that look random.
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut application = Application {
        random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        ..Application::default()
    };
    move || application.random()
}

/// A network that loses so many of a hundred datagrams, reorders as many and doubles a few.
fn bad_network(percent: u64, seed: u64) -> Box<dyn FnMut(u64) -> Fault> {
    let mut random = random(seed);
    Box::new(move |_| match random() % 100 {
        n if n < percent => Fault::Lose,
        n if n < 2 * percent => Fault::Delay,
        n if n < 2 * percent + percent / 4 => Fault::Duplicate,
        _ => Fault::None,
    })
}
