//! Lists of media types, while a block is read.

use crate::model::{List, MediaTypes};

/// A list of media types as written.
#[derive(Debug, Clone)]
pub(crate) enum MediaTypesDraft {
    /// `*`.
    Any,
    /// These.
    Listed(List<Box<[u8]>>),
}

impl MediaTypesDraft {
    /// What holds, where `otherwise` does if nothing is written.
    pub(crate) fn built(draft: &Option<MediaTypesDraft>, otherwise: &[&str]) -> MediaTypes {
        match draft {
            None => MediaTypes::of(otherwise),
            Some(MediaTypesDraft::Any) => MediaTypes::Any,
            Some(MediaTypesDraft::Listed(types)) => {
                MediaTypes::Listed(types.iter().cloned().collect())
            }
        }
    }
}
