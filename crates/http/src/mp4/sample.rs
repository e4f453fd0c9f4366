//! Small MP4 files of many shapes, for tests and fuzzers.

use super::atoms::whole;

/// The source of numbers below a bound: a generator, or a fuzzer's bytes.
pub type Numbers<'n> = &'n mut dyn FnMut(u32) -> u32;

struct Track {
    is_long: bool,
    wide_offsets: bool,
    uniform: Option<u32>,
    timescale: u32,
    durations: Vec<u32>,
    sizes: Vec<u32>,
    keys: Vec<u32>,
    delays: Vec<u32>,
    /// Samples of each chunk, and their description.
    chunks: Vec<(u32, u32)>,
}

/// A file with one to three tracks.
pub fn file(numbers: Numbers<'_>) -> Vec<u8> {
    let tracks: Vec<Track> = (0..1 + numbers(3)).map(|_| track(numbers)).collect();
    let index_first = numbers(3) > 0;
    let is_long = numbers(4) == 0;
    let wide_heads = numbers(5) == 0;
    let ftyp = match numbers(6) {
        0 => Vec::new(),
        _ => whole(b"ftyp", b"isom\0\0\x02\0isomiso2mp41"),
    };
    let free = match numbers(3) {
        0 => whole(b"free", &vec![b'f'; numbers(40) as usize]),
        _ => Vec::new(),
    };
    let (order, data) = interleave(&tracks);
    let mdat = match wide_heads {
        true => {
            let mut atom = [1u32.to_be_bytes(), *b"mdat"].concat();
            atom.extend_from_slice(&(data.len() as u64 + 16).to_be_bytes());
            atom.extend_from_slice(&data);
            atom
        }
        false => whole(b"mdat", &data),
    };
    let head = (mdat.len() - data.len()) as u64;
    let before = (ftyp.len() + free.len()) as u64;
    // Its length does not depend on where the data is.
    let index_bytes = index(&tracks, &order, 0, is_long).len() as u64;
    let data_at = match index_first {
        true => before + index_bytes + head,
        false => before + head,
    };
    let moov = index(&tracks, &order, data_at, is_long);
    match index_first {
        true => [ftyp, free, moov, mdat].concat(),
        false => [ftyp, free, mdat, moov].concat(),
    }
}

fn track(numbers: Numbers<'_>) -> Track {
    let samples = 1 + numbers(60);
    let uniform = (numbers(5) == 0).then(|| 1 + numbers(30));
    let (mut duration, mut delay, mut per_chunk, mut description) = (100, 0, 1, 1);
    let (mut durations, mut delays, mut sizes, mut keys) = (vec![], vec![], vec![], vec![]);
    for sample in 0..samples {
        if numbers(8) == 0 {
            duration = 1 + numbers(400);
        }
        if numbers(6) == 0 {
            delay = numbers(300);
        }
        if sample == 0 || numbers(7) == 0 {
            keys.push(sample + 1);
        }
        durations.push(duration);
        delays.push(delay);
        sizes.push(uniform.unwrap_or(numbers(40)));
    }
    let (mut chunks, mut left) = (Vec::new(), samples);
    while left > 0 {
        if numbers(4) == 0 {
            per_chunk = 1 + numbers(7);
        }
        if numbers(12) == 0 {
            description = 1 + numbers(2);
        }
        let count = left.min(per_chunk);
        chunks.push((count, description));
        left -= count;
    }
    if numbers(3) == 0 {
        keys.clear();
    }
    if numbers(2) == 0 {
        delays.clear();
    }
    Track {
        is_long: numbers(4) == 0,
        wide_offsets: numbers(4) == 0,
        uniform,
        timescale: [1000, 600, 90_000, 1][numbers(4) as usize],
        durations,
        sizes,
        keys,
        delays,
        chunks,
    }
}

/// Interleaves the chunks of all tracks: returns the positions of each track's chunks, and the
/// data.
fn interleave(tracks: &[Track]) -> (Vec<Vec<u64>>, Vec<u8>) {
    let mut order = vec![Vec::new(); tracks.len()];
    let mut next_sample = vec![0usize; tracks.len()];
    let mut data = Vec::new();
    let longest = tracks.iter().map(|track| track.chunks.len()).max();
    for chunk in 0..longest.unwrap_or(0) {
        for (number, track) in tracks.iter().enumerate() {
            let Some((count, _)) = track.chunks.get(chunk) else {
                continue;
            };
            order[number].push(data.len() as u64);
            for _ in 0..*count {
                let sample = next_sample[number];
                next_sample[number] += 1;
                let byte = (number * 64 + sample % 61) as u8;
                data.resize(data.len() + track.sizes[sample] as usize, byte);
            }
        }
    }
    (order, data)
}

fn index(tracks: &[Track], order: &[Vec<u64>], data_at: u64, is_long: bool) -> Vec<u8> {
    const SCALE: u64 = 1000;
    let total = |track: &Track| {
        track
            .durations
            .iter()
            .map(|one| u64::from(*one))
            .sum::<u64>()
    };
    let in_movie = |track: &Track| total(track) * SCALE / u64::from(track.timescale);
    let longest = tracks.iter().map(in_movie).max().unwrap_or(0);
    let mut moov = timed(b"mvhd", is_long, &(SCALE as u32).to_be_bytes(), longest, 80);
    for (track, chunks) in tracks.iter().zip(order) {
        let id = [1u32.to_be_bytes(), [0; 4]].concat();
        let mut trak = timed(b"tkhd", track.is_long, &id, in_movie(track), 60);
        let scale = track.timescale.to_be_bytes();
        let mut mdia = timed(b"mdhd", track.is_long, &scale, total(track), 4);
        mdia.extend(whole(
            b"hdlr",
            b"\0\0\0\0\0\0\0\0vide\0\0\0\0\0\0\0\0\0\0\0\0x\0",
        ));
        let mut minf = match track.keys.is_empty() {
            true => whole(b"smhd", &[0; 8]),
            false => whole(b"vmhd", &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        };
        minf.extend(whole(b"dinf", &whole(b"dref", &[0; 8])));
        minf.extend(whole(b"stbl", &tables(track, chunks, data_at)));
        mdia.extend(whole(b"minf", &minf));
        trak.extend(whole(b"edts", &[0; 12]));
        trak.extend(whole(b"mdia", &mdia));
        moov.extend(whole(b"trak", &trak));
    }
    moov.extend(whole(b"udta", b"whatever"));
    whole(b"moov", &moov)
}

/// `mvhd` and similar: times, some bytes, a duration, and a number of trailing bytes.
fn timed(name: &[u8; 4], is_long: bool, between: &[u8], duration: u64, rest: usize) -> Vec<u8> {
    let mut data = vec![u8::from(is_long), 0, 0, 0];
    data.resize(4 + if is_long { 16 } else { 8 }, 7);
    data.extend_from_slice(between);
    match is_long {
        true => data.extend_from_slice(&duration.to_be_bytes()),
        false => data.extend_from_slice(&(duration as u32).to_be_bytes()),
    }
    data.resize(data.len() + rest, 9);
    whole(name, &data)
}

fn tables(track: &Track, chunks: &[u64], data_at: u64) -> Vec<u8> {
    let mut stbl = whole(b"stsd", b"\0\0\0\0\0\0\0\x01\0\0\0\x10avc1\0\0\0\0\0\0\0\0");
    stbl.extend(table(b"stts", &runs(&track.durations)));
    if !track.keys.is_empty() {
        stbl.extend(table(b"stss", &numbers32(&track.keys)));
    }
    if !track.delays.is_empty() {
        stbl.extend(table(b"ctts", &runs(&track.delays)));
    }
    let (mut stsc, mut last) = (Vec::new(), None);
    for (number, chunk) in track.chunks.iter().enumerate() {
        if last != Some(chunk) {
            let (samples, description) = *chunk;
            stsc.push(numbers32(&[number as u32 + 1, samples, description]).concat());
            last = Some(chunk);
        }
    }
    stbl.extend(table(b"stsc", &stsc));
    let count = track.sizes.len() as u32;
    let mut stsz = numbers32(&[0, track.uniform.unwrap_or(0), count]).concat();
    if track.uniform.is_none() {
        stsz.extend(numbers32(&track.sizes).concat());
    }
    stbl.extend(whole(b"stsz", &stsz));
    let places = chunks.iter().map(|chunk| chunk + data_at);
    let (name, places): (&[u8; 4], Vec<Vec<u8>>) = match track.wide_offsets {
        true => (
            b"co64",
            places.map(|place| place.to_be_bytes().to_vec()).collect(),
        ),
        false => (
            b"stco",
            places
                .map(|place| (place as u32).to_be_bytes().to_vec())
                .collect(),
        ),
    };
    stbl.extend(table(name, &places));
    stbl
}

fn numbers32(numbers: &[u32]) -> Vec<Vec<u8>> {
    numbers
        .iter()
        .map(|number| number.to_be_bytes().to_vec())
        .collect()
}

/// Counts of equal numbers, and the numbers.
fn runs(numbers: &[u32]) -> Vec<Vec<u8>> {
    let runs = numbers.chunk_by(|a, b| a == b);
    runs.map(|run| numbers32(&[run.len() as u32, run[0]]).concat())
        .collect()
}

fn table(name: &[u8; 4], entries: &[Vec<u8>]) -> Vec<u8> {
    let mut data = vec![0; 4];
    data.extend_from_slice(&(entries.len() as u32).to_be_bytes());
    data.extend(entries.concat());
    whole(name, &data)
}
