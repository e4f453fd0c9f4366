//! Handshakes in any order that a network, a store and a thread pool can produce: bytes arrive in
//! pieces, flights land at any time, the store answers early, late or never, connections are polled
//! too often, die anywhere, and the pool stops in the middle.
//!
//! Whatever the order, a client that completes is served correctly, nothing waits forever, and
//! nothing stays in a queue. Under `scripts/asan.sh` nothing stays in memory either.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use sealane_awslc::{ClientConnection, ClientContext, ProtocolVersion, ReadStatus, Session};
use sealane_tls::{
    AcceleratorChoice, Acceptor, AsyncMode, Connection, Error, HandshakeSettings, HandshakeState,
    HandshakeStatus, Identity, Load, Protocol, Reply, Secret, ServerSettings, ServerTls,
    SessionCache, SessionCacheSetting, SharedSessions, SharedStore, StoreKey, StoreSeal,
};

/// Handshakes of one run, and how many are under way at a time.
const HANDSHAKES: usize = 6_000;
const LONG_HANDSHAKES: usize = 200_000;
const AT_A_TIME: usize = 40;

/// So many handshakes, on average, from the start of a pool to its end.
const POOL_HANDSHAKES: usize = 250;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).expect("less than the limit")
    }

    /// Once in `n` times.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A store whose answers the test gives when it likes. It has no sessions.
#[derive(Default)]
struct SlowStore(Mutex<VecDeque<Reply<Option<Vec<u8>>>>>);

impl SlowStore {
    /// Answers one question, or forgets it.
    fn answer(&self, random: &mut Random) {
        let mut asked = self.0.lock().expect("no panic");
        if asked.is_empty() {
            return;
        }
        let chosen = random.below(asked.len());
        let reply = asked.remove(chosen).expect("it is one of them");
        drop(asked);
        match random.below(4) {
            0 => drop(reply),
            _ => reply.send(None),
        }
    }
}

impl SharedStore for SlowStore {
    fn fetch(&self, _key: StoreKey, reply: Reply<Option<Vec<u8>>>) {
        self.0.lock().expect("no panic").push_back(reply);
    }

    fn put(&self, _key: StoreKey, _value: Vec<u8>, _lifetime_s: u32) {}

    fn claim(&self, _key: StoreKey, _lifetime_s: u32, reply: Reply<bool>) {
        reply.send(true);
    }
}

/// A process: its pool and its servers, one for each key and way to compute.
struct Process {
    state: Arc<HandshakeState>,
    store: Arc<SlowStore>,
    /// Whether its key is an RSA key.
    acceptors: Vec<(Acceptor, bool)>,
    is_stopped: bool,
}

impl Process {
    fn start(keys: &Keys, random: &mut Random) -> Self {
        let state = HandshakeState::new();
        state.start(random.below(4)).expect("threads are to be had");
        let store = Arc::new(SlowStore::default());
        let seal = StoreSeal::from_key_file(&Secret::new(vec![2; 32])).expect("32 bytes");
        let shared = SharedSessions {
            store: Arc::clone(&store) as Arc<dyn SharedStore>,
            seal: Arc::new(seal),
            timeout: PATIENCE,
        };
        let mut acceptors = Vec::new();
        for (identity, is_rsa) in [(&keys.rsa, true), (&keys.p256, false)] {
            for mode in [AsyncMode::On, AsyncMode::Auto, AsyncMode::Off] {
                for accelerator in [AcceleratorChoice::Auto, AcceleratorChoice::Cpu] {
                    let mut settings = settings(identity);
                    settings.handshakes = HandshakeSettings {
                        mode,
                        accelerator,
                        state: Some(Arc::clone(&state)),
                    };
                    settings.shared_sessions = Some(shared.clone());
                    acceptors.push((acceptor(&settings), is_rsa));
                }
            }
        }
        Self {
            state,
            store,
            acceptors,
            is_stopped: false,
        }
    }

    fn stop(&mut self) {
        self.is_stopped = true;
        self.state.stop();
    }
}

fn settings(identity: &Identity) -> ServerSettings {
    ServerSettings {
        identities: vec![identity.clone()],
        protocols: [Protocol::TlsV1_2, Protocol::TlsV1_3].into_iter().collect(),
        ciphers: "ALL".to_owned(),
        // Sessions have names instead, which the store of all nodes is asked about.
        tickets: false,
        session_cache: SessionCacheSetting::Shared(Arc::new(SessionCache::new(0))),
        ..ServerSettings::default()
    }
}

fn acceptor(settings: &ServerSettings) -> Acceptor {
    let (server, _) = ServerTls::build(settings).expect("valid settings");
    Acceptor::single(Arc::new(server))
}

struct Keys {
    rsa: Identity,
    p256: Identity,
}

fn identity(algorithm: &'static rcgen::SignatureAlgorithm) -> Identity {
    let key = rcgen::KeyPair::generate_for(algorithm).expect("the algorithm is supported");
    let params = rcgen::CertificateParams::new(vec!["name.test".to_owned()]);
    let certificate = params.expect("a valid name").self_signed(&key);
    Identity {
        chain_pem: certificate.expect("the key signs").pem().into_bytes(),
        key_pem: Secret::new(key.serialize_pem().into_bytes()),
        passwords: Vec::new(),
        chain_label: "generated".to_owned(),
        key_label: "generated".to_owned(),
    }
}

/// What clients offer.
struct Offers {
    tls13: ClientContext,
    tls12: ClientContext,
    static_rsa: ClientContext,
    /// A session of TLS 1.2 that no server knows: the store is asked.
    session: Session,
}

impl Offers {
    fn new(keys: &Keys) -> Self {
        let context = |version, ciphers: &str| {
            let mut builder = ClientContext::builder().expect("a context");
            builder.set_protocol_range(version, version).expect("known");
            builder.set_cipher_list(ciphers).expect("known suites");
            builder.build().expect("a context")
        };
        let tls12 = context(ProtocolVersion::Tls12, "ECDHE+AESGCM");
        let acceptor = acceptor(&settings(&keys.rsa));
        let mut exchange = Exchange::new(Connection::accept(&acceptor), client(&tls12));
        while !exchange.is_over {
            exchange.arrive(usize::MAX);
            exchange.serve(Load::default()).expect("nothing fails here");
            exchange.receive(usize::MAX);
        }
        let session = exchange.client.take_session();
        Self {
            tls13: context(ProtocolVersion::Tls13, "ALL"),
            tls12,
            static_rsa: context(ProtocolVersion::Tls12, "AES128-GCM-SHA256"),
            session: session.expect("the server keeps it under a name"),
        }
    }

    /// A client for a server with an RSA key or another.
    fn client(&self, is_rsa: bool, random: &mut Random) -> ClientConnection {
        match random.below(4) {
            0 => client(&self.tls13),
            1 if is_rsa => client(&self.static_rsa),
            2 => {
                let mut client = client(&self.tls12);
                client.set_session(&self.session).expect("it has not begun");
                client
            }
            _ => client(&self.tls12),
        }
    }
}

fn client(context: &ClientContext) -> ClientConnection {
    ClientConnection::new(context, Some("name.test")).expect("a client")
}

/// Notes that it was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// A handshake under way, and the bytes between the two.
struct Exchange {
    server: Connection,
    client: ClientConnection,
    to_server: Vec<u8>,
    /// Not taken by the server yet.
    arrived: Vec<u8>,
    to_client: Vec<u8>,
    woken: Arc<Woken>,
    /// The server waits for somebody.
    is_pending: bool,
    is_over: bool,
}

impl Exchange {
    fn new(server: Connection, mut client: ClientConnection) -> Self {
        let mut to_server = Vec::new();
        let status = client.handshake(&mut &b""[..], &mut to_server);
        assert_eq!(status.expect("a hello"), HandshakeStatus::WantRead);
        Self {
            server,
            client,
            to_server,
            arrived: Vec::new(),
            to_client: Vec::new(),
            woken: Arc::default(),
            is_pending: false,
            is_over: false,
        }
    }

    /// Has up to `bytes` arrive at the server.
    fn arrive(&mut self, bytes: usize) {
        let bytes = bytes.min(self.to_server.len());
        self.arrived.extend(self.to_server.drain(..bytes));
    }

    /// The server goes on with what has arrived.
    fn serve(&mut self, load: Load) -> Result<(), Error> {
        let mut input = &self.arrived[..];
        let status = self.server.handshake(&mut input, &mut self.to_client, load);
        let taken = self.arrived.len() - input.len();
        self.arrived.drain(..taken);
        let status = status?;
        self.is_pending = status == HandshakeStatus::Pending;
        if status == HandshakeStatus::Done {
            self.converse();
        }
        Ok(())
    }

    /// The server is done: what it says arrives.
    fn converse(&mut self) {
        self.is_over = true;
        let written = self.server.write(b"hello", 0, &mut self.to_client);
        written.expect("the handshake is done");
        let mut input = &self.to_client[..];
        // TLS 1.2 ends with the server's flight, which the client does not have yet.
        let status = self.client.handshake(&mut input, &mut Vec::new());
        assert_eq!(status.expect("a good end"), HandshakeStatus::Done);
        let mut plain = [0; 16];
        let status = self.client.read(&mut input, &mut Vec::new(), &mut plain);
        assert_eq!(status.expect("a record"), ReadStatus::Data(5));
        assert_eq!(&plain[..5], b"hello");
        self.to_client.clear();
    }

    /// The client takes up to `bytes` and answers.
    fn receive(&mut self, bytes: usize) {
        let bytes = bytes.min(self.to_client.len());
        let received: Vec<u8> = self.to_client.drain(..bytes).collect();
        let mut input = &received[..];
        let status = self.client.handshake(&mut input, &mut self.to_server);
        status.expect("the server says nothing wrong");
        // A client that is done leaves what follows.
        self.to_client.splice(..0, input.iter().copied());
    }

    /// Polls what the server waits for.
    fn is_answered(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.woken));
        let polled = self.server.poll_pending(&mut Context::from_waker(&waker));
        polled.is_ready()
    }

    /// One of the things that may happen. Errors are those of the server.
    fn happen(&mut self, random: &mut Random) -> Result<(), Error> {
        match random.below(8) {
            0 | 1 => self.arrive(1 + random.below(200)),
            2 => self.arrive(usize::MAX),
            3 => self.receive(1 + random.below(3000)),
            4 => self.receive(usize::MAX),
            // Asked once too often, perhaps.
            5 => return self.serve(load(random)),
            _ if !self.is_pending => return self.serve(load(random)),
            _ => {
                if self.is_answered() {
                    return self.serve(load(random));
                }
                if self.server.lookup_timeout().is_some() && random.one_in(8) {
                    self.server.lookup_timed_out();
                }
            }
        }
        Ok(())
    }

    /// To the end, without further accidents. What the server waits for must wake it.
    fn finish(&mut self, process: &Process, random: &mut Random) -> Result<(), Error> {
        let begun = Instant::now();
        while !self.is_over {
            if self.is_pending {
                self.woken.0.store(false, Ordering::Relaxed);
                if !self.is_answered() {
                    while !self.woken.0.load(Ordering::Acquire) {
                        assert!(
                            begun.elapsed() < PATIENCE,
                            "nobody has woken {:?}, {:?}",
                            self.server,
                            process.state
                        );
                        process.store.answer(random);
                        std::thread::yield_now();
                    }
                    assert!(self.is_answered(), "woken for nothing");
                }
            }
            assert!(begun.elapsed() < PATIENCE, "no progress");
            self.arrive(usize::MAX);
            self.serve(load(random))?;
            if !self.is_over {
                self.receive(usize::MAX);
            }
        }
        Ok(())
    }
}

fn load(random: &mut Random) -> Load {
    Load {
        has_others: random.one_in(2),
    }
}

/// What became of handshakes.
#[derive(Debug, Default)]
struct Ends {
    served: usize,
    died: usize,
    /// They were in the pool when it stopped.
    stopped: usize,
    /// Flights that the pool has taken.
    handed_over: u64,
    cancelled: u64,
}

impl Ends {
    fn sum(&self) -> usize {
        self.served + self.died + self.stopped
    }
}

/// Runs handshakes in one process until its pool has stopped and all are over.
fn run_process(keys: &Keys, offers: &Offers, random: &mut Random, ends: &mut Ends) {
    let mut process = Process::start(keys, random);
    let mut left = 1 + random.below(2 * POOL_HANDSHAKES);
    let stops_at = random.below(1 + left / 4);
    let mut exchanges: Vec<Exchange> = Vec::new();
    while left > 0 || !exchanges.is_empty() {
        if left > 0 && exchanges.len() < AT_A_TIME && random.one_in(4) {
            left -= 1;
            let (acceptor, is_rsa) = &process.acceptors[random.below(process.acceptors.len())];
            let server = Connection::accept(acceptor);
            exchanges.push(Exchange::new(server, offers.client(*is_rsa, random)));
        }
        if left <= stops_at && !process.is_stopped && random.one_in(50) {
            process.stop();
        }
        if random.one_in(4) {
            process.store.answer(random);
        }
        if exchanges.is_empty() {
            continue;
        }
        let index = random.below(exchanges.len());
        let exchange = &mut exchanges[index];
        let result = match random.below(100) {
            0 => {
                // The client is gone, wherever the handshake is.
                exchanges.swap_remove(index);
                ends.died += 1;
                continue;
            }
            1 => exchange.finish(&process, random),
            _ => exchange.happen(random),
        };
        match result {
            Ok(()) if !exchange.is_over => continue,
            Ok(()) => ends.served += 1,
            Err(Error::Stopping) if process.is_stopped => ends.stopped += 1,
            Err(error) => panic!("the server: {error}"),
        }
        exchanges.swap_remove(index);
    }
    process.stop();
    let stats = Arc::clone(process.state.stats());
    drop(process);
    assert_eq!(stats.queued_flights.get(), 0, "they are in nobody's hands");
    assert_eq!(stats.queued_jobs.get(), 0, "they are in nobody's hands");
    assert_eq!(stats.failed_jobs.get(), 0);
    ends.handed_over += stats.flights_handed_over.get();
    ends.cancelled += stats.cancelled_jobs.get();
}

#[test]
fn any_order_of_events_ends_well() {
    let is_long = std::env::var_os("SEALANE_TEST_LONG").is_some_and(|value| value == "1");
    let handshakes = if is_long { LONG_HANDSHAKES } else { HANDSHAKES };
    let keys = Keys {
        rsa: identity(&rcgen::PKCS_RSA_SHA256),
        p256: identity(&rcgen::PKCS_ECDSA_P256_SHA256),
    };
    let offers = Offers::new(&keys);
    let mut random = Random(0x5ea1);
    let mut ends = Ends::default();
    while ends.sum() < handshakes {
        run_process(&keys, &offers, &mut random, &mut ends);
    }
    eprintln!("{ends:?}");
    assert!(ends.served > 0 && ends.died > 0, "{ends:?}");
    assert!(ends.handed_over > 0, "{ends:?}");
}
