//! However streams are split, the events are the same.

use proptest::prelude::*;

use super::*;

/// Events with the parts of the body joined.
fn joined(pieces: &[&[u8]]) -> Result<Vec<String>, Code> {
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    let mut events: Vec<String> = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let fin = index + 1 == pieces.len();
        for event in receive(&mut server, 0, piece, fin)? {
            // A changed byte may make the stream wait.
            if event.ends_with("bytes left") {
                continue;
            }
            // Bodies are made of one letter; an end may come alone.
            let part = event.strip_prefix("0 ").unwrap_or_default();
            let is_body = part.starts_with('d') || part == " end";
            match events.last_mut() {
                Some(last) if is_body && last.starts_with("0 d") => last.push_str(part),
                _ => events.push(event),
            }
        }
    }
    Ok(events)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn of_a_request(cuts in prop::collection::vec(0..200_usize, 0..12), wrong in 0..400_usize) {
        let mut bytes = [
            raw_frame(0x21, b"unknown"),
            headers(&POST),
            data("d"),
            raw_frame(0x21 + 0x1f * 0x1_0000, b""),
            data("dddddddd"),
            headers(&[("a", "b"), ("c", "d")]),
            raw_frame(0x40, b"more"),
        ]
        .concat();
        if let Some(byte) = bytes.get_mut(wrong) {
            *byte = byte.wrapping_add(1);
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let singles: Vec<&[u8]> = bytes.chunks(1).collect();
        let whole = joined(&[&bytes]);
        prop_assert_eq!(&joined(&pieces), &whole);
        prop_assert_eq!(&joined(&singles), &whole);
    }
}
