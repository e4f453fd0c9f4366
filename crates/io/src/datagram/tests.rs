use super::*;
use crate::runtime::Runtime;
use std::future::poll_fn;
use std::net::UdpSocket;

pub(super) fn run<F: Future>(work: F) -> F::Output {
    Runtime::new().expect("descriptors").block_on(work)
}

pub(super) fn bound() -> (DatagramSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    let socket = DatagramSocket::bound(socket.into(), address);
    (socket.expect("inside of a runtime"), address)
}

pub(super) fn connected(address: SocketAddr) -> DatagramSocket {
    let socket = DatagramSocket::unconnected(socket2::Domain::IPV4);
    DatagramSocket::connect(socket.expect("a socket"), address).expect("on this machine")
}

pub(super) async fn receive(socket: &DatagramSocket, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < count {
        let received = poll_fn(|cx| {
            socket.poll_receive(cx, BATCH_MESSAGES, |batch| {
                for message in batch.messages() {
                    all.extend(message.datagrams().map(<[u8]>::to_vec));
                }
            })
        });
        received.await.expect("a socket that works");
    }
    all
}

#[test]
fn runs_arrive_as_datagrams_whether_they_are_cut_or_not() {
    run(async {
        for cuts in [true, false] {
            let (server, address) = bound();
            let client = connected(address);
            client.cuts.set(cuts);
            let bytes: Vec<u8> = (0..5500_u32).map(|n| (n % 251) as u8).collect();
            let runs = [
                Run {
                    bytes: &bytes,
                    segment_bytes: 1000,
                },
                Run::one(b""),
                Run::one(b"last"),
            ];
            assert_eq!(runs.map(|run| run.count()), [6, 1, 1]);
            let sent = poll_fn(|cx| client.poll_send(cx, Path::default(), runs.into_iter()));
            assert_eq!(sent.await.expect("there is room"), 8);
            let received = receive(&server, 8).await;
            let expected: Vec<_> = runs.into_iter().flat_map(Run::cut).collect();
            let expected: Vec<_> = expected.iter().map(|run| run.bytes.to_vec()).collect();
            assert_eq!(received, expected);
        }
    });
}

/// What the kernel refuses to cut, such as segments that do not fit into a packet.
#[test]
fn what_cannot_be_cut_is_sent_one_by_one() {
    run(async {
        let (server, address) = bound();
        let client = connected(address);
        // More than the kernel takes at once.
        let bytes = vec![b'x'; 30];
        let many = Run {
            bytes: &vec![b'x'; 3000],
            segment_bytes: 1,
        };
        let sent = poll_fn(|cx| client.poll_send(cx, Path::default(), std::iter::once(many)));
        let count = sent.await.expect("one by one");
        assert!((1..=BATCH_MESSAGES).contains(&count));
        assert!(!client.cuts.get());
        receive(&server, count).await;
        let run = Run {
            bytes: &bytes,
            segment_bytes: 10,
        };
        let sent = poll_fn(|cx| client.poll_send(cx, Path::default(), std::iter::once(run)));
        assert_eq!(sent.await.expect("one by one"), 3);
        assert_eq!(receive(&server, 3).await, vec![vec![b'x'; 10]; 3]);
    });
}

#[test]
fn a_path_that_does_not_exist_says_nothing_about_cutting() {
    run(async {
        let (server, _) = bound();
        let bytes = [b'x'; 30];
        let run = Run {
            bytes: &bytes,
            segment_bytes: 10,
        };
        let path = Path {
            // A sender can claim to be there.
            to: Some("127.0.0.1:0".parse().expect("an address")),
            from: None,
        };
        let sent = poll_fn(|cx| server.poll_send(cx, path, std::iter::once(run))).await;
        let error = sent.expect_err("there is no such port");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert!(server.cuts.get());
    });
}

#[test]
fn a_run_takes_what_the_kernel_can_cut() {
    let bytes = vec![0; MAX_SEGMENTED_BYTES];
    let run = |length: usize, segment_bytes| Run {
        bytes: &bytes[..length],
        segment_bytes,
    };
    assert!(run(2000, 1000).takes(1000));
    assert!(run(2000, 1000).takes(1));
    assert!(!run(2000, 1000).takes(1001), "it is longer");
    assert!(
        !run(2000, 1000).takes(0),
        "nobody could tell that it is there"
    );
    assert!(!run(1500, 1000).takes(1000), "the last one is shorter");
    assert!(!Run::one(b"").takes(1));
    assert!(!run(MAX_SEGMENTS, 1).takes(1));
    assert!(!run(64_000, 32_000).takes(32_000));
}

#[test]
fn a_refusal_is_an_error_and_the_socket_goes_on() {
    run(async {
        let (server, address) = bound();
        drop(server);
        let client = connected(address);
        let send = || async {
            let one = std::iter::once(Run::one(b"?"));
            poll_fn(|cx| client.poll_send(cx, Path::default(), one.clone())).await
        };
        assert_eq!(send().await.expect("the port is unknown yet"), 1);
        let received = poll_fn(|cx| client.poll_receive(cx, BATCH_MESSAGES, |_| ())).await;
        let refused = received.expect_err("nobody listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let again = UdpSocket::bind(address).expect("it was free");
        assert_eq!(send().await.expect("the error was taken"), 1);
        let server = DatagramSocket::bound(again.into(), address).expect("inside of a runtime");
        assert_eq!(receive(&server, 1).await, [b"?"]);
    });
}
