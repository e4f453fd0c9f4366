//! How connections end, RFC 9000 section 10, and what ends them.

use super::*;
use crate::frame::Frame;
use crate::{Code, Error};

#[test]
fn a_close_reaches_the_peer_with_its_code() {
    let mut pair = Pair::connected();
    let now = pair.now;
    pair.server().connection.close(now, 0x100);
    pair.until("the close", |pair| pair.client.connection.is_ending());
    let expected = CloseReason::PeerApplication {
        code: 0x100,
        reason: "".into(),
    };
    assert_eq!(pair.client.connection.close_reason(), Some(&expected));
    pair.until("the end", |pair| {
        pair.client.connection.is_closed() && pair.server().connection.is_closed()
    });
    assert_eq!(
        pair.server().connection.close_reason(),
        Some(&CloseReason::Application { code: 0x100 })
    );
}

#[test]
fn a_close_in_the_handshake_hides_the_application_rfc_9000_section_10_2_3() {
    let mut pair = Pair::new();
    pair.until("a server", |pair| pair.server.is_some());
    let now = pair.now;
    pair.server().connection.close(now, 0x100);
    pair.until("the close", |pair| pair.client.connection.is_ending());
    let reason = pair.client.connection.close_reason();
    let Some(CloseReason::PeerError(error)) = reason else {
        panic!("{reason:?}");
    };
    assert_eq!(error.code, Code::APPLICATION_ERROR);
}

#[test]
fn a_closing_end_answers_fewer_and_fewer_packets_rfc_9000_section_10_2_1() {
    let mut pair = Pair::connected();
    let now = pair.now;
    pair.server().connection.close(now, 0);
    pair.flush(false);
    let before = pair.server().connection.counters().datagrams_sent;
    for _ in 0..1000 {
        pair.server().take(now, vec![0x40; 50]);
        pair.flush(false);
    }
    let sent = pair.server().connection.counters().datagrams_sent - before;
    assert!((5..=12).contains(&sent), "{sent}");
}

#[test]
fn silence_ends_a_connection_and_traffic_keeps_it_rfc_9000_section_10_1() {
    let mut pair = Pair::connected();
    let begun = pair.now;
    for _ in 0..4 {
        pair.client.connection.ping();
        pair.pass(Duration::from_secs(20));
    }
    assert!(pair.now.since(begun) >= Duration::from_secs(80));
    assert!(!pair.client.connection.is_ending());
    pair.until("the end", |pair| {
        pair.client.connection.is_closed() && pair.server().connection.is_closed()
    });
    for end in [&pair.client, pair.server.as_ref().expect("it is there")] {
        assert_eq!(end.connection.close_reason(), Some(&CloseReason::TimedOut));
    }
}

#[test]
fn a_connection_that_is_kept_alive_outlasts_silence_rfc_9000_section_10_1_2() {
    let mut pair = Pair::connected();
    pair.server().connection.keep_alive(true);
    for _ in 0..8 {
        pair.pass(Duration::from_secs(20));
    }
    assert!(!pair.client.connection.is_ending());
    assert!(!pair.server().connection.is_ending());
    pair.server().connection.keep_alive(false);
    for _ in 0..8 {
        pair.pass(Duration::from_secs(20));
    }
    assert!(pair.server().connection.is_closed());
}

#[test]
fn a_stateless_reset_ends_a_connection_rfc_9000_section_10_3() {
    let mut pair = Pair::connected();
    let now = pair.now;
    let receive = |pair: &mut Pair, token: [u8; 16]| {
        let mut reset = vec![0x41; 43];
        reset[27..].copy_from_slice(&token);
        pair.client.take(now, reset);
    };
    receive(&mut pair, [9; 16]);
    assert!(!pair.client.connection.is_ending());
    // The token of the id of the handshake.
    receive(&mut pair, [1; 16]);
    let reason = pair.client.connection.close_reason();
    assert_eq!(reason, Some(&CloseReason::Reset));
}

/// What a server says to a frame in a 1-RTT packet.
fn after(frame: &Frame<'_>) -> Option<Error> {
    let mut pair = Pair::connected();
    let mut payload = Vec::new();
    frame.put(&mut payload);
    let now = pair.now;
    let server = pair.server.as_mut().expect("it is there");
    let addresses = server.connection.addresses();
    let id = server.connection.local_ids.first();
    let place = (crate::packet::PacketType::OneRtt, id, addresses);
    server
        .connection
        .receive_frames(now, place, &payload, &mut server.application)
        .err()
}

#[test]
fn broken_rules_end_a_connection_with_the_error_of_the_rfc() {
    let stream = |id: u64, offset, data| Frame::Stream {
        id,
        offset,
        data,
        fin: false,
    };
    let cases: [(Frame<'_>, Option<Code>); 13] = [
        (Frame::Ping, None),
        (stream(0, 0, b"x"), None),
        // Beyond the limit of streams, sections 4.6 and 19.
        (stream(4 * 100, 0, b"x"), Some(Code::STREAM_LIMIT_ERROR)),
        // Beyond the windows, section 4.1.
        (stream(0, 256 << 10, b"x"), Some(Code::FLOW_CONTROL_ERROR)),
        // A stream that the server would have opened, section 19.8.
        (stream(1, 0, b"x"), Some(Code::STREAM_STATE_ERROR)),
        (stream(3, 0, b"x"), Some(Code::STREAM_STATE_ERROR)),
        (
            Frame::StopSending { id: 2, code: 0 },
            Some(Code::STREAM_STATE_ERROR),
        ),
        (
            Frame::MaxStreamData { id: 2, limit: 1 },
            Some(Code::STREAM_STATE_ERROR),
        ),
        // Servers send these, sections 19.7 and 19.20.
        (Frame::HandshakeDone, Some(Code::PROTOCOL_VIOLATION)),
        (Frame::NewToken(b"x"), Some(Code::PROTOCOL_VIOLATION)),
        // Sequence numbers that were not issued, section 19.16.
        (Frame::RetireConnectionId(9), Some(Code::PROTOCOL_VIOLATION)),
        // The id of the packet itself.
        (Frame::RetireConnectionId(0), Some(Code::PROTOCOL_VIOLATION)),
        // A handshake that is over, RFC 9001 section 4.1.3.
        (
            Frame::Crypto {
                offset: 100_000,
                data: b"x",
            },
            Some(Code::CRYPTO_BUFFER_EXCEEDED),
        ),
    ];
    for (frame, expected) in cases {
        let error = after(&frame);
        assert_eq!(
            error.as_ref().map(|error| error.code),
            expected,
            "{frame:?}"
        );
        if let Some(error) = error {
            assert_ne!(error.frame_type, 0, "{frame:?}");
        }
    }
}

#[test]
fn random_datagrams_change_nothing() {
    let mut pair = Pair::connected();
    let now = pair.now;
    let mut bits = random(5);
    let ids: Vec<ConnectionId> = pair.server().connection.local_ids().copied().collect();
    for n in 0..20_000 {
        let len = 1 + (bits() % 100) as usize;
        let mut datagram: Vec<u8> = (0..len).map(|_| bits() as u8).collect();
        if len > 9 && n % 2 == 0 {
            datagram[0] &= 0x7f;
            datagram[1..9].copy_from_slice(&ids[n % ids.len()]);
        }
        pair.server().take(now, datagram);
        assert!(!pair.server().connection.is_ending());
    }
}
