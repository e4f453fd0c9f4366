//! The compression libraries behind one interface: bytes in, bytes out, no I/O.
//!
//! `docs/performance.md` lists how much memory each needs while a response is sent. A response
//! of known length that is shorter than the window gets a smaller window.

use crate::codings::Coding;
use brotli::enc::StandardAlloc;
use brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};
use flate2::{Compress, Compression, FlushCompress, Status};
use sealane_conf::model::{BROTLI_MAX_LEVEL, Compressor};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

/// What a compressor is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Take input, and produce output as it suits the format.
    Process,
    /// Output everything that has been taken, so that it can be read.
    Flush,
    /// As `Flush`, and the end.
    Finish,
}

/// A compressor at work.
pub(super) trait Codec: Send {
    /// Takes bytes from the front of `input` and appends to `output` as far as there is room.
    /// Returns how much was taken, and whether the operation is complete.
    ///
    /// # Errors
    /// The library's reason.
    fn run(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        operation: Operation,
    ) -> Result<(usize, bool), String>;
}

/// A compressor for a body of this length, if that is known; `None` when there is no memory.
pub(super) fn new(
    coding: Coding,
    settings: &Compressor,
    body_bytes: Option<u64>,
) -> Option<Box<dyn Codec>> {
    Some(match coding {
        Coding::Gzip => Box::new(Gzip::new(settings, body_bytes)),
        Coding::Brotli => Box::new(Brotli::new(settings, body_bytes)),
        Coding::Zstd => Box::new(Zstd::new(settings, body_bytes)?),
    })
}

/// The most memory that a compressor for a body of this length takes; measured
/// (`docs/performance.md`).
pub(super) fn most_bytes(coding: Coding, settings: &Compressor, body_bytes: Option<u64>) -> u64 {
    const MIB: u64 = 1 << 20;
    let is_short = body_bytes.is_some_and(|bytes| bytes > 0 && bytes < 128 << 10);
    match (coding, settings.level) {
        (Coding::Gzip, _) => MIB / 2,
        (Coding::Brotli, 0 | 1) => MIB,
        (Coding::Brotli, 2..=4) if is_short => 3 * MIB,
        (Coding::Brotli, 2..=4) => 8 * MIB,
        (Coding::Brotli, 5..=7) if is_short => 4 * MIB,
        (Coding::Brotli, 5..=7) => 12 * MIB,
        (Coding::Brotli, _) if is_short => 18 * MIB,
        (Coding::Brotli, _) => 24 * MIB,
        (Coding::Zstd, level) if is_short && level < ZSTD_LARGE_LEVEL => 4 * MIB,
        (Coding::Zstd, 0 | 1) => 2 * MIB,
        (Coding::Zstd, 2..=5) => 8 * MIB,
        (Coding::Zstd, 6..ZSTD_LARGE_LEVEL) => 16 * MIB,
        (Coding::Zstd, _) => ZSTD_MAX_BYTES,
    }
}

/// The smallest window that suits a body of this length. A format cannot use the last `lost_bytes`
/// of it.
fn fitting(window_bits: u8, least_bits: u8, lost_bytes: u64, body_bytes: Option<u64>) -> u8 {
    let Some(bytes) = body_bytes.filter(|bytes| *bytes > 0) else {
        return window_bits;
    };
    let mut bits = window_bits;
    while bits > least_bits && bytes + lost_bytes < 1 << (bits - 1) {
        bits -= 1;
    }
    bits
}

/// The level used for `gzip_comp_level 1`, the default.
const GZIP_LEAST_LEVEL: u8 = 2;

struct Gzip(Compress);

impl Gzip {
    fn new(settings: &Compressor, body_bytes: Option<u64>) -> Gzip {
        let bits = fitting(settings.window_bits, 9, 262, body_bytes);
        // The first level of this library compresses so little that responses would be a third
        // larger than nginx's. Its second level takes less time than zlib's first and compresses
        // better.
        let level = Compression::new(settings.level.max(GZIP_LEAST_LEVEL).into());
        Gzip(Compress::new_gzip(level, bits))
    }
}

impl Codec for Gzip {
    fn run(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        operation: Operation,
    ) -> Result<(usize, bool), String> {
        let before = self.0.total_in();
        let flush = match operation {
            Operation::Process => FlushCompress::None,
            Operation::Flush => FlushCompress::Sync,
            Operation::Finish => FlushCompress::Finish,
        };
        let status = self.0.compress_vec(input, output, flush);
        let status = status.map_err(|error| error.to_string())?;
        let taken = (self.0.total_in() - before) as usize; // at most what is there
        let done = match operation {
            Operation::Finish => status == Status::StreamEnd,
            // As documented by zlib: room is left when there is nothing more to write.
            Operation::Process | Operation::Flush => output.len() < output.capacity(),
        };
        Ok((taken, done))
    }
}

struct Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>);

impl Brotli {
    fn new(settings: &Compressor, body_bytes: Option<u64>) -> Brotli {
        use BrotliEncoderParameter::{
            BROTLI_PARAM_LGWIN, BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT,
        };
        let level = settings.level.min(BROTLI_MAX_LEVEL);
        let (bits, hint) = brotli_window(level, settings.window_bits, body_bytes);
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        state.set_parameter(BROTLI_PARAM_QUALITY, level.into());
        state.set_parameter(BROTLI_PARAM_LGWIN, bits.into());
        state.set_parameter(BROTLI_PARAM_SIZE_HINT, hint);
        Brotli(Box::new(state))
    }
}

impl Codec for Brotli {
    fn run(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        operation: Operation,
    ) -> Result<(usize, bool), String> {
        let (mut left_bytes, mut taken_bytes) = (input.len(), 0);
        let (start, room) = (output.len(), output.capacity());
        output.resize(room, 0);
        let (mut room_left, mut end) = (room - start, start);
        let well = self.0.compress_stream(
            match operation {
                Operation::Process => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
                Operation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
                Operation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
            },
            &mut left_bytes,
            input,
            &mut taken_bytes,
            &mut room_left,
            output,
            &mut end,
            &mut None,
            &mut |_, _, _, _| (),
        );
        output.truncate(end);
        if !well {
            return Err("the library has refused".to_owned());
        }
        let done = match operation {
            Operation::Finish => self.0.is_finished(),
            Operation::Process | Operation::Flush => left_bytes == 0 && !self.0.has_more_output(),
        };
        Ok((taken_bytes, done))
    }
}

/// The window for a level of Brotli and a body of this length, and the length that the library is
/// told, by which it chooses how to search.
///
/// From level 5 on, the library's search in tables of 32 KiB to 4 MiB (its `H5`) finds next to
/// nothing in bodies longer than two windows. The one for long bodies in windows of 512 KiB and
/// more (`H6`) does. The one for windows of up to 64 KiB takes 33 MiB.
fn brotli_window(level: u8, window_bits: u8, body_bytes: Option<u64>) -> (u8, u32) {
    if level < BROTLI_CAREFUL_LEVEL {
        let bits = fitting(window_bits, 10, 16, body_bytes);
        let hint = body_bytes.map_or(0, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        return (bits, hint);
    }
    let bits = fitting(window_bits.max(17), 17, 16, body_bytes);
    match body_bytes.filter(|bytes| bytes + 16 <= 1 << bits) {
        Some(bytes) => (bits, bytes as u32), // at most 16 MiB, the largest window
        None => (bits.max(BROTLI_LONG_BITS), BROTLI_LONG_BYTES),
    }
}

/// From this level on, the library remembers several positions for each hash.
const BROTLI_CAREFUL_LEVEL: u8 = 5;
/// From this length on, the library takes a body for a long one.
const BROTLI_LONG_BITS: u8 = 19;
const BROTLI_LONG_BYTES: u32 = (4 << 20) + 1;

struct Zstd(CCtx<'static>);

impl Zstd {
    fn new(settings: &Compressor, body_bytes: Option<u64>) -> Option<Zstd> {
        let mut state = CCtx::try_create()?;
        let level = settings.level.into();
        let _ = state.set_parameter(CParameter::CompressionLevel(level));
        if settings.level >= ZSTD_LARGE_LEVEL {
            let window_bits = settings.window_bits.min(ZSTD_WINDOW_BITS).into();
            let _ = state.set_parameter(CParameter::WindowLog(window_bits));
            let _ = state.set_parameter(CParameter::HashLog(ZSTD_HASH_BITS));
            let _ = state.set_parameter(CParameter::ChainLog(ZSTD_CHAIN_BITS));
        }
        let _ = state.set_pledged_src_size(body_bytes);
        Some(Zstd(state))
    }
}

/// From this level on, zstd's own windows and tables would take 45 to 665 MiB per response; with
/// these they take [`ZSTD_MAX_BYTES`] at most.
const ZSTD_LARGE_LEVEL: u8 = 10;
/// 4 MiB; clients need not accept more than 8 MiB (RFC 9659).
const ZSTD_WINDOW_BITS: u8 = 22;
/// Entries of four bytes.
const ZSTD_HASH_BITS: u32 = 20;
const ZSTD_CHAIN_BITS: u32 = 21;

/// Memory of zstd for a response, whatever its level.
const ZSTD_MAX_BYTES: u64 = 24 << 20;

impl Codec for Zstd {
    fn run(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        operation: Operation,
    ) -> Result<(usize, bool), String> {
        let mut input = InBuffer::around(input);
        let start = output.len();
        let mut room = OutBuffer::around_pos(output, start);
        let left = self.0.compress_stream2(
            &mut room,
            &mut input,
            match operation {
                Operation::Process => ZSTD_EndDirective::ZSTD_e_continue,
                Operation::Flush => ZSTD_EndDirective::ZSTD_e_flush,
                Operation::Finish => ZSTD_EndDirective::ZSTD_e_end,
            },
        );
        let left = left.map_err(|code| zstd_safe::get_error_name(code).to_owned())?;
        Ok((input.pos(), left == 0))
    }
}

#[cfg(test)]
mod tests;
