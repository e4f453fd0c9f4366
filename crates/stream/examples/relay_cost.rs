//! Prints what a relay costs its thread: processor time for each byte of a large transfer, through
//! pipes and through memory, and for each small message.
//!
//! ```text
//! cargo run --release -p sealane-stream --example relay_cost -- [MEBIBYTES [MESSAGES]]
//! ```

use sealane_io::runtime::Runtime;
use sealane_io::{Endpoint, Socket, Stream, pipe};
use sealane_stream::relay::{Relay, RelaySettings};
use sealane_tls::Ktls;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const MESSAGE_BYTES: usize = 1024;

struct Alone(Socket);

impl Endpoint for Alone {
    fn socket(&self) -> &Socket {
        &self.0
    }

    fn note_ktls(&self, _state: Ktls<'_>) {}

    fn note_sendfile(&self, _bytes: u64) {}
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.expect("a number comes first"))
}

/// A connection: the relay's end, then the peer's.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let peer = TcpStream::connect(address).expect("it listens");
    let (near, _) = listener.accept().expect("one is waiting");
    for stream in [&near, &peer] {
        stream.set_nodelay(true).expect("it is TCP");
    }
    near.set_nonblocking(true).expect("any socket can be");
    (near, peer)
}

/// Relays between two peers until one has ended. Returns the processor time and the time.
fn relay(
    buffer_bytes: usize,
    through_pipes: bool,
    client: impl FnOnce(TcpStream) + Send + 'static,
    server: impl FnOnce(TcpStream) + Send + 'static,
) -> (Duration, Duration) {
    let (near_client, far_client) = connection();
    let (near_server, far_server) = connection();
    let peers = [
        thread::spawn(move || server(far_server)),
        thread::spawn(move || client(far_client)),
    ];
    // Whoever finds none left uses memory.
    let pipes: Vec<_> = match through_pipes {
        true => Vec::new(),
        false => std::iter::from_fn(pipe::take).collect(),
    };
    let runtime = Runtime::new().expect("there are descriptors");
    let began = (processor_time(), Instant::now());
    runtime.block_on(async {
        let socket = |stream: TcpStream| Socket::tcp(stream.into()).expect("inside of a runtime");
        let mut client = Stream::<_, sealane_tls::Connection>::new(Alone(socket(near_client)));
        let mut server =
            Stream::<_, sealane_tls::client::Connection>::new(Alone(socket(near_server)));
        let settings = RelaySettings {
            buffer_bytes,
            upload_rate: 0,
            download_rate: 0,
            half_close: false,
        };
        let mut relay = Relay::new(settings, Vec::new(), Vec::new());
        let ended = poll_fn(|cx| relay.poll(cx, &mut client, &mut server)).await;
        ended.expect("nobody fails");
    });
    let cost = (processor_time() - began.0, began.1.elapsed());
    drop(pipes);
    for peer in peers {
        peer.join().expect("no panic");
    }
    cost
}

fn transfer(name: &str, buffer_bytes: usize, through_pipes: bool, mebibytes: usize) {
    let send = move |mut stream: TcpStream| {
        let batch = vec![b'x'; 1 << 20];
        for _ in 0..mebibytes {
            stream.write_all(&batch).expect("it is received");
        }
    };
    let receive = move |mut stream: TcpStream| {
        let mut buffer = vec![0; 256 << 10];
        while stream.read(&mut buffer).expect("it is sent") > 0 {}
    };
    let (cost, time) = relay(buffer_bytes, through_pipes, receive, send);
    let bytes = (mebibytes << 20) as f64;
    println!(
        "{name:24} {:6.3} ns/byte   {:6.2} GB/s   processor busy {:3.0} %",
        cost.as_nanos() as f64 / bytes,
        bytes / time.as_secs_f64() / 1e9,
        100.0 * cost.as_secs_f64() / time.as_secs_f64(),
    );
}

fn echo(messages: usize) {
    let client = move |mut stream: TcpStream| {
        let mut message = [b'x'; MESSAGE_BYTES];
        for _ in 0..messages {
            stream.write_all(&message).expect("it is received");
            stream.read_exact(&mut message).expect("it comes back");
        }
    };
    let server = move |mut stream: TcpStream| {
        let mut message = [0; MESSAGE_BYTES];
        while stream.read_exact(&mut message).is_ok() {
            if stream.write_all(&message).is_err() {
                break;
            }
        }
    };
    let (cost, time) = relay(16 << 10, true, client, server);
    println!(
        "echo of 1 KiB            {:6.2} us each (both ways)   {:6.0} a second",
        cost.as_secs_f64() * 1e6 / messages as f64,
        messages as f64 / time.as_secs_f64(),
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| {
        let given = arguments.next();
        given.map_or(default, |text| text.parse().expect("a number"))
    };
    let (mebibytes, messages) = (number(1024), number(20_000));
    for _ in 0..3 {
        transfer("through pipes", 16 << 10, true, mebibytes);
        transfer("through memory", 16 << 10, false, mebibytes);
        echo(messages);
    }
}
