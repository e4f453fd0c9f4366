//! What a client makes of answers to its first packet that come from no connection, and what comes
//! after a Retry packet.

use super::*;
use crate::{
    AddressTokenKey, Code, Initial, TokenArrival, TokenLifetimes, Unrouted, Verdict, initial,
    put_refusal, put_retry, put_retry_token, validate,
};

const RETRY_SOURCE: &[u8] = b"retry-id";

fn read(datagram: &[u8]) -> Initial<'_> {
    match initial(datagram) {
        Unrouted::Initial(initial) => initial,
        other => panic!("{other:?}"),
    }
}

/// The datagrams that the client sends now.
fn first_flight(pair: &mut Pair) -> Vec<Vec<u8>> {
    pair.flush(true);
    pair.to_server.drain(..).map(|sent| sent.bytes).collect()
}

fn give(pair: &mut Pair, datagram: &[u8]) {
    let now = pair.now;
    pair.client.take(now, datagram.to_vec());
    pair.client.work(now);
}

fn key() -> AddressTokenKey {
    AddressTokenKey::new(&[9; 32]).expect("memory")
}

fn arrival<'a>(client: &'a Initial<'_>) -> TokenArrival<'a> {
    TokenArrival {
        version: client.version,
        address: client_address(),
        destination: &client.destination,
        unix_secs: 1_700_000_000,
    }
}

fn retry(first: &Initial<'_>) -> Vec<u8> {
    let source = ConnectionId::new(RETRY_SOURCE).expect("short");
    let (mut token, mut out) = (Vec::new(), Vec::new());
    put_retry_token(&mut token, &key(), &[1; 12], &arrival(first), &source);
    put_retry(&mut out, first, &source, &token, 5);
    out
}

#[test]
fn a_client_follows_a_retry_rfc_9000_section_8_1_2() {
    let all = Version::ALL.into_iter();
    for (version, preferred) in all.flat_map(|one| Version::ALL.map(|other| (one, other))) {
        let mut pair = Pair::with(preferring(preferred), version);
        let datagrams = first_flight(&mut pair);
        let first = read(&datagrams[0]);
        give(&mut pair, &retry(&first));
        let again = first_flight(&mut pair);
        assert!(again.iter().all(|datagram| datagram.len() >= 1200));
        let second = read(&again[0]);
        assert_eq!(&second.destination[..], RETRY_SOURCE);
        assert_eq!(second.source, first.source);
        let verdict = validate(
            second.token,
            &[key()],
            &arrival(&second),
            &TokenLifetimes::default(),
        );
        let Ok(Verdict::Retry {
            original_destination,
        }) = verdict
        else {
            panic!("{verdict:?}");
        };
        assert_eq!(original_destination, first.destination);
        let addresses = Addresses {
            local: server_address(),
            remote: client_address(),
        };
        pair.server = Some(pair.accept_as(&Accepted {
            version,
            destination: second.destination,
            source: second.source,
            original_destination,
            retry_source: Some(second.destination),
            is_validated: true,
            addresses,
        }));
        for bytes in again.clone() {
            pair.to_server.push_back(UnderWay {
                arrives: pair.now,
                sent_to: server_address(),
                addresses,
                mark: Codepoint::NotEct,
                bytes,
            });
        }
        pair.handshake();
        // RFC 9369 section 4.1: the server goes over behind the Retry, not with it.
        assert_eq!(second.version, version);
        assert_eq!(pair.server().connection.version(), preferred);
        assert_eq!(pair.client.connection.version(), preferred);
    }
}

#[test]
fn the_packets_after_a_retry_have_new_numbers_rfc_9000_section_17_2_5_3() {
    let mut pair = Pair::new();
    let datagrams = first_flight(&mut pair);
    let before = (pair.client.connection.recovery).packet_number(Space::Initial, || 1);
    give(&mut pair, &retry(&read(&datagrams[0])));
    let after = (pair.client.connection.recovery).packet_number(Space::Initial, || 1);
    assert!(before > 0 && after >= before, "{before} {after}");
}

#[test]
fn only_one_retry_with_the_right_tag_is_followed_rfc_9000_section_17_2_5_2() {
    let mut pair = Pair::new();
    let datagrams = first_flight(&mut pair);
    let good = retry(&read(&datagrams[0]));
    for at in 0..good.len() {
        let mut changed = good.clone();
        changed[at] ^= 1;
        give(&mut pair, &changed);
        let negotiation = pair.client.connection.negotiation.as_ref();
        let followed = negotiation.expect("it goes on").retry_source;
        // The low bits of the first byte are covered by the tag too.
        assert_eq!(followed, None, "byte {at}");
    }
    give(&mut pair, &good);
    assert!(!first_flight(&mut pair).is_empty());
    give(&mut pair, &good);
    assert!(first_flight(&mut pair).is_empty(), "the second is dropped");
}

#[test]
fn a_server_without_a_common_version_ends_the_client_rfc_9000_section_6_2() {
    for (versions, ends) in [(&[Version::V2][..], true), (&Version::ALL[..], false)] {
        let mut pair = Pair::new();
        let mut datagram = first_flight(&mut pair).remove(0);
        // As a server sees it that does not know version 1.
        datagram[1..5].copy_from_slice(&[0xba, 0xba, 0xba, 0xba]);
        let Unrouted::UnknownVersion(unknown) = initial(&datagram) else {
            panic!("of an unknown version");
        };
        let mut out = Vec::new();
        crate::put_version_negotiation(&mut out, &unknown, versions, 3);
        give(&mut pair, &out);
        // An offer of the version in use is no honest one.
        assert_eq!(pair.client.connection.is_closed(), ends, "{versions:?}");
        if ends {
            let reason = pair.client.connection.close_reason();
            assert_eq!(reason, Some(&CloseReason::NoVersion));
        }
    }
}

#[test]
fn versions_are_not_offered_any_more_once_the_server_has_answered() {
    let mut pair = Pair::new();
    pair.flush(true);
    let mut datagram = pair.to_server[0].bytes.clone();
    datagram[1..5].copy_from_slice(&[0xba; 4]);
    let Unrouted::UnknownVersion(unknown) = initial(&datagram) else {
        panic!("of an unknown version");
    };
    let mut out = Vec::new();
    crate::put_version_negotiation(&mut out, &unknown, &[Version::V2], 3);
    pair.until("an answer", |pair| {
        pair.client.connection.counters().datagrams_received > 0
    });
    give(&mut pair, &out);
    assert!(!pair.client.connection.is_ending());
}

#[test]
fn a_token_that_is_not_valid_is_refused_rfc_9000_section_8_1_2() {
    let mut pair = Pair::new();
    let datagrams = first_flight(&mut pair);
    give(&mut pair, &retry(&read(&datagrams[0])));
    let again = first_flight(&mut pair);
    let second = read(&again[0]);
    let mut elsewhere = arrival(&second);
    elsewhere.address.set_port(1);
    let verdict = validate(
        second.token,
        &[key()],
        &elsewhere,
        &TokenLifetimes::default(),
    );
    let error = verdict.expect_err("from another port");
    assert_eq!(error.code, Code::INVALID_TOKEN);
    let mut out = Vec::new();
    put_refusal(&mut out, &second, error.code, &error.reason);
    give(&mut pair, &out);
    match pair.client.connection.close_reason() {
        Some(CloseReason::PeerError(error)) => assert_eq!(error.code, Code::INVALID_TOKEN),
        other => panic!("{other:?}"),
    }
}
