use super::super::tests::{bound, connected, receive, run};
use super::*;
use proptest::prelude::*;
use sealane_sys::socket::MAX_SEGMENTS;
use std::future::poll_fn;
use std::net::UdpSocket;

fn to(address: SocketAddr) -> Transmit {
    Transmit {
        to: address,
        from: None,
        ecn: Ecn::NotEct,
        is_probe: false,
    }
}

fn anywhere() -> SocketAddr {
    "127.0.0.1:9".parse().expect("an address")
}

fn add(batch: &mut SendBatch, transmit: Transmit, bytes: &[u8]) {
    batch.room().extend_from_slice(bytes);
    batch.commit(transmit, None);
}

/// (bytes, bytes of a segment) of each message.
fn shape(batch: &SendBatch) -> Vec<(usize, usize)> {
    let runs = batch.runs();
    runs.map(|(_, run)| (run.bytes.len(), run.segment_bytes))
        .collect()
}

async fn send(socket: &DatagramSocket, batch: &mut SendBatch) -> Vec<Refused> {
    let mut refused = Vec::new();
    let sent = poll_fn(|cx| socket.poll_send_batch(cx, batch, |one| refused.push(one)));
    sent.await.expect("a socket of this thread");
    assert!(batch.is_empty());
    refused
}

#[test]
fn equal_datagrams_for_a_peer_are_one_message() {
    let mut batch = SendBatch::default();
    for length in [1200, 1200, 700, 1200] {
        add(&mut batch, to(anywhere()), &vec![1; length]);
    }
    assert_eq!(shape(&batch), [(3100, 1200), (1200, 1200)]);
    let others = [
        Transmit {
            to: "127.0.0.1:10".parse().expect("an address"),
            ..to(anywhere())
        },
        Transmit {
            from: Some("127.0.0.2".parse().expect("an address")),
            ..to(anywhere())
        },
        Transmit {
            ecn: Ecn::Ect0,
            ..to(anywhere())
        },
    ];
    for transmit in others {
        add(&mut batch, transmit, &[2; 1200]);
    }
    assert_eq!(shape(&batch)[2..], [(1200, 1200); 3]);
}

/// RFC 9000 section 14.3: the loss of a probe says nothing about congestion, so nothing else may be
/// lost with it.
#[test]
fn a_probe_is_alone_in_its_message() {
    let probe = Transmit {
        is_probe: true,
        ..to(anywhere())
    };
    let mut batch = SendBatch::default();
    for transmit in [to(anywhere()), probe, probe, to(anywhere())] {
        add(&mut batch, transmit, &[1; 1200]);
    }
    assert_eq!(shape(&batch), [(1200, 1200); 4]);
}

#[test]
fn several_datagrams_can_be_built_at_once_and_what_is_not_committed_is_not_sent() {
    let mut batch = SendBatch::default();
    batch.commit(to(anywhere()), None);
    assert!(batch.is_empty(), "nothing was appended");
    batch.room().extend_from_slice(&[1; 2500]);
    batch.commit(to(anywhere()), Some(1000));
    batch.room().extend_from_slice(&[2; 3000]);
    batch.discard();
    add(&mut batch, to(anywhere()), &[3; 900]);
    assert_eq!(shape(&batch), [(2500, 1000), (900, 900)]);
    assert_eq!(batch.room().len(), 3400);
    let many = 2 * MAX_SEGMENTS + 1;
    let mut batch = SendBatch::default();
    batch.room().extend_from_slice(&vec![1; many]);
    batch.commit(to(anywhere()), Some(1));
    let counts: Vec<_> = shape(&batch).iter().map(|(bytes, _)| *bytes).collect();
    assert_eq!(counts, [MAX_SEGMENTS, MAX_SEGMENTS, 1]);
    let byte = batch.room().pop();
    assert_eq!(byte, Some(1));
    batch.commit(to(anywhere()), None);
    assert!(batch.is_empty(), "the caller may append only");
    assert_eq!(batch.lost(), many as u64);
    add(&mut batch, to(anywhere()), &[3; 900]);
    assert_eq!(shape(&batch), [(900, 900)]);
}

#[test]
fn a_batch_is_full_before_its_buffer_grows_and_empty_without_one() {
    let mut batch = SendBatch::default();
    while !batch.is_full() {
        batch.room().extend_from_slice(&[1; 65_000]);
        batch.commit(to(anywhere()), Some(1000));
    }
    assert!(batch.bytes.len() <= buffers::LARGE_BYTES);
    batch.advance(usize::MAX);
    assert_eq!((batch.bytes.capacity(), batch.is_full()), (0, false));
    for port in 1..=BATCH_MESSAGES as u16 {
        assert!(!batch.is_full());
        add(&mut batch, to(([127, 0, 0, 1], port).into()), b"x");
    }
    assert!(batch.is_full(), "more would be another call");
}

#[test]
fn batches_for_several_peers_arrive_whether_they_are_cut_or_not() {
    run(async {
        for cuts in [true, false] {
            let (first, second) = (bound(), bound());
            let (sender, _) = bound();
            sender.cuts.set(cuts);
            let mut batch = SendBatch::default();
            let mut expected: [Vec<Vec<u8>>; 2] = Default::default();
            for number in 0..90_u8 {
                let index = usize::from(number / 30 % 2);
                let datagram = vec![number; if number % 30 == 29 { 10 } else { 1000 }];
                add(&mut batch, to([first.1, second.1][index]), &datagram);
                expected[index].push(datagram);
            }
            assert_eq!(send(&sender, &mut batch).await, []);
            assert_eq!((batch.sent(), batch.lost()), (90, 0));
            assert_eq!(receive(&first.0, 60).await, expected[0]);
            assert_eq!(receive(&second.0, 30).await, expected[1]);
            assert_eq!(sender.cuts.get(), cuts);
        }
    });
}

/// RFC 9000 section 13.4 and section 9: answers leave from the address that was asked.
#[test]
fn sockets_for_quic_report_codepoints_and_addresses() {
    run(async {
        for (any, asked) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::1")] {
            let socket = UdpSocket::bind(any).expect("a free port");
            let address = socket.local_addr().expect("bound");
            let server = DatagramSocket::bound_for_quic(socket.into(), address);
            let server = server.expect("inside of a runtime");
            let asked: IpAddr = asked.parse().expect("an address");
            let client = UdpSocket::bind((asked, 0)).expect("a free port");
            let client_address = client.local_addr().expect("bound");
            let client = DatagramSocket::bound_for_quic(client.into(), client_address);
            let client = client.expect("inside of a runtime");
            let mut batch = SendBatch::default();
            let transmit = Transmit {
                ecn: Ecn::Ect0,
                ..to(SocketAddr::new(asked, address.port()))
            };
            add(&mut batch, transmit, b"question");
            send(&client, &mut batch).await;
            let (from, ecn) = poll_fn(|cx| {
                server.poll_receive(cx, 1, |batch| {
                    let message = batch.messages_mut().next().expect("there is one");
                    message.bytes.make_ascii_uppercase();
                    assert_eq!(message.bytes, b"QUESTION");
                    (message.local, message.ecn)
                })
            })
            .await
            .expect("a socket that works");
            assert_eq!((from, ecn), (Some(asked), Ecn::Ect0));
            let transmit = Transmit {
                from,
                ecn: Ecn::Ce,
                ..to(client_address)
            };
            add(&mut batch, transmit, b"answer");
            send(&server, &mut batch).await;
            let (source, ecn) = poll_fn(|cx| {
                client.poll_receive(cx, 1, |batch| {
                    let message = batch.messages().next().expect("there is one");
                    (message.source, message.ecn)
                })
            })
            .await
            .expect("a socket that works");
            let expected = SocketAddr::new(asked, address.port());
            assert_eq!((source, ecn), (Some(expected), Ecn::Ce));
        }
    });
}

/// RFC 9000 section 14.2: a datagram that is too long for the interface is no error of the socket.
#[test]
fn what_is_too_long_is_reported_and_the_rest_arrives() {
    run(async {
        for cuts in [true, false] {
            let (server, address) = bound();
            let (sender, _) = bound();
            sender.cuts.set(cuts);
            let mut batch = SendBatch::default();
            let probe = Transmit {
                is_probe: true,
                ..to(address)
            };
            add(&mut batch, to(address), b"first");
            // No packet of IPv4 is that long.
            add(&mut batch, probe, &vec![1; 65_508]);
            add(&mut batch, to(address), b"last");
            let refused = send(&sender, &mut batch).await;
            let expected = Refused {
                transmit: probe,
                bytes: 65_508,
            };
            assert_eq!(refused, [expected]);
            assert_eq!((batch.sent(), batch.lost()), (2, 0));
            assert_eq!(receive(&server, 2).await, [&b"first"[..], b"last"]);
            assert_eq!(sender.cuts.get(), cuts);
        }
    });
}

/// A kernel, a card or a tunnel that does not cut: simulated by more than the kernel takes at once.
#[test]
fn what_cannot_be_cut_is_sent_one_by_one_from_then_on() {
    run(async {
        let (server, address) = bound();
        let (sender, _) = bound();
        let mut batch = SendBatch::default();
        add(&mut batch, to(address), &[7; 3000]);
        batch.messages[0].segment_bytes = 10;
        assert_eq!(send(&sender, &mut batch).await, []);
        assert!(!sender.cuts.get());
        assert_eq!(batch.sent(), 300);
        let received = receive(&server, 100).await;
        assert!(received.iter().all(|datagram| datagram == &[7; 10]));
    });
}

#[test]
fn who_cannot_be_reached_loses_datagrams_and_nobody_else_does() {
    run(async {
        let (server, address) = bound();
        let (sender, _) = bound();
        let mut batch = SendBatch::default();
        // A sender can claim to be there.
        let nowhere = "127.0.0.1:0".parse().expect("an address");
        add(&mut batch, to(nowhere), &[1; 100]);
        for _ in 0..3 {
            add(&mut batch, to(nowhere), &[1; 100]);
            add(&mut batch, to(address), b"arrives");
        }
        assert_eq!(send(&sender, &mut batch).await, []);
        assert_eq!((batch.sent(), batch.lost()), (3, 4));
        assert_eq!(receive(&server, 3).await, [b"arrives"; 3]);
        assert!(sender.cuts.get(), "it says nothing about cutting");
    });
}

#[test]
fn what_has_gone_makes_room() {
    let mut batch = SendBatch::default();
    for (number, port) in [(1, 9), (2, 10), (3, 11)] {
        let address = ([127, 0, 0, 1], port).into();
        add(&mut batch, to(address), &[number; 100]);
    }
    batch.advance(1);
    assert_eq!(shape(&batch), [(100, 100); 2]);
    assert_eq!(batch.room().len(), 300);
    batch.advance(1);
    assert_eq!(batch.room()[..], [3; 100]);
    batch.advance(1);
    assert!(batch.is_empty() && batch.room().is_empty());
}

#[test]
fn a_connected_socket_forgets_what_became_of_others() {
    run(async {
        let (closed, address) = bound();
        drop(closed);
        let client = connected(address);
        let mut batch = SendBatch::default();
        for _ in 0..3 {
            add(&mut batch, to(address), b"?");
            assert_eq!(send(&client, &mut batch).await, []);
        }
        assert_eq!(batch.sent() + batch.lost(), 3);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever is added, and however much has gone at a time: the same datagrams leave in the same
    /// order, each for its peer, and no message is more than the kernel cuts.
    #[test]
    fn datagrams_leave_as_they_were_added(
        steps in proptest::collection::vec(
            (prop_oneof![Just(1200_usize), 1..3000_usize], 1_u16..3, any::<bool>(), 0..4_usize),
            1..150,
        ),
    ) {
        let mut batch = SendBatch::default();
        let mut expected = VecDeque::new();
        for (index, (length, port, is_probe, gone)) in steps.into_iter().enumerate() {
            let transmit = Transmit { is_probe, ..to(([127, 0, 0, 1], port).into()) };
            let datagram = vec![index as u8; length];
            add(&mut batch, transmit, &datagram);
            expected.push_back((transmit, datagram));
            batch.advance(gone);
            expected.drain(..gone.min(expected.len()));
            for (_, run) in batch.runs() {
                prop_assert!(run.count() <= MAX_SEGMENTS);
                prop_assert!(run.bytes.len() <= MAX_SEGMENTED_BYTES);
            }
            let mut left = cut(batch.runs());
            for (transmit, datagram) in &expected {
                let (found, run) = left.next().expect("as many");
                prop_assert_eq!(found, *transmit);
                prop_assert_eq!(run.bytes, &datagram[..]);
            }
            prop_assert!(left.next().is_none());
        }
    }
}
