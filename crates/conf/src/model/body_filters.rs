//! Filters that change the body of a response.

use super::Compression;
use super::TextFilters;

/// What changes bodies in a location; locations where nothing does have none of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BodyFilters {
    /// `gunzip`; default off.
    pub gunzip: bool,
    /// `sub_filter`, `add_before_body`, `charset` and what belongs to them.
    pub texts: TextFilters,
    /// `zstd`, `brotli` and `gzip`.
    pub compression: Compression,
}
