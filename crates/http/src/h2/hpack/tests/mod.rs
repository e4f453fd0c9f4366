//! RFC 7541: its examples, its rules by section, and round trips, alone and with another
//! implementation.

mod appendix_c;
mod encoding;
mod huffman;
mod round_trip;
mod sections;

use super::*;

/// A decoded field: name, value, and whether it may never be indexed.
type Text = (String, String, bool);

/// Keeps every field, and notes its number.
#[derive(Default)]
struct Collector {
    fields: Vec<Text>,
    origins: Vec<Origin>,
    seen: Note,
}

impl FieldSink for Collector {
    fn field(&mut self, head: &mut Vec<u8>, field: &Field) -> Note {
        let line = &head[field.line_start..];
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (name, value) = (field.name(head), field.value(head));
        assert_eq!(line, [name, b": ", value, b"\r\n"].concat());
        self.fields
            .push((text(name), text(value), field.never_indexed));
        self.origins.push(field.origin);
        self.seen += 1;
        self.seen
    }
}

fn decode_with(
    decoder: &mut Decoder,
    block: &[u8],
    limits: &FieldLimits,
) -> Result<(Decoded, Collector), HpackError> {
    let (mut head, mut collector) = (b"before".to_vec(), Collector::default());
    let decoded = decoder.decode(block, limits, &mut head, &mut collector)?;
    let lines: usize = collector
        .fields
        .iter()
        .map(|(name, value, _)| name.len() + value.len() + 4)
        .sum();
    // Where the texts are not UTF-8 they are longer than the lines.
    assert!(head.starts_with(b"before") && head.len() <= 6 + lines);
    Ok((decoded, collector))
}

/// The fields of a block within the default limits.
fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Text>, HpackError> {
    let (decoded, collector) = decode_with(decoder, block, &FieldLimits::default())?;
    assert_eq!(decoded, Decoded::Complete);
    Ok(collector.fields)
}

/// `name: value` of each field.
fn lines(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
    let line = |(name, value, _)| format!("{name}: {value}");
    Ok(decode(decoder, block)?.into_iter().map(line).collect())
}

/// Bytes from hexadecimal digits; blanks do not count.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("ASCII");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    };
    assert!(digits.len().is_multiple_of(2));
    digits.chunks(2).map(byte).collect()
}
