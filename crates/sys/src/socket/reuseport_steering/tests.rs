use super::*;
use crate::socket::{BATCH_MESSAGES, BindAddress, BindOptions, ReceivedBatch, bind_group};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

const OPTIONS: BindOptions = BindOptions {
    backlog: 0,
    rcvbuf_bytes: None,
    sndbuf_bytes: None,
    deferred: false,
    ipv6only: true,
    keepalive: None,
    fastopen: None,
    multipath: false,
};
const CID_BYTES: u8 = 9;
const SOCKETS: usize = 4;

fn format() -> CidFormat {
    CidFormat::new(CID_BYTES, 2, [0x1234_5678, 0xcafe_babe]).unwrap()
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u8 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 56) as u8
    }

    fn cid(&mut self, format: &CidFormat, slot: u8) -> Vec<u8> {
        let mut cid: Vec<u8> = (0..format.cid_bytes()).map(|_| self.next()).collect();
        format.name_slot(&mut cid, slot);
        cid
    }
}

/// A packet with a short header, RFC 9000 section 17.3.
fn short(cid: &[u8]) -> Vec<u8> {
    [&[0x40], cid, &[0; 20]].concat()
}

/// A packet with a long header, RFC 8999 section 5.1.
fn long(cid: &[u8]) -> Vec<u8> {
    let head = [0xc0, 0, 0, 0, 1, cid.len() as u8];
    [&head[..], cid, &[0; 20]].concat()
}

/// Sockets that share a free port.
fn group(address: &str, count: usize) -> (Vec<OwnedFd>, SocketAddr) {
    let probe = UdpSocket::bind((address, 0)).unwrap();
    let inet = probe.local_addr().unwrap();
    drop(probe);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        // A program that another test starts may have the probe until its exec.
        match bind_group(&BindAddress::Datagram(inet), &OPTIONS, count) {
            Ok(sockets) => return (sockets, inet),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

fn more_sockets(first: &OwnedFd, inet: SocketAddr, count: usize) -> Vec<OwnedFd> {
    let address = BindAddress::Datagram(inet);
    crate::socket::bind_beside(first.as_fd(), &address, &OPTIONS, count).unwrap()
}

/// Which of the sockets has something.
fn receivers(sockets: &[OwnedFd]) -> Vec<usize> {
    let mut batch = ReceivedBatch::new();
    let receive = |(index, socket): (usize, &OwnedFd)| {
        let mut all = Vec::new();
        while batch.receive(socket.as_fd(), BATCH_MESSAGES).is_ok() {
            all.extend(batch.messages().map(|_| index));
        }
        all
    };
    sockets.iter().enumerate().flat_map(receive).collect()
}

/// Which of the sockets gets this datagram from a new port.
fn receiver(sockets: &[OwnedFd], to: SocketAddr, datagram: &[u8]) -> usize {
    let client = UdpSocket::bind((to.ip(), 0)).unwrap();
    receiver_from(&client, sockets, to, datagram)
}

fn receiver_from(
    client: &UdpSocket,
    sockets: &[OwnedFd],
    to: SocketAddr,
    datagram: &[u8],
) -> usize {
    client.send_to(datagram, to).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match receivers(sockets)[..] {
            [index] => return index,
            [] => assert!(Instant::now() < deadline, "nothing arrives"),
            ref several => panic!("{several:?}"),
        }
    }
}

#[test]
fn the_slot_must_fit_into_a_connection_id() {
    for (cid_bytes, slot_at, fits) in [
        (8, 0, true),
        (8, 3, true),
        (8, 4, false),
        (5, 0, true),
        (4, 0, false),
        (0, 0, false),
        (20, 15, true),
        (20, 16, false),
        (21, 0, false), // RFC 9000 section 17.2
        (20, 255, false),
    ] {
        let format = CidFormat::new(cid_bytes, slot_at, [1, 2]);
        assert_eq!(format.is_some(), fits, "{cid_bytes} {slot_at}");
    }
}

#[test]
fn a_connection_id_names_its_slot_and_keeps_its_other_bytes() {
    let mut numbers = Numbers(1);
    let format = format();
    for slot in 0..=u8::MAX {
        let random: Vec<u8> = (0..CID_BYTES).map(|_| numbers.next()).collect();
        let mut cid = random.clone();
        format.name_slot(&mut cid, slot);
        assert_eq!(format.slot(&cid), Some(slot));
        assert_eq!(format.slot_of_datagram(&short(&cid)), Some(slot));
        assert_eq!(format.slot_of_datagram(&long(&cid)), Some(slot));
        cid[2] = random[2];
        assert_eq!(cid, random);
        let mut other = vec![slot; 8];
        format.name_slot(&mut other, slot);
        assert_eq!((format.slot(&other), other), (None, vec![slot; 8]));
    }
}

/// RFC 9000 section 5.1: nothing in the ids may tell an observer that they belong together.
#[test]
fn the_same_slot_looks_like_any() {
    let (mut numbers, format) = (Numbers(2), format());
    let mut seen = [false; 256];
    for _ in 0..4096 {
        seen[usize::from(numbers.cid(&format, 3)[2])] = true;
    }
    assert!(seen.iter().all(|seen| *seen));
    let shown = format!("{format:?}");
    assert!(
        !shown.contains("key") && !shown.contains("30541989"),
        "{shown}"
    );
}

#[test]
fn no_datagram_is_too_short_to_be_looked_at() {
    let (mut numbers, format) = (Numbers(3), format());
    let cid = numbers.cid(&format, 3);
    for whole in [short(&cid), long(&cid)] {
        let least = whole.len() - 20;
        for length in 0..whole.len() {
            let slot = format.slot_of_datagram(&whole[..length]);
            assert_eq!(slot, (length >= least).then_some(3));
        }
    }
    assert_eq!(format.slot_of_datagram(&long(&cid[..8])), None);
}

#[test]
fn packets_reach_the_socket_that_their_connection_id_names_from_everywhere() {
    let (mut numbers, format) = (Numbers(4), format());
    for address in ["127.0.0.1", "::1"] {
        let (sockets, to) = group(address, SOCKETS);
        steer_by_position(sockets[1].as_fd(), &format).unwrap();
        for position in (0..SOCKETS).cycle().take(64) {
            let cid = numbers.cid(&format, position as u8);
            assert_eq!(receiver(&sockets, to, &short(&cid)), position);
            assert_eq!(receiver(&sockets, to, &long(&cid)), position);
        }
        let client = UdpSocket::bind((address, 0)).unwrap();
        for slot in (0..=u8::MAX).skip(SOCKETS) {
            // No socket has that position.
            let cid = numbers.cid(&format, slot);
            receiver_from(&client, &sockets, to, &long(&cid));
        }
    }
}

/// RFC 9000 section 7.2: the first connection id is the client's choice, and unpredictable.
#[test]
fn what_names_no_socket_goes_where_the_kernel_would_send_it() {
    let format = format();
    let (sockets, to) = group("127.0.0.1", SOCKETS);
    let clients: Vec<_> = (0..32)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let chosen = |datagram: &[u8]| -> Vec<usize> {
        let clients = clients.iter();
        clients
            .map(|client| receiver_from(client, &sockets, to, datagram))
            .collect()
    };
    let of_kernel = chosen(b"before");
    // A chance of 4^-31.
    assert!(of_kernel.iter().any(|index| *index != of_kernel[0]));
    steer_by_position(sockets[0].as_fd(), &format).unwrap();
    for datagram in [
        &b""[..],
        b"x",
        &[0x40; 6],
        &long(&[7; 8]),
        &long(&[7; 20]),
        &long(&[]),
    ] {
        assert_eq!(chosen(datagram), of_kernel);
    }
    let cid = Numbers(5).cid(&format, 2);
    assert_eq!(chosen(&short(&cid)), [2; 32]);
}

/// Positions are no names: the last socket takes that of one that is closed, a new one comes last.
#[test]
fn the_last_socket_takes_the_position_of_a_closed_one() {
    let (mut numbers, format) = (Numbers(6), format());
    let (mut sockets, to) = group("127.0.0.1", SOCKETS);
    steer_by_position(sockets[0].as_fd(), &format).unwrap();
    sockets.swap_remove(1);
    let deadline = Instant::now() + Duration::from_secs(60);
    // A program that another test starts may have it until its exec.
    let cid = numbers.cid(&format, 1);
    let arrives = || {
        UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .send_to(&short(&cid), to)
            .unwrap();
        receivers(&sockets)
    };
    while arrives() != [1] {
        assert!(Instant::now() < deadline, "the one that was the last");
    }
    sockets.extend(more_sockets(&sockets[0], to, 1));
    for position in 0..SOCKETS {
        let cid = numbers.cid(&format, position as u8);
        assert_eq!(receiver(&sockets, to, &short(&cid)), position);
    }
}

#[test]
fn sockets_that_share_no_address_are_not_steered() {
    let alone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = steer_by_position(alone.as_fd(), &format()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
}

/// Every place of the slot gives a program that the kernel takes.
#[test]
fn the_kernel_takes_the_programs_of_all_formats() {
    let (sockets, _) = group("127.0.0.1", 2);
    for (cid_bytes, slot_at) in
        (5..=20).flat_map(|bytes| (0..=bytes - 5).map(move |at| (bytes, at)))
    {
        let format = CidFormat::new(cid_bytes, slot_at, [u32::MAX, 0]).unwrap();
        steer_by_position(sockets[0].as_fd(), &format).unwrap();
    }
}
