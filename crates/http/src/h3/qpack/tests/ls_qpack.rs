//! What another encoder has written, with references ahead of acknowledgements, evictions and
//! duplicates.

use super::*;

/// Feeds the sections; with `late`, every one comes before the instructions that precede it.
fn check(late: bool, piece: usize) {
    let mut decoder = Decoder::new(4096, 64);
    let mut held: Vec<u8> = Vec::new();
    let mut expected: Vec<(u64, Vec<u8>, Vec<Text>)> = Vec::new();
    let lines = include_str!("ls_qpack.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let (mut sections, mut blocked) = (0, 0);
    let mut finish = |decoder: &mut Decoder, held: &mut Vec<u8>, next: &mut Vec<_>| {
        let Some((stream, section, fields)): Option<(u64, Vec<u8>, Vec<Text>)> = next.pop() else {
            return;
        };
        sections += 1;
        let mut found = None;
        if late {
            found = decode(decoder, stream, &section).expect("valid");
        }
        for part in held.chunks(piece) {
            decoder.encoder_stream(part).expect("valid");
        }
        held.clear();
        if found.is_none() {
            if late {
                blocked += 1;
                assert_eq!(decoder.next_unblocked(), Some(stream));
            }
            found = decode(decoder, stream, &section).expect("valid");
        }
        assert_eq!(found, Some(fields));
    };
    for line in lines {
        let (kind, rest) = line.split_once(' ').expect("a kind");
        match kind {
            "E" => {
                finish(&mut decoder, &mut held, &mut expected);
                held.extend(bytes(rest));
            }
            "S" => {
                finish(&mut decoder, &mut held, &mut expected);
                let (stream, section) = rest.split_once(' ').expect("a stream");
                let stream = stream.parse().expect("a number");
                expected.push((stream, bytes(section), Vec::new()));
            }
            _ => {
                let (name, value) = rest.split_once(": ").expect("a field");
                let (_, _, fields) = expected.last_mut().expect("a section");
                fields.push(text(name, value));
            }
        }
    }
    finish(&mut decoder, &mut held, &mut expected);
    assert_eq!(sections, 40);
    assert!(!late || blocked > 0, "some section had to wait");
}

#[test]
fn sections_of_ls_qpack_are_decoded() {
    for piece in [1, 2, 7, 1000] {
        check(false, piece);
        check(true, piece);
    }
}
