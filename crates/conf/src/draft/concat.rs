//! `concat` and its options, while a block is read.

use super::MediaTypesDraft;
use crate::model::Concat;
use std::sync::Arc;

/// The directives of [`Concat`].
#[derive(Debug, Default, Clone)]
pub(crate) struct ConcatDraft {
    pub(crate) enabled: Option<bool>,
    pub(crate) types: Option<MediaTypesDraft>,
    pub(crate) unique: Option<bool>,
    pub(crate) max_files: Option<u64>,
    pub(crate) delimiter: Option<Arc<[u8]>>,
    pub(crate) ignore_file_error: Option<bool>,
}

const TYPES: &[&str] = &["application/javascript", "text/javascript", "text/css"];

impl ConcatDraft {
    /// What holds; `None` is off.
    pub(crate) fn finish(&self) -> Option<Arc<Concat>> {
        self.enabled.unwrap_or(false).then(|| {
            let max_files = self.max_files.unwrap_or(10);
            Arc::new(Concat {
                types: MediaTypesDraft::built(&self.types, TYPES),
                unique: self.unique.unwrap_or(true),
                max_files: u32::try_from(max_files).unwrap_or(u32::MAX),
                delimiter: self.delimiter.clone().unwrap_or_default(),
                ignore_file_error: self.ignore_file_error.unwrap_or(false),
            })
        })
    }
}
