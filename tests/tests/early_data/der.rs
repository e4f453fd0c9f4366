//! Just enough DER to change what a client's session says of itself.

/// The fields of the outermost SEQUENCE, each with its tag, in the way in which
/// AWS-LC writes a session: numbers in `[n]`, the ticket in `[10]`.
fn fields(session: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (tag, mut rest, end) = element(session);
    assert!(tag == 0x30 && end.is_empty(), "one SEQUENCE");
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (tag, content, after) = element(rest);
        fields.push((tag, content.to_vec()));
        rest = after;
    }
    fields
}

/// Tag, content, and what follows.
fn element(bytes: &[u8]) -> (u8, &[u8], &[u8]) {
    let (tag, first, rest) = (bytes[0], usize::from(bytes[1]), &bytes[2..]);
    let (length, rest) = match first {
        0..=0x7f => (first, rest),
        _ => {
            let (length, rest) = rest.split_at(first & 0x7f);
            let number = length
                .iter()
                .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
            (number, rest)
        }
    };
    let (content, after) = rest.split_at(length);
    (tag, content, after)
}

fn write(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = length.iter().position(|&byte| byte != 0).unwrap_or(7);
    let mut out = vec![tag];
    if content.len() < 0x80 {
        out.push(length[7]);
    } else {
        let length = &length[significant..];
        out.push(0x80 | u8::try_from(length.len()).expect("at most eight"));
        out.extend_from_slice(length);
    }
    out.extend_from_slice(content);
    out
}

/// The session with the content of the field `[number]` changed.
#[track_caller]
fn with_field(session: &[u8], number: u8, change: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut fields = fields(session);
    let field = fields.iter_mut().find(|(tag, _)| *tag == 0xa0 | number);
    let (_, content) = field.unwrap_or_else(|| panic!("a session has a field [{number}]"));
    let (tag, inner, _) = element(content);
    *content = write(tag, &change(inner));
    let fields: Vec<Vec<u8>> = fields
        .iter()
        .map(|(tag, content)| write(*tag, content))
        .collect();
    write(0x30, &fields.concat())
}

/// The session with another ticket.
pub(crate) fn with_ticket(session: &[u8], change: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    with_field(session, 10, change)
}

/// The session as if it were made so many seconds earlier than it was.
pub(crate) fn aged(session: &[u8], by_s: u64) -> Vec<u8> {
    with_field(session, 1, |time| {
        let time = time.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        number(time - by_s)
    })
}

/// The session with another limit to early data.
pub(crate) fn with_early_data_limit(session: &[u8], limit: u64) -> Vec<u8> {
    with_field(session, 24, |_| number(limit))
}

/// The content of an INTEGER.
fn number(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let significant = bytes.iter().position(|&byte| byte != 0).unwrap_or(7);
    let mut out = Vec::new();
    if bytes[significant] >= 0x80 {
        out.push(0);
    }
    out.extend_from_slice(&bytes[significant..]);
    out
}
