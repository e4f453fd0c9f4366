use super::*;
use crate::client_hello::{Parsed, collect};

/// The start of a hello that says it has `length` bytes, with so many.
fn message(length: usize) -> Vec<u8> {
    let [_, high, mid, low] = u32::try_from(length).expect("fits").to_be_bytes();
    let mut message = vec![1, high, mid, low];
    message.extend((0..length).map(|at| at as u8));
    message
}

fn in_records(message: &[u8], bytes: usize) -> Vec<u8> {
    message
        .chunks(bytes)
        .flat_map(|fragment| {
            let [high, low] = u16::try_from(fragment.len()).expect("fits").to_be_bytes();
            [&[22, 3, 1, high, low], fragment].concat()
        })
        .collect()
}

#[test]
fn a_hello_is_the_same_however_it_is_cut() {
    let message = message(40_000);
    for (record, piece) in [
        (16_384, 7),
        (1, 1),
        (1, 100_000),
        (300, 301),
        (16_000, 4096),
    ] {
        let wire = [&in_records(&message, record)[..], b"behind"].concat();
        let mut hello = HelloRecords::default();
        let mut rest = &wire[..];
        let mut collected = Collected::Incomplete;
        while collected == Collected::Incomplete {
            let (mut now, later) = rest.split_at(piece.min(rest.len()));
            let given = now.len();
            collected = hello.push(&mut now);
            rest = &wire[wire.len() - later.len() - now.len()..];
            assert!(now.len() < given, "progress");
        }
        assert_eq!(collected, Collected::Ready);
        assert_eq!(rest, b"behind");
        let (records, large) = hello.take();
        assert!(large.is_some());
        assert_eq!(records, in_records(&message, MAX_FRAGMENT_BYTES));
        assert_eq!(collect(&records), Parsed::Complete(message.clone().into()));
    }
}

#[test]
fn the_longest_hello_is_taken_and_no_longer_one() {
    let mut hello = HelloRecords::default();
    let longest = in_records(&message(MAX_HELLO_BYTES), MAX_FRAGMENT_BYTES);
    assert_eq!(hello.push(&mut &longest[..]), Collected::Ready);
    let mut hello = HelloRecords::default();
    let longer = in_records(&message(MAX_HELLO_BYTES + 1), MAX_FRAGMENT_BYTES);
    // Its length is enough to know.
    assert_eq!(hello.push(&mut &longer[..10]), Collected::TooLarge);
}

#[test]
fn what_is_no_hello_goes_to_libssl_as_it_came() {
    for bytes in [
        &b"\x16\x03\x01\x00\x00"[..],
        b"\x16\x03\x01\x40\x01",
        b"\x15",
        b"\x16\x02\x00\x00\x05",
    ] {
        let mut hello = HelloRecords::default();
        assert_eq!(
            hello.push(&mut &b"\x16\x03\x01\x00\x02\x01\x00"[..]),
            Collected::Incomplete
        );
        assert_eq!(hello.push(&mut &bytes[..]), Collected::Ready);
        let (records, _) = hello.take();
        assert_eq!(
            records,
            [&b"\x16\x03\x01\x00\x02\x01\x00"[..], bytes].concat()
        );
    }
}
