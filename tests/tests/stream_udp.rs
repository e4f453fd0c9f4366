//! Sessions of UDP: `listen ... udp` in `stream`.

use sealane_tests::{PATIENCE, Program, Server, Site, wait_for};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[path = "stream_udp/as_nginx.rs"]
mod as_nginx;
#[path = "stream_udp/kept.rs"]
mod kept;
#[path = "stream_udp/life.rs"]
mod life;
#[path = "stream_udp/programs.rs"]
mod programs;

/// Where servers under test listen: at 127.0.0.1 the reservations of ports are sockets for
/// datagrams.
const HERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// How long nothing comes until nothing is expected any more.
const QUIET: Duration = Duration::from_millis(700);

/// A datagram, and the address that it came from.
type Got = (SocketAddr, Vec<u8>);

/// A server of datagrams that does what they say, and ends with the test's process.
struct Origin {
    address: SocketAddr,
    /// What has come so far, with the address that it came from.
    got: Arc<Mutex<Vec<Got>>>,
}

impl Origin {
    fn at(ip: &str) -> Origin {
        let ip: IpAddr = ip.parse().expect("an address");
        let socket = UdpSocket::bind((ip, 0)).expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let notes = got.clone();
        thread::spawn(move || {
            let mut counts = HashMap::<(SocketAddr, Vec<u8>), usize>::new();
            let mut buffer = vec![0; 65_536];
            loop {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                let (tag, datagram) = untagged(&buffer[..length]);
                let datagram = datagram.to_vec();
                // Another session may have had the same port, so what says nothing is not counted.
                let count = match tag {
                    b"" => 1,
                    tag => {
                        let count = counts.entry((from, tag.to_vec())).or_default();
                        *count += 1;
                        *count
                    }
                };
                for answer in answers(&datagram, from, count) {
                    let _ = socket.send_to(&answer, from);
                }
                notes.lock().expect("no panic").push((from, datagram));
            }
        });
        Origin { address, got }
    }

    fn new() -> Origin {
        Origin::at("127.0.0.3")
    }

    /// Waits until so many datagrams have come, and returns them.
    #[track_caller]
    fn wait_for(&self, count: usize) -> Vec<Got> {
        wait_for(&format!("{count} datagrams"), || {
            let got = self.got.lock().expect("no panic");
            (got.len() >= count).then(|| got.clone())
        })
    }
}

/// Length of a client's number and the space behind it.
const TAG_BYTES: usize = 8;

/// The number of a client, and what it says.
fn untagged(datagram: &[u8]) -> (&[u8], &[u8]) {
    match datagram.split_at_checked(TAG_BYTES) {
        Some((tag @ [b'#', .., b' '], rest)) => (tag, rest),
        _ => (b"", datagram),
    }
}

/// What is sent back for a datagram, the `count`th of a client from there.
fn answers(datagram: &[u8], from: SocketAddr, count: usize) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(datagram);
    let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
    let number = || rest.parse().unwrap_or(0);
    match word {
        "none" => vec![],
        "empty" => vec![vec![]],
        "two" => vec![format!("{count} first").into_bytes(), b"second".to_vec()],
        "long" => vec![vec![b'l'; number()]],
        "many" => vec![vec![b'm'; 1000]; number()],
        "who" => vec![from.ip().to_string().into_bytes()],
        _ if datagram.starts_with(b"PROXY ") || datagram.starts_with(b"\r\n\r\n\0") => {
            let digits = datagram.iter().map(|byte| format!("{byte:02x}"));
            vec![digits.collect::<String>().into_bytes()]
        }
        _ => vec![[format!("{count} ").as_bytes(), datagram].concat()],
    }
}

/// A client.
struct Client {
    socket: UdpSocket,
    number: usize,
}

impl Client {
    fn at(ip: &str) -> Client {
        let ip: IpAddr = ip.parse().expect("an address");
        let socket = UdpSocket::bind((ip, 0)).expect("a free port");
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Client { socket, number }
    }

    fn new() -> Client {
        Client::at("127.0.0.1")
    }

    /// Sends a datagram by which origins know the client; an empty one as it is.
    #[track_caller]
    fn send(&self, to: impl Into<SocketAddr>, datagram: &[u8]) {
        match datagram {
            b"" => self.send_as_it_is(to, datagram),
            _ => {
                let tag = format!("#{:06} ", self.number);
                self.send_as_it_is(to, &[tag.as_bytes(), datagram].concat());
            }
        }
    }

    #[track_caller]
    fn send_as_it_is(&self, to: impl Into<SocketAddr>, datagram: &[u8]) {
        let sent = self.socket.send_to(datagram, to.into());
        assert_eq!(sent.expect("there is room"), datagram.len());
    }

    /// The next datagram within this time, and who has sent it.
    fn receive_within(&self, time: Duration) -> Option<Got> {
        self.socket.set_read_timeout(Some(time)).expect("not zero");
        let mut buffer = vec![0; 65_536];
        loop {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) => return Some((from, buffer[..length].to_vec())),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    #[track_caller]
    fn receive(&self) -> Vec<u8> {
        let received = self.receive_within(PATIENCE);
        received.expect("something comes").1
    }

    /// Sends a datagram and expects this one.
    #[track_caller]
    fn asks(&self, to: impl Into<SocketAddr>, datagram: &str, answer: &str) {
        self.send(to, datagram.as_bytes());
        assert_eq!(String::from_utf8_lossy(&self.receive()), answer);
    }
}

/// The address of a server under test.
fn here(server: &Server<'_>, port: &str) -> SocketAddr {
    (HERE, server.port(port)).into()
}

/// A configuration with this `stream` block, and a port for connections by which is seen that the
/// server has started: sockets are bound in the order of the configuration.
fn configuration(threads: usize, stream: &str) -> String {
    format!(
        "worker_processes {threads}; error_log logs/error.log info; pid logs/pid;
         events {{ worker_connections 2000; }}
         stream {{ {stream} server {{ listen 127.0.0.1:%up%; return up; }} }}"
    )
}

fn serve<'s>(site: &'s Site, stream: &str) -> Server<'s> {
    site.serve_whole(&configuration(2, stream))
}

/// A port that is free at every address of the machine, for wildcards: those of sites are reserved
/// by sockets for datagrams. Between theirs and those that the kernel gives out.
fn port_everywhere() -> u16 {
    let start = std::process::id() as u16 % 700;
    let mut ports = (0..700).map(|step| 32_010 + (start + step) % 700);
    let is_free = |port: &u16| {
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok()
            && TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok()
    };
    ports.find(is_free).expect("a free port")
}
