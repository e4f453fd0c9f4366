//! Media files, which may have been uploaded by untrusted users.

use crate::mp4::{self, Cut, Wanted};

/// The largest index that the target allows to be read.
const MAX_INDEX_BYTES: u64 = 1 << 20;

/// An MP4 file and the part wanted of it. Five bytes choose a start, a length and limits. The rest
/// is the file or, depending on a bit of the fifth byte, the description of a valid file and where
/// it is damaged.
///
/// Nothing outside the file or beyond the limits is read. The output is a part of the file after a
/// head of proportionate size. Times as a player writes them parse as numbers or not at all.
pub fn fuzz_mp4(data: &[u8]) {
    let Some((head, rest)) = data.split_at_checked(5) else {
        return;
    };
    let _ = mp4::milliseconds(rest);
    match head[4] & 0x80 {
        0 => cut(head, rest),
        _ => cut(head, &damaged(rest)),
    }
}

/// A valid file, built from what follows a list of damages: positions and bytes.
fn damaged(data: &[u8]) -> Vec<u8> {
    let (count, rest) = data.split_first().unwrap_or((&0, &[]));
    let (damages, rest) = rest.split_at(rest.len().min(usize::from(count % 8) * 3));
    let mut numbers = rest.iter().cycle();
    let mut file = mp4::sample::file(&mut |bound| {
        let number = u32::from(*numbers.next().unwrap_or(&0));
        number % bound.max(1)
    });
    for damage in damages.chunks_exact(3) {
        let at = usize::from(damage[0]) << 8 | usize::from(damage[1]);
        let at = at % file.len();
        file[at] = damage[2];
    }
    file
}

fn cut(head: &[u8], file: &[u8]) {
    let ms = |high: u8, low: u8| u64::from(high) << 8 | u64::from(low);
    let wanted = Wanted {
        start_ms: ms(head[0], head[1]),
        length_ms: ms(head[2], head[3]),
        start_key_frame: head[4] & 1 != 0,
        buffer_bytes: 512,
        max_buffer_bytes: if head[4] & 2 != 0 {
            2048
        } else {
            MAX_INDEX_BYTES
        },
    };
    // Samples are not examined: there may be more than any input can hold.
    let missing = u64::from(head[4] >> 2 & 0x1f) << 16;
    let file_bytes = file.len() as u64 + missing;
    let cut = mp4::cut(file_bytes, &wanted, |offset, len| {
        assert!(
            len as u64 <= wanted.max_buffer_bytes.max(1 << 16),
            "{len} bytes"
        );
        let end = offset.checked_add(len as u64).expect("inside");
        assert!(end <= file_bytes, "{offset}+{len} of {file_bytes}");
        let mut bytes = vec![0; len];
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(file.len());
        let there = &file[from..file.len().min(from + len)];
        bytes[..there.len()].copy_from_slice(there);
        Ok::<_, ()>(bytes)
    });
    if let Ok(Cut::Part { head, data }) = cut {
        assert!(data.start <= data.end && data.end <= file_bytes);
        assert!(head.len() as u64 <= 2 * file_bytes + 4096, "{}", head.len());
    }
}
