//! The libraries against what decompresses.

use super::*;
use flate2::read::MultiGzDecoder;
use sealane_conf::model::MediaTypes;
use std::io::Read;

fn settings(level: u8, window_bits: u8) -> Compressor {
    Compressor {
        level,
        window_bits,
        min_bytes: 0,
        types: MediaTypes::Any,
    }
}

fn settings_of(coding: Coding, level: u8) -> Compressor {
    settings(
        level,
        match coding {
            Coding::Gzip => 15,
            Coding::Brotli => 19,
            Coding::Zstd => 23,
        },
    )
}

pub(crate) fn decompress(coding: Coding, compressed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        Coding::Gzip => drop(MultiGzDecoder::new(compressed).read_to_end(&mut out)),
        Coding::Brotli => {
            drop(brotli::Decompressor::new(compressed, 4096).read_to_end(&mut out));
        }
        Coding::Zstd => {
            let mut state = zstd_safe::DCtx::create();
            let mut input = InBuffer::around(compressed);
            loop {
                let mut piece = Vec::with_capacity(64 << 10);
                let mut room = OutBuffer::around(&mut piece);
                let result = state.decompress_stream(&mut room, &mut input);
                out.extend_from_slice(&piece);
                if result.is_err()
                    || (piece.len() < piece.capacity() && input.pos() == compressed.len())
                {
                    break;
                }
            }
        }
    }
    out
}

/// Text that compresses somewhat, the same each time.
fn text(bytes: usize) -> Vec<u8> {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 24
    };
    let words = ["alpha ", "beta ", "gamma ", "delta\n", "epsilon, "];
    let mut text = Vec::new();
    while text.len() < bytes {
        text.extend_from_slice(words[next() as usize % words.len()].as_bytes());
        text.push(b'a' + (next() % 26) as u8);
    }
    text.truncate(bytes);
    text
}

/// Runs to the end with little room at a time.
fn compress(
    codec: &mut dyn Codec,
    mut input: &[u8],
    room_bytes: usize,
    last: Operation,
) -> Vec<u8> {
    let mut compressed = Vec::new();
    loop {
        let mut output = Vec::with_capacity(room_bytes);
        let piece = &input[..input.len().min(5000)];
        let operation = match piece.len() == input.len() {
            true => last,
            false => Operation::Process,
        };
        let (taken, done) = codec
            .run(piece, &mut output, operation)
            .expect("good input");
        assert!(output.len() <= output.capacity());
        compressed.extend_from_slice(&output);
        input = &input[taken..];
        if done && operation == last && input.is_empty() {
            return compressed;
        }
    }
}

#[test]
fn what_is_compressed_is_what_went_in() {
    for coding in Coding::ALL {
        let levels = match coding {
            Coding::Gzip => [1, 6, 9],
            Coding::Brotli => [0, 6, 11],
            Coding::Zstd => [1, 9, 22],
        };
        for level in levels {
            for (bytes, is_known) in [
                (0, false),
                (0, true),
                (1, true),
                (300, true),
                (90_000, true),
                (90_000, false),
            ] {
                let plain = text(bytes);
                let length = is_known.then_some(bytes as u64);
                let mut codec = new(coding, &settings_of(coding, level), length).expect("memory");
                let compressed = compress(&mut *codec, &plain, 700, Operation::Finish);
                let back = decompress(coding, &compressed);
                assert!(back == plain, "{coding:?} {level} {bytes}");
                assert!(
                    bytes < 1000 || compressed.len() < bytes / 2,
                    "{coding:?} {level}"
                );
            }
        }
    }
}

#[test]
fn what_is_flushed_can_be_read() {
    for coding in Coding::ALL {
        let plain = text(20_000);
        let mut codec = new(coding, &settings_of(coding, 5), None).expect("memory");
        let mut compressed = compress(&mut *codec, &plain, 700, Operation::Flush);
        assert!(decompress(coding, &compressed) == plain, "{coding:?}");
        // Once more, with nothing to say: it must end.
        compressed.extend(compress(&mut *codec, b"", 700, Operation::Flush));
        compressed.extend(compress(&mut *codec, b"end", 700, Operation::Finish));
        let back = decompress(coding, &compressed);
        assert!(
            back.ends_with(b"end") && back.len() == plain.len() + 3,
            "{coding:?}"
        );
    }
}

#[test]
fn no_level_of_zstd_takes_more_than_is_said() {
    for level in 1..=22 {
        for body_bytes in [None, Some(127 << 10), Some(200 << 10), Some(1 << 30)] {
            let settings = settings_of(Coding::Zstd, level);
            let mut codec = Zstd::new(&settings, body_bytes).expect("memory");
            let mut output = Vec::with_capacity(100_000);
            codec
                .run(&text(100_000), &mut output, Operation::Process)
                .expect("good input");
            let (taken, most) = (
                codec.0.sizeof() as u64,
                most_bytes(Coding::Zstd, &settings, body_bytes),
            );
            assert!(taken <= most, "{level} {body_bytes:?}: {taken}");
            assert!(most <= ZSTD_MAX_BYTES);
        }
    }
}

#[test]
fn windows_are_no_larger_than_bodies_need() {
    for (bytes, wanted) in [
        (None, 15),
        (Some(0), 15),
        (Some(1), 9),
        (Some(249), 9),
        (Some(250), 10),
        (Some(16_121), 14),
        (Some(16_122), 15),
        (Some(1 << 40), 15),
    ] {
        assert_eq!(fitting(15, 9, 262, bytes), wanted, "{bytes:?}");
    }
}

#[test]
fn brotli_finds_as_much_in_long_bodies_as_in_short_ones() {
    let short = blocks(900 << 10);
    let long = blocks(3 << 20);
    let compressed_bytes = |plain: &[u8], window_bits, length| {
        let mut codec = new(Coding::Brotli, &settings(6, window_bits), length).expect("memory");
        let compressed = compress(&mut *codec, plain, 16 << 10, Operation::Finish);
        assert!(decompress(Coding::Brotli, &compressed) == plain);
        compressed.len() as u64
    };
    let wanted = compressed_bytes(&short, 19, None);
    for (window_bits, length) in [(19, None), (19, Some(long.len() as u64)), (16, None)] {
        let bytes = compressed_bytes(&long, window_bits, length);
        let per_byte = |bytes: u64, of: &[u8]| bytes * 1000 / of.len() as u64;
        let (is, must) = (per_byte(bytes, &long), per_byte(wanted, &short));
        assert!(
            is <= must + must / 10,
            "{window_bits} {length:?}: {is} {must}"
        );
    }
}

/// Text whose words come again within 200 KiB, the same each time.
fn blocks(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut made: Vec<u8> = (0..1000).map(|_| next(256) as u8).collect();
    while made.len() < bytes {
        let from = next(made.len().min(200 << 10));
        let from = made.len() - 1 - from;
        let to = (from + 20 + next(60)).min(made.len());
        made.extend_from_within(from..to);
        made.push(next(256) as u8);
    }
    made.truncate(bytes);
    made
}

#[test]
fn no_level_of_brotli_has_tables_of_more_than_16_mib() {
    for level in 0..=11 {
        for body_bytes in [Some(0), Some(3000), Some(200_000), Some(1 << 30), None] {
            let level = settings_of(Coding::Brotli, level)
                .level
                .min(BROTLI_MAX_LEVEL);
            for window_bits in [10, 16, 19] {
                let (bits, hint) = brotli_window(level, window_bits, body_bytes);
                // What is searched in less takes 33 MiB.
                assert!(level < 5 || bits >= 17, "{level} {window_bits}");
                assert!(bits <= 19);
                let fits = body_bytes.is_some_and(|bytes| bytes + 16 <= 1 << bits);
                let is_long = bits >= 19 && hint > 4 << 20;
                assert!(level < 5 || fits || is_long, "{level} {body_bytes:?}");
            }
        }
    }
}
