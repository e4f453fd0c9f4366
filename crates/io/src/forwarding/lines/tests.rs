use super::*;
use crate::runtime::Runtime;
use proptest::prelude::*;
use std::future::poll_fn;

fn addresses() -> [SocketAddr; 4] {
    [
        "192.0.2.1:443".parse().expect("an address"),
        "[2001:db8::1]:8443".parse().expect("an address"),
        "[::ffff:192.0.2.1]:1".parse().expect("an address"),
        SocketAddrV6::new("fe80::1".parse().expect("an address"), 65_535, 0, 7).into(),
    ]
}

fn run<F: Future>(work: impl FnOnce(ForwardLineSender, OwnedFd) -> F) -> F::Output {
    let (one, other) = socket::seqpacket_pair().expect("descriptors");
    let runtime = Runtime::new().expect("descriptors");
    runtime.block_on(work(ForwardLineSender::new(one), other))
}

type Owned = (Vec<u8>, SocketAddr, SocketAddr, Ecn);

async fn receive(line: &mut ForwardLineReceiver, count: usize) -> Vec<Owned> {
    let mut all = Vec::new();
    while all.len() < count {
        let taken = poll_fn(|cx| {
            line.poll_receive(cx, |thread, found| {
                assert_eq!(thread, 7);
                all.push((found.bytes.to_vec(), found.peer, found.local, found.ecn));
            })
        });
        assert_ne!(taken.await.expect("a line that works"), 0, "it has ended");
    }
    all
}

#[test]
fn datagrams_of_every_kind_reach_the_other_process() {
    run(|sender, other| async move {
        let mut receiver = ForwardLineReceiver::new(other).expect("a loop");
        for (ecn, length) in [
            (Ecn::NotEct, 0),
            (Ecn::Ect1, 1),
            (Ecn::Ect0, 1452),
            (Ecn::Ce, MAX_DATAGRAM_BYTES),
        ] {
            let bytes = vec![length as u8; length];
            for peer in addresses() {
                let local = addresses()[1];
                let datagram = Forwarded {
                    bytes: &bytes[..],
                    peer,
                    local,
                    ecn,
                };
                assert!(sender.send(7, datagram));
                let received = receive(&mut receiver, 1).await;
                assert_eq!(received, [(bytes.clone(), peer, local, ecn)]);
            }
        }
        assert_eq!((sender.dropped(), receiver.malformed()), (0, 0));
    });
}

fn datagram(bytes: &[u8]) -> Forwarded<&[u8]> {
    let [peer, local, ..] = addresses();
    Forwarded {
        bytes,
        peer,
        local,
        ecn: Ecn::Ect0,
    }
}

#[test]
fn a_full_line_drops_and_counts_and_goes_on() {
    run(|sender, other| async move {
        let mut receiver = ForwardLineReceiver::new(other).expect("a loop");
        let mut sent = 0;
        while sender.send(7, datagram(&[1; 1200])) {
            sent += 1;
            assert!(sent < 1_000_000, "the kernel has a limit");
        }
        assert_eq!(sender.dropped(), 1);
        assert_eq!(receive(&mut receiver, sent).await.len(), sent);
        assert!(sender.send(7, datagram(b"again")));
        assert_eq!(receive(&mut receiver, 1).await[0].0, b"again");
        assert!(!sender.send(7, datagram(&[1; MAX_DATAGRAM_BYTES + 1])));
        assert_eq!(sender.dropped(), 2);
    });
}

#[test]
fn the_end_of_a_process_ends_its_lines_after_what_it_has_sent() {
    run(|sender, other| async move {
        let mut receiver = ForwardLineReceiver::new(other).expect("a loop");
        assert!(sender.send(7, datagram(b"last")));
        drop(sender);
        assert_eq!(receive(&mut receiver, 1).await[0].0, b"last");
        for _ in 0..2 {
            let ended = poll_fn(|cx| receiver.poll_receive(cx, |_, _| ())).await;
            assert_eq!(ended.expect("no error"), 0);
        }
    });
    run(|sender, other| async move {
        drop(other);
        assert!(!sender.send(7, datagram(b"to nobody")));
        assert_eq!(sender.dropped(), 1);
    });
}

#[test]
fn what_is_none_of_the_format_is_dropped_and_counted() {
    run(|sender, other| async move {
        let mut receiver = ForwardLineReceiver::new(other).expect("a loop");
        let mut head = Head::default();
        head.push(&[FORMAT, 3, 7]);
        head.push_address(addresses()[0]);
        head.push_address(addresses()[1]);
        let whole = head.written().to_vec();
        let with = |at: usize, value: u8| {
            let mut changed = whole.clone();
            changed[at] = value;
            changed
        };
        let mut malformed: Vec<Vec<u8>> = (1..whole.len()).map(|n| whole[..n].to_vec()).collect();
        malformed.extend([with(0, 1), with(1, 4), with(3, 5), with(10, 0)]);
        malformed.push(vec![FORMAT; BUFFER_BYTES + 100]);
        let mut longer = whole.clone();
        longer.resize(BUFFER_BYTES, 0);
        malformed.push(longer);
        let count = malformed.len() as u64;
        for message in malformed {
            socket::send_at_once(sender.fd.as_fd(), &message).expect("there is room");
        }
        assert!(sender.send(7, datagram(b"well-formed")));
        assert_eq!(receive(&mut receiver, 1).await[0].0, b"well-formed");
        assert_eq!(receiver.malformed(), count);
    });
}

#[test]
fn messages_that_are_all_malformed_do_not_keep_the_thread() {
    run(|sender, other| async move {
        let mut receiver = ForwardLineReceiver::new(other).expect("a loop");
        for _ in 0..MESSAGES_PER_POLL {
            socket::send_at_once(sender.fd.as_fd(), b"?").expect("there is room");
        }
        let mut polls = 0;
        assert!(sender.send(7, datagram(b"behind them")));
        poll_fn(|cx| {
            polls += 1;
            receiver.poll_receive(cx, |_, found| assert_eq!(found.bytes, b"behind them"))
        })
        .await
        .expect("a line that works");
        assert!(polls > 1, "others had their turn");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_message_is_too_strange(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            *first = FORMAT;
        }
        let _ = parse(&mut bytes);
    }
}
