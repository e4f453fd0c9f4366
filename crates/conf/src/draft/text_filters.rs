//! Filters of texts while a block is read.

use super::MediaTypesDraft;
use crate::model::{Addition, Charset, CharsetName, Replacements, SubFilter, TextFilters};
use std::sync::Arc;

/// The directives of [`TextFilters`].
#[derive(Debug, Default, Clone)]
pub(crate) struct TextFiltersDraft {
    pub(crate) replacements: Option<Arc<Replacements>>,
    pub(crate) sub_once: Option<bool>,
    pub(crate) sub_last_modified: Option<bool>,
    pub(crate) sub_types: Option<MediaTypesDraft>,
    pub(crate) before_body: Option<Arc<[u8]>>,
    pub(crate) after_body: Option<Arc<[u8]>>,
    pub(crate) addition_types: Option<MediaTypesDraft>,
    /// `Some(None)`: off.
    pub(crate) charset: Option<Option<CharsetName>>,
    pub(crate) source_charset: Option<CharsetName>,
    pub(crate) override_charset: Option<bool>,
    pub(crate) charset_types: Option<MediaTypesDraft>,
}

const HTML: &[&str] = &["text/html"];

const CHARSET_TYPES: &[&str] = &[
    "text/html",
    "text/xml",
    "text/plain",
    "text/vnd.wap.wml",
    "application/javascript",
    "application/rss+xml",
];

impl TextFiltersDraft {
    /// What is not said here is said by the block around.
    pub(crate) fn inherit(&mut self, outer: &TextFiltersDraft) {
        fn take<T: Clone>(own: &mut Option<T>, outer: &Option<T>) {
            if own.is_none() {
                own.clone_from(outer);
            }
        }
        take(&mut self.replacements, &outer.replacements);
        take(&mut self.sub_once, &outer.sub_once);
        take(&mut self.sub_last_modified, &outer.sub_last_modified);
        take(&mut self.sub_types, &outer.sub_types);
        take(&mut self.before_body, &outer.before_body);
        take(&mut self.after_body, &outer.after_body);
        take(&mut self.addition_types, &outer.addition_types);
        take(&mut self.charset, &outer.charset);
        take(&mut self.source_charset, &outer.source_charset);
        take(&mut self.override_charset, &outer.override_charset);
        take(&mut self.charset_types, &outer.charset_types);
    }

    /// What holds.
    pub(crate) fn build(&self) -> TextFilters {
        let sub = self.replacements.as_ref().map(|replacements| {
            Arc::new(SubFilter {
                replacements: Arc::clone(replacements),
                once: self.sub_once.unwrap_or(true),
                last_modified: self.sub_last_modified.unwrap_or(false),
                types: MediaTypesDraft::built(&self.sub_types, HTML),
            })
        });
        let (before, after) = (path(&self.before_body), path(&self.after_body));
        let adds = !before.is_empty() || !after.is_empty();
        let addition = adds.then(|| {
            Arc::new(Addition {
                before,
                after,
                types: MediaTypesDraft::built(&self.addition_types, HTML),
            })
        });
        let named = self.charset.clone().flatten();
        let charset = (named.is_some() || self.source_charset.is_some()).then(|| {
            Arc::new(Charset {
                named,
                source: self.source_charset.clone(),
                override_charset: self.override_charset.unwrap_or(false),
                types: MediaTypesDraft::built(&self.charset_types, CHARSET_TYPES),
            })
        });
        TextFilters {
            sub,
            addition,
            charset,
        }
    }
}

fn path(written: &Option<Arc<[u8]>>) -> Arc<[u8]> {
    written.clone().unwrap_or_default()
}
