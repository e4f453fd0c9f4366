//! Filters that change the body of a response, while a block is read.

use super::CompressionDraft;
use super::TextFiltersDraft;
use crate::model::BodyFilters;
use std::sync::Arc;

/// The directives of [`BodyFilters`].
#[derive(Debug, Default, Clone)]
pub(crate) struct BodyFiltersDraft {
    pub(crate) gunzip: Option<bool>,
    pub(crate) texts: TextFiltersDraft,
    pub(crate) compression: CompressionDraft,
}

impl BodyFiltersDraft {
    /// Takes what is not set here from the enclosing block.
    pub(crate) fn inherit(&mut self, outer: &BodyFiltersDraft) {
        self.gunzip = self.gunzip.or(outer.gunzip);
        self.texts.inherit(&outer.texts);
        self.compression.inherit(&outer.compression);
    }

    /// What holds; nothing where no filter is on.
    pub(crate) fn build(&self) -> Option<Arc<BodyFilters>> {
        let filters = BodyFilters {
            gunzip: self.gunzip.unwrap_or(false),
            texts: self.texts.build(),
            compression: self.compression.build(),
        };
        let is_any = filters != BodyFilters::default();
        is_any.then(|| Arc::new(filters))
    }
}
