//! Sessions and relays between sockets of this thread.

mod limits;
mod relays;

use super::*;
use crate::relay::{Action, Side};
use sealane_io::datagram::{DatagramSocket, Path, Run};
use sealane_io::runtime::{self, JoinHandle, Runtime};
use sealane_sys::socket::BATCH_MESSAGES;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::rc::Rc;

fn run<F: Future>(work: F) -> F::Output {
    let runtime = Runtime::new();
    runtime.expect("a runtime can be built").block_on(work)
}

/// A socket of any port at this address.
fn bound(address: &str) -> (DatagramSocket, SocketAddr) {
    let socket = UdpSocket::bind((address, 0)).expect("a free port");
    let address = socket.local_addr().expect("bound");
    let socket = DatagramSocket::bound(socket.into(), address);
    (socket.expect("inside of a runtime"), address)
}

fn connected(address: SocketAddr) -> DatagramSocket {
    let domain = socket2::Domain::for_address(address);
    let socket = DatagramSocket::unconnected(domain);
    DatagramSocket::connect(socket.expect("a socket"), address).expect("on this machine")
}

/// A peer: a client, or a server.
struct Peer {
    socket: DatagramSocket,
    address: SocketAddr,
    received: VecDeque<(Vec<u8>, SocketAddr)>,
}

impl Peer {
    fn at(address: &str) -> Peer {
        let (socket, address) = bound(address);
        Peer {
            socket,
            address,
            received: VecDeque::new(),
        }
    }

    async fn send(&self, to: SocketAddr, datagram: &[u8]) {
        let path = Path {
            to: Some(to),
            from: None,
        };
        let one = std::iter::once(Run::one(datagram));
        let sent = poll_fn(|cx| self.socket.poll_send(cx, path, one.clone())).await;
        assert_eq!(sent.expect("there is room"), 1);
    }

    /// The next datagram, and who has sent it.
    async fn receive(&mut self) -> (Vec<u8>, SocketAddr) {
        loop {
            if let Some(next) = self.received.pop_front() {
                return next;
            }
            let received = &mut self.received;
            let received = poll_fn(|cx| {
                self.socket.poll_receive(cx, BATCH_MESSAGES, |batch| {
                    for message in batch.messages() {
                        let source = message.source.expect("it is not connected");
                        let datagrams = message.datagrams();
                        received.extend(datagrams.map(|datagram| (datagram.to_vec(), source)));
                    }
                })
            });
            received.await.expect("it works");
        }
    }
}

/// What became of a relay.
#[derive(Debug)]
struct Outcome {
    counts: DatagramCounts,
    /// Of receiving.
    errors: Vec<String>,
    end: Result<(), String>,
}

/// A listener that relays every session to one server.
struct Relaying {
    address: SocketAddr,
    /// Of sessions that have ended.
    outcomes: Rc<RefCell<Vec<Outcome>>>,
    _listening: JoinHandle<()>,
}

async fn relaying(
    address: &str,
    settings: ListenerSettings<'static>,
    relay: DatagramRelaySettings,
    server: SocketAddr,
) -> Relaying {
    let (socket, address) = bound(address);
    let outcomes = Rc::<RefCell<Vec<Outcome>>>::default();
    let noted = Rc::clone(&outcomes);
    let mut listener = DatagramListener::new(socket, address);
    let listening = runtime::spawn_with_handle(async move {
        while let Some(session) = poll_fn(|cx| listener.poll_session(cx, &settings)).await {
            let session = session.expect("the socket works");
            let noted = Rc::clone(&noted);
            runtime::spawn(async move {
                let outcome = relay_session(session, server, relay).await;
                noted.borrow_mut().push(outcome);
            });
        }
    });
    Relaying {
        address,
        outcomes,
        _listening: listening,
    }
}

async fn relay_session(
    session: Session,
    server: SocketAddr,
    settings: DatagramRelaySettings,
) -> Outcome {
    let mut relay = DatagramRelay::new(session, connected(server), settings, Vec::new());
    let mut errors = Vec::new();
    let end = loop {
        match poll_fn(|cx| relay.poll(cx)).await {
            Ok(()) => break Ok(()),
            Err(error) if error.action == Action::Reading(Side::Server) => {
                errors.push(error.to_string());
            }
            Err(error) => break Err(error.to_string()),
        }
    };
    Outcome {
        counts: relay.counts(),
        errors,
        end,
    }
}

/// Waits until so many sessions have ended.
async fn ended(relaying: &Relaying, count: usize) {
    while relaying.outcomes.borrow().len() < count {
        runtime::yield_now().await;
    }
}

fn traffic(packets: u64, bytes: u64) -> Traffic {
    Traffic { packets, bytes }
}
