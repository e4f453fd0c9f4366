//! Atoms in memory: their headers, and the numbers in them.

use super::Fault;
use std::ops::Range;

/// Bytes of an atom's head: size and name.
const HEAD_BYTES: usize = 8;

/// An atom inside the index.
#[derive(Debug)]
pub(super) struct Atom {
    pub(super) name: [u8; 4],
    /// Where its data is; the header before it has at least eight bytes.
    pub(super) data: Range<usize>,
}

impl Atom {
    /// Writes a header of eight bytes before the data, and returns the atom's new position.
    pub(super) fn rename(&self, moov: &mut [u8]) -> Range<usize> {
        let whole = self.data.start - HEAD_BYTES..self.data.end;
        set32(moov, whole.start, whole.len() as u64);
        moov[whole.start + 4..self.data.start].copy_from_slice(&self.name);
        whole
    }

    /// The position of the eight bytes of header.
    pub(super) fn head(&self, moov: &mut [u8]) -> Range<usize> {
        self.rename(moov);
        self.data.start - HEAD_BYTES..self.data.start
    }
}

/// The first atom in a range; `None` at its end, or if a size of zero ends the list.
pub(super) fn find(moov: &[u8], range: Range<usize>) -> Result<Option<Atom>, Fault> {
    let left = range.len();
    if left == 0 {
        return Ok(None);
    }
    if left < 4 {
        return Err("\"FILE\" mp4 file truncated".into());
    }
    let at = range.start;
    let size = u64::from(number32(moov, at));
    if size == 0 {
        return Ok(None);
    }
    let head_bytes = match size {
        1 => 2 * HEAD_BYTES,
        _ => HEAD_BYTES,
    };
    if size != 1 && size < HEAD_BYTES as u64 {
        return Err(too_small(size));
    }
    if left < head_bytes {
        return Err("\"FILE\" mp4 file truncated".into());
    }
    let bytes = match size {
        1 => number64(moov, at + HEAD_BYTES),
        _ => size,
    };
    if bytes < head_bytes as u64 {
        return Err(too_small(bytes));
    }
    if bytes > left as u64 {
        return Err(too_large(bytes));
    }
    let name = [moov[at + 4], moov[at + 5], moov[at + 6], moov[at + 7]];
    // At most the size of the rest, so it fits.
    let data = at + head_bytes..at + bytes as usize;
    Ok(Some(Atom { name, data }))
}

pub(super) fn too_small(bytes: u64) -> Fault {
    format!("\"FILE\" mp4 atom is too small:{bytes}").into()
}

pub(super) fn too_large(bytes: u64) -> Fault {
    format!("\"FILE\" mp4 atom too large:{bytes}").into()
}

/// An atom with this data.
pub(super) fn whole(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut atom = Vec::with_capacity(HEAD_BYTES + data.len());
    atom.extend_from_slice(&((HEAD_BYTES + data.len()) as u32).to_be_bytes());
    atom.extend_from_slice(name);
    atom.extend_from_slice(data);
    atom
}

/// The number at a position.
///
/// # Panics
/// If it does not lie in the bytes: positions are checked where they are made.
pub(super) fn number32(bytes: &[u8], at: usize) -> u32 {
    let number = bytes[at..].first_chunk().expect("positions are checked");
    u32::from_be_bytes(*number)
}

/// The number at a position, of eight bytes.
///
/// # Panics
/// As [`number32`].
pub(super) fn number64(bytes: &[u8], at: usize) -> u64 {
    let number = bytes[at..].first_chunk().expect("positions are checked");
    u64::from_be_bytes(*number)
}

/// Writes a number; as in nginx, it is truncated to four bytes.
pub(super) fn set32(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 4].copy_from_slice(&(number as u32).to_be_bytes());
}

/// Writes a number of eight bytes.
pub(super) fn set64(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_be_bytes());
}

/// The common part of `mvhd`, `tkhd` and `mdhd`: a version, and times whose width depends on it.
pub(super) struct MediaHead {
    pub(super) timescale: u32,
    pub(super) duration: u64,
    duration_at: usize,
    is_long: bool,
}

impl MediaHead {
    /// Reads one. `bytes` are the minimum sizes in version 0 and in others; `gap` is how much later
    /// the duration comes than in `mvhd`.
    pub(super) fn read(
        moov: &[u8],
        atom: &Atom,
        bytes: [usize; 2],
        gap: usize,
        name: &str,
    ) -> Result<MediaHead, Fault> {
        let data = &moov[atom.data.clone()];
        let too_small = || Fault::from(format!("\"FILE\" mp4 {name} atom too small"));
        if data.len() < bytes[0] {
            return Err(too_small());
        }
        let is_long = data[0] != 0;
        if is_long && data.len() < bytes[1] {
            return Err(too_small());
        }
        // Version, creation, modification.
        let timescale_at = match is_long {
            true => 4 + 8 + 8,
            false => 4 + 4 + 4,
        };
        let duration_at = timescale_at + 4 + gap;
        Ok(MediaHead {
            timescale: number32(data, timescale_at),
            duration: match is_long {
                true => number64(data, duration_at),
                false => u64::from(number32(data, duration_at)),
            },
            duration_at: atom.data.start + duration_at,
            is_long,
        })
    }

    /// Changes the duration.
    pub(super) fn set_duration(&self, moov: &mut [u8], duration: u64) {
        match self.is_long {
            true => set64(moov, self.duration_at, duration),
            false => set32(moov, self.duration_at, duration),
        }
    }
}
