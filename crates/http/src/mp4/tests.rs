//! `sealane-server` compares responses with nginx's if there is an nginx. These tests check what
//! must hold whatever a file contains.

use super::*;

/// Numbers that look random (xorshift).
fn generator(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 33) as u32) % below
    }
}

fn wanted(start_ms: u64, length_ms: u64) -> Wanted {
    Wanted {
        start_ms,
        length_ms,
        start_key_frame: false,
        buffer_bytes: 512 << 10,
        max_buffer_bytes: 10 << 20,
    }
}

/// Cuts bytes in memory, and checks what is asked for.
fn cut_bytes(file: &[u8], wanted: &Wanted) -> Result<Cut, Mp4Error<()>> {
    let limit = wanted
        .buffer_bytes
        .max(wanted.max_buffer_bytes)
        .max(SCAN_BYTES) as usize;
    let cut = cut(file.len() as u64, wanted, |offset, len| {
        assert!(len <= limit, "{len} bytes are more than {limit}");
        let begin = usize::try_from(offset).expect("it lies in the file");
        Ok(file[begin..begin + len].to_vec())
    });
    if let Ok(Cut::Part { head, data }) = &cut {
        assert!(
            data.start < data.end && data.end <= file.len() as u64,
            "{data:?}"
        );
        assert!(head.len() <= file.len() + 2048, "{}", head.len());
        assert_eq!(lengths(head), head.len() as u64 + data.end - data.start);
    }
    cut
}

/// The sum of the atoms' lengths, the last of which is `mdat`.
fn lengths(head: &[u8]) -> u64 {
    let (mut at, mut sum) = (0, 0);
    while at + 8 <= head.len() {
        let size = u64::from(atoms::number32(head, at));
        if &head[at + 4..at + 8] == b"mdat" {
            return sum + size;
        }
        sum += size;
        at += size as usize;
    }
    sum
}

#[test]
fn good_files_are_cut_wherever_there_are_samples() {
    let mut parts = 0;
    for seed in 0..300 {
        let mut numbers = generator(seed);
        let file = sample::file(&mut numbers);
        for _ in 0..20 {
            let mut wanted = wanted(u64::from(numbers(8000)), u64::from(numbers(3)) * 700);
            wanted.start_key_frame = numbers(2) == 0;
            // Past the end of every track there is nothing: an error, but no part.
            if let Ok(Cut::Part { head, data }) = cut_bytes(&file, &wanted) {
                parts += 1;
                let again = [&head[..], &file[data.start as usize..data.end as usize]].concat();
                // What comes out is a file that can be cut again.
                let whole = cut_bytes(
                    &again,
                    &Wanted {
                        start_ms: 0,
                        length_ms: 0,
                        ..wanted
                    },
                );
                assert_eq!(whole.expect("it is well-formed"), Cut::Whole);
            }
        }
    }
    assert!(parts > 1000, "{parts}");
}

#[test]
fn hostile_files_are_refused_without_harm() {
    let rounds = 20_000;
    for seed in 0..rounds {
        let mut numbers = generator(seed);
        let mut file = sample::file(&mut numbers);
        for _ in 0..1 + numbers(6) {
            let at = numbers(file.len() as u32) as usize;
            match numbers(4) {
                0 => file[at] = numbers(256) as u8,
                1 if at + 4 <= file.len() => {
                    let value = [0, 1, 7, 8, 255, u32::MAX, u32::MAX - 7][numbers(7) as usize];
                    file[at..at + 4].copy_from_slice(&value.to_be_bytes());
                }
                2 if numbers(4) == 0 => file.truncate(at.max(1)),
                _ => {
                    let from = numbers(file.len() as u32) as usize;
                    let len = (numbers(40) as usize).min(file.len() - at.max(from));
                    file.copy_within(from..from + len, at);
                }
            }
        }
        let mut wanted = wanted(u64::from(numbers(3000)), u64::from(numbers(2)) * 500);
        wanted.start_key_frame = numbers(2) == 0;
        let _ = cut_bytes(&file, &wanted);
        wanted.start_ms = [u64::MAX >> 1, 1 << 40][numbers(2) as usize];
        let _ = cut_bytes(&file, &wanted);
    }
}

#[test]
fn an_index_is_no_larger_than_allowed() {
    let mut file = atoms::whole(b"ftyp", b"isom");
    let moov_at = file.len();
    file.extend(atoms::whole(b"moov", &vec![0; 5000]));
    let mut small = wanted(1, 0);
    (small.buffer_bytes, small.max_buffer_bytes) = (1000, 4999);
    let refused = cut_bytes(&file, &small).expect_err("it is too large");
    assert!(
        matches!(&refused, Mp4Error::Malformed(text) if text.contains("moov atom is too large:5000")),
        "{refused:?}"
    );
    small.max_buffer_bytes = 5000;
    let other = cut_bytes(&file, &small).expect_err("there are no tracks");
    assert!(!format!("{other:?}").contains("large"), "{other:?}");
    // A size that says more than there is.
    file[moov_at..moov_at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let refused = cut_bytes(&file, &small).expect_err("it is too large");
    assert!(
        format!("{refused:?}").contains("mp4 atom too large:4294967295"),
        "{refused:?}"
    );
}

/// An index of a file with this many empty tracks.
fn tracks(count: usize) -> Vec<u8> {
    let moov = atoms::whole(b"moov", &atoms::whole(b"trak", b"").repeat(count));
    [atoms::whole(b"ftyp", b"isom"), moov].concat()
}

#[test]
fn tracks_are_counted() {
    let file = tracks(MAX_TRACKS);
    let refused = cut_bytes(&file, &wanted(1, 0)).expect_err("there is no media");
    assert!(
        format!("{refused:?}").contains("no mp4 mdat"),
        "{refused:?}"
    );
    let file = tracks(MAX_TRACKS + 1);
    let refused = cut_bytes(&file, &wanted(1, 0)).expect_err("they are too many");
    assert!(
        format!("{refused:?}").contains("mp4 file has more than 256 tracks"),
        "{refused:?}"
    );
}

/// A file of nothing but small atoms is not read to its end.
#[test]
fn atoms_of_the_file_are_counted() {
    let file = atoms::whole(b"free", b"").repeat(1 << 20);
    let mut read_bytes = 0;
    let refused = cut(file.len() as u64, &wanted(1, 0), |offset, len| {
        read_bytes += len;
        let begin = offset as usize;
        Ok::<_, ()>(file[begin..begin + len].to_vec())
    });
    let refused = refused.expect_err("they are too many");
    assert!(
        format!("{refused:?}").contains("mp4 file has more than 1000 atoms"),
        "{refused:?}"
    );
    assert!(read_bytes <= SCAN_BYTES as usize, "{read_bytes}");
}

#[test]
fn what_cannot_be_read_is_said() {
    let refused: Result<Cut, Mp4Error<&str>> = cut(100, &wanted(1, 0), |_, _| Err("bad sector"));
    assert!(
        matches!(refused, Err(Mp4Error::Read("bad sector"))),
        "{refused:?}"
    );
}

#[test]
fn seconds_of_players() {
    for (text, milliseconds_wanted) in [
        ("0", Some(0)),
        ("1", Some(1000)),
        ("1.5", Some(1500)),
        ("1.23456789012345678901234567890", Some(1234)),
        (".5", Some(500)),
        ("1.", Some(1000)),
        (".", Some(0)),
        ("1.2.3", None),
        ("-1", None),
        ("1e3", None),
        ("", None),
        ("9223372036854775", Some(9_223_372_036_854_775_000)),
        ("9223372036854776", None),
        ("99999999999999999999", None),
    ] {
        assert_eq!(milliseconds(text.as_bytes()), milliseconds_wanted, "{text}");
    }
}
