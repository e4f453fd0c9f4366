//! Compression of responses, while a block is read.

use super::MediaTypesDraft;
use crate::model::{
    Compression, Compressor, GzipClients, GzipProxied, List, StaticCoding, StaticCodings,
};
use crate::regex::Regex;
use std::sync::Arc;

/// The directives of [`Compression`], [`StaticCodings`] and [`GzipClients`].
#[derive(Debug, Default, Clone)]
pub(crate) struct CompressionDraft {
    pub(crate) zstd: CompressorDraft,
    pub(crate) brotli: CompressorDraft,
    pub(crate) gzip: CompressorDraft,
    pub(crate) gzip_http10: Option<bool>,
    pub(crate) gzip_proxied: Option<GzipProxied>,
    pub(crate) gzip_disable: Option<List<Regex>>,
    pub(crate) gzip_disable_msie6: Option<bool>,
}

/// The directives of one coding.
#[derive(Debug, Default, Clone)]
pub(crate) struct CompressorDraft {
    pub(crate) on: Option<bool>,
    pub(crate) level: Option<u64>,
    pub(crate) window_bits: Option<u8>,
    pub(crate) min_length: Option<u64>,
    pub(crate) types: Option<MediaTypesDraft>,
    pub(crate) precompressed: Option<StaticCoding>,
}

/// Default of `gzip_min_length` and the like.
const MIN_BYTES: u64 = 20;

/// The window of deflate, and of `brotli_window` where it is not written.
const GZIP_WINDOW_BITS: u8 = 15;
const BROTLI_WINDOW_BITS: u8 = 19;
/// The window that every zstd client must support (RFC 9659): 8 MiB.
const ZSTD_WINDOW_BITS: u8 = 23;

impl CompressionDraft {
    /// Takes what is not set here from the enclosing block.
    pub(crate) fn inherit(&mut self, outer: &CompressionDraft) {
        self.zstd.inherit(&outer.zstd);
        self.brotli.inherit(&outer.brotli);
        self.gzip.inherit(&outer.gzip);
        self.gzip_http10 = self.gzip_http10.or(outer.gzip_http10);
        self.gzip_proxied = self.gzip_proxied.or(outer.gzip_proxied);
        self.gzip_disable_msie6 = self.gzip_disable_msie6.or(outer.gzip_disable_msie6);
        if self.gzip_disable.is_none() {
            self.gzip_disable.clone_from(&outer.gzip_disable);
        }
    }

    /// What compresses.
    pub(crate) fn build(&self) -> Compression {
        Compression {
            zstd: self.zstd.build(1, ZSTD_WINDOW_BITS),
            brotli: self.brotli.build(6, BROTLI_WINDOW_BITS),
            gzip: self.gzip.build(1, GZIP_WINDOW_BITS),
        }
    }

    /// Which files are compressed already.
    pub(crate) fn static_codings(&self) -> StaticCodings {
        StaticCodings {
            zstd: self.zstd.precompressed.unwrap_or_default(),
            brotli: self.brotli.precompressed.unwrap_or_default(),
            gzip: self.gzip.precompressed.unwrap_or_default(),
        }
    }

    /// Which clients get gzip; `None` is [`GzipClients::default`].
    pub(crate) fn gzip_clients(&self) -> Option<Arc<GzipClients>> {
        let mut clients = GzipClients {
            http10: self.gzip_http10.unwrap_or(false),
            proxied: self.gzip_proxied.unwrap_or_default(),
            disable: self.gzip_disable.clone().unwrap_or_default(),
            disable_msie6: self.gzip_disable_msie6.unwrap_or(false),
        };
        if clients.proxied.off {
            clients.proxied = GzipProxied::default();
        }
        (clients != GzipClients::default()).then(|| Arc::new(clients))
    }
}

impl CompressorDraft {
    fn inherit(&mut self, outer: &CompressorDraft) {
        self.on = self.on.or(outer.on);
        self.level = self.level.or(outer.level);
        self.window_bits = self.window_bits.or(outer.window_bits);
        self.min_length = self.min_length.or(outer.min_length);
        self.precompressed = self.precompressed.or(outer.precompressed);
        if self.types.is_none() {
            self.types.clone_from(&outer.types);
        }
    }

    fn build(&self, level: u8, window_bits: u8) -> Option<Arc<Compressor>> {
        self.on.unwrap_or(false).then(|| {
            Arc::new(Compressor {
                level: self.level.map_or(level, |level| level as u8), // at most 22
                window_bits: self.window_bits.unwrap_or(window_bits),
                min_bytes: self.min_length.unwrap_or(MIN_BYTES),
                types: MediaTypesDraft::built(&self.types, &["text/html"]),
            })
        })
    }
}
