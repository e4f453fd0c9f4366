//! Several files in one response.

use super::MediaTypes;
use std::sync::Arc;

/// `concat` and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concat {
    /// `concat_types`; default `application/javascript`, `text/javascript` and `text/css`.
    pub types: MediaTypes,
    /// `concat_unique`: all files of a request have the same type; default on.
    pub unique: bool,
    /// `concat_max_files`: files that a request may name; default 10.
    pub max_files: u32,
    /// `concat_delimiter`: what stands between two files; default nothing.
    pub delimiter: Arc<[u8]>,
    /// `concat_ignore_file_error`: files that cannot be served are left out; default off.
    pub ignore_file_error: bool,
}
