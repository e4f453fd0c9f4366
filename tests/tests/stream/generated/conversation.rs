//! Conversations that are made up, and how they are held.

use super::{Case, Layer4, Random, Site};
use sealane_tests::{PATIENCE, client_hello};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::OnceLock;
use std::thread;

/// Who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Client,
    Origin,
}

#[derive(Debug, Clone)]
enum Step {
    /// Sends so many bytes in so many pieces; the other one waits for all of them.
    Says(Who, usize, usize),
    /// Both send so many bytes at once.
    Both(usize, usize),
    /// Says that it will send nothing more; the other one waits to hear that.
    Ends(Who),
    /// Its connection is gone; the other one waits to hear that.
    Resets(Who),
    /// Another client connects where only one may, and is turned away.
    Another,
}

/// What is said and done in one session.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    /// What the client sends before any step, by its name. In one piece: nginx takes no other.
    header: Option<&'static str>,
    hello: Option<&'static str>,
    steps: Vec<Step>,
    /// For the bytes.
    seed: u64,
}

const HEADERS: [(&str, &[u8]); 5] = [
    ("v1", b"PROXY TCP4 192.0.2.7 192.0.2.8 4660 443\r\n"),
    (
        "v1 of IPv6",
        b"PROXY TCP6 2001:db8::7 2001:db8::8 4660 443\r\n",
    ),
    (
        "v1 of another",
        b"PROXY TCP4 203.0.113.5 192.0.2.8 1 65535\r\n",
    ),
    ("v1 of nobody", b"PROXY UNKNOWN\r\n"),
    (
        "v2",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x08\x12\x34\x01\xbb",
    ),
];

/// What clients of `ssl_preread` say first.
fn hellos() -> &'static [(&'static str, Vec<u8>)] {
    static HELLOS: OnceLock<Vec<(&str, Vec<u8>)>> = OnceLock::new();
    HELLOS.get_or_init(|| {
        vec![
            ("hello to two", client_hello("to.two", "-alpn h2,x")),
            ("hello", client_hello("a.example", "-tls1_2")),
            ("no hello", b"SSH-2.0-nothing of the kind\r\n".to_vec()),
        ]
    })
}

impl Conversation {
    pub(super) fn new(random: &mut Random, server: &Layer4) -> Conversation {
        let header = server.takes_header.then(|| random.choose(&HEADERS).0);
        let header = header.map(|name| match name {
            "v1 of IPv6" if server.sends_both_addresses => "v1",
            name => name,
        });
        let hello = server.preread.then(|| random.choose(hellos()).0);
        let mut steps = Vec::new();
        for _ in 0..random.below(5) {
            let who = *random.choose(&[Who::Client, Who::Origin]);
            let bytes = *random.choose(&[1, 7, 100, 1024, 4096, 16_384, 16_385, 70_000, 300_000]);
            steps.push(match random.below(8) {
                0 => Step::Both(bytes, *random.choose(&[1, 5000, 200_000])),
                1 if server.is_limited => Step::Another,
                _ => Step::Says(who, bytes, 1 + random.below(4)),
            });
        }
        let (first, second) =
            *random.choose(&[(Who::Client, Who::Origin), (Who::Origin, Who::Client)]);
        steps.push(match random.below(5) {
            // Not before anything was said: whether a connection stood before it broke is chance.
            0 if matches!(steps.last(), Some(Step::Says(..))) => Step::Resets(first),
            _ => Step::Ends(first),
        });
        if server.half_close {
            if random.below(2) == 0 && matches!(steps.last(), Some(Step::Ends(_))) {
                steps.push(Step::Says(second, 1 + random.below(100_000), 2));
            }
            steps.push(Step::Ends(second));
        }
        Conversation {
            header,
            hello,
            steps,
            seed: random.next_u64(),
        }
    }

    /// How many sessions it makes: at the server, and behind it.
    pub(super) fn sessions(&self, server: &Layer4) -> (usize, usize) {
        let is_another = |step: &&Step| matches!(step, Step::Another);
        let others = self.steps.iter().filter(is_another).count();
        match server.is_reached {
            true => (1 + others, 1),
            false => (1, 0),
        }
    }

    fn first_bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let header = self.header.map(|name| {
            let found = HEADERS.iter().find(|(known, _)| *known == name);
            found.expect("it was chosen from them").1.to_vec()
        });
        let hello = self.hello.map(|name| {
            let found = hellos().iter().find(|(known, _)| *known == name);
            found.expect("it was chosen from them").1.clone()
        });
        (header.unwrap_or_default(), hello.unwrap_or_default())
    }
}

/// One end of a conversation.
struct End {
    socket: Option<TcpStream>,
    got: Vec<u8>,
    how: String,
}

impl End {
    fn new(socket: TcpStream) -> End {
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        socket.set_nodelay(true).expect("it is connected");
        End {
            socket: Some(socket),
            got: Vec::new(),
            how: "not asked".to_owned(),
        }
    }

    /// Sends them in pieces. Who breaks off is seen by what comes next.
    fn send(&self, bytes: &[u8], pieces: usize) {
        let Some(mut socket) = self.socket.as_ref() else {
            return;
        };
        for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
            if socket.write_all(piece).is_err() {
                return;
            }
        }
    }

    /// Waits for that many bytes.
    fn receive(&mut self, count: usize) -> Result<(), String> {
        let Some(mut socket) = self.socket.as_ref() else {
            return Ok(());
        };
        let mut piece = vec![0; count];
        let result = socket.read_exact(&mut piece);
        match result {
            Ok(()) => {
                self.got.extend_from_slice(&piece);
                Ok(())
            }
            Err(error) => Err(format!("waiting for {count} bytes: {error}")),
        }
    }

    /// Waits for the end.
    fn finish(&mut self) {
        let Some(mut socket) = self.socket.as_ref() else {
            return;
        };
        self.how = match socket.read_to_end(&mut self.got) {
            Ok(_) => "end".to_owned(),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => "reset".to_owned(),
            Err(error) => error.to_string(),
        };
    }

    fn reset(&mut self) {
        if let Some(socket) = self.socket.take() {
            let socket = socket2::Socket::from(socket);
            let linger = socket.set_linger(Some(std::time::Duration::ZERO));
            linger.expect("it is a socket");
            self.how = "reset by itself".to_owned();
        }
    }
}

/// Holds a conversation, and says what both ends have seen.
pub(super) fn hold(site: &Site, case: &Case, talk: &Conversation) -> String {
    let port = site.port(&case.server.entry);
    let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let mut client = End::new(connect());
    let (header, hello) = talk.first_bytes();
    client.send(&header, 1);
    client.send(&hello, 1);
    if !case.server.is_reached {
        client.finish();
        // Whether what it had sent was read before is chance.
        return format!("client got {:?}\n", String::from_utf8_lossy(&client.got));
    }
    case.origin.set_nonblocking(true).expect("it listens");
    let Some((socket, peer)) = super::patiently(|| case.origin.accept().ok()) else {
        client.finish();
        return format!("the origin is not reached, client: {}\n", client.how);
    };
    socket.set_nonblocking(false).expect("it is connected");
    let at = socket.local_addr().expect("it is connected").ip();
    let mut seen = format!("origin {at} has {}\n", peer.ip());
    let mut origin = End::new(socket);
    if case.server.sends_header {
        writeln!(seen, "{}", read_header(&mut origin)).expect("memory");
    }
    if let Err(error) = origin.receive(hello.len()) {
        writeln!(seen, "hello: {error}").expect("memory");
    }
    let mut random = Random::new(talk.seed);
    for (number, step) in talk.steps.iter().enumerate() {
        let taken = take(step, &mut random, &mut client, &mut origin, &|| {
            let another = End::new(connect());
            another.send(&header, 1);
            another
        });
        if let Err(error) = taken {
            writeln!(seen, "step {number}: {error}").expect("memory");
            break;
        }
    }
    client.finish();
    origin.finish();
    for (name, end) in [("client", client), ("origin", origin)] {
        let sum = super::as_nginx::crc(&end.got);
        let length = end.got.len();
        writeln!(seen, "{name} got {length} bytes, {sum:x}, {}", end.how).expect("memory");
    }
    seen
}

fn take(
    step: &Step,
    random: &mut Random,
    client: &mut End,
    origin: &mut End,
    another: &dyn Fn() -> End,
) -> Result<(), String> {
    match *step {
        Step::Says(who, count, pieces) => {
            let bytes = random.bytes(count);
            let (from, to) = match who {
                Who::Client => (client, origin),
                Who::Origin => (origin, client),
            };
            thread::scope(|scope| {
                scope.spawn(|| from.send(&bytes, pieces));
                to.receive(count)
            })
        }
        Step::Both(up, down) => {
            let (up, down) = (random.bytes(up), random.bytes(down));
            let sockets = (client.socket.as_ref(), origin.socket.as_ref());
            let (Some(one), Some(other)) = sockets else {
                return Ok(());
            };
            let (mut at_origin, mut at_client) = (vec![0; up.len()], vec![0; down.len()]);
            let results = thread::scope(|scope| {
                scope.spawn(|| (&*one).write_all(&up));
                scope.spawn(|| (&*other).write_all(&down));
                let (mut reading, into) = (other, &mut at_origin);
                let receiving = scope.spawn(move || reading.read_exact(into));
                let mut reading = one;
                let result = reading.read_exact(&mut at_client);
                (result, receiving.join().expect("no panic"))
            });
            client.got.extend(at_client);
            origin.got.extend(at_origin);
            match results {
                (Ok(()), Ok(())) => Ok(()),
                other => Err(format!("both: {other:?}")),
            }
        }
        Step::Ends(who) | Step::Resets(who) => {
            let (from, to) = match who {
                Who::Client => (client, origin),
                Who::Origin => (origin, client),
            };
            match (step, &from.socket) {
                (Step::Resets(_), _) => from.reset(),
                (_, Some(socket)) => {
                    let _ = socket.shutdown(Shutdown::Write);
                }
                (_, None) => {}
            }
            to.finish();
            Ok(())
        }
        Step::Another => {
            let mut another = another();
            another.finish();
            match another.got.is_empty() {
                true => Ok(()),
                false => Err(format!("another: {:?}", another.got)),
            }
        }
    }
}

/// The PROXY header, without what differs: ports, and the checksum over them.
fn read_header(origin: &mut End) -> String {
    let mut read = |count: usize| {
        let before = origin.got.len();
        let result = origin.receive(count);
        let bytes = origin.got.split_off(before);
        result.map(|()| bytes)
    };
    let all = (|| {
        let mut bytes = read(16)?;
        if bytes.starts_with(b"\r\n") {
            let more = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
            bytes.extend(read(more)?);
            return Ok(bytes);
        }
        while !bytes.ends_with(b"\n") {
            bytes.extend(read(1)?);
        }
        Ok(bytes)
    })();
    match all {
        Err(error) => {
            let error: String = error;
            format!("header: {error}")
        }
        Ok(bytes) if bytes.starts_with(b"PROXY") => {
            let text = String::from_utf8_lossy(&bytes);
            let words: Vec<&str> = text.split(' ').take(4).collect();
            words.join(" ")
        }
        Ok(mut bytes) => {
            let ports = match bytes[13] >> 4 {
                1 => 24..28,
                2 => 48..52,
                _ => 0..0,
            };
            let end = ports.end;
            bytes[ports].fill(0);
            // The first TLV behind them may be a checksum.
            if bytes.get(end) == Some(&3) {
                bytes[end + 3..end + 7].fill(0);
            }
            bytes.escape_ascii().to_string()
        }
    }
}
