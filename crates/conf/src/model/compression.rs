//! Compressed responses: what compresses them, precompressed files, and which client gets
//! which.

use super::{List, MediaTypes};
use crate::regex::Regex;
use std::sync::Arc;

/// What compresses responses in a location.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Compression {
    /// `zstd`; `None` where it is off.
    pub zstd: Option<Arc<Compressor>>,
    /// `brotli`; `None` where it is off.
    pub brotli: Option<Arc<Compressor>>,
    /// `gzip`; `None` where it is off.
    pub gzip: Option<Arc<Compressor>>,
}

/// The highest level at which Brotli compresses responses while they are sent; `brotli_comp_level`
/// may be higher. Levels above it take 33 MiB and more for each response, and 10 and 11 a second
/// and more of a worker's time for each MiB.
pub const BROTLI_MAX_LEVEL: u8 = 8;

/// How one coding compresses.
#[derive(Debug, Clone, PartialEq)]
pub struct Compressor {
    /// `gzip_comp_level` and the like.
    pub level: u8,
    /// Size of the window as a power of two: `brotli_window`; elsewhere the coding's largest.
    pub window_bits: u8,
    /// `gzip_min_length` and the like: shorter bodies are not compressed.
    pub min_bytes: u64,
    /// `gzip_types` and the like.
    pub types: MediaTypes,
}

/// Precompressed files next to others: `gzip_static` and the like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StaticCodings {
    /// `zstd_static`: `FILE.zst`.
    pub zstd: StaticCoding,
    /// `brotli_static`: `FILE.br`.
    pub brotli: StaticCoding,
    /// `gzip_static`: `FILE.gz`.
    pub gzip: StaticCoding,
}

/// Which clients get a precompressed file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StaticCoding {
    /// `off`.
    #[default]
    Off,
    /// `on`: clients that take the coding.
    On,
    /// `always`.
    Always,
}

/// Which clients get gzip, beyond their `Accept-Encoding`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GzipClients {
    /// `gzip_http_version 1.0`: HTTP/1.0 will do.
    pub http10: bool,
    /// `gzip_proxied`, for requests with a `Via`.
    pub proxied: GzipProxied,
    /// `gzip_disable`: not those whose `User-Agent` one of these matches.
    pub disable: List<Regex>,
    /// `gzip_disable msie6`.
    pub disable_msie6: bool,
}

/// `gzip_proxied`: which responses to proxies are compressed. Nothing of it is `off`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GzipProxied {
    /// `off`, which outweighs all others.
    pub off: bool,
    /// `expired`: with an `Expires` in the past.
    pub expired: bool,
    /// `no-cache` in `Cache-Control`.
    pub no_cache: bool,
    /// `no-store` in `Cache-Control`.
    pub no_store: bool,
    /// `private` in `Cache-Control`.
    pub private: bool,
    /// `no_last_modified`: without `Last-Modified`.
    pub no_last_modified: bool,
    /// `no_etag`: without `ETag`.
    pub no_etag: bool,
    /// `auth`: to requests with `Authorization`.
    pub auth: bool,
    /// `any`.
    pub any: bool,
}
