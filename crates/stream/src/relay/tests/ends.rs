//! How relays end.

use super::*;
use std::time::Duration;

const ALL: [Over; 3] = [Over::Tcp, Over::Unix, Over::Tls];

#[test]
fn what_was_received_before_is_sent_first() {
    run(async {
        for over in ALL {
            let preread = b"what was looked at, ".to_vec();
            let mut relayed = relayed_after(settings(), Over::Tcp, over, preread).await;
            send(&mut relayed.client, b"and the rest".to_vec()).await;
            end(&mut relayed.client).await;
            let received = receive_all(&mut relayed.server).await;
            assert_eq!(received, b"what was looked at, and the rest", "{over:?}");
            let outcome = relayed.relay.await.expect("no panic");
            assert_eq!(outcome.ended, Ok(Ended { by: Side::Client }));
            assert_eq!(
                (outcome.counts.from_client, outcome.counts.to_server),
                (32, 32)
            );
        }
    });
}

#[test]
fn a_server_that_ends_ends_the_client_after_its_last_byte() {
    run(async {
        for (client, server) in ALL.into_iter().flat_map(|a| ALL.map(|b| (a, b))) {
            let mut relayed = relayed(settings(), client, server).await;
            let sent = pattern(7, 3 << 20);
            let mut far = relayed.server;
            let bytes = sent.clone();
            let sending = runtime::spawn_with_handle(async move {
                send(&mut far, bytes).await;
                end(&mut far).await;
                far
            });
            let received = receive_all(&mut relayed.client).await;
            assert!(received == sent, "{client:?} {server:?}");
            let _far = sending.await.expect("no panic");
            let outcome = relayed.relay.await.expect("no panic");
            assert_eq!(outcome.ended, Ok(Ended { by: Side::Server }));
            assert!(!relayed.client.tls().is_some_and(|tls| tls.is_cut()));
            assert_eq!(outcome.counts.to_client, sent.len() as u64);
        }
    });
}

#[test]
fn with_half_close_the_other_direction_goes_on() {
    run(async {
        for (client, server) in ALL.into_iter().flat_map(|a| ALL.map(|b| (a, b))) {
            let settings = RelaySettings {
                half_close: true,
                ..settings()
            };
            let mut relayed = relayed(settings, client, server).await;
            send(&mut relayed.client, b"question".to_vec()).await;
            end(&mut relayed.client).await;
            let question = receive_all(&mut relayed.server).await;
            assert_eq!(question, b"question", "{client:?} {server:?}");
            let answer = pattern(3, 300_000);
            let mut far = relayed.server;
            let bytes = answer.clone();
            let sending = runtime::spawn_with_handle(async move {
                send(&mut far, bytes).await;
                end(&mut far).await;
                far
            });
            let received = receive_all(&mut relayed.client).await;
            assert!(received == answer, "{client:?} {server:?}");
            let _far = sending.await.expect("no panic");
            let outcome = relayed.relay.await.expect("no panic");
            assert_eq!(outcome.ended, Ok(Ended { by: Side::Server }));
        }
    });
}

/// TLS has session tickets to send when it has nothing to say.
#[test]
fn with_half_close_a_client_sends_after_a_server_that_says_nothing() {
    run(async {
        for over in ALL {
            let settings = RelaySettings {
                half_close: true,
                ..settings()
            };
            let mut relayed = relayed(settings, over, over).await;
            end(&mut relayed.server).await;
            assert_eq!(receive_all(&mut relayed.client).await, b"");
            send(&mut relayed.client, b"all the same".to_vec()).await;
            end(&mut relayed.client).await;
            let received = receive_all(&mut relayed.server).await;
            assert_eq!(received, b"all the same", "{over:?}");
            let outcome = relayed.relay.await.expect("no panic");
            assert_eq!(outcome.ended, Ok(Ended { by: Side::Client }), "{over:?}");
            assert_eq!(outcome.failed, Vec::<String>::new(), "{over:?}");
        }
    });
}

#[test]
fn without_it_a_client_that_ends_gets_no_answer() {
    run(async {
        let mut relayed = relayed(settings(), Over::Tcp, Over::Tcp).await;
        send(&mut relayed.client, b"question".to_vec()).await;
        end(&mut relayed.client).await;
        assert_eq!(receive_all(&mut relayed.server).await, b"question");
        assert_eq!(receive_all(&mut relayed.client).await, b"");
        let outcome = relayed.relay.await.expect("no panic");
        assert_eq!(outcome.ended, Ok(Ended { by: Side::Client }));
    });
}

#[test]
fn a_reset_is_reported_and_what_came_before_it_arrives() {
    run(async {
        let mut relayed = relayed(settings(), Over::Tcp, Over::Tcp).await;
        send(&mut relayed.server, b"last words".to_vec()).await;
        assert_eq!(
            receive(&mut relayed.client, 100).await.expect("sent"),
            b"last words"
        );
        let socket = relayed.server.endpoint_mut().socket();
        let socket = socket2::SockRef::from(socket);
        socket.set_linger(Some(Duration::ZERO)).expect("it is TCP");
        drop(relayed.server);
        assert_eq!(receive_all(&mut relayed.client).await, b"");
        let outcome = relayed.relay.await.expect("no panic");
        assert_eq!(outcome.ended, Ok(Ended { by: Side::Server }));
        assert_eq!(
            outcome.failed,
            [
                "recv() or send() failed (104: Connection reset by peer) while proxying and reading from upstream"
            ]
        );
    });
}

#[test]
fn a_failure_to_send_names_the_side() {
    run(async {
        let (mut near_client, mut client) = connection(Over::Unix).await;
        let (server, mut near_server) = connection(Over::Unix).await;
        drop(server);
        send(&mut client, b"to nobody".to_vec()).await;
        let mut relay = Relay::new(settings(), Vec::new(), Vec::new());
        let polled = poll_fn(|cx| relay.poll(cx, &mut near_client, &mut near_server)).await;
        let error = polled.expect_err("nobody receives");
        assert_eq!(error.action(), Action::Sending(Side::Server));
        assert_eq!(
            error.to_string(),
            "recv() or send() failed (32: Broken pipe) while proxying and sending to upstream"
        );
    });
}

/// Urgent data stops a pipe, which then looks as if nothing had arrived.
#[test]
fn urgent_data_is_left_out_and_stops_nothing() {
    run(async {
        let mut relayed = relayed(settings(), Over::Tcp, Over::Tcp).await;
        let before = pattern(1, 1 << 20);
        let after = pattern(2, 1 << 20);
        let (first, second) = (before.clone(), after.clone());
        let mut client = relayed.client;
        let sending = runtime::spawn_with_handle(async move {
            send(&mut client, first).await;
            let socket = socket2::SockRef::from(client.endpoint_mut().socket());
            while socket.send_out_of_band(b"!").is_err() {
                runtime::yield_now().await;
            }
            send(&mut client, second).await;
            client
        });
        let mut received = Vec::new();
        while received.len() < 2 << 20 {
            let bytes = receive(&mut relayed.server, 64 << 10).await.expect("sent");
            assert!(!bytes.is_empty(), "nobody has ended");
            received.extend(bytes);
        }
        assert!(received == [before, after].concat());
        end(&mut sending.await.expect("no panic")).await;
        let outcome = relayed.relay.await.expect("no panic");
        assert_eq!(outcome.ended, Ok(Ended { by: Side::Client }));
    });
}
