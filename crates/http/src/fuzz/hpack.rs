//! Header blocks.

use crate::h2::hpack::{
    Decoded, Decoder, Encoder, Field, FieldLimits, FieldSink, Indexing, MAX_TABLE_BYTES, Note,
    Origin, STATIC_ENTRIES, static_field,
};

/// HPACK. The first byte chooses limits and table sizes. Then come the blocks of one connection,
/// each preceded by a byte with its length.
///
/// A decoder that stops reporting fields at a limit has the same table as one without limits. What
/// is known of a field without looking at it is true. Decoded fields survive a round trip through
/// our encoder and another decoder.
pub fn fuzz_hpack(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else {
        return;
    };
    let limit = [4096, 0, 100, MAX_TABLE_BYTES][usize::from(choice & 3)];
    let limits = limits_from(choice);
    let mut limited = Decoder::new();
    let mut free = Decoder::new();
    for decoder in [&mut limited, &mut free] {
        decoder.set_limit(limit);
    }
    let mut ends = Ends::new(choice);
    while let Some((&length, after)) = rest.split_first() {
        let (block, after) = after.split_at(after.len().min(usize::from(length)));
        rest = after;
        let within = decode(&mut limited, block, &limits);
        let all = decode(&mut free, block, &NO_LIMITS);
        let ((within, told), (all, fields)) = match (within, all) {
            (Ok(within), Ok(all)) => (within, all),
            (Err(within), Err(all)) => {
                assert_eq!(within, all);
                for decoder in [&mut limited, &mut free] {
                    let again = decode(decoder, &[], &NO_LIMITS);
                    assert_eq!(again.err(), Some(all), "an error is final");
                }
                return;
            }
            (within, all) => panic!("{:?} and {:?}", within.err(), all.err()),
        };
        assert_eq!(all, Decoded::Complete);
        assert_eq!(within == Decoded::Complete, told.len() == fields.len());
        assert_eq!(told[..], fields[..told.len()]);
        assert_eq!(entries(&limited), entries(&free));
        let table_limit = limit.max(4096) as usize;
        // Each line twice, and an entry of 16 bytes per 32 bytes of table, in a buffer of twice as
        // many.
        assert!(free.heap_bytes() <= table_limit * 3 + 1024);
        ends.round_trip(&fields);
    }
}

const NO_LIMITS: FieldLimits = FieldLimits {
    max_field_bytes: usize::MAX,
    max_block_bytes: usize::MAX,
    max_fields: usize::MAX,
};

fn limits_from(choice: u8) -> FieldLimits {
    match choice >> 2 & 3 {
        0 => FieldLimits::default(),
        1 => FieldLimits {
            max_field_bytes: 20,
            ..NO_LIMITS
        },
        2 => FieldLimits {
            max_block_bytes: 60,
            ..NO_LIMITS
        },
        _ => FieldLimits {
            max_fields: 3,
            ..NO_LIMITS
        },
    }
}

/// Name, value, whether it may never be indexed.
type Text = (Vec<u8>, Vec<u8>, bool);

/// Keeps the fields, and notes for each what can be derived from its text alone.
#[derive(Default)]
struct Keeper {
    fields: Vec<Text>,
}

impl FieldSink for Keeper {
    fn field(&mut self, head: &mut Vec<u8>, field: &Field) -> Note {
        let (name, value) = (field.name(head), field.value(head));
        let line = &head[field.line_start..];
        assert_eq!(line, [name, b": ", value, b"\r\n"].concat());
        let note = note_of(name, value);
        match field.origin {
            Origin::Static(index) => {
                assert_eq!(static_field(index.into()), Some((name, value)));
            }
            Origin::StaticName(index) => {
                let (known, _) = static_field(index.into()).expect("an index of the table");
                assert_eq!(known, name);
            }
            // Zero: the field came after a limit had been passed.
            Origin::Dynamic(noted) => assert!(noted == 0 || noted == note),
            // The upper half is derived from the name.
            Origin::DynamicName(noted) => assert!(noted == 0 || noted >> 8 == note >> 8),
            Origin::Literal => {}
        }
        let field = (name.to_vec(), value.to_vec(), field.never_indexed);
        self.fields.push(field);
        // The line is no longer needed.
        head.clear();
        note
    }
}

fn note_of(name: &[u8], value: &[u8]) -> Note {
    let sum = |text: &[u8]| {
        text.iter()
            .fold(1u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte))
    };
    Note::from(sum(name)) << 8 | Note::from(sum(value) | 1)
}

type Outcome = Result<(Decoded, Vec<Text>), crate::h2::hpack::HpackError>;

fn decode(decoder: &mut Decoder, block: &[u8], limits: &FieldLimits) -> Outcome {
    let (mut head, mut keeper) = (Vec::new(), Keeper::default());
    let decoded = decoder.decode(block, limits, &mut head, &mut keeper)?;
    assert!(head.is_empty(), "nothing stays but what the sink was shown");
    Ok((decoded, keeper.fields))
}

/// The dynamic table, newest entry first. Reads until there are no more, from a clone, since
/// reading past the end is an error.
fn entries(decoder: &Decoder) -> Vec<Text> {
    let mut decoder = decoder.clone();
    let mut entries = Vec::new();
    for age in 0.. {
        let index = STATIC_ENTRIES + 1 + age;
        let block = match index.checked_sub(127) {
            None => vec![0x80 | index as u8],
            Some(rest) if rest < 128 => vec![0xff, rest as u8],
            Some(rest) => vec![0xff, rest as u8 | 0x80, (rest >> 7) as u8],
        };
        match decode(&mut decoder, &block, &NO_LIMITS) {
            Ok((_, fields)) => entries.extend(fields),
            Err(_) => break,
        }
    }
    entries
}

/// Our encoder and a decoder for its output.
struct Ends {
    encoder: Encoder,
    decoder: Decoder,
    choice: u8,
}

impl Ends {
    fn new(choice: u8) -> Ends {
        let own_limit = [4096, 200, 0, 16_384][usize::from(choice >> 4 & 3)];
        Ends {
            encoder: Encoder::new(own_limit),
            decoder: Decoder::new(),
            choice,
        }
    }

    fn round_trip(&mut self, fields: &[Text]) {
        if self.choice & 0x40 != 0 {
            // A limit that depends on the input, so that it goes up and down.
            let limit = fields.iter().map(|(name, _, _)| name.len() as u32 * 40);
            let limit = limit.sum();
            self.encoder.set_peer_limit(limit);
            self.decoder.set_limit(limit);
        }
        let mut out = Vec::new();
        let mut block = self.encoder.block(&mut out);
        for (name, value, never_indexed) in fields {
            let indexing = match (never_indexed, self.choice & 0x80) {
                (true, _) => Indexing::Never,
                (_, 0) => Indexing::Auto,
                (_, _) => Indexing::AtOnce,
            };
            block.field(name, value, indexing);
        }
        let decoded = decode(&mut self.decoder, &out, &NO_LIMITS);
        let (_, decoded) = decoded.expect("our own block");
        assert_eq!(decoded.len(), fields.len());
        for (decoded, sent) in decoded.iter().zip(fields) {
            assert_eq!(decoded.0, sent.0.to_ascii_lowercase());
            assert_eq!(decoded.1, sent.1);
            assert!(decoded.2 || !sent.2);
        }
    }
}
