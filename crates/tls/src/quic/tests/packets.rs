//! The protection of packets, against the examples of the RFCs.

use proptest::prelude::*;
use sealane_awslc::expand_label;

use super::appendix::{
    Appendix, CLIENT_CRYPTO, DESTINATION_ID, RFC_9001, RFC_9369, SERVER_PAYLOAD, SHORT_PAYLOAD,
    Side,
};
use crate::quic::{
    HeaderKey, InitialSecrets, Keys, PacketKey, RETRY_TAG_BYTES, Suite, TrafficSecret, Version,
    next_secret, retry_tag,
};

const SUITES: [Suite; 3] = [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305];

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

fn secret(suite: Suite, fill: u8) -> TrafficSecret {
    TrafficSecret::new(suite, &vec![fill; suite.secret_bytes()]).expect("the suite's length")
}

/// Sections A.1 and A.5: what is derived from a secret.
fn check_derivation(version: Version, secret: &TrafficSecret, side: &Side) {
    assert_eq!(secret.expose(), bytes(side.secret), "{version:?} secret");
    let labels = version.labels();
    for (label, expected) in [
        (labels.key, side.key),
        (labels.iv, side.iv),
        (labels.header, side.hp),
    ] {
        let expected = bytes(expected);
        let mut derived = vec![0; expected.len()];
        expand_label(secret, label, &mut derived);
        assert_eq!(derived, expected, "{version:?}");
    }
}

/// Seals the packet as it is described, and opens it again.
fn check_packet(version: Version, secret: &TrafficSecret, side: &Side, payload: &[u8]) {
    let keys = Keys::derive(version, secret);
    let header = bytes(side.header);
    let mut sealed = [payload, &[0; PacketKey::TAG_BYTES]].concat();
    keys.packet.seal(side.number, &header, &mut sealed);
    let number_bytes = usize::from(header[0] & 3) + 1;
    let sample_at = 4 - number_bytes;
    let sample = sealed[sample_at..][..HeaderKey::SAMPLE_BYTES].try_into();
    let sample: [u8; 16] = sample.expect("16 bytes");
    assert_eq!(sample[..], bytes(side.sample), "{version:?} sample");
    let mask = keys.header.mask(&sample);
    assert_eq!(mask[..], bytes(side.mask), "{version:?} mask");
    let mut packet = [&header[..], &sealed].concat();
    packet[0] ^= mask[0] & if header[0] & 0x80 != 0 { 0x0f } else { 0x1f };
    let number_at = header.len() - number_bytes;
    for (byte, mask) in packet[number_at..header.len()].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
    }
    assert_eq!(packet, bytes(side.packet), "{version:?} packet");
    let opened = keys.packet.open(side.number, &header, &mut sealed);
    assert_eq!(opened, Some(payload.len()));
    assert_eq!(&sealed[..payload.len()], payload);
}

fn check(appendix: &Appendix) {
    let version = appendix.version;
    let initial = InitialSecrets::derive(version, &bytes(DESTINATION_ID));
    check_derivation(version, &initial.client, &appendix.client);
    check_derivation(version, &initial.server, &appendix.server);
    let mut client_payload = bytes(CLIENT_CRYPTO);
    client_payload.resize(1162, 0);
    check_packet(version, &initial.client, &appendix.client, &client_payload);
    let server_payload = bytes(SERVER_PAYLOAD);
    check_packet(version, &initial.server, &appendix.server, &server_payload);
    let short = TrafficSecret::new(Suite::ChaCha20Poly1305, &bytes(appendix.short.secret));
    let short = short.expect("32 bytes");
    check_derivation(version, &short, &appendix.short);
    check_packet(version, &short, &appendix.short, &bytes(SHORT_PAYLOAD));
    let updated = next_secret(version, &short);
    assert_eq!(updated.expose(), bytes(appendix.updated));
    assert_eq!(updated.suite(), Suite::ChaCha20Poly1305);
    let retry = bytes(appendix.retry);
    let (packet, tag) = retry.split_at(retry.len() - RETRY_TAG_BYTES);
    assert_eq!(retry_tag(version, &bytes(DESTINATION_ID), packet)[..], *tag);
}

#[test]
fn packets_of_version_1_are_those_of_rfc_9001_appendix_a() {
    check(&RFC_9001);
}

#[test]
fn packets_of_version_2_are_those_of_rfc_9369_appendix_a() {
    check(&RFC_9369);
}

/// RFC 9001 section 6.6, for packets of any size.
#[test]
fn limits_are_those_of_the_suites() {
    for suite in [Suite::Aes128Gcm, Suite::Aes256Gcm] {
        assert_eq!(suite.confidentiality_limit(), 1 << 23);
        assert_eq!(suite.integrity_limit(), 1 << 52);
    }
    let suite = Suite::ChaCha20Poly1305;
    assert!(suite.confidentiality_limit() >= 1 << 62);
    assert_eq!(suite.integrity_limit(), 1 << 36);
}

/// RFC 9001 section 6.1: each update gives other keys, and those of headers stay.
#[test]
fn updates_go_on_and_differ_by_version() {
    for suite in SUITES {
        let first = secret(suite, 1);
        let second = next_secret(Version::V1, &first);
        let third = next_secret(Version::V1, &second);
        assert!(first != second && second != third && first != third);
        assert_ne!(next_secret(Version::V2, &first), second);
        let mut sealed = vec![7; 100];
        PacketKey::derive(Version::V1, &first).seal(0, b"header", &mut sealed);
        let opened = PacketKey::derive(Version::V1, &second).open(0, b"header", &mut sealed);
        assert_eq!(opened, None);
    }
}

#[test]
fn packets_without_room_for_a_tag_do_not_open() {
    for suite in SUITES {
        let key = PacketKey::derive(Version::V1, &secret(suite, 2));
        for length in 0..PacketKey::TAG_BYTES {
            assert_eq!(key.open(0, b"", &mut vec![0; length]), None);
        }
        let mut empty = [0; PacketKey::TAG_BYTES];
        key.seal(9, b"header", &mut empty);
        assert_eq!(key.open(9, b"header", &mut empty), Some(0));
    }
}

#[test]
fn secrets_of_another_length_are_refused_and_none_is_shown() {
    for suite in SUITES {
        assert_eq!(TrafficSecret::new(suite, &[0; 16]), None);
        let keys = Keys::derive(Version::V2, &secret(suite, 0xab));
        let shown = format!("{keys:?} {:?}", secret(suite, 0xab));
        assert!(!shown.contains("ab,") && !shown.contains("171"), "{shown}");
        assert_eq!(shown.matches("redacted").count(), 3, "{shown}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// RFC 9001 section 5.3: the nonce is the packet number, and the header is authenticated.
    #[test]
    fn only_the_same_number_header_and_ciphertext_open(
        suite in 0..3_usize,
        number in 0..1_u64 << 62,
        header in prop::collection::vec(any::<u8>(), 1..60),
        payload in prop::collection::vec(any::<u8>(), 0..1500),
        flip in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let key = PacketKey::derive(Version::V1, &secret(SUITES[suite], 3));
        let mut sealed = [&payload[..], &[0; PacketKey::TAG_BYTES]].concat();
        key.seal(number, &header, &mut sealed);
        prop_assert_eq!(key.open(number ^ 1, &header, &mut sealed.clone()), None);
        let mut other = header.clone();
        other[flip.index(header.len())] ^= 1 << bit;
        prop_assert_eq!(key.open(number, &other, &mut sealed.clone()), None);
        let mut damaged = sealed.clone();
        damaged[flip.index(sealed.len())] ^= 1 << bit;
        prop_assert_eq!(key.open(number, &header, &mut damaged), None);
        prop_assert_eq!(key.open(number, &header, &mut sealed), Some(payload.len()));
        prop_assert_eq!(&sealed[..payload.len()], &payload[..]);
    }
}
