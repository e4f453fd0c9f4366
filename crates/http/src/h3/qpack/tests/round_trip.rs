//! Whatever our encoder writes, our decoder reads, in whatever order it arrives.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// A section with its stream, and what it was made of.
type Sent = (u64, Vec<u8>, Vec<(String, String)>);

#[derive(Clone, Debug)]
enum Action {
    /// Encodes fields with these names and values.
    Encode(Vec<(usize, usize)>),
    /// Delivers so many bytes of the encoder's stream.
    Instructions(usize),
    /// Delivers the oldest section.
    Section,
    /// Delivers so many bytes of the decoder's stream.
    Acknowledge(usize),
    /// The receiver gives up the oldest section.
    Cancel,
}

fn step() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => prop::collection::vec((0..NAMES.len(), 0..VALUES), 0..8).prop_map(Action::Encode),
        3 => (0..200_usize).prop_map(Action::Instructions),
        3 => Just(Action::Section),
        2 => (0..20_usize).prop_map(Action::Acknowledge),
        1 => Just(Action::Cancel),
    ]
}

const NAMES: [&str; 10] = [
    ":status",
    "server",
    "date",
    "content-type",
    "vary",
    "set-cookie",
    "x-a",
    "x-b",
    "cache-control",
    "location",
];
const VALUES: usize = 12;

fn value_of(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => "200".into(),
        2 => "text/plain".into(),
        number => format!("{number}").repeat(number * 4),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn of_any_fields_in_any_order(
        capacity in prop_oneof![Just(0_u32), 32..200_u32, Just(4096)],
        blocked in 0..4_usize,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut decoder = Decoder::new(capacity, blocked);
        let mut encoder = Encoder::new(4096);
        encoder.peer_allows(capacity.into(), blocked as u64);
        let (mut stream, mut has_type, mut is_acknowledged) = (0, false, false);
        let mut to_decoder: VecDeque<u8> = VecDeque::new();
        let mut sections: VecDeque<Sent> = VecDeque::new();
        let mut waiting: Vec<Sent> = Vec::new();
        let check = |found: Vec<Text>, expected: &[(String, String)]| {
            let found: Vec<_> = found.into_iter().map(|(name, value, _)| (name, value)).collect();
            assert_eq!(found, expected);
        };
        for step in steps {
            match step {
                Action::Encode(fields) => {
                    let fields: Vec<_> = fields
                        .into_iter()
                        .map(|(name, value)| (NAMES[name].to_owned(), value_of(value)))
                        .collect();
                    let borrowed: Vec<_> = fields
                        .iter()
                        .map(|(name, value)| (name.as_str(), value.as_str()))
                        .collect();
                    let section = encode(&mut encoder, stream, &borrowed);
                    to_decoder.extend(instructions(&mut encoder));
                    sections.push_back((stream, section, fields));
                    stream += 4;
                }
                Action::Instructions(count) => {
                    if !has_type && to_decoder.pop_front().is_some() {
                        has_type = true;
                    }
                    let count = count.min(to_decoder.len());
                    let part: Vec<u8> = to_decoder.drain(..count).collect();
                    decoder.encoder_stream(&part).expect("our own instructions");
                    while let Some(stream) = decoder.next_unblocked() {
                        let is_it = |held: &Sent| held.0 == stream;
                        let at = waiting.iter().position(is_it).expect("it waits");
                        let (_, section, fields) = waiting.remove(at);
                        let found = decode(&mut decoder, stream, &section).expect("our own section");
                        check(found.expect("it need not wait"), &fields);
                    }
                }
                Action::Section => {
                    if let Some((stream, section, fields)) = sections.pop_front() {
                        match decode(&mut decoder, stream, &section).expect("our own section") {
                            Some(found) => check(found, &fields),
                            None => waiting.push((stream, section, fields)),
                        }
                        prop_assert!(waiting.len() <= blocked);
                    }
                }
                Action::Acknowledge(count) => {
                    let mut out = decoder.outgoing().to_vec();
                    out.truncate(count);
                    decoder.sent(out.len());
                    if !is_acknowledged && !out.is_empty() {
                        // The type of the stream.
                        is_acknowledged = true;
                        out.remove(0);
                    }
                    encoder.decoder_stream(&out).expect("our own acknowledgements");
                }
                Action::Cancel => {
                    if let Some((stream, _, _)) = waiting.pop() {
                        decoder.cancel(stream);
                    }
                }
            }
        }
    }
}
