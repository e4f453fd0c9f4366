//! A way to a server that takes its time: datagrams are handed on a little later, in both
//! directions.

use std::{
    collections::VecDeque,
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sealane_sys::socket::{BATCH_MESSAGES, Ecn, MessageToSend, ReceivedBatch, send_datagrams};

use crate::{
    Error,
    load::{pin_this_thread, prepare_socket},
};

/// How long the relay waits before it looks whether it is over.
const PAUSE: Duration = Duration::from_millis(20);
/// Messages that are on the way in one direction, each of up to 64 KiB: more than what 10 Gbit/s
/// need for 50 ms. Further ones are lost.
const MAX_UNDER_WAY: usize = 1000;
/// Batches that are received before anything is sent.
const BATCHES_AT_ONCE: usize = 4;

/// A started relay; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Where its client sends to.
    pub(crate) address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts one on the cores `cpus` that hands datagrams on to `server`, and back to the client
    /// that has sent last: it is for one connection. Each is under way for `delay`.
    pub(crate) fn start(
        server: SocketAddr,
        delay: Duration,
        cpus: &[usize],
    ) -> Result<Self, Error> {
        let failed = |source| Error::io("open a socket for datagrams", source);
        let (mut ways, address) = Ways::open(server, delay).map_err(failed)?;
        let is_over = Arc::<AtomicBool>::default();
        let (told, cpus) = (is_over.clone(), cpus.to_owned());
        let thread = thread::Builder::new().name("relay".into()).spawn(move || {
            // It works on any other core as well.
            if !cpus.is_empty() {
                let _ = pin_this_thread(&cpus);
            }
            while !told.load(Ordering::Relaxed) {
                ways.turn();
            }
        });
        Ok(Self {
            address,
            is_over,
            thread: Some(thread.map_err(|source| Error::io("start the relay", source))?),
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Datagrams of one size that are under way.
struct UnderWay {
    due: Instant,
    bytes: Vec<u8>,
    segment_bytes: usize,
    ecn: Ecn,
}

/// One direction.
#[derive(Default)]
struct Way {
    under_way: VecDeque<UnderWay>,
    /// Buffers for what comes.
    spare: Vec<Vec<u8>>,
}

/// Both directions.
struct Ways {
    delay: Duration,
    to_client: UdpSocket,
    to_server: UdpSocket,
    client: Option<SocketAddr>,
    forth: Way,
    back: Way,
    batch: ReceivedBatch,
}

impl Ways {
    fn open(server: SocketAddr, delay: Duration) -> io::Result<(Self, SocketAddr)> {
        let open = || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.set_nonblocking(true)?;
            prepare_socket(&socket, true)?;
            Ok::<_, io::Error>(socket)
        };
        let (to_client, to_server) = (open()?, open()?);
        to_server.connect(server)?;
        let address = to_client.local_addr()?;
        let ways = Self {
            delay,
            to_client,
            to_server,
            client: None,
            forth: Way::default(),
            back: Way::default(),
            batch: ReceivedBatch::new(),
        };
        Ok((ways, address))
    }

    /// Waits for what is next, and does it.
    fn turn(&mut self) {
        let next = [&self.forth, &self.back].map(|way| way.under_way.front().map(|next| next.due));
        let wait = match next.into_iter().flatten().min() {
            Some(due) => due.saturating_duration_since(Instant::now()).min(PAUSE),
            None => PAUSE,
        };
        let mut polled =
            [&self.to_client, &self.to_server].map(|fd| PollFd::new(fd, PollFlags::IN));
        let timeout = Timespec::try_from(wait).ok();
        // A signal ends the wait early.
        let _ = poll(&mut polled, timeout.as_ref());
        let source = self
            .forth
            .take(&self.to_client, &mut self.batch, self.delay);
        self.client = source.or(self.client);
        self.back.take(&self.to_server, &mut self.batch, self.delay);
        self.forth.hand_on(&self.to_server, None);
        self.back.hand_on(&self.to_client, self.client);
    }
}

impl Way {
    /// Takes what has come; returns who has sent the last of it.
    fn take(
        &mut self,
        socket: &UdpSocket,
        batch: &mut ReceivedBatch,
        delay: Duration,
    ) -> Option<SocketAddr> {
        let mut source = None;
        for _ in 0..BATCHES_AT_ONCE {
            // A server that has gone is its client's business.
            if batch.receive(socket.as_fd(), BATCH_MESSAGES).is_err() {
                break;
            }
            let due = Instant::now() + delay;
            for message in batch.messages() {
                source = message.source.or(source);
                if self.under_way.len() >= MAX_UNDER_WAY {
                    continue;
                }
                let mut bytes = self.spare.pop().unwrap_or_default();
                bytes.extend_from_slice(message.bytes);
                let (segment_bytes, ecn) = (message.segment_bytes, message.ecn);
                self.under_way.push_back(UnderWay {
                    due,
                    bytes,
                    segment_bytes,
                    ecn,
                });
            }
        }
        source
    }

    /// Sends what has been under way for long enough.
    fn hand_on(&mut self, socket: &UdpSocket, to: Option<SocketAddr>) {
        let now = Instant::now();
        while let Some(mut first) = self.under_way.pop_front_if(|first| first.due <= now) {
            let message = MessageToSend {
                bytes: &first.bytes,
                segment_bytes: first.segment_bytes,
                to,
                from: None,
                ecn: first.ecn,
            };
            // What there is no room for is lost, as on other ways.
            let _ = send_datagrams(socket.as_fd(), &[message]);
            first.bytes.clear();
            self.spare.push(first.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_go_both_ways_and_take_their_time() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let delay = Duration::from_millis(30);
        let address = server.local_addr().expect("it is bound");
        let relay = Relay::start(address, delay, &[]).expect("loopback has a free port");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        client.connect(relay.address).expect("loopback");
        for socket in [&server, &client] {
            let patience = Some(Duration::from_secs(20));
            socket.set_read_timeout(patience).expect("a time-out");
        }
        let started = Instant::now();
        client.send(b"there").expect("loopback");
        let mut buffer = [0; 100];
        let (length, from) = server.recv_from(&mut buffer).expect("handed on");
        assert_eq!(&buffer[..length], b"there");
        assert!(started.elapsed() >= delay);
        server.send_to(b"and back", from).expect("loopback");
        let length = client.recv(&mut buffer).expect("handed back");
        assert_eq!(&buffer[..length], b"and back");
        assert!(started.elapsed() >= 2 * delay);
    }
}
