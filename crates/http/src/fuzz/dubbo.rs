//! What Dubbo providers send.

use crate::dubbo::{
    AnswerLimits, Body, Event, FrameDecoder, FrameError, Header, decode_answer, decode_message,
    join_binary,
};

/// Frames of a provider, and their payloads as answers. The whole input is taken for the payload of
/// a frame, too, since a fuzzer finds few lengths that are right.
///
/// However the bytes are split, frames and errors are the same. An answer is no larger than its
/// payload, and stays within its limits.
pub fn fuzz_dubbo(data: &[u8]) {
    check_payload(data);
    let at_once = Frames::read(data, data.len().max(1));
    assert_eq!(at_once, Frames::read(data, 1), "byte by byte");
    let piece = data.len() % 13 + 2;
    assert_eq!(at_once, Frames::read(data, piece), "in pieces");
    for (header, payload) in &at_once.complete {
        assert_eq!(header.payload_bytes as usize, payload.len());
        assert_eq!(Header::decode(&header.encode()), Ok(*header));
        check_payload(payload);
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Frames {
    complete: Vec<(Header, Vec<u8>)>,
    begun: Option<(Header, Vec<u8>)>,
    error: Option<FrameError>,
}

impl Frames {
    fn read(input: &[u8], piece_bytes: usize) -> Frames {
        let mut decoder = FrameDecoder::default();
        let mut frames = Frames::default();
        for mut piece in input.chunks(piece_bytes) {
            loop {
                let decoded = match decoder.decode(piece) {
                    Ok(decoded) => decoded,
                    Err(error) => {
                        assert_eq!(decoder.decode(input), Err(error), "errors are final");
                        // How much of the number had come depends on where it was cut.
                        frames.error = Some(match error {
                            FrameError::Magic(_) => FrameError::Magic([0; 2]),
                            error => error,
                        });
                        return frames;
                    }
                };
                match decoded.event {
                    Event::NeedMore => break,
                    Event::Begin(header) => frames.begun = Some((header, Vec::new())),
                    Event::Payload(at) => {
                        let (_, payload) = frames.begun.as_mut().expect("a frame has begun");
                        payload.extend_from_slice(&piece[at]);
                    }
                    Event::End => frames.complete.extend(frames.begun.take()),
                }
                piece = &piece[decoded.consumed..];
            }
        }
        frames
    }
}

fn check_payload(payload: &[u8]) {
    let limits = AnswerLimits { head_bytes: 512 };
    let message = decode_message(payload);
    assert!(message.len() <= payload.len() && !message.contains(['\r', '\n']));
    let Ok(answer) = decode_answer(payload, &limits) else {
        return;
    };
    let lengths = answer
        .fields
        .iter()
        .map(|(name, value)| name.len() + value.len());
    assert!(lengths.sum::<usize>() <= limits.head_bytes);
    match answer.body {
        Body::None => {}
        // A number of nine bytes has up to a few hundred digits.
        Body::Text(text) => assert!(text.len() <= payload.len().max(400)),
        Body::Binary(encoded) => {
            let mut joined = payload.to_vec();
            let at = join_binary(&mut joined, encoded.clone()).expect("it was found");
            assert!(encoded.start <= at.start && at.end <= encoded.end);
            assert_eq!(joined[..encoded.start], payload[..encoded.start]);
            assert_eq!(joined[encoded.end..], payload[encoded.end..]);
        }
    }
}
