//! What a server does for a peer whose packets the tests write themselves: it does what no
//! connection of ours would do.

use super::*;
use crate::connection::keys::DataKeys;
use crate::connection::paths::PathFrame;
use crate::packet::{Form, Header};
use sealane_tls::quic::{self as tls, InitialSecrets, Keys};

const PING: &[u8] = &[0x01];
const PATH_CHALLENGE: &[u8] = &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8];
/// The same with a PING: the peer has moved.
const MOVED: &[u8] = &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8, 0x01];
/// What [`PATH_CHALLENGE`] asks for.
const ANSWER: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// A server after the handshake, and the keys of its peer.
struct RawPeer {
    server: Connection,
    application: Application,
    now: Time,
    keys: Keys,
    number: u64,
}

/// The peer at this port.
fn at(port: u16) -> Addresses {
    Addresses {
        local: server_address(),
        remote: SocketAddr::from(([127, 0, 0, 1], port)),
    }
}

/// NEW_CONNECTION_ID.
fn new_id(sequence: u8) -> Vec<u8> {
    let head = [0x18, sequence, 0, 8];
    [&head[..], &[sequence + 20; 24]].concat()
}

impl RawPeer {
    fn new() -> RawPeer {
        let mut application = Application {
            random: 5,
            name: b's',
            ..Application::default()
        };
        let secrets = InitialSecrets::derive(tls::Version::V1, b"any");
        let keys = Keys::derive(tls::Version::V1, &secrets.client);
        let mut data_keys = DataKeys::new(tls::Version::V1, secrets.server);
        data_keys.set_opening(secrets.client);
        let now = Time::from_micros(1_000_000);
        let (id, _) = application.new_id();
        let remote = ConnectionId::new(b"client's").expect("8 bytes");
        let server = Connection::established(
            Arc::new(settings()),
            (id, remote),
            at(1),
            data_keys,
            now,
            &mut application,
        );
        RawPeer {
            server: server.expect("valid settings"),
            application,
            now,
            keys,
            number: 0,
        }
    }

    /// A packet with these frames comes from a port, to one of the server's ids.
    fn send(&mut self, to: usize, port: u16, frames: &[u8]) {
        let id = *self.server.local_ids().nth(to).expect("an id");
        let form = Form::OneRtt {
            spin: false,
            key_phase: false,
        };
        let header = Header {
            destination: &id,
            form,
            fixed_bit: true,
        };
        self.number += 1;
        let mut bytes = Vec::new();
        let building = header.put(self.number, self.number.checked_sub(2), &mut bytes);
        bytes.extend_from_slice(frames);
        let (head, payload) = building.close(&mut bytes);
        self.keys.packet.seal(self.number, head, payload);
        let mask = self.keys.header.mask(building.sample(&bytes));
        building.protect(&mut bytes, &mask);
        let ecn = Codepoint::NotEct;
        let owner = &mut self.application;
        self.server
            .receive(self.now, at(port), ecn, &mut bytes, owner);
    }

    /// Lets time pass. How many bytes the server sends to which port.
    fn pass(&mut self, time: Duration) -> Vec<(u16, usize)> {
        self.now = self.now + time;
        if self.server.timeout().is_some_and(|at| at <= self.now) {
            self.server.on_timeout(self.now);
        }
        let mut outbox = Outbox::default();
        let mut sent = Vec::new();
        loop {
            outbox.bytes.clear();
            let owner = &mut self.application;
            match self.server.transmit(self.now, &mut outbox, 4, owner) {
                Some(datagrams) => sent.push((datagrams.to.port(), outbox.bytes.len())),
                None => return sent,
            }
        }
    }

    /// The next frame about the path is the answer to a challenge.
    #[track_caller]
    fn is_answered(&mut self) {
        let owner = &mut self.application;
        let frame = self.server.take_path_frame(self.now, owner);
        let is_answer = |frame: &_| matches!(frame, PathFrame::Response(data) if *data == ANSWER);
        assert!(frame.as_ref().is_some_and(is_answer), "{frame:?}");
    }

    fn port(&self) -> u16 {
        self.server.addresses().remote.port()
    }
}

/// RFC 9000 section 13.2.1: what is remembered of packets does not grow for ever.
#[test]
fn a_peer_that_acknowledges_nothing_is_left() {
    for frames in [PING, PATH_CHALLENGE] {
        let mut peer = RawPeer::new();
        let mut packets = 0;
        while !peer.server.is_ending() {
            peer.send(0, 1, frames);
            peer.pass(Duration::from_micros(100));
            packets += 1;
            assert!(packets < 100_000, "{frames:?}");
        }
        assert!(packets > 10_000, "{packets}");
        let reason = peer
            .server
            .close_reason()
            .expect("it is ending")
            .to_string();
        assert!(reason.contains("nothing is acknowledged"), "{reason}");
    }
}

/// A challenge waits for nothing: its timer must not be due for as long as the window is full.
#[test]
fn a_challenge_that_is_due_does_not_wait_for_the_congestion_window() {
    let mut peer = RawPeer::new();
    peer.send(0, 1, PING);
    // A stream that the server may write on.
    peer.send(0, 1, &[0x0a, 0, 1, b'x']);
    peer.pass(Duration::ZERO);
    peer.send(0, 77, PING);
    peer.pass(Duration::ZERO);
    let data = peer.server.paths.current.asked().expect("a challenge");
    peer.send(0, 77, &[&[0x1b][..], &data].concat());
    assert!(peer.server.paths.current.path.is_validated());
    let written = peer
        .server
        .write_up_to(StreamId::from_wire(0), 100_000, false);
    assert!(written);
    for round in 0..4 {
        peer.pass(peer.server.pto());
        let next = peer.server.timeout();
        assert!(next.is_none_or(|at| at > peer.now), "{round}: {next:?}");
    }
}

/// A window is a window: answers to challenges are 1,200 bytes each.
#[test]
fn answers_to_challenges_heed_the_congestion_window() {
    let mut peer = RawPeer::new();
    let mut sent = 0;
    for _ in 0..1000 {
        peer.send(0, 1, PATH_CHALLENGE);
        let datagrams = peer.pass(Duration::from_micros(100));
        sent += datagrams.iter().map(|(_, bytes)| bytes).sum::<usize>();
    }
    // Acknowledgements aside, of some 30 bytes each.
    assert!(sent < 60_000, "{sent}");
}

/// RFC 9000 section 8.2.2: a challenge is answered, also when it comes with the packet that moves.
#[test]
fn a_challenge_is_answered_where_the_peer_has_moved() {
    // With a new id; and with the old one, with none for it to be answered from elsewhere.
    for (ids, to) in [(&[1][..], 1), (&[], 0)] {
        let mut peer = RawPeer::new();
        peer.send(0, 1, PING);
        for id in ids {
            peer.send(0, 1, &new_id(*id));
        }
        peer.pass(Duration::ZERO);
        peer.send(to, 77, MOVED);
        assert_eq!(peer.port(), 77);
        peer.is_answered();
    }
    // What was asked before stays asked.
    let mut peer = RawPeer::new();
    peer.send(0, 1, &new_id(1));
    peer.send(1, 77, PATH_CHALLENGE);
    peer.send(1, 77, PING);
    assert_eq!(peer.port(), 77);
    peer.is_answered();
}

/// RFC 9000 section 5.1.2: the id of a path that is not tried any more is retired, so that the peer
/// may give another one.
#[test]
fn ids_of_paths_that_were_tried_are_given_back() {
    let mut peer = RawPeer::new();
    peer.send(0, 1, PING);
    for id in 1..=3 {
        peer.send(0, 1, &new_id(id));
    }
    peer.pass(Duration::ZERO);
    for round in 0..3 {
        peer.send(1, 500 + round, PATH_CHALLENGE);
        peer.pass(Duration::from_millis(1));
        // Meanwhile its translator gives the peer another port.
        peer.send(0, 2 + round, PING);
        assert_eq!(peer.port(), 2 + round);
        assert!(peer.server.remote_ids.has_to_retire(), "{round}");
        peer.pass(Duration::from_millis(1));
        // The peer has learnt that it may.
        peer.send(0, 2 + round, &new_id(4 + round as u8));
    }
    peer.send(2, 900, PING);
    assert_eq!(peer.port(), 900, "it has moved, and is followed");
}

/// RFC 9000 section 8.2.1: a path on which little could be sent is asked again with datagrams of
/// full size.
#[test]
fn a_path_that_answered_a_short_challenge_is_asked_again() {
    let mut peer = RawPeer::new();
    peer.send(0, 1, PING);
    peer.pass(Duration::ZERO);
    peer.send(0, 77, PING);
    let sent = peer.pass(Duration::ZERO);
    let is_small = |(port, bytes): &(u16, usize)| *port != 77 || *bytes < 200;
    assert!(sent.iter().all(is_small), "{sent:?}");
    let answer = |peer: &mut RawPeer| {
        let data = peer.server.paths.current.asked().expect("a challenge");
        peer.send(0, 77, &[&[0x1b][..], &data].concat());
    };
    answer(&mut peer);
    assert!(peer.server.paths.current.path.is_validated());
    let sent = peer.pass(Duration::ZERO);
    assert!(sent.contains(&(77, 1200)), "{sent:?}");
    answer(&mut peer);
    assert!(peer.server.paths.current.asked().is_none());
}

/// The time for which an end that is gone is remembered does not depend on how late the peer
/// acknowledged.
#[test]
fn late_acknowledgements_do_not_make_the_end_late() {
    let mut peer = RawPeer::new();
    peer.server.ping();
    peer.pass(Duration::ZERO);
    for _ in 0..20 {
        peer.send(0, 1, PING);
        peer.pass(Duration::from_secs(25));
    }
    // All that was sent, 500 s late.
    let last = peer.server.recovery.packet_number(Space::Data, || 1 << 20) - 1;
    peer.send(0, 1, &[0x02, last as u8, 0, 0, 0]);
    assert!(peer.server.recovery.largest_acked(Space::Data).is_some());
    assert!(peer.server.pto() <= Duration::from_secs(10));
}
