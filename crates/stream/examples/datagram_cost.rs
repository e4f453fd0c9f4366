//! Prints what relaying datagrams costs its thread: processor time for each one, from clients that
//! wait for an answer, and from one that sends many at once.
//!
//! ```text
//! cargo run --release -p sealane-stream --example datagram_cost -- [ROUNDS]
//! ```

use sealane_io::datagram::DatagramSocket;
use sealane_io::runtime::{self, Runtime};
use sealane_stream::datagram::{
    DatagramListener, DatagramRelay, DatagramRelaySettings, ListenerSettings,
};
use sealane_sys::socket::{
    BATCH_MESSAGES, Ecn, MessageToSend, ReceivedBatch, join_datagrams, send_datagrams,
};
use std::future::poll_fn;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

const DATAGRAM_BYTES: usize = 1200;

/// Processor time of this thread.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.expect("a number comes first"))
}

fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    (socket, address)
}

/// Sends everything back until an empty datagram comes.
fn echo(socket: &UdpSocket) {
    let mut batch = ReceivedBatch::new();
    join_datagrams(socket.as_fd(), true).expect("Linux 5.0");
    let mut first = [0; 1];
    loop {
        // Waits; the batch does not.
        if socket
            .peek_from(&mut first)
            .is_ok_and(|(count, _)| count == 0)
        {
            return;
        }
        let Ok(_) = batch.receive(socket.as_fd(), BATCH_MESSAGES) else {
            continue;
        };
        for message in batch.messages() {
            let back = MessageToSend {
                bytes: message.bytes,
                segment_bytes: message.segment_bytes,
                to: message.source,
                from: None,
                ecn: Ecn::NotEct,
            };
            send_datagrams(socket.as_fd(), &[back]).expect("there is room");
        }
    }
}

/// Sends so many datagrams at once, and waits until they are back, again and again.
fn client(relay: SocketAddr, at_once: usize, rounds: usize) {
    let (socket, _) = bound();
    let bytes = vec![b'x'; at_once * DATAGRAM_BYTES];
    let timeout = Some(Duration::from_secs(10));
    socket.set_read_timeout(timeout).expect("it is not zero");
    let mut buffer = [0; 2048];
    for _ in 0..rounds {
        let message = MessageToSend {
            bytes: &bytes,
            segment_bytes: DATAGRAM_BYTES,
            to: Some(relay),
            from: None,
            ecn: Ecn::NotEct,
        };
        send_datagrams(socket.as_fd(), &[message]).expect("there is room");
        for _ in 0..at_once {
            socket.recv(&mut buffer).expect("nothing is lost here");
        }
    }
}

fn measure(clients: usize, at_once: usize, rounds: usize) {
    let (listening, address) = bound();
    let (echoing, server) = bound();
    let server_thread = thread::spawn(move || echo(&echoing));
    let client_thread = thread::spawn(move || {
        let one = || thread::spawn(move || client(address, at_once, rounds));
        let clients: Vec<_> = (0..clients).map(|_| one()).collect();
        clients
            .into_iter()
            .for_each(|client| client.join().expect("no panic"));
    });
    let runtime = Runtime::new().expect("there are descriptors");
    let (before, began) = (processor_time(), Instant::now());
    runtime.block_on(async {
        let socket = DatagramSocket::bound(listening.into(), address).expect("a runtime");
        let mut listener = DatagramListener::new(socket, address);
        runtime::spawn(async move {
            let limits = ListenerSettings::default();
            while let Some(Ok(session)) = poll_fn(|cx| listener.poll_session(cx, &limits)).await {
                if listener.sessions() == clients {
                    listener.refuse_new();
                }
                runtime::spawn(async move {
                    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
                    let near = DatagramSocket::connect(socket.into(), server).expect("on loopback");
                    let settings = DatagramRelaySettings::default();
                    let mut relay = DatagramRelay::new(session, near, settings, Vec::new());
                    let _ = poll_fn(|cx| relay.poll(cx)).await;
                });
            }
        });
        while !client_thread.is_finished() {
            runtime::sleep(Duration::from_millis(5)).await;
        }
    });
    let (cost, time) = (processor_time() - before, began.elapsed());
    client_thread.join().expect("no panic");
    let (stop, _) = bound();
    stop.send_to(&[], server).expect("it listens");
    server_thread.join().expect("no panic");
    // Each passes twice, there and back.
    let passed = (2 * clients * at_once * rounds) as f64;
    println!(
        "{clients:2} clients, {at_once:2} at once   {:6.2} us each   {:8.0} a second   processor busy {:3.0} %",
        cost.as_secs_f64() * 1e6 / passed,
        passed / time.as_secs_f64(),
        100.0 * cost.as_secs_f64() / time.as_secs_f64(),
    );
}

fn main() {
    let rounds = std::env::args().nth(1);
    let rounds = rounds.map_or(5000, |text| text.parse().expect("a number"));
    for _ in 0..2 {
        for (clients, at_once) in [(1, 1), (16, 1), (1, 40), (8, 8)] {
            measure(clients, at_once, rounds);
        }
    }
}
