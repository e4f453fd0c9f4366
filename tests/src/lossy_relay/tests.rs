use super::*;
use crate::wait_for;

/// A server that answers each datagram with itself, and remembers where they came from.
struct Echo {
    port: u16,
    senders: Arc<Mutex<Vec<SocketAddr>>>,
    stop: Arc<AtomicBool>,
}

impl Echo {
    fn start() -> Echo {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let senders = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, stopped) = (senders.clone(), stop.clone());
        socket.set_read_timeout(Some(LOOK_UP)).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while !stopped.load(Relaxed) {
                if let Ok((count, from)) = socket.recv_from(&mut buffer) {
                    let mut seen = seen.lock().unwrap();
                    if seen.last() != Some(&from) {
                        seen.push(from);
                    }
                    socket.send_to(&buffer[..count], from).unwrap();
                }
            }
        });
        Echo {
            port,
            senders,
            stop,
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

fn client() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    socket
}

/// Sends numbered datagrams of `bytes` bytes, and waits until the relay has dealt with all.
fn send(relay: &LossyRelay, client: &UdpSocket, count: u16, bytes: usize) {
    for number in 0..count {
        let mut datagram = vec![0; bytes];
        datagram[..2].copy_from_slice(&number.to_be_bytes());
        client.send_to(&datagram, relay.address()).unwrap();
        // Slower than the socket's buffer fills.
        if number % 32 == 31 {
            wait_for("the relay", || {
                (relay.counts().from_clients > u64::from(number)).then_some(())
            });
        }
    }
}

/// What has come back once the relay's counts do not change any more.
fn received(relay: &LossyRelay, client: &UdpSocket) -> Vec<u16> {
    let mut last = relay.counts();
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = relay.counts();
        if now == last {
            break;
        }
        last = now;
    }
    client.set_nonblocking(true).unwrap();
    let mut numbers = Vec::new();
    let mut buffer = [0; 2000];
    while client.recv_from(&mut buffer).is_ok() {
        numbers.push(u16::from_be_bytes([buffer[0], buffer[1]]));
    }
    numbers
}

#[test]
fn a_perfect_network_changes_nothing() {
    let echo = Echo::start();
    let relay = LossyRelay::start(echo.port, NetworkConditions::default(), 1);
    let client = client();
    send(&relay, &client, 100, 100);
    assert_eq!(received(&relay, &client), Vec::from_iter(0..100));
    let counts = relay.counts();
    assert_eq!((counts.delivered, counts.lost), (200, 0));
}

#[test]
fn some_are_lost_doubled_and_overtaken() {
    let echo = Echo::start();
    let conditions = NetworkConditions {
        lost: 200,
        duplicated: 100,
        reordered: 100,
        delay: Duration::from_millis(1),
        ..NetworkConditions::default()
    };
    let relay = LossyRelay::start(echo.port, conditions, 2);
    let client = client();
    send(&relay, &client, 400, 100);
    let numbers = received(&relay, &client);
    let counts = relay.counts();
    // Both directions: 400 times 200 thousandths, twice; bounds that no seed of a thousand misses.
    assert!((80..240).contains(&counts.lost), "{counts:?}");
    assert!((30..160).contains(&counts.duplicated), "{counts:?}");
    assert!((30..160).contains(&counts.reordered), "{counts:?}");
    assert!(!numbers.is_sorted(), "nothing was overtaken");
    let distinct = std::collections::BTreeSet::from_iter(&numbers);
    assert!(distinct.len() < numbers.len(), "nothing came twice");
    assert!(distinct.len() < 400, "nothing was lost");
    let coming_in = counts.from_clients + counts.from_server;
    assert_eq!(
        counts.delivered,
        coming_in - counts.lost + counts.duplicated
    );
}

#[test]
fn a_narrow_line_drops_what_waits_too_long() {
    let echo = Echo::start();
    let conditions = NetworkConditions {
        bandwidth: Some(100_000),
        queue: Duration::from_millis(100),
        ..NetworkConditions::default()
    };
    let relay = LossyRelay::start(echo.port, conditions, 3);
    let client = client();
    // Half a second's worth at once, of which a queue of 100 ms holds a part.
    send(&relay, &client, 50, 1000);
    let numbers = received(&relay, &client);
    assert!(
        relay.counts().lost > 0 && !numbers.is_empty(),
        "{numbers:?}"
    );
    assert!(numbers.is_sorted());
}

#[test]
fn large_ones_are_lost_and_conditions_change() {
    let echo = Echo::start();
    let small = NetworkConditions {
        max_datagram_bytes: 1280,
        ..NetworkConditions::default()
    };
    let relay = LossyRelay::start(echo.port, small, 4);
    let client = client();
    send(&relay, &client, 1, 1281);
    assert!(received(&relay, &client).is_empty());
    relay.change(NetworkConditions::default());
    send(&relay, &client, 1, 1281);
    assert_eq!(received(&relay, &client), [0]);
}

#[test]
fn one_bit_is_another() {
    let echo = Echo::start();
    let conditions = NetworkConditions {
        corrupted: 1000,
        ..NetworkConditions::default()
    };
    let relay = LossyRelay::start(echo.port, conditions, 5);
    let client = client();
    client.send_to(&[0; 100], relay.address()).unwrap();
    let mut buffer = [0; 200];
    let (count, _) = client.recv_from(&mut buffer).unwrap();
    let ones: u32 = buffer[..count].iter().map(|byte| byte.count_ones()).sum();
    // Changed on both ways; the same bit twice would be none.
    assert_eq!((count, ones), (100, 2));
    assert_eq!(relay.counts().corrupted, 2);
}

#[test]
fn a_client_gets_other_ports_and_addresses() {
    let echo = Echo::start();
    let relay = LossyRelay::start(echo.port, NetworkConditions::default(), 6);
    let client = client();
    let mut buffer = [0; 100];
    let mut round_trip = || {
        client.send_to(b"x", relay.address()).unwrap();
        client.recv_from(&mut buffer).unwrap();
    };
    round_trip();
    relay.rebind();
    round_trip();
    relay.rebind_to(IpAddr::from([127, 0, 0, 2]));
    round_trip();
    let senders = echo.senders.lock().unwrap().clone();
    assert_eq!(senders.len(), 3, "{senders:?}");
    assert_ne!(senders[0].port(), senders[1].port());
    assert_eq!(senders[2].ip(), IpAddr::from([127, 0, 0, 2]));
}

#[test]
fn it_stops_when_it_is_dropped() {
    let echo = Echo::start();
    let relay = LossyRelay::start(echo.port, NetworkConditions::default(), 7);
    let address = relay.address();
    drop(relay);
    // The port is free once its reader has looked up.
    wait_for("the relay's end", || UdpSocket::bind(address).ok());
}
