//! However streams are split, the events are the same.

use proptest::prelude::*;

use super::*;

/// Events with the parts of the body joined, and the body.
fn joined(pieces: &[&[u8]]) -> Result<(Vec<String>, Vec<u8>), Code> {
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    let (mut events, mut body) = (Vec::new(), Vec::new());
    for (index, piece) in pieces.iter().enumerate() {
        let fin = index + 1 == pieces.len();
        let mut rest = *piece;
        loop {
            let received = server
                .receive(0, rest, fin, NOW)
                .map_err(|error| error.code)?;
            rest = &rest[received.consumed..];
            match received.event {
                Some(Event::Data { bytes, end, .. }) => {
                    body.extend_from_slice(bytes);
                    events.extend(end.then(|| "the end".to_owned()));
                }
                Some(event) => events.push(words(event)),
                // A changed byte may make the stream wait, and then there is a rest.
                None => break,
            }
        }
    }
    Ok((events, body))
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
