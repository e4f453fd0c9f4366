use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const OPTIONS: BindOptions = BindOptions {
    backlog: 128,
    rcvbuf_bytes: None,
    sndbuf_bytes: None,
    deferred: false,
    ipv6only: true,
    keepalive: None,
    fastopen: None,
    multipath: false,
};

/// Asks until there is an answer. A program that another test starts at this moment has the
/// descriptors of this one until its exec: what was dropped is closed when that has happened.
#[track_caller]
fn once_closed<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it was closed a minute ago");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A connected pair of TCP sockets on the loopback: (client, server).
fn tcp_pair() -> (TcpStream, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, accept(listener.as_fd()).unwrap().fd)
}

/// Waits until something can be read.
fn wait(socket: &impl AsFd) {
    let ready = crate::poll::wait_readable(&[socket.as_fd()], Some(Duration::from_secs(10)));
    assert_eq!(ready.unwrap(), [true], "nothing arrived");
}

fn any_port() -> BindAddress {
    BindAddress::Inet("127.0.0.1:0".parse().unwrap())
}

/// An address on which nothing listens, and nobody will: a loopback address of
/// this process's own, while everybody else takes free ports of 127.0.0.1.
fn free_address() -> BindAddress {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let ip = std::net::Ipv4Addr::new(127, 64 | high, middle, low.max(1));
    let probe = TcpListener::bind((ip, 0)).unwrap();
    BindAddress::Inet(probe.local_addr().unwrap())
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("sealane-sys-{}-{name}", std::process::id()))
}

#[test]
fn accept_tells_the_peer_and_does_not_block() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(
            accept(listener.as_fd()).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        wait(&listener);
        let accepted = accept(listener.as_fd()).unwrap();
        assert_eq!(
            accepted.peer,
            PeerAddress::Inet(client.local_addr().unwrap())
        );
        let empty = recv(accepted.fd.as_fd(), &mut Vec::new(), 1).unwrap_err();
        assert_eq!(
            empty.kind(),
            io::ErrorKind::WouldBlock,
            "the socket is non-blocking"
        );
    }
}

#[test]
fn pieces_arrive_in_order_and_receiving_appends() {
    let (mut client, server) = tcp_pair();
    let pieces = [
        IoSlice::new(b"one "),
        IoSlice::new(b""),
        IoSlice::new(b"two "),
    ];
    assert_eq!(send_vectored(server.as_fd(), &pieces, true).unwrap(), 8);
    assert_eq!(send(server.as_fd(), b"three", false).unwrap(), 5);
    let mut text = [0; 13];
    client.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"one two three");

    client.write_all(b"answer").unwrap();
    wait(&server);
    let mut peeked = [0; 3];
    assert_eq!(peek(server.as_fd(), &mut peeked).unwrap(), 3);
    let mut buf = b"got: ".to_vec();
    assert_eq!(recv(server.as_fd(), &mut buf, 4).unwrap(), 4);
    assert_eq!(buf, b"got: answ");
    let mut rest = [0; 8];
    assert_eq!(recv_slice(server.as_fd(), &mut rest).unwrap(), 2);
    shutdown(client.as_fd(), Shutdown::Write).unwrap();
    wait(&server);
    assert_eq!(recv(server.as_fd(), &mut buf, 4).unwrap(), 0);
}

#[test]
fn more_pieces_than_the_kernel_takes_are_left_for_the_next_call() {
    let (mut client, server) = tcp_pair();
    let pieces = vec![IoSlice::new(b"x"); 1500];
    assert_eq!(send_vectored(server.as_fd(), &pieces, false).unwrap(), 1024);
    set_nodelay(server.as_fd(), true).unwrap(); // pushes what MSG_MORE held back
    let mut received = [0; 1024];
    client.read_exact(&mut received).unwrap();
}

#[test]
fn sending_to_a_closed_peer_is_an_error_and_no_signal() {
    let (client, server) = tcp_pair();
    set_linger(client.as_fd(), Some(Duration::ZERO)).unwrap();
    drop(client); // with a reset
    wait(&server);
    let kinds = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
    let error = (0..10)
        .find_map(|_| send(server.as_fd(), b"x", false).err())
        .unwrap();
    assert!(kinds.contains(&error.kind()), "{error}");
}

#[test]
fn tcp_info_knows_the_connection() {
    let (client, _server) = tcp_pair();
    let info = tcp_info(client.as_fd()).unwrap();
    assert!(info.snd_cwnd > 0 && info.rcv_space > 0, "{info:?}");
    let (unix, _) = UnixStream::pair().unwrap();
    assert!(tcp_info(unix.as_fd()).is_err());
}

#[test]
fn an_address_in_use_is_refused() {
    let first = bind_group(&any_port(), &OPTIONS, 1).unwrap();
    start_listening(first[0].as_fd(), &any_port(), &OPTIONS).unwrap();
    let taken = BindAddress::Inet(local_address(&first[0]).unwrap().unwrap());
    for count in [1, 3] {
        let error = bind_group(&taken, &OPTIONS, count).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}

#[test]
fn a_group_for_datagrams_gets_those_of_a_sender_at_one_socket() {
    let any = BindAddress::Datagram("127.0.0.1:0".parse().unwrap());
    let probe = bind_group(&any, &OPTIONS, 1).unwrap();
    let inet = local_address(&probe[0]).unwrap().unwrap();
    drop(probe);
    let address = BindAddress::Datagram(inet);
    // The probe that found the address may be open still.
    let group = once_closed(|| bind_group(&address, &OPTIONS, 3).ok());
    for count in [1, 3] {
        let error = bind_group(&address, &OPTIONS, count).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "no silent sharing");
    }
    let clients = (0..64).map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    let clients: Vec<_> = clients.collect();
    for _ in 0..3 {
        for client in &clients {
            client.send_to(b"x", inet).unwrap();
        }
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut seen: Vec<(usize, u16)> = Vec::new();
    let mut batch = ReceivedBatch::new();
    while seen.len() < 3 * clients.len() {
        for (index, socket) in group.iter().enumerate() {
            if batch.receive(socket.as_fd(), BATCH_MESSAGES).is_ok() {
                let ports = batch
                    .messages()
                    .map(|message| message.source.unwrap().port());
                seen.extend(ports.map(|port| (index, port)));
            }
        }
        assert!(Instant::now() < deadline, "{} have arrived", seen.len());
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), clients.len(), "each at one socket");
    // All at one socket would be a chance of 3^-63.
    assert!(seen.iter().any(|(index, _)| *index != seen[0].0));
}

#[test]
fn a_group_shares_an_address_but_not_with_a_second_group() {
    let address = free_address();
    // The probe that found the address may be open still.
    let group = once_closed(|| bind_group(&address, &OPTIONS, 3).ok());
    for socket in &group {
        assert!(
            start_listening(socket.as_fd(), &address, &OPTIONS)
                .unwrap()
                .is_empty()
        );
    }
    for count in [1, 3] {
        let error = bind_group(&address, &OPTIONS, count).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "no silent sharing");
    }
    // The kernel spreads connections over the group: with 64 of them, all on
    // one socket would be a chance of 3^-63.
    let BindAddress::Inet(inet) = address else {
        unreachable!()
    };
    let _clients: Vec<_> = (0..64).map(|_| TcpStream::connect(inet).unwrap()).collect();
    let queued = |socket: &OwnedFd| std::iter::from_fn(|| accept(socket.as_fd()).ok()).count();
    let per_socket: Vec<usize> = group.iter().map(queued).collect();
    assert!(
        per_socket.iter().filter(|&&count| count > 0).count() > 1,
        "{per_socket:?}"
    );
}

#[test]
fn listening_sockets_take_every_option() {
    let options = BindOptions {
        rcvbuf_bytes: Some(64 << 10),
        sndbuf_bytes: Some(64 << 10),
        deferred: true,
        keepalive: Some(Keepalive {
            on: true,
            idle: Some(Duration::from_secs(30)),
            interval: Some(Duration::from_secs(5)),
            count: Some(3),
        }),
        fastopen: Some(16),
        ..OPTIONS
    };
    let address = BindAddress::Inet("[::1]:0".parse().unwrap());
    let socket = bind_group(&address, &options, 1).unwrap().remove(0);
    let failed = start_listening(socket.as_fd(), &address, &options).unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    let sock = socket2::SockRef::from(&socket);
    assert!(sock.tcp_nodelay().unwrap());
    assert!(sock.keepalive().unwrap() && sock.only_v6().unwrap());
    assert_eq!(sock.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
    assert_eq!(sock.tcp_keepalive_retries().unwrap(), 3);
    // The kernel doubles what was asked for.
    assert_eq!(sock.recv_buffer_size().unwrap(), 128 << 10);
}

#[test]
fn listening_sockets_speak_multipath_tcp_if_the_kernel_does() {
    let options = BindOptions {
        multipath: true,
        ..OPTIONS
    };
    let address = BindAddress::Inet("127.0.0.1:0".parse().unwrap());
    let sockets = match bind_group(&address, &options, 2) {
        Ok(sockets) => sockets,
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return,
        Err(error) => panic!("{error}"),
    };
    for socket in &sockets {
        let failed = start_listening(socket.as_fd(), &address, &options).unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        let protocol = socket2::SockRef::from(socket).protocol().unwrap();
        assert_eq!(protocol, Some(socket2::Protocol::MPTCP));
    }
}

#[test]
fn a_unix_socket_is_stale_only_when_nobody_listens() {
    let path = temporary("stale.sock");
    let address = BindAddress::Unix(path.clone());
    let socket = bind_group(&address, &OPTIONS, 4).unwrap();
    assert_eq!(socket.len(), 1, "reuseport means nothing to a unix socket");
    start_listening(socket[0].as_fd(), &address, &OPTIONS).unwrap();
    let is_stale = || {
        let guard = crate::guard::Guard::default();
        let held = guard.find_name(&path).unwrap().hold().unwrap();
        is_stale_unix_socket(held.as_fd()).unwrap()
    };
    assert!(!is_stale());
    let client = UnixStream::connect(&path).unwrap();
    wait(&socket[0]);
    // The question above has connected, too.
    let peers: Vec<_> = std::iter::from_fn(|| accept(socket[0].as_fd()).ok()).collect();
    assert!(
        peers
            .iter()
            .all(|accepted| accepted.peer == PeerAddress::Unix)
            && !peers.is_empty()
    );
    drop((socket, client));
    once_closed(|| is_stale().then_some(()));
    let other = temporary("stale.link");
    std::fs::hard_link(&path, &other).unwrap();
    assert!(!is_stale(), "it is somebody's under another name");
    std::fs::remove_file(&other).unwrap();
    std::fs::remove_file(&path).unwrap();

    std::fs::write(&path, "an ordinary file").unwrap();
    assert!(!is_stale(), "never to be removed");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn descriptors_travel_with_their_message() {
    let (a, b) = seqpacket_pair().unwrap();
    let (mut outside, inside) = UnixStream::pair().unwrap();
    send_fds(a.as_fd(), b"first", &[inside.as_fd(), inside.as_fd()]).unwrap();
    send_fds(a.as_fd(), b"second", &[]).unwrap();
    drop(inside);
    let mut buf = [0; 16];
    let first = receive_fds(b.as_fd(), &mut buf).unwrap();
    assert_eq!((&buf[..first.len], first.fds.len()), (&b"first"[..], 2));
    UnixStream::from(first.fds.into_iter().next().unwrap())
        .write_all(b"hello")
        .unwrap();
    let mut text = [0; 5];
    outside.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"hello");
    let second = receive_fds(b.as_fd(), &mut buf).unwrap();
    assert_eq!((&buf[..second.len], second.fds.len()), (&b"second"[..], 0));
    assert_eq!(
        receive_fds(b.as_fd(), &mut buf).unwrap_err().kind(),
        io::ErrorKind::WouldBlock,
        "an empty queue is not the end"
    );
    drop(a);
    let end = once_closed(|| match receive_fds(b.as_fd(), &mut buf) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        received => Some(received.unwrap()),
    });
    assert_eq!(end.len, 0);
}

#[test]
fn a_message_takes_as_many_descriptors_as_promised_and_no_more() {
    let (a, b) = seqpacket_pair().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let fds = vec![null.as_fd(); MAX_PASSED_FDS + 1];
    assert!(send_fds(a.as_fd(), b"x", &fds).is_err());
    assert!(
        send_fds(a.as_fd(), b"", &[]).is_err(),
        "it would look like the end"
    );
    send_fds(a.as_fd(), b"x", &fds[..MAX_PASSED_FDS]).unwrap();
    let received = receive_fds(b.as_fd(), &mut [0; 4]).unwrap();
    assert_eq!(received.fds.len(), MAX_PASSED_FDS);
}

#[test]
fn a_message_longer_than_the_buffer_is_an_error_and_leaks_nothing() {
    let (a, b) = seqpacket_pair().unwrap();
    let (mut outside, inside) = UnixStream::pair().unwrap();
    send_fds(a.as_fd(), b"too long", &[inside.as_fd()]).unwrap();
    drop(inside);
    let error = receive_fds(b.as_fd(), &mut [0; 4]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(
        outside.read(&mut [0]).unwrap(),
        0,
        "the passed descriptor was closed"
    );
}

#[test]
fn small_buffers_fill_up_and_become_writable_again() {
    use crate::poll::{self, Interest};
    let (client, server) = tcp_pair();
    set_buffers(client.as_fd(), 8192, 8192).unwrap();
    client.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let full = loop {
        match send(client.as_fd(), &[7; 65536], false) {
            Ok(n) => sent += n,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    let wanted = [
        (client.as_fd(), Interest::Writable),
        (server.as_fd(), Interest::Readable),
    ];
    let ready = poll::wait(&wanted, Some(Duration::from_secs(10))).unwrap();
    assert!(ready[1], "the other end has bytes to read");
    let mut received = Vec::new();
    while received.len() < sent {
        wait(&server);
        recv(server.as_fd(), &mut received, 65536).unwrap();
    }
    let ready = poll::wait(&wanted[..1], Some(Duration::from_secs(10))).unwrap();
    assert_eq!(ready, [true], "room again");
}

#[test]
fn unsent_bytes_take_memory_until_they_are_read() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback");
    let sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
    let (mut receiver, _) = listener.accept().expect("a connection");
    sender.set_nonblocking(true).expect("a socket");
    assert_eq!(send_memory(sender.as_fd()).expect("a socket").queued, 0);
    let mut sent = 0;
    while let Ok(count) = send(sender.as_fd(), &[7; 65_536], false) {
        sent += count;
    }
    let full = send_memory(sender.as_fd()).expect("a socket");
    assert!(full.queued > 0 && full.limit > 0, "{full:?}");
    let mut buffer = vec![0; sent];
    std::io::Read::read_exact(&mut receiver, &mut buffer).expect("all of it");
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while send_memory(sender.as_fd()).expect("a socket").queued > 0 {
        assert!(std::time::Instant::now() < deadline, "never acknowledged");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn descriptors_of_who_is_not_trusted_never_take_long_to_close() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback");
    let tcp = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
    let linger = || socket2::SockRef::from(&tcp).linger().expect("a socket");
    let (ours, theirs) = seqpacket_pair().expect("a pair");
    let send = |bytes: usize| {
        set_linger(tcp.as_fd(), Some(Duration::from_secs(3600))).expect("a socket");
        send_fds(theirs.as_fd(), &vec![1; bytes], &[tcp.as_fd()]).expect("sent");
    };
    let mut room = [0; 8];
    send(1);
    let received = receive_fds(ours.as_fd(), &mut room).expect("received");
    assert_eq!(received.fds.len(), 1);
    discard_fds(received.fds);
    assert_eq!(linger(), None);
    send(100);
    assert!(receive_fds(ours.as_fd(), &mut room).is_err(), "too long");
    assert_eq!(linger(), None);
    send(1);
    send(100);
    set_linger(tcp.as_fd(), Some(Duration::from_secs(3600))).expect("a socket");
    drop(theirs);
    close_line(ours);
    assert_eq!(linger(), None, "what nobody has read");
}
