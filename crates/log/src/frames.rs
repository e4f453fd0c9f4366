//! Lines that carry more than their text through the queue: each is preceded by the lengths of its
//! fields.

/// Bytes of one length.
const LENGTH_BYTES: usize = 4;

/// Appends a frame of these fields; `last` writes the last one.
pub(super) fn push<const FIELDS: usize>(
    out: &mut Vec<u8>,
    fields: [&[u8]; FIELDS],
    last: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    for field in fields {
        out.extend_from_slice(&length(field.len()));
    }
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    for field in fields {
        out.extend_from_slice(field);
    }
    let text = out.len();
    last(out);
    let at = start + FIELDS * LENGTH_BYTES;
    let written = length(out.len() - text);
    out[at..at + LENGTH_BYTES].copy_from_slice(&written);
}

fn length(bytes: usize) -> [u8; LENGTH_BYTES] {
    // Fields are parts of requests and lines, which are limited to far less.
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}

/// The fields of the frame at the start of `bytes`, and its length.
pub(super) fn first<const FIELDS: usize>(bytes: &[u8]) -> Option<([&[u8]; FIELDS], usize)> {
    let mut rest = bytes.get(FIELDS * LENGTH_BYTES..)?;
    let (lengths, _) = bytes.as_chunks::<LENGTH_BYTES>();
    let mut fields: [&[u8]; FIELDS] = [&[]; FIELDS];
    for (field, length) in fields.iter_mut().zip(lengths) {
        (*field, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    }
    Some((fields, bytes.len() - rest.len()))
}

/// The number of frames.
pub(super) fn count<const FIELDS: usize>(mut bytes: &[u8]) -> u64 {
    let mut frames = 0;
    while let Some((_, length)) = first::<FIELDS>(bytes) {
        frames += 1;
        bytes = &bytes[length..];
    }
    frames
}
