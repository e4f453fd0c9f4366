//! Whatever the sizes, the order and the speed: bytes arrive as they were sent.

use super::*;
use proptest::prelude::*;
use sealane_io::pipe;

/// What one peer does.
#[derive(Debug, Clone)]
struct Conduct {
    /// Sizes of what it sends, one after the other.
    sends: Vec<usize>,
    /// The most that it receives at a time.
    receives: usize,
    /// Turns of the loop that it lets pass between two calls.
    rests: usize,
}

fn conduct() -> impl Strategy<Value = Conduct> {
    let size = prop_oneof![
        4 => 1_usize..3000,
        2 => Just(16 << 10),
        2 => 3000_usize..300_000,
        1 => Just(2 << 20),
    ];
    let sends = proptest::collection::vec(size, 0..12);
    (sends, 1_usize..200_000, 0_usize..4).prop_map(|(sends, receives, rests)| Conduct {
        sends,
        // Not so few at a time that a case takes long.
        receives: receives.max(500),
        rests,
    })
}

fn over() -> impl Strategy<Value = Over> {
    prop_oneof![2 => Just(Over::Tcp), 1 => Just(Over::Unix), 1 => Just(Over::Tls)]
}

/// Sends and receives as told; returns what was received. Both directions of a peer are polled
/// together, as a peer does that has two threads.
async fn behave<T: KernelSeal>(mut stream: Stream<Alone, T>, conduct: Conduct, seed: u32) -> Vec<u8>
where
    T::Error: fmt::Debug,
{
    let bytes = pattern(seed, conduct.sends.iter().sum());
    let mut rest = &bytes[..];
    let mut sizes = conduct.sends.iter();
    let mut message = OutboundMessage::default();
    let (mut has_sent, mut all) = (false, Vec::new());
    let mut has_received = false;
    while !(has_sent && has_received) {
        for _ in 0..conduct.rests {
            runtime::yield_now().await;
        }
        poll_fn(|cx| {
            let mut went_on = false;
            if !has_sent && message.is_empty() && !stream.has_unsent() {
                match sizes.next() {
                    Some(size) => {
                        let (now, later) = rest.split_at(*size);
                        (message.head, rest) = (now.to_vec(), later);
                    }
                    None => has_sent = true,
                }
                went_on = true;
            }
            if !message.is_empty() || stream.has_unsent() {
                let sent = stream.poll_send(cx, &mut message);
                went_on |= sent.map(|sent| sent.expect("received")).is_ready();
            }
            if !has_received {
                let mut buffer = Vec::new();
                if let Poll::Ready(received) =
                    stream.poll_receive(cx, &mut buffer, conduct.receives)
                {
                    has_received = received.expect("sent") == Received::End;
                    went_on = true;
                }
                all.extend(buffer);
            }
            match went_on {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        if has_sent && rest.is_empty() && message.is_empty() && !stream.has_unsent() {
            end(&mut stream).await;
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn bytes_arrive_as_they_were_sent(
        client_over in over(),
        server_over in over(),
        client_does in conduct(),
        server_does in conduct(),
        buffer_bytes in prop_oneof![Just(16_usize << 10), 1_usize..40_000, Just(200_usize << 10)],
        preread in 0_usize..5000,
        has_pipes in proptest::bool::weighted(0.7),
    ) {
        run(async {
            let settings = RelaySettings {
                buffer_bytes: buffer_bytes.max(200),
                half_close: true,
                ..settings()
            };
            let preread = pattern(99, preread);
            let _others_have_them: Vec<_> = match has_pipes {
                true => Vec::new(),
                false => std::iter::from_fn(pipe::take).collect(),
            };
            let relayed =
                relayed_after(settings, client_over, server_over, preread.clone()).await;
            let (client_sends, server_sends) = (
                pattern(1, client_does.sends.iter().sum()),
                pattern(2, server_does.sends.iter().sum()),
            );
            let client = runtime::spawn_with_handle(behave(relayed.client, client_does, 1));
            let server = runtime::spawn_with_handle(behave(relayed.server, server_does, 2));
            let at_client = client.await.expect("no panic");
            let at_server = server.await.expect("no panic");
            let outcome = relayed.relay.await.expect("no panic");
            let expected = [preread, client_sends].concat();
            assert!(at_server == expected, "{} of {}", at_server.len(), expected.len());
            assert!(
                at_client == server_sends,
                "{} of {}",
                at_client.len(),
                server_sends.len()
            );
            assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
            assert!(outcome.ended.is_ok(), "{:?}", outcome.ended);
            let (up, down) = (expected.len() as u64, server_sends.len() as u64);
            assert_eq!(
                outcome.counts,
                Counts { from_client: up, to_server: up, from_server: down, to_client: down }
            );
        });
    }
}
