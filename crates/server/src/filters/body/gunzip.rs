//! `gunzip`: decompresses bodies for clients that do not accept gzip.

use super::head;
use super::transformed::{Transform, TransformStatus, transform};
use crate::body_source::SourceError;
use crate::codings::{self, Coding};
use crate::exchange::Exchange;
use crate::request_log::log_request;
use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use sealane_io::chain::OutputChain;

/// Decompresses the body if it is compressed and the client does not accept that.
pub(super) fn apply(exchange: &mut Exchange) {
    let coding = head::content_encoding(&exchange.response);
    if !coding.is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip")) {
        return;
    }
    exchange.response.varies_by_encoding = true;
    if codings::takes(exchange, Coding::Gzip) {
        return;
    }
    head::clear_content_encoding(&mut exchange.response);
    head::forget_length(&mut exchange.response);
    head::weaken_etag(exchange);
    transform(exchange, Gunzip::new());
}

/// Bytes that are made at a time.
const OUTPUT_BYTES: usize = 16 << 10;

/// 16 for the wrapper of RFC 1952, 15 for the largest window.
const WINDOW_BITS: u8 = 15;

struct Gunzip {
    state: Decompress,
    /// A member has begun and not ended.
    in_member: bool,
    /// The body is not gzip: the rest is not read.
    is_broken: bool,
}

impl Gunzip {
    fn new() -> Gunzip {
        Gunzip {
            state: Decompress::new_gzip(WINDOW_BITS),
            in_member: false,
            is_broken: false,
        }
    }
}

impl Transform for Gunzip {
    fn step(
        &mut self,
        exchange: &mut Exchange,
        input: &mut Bytes,
        ended: bool,
        output: &mut OutputChain,
        max_bytes: usize,
    ) -> Result<TransformStatus, SourceError> {
        if self.is_broken {
            return Err(SourceError);
        }
        let mut made = Vec::with_capacity(max_bytes.min(OUTPUT_BYTES));
        loop {
            if input.is_empty() && !self.in_member {
                break;
            }
            let (before_in, before_out) = (self.state.total_in(), made.len());
            let result = self
                .state
                .decompress_vec(input, &mut made, FlushDecompress::None);
            let taken = self.state.total_in() - before_in;
            input.advance(taken as usize); // at most what is there
            self.in_member = true;
            match result {
                Ok(Status::StreamEnd) => {
                    // Another member may follow (RFC 1952 section 2.2).
                    self.state = Decompress::new_gzip(WINDOW_BITS);
                    self.in_member = false;
                }
                Ok(Status::Ok | Status::BufError) if taken > 0 || made.len() > before_out => {}
                Ok(Status::Ok | Status::BufError) => break,
                Err(error) => {
                    self.is_broken = true;
                    log_request!(
                        exchange,
                        Error,
                        "gunzip: the body is not in gzip format ({error}); the response is cut"
                    );
                    return Err(SourceError);
                }
            }
            if made.len() == made.capacity() {
                output.push_made(made);
                return Ok(TransformStatus::Full);
            }
        }
        output.push_made(made);
        if ended && self.in_member {
            self.is_broken = true;
            log_request!(
                exchange,
                Error,
                "gunzip: the compressed body is incomplete; the response is cut"
            );
            return Err(SourceError);
        }
        Ok(if ended {
            TransformStatus::Ended
        } else {
            TransformStatus::Hungry
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn member() -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"a body").expect("memory takes it");
        encoder.finish().expect("memory takes it")
    }

    #[test]
    fn an_error_is_final() {
        let site = Site::new("");
        let mut exchange = site.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut step = |gunzip: &mut Gunzip, input: &[u8], ended| {
            let (mut input, mut output) = (Bytes::copy_from_slice(input), OutputChain::new());
            gunzip.step(&mut exchange, &mut input, ended, &mut output, 1000)
        };
        let member = member();
        for wrong in 0..member.len() {
            let mut broken = member.clone();
            broken[wrong] ^= 0xff;
            for cut in 0..=broken.len() {
                let mut gunzip = Gunzip::new();
                let (first, second) = broken.split_at(cut);
                let failed = step(&mut gunzip, first, false).is_err()
                    || step(&mut gunzip, second, true).is_err();
                // Some bytes of the header mean nothing to us.
                for input in [&member[..], b"", b"no gzip"] {
                    assert!(!failed || step(&mut gunzip, input, false).is_err());
                }
            }
        }
        let mut gunzip = Gunzip::new();
        assert!(step(&mut gunzip, &member[..9], true).is_err(), "it was cut");
        assert!(step(&mut gunzip, &member[9..], true).is_err(), "for good");
    }
}
