//! Datagrams reach whom they are for, and sessions end when they should.

use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn settings() -> ListenerSettings<'static> {
    ListenerSettings::default()
}

#[test]
fn each_client_has_a_session_and_its_answers() {
    run(async {
        for address in ["127.0.0.1", "::1"] {
            let mut server = Peer::at("127.0.0.1");
            let relay = DatagramRelaySettings::default();
            let relaying = relaying(address, settings(), relay, server.address).await;
            let mut clients = [Peer::at(address), Peer::at(address)];
            let mut seen = Vec::new();
            for round in 0..3_u8 {
                for (index, client) in clients.iter_mut().enumerate() {
                    let question = [round, index as u8];
                    client.send(relaying.address, &question).await;
                    let (asked, near) = server.receive().await;
                    assert_eq!(asked, question);
                    server.send(near, &[round, index as u8, b'!']).await;
                    let answer = client.receive().await;
                    assert_eq!(answer, (vec![round, index as u8, b'!'], relaying.address));
                    seen.push((index, near));
                }
            }
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 2, "each has one socket to the server: {seen:?}");
            assert_ne!(seen[0].1, seen[1].1);
            assert!(relaying.outcomes.borrow().is_empty(), "only time ends them");
        }
    });
}

#[test]
fn answers_come_from_the_address_that_was_asked() {
    run(async {
        for (any, locals, client) in [
            ("0.0.0.0", ["127.0.0.2", "127.0.0.3"], "127.0.0.1"),
            ("::", ["::1", "::1"], "::1"),
            ("::", ["::ffff:127.0.0.2", "::ffff:127.0.0.3"], "::"),
        ] {
            let mut server = Peer::at("127.0.0.1");
            let relay = DatagramRelaySettings::default();
            let relaying = relaying(any, settings(), relay, server.address).await;
            let mut client = Peer::at(client);
            let mut nears = Vec::new();
            for local in locals {
                let ip: IpAddr = local.parse().expect("an address");
                let to = SocketAddr::new(ip, relaying.address.port());
                client.send(to, local.as_bytes()).await;
                let (asked, near) = server.receive().await;
                assert_eq!(asked, local.as_bytes());
                nears.push(near);
                server.send(near, b"answer").await;
                assert_eq!(client.receive().await, (b"answer".to_vec(), to));
            }
            let is_one = locals[0] == locals[1];
            assert_eq!(
                nears[0] == nears[1],
                is_one,
                "an address is a part of the session"
            );
        }
    });
}

#[test]
fn a_session_knows_both_addresses_and_its_first_datagram() {
    run(async {
        let (socket, address) = bound("0.0.0.0");
        let mut listener = DatagramListener::new(socket, address);
        let client = Peer::at("127.0.0.1");
        let to: SocketAddr = (IpAddr::from([127, 0, 0, 2]), address.port()).into();
        client.send(to, b"hello").await;
        let session = poll_fn(|cx| listener.poll_session(cx, &settings())).await;
        let session = session.expect("it is open").expect("it works");
        assert_eq!((session.client(), session.local()), (client.address, to));
        assert_eq!(session.peek(<[u8]>::to_vec), Some(b"hello".to_vec()));
        assert_eq!(session.received(), traffic(1, 5));
        let packets = poll_fn(|cx| session.poll_receive(cx)).await;
        assert_eq!(packets.first(), Some(&b"hello"[..]));
        assert!(!session.has_waiting());
    });
}

#[test]
fn a_session_gets_as_many_requests_as_it_may() {
    run(async {
        for (max_requests, expected) in [(0, 1), (1, 5), (2, 3)] {
            let mut server = Peer::at("127.0.0.1");
            let relay = DatagramRelaySettings {
                requests: max_requests,
                responses: None,
                ..DatagramRelaySettings::default()
            };
            let settings = ListenerSettings {
                max_requests,
                ..settings()
            };
            let relaying = relaying("127.0.0.1", settings, relay, server.address).await;
            let mut client = Peer::at("127.0.0.1");
            let mut nears = Vec::new();
            for n in 0..5_u8 {
                client.send(relaying.address, &[n]).await;
                let (asked, near) = server.receive().await;
                assert_eq!(asked, [n]);
                // A session that gets no more still passes answers on.
                server.send(near, &[n]).await;
                server.send(near, &[n]).await;
                for _ in 0..2 {
                    assert_eq!(client.receive().await.0, [n]);
                }
                if !nears.contains(&near) {
                    nears.push(near);
                }
            }
            assert_eq!(nears.len(), expected, "{max_requests} requests");
            assert!(relaying.outcomes.borrow().is_empty(), "only time ends them");
        }
    });
}

#[test]
fn requests_that_arrive_together_are_shared_out_all_the_same() {
    run(async {
        let mut server = Peer::at("127.0.0.1");
        let relay = DatagramRelaySettings {
            requests: 2,
            responses: Some(0),
            ..DatagramRelaySettings::default()
        };
        let settings = ListenerSettings {
            max_requests: 2,
            ..settings()
        };
        let relaying = relaying("127.0.0.1", settings, relay, server.address).await;
        let client = Peer::at("127.0.0.1");
        // One message, of which the listener gets seven datagrams at once.
        let run = Run {
            bytes: b"0123456",
            segment_bytes: 1,
        };
        let path = Path {
            to: Some(relaying.address),
            from: None,
        };
        let sent = poll_fn(|cx| client.socket.poll_send(cx, path, std::iter::once(run)));
        assert_eq!(sent.await.expect("there is room"), 7);
        let mut nears = Vec::new();
        for n in b'0'..=b'6' {
            let (asked, near) = server.receive().await;
            assert_eq!(asked, [n]);
            nears.push(near);
        }
        assert_eq!(nears[0], nears[1]);
        assert_eq!(nears[2], nears[3]);
        nears.dedup();
        assert_eq!(nears.len(), 4);
        ended(&relaying, 3).await;
        runtime::yield_now().await;
        assert_eq!(
            relaying.outcomes.borrow().len(),
            3,
            "the last waits for another"
        );
    });
}

#[test]
fn a_session_ends_with_the_last_response() {
    run(async {
        for responses in [0, 1, 2] {
            let mut server = Peer::at("127.0.0.1");
            let relay = DatagramRelaySettings {
                requests: 0,
                responses: Some(responses),
                ..DatagramRelaySettings::default()
            };
            let relaying = relaying("127.0.0.1", settings(), relay, server.address).await;
            let mut client = Peer::at("127.0.0.1");
            for round in 0..2 {
                client.send(relaying.address, b"question").await;
                let (_, near) = server.receive().await;
                for _ in 0..responses {
                    assert_eq!(relaying.outcomes.borrow().len(), round);
                    server.send(near, b"answer").await;
                    client.receive().await;
                }
                ended(&relaying, round + 1).await;
                let outcomes = relaying.outcomes.borrow();
                let outcome = &outcomes[round];
                assert_eq!(outcome.end, Ok(()));
                assert_eq!(outcome.counts.from_client, traffic(1, 8));
                assert_eq!(outcome.counts.to_server, traffic(1, 8));
                assert_eq!(
                    outcome.counts.from_server,
                    traffic(responses, 6 * responses)
                );
                assert_eq!(outcome.counts.to_client, traffic(responses, 6 * responses));
            }
        }
    });
}

#[test]
fn responses_that_wait_together_are_as_many_as_are_expected() {
    run(async {
        let mut server = Peer::at("127.0.0.1");
        let relay = DatagramRelaySettings {
            requests: 2,
            responses: Some(2),
            ..DatagramRelaySettings::default()
        };
        let relaying = relaying("127.0.0.1", settings(), relay, server.address).await;
        let mut client = Peer::at("127.0.0.1");
        client.send(relaying.address, b"first").await;
        let (_, near) = server.receive().await;
        // More than the first request is answered with, and all the same not too many.
        for answer in [b"1", b"2", b"3"] {
            server.send(near, answer).await;
        }
        for answer in [b"1", b"2", b"3"] {
            assert_eq!(client.receive().await, (answer.to_vec(), relaying.address));
        }
        client.send(relaying.address, b"second").await;
        assert_eq!(server.receive().await, (b"second".to_vec(), near));
        server.send(near, b"4").await;
        assert_eq!(client.receive().await, (b"4".to_vec(), relaying.address));
        ended(&relaying, 1).await;
        let outcomes = relaying.outcomes.borrow();
        assert_eq!(outcomes[0].counts.from_client.packets, 2);
        assert_eq!(outcomes[0].counts.to_client.packets, 4);
    });
}

#[test]
fn the_longest_datagram_and_the_empty_one_pass() {
    run(async {
        let mut server = Peer::at("127.0.0.1");
        let relay = DatagramRelaySettings::default();
        let relaying = relaying("127.0.0.1", settings(), relay, server.address).await;
        let mut client = Peer::at("127.0.0.1");
        for length in [65_507, 0, 1472, 0, 0, 65_507] {
            let datagram = vec![length as u8; length];
            client.send(relaying.address, &datagram).await;
            let (asked, near) = server.receive().await;
            assert!(asked == datagram, "{} of {length}", asked.len());
            server.send(near, &datagram).await;
            assert!(client.receive().await.0 == datagram, "{length}");
        }
    });
}

#[test]
fn a_prefix_is_a_part_of_the_first_datagram() {
    run(async {
        let mut server = Peer::at("127.0.0.1");
        let (socket, address) = bound("127.0.0.1");
        let mut listener = DatagramListener::new(socket, address);
        let client = Peer::at("127.0.0.1");
        client.send(address, b"one").await;
        let session = poll_fn(|cx| listener.poll_session(cx, &settings())).await;
        let session = session.expect("it is open").expect("it works");
        let mut relay = DatagramRelay::new(
            session,
            connected(server.address),
            DatagramRelaySettings::default(),
            b"PROXY ".to_vec(),
        );
        let _listening = runtime::spawn_with_handle(async move {
            let next = poll_fn(|cx| listener.poll_session(cx, &settings())).await;
            unreachable!("all is for the first session: {}", next.is_some());
        });
        let _relaying = runtime::spawn_with_handle(async move {
            let ended = poll_fn(|cx| relay.poll(cx)).await;
            unreachable!("only time ends it: {ended:?}");
        });
        assert_eq!(server.receive().await.0, b"PROXY one");
        client.send(address, b"two").await;
        assert_eq!(server.receive().await.0, b"two");
    });
}

#[test]
fn a_server_that_refuses_harms_no_other_session_and_may_come_back() {
    run(async {
        let gone = Peer::at("127.0.0.1");
        let dead = gone.address;
        drop(gone);
        let (socket, address) = bound("127.0.0.1");
        let mut listener = DatagramListener::new(socket, address);
        let mut alive = Peer::at("127.0.0.1");
        let lucky = Peer::at("127.0.0.1");
        let unlucky = Peer::at("127.0.0.1");
        let (alive_at, unlucky_at) = (alive.address, unlucky.address);
        let errors = Rc::<RefCell<Vec<String>>>::default();
        let noted = Rc::clone(&errors);
        let _listening = runtime::spawn_with_handle(async move {
            while let Some(session) = poll_fn(|cx| listener.poll_session(cx, &settings())).await {
                let session = session.expect("the socket works");
                let server = match session.client() == unlucky_at {
                    true => dead,
                    false => alive_at,
                };
                let settings = DatagramRelaySettings::default();
                let mut relay =
                    DatagramRelay::new(session, connected(server), settings, Vec::new());
                let noted = Rc::clone(&noted);
                runtime::spawn(async move {
                    loop {
                        let ended = poll_fn(|cx| relay.poll(cx)).await;
                        let error = ended.expect_err("only time ends it");
                        noted.borrow_mut().push(error.to_string());
                    }
                });
            }
        });
        unlucky.send(address, b"is anyone there?").await;
        while errors.borrow().is_empty() {
            runtime::yield_now().await;
        }
        lucky.send(address, b"hello").await;
        assert_eq!(alive.receive().await.0, b"hello");
        let back = UdpSocket::bind(dead).expect("it was free");
        back.set_nonblocking(true).expect("any can be");
        unlucky.send(address, b"now?").await;
        let mut buffer = [0; 100];
        let count = loop {
            match back.recv(&mut buffer) {
                Ok(count) => break count,
                Err(_) => runtime::yield_now().await,
            }
        };
        assert_eq!(&buffer[..count], b"now?");
        assert_eq!(
            *errors.borrow(),
            ["recv() failed (111: Connection refused) while proxying and reading from upstream"]
        );
    });
}

#[test]
fn a_refusal_is_all_the_response_there_will_be() {
    run(async {
        let gone = Peer::at("127.0.0.1");
        let dead = gone.address;
        drop(gone);
        let relay = DatagramRelaySettings {
            requests: 0,
            responses: Some(1),
            ..DatagramRelaySettings::default()
        };
        let relaying = relaying("127.0.0.1", settings(), relay, dead).await;
        let client = Peer::at("127.0.0.1");
        client.send(relaying.address, b"question").await;
        ended(&relaying, 1).await;
        let outcomes = relaying.outcomes.borrow();
        assert_eq!((outcomes[0].errors.len(), &outcomes[0].end), (1, &Ok(())));
        assert_eq!(outcomes[0].counts.from_server, traffic(0, 0));
    });
}

#[test]
fn the_upload_rate_drops_what_comes_too_early() {
    run(async {
        let mut server = Peer::at("127.0.0.1");
        let relay = DatagramRelaySettings {
            requests: 3,
            responses: Some(1),
            upload_rate: 10,
            ..DatagramRelaySettings::default()
        };
        let settings = ListenerSettings {
            max_requests: 3,
            ..settings()
        };
        let relaying = relaying("127.0.0.1", settings, relay, server.address).await;
        let mut client = Peer::at("127.0.0.1");
        for _ in 0..3 {
            client.send(relaying.address, &[b'x'; 1000]).await;
        }
        // The first one takes a hundred seconds at that rate.
        let (_, near) = server.receive().await;
        server.send(near, b"answer").await;
        client.receive().await;
        ended(&relaying, 1).await;
        let outcomes = relaying.outcomes.borrow();
        assert_eq!(outcomes[0].counts.from_client, traffic(1, 1000));
        assert_eq!(outcomes[0].counts.to_server, traffic(1, 1000));
        assert_eq!(outcomes[0].counts.dropped_from_client, 2);
    });
}

#[test]
fn the_download_rate_has_datagrams_wait() {
    run(async {
        let mut server = Peer::at("127.0.0.1");
        let relay = DatagramRelaySettings {
            responses: Some(4),
            download_rate: 2000,
            ..DatagramRelaySettings::default()
        };
        let relaying = relaying("127.0.0.1", settings(), relay, server.address).await;
        let mut client = Peer::at("127.0.0.1");
        client.send(relaying.address, b"question").await;
        let (_, near) = server.receive().await;
        let began = Instant::now();
        for n in 0..4 {
            server.send(near, &[n; 500]).await;
        }
        for n in 0..4 {
            assert_eq!(client.receive().await.0, [n; 500]);
        }
        // Each takes a quarter of a second, and the last is not waited for.
        assert!(
            began.elapsed() >= Duration::from_millis(700),
            "{:?}",
            began.elapsed()
        );
        ended(&relaying, 1).await;
        assert_eq!(
            relaying.outcomes.borrow()[0].counts.to_client,
            traffic(4, 2000)
        );
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Bursts that fit into the sockets' buffers, each answered by as many datagrams.
    #[test]
    fn datagrams_arrive_as_they_were_sent(
        bursts in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![Just(1200_usize), 0_usize..3000], 1..24),
            1..12,
        ),
    ) {
        run(async {
            let mut server = Peer::at("127.0.0.1");
            let relay = DatagramRelaySettings::default();
            let relaying = relaying("127.0.0.1", settings(), relay, server.address).await;
            let mut client = Peer::at("127.0.0.1");
            for burst in bursts {
                let datagram = |(index, length): (usize, &usize)| vec![index as u8; *length];
                let sent: Vec<_> = burst.iter().enumerate().map(datagram).collect();
                for datagram in &sent {
                    client.send(relaying.address, datagram).await;
                }
                let mut packets = Packets::default();
                let mut near = relaying.address;
                for datagram in &sent {
                    let (received, from) = server.receive().await;
                    assert_eq!(&received, datagram);
                    packets.push(&received);
                    near = from;
                }
                let path = Path { to: Some(near), from: None };
                while !packets.is_empty() {
                    let answer = poll_fn(|cx| server.socket.poll_send(cx, path, packets.runs()));
                    let count = answer.await.expect("there is room");
                    packets.advance(count);
                }
                for datagram in &sent {
                    assert_eq!(&client.receive().await.0, datagram);
                }
            }
        });
    }
}
