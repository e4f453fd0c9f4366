//! Connections over a real socket: what only the whole task can show.

use super::*;

use crate::acceptor;
use crate::handover::{
    BadMessage, Description, InFlightGuard, KeepAlive, MovedConnection, channel,
};
use crate::snapshot::{ListenerId, Snapshot};
use crate::testing::Site;
use sealane_tls::{Acceptor, SelectServer, Selected};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// The first bytes of a ClientHello that is complete in one record: version,
/// random, no session, one suite, no compression, the extension `server_name`.
fn client_hello() -> Vec<u8> {
    let name = b"panic.test";
    let mut sni = vec![0, 0, 0, 0, 0, 0, 0, 0, 0];
    let len = name.len() as u8;
    sni[3] = len + 5; // extension length
    sni[5] = len + 3; // list length
    sni[8] = len;
    sni.extend_from_slice(name);
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0, 0, sni.len() as u8]);
    body.extend_from_slice(&sni);
    let mut message = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    message.extend_from_slice(&body);
    message
}

struct Panics;

impl SelectServer for Panics {
    fn select(&self, _name: Option<&str>) -> Selected {
        panic!("asked for a server");
    }
}

/// Accepts connections for a site on a thread of its own.
pub(crate) fn serve_on_thread(
    site: &Site,
    change: impl FnOnce(&mut Snapshot),
) -> (SocketAddr, Arc<Worker>) {
    let worker = site.another_worker(change);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("any socket can be");
    let address = listener.local_addr().expect("bound");
    let theirs = worker.clone();
    std::thread::spawn(move || {
        let runtime = sealane_io::runtime::Runtime::new();
        let runtime = runtime.expect("a runtime can be built");
        // Runs until the test process ends.
        runtime.block_on(async {
            let of_site = theirs
                .current
                .snapshot()
                .listener(ListenerId(0))
                .address
                .clone();
            let acceptor = acceptor::Acceptor::new(theirs, of_site, listener.into());
            let acceptor = acceptor.expect("the site has the listener");
            let (_never, stop) = tokio::sync::oneshot::channel();
            acceptor.accept_until(std::sync::Arc::default(), stop).await;
        });
    });
    (address, worker)
}

fn exchange(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("not zero");
    stream.write_all(request).expect("the server reads");
    let mut answer = Vec::new();
    // A reset after the panic is as good as an end.
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Waits until the worker has forgotten its connections; no level may count them any more.
pub(crate) fn settle(worker: &Worker) {
    let counters = &worker.counters;
    for _ in 0..2000 {
        if worker.registry.is_empty() && counters.active.get() == 0 {
            for level in [&counters.reading, &counters.writing, &counters.waiting] {
                assert_eq!(level.get(), 0);
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("connections were left: {}", worker.registry.len());
}

#[test]
fn a_panic_closes_its_connection_alone() {
    let site = Site::new("return 200 fine;");
    let (address, worker) = serve_on_thread(&site, |snapshot| {
        snapshot.listeners[0].acceptor = Some(Acceptor::new(Arc::new(Panics)));
    });
    // A connection that is open while the other one panics goes on afterwards.
    let mut bystander = TcpStream::connect(address).expect("it listens");
    bystander
        .write_all(b"GET / HTTP/1.1\r\n")
        .expect("the server reads");
    assert_eq!(exchange(address, &client_hello()), b"");
    bystander
        .write_all(b"Host: a\r\nConnection: close\r\n\r\n")
        .expect("the server reads");
    let mut answer = String::new();
    bystander.read_to_string(&mut answer).expect("an answer");
    // It is a plain request on what is configured as a TLS port.
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    settle(&worker);
    assert_eq!(worker.counters.panics.get(), 1);
    assert_eq!(worker.counters.handled.get(), 2);
}

#[test]
fn pipelined_requests_with_bodies_in_any_pieces() {
    let site = Site::new("location / { return 200 \"<$request_uri>\"; }");
    let (address, worker) = serve_on_thread(&site, |_| {});
    let requests = b"\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /\
        POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n\
        GET /d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for piece in [1, 2, 7, 40, requests.len()] {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        for part in requests.chunks(piece) {
            stream.write_all(part).expect("the server reads");
        }
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .expect("the server closes at the end");
        let bodies: Vec<_> = answer
            .split('<')
            .skip(1)
            .filter_map(|s| s.split('>').next())
            .collect();
        assert_eq!(bodies, ["/a", "/b", "/c", "/d"], "in pieces of {piece}");
    }
    settle(&worker);
}

#[test]
fn a_file_that_shrinks_ends_the_connection_with_a_reason() {
    for sendfile in ["on", "off"] {
        let site = Site::new(&format!("sendfile {sendfile}; sendfile_max_chunk 64k;"));
        let size = 64 << 20; // more than the buffers of both sockets take
        site.file("big", vec![b'x'; size]);
        let (address, worker) = serve_on_thread(&site, |_| {});
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream
            .write_all(b"GET /big HTTP/1.0\r\n\r\n")
            .expect("the server reads");
        let mut first = [0; 1000];
        stream.read_exact(&mut first).expect("the answer begins");
        let file = std::fs::File::options()
            .write(true)
            .open(site.root().join("big"));
        file.and_then(|f| f.set_len(1 << 20)).expect("our own file");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(first.len() + rest.len() < size, "sendfile {sendfile}");
        // Pages that sendfile has handed to the socket are the file's own: what
        // was cut off while it waited there may arrive as zeros.
        let zeros = sendfile == "on";
        let plausible = |byte: &u8| *byte == b'x' || (zeros && *byte == 0);
        assert!(rest.iter().all(plausible), "sendfile {sendfile}");
        settle(&worker);
        let log = site.error_log();
        assert!(
            log.contains("was truncated at byte"),
            "sendfile {sendfile}: {log}"
        );
    }
}

#[test]
fn tcp_nodelay_follows_the_location() {
    let site =
        Site::new("location /off { tcp_nodelay off; return 200; } location /on { return 200; }");
    let runtime = sealane_io::runtime::Runtime::new();
    runtime.expect("a runtime can be built").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        socket2::SockRef::from(&listener)
            .set_tcp_nodelay(true)
            .expect("a TCP socket");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).expect("it listens");
        let (stream, peer) = listener.accept().expect("a client is waiting");
        stream.set_nonblocking(true).expect("any socket can be");
        let socket = Socket::tcp(stream.into()).expect("a runtime is entered");
        let has_nodelay = |connection: &Connection| {
            let socket = socket2::SockRef::from(connection.facts.socket());
            socket.tcp_nodelay().expect("a TCP socket")
        };
        let worker = site.another_worker(|_| {});
        worker.counters.active.add(1); // as the acceptor does
        let peer = PeerAddress::Inet(peer);
        let facts = ConnectionFacts::new(1, peer, socket);
        let listener = ListenerRef {
            generation: 0,
            snapshot: worker.current.snapshot(),
            listener: ListenerId(0),
        };
        let mut connection = Connection::new(worker, listener, Arc::new(facts));
        assert!(
            has_nodelay(&connection),
            "inherited from the listening socket"
        );
        for (path, wanted) in [
            ("/on", true),
            ("/off", false),
            ("/off", false),
            ("/on", true),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            connection.buffer.extend_from_slice(request.as_bytes());
            assert_eq!(
                exchange_task::serve(&mut connection).await,
                After::KeepAlive
            );
            assert_eq!(has_nodelay(&connection), wanted, "{path}");
        }
        drop(client);
    });
}

#[test]
fn an_idle_connection_is_small() {
    fn future_bytes<A, B, C, D, F>(_: fn(A, B, C, D) -> F) -> usize {
        std::mem::size_of::<F>()
    }
    // What every open connection costs besides its socket and TLS. Whoever adds
    // to it should know: it is paid ten thousand times.
    let bytes = future_bytes(serve);
    assert!(bytes <= 640, "{bytes} bytes");
}

#[test]
fn a_chunk_that_is_too_large_is_refused_when_it_says_so() {
    let site = Site::new("client_max_body_size 10; location / { proxy_pass http://127.0.0.1:1; }");
    let (address, worker) = serve_on_thread(&site, |_| {});
    // Nothing of the second chunk has come but its length.
    let request = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                    4\r\nfour\r\n7\r\n";
    let answer = exchange(address, request);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    settle(&worker);
    let log = site.error_log();
    let words = "client intended to send too large chunked body: 4+7 bytes, client: ";
    assert!(log.contains(words), "{log}");
}

#[test]
fn a_client_that_dies_in_its_body_leaves_nothing_behind() {
    let site = Site::new(
        "client_body_temp_path DIR/tmp; client_max_body_size 0; \
         location / { proxy_pass http://127.0.0.1:1; }",
    );
    let directory = site.root().join("tmp");
    std::fs::create_dir(&directory).expect("the site is ours");
    let (address, worker) = serve_on_thread(&site, |_| {});
    let mut client = TcpStream::connect(address).expect("it listens");
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        .expect("the server reads");
    client
        .write_all(&vec![b'x'; 500_000])
        .expect("the server reads");
    let descriptors = || crate::temp_file::tests::descriptors_below(&directory);
    let wait_for = |count| {
        for _ in 0..2000 {
            if descriptors() == count {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{} descriptors instead of {count}", descriptors());
    };
    wait_for(1);
    drop(client);
    settle(&worker);
    wait_for(0);
    let left = std::fs::read_dir(&directory).expect("ours").count();
    assert_eq!(left, 0);
    let log = site.error_log();
    assert!(
        log.contains("client prematurely closed connection, client: "),
        "{log}"
    );
}

/// An origin that takes so many requests with the body `hello` and gives their heads.
fn origin(requests: usize) -> (u16, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let (heads, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let answer = |stream: &mut TcpStream| {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\nhello") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("the rest comes");
                request.push(byte[0]);
            }
            let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
            stream.write_all(answer).expect("it is waited for");
            String::from_utf8(request).expect("ASCII")
        };
        for _ in 0..requests {
            let (mut stream, _) = listener.accept().expect("a request comes");
            let head = answer(&mut stream);
            // Nobody listens when the test has failed.
            let _ = heads.send(head);
        }
    });
    (port, seen)
}

#[test]
fn a_mirror_gets_the_body_that_was_read_once() {
    for settings in ["", "client_body_in_file_only clean;"] {
        let (port, origin) = origin(2);
        let site = Site::new(&format!(
            "client_body_temp_path DIR/tmp; {settings} \
             location / {{ mirror /m; proxy_pass http://127.0.0.1:{port}; }} \
             location = /m {{ internal; proxy_pass http://127.0.0.1:{port}/copy; }}"
        ));
        std::fs::create_dir(site.root().join("tmp")).expect("the site is ours");
        let (address, worker) = serve_on_thread(&site, |_| {});
        let request = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
                        Connection: close\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        let answer = exchange(address, request);
        assert!(answer.starts_with(b"HTTP/1.1 204 "), "{settings}");
        let next = || {
            let head = origin.recv_timeout(Duration::from_secs(20));
            head.expect("two requests")
        };
        let mut heads = [next(), next()];
        heads.sort();
        assert!(heads[0].starts_with("POST /a "), "{heads:?}");
        assert!(heads[1].starts_with("POST /copy "), "{heads:?}");
        for head in heads {
            assert!(head.contains("\r\nContent-Length: 5\r\n"), "{head}");
        }
        settle(&worker);
    }
}

/// Sends a whole request, or the end of one, and reads the answer.
fn answer_to(stream: &mut TcpStream, request: &str) -> String {
    stream
        .write_all(request.as_bytes())
        .expect("the server reads");
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("the server answers");
        answer.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&answer).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    let length = length.expect("it is known").parse().expect("a number");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("the body is complete");
    head + &String::from_utf8_lossy(&body)
}

/// A client that has had an answer and has begun to ask again, and one that is idle.
fn busy_and_idle(address: SocketAddr, worker: &Worker) -> (TcpStream, TcpStream) {
    let [mut busy, mut idle] = [(); 2].map(|()| {
        let stream = TcpStream::connect(address).expect("it listens");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("not zero");
        stream
    });
    for stream in [&mut busy, &mut idle] {
        let answer = answer_to(stream, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.ends_with("\r\n\r\nold /1"), "{answer}");
    }
    busy.write_all(b"GET /2 HTTP/1.1\r\n")
        .expect("the server reads");
    let counters = &worker.counters;
    while (counters.reading.get(), counters.waiting.get()) != (1, 1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    (busy, idle)
}

#[test]
fn connections_take_another_configuration_between_two_requests() {
    let [old, new] = ["old", "new"].map(|word| {
        Site::new(&format!(
            "location / {{ return 200 \"{word} $request_uri\"; }}"
        ))
    });
    let (address, worker) = serve_on_thread(&old, |_| {});
    let (mut busy, mut idle) = busy_and_idle(address, &worker);
    worker.current.set(1, new.worker().current.snapshot());
    worker.registry.wake_idle();
    let answer = answer_to(&mut busy, "Host: a\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nold /2"), "{answer}");
    for stream in [&mut busy, &mut idle] {
        let answer = answer_to(stream, "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.ends_with("\r\n\r\nnew /3"), "{answer}");
        assert!(answer.contains("Connection: keep-alive"), "{answer}");
    }
    drop((busy, idle));
    settle(&worker);
}

#[test]
fn connections_whose_listener_is_gone_finish() {
    let old = Site::new("location / { return 200 \"old $request_uri\"; }");
    for other in [
        "listen 127.0.0.1:81;",
        "listen 127.0.0.1:80 proxy_protocol;",
    ] {
        let new = Site::with_http(&format!("server {{ {other} }}"));
        let (address, worker) = serve_on_thread(&old, |_| {});
        let (mut busy, mut idle) = busy_and_idle(address, &worker);
        worker.current.set(1, new.worker().current.snapshot());
        worker.registry.wake_idle();
        let mut rest = Vec::new();
        idle.read_to_end(&mut rest).expect("it is closed in order");
        assert_eq!(rest, b"", "{other}");
        let answer = answer_to(&mut busy, "Host: a\r\n\r\n");
        assert!(answer.contains("Connection: close"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nold /2"), "{answer}");
        busy.read_to_end(&mut rest).expect("it is closed in order");
        assert_eq!(rest, b"", "{other}");
        settle(&worker);
    }
}

/// Passes on what arrives.
struct Passing(
    tokio::sync::mpsc::UnboundedSender<MovedConnection>,
    Arc<Worker>,
);

impl channel::Adopter for Passing {
    fn has_room(&self, _count: usize) -> bool {
        true
    }

    fn take(&mut self, arrived: Result<MovedConnection, BadMessage>) {
        let moved = arrived.unwrap_or_else(|error| panic!("{error}"));
        let _ = self.0.send(moved);
    }

    fn in_flight(&self) -> InFlightGuard {
        self.1.process.in_flight.begin()
    }
}

/// A channel to another process; connections that come back are lost.
fn channel_to(out: std::os::fd::OwnedFd) -> channel::Channel {
    let events = channel::OutboundEvents {
        take_back: Box::new(drop),
        report: Box::new(|_| {}),
    };
    channel::Channel::open(out, events).expect("threads")
}

/// Goes on, on a thread of its own, with what arrives over a channel.
fn adopt_on_thread(site: &Site, line: std::os::fd::OwnedFd) -> Arc<Worker> {
    let worker = site.another_worker(|_| {});
    let (sender, mut moved_connections) = tokio::sync::mpsc::unbounded_channel();
    let mut host = Passing(sender, worker.clone());
    std::thread::spawn(move || {
        let (stop, _writer) = std::io::pipe().expect("a pipe");
        channel::receive(&line, stop.as_fd(), &mut host)
    });
    let adopting = worker.clone();
    std::thread::spawn(move || {
        let runtime = sealane_io::runtime::Runtime::new();
        // Runs until the test process ends.
        runtime.expect("a runtime can be built").block_on(async {
            while let Some(moved) = moved_connections.recv().await {
                sealane_io::runtime::spawn_with_handle(adopt(adopting.clone(), moved));
            }
            std::future::pending::<()>().await;
        });
    });
    worker
}

#[test]
fn connections_move_to_another_process_between_two_requests() {
    let [old, new] = ["old", "new"].map(|word| {
        Site::new(&format!(
            "location / {{ return 200 \"{word} $request_uri\"; }}
             location /count {{ return 200 \"new $connection_requests\"; }}"
        ))
    });
    let (address, worker) = serve_on_thread(&old, |_| {});
    let (mut busy, mut idle) = busy_and_idle(address, &worker);
    let (out, line) = sealane_sys::socket::seqpacket_pair().expect("a pair");
    let successor = adopt_on_thread(&new, line);
    worker.process.set_outbound_channel(channel_to(out));
    worker.registry.shut_down(Asked::Move);
    while worker.counters.waiting.get() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let answer = answer_to(&mut idle, "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nnew /3"), "{answer}");
    let answer = answer_to(&mut busy, "Host: a\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nold /2"), "{answer}");
    assert!(answer.contains("Connection: keep-alive"), "{answer}");
    let answer = answer_to(&mut busy, "GET /count HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nnew 3"), "{answer}");
    // Nobody is left behind, and the other process counts them as its own.
    settle(&worker);
    assert_eq!(successor.counters.active.get(), 2);
    drop((busy, idle));
    settle(&successor);
}

#[test]
fn connections_finish_here_when_the_other_process_is_gone() {
    let old = Site::new("location / { return 200 \"old $request_uri\"; }");
    let (address, worker) = serve_on_thread(&old, |_| {});
    let (mut busy, mut idle) = busy_and_idle(address, &worker);
    let (out, line) = sealane_sys::socket::seqpacket_pair().expect("a pair");
    drop(line);
    worker.process.set_outbound_channel(channel_to(out));
    worker.registry.shut_down(Asked::Move);
    while worker.process.outbound_channel().is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Neither is lost: each is answered once more, and told that this was the last time.
    let answer = answer_to(&mut idle, "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nold /3"), "{answer}");
    assert!(answer.contains("Connection: close"), "{answer}");
    let answer = answer_to(&mut busy, "Host: a\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nold /2"), "{answer}");
    let mut rest = Vec::new();
    busy.read_to_end(&mut rest).expect("it is closed in order");
    settle(&worker);
}

#[test]
fn a_connection_without_a_credit_is_served_meanwhile_and_moves_later() {
    let [old, new] = ["old", "new"].map(|word| {
        Site::new(&format!(
            "location / {{ return 200 \"{word} $request_uri\"; }}"
        ))
    });
    let (address, worker) = serve_on_thread(&old, |_| {});
    let (mut busy, mut idle) = busy_and_idle(address, &worker);
    let (out, line) = sealane_sys::socket::seqpacket_pair().expect("a pair");
    worker.process.set_outbound_channel(channel_to(out));
    worker.registry.shut_down(Asked::Move);
    let answer = answer_to(&mut busy, "Host: a\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nold /2"), "{answer}");
    for stream in [&mut busy, &mut idle] {
        for _ in 0..3 {
            let answer = answer_to(stream, "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(answer.ends_with("\r\n\r\nold /3"), "{answer}");
            assert!(answer.contains("Connection: keep-alive"), "{answer}");
        }
    }
    let successor = adopt_on_thread(&new, line);
    settle(&worker);
    for stream in [&mut busy, &mut idle] {
        let answer = answer_to(stream, "GET /4 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.ends_with("\r\n\r\nnew /4"), "{answer}");
    }
    drop((busy, idle));
    settle(&successor);
}

/// Sends what `change` makes of it a connection of `site` that waits for its next request.
fn arriving(site: &Site, keep_alive: KeepAlive, idle_ms: u64) -> (TcpStream, Arc<Worker>) {
    let (out, line) = sealane_sys::socket::seqpacket_pair().expect("a pair");
    let successor = adopt_on_thread(site, line);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let (theirs, peer) = listener.accept().expect("a client is waiting");
    theirs.set_nonblocking(true).expect("any socket can be");
    let description = site.block_on(async {
        let socket = Socket::tcp(theirs.try_clone().expect("a descriptor").into());
        let socket = socket.expect("it is a socket");
        let facts = ConnectionFacts::new(1, PeerAddress::Inet(peer), socket);
        facts.count_request();
        let listener = sealane_conf::model::ListenAddress::Inet(([127, 0, 0, 1], 80).into());
        Description::new(&facts, &listener, true, keep_alive, idle_ms)
    });
    let channel = channel_to(out);
    let credit = site.block_on(channel.credit()).expect("there is a credit");
    channel.send(
        credit,
        MovedConnection {
            description,
            tls: None,
            socket: theirs.into(),
            stays: false,
            in_flight: None,
        },
    );
    (client, successor)
}

#[test]
fn the_time_that_has_passed_before_a_move_counts() {
    // No connection waits for longer than the machine has been up.
    let up_ms = u32::try_from(sealane_sys::time::monotonic_coarse_ms()).unwrap_or(u32::MAX);
    let timeout_ms = 3_600_000.min(up_ms / 2);
    let site = Site::new("keepalive_timeout 1h; location / { return 200; }");
    let keep_alive = KeepAlive {
        timeout_ms,
        min_timeout_ms: 0,
    };
    // Nobody waits for that long again.
    let (mut late, worker) = arriving(&site, keep_alive, u64::from(timeout_ms) - 1);
    let mut rest = Vec::new();
    late.read_to_end(&mut rest).expect("it is closed in order");
    assert_eq!(rest, b"");
    settle(&worker);
    let (mut early, worker) = arriving(&site, keep_alive, u64::from(timeout_ms) / 2);
    let answer = answer_to(&mut early, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.contains("Connection: keep-alive"), "{answer}");
    drop(early);
    settle(&worker);
}

#[test]
fn keepalive_min_timeout_holds_at_shutdown() {
    for (directive, waits) in [
        ("", false),
        ("keepalive_min_timeout 1h;", true),
        // No longer than without shutdown.
        ("keepalive_min_timeout 1h; keepalive_timeout 500ms;", false),
        ("keepalive_min_timeout 100ms;", false),
    ] {
        let location = "location / { return 200 \"old $request_uri\"; }";
        let site = Site::new(&format!("{directive} {location}"));
        let (address, worker) = serve_on_thread(&site, |_| {});
        let (busy, mut idle) = busy_and_idle(address, &worker);
        worker.registry.shut_down(Asked::Finish);
        if waits {
            let answer = answer_to(&mut idle, "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(answer.ends_with("\r\n\r\nold /3"), "{answer}");
            assert!(answer.contains("Connection: close"), "{answer}");
        }
        let mut rest = Vec::new();
        idle.read_to_end(&mut rest).expect("it is closed in order");
        assert_eq!(rest, b"", "{directive}");
        drop(busy);
        settle(&worker);
    }
}
