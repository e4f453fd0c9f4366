use super::*;
use proptest::prelude::*;

/// No cipher, but it changes every byte, and its tag depends on all that is handed in.
struct TestKey(u32);

impl TestKey {
    fn tag(&self, nonce: &[u8], aad: &[u8], text: &[u8]) -> [u8; 16] {
        let parts = [nonce, aad, text, &self.0.to_be_bytes()].concat();
        let digest = parts
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |digest, &byte| {
                (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&digest.to_be_bytes());
        tag
    }
}

impl TokenKey for TestKey {
    fn id(&self) -> u32 {
        self.0
    }

    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text_and_room: &mut [u8]) {
        let (text, room) = text_and_room.split_at_mut(text_and_room.len() - 16);
        text.iter_mut().for_each(|byte| *byte ^= 0x5a);
        room.copy_from_slice(&self.tag(nonce, aad, text));
    }

    fn open(&self, nonce: &[u8; 12], aad: &[u8], text_and_tag: &mut [u8]) -> bool {
        let (text, tag) = text_and_tag.split_at_mut(text_and_tag.len() - 16);
        let is_right = *tag == self.tag(nonce, aad, text);
        text.iter_mut().for_each(|byte| *byte ^= 0x5a);
        is_right
    }
}

const NONCE: [u8; 12] = *b"twelve bytes";
const NOW: u64 = 1_800_000_000;

fn original() -> ConnectionId {
    ConnectionId::new(&[1; 20]).unwrap()
}

fn retry_source() -> ConnectionId {
    ConnectionId::new(&[2; 20]).unwrap()
}

fn arrival<'a>(destination: &'a ConnectionId, address: &str, unix_secs: u64) -> Arrival<'a> {
    Arrival {
        version: Version::V1,
        address: address.parse().unwrap(),
        destination,
        unix_secs,
    }
}

fn check(token: &[u8], arrival: &Arrival<'_>) -> Result<Verdict, Code> {
    let keys = [TestKey(2), TestKey(1)];
    validate(token, &keys, arrival, &TokenLifetimes::default()).map_err(|error| error.code)
}

fn retry_token() -> Vec<u8> {
    let mut token = Vec::new();
    let original = original();
    let first = &arrival(&original, "192.0.2.1:1234", NOW);
    put_retry_token(&mut token, &TestKey(1), &NONCE, first, &retry_source());
    token
}

fn new_token() -> Vec<u8> {
    let mut token = Vec::new();
    let original = original();
    let first = &arrival(&original, "192.0.2.1:1234", NOW);
    put_new_token(&mut token, &TestKey(1), &NONCE, first);
    token
}

#[test]
fn retry_tokens_are_for_one_address_one_id_and_a_short_time_rfc_9000_section_8_1_2() {
    let token = retry_token();
    assert_eq!(token.len(), MAX_LEN);
    let (destination, other) = (retry_source(), original());
    let good = Ok(Verdict::Retry {
        original_destination: original(),
    });
    let invalid = Err(Code::INVALID_TOKEN);
    for (destination, address, unix_secs, expected) in [
        (&destination, "192.0.2.1:1234", NOW, good),
        (&destination, "[::ffff:192.0.2.1]:1234", NOW + 10, good),
        (&destination, "192.0.2.1:1234", NOW + 11, invalid),
        // The clock of the node that issued it may be ahead.
        (&destination, "192.0.2.1:1234", NOW - 5, good),
        (&destination, "192.0.2.1:1234", NOW - 6, invalid),
        (&destination, "192.0.2.1:1235", NOW, invalid),
        (&destination, "192.0.2.2:1234", NOW, invalid),
        (&other, "192.0.2.1:1234", NOW, invalid),
    ] {
        let verdict = check(&token, &arrival(destination, address, unix_secs));
        assert_eq!(verdict, expected, "{destination} {address} {unix_secs}");
    }
}

#[test]
fn new_tokens_are_for_an_ip_address_and_otherwise_as_none_rfc_9000_section_8_1_3() {
    let token = new_token();
    let good = Ok(Verdict::NewToken { nonce: NONCE });
    let unproven = Ok(Verdict::Unproven);
    for (address, unix_secs, expected) in [
        ("192.0.2.1:1234", NOW, good),
        ("192.0.2.1:9", NOW + 24 * 60 * 60, good),
        ("192.0.2.1:9", NOW + 24 * 60 * 60 + 1, unproven),
        ("192.0.2.1:9", NOW - 6, unproven),
        ("192.0.2.2:1234", NOW, unproven),
        ("[2001:db8::1]:1234", NOW, unproven),
    ] {
        let verdict = check(&token, &arrival(&retry_source(), address, unix_secs));
        assert_eq!(verdict, expected, "{address} {unix_secs}");
    }
}

#[test]
fn tokens_are_for_one_version_rfc_9369_section_5() {
    let destination = retry_source();
    let mut second = arrival(&destination, "192.0.2.1:1234", NOW);
    second.version = Version::V2;
    assert_eq!(check(&new_token(), &second), Ok(Verdict::Unproven));
    assert_eq!(check(&retry_token(), &second), Err(Code::INVALID_TOKEN));
}

#[test]
fn changed_tokens_prove_nothing_rfc_9000_section_8_1_4() {
    let destination = retry_source();
    let at = arrival(&destination, "192.0.2.1:1234", NOW);
    for token in [retry_token(), new_token()] {
        for place in 0..token.len() {
            let mut changed = token.clone();
            changed[place] ^= 1;
            let verdict = check(&changed, &at);
            // The first five bytes say whether it is a token of this server at all.
            let is_ours = place >= 5;
            let expected = match token[0] == 0x52 && is_ours {
                true => Err(Code::INVALID_TOKEN),
                false => Ok(Verdict::Unproven),
            };
            assert_eq!(verdict, expected, "{place}");
        }
        for len in 0..token.len() {
            let verdict = check(&token[..len], &at);
            assert!(matches!(
                verdict,
                Ok(Verdict::Unproven) | Err(Code::INVALID_TOKEN)
            ));
        }
        // One kind is not taken for the other.
        let mut other_kind = token.clone();
        other_kind[0] ^= 0x52 ^ 0x4e;
        let expected = match other_kind[0] {
            0x52 => Err(Code::INVALID_TOKEN),
            _ => Ok(Verdict::Unproven),
        };
        assert_eq!(check(&other_kind, &at), expected);
    }
}

#[test]
fn keys_rotate_and_foreign_tokens_are_as_none() {
    let destination = retry_source();
    let at = arrival(&destination, "192.0.2.1:1234", NOW);
    assert!(matches!(
        check(&retry_token(), &at),
        Ok(Verdict::Retry { .. })
    ));
    let newer = [TestKey(3), TestKey(2)];
    for token in [
        retry_token(),
        new_token(),
        b"a token of another server".to_vec(),
        vec![],
    ] {
        let verdict = validate(&token, &newer, &at, &TokenLifetimes::default());
        assert_eq!(verdict, Ok(Verdict::Unproven));
    }
}

#[test]
fn tokens_do_not_show_addresses() {
    for token in [retry_token(), new_token()] {
        assert!(!token.windows(4).any(|bytes| bytes == [192, 0, 2, 1]));
    }
}

proptest! {
    #[test]
    fn any_bytes(
        kind in prop::sample::select(&[0x52_u8, 0x4e, 0][..]),
        rest in prop::collection::vec(any::<u8>(), 0..2 * MAX_LEN),
    ) {
        let data = [&[kind, 0, 0, 0, 0][..], &rest].concat();
        crate::fuzz::tokens(&data);
    }

    #[test]
    fn ids_of_all_lengths_come_back(
        original in prop::collection::vec(any::<u8>(), 0..=20),
        source in prop::collection::vec(any::<u8>(), 0..=20),
        ip in any::<[u8; 16]>(),
        port in any::<u16>(),
    ) {
        let (original, source) = (ConnectionId::new(&original).unwrap(), ConnectionId::new(&source).unwrap());
        let mut at = arrival(&original, "192.0.2.1:1234", NOW);
        at.address = (ip, port).into();
        let mut token = b"before".to_vec();
        put_retry_token(&mut token, &TestKey(2), &NONCE, &at, &source);
        at.destination = &source;
        let expected = Ok(Verdict::Retry { original_destination: original });
        prop_assert_eq!(check(&token[6..], &at), expected);
    }
}
