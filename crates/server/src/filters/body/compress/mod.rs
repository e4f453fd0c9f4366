//! `gzip`, `brotli`, `zstd`: compress bodies while they are sent.

mod codecs;
mod memory;

use super::head;
use super::transformed::{Transform, TransformStatus, transform};
use crate::body_source::SourceError;
use crate::codings::{self, Coding};
use crate::exchange::Exchange;
use crate::request_log::log_request;
use bytes::{Buf, Bytes};
use codecs::{Codec, Operation};
use memory::Share;
use sealane_conf::model::{Compression, Compressor};
use sealane_http::Method;
use sealane_io::chain::OutputChain;

/// What a request keeps for compression.
#[derive(Default)]
pub(crate) struct CompressState {
    /// The body was compressed, to its end.
    pub(crate) compressed: Option<Box<Compressed>>,
}

/// What compression has made of a body (`$gzip_ratio`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compressed {
    /// The coding.
    pub(crate) coding: Coding,
    /// Bytes before.
    pub(crate) in_bytes: u64,
    /// Bytes after.
    pub(crate) out_bytes: u64,
}

/// Compresses the response if it suits a coding of the location that the client accepts.
pub(super) fn apply(exchange: &mut Exchange, compression: &Compression) {
    for coding in Coding::ALL {
        let Some(settings) = coding.compressor(compression) else {
            continue;
        };
        if !suits(exchange, settings) {
            continue;
        }
        exchange.response.varies_by_encoding = true;
        if codings::takes(exchange, coding) {
            let bytes = codecs::most_bytes(coding, settings, exchange.response.content_length);
            if let Some(share) = memory::share(exchange, bytes) {
                compress(exchange, coding, settings, share);
            }
            return;
        }
    }
}

/// nginx's conditions for gzip; those of the other codings are the same.
fn suits(exchange: &Exchange, settings: &Compressor) -> bool {
    let response = &exchange.response;
    matches!(response.status.0, 200 | 403 | 404)
        && head::content_encoding(response).is_none_or(<[u8]>::is_empty)
        && response
            .content_length
            .is_none_or(|bytes| bytes >= settings.min_bytes)
        && head::is_of(response, &settings.types)
}

fn compress(exchange: &mut Exchange, coding: Coding, settings: &Compressor, share: Share) {
    let body_bytes = exchange.response.content_length;
    head::set_content_encoding(&mut exchange.response, coding.name());
    head::forget_length(&mut exchange.response);
    head::weaken_etag(exchange);
    if exchange.request.head.method == Method::Head {
        return;
    }
    match codecs::new(coding, settings, body_bytes) {
        Some(codec) => transform(
            exchange,
            Compress {
                coding,
                codec,
                _share: share,
                bite_bytes: bite_bytes(coding, settings.level),
                made: Vec::new(),
                ready: OutputChain::new(),
                finished: false,
                in_bytes: 0,
                out_bytes: 0,
            },
        ),
        // There was no memory for it: a response without an end is better than a wrong body.
        None => transform(exchange, OutOfMemory(coding)),
    }
}

/// Input of one step, after which other tasks run: about a millisecond's work, or what the slowest
/// levels need to be of any use.
fn bite_bytes(coding: Coding, level: u8) -> usize {
    let is_slow = match coding {
        Coding::Gzip => level > 6,
        Coding::Brotli => level > 4,
        Coding::Zstd => level > 6,
    };
    if is_slow { 16 << 10 } else { 64 << 10 }
}

/// Compressed bytes that are collected before they are sent.
const OUTPUT_BYTES: usize = 16 << 10;

struct Compress {
    coding: Coding,
    codec: Box<dyn Codec>,
    _share: Share,
    bite_bytes: usize,
    /// Less than is worth sending.
    made: Vec<u8>,
    /// Output beyond what was asked for.
    ready: OutputChain,
    finished: bool,
    in_bytes: u64,
    out_bytes: u64,
}

impl Compress {
    /// One call of the library. Returns how much it has taken, and whether the operation is
    /// complete.
    fn run(
        &mut self,
        exchange: &Exchange,
        input: &[u8],
        operation: Operation,
    ) -> Result<(usize, bool), SourceError> {
        if self.made.capacity() == 0 {
            self.made.reserve_exact(OUTPUT_BYTES);
        }
        let before_bytes = self.made.len();
        let result = self.codec.run(input, &mut self.made, operation);
        let made_bytes = self.made.len() - before_bytes;
        match result {
            // A library that makes no progress would be called forever.
            Ok((0, false)) if made_bytes == 0 && self.made.len() < self.made.capacity() => {
                self.complain(exchange, "it does not go on")
            }
            Ok((taken_bytes, done)) => {
                self.in_bytes += taken_bytes as u64;
                self.out_bytes += made_bytes as u64;
                Ok((taken_bytes, done))
            }
            Err(reason) => self.complain(exchange, &reason),
        }
    }

    fn complain<T>(&self, exchange: &Exchange, reason: &str) -> Result<T, SourceError> {
        let name = self.coding.name();
        log_request!(
            exchange,
            Alert,
            "compressing with {name} failed: {reason}; the response is cut"
        );
        Err(SourceError)
    }

    fn is_full(&self) -> bool {
        self.made.len() == self.made.capacity()
    }

    /// Makes the output available.
    fn release(&mut self) {
        if !self.made.is_empty() {
            self.ready.push_made(std::mem::take(&mut self.made));
        }
    }

    fn conclude(&mut self, exchange: &mut Exchange) {
        self.finished = true;
        exchange.features.compress.compressed = Some(Box::new(Compressed {
            coding: self.coding,
            in_bytes: self.in_bytes,
            out_bytes: self.out_bytes,
        }));
    }
}

impl Transform for Compress {
    fn step(
        &mut self,
        exchange: &mut Exchange,
        input: &mut Bytes,
        ended: bool,
        output: &mut OutputChain,
        max_bytes: usize,
    ) -> Result<TransformStatus, SourceError> {
        let mut bite_bytes = input.len().min(self.bite_bytes);
        let is_last = ended && bite_bytes == input.len();
        while !self.finished && self.ready.len() < max_bytes as u64 {
            let operation = match is_last {
                true => Operation::Finish,
                false if bite_bytes == 0 => break,
                false => Operation::Process,
            };
            let (taken_bytes, done) = self.run(exchange, &input[..bite_bytes], operation)?;
            input.advance(taken_bytes);
            bite_bytes -= taken_bytes;
            if is_last && done {
                self.conclude(exchange);
                self.release();
            } else if self.is_full() {
                self.release();
            }
        }
        output.append(self.ready.split_to(max_bytes as u64));
        Ok(if self.finished && self.ready.is_empty() {
            TransformStatus::Ended
        } else if ended || !self.ready.is_empty() || !input.is_empty() {
            TransformStatus::Full
        } else {
            TransformStatus::Hungry
        })
    }

    fn flush(&mut self, exchange: &mut Exchange, output: &mut OutputChain) {
        // An error here shows again with the next step.
        while let Ok((_, false)) = self.run(exchange, &[], Operation::Flush) {
            if self.is_full() {
                self.release();
            }
        }
        self.release();
        output.append(std::mem::take(&mut self.ready));
    }

    fn turn_bytes(&self) -> usize {
        self.bite_bytes
    }
}

/// The body of a response that cannot be compressed although its head announces it.
struct OutOfMemory(Coding);

impl Transform for OutOfMemory {
    fn step(
        &mut self,
        exchange: &mut Exchange,
        _input: &mut Bytes,
        _ended: bool,
        _output: &mut OutputChain,
        _max_bytes: usize,
    ) -> Result<TransformStatus, SourceError> {
        let name = self.0.name();
        log_request!(
            exchange,
            Alert,
            "compressing with {name} failed: no memory; the response is cut"
        );
        Err(SourceError)
    }
}
