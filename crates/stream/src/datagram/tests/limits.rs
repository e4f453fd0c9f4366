//! Floods, full tables, and the end of listening.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Lets the listener receive until so many datagrams have begun sessions, are in them, or were
/// dropped. Returns the sessions that have begun.
async fn receive(
    listener: &mut DatagramListener,
    settings: &ListenerSettings<'_>,
    count: u64,
) -> Vec<Session> {
    let mut begun = Vec::<Session>::new();
    let mut cx = Context::from_waker(Waker::noop());
    let before = listener.dropped();
    loop {
        while let Poll::Ready(session) = listener.poll_session(&mut cx, settings) {
            begun.push(session.expect("it is open").expect("it works"));
        }
        let received: u64 = begun.iter().map(|session| session.received().packets).sum();
        if received + listener.dropped() - before >= count {
            return begun;
        }
        runtime::yield_now().await;
    }
}

#[test]
fn a_session_that_takes_nothing_holds_so_many_and_no_more() {
    run(async {
        // What comes in one batch is kept as a whole.
        let batch = BATCH_MESSAGES as u64;
        for (packets, bytes, expected) in [
            (10, 1 << 20, batch),
            (20, 1 << 20, 2 * batch),
            (1000, 20_000, 2 * batch),
            (1000, 10, batch),
        ] {
            let (socket, address) = bound("127.0.0.1");
            let settings = ListenerSettings {
                session_packets: packets,
                session_bytes: bytes,
                ..ListenerSettings::default()
            };
            let mut listener = DatagramListener::new(socket, address);
            let client = Peer::at("127.0.0.1");
            for _ in 0..50 {
                client.send(address, &[b'x'; 1000]).await;
            }
            let sessions = receive(&mut listener, &settings, 50).await;
            assert_eq!(sessions.len(), 1);
            assert_eq!(sessions[0].received(), traffic(expected, 1000 * expected));
            assert_eq!(listener.dropped(), 50 - expected);
            let taken = poll_fn(|cx| sessions[0].poll_receive(cx)).await;
            assert_eq!(taken.count() as u64, expected);
            client.send(address, b"there is room again").await;
            let mut cx = Context::from_waker(Waker::noop());
            while !sessions[0].has_waiting() {
                assert!(
                    listener.poll_session(&mut cx, &settings).is_pending(),
                    "it is known"
                );
                runtime::yield_now().await;
            }
        }
    });
}

#[test]
fn empty_datagrams_are_counted_as_well() {
    run(async {
        let (socket, address) = bound("127.0.0.1");
        let settings = ListenerSettings {
            session_packets: 7,
            ..ListenerSettings::default()
        };
        let mut listener = DatagramListener::new(socket, address);
        let client = Peer::at("127.0.0.1");
        for _ in 0..20 {
            client.send(address, b"").await;
        }
        let sessions = receive(&mut listener, &settings, 20).await;
        assert_eq!(sessions[0].received(), traffic(16, 0));
        assert_eq!(listener.dropped(), 4);
    });
}

#[test]
fn all_sessions_together_hold_so_much_and_no_more() {
    run(async {
        let (socket, address) = bound("127.0.0.1");
        let settings = ListenerSettings {
            waiting_bytes: 10_000,
            ..ListenerSettings::default()
        };
        let mut listener = DatagramListener::new(socket, address);
        let clients: Vec<_> = (0..30).map(|_| Peer::at("127.0.0.1")).collect();
        for client in &clients {
            client.send(address, &[b'x'; 600]).await;
        }
        let mut sessions = receive(&mut listener, &settings, 30).await;
        assert_eq!((sessions.len(), listener.sessions()), (16, 16));
        assert_eq!(listener.dropped(), 14);
        // What is taken, or goes with its session, makes room.
        let _taken = poll_fn(|cx| sessions[0].poll_receive(cx)).await;
        sessions.pop();
        for client in &clients[20..] {
            client.send(address, &[b'x'; 600]).await;
        }
        assert_eq!(receive(&mut listener, &settings, 10).await.len(), 2);
    });
}

#[test]
fn there_are_so_many_sessions_and_no_more() {
    run(async {
        let (socket, address) = bound("127.0.0.1");
        let settings = ListenerSettings {
            max_sessions: 3,
            ..ListenerSettings::default()
        };
        let mut listener = DatagramListener::new(socket, address);
        let clients: Vec<_> = (0..5).map(|_| Peer::at("127.0.0.1")).collect();
        for client in &clients {
            client.send(address, b"hello").await;
        }
        let mut sessions = receive(&mut listener, &settings, 5).await;
        assert_eq!((sessions.len(), listener.dropped()), (3, 2));
        sessions.pop();
        clients[4].send(address, b"hello").await;
        let more = receive(&mut listener, &settings, 1).await;
        assert_eq!(more.len(), 1);
        assert_eq!(more[0].client(), clients[4].address);
        let settings = ListenerSettings {
            max_sessions: 4,
            ..settings
        };
        clients[3].send(address, b"hello").await;
        assert_eq!(
            receive(&mut listener, &settings, 1).await.len(),
            1,
            "there is room for one more"
        );
        // Whoever is dropped begins again.
        drop(more);
        clients[4].send(address, b"hello").await;
        assert_eq!(receive(&mut listener, &settings, 1).await.len(), 1);
    });
}

#[test]
fn sessions_go_on_when_new_ones_are_refused() {
    run(async {
        let (socket, address) = bound("127.0.0.1");
        let mut listener = DatagramListener::new(socket, address);
        let (known, unknown) = (Peer::at("127.0.0.1"), Peer::at("127.0.0.1"));
        known.send(address, b"hello").await;
        let settings = ListenerSettings::default();
        let mut sessions = receive(&mut listener, &settings, 1).await;
        let session = sessions.pop().expect("it has begun");
        let _first = poll_fn(|cx| session.poll_receive(cx)).await;
        listener.refuse_new();
        let listening = runtime::spawn_with_handle(async move {
            let next = poll_fn(|cx| listener.poll_session(cx, &ListenerSettings::default())).await;
            assert!(next.is_none(), "new ones are refused");
            listener.dropped()
        });
        unknown.send(address, b"hello").await;
        known.send(address, b"are you there?").await;
        let packets = poll_fn(|cx| session.poll_receive(cx)).await;
        assert_eq!(packets.first(), Some(&b"are you there?"[..]));
        drop(session);
        assert_eq!(listening.await, Ok(1), "the one of the unknown client");
    });
}

/// Their first datagrams were received: nobody else has them.
#[test]
fn sessions_that_have_begun_are_returned_when_new_ones_are_refused() {
    run(async {
        let (socket, address) = bound("127.0.0.1");
        let mut listener = DatagramListener::new(socket, address);
        let clients = [Peer::at("127.0.0.1"), Peer::at("127.0.0.1")];
        for client in &clients {
            client.send(address, b"hello").await;
        }
        let settings = ListenerSettings::default();
        let first = poll_fn(|cx| listener.poll_session(cx, &settings)).await;
        let count = listener.sessions();
        listener.refuse_new();
        let mut sessions = vec![first.expect("it is open").expect("it works")];
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(session) = listener.poll_session(&mut cx, &settings) {
            sessions.push(session.expect("it has sessions").expect("it works"));
        }
        assert_eq!(sessions.len(), count);
        drop(sessions);
        assert!(
            poll_fn(|cx| listener.poll_session(cx, &settings))
                .await
                .is_none()
        );
    });
}

#[test]
fn a_listener_without_sessions_ends_at_once_when_it_refuses() {
    run(async {
        let (socket, address) = bound("127.0.0.1");
        let mut listener = DatagramListener::new(socket, address);
        Peer::at("127.0.0.1").send(address, b"hello").await;
        listener.refuse_new();
        assert!(
            poll_fn(|cx| listener.poll_session(cx, &ListenerSettings::default()))
                .await
                .is_none()
        );
    });
}

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Room in the socket is waited for by all sessions, and the event loop knows one of them.
#[test]
fn all_who_wait_for_room_are_woken() {
    let everyone = Arc::new(listener::Waiters::default());
    let (one, other) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
    let (first, second) = (Waker::from(one.clone()), Waker::from(other.clone()));
    for waker in [&first, &second, &first] {
        everyone.add(waker);
    }
    Waker::from(everyone.clone()).wake();
    let woken = || {
        (
            one.0.load(Ordering::Relaxed),
            other.0.load(Ordering::Relaxed),
        )
    };
    assert_eq!(woken(), (1, 1));
    Waker::from(everyone).wake_by_ref();
    assert_eq!(woken(), (1, 1), "nobody waits");
}

/// The socket stands for several addresses, whose servers differ.
#[test]
fn a_session_gets_as_many_as_the_address_says_that_its_client_has_sent_to() {
    run(async {
        let (socket, any) = bound("0.0.0.0");
        let at: IpAddr = "127.0.0.2".parse().expect("an address");
        let settings = ListenerSettings {
            max_requests: 3,
            max_requests_at: &[(at, 2)],
            ..ListenerSettings::default()
        };
        let mut listener = DatagramListener::new(socket, any);
        let client = Peer::at("127.0.0.1");
        for ip in ["127.0.0.1", "127.0.0.2"] {
            let to = SocketAddr::new(ip.parse().expect("an address"), any.port());
            for _ in 0..6 {
                client.send(to, b"hello").await;
            }
        }
        let sessions = receive(&mut listener, &settings, 12).await;
        let at = |ip: &str| {
            let sessions = sessions.iter();
            let there = sessions.filter(|session| session.local().ip().to_string() == ip);
            let counts: Vec<u64> = there.map(|session| session.received().packets).collect();
            counts
        };
        assert_eq!(at("127.0.0.1"), [3, 3]);
        assert_eq!(at("127.0.0.2"), [2, 2, 2]);
    });
}

#[test]
fn a_listener_that_has_refused_new_sessions_takes_them_again() {
    run(async {
        let (socket, address) = bound("127.0.0.1");
        let settings = ListenerSettings::default();
        let mut listener = DatagramListener::new(socket, address);
        let clients = [Peer::at("127.0.0.1"), Peer::at("127.0.0.1")];
        clients[0].send(address, b"hello").await;
        let sessions = receive(&mut listener, &settings, 1).await;
        listener.refuse_new();
        clients[1].send(address, b"too early").await;
        assert!(receive(&mut listener, &settings, 1).await.is_empty());
        listener.accept_new();
        clients[1].send(address, b"hello").await;
        let more = receive(&mut listener, &settings, 1).await;
        assert_eq!((sessions.len(), more.len(), listener.sessions()), (1, 1, 2));
    });
}
