//! Cuts parts out of MP4 files (ISO/IEC 14496-12) like nginx's ngx_http_mp4_module: the index
//! (`moov`) is rewritten for the samples between two times, and the samples stay unchanged.
//!
//! ```text
//! file    ftyp  moov [ mvhd, trak [ tkhd, mdia [ mdhd, minf [ stbl [ stts stss ctts ... ] ] ] ] ]
//!         mdat
//! answer  ftyp  moov (rewritten)  mdat: one range of the file
//! ```
//!
//! Files may come from untrusted sources: every size, count and position is checked before it is
//! used. Memory is bounded by [`Wanted::max_buffer_bytes`], for the index and its copy in the
//! response, and by [`MAX_TRACKS`]. [`MAX_ATOMS`] bounds what is read besides the index. Responses
//! are identical to nginx's byte for byte; so are the messages, with `FILE` as a placeholder for
//! the file's name.

mod atoms;
pub mod sample;
mod tables;
mod track;

#[cfg(test)]
mod tests;

use atoms::{Atom, find};
use std::borrow::Cow;
use std::ops::Range;
use track::Track;

/// The part wanted of a file.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Its start, in milliseconds.
    pub start_ms: u64,
    /// Its length, in milliseconds; 0 means up to the end.
    pub length_ms: u64,
    /// Moves the start back to a key frame (`mp4_start_key_frame`).
    pub start_key_frame: bool,
    /// The size up to which an index may always be read (`mp4_buffer_size`).
    pub buffer_bytes: u64,
    /// The largest index that is read (`mp4_max_buffer_size`).
    pub max_buffer_bytes: u64,
}

/// The data to send.
#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// The unchanged file.
    Whole,
    /// These bytes, and then a range of the file.
    Part {
        /// `ftyp`, the new `moov`, and the head of `mdat`.
        head: Vec<u8>,
        /// The samples.
        data: Range<u64>,
    },
}

/// Why a file cannot be cut.
#[derive(Debug)]
pub enum Mp4Error<E> {
    /// It could not be read.
    Read(E),
    /// It is malformed or too large. The message has `FILE` as a placeholder for the file's name.
    Malformed(Cow<'static, str>),
}

impl<E> From<Cow<'static, str>> for Mp4Error<E> {
    fn from(message: Cow<'static, str>) -> Mp4Error<E> {
        Mp4Error::Malformed(message)
    }
}

/// A message about the file.
type Fault = Cow<'static, str>;

/// Longest `ftyp`.
const FTYP_BYTES: u64 = 1024;

/// Bytes read ahead while scanning for atoms of the file; longer reads are those of an index.
pub const SCAN_BYTES: u64 = 64 << 10;

/// The most atoms of a file that are examined; three of them are needed. Others come before or
/// between those, and there are few (`free`, `uuid`, `sidx`). A file with millions of empty atoms
/// would be read to its end for each request.
pub const MAX_ATOMS: usize = 1000;

/// The most tracks of a file. A film with all its languages has some dozens. An index of 10 MiB has
/// room for a million empty tracks, each of which would take a hundred times its size.
pub const MAX_TRACKS: usize = 256;

/// Cuts a file of `file_bytes`. `read` reads a number of bytes at a position; returning fewer is an
/// error. It is never asked for more than the limits of `wanted` allow.
///
/// # Errors
/// See [`Mp4Error`].
pub fn cut<E>(
    file_bytes: u64,
    wanted: &Wanted,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Cut, Mp4Error<E>> {
    let Some(movie) = Movie::read(file_bytes, wanted, &mut read)? else {
        return Ok(Cut::Whole);
    };
    Ok(movie.cut()?)
}

/// A decimal number of seconds, as a player sends it, in milliseconds; further decimals are
/// ignored.
pub fn milliseconds(text: &[u8]) -> Option<u64> {
    const LARGEST: u64 = i64::MAX as u64;
    if text.is_empty() {
        return None;
    }
    let (mut value, mut decimals, mut dot) = (0u64, 3, false);
    for byte in text {
        match byte {
            b'.' if dot => return None,
            b'.' => dot = true,
            b'0'..=b'9' if decimals == 0 => {}
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
                if value > LARGEST {
                    return None;
                }
                decimals -= usize::from(dot);
            }
            _ => return None,
        }
    }
    for _ in 0..decimals {
        // nginx checks before it multiplies; its last product may wrap.
        value = value.checked_mul(10).filter(|value| *value <= LARGEST)?;
    }
    Some(value)
}

/// The relevant parts of a file.
struct Movie<'w> {
    wanted: &'w Wanted,
    file_bytes: u64,
    /// The whole atom, rewritten.
    ftyp: Option<Vec<u8>>,
    /// The data of `moov`.
    moov: Vec<u8>,
    mvhd: Option<Range<usize>>,
    tracks: Vec<Track>,
    /// Where the data of `mdat` ends.
    mdat_end: Option<u64>,
}

impl<'w> Movie<'w> {
    /// Reads the atoms of a file; `None` if the file can be sent unchanged.
    fn read<E>(
        file_bytes: u64,
        wanted: &'w Wanted,
        read: &mut impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
    ) -> Result<Option<Movie<'w>>, Mp4Error<E>> {
        let mut movie = Movie {
            wanted,
            file_bytes,
            ftyp: None,
            moov: Vec::new(),
            mvhd: None,
            tracks: Vec::new(),
            mdat_end: None,
        };
        let mut has_moov = false;
        let mut scan = Scan {
            window: Vec::new(),
            begin: 0,
            file_bytes,
        };
        let (mut offset, mut looked_at) = (0, 0);
        while offset < file_bytes {
            let Some(atom) = scan.atom(offset, read)? else {
                break;
            };
            looked_at += 1;
            if looked_at > MAX_ATOMS {
                let message = format!("\"FILE\" mp4 file has more than {MAX_ATOMS} atoms");
                return Err(Fault::from(message).into());
            }
            let data = offset + atom.head_bytes..offset + atom.bytes;
            match &atom.name {
                b"ftyp" => {
                    let bytes = scan.bytes(ftyp_range(&data, movie.ftyp.is_some())?, read)?;
                    movie.ftyp = Some(atoms::whole(b"ftyp", &bytes));
                }
                b"moov" => {
                    let is_first = movie.mdat_end.is_none();
                    if is_first && wanted.start_ms == 0 && wanted.length_ms == 0 {
                        return Ok(None);
                    }
                    if has_moov {
                        return Err(Fault::from("duplicate mp4 moov atom in \"FILE\"").into());
                    }
                    has_moov = true;
                    let len = wanted.allow_index(&data)?;
                    movie.moov = read(data.start, len).map_err(Mp4Error::Read)?;
                    movie.read_moov()?;
                    if !is_first {
                        break;
                    }
                }
                b"mdat" => {
                    if movie.mdat_end.is_some() {
                        return Err(Fault::from("duplicate mp4 mdat atom in \"FILE\"").into());
                    }
                    movie.mdat_end = Some(data.end);
                    if !movie.tracks.is_empty() {
                        break;
                    }
                }
                _ => {}
            }
            offset = data.end;
        }
        Ok(Some(movie))
    }

    fn read_moov(&mut self) -> Result<(), Fault> {
        let mut at = 0;
        let mut timescale = 0;
        while let Some(atom) = find(&self.moov, at..self.moov.len())? {
            match &atom.name {
                b"trak" => {
                    let read = Track::read(&mut self.moov, &atom, timescale, self.wanted)?;
                    if read.is_some() && self.tracks.len() == MAX_TRACKS {
                        let message =
                            format!("\"FILE\" mp4 file has more than {MAX_TRACKS} tracks");
                        return Err(message.into());
                    }
                    self.tracks.extend(read);
                }
                b"mvhd" => {
                    if self.mvhd.is_some() {
                        return Err("duplicate mp4 mvhd atom in \"FILE\"".into());
                    }
                    timescale = self.read_mvhd(&atom)?;
                    self.mvhd = Some(atom.rename(&mut self.moov));
                }
                b"cmov" => {
                    return Err("\"FILE\" mp4 compressed moov atom (cmov) is not supported".into());
                }
                _ => {}
            }
            at = atom.data.end;
        }
        Ok(())
    }

    /// Shortens the movie's duration. Returns the time scale for the tracks.
    fn read_mvhd(&mut self, atom: &Atom) -> Result<u32, Fault> {
        const BYTES: [usize; 2] = [100, 112];
        let head = atoms::MediaHead::read(&self.moov, atom, BYTES, 0, "mvhd")?;
        let start = self.wanted.start_in(head.timescale);
        let Some(duration) = head.duration.checked_sub(start) else {
            return Err("\"FILE\" mp4 start time exceeds file duration".into());
        };
        head.set_duration(&mut self.moov, self.wanted.limit(duration, head.timescale));
        Ok(head.timescale)
    }

    fn cut(mut self) -> Result<Cut, Fault> {
        if self.tracks.is_empty() {
            return Err("no mp4 trak atoms were found in \"FILE\"".into());
        }
        let Some(mdat_end) = self.mdat_end else {
            return Err("no mp4 mdat atom was found in \"FILE\"".into());
        };
        let (mut start, mut end) = (self.file_bytes, 0);
        let mut moov_bytes = 8 + self.mvhd.as_ref().map_or(0, |mvhd| mvhd.len() as u64);
        for track in &mut self.tracks {
            let found = track.update(&mut self.moov, self.wanted, self.file_bytes, mdat_end)?;
            moov_bytes += track.bytes();
            start = start.min(found.start);
            end = end.max(found.end);
        }
        if end <= start {
            return Err("no data between start time and end time in \"FILE\"".into());
        }
        if start >= mdat_end {
            return Err("start time is out mp4 mdat atom in \"FILE\"".into());
        }
        let ftyp = self.ftyp.take().unwrap_or_default();
        let mdat_head = mdat_head(end - start);
        let adjustment =
            (ftyp.len() as u64 + moov_bytes + mdat_head.len() as u64).wrapping_sub(start);
        // The index is bounded, and a track adds less than a hundred bytes to it.
        let mut head = Vec::with_capacity(ftyp.len() + moov_bytes as usize + mdat_head.len());
        head.extend_from_slice(&ftyp);
        head.extend_from_slice(&(moov_bytes as u32).to_be_bytes());
        head.extend_from_slice(b"moov");
        if let Some(mvhd) = &self.mvhd {
            head.extend_from_slice(&self.moov[mvhd.clone()]);
        }
        for track in &self.tracks {
            track.adjust(&mut self.moov, adjustment);
            track.write(&self.moov, &mut head);
        }
        head.extend_from_slice(&mdat_head);
        Ok(Cut::Part {
            head,
            data: start..end,
        })
    }
}

fn ftyp_range(data: &Range<u64>, is_duplicate: bool) -> Result<Range<u64>, Fault> {
    let bytes = data.end - data.start;
    if bytes > FTYP_BYTES {
        return Err(format!("\"FILE\" mp4 ftyp atom is too large:{bytes}").into());
    }
    if is_duplicate {
        return Err("duplicate mp4 ftyp atom in \"FILE\"".into());
    }
    Ok(data.clone())
}

fn mdat_head(data_bytes: u64) -> Vec<u8> {
    match u32::try_from(data_bytes + 8) {
        Ok(bytes) => [bytes.to_be_bytes(), *b"mdat"].concat(),
        Err(_) => {
            let mut head = [1u32.to_be_bytes(), *b"mdat"].concat();
            head.extend_from_slice(&(data_bytes + 16).to_be_bytes());
            head
        }
    }
}

impl Wanted {
    /// The length of an index, if it may be read.
    fn allow_index(&self, data: &Range<u64>) -> Result<usize, Fault> {
        let bytes = data.end - data.start;
        let limit = self.buffer_bytes.max(self.max_buffer_bytes);
        match usize::try_from(bytes) {
            Ok(len) if bytes <= limit => Ok(len),
            _ => Err(format!(
                "\"FILE\" mp4 moov atom is too large:{bytes}, you may want to increase \
                 mp4_max_buffer_size"
            )
            .into()),
        }
    }

    /// The start in units of a time scale.
    fn start_in(&self, timescale: u32) -> u64 {
        self.start_ms.wrapping_mul(u64::from(timescale)) / 1000
    }

    /// The length in the same units, if there is one.
    fn length_in(&self, timescale: u32) -> Option<u64> {
        let length = self.length_ms.wrapping_mul(u64::from(timescale)) / 1000;
        (self.length_ms != 0).then_some(length)
    }

    /// A duration, limited to the wanted length.
    fn limit(&self, duration: u64, timescale: u32) -> u64 {
        self.length_in(timescale)
            .map_or(duration, |length| length.min(duration))
    }
}

/// Reads a file piece by piece while looking for its atoms.
struct Scan {
    window: Vec<u8>,
    /// Position of the window in the file.
    begin: u64,
    file_bytes: u64,
}

/// An atom of the file.
struct FileAtom {
    name: [u8; 4],
    head_bytes: u64,
    bytes: u64,
}

impl Scan {
    /// The atom at a position; `None` if a size of zero ends the list.
    fn atom<E>(
        &mut self,
        offset: u64,
        read: &mut impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
    ) -> Result<Option<FileAtom>, Mp4Error<E>> {
        let size = self.bytes(offset..offset + 4, read)?;
        let size = u64::from(atoms::number32(&size, 0));
        if size == 0 {
            return Ok(None);
        }
        let head_bytes = match size {
            1 => 16,
            _ => 8,
        };
        if size != 1 && size < head_bytes {
            return Err(atoms::too_small(size).into());
        }
        let head = self.bytes(offset..offset + head_bytes, read)?;
        let bytes = match size {
            1 => atoms::number64(&head, 8),
            _ => size,
        };
        if bytes < head_bytes {
            return Err(atoms::too_small(bytes).into());
        }
        if bytes > self.file_bytes - offset {
            return Err(atoms::too_large(bytes).into());
        }
        let name = [head[4], head[5], head[6], head[7]];
        Ok(Some(FileAtom {
            name,
            head_bytes,
            bytes,
        }))
    }

    /// A few bytes of the file.
    fn bytes<E>(
        &mut self,
        range: Range<u64>,
        read: &mut impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, Mp4Error<E>> {
        if range.end > self.file_bytes {
            return Err(Fault::from("\"FILE\" mp4 file truncated").into());
        }
        if range.start < self.begin || range.end > self.begin + self.window.len() as u64 {
            let ahead = SCAN_BYTES.max(range.end - range.start);
            // At most SCAN_BYTES, so it fits.
            let len = ahead.min(self.file_bytes - range.start) as usize;
            self.window = read(range.start, len).map_err(Mp4Error::Read)?;
            self.begin = range.start;
        }
        let begin = (range.start - self.begin) as usize;
        let len = (range.end - range.start) as usize;
        match self.window.get(begin..begin + len) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(Fault::from("\"FILE\" mp4 file truncated").into()),
        }
    }
}
