//! What a relay may take: memory, time, bytes a second.

use super::*;
use std::task::Waker;
use std::time::Duration;

#[test]
fn an_idle_relay_is_small() {
    assert!(size_of::<Relay>() <= 256, "{} bytes", size_of::<Relay>());
}

#[test]
fn an_idle_relay_holds_nothing() {
    run(async {
        for over in [Over::Tcp, Over::Tls] {
            let (mut near_client, mut client) = connection(over).await;
            let (mut server, mut near_server) = connection(over).await;
            let mut relay = Relay::new(settings(), Vec::new(), Vec::new());
            let bytes = pattern(5, 2 << 20);
            let count = bytes.len() as u64;
            let sending = runtime::spawn_with_handle(async move {
                send(&mut client, bytes).await;
                client
            });
            let receiving = runtime::spawn_with_handle(async move {
                let mut left = count as usize;
                while left > 0 {
                    left -= receive(&mut server, left).await.expect("sent").len();
                }
                server
            });
            poll_fn(|cx| {
                let polled = relay.poll(cx, &mut near_client, &mut near_server);
                assert!(polled.is_pending(), "nobody has ended");
                match relay.counts().to_server == count {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
            // It may have had its share of the thread when it was done.
            settle(&mut relay, &mut near_client, &mut near_server).await;
            assert!(relay.up.holds_nothing() && relay.down.holds_nothing());
            let _ends = (sending.await, receiving.await);
        }
    });
}

/// So many mebibytes to send, which take no memory.
fn flood(mebibytes: usize) -> OutboundMessage {
    static MEBIBYTE: [u8; 1 << 20] = [0; 1 << 20];
    let mut message = OutboundMessage::default();
    for _ in 0..mebibytes {
        message.body.push_bytes(&MEBIBYTE[..]);
    }
    message
}

/// Polls the relay until it has not moved anything for a while.
async fn settle(relay: &mut Relay, client: &mut Accepted, server: &mut Connected) {
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..200 {
        let polled = relay.poll(&mut cx, client, server);
        assert!(polled.is_pending(), "nobody has ended");
        runtime::yield_now().await;
    }
}

#[test]
fn a_peer_that_never_reads_is_sent_no_more_than_fits() {
    run(async {
        for over in [Over::Tcp, Over::Tls] {
            let (mut near_client, mut client) = connection(Over::Tcp).await;
            let (server, mut near_server) = connection(over).await;
            let sending = runtime::spawn_with_handle(async move {
                let mut message = flood(64);
                let _ = poll_fn(|cx| client.poll_send(cx, &mut message)).await;
            });
            let mut relay = Relay::new(settings(), Vec::new(), Vec::new());
            settle(&mut relay, &mut near_client, &mut near_server).await;
            let counts = relay.counts();
            assert!(
                counts.to_server < 32 << 20,
                "the kernel's buffers are smaller"
            );
            let held = counts.from_client - counts.to_server;
            assert!(held <= 2 << 20, "{held} bytes are on their way");
            assert!(relay.up.memory_bytes() <= sealane_io::buffers::LARGE_BYTES);
            sending.abort();
            drop(server);
        }
    });
}

#[test]
fn most_slow_readers_hold_no_more_than_their_buffer() {
    run(async {
        let mut relays = Vec::new();
        for _ in 0..MAX_BULK + 10 {
            let (mut near_client, client) = connection(Over::Tls).await;
            let (server, mut near_server) = connection(Over::Tcp).await;
            let fd = near_server.endpoint_mut().socket();
            let fd = std::os::fd::AsFd::as_fd(fd);
            sealane_sys::socket::set_buffers(fd, 4096, 4096).expect("it has some");
            let mut client = client;
            let sending = runtime::spawn_with_handle(async move {
                let mut message = flood(8);
                let _ = poll_fn(|cx| client.poll_send(cx, &mut message)).await;
            });
            let mut relay = Relay::new(settings(), Vec::new(), Vec::new());
            settle(&mut relay, &mut near_client, &mut near_server).await;
            relays.push((relay, sending, near_client, near_server, server));
        }
        let large = |relay: &Relay| relay.up.memory_bytes() > 32 << 10;
        let count = relays.iter().filter(|(relay, ..)| large(relay)).count();
        assert!(
            (1..=MAX_BULK).contains(&count),
            "{count} hold a large buffer"
        );
        for (_, sending, ..) in relays {
            sending.abort();
        }
    });
}

#[test]
fn a_flood_leaves_the_thread_to_others() {
    run(async {
        let (mut near_client, mut client) = connection(Over::Tcp).await;
        let (mut server, mut near_server) = connection(Over::Tcp).await;
        let _sending = runtime::spawn_with_handle(async move {
            let mut message = flood(32);
            let _ = poll_fn(|cx| client.poll_send(cx, &mut message)).await;
        });
        let receiving = runtime::spawn_with_handle(async move { receive_all(&mut server).await });
        let mut relay = Relay::new(settings(), Vec::new(), Vec::new());
        let mut polls = 0;
        poll_fn(|cx| {
            let before = relay.counts().from_client;
            let polled = relay.poll(cx, &mut near_client, &mut near_server);
            let moved = relay.counts().from_client - before;
            assert!(
                moved <= (SHARE_BYTES + (1 << 20)) as u64,
                "{moved} in one poll"
            );
            polls += 1;
            polled.map(|ended| ended.expect("it ends"))
        })
        .await;
        assert!(polls > 16, "{polls} polls");
        near_server.close();
        drop(near_server);
        assert_eq!(receiving.await.expect("no panic").len(), 32 << 20);
    });
}

#[test]
fn rates_are_kept_in_each_direction() {
    run(async {
        let settings = RelaySettings {
            upload_rate: 100_000,
            ..settings()
        };
        let (mut near_client, mut client) = connection(Over::Tcp).await;
        let (mut server, mut near_server) = connection(Over::Tcp).await;
        send(&mut client, vec![b'u'; 150_000]).await;
        send(&mut server, vec![b'd'; 1_000_000]).await;
        let receiving = runtime::spawn_with_handle(async move {
            let mut left = 1_000_000;
            while left > 0 {
                left -= receive(&mut client, left).await.expect("sent").len();
            }
            client
        });
        let began = std::time::Instant::now();
        let mut relay = Relay::new(settings, Vec::new(), Vec::new());
        let mut was_delayed = false;
        poll_fn(|cx| {
            assert!(
                relay
                    .poll(cx, &mut near_client, &mut near_server)
                    .is_pending()
            );
            was_delayed |= relay.is_delayed();
            let counts = relay.counts();
            let allowed = 100_000 * (began.elapsed().as_millis() as u64 + 1001) / 1000;
            assert!(counts.from_client <= allowed);
            match counts.from_client == 150_000 && counts.to_client == 1_000_000 {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        assert!(was_delayed);
        assert!(
            began.elapsed() >= Duration::from_millis(500),
            "it has to wait"
        );
        let _client = receiving.await.expect("no panic");
    });
}

#[test]
fn who_does_not_read_is_not_waited_for_as_long_as_the_rate_is() {
    run(async {
        let settings = RelaySettings {
            upload_rate: 2_000_000,
            ..settings()
        };
        let (mut near_client, mut client) = connection(Over::Tcp).await;
        let (server, mut near_server) = connection(Over::Unix).await;
        let sending = runtime::spawn_with_handle(async move {
            let mut message = flood(64);
            let _ = poll_fn(|cx| client.poll_send(cx, &mut message)).await;
        });
        let mut relay = Relay::new(settings, Vec::new(), Vec::new());
        let mut patience = std::pin::pin!(runtime::sleep(Duration::from_secs(20)));
        let mut was_stuck = false;
        poll_fn(|cx| {
            let polled = relay.poll(cx, &mut near_client, &mut near_server);
            assert!(polled.is_pending(), "nobody has ended");
            let counts = relay.counts();
            let is_stuck = counts.from_client > counts.to_server;
            was_stuck |= is_stuck;
            // The task is woken for this by nothing but the end of the wait.
            if is_stuck && !relay.is_delayed() {
                return Poll::Ready(());
            }
            let waited = patience.as_mut().poll(cx);
            assert!(waited.is_pending(), "delayed for ever ({was_stuck})");
            Poll::Pending
        })
        .await;
        sending.abort();
        drop(server);
    });
}

#[test]
fn progress_is_made_by_every_byte() {
    run(async {
        let (mut near_client, mut client) = connection(Over::Tcp).await;
        let (_server, mut near_server) = connection(Over::Tcp).await;
        let mut relay = Relay::new(settings(), Vec::new(), Vec::new());
        settle(&mut relay, &mut near_client, &mut near_server).await;
        let before = relay.progress();
        send(&mut client, b"x".to_vec()).await;
        settle(&mut relay, &mut near_client, &mut near_server).await;
        assert_ne!(relay.progress(), before);
    });
}
