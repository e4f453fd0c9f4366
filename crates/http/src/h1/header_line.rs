//! One header line: name, colon, value.

use crate::Span;
use crate::headers::KnownHeader;

/// A parsed header line.
pub(super) struct HeaderLine {
    pub(super) name: Span,
    pub(super) value: Span,
    /// The name, if it is a well-known one.
    pub(super) known: Option<KnownHeader>,
    /// The name consists of letters, digits, hyphens and, where allowed, underscores only.
    pub(super) usual_name: bool,
}

/// What a byte means in a header name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameByte {
    Usual,
    Underscore,
    Colon,
    /// Unusual, but no reason to refuse the request.
    Odd,
    /// Controls, space and DEL: folding, a space before the colon, or an attack.
    Forbidden,
}

static NAME_BYTES: [NameByte; 256] = classify();

const fn classify() -> [NameByte; 256] {
    let mut classes = [NameByte::Odd; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => NameByte::Usual,
            b'_' => NameByte::Underscore,
            b':' => NameByte::Colon,
            0..=b' ' | 0x7f => NameByte::Forbidden,
            _ => NameByte::Odd,
        };
        byte += 1;
    }
    classes
}

/// Parses a line; `None` if it is not a header line. The line has no CR, LF or NUL, as the search
/// for its end stopped at them.
pub(super) fn parse(buf: &[u8], line: Span, underscores: bool) -> Option<HeaderLine> {
    let text = line.of(buf);
    // Almost always the name is a known one, which is usual.
    if let Some(name_bytes) = find_colon(text)
        && let Some(known) = KnownHeader::from_name(&text[..name_bytes])
    {
        return Some(take_apart(buf, line, name_bytes, Some(known), true));
    }
    let mut usual_name = true;
    let is_usual = |&&byte: &&u8| NAME_BYTES[usize::from(byte)] == NameByte::Usual;
    let mut name_bytes = text.iter().take_while(is_usual).count();
    // Almost always this is the colon already.
    loop {
        match NAME_BYTES[usize::from(*text.get(name_bytes)?)] {
            NameByte::Usual => {}
            NameByte::Colon => break,
            NameByte::Underscore => usual_name &= underscores,
            NameByte::Odd => usual_name = false,
            NameByte::Forbidden => return None,
        }
        name_bytes += 1;
    }
    if name_bytes == 0 {
        return None;
    }
    Some(take_apart(buf, line, name_bytes, None, usual_name))
}

fn take_apart(
    buf: &[u8],
    line: Span,
    name_bytes: usize,
    known: Option<KnownHeader>,
    usual_name: bool,
) -> HeaderLine {
    let start = line.start as usize;
    let after_colon = &line.of(buf)[name_bytes + 1..];
    let value_start = start + name_bytes + 1 + leading_blanks(after_colon);
    let value_end = trimmed_end(buf, value_start, line.end as usize);
    HeaderLine {
        name: Span::new(start, start + name_bytes),
        value: Span::new(value_start, value_end),
        known,
        usual_name,
    }
}

/// The position of the first colon, searched eight bytes at a time; names are too short for more.
fn find_colon(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const COLONS: u64 = ONES * b':' as u64;
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let zero_at_colon = u64::from_le_bytes(*word) ^ COLONS;
        // The lowest set bit marks the first zero byte; those above it may be wrong.
        let marks = zero_at_colon.wrapping_sub(ONES) & !zero_at_colon & (ONES << 7);
        if marks != 0 {
            return Some(index * 8 + marks.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|&byte| byte == b':')?;
    Some(words.len() * 8 + at)
}

/// Parses a response's line as nginx does: any visible characters make a name, and a line without a
/// colon is all name. `None` if the name is empty or contains white space or a control character.
pub(super) fn parse_lenient(buf: &[u8], line: Span) -> Option<HeaderLine> {
    if let Some(parsed) = parse(buf, line, true) {
        return Some(parsed);
    }
    let text = line.of(buf);
    let is_name = |&byte: &u8| !matches!(byte, 0..=b' ' | 0x7f | b':');
    let is_name = !text.is_empty() && text.iter().all(is_name);
    is_name.then_some(HeaderLine {
        name: line,
        value: Span {
            start: line.end,
            end: line.end,
        },
        known: KnownHeader::from_name(text),
        usual_name: false,
    })
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn leading_blanks(text: &[u8]) -> usize {
    text.iter().take_while(|&&byte| is_blank(byte)).count()
}

fn trimmed_end(buf: &[u8], start: usize, mut end: usize) -> usize {
    while end > start && is_blank(buf[end - 1]) {
        end -= 1;
    }
    end
}
