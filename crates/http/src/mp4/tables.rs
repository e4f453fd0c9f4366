//! The tables of a track (`stbl`): its samples, their times, sizes and positions.

use super::atoms::{Atom, number32, number64, set32, set64};
use super::track::{Times, duplicate};
use super::{Fault, Wanted};
use std::ops::Range;

/// Bytes of an entry of `stts` and `ctts`: a count and a value.
const RUN: usize = 8;

/// Bytes of an entry of `stsc`: first chunk, samples in each, description.
const CHUNKS: usize = 12;

/// A table. Positions are those in `moov`.
#[derive(Debug, Clone)]
struct Table {
    /// The atom's header, version, flags, and at its end the number of entries.
    head: Range<usize>,
    /// The entries to keep.
    data: Range<usize>,
    /// The number of entries according to the table.
    entries: u64,
}

/// The tables of a track.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Durations of samples.
    stts: Option<Table>,
    /// Samples that can be decoded without others.
    stss: Option<Table>,
    /// How much later samples are shown.
    ctts: Option<Table>,
    /// Which samples are in which chunk.
    stsc: Option<Table>,
    /// Entries before and after the kept part of `stsc`, for partial chunks.
    stsc_first: Option<[u8; CHUNKS]>,
    stsc_last: Option<[u8; CHUNKS]>,
    /// Sizes of samples; has no entries if all have the same size.
    stsz: Option<Table>,
    is_uniform: bool,
    /// Positions of chunks, in four or in eight bytes.
    stco: Option<Table>,
    co64: Option<Table>,
    samples: Samples,
}

/// The wanted part, in samples and chunks.
#[derive(Debug, Default, Clone, Copy)]
struct Samples {
    start: u64,
    end: u64,
    start_chunk: u64,
    end_chunk: u64,
    /// Samples skipped in the first chunk, and their bytes.
    start_chunk_samples: u64,
    start_chunk_bytes: u64,
    /// Samples taken from the last chunk, and their bytes.
    end_chunk_samples: u64,
    end_chunk_bytes: u64,
}

/// Which end of the part to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Start,
    End,
}

impl Table {
    fn read(
        moov: &mut [u8],
        atom: &Atom,
        fields: usize,
        entry: usize,
        name: &str,
    ) -> Result<Table, Fault> {
        let too_small = || Fault::from(format!("\"FILE\" mp4 {name} atom too small"));
        let data = atom.data.clone();
        if data.len() < fields {
            return Err(too_small());
        }
        let entries = number32(moov, data.start + fields - 4);
        let begin = data.start + fields;
        let bytes = u64::from(entries) * entry as u64;
        if bytes > (data.end - begin) as u64 {
            return Err(too_small());
        }
        Ok(Table {
            head: atom.head(moov).start..begin,
            // At most the size of the atom, so it fits.
            data: begin..begin + bytes as usize,
            entries: u64::from(entries),
        })
    }

    fn bytes(&self) -> u64 {
        (self.head.len() + self.data.len()) as u64
    }

    /// Writes the new size and number of entries.
    fn close(&self, moov: &mut [u8], bytes: u64, entries: u64) {
        set32(moov, self.head.start, bytes);
        set32(moov, self.head.end - 4, entries);
    }

    fn write(&self, moov: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&moov[self.head.clone()]);
        out.extend_from_slice(&moov[self.data.clone()]);
    }
}

impl Tables {
    /// Reads an atom of `stbl`, if it is a table.
    pub(super) fn read(&mut self, moov: &mut [u8], atom: &Atom) -> Result<(), Fault> {
        let has_chunks = self.stco.is_some() || self.co64.is_some();
        let (slot, name, entry) = match &atom.name {
            b"stts" => (&mut self.stts, "stts", RUN),
            b"stss" => (&mut self.stss, "stss", 4),
            b"ctts" => (&mut self.ctts, "ctts", RUN),
            b"stsc" => (&mut self.stsc, "stsc", CHUNKS),
            b"stsz" => return self.read_stsz(moov, atom),
            b"stco" | b"co64" if has_chunks => {
                return Err(duplicate("stco/co64"));
            }
            b"stco" => (&mut self.stco, "stco", 4),
            b"co64" => (&mut self.co64, "co64", 8),
            _ => return Ok(()),
        };
        let table = Table::read(moov, atom, 8, entry, name)?;
        if slot.is_some() {
            return Err(duplicate(name));
        }
        *slot = Some(table);
        Ok(())
    }

    fn read_stsz(&mut self, moov: &mut [u8], atom: &Atom) -> Result<(), Fault> {
        if atom.data.len() < 12 {
            return Err("\"FILE\" mp4 stsz atom too small".into());
        }
        self.is_uniform = number32(moov, atom.data.start + 4) != 0;
        let table = match self.is_uniform {
            // Kept unchanged, whatever follows.
            true => Table {
                head: atom.rename(moov),
                data: atom.data.end..atom.data.end,
                entries: 0,
            },
            false => Table::read(moov, atom, 12, 4, "stsz")?,
        };
        if self.stsz.replace(table).is_some() {
            return Err(duplicate("stsz"));
        }
        Ok(())
    }

    /// Cuts all tables. Returns the range of the file that is needed.
    pub(super) fn cut(
        &mut self,
        moov: &mut [u8],
        wanted: &Wanted,
        times: &mut Times,
        file_bytes: u64,
        mdat_end: u64,
    ) -> Result<Range<u64>, Fault> {
        self.cut_stts(moov, wanted, times)?;
        self.cut_stss(moov, wanted);
        self.cut_ctts(moov, wanted);
        self.cut_stsc(moov, wanted)?;
        self.cut_stsz(moov, wanted, file_bytes)?;
        self.cut_chunks(moov, wanted, file_bytes, mdat_end)
    }

    /// Bytes of all tables.
    pub(super) fn bytes(&self) -> u64 {
        let tables = [
            &self.stts, &self.stss, &self.ctts, &self.stsc, &self.stsz, &self.stco, &self.co64,
        ];
        let bytes: u64 = tables.into_iter().flatten().map(Table::bytes).sum();
        let parts = [&self.stsc_first, &self.stsc_last];
        bytes + (parts.into_iter().flatten().count() * CHUNKS) as u64
    }

    /// Adjusts the positions of chunks.
    pub(super) fn adjust(&self, moov: &mut [u8], adjustment: u64) {
        if let Some(table) = &self.stco {
            for at in table.data.clone().step_by(4) {
                let moved = number32(moov, at).wrapping_add(adjustment as u32);
                set32(moov, at, u64::from(moved));
            }
        }
        if let Some(table) = &self.co64 {
            for at in table.data.clone().step_by(8) {
                let moved = number64(moov, at).wrapping_add(adjustment);
                set64(moov, at, moved);
            }
        }
    }

    /// Appends the tables in nginx's order.
    pub(super) fn write(&self, moov: &[u8], out: &mut Vec<u8>) {
        for table in [&self.stts, &self.stss, &self.ctts].into_iter().flatten() {
            table.write(moov, out);
        }
        if let Some(table) = &self.stsc {
            out.extend_from_slice(&moov[table.head.clone()]);
            out.extend(self.stsc_first.iter().flatten());
            out.extend_from_slice(&moov[table.data.clone()]);
            out.extend(self.stsc_last.iter().flatten());
        }
        for table in [&self.stsz, &self.stco, &self.co64].into_iter().flatten() {
            table.write(moov, out);
        }
    }

    fn cut_stts(
        &mut self,
        moov: &mut [u8],
        wanted: &Wanted,
        times: &mut Times,
    ) -> Result<(), Fault> {
        let Some(mut table) = self.stts.take() else {
            return Err("no mp4 stts atoms were found in \"FILE\"".into());
        };
        self.start_of_times(moov, &mut table, wanted, times)?;
        if let Some(length) = wanted.length_in(times.timescale) {
            let end = length.wrapping_add(times.prefix);
            self.end_of_times(moov, &mut table, end);
        }
        table.close(moov, table.bytes(), table.entries);
        self.stts = Some(table);
        Ok(())
    }

    fn start_of_times(
        &mut self,
        moov: &mut [u8],
        table: &mut Table,
        wanted: &Wanted,
        times: &mut Times,
    ) -> Result<(), Fault> {
        let start = wanted.start_in(times.timescale);
        let Some(found) = find_time(moov, &table.data, start) else {
            return Err("start time is out mp4 stts samples in \"FILE\"".into());
        };
        let mut back = match wanted.start_key_frame {
            true => self.samples_since_key_frame(moov, found.sample as u32)?,
            false => 0,
        };
        let (mut at, mut rest) = (found.at, found.rest);
        let (mut count, mut duration) = (number32(moov, at), number32(moov, at + 4));
        let start_sample = found.sample - u64::from(back);
        while rest < back {
            // As in nginx, in four bytes.
            times.prefix += u64::from(rest.wrapping_mul(duration));
            back -= rest;
            if at == table.data.start {
                return Err("start time is out mp4 stts samples in \"FILE\"".into());
            }
            at -= RUN;
            (count, duration) = (number32(moov, at), number32(moov, at + 4));
            rest = count;
        }
        times.prefix += u64::from(back.wrapping_mul(duration));
        times.duration = times.duration.wrapping_add(times.prefix);
        rest -= back;
        set32(moov, at, u64::from(count - rest));
        table.data.start = at;
        table.entries = (table.data.len() / RUN) as u64;
        self.samples.start = start_sample;
        Ok(())
    }

    fn end_of_times(&mut self, moov: &mut [u8], table: &mut Table, end: u64) {
        match find_time(moov, &table.data, end) {
            Some(found) => {
                set32(moov, found.at, u64::from(found.rest));
                table.data.end = found.at + RUN;
                table.entries = (table.data.len() / RUN) as u64;
                self.samples.end = self.samples.start + found.sample;
            }
            None => self.samples.end = self.samples.start + all_samples(moov, &table.data),
        }
    }

    /// How many samples before this one the last key frame is.
    fn samples_since_key_frame(&self, moov: &[u8], sample: u32) -> Result<u32, Fault> {
        let Some(table) = &self.stss else {
            return Ok(0);
        };
        // Samples are counted from 1 there.
        let sample = sample.wrapping_add(1);
        let mut back = 0;
        for at in table.data.clone().step_by(4) {
            match number32(moov, at) {
                0 => return Err("zero sync sample in \"FILE\"".into()),
                key if key > sample => break,
                key => back = sample - key,
            }
        }
        Ok(back)
    }

    fn cut_stss(&mut self, moov: &mut [u8], wanted: &Wanted) {
        let Some(table) = &mut self.stss else {
            return;
        };
        let data = table.data.clone();
        let from = |moov: &[u8], data: Range<usize>, sample: u64| {
            // Counted from 1, in four bytes.
            let sample = (sample as u32).wrapping_add(1);
            let mut entries = data.clone().step_by(4);
            entries
                .find(|at| number32(moov, *at) >= sample)
                .unwrap_or(data.end)
        };
        table.data.start = from(moov, data, self.samples.start);
        if wanted.length_ms > 0 {
            table.data.end = from(moov, table.data.clone(), self.samples.end);
        }
        for at in table.data.clone().step_by(4) {
            let sample = number32(moov, at).wrapping_sub(self.samples.start as u32);
            set32(moov, at, u64::from(sample));
        }
        table.close(moov, table.bytes(), (table.data.len() / 4) as u64);
    }

    fn cut_ctts(&mut self, moov: &mut [u8], wanted: &Wanted) {
        let Some(table) = &mut self.ctts else {
            return;
        };
        let samples = &self.samples;
        match find_sample(moov, &table.data, (samples.start as u32).wrapping_add(1)) {
            Some((at, rest)) => {
                let count = number32(moov, at).wrapping_sub(rest);
                set32(moov, at, u64::from(count));
                table.data.start = at;
            }
            None => table.data.start = table.data.end,
        }
        let end = ((samples.end.wrapping_sub(samples.start)) as u32).wrapping_add(1);
        if wanted.length_ms > 0
            && let Some((at, rest)) = find_sample(moov, &table.data, end)
        {
            set32(moov, at, u64::from(rest));
            table.data.end = at + RUN;
        }
        if table.data.is_empty() {
            self.ctts = None;
            return;
        }
        table.close(moov, table.bytes(), (table.data.len() / RUN) as u64);
    }

    fn cut_stsc(&mut self, moov: &mut [u8], wanted: &Wanted) -> Result<(), Fault> {
        let Some(mut table) = self.stsc.take() else {
            return Err("no mp4 stsc atoms were found in \"FILE\"".into());
        };
        if table.data.is_empty() {
            return Err("zero number of entries in stsc atom in \"FILE\"".into());
        }
        self.cut_chunk_runs(moov, &mut table, End::Start)?;
        if wanted.length_ms > 0 {
            self.cut_chunk_runs(moov, &mut table, End::End)?;
        }
        for at in table.data.clone().step_by(CHUNKS) {
            let chunk = number32(moov, at).wrapping_sub(self.samples.start_chunk as u32);
            set32(moov, at, u64::from(chunk));
        }
        let parts = [&self.stsc_first, &self.stsc_last];
        let entries = table.data.len() / CHUNKS + parts.into_iter().flatten().count();
        let bytes = (table.head.len() + entries * CHUNKS) as u64;
        table.close(moov, bytes, entries as u64);
        self.stsc = Some(table);
        Ok(())
    }

    /// Cuts one end of the runs of chunks. A partially wanted chunk becomes a run of its own.
    fn cut_chunk_runs(
        &mut self,
        moov: &mut [u8],
        table: &mut Table,
        end: End,
    ) -> Result<(), Fault> {
        let samples_left = match end {
            End::Start => self.samples.start as u32,
            End::End => self.samples_behind_first_chunk(),
        };
        let mut run = self.find_run(moov, &table.data, samples_left, end)?;
        if run.samples == 0 {
            return Err("zero number of samples in \"FILE\"".into());
        }
        if run.chunk == 0 {
            return Err("zero chunk in \"FILE\"".into());
        }
        let target = u64::from(run.chunk - 1) + u64::from(run.left / run.samples);
        let in_chunk = run.left % run.samples;
        let found = &mut self.samples;
        if end == End::Start {
            table.data.start = run.at;
            found.start_chunk = target;
            found.start_chunk_samples = u64::from(in_chunk);
            set32(moov, run.at, target + 1);
            run.samples -= in_chunk;
        } else {
            if run.left > 0 {
                table.data.end = run.at + CHUNKS;
                found.end_chunk_samples = u64::from(run.samples);
            } else {
                table.data.end = run.at;
                found.end_chunk_samples = u64::from(run.samples_before);
            }
            found.end_chunk = target;
            if in_chunk > 0 {
                found.end_chunk = target + 1;
                found.end_chunk_samples = u64::from(in_chunk);
            }
            run.samples = in_chunk;
            run.next_chunk = run.chunk.wrapping_add(1);
        }
        if in_chunk == 0 {
            return Ok(());
        }
        if u64::from(run.next_chunk).wrapping_sub(target) == 2 {
            set32(moov, run.at + 4, u64::from(run.samples));
        } else if end == End::Start {
            self.stsc_first = Some(chunk_run(1, run.samples, run.description));
            set32(moov, run.at, target + 2);
        } else {
            let chunk = found.end_chunk.wrapping_sub(found.start_chunk) as u32;
            self.stsc_last = Some(chunk_run(chunk, run.samples, run.description));
        }
        Ok(())
    }

    /// The wanted samples of a first chunk that is a run of its own. Shortens the run if it has
    /// more chunks than that one.
    fn samples_behind_first_chunk(&mut self) -> u32 {
        let wanted = self.samples.end.wrapping_sub(self.samples.start) as u32;
        let Some(first) = &mut self.stsc_first else {
            return wanted;
        };
        let samples = number32(first, 4).min(wanted);
        set32(first, 4, u64::from(samples));
        wanted - samples
    }

    fn find_run(
        &self,
        moov: &[u8],
        data: &Range<usize>,
        mut left: u32,
        end: End,
    ) -> Result<Run, Fault> {
        let unordered = || Fault::from("unordered mp4 stsc chunks in \"FILE\"");
        let read = |at| {
            (
                number32(moov, at),
                number32(moov, at + 4),
                number32(moov, at + 8),
            )
        };
        if data.is_empty() {
            return Err("zero number of entries in stsc atom in \"FILE\"".into());
        }
        let mut at = data.start;
        let (mut chunk, mut samples, mut description) = read(at);
        let mut samples_before = 0;
        let next_chunk = loop {
            let is_last = at + CHUNKS >= data.end;
            let next_chunk = match is_last {
                true => (self.chunks() as u32).wrapping_add(1),
                false => number32(moov, at + CHUNKS),
            };
            let chunks = next_chunk.checked_sub(chunk).ok_or_else(unordered)?;
            let in_run = u64::from(chunks) * u64::from(samples);
            if is_last && u64::from(left) > in_run {
                let which = match end {
                    End::Start => "start",
                    End::End => "end",
                };
                let message = format!("{which} time is out mp4 stsc chunks in \"FILE\"");
                return Err(message.into());
            }
            if is_last || u64::from(left) < in_run {
                break next_chunk;
            }
            // Not less than what is subtracted, so that fits as well.
            left -= in_run as u32;
            if next_chunk > chunk {
                samples_before = samples;
            }
            at += CHUNKS;
            (chunk, samples, description) = read(at);
        };
        Ok(Run {
            at,
            chunk,
            next_chunk,
            samples,
            samples_before,
            description,
            left,
        })
    }

    /// The number of chunks.
    fn chunks(&self) -> u64 {
        let table = self.co64.as_ref().or(self.stco.as_ref());
        table.map_or(0, |table| table.entries)
    }

    fn cut_stsz(&mut self, moov: &mut [u8], wanted: &Wanted, file_bytes: u64) -> Result<(), Fault> {
        let Some(table) = self.stsz.as_mut().filter(|_| !self.is_uniform) else {
            return Ok(());
        };
        let found = &mut self.samples;
        let whole = table.data.clone();
        // The total size of a number of samples before a position.
        let sum = |moov: &[u8], end: usize, samples: u64, which: &str| {
            let too_large =
                || Fault::from(format!("too large mp4 {which} samples size in \"FILE\""));
            let bytes = usize::try_from(samples)
                .ok()
                .and_then(|samples| samples.checked_mul(4));
            let begin = bytes.and_then(|bytes| end.checked_sub(bytes));
            let begin = begin
                .filter(|begin| *begin >= whole.start)
                .ok_or_else(too_large)?;
            let sizes = (begin..end)
                .step_by(4)
                .map(|at| u64::from(number32(moov, at)));
            let sum: u64 = sizes.sum();
            if sum > file_bytes {
                Err(too_large())
            } else {
                Ok(sum)
            }
        };
        if found.start >= table.entries {
            return Err("start time is out mp4 stsz samples in \"FILE\"".into());
        }
        let mut entries = table.entries - found.start;
        // Below the number of entries, which are in memory.
        table.data.start += found.start as usize * 4;
        found.start_chunk_bytes = sum(moov, table.data.start, found.start_chunk_samples, "start")?;
        if wanted.length_ms > 0 {
            let taken = found.end.wrapping_sub(found.start);
            if taken > entries {
                return Err("end time is out mp4 stsz samples in \"FILE\"".into());
            }
            entries = taken;
            table.data.end = table.data.start + taken as usize * 4;
            found.end_chunk_bytes = sum(moov, table.data.end, found.end_chunk_samples, "end")?;
        }
        table.close(moov, table.bytes(), entries);
        Ok(())
    }

    fn cut_chunks(
        &mut self,
        moov: &mut [u8],
        wanted: &Wanted,
        file_bytes: u64,
        mdat_end: u64,
    ) -> Result<Range<u64>, Fault> {
        let is_long = self.co64.is_some();
        let (slot, name, width) = match is_long {
            true => (&mut self.co64, "co64", 8),
            false => (&mut self.stco, "stco", 4),
        };
        let Some(table) = slot else {
            return Err("no mp4 stco atoms were found in \"FILE\"".into());
        };
        let found = &self.samples;
        if found.start_chunk >= table.entries {
            return Err(format!("start time is out mp4 {name} chunks in \"FILE\"").into());
        }
        // The end of this many bytes of the chunk at a position.
        let position = |moov: &[u8], at: usize, bytes: u64| {
            let (offset, limit) = match is_long {
                true => (number64(moov, at), u64::MAX),
                false => (u64::from(number32(moov, at)), u64::from(u32::MAX)),
            };
            match offset.checked_add(bytes) {
                Some(end) if end <= file_bytes && end <= limit => Ok(end),
                _ => Err(Fault::from("too large chunk offset in \"FILE\"")),
            }
        };
        // Below the number of entries, which are in memory.
        table.data.start += found.start_chunk as usize * width;
        let start = position(moov, table.data.start, found.start_chunk_bytes)?;
        match is_long {
            true => set64(moov, table.data.start, start),
            false => set32(moov, table.data.start, start),
        }
        let mut entries = table.entries - found.start_chunk;
        let mut needed = start..mdat_end;
        if wanted.length_ms > 0 {
            let out = || Fault::from(format!("end time is out mp4 {name} chunks in \"FILE\""));
            if found.end_chunk > table.entries {
                return Err(out());
            }
            entries = found
                .end_chunk
                .checked_sub(found.start_chunk)
                .ok_or_else(out)?;
            table.data.end = table.data.start + entries as usize * width;
            needed.end = match entries {
                0 => 0,
                _ => position(moov, table.data.end - width, found.end_chunk_bytes)?,
            };
        }
        if entries == 0 {
            needed = file_bytes..0;
        }
        table.close(moov, table.bytes(), entries);
        Ok(needed)
    }
}

/// A run of chunks with equal numbers of samples that contains one end of the part.
struct Run {
    at: usize,
    /// Its first chunk, and that of the next run.
    chunk: u32,
    next_chunk: u32,
    samples: u32,
    /// Samples in each chunk of the previous run.
    samples_before: u32,
    description: u32,
    /// Samples of the run before that end.
    left: u32,
}

fn chunk_run(chunk: u32, samples: u32, description: u32) -> [u8; CHUNKS] {
    let mut run = [0; CHUNKS];
    set32(&mut run, 0, u64::from(chunk));
    set32(&mut run, 4, u64::from(samples));
    set32(&mut run, 8, u64::from(description));
    run
}

/// The position of a time among runs of samples.
struct FoundTime {
    /// Position of the run.
    at: usize,
    /// Samples before that time, in total and within the run.
    sample: u64,
    rest: u32,
}

fn find_time(moov: &[u8], data: &Range<usize>, mut time: u64) -> Option<FoundTime> {
    let mut sample = 0;
    for at in data.clone().step_by(RUN) {
        let (count, duration) = (number32(moov, at), number32(moov, at + 4));
        let run = u64::from(count) * u64::from(duration);
        if time < run {
            // Less than the count, so it fits.
            let rest = (time / u64::from(duration)) as u32;
            sample += u64::from(rest);
            return Some(FoundTime { at, sample, rest });
        }
        sample += u64::from(count);
        time -= run;
    }
    None
}

fn all_samples(moov: &[u8], data: &Range<usize>) -> u64 {
    let counts = data.clone().step_by(RUN).map(|at| number32(moov, at));
    counts.map(u64::from).sum()
}

/// The run that contains a sample, counted from 1, and the samples of the previous run.
fn find_sample(moov: &[u8], data: &Range<usize>, mut sample: u32) -> Option<(usize, u32)> {
    for at in data.clone().step_by(RUN) {
        let count = number32(moov, at);
        if sample <= count {
            return Some((at, sample.wrapping_sub(1)));
        }
        sample -= count;
    }
    None
}
