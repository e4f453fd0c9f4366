//! One track (`trak`): what is kept of it, and its new sizes.

use super::atoms::{Atom, MediaHead, find, set32, set64};
use super::tables::Tables;
use super::{Fault, Wanted};
use std::ops::Range;

/// A track of the index. Ranges are positions in `moov`, whose bytes are rewritten in place.
#[derive(Default)]
pub(super) struct Track {
    /// Headers of the container atoms.
    trak: Range<usize>,
    mdia: Option<Range<usize>>,
    minf: Option<Range<usize>>,
    stbl: Option<Range<usize>>,
    /// Atoms that are kept unchanged except for durations.
    tkhd: Option<Range<usize>>,
    mdhd: Option<Range<usize>>,
    hdlr: Option<Range<usize>>,
    vmhd: Option<Range<usize>>,
    smhd: Option<Range<usize>>,
    dinf: Option<Range<usize>>,
    stsd: Option<Range<usize>>,
    media: Option<MediaHead>,
    tables: Tables,
    /// `edts`, which tells players to skip what precedes the start.
    edits: Vec<u8>,
    movie_duration: u64,
    bytes: u64,
}

/// Units and length of a track, as its tables need them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) timescale: u32,
    pub(super) duration: u64,
    /// Units between the key frame and the requested start.
    pub(super) prefix: u64,
}

impl Track {
    /// Reads a track; `None` if it ends before the wanted part.
    pub(super) fn read(
        moov: &mut [u8],
        atom: &Atom,
        movie_timescale: u32,
        wanted: &Wanted,
    ) -> Result<Option<Track>, Fault> {
        let mut track = Track {
            trak: atom.head(moov),
            ..Track::default()
        };
        let is_wanted = track.read_trak(moov, atom.data.clone(), movie_timescale, wanted)?;
        Ok(is_wanted.then_some(track))
    }

    fn read_trak(
        &mut self,
        moov: &mut [u8],
        range: Range<usize>,
        movie_timescale: u32,
        wanted: &Wanted,
    ) -> Result<bool, Fault> {
        let mut at = range.start;
        while let Some(atom) = find(moov, at..range.end)? {
            at = atom.data.end;
            let goes_on = match &atom.name {
                b"tkhd" => self.read_tkhd(moov, &atom, movie_timescale, wanted)?,
                b"mdia" => {
                    open(&mut self.mdia, moov, &atom, "mdia")?;
                    self.read_mdia(moov, atom.data, wanted)?
                }
                _ => true,
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_tkhd(
        &mut self,
        moov: &mut [u8],
        atom: &Atom,
        timescale: u32,
        wanted: &Wanted,
    ) -> Result<bool, Fault> {
        const BYTES: [usize; 2] = [84, 96];
        // Where other atoms have the time scale, this one has the track's number.
        let head = MediaHead::read(moov, atom, BYTES, 4, "tkhd")?;
        let start = wanted.start_in(timescale);
        if head.duration <= start {
            return Ok(false);
        }
        let duration = wanted.limit(head.duration - start, timescale);
        keep(&mut self.tkhd, moov, atom, "tkhd")?;
        self.movie_duration = duration;
        head.set_duration(moov, duration);
        Ok(true)
    }

    fn read_mdia(
        &mut self,
        moov: &mut [u8],
        range: Range<usize>,
        wanted: &Wanted,
    ) -> Result<bool, Fault> {
        let mut at = range.start;
        while let Some(atom) = find(moov, at..range.end)? {
            at = atom.data.end;
            match &atom.name {
                b"mdhd" => {
                    let is_wanted = self.read_mdhd(moov, &atom, wanted)?;
                    if !is_wanted {
                        return Ok(false);
                    }
                }
                b"hdlr" => keep(&mut self.hdlr, moov, &atom, "hdlr")?,
                b"minf" => {
                    open(&mut self.minf, moov, &atom, "minf")?;
                    self.read_minf(moov, atom.data)?;
                }
                _ => {}
            }
        }
        Ok(true)
    }

    fn read_mdhd(&mut self, moov: &mut [u8], atom: &Atom, wanted: &Wanted) -> Result<bool, Fault> {
        const BYTES: [usize; 2] = [24, 36];
        let mut head = MediaHead::read(moov, atom, BYTES, 0, "mdhd")?;
        let start = wanted.start_in(head.timescale);
        if head.duration <= start {
            return Ok(false);
        }
        keep(&mut self.mdhd, moov, atom, "mdhd")?;
        head.duration = wanted.limit(head.duration - start, head.timescale);
        self.media = Some(head);
        Ok(true)
    }

    fn read_minf(&mut self, moov: &mut [u8], range: Range<usize>) -> Result<(), Fault> {
        let mut at = range.start;
        while let Some(atom) = find(moov, at..range.end)? {
            at = atom.data.end;
            let has_media_head = self.vmhd.is_some() || self.smhd.is_some();
            match &atom.name {
                b"vmhd" | b"smhd" if has_media_head => {
                    return Err("duplicate mp4 vmhd/smhd atom in \"FILE\"".into());
                }
                b"vmhd" => keep(&mut self.vmhd, moov, &atom, "vmhd")?,
                b"smhd" => keep(&mut self.smhd, moov, &atom, "smhd")?,
                b"dinf" => keep(&mut self.dinf, moov, &atom, "dinf")?,
                b"stbl" => {
                    open(&mut self.stbl, moov, &atom, "stbl")?;
                    self.read_stbl(moov, atom.data)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_stbl(&mut self, moov: &mut [u8], range: Range<usize>) -> Result<(), Fault> {
        let mut at = range.start;
        while let Some(atom) = find(moov, at..range.end)? {
            at = atom.data.end;
            if &atom.name != b"stsd" {
                self.tables.read(moov, &atom)?;
                continue;
            }
            if atom.data.len() < 16 {
                return Err("\"FILE\" mp4 stsd atom too small".into());
            }
            keep(&mut self.stsd, moov, &atom, "stsd")?;
        }
        Ok(())
    }

    /// Cuts the tables and writes new sizes. Returns the range of the file that is needed.
    pub(super) fn update(
        &mut self,
        moov: &mut [u8],
        wanted: &Wanted,
        file_bytes: u64,
        mdat_end: u64,
    ) -> Result<Range<u64>, Fault> {
        let mut times = Times::default();
        if let Some(media) = &self.media {
            times.timescale = media.timescale;
            times.duration = media.duration;
        }
        let needed = self
            .tables
            .cut(moov, wanted, &mut times, file_bytes, mdat_end)?;
        let len =
            |range: &Option<Range<usize>>| range.as_ref().map_or(0, |range| range.len() as u64);
        let mut bytes = len(&self.stsd) + self.tables.bytes();
        close(&self.stbl, moov, &mut bytes);
        bytes += len(&self.vmhd) + len(&self.smhd) + len(&self.dinf);
        close(&self.minf, moov, &mut bytes);
        if let Some(media) = &self.media {
            media.set_duration(moov, times.duration);
        }
        bytes += len(&self.mdhd) + len(&self.hdlr);
        close(&self.mdia, moov, &mut bytes);
        bytes += len(&self.tkhd);
        if times.prefix > 0 {
            self.edits = edits(self.movie_duration, times.prefix);
            bytes += self.edits.len() as u64;
        }
        close(&Some(self.trak.clone()), moov, &mut bytes);
        self.bytes = bytes;
        Ok(needed)
    }

    /// Bytes of the new track.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adjusts the positions of chunks.
    pub(super) fn adjust(&self, moov: &mut [u8], adjustment: u64) {
        self.tables.adjust(moov, adjustment);
    }

    /// Appends the new track.
    pub(super) fn write(&self, moov: &[u8], out: &mut Vec<u8>) {
        let mut push = |range: &Option<Range<usize>>| {
            if let Some(range) = range {
                out.extend_from_slice(&moov[range.clone()]);
            }
        };
        push(&Some(self.trak.clone()));
        push(&self.tkhd);
        out.extend_from_slice(&self.edits);
        let mut push = |range: &Option<Range<usize>>| {
            if let Some(range) = range {
                out.extend_from_slice(&moov[range.clone()]);
            }
        };
        for range in [
            &self.mdia, &self.mdhd, &self.hdlr, &self.minf, &self.vmhd, &self.smhd, &self.dinf,
            &self.stbl, &self.stsd,
        ] {
            push(range);
        }
        self.tables.write(moov, out);
    }
}

/// Remembers an atom that is kept unchanged.
fn keep(
    slot: &mut Option<Range<usize>>,
    moov: &mut [u8],
    atom: &Atom,
    name: &str,
) -> Result<(), Fault> {
    if slot.is_some() {
        return Err(duplicate(name));
    }
    *slot = Some(atom.rename(moov));
    Ok(())
}

/// Remembers the header of a container atom.
fn open(
    slot: &mut Option<Range<usize>>,
    moov: &mut [u8],
    atom: &Atom,
    name: &str,
) -> Result<(), Fault> {
    if slot.is_some() {
        return Err(duplicate(name));
    }
    *slot = Some(atom.head(moov));
    Ok(())
}

/// Writes the final size of a container atom.
fn close(head: &Option<Range<usize>>, moov: &mut [u8], bytes: &mut u64) {
    if let Some(head) = head {
        *bytes += 8;
        set32(moov, head.start, *bytes);
    }
}

pub(super) fn duplicate(name: &str) -> Fault {
    format!("duplicate mp4 {name} atom in \"FILE\"").into()
}

/// `edts` with one edit: starts at `prefix` and has this duration.
fn edits(movie_duration: u64, prefix: u64) -> Vec<u8> {
    let mut atom = vec![0; 44];
    set32(&mut atom, 0, 44);
    atom[4..8].copy_from_slice(b"edts");
    set32(&mut atom, 8, 36);
    atom[12..16].copy_from_slice(b"elst");
    atom[16] = 1; // version
    set32(&mut atom, 20, 1); // entries
    set64(&mut atom, 24, movie_duration);
    set64(&mut atom, 32, prefix);
    atom[41] = 1; // rate
    atom
}
