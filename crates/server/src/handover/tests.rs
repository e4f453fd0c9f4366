//! Connections on their way, and bytes that are none.

use super::*;
use crate::testing::Site;
use std::os::unix::net::UnixStream;

fn description() -> Description {
    Description {
        version: VERSION,
        listener: Listener::Inet(([127, 0, 0, 1], 80).into()),
        peer: None,
        age: Duration::from_millis(1500),
        requests: 3,
        nodelay: true,
        keepalive_timeout: Some(Duration::from_secs(75)),
        proxied: Some(Proxied {
            addresses: Some((([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into())),
            tlvs: vec![1, 0, 2, b'h', b'2'],
        }),
        tls_bytes: 0,
    }
}

#[test]
fn what_arrives_is_what_was_sent_until_the_line_ends() {
    let (old, new) = socket::seqpacket_pair().expect("a pair");
    let way = Way::open(old).expect("a thread");
    let mut ends = Vec::new();
    for _ in 0..500 {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        theirs.set_nonblocking(true).expect("any socket can be");
        ends.push(ours);
        let parcel = Parcel {
            description: description(),
            tls: None,
            socket: theirs.into(),
        };
        assert!(way.send(parcel));
    }
    drop(way);
    let site = Site::new("return 200;");
    let mut count = 0;
    let received = receive(&new, |parcel| {
        let Ok(parcel) = parcel else {
            panic!("it is readable")
        };
        let opened = site.block_on(async { parcel.open(9) });
        let Ok(Opened { facts, .. }) = opened else {
            panic!("it is a socket")
        };
        assert_eq!((facts.number, facts.requests()), (9, 3));
        assert!(facts.accepted.elapsed() >= Duration::from_millis(1500));
        let proxied = facts.proxy_protocol().expect("it came through a proxy");
        assert_eq!(proxied.raw_tlvs(), [1, 0, 2, b'h', b'2']);
        count += 1;
    });
    received.expect("the line ended in order");
    assert_eq!(count, 500);
}

#[test]
fn other_bytes_are_refused_and_what_follows_is_not() {
    let (old, new) = socket::seqpacket_pair().expect("a pair");
    let whole = description().encode(None).expect("it is small");
    let mut newer = whole.to_vec();
    newer[0] += 1;
    let (_ours, theirs) = UnixStream::pair().expect("a pair");
    for length in 1..whole.len() {
        socket::send_fds(old.as_fd(), &whole[..length], &[theirs.as_fd()]).expect("room");
    }
    socket::send_fds(old.as_fd(), &newer, &[theirs.as_fd()]).expect("room");
    socket::send_fds(old.as_fd(), &whole, &[]).expect("room");
    socket::send_fds(old.as_fd(), &whole, &[theirs.as_fd()]).expect("room");
    drop(old);
    let mut good = Vec::new();
    receive(&new, |parcel| good.push(parcel.is_ok())).expect("the line ended in order");
    assert_eq!(good.pop(), Some(true));
    assert!(!good.contains(&true));
    assert_eq!(good.len(), whole.len() + 1);
}
