//! Tests of header compression, by section of RFC 9204.

mod appendix_b;
mod encoding;
mod ls_qpack;
mod round_trip;
mod section_2_2_decoder;
mod section_4_3_encoder_stream;
mod section_4_5_field_lines;

use super::{Decoder, Encoder, Section};
use crate::h3::error::ConnectionError;
use crate::message::{
    Decoded, Field, FieldLimits, FieldSink, FieldWriter, Note, Origin, note_of_static,
};

/// Name, value, whether it may never be indexed.
pub(super) type Text = (String, String, bool);

pub(super) const NO_LIMITS: FieldLimits = FieldLimits {
    max_field_bytes: usize::MAX,
    max_block_bytes: usize::MAX,
    max_fields: usize::MAX,
};

/// Keeps the fields, and checks what is said to be known of them.
#[derive(Default)]
struct Keeper {
    fields: Vec<Text>,
}

impl FieldSink for Keeper {
    fn field(&mut self, head: &mut Vec<u8>, field: &Field) -> Note {
        let (name, value) = (field.name(head), field.value(head));
        let line = &head[field.line_start..];
        assert_eq!(line, [name, b": ", value, b"\r\n"].concat());
        let note = note_of_static(name);
        if let Origin::Dynamic(known) | Origin::DynamicName(known) = field.origin {
            assert!(known == 0 || known == note, "the note of another field");
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let field = (text(name), text(value), field.never_indexed);
        self.fields.push(field);
        note
    }
}

pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digits
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// A decoder with a table of 4096 bytes that has been set up, and 16 blocked streams.
fn decoder() -> Decoder {
    let mut decoder = Decoder::new(4096, 16);
    decoder
        .encoder_stream(&bytes("3fe11f"))
        .expect("4096 bytes");
    decoder
}

/// The fields of a section; nothing if it waits.
pub(super) fn decode(
    decoder: &mut Decoder,
    stream: u64,
    section: &[u8],
) -> Result<Option<Vec<Text>>, ConnectionError> {
    let (mut head, mut keeper) = (Vec::new(), Keeper::default());
    Ok(
        match decoder.decode(stream, section, &NO_LIMITS, &mut head, &mut keeper)? {
            Section::Decoded(decoded) => {
                assert_eq!(decoded, Decoded::Complete);
                Some(keeper.fields)
            }
            Section::Blocked => None,
        },
    )
}

/// What the decoder has to say to the encoder, without the type of the stream.
fn acknowledgements(decoder: &mut Decoder) -> Vec<u8> {
    let mut out = decoder.outgoing().to_vec();
    decoder.sent(out.len());
    if out.first() == Some(&3) {
        out.remove(0);
    }
    out
}

fn encode(encoder: &mut Encoder, stream: u64, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut section = encoder.section(stream, &mut out);
    for (name, value) in fields {
        section.field(name.as_bytes(), value.as_bytes());
    }
    section.finish();
    out
}

/// What the encoder has to say to the decoder, with the type of the stream.
fn instructions(encoder: &mut Encoder) -> Vec<u8> {
    let out = encoder.outgoing().to_vec();
    encoder.sent(out.len());
    out
}

fn text(name: &str, value: &str) -> Text {
    (name.to_owned(), value.to_owned(), false)
}
