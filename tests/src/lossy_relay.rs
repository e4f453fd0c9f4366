//! A relay for datagrams between clients and a server that behaves like a bad network.

use crate::random::Random;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clients that a relay remembers. Datagrams of others are lost.
const MAX_CLIENTS: usize = 256;
/// Datagrams on their way. What comes on top is lost, as in a router's queue.
const MAX_ON_THE_WAY: usize = 8192;
/// Larger than any datagram.
const BUFFER_BYTES: usize = 65_536;
/// How often a thread looks whether it should end.
const LOOK_UP: Duration = Duration::from_millis(50);

/// What happens to datagrams, in both directions. Rates are in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct NetworkConditions {
    /// Datagrams that vanish.
    pub lost: usize,
    /// Datagrams that arrive twice.
    pub duplicated: usize,
    /// Datagrams that are held back by `held_back`, so that later ones overtake them.
    pub reordered: usize,
    /// Datagrams in which one bit is another.
    pub corrupted: usize,
    /// How long each datagram takes.
    pub delay: Duration,
    /// How much longer one takes that is reordered.
    pub held_back: Duration,
    /// Bytes each second, in each direction.
    pub bandwidth: Option<u64>,
    /// How long a datagram may wait for the bandwidth before it is lost.
    pub queue: Duration,
    /// Larger datagrams are lost: the MTU of the path.
    pub max_datagram_bytes: usize,
}

impl Default for NetworkConditions {
    /// A perfect network.
    fn default() -> NetworkConditions {
        NetworkConditions {
            lost: 0,
            duplicated: 0,
            reordered: 0,
            corrupted: 0,
            delay: Duration::ZERO,
            held_back: Duration::from_millis(10),
            bandwidth: None,
            queue: Duration::from_millis(100),
            max_datagram_bytes: BUFFER_BYTES,
        }
    }
}

/// What a relay has done so far, in both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Datagrams from clients.
    pub from_clients: u64,
    /// Datagrams from the server.
    pub from_server: u64,
    /// Datagrams handed on, copies included.
    pub delivered: u64,
    /// Lost for any reason.
    pub lost: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Changed.
    pub corrupted: u64,
    /// How often clients have got other ports.
    pub rebindings: u64,
}

/// A running relay, stopped when it is dropped.
///
/// Each client has a socket of its own towards the server, as behind a NAT.
#[derive(Debug)]
pub struct LossyRelay {
    address: SocketAddr,
    shared: Arc<Shared>,
    events: SyncSender<Event>,
    thread: Option<JoinHandle<()>>,
}

/// What a client has sent: from where, and its bytes.
type RecordedDatagram = (SocketAddr, Vec<u8>);

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    conditions: Mutex<NetworkConditions>,
    counts: Mutex<RelayCounts>,
    /// What came from clients, if it is to be remembered.
    recorded: Mutex<Option<Vec<RecordedDatagram>>>,
}

#[derive(Debug)]
enum Event {
    FromClient(SocketAddr, Vec<u8>),
    FromServer(SocketAddr, Vec<u8>),
    Rebind(IpAddr),
    Stop,
}

/// Which way a datagram goes; both are about this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

#[derive(Debug)]
struct OnTheWay {
    due: Instant,
    /// Keeps datagrams of one moment in order.
    number: u64,
    way: Way,
    client: SocketAddr,
    bytes: Vec<u8>,
}

impl PartialEq for OnTheWay {
    fn eq(&self, other: &OnTheWay) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OnTheWay {}

impl PartialOrd for OnTheWay {
    fn partial_cmp(&self, other: &OnTheWay) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OnTheWay {
    fn cmp(&self, other: &OnTheWay) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl LossyRelay {
    /// Relays to a server on 127.0.0.1. What happens to which datagram is decided by the seed,
    /// as far as their order is the same.
    pub fn start(server: u16, conditions: NetworkConditions, seed: u64) -> LossyRelay {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            conditions: Mutex::new(conditions),
            counts: Mutex::default(),
            recorded: Mutex::default(),
        });
        let (events, inbox) = sync_channel(1024);
        let front = Arc::new(socket);
        let (reading, sender, at) = (front.clone(), events.clone(), shared.clone());
        std::thread::spawn(move || read(&reading, &at.stop, &sender, Event::FromClient));
        let network = Network {
            server: SocketAddr::from((Ipv4Addr::LOCALHOST, server)),
            front,
            shared: shared.clone(),
            events: events.clone(),
            random: Random::new(seed),
            clients: Vec::new(),
            local: Ipv4Addr::LOCALHOST.into(),
            on_the_way: BinaryHeap::new(),
            number: 0,
            free_at: [Instant::now(); 2],
        };
        LossyRelay {
            address,
            shared,
            events,
            thread: Some(std::thread::spawn(move || network.run(&inbox))),
        }
    }

    /// Where clients send.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Other conditions from now on, for datagrams that are not on their way yet.
    pub fn change(&self, conditions: NetworkConditions) {
        *self.shared.conditions.lock().expect("no thread panics") = conditions;
    }

    /// Gives every client another port towards the server, as a NAT that has forgotten them.
    pub fn rebind(&self) {
        self.rebind_to(Ipv4Addr::LOCALHOST.into());
    }

    /// The same at another address of this machine: `127.0.0.2`.
    pub fn rebind_to(&self, address: IpAddr) {
        let before = self.counts().rebindings;
        let _ = self.events.send(Event::Rebind(address));
        // Done when this returns: what the client sends next comes from there.
        crate::wait_for("the rebinding", || {
            (self.counts().rebindings > before).then_some(())
        });
    }

    /// Remembers from now on what comes from clients.
    pub fn record(&self) {
        *self.shared.recorded.lock().expect("no thread panics") = Some(Vec::new());
    }

    /// The datagrams of the client that came last, in the order in which they came.
    pub fn recorded(&self) -> Vec<Vec<u8>> {
        let recorded = self.shared.recorded.lock().expect("no thread panics");
        let all = recorded.as_deref().unwrap_or_default();
        let last = all.last().map(|(client, _)| *client);
        let of_last = all.iter().filter(|(client, _)| Some(*client) == last);
        of_last.map(|(_, bytes)| bytes.clone()).collect()
    }

    /// What it has done so far.
    pub fn counts(&self) -> RelayCounts {
        *self.shared.counts.lock().expect("no thread panics")
    }
}

impl Drop for LossyRelay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        let _ = self.events.try_send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Hands on what arrives at a socket until `stop`, or until nobody listens.
fn read(
    socket: &UdpSocket,
    stop: &AtomicBool,
    events: &SyncSender<Event>,
    event: impl Fn(SocketAddr, Vec<u8>) -> Event,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    let _ = socket.set_read_timeout(Some(LOOK_UP));
    while !stop.load(Relaxed) {
        // An error is a time-out, or the ICMP message of an earlier datagram.
        let Ok((count, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        if events.send(event(from, buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

/// A client, and the socket that the server knows it by.
#[derive(Debug)]
struct Client {
    address: SocketAddr,
    towards_server: Arc<UdpSocket>,
    /// Ends the thread that reads from the socket.
    stop: Arc<AtomicBool>,
}

/// The thread's part of a relay.
#[derive(Debug)]
struct Network {
    server: SocketAddr,
    front: Arc<UdpSocket>,
    shared: Arc<Shared>,
    events: SyncSender<Event>,
    random: Random,
    clients: Vec<Client>,
    /// Where sockets towards the server are bound.
    local: IpAddr,
    on_the_way: BinaryHeap<Reverse<OnTheWay>>,
    number: u64,
    /// When the line is free again, to the server and to clients.
    free_at: [Instant; 2],
}

impl Network {
    fn run(mut self, inbox: &Receiver<Event>) {
        while !self.shared.stop.load(Relaxed) {
            self.deliver();
            let wait = match self.on_the_way.peek() {
                Some(Reverse(next)) => next.due.saturating_duration_since(Instant::now()),
                None => LOOK_UP,
            };
            match inbox.recv_timeout(wait.min(LOOK_UP)) {
                Ok(Event::FromClient(client, bytes)) => self.arrived_from_client(client, bytes),
                Ok(Event::FromServer(client, bytes)) => {
                    self.count(|counts| counts.from_server += 1);
                    self.send_off(Way::ToClient, client, bytes);
                }
                Ok(Event::Rebind(address)) => self.rebind(address),
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        for client in &self.clients {
            client.stop.store(true, Relaxed);
        }
    }

    fn count(&self, change: impl FnOnce(&mut RelayCounts)) {
        change(&mut self.shared.counts.lock().expect("no thread panics"));
    }

    fn chance(&mut self, thousandths: usize) -> bool {
        self.random.below(1000) < thousandths
    }

    fn arrived_from_client(&mut self, client: SocketAddr, bytes: Vec<u8>) {
        self.count(|counts| counts.from_clients += 1);
        let mut recorded = self.shared.recorded.lock().expect("no thread panics");
        if let Some(recorded) = &mut *recorded {
            recorded.push((client, bytes.clone()));
        }
        drop(recorded);
        if !self.clients.iter().any(|known| known.address == client) {
            if self.clients.len() == MAX_CLIENTS {
                self.count(|counts| counts.lost += 1);
                return;
            }
            let new = self.open(client);
            self.clients.push(new);
        }
        self.send_off(Way::ToServer, client, bytes);
    }

    /// Opens a client's socket towards the server, with a thread that reads from it.
    fn open(&self, client: SocketAddr) -> Client {
        let socket = UdpSocket::bind((self.local, 0)).expect("an address of this machine");
        let towards_server = Arc::new(socket);
        let stop = Arc::new(AtomicBool::new(false));
        let (socket, ended) = (towards_server.clone(), stop.clone());
        let (events, server) = (self.events.clone(), self.server);
        std::thread::spawn(move || {
            read(&socket, &ended, &events, |from, bytes| {
                // A NAT lets only the server's datagrams in; an empty one is not relayed on.
                let bytes = if from == server { bytes } else { Vec::new() };
                Event::FromServer(client, bytes)
            });
        });
        Client {
            address: client,
            towards_server,
            stop,
        }
    }

    fn rebind(&mut self, address: IpAddr) {
        self.local = address;
        let old = std::mem::take(&mut self.clients);
        for client in old {
            client.stop.store(true, Relaxed);
            let new = self.open(client.address);
            self.clients.push(new);
        }
        self.count(|counts| counts.rebindings += 1);
    }

    /// Decides what becomes of a datagram.
    fn send_off(&mut self, way: Way, client: SocketAddr, mut bytes: Vec<u8>) {
        let conditions = *self.shared.conditions.lock().expect("no thread panics");
        // Each decision takes a number, so that a rate changes nothing about the others.
        let [lost, twice, late, changed] = [
            conditions.lost,
            conditions.duplicated,
            conditions.reordered,
            conditions.corrupted,
        ]
        .map(|rate| self.chance(rate));
        let Some(mut due) = self.transmitted(way, bytes.len(), &conditions) else {
            return self.count(|counts| counts.lost += 1);
        };
        if lost || bytes.is_empty() || bytes.len() > conditions.max_datagram_bytes {
            return self.count(|counts| counts.lost += 1);
        }
        due += conditions.delay;
        if late {
            due += conditions.held_back;
            self.count(|counts| counts.reordered += 1);
        }
        if changed {
            let at = self.random.below(bytes.len());
            bytes[at] ^= 1 << self.random.below(8);
            self.count(|counts| counts.corrupted += 1);
        }
        if twice {
            self.count(|counts| counts.duplicated += 1);
            self.enqueue(due, way, client, bytes.clone());
        }
        self.enqueue(due, way, client, bytes);
    }

    /// When the last bit of a datagram has left, or `None` if the queue is too long.
    fn transmitted(
        &mut self,
        way: Way,
        bytes: usize,
        conditions: &NetworkConditions,
    ) -> Option<Instant> {
        let now = Instant::now();
        let Some(bandwidth) = conditions.bandwidth else {
            return Some(now);
        };
        let free_at = &mut self.free_at[usize::from(way == Way::ToClient)];
        let start = (*free_at).max(now);
        if start.duration_since(now) > conditions.queue {
            return None;
        }
        let bits = u64::try_from(bytes).unwrap_or(u64::MAX);
        let nanoseconds = bits.saturating_mul(1_000_000_000) / bandwidth.max(1);
        *free_at = start + Duration::from_nanos(nanoseconds);
        Some(*free_at)
    }

    fn enqueue(&mut self, due: Instant, way: Way, client: SocketAddr, bytes: Vec<u8>) {
        if self.on_the_way.len() >= MAX_ON_THE_WAY {
            return self.count(|counts| counts.lost += 1);
        }
        self.number += 1;
        self.on_the_way.push(Reverse(OnTheWay {
            due,
            number: self.number,
            way,
            client,
            bytes,
        }));
    }

    /// Sends what is due.
    fn deliver(&mut self) {
        let now = Instant::now();
        while self
            .on_the_way
            .peek()
            .is_some_and(|Reverse(next)| next.due <= now)
        {
            let Some(Reverse(datagram)) = self.on_the_way.pop() else {
                return;
            };
            // An error is the ICMP message of an earlier datagram: nobody listens there.
            let _ = match datagram.way {
                Way::ToClient => self.front.send_to(&datagram.bytes, datagram.client),
                Way::ToServer => {
                    let mut all = self.clients.iter();
                    let client = all.find(|client| client.address == datagram.client);
                    let client = client.expect("clients are never forgotten");
                    client.towards_server.send_to(&datagram.bytes, self.server)
                }
            };
            self.count(|counts| counts.delivered += 1);
        }
    }
}

#[cfg(test)]
mod tests;
