mod packets;

use super::*;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A socket of any port at this address.
fn bound(address: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// A datagram, and who has sent it.
type Received = (Vec<u8>, Option<SocketAddr>);

/// Receives until so many datagrams have arrived. Returns them with the number of messages.
fn receive(socket: &UdpSocket, count: usize) -> (Vec<Received>, usize) {
    receive_by(socket, count, BATCH_MESSAGES)
}

/// The same with so many messages in a call.
fn receive_by(socket: &UdpSocket, count: usize, max: usize) -> (Vec<Received>, usize) {
    let mut batch = ReceivedBatch::new();
    let (mut all, mut messages) = (Vec::new(), 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    while all.len() < count {
        match batch.receive(socket.as_fd(), max) {
            Ok(received) => {
                assert!((1..=max).contains(&received));
                messages += received;
                for message in batch.messages() {
                    assert!(!message.is_truncated);
                    all.extend(message.datagrams().map(|d| (d.to_vec(), message.source)));
                }
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        assert!(Instant::now() < deadline, "{} of {count}", all.len());
    }
    (all, messages)
}

fn message(bytes: &[u8], to: SocketAddr) -> MessageToSend<'_> {
    MessageToSend {
        bytes,
        segment_bytes: usize::MAX,
        to: Some(to),
        from: None,
        ecn: Ecn::NotEct,
    }
}

#[test]
fn many_datagrams_pass_in_one_call() {
    let (server, to) = bound("127.0.0.1");
    let (client, from) = bound("127.0.0.1");
    let sent: Vec<Vec<u8>> = (0..40).map(|n| vec![n; usize::from(n) * 10]).collect();
    let messages: Vec<_> = sent.iter().map(|bytes| message(bytes, to)).collect();
    let mut done = 0;
    while done < messages.len() {
        let count = send_datagrams(client.as_fd(), &messages[done..]).unwrap();
        assert!((1..=BATCH_MESSAGES).contains(&count));
        done += count;
    }
    let (received, _) = receive(&server, sent.len());
    for ((bytes, source), expected) in received.iter().zip(&sent) {
        assert_eq!((bytes, *source), (expected, Some(from)));
    }
}

#[test]
fn the_longest_datagram_and_the_empty_one_arrive() {
    let (server, to) = bound("127.0.0.1");
    let (client, _) = bound("127.0.0.1");
    let longest = vec![b'x'; 65_507];
    let messages = [message(&longest, to), message(&[], to), message(b"x", to)];
    for at_a_time in [1, 3] {
        for some in messages.chunks(at_a_time) {
            assert_eq!(
                send_datagrams(client.as_fd(), some).unwrap(),
                at_a_time,
                "all are taken"
            );
        }
        let (received, _) = receive_by(&server, 3, at_a_time);
        let lengths: Vec<_> = received.iter().map(|(bytes, _)| bytes.len()).collect();
        assert_eq!(lengths, [65_507, 0, 1]);
    }
    let longer = vec![b'x'; 65_508];
    let error = send_datagrams(client.as_fd(), &[message(&longer, to)]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
}

#[test]
fn the_kernel_cuts_and_joins() {
    let (server, to) = bound("127.0.0.1");
    let (client, _) = bound("127.0.0.1");
    join_datagrams(server.as_fd(), true).unwrap();
    let bytes: Vec<u8> = (0..10_500_u32).map(|n| (n % 251) as u8).collect();
    let sent = MessageToSend {
        segment_bytes: 1000,
        ..message(&bytes, to)
    };
    assert_eq!(send_datagrams(client.as_fd(), &[sent]).unwrap(), 1);
    let (received, messages) = receive(&server, 11);
    assert!(messages < 11, "{messages} messages: nothing was joined");
    let lengths: Vec<_> = received.iter().map(|(bytes, _)| bytes.len()).collect();
    assert_eq!(
        lengths,
        [
            1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 500
        ]
    );
    let joined: Vec<u8> = received.into_iter().flat_map(|(bytes, _)| bytes).collect();
    assert_eq!(joined, bytes);
}

#[test]
fn answers_come_from_the_address_that_was_asked() {
    for (any, local, other) in [
        ("0.0.0.0", "127.0.0.2", "127.0.0.3"),
        ("::", "::1", "::1"),
        ("::", "::ffff:127.0.0.2", "::ffff:127.0.0.3"),
    ] {
        let (server, bound_to) = bound(any);
        report_local_address(server.as_fd(), bound_to.is_ipv4()).unwrap();
        let (client, from) = bound(if local == "::1" {
            "::1"
        } else if any == "::" {
            "::"
        } else {
            "127.0.0.1"
        });
        for (asked, max) in [(local, BATCH_MESSAGES), (other, 1)] {
            let asked: IpAddr = asked.parse().unwrap();
            let to = SocketAddr::new(asked, bound_to.port());
            assert_eq!(
                send_datagrams(client.as_fd(), &[message(b"?", to)]).unwrap(),
                1
            );
            let mut batch = ReceivedBatch::new();
            let deadline = Instant::now() + Duration::from_secs(60);
            while batch.receive(server.as_fd(), max).is_err() {
                assert!(Instant::now() < deadline);
            }
            let received = batch.messages().next().unwrap();
            assert_eq!(received.local, Some(asked));
            assert_eq!(received.source.unwrap().port(), from.port());
            let answer = MessageToSend {
                from: received.local,
                ..message(b"!", received.source.unwrap())
            };
            assert_eq!(send_datagrams(server.as_fd(), &[answer]).unwrap(), 1);
            let (answers, _) = receive(&client, 1);
            assert_eq!(answers, [(b"!".to_vec(), Some(to))]);
        }
    }
}

#[test]
fn what_came_before_the_socket_was_asked_to_tell_has_an_address_too() {
    for (any, asked) in [("0.0.0.0", "127.0.0.2"), ("::", "::1")] {
        let (server, bound_to) = bound(any);
        let (client, _) = bound(if any == "::" { "::1" } else { "127.0.0.1" });
        let asked: IpAddr = asked.parse().unwrap();
        let to = SocketAddr::new(asked, bound_to.port());
        // On loopback it is there when it has been sent.
        assert_eq!(
            send_datagrams(client.as_fd(), &[message(b"?", to)]).unwrap(),
            1
        );
        report_local_address(server.as_fd(), bound_to.is_ipv4()).unwrap();
        let mut batch = ReceivedBatch::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        while batch.receive(server.as_fd(), BATCH_MESSAGES).is_err() {
            assert!(Instant::now() < deadline);
        }
        let received = batch.messages().next().unwrap();
        assert_eq!(received.local, Some(asked), "{any}");
    }
}

/// Sends to a port that was just closed. Returns whether that was reported soon.
fn is_refused(client: &UdpSocket, batch: &mut ReceivedBatch, max: usize) -> bool {
    let (closed, address) = bound("127.0.0.1");
    drop(closed);
    client.connect(address).unwrap();
    let sent = MessageToSend {
        to: None,
        ..message(b"?", address)
    };
    assert_eq!(send_datagrams(client.as_fd(), &[sent]).unwrap(), 1);
    let soon = Instant::now() + Duration::from_secs(1);
    while Instant::now() < soon {
        let error = batch.receive(client.as_fd(), max).unwrap_err();
        if error.kind() == io::ErrorKind::ConnectionRefused {
            return true;
        }
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
    false
}

#[test]
fn a_port_that_is_closed_is_reported_to_a_connected_socket() {
    let (client, _) = bound("127.0.0.1");
    let mut batch = ReceivedBatch::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    for max in [1, BATCH_MESSAGES] {
        // Somebody else may have taken the port meanwhile: then another one.
        while !is_refused(&client, &mut batch, max) {
            assert!(Instant::now() < deadline);
        }
        assert_eq!(batch.messages().count(), 0);
    }
}
