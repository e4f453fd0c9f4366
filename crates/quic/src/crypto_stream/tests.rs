//! Handshake bytes over a network that loses, reorders and duplicates.

use proptest::prelude::*;

use super::*;

fn message(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

fn read_all(stream: &mut CryptoStream, out: &mut Vec<u8>) {
    stream.read(&mut |bytes| {
        out.extend_from_slice(bytes);
        bytes.len()
    });
}

#[test]
fn bytes_that_arrive_out_of_order_are_read_in_order() {
    let sent = message(5_000);
    let mut stream = CryptoStream::new();
    let mut got = Vec::new();
    assert_eq!(stream.on_crypto(3_000, &sent[3_000..]), Ok(false));
    assert!(stream.has_unread());
    assert_eq!(stream.on_crypto(0, &sent[..3_100]), Ok(true));
    read_all(&mut stream, &mut got);
    assert_eq!(got, sent);
    assert!(!stream.has_unread());
    assert_eq!(stream.heap_bytes(), 0);
    // A copy is ignored.
    assert_eq!(stream.on_crypto(100, &sent[100..200]), Ok(false));
}

#[test]
fn a_reader_may_take_less_than_it_is_offered() {
    let sent = message(100);
    let mut stream = CryptoStream::new();
    assert_eq!(stream.on_crypto(0, &sent), Ok(true));
    let mut got = Vec::new();
    for _ in 0..100 {
        stream.read(&mut |bytes| {
            got.push(bytes[0]);
            1
        });
        if got.len() == 50 {
            assert!(stream.has_unread());
        }
    }
    assert_eq!(got, sent);
}

#[test]
fn too_many_bytes_behind_a_gap_are_refused_rfc_9000_section_7_5() {
    let mut stream = CryptoStream::new();
    assert_eq!(stream.on_crypto(MAX_CRYPTO_BUFFER - 1, b"x"), Ok(false));
    let error = stream.on_crypto(MAX_CRYPTO_BUFFER, b"x").unwrap_err();
    assert_eq!(error.code, Code::CRYPTO_BUFFER_EXCEEDED);
    assert!(stream.heap_bytes() < 2 * MAX_CRYPTO_BUFFER as usize);
    // What was read does not count.
    assert_eq!(stream.on_crypto(0, &[0; 10]), Ok(true));
    read_all(&mut stream, &mut Vec::new());
    assert_eq!(stream.on_crypto(MAX_CRYPTO_BUFFER, b"x"), Ok(false));
}

#[test]
fn offsets_of_more_than_62_bits_are_malformed_rfc_9000_section_19_6() {
    let mut stream = CryptoStream::new();
    for offset in [varint::MAX, u64::MAX] {
        let error = stream.on_crypto(offset, b"x").unwrap_err();
        assert_eq!(error.code, Code::FRAME_ENCODING_ERROR);
    }
}

#[test]
fn frames_fit_into_the_room_and_memory_is_freed_as_they_are_acknowledged() {
    let sent = message(20_000);
    let mut stream = CryptoStream::new();
    stream.push(&sent);
    for room in [0, 1, 2, 3] {
        assert_eq!(stream.next_range(room), None);
    }
    let mut at = 0;
    for room in 4.. {
        if at == sent.len() {
            break;
        }
        let (offset, bytes) = stream.next_range(room).unwrap();
        let header = 1 + varint::len(offset) + varint::len(bytes.len() as u64);
        assert!(header + bytes.len() <= room, "{room}");
        assert!(header + bytes.len() + 2 >= room || room > 190);
        assert_eq!(offset, at as u64);
        assert_eq!(bytes, &sent[at..at + bytes.len()]);
        at += bytes.len();
    }
    assert!(!stream.has_pending());
    stream.on_acked(10_000, 10_000);
    assert!(!stream.is_all_acked());
    stream.on_lost(0, 20_000);
    assert_eq!(stream.next_range(30_000).unwrap().1, &sent[..10_000]);
    stream.on_acked(0, 10_000);
    assert!(stream.is_all_acked());
    assert_eq!(stream.heap_bytes(), 0);
    stream.on_lost(0, 20_000);
    assert!(!stream.has_pending());
}

#[test]
fn all_is_sent_again_after_a_retry() {
    let mut stream = CryptoStream::new();
    stream.push(b"ClientHello");
    assert_eq!(stream.next_range(100), Some((0, &b"ClientHello"[..])));
    stream.on_lost(2, 3);
    stream.restart_sending();
    assert_eq!(stream.next_range(100), Some((0, &b"ClientHello"[..])));
    assert!(!stream.has_pending());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_byte_arrives(
        len in 0..30_000_usize,
        steps in prop::collection::vec((0..6_u8, 0..1_500_usize, any::<u16>()), 0..120),
    ) {
        let sent = message(len);
        let (mut from, mut to) = (CryptoStream::new(), CryptoStream::new());
        let mut got = Vec::new();
        let mut pushed = 0;
        let mut network: Vec<(u64, Vec<u8>)> = Vec::new();
        // At the end everything is delivered and acknowledged.
        let settle = std::iter::repeat_n((9, 1_200, 0), 80);
        for (what, size, which) in steps.into_iter().chain(settle) {
            match what {
                0 => {
                    let end = (pushed + size).min(len);
                    from.push(&sent[pushed..end]);
                    pushed = end;
                }
                1 | 9 => {
                    if what == 9 {
                        from.push(&sent[pushed..]);
                        pushed = len;
                    }
                    if let Some((offset, bytes)) = from.next_range(size) {
                        network.push((offset, bytes.to_vec()));
                    }
                }
                2 | 3 if !network.is_empty() => {
                    let (offset, bytes) = network.swap_remove(usize::from(which) % network.len());
                    let _ = to.on_crypto(offset, &bytes).unwrap();
                    read_all(&mut to, &mut got);
                    from.on_acked(offset, bytes.len() as u64);
                    if what == 3 {
                        network.push((offset, bytes));
                    }
                }
                4 if !network.is_empty() => {
                    let (offset, bytes) = network.swap_remove(usize::from(which) % network.len());
                    from.on_lost(offset, bytes.len() as u64);
                }
                5 if !network.is_empty() => {
                    // A probe: the original may still arrive.
                    let (offset, bytes) = &network[usize::from(which) % network.len()];
                    from.on_lost(*offset, bytes.len() as u64);
                }
                _ => {}
            }
            if what == 9 {
                for (offset, bytes) in network.drain(..) {
                    to.on_crypto(offset, &bytes).unwrap();
                    from.on_acked(offset, bytes.len() as u64);
                }
                read_all(&mut to, &mut got);
            }
        }
        prop_assert_eq!(got, sent);
        prop_assert!(from.is_all_acked() && !from.has_pending());
        prop_assert_eq!(from.heap_bytes() + to.heap_bytes(), 0);
    }
}
