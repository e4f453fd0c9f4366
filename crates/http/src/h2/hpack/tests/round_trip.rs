//! Encoder and decoder together, and each with another implementation, over random fields and table
//! sizes.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum CoderStep {
    Block(Vec<(String, String, Indexing)>),
    TableSize(u32),
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("server".to_owned()),
        Just("content-type".to_owned()),
        Just("etag".to_owned()),
        Just(":path".to_owned()),
        Just("x-custom".to_owned()),
        "[a-z][a-z0-9-]{0,12}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]{0,2}",
        4 => "[ -~]{0,60}",
        1 => "[x-z]{200,900}",
    ]
}

fn indexing() -> impl Strategy<Value = Indexing> {
    prop_oneof![
        Just(Indexing::Auto),
        Just(Indexing::AtOnce),
        Just(Indexing::Never)
    ]
}

fn steps() -> impl Strategy<Value = Vec<CoderStep>> {
    let block = proptest::collection::vec((name(), value(), indexing()), 0..10);
    let size = prop_oneof![Just(0), Just(4096), 0..200u32, 0..4096u32];
    let step = prop_oneof![
        5 => block.prop_map(CoderStep::Block),
        1 => size.prop_map(CoderStep::TableSize),
    ];
    proptest::collection::vec(step, 1..30)
}

fn encode(encoder: &mut Encoder, fields: &[(String, String, Indexing)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = encoder.block(&mut out);
    for (name, value, indexing) in fields {
        block.field(name.as_bytes(), value.as_bytes(), *indexing);
    }
    out
}

proptest! {
    /// Blocks come back as they were, and the two tables hold the same bytes all the time.
    #[test]
    fn our_encoder_to_our_decoder(steps in steps(), own_limit in prop_oneof![Just(4096), 0..5000u32]) {
        let (mut encoder, mut decoder) = (Encoder::new(own_limit), Decoder::new());
        for step in steps {
            match step {
                CoderStep::TableSize(size) => {
                    encoder.set_peer_limit(size);
                    decoder.set_limit(size);
                }
                CoderStep::Block(fields) => {
                    let block = encode(&mut encoder, &fields);
                    let decoded = decode(&mut decoder, &block).expect("our own block");
                    let pairs: Vec<_> = decoded.iter().map(|(n, v, _)| (n, v)).collect();
                    let sent: Vec<_> = fields.iter().map(|(n, v, _)| (n, v)).collect();
                    prop_assert_eq!(pairs, sent);
                    for (decoded, sent) in decoded.iter().zip(&fields) {
                        prop_assert!(sent.2 != Indexing::Never || decoded.2);
                    }
                    prop_assert_eq!(encoder.table_bytes(), decoder.table_bytes());
                    prop_assert_eq!(encoder.table_lines(), decoder.table_lines());
                }
            }
        }
    }

    #[test]
    fn our_encoder_to_another_decoder(steps in steps()) {
        let mut encoder = Encoder::default();
        let mut decoder = httlib_hpack::Decoder::with_dynamic_size(4096);
        for step in steps {
            match step {
                CoderStep::TableSize(size) => encoder.set_peer_limit(size),
                CoderStep::Block(fields) => {
                    let mut block = encode(&mut encoder, &fields);
                    let mut decoded = Vec::new();
                    decoder.decode(&mut block, &mut decoded).expect("a valid block");
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    // It tells a table size update as a field without a name.
                    let decoded: Vec<_> = decoded
                        .iter()
                        .filter(|(name, _, _)| !name.is_empty())
                        .map(|(name, value, _)| (text(name), text(value)))
                        .collect();
                    let sent: Vec<_> = fields.into_iter().map(|(n, v, _)| (n, v)).collect();
                    prop_assert_eq!(decoded, sent);
                }
            }
        }
    }

    /// The other implementation takes all the ways of writing a field, and changes the table's
    /// size.
    #[test]
    fn another_encoder_to_our_decoder(steps in steps(), formats in proptest::collection::vec(0..32u8, 1..20)) {
        let mut encoder = httlib_hpack::Encoder::with_dynamic_size(4096);
        let mut decoder = Decoder::new();
        let mut formats = formats.into_iter().cycle();
        let mut block = Vec::new();
        for step in steps {
            match step {
                CoderStep::TableSize(size) => {
                    encoder.update_max_dynamic_size(size, &mut block).expect("any size");
                }
                CoderStep::Block(fields) => {
                    for (name, value, _) in &fields {
                        // Both with indexing and never indexed is no format.
                        let format = formats.next().expect("endless");
                        let format = if format & 0xc == 0xc { format & !0x8 } else { format };
                        let field = (name.clone().into_bytes(), value.clone().into_bytes(), format);
                        encoder.encode(field, &mut block).expect("any field");
                    }
                    let decoded = decode(&mut decoder, &block).expect("a valid block");
                    let pairs: Vec<_> = decoded.into_iter().map(|(n, v, _)| (n, v)).collect();
                    let sent: Vec<_> = fields.into_iter().map(|(n, v, _)| (n, v)).collect();
                    prop_assert_eq!(pairs, sent);
                    block.clear();
                }
            }
        }
    }

    /// Whatever a block says, the decoder says so without a panic, and within its limits.
    #[test]
    fn any_bytes(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..20)) {
        let mut decoder = Decoder::new();
        for block in blocks {
            if decode_with(&mut decoder, &block, &FieldLimits::default()).is_err() {
                break;
            }
            prop_assert!(decoder.table_bytes() <= 4096);
        }
    }
}
