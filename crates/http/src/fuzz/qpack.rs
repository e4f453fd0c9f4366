//! Header compression of HTTP/3.

use crate::h3::ConnectionError;
use crate::h3::qpack::{Decoder, Encoder, Section};
use crate::message::{Decoded, Field, FieldLimits, FieldSink, FieldWriter, Note, Origin};

/// QPACK. The first byte chooses limits. Then come pieces of the encoder's stream and whole field
/// sections, each preceded by a byte for which of them it is and a byte with its length.
///
/// However the encoder's stream is split, the outcome is the same. What is written stays within the
/// limits. What is known of a field without looking at it is true. Decoded fields survive a round
/// trip through our encoder and another decoder.
pub fn fuzz_qpack(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else {
        return;
    };
    let capacity = [4096, 0, 100, 64 * 1024][usize::from(choice & 3)];
    let blocked = usize::from(choice >> 2 & 3);
    let limits = limits_from(choice);
    let mut whole = Decoder::new(capacity, blocked);
    let mut split = Decoder::new(capacity, blocked);
    let mut ends = Ends::new(choice);
    let mut waiting: Vec<(u64, &[u8])> = Vec::new();
    let mut stream = 0;
    while let [kind, length, after @ ..] = rest {
        let (part, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        if kind & 1 == 0 {
            let written = whole.encoder_stream(part);
            let bytes: Result<u64, ConnectionError> = part
                .iter()
                .map(|byte| split.encoder_stream(std::slice::from_ref(byte)))
                .sum();
            // A string may be refused before it is there, and then for another reason.
            let code = |written: Result<u64, ConnectionError>| written.map_err(|error| error.code);
            assert_eq!(code(written), code(bytes), "byte by byte");
            if written.is_err() {
                return;
            }
            while let Some(free) = whole.next_unblocked() {
                assert_eq!(split.next_unblocked(), Some(free));
                let at = waiting.iter().position(|held| held.0 == free);
                let (free, section) = waiting.remove(at.expect("it waits"));
                let Ok(fields) = decode_both(&mut whole, &mut split, free, section, &limits) else {
                    return;
                };
                ends.round_trip(&fields.expect("it need not wait any more"));
            }
            assert_eq!(split.next_unblocked(), None);
        } else {
            stream += 4;
            match decode_both(&mut whole, &mut split, stream, part, &limits) {
                Err(_) => return,
                Ok(Some(fields)) => ends.round_trip(&fields),
                Ok(None) if kind & 2 != 0 => {
                    whole.cancel(stream);
                    split.cancel(stream);
                }
                Ok(None) => waiting.push((stream, part)),
            }
        }
        assert!(waiting.len() <= blocked);
        assert_eq!(whole.outgoing(), split.outgoing());
        // Each line twice, entries of 24 bytes per 32 of table in a buffer of twice as many, and
        // the front of an instruction, which may have two strings.
        assert!(whole.heap_bytes() <= capacity as usize * 12 + 4096 + data.len() * 4);
    }
}

fn limits_from(choice: u8) -> FieldLimits {
    match choice >> 4 & 3 {
        0 => FieldLimits::default(),
        1 => FieldLimits {
            max_field_bytes: 20,
            ..FieldLimits::default()
        },
        2 => FieldLimits {
            max_block_bytes: 60,
            ..FieldLimits::default()
        },
        _ => FieldLimits {
            max_fields: 3,
            ..FieldLimits::default()
        },
    }
}

/// Name, value, whether it may never be indexed.
type Text = (Vec<u8>, Vec<u8>, bool);

/// The fields of a section; nothing if it waits.
fn decode_both(
    whole: &mut Decoder,
    split: &mut Decoder,
    stream: u64,
    section: &[u8],
    limits: &FieldLimits,
) -> Result<Option<Vec<Text>>, ConnectionError> {
    let found = decode(whole, stream, section, limits);
    assert_eq!(found, decode(split, stream, section, limits));
    found
}

fn decode(
    decoder: &mut Decoder,
    stream: u64,
    section: &[u8],
    limits: &FieldLimits,
) -> Result<Option<Vec<Text>>, ConnectionError> {
    let (mut head, mut keeper) = (Vec::new(), Keeper::default());
    let decoded = decoder.decode(stream, section, limits, &mut head, &mut keeper)?;
    assert!(keeper.bytes <= limits.max_block_bytes && keeper.fields.len() <= limits.max_fields);
    let most = limits
        .max_block_bytes
        .saturating_add(4 * keeper.fields.len());
    assert!(head.len() <= most);
    Ok(match decoded {
        Section::Blocked => None,
        Section::Decoded(Decoded::Complete | Decoded::LimitExceeded) => Some(keeper.fields),
    })
}

/// Keeps the fields, and notes for each what can be derived from its text alone.
#[derive(Default)]
struct Keeper {
    fields: Vec<Text>,
    bytes: usize,
}

impl FieldSink for Keeper {
    fn field(&mut self, head: &mut Vec<u8>, field: &Field) -> Note {
        let (name, value) = (field.name(head), field.value(head));
        let line = &head[field.line_start..];
        assert_eq!(line, [name, b": ", value, b"\r\n"].concat());
        assert!(!matches!(
            field.origin,
            Origin::Static(_) | Origin::StaticName(_)
        ));
        self.bytes += name.len() + value.len();
        let field = (name.to_vec(), value.to_vec(), field.never_indexed);
        self.fields.push(field);
        1
    }
}

/// Our encoder and a decoder for its output.
struct Ends {
    encoder: Encoder,
    decoder: Decoder,
    stream: u64,
    has_type: bool,
    is_acknowledged: bool,
}

impl Ends {
    fn new(choice: u8) -> Ends {
        let capacity = [4096, 200, 0, 1000][usize::from(choice >> 6)];
        let mut encoder = Encoder::new(4096);
        encoder.peer_allows(capacity.into(), u64::from(choice & 1));
        Ends {
            encoder,
            decoder: Decoder::new(capacity, 1),
            stream: 0,
            has_type: false,
            is_acknowledged: false,
        }
    }

    fn round_trip(&mut self, fields: &[Text]) {
        self.stream += 4;
        let mut out = Vec::new();
        let mut section = self.encoder.section(self.stream, &mut out);
        for (name, value, _) in fields {
            section.field(name, value);
        }
        section.finish();
        let mut written = self.encoder.outgoing().to_vec();
        self.encoder.sent(written.len());
        if !self.has_type && !written.is_empty() {
            self.has_type = true;
            written.remove(0);
        }
        let limits = FieldLimits {
            max_field_bytes: usize::MAX,
            max_block_bytes: usize::MAX,
            max_fields: usize::MAX,
        };
        let decoded = decode(&mut self.decoder, self.stream, &out, &limits);
        let decoded = decoded.expect("our own section").or_else(|| {
            self.decoder
                .encoder_stream(&written)
                .expect("our own instructions");
            written.clear();
            assert_eq!(self.decoder.next_unblocked(), Some(self.stream));
            decode(&mut self.decoder, self.stream, &out, &limits).expect("our own section")
        });
        self.decoder
            .encoder_stream(&written)
            .expect("our own instructions");
        let decoded = decoded.expect("its entries have come");
        assert_eq!(decoded.len(), fields.len());
        for (decoded, sent) in decoded.iter().zip(fields) {
            assert_eq!(decoded.0, sent.0.to_ascii_lowercase());
            assert_eq!(decoded.1, sent.1);
        }
        // Every other section is acknowledged late.
        if self.stream.is_multiple_of(8) {
            let mut out = self.decoder.outgoing().to_vec();
            self.decoder.sent(out.len());
            if !self.is_acknowledged && !out.is_empty() {
                self.is_acknowledged = true;
                out.remove(0);
            }
            self.encoder
                .decoder_stream(&out)
                .expect("our own acknowledgements");
        }
    }
}
