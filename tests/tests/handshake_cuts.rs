//! Clients that go away in the middle of a handshake, at any byte of it, leave nothing behind: no
//! descriptor, no memory, no place in a queue.
//!
//! The bytes are a real client's, driven by hand so that it can stop anywhere: within its hello,
//! while the server computes, in the server's flight, between flights, within its own last
//! one. Some close, some reset, some close one half and wait for the answer, some
//! say nothing for a while.

use sealane_awslc::{
    CertificateChain, ClientConnection, ClientContext, HandshakeStatus, ProtocolVersion,
    ReadStatus, Session, group_by_name,
};
use sealane_tests::random::Random;
use sealane_tests::{PATIENCE, Server, Site, scale, wait_for};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients at a time. Each has up to [`MAX_SILENT`] connections more that say nothing.
const CLIENTS: usize = 96;
const MAX_SILENT: usize = 3;

/// What the memory of the worker may grow by, however many connections are cut. The heap alone
/// comes and goes by 1 to 2 MB. libssl keeps some 5 KB for a handshake: if every cut connection
/// lost that, 5,000 would lose 17 MB; of 100,000 one in fifty is too much.
const MAX_GROWTH_KB: u64 = 6 << 10;

/// Where flights are computed, by the name of the listener's port. The last gives
/// everybody up after a moment, wherever the handshake is.
const LISTENERS: [(&str, &str); 4] = [
    ("pool", "ssl_async on; ssl_accelerator auto;"),
    ("auto", "ssl_async auto; ssl_accelerator auto;"),
    ("worker", "ssl_async off; ssl_accelerator auto;"),
    ("hurried", "ssl_async on; ssl_handshake_timeout 5ms;"),
];

/// Server names, with their keys in openssl's words.
const KEYS: [(&str, &str); 3] = [
    ("rsa2048", "rsa:2048"),
    ("rsa4096", "rsa:4096"),
    ("p256", "ec -pkeyopt ec_paramgen_curve:prime256v1"),
];

/// How often each name is called: the expensive key less, so that the test ends in time.
const NAMES: [&str; 5] = ["rsa2048", "p256", "rsa2048", "p256", "rsa4096"];

fn site() -> Site {
    Site::with_keys(&KEYS)
}

fn serve(site: &Site) -> Server<'_> {
    // Room for those who are connected at a time and not for many more: places that
    // get lost are missed. The curves make a client whose first guess is another try twice.
    let mut http = String::from(
        "ssl_async_threads 2; ssl_session_cache shared:cuts:256k; ssl_ecdh_curve X25519:prime256v1;
         ssl_ciphers HIGH:AES128-GCM-SHA256;\n",
    );
    for (port, directives) in LISTENERS {
        for (name, _) in KEYS {
            http.push_str(&format!(
                "server {{ listen 127.0.0.1:%{port}% ssl; server_name {name}; {directives}
                    ssl_certificate certificates/{name}.pem;
                    ssl_certificate_key certificates/{name}.key;
                    location / {{ return 200 \"I am $ssl_server_name\"; }} }}\n"
            ));
        }
    }
    site.serve_with("", "worker_connections 1024;", &http)
}

/// Where a client stops. Flights are its own: the first is the ClientHello.
#[derive(Clone, Copy, Debug)]
enum Point {
    Connected,
    /// Within a flight.
    Sending(usize),
    /// The server has all it needs to go on.
    Sent(usize),
    /// Within what the server answers to a flight, or right behind it.
    Answered(usize),
    Done,
}

/// How far a client came: the numbers show that a run has been everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Connected,
    PartOfHello,
    Hello,
    Answer,
    PartOfLaterFlight,
    LaterFlight,
    LaterAnswer,
    Done,
    /// The server ended it first, as the hurried one does if it is not fast enough.
    Ended,
}

const REACHED: [Reached; 9] = [
    Reached::Connected,
    Reached::PartOfHello,
    Reached::Hello,
    Reached::Answer,
    Reached::PartOfLaterFlight,
    Reached::LaterFlight,
    Reached::LaterAnswer,
    Reached::Done,
    Reached::Ended,
];

/// Every kind of handshake that clients ask for.
struct Kinds {
    tls13: ClientContext,
    /// Guesses a group that the server does not have: HelloRetryRequest.
    tls13_twice: ClientContext,
    tls12: ClientContext,
    /// The key decrypts, in the client's last flight, instead of signing in the server's first.
    static_rsa: ClientContext,
    /// To resume, by name. Nobody cares that they are used more than once.
    sessions: Vec<(&'static str, Session)>,
}

impl Kinds {
    fn new(authority: &str) -> Kinds {
        let kind = |version, ciphers: &str, groups: &[&str]| {
            let mut builder = ClientContext::builder().expect("a context");
            builder.set_protocol_range(version, version).expect("known");
            if !ciphers.is_empty() {
                builder.set_cipher_list(ciphers).expect("known suites");
            }
            let groups: Vec<_> = groups
                .iter()
                .map(|name| group_by_name(name).expect("the library has it"))
                .collect();
            builder.set_groups(&groups).expect("known groups");
            let roots = CertificateChain::from_pem(authority.as_bytes()).expect("a certificate");
            builder.add_trusted(&roots).expect("a root");
            builder.set_verify(sealane_awslc::Verify::Required);
            builder.build().expect("a context")
        };
        Kinds {
            tls13: kind(ProtocolVersion::Tls13, "", &["X25519"]),
            tls13_twice: kind(ProtocolVersion::Tls13, "", &["P-384", "X25519"]),
            tls12: kind(ProtocolVersion::Tls12, "ECDHE+AESGCM", &["X25519", "P-256"]),
            static_rsa: kind(ProtocolVersion::Tls12, "AES128-GCM-SHA256", &["X25519"]),
            sessions: Vec::new(),
        }
    }

    /// Every kind with every key, in full, and sessions for later.
    fn everything_works(&mut self, server: &Server<'_>) {
        let mut sessions = Vec::new();
        for (listener, _) in LISTENERS.into_iter().filter(|(name, _)| *name != "hurried") {
            for (name, _) in KEYS {
                for context in [&self.tls13, &self.tls13_twice, &self.tls12] {
                    let session = ask(context, server.port(listener), name);
                    sessions.push((name, session.expect("sessions are given to all")));
                }
                if name != "p256" {
                    ask(&self.static_rsa, server.port(listener), name);
                }
            }
        }
        self.sessions = sessions;
    }

    fn client(&self, random: &mut Random) -> ClientConnection {
        let mut name = *random.choose(&NAMES);
        let context = match random.below(8) {
            0..3 => &self.tls13,
            3 => &self.tls13_twice,
            4..6 => &self.tls12,
            _ => {
                if name == "p256" {
                    name = "rsa2048";
                }
                &self.static_rsa
            }
        };
        let mut client = ClientConnection::new(context, Some(name)).expect("a client");
        if random.below(4) == 0 {
            // Some are of another version or server, which leads to a full handshake.
            let (_, session) = random.choose(&self.sessions);
            client.set_session(session).expect("before the handshake");
        }
        client
    }
}

/// A whole exchange over a new connection, verified by the client. Returns the last
/// session that the server gave.
#[track_caller]
fn ask(context: &ClientContext, port: u16, name: &str) -> Option<Session> {
    let mut client = ClientConnection::new(context, Some(name)).expect("a client");
    let mut socket = connect(port);
    let (mut input, mut output, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_asked = false;
    loop {
        let mut rest = &input[..];
        if !is_asked {
            let status = client.handshake(&mut rest, &mut output).expect(name);
            if status == HandshakeStatus::Done {
                let request =
                    format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
                client.write(request.as_bytes(), &mut output).expect(name);
                is_asked = true;
            }
        }
        if is_asked && read(&mut client, &mut rest, &mut output, &mut plain) {
            let text = String::from_utf8_lossy(&plain);
            assert!(text.ends_with(&format!("I am {name}")), "{text}");
            return client.take_session();
        }
        let left = rest.len();
        input.drain(..input.len() - left);
        socket.write_all(&output).expect("the server reads");
        output.clear();
        let mut chunk = [0; 4096];
        let bytes = socket.read(&mut chunk).expect("the server answers");
        assert!(bytes > 0, "{name}: closed");
        input.extend_from_slice(&chunk[..bytes]);
    }
}

/// Opens what has come. Returns whether the server has said that it closes.
fn read(
    client: &mut ClientConnection,
    input: &mut &[u8],
    output: &mut Vec<u8>,
    plain: &mut Vec<u8>,
) -> bool {
    let mut chunk = [0; 4096];
    loop {
        let status = client.read(input, output, &mut chunk);
        match status.expect("records that can be opened") {
            ReadStatus::Data(bytes) => plain.extend_from_slice(&chunk[..bytes]),
            ReadStatus::WantRead => return false,
            ReadStatus::CloseNotify => return true,
        }
    }
}

fn connect(port: u16) -> TcpStream {
    // A run of many connections may have to wait for a port of its own.
    let socket = wait_for("a connection", || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()
    });
    socket.set_nodelay(true).expect("TCP has it");
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("the time-out is not zero");
    socket
}

/// Begins a handshake on `socket` and stops at `point`, or earlier if the server ends it.
fn begin(
    client: &mut ClientConnection,
    socket: &mut TcpStream,
    point: Point,
    random: &mut Random,
) -> std::io::Result<Reached> {
    if matches!(point, Point::Connected) {
        return Ok(Reached::Connected);
    }
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut chunk = vec![0; 1 + random.below(6000)];
    let mut sent = 0;
    loop {
        let mut rest = &input[..];
        let Ok(status) = client.handshake(&mut rest, &mut output) else {
            return Ok(Reached::Ended); // The server's alert.
        };
        let left = rest.len();
        input.drain(..input.len() - left);
        if !output.is_empty() {
            let is_hello = sent == 0;
            if matches!(point, Point::Sending(flight) if flight == sent) {
                send_in_pieces(socket, &output[..random.below(output.len())], random)?;
                return Ok(match is_hello {
                    true => Reached::PartOfHello,
                    false => Reached::PartOfLaterFlight,
                });
            }
            send_in_pieces(socket, &output, random)?;
            output.clear();
            if matches!(point, Point::Sent(flight) if flight == sent) {
                return Ok(match is_hello {
                    true => Reached::Hello,
                    false => Reached::LaterFlight,
                });
            }
            sent += 1;
        }
        if status == HandshakeStatus::Done {
            let request = b"GET / HTTP/1.1\r\n";
            client.write(request, &mut output).expect("it is done");
            socket.write_all(&output)?;
            return Ok(Reached::Done);
        }
        let bytes = socket.read(&mut chunk)?;
        if bytes == 0 {
            return Ok(Reached::Ended);
        }
        if matches!(point, Point::Answered(flight) if flight + 1 == sent) && random.below(2) == 0 {
            return Ok(match sent {
                1 => Reached::Answer,
                _ => Reached::LaterAnswer,
            });
        }
        input.extend_from_slice(&chunk[..bytes]);
    }
}

/// As a rule in one piece.
fn send_in_pieces(
    socket: &mut TcpStream,
    bytes: &[u8],
    random: &mut Random,
) -> std::io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() && random.below(3) == 0 {
        let (piece, others) = rest.split_at(random.below(rest.len() + 1));
        socket.write_all(piece)?;
        rest = others;
    }
    socket.write_all(rest)
}

/// Ends a connection in one of four ways.
fn end(mut socket: TcpStream, silent: &mut VecDeque<TcpStream>, random: &mut Random) {
    match random.below(4) {
        // With answers unread the kernel makes a reset of it.
        0 => drop(socket),
        1 => {
            let linger = sealane_sys::socket::set_linger(socket.as_fd(), Some(Duration::ZERO));
            linger.expect("any TCP socket has it");
        }
        2 => {
            if socket.shutdown(Shutdown::Write).is_err() {
                return; // The server was faster.
            }
            let mut rest = Vec::new();
            let end = socket.read_to_end(&mut rest);
            let waited = end.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            assert!(!waited, "the server keeps what a client has closed");
        }
        _ => {
            silent.push_back(socket);
            if silent.len() > MAX_SILENT {
                silent.pop_front();
            }
        }
    }
}

/// Cuts `count` connections, [`CLIENTS`] at a time. Returns how far they came, in the order of
/// [`REACHED`].
fn cut(kinds: &Kinds, server: &Server<'_>, count: usize, seed: u64) -> Vec<usize> {
    let begun = AtomicUsize::new(0);
    let reached: Vec<AtomicUsize> = REACHED.iter().map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (begun, reached) = (&begun, &reached);
            scope.spawn(move || {
                let mut random = Random::new(seed << 32 | number as u64);
                let mut silent = VecDeque::new();
                while begun.fetch_add(1, Ordering::Relaxed) < count {
                    let (listener, _) = random.choose(&LISTENERS);
                    let point = match random.below(16) {
                        0 => Point::Connected,
                        1..3 => Point::Sending(0),
                        3..6 => Point::Sent(0),
                        6..9 => Point::Answered(0),
                        9..11 => Point::Sending(1),
                        11..13 => Point::Sent(1),
                        13 => Point::Answered(1),
                        14 => Point::Sent(2),
                        _ => Point::Done,
                    };
                    let mut socket = connect(server.port(listener));
                    let mut client = kinds.client(&mut random);
                    // An error: the server was faster.
                    let far = begin(&mut client, &mut socket, point, &mut random);
                    let far = far.unwrap_or_else(|error| {
                        assert_ne!(error.kind(), ErrorKind::WouldBlock, "{point:?}: no answer");
                        Reached::Ended
                    });
                    let index = REACHED.iter().position(|known| *known == far);
                    reached[index.expect("all are listed")].fetch_add(1, Ordering::Relaxed);
                    end(socket, &mut silent, &mut random);
                }
            });
        }
    });
    reached.into_iter().map(AtomicUsize::into_inner).collect()
}

/// What a worker process holds.
struct Worker(u32);

impl Worker {
    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.0)).map_or(0, Iterator::count)
    }

    /// Those of a worker that has nothing to do: the last connection may be on its way out.
    fn idle_descriptors(&self) -> usize {
        let looks = (0..20).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            self.descriptors()
        });
        looks.min().expect("there are some")
    }

    /// Waits until there are no more descriptors than `before`.
    #[track_caller]
    fn settle(&self, before: usize) {
        wait_for("all descriptors to be closed", || {
            (self.descriptors() <= before).then_some(())
        });
    }

    /// Memory that is no file's.
    fn memory_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0));
        let status = status.expect("the worker runs");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
        number.and_then(|text| text.parse().ok()).expect("a number")
    }
}

#[test]
fn connections_cut_anywhere_in_the_handshake_leave_nothing_behind() {
    let site = site();
    let server = serve(&site);
    // The hurried ones, on a machine that has other things to do.
    server.expect_alert("because they waited too long (ssl_handshake_timeout)");
    let authority = std::fs::read_to_string(site.authority()).expect("there is one");
    let mut kinds = Kinds::new(&authority);
    kinds.everything_works(&server);
    let worker = Worker(server.worker_pid());
    let descriptors = worker.idle_descriptors();

    // Caches fill, queues and the heap grow to what so many clients need.
    let count = scale(5_000, 100_000);
    cut(&kinds, &server, count.min(10_000) / 2, 1);
    worker.settle(descriptors);
    let before_kb = worker.memory_kb();

    let started = Instant::now();
    let reached = cut(&kinds, &server, count, 2);
    let took = started.elapsed();
    worker.settle(descriptors);
    let after_kb = worker.memory_kb();
    eprintln!(
        "{count} connections in {took:.1?}, {:?}; memory {before_kb} -> {after_kb} kB, descriptors {descriptors} -> {}",
        REACHED.iter().zip(&reached).collect::<Vec<_>>(),
        worker.descriptors(),
    );

    assert_eq!(reached.iter().sum::<usize>(), count);
    for (point, number) in REACHED.iter().zip(&reached) {
        let is_certain = *point != Reached::Ended;
        assert!(
            *number > 0 || !is_certain,
            "no client was cut at {point:?}: {reached:?}"
        );
    }
    assert!(
        after_kb < before_kb + MAX_GROWTH_KB,
        "{count} cut connections left memory behind: {before_kb} kB before, {after_kb} kB after"
    );
    kinds.everything_works(&server);
    let log = server.error_log();
    for sign in [
        "panicked",
        "were waiting (ssl_handshake_queue)",
        "worker_connections are not enough",
    ] {
        let line = log.lines().find(|line| line.contains(sign));
        assert_eq!(line, None, "in the error log");
    }
}
